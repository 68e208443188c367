//! Values of options: words, sizes, lists, ranges.

use std::fmt;
use std::str::FromStr;
pub use tocsin_world::algorithms::Operation;
use tocsin_world::launcher::MAX_RANKS;
use tocsin_world::tune::Ranks;

/// A list given as one argument. (A plain `Vec` would make clap expect one item per occurrence.)
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes<T = u64>(pub Vec<T>);

/// A closed set of words on the command line.
pub(crate) trait Word: Copy + 'static {
    /// What the set is of, for messages.
    const WHAT: &'static str;
    /// The words.
    const ALL: &'static [(&'static str, Self)];
}

/// Parses a word; the error lists those that exist.
pub(crate) fn word<W: Word>(text: &str) -> Result<W, String> {
    if let Some((_, value)) = W::ALL.iter().find(|(name, _)| *name == text) {
        return Ok(*value);
    }
    let names: Vec<&str> = W::ALL.iter().map(|(name, _)| *name).collect();
    Err(format!("no {} is called `{text}`; there are: {}", W::WHAT, names.join(", ")))
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $what:literal { $($(#[$vdoc:meta])* $variant:ident = $word:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant),* }
        impl Word for $name {
            const WHAT: &'static str = $what;
            const ALL: &'static [(&'static str, Self)] = &[$(($word, $name::$variant)),*];
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $($name::$variant => $word),* })
            }
        }
        impl FromStr for $name {
            type Err = String;
            fn from_str(text: &str) -> Result<Self, String> { word(text) }
        }
    };
}

