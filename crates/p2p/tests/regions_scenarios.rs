//! The tests of `scenarios`, with large messages in single copies from and to buffers that are exposed first.

#[path = "scenarios.rs"]
mod scenarios;
