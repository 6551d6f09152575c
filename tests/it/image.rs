//! The image that all tests of this binary share.

use std::sync::OnceLock;
use std::time::Duration;

use steelbank::Steelbank;
use steelbank::engine::Fault;
use steelbank::query::Error;

/// The image. Tests run side by side in it: each defines what it needs in a package of its own.
pub(crate) fn bank() -> &'static Steelbank {
    static BANK: OnceLock<Steelbank> = OnceLock::new();
    BANK.get_or_init(|| Steelbank::builder().start().unwrap())
}

/// Evaluates `source` and returns the printed values of its last form.
pub(crate) fn evaluate(source: &str) -> Vec<String> {
    bank()
        .evaluate(source, Duration::from_secs(60))
        .unwrap_or_else(|error| panic!("{source}: {error}"))
        .values
}

/// The fault that `source` ends in.
pub(crate) fn fault(source: &str) -> Fault {
    match bank().evaluate(source, Duration::from_secs(60)) {
        Err(Error::Lisp(steelbank::engine::LispError::Fault(fault))) => fault,
        other => panic!("{source}: {other:?}"),
    }
}
