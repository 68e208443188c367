//! The table of environment variables.

use super::{Config, Lmt, TraceFormat};
use crate::BackendKind;
use crate::config::size::parse_size;
use crate::error::Error;
use crate::tune::{EAGER_LIMIT, Table, Tuning};
use tocsin_shm_transport::MAX_HEAP;

/// One environment variable.
#[derive(Debug)]
#[non_exhaustive]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// Its right values, as an error prints them.
    pub values: &'static str,
    /// What an unset variable means.
    pub default: &'static str,
    /// What it does.
    pub meaning: &'static str,
    /// Set by the launcher for its ranks, not by people.
    pub internal: bool,
    pub(super) set: fn(&mut Config, &str) -> Option<()>,
    pub(super) get: fn(&Config) -> Option<String>,
}

/// The descriptor of the launcher's socket.
pub(crate) const BOOTSTRAP_FD: &str = "TOCSIN_BOOTSTRAP_FD";
/// What all processes of one world, and only they, have in their environment.
pub(crate) const BOOTSTRAP_WORLD: &str = "TOCSIN_BOOTSTRAP_WORLD";
/// The function that a re-executed program runs.
pub(crate) const CHILD: &str = "TOCSIN_CHILD";

/// The file of measured thresholds.
pub(super) const TUNE: &str = "TOCSIN_TUNE";

