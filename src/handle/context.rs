//! The context for answering a question: [`QueryContext`] bundles the image, the index and the
//! project, and provides the steps that many questions share. `DefinitionPlaces` finds the lines
//! and columns of definitions.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::answer::designator::DesignatorError;
use crate::answer::lookup::{DEFAULT_PACKAGE, Lookup, LookupStatus, NamedSymbol};
use crate::answer::name::escaped;
use crate::answer::{Location, SourcePlace};
use crate::engine::control::Control;
use crate::engine::{CallAnswer, Lane, Lisp, read_json};
use crate::handle::{Error, Steelbank};
use crate::source::positions::{PositionedFile, universal_write_date};
use crate::source::sbcl::{SbclSources, SourceFile};
use crate::workspace::{Project, TextContext, TextFilter, TextState};
use steelbank_reader::Range;
use steelbank_text::FileTokens;
use steelbank_xref::{Index, Package, TextSymbol};

/// The context for answering a question: the image, the index of its cross references, and the
/// sources.
#[derive(Clone)]
#[non_exhaustive]
pub struct QueryContext<'a> {
    pub(crate) bank: &'a Steelbank,
    /// The handle to Lisp.
    pub lisp: Lisp,
    /// The current index.
    pub index: Index,
    /// The project with its loaded files.
    pub(crate) project: &'a Project,
    /// SBCL's sources.
    pub(crate) sbcl: &'a SbclSources,
    pub(crate) memo: &'a super::memo::Memo,
    /// The index of the project's text, if there is one.
    pub text: Option<&'a steelbank_text::TextIndex>,
}

