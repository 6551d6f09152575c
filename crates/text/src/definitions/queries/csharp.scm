(namespace_declaration name: (identifier) @name) @definition.namespace
(struct_declaration name: (identifier) @name) @definition.struct
(record_declaration name: (identifier) @name) @definition.struct
(enum_declaration name: (identifier) @name) @definition.enum
(enum_member_declaration name: (identifier) @name) @definition.variant
(delegate_declaration name: (identifier) @name) @definition.type
(property_declaration name: (identifier) @name) @definition.property
(constructor_declaration name: (identifier) @name) @definition.constructor
(field_declaration (variable_declaration (variable_declarator name: (identifier) @name))) @definition.field
