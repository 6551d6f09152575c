//! Compares the table of operators with SBCL. The table must have all macros and special operators
//! of the standard. In a form of each operator's shape, SBCL's code walker must evaluate the parts
//! that the table lists as forms, and no names or data.

use std::fmt::Write;
use std::time::Duration;

use steelbank::source::tap::operators::{FormPart, Operator, OperatorKind, Shape, operator, operators};

use crate::image::bank;
use steelbank::{Control, EvaluateRequest};

/// Returns what `source` writes.
fn written(source: &str) -> String {
    let answer = bank().run(&EvaluateRequest::new(source).values(), &Control::new(Duration::from_secs(60)));
    answer.unwrap_or_else(|error| panic!("{source}: {error}")).output
}

/// Operators with forms that cannot be generated from a shape. tests/torture has marked sources
/// for the operators that can occur alone.
const DEFINITIONS: [&str; 16] = [
    "DEFCLASS", "DEFINE-CONDITION", "DEFSTRUCT", "DEFGENERIC", "DEFMETHOD", "DEFINE-METHOD-COMBINATION",
    "DEFPACKAGE", "LOOP", "DECLARE", "DECLAIM",
    // Legal only inside forms of other operators.
    "CALL-METHOD", "LOOP-FINISH", "PPRINT-POP", "PPRINT-EXIT-IF-LIST-EXHAUSTED", "IN-PACKAGE", "FORMATTER",
];

