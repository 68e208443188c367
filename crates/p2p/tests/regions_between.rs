//! The tests of `single_copies_between`, with large messages in single copies from and to buffers that are exposed first.

#[path = "single_copies_between.rs"]
mod single_copies_between;
