//! impact: what must be looked at when definitions change.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use steelbank_reader::lines::LineIndex;
use steelbank_reader::{Datum, Dialect, Features, FormId, FormKind, LispText, TokenKind};
use steelbank_text::DefinitionKind;
use steelbank_text::lisp_definitions;
use steelbank_xref::Kind;

use super::Error;
use super::code_find_references::{UseType, missing, not_found};
use super::context::QueryContext;
use super::control::Control;
use super::graph::{Node, UserFinder};
use super::lookup::Lookup;
use super::outline::{DefinitionInFile, files_at, resolved};
use super::question::Question;
use super::text::{Unseen, unseen_uses};
use super::use_counts::is_test_path;
use super::working_tree::changes;
use crate::answer::location::{Location, as_text};
use crate::project::FileVersion;

/// A request for what depends on definitions that change. Names, files and the diff all count.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImpactRequest {
    /// Names of symbols.
    pub names: Vec<String>,
    /// The package in which they are looked up; without one CL-USER, or else the one package of the user's that has
    /// the name.
    pub package: Option<String>,
    /// Files, relative to the project: everything that they define.
    pub paths: Vec<String>,
    /// Whether to add what has changed in the working tree since the last commit of git.
    pub diff: bool,
    /// How many steps to follow users.
    pub depth: u32,
}

/// The reason why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImpactError {
    /// The request names nothing.
    #[error("Nothing is said to change.")]
    Nothing,
    /// git cannot tell.
    #[error("git cannot tell what has changed: {0}")]
    Git(String),
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ImpactAnswer {
    /// The definitions that change.
    pub changed: Vec<Touched>,
    /// Who uses them, directly or through others, nearest first.
    pub users: Vec<Affected>,
    /// Calls whose number of arguments does not fit the lambda list that the text has now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls_that_do_not_fit: Vec<BadCall>,
    /// What changed macros define: the top-level forms that they expand.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub made_by_macros: Vec<Affected>,
    /// The classes below changed classes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subclasses: Vec<String>,
    /// The methods on changed classes, or of changed generic functions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub methods: Vec<String>,
    /// The tests that reach what changes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tests: Vec<Affected>,
    /// The files that are compiled again, the changed ones included.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recompiled: Vec<String>,
    /// How often the names stand in text that the image does not have: users that are not known yet.
    #[serde(skip_serializing_if = "Unseen::is_empty")]
    pub unseen: Unseen,
    /// Whether the search for users stopped at a thousand.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// A definition that changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Touched {
    /// Its name.
    pub name: String,
    /// What it is.
    #[schemars(with = "String")]
    pub kind: TouchedKind,
    /// `file:line:column`.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    #[schemars(with = "Option<String>")]
    pub place: Option<Location>,
    /// Whether the working tree does not have it any more.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub gone: bool,
}

/// What changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TouchedKind {
    /// A symbol of which no definition is known in the project.
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

/// A definition that is affected.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Affected {
    /// How many steps it is away.
    #[serde(skip_serializing_if = "is_zero")]
    pub steps: u32,
    /// Its name.
    pub name: String,
    /// The first line that uses: `file:line:column`.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    #[schemars(with = "Option<String>")]
    pub place: Option<Location>,
    /// What the use does.
    pub does: UseType,
}

fn is_zero(steps: &u32) -> bool {
    *steps == 0
}

/// A call whose arguments do not fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct BadCall {
    /// Its place.
    #[serde(serialize_with = "as_text")]
    #[schemars(with = "String")]
    pub place: Location,
    /// The whole call.
    pub call: String,
    /// What does not fit.
    pub problem: String,
}

#[derive(Deserialize)]
struct Subclasses {
    #[serde(default)]
    subclasses: Vec<String>,
}

#[derive(Deserialize)]
struct Recompiled {
    #[serde(default)]
    files: Vec<String>,
}

/// The most users that are followed.
const MOST: usize = 1_000;

