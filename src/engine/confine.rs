//! Confines this process with Landlock and seccomp (Linux), so that its threads and their children
//! can write in one folder only.
//!
//! Landlock restricts writes by folder, but does not cover all kinds of sockets, the attributes of
//! files, or the resources that processes share; a seccomp filter refuses the system calls for
//! these. Dropping capabilities removes a superuser's powers over the system.
//!
//! The few system calls are made here directly: crates for them are larger than this code and
//! depend on procedural macros.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

/// The reason why a process cannot be confined. The messages are clauses, without a capital and a
/// full stop.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfineError {
    /// The kernel has no Landlock, or it is disabled.
    #[error("this kernel has no Landlock, or it is disabled ({0})")]
    Missing(String),
    /// The kernel's Landlock cannot refuse every kind of write.
    #[error("this kernel's Landlock (version {0}) cannot prevent truncation: use Linux 6.2 or later")]
    TooOld(i64),
    /// A system call failed, or the process has several threads.
    #[error("the kernel refuses to confine the process: {0}")]
    Refused(String),
}

/// The first version of Landlock that can refuse every change of a file's contents, including
/// truncation.
const MIN_VERSION: i64 = 3;

// From linux/landlock.h.
const VERSION: u32 = 1;
const RULE_PATH_BENEATH: i32 = 1;
const WRITE_FILE: u64 = 1 << 1;
/// The nine rights to change the entries of a folder: two to remove entries, and seven to create
/// entries of different kinds.
const CHANGE_FOLDER: u64 = 0x1ff << 4;
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;
const IOCTL_DEVICE: u64 = 1 << 15;
/// The rights to bind and to connect TCP sockets.
const TCP: u64 = 0b11;
/// The scopes for abstract Unix sockets and for signals: through these, confined processes reach
/// only each other.
const SCOPED: u64 = 0b11;

/// `struct landlock_ruleset_attr`. Older kernels accept a longer struct if the fields that they do
/// not support are zero.
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
    /// Returns the rules for version `version` of Landlock. The rules restrict writes. From version
    /// 4, they also restrict TCP; from version 5, ioctl requests to devices; from version 6,
    /// signals and abstract sockets.
    fn of(version: i64) -> Result<Self, ConfineError> {
        if version < MIN_VERSION {
            return Err(ConfineError::TooOld(version));
        }
        let from = |least, rights| if version >= least { rights } else { 0 };
        Ok(Self {
            handled_files: WRITE_FILE | CHANGE_FOLDER | REFER | TRUNCATE | from(5, IOCTL_DEVICE),
            handled_network: from(4, TCP),
            scoped: from(6, SCOPED),
        })
    }
}

fn checked(result: i64) -> Result<i64, ConfineError> {
    if result < 0 { Err(ConfineError::Refused(io::Error::last_os_error().to_string())) } else { Ok(result) }
}

/// The system calls that the filter refuses. They create sockets; change the owner, mode, times or
/// attributes of files; use shared memory, semaphores, message queues or keys; or change the
/// priority, processors or memory placement of processes. io_uring is among them because its
/// operations bypass filters.
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

/// The ioctl requests that the filter allows. They query terminals and the number of readable
/// bytes, or set flags of the process's descriptors. Other requests could inject input into
/// terminals or change attributes of files that are open for reading.
const ALLOWED_CONTROLS: &[u64] = &[
    libc::TCGETS,
    libc::TIOCGPGRP,
    libc::TIOCGWINSZ,
    libc::FIONREAD,
    libc::FIONBIO,
    libc::FIOCLEX,
    libc::FIONCLEX,
];

/// The number of the first system call of the x32 ABI; all later numbers are x32, too.
const OTHER_CALLS: u32 = 0x4000_0000;

