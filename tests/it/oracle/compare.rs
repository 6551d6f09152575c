//! Compares an index with the lists that `oracle.lisp` wrote, as sets, and lists the differences.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::Path;
use steelbank::answer::designator::FunctionName;
use steelbank::answer::lookup::Lookup;
use steelbank_xref::{Access, Index, Kind, NameRole, Symbol};

/// The numbers of comparisons, and the differences.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    /// Answers compared: one for every symbol, kind and role.
    pub(crate) answers: usize,
    /// Uses compared.
    pub(crate) uses: usize,
    /// Lookups compared: every name in every package.
    pub(crate) lookups: usize,
    /// The first 1,000 differences, one line each.
    pub(crate) differences: Vec<String>,
}

impl Comparison {
    fn differ(&mut self, difference: String) {
        if self.differences.len() < 1000 {
            self.differences.push(difference);
        }
    }
}

const ROLES: [(NameRole, &str); 6] = [
    (NameRole::Plain, "plain"),
    (NameRole::Setf, "setf"),
    (NameRole::Cas, "cas"),
    (NameRole::CompilerMacro, "compiler-macro"),
    (NameRole::SlotAccessor, "slot-accessor"),
    (NameRole::Other, "other"),
];

fn kind_text(kind: Kind) -> &'static str {
    match kind {
        Kind::Calls => "calls",
        Kind::Macroexpands => "macroexpands",
        Kind::Binds => "binds",
        Kind::References => "references",
        Kind::Sets => "sets",
        Kind::Specializes => "specializes",
    }
}

/// Returns a printed field as the oracle writes it, with blanks for tabs and line ends.
fn field(text: &str) -> String {
    text.replace(['\t', '\n', '\r'], " ")
}

fn number(number: Option<u32>) -> String {
    number.map_or_else(|| "-".to_owned(), |number| number.to_string())
}

/// Compares every answer of the who family. Omits uses of steelbank's names, because no query can
/// name them and the oracle omits them.
pub(crate) fn uses(index: &Index, folder: &Path) -> Comparison {
    let mut comparison = Comparison::default();
    let text = fs::read_to_string(folder.join("uses.txt")).unwrap();
    let mut expected: HashMap<String, BTreeSet<&str>> = HashMap::new();
    let mut methods: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for line in text.lines() {
        let mut fields = line.splitn(4, '\t');
        let (kind, role, symbol) = (fields.next().unwrap(), fields.next().unwrap(), fields.next().unwrap());
        let rest = fields.next().unwrap();
        if kind == "specializes" {
            *methods.entry((symbol, rest.split('\t').next().unwrap())).or_default() += 1;
        } else {
            expected.entry(format!("{kind} {role} {symbol}")).or_default().insert(rest);
        }
    }
    let own = fs::read_to_string(folder.join("own.txt")).unwrap();
    let own: BTreeSet<&str> = own.lines().collect();
    let mut done = BTreeSet::new();
    for symbol in index.symbols().collect::<Vec<_>>() {
        let symbol_text = field(&index.symbol_text(symbol));
        if own.contains(symbol_text.as_str()) || !done.insert(symbol_text.clone()) {
            continue;
        }
        specializations(index, symbol, &symbol_text, &mut methods, &mut comparison);
        for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Specializes) {
            if index.who_including_replaced(kind, symbol, |_| true).is_empty() {
                // Uses that sb-introspect lists and the index lacks remain in `expected`, and are
                // reported at the end.
                comparison.answers += ROLES.len();
                continue;
            }
            for (role, role_text) in ROLES {
                let found: BTreeSet<String> = index
                    .who_including_replaced(kind, symbol, |other| other == role)
                    .into_iter()
                    .map(|found| {
                        let file = found.file.as_deref().unwrap_or("-");
                        let place = [file, &number(found.offset), &number(found.form)].join("\t");
                        format!("{}\t{place}", field(&found.function))
                    })
                    .collect();
                let question = format!("{} {role_text} {symbol_text}", kind_text(kind));
                let expected = expected.remove(&question).unwrap_or_default();
                comparison.answers += 1;
                comparison.uses += expected.len();
                for missing in expected.iter().filter(|line| !found.contains(**line)) {
                    comparison.differ(format!("{question}: only sb-introspect has {missing}"));
                }
                for extra in found.iter().filter(|line| !expected.contains(line.as_str())) {
                    comparison.differ(format!("{question}: only the index has {extra}"));
                }
            }
        }
    }
    for question in expected.into_keys() {
        comparison.differ(format!("{question}: the index does not know the symbol"));
    }
    for ((class, function), count) in methods {
        comparison.differ(format!("specializes {class}: the index lacks {count} methods of {function}"));
    }
    comparison
}

