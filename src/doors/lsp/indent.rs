//! Indents Lisp code in the usual style: bodies according to the operator's lambda list, other
//! arguments aligned.

use std::collections::HashMap;
use std::rc::Rc;

use serde_json::{Value, json};
use steelbank_reader::lines::{LineColumn, LineIndex};
use steelbank_reader::{Datum, Form, FormId, FormKind, LispText, Range, TokenKind};

use super::complete::parameters;
use super::convert::{self, Answered};
use super::documents::OpenDocument;
use super::navigate::describe;
use super::server::Server;
use crate::actions::symbols::describe_symbol::DescribeSymbolRequest;
use crate::engine::LispError;
use crate::engine::control::Control;

/// The indentation of an operator's arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    /// Aligned with the first argument.
    Arguments,
    /// A body after this number of arguments.
    Body(usize),
}

/// The styles of standard operators that cannot be derived from their lambda lists.
const STANDARD: [(&str, Style); 21] = [
    ("flet", Style::Body(1)),
    ("labels", Style::Body(1)),
    ("let", Style::Body(1)),
    ("let*", Style::Body(1)),
    ("macrolet", Style::Body(1)),
    ("symbol-macrolet", Style::Body(1)),
    ("block", Style::Body(1)),
    ("catch", Style::Body(1)),
    ("eval-when", Style::Body(1)),
    ("handler-case", Style::Body(1)),
    ("lambda", Style::Body(1)),
    ("locally", Style::Body(0)),
    ("multiple-value-prog1", Style::Body(1)),
    ("prog1", Style::Body(1)),
    ("progn", Style::Body(0)),
    ("restart-case", Style::Body(1)),
    ("return-from", Style::Arguments),
    ("tagbody", Style::Body(0)),
    ("cond", Style::Arguments),
    ("if", Style::Arguments),
    ("loop", Style::Arguments),
];
/// Operators that bind local functions. Each binding has a lambda list and a body.
const LOCAL_FUNCTIONS: [&str; 3] = ["flet", "labels", "macrolet"];
/// Operators with clauses, and the number of arguments before the first clause. The elements of a
/// clause are aligned.
const CLAUSES: [(&str, usize); 7] = [
    ("cond", 0),
    ("case", 1),
    ("ccase", 1),
    ("ecase", 1),
    ("typecase", 1),
    ("etypecase", 1),
    ("ctypecase", 1),
];
/// Operators with a list of variables as the first argument.
const BINDS: [&str; 2] = ["destructuring-bind", "multiple-value-bind"];
/// Operators with clauses that have a lambda list and a body.
const HANDLERS: [&str; 2] = ["handler-case", "restart-case"];

/// Derives the style from a lambda list. `None` if the lambda list has no `&body`.
fn style_of(arglist: &str) -> Option<Style> {
    let parameters = parameters(arglist);
    let body = parameters.iter().position(|word| word.eq_ignore_ascii_case("&body"))?;
    let before = parameters[..body].iter();
    Some(Style::Body(before.filter(|word| !word.starts_with('&')).count()))
}

/// Guesses the style of an unknown operator from its name.
fn guess(name: &str) -> Style {
    match name {
        _ if name.starts_with("def") && name != "default" => Style::Body(1),
        _ if name.starts_with("with-") || name.starts_with("do-") || name.starts_with("without-") => {
            Style::Body(1)
        }
        _ => Style::Arguments,
    }
}

/// Computes the indentation of the lines in `within`, which are numbered from 1. Skips blank lines,
/// lines that start inside a token such as a string, and comments that must not be moved. Returns
/// the number, the old indentation and the new indentation of each line to change.
fn indentation(
    text: &str,
    read: &LispText,
    within: std::ops::RangeInclusive<u32>,
    mut style: impl FnMut(&str, u32) -> Style,
    control: &Control,
) -> Result<Vec<(u32, usize, usize)>, LispError> {
    let lines = LineIndex::new(text.as_bytes());
    let mut moved: HashMap<u32, isize> = HashMap::new();
    let mut changes = Vec::new();
    let mut lists = Lists { text, read, known: HashMap::new() };
    for line in within {
        control.check()?;
        if line as usize > lines.count() {
            break;
        }
        let start = lines.start(line);
        let content = text[start as usize..].lines().next().unwrap_or_default();
        let old = content.len() - content.trim_start_matches([' ', '\t']).len();
        let at = start + old as u32;
        let inside = read.token_at(start).is_some_and(|token| token.span.start < start);
        let rest = content[old..].trim_end();
        if rest.is_empty() || inside || keeps_column(rest) {
            continue;
        }
        let column = |offset: u32| -> usize {
            let LineColumn { line, column } = lines.position(text.as_bytes(), offset);
            (column as isize - 1 + moved.get(&line).copied().unwrap_or(0)).max(0) as usize
        };
        let around = read.forms_before(at).map(FormId::index).find(|index| {
            let form = &read.forms()[*index];
            at < form.span.end && matches!(form.kind, FormKind::List | FormKind::Literal)
        });
        let new = around.map_or(0, |form| inner_column(&mut lists, &lines, form, at, &column, &mut style));
        let tabs = content[..old].contains('\t');
        if new != old || tabs {
            moved.insert(line, new as isize - old as isize);
            changes.push((line, old, new));
        }
    }
    Ok(changes)
}

