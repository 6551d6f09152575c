//! Locates the definitions of tests and the assertions inside them.

use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use steelbank_reader::lines::LineIndex;
use steelbank_reader::{Datum, Dialect, Features, FormId, FormKind, LispText, Range, TokenKind};
use steelbank_text::DefinitionKind;

use super::{AssertionResult, FrameworkTest, TestSystem};
use crate::actions::uses::graph::{Target, UserFinder};
use crate::answer::Location;
use crate::answer::lookup::find_package;
use crate::engine::control::Control;
use crate::handle::context::QueryContext;
use steelbank_xref::SymbolName;

/// For frameworks that store no function for a test, or a function without a source position: the
/// framework's name, its package, and its operators that define tests.
const DEFINERS: [(&str, &str, &[&str]); 8] = [
    ("fiveam", "IT.BESE.FIVEAM", &["TEST", "DEF-TEST"]),
    ("rt", "REGRESSION-TEST", &["DEFTEST"]),
    ("sb-rt", "SB-RT", &["DEFTEST"]),
    ("fiasco", "FIASCO", &["DEFTEST"]),
    ("1am", "1AM", &["TEST"]),
    ("rove", "ROVE/CORE/TEST", &["DEFTEST"]),
    ("parachute", "ORG.SHIRAKUMO.PARACHUTE", &["DEFINE-TEST", "DEFINE-TEST+RUN"]),
    ("lisp-unit2", "LISP-UNIT2", &["DEFINE-TEST"]),
];

/// The form that defines a test.
#[derive(Debug, Clone)]
pub(super) struct TestForm {
    path: PathBuf,
    pub(super) place: Location,
    last_line: u32,
    /// The name of the form's operator in upper case; empty if it defines no test by its shape.
    operator: String,
}

/// The definitions of the tests of some systems.
#[derive(Debug, Default)]
pub(super) struct TestPlaces {
    files: BTreeSet<PathBuf>,
    packages: BTreeSet<String>,
    /// Forms with TEST in their operator's name, by package and by the name in the second element.
    forms: BTreeMap<SymbolName, TestForm>,
    /// Top-level forms that use an operator of [`DEFINERS`], directly or through macros: the
    /// framework, the form, and the names in it, in order.
    generated: Vec<(&'static str, TestForm, Vec<String>)>,
}

impl TestForm {
    fn new(path: &Path, shown: &str, lines: &LineIndex, bytes: &[u8], span: Range) -> Self {
        Self {
            path: path.to_owned(),
            place: Location::in_text(shown, lines, bytes, span),
            last_line: lines.line(span.end.saturating_sub(1)),
            operator: String::new(),
        }
    }

    pub(super) fn has_line(&self, line: u32) -> bool {
        self.place.line.is_some_and(|first| (first..=self.last_line).contains(&line))
    }
}

impl TestPlaces {
    /// Searches the files of `systems` for definitions of tests.
    pub(super) fn of(context: &QueryContext<'_>, systems: &[TestSystem], control: &Control) -> Self {
        let mut found = Self {
            files: systems.iter().flat_map(|system| system.files.iter().cloned()).collect(),
            packages: BTreeSet::new(),
            forms: BTreeMap::new(),
            generated: Vec::new(),
        };
        let files: BTreeMap<String, &PathBuf> = systems
            .iter()
            .flat_map(|system| &system.files)
            .map(|path| (context.project.shown(path), path))
            .collect();
        let generated = definers_used(context, &files, control);
        for (shown, path) in &files {
            found.read(context, shown, path, generated.get(shown));
        }
        found
    }

    /// Finds the form that defines a test, either by naming the test or through a macro.
    pub(super) fn of_test(&self, test: &FrameworkTest) -> Option<TestForm> {
        let name = test.name.to_uppercase();
        let generating = || self.generating_form(&test.framework, &name, self.has_package(test));
        self.written_form(test).or_else(generating).cloned()
    }

    /// Finds a form that names the test and, judging by its shape, defines it.
    fn written_form(&self, test: &FrameworkTest) -> Option<&TestForm> {
        let name = test.name.to_uppercase();
        match &test.package {
            Some(package) => self.forms.get(&SymbolName::new(&**package, name)),
            None => self.forms.iter().find(|(other, _)| other.name == name).map(|(_, place)| place),
        }
    }

    /// Returns whether the files contain a form that names the test and defines it.
    pub(super) fn is_written(&self, test: &FrameworkTest) -> bool {
        self.written_form(test).is_some()
    }

