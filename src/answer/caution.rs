//! Cautions: notes that accompany an answer because it may be incomplete or easily misread. Each is
//! an enum variant with its data, so that Rust code such as `rename` can react to it; users and
//! JSON get the sentence.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize, Serializer};

use super::{Advice, Location, OtherText, Wording, counted};

/// A note about the limits of an answer. Serializes as its sentence, with advice in terms of tools.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
#[non_exhaustive]
pub enum Caution {
    /// The symbol names a structure, from which defstruct derives other names.
    NamesStructure,
    /// The symbol names a structure slot, in this number of places.
    NamesStructureSlot(usize),
    /// This number of occurrences were omitted because they are local variables or functions.
    LocalsOmitted(usize),
    /// This number of occurrences were omitted because they are keywords of LOOP.
    LoopKeywordsOmitted(usize),
    /// In this number of places, code uses an uninterned symbol or keyword with the symbol's name
    /// to intern or look up a name.
    Designators(usize),
    /// No definition in the searched files names the symbol.
    NoDefinition,
    /// Macros with the symbol in their definitions generate uses of the symbol.
    UsesFromTemplates {
        /// The number of uses.
        uses: usize,
        /// The macros, each with the symbol's location in its definition.
        macros: Vec<String>,
    },
    /// Macros that concatenate parts of names generate uses of the symbol.
    UsesFromNameParts {
        /// The number of uses.
        uses: usize,
        /// The macros, each with the name parts that were found.
        macros: Vec<String>,
    },
    /// Macros generate this number of uses in an unknown way.
    UsesByMacros(usize),
    /// This number of uses have only an approximate location.
    Approximate(usize),
    /// This number of uses are in definitions that are no longer in their files.
    Replaced(usize),
    /// This number of functions that use the symbol were compiled without a file.
    WithoutFile(usize),
    /// This number of uses were compiled when their file was read with other features.
    OtherFeatures(usize),
    /// Loaded files in the project's folder that belong to none of its systems use the symbol.
    UsedOutsideSystems(Vec<String>),
    /// Loaded files cannot be read.
    LoadedUnreadable(Vec<String>),
    /// The recorded positions of these files are incomplete or damaged.
    PositionsIncomplete(Vec<String>),
    /// No loaded file contains this name.
    OnlyInImage(String),
    /// The symbol is in vendored files that are not loaded.
    InVendored {
        /// The number of places.
        places: usize,
        /// The files.
        files: Vec<String>,
    },
    /// Files that are not loaded could not be searched: their names, possibly shortened to the
    /// first few and a count.
    NotSearched(String),
    /// The project has more files than the search limit.
    TooManyFiles,
    /// A package is not loaded, so the symbols of an edited text were not checked.
    PackageNotLoaded(String),
    /// The image lacks a package or symbol that an edited text names. The image is older than the
    /// files.
    NotInStaleImage(String),
    /// The index of uses lacks definitions of a load, because the update failed with this error.
    IndexStaleAfterLoad(String),
    /// The index of uses still has definitions that a reload removed, because the update failed
    /// with this error.
    IndexStaleAfterRemoval(String),
    /// Leftover definitions were not removed, because the reload failed.
    NothingRemoved,
    /// This number of lines write the slot or place that the symbol names, but assign no variable
    /// of that name.
    Written(usize),
    /// This number of lines of loaded code quote the symbol, or pass it to a macro.
    Unclear(usize),
    /// Code still uses a definition that was deleted.
    RemainingUses {
        /// The name of the definition.
        name: String,
        /// The number of lines that use it.
        lines: usize,
        /// The first of these lines.
        first: Location,
    },
    /// The name also occurs in text that is not Lisp.
    OtherText(OtherText),
    /// The name also occurs among other words in strings.
    Strings(OtherText),
    /// A message of Lisp, or a caution of an earlier answer that was stored as JSON.
    Text(String),
}

/// The maximum number of files that a caution lists.
const MOST_FILES: usize = 5;

