//! who-calls and who-references.

use super::{Row, row};

pub(super) fn rows() -> Vec<Row> {
    vec![
        // The tools' definitions.
        row("wc1", "tools/list", "…")
            .field("/who-calls/inputSchema/type", r#""object""#)
            .field("/who-calls/inputSchema/required", r#"["name"]"#)
            .field("/who-calls/inputSchema/properties/name/type", r#""string""#)
            .field("/who-calls/inputSchema/properties/package/type", r#""string""#)
            .field("/who-calls/inputSchema/properties/package/default", r#""CL-USER""#),
        row("wr1", "tools/list", "…")
            .field("/who-references/inputSchema/type", r#""object""#)
            .field("/who-references/inputSchema/required", r#"["name"]"#)
            .field("/who-references/inputSchema/properties/name/type", r#""string""#)
            .field("/who-references/inputSchema/properties/package/type", r#""string""#)
            .field("/who-references/inputSchema/properties/package/default", r#""CL-USER""#),
        row("wc2", "tools/list", "…").field(
            "/who-calls/inputSchema/properties/package/description",
            r#""Package name (defaults to CL-USER).""#,
        ),
        row("wr2", "tools/list", "…").field(
            "/who-references/inputSchema/properties/package/description",
            r#""Package name (defaults to CL-USER).""#,
        ),
        // The symbol: upcased, unless it is escaped; an explicit package is obeyed.
        row(
            "wc3",
            r#"who-calls {"name": "Same-Name", "package": "my-other"}"#,
            "Functions that call MY-OTHER::SAME-NAME:\n\n  MY-PACKAGE::SAME-NAME\n…",
        ),
        row(
            "wc3",
            r#"who-calls {"name": "my-function", "package": "CL-USER"}"#,
            "Symbol MY-FUNCTION not found in package CL-USER (status: NIL)\n…",
        )
        .missing(),
        row(
            "wc3",
            r#"who-calls {"name": "my-function"}"#,
            "Symbol MY-FUNCTION not found in package CL-USER (status: NIL)\n…",
        )
        .instead("Functions that call MY-PACKAGE::MY-FUNCTION:\n\n…")
        .field("/looked_up_in", r#""MY-PACKAGE""#),
        row(
            "wr3",
            r#"who-references {"name": "*my-var*", "package": "cl-user"}"#,
            "Symbol *MY-VAR* not found in package CL-USER (status: NIL)\n…",
        )
        .missing(),
        row(
            "wr3",
            r#"who-references {"name": "*my-var*"}"#,
            "Symbol *MY-VAR* not found in package CL-USER (status: NIL)\n…",
        )
        .instead("Code that references MY-PACKAGE::*MY-VAR*:\n\n…")
        .field("/looked_up_in", r#""MY-PACKAGE""#),
        // Heading, a blank line, an entry a line.
        row(
            "wc4",
            r#"who-calls {"name": "run", "package": "CL-MCP"}"#,
            "Functions that call CL-MCP::RUN:\n\n  CL-MCP::MAIN\n  COMMON-LISP-USER::TEST-RUN\n…",
        ),
        row(
            "wr4",
            r#"who-references {"name": "*my-var*", "package": "my-package"}"#,
            "Code that references MY-PACKAGE::*MY-VAR*:\n\n  MY-PACKAGE::CALLER-A\n  MY-PACKAGE::READER\n…",
        ),
        // The documents' examples of nothing found.
        row(
            "wc5",
            r#"who-calls {"name": "my-unused-function", "package": "MY-PACKAGE"}"#,
            "No callers found for MY-PACKAGE::MY-UNUSED-FUNCTION",
        ),
        row(
            "wc5",
            r#"who-calls {"name": "my-macro", "package": "MY-PACKAGE"}"#,
            "No callers found for MY-PACKAGE::MY-MACRO\n…",
        ),
        row(
            "wr5",
            r#"who-references {"name": "*my-unused-var*", "package": "MY-PACKAGE"}"#,
            "No references found for MY-PACKAGE::*MY-UNUSED-VAR*",
        ),
        // PACKAGE::NAME, and methods as lists.
        row(
            "wc6",
            r#"who-calls {"name": "my-function", "package": "my-package"}"#,
            "…\n  MY-PACKAGE::CALLER-A\n…",
        ),
        row(
            "wc6",
            r#"who-calls {"name": "my-function", "package": "my-package"}"#,
            "…\n  (METHOD MY-PACKAGE::MY-GENERIC (MY-PACKAGE::MY-CLASS))\n…",
        ),
        // Callers of the setf function are listed with those of the function, and told apart.
        row(
            "wc6",
            r#"who-calls {"name": "place", "package": "my-package"}"#,
            "…\n  MY-PACKAGE::PLACE-SETTER\n…uses (SETF MY-PACKAGE::PLACE)…",
        )
        .field("/users/0/setf", "\"only\""),
        row(
            "wc6",
            r#"who-calls {"name": "(setf place)", "package": "my-package"}"#,
            "…\n  MY-PACKAGE::PLACE-SETTER\n…",
        )
        .field("/users/0/setf", "null"),
        row(
            "wr6",
            r#"who-references {"name": "+my-constant+", "package": "my-package"}"#,
            "Code that references MY-PACKAGE::+MY-CONSTANT+:\n\n  MY-PACKAGE::USES-CONSTANTS\n…",
        ),
        // Sorted, as the documents' examples are, by PACKAGE::NAME; each once; all of them.
        row("wc7", r#"who-calls {"name": "my-function", "package": "my-package"}"#, CALLERS),
        row(
            "wr7",
            r#"who-references {"name": "*my-var*", "package": "my-package"}"#,
            "…:\n\n  MY-PACKAGE::CALLER-A\n  MY-PACKAGE::READER\n…",
        ),
        row("wc8", r#"who-calls {"name": "my-function", "package": "my-package"}"#, CALLERS),
        row(
            "wr8",
            r#"who-references {"name": "*my-var*", "package": "my-package"}"#,
            "…:\n\n  MY-PACKAGE::CALLER-A\n  MY-PACKAGE::READER\n…",
        )
        .field("/count", "2"),
        row("wc9", r#"who-calls {"name": "my-function", "package": "my-package"}"#, CALLERS)
            .field("/count", "9")
            .field("/cursor", "null"),
        row(
            "wr9",
            r#"who-references {"name": "**my-global**", "package": "my-package"}"#,
            "…:\n\n  MY-PACKAGE::USES-CONSTANTS\n…",
        )
        .field("/count", "1")
        .field("/cursor", "null"),
        // The documents' examples.
        row(
            "wc10",
            r#"who-calls {"name": "mapcar", "package": "CL"}"#,
            "Functions that call COMMON-LISP::MAPCAR:\n\n  …\n  SB-ALIEN::LOAD-ALIEN-ENUM\n  …",
        )
        // All of them, on one page.
        .field("/count", "394")
        .field("/cursor", "null"),
        row(
            "wr10",
            r#"who-references {"name": "*print-base*", "package": "CL"}"#,
            "Code that references COMMON-LISP::*PRINT-BASE*:\n\n  …\n  COMMON-LISP::WRITE\n  …",
        ),
        row(
            "wc11",
            r#"who-calls {"name": "nonexistent"}"#,
            "Symbol NONEXISTENT not found in package CL-USER (status: NIL)",
        )
        .missing(),
        row(
            "wc11",
            r#"who-calls {"name": "my-function", "package": "NONEXISTENT"}"#,
            "Package NONEXISTENT not found\n…",
        )
        .missing(),
        row(
            "wc11",
            r##"who-calls {"name": "#:x"}"##,
            "Symbol #:X not found in package CL-USER (status: NIL)\n…",
        )
        .missing(),
        row(
            "wr11",
            r#"who-references {"name": "*nonexistent*"}"#,
            "Symbol *NONEXISTENT* not found in package CL-USER (status: NIL)",
        )
        .missing(),
        row(
            "wr11",
            r#"who-references {"name": "*var*", "package": "NONEXISTENT"}"#,
            "Package NONEXISTENT not found",
        )
        .missing(),
        // As sb-introspect has them; tests/it/oracle.rs compares all names.
        row(
            "wc12",
            r#"who-calls {"name": "same-name", "package": "my-third"}"#,
            "Functions that call MY-THIRD::SAME-NAME:\n\n  MY-PACKAGE::SAME-NAME\n…",
        ),
        row(
            "wr12",
            r#"who-references {"name": "**my-global**", "package": "my-package"}"#,
            "Code that references MY-PACKAGE::**MY-GLOBAL**:\n\n  MY-PACKAGE::USES-CONSTANTS\n…",
        ),
        // Neither binders nor setters read it; a lexical variable is none.
        row(
            "wr13",
            r#"who-references {"name": "*my-var*", "package": "my-package"}"#,
            "Code that references MY-PACKAGE::*MY-VAR*:\n\n  MY-PACKAGE::CALLER-A\n  MY-PACKAGE::READER\n…",
        ),
        row(
            "wr13",
            r#"who-references {"name": "my-var", "package": "my-package"}"#,
            "No references found for MY-PACKAGE::MY-VAR",
        ),
        row(
            "wr14",
            r#"who-references {"name": "+my-constant+", "package": "my-package"}"#,
            "Code that references MY-PACKAGE::+MY-CONSTANT+:\n\n  MY-PACKAGE::USES-CONSTANTS\n…",
        ),
        row(
            "wr14",
            r#"who-references {"name": "my-symbol-macro", "package": "my-package"}"#,
            "No references found for MY-PACKAGE::MY-SYMBOL-MACRO",
        ),
    ]
}

const CALLERS: &str = "Functions that call MY-PACKAGE::MY-FUNCTION:

  MY-PACKAGE::BOM
  MY-PACKAGE::CALLER-A
  MY-PACKAGE::CALLER-B
  MY-PACKAGE::CRLF
  MY-PACKAGE::EXPANDER
  MY-PACKAGE::GENERATED
  MY-PACKAGE::GRÖßE
  MY-PACKAGE::LOOSE
  (METHOD MY-PACKAGE::MY-GENERIC (MY-PACKAGE::MY-CLASS))
…";
