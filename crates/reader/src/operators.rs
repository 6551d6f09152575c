//! The operators of Common Lisp, of SBCL's extensions and of some common libraries, with the shapes
//! of their forms.
//!
//! Code that analyses Lisp as text uses the table `operators.table` to find the roles of tokens,
//! bindings, bodies and places. A line consists of an operator's kind, its name and the shape of
//! its form. Each word of the shape describes one element of the form. `word*` describes all
//! remaining elements, `{a b}*` describes remaining elements that alternate, `(…)` a list of
//! elements, and `a/b` an element that is an atom (`a`) or a list (`b`). Some words, such as
//! `body`, describe all remaining elements by themselves. Variables bound by a form are visible in
//! its `inner` forms and its body. Within `seq(…)`, a variable is also visible in the following
//! bindings. A line `words LIST WORD …` lists keywords that a macro compares by name.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// Declares an enum with a case for each word of the table, plus the cases after `or`.
macro_rules! table_words {
    ($(#[$about:meta])* $list:ident { $($(#[$case_about:meta])* $case:ident = $word:literal,)* } or { $($other:tt)* }) => {
        $(#[$about])*
        pub enum $list {
            $($(#[$case_about])* $case,)*
            $($other)*
        }

        impl $list {
            fn of_word(word: &str) -> Option<Self> {
                match word {
                    $($word => Some(Self::$case),)*
                    _ => None,
                }
            }
        }
    };
}

/// The kinds of operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OperatorKind {
    /// A special operator, or `declare`.
    Special,
    /// A macro.
    Macro,
    /// A function. Its arguments are evaluated; its shape describes what constant arguments name.
    Function,
}

/// The kind of object that a definition defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Defined {
    /// A function, generic function or method, or another object with a function's name, such as a
    /// compiler macro.
    Function,
    /// A macro.
    Macro,
    /// A variable, constant or symbol macro.
    Variable,
    /// A class or condition.
    Class,
    /// Another object, such as a type or a method combination.
    Other,
}

table_words! {
    /// The shape of one element of a form.
    #[derive(Debug, Clone, PartialEq, Eq)]
    FormPart {
        /// A form, evaluated outside the scope of the operator's bindings.
        Form = "form",
        /// A form, evaluated inside the scope of the operator's bindings.
        Inner = "inner",
        /// A place or variable that is read, written or both.
        Place = "place",
        /// A form, or a tag for `go`.
        Tagbody = "tagbody",
        /// A structure's name and options.
        Structure = "structure",
        /// A slot of a structure.
        StructureSlot = "structure-slot",
        /// The list of a class's slots.
        Slots = "slots",
        /// An option of a class.
        ClassOption = "class-option",
        /// An option or method of a generic function.
        GenericOption = "generic-option",
        /// Qualifiers, lambda list and body of a method, from here to the end.
        Method = "method",
        /// Options and body of a restart.
        RestartBody = "restart-body",
        /// The elements after the name of a method combination, from here to the end.
        MethodCombination = "method-combination",
        /// A clause of a package definition, or the package's name.
        PackageClause = "package-clause",
        /// A bound variable.
        Variable = "variable",
        /// A variable that refers to a slot: the slot of the same name, or the slot named in
        /// `(variable slot)`.
        SlotVariable = "slot-variable",
        /// A variable that expands to a form.
        SymbolMacro = "symbol-macro",
        /// `(variable form)`, where the variable expands to the form.
        SymbolMacroBinding = "symbol-macro-binding",
        /// The name of a macro that is visible in the body.
        LocalMacro = "local-macro",
        /// The definitions of FLET.
        Functions = "functions",
        /// The definitions of LABELS.
        Labels = "labels",
        /// The definitions of MACROLET.
        Macros = "macros",
        /// The name of a block that is visible in the body.
        Block = "block",
        /// The name of an enclosing block.
        ToBlock = "to-block",
        /// A tag of an enclosing TAGBODY, the target of GO.
        ToTag = "to-tag",
        /// An ordinary lambda list.
        LambdaList = "lambda-list",
        /// A destructuring or macro lambda list; its variables are visible in the body.
        MacroLambdaList = "macro-lambda-list",
        /// A type specifier.
        Type = "type",
        /// A type specifier for a condition.
        Condition = "condition",
        /// The name of a function, or `(setf name)`; not evaluated.
        FunctionName = "function-name",
        /// A class; not evaluated.
        Class = "class",
        /// A slot's name; not evaluated.
        Slot = "slot",
        /// An element that is not evaluated.
        Datum = "datum",
        /// A key of CASE, or a list of keys.
        Keys = "keys",
        /// A declaration specifier.
        Declaration = "declaration",
        /// The clauses of LOOP, from here to the end.
        Loop = "loop",
        /// The name of an alien definition: a symbol, or a list of a string and a symbol.
        AlienName = "alien-name",
        /// The name of an alien type being defined.
        AlienTypeName = "alien-type-name",
        /// An alien type specifier.
        AlienType = "alien-type",
        /// A parameter `(parameter type)` of an alien routine.
        AlienParameter = "alien-parameter",
        /// A list of alien parameters.
        AlienParameters = "alien-parameters",
        /// An alien binding `(variable type …)`.
        AlienBinding = "alien-binding",
    } or {
        /// The name that the form defines, with the kind of object.
        Defines(Defined),
        /// A list of elements.
        List(Shape),
        /// An atom, or a list.
        Either(Box<FormPart>, Box<FormPart>),
        /// A form that names something if its value is constant.
        Names(NamedBy),
    }
}

table_words! {
    /// The kind of object that a constant argument of a function names.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    NamedBy {
        /// A function.
        Function = "function",
        /// A global variable.
        Variable = "variable-name",
        /// A list of global variables to bind, as in PROGV.
        Bound = "bound-variables",
        /// A class, condition or structure.
        Class = "class",
        /// A type.
        Type = "type",
        /// A slot.
        Slot = "slot",
        /// Symbols to export or unexport.
        Exported = "exported",
        /// Symbols to import, shadow or unintern.
        Imported = "imported",
        /// A declaration specifier, as in PROCLAIM.
        Proclaimed = "proclaimed",
        /// The object of a documentation string.
        Documented = "documented",
        /// A symbol that is only compared, such as the name of a restart.
        Datum = "datum-form",
        /// The name of a symbol to look up.
        LookedUp = "looked-up",
    } or {}
}

impl FormPart {
    fn names_symbol(&self) -> bool {
        use NamedBy::{Exported, Imported, LookedUp};
        matches!(self, FormPart::Names(LookedUp | Exported | Imported))
    }
}

/// The shape of a list: its first elements, and the rest.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Shape {
    /// The parts of the first elements.
    pub first: Vec<FormPart>,
    /// The parts of the remaining elements. If there are several, they repeat in this order.
    pub rest: Vec<FormPart>,
    /// Whether each binding is visible in the bindings after it.
    pub sequential: bool,
}

