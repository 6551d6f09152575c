//! Implements the tool package-info.

use std::fmt::{self, Display};

use schemars::JsonSchema;
use serde::Deserialize;

use crate::actions::missing::{LookupReply, NotFoundReply};
use crate::actions::symbols::package_info::{PackageInfoAnswer, PackageInfoRequest};
use crate::answer::{NotFound, counted};
use crate::engine::ALLOWED;
use crate::tools::page::{Paged, Paging, Part, Sequence};
use crate::tools::phrases::{listed, listed_kinds};
use crate::tools::{About, Call, CallOutcome, Effect, Failure, Session, Tool, ToolAnswer};

#[derive(Debug, Deserialize, JsonSchema)]
struct Arguments {
    #[serde(flatten)]
    request: PackageInfoRequest,
    #[serde(flatten)]
    paging: Paging,
}

impl Sequence for PackageInfoAnswer {
    fn lists(&mut self, part: &mut Part) {
        let Some(package) = &mut self.package else { return };
        part.keep(&mut package.exports);
        part.keep(&mut package.unused_exports);
        part.keep(&mut package.imports);
        part.keep(&mut package.unused_imports);
        part.keep(&mut package.shadowing);
        part.keep(&mut package.used_by);
    }
}

pub(crate) fn tool() -> Tool {
    let about = About {
        name: "package-info",
        title: "Describe a package",
        description: "Describes a Common Lisp package: its exports, each with the number of uses outside the \
            package, the packages it uses, its shadowing and imported symbols, and its nicknames. Lists exports and \
            imports that no loaded code uses. Use it to learn a library's interface, or before changing one.",
        effect: Effect::Reads,
    };
    Tool::new::<Arguments, LookupReply<Paged<PackageInfoAnswer>>>(about, info).of_image()
}

fn info(session: &Session, given: Arguments, call: &Call) -> Result<ToolAnswer, Failure> {
    let bank = session.bank()?;
    let answer = bank.ask(&given.request, &call.control(ALLOWED))?;
    let Some(package) = &answer.package else {
        let missing = NotFoundReply::package(bank, &given.request.package, None);
        return missing.answer(CallOutcome::NotFound);
    };
    let total = package.exports.len();
    given.paging.cut(Paged::new(answer, total), call.budget(), |listed, range| {
        listed.cursor = range.cursor();
        let text = listed.answer.to_string() + &range.rest();
        ToolAnswer::new(text, &LookupReply::yes(&*listed), CallOutcome::Answered)
    })
}

/// Prints the package's properties, followed by each export with its kinds and number of uses.
impl Display for PackageInfoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(package) = &self.package else {
            return write!(f, "{}", NotFound::Package(self.asked.clone()));
        };
        write!(f, "Package {}", package.name)?;
        package.place.iter().try_for_each(|place| write!(f, " {place}"))?;
        if let Some(documentation) = &package.documentation {
            write!(f, "\n  {}", documentation.replace('\n', "\n  "))?;
        }
        let lists = [
            ("Nicknames", listed(&package.nicknames)),
            ("Local nicknames", listed(&package.local_nicknames)),
            ("Uses", listed(&package.uses)),
            ("Used by", listed(&package.used_by)),
            ("Shadows", listed(&package.shadowing)),
            ("Unused imports", listed(&package.unused_imports)),
            ("Unused exports", listed(&package.unused_exports)),
        ];
        for (heading, names) in lists {
            if !names.is_empty() {
                write!(f, "\n  {heading}: {names}")?;
            }
        }
        write!(
            f,
            "\n  Home package of {} with a definition, {} internal; {} exported:",
            counted(package.own_symbols, "symbol", "symbols"),
            package.internal_symbols,
            package.export_count
        )?;
        for exported in &package.exports {
            write!(f, "\n    {} [{}]", exported.symbol.name, listed_kinds(&exported.kinds))?;
            if package.counted {
                write!(f, " {} elsewhere", counted(exported.uses_elsewhere, "use", "uses"))?;
            }
        }
        Ok(())
    }
}
