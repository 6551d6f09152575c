//! Plans a rename: all edits that give a symbol another name, with conflicts and cautions. Planning
//! writes nothing; [`RenameApplyRequest`] writes the edits of a [`RenamePlan`], and
//! [`RenameVerifyRequest`] checks them in scratch images.
//!
//! A plan uses one of two sets of places. The *narrow* set has the places where the symbol means
//! the renamed definition. It is used if each of these places is exact, unless the request has the
//! scope [`Scope::Symbol`]. The *symbol's* set has every token that reads as the symbol, including
//! local variables, blocks, slots and quoted data. SBCL's reader has reported which symbol a token
//! is. So this set is complete even if the roles of tokens are uncertain, and replacing all of it
//! preserves the program's meaning.

mod run;

pub use run::{RecoverEditsRequest, RenameApplyRequest, RenameDiffRequest, UndoRequest};
pub(crate) mod tool;

mod cautions;
mod computed;
mod conflicts;
mod defining_form;
mod derived;
pub(crate) mod diff;
mod edits;
mod name_components;
mod plan;
mod replaced;
mod structures;
mod verify;

pub use crate::workspace::edits::{UndoError, UnfinishedEdit};
pub use diff::{Hunk, RenameDiff};
pub use plan::{
    Applied, CautionKind, Conflict, ConflictKind, Derived, Doubt, EditPlan, FileEdits, RenameCaution,
    RenameEdit, RenameError, RenamePlan, RenamePolicy, Scope, Undone,
};

pub(crate) use verify::run::LOAD_REPORT;
pub use verify::run::RenameVerifyRequest;
pub(crate) use verify::{
    AppliedEdit, ComparedDiagnostic, ComparedXref, FailedLoad, LoadReport, LoadReportRequest, NamePlaces,
    PlacesRequest, RemovedSymbol, Tested, compare, compare_loads,
};
pub use verify::{Difference, DifferenceKind, Verified};

use crate::answer::Caution;
use crate::answer::LispKind;
use crate::answer::OtherText;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use edits::Editor;
pub use name_components::ProjectSymbols;

use crate::actions::symbols::find_definition::{
    ImageDefinition, ImageDefinitions, ImageSource, Resolved, find_definition,
};
use crate::actions::uses::code_find_references;
use crate::actions::uses::code_find_references::{code_find_references, found};
use crate::actions::uses::strings::{NameInString, StringKind, strings_naming};
use crate::actions::uses::symbol_uses::SymbolUses;
use crate::actions::uses::unloaded::{Likelihood, TokenResolver};
use crate::actions::uses::via::{ExpansionOrigin, Origins};
use crate::answer::Location;
use crate::answer::counted;
use crate::answer::designator::{Designator, DesignatorError, FunctionName};
use crate::engine::control::Control;
use crate::handle::Error;
use crate::handle::context::QueryContext;
use crate::handle::question::Question;
use crate::source::positions::Evidence;
use crate::source::positions::{PositionedFile, SymbolToken};
use crate::source::tap::roles::SyntaxRole;
use crate::workspace::{
    FileVersion, Project, TextContext, TextFilter, TextState, TreeView, state_in_loaded_file,
};
use steelbank_tree::defines_systems;
use steelbank_xref::{Index, Package, Symbol, SymbolName};

/// A request to rename a symbol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenameRequest {
    /// The name, in the syntax of [`crate::answer::designator`].
    pub name: String,
    /// The package to look the name up in. Default: CL-USER, or else the only user package that has
    /// the name.
    pub package: Option<String>,
    /// The new name, without a package. It is upcased unless it is written between bars.
    pub new_name: String,
    /// Which places to edit.
    pub scope: Scope,
    /// Whether to edit words in comments that spell the name.
    pub comments: bool,
    /// Whether to edit strings that name the symbol: words with its package, words that code reads,
    /// and strings equal to the name.
    pub strings: bool,
    /// Whether to edit words in manuals, scripts, configuration and other text that is not Lisp.
    pub text: bool,
    /// Whether to edit names that macros generate from the name. Names that structures generate are
    /// always renamed.
    pub derived: bool,
}

impl RenameRequest {
    /// Creates a request to rename `name` to `new_name`.
    pub fn new(name: impl Into<String>, new_name: impl Into<String>) -> RenameRequest {
        RenameRequest {
            name: name.into(),
            package: None,
            new_name: new_name.into(),
            scope: Scope::Auto,
            comments: false,
            strings: false,
            text: false,
            derived: false,
        }
    }
}

