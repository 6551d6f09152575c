//! Checks that the tools agree on the uses of a symbol: each lists exactly the uses of its kinds.
//!
//! code-find-references lists all uses, each with the function around it. The who tools list the
//! uses of one kind, impact lists all uses except declarations, and call-graph lists calls. `kind`,
//! `is_declaration` and `is_call` of [`UseType`] determine which uses these are.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use steelbank::actions::uses::call_graph::CallGraphRequest;
use steelbank::actions::uses::code_find_references::{CodeFindReferencesRequest, UseType};
use steelbank::actions::uses::impact::ImpactRequest;
use steelbank::actions::uses::who::{SetfUse, WhoRequest};
use steelbank::answer::Location;
use steelbank::reader::lines::LineIndex;
use steelbank::reader::{Dialect, Features, LispText};
use steelbank::{Control, Steelbank};
use steelbank_xref::Kind;

use crate::asks::Asks;
use crate::fixtures::{library_registry, lisp_libraries};
use crate::project::{folder, load, project};
use crate::renames::copy;
use crate::texts::write_project;

/// A user of a symbol: a function by its printed name, a top-level form by its file and number, or
/// an unnamed function in such a form. Impact and the call graph list an unnamed function as the
/// definition that contains it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum User {
    Function(String),
    TopLevel(String, usize),
    Anonymous(String, usize),
}

/// A use from code-find-references: its type, the user in graphs, and the user in the who tools,
/// which list unnamed functions of one name once.
type Use = (UseType, SetfUse, User, User);

/// The top-level forms of the files: first line, last line, number.
#[derive(Default)]
struct Forms {
    files: BTreeMap<String, Vec<(u32, u32, usize)>>,
}

impl Forms {
    fn at(&mut self, root: &Path, place: &Location) -> User {
        let (file, number) = self.number(root, place);
        User::TopLevel(file, number)
    }

    /// Returns the user with this printed name and place.
    fn user(&mut self, root: &Path, name: &str, place: &Location) -> User {
        let (file, number) = self.number(root, place);
        match name {
            _ if name.contains(":IN \"") || name.starts_with("(LAMBDA") => User::Anonymous(file, number),
            _ => named(name),
        }
    }

    /// Returns the file and the number of the form at `place`. Forms of one operator that define
    /// one name have the number of the first, because answers list a definition once.
    fn number(&mut self, root: &Path, place: &Location) -> (String, usize) {
        let forms = self.files.entry(place.file.clone()).or_insert_with(|| {
            let bytes = fs::read(root.join(&place.file)).unwrap();
            let lines = LineIndex::new(&bytes);
            let text = LispText::read(&bytes, Dialect::CommonLisp, &Features::sbcl());
            let mut seen: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
            let form = |(number, form): (usize, &steelbank::reader::TopLevelForm)| {
                let span = form.span;
                let head = bytes[span.indices()].split(u8::is_ascii_whitespace).take(2).collect::<Vec<_>>();
                let first = *seen.entry(head.join(&b' ')).or_insert(number);
                (lines.line(span.start), lines.line(span.end - 1), first)
            };
            text.toplevel().iter().enumerate().map(form).collect()
        });
        let line = place.line.unwrap_or(0);
        let form = forms.iter().find(|(first, last, _)| (*first..=*last).contains(&line));
        (place.file.clone(), form.map_or(usize::MAX, |form| form.2))
    }
}

/// Returns a function under the name that graphs print: macros and setf expanders have their plain
/// names.
fn named(name: &str) -> User {
    let strip =
        |start: &str, before: &str| Some(format!("{before}{}", name.strip_prefix(start)?.strip_suffix(')')?));
    let stripped = strip("(MACRO-FUNCTION ", "");
    let setf = |start: &str| strip(start, "(SETF ").map(|name| name + ")");
    let stripped = stripped.or_else(|| setf("(%DEFSETF ")).or_else(|| setf("(SETF-EXPANDER "));
    User::Function(stripped.unwrap_or_else(|| name.to_owned()))
}

struct Checked<'a> {
    bank: &'a Steelbank,
    root: &'a Path,
    forms: Forms,
    disagreements: Vec<String>,
}

