//! Caches the last answer to a paged question, so that the next pages do not repeat the search. The
//! answer is reused only if neither the image nor the project's files have changed.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use steelbank_xref::Index;

use super::outline::files_at;
use crate::handle::{Error, QueryContext, Question};

/// The state that an answer depends on: the image, the size and date of the Lisp files in the
/// project and of the loaded files, and whether the text index is available.
#[derive(Debug, Clone)]
struct Fingerprint {
    index: Index,
    files: u64,
    has_text: bool,
}

impl Fingerprint {
    /// Returns the current fingerprint, or `None` if the project's files cannot be listed.
    fn of(context: &QueryContext<'_>) -> Option<Self> {
        let mut files = files_at(context, ".").ok()?;
        files.extend(context.project.loaded().into_iter().map(|(path, _)| path));
        let mut hasher = DefaultHasher::new();
        for path in files {
            let metadata = std::fs::metadata(&path).ok();
            (path, metadata.map(|file| (file.len(), file.modified().ok()))).hash(&mut hasher);
        }
        let has_text = context.text.is_some();
        Some(Self { index: context.index.clone(), files: hasher.finish(), has_text })
    }

    fn is(&self, other: &Self) -> bool {
        self.index.is(&other.index) && self.files == other.files && self.has_text == other.has_text
    }
}

/// The last question of a type, with its fingerprint and answer.
struct MemoizedAnswer<Q: Question>(Q, Fingerprint, Q::Answer);

/// Returns the cached answer if `question` is the same and nothing has changed since. Otherwise
/// calls `ask` and caches its answer. Nothing is cached if the project's files cannot be listed.
pub(crate) fn last_answer<Q>(
    question: &Q,
    context: &QueryContext<'_>,
    ask: impl FnOnce() -> Result<Q::Answer, Error>,
) -> Result<Q::Answer, Error>
where
    Q: Question + Clone + PartialEq + Send + 'static,
    Q::Answer: Clone + Send,
{
    let Some(now) = Fingerprint::of(context) else { return ask() };
    let last = context.memo.get(|MemoizedAnswer(asked, then, answer): &MemoizedAnswer<Q>| {
        (asked == question && then.is(&now)).then(|| answer.clone())
    });
    if let Some(answer) = last {
        return Ok(answer);
    }
    let answer = ask()?;
    context.memo.put(MemoizedAnswer(question.clone(), now, answer.clone()));
    Ok(answer)
}
