//! Plans of renames: which places they take, what they warn of, and what they refuse.

use std::fs;
use std::path::Path;

use steelbank::Steelbank;
use steelbank::query::control::Control;
use steelbank::query::load_system::LoadStatus;
use steelbank::query::rename::{Answer, CautionKind, ConflictKind, Request, Scope};

use crate::child::in_own_process;
use crate::project::{folder, load, project};

#[test]
fn renames_are_planned() {
    in_own_process("rename_plan::renames_are_planned", plans);
}

const MAIN: &str = "(defpackage #:rn (:use #:cl) (:export #:area \"SIZE\" sized))
(in-package #:rn)
(defun area (w h) (* w h))
(defun user (x) (area x #+nothing (area 1) 2))
(defun size (x &key (unit 1) scale) (list x unit scale))
(defun sized (size) (list size (size 1 :unit 2)))
(defstruct point x (y 0))
(defun norm (p) (+ (point-x p) (point-y p) (if (point-p p) 1 0) (point-x (make-point :x 1))))
(defmacro def-thing (name) `(defun ,(intern (format nil \"~A-THING\" name)) () ',name))
(def-thing big)
(defun things () (list (big-thing) 'big))
(defvar *depth* 1)
(defun looked () (list (find-symbol \"AREA\" :rn) (format nil \"~/rn::show/\" 1)))
(defun show (s x &optional a b) (declare (ignore a b)) (princ x s))
#+sbcl (progn (defstruct (box (:constructor new-box (held))) (held nil)))
(defun unbox (b) (setf (box-held b) (new-box 1)))
(defstruct ring ring name)
(defstruct (wide-ring (:include ring) (:conc-name wide-)) wide)
(defun rings (r) (list (ring-ring r) (ring-name r) (wide-name r) (make-wide-ring :wide 1 :name 2)))
(defstruct tube (width 1))
(defstruct (long-tube (:include tube) (:conc-name \"TUBE-\")) length)
(defun tubes (t1) (list (tube-width t1) (tube-length t1)))
(defun keyed (&key unit) (let ((unit (1+ unit))) unit))
";

fn plans() {
    let root = folder("rename-plan");
    fs::write(root.join("rn.asd"), "(defsystem \"rn\" :components ((:file \"main\")))\n(defsystem \"rn/more\" :depends-on (\"rn\") :components ((:file \"more\")))\n").unwrap();
    fs::write(root.join("main.lisp"), MAIN).unwrap();
    fs::write(root.join("more.lisp"), "(in-package :rn)\n(defun more () (area 1 2)) ; area\n").unwrap();
    fs::write(root.join("loose.txt"), "(area 5)\n").unwrap();
    let bank = project(&root, &root.join("cache"));
    assert_eq!(load(&bank, "rn").status, LoadStatus::Loaded);

    narrow_places(&bank, &root);
    the_symbols_set(&bank, &root);
    made_names(&bank, &root);
    refusals(&bank);
    fs::remove_dir_all(&root).unwrap();
}

fn plan(bank: &Steelbank, name: &str, new: &str) -> Answer {
    bank.rename_plan(&Request::new(name, new), &Control::default()).unwrap()
}

/// The file at `path` with the plan's edits.
fn edited(root: &Path, plan: &Answer, path: &str) -> String {
    let mut text = fs::read_to_string(root.join(path)).unwrap();
    let file = plan.files.iter().find(|file| file.path == path).unwrap();
    for edit in file.edits.iter().rev() {
        assert_eq!(&text[edit.start..edit.end], edit.old);
        text.replace_range(edit.start..edit.end, &edit.new);
    }
    text
}

fn kinds(plan: &Answer) -> Vec<CautionKind> {
    plan.cautions.iter().map(|caution| caution.kind).collect()
}

fn narrow_places(bank: &Steelbank, root: &Path) {
    let depth = plan(bank, "rn::*depth*", "*level*");
    assert_eq!(
        (depth.scope, depth.edits, depth.conflicts.len(), depth.cautions.len()),
        (Scope::Narrow, 1, 0, 0),
        "{depth:?}"
    );
    assert!(edited(root, &depth, "main.lisp").contains("(defvar *level* 1)"));
}

fn the_symbols_set(bank: &Steelbank, root: &Path) {
    let area = plan(bank, "rn:area", "surface");
    let main = edited(root, &area, "main.lisp");
    for expected in [
        "(:export #:surface \"SIZE\" sized)",
        "(defun surface (w h)",
        "(surface x #+nothing (surface 1) 2)",
        "(find-symbol \"SURFACE\" :rn)",
    ] {
        assert!(main.contains(expected), "{expected}: {main}");
    }
    assert_eq!(edited(root, &area, "more.lisp"), "(in-package :rn)\n(defun more () (surface 1 2)) ; area\n");
    assert_eq!(kinds(&area), [CautionKind::UnknownPackage], "{area:?}");
    assert_eq!(area.doubtful.iter().map(|doubt| doubt.path.as_str()).collect::<Vec<_>>(), ["loose.txt"]);
    let request = Request { comments: true, ..Request::new("rn:area", "surface") };
    let area = bank.rename_plan(&request, &Control::default()).unwrap();
    assert!(edited(root, &area, "more.lisp").ends_with("; surface\n"));

    let sized = plan(bank, "rn:sized", "measured");
    assert!(edited(root, &sized, "main.lisp").contains("\"SIZE\" measured)"), "{sized:?}");

    // A function, and a variable of its name.
    let size = plan(bank, "rn:size", "extent");
    let main = edited(root, &size, "main.lisp");
    assert!(main.contains("\"EXTENT\" sized)") && main.contains("(extent 1 :unit 2)"), "{main}");
    // Keyword parameters keep their keywords.
    let request = Request { scope: Scope::Symbol, ..Request::new("rn::unit", "measure") };
    let unit = bank.rename_plan(&request, &Control::default()).unwrap();
    let main = edited(root, &unit, "main.lisp");
    for expected in [
        "(x &key ((:unit measure) 1) scale) (list x measure scale)",
        "(size 1 :unit 2)",
        "(defun keyed (&key ((:unit measure))) (let ((measure (1+ measure))) measure))",
    ] {
        assert!(main.contains(expected), "{expected}: {main}");
    }
    assert_eq!(unit.key_parameters, 2);

    let show = plan(bank, "rn::show", "display");
    assert_eq!(kinds(&show), [CautionKind::InString], "{show:?}");
    let request = Request { strings: true, ..Request::new("rn::show", "display") };
    let show = bank.rename_plan(&request, &Control::default()).unwrap();
    assert!(edited(root, &show, "main.lisp").contains("\"~/rn::display/\""), "{show:?}");
}

fn made_names(bank: &Steelbank, root: &Path) {
    let point = plan(bank, "rn::point", "dot");
    let main = edited(root, &point, "main.lisp");
    assert!(main.contains("(defstruct dot x (y 0))"), "{main}");
    assert!(
        main.contains("(+ (dot-x p) (dot-y p) (if (dot-p p) 1 0) (dot-x (make-dot :x 1)))"),
        "{main} {point:?}"
    );
    assert!(point.conflicts.is_empty() && point.cautions.is_empty(), "{point:?}");

    let held = plan(bank, "rn::held", "kept");
    let main = edited(root, &held, "main.lisp");
    assert!(
        main.contains("new-box (kept))) (kept nil)") && main.contains("(setf (box-kept b)"),
        "{main} {held:?}"
    );
    let boxed = plan(bank, "rn::box", "crate");
    assert!(edited(root, &boxed, "main.lisp").contains("(setf (crate-held b)"), "{boxed:?}");

    let big = plan(bank, "rn::big", "large");
    assert_eq!(kinds(&big), [CautionKind::Maker], "{big:?}");
    assert_eq!(big.cautions[0].names, ["BIG-THING"]);
    let request = Request { derived: true, ..Request::new("rn::big", "large") };
    let big = bank.rename_plan(&request, &Control::default()).unwrap();
    assert!(
        big.cautions.is_empty() && edited(root, &big, "main.lisp").contains("(list (large-thing) 'large)"),
        "{big:?}"
    );

    parts_of_structures(bank, root);
    let made = plan(bank, "rn::big-thing", "x-thing");
    assert_eq!(made.conflicts.iter().map(|conflict| conflict.kind).collect::<Vec<_>>(), [ConflictKind::Made]);
}

/// What a structure makes: the structure is made to make the new name.
fn parts_of_structures(bank: &Steelbank, root: &Path) {
    let accessor = plan(bank, "rn::point-x", "point-abscissa");
    let main = edited(root, &accessor, "main.lisp");
    for expected in ["(defstruct point abscissa (y 0))", "(point-abscissa p)", "(make-point :abscissa 1)"] {
        assert!(main.contains(expected), "{expected}: {main} {accessor:?}");
    }
    assert!(main.contains("(defun size (x &key"), "only the slot: {main}");
    assert_eq!((accessor.scope, accessor.cautions.len()), (Scope::Narrow, 0), "{accessor:?}");
    let refused = plan(bank, "rn::point-x", "abscissa");
    assert_eq!(
        refused.conflicts.iter().map(|conflict| conflict.kind).collect::<Vec<_>>(),
        [ConflictKind::Made],
        "{refused:?}"
    );
    let predicate = plan(bank, "rn::point-p", "is-point");
    let main = edited(root, &predicate, "main.lisp");
    assert!(
        main.contains("(defstruct (point (:predicate is-point)) x (y 0))")
            && main.contains("(if (is-point p)"),
        "{main} {predicate:?}"
    );
    // A structure and its slot share a name; a prefix is written as a string; a structure includes another.
    let ring = plan(bank, "rn::ring", "loop-of");
    let main = edited(root, &ring, "main.lisp");
    assert!(
        main.contains("(defstruct loop-of loop-of name)")
            && main.contains("(loop-of-loop-of r) (loop-of-name r)"),
        "{main} {ring:?}"
    );
    let name = plan(bank, "rn::ring-name", "ring-title");
    let main = edited(root, &name, "main.lisp");
    for expected in ["(defstruct ring ring title)", "(ring-title r)", "(wide-title r)", ":wide 1 :title 2"] {
        assert!(main.contains(expected), "{expected}: {main} {name:?}");
    }
    let tube = plan(bank, "rn::tube", "pipe");
    assert_eq!(kinds(&tube), [CautionKind::Maker], "{tube:?}");
    assert_eq!(tube.cautions[0].names, ["TUBE-WIDTH"]);
}

fn refusals(bank: &Steelbank) {
    let kind = |name: &str, new: &str| plan(bank, name, new).conflicts.last().map(|conflict| conflict.kind);
    assert_eq!(kind("rn:area", "size"), Some(ConflictKind::Exists));
    assert_eq!(kind("rn:area", "car"), Some(ConflictKind::Standard));
    assert_eq!(kind("rn:area", "AREA"), Some(ConflictKind::Same));
    let car = plan(bank, "cl:car", "first-one");
    assert!(car.conflicts.iter().any(|conflict| conflict.kind == ConflictKind::Locked), "{car:?}");
    assert_eq!(kind("rn:area", "free-name"), None);
    let error = bank.rename_plan(&Request::new("rn::nothing", "x"), &Control::default()).unwrap_err();
    assert!(error.to_string().contains("not found"), "{error}");
    assert!(bank.rename_plan(&Request::new("rn:area", "a:b"), &Control::default()).is_err());
}
