//! Compares the index with sb-introspect and FIND-SYMBOL, for all symbols of an image.
//!
//! No other test may define code in that image: [`index_equals_sb_introspect`] runs
//! [`in_a_process_of_its_own`] in a new process.

mod compare;

use crate::folder::Folder;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use steelbank::{Control, EvaluateRequest, Steelbank};

const LONG: Duration = Duration::from_secs(1200);

#[test]
fn index_equals_sb_introspect() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "oracle::in_a_process_of_its_own", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(output.status.success(), "{:?}\n{text}", output.status);
    assert!(text.contains("1 passed"), "{text}");
    for line in text.lines().filter(|line| line.starts_with("oracle: ")) {
        println!("{line}");
    }
}

#[test]
#[ignore = "run by index_equals_sb_introspect"]
fn in_a_process_of_its_own() {
    let folder = Folder::new("oracle");
    let bank = Steelbank::builder().start().unwrap();
    let core = bank.index().since();
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/oracle");
    load(&bank, &here.join("oracle.lisp"), &folder);

    let uses = check(&bank, "the saved core", &folder);
    assert!(uses > 400_000, "{uses}");

    for library in libraries() {
        run(&bank, &format!("(asdf:load-asd {library:?})"));
        let system = library.file_stem().unwrap().to_str().unwrap();
        run(&bank, &format!("(asdf:load-system {system:?})"));
    }
    // Each form changes definitions of earlier forms, and is exported separately.
    for form in fs::read_to_string(here.join("scenario.lisp")).unwrap().split("\n\n") {
        run(&bank, form);
    }
    // Each export covers the changes since the previous export. After several of these, an export
    // covers all changes since the core was saved.
    for number in 0.. {
        assert!(number < 20, "each export still begins at the previous one");
        run(&bank, &format!("(defun cl-user::exported-{number} (x) (list x {number}))"));
        if bank.index().since() == core {
            break;
        }
    }
    let more = check(&bank, "after libraries and redefinitions", &folder);
    assert!(more > uses, "{more} uses, before {uses}");
}

/// Compares all symbols and all uses. Returns the number of uses compared.
fn check(bank: &Steelbank, when: &str, folder: &Path) -> usize {
    // Compare the image with an index of the same moment: code that SBCL compiles in between, such
    // as a constructor, would be in only one of them.
    let index = (0..5)
        .find_map(|_| {
            let form = format!("(steelbank-oracle::write-oracle {:?})", folder.join(""));
            let answer = bank
                .run(&EvaluateRequest::new(form.as_str()).values(), &Control::new(LONG))
                .unwrap_or_else(|error| panic!("{form}\n{error:?}"));
            let index = bank.index();
            (answer.values == [index.stamp().to_string()]).then_some(index)
        })
        .unwrap_or_else(|| panic!("{when}: SBCL compiled code between the two lists in each attempt"));
    let symbols = compare::symbols(&index, folder);
    assert_eq!(symbols.differences, [""; 0], "{when}");
    let uses = compare::uses(&index, folder);
    assert_eq!(uses.differences, [""; 0], "{when}");
    println!(
        "oracle: {when}: {} lookups, {} answers with {} uses are the same",
        symbols.lookups, uses.answers, uses.uses
    );
    uses.uses
}

fn run(bank: &Steelbank, source: &str) {
    bank.run(&EvaluateRequest::new(source).values(), &Control::new(LONG))
        .unwrap_or_else(|error| panic!("{source}\n{error:?}"));
}

fn load(bank: &Steelbank, source: &Path, folder: &Path) {
    let fasl = folder.join("oracle.fasl");
    run(bank, &format!("(load (compile-file {source:?} :output-file {fasl:?}))"));
}

/// Lists system definitions of some of Debian's Lisp libraries.
fn libraries() -> Vec<PathBuf> {
    ["alexandria/alexandria.asd", "cl-ppcre/cl-ppcre.asd", "closer-mop/closer-mop.asd"]
        .iter()
        .map(|path| crate::fixtures::lisp_libraries().join(path))
        .collect()
}
