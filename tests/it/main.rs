//! Integration tests that share one running image. What kills or configures a process is in tests/process.

mod faults;
mod freshness;
mod image;
mod oracle;
