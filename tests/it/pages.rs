//! Checks for all tools with pages that the joined pages equal the unlimited answer. Uses many
//! names and random budgets, in an image with libraries.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};
use steelbank::tools::{Call, CallOutcome, ToolAnswer};

use crate::child::{Random, small_or_full};
use crate::fixtures::{library_registry, lisp_libraries};
use crate::project::folder;
use crate::renames::copy;
use crate::texts::expect_text;
use crate::tools_beside_sbcl::World;

/// Systems, each after its dependencies. The quick run uses the first five.
const SYSTEMS: [&str; 24] = [
    "alexandria", "cl-ppcre", "anaphora", "split-sequence", "parse-number", "net.didierverna.asdf-flv",
    "trivial-features", "trivial-backtrace", "trivial-gray-streams", "babel", "bordeaux-threads", "chunga",
    "cl-fad", "cl-who", "closer-mop", "fiveam", "flexi-streams", "iterate", "local-time", "named-readtables",
    "nibbles", "puri", "usocket", "yason",
];

/// Folders of systems with another name.
const FOLDERS: [&str; 4] = ["asdf-flv", "cl-flexi-streams", "cl-split-sequence", "cl-trivial-gray-streams"];

/// Names with very many uses.
const HEAVY: [&str; 9] = [
    "CL::LIST", "CL::FUNCALL", "CL::T", "CL::SETF", "CL::CAR", "CL::OR", "CL::MAPCAR", "PAGED::F",
    "PAGED::*V*",
];

/// Lists that are not paged, but repeated on each page.
const BESIDE: [&str; 11] = [
    "/cautions", "/elsewhere", "/stale", "/definitions", "/nicknames", "/local_nicknames", "/uses",
    "/implements", "/conflicts", "/strings/places", "",
];

fn ask(world: &World, tool: &str, arguments: &Value, call: &Call) -> ToolAnswer {
    let arguments = arguments.as_object().unwrap().clone();
    let asked = format!("{tool} {arguments:?}");
    let answer = steelbank::actions::tools().get(tool).unwrap().call(&world.session, arguments, call);
    answer.unwrap_or_else(|error| panic!("{asked}: {error}"))
}

/// Adds the outermost lists of `value` to `lists`, by their JSON pointers.
fn add_lists(value: &Value, at: String, lists: &mut BTreeMap<String, Vec<Value>>) {
    match value {
        Value::Array(values) => lists.entry(at).or_default().extend(values.iter().cloned()),
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| add_lists(value, format!("{at}/{name}"), lists));
        }
        _ => (),
    }
}

/// Joins the lists of all pages of an answer.
fn joined(world: &World, tool: &str, arguments: &Value, budget: usize) -> BTreeMap<String, Vec<Value>> {
    let call = Call::default().with_budget(budget);
    let (mut lists, mut arguments, mut bare) = (BTreeMap::new(), arguments.clone(), None);
    for number in 0.. {
        assert!(number < 50_000, "{tool} {arguments}: the pages have no end");
        let page = ask(world, tool, &arguments, &call);
        let structured = &*page.structured;
        let (size, text) = (page.structured.json().chars().count(), page.text.chars().count());
        assert!(size <= budget && text <= budget, "{tool} {arguments}: {size} and {text} in {budget}");
        add_lists(structured, String::new(), &mut lists);
        bare = bare.or(structured["places_cursor"].as_str().map(str::to_owned));
        match (structured["cursor"].as_str(), structured["pagination"]["has_more"].as_bool()) {
            (Some(cursor), _) => arguments["cursor"] = json!(cursor),
            (None, Some(true)) => {
                let page = &structured["pagination"];
                assert!(page["count"].as_u64().unwrap() > 0);
                arguments["offset"] =
                    json!(page["offset"].as_u64().unwrap() + page["count"].as_u64().unwrap());
            }
            _ => break,
        }
    }
    // Request the places of the functions that the page lists without places.
    if let Some(cursor) = bare {
        arguments["cursor"] = json!(cursor);
        let users = lists.get_mut("/users").unwrap();
        let (from, count) = (cursor.parse().unwrap(), users.len());
        let names =
            |users: &[Value]| -> Vec<Value> { users.iter().map(|user| user["name"].clone()).collect() };
        let bare = users.split_off(from);
        let located = joined(world, tool, &arguments, budget).remove("/users").unwrap();
        assert_eq!(names(&bare), names(&located), "{tool} {arguments}");
        users.extend(located);
        assert_eq!(users.len(), count);
    }
    lists
}

