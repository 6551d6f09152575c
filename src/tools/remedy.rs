//! Remedies for an engine that cannot start. They name the program's options, which the library's errors do
//! not know.

use super::phrases::sentence;
use crate::engine::{ImageError, StartError};
use crate::handle::Error;

/// Renders the error as a sentence, with a remedy for the user of the program.
pub(crate) fn with_remedy(error: &Error) -> String {
    let said = error.to_string();
    match remedy(error) {
        // A sentence already, which may begin with a file's name.
        None if matches!(error, Error::Request(_)) && said.ends_with('.') => said,
        Some(remedy) => sentence(&format!("{said}; {remedy}")),
        None => sentence(&said),
    }
}

fn remedy(error: &Error) -> Option<&'static str> {
    const BUILD: &str = "run ./bootstrap and build again, or point STEELBANK_HOME to a folder with libsteelbank-sbcl.so and steelbank.core";
    const SPLIT: &str =
        "or name in STEELBANK_HOME a folder with SBCL's parts as files (`steelbank --help` lists them)";
    match error {
        Error::Cache(_) => Some("name another folder in STEELBANK_CACHE"),
        Error::Index(_) => Some("run ./bootstrap and build steelbank again"),
        Error::Start(StartError::Load(error)) if error.is_limit() => {
            Some("raise its limits (ulimit -n, ulimit -v)")
        }
        Error::Start(
            StartError::Load(_)
            | StartError::Image(ImageError::Unreadable { .. } | ImageError::CutOff { .. }),
        ) => Some(BUILD),
        Error::Start(StartError::Image(ImageError::NoProc | ImageError::Memory { .. })) => Some(SPLIT),
        Error::Start(error) if error.is_for_address_space() => {
            Some("raise that limit: with --dynamic-space-size 128, the least, it takes some 1128 MiB")
        }
        Error::Start(error) if error.is_for_room() => Some("--dynamic-space-size asks for less"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_advises_what_the_librarys_errors_do_not_know() {
        let unreadable = ImageError::Unreadable {
            path: "steelbank.core".into(),
            source: std::io::ErrorKind::NotFound.into(),
        };
        let died = |address_space| StartError::Died {
            reason: "cannot allocate memory".into(),
            megabytes: 8192,
            address_space,
        };
        for (error, advised) in [
            (Error::Index("no file".into()), "./bootstrap"),
            (Error::Start(unreadable.into()), "STEELBANK_HOME"),
            (Error::Start(died(None)), "--dynamic-space-size"),
            (Error::Start(died(Some(4000))), "--dynamic-space-size"),
            (Error::Start(died(Some(500))), "raise that limit"),
            (Error::Start(ImageError::NoProc.into()), "STEELBANK_HOME"),
        ] {
            for word in ["bootstrap", "STEELBANK", "--"] {
                assert!(!error.to_string().contains(word), "{error}");
            }
            let told = with_remedy(&error);
            assert!(
                told.contains(advised) && told.starts_with(char::is_uppercase) && told.ends_with('.'),
                "{told}"
            );
        }
        assert_eq!(with_remedy(&Error::SetUp("no init file".into())), "No init file.");
    }
}
