//! Edits a form that defines a name without containing it, so that the form defines the new name.
//! The edit adds a structure's option such as `(:copier new)`, renames a slot, or adds a symbol
//! next to the foreign name in DEFCFUN. The entry point is [`Planner::defining_form_edits`]; the
//! result is a [`DefiningFormEdits`].

use std::path::{Path, PathBuf};

use super::edits::Editor;
use super::plan::{CautionKind, ConflictKind, Doubt};
use super::structures::{AccessorOrigin, Structures, prefix};
use super::{Planner, TokensOfFile};
use crate::actions::uses::symbol_uses::SymbolUses;
use crate::answer::Location;
use crate::answer::designator::FunctionName;
use crate::answer::name::readable;
use crate::handle::Error;
use crate::source::positions::{StructureDefinition, SymbolToken};
use crate::source::tap::roles::SyntaxRole;
use crate::source::tap::sidecar::Name;
use crate::workspace::{FileVersion, TextFilter};
use steelbank_reader::Range;
use steelbank_xref::{Symbol, SymbolName};

/// Edits of a defining form, in addition to the edits of the name's tokens.
#[derive(Default)]
pub(super) struct DefiningFormEdits {
    /// The file, the range in its text, and the text to write.
    pub(super) edits: Vec<(PathBuf, Range, FormEdit)>,
    /// The slot's old and new name. Both are empty if no slot is renamed.
    slot: (String, String),
    /// The slot's tokens in the structures that have it.
    tokens: Vec<TokensOfFile>,
    /// The accessors that are renamed with the slot, and their new names.
    renamed_too: Vec<(Symbol, String)>,
}

/// The text that an edit of a defining form writes.
pub(super) enum FormEdit {
    /// A keyword.
    Keyword(String),
    /// An option with this keyword and the symbol, inserted after the structure's name. `bare`: the
    /// structure's name is not in a list, so the edit also adds the list's parentheses.
    Option { keyword: &'static str, name: String, bare: bool },
    /// A list of the existing string and the symbol.
    Pair(String),
}

const OPTIONS: [&str; 3] = [":constructor", ":copier", ":predicate"];

impl<'a> Planner<'a> {
    /// Finds the edits after which the top-level form `form` of the file at `path` defines the new
    /// name. Returns `None` if no edit achieves this, or if the form is not a structure, a foreign
    /// definition, or a form of a macro with the same syntax as DEFSTRUCT. May add a conflict with
    /// the reason.
    pub(super) fn defining_form_edits(
        &mut self,
        path: &Path,
        form: u32,
    ) -> Result<Option<DefiningFormEdits>, Error> {
        let project = self.context.project;
        let structures = Structures::of(project, self.view);
        let made = self.uses.sought().name.clone();
        if let Some(origin) = structures.origin(path, form, &made) {
            return self.of_origin(path, &structures, origin);
        }
        let file = project.loaded_date(path).and_then(|date| self.positions(path, date).ok());
        let Some(file) = file else { return Ok(None) };
        if let Some((operator, string)) = file.foreign_name(form, &made) {
            return Ok(self.foreign(path, &operator, string));
        }
        let Some(operator) = file.user_macro_operator(form) else { return Ok(None) };
        let structures = structures.and_like(project, self.view, &operator);
        let Some(origin) = structures.origin(path, form, &made) else { return Ok(None) };
        let operator = operator.name.to_lowercase();
        let message = match &origin {
            AccessorOrigin::Slot { slot, prefix, .. } => format!(
                "{operator} generates the name from {} and {}, as DEFSTRUCT does, but may also use the slot's name in other ways.",
                prefix.to_lowercase(),
                slot.name.to_lowercase()
            ),
            AccessorOrigin::Standard { which, .. } => {
                let option = OPTIONS[*which];
                // Accept only an option that other forms of the macro use.
                if !structures.have_option(&option[1..].to_uppercase()) {
                    return Ok(None);
                }
                format!("{operator} generates the name. Its other forms have DEFSTRUCT's option {option}.")
            }
        };
        let parts = self.of_origin(path, &structures, origin)?;
        if let Some(parts) = &parts {
            let names = self.generated_from_slot(parts)?;
            self.caution(CautionKind::Maker, message, names);
        }
        Ok(parts)
    }

    /// Finds the edit of `(defcfun "get_it" …)` to `(defcfun ("get_it" new-name) …)`. For macros
    /// other than CFFI's own, adds a caution. Returns `None` if no form of the macro has such a
    /// list.
    fn foreign(&mut self, path: &Path, operator: &SymbolName, string: Range) -> Option<DefiningFormEdits> {
        let project = self.context.project;
        let SymbolName { package, name } = operator;
        if package != "CFFI" || !matches!(name.as_str(), "DEFCFUN" | "DEFCVAR") {
            let known = project.naming(name).into_iter().any(|FileVersion { path, write_date }| {
                self.positions(&path, write_date).is_ok_and(|file| file.has_foreign_pair(operator))
            });
            if !known {
                return None;
            }
            let message = format!(
                "{} generates the name from a string. The rename replaces the string in this form with a list of the string and the new name, as in other forms of this macro.",
                name.to_lowercase()
            );
            self.caution(CautionKind::Maker, message, Vec::new());
        }
        let edit = (path.to_path_buf(), string, FormEdit::Pair(self.new.clone()));
        Some(DefiningFormEdits { edits: vec![edit], ..DefiningFormEdits::default() })
    }

