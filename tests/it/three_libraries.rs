//! Compares tools on three libraries with SBCL's answers about the same image.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};

use crate::fixtures::{library_registry, lisp_libraries};
use crate::project::folder;
use crate::renames::copy;
use crate::tools_beside_sbcl::{WRITTEN, World};

const LIBRARIES: [&str; 4] = ["alexandria", "cl-interpol", "cl-ppcre", "yason"];
const PACKAGES: [&str; 3] = ["ALEXANDRIA", "CL-PPCRE", "YASON"];

/// A check and its name.
type Check = (&'static str, fn(&World));

#[test]
fn tools_agree_with_sbcl_on_three_libraries() {
    own_process!([("CL_SOURCE_REGISTRY", library_registry())]);
    let root = folder("three-libraries");
    for library in LIBRARIES {
        copy(&lisp_libraries().join(library), &root.join(library));
    }
    let world = World::at(root, &["alexandria", "cl-ppcre", "yason", "cl-interpol"]);
    let checks: [Check; 12] = [
        ("descriptions_agree", descriptions_agree),
        ("definitions_agree", definitions_agree),
        ("callees_agree", callees_agree),
        ("impact_agrees", impact_agrees),
        ("users_agree_with_the_references", users_agree_with_the_references),
        ("users_are_the_projects", users_are_the_projects),
        ("callers_agree", callers_agree),
        ("systems_agree", systems_agree),
        ("structure_agrees", structure_agrees),
        ("notes_agree", notes_agree),
        ("edits_take_each_other_back", edits_take_each_other_back),
        ("reloads_agree", reloads_agree),
    ];
    // A failure does not stop the other checks.
    let failed: Vec<&str> = checks
        .iter()
        .filter(|(_, check)| {
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&world))).is_err()
        })
        .map(|(name, _)| *name)
        .collect();
    assert_eq!(failed, [""; 0]);
}

fn names(value: &Value) -> BTreeSet<String> {
    let name = |each: &Value| each.as_str().or(each["name"].as_str()).unwrap().to_owned();
    value.as_array().into_iter().flatten().map(name).collect()
}

