//! path: finds a call path between two definitions. Steps through tables, hooks and quoted names
//! are marked as guesses.
//!
//! The search goes backwards from the end through the users of each definition. It always continues
//! from the definition with the fewest guesses on the way to the end. If there are several, it
//! prefers the fewest steps through tests, then the fewest steps.

pub(crate) mod tool;

use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use steelbank_reader::{Datum, Token};
use steelbank_text::DefinitionKind;
use steelbank_xref::{Index, Kind, SymbolName};

use super::code_find_references::{UseType, found};
use super::graph::{Node, Target, UsedBy, UserFinder};
use crate::answer::location::as_text;
use crate::answer::lookup::DEFAULT_PACKAGE;
use crate::answer::package_owner::PackageOwner;
use crate::answer::{LispName, Location};
use crate::engine::Control;
use crate::handle::{Error, QueryContext, Question};
use crate::source::tap::operators::operator;
use crate::source::tap::sidecar::Name;

/// A request for a path from one definition to another.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct PathRequest {
    /// The start: a function, macro or variable.
    pub from: String,
    /// The end.
    pub to: String,
    /// The package to look the names up in.
    #[serde(default)]
    #[schemars(extend("default" = DEFAULT_PACKAGE))]
    pub package: Option<String>,
}

impl PathRequest {
    /// Creates a request for a path from `from` to `to`.
    pub fn new(from: impl Into<String>, to: impl Into<String>) -> Self {
        Self { from: from.into(), to: to.into(), package: None }
    }
}

/// The answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct PathAnswer {
    /// The start.
    pub from: LispName,
    /// The end.
    pub to: LispName,
    /// The path with the fewest guesses. Among several, the one with the fewest steps through
    /// tests, then the shortest. Empty if no path was found.
    pub steps: Vec<PathStep>,
    /// The number of definitions that were searched.
    pub looked_at: usize,
    /// Whether the search stopped at its limit.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// If no path was found: the number of functions compiled at run time that use one of the
    /// definitions searched.
    #[serde(skip_serializing_if = "crate::answer::is_zero")]
    pub without_file: usize,
    /// The package where the name was found, if none was given and CL-USER lacks the name.
    #[serde(skip)]
    pub looked_up_in: Option<String>,
}

/// A definition on the path, and its link to the next definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct PathStep {
    /// Its name.
    pub name: LispName,
    /// The `file:line:column` where it uses the next definition. `None` at the end.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    #[schemars(with = "Option<String>")]
    pub place: Option<Location>,
    /// The kind of use of the next definition, or `holds`. `None` at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub does: Option<PathLink>,
    /// Whether it is only a guess that this definition leads to the next.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub guess: bool,
}

/// How a definition leads to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PathLink {
    /// The definition is a variable, such as a table or a hook. It may hold the other definition:
    /// both occur in one top-level form, or the variable occurs in the definition of this form's
    /// macro.
    Holds,
    /// The definition uses the other one.
    #[serde(untagged)]
    Use(UseType),
}

impl std::fmt::Display for PathLink {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Holds => formatter.pad("holds"),
            Self::Use(use_type) => use_type.fmt(formatter),
        }
    }
}

/// The maximum number of definitions to search.
const MAX_DEFINITIONS: usize = 1_000;

/// A definition that leads to the end of the path.
#[derive(Debug, Clone)]
struct Reached {
    node: Node,
    /// The numbers of guesses, of steps through tests, and of all steps to the end.
    cost: (usize, usize, usize),
    /// The next definition by index, and the step to it.
    next: Option<(usize, UseStep)>,
}

/// A use of a definition, as a step to it.
#[derive(Debug, Clone)]
struct UseStep {
    link: PathLink,
    place: Location,
    guess: bool,
    in_test: bool,
}

impl Question for PathRequest {
    type Answer = PathAnswer;

