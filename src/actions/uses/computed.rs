//! Finds code that generates names from strings at run time, such as `(intern (format nil "~A-~A"
//! name '#:kind))`. The names are unknown until the code runs, but the constant parts show which
//! names are possible. A load reveals the names that macros generate.

use std::sync::Arc;

use steelbank_reader::operators::{look_ups, looks_up};
use steelbank_reader::{
    Datum, Dialect, Features, FormId, FormKind, LispText, Marker, Token, TokenKind, upcase,
};

use crate::answer::Location;
use crate::handle::context::QueryContext;
use crate::workspace::{Project, ProjectText, TextFilter, TreeView, UnloadedText};

/// Operators that intern a symbol from strings, in addition to those in the reader's table of
/// operators.
const INTERNING_OPERATORS: [&str; 4] = ["SYMBOLICATE", "FORMAT-SYMBOL", "CONCAT-SYMBOL", "MAKE-KEYWORD"];

/// A call that interns a computed name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ComputedName {
    pub(crate) place: Location,
    template: Vec<NamePart>,
    /// The package that the call gives as a constant, to look the name up or intern it there.
    pub(crate) package: Option<String>,
    /// Whether the call runs at macro expansion. If so, a load reveals its names.
    pub(crate) in_macro: bool,
    /// Whether the call interns keywords.
    pub(crate) keyword: bool,
}

/// A part of a computed name.
#[derive(Debug, Clone, PartialEq, Eq)]
enum NamePart {
    /// Constant text, upcased.
    Constant(String),
    /// One of the elements of a quoted list, upcased.
    OneOf(Vec<String>),
    /// Any text.
    Open,
}

impl ComputedName {
    /// Returns whether no constant part has a letter or digit. The template then excludes hardly
    /// any name.
    pub(crate) fn is_open(&self) -> bool {
        let has_word = |part: &NamePart| match part {
            NamePart::Constant(text) => text.contains(char::is_alphanumeric),
            NamePart::OneOf(_) => true,
            NamePart::Open => false,
        };
        !self.template.iter().any(has_word)
    }

    pub(crate) fn may_make(&self, name: &str) -> bool {
        fits(&self.template, &name.chars().map(upcase).collect::<String>())
    }

    /// Returns the name that the call makes from `part` if the template has one open part and a
    /// word beside it. Returns `None` for other templates.
    pub(crate) fn filled(&self, part: &str) -> Option<String> {
        let open = self.template.iter().filter(|part| **part == NamePart::Open).count();
        let parts = self.template.iter().map(|each| match each {
            NamePart::Constant(text) => Some(text.as_str()),
            NamePart::Open => Some(part),
            NamePart::OneOf(_) => None,
        });
        (open == 1 && !self.is_open() && !self.keyword).then(|| parts.collect())?
    }
}

fn fits(template: &[NamePart], name: &str) -> bool {
    match template {
        [] => name.is_empty(),
        [NamePart::Constant(text), rest @ ..] => {
            name.strip_prefix(text.as_str()).is_some_and(|name| fits(rest, name))
        }
        [NamePart::OneOf(texts), rest @ ..] => {
            texts.iter().any(|text| name.strip_prefix(text.as_str()).is_some_and(|name| fits(rest, name)))
        }
        [NamePart::Open, NamePart::Open, ..] => fits(&template[1..], name),
        [NamePart::Open, rest @ ..] => {
            name.char_indices().any(|(at, _)| fits(rest, &name[at..])) || fits(rest, "")
        }
    }
}

/// The computed names in the project's text, cached until that text changes.
struct KnownComputedNames {
    text: ProjectText,
    names: Arc<Vec<ComputedName>>,
}

/// Returns the computed names in the project's text.
pub(crate) fn all_computed_names(context: &QueryContext<'_>, view: &TreeView) -> Arc<Vec<ComputedName>> {
    let project = context.project;
    let text = project.text_now(view);
    let known = |known: &KnownComputedNames| (known.text == text).then(|| Arc::clone(&known.names));
    if let Some(names) = context.memo.get(known) {
        return names;
    }
    let operators = INTERNING_OPERATORS.into_iter().chain(look_ups());
    let mut files: Vec<_> = operators
        .flat_map(|operator| project.named_at(view, operator, TextFilter::All, true).files)
        .collect();
    files.sort_by(|left, right| left.path.cmp(&right.path));
    files.dedup_by(|left, right| left.path == right.path);
    let texts = files.iter().filter_map(|file| project.read_named(file));
    let names = Arc::new(texts.flat_map(|text| computed_names(project, &text)).collect::<Vec<_>>());
    context.memo.put(KnownComputedNames { text, names: Arc::clone(&names) });
    names
}

