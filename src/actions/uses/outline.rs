//! outline: lists the definitions of a file, package or system with the number of their uses, and
//! finds unused ones.
//!
//! Definitions come from the text, which is read without Lisp. Uses come from the image and from
//! the text of all loaded files, through `UseLines`. For an unused definition, `reach` collects
//! the reasons why it may still be in use, such as an export or a quoted name.

pub(crate) mod tool;

use crate::answer::name::{canonical, escaped};
use crate::answer::{LispName, NotFound, OtherText, counted};
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use steelbank_reader::lines::{LineColumn, LineIndex, PositionEncoding};
use steelbank_reader::{Dialect, Features, Form, FormKind, LispText};
use steelbank_text::DefinitionKind;
use steelbank_text::{Globs, LispDefinition, Pattern, TextIndex, TextRole, TextSearch, lisp_definitions};
use steelbank_tree::{belonging, defines_systems, is_lisp_by_name, nested};
use steelbank_xref::{Access, Index, SymbolName};

use super::code_find_references::UseType;
use super::computed::{ComputedName, all_computed_names};
use super::enclosing::innermost;
use super::memo::last_answer;
use super::symbol_uses::SymbolUses;
use super::unloaded::{TextUse, text_uses};
use super::use_counts::{UseLine, UseLines, is_test_file};
use crate::actions::symbols::find_definition::{ImageDefinition, placed};
use crate::answer::designator::{FunctionName, PrintedName};
use crate::answer::location::{Location, as_text};
use crate::answer::lookup::find_package;
use crate::answer::package_owner::PackageOwner;
use crate::engine::Lane;
use crate::engine::control::Control;
use crate::handle::Error;
use crate::handle::context::QueryContext;
use crate::handle::question::Question;
use crate::workspace::write::is_nothing;
use crate::workspace::{Project, TextState, TreeView};

/// A request for the definitions in a file, package or system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutlineRequest {
    /// The file, folder, package or system to outline.
    pub of: OutlineTarget,
    /// Only these kinds of definitions, by any name that [`DefinitionKind::named`] accepts. Empty:
    /// all kinds.
    pub kinds: Vec<String>,
    /// Only unused definitions, the most certain first.
    pub unused: bool,
    /// Only definitions with their name at one of these places: the file's path as in answers, and
    /// the line.
    pub only: Option<BTreeSet<(String, u32)>>,
}

impl OutlineRequest {
    /// Creates a request for all definitions of the target.
    pub fn new(of: OutlineTarget) -> Self {
        Self { of, kinds: Vec::new(), unused: false, only: None }
    }
}

/// A file, folder, package or system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutlineTarget {
    /// A file, or all Lisp files below a folder, relative to the project.
    Path(String),
    /// A package: in all loaded files, the definitions of its symbols and the definitions for which
    /// it is the current package.
    Package(String),
    /// A system: its files.
    System(String),
}

impl OutlineTarget {
    /// Returns the name of the package if the target is a package.
    pub(super) fn package(&self, index: &Index) -> Result<Option<String>, NotFound> {
        let Self::Package(package) = self else { return Ok(None) };
        let unknown = || NotFound::Package(package.to_uppercase());
        let found = find_package(index, package).ok_or_else(unknown)?;
        Ok(Some(index.package_name(found).into_owned()))
    }
}

/// The reason why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OutlineError {
    /// The file cannot be read.
    #[error("The file {path} cannot be read: {why}.")]
    File {
        /// The path as it was given.
        path: String,
        /// The operating system's error.
        why: String,
    },
    /// The path leads out of the project.
    #[error("{path} is outside of the project. Give a path relative to it.")]
    Outside {
        /// The path as it was given.
        path: String,
    },
    /// The kind does not exist.
    #[error("There is no kind {kind:?}. The kinds are {}.", DefinitionKind::all().map(DefinitionKind::name).collect::<Vec<_>>().join(", "))]
    Kind {
        /// The kind as given.
        kind: String,
    },
}