    fn of_origin(
        &mut self,
        path: &Path,
        structures: &Structures,
        origin: AccessorOrigin<'_>,
    ) -> Result<Option<DefiningFormEdits>, Error> {
        Ok(match origin {
            AccessorOrigin::Standard { structure, which } if !structure.has_option[which] => {
                let (keyword, name, bare) = (OPTIONS[which], self.new.clone(), structure.is_bare);
                let option = FormEdit::Option { keyword, name, bare };
                let edit = (path.to_path_buf(), structure.name_range, option);
                Some(DefiningFormEdits { edits: vec![edit], ..DefiningFormEdits::default() })
            }
            AccessorOrigin::Slot { structure, slot, prefix } => {
                let new = self.new.strip_prefix(&prefix).filter(|new| !new.is_empty()).map(str::to_owned);
                match new {
                    Some(new) => self.slot(structures, structure, slot, &new)?,
                    None => {
                        let (prefix, slot) = (readable(&prefix), readable(&slot.name));
                        let message = format!(
                            "{} is generated from {prefix} and the slot {slot}, so its new name must begin with {prefix}.",
                            self.plan.symbol
                        );
                        self.conflict(ConflictKind::Made, message);
                        None
                    }
                }
            }
            AccessorOrigin::Standard { .. } => None,
        })
    }

    /// Finds the edits that rename a slot of `structure`. Returns `None` if the slot's symbol does
    /// not exist or is the renamed symbol, or if the places that mean the slot cannot be
    /// determined.
    fn slot(
        &mut self,
        structures: &Structures,
        structure: &StructureDefinition,
        slot: &SymbolName,
        new: &str,
    ) -> Result<Option<DefiningFormEdits>, Error> {
        let (index, project) = (&self.context.index, self.context.project);
        let family = structures.family(structure, slot);
        // All structures with a slot of this name share the slot's symbol.
        let Some(symbol) = index.named(slot).filter(|symbol| *symbol != self.symbol) else { return Ok(None) };
        let uses = SymbolUses::new(index, symbol, FunctionName::Plain);
        let mut parts =
            DefiningFormEdits { slot: (slot.name.clone(), new.to_owned()), ..DefiningFormEdits::default() };
        // Places that access a slot by name, as SLOT-VALUE does, and whether other classes have a
        // slot of this name.
        let (mut asked, mut others) = (Vec::new(), false);
        for TokensOfFile { path, file, tokens } in self.tapped(&uses) {
            let own: Vec<&StructureDefinition> =
                family.iter().filter(|(other, _)| *other == path).map(|(_, structure)| structure).collect();
            let is_named = |token: &SymbolToken| {
                let mut places = own.iter().flat_map(|structure| &structure.slot_places);
                places.any(|(_, place)| *place == token.range)
            };
            let is_parameter = |token: &SymbolToken| {
                let called = matches!(
                    token.role,
                    SyntaxRole::Operator | SyntaxRole::Function | SyntaxRole::Type | SyntaxRole::Quoted
                );
                let mut lists = own.iter().flat_map(|structure| &structure.lambda_lists);
                !called && lists.any(|list| list.encloses(token.range))
            };
            let mut kept = Vec::new();
            for token in tokens {
                if is_named(&token) || is_parameter(&token) {
                    kept.push(token);
                } else if structures.have_slot_at(&path, token.range)
                    || (token.role == SyntaxRole::Slot
                        && matches!(
                            file.form_operator(token.form).map(Name::name),
                            Some("DEFCLASS" | "DEFINE-CONDITION")
                        ))
                {
                    others = true;
                } else if token.role == SyntaxRole::Slot {
                    asked.push(Doubt {
                        place: Location::placed(project.shown(&path), &file, token.range),
                        context: file.line_at(token.range),
                        reason: "a slot of this name, of an unknown object".to_owned(),
                    });
                }
            }
            if !kept.is_empty() {
                parts.tokens.push(TokensOfFile { path, file, tokens: kept });
            }
        }
        if parts.tokens.is_empty() {
            return Ok(None);
        }
        if !asked.is_empty() {
            let places = crate::actions::change::rename::place_names(&asked);
            if !others {
                let message = format!(
                    "{} is generated from the slot {}, which code accesses by name at {}. Rename the slot there too.",
                    self.plan.symbol,
                    readable(&slot.name),
                    places.join(", ")
                );
                self.conflict(ConflictKind::Made, message);
                return Ok(None);
            }
            let message = format!(
                "The slot {} is renamed too. Other objects have a slot of the same name; these places may mean either slot.",
                readable(&slot.name)
            );
            self.caution(CautionKind::Slot, message, places);
            self.plan.doubtful.extend(asked);
        }
        for (path, structure) in &family {
            let Some(prefix) = prefix(structure) else { return Ok(None) };
            let (old, new) = (format!("{prefix}{}", slot.name), format!("{prefix}{new}"));
            for symbol in self.names.named(index, &old) {
                let image = self.definitions(&index.full_name(symbol))?;
                let here = |(file, form): (PathBuf, u32)| file == *path && form == structure.form;
                let known = parts.renamed_too.iter().any(|(known, _)| *known == symbol);
                if symbol != self.symbol
                    && !known
                    && crate::actions::change::rename::derived::sources(&image.definitions).any(here)
                {
                    parts.renamed_too.push((symbol, new.clone()));
                }
            }
            self.keywords(structure, slot, new_slot(&new, &prefix), &mut parts);
        }
        Ok(Some(parts))
    }

