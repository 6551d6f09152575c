//! Tests describe-symbol field by field, for symbols of every kind.

use steelbank::actions::symbols::describe_symbol::Description;
use steelbank::actions::uses::who::WhoRequest;
use steelbank::answer::lookup::LookupStatus;
use steelbank::answer::{LispName, NotFound};
use steelbank::xref::Access;
use steelbank::{Control, DescribeSymbolRequest, Error};

use crate::asks::Asks;
use crate::image::{bank, evaluate};
use crate::texts::expect_text;

fn describe(name: &str) -> Description {
    bank()
        .answer(&DescribeSymbolRequest::new(name).package("CL"))
        .description
        .unwrap_or_else(|| panic!("{name} was not found"))
}

fn check(name: &str, symbol: &str, classification: &str) -> Description {
    let description = describe(name);
    assert_eq!(description.symbol.canonical(), symbol);
    assert_eq!(description.classification.name(), classification, "{name}");
    description
}

#[test]
fn mapcar_has_every_field_of_a_function() {
    let description = check("mapcar", "COMMON-LISP::MAPCAR", "FUNCTION");
    let function = description.function.as_ref().unwrap();
    assert_eq!(function.kind.name(), "function");
    assert_eq!(function.arglist.as_deref(), Some("(FUNCTION LIST &REST MORE-LISTS)"));
    expect_text("mapcar documentation", function.documentation.as_deref().unwrap());
    let source = description.source().unwrap();
    assert_eq!(source.file, "SYS:SRC;CODE;LIST.LISP");
    assert!(!source.stale);
    // The offset points to the whitespace in front of the form.
    let path = source.native.as_deref().unwrap();
    let source_text = std::fs::read_to_string(path).unwrap();
    let before = source.octet_offset.unwrap() as usize;
    let at: String = source_text[before..].trim_start().chars().take(60).collect();
    assert!(at.starts_with('('), "{at}");
    let line = source_text.lines().nth(source.place.line.unwrap() as usize - 1).unwrap();
    assert!(line.starts_with(&at[..10.min(line.len())]), "{line} {at}");
    assert_eq!(source.place.column, Some(1));
    assert_eq!((&description.variable, &description.class), (&None, &None));
    assert_eq!(description.accessibility, Access::External);
    assert_eq!(description.package.as_deref(), Some("COMMON-LISP"));
}

#[test]
fn print_base_has_every_field_of_a_variable() {
    let description = check("*print-base*", "COMMON-LISP::*PRINT-BASE*", "VARIABLE");
    let variable = description.variable.unwrap();
    assert_eq!((variable.kind.name(), variable.value.as_deref()), ("special", Some("10")));
    assert_eq!(variable.variable_type.as_deref(), Some("(INTEGER 2 36)"));
    expect_text("print-base documentation", &variable.documentation.unwrap());
    assert_eq!(variable.sources[0].file, "SYS:SRC;CODE;PRINT.LISP");
    assert_eq!(description.function, None);
}

#[test]
fn special_operators_and_macros_have_their_kinds() {
    let function = check("if", "COMMON-LISP::IF", "FUNCTION").function.unwrap();
    assert_eq!(
        (function.kind.name(), function.arglist.as_deref()),
        ("special-operator", Some("(TEST THEN &OPTIONAL ELSE)"))
    );
    expect_text("if documentation", &function.documentation.unwrap());
    let function = check("loop", "COMMON-LISP::LOOP", "MACRO").function.unwrap();
    assert_eq!(
        (function.kind.name(), function.arglist.as_deref()),
        ("macro", Some("(&REST KEYWORDS-AND-FORMS)"))
    );
    assert_eq!(function.sources[0].file, "SYS:SRC;CODE;LOOP.LISP");
}

#[test]
fn names_with_several_definitions_have_every_facet() {
    let list = check("list", "COMMON-LISP::LIST", "FUNCTION");
    assert_eq!(list.function.unwrap().arglist.as_deref(), Some("(&REST ARGS)"));
    assert_eq!(list.class.unwrap().kind.name(), "built-in-class");
    let error = check("error", "COMMON-LISP::ERROR", "FUNCTION");
    assert_eq!(error.function.unwrap().arglist.as_deref(), Some("(DATUM &REST ARGUMENTS)"));
    let class = error.class.unwrap();
    assert_eq!(class.kind.name(), "condition-class");
    assert_eq!(class.superclasses, ["cl:serious-condition"]);
}

#[test]
fn classes_and_generic_functions_have_their_parts() {
    let class = check("standard-object", "COMMON-LISP::STANDARD-OBJECT", "CLASS").class.unwrap();
    assert_eq!(class.superclasses, ["sb-pcl::slot-object"]);
    assert!(class.subclass_count > 3);
    assert_eq!(class.subclasses.len() as u64, class.subclass_count.min(100));
    let function = check("print-object", "COMMON-LISP::PRINT-OBJECT", "GENERIC-FUNCTION").function.unwrap();
    assert_eq!(
        (function.kind.name(), function.arglist.as_deref()),
        ("generic-function", Some("(OBJECT STREAM)"))
    );
    assert!(function.method_count.unwrap() > 50);
    assert!(function.methods.len() > 50 && function.methods.len() <= 100);
}

