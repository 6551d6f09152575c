//! Finds the definition around a place in a loaded file, and the name under which answers list it
//! as a user.
//!
//! The compiler names the function of each use that it records. For other uses the name comes from
//! the text: the innermost definition around the place, in canonical form.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use steelbank_reader::{Datum, Dialect, Features, FormId, LispText, Token};
use steelbank_text::DefinitionKind;

use super::graph::{Node, Target};
use super::outline::{DefinitionInFile, definitions_in};
use crate::answer::Location;
use crate::handle::QueryContext;
use steelbank_reader::lines::{LineIndex, PositionEncoding};
use steelbank_xref::{Index, SymbolName};

/// A file's bytes, and the forms and the lines in them.
pub(crate) type ParsedFile = (Vec<u8>, LispText, LineIndex);

/// Finds enclosing definitions. Reads each file once.
pub(crate) struct Enclosing<'a> {
    context: &'a QueryContext<'a>,
    files: RefCell<HashMap<String, Rc<Vec<DefinitionInFile>>>>,
    texts: RefCell<HashMap<String, Option<Rc<ParsedFile>>>>,
}

impl<'a> Enclosing<'a> {
    pub(crate) fn new(context: &'a QueryContext<'a>) -> Self {
        Self { context, files: RefCell::default(), texts: RefCell::default() }
    }

    /// Lists the definitions in the file that answers show as `path`. Returns an empty list if the
    /// file cannot be read.
    pub(crate) fn definitions(&self, path: &str) -> Rc<Vec<DefinitionInFile>> {
        let mut files = self.files.borrow_mut();
        let known = files.entry(path.to_owned()).or_insert_with(|| {
            let known = definitions_in(self.context, &self.context.project.native(path));
            Rc::new(known.map(|(known, _)| known).unwrap_or_default())
        });
        Rc::clone(known)
    }

    /// Reads the file that answers show as `path`. Returns `None` if it cannot be read.
    pub(crate) fn text(&self, path: &str) -> Option<Rc<ParsedFile>> {
        let mut texts = self.texts.borrow_mut();
        let read = texts.entry(path.to_owned()).or_insert_with(|| {
            let bytes = steelbank_tree::read_source(&self.context.project.native(path)).ok()?;
            let text = LispText::read(&bytes, Dialect::CommonLisp, &Features::sbcl());
            let lines = LineIndex::new(&bytes);
            Some(Rc::new((bytes, text, lines)))
        });
        read.clone()
    }

    /// Returns the printed name of the innermost definition around `place` that contains code: a
    /// function, method, macro, compiler macro, setf definition or test, or a form of another
    /// operator that defines one of the functions `compiled`. Returns `None` for top-level code.
    pub(crate) fn function(&self, place: &Location, compiled: &BTreeSet<&str>) -> Option<String> {
        let definitions = self.definitions(&place.file);
        let defines_function = |known: &DefinitionInFile| match known.definition.kind {
            DefinitionKind::Definition => compiled.contains(&*known.canonical()),
            kind => is_function(kind),
        };
        let known = innermost(&definitions, place, defines_function)?;
        let name = self.node(known).name;
        Some(match known.definition.kind {
            DefinitionKind::Macro => format!("(MACRO-FUNCTION {name})"),
            _ => name,
        })
    }

    /// Returns the name of the test around `place`. Frameworks often give a test's code to an
    /// unnamed function, or compile it at run time.
    pub(crate) fn test(&self, place: &Location) -> Option<String> {
        let definitions = self.definitions(&place.file);
        let is_test = |known: &DefinitionInFile| known.definition.kind == DefinitionKind::Test;
        innermost(&definitions, place, is_test).map(DefinitionInFile::canonical)
    }

    /// Whether the token of `symbol` at `place` is the name in a form that defines a test.
    pub(crate) fn names_test(&self, symbol: &SymbolName, place: &Location) -> bool {
        self.definitions(&place.file).iter().any(|known| {
            let name = known.definition.place;
            known.definition.kind == DefinitionKind::Test
                // The token can have a package prefix.
                && (place.line == Some(name.line) && place.column <= Some(name.column))
                && known.full_name().as_ref() == Some(symbol)
        })
    }

