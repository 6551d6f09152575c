//! Runs [`ReloadRequest`]: reloads changed files, and finds definitions that the image has but the
//! files no longer contain.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;
use steelbank_text::DefinitionKind;
use steelbank_tree::defines_systems;

use crate::Steelbank;
use crate::actions::change::reload::{Leftover, ReloadAnswer, ReloadRequest};
use crate::actions::uses::enclosing::Enclosing;
use crate::answer::{Caution, LispKind};
use crate::engine::control::Control;
use crate::engine::{Lane, deadline_after, read_json};
use crate::handle::Error;
use crate::handle::loaded::{LoadAnswer, LoadStatus};
use crate::handle::question::Action;
use crate::handle::requests::LoadOptions;
use crate::workspace::{ImageSystem, Project};

impl Action for ReloadRequest {
    type Answer = ReloadAnswer;

    /// Reloads changed files and their dependents. Files of the project's loaded systems are
    /// reloaded through their systems, other files individually. If the request lists files and one
    /// of them belongs to a system or is an `.asd` file, all loaded systems are reloaded. Listed
    /// files that belong to no system are loaded even if they are unchanged.
    ///
    /// After a successful load, lists definitions that are no longer in their file, and all
    /// definitions from files that were deleted or removed from their system. With `remove`,
    /// removes these definitions from the image. Runs the project's code. A failed load is an
    /// answer, not an error.
    fn run(&self, bank: &Steelbank, control: &Control) -> Result<ReloadAnswer, Error> {
        let deadline = deadline_after(control.allowed());
        let project = bank.project();
        let wanted: Vec<PathBuf> = self.paths.iter().map(|path| bank.project().real(path)).collect();
        let is_wanted = |path: &Path| wanted.is_empty() || wanted.iter().any(|given| given == path);
        let known = project.loaded_project_files();
        let changed: Vec<PathBuf> =
            known.iter().filter(|path| is_wanted(path) && project.has_changed(path)).cloned().collect();
        let systems = loaded_systems(project);
        let in_systems = files_of(&systems);
        // Files of systems and changed `.asd` files are reloaded through their systems, because an
        // `.asd` file may add files. Other files are reloaded individually.
        let alone = |path: &Path| !in_systems.contains(path) && !defines_systems(path);
        let single: Vec<PathBuf> = match wanted.is_empty() {
            true => changed.iter().filter(|path| alone(path)).cloned().collect(),
            false => wanted.iter().filter(|path| alone(path)).cloned().collect(),
        };
        let by_system = wanted.is_empty() || wanted.iter().any(|path| !alone(path));
        bank.mark(&known, control, deadline)?;
        let mut all = LoadAnswer::default();
        let options = LoadOptions { keep_going: self.keep_going, again: true, ..LoadOptions::default() };
        if by_system {
            for (name, _) in &systems {
                let answer = bank.load_system(name, options, &control.until(deadline))?;
                all = all.with_system(name, answer);
            }
        }
        let mut failure = None;
        for path in &single {
            let path = path.display().to_string();
            let answer = bank.load_file(&path, LoadOptions::default(), &control.until(deadline))?;
            if answer.status != LoadStatus::Loaded {
                failure = failure.or(answer.failure.clone());
            }
            all = all.followed_by_file(answer);
        }
        all.failure = failure;
        let after: Vec<PathBuf> = known.iter().filter(|path| is_wanted(path)).cloned().collect();
        let still = files_of(&loaded_systems(project));
        let is_left_out = |path: &PathBuf| {
            let has = [path, &project.real(path)].iter().any(|path| still.contains(*path));
            all.status == LoadStatus::Loaded && in_systems.contains(path) && !has
        };
        let is_gone = |path: &&PathBuf| {
            let found = path.symlink_metadata();
            is_left_out(path) || found.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
        };
        let gone: Vec<PathBuf> = after.iter().filter(is_gone).cloned().collect();
        // After a failed load, definitions may be missing only because they were not evaluated.
        let mut left = Vec::new();
        if all.status == LoadStatus::Loaded {
            left = bank.leftovers(&after, &gone, self.remove, &control.until(deadline))?;
            if self.remove {
                project.forget_loaded(&gone);
            }
        } else if self.remove {
            all.cautions.push(Caution::NothingRemoved);
        }
        if left.iter().any(|leftover| leftover.removed)
            && let Err(error) = bank.refresh_until(deadline)
        {
            all.cautions.push(Caution::IndexStaleAfterRemoval(error.to_string()));
        }
        let shown = |paths: &[PathBuf]| paths.iter().map(|path| project.shown(path)).collect();
        let nothing_loaded = systems.is_empty() && known.is_empty();
        Ok(ReloadAnswer { changed: shown(&changed), left, nothing_loaded, load: all.finished() })
    }
}

