(namespace_definition name: (namespace_identifier) @name) @definition.namespace
(alias_declaration name: (type_identifier) @name) @definition.type
(function_declarator declarator: (qualified_identifier name: (qualified_identifier name: (identifier) @name))) @definition.method
