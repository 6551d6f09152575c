//! Requests about the entire project: workspace symbols and commands.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::SystemTime;

use serde_json::{Value, json};
use steelbank_xref::SymbolName;

use super::convert::{Answered, RequestRefusal};
use super::rename::SavedPlan;
use super::server::Server;
use super::view::Place;
use crate::LoadRequest;
use crate::actions::change::reload::ReloadRequest;
use crate::actions::change::rename::RenameVerifyRequest;
use crate::actions::run::evaluate::EvaluateRequest;
use crate::actions::run::load_system::note_outcome;
use crate::actions::run::macroexpand::MacroexpandRequest;
use crate::actions::run::run_tests::RunTestsRequest;
use crate::actions::symbols::apropos::{AproposRequest, KINDS};
use crate::actions::symbols::names::{Accessible, AccessibleNamesRequest};
use crate::actions::uses::text_places::is_definition;
use crate::answer::Location;
use crate::engine::control::Control;
use crate::handle::recovery::LoadedItem;
use crate::tools::Permission;

/// The maximum number of definitions in unloaded text that a list of symbols has.
const MAX_SYMBOLS: usize = 1000;

/// The commands that the server executes.
pub(super) const COMMANDS: [&str; 8] = [
    "steelbank.check", "steelbank.load", "steelbank.loadFile", "steelbank.reload", "steelbank.runTests",
    "steelbank.verifyRename", "steelbank.macroexpand", "steelbank.evaluate",
];

impl Server {
    pub(super) fn workspace_symbols(&self, params: &Value, control: &Control) -> Answered {
        let mut request = AproposRequest::new(params["query"].as_str().unwrap_or_default());
        request.limit = 100;
        // Omit exported symbols that name nothing: they have no location.
        request.kinds = KINDS.map(String::from).to_vec();
        if request.pattern.is_empty() {
            return Ok(json!([]));
        }
        let answer = match self.bank()?.ask(&request, &self.optional(control)) {
            Err(_) if self.is_loading() => Vec::new(),
            answer => answer?.symbols,
        };
        let place = |at: &Location| self.place(at, control);
        let named =
            answer.iter().filter_map(|found| Some((found.name.to_string(), place(found.place.as_ref()?)?)));
        let mut found: Vec<(String, Place)> = named.collect();
        if self.is_loading() {
            let pattern = request.pattern.to_uppercase();
            let part = pattern.rsplit(':').next().unwrap_or_default();
            let mut defined = Vec::new();
            self.unloaded_texts(control, |path, text, tokens| {
                for (name, tokens) in tokens.names().filter(|(name, _)| name.to_uppercase().contains(part)) {
                    for token in tokens.iter().filter(|token| is_definition(text, token)) {
                        let place = Place { path: path.to_owned(), range: token.span };
                        let symbol = token.home().map(|home| format!("{home}::{name}").to_lowercase());
                        defined.extend(symbol.map(|symbol| (name != part, symbol, place)));
                    }
                }
            })?;
            defined.sort();
            found.extend(defined.into_iter().take(MAX_SYMBOLS).map(|(_, name, place)| (name, place)));
        }
        let shown = found.into_iter().filter_map(|(name, place)| {
            let location = self.locations(vec![place], control).pop()?;
            Some(json!({ "name": name, "kind": 12, "location": location }))
        });
        Ok(shown.collect())
    }

    /// Returns the names that are accessible in a package. The result is cached until the index
    /// changes or a load ends.
    pub(super) fn names(
        &self,
        request: &AccessibleNamesRequest,
        control: &Control,
    ) -> Result<Arc<Vec<Accessible>>, RequestRefusal> {
        let bank = self.bank()?;
        let stamp = (bank.index().stamp(), self.is_loading());
        let mut known = self.cached_names.lock();
        if let Some((_, _, names)) = known.iter().find(|(at, of, _)| *at == stamp && of == request) {
            return Ok(Arc::clone(names));
        }
        known.retain(|(at, of, _)| *at == stamp && of != request);
        let mut names = bank.ask(request, control)?;
        if stamp.1 {
            self.add_names_in_text(request, &mut names, control)?;
        }
        let names = Arc::new(names);
        known.push((stamp, request.clone(), Arc::clone(&names)));
        Ok(names)
    }

