//! The tests of `scenarios`, with large messages by pages.

#[path = "scenarios.rs"]
mod scenarios;
