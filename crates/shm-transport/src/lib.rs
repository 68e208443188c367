//! Shared-memory transport: nameless segments, lanes, peer death.
//!
//! # For users
//!
//! - [`Segment`]: one memfd per world, sealed so that nobody can shrink it under the others; created by the
//!   host, attached by each rank after every check. Nothing has a name, so nothing is left when the last rank
//!   is gone.
//! - [`ShmTransport`]: a rank's endpoint, an implementation of [`tocsin_transport::Transport`].
//! - [`rendezvous_socket`]: framed messages and the segment's descriptor over a Unix socket.
//! - Large messages in one copy, by what works between two processes: the heap that all map, XPMEM ([`xpmem_refusal`]), the kernel's copies
//!   ([`cma_refusal`]), KNEM ([`knem_refusal`]), pages through pipes ([`vmsplice_refusal`]).
//! - [`deaths`]: the host's watch over the processes of the ranks.
//!
//! # Implementation details
//!
//! ```text
//! segment  = header | rank block * ranks | board * 16 | pair area * ranks^2 | pool * ranks || heap   (sparse)
//! rank block = a page: doorbell descriptor | life, NUMA node, where pipes' ends are sent to | who has connected to me | marks of who rings for a board
//! board      = area * ranks: only the world's is allocated from the start
//! pair area  = mark | lane heads | Control, Eager, Coll slots | Eager, Coll data
//!              || records of single copies | Bulk slots | Bulk data
//! ```
//! A pair's memory is allocated by the user's thread that connects it, in both directions, before any bit
//! says that it may be touched; so a handler never faults on memory that isn't there. It lies on the NUMA node of the rank that
//! it is for, if that is bound to one: `segment/numa.rs`.
#![cfg_attr(loom, allow(dead_code, unused_imports))]

mod lane;

#[cfg(not(loom))]
mod available;
#[cfg(not(loom))]
mod boards;
#[cfg(not(loom))]
pub mod deaths;
#[cfg(not(loom))]
mod error;
#[cfg(not(loom))]
mod geometry;
#[cfg(not(loom))]
mod heap;
#[cfg(not(loom))]
mod knem;
#[cfg(not(loom))]
pub mod rendezvous_socket;
#[cfg(not(loom))]
mod segment;
#[cfg(not(loom))]
mod transport;
#[cfg(not(loom))]
mod xpmem;

#[cfg(not(loom))]
pub use error::Error;
#[cfg(not(loom))]
pub use geometry::{BOARDS, Geometry, HEAP_PAGE, MAX_HEAP, MAX_RANKS};
#[cfg(not(loom))]
pub use heap::HeapBlock;
#[cfg(not(loom))]
pub use knem::knem_refusal;
#[cfg(not(loom))]
pub use segment::{Cores, Life, Segment, bind_refusal};
#[cfg(not(loom))]
pub use transport::{ShmTransport, Strategies, cma_refusal, vmsplice_refusal};
#[cfg(not(loom))]
pub use xpmem::xpmem_refusal;
