//! Reads sidecars: the records that the tap in `lisp/tap/` wrote about a file while SBCL compiled
//! or loaded it. A sidecar contains the file's symbols and lists as the reader saw them (one
//! [`TapForm`] of [`ReadEvent`]s per top-level form), and the uses and local bindings that the
//! compiler reported.
//!
//! The format is described at the top of `lisp/tap/sidecar.lisp`.

use std::path::{Path, PathBuf};

use steelbank_xref::{Kind, SymbolName};

/// The version of the format that this reader supports.
pub const SIDECAR_VERSION: u8 = 3;

/// The report of SBCL's reader and compiler about one file.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Sidecar {
    /// The FNV-1a hash of the file's bytes when it was read.
    pub content_hash: u64,
    /// The size of the file in bytes.
    pub size: u64,
    /// The file's write date (universal time), as in the image's debug sources.
    pub write_date: u64,
    /// The file's native path.
    pub path: PathBuf,
    /// The name of the external format with which the file was decoded, such as `UTF-8` or
    /// `LATIN-1`.
    pub external_format: String,
    /// Whether the file was read to its end.
    pub complete: bool,
    /// The positions of the newlines, in characters.
    pub newlines: Vec<u32>,
    /// The symbols and strings that events refer to.
    pub names: Vec<Name>,
    /// The kind of operator that each of `names` denoted at the end of reading the file.
    pub kinds: Vec<NameKind>,
    /// The top-level forms, in the order of reading.
    pub forms: Vec<TapForm>,
    /// The uses by top-level code, which SBCL does not record.
    pub uses: Vec<TapTopLevelUse>,
    /// Names bound locally: (top-level form, index of the name, whether the name is bound as a
    /// function), sorted.
    pub locals: Vec<(u32, u32, bool)>,
}

/// The kind of operator that a symbol denoted at the end of reading its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NameKind {
    /// A global function.
    Function,
    /// A macro or special operator.
    Macro,
    /// A symbol macro that is not an operator.
    SymbolMacro,
    /// Not an operator, or not an interned symbol.
    Other,
}

/// A symbol or string in the text of a file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Name {
    /// An interned symbol.
    Symbol(SymbolName),
    /// An uninterned symbol such as `#:foo`.
    Uninterned(String),
    /// A string in a package definition.
    Text(String),
}

impl Name {
    /// Returns the name without its package.
    pub fn name(&self) -> &str {
        match self {
            Name::Symbol(SymbolName { name, .. }) | Name::Uninterned(name) | Name::Text(name) => name,
        }
    }

    /// Returns whether this is the symbol `name` of the home package `package`.
    pub fn is(&self, package: &str, name: &str) -> bool {
        matches!(self, Name::Symbol(symbol) if symbol.name == name && symbol.package == package)
    }

    /// Returns the name, if this is a symbol of package COMMON-LISP.
    pub fn standard(&self) -> Option<&str> {
        match self {
            Name::Symbol(symbol) if symbol.package == "COMMON-LISP" => Some(&symbol.name),
            _ => None,
        }
    }
}

/// One top-level form with all events that the reader reported inside it, children before their
/// parent.
#[derive(Debug, Clone)]
pub struct TapForm {
    /// SBCL's number of this form in the file.
    pub number: u32,
    /// The events, in the reader's order.
    pub events: Vec<ReadEvent>,
    /// The events of numbered forms: (number, index of the event), sorted.
    numbered: Vec<(u32, u32)>,
}

/// The kinds of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// A form that the compiler numbered.
    Form(u32),
    /// A list without a number, such as quoted data.
    List,
    /// A symbol, by index into [`Sidecar::names`].
    Symbol(u32),
    /// A string in a package definition, by index into [`Sidecar::names`].
    Text(u32),
    /// Another object with events inside it, such as a vector, a comma or `#.`.
    Other,
}

