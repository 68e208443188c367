//! The tests of `scenarios`, with large messages in single copies.

#[path = "scenarios.rs"]
mod scenarios;
