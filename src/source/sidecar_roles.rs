//! What a symbol in the text is there for, told from where it stands among the standard operators.
//!
//! The compiler's own records say more wherever they exist; roles close the gaps: types, classes, slots, quoted
//! data, macro templates, declarations, package definitions.

use super::sidecar::{EventKind, Name, Operator, Sidecar, TopLevelForm};
use super::sidecar_operators::{LOOP_KEYWORDS, binds_first, binds_list, defines, first_evaluated};

/// What a symbol occurrence is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// The name being defined, accessors, constructors and the like included.
    Definition,
    /// The name of a structure, from which `defstruct` makes other names: `make-x`, `x-p`, `x-slot`.
    Structure,
    /// Named in a package definition's `:export`.
    Export,
    /// Named in another clause of a package definition.
    Import,
    /// A class, structure or condition: superclass, specializer, `make-instance 'x`, `handler-case` clause.
    Class,
    /// A type specifier.
    Type,
    /// A slot name.
    Slot,
    /// Part of quoted data, or another datum that is compared and not evaluated: a key of CASE, a restart's name.
    Quoted,
    /// `#'x`, or the name handed to `funcall` and its kin.
    Function,
    /// Part of a declaration.
    Declaration,
    /// Part of a backquoted form, outside its commas.
    Template,
    /// Read, but no part of the form: inside `#.`, or the test of `#+`.
    ReadTime,
    /// The name of a block: `(return-from x)`, which a function's name is, too; or a tag.
    Block,
    /// A variable that a lambda list, LET or the like binds.
    Binding,
    /// A keyword of the LOOP macro, which compares names and not symbols.
    LoopKeyword,
    /// The operator of a list.
    Operator,
    /// Any other element of a list.
    Argument,
}

/// The role of the symbol at `event` of `form`.
pub fn role(sidecar: &Sidecar, form: &TopLevelForm, event: usize) -> Role {
    let walk = Walk { sidecar, form };
    let token = &form.events[event];
    let Some(parent) = token.parent.map(|parent| parent as usize) else {
        return Role::Argument;
    };
    if token.place == 0 || walk.is_read_time(parent) {
        return Role::ReadTime;
    }
    if token.place > 1 && walk.standard_operator(parent) == "LOOP" && walk.names_loop_keyword(event) {
        return Role::LoopKeyword;
    }
    if let Some(role) = walk.reader_role(event, parent) {
        return role;
    }
    if let Some(role) = walk.definition_role(event) {
        return role;
    }
    if walk.is_key(event, parent) {
        return Role::Quoted;
    }
    if let Some(role) = walk.type_role(event) {
        return role;
    }
    if let Some(role) = walk.binding_role(event, parent) {
        return role;
    }
    if walk.names_block(event, parent) {
        return Role::Block;
    }
    if walk.is_in_operator_place(event, parent) { Role::Operator } else { Role::Argument }
}

/// Whether the list that `event` is the operator of is a call for certain: it stands where standard operators evaluate.
pub fn is_certain_call(sidecar: &Sidecar, form: &TopLevelForm, event: usize) -> bool {
    Walk { sidecar, form }.is_certain_call(event)
}

/// Whether `event` is an argument that a standard operator evaluates; if so, whether it does for certain, for nothing
/// but standard operators stands around.
pub fn is_evaluated_argument(sidecar: &Sidecar, form: &TopLevelForm, event: usize) -> Option<bool> {
    Walk { sidecar, form }.is_evaluated_argument(event)
}

/// Whether `event` is the operator of a list and not something that is bound there. In templates, too.
pub fn is_operator(sidecar: &Sidecar, form: &TopLevelForm, event: usize) -> bool {
    let walk = Walk { sidecar, form };
    walk.parent(event).is_some_and(|parent| {
        walk.is_in_operator_place(event, parent) && walk.binding_role(event, parent).is_none()
    })
}

/// The operator of the `with-slots`, `macrolet` or the like around `event` that makes its symbol stand for something local.
pub fn local_redefinition<'a>(sidecar: &'a Sidecar, form: &'a TopLevelForm, event: usize) -> Option<&'a str> {
    Walk { sidecar, form }.local_redefinition(event)
}

