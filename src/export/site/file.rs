//! The page of a file: its text, with links from tokens to definitions, and the descriptions of its
//! symbols.

use std::collections::HashMap;
use std::fmt::Write as _;

use steelbank_reader::{Dialect, Features, LispText, Range, TokenKind};
use steelbank_text::DefinitionKind;

use super::Site;
use super::html::{Here, Html, Text, name_slug, several};
use crate::answer::name::readable;
use crate::export::ExportError;
use crate::export::model::{Facet, Meaning, ModelToken, ReadFile};

/// A range of the text with the markup around it.
struct MarkedRange {
    range: Range,
    open: String,
    close: &'static str,
}

impl Site<'_> {
    pub(super) fn file_page(&self, file: u32) -> String {
        format!("f/{}.html", self.slugs[file as usize])
    }

    /// Starts the page of a file with its text.
    pub(super) fn write_text(&mut self, number: u32, read: &ReadFile) -> Result<(), ExportError> {
        let known = &self.model.files[number as usize];
        let mut page = Html::page(&self.name, &known.shown, Here::File(number));
        page.add("<div class=file><main>");
        page.add(format_args!("<section><h1>{}</h1><p class=about>", Text(&known.shown)));
        if let Some(system) = known.system {
            page.add(format_args!("system {} · ", self.system_link(system, "../")));
        }
        page.add(format_args!(
            "{} · {}",
            several(read.text.lines().count(), "line"),
            several(known.definitions.len(), "definition")
        ));
        page.add(match (read.fresh, read.changed) {
            (true, _) => "",
            (_, true) => " · <b>changed since it was loaded, so nothing is linked</b>",
            _ => " · <b>the compiled code was generated from it, so nothing is linked</b>",
        });
        page.add("<div class=code>").add(self.code(number, read)).add("</div></section>\n");
        let name = self.file_page(number);
        self.summary.pages += 1;
        self.put(&name, page.text())
    }

    /// Adds the descriptions of the file's symbols and the list of its definitions to its page.
    pub(super) fn write_symbols(&mut self, number: u32) -> Result<(), ExportError> {
        let mut page = Html::default();
        for &symbol in self.described.get(&number).into_iter().flatten() {
            self.write_symbol(&mut page, symbol, Here::File(number));
        }
        page.add("</main><aside><details open><summary>Definitions</summary><ul>");
        for definition in self.model.files[number as usize].definitions.clone() {
            let definition = &self.model.definitions[definition as usize];
            if definition.kind == DefinitionKind::Accessor || definition.declaration {
                continue;
            }
            let symbol = definition.entity.symbol;
            let name = readable(&self.model.symbols[symbol as usize].name.name);
            let class = class_of(definition.entity.facet);
            page.add(format_args!("<li><a{class} href=#{}>{}</a>", definition.lines.0, Text(&name)));
            match definition.entity.facet {
                Facet::Package => (),
                Facet::Method(_) => drop(page.add("<small>method</small>")),
                _ => drop(page.add(format_args!("<small>{}</small>", self.live(symbol)))),
            }
        }
        page.add("</ul></details></aside></div>\n");
        let name = self.file_page(number);
        self.put(&name, page.text())
    }

    /// Returns the text of a file as markup. Each line is a paragraph; the first line of a foldable
    /// form is the summary of a `details` element.
    fn code(&self, number: u32, file: &ReadFile) -> String {
        let text = &file.text;
        let mut out = String::with_capacity(text.len() * 3);
        let spans = self.spans(number, file);
        let mut spans = spans.iter().peekable();
        let mut folds = foldable(file).into_iter().peekable();
        let mut fold = None;
        let mut end = 0;
        for (line, content) in (1..).zip(text.split_inclusive('\n')) {
            let (start, stop) = (end, end + content.trim_end_matches('\n').len());
            end += content.len();
            let begins = folds.next_if(|form| form.start as usize <= start);
            let element = if begins.is_some() { "<details open><summary" } else { "<p" };
            fold = begins.map(|form| form.end).or(fold);
            let _ = write!(out, "{element} id={line}>");
            let mut at = start;
            while at < stop {
                while spans.next_if(|span| span.range.end as usize <= at).is_some() {}
                let next = spans.peek().map_or(stop, |span| (span.range.start as usize).clamp(at, stop));
                let _ = write!(out, "{}", Text(&text[at..next]));
                at = next;
                if let Some(span) = spans.peek().filter(|_| at < stop) {
                    at = (span.range.end as usize).min(stop);
                    let _ = write!(out, "{}{}{}", span.open, Text(&text[next..at]), span.close);
                }
            }
            out.push('\n');
            if begins.is_some() {
                out.push_str("</summary>");
            }
            if fold.take_if(|form| *form as usize <= end).is_some() {
                out.push_str("</details>");
            }
        }
        if text.is_empty() {
            out.push_str("<p id=1>");
        }
        out
    }

    /// Returns the ranges with markup, in order. They do not overlap.
    fn spans(&self, number: u32, file: &ReadFile) -> Vec<MarkedRange> {
        let read = LispText::read(file.text.as_bytes(), Dialect::CommonLisp, &Features::sbcl());
        let mut spans: Vec<MarkedRange> = read
            .tokens()
            .iter()
            .filter_map(|token| match token.kind {
                TokenKind::Comment => Some(("<i>", "</i>", token.span)),
                TokenKind::String => Some(("<s>", "</s>", token.span)),
                _ => None,
            })
            .map(|(open, close, range)| MarkedRange { range, open: open.to_owned(), close })
            .collect();
        let mut locals: HashMap<Range, usize> = HashMap::new();
        for token in file.tokens.iter().filter(|_| file.fresh) {
            spans.extend(self.span(number, token, &mut locals));
        }
        spans.sort_by_key(|span| span.range.start);
        spans.dedup_by(|later, before| later.range.start < before.range.end);
        spans
    }

    /// Returns the markup of a token, or `None` if it is shown as plain text.
    fn span(&self, file: u32, token: &ModelToken, locals: &mut HashMap<Range, usize>) -> Option<MarkedRange> {
        let range = token.range;
        let mark = |open: String, close| Some(MarkedRange { range, open, close });
        let Meaning::Global(entity) = token.meaning else {
            let Meaning::Local(binding) = token.meaning else { return None };
            let next = locals.len();
            return mark(format!("<u class={}>", locals.entry(binding).or_insert(next)), "</u>");
        };
        let symbol = &self.model.symbols[entity.symbol as usize];
        let class = match entity.facet {
            _ if token.defines => " class=d",
            Facet::Function | Facet::Setf if token.kind.is_macro() => " class=m",
            facet => class_of(facet),
        };
        let link = |href: String| mark(format!("<a{class} href={href}>"), "</a>");
        let here = Here::File(file);
        let told = match entity.facet {
            Facet::Package if self.own.contains(&symbol.name.name) => {
                return link(self.package_page(&symbol.name.name, "../"));
            }
            Facet::Package => return None,
            Facet::Slot(Some(class)) => self.slot_href(class, &symbol.name, here),
            _ => None,
        };
        match told.or_else(|| self.href(entity.symbol, here)) {
            Some(href) => link(href),
            // Names of the standard have no link here: the script links them to the page of
            // COMMON-LISP.
            None if symbol.name.package == "COMMON-LISP" => match token.kind.is_macro() {
                true => mark("<em>".to_owned(), "</em>"),
                false => mark("<b>".to_owned(), "</b>"),
            },
            None if symbol.name.package.is_empty() => None,
            None => link(format!(
                "{}#{}",
                self.package_page(&symbol.name.package, "../"),
                name_slug(&symbol.name.name)
            )),
        }
    }
}

/// Returns the style sheet's class for a facet, as an attribute. Functions and methods have none.
pub(super) fn class_of(facet: Facet) -> &'static str {
    match facet {
        Facet::Function | Facet::Setf | Facet::Method(_) => "",
        Facet::Macro | Facet::CompilerMacro => " class=m",
        Facet::Variable => " class=v",
        Facet::Type => " class=t",
        Facet::Slot(_) => " class=o",
        Facet::Package => " class=p",
        Facet::Other => " class=x",
    }
}

/// Returns the top-level forms that can be folded: those that start and end at line boundaries and
/// have more than one line.
fn foldable(file: &ReadFile) -> Vec<Range> {
    let bytes = file.text.as_bytes();
    let whole = |form: &&Range| {
        let begins = form.start == 0 || bytes[form.start as usize - 1] == b'\n';
        let several = file.lines.line(form.start) != file.lines.line(form.end);
        begins && several && bytes.get(form.end as usize).is_none_or(|byte| b"\r\n".contains(byte))
    };
    let mut forms: Vec<Range> = file.forms.iter().filter(whole).copied().collect();
    forms.sort();
    forms.dedup_by(|later, before| later.start < before.end);
    forms
}
