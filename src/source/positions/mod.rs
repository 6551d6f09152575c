//! Translates SBCL's form numbers to text ranges, with the evidence for each.
//!
//! A [`PositionedFile`] is one source file. It uses the file's sidecar (the events that SBCL's
//! reader reported) if there is one, otherwise the structural reader. In both cases the symbol's
//! token must be found at the recorded form; otherwise the [`Placement`] has weaker [`Evidence`].
//! The submodules provide the `uses` actions with occurrences and tokens of a symbol, structure
//! definitions, clause words, and foreign names.

mod by_structure;
mod by_tap;
mod clauses;
mod foreign;
mod forms;
mod moved;
mod structures;
mod tokens;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use steelbank_reader::lines::{LineColumn, LineIndex, PositionEncoding, Undecodable, undecoded};
use steelbank_reader::{Dialect, Features, LispText, Range, Token};

use self::by_tap::Tapped;
use self::moved::MovedForms;
use super::tap::operators::Defined;
use super::tap::roles::SyntaxRole;
use super::tap::sidecar::{EventKind, Name, NameKind, ReadEvent, Sidecar};
pub use super::tap::walk::{PlaceAccess, Space, SyntacticContext};
pub use clauses::Clauses;
use steelbank_xref::{Kind, SymbolName};
pub use structures::{Prefix, StructureDefinition};

/// How certain a position is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// The symbol is at this position; a rename edits it there.
    Exact,
    /// The form or the token in it is uncertain, or the file has changed since it was loaded.
    Approximate,
    /// The symbol is not at this position: an operator there (`via`) expands into the use.
    Via,
}

impl Evidence {
    pub(crate) fn is_exact(&self) -> bool {
        *self == Self::Exact
    }
}

/// The location of a use.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Placement {
    /// The range in the text; [`PositionedFile::position`] converts it to line and column.
    pub range: Range,
    /// How certain the range is.
    pub evidence: Evidence,
    /// The operator that expands into the use, for [`Evidence::Via`]. Its package is empty if it is
    /// not a named symbol.
    pub expander: Option<SymbolName>,
}

impl Placement {
    /// Returns the placement of a token that is, or may be, the symbol.
    pub(crate) fn new(range: Range, evidence: Evidence) -> Placement {
        Placement { range, evidence, expander: None }
    }

    /// Returns the placement of a form with an operator that expands into the use.
    pub(crate) fn via(range: Range, expander: SymbolName) -> Placement {
        Placement { range, evidence: Evidence::Via, expander: Some(expander) }
    }
}

/// A use as recorded by the compiler: `kind` at sub-form `number` of top-level form `form`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct XrefRecord {
    /// The kind of use.
    pub kind: Kind,
    /// SBCL's number of the top-level form.
    pub form: u32,
    /// SBCL's number of the sub-form.
    pub number: u32,
    /// The byte offset at which SBCL began to read the top-level form, before the white space in
    /// front of the form. `None` if SBCL did not record the offset.
    pub bytes: Option<u32>,
}

/// An occurrence of a symbol in code that is read, not skipped by `#+` or comments.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Occurrence {
    /// The range of the symbol's token.
    pub range: Range,
    /// The symbol's role.
    pub role: SyntaxRole,
    /// The number of the top-level form around the occurrence.
    pub form: u32,
    /// Whether the occurrence may refer to a local variable or function with this name.
    pub local: bool,
    /// Whether the text shows a binding of the name around the occurrence. The binding may be of a
    /// special variable.
    pub bound: bool,
    /// Whether the symbol is, or may be, looked up as a variable.
    pub variable: bool,
    /// Whether the compiler found a local variable with this name in the top-level form.
    pub has_variable: bool,
    /// The symbol's position among the operators around it.
    pub position: SyntacticContext,
    /// In a template: the symbol's role in the generated code.
    pub becomes: SyntaxRole,
    /// Whether no occurrence outside of templates in the same top-level form can refer to a
    /// variable.
    pub never_variable: bool,
    /// For a definition: the kind of thing that the symbol's form defines.
    pub defined: Option<Defined>,
    /// The name of the user macro that may define the symbol, judging by the symbol's position.
    pub definer: Option<String>,
    /// How the code accesses the variable, the slot or the accessor's place that the symbol names.
    pub access: PlaceAccess,
    /// The range of the token that binds the name, or of this token if it is the binding. `None` if
    /// the text shows no binding.
    pub binding: Option<Range>,
    /// The namespace that the name is looked up in.
    pub space: Space,
    /// The kind of operator that the symbol denoted at the end of reading the file.
    pub operator: NameKind,
}

