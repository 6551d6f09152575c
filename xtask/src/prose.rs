//! `cargo xtask prose`: counts the patterns that CONTRIBUTING.md's writing rules avoid.
//!
//! Each kind of text (comments, pages, messages) has a ceiling in hits per 1,000 words. Comments
//! that begin with a question word, long lines, long test names and long commit subjects are
//! counted individually. The figures point to text that a newcomer reads twice; they do not prove
//! that the rest is plain.

use regex::Regex;

use crate::ceilings::{self, git};
use crate::sources::{Language, Source, sources};
use crate::{Outcome, Passed};

/// The patterns to count, each with its name. A hit of the first pattern does not count inside a
/// question.
const PATTERNS: [(&str, &str); 4] = [
    (
        "what/who … is",
        r"(?:^|[.;:(] )(?:What|Who|Whoever|Whatever|That)\b[^.?]{3,60}\b(?:is|are|has|does|can|may|ends|says|tells)\b",
    ),
    ("told", r"\b(?:told|tells? of|is said|says so|tells? how)\b"),
    ("none if", r"(?:^|; |\. )[Nn]one (?:if|where|for|of|while|without|when|once)\b"),
    ("whose/of which", r"\bfor who\b|\bof who\b|\bwhose\b|\bin which\b|\bof which\b"),
];

/// The maximum length of a comment line, in columns. Longer lines are counted.
const COLUMNS: usize = 100;
/// The maximum length of a test name, in words. Longer names are counted.
const TEST_WORDS: usize = 8;
/// The maximum length of a commit subject, in characters. Longer subjects are counted.
const SUBJECT: usize = 72;

/// The last commit before these rules were introduced.
const BASE: &str = "ec22d9d9a882";

