//! The walk against that of the crate `ignore`, and against Git, on random trees; and which repositories are part of a
//! project.

#![allow(clippy::unwrap_used, clippy::panic)]

use ignore::WalkBuilder;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use steelbank_tree::{Found, LeftOut, WalkState, admits, belonging, is_in_working_tree, walk};

/// A tree: files by number of folder and name, ignore files with their rules.
type Plan = (Vec<(usize, usize)>, Vec<(usize, usize, Vec<usize>)>);

const FOLDERS: [&str; 7] = ["", "a", "b", "a/b", "a/b/c", "b/.d", "b/x"];
const NAMES: [&str; 6] = ["x", "y.lisp", "z.txt", ".h", "w.lisp", "a"];
const RULES: [&str; 18] = [
    "*.txt", "a/", "/b", "!y.lisp", "b/c", "**/c/", "x", "/a/b/*", "# x", "!x", "a/**", "*", "!*/", "[xy]*",
    "\\!x", "/x/", "!.h", " ",
];
/// The folders of the ignore files, with the project in `p`, and their names.
const ABOVE: [&str; 7] = ["", "p", "p/a", "p/b", "p/a/b", "p/b/x", "p/a/b/c"];
const IGNORING: [&str; 3] = [".gitignore", ".ignore", ".git/info/exclude"];

fn plan() -> impl Strategy<Value = Plan> {
    let files = prop::collection::vec((0..FOLDERS.len(), 0..NAMES.len()), 1..14);
    let rules = prop::collection::vec(0..RULES.len(), 1..5);
    let ignoring = prop::collection::vec((0..ABOVE.len(), 0..IGNORING.len(), rules), 0..6);
    (files, ignoring)
}

/// Makes the tree in `home`, whose project is the folder `p`. Git's own folder is where `repository` says.
fn make(home: &Path, (files, ignoring): &Plan, repository: Option<&str>) -> PathBuf {
    let root = home.join("p");
    for &(folder, name) in files {
        let folder = root.join(FOLDERS[folder]);
        // A file may stand where a folder is to be, and the other way round.
        if fs::create_dir_all(&folder).is_ok() && !folder.join(NAMES[name]).exists() {
            fs::write(folder.join(NAMES[name]), "(f)").unwrap();
        }
    }
    fs::create_dir_all(&root).unwrap();
    if let Some(folder) = repository {
        fs::create_dir_all(home.join(folder).join(".git/info")).unwrap();
    }
    for (folder, file, rules) in ignoring {
        let text: String = rules.iter().map(|&rule| format!("{}\n", RULES[rule])).collect();
        let file = home.join(ABOVE[*folder]).join(IGNORING[*file]);
        // Only what is there already has rules: this makes no folder and no repository.
        let _ = fs::write(file, text);
    }
    root
}

fn own(root: &Path) -> BTreeSet<PathBuf> {
    let mut own = BTreeSet::new();
    walk(root, &mut |found| {
        match found {
            Found::Folder(path) | Found::File(path, _) => drop(own.insert(path.to_owned())),
            Found::Ignoring { folder, .. } => assert!(own.contains(folder)),
            other => panic!("{other:?}"),
        }
        WalkState::Continue
    });
    own
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if std::env::var_os("STEELBANK_FULL").is_some() { 40000 } else { 400 }, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_same_is_found_as_the_crate_ignore_finds(plan in plan(), repository in 0..3_usize) {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let root = make(&home, &plan, [None, Some(""), Some("p")][repository]);
        let in_git = is_in_working_tree(&root);
        let theirs = WalkBuilder::new(&root)
            .git_global(false)
            .require_git(in_git)
            .parents(in_git)
            .filter_entry(|entry| entry.file_name() != ".git")
            .build();
        let theirs: BTreeSet<PathBuf> = theirs.flatten().map(|entry| entry.into_path()).collect();
        prop_assert_eq!(own(&root), theirs);
        // Of one file the same is said without a walk.
        let own = own(&root);
        for folder in own.iter().filter(|path| path.is_dir()) {
            for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
                prop_assert_eq!(admits(&root, &path), Some(own.contains(&path)), "{:?}", path);
            }
        }
    }
}

fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success(), "git {arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if std::env::var_os("STEELBANK_FULL").is_some() { 3000 } else { 60 }, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_same_is_found_as_git_finds(mut plan in plan(), above in any::<bool>()) {
        // To Git no file is hidden.
        plan.1.iter_mut().for_each(|(_, _, rules)| rules.retain(|&rule| RULES[rule] != "!.h"));
        plan.1.retain(|(_, file, _)| IGNORING[*file] != ".ignore");
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let repository = if above { "" } else { "p" };
        fs::create_dir_all(home.join("p")).unwrap();
        git(&home.join(repository), &["init", "-q"]);
        let root = make(&home, &plan, Some(repository));
        let listed = git(&root, &["ls-files", "-z", "--others", "--exclude-standard"]);
        let hidden = |path: &str| path.split('/').any(|name| name.starts_with('.'));
        let theirs: BTreeSet<PathBuf> =
            listed.split('\0').filter(|path| !path.is_empty() && !hidden(path)).map(|path| root.join(path)).collect();
        let mut ours = own(&root);
        ours.retain(|path| !path.is_dir() && !hidden(path.strip_prefix(&root).unwrap().to_str().unwrap()));
        prop_assert_eq!(ours, theirs);
    }
}

