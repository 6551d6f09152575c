//! Converts tokens to edits: finds the name in the file's bytes, and spells the new name in the
//! same style. An [`Editor`] collects the edits of a rename by file, and the places that it could
//! not edit.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use steelbank_reader::lines::{self, Undecodable};
use steelbank_reader::{Dialect, Features, LispText, Range, normalized, upcase};

use super::defining_form;
use super::plan::{Doubt, FileEdits, RenameEdit};
use crate::answer::Location;
use crate::answer::name::barred;
use crate::source::positions::{Notation, PositionedFile, SymbolToken};
use crate::source::tap::roles::SyntaxRole;
use crate::workspace::{Project, TextContext, TextToken, UnloadedText, version};
use steelbank_text::WordMatch;

/// An occurrence of the name in text.
#[derive(Clone)]
pub(super) struct TextPlace {
    pub(super) file: UnloadedText,
    pub(super) token: TextToken,
}

impl TextPlace {
    fn location(&self, project: &Project) -> Location {
        let bytes = self.file.text.as_bytes();
        Location::in_text(project.shown(&self.file.path), &self.file.lines, bytes, self.token.span)
    }

    /// Returns the place of the name itself, without its prefix.
    fn name_location(&self, project: &Project) -> Location {
        let name = Range::new(self.token.name_start, self.token.span.end);
        Location::in_text(project.shown(&self.file.path), &self.file.lines, self.file.text.as_bytes(), name)
    }

    fn doubt(&self, project: &Project, reason: &str) -> Doubt {
        let (bytes, lines) = (self.file.text.as_bytes(), &self.file.lines);
        let place = self.location(project);
        let context = lines.bytes(bytes, place.line.unwrap_or_default());
        let context = String::from_utf8_lossy(context).trim().to_owned();
        Doubt { place, context, reason: reason.to_owned() }
    }
}

/// A file on disk, read once for all of its places.
struct Opened {
    path: PathBuf,
    bytes: Vec<u8>,
    /// Whether the file still has the text where the places were found.
    is_same: bool,
    /// Whether byte offsets in the text and in the file are the same, as in UTF-8.
    is_utf8: bool,
    hash: String,
}

impl Opened {
    fn new(project: &Project, place: &TextPlace) -> Option<Self> {
        let path = place.file.path.clone();
        let bytes = project.read(&path).ok()?;
        let is_same = lines::decode(&bytes) == *place.file.text;
        let is_utf8 = std::str::from_utf8(&bytes).is_ok();
        let hash = version(&bytes);
        Some(Self { path, bytes, is_same, is_utf8, hash })
    }

    /// Returns the byte range in the file for `range` of the text.
    fn span(&self, range: std::ops::Range<usize>) -> Option<std::ops::Range<usize>> {
        if self.is_utf8 {
            return Some(range);
        }
        let at = |offset| lines::undecoded(&self.bytes, offset, Undecodable::Latin1);
        Some(at(range.start)?..at(range.end)?)
    }
}

/// Collects the edits by file.
pub(super) struct Editor<'a> {
    project: &'a Project,
    name: String,
    new: String,
    files: BTreeMap<PathBuf, BTreeSet<RenameEdit>>,
    hashes: BTreeMap<PathBuf, String>,
    /// The files that are not Lisp.
    other: BTreeSet<PathBuf>,
    doubtful: Vec<Doubt>,
}

impl<'a> Editor<'a> {
    pub(super) fn new(project: &'a Project, name: &str, new: &str) -> Self {
        Editor {
            project,
            name: name.to_owned(),
            new: new.to_owned(),
            files: BTreeMap::new(),
            hashes: BTreeMap::new(),
            other: BTreeSet::new(),
            doubtful: Vec::new(),
        }
    }

    /// Returns a [`Doubt`] with `reason` for each place in `places` that is not edited.
    pub(super) fn doubts(&self, places: &[TextPlace], reason: &str) -> Vec<Doubt> {
        let edited: BTreeSet<Location> =
            self.files.values().flatten().map(|edit| edit.place.clone().start()).collect();
        let is_left = |place: &&TextPlace| {
            let (whole, name) = (place.location(self.project), place.name_location(self.project));
            !edited.contains(&whole.start()) && !edited.contains(&name.start())
        };
        places.iter().filter(is_left).map(|place| place.doubt(self.project, reason)).collect()
    }

    /// Adds the edits and doubtful places of the editor for another name.
    pub(super) fn absorb(&mut self, other: Editor<'a>) {
        for (path, edits) in other.files {
            self.files.entry(path).or_default().extend(edits);
        }
        self.hashes.extend(other.hashes);
        self.doubtful.extend(other.doubtful);
    }

