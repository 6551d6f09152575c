//! Where a definition stands in the sources.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::location::{Location, as_text};

/// Where a definition stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct SourcePlace {
    /// The defining form; the file alone where it cannot be read.
    #[serde(skip_deserializing, serialize_with = "as_text")]
    #[schemars(with = "String")]
    pub place: Location,
    /// A native path, or a logical name such as `SYS:SRC;CODE;LIST.LISP`.
    #[serde(skip_serializing)]
    pub file: String,
    /// The native path, where a logical name's file is at hand.
    #[serde(default, skip_serializing)]
    pub native: Option<String>,
    /// SBCL's offset: octets before the top-level form and the white space and comments in front of it.
    #[serde(default, skip_serializing)]
    pub octet_offset: Option<u32>,
    /// The top-level form's number, and the path inside it.
    #[serde(default, skip_serializing)]
    pub form_path: Vec<u32>,
    /// The number of the sub-form.
    #[serde(default, skip_serializing)]
    pub form_number: Option<u32>,
    /// The universal time at which the file that was compiled had been written.
    #[serde(default, skip_serializing)]
    pub write_date: Option<u64>,
    /// Whether the file has been written since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stale: bool,
}
