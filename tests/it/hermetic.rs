//! Tests that only SBCL's tree and lisp/ influence the build of the core and its index.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::asks::Asks;
use crate::texts::write_project;
use steelbank::engine::DEFAULT_HEAP_MEGABYTES;
use steelbank::{IndexData, Installation, WhoRequest};
use steelbank_xref::{FunctionKind, Kind, NameRole};

use crate::image::{bank, evaluate};

/// Builds core and export in `out`, with `variables` in the builder's environment. Returns the
/// export.
fn build(out: &Path, variables: &[(&str, &Path)]) -> Vec<u8> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("lisp/build-core.sh");
    let output = Command::new("sh")
        .arg(script)
        .arg(Installation::built().sources.unwrap())
        .arg(out)
        .arg(DEFAULT_HEAP_MEGABYTES.to_string())
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
    assert!(out.join("steelbank.core").is_file());
    fs::read(out.join("xref.export")).unwrap()
}

/// Writes a newer ASDF that reports when it is compiled or loaded, into a registry with the layout
/// of Debian's cl-asdf.
fn newer_asdf(registry: &Path) {
    let folder = registry.join("cl-asdf");
    fs::create_dir_all(&folder).unwrap();
    write_project(&folder, include_str!("../projects/newer_asdf.txt"));
}

#[test]
fn polluted_environment_gives_the_same_index() {
    let folder = tempfile::tempdir().unwrap();
    let (clean, polluted) = (folder.path().join("clean"), folder.path().join("polluted and longer"));
    let file = |name: &str, text: &str| -> PathBuf {
        let path = polluted.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    };
    // Put a newer ASDF where ASDF searches by default: the output folder is the builder's home.
    newer_asdf(&polluted.join("common-lisp"));
    newer_asdf(&polluted.join(".local/share/common-lisp/source"));
    let init = file(".sbclrc", "(defun cl-user::from-the-init-file (x) (mapcar #'car x))\n");
    let registry = file(
        ".config/common-lisp/source-registry.conf",
        &format!(
            "(:source-registry (:tree {:?}) :inherit-configuration)\n",
            polluted.join("common-lisp").display().to_string()
        ),
    );
    let trees = polluted.join("common-lisp");
    let variables = [
        ("CL_SOURCE_REGISTRY", registry.as_path()),
        ("ASDF_OUTPUT_TRANSLATIONS", trees.as_path()),
        ("SBCL_HOME", trees.as_path()),
        ("SBCL_SOURCE_ROOT", trees.as_path()),
        ("XDG_DATA_DIRS", trees.as_path()),
        ("XDG_CONFIG_HOME", trees.as_path()),
        ("XDG_CACHE_HOME", trees.as_path()),
        ("HOME", init.parent().unwrap()),
        ("LC_ALL", Path::new("C")),
    ];
    let exports = [build(&clean, &[]), build(&polluted, &variables)];
    assert!(
        exports[0] == exports[1],
        "two builds differ: {} and {} bytes",
        exports[0].len(),
        exports[1].len()
    );
    let IndexData::File(index) = Installation::built().index else { panic!("built() has no index file") };
    let places =
        steelbank_xref::places::of_sources(&exports[0], Installation::built().sources.as_deref()).unwrap();
    assert!(
        steelbank_xref::bake::bake(&exports[0], &places).unwrap() == fs::read(index).unwrap(),
        "the index in use differs from the index that is built now; cargo build rebuilds it"
    );
    for (name, export) in ["clean", "polluted"].into_iter().zip(&exports) {
        let path = folder.path().display().to_string();
        assert!(memchr::memmem::find(export, path.as_bytes()).is_none(), "{name}: {path} is in the export");
    }
}

#[test]
fn answers_have_no_symbols_of_steelbank() {
    let index = bank().index();
    for name in ["STEELBANK", "STEELBANK-NOTHING", "STEELBANK-BUILD"] {
        assert!(index.find_package(name, None).is_none(), "{name}");
    }
    let (mut seen, mut uses) = (0, 0);
    for symbol in index.symbols() {
        let text = index.symbol_text(symbol);
        assert!(!text.starts_with("STEELBANK::"), "{text}");
        for kind in Kind::ALL {
            for found in index.who_including_replaced(kind, symbol, |_| true) {
                uses += 1;
                assert!(!found.function.contains("STEELBANK::"), "{} uses {text}", found.function);
                assert_ne!(found.function, "#:SAVE");
            }
        }
        seen += 1;
    }
    assert!(seen > 10_000 && uses > 400_000, "{seen} symbols, {uses} uses");
    // The package STEELBANK is in the image, although the index omits it.
    let answer = bank().answer(&WhoRequest::calls("mapcar").package("CL"));
    assert!(answer.users.iter().all(|user| !user.name.canonical().contains("STEELBANK")));
    assert_eq!(evaluate("(not (null (find-package :steelbank)))"), ["T"]);
}

/// Compares `lisp/index` with `crates/xref`, because the exported tables have no column names.
#[test]
fn lisp_and_rust_agree_on_tables() {
    let widths = evaluate(
        "(mapcar #'steelbank::table-width (steelbank::state-tables (steelbank::make-export-state nil)))",
    );
    let expected: Vec<String> = steelbank_xref::export::WIDTHS.iter().map(usize::to_string).collect();
    assert_eq!(widths, [format!("({})", expected.join(" "))]);
    let kinds = evaluate("(map 'list (lambda (kind) (string-downcase kind)) steelbank::*xref-kinds*)");
    let expected = Kind::ALL.map(|kind| serde_json::to_string(&kind).unwrap());
    assert_eq!(kinds, [format!("({})", expected.join(" "))]);
    let numbers = "(list steelbank::+none+ steelbank::+unknown+ steelbank::+current+ steelbank::+replaced+ \
                   (length steelbank::*name-roles*) (length steelbank::*function-kinds*))";
    let (roles, functions) = (NameRole::ALL.len(), FunctionKind::ALL.len());
    assert_eq!(evaluate(numbers), [format!("({} 0 1 2 {roles} {functions})", steelbank_xref::export::NONE)]);
}
