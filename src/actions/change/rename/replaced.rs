//! Replaces the names of a rename in texts, so that a load before the rename can be compared with a
//! load after it.

use std::collections::BTreeMap;

use steelbank_reader::{Dialect, Features, LispText};

use super::name_components;
use super::plan::{RenameEdit, RenamePlan};
use super::verify::{ComparedDiagnostic, Tested};
use crate::actions::run::run_tests::{AssertionStatus, TestResult};

/// The old and new names of a rename.
pub(super) struct Renamed {
    /// Old symbols as printed, without bars, and their new names.
    symbols: BTreeMap<String, String>,
    old: String,
    new: String,
}

impl Renamed {
    /// Returns no names, for edits that rename nothing.
    pub(super) fn none() -> Self {
        Self { symbols: BTreeMap::new(), old: String::new(), new: String::new() }
    }

    pub(super) fn new(plan: &RenamePlan) -> Self {
        let mut symbols = BTreeMap::new();
        let mut add = |symbol: &str, new: &str| {
            let (package, _) = split_symbol(symbol);
            symbols.insert(plain(symbol), format!("{package}{new}"));
        };
        add(plan.symbol.canonical(), &plan.new_name);
        for derived in plan.derived.iter().filter(|derived| derived.renamed) {
            add(derived.name.canonical(), &derived.new_name);
        }
        let symbol = plain(plan.symbol.canonical());
        let (_, old) = split_symbol(&symbol);
        Self { symbols, old: old.to_owned(), new: plan.new_name.clone() }
    }

    /// Returns the old name, without its package.
    pub(super) fn old(&self) -> &str {
        &self.old
    }

    /// Returns whether a printed symbol is an old or new name of the rename.
    pub(super) fn is_own(&self, symbol: &str) -> bool {
        self.symbols.iter().any(|(old, new)| old == symbol || new == symbol)
    }

    /// Returns whether `written`, the old text of an edit, reads as an old name of the rename.
    pub(super) fn has(&self, written: &str) -> bool {
        let read = LispText::read(written.as_bytes(), Dialect::CommonLisp, &Features::sbcl());
        self.symbols.keys().any(|symbol| {
            let (_, name) = split_symbol(symbol);
            // A string contains the name without bars.
            written.replace('\\', "") == name
                || matches!(read.tokens(), [token] if token.is_named(written.as_bytes(), name))
        })
    }

    /// Returns whether an edit is right although it does not replace the name: it changes the slot
    /// at the end of the name, or adds a structure option with the new name.
    pub(super) fn is_part(&self, edit: &RenameEdit) -> bool {
        let plain = |text: &str| plain(text.trim_start_matches(':')).to_uppercase();
        let (old, new) = (plain(&edit.old), plain(&edit.new));
        let prefix = |name: &str, part: &str| name.to_uppercase().strip_suffix(part).map(str::to_owned);
        let slot = prefix(&self.old, &old).filter(|prefix| !prefix.is_empty());
        let option = new.contains("(:") && new.contains(&old) && new.contains(&self.new.to_uppercase());
        option || (slot.is_some() && slot == prefix(&self.new, &new))
    }

    /// Converts `text`, a printed name in the old program, to the name expected in the new program.
    pub(super) fn replaced_text(&self, text: &str) -> String {
        tokens(text, |token| self.symbols.get(token).cloned())
    }

    /// Returns the name that a macro may generate from the new name where it generated the printed
    /// name `text` from the old name. Returns `None` if `text` does not contain the old name.
    pub(super) fn generated(&self, text: &str) -> Option<String> {
        let new = tokens(text, |token| {
            let (package, name) = split_symbol(token);
            (!self.symbols.values().any(|symbols| symbols == token))
                .then(|| format!("{package}{}", name_components::replaced(name, &self.old, &self.new)))
        });
        (new != text).then_some(new)
    }

