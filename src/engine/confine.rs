//! Confines this process with Landlock and seccomp (Linux): its threads and their children may write below one folder
//! only. Landlock knows folders, but neither sockets of all kinds, nor what is kept of a file beside its contents, nor what
//! processes share and settle for each other; these calls are refused by a filter. What a superuser may do to the system goes with
//! the capabilities.
//!
//! The few system calls are made here rather than by crates: those are more code than they are, and bring procedural
//! macros.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

/// The reason why a process cannot be confined, as a clause.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfineError {
    /// The kernel has no Landlock, or it is turned off.
    #[error("this kernel has no Landlock, or it is turned off ({0})")]
    Missing(String),
    /// Its Landlock cannot refuse everything that writes.
    #[error("this kernel's Landlock (version {0}) cannot keep files from being truncated: Linux 6.2 can")]
    TooOld(i64),
    /// A call failed.
    #[error("the kernel refuses to confine it: {0}")]
    Refused(String),
}

/// The first version of Landlock that refuses all that changes a file's contents.
const LEAST_VERSION: i64 = 3;

// From linux/landlock.h.
const VERSION: u32 = 1;
const RULE_PATH_BENEATH: i32 = 1;
const WRITE_FILE: u64 = 1 << 1;
/// To remove and make what a folder holds, of all kinds.
const CHANGE_FOLDER: u64 = 0x1ff << 4;
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;
const IOCTL_DEVICE: u64 = 1 << 15;
/// To bind and to connect TCP sockets.
const TCP: u64 = 0b11;
/// Abstract Unix sockets of others, and signals to them.
const OTHERS: u64 = 0b11;

/// `struct landlock_ruleset_attr`. Older kernels take a longer one if what they do not know is zero.
#[repr(C)]
#[derive(Debug, PartialEq, Eq)]
struct Ruleset {
    handled_files: u64,
    handled_network: u64,
    scoped: u64,
}

/// `struct landlock_path_beneath_attr`.
#[repr(C, packed)]
struct PathBeneath {
    allowed: u64,
    folder: RawFd,
}

impl Ruleset {
    /// What Landlock of `version` is to refuse: writes, TCP from version 4, signals and abstract sockets from 6.
    fn of(version: i64) -> Result<Self, ConfineError> {
        if version < LEAST_VERSION {
            return Err(ConfineError::TooOld(version));
        }
        let from = |least, rights| if version >= least { rights } else { 0 };
        Ok(Self {
            handled_files: WRITE_FILE | CHANGE_FOLDER | REFER | TRUNCATE | from(5, IOCTL_DEVICE),
            handled_network: from(4, TCP),
            scoped: from(6, OTHERS),
        })
    }
}

fn checked(result: i64) -> Result<i64, ConfineError> {
    if result < 0 { Err(ConfineError::Refused(io::Error::last_os_error().to_string())) } else { Ok(result) }
}

/// What the filter refuses: sockets; owner, mode, times and attributes of files; memory, semaphores, queues and keys that
/// processes share; other processes' priorities and places; and the ring by which calls are made that no filter sees.
const REFUSED_CALLS: &[i64] = &[
    libc::SYS_socket,
    libc::SYS_io_uring_setup,
    libc::SYS_chmod,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchmodat2,
    libc::SYS_chown,
    libc::SYS_fchown,
    libc::SYS_lchown,
    libc::SYS_fchownat,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    // setxattrat, removexattrat, file_setattr
    463,
    466,
    469,
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_setpriority,
    libc::SYS_ioprio_set,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
];

/// The device controls that the filter lets through: they ask what a terminal is, and how much can be read, or set a flag of
/// the process's own descriptor. Others put input into terminals and change attributes of files that are open for reading.
const ALLOWED_CONTROLS: &[u64] = &[
    libc::TCGETS,
    libc::TIOCGPGRP,
    libc::TIOCGWINSZ,
    libc::FIONREAD,
    libc::FIONBIO,
    libc::FIOCLEX,
    libc::FIONCLEX,
];

/// The numbers of the calls of other kinds of programs (x32) begin here.
const OTHER_CALLS: u32 = 0x4000_0000;

