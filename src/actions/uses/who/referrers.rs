//! The functions of an answer of the who-calls family, read from the index as they are asked for.

use super::Position;
use super::text::is_of_contract;
use crate::answer::LispName;
use crate::answer::name::written;
use crate::workspace::FileVersion;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::ops::Range;
use std::path::PathBuf;
use steelbank_xref::{FunctionKind, Index, Kind, UseNumber, UsePlace};

/// The functions of an answer. Their texts stay in the index, of which this keeps a handle, until they are
/// read.
///
/// ```no_run
/// # use steelbank::{Control, WhoRequest};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let bank = steelbank::Steelbank::builder().start()?;
/// let answer = bank.ask(&WhoRequest::calls("cl:mapcar"), &Control::default())?;
/// for user in &answer.users {
///     println!("{} at {} places", user.name, user.places.len());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Referrers {
    /// None if nothing was found.
    index: Option<Index>,
    uses: Vec<UseNumber>,
    /// Where the uses of each function end in `uses`.
    ends: Vec<usize>,
    /// The position of each use, as far as lines were asked for.
    positions: Vec<Option<Position>>,
    /// Further positions of uses that are recorded once, by the use.
    more: HashMap<usize, Vec<Position>>,
    /// Which of the uses are not, or not only, of the name itself.
    called: HashMap<UseNumber, CalledName>,
}

/// Which of two names a use is of, where F stands for both F and (SETF F).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CalledName {
    /// The name itself.
    #[default]
    Itself,
    /// `(SETF F)` alone.
    Setf,
    /// Both.
    Both,
}

impl CalledName {
    fn is_itself(&self) -> bool {
        *self == Self::Itself
    }
}

impl Referrers {
    /// Groups `uses`, which are in the order of [`Index::who`], by function. Those of (SETF F) among them are `setf`, in the
    /// same order: a use that is of F, too, is there once more.
    pub(super) fn new(index: &Index, uses: Vec<UseNumber>, setf: &[UseNumber]) -> Self {
        let (mut called, mut setf) = (HashMap::new(), setf.iter().peekable());
        for group in uses.chunk_by(|one, other| one == other) {
            let Some(number) = group.first().filter(|_| setf.peek().is_some()) else { break };
            let mut of_setf = 0;
            while setf.next_if_eq(&number).is_some() {
                of_setf += 1;
            }
            match of_setf {
                0 => continue,
                _ if of_setf == group.len() => called.insert(*number, CalledName::Setf),
                _ => called.insert(*number, CalledName::Both),
            };
        }
        debug_assert!(setf.next().is_none(), "uses of (SETF F) are in another order");
        let mut ends = index.function_ends(&uses);
        let mut kept = Vec::with_capacity(uses.len());
        let mut start = 0;
        for end in &mut ends {
            let group = uses.get(start..*end).unwrap_or_default();
            start = *end;
            // Keeps the uses from one generation of the index as they are: they are in the order of their
            // forms.
            if group.windows(2).all(|pair| pair[0].is_same_function(pair[1]) && pair[0] != pair[1]) {
                kept.extend_from_slice(group);
            } else {
                let read = |number: &UseNumber| (RecordedPlace::of(index.place(*number)), *number);
                let mut places: Vec<(RecordedPlace<'_>, UseNumber)> = group.iter().map(read).collect();
                places.sort_by(|left, right| left.0.cmp(&right.0));
                places.dedup_by(|right, left| right.0 == left.0);
                kept.extend(places.into_iter().map(|(_, number)| number));
            }
            *end = kept.len();
        }
        Self { index: Some(index.clone()), uses: kept, ends, called, ..Self::default() }
    }

    /// How many functions there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the function with this number, from 0.
    pub fn get(&self, number: usize) -> Option<Referrer<'_>> {
        let index = self.index.as_ref()?;
        let end = *self.ends.get(number)?;
        let start = self.start(number);
        let uses = self.uses.get(start..end)?;
        let first = index.read(*uses.first()?);
        let (symbol, package) = match first.symbol {
            Some(symbol) => (Some(symbol.name), symbol.package),
            None => (None, None),
        };
        Some(Referrer {
            name: LispName::new(index, first.function),
            symbol,
            package,
            kind: first.kind,
            places: (start..end).flat_map(|at| self.places(at)).collect(),
        })
    }

