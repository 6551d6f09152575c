//! Compares the tools' answers on libraries with each other, the text and the image.

use std::fmt::Write;
use std::fs;

use serde_json::{Value, json};
use steelbank::tools::CallOutcome;

use crate::texts::expect_text;
use crate::tools_beside_sbcl::{WRITTEN, World, strings};

/// Checks that every definition at the beginning of a line is in the outline, and that a name
/// reported as unused occurs nowhere else in the text.
pub(crate) fn outlines_agree_with_the_text(world: &World, package: &str) {
    let mut definitions = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = world.ask("outline", json!({ "path": ".", "limit": 100_000, "cursor": cursor }));
        definitions.extend(page["definitions"].as_array().unwrap().clone());
        match page["cursor"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }
    assert!(definitions.len() > 50, "{}", definitions.len());
    let of_package = world.ask("outline", json!({ "package": package, "limit": 10 }));
    assert!(of_package["total"].as_u64().unwrap() > 30, "{of_package}");
    let mut texts = Vec::new();
    for (path, _) in world.bank.loaded_files() {
        if path.starts_with(&world.root) {
            let text = fs::read_to_string(&path).unwrap();
            texts.push((path.strip_prefix(&world.root).unwrap().display().to_string(), text));
        }
    }
    let places: Vec<String> = definitions
        .iter()
        .map(|each| each["place"].as_str().unwrap().rsplit_once(':').unwrap().0.to_owned())
        .collect();
    for (path, text) in &texts {
        let mut before = "";
        for (number, line) in text.lines().enumerate() {
            // Skip definitions that a feature expression excludes.
            let left_out = std::mem::replace(&mut before, line).starts_with("#");
            let defines = ["(defun ", "(defmacro ", "(defvar ", "(defgeneric ", "(defmethod "];
            if !left_out && defines.iter().any(|begin| line.starts_with(begin)) {
                let place = format!("{path}:{}", number + 1);
                assert!(places.contains(&place), "{place} {line}");
            }
        }
    }
    let words = |name: &str| -> usize {
        let is_part = |character: char| character.is_alphanumeric() || "*%+-/<>=!?&$_".contains(character);
        let name = name.to_lowercase();
        // Comments, declamations and names in package definitions do not count.
        let code = |line: &str| {
            let code = line.split(';').next().unwrap_or_default().to_lowercase();
            if code.contains("declaim") || code.contains("return-from") || code.trim_start().starts_with("#:")
            {
                String::new()
            } else {
                code
            }
        };
        texts
            .iter()
            .flat_map(|(_, text)| text.lines())
            .map(|line| code(line).split(|c| !is_part(c)).filter(|word| *word == name).count())
            .sum()
    };
    let mut unused = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = world.ask("outline", json!({ "path": ".", "unused": true, "limit": 100_000, "cursor": cursor, "kinds": ["function", "macro", "variable"] }));
        unused.extend(page["definitions"].as_array().unwrap().clone());
        match page["cursor"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }
    let bare = |each: &Value| {
        each["name"].as_str().unwrap().rsplit(':').next().unwrap().trim_end_matches(')').to_owned()
    };
    for each in &unused {
        if each["reached_by"].is_null() && each["uses"]["itself"].is_null() {
            assert!(words(&bare(each)) <= 1, "{each} is named {} times", words(&bare(each)));
        }
    }
    for each in &definitions {
        let kind = each["kind"].as_str().unwrap();
        let counted = !each["uses"].is_null();
        if counted && ["function", "macro", "variable"].contains(&kind) && words(&bare(each)) == 1 {
            assert!(
                unused.iter().any(|other| other["name"] == each["name"]),
                "{each} is named once, but not listed as unused"
            );
        }
    }
}

