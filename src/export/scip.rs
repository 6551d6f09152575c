//! Writes the project as a [SCIP](https://github.com/scip-code/scip) index, which code-search
//! engines read.
//!
//! The index is written as a stream: a message for the metadata, one for each file, and one for
//! each external symbol. Concatenated Protocol Buffers messages form a single index. Names, paths
//! and other texts for people are escaped; only a document's own text is not.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Write;
use std::path::Path;

use protobuf::{EnumOrUnknown, Message, MessageField, MessageFull};
use scip::symbol::format_symbol;
use scip::types::descriptor::Suffix;
use scip::types::symbol_information::Kind;
use scip::types::{
    Descriptor, Diagnostic as ScipDiagnostic, Document, Index, Metadata, Occurrence as ScipOccurrence,
    Package, PositionEncoding as ScipEncoding, Relationship, Severity as ScipSeverity, Signature, Symbol,
    SymbolInformation, SymbolRole, SyntaxKind, TextEncoding, ToolInfo,
};
use steelbank_reader::Range;
use steelbank_reader::lines::{LineColumn, LineIndex, PositionEncoding};
use steelbank_text::DefinitionKind;

use super::model::{Accessory, Entity, Facet, Meaning, Model, ModelToken, ReadFile, SymbolNumber};
use super::{ExportError, report};
use crate::Steelbank;
use crate::actions::symbols::facts::NamedFacts;
use crate::actions::uses::code_find_references::UseType;
use crate::actions::uses::occurrences::OccurrenceKind;
use crate::answer::designator::PrintedName;
use crate::answer::escape::{escaped, uri_path};
use crate::answer::name::readable;
use crate::answer::package_owner::PackageOwner;
use crate::engine::control::Control;
use crate::handle::loaded::{Diagnostic, Severity};
use crate::source::positions::PlaceAccess;
use crate::source::tap::roles::SyntaxRole;

/// The output format of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ScipFormat {
    /// Protocol Buffers, the format that code-search engines read.
    #[default]
    Protobuf,
    /// The messages as a single JSON object.
    Json,
}

/// The counts of written and omitted entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ScipSummary {
    /// The number of files.
    pub documents: usize,
    /// The number of occurrences, including those that only hold a diagnostic.
    pub occurrences: usize,
    /// The number of symbols that the files define, without local symbols.
    pub symbols: usize,
    /// The number of symbols from outside the project.
    pub external_symbols: usize,
    /// The number of diagnostics.
    pub diagnostics: usize,
    /// The number of omitted occurrences with an uncertain position or meaning.
    pub uncertain: usize,
    /// The number of uses that macros generate. They are omitted, because the symbol does not occur
    /// in the text.
    pub generated: usize,
    /// The number of files that have changed since they were loaded. Only package names in them
    /// have exact positions.
    pub stale: usize,
}

/// Writes an index of the project's loaded files to `out`. `diagnostics` are those of the project's
/// compilation, with absolute paths.
///
/// # Errors
/// No file is loaded, a file cannot be read, a question to Lisp failed, `out` cannot be written, or
/// `control` cancelled the export.
pub fn write_scip(
    bank: &Steelbank,
    format: ScipFormat,
    diagnostics: &[Diagnostic],
    out: &mut dyn Write,
    control: &Control,
) -> Result<ScipSummary, ExportError> {
    let context = bank.context();
    let model = Model::new(&context, control)?;
    let mut by_file: HashMap<&str, Vec<&Diagnostic>> = HashMap::new();
    for said in diagnostics {
        said.place.iter().for_each(|place| by_file.entry(&place.file).or_default().push(said));
    }
    let mut writer = ScipWriter {
        model,
        written: BTreeSet::new(),
        external: BTreeSet::new(),
        methods: HashMap::new(),
        names: HashMap::new(),
        summary: ScipSummary::default(),
    };
    let metadata = Metadata {
        tool_info: MessageField::some(ToolInfo {
            name: "steelbank".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..ToolInfo::default()
        }),
        project_root: file_url(&writer.model.root),
        text_document_encoding: EnumOrUnknown::new(TextEncoding::UTF8),
        ..Metadata::default()
    };
    let mut out = IndexStream { out, format, part: IndexPart::Metadata };
    out.write(IndexPart::Metadata, |index| index.metadata = MessageField::some(metadata))?;
    for file in 0..writer.model.files.len() as u32 {
        let total = writer.model.files.len();
        report(control, &writer.model.files[file as usize].shown, file as usize, total);
        let document = writer.document(file, &by_file)?;
        out.write(IndexPart::Documents, |index| index.documents.push(document))?;
    }
    for entity in std::mem::take(&mut writer.external) {
        let symbol = writer.symbol(entity);
        if writer.written.insert(symbol.clone()) {
            let information = writer.information(entity, symbol);
            writer.summary.external_symbols += 1;
            out.write(IndexPart::External, |index| index.external_symbols.push(information))?;
        }
    }
    out.end()?;
    Ok(writer.summary)
}