impl Question for RenameRequest {
    type Answer = RenamePlan;

    /// Plans the rename, and writes nothing.
    fn answer(&self, context: &QueryContext<'_>, control: &Control) -> Result<RenamePlan, Error> {
        let (context, lookup) = context.resolve(&self.name, self.package.as_deref())?;
        let project = context.project;
        project.project_root()?;
        let symbol = found(&context.index, project, &lookup)?;
        let new = new_name(&context.index, symbol, &self.new_name)?;
        let context = &*with_new_symbols(&context, symbol, &new);
        let uses = SymbolUses::new(&context.index, symbol, FunctionName::Plain);
        let plan = RenamePlan {
            looked_up_in: lookup.looked_up_in,
            symbol: uses.name(),
            new_name: new.clone(),
            ..RenamePlan::default()
        };
        let names = project_symbols(context);
        let view = project.tree_view();
        let mut planner =
            Planner { context, view: &view, control, names: &names, request: self, symbol, uses, new, plan };
        planner.conflicts();
        planner.plan()?;
        Ok(planner.plan)
    }
}

/// Returns the names of the project's symbols, cached until the index changes.
fn project_symbols(context: &QueryContext<'_>) -> Arc<ProjectSymbols> {
    type Known = (Index, Arc<ProjectSymbols>);
    let known = |(index, names): &Known| index.is(&context.index).then(|| Arc::clone(names));
    context.memo.get(known).unwrap_or_else(|| {
        let names = Arc::new(ProjectSymbols::new(&context.index));
        context.memo.put::<Known>((context.index.clone(), Arc::clone(&names)));
        names
    })
}

/// Parses the new name of `symbol` from `text`, which must not be a function name such as (SETF F).
/// The package prefix of the new name, if any, must denote the symbol's home package.
fn new_name(index: &Index, symbol: Symbol, text: &str) -> Result<String, DesignatorError> {
    let designator = Designator::parse(text)?;
    let home = index.symbol_package(symbol);
    let is_home = |prefix: &String| home.is_some() && index.find_package(prefix, home) == home;
    match designator.function_name {
        FunctionName::Plain if designator.package.as_ref().is_none_or(is_home) => Ok(designator.name),
        FunctionName::Plain => Err(DesignatorError::OtherPackage {
            text: text.to_owned(),
            home: index.home_name(symbol).unwrap_or_default(),
        }),
        _ => Err(DesignatorError::NoSymbol(text.to_owned())),
    }
}

/// Returns a context that also has the symbols called `new` in loaded text, if the index lacks such
/// a symbol in a package where the old name denotes `symbol`. The check for conflicts needs these
/// symbols: `new` must be free in each of these packages.
fn with_new_symbols<'c, 'a>(
    context: &'c QueryContext<'a>,
    symbol: Symbol,
    new: &str,
) -> Cow<'c, QueryContext<'a>> {
    let index = &context.index;
    let name = index.symbol_name(symbol);
    let means =
        |package: &Package| index.find_symbol(&name, *package).is_some_and(|(found, _)| found == symbol);
    let unknown = index.packages().filter(means).find(|package| index.find_symbol(new, *package).is_none());
    match unknown {
        Some(_) => context.with_sidecar_symbols(new),
        None => Cow::Borrowed(context),
    }
}

struct Planner<'a> {
    context: &'a QueryContext<'a>,
    view: &'a TreeView,
    control: &'a Control,
    names: &'a ProjectSymbols,
    request: &'a RenameRequest,
    symbol: Symbol,
    uses: SymbolUses<'a>,
    new: String,
    plan: RenamePlan,
}

/// A file's tokens that read as the symbol.
struct TokensOfFile {
    path: PathBuf,
    file: Arc<PositionedFile>,
    tokens: Vec<SymbolToken>,
}

impl<'a> Planner<'a> {
    /// Returns the positions of the forms and symbols in a loaded file, in the plan's view of the
    /// tree.
    fn positions(&self, path: &Path, write_date: u64) -> std::io::Result<Arc<PositionedFile>> {
        self.context.project.positions_at(self.view, path, write_date)
    }

