//! The tool package-info: what a package exports, uses and shadows.

use super::words::listed;
use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::missing::{MaybeFound, Missing};
use super::page::{PageRange, Paging, Part, Sequence, ToolReply};
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

#[derive(Debug, Clone, Serialize, JsonSchema)]
struct ListedPackage {
    #[serde(flatten)]
    answer: PackageInfoAnswer,
    /// How many exports there are in all.
    total: usize,
    /// Pass it as `cursor` to get the entries that follow; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

impl Sequence for ListedPackage {
    fn lists(&mut self, part: &mut Part) {
        let Some(package) = &mut self.answer.package else { return };
        part.keep(&mut package.exports);
        part.keep(&mut package.unused_exports);
        part.keep(&mut package.imports);
        part.keep(&mut package.unused_imports);
        part.keep(&mut package.shadowing);
        part.keep(&mut package.used_by);
    }
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
    Tool::paged::<Arguments, MaybeFound<ListedPackage>>(about, info).of_image()
}

fn info(session: &Session, given: Arguments, call: &Call) -> Result<ToolReply, Failure> {
    let request = PackageInfoRequest::new(&given.package);
    let bank = session.bank()?;
    let answer = bank.package_info(&request, &call.control(ALLOWED))?;
    let Some(package) = &answer.package else {
        let missing = Missing::package(&bank.index(), &given.package, None);
        return missing.answer(CallOutcome::NotFound).map(ToolReply::from);
    };
    let listed = ListedPackage { total: package.exports.len(), answer, cursor: None };
    given.paging.cut(listed, call.budget(), |listed, range| {
        listed.cursor = range.cursor();
        let text = listed.answer.package.as_ref().map_or_else(String::new, |package| text(package, range));
        ToolAnswer::new(text, &MaybeFound::yes(&*listed), CallOutcome::Answered)
    })
}

fn text(package: &PackageInfo, range: &PageRange) -> String {
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
    text + &range.rest()
}
