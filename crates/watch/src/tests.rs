use super::*;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::{Command, Stdio};
use std::sync::mpsc;

struct World {
    _folder: tempfile::TempDir,
    root: PathBuf,
    watch: Watch,
}

impl World {
    fn new() -> World {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap().join("root");
        fs::create_dir(&root).unwrap();
        let mut watch = Watch::new().unwrap();
        assert_eq!(watch.folder(&root), Watched::New);
        assert_eq!(watch.folder(&root), Watched::Already);
        World { _folder: folder, root, watch }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Returns the reported paths and kinds of change, without duplicates.
    fn reported(&mut self) -> Vec<(String, ChangeKind)> {
        let Changes::Some(changes) = self.watch.changes() else { return Vec::new() };
        let mut reported: Vec<_> = changes
            .into_iter()
            .map(|change| {
                let path = change.path.strip_prefix(&self.root).unwrap();
                (path.to_str().unwrap().to_owned(), change.what)
            })
            .collect();
        reported.sort_by_key(|(path, what)| (path.clone(), *what as u8));
        reported.dedup();
        reported
    }
}

/// Tests the assumption behind this crate: when the writer's call has returned, the event is in the
/// queue.
#[test]
fn change_by_another_thread_is_reported_immediately() {
    let mut world = World::new();
    let (file, other) = (world.path("file"), world.path("other"));
    fs::write(&file, "0").unwrap();
    world.reported();
    let (ask, asked) = mpsc::sync_channel::<usize>(0);
    let (done, is_done) = mpsc::sync_channel(0);
    let at = file.clone();
    let writer = std::thread::spawn(move || {
        let mut open = fs::OpenOptions::new().write(true).open(&at).unwrap();
        for round in asked {
            match round % 5 {
                0 => open.write_all(b"1").unwrap(),
                1 => open.set_len(0).unwrap(),
                2 => fs::rename(&at, &other).unwrap(),
                3 => fs::rename(&other, &at).unwrap(),
                _ => fs::set_permissions(&at, fs::Permissions::from_mode(0o600)).unwrap(),
            }
            done.send(()).unwrap();
        }
    });
    for round in 0..20_000 {
        ask.send(round).unwrap();
        is_done.recv().unwrap();
        assert!(matches!(world.watch.changes(), Changes::Some(_)), "round {round}");
    }
    drop(ask);
    writer.join().unwrap();
    assert!(matches!(world.watch.changes(), Changes::Some(_)), "the file was closed");
    assert_eq!(world.watch.changes(), Changes::Nothing);
}

#[test]
fn change_by_another_process_is_reported_immediately() {
    let mut world = World::new();
    let script = "while read line; do echo \"$line\" >> \"$0\"; echo; done";
    let mut child = Command::new("sh")
        .args(["-c", script])
        .arg(world.path("file"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    for round in 0..10_000 {
        writeln!(input, "{round}").unwrap();
        output.read_line(&mut line).unwrap();
        assert!(matches!(world.watch.changes(), Changes::Some(_)), "round {round}");
    }
    drop(input);
    child.wait().unwrap();
}

#[test]
fn each_kind_of_change_is_reported() {
    let mut world = World::new();
    assert!(world.reported().is_empty());
    let file = world.path("a");
    fs::write(&file, "one").unwrap();
    assert_eq!(
        world.reported(),
        [("a".to_owned(), ChangeKind::Contents), ("a".to_owned(), ChangeKind::Entry)]
    );
    assert!(world.watch.file(&file));
    assert!(world.reported().is_empty());
    fs::write(&file, "two").unwrap();
    assert_eq!(world.reported(), [("a".to_owned(), ChangeKind::Contents)]);
    fs::rename(&file, world.path("b")).unwrap();
    assert_eq!(world.reported(), [("a".to_owned(), ChangeKind::Entry), ("b".to_owned(), ChangeKind::Entry)]);
    fs::set_permissions(world.path("b"), fs::Permissions::from_mode(0o600)).unwrap();
    assert!(world.reported().contains(&("b".to_owned(), ChangeKind::Contents)));
    assert!(world.watch.file(&world.path("b")));
    fs::remove_file(world.path("b")).unwrap();
    let gone = world.reported();
    assert!(gone.contains(&("b".to_owned(), ChangeKind::Entry)));
    assert!(gone.iter().all(|(_, what)| *what != ChangeKind::Folder), "{gone:?}");
    fs::create_dir(world.path("sub")).unwrap();
    assert_eq!(world.reported(), [("sub".to_owned(), ChangeKind::Folder)]);
    assert_eq!(world.watch.folder(&world.path("sub")), Watched::New);
    fs::write(world.path("sub/x"), "").unwrap();
    assert!(world.reported().contains(&("sub/x".to_owned(), ChangeKind::Entry)));
    fs::set_permissions(world.path("sub"), fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(world.reported(), [("sub".to_owned(), ChangeKind::Contents)]);
    symlink("nowhere", world.path("link")).unwrap();
    assert_eq!(world.reported(), [("link".to_owned(), ChangeKind::Entry)]);
}

#[test]
fn hard_link_is_reported_and_makes_file_unreliable() {
    let mut world = World::new();
    let (file, outside) = (world.path("a"), world.root.parent().unwrap().join("outside"));
    fs::write(&file, "one").unwrap();
    world.reported();
    assert!(world.watch.file(&file));
    fs::hard_link(&file, &outside).unwrap();
    assert_eq!(world.reported(), [("a".to_owned(), ChangeKind::Contents)]);
    assert!(!world.watch.file(&file), "writes through the other name are not reported");
    fs::remove_file(&outside).unwrap();
    assert_eq!(world.reported(), [("a".to_owned(), ChangeKind::Contents)]);
    assert!(world.watch.file(&file));
    symlink(&file, world.path("link")).unwrap();
    world.reported();
    assert!(!world.watch.file(&world.path("link")) && !world.watch.file(&world.path("missing")));
    let elsewhere = world.root.parent().unwrap().join("b");
    fs::write(&elsewhere, "").unwrap();
    assert!(!world.watch.file(&elsewhere), "its folder is not watched");
    assert_eq!(world.watch.folder(&world.path("link")), Watched::No);
}

#[test]
fn replaced_file_is_watched_as_new_file() {
    let mut world = World::new();
    let (file, new) = (world.path("a"), world.path("new"));
    for round in 0..100 {
        fs::write(&new, format!("{round}")).unwrap();
        fs::rename(&new, &file).unwrap();
        assert!(world.reported().contains(&("a".to_owned(), ChangeKind::Entry)));
        assert!(world.watch.file(&file));
    }
    world.reported();
    fs::hard_link(&file, world.root.parent().unwrap().join("outside")).unwrap();
    assert_eq!(world.reported(), [("a".to_owned(), ChangeKind::Contents)]);
    assert_eq!(world.watch.numbers.len(), 2);
    assert_eq!(world.watch.watched.len(), 2);
}

#[test]
fn moved_folder_is_forgotten_and_watched_again() {
    let mut world = World::new();
    let (old, new) = (world.path("old"), world.path("new"));
    fs::create_dir_all(old.join("deep")).unwrap();
    for folder in [&old, &old.join("deep")] {
        assert_eq!(world.watch.folder(folder), Watched::New);
    }
    world.reported();
    fs::rename(&old, &new).unwrap();
    let reported = world.reported();
    for name in ["old", "new"] {
        assert!(reported.contains(&(name.to_owned(), ChangeKind::Folder)), "{reported:?}");
    }
    world.watch.forget(&old);
    assert!(!world.watch.is_watched(&old.join("deep")) && world.watch.is_watched(&world.root));
    assert_eq!(world.watch.folder(&new.join("deep")), Watched::New);
    fs::write(new.join("deep/x"), "").unwrap();
    assert!(world.reported().contains(&("new/deep/x".to_owned(), ChangeKind::Entry)));
}

#[test]
fn removed_root_is_reported() {
    for remove in [true, false] {
        let mut world = World::new();
        if remove {
            fs::remove_dir(&world.root).unwrap();
        } else {
            fs::rename(&world.root, world.root.with_extension("away")).unwrap();
        }
        assert_eq!(world.reported(), [(String::new(), ChangeKind::Folder)]);
    }
}

#[test]
fn queue_overflow_reports_everything() {
    let mut world = World::new();
    let most: usize =
        fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap().trim().parse().unwrap();
    let (a, b) = (world.path("a"), world.path("b"));
    fs::write(&a, "").unwrap();
    for _ in 0..most / 4 + 10 {
        fs::rename(&a, &b).unwrap();
        fs::rename(&b, &a).unwrap();
    }
    assert_eq!(world.watch.changes(), Changes::Everything);
    assert_eq!(world.watch.changes(), Changes::Everything, "the watch reports this until it is replaced");
}

#[test]
fn refusal_has_its_reason() {
    let mut world = World::new();
    assert_eq!(world.watch.refusal(), None);
    assert_eq!(world.watch.folder(Path::new("/proc/sys")), Watched::No);
    assert_eq!(world.watch.refusal(), Some(WatchRefusal::FileSystem));
    // A missing folder is not a refusal.
    assert_eq!(world.watch.folder(&world.root.join("nowhere")), Watched::No);
    assert_eq!(world.watch.refusal(), None);
    let of = |error: rustix::io::Errno| WatchRefusal::of(&error.into());
    assert!(matches!(of(rustix::io::Errno::NOSPC), WatchRefusal::Watches { most } if most == queue::limit()));
    assert_eq!(
        [of(rustix::io::Errno::MFILE), of(rustix::io::Errno::NOSYS)],
        [WatchRefusal::Queues, WatchRefusal::System]
    );
}

#[test]
fn closed_descriptor_reports_everything() {
    let world = World::new();
    let mut watch = world.watch;
    let mut other = Watch::new().unwrap();
    std::mem::swap(&mut watch.numbers, &mut other.numbers);
    // Simulate a reused descriptor number.
    watch.queue.simulate_reuse();
    assert_eq!(watch.changes(), Changes::Everything);
}

#[test]
fn wait_ends_with_change_or_timeout() {
    let mut world = World::new();
    let waiter = world.watch.waiter();
    assert!(!waiter.wait(Duration::from_millis(1)));
    let file = world.path("a");
    let thread = std::thread::spawn(move || fs::write(file, "x").unwrap());
    assert!(waiter.wait(Duration::from_secs(60)));
    thread.join().unwrap();
    assert!(!world.reported().is_empty());
    assert!(!waiter.wait(Duration::ZERO));
}

#[test]
fn only_local_file_systems_are_trusted() {
    assert!(!queue::reports_all_changes(Path::new("/proc")));
    let folder = tempfile::tempdir().unwrap();
    let device = folder.path().metadata().unwrap().dev();
    let mut watch = Watch::new().unwrap();
    watch.reporting.insert(device, false);
    assert_eq!(watch.folder(folder.path()), Watched::No);
}

#[test]
fn files_use_only_a_share_of_watches() {
    let mut world = World::new();
    let (a, b) = (world.path("a"), world.path("b"));
    for file in [&a, &b] {
        fs::write(file, "").unwrap();
    }
    world.watch.most = 2;
    assert!(world.watch.file(&a) && world.watch.file(&a) && !world.watch.file(&b));
}

#[test]
fn moved_ancestor_folder_is_reported() {
    let mut world = World::new();
    let (far, away) = (world.root.join("far"), world.root.join("away"));
    let deep = far.join("deep/er");
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("a"), "").unwrap();
    assert!(!world.watch.file(&deep.join("a")));
    assert!(world.watch.above(&deep));
    assert!(world.watch.is_watched(&world.root), "an existing watch is not replaced");
    assert!(!world.watch.is_watched(&far), "changes of its entries are not reported");
    assert_eq!(world.watch.folder(&deep), Watched::New);
    assert!(world.watch.file(&deep.join("a")));
    world.reported();
    world.watch.names = &["of note"];
    fs::write(far.join("noise"), "").unwrap();
    assert!(world.reported().is_empty());
    fs::write(far.join("of note"), "").unwrap();
    assert_eq!(world.reported(), [("far/of note".to_owned(), ChangeKind::Entry)]);
    fs::rename(&far, &away).unwrap();
    assert!(world.reported().contains(&("far".to_owned(), ChangeKind::Folder)));
    world.watch.forget(&far);
    assert!(!world.watch.is_watched(&deep));
}

/// Lists the kernel's watches of the queue, by inode.
fn watched_by_kernel(watch: &Watch) -> Vec<String> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", watch.queue.descriptor())).unwrap();
    let inodes = info.lines().filter(|line| line.starts_with("inotify"));
    inodes.map(|line| line.split(' ').nth(2).unwrap().to_owned()).collect()
}

#[test]
fn watches_sharing_a_queue_get_separate_changes() {
    let mut world = World::new();
    let (own, common) = (world.path("own"), world.path("common"));
    for folder in [&own, &common] {
        fs::create_dir(folder).unwrap();
    }
    world.reported();
    let mut other = world.watch.queue.watch().unwrap();
    assert_eq!([world.watch.folder(&own), world.watch.folder(&common)], [Watched::New; 2]);
    assert!(other.above(&common.join("x")));
    assert_eq!([other.folder(&common), other.folder(&common)], [Watched::New, Watched::Already]);
    let inodes = watched_by_kernel(&world.watch);
    assert_eq!(inodes.len(), 2 + world.root.ancestors().count(), "{inodes:?}");
    let changed = |path: &Path| fs::write(path.join("file"), "x").unwrap();
    let told = |watch: &mut Watch, folder: &Path| match watch.changes() {
        Changes::Some(changes) => changes.iter().any(|change| change.path == folder.join("file")),
        Changes::Nothing => false,
        Changes::Everything => panic!(),
    };
    for _ in 0..2 {
        changed(&common);
        assert_eq!([told(&mut other, &common), told(&mut world.watch, &common)], [true; 2]);
        assert_eq!([other.changes(), world.watch.changes()], [Changes::Nothing, Changes::Nothing]);
        changed(&own);
        assert_eq!([told(&mut other, &own), told(&mut world.watch, &own)], [false, true]);
    }
    // Forgetting a path in one watch does not affect the other.
    world.watch.forget(&common);
    changed(&common);
    assert_eq!([told(&mut world.watch, &common), told(&mut other, &common)], [false, true]);
    assert_eq!(world.watch.folder(&common), Watched::New);
    drop(other);
    changed(&common);
    assert!(told(&mut world.watch, &common));
    let left = watched_by_kernel(&world.watch);
    assert_eq!(left.len(), 3, "{left:?}");
}

#[test]
fn unread_watch_loses_only_its_changes() {
    let mut world = World::new();
    let mut idle = world.watch.queue.watch().unwrap();
    idle.folder(&world.root);
    let file = world.path("file");
    // Each round causes at least one event.
    for round in 0..=shared::MAX_UNREAD {
        fs::write(&file, format!("{round}")).unwrap();
        assert!(matches!(world.watch.changes(), Changes::Some(_)), "round {round}");
    }
    assert_eq!([idle.changes(), idle.changes()], [Changes::Everything, Changes::Everything]);
    assert_eq!(world.watch.changes(), Changes::Nothing);
    // After events were lost, the next watch has a new queue, and the old ones report `Everything`.
    let most: usize =
        fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap().trim().parse().unwrap();
    (0..most).for_each(|round| fs::write(&file, format!("{round}")).unwrap());
    assert_eq!(world.watch.changes(), Changes::Everything);
    let mut new = world.watch.queue.watch().unwrap();
    assert_eq!(new.folder(&world.root), Watched::New);
    drop(idle);
    fs::write(&file, "").unwrap();
    assert!(matches!(new.changes(), Changes::Some(_)));
    assert_eq!(world.watch.changes(), Changes::Everything);
}

#[test]
fn wait_ends_when_another_watch_reads_change() {
    let mut world = World::new();
    let mut other = world.watch.queue.watch().unwrap();
    other.folder(&world.root);
    let waiter = other.waiter();
    let thread = std::thread::spawn(move || waiter.wait(Duration::from_secs(60)));
    fs::write(world.path("a"), "x").unwrap();
    world.reported();
    assert!(thread.join().unwrap());
    assert!(matches!(other.changes(), Changes::Some(_)));
}