    /// Queries the image for a symbol's definitions.
    fn definitions(&self, symbol: &SymbolName) -> Result<ImageDefinitions, Error> {
        let mut image = ImageDefinitions::ask(self.context, symbol, self.control)?;
        // Skip a package of this name. Strings name packages, so a rename of the symbol does not
        // rename the package.
        image.definitions.retain(|found| found.kind != LispKind::Package);
        Ok(image)
    }

    fn plan(&mut self) -> Result<(), Error> {
        let project = self.context.project;
        let sought = self.uses.sought().clone();
        let mut files: Vec<TokensOfFile> = Vec::new();
        for FileVersion { path, write_date } in project.naming(&sought.name) {
            let Ok(file) = self.positions(&path, write_date) else { continue };
            let tokens = file.tokens(&sought, &|package| self.uses.means(package));
            if tokens.is_empty() {
                continue;
            }
            if !self.view.contains(&path) {
                let message = format!("{}, outside of this project, contains the symbol.", path.display());
                self.caution(CautionKind::UsedOutside, message, Vec::new());
            } else if file.is_fresh() {
                files.push(TokensOfFile { path, file, tokens });
            }
        }
        let image = self.definitions(&sought)?;
        self.defined_elsewhere(&image);
        let text = self.text_tokens(&self.uses);
        let places = files.iter().map(|file| file.tokens.len()).sum::<usize>() + text.certain.len();
        let parts = self.generating_forms(&image, &files, &text)?;
        let asked = code_find_references::CodeFindReferencesRequest {
            limit: usize::MAX,
            ..code_find_references::CodeFindReferencesRequest::new(self.plan.symbol.as_str())
        };
        let found = code_find_references(self.context, &asked, self.control)?;
        let narrow = match self.request.scope {
            Scope::Symbol => Err("The scope `symbol` was requested.".to_owned()),
            Scope::Auto | Scope::Narrow => self.narrow(&found, &files, &image, &text, parts.is_some()),
        };
        match narrow {
            Ok(exact) => {
                self.plan.scope = Scope::Narrow;
                self.plan.reason = match &parts {
                    Some(_) if places == 0 => {
                        "No token to edit: a form generates this name and will generate the new one."
                            .to_owned()
                    }
                    _ => "Every place is exact.".to_owned(),
                };
                for TokensOfFile { path, file, tokens } in &mut files {
                    let shown = project.shown(path);
                    tokens
                        .retain(|token| exact.contains(&Location::placed(&shown, file, token.range).start()));
                }
            }
            Err(reason) => {
                if self.request.scope == Scope::Narrow {
                    self.conflict(ConflictKind::NotNarrow, reason.clone());
                }
                self.plan.scope = Scope::Symbol;
                self.plan.reason = reason;
                self.symbol_cautions(&files, &text);
                self.defines_nothing(&image, &files, &text);
            }
        }
        self.clause_words(&files);
        self.generated_uses(&found);
        self.uses_without_name(&found, &files);
        if parts.is_none() && self.plan.conflicts.iter().all(|conflict| conflict.kind != ConflictKind::Made) {
            self.generated_definitions(&image, &files);
        }
        self.initargs(&files);
        self.symbol_names(&files);
        self.computed_names();
        let mut editor = Editor::new(project, &sought.name, &self.new);
        for file in &files {
            editor.tapped(file.path.as_path(), &file.tokens);
        }
        editor.text(&text.certain);
        if self.plan.scope == Scope::Symbol {
            editor.text(&text.parameters);
        }
        match &parts {
            Some(parts) => self.apply_defining_form(parts, &mut editor)?,
            None => self.plan.derived = self.derived(&files, &mut editor)?,
        }
        self.doubts(&text, &mut editor);
        self.strings(&mut editor);
        self.other_text(&mut editor);
        self.plan.places = places;
        let (edited, unreadable) = editor.finish();
        self.plan.edits = edited.iter().map(|file| file.edits.len()).sum();
        self.plan.files = edited;
        self.plan.doubtful.extend(unreadable);
        self.plan.cautions.sort_by_key(|caution| caution.kind);
        if places == 0 && parts.is_none() {
            let message = format!("{} does not occur in the project's files.", self.plan.symbol);
            self.plan.conflicts.insert(0, Conflict { kind: ConflictKind::NoPlace, message });
        }
        Ok(())
    }

    fn caution(&mut self, kind: CautionKind, message: String, mut names: Vec<String>) {
        if let Some(more) = names.len().checked_sub(MOST_NAMES).filter(|more| *more > 0) {
            names.truncate(MOST_NAMES);
            names.push(format!("and {more} more"));
        }
        if !self.plan.cautions.iter().any(|caution| caution.kind == kind && caution.message == message) {
            self.plan.cautions.push(RenameCaution { kind, message, names });
        }
    }

