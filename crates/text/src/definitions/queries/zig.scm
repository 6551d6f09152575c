(function_declaration name: (identifier) @name) @definition.function
(source_file (variable_declaration . (identifier) @name) @definition.variable)
(struct_declaration (variable_declaration . (identifier) @name) @definition.variable)
(container_field name: (identifier) @name) @definition.field
