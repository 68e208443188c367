//! The progress engine: who runs the communication work, and when.
//!
//! # For users of this crate
//! A rank's communication state is one value that implements [`Work`], kept inside one [`Engine`]. Whoever
//! can make progress enters the engine: a user's thread inside a library call ([`Engine::enter`]), the
//! handler that a doorbell runs between two instructions of that thread ([`Engine::handler_entry`]), or a
//! [`ProgressThread`]. Who finds the engine busy leaves a bit and goes on; the holder sees the bit before it
//! leaves and makes another pass.
//!
//! | module | one idea |
//! |---|---|
//! | [`token`] | the word that says who is inside, and that somebody asked for another pass |
//! | [`engine`] | enter, work, leave; handler entries; waiting |
//! | [`budget`] | how much one pass may do |
//! | [`duty`] | how much of a millisecond handlers may take |
//! | [`ring`] | wait-free single-producer single-consumer ring over raw memory |
//! | [`slots`] | request slots with stable addresses and generations |
//! | [`completion`] | "done", visible without the token |
//! | [`schedule`] | how progress threads share a core |
//! | [`callbacks`] | what runs when something is done, never in a handler |
//! | [`stats`], [`trace`] | what happened |
//!
//! # Implementation details
//! Every public function says whether a handler may call it, its progress class, and its bound in atomic
//! operations. Atomics come from `tocsin_sync::atomic`, so that the models in `tests/loom_*.rs` run the code
//! that ships.

// `unsafe` is allowed one module at a time, so that the files to review are a list one can grep.
#![deny(unsafe_code)]

pub mod budget;
#[allow(unsafe_code)] // nodes of the list of finished callbacks, futex
pub mod callbacks;
#[allow(unsafe_code)] // hands callback nodes over
pub mod completion;
pub mod duty;
#[allow(unsafe_code)] // the work behind the token
pub mod engine;
#[allow(unsafe_code)] // affinity
mod progress_thread;
#[allow(unsafe_code)] // raw memory shared with a peer
pub mod ring;
pub mod schedule;
#[allow(unsafe_code)] // stable addresses
pub mod slots;
pub mod stats;
pub mod token;
pub mod trace;

/// Deliberately broken variants of the protocols, for the models that must catch them.
#[doc(hidden)]
pub mod testing {
    use tocsin_sync::atomic::Ordering;

    /// The protocols' variation points. [`Real`] is what ships; the others exist in tests, to be caught.
    pub trait Variant {
        /// The ring's stamp is written after the content.
        const STAMP_LAST: bool = true;
        /// What publishes a ring's item.
        const PUSH: Ordering = Ordering::Release;
        /// What publishes a completion.
        const FINISH: Ordering = Ordering::AcqRel;
        /// A crew's server looks once more after it has said that it no longer serves.
        const LOOK_WHEN_NOT_SERVING: bool = true;
        /// Who would sleep beside a runner of callbacks asks for it by a read-modify-write.
        const ASK_RUNNER_BY_SWAP: bool = true;
    }

    /// What ships.
    #[derive(Debug)]
    pub struct Real;
    impl Variant for Real {}
}

pub use budget::{Budget, Context, Pass, Work};
pub use callbacks::Callbacks;
pub use completion::{Code, Completion, Outcome};
pub use engine::{Engine, EngineConfig, Entered, UNFINISHED_NS};
pub use progress_thread::{ProgressCore, ProgressThread};
pub use schedule::Schedule;
pub use slots::{Id, Slots};
pub use stats::Stats;
pub use trace::Trace;

/// Blocks signals on a thread of the engine's own, so that they go to the user's threads, where the user expects them. But for those that its own instructions
/// raise: a copy whose peer has gone is mended by them.
pub(crate) fn block_signals() {
    tocsin_sync::signals::block_for_good();
}