    /// Adds the names of `request`'s package, and of the packages that it uses, in unloaded text.
    fn add_names_in_text(
        &self,
        request: &AccessibleNamesRequest,
        names: &mut Vec<Accessible>,
        control: &Control,
    ) -> Result<(), RequestRefusal> {
        let (bank, project) = (self.bank()?, self.bank()?.project());
        let asked = request.prefix.as_ref().unwrap_or(&request.package);
        let mut homes = HashSet::from([asked.clone()]);
        for package in project.unloaded_packages(&project.tree_view(), asked) {
            homes.extend(package.names.iter().chain(&package.uses).cloned());
        }
        if request.prefix.is_none() && names.is_empty() {
            let standard = AccessibleNamesRequest { package: "COMMON-LISP".into(), ..request.clone() };
            names.extend(bank.ask(&standard, control)?);
        }
        self.unloaded_texts(control, |_, _, tokens| {
            for (name, tokens) in tokens.names() {
                let home = tokens.iter().find_map(|token| token.home().filter(|home| homes.contains(*home)));
                names.extend(home.map(|home| Accessible::new(name, SymbolName::new(home, name))));
            }
        })?;
        names.sort_by(|one, other| one.written.cmp(&other.written));
        names.dedup_by(|one, other| one.written == other.written);
        Ok(())
    }

    /// Loads an item and records it, so that it is loaded again after a restart.
    fn load(&self, what: LoadedItem, request: &LoadRequest, control: &Control) -> Answered {
        self.session().recovery().note_begun(&what);
        let outcome = self.bank()?.run(request, control);
        let text = outcome.as_ref().map_or_else(ToString::to_string, ToString::to_string);
        note_outcome(self.session(), what, &outcome, &text);
        Ok(json!(outcome?))
    }

    pub(super) fn execute(&self, params: &Value, control: &Control) -> Answered {
        let given = &params["arguments"][0];
        let word = |key: &str| {
            given[key].as_str().ok_or_else(|| {
                RequestRefusal::params(format!("the command requires an argument {{\"{key}\": \"…\"}}"))
            })
        };
        let bank = self.bank()?;
        let command = params["command"].as_str().unwrap_or_default();
        match command {
            "steelbank.check" => self.check_project(control),
            "steelbank.load" => {
                let system = word("system")?;
                let what = LoadedItem::System(system.to_owned());
                self.load(what, &LoadRequest::system(system).failure_as_answer(), control)
            }
            "steelbank.loadFile" => {
                let path = word("path")?;
                self.load(
                    LoadedItem::File(path.to_owned()),
                    &LoadRequest::file(path).failure_as_answer(),
                    control,
                )
            }
            "steelbank.reload" => Ok(json!(bank.run(&ReloadRequest::default(), control)?)),
            "steelbank.runTests" => {
                let (document, at) = self.at(given)?;
                let mut request = RunTestsRequest::new();
                request.lines = Some(vec![(bank.project().shown(&document.path), document.lines.line(at))]);
                Ok(json!(bank.run(&request, control)?))
            }
            "steelbank.verifyRename" => {
                let found = self.occurrence(given, control)?.filter(|found| found.binding.is_none());
                let found = found.ok_or_else(|| self.no_symbol(given))?;
                let SavedPlan { request, plan, .. } = self.saved_plan(&found, word("newName")?, control)?;
                Ok(json!(bank.run(&RenameVerifyRequest::new(&request, &plan), control)?))
            }
            "steelbank.macroexpand" => {
                let (document, at) = self.at(given)?;
                let read = document.read();
                let forms = read.forms().iter();
                let form = forms.rev().find(|form| form.span.start <= at && at < form.span.end);
                let form =
                    form.ok_or_else(|| RequestRefusal::failed("There is no form at this position."))?;
                let text = document.text.get(form.span.indices()).unwrap_or_default();
                let top = read.toplevel_from(at).and_then(|top| top.package.clone());
                let mut request = MacroexpandRequest::new(text);
                request.package = top.as_deref().unwrap_or("COMMON-LISP-USER").to_owned();
                Ok(json!({ "expansion": bank.ask(&request, control)?.expansion }))
            }
            "steelbank.evaluate" => {
                self.session().permit(Permission::Eval)?;
                let package = given["package"].as_str().unwrap_or("COMMON-LISP-USER");
                bank.note_changed(SystemTime::now());
                let request = EvaluateRequest::new(word("code")?).package(package).values();
                let answer = bank.run(&request, control)?;
                Ok(json!({ "values": answer.values, "output": answer.output }))
            }
            other => Err(RequestRefusal::params(format!("Unknown command {other:?}."))),
        }
    }
}
