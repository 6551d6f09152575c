//! Starting SBCL: once in a process.

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
use super::host;
use super::image::{self, Core, Image, ImageError};
use super::lisp::Lisp;
use super::shared::Shared;
use super::signals;

/// The settings of a start of SBCL.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Settings {
    /// Runtime, core and contribs.
    pub image: Image,
    /// The most that Lisp's heap can grow to, in bytes. Address space, not memory, until it is used.
    pub dynamic_space_size: usize,
    /// The control stack of each Lisp thread, in bytes.
    pub control_stack_size: usize,
    /// How long the image may take to be ready.
    pub start_timeout: Duration,
}

impl Settings {
    /// Settings for `image`: a heap of up to 2 GiB (the size that the core was saved for: with another, SBCL starts
    /// some 15 ms later), stacks of 8 MiB, half a minute to start.
    pub fn new(image: Image) -> Self {
        Self {
            image,
            dynamic_space_size: HEAP_MEGABYTES << 20,
            control_stack_size: 8 << 20,
            start_timeout: Duration::from_secs(30),
        }
    }
}

/// Why SBCL did not start. The sentences name what was tried, and what may help by [`Settings`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// SBCL runs in this process already, or a start of it was attempted.
    #[error(
        "SBCL was started in this process already; there can be one only, so clone the handle of the first start"
    )]
    AlreadyStarted,
    /// The parts of the image are unfit.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The library could not be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The addresses that are compiled into SBCL are in use in this process. Nothing has been started.
    #[error(
        "SBCL runs at the addresses {start:#x} to {end:#x} only, and this process has {owner} there; start SBCL before that is mapped, or have it mapped elsewhere"
    )]
    AddressTaken {
        /// The first address of the range.
        start: usize,
        /// The address after the range.
        end: usize,
        /// What `/proc/self/maps` has there: a file, or a word for memory without one.
        owner: String,
    },
    /// The system refuses memory that is writable and executable, which SBCL compiles into. Nothing has been started.
    #[error(
        "the system refuses SBCL memory that is both writable and executable: {source}; allow it (in a unit of systemd: MemoryDenyWriteExecute=no; under SELinux: setsebool deny_execmem off)"
    )]
    WriteExecute {
        /// The system's error.
        source: std::io::Error,
    },
    /// The runtime ended while it started.
    #[error("SBCL ended while it started: {reason}{}", self.hint())]
    Died {
        /// The runtime's message.
        reason: String,
        /// The dynamic space that was asked for, in MiB.
        megabytes: usize,
        /// The limit of the process's address space (`ulimit -v`), in MiB, if there is one.
        address_space: Option<u64>,
    },
    /// The image was not ready in time.
    #[error("SBCL was not ready {seconds} s after its start; the machine may be overloaded")]
    TimedOut {
        /// The time allowed, in seconds.
        seconds: u64,
    },
    /// The core's Lisp half speaks another version of the boundary.
    #[error(
        "the core's Lisp half is of interface version {core}, this program's is {host}; use the steelbank.core that was built with this program"
    )]
    OtherInterface {
        /// The core's version.
        core: u32,
        /// This program's version.
        host: u32,
    },
    /// The system refused a thread or a pipe.
    #[error(
        "cannot make a thread or pipe for SBCL: {0}; does a limit of this process or its user (ulimit -u, ulimit -n, ulimit -v) leave no room?"
    )]
    System(std::io::Error),
    /// The system refuses threads, and not for want of room.
    #[error(
        "the system refuses SBCL a thread: {0}; does a seccomp profile refuse clone3 with an error other than ENOSYS, as Docker's before 20.10.10 does? Update it, or allow clone3"
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

/// The address space that SBCL takes beside its heap, with the program that it is in, in MiB: 900 to 1000 were measured.
const BESIDE_THE_HEAP: usize = 1000;
/// The least heap that serves, in MiB.
const LEAST_HEAP: usize = 128;

impl StartError {
    /// Whether the limit of the process's address space leaves no room for any heap.
    pub fn is_for_address_space(&self) -> bool {
        matches!(self, Self::Died { address_space: Some(limit), .. } if *limit < (LEAST_HEAP + BESIDE_THE_HEAP) as u64)
    }

    /// Whether it died for want of memory or address space, as far as the runtime's words tell: a smaller
    /// [`Settings::dynamic_space_size`] may help.
    pub fn is_for_room(&self) -> bool {
        let words = ["alloc", "memory", "map", "heap", "called exit"];
        matches!(self, Self::Died { reason, .. } if !is_about_core(reason) && words.iter().any(|word| reason.to_lowercase().contains(word)))
    }

    /// Suggests what to look at first.
    fn hint(&self) -> String {
        match self {
            Self::Died { reason, .. } if is_about_core(reason) => {
                " (the core could not be read whole: is the file damaged, or may the process open no more files?)"
                    .to_owned()
            }
            Self::Died { megabytes, address_space: Some(limit), .. } if self.is_for_room() => format!(
                " (a heap of {megabytes} MiB was asked for, with which SBCL takes some {} MiB of address space, and this process may have {limit}: ulimit -v)",
                megabytes.saturating_add(BESIDE_THE_HEAP)
            ),
            Self::Died { megabytes, .. } if self.is_for_room() => format!(
                " (a heap of {megabytes} MiB was asked for; is there address space and memory for it?)"
            ),
            _ => String::new(),
        }
    }
}

