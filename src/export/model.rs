//! The model of a project's files. [`Model`] lists the loaded files with their systems, definitions
//! and symbols, and gets facts about the symbols from the image. [`Model::read`] reads one file at
//! a time and returns its tokens, each with its meaning: a global [`Entity`], a local binding, or
//! nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

use steelbank_reader::lines::{LineColumn, LineIndex, PositionEncoding};
use steelbank_reader::{Dialect, Features, LispText, Range, TokenKind, edit};
use steelbank_text::DefinitionKind;

use super::ExportError;
use crate::actions::symbols::facts::{
    ClassFacts, FactsRequest, LoadedSystem, OwnedPackage, OwnersRequest, SymbolFacts,
};
use crate::actions::uses::code_find_references::UseType;
use crate::actions::uses::occurrences::{FileOccurrence, GeneratedUse, OccurrenceKind, ProjectOccurrences};
use crate::actions::uses::outline::definitions_in;
use crate::actions::uses::use_counts::is_test_file;
use crate::answer::package_owner::PackageOwner;
use crate::engine::control::Control;
use crate::handle::Question;
use crate::handle::context::QueryContext;
use crate::source::positions::{Evidence, PlaceAccess};
use crate::source::tap::roles::SyntaxRole;
use steelbank_xref::SymbolName;

/// The number of a symbol in the model.
pub(super) type SymbolNumber = u32;

/// The namespace of a name. A Lisp symbol can name one thing in each namespace, except that it can
/// name several methods, and slots of several classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Facet {
    Function,
    /// `(setf NAME)`.
    Setf,
    Macro,
    CompilerMacro,
    Variable,
    /// A class or another type.
    Type,
    /// A slot of the class with this number. `None` if the class is unknown: it may be any class
    /// with a slot of this name.
    Slot(Option<SymbolNumber>),
    /// The number of the method among the project's methods with this name.
    Method(u32),
    Package,
    /// Another kind of definition, for example by an unknown defining macro.
    Other,
}

/// A thing that a symbol names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Entity {
    pub(super) symbol: SymbolNumber,
    pub(super) facet: Facet,
}

/// A symbol of the model: it occurs in the project's files, or a class definition generates it. The
/// name of a package is a symbol with an empty home package.
#[derive(Debug)]
pub(super) struct ModelSymbol {
    pub(super) name: SymbolName,
    pub(super) facts: SymbolFacts,
    /// The numbers of the symbol's definitions in the project's files.
    pub(super) definitions: Vec<u32>,
}

/// A definition in a file of the project.
#[derive(Debug)]
pub(super) struct ModelDefinition {
    pub(super) file: u32,
    pub(super) kind: DefinitionKind,
    pub(super) entity: Entity,
    /// The position of the defined name; the column counts characters.
    pub(super) place: LineColumn,
    /// The first and last line of the definition's form.
    pub(super) lines: (u32, u32),
    /// The start of the definition's form: operator and name, and for a method also its qualifiers
    /// and classes.
    pub(super) label: String,
    /// Whether the definition only declares a name that is defined elsewhere.
    pub(super) declaration: bool,
}

/// A loaded file of the project.
#[derive(Debug)]
pub(super) struct ModelFile {
    pub(super) path: PathBuf,
    /// The path relative to the project's root.
    pub(super) shown: String,
    /// The number of the first loaded system that contains the file, if any.
    pub(super) system: Option<u32>,
    pub(super) is_test: bool,
    /// The numbers of the file's definitions.
    pub(super) definitions: std::ops::Range<u32>,
}

/// A loaded system of the project.
#[derive(Debug)]
pub(super) struct ModelSystem {
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) version: Option<String>,
    pub(super) files: Vec<u32>,
}

/// A function that a class definition generates, such as an accessor, a constructor or a predicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Accessory {
    /// Reads or writes a slot: the number of the class, and the index in the class's slots.
    Accessor(SymbolNumber, usize),
    /// Constructs, copies or tests instances of the structure with this number.
    Generated(SymbolNumber),
}

/// The meaning of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    Global(Entity),
    /// A local name that is bound at this range.
    Local(Range),
    /// Data, keywords, and names with an unknown meaning.
    Nothing,
}

