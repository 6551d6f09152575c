//! Draws a call graph in Graphviz's DOT, in Mermaid, and as SVG. Drawings have a maximum size and
//! show the numbers of functions and calls that they omit.

use std::fmt::Write as _;

use super::{CallGraphAnswer, Direction, GraphNode};
use crate::answer::escape::{Markup, uri_path};
use crate::answer::name::short;
use crate::answer::{LispKind, counted};

/// The maximum number of functions in a drawing.
const NODES: usize = 60;
/// The maximum number of calls in a drawing.
const EDGES: usize = 240;
/// The maximum length of a label in characters.
const LONGEST_LABEL: usize = 44;

/// The height of a box, and the distance between the tops of two boxes in a column, in pixels.
const BOX: usize = 36;
const STEP: usize = 50;
/// The distance between columns, and the outer margin, in pixels.
const GAP: usize = 70;
const MARGIN: usize = 16;

/// The colours for light and dark pages.
const STYLE: &str = "\
.back{fill:#fff}.box{fill:#f6f8fa;stroke:#59636e}.root{stroke-width:2.5}.name{fill:#1f2328}.place{fill:#59636e}\
.call{stroke:#59636e;fill:none}.tip{fill:#59636e}.cycle{stroke:#cf222e;fill:none}.cycle-tip{fill:#cf222e}\
@media (prefers-color-scheme: dark){.back{fill:#0d1117}.box{fill:#161b22;stroke:#9198a1}.name{fill:#f0f6fc}\
.place{fill:#9198a1}.call{stroke:#9198a1}.tip{fill:#9198a1}.cycle{stroke:#ff7b72}.cycle-tip{fill:#ff7b72}}";

/// The part of a graph that is drawn: the nodes nearest to the root and the calls between them.
struct Picture<'a> {
    nodes: &'a [GraphNode],
    /// From, to, and whether the call closes a cycle.
    edges: Vec<(usize, usize, bool)>,
    /// A phrase with the numbers that are omitted, or an empty string.
    rest: String,
}

