//! One file per algorithm: what it does, where it comes from, its row of the table.

pub(crate) mod iallreduce_rabenseifner;
pub(crate) mod iallreduce_recursive_doubling;
pub(crate) mod iallreduce_reduce_bcast;
pub(crate) mod iallreduce_ring;
pub(crate) mod ialltoall_bruck;
pub(crate) mod ialltoall_linear;
pub(crate) mod ialltoall_pairwise;
pub(crate) mod ibarrier_dissemination;
pub(crate) mod ibcast_binomial;
pub(crate) mod ibcast_chain;
pub(crate) mod ibcast_linear;

mod core;
mod reduction;
