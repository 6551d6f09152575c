//! Runs queries under an async runtime: `cargo run --example tokio`.
//!
//! Queries of the index take microseconds and can run anywhere. Work in Lisp runs on a blocking
//! thread, or as a job that can be awaited directly.

#![allow(clippy::print_stdout)]

use std::time::Duration;

use steelbank::WhoRequest;
use steelbank::actions::run::evaluate::EvaluateRequest;
use steelbank::engine::Lane;
use steelbank::{Control, Error, Steelbank};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bank = tokio::task::spawn_blocking(|| Steelbank::get_or_start(Steelbank::builder())).await??;

    let callers = bank.ask(&WhoRequest::calls("mapcar").package("CL"), &Control::default())?;
    println!("MAPCAR has hundreds of callers: {}", callers.count > 300);

    // Call from a blocking thread. When this task is dropped, the guard cancels the work, which
    // would otherwise continue.
    let control = Control::new(Duration::from_secs(60));
    let guard = control.cancel_on_drop();
    let asking = bank.clone();
    let squares: Vec<u32> = tokio::task::spawn_blocking(move || {
        let request = EvaluateRequest::new("(loop for n below 5 collect (* n n))").json();
        asking.run(&request, &control)
    })
    .await??;
    drop(guard);
    println!("squares: {squares:?}");

    // Submit a custom job: no thread waits for its result.
    let ticket = bank.lisp().submit(Lane::Query, Duration::from_secs(10), None, |on_lisp| {
        on_lisp.call("describe-symbol", &["CAR", "COMMON-LISP"])
    });
    let answer = ticket.await.map_err(Error::from)?;
    println!("CAR is described: {}", answer.bytes.starts_with(b"{"));
    Ok(())
}