    /// Sets the positions of the assertions of the test that `own` defines. An assertion of a
    /// called test is in the definition of that test.
    pub(super) fn place_assertions(
        &self,
        context: &QueryContext<'_>,
        own: Option<&TestForm>,
        assertions: &mut [AssertionResult],
    ) {
        let mut by_test: BTreeMap<Option<(String, String)>, Vec<&mut AssertionResult>> = BTreeMap::new();
        for assertion in assertions {
            by_test.entry(assertion.called.clone()).or_default().push(assertion);
        }
        for (called, mut assertions) in by_test {
            let form = match called {
                Some((package, name)) => self.forms.get(&SymbolName::new(package, name)),
                None => own,
            };
            if let Some(form) = form {
                place_in(context, form, &mut assertions);
            }
        }
    }

    /// Tests whether a test belongs to the systems. If the test's file is known, it must be one of
    /// the systems' files. Otherwise these files must contain the test's definition or a form in
    /// its package.
    pub(super) fn belongs(&self, test: &FrameworkTest) -> bool {
        let by_file = test.file.as_ref().map(|file| self.files.contains(file));
        test.place.is_some() && by_file != Some(false) || by_file.unwrap_or_else(|| self.has_package(test))
    }

    /// Tests whether a form of the systems is in the test's package.
    fn has_package(&self, test: &FrameworkTest) -> bool {
        test.package.as_ref().is_some_and(|package| self.packages.contains(package))
    }

    /// Finds the form that expands to the definition of the test `name`. If the systems use the
    /// test's package (`own`), this is the form with the longest name that is part of `name`, and
    /// among such forms the one where this name comes first. Otherwise the form must contain `name`
    /// itself.
    fn generating_form(&self, framework: &str, name: &str, own: bool) -> Option<&TestForm> {
        let mut forms = self.generated.iter().filter(|(of, _, _)| *of == framework);
        if !own {
            return forms
                .find(|(_, _, names)| names.iter().any(|each| each == name))
                .map(|(_, form, _)| form);
        }
        let likeness = |names: &[String]| {
            let parts =
                names.iter().enumerate().filter(|(_, part)| part.len() > 2 && name.contains(&***part));
            parts.map(|(at, part)| (part.len(), Reverse(at))).max()
        };
        let best = forms.max_by_key(|(_, _, names)| likeness(names))?;
        likeness(&best.2).map(|_| &best.1)
    }