impl Shape {
    /// Returns the part at `index`, from 0. `None` past the last element.
    pub fn part(&self, index: usize) -> Option<&FormPart> {
        match index.checked_sub(self.first.len()) {
            None => self.first.get(index),
            Some(_) if self.rest.is_empty() => None,
            Some(after) => self.rest.get(after % self.rest.len()),
        }
    }

    /// Returns whether the first element is a list of variables to bind, as in LET.
    pub fn binds_in_list(&self) -> bool {
        let Some(FormPart::List(list)) = self.first.first() else { return false };
        list.rest.iter().any(|part| match part {
            FormPart::Either(atom, _) => **atom == FormPart::Variable,
            part => *part == FormPart::Variable,
        })
    }

    /// Returns whether the number of elements is unlimited.
    pub fn is_open(&self) -> bool {
        !self.rest.is_empty()
            || matches!(
                self.first.last(),
                Some(FormPart::Method | FormPart::MethodCombination | FormPart::Loop)
            )
    }
}

/// An operator of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Operator {
    /// The name of the symbol's home package; `*` for any package.
    pub package: String,
    /// The name of the symbol.
    pub name: String,
    /// The kind of operator.
    pub kind: OperatorKind,
    /// The elements of the form after the operator.
    pub shape: Shape,
}

/// Returns all operators of the table.
pub fn operators() -> &'static [Operator] {
    &TABLE.operators
}

/// Returns the operator that is the symbol `name` in the package `package`. Operators that are
/// recognized in any package (`*`) are not returned.
pub fn operator(package: &str, name: &str) -> Option<&'static Operator> {
    operators_named(name).find(|found| found.package == package)
}

