//! The command line.

mod plan;

use crate::values::{
    Backend, Buffers, Case, Comparison, Completion, ComputeTime, Event, HandlerStack, Kernel, Kind, Lmt,
    Mechanism, Mode, OnFailure, Operation, Receives, Sizes, TraceFormat, Tuned, Waits, array, compute_times,
    computing, counts, posts, repeats, requests, sizes, word,
};
use clap::{Args, Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;
use tocsin_topology::{Policy, ProgressPolicy};
use tocsin_world::launcher::MAX_RANKS;

/// Communication that makes progress by interrupt: run programs, measure, plot.
#[derive(Debug, Parser)]
#[command(
    name = "tocsin",
    version,
    max_term_width = 110,
    after_help = "Example: tocsin run -n 4 -- ./my_program"
)]
pub struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// What this machine can do: user interrupts, backends, large-message strategies, topology
    #[command(after_help = "Example: tocsin info --json")]
    Info(Info),
    /// Start N ranks of any program that uses the library and wire them up
    #[command(
        after_help = "Example: tocsin run -n 2 --backend signal -- ./my_program --its-option\n         \
                      tocsin run -n 4 --trace trace.paje -- ./my_program\n         \
                      tocsin run -n 4 --plot plots -- ./my_program"
    )]
    Run(Run),
    /// Measure
    #[command(after_help = "Example: tocsin bench overlap --backend signal,poll --plot plots")]
    Bench(Bench),
    /// Measure from which size on messages travel how on this machine, and which algorithms collectives take, and write the
    /// table that TOCSIN_TUNE names
    #[command(
        after_help = "Messages: half round trips between ranks that both wait, by each strategy; where processors differ in what lies \
                      between them (a cache that both share, a NUMA node, two), one pair at each distance. Collectives: each operation with \
                      several algorithms, posted and waited for with nothing between, by each algorithm that can serve it, in turn \
                      in one run, from root 0 and with sums of integers; the quickest is written if it takes 5 % less than the \
                      library's own choice, and no more in nine of ten rounds, else auto, which is that choice. Messages \
                      and collectives have 2 minutes each, 10 s with --quick: collectives share that time out among \
                      what is left to do, and what there is no time for gets one round.\n\n\
                      Example: tocsin tune --output tocsin.tune && TOCSIN_TUNE=tocsin.tune tocsin run -n 4 -- ./my_program\n         \
                      tocsin tune --op ibcast,iallreduce --kind thread --ranks 2,4"
    )]
    Tune(Tune),
    /// What the placement policies, the cost model and the simulator decide, on this machine or on one you do not have
    #[command(
        after_help = "Example: tocsin plan placement --topology 'numa:2 core:4' --ranks 6 --progress numa"
    )]
    Plan(plan::Plan),
    /// A rank that a bench started: not for people
    #[command(hide = true)]
    Rank(crate::rank::Start),
    /// The second process of a latency measurement: not for people
    #[command(hide = true)]
    Peer(crate::latency::Peer),
}

