//! Renames names that forms derive from the renamed name, as DEFSTRUCT derives `make-point` from
//! `point`. Names that structures generate are always renamed. Names from other macros are renamed
//! on request, and otherwise reported.

use crate::answer::{LispKind, Location};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::cautions::generating_operators;
use super::edits::Editor;
use super::plan::{CautionKind, ConflictKind, Derived};
use super::structures::Structures;
use super::{Planner, TextTokens, TokensOfFile, name_components};
use crate::actions::symbols::find_definition::ImageDefinition;
use crate::actions::uses::code_find_references::{CodeFindReferencesRequest, code_find_references};
use crate::actions::uses::computed::all_computed_names;
use crate::actions::uses::symbol_uses::SymbolUses;
use crate::answer::designator::FunctionName;
use crate::answer::name::{of_symbol, readable};
use crate::handle::Error;
use crate::source::positions::{Prefix, StructureDefinition, SymbolToken};
use crate::source::tap::roles::SyntaxRole;
use crate::source::tap::sidecar::Name;
use crate::workspace::FileVersion;
use steelbank_xref::Symbol;

/// The file and number of a top-level form.
type FormInFile = (PathBuf, u32);

/// A derived name and its places.
struct DerivedSymbol<'a> {
    uses: SymbolUses<'a>,
    name: String,
    tapped: Vec<TokensOfFile>,
    text: TextTokens,
}

impl DerivedSymbol<'_> {
    fn places(&self) -> usize {
        self.tapped.iter().map(|file| file.tokens.len()).sum::<usize>() + self.text.certain.len()
    }

    fn is_written(&self) -> bool {
        !self.tapped.is_empty() || !self.text.certain.is_empty() || !self.text.possible.is_empty()
    }
}

impl<'a> Planner<'a> {
    /// Finds the names that forms derive from the renamed name. Renames names that structures
    /// generate, and other names if this was requested.
    pub(super) fn derived(
        &mut self,
        files: &[TokensOfFile],
        editor: &mut Editor<'a>,
    ) -> Result<Vec<Derived>, Error> {
        let mut derived = Vec::new();
        let mut explained = HashSet::new();
        let unchanged = self.of_structures(files, editor, &mut derived, &mut explained)?;
        self.of_forms(files, editor, &mut derived, &explained, &unchanged)?;
        Ok(derived)
    }

    /// Renames the accessors that change with a structure's slot.
    pub(super) fn rename_accessors(
        &mut self,
        renamed_too: &[(Symbol, String)],
        editor: &mut Editor<'a>,
    ) -> Result<Vec<Derived>, Error> {
        let mut derived = Vec::new();
        for (symbol, new) in renamed_too {
            self.generated_uses_of(*symbol)?;
            let name = self.context.index.symbol_name(*symbol).into_owned();
            let other = self.other(*symbol, &name);
            if other.is_written() {
                derived.push(self.rename_derived(&other, new.clone(), editor));
                self.check_collision(&other, new);
            }
        }
        Ok(derived)
    }

