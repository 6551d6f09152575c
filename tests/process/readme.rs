//! Compares the examples in README and docs/, and two pictures, with the program's output in a copy
//! of examples/shop. `STEELBANK_BLESS=1` writes the output into the pages and pictures.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::pages;
use crate::program::STEELBANK;
use crate::renames::copy;

#[test]
fn pages_have_the_programs_output() {
    let blesses = std::env::var_os("STEELBANK_BLESS").is_some();
    let mut commands = 0;
    for page in pages::all(root()) {
        let text = fs::read_to_string(&page).unwrap();
        let home = tempfile::tempdir().unwrap();
        let project = copy_of_the_shop(home.path());
        let (now, run) = pages::repeat(&text, |command| printed(command, &project, home.path())).unwrap();
        commands += run;
        let mut made = vec![(page.clone(), now.clone())];
        if page == root().join("README.md") {
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

#[test]
fn guide_lists_all_pages_and_links_resolve() {
    let docs = root().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let listed: Vec<String> = links(&summary).collect();
    for page in pages::all(root()) {
        if let Ok(name) = page.strip_prefix(&docs).map(|name| name.to_str().unwrap())
            && name != "SUMMARY.md"
        {
            // A page must have one place in the book.
            let times = listed.iter().filter(|link| *link == name).count();
            assert_eq!(times, 1, "docs/SUMMARY.md has {name} so often");
        }
        // The generated page has output that may look like a link.
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

/// Lists the links to files in `text` outside of code blocks.
fn links(text: &str) -> impl Iterator<Item = String> {
    let found: Vec<String> = pages::parts(text)
        .1
        .join("\n")
        .split("](")
        .skip(1)
        .filter_map(|rest| Some(rest.split_once(')')?.0.to_owned()))
        .filter(|link| !link.contains("://") && !link.contains(' '))
        .collect();
    found.into_iter()
}

/// Returns the anchor of a heading.
fn slug(heading: &str) -> String {
    let kept = heading.trim_start_matches('#').trim().to_lowercase();
    kept.chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[test]
fn example_project_passes_its_tests() {
    let home = tempfile::tempdir().unwrap();
    let project = copy_of_the_shop(home.path());
    let printed =
        printed("steelbank --system shop/tests run-tests shop/tests; echo $?", &project, home.path());
    assert_eq!(printed.last().unwrap(), "0", "{printed:#?}");
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Copies the example project to an empty folder.
fn copy_of_the_shop(home: &Path) -> PathBuf {
    let project = home.join("shop");
    copy(&root().join("examples/shop"), &project);
    project
}

/// Returns the lines that `command` prints to a pipe.
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
    pages::lines_of(&output.stdout)
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
