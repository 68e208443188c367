//! The tests of `faults`, with large messages by pages.

#[path = "faults.rs"]
mod faults;
