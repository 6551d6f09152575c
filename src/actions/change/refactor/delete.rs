//! Plans the deletion of a definition: its forms with the comments directly above them, its exports
//! and imports, and its `inline` and `ftype` declamations. Any other use prevents the deletion.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use steelbank_reader::edit::{self, DefinitionForm, EditAction};
use steelbank_reader::lines::LineIndex;
use steelbank_reader::{Datum, Dialect, FormId, LispText, Marker, Range};

use super::{DeleteRequest, Operation, RefactorPlan};
use crate::actions::change::rename::{FileEdits, RenameEdit};
use crate::actions::symbols::find_definition::FindDefinitionRequest;
use crate::actions::uses::code_find_references::{CodeFindReferencesRequest, UseType, found};
use crate::actions::uses::occurrences::OccurrencesRequest;
use crate::actions::uses::symbol_uses::SymbolUses;
use crate::answer::package_owner::PackageOwner;
use crate::answer::{LispKind, LispName, Location, OtherText, counted};
use crate::engine::Control;
use crate::handle::question::Question;
use crate::handle::{Error, QueryContext};
use crate::source::positions::Evidence;
use crate::workspace::{TreeView, version};

/// Plans the deletion.
pub(super) fn plan(
    request: &DeleteRequest,
    context: &QueryContext<'_>,
    control: &Control,
) -> Result<RefactorPlan, Error> {
    let view = context.project.tree_view();
    let mut deletion = Deletion { context, control, view: &view, names: Vec::new(), files: BTreeMap::new() };
    let (context, lookup) = context.resolve(&request.name, request.package.as_deref())?;
    let symbol = found(&context.index, context.project, &lookup)?;
    let uses = SymbolUses::new(&context.index, symbol, lookup.function_name);
    let mut conflicts = deletion.add(uses.name())?;
    while conflicts.is_empty() && request.unreferenced {
        let more = deletion.unreferenced()?;
        if more.is_empty() {
            break;
        }
        for name in more {
            conflicts.extend(deletion.add(name)?);
        }
    }
    if conflicts.is_empty() {
        conflicts = deletion.uses_left()?;
    }
    let names: Vec<&str> = deletion.names.iter().map(LispName::as_str).collect();
    let mut plan = RefactorPlan {
        conflicts,
        ..RefactorPlan::new(Operation::Delete, format!("deletion of {}", names.join(", ")))
    };
    if plan.conflicts.is_empty() {
        deletion.edits(&mut plan);
    }
    Ok(plan)
}

/// A file with definitions to delete.
struct EditedFile {
    path: PathBuf,
    bytes: Vec<u8>,
    read: LispText,
    definitions: Vec<DefinitionForm>,
    /// The definitions and declamations to delete, by their start.
    forms: BTreeMap<u32, DefinitionForm>,
    /// Exports and imports to delete.
    clauses: BTreeSet<(u32, u32)>,
}

impl EditedFile {
    /// Returns the definition at top level around `range`.
    fn definition_around(&self, range: Range) -> Option<&DefinitionForm> {
        self.definitions.iter().find(|form| form.span.encloses(range))
    }

    /// Whether `place` is in text to delete.
    fn has(&self, place: &Location) -> bool {
        let start = place.range.map_or(0, |range| range.start);
        self.forms.values().any(|form| place.range.is_some() && form.span.contains(start))
            || self.clauses.iter().any(|(_, end)| place.range.is_some_and(|range| range.end == *end))
    }
}

struct Deletion<'a> {
    context: &'a QueryContext<'a>,
    control: &'a Control,
    view: &'a TreeView,
    /// The names to delete, in the order in which they were found.
    names: Vec<LispName>,
    /// The edited files, by the path in answers.
    files: BTreeMap<String, EditedFile>,
}

