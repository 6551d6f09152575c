//! Runs queries from many threads at once: `cargo run --example parallel`.

#![allow(clippy::print_stdout)]

use std::thread;

use steelbank::{Control, WhoRequest};
use steelbank::{Error, Steelbank};

fn main() -> Result<(), Error> {
    let bank = Steelbank::builder().start()?;
    let names = ["mapcar", "funcall", "gethash", "make-instance", "when", "loop", "format", "error"];
    let answers = thread::scope(|scope| {
        // Share the handle by reference; a clone refers to the same SBCL.
        let asking: Vec<_> = names
            .iter()
            .map(|name| {
                (name, scope.spawn(|| bank.ask(&WhoRequest::calls(*name).package("CL"), &Control::default())))
            })
            .collect();
        asking.into_iter().filter_map(|(name, asking)| Some((name, asking.join().ok()?))).collect::<Vec<_>>()
    });
    for (name, answer) in answers {
        println!("{name}: {} callers", answer?.count);
    }
    Ok(())
}
