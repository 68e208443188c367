//! The tests of `scenarios`, with large messages in single copies from and to buffers that ranks share.

#[path = "scenarios.rs"]
mod scenarios;