fn is_about_core(reason: &str) -> bool {
    reason.to_lowercase().contains("core")
}

/// The threads that are made from then on, and that Lisp dies without: the exit monitor's, the finalizer's, the
/// supervisor's, one for work; and as many of the program's own.
const LATER_THREADS: usize = 8;

static STARTED: AtomicBool = AtomicBool::new(false);

/// Starts SBCL and returns at once; [`Lisp::wait_until_ready`] tells how it went. Jobs can be submitted right away.
pub(super) fn start(settings: &Settings) -> Result<Lisp, StartError> {
    // Check all that can be checked before the one attempt is used up.
    let (path, keep_open) = image::library_path(&settings.image)?;
    let core_build = match &settings.image.core {
        Core::File(path) => Some(image::core_build(path)?),
        Core::Embedded => None,
    };
    if STARTED.compare_exchange(false, true, Ordering::SeqCst, Ordering::SeqCst).is_err() {
        return Err(StartError::AlreadyStarted);
    }
    // Until the runtime is entered, nothing has happened that a second try could not do again.
    launch(settings, path, core_build, keep_open).inspect_err(|_| STARTED.store(false, Ordering::SeqCst))
}

fn launch(
    settings: &Settings,
    path: PathBuf,
    core_build: Option<String>,
    keep_open: Option<OwnedFd>,
) -> Result<Lisp, StartError> {
    // SAFETY: whoever made the RuntimeLibrary has promised that it is of this program's build.
    let runtime = unsafe { Runtime::load(&path) }?;
    if let (Core::File(path), Some(core)) = (&settings.image.core, core_build) {
        let runtime = runtime.build();
        // The runtime's name of the build has a suffix for the C compiler that the core's lacks.
        if !runtime.starts_with(core.as_str()) {
            return Err(ImageError::OtherBuild { path: path.clone(), core, runtime }.into());
        }
    }
    try_memory(&runtime)?;
    let version = runtime.sbcl_version();
    let arguments = runtime_arguments(settings);
    let executable = match settings.image.core {
        Core::Embedded => PathBuf::from("/proc/self/exe"),
        // The program itself may hold another core; the library holds none.
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
        // SAFETY: the function only sets a variable of this thread's.
        unsafe { (runtime.reserve_below_stacks)() };
        // SAFETY: both arrays are NULL-terminated, of NUL-terminated strings, and leaked, as the runtime keeps pointers
        // into them. This is the only call in the process (STARTED), on a thread of its own, after set_host.
        unsafe {
            (runtime.initialize_lisp)((arguments.len() - 1) as i32, arguments.as_ptr(), environment.as_ptr())
        };
        drop(keep_open);
        // The core's toplevel does not return; if it ever does, Lisp is gone.
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
    if children::are_to_end() {
        // SAFETY: this is the only call, before initialize_lisp.
        unsafe { (runtime.end_children_with_process)() };
    }
    // The thread waits for nothing else.
    let _ = enter.send(());
    Ok(Lisp::new(shared))
}

/// Tries the memory without which SBCL cannot run.
fn try_memory(runtime: &Runtime) -> Result<(), StartError> {
    let (mut start, mut size) = (0, 0);
    // SAFETY: both pointers are to variables of their types; what the function maps where nothing was it unmaps.
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
        // The runtime has its own words for all else.
        _ => Ok(()),
    }
}

/// What stands first between two addresses, in the text of a `/proc/PID/maps`.
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
            format!("memory of no file ({})", line.split(' ').next().unwrap_or_default())
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

/// A NULL-terminated array of pointers to strings that are never freed.
fn leak_pointers(strings: Vec<CString>) -> &'static [*const c_char] {
    let pointers: Vec<*const c_char> =
        strings.into_iter().map(|string| string.into_raw().cast_const()).chain([std::ptr::null()]).collect();
    Vec::leak(pointers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_of_an_address_is_named() {
        let maps = "4f000000-50000000 r--p 00000000 00:00 0 \n\
                    50000000-50100000 r--p 00000000 00:00 0 \n\
                    60000000-60001000 r-xp 00000000 08:01 99                         /lib/a library.so\n\
                    7ffc0000-7ffd0000 rw-p 00000000 00:00 0                          [stack]\n";
        for (start, end, named) in [
            (0x5000_0000, 0x5010_0000, "memory of no file (50000000-50100000)"),
            (0x5ff0_0000, 0x6000_0800, "/lib/a library.so"),
            (0x7ffc_ffff, 0x7fff_0000, "[stack]"),
            (0x1000, 0x2000, "something"),
        ] {
            assert_eq!(owner(maps, start, end), named);
        }
    }
}
