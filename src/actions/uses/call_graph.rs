//! call-graph: follows calls from a function to its callers, or to the functions that it calls, up
//! to a depth.
//!
//! The search goes breadth-first through a `Graph` of nodes with their distance from the root.
//! `Graph::finish` adds the kind and place of each function from the image and marks the edges
//! that close a cycle.

mod drawing;
pub(crate) mod tool;

use crate::answer::designator::PrintedName;
use crate::answer::location::as_text;
use crate::answer::{LispKind, LispName, Location};
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use steelbank_xref::Kind;

use super::code_find_references::UseType;
use super::graph::{Node, Target, UserFinder, callees, function_in};
use super::unloaded::{UnloadedMatches, text_counts, unloaded_matches};
use crate::actions::symbols::apropos::AproposAnswer;
use crate::answer::lookup::{LookupStatus, NamedSymbol, about_symbol};
use crate::engine::Control;
use crate::handle::{Error, QueryContext, Question};

/// The direction in which calls are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// To the callers.
    #[default]
    Callers,
    /// To the callees, without the standard's functions and SBCL's.
    Callees,
}

impl Direction {
    /// Returns the heading of a graph with this direction.
    fn heading(self) -> &'static str {
        match self {
            Self::Callers => "Callers of",
            Self::Callees => "Called by",
        }
    }
}

/// A request for the callers or the callees of a function.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct CallGraphRequest {
    /// The function or macro.
    #[serde(flatten)]
    pub symbol: NamedSymbol,
    /// Functions that call it, or functions that it calls, without the standard's.
    #[serde(default)]
    #[schemars(extend("type" = "string", "enum" = ["callers", "callees"]))]
    pub direction: Direction,
    /// Only callers of a generic function that may pass an instance of this class.
    #[serde(default)]
    pub class: Option<String>,
    /// The maximum number of steps.
    #[serde(default = "steps")]
    #[schemars(range(min = 1, max = 50))]
    pub depth: u32,
    /// The maximum number of functions in the graph.
    #[serde(default = "nodes")]
    #[schemars(range(min = 1, max = 400))]
    pub limit: usize,
}

fn steps() -> u32 {
    3
}

fn nodes() -> usize {
    100
}

about_symbol!(CallGraphRequest {
    direction: Direction::Callers,
    class: None,
    depth: steps(),
    limit: nodes()
});

/// The answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct CallGraphAnswer {
    /// Whether the symbol was found.
    pub status: LookupStatus,
    /// The package where the name was found, if none was given and CL-USER lacks the name.
    #[serde(skip)]
    pub looked_up_in: Option<String>,
    /// The direction in which calls were followed.
    #[serde(skip)]
    pub direction: Direction,
    /// The function at which the graph starts.
    pub root: LispName,
    /// The functions, nearest first.
    pub nodes: Vec<GraphNode>,
    /// The calls as pairs of caller and callee, by their indices in `nodes`.
    pub edges: Vec<(usize, usize)>,
    /// The edges that close a cycle, by their indices in `edges`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cycles: Vec<usize>,
    /// Whether functions were omitted because of `limit`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// The number of callers outside the project, which are omitted.
    #[serde(skip_serializing_if = "crate::answer::is_zero")]
    pub outside: usize,
    /// The number of functions that were compiled without a file and call the root. They are not in
    /// the graph.
    #[serde(skip_serializing_if = "crate::answer::is_zero")]
    pub without_file: usize,
    /// Matches of the root's name in text that the image does not have. They may be further
    /// callers.
    #[serde(skip_serializing_if = "UnloadedMatches::is_empty", rename = "unseen")]
    pub unloaded: UnloadedMatches,
}

/// A function in the graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct GraphNode {
    /// Its name.
    pub name: LispName,
    /// Its kind: function, macro, generic-function, method, …
    pub kind: LispKind,
    /// The `file:line:column` of its definition, if known.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    #[schemars(with = "Option<String>")]
    pub place: Option<Location>,
    /// The number of steps from the root.
    pub depth: u32,
}

