//! describe-symbol.

use super::{Row, row};

pub(super) fn rows() -> Vec<Row> {
    vec![
        // The tool's definition.
        row("ds1", "tools/list", "…")
            .field("/describe-symbol/inputSchema/type", r#""object""#)
            .field("/describe-symbol/inputSchema/required", r#"["name"]"#)
            .field("/describe-symbol/inputSchema/properties/name/type", r#""string""#)
            .field("/describe-symbol/inputSchema/properties/package/type", r#""string""#)
            .field("/describe-symbol/inputSchema/properties/package/default", r#""CL-USER""#),
        row("ds2", "tools/list", "…")
            .field(
                "/describe-symbol/description",
                r#""Get comprehensive information about a Lisp symbol including its type, value, documentation, arglist, and source location. Uses SBCL introspection for detailed information.…""#,
            )
            .field(
                "/describe-symbol/inputSchema/properties/package/description",
                r#""Package name (defaults to CL-USER).""#,
            ),
        // The name is upcased, unless it is escaped; a prefix wins over the package.
        row("ds3", r#"describe-symbol {"name": "MapCar", "package": "cl"}"#, "COMMON-LISP::MAPCAR [FUNCTION]\n…"),
        row(
            "ds3",
            r#"describe-symbol {"name": "my-package::|mixed Case|"}"#,
            "MY-PACKAGE::|mixed Case| [FUNCTION]\n  Arglist: (X)\n…",
        ),
        row(
            "ds3",
            r#"describe-symbol {"name": "größe", "package": "my-package"}"#,
            "MY-PACKAGE::GRÖßE [FUNCTION]\n  Arglist: (X)\n  Documentation:\n    Größe von X — «ä».\n…",
        ),
        row("ds3", r#"describe-symbol {"name": "my-package:my-function", "package": "CL"}"#, "MY-PACKAGE::MY-FUNCTION [FUNCTION]\n…"),
        // A package that is given is obeyed, however it is spelt.
        row(
            "ds4",
            r#"describe-symbol {"name": "my-generic", "package": "CL-USER"}"#,
            "Symbol MY-GENERIC not found in package CL-USER (status: NIL)\n…",
        )
        .missing(),
        row(
            "ds4",
            r#"describe-symbol {"name": "my-generic", "package": "cl-user"}"#,
            "Symbol MY-GENERIC not found in package CL-USER (status: NIL)\n…",
        )
        .missing(),
        row(
            "ds4",
            r#"describe-symbol {"name": "my-generic", "package": "COMMON-LISP-USER"}"#,
            "Symbol MY-GENERIC not found in package COMMON-LISP-USER (status: NIL)\n…",
        )
        .missing(),
        row(
            "ds4",
            r#"describe-symbol {"name": "cl-user::my-generic"}"#,
            "Symbol MY-GENERIC not found in package CL-USER (status: NIL)\n…",
        )
        .missing(),
        row(
            "ds4",
            r#"describe-symbol {"name": "my-generic"}"#,
            "Symbol MY-GENERIC not found in package CL-USER (status: NIL)\n…",
        )
        .instead("MY-PACKAGE::MY-GENERIC [GENERIC-FUNCTION]\n…")
        .field("/asked", r#"{"name": "MY-GENERIC", "package": "CL-USER"}"#)
        .field("/looked_up_in", r#""MY-PACKAGE""#),
        row("ds4", r#"describe-symbol {"name": "test-run"}"#, "COMMON-LISP-USER::TEST-RUN [FUNCTION]\n…")
            .field("/looked_up_in", "null"),
        // Several packages have it: none is taken.
        row(
            "ds4",
            r#"describe-symbol {"name": "same-name"}"#,
            "Symbol SAME-NAME not found in package CL-USER (status: NIL)\n…",
        )
        .missing(),
        // Inherited, keyword, nickname.
        row("ds5", r#"describe-symbol {"name": "car", "package": "MY-PACKAGE"}"#, "COMMON-LISP::CAR [FUNCTION]\n…"),
        row("ds5", r#"describe-symbol {"name": ":test"}"#, "KEYWORD::TEST [VARIABLE]\n  Value: :TEST\n…"),
        row("ds5", r#"describe-symbol {"name": "nil", "package": "CL"}"#, "COMMON-LISP::NIL [VARIABLE]\n  Value: NIL\n…"),
        row(
            "ds6",
            r#"describe-symbol {"name": "my-unused-function", "package": "MY-PACKAGE"}"#,
            "MY-PACKAGE::MY-UNUSED-FUNCTION [FUNCTION]\n  Arglist: ()\n  Source: {root}/main.lisp:{n}\n  Defined as function: main.lisp:{n}:1",
        ),
        // The first classification that fits.
        row("ds7", r#"describe-symbol {"name": "my-macro", "package": "my-package"}"#, "MY-PACKAGE::MY-MACRO [MACRO]\n…"),
        row("ds7", r#"describe-symbol {"name": "my-generic", "package": "my-package"}"#, "MY-PACKAGE::MY-GENERIC [GENERIC-FUNCTION]\n…"),
        row("ds7", r#"describe-symbol {"name": "if", "package": "cl"}"#, "COMMON-LISP::IF [FUNCTION]\n…"),
        row("ds7", r#"describe-symbol {"name": "list", "package": "cl"}"#, "COMMON-LISP::LIST [FUNCTION]\n…"),
        row("ds7", r#"describe-symbol {"name": "my-class", "package": "my-package"}"#, "MY-PACKAGE::MY-CLASS [CLASS]\n…"),
        row("ds7", r#"describe-symbol {"name": "+my-constant+", "package": "my-package"}"#, "MY-PACKAGE::+MY-CONSTANT+ [VARIABLE]\n…"),
        row("ds7", r#"describe-symbol {"name": "my-type", "package": "my-package"}"#, "MY-PACKAGE::MY-TYPE [SYMBOL]\n…"),
        // The lambda list of functions and macros, and of nothing else.
        row(
            "ds8",
            r#"describe-symbol {"name": "my-function", "package": "my-package"}"#,
            "MY-PACKAGE::MY-FUNCTION [FUNCTION]\n  Arglist: (A &OPTIONAL (B 2) &KEY (C '(1 2)))\n…",
        ),
        row(
            "ds8",
            r#"describe-symbol {"name": "my-macro", "package": "my-package"}"#,
            "MY-PACKAGE::MY-MACRO [MACRO]\n  Arglist: ((A &OPTIONAL B) &BODY BODY)\n  Documentation:\n    A macro.\n  Source: {root}/main.lisp:{n}\n  Defined as macro: main.lisp:{n}:1",
        ),
        row(
            "ds8",
            r#"describe-symbol {"name": "my-type", "package": "my-package"}"#,
            "MY-PACKAGE::MY-TYPE [SYMBOL]\n  Documentation:\n    A type.\n  Source: {root}/main.lisp:{n}\n  Defined as type (&OPTIONAL (SIZE 3)): main.lisp:{n}:1",
        ),
        row("ds9", r#"describe-symbol {"name": "*my-var*", "package": "my-package"}"#, "MY-PACKAGE::*MY-VAR* [VARIABLE]\n  Value: 10\n…"),
        row("ds9", r#"describe-symbol {"name": "*nothing*", "package": "my-package"}"#, "MY-PACKAGE::*NOTHING* [VARIABLE]\n  Value: NIL\n…"),
        row("ds9", r#"describe-symbol {"name": "+", "package": "cl"}"#, "COMMON-LISP::+ [FUNCTION]\n  Arglist: (&REST NUMBERS)\n  Value: …"),
        // *print-length* 20, *print-level* 3, *print-circle* t.
        row(
            "ds10",
            r#"describe-symbol {"name": "*long*", "package": "my-package"}"#,
            "MY-PACKAGE::*LONG* [VARIABLE]\n  Value: (0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 ...)\n…",
        ),
        row("ds10", r#"describe-symbol {"name": "*deep*", "package": "my-package"}"#, "MY-PACKAGE::*DEEP* [VARIABLE]\n  Value: (1 (2 (3 #)))\n…"),
        row("ds10", r#"describe-symbol {"name": "*circular*", "package": "my-package"}"#, "MY-PACKAGE::*CIRCULAR* [VARIABLE]\n  Value: #1=(1 2 3 . #1#)\n…"),
        row("ds11", r#"describe-symbol {"name": "*failing*", "package": "my-package"}"#, "MY-PACKAGE::*FAILING* [VARIABLE]\n  Value: <error printing value>\n…"),
        row("ds11", r#"describe-symbol {"name": "*throwing*", "package": "my-package"}"#, "MY-PACKAGE::*THROWING* [VARIABLE]\n  Value: <error printing value>\n…"),
        row("ds11", r#"describe-symbol {"name": "*endless*", "package": "my-package"}"#, "MY-PACKAGE::*ENDLESS* [VARIABLE]\n  Value: <error printing value>\n…"),
        // Each line is indented by four; blank ones have no blanks, and lines keep their ends.
        row(
            "ds12",
            r#"describe-symbol {"name": "my-function", "package": "my-package"}"#,
            "…\n  Documentation:\n    Add up.\n\n    What follows a blank line, and  a \"quote\".\n  Source: …",
        ),
        row(
            "ds12",
            r#"describe-symbol {"name": "crlf", "package": "my-package"}"#,
            "MY-PACKAGE::CRLF [FUNCTION]\n  Arglist: (X)\n  Documentation:\n    One.\r\n    Two.\n  Source: {root}/crlf.lisp:24\n…",
        ),
        row(
            "ds12",
            r#"describe-symbol {"name": "no-documentation", "package": "my-package"}"#,
            "MY-PACKAGE::NO-DOCUMENTATION [FUNCTION]\n  Arglist: ()\n  Source: …",
        ),
        // Wherever it is known. The number is SBCL's: octets before the form and the white space in front of it.
        row("ds13", r#"describe-symbol {"name": "my-generic", "package": "my-package"}"#, "…\n  Source: {root}/main.lisp:1034\n  Defined as generic function: main.lisp:36:1\n…"),
        row("ds13", r#"describe-symbol {"name": "my-class", "package": "my-package"}"#, "…\n  Source: {root}/main.lisp:685\n  Defined as class: main.lisp:29:1\n…"),
        row("ds13", r#"describe-symbol {"name": "my-struct", "package": "my-package"}"#, "…\n  Source: {root}/main.lisp:776\n  Defined as structure: main.lisp:30:1\n…"),
        row("ds13", r#"describe-symbol {"name": "my-condition", "package": "my-package"}"#, "…\n  Source: {root}/main.lisp:848\n  Defined as condition: main.lisp:31:1\n…"),
        row("ds13", r#"describe-symbol {"name": "*my-var*", "package": "my-package"}"#, "…\n  Source: {root}/main.lisp:217\n  Defined as special variable: main.lisp:13:1"),
        row("ds13", r#"describe-symbol {"name": "*unbound*", "package": "my-package"}"#, "MY-PACKAGE::*UNBOUND* [SYMBOL]\n  Source: {root}/values.lisp:233\n…"),
        row("ds13", r#"describe-symbol {"name": "+my-constant+", "package": "my-package"}"#, "…\n  Value: 42\n  Documentation:\n    A constant.\n  Source: {root}/main.lisp:1172\n…"),
        row("ds13", r#"describe-symbol {"name": "**my-global**", "package": "my-package"}"#, "…\n  Source: {root}/main.lisp:1217\n…"),
        row("ds13", r#"describe-symbol {"name": "my-symbol-macro", "package": "my-package"}"#, "…\n  Source: {root}/main.lisp:1264\n…"),
        row("ds13", r#"describe-symbol {"name": "my-type", "package": "my-package"}"#, "…\n  Source: {root}/main.lisp:1103\n…"),
        row("ds14", r#"describe-symbol {"name": "my-macro", "package": "my-package"}"#, "…\n  Source: {root}/main.lisp:527\n  Defined as macro: main.lisp:22:1"),
        row("ds14", r#"describe-symbol {"name": "bom", "package": "my-package"}"#, "…\n  Source: {root}/bom.lisp:27\n…"),
        row("ds14", r#"describe-symbol {"name": "λ-user", "package": "my-package"}"#, "…\n  Source: {root}/unicode.lisp:102\n  Defined as function: unicode.lisp:4:1"),
        // The document's examples. What a version of SBCL has in another place, or in other words, is its own.
        row(
            "ds15",
            r#"describe-symbol {"name": "mapcar", "package": "CL"}"#,
            "COMMON-LISP::MAPCAR [FUNCTION]\n  Arglist: (FUNCTION LIST &REST MORE-LISTS)\n  Documentation:\n    Apply FUNCTION to successive tuples of elements of LIST and MORE-LISTS.\n    Return list of FUNCTION return values.\n  Source: SYS:SRC;CODE;LIST.LISP:{n}\n…",
        ),
        row(
            "ds16",
            r#"describe-symbol {"name": "*print-base*", "package": "CL"}"#,
            "COMMON-LISP::*PRINT-BASE* [VARIABLE]\n  Value: 10\n  Documentation:\n    The output base for …",
        ),
        row(
            "ds17",
            r#"describe-symbol {"name": "nonexistent-symbol"}"#,
            "Symbol NONEXISTENT-SYMBOL not found in package CL-USER (status: NIL)",
        )
        .missing(),
        row("ds18", r#"describe-symbol {"name": "foo", "package": "NONEXISTENT"}"#, "Package NONEXISTENT not found").missing(),
        row(
            "ds19",
            r#"describe-symbol {"name": "nonexistent-symbol", "package": "MY-PACKAGE"}"#,
            "Symbol NONEXISTENT-SYMBOL not found in package MY-PACKAGE (status: NIL)",
        )
        .missing(),
        row(
            "ds19",
            r##"describe-symbol {"name": "#:foo"}"##,
            "Symbol #:FOO not found in package CL-USER (status: NIL)\n…",
        )
        .missing(),
        row(
            "ds19",
            r##"describe-symbol {"name": "#:foo", "package": "nonexistent"}"##,
            "Package NONEXISTENT not found\n…",
        )
        .missing(),
        // What is not there is no error; wrong arguments are.
        row("ds20", "describe-symbol {}", "…\"name\"…").error(),
        row("ds20", r#"describe-symbol {"name": 5}"#, "…\"name\"…").error(),
        row("ds20", r#"describe-symbol {"name": ""}"#, "…empty…").error(),
        row("ds20", r#"describe-symbol {"name": "car", "pakage": "cl"}"#, "…\"pakage\"…").error(),
        row("ds21", r#"describe-symbol {"name": "car", "package": "CL"}"#, "COMMON-LISP::CAR [FUNCTION]\n  Arglist: (LIST)\n  Documentation:\n    Return the 1st object in a list.\n  Source: SYS:SRC;CODE;LIST.LISP:{n}\n…"),
        row("ds22", r#"describe-symbol {"name": "*obsolete*", "package": "my-package"}"#, "MY-PACKAGE::*OBSOLETE* [VARIABLE]\n  Value: #<MY-PACKAGE::OBSOLETE {…}>\n…"),
        row("ds22", r#"describe-symbol {"name": "obsolete", "package": "my-package"}"#, "MY-PACKAGE::OBSOLETE [CLASS]\n…"),
        row("ds22", r#"describe-symbol {"name": "my-condition", "package": "my-package"}"#, "MY-PACKAGE::MY-CONDITION [CLASS]\n  Documentation:\n    A condition.\n…"),
        row("ds22", r#"describe-symbol {"name": "(setf place)", "package": "my-package"}"#, "(SETF MY-PACKAGE::PLACE) [FUNCTION]\n  Arglist: (NEW X)\n  Source: {root}/main.lisp:{n}\n…"),
    ]
}