/// The definitions that change, gathered from the request.
#[derive(Default)]
struct Subjects {
    symbols: BTreeSet<(String, String)>,
    changed: Vec<Touched>,
    files: BTreeSet<PathBuf>,
    known: Vec<(String, usize)>,
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
        let index = &context.index;
        for name in &self.names {
            let (lookup, _) = Lookup::resolved(index, name, self.package.as_deref())?;
            let symbol = match lookup.found {
                Ok((symbol, _)) => symbol,
                Err(status) => {
                    let unseen = missing(index, context.project, &lookup.asked, lookup.package);
                    return Err(not_found(lookup.asked, status, unseen).into());
                }
            };
            let home = index.symbol_package(symbol);
            let home = home.map(|home| index.package_name(home).into_owned()).unwrap_or_default();
            let bare = index.symbol_name(symbol).into_owned();
            let mut found = false;
            for FileVersion { path, .. } in context.project.naming(&bare) {
                let shown = context.project.shown(&path);
                for (at, known) in users.definitions(&shown).iter().enumerate() {
                    if known.definition.name == bare && known.home.as_ref() == Some(&home) {
                        subjects.take(&path, known, at);
                        found = true;
                    }
                }
            }
            if !found {
                subjects.changed.push(Touched {
                    name: index.symbol_text(symbol),
                    kind: TouchedKind::Symbol,
                    place: None,
                    gone: false,
                });
                subjects.symbols.insert((home, bare));
            }
        }
        for path in &self.paths {
            for file in files_at(context, path)? {
                for (at, known) in users.definitions(&context.project.shown(&file)).iter().enumerate() {
                    subjects.take(&file, known, at);
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
        users: &UserFinder<'_>,
        subjects: &Subjects,
        control: &Control,
        answer: &mut ImpactAnswer,
    ) -> Result<(), Error> {
        let mut seen: BTreeSet<String> =
            subjects.changed.iter().map(|touched| touched.name.clone()).collect();
        let mut waiting: VecDeque<((String, String), u32)> =
            subjects.symbols.iter().map(|symbol| (symbol.clone(), 0)).collect();
        let mut asked: BTreeSet<(String, String)> = subjects.symbols.clone();
        while let Some(((package, name), steps)) = waiting.pop_front() {
            control.check()?;
            for used in users.of(&package, &name) {
                let Node { name: user, symbol, .. } = used.user.clone();
                let place = Some(used.line.place.clone()).filter(|place| place.line.is_some());
                let affected =
                    Affected { steps: steps + 1, name: user.clone(), place, does: used.line.use_type };
                if steps == 0 && used.line.use_type == UseType::Macro && used.line.caller.is_none() {
                    answer.made_by_macros.push(Affected { steps: 0, ..affected.clone() });
                }
                if !seen.insert(user.clone()) {
                    continue;
                }
                if used.defined == Some(DefinitionKind::Test) || is_test_path(&used.line.place.file) {
                    answer.tests.push(affected);
                } else {
                    answer.users.push(affected);
                }
                if answer.users.len() + answer.tests.len() >= MOST {
                    answer.truncated = true;
                    return Ok(());
                }
                if let Some(symbol) = symbol.filter(|_| steps + 1 < self.depth)
                    && asked.insert(symbol.clone())
                {
                    waiting.push_back((symbol, steps + 1));
                }
            }
        }
        answer.users.sort();
        answer.tests.sort();
        Ok(())
    }

    /// Adds the methods that specialize on the class, and those of the generic function.
    fn methods(&self, context: &QueryContext<'_>, package: &str, name: &str, methods: &mut Vec<String>) {
        let index = &context.index;
        let Some(package) = index.find_package(package, None) else { return };
        let Some((symbol, _)) = index.find_symbol(name, package) else { return };
        for found in index.who(Kind::Specializes, symbol, |_| true) {
            methods.push(found.function.into_owned());
        }
    }
}

impl Question for ImpactRequest {
    type Answer = ImpactAnswer;

    fn answer(&self, context: &QueryContext<'_>, control: &Control) -> Result<ImpactAnswer, Error> {
        let users = UserFinder::new(context);
        let subjects = self.subjects(context, &users, control)?;
        let mut answer = ImpactAnswer { changed: subjects.changed.clone(), ..ImpactAnswer::default() };
        self.follow(&users, &subjects, control, &mut answer)?;
        let symbols = subjects.symbols.iter();
        answer.unseen =
            unseen_uses(context, symbols.map(|(package, name)| (package.as_str(), name.as_str())));
        for (path, at) in &subjects.known {
            control.check()?;
            let definitions = users.definitions(path);
            arity(context, &users, &definitions[*at], &mut answer.calls_that_do_not_fit);
        }
        for (package, name) in &subjects.symbols {
            let found: Subclasses =
                context.ask("subclasses", vec![name.clone(), package.clone()], control)?;
            answer.subclasses.extend(found.subclasses);
            self.methods(context, package, name, &mut answer.methods);
        }
        answer.methods.sort();
        answer.methods.dedup();
        let paths: Vec<String> = subjects.files.iter().map(|path| path.display().to_string()).collect();
        let recompiled: Recompiled = context.ask("recompiled", paths, control)?;
        answer.recompiled =
            recompiled.files.iter().map(|path| context.project.shown(Path::new(path))).collect();
        Ok(answer)
    }
}

impl Subjects {
    /// Adds what the working tree's changes touch: definitions on changed lines, and those that are gone.
    fn take_working_tree(
        &mut self,
        context: &QueryContext<'_>,
        users: &UserFinder<'_>,
        control: &Control,
    ) -> Result<(), Error> {
        let root = context.project.own_root()?;
        let mut gone = Vec::new();
        changes(root, control, |changed| {
            let path = root.join(&changed.path);
            let shown = context.project.shown(&path);
            // Do not open what is no plain file any more.
            let now = if changed.is_there { users.definitions(&shown) } else { Rc::default() };
            for (at, known) in now.iter().enumerate() {
                if touches(&changed.added, known) {
                    self.take(&path, known, at);
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
            gone.extend(old.filter(|known| touches(&changed.removed, known) && !is_there(known)));
            self.files.insert(path);
        })?;
        // Know all that is new before: what is gone may have moved.
        for known in &gone {
            self.take_gone(known);
        }
        Ok(())
    }

    /// Adds a definition that its file does not have any more; it may have moved to another file.
    fn take_gone(&mut self, known: &DefinitionInFile) {
        if matches!(known.definition.kind, DefinitionKind::Package | DefinitionKind::System) {
            return;
        }
        let (name, kind) = (known.shown(), TouchedKind::Definition(known.definition.kind));
        if self.changed.iter().any(|touched| touched.name == name && touched.kind == kind) {
            return;
        }
        self.changed.push(Touched { name, kind, place: None, gone: true });
        if let Some(home) = &known.home {
            self.symbols.insert((home.clone(), known.definition.name.clone()));
        }
    }

    fn take(&mut self, path: &Path, known: &DefinitionInFile, at: usize) {
        if matches!(known.definition.kind, DefinitionKind::Package | DefinitionKind::System) {
            return;
        }
        let touched = Touched {
            name: known.shown(),
            kind: TouchedKind::Definition(known.definition.kind),
            place: Some(known.place()),
            gone: false,
        };
        if self.changed.contains(&touched) {
            return;
        }
        self.changed.push(touched);
        self.files.insert(path.to_owned());
        self.known.push((known.path.clone(), at));
        if let Some(home) = &known.home {
            self.symbols.insert((home.clone(), known.definition.name.clone()));
        }
    }
}

/// Whether one of `ranges`, of lines, touches the definition.
fn touches(ranges: &[(u32, u32)], known: &DefinitionInFile) -> bool {
    let (start, end) = (known.definition.start, known.definition.end);
    ranges.iter().any(|(first, last)| *first <= end && start <= *last)
}

/// How many arguments a lambda list takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Arity {
    least: usize,
    /// None: any number.
    most: Option<usize>,
    /// Whether keyword arguments, which come in pairs, follow the required and optional ones.
    keys: bool,
}

impl Arity {
    fn fits(&self, count: usize) -> Option<String> {
        let plural = |count: usize| if count == 1 { "argument" } else { "arguments" };
        if count < self.least {
            return Some(format!("{count} {} given, at least {} needed", plural(count), self.least));
        }
        match self.most {
            Some(most) if count > most => {
                Some(format!("{count} {} given, at most {most} taken", plural(count)))
            }
            _ => None,
        }
    }
}

/// Reads the arity from the lambda list of a DEFUN, DEFGENERIC or DEFMETHOD in the text.
fn arity_of(text: &LispText, bytes: &[u8], form: FormId) -> Option<Arity> {
    // Skips the name and, in methods, the qualifiers.
    let list = text.elements(form).skip(2).find_map(|datum| match datum {
        Datum::Form(id) => text.form(id).filter(|form| form.kind == FormKind::List).map(|_| id),
        Datum::Token(_) => None,
    })?;
    let mut arity = Arity { least: 0, most: Some(0), keys: false };
    let mut section = 0;
    for datum in text.elements(list) {
        let keyword = match datum {
            Datum::Token(at) => text.tokens().get(at).map(|token| token.symbol(bytes).name.into_owned()),
            Datum::Form(_) => None,
        };
        match keyword.as_deref() {
            Some("&OPTIONAL") => section = 1,
            Some("&REST" | "&BODY" | "&MORE") => (section, arity.most) = (2, None),
            Some("&KEY") => (section, arity.most, arity.keys) = (2, None, true),
            Some("&AUX") => section = 3,
            Some(other) if other.starts_with('&') => (),
            _ if section == 0 => {
                arity.least += 1;
                arity.most = arity.most.map(|most| most + 1);
            }
            _ if section == 1 => arity.most = arity.most.map(|most| most + 1),
            _ => (),
        }
    }
    Some(arity)
}

/// Finds the form that defines `known`, also within another form such as EVAL-WHEN.
fn form_of(text: &LispText, bytes: &[u8], known: &DefinitionInFile) -> Option<FormId> {
    let lines = LineIndex::new(bytes);
    (0..text.forms().len()).map(FormId::new).find(|form| match text.elements(*form).nth(1) {
        Some(Datum::Token(name)) => text
            .tokens()
            .get(name)
            .is_some_and(|name| lines.position(bytes, name.span.start) == known.definition.place),
        _ => false,
    })
}

/// Finds the calls of a function whose number of arguments does not fit the lambda list in the text.
fn arity(
    context: &QueryContext<'_>,
    users: &UserFinder<'_>,
    known: &DefinitionInFile,
    bad: &mut Vec<BadCall>,
) {
    if !matches!(known.definition.kind, DefinitionKind::Function | DefinitionKind::GenericFunction)
        || known.definition.setf
    {
        return;
    }
    let root = context.project.root().map(Path::to_owned).unwrap_or_default();
    let read = |path: &str| {
        let bytes = steelbank_tree::read_source(&root.join(path)).ok()?;
        let text = LispText::read(&bytes, Dialect::CommonLisp, &Features::sbcl());
        Some((bytes, text))
    };
    let Some((bytes, text)) = read(&known.path) else { return };
    let Some(taken) = form_of(&text, &bytes, known).and_then(|form| arity_of(&text, &bytes, form)) else {
        return;
    };
    let Some(home) = &known.home else { return };
    for used in
        users.of(home, &known.definition.name).into_iter().filter(|used| used.line.use_type == UseType::Call)
    {
        let Location { file, line: Some(line), column: Some(column), .. } = &used.line.place else {
            continue;
        };
        let Some((bytes, text)) = read(file) else { continue };
        let lines = LineIndex::new(&bytes);
        for (at, form) in text.forms().iter().enumerate() {
            let Some(head) = text.head(form).filter(|head| head.kind == TokenKind::Symbol) else { continue };
            let starts = lines.position(&bytes, head.span.start);
            if form.kind != FormKind::List || starts.line != *line || starts.column < *column {
                continue;
            }
            if head.symbol(&bytes).name != known.definition.name.as_str() {
                continue;
            }
            let count = text.elements(FormId::new(at)).count().saturating_sub(1);
            if let Some(problem) = taken.fits(count) {
                let call = String::from_utf8_lossy(&bytes[form.span.indices()]).into_owned();
                let place = Location::in_text(file, &lines, &bytes, head.span);
                bad.push(BadCall { place, call, problem });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lambda_lists_tell_how_many_arguments_they_take() {
        let check = |text: &str, least, most| {
            let read = LispText::read(text.as_bytes(), Dialect::CommonLisp, &Features::sbcl());
            let arity = arity_of(&read, text.as_bytes(), read.toplevel()[0].form.unwrap()).unwrap();
            assert_eq!((arity.least, arity.most), (least, most), "{text}");
        };
        check("(defun f ())", 0, Some(0));
        check("(defun f (a b &optional (c 1) &aux d))", 2, Some(3));
        check("(defun f (a &rest more))", 1, None);
        check("(defmethod f :around ((a t) &key b))", 1, None);
    }
}