impl Display for Caution {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::NamesStructure => f.write_str(
                "The symbol names a structure. defstruct derives other symbols from it (constructor, predicate, copier, accessors); their uses are not included.",
            ),
            Self::NamesStructureSlot(count) => {
                let places = counted(*count, "place", "places");
                write!(f, "The symbol names a structure slot in {places}. defstruct derives the accessor's name from it.")
            }
            Self::LocalsOmitted(count) => {
                let left_out = counted(*count, "occurrence is", "occurrences are");
                write!(f, "{left_out} left out: a local variable or function has this name there.")
            }
            Self::LoopKeywordsOmitted(count) => {
                let left_out = counted(*count, "occurrence is", "occurrences are");
                write!(f, "{left_out} left out: the name is a LOOP keyword there.")
            }
            Self::Designators(count) => write!(
                f,
                "In {}, an uninterned symbol or keyword of this name is used to intern or look up a name, which may be this symbol.",
                counted(*count, "place", "places")
            ),
            Self::NoDefinition => f.write_str(
                "The loaded files in this search do not contain the symbol's definition: a macro generates the name, or it is defined elsewhere.",
            ),
            Self::UsesFromTemplates { uses, macros } => write!(
                f,
                "{} generated by macros with the symbol in their definitions: {}.",
                counted(*uses, "use is", "uses are"),
                macros.join(", ")
            ),
            Self::UsesFromNameParts { uses, macros } => write!(
                f,
                "{} generated by macros that build names from parts: {}. The symbol is not in their definitions, so a rename does not change these uses.",
                counted(*uses, "use is", "uses are"),
                macros.join(", ")
            ),
            Self::UsesByMacros(uses) => write!(
                f,
                "{} generated by macros, without a token to edit there. Change the macro's template instead.",
                counted(*uses, "use is", "uses are")
            ),
            Self::Approximate(uses) => {
                write!(f, "{} at an approximate location: check the source before you edit.", counted(*uses, "use is", "uses are"))
            }
            Self::Replaced(uses) => write!(
                f,
                "{} in definitions that the image still holds but that were not in their files at the last load.",
                counted(*uses, "use is", "uses are")
            ),
            Self::WithoutFile(functions) => write!(
                f,
                "The symbol is used by {} compiled at run time, as FiveAM compiles test bodies: their locations are unknown, and a rename does not change them. who-calls and the other who- tools list them.",
                counted(*functions, "function that was", "functions that were")
            ),
            Self::OtherFeatures(uses) => write!(
                f,
                "{} compiled when their file was read with other features: their locations are unknown.",
                counted(*uses, "use was", "uses were")
            ),
            Self::UsedOutsideSystems(files) => write!(
                f,
                "It is also used in {} below the project's folder that no system of the project has: {}{}.",
                counted(files.len(), "loaded file", "loaded files"),
                files[..files.len().min(MOST_FILES)].join(", "),
                if files.len() > MOST_FILES { ", …" } else { "" }
            ),
            Self::LoadedUnreadable(files) => {
                write!(f, "Files that were loaded cannot be read: {}.", files.join(", "))
            }
            Self::PositionsIncomplete(files) => write!(
                f,
                "The recorded positions are damaged or incomplete, so uses may be missing: load the system again with force. Affected: {}.",
                files.join(", ")
            ),
            Self::OnlyInImage(name) => write!(
                f,
                "No loaded file contains the name {name}: a form generates it, or it exists only in the image."
            ),
            Self::InVendored { places, files } => write!(
                f,
                "The symbol is also in {} of vendored files that are not loaded: {}{}.",
                counted(*places, "place", "places"),
                files[..files.len().min(MOST_FILES)].join(", "),
                if files.len() > MOST_FILES { ", …" } else { "" }
            ),
            Self::NotSearched(files) => {
                write!(f, "Files that are not loaded could not be searched: {files}.")
            }
            Self::TooManyFiles => f.write_str(
                "The project has more files than the search limit, so uses in text that is not loaded may be missing.",
            ),
            Self::PackageNotLoaded(name) => write!(
                f,
                "Package {name} is not loaded, so the symbols in the new text were not checked."
            ),
            Self::NotInStaleImage(problem) => {
                write!(f, "{problem} Files have changed since they were loaded, so this may be wrong; reload to check.")
            }
            Self::IndexStaleAfterLoad(error) => write!(
                f,
                "The index of uses could not be updated after this load ({error}); until the next load, who-calls and similar tools may lack its definitions."
            ),
            Self::IndexStaleAfterRemoval(error) => {
                write!(f, "The index of uses could not be updated ({error}); it may still list removed definitions.")
            }
            Self::NothingRemoved => f.write_str("Nothing was removed, because the load failed."),
            Self::RemainingUses { name, lines, first } => {
                write!(f, "{name} is still used in {}, first {first}.", counted(*lines, "line", "lines"))
            }
            Self::Written(lines) => write!(
                f,
                "The slot or place of this name is written in {}; call code-find-references to list them.",
                counted(*lines, "line", "lines")
            ),
            Self::Unclear(lines) => write!(
                f,
                "Loaded code quotes the name or passes it to a macro in {}; call code-find-references to list them.",
                counted(*lines, "line", "lines")
            ),
            Self::OtherText(text) => f.write_str(&text.sentence()),
            Self::Strings(strings) => {
                write!(f, "The name is also in strings that code may read: {}", strings.listed())
            }
            Self::Text(sentence) => f.write_str(sentence),
        }
    }
}

impl Caution {
    /// Returns the sentence, with advice if there is any.
    pub fn worded(&self, wording: Wording) -> String {
        match self {
            Self::UsedOutsideSystems(_) => format!("{self} {}", Advice::ListAll.worded(wording)),
            Self::InVendored { .. } => format!("{self} {}", Advice::ListText.worded(wording)),
            _ => self.to_string(),
        }
    }
}

impl Serialize for Caution {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.worded(Wording::Tools))
    }
}

impl From<String> for Caution {
    fn from(sentence: String) -> Self {
        Self::Text(sentence)
    }
}
