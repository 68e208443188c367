//! The tests of `scenarios`, with large messages in pieces where both ranks wait, and else in single copies.

#[path = "scenarios.rs"]
mod scenarios;
