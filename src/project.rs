//! What [`Steelbank`] does with a user's project: loads its systems, and answers with lines.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::Steelbank;
use crate::engine::{Lane, LispError, Operation, Progress};
use crate::query::code_find_references::{self, code_find_references};
use crate::query::control::Control;
use crate::query::find_definition::{self, ImageDefinitions, find_definition, resolve};
use crate::query::load_system::{LoadAnswer, LoadNews, SystemsAnswer};
use crate::query::project::Project;
use crate::query::{Error, read_json};

/// Who hears which files are compiled or loaded. It must not wait.
pub type LoadListener = Arc<dyn Fn(LoadNews) + Send + Sync>;

/// What a load is given beyond its own limit, to end by itself at a safe point.
const GRACE: Duration = Duration::from_secs(20);

impl Steelbank {
    /// Loads `system` through ASDF; `force` compiles its own files anew. This runs the system's code, and before the
    /// first load the user's init file if the project's settings name one. Questions are answered meanwhile.
    ///
    /// # Errors
    /// It was called off, or Lisp is gone. A system that does not load is an answer.
    pub fn load_system(
        &self,
        system: &str,
        force: bool,
        control: &Control,
        listener: Option<LoadListener>,
    ) -> Result<LoadAnswer, Error> {
        let seconds = control.allowed().as_secs().max(1).to_string();
        let force = if force { "force" } else { "" };
        self.load(
            Operation::LoadSystem,
            vec![system.to_owned(), force.to_owned(), seconds],
            control,
            listener,
        )
    }

    /// Compiles and loads the file at `path`. This runs its code.
    ///
    /// # Errors
    /// It was called off, or Lisp is gone. A file that does not load is an answer.
    pub fn load_file(
        &self,
        path: &str,
        control: &Control,
        listener: Option<LoadListener>,
    ) -> Result<LoadAnswer, Error> {
        let path =
            std::path::absolute(path).map_or_else(|_| path.to_owned(), |path| path.display().to_string());
        let seconds = control.allowed().as_secs().max(1).to_string();
        self.load(Operation::LoadFile, vec![path, seconds], control, listener)
    }

    /// What the project defines, what of it is loaded, and what has changed on disk since.
    ///
    /// # Errors
    /// There is no project, or Lisp cannot answer.
    pub fn list_systems(&self, control: &Control) -> Result<SystemsAnswer, Error> {
        let root = self.project().root().ok_or(code_find_references::Error::NoProject)?;
        let root = root.display().to_string();
        self.open_project(control)?;
        let asked = root.clone();
        let ticket = self.lisp().submit(Lane::Query, control.allowed(), None, move |on_lisp| {
            on_lisp.call(Operation::ListSystems, &[&asked])
        });
        let systems: Vec<_> = read_json(&control.wait(ticket)?.octets)?;
        Ok(SystemsAnswer { root, count: systems.len(), systems })
    }

    /// Where a symbol is used, line by line. Answered from the index and the files: it does not wait for Lisp.
    ///
    /// # Errors
    /// There is no such symbol, or no project to limit the answer to.
    pub fn code_find_references(
        &self,
        request: &code_find_references::Request,
    ) -> Result<code_find_references::Answer, Error> {
        let mut answer = code_find_references(&self.index(), self.project(), self.sources(), request)?;
        answer.loading = self.is_loading();
        Ok(answer)
    }

    /// Every place where `name`, looked up in `package`, is defined.
    ///
    /// # Errors
    /// There is no such symbol, or Lisp cannot answer.
    pub fn find_definition(
        &self,
        name: &str,
        package: &str,
        control: &Control,
    ) -> Result<find_definition::Answer, Error> {
        let index = self.index();
        let resolved = resolve(&index, name, package)?;
        let (name, home) = (resolved.sought.name.clone(), resolved.sought.package.clone());
        let ticket = self.lisp().submit(Lane::Query, control.allowed(), None, move |on_lisp| {
            on_lisp.call(Operation::FindDefinitions, &[&name, &home])
        });
        let image: ImageDefinitions = read_json(&control.wait(ticket)?.octets)?;
        Ok(find_definition(self.project(), &resolved, &image))
    }

    /// Whether a system or file is being loaded now, so that answers may soon be others.
    pub fn is_loading(&self) -> bool {
        self.project().loading.load(Ordering::SeqCst) > 0
    }

    fn load(
        &self,
        operation: Operation,
        arguments: Vec<String>,
        control: &Control,
        listener: Option<LoadListener>,
    ) -> Result<LoadAnswer, Error> {
        let project = self.project();
        project.loading.fetch_add(1, Ordering::SeqCst);
        let outcome = self
            .open_project(control)
            .and_then(|()| self.work(operation, arguments, control, listener))
            .and_then(|octets| Ok(read_json::<LoadAnswer>(&octets)?));
        // Whatever was loaded before a failure stays, so the index must hear of it in every case.
        let refreshed = self.refresh();
        project.loading.fetch_sub(1, Ordering::SeqCst);
        let answer = outcome?;
        refreshed?;
        note(project, &answer);
        Ok(answer.finished())
    }

    /// Registers the project with ASDF, once, before anything that needs it.
    fn open_project(&self, control: &Control) -> Result<(), Error> {
        let project = self.project();
        let (Some(settings), mut opened) = (project.settings(), project.opened.lock()) else { return Ok(()) };
        if *opened {
            return Ok(());
        }
        let arguments = vec![
            settings.root.display().to_string(),
            settings.cache.display().to_string(),
            settings.userinit.as_ref().map(|path| path.display().to_string()).unwrap_or_default(),
        ];
        let answer: LoadAnswer = read_json(&self.work(Operation::OpenProject, arguments, control, None)?)?;
        if let Some(failure) = answer.failure {
            return Err(LispError::Unreadable(format!(
                "the project's set-up failed: {} ({})",
                failure.message,
                failure.path.unwrap_or_default()
            ))
            .into());
        }
        *opened = true;
        Ok(())
    }

    fn work(
        &self,
        operation: Operation,
        arguments: Vec<String>,
        control: &Control,
        listener: Option<LoadListener>,
    ) -> Result<Vec<u8>, Error> {
        let progress = listener.map(|listener| -> Progress {
            Arc::new(move |json: &str| {
                if let Ok(news) = serde_json::from_str::<LoadNews>(json) {
                    listener(news);
                }
            })
        });
        let ticket = self.lisp().submit(Lane::Work, control.allowed() + GRACE, progress, move |on_lisp| {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            on_lisp.call(operation, &arguments)
        });
        Ok(control.wait(ticket)?.octets)
    }
}

fn note(project: &Project, answer: &LoadAnswer) {
    let anew: HashSet<&Path> = answer.compiled.iter().chain(&answer.cached).map(Path::new).collect();
    let files = answer.files.iter().filter_map(|file| Some((file.path.clone(), file.write_date?)));
    project.note_loaded(files, |path| anew.contains(path));
    project.delete_old_sidecars(answer.compiled.iter().map(Path::new));
}