/// An operator that the reader can abbreviate, such as QUOTE. It determines how the text inside the
/// object is interpreted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Abbreviation {
    /// Another operator, or no operator.
    Any,
    /// `(quote x)` or `'x`.
    Quote,
    /// `(function x)` or `#'x`.
    Function,
    /// A backquoted form.
    Backquote,
    /// A comma inside a backquoted form.
    Comma,
}

/// One object in the text, at the characters from `start` up to `end`.
#[derive(Debug, Clone, Copy)]
pub struct ReadEvent {
    /// The kind of the object.
    pub kind: EventKind,
    /// The object's operator, if it has an abbreviation.
    pub operator: Abbreviation,
    /// The position of the object's first character.
    pub start: u32,
    /// The position after the object's last character.
    pub end: u32,
    /// The object's index in the parent, from 1 (the operator), or 0 if the object is not an
    /// element of the parent.
    pub place: u32,
    /// The index of the innermost event around the object.
    pub parent: Option<u32>,
    /// The index of the first event directly inside the object, or [`NO_EVENT`].
    first_child: u32,
    /// The index of the next event with the same parent, or [`NO_EVENT`].
    next_sibling: u32,
}

/// The index for "no event".
const NO_EVENT: u32 = u32::MAX;

/// One use by top-level code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TapTopLevelUse {
    /// The kind of use.
    pub kind: Kind,
    /// The index of the name in [`Sidecar::names`].
    pub name: u32,
    /// Whether `(setf name)` is used.
    pub setf: bool,
    /// The number of the top-level form.
    pub form: u32,
    /// The number of the sub-form in the top-level form.
    pub number: u32,
}

/// The reason why a sidecar cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SidecarError {
    /// The bytes do not start like a sidecar.
    #[error("this is not a steelbank sidecar; delete it and load the system again")]
    NotASidecar,
    /// The sidecar has a version that this program does not support.
    #[error(
        "the sidecar has version {found}, but this program reads version {SIDECAR_VERSION}; load the system again"
    )]
    Version {
        /// The version found.
        found: u8,
    },
    /// The checksum is wrong, or the bytes end early or contain an invalid value.
    #[error("the sidecar is damaged at byte {offset}; delete it and load the system again")]
    Damaged {
        /// The byte offset of the problem.
        offset: usize,
    },
    /// The file could not be read.
    #[error("the sidecar {} could not be read: {source}", path.display())]
    Unreadable {
        /// The sidecar's path.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
}

impl SidecarError {
    /// Returns whether the file does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, SidecarError::Unreadable { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
    }
}

impl Sidecar {
    /// Reads the sidecar at `path`.
    pub fn read(path: &Path) -> Result<Sidecar, SidecarError> {
        let bytes = steelbank_cache::read(path)
            .map_err(|source| SidecarError::Unreadable { path: path.to_path_buf(), source })?;
        Sidecar::parse(&bytes)
    }

    /// Reads only the names in the sidecar at `path`.
    pub fn read_names(path: &Path) -> Result<Vec<Name>, SidecarError> {
        let bytes = steelbank_cache::read(path)
            .map_err(|source| SidecarError::Unreadable { path: path.to_path_buf(), source })?;
        Ok(Sidecar::parse_head(&bytes)?.1.names)
    }

    /// Decodes `bytes`. Damaged input returns an error, and never panics or loops.
    pub fn parse(bytes: &[u8]) -> Result<Sidecar, SidecarError> {
        let (mut input, head) = Sidecar::parse_head(bytes)?;
        let name_count = head.names.len() as u64;
        let mut start = 0;
        let forms = input.many(|input| {
            let number = input.small()?;
            let events = input.many(|input| input.event(&mut start, name_count))?;
            Ok(TapForm::new(number, events))
        })?;
        let uses = input.many(|input| {
            let kind = match input.byte()? {
                0 => Kind::Binds,
                1 => Kind::Calls,
                2 => Kind::Sets,
                3 => Kind::References,
                4 => Kind::Macroexpands,
                _ => return Err(input.damaged()),
            };
            let (name, setf) = input.name_and_bit(name_count)?;
            Ok(TapTopLevelUse { kind, name, setf, form: input.small()?, number: input.small()? })
        })?;
        let mut locals = input.many(|input| {
            let form = input.small()?;
            let (name, function) = input.name_and_bit(name_count)?;
            Ok((form, name, function))
        })?;
        locals.sort_unstable();
        Ok(Sidecar { forms, uses, locals, ..head })
    }