/// Compares specializations by number, because sb-introspect reports only the generic function of a
/// method.
fn specializations(
    index: &Index,
    symbol: Symbol,
    text: &str,
    expected: &mut BTreeMap<(&str, &str), usize>,
    comparison: &mut Comparison,
) {
    let mut found: Vec<String> = index
        .who_including_replaced(Kind::Specializes, symbol, |role| role == NameRole::Plain)
        .into_iter()
        .map(|found| field(&found.function))
        .collect();
    comparison.answers += 1;
    comparison.uses += found.len();
    let keys: Vec<(&str, &str)> = expected.keys().copied().filter(|(class, _)| *class == text).collect();
    // Try the longest name first: (METHOD A::F ...) must not be taken for a method of a function
    // with the shorter name.
    for key in keys.into_iter().rev() {
        let start = format!("(METHOD {} ", key.1);
        let before = found.len();
        found.retain(|method| !method.starts_with(&start));
        let count = before - found.len();
        if expected.remove(&key) != Some(count) {
            comparison.differ(format!("specializes {text}: {count} methods of {} in the index", key.1));
        }
    }
    for method in found {
        comparison.differ(format!("specializes {text}: only the index has {method}"));
    }
}

/// Compares `find_symbol` for every name in every package, and `find_package` for every name.
pub(crate) fn symbols(index: &Index, folder: &Path) -> Comparison {
    let mut comparison = Comparison::default();
    let packages = fs::read_to_string(folder.join("packages.txt")).unwrap();
    for line in packages.lines() {
        let (name, actual) = line.split_once('\t').unwrap();
        comparison.lookups += 1;
        match index.find_package(name, None) {
            Some(found) if index.package_name(found) == actual => {}
            _ => comparison.differ(format!("package {name} is not found as {actual}")),
        }
    }
    let text = fs::read_to_string(folder.join("symbols.txt")).unwrap();
    let mut expected: HashMap<(&str, &str), (&str, &str)> = HashMap::new();
    let mut names = BTreeSet::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [package, status, name, symbol] = fields[..] else { panic!("{line:?}") };
        expected.insert((package, name), (status, symbol));
        names.insert(name);
    }
    for package in index.packages() {
        let package_name = index.package_name(package);
        for name in &names {
            comparison.lookups += 1;
            let found = index.find_symbol(name, package).map(|(symbol, access)| {
                let access = match access {
                    Access::Internal => "internal",
                    Access::External => "external",
                    Access::Inherited => "inherited",
                };
                (access, field(&index.symbol_text(symbol)))
            });
            let wanted = expected.get(&(&*package_name, name));
            if found.as_ref().map(|(access, symbol)| (*access, symbol.as_str())) != wanted.copied() {
                comparison.differ(format!("{name} in {package_name}: found {found:?}, should be {wanted:?}"));
            }
        }
    }
    read_back(index, &mut comparison);
    comparison
}

/// Checks that each printed symbol, given as a name argument, denotes that symbol.
fn read_back(index: &Index, comparison: &mut Comparison) {
    for symbol in index.symbols() {
        let Some(home) = index.symbol_package(symbol) else { continue };
        let Some((found, _)) = index.find_symbol(&index.symbol_name(symbol), home) else { continue };
        let text = index.symbol_text(found);
        comparison.lookups += 1;
        match Lookup::new(index, &text, "CL-USER") {
            Ok(Lookup { found: Ok((again, _)), function_name: FunctionName::Plain, .. })
                if again == found => {}
            other => comparison.differ(format!("{text} is read as {other:?}")),
        }
    }
}
