//! Finds the lines of the working tree that differ from the last git commit, with the old text of
//! each file.
//!
//! git only supplies names and stored contents; this module compares the files by their bytes. So
//! nothing that a repository's configuration or attributes name is run: no filter, no hook, no file
//! system monitor, no program that fetches missing objects. Clean filters are therefore not applied
//! before the comparison. A file that was not touched since git wrote it counts as unchanged
//! without being read.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel, sync_channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use steelbank_tree::read_unlinked;

use super::impact::ImpactError;
use crate::actions::change::unified::{DiffLine, difference};
use crate::engine::control::Control;
use crate::engine::deadline_after;
use crate::handle::Error;

/// Ranges of lines, counted from 1, both ends included.
type Ranges = Vec<(u32, u32)>;

/// A file that differs from the last commit.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ChangedFile {
    /// Its path below the root.
    pub(crate) path: PathBuf,
    /// New lines. If lines were only removed, an empty range for the gap: only a definition with
    /// lines on both sides of the gap overlaps it.
    pub(crate) added: Ranges,
    /// Lines of the old text that the new text does not contain.
    pub(crate) removed: Ranges,
    /// The file's text in the last commit. Empty if the commit does not contain the file, or if the
    /// file is too large.
    pub(crate) old: Vec<u8>,
    /// Whether the working tree contains the file as a plain file.
    pub(crate) is_there: bool,
}

/// The maximum time without output from git: it may open a FIFO or an endless file in a repository.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(4);
/// The maximum size of git's data segment, in bytes. Mapped files do not count.
const MEMORY: u64 = 1 << 30;
/// The interval at which a wait for git checks for cancellation.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The largest file that is compared, in bytes. A larger file is compared as if it were empty.
const LARGEST_FILE: u64 = 64 << 20;
/// The maximum size of git's output, in bytes. A list of a million files is shorter.
const LONGEST_LIST: usize = 1 << 28;

/// The hash of a blob, in hexadecimal digits.
type Blob = Vec<u8>;

/// An entry of the index.
#[derive(Debug, Default, PartialEq, Eq)]
struct IndexEntry {
    blob: Blob,
    /// Whether git ignores changes of the file: it is outside a sparse checkout, or marked as
    /// unchanged.
    ignored: bool,
    /// The file's status when git last wrote or read it.
    status: Option<Status>,
}

/// The metadata that show whether a file was touched: both times in seconds and nanoseconds, inode
/// and size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Status {
    changed: (i64, i64),
    modified: (i64, i64),
    inode: u64,
    size: u64,
}

impl Status {
    fn of(metadata: &std::fs::Metadata) -> Self {
        // The index stores only the lower halves of inode and size.
        let half = |number: u64| number & u64::from(u32::MAX);
        Self {
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            inode: half(metadata.ino()),
            size: half(metadata.size()),
        }
    }
}

/// Runs git in a folder until a deadline.
struct Git<'a> {
    root: &'a Path,
    control: &'a Control,
    deadline: Instant,
}

/// A git process that is killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn failed(error: &std::io::Error) -> Error {
    ImpactError::Git(error.to_string()).into()
}