#[test]
fn names_are_read_as_lisp_reads_them() {
    for name in [
        "mapcar", "MapCar", "cl:mapcar", "cl::mapcar", "common-lisp:mapcar", "|MAPCAR|", "#'mapcar",
        "'mapcar",
    ] {
        assert_eq!(describe(name).symbol, "cl:mapcar", "{name}");
    }
    // The prefix wins over the package argument.
    let answer = bank().answer(&DescribeSymbolRequest::new("cl:car").package("KEYWORD"));
    assert_eq!(answer.description.unwrap().symbol, "cl:car");
    evaluate("(defun cl-user::|mixed Case| (|arg One|) |arg One|)");
    let description =
        bank().answer(&DescribeSymbolRequest::new("|mixed Case|").package("CL-USER")).description.unwrap();
    assert_eq!(description.symbol, "cl-user::|mixed Case|");
    assert_eq!(description.function.unwrap().arglist.as_deref(), Some("(|arg One|)"));
    let request = DescribeSymbolRequest::new("mixed case").package("CL-USER");
    let error = bank().ask(&request, &Control::default()).unwrap_err();
    assert!(matches!(error, Error::NotFound(NotFound::Symbol { status: LookupStatus::NoSymbol, .. })));
    assert_eq!(describe(":test").symbol, ":test");
}

#[test]
fn setf_names_describe_functions_and_places() {
    let car = describe("(setf car)");
    assert_eq!(car.symbol, "cl:car");
    let setf = car.setf_function.unwrap();
    assert_eq!(setf.name, "(setf cl:car)");
    assert!(describe("car").setf_function.is_some());
    assert!(describe("getf").setf_expander);
}

#[test]
fn accessibility_is_relative_to_the_requested_package() {
    let inherited = bank().answer(&DescribeSymbolRequest::new("car").package("CL-USER")).description.unwrap();
    assert_eq!(inherited.accessibility, Access::Inherited);
    let internal =
        bank().answer(&DescribeSymbolRequest::new("sb-c::*compilation*").package("CL")).description.unwrap();
    assert_eq!(internal.symbol, "sb-c:*compilation*");
}

#[test]
fn unindexed_symbol_is_described() {
    // No index refresh follows a direct call.
    let lisp = bank().lisp();
    lisp.run(std::time::Duration::from_secs(5), |on_lisp| {
        on_lisp.call("values", &["CL-USER", "(defvar cl-user::*behind-the-back* 5)"])
    })
    .unwrap();
    let description = bank()
        .answer(&DescribeSymbolRequest::new("*behind-the-back*").package("CL-USER"))
        .description
        .unwrap();
    assert_eq!(description.variable.unwrap().value.as_deref(), Some("5"));
}

#[test]
fn core_has_no_functions_of_its_builder() {
    let callers = bank().answer(&WhoRequest::calls("mapcar").package("CL")).users;
    let nameless: Vec<_> = callers.iter().filter(|user| user.name.as_str().starts_with("#:")).collect();
    assert!(nameless.is_empty(), "{nameless:?}");
    let mut sorted: Vec<_> = callers.names().collect();
    sorted.dedup();
    assert_eq!(sorted.len(), callers.len());
    assert!(sorted.len() > 300);
}

/// Returns the text that the tool shows.
fn shown(name: &str, package: &str) -> String {
    bank().answer(&DescribeSymbolRequest::new(name).package(package)).to_string()
}

#[test]
fn list_names_have_their_own_text() {
    evaluate(
        "(defpackage :steelbank-describe (:use :cl))
         (in-package :steelbank-describe)",
    );
    evaluate(
        "(defgeneric steelbank-describe::part (thing)) (defgeneric (setf steelbank-describe::part) (new thing))",
    );
    expect_text("setf generic function", &shown("(setf part)", "STEELBANK-DESCRIBE"));
    expect_text("setf expander", &shown("(setf getf)", "CL"));
    expect_text("undefined setf name", &shown("(setf cons)", "CL"));
}

#[test]
fn text_lists_every_facet_below_contract_lines() {
    // Other tests add methods to PRINT-OBJECT.
    own_process!();
    for name in ["mapcar", "if", "error"] {
        expect_text(name, &shown(name, "CL"));
    }
    let print = shown("print-object", "CL");
    let (methods, facets): (Vec<&str>, Vec<&str>) =
        print.lines().partition(|line| line.starts_with("    (method cl:print-object "));
    expect_text("print-object without methods", &facets.join("\n"));
    assert_eq!(methods.len(), 100, "{print}");
}

#[test]
fn class_parts_agree_with_sbcl() {
    for name in ["sb-kernel::defstruct-description", "simple-error", "sb-pcl::std-class", "asdf:system"] {
        let class = describe(name).class.unwrap();
        let ask = |what: &str| {
            let values = evaluate(&format!(
                "(let ((*package* (find-package :keyword))) (format nil \"~{{~s~^ ~}}\" {what}))"
            ));
            let text = values[0].trim_matches('"').to_owned();
            text.split(' ')
                .filter(|name| !name.is_empty())
                .map(|name| name.rsplit(':').next().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        let bare = |names: Vec<&str>| {
            names.into_iter().map(|name| name.rsplit(':').next().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(
            bare(class.precedence.iter().map(LispName::canonical).collect()),
            ask(&format!("(mapcar #'class-name (sb-mop:class-precedence-list (find-class '{name})))")),
        );
        let mut slots = bare(class.slots.iter().map(|slot| slot.name.canonical()).collect());
        let mut true_slots = ask(&format!(
            "(remove-duplicates (mapcan (lambda (c) (unless (typep c 'built-in-class) (mapcar #'sb-mop:slot-definition-name (sb-mop:class-direct-slots c)))) (sb-mop:class-precedence-list (find-class '{name}))))"
        ));
        slots.sort();
        true_slots.sort();
        assert_eq!(slots, true_slots, "{name}");
    }
}
