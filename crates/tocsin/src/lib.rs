//! Messages between the ranks of a node that make progress by interrupt: typed, safe, scoped.
//!
//! A rank computes; when a message that matters now arrives, the communication engine runs briefly on the rank's own
//! core, and the rank goes on computing. Nothing in the program polls.
//!
//! - [`World`] makes the ranks: threads of this process, processes of `tocsin run`, or re-executions of this program.
//! - [`Comm`] sends, receives and runs collectives.
//! - [`Request`] owns its buffer while the operation is in flight; [`Scope`] borrows it instead.
//! - [`Shared`] buffers lie in memory that all ranks map, where large messages travel quickest.
//! - [`Persistent`] is a collective, a send or a receive that is prepared once and started as often as one likes,
//!   [`ScopedPersistent`] one of borrowed buffers.
//!
//! No function of this crate may be called from a signal handler or from a user operator.
#![warn(missing_debug_implementations)]
// They panic where nobody reads: `tocsin_world::say`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod buffer;
mod collectives;
mod comm;
mod element;
mod lent;
mod op;
mod persistent;
mod prepared;
mod request;
mod scope;
mod scoped_persistent;
mod shared;
mod world;

pub use buffer::{ElementBuffer, OwnedBuffer};
pub use collectives::{Blocks, Strided};
pub use comm::{ANY_SOURCE, ANY_TAG, Comm, Message, Source, Tag};
pub use element::Element;
pub use op::{Op, UserOp};
pub use persistent::{Outcome, Persistent, PersistentReceive};
pub use request::{Request, test_all, test_any, wait_all, wait_any, wait_some};
pub use scope::{Scope, ScopedRequest};
pub use scoped_persistent::{ScopedPersistent, ScopedPersistentReceive};
pub use shared::Shared;
pub use tocsin_world::launcher::{self, Launch, OnFailure, Report};
pub use tocsin_world::{
    BackendKind, Bind, Block, Config, DataType, Error, Lmt, Masked, PROC_NULL, ProgressPlacement, Schedule,
    Snapshot, Status, ValueIndex32, ValueIndex64,
};
pub use world::{Child, World, child_entry};

/// The programs of the first page, which compile and run as it says.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct FirstPage;