impl Deletion<'_> {
    /// Returns the file shown as `path`. `None` if it cannot be edited.
    fn file(&mut self, shown: &str) -> Option<&mut EditedFile> {
        if !self.files.contains_key(shown) {
            let path = self.context.project.real(shown);
            let bytes = steelbank_tree::read_source(&path).ok().filter(|_| self.view.contains(&path))?;
            std::str::from_utf8(&bytes).ok()?;
            let read = LispText::read(&bytes, Dialect::CommonLisp, &crate::source::features());
            let definitions = edit::definitions(&bytes);
            let (forms, clauses) = (BTreeMap::new(), BTreeSet::new());
            self.files
                .insert(shown.to_owned(), EditedFile { path, bytes, read, definitions, forms, clauses });
        }
        self.files.get_mut(shown)
    }

    /// Adds the forms that define `name`, and its exports, imports and declamations. Returns the
    /// reasons why they cannot be deleted.
    fn add(&mut self, name: LispName) -> Result<Vec<String>, Error> {
        let found = FindDefinitionRequest::new(name.canonical()).answer(self.context, self.control)?;
        let mut conflicts = Vec::new();
        let definitions = found.definitions.iter().filter(|found| found.kind != LispKind::Declaration);
        let mut count = 0;
        for definition in definitions {
            count += 1;
            let place = &definition.place;
            let exact = definition.evidence == Evidence::Exact && !definition.stale && !definition.not_loaded;
            let form = place.range.filter(|_| exact).and_then(|range| {
                let file = self.file(&place.file)?;
                let mut form = file.definition_around(range)?.clone();
                form.guard_start = comment_above(&file.bytes, form.guard_start);
                file.forms.insert(form.span.start, form);
                Some(())
            });
            if form.is_none() {
                conflicts.push(format!(
                    "{name} cannot be deleted: its definition at {place} is outside of the project, is generated by another form, or has \
                     changed since it was loaded."
                ));
            }
        }
        if count == 0 {
            conflicts.push(format!("{name} has no definition that can be deleted."));
        }
        for (place, use_type) in self.places(&name)? {
            if let Some(range) = place.range
                && use_type.is_some_and(UseType::is_declaration)
                && let Some(file) = self.file(&place.file)
            {
                file.declaration(range);
            }
        }
        self.names.push(name);
        Ok(conflicts)
    }

    /// Returns the places of `name` in the project's code, each with the kind of use if the
    /// compiler read it. A place without a range is not known exactly.
    fn places(&self, name: &LispName) -> Result<Vec<(Location, Option<UseType>)>, Error> {
        let request = CodeFindReferencesRequest {
            limit: usize::MAX,
            ..CodeFindReferencesRequest::new(name.canonical())
        };
        let found = request.answer(self.context, self.control)?;
        let mut places = Vec::new();
        for entry in &found.refs {
            let declares = entry.uses.iter().all(|used| used.use_type.is_declaration());
            let use_type = if declares { entry.use_type } else { UseType::Mention };
            let tokens = entry.tokens.iter().chain(&entry.approximate);
            let before = places.len();
            places.extend(tokens.map(|place| (place.clone(), Some(use_type))));
            if places.len() == before {
                places.push((entry.place.clone(), Some(use_type)));
            }
        }
        let text = found.text.iter().flat_map(|found| &found.tokens);
        places.extend(text.map(|place| (place.clone(), None)));
        Ok(places)
    }

    /// Returns the reasons why names are still used: in code, or in other text.
    fn uses_left(&self) -> Result<Vec<String>, Error> {
        let mut conflicts = Vec::new();
        for name in &self.names {
            let mut left: Vec<Location> = self.places(name)?.into_iter().map(|(place, _)| place).collect();
            left.retain(|place| !self.files.get(&place.file).is_some_and(|file| file.has(place)));
            left.sort();
            if let Some(first) = left.first() {
                let uses = counted(left.len(), "use", "uses");
                conflicts.push(format!("{name} has {uses} left. The first is at {first}."));
                continue;
            }
            let (context, lookup) = self.context.resolve(name.canonical(), None)?;
            let Ok(symbol) = found(&context.index, context.project, &lookup) else { continue };
            let uses = SymbolUses::new(&context.index, symbol, lookup.function_name);
            let words = uses.words(context.project, self.view).unwrap_or_default();
            if !words.is_empty() {
                let listed = OtherText::new(&words);
                conflicts.push(format!("Other text names {name}: {}", listed.listed()));
            }
        }
        Ok(conflicts)
    }

    /// Returns the definitions of the project that only the forms to delete use.
    fn unreferenced(&mut self) -> Result<Vec<LispName>, Error> {
        let mut candidates = BTreeSet::new();
        for (shown, file) in &self.files {
            if file.forms.is_empty() {
                continue;
            }
            let found = OccurrencesRequest::new(shown.as_str()).answer(self.context, self.control)?;
            for occurrence in found.occurrences {
                let inside = file.forms.values().any(|form| form.span.encloses(occurrence.range));
                let owner = PackageOwner::of(&occurrence.symbol.package);
                if inside && occurrence.binding.is_none() && owner == PackageOwner::User {
                    candidates.insert((occurrence.symbol.package.clone(), occurrence.symbol.name.clone()));
                }
            }
        }
        let (context, view) = (self.context, self.view);
        let mut found = Vec::new();
        for (package, name) in candidates {
            self.control.check()?;
            let name = LispName::new(&context.index, crate::answer::name::canonical(&package, &name));
            if self.names.contains(&name) {
                continue;
            }
            let request = FindDefinitionRequest::new(name.canonical());
            let Ok(defined) = request.answer(self.context, self.control) else { continue };
            let own = |place: &Location| view.contains(&context.project.real(&place.file));
            if defined.definitions.is_empty() || !defined.definitions.iter().all(|found| own(&found.place)) {
                continue;
            }
            let places = self.places(&name)?;
            let mut own_forms = Vec::new();
            for place in defined.definitions.iter().map(|found| &found.place) {
                let file = self.file(&place.file);
                let form = file.and_then(|file| file.definition_around(place.range?));
                own_forms.extend(form.map(|form| (place.file.clone(), form.span)));
            }
            let is_gone = |place: &Location| {
                self.files.get(&place.file).is_some_and(|file| file.has(place))
                    || own_forms.iter().any(|(file, span)| {
                        *file == place.file && place.range.is_some_and(|range| span.encloses(range))
                    })
            };
            if places.iter().all(|(place, _)| is_gone(place)) {
                found.push(name);
            }
        }
        Ok(found)
    }

    /// Adds the edits to `plan`.
    fn edits(&self, plan: &mut RefactorPlan) {
        for (shown, file) in &self.files {
            let lines = LineIndex::new(&file.bytes);
            let mut spans: Vec<Range> = Vec::new();
            for form in file.forms.values() {
                match edit::edit(&file.bytes, form, EditAction::Delete, "") {
                    Ok(edit) => spans.push(edit.span),
                    Err(why) => plan.conflicts.push(format!("{shown}: {why}")),
                }
            }
            spans.extend(file.clauses.iter().map(|(start, end)| Range::new(*start, *end)));
            spans.sort_by_key(|span| span.start);
            let mut edits: Vec<RenameEdit> = Vec::new();
            for span in spans {
                let start = edits.last().map_or(span.start, |last| last.range.end.max(span.start));
                if start >= span.end {
                    continue;
                }
                let range = Range::new(start, span.end);
                let old = String::from_utf8_lossy(&file.bytes[range.indices()]).into_owned();
                let place = Location::in_text(shown.as_str(), &lines, &file.bytes, range);
                edits.push(RenameEdit { range, place, old, new: String::new() });
            }
            if !edits.is_empty() {
                plan.edits += edits.len();
                let (path, hash) = (self.context.project.shown(&file.path), version(&file.bytes));
                plan.files.push(FileEdits { path, other: false, hash, edits });
            }
        }
    }
}

