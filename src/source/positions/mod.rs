//! From SBCL's form numbers to ranges of the text, with the evidence for each.
//!
//! A file is read through its sidecar where there is one (what SBCL's own reader reported), else through the
//! structural reader. Either way the symbol must be found where the record says, or the answer says that it was not.

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
use steelbank_xref::Kind;
pub use structures::{PackageAndName, Prefix, StructureDefinition};

/// The certainty of a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// The symbol stands there: a rename replaces it there.
    Exact,
    /// The form is right, but not which of several places in it; or the file has changed since it was loaded.
    Approximate,
    /// The symbol does not stand there: an operator that does (`via`) expands into its use.
    Via,
}

impl Evidence {
    pub(crate) fn is_exact(&self) -> bool {
        *self == Self::Exact
    }
}

/// The operator that makes a use where the symbol does not stand.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Expander {
    /// The home package of the operator; empty if it is none that has a name.
    pub package: String,
    /// Its name.
    pub name: String,
    /// It is a symbol macro.
    pub symbol_macro: bool,
}

/// Where a use stands.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Placement {
    /// The place: what [`PositionedFile::position`] gives a line and column.
    pub range: Range,
    /// How sure it is.
    pub evidence: Evidence,
    /// For [`Evidence::Via`]: the operator that expands into the use.
    pub expander: Option<Expander>,
}

impl Placement {
    /// A place where the symbol stands, or may.
    pub(crate) fn new(range: Range, evidence: Evidence) -> Placement {
        Placement { range, evidence, expander: None }
    }

    /// The form of an operator that expands into the use.
    pub(crate) fn via(range: Range, expander: Expander) -> Placement {
        Placement { range, evidence: Evidence::Via, expander: Some(expander) }
    }
}

/// The symbol asked for.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SearchTarget {
    /// Name of the home package.
    pub package: String,
    /// The symbol's name, in its own case.
    pub name: String,
}

/// A use as the compiler recorded it: `kind` at sub-form `number` of top-level form `form`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct XrefRecord {
    /// What is done with the symbol.
    pub kind: Kind,
    /// SBCL's number of the top-level form.
    pub form: u32,
    /// SBCL's number of the sub-form.
    pub number: u32,
    /// Where the top-level form starts, in bytes, counted before the white space in front of it.
    pub bytes: Option<u32>,
}

/// An occurrence of a symbol in live text.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Occurrence {
    /// Its range.
    pub range: Range,
    /// Its role.
    pub role: SyntaxRole,
    /// The top-level form it stands in.
    pub form: u32,
    /// Whether a local variable or function of this name is bound in that form, so that it may be meant.
    pub local: bool,
    /// Whether the text itself shows what binds it around there. A special variable is bound, too.
    pub bound: bool,
    /// Whether it is looked up among variables, or may be.
    pub variable: bool,
    /// Whether the compiler found a local variable of this name in that form.
    pub has_variable: bool,
    /// What the text tells of an operator or argument.
    pub standing: SyntacticContext,
    /// In a template: its role in the code that the template becomes.
    pub becomes: SyntaxRole,
    /// Whether the symbol stands nowhere in the top-level form where a variable or a binding of it could be meant.
    pub never_variable: bool,
    /// For a definition: the kind of thing that it makes of the name.
    pub defined: Option<Defined>,
    /// The name of the macro of the program's own that may define the symbol, if it stands where such a macro could.
    pub definer: Option<String>,
    /// What is done with the variable, or with the place that the accessor or slot names.
    pub access: PlaceAccess,
    /// The token that binds the name around there, or this one if it does, as far as the text shows it.
    pub binding: Option<Range>,
    /// The namespace of its name.
    pub space: Space,
    /// The kind of operator that the symbol named when the file had been read.
    pub operator: NameKind,
}

/// A token that reads as a symbol, or names it in a package definition, whatever it means there.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SymbolToken {
    /// Its range.
    pub range: Range,
    /// Its notation.
    pub written: Notation,
    /// Its role.
    pub role: SyntaxRole,
    /// The top-level form it stands in.
    pub form: u32,
    /// Whether a local variable or function of this name is bound in that form.
    pub local: bool,
    /// Whether it is what binds one, here or in the code that a template becomes.
    pub binds: bool,
    /// Whether it stands where a macro of the program's own may have a name that it defines.
    pub definable: bool,
    /// Whether it is a `&key` parameter without a keyword of its own: renaming it changes the keyword.
    pub key_parameter: bool,
}

/// The notation in which a symbol is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Notation {
    /// As the symbol, with or without its package.
    Symbol,
    /// As an uninterned symbol, `#:name`.
    Uninterned,
    /// As a keyword.
    Keyword,
    /// As a symbol of another package that has its name.
    Namesake,
    /// As a string, quotes included.
    Text,
}

/// The reader that a file's positions come from.
#[derive(Debug)]
enum Reading {
    Tap(Box<Tapped>),
    Structure(Box<LispText>),
}

/// The state of a file's sidecar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SidecarState {
    /// There is none: the file was not compiled or loaded as source here.
    Missing,
    /// It is there, and cannot be used.
    Damaged,
    /// It ends where the reading of the file was stopped: nothing is known of what comes after.
    Incomplete,
    /// It covers the whole file.
    Complete,
}

