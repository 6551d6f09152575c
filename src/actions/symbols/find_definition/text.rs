//! find-definition's answer as text.

use std::fmt;

use super::{FindDefinitionAnswer, FoundDefinition};
use crate::source::positions::Evidence;

/// A line for each definition.
impl fmt::Display for FindDefinitionAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.definitions.is_empty() {
            return write!(f, "No definition with a known source found for {}", self.symbol);
        }
        writeln!(f, "Definitions of {}:", self.symbol)?;
        self.definitions.iter().try_for_each(|found| write!(f, "\n  {found}"))
    }
}

impl fmt::Display for FoundDefinition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} {}", self.place, self.kind, self.name)?;
        match (self.evidence, &self.made_by) {
            (Evidence::Exact, _) => {}
            (Evidence::Via, Some(operator)) => write!(f, " (made by {operator})")?,
            (Evidence::Via, None) => f.write_str(" (made by this form)")?,
            (Evidence::Approximate, _) if self.not_loaded => f.write_str(" (not loaded)")?,
            (Evidence::Approximate, _) => f.write_str(" (approximate)")?,
        }
        self.defines.iter().try_for_each(|kind| write!(f, " ({kind})"))?;
        if self.stale {
            f.write_str(" (file changed since it was loaded)")?;
        }
        self.context.iter().try_for_each(|context| write!(f, "\n      {context}"))
    }
}
