//! Compares the positions of uses in the torture project with the expected text, and the positions
//! that the tap records with those of the structural reader.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use steelbank::{Control, EvaluateRequest};

use steelbank::actions::uses::code_find_references::{CodeFindReferencesRequest, CodeReference};
use steelbank::answer::location::columns;
use steelbank::loaded::LoadStatus;
use steelbank::source::tap::sidecar::{EventKind, Sidecar, fnv_1a, sidecar_name};
use steelbank_reader::lines::characters;
use steelbank_reader::{Dialect, Features, LispText, normalized, read_name, upcase};

use crate::asks::Asks;
use crate::fixtures::library_registry;
use crate::folder::Folder;
use crate::project::{load, project};
use crate::texts::{expect, expect_text};

/// The symbols of the torture project that the test queries.
const SYMBOLS: [&str; 35] = [
    "torture::exported", "torture.namesake::exported", "torture::said", "torture::keyed",
    "torture::*setting*", "torture::target", "torture::with-target", "torture::twice", "torture::recursive",
    "torture::little", "torture::global-target", "torture::small", "torture::base", "torture::derived",
    "torture::trouble", "torture::point", "torture::slot", "torture::area", "torture::base-slot",
    "torture::new-point3", "torture::point-x", "torture::local-macro", "torture::setter", "torture::naïve",
    "torture::größe", "(setf torture::target)", "torture::parse", "torture::log-it", "torture::helper",
    "torture::zone", "torture::work", "torture::*opt*", "torture::left", "torture::right",
    "(setf torture::work)",
];

#[test]
fn torture_project_matches_its_goldens() {
    own_process!();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/torture");
    let cache = Folder::new("torture");
    let bank = project(&root, &cache);
    let answer = load(&bank, "torture");
    assert_eq!(answer.status, LoadStatus::Loaded, "{answer:?}");
    let mut text = String::new();
    for symbol in SYMBOLS {
        let answer = bank.answer(&CodeFindReferencesRequest::new(symbol));
        writeln!(text, "{}", answer.symbol.canonical()).unwrap();
        for found in &answer.refs {
            writeln!(text, "  {}", line(found)).unwrap();
        }
    }
    // SBCL's names of functions in top-level forms contain the path of the file.
    expect("torture/goldens.txt", &text.replace(&root.display().to_string(), "{root}"));
}

fn line(found: &CodeReference) -> String {
    let mut text = format!("{}:{}", found.place.file, found.place.line.unwrap_or(0));
    let exact: Vec<String> = columns(&found.tokens).iter().map(u32::to_string).collect();
    write!(text, ":{} {:?} {:?}", exact.join(","), found.use_type, found.evidence).unwrap();
    if !found.approximate.is_empty() {
        write!(text, " {:?}", columns(&found.approximate)).unwrap();
    }
    for (word, value) in
        [("via", &found.via), ("in", &found.caller.as_ref().map(|caller| caller.canonical().to_owned()))]
    {
        if let Some(value) = value {
            write!(text, " {word} {value}").unwrap();
        }
    }
    text
}

/// The libraries to compare: all numbered forms of their files.
const LIBRARIES: [&str; 12] = [
    "alexandria", "cl-ppcre", "flexi-streams", "split-sequence", "bordeaux-threads", "iterate", "local-time",
    "puri", "babel", "chunga", "usocket", "cffi",
];

#[test]
fn tap_and_structural_reader_agree() {
    own_process!([("CL_SOURCE_REGISTRY", library_registry())]);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/torture");
    let cache = Folder::new("roads");
    let bank = project(&root, &cache);
    let mut loaded = 1;
    assert_eq!(load(&bank, "torture").status, LoadStatus::Loaded);
    for library in LIBRARIES {
        loaded += usize::from(load(&bank, library).status == LoadStatus::Loaded);
    }
    // Use the current features, because the features at the time of reading are not recorded.
    let features = bank
        .run(
            &EvaluateRequest::new("(format nil \"~{~A~^ ~}\" *features*)").values(),
            &Control::new(Duration::from_secs(5)),
        )
        .unwrap();
    let features = Features::new(features.values[0].trim_matches('"').split(' '));
    let mut tally = Tally::default();
    for (path, date) in bank.loaded_files() {
        let truename = path.canonicalize().unwrap();
        let sidecar = Sidecar::read(&cache.join("taps").join(sidecar_name(&truename, date))).unwrap();
        tally.compare(&path, &sidecar, &features);
    }
    println!(
        "\nseen: {loaded} systems: {} forms agree, {} differ, {} of {} top-level forms set aside with {} forms, {} for #.",
        tally.same,
        tally.differences.len(),
        tally.aside,
        tally.tops,
        tally.aside_forms,
        tally.read_time
    );
    for difference in &tally.differences {
        println!("seen: {difference}");
    }
    assert!(tally.same > 300);
    // The difference in reading.lisp is expected: the file defines brackets as reader macros. At
    // most one in a thousand other forms may differ.
    let explained = |difference: &&String| difference.contains("reading.lisp form 10 ");
    let unexplained: Vec<_> = tally.differences.iter().filter(|found| !explained(found)).collect();
    assert!(unexplained.len() * 1000 <= tally.same, "{unexplained:#?}");
}

