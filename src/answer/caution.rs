//! Cautions: what must be known beside an answer.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize, Serializer};

use super::{Advice, Location, OtherText, Wording, counted};

/// What must be known beside an answer. In JSON it is the sentence, with advice in terms of tools.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
#[non_exhaustive]
pub enum Caution {
    /// The symbol names a structure, from which defstruct makes other names.
    NamesStructure,
    /// The symbol names a slot of a structure, at so many places.
    NamesStructureSlot(usize),
    /// Local variables or functions have the name, so often.
    LocalsLeftOut(usize),
    /// Words of LOOP have the name, so often.
    LoopWordsLeftOut(usize),
    /// An uninterned symbol or a keyword of the name stands where names are made or looked up, at so many places.
    Designators(usize),
    /// No definition in the files that were searched names the symbol.
    NoDefinition,
    /// Macros in whose definitions the symbol stands make uses of it.
    UsesFromTemplates {
        /// How many uses.
        uses: usize,
        /// The macros, each with the place in its definition.
        macros: Vec<String>,
    },
    /// Macros make uses of the symbol from parts of names.
    UsesFromParts {
        /// How many uses.
        uses: usize,
        /// The macros, each with the parts that are known.
        macros: Vec<String>,
    },
    /// Macros make so many uses, in a way that is not known.
    UsesByMacros(usize),
    /// The function is named at these places, where the compiler records no call.
    NamedAsFunction(Vec<Location>),
    /// So many uses are not exactly placed.
    Approximate(usize),
    /// So many uses are by definitions that their files do not have any more.
    Replaced(usize),
    /// So many functions that use it were compiled without a file.
    WithoutFile(usize),
    /// So many uses were compiled when their file was read with other features.
    OtherFeatures(usize),
    /// Loaded files below the project's folder that belong to none of its systems use the symbol.
    UsedBesideProject(Vec<String>),
    /// Loaded files cannot be read.
    LoadedUnreadable(Vec<String>),
    /// The record of what stands where in these files is incomplete.
    RecordIncomplete(Vec<String>),
    /// No loaded file has this name.
    OnlyInImage(String),
    /// The symbol stands in vendored files that are not loaded.
    InVendored {
        /// How often.
        places: usize,
        /// The files.
        files: Vec<String>,
    },
    /// Files that are not loaded could not be searched: their names, maybe the first of them with a count.
    NotSearched(String),
    /// The project's folder has more files than are searched.
    TooManyFiles,
    /// A package is not loaded, so symbols of an edited text could not be checked.
    PackageNotLoaded(String),
    /// The image has no such package or symbol, which an edited text names; it is older than the files.
    NotInOldImage(String),
    /// The index of uses lacks what a load defined.
    IndexBehindLoad(String),
    /// The index of uses still has what a reload removed.
    IndexBehindRemoval(String),
    /// So many lines write the slot or place that the symbol names, which is no variable that is set.
    Written(usize),
    /// The name also stands in text that is no Lisp.
    OtherText(OtherText),
    /// Lisp said it, or an earlier answer that was kept as JSON.
    Said(String),
}

/// The most places that a caution lists.
const MOST_PLACES: usize = 10;

/// The most files of which a caution gives the names.
const MOST_FILES: usize = 5;

