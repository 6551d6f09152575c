//! Suggestions for a name that does not exist: symbols of the same name in other packages, and
//! similarly spelt symbols, systems, packages and files. Each list of suggestions has at most
//! [`MOST_SUGGESTIONS`] entries.

use std::collections::BTreeSet;
use std::path::Path;

use steelbank_reader::upcase;
use steelbank_xref::{Access, Index, Package, Symbol, SymbolName};

use crate::answer::name::{of_symbol, qualified, readable};
use crate::answer::package_owner::PackageOwner;
use crate::workspace::{Project, ReadSymbols};

/// The maximum number of suggestions of a kind.
const MOST_SUGGESTIONS: usize = 5;

/// Returns whether a package belongs to the user. COMMON-LISP-USER does not count, because anything
/// typed at a REPL ends up in that package.
fn is_users(package: &str) -> bool {
    PackageOwner::of(package) == PackageOwner::User && package != "COMMON-LISP-USER"
}

/// Lists the user's packages, of the project or its libraries, that are home to a symbol called
/// `name`.
pub(crate) fn user_homes(index: &Index, name: &str) -> BTreeSet<String> {
    let homes = index.homes(name).map(|(home, ..)| index.package_name(home).into_owned());
    homes.filter(|package| is_users(package)).collect()
}

/// Lists the symbols called `name` in all packages, as users write them: the user's symbols, and
/// the exported symbols of other packages.
pub(crate) fn in_other_packages(index: &Index, read: &ReadSymbols, name: &str) -> Vec<String> {
    let mut found = BTreeSet::new();
    for (package, symbol, access) in index.homes(name) {
        let users = is_users(&index.package_name(package));
        found.extend(
            written(index, symbol, package, name, None, users)
                .map(|text| (!users, access == Access::Internal, text)),
        );
    }
    let named = read.near(name, 0).filter(|symbol| symbol.name == name);
    found.extend(named.filter_map(|symbol| Some((false, true, text_only_name(index, symbol, None)?))));
    found.into_iter().take(MOST_SUGGESTIONS).map(|(_, _, text)| text).collect()
}

/// Lists names that are spelt like `name`, nearest first: the user's symbols, and the exported
/// symbols of other packages. Formats them as users write them in `package`, or with a prefix if
/// `package` is `None`.
pub(crate) fn names(index: &Index, read: &ReadSymbols, name: &str, package: Option<Package>) -> Vec<String> {
    let most = tolerance(name);
    let wanted = upper(name);
    // Compare in upper case, because names with bars are often typed without them.
    let distance = |other: &str| {
        let is_other = other != name;
        is_other.then(|| strsim::osa_distance(&wanted, &upper(other))).filter(|distance| *distance <= most)
    };
    let mut found: BTreeSet<(usize, bool, String)> = BTreeSet::new();
    for symbol in index.symbols_near(name, most) {
        let other = index.symbol_name(symbol);
        let Some(distance) = distance(&other) else { continue };
        let Some(home) = index.symbol_package(symbol) else { continue };
        let users = is_users(&index.package_name(home));
        if let Some(text) = written(index, symbol, home, &other, package, users) {
            found.insert((distance, !users, text));
        }
    }
    found.extend(read.near(name, most).filter_map(|symbol| {
        let distance = distance(&symbol.name)?;
        Some((distance, false, text_only_name(index, symbol, package)?))
    }));
    found.into_iter().take(MOST_SUGGESTIONS).map(|(_, _, text)| text).collect()
}