impl CallGraphRequest {
    fn callers(&self, context: &QueryContext<'_>, control: &Control, graph: &mut Graph) -> Result<(), Error> {
        let users = UserFinder::new(context, control);
        // For a root in the project, callers outside the project are only counted.
        let everywhere = graph.nodes[0].0.target.as_ref().is_none_or(|root| users.is_foreign(root));
        let mut outside = BTreeSet::new();
        let passed = match (&self.class, &graph.nodes[0].0.target) {
            (Some(class), Some(root)) => Some(users.argument_classes(context, root, class, control)?),
            _ => None,
        };
        let mut waiting = VecDeque::from([0]);
        while let Some(at) = waiting.pop_front() {
            control.check()?;
            let (node, depth) = graph.nodes[at].clone();
            let Some(target) = node.target.clone().filter(|_| depth < self.depth) else { continue };
            let mut callers = BTreeSet::new();
            for used in users.of_node(&node, control)? {
                if !UserFinder::is_call(&used, &target.symbol.name) && used.line.use_type != UseType::Class
                    || (at == 0 && passed.as_ref().is_some_and(|passed| !users.may_pass(&used, passed)))
                {
                    continue;
                }
                match everywhere || used.in_project {
                    true => drop(callers.insert(used.user)),
                    false => drop(outside.insert(used.user.name)),
                }
            }
            // Add recorded callers, too: code that a reader macro generates has no line.
            if !node.is_foreign_method(&users) && (at > 0 || passed.is_none()) {
                callers.extend(users.recorded(&target, everywhere));
            }
            for caller in callers {
                let Some((from, is_new)) = graph.node(&caller, depth + 1) else { continue };
                graph.edges.insert((from, at));
                if is_new {
                    waiting.push_back(from);
                }
            }
        }
        graph.outside = outside.len();
        let mut without_file = users.without_file(&graph.nodes[0].0);
        without_file.retain(|(function, kind)| {
            matches!(kind, Kind::Calls | Kind::Macroexpands) && !graph.places.contains_key(function)
        });
        graph.without_file = without_file.len();
        Ok(())
    }

    fn callees(&self, context: &QueryContext<'_>, control: &Control, graph: &mut Graph) -> Result<(), Error> {
        let calls = callees(&context.index);
        let users = UserFinder::new(context, control);
        // Maps each function to the code that runs in a call to it: the function itself, its
        // methods, and its local functions.
        let mut by_target: HashMap<Target, Vec<&String>> = HashMap::new();
        for caller in calls.keys() {
            if let Some(target) = function_in(caller) {
                by_target.entry(target).or_default().push(caller);
            }
        }
        let mut waiting = VecDeque::from([0]);
        while let Some(at) = waiting.pop_front() {
            control.check()?;
            let (node, depth) = graph.nodes[at].clone();
            let Some(target) = node.target.filter(|_| depth < self.depth) else { continue };
            let mut called: BTreeSet<Node> = BTreeSet::new();
            for caller in by_target.get(&target).into_iter().flatten() {
                called.extend(calls.get(*caller).into_iter().flatten().cloned());
            }
            let templates = users.called_by_templates(&target);
            called.extend(
                templates.into_iter().filter_map(|name| {
                    Some(Node::of(&context.index.symbol_text(context.index.named(&name)?)))
                }),
            );
            for callee in called {
                let Some((to, is_new)) = graph.node(&callee, depth + 1) else { continue };
                graph.edges.insert((at, to));
                if is_new {
                    waiting.push_back(to);
                }
            }
        }
        Ok(())
    }
}

impl Question for CallGraphRequest {
    type Answer = CallGraphAnswer;

    fn answer(&self, context: &QueryContext<'_>, control: &Control) -> Result<CallGraphAnswer, Error> {
        let (context, lookup) = context.resolve_symbol(&self.symbol)?;
        let (context, index) = (&*context, &context.index);
        let symbol = match lookup.found {
            Ok((symbol, _)) => symbol,
            Err(status) => {
                let target = lookup.asked.symbol(index, lookup.package);
                let project = context.project;
                let unloaded = text_counts(index, project, &project.tree_view(), &target);
                return Err(unloaded.with_definitions().not_found(&lookup.asked, status).into());
            }
        };
        let root = lookup.function_name.text(index.symbol_text(symbol));
        let mut graph = Graph { limit: self.limit, ..Graph::default() };
        graph.node(&Node::of(&root), 0);
        match self.direction {
            Direction::Callers => self.callers(context, control, &mut graph)?,
            Direction::Callees => self.callees(context, control, &mut graph)?,
        }
        let mut answer = graph.finish(context, control, root)?;
        answer.direction = self.direction;
        answer.looked_up_in = lookup.looked_up_in;
        if self.direction == Direction::Callers {
            answer.unloaded = unloaded_matches(context, [&index.full_name(symbol)]);
        }
        Ok(answer)
    }
}