words! {
    /// How a rank is notified.
    Backend, "backend" {
        /// The first usable of uintr, signal.
        Auto = "auto",
        /// User interrupts.
        Uintr = "uintr",
        /// Signals.
        Signal = "signal",
        /// A progress thread.
        Thread = "thread",
        /// Not at all: progress inside library calls only.
        Poll = "poll",
    }
}
words! {
    /// How large messages travel.
    Lmt, "large-message strategy" {
        /// The best usable.
        Auto = "auto",
        /// One plain copy, between ranks of one process.
        Direct = "direct",
        /// One plain copy, of memory that the device XPMEM maps.
        Xpmem = "xpmem",
        /// `process_vm_readv` and its twin.
        Cma = "cma",
        /// One copy by the kernel, of buffers that the device KNEM was told of.
        Knem = "knem",
        /// Pages that the sender puts into a pipe.
        Vmsplice = "vmsplice",
        /// Double buffering through the shared segment.
        Double = "double",
    }
}
impl Lmt {
    /// The library's word for it.
    pub(crate) fn of_library(self) -> tocsin_world::Lmt {
        match self {
            Lmt::Direct => tocsin_world::Lmt::Direct,
            Lmt::Xpmem => tocsin_world::Lmt::Xpmem,
            Lmt::Cma => tocsin_world::Lmt::Cma,
            Lmt::Knem => tocsin_world::Lmt::Knem,
            Lmt::Double => tocsin_world::Lmt::Double,
            Lmt::Vmsplice => tocsin_world::Lmt::Vmsplice,
            Lmt::Auto => tocsin_world::Lmt::Auto,
        }
    }
}
words! {
    /// What is counted while messages travel.
    Event, "event that can be counted" {
        /// Misses of the last cache that the machine counts by this name.
        CacheMisses = "cache-misses",
        /// Accesses to it.
        CacheReferences = "cache-references",
        /// Pages that the kernel had to give.
        PageFaults = "page-faults",
        /// Changes to another thread.
        ContextSwitches = "context-switches",
    }
}
words! {
    /// What messages' buffers are made of.
    Buffers, "kind of buffers" {
        /// The rank's own, from malloc.
        Private = "private",
        /// The world's shared heap.
        Shared = "shared",
    }
}
words! {
    /// What a rank is.
    Kind, "kind of rank" {
        /// A process.
        Process = "process",
        /// A thread of one process.
        Thread = "thread",
    }
}
impl Kind {
    /// The library's word for it.
    pub(crate) fn of_library(self) -> Ranks {
        match self {
            Kind::Process => Ranks::Processes,
            Kind::Thread => Ranks::Threads,
        }
    }
}
words! {
    /// What is measured for a table.
    Tuned, "thing to tune" {
        /// From which size on messages travel how.
        P2p = "p2p",
        /// Which algorithms collectives take.
        Collectives = "collectives",
    }
}
words! {
    /// What survivors of a failed rank get.
    OnFailure, "action" {
        /// One second, then the end.
        Kill = "kill",
        /// The error.
        Report = "report",
    }
}
words! {
    /// How a trace is written.
    TraceFormat, "format of traces" {
        /// Chrome trace JSON.
        Chrome = "chrome",
        /// Paje.
        Paje = "paje",
    }
}
words! {
    /// What is done with the elements of large arrays.
    Kernel, "kernel" {
        /// Nothing.
        Copy = "copy",
        /// A product and a sum.
        Triad = "triad",
    }
}
words! {
    /// Who computes while the message travels.
    Case, "case" {
        /// The receiver.
        Recv = "recv",
        /// The sender.
        Send = "send",
        /// Both.
        Both = "both",
    }
}
words! {
    /// How one learns that a request is complete.
    Completion, "way to learn of a completion" {
        /// By waiting for it.
        Wait = "wait",
        /// By a callback.
        Callback = "callback",
    }
}
words! {
    /// When receives are posted.
    Receives, "time of receives" {
        /// Before their messages are sent.
        Early = "early",
        /// After.
        Late = "late",
        /// Before, by a rank that computes then.
        Computing = "computing",
        /// One after the other, in calls that wait; and so their sends.
        Blocking = "blocking",
    }
}
words! {
    /// How a rank posts what it sends and receives at once, and waits for it.
    Waits, "way to exchange" {
        /// In one call.
        Sendrecv = "sendrecv",
        /// Posts a receive and a send, and waits for each.
        Posts = "posts",
    }
}
words! {
    /// How much a collective's bench computes.
    Mode, "mode" {
        /// As long as the communication takes.
        CpuExploit = "cpu-exploit",
        /// A fixed global amount, split over the ranks.
        Equivalent = "equivalent",
        /// Not at all.
        Alone = "alone",
    }
}
words! {
    /// What is compared of progress threads.
    Comparison, "comparison" {
        /// Cores of their own against their ranks'.
        NumaBind = "numa-bind",
        /// Two cores against those of `numa`.
        OddEven = "odd-even",
        /// Schedules.
        Policies = "policies",
        /// Cores given away.
        Equivalent = "equivalent",
        /// Levels of a tree that ranks do themselves against all of it on progress cores.
        SplitTree = "split-tree",
    }
}
words! {
    /// What a message of a tree weighs, by its level.
    Shape, "shape" {
        /// The same on all levels: reduce, broadcast.
        Constant = "constant",
        /// Twice as much on each level, towards the root: gather, scatter.
        Doubling = "doubling",
    }
}
words! {
    /// A way to notify.
    Mechanism, "mechanism" {
        /// A user interrupt.
        Uintr = "uintr",
        /// A signal, through the library's doorbell.
        Signal = "signal",
        /// A thread asleep in a futex.
        Futex = "futex",
        /// A thread asleep in an eventfd.
        Eventfd = "eventfd",
        /// A thread that polls a cache line: what nothing can beat, and what costs a core.
        Cacheline = "cacheline",
    }
}
words! {
    /// What a bare handler runs on.
    HandlerStack, "stack" {
        /// The interrupted code's stack.
        Own = "own",
        /// Another, which the kernel goes to (signal) or the CPU (uintr).
        Alternate = "alternate",
        /// Another, which the trampoline goes to (uintr).
        Trampoline = "trampoline",
    }
}
/// The library's collectives, by their names.
impl Word for Operation {
    const WHAT: &'static str = "operation";
    const ALL: &'static [(&'static str, Self)] = &NAMED;
}

const NAMED: [(&str, Operation); Operation::ALL.len()] = {
    let mut all = [("", Operation::Ibarrier); Operation::ALL.len()];
    let mut at = 0;
    while at < all.len() {
        all[at] = (Operation::ALL[at].name(), Operation::ALL[at]);
        at += 1;
    }
    all
};

/// A computing time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ComputeTime {
    /// Microseconds.
    Us(f64),
    /// Times the measured time of the communication.
    TimesComm(f64),
}

impl fmt::Display for ComputeTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ComputeTime::Us(us) => write!(f, "{us}"),
            ComputeTime::TimesComm(factor) => write!(f, "{factor}x"),
        }
    }
}

