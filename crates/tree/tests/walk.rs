//! Compares the walk with that of the crate `ignore` and with Git, on random trees. Tests which
//! nested repositories belong to a project.

#![allow(clippy::unwrap_used, clippy::panic)]

use ignore::WalkBuilder;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use steelbank_tree::{Found, LeftOut, WalkState, admits, belonging, is_in_working_tree, walk};

/// A random tree: files by number of folder and name, and ignore files with their rules.
type Plan = (Vec<(usize, usize)>, Vec<(usize, usize, Vec<usize>)>);

const FOLDERS: [&str; 7] = ["", "a", "b", "a/b", "a/b/c", "b/.d", "b/x"];
const NAMES: [&str; 6] = ["x", "y.lisp", "z.txt", ".h", "w.lisp", "a"];
const RULES: [&str; 18] = [
    "*.txt", "a/", "/b", "!y.lisp", "b/c", "**/c/", "x", "/a/b/*", "# x", "!x", "a/**", "*", "!*/", "[xy]*",
    "\\!x", "/x/", "!.h", " ",
];
/// The folders and names of the ignore files. The project is `p`.
const ABOVE: [&str; 7] = ["", "p", "p/a", "p/b", "p/a/b", "p/b/x", "p/a/b/c"];
const IGNORING: [&str; 3] = [".gitignore", ".ignore", ".git/info/exclude"];

fn plan() -> impl Strategy<Value = Plan> {
    let files = prop::collection::vec((0..FOLDERS.len(), 0..NAMES.len()), 1..14);
    let rules = prop::collection::vec(0..RULES.len(), 1..5);
    let ignoring = prop::collection::vec((0..ABOVE.len(), 0..IGNORING.len(), rules), 0..6);
    (files, ignoring)
}

/// Creates the tree in `home`, with the project in the folder `p`, and a repository in the folder
/// `repository`.
fn make(home: &Path, (files, ignoring): &Plan, repository: Option<&str>) -> PathBuf {
    let root = home.join("p");
    for &(folder, name) in files {
        let folder = root.join(FOLDERS[folder]);
        // A file may already exist where a folder is needed, or the reverse.
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
        // Write rules only into existing folders, so that this creates no folder or repository.
        let _ = fs::write(file, text);
    }
    root
}

fn walked(root: &Path) -> BTreeSet<PathBuf> {
    let mut walked = BTreeSet::new();
    walk(root, &mut |found| {
        match found {
            Found::Folder(path) | Found::File(path, _) => drop(walked.insert(path.to_owned())),
            Found::Ignoring { folder, .. } => assert!(walked.contains(folder)),
            other => panic!("{other:?}"),
        }
        WalkState::Continue
    });
    walked
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if std::env::var_os("STEELBANK_FULL").is_some() { 40000 } else { 400 }, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn walk_equals_crate_ignore(plan in plan(), repository in 0..3_usize) {
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
        prop_assert_eq!(walked(&root), theirs);
        // `admits` must agree for every single file.
        let walked = walked(&root);
        for folder in walked.iter().filter(|path| path.is_dir()) {
            for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
                prop_assert_eq!(admits(&root, &path), Some(walked.contains(&path)), "{:?}", path);
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
    fn walk_equals_git(mut plan in plan(), above in any::<bool>()) {
        // Git does not treat any file as hidden.
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
        let mut ours = walked(&root);
        ours.retain(|path| !path.is_dir() && !hidden(path.strip_prefix(&root).unwrap().to_str().unwrap()));
        prop_assert_eq!(ours, theirs);
    }
}

/// Returns the files of the project in `root`, and the paths left out with the reason.
fn walk_result(root: &Path) -> (Vec<String>, Vec<String>) {
    let (mut walked, mut left_out) = (Vec::new(), Vec::new());
    let name = |path: &Path| path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
    walk(root, &mut |found| {
        match found {
            Found::File(path, _) => walked.push(name(path)),
            Found::LeftOut(path, LeftOut::LinkedWorktree) => left_out.push(format!("{} linked", name(path))),
            Found::LeftOut(path, LeftOut::Repository) => left_out.push(format!("{} repository", name(path))),
            Found::LeftOut(path, LeftOut::IgnoreFile(why)) => left_out.push(format!("{}: {why}", name(path))),
            Found::Failed(path, error) => panic!("{path:?} {error}"),
            _ => {}
        }
        WalkState::Continue
    });
    walked.sort();
    left_out.sort();
    (walked, left_out)
}

fn files(root: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

#[test]
fn nested_repository_belongs_if_project_depends_on_it() {
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
    let walked = vec!["far/src/far.asd", "lib/lib.asd", "p.asd"];
    let left = vec!["copy repository", "other repository", "wt linked"];
    assert_eq!(
        walk_result(&root),
        (walked.into_iter().map(str::to_owned).collect(), left.into_iter().map(str::to_owned).collect())
    );
    let why = |path: &str| belonging(&root, &root.join(path)).map(|why| why.to_string());
    for path in ["p.asd", "lib/lib.asd", "far/src/far.asd"] {
        assert_eq!(why(path), None, "{path}");
    }
    for path in ["other/other.asd", "other/lib/lib.asd", "copy/p.asd", "wt/lib.asd"] {
        assert!(why(path).is_some(), "{path}");
    }
    // The root is always the project, even if it is a linked worktree or a repository inside
    // another repository.
    assert_eq!(walk_result(&root.join("wt")).0, ["lib.asd"]);
    assert_eq!(walk_result(&root.join("far")).0, ["src/far.asd"]);
}

#[test]
fn computed_dependencies_may_be_any_system() {
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
    assert_eq!(walk_result(&root).1, ["copy repository"]);
}

#[test]
fn folder_of_projects_includes_repositories_not_worktrees() {
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
    assert_eq!(walk_result(&root), (vec!["one/one.lisp".to_owned()], vec!["w linked".to_owned()]));
}

#[test]
fn irregular_ignore_file_is_skipped_and_reported() {
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
        "b/.gitignore: it is longer than 1 MiB", "c/.gitignore: it is not a regular file",
    ];
    assert_eq!(walk_result(&root), (vec!["x.lisp".to_owned()], expected.map(str::to_owned).to_vec()));
}