#[test]
fn table_has_all_standard_operators() {
    let kinds = written(
        "(let ((*print-right-margin* nil))
           (format t \"~{~A ~A~^,~}\"
             (loop for symbol being the external-symbols of :cl
                   when (and (fboundp symbol) (not (typep (symbol-name symbol) '(vector nil))))
                     collect (symbol-name symbol)
                     and collect (cond ((special-operator-p symbol) :special)
                                       ((macro-function symbol) :macro)
                                       (t :function)))))",
    );
    let known: Vec<(&str, &str)> = kinds.split(',').filter_map(|entry| entry.split_once(' ')).collect();
    let mut wrong = Vec::new();
    for &(name, kind) in &known {
        match (operator("COMMON-LISP", name).map(|found| found.kind), kind) {
            (Some(OperatorKind::Function) | None, "FUNCTION")
            | (Some(OperatorKind::Macro | OperatorKind::Special), "MACRO" | "SPECIAL") => {}
            (found, kind) => wrong.push(format!("{name} is a {kind}, and {found:?} in the table")),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(known.len() > 700, "{}", known.len());
    for found in operators().iter().filter(|found| found.package.starts_with("SB-")) {
        let (package, name) = (&found.package, &found.name);
        let kind = written(&format!(
            "(multiple-value-bind (symbol status) (find-symbol {name:?} {package:?})
               (princ (and (eq status :external) (or (special-operator-p symbol) (macro-function symbol)) t)))"
        ));
        assert_eq!(kind, "T", "{package}:{name} is no macro of SBCL's");
    }
    let standard =
        operators().iter().filter(|found| found.package == "COMMON-LISP" && found.name != "DECLARE");
    for found in standard {
        assert!(known.iter().any(|(name, _)| *name == found.name), "{} is none of SBCL's", found.name);
    }
}

/// A form generated from a shape. Parts that must be evaluated are written as
/// `(steelbank-oracle::ev 1)`, and parts that must not be evaluated as `qu1`, with other numbers.
struct Form {
    text: String,
    count: usize,
    evaluated: Vec<usize>,
    /// Whether to write a list where an atom or a list is allowed.
    lists: bool,
}

impl Form {
    fn of(operator: &'static Operator, lists: bool) -> Form {
        let head = format!("{}::{}", operator.package, operator.name);
        let mut form = Form { text: format!("({head}"), count: 0, evaluated: Vec::new(), lists };
        form.parts(&operator.name, &operator.shape);
        form.text.push(')');
        match operator.name.as_str() {
            "ALLOW-WITH-INTERRUPTS" | "WITH-LOCAL-INTERRUPTS" => {
                form.text = format!("(sb-sys:without-interrupts {})", form.text);
            }
            // The short form has only two arguments, so omit the other parts.
            "DEFSETF" if !lists => {
                return Form { text: format!("({head} na1 car)"), evaluated: Vec::new(), ..form };
            }
            _ => {}
        }
        form
    }

    fn next(&mut self) -> usize {
        self.count += 1;
        self.count
    }

    fn evaluated(&mut self) -> String {
        let number = self.next();
        self.evaluated.push(number);
        format!("(ev {number})")
    }

    fn parts(&mut self, name: &str, shape: &'static Shape) {
        let again: &[FormPart] = if name == "SHIFTF" { &shape.rest } else { &[] };
        for part in shape.first.iter().chain(&shape.rest).chain(again) {
            self.text.push(' ');
            self.part(name, part);
        }
    }

    fn part(&mut self, name: &str, part: &'static FormPart) {
        let number = self.next();
        let text = match part {
            // Write a variable: SETQ takes no form here.
            FormPart::Place if name.ends_with("SETQ") => format!("va{number}"),
            // Write a constant: this form does not evaluate the expansion; uses of the symbol
            // macro do.
            FormPart::Form if name == "DEFINE-SYMBOL-MACRO" => "1".to_owned(),
            FormPart::LambdaList if name == "HANDLER-CASE" => format!("(x{number})"),
            FormPart::Place => format!("(car {})", self.evaluated()),
            FormPart::Form | FormPart::Inner | FormPart::Tagbody | FormPart::RestartBody => self.evaluated(),
            FormPart::Variable | FormPart::SlotVariable | FormPart::SymbolMacro | FormPart::LocalMacro => {
                format!("va{number}")
            }
            FormPart::SymbolMacroBinding => format!("(va{number} 1)"),
            FormPart::Functions | FormPart::Labels => format!("((fu{number} (x) x {}))", self.evaluated()),
            FormPart::Macros => format!("((fu{number} (x) x))"),
            FormPart::Block | FormPart::Defines(_) => format!("na{number}"),
            FormPart::ToBlock => "around".to_owned(),
            FormPart::ToTag => "tag".to_owned(),
            FormPart::LambdaList | FormPart::MacroLambdaList => {
                format!("(x{number} &optional (y{number} {}))", self.evaluated())
            }
            FormPart::Type => format!("(member qu{number})"),
            FormPart::Condition => format!("(and error (satisfies qu{number}))"),
            FormPart::FunctionName => "car".to_owned(),
            FormPart::Class => "standard-object".to_owned(),
            FormPart::Slot => format!("qu{number}"),
            FormPart::Keys => format!("(qu{number})"),
            FormPart::Datum => datum(name, number),
            FormPart::Names(_) => "'car".to_owned(),
            FormPart::List(shape) => {
                self.text.push('(');
                self.parts(name, shape);
                ")".to_owned()
            }
            FormPart::Either(atom, list) => {
                return if self.lists { self.part(name, list) } else { self.part(name, atom) };
            }
            other => panic!("{name}: {other:?}"),
        };
        self.text.push_str(&text);
    }
}

/// Returns a datum that is legal in a form of `operator`.
fn datum(operator: &str, number: usize) -> String {
    let keyword = match operator {
        "EVAL-WHEN" => ":execute",
        "LOAD-TIME-VALUE" => "nil",
        "PUSHNEW" => ":test",
        "RESTART-BIND" => ":report-function",
        "WITH-INPUT-FROM-STRING" => ":start",
        "WITH-OUTPUT-TO-STRING" => ":element-type",
        "PRINT-UNREADABLE-OBJECT" => ":type",
        "PPRINT-LOGICAL-BLOCK" => ":prefix",
        "WITH-COMPILATION-UNIT" => ":override",
        "WITH-PACKAGE-ITERATOR" => ":internal",
        "WAIT-FOR" => ":timeout",
        "WITH-MUTEX" => ":wait-p",
        "WITH-RECURSIVE-LOCK" => ":timeout",
        "WITH-FLOAT-TRAPS-MASKED" => ":inexact",
        "WITH-UNLOCKED-PACKAGES" => "cl-user",
        "BINDING*" => ":exit-if-null",
        _ => return format!("qu{number}"),
    };
    keyword.to_owned()
}

/// Walks FORM with SBCL's walker and lists the markers that it evaluates: numbers of EV, and names
/// that begin with QU.
const ORACLE: [&str; 3] = [
    "(defpackage :steelbank-oracle (:use :cl) (:export #:walked))",
    "(defun steelbank-oracle::ev (n) n)",
    "(defun steelbank-oracle::walked (text)
    (let ((*package* (find-package :steelbank-oracle)) (seen '()))
      (handler-case
          (let ((form (read-from-string text)))
            (handler-bind ((warning #'muffle-warning))
              (sb-walker:walk-form
               `(block steelbank-oracle::around (tagbody steelbank-oracle::tag ,form)) nil
               (lambda (form context environment)
                 (declare (ignore environment))
                 (when (eq context :eval)
                   (cond ((and (consp form) (eq (car form) 'steelbank-oracle::ev)) (push (second form) seen))
                         ((and (symbolp form) (> (length (symbol-name form)) 2)
                               (string= (symbol-name form) \"QU\" :end1 2))
                          (push form seen))))
                 form)))
            (format t \"~{~A~^ ~}\" (remove-duplicates (reverse seen))))
        (error (condition) (format t \"error ~A\" (substitute #\\Space #\\Newline (princ-to-string condition)))))))",
];

#[test]
fn sbcl_evaluates_the_forms_of_the_table() {
    ORACLE.iter().for_each(|form| drop(written(form)));
    let ours = ["COMMON-LISP", "SB-EXT", "SB-SYS", "SB-INT", "SB-THREAD"];
    let asked = operators().iter().filter(|operator| {
        operator.kind != OperatorKind::Function
            && ours.contains(&operator.package.as_str())
            && !DEFINITIONS.contains(&operator.name.as_str())
    });
    let (mut wrong, mut count, mut markers) = (String::new(), 0, 0);
    for operator in asked {
        for lists in [false, true] {
            let form = Form::of(operator, lists);
            count += 1;
            markers += form.evaluated.len();
            let said = written(&format!("(steelbank-oracle:walked {:?})", form.text));
            let seen: Vec<&str> = said.split(' ').collect();
            let missing: Vec<_> =
                form.evaluated.iter().filter(|number| !seen.contains(&number.to_string().as_str())).collect();
            let evaluated = seen.iter().any(|name| name.starts_with("QU"));
            if !missing.is_empty() || evaluated || said.starts_with("error") {
                writeln!(wrong, "{}: {said}; not evaluated: {missing:?}", form.text).unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    println!("seen: operators: {count} forms, {markers} places that are evaluated");
    assert!(count > 200 && markers > 250, "{count} {markers}");
}
