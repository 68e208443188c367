//! What is said on standard error.

use std::fmt;
use std::io::{self, Write};

/// Writes a line to standard error, whole. One that cannot be written, since nobody reads or the device is full, is lost: `eprintln!` would panic,
/// and what is only told must fail nothing that is done.
pub fn say(line: fmt::Arguments<'_>) {
    let _lost = io::stderr().lock().write_all(format!("{line}\n").as_bytes());
}
