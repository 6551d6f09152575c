//! Finds the system definitions in a `.asd` file without running it.
//!
//! ASDF evaluates these files, which runs their code. This module only searches their text for
//! `defsystem` forms. Parts that the text alone does not determine, such as `#.` forms and
//! components of custom classes, are omitted. If files or dependencies may be missing for this
//! reason, or because the system has a `:class`, [`SystemDefinition::complete`] or
//! [`SystemDefinition::dependencies_complete`] is `false`.

use super::{Datum, Dialect, Features, FormId, FormKind, LispText, Marker, Range, TokenKind};

/// The maximum depth of nested modules.
const NESTING_LIMIT: usize = 64;

/// A `defsystem` form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemDefinition {
    /// The system's name as coerced by ASDF: a string unchanged, a symbol in lower case.
    pub name: String,
    /// The range of the form.
    pub form: Range,
    /// The Lisp files of its components, with `/` between folders. They are relative to the folder
    /// of the `.asd` file, unless a `:pathname` is absolute.
    pub files: Vec<String>,
    /// The names in `:depends-on`, `:defsystem-depends-on` and `:weakly-depends-on`: systems, also
    /// with a version or a feature, and modules (`:require`).
    pub depends_on: Vec<String>,
    /// Whether `depends_on` certainly lists all dependencies.
    pub dependencies_complete: bool,
    /// Whether `files` certainly lists all files.
    pub complete: bool,
}

/// Returns the systems defined in `text`, the text of a `.asd` file, in order.
pub fn system_definitions(text: &[u8]) -> Vec<SystemDefinition> {
    let lisp = LispText::read(text, Dialect::CommonLisp, &Features::sbcl());
    let source = AsdText { text, lisp: &lisp };
    // For each form, whether it and all forms around it are lists. Definitions inside other forms,
    // such as quoted lists, are ignored, because they are data or need evaluation by the reader.
    // Parents come before their children.
    let mut in_lists: Vec<bool> = Vec::with_capacity(lisp.forms().len());
    let mut found = Vec::new();
    for (index, form) in lisp.forms().iter().enumerate() {
        let above = form.parent.map_or(Some(true), |parent| in_lists.get(parent.index()).copied());
        let in_list = above == Some(true) && form.kind == FormKind::List;
        in_lists.push(in_list);
        if in_list {
            found.extend(source.definition(FormId::new(index)));
        }
    }
    found
}

/// Returns the range of the first list in `text` that starts with `keyword` and then `names`.
pub fn clause(text: &[u8], keyword: &str, names: &[String]) -> Option<Range> {
    let lisp = LispText::read(text, Dialect::CommonLisp, &Features::sbcl());
    let source = AsdText { text, lisp: &lisp };
    let starts = |id: FormId| {
        let mut elements = lisp.elements(id);
        let first = elements.next().and_then(|datum| source.keyword(datum));
        first.as_deref() == Some(keyword)
            && names
                .iter()
                .all(|name| elements.next().and_then(|datum| source.name(datum)).as_ref() == Some(name))
    };
    let mut active = lisp.forms().iter().enumerate().filter(|(_, form)| form.active);
    active.find(|(index, _)| starts(FormId::new(*index))).map(|(_, form)| form.span)
}

struct AsdText<'a> {
    text: &'a [u8],
    lisp: &'a LispText,
}

