//! Detects files that contain Lisp.

use std::path::Path;

/// File name extensions of files without Lisp code.
const NOT_LISP: [&str; 48] = [
    "md", "markdown", "org", "rst", "texi", "texinfo", "tex", "info", "adoc", "html", "htm", "xml", "xhtml",
    "xsl", "css", "scss", "js", "mjs", "ts", "tsx", "jsx", "json", "yml", "yaml", "toml", "csv", "tsv", "c",
    "h", "cc", "cpp", "hpp", "m", "rs", "go", "py", "rb", "java", "pl", "sh", "el", "svg", "patch", "diff",
    "log", "fasl", "lock", "po",
];

/// Returns whether a file may contain Lisp, by its extension. [`is_lisp`] also checks the first
/// bytes of the text.
pub fn may_be_lisp(path: &Path) -> bool {
    path.extension().is_none_or(|ending| !NOT_LISP.iter().any(|other| ending.eq_ignore_ascii_case(other)))
}

/// Returns whether the file at `path` contains system definitions, by its name: whether it is an
/// `.asd` file.
pub fn defines_systems(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "asd")
}

/// Returns whether the extension alone identifies Lisp.
pub fn is_lisp_by_name(path: &Path) -> bool {
    path.extension().is_some_and(|ending| {
        ["lisp", "lsp", "cl", "l", "asd", "ros", "sexp"]
            .iter()
            .any(|other| ending.eq_ignore_ascii_case(other))
    })
}

/// Returns whether the file at `path`, which begins with `bytes`, is Lisp.
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
    fn first_bytes_decide_where_extension_does_not() {
        assert!(is_lisp(Path::new("a.lisp"), b"whatever"));
        assert!(is_lisp(Path::new("inc.txt"), b"\n ;; x\n(f)"));
        assert!(is_lisp(Path::new("run"), b"#!/usr/bin/sbcl --script\n"));
        assert!(!is_lisp(Path::new("run"), b"#!/bin/sh\n(cd x)"));
        assert!(!is_lisp(Path::new("notes.txt"), b"Buy milk (f)"));
        assert!(!is_lisp(Path::new("data"), b"(\0"));
    }
}
