//! `cargo xtask dist`: builds the release packages for an old glibc and tests them. With `--program
//! FILE`, packs a program that has been built before, as continuous integration does. With
//! `--previous FILE`, also checks that an earlier release's program and this one can use the same
//! cache.
//!
//! This command publishes nothing; docs/internals/publishing.md lists the commands that do.

mod archive;
mod build;
mod deb;
mod formats;
mod mcpb;
mod npm;
mod oci;
#[path = "../../../tests/pages/mod.rs"]
mod pages;
mod tries;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use archive::Item;
pub(crate) use build::twice;

use crate::{cargo, root, target};

/// Success, or an error message.
type Made = Result<(), String>;

/// The folder for packages, in the target folder.
const FOLDER: &str = "dist";
/// The maximum sizes of packages in bytes, by the end of their names.
const LARGEST_PACKAGES: [(&str, usize); 3] =
    [(".deb", 20_500_000), ("-linux.tar.xz", 20_500_000), ("", 29_000_000)];

/// A release: its inputs, and the folder of its packages.
struct Release {
    version: String,
    folder: PathBuf,
    program: PathBuf,
    /// The oldest glibc that the program runs with.
    glibc: (u32, u32),
    /// The time of the commit in seconds since 1970, used for all files in the packages.
    epoch: u64,
    /// The root folder with the old libraries that the program was built for, if there is one.
    old: Option<PathBuf>,
}

impl Release {
    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes a package.
    fn write(&self, name: &str, octets: &[u8]) -> Made {
        fs::write(self.file(name), octets).map_err(|error| format!("{name}: {error}"))
    }

    /// Runs the program and returns its output, which goes into the packages.
    fn says(&self, arguments: &[&str]) -> Result<Vec<u8>, String> {
        output(Command::new(&self.program).args(arguments).env_remove("COLUMNS"))
    }

    /// Returns the files that every package contains: the licences, the notices of linked
    /// libraries, and the README.
    fn notices(&self) -> Result<Vec<Item>, String> {
        let kept = ["LICENSE-MIT", "LICENSE-APACHE", "README.md"];
        let mut items: Vec<Item> =
            kept.iter().map(|name| Item::of(*name, root().join(name))).collect::<Result<_, _>>()?;
        items.push(Item::text("THIRD-PARTY-LICENSES.txt", self.says(&["licenses"])?));
        Ok(items)
    }

    /// Returns the completion scripts and the manual page.
    fn beside(&self) -> Result<[(&'static str, Vec<u8>); 4], String> {
        Ok([
            ("share/bash-completion/completions/steelbank", self.says(&["completions", "bash"])?),
            ("share/zsh/vendor-completions/_steelbank", self.says(&["completions", "zsh"])?),
            ("share/fish/vendor_completions.d/steelbank.fish", self.says(&["completions", "fish"])?),
            ("share/man/man1/steelbank.1", self.says(&["man"])?),
        ])
    }
}

/// Builds and tests the packages according to the arguments after `dist`.
pub(crate) fn dist() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(2).collect();
    if cfg!(debug_assertions) {
        // Run an optimised xtask: compressing a hundred megabytes takes minutes otherwise.
        let mut command = cargo();
        command.args(["run", "--quiet", "--release", "--package", "xtask", "--", "dist"]).args(&arguments);
        return openly("dist, with an optimised xtask", &mut command);
    }
    let mut program = None;
    let mut previous = None;
    let mut left = arguments.iter();
    while let Some(argument) = left.next() {
        let place = match argument.as_str() {
            "--program" => &mut program,
            "--previous" => &mut previous,
            other => return Err(format!("dist: unknown option {other:?}")),
        };
        let file = left.next().ok_or_else(|| format!("dist: {argument} requires the path of a program"))?;
        *place = Some(fs::canonicalize(file).map_err(|error| format!("{file}: {error}"))?);
    }
    let folder = target().join(FOLDER);
    let (version, epoch) = (version()?, epoch()?);
    let (program, old) = match program {
        Some(program) => (program, None),
        None => {
            let old = folder.join("old");
            (build::program(root(), &old)?, Some(old.join("root")))
        }
    };
    let glibc = glibc_of(&program)?;
    println!("== {} needs glibc {}.{}", program.display(), glibc.0, glibc.1);
    let packages = folder.join("packages");
    // Remove the packages of an earlier run.
    let _ = fs::remove_dir_all(&packages);
    fs::create_dir_all(&packages).map_err(|error| format!("{}: {error}", packages.display()))?;
    let release = Release { version, folder: packages, program, glibc, epoch, old };
    formats::make(&release)?;
    checksums(&release)?;
    if let Some(previous) = previous {
        tries::share_a_cache(&release, &previous)?;
    }
    tries::all(&release)
}

/// Returns the version, after checking that the manifest, the changelog and the commit's tag agree.
fn version() -> Result<String, String> {
    let version = env!("CARGO_PKG_VERSION");
    let changelog =
        fs::read_to_string(root().join("CHANGELOG.md")).map_err(|error| format!("CHANGELOG.md: {error}"))?;
    let tags = output(Command::new("git").args(["tag", "--points-at", "HEAD"]).current_dir(root()))?;
    let tags = String::from_utf8_lossy(&tags);
    agreed(version, &changelog, tags.lines().find(|tag| tag.starts_with('v')))?;
    Ok(version.to_owned())
}

