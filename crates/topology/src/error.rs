/// What can go wrong here, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A synthetic description that does not parse.
    #[error("synthetic topology `{text}`: {why}; write for example `numa:2 core:4 pu:1` (levels: {LEVELS})")]
    Synthetic {
        /// The description as given.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// libhwloc describes no machine (feature `hwloc`).
    #[error("libhwloc: {why}")]
    Hwloc {
        /// What it said.
        why: String,
    },
    /// A placement policy that does not exist.
    #[error("unknown placement policy `{0}`: use none, scatter or scatter_numa")]
    UnknownPolicy(String),
    /// A placement of progress threads that does not exist.
    #[error("unknown placement of progress threads `{0}`: use none, bind, numa, smt or odd_even")]
    UnknownProgressPolicy(String),
    /// A placement of progress threads that cannot be had here.
    #[error("progress threads cannot be placed by {policy}: {why}")]
    Progress {
        /// The policy's name.
        policy: &'static str,
        /// The reason, and what to do.
        why: String,
    },
    /// Cores that cannot be kept free of ranks.
    #[error("{cores} cores cannot be reserved: {why}")]
    Reserved {
        /// How many were asked for.
        cores: usize,
        /// The reason, and what to do.
        why: String,
    },
    /// A split tree that is none.
    #[error("{ranks} ranks on {cores} cores: split-tree needs a rank and at least as many cores as ranks")]
    SplitTree {
        /// Ranks asked for.
        ranks: u32,
        /// Cores there are.
        cores: u32,
    },
    /// A processor that the topology does not have.
    #[error("the topology has no cpu {0}")]
    NoSuchCpu(usize),
    /// The kernel refused to tell or to change a thread's affinity mask.
    #[error("cannot {action}: {source}; look at `taskset -p $$` and at the container's cpuset")]
    Affinity {
        /// What was tried, for example `bind to cpu 3`.
        action: String,
        /// The kernel's reason.
        source: std::io::Error,
    },
}

/// Names of the levels a synthetic description may use.
pub(crate) const LEVELS: &str = "package, numa, l3, l2, core, pu";
