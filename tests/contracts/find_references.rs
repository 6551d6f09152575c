//! find_references: its contract is the structured answer, which is the text, too.

use super::{Row, row};

pub(super) fn rows() -> Vec<Row> {
    vec![
        row("fr1", "tools/list", "…")
            .field("/find_references/description", r#""Find a symbol's definition AND all usage sites in a single call…""#)
            .field("/find_references/inputSchema/required", r#"["pattern"]"#)
            .field("/find_references/inputSchema/properties/pattern/type", r#""string""#)
            .field("/find_references/inputSchema/properties/exclude/type", r#""array""#)
            .field("/find_references/inputSchema/properties/force/type", r#""boolean""#)
            .field("/find_references/inputSchema/properties/glob/type", r#""array""#)
            .field("/find_references/inputSchema/properties/kind/type", r#""string""#)
            .field("/find_references/inputSchema/properties/lang/type", r#""string""#)
            .field(
                "/find_references/inputSchema/properties/limit",
                r#"{ "type": "integer", "default": 100, "minimum": 1, "maximum": null }"#,
            )
            .field("/find_references/inputSchema/properties/offset/type", r#""integer""#),
        row("fr1", "find_references {}", "…\"pattern\"…").error(),
        row("fr1", r#"find_references {"pattern": ""}"#, "The pattern is empty.…").error(),
        row("fr2", r#"find_references {"pattern": "cl-mcp"}"#, "…")
            .field("/definition/kind", r#""package""#)
            .field("/total_references", "4")
            .field("/pagination", r#"{ "total": 4, "count": 4, "offset": 0, "limit": 100, "has_more": false }"#)
            .field("/status", r#""fresh""#),
        row("fr2", r#"find_references {"pattern": "nothing-of-that-name"}"#, "…")
            .missing()
            .field("/definition", "null")
            .field("/references", "[]")
            .field("/total_references", "0"),
        // The generic function, though a method of it stands before.
        row("fr3", r#"find_references {"pattern": "my-generic"}"#, "…").field(
            "/definition",
            r#"{
                "path": "main.lisp", "line": 36, "column": 13, "kind": "generic-function", "symbol": "my-generic",
                "span": { "start_line": 36, "start_column": 1, "end_line": 37, "end_column": 42 },
                "preview": "(defgeneric my-generic (x)"
            }"#,
        ),
        row("fr3", r#"find_references {"pattern": "stdio"}"#, "…").field("/definition", "null"),
        row("fr4", r#"find_references {"pattern": "my-generic"}"#, "…").field(
            "/references",
            r#"[
                { "path": "main.lisp", "line": 33, "preview": "(defmethod my-generic ((x my-class))" },
                { "path": "main.lisp", "line": 36, "preview": "(defgeneric my-generic (x)" },
                { "path": "package.lisp", "line": 3, "preview": "(:export #:my-function #:my-generic))" }
            ]"#,
        ),
        // Comments and strings count, and what is not loaded; an identifier is a whole one, and no part.
        row("fr5", r#"find_references {"pattern": "my-function", "glob": ["main.lisp"]}"#, "…").field(
            "/references",
            r#"[
                { "line": 3 }, { "line": 15 }, { "line": 15 }, { "line": 16 }, { "line": 27 }, { "line": 35 },
                { "line": 49 }, { "line": 49 }, { "line": 50 }, { "line": 51 }, { "line": 52 }
            ]"#,
        ),
        row("fr5", r#"find_references {"pattern": "my-fun"}"#, "{\"definition\":null,…\"total_references\":11,…")
            .instead("{\"definition\":null,…\"total_references\":0,…")
            .missing(),
        row("fr5", r#"find_references {"pattern": "p"}"#, "…").missing().field("/total_references", "0"),
        row("fr5", r#"find_references {"pattern": "my-function", "glob": ["made/**"]}"#, "…")
            .missing()
            .field("/total_references", "0"),
        row("fr6", r#"find_references {"pattern": "my-function", "glob": ["main.lisp"], "limit": 4, "offset": 8}"#, "…")
            .field("/references", r#"[{ "line": 50 }, { "line": 51 }, { "line": 52 }]"#)
            .field("/pagination", r#"{ "total": 11, "count": 3, "offset": 8, "limit": 4, "has_more": false }"#),
        row("fr6", r#"find_references {"pattern": "my-function", "glob": ["main.lisp"], "limit": 4}"#, "…")
            .field("/pagination", r#"{ "total": 11, "count": 4, "offset": 0, "limit": 4, "has_more": true }"#),
        row("fr6", r#"find_references {"pattern": "my-generic", "limit": 20000}"#, "…").field("/total_references", "3"),
        row("fr7", r#"find_references {"pattern": "my-generic", "kind": "method"}"#, "…")
            .field("/definition/line", "33")
            .field("/total_references", "3"),
        row("fr7", r#"find_references {"pattern": "my-generic", "lang": "Common Lisp"}"#, "…").field("/total_references", "3"),
        row("fr7", r#"find_references {"pattern": "my-generic", "lang": "python"}"#, "…")
            .missing()
            .field("/total_references", "0"),
        row("fr7", r#"find_references {"pattern": "my-generic", "exclude": ["main.*"]}"#, "…")
            .field("/total_references", "1"),
        row("fr7", r#"find_references {"pattern": "my-generic", "kind": "gadget"}"#, "There is no kind \"gadget\". The kinds are …").error(),
        row("fr7", r#"find_references {"pattern": "my-generic", "lang": "cobol"}"#, "There is no language \"cobol\". The languages are …").error(),
        row("fr8", r#"find_references {"pattern": "x)"}"#, "\"x)\" has {n} references: the pattern has fewer than 3 characters. …").error(),
        row("fr8", r#"find_references {"pattern": "x)", "force": true, "limit": 1}"#, "…").field("/pagination/has_more", "true"),
        // An index that is built when one says so.
        row("fr9", r#"find_references {"pattern": "my-generic"}"#, "Index not found for …. Call index_project to build it.")
            .manual()
            .error(),
        row("fr12", "check_index_status {}", "…").manual().field("/status", r#""missing""#).field("/action_required", r#""Call index_project.""#),
        row("fr11", "index_project {}", "…").manual(),
        row("fr11", r#"find_references {"pattern": "my-generic"}"#, "…").manual().field("/total_references", "3"),
        row("fr12", "check_index_status {}", "…").manual().field("/status", r#""fresh""#),
        row("fr10", r#"find_references {"pattern": "my-generic"}"#, "The index of … is stale: 1 of its files were changed, added or removed. Call index_project to bring it up to date.")
            .manual()
            .after_writing("added.lisp", "(in-package :my-package)\n(my-generic 1)\n")
            .error(),
        row("fr12", "check_index_status {}", "…").manual().field("/status", r#""stale""#),
        row("fr11", "index_project {}", "…").manual(),
        row("fr11", r#"find_references {"pattern": "my-generic"}"#, "…").manual().field("/total_references", "4"),
    ]
}