impl Git<'_> {
    fn start(&self, arguments: &[&str], input: Stdio, errors: Stdio) -> Result<Running, Error> {
        let mut command = Command::new("git");
        command.arg("--no-pager").arg("-C").arg(self.root);
        for setting in ["core.fsmonitor=false", "core.hooksPath=/dev/null", "core.quotePath=false"] {
            command.args(["-c", setting]);
        }
        command.args(arguments).stdin(input).stdout(Stdio::piped()).stderr(errors);
        // Never fetch missing objects. Older versions of git only support the second variable.
        command.env("GIT_NO_LAZY_FETCH", "1").env("GIT_ALLOW_PROTOCOL", "none");
        command.env("GIT_OPTIONAL_LOCKS", "0").env("GIT_TERMINAL_PROMPT", "0");
        let running = command.spawn().map(Running);
        let running = running.map_err(|error| ImpactError::Git(format!("it could not be run: {error}")))?;
        let limit = Rlimit { current: Some(MEMORY), maximum: Some(MEMORY) };
        // Ignore the error: the process has ended, or the limit is already lower.
        let _ = prlimit(Pid::from_raw(running.0.id().cast_signed()), Resource::Data, limit);
        Ok(running)
    }

    /// Waits for the next item from a thread that reads git's output. Returns `None` when the
    /// thread has ended.
    fn wait<T>(&self, sent: &Receiver<T>) -> Result<Option<T>, Error> {
        let silence = Instant::now() + OUTPUT_TIMEOUT;
        loop {
            match sent.recv_timeout(POLL_INTERVAL) {
                Ok(sent) => return Ok(Some(sent)),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => self.control.check()?,
            }
            let now = Instant::now();
            if now >= self.deadline {
                let milliseconds = self.control.allowed().as_millis();
                return Err(ImpactError::Git(format!("it did not answer within {milliseconds} ms")).into());
            }
            if now >= silence {
                let why = format!("it printed nothing for {} s", OUTPUT_TIMEOUT.as_secs());
                return Err(ImpactError::Git(why).into());
            }
        }
    }

    /// Returns the output of a git command.
    ///
    /// # Errors
    /// The command fails, does not answer in time, or is cancelled.
    fn list(&self, arguments: &[&str]) -> Result<Vec<u8>, Error> {
        let mut git = self.start(arguments, Stdio::null(), Stdio::piped())?;
        let (sender, sent) = sync_channel(16);
        let streams: [Option<Box<dyn Read + Send>>; 2] = [
            git.0.stdout.take().map(|stream| Box::new(stream) as _),
            git.0.stderr.take().map(|stream| Box::new(stream) as _),
        ];
        for (number, stream) in streams.into_iter().enumerate() {
            let sender = sender.clone();
            std::thread::spawn(move || -> Option<()> {
                let mut stream = stream?;
                let mut part = vec![0; 1 << 16];
                loop {
                    let read = match stream.read(&mut part) {
                        Ok(0) => return None,
                        Ok(length) => Ok((number, part[..length].to_vec())),
                        Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                        Err(error) => Err(error),
                    };
                    let failed = read.is_err();
                    // Nobody receives after a cancellation or a timeout.
                    sender.send(read).ok().filter(|()| !failed)?;
                }
            });
        }
        drop(sender);
        let mut texts = [Vec::new(), Vec::new()];
        while let Some(read) = self.wait(&sent)? {
            let (number, part) = read.map_err(|error| failed(&error))?;
            texts[number].extend(part);
            if texts[number].len() > LONGEST_LIST {
                return Err(
                    ImpactError::Git(format!("it printed more than {} MB", LONGEST_LIST >> 20)).into()
                );
            }
        }
        let [output, errors] = texts;
        let status = git.0.wait().map_err(|error| failed(&error))?;
        if status.success() {
            return Ok(output);
        }
        let why = String::from_utf8_lossy(&errors);
        // git may print its usage after the first line.
        let first = why.lines().map(str::trim).find(|line| !line.is_empty());
        let why = first.map_or_else(
            || format!("it ended with {status}"),
            |first| first.trim_start_matches("warning: ").to_owned(),
        );
        Err(ImpactError::Git(why).into())
    }

    /// Lists the plain files of the last commit below the root.
    fn committed(&self) -> Result<BTreeMap<PathBuf, Blob>, Error> {
        let output = self.list(&["ls-tree", "-r", "-z", "HEAD"])?;
        let entries = output.split(|byte| *byte == 0).filter_map(|entry| {
            let (start, path) = entry.split_at(entry.iter().position(|byte| *byte == b'\t')?);
            let mut words = start.split(|byte| *byte == b' ');
            let (mode, _, blob) = (words.next()?, words.next()?, words.next()?);
            is_plain(mode).then(|| (named(&path[1..]), blob.to_owned()))
        });
        Ok(entries.collect())
    }

    /// Lists the plain files of the index below the root.
    fn index(&self) -> Result<BTreeMap<PathBuf, IndexEntry>, Error> {
        Ok(entries(&self.list(&["ls-files", "-s", "-v", "-z", "--debug"])?))
    }

    /// Returns the time when the index was last written. A file that was modified at this time or
    /// later may have changed again without a new status. Without an index, the time is 0, so that
    /// no file counts as untouched.
    fn index_written(&self) -> Result<(i64, i64), Error> {
        let output = self.list(&["rev-parse", "--git-path", "index"])?;
        let path = named(output.strip_suffix(b"\n").unwrap_or(&output));
        let metadata = std::fs::metadata(self.root.join(path));
        Ok(metadata.map_or((0, 0), |metadata| (metadata.mtime(), metadata.mtime_nsec())))
    }
}