#[derive(Debug, Args)]
pub(crate) struct Info {
    /// One JSON object per line on standard output
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Number of ranks
    #[arg(short = 'n', long = "ranks", value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_RANKS)))]
    pub ranks: u32,
    /// Which core each rank is bound to: none, scatter, scatter_numa [default: scatter while ranks <= cores]
    #[arg(long, value_name = "P")]
    pub bind: Option<Policy>,
    /// Where progress threads run (thread backend): none (not bound: a thread starts with its rank's
    /// binding, if that has one), bind (on their rank's core), numa (on free cores of
    /// its NUMA node), smt (on another hardware thread of its core), odd_even (two cores for all) [default: none]
    #[arg(long, value_name = "P")]
    pub progress: Option<ProgressPolicy>,
    /// How many cores get no rank, so that progress threads have them to themselves, with --progress numa [default: 0]
    #[arg(long, value_name = "N")]
    pub reserve: Option<u32>,
    /// How progress threads that share a core are scheduled (thread backend): event (whoever is woken runs what arrivals made
    /// ready), round-robin (each looks in its turn, for ever), suspend (the same, without those that have no operation under
    /// way), semaphore (each for its own events only), priority:N (N from 0 to 20: each has N + 1 turns in a row, and
    /// after all of them everything else on the core has one) [default: event]
    #[arg(long, value_name = "NAME")]
    pub schedule: Option<tocsin_world::Schedule>,
    /// How a rank is notified: auto, uintr, signal, thread, poll [default: auto]
    #[arg(long, value_name = "B", value_parser = word::<Backend>)]
    pub backend: Option<Backend>,
    /// How large messages travel: auto, direct, xpmem, cma, knem, vmsplice, double [default: auto]
    #[arg(long, value_name = "L", value_parser = word::<Lmt>)]
    pub lmt: Option<Lmt>,
    /// Write what every rank did when to this file: computing, in the library (from where a call enters the engine), in a
    /// handler; messages; collectives and their steps. A rank adds its last 65536 events when it leaves the world in good order
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Format of the trace: chrome (trace JSON, for ui.perfetto.dev), paje (for ViTE and pj_dump) [default: paje for a file
    /// whose name ends in .paje or .trace, else chrome]
    #[arg(long, value_name = "FORMAT", value_parser = word::<TraceFormat>)]
    pub trace_format: Option<TraceFormat>,
    /// Draw the steps of a collective over time, a row per rank, into this directory (SVG and PNG): of the operation that
    /// took the most time in all, the one of median length. From the trace, which is DIR/trace.json without --trace
    #[arg(long, value_name = "DIR")]
    pub plot: Option<PathBuf>,
    /// When a rank fails: kill (the others get 1 s) or report (they see the error and finish by themselves)
    #[arg(long, value_name = "WHAT", value_parser = word::<OnFailure>, default_value = "kill")]
    pub on_failure: OnFailure,
    /// Put the rank's number before every line it prints: [0] text. A line of more than 64 KiB is several
    #[arg(long)]
    pub tag_output: bool,
    /// Report the run as one JSON object on standard output; the ranks' output goes to standard error
    #[arg(long)]
    pub json: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROG ARGS")]
    pub program: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct Tune {
    /// Where the table goes; if there is one, what is measured anew takes the place of the rows of its kind, and the others stay
    #[arg(long, value_name = "FILE", default_value = "tocsin.tune")]
    pub output: PathBuf,
    /// Fewer sizes and rounds; messages and collectives have 10 s each, rather than 2 minutes, and what is left then gets one
    /// round. What differs too much from round to round, or had fewer than three, gets no row, and is told
    #[arg(long)]
    pub quick: bool,
    /// What is measured: p2p (messages), collectives [default: both, with --op collectives]
    #[arg(long, value_name = "LIST", value_parser = word::<Tuned>, value_delimiter = ',')]
    pub what: Vec<Tuned>,
    /// Collectives to measure [default: all that have several algorithms]
    #[arg(long, value_name = "LIST", value_parser = word::<Operation>, value_delimiter = ',')]
    pub op: Vec<Operation>,
    /// How many ranks a collective has, a list measures each [default: 2, 4, 8, ... while there are cores, and as many as those]
    #[arg(long, value_name = "LIST", value_parser = counts)]
    pub ranks: Option<Sizes>,
    /// What a rank is: process, thread, a list measures each [default: both]
    #[arg(long, value_name = "LIST", value_parser = word::<Kind>, value_delimiter = ',')]
    pub kind: Vec<Kind>,
    /// How many pairs of ranks exchange messages at once, a list measures each [default: 1, 2, 4, ... while there are cores]
    #[arg(long, value_name = "LIST", value_parser = counts)]
    pub at_once: Option<Sizes>,
    /// How a rank is notified: auto, uintr, signal, thread, poll
    #[arg(long, value_name = "B", value_parser = word::<Backend>, default_value = "auto")]
    pub backend: Backend,
    /// Sizes, of messages some of up to 32K and some above: 4K,1M, a list, a range A..B (doubling, B included); of collectives
    /// as in `tocsin bench coll`, blocks of up to 8M for all ranks together
    #[arg(long, value_name = "LIST", value_parser = sizes)]
    pub sizes: Option<Sizes>,
    /// Measured rounds per size
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub rounds: Option<u64>,
    /// One JSON object per line on standard output
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    pub bench: BenchCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Time from a notification to the first instruction that sees it
    #[command(
        after_help = "Without options: processes and threads, by each mechanism that this machine has, 5000 rounds.\n\n\
                      Example: tocsin bench latency --kind thread --rounds 20000 --plot plots\n         \
                      tocsin bench latency --self --stack own,alternate --mask\n         \
                      tocsin bench latency --burst 1,2,8,64"
    )]
    Latency(Latency),
    /// Half round trip and bandwidth; ranks beyond two wait meanwhile
    #[command(
        after_help = "Without options: 2 processes, backend auto, 0, 8, 64 and 512 bytes, 4K, 64K, 1M and 4M, 40 rounds.\n\nExample: tocsin bench pingpong --backend signal,poll --sizes 0,64,1K..4M"
    )]
    Pingpong(Pingpong),
    /// A message goes round all ranks: time from one to the next
    #[command(
        after_help = "Without options: 4 processes, backend auto, 8 bytes, 1K and 64K, 40 rounds.\n\nExample: tocsin bench ring --ranks 4 --sizes 1K --backend signal,poll"
    )]
    Ring(Ring),
    /// Every rank sends to the next and receives from the one before at once
    #[command(
        after_help = "Without options: 2 processes, backend auto, 8 bytes, 1K, 16K, 64K, 256K and 1M, 40 rounds.\n\n\
                      Example: tocsin bench exchange --waits sendrecv,posts --sizes 16K..1M --backend signal,poll"
    )]
    Exchange(Exchange),
    /// Messages per second from one rank to another, many of them under way at once
    #[command(
        after_help = "Without options: 2 processes, backend auto, 8 and 64 bytes and 1K, 40 rounds.\n\n\
                      Example: tocsin bench rate --sizes 8,64,1K --window 64 --receives early,late --kind process,thread"
    )]
    Rate(Rate),
    /// Time per completed request with many receives outstanding
    #[command(after_help = "Without options: 2 processes, backend auto, 8 bytes, 20 rounds.\n\n\
                      Example: tocsin bench outstanding --count 10,100,1000,10000 --completion wait,callback")]
    Outstanding(Outstanding),
    /// Every rank sends to every other: set-up, memory per rank and per pair, time
    #[command(
        after_help = "Without options: 4 processes for each core, backend auto, 8 bytes, 5 rounds.\n\nExample: tocsin bench pairs --kind thread --ranks 256"
    )]
    Pairs(Pairs),
    /// How much of a message's time hides behind computing
    #[command(after_help = "Without options: 2 processes, backend auto, 64K, 256K and 1M, 30 rounds.\n\n\
                      Example: tocsin bench overlap --case recv --compute-us 1x,4x --sizes 64K,1M --plot plots")]
    Overlap(Overlap),
    /// Collectives: times, overlap, reactivity to a late rank
    #[command(
        after_help = "Without options: a process for each core, but 2 at least, backend auto, 1K and 64K, 30 rounds (with a late rank 10, with --mode alone 11).\n\n\
                      Example: tocsin bench coll --op ibcast --algorithm binomial --ranks 4 --sizes 1K,64K \
                      --late-rank 2 --late-us 10000 --backend signal,poll"
    )]
    Coll(Coll),
    /// Placements and schedules of progress threads beside each other: ratios, as in Taboada's thesis (Bordeaux 2018)
    #[command(
        after_help = "Without options: threads, one for each core that is not given to progress, but 2 at least, 64K (odd-even and policies: 16 threads, 8 bytes), 11 rounds.\n\n\
                      Example: tocsin bench compare policies --op iscan --ranks 16 --kind thread\n         \
                      tocsin bench compare numa-bind --op ibcast,iallreduce --sizes 1K,64K\n         \
                      tocsin bench compare odd-even --schedule round-robin\n         \
                      tocsin bench compare equivalent --json"
    )]
    Compare(Compare),
    /// Speed of computing with the library initialised and no traffic, against without
    #[command(
        after_help = "Without options: a process for each core, backend auto, 300 rounds.\n\nExample: tocsin bench idle --backend signal --rounds 400"
    )]
    Idle(Idle),
    /// What transfers and computing on large arrays take from each other
    #[command(
        after_help = "Without options: 2 processes and those of --computing, backend auto, 4 bytes, 4K, 64K, 1M and 64M, 15 rounds.\n\n\
                      Example: tocsin bench contention --computing 0..4 --kernel copy,triad --sizes 4,64K,1M --backend signal,poll"
    )]
    Contention(Contention),
}

