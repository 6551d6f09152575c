//! Renames random names of libraries with verification, for a test and a bench. An applied rename
//! preserves the program, and a wrong plan is detected.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use steelbank::Control;
use steelbank::Steelbank;
use steelbank::actions::change::rename::{RenameEdit, RenamePlan, RenameRequest, Verified};
use steelbank_reader::{Dialect, Features, LispText};

use super::names;
use steelbank::{RenameApplyRequest, RenameVerifyRequest, UndoRequest};

const LONG: Duration = Duration::from_secs(600);

/// A generator of pseudo-random numbers, the same in each run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound.max(1)
    }

    /// Returns `count` random elements of `all` in order, or all if there are fewer.
    pub(crate) fn sample<T>(&mut self, mut all: Vec<T>, count: usize) -> Vec<T> {
        while all.len() > count {
            all.remove(self.below(all.len()));
        }
        all
    }
}

/// The outcomes of renames.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    /// Applied, with the files as planned; then undone.
    pub(crate) applied: Vec<String>,
    /// Refused by the plan, by the kind of conflict.
    pub(crate) conflicts: BTreeMap<String, usize>,
    /// Refused by verification: the name and the first difference.
    pub(crate) differ: Vec<String>,
    /// Errors instead of a plan.
    pub(crate) unplanned: Vec<String>,
    /// The refusals without a reason.
    pub(crate) unexplained: Vec<String>,
    /// The time of verifying, in seconds.
    pub(crate) seconds: f64,
}

fn new_name(name: &str) -> String {
    let bare = name.rsplit("::").next().unwrap();
    match bare.strip_prefix('|').and_then(|bare| bare.strip_suffix('|')) {
        Some(bare) => format!("|{bare}-ZZ|"),
        None => format!("{bare}-ZZ"),
    }
}

fn verify(bank: &Steelbank, request: &RenameRequest, plan: &RenamePlan) -> Verified {
    bank.run(&RenameVerifyRequest::new(request, plan), &Control::new(LONG)).unwrap()
}

/// Reads the files that a plan edits.
fn texts(root: &Path, plan: &RenamePlan) -> Vec<(PathBuf, Vec<u8>)> {
    let paths = plan.files.iter().map(|file| root.join(&file.path));
    paths.map(|path| (path.clone(), fs::read(&path).unwrap())).collect()
}

/// Plans, verifies and applies the rename of each name as the tool does, and undoes it.
pub(crate) fn rename_each(bank: &Steelbank, names: &[String]) -> Outcomes {
    let root = bank.root().unwrap().to_owned();
    let mut outcomes = Outcomes::default();
    for name in names {
        let request = RenameRequest::new(name.as_str(), new_name(name));
        let plan = match bank.ask(&request, &Control::default()) {
            Ok(plan) => plan,
            Err(error) => {
                outcomes.unplanned.push(format!("{name}: {error}"));
                continue;
            }
        };
        if let Some(conflict) = plan.conflicts.first() {
            if conflict.message.is_empty() {
                outcomes.unexplained.push(name.clone());
            }
            *outcomes.conflicts.entry(format!("{:?}", conflict.kind)).or_default() += 1;
            continue;
        }
        let begun = Instant::now();
        let verified = verify(bank, &request, &plan);
        outcomes.seconds += begun.elapsed().as_secs_f64();
        if !verified.same {
            match verified.differences.first() {
                Some(first) => outcomes.differ.push(format!("{name}: {}", first.message)),
                None => outcomes.unexplained.push(name.clone()),
            }
            continue;
        }
        let before = texts(&root, &plan);
        let applied = bank.run(&RenameApplyRequest::new(&plan), &Control::default()).unwrap();
        let after = texts(&root, &plan);
        assert!(before.iter().zip(&after).all(|(before, after)| before.1 != after.1), "{name}");
        bank.run(&UndoRequest::new(&applied.undo), &Control::default()).unwrap();
        assert_eq!(texts(&root, &plan), before, "{name}");
        outcomes.applied.push(name.clone());
    }
    outcomes
}

/// The numbers of wrong plans, and the plans that verification missed.
#[derive(Debug, Default)]
pub(crate) struct Wrong {
    pub(crate) less: usize,
    pub(crate) more: usize,
    pub(crate) missed: Vec<String>,
}

/// Verifies up to `count` wrong plans of random `names`: half of them lack an edit, and half have
/// one too many.
pub(crate) fn make_wrong(bank: &Steelbank, names: &[String], count: usize, random: &mut Random) -> Wrong {
    let root = bank.root().unwrap().to_owned();
    let mut wrong = Wrong::default();
    for _ in 0..20 * count {
        let made = wrong.less + wrong.more;
        if made >= count || names.is_empty() {
            break;
        }
        let name = &names[random.below(names.len())];
        let request = RenameRequest::new(name.as_str(), new_name(name));
        let Ok(plan) = bank.ask(&request, &Control::default()) else { continue };
        if !plan.conflicts.is_empty() || plan.files.is_empty() {
            continue;
        }
        let leaves_out = made % 2 == 0;
        let (bad, what) = if leaves_out {
            let mut bad = plan.clone();
            let file = random.below(bad.files.len());
            let of = &mut bad.files[file];
            let edit = of.edits.remove(random.below(of.edits.len()));
            let what = format!("without {} at {}", edit.old, edit.place);
            bad.files.retain(|file| !file.edits.is_empty());
            // Skip a plan without edits: there is nothing to apply.
            if bad.files.is_empty() {
                continue;
            }
            (bad, what)
        } else {
            let mut bad = plan.clone();
            let file = random.below(bad.files.len());
            let text = fs::read(root.join(&bad.files[file].path)).unwrap();
            let Some(edit) = another(&text, &plan.new_name, &bad.files[file].edits, random) else { continue };
            let of = &mut bad.files[file];
            let what = format!("with {} at {}", edit.old, edit.place);
            of.edits.push(edit);
            of.edits.sort();
            (bad, what)
        };
        if leaves_out {
            wrong.less += 1
        } else {
            wrong.more += 1
        }
        if verify(bank, &request, &bad).same {
            wrong.missed.push(format!("{name} {what}"));
        }
    }
    wrong
}

/// Returns an edit of a token that is not in `edits`.
fn another(text: &[u8], new: &str, edits: &[RenameEdit], random: &mut Random) -> Option<RenameEdit> {
    let read = LispText::read(text, Dialect::CommonLisp, &Features::sbcl());
    let lines = steelbank_reader::lines::LineIndex::new(text);
    let tokens: Vec<_> = read.tokens().iter().filter(|token| token.active && !token.in_feature).collect();
    for _ in 0..50 {
        let token = tokens.get(random.below(tokens.len()))?;
        let range = steelbank_reader::Range::new(token.name_start, token.span.end);
        let free = edits.iter().all(|edit| edit.range.end <= range.start || edit.range.start >= range.end);
        let old = std::str::from_utf8(&text[range.indices()]).ok()?;
        if !free
            || !old.chars().all(|char| char.is_ascii_alphanumeric() || "-*+%".contains(char))
            || old.parse::<f64>().is_ok()
        {
            continue;
        }
        let new = new.to_lowercase();
        let mut edit = edits.first()?.clone();
        (edit.range, edit.place) = (range, edit.place.at(lines.position(text, token.span.start)));
        (edit.old, edit.new) = (old.to_owned(), new);
        return Some(edit);
    }
    None
}

/// Returns random names that a project defines.
pub(crate) fn some_names(bank: &Steelbank, count: usize, random: &mut Random) -> Vec<String> {
    random.sample(names(bank, 1), count)
}
