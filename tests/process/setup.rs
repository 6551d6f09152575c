//! Bad set-ups: the error names the file and the remedy.

use std::fs;
use std::path::{Path, PathBuf};

use steelbank::engine::{Core, RuntimeLibrary, StartError};
use steelbank::query::Error;
use steelbank::{IndexData, Installation, Steelbank};

use crate::child::in_own_process;

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

#[test]
fn no_files_at_all() {
    in_own_process("setup::no_files_at_all", || {
        let error = start(Installation::in_folder(Path::new("/nowhere/at/all")));
        assert!(error.contains("/nowhere/at/all"), "{error}");
        let mut installation = Installation::in_folder(Path::new("/nowhere/at/all"));
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
    });
}

#[test]
fn a_wrong_library() {
    in_own_process("setup::a_wrong_library", || {
        let folder = scratch("library");
        let text = folder.join("libtext.so");
        fs::write(&text, "no library").unwrap();
        let mut installation = Installation::built();
        installation.image.library = RuntimeLibrary::File(text.clone());
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
        installation.image.library = RuntimeLibrary::File(libc.clone());
        let error = start(installation);
        assert!(error.contains("lacks the function") && error.contains(&*libc.to_string_lossy()), "{error}");
        fs::remove_dir_all(folder).unwrap();
        Steelbank::builder().start().unwrap();
    });
}

#[test]
fn a_core_of_another_build() {
    in_own_process("setup::a_core_of_another_build", || {
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
    });
}

#[test]
fn a_core_that_is_cut_off() {
    in_own_process("setup::a_core_that_is_cut_off", || {
        let folder = scratch("cut");
        let core = folder.join("cut.core");
        let bytes = fs::read(built_core()).unwrap();
        fs::write(&core, &bytes[..bytes.len() / 2]).unwrap();
        let error = start(with_core(&core));
        assert!(error.contains("is cut off") && error.contains(&*core.to_string_lossy()), "{error}");
        fs::remove_dir_all(folder).unwrap();
        Steelbank::builder().start().unwrap();
    });
}

#[test]
fn no_memory_for_the_dynamic_space() {
    in_own_process("setup::no_memory_for_the_dynamic_space", || {
        let error = match Steelbank::builder().dynamic_space_size(1 << 50).start() {
            Err(Error::Start(error @ StartError::Died { .. })) => error.to_string(),
            Err(other) => panic!("{other:?}"),
            Ok(_) => panic!("a heap of a PiB was granted"),
        };
        assert!(error.contains("1073741824 MiB") && !error.contains("--"), "{error}");
    });
}

#[test]
fn a_damaged_index() {
    in_own_process("setup::a_damaged_index", || {
        let mut installation = Installation::built();
        installation.index = IndexData::Memory(b"not an index");
        let error = start(installation);
        assert!(error.contains("index of cross references cannot be read"), "{error}");
        Steelbank::builder().start().unwrap();
    });
}

#[test]
fn a_second_start() {
    in_own_process("setup::a_second_start", || {
        let first = Steelbank::builder().start().unwrap();
        assert!(start(Installation::built()).contains("started in this process already"));
        assert!(first.clone().who_calls("mapcar", "CL").unwrap().count > 300);
    });
}

#[test]
fn contribs_are_required_from_the_folder() {
    in_own_process("setup::contribs_are_required_from_the_folder", || {
        let bank = Steelbank::builder().start().unwrap();
        let allowed = std::time::Duration::from_secs(60);
        assert_eq!(bank.evaluate("(find-package :sb-aclrepl)", allowed).unwrap().values, ["NIL"]);
        bank.evaluate("(require :sb-aclrepl)", allowed).unwrap();
        assert_eq!(
            bank.evaluate("(package-name (find-package :sb-aclrepl))", allowed).unwrap().values,
            ["\"SB-ACLREPL\""]
        );
        // Preloaded ones are known to ASDF and to REQUIRE, and are not loaded again.
        for name in [
            "asdf",
            "uiop",
            "sb-introspect",
            "sb-posix",
            "sb-bsd-sockets",
            "sb-cltl2",
            "sb-md5",
            "sb-rotate-byte",
            "sb-concurrency",
            "sb-sprof",
            "sb-rt",
            "sb-grovel",
        ] {
            bank.evaluate(&format!("(asdf:load-system {name:?})"), allowed).unwrap();
            bank.evaluate(&format!("(require {name:?})"), allowed).unwrap();
        }
    });
}
