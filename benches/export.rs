//! Measures the export of a loaded project: `cargo bench --bench export [-- FOLDER [SYSTEM]]`.
//! Without FOLDER, the project consists of 119 Debian source packages and renamed copies of nine of
//! them, about 568,000 lines. For comparison, measures reading all files and writing their bytes.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use steelbank::export::scip::{ScipFormat, write_scip};
use steelbank::export::site::write_site;
use steelbank::{Control, Installation, LoadRequest, ProjectSettings, Steelbank};

/// Returns the processor time of this process.
fn processor() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Returns the line `name` of this process's memory status, in MiB.
fn memory(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

fn measured<T>(what: &str, work: impl FnOnce() -> T) -> T {
    // Reset the peak of resident memory.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let (wall, time, before) = (Instant::now(), processor(), memory("VmRSS:"));
    let done = work();
    let time = processor() - time;
    let peak = memory("VmHWM:");
    let more = peak.saturating_sub(before);
    println!(
        "{what}: {time:.1?} of processor time, {:.1?}; {more} MiB more than the {before} MiB before",
        wall.elapsed()
    );
    done
}

/// Returns whether the character can be part of a name.
fn is_constituent(letter: char) -> bool {
    letter.is_alphanumeric() || "-+*%!?<>=_&$".contains(letter)
}

/// Appends `-copy` to each of `names` in the text.
fn renamed(text: &str, names: &BTreeSet<String>) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    let mut rest = text;
    while let Some(start) = rest.find(is_constituent) {
        let (before, from) = rest.split_at(start);
        let (name, after) = from.split_at(from.find(|letter| !is_constituent(letter)).unwrap_or(from.len()));
        out.extend([before, name, if names.contains(&name.to_lowercase()) { "-copy" } else { "" }]);
        rest = after;
    }
    out + rest
}

fn files(folder: &Path, all: &mut Vec<PathBuf>) {
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() { files(&path, all) } else { all.push(path) }
    }
}

/// Copies a library and renames its systems and packages.
fn copy(from: &Path, to: &Path) {
    let mut all = Vec::new();
    files(from, &mut all);
    let mut names = BTreeSet::new();
    for path in &all {
        let text = std::fs::read_to_string(path).unwrap_or_default().to_lowercase();
        for word in ["(defpackage", "(defsystem", "(asdf:defsystem", ":nicknames", "(:nicknames"] {
            for rest in text.split(word).skip(1) {
                let rest = rest.trim_start_matches(|letter: char| !is_constituent(letter) && letter != ')');
                let name: String = rest.chars().take_while(|letter| is_constituent(*letter)).collect();
                names.insert(name);
            }
        }
    }
    for path in all {
        let text = std::fs::read(&path).unwrap();
        let to = to.join(renamed(path.strip_prefix(from).unwrap().to_str().unwrap(), &names));
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        match String::from_utf8(text) {
            Ok(text) => std::fs::write(to, renamed(&text, &names)).unwrap(),
            Err(error) => std::fs::write(to, error.into_bytes()).unwrap(),
        }
    }
}

/// Creates the large project in `folder`.
fn large(folder: &Path) -> PathBuf {
    let project = folder.join("project");
    if !project.is_dir() {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/held-out.sh");
        assert!(Command::new("sh").arg(script).arg(&project).status().unwrap().success());
        for library in [
            "ironclad", "babel", "flexi-streams", "clsql", "clx", "cxml", "stumpwm", "postmodern",
            "lparallel",
        ] {
            let of = |part: &str| project.join(part).join(library);
            let from =
                [of("libraries"), of("others"), of("others/cl-").with_file_name(format!("cl-{library}"))];
            if let Some(from) = from.iter().find(|path| path.is_dir()) {
                copy(from, &project.join("copies").join(library));
            }
        }
    }
    project
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let scratch = tempfile::tempdir().unwrap();
    let folder = arguments.next().map_or_else(|| large(scratch.path()), PathBuf::from);
    let settings = ProjectSettings::in_folder(&folder).cache(scratch.path().join("cache"));
    let bank = Steelbank::builder().installation(Installation::built()).project(settings).start().unwrap();
    let control = Control::new(Duration::from_secs(7200));
    let request = arguments.next().map_or_else(LoadRequest::project, LoadRequest::system);
    let answer = bank.run(&request, &control).unwrap();
    let files: Vec<PathBuf> = bank.loaded_files().into_iter().map(|(path, _)| path).collect();
    let lines = |path: &PathBuf| {
        std::fs::read(path).unwrap_or_default().iter().filter(|byte| **byte == b'\n').count()
    };
    let own = files.iter().filter(|path| path.starts_with(bank.root().unwrap()));
    println!(
        "{:?}: {} lines of the project in {} files",
        answer.status,
        own.map(lines).sum::<usize>(),
        files.len()
    );
    measured("reading and writing the files' bytes", || {
        let mut all = Vec::new();
        files.iter().for_each(|path| all.extend(std::fs::read(path).unwrap_or_default()));
        std::fs::write(scratch.path().join("all"), all).unwrap();
    });
    let index = scratch.path().join("index.scip");
    let summary = measured("scip", || {
        let mut out = std::io::BufWriter::new(std::fs::File::create(&index).unwrap());
        write_scip(&bank, ScipFormat::Protobuf, &[], &mut out, &control).unwrap()
    });
    println!("{summary:?}, {} bytes", std::fs::metadata(&index).unwrap().len());
    let summary = measured("site", || write_site(&bank, &scratch.path().join("site"), &control).unwrap());
    println!("{summary:?}: {:.1} × the source", summary.bytes as f64 / summary.source_bytes as f64);
}
