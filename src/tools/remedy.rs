//! Adds remedies to the errors of an engine that cannot start. The remedies name options and
//! environment variables of the program. The library's errors do not, because other programs use
//! the library.

use super::phrases::sentence;
use crate::engine::{ImageError, StartError};
use crate::handle::Error;

/// Formats the error as a sentence, with a remedy for the user of the program.
pub(crate) fn with_remedy(error: &Error) -> String {
    let said = error.to_string();
    match remedy(error) {
        // The message is already a sentence. It may begin with a file name, which must not be
        // capitalized.
        None if matches!(error, Error::Request(_)) && said.ends_with('.') => said,
        Some(remedy) => sentence(&format!("{said}; {remedy}")),
        None => sentence(&said),
    }
}

fn remedy(error: &Error) -> Option<&'static str> {
    const BUILD: &str = "run ./bootstrap and build again, or point STEELBANK_HOME to a folder with libsteelbank-sbcl.so and steelbank.core";
    const SPLIT: &str = "or set STEELBANK_HOME to a folder with SBCL's files (`steelbank --help` lists them)";
    match error {
        Error::Cache(_) => Some("set STEELBANK_CACHE to another folder"),
        Error::Index(_) => Some("run ./bootstrap and build steelbank again"),
        Error::Start(StartError::Load(error)) if error.is_limit() => {
            Some("raise its limits (ulimit -n, ulimit -v)")
        }
        Error::Start(
            StartError::Load(_)
            | StartError::Image(ImageError::Unreadable { .. } | ImageError::Truncated { .. }),
        ) => Some(BUILD),
        Error::Start(StartError::Image(ImageError::NoProc | ImageError::Memory { .. })) => Some(SPLIT),
        Error::Start(error) if error.is_address_space_limit() => {
            Some("raise that limit: with --dynamic-space-size 128, the minimum, SBCL takes about 1128 MiB")
        }
        Error::Start(error) if error.is_out_of_memory() => Some("use --dynamic-space-size to request less"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remedies_name_options_that_library_errors_omit() {
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
            let message = with_remedy(&error);
            assert!(
                message.contains(advised)
                    && message.starts_with(char::is_uppercase)
                    && message.ends_with('.'),
                "{message}"
            );
        }
        assert_eq!(with_remedy(&Error::SetUp("no init file".into())), "No init file.");
    }
}
