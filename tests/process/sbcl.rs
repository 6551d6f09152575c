//! Tests of `--sbcl`, which selects another SBCL for a command and all its processes. The image of
//! these tests is made from the built-in SBCL. `cargo xtask full` tests another SBCL.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use steelbank::Installation;

use crate::child::wait_until;
use crate::program::{Folder, STEELBANK, Streams, ends_well, initialized, outcome, shown};
use crate::texts::expect_text;

/// The code that returns the running core's path.
const CORE: &str = "(sb-ext:native-namestring sb-ext:*core-pathname*)";

/// Returns the version of the built-in SBCL.
fn version() -> String {
    let tree = Path::new(Installation::BUILT_SBCL).file_name().unwrap().to_str().unwrap();
    tree.split('-').nth(1).unwrap().to_owned()
}

/// Returns a command in `folder`, which has the cache and a project.
fn steelbank(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(STEELBANK);
    command
        .args(arguments)
        .current_dir(folder)
        .env("STEELBANK_CACHE", folder.join("cache"))
        .env("HOME", folder.join("home"));
    command.env_remove("STEELBANK_HOME");
    command
}

/// Runs a command of the program in `folder`.
fn asked(folder: &Path, arguments: &[&str]) -> (String, String, Option<i32>) {
    outcome(&steelbank(folder, arguments).output().unwrap())
}

/// Creates the cache in `folder`, with the source tree of the built-in SBCL.
fn cache(folder: &Path) {
    let (cache, tree) = (folder.join("cache"), Path::new(Installation::BUILT_SBCL));
    fs::create_dir(&cache).unwrap();
    symlink(tree, cache.join(tree.file_name().unwrap())).unwrap();
}

/// Runs `./bootstrap` on the cache in `folder`, and returns its output.
fn bootstrap(folder: &Path, arguments: &[&str]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("bootstrap");
    let mut command = Command::new("sh");
    command.arg(script).args(arguments).env("STEELBANK_CACHE", folder.join("cache"));
    let (text, errors, code) = outcome(&command.output().unwrap());
    assert_eq!(code, Some(0), "{text}{errors}");
    text
}

#[test]
fn missing_image_is_refused_with_a_command() {
    let folder = Folder::new("no-sbcl");
    cache(&folder);
    let own = version();
    let refused = |version| {
        let output = steelbank(&folder, &["--sbcl", version, "describe-symbol", "car"]).output().unwrap();
        shown(&output).replace(&own, "{own}")
    };
    expect_text("no image", &refused("9.9"));
    // Errors name an image of another build, and a folder that is not an image.
    for name in ["2.7.0-000000000000", "nothing"] {
        fs::create_dir_all(folder.join("cache/images").join(name)).unwrap();
        fs::write(folder.join("cache/images").join(name).join("tree"), "sbcl-2.7.0-000000000000\n").unwrap();
    }
    expect_text("image of another build", &refused("2.7.0"));
    // The built-in SBCL needs no image.
    let (json, errors, code) = asked(&folder, &["--sbcl", &own, "doctor", "--json"]);
    assert_eq!(code, Some(0), "{errors}");
    let report: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&report["sbcl_images"], &report["sbcl"]), (&json!([]), &json!(own)));
    assert!(report["core"].as_str().unwrap().contains(STEELBANK), "{report}");
}

#[test]
fn all_processes_start_the_image() {
    let folder = Folder::new("sbcl");
    cache(&folder);
    let own = version();
    let told = bootstrap(&folder, &["--sbcl", &own]);
    assert!(told.contains(&format!("--sbcl {own}")), "{told}");
    let key = bootstrap(&folder, &["--image-key"]);
    let image = folder.join(format!("cache/images/{own}-{}", key.trim()));
    let core = image.join("steelbank.core").display().to_string();
    let of_image = ["--sbcl", &own, "--no-userinit"];
    let ask = |arguments: &[&str]| {
        let (text, errors, code) = asked(&folder, &[&of_image, arguments].concat());
        assert_eq!(code, Some(0), "{arguments:?}: {text}{errors}");
        text
    };

    // The first start builds the same index as the program's build.
    let report: Value = serde_json::from_str(&ask(&["doctor", "--json"])).unwrap();
    assert!(report["core"].as_str().unwrap().starts_with(&core), "{report}");
    assert_eq!(report["sbcl_images"], json!([own]));
    let index = |folder: &Path| fs::read(folder.join("steelbank.xref")).unwrap();
    assert!(index(&image) == index(Path::new(Installation::BUILT)));
    for question in [
        &["describe-symbol", "cl:mapcar"][..],
        &["who-calls", "cl:mapcar"],
        &["find-definition", "cl:mapcar"],
    ] {
        assert_eq!(ask(question), asked(&folder, question).0);
    }

    // Commands and scratch images use the selected SBCL, and its cache.
    fs::write(folder.join("one.asd"), "(defsystem \"one\" :components ((:file \"one\")))").unwrap();
    fs::write(folder.join("one.lisp"), "(defun cl-user::one (list) (mapcar #'car list))").unwrap();
    let evaluate = json!({ "code": CORE }).to_string();
    assert!(ask(&["call", "evaluate", &evaluate]).contains(&core));
    let in_copy = json!({ "code": CORE, "scratch": true }).to_string();
    assert!(ask(&["--no-snapshot", "--system", "one", "call", "evaluate", &in_copy]).contains(&core));
    let snapshot = ask(&["--system", "one", "snapshot"]);
    assert!(snapshot.contains(&image.join("projects").display().to_string()), "{snapshot}");
    assert!(!folder.join("cache/projects/fasls").exists() && image.join("projects/fasls").exists());

    // A server uses the selected SBCL before and after its Lisp has died.
    let mut command = steelbank(&folder, &of_image);
    command.args(["serve", "--allow-eval"]);
    let (child, mut client) = initialized(command, Streams::Pipes);
    for deaths in 0..2 {
        wait_until("the server does not come back", || {
            let status = client.status();
            status["restarts"].as_array().map_or(0, Vec::len) == deaths && status["lisp"] == "ready"
        });
        assert_eq!(client.status()["sbcl"], json!(own));
        let told = client.text("evaluate", json!({ "code": CORE }));
        assert!(told.contains(&core), "{told}");
        let lose = "(sb-alien:alien-funcall (sb-alien:extern-alien \"lose\" (function sb-alien:void sb-alien:c-string)) \"on purpose\")";
        client.call("evaluate", json!({ "code": lose }));
    }
    ends_well(child, client);
}