/// Returns the URL of a local folder.
fn file_url(path: &Path) -> String {
    format!("file://{}", uri_path(path.as_os_str().as_encoded_bytes()))
}

/// The part of an index that a message belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IndexPart {
    Metadata,
    Documents,
    External,
}

/// Writes an index, one message after the other.
struct IndexStream<'a> {
    out: &'a mut dyn Write,
    format: ScipFormat,
    part: IndexPart,
}

impl IndexStream<'_> {
    /// Writes a message of `part`, which `fill` adds to an empty index.
    fn write(&mut self, part: IndexPart, fill: impl FnOnce(&mut Index)) -> Result<(), ExportError> {
        let mut index = Index::new();
        fill(&mut index);
        let failed = ExportError::write("The index");
        let bytes = match self.format {
            ScipFormat::Protobuf => index.write_to_bytes().map_err(std::io::Error::from),
            ScipFormat::Json => self.json(part, &index),
        };
        bytes.and_then(|bytes| self.out.write_all(&bytes)).map_err(failed)
    }

    fn json(&mut self, part: IndexPart, index: &Index) -> std::io::Result<Vec<u8>> {
        let first = part != self.part;
        let before = match part {
            IndexPart::Metadata => "{\"metadata\":",
            IndexPart::Documents if first => ",\n\"documents\":[\n",
            IndexPart::External if first => "],\n\"externalSymbols\":[\n",
            IndexPart::Documents | IndexPart::External => ",\n",
        };
        self.part = part;
        let text = match part {
            IndexPart::Metadata => json(&*index.metadata),
            IndexPart::Documents => index.documents.iter().map(json).collect(),
            IndexPart::External => index.external_symbols.iter().map(json).collect(),
        };
        Ok(format!("{before}{}", text?).into_bytes())
    }

    fn end(&mut self) -> Result<(), ExportError> {
        let end = match (self.format, self.part) {
            (ScipFormat::Protobuf, _) => "",
            (ScipFormat::Json, IndexPart::Metadata) => "}\n",
            (ScipFormat::Json, _) => "\n]}\n",
        };
        let ended = self.out.write_all(end.as_bytes()).and_then(|()| self.out.flush());
        ended.map_err(ExportError::write("The index"))
    }
}

fn json(message: &impl MessageFull) -> std::io::Result<String> {
    let text = protobuf_json_mapping::print_to_string(message).map_err(std::io::Error::other)?;
    Ok(escaped(&text).into_owned())
}

struct ScipWriter<'a> {
    model: Model<'a>,
    /// The symbols for which information was already written.
    written: BTreeSet<String>,
    /// The external symbols that the project uses.
    external: BTreeSet<Entity>,
    /// The number of methods with each pair of name and disambiguator.
    methods: HashMap<String, u32>,
    names: HashMap<Entity, String>,
    summary: ScipSummary,
}