debug_fields!(QueryContext<'_>, lisp);

impl QueryContext<'_> {
    /// Calls the Lisp function registered as `name` on the lane of short questions, and parses its
    /// answer.
    ///
    /// # Errors
    /// Lisp cannot answer, or does not answer in time.
    pub(crate) fn ask<T: DeserializeOwned>(
        &self,
        name: &str,
        arguments: Vec<String>,
        control: &Control,
    ) -> Result<T, Error> {
        Ok(self.ask_on(Lane::Query, name, arguments, control)?.0)
    }

    /// Like [`QueryContext::ask`], on `lane`. Also returns the raw answer, which includes the text
    /// that the call printed.
    ///
    /// # Errors
    /// See [`QueryContext::ask`].
    pub(crate) fn ask_on<T: DeserializeOwned>(
        &self,
        lane: Lane,
        name: &str,
        arguments: Vec<String>,
        control: &Control,
    ) -> Result<(T, CallAnswer), Error> {
        let name = name.to_owned();
        let ticket =
            self.lisp.submit(lane, control.allowed(), None, move |on_lisp| on_lisp.call(&name, &arguments));
        let answer = control.wait(ticket)?;
        Ok((read_json(&answer.bytes)?, answer))
    }

    /// Resolves the name in a request with [`Lookup::resolved`]. If no such symbol is accessible in
    /// the package, the returned context's index also contains the symbols of that name that occur
    /// in the text of loaded files, but not in the image. A fasl interns only the symbols that it
    /// refers to, but an answer must not depend on whether a file was compiled or came from the
    /// cache.
    ///
    /// # Errors
    /// The name cannot be parsed. A missing symbol is an outcome of the lookup.
    pub(crate) fn resolve(
        &self,
        name: &str,
        package: Option<&str>,
    ) -> Result<(Cow<'_, Self>, Lookup), DesignatorError> {
        let lookup = Lookup::new(&self.index, name, package.unwrap_or(DEFAULT_PACKAGE))?;
        if lookup.found != Err(LookupStatus::NoSymbol) {
            return Ok((Cow::Borrowed(self), lookup));
        }
        let context = self.with_sidecar_symbols(&lookup.asked.name);
        let lookup = Lookup::resolved(&context.index, name, package)?;
        Ok((context, lookup))
    }

    /// Returns this context, with the symbols called `name` in loaded files added to its index.
    /// Searches all packages.
    pub(crate) fn with_sidecar_symbols(&self, name: &str) -> Cow<'_, Self> {
        let naming = self.project.naming(name).into_iter();
        let files: Vec<_> =
            naming.filter_map(|file| self.project.positions(&file.path, file.write_date).ok()).collect();
        let symbols = files.iter().flat_map(|file| file.symbols()).filter(|(_, found)| *found == name);
        self.with_symbols(symbols, |_| false)
    }

    /// Returns this context, with the symbols called `name` that changed text defines, but that the
    /// image lacks, added to its index. Searches changed files and `texts`. A symbol is exported if
    /// the definition of its home package there names it.
    pub(crate) fn with_defined_symbols(&self, name: &str, texts: &[Arc<str>]) -> Cow<'_, Self> {
        let view = self.project.tree_view();
        let files = self.project.texts_naming_at(&view, name, TextFilter::Unloaded, true).files;
        let texts: Vec<FileTokens> = texts.iter().map(|text| FileTokens::read(text.as_bytes())).collect();
        let changed = files.iter().filter(|file| file.load_state == TextState::Changed);
        let tokens =
            || changed.clone().map(|file| &file.tokens).chain(&texts).flat_map(|text| text.named(name));
        let package = |name: &str| self.index.find_package(name, None);
        let exporters = tokens().filter_map(|token| match &token.context {
            TextContext::Package { package: home, from: None } => package(home),
            _ => None,
        });
        let exporters: BTreeSet<Package> = exporters.collect();
        let defined = tokens().filter(|token| token.defines && token.active);
        let homes = defined.filter_map(|token| token.prefix.as_deref().or(token.package.as_deref()));
        self.with_symbols(homes.map(|home| (home, name)), |home| exporters.contains(&home))
    }

    /// Returns this context, with the symbols of a loaded file that the image lacks added to its
    /// index.
    pub(crate) fn with_file_symbols(&self, file: &PositionedFile) -> Cow<'_, Self> {
        self.with_symbols(file.symbols(), |_| false)
    }

    /// Returns this context, with those of `symbols` that the image lacks added to its index. Each
    /// symbol is a pair of home package and name. Skips symbols of packages that the image lacks.
    /// KEYWORD and the packages that `exports` accepts export them.
    fn with_symbols<'b>(
        &self,
        symbols: impl IntoIterator<Item = (&'b str, &'b str)>,
        exports: impl Fn(Package) -> bool,
    ) -> Cow<'_, Self> {
        let symbols = symbols.into_iter().filter_map(|(home, name)| {
            let package = self.index.find_package(home, None)?;
            self.index.find_symbol(name, package).is_none().then_some((package, name))
        });
        let symbols: BTreeSet<(Package, &str)> = symbols.collect();
        if symbols.is_empty() {
            return Cow::Borrowed(self);
        }
        let symbol = |(package, name): (_, &str)| {
            let (name, printed) = (name.to_owned(), escaped(name));
            let exported = exports(package) || self.index.package_name(package) == "KEYWORD";
            TextSymbol { package, name, printed, exported }
        };
        Cow::Owned(Self { index: self.index.with_symbols(symbols.into_iter().map(symbol)), ..self.clone() })
    }

    /// Resolves `named` as [`QueryContext::resolve`] does.
    ///
    /// # Errors
    /// See [`QueryContext::resolve`].
    pub(crate) fn resolve_symbol(
        &self,
        named: &NamedSymbol,
    ) -> Result<(Cow<'_, Self>, Lookup), DesignatorError> {
        self.resolve(&named.name, named.package.as_deref())
    }

    /// Returns a [`DefinitionPlaces`] for this context.
    pub(crate) fn places(&self) -> DefinitionPlaces<'_> {
        DefinitionPlaces { project: self.project, sbcl: self.sbcl, read: HashMap::new() }
    }
}

/// Finds the places of definitions. Caches the files that it reads.
pub(crate) struct DefinitionPlaces<'a> {
    project: &'a Project,
    sbcl: &'a SbclSources,
    /// The files read so far, each with whether its text is the version that was loaded (`None` if
    /// that is unknown).
    read: HashMap<PathBuf, (Option<SourceFile>, Option<bool>)>,
}

