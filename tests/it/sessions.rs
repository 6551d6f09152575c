//! Sessions with a project, a text each in tests/sessions: what is done, step by step, and the answers that were read by a person.
//!
//! A step's heading is `== TOOL {arguments}`; below it stands what is expected: lines `@/POINTER JSON`, fields of the structured
//! answer, then the text, begun by `error:` or `not found:` where it is one; `…` is any text. Other steps do something: `== project` and `== write`
//! write files, each begun by a line `//- PATH`, later ones with later dates, as ASDF compares dates in seconds; `== replace PATH`
//! one text in a file, with `at its date` at the date that it has, `== remove PATH`, `== link TO PATH`, `== git ARGUMENTS`. `== # TEXT` is a comment. STEELBANK_BLESS=1 writes
//! the answers: read what changed before you accept it.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use steelbank::tools::CallOutcome;

use crate::fixtures::fixtures;
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
    a_project_is_told_as_it_is_made
    a_renamed_package_has_its_uses
    answers_follow_the_files
    constants_and_structures_take_their_new_definitions
    every_use_is_told_once_and_where_it_stands
    excluded_code_is_listed
    failures_are_told_by_name_and_place
    files_that_a_program_compiles_by_itself_are_known
    nothing_is_said_to_be_unused_that_text_uses
    odd_names_and_places_are_answered
    parts_of_objects_have_paths
    strings_links_and_reader_macros_are_told
    the_image_is_brought_up_to_the_disk
    tools_agree_where_the_compiler_has_no_record
    @[("CL_SOURCE_REGISTRY", frameworks())]; tests_are_run_one_by_one
    users_are_those_that_the_text_has
    what_a_definition_lost_is_taken_out
    what_is_evaluated_is_told_with_its_places
    what_is_listed_says_what_it_is
    what_is_not_loaded_is_not_silent_in_any_tool
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

/// Calls a tool, and returns what stands below the step's heading: the fields that `body` names, and the text.
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

/// Writes the files of `text`, dated `seconds` from now.
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

/// The value of CL_SOURCE_REGISTRY with which ASDF finds frameworks of tests.
pub(crate) fn frameworks() -> String {
    format!("{0}/lisp//:{0}/frameworks//", fixtures().display())
}
