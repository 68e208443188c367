//! The tests of `model`, with large messages by pages.

#[path = "model.rs"]
mod model;
