//! Tests of broken installations. The error names the file and the remedy.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use steelbank::engine::{Core, RuntimeLibrary, StartError};
use steelbank::{Error, IndexData, Installation, Steelbank, WhoRequest};

use crate::asks::Asks;
use crate::program::{Folder, ask, on, shown};
use crate::texts::expect_text;

fn start(installation: Installation) -> String {
    match Steelbank::builder().installation(installation).start() {
        Ok(_) => panic!("it started"),
        Err(error) => error.to_string(),
    }
}

fn scratch(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("steelbank-setup-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn built_core() -> PathBuf {
    match Installation::built().image.core {
        Core::File(path) => path,
        Core::Embedded => unreachable!(),
    }
}

fn with_core(core: &Path) -> Installation {
    let mut installation = Installation::built();
    installation.image.core = Core::File(core.to_owned());
    installation
}

/// Returns an installation in `folder`, which has no files.
fn in_folder(folder: &Path) -> Installation {
    // SAFETY: there is no such file.
    let library = unsafe { RuntimeLibrary::file(folder.join(RuntimeLibrary::NAME)) };
    Installation::in_folder(folder, library)
}

#[test]
fn missing_files_are_named() {
    own_process!();
    expect_text("no files", &start(in_folder(Path::new("/nowhere/at/all"))));
    let mut installation = in_folder(Path::new("/nowhere/at/all"));
    installation.index = Installation::built().index;
    expect_text("no library", &start(installation));
    expect_text("no core", &start(with_core(Path::new("/nowhere/steelbank.core"))));
    // A process can start Lisp once. Failed attempts do not count.
    Steelbank::builder().start().unwrap();
}

#[test]
fn wrong_library_is_named() {
    own_process!();
    let folder = scratch("library");
    let text = folder.join("libtext.so");
    fs::write(&text, "no library").unwrap();
    let mut installation = Installation::built();
    // SAFETY: the file is not a library, so none of its code runs.
    installation.image.library = unsafe { RuntimeLibrary::file(text.clone()) };
    let error = start(installation);
    assert!(error.contains(&*text.to_string_lossy()), "{error}");

    // Try another library: this test's libc.
    let libc = fs::read_to_string("/proc/self/maps")
        .unwrap()
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .find(|path| path.contains("libc.so"))
        .map(PathBuf::from)
        .unwrap();
    let mut installation = Installation::built();
    // SAFETY: the constructors of this library have already run.
    installation.image.library = unsafe { RuntimeLibrary::file(libc.clone()) };
    let error = start(installation);
    assert!(error.contains(&*libc.to_string_lossy()), "{error}");
    expect_text("other library", &error.replace(&*libc.to_string_lossy(), "libc.so"));
    fs::remove_dir_all(folder).unwrap();
    Steelbank::builder().start().unwrap();
}

#[test]
fn core_of_another_build_is_refused() {
    own_process!();
    let folder = scratch("core");
    let core = folder.join("other.core");
    let mut bytes = fs::read(built_core()).unwrap();
    // The header has the build's name; see SBCL's coreparse.c.
    bytes[0x30..0x34].copy_from_slice(b"zzzz");
    fs::write(&core, &bytes).unwrap();
    let refused = || start(with_core(&core)).replace(&*folder.to_string_lossy(), "{folder}");
    expect_text("core of another build", &refused());
    fs::write(&core, b"short").unwrap();
    expect_text("no core file", &refused());
    fs::remove_dir_all(folder).unwrap();
    Steelbank::builder().start().unwrap();
}

#[test]
fn truncated_core_is_refused() {
    own_process!();
    let folder = scratch("cut");
    let core = folder.join("cut.core");
    let bytes = fs::read(built_core()).unwrap();
    fs::write(&core, &bytes[..bytes.len() / 2]).unwrap();
    let refused = start(with_core(&core)).replace(&*folder.to_string_lossy(), "{folder}");
    let half = (bytes.len() / 2).to_string();
    let digits = refused.split(|char: char| !char.is_ascii_digit()).filter(|digits| digits.len() > 5);
    assert_eq!(digits.clone().next(), Some(&*half), "{refused}");
    expect_text("truncated core", &digits.fold(refused.clone(), |text, digits| text.replace(digits, "…")));
    fs::remove_dir_all(folder).unwrap();
    Steelbank::builder().start().unwrap();
}

#[test]
fn huge_dynamic_space_is_refused() {
    own_process!();
    let error = match Steelbank::builder().dynamic_space_size(1 << 50).start() {
        Err(Error::Start(error @ StartError::Died { .. })) => error.to_string(),
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("a heap of a PiB was granted"),
    };
    expect_text("no memory", &error);
}

#[test]
fn damaged_index_is_refused() {
    own_process!();
    let mut installation = Installation::built();
    installation.index = IndexData::Memory(b"not an index");
    expect_text("damaged index", &start(installation));
    Steelbank::builder().start().unwrap();
}

#[test]
fn second_start_is_refused() {
    own_process!();
    let first = Steelbank::builder().start().unwrap();
    expect_text("second start", &start(Installation::built()));
    assert!(first.clone().answer(&WhoRequest::calls("cl:mapcar")).count > 300);
}

#[test]
fn contribs_can_be_required() {
    own_process!();
    let bank = Steelbank::builder().start().unwrap();
    assert_eq!(bank.values("(find-package :sb-aclrepl)"), ["NIL"]);
    bank.values("(require :sb-aclrepl)");
    assert_eq!(bank.values("(package-name (find-package :sb-aclrepl))"), ["\"SB-ACLREPL\""]);
    // ASDF and REQUIRE accept preloaded contribs.
    for name in [
        "asdf", "uiop", "sb-introspect", "sb-posix", "sb-bsd-sockets", "sb-cltl2", "sb-md5",
        "sb-rotate-byte", "sb-concurrency", "sb-sprof", "sb-rt", "sb-grovel",
    ] {
        bank.values(format!("(asdf:load-system {name:?})"));
        bank.values(format!("(require {name:?})"));
    }
}

/// The code that returns the outcome of loading each system with ASDF.
const LOADS: &str = "(format nil \"~{~A ~}\" (mapcar (lambda (name)
  (let ((*standard-output* (make-broadcast-stream)) (*error-output* (make-broadcast-stream)))
    (format nil \"~A:~A\" name
      (handler-case (handler-bind ((warning (function muffle-warning)))
                      (asdf:load-system name)
                      \"LOADED\")
        (error (condition) (symbol-name (type-of condition)))))))
  '(NAMES)))";

#[test]
fn contribs_load_as_in_plain_sbcl() {
    own_process!();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("bootstrap");
    let tree = Command::new("sh").arg(script).arg("--print-path").output().unwrap().stdout;
    let tree = PathBuf::from(String::from_utf8(tree).unwrap().trim());
    let home = tree.join("obj/sbcl-home");
    let mut names: Vec<String> = fs::read_dir(home.join("contrib"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "asd"))
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert!(names.len() > 15, "{names:?}");
    // Add a system that does not exist, and a module.
    names.extend(["sb-nonesuch".to_owned(), "uiop".to_owned()]);
    let quoted: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    let form = LOADS.replace("NAMES", &quoted.join(" "));
    let plain = Command::new(tree.join("src/runtime/sbcl"))
        .arg("--core")
        .arg(tree.join("output/sbcl.core"))
        .args(["--noinform", "--no-sysinit", "--no-userinit", "--non-interactive"])
        .args(["--eval", "(require :asdf)", "--eval", &format!("(prin1 {form})")])
        .env_clear()
        .env("SBCL_HOME", &home)
        .env("HOME", "/nonexistent")
        .output()
        .unwrap();
    let plain = String::from_utf8(plain.stdout).unwrap();
    let bank = Steelbank::builder().start().unwrap();
    let ours = bank.values(form.as_str());
    assert_eq!(ours, [plain.trim()]);
    for name in ["sb-simd", "sb-queue", "sb-cover", "sb-posix"] {
        assert!(plain.contains(&format!("{name}:LOADED ")), "{plain}");
    }
    assert!(plain.contains("sb-nonesuch:MISSING-COMPONENT "), "{plain}");
}

#[test]
fn project_systems_shadow_contribs() {
    let (folder, cache) = (Folder::new("contrib-project"), Folder::new("contrib-project-cache"));
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
    write("p.asd", "(defsystem \"p\" :depends-on (\"sb-queue\" \"sb-perf\") :components ((:file \"a\")))");
    write("a.lisp", "(defun one () (sb-queue:make-queue))\n(defun two () (one))\n");
    write("sb-perf.asd", "(defsystem \"sb-perf\" :components ((:file \"own\")))");
    write(
        "own.lisp",
        "(defpackage :own-perf (:use :cl) (:export #:mine))\n(in-package :own-perf)\n(defun mine () 1)\n",
    );
    let ask = |arguments: &[&str]| ask(&folder, &cache, arguments);
    for again in ["compiled", "from the cache", "from the snapshot"] {
        if again == "from the snapshot" {
            let (text, errors, code) = ask(&["--system", "p", "snapshot"]);
            assert_eq!(code, Some(0), "{text} {errors}");
        }
        // Otherwise, a background process would write a snapshot.
        let started = if again == "from the snapshot" {
            &["--system", "p"][..]
        } else {
            &["--no-snapshot", "--system", "p"]
        };
        let (text, errors, code) = ask(&[started, &["who-calls", "cl-user::one"]].concat());
        assert!(code == Some(0) && text.contains("COMMON-LISP-USER::TWO"), "{again}: {text} {errors}");
        let (text, errors, _) = ask(&[started, &["describe-symbol", "own-perf:mine"]].concat());
        assert!(text.contains("OWN-PERF::MINE"), "{again}: {text} {errors}");
    }
    let (text, errors, code) = ask(&["check", "--system", "p"]);
    assert!(code == Some(0), "{text} {errors}");
}

/// A configuration file that cannot be parsed is skipped with a warning.
#[test]
fn damaged_source_registry_file_is_skipped() {
    let folder = Folder::new("registry");
    let registry = folder.join("home/.config/common-lisp/source-registry.conf.d");
    for (path, text) in [
        (
            folder.join("p/p.asd"),
            "(defsystem \"p\" :depends-on (\"other\") :components ((:file \"a\")))".to_owned(),
        ),
        (folder.join("p/a.lisp"), "(defun one () 1)\n(defun two () (one))\n".to_owned()),
        (folder.join("other/other.asd"), "(defsystem \"other\")".to_owned()),
        (registry.join("40-damaged.conf"), "garbage (".to_owned()),
        (registry.join("60-good.conf"), format!("(:tree {:?})", folder.join("other"))),
    ] {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let load = || {
        let mut command = on(&folder.join("p"), &folder.join("cache"));
        command.args(["--no-snapshot", "load-system", "p"]).env("HOME", folder.join("home"));
        shown(&command.env_remove("XDG_CONFIG_HOME").env_remove("CL_SOURCE_REGISTRY").output().unwrap())
    };
    expect_text("damaged registry file", &load());
    fs::write(registry.parent().unwrap().join("source-registry.conf"), "(:source-registry").unwrap();
    expect_text("damaged registry", &load());
}
