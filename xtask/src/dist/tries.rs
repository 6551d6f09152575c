//! Tries the packages: each answers a question about examples/shop, with nothing else of ours beside it.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Made, Release, output, quietly};
use crate::root;

/// The question, and the place that its answer has: README's second one.
const QUESTION: [&str; 4] = ["--system", "shop", "who-calls", "shop:total"];
const ANSWER: &str = "cart.lisp:24:22: SHOP::RECEIPT";

/// Runs `command` with the question, and checks the answer.
fn asks(what: &str, command: &mut Command) -> Made {
    println!("== {what}: {}", QUESTION.join(" "));
    let said = output(command.args(QUESTION))?;
    let said = String::from_utf8_lossy(&said).into_owned();
    if said.contains(ANSWER) { Ok(()) } else { Err(format!("{what} answers {said}")) }
}

/// A folder with a copy of the shop, and nothing else of ours.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let shop = root().join("examples/shop");
        quietly("a copy of examples/shop", Command::new("cp").arg("-r").arg(shop).arg(folder.path()))?;
        Ok(Self(folder))
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs `program` in the shop, with an empty environment but for what programs of its kind need.
    fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        let path = std::env::var_os("PATH").unwrap_or_default();
        command.current_dir(self.folder("shop")).env_clear().env("PATH", path).env("HOME", self.0.path());
        command
    }
}

fn one(release: &Release, end: &str) -> Result<PathBuf, String> {
    let found = super::archive::files_in(&release.folder)?;
    let found = found.into_iter().find(|path| path.to_string_lossy().ends_with(end));
    found.ok_or_else(|| format!("there is no package {end}"))
}

/// Tries the packages on this machine.
pub(super) fn all(release: &Release) -> Made {
    let place = Place::new()?;
    let tar = one(release, ".tar.zst")?;
    quietly(
        "the tar archive",
        Command::new("tar").arg("--zstd").arg("-xf").arg(tar).arg("-C").arg(place.0.path()),
    )?;
    let unpacked = place.folder(&format!("steelbank-{}-x86_64-linux/bin/steelbank", release.version));
    asks("the tar archive's program", &mut place.command(unpacked))?;
    let environment = place.folder("venv");
    quietly("a virtual environment", Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
    let mut pip = Command::new(environment.join("bin/pip"));
    pip.args(["install", "--quiet", "--no-index", "--disable-pip-version-check"]).arg(one(release, ".whl")?);
    quietly("pip install", &mut pip)?;
    asks("the wheel's program", &mut place.command(environment.join("bin/steelbank")))
}

/// Checks that the program of the release before and this one answer from one cache, in turn.
pub(super) fn share_a_cache(release: &Release, previous: &Path) -> Made {
    let place = Place::new()?;
    for (what, program) in [
        ("the release before", previous),
        ("this one", &release.program),
        ("the release before, again", previous),
    ] {
        asks(&format!("{what}, on one cache"), &mut place.command(program))?;
    }
    Ok(())
}
