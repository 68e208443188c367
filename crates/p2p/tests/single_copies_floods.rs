//! The tests of `floods`, with large messages in single copies.

#[path = "floods.rs"]
mod floods;