    /// Decodes the part before the forms. Returns the remaining input, and a sidecar with the other
    /// fields empty.
    fn parse_head(bytes: &[u8]) -> Result<(SidecarBytes<'_>, Sidecar), SidecarError> {
        if bytes.len() < 7 || &bytes[..6] != b"SBTAP\0" {
            return Err(SidecarError::NotASidecar);
        }
        if bytes[6] != SIDECAR_VERSION {
            return Err(SidecarError::Version { found: bytes[6] });
        }
        let Some((bytes, checksum)) = bytes.split_last_chunk::<8>() else {
            return Err(SidecarError::NotASidecar);
        };
        if bytes.len() < 7 || fnv_1a(bytes) != u64::from_le_bytes(*checksum) {
            return Err(SidecarError::Damaged { offset: bytes.len() });
        }
        let mut input = SidecarBytes { bytes, offset: 7 };
        let complete = input.byte()? == 1;
        let content_hash = input.word()?;
        let size = input.unsigned()?;
        let write_date = input.unsigned()?;
        let path = PathBuf::from(input.text()?);
        let external_format = input.text()?;
        let mut next = 0;
        let newlines = input.many(|input| {
            let newline = input.advance(next)?;
            next = i64::from(newline) + 1;
            Ok(newline)
        })?;
        let named = input.many(|input| {
            let byte = input.byte()?;
            let kind = match byte {
                3 => NameKind::Function,
                4 => NameKind::Macro,
                5 => NameKind::SymbolMacro,
                _ => NameKind::Other,
            };
            let name = match byte {
                0 | 3..=5 => Name::Symbol(SymbolName::new(input.text()?, input.text()?)),
                1 => Name::Uninterned(input.text()?),
                2 => Name::Text(input.text()?),
                _ => return Err(input.damaged()),
            };
            Ok((name, kind))
        })?;
        let (names, kinds): (Vec<Name>, Vec<NameKind>) = named.into_iter().unzip();
        let head = Sidecar {
            content_hash,
            size,
            write_date,
            path,
            external_format,
            complete,
            newlines,
            names,
            kinds,
            forms: Vec::new(),
            uses: Vec::new(),
            locals: Vec::new(),
        };
        Ok((input, head))
    }

    /// Returns the top-level form with SBCL's number `number`.
    pub fn form(&self, number: u32) -> Option<&TapForm> {
        self.form_index(number).map(|index| &self.forms[index])
    }

    /// Returns the index in [`Sidecar::forms`] of the top-level form with SBCL's number `number`.
    pub fn form_index(&self, number: u32) -> Option<usize> {
        self.forms.binary_search_by_key(&number, |form| form.number).ok()
    }

    /// Returns the kind of operator that the symbol at index `name` denoted.
    pub fn kind(&self, name: u32) -> NameKind {
        self.kinds.get(name as usize).copied().unwrap_or(NameKind::Other)
    }

    /// Returns whether the symbol at index `name` is bound as a local variable in top-level form
    /// `form`.
    pub fn is_local_variable(&self, form: u32, name: u32) -> bool {
        self.locals.binary_search(&(form, name, false)).is_ok()
    }

    /// Returns whether the symbol at index `name` is bound as a local function in top-level form
    /// `form`.
    pub fn is_local_function(&self, form: u32, name: u32) -> bool {
        self.locals.binary_search(&(form, name, true)).is_ok()
    }

    /// Returns whether SBCL read exactly `bytes`.
    pub fn matches(&self, bytes: &[u8]) -> bool {
        bytes.len() as u64 == self.size && fnv_1a(bytes) == self.content_hash
    }
}

