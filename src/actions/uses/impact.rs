//! impact: lists the code to check when definitions change.
//!
//! A request gives names, files or the git diff, which become `Subjects`. Their users are
//! followed breadth-first through the graph. The answer adds calls that do not fit a changed lambda
//! list, subclasses, methods, tests, and the files to recompile.

pub(crate) mod tool;

use crate::answer::designator::{FunctionName, PrintedName};
use crate::answer::{Advice, LispName, Location, OtherText, counted};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use steelbank_reader::{Datum, FormId, FormKind, LispText, TokenKind};
use steelbank_text::{DefinitionKind, lisp_definitions};
use steelbank_xref::{Index, Kind, SymbolName};

use super::code_find_references::{UseType, found, use_type};
use super::enclosing::form_of;
use super::graph::{Node, Target, UserFinder, subclasses};
use super::memo::last_answer;
use super::outline::{DefinitionInFile, files_at, resolved};
use super::symbol_uses::SymbolUses;
use super::unloaded::{UnloadedMatches, unloaded_matches};
use super::working_tree::changes;
use crate::actions::run::run_tests::{FrameworkTest, TestSystems};
use crate::answer::location::as_text;
use crate::answer::lookup::DEFAULT_PACKAGE;
use crate::engine::Control;
use crate::handle::{Error, QueryContext, Question};

/// A request for the code that depends on changed definitions. Names, files and the diff are
/// combined.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct ImpactRequest {
    /// The symbols that change: functions, macros, classes, variables.
    #[serde(default)]
    pub names: Vec<String>,
    // Without a package, names are looked up in CL-USER, then in the only user package that has
    // them.
    /// The package to look the names up in.
    #[serde(default)]
    #[schemars(extend("default" = DEFAULT_PACKAGE))]
    pub package: Option<String>,
    /// Changed files, relative to the project. All their definitions count as changed.
    #[serde(default)]
    pub paths: Vec<String>,
    /// The changes since the last git commit, without untracked files.
    #[serde(default)]
    pub diff: bool,
    /// The maximum number of steps from a change to a user. Tests are found at any distance.
    #[serde(default = "steps")]
    #[schemars(range(min = 1, max = 20))]
    pub depth: u32,
}

fn steps() -> u32 {
    3
}

impl Default for ImpactRequest {
    /// Creates a request without changes that follows users for three steps.
    fn default() -> Self {
        Self { names: Vec::new(), package: None, paths: Vec::new(), diff: false, depth: steps() }
    }
}

/// The reason why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImpactError {
    /// The request names no change.
    #[error("The request names no change.")]
    Nothing,
    /// git failed.
    #[error("git failed to list the changes: {0}")]
    Git(String),
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ImpactAnswer {
    /// The changed definitions.
    pub changed: Vec<Touched>,
    /// The users in the project except tests, direct and indirect, nearest first.
    pub users: Vec<Affected>,
    /// The number of users outside the project.
    #[serde(skip_serializing_if = "crate::answer::is_zero")]
    pub outside: usize,
    /// Calls with arguments that do not fit the lambda list in the current text.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls_that_do_not_fit: Vec<BadCall>,
    /// The top-level forms that expand a changed macro, and thereby define something.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub made_by_macros: Vec<Affected>,
    /// The subclasses of changed classes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subclasses: Vec<LispName>,
    /// The methods on changed classes, and those of changed generic functions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub methods: Vec<LispName>,
    /// The tests that reach a changed definition: those that a framework has, or else the code of
    /// test systems.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tests: Vec<Affected>,
    /// Whether further tests may reach it, through calls that the text does not show.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tests_incomplete: bool,
    /// The files that are recompiled, including the changed ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recompiled: Vec<String>,
    /// The number of recompiled files, and the number of files of the project's systems.
    #[serde(skip)]
    pub recompiled_of: (usize, usize),
    /// Matches of the names in text that the image does not have. They may be further users.
    #[serde(skip_serializing_if = "UnloadedMatches::is_empty", rename = "unseen")]
    pub unloaded: UnloadedMatches,
    /// Matches of the given names in text that is not Lisp.
    #[serde(skip_serializing_if = "OtherText::is_empty")]
    pub other_text: OtherText,
    /// Whether the search stopped at its limit of a thousand users.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// The package where the name was found, if none was given and CL-USER lacks the name.
    #[serde(skip)]
    pub looked_up_in: Option<String>,
}

