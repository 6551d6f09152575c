//! The uses of one symbol that the compiler recorded, file by file, and where in the file each of them stands.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::designator::FunctionName;
use super::nearest::typed;
use crate::project::FileVersion;
use crate::source::positions::{Evidence, Occurrence, Placement, PositionedFile, SearchTarget, XrefRecord};
use crate::source::tap::roles::SyntaxRole;
use crate::source::tap::sidecar::UseKind;
use steelbank_reader::Range;
use steelbank_xref::{FunctionKind, Index, Kind, NameRole, Symbol};

/// A symbol whose uses are looked for.
pub(super) struct SymbolUses<'a> {
    index: &'a Index,
    symbol: Symbol,
    function_name: FunctionName,
    sought: SearchTarget,
}

/// A use as the index has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RecordedUse {
    pub(super) kind: Kind,
    /// The number of the top-level form in its file.
    pub(super) form: Option<u32>,
    /// The number of the sub-form in it.
    pub(super) number: Option<u32>,
    /// Where the top-level form starts, in bytes, counted before the white space in front of it.
    pub(super) bytes: Option<u32>,
    /// The function that contains the use; none if it has no name.
    pub(super) caller: Option<String>,
    /// Whether top-level code makes the use; SBCL keeps no record of those.
    pub(super) toplevel: bool,
}

/// A use, and where it stands: nowhere if the file has no such form any more.
pub(super) struct PlacedUse {
    pub(super) recorded: RecordedUse,
    pub(super) placements: Vec<Placement>,
}

/// What the compiler recorded of a symbol.
#[derive(Default)]
pub(super) struct RecordedUses {
    /// By file.
    pub(super) files: BTreeMap<FileVersion, Vec<RecordedUse>>,
    /// The kinds of use anywhere, in other files too.
    pub(super) kinds: BTreeSet<Kind>,
}

impl<'a> SymbolUses<'a> {
    /// The uses of `symbol`, or of the function with a name made from it.
    pub(super) fn new(index: &'a Index, symbol: Symbol, function_name: FunctionName) -> Self {
        let package = index.symbol_package(symbol);
        let sought = SearchTarget {
            package: package.map(|package| index.package_name(package).into_owned()).unwrap_or_default(),
            name: index.symbol_name(symbol).into_owned(),
        };
        Self { index, symbol, function_name, sought }
    }

    pub(super) fn symbol(&self) -> Symbol {
        self.symbol
    }

    pub(super) fn sought(&self) -> &SearchTarget {
        &self.sought
    }

    /// Prints the symbol, inside a list if one was asked for.
    pub(super) fn text(&self) -> String {
        self.function_name.text(self.index.symbol_text(self.symbol))
    }

    /// Writes the name as a person does, inside a list if one was asked for.
    pub(super) fn typed(&self) -> String {
        let symbol = typed(self.index, self.symbol);
        self.function_name.head().map_or(symbol.clone(), |head| format!("({} {symbol})", head.to_lowercase()))
    }

    /// Whether every occurrence of the symbol counts, and not only the uses of one function made from it.
    pub(super) fn with_text(&self) -> bool {
        self.function_name == FunctionName::Plain
    }

    /// Whether the symbol is what its name means in a package, which is given by name or nickname.
    pub(super) fn means(&self, package: &str) -> bool {
        let package = self.index.find_package(package, None);
        package
            .and_then(|package| self.index.find_symbol(&self.sought.name, package))
            .is_some_and(|(found, _)| found == self.symbol)
    }

    /// Whether there is a package of that name or nickname.
    pub(super) fn exists(&self, package: &str) -> bool {
        self.index.find_package(package, None).is_some()
    }

    /// Whether a record of this role belongs to the function name that was asked for: F unites F, (SETF F),
    /// (CAS F), its compiler macro and its methods.
    pub(super) fn accepts(&self, role: NameRole) -> bool {
        match self.function_name {
            FunctionName::Plain => role.denotes_function(),
            FunctionName::Setf => role == NameRole::Setf,
            FunctionName::Cas => role == NameRole::Cas,
            FunctionName::CompilerMacro => role == NameRole::CompilerMacro,
        }
    }