#[derive(Default)]
struct Graph {
    places: HashMap<String, usize>,
    nodes: Vec<(Node, u32)>,
    edges: BTreeSet<(usize, usize)>,
    limit: usize,
    truncated: bool,
    outside: usize,
    without_file: usize,
}

impl Graph {
    /// Adds a node unless it exists. Returns its index and whether it is new, or `None` at the
    /// limit.
    fn node(&mut self, node: &Node, depth: u32) -> Option<(usize, bool)> {
        if let Some(&at) = self.places.get(&node.name) {
            return Some((at, false));
        }
        if self.nodes.len() >= self.limit {
            self.truncated = true;
            return None;
        }
        self.nodes.push((node.clone(), depth));
        self.places.insert(node.name.clone(), self.nodes.len() - 1);
        Some((self.nodes.len() - 1, true))
    }

    fn finish(
        self,
        context: &QueryContext<'_>,
        control: &Control,
        root: String,
    ) -> Result<CallGraphAnswer, Error> {
        let mut arguments = vec![String::new(), "0".to_owned(), self.nodes.len().to_string()];
        for (node, _) in &self.nodes {
            if let Some(target) =
                node.target.clone().filter(|_| PrintedName::parse(&node.name).head.is_empty())
            {
                arguments.extend([target.symbol.package, target.symbol.name]);
            }
        }
        let mut known: AproposAnswer = context.ask("apropos", arguments, control)?;
        let mut places = context.places();
        let mut summaries = HashMap::new();
        for summary in &mut known.symbols {
            let Some(kind) = summary.kinds.first().cloned() else { continue };
            let place = places.first(&mut summary.sources);
            summaries.insert(summary.name.canonical(), (kind, place));
        }
        let nodes = self.nodes.iter().map(|(node, depth)| {
            let (kind, place) = summaries.get(node.name.as_str()).cloned().unwrap_or_else(|| {
                let kind = match PrintedName::parse(&node.name).head {
                    "METHOD" => LispKind::Method,
                    "SETF" => LispKind::Setf,
                    "TYPE-EXPANDER" => LispKind::Type,
                    _ if node.is_toplevel => LispKind::TopLevel,
                    "COMPILER-MACRO" => LispKind::CompilerMacro,
                    _ => LispKind::Definition,
                };
                (kind, None)
            });
            GraphNode { name: node.name(&context.index), kind, place, depth: *depth }
        });
        let nodes: Vec<GraphNode> = nodes.collect();
        let edges: Vec<(usize, usize)> = self.edges.into_iter().collect();
        let cycles = cycles(nodes.len(), &edges);
        Ok(CallGraphAnswer {
            root: LispName::new(&context.index, root),
            nodes,
            edges,
            cycles,
            truncated: self.truncated,
            outside: self.outside,
            without_file: self.without_file,
            ..CallGraphAnswer::default()
        })
    }
}

/// Finds the edges that close a cycle: a path leads from the end of such an edge back to its start.
fn cycles(count: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let mut next = vec![Vec::new(); count];
    for &(from, to) in edges {
        next[from].push(to);
    }
    let leads = |from: usize, goal: usize| {
        let mut seen = HashSet::from([from]);
        let mut waiting = vec![from];
        while let Some(at) = waiting.pop() {
            if at == goal {
                return true;
            }
            waiting.extend(next[at].iter().copied().filter(|to| seen.insert(*to)));
        }
        false
    };
    edges.iter().enumerate().filter(|(_, (from, to))| leads(*to, *from)).map(|(at, _)| at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_lists_edges_that_lead_back() {
        assert_eq!(cycles(4, &[(0, 1), (1, 2), (2, 1), (2, 3), (3, 3)]), [1, 2, 4]);
        assert_eq!(cycles(2, &[(0, 1)]), [0_usize; 0]);
    }
}
