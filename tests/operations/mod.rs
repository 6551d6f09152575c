//! Random operations on trees, for tests. An operation is selected by three numbers and may fail.

use std::fs::{self, FileTimes, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

const FOLDERS: [&str; 6] = ["", "a", "b", "a/c", "vendor", "a/c/d"];
const FILES: [&str; 4] = ["x.lisp", "y.lisp", "z.txt", "w.lisp"];
/// Some texts have the same length but different contents.
const TEXTS: [&str; 6] = [
    "(sought one)\n",
    "(sought two)\n",
    "(hidden one)\n",
    "(in-package :cl-user)\n(defun f (x) (sought x))\n",
    "",
    "(f)\n(sought 1) (sought 2)\n",
];
const RULES: [&str; 5] = ["", "a/\n", "vendor\n", "*.txt\n", "/b\nx.lisp\n"];

/// Creates the initial tree of a test in `home`: the folder `root` with some folders and files.
///
/// # Errors
///
/// Errors of the file system.
pub(crate) fn begin(home: &Path) -> std::io::Result<PathBuf> {
    let root = home.join("root");
    for folder in ["a/c", "b", ".git/info"] {
        fs::create_dir_all(root.join(folder))?;
    }
    fs::create_dir_all(home.join("outside"))?;
    for (number, path) in ["x.lisp", "a/x.lisp", "a/c/y.lisp", "b/z.txt"].iter().enumerate() {
        fs::write(root.join(path), TEXTS[number])?;
    }
    Ok(root)
}

/// Performs the operation selected by the numbers on the tree in `home`. Returns a description.
pub(crate) fn operate(home: &Path, (kind, one, other): (u8, u8, u8)) -> String {
    let root = home.join("root");
    let folder = |number: u8| root.join(FOLDERS[usize::from(number) % FOLDERS.len()]);
    let file = |number: u8| folder(number).join(FILES[usize::from(number / 8) % FILES.len()]);
    let text = TEXTS[usize::from(other) % TEXTS.len()];
    let rule = RULES[usize::from(other) % RULES.len()];
    let outside = |number: u8| home.join("outside").join(FILES[usize::from(number) % FILES.len()]);
    let rewrite = |path: &Path| OpenOptions::new().write(true).truncate(true).open(path);
    let (path, another) = (file(one), file(other));
    let done = match kind % 20 {
        0 | 1 => fs::write(&path, text),
        2 => OpenOptions::new().append(true).open(&path).and_then(|mut open| open.write_all(text.as_bytes())),
        3 => {
            let new = path.with_extension("new.lisp");
            fs::write(&new, text).and_then(|()| fs::rename(&new, &path))
        }
        4 => fs::remove_file(&path),
        5 => fs::rename(&path, &another),
        6 => fs::create_dir_all(folder(one)),
        7 if folder(one) != root.join("") => fs::remove_dir_all(folder(one)),
        8 => fs::rename(folder(one), folder(other)),
        9 => fs::remove_dir_all(folder(one))
            .and_then(|()| fs::create_dir_all(folder(one)))
            .and_then(|()| fs::write(&path, text)),
        10 => fs::set_permissions(&path, fs::Permissions::from_mode(0o600 | u32::from(other & 0o77))),
        11 => fs::hard_link(&path, outside(other)),
        12 => rewrite(&outside(one)).and_then(|mut open| open.write_all(text.as_bytes())),
        13 => symlink(outside(other), &path),
        14 => fs::write(folder(one).join(".gitignore"), rule),
        15 => fs::write(root.join(".git/info/exclude"), rule),
        16 => fs::write(home.join(".gitignore"), rule),
        // Rewrite the file with a fixed modification time, as programs that copy times do.
        17 => rewrite(&path).and_then(|mut open| {
            open.write_all(text.as_bytes())?;
            let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
            open.set_times(FileTimes::new().set_modified(then))
        }),
        18 => {
            // Replace the tree with another one.
            let (away, new) = (home.join("away"), home.join("new"));
            let _ = fs::remove_dir_all(&away);
            fs::create_dir_all(new.join("a"))
                .and_then(|()| fs::write(new.join("a/x.lisp"), text))
                .and_then(|()| fs::rename(&root, &away))
                .and_then(|()| fs::rename(&new, &root))
        }
        _ => fs::hard_link(&path, &another),
    };
    format!("{} {} {} {:?} {done:?}", kind % 20, path.display(), another.display(), text)
}