/// What of the project in `root` is its own, its files alone; and what is left out.
fn told(root: &Path) -> (Vec<String>, Vec<String>) {
    let (mut own, mut left_out) = (Vec::new(), Vec::new());
    let name = |path: &Path| path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
    walk(root, &mut |found| {
        match found {
            Found::File(path, _) => own.push(name(path)),
            Found::LeftOut(path, LeftOut::LinkedWorktree) => left_out.push(format!("{} linked", name(path))),
            Found::LeftOut(path, LeftOut::Repository) => left_out.push(format!("{} repository", name(path))),
            Found::LeftOut(path, LeftOut::IgnoreFile(why)) => left_out.push(format!("{}: {why}", name(path))),
            Found::Failed(path, error) => panic!("{path:?} {error}"),
            _ => {}
        }
        WalkState::Continue
    });
    own.sort();
    left_out.sort();
    (own, left_out)
}

fn files(root: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

#[test]
fn another_repository_is_part_of_a_project_if_a_system_of_it_is_depended_on() {
    let home = tempfile::tempdir().unwrap();
    let root = home.path().canonicalize().unwrap();
    files(
        &root,
        &[
            ("p.asd", "(defsystem \"p\" :depends-on (\"lib/part\" \"alexandria\"))"),
            ("lib/.git/HEAD", ""),
            (
                "lib/lib.asd",
                "(defsystem \"lib\" :depends-on ((:version \"far\" \"1\")))\n(defsystem \"lib/part\")",
            ),
            ("far/.git", "gitdir: ../.git/modules/far\n"),
            ("far/src/far.asd", "(defsystem \"far\")"),
            ("other/.git/HEAD", ""),
            ("other/other.asd", "(defsystem \"other\" :depends-on (\"p\"))"),
            ("other/lib/.git/HEAD", ""),
            ("other/lib/lib.asd", "(defsystem \"lib\")"),
            ("copy/.git/HEAD", ""),
            ("copy/p.asd", "(defsystem \"p\")"),
            ("wt/.git", "gitdir: /gone/.git/worktrees/wt\n"),
            ("wt/lib.asd", "(defsystem \"lib\")"),
        ],
    );
    let own = vec!["far/src/far.asd", "lib/lib.asd", "p.asd"];
    let left = vec!["copy repository", "other repository", "wt linked"];
    assert_eq!(
        told(&root),
        (own.into_iter().map(str::to_owned).collect(), left.into_iter().map(str::to_owned).collect())
    );
    let why = |path: &str| belonging(&root, &root.join(path)).map(|why| why.to_string());
    for path in ["p.asd", "lib/lib.asd", "far/src/far.asd"] {
        assert_eq!(why(path), None, "{path}");
    }
    for path in ["other/other.asd", "other/lib/lib.asd", "copy/p.asd", "wt/lib.asd"] {
        assert!(why(path).is_some(), "{path}");
    }
    // The root is the project, whatever it is to Git.
    assert_eq!(told(&root.join("wt")).0, ["lib.asd"]);
    assert_eq!(told(&root.join("far")).0, ["src/far.asd"]);
}

#[test]
fn a_definition_that_does_not_tell_its_dependencies_may_have_any() {
    let home = tempfile::tempdir().unwrap();
    let root = home.path().canonicalize().unwrap();
    files(
        &root,
        &[
            ("p.asd", "(defsystem \"p\" :class :package-inferred-system)"),
            ("copy/.git/HEAD", ""),
            ("copy/p.asd", "(defsystem \"p\")"),
            ("lib/.git/HEAD", ""),
            ("lib/lib.asd", "(defsystem \"lib\")"),
        ],
    );
    assert_eq!(told(&root).1, ["copy repository"]);
}

#[test]
fn a_folder_of_projects_has_their_repositories_but_no_linked_worktree() {
    let home = tempfile::tempdir().unwrap();
    let root = home.path().canonicalize().unwrap();
    files(
        &root,
        &[
            ("one/.git/worktrees/w/commondir", "../..\n"),
            ("one/one.lisp", ""),
            ("w/.git", "gitdir: ../one/.git/worktrees/w\n"),
            ("w/one.lisp", ""),
        ],
    );
    assert_eq!(told(&root), (vec!["one/one.lisp".to_owned()], vec!["w linked".to_owned()]));
}

#[test]
fn an_ignore_file_that_is_no_plain_file_says_nothing_and_is_told() {
    let home = tempfile::tempdir().unwrap();
    let root = home.path().canonicalize().unwrap();
    files(&root, &[("x.lisp", ""), ("a/.gitignore", "x.lisp\n"), ("a/x.lisp", ""), (".git/info/HEAD", "")]);
    symlink("a/.gitignore", root.join(".gitignore")).unwrap();
    symlink("/dev/zero", root.join(".git/info/exclude")).unwrap();
    fs::create_dir(root.join("b")).unwrap();
    fs::File::create(root.join("b/.gitignore")).unwrap().set_len(3 << 30).unwrap();
    fs::create_dir_all(root.join("c/.gitignore")).unwrap();
    let expected = [
        ".git/info/exclude: it is a link", ".gitignore: it is a link",
        "b/.gitignore: it is longer than 1 MiB", "c/.gitignore: it is no plain file",
    ];
    assert_eq!(told(&root), (vec!["x.lisp".to_owned()], expected.map(str::to_owned).to_vec()));
}