impl CallGraphAnswer {
    fn picture(&self) -> Picture<'_> {
        let nodes = &self.nodes[..self.nodes.len().min(NODES)];
        let edges =
            self.edges.iter().enumerate().map(|(at, (from, to))| (*from, *to, self.cycles.contains(&at)));
        let mut edges: Vec<_> =
            edges.filter(|(from, to, _)| *from < nodes.len() && *to < nodes.len()).collect();
        // Keep the calls nearest to the root.
        edges.sort_by_key(|(from, to, _)| (*from.max(to), *from.min(to)));
        let calls = edges.len().saturating_sub(EDGES);
        edges.truncate(EDGES);
        let functions = self.nodes.len() - nodes.len();
        let mut rest = Vec::new();
        if functions > 0 || self.truncated {
            let or_more = if self.truncated { " or more" } else { "" };
            rest.push(format!("{}{or_more}", counted(functions, "function", "functions")));
        }
        if calls > 0 {
            rest.push(counted(calls, "call", "calls"));
        }
        if self.outside > 0 {
            rest.push(format!("{} outside of the project", counted(self.outside, "caller", "callers")));
        }
        let rest = if rest.is_empty() { String::new() } else { format!("Not drawn: {}", rest.join(", ")) };
        Picture { nodes, edges, rest }
    }

    /// Renders the graph in Graphviz's DOT language.
    pub fn dot(&self) -> String {
        let picture = self.picture();
        let mut text = String::from("digraph calls {\n  rankdir=LR;\n  node [shape=box];\n");
        for (at, node) in picture.nodes.iter().enumerate() {
            let label = label(node).replace('\\', "\\\\").replace('"', "\\\"");
            let shape = match node.kind {
                LispKind::GenericFunction => "ellipse",
                LispKind::Macro => "diamond",
                LispKind::Method => "circle",
                _ => "box",
            };
            let _ = writeln!(text, "  n{at} [label=\"{label}\", shape={shape}];");
        }
        for (from, to, closes) in picture.edges {
            let style = if closes { " [color=red]" } else { "" };
            let _ = writeln!(text, "  n{from} -> n{to}{style};");
        }
        if !picture.rest.is_empty() {
            let _ = writeln!(text, "  label=\"{}\";", picture.rest);
        }
        text.push_str("}\n");
        text
    }

    /// Renders the graph in Mermaid's language.
    pub fn mermaid(&self) -> String {
        let picture = self.picture();
        let mut text = String::from("graph LR\n");
        for (at, node) in picture.nodes.iter().enumerate() {
            let label = label(node).replace('"', "#quot;");
            let (open, close) = match node.kind {
                LispKind::GenericFunction => ("([", "])"),
                LispKind::Macro => ("{{", "}}"),
                LispKind::Method => ("(", ")"),
                _ => ("[", "]"),
            };
            let _ = writeln!(text, "  n{at}{open}\"{label}\"{close}");
        }
        for (from, to, closes) in picture.edges {
            let arrow = if closes { "-. cycle .->" } else { "-->" };
            let _ = writeln!(text, "  n{from} {arrow} n{to}");
        }
        if !picture.rest.is_empty() {
            let _ = writeln!(text, "  rest[\"{}\"]", picture.rest);
        }
        text
    }

    /// Draws the graph as SVG, with a column for each number of steps and callers to the left of
    /// their callees. Each box shows kind and place and has the full name in its title. Boxes link
    /// to their files, relative to the project's root, except for SBCL's files.
    pub fn svg(&self) -> String {
        let picture = self.picture();
        let nodes = picture.nodes;
        let deepest = nodes.iter().map(|node| node.depth as usize).max().unwrap_or(0);
        let column = |at: usize| match self.direction {
            Direction::Callers => deepest - nodes[at].depth as usize,
            Direction::Callees => nodes[at].depth as usize,
        };
        let columns = ordered(nodes.len(), deepest + 1, column, &picture.edges);
        let lines: Vec<(String, String)> =
            nodes.iter().map(|node| (shorten(&label(node)), shorten(&subtitle(node)))).collect();
        let width =
            |at: &usize| 18 + (lines[*at].0.chars().count() * 29 / 4).max(lines[*at].1.chars().count() * 6);
        let tallest = columns.iter().map(Vec::len).max().unwrap_or(0);
        let mut boxes = vec![(0, 0, 0); nodes.len()];
        let mut left = MARGIN;
        for each in &columns {
            let wide = each.iter().map(width).max().unwrap_or(0);
            for (row, at) in each.iter().enumerate() {
                boxes[*at] = (left, MARGIN + (tallest - each.len()) * STEP / 2 + row * STEP, wide);
            }
            left += wide + GAP;
        }
        let heading = format!("{} {}", self.direction.heading(), self.root);
        let red = if picture.edges.iter().any(|(.., closes)| *closes) { "Red: closes a cycle" } else { "" };
        let notes: Vec<&str> = [red, &picture.rest].into_iter().filter(|note| !note.is_empty()).collect();
        let caption = notes.join(". ");
        let total = (left - GAP + MARGIN).max(MARGIN * 2 + caption.chars().count() * 7);
        let bottom = MARGIN + tallest * STEP;
        let high = bottom + if caption.is_empty() { 0 } else { 24 };
        let mut svg = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{total}\" height=\"{high}\" \
             viewBox=\"0 0 {total} {high}\" font-family=\"ui-monospace, Menlo, Consolas, monospace\" role=\"img\">\n\
             <title>{}</title>\n<style>{STYLE}</style>\n<defs>\n",
            Markup(&heading)
        );
        for tip in ["tip", "cycle-tip"] {
            let _ = writeln!(
                svg,
                "<marker id=\"{tip}\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" \
                 orient=\"auto\"><path class=\"{tip}\" d=\"M0 0L8 4L0 8z\"/></marker>"
            );
        }
        let _ = writeln!(svg, "</defs>\n<rect class=\"back\" width=\"{total}\" height=\"{high}\"/>");
        for (from, to, closes) in &picture.edges {
            let ((x, y, wide), (end, end_y, end_wide)) = (boxes[*from], boxes[*to]);
            let (x, y, end_y) = (x + wide, y + BOX / 2, end_y + BOX / 2);
            let class = if *closes { "cycle" } else { "call" };
            let tip = if *closes { "cycle-tip" } else { "tip" };
            let path = if x < end {
                let bend = (end - x) / 2;
                format!("M{x} {y}C{} {y} {} {end_y} {end} {end_y}", x + bend, end - bend)
            } else {
                // Curve around the right side. A recursive call leaves above the middle and returns
                // below it.
                let (out, end) = (x.max(end + end_wide) + 40, end + end_wide);
                let (y, end_y) = if from == to { (y - 8, end_y + 8) } else { (y, end_y) };
                format!("M{x} {y}C{out} {y} {out} {end_y} {end} {end_y}")
            };
            let _ = writeln!(svg, "<path class=\"{class}\" d=\"{path}\" marker-end=\"url(#{tip})\"/>");
        }
        for (at, node) in nodes.iter().enumerate() {
            let ((x, y, wide), (name, under)) = (boxes[at], &lines[at]);
            let place = node.place.as_ref();
            let link = place.filter(|place| !place.file.starts_with("SYS:")).map(|place| {
                let line = place.line.map(|line| format!("#L{line}")).unwrap_or_default();
                format!("<a href=\"{}{line}\">", uri_path(place.file.as_bytes()))
            });
            let root = if at == 0 { " root" } else { "" };
            let radius = match node.kind {
                LispKind::GenericFunction | LispKind::Method => BOX / 2,
                _ => 4,
            };
            let _ = writeln!(
                svg,
                "{}<g><title>{}</title><rect class=\"box{root}\" x=\"{x}\" y=\"{y}\" width=\"{wide}\" height=\"{BOX}\" rx=\"{radius}\"/>\
                 <text class=\"name\" x=\"{tx}\" y=\"{}\" font-size=\"12\">{}</text>\
                 <text class=\"place\" x=\"{tx}\" y=\"{}\" font-size=\"10\">{}</text></g>{}",
                link.as_deref().unwrap_or_default(),
                Markup(&node.to_string()),
                y + 15,
                Markup(name),
                y + 29,
                Markup(under),
                if link.is_some() { "</a>" } else { "" },
                tx = x + 9,
            );
        }
        if !caption.is_empty() {
            let _ = writeln!(
                svg,
                "<text class=\"place\" x=\"{MARGIN}\" y=\"{}\" font-size=\"11\">{}</text>",
                bottom + 10,
                Markup(&caption)
            );
        }
        svg.push_str("</svg>\n");
        svg
    }
}