    /// Iterates over the functions, in order.
    pub fn iter(&self) -> Iter<'_> {
        Iter { users: self, numbers: 0..self.len() }
    }

    /// Iterates over the canonical names of the functions, in order.
    pub fn names(&self) -> impl Iterator<Item = Cow<'_, str>> {
        let firsts = (0..self.len()).filter_map(|number| self.uses.get(self.start(number)));
        firsts.filter_map(|number| Some(self.index.as_ref()?.function_name(*number)))
    }

    /// Iterates over the names of the functions, as the text of `kind` has them.
    pub(super) fn listed(&self, kind: Kind) -> impl Iterator<Item = Cow<'_, str>> {
        let index = self.index.as_ref().filter(|_| !is_of_contract(kind));
        self.names().map(move |name| match index {
            Some(index) => Cow::Owned(written(index, &name)),
            None => name,
        })
    }

    /// Finds where the uses of the function `number` start in `uses`.
    fn start(&self, number: usize) -> usize {
        number.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0)
    }

    /// Keeps at most `limit` functions, and leaves out the first `offset`.
    pub(super) fn keep(&mut self, offset: usize, limit: usize) {
        let offset = offset.min(self.len());
        let start = self.start(offset);
        self.ends.truncate(offset.saturating_add(limit));
        self.uses.truncate(self.ends.last().copied().unwrap_or(0).max(start));
        self.uses.drain(..start);
        self.ends.drain(..offset);
        self.ends.iter_mut().for_each(|end| *end -= start);
    }

    fn place(&self, at: usize) -> Option<RecordedPlace<'_>> {
        let mut place = RecordedPlace::of(self.index.as_ref()?.place(*self.uses.get(at)?));
        place.position = self.positions.get(at).cloned().flatten();
        place.called = self.called.get(self.uses.get(at)?).copied().unwrap_or_default();
        Some(place)
    }

    /// The place of a use, and the further ones of which it is the record.
    fn places(&self, at: usize) -> impl Iterator<Item = RecordedPlace<'_>> {
        let place = self.place(at);
        let more = self.more.get(&at).into_iter().flatten();
        let more: Vec<_> = more
            .filter_map(|position| Some(RecordedPlace { position: Some(position.clone()), ..place.clone()? }))
            .collect();
        place.into_iter().chain(more)
    }

    /// Adds further positions to the uses that `key` finds in `more`.
    pub(super) fn add<K: Eq + Hash>(
        &mut self,
        mut more: HashMap<K, Vec<Position>>,
        key: impl Fn(&RecordedPlace<'_>) -> Option<K>,
    ) {
        if more.is_empty() {
            return;
        }
        let found = (0..self.uses.len()).filter_map(|at| {
            let key = key(&self.place(at)?)?;
            Some((at, more.remove(&key)?))
        });
        self.more = found.collect();
    }

    /// Iterates over the places of the first `most` functions.
    pub(super) fn recorded(&self, most: usize) -> impl Iterator<Item = RecordedPlace<'_>> {
        (0..self.start(most.min(self.len()))).filter_map(|at| self.place(at))
    }

    /// Sets the position of each place of the first `most` functions to what `find` returns for it.
    pub(super) fn locate(&mut self, most: usize, find: impl FnMut(RecordedPlace<'_>) -> Option<Position>) {
        self.positions = self.recorded(most).map(find).collect();
    }
}

impl<'a> IntoIterator for &'a Referrers {
    type Item = Referrer<'a>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl PartialEq for Referrers {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other)
    }
}

impl Eq for Referrers {}

impl fmt::Debug for Referrers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self).finish()
    }
}

impl Serialize for Referrers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self)
    }
}

/// Reads the functions of [`Referrers`] one by one.
#[derive(Debug, Clone)]
pub struct Iter<'a> {
    users: &'a Referrers,
    numbers: Range<usize>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = Referrer<'a>;

    fn next(&mut self) -> Option<Referrer<'a>> {
        self.users.get(self.numbers.next()?)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.numbers.size_hint()
    }
}

impl ExactSizeIterator for Iter<'_> {}

/// A function that uses the symbol in the way that was asked about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Referrer<'a> {
    /// The name: `shop:total`, `(setf shop:price)`, `(method shop:total (shop:cart))`.
    pub name: LispName,
    /// The name of the symbol under which the function is filed.
    pub symbol: Option<Cow<'a, str>>,
    /// That symbol's home package.
    pub package: Option<Cow<'a, str>>,
    /// What the function is.
    pub kind: FunctionKind,
    /// Where in the function it happens.
    pub places: Vec<RecordedPlace<'a>>,
}

/// One place in a source file, as the compiler recorded it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct RecordedPlace<'a> {
    /// A native path, or a logical name such as `SYS:SRC;CODE;LIST.LISP`; none for code that came from no file.
    pub file: Option<Cow<'a, str>>,
    /// The number of the top-level form in the file, from 0.
    pub toplevel_form: Option<u32>,
    /// Where that form starts: bytes before it and the white space in front of it.
    pub octet_offset: Option<u32>,
    /// Which form inside the top-level form it is, counted depth first from 0.
    pub form_number: Option<u32>,
    /// When the file had been written that the code was compiled from, as a universal time.
    pub file_written: Option<u64>,
    /// The line and column, if [`PlaceDetail`](crate::actions::uses::who::PlaceDetail) asks for them and they are found.
    #[serde(flatten)]
    pub position: Option<Position>,
    /// Whether it is `(SETF F)` that is used there, if `F` was asked for.
    #[serde(skip_serializing_if = "CalledName::is_itself")]
    pub called: CalledName,
}

impl<'a> RecordedPlace<'a> {
    fn of(found: UsePlace<'a>) -> Self {
        Self {
            file: found.file,
            toplevel_form: found.toplevel_form,
            octet_offset: found.offset,
            form_number: found.form,
            file_written: Some(found.file_written).filter(|written| *written != 0),
            position: None,
            called: CalledName::Itself,
        }
    }

    /// The version of the user's file in which the place is; none for SBCL's own.
    pub(super) fn version(&self) -> Option<FileVersion> {
        let file = self.file.as_ref().filter(|file| !file.starts_with("SYS:"))?;
        Some(FileVersion { path: PathBuf::from(file.as_ref()), write_date: self.file_written? })
    }
}
