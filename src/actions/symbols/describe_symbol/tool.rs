//! Implements the tool describe-symbol.

use super::{DescribeSymbolAnswer, DescribeSymbolRequest, FunctionFacet, PlainFacet};
use crate::actions::missing::{LookupReply, of_error};
use crate::actions::uses::source_text::{Sourced, sourced};
use crate::engine::ALLOWED;
use crate::tools::budget::shorten;
use crate::tools::page::{Continued, Part, Sequence};
use crate::tools::{About, Call, CallOutcome, Effect, Failure, Session, Tool, ToolAnswer};

impl Sequence for DescribeSymbolAnswer {
    fn lists(&mut self, part: &mut Part) {
        let Some(description) = &mut self.description else { return };
        for FunctionFacet { sources, methods, .. } in
            description.function.iter_mut().chain(&mut description.setf_function)
        {
            part.keep(sources);
            part.keep(methods);
        }
        part.keep(&mut description.setf_expander_sources);
        let plain = description.compiler_macro.iter_mut().chain(&mut description.deftype);
        for PlainFacet { sources, .. } in plain.chain(&mut description.method_combination) {
            part.keep(sources);
        }
        description.variable.iter_mut().for_each(|variable| part.keep(&mut variable.sources));
        if let Some(class) = &mut description.class {
            part.keep(&mut class.sources);
            part.keep(&mut class.superclasses);
            part.keep(&mut class.precedence);
            let kept = part.take(class.subclasses.len());
            Part::new(kept.start, kept.len()).keep(&mut class.subclasses);
            Part::new(kept.start, kept.len()).keep(&mut class.subclasses_at);
            part.keep(&mut class.slots);
            part.keep(&mut class.default_initargs);
            class.structure.iter_mut().for_each(|structure| part.keep(&mut structure.constructors));
        }
        part.keep(&mut description.properties);
        if let Some(uses) = &mut self.variable_uses {
            for list in [&mut uses.defined, &mut uses.read, &mut uses.bound, &mut uses.set] {
                let all = list.len();
                part.keep(list);
                uses.is_part |= list.len() < all;
            }
            part.keep(&mut uses.other_text.places);
        }
    }

    /// Truncates documentation that repeats on each page, so that most of the page is left for
    /// entries.
    fn min_entries(&mut self, budget: usize) -> usize {
        let Some(description) = &mut self.description else { return 1 };
        let functions = description.function.iter_mut().chain(&mut description.setf_function);
        let plain = description.compiler_macro.iter_mut().chain(&mut description.deftype);
        let plain = plain.chain(&mut description.method_combination);
        let texts = functions.map(|facet| &mut facet.documentation);
        let texts = texts.chain(plain.map(|facet| &mut facet.documentation));
        let texts = texts.chain(description.variable.iter_mut().map(|facet| &mut facet.documentation));
        let texts = texts.chain(description.class.iter_mut().map(|facet| &mut facet.documentation));
        let texts: Vec<&mut String> = texts.flatten().collect();
        let most = budget / 4 / texts.len().max(1);
        for text in texts {
            let excess = text.chars().count().saturating_sub(most);
            if excess > 0 {
                shorten(text, excess);
            }
        }
        1
    }
}

pub(crate) fn tool() -> Tool {
    let about = About {
        name: "describe-symbol",
        title: "Describe a symbol",
        description: "Get comprehensive information about a Lisp symbol including its type, value, documentation, \
            arglist, and source location. Uses SBCL introspection for detailed information. Use it first for \
            any name you do not know, instead of guessing an argument order. The number after `Source:` is \
            SBCL's offset in octets; file:line:column follows below. structuredContent describes every kind \
            of definition.",
        effect: Effect::Reads,
    };
    type Request = Sourced<Continued<DescribeSymbolRequest>>;
    Tool::new::<Request, LookupReply<DescribeSymbolAnswer>>(about, sourced(describe)).of_image()
}

fn describe(
    session: &Session,
    given: Continued<DescribeSymbolRequest>,
    call: &Call,
) -> Result<ToolAnswer, Failure> {
    let bank = session.bank()?;
    let answer = match bank.ask(&given.request, &call.control(ALLOWED)) {
        Ok(answer) => answer,
        Err(error) => return of_error(bank, error, CallOutcome::NotFound),
    };
    let looked_up_in = answer.looked_up_in.clone();
    let page = given.page(answer, call.budget(), |answer| {
        ToolAnswer::new(answer.to_string(), &LookupReply::yes(answer), CallOutcome::Answered)
    })?;
    Ok(page.looked_up_in(looked_up_in))
}
