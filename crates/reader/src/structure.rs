//! Finds structural errors in a Lisp text. Uses indentation to locate the wrong parenthesis.

use super::lines::AscendingColumns;
use super::{Dialect, Features, LispText, Token, TokenKind};

/// The kind of a structural error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum ProblemKind {
    /// A list is not closed.
    Unclosed,
    /// A closing parenthesis has no opening one, or closes a form although the indentation shows
    /// that the form continues.
    ExtraClose,
    /// A string is not closed.
    UnclosedString,
    /// A `|` in a symbol is not closed.
    UnclosedBar,
    /// A `#|` comment is not closed.
    UnclosedComment,
}

/// The first structural error of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The kind of the error.
    pub kind: ProblemKind,
    /// The first byte of the unclosed list, string, symbol or comment, or the extra parenthesis.
    pub start: u32,
    /// The byte at which the error becomes apparent: the first code of a line with contradicting
    /// indentation, a definition inside an unclosed string, the extra parenthesis, or the end of
    /// the text.
    pub shows: u32,
    /// A suggested repair: a byte offset, and the text to insert there. If the text is empty,
    /// delete the parenthesis at that offset.
    pub mend: (u32, &'static str),
}

/// The result of a structure check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Balance {
    /// Whether every parenthesis, string, bar and comment is closed, no closing parenthesis is
    /// extra, and no definition contains another by mistake (see `problem`).
    pub balanced: bool,
    /// The number of open lists at the end of the text; 0 if it is unknown, because a string, bar
    /// or comment is not closed, or because the error follows a string of cl-interpol.
    pub open: usize,
    /// The first error. A text with equally many opening and closing parentheses has an error if a
    /// definition begins in column 1 inside another: then the outer definition lacks a parenthesis
    /// and a later form has an extra parenthesis.
    pub problem: Option<Problem>,
    /// The offset of the first sign of nonstandard syntax: a form that changes the readtable, or a
    /// string of cl-interpol. The text after it is checked by the standard syntax. Errors after a
    /// string of cl-interpol are not reported, because the string's delimiters may cause them.
    pub own_syntax: Option<u32>,
}

/// An open list.
struct OpenList {
    at: u32,
    column: usize,
}

/// Checks the structure of `text`.
pub fn check_structure(text: &[u8], dialect: Dialect) -> Balance {
    let lisp = LispText::read(text, dialect, &Features::sbcl());
    let own = if dialect == Dialect::CommonLisp { own_syntax(text, &lisp) } else { SyntaxChange::default() };
    let mut structure = judged(text, dialect, &lisp);
    structure.own_syntax = own.from;
    let misread =
        own.strings.is_some_and(|from| structure.problem.as_ref().is_none_or(|found| found.shows >= from));
    if misread && !structure.balanced {
        structure.problem = None;
        structure.open = 0;
    }
    structure
}

/// The offsets at which a text leaves the standard syntax.
#[derive(Default)]
struct SyntaxChange {
    /// The first form that changes the readtable, or the first string of cl-interpol if that comes
    /// earlier.
    from: Option<u32>,
    /// The first string of cl-interpol (`#?`). Such strings can have other delimiters than `"`.
    strings: Option<u32>,
}

/// Searches for forms such as `(in-readtable …)` and `(enable-interpol-syntax)`, and for `#?`.
fn own_syntax(text: &[u8], lisp: &LispText) -> SyntaxChange {
    let mut own = SyntaxChange::default();
    let mut symbols = lisp.tokens().iter().peekable();
    while let Some(token) = symbols.next() {
        let Some(raw) = text.get(token.span.indices()) else { continue };
        if token.kind != TokenKind::Symbol {
            continue;
        }
        let name = raw.rsplit(|&byte| byte == b':').next().unwrap_or_default().to_ascii_lowercase();
        let operator = text[..token.span.start as usize].ends_with(b"(");
        let given = symbols.peek().and_then(|next| text.get(next.span.indices()));
        let standard =
            given.is_some_and(|given| matches!(given.to_ascii_lowercase().as_slice(), b":standard" | b"nil"));
        let changes = (name == b"in-readtable" && !standard)
            || matches!(
                name.as_slice(),
                b"use-syntax" | b"set-macro-character" | b"set-dispatch-macro-character"
            )
            || (name.starts_with(b"enable-") && (name.ends_with(b"syntax") || name.ends_with(b"-macros")));
        if operator && changes {
            own.from = Some(token.span.start);
            break;
        }
    }
    own.strings = memchr::memmem::find_iter(text, b"#?").map(|at| at as u32).find(|&at| {
        let inside = |token: &&Token| token.kind != TokenKind::Symbol && token.span.start < at;
        lisp.token_at(at).filter(inside).is_none() && !text[..at as usize].ends_with(b"\\")
    });
    own.from = match (own.from, own.strings) {
        (Some(from), Some(strings)) => Some(from.min(strings)),
        (from, strings) => from.or(strings),
    };
    own
}

