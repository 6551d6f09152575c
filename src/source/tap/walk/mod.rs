//! Walks a top-level form as the compiler does, guided by the table of operators, and finds the
//! role and the binding of every symbol.
//!
//! A macro may do anything with its arguments. In them, standard operators are assumed to have
//! their usual meaning, but nothing is certain. A template (backquoted form) is walked as the code
//! that it generates, one level up; its commas return to the level below.

mod definitions;
mod lists;
mod loops;
mod parts;

use super::operators::{Defined, FormPart, NamedBy, operator};
use super::roles::SyntaxRole;
use super::sidecar::{Abbreviation, EventKind, Name, NameKind, Sidecar, TapForm};

/// The syntactic context of the symbol at one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SyntaxContext {
    /// The symbol's role.
    pub role: SyntaxRole,
    /// In a template: the symbol's role in the generated code.
    pub becomes: SyntaxRole,
    /// The symbol's position among the operators around it.
    pub position: SyntacticContext,
    /// The namespace that the symbol's name is looked up in.
    pub space: Space,
    /// The operator around the symbol that binds the name in the namespace `space`, if the text
    /// shows a binding.
    pub bound: Option<&'static str>,
    /// For a definition: the kind of thing that the symbol's form defines.
    pub defined: Option<Defined>,
    /// Whether the symbol is declared special.
    pub special: bool,
    /// Whether the symbol is a variable in a place that a standard operator writes to.
    pub written: bool,
    /// How the variable or accessor that the symbol names is accessed. For an accessor, `Write`
    /// means that the place is written to.
    pub access: PlaceAccess,
    /// The event that binds the name in the namespace `space`, if the text shows a binding. For a
    /// binding, the symbol's own event.
    pub binding: Option<u32>,
    /// The number of templates around the symbol.
    pub level: u8,
    /// Whether the symbol is not a token: a reader macro such as `#.` produced it.
    pub generated: bool,
}

/// The position of a symbol among the operators around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyntacticContext {
    /// The operator of an evaluated list: a function or macro that is called.
    Called,
    /// An evaluated form: a variable.
    Variable,
    /// A position where a form would be evaluated, in a template or in the arguments of a macro.
    Argument,
    /// The operator of a list in a template or in the arguments of a macro.
    Operator,
    /// The first element of the list that is the first argument of a macro, or of a list inside
    /// that list, as in bindings.
    Head,
    /// A type, class, slot or datum in a template; or, in any code, a symbol that is a complete
    /// datum, as in `'x`.
    Name,
    /// Anything else.
    Open,
}

/// How a variable, or the place that an accessor names, is accessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PlaceAccess {
    /// The variable or place is read or only named, or the accessor is called.
    Read,
    /// The variable or place is assigned, or the variable is bound.
    Write,
    /// The old value is read and a new value assigned, as by `incf` or `push`.
    ReadWrite,
}

/// The namespaces of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Space {
    /// Functions and macros.
    Function,
    /// Functions called `(setf name)`.
    Setf,
    /// Variables and symbol macros.
    Variable,
    /// Blocks.
    Block,
    /// Tags.
    Tag,
    /// Determined by a macro, so unknown.
    Unknown,
    /// No namespace: data, types, classes, slots.
    Nowhere,
}

const UNKNOWN: SyntaxContext = SyntaxContext {
    role: SyntaxRole::Argument,
    becomes: SyntaxRole::Argument,
    position: SyntacticContext::Open,
    space: Space::Unknown,
    bound: None,
    defined: None,
    special: false,
    written: false,
    access: PlaceAccess::Read,
    binding: None,
    level: 0,
    generated: false,
};

/// A binding of a name around the current form.
#[derive(Debug, Clone, Copy)]
struct Binding {
    space: Space,
    name: u32,
    /// The number of templates around the binding.
    level: u8,
    /// The operator that binds the name; empty for the block of a function or macro definition.
    by: &'static str,
    /// Whether the name is bound to a macro.
    is_macro: bool,
    /// The event that binds the name.
    event: u32,
}

/// The state of the walk at a form.
#[derive(Debug, Clone, Copy)]
struct Mode {
    /// Whether all operators around the form are known.
    certain: bool,
    /// The number of templates around the form.
    level: u8,
    /// Whether the code around the outermost template was certain.
    outside: bool,
    /// Whether the form is a place that is written to.
    place: bool,
    /// Whether such a place is also read.
    reads: bool,
    /// Whether the form is the first argument of a macro, or a list inside that argument.
    head: bool,
}

