(enum_entry name: (simple_identifier) @name) @definition.variant
(typealias_declaration name: (type_identifier) @name) @definition.type