/// A token that SBCL's reader read as the searched symbol, or a designator of the symbol in a
/// package definition. The symbol's meaning in the code does not matter.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SymbolToken {
    /// The range of the token.
    pub range: Range,
    /// The token's notation.
    pub written: Notation,
    /// The token's role.
    pub role: SyntaxRole,
    /// The number of the top-level form around the token.
    pub form: u32,
    /// Whether the token may refer to a local variable or function with this name.
    pub local: bool,
    /// Whether the token binds the name, here or in the code that a template generates.
    pub binds: bool,
    /// Whether the token is where a user macro may expect a name to define.
    pub definable: bool,
    /// Whether the token is a `&key` parameter without an explicit keyword, so that renaming the
    /// parameter changes the keyword.
    pub key_parameter: bool,
}

/// The notation of a symbol in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Notation {
    /// The symbol itself, with or without its package.
    Symbol,
    /// An uninterned symbol, `#:name`.
    Uninterned,
    /// A keyword.
    Keyword,
    /// A symbol of another package with the same name.
    Namesake,
    /// A string, including the quotes.
    Text,
}

/// The reader that provides a file's positions.
#[derive(Debug)]
enum Reading {
    Tap(Box<Tapped>),
    Structure(Box<LispText>),
}

/// The state of a file's sidecar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SidecarState {
    /// There is no sidecar for this version of the file: steelbank has not compiled it or loaded it
    /// as source.
    Missing,
    /// The sidecar exists, but cannot be used.
    Damaged,
    /// The sidecar ends where reading the file was stopped. It does not cover the rest of the file.
    Incomplete,
    /// The sidecar covers the entire file.
    Complete,
}

/// A source file and the positions recorded for it.
#[derive(Debug)]
pub struct PositionedFile {
    path: PathBuf,
    text: String,
    lines: LineIndex,
    is_ascii: bool,
    has_mark: bool,
    /// Whether decoding left the bytes of the file unchanged.
    decoded_as_is: bool,
    fresh: bool,
    /// Whether there is a sidecar that cannot be used.
    damaged: bool,
    reading: Reading,
    /// For a changed file: the current positions of its recorded forms, computed on demand.
    moved: OnceLock<MovedForms>,
    /// For a text compiled from an editor buffer: the number that the text's first form has in the
    /// file.
    first: u32,
    /// Whether only a text from a buffer was compiled, not the file.
    from_buffer: bool,
}