/// Checks that a tagged commit is a release of `version`, and that the changelog of any other
/// commit begins with `version` or with unreleased changes.
fn agreed(version: &str, changelog: &str, tag: Option<&str>) -> Made {
    let mut sections =
        changelog.split("\n## ").skip(1).map(|section| section.split_once('\n').unwrap_or((section, "")));
    let named = |heading: &str| heading.split([' ', ',']).next() == Some(version);
    match (tag, sections.next()) {
        (Some(tag), _) if tag.strip_prefix('v') != Some(version) => {
            Err(format!("the commit's tag is {tag}, but Cargo.toml has version {version}"))
        }
        (Some(tag), Some((heading, body))) if heading.trim() == "Unreleased" && !body.trim().is_empty() => {
            Err(format!("CHANGELOG.md has unreleased changes, but the commit has the tag {tag}"))
        }
        (_, Some((heading, _))) if named(heading) => Ok(()),
        (_, Some((heading, _))) if heading.trim() == "Unreleased" => match sections.next() {
            Some((heading, _)) if named(heading) => Ok(()),
            Some((heading, _)) if tag.is_some() => {
                Err(format!("the newest release in CHANGELOG.md is {heading}, not {version}"))
            }
            _ => Ok(()),
        },
        (_, top) => Err(format!(
            "CHANGELOG.md must begin with Unreleased or {version}, but begins with {:?}",
            top.map(|(heading, _)| heading)
        )),
    }
}

/// Returns the time of the commit, in seconds since 1970.
fn epoch() -> Result<u64, String> {
    let said = output(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root()))?;
    String::from_utf8_lossy(&said)
        .trim()
        .parse()
        .map_err(|error| format!("cannot parse the commit time that git printed: {error}"))
}

/// Returns the oldest glibc that provides all symbols the program requires. SBCL's library is
/// embedded in the program, so the entire file is searched for version names.
fn glibc_of(program: &Path) -> Result<(u32, u32), String> {
    let octets = fs::read(program).map_err(|error| format!("{}: {error}", program.display()))?;
    let newest = versions(&octets).max();
    newest.ok_or_else(|| format!("{} requires no version of glibc", program.display()))
}

/// Returns the versions of glibc named in `octets`.
fn versions(octets: &[u8]) -> impl Iterator<Item = (u32, u32)> + '_ {
    const NAME: &[u8] = b"GLIBC_";
    let named = octets.windows(NAME.len()).enumerate().filter(|(_, window)| *window == NAME);
    named.filter_map(|(at, _)| {
        let rest = &octets[at + NAME.len()..];
        let number = rest.split(|octet| !octet.is_ascii_digit() && *octet != b'.').next()?;
        let mut parts = std::str::from_utf8(number).ok()?.split('.').map(str::parse);
        Some((parts.next()?.ok()?, parts.next()?.ok()?))
    })
}

/// Writes SHA256SUMS, and checks the packages' sizes.
fn checksums(release: &Release) -> Made {
    let mut lines = String::new();
    for path in archive::files_in(&release.folder)? {
        let octets = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        println!("{:>12} {name}", octets.len());
        let most = LARGEST_PACKAGES.iter().find(|(end, _)| name.ends_with(end)).map_or(0, |(_, most)| *most);
        if octets.len() > most {
            return Err(format!("{name} has {} bytes; at most {most} are allowed", octets.len()));
        }
        lines.push_str(&format!("{}  {name}\n", archive::hex(&octets)));
    }
    release.write("SHA256SUMS", lines.as_bytes())
}

/// Runs a command and returns its output.
fn output(command: &mut Command) -> Result<Vec<u8>, String> {
    let output = command.output().map_err(|error| format!("cannot run {command:?}: {error}"))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    Err(format!("{command:?} failed: {}", said.trim()))
}

/// Runs a command and shows its output.
fn openly(what: &str, command: &mut Command) -> Made {
    println!("== {what}");
    let status = command.status().map_err(|error| format!("{what}: cannot run {command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{what} failed: {command:?}")) }
}

/// Runs a command, and shows its output only if it fails.
fn quietly(what: &str, command: &mut Command) -> Made {
    println!("== {what}");
    output(command).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_glibc_symbol_is_required_version() {
        let names = b"\0GLIBC_2.2.5\0GLIBC_2.28\0GLIBC_PRIVATE\0GLIBC_2.3\0GCC_4.2.0\0GLIBC_";
        assert_eq!(versions(names).max(), Some((2, 28)));
        assert_eq!(versions(b"").max(), None);
    }

    #[test]
    fn release_requires_matching_versions() {
        let released = "# Changelog\n\n## 1.2.0, 2026-01-02\n\n* a\n";
        let unreleased = "# Changelog\n\n## Unreleased\n\n* b\n\n## 1.2.0\n\n* a\n";
        let emptied = "# Changelog\n\n## Unreleased\n\n## 1.2.0\n\n* a\n";
        for (changelog, tag, agrees) in [
            (released, None, true),
            (released, Some("v1.2.0"), true),
            (released, Some("v1.3.0"), false),
            (unreleased, None, true),
            (unreleased, Some("v1.2.0"), false),
            (emptied, Some("v1.2.0"), true),
            ("# Changelog\n\n## 1.1.0\n", None, false),
            ("# Changelog\n", None, false),
        ] {
            assert_eq!(agreed("1.2.0", changelog, tag).is_ok(), agrees, "{tag:?} {changelog}");
        }
    }
}
