//! Collects a variable's default, readers, bindings and assignments, and other text with its name,
//! in one answer.

use schemars::JsonSchema;
use serde::Serialize;
use steelbank_text::DefinitionKind;
use steelbank_xref::{Symbol, SymbolName};

use crate::actions::uses::code_find_references::UseType;
use crate::actions::uses::graph::{Target, UserFinder};
use crate::actions::uses::symbol_uses::SymbolUses;
use crate::answer::designator::FunctionName;
use crate::answer::location::as_text;
use crate::answer::{Location, OtherText};
use crate::engine::control::Control;
use crate::handle::context::QueryContext;

/// A variable's default and uses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct VariableUses {
    /// Its definitions in loaded files, each with its first line.
    pub defined: Vec<VariableUse>,
    /// The places that read it.
    pub read: Vec<VariableUse>,
    /// The places that bind it.
    pub bound: Vec<VariableUse>,
    /// The places that set it.
    pub set: Vec<VariableUse>,
    /// Places in non-Lisp files that mention its name.
    #[serde(skip_serializing_if = "OtherText::is_empty")]
    pub other_text: OtherText,
    /// Whether other pages have entries of the first four lists.
    #[serde(skip)]
    pub(super) is_part: bool,
}

/// A definition or use of a variable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct VariableUse {
    /// Its position: `file:line:column`.
    #[serde(rename = "at", serialize_with = "as_text")]
    #[schemars(with = "String")]
    pub place: Location,
    /// The definition that contains the use; for a definition, its first line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl VariableUses {
    pub(super) fn of(context: &QueryContext<'_>, symbol: Symbol, control: &Control) -> Self {
        let (index, project) = (&context.index, context.project);
        let uses = SymbolUses::new(index, symbol, FunctionName::Plain);
        let SymbolName { package, name } = uses.sought();
        let users = UserFinder::new(context, control);
        let mut found = Self::default();
        for path in project.naming(name).into_iter().map(|version| project.shown(&version.path)) {
            let definitions = users.enclosing.definitions(&path);
            let its = definitions.iter().filter(|known| {
                let definition = &known.definition;
                definition.name == *name
                    && known.home.as_deref() == Some(package)
                    && matches!(definition.kind, DefinitionKind::Variable | DefinitionKind::Constant)
            });
            found.defined.extend(
                its.map(|known| VariableUse {
                    place: known.place(),
                    by: Some(known.definition.line.clone()),
                }),
            );
        }
        for used in users.of(&Target::any(uses.sought().clone())) {
            let list = match used.line.use_type {
                UseType::Reference => &mut found.read,
                UseType::Bind => &mut found.bound,
                UseType::Set => &mut found.set,
                _ => continue,
            };
            list.push(VariableUse { place: used.line.place, by: Some(used.user.name(index).to_string()) });
        }
        found.other_text = OtherText::new(&uses.distinct_words(project, &project.tree_view()));
        found
    }
}
