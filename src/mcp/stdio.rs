//! The protocol's streams, out of reach for everything else in the process.
//!
//! Lisp code, C code and the runtime itself may write to descriptor 1 or read from descriptor 0. So the protocol moves
//! to private copies first, 0 becomes empty, and 1 becomes another standard error.

use std::fs::File;
use std::io::{self, Read, Write};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::fcntl_dupfd_cloexec;

/// Takes the standard streams away from the process. Returns them for the protocol: to read from, and to write to.
///
/// # Errors
/// The system has no descriptor left, or no /dev/null.
pub(super) fn take() -> io::Result<(Patient, Patient)> {
    // Above 2, so that closing the standard descriptors does no harm either.
    let input = fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let output = fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    let null = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok((Patient(File::from(input)), Patient(File::from(output))))
}

/// A stream that is read and written without haste, also when somebody who shares it has made it non-blocking.
#[derive(Debug)]
pub(super) struct Patient(File);

impl Patient {
    /// Does `body` again when the stream is ready, for as long as it says that it would block.
    fn insist<T>(
        &mut self,
        ready: PollFlags,
        mut body: impl FnMut(&mut File) -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            match body(&mut self.0) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    match poll(&mut [PollFd::new(&self.0, ready)], None) {
                        Ok(_) | Err(rustix::io::Errno::INTR) => (),
                        Err(error) => return Err(error.into()),
                    }
                }
                outcome => return outcome,
            }
        }
    }
}

impl Read for Patient {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.insist(PollFlags::IN, |file| file.read(buffer))
    }
}

impl Write for Patient {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.insist(PollFlags::OUT, |file| file.write(octets))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