impl ReadEvent {
    /// Returns an event for the characters `range`. [`TapForm::new`] sets its links to other
    /// events.
    pub(crate) fn new(
        kind: EventKind,
        operator: Abbreviation,
        range: std::ops::Range<u32>,
        place: u32,
    ) -> ReadEvent {
        let (start, end) = (range.start, range.end);
        let (parent, first_child, next_sibling) = (None, NO_EVENT, NO_EVENT);
        ReadEvent { kind, operator, start, end, place, parent, first_child, next_sibling }
    }
}

impl TapForm {
    /// Returns the top-level form with this number and these events, which must have children
    /// before their parent.
    pub(crate) fn new(number: u32, mut events: Vec<ReadEvent>) -> TapForm {
        link(&mut events);
        TapForm { number, numbered: numbered(&events), events }
    }

    /// Returns the event of sub-form `number`.
    pub fn sub_form(&self, number: u32) -> Option<usize> {
        self.nearest_sub_form(number).filter(|(found, _)| *found == number).map(|(_, event)| event)
    }

    /// Returns the sub-form with the largest number up to `number`, and its event.
    pub fn nearest_sub_form(&self, number: u32) -> Option<(u32, usize)> {
        let after = self.numbered.partition_point(|(found, _)| *found <= number);
        let (found, event) = self.numbered[after.checked_sub(1)?];
        Some((found, event as usize))
    }

    /// Lists the events directly inside `parent`, in order. Lists nothing if there is no such
    /// event.
    pub fn children(&self, parent: usize) -> impl Iterator<Item = usize> + '_ {
        let index = |event: u32| (event != NO_EVENT).then_some(event as usize);
        let first = self.events.get(parent).and_then(|parent| index(parent.first_child));
        std::iter::successors(first, move |&child| index(self.events[child].next_sibling))
    }

    /// Returns the event that is element `place`, from 1, of `parent`.
    pub fn child(&self, parent: usize, place: u32) -> Option<usize> {
        self.children(parent).find(|&child| self.events[child].place == place && place > 0)
    }

    /// Lists the events around `index`, innermost first. Lists nothing if there is no such event.
    pub fn ancestors(&self, index: usize) -> impl Iterator<Item = usize> + '_ {
        let parent = self.events.get(index).and_then(|event| event.parent);
        std::iter::successors(parent, |&parent| self.events[parent as usize].parent)
            .map(|parent| parent as usize)
    }
}

/// Returns the name of the sidecar for the file `truename`, as written at `write_date` (universal
/// time).
pub fn sidecar_name(truename: &Path, write_date: u64) -> String {
    use std::os::unix::ffi::OsStrExt;
    format!("{:016x}-{}.tap", fnv_1a(truename.as_os_str().as_bytes()), write_date)
}

/// Returns the 64-bit FNV-1a hash of `bytes`.
pub fn fnv_1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Sets each event's parent, first child and next sibling. Children must precede their parent.
fn link(events: &mut [ReadEvent]) {
    let mut open: Vec<u32> = Vec::new();
    for index in 0..events.len() {
        let (start, mut next) = (events[index].start, NO_EVENT);
        while let Some(&child) = open.last() {
            let event = &mut events[child as usize];
            if event.start < start {
                break;
            }
            event.parent = Some(index as u32);
            event.next_sibling = next;
            next = child;
            open.pop();
        }
        events[index].first_child = next;
        open.push(index as u32);
    }
}

/// Lists the numbers of the forms among `events`, sorted, each with its first event.
fn numbered(events: &[ReadEvent]) -> Vec<(u32, u32)> {
    let mut numbered: Vec<(u32, u32)> = (0..)
        .zip(events)
        .filter_map(|(index, event)| match event.kind {
            EventKind::Form(number) => Some((number, index)),
            _ => None,
        })
        .collect();
    numbered.sort_unstable();
    numbered.dedup_by_key(|(number, _)| *number);
    numbered
}