impl ScipWriter<'_> {
    fn document(
        &mut self,
        number: u32,
        diagnostics: &HashMap<&str, Vec<&Diagnostic>>,
    ) -> Result<Document, ExportError> {
        let read = self.model.read(number)?;
        let file = &self.model.files[number as usize];
        let is_test = file.is_test;
        let mut document = Document {
            language: "CommonLisp".to_owned(),
            relative_path: escaped(&file.shown).into_owned(),
            position_encoding: EnumOrUnknown::new(ScipEncoding::UTF8CodeUnitOffsetFromLineStart),
            ..Document::default()
        };
        let is_file = document.relative_path == file.shown
            && std::fs::read(&file.path).is_ok_and(|bytes| bytes == read.text.as_bytes());
        if !is_file {
            // The ranges count bytes of the decoded text, so readers need that text if it differs
            // from the file, or if the escaped path leads to no file.
            document.text.clone_from(&read.text);
        }
        let said = file.path.to_str().and_then(|path| diagnostics.get(path)).cloned().unwrap_or_default();
        self.summary.documents += 1;
        self.summary.generated += read.generated_uses.len();
        self.summary.stale += usize::from(read.changed);
        let mut locals: BTreeMap<Range, usize> = BTreeMap::new();
        let mut of_document: BTreeMap<String, SymbolInformation> = BTreeMap::new();
        for token in &read.tokens {
            let symbol = match token.meaning {
                _ if !token.exact => {
                    self.summary.uncertain += usize::from(token.meaning != Meaning::Nothing);
                    continue;
                }
                Meaning::Nothing => continue,
                Meaning::Local(binding) => {
                    let next = locals.len();
                    let symbol = format!("local {}", locals.entry(binding).or_insert(next));
                    of_document.entry(symbol.clone()).or_insert_with(|| self.local(token, &symbol));
                    symbol
                }
                Meaning::Global(entity)
                    if self.model.symbols[entity.symbol as usize].name.package.is_empty()
                        && entity.facet != Facet::Package =>
                {
                    continue;
                }
                Meaning::Global(entity) => {
                    let symbol = self.symbol(entity);
                    if token.defines && self.written.insert(symbol.clone()) {
                        of_document.insert(symbol.clone(), self.information(entity, symbol.clone()));
                        self.summary.symbols += 1;
                    } else if !self.is_own(entity) {
                        self.external.insert(entity);
                    }
                    symbol
                }
            };
            let enclosing = token.definition.map(|number| self.form_of(number, &read));
            let generated = token.definition.is_some_and(|number| {
                self.model.definitions[number as usize].kind == DefinitionKind::Definition
            });
            let roles = [
                (token.defines, SymbolRole::Definition),
                (token.use_type == Some(UseType::Import), SymbolRole::Import),
                (is_write(token), SymbolRole::WriteAccess),
                (is_read(token), SymbolRole::ReadAccess),
                (generated, SymbolRole::Generated),
                (is_test, SymbolRole::Test),
            ];
            document.occurrences.push(ScipOccurrence {
                range: scip_range(&read.lines, token.name_range),
                symbol,
                symbol_roles: roles.iter().filter(|(has, _)| *has).map(|(_, role)| *role as i32).sum(),
                syntax_kind: EnumOrUnknown::new(syntax_kind(token.kind)),
                enclosing_range: enclosing.map(|form| scip_range(&read.lines, form)).unwrap_or_default(),
                ..ScipOccurrence::default()
            });
        }
        for said in said {
            self.diagnose(&mut document, said, &read);
        }
        // Functions generated by a class definition occur nowhere in the text: add their
        // information to the document of the class.
        let own: Vec<SymbolNumber> = self.model.files[number as usize]
            .definitions
            .clone()
            .map(|number| self.model.definitions[number as usize].entity)
            .filter(|entity| entity.facet == Facet::Type)
            .map(|entity| entity.symbol)
            .collect();
        let made: Vec<SymbolNumber> = self
            .model
            .accessories
            .iter()
            .filter(|(_, accessory)| match accessory {
                Accessory::Accessor(class, _) | Accessory::Generated(class) => own.contains(class),
            })
            .map(|(symbol, _)| *symbol)
            .collect();
        for symbol in made {
            let entity = Entity { symbol, facet: Facet::Function };
            let text = self.symbol(entity);
            if self.written.insert(text.clone()) {
                of_document.insert(text.clone(), self.information(entity, text));
                self.summary.symbols += 1;
            }
        }
        document.occurrences.sort_by(|left, right| left.range.cmp(&right.range));
        document.symbols = of_document.into_values().collect();
        self.summary.occurrences += document.occurrences.len();
        Ok(document)
    }

    /// Adds a diagnostic to the occurrence at its start, or to a new occurrence without a symbol.
    /// Omits a diagnostic without a line, or with a position outside the text.
    fn diagnose(&mut self, document: &mut Document, said: &Diagnostic, read: &ReadFile) {
        let place = said.place.as_ref();
        let Some((line, column)) = place.and_then(|place| Some((place.line?, place.column.unwrap_or(1))))
        else {
            return;
        };
        let offset = |line, column| {
            let at = LineColumn { line, column };
            read.lines.offset(read.text.as_bytes(), at, PositionEncoding::Characters)
        };
        let Some(start) = offset(line, column) else { return };
        let end = said.end_line.zip(said.end_column).and_then(|(line, column)| offset(line, column));
        let range = Range::new(start, end.unwrap_or(start).max(start));
        let diagnostic = ScipDiagnostic {
            severity: EnumOrUnknown::new(match said.severity {
                Severity::ReadError | Severity::Error => ScipSeverity::Error,
                Severity::Warning => ScipSeverity::Warning,
                Severity::StyleWarning => ScipSeverity::Information,
                Severity::Note => ScipSeverity::Hint,
            }),
            code: said.severity.name().to_owned(),
            message: escaped(&said.message).into_owned(),
            source: "sbcl".to_owned(),
            ..ScipDiagnostic::default()
        };
        let wanted = scip_range(&read.lines, range);
        self.summary.diagnostics += 1;
        match document.occurrences.iter_mut().find(|found| found.range[..2] == wanted[..2]) {
            Some(found) => found.diagnostics.push(diagnostic),
            None => document.occurrences.push(ScipOccurrence {
                range: wanted,
                diagnostics: vec![diagnostic],
                ..ScipOccurrence::default()
            }),
        }
    }

    /// Returns the form of a definition, or the definition's lines if it is inside another form.
    fn form_of(&self, number: u32, read: &ReadFile) -> Range {
        let (first, last) = self.model.definitions[number as usize].lines;
        let form = read.forms.iter().find(|form| read.lines.line(form.start) == first);
        form.copied().unwrap_or_else(|| {
            let last = read.lines.start(last) + read.lines.bytes(read.text.as_bytes(), last).len() as u32;
            Range::new(read.lines.start(first), last)
        })
    }

    /// Returns whether the project defines the entity.
    fn is_own(&self, entity: Entity) -> bool {
        let symbol = &self.model.symbols[entity.symbol as usize];
        let defined = |&number: &u32| self.model.definitions[number as usize].entity.facet == entity.facet;
        matches!(entity.facet, Facet::Slot(Some(_)) | Facet::Method(_))
            || symbol.definitions.iter().any(defined)
            || entity.facet == Facet::Function && self.model.accessories.contains_key(&entity.symbol)
    }

    fn local(&self, token: &ModelToken, symbol: &str) -> SymbolInformation {
        let kind = match token.kind {
            OccurrenceKind::LocalFunction => Kind::Function,
            OccurrenceKind::Block => Kind::UnspecifiedKind,
            _ => Kind::Variable,
        };
        SymbolInformation {
            symbol: symbol.to_owned(),
            kind: EnumOrUnknown::new(kind),
            display_name: self.name(token.symbol),
            ..SymbolInformation::default()
        }
    }

    fn name(&self, symbol: SymbolNumber) -> String {
        escaped(&readable(&self.model.symbols[symbol as usize].name.name)).into_owned()
    }

    /// Returns the SCIP symbol of an entity.
    fn symbol(&mut self, entity: Entity) -> String {
        if let Some(known) = self.names.get(&entity) {
            return known.clone();
        }
        let symbol = &self.model.symbols[entity.symbol as usize];
        let own = self.name(entity.symbol);
        let mut package = match entity.facet {
            Facet::Package => &symbol.name.name,
            _ => &symbol.name.package,
        };
        let mut descriptors = Vec::new();
        match entity.facet {
            Facet::Package => (),
            Facet::Function => descriptors.push(descriptor(&own, Suffix::Method)),
            Facet::Setf => descriptors.push(descriptor(&format!("(setf {own})"), Suffix::Method)),
            Facet::CompilerMacro => {
                descriptors.push(descriptor(&format!("(compiler-macro {own})"), Suffix::Method));
            }
            Facet::Macro => descriptors.push(descriptor(&own, Suffix::Macro)),
            Facet::Variable => descriptors.push(descriptor(&own, Suffix::Term)),
            Facet::Type => descriptors.push(descriptor(&own, Suffix::Type)),
            Facet::Slot(None) => descriptors.push(descriptor(&format!("(slot {own})"), Suffix::Meta)),
            Facet::Other => descriptors.push(descriptor(&own, Suffix::Meta)),
            Facet::Slot(Some(class)) => {
                let class = &self.model.symbols[class as usize];
                let slot = match class.name.package == symbol.name.package {
                    true => own,
                    false => format!("{}::{own}", readable(&symbol.name.package)),
                };
                package = &class.name.package;
                descriptors.push(descriptor(&readable(&class.name.name), Suffix::Type));
                descriptors.push(descriptor(&slot, Suffix::Term));
            }
            Facet::Method(_) => {
                let label = self.method_label(entity);
                let mut method = descriptor(&own, Suffix::Method);
                let simple = |letter: char| match letter.is_ascii_alphanumeric() || letter == '-' {
                    true => letter,
                    false => '_',
                };
                let parts = label.split([' ', '(', ')', ':']).filter(|part| !part.is_empty());
                let parts = parts.map(|part| part.chars().map(simple).collect::<String>());
                method.disambiguator = parts.collect::<Vec<_>>().join("+");
                let same =
                    self.methods.entry(format!("{package}/{own} {}", method.disambiguator)).or_default();
                *same += 1;
                if *same > 1 {
                    method.disambiguator.push_str(&format!("+{same}"));
                }
                descriptors.push(method);
            }
        }
        descriptors.insert(0, descriptor(package, Suffix::Namespace));
        let text = format_symbol(Symbol {
            scheme: "steelbank".to_owned(),
            package: MessageField::some(self.owner(package)),
            descriptors,
            ..Symbol::default()
        });
        let text = escaped(&text).into_owned();
        self.names.insert(entity, text.clone());
        text
    }

    /// Returns the qualifiers and classes of a method, such as `:around (integer)`.
    fn method_label(&self, entity: Entity) -> String {
        let same = |definition: &&u32| self.model.definitions[**definition as usize].entity == entity;
        let found = self.model.symbols[entity.symbol as usize].definitions.iter().find(same);
        let label = found.map(|&number| &*self.model.definitions[number as usize].label).unwrap_or_default();
        PrintedName::parse(label).rest.join(" ")
    }

    /// Returns the SCIP package of a Lisp package: the system that it belongs to, or SBCL. The
    /// package's name is empty if neither is known.
    fn owner(&self, package: &str) -> Package {
        let system = self.model.packages.get(package).and_then(|package| package.system.as_deref());
        let owner = PackageOwner::of(package);
        let (manager, name, version) = match system {
            Some(system) => {
                let version = self.model.loaded.get(system).and_then(|system| system.version.as_deref());
                ("asdf", system, version.unwrap_or_default())
            }
            None if owner != PackageOwner::User => ("asdf", "sbcl", &*self.model.lisp),
            None => ("asdf", "", ""),
        };
        Package {
            manager: manager.to_owned(),
            // In SCIP symbols, spaces in these fields are doubled. The crate that formats symbols
            // does not double them.
            name: name.replace(' ', "  "),
            version: version.replace(' ', "  "),
            ..Package::default()
        }
    }

    /// Returns the SCIP information about an entity.
    fn information(&mut self, entity: Entity, symbol: String) -> SymbolInformation {
        let known = &self.model.symbols[entity.symbol as usize];
        let name = self.name(entity.symbol);
        let facts = &known.facts;
        let operator = |word: &str, name: &str, facts: &NamedFacts| {
            let rest = facts.arglist.as_deref().map(|list| match list {
                "()" => String::new(),
                list => format!(" {}", list.to_lowercase()),
            });
            format!("({word} {name}{})", rest.unwrap_or_default())
        };
        let (kind, signature, documentation) = match (entity.facet, facts) {
            (Facet::Package, _) => (
                Kind::Package,
                format!("(defpackage {name})"),
                self.model.packages.get(&known.name.name).and_then(|package| package.documentation.clone()),
            ),
            (Facet::Function | Facet::Macro, facts) if facts.function.is_some() => {
                let function = facts.function.clone().unwrap_or_default();
                let (kind, word) = match &*function.kind {
                    "macro" => (Kind::Macro, "defmacro"),
                    "special-operator" => (Kind::Macro, "special-operator"),
                    "generic-function" => (Kind::ProtocolMethod, "defgeneric"),
                    _ => (Kind::Function, "defun"),
                };
                let kind = match self.model.accessories.get(&entity.symbol) {
                    Some(Accessory::Accessor(..)) => Kind::Accessor,
                    _ => kind,
                };
                (kind, operator(word, &name, &function), function.documentation)
            }
            (Facet::Setf, facts) => {
                let setf = facts.setf.clone().unwrap_or_default();
                (Kind::Setter, operator("defun", &format!("(setf {name})"), &setf), setf.documentation)
            }
            (Facet::Variable, facts) => {
                let variable = facts.variable.clone().unwrap_or_default();
                let (kind, word) = match &*variable.kind {
                    "constant" => (Kind::Constant, "defconstant"),
                    "symbol-macro" => (Kind::Variable, "define-symbol-macro"),
                    _ => (Kind::Variable, "defvar"),
                };
                (kind, format!("({word} {name})"), variable.documentation)
            }
            (Facet::Type, facts) => match (&facts.class, &facts.deftype) {
                (Some(class), _) => {
                    let (kind, word) = match &*class.kind {
                        "structure" => (Kind::Struct, "defstruct"),
                        "condition" => (Kind::Error, "define-condition"),
                        _ => (Kind::Class, "defclass"),
                    };
                    let told = class.superclasses.iter().map(|class| readable(&class.name));
                    let above: Vec<String> = told
                        .filter(|name| !["standard-object", "structure-object"].contains(&&**name))
                        .collect();
                    let text = format!("({word} {name} ({}))", above.join(" "));
                    (kind, text, class.documentation.clone())
                }
                (None, deftype) => {
                    let deftype = deftype.clone().unwrap_or_default();
                    (Kind::TypeAlias, operator("deftype", &name, &deftype), deftype.documentation)
                }
            },
            (Facet::Slot(class), _) => {
                let slot = class.and_then(|class| {
                    let slots = self.model.class(class)?.slots.iter();
                    slots.clone().find(|slot| slot.name == known.name)
                });
                let of_type = slot.and_then(|slot| slot.slot_type.as_deref());
                let of_type = of_type.map(|of_type| format!(" :type {}", of_type.to_lowercase()));
                let text = format!("({name}{})", of_type.unwrap_or_default());
                (Kind::Field, text, slot.and_then(|slot| slot.documentation.clone()))
            }
            (Facet::Method(_), _) => {
                (Kind::Method, format!("(defmethod {name} {})", self.method_label(entity)), None)
            }
            (Facet::CompilerMacro, _) => (Kind::Macro, format!("(define-compiler-macro {name})"), None),
            _ => (Kind::UnspecifiedKind, String::new(), None),
        };
        let text = escaped(&signature).into_owned();
        let signature = Signature { language: "CommonLisp".to_owned(), text, ..Signature::default() };
        SymbolInformation {
            symbol,
            documentation: documentation.iter().map(|text| escaped(text).into_owned()).collect(),
            relationships: self.relationships(entity),
            kind: EnumOrUnknown::new(kind),
            display_name: if entity.facet == Facet::Setf { format!("(setf {name})") } else { name },
            signature_documentation: match signature.text.is_empty() {
                true => MessageField::none(),
                false => MessageField::some(signature),
            },
            ..SymbolInformation::default()
        }
    }

    fn relationships(&mut self, entity: Entity) -> Vec<Relationship> {
        let Entity { symbol, facet } = entity;
        let with = |symbol| Relationship { symbol, ..Relationship::default() };
        let mut relations = Vec::new();
        match facet {
            Facet::Method(_) => {
                let generic = self.symbol(Entity { symbol, facet: Facet::Function });
                relations.push(Relationship { is_implementation: true, is_reference: true, ..with(generic) });
            }
            Facet::Setf | Facet::CompilerMacro => {
                let plain = &self.model.symbols[symbol as usize].facts.function;
                if plain.is_some() {
                    let plain = self.symbol(Entity { symbol, facet: Facet::Function });
                    relations.push(Relationship { is_reference: true, ..with(plain) });
                }
            }
            Facet::Slot(Some(_))
                if self.model.slots.get(&symbol).is_some_and(|classes| classes.len() > 1) =>
            {
                let any = self.symbol(Entity { symbol, facet: Facet::Slot(None) });
                relations.push(Relationship { is_reference: true, ..with(any) });
            }
            Facet::Type => {
                let above = self.model.class(symbol).map(|class| class.superclasses.clone());
                for name in above.unwrap_or_default() {
                    let standard = PackageOwner::of(&name.package).is_locked();
                    if let Some(above) = self.model.find_symbol(&name).filter(|_| !standard) {
                        let above = self.symbol(Entity { symbol: above, facet: Facet::Type });
                        relations.push(Relationship { is_implementation: true, ..with(above) });
                    }
                }
            }
            Facet::Function => match self.model.accessories.get(&symbol).copied() {
                Some(Accessory::Accessor(class, slot)) => {
                    let is_generated = self.model.symbols[symbol as usize].definitions.is_empty();
                    let known = self.model.class(class).and_then(|class| class.slots.get(slot));
                    let name = known.map(|slot| slot.name.clone());
                    if let Some(slot) = name.and_then(|name| self.model.find_symbol(&name)) {
                        let slot = self.symbol(Entity { symbol: slot, facet: Facet::Slot(Some(class)) });
                        let structure =
                            self.model.class(class).is_some_and(|class| class.kind == "structure");
                        let relation = Relationship {
                            is_reference: true,
                            is_definition: structure && is_generated,
                            ..with(slot)
                        };
                        relations.push(relation);
                    }
                }
                Some(Accessory::Generated(class)) => {
                    let class = self.symbol(Entity { symbol: class, facet: Facet::Type });
                    relations.push(Relationship { is_definition: true, ..with(class) });
                }
                None => (),
            },
            _ => (),
        }
        relations
    }
}

