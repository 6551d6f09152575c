//! Detects files that contain Common Lisp.

use std::path::Path;

/// File name extensions of files without Common Lisp code.
const NOT_LISP: [&str; 48] = [
    "md", "markdown", "org", "rst", "texi", "texinfo", "tex", "info", "adoc", "html", "htm", "xml", "xhtml",
    "xsl", "css", "scss", "js", "mjs", "ts", "tsx", "jsx", "json", "yml", "yaml", "toml", "csv", "tsv", "c",
    "h", "cc", "cpp", "hpp", "m", "rs", "go", "py", "rb", "java", "pl", "sh", "el", "svg", "patch", "diff",
    "log", "fasl", "lock", "po",
];

/// File name extensions of backups and rejected patches.
const BACKUP: [&str; 5] = ["bak", "orig", "old", "rej", "swp"];

/// Returns whether a file is a copy that an editor or a merge left behind, by its name: a backup
/// (`a.lisp~`, `a.bak`), an autosave (`#a.lisp#`) or a rejected patch.
pub fn is_backup(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.as_encoded_bytes()).unwrap_or_default();
    name.ends_with(b"~") || (name.starts_with(b"#") && name.ends_with(b"#")) || has_extension(path, &BACKUP)
}

/// Returns whether the extension of `path` is one of `extensions`, in any case.
fn has_extension(path: &Path, extensions: &[&str]) -> bool {
    path.extension().is_some_and(|ending| extensions.iter().any(|other| ending.eq_ignore_ascii_case(other)))
}

/// Returns whether a file may contain Common Lisp, by its name. If so, [`is_lisp`] checks its
/// extension and the first bytes of its text.
pub fn may_be_lisp(path: &Path) -> bool {
    !is_backup(path) && !has_extension(path, &NOT_LISP)
}

/// Returns whether the file at `path` contains system definitions, by its name: whether it is an
/// `.asd` file.
pub fn defines_systems(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "asd")
}

/// Returns whether the extension alone identifies Lisp.
pub fn is_lisp_by_name(path: &Path) -> bool {
    has_extension(path, &["lisp", "lsp", "cl", "l", "asd", "ros", "sexp"])
}

/// Returns whether the file at `path`, which begins with `bytes`, is Common Lisp.
pub fn is_lisp(path: &Path, bytes: &[u8]) -> bool {
    if is_lisp_by_name(path) {
        return true;
    }
    let beginning = &bytes[..bytes.len().min(4096)];
    if beginning.contains(&0) {
        return false;
    }
    let beginning = beginning.strip_prefix(b"\xef\xbb\xbf").unwrap_or(beginning).trim_ascii_start();
    if beginning.starts_with(b"#!") {
        let line = beginning.split(|&byte| byte == b'\n').next().unwrap_or_default();
        return ["sbcl", "lisp", "ros", "ecl", "ccl", "cl-launch"]
            .iter()
            .any(|name| line.windows(name.len()).any(|part| part == name.as_bytes()));
    }
    [&b"("[..], b";", b"#|", b"#+", b"#-", b"#.", b"'(", b"`("]
        .iter()
        .any(|start| beginning.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backups_are_not_lisp() {
        for name in ["a.lisp~", "#a.lisp#", "a.lisp.orig", "a.BAK", "a.old", "a.lisp.rej", "dir/b~"] {
            assert!(is_backup(Path::new(name)) && !may_be_lisp(Path::new(name)), "{name}");
        }
        for name in ["a.lisp", "old.lisp", "#a.lisp", "bak"] {
            assert!(!is_backup(Path::new(name)) && may_be_lisp(Path::new(name)), "{name}");
        }
    }

    #[test]
    fn first_bytes_decide_where_extension_does_not() {
        assert!(is_lisp(Path::new("a.lisp"), b"whatever"));
        assert!(is_lisp(Path::new("inc.txt"), b"\n ;; x\n(f)"));
        assert!(is_lisp(Path::new("run"), b"#!/usr/bin/sbcl --script\n"));
        assert!(!is_lisp(Path::new("run"), b"#!/bin/sh\n(cd x)"));
        assert!(!is_lisp(Path::new("notes.txt"), b"Buy milk (f)"));
        assert!(!is_lisp(Path::new("data"), b"(\0"));
    }
}