impl Display for Caution {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::NamesStructure => f.write_str(
                "It names a structure: defstruct makes other names from it (constructor, predicate, copier, accessors), which are symbols of their own.",
            ),
            Self::NamesStructureSlot(count) => {
                let places = counted(*count, "place", "places");
                write!(f, "It names a slot of a structure in {places}: the accessor's name is made from it.")
            }
            Self::LocalsLeftOut(count) => {
                let left_out = counted(*count, "occurrence is", "occurrences are");
                write!(f, "{left_out} left out: a local variable or function has this name there.")
            }
            Self::LoopWordsLeftOut(count) => {
                let left_out = counted(*count, "occurrence is", "occurrences are");
                write!(f, "{left_out} left out: it is a word of LOOP there.")
            }
            Self::Designators(count) => write!(
                f,
                "An uninterned symbol or keyword of this name stands in {} where names are made or looked up: code may mean it.",
                counted(*count, "place", "places")
            ),
            Self::NoDefinition => f.write_str(
                "No definition names it in the loaded files of this search: a macro makes the name, or it is defined elsewhere.",
            ),
            Self::UsesFromTemplates { uses, macros } => write!(
                f,
                "{} made by macros in whose definitions the symbol stands: they change with it there: {}.",
                counted(*uses, "use is", "uses are"),
                macros.join(", ")
            ),
            Self::UsesFromParts { uses, macros } => write!(
                f,
                "{} made by macros from parts of names: the symbol stands in none of their definitions, and no rename changes them: {}.",
                counted(*uses, "use is", "uses are"),
                macros.join(", ")
            ),
            Self::UsesByMacros(uses) => write!(
                f,
                "{} made by macros: the symbol does not stand there; change the macro's template instead.",
                counted(*uses, "use is", "uses are")
            ),
            Self::NamedAsFunction(places) => {
                let shown: Vec<String> = places.iter().take(MOST_PLACES).map(Location::to_string).collect();
                let more = places.len().saturating_sub(MOST_PLACES);
                write!(f, "It is also named as a function, from where it may be called: {}", shown.join(", "))?;
                if more > 0 { write!(f, ", and {more} more.") } else { f.write_str(".") }
            }
            Self::Approximate(uses) => {
                write!(f, "{} approximate: look before you edit.", counted(*uses, "use is", "uses are"))
            }
            Self::Replaced(uses) => write!(
                f,
                "{} by definitions that the image still holds, but that their files did not contain when they were last loaded.",
                counted(*uses, "use is", "uses are")
            ),
            Self::WithoutFile(functions) => write!(
                f,
                "It is used by {} compiled at run time, as FiveAM compiles the bodies of tests: where is not known, and no rename changes that. who-calls and its kin have the names.",
                counted(*functions, "function that was", "functions that were")
            ),
            Self::OtherFeatures(uses) => write!(
                f,
                "{} compiled when their file was read with other features: where they stand is not known.",
                counted(*uses, "use was", "uses were")
            ),
            Self::UsedBesideProject(files) => write!(
                f,
                "It is also used in {} below the project's folder that no system of the project has: {}{}.",
                counted(files.len(), "loaded file", "loaded files"),
                files[..files.len().min(MOST_FILES)].join(", "),
                if files.len() > MOST_FILES { ", …" } else { "" }
            ),
            Self::LoadedUnreadable(files) => {
                write!(f, "Files that were loaded cannot be read: {}.", files.join(", "))
            }
            Self::RecordIncomplete(files) => write!(
                f,
                "The record of what stands where is damaged or ends early, so that uses may be missing: load the system again with force. It is the record of {}.",
                files.join(", ")
            ),
            Self::OnlyInImage(name) => write!(
                f,
                "No loaded file has the name {name}: a form makes it, or only the image remembers it."
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
                "The project's folder has more files than are searched: uses in text that is not loaded may be missing.",
            ),
            Self::PackageNotLoaded(name) => write!(
                f,
                "Package {name} is not loaded, so it could not be checked whether the text's symbols can be read in it."
            ),
            Self::NotInOldImage(problem) => {
                write!(f, "{problem} Files have changed since they were loaded: reload will tell.")
            }
            Self::IndexBehindLoad(error) => write!(
                f,
                "The index of uses could not be brought up to date after this load ({error}): who-calls and its like may lack what it defined until the next load."
            ),
            Self::IndexBehindRemoval(error) => {
                write!(f, "The index of uses could not be brought up to date ({error}).")
            }
            Self::Written(lines) => write!(
                f,
                "The slot or place of this name is written in {}: ask code-find-references.",
                counted(*lines, "line", "lines")
            ),
            Self::OtherText(text) => f.write_str(&text.sentence()),
            Self::Said(sentence) => f.write_str(sentence),
        }
    }
}

impl Caution {
    /// Words the caution and what can be done about it.
    pub fn worded(&self, wording: Wording) -> String {
        match self {
            Self::UsedBesideProject(_) => format!("{self} {}", Advice::ListAll.worded(wording)),
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
        Self::Said(sentence)
    }
}
