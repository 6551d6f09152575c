//! Compares find_references with ripgrep and Reflex, in one run:
//!
//!     cargo bench --bench text -- FOLDER...
//!
//! Each folder is copied, because Reflex writes to the tree that it indexes. Without folders, uses
//! the trees of tests/fixtures.sh. Requires `rg`; uses `rfx` (cargo install reflex-search) if it is
//! installed. Figures are medians in milliseconds; compare their ratios. After a change of a file,
//! the figure of steelbank includes a query, and that of Reflex only the index.

// Clippy counts only functions marked #[test] as tests.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use steelbank::actions::text::find_references::{FindReferencesRequest, find_references};
use steelbank_text::{Freshness, IndexControl, TextIndex};

fn main() {
    let mut folders: Vec<_> =
        std::env::args().skip(1).filter(|each| !each.starts_with('-')).map(PathBuf::from).collect();
    if folders.is_empty() {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures.sh");
        let output = Command::new("sh").arg(script).output().unwrap();
        let fixtures = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim_end());
        folders = ["npm", "pypi", "lisp", "crates"].iter().map(|name| fixtures.join(name)).collect();
    }
    if !runs("rfx") {
        eprintln!("rfx is not installed: its column is empty");
    }
    println!("{:<28} {:<22} {:>12} {:>12} {:>12}", "tree", "ms", "steelbank", "ripgrep", "reflex");
    folders.iter().for_each(|folder| bench(folder));
}

fn runs(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

fn median(times: usize, mut work: impl FnMut()) -> Duration {
    let mut all: Vec<_> = (0..times)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed()
        })
        .collect();
    all.sort_unstable();
    all[times / 2]
}

struct Row<'a> {
    tree: &'a str,
}

impl Row<'_> {
    fn print(&self, what: &str, ours: Option<Duration>, ripgrep: Option<Duration>, reflex: Option<Duration>) {
        let shown = |time: Option<Duration>| {
            time.map_or("-".to_owned(), |time| format!("{:.3}", time.as_secs_f64() * 1e3))
        };
        println!(
            "{:<28} {what:<22} {:>12} {:>12} {:>12}",
            self.tree,
            shown(ours),
            shown(ripgrep),
            shown(reflex)
        );
    }
}

