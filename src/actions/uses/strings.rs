//! Finds a symbol's name as a complete token in strings, because code may read such a string or
//! compare it with names when it runs. Docstrings and format control strings are left out.

use crate::actions::uses::symbol_uses::SymbolUses;
use crate::actions::uses::unloaded::TextUse;
use crate::answer::Location;
use crate::workspace::{
    Project, TextContext, TextFilter, TextState, TextToken, TokenClass, TreeView, UnloadedText,
};
use steelbank_reader::{Datum, Dialect, Features, FormId, LispText, Marker, Range, Token, TokenKind};
use steelbank_tree::defines_systems;

/// An occurrence of a name in a string.
pub(crate) struct NameInString {
    pub(crate) file: UnloadedText,
    /// The name. For [`StringKind::Equal`], the string with its quotes.
    pub(crate) token: TextToken,
    pub(crate) kind: StringKind,
}

/// How a string contains a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StringKind {
    /// The string is equal to the name, in an argument of STRING-EQUAL regardless of case.
    Equal,
    /// The string is the name in another case, or contains a list with the name.
    Code,
    /// The string contains the name among other words.
    Words,
}

impl NameInString {
    /// Returns the line with the string, for a list of matches in text.
    pub(crate) fn text_use(&self, project: &Project) -> TextUse {
        let place = self.place(project);
        let line = self.file.lines.bytes(self.file.text.as_bytes(), place.line.unwrap_or_default());
        let context = String::from_utf8_lossy(line).trim().to_owned();
        let (tokens, state) = (vec![place.clone()], TextState::InString);
        TextUse { place: place.whole_line(), tokens, context, state, possible: true }
    }

    pub(crate) fn place(&self, project: &Project) -> Location {
        let file = &self.file;
        Location::in_text(project.shown(&file.path), &file.lines, file.text.as_bytes(), self.token.span)
    }
}

/// Finds the strings in the project's Lisp text that contain the name of `uses`, by file and place.
pub(crate) fn strings_naming(project: &Project, view: &TreeView, uses: &SymbolUses<'_>) -> Vec<NameInString> {
    let name = &uses.sought().name;
    // Searches of text already report words with a prefix in files that are not loaded.
    let is_meant = |class: &TokenClass, state: TextState| {
        let prefixed = |prefix: &str| state == TextState::FeatureExcluded && uses.means(prefix);
        class.context == TextContext::Prose
            && class.active
            && class.marker != Marker::Keyword
            && class.prefix.as_deref().is_none_or(prefixed)
    };
    let mut found = Vec::new();
    for file in project.named_at(view, name, TextFilter::All, true).files {
        let state = file.load_state;
        if !file.runs().any(|(_, class, _)| is_meant(class, state)) {
            continue;
        }
        let Some(file) = project.read_named(&file) else { continue };
        let bytes = file.text.as_bytes();
        let strings = Strings { text: &LispText::read(bytes, Dialect::CommonLisp, &Features::sbcl()), bytes };
        for token in file.tokens.named(name).iter().filter(|token| is_meant(token, state)) {
            if let Some((kind, span)) = strings.kind(token, name, defines_systems(&file.path)) {
                let token = TextToken { span, ..token.clone() };
                found.push(NameInString { file: file.clone(), token, kind });
            }
        }
    }
    found
}

struct Strings<'a> {
    text: &'a LispText,
    bytes: &'a [u8],
}

impl Strings<'_> {
    /// Returns how a string contains the word `word`, and the range of the name. Returns `None` if
    /// the word is not in a string, or if code does not read the string.
    fn kind(&self, word: &TextToken, name: &str, is_system: bool) -> Option<(StringKind, Range)> {
        let string = self.text.token_at(word.span.start).filter(|string| string.kind == TokenKind::String)?;
        let is_whole = string.span == Range::new(word.span.start.checked_sub(1)?, word.span.end + 1);
        let is_name = || {
            self.bytes.get(word.span.indices()) == Some(name.as_bytes())
                || string.form.is_some_and(|form| self.operator(form) == "STRING-EQUAL")
        };
        if is_whole && is_name() {
            return Some((StringKind::Equal, string.span));
        }
        // Strings in a system definition name files and systems.
        if is_system || self.is_prose(string) {
            return None;
        }
        let start = string.span.start + 1;
        let inside = self.bytes.get(start as usize..string.span.end as usize - 1)?;
        let read = LispText::read(inside, Dialect::CommonLisp, &Features::sbcl());
        let in_list = || read.token_at(word.span.start - start).is_some_and(|token| token.form.is_some());
        let kind =
            if is_whole || word.prefix.is_some() || in_list() { StringKind::Code } else { StringKind::Words };
        Some((kind, word.span))
    }

    /// Returns the name of a form's operator. Returns an empty string if the form has none.
    fn operator(&self, form: FormId) -> String {
        let head = self.text.form(form).and_then(|form| self.text.head(form));
        head.map(|head| head.symbol(self.bytes).name.into_owned()).unwrap_or_default()
    }

    /// Returns whether `string` is documentation, or a format control of a standard operator.
    fn is_prose(&self, string: &Token) -> bool {
        let Some(form) = string.form else { return false };
        let elements: Vec<Datum> = self.text.elements(form).collect();
        let is_it = |element: &Datum| self.text.span(*element) == string.span;
        let Some(at) = elements.iter().position(is_it) else { return false };
        let before = at.checked_sub(1).and_then(|at| self.text.token(elements[at]));
        let keyword = before.filter(|before| before.marker == Marker::Keyword);
        let keyword = keyword.map(|keyword| keyword.symbol(self.bytes).name);
        let is_called = |names: &str, form: FormId| names.split(' ').any(|name| name == self.operator(form));
        let parent = |form: FormId| self.text.form(form)?.parent;
        let is_local = |form: FormId| is_called("FLET LABELS MACROLET", form);
        // The lambda list and declarations precede a function's docstring, and the body follows it.
        let in_body = at >= 2 && before.is_none() && at + 1 < elements.len();
        matches!(keyword.as_deref(), Some("DOCUMENTATION" | "FORMAT-CONTROL"))
            || is_called(CONTROLLED, form)
            || (at == 3 && is_called(VARIABLES, form))
            || (at >= 2 && is_called(WITHOUT_BODY, form))
            || (in_body
                && (is_called(FUNCTIONS, form) || parent(form).and_then(parent).is_some_and(is_local)))
    }
}

/// Operators with a format control.
const CONTROLLED: &str = "ASSERT BREAK CERROR CHECK-TYPE ERROR FORMAT FORMATTER INVALID-METHOD-ERROR \
    METHOD-COMBINATION-ERROR SIGNAL WARN Y-OR-N-P YES-OR-NO-P";
/// Operators with a name, a value and a docstring.
const VARIABLES: &str = "DEFVAR DEFPARAMETER DEFCONSTANT DEFGLOBAL DEFINE-LOAD-TIME-GLOBAL";
/// Operators with a docstring anywhere after the name.
const WITHOUT_BODY: &str = "DEFSTRUCT DEFSETF DEFINE-MODIFY-MACRO";
/// Operators with a docstring in their body.
const FUNCTIONS: &str = "DEFUN DEFMACRO DEFMETHOD DEFTYPE DEFINE-COMPILER-MACRO DEFINE-SETF-EXPANDER \
    DEFINE-METHOD-COMBINATION LAMBDA";
