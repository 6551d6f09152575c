//! Collects the compiler's records of one symbol, file by file, and places each record in the
//! source text.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::who::SetfUse;
use crate::answer::LispName;
use crate::answer::designator::{FunctionName, PrintedName};
use crate::answer::package_owner::PackageOwner;
use crate::source::positions::{Evidence, Occurrence, Placement, PositionedFile, XrefRecord};
use crate::source::tap::roles::SyntaxRole;
use crate::workspace::{FileVersion, Project, TreeView};
use steelbank_reader::upcase;
use steelbank_text::WordMatch;
use steelbank_xref::{Index, Kind, NameRole, Symbol, SymbolName, Use};

/// Finds the uses of a symbol in the index of one image.
pub(crate) struct SymbolUses<'a> {
    index: &'a Index,
    symbol: Symbol,
    function_name: FunctionName,
    sought: SymbolName,
}

/// Whether SBCL named an unnamed function after the file `source` or its compiled file, as it does
/// for code that runs at load time: `(LAMBDA () :IN "…/tests.fasl")`.
pub(super) fn compiled_from(function: &str, source: &Path) -> bool {
    let within = PrintedName::parse(function).within.unwrap_or_default().trim_matches('"');
    let stem = |path: &Path| path.with_extension("").into_os_string().into_encoded_bytes();
    stem(Path::new(within)).ends_with(&stem(source))
}

/// A use that the compiler recorded, or a use by top-level code from the sidecar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecordedUse {
    pub(crate) kind: Kind,
    /// The number of the top-level form in its file.
    pub(crate) form: Option<u32>,
    /// The number of the subform within the top-level form.
    pub(crate) number: Option<u32>,
    /// The byte offset of the top-level form, including the white space before it.
    pub(crate) bytes: Option<u32>,
    /// The printed name of the function that contains the use. `None`: top-level code contains it.
    pub(crate) caller: Option<String>,
    /// Whether top-level code contains the use. SBCL does not record such uses; they come from the
    /// sidecar.
    pub(crate) toplevel: bool,
    /// Whether `(SETF F)` is used instead of F.
    pub(crate) setf: bool,
}

impl RecordedUse {
    /// Copies a use from the index.
    pub(crate) fn read(found: Use<'_>, kind: Kind, setf: bool) -> Self {
        Self {
            kind,
            form: found.toplevel_form,
            number: found.form,
            bytes: found.offset,
            caller: Some(found.function.into_owned()),
            toplevel: false,
            setf,
        }
    }

    /// Whether F or (SETF F) is used.
    pub(crate) fn called(&self) -> SetfUse {
        if self.setf { SetfUse::Setf } else { SetfUse::Itself }
    }
}

/// A use with its placements. They are empty if the record does not identify a form, or if the file
/// no longer has the form.
pub(crate) struct PlacedUse {
    pub(crate) recorded: RecordedUse,
    pub(crate) placements: Vec<Placement>,
}

/// The compiler's records of a symbol.
#[derive(Default)]
pub(crate) struct RecordedUses {
    /// The records by file.
    pub(crate) files: BTreeMap<FileVersion, Vec<RecordedUse>>,
    /// The kinds of use in all files, including files that were not requested.
    pub(crate) kinds: BTreeSet<Kind>,
    /// Functions that use the symbol and were compiled without a file, each with the kind of use.
    /// FiveAM, for example, compiles the bodies of tests at run time.
    pub(crate) without_file: BTreeSet<(String, Kind)>,
}

impl<'a> SymbolUses<'a> {
    /// Creates the search for the uses of `symbol`, or of a function name such as (SETF symbol).
    pub(crate) fn new(index: &'a Index, symbol: Symbol, function_name: FunctionName) -> Self {
        Self { index, symbol, function_name, sought: index.full_name(symbol) }
    }

    pub(crate) fn symbol(&self) -> Symbol {
        self.symbol
    }

    pub(crate) fn sought(&self) -> &SymbolName {
        &self.sought
    }

    pub(crate) fn function_name(&self) -> FunctionName {
        self.function_name
    }

    /// Returns the index that contains the symbol.
    pub(crate) fn index(&self) -> &Index {
        self.index
    }

    /// Returns the symbol, or the requested function name such as (SETF symbol).
    pub(crate) fn name(&self) -> LispName {
        LispName::new(self.index, self.function_name.text(self.index.symbol_text(self.symbol)))
    }

    /// Whether the symbol belongs to the standard, SBCL, ASDF or steelbank, and not to the user.
    pub(crate) fn is_standard(&self) -> bool {
        PackageOwner::of(&self.sought.package) != PackageOwner::User
    }

    /// Whether occurrences in the text are uses as well. For a function name such as (SETF F), only
    /// [`RecordedUse`]s count.
    pub(crate) fn with_text(&self) -> bool {
        self.function_name == FunctionName::Plain
    }

    /// Whether the name denotes the symbol in a package, given by name or nickname.
    pub(crate) fn means(&self, package: &str) -> bool {
        self.index.symbol_named(package, &self.sought.name).is_some_and(|(found, _)| found == self.symbol)
    }

    /// Finds the words in the project's non-Lisp text that spell the name, without a prefix or with
    /// one that denotes the symbol. Returns `None` if the text cannot be searched.
    pub(crate) fn words(&self, project: &Project, now: &TreeView) -> Option<Vec<WordMatch>> {
        let mut words = project.words(now, &self.sought.name)?;
        let is_meant = |prefix: &String| self.means(&prefix.chars().map(upcase).collect::<String>());
        words.retain(|word| word.prefix.as_ref().is_none_or(is_meant));
        Some(words)
    }

