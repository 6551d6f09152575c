//! Writes the project as static HTML pages. They need no server and no network, and work without
//! JavaScript, which only adds conveniences such as search and drawings. [`write_site`] reads the
//! files through the model and writes a page for each file. Then it adds the descriptions of each
//! file's symbols to the file's page. Finally, it writes an overview, and the pages that list
//! systems, packages, files, tests and unused definitions.

mod file;
mod html;
mod listings;
mod symbol;
mod uses;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::Path;

use steelbank_reader::lines::LineIndex;
use steelbank_text::DefinitionKind;

use super::model::{Accessory, Facet, Meaning, Model, ReadFile, SymbolNumber, principal};
use super::output::Output;
use super::{ExportError, report};
use crate::Steelbank;
use crate::actions::uses::outline::OutlineAnswer;
use crate::engine::control::Control;
use crate::source::positions::PlaceAccess;
use crate::source::tap::sidecar::fnv_1a;
use html::{Here, Html, name_slug, path_slug};
use steelbank_xref::SymbolName;
use uses::{CallerGraph, SiteUse, unused};

/// The file that lists all other files of a site, with hashes of their contents.
const MARKER: &str = "steelbank-site.txt";
/// The first line of that file.
const MARKED: &str =
    "Written by steelbank site, which replaces this folder as long as it has only these files:\n";

/// The counts and sizes of a written site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SiteSummary {
    /// The number of pages.
    pub pages: usize,
    /// The number of the project's files.
    pub files: usize,
    /// The number of described symbols.
    pub symbols: usize,
    /// The total size of the site in bytes.
    pub bytes: u64,
    /// The size of the project's files in bytes.
    pub source_bytes: u64,
}

/// The text of a file, for showing single lines.
struct ShownFile {
    text: String,
    lines: LineIndex,
}

impl ShownFile {
    fn count(&self) -> usize {
        self.text.lines().count()
    }

    /// Returns the line with this number, trimmed and shortened for a list.
    fn line(&self, number: u32) -> &str {
        // The maximum length, in characters.
        const LONGEST_LINE: usize = 100;
        let rest = self.text.get(self.lines.start(number) as usize..).unwrap_or_default();
        let line = rest.lines().next().unwrap_or_default().trim();
        line.char_indices().nth(LONGEST_LINE).map_or(line, |(at, _)| &line[..at])
    }
}

/// The place where a symbol is described.
struct Home {
    file: u32,
    /// The anchor in that file's page.
    anchor: String,
    /// The symbol's number in the list of all symbols, as the script uses it.
    listed: usize,
}

/// The data for all pages, in particular the text of each file and the uses of each symbol.
struct Site<'a> {
    model: Model<'a>,
    name: String,
    files: Vec<ShownFile>,
    /// The name of each file's page.
    slugs: Vec<String>,
    /// The name of each file in lists: its short name if no other file has the same one, otherwise
    /// its path.
    titles: Vec<String>,
    /// The number of each file, by its path relative to the root.
    numbers: BTreeMap<String, u32>,
    /// The packages that the project defines.
    own: BTreeSet<String>,
    /// The described symbols, sorted by package and name.
    listed: Vec<SymbolNumber>,
    homes: Vec<Option<Home>>,
    /// The described symbols of each file.
    described: BTreeMap<u32, Vec<SymbolNumber>>,
    subclasses: BTreeMap<SymbolName, Vec<SymbolNumber>>,
    /// The uses of described symbols, sorted by target, file and line.
    uses: Vec<SiteUse>,
    /// The number of uses of each external symbol.
    others: BTreeMap<SymbolNumber, usize>,
    graph: CallerGraph,
    unused: OutlineAnswer,
    /// The folder that the output will replace.
    folder: &'a Path,
    output: Output,
    summary: SiteSummary,
}

