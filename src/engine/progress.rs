//! The progress of long work, as reported to listeners and clients.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

/// The progress of long work, such as a load, a test run, an export or a trial in a copy of Lisp.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The current step.
    pub what: Step,
    /// The file that the step processes, if any.
    #[serde(default, deserialize_with = "unless_empty")]
    pub path: Option<String>,
    /// The number of steps begun or completed. It grows with every report of the same work.
    pub done: u64,
    /// The total number of steps, if known; never less than `done`.
    #[serde(default, deserialize_with = "unless_zero")]
    pub total: Option<u64>,
}

/// A progress listener. It may be called on a Lisp thread, so it must not block, and in particular
/// must not wait for another question to Lisp.
pub type OnProgress = Arc<dyn Fn(Progress) + Send + Sync>;

/// Deserializes a text. Lisp sends an empty text for `None`.
fn unless_empty<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<String>::deserialize(from)?.filter(|text| !text.is_empty()))
}

/// Deserializes a number. Lisp sends 0 for `None`.
fn unless_zero<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    Ok(Option::<u64>::deserialize(from)?.filter(|&number| number > 0))
}

/// The current step of a long call. Serializes as its display text.
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
                None => Err(format!("unknown step {text:?}")),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_round_trip_through_json() {
        for step in [Step::Compile, Step::Load, Step::List, Step::Index, Step::Test("P::T".to_owned())] {
            let json = serde_json::to_string(&step).unwrap();
            assert_eq!(json, format!("\"{step}\""));
            assert_eq!(serde_json::from_str::<Step>(&json).unwrap(), step);
        }
        assert!(serde_json::from_str::<Step>("\"dance\"").is_err());
    }
}
