//! Navigation: hover, definitions, references, highlights and semantic tokens.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use steelbank_reader::{Dialect, Features, LispText, Range, TokenKind};
use steelbank_xref::SymbolName;

use super::convert::{self, Answered, RequestRefusal};
use super::server::Server;
use super::view::{Place, ShownText, defines};
use crate::actions::symbols::describe_symbol::DescribeSymbolRequest;
use crate::actions::symbols::describe_symbol::text::headed;
use crate::actions::symbols::find_definition::FindDefinitionRequest;
use crate::actions::uses::code_find_references::CodeFindReferencesRequest;
use crate::actions::uses::occurrences::FileOccurrence;
use crate::actions::uses::text_places::NamedPlace;
use crate::answer::name::barred;
use crate::answer::{LispKind, LispName};
use crate::engine::control::Control;
use crate::handle::Error;
use crate::source::positions::PlaceAccess;

/// The maximum number of definitions that describe a symbol of unloaded text.
const MAX_HOVER_DEFINITIONS: usize = 10;

/// Returns the request for the description of a symbol.
pub(super) fn describe(symbol: &SymbolName) -> DescribeSymbolRequest {
    DescribeSymbolRequest::new(barred(&symbol.name)).package(&*symbol.package)
}

impl Server {
    /// Returns the occurrence at the position of a request.
    pub(super) fn occurrence(
        &self,
        params: &Value,
        control: &Control,
    ) -> Result<Option<FileOccurrence>, RequestRefusal> {
        let (document, at) = self.at(params)?;
        Ok(self.view(&document, control)?.at(at).cloned())
    }

    pub(super) fn hover(&self, params: &Value, control: &Control) -> Answered {
        let Some(found) = self.occurrence(params, control)? else { return Ok(Value::Null) };
        let document = self.document_of(params)?;
        let range = document.range(found.range, self.encoding());
        let text = match found.binding {
            Some(binding) => {
                let lines = &document.lines;
                let line = lines.line(binding.start);
                let text = String::from_utf8_lossy(lines.bytes(document.text.as_bytes(), line)).into_owned();
                format!("local, bound in line {line}:\n{}", text.trim())
            }
            None => {
                let answer = self.bank()?.ask(&describe(&found.symbol), &self.optional(control));
                match answer {
                    Ok(answer) if answer.description.is_some() => headed(&answer, LispName::as_str),
                    _ if self.is_loading() => self.described_in_text(&found.symbol, control)?,
                    answer => {
                        answer?;
                        return Ok(Value::Null);
                    }
                }
            }
        };
        let contents = json!({ "kind": "markdown", "value": format!("```lisp\n{}\n```", text.trim_end()) });
        Ok(json!({ "contents": contents, "range": range }))
    }

    /// Describes a symbol of unloaded text by the lines that define it.
    fn described_in_text(&self, symbol: &SymbolName, control: &Control) -> Result<String, RequestRefusal> {
        let mut lines = vec![format!("{} is not loaded yet", symbol.name.to_lowercase())];
        let defines = self.text_places(symbol, control)?.into_iter().filter(|place| place.defines);
        for NamedPlace { path, range, .. } in defines.take(MAX_HOVER_DEFINITIONS) {
            let Some(ShownText { text, lines: of }) = self.file_text(&path) else { continue };
            let line = of.line(range.start);
            let (path, text) = (self.bank()?.project().shown(&path), of.bytes(text.as_bytes(), line));
            lines.push(format!("{path}:{line}: {}", String::from_utf8_lossy(text).trim()));
        }
        Ok(lines.join("\n"))
    }

    /// Returns the places where a symbol is defined. With `methods`, returns only its methods, if
    /// there are any.
    pub(super) fn defined(
        &self,
        symbol: &SymbolName,
        methods: bool,
        control: &Control,
    ) -> Result<Vec<Place>, RequestRefusal> {
        let request = FindDefinitionRequest::new(barred(&symbol.name)).package(&*symbol.package);
        let known = self.bank()?.ask(&request, &self.optional(control));
        let known = known.map(|answer| answer.definitions).unwrap_or_default();
        control.check().map_err(Error::from)?;
        let mut text = self.text_places(symbol, control)?;
        text.retain(|place| place.defines);
        let any = methods
            && (known.iter().any(|found| found.kind == LispKind::Method)
                || text.iter().any(|place| place.is_method));
        let known = known.iter().filter(|found| !any || found.kind == LispKind::Method);
        let places = known.filter_map(|found| self.place(&found.place, control));
        let mut places: Vec<Place> = places.map(|place| self.name_within(place, &symbol.name)).collect();
        // Add definitions in open documents that are not among these places: they are new or have
        // moved.
        let (there, _) = self.in_documents(symbol, control);
        let there = there.into_iter().filter(|_| !any);
        let text = text.into_iter().filter(|place| !any || place.is_method);
        for place in there.chain(text.map(|NamedPlace { path, range, .. }| Place { path, range })) {
            if !places.iter().any(|known| known.path == place.path && known.range.encloses(place.range)) {
                places.push(place);
            }
        }
        Ok(places)
    }

    /// Returns the place of the name that the form at `place` defines, or the form's place if the
    /// name is not in it.
    fn name_within(&self, place: Place, name: &str) -> Place {
        let named = self.file_text(&place.path).and_then(|file| {
            let form = file.text.get(place.range.indices())?.as_bytes();
            let read = LispText::read(form, Dialect::CommonLisp, &Features::sbcl());
            let symbols = read.tokens().iter().filter(|token| token.kind == TokenKind::Symbol);
            let named = symbols.skip(1).find(|token| token.symbol(form).name == name)?.span;
            let start = place.range.start;
            Some(Range::new(start + named.start, start + named.end))
        });
        Place { range: named.unwrap_or(place.range), ..place }
    }

