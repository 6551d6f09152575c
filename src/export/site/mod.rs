//! The project as pages that one can look at: they need no server, no network and no script, which only adds to them.

mod file;
mod html;
mod listings;
mod symbol;
mod uses;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use steelbank_reader::lines::LineIndex;
use steelbank_text::DefinitionKind;

use super::model::{Accessory, Facet, Meaning, Model, ReadFile, SymbolNumber, principal};
use super::{ExportError, report};
use crate::Steelbank;
use crate::actions::symbols::facts::HomeAndName;
use crate::actions::uses::outline::OutlineAnswer;
use crate::engine::control::Control;
use crate::source::positions::PlaceAccess;
use html::{Here, Html, name_slug, path_slug};
use uses::{CallerGraph, UseLine, unused};

/// The file by which a folder is known as a site of ours.
const MARKER: &str = "steelbank-site.txt";
/// What goes into it.
const MARKED: &str = "Written by steelbank site, which may replace everything in this folder.\n";

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SiteSummary {
    /// The pages.
    pub pages: usize,
    /// The files of the project.
    pub files: usize,
    /// The symbols with a page.
    pub symbols: usize,
    /// Everything, in bytes.
    pub bytes: u64,
    /// The project's files, in bytes.
    pub source_bytes: u64,
}

/// The text of a file that was read, of which pages show lines.
struct ShownFile {
    text: String,
    lines: LineIndex,
}

impl ShownFile {
    fn count(&self) -> usize {
        self.text.lines().count()
    }

    /// The line with this number, as a list shows it.
    fn line(&self, number: u32) -> &str {
        // In characters.
        const LONGEST_LINE: usize = 100;
        let rest = self.text.get(self.lines.start(number) as usize..).unwrap_or_default();
        let line = rest.lines().next().unwrap_or_default().trim();
        line.char_indices().nth(LONGEST_LINE).map_or(line, |(at, _)| &line[..at])
    }
}

/// Where a symbol is told of.
struct Home {
    file: u32,
    /// The place in that file's page.
    anchor: String,
    /// Its number in the list of all symbols, which the script knows.
    listed: usize,
}

/// All that pages are made of. What is kept of a file is its text; of a symbol, the lines that use it.
struct Site<'a> {
    model: Model<'a>,
    name: String,
    files: Vec<ShownFile>,
    /// The name of each file's page, and the file's in lists: short where no other file is called so.
    slugs: Vec<String>,
    titles: Vec<String>,
    /// The number of each file, by its path from the root.
    numbers: BTreeMap<String, u32>,
    /// The packages that the project defines.
    own: BTreeSet<String>,
    /// The symbols that are told of, by package and name.
    listed: Vec<SymbolNumber>,
    homes: Vec<Option<Home>>,
    /// By file.
    told: BTreeMap<u32, Vec<SymbolNumber>>,
    subclasses: BTreeMap<HomeAndName, Vec<SymbolNumber>>,
    /// By target, file and line.
    uses: Vec<UseLine>,
    /// The places of the symbols of others.
    others: BTreeMap<SymbolNumber, usize>,
    graph: CallerGraph,
    unused: OutlineAnswer,
    folder: PathBuf,
    summary: SiteSummary,
}

/// Writes the pages of the project's loaded files into `folder`, which must not exist, be empty, or have been written by
/// this before. They are made beside it, and come to their place when all are there.
///
/// # Errors
/// Nothing is loaded, the folder is somebody else's, a file cannot be read or written, or `control` called it off.
pub fn write_site(bank: &Steelbank, folder: &Path, control: &Control) -> Result<SiteSummary, ExportError> {
    check_folder(folder)?;
    let made = unfinished(folder);
    let written = fs::create_dir_all(&made)
        .map_err(ExportError::write(folder))
        .and_then(|()| clear(&made))
        .and_then(|()| write_pages(bank, &made, control))
        .and_then(|summary| replace(&made, folder).map(|()| summary));
    if written.is_err() {
        let _ = fs::remove_dir_all(&made);
    }
    written
}