fn bench(folder: &Path) {
    let world = tempfile::tempdir().unwrap();
    let (root, cache) = (world.path().join("tree"), world.path().join("cache"));
    let copied = Command::new("cp").arg("-R").arg(folder).arg(&root).status().unwrap();
    assert!(copied.success());
    let reflex = runs("rfx");
    let index = TextIndex::open(&root, &cache, Freshness::Automatic).unwrap();
    let built = index.build(true, &[], &IndexControl::none()).unwrap();
    let name = folder.file_name().unwrap().to_string_lossy().into_owned();
    let tree = format!("{name} ({:.1} MB, {} files)", built.text_bytes as f64 / 1e6, built.indexed);
    let row = Row { tree: &tree };
    let rfx = |arguments: &[&str]| {
        let output = Command::new("rfx").args(arguments).current_dir(&root).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let started = Instant::now();
    if reflex {
        rfx(&["index"]);
    }
    row.print("index build", Some(built.duration), None, reflex.then(|| started.elapsed()));

    for (kind, name) in ["rare", "common"].into_iter().zip(names(&root)) {
        let cold = median(11, || {
            let output = Command::new(env!("CARGO_BIN_EXE_steelbank"))
                .args(["--project"])
                .arg(&root)
                .args(["find-references", "--json", "--limit", "100", "--force", &name])
                .env("STEELBANK_CACHE", &cache)
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        });
        let ripgrep = median(11, || {
            let output = Command::new("rg")
                .args(["--no-config", "-n", "-w", "-F", "-e", &name, "./"])
                .current_dir(&root)
                .output();
            assert!(output.unwrap().status.success());
        });
        let cold_reflex = reflex.then(|| median(11, || rfx(&["query", &name, "--limit", "100"])));
        row.print(&format!("cold, {kind} name"), Some(cold), Some(ripgrep), cold_reflex);

        let warm = TextIndex::open(&root, &cache, Freshness::Automatic).unwrap();
        warm.watch();
        let request = FindReferencesRequest { force: true, ..FindReferencesRequest::new(&name) };
        let ask = || find_references(&warm, &request, None, &IndexControl::none()).unwrap();
        // Warm up: the first calls read the index and start the watcher.
        (0..3).for_each(|_| drop(ask()));
        let ours = median(101, || drop(ask()));
        let served = reflex.then(|| {
            let mut server = Server::start(&root);
            server.ask(&name);
            median(21, || server.ask(&name))
        });
        row.print(&format!("warm, {kind} name"), Some(ours), Some(ripgrep), served);
    }

    let changed = some_file(&root);
    let text = fs::read(&changed).unwrap();
    let mut round = 0;
    let mut touch = || {
        round += 1;
        let mut text = text.clone();
        text.extend_from_slice(format!("\n// round{round}\n").as_bytes());
        fs::write(&changed, text).unwrap();
        format!("round{round}")
    };
    let ours = median(11, || {
        let name = touch();
        let found =
            find_references(&index, &FindReferencesRequest::new(name), None, &IndexControl::none()).unwrap();
        assert_eq!(found.total_references, 1);
    });
    let theirs = reflex.then(|| {
        median(5, || {
            touch();
            rfx(&["index"]);
        })
    });
    row.print("one file changed", Some(ours), None, theirs);

    let share = |bytes: u64| format!("{:.0} %", bytes as f64 * 100.0 / built.text_bytes as f64);
    let theirs = if reflex { share(size(&root.join(".reflex"))) } else { "-".to_owned() };
    println!("{tree:<28} {:<22} {:>12} {:>12} {theirs:>12}", "index / text", share(built.index_bytes), "-");
}

/// Chooses a name that occurs a few times in the tree, and a name that occurs about a hundred times
/// as often.
fn names(root: &Path) -> [String; 2] {
    let output = Command::new("rg")
        .args(["--no-config", "--no-filename", "-o", "-w", "[a-z_]{5,20}"])
        .current_dir(root)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut counts: HashMap<&str, usize> = HashMap::new();
    text.lines().for_each(|word| *counts.entry(word).or_default() += 1);
    let mut counts: Vec<_> = counts.into_iter().map(|(word, count)| (count, word)).collect();
    counts.sort_unstable();
    [8, 800].map(|wanted| {
        let at = counts.partition_point(|&(count, _)| count < wanted).min(counts.len() - 1);
        counts[at].1.to_owned()
    })
}

fn some_file(root: &Path) -> PathBuf {
    let files = Command::new("rg")
        .args(["--no-config", "--files", "--sort=path", "-g", "*.{rs,py,ts,js,lisp}"])
        .current_dir(root)
        .output()
        .unwrap();
    let files = String::from_utf8_lossy(&files.stdout).into_owned();
    let files: Vec<_> = files.lines().collect();
    root.join(files[files.len() / 2])
}

fn size(path: &Path) -> u64 {
    if path.is_dir() {
        return fs::read_dir(path).unwrap().map(|entry| size(&entry.unwrap().path())).sum();
    }
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}

/// The MCP server of Reflex.
struct Server {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Server {
    fn start(root: &Path) -> Server {
        let mut process = Command::new("rfx")
            .arg("mcp")
            .current_dir(root)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (input, output) = (process.stdin.take().unwrap(), BufReader::new(process.stdout.take().unwrap()));
        let mut server = Server { process, input, output };
        server.request(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#);
        server
    }

    fn request(&mut self, request: &str) -> String {
        writeln!(self.input, "{request}").unwrap();
        self.input.flush().unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }

    fn ask(&mut self, name: &str) {
        let answer = self.request(&format!(
            r#"{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{"name":"find_references","arguments":{{"pattern":"{name}","force":true}}}}}}"#
        ));
        assert!(answer.contains("\"result\""), "{answer}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Ignore errors, because the process may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