impl<'a> DefinitionPlaces<'a> {
    pub(crate) fn new(project: &'a Project, sbcl: &'a SbclSources) -> Self {
        Self { project, sbcl, read: HashMap::new() }
    }

    /// Completes `source`: sets the paths, the line and column if they can be determined, and
    /// whether the file is stale. Also sets the offset if SBCL recorded none, as for variables and
    /// classes.
    pub(crate) fn put(&mut self, source: &mut SourcePlace) {
        source.place = Location::new(self.project.shown(Path::new(&source.file)));
        let Some(path) = self.sbcl.native(&source.file) else {
            let baked = source.octet_offset.and_then(|bytes| self.sbcl.baked(&source.file, bytes));
            if let Some(at) = baked {
                source.place = std::mem::take(&mut source.place).at(at);
            }
            return;
        };
        source.native = (path.as_os_str() != source.file.as_str()).then(|| path.display().to_string());
        // SBCL records no date for variables, classes and methods: use the version that was loaded
        // last.
        let date = source.write_date.or_else(|| self.project.loaded_date(&path));
        source.stale = date.is_some_and(|date| self.sbcl.written_since(&path, date));
        match (source.octet_offset, source.form_path.first()) {
            (Some(bytes), form) => {
                let (file, fresh) = self.read.entry(path.clone()).or_insert_with(|| {
                    let file = SourceFile::read(&path);
                    let fresh = file.as_ref().and_then(|file| self.project.is_as_loaded(&path, file.text()));
                    (file, fresh)
                });
                let at = file.as_ref().and_then(|file| file.line_and_column(bytes));
                // `fresh` is about the version that was loaded last, so ignore it if the definition
                // is from another version.
                let fresh = fresh.filter(|_| date == self.project.loaded_date(&path));
                source.stale = fresh.map_or(source.stale, |fresh| !fresh);
                let place = std::mem::take(&mut source.place);
                source.place = match (form, at) {
                    // SBCL's offset refers to the loaded text, which is not the text on disk.
                    (Some(&form), _) if source.stale => {
                        self.of_form(&path, date, Some(form), source.form_number)
                    }
                    (_, Some(at)) => place.at(at),
                    (_, None) => place,
                };
            }
            (None, Some(&form)) if source.native.is_none() => {
                if let Some((file, range)) = self.form(&path, date, form, source.form_number.unwrap_or(0)) {
                    source.stale = !file.is_fresh();
                    source.octet_offset = file.octets_before(form);
                    source.place = Location::placed(std::mem::take(&mut source.place.file), &file, range);
                }
            }
            (None, _) => (),
        }
    }

    /// Completes all `sources`. Returns the place of the first source with a known line, or the
    /// place of the first source if no line is known.
    pub(crate) fn first(&mut self, sources: &mut [SourcePlace]) -> Option<Location> {
        sources.iter_mut().for_each(|source| self.put(source));
        let placed = sources.iter().find(|source| source.place.line.is_some()).or(sources.first());
        placed.map(|source| source.place.clone())
    }

    /// Returns the place of the sub-form `number` in the top-level form `form` of the file at
    /// `path`. `date` is the write date of the file's version; `None` means the version on disk.
    /// Without position data, returns only the file.
    pub(crate) fn of_form(
        &self,
        path: &Path,
        date: Option<u64>,
        form: Option<u32>,
        number: Option<u32>,
    ) -> Location {
        let shown = self.project.shown(path);
        match form.and_then(|form| self.form(path, date, form, number.unwrap_or(0))) {
            Some((file, range)) => Location::placed(shown, &file, range),
            None => Location::new(shown),
        }
    }

    /// Finds the sub-form `number` in a top-level form, or the top-level form if the sub-form is
    /// unknown. Needed if SBCL records no offset, as for variables and classes, and if the file has
    /// changed since it was loaded.
    fn form(
        &self,
        path: &Path,
        date: Option<u64>,
        form: u32,
        number: u32,
    ) -> Option<(Arc<PositionedFile>, Range)> {
        let date = date.or_else(|| universal_write_date(path))?;
        let file = self.project.positions(path, date).ok()?;
        let range = file.form_range(form, number).or_else(|| file.form_range(form, 0))?;
        Some((file, range))
    }
}