/// A source file together with what is known of the positions in it.
#[derive(Debug)]
pub struct PositionedFile {
    path: PathBuf,
    text: String,
    lines: LineIndex,
    is_ascii: bool,
    has_mark: bool,
    /// Whether bytes of the file are bytes of the text.
    decoded_as_is: bool,
    fresh: bool,
    /// A sidecar is there that cannot be used.
    damaged: bool,
    reading: Reading,
    /// Where what was read stands now, once it has been asked for: of a file that has changed.
    moved: OnceLock<MovedForms>,
    /// The number in the file of the form that counts as the first: of a text from a buffer, which is a part of it.
    first: u32,
    /// Whether only a text from a buffer was compiled, and not the file.
    of_buffer: bool,
}

impl PositionedFile {
    /// Reads the file at `path`, of which the image holds the version written at `write_date` (universal time), and
    /// the file `sidecar`, if it exists and is of that file and version.
    ///
    /// # Errors
    /// If the file at `path` cannot be read. A sidecar that cannot be read counts as none.
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

    /// As [`PositionedFile::open`], where `bytes` stand for what is on disk at `path`, a real path.
    pub fn of_text(path: &Path, bytes: &[u8], write_date: u64, sidecar: Option<&Path>) -> PositionedFile {
        let sidecar = sidecar
            .and_then(|sidecar| Sidecar::read(sidecar).ok())
            .filter(|sidecar| sidecar.path == path && sidecar.write_date == write_date);
        let fresh = sidecar.as_ref().is_some_and(|sidecar| sidecar.matches(bytes));
        PositionedFile::new(path.to_path_buf(), bytes, sidecar, fresh)
    }

