//! A cache of the last answer to a question whose pages are asked for one after the other, valid while nothing
//! changes.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use parking_lot::Mutex;
use steelbank_xref::Index;

use super::Error;
use super::context::QueryContext;
use super::outline::files_at;
use super::question::Question;

/// The last answer to a kind of question.
#[derive(Debug)]
pub(crate) struct LastAnswer<Q: Question>(Mutex<Option<(Q, Basis, Q::Answer)>>);

impl<Q: Question> Default for LastAnswer<Q> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

/// The state that an answer depends on: the image, and the project's Lisp files, by size and date.
#[derive(Debug, Clone)]
struct Basis {
    index: Index,
    files: u64,
    has_text: bool,
}

impl Basis {
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

impl<Q: Question + Clone + PartialEq> LastAnswer<Q>
where
    Q::Answer: Clone,
{
    /// Returns the answer that was given last, if `question` is the same and nothing has changed since; else
    /// asks, and keeps that answer.
    pub(crate) fn answer(
        &self,
        question: &Q,
        context: &QueryContext<'_>,
        ask: impl FnOnce() -> Result<Q::Answer, Error>,
    ) -> Result<Q::Answer, Error> {
        let Some(now) = Basis::of(context) else { return ask() };
        if let Some((asked, then, answer)) = &*self.0.lock()
            && asked == question
            && then.is(&now)
        {
            return Ok(answer.clone());
        }
        let answer = ask()?;
        *self.0.lock() = Some((question.clone(), now, answer.clone()));
        Ok(answer)
    }
}