fn descriptor(name: &str, suffix: Suffix) -> Descriptor {
    Descriptor { name: name.to_owned(), suffix: EnumOrUnknown::new(suffix), ..Descriptor::default() }
}

fn is_write(token: &ModelToken) -> bool {
    token.access != PlaceAccess::Read && !(token.defines && matches!(token.meaning, Meaning::Global(_)))
        || matches!(token.use_type, Some(UseType::Set | UseType::Bind))
}

fn is_read(token: &ModelToken) -> bool {
    if token.defines || token.access == PlaceAccess::Write {
        return false;
    }
    let is_local = matches!(token.meaning, Meaning::Local(_)) && token.kind != OccurrenceKind::Block;
    is_local
        || token.kind == OccurrenceKind::Slot && token.role != SyntaxRole::Definition
        || matches!(
            token.use_type,
            Some(UseType::Call | UseType::Macro | UseType::Reference | UseType::Function)
        )
}

/// Converts a range to SCIP's form: lines and bytes from 0, with the last line only if it differs
/// from the first.
fn scip_range(lines: &LineIndex, range: Range) -> Vec<i32> {
    let place = |offset: u32| {
        let line = lines.line(offset);
        ((line - 1) as i32, (offset - lines.start(line)) as i32)
    };
    let (start, end) = (place(range.start), place(range.end));
    match start.0 == end.0 {
        true => vec![start.0, start.1, end.1],
        false => vec![start.0, start.1, end.0, end.1],
    }
}

fn syntax_kind(kind: OccurrenceKind) -> SyntaxKind {
    match kind {
        OccurrenceKind::Function | OccurrenceKind::LocalFunction => SyntaxKind::IdentifierFunction,
        OccurrenceKind::Macro => SyntaxKind::IdentifierMacroDefinition,
        OccurrenceKind::SpecialOperator => SyntaxKind::Keyword,
        OccurrenceKind::Variable => SyntaxKind::IdentifierMutableGlobal,
        OccurrenceKind::Class | OccurrenceKind::Type => SyntaxKind::IdentifierType,
        OccurrenceKind::Slot => SyntaxKind::IdentifierAttribute,
        OccurrenceKind::LocalVariable => SyntaxKind::IdentifierLocal,
        _ => SyntaxKind::Identifier,
    }
}