    /// Adds a conflict if the symbol's definitions have known sources and all of these are outside
    /// of the project. Declarations do not count, and methods count only if the symbol has no other
    /// definition.
    fn defined_elsewhere(&mut self, image: &ImageDefinitions) {
        let all = image.definitions.iter().filter(|definition| definition.kind != LispKind::Declaration);
        let methods = all.clone().all(|definition| definition.kind == LispKind::Method);
        let mut sources = all
            .filter(|definition| methods || definition.kind != LispKind::Method)
            .flat_map(|definition| &definition.sources)
            .peekable();
        if sources.peek().is_some() && !sources.any(|source| self.view.contains(&PathBuf::from(&source.file)))
        {
            let message = format!("{} is defined outside of this project.", self.plan.symbol);
            self.conflict(ConflictKind::Outside, message);
        }
    }

    /// Finds the tokens of the symbol of `uses` in text that the compiler did not read.
    fn text_tokens(&self, uses: &SymbolUses<'_>) -> TextTokens {
        let (index, project) = (&self.context.index, self.context.project);
        let target = uses.sought();
        let all = self.request.comments || self.request.strings;
        let look = if all { TextFilter::All } else { TextFilter::Unloaded };
        let found = project.texts_naming_at(self.view, &target.name, look, true);
        let resolver = TokenResolver::new(index, project, self.view, target);
        let mut tokens = TextTokens { unreadable: found.unreadable, ..TextTokens::default() };
        // Skip a loaded file that has become a link: the link's target is listed under the target's
        // path.
        for file in found.files.into_iter().filter(|file| !file.path.is_symlink()) {
            let is_system = defines_systems(&file.path);
            let mut read = None;
            for token in file.tokens.named(&target.name) {
                let entry = || edits::TextPlace { file: file.clone(), token: token.clone() };
                let seen = file.load_state == TextState::FeatureExcluded;
                match (&token.context, resolver.meaning(token, is_system)) {
                    (TextContext::Comment, _) if self.request.comments => {
                        if resolver.reads_as(token) {
                            tokens.prose.push(entry());
                        }
                    }
                    (TextContext::Parameter, _) => {
                        if !seen && resolver.reads_as(token) {
                            tokens.parameters.push(entry());
                        }
                    }
                    (TextContext::Prose, Some(_)) if self.request.strings => tokens.prose.push(entry()),
                    (TextContext::Comment | TextContext::Prose, _) | (_, None) => {}
                    (TextContext::Read, Some(_)) => tokens.strings.push(entry()),
                    _ if seen && state_in_loaded_file(token).is_none() => {}
                    _ if seen
                        && token.guarded
                        && read
                            .get_or_insert_with(|| resolver.places_read(&file.path))
                            .contains(&token.span.start) => {}
                    (_, Some(Likelihood::Certain)) => tokens.certain.push(entry()),
                    (_, Some(Likelihood::Possible)) => tokens.possible.push(entry()),
                }
            }
        }
        tokens
    }

