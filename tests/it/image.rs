//! The image that all tests of this binary share.

use std::sync::OnceLock;
use std::time::Duration;

use steelbank::Steelbank;
use steelbank::engine::{Fault, Lane, LispError};
use steelbank::query::Error;
use steelbank::query::control::Control;
use steelbank::query::evaluate::EvaluateRequest;

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

/// The fault that `source` ends in, on the main thread of Lisp and on another: it is the same.
pub(crate) fn fault(source: &str) -> Fault {
    let [query, work] = [Lane::Query, Lane::Work].map(|lane| fault_on(lane, source));
    assert_eq!((&query.kind, &query.output), (&work.kind, &work.output), "{query:?} {work:?}");
    query
}

/// The fault that `source` ends in on one lane.
pub(crate) fn fault_on(lane: Lane, source: &str) -> Fault {
    let control = Control::new(Duration::from_secs(60));
    match EvaluateRequest::new(source).run(bank().lisp(), lane, &control) {
        Err(Error::Lisp(LispError::Fault(fault))) => fault,
        other => panic!("{source}: {other:?}"),
    }
}