/// All variables that the library reads.
pub static VARIABLES: &[Variable] = &[
    Variable {
        name: "TOCSIN_BACKEND",
        values: "auto, uintr, signal, thread, poll",
        default: "auto",
        meaning: "how a rank is notified; auto takes the first usable of uintr, signal",
        internal: false,
        set: |c, v| {
            c.backend = match v {
                "auto" => None,
                name => Some(name.parse::<BackendKind>().ok()?),
            };
            Some(())
        },
        get: |c| Some(c.backend.map_or_else(|| "auto".into(), |b| b.to_string())),
    },
    Variable {
        name: "TOCSIN_SIGNAL",
        values: "URG, USR1, USR2, IO, WINCH, or the number of one of them or of a real-time signal",
        default: "URG",
        meaning: "signal of the backend signal; a handler for it that was there before is called for tocsin's, too, unless it is a real-time one",
        internal: false,
        set: |c, v| {
            c.signal = signal_number(v)?;
            Some(())
        },
        get: |c| Some(c.signal.to_string()),
    },
    Variable {
        name: "TOCSIN_EAGER_MAX",
        values: "a size from 0 to 32K, such as 16K",
        default: "16K",
        meaning: "largest message that is sent without asking the receiver first, 8K at most in worlds of more than 64 ranks; in collectives, and with TOCSIN_LMT=auto from a blocking send to a blocking receive of another process that waits, 4 times as much, at most 64K up to 32 ranks, 32K up to 64, 8K beyond",
        internal: false,
        set: |c, v| {
            // At most half of a lane's data ring: so that two messages are in flight.
            c.eager_max = Some(parse_size(v).filter(|&n| n <= EAGER_LIMIT)?);
            Some(())
        },
        get: |c| c.eager_max.map(|bytes| bytes.to_string()),
    },
    Variable {
        name: "TOCSIN_UNEXPECTED_MAX",
        values: "a size from 64K on, such as 64M",
        default: "64M",
        meaning: "memory in one rank for messages that nobody has received yet, of users and of collectives each, beside the places of the first 1024; beyond it senders wait, and a receive that waits behind it ends with an error once nobody has received anything for a second",
        internal: false,
        set: |c, v| {
            c.unexpected_max = parse_size(v).filter(|&n| n >= 64 << 10)?;
            Some(())
        },
        get: |c| Some(c.unexpected_max.to_string()),
    },
    Variable {
        name: "TOCSIN_LMT",
        values: "auto, direct, xpmem, cma, knem, vmsplice, double",
        default: "auto",
        meaning: "how large messages travel: in one copy between ranks of one process and from the shared heap (direct), of memory of the other that the device XPMEM maps (xpmem), in one copy by the kernel (cma), or of buffers that the device KNEM was told of (knem), in one copy by the kernel of pages that the sender puts into a pipe (vmsplice), or through shared memory (double), which is also the way where the one asked for does not work; auto takes that, too, where both ranks wait",
        internal: false,
        set: |c, v| {
            c.lmt = Lmt::named(v)?;
            Some(())
        },
        get: |c| Some(c.lmt.name().into()),
    },
    Variable {
        name: "TOCSIN_HEAP",
        values: "a size such as 4G, or 0; of all ranks together 16384G at most",
        default: "the machine's memory",
        meaning: "how much each rank may allocate from the world's shared heap (`Comm::alloc`, tocsin_alloc), whose buffers ranks copy from and to directly; 0: there is none. It takes memory as it is used; what the machine, or the job's control group, has not left is refused before it is taken",
        internal: false,
        set: |c, v| {
            c.heap = Some(parse_size(v).filter(|&n| n as u64 <= MAX_HEAP)?);
            Some(())
        },
        get: |c| c.heap.map(|bytes| bytes.to_string()),
    },
    Variable {
        name: TUNE,
        values: "a file that `tocsin tune --output FILE` has written on this machine",
        default: "no table",
        meaning: "what was measured: the eager limit, unless TOCSIN_EAGER_MAX is set; with TOCSIN_LMT=auto from which size on messages go in a single copy, of k that a rank sends at once from a k-th part of it on, which may depend on how far apart the processors of ranks that are bound are; which algorithms collectives take that name none, by size, number of ranks (as on the nearest number that was measured, if that is more than half and less than twice as many), and, where all are bound, how far apart the farthest two are. All ranks have the same algorithms in theirs, or do not join",
        internal: false,
        set: |c, v| {
            // Absolute, because ranks may be started elsewhere.
            let file = std::path::absolute(v).ok()?;
            let table = Table::read(&file).ok()?;
            c.tune = Some(Tuning { file, table });
            Some(())
        },
        get: |c| c.tune.as_ref().and_then(|t| t.file.to_str()).map(String::from),
    },
    Variable {
        name: "TOCSIN_BIND",
        values: "none, scatter, scatter_numa",
        default: "none",
        meaning: "which core each rank is bound to when it is started; on a machine of several NUMA nodes what is allocated for a bound rank in the world's memory then lies on its node",
        internal: false,
        set: |c, v| {
            c.bind = v.parse().ok()?;
            Some(())
        },
        get: |c| Some(c.bind.to_string()),
    },
    Variable {
        name: "TOCSIN_PROGRESS",
        values: "none, bind, numa, smt, odd_even",
        default: "none",
        meaning: "which core the progress threads of the backend thread are bound to: none, their rank's, free ones of its NUMA node, another hardware thread of its core, or two for all (`tocsin plan placement` shows it)",
        internal: false,
        set: |c, v| {
            c.progress = v.parse().ok()?;
            Some(())
        },
        get: |c| Some(c.progress.to_string()),
    },
    Variable {
        name: "TOCSIN_RESERVE",
        values: "a number of cores, such as 1, less than there are",
        default: "0",
        meaning: "how many cores get no rank when ranks are bound, so that progress threads have them to themselves (with TOCSIN_PROGRESS=numa)",
        internal: false,
        set: |c, v| {
            c.reserve = v.parse().ok().filter(|_| v.bytes().all(|c| c.is_ascii_digit()))?;
            Some(())
        },
        get: |c| Some(c.reserve.to_string()),
    },
    Variable {
        name: "TOCSIN_SCHEDULE",
        values: "event, round-robin, suspend, semaphore, or priority:N with N from 0 to 20",
        default: "event",
        meaning: "how the progress threads of the backend thread share a core: event, whoever is woken runs what arrivals made ready; round-robin, each looks in its turn, for ever; suspend, the same, without those that have no operation under way; semaphore, each for its own events only; priority:N, each has N + 1 turns in a row, and after all of them everything else on the core has one",
        internal: false,
        set: |c, v| {
            c.schedule = v.parse().ok()?;
            Some(())
        },
        get: |c| Some(c.schedule.to_string()),
    },
    Variable {
        name: "TOCSIN_TOPOLOGY",
        values: "a synthetic description such as `numa:2 core:4 pu:1` (levels: package, numa, l3, l2, core, pu)",
        default: "this machine",
        meaning: "the machine as placement sees it; a core of it that this machine does not have is not bound to",
        internal: false,
        set: |c, v| {
            tocsin_topology::Topology::synthetic(v).ok()?;
            c.topology = Some(v.to_owned());
            Some(())
        },
        get: |c| c.topology.clone(),
    },
    Variable {
        name: "TOCSIN_TRACE",
        values: "the name of a file in a directory that exists",
        default: "no trace",
        meaning: "file for a trace of states (in the library: from where a call enters the engine), messages, collectives and their steps; the last 65536 events of each rank that left the world in good order",
        internal: false,
        set: |c, v| {
            if v.is_empty() {
                return None;
            }
            let path = std::path::PathBuf::from(v);
            let parent = path.parent()?;
            if path.is_dir() || !(parent.as_os_str().is_empty() || parent.is_dir()) {
                return None;
            }
            c.trace = Some(path);
            Some(())
        },
        get: |c| c.trace.as_ref().and_then(|p| p.to_str()).map(String::from),
    },
    Variable {
        name: "TOCSIN_TRACE_FORMAT",
        values: "auto, chrome, paje",
        default: "auto",
        meaning: "format of the trace: Chrome trace JSON, for ui.perfetto.dev, or Paje, for ViTE and pj_dump; auto takes Paje for a file whose name ends in .paje or .trace, else Chrome's",
        internal: false,
        set: |c, v| {
            c.trace_format = TraceFormat::find(v)?;
            Some(())
        },
        get: |c| Some(c.trace_format.name().into()),
    },
    internal(BOOTSTRAP_FD, "descriptor of the launcher's socket"),
    internal(BOOTSTRAP_WORLD, "name of the world, by which the launcher finds its processes"),
    internal(CHILD, "function that a re-executed program runs"),
];

