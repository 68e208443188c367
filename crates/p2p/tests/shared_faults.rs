//! The tests of `faults`, with large messages in single copies from and to buffers that ranks share.

#[path = "faults.rs"]
mod faults;