/// Checks `text` by the standard syntax.
fn judged(text: &[u8], dialect: Dialect, lisp: &LispText) -> Balance {
    // Check strings first: after an unclosed quote, code is read as strings and strings as code.
    if let Some(problem) = unclosed_token(text, lisp) {
        return Balance { balanced: false, open: 0, problem: Some(problem), own_syntax: None };
    }
    let mut columns = AscendingColumns::new(text);
    let mut open: Vec<OpenList> = Vec::new();
    let mut first: Option<Problem> = None;
    let mut contradiction: Option<Problem> = None;
    // The end of the preceding code, and the last parenthesis that closed a top-level form.
    let (mut end, mut closed_top) = (0, None);
    let mut line_start = true;
    let mut tokens = lisp.tokens().iter().peekable();
    let mut at = 0;
    while at < text.len() {
        let offset = at as u32;
        let token = tokens.next_if(|token| token.span.start <= offset && token.span.end > offset);
        let byte = text[at];
        if byte == b'\n' {
            line_start = true;
        }
        let is_code = match token {
            Some(token) => token.kind != TokenKind::Comment,
            None => !byte.is_ascii_whitespace(),
        };
        let closes = token.is_none() && matches!(byte, b')' | b']' | b'}') && dialect.is_closing(byte);
        if is_code && line_start {
            line_start = false;
            if !closes {
                // If all forms are closed when a form begins in column 1, ignore an earlier sign of
                // an unclosed list, because odd indentation is only style. Keep the sign if a
                // definition began inside another definition.
                let begins = open.is_empty() && byte == b'(' && columns.of(offset) == 1;
                contradiction = contradiction
                    .filter(|found| !begins || found.kind != ProblemKind::Unclosed || swallows(text, found));
                judge(offset, columns.of(offset), byte, &open, end, closed_top, &mut contradiction);
            }
        }
        if let Some(token) = token {
            if is_code {
                end = token.span.end;
            }
            at = token.span.end as usize;
            if text[token.span.indices()].contains(&b'\n') {
                // The last line of a multi-line string or comment begins inside it, so the line's
                // indentation shows nothing about the code that follows.
                line_start = token.kind == TokenKind::Comment && text[token.span.indices()].ends_with(b"\n");
            }
            continue;
        }
        if dialect.closing(byte).is_some() {
            open.push(OpenList { at: offset, column: columns.of(offset) });
            end = offset + 1;
        } else if closes {
            if open.pop().is_none() && first.is_none() {
                // The indentation may already have shown that an earlier parenthesis is the extra
                // one.
                let start = contradiction.as_ref().filter(|known| known.kind == ProblemKind::ExtraClose);
                first = Some(start.cloned().unwrap_or(Problem {
                    kind: ProblemKind::ExtraClose,
                    start: offset,
                    shows: offset,
                    mend: (offset, ""),
                }));
            } else if open.is_empty() {
                closed_top = Some(offset);
            }
            end = offset + 1;
        } else if !byte.is_ascii_whitespace() {
            end = offset + 1;
        }
        at += 1;
    }
    let balanced = open.is_empty() && first.is_none();
    let unclosed = || {
        let innermost = open.last()?;
        Some(Problem {
            kind: ProblemKind::Unclosed,
            start: innermost.at,
            shows: text.len() as u32,
            mend: (end, ")"),
        })
    };
    let problem = match (balanced, contradiction) {
        // Odd indentation is only style, but a definition in column 1 inside another one is an
        // error.
        (true, found) => found.filter(|found| found.kind == ProblemKind::Unclosed && swallows(text, found)),
        (false, Some(found)) if open.is_empty() == (found.kind == ProblemKind::ExtraClose) => Some(found),
        (false, _) => first.or_else(unclosed),
    };
    Balance { balanced: balanced && problem.is_none(), open: open.len(), problem, own_syntax: None }
}

/// Compares the indentation of a line of code, which begins at `offset`, with the lists that are
/// open there. Sets `contradiction` to the first disagreement.
fn judge(
    offset: u32,
    column: usize,
    byte: u8,
    open: &[OpenList],
    end: u32,
    closed_top: Option<u32>,
    contradiction: &mut Option<Problem>,
) {
    if contradiction.is_some() {
        return;
    }
    match open.last() {
        // If the line is not indented further than the innermost list, that list should have been
        // closed.
        Some(innermost) if column <= innermost.column && (column == 1 || innermost.column > 1) => {
            *contradiction = Some(Problem {
                kind: ProblemKind::Unclosed,
                start: innermost.at,
                shows: offset,
                mend: (end, ")"),
            });
        }
        None if column > 1 && byte != b';' => {
            if let Some(closed) = closed_top {
                *contradiction = Some(Problem {
                    kind: ProblemKind::ExtraClose,
                    start: closed,
                    shows: offset,
                    mend: (closed, ""),
                });
            }
        }
        _ => {}
    }
}

