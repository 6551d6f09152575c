//! Formats check's answer as text.

use std::fmt;

use crate::actions::change::check::CheckAnswer;
use crate::handle::loaded::text::of_libraries;

/// Prints whether the systems or files load, then denied writes, unchecked files, failures and
/// diagnostics.
impl fmt::Display for CheckAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.systems.as_slice() {
            [] => "The code".to_owned(),
            [system] => format!("System {system}"),
            systems => format!("Not all of {}", systems.join(", ")),
        };
        match (self.loads, self.systems.len()) {
            (true, 2..) => write!(f, "{} load", self.systems.join(", ")),
            (true, _) => write!(f, "{what} loads"),
            (false, 2..) => write!(f, "{what} load"),
            (false, _) => write!(f, "{what} does not load"),
        }?;
        write!(
            f,
            " ({} compiled, {:.1} s), checked in a {} of the image{}.",
            self.compiled.len(),
            self.duration_ms as f64 / 1000.0,
            if self.confined { "confined copy" } else { "copy" },
            if self.confined { ", which can write only to its own folder" } else { "" },
        )?;
        if !self.refused.is_empty() {
            write!(f, "\nWrites were denied to {}.", self.refused.join(", "))?;
        }
        if !self.ended_processes.is_empty() {
            write!(f, "\nEnded processes that the code left running: {}.", self.ended_processes.join(", "))?;
        }
        if !self.not_loaded.is_empty() {
            write!(
                f,
                "\nNone of the checked systems contains {}. Give a system that does, or check the file without a \
                    system.",
                self.not_loaded.join(", ")
            )?;
        }
        for failure in &self.failures {
            write!(f, "\n{}", failure.message)?;
            for remedy in &failure.remedies {
                write!(f, "\n  Try: {remedy}")?;
            }
        }
        for diagnostic in self.diagnostics.iter().filter(|diagnostic| !diagnostic.library) {
            let place = diagnostic.place.as_ref().map_or_else(String::new, |place| format!("{place}: "));
            write!(f, "\n{place}{}: {}", diagnostic.severity, diagnostic.message)?;
        }
        f.write_str(&of_libraries(&self.diagnostics))?;
        match self.diagnostics_total {
            Some(total) => write!(f, "\n… {} more", total.saturating_sub(self.diagnostics.len())),
            None => Ok(()),
        }
    }
}
