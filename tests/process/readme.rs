//! Compares the examples in README and in the pages of docs/, and the pictures of two of them, with the program's
//! output in a copy of examples/shop. `STEELBANK_BLESS=1` writes the output into the pages and the pictures.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::program::STEELBANK;
use crate::renames::copy;

/// The line that stands for any number of lines in an example's output.
const CUT: &str = "…";

#[test]
fn examples_are_what_the_program_prints() {
    let docs = fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let docs = docs.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let blesses = std::env::var_os("STEELBANK_BLESS").is_some();
    let mut commands = 0;
    for page in std::iter::once(root().join("README.md")).chain(docs) {
        let text = fs::read_to_string(&page).unwrap();
        let home = tempfile::tempdir().unwrap();
        let project = copy_of_the_shop(home.path());
        let (now, run) = repeat(&text, &project, home.path());
        commands += run;
        let mut made = vec![(page.clone(), now.clone())];
        if page.ends_with("README.md") {
            let graph =
                fs::read_to_string(project.join("price.svg")).expect("README's example draws price.svg");
            made.push((root().join("docs/session.svg"), draw(&first_example(&now))));
            made.push((root().join("docs/call-graph.svg"), graph));
            let words = text.split_whitespace().count();
            assert!(words <= 1200, "README has {words} words");
        }
        for (file, now) in made {
            if blesses {
                fs::write(&file, &now).unwrap();
            }
            let kept = fs::read_to_string(&file).unwrap();
            assert_eq!(now, kept, "{}: STEELBANK_BLESS=1 writes what the program prints", file.display());
        }
    }
    assert!(commands >= 7, "{commands} examples");
}

/// Runs the commands of the examples in `text`. Returns it with what they print, and how many there are.
fn repeat(text: &str, project: &Path, home: &Path) -> (String, usize) {
    let mut now = String::new();
    let mut lines = text.lines().peekable();
    let mut commands = 0;
    while let Some(line) = lines.next() {
        writeln!(now, "{line}").unwrap();
        if line != "```console" {
            continue;
        }
        while let Some(line) = lines.next_if(|line| *line != "```") {
            let command = line.strip_prefix("$ ").unwrap_or_else(|| panic!("not a command: {line}"));
            commands += 1;
            let mut shown = Vec::new();
            while let Some(line) = lines.next_if(|line| *line != "```" && !line.starts_with("$ ")) {
                shown.push(line);
            }
            let printed = printed(command, project, home);
            writeln!(now, "{line}").unwrap();
            for line in agreed(&shown, &printed) {
                writeln!(now, "{line}").unwrap();
            }
        }
    }
    (now, commands)
}

#[test]
fn the_guide_lists_every_page_and_its_links_lead_somewhere() {
    let docs = root().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let folders = [docs.clone(), docs.join("hosts"), docs.join("editors")];
    let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap());
    let entries = entries.map(|entry| entry.unwrap().path());
    let mut pages: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|kind| kind == "md")).collect();
    for page in &pages {
        let name = page.strip_prefix(&docs).unwrap().to_str().unwrap();
        assert!(
            name == "SUMMARY.md" || summary.contains(&format!("]({name})")),
            "docs/SUMMARY.md does not list {name}"
        );
    }
    pages.push(root().join("README.md"));
    for page in pages {
        // The generated page has what tools print, which may look like a link.
        for link in links(&fs::read_to_string(&page).unwrap()).filter(|_| !page.ends_with("reference.md")) {
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            assert!(target.exists(), "{}: {link} leads nowhere", page.display());
            if !anchor.is_empty() {
                let text = fs::read_to_string(&target).unwrap();
                let found =
                    text.lines().filter(|line| line.starts_with('#')).any(|line| slug(line) == anchor);
                assert!(found, "{}: {link} has no such heading", page.display());
            }
        }
    }
}

/// Lists the links to files in `text`, without those in its blocks of code.
fn links(text: &str) -> impl Iterator<Item = String> {
    let prose = text.split("```").step_by(2).collect::<Vec<_>>().join("");
    let found: Vec<String> = prose
        .split("](")
        .skip(1)
        .filter_map(|rest| Some(rest.split_once(')')?.0.to_owned()))
        .filter(|link| !link.contains("://") && !link.contains(' '))
        .collect();
    found.into_iter()
}

/// Makes the anchor of a heading.
fn slug(heading: &str) -> String {
    let kept = heading.trim_start_matches('#').trim().to_lowercase();
    kept.chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[test]
fn the_shop_passes_its_own_tests() {
    let home = tempfile::tempdir().unwrap();
    let project = copy_of_the_shop(home.path());
    let said =
        printed("steelbank --system shop/tests run-tests shop/tests; echo exit $?", &project, home.path());
    assert!(said.contains(&"exit 0".to_owned()), "{said:#?}");
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Copies the examples' project to a folder where nothing beside it can be taken for part of it.
fn copy_of_the_shop(home: &Path) -> PathBuf {
    let project = home.join("shop");
    copy(&root().join("examples/shop"), &project);
    project
}

/// Returns the lines that `command` prints where standard output is no terminal.
fn printed(command: &str, project: &Path, home: &Path) -> Vec<String> {
    let folder = Path::new(STEELBANK).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let output = Command::new("sh")
        .args(["-c", command])
        .current_dir(project)
        .env("PATH", path)
        .env("HOME", home)
        .env("XDG_CACHE_HOME", home.join("cache"))
        .env_remove("STEELBANK_CACHE")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(|line| line.trim_end().to_owned()).collect()
}

/// Cuts the printed lines where the shown ones are cut, at the same number of lines before and after.
fn agreed(shown: &[&str], printed: &[String]) -> Vec<String> {
    let Some(cut) = shown.iter().position(|line| line.trim() == CUT) else { return printed.to_vec() };
    let (before, after) = (&shown[..cut], &shown[cut + 1..]);
    let from = printed.len().saturating_sub(after.len());
    let mut lines = printed[..before.len().min(from)].to_vec();
    lines.push(shown[cut].to_owned());
    lines.extend_from_slice(&printed[from..]);
    lines
}

/// Returns the lines of the first example in `text`.
fn first_example(text: &str) -> Vec<&str> {
    text.lines().skip_while(|line| *line != "```console").skip(1).take_while(|line| *line != "```").collect()
}

/// Draws the lines as a terminal shows them.
fn draw(lines: &[&str]) -> String {
    const CHARACTER: f32 = 8.43;
    const LINE: usize = 20;
    let columns = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let width = (columns as f32).mul_add(CHARACTER, 40.0).ceil();
    let height = lines.len() * LINE + 56;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-size=\"14\" \
         font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#1d2330\"/>\n"
    );
    for (x, color) in [(20, "#e0655c"), (40, "#dfb13f"), (60, "#57a64a")] {
        writeln!(svg, "<circle cx=\"{x}\" cy=\"18\" r=\"6\" fill=\"{color}\"/>").unwrap();
    }
    for (row, line) in lines.iter().enumerate() {
        let color = match line {
            line if line.starts_with("$ ") => "#8fd18a",
            line if line.starts_with("    ") => "#9aa5b8",
            _ => "#e6e9ef",
        };
        let text = line.replace('&', "&amp;").replace('<', "&lt;");
        let y = 52 + row * LINE;
        writeln!(svg, "<text x=\"20\" y=\"{y}\" fill=\"{color}\" xml:space=\"preserve\">{text}</text>")
            .unwrap();
    }
    svg.push_str("</svg>\n");
    svg
}
