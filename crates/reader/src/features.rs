//! `*features*`, and the expressions that `#+` and `#-` test.

use super::TokenKind;
use super::text::{Datum, FormKind, LispText};
use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

/// Other implementations and platforms, as libraries name them: an SBCL on x86-64 Linux has none of these features.
/// A feature that is neither here nor in [`Features::sbcl`] may have been pushed by a library, or by the user.
const FOREIGN: &str = include_str!("foreign-features.txt");

/// Which sub-forms of a top-level form SBCL's compiler numbers (`sb-c::find-source-paths`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Numbering {
    /// Those of code: nothing in quoted data, and no comma. Up to SBCL 2.5.10.
    #[default]
    Code,
    /// Quoted lists and commas too, and nothing inside a list that is a hundred lists deep. From SBCL 2.5.11 on.
    Data,
}

/// What the reader knows of the Lisp that it stands for: the keywords on `*features*`, by name, and how forms are numbered.
#[derive(Debug, Clone, Default)]
pub struct Features {
    names: Arc<HashSet<String>>,
    /// Names that are known to be no features; None if every name not in `names` is.
    absent: Option<Arc<HashSet<String>>>,
    pub(super) numbering: Numbering,
}

/// The value of a feature expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FeatureValue {
    /// Its value if unknown names are no features.
    pub(super) holds: bool,
    /// Whether the value would be the same if unknown names were features.
    pub(super) certain: bool,
}

impl Features {
    /// Makes the set of exactly these features. Case is folded, a leading colon is dropped.
    pub fn new<I, S>(names: I) -> Self
    where
        I: IntoIterator<Item = S>,
        S: AsRef<str>,
    {
        Features { names: Arc::new(folded(names)), ..Features::default() }
    }

    /// The features of the core, as `sbcl-features.txt` has them, which a test writes. Names that neither SBCL nor another
    /// implementation is known to have make an expression uncertain.
    pub fn sbcl() -> Self {
        static SBCL: LazyLock<Features> = LazyLock::new(|| Features {
            names: Arc::new(folded(include_str!("sbcl-features.txt").lines())),
            absent: Some(Arc::new(folded(FOREIGN.lines().chain(["nil", "ignore"])))),
            numbering: Numbering::default(),
        });
        SBCL.clone()
    }

    /// The same, where forms are numbered so.
    #[must_use]
    pub fn numbered(self, numbering: Numbering) -> Self {
        Self { numbering, ..self }
    }

    /// Whether `name` is known to be a feature.
    pub fn contains(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    fn outcome(&self, name: &str) -> FeatureValue {
        let holds = self.contains(name);
        let absent = self.absent.as_ref().is_none_or(|absent| absent.contains(name));
        FeatureValue { holds, certain: holds || absent }
    }
}

fn folded<I, S>(names: I) -> HashSet<String>
where
    I: IntoIterator<Item = S>,
    S: AsRef<str>,
{
    names.into_iter().map(|name| name.as_ref().trim_start_matches(':').to_uppercase()).collect()
}

/// Evaluates the feature expression that `datum`, of `text`, spells. `None` if it is no feature expression, such as
/// `#.(…)`, which only the reader could evaluate.
pub(super) fn outcome(
    features: &Features,
    text: &LispText,
    bytes: &[u8],
    datum: Datum,
) -> Option<FeatureValue> {
    outcome_within(features, text, bytes, datum, 64)
}

fn outcome_within(
    features: &Features,
    text: &LispText,
    bytes: &[u8],
    datum: Datum,
    depth: u32,
) -> Option<FeatureValue> {
    let depth = depth.checked_sub(1)?;
    let token = |datum| match datum {
        Datum::Token(index) => text.tokens().get(index).filter(|token| token.kind == TokenKind::Symbol),
        Datum::Form(_) => None,
    };
    let id = match datum {
        Datum::Token(_) => return Some(features.outcome(&token(datum)?.symbol(bytes).name)),
        Datum::Form(id) => id,
    };
    text.form(id).filter(|form| form.kind == FormKind::List)?;
    let is_comment = |datum| match datum {
        Datum::Token(index) => text.tokens().get(index).is_some_and(|token| token.kind == TokenKind::Comment),
        Datum::Form(_) => false,
    };
    let mut elements = text.children(id).filter(|&datum| !is_comment(datum));
    let operator = token(elements.next()?)?.symbol(bytes).name;
    let mut values = elements.map(|element| outcome_within(features, text, bytes, element, depth));
    // `and` and `or`: one certain operand that decides makes the result certain.
    let junction = |decisive: bool, values: &mut dyn Iterator<Item = Option<FeatureValue>>| {
        let values: Vec<FeatureValue> = values.collect::<Option<_>>()?;
        let decided = values.iter().any(|value| value.certain && value.holds == decisive);
        let holds = values.iter().any(|value| value.holds == decisive) == decisive;
        Some(FeatureValue { holds, certain: decided || values.iter().all(|value| value.certain) })
    };
    match operator.as_ref() {
        "AND" => junction(false, &mut values),
        "OR" => junction(true, &mut values),
        "NOT" => values.next()?.map(|value| FeatureValue { holds: !value.holds, ..value }),
        _ => None,
    }
}
