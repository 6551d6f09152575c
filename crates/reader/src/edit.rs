//! Edits one definition of a text: finds it by its name or the beginning of its form, and replaces
//! it, deletes it or inserts text next to it.

use super::{Datum, Dialect, Features, FormId, FormKind, LispText, Marker, Range, TokenKind};

/// A definition in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinitionForm {
    /// The range of the form.
    pub span: Range,
    /// The start of the feature expressions in front of the form, or of the form if there are none.
    pub guard_start: u32,
    /// A name of the definition in the syntax that [`find_definitions`] accepts, such as
    /// `(defmethod area :around (square))`.
    pub label: String,
    /// The current package at the form.
    pub package: Option<String>,
}

/// The name of a definition, or a designator of definitions: an operator, a name and, for a method,
/// qualifiers and classes. A designator can omit all but the name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct DefinitionName {
    operator: Option<String>,
    name: String,
    qualifiers: Vec<String>,
    /// The classes of a method's required parameters; `None` if they are not given.
    classes: Option<Vec<String>>,
}

/// Operators that preserve the top-level status of their body forms.
const TRANSPARENT: [&str; 6] =
    ["PROGN", "EVAL-WHEN", "LOCALLY", "MACROLET", "SYMBOL-MACROLET", "COMPILER-LET"];

/// Finds the definitions of `text` that `wanted` designates. `wanted` is a name, such as `area` or
/// `(setf area)`, or the beginning of the form, such as `(defun area)` or `(defmethod area :around
/// (square))`.
///
/// # Errors
///
/// An error message if `wanted` is neither a name nor the beginning of a definition.
pub fn find_definitions(text: &[u8], wanted: &str) -> Result<Vec<DefinitionForm>, String> {
    let wanted = parse_designator(wanted)?;
    let lisp = LispText::read(text, Dialect::CommonLisp, &Features::sbcl());
    let source = EditedText { text, lisp: &lisp };
    Ok(source
        .definitions()
        .into_iter()
        .filter(|(_, named)| matches(&wanted, named))
        .map(|(id, named)| source.form(id, &named))
        .collect())
}

/// Returns all active definitions at top level in `text`, in order, with labels for
/// [`find_definitions`].
pub fn definitions(text: &[u8]) -> Vec<DefinitionForm> {
    let lisp = LispText::read(text, Dialect::CommonLisp, &Features::sbcl());
    let source = EditedText { text, lisp: &lisp };
    source.definitions().iter().map(|(id, named)| source.form(*id, named)).collect()
}

fn matches(wanted: &DefinitionName, named: &DefinitionName) -> bool {
    let operator = match &wanted.operator {
        Some(operator) => named.operator.as_ref() == Some(operator),
        None => true,
    };
    let padded = |classes: &[String], length: usize| {
        let mut classes = classes.to_vec();
        classes.resize(length, "T".to_owned());
        classes
    };
    let classes = match (&wanted.classes, &named.classes) {
        (Some(wanted), Some(found)) => {
            let length = wanted.len().max(found.len());
            padded(wanted, length) == padded(found, length)
        }
        (Some(_), None) => false,
        (None, _) => true,
    };
    // If classes are given without qualifiers, they designate the primary method.
    let qualifiers =
        (wanted.qualifiers.is_empty() && wanted.classes.is_none()) || wanted.qualifiers == named.qualifiers;
    operator && wanted.name == named.name && qualifiers && classes
}

fn parse_designator(wanted: &str) -> Result<DefinitionName, String> {
    let text = wanted.trim().as_bytes();
    let lisp = LispText::read(text, Dialect::CommonLisp, &Features::sbcl());
    let source = EditedText { text, lisp: &lisp };
    let unreadable = || {
        format!(
            "{wanted:?} is not the name of a definition. Give its name, or the beginning of its form: (defun area), (defun (setf area)), \
             (defmethod area :around (square))."
        )
    };
    let [only] = lisp.toplevel() else { return Err(unreadable()) };
    if only.unterminated || !lisp.balanced() {
        return Err(unreadable());
    }
    let plain = |name| DefinitionName { operator: None, name, qualifiers: Vec::new(), classes: None };
    match only.form {
        None => source.name(Datum::Token(only.tokens().start)).map(plain).ok_or_else(unreadable),
        Some(id) => {
            if let Some(name) = source.function_name(id) {
                return Ok(plain(name));
            }
            source.named(id).ok_or_else(unreadable)
        }
    }
}