    fn answer(&self, context: &QueryContext<'_>, control: &Control) -> Result<PathAnswer, Error> {
        let (context, from) = context.resolve(&self.from, self.package.as_deref())?;
        let (context, to) = context.resolve(&self.to, self.package.as_deref())?;
        let (context, index) = (&*context, &context.index);
        let mut answer = PathAnswer::default();
        let mut ends = Vec::new();
        for (lookup, printed) in [(from, &mut answer.from), (to, &mut answer.to)] {
            let symbol = found(index, context.project, &lookup)?;
            *printed = LispName::new(index, lookup.function_name.text(index.symbol_text(symbol)));
            ends.push(Target::requested(index.full_name(symbol), lookup.function_name));
            answer.looked_up_in = answer.looked_up_in.take().or(lookup.looked_up_in);
        }
        if let [from, to] = ends.as_slice() {
            let end =
                Node { name: answer.to.canonical().to_owned(), target: Some(to.clone()), is_toplevel: false };
            Search { context, users: UserFinder::new(context, control) }
                .run(from, end, control, &mut answer)?;
        }
        Ok(answer)
    }
}

struct Search<'a> {
    context: &'a QueryContext<'a>,
    users: UserFinder<'a>,
}

impl Search<'_> {
    /// Searches backwards from the end, each time from the definition with the fewest
    /// guesses.
    fn run(&self, from: &Target, end: Node, control: &Control, answer: &mut PathAnswer) -> Result<(), Error> {
        let mut places = BTreeMap::from([(end.name.clone(), 0)]);
        let mut reached = vec![Reached { node: end, cost: (0, 0, 0), next: None }];
        let mut waiting = BinaryHeap::from([std::cmp::Reverse(((0, 0, 0), 0))]);
        let mut done = BTreeSet::new();
        while let Some(std::cmp::Reverse((cost, at))) = waiting.pop() {
            control.check()?;
            if cost > reached[at].cost || !done.insert(at) {
                continue;
            }
            let Some(target) = reached[at].node.target.clone() else { continue };
            if at > 0 && target.symbol == from.symbol {
                answer.steps = steps(&self.context.index, &reached, at);
                break;
            }
            if done.len() > MAX_DEFINITIONS {
                answer.truncated = true;
                break;
            }
            for (node, step) in self.before(&reached[at].node, control)? {
                let cost = (cost.0 + usize::from(step.guess), cost.1 + usize::from(step.in_test), cost.2 + 1);
                let next = Some((at, step));
                let known = places.get(&node.name).copied();
                let at = match known {
                    Some(known) if reached[known].cost <= cost => continue,
                    Some(known) => {
                        reached[known] = Reached { node, cost, next };
                        known
                    }
                    None => {
                        places.insert(node.name.clone(), reached.len());
                        reached.push(Reached { node, cost, next });
                        reached.len() - 1
                    }
                };
                waiting.push(std::cmp::Reverse((cost, at)));
            }
        }
        answer.looked_at = done.len();
        if answer.steps.is_empty() {
            let found = done.iter().flat_map(|at| self.users.without_file(&reached[*at].node));
            answer.without_file = found.map(|(function, _)| function).collect::<BTreeSet<_>>().len();
        }
        Ok(())
    }

    /// Finds the definitions that lead to `node`: its users in the project, and the variables that
    /// may hold it.
    fn before(&self, node: &Node, control: &Control) -> Result<Vec<(Node, UseStep)>, Error> {
        let name = node.target.as_ref().map(|target| target.symbol.name.clone()).unwrap_or_default();
        let mut found = Vec::new();
        for used in self.users.of_node(node, control)?.into_iter().filter(|used| used.in_project) {
            let is_call = UserFinder::is_call(&used, &name);
            let step = |link, guess| {
                let place = used.line.place.clone();
                UseStep { link, place, guess, in_test: used.is_in_test() }
            };
            if !is_call || used.user.target.is_none() {
                let holders = self.holders(&used).into_iter().filter(|holder| holder.name != node.name);
                found.extend(holders.map(|holder| (holder, step(PathLink::Holds, true))));
            }
            let step = step(PathLink::Use(used.line.use_type), !is_call);
            found.push((used.user, step));
        }
        Ok(found)
    }

    /// Lists the variables of user packages in the top-level form of a use, and in the definition
    /// of the macro that is this form's operator.
    fn holders(&self, used: &UsedBy) -> Vec<Node> {
        let (context, place) = (self.context, &used.line.place);
        let path = context.project.native(&place.file);
        let date = context.project.loaded_date(&path);
        let Some(file) = date.and_then(|date| context.project.positions(&path, date).ok()) else {
            return Vec::new();
        };
        let Some(form) = used.line.form.map(|form| form as u32) else { return Vec::new() };
        let mut names: BTreeSet<SymbolName> = file.symbols_in(form).into_iter().cloned().collect();
        names.retain(|name| !self.is_only_bound(&name.name, place).unwrap_or(false));
        if let Some(Name::Symbol(operator)) = file.form_operator(form) {
            names.extend(self.in_macro(operator));
        }
        let index = &context.index;
        let variables = names.into_iter().filter_map(|name| {
            let symbol = index.named(&name).filter(|_| is_users(&name.package))?;
            let kinds = [Kind::References, Kind::Sets, Kind::Binds].into_iter();
            let is_variable = kinds.map(|kind| index.count(kind, symbol, |_| true)).any(|count| count > 0);
            let target = Some(Target::any(name));
            is_variable.then(|| Node { name: index.symbol_text(symbol), target, is_toplevel: false })
        });
        variables.collect()
    }

    /// Whether the top-level form around a use binds the variable `name` wherever it has it, and
    /// none of these bindings contains the use. Such a variable is in the form for another reason.
    /// Quoted lists count as code. Returns `None` if the place has no column.
    fn is_only_bound(&self, name: &str, place: &Location) -> Option<bool> {
        let (used, file) = (place.range?.start, self.users.enclosing.text(&place.file)?);
        let (bytes, text) = (&file.0, &file.1);
        let tokens = &text.tokens()[text.toplevel_from(used)?.tokens()];
        let is_bound = |token: &Token| {
            let form = token.form?;
            let binding = text.form(form)?;
            let is_entry = text.head(binding).is_some_and(|head| head.span == token.span);
            let list = if is_entry { binding.parent? } else { form };
            let binder = text.form(list)?.parent?;
            let word = text.head(text.form(binder)?)?.symbol(bytes).name;
            let shape = &operator("COMMON-LISP", &word)?.shape;
            let is_first = text.elements(binder).nth(1) == Some(Datum::Form(list));
            Some(is_first && shape.binds_in_list() && !(is_entry && binding.span.contains(used)))
        };
        let mut found = tokens.iter().filter(|token| token.is_named(bytes, name)).peekable();
        found.peek()?;
        Some(found.all(|token| is_bound(token).unwrap_or(false)))
    }

    /// Lists the symbols in the definition of a macro of a user package.
    fn in_macro(&self, name: &SymbolName) -> Vec<SymbolName> {
        let mut found = Vec::new();
        for (version, known, at) in self.users.definitions_of(name) {
            let definition = &known[at].definition;
            if definition.kind == DefinitionKind::Macro
                && is_users(&name.package)
                && let Ok(file) = self.context.project.positions(&version.path, version.write_date)
            {
                found.extend(file.symbols_in(definition.form as u32).into_iter().cloned());
            }
        }
        found
    }
}

fn is_users(package: &str) -> bool {
    PackageOwner::of(package) == PackageOwner::User
}

fn steps(index: &Index, reached: &[Reached], from: usize) -> Vec<PathStep> {
    let (mut steps, mut at) = (Vec::new(), Some(from));
    while let Some(found) = at.and_then(|at| reached.get(at)) {
        let name = found.node.name(index);
        steps.push(match &found.next {
            Some((_, UseStep { link, place, guess, .. })) => {
                PathStep { name, place: Some(place.clone()), does: Some(*link), guess: *guess }
            }
            None => PathStep { name, place: None, does: None, guess: false },
        });
        at = found.next.as_ref().map(|(next, _)| *next);
    }
    steps
}
