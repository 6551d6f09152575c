//! Resolves the arguments `name` and `package` to a symbol, as every tool does. Needs the index alone.

use crate::answer::designator::{Designator, DesignatorError, FunctionName};
use crate::answer::nearest::of_users;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use steelbank_reader::{normalized, upcase};
use steelbank_xref::{Access, Index, Package, Symbol};

/// The package in which names are looked up when none is given.
pub const DEFAULT_PACKAGE: &str = "CL-USER";

/// A symbol as a request names it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct NamedSymbol {
    /// The symbol, in any case: mapcar, cl:mapcar, pkg::name, |Mixed Case|, (setf name).
    pub name: String,
    // Without one, the only package of the user's that has the name will do.
    /// Package name (defaults to CL-USER).
    #[serde(default)]
    #[schemars(extend("default" = DEFAULT_PACKAGE))]
    pub package: Option<String>,
}

impl NamedSymbol {
    /// Looks the symbol up. Nothing is interned.
    ///
    /// # Errors
    /// The name cannot be read.
    pub fn lookup(&self, index: &Index) -> Result<Lookup, DesignatorError> {
        Lookup::resolved(index, &self.name, self.package.as_deref())
    }
}

/// Gives a request about a symbol `new`, and `package` to say where the name is looked up.
macro_rules! about_symbol {
    ($request:ident { $($option:ident: $default:expr),* }) => {
        impl $request {
            /// Makes a request about `name`, as [`crate::answer::designator`] reads it: looked up in CL-USER, or else in
            /// the only one of the user's packages that has it.
            pub fn new(name: impl Into<String>) -> Self {
                let symbol = $crate::answer::lookup::NamedSymbol { name: name.into(), package: None };
                Self { symbol, $($option: $default),* }
            }

            /// Looks the name up in `package` instead.
            #[must_use]
            pub fn package(mut self, package: impl Into<String>) -> Self {
                self.symbol.package = Some(package.into());
                self
            }
        }
    };
}

pub(crate) use about_symbol;

/// A name and a package as they were asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Asked {
    /// The symbol's name, upcased and unescaped.
    pub name: String,
    /// The package's name, upcased; the prefix of the name argument if it had one.
    pub package: String,
}

/// Whether a symbol was found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LookupStatus {
    /// The symbol is accessible in the package.
    #[default]
    Found,
    /// The package has no symbol of that name.
    NoSymbol,
    /// The name is that of an uninterned symbol, which no package has.
    Uninterned,
    /// There is no package of that name.
    NoPackage,
}

/// The outcome of a lookup.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lookup {
    /// The name and the package that were asked for.
    pub asked: Asked,
    /// The form of the function name, as in `(setf car)`.
    pub function_name: FunctionName,
    /// The package in which the name was looked up, if it exists.
    pub package: Option<Package>,
    /// The symbol and its accessibility, or what does not exist.
    pub found: Result<(Symbol, Access), LookupStatus>,
    /// The package in which it was found, if nobody named that: CL-USER has no such symbol.
    pub looked_up_in: Option<String>,
}

impl Lookup {
    /// Finds what `name` denotes in `package`. Nothing is interned.
    pub fn new(index: &Index, name: &str, package: &str) -> Result<Self, DesignatorError> {
        let designator = Designator::parse(name)?;
        let home = find_package(index, package);
        let (asked, package) = match designator.package {
            None => (upcased(package), home),
            Some(prefix) => {
                let found = index.find_package(&prefix, home);
                (prefix, found)
            }
        };
        let mut name = designator.name;
        if designator.uninterned {
            name.insert_str(0, "#:");
        }
        let found = match package {
            None => Err(LookupStatus::NoPackage),
            Some(_) if designator.uninterned => Err(LookupStatus::Uninterned),
            Some(package) => index.find_symbol(&name, package).ok_or(LookupStatus::NoSymbol),
        };
        let asked = Asked { name, package: asked };
        Ok(Self { asked, function_name: designator.function_name, package, found, looked_up_in: None })
    }

    /// Finds what `name` denotes in `package`, as [`Lookup::new`]. Without a package and a prefix, CL-USER is meant;
    /// if that has no such symbol, and exactly one package of the user's has it as its own, finds it there.
    pub fn resolved(index: &Index, name: &str, package: Option<&str>) -> Result<Self, DesignatorError> {
        let lookup = Self::new(index, name, package.unwrap_or(DEFAULT_PACKAGE))?;
        if package.is_none()
            && lookup.found == Err(LookupStatus::NoSymbol)
            && lookup.package == find_package(index, DEFAULT_PACKAGE)
            && let homes = of_users(index, &lookup.asked.name)
            && let (Some(home), 1) = (homes.first(), homes.len())
        {
            let there = Self::new(index, name, home)?;
            if there.found.is_ok() {
                return Ok(Self { looked_up_in: Some(home.clone()), asked: lookup.asked, ..there });
            }
        }
        Ok(lookup)
    }
}

/// Finds the package that a `package` argument means: by its name upcased, or else exactly as written.
pub fn find_package(index: &Index, name: &str) -> Option<Package> {
    index.find_package(&upcased(name), None).or_else(|| index.find_package(plain(name), None))
}

fn upcased(name: &str) -> String {
    normalized(plain(name)).chars().map(upcase).collect()
}

/// Strips the colon of a keyword or the bars of a symbol from a package argument.
fn plain(name: &str) -> &str {
    let name = name.trim();
    let name = name.strip_prefix("#:").or_else(|| name.strip_prefix(':')).unwrap_or(name);
    name.strip_prefix('|').and_then(|name| name.strip_suffix('|')).unwrap_or(name)
}

/// Renders the sentence of all tools for a package or symbol that does not exist.
pub fn missing(asked: &Asked, status: LookupStatus) -> String {
    match status {
        LookupStatus::NoPackage => format!("Package {} not found", asked.package),
        LookupStatus::NoSymbol | LookupStatus::Uninterned | LookupStatus::Found => {
            format!("Symbol {} not found in package {} (status: NIL)", asked.name, asked.package)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told_in_the_contracts_words() {
        let asked = Asked { name: "FOO".into(), package: "CL-USER".into() };
        assert_eq!(
            missing(&asked, LookupStatus::NoSymbol),
            "Symbol FOO not found in package CL-USER (status: NIL)"
        );
        assert_eq!(missing(&asked, LookupStatus::NoPackage), "Package CL-USER not found");
    }
}
