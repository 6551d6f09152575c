//! Compares the lines of find_references and ripgrep on trees from package registries. A language's
//! rule for identifiers must explain each difference.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fixtures::{fixtures, rg};
use steelbank::actions::text::find_references::{FindReferencesRequest, find_references};
use steelbank_text::{Freshness, Globs, IndexControl, Language, Pattern, Rule, TextIndex, TextSearch};

type Lines = BTreeSet<(String, u64)>;

/// Runs `rg`. Returns paths and line numbers, with the lines.
fn ripgrep(root: &Path, flags: &[&str], pattern: &str) -> BTreeMap<(String, u64), String> {
    let output = Command::new(rg())
        .args([
            "--no-config", "--no-require-git", "--null", "--line-number", "--no-heading", "--with-filename",
            "--color=never",
        ])
        .args(["--fixed-strings", "--max-filesize", "16M", "--encoding=none"])
        .args(flags)
        .args(["-e", pattern, "./"])
        .current_dir(root)
        .output()
        .expect("ripgrep must be installed to compare with it");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut found = BTreeMap::new();
    for line in output.stdout.split(|&byte| byte == b'\n') {
        let text = String::from_utf8_lossy(line);
        let Some((path, rest)) = text.split_once('\0') else { continue };
        let (number, line) = rest.split_once(':').unwrap();
        let path = path.strip_prefix("./").unwrap().to_owned();
        found.insert((path, number.parse().unwrap()), line.to_owned());
    }
    found
}

fn ours(index: &TextIndex, pattern: &str) -> Lines {
    let mut lines = Lines::new();
    let mut request =
        FindReferencesRequest { force: true, limit: 10_000, ..FindReferencesRequest::new(pattern) };
    loop {
        let page = find_references(index, &request, None, &IndexControl::none()).unwrap();
        lines.extend(
            page.references.into_iter().map(|each| (each.place.file, u64::from(each.place.line.unwrap()))),
        );
        request.offset += page.pagination.count;
        if !page.pagination.has_more {
            return lines;
        }
    }
}

/// Returns whether, by the language's rule, every occurrence of `name` in `line` is only a part of
/// an identifier.
fn explained(language: Language, line: &str, name: &str) -> bool {
    let word = |each: char| each.is_alphanumeric() || each == '_';
    let mut from = 0;
    while let Some(found) = line[from..].find(name) {
        let (start, end) = (from + found, from + found + name.len());
        from = start + line[start..].chars().next().unwrap().len_utf8();
        let before = line[..start].chars().next_back();
        let mut after = line[end..].chars().next();
        let joined = match language.rule() {
            Rule::Dollar => [before, after].into_iter().flatten().any(|each| word(each) || each == '$'),
            Rule::Ruby => [before, after].into_iter().flatten().any(word) || matches!(after, Some('?' | '!')),
            Rule::Lisp(_) => {
                // Blanks, parentheses, quotes and commas end a symbol. A colon ends a package
                // prefix.
                let stops = |each: char| {
                    each.is_whitespace()
                        || "()'\"`,;|\\[]{}".contains(each)
                        || (!word(each) && !each.is_ascii())
                };
                let goes_on = |each: Option<char>| each.is_some_and(|each| !stops(each) && each != ':');
                // In prose, a full stop after a name is not part of it.
                let stopped = line[end..].trim_start_matches('.');
                if stopped.chars().next().is_none_or(stops) {
                    after = stopped.chars().next();
                }
                // A symbol may follow these prefixes.
                let starts =
                    ["#.", "#+", "#-", ",@", ",."].iter().any(|prefix| line[..start].ends_with(prefix));
                (goes_on(before) && !starts) || goes_on(after) || before == Some('|') || before == Some('\\')
            }
            _ => [before, after].into_iter().flatten().any(word),
        };
        if !joined {
            return false;
        }
    }
    true
}

/// Compares identifiers and other texts in one tree. Prints how many lines agree and how many are
/// explained.
fn compare(tree: &str, texts: &[&str]) {
    let root = fixtures().join(tree);
    let cache = tempfile::tempdir().unwrap();
    let index = TextIndex::open(&root, cache.path(), Freshness::Automatic).unwrap();
    let names = names_in(&root);
    assert!(names.len() >= 40, "{tree} has only {} names", names.len());
    let language = |path: &str| {
        let path = root.join(path);
        Language::of(&path, &std::fs::read(&path).unwrap())
    };
    let (mut same, mut by_rule, mut common) = (0, 0, 0);
    for name in &names {
        let theirs = ripgrep(&root, &["--word-regexp"], name);
        // A few very common names are enough.
        common += usize::from(theirs.len() > 500);
        if theirs.len() > 500 && common > 5 {
            continue;
        }
        let ours = ours(&index, name);
        for (place, line) in &theirs {
            if ours.contains(place) {
                same += 1;
            } else {
                let language = language(&place.0);
                assert!(explained(language, line, name), "{tree}: rg -w finds {name} in {place:?}: {line}");
                by_rule += 1;
            }
        }
        let more: Vec<_> = ours.iter().filter(|place| !theirs.contains_key(*place)).collect();
        let folded = if more.is_empty() { BTreeMap::new() } else { ripgrep(&root, &["--ignore-case"], name) };
        for place in more {
            // ripgrep finds no word boundary next to bytes that are not UTF-8.
            if std::str::from_utf8(&std::fs::read(root.join(&place.0)).unwrap()).is_err() {
                by_rule += 1;
                continue;
            }
            // Only Common Lisp ignores case.
            assert_eq!(language(&place.0).name(), "commonlisp", "{tree}: only we find {name} in {place:?}");
            assert!(folded.contains_key(place), "{tree}: only we find {name} in {place:?}");
            by_rule += 1;
        }
    }
    assert!(same > 20 * by_rule.min(50), "{tree}: {same} lines agree, {by_rule} are explained by a rule");
    for text in texts {
        let theirs: Lines = ripgrep(&root, &[], text).into_keys().collect();
        assert!(!theirs.is_empty(), "{tree} has no {text:?}");
        assert_eq!(ours(&index, text), theirs, "{tree}: {text:?}");
    }
    println!(
        "{tree}: {} names, {same} lines agree with rg -w, {by_rule} are explained; {} texts agree",
        names.len(),
        texts.len()
    );
}