/// A changed definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Touched {
    /// Its name.
    pub name: LispName,
    /// Its kind.
    #[schemars(with = "String")]
    pub kind: TouchedKind,
    /// `file:line:column`.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    #[schemars(with = "Option<String>")]
    pub place: Option<Location>,
    /// Whether the working tree no longer contains it.
    #[serde(skip_serializing_if = "std::ops::Not::not", rename = "gone")]
    pub removed: bool,
}

/// The kind of a changed definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TouchedKind {
    /// A symbol without a definition in the text of loaded files.
    Symbol,
    /// A definition.
    #[serde(untagged)]
    Definition(DefinitionKind),
}

impl std::fmt::Display for TouchedKind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Symbol => formatter.pad("symbol"),
            Self::Definition(kind) => kind.fmt(formatter),
        }
    }
}

/// A definition that a change affects.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Affected {
    /// The number of steps from the change.
    #[serde(skip_serializing_if = "crate::answer::is_zero")]
    pub steps: u32,
    /// Its name.
    pub name: LispName,
    /// The `file:line:column` of the first line with a use.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    #[schemars(with = "Option<String>")]
    pub place: Option<Location>,
    /// The kind of use.
    pub does: UseType,
    /// The definition that it uses, unless that definition is itself a changed one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub through: Option<LispName>,
}

/// A call with arguments that the lambda list does not accept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct BadCall {
    /// Its place.
    #[serde(serialize_with = "as_text")]
    #[schemars(with = "String")]
    pub place: Location,
    /// The text of the call.
    pub call: String,
    /// The problem with the arguments.
    pub problem: String,
}

#[derive(Deserialize)]
struct Recompiled {
    #[serde(default)]
    files: Vec<String>,
}

/// The maximum number of users to follow.
const MAX_USERS: usize = 1_000;

/// The definitions that change, gathered from the request.
#[derive(Default)]
struct Subjects {
    targets: BTreeSet<Target>,
    changed: Vec<Touched>,
    files: BTreeSet<PathBuf>,
    known: Vec<(String, usize)>,
    looked_up_in: Option<String>,
}

impl ImpactRequest {
    fn subjects(
        &self,
        context: &QueryContext<'_>,
        users: &UserFinder<'_>,
        control: &Control,
    ) -> Result<Subjects, Error> {
        let mut subjects = Subjects::default();
        if self.names.is_empty() && self.paths.is_empty() && !self.diff {
            return Err(ImpactError::Nothing.into());
        }
        for name in &self.names {
            let (context, lookup) = context.resolve(name, self.package.as_deref())?;
            let index = &context.index;
            let symbol = found(index, context.project, &lookup)?;
            subjects.looked_up_in = subjects.looked_up_in.or(lookup.looked_up_in);
            let name = index.full_name(symbol);
            let mut known_there = false;
            for (version, known, at) in users.definitions_of(&name) {
                let definition = &known[at].definition;
                let is_setf = definition.setf
                    || matches!(definition.kind, DefinitionKind::Setf | DefinitionKind::Accessor);
                if is_setf || lookup.function_name != FunctionName::Setf {
                    subjects.take(index, &version.path, &known[at], at);
                    known_there = true;
                }
            }
            subjects.targets.insert(Target::requested(name, lookup.function_name));
            if !known_there {
                subjects.changed.push(Touched {
                    name: LispName::new(index, lookup.function_name.text(index.symbol_text(symbol))),
                    kind: TouchedKind::Symbol,
                    place: None,
                    removed: false,
                });
            }
        }
        for path in &self.paths {
            for file in files_at(context, path)? {
                for (at, known) in
                    users.enclosing.definitions(&context.project.shown(&file)).iter().enumerate()
                {
                    subjects.take(&context.index, &file, known, at);
                }
                subjects.files.insert(file);
            }
        }
        if self.diff {
            subjects.take_working_tree(context, users, control)?;
        }
        Ok(subjects)
    }

