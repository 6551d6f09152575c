//! Helpers for several benches: the fixtures' libraries, copies of folders, plain SBCL, and the
//! cost of processes.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use steelbank::engine::DEFAULT_HEAP_MEGABYTES;

/// The fixtures' systems that load on every machine.
pub(crate) const LIBRARIES: [&str; 25] = [
    "alexandria", "anaphora", "babel", "bordeaux-threads", "chunga", "cffi", "cl-fad", "flexi-streams",
    "cl-interpol", "cl-ppcre", "split-sequence", "trivial-gray-streams", "cl-unicode", "cl-who",
    "closer-mop", "fiveam", "iterate", "local-time", "named-readtables", "nibbles", "parse-number", "puri",
    "trivial-backtrace", "usocket", "yason",
];

/// Copies the folder `from` with its contents.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), &to).unwrap();
        }
    }
}

/// Returns a command that runs the SBCL built by bootstrap, with steelbank's heap size, ASDF, and
/// fasls in `cache`, and evaluates `forms`.
pub(crate) fn plain_sbcl(cache: &Path, forms: &[&str]) -> Command {
    let tree = Path::new(steelbank::Installation::BUILT_SBCL);
    let mut command = Command::new(tree.join("src/runtime/sbcl"));
    command
        .arg("--core")
        .arg(tree.join("output/sbcl.core"))
        .args(["--noinform", "--dynamic-space-size", &format!("{DEFAULT_HEAP_MEGABYTES}MB")])
        .args(["--no-sysinit", "--no-userinit", "--non-interactive", "--eval", "(require :asdf)"])
        .args(forms.iter().flat_map(|form| ["--eval", form]))
        .env("SBCL_HOME", tree.join("obj/sbcl-home"))
        .env("XDG_CACHE_HOME", cache);
    command
}

/// Runs `work`. Returns its result, and the processor time of all child processes that ended
/// meanwhile and were waited for, including their descendants.
pub(crate) fn processor_of<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let now = || {
        let mut usage = std::mem::MaybeUninit::uninit();
        // SAFETY: getrusage initializes `usage`.
        let usage: libc::rusage = unsafe {
            assert_eq!(libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr()), 0);
            usage.assume_init()
        };
        let time = |time: libc::timeval| {
            Duration::new(time.tv_sec.unsigned_abs(), 1000 * u32::try_from(time.tv_usec).unwrap())
        };
        time(usage.ru_utime) + time(usage.ru_stime)
    };
    let before = now();
    let done = work();
    (done, now() - before)
}
