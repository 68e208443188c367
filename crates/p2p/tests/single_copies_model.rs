//! The tests of `model`, with large messages in single copies.

#[path = "model.rs"]
mod model;
