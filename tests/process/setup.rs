//! Bad set-ups: the error names the file and the remedy.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use steelbank::engine::{Core, RuntimeLibrary, StartError};
use steelbank::{Error, IndexData, Installation, Steelbank, WhoRequest};

use crate::asks::Asks;
use crate::program::{Folder, ask, on, said};

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

/// Returns the installation in `folder`, in which there is none.
fn in_folder(folder: &Path) -> Installation {
    // SAFETY: there is no such file.
    let library = unsafe { RuntimeLibrary::file(folder.join(RuntimeLibrary::NAME)) };
    Installation::in_folder(folder, library)
}

#[test]
fn no_files_at_all() {
    own_process!();
    let error = start(in_folder(Path::new("/nowhere/at/all")));
    assert!(error.contains("/nowhere/at/all"), "{error}");
    let mut installation = in_folder(Path::new("/nowhere/at/all"));
    installation.index = Installation::built().index;
    let error = start(installation);
    assert!(
        error.contains("/nowhere/at/all/libsteelbank-sbcl.so") && !error.contains("./bootstrap"),
        "{error}"
    );
    let error = start(with_core(Path::new("/nowhere/steelbank.core")));
    assert!(error.contains("/nowhere/steelbank.core"), "{error}");
    // None of this has used up the one start.
    Steelbank::builder().start().unwrap();
}

#[test]
fn a_wrong_library() {
    own_process!();
    let folder = scratch("library");
    let text = folder.join("libtext.so");
    fs::write(&text, "no library").unwrap();
    let mut installation = Installation::built();
    // SAFETY: it is no library.
    installation.image.library = unsafe { RuntimeLibrary::file(text.clone()) };
    let error = start(installation);
    assert!(error.contains(&*text.to_string_lossy()), "{error}");

    // A library of somebody else's: this test's libc.
    let libc = fs::read_to_string("/proc/self/maps")
        .unwrap()
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .find(|path| path.contains("libc.so"))
        .map(PathBuf::from)
        .unwrap();
    let mut installation = Installation::built();
    // SAFETY: its constructors have run.
    installation.image.library = unsafe { RuntimeLibrary::file(libc.clone()) };
    let error = start(installation);
    assert!(error.contains("lacks the function") && error.contains(&*libc.to_string_lossy()), "{error}");
    fs::remove_dir_all(folder).unwrap();
    Steelbank::builder().start().unwrap();
}

#[test]
fn a_core_of_another_build() {
    own_process!();
    let folder = scratch("core");
    let core = folder.join("other.core");
    let mut bytes = fs::read(built_core()).unwrap();
    // The build's name stands in the header; see SBCL's coreparse.c.
    bytes[0x30..0x34].copy_from_slice(b"zzzz");
    fs::write(&core, &bytes).unwrap();
    let error = start(with_core(&core));
    assert!(error.contains(&*core.to_string_lossy()) && error.contains("of one build"), "{error}");

    fs::write(&core, b"short").unwrap();
    let error = start(with_core(&core));
    assert!(error.contains("is not an SBCL core"), "{error}");
    fs::remove_dir_all(folder).unwrap();
    Steelbank::builder().start().unwrap();
}

#[test]
fn a_core_that_is_cut_off() {
    own_process!();
    let folder = scratch("cut");
    let core = folder.join("cut.core");
    let bytes = fs::read(built_core()).unwrap();
    fs::write(&core, &bytes[..bytes.len() / 2]).unwrap();
    let error = start(with_core(&core));
    assert!(error.contains("is cut off") && error.contains(&*core.to_string_lossy()), "{error}");
    fs::remove_dir_all(folder).unwrap();
    Steelbank::builder().start().unwrap();
}

#[test]
fn no_memory_for_the_dynamic_space() {
    own_process!();
    let error = match Steelbank::builder().dynamic_space_size(1 << 50).start() {
        Err(Error::Start(error @ StartError::Died { .. })) => error.to_string(),
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("a heap of a PiB was granted"),
    };
    assert!(error.contains("1073741824 MiB") && !error.contains("--"), "{error}");
}

#[test]
fn a_damaged_index() {
    own_process!();
    let mut installation = Installation::built();
    installation.index = IndexData::Memory(b"not an index");
    let error = start(installation);
    assert!(error.contains("index of cross references cannot be read"), "{error}");
    Steelbank::builder().start().unwrap();
}

#[test]
fn a_second_start() {
    own_process!();
    let first = Steelbank::builder().start().unwrap();
    assert!(start(Installation::built()).contains("started in this process already"));
    assert!(first.clone().answer(&WhoRequest::calls("cl:mapcar")).count > 300);
}

#[test]
fn contribs_are_required_from_the_folder() {
    own_process!();
    let bank = Steelbank::builder().start().unwrap();
    assert_eq!(bank.values("(find-package :sb-aclrepl)"), ["NIL"]);
    bank.values("(require :sb-aclrepl)");
    assert_eq!(bank.values("(package-name (find-package :sb-aclrepl))"), ["\"SB-ACLREPL\""]);
    // Preloaded ones are known to ASDF and to REQUIRE, and are not loaded again.
    for name in [
        "asdf", "uiop", "sb-introspect", "sb-posix", "sb-bsd-sockets", "sb-cltl2", "sb-md5",
        "sb-rotate-byte", "sb-concurrency", "sb-sprof", "sb-rt", "sb-grovel",
    ] {
        bank.values(format!("(asdf:load-system {name:?})"));
        bank.values(format!("(require {name:?})"));
    }
}

/// Prints for each name how ASDF's load of that system ends.
const LOADS: &str = "(format nil \"~{~A ~}\" (mapcar (lambda (name)
  (let ((*standard-output* (make-broadcast-stream)) (*error-output* (make-broadcast-stream)))
    (format nil \"~A:~A\" name
      (handler-case (handler-bind ((warning (function muffle-warning)))
                      (asdf:load-system name)
                      \"LOADED\")
        (error (condition) (symbol-name (type-of condition)))))))
  '(NAMES)))";

#[test]
fn contribs_are_systems_as_in_a_plain_sbcl() {
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
    // One that is no contrib, and one that is only a module.
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
fn a_project_depends_on_contribs_and_its_own_win() {
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
        // Where there is no snapshot yet, one would be made in the background.
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

/// A configuration that cannot be read costs itself, and not the load.
#[test]
fn a_damaged_file_of_the_source_registry_is_named_and_left_out() {
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
        said(&command.env_remove("XDG_CONFIG_HOME").env_remove("CL_SOURCE_REGISTRY").output().unwrap())
    };
    let (text, errors, code) = load();
    let all = text + &errors;
    assert!(
        code == Some(0) && all.contains("40-damaged.conf cannot be read") && !all.contains("#<"),
        "{all}"
    );
    fs::write(registry.parent().unwrap().join("source-registry.conf"), "(:source-registry").unwrap();
    let (text, errors, code) = load();
    let all = text + &errors;
    assert!(code != Some(0) && all.contains("/source-registry.conf") && !all.contains("#<"), "{all}");
}