/// The answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct OutlineAnswer {
    /// The definitions by file and place. With `unused`: the most certain first.
    pub definitions: Vec<Outlined>,
    /// The number of definitions searched. With `unused`: only those in loaded files that have not
    /// changed.
    pub looked_at: usize,
    /// Files that are not loaded or are stale. The definitions in them are listed, but uses of
    /// these definitions are not counted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_loaded: Vec<String>,
    /// The number of these files on all pages.
    #[serde(skip_serializing_if = "crate::answer::is_zero")]
    pub not_loaded_count: usize,
    /// Whether the request was for unused definitions.
    #[serde(skip)]
    pub unused: bool,
}

/// One definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Outlined {
    /// Its name with its home package, if known: `shop:total`, `(setf shop::rate)`.
    pub name: LispName,
    /// Its kind: function, macro, method, class, …
    pub kind: DefinitionKind,
    /// The place of its name.
    #[serde(serialize_with = "as_text")]
    #[schemars(with = "String")]
    pub place: Location,
    /// Its last line.
    pub end: u32,
    /// The beginning of the text, for definitions that the name alone does not identify: methods,
    /// and definitions by operators of the project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Whether its package exports it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub exported: bool,
    /// The number of lines that use it; absent where they are not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uses: Option<UseCount>,
    /// With `unused`: the reasons why it may still be in use. Empty: no such reason was found.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reached_by: Vec<String>,
    /// With `unused`: the other lines of Lisp text that have its name, such as comments,
    /// declarations and other symbols, as the first place and the number of others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub also_in: Option<String>,
}

/// The number of lines that use a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct UseCount {
    /// Outside of the definition and outside of tests. For a definition in a test file, uses in
    /// tests count here.
    pub others: usize,
    /// In tests.
    #[serde(skip_serializing_if = "crate::answer::is_zero")]
    pub tests: usize,
    /// In the definition itself, or in a definition around it or inside it.
    #[serde(skip_serializing_if = "crate::answer::is_zero")]
    pub itself: usize,
}

/// A definition and its file.
pub(crate) struct DefinitionInFile {
    pub(crate) path: String,
    pub(crate) definition: LispDefinition,
    /// The symbol's home package, if the symbol exists in the image.
    pub(crate) home: Option<String>,
    /// The symbol's canonical name, if the symbol exists in the image.
    pub(crate) symbol: Option<String>,
    pub(crate) exported: bool,
    /// Whether the loaded version of the file is current.
    pub(crate) loaded: bool,
    /// For a definition that a local macro or `#.` generates: start and end of the form with it.
    form: Option<(LineColumn, LineColumn)>,
}

impl DefinitionInFile {
    /// Whether this is a form of a project operator with a standard symbol, such as LIST, as its
    /// name. Such a form does not define the standard function.
    pub(crate) fn names_standard(&self) -> bool {
        self.definition.kind == DefinitionKind::Definition
            && self.home.as_deref().is_some_and(|home| PackageOwner::of(home).is_locked())
    }

    /// Returns the name for an answer.
    pub(crate) fn name(&self, index: &Index) -> LispName {
        match self.definition.kind {
            DefinitionKind::Package | DefinitionKind::System => LispName::of_text(self.canonical()),
            _ => LispName::new(index, self.canonical()),
        }
    }

    /// Returns the symbol that it defines, or `None` if the home package is not known.
    pub(crate) fn full_name(&self) -> Option<SymbolName> {
        Some(SymbolName::new(self.home.as_deref()?, &*self.definition.name))
    }

    /// Returns the canonical name. If the definition has a literal in place of a name, returns the
    /// literal.
    pub(crate) fn canonical(&self) -> String {
        if let Some(literal) = &self.definition.literal {
            return literal.clone();
        }
        let name = match (&self.symbol, &self.definition.package, self.definition.kind) {
            (_, _, DefinitionKind::Package | DefinitionKind::System) => self.definition.name.clone(),
            (Some(symbol), _, _) => symbol.clone(),
            (None, Some(package), _) => canonical(package, &self.definition.name),
            (None, None, _) => escaped(&self.definition.name),
        };
        if self.definition.setf { format!("(SETF {name})") } else { name }
    }

    pub(crate) fn place(&self) -> Location {
        Location::new(&*self.path).at(self.definition.place)
    }

    /// Whether `place` is on a line of the definition.
    pub(crate) fn has(&self, place: &Location) -> bool {
        let lines = self.definition.start..=self.definition.end;
        place.file == self.path && place.line.is_some_and(|line| lines.contains(&line))
    }
}