    /// The file at `path` with the content `bytes`. `fresh` tells whether the image was made from this content.
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
            of_buffer: false,
        }
    }

    /// The file at `path` with the content `bytes`, of which an editor has compiled the part `compiled`, that stood behind
    /// `position` characters of its buffer: forms count from there. If the file does not hold that text, the form stands for it
    /// that begins with the same line, or else the nearest one, and it is not fresh.
    pub fn of_buffer(path: &Path, bytes: &[u8], compiled: &str, position: usize) -> PositionedFile {
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
        file.of_buffer = true;
        file.first = before.min(read.toplevel().len().saturating_sub(1)) as u32;
        file
    }

    /// The file's path, as it was asked for.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// About how much memory this takes, in bytes.
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

    /// Whether the image was made from what the file holds now.
    pub fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// Whether only a part of the file was compiled, from a buffer.
    pub fn is_of_buffer(&self) -> bool {
        self.of_buffer
    }

    /// Whether SBCL's own reader reported the positions.
    pub fn is_tapped(&self) -> bool {
        matches!(self.reading, Reading::Tap(_))
    }

    /// The state of the file's sidecar.
    pub fn sidecar_state(&self) -> SidecarState {
        match &self.reading {
            Reading::Tap(tapped) if tapped.sidecar.complete => SidecarState::Complete,
            Reading::Tap(_) => SidecarState::Incomplete,
            Reading::Structure(_) if self.damaged => SidecarState::Damaged,
            Reading::Structure(_) => SidecarState::Missing,
        }
    }

    /// The external format in which SBCL read the file; UTF-8 if that is not known.
    pub fn external_format(&self) -> &str {
        match &self.reading {
            Reading::Tap(tapped) => &tapped.sidecar.external_format,
            Reading::Structure(_) => "UTF-8",
        }
    }

    /// The operator of top-level form `form`. From a sidecar only.
    pub fn form_operator(&self, form: u32) -> Option<&Name> {
        let Reading::Tap(tapped) = &self.reading else { return None };
        let form = tapped.sidecar.form(form)?;
        let operator = form.child(form.events.len().checked_sub(1)?, 1)?;
        match form.events[operator].kind {
            EventKind::Symbol(name) => tapped.sidecar.names.get(name as usize),
            _ => None,
        }
    }

    /// The name, without its package, of the function that top-level form `form` defines by DEFUN. From a sidecar only.
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

    /// The decoded text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The names, without their packages, of all symbols and package designators in live text. From a sidecar only.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let by_name = match &self.reading {
            Reading::Tap(tapped) => Some(&tapped.by_name),
            Reading::Structure(_) => None,
        };
        by_name.into_iter().flat_map(|by_name| by_name.keys().map(String::as_str))
    }

    /// The text of `line`, from 1, without its ending.
    pub fn line_text(&self, line: u32) -> Cow<'_, str> {
        let bytes = self.lines.bytes(self.text.as_bytes(), line);
        let text = String::from_utf8_lossy(bytes);
        match (line, self.has_mark, text) {
            (1, true, Cow::Borrowed(text)) => Cow::Borrowed(text.trim_start_matches('\u{feff}')),
            (_, _, text) => text,
        }
    }

    /// The text of the line on which `range` begins, without the blanks at its ends.
    pub fn line_at(&self, range: Range) -> String {
        self.position(range.start).map_or_else(String::new, |at| self.line_text(at.line).trim().to_owned())
    }

    /// Whether a token on `line` of the file as it stands now spells the name of `sought`, whatever its package.
    pub fn has_name_on(&self, sought: &SearchTarget, line: u32) -> bool {
        let text = self.lines.bytes(self.text.as_bytes(), line);
        let read = LispText::read(text, Dialect::CommonLisp, &Features::sbcl());
        read.tokens().iter().any(|token| token.is_named(text, &sought.name))
    }

    /// Where the recorded uses of `sought` stand, in their order. Several places for one only if all of them are that
    /// use; none if the file has no such form any more.
    ///
    /// All records of the file together, so that what one of them surely means is not taken for another's. `means`
    /// tells whether `sought` is what its name means in the package that it is given, by name or nickname.
    pub fn place(
        &self,
        sought: &SearchTarget,
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

    /// The range of sub-form `number` of top-level form `form`.
    pub fn form_range(&self, form: u32, number: u32) -> Option<Range> {
        self.range_in_file(self.first.checked_add(form)?, number)
    }

    /// As [`PositionedFile::form_range`], where forms count from the file's first.
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

    /// Where top-level form `form` of a text from a buffer names what it defines, if that is `sought`: behind its operator.
    pub fn defined_in_buffer(&self, form: u32, sought: &SearchTarget) -> Option<Range> {
        let Reading::Structure(read) = &self.reading else { return None };
        let top = self.range_in_file(self.first.checked_add(form)?, 0).filter(|_| self.of_buffer)?;
        let inside =
            |token: &&Token| token.span.start >= top.start && token.span.end <= top.end && token.active;
        let name = read.tokens().iter().filter(inside).nth(1)?;
        name.is_named(self.text.as_bytes(), &sought.name).then_some(name.span)
    }

    /// The octets before top-level form `form` and the white space and comments in front of it, as SBCL counts them.
    /// None if the file is not what was loaded.
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

    /// The line and column, in characters, of an offset in one of this file's ranges: in the text as it is now. None if that
    /// does not have the form any more. Editors show no byte order mark, so the first line's columns do not count it.
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

    /// The byte at a line and column, as [`PositionedFile::position`] counts them, of the file as it stands now.
    fn offset(&self, LineColumn { line, column }: LineColumn) -> Option<u32> {
        let hidden = u32::from(line == 1 && self.has_mark);
        let position = LineColumn { line, column: column.checked_add(hidden)? };
        self.lines.offset(self.text.as_bytes(), position, PositionEncoding::Characters)
    }

    /// The indices in `bytes`, the file's content, of `range` of its text.
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

    /// The range of what SBCL's reader reported. It counted characters; of a text that is not there any more, they
    /// stand for its bytes.
    fn event_range(&self, sidecar: &Sidecar, event: &ReadEvent) -> Range {
        let at = |character| match self.fresh {
            true => self.byte_of(sidecar, character),
            false => character,
        };
        Range::new(at(event.start), at(event.end))
    }

    /// The byte at a character that SBCL's reader counted.
    fn byte_of(&self, sidecar: &Sidecar, character: u32) -> u32 {
        if self.is_ascii {
            return character;
        }
        let position = recorded_position(sidecar, character);
        let byte = self.lines.offset(self.text.as_bytes(), position, PositionEncoding::Characters);
        byte.unwrap_or(self.text.len() as u32)
    }
}

/// The line of a character that SBCL's reader counted, and its column.
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

/// `bytes` as the external format called `name` decodes them, as far as positions and text are concerned.
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

/// The write date of a file as Lisp counts it: seconds since 1900.
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
    fn a_text_from_a_buffer_is_found_in_its_file() {
        let text = "(a)\n; ä\n(defun f ()\n  1)\n(b)\n(defun f ()\n  1)\n(progn\n  (g))\n";
        let placed = |compiled: &str, position| {
            let file = PositionedFile::of_buffer(Path::new("a.lisp"), text.as_bytes(), compiled, position);
            let line = file.form_range(0, 0).and_then(|range| file.position(range.start)).unwrap().line;
            (line, file.is_fresh())
        };
        // The nearest of those that are the same; positions are characters.
        let same = "(defun f ()\n  1)\n";
        assert_eq!((placed(same, 8), placed(same, 60)), ((3, true), (6, true)));
        assert_eq!(placed("(b)\n(defun f ()\n  1)", 0), (5, true));
        // One that is not saved: the form that begins alike, or else the nearest.
        assert_eq!(placed("(defun f ()\n  2)", 40), (6, false));
        assert_eq!(placed("(defun h ()\n  2)", 4), (3, false));
        assert_eq!((placed("", 0), placed("(h)", 999)), ((1, false), (8, false)));
        // A part of a form has other numbers.
        assert_eq!(placed("(g)", 0), (8, false));
        let empty = PositionedFile::of_buffer(Path::new("a.lisp"), b"", "(f)", 7);
        assert_eq!((empty.form_range(0, 0), empty.octets_before(0)), (None, None));
    }

    #[test]
    fn a_range_leads_to_the_bytes_on_disk() {
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
