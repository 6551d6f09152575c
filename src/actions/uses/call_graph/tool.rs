//! The tool call-graph: the callers of a function, or its callees, drawn or as data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::actions::missing::{LookupReply, NotFoundReply};
use crate::actions::uses::call_graph::{CallGraphAnswer, CallGraphRequest, Direction};
use crate::actions::uses::unseen::Unseen;
use crate::answer::counted;
use crate::engine::ALLOWED;
use crate::tools::{About, Call, CallOutcome, Effect, Failure, Session, Tool, ToolAnswer};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Format {
    #[default]
    Json,
    Mermaid,
    Dot,
    Svg,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Arguments {
    #[serde(flatten)]
    request: CallGraphRequest,
    /// How the graph is given: `json` alone, or also as `mermaid`, `dot` or `svg`.
    #[serde(default)]
    #[schemars(extend("type" = "string", "enum" = ["json", "mermaid", "dot", "svg"]))]
    format: Format,
}

/// The longest drawing that the structured answer has, in bytes.
const LONGEST: usize = 36_000;

#[derive(Debug, Serialize, JsonSchema)]
struct Drawn {
    #[serde(flatten)]
    graph: CallGraphAnswer,
    /// The drawing, if one was asked for: then `nodes` and `edges` are left out. It is the text of the answer, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    drawing: Option<String>,
    /// Whether the drawing is too long to be given here. The text has it; or ask with a smaller `depth` or `limit`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    drawing_left_out: bool,
}

pub(crate) fn tool() -> Tool {
    let about = About {
        name: "call-graph",
        title: "Draw who calls whom",
        description: "Follows calls from a function or macro to those who call it, or to what it calls, to a depth: \
            functions, generic functions, methods, macros and top-level code, with cycles marked. As data, or also as \
            a Mermaid, Graphviz or SVG drawing. Use it to see what depends on a function.",
        effect: Effect::Reads,
    };
    Tool::new::<Arguments, LookupReply<Drawn>>(about, graph).of_image()
}

fn graph(session: &Session, given: Arguments, call: &Call) -> Result<ToolAnswer, Failure> {
    let bank = session.bank()?;
    let graph = bank.ask(&given.request, &call.control(ALLOWED))?;
    if let Some(asked) = &graph.missing {
        let note = Some(&graph.unseen).filter(|unseen| !unseen.is_empty()).map(Unseen::sentence);
        return NotFoundReply::new(&bank.index(), asked, graph.status, note).answer(CallOutcome::NotFound);
    }
    let drawing = match given.format {
        Format::Json => None,
        Format::Mermaid => Some(graph.mermaid()),
        Format::Dot => Some(graph.dot()),
        Format::Svg => Some(svg(&graph)?),
    };
    let text = drawing.clone().unwrap_or_else(|| tree(&graph, given.request.direction));
    let drawing_left_out = drawing.as_ref().is_some_and(|drawing| drawing.len() > LONGEST);
    let mut drawn = Drawn { graph, drawing, drawing_left_out };
    if drawn.drawing.is_some() {
        drawn.graph.nodes.clear();
        drawn.graph.edges.clear();
        drawn.graph.cycles.clear();
        drawn.drawing = drawn.drawing.filter(|_| !drawing_left_out);
    }
    let looked_up_in = drawn.graph.looked_up_in.clone();
    Ok(ToolAnswer::new(text, &LookupReply::yes(drawn), CallOutcome::Answered)?.looked_up_in(looked_up_in))
}

/// Draws the graph as SVG.
fn svg(graph: &CallGraphAnswer) -> Result<String, Failure> {
    let dot = graph.dot();
    let drawn = std::panic::catch_unwind(|| {
        let graph = layout::gv::DotParser::new(&dot).process()?;
        let mut builder = layout::gv::GraphBuilder::new();
        builder.visit_graph(&graph);
        let mut visual = builder.get();
        let mut svg = layout::backends::svg::SVGWriter::new();
        visual.do_it(false, false, false, &mut svg);
        Ok::<_, String>(svg.finalize())
    });
    match drawn {
        Ok(Ok(svg)) => Ok(svg),
        _ => Err(Failure::engine("This graph cannot be drawn. Ask for format mermaid or dot.")),
    }
}

/// Draws the graph as an indented text: each function once, with the functions that it leads to.
fn tree(graph: &CallGraphAnswer, direction: Direction) -> String {
    let heading = match direction {
        Direction::Callers => "Callers of",
        Direction::Callees => "Called by",
    };
    let mut text = format!("{heading} {}:\n", graph.root);
    let mut shown = vec![false; graph.nodes.len()];
    let mut waiting = vec![(0, 0)];
    while let Some((at, depth)) = waiting.pop() {
        let node = &graph.nodes[at];
        let place = node.place.as_ref().map_or_else(String::new, |place| format!(" {place}"));
        let again = if shown[at] { " (above)" } else { "" };
        text.push_str(&format!("\n{}{} [{}]{place}{again}", "  ".repeat(depth), node.name, node.kind));
        if std::mem::replace(&mut shown[at], true) {
            continue;
        }
        let next = graph.edges.iter().filter_map(|&(from, to)| match direction {
            Direction::Callers => (to == at).then_some(from),
            Direction::Callees => (from == at).then_some(to),
        });
        let mut next: Vec<_> = next.map(|next| (next, depth + 1)).collect();
        next.reverse();
        waiting.extend(next);
    }
    if !graph.cycles.is_empty() {
        text.push_str(&format!("\n\n{} calls close a cycle.", graph.cycles.len()));
    }
    if graph.truncated {
        text.push_str("\n\nMore functions were left out: ask with a smaller depth or a higher limit.");
    }
    if graph.outside > 0 {
        let callers = counted(graph.outside, "caller", "callers");
        text.push_str(&format!("\n\nAnd {callers} outside of the project."));
    }
    if !graph.unseen.is_empty() {
        text.push_str(&format!("\n\nNote: {}", graph.unseen.sentence()));
    }
    text
}