impl OutlineRequest {
    /// Lists the files that the request covers.
    pub(crate) fn files(&self, context: &QueryContext<'_>) -> Result<Vec<PathBuf>, Error> {
        match &self.of {
            OutlineTarget::Path(path) => files_at(context, path),
            OutlineTarget::Package(_) => {
                Ok(context.project.loaded().into_iter().map(|(path, _)| path).collect())
            }
            OutlineTarget::System(system) => {
                let unknown = || NotFound::System(system.clone());
                let name = system.trim_start_matches([':', '#', '"']).trim_end_matches('"').to_lowercase();
                let systems = context.project.image_systems();
                let system = systems.get(&name).ok_or_else(unknown)?;
                // A loaded system without components has no list of files. If it belongs to the
                // project, return an empty list instead of an error.
                let own = system.loaded && context.project.contains(&system.asd);
                let none = || own.then(Vec::new);
                let mut files = system.files.clone().or_else(none).ok_or_else(unknown)?;
                // ASDF infers a system from each file of a package-inferred system.
                let part = format!("{name}/");
                let parts =
                    systems.iter().filter(|(other, system)| system.inferred && other.starts_with(&part));
                files.extend(parts.flat_map(|(_, system)| system.files.iter().flatten().cloned()));
                Ok(files)
            }
        }
    }
}

impl OutlineRequest {
    /// Answers like [`Question::answer`], but reuses the last answer if nothing has changed.
    pub(crate) fn answer_once(
        &self,
        context: &QueryContext<'_>,
        control: &Control,
    ) -> Result<OutlineAnswer, Error> {
        last_answer(self, context, || self.answer(context, control))
    }
}

impl Question for OutlineRequest {
    type Answer = OutlineAnswer;

    fn answer(&self, context: &QueryContext<'_>, control: &Control) -> Result<OutlineAnswer, Error> {
        let mut kinds = Vec::new();
        for kind in &self.kinds {
            kinds.push(DefinitionKind::named(kind).ok_or_else(|| OutlineError::Kind { kind: kind.clone() })?);
        }
        let wanted_package = self.of.package(&context.index)?;
        let mut answer = OutlineAnswer { unused: self.unused, ..OutlineAnswer::default() };
        let use_lines = UseLines::new(context, control);
        let other_uses = self.unused.then(|| OtherUses::new(context, control));
        let (mut all, mut wanted, mut files) = (Vec::new(), Vec::new(), Vec::new());
        // Caches the lines that use a generic function, which may have hundreds of methods.
        let mut methods: HashMap<SymbolName, Rc<[UseLine]>> = HashMap::new();
        let mut read = Vec::new();
        for path in self.files(context)? {
            control.check()?;
            let (known, loaded) = definitions_in(context, &path)?;
            read.push((path, known, loaded));
        }
        add_generated(context, control, &mut read)?;
        for (path, known, loaded) in read {
            let is_wanted = |known: &DefinitionInFile| {
                let packages = [known.home.as_ref(), known.definition.package.as_ref()];
                let kind = known.definition.kind;
                wanted_package.as_ref().is_none_or(|wanted| packages.contains(&Some(wanted)))
                    && (kinds.is_empty() || kinds.iter().any(|wanted| kind.answers(*wanted)))
            };
            let in_file = all.len()..all.len() + known.len();
            let found: Vec<usize> =
                in_file.clone().zip(&known).filter(|(_, known)| is_wanted(known)).map(|(at, _)| at).collect();
            if !loaded && !found.is_empty() {
                answer.not_loaded.push(context.project.shown(&path));
            }
            files.extend(found.iter().map(|_| in_file.clone()));
            wanted.extend(found);
            all.extend(known);
        }
        answer.not_loaded_count = answer.not_loaded.len();
        answer.looked_at = wanted.iter().filter(|at| !self.unused || all[**at].loaded).count();
        for (known, in_file) in wanted.iter().map(|at| &all[*at]).zip(files) {
            control.check()?;
            let definition = &known.definition;
            let wanted = |only: &BTreeSet<_>| only.contains(&(known.path.clone(), definition.place.line));
            if !self.only.as_ref().is_none_or(wanted) {
                continue;
            }
            let counts = known.loaded
                && !known.names_standard()
                && !matches!(
                    definition.kind,
                    DefinitionKind::Package | DefinitionKind::System | DefinitionKind::Test
                );
            let symbol = known.full_name().filter(|_| counts);
            let lines = symbol.as_ref().map(|symbol| {
                let ask = || Rc::<[UseLine]>::from(use_lines.lines(symbol));
                match definition.kind {
                    DefinitionKind::Method => Rc::clone(methods.entry(symbol.clone()).or_insert_with(ask)),
                    _ => ask(),
                }
            });
            let mut count = lines.as_ref().map(|lines| count(context.project, known, lines, &all[in_file]));
            if let (Some(count), Some(symbol)) = (&mut count, &symbol)
                && definition.kind != DefinitionKind::Method
            {
                count.others += use_lines.without_file(symbol).len();
            }
            let telling = matches!(definition.kind, DefinitionKind::Method | DefinitionKind::Definition);
            let mut outlined = Outlined {
                name: known.name(&context.index),
                kind: definition.kind,
                place: known.place(),
                end: definition.end,
                text: telling.then(|| crate::answer::shortened(&definition.line)),
                exported: known.exported && !known.names_standard(),
                uses: count,
                reached_by: Vec::new(),
                also_in: None,
            };
            if let Some(other_uses) = &other_uses {
                let (Some(lines), Some(count)) = (lines, count) else { continue };
                if count.others > 0 || definition.declaration {
                    continue;
                }
                let Some((reached_by, also_in)) =
                    reach(context, &use_lines, other_uses, known, &lines, count, &all)?
                else {
                    continue;
                };
                (outlined.reached_by, outlined.also_in) = (reached_by, also_in);
            }
            answer.definitions.push(outlined);
        }
        if self.unused {
            answer.definitions.sort_by_key(|outlined| outlined.reached_by.len());
        }
        control.check()?;
        Ok(answer)
    }
}

