//! The tests of `floods`, with large messages by pages.

#[path = "floods.rs"]
mod floods;