struct EditedText<'a> {
    text: &'a [u8],
    lisp: &'a LispText,
}

impl EditedText<'_> {
    fn form(&self, id: FormId, named: &DefinitionName) -> DefinitionForm {
        let span = self.lisp.span(Datum::Form(id));
        let toplevel = self.lisp.toplevel_from(span.start);
        DefinitionForm {
            span,
            guard_start: self.lisp.guard_start(span.start),
            label: named.label(),
            package: toplevel.and_then(|toplevel| toplevel.package.as_deref()).map(str::to_owned),
        }
    }

    /// Returns the active definitions at top level, including those inside forms that preserve
    /// top-level status.
    fn definitions(&self) -> Vec<(FormId, DefinitionName)> {
        let mut found = Vec::new();
        let mut look: Vec<FormId> = self.lisp.toplevel().iter().rev().filter_map(|form| form.form).collect();
        while let Some(id) = look.pop() {
            let Some(form) = self.lisp.form(id) else { continue };
            if form.kind != FormKind::List || !form.active {
                continue;
            }
            let head = self.lisp.head(form).map(|head| head.symbol(self.text).name.into_owned());
            if head.is_some_and(|head| TRANSPARENT.contains(&head.as_str())) {
                let inner: Vec<FormId> = self
                    .lisp
                    .elements(id)
                    .skip(1)
                    .filter_map(|element| match element {
                        Datum::Form(id) => Some(id),
                        Datum::Token(_) => None,
                    })
                    .collect();
                look.extend(inner.into_iter().rev());
            } else if let Some(named) = self.named(id) {
                found.push((id, named));
            }
        }
        found
    }

    /// Reads the name of a definition from its operator and the elements after it.
    fn named(&self, id: FormId) -> Option<DefinitionName> {
        let mut elements = self.lisp.elements(id);
        let operator = self.symbol(elements.next()?)?;
        let name = match elements.next()? {
            Datum::Token(index) => self.name(Datum::Token(index))?,
            // The name is in a list, as in `(defstruct (point …))` or `(defun (setf area))`.
            Datum::Form(id) => match self.function_name(id) {
                Some(name) => name,
                None => self.name(self.lisp.elements(id).next()?)?,
            },
        };
        let (mut qualifiers, mut classes) = (Vec::new(), None);
        if operator == "DEFMETHOD" {
            for element in elements {
                match element {
                    Datum::Token(_) => match self.symbol(element) {
                        // `nil` is an empty lambda list.
                        Some(name) if name == "NIL" => {
                            classes = Some(Vec::new());
                            break;
                        }
                        Some(name) => qualifiers.push(name),
                        None => break,
                    },
                    Datum::Form(id) => {
                        classes = Some(self.classes(id));
                        break;
                    }
                }
            }
        }
        Some(DefinitionName { operator: Some(operator), name, qualifiers, classes })
    }

    /// Returns the classes of the required parameters in a specialized lambda list. A list that
    /// contains only symbols and `(eql x)` forms is read as a list of classes.
    fn classes(&self, id: FormId) -> Vec<String> {
        let elements: Vec<Datum> = self.lisp.elements(id).collect();
        let is_key = |datum: &Datum| self.symbol(*datum).is_some_and(|name| name.starts_with('&'));
        let specialized = elements
            .iter()
            .any(|element| matches!(element, Datum::Form(id) if self.eql_specializer(*id).is_none()));
        let required = elements.iter().take_while(|element| !is_key(element));
        required
            .map(|&element| match element {
                Datum::Form(id) => {
                    self.eql_specializer(id).unwrap_or_else(|| match self.lisp.elements(id).nth(1) {
                        Some(Datum::Form(class)) => {
                            self.eql_specializer(class).unwrap_or_else(|| self.plain_text(class))
                        }
                        Some(class) => self.symbol(class).unwrap_or_default(),
                        None => "T".to_owned(),
                    })
                }
                // If another parameter has a class, this is a parameter without one. Otherwise,
                // this is the name of a class.
                Datum::Token(_) if specialized => "T".to_owned(),
                Datum::Token(_) => self.symbol(element).unwrap_or_default(),
            })
            .collect()
    }

    /// Returns the text of an `(eql x)` specializer in upper case, or `None` for other forms.
    fn eql_specializer(&self, id: FormId) -> Option<String> {
        let head = self.lisp.elements(id).next().and_then(|head| self.symbol(head))?;
        (head == "EQL").then(|| self.plain_text(id))
    }

    fn plain_text(&self, id: FormId) -> String {
        let text = self.text.get(self.lisp.span(Datum::Form(id)).indices()).unwrap_or_default();
        String::from_utf8_lossy(text).split_whitespace().collect::<Vec<_>>().join(" ").to_uppercase()
    }

    /// Reads the function name `(setf name)` or `(cas name)` as one name. `None` for any other
    /// list.
    fn function_name(&self, id: FormId) -> Option<String> {
        let elements: Vec<Datum> = self.lisp.elements(id).collect();
        let [operator, name] = elements.as_slice() else { return None };
        let operator = self.symbol(*operator).filter(|name| matches!(name.as_str(), "SETF" | "CAS"))?;
        Some(format!("({operator} {})", self.symbol(*name)?))
    }

    fn symbol(&self, datum: Datum) -> Option<String> {
        let token = self.lisp.token(datum).filter(|token| token.kind == TokenKind::Symbol)?;
        let name = token.symbol(self.text).name;
        Some(if token.marker == Marker::Keyword { format!(":{name}") } else { name.into_owned() })
    }

    /// Returns the defined name: a symbol's name without its package prefix, or the contents of a
    /// string.
    fn name(&self, datum: Datum) -> Option<String> {
        let token = self.lisp.token(datum)?;
        match token.kind {
            TokenKind::Symbol => Some(token.symbol(self.text).name.into_owned()),
            TokenKind::String => {
                let raw = self.text.get(token.span.indices())?.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
                Some(String::from_utf8_lossy(raw).into_owned())
            }
            _ => None,
        }
    }
}

