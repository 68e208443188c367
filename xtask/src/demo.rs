//! `cargo xtask demo`.
use crate::Outcome;
/// Shows overlap.
pub fn run() -> Outcome {
    Err("later".into())
}
