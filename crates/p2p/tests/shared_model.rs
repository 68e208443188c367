//! The tests of `model`, with large messages in single copies from and to buffers that ranks share.

#[path = "model.rs"]
mod model;