fn computed_names(project: &Project, file: &UnloadedText) -> Vec<ComputedName> {
    let bytes = file.text.as_bytes();
    let read = LispText::read(bytes, Dialect::CommonLisp, &Features::sbcl());
    let templates = Templates { text: &read, bytes };
    let shown = project.shown(&file.path);
    let calls = (0..read.forms().len()).map(FormId::new).filter_map(|id| {
        let (template, form) = (templates.of_call(id)?, read.form(id)?);
        let package = templates.package_of_call(id);
        let keyword =
            |token: &Token| matches!(token.designated(bytes).as_deref(), Some("KEYWORD" | "MAKE-KEYWORD"));
        Some(ComputedName {
            place: Location::in_text(&shown, &file.lines, bytes, form.span).whole_line(),
            template,
            package,
            in_macro: templates.is_in_macro(id),
            keyword: read.tokens()[form.tokens()].iter().any(keyword),
        })
    });
    calls.collect()
}

struct Templates<'a> {
    text: &'a LispText,
    bytes: &'a [u8],
}

impl Templates<'_> {
    /// Returns the operator and arguments of a list. Returns `None` if the first element is not a
    /// symbol, is a keyword, or is excluded by a feature expression.
    fn call(&self, id: FormId) -> Option<(String, Vec<Datum>)> {
        let form = self.text.form(id).filter(|form| form.kind == FormKind::List)?;
        let head = self.text.head(form).filter(|head| head.kind == TokenKind::Symbol && head.active)?;
        (head.marker != Marker::Keyword)
            .then(|| (head.symbol(self.bytes).name.into_owned(), self.text.elements(id).skip(1).collect()))
    }

    /// Returns whether a form is in a definition of a macro or compiler macro, or in a MACROLET,
    /// even in the body of the latter.
    fn is_in_macro(&self, id: FormId) -> bool {
        const MACROS: [&str; 3] = ["DEFMACRO", "DEFINE-COMPILER-MACRO", "MACROLET"];
        let around = std::iter::successors(Some(id), |id| self.text.form(*id)?.parent);
        around.filter_map(|id| self.call(id)).any(|(operator, _)| MACROS.contains(&operator.as_str()))
    }

    /// Returns the template of the name that a call interns. Returns `None` if it interns nothing
    /// or a constant name.
    fn of_call(&self, id: FormId) -> Option<Vec<NamePart>> {
        let (operator, arguments) = self.call(id)?;
        let template = match INTERNING_OPERATORS.contains(&operator.as_str()) {
            true => self.of_form(id),
            false => {
                let at = (0..arguments.len()).find(|at| looks_up(&operator, *at))?;
                self.of_datum(arguments[at])
            }
        };
        let is_constant = |part: &NamePart| matches!(part, NamePart::Constant(_));
        (!template.iter().all(is_constant)).then_some(template)
    }

    /// Returns the package that a call such as `(intern name :shop)` gives as a constant.
    fn package_of_call(&self, id: FormId) -> Option<String> {
        let (operator, arguments) = self.call(id)?;
        let name = (0..arguments.len()).find(|at| looks_up(&operator, *at))?;
        let mut package = *arguments.get(usize::from(name == 0))?;
        if let Datum::Form(form) = package
            && let Some((operator, arguments)) = self.call(form)
            && operator == "FIND-PACKAGE"
        {
            package = *arguments.first()?;
        }
        match self.of_datum(package).as_slice() {
            [NamePart::Constant(package)] => Some(package.clone()),
            _ => None,
        }
    }

    fn of_datum(&self, datum: Datum) -> Vec<NamePart> {
        match datum {
            Datum::Form(id) => self.of_form(id),
            Datum::Token(at) => {
                let Some(token) = self.text.tokens().get(at) else { return vec![NamePart::Open] };
                let is_variable = token.kind == TokenKind::Symbol
                    && !matches!(token.marker, Marker::Keyword | Marker::Uninterned);
                let part = match is_variable {
                    true => self.elements_of(token, 0).map(NamePart::OneOf),
                    false => token.designated(self.bytes).map(constant_part),
                };
                vec![part.unwrap_or(NamePart::Open)]
            }
        }
    }

    fn of_form(&self, id: FormId) -> Vec<NamePart> {
        if self.text.form(id).is_some_and(|form| form.kind == FormKind::Quote) {
            let quoted = self.text.elements(id).next().and_then(|datum| self.text.token(datum));
            return vec![
                quoted.and_then(|token| token.designated(self.bytes)).map_or(NamePart::Open, constant_part),
            ];
        }
        let Some((operator, arguments)) = self.call(id) else { return vec![NamePart::Open] };
        let all = |arguments: &[Datum]| arguments.iter().flat_map(|each| self.of_datum(*each)).collect();
        let rest = arguments.get(1..).unwrap_or_default();
        match operator.as_str() {
            "SYMBOLICATE" | "CONCAT-SYMBOL" | "STRCAT" | "CAT" => all(&arguments),
            "CONCATENATE" => all(rest),
            "FORMAT" | "FORMAT-SYMBOL" => self.of_format(rest),
            "STRING" | "STRING-UPCASE" | "STRING-DOWNCASE" | "SYMBOL-NAME" | "PRINC-TO-STRING"
            | "MAKE-KEYWORD" => {
                arguments.first().map_or_else(|| vec![NamePart::Open], |first| self.of_datum(*first))
            }
            _ => vec![NamePart::Open],
        }
    }

    /// Returns the upcased elements of the quoted list that `variable` iterates over or holds.
    /// Follows at most two variables.
    fn elements_of(&self, variable: &Token, followed: usize) -> Option<Vec<String>> {
        let name = variable.symbol(self.bytes).name;
        let at = |parts: &[Datum]| {
            parts
                .iter()
                .position(|part| self.text.token(*part).is_some_and(|part| part.is_named(self.bytes, &name)))
        };
        // In LOOP, a keyword such as IN precedes the list.
        let after = |parts: &[Datum]| {
            let lists = parts.iter().skip(at(parts)? + 1).take(2);
            lists.into_iter().find_map(|part| self.elements_in(*part, followed))
        };
        let around = std::iter::successors(variable.form, |id| self.text.form(*id)?.parent);
        let globals = self.text.toplevel().iter().filter_map(|toplevel| toplevel.form);
        around.chain(globals).find_map(|id| {
            let (operator, arguments) = self.call(id)?;
            let bindings = arguments.first().map(|first| self.text.parts(*first)).unwrap_or_default();
            match operator.as_str() {
                "LOOP" | "DEFVAR" | "DEFPARAMETER" => after(&arguments),
                "DOLIST" => after(&bindings),
                "LET" | "LET*" => bindings.iter().find_map(|binding| after(&self.text.parts(*binding))),
                // An argument of a function such as MAPCAR, for the same parameter.
                "LAMBDA" => {
                    let at = at(&bindings)?;
                    let mut callers =
                        std::iter::successors(Some(id), |id| self.text.form(*id)?.parent).skip(1);
                    let caller = callers.find(|id| self.call(*id).is_some())?;
                    let lists = self.text.parts(Datum::Form(caller)).into_iter();
                    lists.filter_map(|list| self.elements_in(list, followed)).nth(at)
                }
                _ => None,
            }
        })
    }

    fn elements_in(&self, list: Datum, followed: usize) -> Option<Vec<String>> {
        if let Some(variable) = self.text.token(list) {
            let is_followed = followed < 2 && variable.kind == TokenKind::Symbol;
            return is_followed.then(|| self.elements_of(variable, followed + 1))?;
        }
        let Datum::Form(quote) = list else { return None };
        self.text.form(quote).filter(|form| form.kind == FormKind::Quote)?;
        let elements = self.text.parts(*self.text.parts(list).first()?);
        let names = elements.iter().filter_map(|part| self.text.token(*part)?.designated(self.bytes));
        Some(names.map(|name| name.chars().map(upcase).collect()).collect())
    }

    /// Returns the template of a format control string with its arguments.
    fn of_format(&self, arguments: &[Datum]) -> Vec<NamePart> {
        let control = arguments.first().map(|control| self.of_datum(*control));
        let Some([NamePart::Constant(control)]) = control.as_deref() else { return vec![NamePart::Open] };
        let mut rest = arguments.iter().skip(1);
        let (mut parts, mut text) = (Vec::new(), String::new());
        let mut characters = control.chars();
        while let Some(character) = characters.next() {
            if character != '~' {
                text.push(character);
                continue;
            }
            let directive = characters.find(|next| !next.is_ascii_digit() && !":@,'#V".contains(*next));
            let part = match directive {
                // Ignore case conversion, because names are compared upcased.
                Some('(' | ')') => continue,
                Some('A' | 'S' | 'D') => {
                    rest.next().map_or_else(|| vec![NamePart::Open], |each| self.of_datum(*each))
                }
                _ => vec![NamePart::Open],
            };
            parts.push(NamePart::Constant(std::mem::take(&mut text)));
            parts.extend(part);
        }
        parts.push(NamePart::Constant(text));
        parts
    }
}

