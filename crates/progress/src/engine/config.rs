//! How an engine behaves.

use crate::trace::Trace;
use std::sync::Arc;

/// How an engine behaves.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// How long a wait spins at least, nanoseconds.
    pub spin_ns: u64,
    /// How long it then goes on with `sched_yield` between passes before it sleeps, nanoseconds, as long as that costs it nothing; it
    /// spins less then. 0 where no other rank of the world wants the core.
    pub yield_ns: u64,
    /// Whether the first callback starts a callback thread. Not needed by backend `poll`.
    pub callback_thread: bool,
    /// Where to record events; None: nowhere.
    pub trace: Option<Arc<Trace>>,
}

impl Default for EngineConfig {
    /// Spin for 20 us (about what a sleep and a wake cost together), and longer where that pays (`engine/spin.rs`), then sleep. No yields: of
    /// this world nobody else wants the core, and who yields to a stranger gets it back at the end of a time slice.
    fn default() -> Self {
        EngineConfig { spin_ns: 20_000, yield_ns: 0, callback_thread: true, trace: None }
    }
}

impl EngineConfig {
    /// For more ranks than cores: give way to the others for as long as that pays (`engine/yields.rs` tells when it does not: then
    /// spin for about what a sleep costs), then sleep.
    #[must_use]
    pub fn oversubscribed(self) -> Self {
        EngineConfig { spin_ns: 5_000, yield_ns: 1_000_000, ..self }
    }
}
