(union_specifier name: (type_identifier) @name body: (_)) @definition.union
(preproc_def name: (identifier) @name) @definition.macro
(preproc_function_def name: (identifier) @name) @definition.macro
(enumerator name: (identifier) @name) @definition.variant
(field_declaration declarator: (field_identifier) @name) @definition.field
(translation_unit (declaration declarator: (init_declarator declarator: (identifier) @name)) @definition.variable)