/// The elements of the lists around the lines. Each list is read once, because a list can have a
/// line for each element.
struct Lists<'a> {
    text: &'a str,
    read: &'a LispText,
    known: HashMap<usize, Rc<ListElements>>,
}

struct ListElements {
    elements: Vec<Datum>,
    /// For each element, the index of the first element of its run of consecutive forms.
    runs: Vec<usize>,
    /// Whether the list contains a lambda list keyword.
    has_lambda_word: bool,
}

impl ListElements {
    /// Returns the number of elements that start before `at`.
    fn before(&self, read: &LispText, at: u32) -> usize {
        self.elements.partition_point(|datum| read.span(*datum).start < at)
    }
}

impl Lists<'_> {
    fn elements(&mut self, index: usize) -> Rc<ListElements> {
        let (text, read) = (self.text, self.read);
        let known = self.known.entry(index).or_insert_with(|| {
            let elements: Vec<Datum> = read.elements(FormId::new(index)).collect();
            let mut run = 0;
            let runs = elements.iter().enumerate().map(|(at, datum)| {
                run = if matches!(datum, Datum::Token(_)) { at + 1 } else { run };
                run
            });
            let is_lambda_word = |datum: &Datum| {
                matches!(datum, Datum::Token(_)) && text[read.span(*datum).indices()].starts_with('&')
            };
            let (runs, has_lambda_word) = (runs.collect(), elements.iter().any(is_lambda_word));
            Rc::new(ListElements { elements, runs, has_lambda_word })
        });
        Rc::clone(known)
    }

    /// Returns the position of a form among the elements of its parent.
    fn number_in(&mut self, parent: FormId, child: usize) -> Option<usize> {
        let (read, list) = (self.read, self.elements(parent.index()));
        let number = list.before(read, read.forms()[child].span.start);
        list.elements.get(number).filter(|datum| **datum == Datum::Form(FormId::new(child))).map(|_| number)
    }
}

/// Returns whether a line is a comment that must not be moved.
fn keeps_column(rest: &str) -> bool {
    rest.starts_with(";;;") || rest.starts_with(';') && !rest.starts_with(";;")
}

/// Returns the column for an element at `at` directly inside a list.
fn inner_column(
    lists: &mut Lists<'_>,
    lines: &LineIndex,
    index: usize,
    at: u32,
    column: &impl Fn(u32) -> usize,
    style: &mut impl FnMut(&str, u32) -> Style,
) -> usize {
    let (text, read) = (lists.text, lists.read);
    let form = &read.forms()[index];
    let open = form.span.start + text[form.span.indices()].find('(').unwrap_or(0) as u32;
    let list = lists.elements(index);
    let (elements, before) = (&list.elements, list.before(read, at));
    let Some(first) = elements.first().filter(|_| before > 0) else { return column(open) + 1 };
    let first = read.span(*first);
    let below_first = column(first.start);
    let Some(head) = operator(text, read, form) else { return below_first };
    let place = role_of(lists, index);
    let kind = match place {
        ListRole::Datum | ListRole::Clause => return below_first,
        ListRole::Bodied => Style::Body(1),
        ListRole::Call => style(&head, first.start),
    };
    let argument = before - 1;
    match kind {
        Style::Body(distinguished) if argument < distinguished => column(open) + 4,
        Style::Body(_) => column(open) + 2,
        Style::Arguments if head == "loop" && before > 2 && text[at as usize..].starts_with(['(', ';']) => {
            // Align a form or a comment with the first of the forms after the last keyword, such as
            // DO.
            let first = list.runs[before - 1].max(1);
            column(read.span(elements[if first < before { first } else { 1 }]).start)
        }
        Style::Arguments => match elements.get(1).map(|second| read.span(*second)) {
            Some(second) if before > 1 && lines.line(second.start) == lines.line(first.start) => {
                column(second.start)
            }
            _ if head == "loop" => column(open) + 2,
            _ => below_first,
        },
    }
}