/// Lists the Lisp files at `path`, relative to the project: the file itself, or all Lisp files
/// below the folder except hidden files and those of nested projects. A loaded file below the
/// folder counts whatever its extension.
///
/// # Errors
/// The path does not exist or cannot be read, or it is outside the project and not loaded.
pub(crate) fn files_at(context: &QueryContext<'_>, path: &str) -> Result<Vec<PathBuf>, Error> {
    let failed = |error: std::io::Error| -> Error {
        match is_nothing(&error) {
            true => NotFound::Path(path.to_owned()).into(),
            false => OutlineError::File { path: path.to_owned(), why: error.to_string() }.into(),
        }
    };
    let root = context.project.root().map(Path::to_owned).unwrap_or_default();
    let real = root.join(path).canonicalize().map_err(failed)?;
    let known = context.project.loaded_date(&real).is_some();
    if !root.as_os_str().is_empty() && !real.starts_with(&root) && !known {
        return Err(OutlineError::Outside { path: path.to_owned() }.into());
    }
    if real.is_file() {
        return Ok(vec![real]);
    }
    let mut found = BTreeSet::new();
    let mut folders = vec![real];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).map_err(failed)?.flatten() {
            let path = entry.path();
            let hidden = entry.file_name().to_string_lossy().starts_with('.');
            let Ok(kind) = entry.file_type() else { continue };
            let is_source = || is_lisp_by_name(&path) || context.project.loaded_date(&path).is_some();
            match () {
                () if hidden => (),
                () if kind.is_dir() => {
                    let is_other = nested(&path).is_some() && belonging(&root, &path).is_some();
                    folders.extend((!is_other).then_some(path));
                }
                () if kind.is_file() && is_source() => drop(found.insert(path)),
                () => (),
            }
        }
    }
    Ok(found.into_iter().collect())
}