    /// Returns `text` with the same placeholder for the old and the new name, also inside longer
    /// names. Removes the addresses of objects, and replaces each run of white space by one space.
    pub(super) fn neutral_text(&self, text: &str) -> String {
        let mut names = [&self.old, &self.new];
        names.sort_by_key(|name| std::cmp::Reverse(name.len()));
        let names = names.iter().filter(|name| !name.is_empty());
        let neutral = tokens(text, |token| {
            let (package, name) = split_symbol(token);
            let upper = name.to_uppercase();
            names
                .clone()
                .map(|part| name_components::replaced(&upper, &part.to_uppercase(), "·"))
                .find(|replaced| *replaced != upper)
                .map(|replaced| format!("{package}{replaced}"))
        });
        without_addresses(&neutral.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    pub(super) fn diagnostic(&self, said: &ComparedDiagnostic) -> String {
        said.text(&self.neutral_text(&said.message))
    }

    /// Lists the differences between two test runs of a system.
    pub(super) fn tests(&self, before: &Tested, after: &Tested) -> Vec<String> {
        let mut found = Vec::new();
        if before.not_loaded.is_some() != after.not_loaded.is_some() {
            let why = before.not_loaded.as_ref().or(after.not_loaded.as_ref());
            found.extend(why.map(|why| format!("Cannot test both versions of {}: {why}", before.system)));
        }
        let mut left: Vec<&TestResult> = after.tests.iter().collect();
        for test in &before.tests {
            let name = self.neutral_text(test.name.as_str());
            match left.iter().position(|other| self.neutral_text(other.name.as_str()) == name) {
                Some(at) => found.extend(self.test(test, left.swap_remove(at))),
                None => found.push(format!("The test {} no longer exists.", test.name)),
            }
        }
        found.extend(left.into_iter().map(|test| format!("The test {} is new.", test.name)));
        found
    }

    /// Describes how the result of a test differs, if it does.
    fn test(&self, before: &TestResult, after: &TestResult) -> Option<String> {
        // Ignore words with digits: times and counts of random checks differ between runs.
        let words = |text: &str| -> Vec<String> {
            let text = self.neutral_text(text);
            let words = text.split(' ').filter(|word| !word.contains(|char: char| char.is_ascii_digit()));
            words.map(str::to_owned).collect()
        };
        let report = |test: &TestResult| test.failure.as_ref().map(|failure| failure.report.clone());
        let same_report = report(before).as_deref().map(words) == report(after).as_deref().map(words);
        if before.status != after.status || !same_report {
            let end = |test: &TestResult| match report(test) {
                Some(why) => format!("{} ({why})", test.status),
                None => test.status.to_string(),
            };
            return Some(format!(
                "{}: {} before the edit, {} after it.",
                before.name,
                end(before),
                end(after)
            ));
        }
        let failed = |test: &TestResult| -> Vec<(AssertionStatus, Vec<String>)> {
            let assertions = test.assertions.iter();
            let told = assertions.map(|assertion| {
                let form = assertion.form.as_deref().or(assertion.message.as_deref()).unwrap_or_default();
                (assertion.status, words(form))
            });
            told.collect()
        };
        if failed(before) != failed(after) {
            return Some(format!("Different assertions of {} fail after the edit.", before.name));
        }
        if !before.is_operation() {
            return None;
        }
        // Compare the output of a test-op, because no framework reports its assertions.
        let (first, second) = (words(&before.output), words(&after.output));
        let at = first.iter().zip(&second).take_while(|(first, second)| first == second).count();
        (first != second).then(|| {
            let part = |words: &[String]| words[at..(at + 12).min(words.len())].join(" ");
            format!(
                "The {} printed \u{201c}{}\u{201d} before the edit, and \u{201c}{}\u{201d} after it.",
                before.name,
                part(&first),
                part(&second)
            )
        })
    }
}

/// Splits a printed symbol into its package with the colons, and its name.
pub(super) fn split_symbol(symbol: &str) -> (&str, &str) {
    match symbol.rfind(':') {
        Some(at) if at + 1 < symbol.len() => symbol.split_at(at + 1),
        _ => ("", symbol),
    }
}

/// Removes bars and escapes from a printed symbol.
fn plain(symbol: &str) -> String {
    symbol.replace(['|', '\\'], "")
}

/// Removes the bars from a printed name, and the numbers from generated symbols.
pub(super) fn plain_text(text: &str) -> String {
    tokens(text, |_| None)
}

/// Replaces each token of `text`, without its bars, by the result of `replace`, if any. Uninterned
/// symbols lose the number at their end.
fn tokens(text: &str, replace: impl Fn(&str) -> Option<String>) -> String {
    let mut made = String::with_capacity(text.len());
    let mut token = String::new();
    let mut barred = false;
    let finish = |token: &mut String, made: &mut String| {
        if token.is_empty() {
            return;
        }
        match replace(token) {
            Some(new) => made.push_str(&new),
            None if token.starts_with("#:") => {
                made.push_str(token.trim_end_matches(|char: char| char.is_ascii_digit()));
            }
            None => made.push_str(token),
        }
        token.clear();
    };
    for char in text.chars() {
        match char {
            '|' => barred = !barred,
            '\\' => {}
            _ if !barred && (char.is_whitespace() || "()'\"`,;".contains(char)) => {
                finish(&mut token, &mut made);
                made.push(char);
            }
            _ => token.push(char),
        }
    }
    finish(&mut token, &mut made);
    made
}

/// Removes the addresses of unreadable objects from `text`, as in `#<FD-STREAM {1001B08B93}>`: they
/// differ in each image.
fn without_addresses(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        plain.push_str(before);
        plain.push('{');
        let digits = after.bytes().take_while(u8::is_ascii_hexdigit).count();
        rest = if digits >= 6 && after[digits..].starts_with("}>") { &after[digits..] } else { after };
    }
    plain + rest
}