    /// Collects what the compiler recorded in the files that `wanted` accepts by path and write date.
    pub(super) fn recorded(&self, wanted: impl Fn(&Path, u64) -> bool) -> RecordedUses {
        let mut recorded = RecordedUses::default();
        for kind in Kind::ALL {
            for found in self.index.who(kind, self.symbol, |role| self.accepts(role)) {
                recorded.kinds.insert(kind);
                let Some(file) = &found.file else { continue };
                let path = Path::new(file.as_ref());
                if wanted(path, found.file_written) {
                    let version = FileVersion { path: path.to_path_buf(), write_date: found.file_written };
                    recorded.files.entry(version).or_default().push(RecordedUse {
                        kind,
                        form: found.toplevel_form,
                        number: found.form,
                        bytes: found.offset,
                        caller: (found.kind != FunctionKind::Lambda).then(|| found.function.into_owned()),
                        toplevel: false,
                    });
                }
            }
        }
        recorded
    }

    /// Finds where the symbol stands in text that was read, not left out by features. Needs the file's
    /// sidecar.
    pub(super) fn occurrences(&self, file: &PositionedFile) -> Vec<Occurrence> {
        match self.with_text() {
            true => file.occurrences(&self.sought, &|package| self.means(package)),
            false => Vec::new(),
        }
    }

    /// Finds where the symbol is the operator of a list that top-level code evaluates.
    pub(super) fn toplevel_operators(&self, file: &PositionedFile) -> Vec<Range> {
        file.toplevel_operators(&self.sought, &|package| self.means(package))
    }

    /// Finds where the uses `recorded` of `file` stand, and those by top-level code, of which SBCL keeps no
    /// record.
    ///
    /// All records of the file are to be given together: what one of them surely means is no other's.
    pub(super) fn place(
        &self,
        file: &PositionedFile,
        occurrences: &[Occurrence],
        mut recorded: Vec<RecordedUse>,
    ) -> Vec<PlacedUse> {
        let setf = match self.function_name {
            FunctionName::Plain => None,
            FunctionName::Setf => Some(true),
            // The compiler does not tell them from the function's uses.
            FunctionName::Cas | FunctionName::CompilerMacro => Some(false),
        };
        if setf != Some(false) {
            let found = file.toplevel_uses(&self.sought, setf, &|package| self.means(package));
            recorded.extend(found.into_iter().map(|found| RecordedUse {
                kind: kind(found.kind),
                form: Some(found.form),
                number: Some(found.number),
                bytes: None,
                caller: None,
                toplevel: true,
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

fn numbered(recorded: &RecordedUse) -> Option<XrefRecord> {
    Some(XrefRecord {
        kind: numbered_kind(recorded.kind)?,
        form: recorded.form?,
        number: recorded.number?,
        bytes: recorded.bytes,
    })
}

/// Places a method that specializes on the class: its record tells no more than the top-level form.
fn specializer(file: &PositionedFile, occurrences: &[Occurrence], recorded: &RecordedUse) -> Vec<Placement> {
    let named = occurrences
        .iter()
        .find(|found| Some(found.form) == recorded.form && found.role == SyntaxRole::Class)
        .map(|found| found.range);
    // The operator, if the method comes from a macro's expansion.
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

/// Converts to the kinds that the compiler numbers; None for methods that specialize, which CLOS knows.
fn numbered_kind(kind: Kind) -> Option<UseKind> {
    match kind {
        Kind::Calls => Some(UseKind::Calls),
        Kind::Macroexpands => Some(UseKind::Macroexpands),
        Kind::Binds => Some(UseKind::Binds),
        Kind::References => Some(UseKind::References),
        Kind::Sets => Some(UseKind::Sets),
        Kind::Specializes => None,
    }
}

fn kind(kind: UseKind) -> Kind {
    match kind {
        UseKind::Calls => Kind::Calls,
        UseKind::Macroexpands => Kind::Macroexpands,
        UseKind::Binds => Kind::Binds,
        UseKind::References => Kind::References,
        UseKind::Sets => Kind::Sets,
    }
}
