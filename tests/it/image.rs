//! The image that the tests of this binary share.

use std::sync::OnceLock;
use std::time::Duration;

use steelbank::engine::{Fault, Lane, LispError};
use steelbank::{Error, Steelbank};

use crate::asks::Asks;

/// Returns the image. Tests run in it concurrently: each defines its code in its own package.
pub(crate) fn bank() -> &'static Steelbank {
    static BANK: OnceLock<Steelbank> = OnceLock::new();
    BANK.get_or_init(|| Steelbank::builder().start().unwrap())
}

/// Evaluates `source` and returns the printed values of its last form.
pub(crate) fn evaluate(source: &str) -> Vec<String> {
    bank().values(source)
}

/// Returns the fault that ends `source`. It must be the same on both of Lisp's threads.
pub(crate) fn fault(source: &str) -> Fault {
    let [query, work] = [Lane::Query, Lane::Work].map(|lane| fault_on(lane, source));
    assert_eq!((&query.kind, &query.output), (&work.kind, &work.output), "{query:?} {work:?}");
    query
}

/// Returns the fault that ends `source` on one lane.
pub(crate) fn fault_on(lane: Lane, source: &str) -> Fault {
    match bank().tried(lane, source, Duration::from_secs(60)) {
        Err(Error::Lisp(LispError::Fault(fault))) => fault,
        other => panic!("{source}: {other:?}"),
    }
}