/// Whether `event`, a datum, stands by itself: `'x`, a key; and not in a list of data, which may be code.
pub fn is_single_datum(sidecar: &Sidecar, form: &TopLevelForm, event: usize) -> bool {
    let walk = Walk { sidecar, form };
    let is_quote = |list: usize| form.events[list].operator == Operator::Quote;
    walk.parent(event).is_some_and(is_quote) || !form.ancestors(event).any(is_quote)
}

/// Whether `event`, in a template, is a type, class, slot or datum there, and so no local variable.
pub fn is_name_in_template(sidecar: &Sidecar, form: &TopLevelForm, event: usize) -> bool {
    let walk = Walk { sidecar, form };
    let quoted = walk.parent(event).is_some_and(|parent| form.events[parent].operator == Operator::Quote);
    quoted
        || matches!(
            walk.definition_role(event).or_else(|| walk.type_role(event)),
            Some(Role::Type | Role::Class | Role::Slot | Role::Definition | Role::Structure)
        )
}

/// Whether `event`, in a declaration, is declared special there.
pub fn is_declared_special(sidecar: &Sidecar, form: &TopLevelForm, event: usize) -> bool {
    let walk = Walk { sidecar, form };
    walk.parent(event).is_some_and(|parent| walk.standard_operator(parent) == "SPECIAL")
}

/// Whether `event`, a keyword, stands for a symbol of its name: where symbols are looked up by name, or as the class of
/// a system's component.
pub fn is_looked_up(sidecar: &Sidecar, form: &TopLevelForm, event: usize) -> bool {
    let walk = Walk { sidecar, form };
    let operator = |list: usize| walk.operator(list).map_or("", Name::name);
    let Some(parent) = walk.parent(event) else { return false };
    match operator(parent) {
        "SYMBOL-CALL" => walk.place(event) == 3,
        "FIND-SYMBOL" | "FIND-SYMBOL*" | "INTERN" | "INTERN*" => walk.place(event) == 2,
        _ => walk.place(event) == 1 && form.ancestors(parent).any(|list| operator(list) == "DEFSYSTEM"),
    }
}

/// What a definition makes of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Defined {
    /// A function, generic function, method, macro, or something filed with them.
    Function,
    /// A variable, constant or symbol macro.
    Variable,
    /// A class, type or the like.
    Other,
}

/// What the definition is whose name stands at `event`.
pub fn defined(sidecar: &Sidecar, form: &TopLevelForm, event: usize) -> Defined {
    let walk = Walk { sidecar, form };
    let operator = walk.parent(event).map_or("", |parent| walk.standard_operator(parent));
    match operator {
        "DEFVAR" | "DEFPARAMETER" | "DEFCONSTANT" | "DEFINE-SYMBOL-MACRO" => Defined::Variable,
        "DEFCLASS" | "DEFINE-CONDITION" | "DEFTYPE" | "DEFSTRUCT" | "DEFINE-METHOD-COMBINATION" => {
            Defined::Other
        }
        _ => Defined::Function,
    }
}

/// The role that `event`, a string, keyword or uninterned symbol in a package definition, has for a symbol of the same
/// name; None when it does not mean that symbol. `means` tells whether the symbol of that name that is accessible in
/// the package it is given (as a designator's text) is the symbol.
pub fn package_role(
    sidecar: &Sidecar,
    form: &TopLevelForm,
    event: usize,
    means: &dyn Fn(&str) -> bool,
) -> Option<Role> {
    let walk = Walk { sidecar, form };
    let clause = form.events[event].parent? as usize;
    let definition = form.events[clause].parent? as usize;
    let operator = walk.operator(definition)?.name();
    if form.events[event].place < 2 || !matches!(operator, "DEFPACKAGE" | "DEFINE-PACKAGE") {
        return None;
    }
    let means = |list: usize| {
        form.child(list, 2).and_then(|package| walk.name(package)).is_some_and(|n| means(n.name()))
    };
    match walk.operator(clause)?.name() {
        "EXPORT" if means(definition) => Some(Role::Export),
        "SHADOW" | "INTERN" if means(definition) => Some(Role::Import),
        "IMPORT-FROM" | "SHADOWING-IMPORT-FROM" if form.events[event].place > 2 && means(clause) => {
            Some(Role::Import)
        }
        _ => None,
    }
}