fn named(path: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(path))
}

/// Whether `mode`, as git writes it, is that of a file, not of a link or a submodule.
fn is_plain(mode: &[u8]) -> bool {
    mode.starts_with(b"100")
}

/// Parses the output of `git ls-files -s -v -z --debug`. An entry with an unexpected format has no
/// status.
fn entries(listed: &[u8]) -> BTreeMap<PathBuf, IndexEntry> {
    let mut found = BTreeMap::new();
    let mut rest = listed;
    while let Some(end) = rest.iter().position(|byte| *byte == 0) {
        let (start, after) = (&rest[..end], &rest[end + 1..]);
        // The lines of the status begin with two spaces.
        let mut length = 0;
        for line in after.split_inclusive(|byte| *byte == b'\n') {
            if !line.starts_with(b"  ") {
                break;
            }
            length += line.len();
        }
        rest = &after[length..];
        let Some(tab) = start.iter().position(|byte| *byte == b'\t') else { continue };
        let mut words = start[..tab].split(|byte| *byte == b' ');
        let (Some(tag), Some(mode), Some(blob)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        if is_plain(mode) {
            let ignored = tag == b"S" || tag.iter().all(u8::is_ascii_lowercase);
            let status = std::str::from_utf8(&after[..length]).ok().and_then(status);
            found.insert(named(&start[tab + 1..]), IndexEntry { blob: blob.to_owned(), ignored, status });
        }
    }
    found
}

/// Parses the status that `git ls-files --debug` prints for a file.
fn status(text: &str) -> Option<Status> {
    let mut words = text.split_ascii_whitespace();
    let mut status = Status::default();
    while let Some(name) = words.next() {
        let value = words.next()?;
        let time = || -> Option<(i64, i64)> {
            let (seconds, rest) = value.split_once(':')?;
            Some((seconds.parse().ok()?, rest.parse().ok()?))
        };
        match name {
            "ctime:" => status.changed = time()?,
            "mtime:" => status.modified = time()?,
            "ino:" => status.inode = value.parse().ok()?,
            "size:" => status.size = value.parse().ok()?,
            _ => (),
        }
    }
    (status.modified != (0, 0)).then_some(status)
}

/// A `git cat-file` process that returns the contents of blobs.
struct Blobs {
    // Dropping it kills git, which ends the reading thread.
    _git: Running,
    input: ChildStdin,
    contents: Receiver<std::io::Result<Option<Vec<u8>>>>,
}

impl Blobs {
    fn start(git: &Git<'_>) -> Result<Self, Error> {
        let mut running = git.start(&["cat-file", "--batch"], Stdio::piped(), Stdio::null())?;
        let (Some(input), Some(output)) = (running.0.stdin.take(), running.0.stdout.take()) else {
            return Err(ImpactError::Git("it has no streams".to_owned()).into());
        };
        let (sender, contents) = channel();
        std::thread::spawn(move || {
            let mut output = BufReader::new(output);
            while let Some(read) = next_blob(&mut output).transpose() {
                if sender.send(read).is_err() {
                    break;
                }
            }
        });
        Ok(Self { _git: running, input, contents })
    }

    /// Returns the contents of `blob`, which the last commit has at `path`. They are empty if the
    /// file is too large.
    fn read(&mut self, git: &Git<'_>, blob: &[u8], path: &Path) -> Result<Vec<u8>, Error> {
        self.input
            .write_all(&[blob, b"\n"].concat())
            .and_then(|()| self.input.flush())
            .map_err(|error| failed(&error))?;
        let contents = git.wait(&self.contents)?;
        let contents = contents
            .ok_or_else(|| ImpactError::Git("it ended in the middle of an answer".to_owned()))?
            .map_err(|error| failed(&error))?;
        contents.ok_or_else(|| {
            let why = format!(
                "this repository lacks the committed version of {}; fetch it with `git show HEAD:./FILE`",
                path.display()
            );
            ImpactError::Git(why).into()
        })
    }
}

/// Reads the next answer of `git cat-file --batch`. `None`: end of the output. `Some(None)`: the
/// blob is missing. The contents of a blob that is too large are dropped.
fn next_blob(output: &mut impl BufRead) -> std::io::Result<Option<Option<Vec<u8>>>> {
    let mut header = String::new();
    if output.read_line(&mut header)? == 0 {
        return Ok(None);
    }
    let Some(size) = header.trim_end().rsplit(' ').next().and_then(|size| size.parse::<u64>().ok()) else {
        return Ok(Some(None));
    };
    let mut contents = Vec::new();
    if size <= LARGEST_FILE {
        output.take(size).read_to_end(&mut contents)?;
    } else {
        std::io::copy(&mut output.take(size), &mut std::io::sink())?;
    }
    output.read_line(&mut header)?;
    Ok(Some(Some(contents)))
}

/// Calls `take` for each tracked file below `root` that is no longer a plain file, or that differs
/// from the last commit in its lines, ignoring line ends. Files with changes that git ignores are
/// skipped. A moved file counts as removed and added.
pub(crate) fn changes(
    root: &Path,
    control: &Control,
    mut take: impl FnMut(ChangedFile),
) -> Result<(), Error> {
    let git = Git { root, control, deadline: deadline_after(control.allowed()) };
    let committed = git.committed()?;
    let index = git.index()?;
    let written = git.index_written()?;
    let mut blobs: Option<Blobs> = None;
    let new = index.keys().filter(|path| !committed.contains_key(*path));
    for path in committed.keys().chain(new) {
        control.check()?;
        let (blob, entry) = (committed.get(path), index.get(path));
        if entry.is_some_and(|entry| entry.ignored) {
            continue;
        }
        let file = root.join(path);
        let metadata =
            std::fs::symlink_metadata(&file).ok().filter(|found| found.is_file() && entry.is_some());
        if let (Some(entry), Some(metadata)) = (entry, &metadata) {
            let status = Status::of(metadata);
            let untouched = entry.status == Some(status) && status.modified < written;
            if untouched && Some(&entry.blob) == blob {
                continue;
            }
        }
        let old = match blob {
            None => Vec::new(),
            Some(blob) => {
                let blobs = match &mut blobs {
                    Some(blobs) => blobs,
                    none => none.insert(Blobs::start(&git)?),
                };
                blobs.read(&git, blob, path)?
            }
        };
        let new = metadata.as_ref().map(|_| read_unlinked(&file, LARGEST_FILE).unwrap_or_default());
        let (added, removed) = changed_lines(&old, new.as_deref().unwrap_or_default());
        if new.is_none() || !added.is_empty() || !removed.is_empty() {
            take(ChangedFile { path: path.clone(), added, removed, old, is_there: new.is_some() });
        }
    }
    Ok(())
}

/// Splits `text` into lines without their ends, which git may convert.
fn lines(text: &[u8]) -> Vec<&[u8]> {
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    let bare = |line| <[u8]>::strip_suffix(line, b"\n").unwrap_or(line);
    lines.map(bare).map(|line| line.strip_suffix(b"\r").unwrap_or(line)).collect()
}

/// Returns the lines of `new` that `old` does not contain, and the reverse. Where lines were only
/// removed, the first list has an empty range.
fn changed_lines(old: &[u8], new: &[u8]) -> (Ranges, Ranges) {
    if old == new {
        return Default::default();
    }
    let (mut added, mut removed) = (Ranges::new(), Ranges::new());
    let (mut old_line, mut new_line) = (0_u32, 0_u32);
    let diff = difference(&lines(old), &lines(new));
    for part in diff.chunk_by(|one, other| is_same(one) == is_same(other)) {
        let count = |side: fn(&DiffLine) -> bool| {
            u32::try_from(part.iter().filter(|line| side(line)).count()).unwrap_or(u32::MAX)
        };
        let lost = count(|line| !matches!(line, DiffLine::Added(_)));
        let won = count(|line| !matches!(line, DiffLine::Removed(_)));
        if !part.first().is_some_and(is_same) {
            added.push((new_line + 1, new_line + won));
            if lost > 0 {
                removed.push((old_line + 1, old_line + lost));
            }
        }
        (old_line, new_line) = (old_line + lost, new_line + won);
    }
    (added, removed)
}

fn is_same(line: &DiffLine) -> bool {
    matches!(line, DiffLine::Same(..))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_lines_lists_both_sides() {
        let old: String = (1..=40).map(|line| format!("({line})\n")).collect();
        let new = old
            .replace("(3)\n(4)\n", "(a)\n(b)\n(c)\n(d)\n")
            .replace("(20)\n", "(e)\n")
            .replace("(30)\n(31)\n", "");
        let (added, removed) = changed_lines(old.as_bytes(), new.as_bytes());
        assert_eq!(added, [(3, 6), (22, 22), (32, 31)]);
        assert_eq!(removed, [(3, 4), (20, 20), (30, 31)]);
        assert_eq!(changed_lines(b"(a)\n", b""), (vec![(1, 0)], vec![(1, 1)]));
        assert_eq!(changed_lines(b"", b"(a)"), (vec![(1, 1)], vec![]));
    }

    #[test]
    fn line_end_conversion_is_no_change() {
        assert_eq!(changed_lines(b"(a)\n(b)\n", b"(a)\r\n(b)\r\n"), Default::default());
        assert_eq!(changed_lines(b"(a)\n(b)\n", b"(a)\r\n(c)"), (vec![(2, 2)], vec![(2, 2)]));
    }

    #[test]
    fn entries_reads_files_with_and_without_status() {
        let listed = b"H 100644 aa 0\ta b.lisp\0  ctime: 17:5\n  mtime: 16:4\n  dev: 1\tino: 9\n  uid: 0\tgid: 0\n  \
            size: 2\tflags: 0\nS 100755 bb 0\tb\0  new words\nh 100644 cc 2\tc\0H 160000 dd 0\tsub\0H 120000 ee 0\tlink\0";
        let found = entries(listed);
        let status = Status { changed: (17, 5), modified: (16, 4), inode: 9, size: 2 };
        let entry =
            |blob: &str, ignored, status| IndexEntry { blob: blob.as_bytes().to_owned(), ignored, status };
        assert_eq!(
            found.into_iter().collect::<Vec<_>>(),
            [
                (PathBuf::from("a b.lisp"), entry("aa", false, Some(status))),
                (PathBuf::from("b"), entry("bb", true, None)),
                (PathBuf::from("c"), entry("cc", true, None)),
            ]
        );
    }

    #[test]
    fn next_blob_reads_consecutive_answers() {
        let mut output = &b"aa blob 3\nx\ny\nbb missing\ncc blob 0\n\n"[..];
        let mut next = || next_blob(&mut output).unwrap();
        assert_eq!(next(), Some(Some(b"x\ny".to_vec())));
        assert_eq!(next(), Some(None));
        assert_eq!(next(), Some(Some(Vec::new())));
        assert_eq!(next(), None);
    }
}
