//! Adds cautions about code that may break although every edit is right: code that generates names
//! from parts, looks names up, or compares them.

use crate::answer::location::{Range, columns};
use crate::answer::{LispKind, Location};
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use steelbank_reader::operators::look_ups;
use steelbank_reader::{Dialect, Features, LispText, Marker};
use steelbank_tree::defines_systems;

use super::name_components::NameAsDatum;
use super::plan::CautionKind;
use super::{Planner, TextTokens, TokensOfFile, edits, name_components};
use crate::actions::symbols::find_definition::ImageDefinitions;
use crate::actions::uses::code_find_references;
use crate::source::positions::{Clauses, Evidence};
use crate::source::tap::operators::ClauseWords;
use crate::source::tap::roles::SyntaxRole;
use crate::source::tap::sidecar::Name;
use crate::workspace::{FileVersion, Project, TextContext, TextFilter, TokenClass, TreeView};
use steelbank_xref::SymbolName;

impl Planner<'_> {
    pub(super) fn symbol_cautions(&mut self, files: &[TokensOfFile], text: &TextTokens) {
        let keys: usize =
            files.iter().flat_map(|file| &file.tokens).filter(|token| token.key_parameter).count();
        self.plan.key_parameters = keys;
        self.designators(text);
        let iterate_word = ClauseWords::Iterate.contains(&self.uses.sought().name);
        let words =
            files.iter().flat_map(|file| &file.tokens).filter(|token| token.role == SyntaxRole::LoopKeyword);
        if words.count() > 0 && iterate_word {
            let message = "The name is a keyword of LOOP or ITERATE, which compare names.".to_owned();
            self.caution(CautionKind::LoopWord, message, Vec::new());
        }
        let project = self.context.project;
        let names = text.unreadable.iter().map(|path| project.shown(path));
        self.warn(CautionKind::Unread, "Some files could not be searched.", names);
    }

    /// Adds a caution about `names`, unless there are none.
    pub(super) fn warn(&mut self, kind: CautionKind, message: &str, names: impl IntoIterator<Item = String>) {
        let names: Vec<String> = names.into_iter().collect();
        if !names.is_empty() {
            self.caution(kind, message.to_owned(), names);
        }
    }

    /// Warns if the symbol has no definition and occurs as data, as in `(defsystem demo …)`. Such
    /// code may depend only on the symbol's name.
    pub(super) fn defines_nothing(
        &mut self,
        image: &ImageDefinitions,
        files: &[TokensOfFile],
        text: &TextTokens,
    ) {
        if !image.definitions.is_empty() || text.certain.iter().any(|place| place.token.defines) {
            return;
        }
        let shown = |path: &Path| self.context.project.shown(path);
        let quoted = files.iter().flat_map(|TokensOfFile { path, file, tokens }| {
            let quoted = tokens.iter().filter(|token| token.role == SyntaxRole::Quoted);
            quoted.map(|token| Location::placed(shown(path), file, token.range))
        });
        let of_systems = text.certain.iter().filter(|place| defines_systems(&place.file.path)).map(|place| {
            let bytes = place.file.text.as_bytes();
            Location::in_text(shown(&place.file.path), &place.file.lines, bytes, place.token.span)
        });
        let places: Vec<Location> = quoted.chain(of_systems).collect();
        let message = "The symbol has no definition, and code may use its name here: as a system's or file's name, or in a comparison.";
        self.warn(
            CautionKind::UseMade,
            message,
            places.into_iter().map(|place| place.whole_line().to_string()),
        );
    }

    /// Warns if the name is also a keyword in clauses of a macro.
    pub(super) fn clause_words(&mut self, files: &[TokensOfFile]) {
        let project = self.context.project;
        let name = &self.uses.sought().name;
        let mut clauses = Clauses::default();
        for FileVersion { path, write_date } in project.naming(name) {
            let Ok(file) = self.positions(&path, write_date) else { continue };
            let here = files.iter().filter(|file| file.path == path).flat_map(|file| &file.tokens);
            let starts = here.map(|token| token.range.start).collect();
            file.add_clauses(name, &starts, &mut clauses);
        }
        let both = clauses.of_symbol.intersection(&clauses.of_keyword);
        let names = both.map(|operator| operator.name.to_lowercase());
        let message = "Clauses that begin with these words contain the name both as a symbol and as a keyword: they may compare names.";
        self.warn(CautionKind::LoopWord, message, names);
    }

    /// Warns of macros that generate uses of the symbol although their definitions do not contain
    /// its name: they may generate the name from parts.
    pub(super) fn generated_uses(&mut self, found: &code_find_references::CodeFindReferencesAnswer) {
        let message = "These operators generate uses of the symbol, and their definitions do not contain its name: they may generate the name from parts.";
        self.warn(CautionKind::UseMade, message, generating_operators(found));
    }

    /// Warns of uses in code that is generated at read time and does not contain the name.
    pub(super) fn uses_without_name(
        &mut self,
        found: &code_find_references::CodeFindReferencesAnswer,
        files: &[TokensOfFile],
    ) {
        let project = self.context.project;
        let places: BTreeSet<String> = found
            .refs
            .iter()
            .filter(|found| found.evidence == Evidence::Approximate && found.via.is_none() && !found.stale)
            .filter_map(|found| {
                let place = &found.place;
                let (line, columns) = (place.line?, columns(&found.approximate));
                let mut here = files.iter().filter(|file| project.shown(&file.path) == place.file);
                let stands = here.any(|TokensOfFile { file, tokens, .. }| {
                    let mut places = tokens.iter().filter_map(|token| file.position(token.range.start));
                    places.any(|at| at.line == line && columns.contains(&at.column))
                });
                (!stands).then(|| place.clone().whole_line().to_string())
            })
            .collect();
        let message = "Code that is generated at read time uses the symbol and does not contain its name: the name may be generated from parts.";
        self.warn(CautionKind::UseMade, message, places);
    }

    /// Warns of files that contain uninterned symbols of this name, or keywords of this name in
    /// symbol lookups. Ignores those that a package definition explains, and those that the rename
    /// edits.
    fn designators(&mut self, text: &TextTokens) {
        let project = self.context.project;
        let sought = self.uses.sought().clone();
        let exists = |package: &str| self.uses.exists(package);
        let mut places = Vec::new();
        for FileVersion { path, write_date } in project.naming(&sought.name) {
            let Ok(file) = self.positions(&path, write_date) else { continue };
            let here = file.unexplained_designators(&sought, &exists);
            let is_lookup = |place: &&edits::TextPlace| {
                place.file.path == path && matches!(place.token.context, TextContext::Lookup(_))
            };
            let taken = text.certain.iter().filter(is_lookup).count();
            if here > taken && self.view.contains(&path) {
                places.push(project.shown(&path));
            }
        }
        let message = "These files contain an uninterned symbol or keyword of this name where names are generated or looked up: it may refer to the symbol.";
        self.warn(CautionKind::UseMade, message, places);
    }

    /// Warns of forms that define the symbol although the name does not occur in them, or has
    /// another meaning there. Such a form generates the name from parts, and will generate the old
    /// name after the rename. Forms are skipped if the definition of their macro contains the name.
    pub(super) fn generated_definitions(&mut self, image: &ImageDefinitions, files: &[TokensOfFile]) {
        let project = self.context.project;
        let mut places = BTreeSet::new();
        for source in image
            .definitions
            .iter()
            .filter(|found| found.kind != LispKind::Declaration)
            .flat_map(|found| &found.sources)
        {
            let path = Path::new(&source.file);
            let Some(&form) = source.form_path.first() else { continue };
            let stands = files.iter().filter(|file| file.path == path).any(|file| {
                file.tokens.iter().any(|token| token.form == form && self.may_define(path, token))
            });
            if self.view.contains(path) && !stands && !self.in_macro_template(source, form) {
                let file = project.loaded_date(path).and_then(|date| self.positions(path, date).ok());
                let Some(file) = file.filter(|file| file.has_sidecar() && file.is_fresh()) else { continue };
                let form = file.form_range(form, 0).unwrap_or(Range::new(0, 0));
                places.insert(Location::placed(project.shown(path), &file, form).whole_line().to_string());
            }
        }
        let message = "These forms also define the symbol and generate its name from parts: they will still generate the old name.";
        self.warn(CautionKind::UseMade, message, places);
    }

    /// Warns if code contains the symbol's keyword, and the symbol is a slot, a component class, or
    /// an argument of a macro that interns keywords.
    pub(super) fn initargs(&mut self, files: &[TokensOfFile]) {
        let project = self.context.project;
        let name = self.uses.sought().name.clone();
        // For each operator that was checked: whether it defines classes or interns keywords.
        let mut classes: HashMap<&Name, bool> = HashMap::new();
        let slots = files.iter().any(|TokensOfFile { file, tokens, .. }| {
            tokens.iter().any(|token| {
                let Some(operator) = file.form_operator(token.form) else { return false };
                let makes = || {
                    name_components::defines_class(project, self.view, operator)
                        || self.interns_keyword(operator)
                };
                match token.role {
                    SyntaxRole::Binding => false,
                    // A structure's constructor takes each slot as a keyword.
                    SyntaxRole::Slot if matches!(operator.name(), "DEFSTRUCT" | "PROGN" | "EVAL-WHEN") => {
                        true
                    }
                    _ => *classes.entry(operator).or_insert_with(makes),
                }
            })
        });
        // ASDF finds the classes of components by keywords.
        let of_system = files.iter().any(|file| defines_systems(&file.path));
        if !slots && !of_system {
            return;
        }
        let message = format!(
            "Code contains the keyword :{}, which may depend on the symbol: as an initarg, as a keyword that a macro generates, or as a component's class in a system definition.",
            name.to_lowercase()
        );
        self.warn(
            CautionKind::Initarg,
            &message,
            self.keyword_in(&name, |path| slots || defines_systems(path)),
        );
    }

    /// Lists the lines where code contains the keyword `name`, in files that `files` accepts.
    pub(super) fn keyword_in(&self, name: &str, files: impl Fn(&Path) -> bool) -> Vec<String> {
        let project = self.context.project;
        let found = project.named_at(self.view, name, TextFilter::All, true);
        let mut places: BTreeSet<Location> = BTreeSet::new();
        for file in found.files.iter().filter(|file| files(&file.path)) {
            let is_code =
                |class: &TokenClass| class.marker == Marker::Keyword && class.context == TextContext::Code;
            for (_, _, lines) in file.runs().filter(|(_, class, _)| is_code(class)) {
                let place = |line| Location { line: Some(line), ..Location::new(project.shown(&file.path)) };
                places.extend(lines.map(place));
            }
        }
        places.iter().map(Location::to_string).collect()
    }

    /// Warns of functions that take the symbol as an argument, and look up or intern another symbol
    /// by its name.
    fn given_by_name(&mut self, files: &[TokensOfFile]) {
        let project = self.context.project;
        let sought = self.uses.sought();
        let means = |package: &str| self.uses.means(package);
        let mut given = BTreeSet::new();
        for file in
            files.iter().filter(|file| file.tokens.iter().any(|token| token.role == SyntaxRole::Quoted))
        {
            given.extend(file.file.operators_of_quoted(sought, &means));
        }
        given.retain(|function| looks_up_by_name(project, self.view, function));
        let message = "These functions take the symbol as an argument, and look up or intern another symbol by its name.";
        self.warn(CautionKind::UseMade, message, given.into_iter().map(|given| given.name.to_lowercase()));
    }

    /// Warns of code that converts the quoted name to a string, and of code at read time that takes
    /// the symbol as data.
    pub(super) fn symbol_names(&mut self, files: &[TokensOfFile]) {
        self.given_by_name(files);
        let project = self.context.project;
        for file in files {
            let quoted = || {
                file.tokens
                    .iter()
                    .filter(|token| matches!(token.role, SyntaxRole::Quoted | SyntaxRole::ReadTime))
            };
            if quoted().next().is_none() {
                continue;
            }
            let bytes = file.file.text().as_bytes();
            let read = LispText::read(bytes, Dialect::CommonLisp, &Features::sbcl());
            for token in quoted() {
                let how = NameAsDatum::read(&read, bytes, token.range.start);
                let at = || Location::placed(project.shown(&file.path), &file.file, token.range).whole_line();
                if token.role == SyntaxRole::ReadTime && how != NameAsDatum::Other {
                    let message =
                        "Code that runs at read time takes the symbol as an argument, and may look up another symbol by its name.".to_owned();
                    self.caution(CautionKind::UseMade, message, vec![at().to_string()]);
                } else if how == NameAsDatum::String {
                    let message = "Code converts the name to a string: other names may be generated from it."
                        .to_owned();
                    self.caution(CautionKind::UseMade, message, vec![at().to_string()]);
                }
            }
        }
    }
}

/// Returns whether a function's definition contains an operator that turns a name into a string,
/// and an operator that finds or creates a symbol by name.
fn looks_up_by_name(project: &Project, view: &TreeView, function: &SymbolName) -> bool {
    project.naming(&function.name).into_iter().any(|FileVersion { path, write_date }| {
        let Ok(file) = project.positions_at(view, &path, write_date) else { return false };
        let definitions = file.occurrences(function, &|_| false);
        definitions.iter().filter(|found| found.role == SyntaxRole::Definition).any(|found| {
            let symbols = file.symbols_in(found.form);
            let has = |name: &str| symbols.contains(&&SymbolName::new("COMMON-LISP", name));
            look_ups().chain(["MAKE-SYMBOL"]).any(has)
                && ["STRING", "SYMBOL-NAME", "FORMAT"].into_iter().any(has)
        })
    })
}

/// Lists the operators that generate uses of the name from parts.
pub(super) fn generating_operators(
    found: &code_find_references::CodeFindReferencesAnswer,
) -> BTreeSet<String> {
    let made = found.refs.iter().filter(|found| found.via_name_parts.is_some());
    made.filter_map(|found| found.via.clone()).collect()
}
