//! The tests of `faults`, with large messages in pieces where both ranks wait, and else in single copies.

#[path = "faults.rs"]
mod faults;