/// Counts of one kind of text.
#[derive(Default)]
struct Count {
    words: usize,
    hits: Vec<(String, &'static str)>,
}

impl Count {
    fn add(&mut self, patterns: &[(&'static str, Regex)], place: &str, text: &str) {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        self.words += text.split(' ').filter(|word| !word.is_empty()).count();
        for (name, pattern) in patterns {
            for found in pattern.find_iter(&text) {
                let sentence = text[found.end()..].split('.').next().unwrap_or_default();
                if *name != PATTERNS[0].0 || !sentence.contains('?') {
                    self.hits.push((format!("{place}: {}", found.as_str()), name));
                }
            }
        }
    }

    fn rate(&self) -> f64 {
        1000.0 * self.hits.len() as f64 / self.words.max(1) as f64
    }
}

/// Prints the counts and their ceilings, and fails if a count exceeds its ceiling. With `lists`,
/// also prints each hit.
pub(crate) fn prose(lists: bool) -> Outcome {
    let ceilings = ceilings::read()?;
    let sources = sources()?;
    let mut patterns = Vec::new();
    for (name, pattern) in PATTERNS {
        patterns.push((name, Regex::new(pattern).map_err(|error| error.to_string())?));
    }
    let mut above = Vec::new();
    println!("{:44} {:>7} {:>6} {:>8} {:>8}", "", "words", "hits", "figure", "ceiling");
    for (name, ceiling) in &ceilings {
        let (figure, words, hits) = match name.split_once(' ').unwrap_or((name, "")) {
            ("product-lines", _) => continue,
            (kind @ ("comments" | "messages" | "pages"), room) => {
                let rooms: Vec<&str> =
                    ceilings.keys().filter_map(|name| Some(name.split_once(' ')?.1)).collect();
                let count = count(kind, room, &rooms, &sources, &patterns);
                (count.rate(), count.words, count.hits.into_iter().map(|(place, _)| place).collect())
            }
            ("question-words", room) => listed(question_words(&sources, room)),
            ("long-comment-lines", _) => listed(long_lines(&sources)),
            ("long-test-names", _) => listed(long_test_names(&sources)),
            ("long-subjects", _) => listed(long_subjects()),
            _ => return Err(format!("xtask/ceilings.txt: unknown figure {name}")),
        };
        println!("{name:44} {words:>7} {:>6} {figure:>8.1} {ceiling:>8.1}", hits.len());
        if lists || figure > *ceiling {
            hits.iter().take(if lists { usize::MAX } else { 10 }).for_each(|hit| println!("    {hit}"));
        }
        if figure > *ceiling {
            above.push(format!("{name}: {figure:.1}, ceiling {ceiling:.1}"));
        }
    }
    match above.is_empty() {
        true => Ok(Passed::Whole),
        false => Err(format!("prose above its ceiling: {}", above.join("; "))),
    }
}

fn listed(hits: Vec<String>) -> (f64, usize, Vec<String>) {
    (hits.len() as f64, 0, hits)
}

/// Counts the patterns in one kind of text: in `room`, or if that is empty, everywhere except in
/// `rooms`, which have separate ceilings.
fn count(
    kind: &str,
    room: &str,
    rooms: &[&str],
    sources: &[Source],
    patterns: &[(&'static str, Regex)],
) -> Count {
    let mut count = Count::default();
    for source in sources {
        let is_page = source.language == Language::Markdown;
        let is_here = match room {
            "" => !rooms.iter().any(|room| source.path.starts_with(room)),
            _ => source.path.starts_with(room),
        };
        // The reference is generated from descriptions, which count as comments and messages.
        if !is_here || is_page != (kind == "pages") || source.path == "docs/reference.md" {
            continue;
        }
        if kind == "messages" && !source.is_product() {
            continue;
        }
        for piece in source.pieces() {
            if piece.is_comment == (kind != "messages") {
                count.add(patterns, &format!("{}:{}", source.path, piece.line), &piece.text);
            }
        }
    }
    count
}

/// Lists comments, except questions, that begin with What, Who, Of or None: the reader of such a
/// comment must wait for the verb.
fn question_words(sources: &[Source], room: &str) -> Vec<String> {
    let mut hits = Vec::new();
    for source in sources.iter().filter(|source| source.language != Language::Markdown) {
        for piece in source.pieces().into_iter().filter(|piece| piece.is_comment) {
            let first = piece.text.split_whitespace().next().unwrap_or_default();
            let is_question = piece.text.split('.').next().unwrap_or_default().contains('?');
            if source.path.starts_with(room) && ["What", "Who", "Of", "None"].contains(&first) && !is_question
            {
                let start: String = piece.text.chars().take(60).collect();
                hits.push(format!("{}:{}: {start}", source.path, piece.line));
            }
        }
    }
    hits
}

/// Lists the comment lines (`//`) of Rust and C and the lines of Lisp that are longer than
/// `COLUMNS`, except in `tests/`. A line with one long word, such as an address, does not count.
fn long_lines(sources: &[Source]) -> Vec<String> {
    let mut hits = Vec::new();
    for source in sources.iter().filter(|source| !source.path.starts_with("tests/")) {
        for (number, line) in source.text.lines().enumerate() {
            let text = line.trim_start();
            let counts = match source.language {
                Language::Rust | Language::C => text.starts_with("//"),
                Language::Lisp => true,
                Language::Markdown => false,
            };
            let longest = text.split(' ').map(|word| word.chars().count()).max().unwrap_or(0);
            if counts && line.chars().count() > COLUMNS && longest < COLUMNS / 2 {
                hits.push(format!("{}:{}", source.path, number + 1));
            }
        }
    }
    hits
}

fn long_test_names(sources: &[Source]) -> Vec<String> {
    let rust = sources.iter().filter(|source| source.language == Language::Rust);
    let names = rust.flat_map(|source| {
        source
            .test_names()
            .into_iter()
            .map(|name| (name.split('_').count(), format!("{}: {name}", source.path)))
    });
    names.filter(|(words, _)| *words > TEST_WORDS).map(|(_, name)| name).collect()
}

/// Lists the subjects of commits since `BASE` that are too long, except those of merges. In a clone
/// without that commit, the list is empty.
fn long_subjects() -> Vec<String> {
    let range = format!("{BASE}..HEAD");
    let subjects = git(&["log", "--no-merges", "--format=%s", &range]).unwrap_or_default();
    let long = subjects.lines().filter(|subject| subject.chars().count() > SUBJECT);
    long.map(str::to_owned).collect()
}

/// Counts the product's lines, and fails if there are more than `product-lines`.
pub(crate) fn size() -> Outcome {
    let ceilings = ceilings::read()?;
    let limit = *ceilings.get("product-lines").ok_or("xtask/ceilings.txt has no product-lines")? as usize;
    let lines: usize = sources()?.iter().filter(|source| source.is_product()).map(Source::code_lines).sum();
    let (lines_text, limit_text) = (ceilings::thousands(lines), ceilings::thousands(limit));
    println!("{lines_text} product lines; at most {limit_text}");
    match lines <= limit {
        true => Ok(Passed::Whole),
        false => Err(format!(
            "the product has {lines_text} lines, but xtask/ceilings.txt allows {limit_text}; remove unused \
             code, or raise the figure with a bullet in CHANGELOG.md that names the reason"
        )),
    }
}
