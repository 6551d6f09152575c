//! Starts SBCL, at most once in a process. Checks everything that can be checked first, so that a
//! failed start can be corrected and retried, and explains failures as [`StartError`].

use std::ffi::{CString, c_char};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use steelbank_sys::{HEAP_MEGABYTES, LoadError, Runtime};

#[cfg(feature = "server")]
use super::children;
use super::image::{self, Core, Image, ImageError};
use super::lisp::Lisp;
use super::shared::Shared;
use super::{host, signals};

/// The settings for a start of SBCL.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Settings {
    /// Runtime, core and contribs.
    pub image: Image,
    /// The maximum size of Lisp's heap, in bytes. It reserves address space, not memory.
    pub dynamic_space_size: usize,
    /// The size of each Lisp thread's control stack, in bytes.
    pub control_stack_size: usize,
    /// The time limit for the image to be ready.
    pub start_timeout: Duration,
}

impl Settings {
    /// Returns settings for `image`: a heap of up to 2 GiB, stacks of 8 MiB, 30 s to start. The
    /// core was saved with this heap size; with another size, SBCL starts about 15 ms later.
    pub fn new(image: Image) -> Self {
        Self {
            image,
            dynamic_space_size: HEAP_MEGABYTES << 20,
            control_stack_size: 8 << 20,
            start_timeout: Duration::from_secs(30),
        }
    }
}

/// The reason why SBCL did not start. Messages name the cause and what may help.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// SBCL was already started in this process, or another thread is starting it.
    #[error(
        "SBCL was started in this process already, and a process can have only one; clone the handle of the first start"
    )]
    AlreadyStarted,
    /// The image cannot be used.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The library could not be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The fixed addresses that SBCL needs are in use in this process. Nothing was started.
    #[error(
        "SBCL must run at addresses {start:#x} to {end:#x}, but this process has {owner} there; start SBCL before that is mapped, or map it elsewhere"
    )]
    AddressTaken {
        /// The first address of the range.
        start: usize,
        /// The address after the range.
        end: usize,
        /// The first mapping in the range, from `/proc/self/maps`: a file, a name such as
        /// `[stack]`, or a description of memory without a file.
        owner: String,
    },
    /// The system refuses memory that is both writable and executable, which SBCL needs for
    /// compiled code. Nothing was started.
    #[error(
        "the system refuses SBCL memory that is both writable and executable: {source}; allow it (in a systemd unit: MemoryDenyWriteExecute=no; under SELinux: setsebool deny_execmem off)"
    )]
    WriteExecute {
        /// The system's error.
        source: std::io::Error,
    },
    /// The runtime ended while it was starting.
    #[error("SBCL ended while it started: {reason}{}", self.hint())]
    Died {
        /// The runtime's message.
        reason: String,
        /// The requested size of the dynamic space, in MiB.
        megabytes: usize,
        /// The process's address space limit (`ulimit -v`), in MiB, if there is one.
        address_space: Option<u64>,
    },
    /// The image was not ready in time.
    #[error("SBCL was not ready {seconds} s after its start; the machine may be overloaded")]
    TimedOut {
        /// The time limit, in seconds.
        seconds: u64,
    },
    /// The core's Lisp half has another interface version.
    #[error(
        "the core's Lisp half has interface version {core}, but this program has {host}; use the steelbank.core that was built with this program"
    )]
    OtherInterface {
        /// The core's version.
        core: u32,
        /// This program's version.
        host: u32,
    },
    /// The system refused a thread or a semaphore.
    #[error(
        "cannot create a thread for SBCL: {0}; check the limits of this process and its user (ulimit -u, ulimit -v)"
    )]
    System(std::io::Error),
    /// The system refused a thread for a reason other than resource limits.
    #[error(
        "the system refuses SBCL a thread: {0}; if a seccomp profile refuses clone3 with an error other than ENOSYS, as Docker's before 20.10.10 does, update the profile or allow clone3"
    )]
    ThreadRefused(std::io::Error),
}

impl From<std::io::Error> for StartError {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::PermissionDenied => Self::ThreadRefused(error),
            _ => Self::System(error),
        }
    }
}

/// The address space that SBCL and the program need in addition to the heap, in MiB; 900 to 1000
/// were measured.
const OTHER_ADDRESS_SPACE: usize = 1000;
/// The smallest usable heap, in MiB.
const MIN_HEAP: usize = 128;

