//! Maps the compiler's records to positions in source text.
//!
//! SBCL records a use as two numbers: of a top-level form in a file, and of a sub-form in it.
//! [`positions::PositionedFile`] translates these to a text range. It uses the file's sidecar,
//! which the tap (hooks in SBCL's reader and compiler, `lisp/tap/`) writes while the file is
//! compiled or loaded as source. Without a sidecar, it uses the structural reader of
//! `steelbank_reader`. [`tap`] reads sidecars and finds the syntactic role of each symbol. [`sbcl`]
//! locates positions in SBCL's own sources, and `edit_map` compares two versions of a text.
//!
//! This module runs and loads no user code, and does not depend on the engine.

pub(crate) mod edit_map;
pub mod positions;
pub mod sbcl;
pub mod tap;

use std::sync::OnceLock;

use steelbank_reader::{Features, Numbering};

/// The form numbering of the running SBCL. Lisp starts at most once in a process.
static NUMBERING: OnceLock<Numbering> = OnceLock::new();

/// Selects the form numbering of SBCL `version` for the rest of the process.
pub(crate) fn use_numbering_of(version: &str) {
    // Ignore an error: SBCL starts only once, so the stored value is for the same version.
    let _ = NUMBERING.set(numbering(version));
}

fn numbering(version: &str) -> Numbering {
    let mut numbers = version.split('.').map_while(|number| number.parse::<u32>().ok());
    match [numbers.next(), numbers.next(), numbers.next()].map(Option::unwrap_or_default) {
        release if release >= [2, 5, 11] => Numbering::Data,
        _ => Numbering::Code,
    }
}

/// Returns the reader features that number forms as the image does.
pub(crate) fn features() -> Features {
    Features::sbcl().numbered(NUMBERING.get().copied().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_data_are_numbered_from_2_5_11() {
        let data = ["2.5.11", "2.6.0", "2.6.4.debian", "3.0"];
        assert!(data.iter().all(|version| numbering(version) == Numbering::Data));
        let code = ["2.4.6", "2.5.2.debian", "2.5.10", ""];
        assert!(code.iter().all(|version| numbering(version) == Numbering::Code));
    }
}