/// Returns the program of the seccomp filter. System calls of other ABIs, [`REFUSED_CALLS`], and
/// `prlimit64` for a process ID other than 0 (this process) fail with EACCES. ioctl requests other
/// than [`ALLOWED_CONTROLS`] fail with ENOTTY, as if they did not exist.
fn filter() -> Vec<libc::sock_filter> {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    // AUDIT_ARCH_X86_64
    const X86_64: u32 = 0xc000_003e;
    let refusal = libc::SECCOMP_RET_ERRNO | libc::EACCES.unsigned_abs();
    let step = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
    // A refusal follows each test. A test that the call passes jumps over the refusal.
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
    // The lower halves of the first and second argument; both are 32-bit numbers.
    let (first, second) = (step(LOAD, 16, 0, 0), step(LOAD, 24, 0, 0));
    let only = |program: &mut Vec<_>, call: i64, argument, values: &[u64], refusal| {
        let count = u8::try_from(values.len()).unwrap_or(0);
        // For other calls, skip the loading of the argument, its tests, the refusal and the
        // permission.
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

/// Permanently confines this process and its future children. They may write only in `folder` and
/// to `/dev/null`, change no attributes of files, create no sockets except socket pairs, and affect
/// neither the system nor other processes. Before version 6 of Landlock, they can still send
/// signals. Reading and executing stay allowed. Closes inherited descriptors except the standard
/// ones. Must be called while the process has one thread, because other threads would not be
/// confined.
pub fn confine(folder: &Path) -> Result<(), ConfineError> {
    let refused = |error: io::Error| ConfineError::Refused(error.to_string());
    if std::fs::read_dir("/proc/self/task").map_err(refused)?.count() != 1 {
        return Err(ConfineError::Refused("the process has several threads".to_owned()));
    }
    // SAFETY: without a ruleset and with this flag, the call reads and writes nothing, and returns
    // a number.
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
    // SAFETY: the kernel has just opened this descriptor for this call, so nothing else owns it.
    let rules = unsafe { OwnedFd::from_raw_fd(made) };
    for (path, allowed) in [(folder, ruleset.handled_files), (Path::new("/dev/null"), WRITE_FILE | TRUNCATE)]
    {
        let place = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
            .map_err(|error| refused(error.into()))?;
        let rule = PathBeneath { allowed, folder: place.as_raw_fd() };
        // SAFETY: the call reads a rule of the kind given by RULE_PATH_BENEATH. The rule and both
        // descriptors live until the call returns.
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
    // A confined process of a superuser may still read everything, but has no other powers.
    // PR_SET_NO_NEW_PRIVS below prevents programs that it executes from regaining them.
    let mut sets = capabilities(None).map_err(|error| refused(error.into()))?;
    sets.permitted &= CapabilitySet::DAC_READ_SEARCH;
    sets.effective &= CapabilitySet::DAC_READ_SEARCH;
    sets.inheritable = CapabilitySet::empty();
    set_capabilities(None, sets).map_err(|error| refused(error.into()))?;
    // SAFETY: the call sets a flag of this thread; its arguments are numbers.
    checked(i64::from(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }))?;
    // SAFETY: the call's argument is the descriptor of a ruleset, which is open until it returns.
    checked(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0_u32) })?;
    let mut steps = filter();
    let program =
        libc::sock_fprog { len: u16::try_from(steps.len()).unwrap_or_default(), filter: steps.as_mut_ptr() };
    // SAFETY: the call reads a program with this number of steps, which live until it returns.
    checked(i64::from(unsafe {
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
    }))?;
    Ok(())
}

/// Closes the descriptors that the process inherited when it was executed, except the standard
/// ones, because code could write through those that are open for writing.
fn close_inherited() -> io::Result<()> {
    let all: Vec<RawFd> = std::fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    for descriptor in all.into_iter().filter(|descriptor| *descriptor > 2) {
        // SAFETY: the call reads the descriptor's flags; it fails if the descriptor was closed
        // meanwhile.
        let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFD) };
        if flags >= 0 && flags & libc::FD_CLOEXEC == 0 {
            // SAFETY: every descriptor that this process opened itself is close-on-exec. This one
            // is not, so it was inherited and nothing here owns it.
            unsafe { libc::close(descriptor) };
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_follow_the_landlock_version() {
        assert_eq!(Ruleset::of(2), Err(ConfineError::TooOld(2)));
        let oldest = Ruleset::of(3).unwrap();
        assert_eq!((oldest.handled_files, oldest.handled_network, oldest.scoped), (0x7ff2, 0, 0));
        let now = Ruleset::of(7).unwrap();
        assert_eq!((now.handled_files, now.handled_network, now.scoped), (0xfff2, 3, 3));
    }

    /// Interprets the filter for a call as the kernel does, and returns its result.
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
    fn filter_refuses_only_listed_calls() {
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