/// The filter's program: calls of other architectures, [`REFUSED_CALLS`] and limits of another process fail with EACCES, and all but
/// [`ALLOWED_CONTROLS`] with ENOTTY, as where there is no such control.
fn filter() -> Vec<libc::sock_filter> {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    // AUDIT_ARCH_X86_64
    const X86_64: u32 = 0xc000_003e;
    let refusal = libc::SECCOMP_RET_ERRNO | libc::EACCES.unsigned_abs();
    let step = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
    // Each test is followed by its refusal: a jump of one.
    let mut program = vec![
        step(LOAD, 4, 0, 0),
        step(EQUAL, X86_64, 1, 0),
        step(RETURN, refusal, 0, 0),
        step(LOAD, 0, 0, 0),
        step(AT_LEAST, OTHER_CALLS, 0, 1),
        step(RETURN, refusal, 0, 0),
    ];
    for call in REFUSED_CALLS {
        program.push(step(EQUAL, u32::try_from(*call).unwrap_or(OTHER_CALLS), 0, 1));
        program.push(step(RETURN, refusal, 0, 0));
    }
    let allow = step(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0);
    // The lower halves of the first and second argument: numbers of 32 bits both.
    let (first, second) = (step(LOAD, 16, 0, 0), step(LOAD, 24, 0, 0));
    let only = |program: &mut Vec<_>, call: i64, argument, values: &[u64], refusal| {
        let count = u8::try_from(values.len()).unwrap_or(0);
        // Others skip the argument, each test of it, the refusal and the permission.
        program.push(step(EQUAL, u32::try_from(call).unwrap_or(OTHER_CALLS), 0, count + 3));
        program.push(argument);
        for (left, value) in (1..=count).rev().zip(values) {
            program.push(step(EQUAL, u32::try_from(*value).unwrap_or(OTHER_CALLS), left, 0));
        }
        program.extend([step(RETURN, refusal, 0, 0), allow]);
    };
    only(&mut program, libc::SYS_prlimit64, first, &[0], refusal);
    let no_control = libc::SECCOMP_RET_ERRNO | libc::ENOTTY.unsigned_abs();
    only(&mut program, libc::SYS_ioctl, second, ALLOWED_CONTROLS, no_control);
    program.push(allow);
    program
}

/// Confines this process for good, and all that it starts: it may write below `folder` and to `/dev/null`, and
/// nowhere else, change nothing of a file but its contents, make no socket, and settle nothing for the system or other
/// processes. What it may read and execute stays. Closes descriptors that it inherited, the standard ones
/// excepted. To be called while the process has one thread: others would not be confined.
///
/// # Errors
/// The kernel cannot do that, or there are other threads. The process is then of no use: it may be confined in part.
pub fn confine(folder: &Path) -> Result<(), ConfineError> {
    let refused = |error: io::Error| ConfineError::Refused(error.to_string());
    if std::fs::read_dir("/proc/self/task").map_err(refused)?.count() != 1 {
        return Err(ConfineError::Refused("it has several threads".to_owned()));
    }
    // SAFETY: without a ruleset and with this flag, the call reads and writes nothing, and returns a number.
    let version = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<Ruleset>(), 0_usize, VERSION)
    };
    if version < 0 {
        return Err(ConfineError::Missing(io::Error::last_os_error().to_string()));
    }
    let ruleset = Ruleset::of(version)?;
    // SAFETY: the call reads a ruleset of this size, which lives until it returns.
    let made = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, &raw const ruleset, size_of::<Ruleset>(), 0_u32)
    };
    let made = RawFd::try_from(checked(made)?).unwrap_or(-1);
    // SAFETY: the kernel has just opened this descriptor, for nobody else.
    let rules = unsafe { OwnedFd::from_raw_fd(made) };
    for (path, allowed) in [(folder, ruleset.handled_files), (Path::new("/dev/null"), WRITE_FILE | TRUNCATE)]
    {
        let place = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
            .map_err(|error| refused(error.into()))?;
        let rule = PathBeneath { allowed, folder: place.as_raw_fd() };
        // SAFETY: the call reads a rule of the kind that it is told, which lives until it returns, as do both
        // descriptors.
        checked(unsafe {
            libc::syscall(
                libc::SYS_landlock_add_rule,
                rules.as_raw_fd(),
                RULE_PATH_BENEATH,
                &raw const rule,
                0_u32,
            )
        })?;
    }
    close_inherited().map_err(refused)?;
    // A superuser's copy may read all that a superuser may, and do nothing else. What it executes has no more (no new
    // privileges, below).
    let mut sets = capabilities(None).map_err(|error| refused(error.into()))?;
    sets.permitted &= CapabilitySet::DAC_READ_SEARCH;
    sets.effective &= CapabilitySet::DAC_READ_SEARCH;
    sets.inheritable = CapabilitySet::empty();
    set_capabilities(None, sets).map_err(|error| refused(error.into()))?;
    // SAFETY: the call sets a flag of this thread; it takes numbers only.
    checked(i64::from(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }))?;
    // SAFETY: the call takes the descriptor of a ruleset, which is open until it returns.
    checked(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0_u32) })?;
    let mut steps = filter();
    let program =
        libc::sock_fprog { len: u16::try_from(steps.len()).unwrap_or_default(), filter: steps.as_mut_ptr() };
    // SAFETY: the call reads a program of this many steps, which live until it returns.
    checked(i64::from(unsafe {
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
    }))?;
    Ok(())
}

