//! Lists the uses of a symbol for the actions that count or follow them.
//!
//! [`UseLines`] runs the search of code-find-references for a symbol and adds to each use its
//! top-level form, its package, and whether it is in a test file.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::rc::Rc;

use super::code_find_references::{
    CodeFindReferencesRequest, SingleUse, UseType, code_find_references, single_uses,
};
use super::outline::DefinitionInFile;
use super::symbol_uses::SymbolUses;
use super::who::SetfUse;
use crate::answer::Location;
use crate::answer::designator::{FunctionName, PrintedName};
use crate::answer::name::barred;
use crate::engine::control::Control;
use crate::handle::QueryContext;
use crate::workspace::Project;
use steelbank_reader::lines::LineIndex;
use steelbank_reader::{Dialect, Features, LispText};
use steelbank_xref::{Kind, SymbolName};

/// Lists the lines that use symbols. Reads each file once, for the packages of its forms.
pub(crate) struct UseLines<'a> {
    context: &'a QueryContext<'a>,
    /// If the question is cancelled, the lists are incomplete.
    control: &'a Control,
    files: RefCell<HashMap<String, Rc<[FormLines]>>>,
}

/// A top-level form of a file: first line, last line, and current package.
type FormLines = (u32, u32, Option<String>);

fn forms(path: &Path) -> Option<Rc<[FormLines]>> {
    let bytes = steelbank_tree::read_source(path).ok()?;
    let text = LispText::read(&bytes, Dialect::CommonLisp, &Features::sbcl());
    let lines = LineIndex::new(&bytes);
    let forms = text.toplevel().iter().map(|form| {
        let package = form.package.as_deref().map(String::from);
        (lines.line(form.span.start), lines.line(form.span.end.saturating_sub(1)), package)
    });
    Some(forms.collect())
}

/// A use of a symbol, or all uses on a line as one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UseLine {
    pub(crate) place: Location,
    pub(crate) use_type: UseType,
    pub(crate) caller: Option<String>,
    pub(crate) context: Option<String>,
    /// The number of the top-level form around the line.
    pub(crate) form: Option<usize>,
    /// The package of that form, or otherwise of the function that contains the use.
    pub(crate) package: Option<String>,
    /// Whether the use only exports, imports or declares the symbol, or names a block.
    pub(crate) is_declaration: bool,
    /// Whether the symbol is in quoted data or in a macro's arguments, where code may call it.
    pub(crate) is_quoted: bool,
    /// Whether the line is in a test file.
    pub(crate) in_tests: bool,
    /// Whether F, (SETF F) or both are used. Always `Itself` if the entry stands for all uses on a
    /// line.
    pub(crate) called: SetfUse,
}

impl UseLine {
    /// Whether the use is the operator of the form that defines `known`.
    pub(crate) fn is_operator(&self, known: &DefinitionInFile) -> bool {
        let (place, name) = (&self.place, known.definition.place);
        self.use_type == UseType::Macro
            && place.file == known.path
            && place.line == Some(known.definition.start)
            && place.column.is_some_and(|column| name.line > known.definition.start || column < name.column)
    }

    /// Whether `name` is the operator of a list on the line, or follows `#'`.
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

impl<'a> UseLines<'a> {
    pub(crate) fn new(context: &'a QueryContext<'a>, control: &'a Control) -> Self {
        Self { context, control, files: RefCell::default() }
    }

    /// Returns the number of the top-level form on `line` of the file that answers show as `path`,
    /// and its package.
    pub(crate) fn form_at(&self, path: &str, line: u32) -> Option<(usize, Option<String>)> {
        let mut files = self.files.borrow_mut();
        let read = || forms(&self.context.project.native(path)).unwrap_or_default();
        let forms = files.entry(path.to_owned()).or_insert_with(read);
        let number = forms.partition_point(|(_, last, _)| *last < line);
        let (.., package) = forms.get(number).filter(|(first, ..)| *first <= line)?;
        Some((number, package.clone()))
    }

