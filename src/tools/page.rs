//! Divides long lists into pages, so that an answer fits a model's context and can be continued.
//!
//! An answer with lists that can be paged implements [`Sequence`]: these lists form one sequence of
//! entries, and a [`Part`] selects a range of it. [`Paging::cut`] renders the answer with as many
//! entries as fit into the budget together with the rest of the answer. The cursor is the number of
//! the first entry of the next page.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Failure;
use super::budget::fits;
use super::call::ToolAnswer;
use super::phrases::quoted;
use crate::answer::counted;

/// Selects a page of a long list.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Paging {
    /// The maximum number of entries.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_000_000))]
    limit: Option<usize>,
    /// The `cursor` of the previous page.
    #[serde(default)]
    cursor: Option<String>,
}

impl Paging {
    /// Requests the page at `cursor`, without a limit on its entries.
    pub(crate) fn at(cursor: Option<String>) -> Self {
        Self { limit: None, cursor }
    }

    /// Returns the requested page size; unlimited by default.
    pub(crate) fn limit(&self) -> usize {
        self.limit.unwrap_or(usize::MAX)
    }

    /// Returns the requested page size, or `most` if none was requested. For entries that are
    /// expensive to compute.
    pub(crate) fn limit_or(&self, most: usize) -> usize {
        self.limit.unwrap_or(most)
    }

    /// Decodes the cursor: the number of entries on earlier pages.
    ///
    /// # Errors
    /// The cursor is not a number, so no answer has returned it.
    pub(crate) fn offset(&self) -> Result<usize, Failure> {
        match self.cursor.as_deref() {
            None | Some("") => Ok(0),
            Some(cursor) => cursor.parse().map_err(|_| wrong_cursor(cursor)),
        }
    }

    /// Checks that the cursor does not point past the end of `total` entries. Accepts every cursor
    /// if there are no entries.
    ///
    /// # Errors
    /// The cursor points past the end: no answer has returned it, or the data has changed since.
    pub(crate) fn within(&self, total: usize) -> Result<(), Failure> {
        match self.offset()? {
            offset if offset > 0 && offset >= total && total > 0 => Err(Failure::arguments(format!(
                "The cursor {} is past the end: there are {} now. Repeat the call without a cursor.",
                quoted(self.cursor.as_deref().unwrap_or_default()),
                counted(total, "entry", "entries")
            ))),
            _ => Ok(()),
        }
    }

    /// Renders the page at the cursor, with as many entries as the limit and `budget` allow.
    /// `answer` must have the entries of all pages.
    ///
    /// # Errors
    /// The cursor is invalid or points past the end, or `render` fails.
    pub(crate) fn cut<S: Sequence>(
        &self,
        mut answer: S,
        budget: usize,
        render: impl Fn(&mut S, &PageRange) -> Result<ToolAnswer, Failure>,
    ) -> Result<ToolAnswer, Failure> {
        let (total, offset) = (count(&mut answer), self.offset()?);
        self.within(total)?;
        answer.lists(&mut Part::new(offset, self.limit()));
        longest_page(answer, (offset, total), budget, render)
    }
}

/// A request with an answer that may be continued.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Continued<R> {
    #[serde(flatten)]
    pub(crate) request: R,
    /// The `cursor` of the previous page.
    #[serde(default)]
    cursor: Option<String>,
}

impl<R> Continued<R> {
    /// Returns the request, for an answer that has only one page.
    ///
    /// # Errors
    /// The cursor is invalid or points past that only page.
    pub(crate) fn on_one_page(self) -> Result<R, Failure> {
        Paging::at(self.cursor).within(1)?;
        Ok(self.request)
    }

    /// Renders the page at the cursor, with as many entries as `budget` allows, and adds the cursor
    /// of the next page. `render` gets the answer with the entries of the page.
    ///
    /// # Errors
    /// See [`Paging::cut`].
    pub(crate) fn page<S: Sequence>(
        self,
        answer: S,
        budget: usize,
        render: impl Fn(&S) -> Result<ToolAnswer, Failure>,
    ) -> Result<ToolAnswer, Failure> {
        Paging::at(self.cursor).cut(answer, budget, |part, range| {
            let mut page = render(part)?;
            page.text.push_str(&range.rest());
            range.cursor().into_iter().for_each(|cursor| page.structured.insert("cursor", cursor));
            Ok(page)
        })
    }
}

/// Creates the error for an invalid cursor.
pub(crate) fn wrong_cursor(cursor: &str) -> Failure {
    Failure::arguments(format!(
        "The cursor {} is invalid: pass the \"cursor\" value of the answer to continue.",
        quoted(cursor)
    ))
}

