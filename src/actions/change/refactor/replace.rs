//! Plans the replacement of forms that match a pattern.

use steelbank_reader::lines::{self, LineIndex};
use steelbank_reader::{Datum, Dialect, FormKind, LispText, Marker, Range, TokenKind};
use steelbank_xref::{Index, Symbol};

use super::{Operation, RefactorError, RefactorPlan, ReplaceRequest};
use crate::actions::change::rename::{Doubt, FileEdits, RenameEdit};
use crate::actions::text::search::pattern::FormPattern;
use crate::actions::text::search::{FoundFile, FoundForm, FoundForms};
use crate::answer::lookup::Lookup;
use crate::answer::name::qualified;
use crate::answer::{Location, counted};
use crate::engine::Control;
use crate::handle::{Error, QueryContext};
use crate::workspace::{TextState, version};

/// Plans the replacement.
pub(super) fn plan(
    request: &ReplaceRequest,
    context: &QueryContext<'_>,
    control: &Control,
) -> Result<RefactorPlan, Error> {
    let found = FoundForms::of(&request.search, context, control)?;
    let template = Template::of(request, &found.pattern, &context.index)?;
    let purpose = format!("replacement of {} by {}", request.search.pattern, request.with);
    let mut plan =
        RefactorPlan { cautions: found.cautions.clone(), ..RefactorPlan::new(Operation::Replace, purpose) };
    plan.cautions.extend(template.caution());
    plan.cautions.extend(template.evaluation(&found));
    for file in &found.files {
        control.check()?;
        plan.file(file, &template, request.excluded, context)?;
    }
    plan.edits = plan.files.iter().map(|file| file.edits.len()).sum();
    Ok(plan)
}

impl RefactorPlan {
    /// Adds the edits of a file.
    fn file(
        &mut self,
        file: &FoundFile,
        template: &Template<'_>,
        excluded: bool,
        context: &QueryContext<'_>,
    ) -> Result<(), Error> {
        let project = context.project;
        let shown = project.shown(&file.path);
        let (bytes, lines) = (file.text.as_bytes(), LineIndex::new(file.text.as_bytes()));
        let place = |range: Range| Location::in_text(shown.as_str(), &lines, bytes, range);
        let on_disk = steelbank_tree::read_source(&file.path).unwrap_or_default();
        let mut edited: Vec<&FoundForm> = Vec::new();
        for found in &file.matches {
            let range = file.range(found.root);
            let reason = if found.state == Some(TextState::FeatureExcluded) && !excluded {
                "a feature expression excludes this form; include excluded to edit it"
            } else if on_disk != bytes {
                "the file is not UTF-8, or its text is not saved"
            } else if file.loses_text(found) {
                "a comment or a feature expression in the form would be lost"
            } else {
                edited.push(found);
                continue;
            };
            let line = lines.bytes(bytes, lines.line(range.start));
            let context = lines::decode(line).trim().to_owned();
            self.doubtful.push(Doubt { place: place(range), context, reason: reason.to_owned() });
        }
        let mut edits: Vec<RenameEdit> = Vec::new();
        for found in &edited {
            let range = file.range(found.root);
            if edits.last().is_some_and(|last| last.range.encloses(range)) {
                continue;
            }
            let old = &file.text[range.indices()];
            let new = template.rendered(file, found, &edited, &lines, &context.index);
            if new != old {
                edits.push(RenameEdit { range, place: place(range), old: old.to_owned(), new });
            }
        }
        if !edits.is_empty() {
            self.files.push(FileEdits { path: shown.clone(), other: false, hash: version(bytes), edits });
        }
        Ok(())
    }
}

impl FoundFile {
    /// Whether a match contains a comment or a feature expression outside of its holes.
    fn loses_text(&self, found: &FoundForm) -> bool {
        let range = self.range(found.root);
        let kept: Vec<Range> =
            found.bindings.iter().flatten().filter_map(|data| self.range_of(data)).collect();
        let Some(root) = self.read.form(found.root) else { return false };
        self.read.tokens()[root.tokens()].iter().any(|token| {
            range.encloses(token.span)
                && (token.kind == TokenKind::Comment || token.in_feature || token.active != root.active)
                && !kept.iter().any(|kept| kept.encloses(token.span))
        })
    }

