//! The progress of long work.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

/// The progress of long work: of a load, a run of tests, a trial in a copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The step that it is at.
    pub what: Step,
    /// The file that it is done to, if it is one.
    #[serde(default, deserialize_with = "unless_empty")]
    pub path: Option<String>,
    /// Steps begun. It grows with every report.
    pub done: u64,
    /// Steps in all, if that is known; never fewer than are done.
    #[serde(default, deserialize_with = "unless_zero")]
    pub total: Option<u64>,
}

/// A listener of progress. It must not block, least of all on another question to Lisp: it may be called on a Lisp
/// thread.
pub type OnProgress = Arc<dyn Fn(Progress) + Send + Sync>;

/// Reads a text; Lisp sends an empty one for none.
fn unless_empty<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<String>::deserialize(from)?.filter(|text| !text.is_empty()))
}

/// Reads a number; Lisp sends 0 for none.
fn unless_zero<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    Ok(Option::<u64>::deserialize(from)?.filter(|&number| number > 0))
}

/// The step that a long call is at. In JSON it is the text that it is shown as.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
#[non_exhaustive]
pub enum Step {
    /// A file is being compiled.
    Compile,
    /// A file or fasl is being loaded.
    Load,
    /// The files of the project are being found.
    List,
    /// Files are being read into the text index.
    Index,
    /// Files are being exported.
    Export,
    /// The test of this name is being run.
    Test(String),
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compile => formatter.write_str("compile"),
            Self::Load => formatter.write_str("load"),
            Self::List => formatter.write_str("list"),
            Self::Index => formatter.write_str("index"),
            Self::Export => formatter.write_str("export"),
            Self::Test(name) => write!(formatter, "test {name}"),
        }
    }
}

impl From<Step> for String {
    fn from(step: Step) -> Self {
        step.to_string()
    }
}

impl TryFrom<String> for Step {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "compile" => Ok(Self::Compile),
            "load" => Ok(Self::Load),
            "list" => Ok(Self::List),
            "index" => Ok(Self::Index),
            "export" => Ok(Self::Export),
            other => match other.strip_prefix("test ") {
                Some(name) => Ok(Self::Test(name.to_owned())),
                None => Err(format!("there is no step {text:?}")),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_read_as_it_is_shown() {
        for step in [Step::Compile, Step::Load, Step::List, Step::Index, Step::Test("P::T".to_owned())] {
            let json = serde_json::to_string(&step).unwrap();
            assert_eq!(json, format!("\"{step}\""));
            assert_eq!(serde_json::from_str::<Step>(&json).unwrap(), step);
        }
        assert!(serde_json::from_str::<Step>("\"dance\"").is_err());
    }
}
