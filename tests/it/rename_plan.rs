//! Plans of renames: their places, cautions and refusals.

use std::fs;
use std::path::Path;

use steelbank::Steelbank;
use steelbank::query::control::Control;
use steelbank::query::load_system::LoadStatus;
use steelbank::query::rename::{CautionKind, ConflictKind, RenamePlan, RenameRequest, Scope};

use crate::child::in_own_process;
use crate::project::{delete, folder, load, project};

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
(defstruct lone weight)
(progn (deftype meter-level () 'fixnum) (defstruct meter (level 0 :type meter-level)))
(defun meters (m) (the meter-level (meter-level m)))
(defstruct mark name (other 0))
(defstruct (open-mark (:conc-name nil)) opened)
(defstruct shut-mark opened)
(defun opened-marks (a b) (list (opened a) (shut-mark-opened b)))
(defclass marked () ((other)))
(defun marks (m) (list (mark-name m) (mark-other m) (with-slots (other) m other)))
(defstruct (spot (:constructor spot-at (left &key up))) left (up (list 1)))
(defun spots () (list (spot-left (spot-at 1 :up 2)) (spot-up (spot-at 1))))
(defstruct deep (depth 0))
(defun deeper (d) (list (deep-depth d) (slot-value d 'depth)))
(defmacro defthing (name-and-options &rest slots) `(defstruct ,name-and-options ,@slots))
(defthing (lamp (:copier nil)) (watt 40))
(defthing torch (watt 60))
(defthing (flare (:include torch)) (color 1))
(defun lamps (l) (list (lamp-watt l) (lamp-p l) (make-lamp :watt 3)))
(defun torches (one two) (list (torch-watt one) (copy-torch one) (flare-watt two)))
(defmacro deforeign (name type)
  `(defun ,(if (stringp name) (intern (substitute #\\- #\\_ (string-upcase name))) (second name)) () ',type))
(deforeign \"get_it\" :int)
(defstruct jar lid)
(defstruct (big-jar (:include jar) (:conc-name bj-)) size)
(defmacro of-jar (slot jar) `(,(intern (format nil \"JAR-~A\" slot)) ,jar))
(defun jars (j) (of-jar lid j))
(deforeign (\"put_it\" %put) :int)
(defmacro defstrange (name) `(defun ,(intern (string-upcase name)) () 1))
(defstrange \"odd\")
(defun foreigners () (list (get-it) (%put) (odd)))
(defun keyed (&key unit) (let ((unit (1+ unit))) unit))
";

fn plans() {
    let root = folder("rename-plan");
    fs::write(root.join("rn.asd"), "(defsystem \"rn\" :components ((:file \"main\") (:file \"structures\")))\n(defsystem \"rn/more\" :depends-on (\"rn\") :components ((:file \"more\")))\n").unwrap();
    let far = format!("(defun far (&key (first \"{}\") unit) (list first unit))\n", "x".repeat(5000));
    fs::write(root.join("main.lisp"), format!("{MAIN}{far}")).unwrap();
    fs::write(root.join("more.lisp"), "(in-package :rn)\n(defun more () (area 1 2)) ; area\n").unwrap();
    let helped = "(in-package :rn)\n(defun helper (x) x)\n(defmacro with-help (x) `(helper ,x))\n(defun helped (y) (with-help y))\n";
    fs::write(root.join("structures.lisp"), helped).unwrap();
    fs::write(root.join("loose.txt"), "(area 5)\n").unwrap();
    let bank = project(&root, &root.join("cache"));
    assert_eq!(load(&bank, "rn").status, LoadStatus::Loaded);

    narrow_places(&bank, &root);
    the_symbols_set(&bank, &root);
    made_names(&bank, &root);
    refusals(&bank);
    delete(&root);
}

fn plan(bank: &Steelbank, name: &str, new: &str) -> RenamePlan {
    bank.rename_plan(&RenameRequest::new(name, new), &Control::default()).unwrap()
}

/// Returns the file at `path` with the plan's edits.
fn edited(root: &Path, plan: &RenamePlan, path: &str) -> String {
    let mut text = fs::read_to_string(root.join(path)).unwrap();
    let file = plan.files.iter().find(|file| file.path == path).unwrap();
    for edit in file.edits.iter().rev() {
        assert_eq!(&text[edit.range.indices()], edit.old);
        text.replace_range(edit.range.indices(), &edit.new);
    }
    text
}

fn kinds(plan: &RenamePlan) -> Vec<CautionKind> {
    plan.cautions.iter().map(|caution| caution.kind).collect()
}

fn narrow_places(bank: &Steelbank, root: &Path) {
    // Nothing is decided by the words of a caution, which names the macro's file.
    let helper = plan(bank, "rn::helper", "assist");
    assert_eq!((helper.scope, helper.edits), (Scope::Narrow, 2), "{helper:?}");
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
    assert_eq!(
        area.doubtful.iter().map(|doubt| doubt.place.file.as_str()).collect::<Vec<_>>(),
        ["loose.txt"]
    );
    let request = RenameRequest { comments: true, ..RenameRequest::new("rn:area", "surface") };
    let area = bank.rename_plan(&request, &Control::default()).unwrap();
    assert!(edited(root, &area, "more.lisp").ends_with("; surface\n"));

    let sized = plan(bank, "rn:sized", "measured");
    assert!(edited(root, &sized, "main.lisp").contains("\"SIZE\" measured)"), "{sized:?}");

    // A function, and a variable of its name.
    let size = plan(bank, "rn:size", "extent");
    let main = edited(root, &size, "main.lisp");
    assert!(main.contains("\"EXTENT\" sized)") && main.contains("(extent 1 :unit 2)"), "{main}");
    // Keyword parameters keep their keywords.
    let request = RenameRequest { scope: Scope::Symbol, ..RenameRequest::new("rn::unit", "measure") };
    let unit = bank.rename_plan(&request, &Control::default()).unwrap();
    let main = edited(root, &unit, "main.lisp");
    for expected in [
        "(x &key ((:unit measure) 1) scale) (list x measure scale)",
        "(size 1 :unit 2)",
        "(defun keyed (&key ((:unit measure))) (let ((measure (1+ measure))) measure))",
        "x\") ((:unit measure))) (list first measure))",
    ] {
        assert!(main.contains(expected), "{expected}: {main}");
    }
    assert_eq!(unit.key_parameters, 3);

    let show = plan(bank, "rn::show", "display");
    assert_eq!(kinds(&show), [CautionKind::InString], "{show:?}");
    let request = RenameRequest { strings: true, ..RenameRequest::new("rn::show", "display") };
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
    let request = RenameRequest { derived: true, ..RenameRequest::new("rn::big", "large") };
    let big = bank.rename_plan(&request, &Control::default()).unwrap();
    assert!(
        big.cautions.is_empty() && edited(root, &big, "main.lisp").contains("(list (large-thing) 'large)"),
        "{big:?}"
    );

    parts_of_structures(bank, root);
    slots_of_structures(bank, root);
    structures_of_macros(bank, root);
    refused_as_made(
        bank,
        "rn::big-thing",
        "x-thing",
        "main.lisp:10 in which it does not stand, as it seems from BIG: rename that to X.",
    );
    refused_as_made(bank, "rn::big-thing", "big-zz", "from BIG: rename that; it cannot become BIG-ZZ by it.");
}

/// Renames what a structure makes: the structure is edited to make the new name.
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

fn refused_as_made(bank: &Steelbank, name: &str, new: &str, message: &str) {
    let made = plan(bank, name, new);
    assert_eq!(made.conflicts.len(), 1, "{made:?}");
    assert_eq!(made.conflicts[0].kind, ConflictKind::Made);
    assert!(made.conflicts[0].message.ends_with(message), "{made:?}");
}

/// Renames names that only the structure makes, and slots of several structures, constructors' lambda lists
/// and classes.
fn slots_of_structures(bank: &Steelbank, root: &Path) {
    let check = |name: &str, new: &str, expected: &[&str]| {
        let plan = plan(bank, name, new);
        assert!(plan.conflicts.is_empty(), "{plan:?}");
        let main = edited(root, &plan, "main.lisp");
        for expected in expected {
            assert!(main.contains(expected), "{expected}: {main} {plan:?}");
        }
        plan
    };
    let copier = check("rn::copy-lone", "clone-lone", &["(defstruct (lone (:copier clone-lone)) weight)"]);
    assert_eq!((copier.edits, copier.places, copier.cautions.len()), (1, 0, 0), "{copier:?}");
    assert_eq!(copier.reason, "It stands nowhere: a form makes it, and will make the new name.");
    check("rn::lone-weight", "lone-mass", &["(defstruct lone mass)"]);

    let unlike =
        ["(defstruct mark title (other 0))", "(mark-title m)", "(defstruct ring ring name)", "(ring-name r)"];
    let both =
        ["(deftype meter-height ()", "(defstruct meter (height 0 :type meter-height))", "(meter-height m)"];
    check("rn::meter-level", "meter-height", &both);
    let bare =
        ["(opened-at a) (shut-mark-opened-at b)", "nil)) opened-at)", "(defstruct shut-mark opened-at)"];
    check("rn::opened", "opened-at", &bare);
    check("rn::shut-mark-opened", "shut-mark-since", &["nil)) opened)", "(defstruct shut-mark since)"]);
    let name = check("rn::mark-name", "mark-title", &unlike);
    assert!(name.cautions.is_empty(), "{name:?}");
    let class = ["(defstruct mark name (rest-of 0))", "(mark-rest-of m)", "(defclass marked () ((other)))"];
    let other = check("rn::mark-other", "mark-rest-of", &class);
    assert_eq!(kinds(&other), [CautionKind::Slot], "{other:?}");
    assert_eq!((other.cautions[0].names.len(), other.doubtful.len()), (1, 1), "{other:?}");

    check("rn::spot-left", "spot-x", &[" spot-at (x &key up))) x (up", "(spot-x (spot-at 1 :up 2))"]);
    check(
        "rn::spot-up",
        "spot-y",
        &[" spot-at (left &key ((:up y))))) left (y", "(spot-at 1 :up 2)", "(spot-y "],
    );
    let message = format!("at main.lisp:{}:55: rename the slot there as well.", line(root, "(defun deeper"));
    refused_as_made(bank, "rn::deep-depth", "deep-level", &message);
}

fn line(root: &Path, start: &str) -> usize {
    let main = fs::read_to_string(root.join("main.lisp")).unwrap();
    1 + main.lines().position(|line| line.starts_with(start)).unwrap()
}

/// Renames names from a macro whose forms look like DEFSTRUCT's, and make the same names.
fn structures_of_macros(bank: &Steelbank, root: &Path) {
    let watt = plan(bank, "rn::lamp-watt", "lamp-power");
    let main = edited(root, &watt, "main.lisp");
    for expected in
        ["(lamp (:copier nil)) (power 40)", "(lamp-power l)", "(make-lamp :power 3)", "torch (watt 60)"]
    {
        assert!(main.contains(expected), "{expected}: {main} {watt:?}");
    }
    assert_eq!(kinds(&watt), [CautionKind::Maker], "{watt:?}");
    // Rename a slot that an including structure has too.
    let watt = plan(bank, "rn::torch-watt", "torch-power");
    let main = edited(root, &watt, "main.lisp");
    assert!(main.contains("(torch-power one)") && main.contains("(flare-power two)"), "{main} {watt:?}");
    let copier = plan(bank, "rn::copy-torch", "clone-torch");
    let main = edited(root, &copier, "main.lisp");
    assert!(main.contains("(defthing (torch (:copier clone-torch)) (watt 60))"), "{main} {copier:?}");
    assert_eq!(kinds(&copier), [CautionKind::Maker], "{copier:?}");
    let foreign = plan(bank, "rn::get-it", "fetch-it");
    let main = edited(root, &foreign, "main.lisp");
    for expected in ["(deforeign (\"get_it\" fetch-it) :int)", "(list (fetch-it) (%put)"] {
        assert!(main.contains(expected), "{expected}: {main} {foreign:?}");
    }
    assert_eq!(kinds(&foreign), [CautionKind::Maker], "{foreign:?}");
    let strange = plan(bank, "rn::odd", "even");
    assert!(strange.conflicts.iter().any(|conflict| conflict.kind == ConflictKind::Made), "{strange:?}");
    // Warn of the accessor that changes along, of which a macro makes uses from parts.
    assert_eq!(kinds(&plan(bank, "rn::bj-lid", "bj-cap")), [CautionKind::UseMade]);
    // Refuse a name from an option of a macro, which is not known to take it.
    let predicate = plan(bank, "rn::lamp-p", "is-lamp");
    assert!(predicate.conflicts.iter().any(|conflict| conflict.kind == ConflictKind::Made), "{predicate:?}");
}

fn refusals(bank: &Steelbank) {
    let kind = |name: &str, new: &str| plan(bank, name, new).conflicts.last().map(|conflict| conflict.kind);
    assert_eq!(kind("rn:area", "size"), Some(ConflictKind::Exists));
    assert_eq!(kind("rn:area", "car"), Some(ConflictKind::Standard));
    assert_eq!(kind("rn:area", "AREA"), Some(ConflictKind::Same));
    let car = plan(bank, "cl:car", "first-one");
    assert!(car.conflicts.iter().any(|conflict| conflict.kind == ConflictKind::Locked), "{car:?}");
    assert_eq!(kind("rn:area", "free-name"), None);
    let error = bank.rename_plan(&RenameRequest::new("rn::nothing", "x"), &Control::default()).unwrap_err();
    assert!(error.to_string().contains("not found"), "{error}");
    assert!(bank.rename_plan(&RenameRequest::new("rn:area", "a:b"), &Control::default()).is_err());
}