    /// Returns the start positions of the narrow set's places, or the reason why the narrow set
    /// cannot be used.
    fn narrow(
        &self,
        found: &code_find_references::CodeFindReferencesAnswer,
        files: &[TokensOfFile],
        image: &ImageDefinitions,
        text: &TextTokens,
        remade: bool,
    ) -> Result<BTreeSet<Location>, String> {
        let context = self.context;
        let definitions = find_definition(context, &Resolved::of(&self.uses), image).definitions;
        let warned = |of: fn(&Caution) -> bool| found.cautions.iter().any(of);
        let unsure = found
            .refs
            .iter()
            .filter(|found| found.evidence == Evidence::Approximate || !found.approximate.is_empty())
            .count();
        let kept = image
            .definitions
            .iter()
            .filter(|found| found.kind == LispKind::Method)
            .flat_map(|found| &found.sources)
            .all(|source| self.in_defining_form(source, files));
        let made = definitions
            .iter()
            .filter(|found| found.evidence != Evidence::Exact && found.kind != LispKind::Declaration)
            // A method needs no exact place if the form of every method, or the macro that
            // generates the method there, contains the name.
            .filter(|found| found.kind != LispKind::Method || !kept)
            .count();
        let exact_definitions = definitions.iter().filter(|found| found.evidence == Evidence::Exact).count();
        // A symbol that is spelt like a global variable, and defined only as a variable or
        // constant, is never a local variable.
        let special = |found: &ImageDefinition| matches!(found.kind, LispKind::Variable | LispKind::Constant);
        let global = is_global_variable(&self.uses.sought().name)
            && image.definitions.iter().filter(|found| found.kind != LispKind::Declaration).all(special);
        let unsure_text = text
            .certain
            .iter()
            .filter(|place| {
                let token = &place.token;
                !token.calls && !token.defines && !token.names && token.context == TextContext::Code
            })
            .count();
        let keys =
            files.iter().flat_map(|file| &file.tokens).filter(|token| token.key_parameter && !token.local);
        let reason = if exact_definitions == 0 && !remade {
            "No definition has an exact place.".to_owned()
        } else if made > 0 && !remade {
            format!(
                "{} generated by forms that contain at most parts of the name.",
                counted(made, "definition is", "definitions are")
            )
        } else if unsure > 0 {
            match unsure {
                1 => "The meaning of 1 line with the symbol is uncertain.".to_owned(),
                unsure => format!("The meaning of {unsure} lines with the symbol is uncertain."),
            }
        } else if warned(|caution| matches!(caution, Caution::UsesFromNameParts { .. })) {
            "Macros generate some uses of the symbol from parts of names.".to_owned()
        } else if warned(|caution| matches!(caution, Caution::WithoutFile(_))) {
            "Code that was compiled at run time uses the symbol.".to_owned()
        } else if warned(|caution| {
            matches!(caution, Caution::NamesStructure | Caution::NamesStructureSlot(_))
        }) {
            "The symbol names a structure or a structure's slot.".to_owned()
        } else if warned(|caution| matches!(caution, Caution::Designators(_))) {
            "Names in other packages, or names that code generates, may refer to the symbol.".to_owned()
        } else if (unsure_text > 0 && !global) || !text.possible.is_empty() {
            "The symbol occurs in text that is not loaded.".to_owned()
        } else if keys.count() > 0 {
            "The symbol is a keyword parameter.".to_owned()
        } else {
            let defined = definitions.iter().filter(|found| found.evidence == Evidence::Exact);
            let places = found.refs.iter().flat_map(|found| &found.tokens);
            let places = places.chain(defined.map(|found| &found.place));
            let exact: BTreeSet<Location> = places.map(|place| place.clone().start()).collect();
            match tokens_of_unknown_meaning(context.project, files, &exact) {
                0 => return Ok(exact),
                count => format!("The meaning of {count} of the symbol's tokens is unknown."),
            }
        };
        Err(reason)
    }

    /// Returns whether the definition's form, or the macro that generates the definition in that
    /// form, contains the symbol. If so, the name is not generated from parts of names.
    fn in_defining_form(&self, source: &ImageSource, files: &[TokensOfFile]) -> bool {
        let Some(&form) = source.form_path.first() else { return false };
        let path = Path::new(&source.file);
        let mut tokens = files.iter().filter(|file| file.path == path).flat_map(|file| &file.tokens);
        tokens.any(|token| token.form == form) || self.in_macro_template(source, form)
    }

    /// Returns whether the macro that generates a definition in top-level form `form` contains the
    /// symbol.
    fn in_macro_template(&self, source: &ImageSource, form: u32) -> bool {
        let (project, path) = (self.context.project, Path::new(&source.file));
        let file = project.loaded_date(path).and_then(|date| self.positions(path, date).ok());
        let expander = file.and_then(|file| file.expander_at(form, source.form_number.unwrap_or(0)));
        expander.is_some_and(|expander| {
            let means = |package: &str| self.uses.means(package);
            let origin =
                Origins::new(project, self.view).of(self.uses.sought(), &means, &expander, Vec::new());
            matches!(origin, Some(ExpansionOrigin::InTemplate(_)))
        })
    }