/// Options that every bench takes.
#[derive(Debug, Args)]
pub(crate) struct Common {
    /// Number of ranks (a list or a range A..B measures each)
    #[arg(long, value_name = "N", value_parser = counts)]
    pub ranks: Option<Sizes>,
    /// What a rank is: process or thread (a list measures both)
    #[arg(long, value_name = "KIND", value_parser = word::<Kind>, value_delimiter = ',')]
    pub kind: Vec<Kind>,
    /// How a rank is notified: auto, uintr, signal, thread, poll; a list is measured interleaved in one run
    #[arg(long, value_name = "LIST", value_parser = word::<Backend>, value_delimiter = ',')]
    pub backend: Vec<Backend>,
    /// How large messages travel: auto, direct, xpmem, cma, knem, vmsplice, double
    #[arg(long, value_name = "L", value_parser = word::<Lmt>, default_value = "auto")]
    pub lmt: Lmt,
    /// What messages' buffers are made of: private (malloc), shared (the world's shared heap, `tocsin_alloc`); a list is measured
    /// interleaved in one run [default: private]
    #[arg(long, value_name = "LIST", value_parser = word::<Buffers>, value_delimiter = ',')]
    pub buffers: Vec<Buffers>,
    /// Message sizes: 64K, 1M, a list, a range A..B (doubling, B included)
    #[arg(long, value_name = "LIST", value_parser = sizes)]
    pub sizes: Option<Sizes>,
    /// Measured rounds per row
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub rounds: Option<u64>,
    /// Rounds before those, not counted
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub warmup: u64,
    /// Which core each rank is bound to: none, scatter, scatter_numa [default: scatter while ranks <= cores]
    #[arg(long, value_name = "POLICY")]
    pub bind: Option<Policy>,
    /// Where progress threads run (thread backend): none, bind, numa, smt, odd_even; a list is measured interleaved in
    /// one run [default: none; for `bench compare policies` numa]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub progress: Vec<ProgressPolicy>,
    /// How many cores get no rank, so that progress threads have them to themselves [default: 0; for `bench compare` 1, for its odd-even 2 where there are 3 cores; its equivalent takes 0 to 2]
    #[arg(long, value_name = "N")]
    pub reserve: Option<u32>,
    /// How progress threads that share a core are scheduled (thread backend): event, round-robin, suspend, semaphore,
    /// priority:N (N from 0 to 20: each has N + 1 turns in a row, and after all of them everything else on the core has one);
    /// a list is for `bench compare policies` [default: event, there all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub schedule: Vec<tocsin_world::Schedule>,
    /// Write plots (SVG and PNG) into this directory
    #[arg(long, value_name = "DIR")]
    pub plot: Option<PathBuf>,
    /// One JSON object per line on standard output
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Latency {
    #[command(flatten)]
    pub common: Common,
    /// Ways to notify: uintr, signal, futex, eventfd, cacheline [default: all this machine has]
    #[arg(long, value_name = "LIST", value_parser = word::<Mechanism>, value_delimiter = ',')]
    pub mechanism: Vec<Mechanism>,
    /// Count ticks of the time-stamp counter, in one process: from the ring to the handler and, to oneself, back
    #[arg(long, conflicts_with_all = ["oneself", "stack", "burst", "mask"])]
    pub ticks: bool,
    /// A thread posts to itself: placement is self. This and the three options below measure uintr and signal without the
    /// library's doorbell, a bare handler's, within one process
    #[arg(long = "self")]
    pub oneself: bool,
    /// Stack that handlers run on: own (the interrupted code's), alternate (another, which the kernel goes to for a signal, the
    /// CPU for a user interrupt), trampoline (another, which the trampoline goes to: user interrupts, and what ranks have);
    /// a list measures each in turn, echoed in stack [default: alternate]
    #[arg(long, value_name = "LIST", value_parser = word::<HandlerStack>, value_delimiter = ',')]
    pub stack: Vec<HandlerStack>,
    /// Posts in a row: times are until a handler finds the last of them sent, and handlers is how many runs of handlers came of
    /// them (mean); a list measures each in turn, echoed in burst [default: 1]
    #[arg(long, value_name = "LIST", value_parser = posts)]
    pub burst: Option<Sizes>,
    /// Each handler unmasks its mechanism and masks it again (SIG_UNBLOCK and SIG_BLOCK; STUI and CLUI), as often as masks says,
    /// after its time stamp: mask_ns_min and mask_ns_p50 are of one unmasking and masking, in mean of a burst. Not
    /// with uintr and --stack alternate, whose handlers none may interrupt
    #[arg(long)]
    pub mask: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Pingpong {
    /// Count what happens to the two ranks' threads, in their own code (the rewriting of buffers is part of it) and in the
    /// kernel on their behalf, and print it per message: cache-misses, cache-references, page-faults, context-switches
    #[arg(long, value_name = "EVENT", value_parser = word::<Event>)]
    pub count: Option<Event>,
    #[command(flatten)]
    pub common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct Ring {
    #[command(flatten)]
    pub common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct Exchange {
    #[command(flatten)]
    pub common: Common,
    /// How a rank does it: sendrecv (one call), posts (irecv, isend, and a wait for each); a list measures each
    #[arg(
        long,
        value_name = "LIST",
        value_parser = word::<Waits>,
        value_delimiter = ',',
        default_value = "sendrecv,posts"
    )]
    pub waits: Vec<Waits>,
}

#[derive(Debug, Args)]
pub(crate) struct Rate {
    #[command(flatten)]
    pub common: Common,
    /// Sends under way at once, or one after the other where they are blocking, before the sender waits for all of them and for an answer; a list measures each
    #[arg(long, value_name = "LIST", value_parser = requests, default_value = "64")]
    pub window: Sizes,
    /// When the receives of a window are posted: early (before its first message is sent), late (when its last one has been
    /// sent: all of them come unexpected), computing (before its first, and then the receiver computes for 1 us a message; the time is that
    /// until all sends are complete), blocking (one after the other, in calls that wait, as they are sent, too: a stream); a list measures each
    #[arg(
        long,
        value_name = "LIST",
        value_parser = word::<Receives>,
        value_delimiter = ',',
        default_value = "early,late"
    )]
    pub receives: Vec<Receives>,
}

