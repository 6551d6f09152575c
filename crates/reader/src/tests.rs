//! Tests of the structural reader, which imitates SBCL's reader. Its form numbers were compared
//! with those of `sb-c::find-source-paths` in SBCL 2.5.2, on 27,447 top-level forms of SBCL and
//! Debian's Lisp libraries. All agree, except 44 forms that are marked inexact and the forms after
//! a `#+#.(…)`.

use super::*;
use proptest::prelude::*;

fn read(text: &str) -> LispText {
    read_as(text, Numbering::Code)
}

fn read_as(text: &str, numbering: Numbering) -> LispText {
    LispText::read(text.as_bytes(), Dialect::CommonLisp, &Features::sbcl().numbered(numbering))
}

/// Returns the text of every numbered form, by top-level form and number.
fn numbered(text: &str) -> Vec<Vec<&str>> {
    numbered_as(text, Numbering::Code)
}

fn numbered_as(text: &str, numbering: Numbering) -> Vec<Vec<&str>> {
    let file = read_as(text, numbering);
    let toplevel = file.toplevel().iter();
    toplevel
        .map(|toplevel| {
            (0..file.numbered_count(toplevel))
                .map(|number| {
                    let form = file.numbered(toplevel, number).unwrap();
                    assert_eq!(form.number(), Some(number));
                    &text[form.span.indices()]
                })
                .collect()
        })
        .collect()
}

#[track_caller]
fn check_numbers(text: &str, expect: &[&[&str]]) {
    assert_eq!(numbered(text), expect);
}

#[test]
fn conses_are_numbered_depth_first() {
    check_numbers(
        "(defun foo (x) (let ((a (aref x 3))) (cons a 3)))",
        &[&[
            "(defun foo (x) (let ((a (aref x 3))) (cons a 3)))",
            "(x)",
            "(let ((a (aref x 3))) (cons a 3))",
            "((a (aref x 3)))",
            "(a (aref x 3))",
            "(aref x 3)",
            "(cons a 3)",
        ]],
    );
    check_numbers("foo (a) \"s\" (b)", &[&[], &["(a)"], &[], &["(b)"]]);
}

#[test]
fn the_empty_list_is_an_atom() {
    check_numbers("(f () ( ) (#| |#) (#+nil x))", &[&["(f () ( ) (#| |#) (#+nil x))"]]);
}

#[test]
fn nothing_after_quote_is_numbered() {
    check_numbers("(f '(a (b)) (c))", &[&["(f '(a (b)) (c))", "'(a (b))", "(c)"]]);
    check_numbers("(f (quote (a)) (c))", &[&["(f (quote (a)) (c))", "(quote (a))", "(c)"]]);
    check_numbers("(list (a) quote (b))", &[&["(list (a) quote (b))", "(a)"]]);
    check_numbers("(cl:quote (b))", &[&["(cl:quote (b))"]]);
    check_numbers("(my:quote (b))", &[&["(my:quote (b))", "(b)"]]);
    check_numbers("(:quote (b))", &[&["(:quote (b))", "(b)"]]);
}

#[test]
fn data_numbering_includes_quoted_lists_and_commas() {
    let check = |text: &str, expect: &[&str]| {
        assert_eq!(numbered_as(text, Numbering::Data), [expect.to_vec()], "{text}");
    };
    check("(f '(a (b)) (c))", &["(f '(a (b)) (c))", "'(a (b))", "(a (b))", "(b)", "(c)"]);
    check("(list quote (b))", &["(list quote (b))", "(b)"]);
    check("`(a ,(b) ,d (e))", &["`(a ,(b) ,d (e))", "(a ,(b) ,d (e))", ",(b)", "(b)", ",d", "(e)"]);
    check("`(a ,,(c) . ,(b))", &["`(a ,,(c) . ,(b))", "(a ,,(c) . ,(b))", ",,(c)", ",(c)", "(c)", "(b)"]);
    check("(a . '(b))", &["(a . '(b))", "(b)"]);
    check("(f #(a (b)) (d))", &["(f #(a (b)) (d))", "(d)"]);
    let deep = |lists: usize| format!("{}{}", "(".repeat(lists), ")".repeat(lists));
    let count = |lists| {
        let text = format!("({} (x))", deep(lists).replace("()", "(y)"));
        numbered_as(&text, Numbering::Data)[0].len()
    };
    assert_eq!([count(98), count(99), count(100), count(101), count(200)], [100, 101, 102, 102, 102]);
    let shared = "(f #1=(a) #1# (b))";
    assert!(read(shared).toplevel()[0].exact && !read_as(shared, Numbering::Data).toplevel()[0].exact);
}

