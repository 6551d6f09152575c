//! The tool call-graph: renders the callers or callees of a function as JSON, text, Mermaid, DOT or
//! an SVG file.

use std::fmt;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Steelbank;
use crate::actions::missing::{LookupReply, of_error};
use crate::actions::uses::call_graph::{CallGraphAnswer, CallGraphRequest, Direction, GraphNode};
use crate::actions::uses::source_text::{Sourced, sourced};
use crate::answer::caution::Caution;
use crate::answer::counted;
use crate::engine::ALLOWED;
use crate::source::tap::sidecar::fnv_1a;
use crate::tools::page::{Continued, Part, Sequence};
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
    /// The drawing: none (`json`), text (`mermaid`, `dot`) or a file (`svg`).
    #[serde(default)]
    #[schemars(extend("type" = "string", "enum" = ["json", "mermaid", "dot", "svg"]))]
    format: Format,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
struct Drawn {
    #[serde(flatten)]
    graph: CallGraphAnswer,
    /// The Mermaid or DOT drawing, which is also the text of the answer. It has at most 60
    /// functions and counts the rest.
    #[serde(skip_serializing_if = "Option::is_none")]
    drawing: Option<String>,
    /// The file with the SVG.
    #[serde(skip_serializing_if = "Option::is_none")]
    drawing_file: Option<PathBuf>,
    /// The lines of the text below its heading.
    #[serde(skip)]
    lines: Vec<String>,
}

/// The tree in the text is ordered differently from the lists, so a page takes the same range of
/// each list.
impl Sequence for Drawn {
    fn lists(&mut self, part: &mut Part) {
        let CallGraphAnswer { nodes, edges, cycles, unloaded, .. } = &mut self.graph;
        let lengths =
            [self.lines.len(), nodes.len(), edges.len(), cycles.len(), unloaded.files.len()].into_iter();
        let kept = part.take(lengths.max().unwrap_or_default());
        let part = || Part::new(kept.start, kept.len());
        part().keep(&mut self.lines);
        part().keep(nodes);
        part().keep(edges);
        part().keep(cycles);
        part().keep(&mut unloaded.files);
    }
}

pub(crate) fn tool() -> Tool {
    let about = About {
        name: "call-graph",
        title: "Draw who calls whom",
        description: "Follows calls from a function or macro to its callers or callees, up to a depth, through generic \
            functions, methods, macros and top-level code. Marks cycles. Returns data, or a drawing in \
            Mermaid, Graphviz or SVG. Use it to see what depends on a function.",
        effect: Effect::Reads,
    };
    Tool::new::<Sourced<Continued<Arguments>>, LookupReply<Drawn>>(about, sourced(graph)).of_image()
}

fn graph(session: &Session, given: Continued<Arguments>, call: &Call) -> Result<ToolAnswer, Failure> {
    let bank = session.bank()?;
    let graph = match bank.ask(&given.request.request, &call.control(ALLOWED)) {
        Ok(graph) => graph,
        Err(error) => return of_error(bank, error, CallOutcome::NotFound),
    };
    let (text, drawing, drawing_file) = match given.request.format {
        Format::Json => (graph.to_string(), None, None),
        Format::Mermaid => (graph.mermaid(), Some(graph.mermaid()), None),
        Format::Dot => (graph.dot(), Some(graph.dot()), None),
        Format::Svg => {
            let file = save_drawing(bank, &given.request.request, &graph.svg())?;
            (format!("Drawn into {}.\n\n{graph}", file.display()), None, Some(file))
        }
    };
    // A drawing is complete on every page.
    let (heading, lines) = match text.split_once('\n') {
        Some((heading, lines)) if drawing.is_none() => {
            (heading, lines.split('\n').map(str::to_owned).collect())
        }
        _ => (text.as_str(), Vec::new()),
    };
    let looked_up_in = graph.looked_up_in.clone();
    let page = given.page(Drawn { graph, drawing, drawing_file, lines }, call.budget(), |drawn| {
        let lines = drawn.lines.iter().map(|line| format!("\n{line}"));
        let text = format!("{heading}{}", lines.collect::<String>());
        ToolAnswer::new(text, &LookupReply::yes(drawn), CallOutcome::Answered)
    })?;
    Ok(page.looked_up_in(looked_up_in))
}

/// The maximum number of drawings in the cache.
const MAX_DRAWINGS: usize = 32;

/// Writes a drawing into the cache and removes the oldest drawings. The SVG is not returned as
/// text, because it would fill a model's context.
fn save_drawing(bank: &Steelbank, request: &CallGraphRequest, svg: &str) -> Result<PathBuf, Failure> {
    let project = bank.project();
    let folder = project.settings().map(|settings| settings.cache.join("drawings")).ok_or_else(|| {
        Failure::engine("No cache folder is available for the SVG file. Use format mermaid or dot.")
    })?;
    let name = fnv_1a(format!("{:?} {request:?}", project.root()).as_bytes());
    let path = folder.join(format!("{name:016x}.svg"));
    let write = || {
        steelbank_cache::create_folder(&folder)?;
        let written = folder.join(steelbank_cache::unique_name());
        steelbank_cache::write(&written, svg.as_bytes())?;
        steelbank_cache::rename(&written, &path)
    };
    write().map_err(|error| Failure::engine(format!("{} cannot be written: {error}.", path.display())))?;
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let mut drawings: Vec<_> =
        entries.filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()))).collect();
    drawings.sort();
    for (_, old) in drawings.iter().take(drawings.len().saturating_sub(MAX_DRAWINGS)) {
        // Ignore errors: another process may have removed the file.
        let _ = std::fs::remove_file(old);
    }
    Ok(path)
}

impl fmt::Display for GraphNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]", self.name, self.kind)?;
        self.place.iter().try_for_each(|place| write!(f, " {place}"))
    }
}

/// Renders the graph as an indented tree. Each function is expanded once.
impl fmt::Display for CallGraphAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} {}:", self.direction.heading(), self.root)?;
        let mut shown = vec![false; self.nodes.len()];
        let mut waiting = vec![(0, 0)];
        while let Some((at, depth)) = waiting.pop() {
            let node = &self.nodes[at];
            let again = if shown[at] { " (above)" } else { "" };
            write!(f, "\n{}{node}{again}", "  ".repeat(depth))?;
            if std::mem::replace(&mut shown[at], true) {
                continue;
            }
            let next = self.edges.iter().filter_map(|&(from, to)| match self.direction {
                Direction::Callers => (to == at).then_some(from),
                Direction::Callees => (from == at).then_some(to),
            });
            let mut next: Vec<_> = next.map(|next| (next, depth + 1)).collect();
            next.reverse();
            waiting.extend(next);
        }
        if !self.cycles.is_empty() {
            write!(f, "\n\n{} a cycle.", counted(self.cycles.len(), "call closes", "calls close"))?;
        }
        if self.truncated {
            f.write_str("\n\nSome functions were omitted. Use a smaller depth or a higher limit.")?;
        }
        if self.outside > 0 {
            write!(f, "\n\nAnd {} outside of the project.", counted(self.outside, "caller", "callers"))?;
        }
        if self.without_file > 0 {
            write!(f, "\n\nNote: {}", Caution::WithoutFile(self.without_file))?;
        }
        f.write_str(&self.unloaded.note())
    }
}