#[derive(Debug, Args)]
pub(crate) struct Outstanding {
    #[command(flatten)]
    pub common: Common,
    /// Receives outstanding at once; a list measures each, and compares it with the first
    #[arg(long, value_name = "LIST", value_parser = requests, default_value = "10,100,1000,10000")]
    pub count: Sizes,
    /// How one learns of a completion: wait (for all, in the order of posting), callback (one per request, which runs
    /// while the rank sleeps outside of the library); a list measures each
    #[arg(
        long,
        value_name = "LIST",
        value_parser = word::<Completion>,
        value_delimiter = ',',
        default_value = "wait,callback"
    )]
    pub completion: Vec<Completion>,
}

#[derive(Debug, Args)]
pub(crate) struct Pairs {
    #[command(flatten)]
    pub common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct Overlap {
    #[command(flatten)]
    pub common: Common,
    /// Who computes: recv, send, both; a list measures each
    #[arg(long, value_name = "LIST", value_parser = word::<Case>, value_delimiter = ',', default_value = "recv")]
    pub case: Vec<Case>,
    /// Computing times in microseconds; `4x` means four times the measured time of the communication
    #[arg(long, value_name = "LIST", value_parser = compute_times, default_value = "1x,2x,4x")]
    pub compute_us: Sizes<ComputeTime>,
}

#[derive(Debug, Args)]
pub(crate) struct Coll {
    #[command(flatten)]
    pub common: Common,
    /// Operations, a list measures each: ibarrier, ibcast, iscatter, iscatterv, igather, igatherv, iallgather, iallgatherv, ialltoall,
    /// ialltoallv, ialltoallw, ireduce, iallreduce, ireduce_scatter, ireduce_scatter_block, iscan, iexscan. A size is that of the whole
    /// buffer for ibcast, ireduce, iallreduce, iscan, iexscan and (the input, divided among the ranks) ireduce_scatter, else that of the
    /// block of one rank
    #[arg(
        long,
        value_name = "LIST",
        value_parser = word::<Operation>,
        value_delimiter = ',',
        default_value = "ibarrier,ibcast,iallreduce,ialltoall"
    )]
    pub op: Vec<Operation>,
    /// Algorithm, by its name [default: the library chooses]
    #[arg(long, value_name = "NAME")]
    pub algorithm: Option<String>,
    /// How much is computed without a late rank: cpu-exploit (as long as the communication takes), equivalent (a fixed global amount,
    /// split over the ranks), alone (nothing: the communication's time only, of many operations one after the other)
    #[arg(long, value_name = "MODE", value_parser = word::<Mode>, default_value = "cpu-exploit", conflicts_with = "late_rank")]
    pub mode: Mode,
    /// This rank posts, raises a flag outside the library, then computes without a library call
    #[arg(long, value_name = "R", requires = "late_us")]
    pub late_rank: Option<u32>,
    /// How long the late rank computes, in microseconds
    #[arg(long, value_name = "T", requires = "late_rank")]
    pub late_us: Option<u64>,
    /// Root of ibcast, iscatter, igather, ireduce and their v forms [default: 0]
    #[arg(long, value_name = "R")]
    pub root: Option<u32>,
    /// Prepare each collective once and restart it, instead of posting a new one each time
    #[arg(long)]
    pub persistent: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Compare {
    /// What is compared, each with the first of its kind: numa-bind (progress threads on cores of their own against their
    /// ranks' cores: collective and computing together), odd-even (two progress cores against those of numa: the
    /// collective), policies (how progress threads share a core: the collective), equivalent (0, 1 and 2 cores given away
    /// to progress threads: collective and a fixed amount of computing together), split-tree (a binomial tree whose levels
    /// next to the leaves run in the ranks' own calls, as many as the cost model says and the program's computing teaches,
    /// against one that progress threads run alone: collective and computing together)
    #[arg(value_name = "WHAT", value_parser = word::<Comparison>)]
    pub what: Comparison,
    #[command(flatten)]
    pub common: Common,
    /// Operations, a list measures each [default: iscan for odd-even and policies, else ibcast]
    #[arg(long, value_name = "LIST", value_parser = word::<Operation>, value_delimiter = ',')]
    pub op: Vec<Operation>,
    /// Algorithm, by its name; not for split-tree, which compares two [default: pipelined-chain for iscan and iexscan, else the
    /// library chooses]
    #[arg(long, value_name = "NAME")]
    pub algorithm: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Idle {
    #[command(flatten)]
    pub common: Common,
    /// Length of a slice in microseconds
    #[arg(long, value_name = "US", default_value_t = 4000, value_parser = clap::value_parser!(u64).range(10..))]
    pub slice_us: u64,
}

#[derive(Debug, Args)]
pub(crate) struct Contention {
    #[command(flatten)]
    pub common: Common,
    /// Ranks that compute while two others play ping-pong; 0: there are two, and the one that receives computes. A list or a
    /// range measures each [default: 0, and from 1 on while there are cores]
    #[arg(long, value_name = "LIST", value_parser = computing)]
    pub computing: Option<Sizes>,
    /// What is computed: copy (b[i] = a[i]), triad (c[i] = a[i] + s * b[i]); a list measures each
    #[arg(long, value_name = "LIST", value_parser = word::<Kernel>, value_delimiter = ',', default_value = "triad")]
    pub kernel: Vec<Kernel>,
    /// How often triad's operation is repeated on an element before the next one's turn: sets the arithmetic intensity. A list
    /// measures each
    #[arg(long, value_name = "LIST", value_parser = repeats, default_value = "1")]
    pub repeat: Sizes,
    /// Length of each of the three arrays of a rank that computes: several times what its caches hold
    #[arg(long, value_name = "SIZE", value_parser = array, default_value = "32M")]
    pub array: u64,
}

pub(crate) use plan::{Algorithms, Placement, PlanCommand, Schedule, SplitTree};

#[cfg(test)]
mod tests;
