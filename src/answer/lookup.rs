//! Resolves the arguments `name` and `package` of a request to a symbol, by the same rules for
//! every tool. This needs only the index, not a running Lisp.

use crate::answer::designator::{Designator, DesignatorError, FunctionName};
use crate::answer::nearest::user_homes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use steelbank_reader::{normalized, upcase};
use steelbank_xref::{Access, Index, Package, Symbol, SymbolName};

/// The default package for resolving names.
pub const DEFAULT_PACKAGE: &str = "CL-USER";

/// A symbol, as specified in a request.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct NamedSymbol {
    /// The symbol, in any case: cl:mapcar, pkg::name, |Mixed Case|, (setf name).
    pub name: String,
    // The text of the schema is part of a contract. Without a package, a symbol that is not in
    // CL-USER is also found if exactly one of the user's packages is its home.
    /// Package name (defaults to CL-USER).
    #[serde(default)]
    #[schemars(extend("default" = DEFAULT_PACKAGE))]
    pub package: Option<String>,
}

impl NamedSymbol {
    /// Resolves the symbol. Interns nothing.
    ///
    /// # Errors
    /// The name cannot be parsed.
    pub fn lookup(&self, index: &Index) -> Result<Lookup, DesignatorError> {
        Lookup::resolved(index, &self.name, self.package.as_deref())
    }
}

/// Adds functions to a request about a symbol: `new`, and `package`, which sets the package for
/// resolving the name.
macro_rules! about_symbol {
    ($request:ident { $($option:ident: $default:expr),* }) => {
        impl $request {
            /// Returns a request about `name`, which [`crate::answer::designator`] parses. A name
            /// without a package prefix is resolved in CL-USER. If no such symbol is accessible
            /// there, and exactly one user package is home to a symbol of this name, the name is
            /// resolved in that package.
            pub fn new(name: impl Into<String>) -> Self {
                let symbol = $crate::answer::lookup::NamedSymbol { name: name.into(), package: None };
                Self { symbol, $($option: $default),* }
            }

            /// Resolves the name in `package` instead.
            #[must_use]
            pub fn package(mut self, package: impl Into<String>) -> Self {
                self.symbol.package = Some(package.into());
                self
            }
        }
    };
}

pub(crate) use about_symbol;

/// The name and the package of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Asked {
    /// The symbol's name, upcased and unescaped; an uninterned symbol's name begins with `#:`.
    pub name: String,
    /// The package's name, upcased. If the `name` argument has a prefix, this is the prefix.
    pub package: String,
}

impl Asked {
    /// Returns the symbol, which need not exist. `package` is the package that was found.
    pub(crate) fn symbol(&self, index: &Index, package: Option<Package>) -> SymbolName {
        let home = package.map_or(Cow::Borrowed(&*self.package), |package| index.package_name(package));
        SymbolName::new(home, &*self.name)
    }
}

/// Whether a symbol was found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LookupStatus {
    /// The symbol is accessible in the package.
    #[default]
    Found,
    /// No symbol of that name is accessible in the package.
    NoSymbol,
    /// The name is an uninterned symbol, which is in no package.
    Uninterned,
    /// There is no package of that name.
    NoPackage,
}

/// The outcome of a lookup.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lookup {
    /// The name and the package of the request.
    pub asked: Asked,
    /// The form of the function name, as in `(setf car)`.
    pub function_name: FunctionName,
    /// The package for resolving the name, if it exists.
    pub package: Option<Package>,
    /// The symbol and its accessibility, or the reason why it was not found.
    pub found: Result<(Symbol, Access), LookupStatus>,
    /// The package where the symbol was found, if the request specified no package and no such
    /// symbol is accessible in CL-USER.
    pub looked_up_in: Option<String>,
}

impl Lookup {
    /// Resolves `name` in `package`. Interns nothing.
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

    /// Resolves `name` in `package` like [`Lookup::new`]. If the request has neither a package nor
    /// a prefix, looks in CL-USER. If no such symbol is accessible there, and exactly one user
    /// package is home to a symbol of that name, looks in that package.
    pub fn resolved(index: &Index, name: &str, package: Option<&str>) -> Result<Self, DesignatorError> {
        let lookup = Self::new(index, name, package.unwrap_or(DEFAULT_PACKAGE))?;
        if package.is_none()
            && lookup.found == Err(LookupStatus::NoSymbol)
            && lookup.package == find_package(index, DEFAULT_PACKAGE)
            && let homes = user_homes(index, &lookup.asked.name)
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

/// Finds a package by the `package` argument: by the upcased name, or else exactly as written.
pub fn find_package(index: &Index, name: &str) -> Option<Package> {
    index.find_package(&upcased(name), None).or_else(|| index.find_package(plain(name), None))
}

fn upcased(name: &str) -> String {
    normalized(plain(name)).chars().map(upcase).collect()
}

/// Strips `:` or `#:`, and the bars of a symbol, from a package argument.
fn plain(name: &str) -> &str {
    let name = name.trim();
    let name = name.strip_prefix("#:").or_else(|| name.strip_prefix(':')).unwrap_or(name);
    name.strip_prefix('|').and_then(|name| name.strip_suffix('|')).unwrap_or(name)
}

/// Returns the contract's sentence for a package or symbol that does not exist.
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
    fn missing_names_have_the_contracts_wording() {
        let asked = Asked { name: "FOO".into(), package: "CL-USER".into() };
        assert_eq!(
            missing(&asked, LookupStatus::NoSymbol),
            "Symbol FOO not found in package CL-USER (status: NIL)"
        );
        assert_eq!(missing(&asked, LookupStatus::NoPackage), "Package CL-USER not found");
    }
}
