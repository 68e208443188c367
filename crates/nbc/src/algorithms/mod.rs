//! One file per algorithm: what it does, where it comes from, its rows of the table.

pub(crate) mod iallgather_bruck;
pub(crate) mod iallgather_linear;
pub(crate) mod iallgather_recursive_doubling;
pub(crate) mod iallgather_ring;
pub(crate) mod iallreduce_rabenseifner;
pub(crate) mod iallreduce_recursive_doubling;
pub(crate) mod iallreduce_reduce_bcast;
pub(crate) mod iallreduce_ring;
pub(crate) mod ialltoall_bruck;
pub(crate) mod ialltoall_linear;
pub(crate) mod ialltoall_pairwise;
pub(crate) mod ialltoallv_linear;
pub(crate) mod ialltoallv_pairwise;
pub(crate) mod ibarrier_dissemination;
pub(crate) mod ibarrier_linear;
pub(crate) mod ibarrier_tree;
pub(crate) mod ibcast_binomial;
pub(crate) mod ibcast_chain;
pub(crate) mod ibcast_linear;
pub(crate) mod ibcast_quaternary;
pub(crate) mod ibcast_scatter_allgather;
pub(crate) mod igather_binomial;
pub(crate) mod igather_linear;
pub(crate) mod iscatter_binomial;
pub(crate) mod iscatter_linear;

mod core;
mod places;
mod reduction;
mod tree;