    fn other(&self, symbol: Symbol, name: &str) -> DerivedSymbol<'a> {
        let uses = SymbolUses::new(&self.context.index, symbol, FunctionName::Plain);
        let tapped = self.tapped(&uses);
        let text = self.text_tokens(&uses);
        DerivedSymbol { name: name.to_owned(), uses, tapped, text }
    }

    /// Lists the project's files that contain tokens of a symbol, except files that are not loaded
    /// or have changed since they were loaded.
    pub(super) fn tapped(&self, uses: &SymbolUses<'_>) -> Vec<TokensOfFile> {
        let project = self.context.project;
        project
            .naming(&uses.sought().name)
            .into_iter()
            .filter(|version| self.view.contains(&version.path))
            .filter_map(|FileVersion { path, write_date }| {
                let file = self.positions(&path, write_date).ok().filter(|file| file.is_fresh())?;
                let tokens = file.tokens(uses.sought(), &|package| uses.means(package));
                (!tokens.is_empty()).then_some(TokensOfFile { path, file, tokens })
            })
            .collect()
    }

    /// Renames the names that structures generate from the renamed name. Returns the generated
    /// names that do not change, by form.
    fn of_structures(
        &mut self,
        files: &[TokensOfFile],
        editor: &mut Editor<'a>,
        derived: &mut Vec<Derived>,
        explained: &mut HashSet<Symbol>,
    ) -> Result<HashSet<(FormInFile, String)>, Error> {
        let roles = [SyntaxRole::Structure, SyntaxRole::Slot, SyntaxRole::Quoted];
        let mut unchanged = HashSet::new();
        if !files.iter().flat_map(|file| &file.tokens).any(|token| roles.contains(&token.role)) {
            return Ok(unchanged);
        }
        let sought = self.uses.sought().clone();
        let structures = Structures::of(self.context.project, self.view);
        // For each old name, the forms that generate it, each with the name that it will generate.
        let mut changed: BTreeMap<String, HashMap<FormInFile, String>> = BTreeMap::new();
        for made in structures.generated_names(&sought, &self.new) {
            let form = (made.path, made.form);
            if made.old == made.new {
                unchanged.insert((form, made.old));
            } else {
                changed.entry(made.old).or_default().insert(form, made.new);
            }
        }
        let stays = |old: &String| unchanged.iter().any(|(_, name)| name == old);
        let split: Vec<String> = changed.keys().filter(|old| stays(old)).cloned().collect();
        if !split.is_empty() {
            let message = "Several structures generate these names, but not all will generate the new ones, because of their accessor prefixes.";
            self.caution(CautionKind::Maker, message.to_owned(), split);
        }
        for (old, forms) in changed {
            for symbol in self.names.named(&self.context.index, &old) {
                if symbol == self.symbol {
                    continue;
                }
                let found = self.context.index.full_name(symbol);
                let image = self.definitions(&found)?;
                // A file that was compiled but not loaded defines nothing in the image. In that
                // case, accept a symbol without definitions in the renamed symbol's package, if all
                // forms give it the same new name.
                let compiled = || {
                    let mut all = forms.values();
                    let new = all
                        .next()
                        .filter(|_| image.definitions.is_empty() && found.package == sought.package)?;
                    all.all(|other| other == new).then_some(new)
                };
                let found = sources(&image.definitions).find_map(|form| forms.get(&form));
                let Some(new) = found.or_else(compiled) else { continue };
                explained.insert(symbol);
                self.generated_uses_of(symbol)?;
                let other = self.other(symbol, &old);
                if other.is_written() {
                    derived.push(self.rename_derived(&other, new.clone(), editor));
                    self.check_collision(&other, new);
                }
            }
        }
        Ok(unchanged)
    }

    /// Warns if macros generate uses of `symbol`, which is renamed too. They may generate it from
    /// other names than the renamed name.
    fn generated_uses_of(&mut self, symbol: Symbol) -> Result<(), Error> {
        let name = of_symbol(&self.context.index, symbol);
        let makers = self.generators(symbol)?;
        if !makers.is_empty() {
            let message = format!(
                "The form that defines the symbol also generates {name}. These operators generate uses of {name}, perhaps from other names."
            );
            self.caution(CautionKind::UseMade, message, makers.into_iter().collect());
        }
        Ok(())
    }

    /// Lists the operators that generate uses of `symbol` from parts of names.
    fn generators(&self, symbol: Symbol) -> Result<BTreeSet<String>, Error> {
        let name = of_symbol(&self.context.index, symbol);
        let asked = CodeFindReferencesRequest {
            limit: usize::MAX,
            project_only: true,
            ..CodeFindReferencesRequest::new(name.as_str())
        };
        Ok(generating_operators(&code_find_references(self.context, &asked, self.control)?))
    }

    /// Adds a conflict if a derived name would collide with another symbol.
    fn check_collision(&mut self, other: &DerivedSymbol<'_>, new: &str) {
        let home = &other.uses.sought().package;
        let context = self.context.with_sidecar_symbols(new);
        let index = &context.index;
        let found = index.symbol_named(home, new).map(|(found, _)| found);
        if let Some(found) = found.filter(|&found| self.is_used(index, found)) {
            let message = format!(
                "{} becomes {}, but {} already exists.",
                other.uses.name(),
                readable(new),
                of_symbol(index, found)
            );
            self.conflict(ConflictKind::Exists, message);
        }
    }

    /// Renames a derived name.
    fn rename_derived(&mut self, other: &DerivedSymbol<'a>, new: String, editor: &mut Editor<'a>) -> Derived {
        let project = self.context.project;
        let mut along = Editor::new(project, &other.name, &new);
        for file in &other.tapped {
            along.tapped(&file.path, &file.tokens);
        }
        along.text(&other.text.certain);
        along.text(&other.text.parameters);
        self.doubts(&other.text, &mut along);
        editor.absorb(along);
        Derived { name: other.uses.name(), new_name: new, places: other.places(), renamed: true }
    }

    /// Finds the names that forms other than structures derive from the renamed name. Renames these
    /// names if this was requested; otherwise reports them.
    fn of_forms(
        &mut self,
        files: &[TokensOfFile],
        editor: &mut Editor<'a>,
        derived: &mut Vec<Derived>,
        explained: &HashSet<Symbol>,
        unchanged: &HashSet<(FormInFile, String)>,
    ) -> Result<(), Error> {
        let sought = self.uses.sought().clone();
        let forms: HashSet<FormInFile> = files
            .iter()
            .flat_map(|file| file.tokens.iter().map(|token| (file.path.clone(), token.form)))
            .collect();
        let mut unsure = Vec::new();
        // Also check symbols of the same name in other packages: a form may intern the name there.
        let (own, index, new) = (self.symbol, &self.context.index, &self.new);
        let same = self.names.named(index, &sought.name).into_iter();
        let same = same.filter(|symbol| *symbol != own).map(|symbol| (symbol, sought.name.clone()));
        let longer = self.names.containing(index, &sought.name);
        let replaced = |name: &str| name_components::replaced(name, &sought.name, new);
        let by_form = same.chain(longer).map(|(symbol, name)| (symbol, replaced(&name), name, None));
        // Also check the names that templates such as `~A-P` yield for the old name.
        let templates = all_computed_names(self.context, self.view);
        let by_template = templates.iter().filter_map(|template| {
            let name = template.filled(&sought.name)?;
            let package = template.package.as_deref().unwrap_or(&sought.package);
            let (symbol, _) = index.symbol_named(package, &name)?;
            Some((symbol, template.filled(new)?, name, Some(template.in_macro)))
        });
        for (symbol, new, name, template) in by_form.chain(by_template).collect::<Vec<_>>() {
            let uses = SymbolUses::new(index, symbol, FunctionName::Plain);
            if explained.contains(&symbol) || derived.iter().any(|known| known.name == uses.name()) {
                continue;
            }
            let tapped = self.tapped(&uses);
            match template {
                // Macros that build the name do not use it unless they generate a use.
                Some(in_macro) if in_macro && self.generators(symbol)?.is_empty() => continue,
                Some(_) => (),
                None if !self.is_made_in(&forms, &uses, &tapped, unchanged)? => continue,
                None => (),
            }
            let other = DerivedSymbol { text: self.text_tokens(&uses), uses, name: name.clone(), tapped };
            if !other.is_written() {
                continue;
            }
            derived.push(if self.request.derived {
                self.check_collision(&other, &new);
                self.rename_derived(&other, new, editor)
            } else {
                unsure.push(if name == sought.name {
                    other.uses.name().to_string()
                } else {
                    readable(&name)
                });
                Derived { name: other.uses.name(), new_name: new, places: other.places(), renamed: false }
            });
        }
        let message = "Code generates these names from the symbol's name, or may do so: rename them too, with `derived`.";
        self.warn(CautionKind::Maker, message, unsure);
        Ok(())
    }

    /// Returns whether one of `forms` generates the symbol of `uses` without containing it, and is
    /// not known to leave it unchanged.
    fn is_made_in(
        &self,
        forms: &HashSet<FormInFile>,
        uses: &SymbolUses<'_>,
        tapped: &[TokensOfFile],
        unchanged: &HashSet<(FormInFile, String)>,
    ) -> Result<bool, Error> {
        // A name that has a definition in the text is not derived.
        let defined =
            |token: &SymbolToken| matches!(token.role, SyntaxRole::Definition | SyntaxRole::Structure);
        if tapped.iter().flat_map(|file| &file.tokens).any(defined) {
            return Ok(false);
        }
        let image = self.definitions(uses.sought())?;
        let Some(form) = sources(&image.definitions).find(|form| forms.contains(form)) else {
            return Ok(false);
        };
        let stands = tapped.iter().filter(|file| file.path == form.0).any(|file| {
            file.tokens.iter().any(|token| token.form == form.1 && self.may_define(&file.path, token))
        });
        Ok(!stands && !unchanged.contains(&(form, uses.sought().name.clone())))
    }

    /// Describes the form that generates the symbol, the names from which it is probably generated,
    /// and how to rename these names.
    pub(super) fn generator_message(&self, path: &Path, form: Option<u32>) -> String {
        let project = self.context.project;
        let (name, symbol) = (&self.uses.sought().name, &self.plan.symbol);
        let date = project.loaded_date(path);
        let file = date.and_then(|date| self.positions(path, date).ok());
        let (mut place, mut parts) = (Location::new(project.shown(path)), Vec::new());
        if let (Some(form), Some(file)) = (form, file) {
            if let Some(range) = file.form_range(form, 0) {
                place = Location::placed(place.file, &file, range).whole_line();
            }
            parts = file.name_parts_in(form, 0, name);
        }
        let makes = format!("{symbol} is generated by a form in {place} that does not contain it");
        let fitting = parts
            .iter()
            .find_map(|part| Some((part, name_components::component_of_new(name, part, &self.new)?)));
        match fitting {
            Some((part, new)) => {
                format!("{makes}, probably from {}: rename this name to {}.", readable(part), readable(new))
            }
            None if parts.is_empty() => format!("{makes}: rename the names that it is generated from."),
            None => format!(
                "{makes}, probably from {}, which must be renamed instead: the form cannot generate {}.",
                parts.iter().map(|part| readable(part)).collect::<Vec<_>>().join(" and "),
                readable(&self.new)
            ),
        }
    }

    /// Returns whether the form around a token may define the symbol. A form does not if it only
    /// calls the symbol and contains other definitions.
    pub(super) fn may_define(&self, path: &Path, token: &SymbolToken) -> bool {
        let project = self.context.project;
        if matches!(
            token.role,
            SyntaxRole::Definition | SyntaxRole::Structure | SyntaxRole::Named | SyntaxRole::Template
        ) {
            return true;
        }
        let file = project.loaded_date(path).and_then(|date| self.positions(path, date).ok());
        // Without a prefix, an accessor has the name of its slot.
        let is_accessor = |structure: &StructureDefinition| {
            structure.prefix == Prefix::Text(String::new())
                && structure.slot_places.iter().any(|(_, place)| *place == token.range)
        };
        if token.role == SyntaxRole::Slot
            && file.as_ref().is_some_and(|file| file.structures().iter().any(is_accessor))
        {
            return true;
        }
        let operator = file.as_ref().and_then(|file| file.form_operator(token.form)).map(Name::name);
        match operator {
            Some("DEFSTRUCT") => false,
            Some("PROGN" | "EVAL-WHEN" | "LOCALLY" | "MACROLET" | "LET" | "FLET" | "LABELS") => {
                token.definable
                    && !matches!(token.role, SyntaxRole::Operator | SyntaxRole::Function | SyntaxRole::Block)
            }
            _ => token.definable,
        }
    }
}

/// Lists the top-level forms of `definitions`, except declarations.
pub(super) fn sources(definitions: &[ImageDefinition]) -> impl Iterator<Item = FormInFile> {
    let definitions = definitions.iter().filter(|found| found.kind != LispKind::Declaration);
    definitions
        .flat_map(|definition| &definition.sources)
        .filter_map(|source| Some((PathBuf::from(&source.file), *source.form_path.first()?)))
}