    fn follow(
        &self,
        context: &QueryContext<'_>,
        users: &UserFinder<'_>,
        subjects: &Subjects,
        control: &Control,
        answer: &mut ImpactAnswer,
    ) -> Result<(), Error> {
        let index = &context.index;
        // A framework that cannot list its tests has none.
        let tests = TestSystems::of_project(context, control).unwrap_or_default();
        let mut tests_by_file: BTreeMap<&str, Vec<&FrameworkTest>> = BTreeMap::new();
        for test in &tests {
            match test.file() {
                Some(file) => tests_by_file.entry(file).or_default().push(test),
                None => answer.tests_incomplete = true,
            }
        }
        let mut seen_tests = BTreeSet::new();
        let mut seen: BTreeSet<String> =
            subjects.changed.iter().map(|touched| touched.name.canonical().to_owned()).collect();
        let mut outside = BTreeSet::new();
        let roots = subjects.targets.iter().map(|target| {
            (Node { name: String::new(), target: Some(target.clone()), is_toplevel: false }, 0)
        });
        let mut waiting: VecDeque<(Node, u32)> = roots.collect();
        let mut asked: BTreeSet<Target> = subjects.targets.clone();
        'nodes: while let Some((node, steps)) = waiting.pop_front() {
            control.check()?;
            let is_near = steps < self.depth;
            answer.tests_incomplete |= node.is_foreign_method(users);
            for used in users.of_node(&node, control)? {
                let user = used.user.name.clone();
                if !used.in_project {
                    if is_near {
                        outside.insert(user);
                    }
                    continue;
                }
                let place = Some(used.line.place.clone()).filter(|place| place.line.is_some());
                let through = (steps > 0).then(|| node.name(index));
                let does = used.line.use_type;
                let name = used.user.name(index);
                let affected = Affected { steps: steps + 1, name, place, does, through };
                if steps == 0 && used.generated {
                    answer.made_by_macros.push(Affected { steps: 0, ..affected.clone() });
                }
                let is_data = users.is_in_data(&used);
                let (file, line) = (used.line.place.file.as_str(), used.line.place.line);
                let of_file = tests_by_file.get(file).into_iter().flatten();
                let here: Vec<_> =
                    of_file.filter(|test| line.is_some_and(|line| test.has_line(line))).collect();
                let in_test = match tests.is_empty() {
                    true => used.is_in_test(),
                    false => !here.is_empty() || used.defined == Some(DefinitionKind::Test),
                };
                for test in here.iter().filter(|_| !is_data) {
                    if seen_tests.insert(test.name()) {
                        answer.tests.push(Affected { name: test.name().clone(), ..affected.clone() });
                    }
                }
                if (is_data && in_test) || !seen.insert(user) {
                    continue;
                }
                match in_test {
                    true if here.is_empty() => answer.tests.push(affected),
                    false if is_near => answer.users.push(affected),
                    _ => (),
                }
                if seen.len() >= MAX_USERS {
                    answer.truncated = is_near;
                    answer.tests_incomplete = true;
                    break 'nodes;
                }
                // Code may take names from data, and top-level code may store a function.
                match used.user.target.as_ref().filter(|_| !is_data) {
                    Some(target) => {
                        if used.user.is_foreign_method(users) || asked.insert(target.clone()) {
                            waiting.push_back((used.user, steps + 1));
                        }
                    }
                    None => answer.tests_incomplete |= !in_test && !used.line.in_tests,
                }
            }
        }
        for target in &subjects.targets {
            let mut found = users.use_lines.without_file(&target.symbol);
            // FiveAM compiles the bodies of tests when they run.
            found.retain(|(function, _)| {
                seen_tests.is_empty() || PrintedName::parse(function).head != "LAMBDA"
            });
            answer.users.extend(found.into_iter().map(|(function, kind)| Affected {
                steps: 1,
                name: LispName::new(index, function),
                place: None,
                does: use_type(kind),
                through: None,
            }));
        }
        answer.outside = outside.len();
        answer.users.sort();
        answer.users.dedup();
        answer.tests.sort();
        Ok(())
    }

    fn other_text(&self, context: &QueryContext<'_>) -> Result<OtherText, Error> {
        let now = context.project.tree_view();
        let mut words = Vec::new();
        for name in &self.names {
            let (context, lookup) = context.resolve(name, self.package.as_deref())?;
            let symbol = found(&context.index, context.project, &lookup)?;
            let uses = SymbolUses::new(&context.index, symbol, lookup.function_name);
            words.extend(uses.distinct_words(context.project, &now));
        }
        words.sort_by(|left, right| left.path.cmp(&right.path));
        Ok(OtherText::new(&words))
    }

    fn found(&self, context: &QueryContext<'_>, control: &Control) -> Result<ImpactAnswer, Error> {
        let users = UserFinder::new(context, control);
        let subjects = self.subjects(context, &users, control)?;
        let mut answer = ImpactAnswer {
            changed: subjects.changed.clone(),
            looked_up_in: subjects.looked_up_in.clone(),
            ..ImpactAnswer::default()
        };
        self.follow(context, &users, &subjects, control, &mut answer)?;
        let symbols: BTreeSet<&SymbolName> = subjects.targets.iter().map(|target| &target.symbol).collect();
        answer.unloaded = unloaded_matches(context, symbols.iter().copied());
        for (path, at) in &subjects.known {
            control.check()?;
            let definitions = users.enclosing.definitions(path);
            arity(&users, &definitions[*at], &mut answer.calls_that_do_not_fit);
        }
        for symbol in symbols {
            let below = subclasses(context, symbol, control)?.into_iter();
            answer.subclasses.extend(below.map(|class| LispName::new(&context.index, class)));
            if let Some(symbol) = context.index.named(symbol) {
                // Add the methods on the class, or those of the generic function.
                let methods = context.index.who(Kind::Specializes, symbol, |_| true).into_iter();
                answer.methods.extend(methods.map(|found| LispName::new(&context.index, found.function)));
            }
        }
        answer.methods.sort();
        answer.methods.dedup();
        let paths: Vec<String> = subjects.files.iter().map(|path| path.display().to_string()).collect();
        let recompiled: Recompiled = context.ask("recompiled", paths, control)?;
        answer.recompiled =
            recompiled.files.iter().map(|path| context.project.shown(Path::new(path))).collect();
        let systems = context.project.project_systems();
        let files: BTreeSet<_> =
            systems.iter().filter_map(|(_, system)| system.files.as_ref()).flatten().collect();
        answer.recompiled_of = (answer.recompiled.len(), files.len());
        Ok(answer)
    }
}

