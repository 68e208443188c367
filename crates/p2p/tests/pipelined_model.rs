//! The tests of `model`, with large messages in pieces where both ranks wait, and else in single copies.

#[path = "model.rs"]
mod model;