impl Mode {
    fn uncertain(self) -> Mode {
        Mode { certain: false, place: false, head: false, ..self }
    }

    fn plain(self) -> Mode {
        Mode { place: false, head: false, ..self }
    }
}

/// Returns the contexts of all events of `form`. Contexts of events other than symbols have no
/// meaning.
pub fn contexts(sidecar: &Sidecar, form: &TapForm) -> Box<[SyntaxContext]> {
    let mut walk =
        FormWalk { sidecar, form, seen: vec![UNKNOWN; form.events.len()], env: Vec::new(), depth: 0 };
    let mode = Mode { certain: true, level: 0, outside: true, place: false, reads: false, head: false };
    for event in 0..form.events.len() {
        if form.events[event].parent.is_none() {
            walk.form(event, mode);
        }
    }
    walk.seen.into_boxed_slice()
}

struct FormWalk<'a> {
    sidecar: &'a Sidecar,
    form: &'a TapForm,
    seen: Vec<SyntaxContext>,
    env: Vec<Binding>,
    depth: u32,
}

/// The value of [`SyntaxContext::bound`] for a variable that is an alias for the slot with the same
/// name.
pub(crate) const SLOT: &str = "slot";

/// The depth from which on forms are not walked. Such forms are generated data, not code.
const MAX_DEPTH: u32 = 2_000;

