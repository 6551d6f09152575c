//! Configuration files: the project's `.steelbank.toml` and the user's `config.toml`. Command-line
//! options override both, but permissions from the options and from the user's file are combined.
//!
//! A project's file may come from an untrusted repository. Therefore it cannot load anything that
//! the command line does not request, and it cannot grant permissions. Only the user's file and the
//! command line can grant permissions.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use steelbank_tree::ReadRefusal;

use super::{CommandError, Exit, installation};
use crate::tools::Permissions;

/// The name of the project's file.
pub(super) const PROJECT_FILE: &str = ".steelbank.toml";
/// The user's file, relative to the configuration folder.
const USER_FILE: &str = "steelbank/config.toml";
/// The maximum size of a configuration file, in bytes.
const LARGEST_CONFIG: u64 = 1 << 20;

/// The settings in a project's file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProjectConfig {
    /// The systems that `--system auto` loads, in this order.
    #[serde(default)]
    pub(super) systems: Vec<String>,
    /// The tools that `serve` offers without `--tools`, in the form of that option.
    pub(super) tools: Option<String>,
}

/// The settings in the user's file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UserConfig {
    /// The permissions that `serve` grants in addition to its options.
    #[serde(default)]
    allow: Vec<Allowed>,
    /// The tools that `serve` offers if neither `--tools` nor the project's file sets them.
    pub(super) tools: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Allowed {
    Edits,
    Eval,
}

impl ProjectConfig {
    /// Reads the file of the project in `folder`, if there is one.
    ///
    /// # Errors
    /// The file cannot be read or is not valid.
    pub(super) fn load(folder: &Path) -> Result<Self, CommandError> {
        read(&folder.join(PROJECT_FILE), |key| {
            (key == "allow").then(|| match user_file() {
                Some(own) => format!(" Permissions can only be set in the user's file, {}.", own.display()),
                None => " Permissions can only be set in the user's file.".to_owned(),
            })
        })
    }
}

impl UserConfig {
    /// Reads the user's file, if there is one.
    ///
    /// # Errors
    /// The file cannot be read or is not valid.
    pub(super) fn load() -> Result<Self, CommandError> {
        user_file().map_or_else(|| Ok(Self::default()), |path| read(&path, |_| None))
    }

    /// Adds the file's permissions to `also`.
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

/// Returns the settings that a server loaded from a file. If the file cannot be used, adds the
/// reason to `errors` and returns the defaults. A newer version may have written the file, and a
/// host that starts a server usually does not show why it ended.
pub(super) fn or_default<T: Default>(loaded: Result<T, CommandError>, errors: &mut Vec<String>) -> T {
    loaded.unwrap_or_else(|error| {
        let error = format!("{} The file is ignored.", error.message);
        if !errors.contains(&error) {
            errors.push(error);
        }
        T::default()
    })
}

/// Reads a configuration file, or returns the defaults if it does not exist. If parsing fails,
/// `why` is called with the text at the error, such as the name of an unknown key. The text that
/// `why` returns is added to the error.
fn read<T: Default + DeserializeOwned>(
    path: &Path,
    why: impl Fn(&str) -> Option<String>,
) -> Result<T, CommandError> {
    let wrong = |message: String| {
        let message = format!("{}: {}", path.display(), message.trim_end());
        CommandError { exit: Exit::Usage, message }
    };
    // Read regular files only: a FIFO in an untrusted project would block the start for ever.
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
