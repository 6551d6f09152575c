//! who-makes: lists the code that creates instances of a class or of its subclasses. It searches
//! for the quoted class in arguments of constructors such as MAKE-INSTANCE and of other functions,
//! and for calls of a structure's constructors.

pub(crate) mod tool;

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::code_find_references::found;
use super::graph::{Target, UsedBy, UserFinder, function_in, subclasses};
use crate::actions::symbols::describe_symbol::DescribeSymbolRequest;
use crate::answer::designator::elements;
use crate::answer::location::as_text;
use crate::answer::lookup::{NamedSymbol, about_symbol};
use crate::answer::{LispName, Location};
use crate::engine::Control;
use crate::handle::{Error, QueryContext, Question};

/// A request for the code that creates instances of a class, structure or condition, or of a
/// subclass.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct WhoMakesRequest {
    /// The class.
    #[serde(flatten)]
    pub symbol: NamedSymbol,
}

about_symbol!(WhoMakesRequest {});

/// The answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct WhoMakesAnswer {
    /// The class.
    pub class: LispName,
    /// The code, sorted by class and place. Code that only may create an instance comes last.
    pub makers: Vec<Construction>,
    /// The package where the name was found, if none was given and CL-USER lacks the name.
    #[serde(skip)]
    pub looked_up_in: Option<String>,
}

/// Code that creates an instance.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Construction {
    /// The class of the instance.
    pub class: LispName,
    /// `file:line:column` of the class's name, or of a structure's constructor.
    #[serde(rename = "at", serialize_with = "as_text")]
    #[schemars(with = "String")]
    pub place: Location,
    /// The definition that contains the code.
    pub by: LispName,
    /// Whether the code only passes the class to a non-standard function, which may create an
    /// instance.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub possible: bool,
    /// The line's text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
}

impl Question for WhoMakesRequest {
    type Answer = WhoMakesAnswer;

    fn answer(&self, context: &QueryContext<'_>, control: &Control) -> Result<WhoMakesAnswer, Error> {
        let (context, lookup) = context.resolve_symbol(&self.symbol)?;
        let (context, index) = (&*context, &context.index);
        let symbol = found(index, context.project, &lookup)?;
        let class = index.symbol_text(symbol);
        let below = subclasses(context, &index.full_name(symbol), control)?;
        let users = UserFinder::new(context, control);
        let mut makers = BTreeSet::new();
        for class in below.iter().chain([&class]) {
            control.check()?;
            let Some(Target { symbol, .. }) = function_in(class) else { continue };
            let mut add = |found: Vec<(UsedBy, bool)>| {
                makers.extend(found.into_iter().map(|(used, makes)| Construction {
                    class: LispName::new(index, class),
                    place: used.line.place,
                    by: used.user.name(index),
                    possible: !makes,
                    context: used.line.context.map(|line| line.trim().to_owned()),
                }));
            };
            add(users.class_arguments(&symbol));
            let described = DescribeSymbolRequest::new(class.as_str()).answer(context, control)?.description;
            let structure =
                described.and_then(|description| description.class).and_then(|class| class.structure);
            for constructor in structure.into_iter().flat_map(|structure| structure.constructors) {
                // The description of a constructor is a list of its name and its parameters.
                let call = elements(constructor.canonical());
                let name = call.as_ref().and_then(|call| call.first()).copied();
                let Some(target) = function_in(name.unwrap_or(constructor.canonical())) else { continue };
                let calls = users.of(&target).into_iter();
                let calls = calls.filter(|used| UserFinder::is_call(used, &target.symbol.name));
                add(calls.map(|used| (used, true)).collect());
            }
        }
        let mut makers: Vec<Construction> = makers.into_iter().collect();
        makers.sort_by_key(|maker| maker.possible);
        Ok(WhoMakesAnswer { class: LispName::new(index, class), makers, looked_up_in: lookup.looked_up_in })
    }
}
