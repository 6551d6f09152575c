//! Test data as text: a project in one file, a Git repository, and expected texts in files in the
//! folders of the tests.
//!
//! `STEELBANK_BLESS=1` writes expected texts instead of comparing them. Read the diff before you
//! commit it.
#![allow(dead_code)]

use std::fmt::Write;
use std::fs;
use std::panic::Location;
use std::path::Path;
use std::process::Command;
use std::sync::{LazyLock, Mutex, PoisonError};

use regex::{Captures, Regex};

/// Compares `text` with the file `path` in tests/.
#[track_caller]
pub(crate) fn expect(path: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(path);
    if is_blessed() {
        fs::write(&path, text).unwrap();
    }
    compare(&path.display(), &fs::read_to_string(&path).unwrap_or_default(), text);
}

/// Compares `text` with the section `name` of the table beside the test's file: `cli.txt` for
/// `cli.rs`. A line `== NAME` begins a section. [`in_general`] is applied to `text` first. Space at
/// ends of lines does not count.
#[track_caller]
pub(crate) fn expect_text(name: &str, text: &str) {
    // Serialize the tests of one process, which may bless sections of one table.
    static TABLES: Mutex<()> = Mutex::new(());
    let _guard = TABLES.lock().unwrap_or_else(PoisonError::into_inner);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(Location::caller().file()).with_extension("txt");
    let general = in_general(text, &[]).lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
    let text = general.trim();
    let table = format!("\n{}", fs::read_to_string(&path).unwrap_or_default());
    let sections =
        table.split("\n== ").skip(1).map(|section| section.split_once('\n').unwrap_or((section, "")));
    let mut sections: Vec<(&str, &str)> = sections.map(|(name, text)| (name, text.trim())).collect();
    let at = sections.iter().position(|(other, _)| *other == name).unwrap_or_else(|| {
        sections.push((name, ""));
        sections.len() - 1
    });
    if is_blessed() && sections[at].1 != text {
        sections[at].1 = text;
        let table = sections.iter().fold(String::new(), |mut table, (name, text)| {
            write!(table, "== {name}\n{text}\n\n").unwrap();
            table
        });
        fs::write(&path, format!("{}\n", table.trim_end())).unwrap();
    }
    compare(&format!("{}, {name}", path.display()), sections[at].1, text);
}

fn is_blessed() -> bool {
    std::env::var_os("STEELBANK_BLESS").is_some()
}

/// Compares two texts. If they differ, panics with the lines around the first difference.
#[track_caller]
fn compare(place: &dyn std::fmt::Display, expected: &str, found: &str) {
    let lines = expected.lines().zip(found.lines());
    let same = lines.take_while(|(expected, found)| expected == found).count();
    let from = |text: &str| text.lines().skip(same.saturating_sub(3)).take(12).collect::<Vec<_>>().join("\n");
    assert!(
        expected == found,
        "{place} differs in line {}. Expected:\n{}\nfound:\n{}\nSTEELBANK_BLESS=1 writes the text that was found",
        same + 1,
        from(expected),
        from(found),
    );
}

/// Replaces parts of `text` that differ between runs and machines: `folders` by their names,
/// temporary folders, times, addresses, process ids, ports, versions, builds, numbers of generated
/// names, and backtraces.
pub(crate) fn in_general(text: &str, folders: &[(&Path, &str)]) -> String {
    static DIFFERS: LazyLock<Regex> = LazyLock::new(|| {
        let kinds = [
            r#"(?<temporary>(/[^\s"'`()]*/)?steelbank-[a-z-]+-[0-9]+-[0-9]+\b)"#,
            r"\b[0-9.]+(?<unit> m?s)\b",
            r"\{[0-9A-F]{10}\}",
            r"(?<before>#:[a-z]+|\bprocess |\bSBCL |127\.0\.0\.1:|\bport )[0-9][0-9.]*[0-9]?",
            r"(?<frames> {6}Backtrace:)\n( {8}.*\n)+",
            r"(?<list>:DIRECTORY )\([^)]*\)",
            r"\b[a-z-]*[0-9]{4}-[0-9]{2}-[0-9]{2}[-T ][0-9:.-]+Z?",
        ];
        Regex::new(&kinds.join("|")).unwrap()
    });
    let text = folders.iter().fold(text.to_owned(), |text, (folder, name)| {
        let text = text.replace(folder.to_str().unwrap(), name);
        text.replace(folder.file_name().unwrap().to_str().unwrap(), name)
    });
    let text = text.replace(env!("CARGO_MANIFEST_DIR"), "{steelbank}");
    let text = text.replace(concat!("steelbank ", env!("CARGO_PKG_VERSION")), "steelbank {version}");
    let general = DIFFERS.replace_all(&text, |found: &Captures<'_>| {
        let part = |name| found.name(name).map(|part| part.as_str());
        match (part("unit"), part("before").or(part("list")), part("frames")) {
            (Some(unit), ..) => format!("…{unit}"),
            (_, Some(before), _) => format!("{before}…"),
            (.., Some(frames)) => format!("{frames} …\n"),
            _ if found.name("temporary").is_some() => "{folder}".to_owned(),
            _ => "{…}".to_owned(),
        }
    });
    general.into_owned()
}

/// Writes the files of `text` below `root`: a line `//- PATH` begins a file. Each file ends in one
/// newline.
pub(crate) fn write_project(root: &Path, text: &str) {
    for file in format!("\n{text}").split("\n//- ").skip(1) {
        let (path, text) = file.split_once('\n').unwrap_or((file, ""));
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{}\n", text.trim_end_matches('\n'))).unwrap();
    }
}

/// Runs Git in `folder`, independent of the user's configuration.
#[track_caller]
pub(crate) fn git(folder: &Path, arguments: &[&str]) {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(["-c", "user.name=t", "-c", "user.email=t@t"]);
    command.args(["-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always"]).args(arguments);
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    let output = command.output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {output:?}");
}
