//! path: finds a call path between two definitions. Steps through tables, hooks and quoted names
//! are marked as guesses.
//!
//! The search goes backwards from the end through the users of each definition. It always continues
//! from the definition with the fewest guesses on the way to the end. If there are several, it
//! continues from the one with the fewest steps.

pub(crate) mod tool;

use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
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
    /// The shortest path among those with the fewest guesses. Empty if no path was found.
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
    /// The number of guesses and the number of steps to the end.
    cost: (usize, usize),
    /// The next definition by index, the link, its place, and whether it is a guess.
    next: Option<(usize, PathLink, Location, bool)>,
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
            Search { context, users: UserFinder::new(context) }.run(from, end, control, &mut answer)?;
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
        let mut reached = vec![Reached { node: end, cost: (0, 0), next: None }];
        let mut waiting = BinaryHeap::from([std::cmp::Reverse(((0, 0), 0))]);
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
            for (node, link, place, guess) in self.before(&reached[at].node, control)? {
                let cost = (cost.0 + usize::from(guess), cost.1 + 1);
                let next = Some((at, link, place, guess));
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
    fn before(&self, node: &Node, control: &Control) -> Result<Vec<(Node, PathLink, Location, bool)>, Error> {
        let name = node.target.as_ref().map(|target| target.symbol.name.clone()).unwrap_or_default();
        let mut found = Vec::new();
        for used in self.users.of_node(node, control)?.into_iter().filter(|used| used.in_project) {
            let is_call = UserFinder::is_call(&used, &name);
            if !is_call || used.user.target.is_none() {
                let held = |holder: Node| (holder, PathLink::Holds, used.line.place.clone(), true);
                found.extend(
                    self.holders(&used).into_iter().filter(|holder| holder.name != node.name).map(held),
                );
            }
            let link = PathLink::Use(used.line.use_type);
            found.push((used.user, link, used.line.place, !is_call));
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

    /// Lists the symbols in the definition of a macro of a user package.
    fn in_macro(&self, SymbolName { package, name }: &SymbolName) -> Vec<SymbolName> {
        let project = self.context.project;
        let mut found = Vec::new();
        for version in project.naming(name).into_iter().filter(|_| is_users(package)) {
            let shown = project.shown(&version.path);
            let Ok(file) = project.positions(&version.path, version.write_date) else { continue };
            for known in self.users.enclosing.definitions(&shown).iter().filter(|known| {
                known.definition.kind == DefinitionKind::Macro
                    && known.definition.name == *name
                    && known.home.as_ref() == Some(package)
            }) {
                let forms = self.users.use_lines.forms(&shown);
                let form = forms.as_ref().as_ref().and_then(|forms| forms.at(known.definition.start));
                let symbols = form.map_or_else(Vec::new, |(form, _)| file.symbols_in(form as u32));
                found.extend(symbols.into_iter().cloned());
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
            Some((_, link, place, guess)) => {
                PathStep { name, place: Some(place.clone()), does: Some(*link), guess: *guess }
            }
            None => PathStep { name, place: None, does: None, guess: false },
        });
        at = found.next.as_ref().map(|(next, ..)| *next);
    }
    steps
}
