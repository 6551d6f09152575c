//! Tests what tools offer for deletion in libraries: `reload` no definition that is in the text,
//! and `outline --unused` none that other text names without a reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use steelbank::actions::uses::outline::OutlineTarget;
use steelbank::{Control, OutlineRequest};

use crate::child::small_or_full;
use crate::fixtures::{library_registry, lisp_libraries};
use crate::project::folder;
use crate::renames::copy;
use crate::tools_beside_sbcl::World;

/// The libraries, each with its system.
fn libraries() -> Vec<(&'static str, &'static str)> {
    small_or_full(
        vec![("anaphora", "anaphora"), ("cl-who", "cl-who"), ("parse-number", "parse-number")],
        vec![
            ("alexandria", "alexandria"),
            ("babel", "babel"),
            ("cl-ppcre", "cl-ppcre"),
            ("fiveam", "fiveam"),
            ("local-time", "local-time"),
            ("yason", "yason"),
        ],
    )
}

fn world(name: &str) -> World {
    let root = folder(name);
    for (library, _) in libraries() {
        copy(&lisp_libraries().join(library), &root.join(library));
    }
    World::at(root, &libraries().into_iter().map(|(_, system)| system).collect::<Vec<_>>())
}

fn files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => found.push(path),
            }
        }
    }
    found.sort();
    found
}

/// Lists the lines of `text`, from 1, with `word` as a whole Lisp name in any case.
fn lines_with(text: &str, word: &str) -> Vec<u32> {
    let is_part = |character: char| character.is_alphanumeric() || "*%+-/<>=!?&$_.@^~".contains(character);
    let has = |line: &str| {
        line.match_indices(word)
            .any(|(at, _)| !line[..at].ends_with(is_part) && !line[at + word.len()..].starts_with(is_part))
    };
    let lines = text.lines().zip(1..).filter(|(line, _)| has(&line.to_lowercase()));
    lines.map(|(_, number)| number).collect()
}

/// Returns the lines of the top-level forms in `text` that define packages or export names.
fn exporting_lines(text: &str) -> BTreeSet<u32> {
    let mut exports = false;
    let lines = text.lines().zip(1..).filter(|(line, _)| {
        if line.starts_with('(') {
            exports =
                ["(defpackage", "(uiop:define-package", "(export"].iter().any(|form| line.starts_with(form));
        }
        exports
    });
    lines.map(|(_, number)| number).collect()
}