/// Lists the external symbols of a package for which `form` is true, each with the printed value.
/// SYMBOL is bound in `form`.
fn of_externals(world: &World, package: &str, form: &str) -> Vec<(String, String)> {
    let lines = world.lines(&format!(
        "(let ((*print-pretty* nil) (*package* (find-package :keyword)) (all '()))
           (do-external-symbols (symbol {package:?}) (push symbol all))
           (dolist (symbol (sort all #'string<))
             (let ((found {form}))
               (when found
                 (format t \"~a~c~a~%\" (funcall {WRITTEN} symbol) #\\Tab
                         (substitute #\\Space #\\Newline (princ-to-string found)))))))"
    ));
    lines
        .iter()
        .map(|line| line.split_once('\t').unwrap())
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .collect()
}

/// Compares kinds, documentation, superclasses, slots, and lengths of lambda lists with the
/// objects.
fn descriptions_agree(world: &World) {
    let mut compared = 0;
    for package in PACKAGES {
        let functions = of_externals(
            world,
            package,
            "(and (fboundp symbol)
                  (list (cond ((macro-function symbol) \"macro\") ((typep (fdefinition symbol) 'generic-function) \"generic-function\") (t \"function\"))
                        (length (sb-introspect:function-lambda-list (or (macro-function symbol) (fdefinition symbol))))
                        (length (documentation symbol 'function))))",
        );
        for (name, expected) in functions {
            let function = &world.ask("describe-symbol", json!({ "name": name }))["description"]["function"];
            let arglist = function["arglist"].as_str().unwrap();
            let count = world.lines(&format!(
                "(let ((*package* (find-package {package:?}))) (format t \"~a~%\" (length (read-from-string {arglist:?}))))"
            ));
            let documentation = function["documentation"].as_str().map_or(0, |text| text.chars().count());
            let said = format!("({} {} {documentation})", function["kind"].as_str().unwrap(), count[0]);
            assert_eq!(said, expected, "{name}");
            compared += 1;
        }
        let classes = of_externals(
            world,
            package,
            "(let ((class (find-class symbol nil)))
               (when (typep class '(or standard-class sb-pcl::condition-class structure-class))
                 (sb-mop:finalize-inheritance class)
                 (list (length (sb-mop:class-precedence-list class))
                       (if (typep class 'sb-pcl::condition-class)
                           (length (remove-duplicates
                                    (loop for each in (sb-mop:class-precedence-list class)
                                          when (typep each 'sb-pcl::condition-class)
                                            append (mapcar #'sb-mop:slot-definition-name (sb-mop:class-direct-slots each)))))
                           (length (sb-mop:class-slots class)))
                       (length (sb-mop:class-direct-subclasses class)))))",
        );
        for (name, expected) in classes {
            let class = &world.ask("describe-symbol", json!({ "name": name }))["description"]["class"];
            let count = |key: &str| class[key].as_array().map_or(0, Vec::len);
            let said = format!("({} {} {})", count("precedence"), count("slots"), count("subclasses"));
            assert_eq!(said, expected, "{name}: {class:#}");
            compared += 1;
        }
    }
    assert!(compared > 200, "{compared}");
}

/// Compares the files of definitions with sb-introspect's. The line of each place must contain the
/// name.
fn definitions_agree(world: &World) {
    let mut compared = 0;
    for package in PACKAGES {
        let sources = of_externals(
            world,
            package,
            "(let ((all '()))
               ;; Skip symbols of CL that YASON exports: SBCL defines them.
               (dolist (kind (and (not (eq (symbol-package symbol) (find-package :cl))) '(:function :macro :generic-function :method :class :condition :structure :variable :constant :type :setf-expander :compiler-macro)))
                 (dolist (source (sb-introspect:find-definition-sources-by-name symbol kind))
                   (let ((file (sb-introspect:definition-source-pathname source)))
                     (when file (pushnew (file-namestring file) all :test #'equal)))))
               (sort all #'string<))",
        );
        for (name, expected) in sources {
            let answer = world.ask("find-definition", json!({ "name": name }));
            let mut files = BTreeSet::new();
            for definition in answer["definitions"].as_array().unwrap() {
                let at = definition["at"].as_str().unwrap_or_else(|| panic!("{answer:#}"));
                if let Some(file) = at.strip_prefix("SYS:") {
                    // SBCL's files have no line, as its sources may be missing.
                    files.insert(file.rsplit(';').next().unwrap().to_owned());
                    continue;
                }
                let mut parts = at.rsplitn(3, ':');
                let (_, line, path) = (parts.next(), parts.next().unwrap(), parts.next().unwrap());
                files.insert(path.rsplit('/').next().unwrap().to_owned());
                let text = fs::read_to_string(world.root.join(path)).unwrap();
                let line = text.lines().nth(line.parse::<usize>().unwrap() - 1);
                let line = line.unwrap_or_else(|| panic!("{name}: {definition}")).to_lowercase();
                let bare = name.rsplit(':').next().unwrap().to_lowercase();
                assert!(line.contains(&bare) || definition["evidence"] == "via", "{name}: {definition}");
            }
            let said: Vec<String> = files.into_iter().collect();
            assert_eq!(format!("({})", said.join(" ")), expected, "{name}: {answer:#}");
            compared += 1;
        }
    }
    assert!(compared > 250, "{compared}");
}

/// Checks that call-graph lists the functions that SBCL finds in a function's constants.
fn callees_agree(world: &World) {
    let mut edges = 0;
    for package in PACKAGES {
        let functions = of_externals(
            world,
            package,
            &format!("(and (fboundp symbol) (not (macro-function symbol)) (typep (fdefinition symbol) '(and function (not generic-function)))
                  (let ((names '()))
                    (dolist (callee (ignore-errors (sb-introspect:find-function-callees (fdefinition symbol))))
                      (let ((name (sb-kernel:%fun-name callee)))
                        ;; cl-ppcre's compiler macros call CREATE-SCANNER at load time, not here.
                        (when (and (symbolp name) (symbol-package name) (not (member name (list symbol 'cl-ppcre:create-scanner)))
                                   (member (package-name (symbol-package name)) '(\"ALEXANDRIA\" \"CL-PPCRE\" \"YASON\") :test #'equal))
                          (pushnew (funcall {WRITTEN} name) names :test #'equal))))
                    names))"),
        );
        for (name, expected) in functions {
            let graph = world
                .ask("call-graph", json!({ "name": name, "direction": "callees", "depth": 1, "limit": 400 }));
            let said = names(&graph["nodes"]);
            for callee in expected.trim_matches(['(', ')']).split(' ') {
                assert!(said.contains(callee), "{name} calls {callee}: {said:?}");
                edges += 1;
            }
        }
    }
    assert!(edges > 30, "{edges}");
    // The templates in alexandria's macros.lisp and hash-tables.lisp, found by hand.
    let callers = names(
        &world.ask("call-graph", json!({ "name": "alexandria::generate-switch-body", "depth": 1 }))["nodes"],
    );
    for user in ["alexandria:switch", "alexandria:eswitch", "alexandria:cswitch"] {
        assert!(callers.contains(user), "{callers:?}");
    }
}

/// Compares the subclasses that `impact` lists with those of the classes, and the users of macros
/// with those of sb-introspect.
fn impact_agrees(world: &World) {
    for (name, least) in
        [("cl-ppcre::regex", 8), ("cl-ppcre:ppcre-error", 2), ("yason::json-output-stream", 0)]
    {
        let expected = world.lines(&format!(
            "(labels ((below (class) (dolist (sub (sb-mop:class-direct-subclasses class))
                        (format t \"~a~%\" (funcall {WRITTEN} (class-name sub))) (below sub))))
               (below (find-class '{name})))"
        ));
        let answer = world.ask("impact", json!({ "names": [name], "limit": 1000 }));
        let said = names(&answer["subclasses"]);
        assert_eq!(said, expected.into_iter().collect(), "{name}: {answer:#}");
        assert!(said.len() >= least, "{said:?}");
    }
    for name in ["alexandria:with-gensyms", "cl-ppcre:do-scans", "yason:with-output"] {
        let expected = world.lines(&format!(
            "(let ((all '())) (dolist (found (sb-introspect:who-macroexpands '{name}))
               (let ((name (car found))) (when (and (symbolp name) (symbol-package name))
                 (pushnew (funcall {WRITTEN} name) all :test #'equal))))
               (dolist (name all) (format t \"~a~%\" name)))"
        ));
        let answer = world.ask("impact", json!({ "names": [name], "depth": 1, "limit": 1000 }));
        let said = names(&answer["users"]);
        for user in &expected {
            assert!(said.contains(user), "{name}: {user} {said:?}");
        }
        assert!(!said.is_empty() || expected.is_empty(), "{name}");
    }
}

/// The definitions in the project's files: name, path, first and last line.
struct Definitions(Vec<(String, String, u64, u64)>);

impl Definitions {
    fn of(world: &World) -> Self {
        let (mut all, mut cursor) = (Vec::new(), Value::Null);
        loop {
            let mut arguments = json!({ "path": ".", "limit": 100_000 });
            if !cursor.is_null() {
                arguments["cursor"] = cursor;
            }
            let page = world.ask("outline", arguments);
            all.extend(page["definitions"].as_array().unwrap().iter().map(|each| {
                let place: Vec<&str> = each["place"].as_str().unwrap().rsplitn(3, ':').collect();
                let name = each["name"].as_str().unwrap().to_owned();
                (name, place[2].to_owned(), place[1].parse().unwrap(), each["end"].as_u64().unwrap())
            }));
            cursor = page["cursor"].clone();
            if cursor.is_null() {
                return Self(all);
            }
        }
    }

    /// Returns whether one of `names` is a definition or top-level form that contains the
    /// reference.
    fn around(&self, reference: &Value, names: &BTreeSet<String>) -> bool {
        let (path, line) = (reference["path"].as_str().unwrap(), reference["line"].as_u64().unwrap_or(0));
        // A name is on the first or second line of its form.
        let around = self
            .0
            .iter()
            .filter(|(_, file, from, to)| file == path && from.saturating_sub(1) <= line && line <= *to);
        let mut around = around.map(|(name, ..)| name.as_str()).peekable();
        let of_form = |name: &String| name.starts_with(&format!("top level of {path}:"));
        names.iter().any(of_form) || around.any(|known| names.iter().any(|name| name.contains(known)))
    }
}

/// Lists the symbols with definitions in the packages: every fifth symbol, or all in full runs.
fn names_of_packages(world: &World) -> Vec<String> {
    let mut all = Vec::new();
    // Queries for all symbols take a minute.
    let step = if std::env::var_os("STEELBANK_FULL").is_some() { 1 } else { 5 };
    for package in PACKAGES {
        all.extend(world.lines(&format!(
            "(let ((*package* (find-package :keyword)) (all '()))
               (do-symbols (symbol {package:?})
                 (when (and (eq (symbol-package symbol) (find-package {package:?}))
                            (or (fboundp symbol) (boundp symbol) (find-class symbol nil) (fboundp (list 'setf symbol))))
                   (pushnew (format nil \"~s\" symbol) all :test #'equal)))
               (dolist (name (sort all #'string<)) (format t \"~a~%\" name)))"
        )));
    }
    all.into_iter().step_by(step).collect()
}

/// Compares the direct users of all names with the references, in both directions.
fn users_agree_with_the_references(world: &World) {
    let (definitions, names_known) = (Definitions::of(world), names_of_packages(world));
    let mut compared = 0;
    for name in names_known {
        let refs = world.ask("code-find-references", json!({ "symbol": name, "limit": 1000 }));
        let impact = world.ask("impact", json!({ "names": [name], "depth": 1, "limit": 1000 }));
        if !refs["cursor"].is_null() || !impact["cursor"].is_null() {
            continue;
        }
        let mut known = names(&impact["changed"]);
        known.extend(names(&impact["users"]));
        known.extend(names(&impact["tests"]));
        let refs = refs["refs"].as_array().unwrap();
        for reference in refs {
            let kind = reference["type"].as_str().unwrap();
            if ["export", "import", "declaration", "block"].contains(&kind) {
                continue;
            }
            let caller = reference["caller"].as_str().map(|caller| {
                let caller =
                    caller.strip_prefix("(macro-function ").map_or(caller, |name| name.trim_end_matches(')'));
                caller.replacen("(%defsetf ", "(setf ", 1).replacen("(setf-expander ", "(setf ", 1)
            });
            let is_known = caller.as_ref().is_some_and(|caller| known.contains(caller));
            assert!(is_known || definitions.around(reference, &known), "{name}: {reference} {known:?}");
            compared += 1;
        }
        for user in impact["users"].as_array().unwrap() {
            let Some(place) = user["place"].as_str() else { continue };
            let stands = |reference: &Value| {
                place.starts_with(&format!("{}:{}:", reference["path"].as_str().unwrap(), reference["line"]))
            };
            assert!(refs.iter().any(stands), "{name}: {user} {refs:?}");
            assert!(world.root.join(place.split(':').next().unwrap()).exists(), "{name}: {user}");
        }
    }
    assert!(compared > 300, "{compared}");
}

/// Checks that nine tenths of all affected definitions are in the project.
fn users_are_the_projects(world: &World) {
    let (mut own, mut all) = (0, 0);
    for name in names_of_packages(world) {
        let impact = world.ask("impact", json!({ "names": [name], "limit": 1000 }));
        for user in impact["users"].as_array().unwrap() {
            let place = user["place"].as_str().unwrap_or_default();
            own += usize::from(world.root.join(place.split(':').next().unwrap()).is_file());
            all += 1;
        }
    }
    assert!(own * 10 >= all * 9 && all > 300, "{own} of {all}");
}

/// Compares the direct callers of all functions, also (SETF F), with sb-introspect's.
fn callers_agree(world: &World) {
    let definitions = Definitions::of(world);
    let mut compared = 0;
    for symbol in names_of_packages(world) {
        for name in [symbol.clone(), format!("(setf {symbol})")] {
            let expected: BTreeSet<String> = world
                .lines(&format!(
                    "(let ((name '{name}) (*package* (find-package :keyword)) (*print-pretty* nil))
                       (when (ignore-errors (fdefinition name))
                         (format t \"yes~%\")
                         (dolist (found (append (sb-introspect:who-calls name) (and (symbolp name) (sb-introspect:who-macroexpands name))))
                           (let ((caller (car found)))
                             (let* ((symbol (if (consp caller) (second caller) caller))
                                    (head (if (consp caller) (string (first caller)) \"\"))
                                    (shape (cond ((member head '(\"\" \"MACRO-FUNCTION\") :test #'equal) \"~a~%\")
                                                 ((search \"SETF\" head) \"(setf ~a)~%\")
                                                 ((equal head \"COMPILER-MACRO\") \"(compiler-macro ~a)~%\"))))
                               (when (and shape symbol (symbolp symbol) (symbol-package symbol))
                                 (format t shape (funcall {WRITTEN} symbol))))))))"
                ))
                .into_iter()
                .collect();
            if !expected.contains("yes") {
                continue;
            }
            let graph = world.ask("call-graph", json!({ "name": name, "depth": 1, "limit": 400 }));
            let root = graph["root"].as_str().unwrap();
            let said = names(&graph["nodes"]);
            let own = |caller: &&String| {
                PACKAGES.iter().any(|package| caller.contains(&format!("{}:", package.to_lowercase())))
            };
            for caller in expected.iter().filter(own) {
                assert!(said.contains(caller), "{name}: {caller} {said:?}");
                compared += 1;
            }
            // The compiler records no calls in templates, calls of quoted names, or calls in code
            // that it transformed.
            let refs = world.ask("code-find-references", json!({ "symbol": symbol, "limit": 1000 }));
            let others = refs["refs"].as_array().unwrap().iter().filter(|found| {
                !["call", "macro"].contains(&found["type"].as_str().unwrap()) || found["caller"].is_null()
            });
            let others: Vec<&Value> = others.collect();
            let self_made: Vec<_> = said
                .iter()
                .filter(|caller| !caller.starts_with('(') || caller.starts_with("(setf "))
                .collect();
            for caller in
                self_made.into_iter().filter(|caller| *caller != root && !caller.starts_with("top level"))
            {
                let only = BTreeSet::from([caller.clone()]);
                assert!(
                    expected.contains(caller) || others.iter().any(|found| definitions.around(found, &only)),
                    "{name}: {caller} {expected:?}"
                );
            }
        }
    }
    assert!(compared > 80, "{compared}");
}

/// Compares the systems of the project with those that ASDF has registered.
fn systems_agree(world: &World) {
    let answer = world.ask("list-systems", json!({}));
    let said = names(&answer["systems"]);
    let registered = world.lines(&format!(
        "(dolist (name (asdf:registered-systems))
           (let* ((system (asdf:registered-system name)) (file (asdf:system-source-file system)))
             (when (and file (uiop:string-prefix-p {:?} (sb-ext:native-namestring file)))
               (format t \"~a ~a~%\" name (if (asdf:component-loaded-p system) \"true\" \"false\")))))",
        format!("{}/", world.root.display())
    ));
    assert!(registered.len() >= LIBRARIES.len(), "{registered:?}");
    for line in registered {
        let (name, loaded) = line.rsplit_once(' ').unwrap();
        assert!(said.contains(name), "{name}: {said:?}");
        let system = answer["systems"].as_array().unwrap().iter().find(|each| each["name"] == name).unwrap();
        assert_eq!(system["loaded"].to_string(), loaded, "{name}");
    }
}

/// Checks that text is balanced if SBCL's reader accepts it, except cl-interpol's syntax, and
/// unbalanced after the removal of a parenthesis.
fn structure_agrees(world: &World) {
    let (mut files, mut broken) = (0, 0);
    for (path, _) in world.bank.loaded_files() {
        let Ok(below) = path.strip_prefix(&world.root) else { continue };
        let answer = world.ask("check-structure", json!({ "path": below.display().to_string() }));
        assert!(answer["balanced"] == true || answer["own_syntax"].is_object(), "{answer}");
        assert_eq!(answer["problem"], Value::Null, "{answer}");
        files += 1;
        let Ok(text) = fs::read_to_string(&path) else { continue };
        if answer["own_syntax"].is_object() || !text.contains("\n(defun ") {
            continue;
        }
        // Remove the definition's last parenthesis.
        let start = text.find("\n(defun ").unwrap() + 1;
        let Some(next) = text[start..].find("\n\n(") else { continue };
        let end = start + next;
        if !text[..end].ends_with(')') {
            continue;
        }
        let shorter = format!("{}{}", &text[..end - 1], &text[end..]);
        let answer = world.ask("check-structure", json!({ "text": shorter }));
        assert_eq!(answer["balanced"], false, "{}", below.display());
        let line = answer["problem"]["line"].as_u64().unwrap() as usize;
        let lines = |end: usize| text[..end].lines().count();
        assert!((lines(start)..=lines(end) + 1).contains(&line), "{}: {answer}", below.display());
        broken += 1;
    }
    assert!(files > 30 && broken > 10, "{files} {broken}");
}

/// Compares the notes of a definition with those of SBCL's compiler: severity, text, and the line
/// of the form according to SBCL's reader.
fn notes_agree(world: &World) {
    let mut compared = 0;
    for (name, file) in [
        ("alexandria:shuffle", "alexandria/alexandria-1/sequences.lisp"),
        ("alexandria::rotate-head-to-tail", "alexandria/alexandria-1/sequences.lisp"),
        ("yason::skip-whitespace", "yason/parse.lisp"),
        ("yason::parse-number", "yason/parse.lisp"),
        ("cl-ppcre::create-bmh-matcher", "cl-ppcre/scanner.lisp"),
        ("cl-ppcre::build-replacement", "cl-ppcre/api.lisp"),
    ] {
        let answer = world.ask("compiler-notes", json!({ "name": name }));
        assert!(answer["definitions"][0]["place"].as_str().unwrap().starts_with(file), "{answer}");
        let (package, bare) = name.split_once(':').unwrap();
        let expected = world.lines(&format!(
            "(let ((*package* (find-package (string-upcase {package:?}))) (eof '#:eof)
                   (places (make-hash-table :test 'eq)) (said '()) (*readtable* (copy-readtable))
                   (list-reader (get-macro-character #\\()))
               (set-macro-character #\\( (lambda (stream char)
                                          (let ((at (1- (file-position stream))) (list (funcall list-reader stream char)))
                                            (setf (gethash list places) at)
                                            list)))
               (with-open-file (in {:?} :external-format :latin-1)
                 (flet ((line (at)
                          (file-position in 0)
                          (1+ (loop repeat at count (char= (read-char in) #\\Newline))))
                        (note (severity)
                          (lambda (condition)
                            (let* ((context (sb-c::find-error-context nil))
                                   (form (and context (sb-c::compiler-error-context-original-form context)))
                                   (*print-pretty* t) (*print-right-margin* 100))
                              (pushnew (list (gethash form places) severity (princ-to-string condition)) said :test #'equal)
                              (muffle-warning condition)))))
                   (loop for form = (read in nil eof) until (eq form eof)
                         when (and (consp form) (eq (first form) 'defun) (symbolp (second form)) (string-equal (second form) {:?}))
                           do (let ((*error-output* (make-broadcast-stream)))
                                (handler-bind ((sb-ext:compiler-note (note \"note\"))
                                               (style-warning (note \"style-warning\"))
                                               (warning (note \"warning\")))
                                  (compile nil `(lambda () ,form)))
                                (return)))
                   (dolist (each said)
                     (destructuring-bind (at severity text) each
                       (format t \"~a ~a ~s~%\" (if at (line at) \"?\") severity
                               (substitute #\\Space #\\Newline text)))))))",
            world.root.join(file),
            bare.trim_start_matches(':')
        ));
        let mut expected: Vec<String> = expected.into_iter().filter(|line| !line.is_empty()).collect();
        let mut said: Vec<String> = answer["notes"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|note| {
                let part = |key: &str| note[key].as_str().unwrap();
                let line = part("place").rsplit(':').nth(1).unwrap();
                let text = part("message").replace('\n', " ").replace('\\', "\\\\").replace('"', "\\\"");
                format!("{line} {} \"{text}\"", part("severity"))
            })
            .collect();
        expected.sort();
        said.sort();
        assert_eq!(said, expected, "{name}: {answer:#}");
        compared += said.len();
    }
    assert!(compared > 20, "{compared}");
}

/// Checks that replacing a definition by its own text changes nothing, and that deletion undoes
/// insertion, except for white space at the end of the file.
fn edits_take_each_other_back(world: &World) {
    let mut edited = 0;
    for path in ["alexandria/alexandria-1/lists.lisp", "cl-ppcre/util.lisp", "yason/parse.lisp"] {
        let file = world.root.join(path);
        let before = fs::read_to_string(&file).unwrap();
        let outline = world.ask("outline", json!({ "path": path, "kinds": ["function"], "limit": 1000 }));
        let lines: Vec<&str> = before.lines().collect();
        for definition in outline["definitions"].as_array().unwrap() {
            let at = definition["place"].as_str().unwrap();
            let mut parts = at.rsplitn(3, ':');
            let start: usize = parts.nth(1).unwrap().parse().unwrap();
            let bare = definition["name"].as_str().unwrap().rsplit(':').next().unwrap().to_lowercase();
            let opening = format!("(defun {bare} ");
            if !lines[start - 1].starts_with(&opening) {
                continue;
            }
            // The definition ends before the comments and blank lines in front of the next form.
            let mut end = (start..lines.len())
                .find(|&at| lines[at].starts_with('(') || lines[at].starts_with("#"))
                .unwrap_or(lines.len());
            while lines[end - 1].is_empty() || lines[end - 1].starts_with(';') {
                end -= 1;
            }
            let own = lines[start - 1..end].join("\n");
            let selected = format!("(defun {bare})");
            let ask = |operation: &str, definition: &str, text: Option<&str>| {
                let mut arguments = json!({ "path": path, "definition": definition, "operation": operation });
                if let Some(text) = text {
                    arguments["text"] = json!(text);
                }
                world.ask("edit-definition", arguments)
            };
            ask("replace", &selected, Some(&own));
            assert_eq!(fs::read_to_string(&file).unwrap(), before, "{path} {bare}");
            ask("insert-after", &selected, Some("(defun steelbank-was-here (x)\n  (list x))"));
            let with = fs::read_to_string(&file).unwrap();
            assert!(with.contains("(defun steelbank-was-here (x)"), "{path} {bare}");
            ask("delete", "(defun steelbank-was-here)", None);
            // The last line gets a newline.
            assert_eq!(fs::read_to_string(&file).unwrap().trim_end(), before.trim_end(), "{path} {bare}");
            fs::write(&file, &before).unwrap();
            edited += 1;
        }
    }
    assert!(edited > 20, "{edited}");
}

/// Checks that reload defines a function added to a file, and removes it when the file is restored.
fn reloads_agree(world: &World) {
    for (path, package) in [
        ("alexandria/alexandria-1/lists.lisp", "ALEXANDRIA"),
        ("cl-ppcre/util.lisp", "CL-PPCRE"),
        ("yason/encode.lisp", "YASON"),
    ] {
        let file = world.root.join(path);
        let before = fs::read_to_string(&file).unwrap();
        let is_there = || {
            let form = format!(
                "(let ((symbol (find-symbol \"STEELBANK-NEW\" {package:?}))) (format t \"~a~%\" (and symbol (fboundp symbol) t)))"
            );
            world.lines(&form)[0] == "T"
        };
        fs::write(&file, format!("{before}\n(defun steelbank-new (x)\n  (list x))\n")).unwrap();
        let answer = world.ask("reload", json!({}));
        assert!(is_there(), "{path}: {answer:#}");
        fs::write(&file, &before).unwrap();
        let listed = world.ask("reload", json!({}));
        assert!(listed.to_string().contains("::steelbank-new") && is_there(), "{path}: {listed:#}");
        let removed = world.ask("reload", json!({ "remove": true }));
        assert!(!is_there(), "{path}: {removed:#}");
        // load-file loads a single file as SBCL does.
        let loaded = world.ask("load-file", json!({ "path": path }));
        assert_eq!(loaded["status"], "loaded", "{loaded:#}");
    }
}