#[test]
fn function_and_quasiquote_are_conses_commas_transparent() {
    check_numbers(
        "(f #'(lambda (x) y))",
        &[&["(f #'(lambda (x) y))", "#'(lambda (x) y)", "(lambda (x) y)", "(x)"]],
    );
    check_numbers(
        "`(a ,(b) ,@(c) ,d (e ,(f)))",
        &[&["`(a ,(b) ,@(c) ,d (e ,(f)))", "(a ,(b) ,@(c) ,d (e ,(f)))", "(b)", "(c)", "(e ,(f))", "(f)"]],
    );
    check_numbers(
        "`(a ``(b ,,(c) ,(d)))",
        &[&[
            "`(a ``(b ,,(c) ,(d)))", "(a ``(b ,,(c) ,(d)))", "``(b ,,(c) ,(d))", "`(b ,,(c) ,(d))",
            "(b ,,(c) ,(d))", "(d)",
        ]],
    );
    check_numbers("`(a . ,(b))", &[&["`(a . ,(b))", "(a . ,(b))", "(b)"]]);
    check_numbers(
        "`(a ',(b) #',(c))",
        &[&["`(a ',(b) #',(c))", "(a ',(b) #',(c))", "',(b)", "#',(c)", "(c)"]],
    );
}

#[test]
fn a_dotted_tail_is_spliced() {
    check_numbers("(a . (b (c)))", &[&["(a . (b (c)))", "(c)"]]);
    check_numbers("(a (b . (c . ((d)))))", &[&["(a (b . (c . ((d)))))", "(b . (c . ((d))))", "(d)"]]);
    check_numbers("(a . '(b))", &[&["(a . '(b))"]]);
    check_numbers("(a . #'(b))", &[&["(a . #'(b))", "(b)"]]);
}

#[test]
fn vectors_and_other_literals_are_atoms() {
    check_numbers(
        "(f #(a (b)) #1A((c)) #S(x :y (z)) #P\"(p\" #C(1 2) (d))",
        &[&["(f #(a (b)) #1A((c)) #S(x :y (z)) #P\"(p\" #C(1 2) (d))", "(d)"]],
    );
    check_numbers("`(f #(a ,(b)) (d))", &[&["`(f #(a ,(b)) (d))", "(f #(a ,(b)) (d))", "(d)"]]);
}

#[test]
fn features_decide_what_is_read() {
    check_numbers("#+sbcl (a) #-sbcl (b) (c)", &[&["(a)"], &["(c)"]]);
    check_numbers(
        "(f #+(or ccl (and sbcl (not nope))) (a) #-(or) (b) #+(and) (c) #+nil (d))",
        &[&[
            "(f #+(or ccl (and sbcl (not nope))) (a) #-(or) (b) #+(and) (c) #+nil (d))",
            "(a)",
            "(b)",
            "(c)",
        ]],
    );
    // A false feature expression excludes the next datum, together with feature expressions in
    // front of that datum. If one of those feature expressions is false, too, another datum is
    // excluded.
    check_numbers("(f #+nope #+sbcl (a) (b))", &[&["(f #+nope #+sbcl (a) (b))", "(b)"]]);
    check_numbers("(f #+nope #+nope (a) (b) (c))", &[&["(f #+nope #+nope (a) (b) (c))", "(c)"]]);
    check_numbers("#+nope\n(a)\n(b)", &[&["(b)"]]);
    let file = read("(f #+nope (a b))");
    let inactive: Vec<_> = file.forms().iter().filter(|form| !form.active).map(|form| form.span).collect();
    assert_eq!(inactive, [Range::new(10, 15)]);
}

#[test]
fn key_parameters_have_no_explicit_keyword() {
    let text = "(defun f (a &key b (c 1) ((:d e) 2) &aux (g 1)) (list b c)) (lambda (&KEY h &rest i &allow-other-keys))";
    let at = |needle| text.find(needle).unwrap() as u32;
    let found = read(text).key_parameters(text.as_bytes());
    assert_eq!(Vec::from_iter(found), [at("b (c"), at("c 1"), at("h &rest")]);
}

#[test]
fn labels_are_transparent() {
    check_numbers("(f #1=(a) #1# (b))", &[&["(f #1=(a) #1# (b))", "(a)", "(b)"]]);
}

#[test]
fn comments_strings_and_characters_hide_parentheses() {
    check_numbers(
        "(a ; (b)\n #| (c #| (d) |# (e) |# \"(f \\\" (g)\" #\\( #\\) #\\; #\\\" #\\| #\\Space (h))",
        &[&[
            "(a ; (b)\n #| (c #| (d) |# (e) |# \"(f \\\" (g)\" #\\( #\\) #\\; #\\\" #\\| #\\Space (h))",
            "(h)",
        ]],
    );
    check_numbers("(a |(b| c\\(d #:|)| (e))", &[&["(a |(b| c\\(d #:|)| (e))", "(e)"]]);
}