impl AsdText<'_> {
    /// Returns the system that a list defines, if it is an active `defsystem` form.
    fn definition(&self, id: FormId) -> Option<SystemDefinition> {
        let form = self.lisp.form(id)?;
        if !form.active || !self.lisp.head(form)?.is_named(self.text, "DEFSYSTEM") {
            return None;
        }
        let mut elements = self.lisp.elements(id).skip(1);
        let mut found = SystemDefinition {
            name: self.name(elements.next()?)?,
            form: form.span,
            files: Vec::new(),
            depends_on: Vec::new(),
            dependencies_complete: true,
            complete: true,
        };
        let options = AsdOptions::new(self, elements);
        found.complete = options.plain;
        if options.get("CLASS").is_some() {
            // Systems of other classes, such as package-inferred systems, find their files by other
            // rules.
            found.complete = false;
        }
        found.dependencies_complete = found.complete;
        for key in ["DEFSYSTEM-DEPENDS-ON", "WEAKLY-DEPENDS-ON", "DEPENDS-ON"] {
            let Some(list) = options.get(key) else { continue };
            found.dependencies_complete &= self.is_nil(list) || self.is_list(list);
            for dependency in self.lisp.parts(list) {
                let name = self.dependency(dependency);
                found.dependencies_complete &= name.is_some();
                found.depends_on.extend(name);
            }
        }
        let folder = self.folder("", options.get("PATHNAME"), None, &mut found.complete);
        if let Some(components) = options.get("COMPONENTS") {
            self.components(components, &folder, NESTING_LIMIT, &mut found);
        }
        Some(found)
    }

    /// Adds the files of a list of components in `folder`. `nested` is the number of further levels
    /// of modules that are allowed.
    fn components(&self, list: Datum, folder: &str, nested: usize, found: &mut SystemDefinition) {
        let Datum::Form(list) = list else {
            found.complete &= self.is_nil(list);
            return;
        };
        if self.lisp.form(list).is_none_or(|form| form.kind != FormKind::List) {
            found.complete = false;
            return;
        }
        for component in self.lisp.elements(list) {
            let Datum::Form(id) = component else {
                found.complete = false;
                continue;
            };
            let mut elements = self.lisp.elements(id);
            let kind = elements.next().and_then(|datum| self.keyword(datum));
            let name = elements.next().and_then(|datum| self.name(datum));
            let (Some(kind), Some(name)) = (kind, name) else {
                found.complete = false;
                continue;
            };
            let options = AsdOptions::new(self, elements);
            found.complete &= options.plain;
            match kind.as_str() {
                "MODULE" => {
                    let inside =
                        self.folder(folder, options.get("PATHNAME"), Some(&name), &mut found.complete);
                    match options.get("COMPONENTS") {
                        Some(_) if nested == 0 => found.complete = false,
                        Some(components) => self.components(components, &inside, nested - 1, found),
                        None => {}
                    }
                }
                "FILE" | "CL-SOURCE-FILE" => {
                    let path = match options.get("PATHNAME") {
                        None => Some(format!("{name}.lisp")),
                        Some(given) => self.string(given),
                    };
                    match path {
                        Some(path) => found.files.push(joined(folder, &path)),
                        None => found.complete = false,
                    }
                }
                "STATIC-FILE" | "DOC-FILE" | "HTML-FILE" => {}
                // A custom class, which may represent Lisp code.
                _ => found.complete = false,
            }
        }
    }

    /// Returns the folder of the module `name` inside `outer`, or the folder of a system if `name`
    /// is `None`. This is the value of `:pathname`, relative to `outer`. Without `:pathname`, it is
    /// the folder with the module's name, or `outer` for a system. If the value is not a literal
    /// string or pathname, returns `outer` and sets `complete` to `false`.
    fn folder(
        &self,
        outer: &str,
        pathname: Option<Datum>,
        name: Option<&str>,
        complete: &mut bool,
    ) -> String {
        match (pathname, name) {
            (None, None) => outer.to_owned(),
            (None, Some(name)) => joined(outer, name),
            (Some(given), _) => match self.string(given) {
                Some(path) => joined(outer, &path),
                None => {
                    *complete = false;
                    outer.to_owned()
                }
            },
        }
    }

    /// Returns the name in a dependency: `"a"`, `(:version "a" "1")`, `(:feature :x "a")` or
    /// `(:require "a")`. `None` for any other form.
    fn dependency(&self, mut datum: Datum) -> Option<String> {
        loop {
            let Datum::Form(id) = datum else { return self.name(datum) };
            let mut elements = self.lisp.elements(id);
            match self.keyword(elements.next()?)?.as_str() {
                // `:require` names a module of the implementation.
                "VERSION" | "REQUIRE" => return self.name(elements.next()?),
                "FEATURE" => datum = elements.nth(1)?,
                _ => return None,
            }
        }
    }

    fn is_list(&self, datum: Datum) -> bool {
        matches!(datum, Datum::Form(id) if self.lisp.form(id).is_some_and(|form| form.kind == FormKind::List))
    }

    fn is_nil(&self, datum: Datum) -> bool {
        self.lisp.token(datum).is_some_and(|token| token.is_named(self.text, "NIL"))
    }

    /// Returns the name of a keyword.
    fn keyword(&self, datum: Datum) -> Option<String> {
        let token = self.lisp.token(datum).filter(|token| token.marker == Marker::Keyword)?;
        Some(token.symbol(self.text).name.into_owned())
    }

    fn string(&self, datum: Datum) -> Option<String> {
        if let Datum::Form(id) = datum {
            // #p"folder/"
            let form = self.lisp.form(id).filter(|form| form.kind == FormKind::Literal)?;
            let start = self.text.get(form.span.indices())?;
            return match start {
                [b'#', b'p' | b'P', ..] => self.string(self.lisp.elements(id).next()?),
                _ => None,
            };
        }
        let token = self.lisp.token(datum).filter(|token| token.kind == TokenKind::String)?;
        let raw = self.text.get(token.span.indices())?.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
        let mut characters = super::lines::decode(raw).into_owned().chars().collect::<Vec<_>>().into_iter();
        let mut string = String::new();
        while let Some(character) = characters.next() {
            string.extend(if character == '\\' { characters.next() } else { Some(character) });
        }
        Some(string)
    }

    /// Returns a name as coerced by ASDF: a string unchanged, a symbol in lower case.
    fn name(&self, datum: Datum) -> Option<String> {
        if let Some(string) = self.string(datum) {
            return Some(string);
        }
        let token = self.lisp.token(datum).filter(|token| token.kind == TokenKind::Symbol)?;
        Some(token.symbol(self.text).name.to_lowercase())
    }
}

