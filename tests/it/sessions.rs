//! Runs the sessions in tests/sessions: text files with the steps of a session with a project, and
//! the expected answers, which a person has reviewed.
//!
//! The heading `== TOOL {arguments}` calls a tool. Below it is the expected answer: first lines
//! `@/POINTER JSON` with fields of the structured answer, then the text. The text of an
//! unsuccessful call begins with `error: `, `failed: ` or `not found: `. A line `…` in place of the
//! text matches any text.
//!
//! Other steps change the project:
//!
//! * `== project` and `== write` write files, each after a line `//- PATH`. Later steps write later
//!   modification times, because ASDF compares these times in seconds.
//! * `== replace PATH` replaces a text everywhere in a file. Below it are the old text after `-`,
//!   and the new text after `+`. With `at its date` after the path, the file keeps its modification
//!   time.
//! * `== remove PATH`, `== link TARGET PATH` and `== git ARGUMENTS`.
//!
//! `== # TEXT` is a comment. STEELBANK_BLESS=1 writes the current answers into the files: review
//! the diff.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use steelbank::tools::CallOutcome;

use crate::fixtures::{NO_LIBRARIES, fixtures, newer_asdf};
use crate::folder::Folder;
use crate::texts::{expect, git, in_general, write_project};
use crate::tools_beside_sbcl::World;

macro_rules! sessions {
    ($($(@$environment:expr;)? $name:ident)*) => {
        $(#[test]
        fn $name() {
            own_process!($($environment)?);
            session(stringify!($name));
        })*
    };
}

sessions! {
    aliases_are_defined_where_assigned
    answers_follow_file_changes
    each_use_is_listed_once_at_its_place
    entries_state_their_kind
    eval_reports_values_warnings_and_places
    excluded_code_is_listed
    @[("CL_SOURCE_REGISTRY", NO_LIBRARIES)]; failures_report_name_and_place
    files_compiled_by_programs_are_indexed
    forms_are_found_and_replaced
    @[("CL_SOURCE_REGISTRY", frameworks())]; impact_lists_the_tests_of_frameworks
    generated_definitions_are_outlined
    local_operators_are_not_expanded
    @[("CL_SOURCE_REGISTRY", newer_asdf())]; local_nicknames_load_with_newer_asdf
    fiveam_tests_may_be_in_an_object
    names_given_to_macros_are_noted
    names_in_text_are_never_unused
    names_looked_up_are_not_unused
    names_made_at_run_time_are_reported
    object_parts_have_paths
    outline_impact_and_graph_match_project
    reload_redefines_constants_and_structures
    reload_removes_dropped_exports_and_options
    backups_are_no_sources
    reload_updates_image_from_disk
    renamed_package_keeps_its_uses
    @[("CL_SOURCE_REGISTRY", frameworks())]; run_tests_runs_each_test
    strings_links_and_reader_macros_are_listed
    systems_decide_which_files_are_tests
    tools_agree_without_compiler_records
    unloaded_uses_are_reported_by_every_tool
    unused_definitions_are_deleted
    unusual_names_and_places_work
    users_match_the_text
    uses_are_selected_by_type
}

fn session(name: &str) {
    let path = format!("sessions/{name}.txt");
    let steps = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(&path)).unwrap();
    let world = World::at(Folder::new(name), &[]);
    let mut parts = steps.split("\n== ");
    let mut said = parts.next().unwrap().to_owned();
    for (number, step) in parts.enumerate() {
        let (heading, body) = step.split_once('\n').unwrap_or((step, ""));
        write!(said, "\n== {heading}\n").unwrap();
        let words: Vec<&str> = heading.split(' ').collect();
        match words[..] {
            ["project" | "write"] => write_later(&world.root, body, 10 * number as u64),
            ["remove", path] => fs::remove_file(world.root.join(path)).unwrap(),
            ["link", to, path] => std::os::unix::fs::symlink(to, world.root.join(path)).unwrap(),
            ["git", ..] => git(&world.root, &words[1..]),
            ["replace", path, ref dated @ ..] => {
                let file = world.root.join(path);
                let (old, new) = body.trim_end().strip_prefix('-').unwrap().split_once("\n+").unwrap();
                let text = fs::read_to_string(&file).unwrap();
                assert!(text.contains(old), "{path}: {old}");
                let before = fs::metadata(&file).unwrap().modified().unwrap();
                let now = SystemTime::now() + Duration::from_secs(10 * number as u64);
                fs::write(&file, text.replace(old, new)).unwrap();
                date(&file, if dated.is_empty() { now } else { before });
            }
            ["#", ..] => {}
            _ => {
                said += &answered(&world, heading, body);
                continue;
            }
        }
        said += body;
    }
    expect(&path, &said);
}

/// Calls a tool. Returns the fields that `body` names, and the text, in the format of a session
/// file.
fn answered(world: &World, heading: &str, body: &str) -> String {
    let (tool, arguments) = heading.split_once(' ').unwrap_or((heading, "{}"));
    let arguments = serde_json::from_str(arguments).unwrap_or_else(|error| panic!("{heading}: {error}"));
    let mut said = String::new();
    match world.answer(tool, arguments) {
        Ok(answer) => {
            for field in body.lines().map_while(|line| line.strip_prefix('@')) {
                let pointer = field.split(' ').next().unwrap();
                let value = answer.structured.pointer(pointer).unwrap_or(&Value::Null);
                writeln!(said, "@{pointer} {value}").unwrap();
            }
            let outcome = match answer.outcome {
                CallOutcome::NotFound | CallOutcome::NotFoundAsError => "not found: ",
                CallOutcome::Failed => "failed: ",
                _ => "",
            };
            match body.lines().find(|line| !line.starts_with('@')) {
                Some("…") => said += "…\n",
                _ => writeln!(said, "{outcome}{}", answer.text).unwrap(),
            }
        }
        Err(error) => writeln!(said, "error: {error}").unwrap(),
    }
    let folders = [(&*world.root, "{root}"), (&*world.cache, "{cache}"), (fixtures(), "{fixtures}")];
    in_general(&said, &folders)
}

/// Writes the files of `text`, and sets their modification times to `seconds` from now.
fn write_later(root: &Path, text: &str, seconds: u64) {
    write_project(root, text);
    let date = SystemTime::now() + Duration::from_secs(seconds);
    for path in text.lines().filter_map(|line| line.strip_prefix("//- ")) {
        self::date(&root.join(path), date);
    }
}

fn date(file: &Path, date: SystemTime) {
    fs::File::options().write(true).open(file).unwrap().set_modified(date).unwrap();
}

/// Returns the value of CL_SOURCE_REGISTRY with which ASDF finds the test frameworks.
pub(crate) fn frameworks() -> String {
    format!("{0}/lisp//:{0}/frameworks//", fixtures().display())
}