/// The syntactic role of a list.
enum ListRole {
    Call,
    /// Quoted data, variables to bind, or a lambda list; not a call.
    Datum,
    Clause,
    /// A definition of a local function or a handler clause: a name, a lambda list and a body.
    Bodied,
}

fn role_of(lists: &mut Lists<'_>, index: usize) -> ListRole {
    let (text, read) = (lists.text, lists.read);
    let form = &read.forms()[index];
    let Some(parent) = form.parent else { return ListRole::Call };
    let Some(outer) = read.form(parent) else { return ListRole::Call };
    if matches!(outer.kind, FormKind::Quote | FormKind::Literal) || form.kind == FormKind::Literal {
        return ListRole::Datum;
    }
    if lists.elements(index).has_lambda_word {
        return ListRole::Datum;
    }
    let number = lists.number_in(parent, index);
    if let Some(name) = operator(text, read, outer) {
        if number == Some(1) && BINDS.contains(&name.as_str()) {
            return ListRole::Datum;
        }
        let clauses = CLAUSES.iter().find(|(known, _)| *known == name);
        if clauses.is_some_and(|(_, before)| number.is_some_and(|number| number > *before)) {
            return ListRole::Clause;
        }
        if HANDLERS.contains(&name.as_str()) && number.is_some_and(|number| number > 1) {
            return ListRole::Bodied;
        }
    }
    let around = outer.parent.and_then(|around| Some((around, read.form(around)?)));
    if let Some((around, grand)) = around
        && let Some(name) = operator(text, read, grand)
        && LOCAL_FUNCTIONS.contains(&name.as_str())
        && lists.number_in(around, parent.index()) == Some(1)
    {
        return ListRole::Bodied;
    }
    ListRole::Call
}

/// Returns the operator of a list in lower case without its package. `None` if the list does not
/// start with a symbol that can name an operator.
fn operator(text: &str, read: &LispText, form: &Form) -> Option<String> {
    let head = read.head(form).filter(|head| head.kind == TokenKind::Symbol)?;
    let name = text.get(head.span.indices())?;
    let is_operator = !name.starts_with([':', '&']);
    is_operator.then(|| name.rsplit(':').next().unwrap_or(name).to_lowercase())
}

/// The part of a document to indent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Formatted {
    Document,
    Range,
    /// The line of the position.
    Line,
}

impl Server {
    /// Returns the edits that indent a document, a range of it, or the line that the user has just
    /// started.
    pub(super) fn formatting(&self, params: &Value, part: Formatted, control: &Control) -> Answered {
        let document = self.document_of(params)?;
        let encoding = self.encoding();
        let lines = match part {
            Formatted::Document => 1..=document.lines.line(document.text.len() as u32),
            Formatted::Line => {
                let at = &params["position"];
                let at = convert::offset_from(at, &document.text, &document.lines, encoding)?;
                let line = document.lines.line(at);
                line..=line
            }
            Formatted::Range => {
                let range = &params["range"];
                let range = convert::range_from(range, &document.text, &document.lines, encoding)?;
                document.lines.line(range.start)..=document.lines.line(range.end)
            }
        };
        let mut known: HashMap<String, Style> =
            STANDARD.iter().map(|(name, style)| ((*name).to_owned(), *style)).collect();
        let style = |name: &str, at: u32| {
            if let Some(style) = known.get(name) {
                return *style;
            }
            let style = self.style(&document, at, control).unwrap_or_else(|| guess(name));
            known.insert(name.to_owned(), style);
            style
        };
        let (text, read) = (document.analysed_text(), document.read());
        let changes = indentation(&text, &read, lines, style, control).map_err(crate::handle::Error::from)?;
        let edits = changes.into_iter().map(|(line, old, new)| {
            let start = document.lines.start(line);
            let range = document.range(Range::new(start, start + old as u32), encoding);
            json!({ "range": range, "newText": " ".repeat(new) })
        });
        Ok(edits.collect())
    }