/// Checks that `folder` may be written.
///
/// # Errors
/// It is a file, or has what no site of ours has.
pub fn check_folder(folder: &Path) -> Result<(), ExportError> {
    match fs::read_dir(folder).map(|mut entries| entries.next().is_none()) {
        Ok(is_empty) if is_empty || folder.join(MARKER).is_file() => Ok(()),
        Ok(_) => Err(ExportError::Foreign(folder.to_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(ExportError::write(folder)(error)),
    }
}

/// The folder in which a site for `folder` is made.
pub fn unfinished(folder: &Path) -> PathBuf {
    let mut name = folder.components().as_path().as_os_str().to_owned();
    name.push(".part");
    name.into()
}

/// Removes what a run that was ended has left.
fn clear(folder: &Path) -> Result<(), ExportError> {
    fs::remove_dir_all(folder).and_then(|()| fs::create_dir(folder)).map_err(ExportError::write(folder))
}

/// Puts the folder `made` in the place of `folder`.
fn replace(made: &Path, folder: &Path) -> Result<(), ExportError> {
    let failed = |error| ExportError::write(folder)(error);
    let mut before = folder.components().as_path().as_os_str().to_owned();
    before.push(".old");
    let before = PathBuf::from(before);
    let exists = folder.exists();
    if exists {
        let _ = fs::remove_dir_all(&before);
        fs::rename(folder, &before).map_err(failed)?;
    }
    if let Err(error) = fs::rename(made, folder) {
        if exists {
            let _ = fs::rename(&before, folder);
        }
        return Err(failed(error));
    }
    if exists {
        fs::remove_dir_all(&before).map_err(ExportError::write(&before))?;
    }
    Ok(())
}

fn write_pages(bank: &Steelbank, folder: &Path, control: &Control) -> Result<SiteSummary, ExportError> {
    // What nothing uses is thousands of questions, each of which would look at the date of every file.
    bank.project().watch();
    let context = bank.context();
    let model = Model::new(&context, control)?;
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
        told: BTreeMap::new(),
        subclasses: BTreeMap::new(),
        uses: Vec::new(),
        others: BTreeMap::new(),
        graph: CallerGraph::default(),
        unused: OutlineAnswer::default(),
        folder: folder.to_owned(),
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
    site.put(MARKER, MARKED)?;
    site.put("style.css", include_str!("style.css"))?;
    site.put("script.js", include_str!("script.js"))?;
    for file in 0..total {
        control.check()?;
        report(control, &site.model.files[file].shown, total + file, total * 2);
        site.write_symbols(file as u32)?;
    }
    site.write_listings()?;
    site.summary.files = total;
    site.summary.symbols = site.listed.len();
    Ok(site.summary)
}

/// What the files with these paths are called in lists: short where no other file is called so.
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
    /// Lists the symbols that are told of, and says where.
    fn list(&mut self) {
        let model = &self.model;
        self.own = model
            .definitions
            .iter()
            .filter(|definition| definition.entity.facet == Facet::Package)
            .map(|definition| model.symbols[definition.entity.symbol as usize].name.clone())
            .collect();
        // Where it is defined: by more than a method, and not in tests, if there is such a place.
        let own = |symbol: SymbolNumber| {
            let all = model.symbols[symbol as usize].definitions.iter();
            let all = all.map(|&number| &model.definitions[number as usize]);
            let all = all.filter(|definition| definition.entity.facet != Facet::Package);
            let best = all.min_by_key(|definition| {
                // What the project's own macros define may be about what stands elsewhere.
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
                    Accessory::Accessor(class, _) | Accessory::Made(class) => *class,
                })
            })?)
        };
        let mut listed: Vec<(SymbolNumber, u32)> = (0..model.symbols.len() as u32)
            .filter(|&symbol| !model.symbols[symbol as usize].package.is_empty())
            .filter_map(|symbol| Some((symbol, own(symbol).or_else(|| of_class(symbol))?)))
            .collect();
        listed.sort_by_cached_key(|(symbol, _)| {
            let symbol = &model.symbols[*symbol as usize];
            (symbol.package.clone(), symbol.name.clone())
        });
        self.homes.resize_with(model.symbols.len(), || None);
        let mut taken: HashSet<(u32, String)> = HashSet::new();
        for (number, (symbol, file)) in listed.into_iter().enumerate() {
            let known = &model.symbols[symbol as usize];
            let mut anchor = name_slug(&known.name);
            if !taken.insert((file, anchor.clone())) {
                anchor = format!("{}~{anchor}", name_slug(&known.package));
            }
            self.homes[symbol as usize] = Some(Home { file, anchor, listed: number });
            self.told.entry(file).or_default().push(symbol);
            self.listed.push(symbol);
            for above in model.class(symbol).into_iter().flat_map(|class| &class.superclasses) {
                self.subclasses.entry(above.clone()).or_default().push(symbol);
            }
        }
    }

    fn home(&self, symbol: SymbolNumber) -> Option<&Home> {
        self.homes.get(symbol as usize)?.as_ref()
    }

    /// What leads from a page to what is told of a symbol.
    fn href(&self, symbol: SymbolNumber, here: Here) -> Option<String> {
        let Home { file, anchor, .. } = self.home(symbol)?;
        Some(self.place(*file, anchor, here))
    }

    /// What leads to a slot of a class.
    fn slot_href(&self, class: SymbolNumber, slot: &(&String, &String), here: Here) -> Option<String> {
        let home = self.home(class)?;
        Some(self.place(home.file, self.slot_anchor(class, slot)?, here))
    }

    fn slot_anchor(&self, class: SymbolNumber, (package, name): &(&String, &String)) -> Option<String> {
        let anchor = &self.home(class)?.anchor;
        Some(match self.model.symbols[class as usize].package == **package {
            true => format!("{anchor}.{}", name_slug(name)),
            false => format!("{anchor}.{}.{}", name_slug(package), name_slug(name)),
        })
    }

    /// What leads to a place in a file's page.
    fn place(&self, file: u32, place: impl std::fmt::Display, here: Here) -> String {
        let slug = &self.slugs[file as usize];
        match here {
            Here::File(number) if number == file => format!("#{place}"),
            Here::File(_) => format!("{slug}.html#{place}"),
            here => format!("{}f/{slug}.html#{place}", here.root()),
        }
    }

    /// Keeps what the tokens of a file use.
    fn gather(&mut self, number: u32, read: &ReadFile) {
        for token in &read.tokens {
            let Meaning::Global(entity) = token.meaning else { continue };
            if self.home(entity.symbol).is_none() {
                let is_named = entity.facet != Facet::Package
                    && !self.model.symbols[entity.symbol as usize].package.is_empty();
                if is_named {
                    *self.others.entry(entity.symbol).or_default() += 1;
                }
            } else if let (false, Some(what)) = (token.defines, token.use_type) {
                let line = read.lines.line(token.range.start);
                self.uses.push(UseLine {
                    target: entity.symbol,
                    facet: entity.facet,
                    file: number,
                    line,
                    what,
                    by: self.model.definition_around(number, line),
                    access: token.access,
                    sure: token.exact,
                    via: None,
                    made: false,
                });
            }
        }
        for made in &read.made {
            let target = self.model.known(&(made.package.clone(), made.name.clone()));
            let Some(target) = target.filter(|target| self.home(*target).is_some()) else { continue };
            let line = read.lines.line(made.range.start);
            self.uses.push(UseLine {
                target,
                facet: principal(&self.model.symbols[target as usize].facts).unwrap_or(Facet::Other),
                file: number,
                line,
                what: made.use_type,
                by: self.model.definition_around(number, line),
                access: PlaceAccess::Read,
                sure: true,
                via: made.expander.as_ref().and_then(|expander| self.model.known(expander)),
                made: true,
            });
        }
        self.summary.source_bytes += read.text.len() as u64;
    }

    /// The uses of a symbol.
    fn uses_of(&self, symbol: SymbolNumber) -> &[UseLine] {
        let start = self.uses.partition_point(|found| found.target < symbol);
        let end = self.uses.partition_point(|found| found.target <= symbol);
        &self.uses[start..end]
    }

    /// How many of them run the symbol.
    fn live(&self, symbol: SymbolNumber) -> usize {
        self.uses_of(symbol).iter().filter(|found| found.is_live()).count()
    }

    /// Adds to a file of the site, which need not be there.
    fn put(&mut self, name: &str, text: &str) -> Result<(), ExportError> {
        let path = self.folder.join(name);
        let parent = path.parent().map(fs::create_dir_all).unwrap_or(Ok(()));
        let file = parent.and_then(|()| fs::File::options().create(true).append(true).open(&path));
        self.summary.bytes += text.len() as u64;
        file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(ExportError::write(path))
    }

    /// Writes a page that is whole.
    fn put_page(&mut self, name: &str, page: Html) -> Result<(), ExportError> {
        self.summary.pages += 1;
        self.put(name, page.text())
    }
}
