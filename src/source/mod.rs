//! Places the compiler's records in the text of the files.
//!
//! Nothing here runs or loads anyone's code, and nothing here knows the engine.

pub(crate) mod edit_map;
pub mod positions;
pub mod sbcl;
pub mod tap;

use std::sync::OnceLock;

use steelbank_reader::{Features, Numbering};

/// The numbering of the SBCL that runs: Lisp starts once in a process.
static NUMBERING: OnceLock<Numbering> = OnceLock::new();

/// Has forms be numbered as SBCL's `version` does, from now on.
pub(crate) fn number_as(version: &str) {
    // Ignore the value that is there: it is of the same SBCL.
    let _ = NUMBERING.set(numbering(version));
}

fn numbering(version: &str) -> Numbering {
    let mut numbers = version.split('.').map_while(|number| number.parse::<u32>().ok());
    match [numbers.next(), numbers.next(), numbers.next()].map(Option::unwrap_or_default) {
        release if release >= [2, 5, 11] => Numbering::Data,
        _ => Numbering::Code,
    }
}

/// What the structural reader is to know where form numbers of the image are looked up.
pub(crate) fn features() -> Features {
    Features::sbcl().numbered(NUMBERING.get().copied().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_data_have_numbers_from_2_5_11_on() {
        let data = ["2.5.11", "2.6.0", "2.6.4.debian", "3.0"];
        assert!(data.iter().all(|version| numbering(version) == Numbering::Data));
        let code = ["2.4.6", "2.5.2.debian", "2.5.10", ""];
        assert!(code.iter().all(|version| numbering(version) == Numbering::Code));
    }
}
