//! The tests of `model`, with large messages in single copies from and to buffers that are exposed first.

#[path = "model.rs"]
mod model;
