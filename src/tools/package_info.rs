//! The tool package-info: what a package exports, uses and shadows.

use super::words::listed;
use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::missing::{MaybeFound, Missing};
use super::page::{Page, Paging};
use super::{About, Call, CallOutcome, Effect, Failure, Session, Tool, ToolAnswer};
use crate::query::control::ALLOWED;
use crate::query::counted;
use crate::query::package_info::{PackageInfo, PackageInfoAnswer, PackageInfoRequest};

#[derive(Debug, Deserialize, JsonSchema)]
struct Arguments {
    /// The package's name or nickname, in any case.
    package: String,
    #[serde(flatten)]
    paging: Paging,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ListedPackage {
    #[serde(flatten)]
    answer: PackageInfoAnswer,
    /// The pages of `exports`.
    #[serde(flatten)]
    page: Page,
}

pub(super) fn tool() -> Tool {
    let about = About {
        name: "package-info",
        title: "Describe a package",
        description: "Tells what a Common Lisp package exports (each export with its number of uses outside of the \
            package), uses, shadows and imports, its nicknames, and which exports and imports nothing uses in what is \
            loaded. Use it to learn a library's interface, or before changing one.",
        effect: Effect::Reads,
    };
    Tool::new::<Arguments, MaybeFound<ListedPackage>>(about, info).of_image()
}

fn info(session: &Session, given: Arguments, call: &Call) -> Result<ToolAnswer, Failure> {
    let request = PackageInfoRequest::new(&given.package);
    let bank = session.bank()?;
    let mut answer = bank.package_info(&request, &call.control(ALLOWED))?;
    let Some(package) = &mut answer.package else {
        return Missing::package(&bank.index(), &given.package, None).answer(CallOutcome::NotFound);
    };
    let (exports, page) = given.paging.cut(std::mem::take(&mut package.exports))?;
    package.exports = exports;
    let mut text = text(package);
    text.push_str(&page.rest(package.exports.len()));
    ToolAnswer::new(text, &MaybeFound::yes(ListedPackage { answer, page }), CallOutcome::Answered)
}

fn text(package: &PackageInfo) -> String {
    let mut text = format!("Package {}", package.name);
    if let Some(place) = &package.place {
        let _ = write!(text, " {place}");
    }
    if let Some(documentation) = &package.documentation {
        let _ = write!(text, "\n  {}", documentation.replace('\n', "\n  "));
    }
    let lists = [
        ("Nicknames", &package.nicknames),
        ("Local nicknames", &package.local_nicknames),
        ("Uses", &package.uses),
        ("Used by", &package.used_by),
        ("Shadows", &package.shadowing),
        ("Unused imports", &package.unused_imports),
        ("Exports that nothing else uses", &package.unused_exports),
    ];
    for (heading, names) in lists {
        if !names.is_empty() {
            let _ = write!(text, "\n  {heading}: {}", names.join(", "));
        }
    }
    let _ = write!(
        text,
        "\n  {} of its own, {} internal; {} exported:",
        counted(package.own_symbols, "symbol", "symbols"),
        package.internal_symbols,
        package.export_count
    );
    for exported in &package.exports {
        let kinds = if exported.kinds.is_empty() { "nothing".to_owned() } else { listed(&exported.kinds) };
        let _ = write!(text, "\n    {} [{kinds}]", exported.symbol.name);
        if package.counted {
            let _ = write!(text, " {} elsewhere", counted(exported.uses_elsewhere, "use", "uses"));
        }
    }
    text
}
