//! Divides long lists into pages: an answer fits a model's context, and says how to go on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Failure;
use super::arguments::{within, wrong_cursor};

/// The most characters of the lists in a structured answer: some 9,000 tokens, so that all of it stays below 10,000.
pub(super) const MOST: usize = 36_000;

/// The part of a list that is wanted.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub(super) struct Paging {
    /// The most entries.
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = 100_000))]
    pub(super) limit: usize,
    /// The `cursor` of a cut answer.
    #[serde(default)]
    pub(super) cursor: String,
}

fn default_limit() -> usize {
    200
}

/// The total of a list, and the cursor of its next page.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Page {
    /// How many entries there are in all.
    pub(super) total: usize,
    /// Pass it as `cursor` to get the entries that follow; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cursor: Option<String>,
}

impl Paging {
    /// Decodes the cursor: the number of entries on earlier pages.
    pub(super) fn offset(&self) -> Result<usize, Failure> {
        if self.cursor.is_empty() {
            return Ok(0);
        }
        self.cursor.parse().map_err(|_| wrong_cursor(&self.cursor))
    }

    /// Checks that the cursor does not point past the end of `total` entries.
    ///
    /// # Errors
    /// It points past the end.
    pub(super) fn within(&self, total: usize) -> Result<(), Failure> {
        within(&self.cursor, total)
    }

    /// Cuts the requested page out of all `entries`.
    ///
    /// # Errors
    /// The cursor was not given by any answer, or points past the end.
    pub(super) fn cut<T: Serialize>(&self, entries: Vec<T>) -> Result<(Vec<T>, Page), Failure> {
        let (total, offset) = (entries.len(), self.offset()?);
        self.within(total)?;
        Ok(self.fit(entries.into_iter().skip(offset).take(self.limit).collect(), total, offset))
    }

    /// Cuts `entries`, which begin at `offset` of `total`, to a page. Keeps at least one: an entry is never
    /// cut.
    pub(super) fn fit<T: Serialize>(
        &self,
        mut entries: Vec<T>,
        total: usize,
        offset: usize,
    ) -> (Vec<T>, Page) {
        let mut room = MOST;
        let fitting = entries.iter().take_while(|entry| {
            let length = serde_json::to_string(entry).map_or(0, |text| text.chars().count() + 1);
            let fits = length <= room;
            room = room.saturating_sub(length);
            fits
        });
        let count = fitting.count().max(1);
        entries.truncate(count);
        let end = offset + entries.len();
        let cursor = (end < total && !entries.is_empty()).then(|| end.to_string());
        (entries, Page { total, cursor })
    }
}

impl Page {
    /// Renders the last line of a text that continues on another page.
    pub(super) fn rest(&self, shown: usize) -> String {
        match &self.cursor {
            Some(cursor) => {
                format!("\n\n{shown} of {} are shown; pass cursor {cursor:?} for what follows.", self.total)
            }
            None => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_join_to_the_whole_and_none_is_too_long() {
        let entries: Vec<String> = (0..500).map(|number| format!("{number:0>200}")).collect();
        let (mut all, mut cursor, mut pages) = (Vec::new(), String::new(), 0);
        loop {
            let (part, page) = Paging { limit: 300, cursor }.cut(entries.clone()).unwrap();
            assert!(serde_json::to_string(&part).unwrap().len() <= MOST + 2);
            assert_eq!(page.total, 500);
            all.extend(part);
            pages += 1;
            match page.cursor {
                Some(next) => cursor = next,
                None => break,
            }
        }
        assert_eq!((all, pages), (entries, 3));
        assert!(Paging { limit: 1, cursor: "x".into() }.offset().is_err());
    }
}