/// An answer with lists that form one sequence of entries, which is divided into pages.
pub(crate) trait Sequence: Clone {
    /// Passes each of the lists to `part`, in the order of the sequence.
    fn lists(&mut self, part: &mut Part);

    /// Returns the minimum number of entries on a page if not all fit into `budget` characters.
    /// Zero is allowed only if a page without entries fits. May also shorten texts that repeat on
    /// each page.
    fn min_entries(&mut self, _budget: usize) -> usize {
        1
    }
}

/// One page of an answer.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Paged<T> {
    #[serde(flatten)]
    pub(crate) answer: T,
    /// The total number of entries.
    pub(crate) total: usize,
    /// The value to pass as `cursor` for the next entries; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cursor: Option<String>,
}

impl<T> Paged<T> {
    /// Wraps `answer`, which has `total` entries on all pages.
    pub(crate) fn new(answer: T, total: usize) -> Self {
        Self { answer, total, cursor: None }
    }
}

impl<T: Sequence> Sequence for Paged<T> {
    fn lists(&mut self, part: &mut Part) {
        self.answer.lists(part);
    }
}

/// Selects a range of a sequence that consists of several lists.
pub(crate) struct Part {
    skip: usize,
    most: usize,
    kept: usize,
}

impl Part {
    /// Skips `skip` entries and keeps at most `most` of the others.
    pub(crate) fn new(skip: usize, most: usize) -> Self {
        Self { skip, most, kept: 0 }
    }

    /// Removes the entries of `list` that are outside the range.
    pub(crate) fn keep<T>(&mut self, list: &mut Vec<T>) {
        let kept = self.take(list.len());
        list.truncate(kept.end);
        list.drain(..kept.start);
    }

    /// Advances by a list of `length` entries and returns the range of entries to keep.
    pub(crate) fn take(&mut self, length: usize) -> std::ops::Range<usize> {
        let start = self.skip.min(length);
        let end = start + (self.most - self.kept).min(length - start);
        self.skip -= start;
        self.kept += end - start;
        start..end
    }
}

/// Counts the entries of `answer`.
pub(crate) fn count(answer: &mut impl Sequence) -> usize {
    let mut part = Part::new(0, usize::MAX);
    answer.lists(&mut part);
    part.kept
}

/// The entries of a page, by their numbers in the sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageRange {
    /// The number of entries on earlier pages.
    pub(crate) offset: usize,
    /// The number of entries on the page.
    pub(crate) count: usize,
    /// The total number of entries.
    pub(crate) total: usize,
}

impl PageRange {
    /// Returns the number of the first entry after the page.
    pub(crate) fn end(&self) -> usize {
        self.offset.saturating_add(self.count)
    }

    /// Returns the cursor of the next page, if there is one.
    pub(crate) fn cursor(&self) -> Option<String> {
        (self.end() < self.total).then(|| self.end().to_string())
    }

    /// Renders the last line of a text that continues on another page.
    pub(crate) fn rest(&self) -> String {
        match self.cursor() {
            Some(cursor) => format!(
                "\n\n{} of {} entries are shown; pass cursor {cursor:?} for the next entries.",
                self.count, self.total
            ),
            None => String::new(),
        }
    }
}