const fn internal(name: &'static str, meaning: &'static str) -> Variable {
    Variable {
        name,
        values: "set by the launcher",
        default: "unset",
        meaning,
        internal: true,
        set: |_, _| Some(()),
        get: |_| None,
    }
}

pub(super) fn find(name: &str) -> Result<&'static Variable, Error> {
    VARIABLES.iter().find(|v| v.name == name).ok_or_else(|| {
        let known: Vec<&str> = VARIABLES.iter().filter(|v| !v.internal).map(|v| v.name).collect();
        Error::UnknownVariable { variable: name.into(), known: known.join(", ") }
    })
}

/// Signals whose arrival at a thread that does not expect them is survivable or that people choose knowingly.
fn signal_number(text: &str) -> Option<i32> {
    let named = match text.strip_prefix("SIG").unwrap_or(text) {
        "URG" => libc::SIGURG,
        "USR1" => libc::SIGUSR1,
        "USR2" => libc::SIGUSR2,
        "IO" => libc::SIGIO,
        "WINCH" => libc::SIGWINCH,
        number => number.parse().ok()?,
    };
    let allowed = [libc::SIGURG, libc::SIGUSR1, libc::SIGUSR2, libc::SIGIO, libc::SIGWINCH];
    let real_time = libc::SIGRTMIN()..=libc::SIGRTMAX();
    (allowed.contains(&named) || real_time.contains(&named)).then_some(named)
}
