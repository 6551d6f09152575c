//! A cache of the last answer to a question whose pages are asked for one after the other, valid while nothing
//! changes.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use steelbank_xref::Index;

use super::outline::files_at;
use crate::handle::{Error, QueryContext, Question};

/// The state that an answer depends on: the image, and the project's Lisp files, by size and date.
#[derive(Debug, Clone)]
struct Fingerprint {
    index: Index,
    files: u64,
    has_text: bool,
}

impl Fingerprint {
    /// Takes the present basis; none if the project's files cannot be listed.
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

/// The last answer to a kind of question.
struct MemoizedAnswer<Q: Question>(Q, Fingerprint, Q::Answer);

/// Returns the answer that was given last, if `question` is the same and nothing has changed since; else asks,
/// and keeps that answer.
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