/// Reads the definitions in the file at `path`. Also returns whether the file is loaded and has not
/// changed since.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn definitions_in(
    context: &QueryContext<'_>,
    path: &Path,
) -> Result<(Vec<DefinitionInFile>, bool), OutlineError> {
    let shown = context.project.shown(path);
    let bytes = steelbank_tree::read_source(path)
        .map_err(|error| OutlineError::File { path: shown.clone(), why: error.to_string() })?;
    let date = context.project.loaded_date(path);
    let loaded = date.is_some() && !context.project.has_changed(path);
    let file = date.and_then(|date| context.project.positions(path, date).ok());
    let context = file.as_ref().map_or(Cow::Borrowed(context), |file| context.with_file_symbols(file));
    let known = lisp_definitions(&bytes).into_iter();
    let known = known.map(|definition| resolved(&context.index, shown.clone(), definition, loaded));
    Ok((known.collect(), loaded))
}

/// Resolves a definition in the file shown as `path` to the image's symbol with its name.
pub(crate) fn resolved(
    index: &Index,
    path: String,
    definition: LispDefinition,
    loaded: bool,
) -> DefinitionInFile {
    let package = definition.prefix.as_deref().or(definition.package.as_deref());
    let found = package
        .filter(|_| definition.literal.is_none())
        .and_then(|package| index.symbol_named(package, &definition.name));
    let home = found.and_then(|(symbol, _)| index.symbol_package(symbol));
    let exported = home.is_some_and(|home| {
        index.find_symbol(&definition.name, home).is_some_and(|(_, access)| access == Access::External)
    });
    let home = home.map(|home| index.package_name(home).into_owned());
    let symbol = found.map(|(symbol, _)| index.symbol_text(symbol));
    DefinitionInFile { path, definition, home, symbol, exported, loaded, form: None }
}

/// Adds to each loaded file the definitions that the image has from top-level forms with local
/// macros or `#.`, but that the text does not show.
fn add_generated(
    context: &QueryContext<'_>,
    control: &Control,
    files: &mut [(PathBuf, Vec<DefinitionInFile>, bool)],
) -> Result<(), Error> {
    let mut makers = Vec::new();
    for (path, known, _) in files.iter_mut().filter(|(.., loaded)| *loaded) {
        let bytes = steelbank_tree::read_source(path).unwrap_or_default();
        let has = |word: &[u8]| bytes.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word));
        if has(b"macrolet") || has(b"#.") {
            let text = LispText::read(&bytes, Dialect::CommonLisp, &Features::sbcl());
            makers.push((path, known, text, bytes, Vec::new()));
        }
    }
    if makers.is_empty() {
        return Ok(());
    }
    type Defined = Option<Vec<(String, String, Option<Vec<ImageDefinition>>)>>;
    let paths = makers.iter().map(|(path, ..)| path.display().to_string()).collect();
    let (symbols, _): (Defined, _) = context.ask_on(Lane::Query, "definitions-in", paths, control)?;
    for (name, package, definitions) in symbols.into_iter().flatten() {
        let sought = SymbolName::new(package, name);
        let definitions = definitions.into_iter().flatten();
        for (of, source) in
            definitions.flat_map(|of| of.sources.clone().into_iter().map(move |at| (of.clone(), at)))
        {
            let place = placed(context, &sought, &of, &source).0.place;
            let in_file = makers.iter_mut().find(|(path, ..)| context.project.shown(path) == place.file);
            let Some((_, known, text, bytes, made_here)) = in_file else { continue };
            let made = generated(text, bytes, &sought, &of, &place);
            let is_in_text = |made: &LispDefinition| {
                known.iter().map(|known| &known.definition).any(|text| {
                    (&text.name, text.setf, text.kind) == (&made.name, made.setf, made.kind)
                        || (text.form == made.form && (text.start..=text.end).contains(&made.start))
                })
            };
            if let Some((made, form)) = made.filter(|(made, _)| !is_in_text(made)) {
                let made = resolved(&context.index, place.file, made, true);
                made_here.push(DefinitionInFile { form: Some(form), ..made });
            }
        }
    }
    for (_, known, _, _, made) in makers {
        known.extend(made);
        known.sort_by_key(|known| known.definition.place);
    }
    Ok(())
}

