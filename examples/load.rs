//! Loads a project's system, shows what was compiled, and cancels a second load: `cargo run
//! --example load`.

#![allow(clippy::print_stdout)]

use std::fs;
use std::thread;
use std::time::Duration;

use steelbank::WhoRequest;
use steelbank::{Control, ErrorKind, LoadRequest, ProjectSettings, Steelbank};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The removal of the folder may fail, because the cancelled load may still be writing to it.
    // Ignore that.
    let project = tempfile::Builder::new().prefix("steelbank-example-").tempdir()?;
    let folder = project.path();
    fs::write(folder.join("demo.asd"), "(defsystem \"demo\" :components ((:file \"demo\")))")?;
    fs::write(folder.join("demo.lisp"), "(defun cl-user::twice (list) (mapcar #'1+ list))\n")?;
    fs::write(folder.join("slow.asd"), "(defsystem \"slow\" :components ((:file \"slow\")))")?;
    fs::write(folder.join("slow.lisp"), "(eval-when (:compile-toplevel) (sleep 600))\n")?;

    let bank = Steelbank::builder()
        .project(ProjectSettings::in_folder(folder).cache(folder.join("cache")))
        .start()?;

    let minutes = |minutes: u64| Control::new(Duration::from_secs(60 * minutes));
    let control = minutes(5).on_progress(|at| {
        let total = at.total.map_or_else(String::new, |total| format!(" of {total}"));
        println!("{}{total}: {} {}", at.done, at.what, at.path.unwrap_or_default());
    });
    let answer = bank.run(&LoadRequest::system("demo"), &control)?;
    println!("demo is loaded; {} compiled", answer.compiled.len());
    for diagnostic in &answer.diagnostics {
        println!("{}", diagnostic.message);
    }
    // Query the loaded code.
    let callers = bank.ask(&WhoRequest::calls("mapcar").package("CL"), &Control::default())?;
    println!("TWICE calls MAPCAR: {}", callers.users.iter().any(|user| user.name == "cl-user::twice"));

    // A load can be cancelled from any other thread.
    let control = minutes(15);
    let cancellation = control.cancellation();
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(500));
        cancellation.cancel();
    });
    match bank.run(&LoadRequest::system("slow"), &control) {
        Err(error) if error.kind() == ErrorKind::Cancelled => println!("slow was cancelled"),
        other => println!("slow: {other:?}"),
    }
    Ok(())
}
