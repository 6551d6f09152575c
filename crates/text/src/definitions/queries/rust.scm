(const_item name: (identifier) @name) @definition.constant
(static_item name: (identifier) @name) @definition.variable
(function_signature_item name: (identifier) @name) @definition.method
(enum_variant name: (identifier) @name) @definition.variant
(field_declaration name: (field_identifier) @name) @definition.field
(associated_type name: (type_identifier) @name) @definition.type