    /// Returns the style of the operator at `at` according to its lambda list in the image. Returns
    /// `None` if the image has no lambda list with `&body` for the operator. The arguments of local
    /// operators are aligned.
    fn style(&self, document: &OpenDocument, at: u32, control: &Control) -> Option<Style> {
        let view = self.view(document, control).ok()?;
        let request = match view.at(at) {
            Some(found) if found.binding.is_some() => return Some(Style::Arguments),
            Some(found) => describe(&found.symbol),
            None => {
                let read = document.read();
                let token = read.token_at(at)?;
                let package = read.toplevel_from(at)?.package.clone()?;
                DescribeSymbolRequest::new(document.text.get(token.span.indices())?).package(&*package)
            }
        };
        style_of(&self.described(request, control)?.function?.arglist?)
    }
}

#[cfg(test)]
mod tests {
    use steelbank_reader::{Dialect, Features};

    use super::*;

    /// Indents every line of `text`, whatever its current columns.
    fn indented(text: &str) -> String {
        let read = LispText::read(text.as_bytes(), Dialect::CommonLisp, &Features::sbcl());
        let style = |name: &str, _: u32| {
            let known = [
                ("let", 1),
                ("when", 1),
                ("flet", 1),
                ("defun", 2),
                ("case", 1),
                ("dolist", 1),
                ("multiple-value-bind", 2),
            ];
            let known = known.iter().find(|(known, _)| *known == name).map(|(_, body)| Style::Body(*body));
            let standard = STANDARD.iter().find(|(known, _)| *known == name).map(|(_, style)| *style);
            known.or(standard).unwrap_or_else(|| guess(name))
        };
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let within = 1..=lines.len() as u32;
        let control = Control::default();
        for (line, old, new) in indentation(text, &read, within, style, &control).unwrap() {
            let line = &mut lines[line as usize - 1];
            *line = " ".repeat(new) + &line[old..];
        }
        lines.join("\n")
    }

    #[test]
    fn well_indented_code_is_restored_from_column_zero() {
        let text = "\
(defun total (items
              &key (rate 1))
  \"A text
of two lines.\"
  ;; A comment.
  (let ((sum 0)
        (count (length items)))
    (dolist (item items)
      (when (and (price item)
                 (plusp rate))
        (incf sum
              (* rate (price item)))))
    (flet ((shown (value)
             (format nil \"~a\"
                     value)))
      (cond ((zerop count)
             nil)
            (t
             (shown sum))))
    (case rate
      (1 (list sum
               count))
      (otherwise
       (loop for item in items
             collect (price item))))
    (handler-case (risky)
      (error (condition)
        (report condition)))
    (mapcar (lambda (item)
              (price item))
            '(a b
              c))
    (multiple-value-bind (one
                          two)
        (values 1 2)
      (loop for other in items
            do (print one)
               (print two)))
    (loop
      (step-on))
    (list
     sum
     count)))

(defmethod price ((item item)) ; the price
  #+sbcl
  (slot-value item 'price))
(with-unknown (stream)
  (print 1))";
        assert_eq!(indented(text), text);
        let mut inside = false;
        let flat: Vec<&str> = text
            .lines()
            .map(|line| {
                let kept = inside;
                inside ^= line.matches('"').count() % 2 == 1;
                if kept { line } else { line.trim_start() }
            })
            .collect();
        assert_eq!(indented(&flat.join("\n")), text);
    }

    #[test]
    fn each_list_is_read_once() {
        // Lists with a line for each element, and definitions after each other.
        let list = " (f x)\n".repeat(3000);
        let text = format!("(list\n{})\n{}", list.trim_end(), "(defun f ()\nx)\n".repeat(3000));
        let read = LispText::read(text.as_bytes(), Dialect::CommonLisp, &Features::sbcl());
        let mut lists = Lists { text: &text, read: &read, known: HashMap::new() };
        let first = lists.elements(0);
        assert_eq!(lists.number_in(FormId::new(0), 3000), Some(3000));
        assert!(Rc::ptr_eq(&first, &lists.elements(0)));
        let within = 1..=text.lines().count() as u32;
        let control = Control::default();
        let changes = indentation(&text, &read, within.clone(), |name, _| guess(name), &control).unwrap();
        assert_eq!(changes.len(), 3000);
        control.cancellation().cancel();
        let mut asked = 0;
        let style = |name: &str, _: u32| {
            asked += 1;
            guess(name)
        };
        assert!(indentation(&text, &read, within, style, &control).is_err());
        assert_eq!(asked, 0);
    }

    #[test]
    fn style_follows_lambda_list() {
        assert_eq!(style_of("(NAME LAMBDA-LIST &BODY BODY)"), Some(Style::Body(2)));
        assert_eq!(style_of("((VAR LIST &OPTIONAL RESULT) &BODY BODY)"), Some(Style::Body(1)));
        assert_eq!(style_of("(A &REST B)"), None);
    }
}