impl PositionedFile {
    /// Reads the file at `path`, and its sidecar if that exists and matches. `write_date`
    /// (universal time) identifies the version of the file in the image.
    ///
    /// # Errors
    /// The file at `path` cannot be read. An unreadable sidecar is no error.
    pub fn open(path: &Path, write_date: u64, sidecar: Option<&Path>) -> std::io::Result<PositionedFile> {
        let bytes = steelbank_tree::read_source(path)?;
        let truename = std::fs::canonicalize(path)?;
        let sidecar = sidecar.map_or(Ok(None), |sidecar| match Sidecar::read(sidecar) {
            Ok(sidecar) => Ok(Some(sidecar)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        });
        let damaged = sidecar.is_err();
        let sidecar = sidecar
            .unwrap_or_default()
            .filter(|sidecar| sidecar.path == truename && sidecar.write_date == write_date);
        let fresh = match &sidecar {
            Some(sidecar) => sidecar.matches(&bytes),
            None => universal_write_date(&truename).is_none_or(|date| date == write_date),
        };
        Ok(PositionedFile { damaged, ..PositionedFile::new(path.to_path_buf(), &bytes, sidecar, fresh) })
    }

    /// Like [`PositionedFile::open`], but with the content `bytes` instead of the file on disk.
    /// Without a sidecar, the file counts as changed. `path` must be canonical.
    pub fn of_text(path: &Path, bytes: &[u8], write_date: u64, sidecar: Option<&Path>) -> PositionedFile {
        let sidecar = sidecar
            .and_then(|sidecar| Sidecar::read(sidecar).ok())
            .filter(|sidecar| sidecar.path == path && sidecar.write_date == write_date);
        let fresh = sidecar.as_ref().is_some_and(|sidecar| sidecar.matches(bytes));
        PositionedFile::new(path.to_path_buf(), bytes, sidecar, fresh)
    }

    /// Returns the file at `path` with the content `bytes`. `fresh` states whether the image was
    /// built from this content.
    pub fn new(path: PathBuf, bytes: &[u8], sidecar: Option<Sidecar>, fresh: bool) -> PositionedFile {
        let format = sidecar.as_ref().map_or("UTF-8", |sidecar| sidecar.external_format.as_str());
        let text = decode_as(bytes, format);
        let decoded_as_is = matches!(text, Cow::Borrowed(_));
        let text = text.into_owned();
        let lines = LineIndex::new(text.as_bytes());
        let (is_ascii, has_mark) = (text.is_ascii(), text.starts_with('\u{feff}'));
        let reading = match sidecar {
            Some(sidecar) => Reading::Tap(Box::new(Tapped::new(sidecar))),
            None => Reading::Structure(Box::new(LispText::read(
                text.as_bytes(),
                Dialect::CommonLisp,
                &crate::source::features(),
            ))),
        };
        PositionedFile {
            path,
            text,
            lines,
            is_ascii,
            has_mark,
            decoded_as_is,
            fresh,
            damaged: false,
            reading,
            moved: OnceLock::new(),
            first: 0,
            from_buffer: false,
        }
    }

    /// Returns the file at `path` with the content `bytes` after an editor compiled only a part of
    /// it: the text `compiled` at character `position` of the editor's buffer. Form numbers count
    /// from the first form of that part. If the file does not contain the text, the part is the
    /// form with the same first line, or else the nearest form. The file is fresh only if it
    /// contains the text, and not inside a top-level form.
    pub fn from_buffer(path: &Path, bytes: &[u8], compiled: &str, position: usize) -> PositionedFile {
        let mut file = PositionedFile::new(path.to_path_buf(), bytes, None, false);
        let Reading::Structure(read) = &file.reading else { return file };
        let (text, compiled) = (file.text.as_str(), compiled.trim());
        let near = text.char_indices().nth(position).map_or(text.len(), |(at, _)| at);
        let nearest = |places: &mut dyn Iterator<Item = usize>| places.min_by_key(|at| at.abs_diff(near));
        let starts = || read.toplevel().iter().map(|top| top.span.start as usize);
        let line = compiled.lines().next().unwrap_or_default().trim_end();
        let whole = match compiled {
            "" => None,
            _ => nearest(&mut text.match_indices(compiled).map(|(at, _)| at)),
        };
        let is_inside = |at: usize| {
            read.toplevel().iter().any(|top| (top.span.start as usize) < at && at < top.span.end as usize)
        };
        let alike = || nearest(&mut starts().filter(|at| !line.is_empty() && text[*at..].starts_with(line)));
        let at = whole.or_else(alike).unwrap_or(near);
        let before = read.toplevel().partition_point(|top| top.span.end as usize <= at);
        file.fresh = whole.is_some_and(|at| !is_inside(at));
        file.from_buffer = true;
        file.first = before.min(read.toplevel().len().saturating_sub(1)) as u32;
        file
    }

    /// Returns the path with which the file was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the approximate memory use, in bytes.
    pub fn size(&self) -> usize {
        let read = match &self.reading {
            Reading::Tap(tapped) => {
                let events: usize = tapped.sidecar.forms.iter().map(|form| form.events.len()).sum();
                events * (size_of::<ReadEvent>() + size_of::<(u32, u32)>()) + tapped.sidecar.names.len() * 128
            }
            Reading::Structure(text) => size_of_val(text.tokens()) + size_of_val(text.forms()),
        };
        self.text.len() + read
    }

    /// Returns whether the image was built from the current content of the file.
    pub fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// Returns whether the positions are from SBCL's reader.
    pub fn has_sidecar(&self) -> bool {
        matches!(self.reading, Reading::Tap(_))
    }

    /// Returns the state of the file's sidecar.
    pub fn sidecar_state(&self) -> SidecarState {
        match &self.reading {
            Reading::Tap(tapped) if tapped.sidecar.complete => SidecarState::Complete,
            Reading::Tap(_) => SidecarState::Incomplete,
            Reading::Structure(_) if self.damaged => SidecarState::Damaged,
            Reading::Structure(_) => SidecarState::Missing,
        }
    }

    /// Returns the external format that SBCL decoded the file with; UTF-8 if unknown.
    pub fn external_format(&self) -> &str {
        match &self.reading {
            Reading::Tap(tapped) => &tapped.sidecar.external_format,
            Reading::Structure(_) => "UTF-8",
        }
    }

    /// Returns the operator of top-level form `form`. Needs a sidecar.
    pub fn form_operator(&self, form: u32) -> Option<&Name> {
        let Reading::Tap(tapped) = &self.reading else { return None };
        let form = tapped.sidecar.form(form)?;
        let operator = form.child(form.events.len().checked_sub(1)?, 1)?;
        match form.events[operator].kind {
            EventKind::Symbol(name) => tapped.sidecar.names.get(name as usize),
            _ => None,
        }
    }

    /// Returns the name, without its package, of the function that top-level form `form` defines
    /// with DEFUN. Needs a sidecar.
    pub fn function_defined(&self, form: u32) -> Option<&str> {
        let Reading::Tap(tapped) = &self.reading else { return None };
        let top = tapped
            .sidecar
            .form(form)
            .filter(|_| self.form_operator(form).is_some_and(|name| name.is("COMMON-LISP", "DEFUN")))?;
        let name = top.child(top.events.len().checked_sub(1)?, 2)?;
        match top.events[name].kind {
            EventKind::Symbol(name) => Some(tapped.sidecar.names.get(name as usize)?.name()),
            _ => None,
        }
    }

    /// Returns the decoded text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Lists the names, without packages, of all symbols in the code and of the strings in package
    /// definitions. Needs a sidecar.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let by_name = match &self.reading {
            Reading::Tap(tapped) => Some(&tapped.by_name),
            Reading::Structure(_) => None,
        };
        by_name.into_iter().flat_map(|by_name| by_name.keys().map(String::as_str))
    }

    /// Returns the text of `line`, from 1, without its line end.
    pub fn line_text(&self, line: u32) -> Cow<'_, str> {
        let bytes = self.lines.bytes(self.text.as_bytes(), line);
        let text = String::from_utf8_lossy(bytes);
        match (line, self.has_mark, text) {
            (1, true, Cow::Borrowed(text)) => Cow::Borrowed(text.trim_start_matches('\u{feff}')),
            (_, _, text) => text,
        }
    }

    /// Returns the text of the line on which `range` begins, without leading and trailing white
    /// space.
    pub fn line_at(&self, range: Range) -> String {
        self.position(range.start).map_or_else(String::new, |at| self.line_text(at.line).trim().to_owned())
    }

    /// Returns whether `line` of the current text contains a token with the name of `sought`, in
    /// any package.
    pub fn has_name_on(&self, sought: &SymbolName, line: u32) -> bool {
        let text = self.lines.bytes(self.text.as_bytes(), line);
        let read = LispText::read(text, Dialect::CommonLisp, &Features::sbcl());
        read.tokens().iter().any(|token| token.is_named(text, &sought.name))
    }

    /// Locates the recorded uses of `sought`, in their order. A use has no placement if its form is
    /// no longer in the file. It has several placements if the compiler recorded equal uses once,
    /// or if several tokens may be the use ([`Evidence::Approximate`]).
    ///
    /// Pass all records of the file together, so that a token that certainly belongs to one use is
    /// not attributed to another use. `means(package)` must return whether the name of `sought`
    /// refers to `sought` in that package, which is given by name or nickname.
    pub fn place(
        &self,
        sought: &SymbolName,
        recorded: &[XrefRecord],
        means: &dyn Fn(&str) -> bool,
    ) -> Vec<Vec<Placement>> {
        let mut placements: Vec<Vec<Placement>> = match &self.reading {
            Reading::Tap(tapped) => self.place_by_tap(tapped, tapped.symbol(sought, means), recorded),
            Reading::Structure(text) => self.place_by_structure(text, sought, recorded, means),
        };
        if !self.fresh {
            placements.iter_mut().flatten().for_each(downgrade_stale);
        }
        placements
    }

    /// Returns the range of sub-form `number` of top-level form `form`, or else of the nearest form
    /// around or before it.
    pub fn form_range(&self, form: u32, number: u32) -> Option<Range> {
        self.range_in_file(self.first.checked_add(form)?, number)
    }

    /// Like [`PositionedFile::form_range`], with `form` counted from the file's first form.
    fn range_in_file(&self, form: u32, number: u32) -> Option<Range> {
        match &self.reading {
            Reading::Tap(tapped) => {
                let top = tapped.sidecar.form(form)?;
                let (_, event) = top.nearest_sub_form(number)?;
                Some(self.event_range(&tapped.sidecar, &top.events[event]))
            }
            Reading::Structure(text) => {
                let top = text.toplevel().get(form as usize)?;
                Some(text.numbered(top, number).map_or(top.span, |form| form.span))
            }
        }
    }

    /// For text from a buffer: returns the range of the name that top-level form `form` defines
    /// (its second token), if that is `sought`.
    pub fn defined_in_buffer(&self, form: u32, sought: &SymbolName) -> Option<Range> {
        let Reading::Structure(read) = &self.reading else { return None };
        let top = self.range_in_file(self.first.checked_add(form)?, 0).filter(|_| self.from_buffer)?;
        let inside =
            |token: &&Token| token.span.start >= top.start && token.span.end <= top.end && token.active;
        let name = read.tokens().iter().filter(inside).nth(1)?;
        name.is_named(self.text.as_bytes(), &sought.name).then_some(name.span)
    }

    /// Returns SBCL's octet offset of top-level form `form`: the end of the preceding form, or 0
    /// for the first form. Returns `None` if the file is not the loaded version.
    pub fn octets_before(&self, form: u32) -> Option<u32> {
        let Some(before) = self.first.checked_add(form)?.checked_sub(1) else {
            return self.fresh.then_some(0);
        };
        let end = self.range_in_file(before, 0).filter(|_| self.fresh)?.end;
        match self.decoded_as_is {
            true => Some(end),
            false => {
                let bytes = steelbank_tree::read_source(&self.path).ok()?;
                u32::try_from(self.range_on_disk(&bytes, Range::new(end, end))?.end).ok()
            }
        }
    }

    /// Converts an offset in one of this file's ranges to the line and column, in characters, in
    /// the current text. Returns `None` if the current text no longer has the form. A byte order
    /// mark does not count as a column, because editors do not show it.
    pub fn position(&self, offset: u32) -> Option<LineColumn> {
        let offset = match &self.reading {
            Reading::Tap(tapped) if !self.fresh => {
                self.moved.get_or_init(|| MovedForms::new(&tapped.sidecar, &self.text)).of(offset)?
            }
            _ => offset,
        };
        let LineColumn { line, column } = self.lines.position(self.text.as_bytes(), offset);
        let hidden = u32::from(line == 1 && self.has_mark && column > 1);
        Some(LineColumn { line, column: column - hidden })
    }

    /// Returns the byte offset in the current text of a line and column, counted as in
    /// [`PositionedFile::position`].
    fn offset(&self, LineColumn { line, column }: LineColumn) -> Option<u32> {
        let hidden = u32::from(line == 1 && self.has_mark);
        let position = LineColumn { line, column: column.checked_add(hidden)? };
        self.lines.offset(self.text.as_bytes(), position, PositionEncoding::Characters)
    }

    /// Returns the byte range in `bytes`, the file's content, for a range of its decoded text.
    pub fn range_on_disk(&self, bytes: &[u8], range: Range) -> Option<std::ops::Range<usize>> {
        let at = |offset: u32| {
            let offset = offset as usize;
            match self.external_format() {
                _ if self.decoded_as_is => Some(offset),
                "UTF-8" | "UTF8" => undecoded(bytes, offset, Undecodable::Replaced),
                _ => Some(self.text.get(..offset)?.chars().count()),
            }
        };
        Some(at(range.start)?..at(range.end)?)
    }

    /// Returns the range of a reader event. SBCL's reader counts characters. For a changed file,
    /// characters cannot be converted to bytes, so the range is in characters.
    fn event_range(&self, sidecar: &Sidecar, event: &ReadEvent) -> Range {
        let at = |character| match self.fresh {
            true => self.byte_of(sidecar, character),
            false => character,
        };
        Range::new(at(event.start), at(event.end))
    }

    /// Converts a character offset of SBCL's reader to a byte offset.
    fn byte_of(&self, sidecar: &Sidecar, character: u32) -> u32 {
        if self.is_ascii {
            return character;
        }
        let position = recorded_position(sidecar, character);
        let byte = self.lines.offset(self.text.as_bytes(), position, PositionEncoding::Characters);
        byte.unwrap_or(self.text.len() as u32)
    }
}

