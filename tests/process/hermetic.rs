//! Tests that libraries on the machine do not change the core's contents.

use std::fs;
use std::process::Command;

use steelbank::loaded::LoadStatus;
use steelbank::{LoadRequest, ProjectSettings, Steelbank, WhoRequest};

use crate::asks::Asks;
use crate::child::{command, is_child, run};
use crate::program::{Folder, STEELBANK, outcome};

const NAME: &str = "hermetic::newer_asdf_in_the_registry_is_ignored";

/// A newer ASDF in the registry, such as Debian's cl-asdf, must not replace the core's ASDF, which
/// the index describes.
#[test]
fn newer_asdf_in_the_registry_is_ignored() {
    if is_child() {
        let project = std::path::PathBuf::from(std::env::var_os("PROJECT").unwrap());
        return load(ProjectSettings::in_folder(&project).cache(project.join("cache")));
    }
    let folder = Folder::new("newer-asdf");
    let registry = folder.join("registry");
    fs::create_dir_all(&registry).unwrap();
    let newer = "(defsystem \"asdf\" :version \"99.0\" :components ((:file \"newer\")))";
    fs::write(registry.join("asdf.asd"), newer).unwrap();
    fs::write(registry.join("uiop.asd"), newer.replace("asdf", "uiop")).unwrap();
    fs::write(registry.join("newer.lisp"), "(defun cl-user::newer () (mapcar #'car '()))\n").unwrap();
    let project = folder.join("project");
    fs::create_dir_all(&project).unwrap();
    let system = "(defsystem \"demo\" :depends-on (\"asdf\" \"uiop\" (:version \"asdf\" \"3.1\")) :components ((:file \"demo\")))";
    fs::write(project.join("demo.asd"), system).unwrap();
    fs::write(project.join("demo.lisp"), "(defun cl-user::demo () (asdf:asdf-version))\n").unwrap();
    let configuration = format!(
        "(:source-registry (:tree {:?}) :ignore-inherited-configuration)",
        registry.display().to_string()
    );
    let output = run(command(NAME).env("PROJECT", &project).env("CL_SOURCE_REGISTRY", configuration));
    assert!(output.status.success(), "{output:?}");
}

fn load(project: ProjectSettings) {
    let bank = Steelbank::builder().project(project).start().unwrap();
    let before = bank.answer(&WhoRequest::calls("asdf:load-system").package("CL-USER"));
    let value = |source: &str| bank.values(source);
    let version = value("(asdf:asdf-version)");
    let loaded = bank.done(&LoadRequest::system("demo"));
    assert_eq!(loaded.status, LoadStatus::Loaded, "{loaded:?}");
    assert_eq!(value("(cl-user::demo)"), version);
    assert_eq!(value("(fboundp 'cl-user::newer)"), ["NIL"]);
    assert_eq!(bank.answer(&WhoRequest::calls("asdf:load-system").package("CL-USER")).users, before.users);
    // The registry is read for systems that are not in the core.
    assert_eq!(
        value("(null (nth-value 1 (gethash \"asdf\" asdf/source-registry:*source-registry*)))"),
        ["NIL"]
    );
}

/// The reader has the core's features. `STEELBANK_BLESS=1` writes them.
#[test]
fn reader_has_the_cores_features() {
    let form = "(dolist (name (sort (mapcar #'string-downcase *features*) #'string<)) (write-line name))";
    let output = Command::new(STEELBANK).args(["--json", "evaluate", form]).output().unwrap();
    let (text, errors, code) = outcome(&output);
    assert_eq!(code, Some(0), "{text}{errors}");
    let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
    let features = answer["output"].as_str().unwrap();
    let list = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/reader/src/sbcl-features.txt");
    if std::env::var_os("STEELBANK_BLESS").is_some() {
        fs::write(list, features).unwrap();
    }
    assert_eq!(fs::read_to_string(list).unwrap(), features, "STEELBANK_BLESS=1 writes them");
}
