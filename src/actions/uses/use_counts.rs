//! Counts the uses of a symbol, as the lines that code-find-references lists.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::rc::Rc;

use super::code_find_references::{
    CodeFindReferencesRequest, SingleUse, UseType, code_find_references, single_uses,
};
use super::outline::DefinitionInFile;
use super::symbol_uses::SymbolUses;
use super::who::CalledName;
use crate::answer::Location;
use crate::answer::designator::FunctionName;
use crate::handle::QueryContext;
use steelbank_reader::lines::LineIndex;
use steelbank_reader::{Dialect, Features, LispText};
use steelbank_xref::Kind;

/// Counts uses. Reads each file once for the packages of its forms.
pub(crate) struct Counter<'a> {
    context: &'a QueryContext<'a>,
    files: RefCell<HashMap<String, Rc<Option<Forms>>>>,
}

/// A file's top-level forms: first and last line, and the package that they are in.
pub(crate) struct Forms {
    forms: Vec<(u32, u32, Option<String>)>,
}

impl Forms {
    fn read(path: &Path) -> Option<Self> {
        let bytes = steelbank_tree::read_source(path).ok()?;
        let text = LispText::read(&bytes, Dialect::CommonLisp, &Features::sbcl());
        let lines = LineIndex::new(&bytes);
        let forms = text.toplevel().iter().map(|form| {
            let package = form.package.as_deref().map(String::from);
            (lines.line(form.span.start), lines.line(form.span.end.saturating_sub(1)), package)
        });
        Some(Self { forms: forms.collect() })
    }

    /// Finds the number of the top-level form on `line`, and its package.
    pub(crate) fn at(&self, line: u32) -> Option<(usize, Option<&str>)> {
        let number = self.forms.iter().position(|(first, last, _)| (*first..=*last).contains(&line))?;
        Some((number, self.forms[number].2.as_deref()))
    }
}

/// A line that uses a symbol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) place: Location,
    pub(crate) use_type: UseType,
    pub(crate) caller: Option<String>,
    pub(crate) context: Option<String>,
    /// The number of the top-level form that the line is in.
    pub(crate) form: Option<usize>,
    /// The package of that form, or of the function that contains the use.
    pub(crate) package: Option<String>,
    /// Whether the line only exports, imports or declares the symbol, or names a block.
    pub(crate) is_declaration: bool,
    /// Whether the symbol stands in quoted data or a macro's arguments, from where it may be called.
    pub(crate) is_quoted: bool,
    /// Whether the line is in a file of tests.
    pub(crate) in_tests: bool,
    /// Which of F and (SETF F) is used, where a single use is told.
    pub(crate) called: CalledName,
}

impl Counted {
    /// Whether the use is the operator of the definition's form.
    pub(crate) fn is_operator(&self, known: &DefinitionInFile) -> bool {
        let (place, name) = (&self.place, known.definition.place);
        self.use_type == UseType::Macro
            && place.file == known.path
            && place.line == Some(known.definition.start)
            && place.column.is_some_and(|column| name.line > known.definition.start || column < name.column)
    }

    /// Whether `name` begins a list on the line, or is quoted as a function.
    pub(crate) fn calls_in_text(&self, name: &str) -> bool {
        let text = self.context.as_deref().unwrap_or_default().to_lowercase();
        let name = name.to_lowercase();
        let is_part = |character: char| character.is_alphanumeric() || "*%+-/<>=!?&$_.".contains(character);
        text.match_indices(&name).any(|(at, _)| {
            let after = text[at + name.len()..].chars().next();
            let before = text[..at].trim_end_matches(|character| is_part(character) || character == ':');
            let prefix = &text[before.len()..at];
            !after.is_some_and(is_part)
                && (prefix.is_empty() || prefix.ends_with(':'))
                && (before.ends_with('(') || before.ends_with("#'"))
        })
    }
}

impl<'a> Counter<'a> {
    pub(crate) fn new(context: &'a QueryContext<'a>) -> Self {
        Self { context, files: RefCell::default() }
    }

    /// Returns the file's top-level forms; `path` as answers show it.
    pub(crate) fn forms(&self, path: &str) -> Rc<Option<Forms>> {
        let mut files = self.files.borrow_mut();
        let entry = files
            .entry(path.to_owned())
            .or_insert_with(|| Rc::new(Forms::read(&self.context.project.native(path))));
        Rc::clone(entry)
    }

    /// Lists the lines that use the symbol called `name`, exactly as written, of `package`.
    pub(crate) fn lines(&self, name: &str, package: &str) -> Vec<Counted> {
        let answer = code_find_references(self.context, &everywhere(name, package));
        let lines = answer.map(|answer| answer.refs).unwrap_or_default().into_iter();
        let lines = lines.map(|found| {
            let caller = found.caller.map(|caller| caller.canonical().to_owned());
            (found.place, found.use_type, caller, found.context)
        });
        lines.map(|found| self.counted(found, CalledName::Itself)).collect()
    }

