//! The cache: whom it lets in, and what becomes of damage to it.

use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;
use std::process::{Command, Output};

use crate::program::{Folder, STEELBANK, said};

const SOURCE: &str =
    "(defpackage :good (:use :cl))\n(in-package :good)\n(defun target (x) (mapcar #'car x))\n";

/// Writes a project with the system good.
fn write_project(root: &Path) {
    std::fs::create_dir_all(root).unwrap();
    std::fs::write(root.join("good.asd"), "(defsystem \"good\" :components ((:file \"good\")))").unwrap();
    std::fs::write(root.join("good.lisp"), SOURCE).unwrap();
}

/// Makes the command `steelbank` on the project in `folder`, with the cache there, behind `shell`'s commands.
fn command(folder: &Path, shell: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{shell}\nexec \"$0\" \"$@\""), STEELBANK, "--no-userinit", "--project"]);
    command.arg(folder.join("project")).env("STEELBANK_CACHE", folder.join("cache"));
    command
}

fn run(command: &mut Command, arguments: &[&str]) -> Output {
    command.args(arguments).output().unwrap()
}

/// Lists what is below `folder`, each with its mode, and whether it is a folder.
fn modes(folder: &Path) -> Vec<(String, u32, bool)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let (path, metadata) = (entry.path(), entry.metadata().unwrap());
        if !metadata.is_symlink() {
            found.push((path.display().to_string(), metadata.mode() & 0o777, metadata.is_dir()));
        }
        if metadata.is_dir() {
            found.extend(modes(&path));
        }
    }
    found
}

#[test]
fn what_is_cached_is_its_users_alone_whatever_the_umask() {
    let folder = Folder::new("cache-modes");
    write_project(&folder.0.join("project"));
    std::fs::write(folder.0.join("project/alone.lisp"), "(defun cl-user::alone () 1)\n").unwrap();
    for arguments in [
        &["--no-snapshot", "--system", "good", "find-references", "target"][..],
        &["load-file", "alone.lisp"],
        &["--system", "good", "snapshot"],
        &["evaluate", "(require :sb-cover)"],
    ] {
        let (text, errors, code) = said(&run(&mut command(&folder.0, "umask 0"), arguments));
        assert_eq!(code, Some(0), "{arguments:?}: {text}{errors}");
    }
    let cache = folder.0.join("cache");
    assert_eq!(std::fs::metadata(&cache).unwrap().mode() & 0o777, 0o700);
    let found = modes(&cache);
    for part in ["good.fasl", ".record", ".tap", "/core", "/manifest", "/text/", "/files/", "/contrib-"] {
        assert!(found.iter().any(|(path, ..)| path.contains(part)), "no {part} in {found:#?}");
    }
    let wanted = |is_folder| if is_folder { 0o700 } else { 0o600 };
    let open: Vec<_> = found.iter().filter(|(_, mode, is_folder)| *mode != wanted(*is_folder)).collect();
    assert!(open.is_empty(), "{open:#?}");
}

#[test]
fn another_users_cache_is_refused_and_an_open_one_is_closed() {
    let folder = Folder::new("cache-foreign");
    write_project(&folder.0.join("project"));
    let cache = folder.0.join("cache");
    std::fs::create_dir(&cache).unwrap();
    assert_eq!(
        run(&mut command(&folder.0, "chmod 777 \"$STEELBANK_CACHE\""), &["list-systems"]).status.code(),
        Some(0)
    );
    assert_eq!(std::fs::metadata(&cache).unwrap().mode() & 0o777, 0o700);
    // Only root can give a folder away; another user finds that of root to be another's.
    let foreign = if chown(&cache, Some(12_345), None).is_ok() { cache.as_path() } else { Path::new("/") };
    for arguments in
        [&["describe-symbol", "car"][..], &["find-references", "target"], &["serve"], &["cache", "--clear"]]
    {
        let (text, errors, code) =
            said(&run(command(&folder.0, "").env("STEELBANK_CACHE", foreign), arguments));
        assert_eq!((text.as_str(), code), ("", Some(3)), "{arguments:?}: {errors}");
        assert!(
            errors.contains(&format!("The cache folder {} belongs to user", foreign.display())),
            "{errors}"
        );
    }
    assert_eq!(
        run(command(&folder.0, "").env("STEELBANK_CACHE", foreign), &["tools"]).status.code(),
        Some(0)
    );
}