    /// Finds a form that generates the symbol's name from other names without containing it.
    /// Returns the edits after which the form generates the new name. Returns `None` if there is no
    /// such form. If the form cannot be edited, adds a conflict and returns `None`.
    fn generating_forms(
        &mut self,
        image: &ImageDefinitions,
        files: &[TokensOfFile],
        text: &TextTokens,
    ) -> Result<Option<defining_form::DefiningFormEdits>, Error> {
        let project = self.context.project;
        let own: Vec<(&str, Option<u32>)> = image
            .definitions
            .iter()
            .filter(|found| found.kind != LispKind::Declaration)
            .flat_map(|definition| &definition.sources)
            .filter(|source| self.view.contains(&PathBuf::from(&source.file)))
            .map(|source| (source.file.as_str(), source.form_path.first().copied()))
            .collect();
        let defines =
            |token: &SymbolToken| matches!(token.role, SyntaxRole::Definition | SyntaxRole::Structure);
        // For some definitions, the image records the file but no form.
        let stands = |(file, form): &(&str, Option<u32>)| {
            files.iter().filter(|tapped| tapped.path.as_os_str() == *file).any(|tapped| {
                tapped.tokens.iter().any(|token| match form {
                    Some(form) => token.form == *form && self.may_define(&tapped.path, token),
                    None => defines(token),
                })
            })
        };
        // A file that changed after it was loaded may define the name by now. Text that a feature
        // expression excludes defines nothing, so it does not count.
        let edited = |place: &edits::TextPlace| {
            let same = |(file, _): &(&str, Option<u32>)| place.file.path.as_os_str() == *file;
            place.token.defines && place.file.load_state != TextState::FeatureExcluded && own.iter().any(same)
        };
        // A form may contain the name, for example as a type, and also generate an accessor with
        // this name. The image then reports the form twice.
        let again = |at: usize| own[..at].contains(&own[at]);
        let made: Vec<(PathBuf, u32)> = own
            .iter()
            .enumerate()
            .filter(|(at, source)| !stands(source) || again(*at))
            .filter_map(|(_, (file, form))| Some((PathBuf::from(file), (*form)?)))
            .collect();
        if !made.is_empty() && own.iter().any(stands) {
            let structures = structures::Structures::of(project, self.view);
            let sought = self.uses.sought().clone();
            for (file, form) in made {
                // Without a prefix, the accessor's symbol is the slot's symbol.
                let origin = structures.origin(&file, form, &sought.name);
                let bare = matches!(&origin, Some(structures::AccessorOrigin::Slot { slot, .. }) if **slot == sought);
                if origin.is_some() && !bare {
                    let parts = self.defining_form_edits(&file, form)?;
                    if parts.is_none() {
                        let message = format!("{} is also generated by a structure.", self.plan.symbol);
                        self.conflict(ConflictKind::Made, message);
                    }
                    return Ok(parts);
                }
            }
        }
        let may_define = |token: &SymbolToken| {
            use SyntaxRole::{Argument, Block, Class, Export, Import, LoopKeyword, Operator, Type};
            let uses = [Argument, Block, Class, Export, Import, LoopKeyword, Operator, Type];
            token.definable || !(uses.contains(&token.role) || token.binds)
        };
        if let Some(made) = image.without_source(self.context, self.view, self.uses.sought())
            && !files.iter().flat_map(|file| &file.tokens).any(may_define)
            && text.possible.iter().chain(&text.certain).all(|place| !place.token.defines)
        {
            let message = format!("{} has no definition to edit. {made}", self.plan.symbol);
            self.conflict(ConflictKind::Made, message);
            return Ok(None);
        }
        if own.is_empty() || own.iter().any(stands) || text.certain.iter().any(edited) {
            return Ok(None);
        }
        let (file, form) = own.first().copied().unwrap_or_default();
        if let Some(form) = form
            && let Some(parts) = self.defining_form_edits(Path::new(file), form)?
        {
            return Ok(Some(parts));
        }
        if self.plan.conflicts.iter().any(|conflict| conflict.kind == ConflictKind::Made) {
            return Ok(None);
        }
        let message = self.generator_message(Path::new(file), form);
        self.conflict(ConflictKind::Made, message);
        Ok(None)
    }

    /// Counts the words in text that is not Lisp, and edits them if this was requested.
    fn other_text(&mut self, editor: &mut Editor<'_>) {
        let project = self.context.project;
        let Some(root) = project.root() else { return };
        match self.uses.words(project, self.view) {
            Some(words) => {
                self.plan.other_text = OtherText::new(&words);
                if self.request.text {
                    editor.words(root, &words);
                }
            }
            None => self.plan.text_unsearched = true,
        }
    }