/// A property list of options.
struct AsdOptions {
    pairs: Vec<(String, Datum)>,
    /// Whether the list alternates between keywords and values.
    plain: bool,
}

impl AsdOptions {
    fn new(source: &AsdText<'_>, elements: impl Iterator<Item = Datum>) -> AsdOptions {
        let mut options = AsdOptions { pairs: Vec::new(), plain: true };
        let mut elements = elements;
        while let Some(key) = elements.next() {
            let (Some(key), Some(value)) = (source.keyword(key), elements.next()) else {
                options.plain = false;
                break;
            };
            options.pairs.push((key, value));
        }
        options
    }

    fn get(&self, key: &str) -> Option<Datum> {
        self.pairs.iter().find(|(other, _)| other == key).map(|(_, value)| *value)
    }
}

fn joined(folder: &str, path: &str) -> String {
    match folder.trim_end_matches('/') {
        _ if path.starts_with('/') => path.to_owned(),
        "" => path.trim_end_matches('/').to_owned(),
        folder => format!("{folder}/{}", path.trim_end_matches('/')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(String, Vec<String>, bool)> {
        let all = system_definitions(text.as_bytes());
        all.into_iter().map(|system| (system.name, system.files, system.complete)).collect()
    }

    fn one(text: &str, name: &str, files: &[&str], complete: bool) {
        let files = files.iter().map(|&file| file.to_owned()).collect();
        assert_eq!(read(text), [(name.to_owned(), files, complete)], "{text}");
    }

    #[test]
    fn plain_definitions_are_read() {
        one("(defsystem \"a\")", "a", &[], true);
        one(
            "(asdf:defsystem #:Shop :components ((:file \"b\") (:static-file \"x.txt\")))",
            "shop",
            &["b.lisp"],
            true,
        );
        one(
            "(asdf/defsystem:defsystem a/b :pathname \"src/\" :serial t :components
               ((:module \"m\" :components ((:file \"x\") (:file \"sub/y\")))
                (:module n :pathname \"../n\" :components ((:file \"z\" :pathname \"zed.cl\")))))",
            "a/b",
            &["src/m/x.lisp", "src/m/sub/y.lisp", "src/../n/zed.cl"],
            true,
        );
        one("(eval-when (:load-toplevel) (defsystem :a))", "a", &[], true);
        one("(defsystem \"p\" :pathname #p\"lib/\" :components ((:file \"f\")))", "p", &["lib/f.lisp"], true);
        let text = "(defsystem \"a\" :depends-on (\"b\" :c (:version \"d\" \"1\") (:feature :sbcl \"e\") (:require \"f\")))";
        assert_eq!(system_definitions(text.as_bytes())[0].depends_on, ["b", "c", "d", "e", "f"]);
    }

    #[test]
    fn literal_dependencies_are_complete() {
        for (options, names, complete) in [
            (":depends-on () :defsystem-depends-on (\"a\") :weakly-depends-on (b)", &["a", "b"][..], true),
            (":depends-on (\"a\") :components ((:my-file \"c\"))", &["a"], true),
            (":depends-on (\"a\" #.(f))", &["a"], false),
            (":depends-on #.(f)", &[], false),
            (":depends-on (\"a\") :class :package-inferred-system", &["a"], false),
            ("", &[], true),
        ] {
            let found = system_definitions(format!("(defsystem \"s\" {options})").as_bytes());
            assert_eq!(found[0].depends_on, names, "{options}");
            assert_eq!(found[0].dependencies_complete, complete, "{options}");
        }
    }

    #[test]
    fn computed_parts_are_not_guessed() {
        one("(defsystem \"a\" :components #.(error \"never\"))", "a", &[], false);
        one("(defsystem \"a\" :components ((:file \"b\") #.(error \"never\")))", "a", &["b.lisp"], false);
        one("(defsystem \"a\" :class :package-inferred-system)", "a", &[], false);
        one("(defsystem \"a\" :components ((:my-file \"b\")))", "a", &[], false);
        one("(defsystem \"a\" #.(list) :components ())", "a", &[], false);
        one(
            "(defsystem \"a\" :pathname #.(error \"never\") :components ((:file \"b\")))",
            "a",
            &["b.lisp"],
            false,
        );
    }

    /// Deep nesting must not overflow the stack or take more than linear time.
    #[test]
    fn deep_nesting_is_read() {
        const DEEP: usize = 100_000;
        assert_eq!(read(&"(defsystem ".repeat(DEEP)), []);
        assert_eq!(read(&"(defsystem \"a\" ".repeat(DEEP)).len(), DEEP);
        assert_eq!(read(&"(".repeat(DEEP)), []);
        let text = format!("(defsystem \"a\" :components ({}", "(:module \"m\" :components (".repeat(DEEP));
        one(&text, "a", &[], false);
        let text = format!("(defsystem \"a\" :depends-on ({}\"b\"", "(:feature :sbcl ".repeat(DEEP));
        assert_eq!(system_definitions(text.as_bytes())[0].depends_on, ["b"]);
    }

    #[test]
    fn other_forms_are_not_definitions() {
        for text in [
            "", "(defsystem)", "'(defsystem \"a\")", "`(defsystem ,x)",
            "(defmacro m (x) `(defsystem \"a\"))", "#+ccl (defsystem \"a\")", "; (defsystem \"a\")",
            "(defsystem #.(error \"never\"))", "(list #.(defsystem \"a\"))",
        ] {
            assert_eq!(read(text), [], "{text}");
        }
        one("(defsystem \"a\" :components ((:file", "a", &[], false);
        one("#-ccl (defsystem \"a\")\n(defsystem", "a", &[], true);
    }

    #[test]
    fn clauses_are_found_by_their_first_elements() {
        let text = "; (:version \"a\" \"1\")\n#+never (:version \"a\" \"1\")\n\
                    '((:version \"a\" \"2\") (:VERSION :a \"1\"))";
        let find = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let range = clause(text.as_bytes(), "VERSION", &names)?;
            Some(&text[range.indices()])
        };
        assert_eq!(find(&["a", "1"]), Some("(:VERSION :a \"1\")"));
        assert_eq!(find(&[]), Some("(:version \"a\" \"2\")"));
        assert_eq!(find(&["b"]), None);
    }
}
