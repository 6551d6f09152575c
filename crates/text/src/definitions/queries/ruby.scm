(assignment left: (constant) @name) @definition.constant