#[derive(Default)]
struct Tally {
    same: usize,
    tops: usize,
    aside: usize,
    aside_forms: usize,
    /// The number of skipped forms that contain `#.`; the other skipped forms contain reader
    /// macros.
    read_time: usize,
    differences: Vec<String>,
}

impl Tally {
    fn compare(&mut self, path: &Path, sidecar: &Sidecar, features: &Features) {
        let bytes = fs::read(path).unwrap();
        assert!(sidecar.matches(&bytes), "{}", path.display());
        let text = decoded(&bytes, &sidecar.external_format);
        let read = LispText::read(text.as_bytes(), Dialect::CommonLisp, features);
        let mut starts = BTreeMap::new();
        for form in &sidecar.forms {
            self.tops += 1;
            let numbered: Vec<_> = form
                .events
                .iter()
                .filter_map(|event| match event.kind {
                    EventKind::Form(number) => Some((number, event.start, event.end)),
                    _ => None,
                })
                .collect();
            let top = read.toplevel().get(form.number as usize).filter(|top| top.exact && top.counted);
            let Some(top) = top else {
                self.aside += 1;
                let form = read.toplevel().get(form.number as usize);
                self.read_time +=
                    usize::from(form.is_some_and(|top| text[top.span.indices()].contains("#.")));
                self.aside_forms += numbered.len();
                continue;
            };
            let mut seen = std::collections::BTreeSet::new();
            for (number, start, end) in numbered.into_iter().filter(|(number, ..)| seen.insert(*number)) {
                let mut position = |byte: u32| {
                    *starts
                        .entry(byte)
                        .or_insert_with(|| characters(&text.as_bytes()[..byte as usize]) as u32)
                };
                let other = read
                    .numbered(top, number)
                    .map(|form| (position(form.span.start), position(form.span.end)));
                if other == Some((start, end)) {
                    self.same += 1;
                } else {
                    self.differences.push(format!(
                        "{} form {} number {number}: tap {start}..{end}, structure {other:?}",
                        path.display(),
                        form.number
                    ));
                }
            }
        }
    }
}

fn decoded(bytes: &[u8], format: &str) -> String {
    if format.contains("LATIN") || format.contains("8859") {
        bytes.iter().map(|&byte| char::from(byte)).collect()
    } else {
        String::from_utf8(bytes.to_vec()).unwrap()
    }
}

#[test]
fn a_damaged_sidecar_is_an_error() {
    let file = PathBuf::from("no such sidecar");
    assert!(Sidecar::read(&file).is_err());
    for bytes in [&b""[..], b"SBTAP\0", b"SBTAP\0\x03", b"SBTAP\0\x0312345678", b"something else"] {
        assert!(Sidecar::parse(bytes).is_err());
    }
    expect_text("later version", &Sidecar::parse(b"SBTAP\0\x63").unwrap_err().to_string());
    // Returns a complete sidecar with a correct checksum. Hash, size, date, path and format are
    // zero or empty; `rest` follows.
    let head = |rest: &[u8]| {
        let mut bytes = b"SBTAP\0\x03\x01".to_vec();
        bytes.extend([0; 8]);
        bytes.extend([0, 0, 0, 0]);
        bytes.extend(rest);
        bytes.extend(fnv_1a(&bytes).to_le_bytes());
        bytes
    };
    let whole = head(&[2, 0, 2, 0, 0, 0, 0]);
    assert_eq!(Sidecar::parse(&whole).unwrap().newlines, [0, 1]);
    // An impossible count allocates no memory. Newlines must ascend.
    assert!(Sidecar::parse(&head(&[0xff; 8])).is_err());
    assert!(Sidecar::parse(&head(&[2, 4, 1, 0, 0, 0, 0])).is_err());
    assert!(Sidecar::parse(&head(&[2, 4, 0, 0, 0, 0, 0])).is_err());
    // Every flipped bit and every truncation is detected.
    for index in 0..whole.len() {
        for bit in 0..8 {
            let mut flipped = whole.clone();
            flipped[index] ^= 1 << bit;
            assert!(Sidecar::parse(&flipped).is_err(), "{index} {bit}");
        }
        assert!(Sidecar::parse(&whole[..index]).is_err(), "{index}");
    }
}