    fn doubts(&mut self, text: &TextTokens, editor: &mut Editor<'_>) {
        // Only report these tokens: their package is unknown, so they may be another symbol.
        let unknown = editor.doubts(&text.possible, "the package here is unknown");
        if !unknown.is_empty() {
            let message =
                "The name occurs in text with an unknown package, and may mean another symbol.".to_owned();
            self.caution(CautionKind::UnknownPackage, message, place_names(&unknown));
        }
        self.plan.doubtful.extend(unknown);
        let texts =
            ["a string that code reads at run time", "Strings that code reads at run time name the symbol."];
        self.named_in_strings(&text.strings, texts, editor);
        editor.text(&text.prose);
    }

    /// Edits strings that contain the name if this was requested, and otherwise reports them.
    fn strings(&mut self, editor: &mut Editor<'_>) {
        let project = self.context.project;
        let (mut equal, mut code, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for found in strings_naming(project, self.view, &self.uses) {
            let place = found.place(project);
            let NameInString { file, token, kind } = found;
            let string = edits::TextPlace { file, token };
            match kind {
                StringKind::Equal => equal.push(string),
                StringKind::Code if self.request.strings => code.push(string),
                StringKind::Code | StringKind::Words => places.push(place),
            }
        }
        editor.text(&code);
        self.plan.strings = OtherText::of(places);
        let message = "Strings are equal to the symbol's name: code may compare names with them.";
        self.named_in_strings(&equal, ["a string equal to the name", message], editor);
    }

    /// Edits `strings` if this was requested. Otherwise adds a caution, and reports those that are
    /// not edited.
    fn named_in_strings(&mut self, strings: &[edits::TextPlace], texts: [&str; 2], editor: &mut Editor<'_>) {
        let [reason, message] = texts;
        let left = editor.doubts(strings, reason);
        if self.request.strings {
            editor.text(strings);
        } else if !left.is_empty() {
            self.caution(CautionKind::InString, message.to_owned(), place_names(&left));
            self.plan.doubtful.extend(left);
        }
    }
}

fn place_names(doubts: &[Doubt]) -> Vec<String> {
    doubts.iter().map(|doubt| doubt.place.to_string()).collect()
}

/// The maximum number of names in a caution.
const MOST_NAMES: usize = 20;

/// Counts the tokens of unknown meaning. Tokens at `exact` places, LOOP keywords, block names and
/// bindings are known. So are tokens in a form that binds the name, because they may be the local
/// variable. If any form binds the name, tokens in macro templates count as unknown.
fn tokens_of_unknown_meaning(project: &Project, files: &[TokensOfFile], exact: &BTreeSet<Location>) -> usize {
    let mut count = 0;
    for TokensOfFile { path, file, tokens } in files {
        let shown = project.shown(path);
        let is_exact =
            |token: &SymbolToken| exact.contains(&Location::placed(&shown, file, token.range).start());
        let left: Vec<&SymbolToken> = tokens.iter().filter(|token| !is_exact(token)).collect();
        let bound: BTreeSet<u32> = left.iter().filter(|token| token.binds).map(|token| token.form).collect();
        let explained = |token: &SymbolToken| {
            matches!(token.role, SyntaxRole::LoopKeyword | SyntaxRole::Block | SyntaxRole::Binding)
                || bound.contains(&token.form)
        };
        count += left.iter().filter(|token| !explained(token)).count();
    }
    // A name in a macro's template may be a variable that surrounding code binds.
    let tokens = || files.iter().flat_map(|file| &file.tokens);
    let templates = tokens().filter(|token| token.role == SyntaxRole::Template).count();
    if tokens().any(|token| token.binds) {
        count += templates;
    }
    count
}

/// Returns whether a name is spelt like a special variable or a constant.
fn is_global_variable(name: &str) -> bool {
    let within = |mark: char| name.len() > 2 && name.starts_with(mark) && name.ends_with(mark);
    within('*') || within('+')
}

/// The places of the name in text that the compiler did not read, by certainty and kind.
#[derive(Default)]
struct TextTokens {
    certain: Vec<edits::TextPlace>,
    possible: Vec<edits::TextPlace>,
    /// Parameters of generic functions: tokens that read as the symbol but refer to nothing.
    parameters: Vec<edits::TextPlace>,
    /// Strings that code reads at run time.
    strings: Vec<edits::TextPlace>,
    /// Words in comments and strings, if they were requested.
    prose: Vec<edits::TextPlace>,
    unreadable: Vec<PathBuf>,
}