/// Returns the definition `of` the symbol `sought` at `place` if a local macro or `#.` is in the
/// top-level form there. Also returns start and end of the innermost form there.
fn generated(
    text: &LispText,
    bytes: &[u8],
    sought: &SymbolName,
    of: &ImageDefinition,
    place: &Location,
) -> Option<(LispDefinition, (LineColumn, LineColumn))> {
    let lines = LineIndex::new(bytes);
    let place = LineColumn { line: place.line?, column: place.column? };
    let at = lines.offset(bytes, place, PositionEncoding::Characters)?;
    let number = text.toplevel().iter().position(|top| top.span.contains(at))?;
    let top = &text.toplevel()[number];
    let inside = || text.forms().iter().filter(|form| form.active && top.span.contains(form.span.start));
    let operator = |form: &Form| text.head(form).map(|head| head.symbol(bytes).name.into_owned());
    inside().find(|form| {
        form.kind == FormKind::ReadEval || operator(form).is_some_and(|name| name == "MACROLET")
    })?;
    let around = inside().rfind(|form| form.span.contains(at))?;
    let range = (lines.position(bytes, around.span.start), lines.position(bytes, around.span.end));
    let made = LispDefinition {
        kind: DefinitionKind::named(of.kind.name())?,
        name: sought.name.clone(),
        prefix: Some(sought.package.clone()),
        literal: None,
        setf: PrintedName::parse(&of.name).head == "SETF",
        operator: operator(around).unwrap_or_default(),
        place,
        start: range.0.line,
        end: range.1.line,
        form: number,
        package: top.package.as_deref().map(String::from),
        line: String::from_utf8_lossy(lines.bytes(bytes, place.line)).trim().to_owned(),
        declaration: false,
    };
    Some((made, range))
}

/// Whether the line may use the symbol at run time. Exports, imports, declarations, block names,
/// quoted data and slot names do not.
fn is_live(line: &UseLine) -> bool {
    !line.is_declaration && !matches!(line.use_type, UseType::Quoted | UseType::Slot)
}

/// Counts the lines that use `known`; `in_file` holds all definitions of its file.
fn count(
    project: &Project,
    known: &DefinitionInFile,
    lines: &[UseLine],
    in_file: &[DefinitionInFile],
) -> UseCount {
    let mut count = UseCount::default();
    let is_test = is_test_file(project, &known.path);
    for line in lines.iter().filter(|line| is_live(line)) {
        if line.place.file == known.path && is_in_definition(known, &line.place, in_file) {
            count.itself += 1;
        } else if line.in_tests && !is_test {
            count.tests += 1;
        } else {
            count.others += 1;
        }
    }
    count
}

/// Whether `place` is in the form of `known`, or in an enclosing or enclosed definition, but not in
/// a sibling.
fn is_in_definition(known: &DefinitionInFile, place: &Location, in_file: &[DefinitionInFile]) -> bool {
    let lines = |of: &DefinitionInFile| (of.definition.start, of.definition.end);
    let encloses = |outer: &DefinitionInFile, inner: &DefinitionInFile| {
        let ((start, end), (from, to)) = (lines(outer), lines(inner));
        lines(outer) != lines(inner) && start <= from && to <= end
    };
    let at = place.line.zip(place.column).map(|(line, column)| LineColumn { line, column });
    let is_in_form = known.form.zip(at).is_some_and(|((start, end), at)| (start..end).contains(&at));
    is_in_form
        || innermost(in_file, place, |_| true).is_some_and(|around| {
            around.definition.place == known.definition.place
            // An accessor shares the form of its class.
            || (known.definition.kind == DefinitionKind::Accessor && lines(around) == lines(known))
            || encloses(known, around)
            || encloses(around, known)
        })
}

/// The reasons why an unused definition may be in use, and a description of other lines with its
/// name.
type Reach = (Vec<String>, Option<String>);

