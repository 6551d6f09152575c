//! The source location of a definition, as Lisp reports it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::location::{Location, as_text};

/// The source location of a definition. Answers serialize only `place` and `stale`. Rust computes
/// these and `native` from the fields that Lisp sends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct SourcePlace {
    /// The location of the defining form; only the file if the position is unknown.
    #[serde(skip_deserializing, serialize_with = "as_text")]
    #[schemars(with = "String")]
    pub place: Location,
    /// A native path, or a logical pathname such as `SYS:SRC;CODE;LIST.LISP`.
    #[serde(skip_serializing)]
    pub file: String,
    /// The native path of a logical pathname, if the file is available.
    #[serde(default, skip_serializing)]
    pub native: Option<String>,
    /// The offset that SBCL records, in octets: the end of the preceding top-level form, before any
    /// white space and comments.
    #[serde(default, skip_serializing)]
    pub octet_offset: Option<u32>,
    /// The number of the top-level form, and the path of subforms in it.
    #[serde(default, skip_serializing)]
    pub form_path: Vec<u32>,
    /// The number of the subform in the top-level form.
    #[serde(default, skip_serializing)]
    pub form_number: Option<u32>,
    /// The write date of the compiled source file, as a universal time.
    #[serde(default, skip_serializing)]
    pub write_date: Option<u64>,
    /// Whether the file has changed since the definition was compiled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stale: bool,
}