impl DefinitionName {
    fn label(&self) -> String {
        let lower =
            |name: &str| if name == name.to_uppercase() { name.to_lowercase() } else { format!("|{name}|") };
        let mut label = format!("({}", lower(self.operator.as_deref().unwrap_or_default()));
        label.push(' ');
        label.push_str(&lower(&self.name));
        for qualifier in &self.qualifiers {
            label.push(' ');
            label.push_str(&lower(qualifier));
        }
        if let Some(classes) = &self.classes {
            let classes: Vec<String> = classes.iter().map(|class| lower(class)).collect();
            label.push_str(&format!(" ({})", classes.join(" ")));
        }
        label.push(')');
        label
    }
}

/// An edit at a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum EditAction {
    /// Replaces the definition with another form.
    Replace,
    /// Inserts a form before the definition, above its comment and feature expressions (`#+`).
    InsertBefore,
    /// Inserts a form after the definition.
    InsertAfter,
    /// Deletes the definition and the feature expressions in front of it, but not the comment above
    /// it.
    Delete,
}

impl EditAction {
    /// Returns a description of the completed edit in one or two words.
    pub fn done(self) -> &'static str {
        match self {
            Self::Replace => "replaced",
            Self::InsertBefore => "inserted before",
            Self::InsertAfter => "inserted after",
            Self::Delete => "deleted",
        }
    }
}

/// A replacement of `span` in a text by `text`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextEdit {
    /// The range in bytes of the old text; empty for an insertion.
    pub span: Range,
    /// The replacement.
    pub text: String,
}