fn constant_part(text: String) -> NamePart {
    NamePart::Constant(text.chars().map(upcase).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn template_matches_possible_names() {
        let check = |text: &str, name: &str, expected: Option<bool>| {
            let read = LispText::read(text.as_bytes(), Dialect::CommonLisp, &Features::sbcl());
            let templates = Templates { text: &read, bytes: text.as_bytes() };
            let found = templates.of_call(read.toplevel()[0].form.unwrap());
            let found = found.map(|template| ComputedName {
                place: Location::default(),
                template,
                package: None,
                in_macro: false,
                keyword: false,
            });
            let found = found.map(|found| !found.is_open() && found.may_make(name));
            assert_eq!(found, expected, "{text}");
        };
        let kind = r#"(intern (format nil "~:@(~A~)-~A" name '#:kind) (intern (format nil "fm.~A" name)))"#;
        check(kind, "LIST-KIND", Some(true));
        check(kind, "LIST-SORT", Some(false));
        check(r#"(find-symbol (format nil "READ-~A" l) :fm)"#, "READ-B", Some(true));
        check(r#"(find-symbol (format nil "READ-~A" l) :fm)"#, "UNREAD-B", Some(false));
        check(r#"(intern (concatenate 'string "make-" (string name)))"#, "MAKE-IT", Some(true));
        check(r#"(alexandria:symbolicate 'make- name)"#, "MAKE-IT", Some(true));
        check(r#"(alexandria:symbolicate name '-p)"#, "MAKE-IT", Some(false));
        check(r#"(uiop:symbol-call :fm (format nil "~A-P" x) 1)"#, "IT-P", Some(true));
        check(r#"(alexandria:format-symbol t "%~A" x)"#, "%IT", Some(false));
        check("(intern name)", "IT", Some(false));
        check(r#"(make-keyword (format nil "~A-P" x))"#, "IT-P", Some(true));
        check(r#"(find-symbol "IT" :fm)"#, "IT", None);
        check("(list name)", "IT", None);
    }

    #[test]
    fn names_of_quoted_lists_are_followed() {
        let check = |text: &str, expected: [bool; 2]| {
            let read = LispText::read(text.as_bytes(), Dialect::CommonLisp, &Features::sbcl());
            let templates = Templates { text: &read, bytes: text.as_bytes() };
            let all = (0..read.forms().len()).filter_map(|id| templates.of_call(FormId::new(id)));
            let all: Vec<_> = all.collect();
            let [template] = &all[..] else { panic!("{text}") };
            assert_eq!(["MAP-IT", "NO"].map(|name| fits(template, name)), expected, "{text}");
            assert_eq!(template.contains(&NamePart::Open), expected[1], "{text}");
        };
        check("(dolist (n '(p:map-it b)) (symbol-function (intern (string n) ':p)))", [true, false]);
        check("(loop for n in '(a :map-it) do (find-symbol (symbol-name n) :p))", [true, false]);
        check("(mapcar #'(lambda (x n) (intern n x)) '(map-it) '(\"MAP-IT\"))", [true, false]);
        check("(mapcar (lambda (n) (intern (string n) :p)) '(other))", [false, false]);
        check("(defvar *all* '(map-it))\n(defun f () (dolist (n *all*) (intern (string n))))", [true, false]);
        check("(let ((all '(map-it))) (dolist (n all) (intern (string n))))", [true, false]);
        check("(let ((all (list 'a))) (dolist (n all) (intern (string n))))", [true, true]);
        check("(defun f (n) (intern (string n)))", [true, true]);
        check("(let ((n n)) (intern n))", [true, true]);
    }

    #[test]
    fn constant_package_of_a_call_is_found() {
        let check = |text: &str, expected: Option<&str>| {
            let read = LispText::read(text.as_bytes(), Dialect::CommonLisp, &Features::sbcl());
            let templates = Templates { text: &read, bytes: text.as_bytes() };
            let found = templates.package_of_call(read.toplevel()[0].form.unwrap());
            assert_eq!(found.as_deref(), expected, "{text}");
        };
        check("(intern (string-upcase name) :shop)", Some("SHOP"));
        check("(find-symbol name '#:shop)", Some("SHOP"));
        check("(find-symbol name (find-package \"SHOP\"))", Some("SHOP"));
        check("(uiop:symbol-call :shop name)", Some("SHOP"));
        check("(intern name package)", None);
        check("(intern name)", None);
    }
}