    pub(super) fn definition(&self, params: &Value, methods: bool, control: &Control) -> Answered {
        let Some(found) = self.occurrence(params, control)? else { return Ok(Value::Null) };
        if let Some(range) = found.binding {
            let path = self.document_of(params)?.path.clone();
            return Ok(self.locations(vec![Place { path, range }], control).into());
        }
        Ok(self.locations(self.defined(&found.symbol, methods, control)?, control).into())
    }

    /// Returns the places where a symbol is used outside its definitions.
    pub(super) fn used(&self, symbol: &SymbolName, control: &Control) -> Result<Vec<Place>, RequestRefusal> {
        let (_, mut places) = self.in_documents(symbol, control);
        let text = self.text_places(symbol, control)?.into_iter().filter(|place| !place.defines);
        places.extend(text.map(|NamedPlace { path, range, .. }| Place { path, range }));
        let bank = self.bank()?;
        let mut request = CodeFindReferencesRequest::new(barred(&symbol.name));
        (request.package, request.limit) = (Some(symbol.package.clone()), 100_000);
        request.project_only = bank.root().is_some();
        // An error usually means that the image has no such symbol. The symbol then occurs only in
        // open documents.
        let Ok(answer) = bank.ask(&request, control) else {
            control.check().map_err(Error::from)?;
            return Ok(places);
        };
        let tokens = answer.refs.iter().flat_map(|found| found.tokens.iter().chain(&found.approximate));
        let tokens = tokens.chain(answer.text.iter().flat_map(|found| &found.tokens));
        let mut closed: HashMap<&str, Option<PathBuf>> = HashMap::new();
        for token in control.until_cancelled(tokens.filter(|token| token.column.is_some())) {
            let path = closed.entry(&token.file).or_insert_with(|| {
                Some(self.native(Path::new(&token.file))).filter(|path| self.document(path).is_none())
            });
            let Some(path) = path else { continue };
            match token.range {
                Some(range) => places.push(Place { path: path.clone(), range }),
                None => places.extend(self.place(token, control)),
            }
        }
        Ok(places)
    }

    pub(super) fn references(&self, params: &Value, control: &Control) -> Answered {
        let Some(found) = self.occurrence(params, control)? else { return Ok(Value::Null) };
        let declaration = params["context"]["includeDeclaration"] == true;
        if let Some(binding) = found.binding {
            let document = self.document_of(params)?;
            let view = self.view(&document, control)?;
            let same = view.occurrences.iter().filter(|other| other.binding == Some(binding));
            let same = same.filter(|other| declaration || other.range != binding);
            let places = same.map(|other| Place { path: document.path.clone(), range: other.range });
            return Ok(self.locations(places.collect(), control).into());
        }
        let mut places = self.used(&found.symbol, control)?;
        if declaration {
            places.extend(self.defined(&found.symbol, false, control)?);
        }
        Ok(self.locations(places, control).into())
    }

    pub(super) fn highlight(&self, params: &Value, control: &Control) -> Answered {
        let (document, at) = self.at(params)?;
        let view = self.view(&document, control)?;
        let Some(found) = view.at(at) else { return Ok(Value::Null) };
        let same = view.occurrences.iter().filter(|other| match found.binding {
            Some(binding) => other.binding == Some(binding),
            None => other.binding.is_none() && other.symbol == found.symbol,
        });
        let is_write = |other: &FileOccurrence| other.access != PlaceAccess::Read || defines(other);
        let mut shown: BTreeMap<Range, bool> =
            control.until_cancelled(same).map(|other| (other.range, is_write(other))).collect();
        if found.binding.is_none() {
            let text = self.text_places(&found.symbol, control)?.into_iter();
            let text = text.filter(|place| place.path == document.path);
            text.for_each(|place| _ = shown.entry(place.range).or_insert(place.defines));
        }
        let shown = shown.into_iter().map(|(range, write)| {
            json!({ "range": document.range(range, self.encoding()), "kind": if write { 3 } else { 2 } })
        });
        Ok(shown.collect())
    }

    pub(super) fn semantic_tokens(&self, params: &Value, whole: bool, control: &Control) -> Answered {
        let document = self.document_of(params)?;
        let encoding = self.encoding();
        let within = match whole {
            true => Range::new(0, u32::MAX),
            false => convert::range_from(&params["range"], &document.text, &document.lines, encoding)?,
        };
        let view = self.view(&document, control)?;
        let (mut data, mut last, mut end) = (Vec::new(), (0, 0), 0);
        let within = view.occurrences.iter().filter(|found| within.encloses(found.range));
        for found in control.until_cancelled(within) {
            let Some(kind) = convert::token_type(found.kind).filter(|_| found.range.start >= end) else {
                continue;
            };
            let position = |offset| document.lines.position_in(document.text.as_bytes(), offset, encoding);
            let (from, to) = (position(found.range.start), position(found.range.end));
            // Skip tokens of several lines, because not every client supports them.
            if from.line != to.line {
                continue;
            }
            let (line, column) = (from.line - 1, from.column - 1);
            end = found.range.end;
            let (last_line, last_column) = last;
            let columns = if line == last_line { column - last_column } else { column };
            let modifiers = u32::from(defines(found)) | u32::from(found.access != PlaceAccess::Read) << 1;
            data.extend([line - last_line, columns, to.column - from.column, kind, modifiers]);
            last = (line, column);
        }
        Ok(json!({ "data": data }))
    }
}
