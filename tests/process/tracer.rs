//! Traces a forked child's system calls, to kill the child at a system call or to let a call fail.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// A stop of the child at a system call.
pub(crate) struct Stop {
    /// The number of the stop. Each system call has one stop before it and one stop after it.
    pub(crate) at: usize,
    /// The system call's number. `None` after the call.
    pub(crate) call: Option<i64>,
}

/// The action at a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Goes,
    /// The child is killed.
    Ends,
    /// The system call fails with this error instead of running. Only on x86-64.
    Fails(i32),
}

/// Runs `body` in a forked child, which exits with 0 for `true`, 1 for `false` and 101 after a
/// panic. Calls `decide` at each stop. Returns the child's status and the number of stops.
pub(crate) fn trace(
    body: impl FnOnce() -> bool,
    mut decide: impl FnMut(&Stop) -> Fate,
) -> (ExitStatus, usize) {
    // SAFETY: the child runs `body`, which does not depend on threads of the parent, and ends
    // without unwinding.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            // SAFETY: both calls take numbers.
            unsafe {
                libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
                libc::raise(libc::SIGSTOP);
            }
            body()
        }));
        let code = match outcome {
            Ok(true) => 0,
            Ok(false) => 1,
            Err(_) => 101,
        };
        // SAFETY: the call ends the process.
        unsafe { libc::_exit(code) };
    }
    let wait = || {
        let mut status = 0;
        // SAFETY: the call writes the status.
        let found = unsafe { libc::waitpid(child, &raw mut status, libc::__WALL) };
        assert_eq!(found, child, "{}", std::io::Error::last_os_error());
        status
    };
    let stopped = wait();
    assert!(libc::WIFSTOPPED(stopped), "a child cannot be traced here: {stopped:x}");
    let options = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_EXITKILL;
    let order = |request, data: usize| {
        // SAFETY: the requests take numbers, or a pointer to registers of the required size.
        let done = unsafe { libc::ptrace(request, child, 0usize, data) };
        assert!(done >= 0, "{}", std::io::Error::last_os_error());
    };
    order(libc::PTRACE_SETOPTIONS, options as usize);
    let (mut at, mut signal, mut failing) = (0, 0, None);
    loop {
        order(libc::PTRACE_SYSCALL, signal);
        let status = wait();
        if !libc::WIFSTOPPED(status) {
            return (ExitStatus::from_raw(status), at);
        }
        signal = libc::WSTOPSIG(status) as usize;
        if signal != (libc::SIGTRAP | 0x80) as usize {
            continue;
        }
        signal = 0;
        at += 1;
        if let Some(error) = failing.take() {
            registers::answer(&order, error);
        }
        match decide(&Stop { at, call: call(child) }) {
            Fate::Goes => {}
            Fate::Ends => {
                // SAFETY: the child is ours, and not waited for yet.
                unsafe { libc::kill(child, libc::SIGKILL) };
                let status = wait();
                assert!(libc::WIFSIGNALED(status), "{status:x}");
                return (ExitStatus::from_raw(status), at);
            }
            Fate::Fails(error) => {
                registers::skip(&order);
                failing = Some(error);
            }
        }
    }
}

/// Returns the system call that the child is about to make, or `None` at the stop after a call.
fn call(child: i32) -> Option<i64> {
    // SAFETY: zeros are a valid `ptrace_syscall_info`; the call writes no more than its size.
    let info = unsafe {
        let mut info: libc::ptrace_syscall_info = std::mem::zeroed();
        let size = std::mem::size_of_val(&info);
        let told = libc::ptrace(libc::PTRACE_GET_SYSCALL_INFO, child, size, &raw mut info);
        assert!(told > 0, "{}", std::io::Error::last_os_error());
        info
    };
    if info.op != libc::PTRACE_SYSCALL_INFO_ENTRY {
        return None;
    }
    // SAFETY: at the entry, the union has this member.
    Some(unsafe { info.u.entry.nr } as i64)
}

#[cfg(target_arch = "x86_64")]
mod registers {
    /// Whether this module can make system calls fail.
    pub(crate) const CAN_FAIL: bool = true;

    fn with(order: &impl Fn(libc::c_uint, usize), change: impl FnOnce(&mut libc::user_regs_struct)) {
        // SAFETY: zeros are a valid `user_regs_struct`.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        order(libc::PTRACE_GETREGS, (&raw mut registers) as usize);
        change(&mut registers);
        order(libc::PTRACE_SETREGS, (&raw mut registers) as usize);
    }

    pub(super) fn skip(order: &impl Fn(libc::c_uint, usize)) {
        with(order, |registers| registers.orig_rax = u64::MAX);
    }

    pub(super) fn answer(order: &impl Fn(libc::c_uint, usize), error: i32) {
        with(order, |registers| registers.rax = i64::from(-error).cast_unsigned());
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod registers {
    /// Whether this module can make system calls fail.
    pub(crate) const CAN_FAIL: bool = false;

    pub(super) fn skip(_: &impl Fn(libc::c_uint, usize)) {
        panic!("system calls cannot be made to fail here")
    }

    pub(super) fn answer(_: &impl Fn(libc::c_uint, usize), _: i32) {}
}

pub(crate) use registers::CAN_FAIL;