impl Question for ImpactRequest {
    type Answer = ImpactAnswer;

    fn answer(&self, context: &QueryContext<'_>, control: &Control) -> Result<ImpactAnswer, Error> {
        // An answer about the diff is never reused: the commit that git compares with may change
        // without any file.
        let mut answer = match self.diff {
            true => self.found(context, control),
            false => last_answer(self, context, || self.found(context, control)),
        }?;
        // The memo covers only Lisp files, so other text is searched every time.
        answer.other_text = self.other_text(context)?;
        Ok(answer)
    }
}

impl Subjects {
    /// Adds the definitions that the working tree's changes affect: those on changed lines, and
    /// removed definitions.
    fn take_working_tree(
        &mut self,
        context: &QueryContext<'_>,
        users: &UserFinder<'_>,
        control: &Control,
    ) -> Result<(), Error> {
        let root = context.project.project_root()?;
        let mut removed = Vec::new();
        changes(root, control, |changed| {
            let path = root.join(&changed.path);
            let shown = context.project.shown(&path);
            // A path that is no longer a plain file has no definitions.
            let now = if changed.is_there { users.enclosing.definitions(&shown) } else { Rc::default() };
            for (at, known) in now.iter().enumerate() {
                if touches(&changed.added, known) {
                    self.take(&context.index, &path, known, at);
                }
            }
            let is_there = |old: &DefinitionInFile| {
                now.iter().any(|new| {
                    (new.definition.kind, &new.home, &new.definition.name)
                        == (old.definition.kind, &old.home, &old.definition.name)
                })
            };
            let file = changed.path.to_string_lossy();
            let old = lisp_definitions(&changed.old).into_iter();
            let old = old.map(|definition| resolved(&context.index, file.to_string(), definition, false));
            removed.extend(old.filter(|known| touches(&changed.removed, known) && !is_there(known)));
            self.files.insert(path);
        })?;
        // Handle removed definitions last: they may have moved to another file.
        for known in &removed {
            self.take_removed(&context.index, known);
        }
        Ok(())
    }