/// Compares apropos with APROPOS-LIST, for symbols that name something or are exported.
pub(crate) fn apropos_agrees(world: &World) {
    for (pattern, package) in
        [("create", "CL-PPCRE"), ("hash", "ALEXANDRIA"), ("encode", "YASON"), ("with", "CL")]
    {
        let answer =
            world.ask("apropos", json!({ "pattern": pattern, "packages": [package], "limit": 100_000 }));
        let mut said = strings(&answer["symbols"], "name");
        let mut true_names = world.lines(&format!(
            "(dolist (symbol (apropos-list \"{pattern}\" \"{package}\"))
               (when (and (eq (symbol-package symbol) (find-package \"{package}\"))
                          (or (eq (nth-value 1 (find-symbol (symbol-name symbol) \"{package}\")) :external)
                              (fboundp symbol) (boundp symbol) (find-class symbol nil) (fboundp `(setf ,symbol))
                              (sb-int:info :setf :expander symbol)
                              (not (eq (sb-int:info :variable :kind symbol) :unknown))
                              (eq (sb-int:info :type :kind symbol) :defined)))
                 (format t \"~a~%\" (funcall {WRITTEN} symbol))))"
        ));
        said.sort();
        true_names.sort();
        assert!(true_names.len() > 1, "{pattern}");
        assert_eq!(said, true_names, "{pattern} in {package}");
        assert_eq!(answer["total"], true_names.len());
    }
}

pub(crate) fn apropos_is_exact_first(world: &World) {
    let answer = world.ask("apropos", json!({ "pattern": "scan" }));
    assert_eq!(answer["symbols"][0]["name"], "cl-ppcre:scan");
    assert_eq!(answer["symbols"][0]["kinds"], json!(["generic-function"]));
    assert!(answer["symbols"][0]["place"].as_str().unwrap().starts_with("api.lisp:"), "{answer}");
    assert_eq!(answer["symbols"][0]["external"], true);
    let words = world.ask(
        "apropos",
        json!({ "pattern": "scanner create", "matching": "words", "kinds": ["generic-function"] }),
    );
    assert!(strings(&words["symbols"], "name").contains(&"cl-ppcre:create-scanner".to_owned()), "{words}");
    let regex = world.ask(
        "apropos",
        json!({ "pattern": "^do-.*s$", "matching": "regex", "packages": ["ppcre"], "external": true }),
    );
    let mut names = strings(&regex["symbols"], "name");
    names.sort();
    assert_eq!(
        names,
        [
            "cl-ppcre:do-matches", "cl-ppcre:do-matches-as-strings", "cl-ppcre:do-register-groups",
            "cl-ppcre:do-scans"
        ]
        .into_iter()
        .filter(|name| names.contains(&(*name).to_owned()))
        .collect::<Vec<_>>()
    );
    assert!(names.len() >= 2, "{names:?}");
    // Join the pages.
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = world.ask(
            "apropos",
            json!({ "pattern": "re", "packages": ["cl-ppcre"], "limit": 40, "cursor": cursor }),
        );
        all.extend(strings(&page["symbols"], "name"));
        match page["cursor"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break assert_eq!(page["total"], all.len()),
        }
    }
    assert!(all.len() > 60, "{}", all.len());
    let mut unique = all.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), all.len());
    let regex = world.error("apropos", json!({ "pattern": "(", "matching": "regex" }));
    let kinds = world.error("apropos", json!({ "pattern": "x", "kinds": ["verb"] }));
    let missing = world.answer("apropos", json!({ "pattern": "x", "packages": ["NOWHERE"] })).unwrap();
    expect_text("refused searches", &[regex, kinds, missing.text].join("\n\n"));
}

/// Checks a search without results: it must list similar symbols, and count the results of wider
/// searches.
pub(crate) fn apropos_tells_how_to_widen(world: &World) {
    let ask = |arguments: &Value| {
        let answer = world.answer("apropos", arguments.clone()).unwrap();
        let said = answer.structured.into_value();
        assert_eq!((answer.outcome, &said["found"]), (CallOutcome::NotFound, &json!(false)), "{said}");
        assert_eq!((&said["symbols"], &said["total"]), (&json!([]), &json!(0)), "{said}");
        assert_eq!(answer.text.lines().next(), said["message"].as_str());
        assert!(said["message"].as_str().unwrap().contains(&arguments["pattern"].to_string()), "{said}");
        for line in said["try"].as_array().into_iter().flatten() {
            assert!(answer.text.contains(line.as_str().unwrap()), "{}", answer.text);
        }
        said
    };
    let mut hints = String::new();
    for (arguments, without) in [
        (json!({ "pattern": "scan", "external": true, "kinds": ["class"] }), vec![vec!["kinds"]]),
        (json!({ "pattern": "scan", "kinds": ["condition"] }), vec![vec!["kinds"]]),
        (
            json!({ "pattern": "newline", "external": true, "packages": ["cl-ppcre"] }),
            vec![vec!["external"], vec!["packages"]],
        ),
        (json!({ "pattern": "yason:scan" }), vec![vec!["prefix"]]),
        (
            json!({ "pattern": "scanner", "packages": ["yason"], "kinds": ["type"] }),
            vec![vec!["kinds", "packages"]],
        ),
    ] {
        let said = ask(&arguments);
        let wider: Vec<&str> =
            said["try"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
        assert_eq!(wider.len(), without.len(), "{said}");
        for (line, filters) in wider.iter().zip(without) {
            let mut other = arguments.clone();
            for filter in filters {
                other.as_object_mut().unwrap().remove(filter);
                if ["packages", "prefix"].contains(&filter) {
                    let pattern = arguments["pattern"].as_str().unwrap();
                    other["pattern"] = json!(pattern.rsplit(':').next().unwrap());
                }
            }
            let all = world.ask("apropos", other);
            let (total, first) = (all["total"].to_string(), all["symbols"][0]["name"].as_str().unwrap());
            let line = line.replacen(&total, "{total}", 1).replacen(first, "{first}", 1);
            writeln!(hints, "{arguments}: {line}").unwrap();
        }
    }
    expect_text("wider searches", &hints);
    let words = ask(&json!({ "pattern": "scanner create" }));
    expect_text("search for words", words["try"][0].as_str().unwrap());
    assert_eq!(
        ask(&json!({ "pattern": "regxe-replace-all" }))["suggestions"],
        json!(["cl-ppcre:regex-replace-all"])
    );
    // The pattern is a misspelt word of a name.
    let near = ask(&json!({ "pattern": "scaner" }));
    assert!(near["suggestions"].to_string().contains("scanner"), "{near}");
    assert_eq!(near["try"], Value::Null, "{near}");
    let nothing = ask(&json!({ "pattern": "no-such-name-anywhere" }));
    assert_eq!(nothing["suggestions"], Value::Null, "{nothing}");
    expect_text("no match", nothing["try"][0].as_str().unwrap());
    // The name is only a local variable in cl-ppcre's scanner.lisp (found by hand).
    let local = ask(&json!({ "pattern": "cl-ppcre:advance-fn-definition" }));
    expect_text("local variable", local["try"][0].as_str().unwrap());
}

pub(crate) fn packages_agree(world: &World) {
    for package in ["CL-PPCRE", "ALEXANDRIA", "YASON"] {
        let answer =
            world.ask("package-info", json!({ "package": package.to_lowercase(), "limit": 100_000 }));
        let text = |form: &str| {
            world.lines(&format!(
                "(let ((p (find-package \"{package}\"))) (dolist (x {form}) (format t \"~a~%\" x)))"
            ))
        };
        let said = |key: &str| -> Vec<String> {
            answer[key].as_array().map_or_else(Vec::new, |all| {
                all.iter().map(|each| each.as_str().unwrap().to_owned()).collect()
            })
        };
        assert_eq!(said("uses"), text("(sort (mapcar #'package-name (package-use-list p)) #'string<)"));
        assert_eq!(
            said("used_by"),
            text("(sort (mapcar #'package-name (package-used-by-list p)) #'string<)")
        );
        assert_eq!(said("nicknames"), text("(sort (copy-list (package-nicknames p)) #'string<)"));
        let exports = text(&format!(
            "(let ((all '())) (do-external-symbols (s p) (push s all)) (mapcar {WRITTEN} (sort all #'string<)))",
        ));
        assert_eq!(strings(&answer["exports"], "name"), exports);
        assert_eq!(answer["export_count"], exports.len());
    }
    // Exports without uses elsewhere are listed as unused.
    let answer = world.ask("package-info", json!({ "package": "yason" }));
    assert_eq!(
        answer["unused_exports"].as_array().unwrap().len(),
        answer["exports"].as_array().unwrap().iter().filter(|each| each["uses_elsewhere"] == 0).count()
    );
    let missing = world.answer("package-info", json!({ "package": "nowhere" })).unwrap();
    expect_text("missing package", &missing.text);
}

/// Compares expansions with MACROEXPAND-1, MACROEXPAND and MACROEXPAND-ALL, except the numbers of
/// gensyms.
pub(crate) fn expansions_agree(world: &World) {
    let plain = |text: &str| {
        let mut plain = String::new();
        let mut digits = false;
        for character in text.split_whitespace().collect::<Vec<_>>().join(" ").chars() {
            let now = character.is_ascii_digit();
            if !(now && digits) {
                plain.push(if now { '0' } else { character });
            }
            digits = now;
        }
        plain
    };
    for (form, package) in [
        ("(do-matches (a b \"x\" string) (print a))", "CL-PPCRE"),
        ("(register-groups-bind (one two) (\"(a)(b)\" string) (list one two))", "CL-PPCRE"),
        ("(when-let ((a (f)) (b (g))) (list a b))", "ALEXANDRIA"),
        ("(with-output-to-string* (:indent t) (encode 1))", "YASON"),
        ("(loop for x in list collect (incf (car x)))", "CL-USER"),
    ] {
        for (depth, function) in
            [("once", "macroexpand-1"), ("full", "macroexpand"), ("all", "sb-walker:macroexpand-all")]
        {
            let answer =
                world.ask("macroexpand", json!({ "form": form, "package": package, "depth": depth }));
            let escaped = form.replace('\\', "\\\\").replace('"', "\\\"");
            let truth = world.lines(&format!(
                "(let* ((*package* (find-package \"{package}\")) (form (read-from-string \"{escaped}\")))
                   (write ({function} form) :pretty t :right-margin 100 :case :downcase :circle t :gensym t))"
            ));
            assert_eq!(
                plain(answer["expansion"].as_str().unwrap()),
                plain(&truth.join("\n")),
                "{depth} {form}"
            );
            assert_eq!(answer["expanded"], true);
            let steps = answer["step_count"].as_u64().unwrap();
            assert!(if depth == "once" { steps == 1 } else { steps >= 1 }, "{steps} {depth} {form}");
        }
    }
    let answer = world.ask("macroexpand", json!({ "form": "(car x)", "package": "cl" }));
    assert_eq!((&answer["expanded"], &answer["expansion"]), (&json!(false), &json!("(car x)")));
    // A form in a file is expanded in the file's package.
    let api = fs::read_to_string(world.root.join("api.lisp")).unwrap();
    let line = 1 + api.lines().position(|line| line.starts_with("(defmacro do-scans")).unwrap();
    let answer = world.ask("macroexpand", json!({ "path": "api.lisp", "line": line, "depth": "once" }));
    assert_eq!(answer["package"], "CL-PPCRE");
    assert_eq!(answer["place"], format!("api.lisp:{line}:1"));
    assert_eq!(answer["steps"][0]["macro"], "cl:defmacro");
    for form in ["(with-open-file)", "#.(error \"run\")", "(a"] {
        expect_text(form, &world.error("macroexpand", json!({ "form": form })));
    }
    expect_text("no form", &world.error("macroexpand", json!({})));
}

/// Checks that describe-symbol's places are relative to the project, at the definition's own line.
pub(crate) fn places_are_of_the_project(world: &World) {
    let first_line = |place: &str| {
        let mut parts = place.rsplitn(3, ':');
        let (column, line, path) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
        assert_eq!(column, "1", "{place}");
        let text = fs::read_to_string(world.root.join(path)).unwrap();
        text.lines().nth(line.parse::<usize>().unwrap() - 1).unwrap().to_lowercase()
    };
    for (name, facet, begins) in [
        ("cl-ppcre:scan", "function", "(defgeneric scan"),
        ("cl-ppcre:do-scans", "function", "(defmacro do-scans"),
        ("cl-ppcre::str", "class", "(defclass str"),
        ("cl-ppcre:ppcre-error", "class", "(define-condition ppcre-error"),
        ("cl-ppcre:*use-bmh-matchers*", "variable", "(defvar *use-bmh-matchers*"),
        ("cl-ppcre::charset", "class", "(defstruct (charset"),
        ("cl-ppcre::regex-length", "function", "(defgeneric regex-length"),
    ] {
        let answer = world.answer("describe-symbol", json!({ "name": name })).unwrap();
        let sources = &answer.structured["description"][facet]["sources"];
        let place = sources[0]["place"].as_str().unwrap_or_else(|| panic!("{name}: {:#}", answer.structured));
        assert!(first_line(place).starts_with(begins), "{name}: {place}");
        assert!(answer.text.contains(place), "{}", answer.text);
    }
    let answer = world.ask("describe-symbol", json!({ "name": "cl-ppcre::regex-length" }));
    let methods = answer["description"]["function"]["methods"].as_array().unwrap();
    assert!(methods.len() > 5);
    for method in methods {
        assert!(
            first_line(method["sources"][0]["place"].as_str().unwrap())
                .starts_with("(defmethod regex-length")
        );
    }
    let names = world.lines(
        "(dolist (m (sb-mop:generic-function-methods #'cl-ppcre::regex-length))
           (format t \"~a~%\" (class-name (first (sb-mop:method-specializers m)))))",
    );
    assert_eq!(methods.len(), names.len());
}