impl StartError {
    /// Returns whether SBCL died in a process with an address space limit that is too small for any
    /// heap.
    pub fn is_address_space_limit(&self) -> bool {
        matches!(self, Self::Died { address_space: Some(limit), .. } if *limit < (MIN_HEAP + OTHER_ADDRESS_SPACE) as u64)
    }

    /// Returns whether the runtime died for lack of memory or address space, judging by its
    /// message. A smaller [`Settings::dynamic_space_size`] may help.
    pub fn is_out_of_memory(&self) -> bool {
        let words = ["alloc", "memory", "map", "heap", "called exit"];
        matches!(self, Self::Died { reason, .. } if !is_about_core(reason) && words.iter().any(|word| reason.to_lowercase().contains(word)))
    }

    /// Returns a hint about the most likely cause, or an empty text.
    fn hint(&self) -> String {
        match self {
            Self::Died { reason, .. } if is_about_core(reason) => {
                " (the core could not be read completely: check that the file is intact and that the process may open more files)"
                    .to_owned()
            }
            Self::Died { megabytes, address_space: Some(limit), .. } if self.is_out_of_memory() => format!(
                " (with a heap of {megabytes} MiB, SBCL needs about {} MiB of address space, and this process is limited to {limit} MiB: raise ulimit -v or use a smaller heap)",
                megabytes.saturating_add(OTHER_ADDRESS_SPACE)
            ),
            Self::Died { megabytes, .. } if self.is_out_of_memory() => format!(
                " (a heap of {megabytes} MiB was requested: check that there is enough memory and address space)"
            ),
            _ => String::new(),
        }
    }
}

fn is_about_core(reason: &str) -> bool {
    reason.to_lowercase().contains("core")
}

/// The number of threads that must be available before Lisp starts: for the exit monitor, the
/// finalizer, the supervisor and the work lane, and four for the program.
const LATER_THREADS: usize = 8;

static STARTED: AtomicBool = AtomicBool::new(false);

/// Starts SBCL and returns at once; [`Lisp::wait_until_ready`] waits for the result. Jobs can be
/// submitted immediately.
pub(super) fn start(settings: &Settings) -> Result<Lisp, StartError> {
    // Check everything that can be checked first, because the runtime can be entered only once.
    let (path, keep_open) = image::library_path(&settings.image)?;
    let core_build = match &settings.image.core {
        Core::File(path) => Some(image::core_build(path)?),
        Core::Embedded => None,
    };
    if STARTED.compare_exchange(false, true, Ordering::SeqCst, Ordering::SeqCst).is_err() {
        return Err(StartError::AlreadyStarted);
    }
    // If the launch fails, the runtime has not been entered, so another attempt is allowed.
    launch(settings, path, core_build, keep_open).inspect_err(|_| STARTED.store(false, Ordering::SeqCst))
}

fn launch(
    settings: &Settings,
    path: PathBuf,
    core_build: Option<String>,
    keep_open: Option<OwnedFd>,
) -> Result<Lisp, StartError> {
    // SAFETY: the code that constructed the RuntimeLibrary has guaranteed that it is of this
    // program's build.
    let runtime = unsafe { Runtime::load(&path) }?;
    if let (Core::File(path), Some(core)) = (&settings.image.core, core_build) {
        let runtime = runtime.build();
        // The runtime's build ID is the core's with a suffix for the C compiler.
        if !runtime.starts_with(core.as_str()) {
            return Err(ImageError::OtherBuild { path: path.clone(), core, runtime }.into());
        }
    }
    try_memory(&runtime)?;
    let version = runtime.sbcl_version();
    let arguments = runtime_arguments(settings);
    let executable = match settings.image.core {
        Core::Embedded => PathBuf::from("/proc/self/exe"),
        // Pass the runtime library, not the program: SBCL would start a core that is embedded in
        // the program instead of the file.
        Core::File(_) => path,
    };
    let (enter, entered) = channel::<()>();
    std::thread::Builder::new().name("sbcl".into()).stack_size(16 << 20).spawn(move || {
        if entered.recv().is_err() {
            return;
        }
        signals::unblock_lisp_signals();
        host::become_main();
        let environment = environment();
        let arguments = leak_pointers(arguments);
        // SAFETY: the function only sets a thread-local variable.
        unsafe { (runtime.reserve_below_stacks)() };
        // SAFETY: both arrays are NULL-terminated arrays of NUL-terminated strings, and leaked,
        // because the runtime keeps pointers into them. This is the only call in the process
        // (STARTED), on a dedicated thread, after set_host.
        unsafe {
            (runtime.initialize_lisp)((arguments.len() - 1) as i32, arguments.as_ptr(), environment.as_ptr())
        };
        drop(keep_open);
        // The core's toplevel function does not return. If it does, Lisp is dead.
        host::announce_death(0, "Lisp's toplevel function returned");
    })?;
    let shared = Shared::new(settings, version)?;
    signals::probe_threads(LATER_THREADS)?;
    if let Ok(executable) = CString::new(executable.into_os_string().into_encoded_bytes()) {
        // SAFETY: the argument is NUL-terminated, and the function copies it.
        unsafe { (runtime.set_executable)(executable.as_ptr()) };
    }
    host::install(&runtime, shared)?;
    #[cfg(feature = "server")]
    if children::end_with_process() {
        // SAFETY: this is the only call, before initialize_lisp.
        unsafe { (runtime.end_children_with_process)() };
    }
    // Ignore the error: the thread is waiting for this message.
    let _ = enter.send(());
    Ok(Lisp::new(shared))
}