    /// Adds a removed definition. If a changed definition has the same name and kind, the
    /// definition has moved to another file and is not added. Packages and systems are ignored.
    fn take_removed(&mut self, index: &Index, known: &DefinitionInFile) {
        if matches!(known.definition.kind, DefinitionKind::Package | DefinitionKind::System) {
            return;
        }
        let (name, kind) = (known.name(index), TouchedKind::Definition(known.definition.kind));
        if self.changed.iter().any(|touched| touched.name == name && touched.kind == kind) {
            return;
        }
        self.changed.push(Touched { name, kind, place: None, removed: true });
        self.targets.extend(Target::defined(known));
    }

    fn take(&mut self, index: &Index, path: &Path, known: &DefinitionInFile, at: usize) {
        if matches!(known.definition.kind, DefinitionKind::Package | DefinitionKind::System) {
            return;
        }
        let touched = Touched {
            name: known.name(index),
            kind: TouchedKind::Definition(known.definition.kind),
            place: Some(known.place()),
            removed: false,
        };
        if self.changed.contains(&touched) {
            return;
        }
        self.changed.push(touched);
        self.files.insert(path.to_owned());
        self.known.push((known.path.clone(), at));
        self.targets.extend(Target::defined(known));
    }
}

/// Whether one of the line `ranges` overlaps the definition.
fn touches(ranges: &[(u32, u32)], known: &DefinitionInFile) -> bool {
    let (start, end) = (known.definition.start, known.definition.end);
    ranges.iter().any(|(first, last)| *first <= end && start <= *last)
}

/// The number of arguments that a lambda list accepts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Arity {
    min: usize,
    /// `None`: any number.
    max: Option<usize>,
    /// The nested lambda lists of a macro, by the positions of their required parameters.
    nested: Vec<(usize, Arity)>,
}

impl Arity {
    /// Reads the lambda list of a DEFUN, DEFGENERIC, DEFMETHOD or DEFMACRO in the text.
    fn of(text: &LispText, bytes: &[u8], form: FormId) -> Option<Self> {
        // Skip the name and, in methods, the qualifiers.
        let list = text.elements(form).skip(2).find_map(|datum| list_in(text, datum))?;
        let destructures = text.form(form).and_then(|form| text.head(form));
        Some(Self::of_list(
            text,
            bytes,
            list,
            destructures.is_some_and(|head| head.is_named(bytes, "DEFMACRO")),
        ))
    }

    fn of_list(text: &LispText, bytes: &[u8], list: FormId, destructures: bool) -> Self {
        let mut arity = Self { max: Some(0), ..Self::default() };
        let (mut section, mut is_whole) = (0, false);
        for datum in text.elements(list) {
            let keyword = text.token(datum).map(|token| token.symbol(bytes).name.into_owned());
            match keyword.as_deref() {
                // A dotted list accepts any further arguments.
                Some(".") => (section, arity.max) = (2, None),
                Some("&OPTIONAL") => section = 1,
                Some("&REST" | "&BODY" | "&MORE" | "&KEY") => (section, arity.max) = (2, None),
                Some("&AUX") => section = 3,
                // The parameter after these keywords takes no argument.
                Some("&WHOLE" | "&ENVIRONMENT") => is_whole = true,
                Some(other) if other.starts_with('&') => (),
                _ if std::mem::take(&mut is_whole) => (),
                _ if section == 0 => {
                    if let Some(list) = list_in(text, datum).filter(|_| destructures) {
                        arity.nested.push((arity.min, Self::of_list(text, bytes, list, true)));
                    }
                    arity.min += 1;
                    arity.max = arity.max.map(|max| max + 1);
                }
                _ if section == 1 => arity.max = arity.max.map(|max| max + 1),
                _ => (),
            }
        }
        arity
    }

    /// Returns the problem with the arguments in `list` after its first `skipped` elements. Returns
    /// `None` if they fit.
    fn misfit(&self, text: &LispText, list: FormId, skipped: usize) -> Option<String> {
        let given: Vec<Datum> = text.elements(list).skip(skipped).collect();
        self.fits(given.len()).or_else(|| {
            self.nested.iter().find_map(|(at, inner)| {
                match (given.get(*at)?, list_in(text, *given.get(*at)?)) {
                    (_, Some(list)) => inner.misfit(text, list, 0),
                    // The argument may be NIL, the empty list.
                    (_, None) if inner.min == 0 => None,
                    (_, None) => Some(format!("argument {} is not a list", at + 1)),
                }
            })
        })
    }