impl Checked<'_> {
    fn symbol(&mut self, package: &str, name: &str) {
        let quoted = |text: &str| format!("|{}|", text.replace('\\', "\\\\").replace('|', "\\|"));
        let (name, package) = (quoted(name), quoted(package));
        let mut request = CodeFindReferencesRequest::new(name.clone());
        (request.package, request.limit) = (Some(package.clone()), usize::MAX);
        let Ok(found) = self.bank.ask(&request, &Control::default()) else { return };
        let mut uses: BTreeSet<Use> = BTreeSet::new();
        for line in &found.refs {
            for found in &line.uses {
                let (user, listed) = match &found.caller {
                    _ if line.place.line.is_none() => continue,
                    Some(caller) => {
                        let name = caller.canonical();
                        (self.forms.user(self.root, name, &line.place), named(name))
                    }
                    None => (self.forms.at(self.root, &line.place), self.forms.at(self.root, &line.place)),
                };
                uses.insert((found.use_type, found.called, user, listed));
            }
        }
        self.compare_who(&name, &package, &uses);
        self.compare_impact(&name, &package, &uses);
        self.compare_graph(&name, &package, &uses);
    }

    fn compare_who(&mut self, name: &str, package: &str, uses: &BTreeSet<Use>) {
        for kind in Kind::ALL {
            let answer = self.bank.answer(&WhoRequest::new(kind, name).package(package));
            let mut users = BTreeSet::new();
            for user in answer.users.iter() {
                match &user.position {
                    // Skip functions of other projects, and functions without a file or line.
                    None => continue,
                    Some(at) if at.place.file.starts_with('/') || at.place.file.starts_with("SYS:") => {
                        continue;
                    }
                    Some(at) if at.place.line.is_none() => continue,
                    Some(_) => users.insert(named(user.name.canonical())),
                };
            }
            for found in answer.toplevel.iter().filter(|found| !found.position.place.file.starts_with('/')) {
                users.insert(self.forms.at(self.root, &found.position.place));
            }
            let of_kind = uses.iter().filter(|(use_type, ..)| use_type.kind() == Some(kind));
            let expected: BTreeSet<User> = of_kind.map(|(.., listed)| listed.clone()).collect();
            self.differ(name, package, &format!("who {kind:?}"), &expected, &users);
        }
    }

    fn compare_impact(&mut self, name: &str, package: &str, uses: &BTreeSet<Use>) {
        let request = ImpactRequest {
            names: vec![name.to_owned()],
            package: Some(package.to_owned()),
            depth: 1,
            ..ImpactRequest::default()
        };
        let answer = self.bank.answer(&request);
        let of_impact = uses.iter().filter(|(use_type, ..)| !use_type.is_declaration());
        // impact does not list recursion.
        let mut changed = BTreeSet::new();
        for touched in &answer.changed {
            changed.insert(User::Function(touched.name.canonical().to_owned()));
            changed.extend(touched.place.as_ref().map(|place| self.forms.at(self.root, place)));
        }
        let expected: BTreeSet<User> =
            of_impact.map(|(_, _, user, _)| user.clone()).filter(|user| !changed.contains(user)).collect();
        let mut users = BTreeSet::new();
        for user in answer.users.iter().chain(&answer.tests) {
            let (function, Some(place)) = (named(user.name.canonical()), &user.place) else { continue };
            let (file, number) = self.forms.number(self.root, place);
            let anonymous = User::Anonymous(file, number);
            if expected.contains(&anonymous) {
                users.insert(anonymous);
                users.extend(expected.get(&function).cloned());
                users.extend(expected.get(&self.forms.at(self.root, place)).cloned());
            } else if expected.contains(&function) {
                users.insert(function);
                // Top-level code of the form that defines the function is listed under its name.
                users.extend(expected.get(&self.forms.at(self.root, place)).cloned());
            } else {
                users.insert(self.forms.at(self.root, place));
            }
        }
        users.retain(|user| !changed.contains(user));
        self.differ(name, package, "impact", &expected, &users);
    }

    fn compare_graph(&mut self, name: &str, package: &str, uses: &BTreeSet<Use>) {
        let request =
            CallGraphRequest { depth: 1, limit: 4_000, ..CallGraphRequest::new(name).package(package) };
        let answer = self.bank.answer(&request);
        // (SETF F) is a separate node.
        let of_calls =
            uses.iter().filter(|(use_type, called, ..)| use_type.is_call() && *called != SetfUse::Setf);
        let expected: BTreeSet<User> = of_calls.map(|(_, _, user, _)| user.clone()).collect();
        let listed: BTreeSet<User> =
            answer.edges.iter().map(|(caller, _)| named(answer.nodes[*caller].name.canonical())).collect();
        let missing: Vec<&User> = expected
            .iter()
            .filter(|user| matches!(user, User::Function(_)) && !listed.contains(user))
            .collect();
        if let Some(user) = missing.first() {
            self.disagreements.push(format!("{package}::{name}: call-graph lacks {user:?}"));
        }
    }

    fn differ(
        &mut self,
        name: &str,
        package: &str,
        tool: &str,
        expected: &BTreeSet<User>,
        found: &BTreeSet<User>,
    ) {
        if let Some(user) = expected.difference(found).next() {
            self.disagreements.push(format!("{package}::{name}: {tool} lacks {user:?}"));
        }
        if let Some(user) = found.difference(expected).next() {
            self.disagreements.push(format!("{package}::{name}: only {tool} has {user:?}"));
        }
    }
}