/// A token of a file that names a symbol or a package.
#[derive(Debug, Clone)]
pub(super) struct ModelToken {
    /// The token, including its package prefix.
    pub(super) range: Range,
    pub(super) name_range: Range,
    pub(super) symbol: SymbolNumber,
    pub(super) kind: OccurrenceKind,
    pub(super) meaning: Meaning,
    /// The number of the definition that has this token as its name.
    pub(super) definition: Option<u32>,
    /// Whether the token defines the name, as in a definition, an accessor, a slot or a local
    /// binding.
    pub(super) defines: bool,
    pub(super) access: PlaceAccess,
    pub(super) use_type: Option<UseType>,
    pub(super) role: SyntaxRole,
    pub(super) exact: bool,
}

/// The contents of one file.
#[derive(Debug)]
pub(super) struct ReadFile {
    pub(super) text: String,
    pub(super) lines: LineIndex,
    /// Whether the image was compiled from this text. If not, only package names have exact
    /// positions.
    pub(super) fresh: bool,
    /// Whether the text differs from the loaded text. Both `changed` and `fresh` are `false` if the
    /// loaded code was generated from the text, as by CFFI's groveller.
    pub(super) changed: bool,
    /// The tokens in order. They do not overlap.
    pub(super) tokens: Vec<ModelToken>,
    /// Uses that macros generate: the used symbols do not occur in the text.
    pub(super) generated_uses: Vec<GeneratedUse>,
    /// The forms of the top-level definitions.
    pub(super) forms: Vec<Range>,
}

/// The project.
pub(super) struct Model<'a> {
    context: &'a QueryContext<'a>,
    control: &'a Control,
    occurrences: ProjectOccurrences<'a>,
    pub(super) root: PathBuf,
    pub(super) files: Vec<ModelFile>,
    pub(super) systems: Vec<ModelSystem>,
    pub(super) definitions: Vec<ModelDefinition>,
    pub(super) symbols: Vec<ModelSymbol>,
    numbers: HashMap<SymbolName, SymbolNumber>,
    /// For each slot name, the project's classes that have a slot with this name.
    pub(super) slots: BTreeMap<SymbolNumber, BTreeSet<SymbolNumber>>,
    pub(super) accessories: BTreeMap<SymbolNumber, Accessory>,
    /// The facts about packages, by name.
    pub(super) packages: BTreeMap<String, OwnedPackage>,
    /// The loaded systems.
    pub(super) loaded: BTreeMap<String, LoadedSystem>,
    /// SBCL's version.
    pub(super) lisp: String,
}

impl<'a> Model<'a> {
    /// Lists the loaded files and their definitions, and gets the facts about their symbols from
    /// the image.
    pub(super) fn new(context: &'a QueryContext<'a>, control: &'a Control) -> Result<Self, ExportError> {
        let project = context.project;
        let mut model = Self {
            context,
            control,
            occurrences: ProjectOccurrences::new(context, control)?,
            root: project.root().map(PathBuf::from).unwrap_or_default(),
            files: Vec::new(),
            systems: Vec::new(),
            definitions: Vec::new(),
            symbols: Vec::new(),
            numbers: HashMap::new(),
            slots: BTreeMap::new(),
            accessories: BTreeMap::new(),
            packages: BTreeMap::new(),
            loaded: BTreeMap::new(),
            lisp: String::new(),
        };
        let paths = project.loaded_project_files().into_iter().filter(|path| path.is_file());
        let numbers: HashMap<PathBuf, u32> = (0..).zip(paths).map(|(number, path)| (path, number)).collect();
        let mut of_file = HashMap::new();
        for (name, system) in project.project_systems() {
            if !system.loaded {
                continue;
            }
            let files: Vec<u32> =
                system.files.iter().flatten().filter_map(|path| numbers.get(path).copied()).collect();
            for &file in &files {
                of_file.entry(file).or_insert(model.systems.len() as u32);
            }
            model.systems.push(ModelSystem { name, description: None, version: None, files });
        }
        let mut paths: Vec<(PathBuf, u32)> = numbers.into_iter().collect();
        paths.sort_by_key(|(_, number)| *number);
        for (path, number) in paths {
            control.check()?;
            model.add_file(path, number, of_file.get(&number).copied())?;
        }
        if model.files.is_empty() {
            return Err(ExportError::Nothing);
        }
        model.load_facts()?;
        model.name_definitions();
        for system in &mut model.systems {
            let known = model.loaded.get(&system.name);
            system.version = known.and_then(|known| known.version.clone());
            system.description = known.and_then(|known| known.description.clone());
        }
        Ok(model)
    }

