//! `cargo xtask licenses`: writes the notices of all libraries linked into the program, which the
//! program prints.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{Outcome, Passed, cargo, root};

/// The file that `steelbank licenses` prints.
const NOTICES: &str = "vendor-notes/licenses.txt";

/// The prefixes of the names of files with a licence or a notice.
const NAMES: [&str; 5] = ["license", "licence", "copying", "notice", "unlicense"];

const HEAD: &str = "\
steelbank is licensed under MIT or Apache-2.0, at your option. These libraries by others are linked into it. Each licence
or notice follows once, with the names of the libraries that it applies to.
";

/// Writes the notices.
pub(crate) fn write() -> Outcome {
    fs::write(root().join(NOTICES), notices()?).map_err(|error| format!("{NOTICES}: {error}"))?;
    Ok(Passed::Whole)
}

/// Checks that the notices match the libraries that are linked now.
pub(crate) fn check() -> Outcome {
    let kept = fs::read_to_string(root().join(NOTICES)).map_err(|error| format!("{NOTICES}: {error}"))?;
    match kept == notices()? {
        true => Ok(Passed::Whole),
        false => Err(format!("{NOTICES} is outdated; run cargo xtask licenses")),
    }
}

fn notices() -> Result<String, String> {
    let mut list = String::new();
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in linked()? {
        list.push_str(&format!("  {} {}: {}\n", package.name, package.version, package.license));
        let files = package.files()?;
        if files.is_empty() {
            list.push_str("    (the package has no file with the text; its licence is one of those below)\n");
        }
        for text in files {
            texts.entry(text).or_default().push(package.name.clone());
        }
    }
    let sbcl = sbcl_tree()?;
    let version = fs::read_to_string(root().join("vendor-notes/sbcl/version"))
        .map_err(|error| format!("vendor-notes/sbcl/version: {error}"))?;
    list.push_str(&format!("  SBCL {}: public domain, parts BSD and MIT\n", version.trim()));
    texts.entry(read(&sbcl.join("COPYING"))?).or_default().push("SBCL".to_owned());
    let mut parts: Vec<(Vec<String>, String)> = texts.into_iter().map(|(text, of)| (of, text)).collect();
    parts.sort();
    let rule = "-".repeat(80);
    let mut all = format!("{HEAD}\n{list}");
    for (of, text) in parts {
        let of: Vec<String> = BTreeSet::from_iter(of).into_iter().collect();
        all.push_str(&format!("\n{rule}\n{}\n\n{text}\n", of.join(", ")));
    }
    Ok(all)
}

/// A package that is linked into the program.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Package {
    name: String,
    version: String,
    license: String,
    folder: PathBuf,
}

impl Package {
    /// Reads the package's licences and notices.
    fn files(&self) -> Result<Vec<String>, String> {
        let entries =
            fs::read_dir(&self.folder).map_err(|error| format!("{}: {error}", self.folder.display()))?;
        let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.retain(|path| {
            let name = path.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase());
            path.is_file() && name.is_some_and(|name| NAMES.iter().any(|begin| name.starts_with(begin)))
        });
        paths.sort();
        paths.iter().map(|path| read(path)).collect()
    }
}

/// Reads a text and removes trailing blanks, so that equal licences compare equal.
fn read(path: &Path) -> Result<String, String> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let lines: Vec<&str> = text.trim_matches(['\n', '\r', '\u{c}']).lines().map(str::trim_end).collect();
    Ok(lines.join("\n"))
}

/// Lists the packages that are linked into the program on this platform, without this project's
/// crates.
fn linked() -> Result<BTreeSet<Package>, String> {
    // Use cargo tree, because cargo metadata also includes packages that only tests use.
    let tree =
        cargo().args(["tree", "--locked", "-p", "steelbank", "-e", "normal", "--prefix", "none"]).output();
    let tree = tree.map_err(|error| format!("cannot run cargo tree: {error}"))?;
    if !tree.status.success() {
        return Err(format!("cargo tree failed: {}", String::from_utf8_lossy(&tree.stderr)));
    }
    let tree = String::from_utf8_lossy(&tree.stdout);
    let is_linked = |package: &Package| {
        let start = format!("{} v{}", package.name, package.version);
        tree.lines().any(|line| line == start || line.starts_with(&format!("{start} ")))
    };
    let mut command = cargo();
    command.args([
        "metadata", "--format-version", "1", "--locked", "--filter-platform", "x86_64-unknown-linux-gnu",
    ]);
    let output = command.output().map_err(|error| format!("cannot run cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let list = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    let packages: BTreeMap<String, Value> =
        list(&metadata, "packages").into_iter().map(|package| (text(&package, "id"), package)).collect();
    let nodes: BTreeMap<String, Value> =
        list(&metadata["resolve"], "nodes").into_iter().map(|node| (text(&node, "id"), node)).collect();
    let mut waiting: Vec<String> = packages
        .values()
        .filter(|package| package["name"] == "steelbank")
        .map(|package| text(package, "id"))
        .collect();
    let (mut seen, mut found) = (BTreeSet::new(), BTreeSet::new());
    while let Some(id) = waiting.pop() {
        if !seen.insert(id.clone()) {
            continue;
        }
        let package = packages.get(&id).ok_or_else(|| format!("cargo metadata has no package {id}"))?;
        if !package["source"].is_null() {
            let manifest = PathBuf::from(text(package, "manifest_path"));
            found.insert(Package {
                name: text(package, "name"),
                version: text(package, "version"),
                license: text(package, "license"),
                folder: manifest.parent().unwrap_or(Path::new("")).to_owned(),
            });
        }
        for dependency in nodes.get(&id).map(|node| list(node, "deps")).unwrap_or_default() {
            if list(&dependency, "dep_kinds").iter().any(|kind| kind["kind"].is_null()) {
                waiting.push(text(&dependency, "pkg"));
            }
        }
    }
    found.retain(is_linked);
    Ok(found)
}

/// Returns the SBCL tree that `bootstrap` built.
pub(crate) fn sbcl_tree() -> Result<PathBuf, String> {
    let output = std::process::Command::new("sh")
        .args(["bootstrap", "--print-path"])
        .current_dir(root())
        .output()
        .map_err(|error| format!("cannot run bootstrap: {error}"))?;
    match output.status.success() {
        true => Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())),
        false => Err("SBCL is not built yet; run ./bootstrap first".to_owned()),
    }
}
