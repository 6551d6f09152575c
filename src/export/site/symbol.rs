//! The description of a symbol: its kinds, its definitions, its uses, and the symbols that it uses.

use std::collections::{BTreeMap, BTreeSet};

use super::Site;
use super::file::class_of;
use super::html::{Here, Html, Text, several};
use super::uses::SiteUse;
use crate::actions::uses::code_find_references::UseType;
use crate::answer::name::readable;
use crate::export::model::{Accessory, Facet, Model, SymbolNumber, principal};
use crate::source::positions::PlaceAccess;
use steelbank_xref::SymbolName;

/// The title of the group of uses that only name the symbol. The group is folded.
const NAMED: &str = "Named";

/// The groups of uses: a title and the kinds in it.
const GROUPS: [(&str, &[UseType]); 8] = [
    ("Called", &[UseType::Call, UseType::Function]),
    ("Expanded", &[UseType::Macro]),
    ("Read", &[UseType::Reference]),
    ("Written or bound", &[UseType::Set, UseType::Bind]),
    (
        "As a class or type",
        &[UseType::Class, UseType::Subclass, UseType::Handler, UseType::Type, UseType::Specialize],
    ),
    ("As a slot", &[UseType::Slot]),
    ("In macros' templates", &[UseType::Template]),
    (
        NAMED,
        &[
            UseType::Mention,
            UseType::Quoted,
            UseType::Declaration,
            UseType::Export,
            UseType::Import,
            UseType::Block,
            UseType::ReadTime,
        ],
    ),
];

