(const_declaration (const_element (name) @name)) @definition.constant
(enum_declaration name: (name) @name) @definition.enum
(enum_case name: (name) @name) @definition.variant
(namespace_definition name: (namespace_name (name) @name)) @definition.namespace
