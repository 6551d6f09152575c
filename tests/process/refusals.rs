//! Tests of a system that refuses requests of the program: the program answers as before, or names
//! the refused request.

use std::ffi::{CStr, OsStr};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io};

use libc::sock_filter;
use steelbank::engine::StartError;
use steelbank::{DescribeSymbolRequest, Error, Steelbank, WhoRequest};

use crate::asks::Asks;
use crate::program::{Folder, STEELBANK, outcome};
use crate::texts::expect_text;

/// The system calls that a sandbox may refuse.
const CALLS: &[(&str, i64)] = &[
    ("memfd_create", libc::SYS_memfd_create),
    ("personality", libc::SYS_personality),
    ("execveat", libc::SYS_execveat),
    ("ptrace", libc::SYS_ptrace),
    ("inotify_init1", libc::SYS_inotify_init1),
    ("statx", libc::SYS_statx),
    ("io_uring_setup", libc::SYS_io_uring_setup),
    ("close_range", libc::SYS_close_range),
    ("clone3", libc::SYS_clone3),
    ("userfaultfd", libc::SYS_userfaultfd),
    ("rseq", libc::SYS_rseq),
    ("mbind", libc::SYS_mbind),
    ("getrandom", libc::SYS_getrandom),
    ("prlimit64", libc::SYS_prlimit64),
    ("membarrier", libc::SYS_membarrier),
    ("copy_file_range", libc::SYS_copy_file_range),
    ("faccessat2", libc::SYS_faccessat2),
    ("openat2", libc::SYS_openat2),
    ("flock", libc::SYS_flock),
    ("timer_create", libc::SYS_timer_create),
    ("eventfd2", libc::SYS_eventfd2),
    ("madvise", libc::SYS_madvise),
    ("sched_getaffinity", libc::SYS_sched_getaffinity),
    ("setitimer", libc::SYS_setitimer),
    ("fallocate", libc::SYS_fallocate),
];

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const ANY_BIT: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

fn step(code: u16, k: u32) -> sock_filter {
    jump(code, k, 0, 0)
}

