//! The tests of `faults`, with large messages in single copies from and to buffers that are exposed first.

#[path = "faults.rs"]
mod faults;