/// Lists the reasons why a definition without other users may still be in use, and describes other
/// lines with its name. Returns `None` if it is in use. Also returns `None` for definitions with
/// uses that are not counted: compiler macros, setf definitions, method combinations, and methods
/// of generic functions from outside the outlined code.
fn reach(
    context: &QueryContext<'_>,
    use_lines: &UseLines<'_>,
    other_uses: &OtherUses<'_>,
    known: &DefinitionInFile,
    lines: &[UseLine],
    count: UseCount,
    all: &[DefinitionInFile],
) -> Result<Option<Reach>, Error> {
    let definition = &known.definition;
    let home = known.home.as_deref().unwrap_or_default();
    let mut reasons = Vec::new();
    let elsewhere = |line: &&UseLine| !known.has(&line.place);
    match definition.kind {
        // A generic function from outside the outlined code may call its methods at any time.
        DefinitionKind::Method => {
            let own = all.iter().any(|other| {
                other.definition.kind == DefinitionKind::GenericFunction
                    && other.definition.name == definition.name
            });
            if !own {
                return Ok(None);
            }
            reasons.push("a method of a generic function that nothing calls".to_owned());
        }
        // A structure is in use if one of the functions that DEFSTRUCT generated for it is in use.
        DefinitionKind::Struct if is_structure_used(context, use_lines, known) => return Ok(None),
        DefinitionKind::Definition => {
            reasons.push(format!(
                "defined by {}, which may register it under another name",
                definition.operator
            ));
        }
        DefinitionKind::CompilerMacro | DefinitionKind::Setf | DefinitionKind::MethodCombination => {
            return Ok(None);
        }
        DefinitionKind::Accessor if count.itself > 0 => {
            reasons.push("used in its own form".to_owned());
        }
        _ => (),
    }
    if known.exported {
        reasons.push(format!("exported from {home}"));
    }
    if count.tests > 0 {
        reasons.push(format!("used by tests ({})", counted(count.tests, "line", "lines")));
    }
    let used_as = |of: UseType| -> Vec<Location> {
        let lines = lines.iter().filter(elsewhere).filter(|line| line.use_type == of);
        lines.map(|line| line.place.clone().whole_line()).collect()
    };
    let unloaded = other_uses.unloaded(context, known);
    let in_state = |of: fn(TextState) -> bool| -> Vec<Location> {
        unloaded.iter().filter(|line| of(line.state)).map(|line| line.place.clone()).collect()
    };
    let [mut strings, mut elsewhere, mut named] = match other_uses.text {
        Some(text) => textual(context, text, known)?,
        None => Default::default(),
    };
    strings.splice(0..0, in_state(|state| state == TextState::RuntimeName));
    let is_other = |state| !matches!(state, TextState::RuntimeName | TextState::FeatureExcluded);
    elsewhere.splice(0..0, in_state(is_other));
    let excluded = in_state(|state| state == TextState::FeatureExcluded);
    let quoted = used_as(UseType::Quoted);
    let stated = [&strings, &elsewhere, &excluded, &quoted, &used_as(UseType::Export)];
    named.retain(|place| !stated.iter().any(|places| places.contains(place)));
    reasons.extend(reason("quoted in", quoted, ""));
    reasons.extend(reason("named in a string in", strings, ""));
    reasons.extend(reason("used in", excluded, ", in code that a feature expression excludes"));
    reasons.extend(reason("named in", elsewhere, ", which is not loaded"));
    reasons.extend(other_uses.by_name(context, known));
    Ok(Some((reasons, reason("the name is also in", named, ""))))
}

/// Describes `places` by the first one, with `note` about it, and the number of the others. Returns
/// `None` if there are none.
fn reason(how: &str, places: Vec<Location>, note: &str) -> Option<String> {
    let (first, count) = (places.first()?.to_string(), places.into_iter().collect::<BTreeSet<_>>().len());
    Some(reason_of(how, &format!("{first}{note}"), count))
}

/// Describes `count` places by the first one.
fn reason_of(how: &str, first: &str, count: usize) -> String {
    let and = if first.contains(',') { ", and" } else { " and" };
    match count - 1 {
        0 => format!("{how} {first}"),
        more => format!("{how} {first}{and} {}", counted(more, "other place", "other places")),
    }
}

/// Finds uses that no record or token of loaded code shows. Holds what one answer needs for all its
/// definitions.
struct OtherUses<'a> {
    text: Option<&'a TextIndex>,
    view: TreeView,
    computed: Arc<Vec<ComputedName>>,
    control: &'a Control,
}

impl<'a> OtherUses<'a> {
    fn new(context: &'a QueryContext<'_>, control: &'a Control) -> Self {
        let view = context.project.tree_view();
        let computed = all_computed_names(context, &view);
        Self { text: context.text.or_else(|| context.bank.text_index().ok()), view, computed, control }
    }