    /// Finds the definition of a class, condition or structure in the loaded files.
    pub(crate) fn class(&self, class: &SymbolName) -> Option<ClassInText<'_>> {
        use DefinitionKind::{Class, Condition, Struct};
        let is_its = |known: &DefinitionInFile| {
            matches!(known.definition.kind, Class | Condition | Struct)
                && known.full_name().as_ref() == Some(class)
        };
        self.context.project.naming(&class.name).into_iter().find_map(|version| {
            let definitions = self.definitions(&self.context.project.shown(&version.path));
            let known = definitions.iter().find(|known| is_its(known))?;
            let file = self.text(&known.path)?;
            let (bytes, text, lines) = &*file;
            let name = lines.offset(bytes, known.definition.place, PositionEncoding::Characters)?;
            let mut form = text.token_at(name)?.form?;
            // The name of a structure may be in a list with options.
            if text.elements(form).next().is_some_and(|first| text.span(first).contains(name)) {
                form = text.form(form)?.parent?;
            }
            let package = known.definition.package.clone();
            Some(ClassInText { index: &self.context.index, place: known.place(), file, form, package })
        })
    }

    /// Creates the node of a definition in the text.
    pub(crate) fn node(&self, known: &DefinitionInFile) -> Node {
        let target = Target::defined(known);
        let name = match known.definition.kind {
            DefinitionKind::Setf if !known.definition.setf => format!("(SETF {})", known.canonical()),
            DefinitionKind::CompilerMacro => format!("(COMPILER-MACRO {})", known.canonical()),
            DefinitionKind::Method => self.method(known).unwrap_or_else(|| known.canonical()),
            DefinitionKind::Definition if target.is_none() => {
                let line = Location::new(&*known.path).at(known.definition.place).whole_line();
                return Node {
                    name: format!(
                        "top level of {line}, ({} {} …)",
                        known.definition.operator.to_lowercase(),
                        known.name(&self.context.index)
                    ),
                    target,
                    is_toplevel: true,
                };
            }
            _ => known.canonical(),
        };
        Node { name, target, is_toplevel: false }
    }

    /// Builds the canonical name of a method from the lambda list in the text. Returns `None` if
    /// the method's form is not found there.
    fn method(&self, known: &DefinitionInFile) -> Option<String> {
        let file = self.text(&known.path)?;
        let (bytes, text) = (&file.0, &file.1);
        let form = form_of(&file, known)?;
        let index = &self.context.index;
        let written =
            |datum: Datum| String::from_utf8_lossy(&bytes[text.span(datum).indices()]).to_uppercase();
        let symbol = |datum: Datum| {
            let read = text.token(datum).map(|token| token.symbol(bytes));
            let found = read.and_then(|read| {
                let package = read.package.as_deref().or(known.definition.package.as_deref())?;
                index.symbol_named(package, &read.name).map(|(symbol, _)| index.symbol_text(symbol))
            });
            found.unwrap_or_else(|| written(datum))
        };
        let (mut parts, mut specializers) = (vec![known.canonical()], Vec::new());
        for datum in text.elements(form).skip(2) {
            match datum {
                Datum::Token(_) => parts.push(written(datum)),
                Datum::Form(list) => {
                    for parameter in text.elements(list) {
                        match parameter {
                            Datum::Token(_) if written(parameter).starts_with('&') => break,
                            Datum::Token(_) => specializers.push("COMMON-LISP::T".to_owned()),
                            Datum::Form(list) => specializers.push(symbol(text.elements(list).nth(1)?)),
                        }
                    }
                    break;
                }
            }
        }
        Some(format!("(METHOD {} ({}))", parts.join(" "), specializers.join(" ")))
    }
}