    /// Adds the tokens that SBCL's reader reported in a file.
    pub(super) fn tapped(&mut self, path: &Path, tokens: &[SymbolToken]) {
        let Some(date) = self.project.loaded_date(path) else { return };
        let (Ok(bytes), Ok(file)) = (self.project.read(path), self.project.positions(path, date)) else {
            return;
        };
        let Some(encoding) = Encoding::of(&bytes, file.external_format()) else {
            for token in tokens {
                self.doubt(path, &file, token.range, "the file's encoding is unknown");
            }
            return;
        };
        self.hashes.insert(path.to_path_buf(), version(&bytes));
        for token in tokens {
            // Skip LOOP keywords: LOOP compares them by name, so they need no edit.
            if token.role == SyntaxRole::LoopKeyword {
                continue;
            }
            let Some(std::ops::Range { start, end }) = file.range_on_disk(&bytes, token.range) else {
                continue;
            };
            let written = bytes.get(start..end).unwrap_or_default();
            let kind = match token.written {
                Notation::Text => EditKind::Text,
                _ => EditKind::Symbol,
            };
            let key = token.key_parameter.then(|| key_form(&bytes[..start]));
            match self.edit(written, kind, key) {
                Some((from, to, new)) => {
                    // A symbol of another package may designate the renamed symbol. Replace such a
                    // token completely, with its package prefix.
                    let from = if token.written == Notation::Namesake { 0 } else { from };
                    let before = encoding.decoded(&written[..from]).map_or(0, |before| before.len() as u32);
                    let name = Range::new(token.range.start + before, token.range.end);
                    let old = encoding.decoded(&written[from..to]);
                    let (Some(encoded), Some(old)) = (encoding.can_encode(&new).then_some(new), old) else {
                        let why = "the new name cannot be written in the file's encoding";
                        self.doubt(path, &file, token.range, why);
                        continue;
                    };
                    self.files.entry(path.to_path_buf()).or_default().insert(RenameEdit {
                        range: Range::of(start + from..start + to),
                        place: Location::placed(self.project.shown(path), &file, name),
                        old,
                        new: encoded,
                    });
                }
                None => {
                    let why = "the text at this place is not the name";
                    self.doubt(path, &file, token.range, why);
                }
            }
        }
    }

    /// Adds edits of defining forms.
    pub(super) fn forms(&mut self, edits: &[(PathBuf, Range, defining_form::FormEdit)]) {
        for (path, range, written) in edits {
            let Some(date) = self.project.loaded_date(path) else { continue };
            let (Ok(bytes), Ok(file)) =
                (steelbank_tree::read_source(path), self.project.positions(path, date))
            else {
                continue;
            };
            let Some(encoding) = Encoding::of(&bytes, file.external_format()) else { continue };
            let Some(std::ops::Range { start, end }) = file.range_on_disk(&bytes, *range) else { continue };
            let Some(old) = bytes.get(start..end).and_then(|old| encoding.decoded(old)) else { continue };
            let new = match written {
                defining_form::FormEdit::Pair(name) => format!("({old} {})", spelled(name, b"x")),
                defining_form::FormEdit::Keyword(name) => format!(":{}", spelled(name, old.as_bytes())),
                defining_form::FormEdit::Option { keyword, name, bare } => {
                    let (open, close) = if *bare { ("(", ")") } else { ("", "") };
                    format!("{open}{old} ({keyword} {}){close}", spelled(name, old.as_bytes()))
                }
            };
            if !encoding.can_encode(&new) {
                self.doubt(path, &file, *range, "the new name cannot be written in the file's encoding");
                continue;
            }
            self.hashes.insert(path.clone(), version(&bytes));
            self.files.entry(path.clone()).or_default().insert(RenameEdit {
                range: Range::of(start..end),
                place: Location::placed(self.project.shown(path), &file, *range),
                old,
                new,
            });
        }
    }

    fn doubt(&mut self, path: &Path, file: &PositionedFile, at: Range, reason: &str) {
        let place = Location::placed(self.project.shown(path), file, at);
        self.doubtful.push(Doubt { place, context: file.line_at(at), reason: reason.to_owned() });
    }