    /// Returns the range from the first to the last of `data`.
    fn range_of(&self, data: &[Datum]) -> Option<Range> {
        let (first, last) = (data.first()?, data.last()?);
        Some(Range::new(self.read.span(*first).start, self.read.span(*last).end))
    }
}

/// The form that replaces each match.
struct Template<'a> {
    text: &'a str,
    pattern: &'a FormPattern,
    /// The holes and symbols of the text, in order.
    pieces: Vec<(Range, Piece)>,
    /// The places of each hole of the pattern.
    counts: Vec<usize>,
    /// The symbols that the image lacks, as written.
    unknown: Vec<String>,
}

/// A part of the template that depends on the match.
enum Piece {
    /// The number of a hole of the pattern.
    Hole(usize),
    Symbol(Symbol),
}

impl<'a> Template<'a> {
    fn of(request: &'a ReplaceRequest, pattern: &'a FormPattern, index: &Index) -> Result<Self, Error> {
        let text = request.with.trim();
        let holes = FormPattern::template(text).map_err(RefactorError::from)?;
        let number = |hole: &str| pattern.holes.iter().position(|known| known.eq_ignore_ascii_case(hole));
        if let Some(hole) = holes.holes.iter().find(|hole| number(hole).is_none()) {
            let (hole, pattern) = (hole.clone(), request.search.pattern.clone());
            return Err(RefactorError::UnknownHole { hole, pattern }.into());
        }
        let bytes = text.as_bytes();
        let read = LispText::read(bytes, Dialect::CommonLisp, &crate::source::features());
        let (mut pieces, mut unknown) = (Vec::new(), Vec::new());
        for token in read.tokens().iter().filter(|token| token.kind == TokenKind::Symbol) {
            let written = &text[token.span.indices()];
            if let Some(hole) = number(written).filter(|_| token.marker == Marker::None) {
                pieces.push((token.span, Piece::Hole(hole)));
            } else if matches!(token.marker, Marker::None | Marker::External | Marker::Internal) {
                let lookup = Lookup::resolved(index, written, request.search.package.as_deref())?;
                match lookup.found {
                    Ok((symbol, _)) => pieces.push((token.span, Piece::Symbol(symbol))),
                    Err(_) => unknown.push(written.to_owned()),
                }
            }
        }
        let counts = pattern.holes.iter().map(|hole| holes.places_of(hole)).collect();
        Ok(Self { text, pattern, pieces, counts, unknown })
    }

    /// Reports symbols that the image lacks.
    fn caution(&self) -> Option<String> {
        let names = self.unknown.join(", ");
        (!names.is_empty())
            .then(|| format!("The image has no such symbol, so it is written as given: {names}."))
    }

    /// Reports forms that the replacement evaluates several times, or no longer.
    fn evaluation(&self, found: &FoundForms) -> Vec<String> {
        let mut cautions = Vec::new();
        for (number, hole) in self.pattern.holes.iter().enumerate() {
            let count = self.counts[number];
            if count == 1 {
                continue;
            }
            let has_effects = |file: &FoundFile, found: &FoundForm| {
                let data = found.bindings[number].iter().flatten();
                let is_form = |datum: &Datum| match datum {
                    Datum::Form(id) => file
                        .read
                        .form(*id)
                        .is_some_and(|form| !matches!(form.kind, FormKind::Quote | FormKind::Function)),
                    Datum::Token(_) => false,
                };
                data.into_iter().any(is_form)
            };
            let forms =
                found.files.iter().flat_map(|file| file.matches.iter().map(move |found| (file, found)));
            let forms = forms.filter(|(file, found)| has_effects(file, found)).count();
            if forms > 0 {
                let places = counted(forms, "place", "places");
                cautions.push(match count {
                    0 => format!("The form at {hole} is deleted with its effects in {places}."),
                    count => format!("The form at {hole} is evaluated {count} times in {places}."),
                });
            }
        }
        cautions
    }

    /// Returns the text that replaces `found`. Matches of `edited` inside its holes are replaced,
    /// too.
    fn rendered(
        &self,
        file: &FoundFile,
        found: &FoundForm,
        edited: &[&FoundForm],
        lines: &LineIndex,
        index: &Index,
    ) -> String {
        let start = file.range(found.root).start;
        let column = lines.position(file.text.as_bytes(), start).column as usize - 1;
        let newline = if file.text.contains("\r\n") { "\r\n" } else { "\n" };
        let mut writer =
            Writer { template: self, file, edited, lines, index, newline, column, out: String::new() };
        writer.form(found);
        writer.out
    }
}