    /// Records the definitions in the file at `path`. `generated` lists the lines that use the
    /// operators of a framework.
    fn read(
        &mut self,
        context: &QueryContext<'_>,
        shown: &str,
        path: &Path,
        generated: Option<&BTreeSet<(&'static str, u32)>>,
    ) {
        let Ok(bytes) = steelbank_tree::read_source(path) else { return };
        let text = LispText::read(&bytes, Dialect::CommonLisp, &Features::sbcl());
        let lines = LineIndex::new(&bytes);
        for top in text.toplevel() {
            let mut form = TestForm::new(path, shown, &lines, &bytes, top.span);
            if let Some((framework, _)) =
                generated.into_iter().flatten().find(|(_, used)| form.has_line(*used))
            {
                let names = top.tokens().filter_map(|index| text.tokens().get(index));
                let names = names.map(|token| token.symbol(&bytes).name.trim_matches('"').to_uppercase());
                self.generated.push((framework, form.clone(), names.collect()));
            }
            let package = top.package.as_deref().and_then(|name| find_package(&context.index, name));
            let Some(package) = package.map(|package| context.index.package_name(package).into_owned())
            else {
                continue;
            };
            if let Some((operator, name)) = top.form.and_then(|top| test_name(&text, &bytes, top)) {
                form.operator = operator;
                match self.forms.entry(SymbolName::new(&*package, name)) {
                    // A later definition by the same operator in a file replaces the earlier one.
                    Entry::Occupied(mut known) => {
                        if known.get().path == path && known.get().operator == form.operator {
                            known.insert(form);
                        }
                    }
                    Entry::Vacant(free) => _ = free.insert(form),
                }
            }
            self.packages.insert(package);
        }
    }
}

/// Extracts the operator and the name of the test that a form defines, by its shape: `(test name
/// …)` or `(test (name :suite …) …)`.
fn test_name(text: &LispText, bytes: &[u8], form: FormId) -> Option<(String, String)> {
    let mut elements = text.elements(form);
    let operator = text.token(elements.next()?)?.symbol(bytes).name.to_uppercase();
    if !operator.contains("TEST") {
        return None;
    }
    let named = match elements.next()? {
        Datum::Form(inner) => text.elements(inner).next()?,
        other => other,
    };
    Some((operator, text.token(named)?.symbol(bytes).name.trim_matches('"').to_uppercase()))
}

/// Lists the lines of `files` that use the frameworks' operators, directly or through macros.
fn definers_used(
    context: &QueryContext<'_>,
    files: &BTreeMap<String, &PathBuf>,
    control: &Control,
) -> BTreeMap<String, BTreeSet<(&'static str, u32)>> {
    let mut found: BTreeMap<String, BTreeSet<(&'static str, u32)>> = BTreeMap::new();
    let users = UserFinder::new(context, control);
    for (framework, package, operators) in DEFINERS {
        // Start with the framework's operators, and add macros with definitions that use them.
        let mut waiting: Vec<Target> =
            operators.iter().map(|operator| Target::any(SymbolName::new(package, *operator))).collect();
        let mut seen = BTreeSet::new();
        while let Some(target) = waiting.pop() {
            if !seen.insert(target.clone()) {
                continue;
            }
            for used in users.of(&target) {
                match (used.defined, used.user.target, used.line.place.line) {
                    (Some(DefinitionKind::Macro), Some(target), _) => waiting.push(target),
                    (_, _, Some(line)) if files.contains_key(&used.line.place.file) => {
                        found.entry(used.line.place.file).or_default().insert((framework, line));
                    }
                    _ => (),
                }
            }
        }
    }
    found
}

/// Sets the position of each assertion with a form that occurs exactly once in the test that `form`
/// defines.
fn place_in(context: &QueryContext<'_>, form: &TestForm, assertions: &mut [&mut AssertionResult]) {
    let Some(within) = form.place.range.filter(|_| assertions.iter().any(|known| known.form.is_some()))
    else {
        return;
    };
    let Ok(bytes) = context.project.read(&form.path) else { return };
    let (text, lines) =
        (LispText::read(&bytes, Dialect::CommonLisp, &Features::sbcl()), LineIndex::new(&bytes));
    let first = text.forms().partition_point(|inner| inner.span.start < within.start);
    let last = text.forms().partition_point(|inner| inner.span.start < within.end);
    let shapes: Vec<(Range, Vec<String>)> = (first..last)
        .map(|index| (text.forms()[index].span, shape(&text, &bytes, FormId::new(index))))
        .collect();
    for assertion in assertions {
        let Some(printed) = &assertion.form else { continue };
        let read = LispText::read(printed.as_bytes(), Dialect::CommonLisp, &Features::sbcl());
        let Some(top) = read.toplevel().first().and_then(|top| top.form) else { continue };
        let wanted = shape(&read, printed.as_bytes(), top);
        let mut found = shapes.iter().filter(|(_, shape)| *shape == wanted);
        if let (Some((span, _)), None) = (found.next(), found.next()) {
            assertion.place = Some(Location::in_text(form.place.file.clone(), &lines, &bytes, *span));
        }
    }
}

/// Returns the tokens of a form, with symbols stripped of packages, for comparing a printed form
/// with the source.
fn shape(text: &LispText, bytes: &[u8], form: FormId) -> Vec<String> {
    let mut parts = Vec::new();
    add_shape(text, bytes, &Datum::Form(form), &mut parts);
    parts
}

/// Appends the tokens of `datum` to `parts`, as [`shape`] returns them.
fn add_shape(text: &LispText, bytes: &[u8], datum: &Datum, parts: &mut Vec<String>) {
    match datum {
        Datum::Form(form) => {
            let elements: Vec<Datum> = text.elements(*form).collect();
            // SBCL prints `'x` and `#'x` as lists.
            match (text.form(*form).map(|form| form.kind), &elements[..]) {
                (Some(FormKind::Quote | FormKind::Function), [quoted]) => {
                    return add_shape(text, bytes, quoted, parts);
                }
                (_, [Datum::Token(head), quoted])
                    if ["QUOTE", "FUNCTION"].contains(&&*text.tokens()[*head].symbol(bytes).name) =>
                {
                    return add_shape(text, bytes, quoted, parts);
                }
                _ => {}
            }
            parts.push("(".to_owned());
            elements.iter().for_each(|element| add_shape(text, bytes, element, parts));
            parts.push(")".to_owned());
        }
        Datum::Token(index) => {
            let token = &text.tokens()[*index];
            parts.push(match token.kind {
                TokenKind::Symbol => token.symbol(bytes).name.into_owned(),
                _ => {
                    String::from_utf8_lossy(bytes.get(token.span.indices()).unwrap_or_default()).into_owned()
                }
            });
        }
    }
}