/// Returns words for the kinds of things that a symbol names.
pub(super) fn words(model: &Model<'_>, symbol: SymbolNumber) -> Vec<&'static str> {
    let facts = &model.symbols[symbol as usize].facts;
    let mut words = Vec::new();
    if let Some(function) = &facts.function {
        words.push(match (&*function.kind, model.accessories.get(&symbol)) {
            ("macro", _) => "macro",
            (_, Some(Accessory::Accessor(..))) => "accessor",
            ("generic-function", _) => "generic function",
            _ => "function",
        });
    }
    if facts.setf.is_some() {
        words.push("setf function");
    }
    if let Some(variable) = &facts.variable {
        words.push(if variable.kind == "constant" { "constant" } else { "variable" });
    }
    if let Some(class) = &facts.class {
        words.push(match &*class.kind {
            "structure" => "structure",
            "condition" => "condition",
            _ => "class",
        });
    }
    if facts.deftype.is_some() {
        words.push("type");
    }
    if model.slots.contains_key(&symbol) {
        words.push("slot");
    }
    if words.is_empty() {
        words.push("definition");
    }
    words
}

impl Site<'_> {
    /// Returns a link to the description of a symbol, or only the symbol's name if it has no
    /// description. Omits the package prefix if `package` is the symbol's home package.
    pub(super) fn link(&self, symbol: SymbolNumber, here: Here, package: Option<&str>) -> String {
        let name = self.name_in(symbol, package);
        let facts = &self.model.symbols[symbol as usize].facts;
        let class = class_of(principal(facts).unwrap_or(Facet::Other));
        match self.href(symbol, here) {
            Some(href) => format!("<a{class} href={href}>{}</a>", Text(&name)),
            None => Text(&name).to_string(),
        }
    }

    /// Returns a symbol's name, with its home package as a prefix unless that is `package`.
    fn name_in(&self, symbol: SymbolNumber, package: Option<&str>) -> String {
        let known = &self.model.symbols[symbol as usize];
        match package {
            Some(package) if package == known.name.package => readable(&known.name.name),
            _ => format!("{}:{}", readable(&known.name.package), readable(&known.name.name)),
        }
    }

    fn links(&self, symbols: impl IntoIterator<Item = SymbolNumber>, here: Here, package: &str) -> String {
        let links: Vec<String> =
            symbols.into_iter().map(|symbol| self.link(symbol, here, Some(package))).collect();
        links.join(", ")
    }

    pub(super) fn write_symbol(&self, page: &mut Html, symbol: SymbolNumber, here: Here) {
        let Some(home) = self.home(symbol) else { return };
        let known = &self.model.symbols[symbol as usize];
        let live = self.live(symbol);
        let tests = self.tests_of(symbol);
        page.add(format_args!(
            "<article id={} data-n={}><h2>{}</h2><p>",
            home.anchor,
            home.listed,
            Text(&readable(&known.name.name))
        ));
        for word in words(&self.model, symbol) {
            page.add(format_args!("<mark>{word}</mark> "));
        }
        page.add(if known.facts.exported { "<mark class=e>exported</mark> " } else { "" });
        page.add(if tests.as_ref().is_some_and(Vec::is_empty) {
            "<mark class=w>untested</mark> "
        } else {
            ""
        });
        page.add(format_args!(
            "in <a href={}>{}</a> · {}",
            self.package_page(&known.name.package, "../"),
            Text(&readable(&known.name.package)),
            several(live, "use")
        ));
        self.write_facts(page, symbol, here);
        self.write_definitions(page, symbol, here);
        let callees = self.graph.callees(symbol).filter(|callee| self.home(*callee).is_some());
        self.write_list(page, "Calls", callees, here, &known.name.package);
        self.write_class(page, symbol, here);
        if known.facts.function.as_ref().is_some_and(|function| function.kind == "macro") {
            let made = self.graph.used_by_expansions(symbol);
            self.write_list(page, "Its expansions use", made, here, &known.name.package);
        }
        if let Some(tests) = tests.filter(|tests| !tests.is_empty()) {
            page.add("<h3>Tested by</h3><ul>");
            for (test, through) in tests {
                page.add("<li>").add(self.link(test, here, Some(&known.name.package)));
                if through != symbol {
                    let through = self.link(through, here, Some(&known.name.package));
                    page.add(format_args!(" <small>through {through}</small>"));
                }
            }
            page.add("</ul>");
        }
        self.write_uses(page, self.uses_of(symbol), &known.name.package, here);
        page.add("</article>\n");
    }

    fn write_list(
        &self,
        page: &mut Html,
        title: &str,
        symbols: impl Iterator<Item = SymbolNumber>,
        here: Here,
        package: &str,
    ) {
        let links = self.links(symbols, here, package);
        if !links.is_empty() {
            page.add(format_args!("<h3>{title}</h3><p>{links}"));
        }
    }

    /// Writes lambda lists and documentation, the slot that the symbol names or accesses, and the
    /// structure with a definition that generates the symbol's function.
    fn write_facts(&self, page: &mut Html, symbol: SymbolNumber, here: Here) {
        let known = &self.model.symbols[symbol as usize];
        let name = readable(&known.name.name);
        let facts = &known.facts;
        let operators = [(&facts.function, name.clone()), (&facts.setf, format!("(setf {name})"))];
        for (operator, name) in operators {
            let Some(operator) = operator else { continue };
            let list = operator.arglist.as_deref().unwrap_or("()").to_lowercase();
            let rest = list.strip_prefix('(').and_then(|list| list.strip_suffix(')')).unwrap_or(&list);
            let space = if rest.is_empty() { "" } else { " " };
            page.add(format_args!("<pre>({}{space}{})</pre>", Text(&name), Text(rest)));
            documentation(page, operator.documentation.as_deref());
        }
        let others = [&facts.variable, &facts.deftype];
        others.into_iter().flatten().for_each(|facts| documentation(page, facts.documentation.as_deref()));
        documentation(page, facts.class.as_ref().and_then(|class| class.documentation.as_deref()));
        let slot_of = |page: &mut Html, before, class, slot: &SymbolName| {
            if let Some(href) = self.slot_href(class, slot, here) {
                page.add(format_args!(
                    "<p>{before} slot <a class=o href={href}>{}</a> of {}.",
                    Text(&readable(&slot.name)),
                    self.link(class, here, Some(&known.name.package))
                ));
            }
        };
        match self.model.accessories.get(&symbol).copied() {
            Some(Accessory::Accessor(class, slot)) => {
                if let Some(slot) = self.model.class(class).and_then(|facts| facts.slots.get(slot)) {
                    slot_of(page, "Reads or writes the", class, &slot.name);
                }
            }
            Some(Accessory::Generated(class)) => {
                let class = self.link(class, here, Some(&known.name.package));
                page.add(format_args!("<p>Generated by the structure {class}."));
            }
            None => (),
        }
        for &class in self.model.slots.get(&symbol).into_iter().flatten() {
            slot_of(page, "A", class, &known.name);
        }
    }

    /// Writes a link to each definition of the symbol, with its first line unless it defines a
    /// function or macro. For definitions in this file, the script shows the complete forms.
    fn write_definitions(&self, page: &mut Html, symbol: SymbolNumber, here: Here) {
        let definitions = &self.model.symbols[symbol as usize].definitions;
        if !definitions.is_empty() {
            page.add("<h3>Defined</h3><div class=defined>");
        }
        for &number in definitions {
            let definition = &self.model.definitions[number as usize];
            let (file, line) = (definition.file, definition.lines.0);
            let (place, title) = (self.place(file, line, here), Text(&self.titles[file as usize]));
            page.add(format_args!("<p><a href={place}>{title}:{line}</a>"));
            // The lambda lists of functions and macros are already shown.
            if !matches!(definition.entity.facet, Facet::Function | Facet::Macro) {
                let text = self.files[file as usize].line(line);
                page.add(format_args!("<i>{}</i>", Text(text)));
            }
        }
        page.add(if definitions.is_empty() { "" } else { "</div>" });
    }

    /// Writes superclasses, subclasses, and slots with their accessors and uses.
    fn write_class(&self, page: &mut Html, symbol: SymbolNumber, here: Here) {
        let Some(class) = self.model.class(symbol) else { return };
        let name = &self.model.symbols[symbol as usize].name;
        let package = name.package.as_str();
        let known = |name: &SymbolName| self.model.find_symbol(name);
        let above = class.superclasses.iter().filter_map(known);
        let above = above.filter(|above| self.home(*above).is_some());
        self.write_list(page, "Superclasses", above, here, package);
        let below = self.subclasses.get(name).into_iter().flatten().copied();
        self.write_list(page, "Subclasses", below, here, package);
        if class.slots.is_empty() {
            return;
        }
        page.add("<h3>Slots</h3>");
        for slot in &class.slots {
            let accessors: BTreeSet<SymbolNumber> =
                slot.readers.iter().chain(&slot.writers).filter_map(known).collect();
            let slot_symbol = known(&slot.name);
            let uses = self.slot_uses(symbol, slot_symbol, &accessors);
            let writes = uses.iter().filter(|found| found.access != PlaceAccess::Read).count();
            page.add(format_args!(
                "<details id={}><summary><b class=o>{}</b>",
                self.slot_anchor(symbol, &slot.name).unwrap_or_default(),
                Text(&readable(&slot.name.name))
            ));
            if let Some(of_type) = &slot.slot_type {
                page.add(format_args!(" <code>{}</code>", Text(&of_type.to_lowercase())));
            }
            page.add(format_args!(
                " <small>read or named on {}, written on {}</small></summary>",
                several(uses.len() - writes, "line"),
                several(writes, "line")
            ));
            documentation(page, slot.documentation.as_deref());
            // The descriptions of the accessors list their uses; the script copies them to the
            // slot.
            if !accessors.is_empty() {
                page.add(format_args!("<p class=by>By {}", self.links(accessors, here, package)));
            }
            let by_name: Vec<&SiteUse> =
                uses.into_iter().filter(|found| Some(found.target) == slot_symbol).collect();
            self.write_lines(page, &by_name, package, here);
            page.add("</details>");
        }
    }

    /// Returns the tests that reach a symbol, each with the symbol that it uses on the way. Returns
    /// `None` if the symbol itself counts as a test, or if there are no tests.
    fn tests_of(&self, symbol: SymbolNumber) -> Option<Vec<(SymbolNumber, SymbolNumber)>> {
        if self.graph.tests.is_empty() || self.graph.tests.contains(&symbol) {
            return None;
        }
        let live = self.uses_of(symbol).iter().filter(|found| found.is_live());
        let users = live.filter_map(|found| Some(self.model.definitions[found.by? as usize].entity.symbol));
        Some(self.graph.tests_of(symbol, users))
    }

    fn write_uses(&self, page: &mut Html, uses: &[SiteUse], package: &str, here: Here) {
        if uses.is_empty() {
            page.add("<p>Nothing in the project's files uses it.");
            return;
        }
        let mut write = |title: &str, group: &[&SiteUse]| {
            let count = group.len();
            if title == NAMED && count > 0 {
                page.add(format_args!("<details><summary>{title} <small>{count}</small></summary>"));
                self.write_lines(page, group, package, here);
                page.add("</details>");
            } else if count > 0 {
                page.add(format_args!("<h3>{title} <small>{count}</small></h3>"));
                self.write_lines(page, group, package, here);
            }
        };
        for (title, kinds) in GROUPS {
            let group = uses.iter().filter(|found| !found.generated && kinds.contains(&found.what));
            write(title, &group.collect::<Vec<_>>());
        }
        let mut by_macro: BTreeMap<Option<SymbolNumber>, Vec<&SiteUse>> = BTreeMap::new();
        uses.iter()
            .filter(|found| found.generated)
            .for_each(|found| by_macro.entry(found.via).or_default().push(found));
        for (via, group) in by_macro {
            let by = via.map(|via| self.link(via, here, Some(package)));
            write(
                &format!("Generated by expansions of {}", by.as_deref().unwrap_or("external macros")),
                &group,
            );
        }
    }

    /// Writes the lines of uses grouped by file, starting with this file. Adds the name of the
    /// definition that contains a line, unless the previous line is in the same definition. The
    /// script turns these names into links.
    fn write_lines(&self, page: &mut Html, uses: &[&SiteUse], package: &str, here: Here) {
        if uses.is_empty() {
            return;
        }
        page.add("<div class=lines>");
        let (mut before, mut caller) = (None, None);
        let (own, others): (Vec<&SiteUse>, Vec<&SiteUse>) =
            uses.iter().partition(|found| here == Here::File(found.file));
        for found in own.into_iter().chain(others) {
            if before == Some((found.file, found.line)) {
                continue;
            }
            if before.is_none_or(|(file, _)| file != found.file) {
                caller = None;
                if here != Here::File(found.file) {
                    page.add(format_args!("<h4>{}</h4>", Text(&self.titles[found.file as usize])));
                }
            }
            before = Some((found.file, found.line));
            page.add(format_args!(
                "<p{}><a href={}>{}</a>{}<i>{}</i>",
                if found.sure { "" } else { " class=maybe" },
                self.place(found.file, found.line, here),
                found.line,
                if found.access == PlaceAccess::Read { "" } else { "<mark>writes</mark>" },
                Text(self.files[found.file as usize].line(found.line))
            ));
            let by = found.by.map(|by| self.model.definitions[by as usize].entity);
            if let Some(by) = by.filter(|by| by.facet != Facet::Package && caller != Some(by.symbol)) {
                caller = Some(by.symbol);
                page.add(Text(&self.name_in(by.symbol, Some(package))));
            }
        }
        page.add("</div>");
    }
}

pub(super) fn documentation(page: &mut Html, text: Option<&str>) {
    if let Some(text) = text.filter(|text| !text.trim().is_empty()) {
        page.add(format_args!("<div class=doc>{}</div>", Text(text.trim())));
    }
}