/// Renders all entries of `answer` if they fit into `budget`; otherwise, as many of the first
/// entries as nearly fill it. `answer` must have only entries from number `offset` on, and `total`
/// is the number of all entries. The page has at least [`Sequence::min_entries`] entries, even if
/// these do not fit.
///
/// # Errors
/// `render` fails.
pub(crate) fn longest_page<S: Sequence>(
    mut answer: S,
    (offset, total): (usize, usize),
    budget: usize,
    render: impl Fn(&mut S, &PageRange) -> Result<ToolAnswer, Failure>,
) -> Result<ToolAnswer, Failure> {
    let most = count(&mut answer);
    let whole = render(&mut answer, &PageRange { offset, count: most, total })?;
    if fits(&whole, budget) {
        return Ok(whole);
    }
    let length = |page: &ToolAnswer| page.text.len().max(page.structured.json().len());
    let first = |answer: &S, count: usize| {
        let mut part = answer.clone();
        part.lists(&mut Part::new(0, count));
        part
    };
    let (mut fitting, mut too_many) = (answer.min_entries(budget).min(most), most + 1);
    let mut page = render(&mut first(&answer, fitting), &PageRange { offset, count: fitting, total })?;
    let mut long = length(&whole);
    for round in 1.. {
        let between = too_many - fitting;
        if between <= 1 {
            break;
        }
        // Guess the count from the lengths, because entries usually have similar lengths. Bisect
        // every third round, in case they do not.
        let short = length(&page);
        let guess = between * budget.saturating_sub(short) / long.saturating_sub(short).max(1);
        let step = if round % 3 == 0 { between / 2 } else { guess };
        let count = fitting + step.clamp(1, between - 1);
        let mut part = first(&answer, count);
        let next = render(&mut part, &PageRange { offset, count, total })?;
        if fits(&next, budget) {
            (fitting, page) = (count, next);
            // Stop when the page is nearly full: one more entry is not worth another rendering.
            if length(&page) + budget / 64 > budget {
                break;
            }
        } else {
            (too_many, long, answer) = (count, length(&next), part);
        }
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use serde::Serialize;

    use super::*;
    use crate::tools::CallOutcome;
    use crate::tools::budget::truncate_hard;

    /// Two lists that are paged, and one that is on every page.
    #[derive(Debug, Clone, Default, PartialEq, Serialize)]
    struct Lists {
        first: Vec<String>,
        second: Vec<u32>,
        cautions: Vec<String>,
        cursor: Option<String>,
    }

    impl Sequence for Lists {
        fn lists(&mut self, part: &mut Part) {
            part.keep(&mut self.first);
            part.keep(&mut self.second);
        }
    }

    fn render(lists: &mut Lists, range: &PageRange) -> Result<ToolAnswer, Failure> {
        lists.cursor = range.cursor();
        ToolAnswer::new(lists.first.join("\n") + &range.rest(), lists, CallOutcome::Answered)
    }

    fn page(lists: &Lists, limit: Option<usize>, cursor: Option<String>, budget: usize) -> ToolAnswer {
        let mut page = Paging { limit, cursor }.cut(lists.clone(), budget, render).unwrap();
        truncate_hard(&mut page, budget);
        page
    }

    fn long_lists() -> Lists {
        Lists {
            first: (0..500).map(|number| format!("{number:0>number$}")).collect(),
            second: (0..3000).collect(),
            cautions: vec!["é".repeat(700), "short".to_owned()],
            cursor: None,
        }
    }

    #[test]
    fn pages_keep_every_entry_and_fit_the_budget() {
        let whole = long_lists();
        for (budget, limit) in [(2_500, None), (4_000, Some(7)), (40_000, None), (40_000, Some(1_000_000))] {
            let (mut all, mut cursor) = (Lists::default(), None);
            loop {
                let page = page(&whole, limit, cursor, budget);
                assert!(fits(&page, budget));
                let strings = |list: &str| page.structured[list].as_array().unwrap().clone();
                let count = strings("first").len() + strings("second").len();
                assert!((1..=limit.unwrap_or(usize::MAX)).contains(&count), "{count}");
                all.first.extend(strings("first").iter().map(|value| value.as_str().unwrap().to_owned()));
                all.second.extend(strings("second").iter().map(|value| value.as_u64().unwrap() as u32));
                assert_eq!(strings("cautions").len(), 2, "every page has the unpaged list");
                cursor = page.structured["cursor"].as_str().map(str::to_owned);
                if cursor.is_none() {
                    break;
                }
            }
            assert_eq!((all.first, all.second), (whole.first.clone(), whole.second.clone()), "{budget}");
        }
        let all = page(&whole, None, None, usize::MAX);
        assert_eq!(all.structured["second"].as_array().unwrap().len(), 3000);
    }

    #[test]
    fn oversized_entries_are_shortened_but_not_lost() {
        let whole = Lists { first: vec!["x".repeat(9_000); 3], ..long_lists() };
        let mut cursor = None;
        for _ in 0..3 {
            let page = page(&whole, Some(1), cursor, 5_000);
            assert!(fits(&page, 5_000));
            let first = page.structured["first"].as_array().unwrap();
            assert!(first.len() == 1 && first[0].as_str().unwrap().contains("characters left out"));
            cursor = page.structured["cursor"].as_str().map(str::to_owned);
        }
        assert_eq!(cursor.as_deref(), Some("3"));
    }

    #[test]
    fn invalid_cursors_are_rejected() {
        let cut = |cursor: &str| {
            Paging { limit: None, cursor: Some(cursor.to_owned()) }.cut(long_lists(), 9_000, render)
        };
        assert!(cut("").is_ok() && cut("3499").is_ok());
        for wrong in ["3500", "x", "-1", "0:1"] {
            assert!(cut(wrong).is_err(), "{wrong}");
        }
    }
}