fn jump(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

fn error(errno: i32) -> u32 {
    libc::SECCOMP_RET_ERRNO | errno.unsigned_abs()
}

/// Refuses a system call.
fn refusing(call: i64, errno: i32) -> Vec<sock_filter> {
    vec![
        step(LOAD, 0),
        jump(EQUAL, u32::try_from(call).unwrap(), 0, 1),
        step(RETURN, error(errno)),
        step(RETURN, libc::SECCOMP_RET_ALLOW),
    ]
}

/// Refuses memory that is writable and executable, as MemoryDenyWriteExecute= does. Permits it with
/// a flag in `but`.
fn refusing_write_execute(but: i32) -> Vec<sock_filter> {
    const PROTECTION: u32 = 16 + 2 * 8;
    const FLAGS: u32 = 16 + 3 * 8;
    let both = (libc::PROT_WRITE | libc::PROT_EXEC).unsigned_abs();
    vec![
        step(LOAD, 0),
        jump(EQUAL, u32::try_from(libc::SYS_mmap).unwrap(), 0, 6),
        step(LOAD, PROTECTION),
        step(AND, both),
        jump(EQUAL, both, 0, 3),
        step(LOAD, FLAGS),
        jump(ANY_BIT, but.unsigned_abs(), 1, 0),
        step(RETURN, error(libc::EPERM)),
        step(RETURN, libc::SECCOMP_RET_ALLOW),
    ]
}

/// Runs the program under `filter` with a project that is not compiled.
fn under(filter: Vec<sock_filter>, folder: &Path) -> (String, String, Option<i32>) {
    let cache = tempfile::tempdir_in(folder).unwrap();
    let mut command = Command::new(STEELBANK);
    command
        .args(["--project", ".", "--system", "p", "--no-snapshot", "who-calls", "cl-user::one"])
        .current_dir(folder.join("p"))
        .env("HOME", cache.path())
        .env("STEELBANK_CACHE", cache.path())
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null());
    let refuse = move || {
        let program = libc::sock_fprog {
            len: u16::try_from(filter.len()).unwrap_or(0),
            filter: filter.as_ptr().cast_mut(),
        };
        // SAFETY: the numbers are those of a call without pointers.
        let ready = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        // SAFETY: the filter is complete, and outlives the call.
        let set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
        if ready == 0 && set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // SAFETY: between fork and exec the closure makes two system calls, and allocates nothing.
    unsafe { command.pre_exec(refuse) };
    outcome(&command.output().unwrap())
}

fn project(name: &str) -> Folder {
    let folder = Folder::new(name);
    fs::create_dir(folder.join("p")).unwrap();
    fs::write(folder.join("p/p.asd"), "(defsystem \"p\" :components ((:file \"a\")))").unwrap();
    fs::write(folder.join("p/a.lisp"), "(defun one () 1)\n(defun two () (one))\n").unwrap();
    folder
}

#[test]
fn refused_system_calls_are_tolerated_or_named() {
    let folder = project("refused-calls");
    let (answer, errors, code) = under(vec![step(RETURN, libc::SECCOMP_RET_ALLOW)], &folder);
    assert!(answer.contains("COMMON-LISP-USER::TWO") && code == Some(0), "{answer} {errors}");
    for (name, call) in CALLS {
        for (errno, what) in [(libc::EPERM, "EPERM"), (libc::ENOSYS, "ENOSYS")] {
            let (text, errors, code) = under(refusing(*call, errno), &folder);
            if (*name, errno) == ("clone3", libc::EPERM) {
                assert_eq!(code, Some(3), "{errors}");
                expect_text("clone3", &errors);
            } else {
                assert_eq!((code, &text), (Some(0), &answer), "{name} {what}: {errors}");
            }
        }
    }
}

#[test]
fn refused_executable_memory_is_reported() {
    let folder = project("refused-memory");
    let (_, errors, code) = under(refusing_write_execute(0), &folder);
    assert_eq!(code, Some(3), "{errors}");
    expect_text("executable memory", &errors);
    // The probe succeeds and later requests fail. SBCL alone would execute the program again.
    let (text, errors, code) = under(refusing_write_execute(libc::MAP_FIXED_NOREPLACE), &folder);
    assert_eq!((text.as_str(), code), ("", Some(3)), "{errors}");
    let last = errors.lines().last().unwrap();
    assert!(last.starts_with("steelbank: ") && !errors.contains("--noinform"), "{errors}");
}

/// Maps a page of this test's program at `address`.
fn take(address: usize) -> *mut libc::c_void {
    let program = fs::File::open(std::env::current_exe().unwrap()).unwrap();
    let flags = libc::MAP_PRIVATE | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: the call fails if the address is in use, so the page is new.
    let page = unsafe { libc::mmap(address as *mut _, 4096, libc::PROT_READ, flags, program.as_raw_fd(), 0) };
    assert_eq!(page as usize, address, "{}", io::Error::last_os_error());
    page
}

#[test]
fn occupied_address_is_reported() {
    own_process!();
    let page = take(0x5000_8000);
    let program = std::env::current_exe().unwrap();
    match Steelbank::builder().start() {
        Err(Error::Start(StartError::AddressTaken { start, end, owner })) => {
            assert!((start..end).contains(&(page as usize)), "{start:#x} {end:#x}");
            assert_eq!(owner, program.to_str().unwrap());
        }
        other => panic!("{:?}", other.map(drop)),
    }
    // SAFETY: the page is this function's, and nothing points into it.
    assert_eq!(unsafe { libc::munmap(page, 4096) }, 0);
    // The failed attempt does not count as the process's one start.
    assert!(Steelbank::builder().start().unwrap().answer(&WhoRequest::calls("cl:mapcar")).count > 300);
}

#[test]
fn occupied_preferred_addresses_are_tolerated() {
    own_process!();
    for address in [0x5010_0000, 0x5020_0000, 0x5210_0000, 0x10_0000_0000, 0xb8_0000_0000] {
        take(address);
    }
    let bank = Steelbank::builder().start().unwrap();
    assert!(bank.answer(&WhoRequest::calls("mapcar").package("CL")).count > 300);
    bank.answer(&DescribeSymbolRequest::new("car").package("CL"));
}

/// SBCL would use another `steelbank` on PATH as its executable.
#[test]
fn program_on_path_is_ignored() {
    let folder = project("on-path");
    let programs = folder.join("bin");
    fs::create_dir(&programs).unwrap();
    std::os::unix::fs::symlink(STEELBANK, programs.join("steelbank")).unwrap();
    let path = [programs.as_os_str(), OsStr::new("/usr/bin:/bin")].join(OsStr::new(":"));
    let run = |home: Option<&Path>, arguments: &[&str]| {
        let mut command = Command::new(STEELBANK);
        command.args(arguments).current_dir(folder.join("p")).env("PATH", &path).stdin(Stdio::null());
        command.env("HOME", &folder).env("STEELBANK_CACHE", folder.join("cache"));
        command.envs(home.map(|home| ("STEELBANK_HOME", home)));
        let (text, errors, code) = outcome(&command.output().unwrap());
        assert_eq!(code, Some(0), "{text} {errors}");
        text
    };
    let image = PathBuf::from(steelbank::Installation::BUILT);
    let text = run(Some(&image), &["describe-symbol", "cl:mapcar"]);
    assert!(text.starts_with("COMMON-LISP::MAPCAR"), "{text}");
    run(None, &["--system", "p", "snapshot"]);
    let core = run(None, &["--system", "p", "evaluate", "sb-ext:*core-pathname*"]);
    assert!(core.contains("/proc/self/fd/"), "not from the snapshot: {core}");
}

/// Without /proc, the program cannot start from the single file, but from separate files.
#[test]
fn program_starts_without_proc_from_files() {
    let run = |home: Option<&str>| {
        let mut command = Command::new(STEELBANK);
        command.args(["describe-symbol", "car"]).stdin(Stdio::null());
        command.envs(home.map(|home| ("STEELBANK_HOME", home)));
        let hide = || {
            let nothing: *const libc::c_void = std::ptr::null();
            let mount = |source: &CStr, target: &CStr, kind: &CStr, flags| {
                // SAFETY: the texts are NUL-terminated, and there is no data.
                unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, nothing) }
            };
            // SAFETY: the call takes a number.
            let apart = unsafe { libc::unshare(libc::CLONE_NEWNS) };
            if apart != 0
                || mount(c"none", c"/", c"", libc::MS_REC | libc::MS_PRIVATE) != 0
                || mount(c"none", c"/proc", c"tmpfs", 0) != 0
            {
                return Err(io::Error::last_os_error());
            }
            Ok(())
        };
        // SAFETY: between fork and exec the closure makes system calls only.
        unsafe { command.pre_exec(hide) };
        command.output()
    };
    let refused = match run(None) {
        Ok(output) => outcome(&output),
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
            println!("seen: only the superuser can hide /proc: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    assert_eq!(refused.2, Some(3), "{refused:?}");
    expect_text("no /proc", &refused.1);
    let (text, errors, code) = outcome(&run(Some(steelbank::Installation::BUILT)).unwrap());
    assert!(code == Some(0) && text.starts_with("COMMON-LISP::CAR"), "{text} {errors}");
}