/// Returns the operators with this name in any package, for callers that cannot determine a
/// symbol's package because they have no image.
pub(crate) fn operators_named(name: &str) -> impl Iterator<Item = &'static Operator> {
    TABLE.by_name.get(name).into_iter().flatten().map(|&index| &TABLE.operators[index])
}

/// Returns whether an operator with this name defines packages.
pub fn defines_package(name: &str) -> bool {
    operators_named(name).any(|found| found.shape.rest.first() == Some(&FormPart::PackageClause))
}

/// Returns the names of the functions that look up a symbol by name or intern it.
pub fn look_ups() -> impl Iterator<Item = &'static str> {
    let looks_up = |part: &FormPart| *part == FormPart::Names(NamedBy::LookedUp);
    let found = operators().iter().filter(move |found| found.shape.first.iter().any(looks_up));
    found.map(|found| found.name.as_str())
}

/// Returns the names of the operators that define a class, a condition or a structure.
pub fn class_definers() -> impl Iterator<Item = &'static str> {
    let defines = |found: &&Operator| {
        matches!(found.shape.first.first(), Some(FormPart::Defines(Defined::Class) | FormPart::Structure))
    };
    operators().iter().filter(defines).map(|found| found.name.as_str())
}

/// Returns whether an argument of a function with this name can name symbols by a constant value
/// ([`NamedBy::LookedUp`], [`NamedBy::Exported`] or [`NamedBy::Imported`]).
pub fn takes_symbols(name: &str) -> bool {
    operators_named(name).any(|found| found.shape.first.iter().any(FormPart::names_symbol))
}

/// Returns whether the argument at `index`, from 0, of a function called `name` names a symbol that
/// is looked up.
pub fn looks_up(name: &str, index: usize) -> bool {
    operators_named(name).any(|found| found.shape.part(index) == Some(&FormPart::Names(NamedBy::LookedUp)))
}

/// Returns whether the argument at `index`, from 0, of a function called `name` can name symbols by
/// a constant value ([`NamedBy::LookedUp`], [`NamedBy::Exported`] or [`NamedBy::Imported`]).
pub fn names_symbol_at(name: &str, index: usize) -> bool {
    operators_named(name).any(|found| found.shape.part(index).is_some_and(FormPart::names_symbol))
}

/// Lists of keywords that macros compare by name, in any package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClauseWords {
    /// The keywords that begin or continue a clause of LOOP.
    Loop,
    /// The LOOP keywords that continue a clause.
    LoopPreposition,
    /// The keywords of ITERATE.
    Iterate,
}

impl ClauseWords {
    /// Returns whether `name` is in the list.
    pub fn contains(self, name: &str) -> bool {
        TABLE.words.get(&self).is_some_and(|words| words.contains(name))
    }
}

#[derive(Default)]
struct OperatorTable {
    /// The operators in the order of the table.
    operators: Vec<Operator>,
    by_name: HashMap<String, Vec<usize>>,
    words: HashMap<ClauseWords, HashSet<String>>,
}

static TABLE: LazyLock<OperatorTable> = LazyLock::new(|| {
    let mut table = OperatorTable::default();
    for text in include_str!("operators.table").lines().map(str::trim) {
        if let Some((list, words)) = clause_words(text) {
            table.words.entry(list).or_default().extend(words);
        } else if let Some(operator) = line(text) {
            table.by_name.entry(operator.name.clone()).or_default().push(table.operators.len());
            table.operators.push(operator);
        }
    }
    table
});

/// Parses a line of keywords. `None` if it is not such a line.
fn clause_words(line: &str) -> Option<(ClauseWords, impl Iterator<Item = String>)> {
    let (list, words) = line.strip_prefix("words ")?.trim().split_once(' ')?;
    let list = match list {
        "loop" => ClauseWords::Loop,
        "loop-preposition" => ClauseWords::LoopPreposition,
        "iterate" => ClauseWords::Iterate,
        _ => return None,
    };
    Some((list, words.split_whitespace().map(str::to_uppercase)))
}

