//! Tests occurrences in open text after random edits. Each exact occurrence has the symbol's text
//! at its range, and agrees with the loaded text.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use steelbank::Control;
use steelbank::actions::uses::occurrences::{FileOccurrence, OccurrencesAnswer, OccurrencesRequest};
use steelbank::actions::uses::open_text::{OpenTextAnswer, OpenTextRequest};
use steelbank::source::positions::Evidence;

use crate::child::{Random, small_or_full};
use crate::fixtures::{library_registry, lisp_libraries};
use crate::project::{folder, load, project};
use crate::renames::copy;

/// The libraries with the files to edit. Each is also the name of a system.
const LIBRARIES: [&str; 10] = [
    "alexandria", "anaphora", "babel", "cl-ppcre", "cl-who", "iterate", "local-time", "parse-number", "puri",
    "yason",
];

/// Texts to insert.
const SNIPPETS: [&str; 12] =
    [" ", "\n", "\r\n", "(", ")", "\"", "; 𝒳\n", "(defun inserted (x) (list x))\n", "𝒳ä", "#|", "|", "x"];

/// Inserts, deletes, replaces or moves a random part of `text`.
fn edit(text: &mut String, random: &mut Random) {
    let boundary = |text: &str, mut at: usize| {
        while !text.is_char_boundary(at) {
            at += 1;
        }
        at
    };
    let at = boundary(text, random.below(text.len() + 1));
    let longest = if random.below(4) == 0 { 400 } else { 8 };
    let length = random.below(longest);
    let end = boundary(text, (at + length).min(text.len()));
    let snippet = SNIPPETS[random.below(SNIPPETS.len())];
    match random.below(4) {
        0 => text.insert_str(at, snippet),
        1 => text.replace_range(at..end, ""),
        2 => text.replace_range(at..end, snippet),
        _ => {
            let moved: String = text.drain(at..end).collect();
            let to = boundary(text, random.below(text.len() + 1));
            text.insert_str(to, &moved);
        }
    }
}

/// Returns whether the token at `found` in `text` spells its symbol.
fn spells(text: &str, found: &FileOccurrence) -> bool {
    let token = text[found.name_range.indices()].trim_matches(['"', ':', '#']).replace(['|', '\\'], "");
    token.to_uppercase() == found.symbol.name.to_uppercase()
}

/// Checks an answer about `text`. Returns the number of occurrences that the loaded text has, too.
fn hold(loaded: &OccurrencesAnswer, text: &str, answer: &OpenTextAnswer) -> usize {
    let exact = answer.occurrences.iter().filter(|found| found.evidence == Evidence::Exact);
    for found in exact {
        assert!(spells(text, found), "{:?} at {found:?}", &text[found.range.indices()]);
        assert!(!answer.is_changed(found.range.start), "{found:?}");
    }
    // The loaded text's occurrences in unchanged forms must still be listed.
    let moved = loaded.occurrences.iter().filter_map(|found| Some((found, answer.moved(found.range)?)));
    let mut count = 0;
    for (found, range) in moved {
        let first = answer.occurrences.partition_point(|now| now.range < range);
        let there = answer.occurrences[first..].iter().take_while(|now| now.range == range);
        let now = { there }.find(|now| now.symbol.name == found.symbol.name);
        let now = now.unwrap_or_else(|| panic!("{found:?} is lost"));
        assert_eq!((now.kind, now.role, now.evidence), (found.kind, found.role, found.evidence));
        assert_eq!(now.use_type, found.use_type);
        count += 1;
    }
    count
}

#[test]
fn positions_hold_in_edited_text() {
    own_process!([("CL_SOURCE_REGISTRY", library_registry())]);
    let root = folder("open-text");
    LIBRARIES.iter().for_each(|library| copy(&lisp_libraries().join(library), &root.join(library)));
    let bank = project(&root, &root.join("cache"));
    LIBRARIES.iter().for_each(|library| drop(load(&bank, library)));
    let files: Vec<PathBuf> = bank
        .loaded_files()
        .into_iter()
        .map(|(path, _)| path)
        .filter(|path| path.starts_with(bank.root().unwrap()))
        .collect();
    assert!(files.len() > 60, "{}", files.len());
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let control = Control::default();
    let (edits, mut done, mut moved) = (small_or_full(10_000, 1_000_000), 0, 0);
    let mut known: HashMap<&PathBuf, Arc<OccurrencesAnswer>> = HashMap::new();
    while done < edits {
        let path = &files[random.below(files.len())];
        let loaded = known.entry(path).or_insert_with(|| {
            let mut request = OccurrencesRequest::new(path);
            request.elsewhere = false;
            let loaded = bank.ask(&request, &control).unwrap();
            assert!(loaded.fresh, "{}", path.display());
            Arc::new(loaded)
        });
        let mut text = loaded.text.clone();
        for _ in 0..=random.below(20) {
            edit(&mut text, &mut random);
            let request = OpenTextRequest {
                path: path.clone(),
                text: text.as_str().into(),
                loaded: Some(Arc::clone(loaded)),
            };
            let answer = bank.ask(&request, &control).unwrap();
            moved += hold(loaded, &text, &answer);
            done += 1;
        }
    }
    assert!(moved > edits * 20, "{moved} places were compared");
}
