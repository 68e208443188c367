//! How much was copied, and by whom.

use tocsin_progress::budget::Context;

/// Bytes that steps have copied and combined, by who ran them.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Copied {
    /// In library calls.
    pub user: u64,
    /// In handlers.
    pub handler: u64,
    /// By a progress thread.
    pub progress: u64,
}

impl Copied {
    pub(super) fn add(&mut self, context: Context, bytes: usize) {
        let counter = match context {
            Context::User => &mut self.user,
            Context::Handler => &mut self.handler,
            Context::ProgressThread => &mut self.progress,
        };
        *counter = counter.saturating_add(bytes as u64);
    }
}