#[test]
fn letters_are_upcased_as_sbcl_does() {
    let answer = crate::image::bank()
        .run(&EvaluateRequest::new("(loop for code below char-code-limit for char = (code-char code)
                   unless (char= char (char-upcase char)) do (format t \"~D ~D~%\" code (char-code (char-upcase char))))").values(), &Control::new(Duration::from_secs(60)))
        .unwrap();
    let theirs: Vec<String> = answer.output.lines().map(str::to_owned).collect();
    assert!(theirs.len() > 1000, "{}", theirs.len());
    let ours: Vec<String> = (0..=0x10_ffff)
        .filter_map(char::from_u32)
        .filter(|&char| upcase(char) != char)
        .map(|char| format!("{} {}", u32::from(char), u32::from(upcase(char))))
        .collect();
    let only = |some: &[String], others: &[String]| -> Vec<String> {
        some.iter().filter(|pair| !others.contains(pair)).cloned().collect()
    };
    let differences = (only(&theirs, &ours), only(&ours, &theirs));
    assert!(differences == (vec![], vec![]), "{differences:?}");
}

#[test]
fn names_are_read_in_sbcls_normal_form() {
    let output = |source: &str| {
        let request = EvaluateRequest::new(source).values();
        crate::image::bank().run(&request, &Control::new(Duration::from_secs(60))).unwrap().output
    };
    let theirs = output(
        "(loop for code from 128 below char-code-limit for text = (string (code-char code))
               for normal = (if (<= #xD800 code #xDFFF) text (sb-unicode:normalize-string text :nfkc))
               unless (string= text normal) do (format t \"~D~{ ~D~}~%\" code (map 'list #'char-code normal)))",
    );
    let codes = |text: &str| text.chars().map(|char| format!(" {}", u32::from(char))).collect::<String>();
    let ours: BTreeMap<u32, String> = (128..=0x10_ffff)
        .filter_map(char::from_u32)
        .map(|char| (u32::from(char), char.to_string()))
        .filter(|(_, text)| normalized(text) != **text)
        .map(|(code, text)| (code, codes(&normalized(&text))))
        .collect();
    let theirs: BTreeMap<u32, String> = theirs
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(code, normal)| (code.parse().unwrap(), format!(" {normal}")))
        .collect();
    assert!(theirs.len() > 4_900, "{}", theirs.len());
    let only = |some: &BTreeMap<u32, String>, others: &BTreeMap<u32, String>| -> Vec<String> {
        let some = some.iter().filter(|(code, normal)| others.get(code) != Some(normal));
        some.map(|(code, normal)| format!("{code:x}:{normal}")).collect()
    };
    let differences = (only(&theirs, &ours), only(&ours, &theirs));
    assert!(differences == (vec![], vec![]), "{differences:?}");
    // Test combining marks, escaped names, and names with plain and escaped parts.
    let written: Vec<String> =
        ["\u{b5}", "e\u{301}", "\u{fb01}x\u{b2}", "\u{ac00}\u{11a8}", "\u{1d4b3}y", "\u{ff21}"]
            .into_iter()
            .flat_map(|text| {
                [text.to_owned(), format!("|{text}|"), format!("\\{text}"), format!("{text}|a|{text}")]
            })
            .flat_map(|text| [text.clone(), format!("q{text}"), format!("{text}\u{301}|z|\u{327}\u{301}")])
            .collect();
    let list: String = written.iter().map(|text| format!(" #:{text}")).collect();
    let theirs = output(&format!("(format t \"~{{~A~%~}}\" '({list}))"));
    let ours: Vec<String> =
        written.iter().map(|text| read_name(text.as_bytes(), Dialect::CommonLisp).into_owned()).collect();
    assert_eq!(ours, theirs.lines().collect::<Vec<_>>());
}