    /// Lists the lines outside the definition that name it in text that is not loaded or that a
    /// feature expression excludes, or in strings that code interns.
    fn unloaded(&self, context: &QueryContext<'_>, known: &DefinitionInFile) -> Vec<TextUse> {
        let Some(symbol) = known.full_name() else { return Vec::new() };
        let mut uses = text_uses(&context.index, context.project, &self.view, &symbol, false, self.control);
        uses.lines.retain(|line| !known.has(&line.place));
        uses.lines
    }

    /// Lists, as reasons, the places where text that is not Lisp names the definition, and those
    /// where code may look it up by its name.
    fn by_name(&self, context: &QueryContext<'_>, known: &DefinitionInFile) -> Vec<String> {
        let (index, name) = (&context.index, &known.definition.name);
        let Some(symbol) = known.full_name().and_then(|name| index.named(&name)) else { return Vec::new() };
        let uses = SymbolUses::new(index, symbol, FunctionName::Plain);
        let words = OtherText::new(&uses.words(context.project, &self.view).unwrap_or_default());
        let is_home = |package: &String| index.find_package(package, None) == index.symbol_package(symbol);
        let computed: Vec<&ComputedName> = self
            .computed
            .iter()
            .filter(|found| {
                !found.in_macro && found.package.as_ref().is_some_and(is_home) && found.may_make(name)
            })
            .collect();
        let named = words
            .places
            .first()
            .map(|first| reason_of("named in", &first.clone().whole_line().to_string(), words.count));
        let computed = computed.into_iter().map(|found| found.place.clone().whole_line());
        named.into_iter().chain(reason("may be looked up by name in", computed.collect(), "")).collect()
    }
}

/// Whether another form uses a function that DEFSTRUCT generated for `known`. Such functions are
/// recognized by their default names.
fn is_structure_used(context: &QueryContext<'_>, use_lines: &UseLines<'_>, known: &DefinitionInFile) -> bool {
    let index = &context.index;
    let name = &known.definition.name;
    let Some(home) = known.home.as_deref().and_then(|home| index.find_package(home, None)) else {
        return false;
    };
    let mut made = index
        .symbols()
        .filter(|symbol| index.symbol_package(*symbol) == Some(home))
        .filter(|symbol| {
            let other = index.symbol_name(*symbol);
            other.starts_with(&format!("{name}-"))
                || [format!("MAKE-{name}"), format!("COPY-{name}"), format!("{name}P")]
                    .iter()
                    .any(|made| **made == *other)
        })
        .map(|symbol| index.full_name(symbol));
    made.any(|other| use_lines.lines(&other).iter().any(|line| is_live(line) && !known.has(&line.place)))
}

/// Finds the lines of Lisp text outside the definition that have its name: in a string, in a file
/// that is not loaded, or elsewhere, such as in a comment or a system definition.
fn textual(
    context: &QueryContext<'_>,
    text: &TextIndex,
    known: &DefinitionInFile,
) -> Result<[Vec<Location>; 3], Error> {
    let mut lines = <[Vec<Location>; 3]>::default();
    let pattern = Pattern::new(&known.definition.name.to_lowercase());
    let (Some(pattern), Ok(globs)) = (pattern, Globs::new(&[], &[])) else { return Ok(lines) };
    let search = TextSearch {
        pattern,
        kind: None,
        language: steelbank_text::Language::named("commonlisp"),
        globs,
        offset: 0,
        limit: 1_000,
        bound: 100_000,
    };
    let Ok(found) = text.search(&search, &steelbank_text::IndexControl::none()) else {
        return Ok(lines);
    };
    for each in found.references {
        let path = text.root().join(&each.path);
        let line = Location::new(context.project.shown(&path)).at(each.place).whole_line();
        let loaded = context.project.loaded_date(&path).is_some();
        let kind = match each.role {
            Some(TextRole::String) => 0,
            Some(TextRole::Comment) | None => 2,
            _ if !loaded && !defines_systems(&path) => 1,
            _ => 2,
        };
        if !known.has(&line) {
            lines[kind].push(line);
        }
    }
    Ok(lines)
}

impl From<OutlineError> for Error {
    fn from(error: OutlineError) -> Self {
        Self::of_request(error, None)
    }
}
