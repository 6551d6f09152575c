(field_definition property: (property_identifier) @name) @definition.field