/// Writes the text that replaces one match.
struct Writer<'a> {
    template: &'a Template<'a>,
    file: &'a FoundFile,
    edited: &'a [&'a FoundForm],
    lines: &'a LineIndex,
    index: &'a Index,
    newline: &'static str,
    /// The column, from 0, at which the text starts.
    column: usize,
    out: String,
}

impl Writer<'_> {
    /// Returns the current column, from 0.
    fn column(&self) -> usize {
        match self.out.rsplit_once('\n') {
            Some((_, line)) => line.chars().count(),
            None => self.column + self.out.chars().count(),
        }
    }

    /// Writes the form that replaces `found`.
    fn form(&mut self, found: &FoundForm) {
        let template = self.template;
        let margin = self.column();
        let top = self.file.read.toplevel_from(self.file.range(found.root).start);
        let package = top.and_then(|top| top.package.as_deref());
        let mut at = 0;
        for (range, piece) in &template.pieces {
            self.plain(&template.text[at..range.start as usize], margin);
            at = range.end as usize;
            match piece {
                Piece::Symbol(symbol) => {
                    let name = self.spelled(*symbol, package, &template.text[range.indices()]);
                    self.out.push_str(&name);
                }
                Piece::Hole(number) => {
                    let data = found.bindings[*number].as_deref().unwrap_or_default();
                    match self.file.range_of(data) {
                        Some(range) => self.source(range),
                        None => self.out.truncate(self.out.trim_end().len()),
                    }
                }
            }
        }
        self.plain(&template.text[at..], margin);
    }

    /// Writes text of the template, with its lines indented by `margin`.
    fn plain(&mut self, text: &str, margin: usize) {
        for (number, line) in text.split('\n').enumerate() {
            if number > 0 {
                self.out.push_str(self.newline);
                self.out.extend(std::iter::repeat_n(' ', margin));
            }
            self.out.push_str(line.trim_end_matches('\r'));
        }
    }

    /// Writes a range of the file. Its lines keep their indentation relative to the first.
    fn source(&mut self, range: Range) {
        let bytes = self.file.text.as_bytes();
        let old = self.lines.position(bytes, range.start).column as usize - 1;
        let shift = self.column() as isize - old as isize;
        let mut at = range.start;
        for found in self.edited {
            let inner = self.file.range(found.root);
            if range.encloses(inner) && inner.start >= at {
                self.lines_of(Range::new(at, inner.start), shift);
                self.form(found);
                at = inner.end;
            }
        }
        self.lines_of(Range::new(at, range.end), shift);
    }

    /// Writes a range of the file, with its lines moved by `shift` columns. Lines that begin inside
    /// a string or another token stay as they are.
    fn lines_of(&mut self, range: Range, shift: isize) {
        let mut start = range.start as usize;
        for line in self.file.text[range.indices()].split_inclusive('\n') {
            let in_token = self
                .file
                .read
                .token_at(start as u32)
                .is_some_and(|token| (token.span.start as usize) < start);
            let mut line_text = line;
            if start > range.start as usize && !in_token && !line.trim().is_empty() {
                match shift {
                    1.. => self.out.extend(std::iter::repeat_n(' ', shift.unsigned_abs())),
                    _ => {
                        let spaces = line.bytes().take_while(|byte| *byte == b' ').count();
                        line_text = &line[spaces.min(shift.unsigned_abs())..];
                    }
                }
            }
            self.out.push_str(line_text);
            start += line.len();
        }
    }

    /// Spells a symbol for code in `package`: without a prefix if it is accessible there.
    fn spelled(&self, symbol: Symbol, package: Option<&str>, given: &str) -> String {
        let index = self.index;
        let name = index.symbol_name(symbol);
        let current = package.and_then(|package| index.find_package(package, None));
        let home = index.home_name(symbol).unwrap_or_default();
        let is_here = match current {
            Some(current) => index.find_symbol(&name, current).is_some_and(|(found, _)| found == symbol),
            None => home == "COMMON-LISP",
        };
        match is_here || home == "COMMON-LISP-USER" {
            true => given.rsplit(':').next().unwrap_or(given).to_owned(),
            false => qualified(index, &home, &name),
        }
    }
}