/// The form that defines a class, condition or structure.
pub(crate) struct ClassInText<'a> {
    index: &'a Index,
    /// The place of the class's name.
    pub(crate) place: Location,
    file: Rc<ParsedFile>,
    form: FormId,
    package: Option<String>,
}

impl ClassInText<'_> {
    /// Returns the token of a symbol, or the first token of a list.
    fn token(&self, datum: Datum) -> Option<&Token> {
        let text = &self.file.1;
        match datum {
            Datum::Token(token) => text.tokens().get(token),
            Datum::Form(list) => text.tokens().get(text.form(list)?.tokens())?.first(),
        }
    }

    /// Lists the direct superclasses in the form.
    pub(crate) fn superclasses(&self) -> Vec<SymbolName> {
        let (bytes, text) = (&self.file.0, &self.file.1);
        let Some(Datum::Form(list)) = text.elements(self.form).nth(2) else { return Vec::new() };
        let symbol = |datum: Datum| {
            let read = self.token(datum)?.symbol(bytes);
            let package = read.package.as_deref().or(self.package.as_deref())?;
            Some(self.index.full_name(self.index.symbol_named(package, &read.name)?.0))
        };
        text.elements(list).filter_map(symbol).collect()
    }

    /// Returns the place of the slot's name in the form.
    pub(crate) fn slot(&self, name: &str) -> Option<Location> {
        let (bytes, text, lines) = &*self.file;
        let is_structure = text.head(text.form(self.form)?)?.is_named(bytes, "DEFSTRUCT");
        let slots: Vec<Datum> = match text.elements(self.form).nth(3) {
            Some(Datum::Form(list)) if !is_structure => text.elements(list).collect(),
            _ => text.elements(self.form).skip(2).collect(),
        };
        let mut names = slots.into_iter().filter_map(|slot| self.token(slot));
        let token = names.find(|token| token.symbol(bytes).name == name)?;
        Some(Location::in_text(&*self.place.file, lines, bytes, token.span))
    }
}

/// Whether a definition of this kind contains code and can be a user.
fn is_function(kind: DefinitionKind) -> bool {
    matches!(
        kind,
        DefinitionKind::Function
            | DefinitionKind::GenericFunction
            | DefinitionKind::Method
            | DefinitionKind::Macro
            | DefinitionKind::Setf
            | DefinitionKind::CompilerMacro
            | DefinitionKind::Test
    )
}

/// Finds the innermost of `definitions` around `place` that `wanted` accepts. The definitions are
/// those of one file, in order. Accessors are ignored, because they are only slot options and
/// contain no code.
pub(crate) fn innermost<'d>(
    definitions: &'d [DefinitionInFile],
    place: &Location,
    wanted: impl Fn(&DefinitionInFile) -> bool,
) -> Option<&'d DefinitionInFile> {
    let at = (place.line?, place.column.unwrap_or(u32::MAX));
    let name = |known: &DefinitionInFile| (known.definition.place.line, known.definition.place.column);
    let (before, after) = definitions.split_at(definitions.partition_point(|known| name(known) <= at));
    let is_around = |known: &&DefinitionInFile| {
        known.has(place) && known.definition.kind != DefinitionKind::Accessor && wanted(known)
    };
    // A definition that begins in an earlier top-level form ends before this place.
    let form = before.last().map(|known| known.definition.form);
    let same_form = before.iter().rev().take_while(|known| Some(known.definition.form) == form);
    let begins = |known: &&DefinitionInFile| known.definition.start <= at.0;
    same_form.into_iter().find(is_around).or_else(|| after.iter().take_while(begins).find(is_around))
}

/// Finds the form that defines `known`. The form may be nested in another form, such as EVAL-WHEN.
pub(crate) fn form_of((bytes, text, lines): &ParsedFile, known: &DefinitionInFile) -> Option<FormId> {
    let name = lines.offset(bytes, known.definition.place, PositionEncoding::Characters)?;
    let form = text.token_at(name)?.form?;
    let second = text.elements(form).nth(1)?;
    (text.span(second).start == name).then_some(form)
}