/// Computes the edit that performs `operation` at `definition`, with the line endings of `text`. A
/// deletion ignores `form`. Verifies, by reading the edited text, that all other top-level forms
/// are unchanged.
///
/// # Errors
///
/// An error message if `form` is an atom or not exactly one form, or if the edit would change how
/// other forms are read.
pub fn edit(
    text: &[u8],
    definition: &DefinitionForm,
    operation: EditAction,
    form: &str,
) -> Result<TextEdit, String> {
    let line_end = if memchr::memmem::find(text, b"\r\n").is_some() { "\r\n" } else { "\n" };
    let form = form.replace("\r\n", "\n");
    let form = form.trim();
    if operation != EditAction::Delete {
        check_one_form(form)?;
    }
    let comment_at_end = ends_in_comment(form);
    let form = form.replace('\n', line_end);
    let blank = format!("{line_end}{line_end}");
    let span = definition.span;
    let edit = match operation {
        EditAction::Replace => {
            let rest = text.get(span.end as usize..).unwrap_or_default();
            let follows = rest.first().is_some_and(|byte| !matches!(byte, b'\r' | b'\n'));
            let end = if comment_at_end && follows { line_end } else { "" };
            TextEdit { span, text: format!("{form}{end}") }
        }
        EditAction::InsertBefore => {
            let at = start_with_comment(text, definition.guard_start);
            TextEdit { span: Range::new(at, at), text: format!("{form}{blank}") }
        }
        EditAction::InsertAfter => {
            let at = end_of_line(text, span.end);
            TextEdit { span: Range::new(at, at), text: format!("{blank}{form}") }
        }
        EditAction::Delete => TextEdit {
            span: deleted(text, Range::new(definition.guard_start, span.end)),
            text: String::new(),
        },
    };
    let changed = apply(text, &edit);
    check_rest(text, definition, operation, &changed)?;
    Ok(edit)
}

/// Applies `edit` to `text`.
pub fn apply(text: &[u8], edit: &TextEdit) -> Vec<u8> {
    let (before, after) = (&text[..edit.span.start as usize], &text[edit.span.end as usize..]);
    [before, edit.text.as_bytes(), after].concat()
}

/// Checks that `form` is exactly one form, apart from comments, and not an atom.
fn check_one_form(form: &str) -> Result<(), String> {
    let text = form.as_bytes();
    let structure = super::structure::check_structure(text, Dialect::CommonLisp);
    let lines = super::lines::LineIndex::new(text);
    if let Some(problem) = structure.problem {
        let super::lines::LineColumn { line, column } = lines.position(text, problem.start);
        return Err(format!(
            "The text is not one form: its structure is broken at line {line}, column {column}. Run check-structure on it for details."
        ));
    }
    let lisp = LispText::read(text, Dialect::CommonLisp, &Features::sbcl());
    match lisp.toplevel() {
        [one] if one.form.is_some() && lisp.balanced() && !one.unterminated => Ok(()),
        [one] if one.form.is_none() => {
            Err("The text is an atom. Give one form that defines something.".to_owned())
        }
        [] => Err("The text contains no form. Give one form.".to_owned()),
        several => Err(format!("The text contains {} forms. Give exactly one.", several.len())),
    }
}

fn ends_in_comment(form: &str) -> bool {
    let lisp = LispText::read(form.as_bytes(), Dialect::CommonLisp, &Features::sbcl());
    lisp.tokens().last().is_some_and(|token| {
        token.kind == TokenKind::Comment
            && token.span.end as usize == form.len()
            && form.as_bytes().get(token.span.start as usize) == Some(&b';')
    })
}

/// Returns the start of the comment lines directly above the form at `start`, or the start of its
/// line if there are none. If other text precedes the form on its line, returns `start`.
pub fn start_with_comment(text: &[u8], start: u32) -> u32 {
    let line_start = |at: usize| memchr::memrchr(b'\n', &text[..at]).map_or(0, |newline| newline + 1);
    let start = start as usize;
    let own = line_start(start);
    if !text[own..start].iter().all(u8::is_ascii_whitespace) {
        // Other text precedes the form on its line.
        return start as u32;
    }
    let mut at = own;
    while at > 0 {
        let above = line_start(at - 1);
        let is_comment = text[above..at].trim_ascii().starts_with(b";");
        if !is_comment {
            break;
        }
        at = above;
    }
    at as u32
}

/// Returns the end of the comment that follows `end` on its line, or `end` if there is none.
fn end_of_line(text: &[u8], end: u32) -> u32 {
    let rest = &text[end as usize..];
    let line = rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
    let tail = rest[..line].trim_ascii();
    match tail.starts_with(b";") {
        true => {
            let kept = rest[..line].strip_suffix(b"\r").unwrap_or(&rest[..line]);
            end + kept.len() as u32
        }
        false => end,
    }
}

