//! The text of a Lisp file as a reader without Lisp sees it: the places of names, and the packages that it
//! defines.

mod scan;

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use steelbank_reader::{Marker, Range};

/// A package as a form in a text defines it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub(crate) struct PackageText {
    /// Its name, then its nicknames.
    pub(crate) names: Vec<String>,
    /// The packages that it uses.
    pub(crate) uses: Vec<String>,
    /// The names that it imports, each with the package that it comes from.
    pub(crate) imports: Vec<(String, String)>,
    /// The names that it shadows.
    pub(crate) shadows: Vec<String>,
    /// Its local nicknames, each with the package that it means.
    pub(crate) local_nicknames: Vec<(String, String)>,
    /// Whether the form has clauses that only evaluation explains.
    pub(crate) is_open: bool,
}

/// The kind of text that a name stands in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TextContext {
    /// It is a symbol in a form.
    Code,
    /// A name in the definition of a package: one of its own, or one that it imports from `from`.
    Package {
        /// The package that is defined.
        package: Arc<str>,
        /// The package that the name is imported from.
        from: Option<Arc<str>>,
    },
    /// The name of a symbol that is looked up, in the package that is named beside it.
    Lookup(Option<Arc<str>>),
    /// A word in a string.
    Prose,
    /// A word in a string that is read as code, or that FORMAT takes a function's name from.
    Read,
    /// A word in a comment.
    Comment,
}

/// One occurrence of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) struct TextToken {
    /// All of the token, package prefix included, in bytes of the decoded text.
    pub(crate) span: Range,
    /// The offset of the name itself.
    pub(crate) name_start: u32,
    /// The package marker before the name.
    pub(crate) marker: Marker,
    /// The package prefix.
    pub(crate) prefix: Option<Arc<str>>,
    /// The package that is current at the token, as far as the text tells.
    pub(crate) package: Option<Arc<str>>,
    /// The kind of text that the token is in.
    pub(crate) context: TextContext,
    /// False if a feature expression leaves the token out.
    pub(crate) active: bool,
    /// Whether a form `(def… name)` defines the name.
    pub(crate) defines: bool,
    /// Whether the name is the operator of a list, or follows `#'`.
    pub(crate) calls: bool,
    /// Whether the name is quoted by itself, or a class that a method specializes on: then it is no local
    /// variable.
    pub(crate) names: bool,
}

/// The names of one text, with their places.
#[derive(Debug, Default)]
pub(crate) struct FileTokens {
    names: HashMap<Box<str>, Vec<TextToken>>,
    packages: Vec<PackageText>,
    size: usize,
}

impl FileTokens {
    /// Reads `text`, the decoded text of a file.
    pub(crate) fn read(text: &[u8]) -> FileTokens {
        scan::scan(text)
    }

    /// Lists the places of `name`, in order.
    pub(crate) fn named(&self, name: &str) -> &[TextToken] {
        self.names.get(name).map_or(&[], Vec::as_slice)
    }

    /// Lists all names, with their places.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&str, &[TextToken])> {
        self.names.iter().map(|(name, tokens)| (&**name, tokens.as_slice()))
    }

    /// Returns the packages that the text defines.
    pub(crate) fn packages(&self) -> &[PackageText] {
        &self.packages
    }

    /// Estimates the memory that this takes, in bytes.
    pub(crate) fn size(&self) -> usize {
        self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "(defpackage #:app (:use #:cl #:lib) (:nicknames :a) (:local-nicknames (:l :lib.long))
  (:import-from #:other #:thing) (:export #:run \"STOP\"))
(in-package :app)
(defun run (x) #+nothing (stop x) (l:go-on \"see lib:run.\" x) (uiop:symbol-call :tests :run))
(format nil \"~/fmt::pr/ and RUN\" 1) ; run it
(read-from-string \"(stop 1)\") (find-symbol \"RUN\" :app)
(q \"app::begin\") (q \"see app::begin\")
";

    fn tokens() -> FileTokens {
        FileTokens::read(TEXT.as_bytes())
    }

    #[track_caller]
    fn check(name: &str, expected: &[(&str, TextContext, bool)]) {
        let tokens = tokens();
        let found: Vec<_> = tokens
            .named(name)
            .iter()
            .map(|token| (&TEXT[token.span.indices()], token.context.clone(), token.active))
            .collect();
        assert_eq!(found, expected, "{name}");
    }

    #[test]
    fn names_are_found_with_what_they_stand_in() {
        let own = TextContext::Package { package: "APP".into(), from: None };
        check(
            "RUN",
            &[
                ("#:run", own.clone(), true),
                ("run", TextContext::Code, true),
                ("lib:run", TextContext::Prose, true),
                (":run", TextContext::Lookup(Some("TESTS".into())), true),
                ("RUN", TextContext::Prose, true),
                ("run", TextContext::Comment, true),
                ("\"RUN\"", TextContext::Lookup(Some("APP".into())), true),
            ],
        );
        check(
            "STOP",
            &[("\"STOP\"", own, true), ("stop", TextContext::Code, false), ("stop", TextContext::Read, true)],
        );
        let imported = TextContext::Package { package: "APP".into(), from: Some("OTHER".into()) };
        check("THING", &[("#:thing", imported, true)]);
        check("PR", &[("fmt::pr", TextContext::Read, true)]);
        check("BEGIN", &[("app::begin", TextContext::Read, true), ("app::begin", TextContext::Prose, true)]);
        check(
            "X",
            &[
                ("x", TextContext::Code, true),
                ("x", TextContext::Code, false),
                ("x", TextContext::Code, true),
            ],
        );
        check("GO-ON", &[("l:go-on", TextContext::Code, true)]);
    }

    #[test]
    fn packages_are_read_from_their_definitions() {
        let tokens = tokens();
        let [package] = tokens.packages() else { panic!("{:?}", tokens.packages()) };
        assert_eq!(package.names, ["APP", "A"]);
        assert_eq!(package.uses, ["CL", "LIB"]);
        assert_eq!(package.imports, [("THING".to_owned(), "OTHER".to_owned())]);
        assert_eq!(package.local_nicknames, [("L".to_owned(), "LIB.LONG".to_owned())]);
        assert!(!package.is_open);
    }

    #[test]
    fn the_current_package_and_prefixes_are_kept() {
        let tokens = tokens();
        let run = &tokens.named("RUN")[1];
        assert_eq!(run.package.as_deref(), Some("APP"));
        let go = &tokens.named("GO-ON")[0];
        assert_eq!((go.prefix.as_deref(), go.marker), (Some("L"), Marker::External));
    }
}
