//! Projects of tests, each in one text, also as a repository; and texts that are expected, in files beside the tests.
#![allow(dead_code)]

use std::fs;
use std::path::Path;
use std::process::Command;

/// Holds that `text` is what the file `path` of tests/ has. With `STEELBANK_BLESS=1` writes it there: read what changed
/// before you accept it.
#[track_caller]
pub(crate) fn expect(path: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(path);
    if std::env::var_os("STEELBANK_BLESS").is_some() {
        fs::write(&path, text).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    let lines = expected.lines().zip(text.lines());
    let same = lines.take_while(|(expected, found)| expected == found).count();
    let from = |text: &str| text.lines().skip(same.saturating_sub(3)).take(12).collect::<Vec<_>>().join("\n");
    assert!(
        expected == text,
        "{} differs in line {}. Expected:\n{}\nfound:\n{}\nSTEELBANK_BLESS=1 writes what was found; read it",
        path.display(),
        same + 1,
        from(&expected),
        from(text),
    );
}

/// Writes the files of `text` below `root`: a line `//- PATH` begins a file.
pub(crate) fn write_project(root: &Path, text: &str) {
    for file in format!("\n{text}").split("\n//- ").skip(1) {
        let (path, text) = file.split_once('\n').unwrap_or((file, ""));
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{}\n", text.trim_end_matches('\n'))).unwrap();
    }
}

/// Has Git do something in `folder`, whatever its user has configured.
#[track_caller]
pub(crate) fn git(folder: &Path, arguments: &[&str]) {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(["-c", "user.name=t", "-c", "user.email=t@t"]);
    command.args(["-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always"]).args(arguments);
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    let output = command.output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {output:?}");
}