    /// Adds the file at `path` and the definitions in its text.
    fn add_file(&mut self, path: PathBuf, number: u32, system: Option<u32>) -> Result<(), ExportError> {
        let (known, _) = definitions_in(self.context, &path).map_err(crate::handle::Error::from)?;
        let shown = self.context.project.shown(&path);
        let first = self.definitions.len() as u32;
        for known in known.into_iter().filter(|known| !known.names_standard()) {
            let definition = known.definition;
            let facet = match definition.kind {
                DefinitionKind::System | DefinitionKind::Package if definition.setf => continue,
                DefinitionKind::System => continue,
                DefinitionKind::Package => Facet::Package,
                DefinitionKind::Method => Facet::Method(0),
                DefinitionKind::Setf => Facet::Setf,
                _ if definition.setf => Facet::Setf,
                DefinitionKind::Function | DefinitionKind::GenericFunction | DefinitionKind::Accessor => {
                    Facet::Function
                }
                DefinitionKind::Macro => Facet::Macro,
                DefinitionKind::CompilerMacro => Facet::CompilerMacro,
                DefinitionKind::Variable | DefinitionKind::Constant | DefinitionKind::SymbolMacro => {
                    Facet::Variable
                }
                DefinitionKind::Class
                | DefinitionKind::Struct
                | DefinitionKind::Condition
                | DefinitionKind::Type => Facet::Type,
                _ => Facet::Other,
            };
            let home = match facet {
                Facet::Package => String::new(),
                _ => known.home.or(definition.package).unwrap_or_else(|| "COMMON-LISP-USER".to_owned()),
            };
            let symbol = self.number(&SymbolName::new(home, &*definition.name));
            self.symbols[symbol as usize].definitions.push(self.definitions.len() as u32);
            self.definitions.push(ModelDefinition {
                file: number,
                kind: definition.kind,
                entity: Entity { symbol, facet },
                place: definition.place,
                lines: (definition.start, definition.end),
                label: definition.line,
                declaration: definition.declaration,
            });
        }
        let definitions = first..self.definitions.len() as u32;
        self.files.push(ModelFile {
            is_test: is_test_file(self.context.project, &shown),
            path,
            shown,
            system,
            definitions,
        });
        Ok(())
    }

    /// Returns the number of a symbol. Adds the symbol, without facts, if it is new.
    fn number(&mut self, name: &SymbolName) -> SymbolNumber {
        if let Some(known) = self.find_symbol(name) {
            return known;
        }
        let number = self.symbols.len() as SymbolNumber;
        let facts = SymbolFacts::default();
        self.symbols.push(ModelSymbol { name: name.clone(), facts, definitions: Vec::new() });
        self.numbers.insert(name.clone(), number);
        number
    }

    /// Returns the number of a symbol, or `None` if the model does not contain the symbol yet.
    pub(super) fn find_symbol(&self, name: &SymbolName) -> Option<SymbolNumber> {
        self.numbers.get(name).copied()
    }

    /// Loads from the image the facts about the symbols with the number `from` or a higher number,
    /// and about the packages of these symbols.
    fn ask(&mut self, from: usize) -> Result<(), ExportError> {
        let symbols: Vec<_> = self.symbols[from..].iter().map(|symbol| symbol.name.clone()).collect();
        if symbols.is_empty() {
            return Ok(());
        }
        let home = |symbol: &SymbolName| match symbol.package.is_empty() {
            true => symbol.name.clone(),
            false => symbol.package.clone(),
        };
        let packages: BTreeSet<String> = symbols.iter().map(home).collect();
        let packages: Vec<String> =
            packages.into_iter().filter(|name| !self.packages.contains_key(name)).collect();
        if !packages.is_empty() {
            let owners = OwnersRequest { packages: packages.clone() }.answer(self.context, self.control)?;
            self.packages.extend(packages.into_iter().map(|name| (name, OwnedPackage::default())));
            self.packages.extend(owners.packages.into_iter().map(|package| (package.name.clone(), package)));
            self.loaded = owners.systems.into_iter().map(|system| (system.name.clone(), system)).collect();
            self.lisp = owners.lisp;
        }
        let facts = FactsRequest { symbols }.answer(self.context, self.control)?;
        for (symbol, facts) in self.symbols[from..].iter_mut().zip(facts) {
            symbol.facts = facts.unwrap_or_default();
        }
        Ok(())
    }

