//! The step that a long call is at, for progress displays.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::load_system::LoadStep;

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
    /// The test of this name is being run.
    Test(String),
}

impl From<LoadStep> for Step {
    fn from(step: LoadStep) -> Self {
        match step {
            LoadStep::Compile => Self::Compile,
            LoadStep::Load => Self::Load,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compile => formatter.write_str("compile"),
            Self::Load => formatter.write_str("load"),
            Self::List => formatter.write_str("list"),
            Self::Index => formatter.write_str("index"),
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