/// Checks one query. Returns whether its answer has several pages.
fn check(world: &World, tool: &str, arguments: &Value, random: &mut Random) -> bool {
    let whole = ask(world, tool, arguments, &Call::default().without_limit());
    if whole.outcome != CallOutcome::Answered {
        return false;
    }
    let mut lists = BTreeMap::new();
    add_lists(&whole.structured, String::new(), &mut lists);
    lists.retain(|name, values| !values.is_empty() && !BESIDE.contains(&name.as_str()));
    // Choose a budget above the largest entry, because a page truncates an entry that exceeds it.
    let largest = lists.values().flatten().map(|entry| entry.to_string().len()).max().unwrap_or(0);
    let budget = (8_000 + random.below(52_000)).max(largest + 6_000);
    let several = whole.structured.json().len() > budget || whole.text.len() > budget;
    let mut joined = joined(world, tool, arguments, budget);
    joined.retain(|name, values| !values.is_empty() && !BESIDE.contains(&name.as_str()));
    for (name, values) in &lists {
        let found = joined.get(name).map_or(&[][..], Vec::as_slice);
        let differs = (0..values.len().max(found.len())).find(|&at| values.get(at) != found.get(at));
        if let Some(at) = differs {
            let (whole, part) = (values.get(at), found.get(at));
            let (count, paged) = (values.len(), found.len());
            panic!(
                "{tool} {arguments} within {budget}: {name} has {count} entries, its pages {paged}; {at} is {whole:?}, not {part:?}"
            );
        }
    }
    assert_eq!(lists.len(), joined.len(), "{tool} {arguments}: {:?}", joined.keys());
    several
}