    /// Adds edits for places in text that SBCL's reader did not report.
    pub(super) fn text(&mut self, places: &[TextPlace]) {
        let mut opened: Option<Opened> = None;
        for place in places {
            let path = &place.file.path;
            if opened.as_ref().is_none_or(|opened| opened.path != *path) {
                opened = Opened::new(self.project, place);
            }
            let Some(opened) = &opened else { continue };
            let bytes = opened.bytes.as_slice();
            if !opened.is_same {
                let why = "the file has just changed";
                self.doubtful.push(place.doubt(self.project, why));
                continue;
            }
            let Some(span) = opened.span(place.token.span.indices()) else { continue };
            let Some(written) = bytes.get(span.clone()) else { continue };
            let kind = match place.token.context {
                _ if written.starts_with(b"\"") => EditKind::Text,
                TextContext::Prose | TextContext::Read | TextContext::Comment => EditKind::Word,
                _ => EditKind::Symbol,
            };
            let is_key = kind == EditKind::Symbol
                && matches!(place.token.context, TextContext::Code | TextContext::Parameter)
                && place.file.is_key_parameter(place.token.span.start);
            let key = is_key.then(|| key_form(&bytes[..span.start]));
            let edit = self.edit(written, kind, key);
            match edit {
                Some((from, to, new)) if opened.is_utf8 || new.is_ascii() => {
                    self.hashes.insert(path.clone(), opened.hash.clone());
                    self.files.entry(path.clone()).or_default().insert(RenameEdit {
                        range: Range::of(span.start + from..span.start + to),
                        place: match from {
                            0 => place.location(self.project),
                            _ => place.name_location(self.project),
                        },
                        old: lines::decode(&written[from..to]).into_owned(),
                        new,
                    });
                }
                unwritten => {
                    let why = match unwritten {
                        None => "the text at this place is not the name",
                        Some(_) => "the new name cannot be written in the file's encoding",
                    };
                    self.doubtful.push(place.doubt(self.project, why));
                }
            }
        }
    }

    /// Adds edits of words in text that is not Lisp. `words` is sorted by file and place.
    pub(super) fn words(&mut self, root: &Path, words: &[WordMatch]) {
        for words in words.chunk_by(|left, right| left.path == right.path) {
            let Some(WordMatch { path: relative, .. }) = words.first() else { continue };
            let path = root.join(relative);
            let Ok(bytes) = self.project.read(&path) else { continue };
            let is_utf8 = std::str::from_utf8(&bytes).is_ok();
            self.other.insert(path.clone());
            self.hashes.insert(path.clone(), version(&bytes));
            for word in words {
                let place = Location::new(self.project.shown(&path)).at(word.at);
                let written = bytes.get(word.range.indices()).unwrap_or_default();
                let old = lines::decode(written).into_owned();
                let new = spelled(&self.new, written);
                let is_same = old.to_lowercase() == self.name.to_lowercase();
                if is_same && (is_utf8 || new.is_ascii()) {
                    let edit = RenameEdit { range: word.range, place, old, new };
                    self.files.entry(path.clone()).or_default().insert(edit);
                } else {
                    let reason = match is_same {
                        false => "the file has just changed",
                        true => "the new name cannot be written in the file's encoding",
                    };
                    self.doubtful.push(Doubt { place, context: old, reason: reason.to_owned() });
                }
            }
        }
    }

    /// Finds the part of a token to replace, and its replacement. Returns `None` if the token does
    /// not read as the name.
    fn edit(&self, written: &[u8], kind: EditKind, key: Option<KeyForm>) -> Option<(usize, usize, String)> {
        if kind == EditKind::Text {
            let inside = written.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
            let same = String::from_utf8_lossy(inside).replace('\\', "") == self.name;
            let new = self.new.replace('\\', "\\\\").replace('"', "\\\"");
            return same.then_some((1, written.len() - 1, new));
        }
        let read = LispText::read(written, Dialect::CommonLisp, &Features::sbcl());
        let [token] = read.tokens() else { return None };
        if !token.is_named(written, &self.name) {
            return None;
        }
        let (from, to) = (token.name_start as usize, token.span.end as usize);
        let old = &written[from..to];
        let new = spelled(&self.new, old);
        match key {
            None => Some((from, to, new)),
            // Write the old keyword explicitly, so that callers need not change.
            Some(form) => {
                let keyword = String::from_utf8_lossy(old);
                let whole = match form {
                    KeyForm::Bare => format!("((:{keyword} {new}))"),
                    KeyForm::InList => format!("(:{keyword} {new})"),
                };
                Some((0, written.len(), whole))
            }
        }
    }

    /// Returns the files with their edits, sorted, and the places that could not be edited. If
    /// edits overlap, only the first remains.
    pub(super) fn finish(self) -> (Vec<FileEdits>, Vec<Doubt>) {
        let mut files = Vec::new();
        for (path, edits) in self.files {
            let mut kept: Vec<RenameEdit> = Vec::with_capacity(edits.len());
            for edit in edits {
                if kept.last().is_none_or(|last| last.range.end <= edit.range.start) {
                    kept.push(edit);
                }
            }
            files.push(FileEdits {
                path: self.project.shown(&path),
                other: self.other.contains(&path),
                hash: self.hashes.get(&path).cloned().unwrap_or_default(),
                edits: kept,
            });
        }
        (files, self.doubtful)
    }
}