struct SidecarBytes<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl SidecarBytes<'_> {
    fn damaged(&self) -> SidecarError {
        SidecarError::Damaged { offset: self.offset }
    }

    fn byte(&mut self) -> Result<u8, SidecarError> {
        let byte = *self.bytes.get(self.offset).ok_or_else(|| self.damaged())?;
        self.offset += 1;
        Ok(byte)
    }

    fn word(&mut self) -> Result<u64, SidecarError> {
        (0..8).try_fold(0, |word, index| Ok(word | u64::from(self.byte()?) << (8 * index)))
    }

    fn unsigned(&mut self) -> Result<u64, SidecarError> {
        let mut value = 0;
        for shift in (0..63).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Ok(value);
            }
        }
        Err(self.damaged())
    }

    fn signed(&mut self) -> Result<i64, SidecarError> {
        let value = self.unsigned()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn checked(&self, value: i64) -> Result<u32, SidecarError> {
        u32::try_from(value).map_err(|_| self.damaged())
    }

    /// Reads a position. It is stored as a signed distance from the previous position, which is
    /// `lowest` - 1, or from 0 if `lowest` is 0. Returns an error if the position is before
    /// `lowest`.
    fn advance(&mut self, lowest: i64) -> Result<u32, SidecarError> {
        let base = if lowest == 0 { 0 } else { lowest - 1 };
        let value = base.checked_add(self.signed()?).filter(|&value| value >= lowest);
        value.ok_or_else(|| self.damaged()).and_then(|value| self.checked(value))
    }

    fn small(&mut self) -> Result<u32, SidecarError> {
        let value = self.unsigned()?;
        u32::try_from(value).map_err(|_| self.damaged())
    }

    fn text(&mut self) -> Result<String, SidecarError> {
        let length = self.unsigned()? as usize;
        let end = self.offset.checked_add(length).filter(|&end| end <= self.bytes.len());
        let end = end.ok_or_else(|| self.damaged())?;
        let text = std::str::from_utf8(&self.bytes[self.offset..end]).map_err(|_| self.damaged())?;
        self.offset = end;
        Ok(text.to_owned())
    }

    fn many<T>(
        &mut self,
        mut one: impl FnMut(&mut Self) -> Result<T, SidecarError>,
    ) -> Result<Vec<T>, SidecarError> {
        let count = self.unsigned()?;
        // Every entry takes at least one byte, so a damaged count cannot request more memory than
        // the input has.
        if count > (self.bytes.len() - self.offset) as u64 {
            return Err(self.damaged());
        }
        (0..count).map(|_| one(self)).collect()
    }

    fn name_and_bit(&mut self, name_count: u64) -> Result<(u32, bool), SidecarError> {
        let value = self.small()?;
        if u64::from(value >> 1) >= name_count {
            return Err(self.damaged());
        }
        Ok((value >> 1, value & 1 == 1))
    }

    fn event(&mut self, previous: &mut i64, name_count: u64) -> Result<ReadEvent, SidecarError> {
        let kind = self.byte()?;
        *previous = previous.checked_add(self.signed()?).ok_or_else(|| self.damaged())?;
        let start = self.checked(*previous)?;
        let length = self.small()?;
        let end = start.checked_add(length).ok_or_else(|| self.damaged())?;
        let place = self.small()?;
        let operator = match kind >> 4 {
            0 => Abbreviation::Any,
            1 => Abbreviation::Quote,
            2 => Abbreviation::Function,
            3 => Abbreviation::Backquote,
            4 => Abbreviation::Comma,
            _ => return Err(self.damaged()),
        };
        let kind = match kind & 15 {
            0 => EventKind::Form(self.small()?),
            1 => EventKind::List,
            2 | 3 => {
                let name = self.small()?;
                if u64::from(name) >= name_count {
                    return Err(self.damaged());
                }
                if kind & 15 == 2 { EventKind::Symbol(name) } else { EventKind::Text(name) }
            }
            4 => EventKind::Other,
            _ => return Err(self.damaged()),
        };
        Ok(ReadEvent::new(kind, operator, start..end, place))
    }
}
