//! The pages that list the project's systems, packages, files, tests and unused definitions, the
//! overview, and the data for the script.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::json;

use super::Site;
use super::html::{Here, Html, Text, name_slug, path_slug, several};
use super::symbol::{documentation, words};
use crate::actions::symbols::facts::OwnedPackage;
use crate::actions::uses::outline::Outlined;
use crate::answer::escape::escaped;
use crate::answer::name::readable;
use crate::export::ExportError;
use crate::export::model::{Facet, SymbolNumber, principal};

/// The number of symbols in each data file. A data file holds the callers and callees that the
/// script draws; `CHUNK` in script.js must be equal.
const CHUNK: usize = 512;

impl Site<'_> {
    pub(super) fn package_page(&self, package: &str, root: &str) -> String {
        format!("{root}p/{}.html", path_slug(&package.to_lowercase()))
    }

    pub(super) fn write_listings(&mut self) -> Result<(), ExportError> {
        let mut of_package: BTreeMap<String, Vec<SymbolNumber>> = BTreeMap::new();
        for &symbol in &self.listed {
            let package = self.model.symbols[symbol as usize].name.package.clone();
            of_package.entry(package).or_default().push(symbol);
        }
        // The external symbols that the project uses, with the number of uses.
        let mut others: BTreeMap<String, BTreeMap<SymbolNumber, usize>> = BTreeMap::new();
        for (&symbol, &count) in &self.others {
            let package = self.model.symbols[symbol as usize].name.package.clone();
            others.entry(package).or_default().insert(symbol, count);
        }
        let all: BTreeSet<String> =
            self.own.iter().chain(of_package.keys()).chain(others.keys()).cloned().collect();
        let none = (Vec::new(), BTreeMap::new());
        for package in &all {
            let symbols = of_package.get(package).unwrap_or(&none.0);
            self.write_package(package, symbols, others.get(package).unwrap_or(&none.1))?;
        }
        self.write_packages(&all, &of_package)?;
        self.write_index()?;
        self.write_systems()?;
        self.write_files()?;
        self.write_unused()?;
        self.write_test_list()?;
        self.write_script_data()
    }

    fn write_package(
        &mut self,
        package: &str,
        symbols: &[SymbolNumber],
        others: &BTreeMap<SymbolNumber, usize>,
    ) -> Result<(), ExportError> {
        let name = readable(package);
        let mut page = Html::page(&self.name, &name, Here::Folder);
        page.add(format_args!("<main><h1>{}</h1><p class=about><mark>package</mark> ", Text(&name)));
        if let Some(known) = self.model.packages.get(package) {
            if let Some(system) = &known.system {
                let known = self.model.systems.iter().position(|known| known.name == *system);
                let system = known.map_or_else(
                    || Text(system).to_string(),
                    |number| self.system_link(number as u32, "../"),
                );
                page.add(format_args!("of system {system} "));
            }
            let nicknames: Vec<String> = known.nicknames.iter().map(|name| readable(name)).collect();
            if !nicknames.is_empty() {
                page.add(format_args!("· also {} ", Text(&nicknames.join(", "))));
            }
            let uses: Vec<String> = known.uses.iter().map(|name| readable(name)).collect();
            if !uses.is_empty() && !symbols.is_empty() {
                page.add(format_args!("· uses {} ", Text(&uses.join(", "))));
            }
            documentation(&mut page, known.documentation.as_deref());
        }
        let is_exported = |symbol: &SymbolNumber| self.model.symbols[*symbol as usize].facts.exported;
        let (exported, internal): (Vec<SymbolNumber>, Vec<SymbolNumber>) =
            symbols.iter().partition(|symbol| is_exported(symbol));
        let mut other: Vec<SymbolNumber> = others.keys().copied().collect();
        other.sort_by_cached_key(|symbol| self.model.symbols[*symbol as usize].name.clone());
        for (title, all) in [("Exported", exported), ("Internal", internal), ("Used in this project", other)]
        {
            if all.is_empty() {
                continue;
            }
            page.add(format_args!("<section><h2>{title} <small>{}</small></h2><table>", all.len()));
            for symbol in all {
                self.write_row(&mut page, symbol, others.get(&symbol).copied());
            }
            page.add("</table></section>");
        }
        page.add("</main>\n");
        let file = self.package_page(package, "");
        self.put_page(&file, page)
    }

    /// Writes a symbol in the list of its package: name, kinds, first line of documentation, and
    /// number of uses.
    fn write_row(&self, page: &mut Html, symbol: SymbolNumber, others: Option<usize>) {
        let known = &self.model.symbols[symbol as usize];
        let facts = &known.facts;
        let texts = [
            facts.function.as_ref().and_then(|facts| facts.documentation.as_deref()),
            facts.variable.as_ref().and_then(|facts| facts.documentation.as_deref()),
            facts.class.as_ref().and_then(|facts| facts.documentation.as_deref()),
            facts.deftype.as_ref().and_then(|facts| facts.documentation.as_deref()),
        ];
        let first = texts.into_iter().flatten().next().and_then(|text| text.trim().lines().next());
        let name = match self.home(symbol) {
            Some(_) => self.link(symbol, Here::Folder, Some(&known.name.package)),
            None => Text(&readable(&known.name.name)).to_string(),
        };
        let count = match others.unwrap_or_else(|| self.live(symbol)) {
            0 => "<i>unused</i>".to_owned(),
            count => count.to_string(),
        };
        // An external symbol has no description, so links lead to this row.
        match others {
            Some(_) => page.add(format_args!("<tr id={}>", name_slug(&known.name.name))),
            None => page.add("<tr>"),
        };
        page.add(format_args!(
            "<td>{name}<td><small>{}</small><td>{}<td>{count}",
            words(&self.model, symbol).join(", "),
            match first {
                Some(text) => Text(text).to_string(),
                None if others.is_some() => String::new(),
                None => "<i>undocumented</i>".to_owned(),
            }
        ));
    }

    fn write_packages(
        &mut self,
        all: &BTreeSet<String>,
        of_package: &BTreeMap<String, Vec<SymbolNumber>>,
    ) -> Result<(), ExportError> {
        let mut page = Html::page(&self.name, "Packages", Here::Root);
        page.add("<main><h1>Packages</h1>");
        let is_own = |name: &String| self.own.contains(name) || of_package.contains_key(name);
        let (own, others): (Vec<&String>, Vec<&String>) = all.iter().partition(|name| is_own(name));
        for (title, names) in [("In the project", own), ("External, used here", others)] {
            if names.is_empty() {
                continue;
            }
            page.add(format_args!("<section><h2>{title}</h2><table>"));
            for name in names {
                let symbols = of_package.get(name).map(Vec::as_slice).unwrap_or_default();
                let exported = symbols
                    .iter()
                    .filter(|symbol| self.model.symbols[**symbol as usize].facts.exported)
                    .count();
                let known = self.model.packages.get(name);
                let text = known.and_then(|known| known.documentation.as_deref()).unwrap_or_default();
                page.add(format_args!(
                    "<tr><td>{}<td>{}<td>{}",
                    self.package_link(name, ""),
                    Text(text.lines().next().unwrap_or_default()),
                    if symbols.is_empty() {
                        String::new()
                    } else {
                        format!("{exported} of {} exported", symbols.len())
                    }
                ));
            }
            page.add("</table></section>");
        }
        page.add("</main>\n");
        self.put_page("packages.html", page)
    }

    fn write_index(&mut self) -> Result<(), ExportError> {
        let mut page = Html::page(&self.name, "Overview", Here::Root);
        let lines: usize = self.files.iter().map(|file| file.count()).sum();
        page.add(format_args!("<main class=home><h1>{}</h1><ul class=numbers>", Text(&self.name)));
        let numbers = [
            ("files.html", self.files.len(), "files"),
            ("files.html", lines, "lines"),
            ("systems.html", self.model.systems.len(), "systems"),
            ("packages.html", self.own.len(), "packages"),
            ("packages.html", self.listed.len(), "symbols"),
            ("tests.html", self.graph.tests.len(), "tests"),
            ("unused.html", self.unused.definitions.len(), "unused"),
        ];
        for (href, number, word) in numbers {
            page.add(format_args!("<li><a href={href}><b>{number}</b>{word}</a>"));
        }
        page.add("</ul>");
        for (number, system) in (0..).zip(&self.model.systems) {
            page.add(format_args!("<section><h2>{}", self.system_link(number, "")));
            if let Some(version) = &system.version {
                page.add(format_args!(" <small>{}</small>", Text(version)));
            }
            page.add("</h2>");
            documentation(&mut page, system.description.as_deref());
            self.write_map(&mut page, &system.files, Here::Root);
            page.add("</section>");
        }
        page.add("<section><h2>Most used</h2><table>");
        let mut most: Vec<(usize, SymbolNumber)> =
            self.listed.iter().map(|&symbol| (self.live(symbol), symbol)).collect();
        most.sort_by_key(|(count, symbol)| (usize::MAX - count, *symbol));
        for (count, symbol) in most.into_iter().take(15).filter(|(count, _)| *count > 0) {
            page.add(format_args!(
                "<tr><td>{}<td><small>{}</small><td>{}",
                self.link(symbol, Here::Root, None),
                words(&self.model, symbol).join(", "),
                several(count, "use")
            ));
        }
        page.add("</table></section></main>\n");
        self.put_page("index.html", page)
    }

    /// Writes the files as boxes, with widths proportional to their lines.
    fn write_map(&self, page: &mut Html, files: &[u32], here: Here) {
        page.add("<div class=map>");
        for &file in files {
            let known = &self.model.files[file as usize];
            let lines = self.files[file as usize].count();
            let name = known.shown.rsplit('/').next().unwrap_or(&known.shown);
            page.add(format_args!(
                "<a{} style=\"flex-grow:{lines}\" href={}{} title=\"{}: {}\">{}</a>",
                if known.is_test { " class=test" } else { "" },
                here.root(),
                self.file_page(file),
                Text(&known.shown).to_string().replace('"', "&quot;"),
                several(lines, "line"),
                Text(name.strip_suffix(".lisp").unwrap_or(name))
            ));
        }
        page.add("</div>");
    }

    pub(super) fn system_link(&self, system: u32, root: &str) -> String {
        let name = &self.model.systems[system as usize].name;
        format!("<a class=p href={root}s/{}.html>{}</a>", path_slug(name), Text(name))
    }

    /// Writes the list of systems, and a page for each system.
    fn write_systems(&mut self) -> Result<(), ExportError> {
        let mut all = Html::page(&self.name, "Systems", Here::Root);
        all.add("<main><h1>Systems</h1><table>");
        for number in 0..self.model.systems.len() {
            let system = &self.model.systems[number];
            let lines: usize = system.files.iter().map(|&file| self.files[file as usize].count()).sum();
            let about = format!("{} in {}", several(lines, "line"), several(system.files.len(), "file"));
            all.add(format_args!(
                "<tr><td>{}<td>{}<td>{}<td>{about}",
                self.system_link(number as u32, ""),
                Text(system.version.as_deref().unwrap_or_default()),
                Text(system.description.as_deref().unwrap_or_default()),
            ));
            let mut page = Html::page(&self.name, &system.name, Here::Folder);
            let version = system.version.as_deref().unwrap_or("no version");
            page.add(format_args!(
                "<main><h1>{}</h1><p class=about><mark>system</mark> ",
                Text(&system.name)
            ));
            page.add(format_args!("{} · {about}", Text(version)));
            documentation(&mut page, system.description.as_deref());
            self.write_map(&mut page, &system.files, Here::Folder);
            let own = |found: &&OwnedPackage| found.system.as_ref() == Some(&system.name);
            let packages: Vec<String> = self
                .model
                .packages
                .values()
                .filter(own)
                .filter(|package| self.own.contains(&package.name))
                .map(|package| self.package_link(&package.name, "../"))
                .collect();
            let unused: Vec<String> = self
                .unused
                .definitions
                .iter()
                .filter(|found| found.reached_by.is_empty())
                .filter_map(|found| Some((found, *self.numbers.get(&found.place.file)?)))
                .filter(|(_, file)| system.files.contains(file))
                .map(|(found, file)| self.unused_link(found, file, Here::Folder))
                .collect();
            let tests = self
                .graph
                .tests
                .iter()
                .filter(|test| self.home(**test).is_some_and(|home| system.files.contains(&home.file)));
            let tests: Vec<String> = tests.map(|test| self.link(*test, Here::Folder, None)).collect();
            for (title, links) in [("Packages", packages), ("Tests", tests), ("Nothing uses these", unused)] {
                if !links.is_empty() {
                    let count = links.len();
                    page.add(format_args!("<h2>{title} <small>{count}</small></h2><p>{}", links.join(", ")));
                }
            }
            page.add("</main>\n");
            let file = format!("s/{}.html", path_slug(&system.name));
            self.put_page(&file, page)?;
        }
        all.add("</table></main>\n");
        self.put_page("systems.html", all)
    }

    fn package_link(&self, package: &str, root: &str) -> String {
        format!("<a class=p href={}>{}</a>", self.package_page(package, root), Text(&readable(package)))
    }

    /// Returns a link to the line of an unused definition.
    fn unused_link(&self, found: &Outlined, file: u32, here: Here) -> String {
        let name = match &found.text {
            Some(text) => text.clone(),
            None => found.name.to_string(),
        };
        format!("<a href={}>{}</a>", self.place(file, found.place.line.unwrap_or(1), here), Text(&name))
    }

    fn write_files(&mut self) -> Result<(), ExportError> {
        let mut page = Html::page(&self.name, "Files", Here::Root);
        page.add("<main><h1>Files</h1><table>");
        for (number, (shown, known)) in (0..).zip(self.files.iter().zip(&self.model.files)) {
            page.add(format_args!(
                "<tr><td><a href={}>{}</a><td>{}<td>{}<td>{}",
                self.file_page(number),
                Text(&known.shown),
                known.system.map(|system| self.system_link(system, "")).unwrap_or_default(),
                several(shown.count(), "line"),
                several(known.definitions.len(), "definition")
            ));
        }
        page.add("</table></main>\n");
        self.put_page("files.html", page)
    }

    fn write_unused(&mut self) -> Result<(), ExportError> {
        let mut page = Html::page(&self.name, "Unused", Here::Root);
        page.add(
            "<main><h1>Unused definitions</h1><p class=about>Definitions that no other definition of the project uses; uses in \
             tests do not count. Nothing is known to reach those in the first list. The second list shows how the others may be reached.",
        );
        let (sure, perhaps): (Vec<_>, Vec<_>) =
            self.unused.definitions.iter().partition(|found| found.reached_by.is_empty());
        for (title, all) in [("Nothing uses these", sure), ("Not used, but may be reached", perhaps)] {
            page.add(format_args!("<section><h2>{title} <small>{}</small></h2><table>", all.len()));
            for found in all {
                let Some(&file) = self.numbers.get(&found.place.file) else { continue };
                page.add(format_args!(
                    "<tr><td>{}<td><small>{}</small><td>{}:{}<td>{}",
                    self.unused_link(found, file, Here::Root),
                    found.kind.name(),
                    Text(&found.place.file),
                    found.place.line.unwrap_or(1),
                    Text(
                        &found
                            .reached_by
                            .iter()
                            .chain(&found.also_in)
                            .cloned()
                            .collect::<Vec<_>>()
                            .join("; ")
                    )
                ));
            }
            page.add("</table></section>");
        }
        page.add("</main>\n");
        self.put_page("unused.html", page)
    }

    fn write_test_list(&mut self) -> Result<(), ExportError> {
        let mut page = Html::page(&self.name, "Tests", Here::Root);
        page.add("<main><h1>Tests</h1><p class=about>The definitions in test files and other tests, each with the project's functions and macros that it calls.<table>");
        for &test in &self.graph.tests {
            if self.home(test).is_none() {
                continue;
            }
            let package = &self.model.symbols[test as usize].name.package;
            let calls: Vec<String> = self
                .graph
                .callees(test)
                .filter(|callee| !self.graph.tests.contains(callee) && self.home(*callee).is_some())
                .map(|callee| self.link(callee, Here::Root, Some(package)))
                .collect();
            page.add(format_args!("<tr><td>{}<td>{}", self.link(test, Here::Root, None), calls.join(", ")));
        }
        page.add("</table></main>\n");
        self.put_page("tests.html", page)
    }

    /// Writes the names for the search, and callers and callees for the drawing.
    fn write_script_data(&mut self) -> Result<(), ExportError> {
        let data = |value: serde_json::Value| value.to_string().replace('<', "\\u003c");
        let mut packages: Vec<String> = Vec::new();
        let mut names = String::new();
        for &symbol in &self.listed {
            let (known, Some(home)) = (&self.model.symbols[symbol as usize], self.home(symbol)) else {
                continue;
            };
            let kind = super::file::class_of(principal(&known.facts).unwrap_or(Facet::Other));
            let shown = |name: &str| escaped(&readable(name)).into_owned();
            let (package, name) = (shown(&known.name.package), shown(&known.name.name));
            if packages.last() != Some(&package) {
                packages.push(package);
            }
            let mut row = vec![
                json!(packages.len() - 1),
                json!(name),
                json!(kind.trim_start_matches(" class=")),
                json!(home.file),
            ];
            // The script computes the anchor from the name unless the row contains one.
            if home.anchor != name_slug(&name.to_uppercase()) {
                row.push(json!(home.anchor));
            }
            let _ = write!(names, "\n{},", data(row.into()));
        }
        let (packages, files) = (data(json!(packages)), data(json!(self.slugs)));
        self.put("names.js", &format!("N({packages},{files},[{names}\n])\n"))?;
        for chunk in 0..self.listed.len().div_ceil(CHUNK) {
            let mut text = format!("G({chunk},[");
            for &symbol in self.listed.iter().skip(chunk * CHUNK).take(CHUNK) {
                let known = |all: &mut dyn Iterator<Item = SymbolNumber>| -> Vec<usize> {
                    all.filter_map(|other| Some(self.home(other)?.listed)).collect()
                };
                let callers = known(&mut self.graph.callers(symbol));
                let callees = known(&mut self.graph.callees(symbol));
                let _ = write!(text, "{},", json!([callers, callees]));
            }
            text.push_str("])\n");
            self.put(&format!("g/{chunk}.js"), &text)?;
        }
        Ok(())
    }
}