/// Checks that the system grants SBCL the memory at its fixed addresses, writable and executable.
fn try_memory(runtime: &Runtime) -> Result<(), StartError> {
    let (mut start, mut size) = (0, 0);
    // SAFETY: both pointers are to variables of the right types. The function unmaps what it maps,
    // and maps only unused addresses.
    let error = unsafe { (runtime.try_static_space)(&raw mut start, &raw mut size) };
    match error {
        libc::EEXIST => {
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
            let end = start + size;
            Err(StartError::AddressTaken { start, end, owner: owner(&maps, start, end) })
        }
        libc::EPERM | libc::EACCES => {
            Err(StartError::WriteExecute { source: std::io::Error::from_raw_os_error(error) })
        }
        // The runtime reports other errors itself.
        _ => Ok(()),
    }
}

/// Describes the first mapping between two addresses, given the text of `/proc/PID/maps`.
fn owner(maps: &str, start: usize, end: usize) -> String {
    let taken = maps.lines().find_map(|line| {
        let mut words = line.splitn(6, ' ');
        let (from, to) = words.next()?.split_once('-')?;
        let address = |text| usize::from_str_radix(text, 16).ok();
        (address(from)? < end && address(to)? > start)
            .then(|| (line, words.last().unwrap_or_default().trim()))
    });
    match taken {
        Some((_, name)) if !name.is_empty() => name.to_owned(),
        Some((line, _)) => {
            format!("memory without a file ({})", line.split(' ').next().unwrap_or_default())
        }
        None => "something".to_owned(),
    }
}

fn runtime_arguments(settings: &Settings) -> Vec<CString> {
    let mut arguments: Vec<Vec<u8>> = vec![b"steelbank".to_vec()];
    if let Core::File(path) = &settings.image.core {
        arguments.push(b"--core".to_vec());
        arguments.push(path.as_os_str().as_bytes().to_vec());
    }
    for option in ["--noinform", "--disable-ldb"] {
        arguments.push(option.as_bytes().to_vec());
    }
    for (option, bytes) in [
        ("--dynamic-space-size", settings.dynamic_space_size),
        ("--control-stack-size", settings.control_stack_size),
    ] {
        arguments.push(option.as_bytes().to_vec());
        arguments.push(format!("{}MB", bytes >> 20).into_bytes());
    }
    arguments.into_iter().filter_map(|argument| CString::new(argument).ok()).collect()
}

fn environment() -> &'static [*const c_char] {
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).ok());
    leak_pointers(variables.collect())
}

/// Returns a NULL-terminated array of pointers to strings that are never freed.
fn leak_pointers(strings: Vec<CString>) -> &'static [*const c_char] {
    let pointers: Vec<*const c_char> =
        strings.into_iter().map(|string| string.into_raw().cast_const()).chain([std::ptr::null()]).collect();
    Vec::leak(pointers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_of_an_address_is_found() {
        let maps = "4f000000-50000000 r--p 00000000 00:00 0 \n\
                    50000000-50100000 r--p 00000000 00:00 0 \n\
                    60000000-60001000 r-xp 00000000 08:01 99                         /lib/a library.so\n\
                    7ffc0000-7ffd0000 rw-p 00000000 00:00 0                          [stack]\n";
        for (start, end, named) in [
            (0x5000_0000, 0x5010_0000, "memory without a file (50000000-50100000)"),
            (0x5ff0_0000, 0x6000_0800, "/lib/a library.so"),
            (0x7ffc_ffff, 0x7fff_0000, "[stack]"),
            (0x1000, 0x2000, "something"),
        ] {
            assert_eq!(owner(maps, start, end), named);
        }
    }
}
