//! Lists the symbols that source code in a package can refer to, for completion.

use crate::answer::name::barred;
use crate::engine::control::Control;
use crate::handle::context::QueryContext;
use crate::handle::question::Question;
use steelbank_xref::{Access, Package, SymbolName};

/// A request for the symbols that source code in a package can refer to, with a given package
/// prefix or without a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessibleNamesRequest {
    /// The current package.
    pub package: String,
    /// The package prefix: a package's name or nickname. `None` for an unqualified name.
    pub prefix: Option<String>,
    /// Whether the prefix has two colons, so that internal symbols are included.
    pub internal: bool,
}

/// A symbol that source code can refer to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Accessible {
    /// Its name in source spelling, without the prefix: lower case, or in bars if necessary.
    pub written: String,
    /// The symbol.
    pub symbol: SymbolName,
}

impl Accessible {
    pub(crate) fn new(name: &str, symbol: SymbolName) -> Self {
        let plain = |char: char| !char.is_whitespace() && !"()'\"`,;:|\\#".contains(char);
        let written = match name.chars().all(|char| plain(char) && !char.is_lowercase()) {
            true => name.to_lowercase(),
            false => barred(name),
        };
        Self { written, symbol }
    }
}

impl Question for AccessibleNamesRequest {
    type Answer = Vec<Accessible>;

    fn answer(
        &self,
        context: &QueryContext<'_>,
        control: &Control,
    ) -> Result<Vec<Accessible>, crate::handle::Error> {
        control.check()?;
        let index = &context.index;
        let current = index.find_package(&self.package, None);
        let looked_in: Option<Package> = match &self.prefix {
            Some(prefix) => index.find_package(prefix, current),
            None => current,
        };
        let Some(looked_in) = looked_in else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for symbol in index.symbols() {
            let name = index.symbol_name(symbol);
            let Some((_, access)) = index.find_symbol(&name, looked_in).filter(|(known, _)| *known == symbol)
            else {
                continue;
            };
            let listed = match &self.prefix {
                Some(_) => access == Access::External || (self.internal && access == Access::Internal),
                None => true,
            };
            if !listed || index.symbol_package(symbol).is_none() {
                continue;
            }
            found.push(Accessible::new(&name, index.full_name(symbol)));
        }
        found.sort_by(|one, other| one.written.cmp(&other.written));
        Ok(found)
    }
}