/// Closes the descriptors that came with the execution: through one, code could write to a file that is open.
fn close_inherited() -> io::Result<()> {
    let all: Vec<RawFd> = std::fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    for descriptor in all.into_iter().filter(|descriptor| *descriptor > 2) {
        // SAFETY: the call reads the descriptor's flags; one that is gone meanwhile is an error.
        let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFD) };
        if flags >= 0 && flags & libc::FD_CLOEXEC == 0 {
            // SAFETY: what this process has opened itself closes at an execution. This one does not, so it was open
            // before, and nothing here owns it.
            unsafe { libc::close(descriptor) };
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_follows_from_the_kernel() {
        assert_eq!(Ruleset::of(2), Err(ConfineError::TooOld(2)));
        let oldest = Ruleset::of(3).unwrap();
        assert_eq!((oldest.handled_files, oldest.handled_network, oldest.scoped), (0x7ff2, 0, 0));
        let now = Ruleset::of(7).unwrap();
        assert_eq!((now.handled_files, now.handled_network, now.scoped), (0xfff2, 3, 3));
    }

    /// What the filter returns for a call, as the kernel runs it.
    fn filtered(call: i64, arguments: [u64; 2]) -> u32 {
        let program = filter();
        let (mut at, mut word) = (0, 0);
        loop {
            let step = program[at];
            at += 1;
            match u32::from(step.code) {
                code if code == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS => {
                    word = match step.k {
                        0 => call as u32,
                        4 => 0xc000_003e,
                        16 => arguments[0] as u32,
                        24 => arguments[1] as u32,
                        other => panic!("{other}"),
                    }
                }
                code if code & 7 == libc::BPF_JMP => {
                    let holds = if code & 0xf0 == libc::BPF_JEQ { word == step.k } else { word >= step.k };
                    at += usize::from(if holds { step.jt } else { step.jf });
                }
                _ => return step.k,
            }
        }
    }

    #[test]
    fn the_filter_refuses_what_it_names_and_nothing_else() {
        let refusal = libc::SECCOMP_RET_ERRNO | libc::EACCES as u32;
        for call in REFUSED_CALLS {
            assert_eq!(filtered(*call, [0, 0]), refusal, "{call}");
        }
        assert_eq!(filtered(0x4000_0000, [0, 0]), refusal);
        for call in
            [libc::SYS_read, libc::SYS_openat, libc::SYS_execve, libc::SYS_clone, libc::SYS_socketpair, 500]
        {
            assert_eq!(filtered(call, [7, 0x5412]), libc::SECCOMP_RET_ALLOW, "{call}");
        }
        assert_eq!(filtered(libc::SYS_prlimit64, [0, 7]), libc::SECCOMP_RET_ALLOW);
        assert_eq!(filtered(libc::SYS_prlimit64, [1, 7]), refusal);
        for control in ALLOWED_CONTROLS {
            assert_eq!(filtered(libc::SYS_ioctl, [3, *control]), libc::SECCOMP_RET_ALLOW, "{control}");
        }
        for control in [libc::TIOCSTI, 0x4008_6602, 0x4004_9409, 0x1_5401] {
            assert_eq!(
                filtered(libc::SYS_ioctl, [3, control]),
                libc::SECCOMP_RET_ERRNO | libc::ENOTTY as u32
            );
        }
    }
}