/// Returns the line and column of a character offset of SBCL's reader.
fn recorded_position(sidecar: &Sidecar, character: u32) -> LineColumn {
    let before = sidecar.newlines.partition_point(|&newline| newline < character);
    let start = before.checked_sub(1).map_or(0, |last| sidecar.newlines[last] + 1);
    LineColumn { line: before as u32 + 1, column: character - start + 1 }
}

fn downgrade_stale(placement: &mut Placement) {
    if placement.evidence == Evidence::Exact {
        placement.evidence = Evidence::Approximate;
    }
}

/// Decodes `bytes` in the external format `name`, well enough for positions and display.
fn decode_as<'a>(bytes: &'a [u8], name: &str) -> Cow<'a, str> {
    let wide = |pair: fn([u8; 2]) -> u16| {
        let units = bytes.chunks_exact(2).map(|unit| pair([unit[0], unit[1]]));
        char::decode_utf16(units).map(|unit| unit.unwrap_or('\u{fffd}')).collect::<String>()
    };
    match name {
        "UTF-8" | "UTF8" | "US-ASCII" | "ASCII" => String::from_utf8_lossy(bytes),
        "UTF-16LE" | "UCS-2LE" => Cow::Owned(wide(u16::from_le_bytes)),
        "UTF-16BE" | "UCS-2BE" => Cow::Owned(wide(u16::from_be_bytes)),
        _ => match std::str::from_utf8(bytes) {
            Ok(text) if bytes.is_ascii() => Cow::Borrowed(text),
            _ => Cow::Owned(bytes.iter().map(|&byte| char::from(byte)).collect()),
        },
    }
}

