//! The tests of `floods`, with large messages in single copies from and to buffers that ranks share.

#[path = "floods.rs"]
mod floods;