/// Writes the pages of the project's loaded files into `folder`. The folder must be missing, empty,
/// or as this function wrote it. The pages are first written to another folder, which replaces
/// `folder` when all pages are complete.
///
/// # Errors
/// No file is loaded, the folder has other files, a file cannot be read or written, a question to
/// Lisp failed, or `control` cancelled the export.
pub fn write_site(bank: &Steelbank, folder: &Path, control: &Control) -> Result<SiteSummary, ExportError> {
    check_folder(folder)?;
    // The search for unused definitions sends thousands of requests. Without the watcher, each
    // request would check the date of every file.
    bank.project().watch();
    let context = bank.context();
    let model = Model::new(&context, control)?;
    let output = Output::folder(folder).map_err(ExportError::write(folder))?;
    let name = model.root.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let shown = model.files.iter().map(|file| file.shown.clone());
    let titles = titles(model.files.iter().map(|file| &*file.shown));
    let mut site = Site {
        numbers: shown.zip(0..).collect(),
        slugs: titles.iter().map(|title| path_slug(title)).collect(),
        titles,
        model,
        name,
        files: Vec::new(),
        own: BTreeSet::new(),
        listed: Vec::new(),
        homes: Vec::new(),
        described: BTreeMap::new(),
        subclasses: BTreeMap::new(),
        uses: Vec::new(),
        others: BTreeMap::new(),
        graph: CallerGraph::default(),
        unused: OutlineAnswer::default(),
        folder,
        output,
        summary: SiteSummary::default(),
    };
    site.list();
    let total = site.model.files.len();
    for file in 0..total {
        report(control, &site.model.files[file].shown, file, total * 2);
        let read = site.model.read(file as u32)?;
        site.gather(file as u32, &read);
        site.write_text(file as u32, &read)?;
        site.files.push(ShownFile { text: read.text, lines: read.lines });
    }
    site.uses.sort_unstable();
    site.uses.dedup();
    site.graph = CallerGraph::of(&site.model, &site.uses);
    site.unused = unused(&site, &context, control)?;
    site.put("style.css", include_str!("style.css"))?;
    site.put("script.js", include_str!("script.js"))?;
    for file in 0..total {
        control.check()?;
        report(control, &site.model.files[file].shown, total + file, total * 2);
        site.write_symbols(file as u32)?;
    }
    site.write_listings()?;
    let text = marker(&site.output.path).map_err(ExportError::write(folder))?;
    site.put(MARKER, &text)?;
    site.summary.files = total;
    site.summary.symbols = site.listed.len();
    // Files may have appeared while the pages were written.
    check_folder(folder)?;
    site.output.finish().map_err(ExportError::write(folder))?;
    Ok(site.summary)
}

/// Checks that the site can be written into `folder`.
///
/// # Errors
/// `folder` is a link, has other files than those that this module wrote, or cannot be read.
pub fn check_folder(folder: &Path) -> Result<(), ExportError> {
    // Without a slash at the end, which would make the system follow a link.
    let folder: &Path = folder.components().as_path();
    if folder.is_symlink() {
        return Err(ExportError::write(folder)(std::io::Error::other("it is a link")));
    }
    // Read the files only if there is a marker: the user may have named a large folder.
    let is_own = || {
        let text = steelbank_cache::read(&folder.join(MARKER));
        text.is_ok_and(|text| marker(folder).is_ok_and(|now| text == now.as_bytes()))
    };
    match fs::read_dir(folder).map(|mut entries| entries.next().is_none()) {
        Ok(is_empty) if is_empty || is_own() => Ok(()),
        Ok(_) => Err(ExportError::Foreign(folder.to_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(ExportError::write(folder)(error)),
    }
}

/// Returns the text of the marker for the files below `folder`, each with the hash of its content.
/// Entries that are no files, such as links, have the hash 0.
fn marker(folder: &Path) -> std::io::Result<String> {
    let (mut lines, mut folders) = (BTreeSet::new(), vec![folder.to_owned()]);
    while let Some(at) = folders.pop() {
        for entry in fs::read_dir(at)? {
            let (path, kind) = entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)))?;
            let name = path.strip_prefix(folder).unwrap_or(&path);
            let content = kind.is_file().then(|| steelbank_cache::read(&path).ok()).flatten();
            if kind.is_dir() {
                folders.push(path);
            } else if content.is_none() || name != Path::new(MARKER) {
                let hash = content.as_deref().map_or(0, fnv_1a);
                lines.insert(format!("{name:?} {hash:016x}\n"));
            }
        }
    }
    Ok(lines.into_iter().fold(MARKED.to_owned(), |text, line| text + &line))
}