/// Lists names that contain each word of `pattern` or a similar word, nearest first: the user's
/// symbols, and the exported symbols of other packages.
pub(crate) fn names_by_words(index: &Index, read: &ReadSymbols, pattern: &str) -> Vec<String> {
    let split = |text: &str| -> Vec<String> {
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        words.map(upper).collect()
    };
    let wanted = split(pattern);
    if wanted.is_empty() {
        return Vec::new();
    }
    // Ranks by the sum of the words' distances, then by the number of words in the name.
    let rank = |name: &str| {
        let (upper, words) = (upper(name), split(name));
        let distance = |word: &String| match upper.contains(word.as_str()) {
            true => Some(0),
            false => {
                let distances = words.iter().map(|other| strsim::osa_distance(word, other));
                distances.min().filter(|distance| *distance <= tolerance(word))
            }
        };
        let distances: Option<Vec<usize>> = wanted.iter().map(distance).collect();
        Some((distances?.iter().sum(), words.len()))
    };
    let mut found: BTreeSet<(usize, bool, usize, String)> = BTreeSet::new();
    for symbol in index.symbols() {
        let (name, Some(home)) = (index.symbol_name(symbol), index.symbol_package(symbol)) else { continue };
        let Some((distance, words)) = rank(&name) else { continue };
        let users = is_users(&index.package_name(home));
        if let Some(text) = written(index, symbol, home, &name, None, users) {
            found.insert((distance, !users, words, text));
        }
    }
    found.extend(read.all().filter_map(|symbol| {
        let (distance, words) = rank(&symbol.name)?;
        Some((distance, false, words, text_only_name(index, symbol, None)?))
    }));
    found.into_iter().take(MOST_SUGGESTIONS).map(|(.., text)| text).collect()
}

fn upper(text: &str) -> String {
    text.chars().map(upcase).collect()
}

/// Formats `symbol`, which occurs only in the text of loaded files, as users write it in `package`.
/// Returns `None` if the image has the symbol, or has no user's package with the name of the
/// symbol's home package.
fn text_only_name(index: &Index, symbol: &SymbolName, package: Option<Package>) -> Option<String> {
    let SymbolName { package: home, name } = symbol;
    let at_home = index.find_package(home, None).filter(|_| is_users(home))?;
    let is_missing = index.find_symbol(name, at_home).is_none();
    is_missing.then(|| match package == Some(at_home) {
        true => readable(name),
        false => qualified(index, home, name),
    })
}

/// Formats `symbol` as users write it: without a prefix if the symbol is accessible in `package`.
/// If it is not accessible there, returns `None` for keywords, for symbols of SBCL's undocumented
/// packages, and for internal symbols of any package that is not the user's (`users`).
fn written(
    index: &Index,
    symbol: Symbol,
    home: Package,
    name: &str,
    package: Option<Package>,
    users: bool,
) -> Option<String> {
    let means = |package: Package| index.find_symbol(name, package).filter(|(found, _)| *found == symbol);
    if let Some(package) = package
        && means(package).is_some()
    {
        return Some(readable(name));
    }
    let external = means(home).is_some_and(|(_, access)| access == Access::External);
    let home = index.package_name(home).to_lowercase();
    // Skip keywords, because nothing can be looked up about them.
    if home == "keyword" {
        return None;
    }
    let documented =
        users || !home.starts_with("sb-") || ["sb-ext", "sb-thread", "sb-mop"].contains(&home.as_str());
    (users || (external && documented)).then(|| of_symbol(index, symbol))
}

/// Lists the names in `known` that are spelt like `name`, nearest first.
pub(crate) fn among<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let most = tolerance(name);
    let plain = |text: &str| text.to_lowercase().replace('_', "-");
    let wanted = plain(name);
    let mut found: Vec<(usize, &str)> = known
        .into_iter()
        .map(|known| (strsim::osa_distance(&wanted, &plain(known)), known))
        .filter(|(distance, _)| *distance <= most)
        .collect();
    found.sort_unstable();
    found.dedup();
    found.into_iter().take(MOST_SUGGESTIONS).map(|(_, known)| known.to_owned()).collect()
}

/// Lists the systems in `known` that `name` may mean: few letters differ, or one name contains the
/// other.
pub(crate) fn systems<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let known: BTreeSet<&str> = known.into_iter().collect();
    let wanted = name.to_lowercase();
    let holds = |other: &str| {
        let other = other.to_lowercase();
        wanted.len() > 2 && other.len() > 2 && (other.contains(&wanted) || wanted.contains(&other))
    };
    let mut found = among(name, known.iter().copied());
    let holding: Vec<String> = known.into_iter().filter(|known| holds(known)).map(str::to_owned).collect();
    found.extend(holding);
    let mut seen = BTreeSet::new();
    found.retain(|name| seen.insert(name.clone()));
    found.truncate(MOST_SUGGESTIONS);
    found
}