#[test]
fn pages_joined_are_the_full_answer() {
    own_process!([("CL_SOURCE_REGISTRY", library_registry())]);
    let root = folder("pages");
    let systems = &SYSTEMS[..small_or_full(5, SYSTEMS.len())];
    for library in systems.iter().copied().chain(FOLDERS) {
        if lisp_libraries().join(library).exists() {
            copy(&lisp_libraries().join(library), &root.join(library));
        }
    }
    let callers: String =
        (0..400).map(|number| format!("(defun caller-with-a-long-name-{number} () (f *v*))\n")).collect();
    let uses = "(print (f *v*))\n".repeat(600);
    let text = format!(
        "(defpackage :paged (:use :cl))\n(in-package :paged)\n(defun f (x) x)\n(defvar *v* 1)\n{callers}{uses}"
    );
    fs::write(root.join("paged.lisp"), text).unwrap();
    fs::write(root.join("paged.asd"), "(defsystem \"paged\" :components ((:file \"paged\")))").unwrap();
    let all: Vec<&str> = systems.iter().copied().chain(["paged"]).collect();
    let world = World::at(root, &all);
    let mut random = Random(0x5eed);
    let mut several = BTreeMap::new();
    let mut check = |tool: &'static str, arguments: Value, random: &mut Random| {
        let of: &mut (usize, usize) = several.entry(tool).or_default();
        *of = (of.0 + 1, of.1 + usize::from(check(&world, tool, &arguments, random)));
    };
    let list = world.root.join("names.txt");
    world.lines(&format!(
            "(let ((*print-pretty* nil) (all '()))
               (do-all-symbols (symbol)
                 (when (and (symbol-package symbol)
                            (or (fboundp symbol) (boundp symbol) (find-class symbol nil)))
                   (push (format nil \"~a::~a\" (package-name (symbol-package symbol)) (symbol-name symbol)) all)))
               (with-open-file (out {list:?} :direction :output)
                 (format out \"~{{~a~%~}}\" (remove #\\Newline all :test #'find))))"
        ));
    let list = fs::read_to_string(list).unwrap();
    let mut names: Vec<String> = list.lines().map(str::to_owned).collect();
    names.sort();
    names.dedup();
    assert!(names.len() > 10_000, "{}", names.len());
    let count = names.len();
    let sample = small_or_full(12, count);
    if sample < count {
        names = (0..sample).map(|_| names[random.below(count)].clone()).collect();
    }
    let begun = std::time::Instant::now();
    for (number, name) in HEAVY.into_iter().map(str::to_owned).chain(names).enumerate() {
        // The full run takes hours: print its progress.
        if number % 200 == 0 {
            eprintln!("{number} of {sample} names, {:?}", begun.elapsed());
        }
        let (package, symbol) = name.split_once("::").unwrap();
        let symbol = format!("|{}|", symbol.replace('\\', "\\\\").replace('|', "\\|"));
        let asked = json!({ "name": symbol, "package": package });
        for tool in [
            "who-calls", "who-references", "who-binds", "who-sets", "who-macroexpands", "who-specializes",
            "describe-symbol", "find-definition",
        ] {
            check(tool, asked.clone(), &mut random);
        }
        let only = random.below(2) == 0;
        let asked = json!({ "symbol": symbol, "package": package, "project_only": only });
        check("code-find-references", asked, &mut random);
        // Transitive tools run for few names.
        if name == "PAGED::F" || number > 1000 && number % 1000 == 0 {
            let asked = json!({ "name": symbol, "package": package, "limit": 400, "depth": 1 });
            check("call-graph", asked, &mut random);
            check("impact", json!({ "names": [symbol], "package": package, "depth": 1 }), &mut random);
        }
    }
    for package in ["CL", "SB-IMPL", "ALEXANDRIA", "PAGED"] {
        check("package-info", json!({ "package": package }), &mut random);
    }
    for pattern in ["car", "with-"] {
        check("apropos", json!({ "pattern": pattern, "limit": 1_000_000 }), &mut random);
    }
    for arguments in [json!({}), json!({ "package": "alexandria", "unused": true })] {
        check("outline", arguments, &mut random);
    }
    for name in ["list", "defun", "f"] {
        let arguments = json!({ "pattern": name, "limit": 10_000, "force": true });
        check("find_references", arguments, &mut random);
    }
    check("list-systems", json!({ "files": true }), &mut random);
    check("rename", json!({ "name": "paged::f", "new_name": "g" }), &mut random);
    for tool in ["who-calls", "who-macroexpands", "code-find-references", "call-graph", "impact"] {
        assert!(several[tool].1 > 0, "{tool} has several pages somewhere: {several:?}");
    }
    println!("seen: questions, and those of several pages: {several:?}");
}

#[test]
fn line_longer_than_a_page_is_truncated() {
    own_process!();
    let root = folder("marks");
    let long = "word ".repeat(40_000);
    fs::write(
        root.join("a.lisp"),
        format!("(defpackage :marks (:use :cl))\n(in-package :marks)\n(defun long-one (x) \"{long}\" x)\n"),
    )
    .unwrap();
    fs::write(root.join("marks.asd"), "(defsystem \"marks\" :components ((:file \"a\")))").unwrap();
    let world = World::at(root, &["marks"]);
    let described = world.answer("describe-symbol", json!({ "name": "marks::long-one" })).unwrap();
    assert!(described.structured["cursor"].is_null());
    let words = regex::Regex::new("(word )+").unwrap();
    expect_text("truncated line", &words.replace_all(&described.text, "word … "));
}

#[test]
fn each_entry_is_on_one_page() {
    own_process!();
    let root = folder("one-page-each");
    let many = |each: &dyn Fn(usize) -> String| (0..200).map(each).collect::<String>();
    let text = [
        "(defpackage :listed (:use :cl))\n(in-package :listed)\n(defvar *v* 1)\n".to_owned(),
        format!("(defgeneric many (x)\n  (:documentation \"{}\"))\n", "many words ".repeat(2_000)),
        many(&|number| format!("(defmethod many ((x (eql {number}))) (print *v*))\n")),
        format!(
            "(defclass wide () ({}))\n",
            many(&|number| format!(
                "(slot-{number} :initarg :i{number} :documentation \"The slot of this number.\")"
            ))
        ),
        many(&|number| format!("(defun step-{number} () (step-{}))\n", number + 1)),
        many(&|number| format!("(defun caller-{number} () (step-200))\n")),
        "(defun step-200 () 1)\n".to_owned(),
        "(defun long-one (x)".to_owned() + &many(&|number| format!(" (print (list x {number}))")) + ")\n",
    ];
    fs::write(root.join("a.lisp"), text.concat()).unwrap();
    let systems = many(&|number| format!("(defsystem \"listed/{number}\")\n"));
    fs::write(
        root.join("listed.asd"),
        format!("(defsystem \"listed\" :components ((:file \"a\")))\n{systems}"),
    )
    .unwrap();
    let world = World::at(root, &["listed"]);
    for (tool, arguments) in [
        ("describe-symbol", json!({ "name": "listed::many" })),
        ("describe-symbol", json!({ "name": "listed::wide" })),
        ("describe-symbol", json!({ "name": "listed::*v*", "uses": true })),
        ("disassemble", json!({ "name": "listed::long-one" })),
        ("disassemble", json!({ "name": "listed::many" })),
        ("list-systems", json!({})),
        ("path", json!({ "from": "listed::step-0", "to": "listed::step-200" })),
        ("find-definition", json!({ "name": "listed::many" })),
        ("call-graph", json!({ "name": "listed::step-200", "depth": 50, "limit": 400 })),
        ("call-graph", json!({ "name": "listed::step-200", "depth": 50, "limit": 400, "format": "dot" })),
    ] {
        let whole = ask(&world, tool, &arguments, &Call::default().without_limit());
        assert!(whole.structured["cursor"].is_null(), "{tool}");
        let mut lists = BTreeMap::new();
        add_lists(&whole.structured, String::new(), &mut lists);
        for budget in [7_000, 9_999] {
            let first = ask(&world, tool, &arguments, &Call::default().with_budget(budget));
            let is_cut = whole.structured.json().len().max(whole.text.len()) > budget;
            assert!(is_cut || budget > 7_000, "{tool} {arguments} fits into {budget}");
            assert_eq!(first.structured["cursor"].is_string(), is_cut, "{tool} {arguments}");
            let cursor = first.structured["cursor"].as_str();
            let mut words = first.text.split_whitespace().map(|word| word.trim_end_matches(['.', ';', ',']));
            assert!(cursor.is_none_or(|cursor| words.any(|word| word == cursor)), "{tool}: {}", first.text);
            let joined = joined(&world, tool, &arguments, budget);
            assert!(joined == lists, "{tool} {arguments} within {budget}: {joined:?} is not {lists:?}");
        }
    }
    // Answers without pages accept no cursor.
    for tool in ["status", "check-structure", "check_index_status", "index_project"] {
        let asked = json!({ "cursor": "1:1" });
        expect_text(&format!("cursor of {tool}"), &world.error(tool, asked));
    }
}