/// Returns the files' names in lists: the short name if no other file has the same one, otherwise
/// the path.
fn titles<'a>(paths: impl Iterator<Item = &'a str> + Clone) -> Vec<String> {
    let plain = |path: &'a str| path.strip_suffix(".lisp").unwrap_or(path);
    let short = |path: &'a str| plain(path).rsplit('/').next().unwrap_or(path);
    let (mut seen, mut twice) = (HashSet::new(), HashSet::new());
    for name in paths.clone().map(short) {
        if !seen.insert(name) {
            twice.insert(name);
        }
    }
    let mut taken = HashSet::new();
    paths
        .map(|path| match short(path) {
            name if !twice.contains(name) && taken.insert(name) => name.to_owned(),
            _ if taken.insert(plain(path)) => plain(path).to_owned(),
            _ => path.to_owned(),
        })
        .collect()
}

impl Site<'_> {
    /// Lists the described symbols, and determines where each is described.
    fn list(&mut self) {
        let model = &self.model;
        self.own = model
            .definitions
            .iter()
            .filter(|definition| definition.entity.facet == Facet::Package)
            .map(|definition| model.symbols[definition.entity.symbol as usize].name.name.clone())
            .collect();
        // Prefer definitions to declarations. Among equals, prefer definitions by standard
        // operators to methods and to definitions by the project's macros, and then other files to
        // test files.
        let own = |symbol: SymbolNumber| {
            let all = model.symbols[symbol as usize].definitions.iter();
            let all = all.map(|&number| &model.definitions[number as usize]);
            let all = all.filter(|definition| definition.entity.facet != Facet::Package);
            let best = all.min_by_key(|definition| {
                // A definition by the project's own macros may be about a symbol that is defined
                // elsewhere.
                let is_about = matches!(definition.entity.facet, Facet::Method(_))
                    || definition.kind == DefinitionKind::Definition;
                (definition.declaration, is_about, model.files[definition.file as usize].is_test)
            });
            best.map(|definition| definition.file)
        };
        let of_class = |symbol: SymbolNumber| {
            let class = model.slots.get(&symbol).and_then(|classes| classes.first().copied());
            own(class.or_else(|| {
                model.accessories.get(&symbol).map(|accessory| match accessory {
                    Accessory::Accessor(class, _) | Accessory::Generated(class) => *class,
                })
            })?)
        };
        let mut listed: Vec<(SymbolNumber, u32)> = (0..model.symbols.len() as u32)
            .filter(|&symbol| !model.symbols[symbol as usize].name.package.is_empty())
            .filter_map(|symbol| Some((symbol, own(symbol).or_else(|| of_class(symbol))?)))
            .collect();
        listed.sort_by_cached_key(|(symbol, _)| {
            let symbol = &model.symbols[*symbol as usize];
            symbol.name.clone()
        });
        self.homes.resize_with(model.symbols.len(), || None);
        let mut taken: HashSet<(u32, String)> = HashSet::new();
        for (number, (symbol, file)) in listed.into_iter().enumerate() {
            let known = &model.symbols[symbol as usize];
            let mut anchor = name_slug(&known.name.name);
            if !taken.insert((file, anchor.clone())) {
                anchor = format!("{}~{anchor}", name_slug(&known.name.package));
            }
            self.homes[symbol as usize] = Some(Home { file, anchor, listed: number });
            self.described.entry(file).or_default().push(symbol);
            self.listed.push(symbol);
            for above in model.class(symbol).into_iter().flat_map(|class| &class.superclasses) {
                self.subclasses.entry(above.clone()).or_default().push(symbol);
            }
        }
    }

    fn home(&self, symbol: SymbolNumber) -> Option<&Home> {
        self.homes.get(symbol as usize)?.as_ref()
    }

    /// Returns the link to the description of a symbol, or `None` if the site does not describe it.
    fn href(&self, symbol: SymbolNumber, here: Here) -> Option<String> {
        let Home { file, anchor, .. } = self.home(symbol)?;
        Some(self.place(*file, anchor, here))
    }

    /// Returns the link to a slot of a class, or `None` if the site does not describe the class.
    fn slot_href(&self, class: SymbolNumber, slot: &SymbolName, here: Here) -> Option<String> {
        let home = self.home(class)?;
        Some(self.place(home.file, self.slot_anchor(class, slot)?, here))
    }

    fn slot_anchor(&self, class: SymbolNumber, slot: &SymbolName) -> Option<String> {
        let anchor = &self.home(class)?.anchor;
        let SymbolName { package, name } = slot;
        Some(match self.model.symbols[class as usize].name.package == *package {
            true => format!("{anchor}.{}", name_slug(name)),
            false => format!("{anchor}.{}.{}", name_slug(package), name_slug(name)),
        })
    }

    /// Returns the link to an anchor in a file's page.
    fn place(&self, file: u32, place: impl std::fmt::Display, here: Here) -> String {
        let slug = &self.slugs[file as usize];
        match here {
            Here::File(number) if number == file => format!("#{place}"),
            Here::File(_) => format!("{slug}.html#{place}"),
            here => format!("{}f/{slug}.html#{place}", here.root()),
        }
    }

    /// Records the uses of symbols in a file.
    fn gather(&mut self, number: u32, read: &ReadFile) {
        for token in &read.tokens {
            let Meaning::Global(entity) = token.meaning else { continue };
            if self.home(entity.symbol).is_none() {
                let is_named = entity.facet != Facet::Package
                    && !self.model.symbols[entity.symbol as usize].name.package.is_empty();
                if is_named {
                    *self.others.entry(entity.symbol).or_default() += 1;
                }
            } else if let (false, Some(what)) = (token.defines, token.use_type) {
                let line = read.lines.line(token.range.start);
                self.uses.push(SiteUse {
                    target: entity.symbol,
                    facet: entity.facet,
                    file: number,
                    line,
                    what,
                    by: self.model.definition_around(number, line),
                    access: token.access,
                    sure: token.exact,
                    via: None,
                    generated: false,
                });
            }
        }
        for made in &read.generated_uses {
            let target = self.model.find_symbol(&made.symbol);
            let Some(target) = target.filter(|target| self.home(*target).is_some()) else { continue };
            let line = read.lines.line(made.range.start);
            self.uses.push(SiteUse {
                target,
                facet: principal(&self.model.symbols[target as usize].facts).unwrap_or(Facet::Other),
                file: number,
                line,
                what: made.use_type,
                by: self.model.definition_around(number, line),
                access: PlaceAccess::Read,
                sure: true,
                via: made.expander.as_ref().and_then(|expander| self.model.find_symbol(expander)),
                generated: true,
            });
        }
        self.summary.source_bytes += read.text.len() as u64;
    }

    /// Returns the uses of a symbol.
    fn uses_of(&self, symbol: SymbolNumber) -> &[SiteUse] {
        let start = self.uses.partition_point(|found| found.target < symbol);
        let end = self.uses.partition_point(|found| found.target <= symbol);
        &self.uses[start..end]
    }

    /// Counts the uses of a symbol by code; see [`SiteUse::is_live`].
    fn live(&self, symbol: SymbolNumber) -> usize {
        self.uses_of(symbol).iter().filter(|found| found.is_live()).count()
    }

    /// Appends to a file of the site, and creates it if necessary.
    fn put(&mut self, name: &str, text: &str) -> Result<(), ExportError> {
        self.summary.bytes += text.len() as u64;
        self.output.append(name, text).map_err(ExportError::write(self.folder.join(name)))
    }

    /// Writes a complete page.
    fn put_page(&mut self, name: &str, page: Html) -> Result<(), ExportError> {
        self.summary.pages += 1;
        self.put(name, page.text())
    }
}