/// Reads the number of places that a reason counts, and the first one, as `file:line`.
fn places(reason: &str) -> (usize, &str) {
    let first = reason.split([' ', ',']).find(|word| word.contains(':')).unwrap_or_default();
    let more = reason.split(" and ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<usize>().ok());
    (1 + more.unwrap_or(0), first)
}

#[test]
fn unused_definitions_name_other_text() {
    own_process!([("CL_SOURCE_REGISTRY", library_registry())]);
    let world = world("unused");
    let request = OutlineRequest { unused: true, ..OutlineRequest::new(OutlineTarget::Path(".".to_owned())) };
    let answer = world.bank.ask(&request, &Control::new(Duration::from_secs(600))).unwrap();
    let shown = |path: &Path| path.strip_prefix(&*world.root).unwrap().display().to_string();
    let texts: BTreeMap<String, String> = files(&world.root)
        .into_iter()
        .filter_map(|path| Some((shown(&path), fs::read_to_string(&path).ok()?)))
        .collect();
    let exports: BTreeMap<&String, BTreeSet<u32>> =
        texts.iter().map(|(path, text)| (path, exporting_lines(text))).collect();
    let (mut named, mut wrong) = (0, Vec::new());
    for found in &answer.definitions {
        let printed = found.name.to_string();
        let name = printed.trim_end_matches(')').rsplit([':', ' ']).next().unwrap().to_lowercase();
        let is_own = |path: &str, line: &u32| {
            path == found.place.file && (found.place.line.unwrap()..=found.end).contains(line)
        };
        if !name.contains(char::is_alphanumeric) {
            continue;
        }
        let lines = texts
            .iter()
            .flat_map(|(path, text)| lines_with(text, &name).into_iter().map(move |line| (path, line)));
        let all: Vec<_> = lines.filter(|(path, line)| !is_own(path, line)).collect();
        let exported = |(path, line): &&(&String, u32)| found.exported && exports[path].contains(line);
        let others = all.len() - all.iter().filter(exported).count();
        let all: Vec<String> = all.into_iter().map(|(path, line)| format!("{path}:{line}")).collect();
        let reasons: Vec<&String> = found.reached_by.iter().chain(&found.also_in).collect();
        let stated = reasons.iter().filter(|reason| !reason.starts_with("may be looked up"));
        let stated: Vec<_> =
            stated.map(|reason| places(reason)).filter(|(_, first)| !first.is_empty()).collect();
        let count: usize = stated.iter().map(|(count, _)| count).sum();
        let has_first = all.iter().any(|place| stated.iter().any(|(_, first)| first == place));
        named += usize::from(others > 0);
        if count < others || (others > 0 && !has_first) {
            wrong.push(format!("{} {printed}: {others} of {all:?} {reasons:?}", found.place));
        }
    }
    println!("seen: {named} of {} unused definitions are named elsewhere", answer.definitions.len());
    assert!(named > small_or_full(5, 100), "{named}");
    assert!(wrong.is_empty(), "{}: {}", wrong.len(), wrong.join("\n"));
}

/// Returns the lower-case names that top-level `(def… name` forms of `text` define.
fn defined_names(text: &str) -> BTreeSet<String> {
    let defined = |line: &str| {
        let line = line.to_lowercase();
        let name = line.strip_prefix("(def")?.split_once(' ')?.1.trim_start().to_owned();
        let end = if name.starts_with("(setf ") { ')' } else { ' ' };
        let name = name.split(end).next()?.trim_end_matches(')').to_owned();
        Some(if end == ')' { name + ")" } else { name.trim_start_matches('(').to_owned() })
    };
    text.lines().filter_map(defined).collect()
}

/// Returns the texts of the top-level forms that define functions, by their starts in column 0,
/// without those after a feature expression.
fn functions(text: &str) -> Vec<&str> {
    let starts: Vec<usize> = text.match_indices("\n(").map(|(at, _)| at + 1).chain([text.len()]).collect();
    let is_guarded = |at: usize| text[..at].lines().last().is_some_and(|line| line.starts_with('#'));
    let forms = starts.windows(2).filter(|window| !is_guarded(window[0]));
    forms.map(|window| &text[window[0]..window[1]]).filter(|form| form.starts_with("(defun ")).collect()
}

#[test]
fn reload_never_removes_what_the_text_has() {
    own_process!([("CL_SOURCE_REGISTRY", library_registry())]);
    let world = world("left");
    // Each file of the loaded systems that defines functions.
    let loaded = world.ask("outline", json!({ "path": ".", "kinds": ["function"] }));
    let skipped: BTreeSet<&str> =
        loaded["not_loaded"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let sources = files(&world.root).into_iter().filter(|path| {
        let shown = path.strip_prefix(&*world.root).unwrap().display().to_string();
        shown.ends_with(".lisp")
            && !skipped.contains(&*shown)
            && fs::read_to_string(path).is_ok_and(|text| !functions(&text).is_empty())
    });
    let sources: Vec<PathBuf> = sources.collect();
    // Lists those of the names that are functions in a package that is not SBCL's.
    let bound = |names: &BTreeSet<String>| -> BTreeSet<String> {
        let lines = world.lines(&format!(
            "(let ((names '({})))
               (do-all-symbols (symbol)
                 (when (and (fboundp symbol) (symbol-package symbol)
                            (not (sb-ext:package-locked-p (symbol-package symbol)))
                            (member (symbol-name symbol) names :test #'string-equal))
                   (format t \"~(~a~)~%\" (symbol-name symbol)))))",
            names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(" ")
        ));
        lines.into_iter().collect()
    };
    let (mut refused, mut removed, mut wrong) = (0, 0, Vec::new());
    for (path, seed) in sources.iter().zip(0..) {
        let text = fs::read_to_string(path).unwrap();
        let before = bound(&defined_names(&text));
        let forms = functions(&text);
        let (first, second) = (forms[seed % forms.len()], forms[(seed * 7 + 1) % forms.len()]);
        let without = text.replace(first, "");
        for (edit, edited) in [
            ("error at the end", format!("{text}\n(error \"no\")\n")),
            ("no parenthesis", format!("{text}\n(defun")),
            ("one function less", without.clone()),
            ("one function less and an error", format!("{}\n(error \"no\")\n", text.replace(second, ""))),
        ] {
            fs::write(path, &edited).unwrap();
            for remove in [false, true] {
                let answer = world.ask("reload", json!({ "remove": remove }));
                let names = defined_names(&edited);
                for left in answer["left"].as_array().into_iter().flatten() {
                    let printed = left["name"].as_str().unwrap();
                    let name = printed.trim_end_matches(')').rsplit([':', ' ']).next().unwrap();
                    let is_setf = printed.starts_with("(setf");
                    let name = if is_setf { format!("(setf {name})") } else { name.to_owned() };
                    if answer["status"] == "failed" || names.contains(&name) {
                        wrong.push(format!("{}: {edit}: {left}", path.display()));
                    }
                    removed += usize::from(left["removed"] == true);
                }
                refused += usize::from(answer["status"] == "failed");
                // The image agrees: what is defined in the text is still defined.
                let now = bound(&names);
                let lost: Vec<String> =
                    before.intersection(&names).filter(|name| !now.contains(*name)).cloned().collect();
                if !lost.is_empty() {
                    wrong.push(format!("{}: {edit}: lost {lost:?}", path.display()));
                }
            }
        }
        fs::write(path, &text).unwrap();
        let answer = world.ask("reload", json!({}));
        assert_eq!((&answer["status"], &answer["left"]), (&json!("loaded"), &Value::Null), "{answer:#}");
    }
    println!("seen: {} files, {refused} failed reloads, {removed} definitions removed", sources.len());
    assert!(refused >= 4 * sources.len() && removed >= small_or_full(2, 20), "{refused} {removed}");
    assert!(wrong.is_empty(), "{}: {}", wrong.len(), wrong.join("\n"));
}