    /// Finds such words that hardly mean anything else: with a prefix, or for a name with a hyphen
    /// or an asterisk. A name such as COLUMN is an English word, too.
    pub(crate) fn distinct_words(&self, project: &Project, now: &TreeView) -> Vec<WordMatch> {
        let mut words = self.words(project, now).unwrap_or_default();
        let is_distinct = self.sought.name.contains(['-', '*']);
        words.retain(|word| is_distinct || word.prefix.is_some());
        words
    }

    /// Whether a package with that name or nickname exists.
    pub(crate) fn exists(&self, package: &str) -> bool {
        self.index.find_package(package, None).is_some()
    }

    /// Whether a record with this role belongs to the requested function name. F includes (SETF F),
    /// (CAS F), its compiler macro and its methods.
    pub(crate) fn accepts(&self, role: NameRole) -> bool {
        match self.function_name {
            FunctionName::Plain => role.denotes_function(),
            FunctionName::Setf => role == NameRole::Setf,
            FunctionName::Cas => role == NameRole::Cas,
            FunctionName::CompilerMacro => role == NameRole::CompilerMacro,
        }
    }

    /// Collects the compiler's records in the files that `wanted` accepts by path and write date.
    pub(crate) fn recorded(&self, wanted: impl Fn(&Path, u64) -> bool) -> RecordedUses {
        let mut recorded = RecordedUses::default();
        for (kind, setf) in Kind::ALL.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
            let accepts = |role| self.accepts(role) && (role == NameRole::Setf) == setf;
            for found in self.index.who(kind, self.symbol, accepts) {
                recorded.kinds.insert(kind);
                let Some(file) = &found.file else {
                    // CLOS generates accessor methods without a file.
                    if kind != Kind::Specializes {
                        recorded.without_file.insert((found.function.into_owned(), kind));
                    }
                    continue;
                };
                let path = Path::new(file.as_ref());
                if wanted(path, found.file_written) {
                    let version = FileVersion { path: path.to_path_buf(), write_date: found.file_written };
                    recorded.files.entry(version).or_default().push(RecordedUse::read(found, kind, setf));
                }
            }
        }
        recorded
    }

    /// Finds the symbol's tokens in text that SBCL read. Returns nothing if the file has no
    /// sidecar, or for a function name such as (SETF F).
    pub(crate) fn occurrences(&self, file: &PositionedFile) -> Vec<Occurrence> {
        match self.with_text() {
            true => file.occurrences(&self.sought, &|package| self.means(package)),
            false => Vec::new(),
        }
    }

    /// Places the records `recorded` of `file`. Adds the uses by top-level code, which SBCL does
    /// not record.
    ///
    /// Pass all records of the file together: a token that one record claims for certain is not
    /// available to the others.
    pub(crate) fn place(
        &self,
        file: &PositionedFile,
        occurrences: &[Occurrence],
        mut recorded: Vec<RecordedUse>,
    ) -> Vec<PlacedUse> {
        let wanted: &[bool] = match self.function_name {
            FunctionName::Plain => &[false, true],
            FunctionName::Setf => &[true],
            // Top-level uses do not distinguish these from uses of the function.
            FunctionName::Cas | FunctionName::CompilerMacro => &[],
        };
        for &setf in wanted {
            let found = file.toplevel_uses(&self.sought, Some(setf), &|package| self.means(package));
            recorded.extend(found.into_iter().map(|found| RecordedUse {
                kind: found.kind,
                form: Some(found.form),
                number: Some(found.number),
                bytes: None,
                caller: None,
                toplevel: true,
                setf,
            }));
        }
        let numbered: Vec<Option<XrefRecord>> = recorded.iter().map(numbered).collect();
        let together: Vec<XrefRecord> = numbered.iter().copied().flatten().collect();
        let mut placed = file.place(&self.sought, &together, &|package| self.means(package)).into_iter();
        recorded
            .into_iter()
            .zip(numbered)
            .map(|(recorded, numbered)| {
                let placements = match (recorded.kind, numbered) {
                    (Kind::Specializes, _) => specializer(file, occurrences, &recorded),
                    (_, Some(_)) => placed.next().unwrap_or_default(),
                    (_, None) => Vec::new(),
                };
                PlacedUse { recorded, placements }
            })
            .collect()
    }
}

/// Converts a record for placement by form numbers. Returns `None` for a method that specializes on
/// the class, because CLOS reports no number of a subform, and for other records without form
/// numbers.
fn numbered(recorded: &RecordedUse) -> Option<XrefRecord> {
    Some(XrefRecord {
        kind: Some(recorded.kind).filter(|kind| *kind != Kind::Specializes)?,
        form: recorded.form?,
        number: recorded.number?,
        bytes: recorded.bytes,
    })
}

/// Places a method that specializes on the class. Its record has only the top-level form.
fn specializer(file: &PositionedFile, occurrences: &[Occurrence], recorded: &RecordedUse) -> Vec<Placement> {
    // The occurrences are sorted, so those of a form are consecutive.
    let before = occurrences.partition_point(|found| Some(found.form) < recorded.form);
    let named = occurrences[before..]
        .iter()
        .take_while(|found| Some(found.form) == recorded.form)
        .find(|found| found.role == SyntaxRole::Class)
        .map(|found| found.range);
    // If the class is not in the form, a macro at the top level generates the method.
    let expander = recorded.form.and_then(|form| file.form_expander(form));
    let place = named.or_else(|| file.form_range(recorded.form?, 0));
    let placement = place.map(|place| match (named.is_some(), expander) {
        _ if !file.is_fresh() => Placement::new(place, Evidence::Approximate),
        (true, _) => Placement::new(place, Evidence::Exact),
        (false, Some(expander)) => Placement::via(place, expander),
        (false, None) => Placement::new(place, Evidence::Approximate),
    });
    placement.into_iter().collect()
}
