//! `tocsin plan`: nothing is started, nothing is measured.

use crate::simulate::Model;
use crate::values::{Shape, Sizes, counts, planned, sizes, word};
use clap::{Args, Subcommand};
use tocsin_nbc::table::Operation;
use tocsin_topology::{Policy, ProgressPolicy};

#[derive(Debug, Args)]
pub(crate) struct Plan {
    #[command(subcommand)]
    pub plan: PlanCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PlanCommand {
    /// Which core each rank and its progress thread are bound to
    #[command(
        after_help = "Example: tocsin plan placement --topology 'numa:2 core:4 pu:1' --ranks 6 --bind scatter_numa --progress numa"
    )]
    Placement(Placement),
    /// How many levels of a tree collective should run on the cores that compute
    #[command(after_help = "Example: tocsin plan split-tree --cores 64 --ranks 2..63")]
    SplitTree(SplitTree),
    /// Steps, messages, bytes and time of a collective's schedules over a simulated network, to 100 000 ranks
    #[command(
        after_help = "Example: tocsin plan schedule --op ibcast --algorithm all --ranks 16,1024,100000 --sizes 8,64K \
                      --model latency=1000,overhead=200,gap=50,byte=0.1,cores=1"
    )]
    Schedule(Schedule),
    /// The library's algorithms: what each cannot do, what it costs and where it comes from
    ///
    /// Costs are those of p ranks and n bytes (the whole buffer, or the block per rank, as `tocsin bench coll` has it): a is the time of a
    /// message, b of moving a byte, g of reducing a byte, c of loading a line of each of the others at once.
    #[command(after_help = "Example: tocsin plan algorithms --op iallreduce,ibcast")]
    Algorithms(Algorithms),
}

#[derive(Debug, Args)]
pub(crate) struct Algorithms {
    /// Operations, by their names in the library: ibarrier, ibcast, ... [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub op: Vec<Operation>,
    /// One JSON object per line on standard output
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Schedule {
    /// The operation, by its name in the library: ibarrier, ibcast, ...
    #[arg(long, value_name = "OP")]
    pub op: Operation,
    /// Algorithm, by its name; `all` is a row for each that can do it [default: the library chooses]
    #[arg(long, value_name = "NAME")]
    pub algorithm: Option<String>,
    /// Numbers of ranks: a list or a range A..B
    #[arg(long, value_name = "N", value_parser = planned, default_value = "16")]
    pub ranks: Sizes,
    /// Message sizes: 64K, 1M, a list, a range A..B (doubling, B included); of reductions in elements of one byte, which can be divided anywhere
    #[arg(long, value_name = "LIST", value_parser = sizes, default_value = "8")]
    pub sizes: Sizes,
    /// The rank that sends or gets all, of operations that have one
    #[arg(long, value_name = "R", default_value_t = 0)]
    pub root: u32,
    /// What messages cost: latency, overhead (of a core, to send or to receive one), gap (between two through the interface
    /// of a node), byte, compute (per byte that is copied or reduced), in nanoseconds; cores (ranks per node: what topology-aware trees follow). Within a
    /// node a message costs overhead and byte, of the sender's core
    #[arg(long, value_name = "MODEL", default_value_t = Model::default())]
    pub model: Model,
    /// One JSON object per line on standard output
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Placement {
    /// Number of ranks (a list or a range A..B plans each) [default: as many as cores]
    #[arg(long, value_name = "N", value_parser = counts)]
    pub ranks: Option<Sizes>,
    /// Which core each rank is bound to: none, scatter, scatter_numa [default: scatter while ranks <= cores]
    #[arg(long, value_name = "P")]
    pub bind: Option<Policy>,
    /// Where progress threads run: none, bind, numa, smt, odd_even [default: none]
    #[arg(long, value_name = "P")]
    pub progress: Option<ProgressPolicy>,
    /// How many cores get no rank, so that progress threads have them to themselves [default: 0]
    #[arg(long, value_name = "N")]
    pub reserve: Option<u32>,
    /// A machine to plan for: levels from the outermost in, of package, numa, l3, l2, core, pu, each with its number in
    /// the level above [default: this machine]
    #[arg(long, value_name = "LEVELS")]
    pub topology: Option<String>,
    /// One JSON object per line on standard output
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SplitTree {
    /// Cores of the machine; those without a rank are dedicated to communication [default: this machine's]
    #[arg(long, value_name = "C", value_parser = clap::value_parser!(u32).range(1..))]
    pub cores: Option<u32>,
    /// Numbers of ranks: a list or a range A..B [default: all up to the number of cores]
    #[arg(long, value_name = "N", value_parser = planned)]
    pub ranks: Option<Sizes>,
    /// What a message weighs: constant (as in reduce and broadcast), doubling (on each level towards the root, as in
    /// gather and scatter)
    #[arg(long, value_name = "SHAPE", value_parser = word::<Shape>, default_value = "constant")]
    pub shape: Shape,
    /// One JSON object per line on standard output
    #[arg(long)]
    pub json: bool,
}