/// Extends `span`, the range of a form to delete, to entire lines if nothing else is on them. If an
/// empty line or the start of the text precedes them, also includes an empty line after them. At
/// the end of the text, the empty line before them is included instead.
fn deleted(text: &[u8], span: Range) -> Range {
    let (start, end) = (span.start as usize, span.end as usize);
    let line = memchr::memrchr(b'\n', &text[..start]).map_or(0, |newline| newline + 1);
    let rest = &text[end..];
    let to_end = rest.iter().position(|&byte| byte == b'\n').map_or(rest.len(), |newline| newline + 1);
    let alone = text[line..start].iter().all(u8::is_ascii_whitespace)
        && rest[..to_end].iter().all(u8::is_ascii_whitespace);
    if !alone {
        return span;
    }
    let (mut line, mut end) = (line, end + to_end);
    let blank_before = line == 0 || text[..line].ends_with(b"\n\n") || text[..line].ends_with(b"\r\n\r\n");
    if blank_before {
        let rest = &text[end..];
        if rest.starts_with(b"\n") {
            end += 1;
        } else if rest.starts_with(b"\r\n") {
            end += 2;
        } else if rest.is_empty() && line > 0 {
            // A file should not end with an empty line.
            line -= if text[..line].ends_with(b"\r\n") { 2 } else { 1 };
        }
    }
    Range::new(line as u32, end as u32)
}

