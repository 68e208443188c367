//! The tests of `floods`, with large messages in single copies from and to buffers that are exposed first.

#[path = "floods.rs"]
mod floods;