/// Returns whether an unclosed definition seems to contain the next one. Forms such as PROGN and
/// LET may contain definitions intentionally.
fn swallows(text: &[u8], found: &Problem) -> bool {
    is_definition(text, found.start) && is_definition(text, found.shows)
}

/// Returns whether a form begins at `offset` with an operator that starts with "def" or is
/// `in-package`.
fn is_definition(text: &[u8], offset: u32) -> bool {
    let rest = text.get(offset as usize..).unwrap_or_default();
    let begins = |word: &[u8]| rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    begins(b"(def") || begins(b"(in-package")
}

/// Finds an unclosed string, bar or comment. The text then ends inside its last token. If that
/// token is a string, the missing quote may be earlier: the result is then the first string that
/// contains a definition in column 1, if there is one.
fn unclosed_token(text: &[u8], lisp: &LispText) -> Option<Problem> {
    let last = lisp.tokens().last().filter(|token| token.span.end as usize == text.len())?;
    let kind = unclosed_kind(text, last)?;
    let (start, shows) = match kind {
        ProblemKind::UnclosedString => lisp
            .tokens()
            .iter()
            .filter(|token| token.kind == TokenKind::String)
            .find_map(|token| Some((token.span.start, definition_inside(text, token)?)))
            .unwrap_or((last.span.start, last.span.end)),
        _ => (last.span.start, last.span.end),
    };
    let close = match kind {
        ProblemKind::UnclosedString => "\"",
        ProblemKind::UnclosedBar => "|",
        _ => "|#",
    };
    // Close it at the end of its first line, where most strings end, but in front of the closing
    // parentheses there.
    let rest = text.get(start as usize..).unwrap_or_default();
    let line = rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
    let closing = rest[..line].iter().rev().take_while(|&&byte| byte == b')' || byte == b'\r').count();
    Some(Problem { kind, start, shows, mend: (start + (line - closing) as u32, close) })
}

fn definition_inside(text: &[u8], token: &Token) -> Option<u32> {
    let inside = text.get(token.span.indices())?;
    let at = memchr::memmem::find_iter(inside, b"\n(").find(|&at| is_definition(inside, at as u32 + 1))?;
    Some(token.span.start + at as u32 + 1)
}

