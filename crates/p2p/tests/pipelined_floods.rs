//! The tests of `floods`, with large messages in pieces where both ranks wait, and else in single copies.

#[path = "floods.rs"]
mod floods;