struct Walk<'a> {
    sidecar: &'a Sidecar,
    form: &'a TopLevelForm,
}

impl<'a> Walk<'a> {
    fn name(&self, event: usize) -> Option<&'a Name> {
        match self.form.events[event].kind {
            EventKind::Symbol(name) | EventKind::Text(name) => self.sidecar.names.get(name as usize),
            _ => None,
        }
    }

    fn operator(&self, list: usize) -> Option<&'a Name> {
        self.name(self.form.child(list, 1)?)
    }

    fn standard_operator(&self, list: usize) -> &'a str {
        self.operator(list).and_then(Name::standard).unwrap_or("")
    }

    fn place(&self, event: usize) -> u32 {
        self.form.events[event].place
    }

    fn parent(&self, event: usize) -> Option<usize> {
        self.form.events[event].parent.map(|parent| parent as usize)
    }

    /// Quotes, `#'` and templates.
    fn reader_role(&self, event: usize, parent: usize) -> Option<Role> {
        match self.form.events[parent].operator {
            Operator::Quote if self.place(event) == 2 => return Some(self.quoted_role(parent)),
            Operator::Function if self.is_function_designator(event, parent) => {
                return Some(Role::Function);
            }
            _ => {}
        }
        for ancestor in self.form.ancestors(event) {
            match self.form.events[ancestor].operator {
                Operator::Quote => return Some(Role::Quoted),
                Operator::Backquote => return Some(Role::Template),
                Operator::Comma => return None,
                Operator::Any | Operator::Function => {}
            }
        }
        None
    }

    /// `#'x`, not a declaration `(function x)` or a type `(function x y)`.
    fn is_function_designator(&self, event: usize, parent: usize) -> bool {
        self.place(event) == 2
            && self.form.child(parent, 3).is_none()
            && !self.parent(parent).is_some_and(|outer| {
                matches!(self.standard_operator(outer), "DECLARE" | "DECLAIM" | "FTYPE" | "TYPE")
            })
            && !self.in_template(event)
    }

    /// The role of what lambda lists, LET and their kin bind.
    fn binding_role(&self, event: usize, parent: usize) -> Option<Role> {
        if let Some(role) = self.parameter_role(event, parent) {
            return Some(role);
        }
        if self.standard_operator(parent) == "LOOP" && self.is_loop_variable(event) {
            return Some(Role::Binding);
        }
        let place = self.place(event);
        let form = self.parent(parent)?;
        let operator = self.standard_operator(form);
        // (let (x) …), (dolist (x list) …)
        if self.place(parent) == 2 && (binds_list(operator) || binds_first(operator) && place == 1) {
            return Some(Role::Binding);
        }
        if operator == "LOOP" && self.is_loop_variable(parent) {
            return Some(Role::Binding);
        }
        // (let ((x 1)) …), (with-slots ((x slot)) …)
        let outer = self.parent(form)?;
        let operator = self.standard_operator(outer);
        let bound = place == 1 && self.place(form) == 2 && (binds_list(operator) || operator == "WITH-SLOTS");
        bound.then_some(Role::Binding)
    }

    /// The role of an element of a lambda list.
    fn parameter_role(&self, event: usize, parent: usize) -> Option<Role> {
        let place = self.place(event);
        if self.lambda_list(parent).is_some() {
            return Some(Role::Binding);
        }
        let list = self.parent(parent)?;
        if self.lambda_list(list).is_some() {
            // (x default supplied-p)
            return matches!(place, 1 | 3).then_some(Role::Binding);
        }
        // ((key x) default supplied-p)
        let outer = self.parent(list)?;
        let keyed = self.place(parent) == 1 && self.lambda_list(outer).is_some();
        match place {
            1 if keyed => Some(Role::Quoted),
            2 if keyed => Some(Role::Binding),
            _ => None,
        }
    }

    /// Whether `list` is a lambda list; if so, whether it is one that destructures.
    fn lambda_list(&self, list: usize) -> Option<bool> {
        if !self.is_list(list) {
            return None;
        }
        let around = self.parent(list)?;
        let place = self.place(list);
        match (self.standard_operator(around), place) {
            ("DEFMACRO" | "DEFTYPE" | "DEFINE-COMPILER-MACRO" | "DEFINE-SETF-EXPANDER", 3)
            | ("DESTRUCTURING-BIND", 2) => return Some(true),
            ("DEFUN" | "DEFGENERIC" | "DEFINE-MODIFY-MACRO", 3)
            | ("DEFSETF", 3 | 4)
            | ("LAMBDA" | "MULTIPLE-VALUE-BIND", 2) => return Some(false),
            ("DEFMETHOD", 3..) if self.is_method_lambda_list(around, list, 3) => return Some(false),
            _ => {}
        }
        if self.operator(around).is_some_and(|name| name.is("KEYWORD", "METHOD"))
            && self.is_method_lambda_list(around, list, 2)
        {
            return Some(false);
        }
        let outer = self.parent(around)?;
        if place == 2 {
            if matches!(self.standard_operator(outer), "HANDLER-CASE" | "RESTART-CASE")
                && self.place(around) >= 3
            {
                return Some(false);
            }
            let form = self.parent(outer).filter(|_| self.place(outer) == 2);
            match form.map(|form| self.standard_operator(form)) {
                Some("FLET" | "LABELS") => return Some(false),
                Some("MACROLET") => return Some(true),
                _ => {}
            }
        }
        let required = |place| {
            let name = self.form.child(around, place).and_then(|child| self.name(child));
            !name.and_then(Name::standard).is_some_and(|name| name.starts_with('&'))
        };
        (self.lambda_list(around) == Some(true) && (1..place).all(required)).then_some(true)
    }

    /// A datum that is compared and not evaluated.
    fn is_key(&self, event: usize, parent: usize) -> bool {
        let is_case = |clause: usize| {
            self.place(clause) >= 3
                && self
                    .parent(clause)
                    .is_some_and(|form| matches!(self.standard_operator(form), "CASE" | "ECASE" | "CCASE"))
        };
        if self.place(event) == 1 {
            let operator = self.parent(parent).map_or("", |form| self.standard_operator(form));
            if is_case(parent)
                || operator == "RESTART-CASE" && self.place(parent) >= 3
                || operator == "WITH-SIMPLE-RESTART" && self.place(parent) == 2
            {
                return true;
            }
        }
        self.place(parent) == 1 && self.parent(parent).is_some_and(is_case)
    }

    fn names_block(&self, event: usize, parent: usize) -> bool {
        matches!(
            (self.standard_operator(parent), self.place(event)),
            ("RETURN-FROM" | "BLOCK" | "GO", 2) | ("TAGBODY", 2..) | ("PROG" | "PROG*", 3..)
        )
    }

    /// What follows FOR, AS, WITH or INTO in a LOOP.
    fn is_loop_variable(&self, event: usize) -> bool {
        matches!(self.loop_word_before(event), Some("FOR" | "AS" | "WITH" | "INTO"))
    }

    /// The name of the symbol before `event`, an element of a LOOP.
    fn loop_word_before(&self, event: usize) -> Option<&'a str> {
        let before = self.form.child(self.parent(event)?, self.place(event).checked_sub(1)?)?;
        self.name(before).map(Name::name)
    }

    /// Whether `list`, or one around it, was read and is no part of the form: within `#.`, or the test of `#+`.
    fn is_read_time(&self, list: usize) -> bool {
        std::iter::once(list)
            .chain(self.form.ancestors(list))
            .any(|list| self.place(list) == 0 && self.parent(list).is_some())
    }

    /// Whether `event` stands first in a list that can be a call, as a clause of COND is none.
    fn is_in_operator_place(&self, event: usize, parent: usize) -> bool {
        let clause = || {
            self.parent(parent).is_some_and(|form| {
                let place = self.place(parent);
                match self.standard_operator(form) {
                    "COND" => place >= 2,
                    "DO" | "DO*" => place == 3,
                    _ => false,
                }
            })
        };
        self.place(event) == 1 && self.is_list(parent) && !clause()
    }

    /// True for lists, false for commas, vectors and the like.
    fn is_list(&self, event: usize) -> bool {
        matches!(self.form.events[event].kind, EventKind::Form(_) | EventKind::List)
    }

    fn names_loop_keyword(&self, event: usize) -> bool {
        self.name(event).is_some_and(|name| LOOP_KEYWORDS.contains(&name.name()))
    }

    fn is_certain_call(&self, event: usize) -> bool {
        self.parent(event).is_some_and(|call| self.is_evaluated(call))
    }

    /// Whether `list` stands where its value is asked for, as far as standard operators alone can tell.
    fn is_evaluated(&self, list: usize) -> bool {
        let Some(around) = self.parent(list) else { return true };
        let place = self.place(list);
        if let Some(outer) = self.parent(around) {
            let clause = match self.standard_operator(outer) {
                "COND" if self.place(around) >= 2 => Some(1),
                "CASE" | "ECASE" | "CCASE" | "TYPECASE" | "ETYPECASE" | "CTYPECASE"
                    if self.place(around) >= 3 =>
                {
                    Some(2)
                }
                "HANDLER-CASE" | "RESTART-CASE" if self.place(around) >= 3 => Some(3),
                "DO" | "DO*" if self.place(around) == 3 => Some(1),
                operator if binds_first(operator) && self.place(around) == 2 => Some(2),
                _ => None,
            };
            if let Some(first) = clause {
                return place >= first && self.is_evaluated(outer);
            }
            if self.place(outer) == 2
                && let Some(form) = self.parent(outer)
                && let Some(first) = match self.standard_operator(form) {
                    "HANDLER-BIND" => Some(2),
                    operator if binds_list(operator) => Some(2),
                    "FLET" | "LABELS" | "MACROLET" => Some(3),
                    _ => None,
                }
            {
                return place >= first && self.is_evaluated(form);
            }
        }
        let operator = self.standard_operator(around);
        let first = match operator {
            "CASE" | "ECASE" | "CCASE" | "TYPECASE" | "ETYPECASE" | "CTYPECASE" | "HANDLER-CASE"
            | "RESTART-CASE" => (place == 2).then_some(2),
            "LOOP" => {
                let word = self.loop_word_before(list);
                (!matches!(word, Some("FOR" | "AS" | "WITH" | "INTO" | "AND" | "OF-TYPE" | "USING")))
                    .then_some(2)
            }
            "DEFMETHOD" => (3..place).find(|&place| {
                self.form.child(around, place).is_some_and(|child| self.name(child).is_none())
            }),
            _ => first_evaluated(operator),
        };
        first.is_some_and(|first| place >= first) && self.is_evaluated(around)
    }

    fn is_evaluated_argument(&self, event: usize) -> Option<bool> {
        let call = self.parent(event).filter(|&call| self.is_list(call))?;
        if self.place(event) == 1 {
            // The test of a clause.
            return Some(self.parent(call).is_some_and(|form| self.is_evaluated(form)));
        }
        let first = first_evaluated(self.standard_operator(call))?;
        (self.place(event) >= first).then(|| self.is_evaluated(call))
    }

    /// The operator of the form around `event` that makes a symbol macro, a local macro or a local function of its name.
    fn local_redefinition(&self, event: usize) -> Option<&'a str> {
        let name = self.form.events[event].kind;
        let is_name = |other: usize| self.form.events[other].kind == name;
        let binds = |binding: usize| match self.form.child(binding, 1) {
            None => is_name(binding),
            Some(bound) if is_name(bound) => true,
            // (flet (((setf name) …)) …) makes nothing else of the name.
            Some(bound) => {
                self.standard_operator(bound) == "SETF"
                    && self.form.child(bound, 2).is_some_and(is_name)
                    && (self.parent(event) == Some(bound) || self.is_place(event))
            }
        };
        self.form.ancestors(event).find_map(|list| {
            let operator = self.standard_operator(list);
            let bindings = match operator {
                "WITH-SLOTS" | "WITH-ACCESSORS" | "SYMBOL-MACROLET" | "MACROLET" | "FLET" | "LABELS" => {
                    self.form.child(list, 2)?
                }
                _ => return None,
            };
            let mut elements = (1..).map_while(|place| self.form.child(bindings, place));
            elements.any(binds).then_some(operator)
        })
    }

    /// Whether `event` is the operator of a place that a standard macro writes to.
    fn is_place(&self, event: usize) -> bool {
        let place = self.parent(event).filter(|_| self.place(event) == 1);
        place.and_then(|place| self.parent(place)).is_some_and(|form| {
            matches!(
                self.standard_operator(form),
                "SETF" | "PSETF" | "PUSH" | "PUSHNEW" | "POP" | "INCF" | "DECF" | "ROTATEF" | "SHIFTF"
            )
        })
    }

    fn in_template(&self, event: usize) -> bool {
        self.form
            .ancestors(event)
            .map(|ancestor| self.form.events[ancestor].operator)
            .find(|operator| matches!(operator, Operator::Backquote | Operator::Comma))
            == Some(Operator::Backquote)
    }

    fn quoted_role(&self, quote: usize) -> Role {
        if self.in_template(quote) {
            return Role::Template;
        }
        let Some(call) = self.parent(quote) else { return Role::Quoted };
        match (self.standard_operator(call), self.place(quote)) {
            ("MAKE-INSTANCE" | "FIND-CLASS" | "MAKE-CONDITION" | "ERROR" | "SIGNAL" | "WARN", 2)
            | ("CERROR" | "CHANGE-CLASS", 3) => Role::Class,
            ("TYPEP" | "COERCE", 3) | ("SUBTYPEP", 2 | 3) => Role::Type,
            ("SLOT-VALUE" | "SLOT-BOUNDP" | "SLOT-MAKUNBOUND" | "SLOT-EXISTS-P", 3) => Role::Slot,
            (
                "FUNCALL"
                | "APPLY"
                | "MAPCAR"
                | "MAPC"
                | "MAPCAN"
                | "MAPLIST"
                | "MAPCON"
                | "MAPL"
                | "SYMBOL-FUNCTION"
                | "FDEFINITION"
                | "FBOUNDP"
                | "MACRO-FUNCTION"
                | "COMPILER-MACRO-FUNCTION",
                2,
            ) => Role::Function,
            _ => Role::Quoted,
        }
    }

    fn definition_role(&self, event: usize) -> Option<Role> {
        let parent = self.parent(event)?;
        if self.place(event) == 2 && defines(self.standard_operator(parent)) {
            return Some(match self.standard_operator(parent) {
                "DEFSTRUCT" => Role::Structure,
                _ => Role::Definition,
            });
        }
        if self.standard_operator(parent) == "DEFSTRUCT" && self.place(event) > 2 {
            return Some(Role::Slot);
        }
        let outer = self.parent(parent)?;
        match (self.standard_operator(outer), self.place(parent)) {
            ("DEFUN" | "DEFGENERIC" | "DEFMETHOD" | "DEFINE-COMPILER-MACRO", 2)
                if self.place(event) == 2 && self.standard_operator(parent) == "SETF" =>
            {
                return Some(Role::Definition);
            }
            ("DEFSTRUCT", 2) if self.place(event) == 1 => return Some(Role::Structure),
            ("DEFSTRUCT", 3..) if self.place(event) == 1 => return Some(Role::Slot),
            ("DEFSTRUCT", 3..) if self.option(event, parent) == Some("TYPE") => return Some(Role::Type),
            ("DEFCLASS" | "DEFINE-CONDITION", 3) => return Some(Role::Class),
            ("DEFCLASS" | "DEFINE-CONDITION", 4) => return Some(Role::Slot),
            ("WITH-SLOTS", 2) => return Some(Role::Slot),
            _ => {}
        }
        self.option_role(event, parent, outer)
    }

    /// The option that `event`, an element of `list`, is the value of.
    fn option(&self, event: usize, list: usize) -> Option<&'a str> {
        let key = self.form.child(list, self.place(event).checked_sub(1)?)?;
        self.name(key).filter(|name| name.is("KEYWORD", name.name())).map(Name::name)
    }

    /// Slot options, structure options and method parameters: two lists below the definition.
    fn option_role(&self, event: usize, parent: usize, outer: usize) -> Option<Role> {
        let definition = self.parent(outer)?;
        let place = self.place(event);
        match (self.standard_operator(definition), self.place(outer)) {
            ("DEFCLASS" | "DEFINE-CONDITION", 4) if place == 1 => Some(Role::Slot),
            ("DEFCLASS" | "DEFINE-CONDITION", 4) if place % 2 == 1 => match self.option(event, parent)? {
                "READER" | "WRITER" | "ACCESSOR" => Some(Role::Definition),
                "TYPE" => Some(Role::Type),
                "INITARG" => Some(Role::Quoted),
                _ => None,
            },
            ("DEFSTRUCT", 2) if place > 2 && self.operator(parent)?.name() == "INCLUDE" => Some(Role::Slot),
            ("DEFSTRUCT", 2) if place == 2 => match self.operator(parent)?.name() {
                "INCLUDE" => Some(Role::Class),
                "CONSTRUCTOR" | "COPIER" | "PREDICATE" => Some(Role::Definition),
                _ => None,
            },
            // (:include base (slot 1)), (:constructor make-it (slot))
            _ if self.is_option_of_structure(parent, outer) => Some(Role::Slot),
            ("WITH-SLOTS", 2) if place == 2 => Some(Role::Slot),
            ("WITH-ACCESSORS", 2) if place == 2 => Some(Role::Function),
            ("DEFMETHOD", 3..) if place == 2 && self.is_method_lambda_list(definition, outer, 3) => {
                Some(Role::Class)
            }
            _ if place == 2
                && self.operator(definition).is_some_and(|name| name.is("KEYWORD", "METHOD"))
                && self.is_method_lambda_list(definition, outer, 2) =>
            {
                Some(Role::Class)
            }
            _ => None,
        }
    }

    /// Whether `list` is a slot that `option` of a structure includes, or the lambda list of a constructor.
    fn is_option_of_structure(&self, list: usize, option: usize) -> bool {
        let place = self.place(list);
        let definition = self.parent(option).and_then(|names| self.parent(names).map(|form| (names, form)));
        definition.is_some_and(|(names, form)| {
            self.standard_operator(form) == "DEFSTRUCT" && self.place(names) == 2
        }) && match self.operator(option).map(Name::name) {
            Some("INCLUDE") => place > 2,
            Some("CONSTRUCTOR") => place == 3,
            _ => false,
        }
    }

    /// The first list after the qualifiers, which start at place `first`.
    fn is_method_lambda_list(&self, definition: usize, list: usize, first: u32) -> bool {
        (first..self.place(list))
            .all(|place| self.form.child(definition, place).is_some_and(|child| self.name(child).is_some()))
    }

    fn type_role(&self, event: usize) -> Option<Role> {
        let parent = self.parent(event)?;
        if self.standard_operator(parent) == "LOOP" && self.loop_word_before(event) == Some("OF-TYPE") {
            return Some(Role::Type);
        }
        // No code stands where a type is meant, so that whatever stands there belongs to the type.
        let mut child = event;
        for list in self.form.ancestors(event) {
            let place = self.place(child);
            match (self.standard_operator(list), place) {
                ("THE", 2) | ("CHECK-TYPE", 3) => return Some(self.specifier_role(event, parent)),
                ("DECLARE" | "DECLAIM", _) => return Some(self.declaration_role(event, child)),
                _ => {}
            }
            if place == 1
                && let Some(outer) = self.parent(list)
            {
                match (self.standard_operator(outer), self.place(list)) {
                    ("TYPECASE" | "ETYPECASE" | "CTYPECASE", 3..) => {
                        return Some(self.specifier_role(event, parent));
                    }
                    ("HANDLER-CASE", 3..) => return Some(Role::Class),
                    _ => {}
                }
                if let Some(bind) = self.parent(outer)
                    && self.standard_operator(bind) == "HANDLER-BIND"
                    && self.place(outer) == 2
                {
                    return Some(Role::Class);
                }
            }
            child = list;
        }
        None
    }

    /// The role of `event` within a type specifier.
    fn specifier_role(&self, event: usize, parent: usize) -> Role {
        match (self.standard_operator(parent), self.place(event)) {
            ("SATISFIES", 2) => Role::Function,
            ("MEMBER" | "EQL", 2..) => Role::Quoted,
            _ => Role::Type,
        }
    }

    fn declaration_role(&self, event: usize, specifier: usize) -> Role {
        match (self.standard_operator(specifier), self.parent(event) == Some(specifier), self.place(event)) {
            (_, true, 1) | ("TYPE" | "FTYPE", true, 2) => Role::Type,
            ("TYPE" | "FTYPE", false, _) => match self.parent(event) {
                Some(parent) => self.specifier_role(event, parent),
                None => Role::Type,
            },
            _ => Role::Declaration,
        }
    }
}