/// Distributes nodes into `count` columns. Sorts each column by the mean position of the connected
/// nodes, in three passes. More passes change little, and the order may never become stable.
fn ordered(
    nodes: usize,
    count: usize,
    column: impl Fn(usize) -> usize,
    edges: &[(usize, usize, bool)],
) -> Vec<Vec<usize>> {
    let mut columns = vec![Vec::new(); count];
    (0..nodes).for_each(|at| columns[column(at)].push(at));
    let mut joined = vec![Vec::new(); nodes];
    for (from, to, _) in edges {
        joined[*from].push(*to);
        joined[*to].push(*from);
    }
    let mut places = vec![0.0; nodes];
    for _ in 0..3 {
        for each in &mut columns {
            let mean = |at: &usize| {
                let sum: f64 = joined[*at].iter().map(|other| places[*other]).sum();
                sum / (joined[*at].len().max(1) as f64)
            };
            each.sort_by(|one, other| mean(one).total_cmp(&mean(other)));
            let middle = each.len() as f64 / 2.0;
            each.iter().enumerate().for_each(|(row, at)| places[*at] = row as f64 - middle);
        }
    }
    columns
}

/// Returns the label of a node: its name without packages, or the description of top-level code.
fn label(node: &GraphNode) -> String {
    if node.kind == LispKind::TopLevel { node.name.to_string() } else { short(node.name.as_str()) }
}

/// Returns the text below the name: kind and place.
fn subtitle(node: &GraphNode) -> String {
    let place = node.place.as_ref().map(|place| place.clone().whole_line().to_string());
    place.map_or_else(|| node.kind.to_string(), |place| format!("{} {place}", node.kind))
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(LONGEST_LABEL) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::LispName;

    /// A graph of `count` functions that call the `each` functions before them.
    fn graph(count: usize, each: usize) -> CallGraphAnswer {
        let nodes = (0..count).map(|at| GraphNode {
            name: LispName::of_text(format!("p:f<{at}>")),
            kind: LispKind::Function,
            place: Some(crate::answer::Location {
                line: Some(3),
                ..crate::answer::Location::new("a b.lisp")
            }),
            depth: at.min(50) as u32,
        });
        let edges = (0..count).flat_map(|from| (from.saturating_sub(each)..from).map(move |to| (from, to)));
        CallGraphAnswer {
            root: LispName::of_text("p:f<0>"),
            nodes: nodes.collect(),
            edges: edges.collect(),
            cycles: vec![0],
            truncated: count >= 400,
            ..CallGraphAnswer::default()
        }
    }

    #[test]
    fn large_drawing_is_bounded_and_counts_omissions() {
        for direction in [Direction::Callers, Direction::Callees] {
            let svg = CallGraphAnswer { direction, ..graph(400, 10) }.svg();
            assert!(svg.len() < 100_000, "{}", svg.len());
            assert!(
                svg.contains("Red: closes a cycle. Not drawn: 340 functions or more, 305 calls<"),
                "{svg}"
            );
            assert_eq!(
                (svg.matches("<rect class=\"box").count(), svg.matches("<path class=\"c").count()),
                (60, 241)
            );
            let side = |name: &str| -> usize {
                let rest = svg.split_once(&format!(" {name}=\"")).unwrap().1;
                rest.split('"').next().unwrap().parse().unwrap()
            };
            assert!(side("width") < 32_767 && side("height") < 32_767, "{svg}");
        }
        assert!(graph(400, 10).dot().contains("label=\"Not drawn: 340 functions or more"));
    }

    #[test]
    fn drawing_has_titles_links_and_dark_colours() {
        let svg = graph(3, 1).svg();
        assert!(
            svg.contains("<a href=\"a%20b.lisp#L3\"><g><title>p:f&lt;1&gt; [function] a b.lisp:3</title>"),
            "{svg}"
        );
        assert!(svg.contains("prefers-color-scheme: dark") && !svg.contains("Not drawn"), "{svg}");
    }
}