    /// Gets the facts about the defined symbols, and adds the slots and functions of their classes.
    fn load_facts(&mut self) -> Result<(), ExportError> {
        self.ask(0)?;
        let known = self.symbols.len();
        for class in 0..known as u32 {
            let Some(facts) = self.symbols[class as usize].facts.class.clone() else { continue };
            if self.symbols[class as usize].definitions.is_empty() {
                continue;
            }
            for (number, slot) in facts.slots.iter().enumerate() {
                let name = self.number(&slot.name);
                self.slots.entry(name).or_default().insert(class);
                for accessor in slot.readers.iter().chain(&slot.writers) {
                    let accessor = self.number(accessor);
                    self.accessories.entry(accessor).or_insert(Accessory::Accessor(class, number));
                }
            }
            for made in &facts.made {
                let made = self.number(made);
                self.accessories.entry(made).or_insert(Accessory::Generated(class));
            }
        }
        self.ask(known)
    }

    /// Determines the facets of definitions by the project's macros, and numbers the methods.
    fn name_definitions(&mut self) {
        let mut methods: HashMap<SymbolNumber, u32> = HashMap::new();
        for definition in &mut self.definitions {
            let symbol = definition.entity.symbol;
            match &mut definition.entity.facet {
                Facet::Method(number) => {
                    let next = methods.entry(symbol).or_default();
                    *number = *next;
                    *next += 1;
                }
                facet @ Facet::Other => {
                    if let Some(main) = principal(&self.symbols[symbol as usize].facts)
                        && definition.kind == DefinitionKind::Definition
                    {
                        *facet = main;
                    }
                }
                _ => (),
            }
        }
    }

    /// Reads the file with this number.
    pub(super) fn read(&mut self, number: u32) -> Result<ReadFile, ExportError> {
        self.control.check()?;
        let file = &self.files[number as usize];
        let answer = self.occurrences.of(&file.path, self.control)?;
        let lines = LineIndex::new(answer.text.as_bytes());
        let own = file.definitions.clone();
        let places: HashMap<(u32, u32), u32> = own
            .clone()
            .map(|number| {
                let LineColumn { line, column } = self.definitions[number as usize].place;
                ((line, column), number)
            })
            .collect();
        let forms: Vec<edit::DefinitionForm> = edit::definitions(answer.text.as_bytes());
        for number in own {
            let definition = &mut self.definitions[number as usize];
            let starts = forms.iter().find(|form| lines.line(form.span.start) == definition.lines.0);
            if let Some(form) = starts.filter(|_| definition.kind == DefinitionKind::Method) {
                definition.label.clone_from(&form.label);
            }
        }
        let before = self.symbols.len();
        let numbers: Vec<SymbolNumber> =
            answer.occurrences.iter().map(|found| self.number(&found.symbol)).collect();
        self.ask(before)?;
        let mut tokens: Vec<ModelToken> = Vec::with_capacity(answer.occurrences.len());
        let mut slots_defined: BTreeSet<(SymbolNumber, SymbolNumber)> = BTreeSet::new();
        for (found, symbol) in answer.occurrences.iter().zip(numbers) {
            if tokens.last().is_some_and(|last| last.range.end > found.range.start) {
                continue;
            }
            let at = |offset| {
                let LineColumn { line, column } = lines.position(answer.text.as_bytes(), offset);
                places.get(&(line, column)).copied()
            };
            let definition = at(found.range.start).or_else(|| at(found.name_range.start));
            let definition = definition.filter(|&number| {
                let entity = self.definitions[number as usize].entity;
                entity.symbol == symbol || entity.facet == Facet::Package
            });
            let class = || self.class_around(number, lines.line(found.range.start));
            let mut meaning = self.meaning(found, symbol, definition);
            let mut defines = definition.is_some_and(|number| !self.definitions[number as usize].declaration)
                || matches!(found.role, SyntaxRole::Definition | SyntaxRole::Structure)
                || found.binding == Some(found.range);
            if found.kind == OccurrenceKind::Slot
                && let Some(class) = class()
                && self.slots.get(&symbol).is_some_and(|classes| classes.contains(&class))
                && slots_defined.insert((class, symbol))
            {
                meaning = Meaning::Global(Entity { symbol, facet: Facet::Slot(Some(class)) });
                defines = true;
            }
            tokens.push(ModelToken {
                range: found.range,
                name_range: match answer.text[found.name_range.indices()].starts_with('"') {
                    // A string that names the symbol in a package definition: its quotes are not
                    // part of the name.
                    true => Range::new(found.name_range.start + 1, found.name_range.end - 1),
                    false => found.name_range,
                },
                symbol,
                kind: found.kind,
                meaning,
                definition,
                defines,
                access: found.access,
                use_type: found.use_type,
                role: found.role,
                exact: found.evidence == Evidence::Exact && answer.fresh,
            });
        }
        self.add_packages(number, &answer.text, &lines, &mut tokens);
        Ok(ReadFile {
            lines,
            fresh: answer.fresh,
            changed: !answer.fresh && self.context.project.has_changed(&self.files[number as usize].path),
            tokens,
            generated_uses: answer.generated,
            forms: forms.into_iter().map(|form| form.span).collect(),
            text: answer.text,
        })
    }