impl EditedFile {
    /// Deletes the export, import or declamation at `range`, if the form around it is one that can
    /// lose it.
    fn declaration(&mut self, range: Range) {
        let Some(id) = self.form_around(range) else { return };
        let parent = |id: FormId| self.read.form(id).and_then(|form| form.parent);
        let head = |id: FormId| self.read.form(id).and_then(|form| self.read.head(form));
        let is_named = |id: FormId, names: &[&str]| {
            head(id).is_some_and(|head| names.iter().any(|name| head.is_named(&self.bytes, name)))
        };
        let is_clause = is_named(id, &["EXPORT", "IMPORT-FROM", "SHADOWING-IMPORT-FROM"])
            && head(id).is_some_and(|head| head.marker == Marker::Keyword);
        if is_clause {
            let before = &self.bytes[..range.start as usize];
            let start = before.trim_ascii_end().len() as u32;
            self.clauses.insert((start, range.end));
            return;
        }
        let elements = |id: FormId| self.read.elements(id).count();
        let alone = (is_named(id, &["INLINE", "NOTINLINE"]) && elements(id) == 2)
            || (is_named(id, &["FTYPE"]) && elements(id) == 3);
        if let Some(outer) = parent(id).filter(|outer| {
            alone && is_named(*outer, &["DECLAIM"]) && elements(*outer) == 2 && parent(*outer).is_none()
        }) {
            let span = self.read.span(Datum::Form(outer));
            let form = DefinitionForm { span, guard_start: span.start, label: String::new(), package: None };
            self.forms.insert(span.start, form);
        }
    }

    /// Returns the innermost form around a token.
    fn form_around(&self, range: Range) -> Option<FormId> {
        self.read.token_at(range.start)?.form
    }
}

/// Returns the start of the comment lines directly above the form at `start`, unless the comment is
/// a heading: its first line begins with three semicolons.
fn comment_above(bytes: &[u8], start: u32) -> u32 {
    let above = edit::start_with_comment(bytes, start);
    let is_heading =
        bytes.get(above as usize..).is_some_and(|text| text.trim_ascii_start().starts_with(b";;;"));
    if is_heading { start } else { above }
}
