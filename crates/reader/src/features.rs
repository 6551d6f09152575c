//! Evaluates the feature expressions of `#+` and `#-` against a set of `*features*`.

use super::TokenKind;
use super::text::{Datum, FormKind, LispText};
use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

/// Features of other implementations and platforms that libraries test. SBCL on x86-64 Linux has
/// none of them. A library or the user may add any feature that is listed neither here nor in
/// [`Features::sbcl`].
const FOREIGN: &str = include_str!("foreign-features.txt");

/// The rule by which SBCL's compiler numbers the subforms of a top-level form
/// (`sb-c::find-source-paths`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Numbering {
    /// The rule up to SBCL 2.5.10: only code is numbered, not quoted data or commas.
    #[default]
    Code,
    /// The rule since SBCL 2.5.11: quoted lists and commas are numbered, too, but nothing nested
    /// deeper than a hundred lists.
    Data,
}

/// The properties of the Lisp that the reader imitates: the names on `*features*`, and how forms
/// are numbered.
#[derive(Debug, Clone, Default)]
pub struct Features {
    names: Arc<HashSet<String>>,
    /// Names that are certainly not features. `None`: every name that is not in `names`.
    absent: Option<Arc<HashSet<String>>>,
    pub(super) numbering: Numbering,
}

/// The value of a feature expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FeatureValue {
    /// The value, assuming that unknown names are not features.
    pub(super) holds: bool,
    /// Whether the value is the same if unknown names are features.
    pub(super) certain: bool,
}

impl Features {
    /// Creates the set of exactly these features. Names are upcased, and a leading colon is
    /// dropped.
    pub fn new<I, S>(names: I) -> Self
    where
        I: IntoIterator<Item = S>,
        S: AsRef<str>,
    {
        Features { names: Arc::new(folded(names)), ..Features::default() }
    }

    /// Returns the features of the bundled SBCL, from `sbcl-features.txt`, which a test generates.
    /// A feature expression is uncertain if it depends on a name that is a feature of neither SBCL
    /// nor a known other implementation or platform.
    pub fn sbcl() -> Self {
        static SBCL: LazyLock<Features> = LazyLock::new(|| Features {
            names: Arc::new(folded(include_str!("sbcl-features.txt").lines())),
            absent: Some(Arc::new(folded(FOREIGN.lines().chain(["nil", "ignore"])))),
            numbering: Numbering::default(),
        });
        SBCL.clone()
    }

    /// Returns the same features with this numbering of forms.
    #[must_use]
    pub fn numbered(self, numbering: Numbering) -> Self {
        Self { numbering, ..self }
    }

    /// Returns whether `name` is a feature.
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

/// Evaluates the feature expression `datum` of `text`. `None` if it is not a literal feature
/// expression, for example `#.(…)`, which needs evaluation, or if it is nested too deeply.
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
    let token = |datum| text.token(datum).filter(|token| token.kind == TokenKind::Symbol);
    let id = match datum {
        Datum::Token(_) => return Some(features.outcome(&token(datum)?.symbol(bytes).name)),
        Datum::Form(id) => id,
    };
    text.form(id).filter(|form| form.kind == FormKind::List)?;
    let is_comment = |datum| text.token(datum).is_some_and(|token| token.kind == TokenKind::Comment);
    let mut elements = text.children(id).filter(|&datum| !is_comment(datum));
    let operator = token(elements.next()?)?.symbol(bytes).name;
    let mut values = elements.map(|element| outcome_within(features, text, bytes, element, depth));
    // For `and` and `or`, one certain and decisive operand makes the result certain.
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
