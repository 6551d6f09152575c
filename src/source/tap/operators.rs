//! The operators of Common Lisp and of SBCL's extensions, with the shapes of their forms.
//!
//! The table itself is `operators.table`, one operator a line. Code is read through this table wherever it is read by
//! its text: for the roles of tokens, and for bindings, bodies and places. A word of the table says what one element of
//! a form is, `word*` what all the rest are, `{a b}*` that they alternate, `(…)` a list of these, `a/b` an atom or a
//! list. Variables that a form binds are visible in its `inner` forms and its body, and within `seq(…)` in the bindings
//! that follow.

use std::collections::HashMap;
use std::sync::LazyLock;

/// The kinds of operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OperatorKind {
    /// A special operator, or `declare`.
    Special,
    /// A macro.
    Macro,
    /// A function: its arguments are forms, and its shape says what constants among them name.
    Function,
}

/// The kind of thing that a definition makes of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Defined {
    /// A function, generic function, method, or something filed with them.
    Function,
    /// A macro.
    Macro,
    /// A variable, constant or symbol macro.
    Variable,
    /// A class or condition.
    Class,
    /// A type, method combination or the like.
    Other,
}

/// The shape of one element of a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FormPart {
    /// A form, evaluated outside of what the operator binds.
    Form,
    /// A form, evaluated within what the operator binds.
    Inner,
    /// A form that names a place, or a variable: read, written or both.
    Place,
    /// A form, or a tag that `go` can name.
    Tagbody,
    /// The name that the form defines, as this kind of thing.
    Defines(Defined),
    /// A structure's name and options.
    Structure,
    /// A slot of a structure.
    StructureSlot,
    /// The list of a class's slots.
    Slots,
    /// An option of a class.
    ClassOption,
    /// An option or method of a generic function.
    GenericOption,
    /// Qualifiers, lambda list and body of a method, from here to the end.
    Method,
    /// Options and body of a restart.
    RestartBody,
    /// What follows a method combination's name, from here to the end.
    MethodCombination,
    /// A clause of a package definition, or the package's name.
    PackageClause,
    /// A variable that is bound.
    Variable,
    /// A variable that stands for a slot of its name, or for the slot named after it.
    SlotVariable,
    /// A variable that stands for a form.
    SymbolMacro,
    /// `(variable form)`, where the variable stands for the form.
    SymbolMacroBinding,
    /// A macro's name, for the body.
    LocalMacro,
    /// The definitions of FLET.
    Functions,
    /// The definitions of LABELS.
    Labels,
    /// The definitions of MACROLET.
    Macros,
    /// A block's name, for the body.
    Block,
    /// The name of a block around.
    ToBlock,
    /// The name of a tag around.
    ToTag,
    /// An ordinary lambda list.
    LambdaList,
    /// A lambda list that destructures, seen by the body.
    MacroLambdaList,
    /// A type specifier.
    Type,
    /// A type specifier that is a condition.
    Condition,
    /// The name of a function, or `(setf name)`; not evaluated.
    FunctionName,
    /// A class; not evaluated.
    Class,
    /// A slot's name; not evaluated.
    Slot,
    /// Something that is not evaluated.
    Datum,
    /// A key of CASE, or a list of them.
    Keys,
    /// A declaration specifier.
    Declaration,
    /// The clauses of LOOP, from here to the end.
    Loop,
    /// A list of parts.
    List(Shape),
    /// An atom, or a list.
    Either(Box<FormPart>, Box<FormPart>),
    /// A form whose value, if it is a constant, names something.
    Names(NamedBy),
    /// The name of an alien definition: a symbol, or a list of a string and a symbol.
    AlienName,
    /// The name of an alien type that is defined.
    AlienTypeName,
    /// An alien type specifier.
    AlienType,
    /// `(parameter type)` of an alien routine.
    AlienParameter,
    /// A list of these.
    AlienParameters,
    /// `(variable type …)`.
    AlienBinding,
}

/// The kind of name that a constant argument of a function is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NamedBy {
    /// A function.
    Function,
    /// A global variable.
    Variable,
    /// A class, condition or structure.
    Class,
    /// A type.
    Type,
    /// A slot.
    Slot,
    /// Symbols that are exported.
    Exported,
    /// Symbols that are imported or shadowed.
    Imported,
    /// A declaration.
    Proclaimed,
    /// Whatever the documentation is about.
    Documented,
    /// A symbol that is compared.
    Datum,
}

/// The shape of a list: its first elements, and the rest.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Shape {
    /// The first elements.
    pub first: Vec<FormPart>,
    /// The elements after them, again and again.
    pub rest: Vec<FormPart>,
    /// Each binding is seen by the next one.
    pub sequential: bool,
}

impl Shape {
    /// The part at `index`, from 0.
    pub fn part(&self, index: usize) -> Option<&FormPart> {
        match index.checked_sub(self.first.len()) {
            None => self.first.get(index),
            Some(_) if self.rest.is_empty() => None,
            Some(after) => self.rest.get(after % self.rest.len()),
        }
    }

