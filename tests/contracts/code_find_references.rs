//! code-find-references: its contract is the structured answer.

use super::{Row, row};

pub(super) fn rows() -> Vec<Row> {
    vec![
        row("cf1", "tools/list", "…")
            .field("/code-find-references/inputSchema/required", r#"["symbol"]"#)
            .field("/code-find-references/inputSchema/properties/symbol/type", r#""string""#)
            .field("/code-find-references/inputSchema/properties/package/type", r#""string""#)
            .field("/code-find-references/inputSchema/properties/package/default", r#""CL-USER""#)
            .field("/code-find-references/inputSchema/properties/project_only/type", r#""boolean""#)
            .field("/code-find-references/inputSchema/properties/project_only/default", "true"),
        row(
            "cf2",
            r#"code-find-references {"symbol": "nonexistent"}"#,
            "Symbol NONEXISTENT not found in package CL-USER (status: NIL)\n…",
        )
        .error()
        .missing(),
        row(
            "cf2",
            r#"code-find-references {"symbol": "my-function", "package": "CL-USER"}"#,
            "Symbol MY-FUNCTION not found in package CL-USER (status: NIL)\n…",
        )
        .error()
        .missing(),
        row(
            "cf2",
            r##"code-find-references {"symbol": "#:x"}"##,
            "Symbol #:X not found in package CL-USER (status: NIL)\n…",
        )
        .error()
        .missing(),
        row("cf2", r#"code-find-references {"symbol": "nonexistent:x"}"#, "Package NONEXISTENT not found\n…")
            .error()
            .missing(),
        // The five kinds of use of SBCL's are joined.
        row("cf3", r#"code-find-references {"symbol": "*my-var*", "package": "my-package"}"#, "…").field(
            "/refs",
            r#"[
                { "path": "main.lisp", "line": 16, "type": "reference", "caller": "MY-PACKAGE::CALLER-A" },
                { "path": "main.lisp", "line": 17, "type": "reference", "caller": "MY-PACKAGE::READER" },
                { "path": "main.lisp", "line": 18, "type": "bind", "caller": "MY-PACKAGE::BINDER" },
                { "path": "main.lisp", "line": 19, "type": "set", "caller": "MY-PACKAGE::SETTER" },
                { "path": "main.lisp", "line": 42, "type": "reference" }
            ]"#,
        ),
        row("cf3", r#"code-find-references {"symbol": "my-macro", "package": "my-package"}"#, "…").field(
            "/refs",
            r#"[{ "path": "main.lisp", "line": 27, "type": "macro", "caller": "MY-PACKAGE::EXPANDER" }]"#,
        ),
        // What stands in comments and strings, and what a local function of that name does, is no use of it; nor is the
        // symbol of that name in another package.
        row("cf4", r#"code-find-references {"symbol": "my-other:same-name"}"#, "…").field(
            "/refs",
            r#"[
                { "path": "main.lisp", "line": 48, "type": "call", "column": 28 },
                { "path": "package.lisp", "line": 7, "type": "export" }
            ]"#,
        ),
        row("cf5", r#"code-find-references {"symbol": "my-third:same-name"}"#, "…").field(
            "/refs",
            r#"[{ "path": "main.lisp", "line": 48, "column": 50 }, { "path": "package.lisp", "line": 11 }]"#,
        ),
        // SBCL's own code has its lines, too. What has none is told apart by its callers: tests/it/project.rs.
        row("cf5", r#"code-find-references {"symbol": "cl:boole", "project_only": false}"#, "…").field(
            "/refs",
            r#"[{ "path": "SYS:SRC;CODE;NUMBERS.LISP", "type": "call", "caller": "COMMON-LISP::BOOLE" }]"#,
        )
        .field("/refs/0/line", "1453"),
        // The project's own files: Git ignores made/, but a system of the project has a file in it.
        row(
            "cf6",
            r#"code-find-references {"symbol": "my-function", "package": "my-package"}"#,
            "…\nNote: It is also used in 1 loaded file below the project's folder that no system of the project has: made/loose.lisp. To list them, pass …",
        )
        .field("/refs", OF_MY_FUNCTION)
        .field("/count", "9"),
        row("cf6", r#"code-find-references {"symbol": "my-function", "package": "my-package", "project_only": false}"#, "…")
            .field("/count", "10")
            .field("/refs/3/path", r#""made/loose.lisp""#),
        row("cf6", r#"code-find-references {"symbol": "cl:mapcar"}"#, "…").field("/count", "0"),
        // Several uses on a line are one entry.
        row("cf7", r#"code-find-references {"symbol": "my-function", "package": "my-package"}"#, "…")
            .field("/refs/3", r#"{ "line": 15, "column": 27, "columns": [27, 43] }"#),
        // The document's example.
        row("cf8", r#"code-find-references {"symbol": "cl-mcp:run"}"#, "…")
            .field("/symbol", r#""cl-mcp:run""#)
            .field("/count", "3")
            .field(
                "/refs",
                r#"[
                    { "path": "package.lisp", "line": 15, "type": "export", "context": "(:export #:run))" },
                    { "path": "src/run.lisp", "line": 8, "type": "call", "context": "(run :transport :tcp :port 1))" },
                    { "path": "tests/integration-test.lisp", "line": 4, "type": "call", "context": "(list (cl-mcp:run :transport :stdio) (cl-mcp:run)))" }
                ]"#,
            ),
        row("cf8", r#"code-find-references {"symbol": "my-unused-function", "package": "my-package"}"#, "…")
            .field("/symbol", r#""my-package::my-unused-function""#)
            .field("/refs", "[]")
            .field("/count", "0"),
        row("cf8", r#"code-find-references {"symbol": "cl:mapcar"}"#, "…").field("/symbol", r#""cl:mapcar""#),
        // The line's text, without the blanks around it.
        row("cf9", r#"code-find-references {"symbol": "generated", "package": "my-package"}"#, "…").field("/refs", "[]"),
        row("cf9", r#"code-find-references {"symbol": "my-function", "package": "my-package"}"#, "…")
            .field("/refs/2/context", r#""(my-function 5))""#),
        // Only what is loaded is found; the same name in other text is told apart.
        row("cf10", r#"code-find-references {"symbol": "my-function", "package": "my-package"}"#, "…")
            .field("/text", r#"[{ "path": "main.lisp", "line": 50 }]"#),
        // A byte order mark, CR LF, letters that are not ASCII.
        row("cf11", r#"code-find-references {"symbol": "my-function", "package": "my-package"}"#, "…")
            .field("/refs/0", r#"{ "path": "bom.lisp", "line": 2, "column": 17 }"#)
            .field("/refs/1", r#"{ "path": "crlf.lisp", "line": 5, "column": 4, "context": "(my-function x))" }"#)
            .field("/refs/8", r#"{ "path": "unicode.lisp", "line": 3, "column": 50 }"#),
    ]
}

const OF_MY_FUNCTION: &str = r#"[
    { "path": "bom.lisp", "line": 2 },
    { "path": "crlf.lisp", "line": 5 },
    { "path": "made/generated.lisp", "line": 4 },
    { "path": "main.lisp", "line": 15 },
    { "path": "main.lisp", "line": 16 },
    { "path": "main.lisp", "line": 27 },
    { "path": "main.lisp", "line": 35 },
    { "path": "package.lisp", "line": 3 },
    { "path": "unicode.lisp", "line": 3 }
]"#;
