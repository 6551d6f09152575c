//! The image that all tests of this binary share.

use std::sync::OnceLock;
use std::time::Duration;

use steelbank::Control;
use steelbank::Error;
use steelbank::Steelbank;
use steelbank::actions::run::evaluate::EvaluateRequest;
use steelbank::engine::{Fault, Lane, LispError};

/// Returns the image. Tests run side by side in it: each defines its code in a package of its own.
pub(crate) fn bank() -> &'static Steelbank {
    static BANK: OnceLock<Steelbank> = OnceLock::new();
    BANK.get_or_init(|| Steelbank::builder().start().unwrap())
}

/// Evaluates `source` and returns the printed values of its last form.
pub(crate) fn evaluate(source: &str) -> Vec<String> {
    bank()
        .run(&EvaluateRequest::new(source).values(), &Control::new(Duration::from_secs(60)))
        .unwrap_or_else(|error| panic!("{source}: {error}"))
        .values
}

/// Returns the fault that `source` ends in, which must be the same on Lisp's main thread and on another.
pub(crate) fn fault(source: &str) -> Fault {
    let [query, work] = [Lane::Query, Lane::Work].map(|lane| fault_on(lane, source));
    assert_eq!((&query.kind, &query.output), (&work.kind, &work.output), "{query:?} {work:?}");
    query
}

/// Returns the fault that `source` ends in on one lane.
pub(crate) fn fault_on(lane: Lane, source: &str) -> Fault {
    let control = Control::new(Duration::from_secs(60));
    match EvaluateRequest::new(source).values().on(bank().lisp(), lane, &control) {
        Err(Error::Lisp(LispError::Fault(fault))) => fault,
        other => panic!("{source}: {other:?}"),
    }
}
