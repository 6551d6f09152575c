//! The ceilings that `cargo xtask lint` enforces: limits for the product's size and for patterns
//! that plain prose avoids.
//!
//! `xtask/ceilings.txt` lists them, a line `NAME = FIGURE` each. A change may lower any figure, but
//! may raise only `product-lines`, and only with a bullet in CHANGELOG.md that names the new figure
//! and its benefit.

use std::collections::BTreeMap;
use std::process::Command;

use crate::root;

const FILE: &str = "xtask/ceilings.txt";

/// The figures by name.
pub(crate) type Ceilings = BTreeMap<String, f64>;

/// Reads the ceilings, and checks that none is higher than in any earlier commit, except a higher
/// figure of `product-lines` that CHANGELOG.md names.
pub(crate) fn read() -> Result<Ceilings, String> {
    let text = std::fs::read_to_string(root().join(FILE)).map_err(|error| format!("{FILE}: {error}"))?;
    let now = parse(&text)?;
    for commit in git(&["log", "--format=%H", "--", FILE])?.lines() {
        // A shallow clone lists commits without their files.
        let Ok(before) = git(&["show", &format!("{commit}:{FILE}")]) else { continue };
        for (name, before) in parse(&before)? {
            let Some(&figure) = now.get(&name).filter(|figure| **figure > before) else { continue };
            if name != "product-lines" || !is_in_changelog(figure)? {
                return Err(format!(
                    "{FILE}: {name} rose from {before} to {figure}; ceilings may only fall. product-lines may rise if a \
                     bullet in CHANGELOG.md contains \"{} product lines\" and the reason",
                    thousands(figure as usize)
                ));
            }
        }
    }
    Ok(now)
}

fn parse(text: &str) -> Result<Ceilings, String> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let figure = |line: &str| {
        let (name, figure) = line.split_once(" = ")?;
        Some((name.to_owned(), figure.parse().ok()?))
    };
    lines.map(|line| figure(line).ok_or_else(|| format!("{FILE}: not NAME = FIGURE: {line}"))).collect()
}

fn is_in_changelog(figure: f64) -> Result<bool, String> {
    let text = std::fs::read_to_string(root().join("CHANGELOG.md"))
        .map_err(|error| format!("CHANGELOG.md: {error}"))?;
    let figure = thousands(figure as usize);
    Ok(text.lines().any(|line| line.contains(&format!("{figure} product lines"))))
}

/// Formats a number with a comma before each group of three digits.
pub(crate) fn thousands(number: usize) -> String {
    match number {
        0..1000 => number.to_string(),
        _ => format!("{},{:03}", thousands(number / 1000), number % 1000),
    }
}

/// Runs git in the repository and returns what it prints.
pub(crate) fn git(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("git").args(arguments).current_dir(root()).output();
    let output = output.map_err(|error| format!("cannot run git: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}
