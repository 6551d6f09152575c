//! Implements package-info, which describes a package: what it exports, uses and shadows, and which
//! of its exports and imports are unused.

pub(crate) mod tool;

use crate::answer::location::as_text;
use crate::answer::{LispKind, LispName, Location, SourcePlace};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::actions::uses::use_counts::{UseLine, UseLines};
use crate::answer::lookup::{LookupStatus, find_package};
use crate::answer::package_owner::PackageOwner;
use crate::engine::Control;
use crate::handle::{Error, QueryContext, Question};
use steelbank_xref::SymbolName;

/// A request for the contents of a package.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct PackageInfoRequest {
    /// The package's name or nickname, in any case.
    pub package: String,
}

/// The answer to package-info.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct PackageInfoAnswer {
    /// Whether the package exists.
    pub status: LookupStatus,
    /// The name that was looked up.
    #[serde(skip)]
    pub asked: String,
    /// The package.
    #[serde(default, skip_serializing_if = "Option::is_none", flatten)]
    pub package: Option<PackageInfo>,
}

/// A package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct PackageInfo {
    /// Its name.
    pub name: String,
    /// Its documentation string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documentation: Option<String>,
    /// Where it is defined: `file:line:column`.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    #[schemars(with = "Option<String>")]
    pub place: Option<Location>,
    /// Its nicknames.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nicknames: Vec<String>,
    /// Local nicknames, which only code in this package can use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub local_nicknames: Vec<String>,
    /// The packages that it uses, inheriting their exported symbols.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uses: Vec<String>,
    /// The packages that use it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub used_by: Vec<String>,
    /// The symbols that shadow inherited symbols.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shadowing: Vec<LispName>,
    /// Other packages that it may modify even if they are locked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub implements: Vec<String>,
    /// Whether it is locked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub locked: bool,
    /// Number of symbols with a definition and this home package.
    #[serde(default)]
    pub own_symbols: u64,
    /// Number of internal symbols with a definition.
    #[serde(default)]
    pub internal_symbols: u64,
    /// Number of exported symbols.
    #[serde(default)]
    pub export_count: usize,
    /// The exported symbols, with their uses outside the package.
    #[serde(default)]
    pub exports: Vec<Exported>,
    /// The exported symbols that no loaded code outside the package uses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unused_exports: Vec<LispName>,
    /// The symbols that are imported individually.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub imports: Vec<Imported>,
    /// The imported symbols that no code in the package uses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unused_imports: Vec<LispName>,
    /// Whether uses were counted; false for SBCL's packages.
    #[serde(default)]
    pub counted: bool,
    /// Where it is defined.
    #[serde(default, skip_serializing)]
    pub sources: Vec<SourcePlace>,
}

impl PackageInfo {
    /// Iterates over all symbol names in Lisp's report.
    fn names(&mut self) -> impl Iterator<Item = &mut LispName> {
        let exports = self.exports.iter_mut().map(|exported| &mut exported.symbol.name);
        let imports = self.imports.iter_mut().map(|imported| &mut imported.symbol.name);
        exports.chain(imports).chain(&mut self.shadowing)
    }
}

/// A symbol that a package exports or imports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct PackageSymbol {
    /// The symbol.
    pub name: LispName,
    /// Its home package.
    #[serde(skip_serializing, default)]
    pub package: String,
    /// Its name, without package.
    #[serde(skip_serializing, default)]
    pub symbol: String,
}

impl PackageSymbol {
    fn full_name(&self) -> SymbolName {
        SymbolName::new(&*self.package, &*self.symbol)
    }
}

/// A symbol that a package exports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Exported {
    /// The symbol.
    #[serde(flatten)]
    pub symbol: PackageSymbol,
    /// The kinds of its definitions; empty if it has none.
    #[serde(default)]
    pub kinds: Vec<LispKind>,
    /// Number of lines outside the package that use it.
    #[serde(default)]
    pub uses_elsewhere: usize,
}

/// A symbol that a package imports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Imported {
    /// The symbol.
    #[serde(flatten)]
    pub symbol: PackageSymbol,
    /// Number of lines in the package that use it.
    #[serde(default)]
    pub uses_here: usize,
}

impl PackageInfoRequest {
    /// Creates a request about `package`.
    pub fn new(package: impl Into<String>) -> Self {
        Self { package: package.into() }
    }
}

fn is_use(counted: &UseLine) -> bool {
    !counted.is_declaration
}

impl Question for PackageInfoRequest {
    type Answer = PackageInfoAnswer;

    const REPEATABLE: bool = true;

    fn answer(&self, context: &QueryContext<'_>, control: &Control) -> Result<PackageInfoAnswer, Error> {
        let index = &context.index;
        let name = match find_package(index, &self.package) {
            Some(package) => index.package_name(package).into_owned(),
            None => self.package.trim().trim_start_matches([':', '#']).to_uppercase(),
        };
        let mut answer: PackageInfoAnswer = context.ask("package-info", vec![name.clone()], control)?;
        answer.asked = name;
        let Some(package) = &mut answer.package else { return Ok(answer) };
        package.names().for_each(|name| name.write(index));
        package.place = context.places().first(&mut package.sources);
        package.export_count = package.exports.len();
        package.counted = !PackageOwner::of(&package.name).is_locked();
        if package.counted {
            let counter = UseLines::new(context, control);
            let home = package.name.clone();
            for exported in &mut package.exports {
                control.check()?;
                let uses = counter.lines(&exported.symbol.full_name());
                exported.uses_elsewhere =
                    uses.iter().filter(|each| is_use(each) && each.package.as_deref() != Some(&home)).count();
                if exported.uses_elsewhere == 0 {
                    package.unused_exports.push(exported.symbol.name.clone());
                }
            }
            for imported in &mut package.imports {
                control.check()?;
                let uses = counter.lines(&imported.symbol.full_name());
                imported.uses_here =
                    uses.iter().filter(|each| is_use(each) && each.package.as_deref() == Some(&home)).count();
                if imported.uses_here == 0 {
                    package.unused_imports.push(imported.symbol.name.clone());
                }
            }
        }
        Ok(answer)
    }
}