/// `100,4x`
pub(crate) fn compute_times(text: &str) -> Result<Sizes<ComputeTime>, String> {
    let one = |item: &str| {
        let (digits, wrap): (&str, fn(f64) -> ComputeTime) = match item.strip_suffix('x') {
            Some(digits) => (digits, ComputeTime::TimesComm),
            None => (item, ComputeTime::Us),
        };
        let value: Option<f64> = digits.parse().ok().filter(|v: &f64| v.is_finite() && *v > 0.0 && *v < 1e9);
        value.map(wrap).ok_or_else(|| {
            format!(
                "`{item}` is no computing time: write microseconds, or 4x for four times the communication"
            )
        })
    };
    text.split(',').map(|item| one(item.trim())).collect::<Result<_, _>>().map(Sizes)
}

/// One size: `0`, `64K`, `1M`, `1G`.
fn size(text: &str) -> Result<u64, String> {
    let bad = || format!("`{text}` is no size: write for example 8, 64K, 1M");
    let short = text.strip_suffix("iB").unwrap_or(text);
    let (digits, unit) = match short.char_indices().last() {
        Some((at, 'k' | 'K')) => (&short[..at], 1 << 10),
        Some((at, 'm' | 'M')) => (&short[..at], 1 << 20),
        Some((at, 'g' | 'G')) => (&short[..at], 1 << 30),
        _ => (text, 1u64),
    };
    let number: u64 = digits.parse().map_err(|_| bad())?;
    number.checked_mul(unit).filter(|bytes| *bytes <= 1 << 32).ok_or_else(|| format!("`{text}` is above 4G"))
}

/// A list of sizes and ranges; a range doubles from its first to its last, both included.
pub(crate) fn sizes(text: &str) -> Result<Sizes, String> {
    list(text, |at| (at * 2).max(1))
}

/// A list of counts and ranges; a range steps by one, both ends included.
pub(crate) fn counts(text: &str) -> Result<Sizes, String> {
    let all = list(text, |at| at + 1)?;
    match all.0.iter().find(|n| **n == 0 || **n > u64::from(MAX_RANKS)) {
        Some(n) => Err(format!("{n} ranks: at least 1 and at most {MAX_RANKS}")),
        None => Ok(all),
    }
}

/// A list of numbers of ranks that nobody starts: those of a model.
pub(crate) fn planned(text: &str) -> Result<Sizes, String> {
    let all = list(text, |at| at + 1)?;
    match all.0.iter().find(|n| **n == 0 || **n > MAX_PLANNED) {
        Some(n) => Err(format!("{n} ranks: at least 1 and at most {MAX_PLANNED}")),
        None => Ok(all),
    }
}

/// Most ranks of a model: what is reckoned for each has to fit the memory.
pub(crate) const MAX_PLANNED: u64 = 100_000;

/// Most numbers that a range stands for.
const MOST_VALUES: usize = 10_000;

/// A list of numbers of requests.
pub(crate) fn requests(text: &str) -> Result<Sizes, String> {
    let all = sizes(text)?;
    match all.0.iter().find(|n| **n == 0 || **n > MAX_REQUESTS) {
        Some(n) => Err(format!("{n} requests: at least 1 and at most {MAX_REQUESTS}")),
        None => Ok(all),
    }
}

/// Most requests that a bench has outstanding at once: far more than anybody has, and their tags are numbers still.
pub(crate) const MAX_REQUESTS: u64 = 1 << 20;

/// A list of numbers of posts.
pub(crate) fn posts(text: &str) -> Result<Sizes, String> {
    let all = sizes(text)?;
    match all.0.iter().find(|n| **n == 0 || **n > MAX_POSTS) {
        Some(n) => Err(format!("{n} posts: at least 1 and at most {MAX_POSTS}")),
        None => Ok(all),
    }
}

/// Most posts in a row: a thousand are far more than collapse into one.
const MAX_POSTS: u64 = 1000;

/// A list of numbers of ranks that compute beside two that communicate.
pub(crate) fn computing(text: &str) -> Result<Sizes, String> {
    let all = list(text, |at| at + 1)?;
    match all.0.iter().find(|n| **n > u64::from(MAX_RANKS) - 2) {
        Some(n) => Err(format!("{n} ranks beside two: at most {} are", MAX_RANKS - 2)),
        None => Ok(all),
    }
}

