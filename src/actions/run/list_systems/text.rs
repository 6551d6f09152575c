//! Formats list-systems' answer as text.

use std::fmt::{Display, Formatter, Result};

use super::{SystemEntry, SystemsAnswer};
use crate::answer::counted;

/// Prints one line for each system, followed by its details.
impl Display for SystemsAnswer {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self.count {
            0 => write!(f, "No .asd file found below {}", self.root),
            _ => writeln!(f, "Systems of {}:", self.root),
        }?;
        self.systems.iter().try_for_each(|system| write!(f, "\n  {system}"))?;
        if !self.vendored.is_empty() {
            write!(f, "\nVendored dependencies, not listed: {}", self.vendored.join(", "))?;
        }
        self.left_out.iter().try_for_each(|out| write!(f, "\nNot read: {}: {}", out.path, out.reason))
    }
}

impl Display for SystemEntry {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let state = match (self.loaded, self.changed.len()) {
            (true, 0) => "loaded".to_owned(),
            (true, changed) => format!("loaded, {} changed since", counted(changed, "file", "files")),
            (false, _) => "not loaded".to_owned(),
        };
        write!(f, "{} ({state}) {}", self.name, self.asd)?;
        let how = if self.loaded { "which ASDF does not use" } else { "ASDF will use one of them" };
        let mut line = |line: String| write!(f, "\n      {line}");
        self.also_defined_in.iter().try_for_each(|path| line(format!("also defined in {path}, {how}")))?;
        self.changed.iter().try_for_each(|path| line(format!("changed: {path}")))?;
        self.components.iter().try_for_each(|path| line(path.clone()))?;
        match self.incomplete {
            true => line("Some of the system's files can be listed only after it is loaded.".to_owned()),
            false => Ok(()),
        }
    }
}