/// Returns a file's write date in Lisp's universal time: seconds since 1900.
pub fn universal_write_date(path: &Path) -> Option<u64> {
    const UNIX_EPOCH_IN_UNIVERSAL_TIME: u64 = 2_208_988_800;
    let modified = std::fs::metadata(path).ok()?.modified().ok()?;
    let seconds = modified.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs();
    Some(seconds + UNIX_EPOCH_IN_UNIVERSAL_TIME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffer_text_is_located_in_its_file() {
        let text = "(a)\n; ä\n(defun f ()\n  1)\n(b)\n(defun f ()\n  1)\n(progn\n  (g))\n";
        let placed = |compiled: &str, position| {
            let file = PositionedFile::from_buffer(Path::new("a.lisp"), text.as_bytes(), compiled, position);
            let line = file.form_range(0, 0).and_then(|range| file.position(range.start)).unwrap().line;
            (line, file.is_fresh())
        };
        // The nearest of several equal texts is used; positions are in characters.
        let same = "(defun f ()\n  1)\n";
        assert_eq!((placed(same, 8), placed(same, 60)), ((3, true), (6, true)));
        assert_eq!(placed("(b)\n(defun f ()\n  1)", 0), (5, true));
        // For text that the file does not contain, the form with the same first line is used, or
        // else the nearest form.
        assert_eq!(placed("(defun f ()\n  2)", 40), (6, false));
        assert_eq!(placed("(defun h ()\n  2)", 4), (3, false));
        assert_eq!((placed("", 0), placed("(h)", 999)), ((1, false), (8, false)));
        // Text inside a form is not fresh, because its form numbers differ from the file's.
        assert_eq!(placed("(g)", 0), (8, false));
        let empty = PositionedFile::from_buffer(Path::new("a.lisp"), b"", "(f)", 7);
        assert_eq!((empty.form_range(0, 0), empty.octets_before(0)), (None, None));
    }

    #[test]
    fn ranges_map_to_bytes_on_disk() {
        for bytes in ["; ä\n(f 𝒳)".as_bytes(), b"; \xc3\xa4\xfc\xe9\n(f x)", b"; \xe2\x82\n(f x)"] {
            let file = PositionedFile::new("a.lisp".into(), bytes, None, true);
            let range = file.form_range(0, 0).unwrap();
            assert_eq!(file.position(range.start), Some(LineColumn { line: 2, column: 1 }));
            assert_eq!(
                &bytes[file.range_on_disk(bytes, range).unwrap()],
                &bytes[bytes.len() - file.text()[range.indices()].len()..]
            );
        }
    }
}
