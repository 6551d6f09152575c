(class_declaration name: (identifier) @name) @definition.class
(object_declaration name: (identifier) @name) @definition.object
(function_declaration name: (identifier) @name) @definition.function
(type_alias type: (identifier) @name) @definition.type
(enum_entry (identifier) @name) @definition.variant
(source_file (property_declaration (variable_declaration (identifier) @name)) @definition.property)
(class_body (property_declaration (variable_declaration (identifier) @name)) @definition.property)