    /// Adds the edits in `parts`, and the edits of the accessors that are renamed with the slot.
    pub(super) fn apply_defining_form(
        &mut self,
        parts: &DefiningFormEdits,
        editor: &mut Editor<'a>,
    ) -> Result<(), Error> {
        editor.forms(&parts.edits);
        let (old, new) = &parts.slot;
        let mut slot = Editor::new(self.context.project, old, new);
        for file in &parts.tokens {
            slot.tapped(&file.path, &file.tokens);
        }
        editor.absorb(slot);
        self.plan.derived = self.rename_accessors(&parts.renamed_too, editor)?;
        Ok(())
    }

    /// Lists the symbols that contain the slot's name, are defined by the forms with the slot, and
    /// are not renamed.
    fn generated_from_slot(&self, parts: &DefiningFormEdits) -> Result<Vec<String>, Error> {
        let index = &self.context.index;
        let forms: Vec<(&Path, u32)> = parts
            .tokens
            .iter()
            .flat_map(|file| file.tokens.iter().map(|token| (file.path.as_path(), token.form)))
            .collect();
        let mut found = Vec::new();
        for (symbol, name) in self.names.containing(index, &parts.slot.0) {
            if symbol == self.symbol
                || parts.renamed_too.iter().any(|(renamed_too, _)| *renamed_too == symbol)
            {
                continue;
            }
            let image = self.definitions(&index.full_name(symbol))?;
            let made = crate::actions::change::rename::derived::sources(&image.definitions)
                .any(|(path, form)| forms.contains(&(path.as_path(), form)));
            if made {
                found.push(name);
            }
        }
        Ok(found)
    }

    /// Adds edits of the keywords in calls of a structure's constructors. Adds a caution if code
    /// contains the keyword and not every call can be found.
    fn keywords(
        &mut self,
        structure: &StructureDefinition,
        slot: &SymbolName,
        new: &str,
        parts: &mut DefiningFormEdits,
    ) {
        let (index, project) = (&self.context.index, self.context.project);
        let mut constructors: Vec<Symbol> = Vec::new();
        if structure.derives_name[0] {
            constructors.extend(self.names.named(index, &format!("MAKE-{}", structure.name.name)));
        }
        constructors.extend(structure.constructors.iter().filter_map(|name| index.named(name)));
        let mut unclear = false;
        for symbol in constructors {
            let uses = SymbolUses::new(index, symbol, FunctionName::Plain);
            let text = self.text_tokens(&uses);
            unclear |= !text.certain.is_empty() || !text.possible.is_empty();
            for TokensOfFile { path, tokens, .. } in self.tapped(&uses) {
                // The keywords of these calls are unknown, as in `(apply #'make-x …)`, macro
                // arguments and templates.
                let passed =
                    [SyntaxRole::Function, SyntaxRole::Quoted, SyntaxRole::Argument, SyntaxRole::Template];
                unclear |= tokens.iter().any(|token| passed.contains(&token.role));
                let Some(date) = project.loaded_date(&path) else { continue };
                let Ok(file) = self.positions(&path, date) else { continue };
                let means = |package: &str| uses.means(package);
                for range in file.keyword_arguments(uses.sought(), &means, &slot.name) {
                    parts.edits.push((path.clone(), range, FormEdit::Keyword(new.to_owned())));
                }
            }
        }
        // Whether code contains the keyword at all, in a call or after `#S`.
        let written = || !self.keyword_in(&slot.name, |_| true).is_empty();
        let literal = || {
            project
                .texts_naming_at(self.view, &structure.name.name, TextFilter::All, true)
                .files
                .iter()
                .any(|file| file.text.contains("#S(") || file.text.contains("#s("))
        };
        if (unclear || literal()) && written() {
            let message = format!(
                "Code contains the constructor's keyword :{}, and not every call of the constructor can be found.",
                slot.name.to_lowercase()
            );
            self.caution(CautionKind::Initarg, message, Vec::new());
        }
    }
}

fn new_slot<'a>(made: &'a str, prefix: &str) -> &'a str {
    made.strip_prefix(prefix).unwrap_or(made)
}