/// Parses an operator's line. `None` for empty, comment and malformed lines; a test checks that no
/// line is malformed.
fn line(line: &str) -> Option<Operator> {
    let (kind, rest) = line.split_once(' ')?;
    let (name, parts) = rest.trim().split_once(' ').unwrap_or((rest.trim(), ""));
    let (package, name) = name.split_once(':').unwrap_or(("common-lisp", name));
    let kind = match kind {
        "special" => OperatorKind::Special,
        "macro" => OperatorKind::Macro,
        "function" => OperatorKind::Function,
        _ => return None,
    };
    let spaced = parts.replace("seq(", " < ");
    let spaced = ['(', ')', '{', '}', '*', '/']
        .iter()
        .fold(spaced, |text, sign| text.replace(*sign, &format!(" {sign} ")));
    let mut words = spaced.split_whitespace().peekable();
    let shape = shape(&mut words, kind)?;
    let (package, name) = (package.to_uppercase(), name.to_uppercase());
    words.next().is_none().then_some(Operator { package, name, kind, shape })
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

/// Parses parts up to the end of the line, or of the enclosing list or group.
fn shape(words: &mut Words<'_>, kind: OperatorKind) -> Option<Shape> {
    let mut shape = Shape::default();
    while let Some(&word) = words.peek() {
        match word {
            ")" | "}" => break,
            "{" => {
                words.next();
                let group = self::shape(words, kind)?;
                (words.next()? == "}" && words.next()? == "*").then_some(())?;
                shape.rest = group.first;
            }
            "body" | "restart-body" | "tagbody" => {
                words.next();
                shape.rest = vec![match word {
                    "body" => FormPart::Inner,
                    word => FormPart::of_word(word)?,
                }];
            }
            _ => {
                let mut found = part(words, kind)?;
                if words.next_if_eq(&"/").is_some() {
                    found = FormPart::Either(Box::new(found), Box::new(part(words, kind)?));
                }
                match words.next_if_eq(&"*") {
                    Some(_) => shape.rest = vec![found],
                    None => shape.first.push(found),
                }
            }
        }
    }
    Some(shape)
}

fn part(words: &mut Words<'_>, kind: OperatorKind) -> Option<FormPart> {
    let word = words.next()?;
    let names = |word| NamedBy::of_word(word).map(FormPart::Names);
    Some(match word {
        "form" => FormPart::Form,
        _ if kind == OperatorKind::Function => return names(word),
        "(" | "<" => {
            let shape = shape(words, kind)?;
            (words.next()? == ")").then_some(())?;
            FormPart::List(Shape { sequential: word == "<", ..shape })
        }
        "function" | "bound-variables" => return names(word),
        "destructuring" => FormPart::MacroLambdaList,
        "defines:function" => FormPart::Defines(Defined::Function),
        "defines:macro" => FormPart::Defines(Defined::Macro),
        "defines:variable" => FormPart::Defines(Defined::Variable),
        "defines:class" => FormPart::Defines(Defined::Class),
        "defines:other" => FormPart::Defines(Defined::Other),
        word => return FormPart::of_word(word),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_table_parses() {
        let lines = include_str!("operators.table").lines();
        let mut names = std::collections::BTreeSet::new();
        for line in lines.filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
            if line.starts_with("words ") {
                assert!(clause_words(line).is_some(), "{line}");
                continue;
            }
            let operator = self::line(line).unwrap_or_else(|| panic!("{line}"));
            assert!(names.insert((operator.package, operator.name)), "twice: {line}");
        }
    }

    #[test]
    fn operators_are_found_by_property() {
        let look_ups = [
            "FIND-SYMBOL", "INTERN", "FIND-SYMBOL*", "INTERN*", "SYMBOL-CALL", "ENSURE-SYMBOL",
            "FIND-OR-INTERN",
        ];
        assert!(self::look_ups().eq(look_ups));
        assert!(class_definers().eq(["DEFCLASS", "DEFINE-CONDITION", "DEFSTRUCT"]));
    }

    #[test]
    fn shape_returns_part_at_index() {
        let shape = |name| &operator("COMMON-LISP", name).unwrap().shape;
        assert_eq!(shape("SETF").part(3), Some(&FormPart::Form));
        assert_eq!(shape("SETF").part(4), Some(&FormPart::Place));
        assert_eq!(shape("IF").part(3), None);
        assert_eq!(shape("DOTIMES").part(7), Some(&FormPart::Tagbody));
        let Some(FormPart::List(bindings)) = shape("LET*").part(0) else { panic!("{:?}", shape("LET*")) };
        assert!(bindings.sequential);
        assert!(matches!(bindings.part(9), Some(FormPart::Either(..))));
    }
}
