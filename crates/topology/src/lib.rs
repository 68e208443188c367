//! Cores, caches and NUMA nodes, and where ranks go on them.
//!
//! For users: [`Topology::machine`] describes the processors this thread may run on (its affinity mask, hence a
//! container's cpuset, is honoured); [`Synthetic`] describes a machine one does not have, so that every placement
//! policy is testable anywhere; [`placement`] says which processor each rank is bound to, [`Topology::seats`] where its
//! progress thread runs, [`Topology::localities`] which parts of the machine processors have in common; [`MemoryNodes`] whether
//! there is a choice where memory lies; [`split_tree`] says how much of a tree collective the progress threads should do.
//!
//! ```
//! use tocsin_topology::{Policy, Topology};
//! let machine = Topology::synthetic("numa:2 core:4 pu:1")?;
//! let cpus = machine.place(Policy::ScatterNuma, 4);
//! assert_eq!(cpus, [Some(0), Some(2), Some(4), Some(6)]);
//! # Ok::<(), tocsin_topology::Error>(())
//! ```
//!
//! Implementation details: a [`Topology`] is plain data, made by anything that implements [`Discover`]; with the
//! feature `hwloc` (which wants libhwloc 2.0 or later and its headers) libhwloc is asked first, `/sys` where that fails. Nothing here may be called from a handler.

mod bind;
mod error;
#[cfg(feature = "hwloc")]
mod hwloc;
mod locality;
mod memory;
mod model;
mod pairs;
mod policy;
mod progress;
mod relation;
pub mod split_tree;
mod synthetic;
mod sys;

pub use bind::{allowed_cpus, bind_thread, bind_thread_to_all};
pub use error::Error;
#[cfg(feature = "hwloc")]
pub use hwloc::Hwloc;
pub use locality::Locality;
pub use memory::{MemoryNodes, NoChoice};
pub use model::{Cache, CacheKind, Core, Discover, Node, Topology};
pub use pairs::Distance;
pub use policy::{Policy, placement};
pub use progress::{ProgressPolicy, Seat};
pub use relation::Relation;
pub use synthetic::Synthetic;
pub use sys::Sys;