    /// Lists the functions that use the symbol and were compiled without a file.
    pub(crate) fn without_file(&self, name: &str, package: &str) -> BTreeSet<(String, Kind)> {
        let index = &self.context.index;
        let found = index.symbol_named(package, name);
        let uses = found.map(|(symbol, _)| SymbolUses::new(index, symbol, FunctionName::Plain));
        uses.map(|uses| uses.recorded(|_, _| false).without_file).unwrap_or_default()
    }

    /// Lists the uses one by one, also of those on one line.
    pub(crate) fn uses(&self, name: &str, package: &str) -> Vec<Counted> {
        let uses = single_uses(self.context, &everywhere(name, package)).unwrap_or_default().into_iter();
        uses.map(|SingleUse { found, line, .. }| {
            let context = line.map(|line| line.to_string());
            self.counted((found.place, found.use_type, found.caller, context), found.called)
        })
        .collect()
    }

    fn counted(
        &self,
        (place, use_type, caller, context): (Location, UseType, Option<String>, Option<String>),
        called: CalledName,
    ) -> Counted {
        let forms = self.forms(&place.file);
        let at = place.line.and_then(|line| forms.as_ref().as_ref()?.at(line));
        let package = at.and_then(|(_, package)| package.map(String::from));
        let by_caller = || caller.as_deref().and_then(package_of_name);
        Counted {
            form: at.map(|(form, _)| form),
            package: package.or_else(by_caller),
            is_declaration: use_type.is_declaration(),
            is_quoted: matches!(use_type, UseType::Quoted | UseType::Mention),
            in_tests: is_test_path(&place.file),
            place,
            use_type,
            caller,
            context,
            called,
        }
    }
}

/// The request for all uses of the symbol called `name`, exactly as written, of `package`.
fn everywhere(name: &str, package: &str) -> CodeFindReferencesRequest {
    let quoted = |text: &str| format!("|{}|", text.replace('\\', "\\\\").replace('|', "\\|"));
    CodeFindReferencesRequest {
        package: Some(quoted(package)),
        project_only: false,
        limit: usize::MAX,
        ..CodeFindReferencesRequest::new(quoted(name))
    }
}

/// Finds the package in a printed name such as `P::F`, `(SETF P::F)` or `(METHOD P::F (P::C))`.
fn package_of_name(name: &str) -> Option<String> {
    let start = name.trim_start_matches('(');
    let start = start.split_once(' ').filter(|_| name.starts_with('(')).map_or(start, |(_, rest)| rest);
    Some(start.trim_start_matches('(').split_once("::")?.0.to_owned())
}

/// Whether a path is of tests, by the usual names: a folder `t`, `test` or `tests`, or a file with `test` in
/// its name.
pub(crate) fn is_test_path(path: &str) -> bool {
    let mut parts = path.split('/').rev();
    let file = parts.next().unwrap_or_default().to_lowercase();
    let stem = file.rsplit_once('.').map_or(file.as_str(), |(stem, _)| stem);
    let named = stem.split(['-', '_', '.']).any(|part| part.starts_with("test"));
    named
        || parts.any(|folder| {
            matches!(folder.to_lowercase().as_str(), "t" | "test" | "tests" | "testing" | "spec")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_known_by_their_paths() {
        for path in
            ["t/a.lisp", "src/tests/b.lisp", "test.lisp", "app-tests.lisp", "foo-test.lisp", "Test/x.lisp"]
        {
            assert!(is_test_path(path), "{path}");
        }
        for path in ["src/latest.lisp", "attest/a.lisp", "main.lisp", "contest.lisp"] {
            assert!(!is_test_path(path), "{path}");
        }
    }

    #[test]
    fn calls_are_told_from_other_words_of_a_line() {
        let line = |context: &str| Counted {
            place: Location::default(),
            use_type: UseType::Template,
            caller: None,
            context: Some(context.to_owned()),
            form: None,
            package: None,
            is_declaration: false,
            is_quoted: false,
            in_tests: false,
            called: CalledName::Itself,
        };
        for called in ["`(F 1)", "`(list (p::f))", "(mapcar #'f x)"] {
            assert!(line(called).calls_in_text("F"), "{called}");
        }
        for other in ["`(list f)", "(f-g 1)", "(g-f 1)", "(let ((x f)))"] {
            assert!(!line(other).calls_in_text("F"), "{other}");
        }
    }

    #[test]
    fn names_tell_their_package() {
        assert_eq!(package_of_name("P::F").as_deref(), Some("P"));
        assert_eq!(package_of_name("(METHOD P::F (Q::C))").as_deref(), Some("P"));
        assert_eq!(package_of_name("(SETF P::F)").as_deref(), Some("P"));
        assert_eq!(package_of_name("#:G1"), None);
    }
}
