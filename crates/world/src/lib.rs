//! Ranks, communicators, raw requests, bootstrap, launcher: one surface for every face of tocsin.
//!
//! # For users
//! This is the untyped surface: buffers are layouts, their lifetime is the caller's promise. The crate `tocsin` is the
//! safe one.
//!
//! - [`World`] is one rank's membership: from the environment, or made by [`threads`].
//! - [`Comm`] starts operations and gives [`RawRequest`]s.
//! - [`launcher`] starts ranks as processes.
//! - [`Config`] is the one place that reads `TOCSIN_*`.
//!
//! # Implementation details
//! A rank is one [`tocsin_progress::Engine`](tocsin_progress::engine::Engine) around its point-to-point and collective
//! state, entered by user calls, by the handler and by a progress thread alike. A peer writes into this rank's private
//! memory by a claim on a record of both: a request that is given up ends when the peer's last one is over.
#![warn(missing_debug_implementations)]
// They panic where nobody reads: `say`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod asks;
mod boards;
pub mod bootstrap;
mod comm;
mod config;
mod error;
mod heap;
pub mod launcher;
mod masked;
mod memory;
mod operator;
mod outcome;
mod places;
mod rank;
pub mod replaced;
mod request;
mod say;
mod state;
mod threads;
mod trace;
pub mod tune;
mod world;

pub use comm::{Comm, Message, PROC_NULL};
pub use config::{
    Bind, Config, DEFAULT_EAGER_MAX, DEFAULT_SIGNAL, DEFAULT_UNEXPECTED_MAX, Lmt, ProgressPlacement,
    Schedule, Seat, TraceFormat, VARIABLES, Variable, parse_size,
};
pub use error::Error;
pub use heap::heap_refusal;
pub use masked::Masked;
pub use memory::{placement_refusal, world_refusal};
pub use operator::InsideOperator;
pub use request::{Callback, RawRequest, Status, test_all, test_any, wait_all, wait_any};
pub use say::say;
pub use threads::{threads, threads_each, threads_telling};
pub use tocsin_doorbell::BackendKind;
pub use tocsin_nbc::table as algorithms;
pub use tocsin_nbc::table::{Arguments, Block, Operation};
pub use tocsin_nbc::{DataType, Hierarchy, Op, UserFunction, UserOp, ValueIndex32, ValueIndex64};
pub use tocsin_p2p::{ConstBuf, Layout, Mode, MutBuf};
pub use tocsin_progress::stats::Snapshot;
pub use tocsin_shm_transport::{HeapBlock, cma_refusal, knem_refusal, vmsplice_refusal, xpmem_refusal};
pub use world::World;

/// Version of this library, checked between launcher and program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