/// Spells `name` like `old`: in lower or upper case, or between bars if `old` has bars or `name`
/// needs them. Bars are kept, because a name between bars does not depend on the readtable's case.
fn spelled(name: &str, old: &[u8]) -> String {
    let plain = !name.is_empty()
        && !old.iter().any(|byte| matches!(byte, b'|' | b'\\'))
        && name.chars().all(|char| upcase(char) == char)
        && normalized(name) == name
        && !name.contains(|char: char| char.is_whitespace() || "|\\\"'(),;`:#".contains(char))
        && name.chars().any(char::is_alphabetic);
    if !plain {
        return barred(name);
    }
    let upper = old.iter().any(u8::is_ascii_uppercase) && !old.iter().any(u8::is_ascii_lowercase);
    if upper { name.to_owned() } else { name.to_lowercase() }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EditKind {
    /// A symbol, with or without its package.
    Symbol,
    /// A string with its quotes.
    Text,
    /// A word in a string or comment.
    Word,
}

/// The syntax of a `&key` parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyForm {
    /// `name`
    Bare,
    /// `(name default)`
    InList,
}

fn key_form(before: &[u8]) -> KeyForm {
    match before.trim_ascii_end().last() {
        Some(b'(') => KeyForm::InList,
        _ => KeyForm::Bare,
    }
}

/// A file's encoding.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Ascii,
    Utf8,
    /// UTF-8 with invalid bytes in comments. SBCL's reader skips these bytes and does not count
    /// them.
    Damaged,
    /// Latin-1: every byte is a character.
    Latin,
}

impl Encoding {
    /// Detects the encoding of `bytes`. Returns `None` if `format` is not supported here.
    fn of(bytes: &[u8], format: &str) -> Option<Encoding> {
        match format {
            _ if bytes.is_ascii() => Some(Encoding::Ascii),
            "UTF-8" | "UTF8" if std::str::from_utf8(bytes).is_err() => Some(Encoding::Damaged),
            "UTF-8" | "UTF8" => Some(Encoding::Utf8),
            "LATIN-1" | "ISO-8859-1" | "LATIN1" | "ISO8859-1" => Some(Encoding::Latin),
            _ => None,
        }
    }

    fn decoded(self, bytes: &[u8]) -> Option<String> {
        match self {
            Encoding::Latin => Some(bytes.iter().map(|&byte| char::from(byte)).collect()),
            Encoding::Ascii | Encoding::Utf8 | Encoding::Damaged => String::from_utf8(bytes.to_vec()).ok(),
        }
    }

    fn can_encode(self, text: &str) -> bool {
        match self {
            // Write only ASCII: other programs may read the file in another encoding.
            Encoding::Latin | Encoding::Damaged => text.is_ascii(),
            Encoding::Ascii | Encoding::Utf8 => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_encoding_is_not_written() {
        assert!(Encoding::of("ä".as_bytes(), "UTF-8") == Some(Encoding::Utf8));
        assert!(Encoding::of(b"\xe4(x)", "LATIN-1") == Some(Encoding::Latin));
        assert!(Encoding::of(b"\xe4", "UTF-8") == Some(Encoding::Damaged));
        assert!(Encoding::of(b"\xe4", "EUC-JP").is_none());
    }

    #[test]
    fn key_parameter_form_is_detected() {
        assert_eq!(key_form(b"(&key "), KeyForm::Bare);
        assert_eq!(key_form(b"(&key ("), KeyForm::InList);
    }

    #[test]
    fn new_name_is_spelt_like_old() {
        let project = Project::new(None);
        let editor = Editor::new(&project, "OLD", "NEW-NAME");
        let check = |written: &str, kind, key, expected: &str| {
            let (from, to, new) = editor.edit(written.as_bytes(), kind, key).unwrap();
            assert_eq!(format!("{}{new}{}", &written[..from], &written[to..]), expected);
        };
        check("old", EditKind::Symbol, None, "new-name");
        check("OLD", EditKind::Symbol, None, "NEW-NAME");
        check("p::Old", EditKind::Symbol, None, "p::new-name");
        check("#:old", EditKind::Symbol, None, "#:new-name");
        check("|OLD|", EditKind::Symbol, None, "|NEW-NAME|");
        check("\"OLD\"", EditKind::Text, None, "\"NEW-NAME\"");
        check("old", EditKind::Symbol, Some(KeyForm::Bare), "((:old new-name))");
        check("old", EditKind::Symbol, Some(KeyForm::InList), "(:old new-name)");
        assert!(editor.edit(b"older", EditKind::Symbol, None).is_none());
        let editor = Editor::new(&project, "OLD", "Mixed");
        assert_eq!(spelled(&editor.new, b"old"), "|Mixed|");
    }
}
