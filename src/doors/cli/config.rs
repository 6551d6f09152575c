//! What files set: `.steelbank.toml` for a project, and the user's own one. An option of the command line wins over both.
//!
//! A project's file comes with the project, so it can neither have something loaded that the command line did not ask for
//! nor permit anything: permissions are in the user's file alone.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use steelbank_tree::ReadRefusal;

use super::{CommandError, Exit, installation};
use crate::tools::Permissions;

/// The project's file, in its folder.
pub(super) const PROJECT_FILE: &str = ".steelbank.toml";
/// The user's file, in the folder of configurations.
const USER_FILE: &str = "steelbank/config.toml";
/// The most bytes of such a file.
const LARGEST_CONFIG: u64 = 1 << 20;

/// What a project's file may set.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProjectConfig {
    /// What `--system auto` loads, in this order.
    #[serde(default)]
    pub(super) systems: Vec<String>,
    /// The tools that `serve` offers, as `--tools` names them.
    pub(super) tools: Option<String>,
}

/// What the user's file may set.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UserConfig {
    /// What `serve` permits without being told by an option.
    #[serde(default)]
    allow: Vec<Allowed>,
    /// As in a project's file, which wins.
    pub(super) tools: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Allowed {
    Edits,
    Eval,
}

impl ProjectConfig {
    /// Reads the file of the project in `folder`, if it has one.
    ///
    /// # Errors
    /// It cannot be read, or has what is no setting of a project.
    pub(super) fn of(folder: &Path) -> Result<Self, CommandError> {
        read(&folder.join(PROJECT_FILE), |key| {
            (key == "allow").then(|| match user_file() {
                Some(own) => format!(" Permissions come from the user's own file, {}.", own.display()),
                None => " Permissions come from the user's own file.".to_owned(),
            })
        })
    }
}

impl UserConfig {
    /// Reads the user's file, if there is one.
    ///
    /// # Errors
    /// It cannot be read, or has what is no setting of a user.
    pub(super) fn own() -> Result<Self, CommandError> {
        user_file().map_or_else(|| Ok(Self::default()), |path| read(&path, |_| None))
    }

    /// Adds what the file permits.
    pub(super) fn permits(&self, also: Permissions) -> Permissions {
        Permissions {
            eval: also.eval || self.allow.contains(&Allowed::Eval),
            edits: also.edits || self.allow.contains(&Allowed::Edits),
        }
    }
}

fn user_file() -> Option<PathBuf> {
    let own = || std::env::home_dir().filter(|home| home.is_absolute()).map(|home| home.join(".config"));
    installation::variable("XDG_CONFIG_HOME").or_else(own).map(|folder| folder.join(USER_FILE))
}

/// Reads a file of settings; without it they are the defaults. `why` adds to the error about a key.
fn read<T: Default + DeserializeOwned>(
    path: &Path,
    why: impl Fn(&str) -> Option<String>,
) -> Result<T, CommandError> {
    let wrong = |message: String| {
        let message = format!("{}: {}", path.display(), message.trim_end());
        CommandError { exit: Exit::Usage, message }
    };
    // A project's file may be anything: a FIFO would hold the start for ever.
    let octets = match steelbank_tree::read_plain(path, LARGEST_CONFIG) {
        Ok(octets) => octets,
        Err(ReadRefusal::Failed(error))
            if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
        {
            return Ok(T::default());
        }
        Err(refusal) => return Err(wrong(format!("it cannot be read: {refusal}."))),
    };
    let text = String::from_utf8(octets).map_err(|_| wrong("it is not UTF-8.".to_owned()))?;
    toml::from_str(&text).map_err(|error| {
        let at = error.span().map(|span| span.start.min(text.len())).unwrap_or_default();
        let line = text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
        let key = error.span().and_then(|span| text.get(span)).unwrap_or_default();
        wrong(format!(
            "line {line}: {}.{}",
            error.message().replace('\n', "; "),
            why(key).unwrap_or_default()
        ))
    })
}
