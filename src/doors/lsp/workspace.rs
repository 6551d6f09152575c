//! Requests about the entire project: workspace symbols and commands.

use std::sync::Arc;
use std::time::SystemTime;

use serde_json::{Value, json};

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
use crate::actions::symbols::apropos::AproposRequest;
use crate::actions::symbols::names::{Accessible, AccessibleNamesRequest};
use crate::engine::control::Control;
use crate::handle::recovery::LoadedItem;
use crate::tools::Permission;

/// The commands that the server executes.
pub(super) const COMMANDS: [&str; 8] = [
    "steelbank.check", "steelbank.load", "steelbank.loadFile", "steelbank.reload", "steelbank.runTests",
    "steelbank.verifyRename", "steelbank.macroexpand", "steelbank.evaluate",
];

impl Server {
    pub(super) fn workspace_symbols(&self, params: &Value, control: &Control) -> Answered {
        let mut request = AproposRequest::new(params["query"].as_str().unwrap_or_default());
        request.limit = 100;
        if request.pattern.is_empty() {
            return Ok(json!([]));
        }
        let answer = self.bank()?.ask(&request, control)?;
        let shown = answer.symbols.iter().filter_map(|found| {
            let place = self.place(found.place.as_ref()?, control)?;
            let location = self.locations(vec![Place { ..place }], control).pop()?;
            Some(json!({ "name": found.name, "kind": 12, "location": location }))
        });
        Ok(shown.collect())
    }

    /// Returns the names that are accessible in a package. The result is cached until the index
    /// changes.
    pub(super) fn names(
        &self,
        request: &AccessibleNamesRequest,
        control: &Control,
    ) -> Result<Arc<Vec<Accessible>>, RequestRefusal> {
        let bank = self.bank()?;
        let stamp = bank.index().stamp();
        let mut known = self.cached_names.lock();
        if let Some((_, _, names)) = known.iter().find(|(at, of, _)| *at == stamp && of == request) {
            return Ok(Arc::clone(names));
        }
        known.retain(|(at, of, _)| *at == stamp && of != request);
        let names = Arc::new(bank.ask(request, control)?);
        known.push((stamp, request.clone(), Arc::clone(&names)));
        Ok(names)
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