fn unclosed_kind(text: &[u8], token: &Token) -> Option<ProblemKind> {
    let raw = text.get(token.span.indices())?;
    match token.kind {
        TokenKind::String => {
            let body = raw.get(raw.iter().position(|&byte| byte == b'"')? + 1..)?;
            let mut escaped = false;
            for (index, &byte) in body.iter().enumerate() {
                match byte {
                    _ if escaped => escaped = false,
                    b'\\' => escaped = true,
                    b'"' => return (index + 1 < body.len()).then_some(ProblemKind::UnclosedString),
                    _ => {}
                }
            }
            Some(ProblemKind::UnclosedString)
        }
        TokenKind::Comment if raw.starts_with(b"#|") => {
            let count = |needle: &[u8]| memchr::memmem::find_iter(raw, needle).count();
            (!raw.ends_with(b"|#") || count(b"#|") > count(b"|#")).then_some(ProblemKind::UnclosedComment)
        }
        TokenKind::Symbol => {
            let mut escaped = false;
            let mut bars = 0;
            for &byte in raw {
                match byte {
                    _ if escaped => escaped = false,
                    b'\\' => escaped = true,
                    b'|' => bars += 1,
                    _ => {}
                }
            }
            (bars % 2 == 1).then_some(ProblemKind::UnclosedBar)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Balance {
        check_structure(text.as_bytes(), Dialect::CommonLisp)
    }

    /// Returns the error's kind, the text from its start, and the text after the repair.
    fn mended(text: &str) -> (ProblemKind, String, String) {
        let structure = check(text);
        assert!(!structure.balanced, "{text}");
        let problem = structure.problem.unwrap();
        let (at, insert) = (problem.mend.0 as usize, problem.mend.1);
        let (before, after) = text.split_at(at);
        let after = if insert.is_empty() { &after[1..] } else { after };
        let start: String = text[problem.start as usize..].chars().take(6).collect();
        (problem.kind, start, format!("{before}{insert}{after}"))
    }

    #[test]
    fn balanced_texts_have_no_problem() {
        for text in [
            "",
            "(a)",
            "(defun f (x)\n  (list x\n        1))\n\n(defun g ())\n",
            "; (\n#| ( |# (a #\\( \"(\" |(|)",
            "(a\n b)",
            "(defun f ()\n  \"text\n(not code\"\n  1)",
            "(let ((a 1)\n      (b 2))\n  ;; comment\n; comment\n  a)\n#+sbcl\n(b)",
            "(progn\n(list)\n)",
            "(progn\n(defun a () 1)\n)\n(list 1)\n",
            "(eval-when (:execute)\n(defun a () 1)\n(defun b () 2))\n(let ((n 0))\n(defun c () n))\n",
            "(defmacro m ()\n`(progn\n(defun a ())\n(defun b ())))\n",
        ] {
            let found = check(text);
            assert!(found.balanced && found.problem.is_none() && found.open == 0, "{text}: {found:?}");
        }
    }

    #[test]
    fn missing_parenthesis_is_found_by_indentation() {
        assert_eq!(
            mended("(defun f (x)\n  (let ((y (g x))\n    (list y)))\n\n(defun h () 1)\n"),
            (
                ProblemKind::Unclosed,
                "((y (g".into(),
                "(defun f (x)\n  (let ((y (g x)))\n    (list y)))\n\n(defun h () 1)\n".into()
            )
        );
        assert_eq!(
            mended("(defun f (x)\n  (list x)\n\n(defun h () 1)\n"),
            (ProblemKind::Unclosed, "(defun".into(), "(defun f (x)\n  (list x))\n\n(defun h () 1)\n".into())
        );
        assert_eq!(mended("(a (b").1, "(b");
    }

    #[test]
    fn extra_parenthesis_is_found_by_indentation() {
        assert_eq!(
            mended("(defun f (x)\n  (when x))\n    (list x)))\n"),
            (ProblemKind::ExtraClose, ")\n    ".into(), "(defun f (x)\n  (when x)\n    (list x)))\n".into())
        );
        assert_eq!(mended("(a))\n(b)"), (ProblemKind::ExtraClose, ")\n(b)".into(), "(a)\n(b)".into()));
    }

    #[test]
    fn odd_indentation_of_closed_form_is_ignored() {
        let odd = "(defmacro m ((stream name &rest args\n              &key (a 1)\n         b)\n  &body body)\n  body)\n\n";
        assert!(check(odd).balanced);
        let (kind, start, _) = mended(&format!("{odd}(defun f (x)\n  (list x)\n\n(defun g ())\n"));
        assert_eq!((kind, start.as_str()), (ProblemKind::Unclosed, "(defun"));
        assert_eq!(
            check(&format!("{odd}(defun f (x)\n  (list x)\n\n(defun g ())\n")).problem.unwrap().start,
            odd.len() as u32
        );
    }

    #[test]
    fn missing_and_extra_parenthesis_do_not_balance() {
        let text = "(defun f (x)\n  (list x)\n\n(defun h () 1))\n";
        let found = check(text);
        assert!(!found.balanced && found.open == 0);
        assert_eq!(found.problem.unwrap().start, 0);
    }

    #[test]
    fn custom_readtable_is_reported_without_string_errors() {
        for text in [
            "(f)\n(g #?|a \" ( b|)\n(defun h ())\n",
            "(enable-interpol-syntax)\n(f #?{x ) \" |})\n",
            "(f #?\"a ${(g \"b |\")}\")\n",
        ] {
            let found = check(text);
            assert!(found.problem.is_none() && found.own_syntax.is_some(), "{text}: {found:?}");
        }
        let found = check(
            "(in-package :a)\n(named-readtables:in-readtable :b)\n(defun f ()\n  (g)\n\n(defun h ())\n",
        );
        assert_eq!(found.own_syntax, Some(17));
        assert_eq!(found.problem.map(|problem| problem.start), Some(51));
        // The text before the change of syntax is checked as usual.
        assert!(check("(defun f (\n\n(defun g ())\n(h #?|a|)\n").problem.is_some());
        for plain in
            ["(in-readtable :standard)\n(a", "; #?\n(a", "\"#?\" (a", "(list 'in-readtable", "#\\?(a"]
        {
            let found = check(plain);
            assert!(found.own_syntax.is_none() && found.problem.is_some(), "{plain}: {found:?}");
        }
    }

    #[test]
    fn unclosed_strings_bars_and_comments_are_found() {
        assert_eq!(
            mended("(defun f ()\n  \"doc)\n\n(defun g () \"x\")\n"),
            (
                ProblemKind::UnclosedString,
                "\"doc)\n".into(),
                "(defun f ()\n  \"doc\")\n\n(defun g () \"x\")\n".into()
            )
        );
        assert_eq!(mended("(a |b)").0, ProblemKind::UnclosedBar);
        assert_eq!(mended("(a) #| b #| c |#").0, ProblemKind::UnclosedComment);
    }
}
