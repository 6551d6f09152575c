//! Finds definitions by the tag queries of tree-sitter grammars.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use steelbank_reader::Range;
use streaming_iterator::StreamingIterator;
use tree_sitter::{Node, ParseOptions, Parser, QueryCursor, QueryCursorOptions};

use super::grammars;
use super::lisp::LispTextDefinition;
use crate::kind::DefinitionKind;
use crate::language::Language;

/// The maximum length of a text to parse, in bytes. Longer texts are usually generated and would
/// take seconds.
const MAX_PARSED_BYTES: usize = 4 << 20;

/// The maximum time to parse one text and to query its syntax tree.
const PARSE_LIMIT: Duration = Duration::from_secs(5);

/// Finds the definitions of `text`. `None` if it is too long, its grammar is not built in, or
/// parsing took too long or was cancelled. If the query takes too long or is cancelled, returns the
/// definitions found so far.
pub(super) fn definitions(
    text: &[u8],
    language: Language,
    stop: &dyn Fn() -> bool,
) -> Option<Vec<LispTextDefinition>> {
    if text.len() > MAX_PARSED_BYTES {
        return None;
    }
    let tagger = grammars::tagger(language)?;
    let start = Instant::now();
    let go_on = || match stop() || start.elapsed() > PARSE_LIMIT {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    let mut parser = Parser::new();
    parser.set_language(&tagger.language).ok()?;
    let mut parsing = |_: &_| go_on();
    let options = ParseOptions::new().progress_callback(&mut parsing);
    let tree =
        parser.parse_with_options(&mut |at, _| text.get(at..).unwrap_or_default(), None, Some(options))?;
    let mut querying = |_: &_| go_on();
    let options = QueryCursorOptions::new().progress_callback(&mut querying);
    let mut cursor = QueryCursor::new();
    let mut matches = cursor.matches_with_options(&tagger.query, tree.root_node(), text, options);
    let mut found: Vec<LispTextDefinition> = Vec::new();
    while let Some(each) = matches.next() {
        let mut name = None;
        let mut defined = None;
        for capture in each.captures() {
            if capture.index == tagger.name {
                name = Some(capture.node);
            } else if let Some(Some(kind)) = tagger.kinds.get(capture.index as usize) {
                defined = Some((capture.node, *kind));
            }
        }
        if let (Some(name), Some((node, kind))) = (name, defined) {
            found.extend(definition(text, name, node, kind));
        }
    }
    // If several patterns match one name, prefer a definition to a declaration, and then the more
    // specific kind: a method also matches as a function.
    found.sort_by_key(|definition| {
        let rank = match definition.kind {
            DefinitionKind::Method | DefinitionKind::Constructor => 0,
            DefinitionKind::Function => 2,
            DefinitionKind::Variable | DefinitionKind::Module => 3,
            _ => 1,
        };
        (definition.name.start, definition.declaration, rank)
    });
    found.dedup_by_key(|definition| definition.name.start);
    Some(found)
}

fn definition(
    text: &[u8],
    name: Node<'_>,
    node: Node<'_>,
    kind: DefinitionKind,
) -> Option<LispTextDefinition> {
    let node = owner(name, node);
    let (kind, declaration) = refine(text, name, node, kind)?;
    let mut start = name.start_byte();
    if text.get(start..)?.starts_with(b"r#") {
        start += 2;
    }
    Some(LispTextDefinition {
        kind,
        name: Range::new(start as u32, name.end_byte() as u32),
        form: Range::new(node.start_byte() as u32, node.end_byte() as u32),
        declaration,
        active: true,
    })
}

/// Returns the node of the definition with this name. `node` is the captured node: some queries
/// capture the class instead of the method, or only a declarator.
fn owner<'tree>(name: Node<'tree>, node: Node<'tree>) -> Node<'tree> {
    match node.kind() {
        "class_declaration" | "protocol_declaration" if node.child_by_field_name("name") != Some(name) => {
            let mut inner = name;
            while let Some(parent) = inner.parent() {
                if parent.kind().ends_with("_declaration") {
                    return parent;
                }
                inner = parent;
            }
            node
        }
        "function_declarator" => {
            let mut outer = node;
            while let Some(parent) = outer.parent() {
                match parent.kind() {
                    "function_definition" | "declaration" | "field_declaration" => return parent,
                    "pointer_declarator"
                    | "reference_declarator"
                    | "init_declarator"
                    | "parenthesized_declarator" => {
                        outer = parent;
                    }
                    _ => break,
                }
            }
            node
        }
        _ => node,
    }
}

/// Refines a match by its node. Returns the kind, and whether it is only a declaration; `None` if
/// it is neither a definition nor a declaration.
fn refine(
    text: &[u8],
    name: Node<'_>,
    node: Node<'_>,
    kind: DefinitionKind,
) -> Option<(DefinitionKind, bool)> {
    let parent =
        || node.parent().filter(|parent| parent.kind() != "decorated_definition").or(node.parent()?.parent());
    let has = |field| node.child_by_field_name(field).is_some();
    let child = |kind: &str| {
        let mut cursor = node.walk();
        node.children(&mut cursor).any(|child| child.kind() == kind)
    };
    let in_class = || {
        let grandparent = parent().and_then(|block| block.parent());
        grandparent.is_some_and(|outer| matches!(outer.kind(), "class_definition" | "class_declaration"))
    };
    Some(match node.kind() {
        "struct_item" | "struct_declaration" | "record_declaration" => (DefinitionKind::Struct, false),
        "struct_specifier" => (DefinitionKind::Struct, !has("body")),
        "union_item" => (DefinitionKind::Union, false),
        "union_specifier" => (DefinitionKind::Union, !has("body")),
        "enum_item" | "enum_declaration" => (DefinitionKind::Enum, false),
        // `enum name variable;`, without a body, only uses the name.
        "enum_specifier" => has("body").then_some((DefinitionKind::Enum, false))?,
        "class_specifier" => (DefinitionKind::Class, !has("body")),
        "trait_item" | "trait_declaration" => (DefinitionKind::Trait, false),
        "protocol_declaration" if kind == DefinitionKind::Interface => (DefinitionKind::Protocol, false),
        "type_item" | "type_definition" => (DefinitionKind::Type, false),
        "function_signature_item" | "method_signature" | "abstract_method_signature" => {
            (DefinitionKind::Method, true)
        }
        "function_signature" => (DefinitionKind::Function, true),
        // The match is a function type, or a call that parses as a declarator.
        "function_declarator" => return None,
        "function_definition" if kind == DefinitionKind::Function && name.kind() == "field_identifier" => {
            (DefinitionKind::Method, false)
        }
        "function_definition" | "function_declaration" if kind == DefinitionKind::Function && in_class() => {
            (DefinitionKind::Method, false)
        }
        "declaration" if matches!(kind, DefinitionKind::Function | DefinitionKind::Method) => (kind, true),
        "field_declaration" if kind == DefinitionKind::Function => (DefinitionKind::Method, true),
        "method_declaration" => (DefinitionKind::Method, !has("body")),
        "type_spec" => match node.child_by_field_name("type").map(|inner| inner.kind()) {
            Some("struct_type") => (DefinitionKind::Struct, false),
            Some("interface_type") => (DefinitionKind::Interface, false),
            _ => (DefinitionKind::Type, false),
        },
        "class_declaration" if kind == DefinitionKind::Class => {
            if child("interface") {
                (DefinitionKind::Interface, false)
            } else if child("enum_class_body") || child("enum") {
                (DefinitionKind::Enum, false)
            } else if child("struct") {
                (DefinitionKind::Struct, false)
            } else {
                (DefinitionKind::Class, false)
            }
        }
        "variable_declaration" if child("struct_declaration") => (DefinitionKind::Struct, false),
        "variable_declaration" if child("enum_declaration") => (DefinitionKind::Enum, false),
        "variable_declaration" if child("union_declaration") => (DefinitionKind::Union, false),
        "assignment" if kind == DefinitionKind::Constant => {
            let lower = text.get(name.byte_range())?.iter().any(u8::is_ascii_lowercase);
            (if lower { DefinitionKind::Variable } else { DefinitionKind::Constant }, false)
        }
        _ => (kind, false),
    })
}

#[cfg(test)]
mod tests {
    use super::super::definitions;
    use super::grammars;
    use crate::language::Language;

    #[track_caller]
    fn check(language: &str, text: &str, expect: &[&str]) {
        let found: Vec<_> = definitions(text.as_bytes(), Language::named(language).unwrap(), &|| false)
            .iter()
            .map(|definition| {
                let declared = if definition.declaration { " declared" } else { "" };
                format!("{} {}{declared}", definition.kind.name(), &text[definition.name.indices()])
            })
            .collect();
        assert_eq!(found, expect, "{language}");
    }

    #[test]
    fn every_grammar_has_a_query_that_compiles() {
        for language in Language::all() {
            assert_eq!(grammars::query_error(language), None, "{}", language.name());
        }
        assert!(grammars::tagger(Language::named("rust").unwrap()).is_some());
    }

    #[test]
    fn rust() {
        check(
            "rust",
            "struct S { f: u8 } enum E { V } trait T { fn m(&self); } impl S { fn n() {} } mod m { const C: u8 = 1; }
             static G: u8 = 1; macro_rules! mac { () => {} } type A = u8; union U { x: u8 } fn r#type() {}",
            &[
                "struct S",
                "field f",
                "enum E",
                "variant V",
                "trait T",
                "method m declared",
                "method n",
                "module m",
                "constant C",
                "variable G",
                "macro mac",
                "type A",
                "union U",
                "field x",
                "function type",
            ],
        );
    }

    #[test]
    fn c_and_cpp() {
        check(
            "c",
            "int f(void);\nint *g(int a) { return 0; }\nstruct s { int x; };\nstruct s v;\nenum e { A };\nenum e w;\ntypedef struct s t;\n#define M 1\n#define F(x) x\nint z = 1;\n",
            &[
                "function f declared", "function g", "struct s", "field x", "enum e", "variant A", "type t",
                "macro M", "macro F", "variable z",
            ],
        );
        check(
            "cpp",
            "namespace n { class C; class D { void m(); int k() { return 1; } }; }\nvoid n::D::m() {}\nusing T = int;\n",
            &[
                "namespace n", "class C declared", "class D", "method m declared", "method k", "method m",
                "type T",
            ],
        );
    }

    #[test]
    fn scripting_languages() {
        check(
            "python",
            "X = 1\ny = 2\nclass C:\n    @p\n    def m(self): pass\ndef f(): pass\n",
            &["constant X", "variable y", "class C", "method m", "function f"],
        );
        check(
            "javascript",
            "function f() {}\nconst g = () => 1, h = 2;\nclass C { m() {} x = 1 }\nexport const k = 3;\n",
            &["function f", "function g", "variable h", "class C", "method m", "field x", "variable k"],
        );
        check(
            "typescript",
            "interface I { p: string; m(): void }\ntype T = I;\nenum E { A }\nclass C { x = 1; m() {} }\nexport function f(): void {}\nnamespace N {}\n",
            &[
                "interface I", "property p", "method m declared", "type T", "enum E", "class C", "field x",
                "method m", "function f", "namespace N",
            ],
        );
        check(
            "ruby",
            "module M\n  class C\n    K = 1\n    def m?; end\n    def self.s; end\n  end\nend\n",
            &["module M", "class C", "constant K", "method m?", "method s"],
        );
        check(
            "php",
            "<?php namespace N; const K = 1; interface I {} trait T {} class C { public $p; function m() {} } function f() {}",
            &[
                "namespace N", "constant K", "interface I", "trait T", "class C", "field p", "method m",
                "function f",
            ],
        );
    }

    #[test]
    fn compiled_languages() {
        check(
            "go",
            "package p\nconst K = 1\nvar (\n\tv int\n)\ntype S struct { f int }\ntype I interface {}\ntype T int\nfunc f() {}\nfunc (s S) m() {}\n",
            &[
                "constant K", "variable v", "struct S", "field f", "interface I", "type T", "function f",
                "method m",
            ],
        );
        check(
            "java",
            "class C { int f; C() {} void m() {} enum E { A } } interface I { void n(); } record R(int x) {}",
            &[
                "class C", "field f", "constructor C", "method m", "enum E", "variant A", "interface I",
                "method n declared", "struct R",
            ],
        );
        check(
            "csharp",
            "namespace N { class C { int f; int P { get; } C() {} void M() {} } struct S {} enum E { A } interface I {} }",
            &[
                "namespace N", "class C", "field f", "property P", "constructor C", "method M", "struct S",
                "enum E", "variant A", "interface I",
            ],
        );
        check(
            "zig",
            "const S = struct { x: u8 };\npub fn f() void { const local = 1; _ = local; }\nvar v: u8 = 1;\n",
            &["struct S", "field x", "function f", "variable v"],
        );
        check(
            "kotlin",
            "class C { val p = 1\n fun m() {} }\ninterface I\nenum class E { A }\nobject O\nfun f() { val l = 1 }\ntypealias T = Int\n",
            &[
                "class C", "property p", "method m", "interface I", "enum E", "variant A", "object O",
                "function f", "type T",
            ],
        );
        check(
            "swift",
            "class C { var p = 1\n func m() {} }\nstruct S {}\nprotocol P {}\nfunc f() {}\n",
            &["class C", "property p", "method m", "struct S", "protocol P", "function f"],
        );
    }
}