    /// Lists the lines of all loaded code that use the symbol. The list is empty if the search
    /// fails.
    pub(crate) fn lines(&self, symbol: &SymbolName) -> Vec<UseLine> {
        let answer = code_find_references(self.context, &everywhere(symbol), self.control);
        let lines = answer.map(|answer| answer.refs).unwrap_or_default().into_iter();
        let lines = lines.map(|found| {
            let caller = found.caller.map(|caller| caller.canonical().to_owned());
            (found.place, found.use_type, caller, found.context)
        });
        lines.map(|found| self.use_line(found, SetfUse::Itself)).collect()
    }

    /// Lists the functions that use the symbol in any way and were compiled without a file.
    pub(crate) fn without_file(&self, symbol: &SymbolName) -> BTreeSet<(String, Kind)> {
        let index = &self.context.index;
        let uses = index.named(symbol).map(|symbol| SymbolUses::new(index, symbol, FunctionName::Plain));
        uses.map(|uses| uses.recorded(|_, _| false).without_file).unwrap_or_default()
    }

    /// Lists all uses of the symbol in loaded code. Several uses on a line are separate entries.
    /// The list is empty if the search fails.
    pub(crate) fn uses(&self, symbol: &SymbolName) -> Vec<UseLine> {
        let uses =
            single_uses(self.context, &everywhere(symbol), self.control).unwrap_or_default().into_iter();
        uses.map(|SingleUse { found, line, .. }| {
            let context = line.map(|line| line.to_string());
            self.use_line((found.place, found.use_type, found.caller, context), found.called)
        })
        .collect()
    }

    fn use_line(
        &self,
        (place, use_type, caller, context): (Location, UseType, Option<String>, Option<String>),
        called: SetfUse,
    ) -> UseLine {
        let at = place.line.and_then(|line| self.form_at(&place.file, line));
        let (form, package) = at.map_or((None, None), |(form, package)| (Some(form), package));
        let by_caller =
            || Some(PrintedName::parse(caller.as_deref()?).symbol().split_once("::")?.0.to_owned());
        UseLine {
            form,
            package: package.or_else(by_caller),
            is_declaration: use_type.is_declaration(),
            is_quoted: matches!(use_type, UseType::Quoted | UseType::Mention),
            in_tests: is_test_file(self.context.project, &place.file),
            place,
            use_type,
            caller,
            context,
            called,
        }
    }
}

/// Creates the request for all uses of the symbol.
fn everywhere(symbol: &SymbolName) -> CodeFindReferencesRequest {
    CodeFindReferencesRequest {
        package: Some(barred(&symbol.package)),
        project_only: false,
        limit: usize::MAX,
        ..CodeFindReferencesRequest::new(barred(&symbol.name))
    }
}

/// Whether a file, shown as `path`, contains tests: by its systems, or by its folder if no system
/// contains it.
pub(crate) fn is_test_file(project: &Project, path: &str) -> bool {
    project.is_test_file(&project.native(path)).unwrap_or_else(|| in_test_folder(path))
}

/// Whether a path has a folder `t`, `test`, `tests`, `testing` or `spec`.
fn in_test_folder(path: &str) -> bool {
    path.split('/')
        .rev()
        .skip(1)
        .any(|folder| matches!(folder.to_lowercase().as_str(), "t" | "test" | "tests" | "testing" | "spec"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_files_are_recognized_by_folder() {
        for path in ["t/a.lisp", "src/tests/b.lisp", "Test/x.lisp"] {
            assert!(in_test_folder(path), "{path}");
        }
        for path in ["src/test-runner.lisp", "attest/a.lisp", "main.lisp", "tests.lisp"] {
            assert!(!in_test_folder(path), "{path}");
        }
    }

    #[test]
    fn calls_in_text_ignores_other_words() {
        let line = |context: &str| UseLine {
            place: Location::default(),
            use_type: UseType::Template,
            caller: None,
            context: Some(context.to_owned()),
            form: None,
            package: None,
            is_declaration: false,
            is_quoted: false,
            in_tests: false,
            called: SetfUse::Itself,
        };
        for called in ["`(F 1)", "`(list (p::f))", "(mapcar #'f x)"] {
            assert!(line(called).calls_in_text("F"), "{called}");
        }
        for other in ["`(list f)", "(f-g 1)", "(g-f 1)", "(let ((x f)))"] {
            assert!(!line(other).calls_in_text("F"), "{other}");
        }
    }
}