/// Checks that all top-level forms are read as before, except the edited form or the form that
/// contains it.
fn check_rest(
    text: &[u8],
    definition: &DefinitionForm,
    operation: EditAction,
    changed: &[u8],
) -> Result<(), String> {
    let forms = |text: &[u8]| -> Vec<Vec<u8>> {
        let lisp = LispText::read(text, Dialect::CommonLisp, &Features::sbcl());
        lisp.toplevel()
            .iter()
            .map(|form| text.get(form.span.indices()).unwrap_or_default().to_vec())
            .collect()
    };
    let lisp = LispText::read(text, Dialect::CommonLisp, &Features::sbcl());
    let place = lisp.toplevel().iter().position(|form| form.span.end >= definition.span.end);
    let at_top = place
        .and_then(|place| lisp.toplevel().get(place))
        .is_some_and(|form| form.span.start == definition.span.start);
    let (before, after) = (forms(text), forms(changed));
    let place = place.unwrap_or(before.len());
    let (old, new) = match operation {
        EditAction::Delete if at_top => (1, 0),
        EditAction::InsertBefore | EditAction::InsertAfter if at_top => (1, 2),
        _ => (1, 1),
    };
    let same = before.len() + new == after.len() + old
        && before.get(..place) == after.get(..place)
        && before.get(place + old..) == after.get(place + new..);
    if same {
        return Ok(());
    }
    Err("Nothing was changed: with this text, the surrounding forms would be read differently. Check its parentheses and quotes."
        .to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "(in-package :app)\n\n;;; Areas\n\n;; Tells.\n(defun area (x)\n  x) ; after\n
(defmethod area ((s square) y) 1)\n(defmethod area :around ((s square) y)\n  2)\n
(progn\n  (defun (setf area) (v x) v)\n  #+ccl (defun hidden ()))\n(defstruct (point (:copier nil)) x)\n
(defmethod area ((s (eql :unit)) y) 3)\n";

    fn labels(wanted: &str) -> Vec<String> {
        let found = find_definitions(TEXT.as_bytes(), wanted).unwrap();
        assert!(found.iter().all(|form| form.package.as_deref() == Some("APP")), "{found:?}");
        found.into_iter().map(|form| form.label).collect()
    }

    fn edited(text: &str, wanted: &str, operation: EditAction, form: &str) -> Result<String, String> {
        let found = find_definitions(text.as_bytes(), wanted).unwrap();
        assert_eq!(found.len(), 1, "{wanted}");
        let edit = edit(text.as_bytes(), &found[0], operation, form)?;
        Ok(String::from_utf8(apply(text.as_bytes(), &edit)).unwrap())
    }

    #[test]
    fn definitions_are_found_by_name_and_kind() {
        assert_eq!(labels("(defun area)"), ["(defun area)"]);
        assert_eq!(labels("area").len(), 4);
        assert_eq!(labels("(defmethod area :around (square))"), ["(defmethod area :around (square t))"]);
        assert_eq!(labels("(defmethod area (square))"), ["(defmethod area (square t))"]);
        assert_eq!(labels("(defmethod area ((s square) y))"), ["(defmethod area (square t))"]);
        assert_eq!(labels("(defmethod area ((eql :unit)))"), ["(defmethod area ((eql :unit) t))"]);
        assert_eq!(labels("(setf area)"), ["(defun (setf area))"]);
        assert_eq!(labels("(defun app::(setf area))"), [""; 0]);
        assert_eq!(labels("point"), ["(defstruct point)"]);
        assert_eq!(labels("app::point"), ["(defstruct point)"]);
        assert_eq!(labels("hidden"), [""; 0]);
        for wrong in ["", "(", "a b", "()", "\"", "(area"] {
            assert!(find_definitions(TEXT.as_bytes(), wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn surrounding_text_is_unchanged() {
        let replaced =
            edited(TEXT, "(defun area)", EditAction::Replace, "(defun area (x y)\n  y)\n").unwrap();
        assert_eq!(replaced, TEXT.replace("(defun area (x)\n  x)", "(defun area (x y)\n  y)"));
        let before = edited(TEXT, "(defun area)", EditAction::InsertBefore, "(defun b ())").unwrap();
        assert_eq!(before, TEXT.replace(";; Tells.\n", "(defun b ())\n\n;; Tells.\n"));
        let after = edited(TEXT, "(defun area)", EditAction::InsertAfter, "(defun b ())").unwrap();
        assert_eq!(after, TEXT.replace("; after\n", "; after\n\n(defun b ())\n"));
        let deleted = edited(TEXT, "point", EditAction::Delete, "").unwrap();
        assert_eq!(deleted, TEXT.replace("(defstruct (point (:copier nil)) x)\n", ""));
        let inner = edited(TEXT, "(setf area)", EditAction::Delete, "").unwrap();
        assert_eq!(inner, TEXT.replace("  (defun (setf area) (v x) v)\n", ""));
        assert_eq!(
            edited("(a)\n\n(defun b ())\n\n(c)\n", "b", EditAction::Delete, "").unwrap(),
            "(a)\n\n(c)\n"
        );
        assert_eq!(edited("(a)\n\n(defun b ())\n", "b", EditAction::Delete, "").unwrap(), "(a)\n");
    }

    #[test]
    fn feature_expressions_are_deleted_with_form() {
        let text = "(a)\n#-sbcl (b)\n;; C.\n#+sbcl\n#-(or ccl) ; why\n(defun c () 1)\n(progn\n  #+sbcl\n  (defun d ()))\n#+sbcl (defun e ())\n";
        let check = |wanted: &str, operation, old: &str, new: &str| {
            let form = if operation == EditAction::Delete { "" } else { "(n)" };
            assert_eq!(
                edited(text, wanted, operation, form).unwrap(),
                text.replacen(old, new, 1),
                "{wanted}"
            );
        };
        check("c", EditAction::Delete, "#+sbcl\n#-(or ccl) ; why\n(defun c () 1)\n", "");
        check("c", EditAction::InsertBefore, ";; C.", "(n)\n\n;; C.");
        check("c", EditAction::InsertAfter, "1)\n", "1)\n\n(n)\n");
        check("c", EditAction::Replace, "(defun c () 1)", "(n)");
        check("d", EditAction::Delete, "#+sbcl\n  (defun d ())", "");
        check("e", EditAction::Delete, "#+sbcl (defun e ())\n", "");
    }

    #[test]
    fn line_endings_match_text() {
        let replaced =
            edited("(a)\r\n(defun f ())\r\n", "f", EditAction::Replace, "(defun f ()\n  1)").unwrap();
        assert_eq!(replaced, "(a)\r\n(defun f ()\r\n  1)\r\n");
        let replaced = edited("(defun f ()) (b)", "f", EditAction::Replace, "(defun f ()) ; one").unwrap();
        assert_eq!(replaced, "(defun f ()) ; one\n (b)");
    }

    #[test]
    fn anything_but_one_form_is_refused() {
        for form in ["", "x", "(a) (b)", "(a", "a)", "(defun f () \"x)", "; (a)", "#+ccl (a)", "(a) x"] {
            assert!(edited(TEXT, "point", EditAction::Replace, form).is_err(), "{form}");
        }
        // An unclosed comment would hide the rest of the text.
        assert!(edited("(defun f ())", "f", EditAction::Replace, "(a) #|").is_err());
    }
}