impl<'a> FormWalk<'a> {
    fn children(&self, list: usize) -> impl Iterator<Item = usize> + use<'a> {
        self.form.children(list)
    }

    fn child(&self, list: usize, place: u32) -> Option<usize> {
        self.form.child(list, place)
    }

    fn place(&self, event: usize) -> u32 {
        self.form.events[event].place
    }

    fn is_list(&self, event: usize) -> bool {
        matches!(self.form.events[event].kind, EventKind::Form(_) | EventKind::List)
    }

    fn operator_of(&self, event: usize) -> Abbreviation {
        self.form.events[event].operator
    }

    /// Returns the index of the symbol at `event`.
    fn symbol(&self, event: usize) -> Option<u32> {
        match self.form.events[event].kind {
            EventKind::Symbol(name) => Some(name),
            _ => None,
        }
    }

    fn name(&self, event: usize) -> Option<&'a Name> {
        self.symbol(event).and_then(|name| self.sidecar.names.get(name as usize))
    }

    fn standard(&self, event: usize) -> &'a str {
        self.name(event).and_then(Name::standard).unwrap_or("")
    }

    fn keyword(&self, event: usize) -> Option<&'a str> {
        match self.name(event) {
            Some(Name::Symbol(symbol)) if symbol.package == "KEYWORD" => Some(&symbol.name),
            _ => None,
        }
    }

    /// Returns the name of the operator of `list`, if that is a symbol.
    fn head(&self, list: usize) -> Option<&'a Name> {
        self.child(list, 1).and_then(|head| self.name(head))
    }

    fn head_is(&self, list: usize, standard: &str) -> bool {
        self.head(list).and_then(Name::standard) == Some(standard)
    }

    fn lookup(&self, space: Space, name: u32, level: u8) -> Option<&Binding> {
        self.env
            .iter()
            .rev()
            .find(|binding| binding.space == space && binding.name == name && binding.level == level)
    }

    /// Records the role of the symbol at `event`. In a template, the recorded role is `Template`,
    /// and `role` is recorded as the role in the generated code; LOOP keywords keep their role. A
    /// symbol that a reader macro produced has the role `ReadTime`.
    fn note(&mut self, event: usize, role: SyntaxRole, position: SyntacticContext, space: Space, mode: Mode) {
        let Some(name) = self.symbol(event) else { return };
        let found = match space {
            Space::Unknown => self
                .lookup(Space::Function, name, mode.level)
                .or_else(|| self.lookup(Space::Variable, name, mode.level)),
            _ => self.lookup(space, name, mode.level),
        };
        let bound = found.map(|binding| binding.by).filter(|by| !by.is_empty());
        let binding = found.map(|binding| binding.event);
        let generated = self.children(event).next().is_some();
        if generated {
            self.read_time_inside(event);
        }
        let (role, becomes, position) = match mode.level {
            _ if role == SyntaxRole::LoopKeyword => (role, role, position),
            0 => (role, role, position),
            _ => {
                let position = match (role, position) {
                    (SyntaxRole::Operator | SyntaxRole::Function, SyntacticContext::Head) => {
                        SyntacticContext::Head
                    }
                    (SyntaxRole::Operator | SyntaxRole::Function, _) => SyntacticContext::Operator,
                    (
                        SyntaxRole::Type
                        | SyntaxRole::Class
                        | SyntaxRole::Slot
                        | SyntaxRole::Definition
                        | SyntaxRole::Structure,
                        _,
                    )
                    | (_, SyntacticContext::Name) => SyntacticContext::Name,
                    (_, SyntacticContext::Variable | SyntacticContext::Argument) => {
                        SyntacticContext::Argument
                    }
                    _ => SyntacticContext::Open,
                };
                (SyntaxRole::Template, role, position)
            }
        };
        let role = if generated { SyntaxRole::ReadTime } else { role };
        let (written, level) = (mode.place && space == Space::Variable, mode.level);
        let access = match mode {
            Mode { place: true, reads: true, .. } => PlaceAccess::ReadWrite,
            Mode { place: true, .. } => PlaceAccess::Write,
            _ => PlaceAccess::Read,
        };
        let seen = self.seen[event];
        self.seen[event] = SyntaxContext {
            role,
            becomes,
            position,
            space,
            bound,
            binding,
            generated,
            written,
            access,
            level,
            ..seen
        };
    }

    /// Records that the symbol at `event` binds its name.
    fn note_bound(&mut self, event: usize, by: &'static str) {
        let seen = &mut self.seen[event];
        (seen.bound, seen.binding, seen.access) = (Some(by), Some(event as u32), PlaceAccess::Write);
    }

    /// Records a symbol that is not looked up in any namespace.
    fn datum_role(&mut self, event: usize, role: SyntaxRole, mode: Mode) {
        self.note(event, role, SyntacticContext::Open, Space::Nowhere, mode);
    }

    /// Walks an object that was read but is not part of the form.
    fn read_time(&mut self, event: usize) {
        self.note_read_time(event);
        self.read_time_inside(event);
    }

    fn read_time_inside(&mut self, event: usize) {
        let mut inside: Vec<usize> = self.children(event).collect();
        while let Some(event) = inside.pop() {
            self.note_read_time(event);
            inside.extend(self.children(event));
        }
    }

    fn note_read_time(&mut self, event: usize) {
        if self.symbol(event).is_some() {
            let generated = self.children(event).next().is_some();
            self.seen[event] = SyntaxContext {
                role: SyntaxRole::ReadTime,
                space: Space::Nowhere,
                position: SyntacticContext::Open,
                generated,
                ..UNKNOWN
            };
        }
    }

    /// Walks a form.
    fn form(&mut self, event: usize, mode: Mode) {
        if self.place(event) == 0 && self.form.events[event].parent.is_some() {
            return self.read_time(event);
        }
        self.depth += 1;
        if self.depth < MAX_DEPTH {
            match self.form.events[event].kind {
                EventKind::Symbol(_) => {
                    let position =
                        if mode.certain { SyntacticContext::Variable } else { SyntacticContext::Argument };
                    self.note(event, SyntaxRole::Argument, position, Space::Variable, mode);
                }
                EventKind::Form(_) | EventKind::List => self.list(event, mode),
                EventKind::Other => match self.operator_of(event) {
                    Abbreviation::Comma => self.comma(event, mode),
                    _ => self.children_as(event, |walk, child| walk.datum(child, SyntaxRole::Quoted, mode)),
                },
                EventKind::Text(_) => {}
            }
        }
        self.depth -= 1;
    }

    fn children_as(&mut self, list: usize, mut each: impl FnMut(&mut Self, usize)) {
        for child in self.children(list) {
            match self.place(child) {
                0 => self.read_time(child),
                _ => each(self, child),
            }
        }
    }

    /// Walks a list that is a form.
    fn list(&mut self, list: usize, mode: Mode) {
        match self.operator_of(list) {
            Abbreviation::Quote => {
                let single = self.child(list, 2).is_some_and(|datum| self.symbol(datum).is_some());
                self.children_as(list, |walk, child| match walk.place(child) {
                    2 if single => {
                        walk.note(
                            child,
                            SyntaxRole::Quoted,
                            SyntacticContext::Name,
                            Space::Nowhere,
                            mode.plain(),
                        );
                    }
                    2 => walk.datum(child, SyntaxRole::Quoted, mode.plain()),
                    _ => walk.datum_role(child, SyntaxRole::Argument, mode.plain()),
                });
            }
            Abbreviation::Function => self.children_as(list, |walk, child| match walk.place(child) {
                2 => walk.function_name(child, SyntaxRole::Function, mode.plain()),
                _ => walk.datum_role(child, SyntaxRole::Argument, mode.plain()),
            }),
            Abbreviation::Backquote => {
                let outside = if mode.level == 0 { mode.certain } else { mode.outside };
                let inner =
                    Mode { level: mode.level.saturating_add(1), certain: false, outside, ..mode.plain() };
                self.children_as(list, |walk, child| match walk.place(child) {
                    2 => walk.form(child, inner),
                    _ => walk.datum_role(child, SyntaxRole::Argument, mode.plain()),
                });
            }
            Abbreviation::Comma => self.comma(list, mode),
            Abbreviation::Any => self.call(list, mode),
        }
    }

    /// Walks the form after a comma, one level down.
    fn comma(&mut self, comma: usize, mode: Mode) {
        let level = mode.level.saturating_sub(1);
        let mode = Mode { level, certain: level == 0 && mode.outside, ..mode.plain() };
        self.children_as(comma, |walk, child| walk.form(child, mode));
    }

    /// Walks a list with an operator.
    fn call(&mut self, list: usize, mode: Mode) {
        let Some(head) = self.child(list, 1) else { return self.arguments(list, 1, mode) };
        let Some(name) = self.symbol(head).filter(|_| self.children(head).next().is_none()) else {
            if self.is_list(head)
                && self.operator_of(head) == Abbreviation::Any
                && self.head_is(head, "LAMBDA")
            {
                return self.children_as(list, |walk, child| walk.form(child, mode.plain()));
            }
            return self.arguments(list, 1, mode);
        };
        let space = if mode.place && self.lookup(Space::Setf, name, mode.level).is_some() {
            Space::Setf
        } else {
            Space::Function
        };
        let position = match mode {
            Mode { certain: true, .. } => SyntacticContext::Called,
            Mode { head: true, .. } => SyntacticContext::Head,
            _ => SyntacticContext::Operator,
        };
        // (setf (f x) y) does not call a local function f.
        let hides = |binding: &Binding| !mode.place || binding.is_macro || space == Space::Setf;
        let binding = self.lookup(space, name, mode.level).copied().filter(hides);
        self.note(head, SyntaxRole::Operator, position, space, mode);
        if binding.is_none() {
            (self.seen[head].bound, self.seen[head].binding) = (None, None);
        }
        let Some(found) = self.sidecar.names.get(name as usize) else { return };
        let known = match found {
            Name::Symbol(symbol) => operator(&symbol.package, &symbol.name),
            _ => None,
        };
        let mode = mode.plain();
        match (binding, known) {
            (Some(binding), _) if binding.is_macro => {
                self.arguments(list, 2, mode);
                if found.name().starts_with("DEF") {
                    self.defined_by_macro(list, mode);
                }
            }
            (Some(_), _) => self.children_from(list, 2, |walk, child| walk.form(child, mode)),
            (None, Some(known)) => self.known(list, known, mode),
            (None, None) => match self.sidecar.kind(name) {
                _ if found.standard().is_some_and(|name| name.starts_with('&')) => {
                    self.arguments(list, 2, mode);
                }
                NameKind::Function => self.function_call(list, mode),
                NameKind::Macro => {
                    self.arguments(list, 2, mode);
                    if found.name().starts_with("DEF") {
                        self.defined_by_macro(list, mode);
                    }
                }
                NameKind::Other if found.standard().is_some() => self.function_call(list, mode),
                NameKind::Other | NameKind::SymbolMacro => self.arguments(list, 2, mode),
            },
        }
    }

    fn children_from(&mut self, list: usize, first: u32, mut each: impl FnMut(&mut Self, usize)) {
        for child in self.children(list) {
            match self.place(child) {
                0 => self.read_time(child),
                place if place >= first => each(self, child),
                _ => {}
            }
        }
    }

    /// Walks the arguments of a function that is not in the table.
    fn function_call(&mut self, list: usize, mode: Mode) {
        self.children_from(list, 2, |walk, child| walk.argument(child, list, None, mode));
    }

    /// Walks an argument of a function. `named` is the kind of thing that the argument names if it
    /// is a quoted constant.
    fn argument(&mut self, event: usize, list: usize, named: Option<NamedBy>, mode: Mode) {
        let before = self.place(event).checked_sub(1).and_then(|place| self.child(list, place));
        let named = named.or_else(|| match before.and_then(|before| self.keyword(before))? {
            "TEST" | "TEST-NOT" | "KEY" | "PREDICATE" => Some(NamedBy::Function),
            "ELEMENT-TYPE" => Some(NamedBy::Type),
            _ => None,
        });
        match named {
            Some(named) if self.operator_of(event) == Abbreviation::Quote => {
                self.children_from(event, 2, |walk, child| walk.named(child, named, mode));
            }
            _ => self.form(event, mode),
        }
    }

    /// Records the datum of a quoted constant that names something.
    fn named(&mut self, event: usize, named: NamedBy, mode: Mode) {
        let single = self.symbol(event).is_some();
        match named {
            NamedBy::Function if single => {
                self.note(event, SyntaxRole::Function, SyntacticContext::Name, Space::Nowhere, mode);
            }
            NamedBy::Function if self.head_is(event, "SETF") => {
                self.children_as(event, |walk, child| match walk.place(child) {
                    2 => walk.note(child, SyntaxRole::Function, SyntacticContext::Name, Space::Nowhere, mode),
                    _ => walk.datum_role(child, SyntaxRole::Quoted, mode),
                });
            }
            NamedBy::Function => self.datum(event, SyntaxRole::Quoted, mode),
            NamedBy::Variable if single => {
                self.note(event, SyntaxRole::Variable, SyntacticContext::Name, Space::Nowhere, mode);
            }
            NamedBy::Bound => self.datum(event, SyntaxRole::Binding, mode),
            NamedBy::Class if single => self.datum_role(event, SyntaxRole::Class, mode),
            NamedBy::Slot if single => self.datum_role(event, SyntaxRole::Slot, mode),
            NamedBy::Type => self.type_specifier(event, mode),
            NamedBy::Exported => self.datum(event, SyntaxRole::Export, mode),
            NamedBy::Imported => self.datum(event, SyntaxRole::Import, mode),
            NamedBy::Proclaimed if self.is_list(event) => self.declaration_specifier(event, mode),
            _ if single => self.note(event, SyntaxRole::Quoted, SyntacticContext::Name, Space::Nowhere, mode),
            _ => self.datum(event, SyntaxRole::Quoted, mode),
        }
    }

    /// Walks the arguments of a macro or unknown operator from index `first` on.
    fn arguments(&mut self, list: usize, first: u32, mode: Mode) {
        let mode = mode.uncertain();
        self.children_from(list, first, |walk, child| match walk.form.events[child].kind {
            EventKind::Symbol(_) => {
                walk.note(child, SyntaxRole::Argument, SyntacticContext::Open, Space::Unknown, mode);
            }
            _ => {
                let head = walk.place(child) == 2 || first == 1;
                walk.form(child, Mode { head, ..mode });
            }
        });
    }

    /// Records the name in `(define-foo name …)`, `(define-foo (name …) …)`, `(define-foo ("name"
    /// name) …)` or `(define-foo (setf name) …)`.
    fn defined_by_macro(&mut self, list: usize, mode: Mode) {
        let Some(first) = self.child(list, 2) else { return };
        let named = match self.symbol(first) {
            Some(_) => Some(first),
            None if self.is_list(first) && self.operator_of(first) == Abbreviation::Any => {
                let from = if self.head_is(first, "SETF") { 2 } else { 1 };
                self.children(first).find(|&child| self.place(child) >= from)
            }
            None => None,
        };
        let named = named.filter(|&named| {
            let own = |name: &Name| !matches!(name, Name::Symbol(symbol) if ["KEYWORD", "COMMON-LISP"].contains(&symbol.package.as_str()));
            self.name(named).is_some_and(own)
        });
        if let Some(named) = named {
            self.note(named, SyntaxRole::Named, SyntacticContext::Open, Space::Unknown, mode.uncertain());
        }
    }
}

/// The operator of a list of local functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LocalOperator {
    Flet,
    Labels,
    Macrolet,
}

/// The kind of a lambda list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lambda {
    Ordinary,
    Specialized,
    Destructuring,
}