/// Lists paths that `given`, a path that does not exist, may mean: files of the project, loaded
/// files, and folders.
pub(crate) fn paths_in(project: &Project, given: &str) -> Vec<String> {
    let loaded = project.loaded().into_iter().map(|(path, _)| path).filter(|path| path.is_file());
    let files = project.lisp_files().into_iter().chain(loaded);
    let mut known: BTreeSet<String> = files.map(|path| project.shown(&path)).collect();
    let folders = |path: &String| -> Vec<String> {
        let above = Path::new(path).ancestors().skip(1).filter(|above| above.is_relative());
        above.map(|above| above.display().to_string()).filter(|above| !above.is_empty()).collect()
    };
    let folders: Vec<String> = known.iter().flat_map(folders).collect();
    known.extend(folders);
    paths(&project.shown(Path::new(given)), known.iter().map(String::as_str))
}

/// Lists the paths in `known` that `given` may mean. Files of the same name in other folders come
/// first, then files with another extension, then names or paths that differ in few letters.
fn paths<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let wanted = given.trim_end_matches('/').to_lowercase();
    let (name, most) = (file_name(&wanted), tolerance(&wanted));
    let rank = |known: &str| {
        let known = known.to_lowercase();
        let other = file_name(&known);
        let whole = strsim::osa_distance(&wanted, &known);
        let names = strsim::osa_distance(name, other);
        let same_stem = stem(name) == stem(other) && !stem(name).is_empty();
        let is_like = whole <= most || names <= tolerance(stem(name)) || same_stem;
        is_like.then_some((name != other, !same_stem, names.min(whole), whole))
    };
    let found: BTreeSet<_> = known.into_iter().filter_map(|known| Some((rank(known)?, known))).collect();
    found.into_iter().take(MOST_SUGGESTIONS).map(|(_, known)| known.to_owned()).collect()
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns a file's name without its extension.
fn stem(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}

/// Lists the packages with names spelt like `name`.
pub(crate) fn packages(index: &Index, name: &str) -> Vec<String> {
    let names: Vec<String> =
        index.packages().map(|package| index.package_name(package).into_owned()).collect();
    among(name, names.iter().map(String::as_str))
}

/// Returns the maximum number of letters in which a suggestion may differ from `name`. It depends
/// on the length of `name`.
fn tolerance(name: &str) -> usize {
    match name.chars().count() {
        0..=2 => 0,
        3..=5 => 1,
        6..=11 => 2,
        _ => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found_nearest_first() {
        let known = ["who-calls", "who-sets", "who-binds", "status"];
        assert_eq!(among("who-cals", known), ["who-calls"]);
        assert_eq!(among("who_call", known), ["who-calls"]);
        assert_eq!(among("x", known), [""; 0]);
    }

    #[test]
    fn paths_are_near_by_name_then_by_letters() {
        let known =
            ["src/area.lisp", "src/areas.lisp", "tests/area.lisp", "area.asd", "src/volume.lisp", "src"];
        assert_eq!(
            paths("area.lisp", known),
            ["src/area.lisp", "tests/area.lisp", "area.asd", "src/areas.lisp"]
        );
        assert_eq!(paths("src/volume", known), ["src/volume.lisp"]);
        assert_eq!(paths("sorc/volmue.lisp", known), ["src/volume.lisp"]);
        assert_eq!(paths("/elsewhere/src/", known), ["src"]);
        assert_eq!(paths("nothing.lisp", known), [""; 0]);
    }

    #[test]
    fn systems_are_near_by_spelling_or_containment() {
        let known = ["shop", "shop/tests", "cart", "uiop"];
        assert_eq!(systems("shpo", known), ["shop"]);
        assert_eq!(systems("shop/test", known), ["shop/tests", "shop"]);
        assert_eq!(systems("SHOP", known), ["shop", "shop/tests"]);
        assert_eq!(systems("x", known), [""; 0]);
    }
}