/// A list of numbers of repetitions.
pub(crate) fn repeats(text: &str) -> Result<Sizes, String> {
    let all = sizes(text)?;
    match all.0.iter().find(|n| **n == 0 || **n > MAX_REPEATS) {
        Some(n) => Err(format!("{n} times: at least 1 and at most {MAX_REPEATS}")),
        None => Ok(all),
    }
}

/// Most repetitions of an operation on one element: an arithmetic intensity that no memory limits.
const MAX_REPEATS: u64 = 10_000;

/// One size of an array.
pub(crate) fn array(text: &str) -> Result<u64, String> {
    match size(text)? {
        n if (64..=1 << 30).contains(&n) => Ok(n),
        _ => Err(format!("an array of {text}: at least 64 bytes and at most 1G")),
    }
}

fn list(text: &str, next: impl Fn(u64) -> u64) -> Result<Sizes, String> {
    let mut all = Vec::new();
    for item in text.split(',').map(str::trim) {
        let Some((first, last)) = item.split_once("..") else {
            all.push(size(item)?);
            continue;
        };
        let (first, last) = (size(first)?, size(last)?);
        if first > last {
            return Err(format!("`{item}` ends before it begins"));
        }
        let mut at = first;
        while at < last {
            if all.len() >= MOST_VALUES {
                return Err(format!("`{item}` is a range of more than {MOST_VALUES} numbers"));
            }
            all.push(at);
            at = next(at);
        }
        all.push(last);
    }
    Ok(Sizes(all))
}

/// A size for people: `64 KiB`.
pub(crate) fn human_size(bytes: u64) -> String {
    match bytes {
        b if b >= 1 << 20 && b.is_multiple_of(1 << 20) => format!("{} MiB", b >> 20),
        b if b >= 1 << 10 && b.is_multiple_of(1 << 10) => format!("{} KiB", b >> 10),
        b => format!("{b} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_lists() {
        assert_eq!(sizes("0,64K,1M").unwrap().0, [0, 65536, 1 << 20]);
        assert_eq!(sizes("1K..8K").unwrap().0, [1024, 2048, 4096, 8192]);
        assert_eq!(sizes("0..3").unwrap().0, [0, 1, 2, 3]);
        assert_eq!(sizes("8..20").unwrap().0, [8, 16, 20]);
        assert_eq!(sizes("64KiB").unwrap().0, [65536]);
        assert_eq!(counts("2..4,8").unwrap().0, [2, 3, 4, 8]);
        for bad in ["", "x", "4..2", "-1", "1K..", "99999999999G", "8G", "64Ki", "8iB"] {
            assert!(sizes(bad).is_err(), "{bad}");
        }
        assert!(counts("0..2").is_err() && counts("5000").is_err());
        assert_eq!(planned("2..4,100000").unwrap().0, [2, 3, 4, 100_000]);
        assert!(planned("0").is_err() && planned("100001").is_err() && planned("1..20000").is_err());
        assert_eq!(requests("10,1K").unwrap().0, [10, 1024]);
        assert!(requests("0").is_err() && requests("2M").is_err());
        assert_eq!(posts("1..8").unwrap().0, [1, 2, 4, 8]);
        assert!(posts("0").is_err() && posts("1001").is_err());
        assert_eq!(computing("0,2..4").unwrap().0, [0, 2, 3, 4]);
        assert!(computing("1023").is_err() && computing("-1").is_err());
        assert_eq!(repeats("1..8").unwrap().0, [1, 2, 4, 8]);
        assert!(repeats("0").is_err() && repeats("10001").is_err());
        assert!(array("64") == Ok(64) && array("1G") == Ok(1 << 30));
        assert!(array("63").is_err() && array("2G").is_err());
    }

    #[test]
    fn computing_times() {
        assert_eq!(
            compute_times("100, 0.5x").unwrap().0,
            [ComputeTime::Us(100.0), ComputeTime::TimesComm(0.5)]
        );
        for bad in ["", "x", "0", "-4x", "nan", "infx"] {
            assert!(compute_times(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_for_people() {
        assert_eq!([0, 100, 1024, 1 << 20].map(human_size), ["0 B", "100 B", "1 KiB", "1 MiB"]);
    }
}