/// Picks names of all frequencies: three words from each of some 25 files.
fn names_in(root: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let files = Command::new(rg())
        .args(["--no-config", "--no-require-git", "--files", "--sort=path"])
        .current_dir(root)
        .output()
        .unwrap();
    let files = String::from_utf8(files.stdout).unwrap();
    let files: Vec<_> = files.lines().collect();
    for file in files.iter().step_by((files.len() / 25).max(1)) {
        let text = String::from_utf8_lossy(&std::fs::read(root.join(file)).unwrap()).into_owned();
        let words = text.split(|each: char| !each.is_alphanumeric() && each != '_');
        // Words longer than 200 bytes are not indexed, and are found without word boundaries.
        let words: Vec<_> = words
            .filter(|word| {
                (3..=200).contains(&word.len()) && !word.starts_with(|each: char| each.is_numeric())
            })
            .collect();
        for word in [words.len() / 3, words.len() * 2 / 3, words.len().saturating_sub(1)] {
            names.extend(words.get(word).map(|word| (*word).to_owned()));
        }
    }
    names
}

#[test]
fn rust_and_c_crates_agree_with_ripgrep() {
    compare("crates", &["fn main() {", "&mut self)", "-> Result<", "#include <", "// SAFETY"]);
}

#[test]
fn javascript_and_typescript_packages_agree_with_ripgrep() {
    compare("npm", &["export function ", "=> {", "module.exports = ", "import { ", " | null"]);
}

#[test]
fn python_packages_agree_with_ripgrep() {
    compare("pypi", &["def __init__(self", "  return self.", ":param ", "f\"{", "# type: ignore"]);
}

#[test]
fn common_lisp_libraries_agree_with_ripgrep() {
    compare("lisp", &["(defun (setf ", "#+sbcl (", "&key (", "; FIXME", ",@body)"]);
}

/// Lisp names with punctuation: `rg` finds texts, and find_references symbols.
#[test]
fn common_lisp_names_agree_with_ripgrep() {
    let root = fixtures().join("lisp");
    let cache = tempfile::tempdir().unwrap();
    let index = TextIndex::open(&root, cache.path(), Freshness::Automatic).unwrap();
    let mut agreed = 0;
    for name in [
        "if-let", "*standard-optimize-settings*", "with-gensyms", "+default-element-type+",
        "hash-table-alist", "string-starts-with-p",
    ] {
        let theirs = ripgrep(&root, &["--ignore-case"], name);
        let ours = ours(&index, name);
        for (place, line) in &theirs {
            let language = Language::of(Path::new(&place.0), b"");
            let lower = line.to_lowercase();
            let symbol = !explained(language, &lower, name);
            let text = language.dialect().is_none() && line.contains(name);
            assert_eq!(ours.contains(place), symbol || text, "{name} in {place:?}: {line}");
            agreed += usize::from(ours.contains(place));
        }
        assert!(ours.iter().all(|place| theirs.contains_key(place)), "{name}");
    }
    assert!(agreed > 50, "{agreed}");
}

#[test]
fn columns_are_those_of_the_name() {
    let root = fixtures().join("npm");
    let cache = tempfile::tempdir().unwrap();
    let index = TextIndex::open(&root, cache.path(), Freshness::Automatic).unwrap();
    let mut texts: BTreeMap<PathBuf, Vec<String>> = BTreeMap::new();
    for name in names_in(&root) {
        let search = TextSearch {
            pattern: Pattern::new(&name).unwrap(),
            kind: None,
            language: None,
            globs: Globs::new(&[], &[]).unwrap(),
            offset: 0,
            limit: 200,
            bound: u64::MAX,
        };
        for found in index.search(&search, &IndexControl::none()).unwrap().references {
            let lines = texts.entry(found.path.clone()).or_insert_with(|| {
                let text = std::fs::read(root.join(&found.path)).unwrap();
                String::from_utf8_lossy(&text).split('\n').map(str::to_owned).collect()
            });
            let line = &lines[found.place.line as usize - 1];
            let at: String = line.chars().skip(found.place.column as usize - 1).collect();
            assert!(
                at.starts_with(&name),
                "{name}: {}:{}:{}: {line}",
                found.path.display(),
                found.place.line,
                found.place.column
            );
        }
    }
}