#[test]
fn symbols_have_packages_and_markers() {
    let text = "foo a:b a::b :key #:gensym |a:b|::|C d| x\\:y 1+ 12 -1/2 + ... #b101 #*01";
    let file = read(text);
    let symbols: Vec<_> = file
        .tokens()
        .iter()
        .filter(|token| token.kind == TokenKind::Symbol)
        .map(|token| {
            let symbol = token.symbol(text.as_bytes());
            (token.marker, symbol.package.unwrap_or_default().into_owned(), symbol.name.into_owned())
        })
        .collect();
    let expect = [
        (Marker::None, "", "FOO"),
        (Marker::External, "A", "B"),
        (Marker::Internal, "A", "B"),
        (Marker::Keyword, "", "KEY"),
        (Marker::Uninterned, "", "GENSYM"),
        (Marker::Internal, "a:b", "C d"),
        (Marker::None, "", "X:Y"),
        (Marker::None, "", "1+"),
        (Marker::None, "", "+"),
        (Marker::None, "", "..."),
    ];
    assert_eq!(symbols, expect.map(|(marker, package, name)| (marker, package.to_owned(), name.to_owned())));
}

#[test]
fn in_package_is_followed() {
    let text = "(a) (in-package :foo) (b) (in-package #:bar) (c) (cl:in-package \"Baz\") (d)
        (eval-when (:compile-toplevel) (in-package q)) (e) '(in-package no) (f) #+nil (in-package no) (g)";
    let packages: Vec<_> =
        read(text).toplevel().iter().map(|form| form.package.as_deref().map(str::to_owned)).collect();
    let expect =
        [None, None, Some("FOO"), Some("FOO"), Some("BAR"), Some("BAR"), Some("Baz"), Some("Baz"), Some("Q")];
    assert_eq!(packages[..9], expect.map(|name| name.map(str::to_owned)));
    assert!(packages[9..].iter().all(|name| name.as_deref() == Some("Q")));
}

#[test]
fn numbers_are_inexact_where_evaluation_decides() {
    let exact = |text: &str| read(text).toplevel().iter().map(|form| form.exact).collect::<Vec<_>>();
    assert_eq!(exact("(a #.(b) (c)) (d)"), [false, true]);
    assert_eq!(exact("(a #?\"x\") (b #+nil #.(c) d) (e #+#.(f) g)"), [false, true, false]);
    let counted = |text: &str| read(text).toplevel().iter().map(|form| form.counted).collect::<Vec<_>>();
    assert_eq!(counted("(a #+#.(b) c) #+#.(d) (e) (f)"), [true, false, false]);
    // A library may have pushed this feature, but nobody pushes the name of another implementation.
    assert_eq!(exact("(a #+cl-unicode (b) (c)) (d #-(or ecl allegro) (e))"), [false, true]);
    assert_eq!(exact("(a #+(and ccl my-feature) (b)) (c #+(or sbcl my-feature) (d))"), [true, true]);
    assert_eq!(exact("(a #+(and sbcl my-feature) (b)) (c #-(or ccl my-feature) (d))"), [false, false]);
    assert_eq!(counted("(a #+my-feature b) #-my-feature (c) (d)"), [true, false, false]);
}

#[test]
fn missing_parenthesis_does_not_hide_rest() {
    let text = "(defun a ()\n  (b)\n\n(defun c ()\n  (d))\n\n#+nope\n(defun e ())\n(defun f ())\n";
    let file = read(text);
    let shown: Vec<_> =
        file.toplevel().iter().map(|form| (&text[form.span.indices()], form.unterminated)).collect();
    assert_eq!(
        shown,
        [("(defun a ()\n  (b)\n\n", true), ("(defun c ()\n  (d))", false), ("(defun f ())", false),]
    );
    assert!(!file.balanced());
    assert_eq!(read("(a)) (b)").toplevel().len(), 2);
}

#[test]
fn byte_order_mark_is_a_symbol() {
    let file = read("\u{feff}(a)");
    assert_eq!(file.toplevel().len(), 2);
    assert_eq!(file.toplevel_from(0).unwrap().form, None);
}

#[test]
fn toplevel_form_is_found_from_preceding_offset() {
    let text = "(a)\n\n;; about b\n(b)";
    let file = read(text);
    let at = |offset| file.toplevel_from(offset).map(|form| &text[form.span.indices()]);
    assert_eq!(
        [at(0), at(2), at(3), at(text.len() as u32 - 1), at(100)],
        [Some("(a)"), Some("(a)"), Some("(b)"), Some("(b)"), None]
    );
}

#[track_caller]
fn check_tokens(dialect: Dialect, text: &str, expect: &[&str]) {
    let file = LispText::read(text.as_bytes(), dialect, &Features::default());
    let active = file.tokens().iter().filter(|token| token.active && token.kind != TokenKind::Comment);
    let shown: Vec<_> = active.map(|token| &text[token.span.indices()]).collect();
    assert_eq!(shown, expect);
    assert!(file.balanced(), "{text}");
}