/// Lists the loaded systems of the project.
fn loaded_systems(project: &Project) -> Vec<(String, ImageSystem)> {
    project.project_systems().into_iter().filter(|(_, system)| system.loaded).collect()
}

/// Lists the files of `systems`, including their `.asd` files.
fn files_of(systems: &[(String, ImageSystem)]) -> BTreeSet<PathBuf> {
    let files = |(_, system): &(String, ImageSystem)| -> Vec<PathBuf> {
        system.files.iter().flatten().chain([&system.asd]).cloned().collect()
    };
    systems.iter().flat_map(files).collect()
}

impl Steelbank {
    fn mark(&self, files: &[PathBuf], control: &Control, deadline: Instant) -> Result<(), Error> {
        let files = names(files);
        let control = control.until(deadline);
        let ticket = self.lisp().submit(Lane::Work, control.allowed(), None, move |on_lisp| {
            on_lisp.call("mark-definitions", &[files])
        });
        control.wait(ticket)?;
        Ok(())
    }

    /// Lists the definitions from `files` that are in the image but no longer in the text. Also
    /// lists all definitions from `gone`: files that were deleted or removed from their system.
    /// With `remove`, removes the listed definitions from the image.
    fn leftovers(
        &self,
        files: &[PathBuf],
        gone: &[PathBuf],
        remove: bool,
        control: &Control,
    ) -> Result<Vec<Leftover>, Error> {
        let (files, gone) = (names(files), names(gone));
        let mut left = self.ask_leftovers("leftovers", (files.clone(), gone.clone()), control)?;
        let context = self.context();
        let enclosing = Enclosing::new(&context);
        left.retain(|leftover| gone.contains(&leftover.path) || !is_in_text(&enclosing, self, leftover));
        if remove {
            let key = |left: &Leftover| format!("{} {} {}", left.path, left.kind, left.name.canonical());
            let keys: BTreeSet<String> = left.iter().map(key).collect();
            let arguments = (files, gone, keys.iter().cloned().collect::<Vec<_>>());
            left = self.ask_leftovers("remove-leftovers", arguments, control)?;
            left.retain(|leftover| keys.contains(&key(leftover)));
        }
        let index = self.index();
        for leftover in &mut left {
            leftover.name.write(&index);
            leftover.path = self.project().shown(Path::new(&leftover.path));
        }
        Ok(left)
    }

    fn ask_leftovers(
        &self,
        question: &'static str,
        arguments: impl Serialize + Send + 'static,
        control: &Control,
    ) -> Result<Vec<Leftover>, Error> {
        let ticket = self
            .lisp()
            .submit(Lane::Work, control.allowed(), None, move |on_lisp| on_lisp.call(question, &arguments));
        Ok(read_json(&control.wait(ticket)?.bytes)?)
    }
}

/// Returns whether the text of the file still contains the definition `left`. Such a definition is
/// not a leftover, even if the load did not evaluate it, for example inside UNLESS.
fn is_in_text(enclosing: &Enclosing<'_>, bank: &Steelbank, left: &Leftover) -> bool {
    let definitions = enclosing.definitions(&bank.project().shown(Path::new(&left.path)));
    definitions.iter().any(|known| {
        let is_of_kind = match known.definition.kind {
            DefinitionKind::Struct => left.kind == LispKind::Structure,
            DefinitionKind::Constant => left.kind == LispKind::Variable,
            DefinitionKind::Accessor | DefinitionKind::Setf => left.kind == LispKind::Function,
            kind => kind.name() == left.kind.name(),
        };
        is_of_kind && enclosing.node(known).name == left.name.canonical()
    })
}

/// Returns the paths that are valid UTF-8. For other files, leftovers are not found.
fn names(paths: &[PathBuf]) -> Vec<String> {
    paths.iter().filter_map(|path| Some(path.to_str()?.to_owned())).collect()
}