    fn fits(&self, count: usize) -> Option<String> {
        let given = counted(count, "argument", "arguments");
        match self.max {
            _ if count < self.min => Some(format!("{given} given, at least {} required", self.min)),
            Some(max) if count > max => Some(format!("{given} given, at most {max} accepted")),
            _ => None,
        }
    }
}

/// Returns the form of an element that is a list.
fn list_in(text: &LispText, datum: Datum) -> Option<FormId> {
    let Datum::Form(id) = datum else { return None };
    text.form(id).filter(|form| form.kind == FormKind::List).map(|_| id)
}

/// Finds the calls of a function, or the uses of a macro, with arguments that the lambda list in
/// the text does not accept.
fn arity(users: &UserFinder<'_>, known: &DefinitionInFile, bad: &mut Vec<BadCall>) {
    let uses = match known.definition.kind {
        _ if known.definition.setf => return,
        DefinitionKind::Function | DefinitionKind::GenericFunction => UseType::Call,
        DefinitionKind::Macro => UseType::Macro,
        _ => return,
    };
    let Some(file) = users.enclosing.text(&known.path) else { return };
    let Some(taken) = form_of(&file, known).and_then(|form| Arity::of(&file.1, &file.0, form)) else {
        return;
    };
    let Some(target) = Target::defined(known) else { return };
    for used in users.of(&target).into_iter().filter(|used| used.line.use_type == uses) {
        let Location { file: path, line: Some(line), column: Some(column), .. } = &used.line.place else {
            continue;
        };
        let Some(file) = users.enclosing.text(path) else { continue };
        let (bytes, text, lines) = &*file;
        for (at, form) in text.forms().iter().enumerate() {
            let Some(head) = text.head(form).filter(|head| head.kind == TokenKind::Symbol) else { continue };
            let starts = lines.position(bytes, head.span.start);
            if form.kind != FormKind::List || starts.line != *line || starts.column < *column {
                continue;
            }
            if head.symbol(bytes).name != known.definition.name.as_str() {
                continue;
            }
            let call = FormId::new(at);
            if let Some(problem) = taken.misfit(text, call, 1) {
                let call = String::from_utf8_lossy(&bytes[form.span.indices()]).into_owned();
                let bad_call =
                    BadCall { place: Location::in_text(path, lines, bytes, head.span), call, problem };
                if !bad.contains(&bad_call) {
                    bad.push(bad_call);
                }
            }
        }
    }
}

impl From<ImpactError> for Error {
    fn from(error: ImpactError) -> Self {
        let advice = matches!(error, ImpactError::Nothing).then_some(Advice::SpecifyChanges);
        Self::of_request(error, advice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use steelbank_reader::{Dialect, Features};

    #[test]
    fn arity_reads_lambda_lists() {
        let check = |text: &str, min, max| {
            let read = LispText::read(text.as_bytes(), Dialect::CommonLisp, &Features::sbcl());
            let arity = Arity::of(&read, text.as_bytes(), read.toplevel()[0].form.unwrap()).unwrap();
            assert_eq!((arity.min, arity.max), (min, max), "{text}");
        };
        check("(defun f ())", 0, Some(0));
        check("(defun f (a b &optional (c 1) &aux d))", 2, Some(3));
        check("(defun f (a &rest more))", 1, None);
        check("(defmethod f :around ((a t) &key b))", 1, None);
        check("(defmacro m (&whole form a (b &key c) &environment e &body d))", 2, None);
    }

    #[test]
    fn misfit_checks_nested_lambda_lists() {
        let text = "(defmacro m ((a &key b) &body c)) (m (1) 2) (m x 2) (m () 2) (m (1 :b 2))";
        let read = LispText::read(text.as_bytes(), Dialect::CommonLisp, &Features::sbcl());
        let forms: Vec<FormId> = read.toplevel().iter().map(|top| top.form.unwrap()).collect();
        let taken = Arity::of(&read, text.as_bytes(), forms[0]).unwrap();
        let misfits: Vec<_> = forms[1..].iter().map(|call| taken.misfit(&read, *call, 1)).collect();
        let said = |said: &str| Some(said.to_owned());
        let expected =
            [None, said("argument 1 is not a list"), said("0 arguments given, at least 1 required"), None];
        assert_eq!(misfits, expected);
    }
}