    /// Adds the meanings of package names after `in-package`. Adds tokens for the names of defined
    /// packages that have no token yet, such as strings.
    fn add_packages(&mut self, file: u32, text: &str, lines: &LineIndex, tokens: &mut Vec<ModelToken>) {
        for token in tokens.iter_mut() {
            let before = text[..token.range.start as usize].trim_end().as_bytes();
            let is_named = || {
                let start = before.len().checked_sub("(in-package".len());
                start.is_some_and(|start| before[start..].eq_ignore_ascii_case(b"(in-package"))
            };
            if token.definition.is_none() && token.range.start > 0 && is_named() {
                let name = SymbolName::new("", &*self.symbols[token.symbol as usize].name.name);
                let symbol = self.number(&name);
                token.meaning = Meaning::Global(Entity { symbol, facet: Facet::Package });
                token.exact = true;
            }
        }
        let own = self.files[file as usize].definitions.clone();
        let missing: Vec<u32> = own
            .filter(|number| self.definitions[*number as usize].entity.facet == Facet::Package)
            .filter(|number| !tokens.iter().any(|token| token.definition == Some(*number)))
            .collect();
        if missing.is_empty() {
            return;
        }
        let read = LispText::read(text.as_bytes(), Dialect::CommonLisp, &Features::sbcl());
        for number in missing {
            let ModelDefinition { place, entity, .. } = self.definitions[number as usize];
            let offset = lines.offset(text.as_bytes(), place, PositionEncoding::Characters);
            let Some(token) = offset.and_then(|offset| read.token_at(offset)) else { continue };
            let place = tokens.partition_point(|before| before.range.start < token.span.start);
            let free = |token: Option<&ModelToken>, range: Range| {
                token.is_none_or(|token| token.range.end <= range.start || token.range.start >= range.end)
            };
            let before = place.checked_sub(1).and_then(|before| tokens.get(before));
            if !free(before, token.span) || !free(tokens.get(place), token.span) {
                continue;
            }
            let name = match token.kind {
                TokenKind::String => Range::new(token.span.start + 1, token.span.end.saturating_sub(1)),
                _ => token.name_span(),
            };
            tokens.insert(
                place,
                ModelToken {
                    range: token.span,
                    name_range: name,
                    symbol: entity.symbol,
                    kind: OccurrenceKind::Datum,
                    meaning: Meaning::Global(entity),
                    definition: Some(number),
                    defines: true,
                    access: PlaceAccess::Read,
                    use_type: None,
                    role: SyntaxRole::Definition,
                    exact: true,
                },
            );
        }
    }

    /// Returns the class or type that the innermost definition around `line` of this file defines.
    /// Returns `None` if no definition contains the line, or if that definition defines something
    /// else.
    fn class_around(&self, file: u32, line: u32) -> Option<SymbolNumber> {
        let definition = self.definition_around(file, line)?;
        let definition = &self.definitions[definition as usize];
        (definition.entity.facet == Facet::Type).then_some(definition.entity.symbol)
    }