/// Compares the tools for the symbols of `packages`: every symbol with STEELBANK_FULL, otherwise
/// every `step`-th symbol.
fn check(bank: &Steelbank, packages: &[&str], step: usize) {
    let root = bank.root().unwrap().to_path_buf();
    let mut checked = Checked { bank, root: &root, forms: Forms::default(), disagreements: Vec::new() };
    let step = if std::env::var_os("STEELBANK_FULL").is_some() { 1 } else { step };
    let index = bank.index();
    let mut count = 0;
    for symbol in index.symbols() {
        let Some(home) = index.symbol_package(symbol) else { continue };
        let package = index.package_name(home).into_owned();
        if !packages.contains(&package.as_str()) {
            continue;
        }
        count += 1;
        if count % step == 0 {
            checked.symbol(&package, &index.symbol_name(symbol));
        }
    }
    assert!(count > 10, "{count} symbols");
    let disagreements = checked.disagreements;
    let shown = disagreements.iter().take(40).cloned().collect::<Vec<_>>().join("\n");
    assert!(disagreements.is_empty(), "{} of {count}:\n{shown}", disagreements.len());
}

#[test]
fn tools_agree_on_libraries() {
    own_process!([("CL_SOURCE_REGISTRY", library_registry())]);
    const LIBRARIES: [&str; 6] = ["alexandria", "cl-ppcre", "yason", "cl-who", "parse-number", "fiveam"];
    let root = folder("agreement");
    for library in LIBRARIES {
        copy(&lisp_libraries().join(library), &root.join(library));
    }
    let bank = project(&root, &root.join("cache"));
    LIBRARIES.iter().for_each(|library| drop(load(&bank, library)));
    check(&bank, &["ALEXANDRIA", "CL-PPCRE", "YASON", "CL-WHO", "PARSE-NUMBER", "IT.BESE.FIVEAM"], 8);
}

#[test]
fn tools_agree_without_compiler_records() {
    own_process!();
    let root = folder("agreement-gaps");
    let session = include_str!("../sessions/tools_agree_without_compiler_records.txt");
    let project_text = session.split("\n== ").find_map(|step| step.strip_prefix("project\n")).unwrap();
    write_project(&root, project_text);
    let bank = project(&root, &root.join("cache"));
    load(&bank, "gaps");
    check(&bank, &["GAPS"], 1);
}

/// Macros of a library outside the project are expanded at top level only. Another macro defines
/// functions, and the compiler records some of the uses in them.
#[test]
fn tools_agree_on_macros_of_other_projects() {
    own_process!([("CL_SOURCE_REGISTRY", library_registry())]);
    let root = folder("agreement-outside");
    write_project(&root, include_str!("../projects/outside_macros.txt"));
    let bank = project(&root, &root.join("cache"));
    load(&bank, "outside");
    check(&bank, &["OUTSIDE", "ALEXANDRIA"], 1);
    let found = bank.ask(&CodeFindReferencesRequest::new("outside::lock"), &Control::default()).unwrap();
    let slot = found.refs.iter().find(|line| line.use_type == UseType::Slot && line.written).unwrap();
    assert_eq!(slot.caller.as_ref().map(|caller| caller.canonical()), Some("OUTSIDE::DOUBLE-SIZE-OF"));
}