    /// Whether there is no end to the elements.
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
    /// Name of the home package.
    pub package: String,
    /// The symbol's name.
    pub name: String,
    /// What it is.
    pub kind: OperatorKind,
    /// The form's elements after the operator.
    pub shape: Shape,
}

/// The table.
pub fn operators() -> &'static [Operator] {
    &TABLE.0
}

/// The operator that is the symbol `name` of the package called `package`.
pub fn operator(package: &str, name: &str) -> Option<&'static Operator> {
    TABLE.1.get(name)?.iter().map(|&index| &TABLE.0[index]).find(|found| found.package == package)
}

/// The table in its order, and by name.
type OperatorTable = (Vec<Operator>, HashMap<String, Vec<usize>>);

static TABLE: LazyLock<OperatorTable> = LazyLock::new(|| {
    let lines = include_str!("operators.table").lines().map(str::trim);
    let operators: Vec<Operator> =
        lines.filter(|line| !line.is_empty() && !line.starts_with('#')).filter_map(line).collect();
    let mut by_name: HashMap<String, Vec<usize>> = HashMap::new();
    for (index, operator) in operators.iter().enumerate() {
        by_name.entry(operator.name.clone()).or_default().push(index);
    }
    (operators, by_name)
});

/// One line of the table; None where it is malformed, which a test excludes.
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

/// Parts up to the end, or to what closes the list.
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
            _ if word == "body" => {
                words.next();
                shape.rest = vec![FormPart::Inner];
            }
            "restart-body" => {
                words.next();
                shape.rest = vec![FormPart::RestartBody];
            }
            "tagbody" => {
                words.next();
                shape.rest = vec![FormPart::Tagbody];
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
    if kind == OperatorKind::Function {
        return Some(FormPart::Names(match word {
            "form" => return Some(FormPart::Form),
            "function" => NamedBy::Function,
            "variable-name" => NamedBy::Variable,
            "class" => NamedBy::Class,
            "type" => NamedBy::Type,
            "slot" => NamedBy::Slot,
            "exported" => NamedBy::Exported,
            "imported" => NamedBy::Imported,
            "proclaimed" => NamedBy::Proclaimed,
            "documented" => NamedBy::Documented,
            "datum-form" => NamedBy::Datum,
            _ => return None,
        }));
    }
    Some(match word {
        "(" | "<" => {
            let shape = shape(words, kind)?;
            (words.next()? == ")").then_some(())?;
            FormPart::List(Shape { sequential: word == "<", ..shape })
        }
        "form" => FormPart::Form,
        "function" => FormPart::Names(NamedBy::Function),
        "inner" => FormPart::Inner,
        "place" => FormPart::Place,
        "defines:function" => FormPart::Defines(Defined::Function),
        "defines:macro" => FormPart::Defines(Defined::Macro),
        "defines:variable" => FormPart::Defines(Defined::Variable),
        "defines:class" => FormPart::Defines(Defined::Class),
        "defines:other" => FormPart::Defines(Defined::Other),
        "structure" => FormPart::Structure,
        "structure-slot" => FormPart::StructureSlot,
        "slots" => FormPart::Slots,
        "class-option" => FormPart::ClassOption,
        "generic-option" => FormPart::GenericOption,
        "method" => FormPart::Method,
        "method-combination" => FormPart::MethodCombination,
        "package-clause" => FormPart::PackageClause,
        "variable" => FormPart::Variable,
        "slot-variable" => FormPart::SlotVariable,
        "symbol-macro" => FormPart::SymbolMacro,
        "symbol-macro-binding" => FormPart::SymbolMacroBinding,
        "local-macro" => FormPart::LocalMacro,
        "functions" => FormPart::Functions,
        "labels" => FormPart::Labels,
        "macros" => FormPart::Macros,
        "block" => FormPart::Block,
        "to-block" => FormPart::ToBlock,
        "to-tag" => FormPart::ToTag,
        "lambda-list" => FormPart::LambdaList,
        "macro-lambda-list" | "destructuring" => FormPart::MacroLambdaList,
        "type" => FormPart::Type,
        "condition" => FormPart::Condition,
        "function-name" => FormPart::FunctionName,
        "class" => FormPart::Class,
        "slot" => FormPart::Slot,
        "datum" => FormPart::Datum,
        "keys" => FormPart::Keys,
        "declaration" => FormPart::Declaration,
        "loop" => FormPart::Loop,
        "alien-name" => FormPart::AlienName,
        "alien-type-name" => FormPart::AlienTypeName,
        "alien-type" => FormPart::AlienType,
        "alien-parameter" => FormPart::AlienParameter,
        "alien-parameters" => FormPart::AlienParameters,
        "alien-binding" => FormPart::AlienBinding,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_understood() {
        let lines = include_str!("operators.table").lines();
        let mut names = std::collections::BTreeSet::new();
        for line in lines.filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
            let operator = self::line(line).unwrap_or_else(|| panic!("{line}"));
            assert!(names.insert((operator.package, operator.name)), "twice: {line}");
        }
    }

    #[test]
    fn shapes_have_parts_at_places() {
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