    /// Returns the innermost definition in this file that contains `line`, or `None`. Ignores
    /// accessors.
    pub(super) fn definition_around(&self, file: u32, line: u32) -> Option<u32> {
        let own = self.files[file as usize].definitions.clone();
        let has = |number: &u32| {
            let ModelDefinition { kind, lines: (first, last), .. } = self.definitions[*number as usize];
            kind != DefinitionKind::Accessor && (first..=last).contains(&line)
        };
        own.rev().find(has)
    }

    /// Determines the meaning of an occurrence of a symbol.
    fn meaning(&self, found: &FileOccurrence, symbol: SymbolNumber, definition: Option<u32>) -> Meaning {
        let entity = |facet| Meaning::Global(Entity { symbol, facet });
        if let Some(definition) = definition {
            return Meaning::Global(self.definitions[definition as usize].entity);
        }
        let facts = &self.symbols[symbol as usize].facts;
        let user = !PackageOwner::of(&found.symbol.package).is_locked() && !found.symbol.package.is_empty();
        match found.kind {
            OccurrenceKind::Keyword => Meaning::Nothing,
            OccurrenceKind::LocalVariable | OccurrenceKind::LocalFunction => {
                found.binding.map_or(Meaning::Nothing, Meaning::Local)
            }
            OccurrenceKind::Block => match found.binding {
                Some(binding) => Meaning::Local(binding),
                None if facts.function.is_some() => entity(Facet::Function),
                None => Meaning::Nothing,
            },
            OccurrenceKind::Macro | OccurrenceKind::SpecialOperator => entity(Facet::Macro),
            OccurrenceKind::Variable => entity(Facet::Variable),
            OccurrenceKind::Class | OccurrenceKind::Type => entity(Facet::Type),
            OccurrenceKind::Slot => entity(self.slot(symbol)),
            OccurrenceKind::Function => entity(self.function(found.access, symbol)),
            OccurrenceKind::Datum if user && found.use_type.is_some() => {
                principal(facts).map_or(Meaning::Nothing, entity)
            }
            OccurrenceKind::Datum => Meaning::Nothing,
        }
    }

    /// Returns the facet of a slot with this name. The class is `None` unless exactly one class of
    /// the project has such a slot.
    fn slot(&self, symbol: SymbolNumber) -> Facet {
        let mut classes = self.slots.get(&symbol).into_iter().flatten();
        match (classes.next(), classes.next()) {
            (Some(&class), None) => Facet::Slot(Some(class)),
            _ => Facet::Slot(None),
        }
    }

    /// Returns the facet of an operator. An assignment means `(setf NAME)` if the project defines
    /// that function, or if there is such a function but no function `NAME`.
    fn function(&self, access: PlaceAccess, symbol: SymbolNumber) -> Facet {
        let known = &self.symbols[symbol as usize];
        let own = known
            .definitions
            .iter()
            .any(|&number| self.definitions[number as usize].entity.facet == Facet::Setf);
        match access {
            PlaceAccess::Write if own || known.facts.function.is_none() && known.facts.setf.is_some() => {
                Facet::Setf
            }
            _ => match &known.facts.function {
                Some(function) if ["macro", "special-operator"].contains(&&*function.kind) => Facet::Macro,
                _ => Facet::Function,
            },
        }
    }

    /// Returns the facts about the class with this number, or `None` if the symbol names no class.
    pub(super) fn class(&self, class: SymbolNumber) -> Option<&ClassFacts> {
        self.symbols[class as usize].facts.class.as_ref()
    }
}

/// Returns the main facet of a symbol, for places that only name the symbol. Returns `None` if the
/// symbol has no facts.
pub(super) fn principal(facts: &SymbolFacts) -> Option<Facet> {
    match facts {
        SymbolFacts { function: Some(function), .. } => Some(match &*function.kind {
            "macro" | "special-operator" => Facet::Macro,
            _ => Facet::Function,
        }),
        SymbolFacts { class: Some(_), .. } | SymbolFacts { deftype: Some(_), .. } => Some(Facet::Type),
        SymbolFacts { variable: Some(_), .. } => Some(Facet::Variable),
        SymbolFacts { setf: Some(_), .. } => Some(Facet::Setf),
        _ => None,
    }
}
