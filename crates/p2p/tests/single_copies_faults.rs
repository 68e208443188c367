//! The tests of `faults`, with large messages in single copies.

#[path = "faults.rs"]
mod faults;