#[test]
fn other_dialects_have_different_syntax() {
    check_tokens(
        Dialect::EmacsLisp,
        r"(setq x ?\( y ?a z ?\C-x v [a b] f #'g s a\ b) ; c",
        &["setq", "x", r"?\(", "y", "?a", "z", r"?\C-x", "v", "a", "b", "f", "g", "s", r"a\ b"],
    );
    check_tokens(
        Dialect::Scheme,
        "(define (f x) #;(no (t)) [list->vector #t #\\( |a b| set!]) #| c |#",
        &["define", "f", "x", "list->vector", "#t", "#\\(", "|a b|", "set!"],
    );
    check_tokens(
        Dialect::Clojure,
        "(ns a.b) (defn ^:private f [x, y] #_(no) {:k \\( :r #\"[)]\"} #(g %1) @d ~@e a/b x')",
        &[
            "ns", "a.b", "defn", ":private", "f", "x", "y", ":k", "\\(", ":r", "#\"[)]\"", "g", "%1", "d",
            "e", "a/b", "x'",
        ],
    );
}

const DIALECTS: [Dialect; 4] = [Dialect::CommonLisp, Dialect::EmacsLisp, Dialect::Scheme, Dialect::Clojure];

/// Checks invariants that hold for any text.
fn check_invariants(text: &[u8], dialect: Dialect) {
    let file = LispText::read(text, dialect, &Features::sbcl());
    let mut end = 0;
    for token in file.tokens() {
        assert!(end <= token.span.start && token.span.start < token.span.end, "tokens are in order");
        assert!(token.span.start <= token.name_start && token.name_start <= token.span.end);
        end = token.span.end;
        token.symbol(text);
    }
    assert!(end as usize <= text.len());
    for (index, form) in file.forms().iter().enumerate() {
        assert!(form.span.start < form.span.end && form.span.end as usize <= text.len());
        if let Some(parent) = form.parent {
            let outer = file.form(parent).unwrap().span;
            assert!(outer.start <= form.span.start && form.span.end <= outer.end, "forms nest");
        }
        for token in &file.tokens()[form.tokens()] {
            assert!(form.span.start <= token.span.start && token.span.end <= form.span.end);
        }
        let children: Vec<_> = file.children(FormId::new(index)).map(|child| file.span(child)).collect();
        assert!(children.windows(2).all(|pair| pair[0].end <= pair[1].start), "children are in order");
    }
    let mut end = 0;
    for toplevel in file.toplevel() {
        assert!(end <= toplevel.span.start);
        end = toplevel.span.end;
        let numbers: Vec<_> = (0..file.numbered_count(toplevel))
            .map(|number| file.numbered(toplevel, number).unwrap().span.start)
            .collect();
        assert!(numbers.is_sorted(), "numbers follow the text");
    }
}

#[test]
fn any_depth_is_read() {
    for open in [
        "(", "'", "#'", "`(,", "#+", "#+nil ", "#(", "#|", "#.", "(a . ", "#1=", "#S", "[", "^", "#_",
        "(progn(in-package",
    ] {
        for dialect in DIALECTS {
            check_depth(open.repeat(20_000).as_bytes(), dialect);
            check_depth((open.repeat(20_000) + "x" + &")".repeat(40_000)).as_bytes(), dialect);
        }
    }
}

fn check_depth(text: &[u8], dialect: Dialect) {
    let file = LispText::read(text, dialect, &Features::sbcl());
    assert!(file.forms().len() <= text.len() && file.tokens().len() <= text.len());
}

proptest! {
    #[test]
    fn any_bytes_are_read(text in proptest::collection::vec(any::<u8>(), 0..200)) {
        DIALECTS.into_iter().for_each(|dialect| check_invariants(&text, dialect));
    }

    #[test]
    fn any_mix_of_syntax_is_read(text in r#"([()'`,@.;"|\\#+:a \n?\[\]{}^~_!1=-]|#\||\|#|#\+nil |quote |in-package ){0,60}"#) {
        DIALECTS.into_iter().for_each(|dialect| check_invariants(text.as_bytes(), dialect));
    }
}

#[test]
fn block_comment_with_number_ends_as_usual() {
    for (text, comments, balanced) in [
        ("|##|#+nil #1|#", 1, false),
        ("#1|#", 1, false),
        ("#12| a #| b |# |# c", 1, true),
        ("#|#", 1, false),
        ("#||#", 1, true),
    ] {
        let read = LispText::read(text.as_bytes(), Dialect::CommonLisp, &Features::sbcl());
        let found = read.tokens().iter().filter(|token| token.kind == TokenKind::Comment).count();
        assert_eq!((found, read.balanced()), (comments, balanced), "{text}");
    }
}
