//! Large messages by each strategy where ranks compute, buffers are the heap's or of huge pages, or somebody forks; and where the system forbids copies
//! between processes, or pipes.

#![allow(clippy::unwrap_used)] // A test that fails says so by panicking.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tocsin_tests::run::{Arguments, BACKENDS, Case, Kind};
use tocsin_tests::ways;
use tocsin_world::BackendKind;

fn case(kind: Kind, ranks: u32, backend: BackendKind, scenario: &'static str, words: &[(&str, &str)]) {
    let program = Path::new(env!("CARGO_BIN_EXE_tocsin-rank"));
    let arguments = Arguments::of(words);
    Case { program, kind, ranks, backend, scenario, arguments, limit_s: 120 }.pass();
}

/// What a case has to say of how all of its bytes go, where a strategy is forced: of pages, for which the first message makes the pipe and of which the
/// system takes fewer now and then, half at least.
fn by(kind: Kind, lmt: &str, bytes: u64) -> Vec<(&'static str, String)> {
    let of = |by: &str| {
        let least = match by {
            "pages" => bytes / 2,
            // In and out.
            "lanes" => 2 * bytes,
            _ => bytes,
        };
        [("by", by.to_string()), ("least", least.to_string())]
    };
    ways::of(kind, lmt).into_iter().flat_map(of).collect()
}

/// Whoever computes, from a post or a wait that was given up on, until its message has ended: none waits for a call. Who has a callback is told of more than others are: so without one, too.
#[test]
fn nobody_need_call() {
    let notes = Notes::new();
    for lmt in ["auto", "direct", "cma", "vmsplice", "double"] {
        for kind in Kind::ALL {
            for backend in [BackendKind::Signal, BackendKind::Thread] {
                for who in ["send", "receive", "both"] {
                    for bytes in ["100000", "2097152"] {
                        let words = [("rounds", "8"), ("bytes", bytes), ("who", who), ("lmt", lmt)];
                        let by = by(kind, lmt, 8 * bytes.parse::<u64>().unwrap());
                        let by: Vec<_> = by.iter().map(|(name, value)| (*name, value.as_str())).collect();
                        case(kind, 2, backend, "computing", &[&words[..], &by].concat());
                        notes.fresh();
                        let quiet = [("quiet", notes.path())];
                        case(kind, 2, backend, "computing", &[&words[..], &quiet].concat());
                        for leaves in ["time", "any"] {
                            if who != "both" || leaves == "time" {
                                let leaves = [("leaves", leaves), ("buffers", "mixed")];
                                case(kind, 2, backend, "computing", &[&words[..], &leaves].concat());
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A folder in which ranks leave notes for each other.
struct Notes(PathBuf);

impl Notes {
    fn new() -> Notes {
        Notes(std::env::temp_dir().join(format!("tocsin-computing-{}", std::process::id())))
    }

    /// Without any.
    fn fresh(&self) {
        let _none = std::fs::remove_dir_all(&self.0);
        std::fs::create_dir_all(&self.0).unwrap();
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Notes {
    fn drop(&mut self) {
        let _left = std::fs::remove_dir_all(&self.0);
    }
}

/// Some buffers lie in the shared heap: by each strategy, and where the kernel does not copy, from the start or later, at all ranks or some.
#[test]
fn shared_buffers() {
    let heap = ("buffers", "mixed");
    for kind in Kind::ALL {
        for backend in BACKENDS {
            for lmt in ["auto", "direct", "cma", "vmsplice", "double"] {
                for (ranks, max) in [("2", "4194304"), ("5", "300000")] {
                    let words = [
                        ("seed", ranks),
                        ("rounds", "3"),
                        ("messages", "24"),
                        ("max", max),
                        ("lmt", lmt),
                        heap,
                    ];
                    case(kind, ranks.parse().unwrap(), backend, "messages", &words);
                }
                let words = [
                    ("seed", "5"),
                    ("rounds", "6"),
                    ("outstanding", "6"),
                    ("max", "400000"),
                    ("lmt", lmt),
                    heap,
                ];
                case(kind, 3, backend, "collectives", &words);
                let words = [("seed", "6"), ("operations", "1000"), ("max", "300000"), ("lmt", lmt), heap];
                case(kind, 4, backend, "mixed", &words);
            }
        }
    }
    for backend in BACKENDS {
        for forbid in ["start", "later", "some"] {
            let common = [("seed", "8"), ("rounds", "3"), ("forbid", forbid), heap];
            let words = [&common[..], &[("messages", "24"), ("max", "1000000")]].concat();
            case(Kind::Processes, 3, backend, "messages", &words);
            let words = [&common[..], &[("outstanding", "6"), ("max", "400000")]].concat();
            case(Kind::Processes, 4, backend, "collectives", &words);
        }
    }
}

/// From the start, later at all ranks, later at some: what was begun by a single copy arrives otherwise.
#[test]
fn forbidden_copies() {
    for (backend, lmt) in
        BACKENDS.into_iter().flat_map(|backend| ["auto", "cma", "direct"].map(|lmt| (backend, lmt)))
    {
        for forbid in ["start", "later", "some"] {
            let common = [("lmt", lmt), ("forbid", forbid)];
            // Who has asked for the kernel's copies has two.
            let by = [("by", "lanes"), ("least", "65536")];
            let by = if (lmt, forbid) == ("cma", "start") { &by[..] } else { &[] };
            let common = [&common[..], by].concat();
            for (ranks, max) in [("2", "4194304"), ("4", "300000")] {
                let words = [("seed", ranks), ("rounds", "3"), ("messages", "24"), ("max", max)];
                case(
                    Kind::Processes,
                    ranks.parse().unwrap(),
                    backend,
                    "messages",
                    &[&words[..], &common].concat(),
                );
            }
            let words = [("seed", "5"), ("rounds", "6"), ("outstanding", "6"), ("max", "200000")];
            case(Kind::Processes, 4, backend, "collectives", &[&words[..], &common].concat());
        }
    }
}

/// Pages through pipes where copies between processes are forbidden, and where putting pages into pipes is, too: from the start, later at all
/// ranks, later at some.
#[test]
fn forbidden_pages() {
    for backend in BACKENDS {
        for forbid in ["start", "pages-start", "pages-later", "pages-some"] {
            let common = [("rounds", "3"), ("forbid", forbid), ("lmt", "vmsplice")];
            for (ranks, max) in [("2", "4194304"), ("4", "300000")] {
                let words = [&common[..], &[("seed", ranks), ("messages", "24"), ("max", max)]].concat();
                case(Kind::Processes, ranks.parse().unwrap(), backend, "messages", &words);
            }
            let words = [&common[..], &[("seed", "5"), ("outstanding", "6"), ("max", "200000")]].concat();
            case(Kind::Processes, 4, backend, "collectives", &words);
        }
    }
}

/// Who has no descriptors left can make no pipe, nor take one: messages come otherwise.
#[test]
fn no_descriptors_for_pipes() {
    for backend in BACKENDS {
        for descriptors in ["none", "some"] {
            let words = [
                ("seed", "3"),
                ("rounds", "3"),
                ("messages", "24"),
                ("max", "300000"),
                ("lmt", "vmsplice"),
                ("descriptors", descriptors),
            ];
            case(Kind::Processes, 3, backend, "messages", &words);
        }
    }
}

/// The program where every user may run it, gone with the value.
struct ForAll(PathBuf);

impl ForAll {
    fn new() -> ForAll {
        let file = std::env::temp_dir().join(format!("tocsin-rank-for-all-{}", std::process::id()));
        // By another process: what this one has open for writing, a child that another thread has just forked
        // has open too, and a file that is open for writing cannot be run.
        let mut copy = Command::new("install");
        copy.args(["-m", "755", env!("CARGO_BIN_EXE_tocsin-rank")]).arg(&file);
        assert!(copy.status().unwrap().success(), "{copy:?}");
        ForAll(file)
    }

    /// Runs a world of processes that are an ordinary user's, whoever runs this test.
    fn pass(&self, ranks: &str, backend: &str, scenario: &str, words: &[(&str, &str)]) {
        const NOBODY: libc::uid_t = 65534;
        let mut command = Command::new(&self.0);
        command.args(["--launch", ranks, backend, "kill", "120", scenario]).current_dir("/");
        command.args(words.iter().map(|(name, value)| format!("{name}={value}")));
        // SAFETY: between fork and exec only system calls are made, without pointers but a null one.
        unsafe {
            command.pre_exec(|| {
                let drops = libc::geteuid() == 0;
                if drops
                    && (libc::setgroups(0, std::ptr::null()) != 0
                        || libc::setresgid(NOBODY, NOBODY, NOBODY) != 0
                        || libc::setresuid(NOBODY, NOBODY, NOBODY) != 0)
                {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let out = command.output().unwrap();
        assert!(out.status.success(), "{ranks} {backend} {words:?}: {out:?}");
    }
}

impl Drop for ForAll {
    fn drop(&mut self) {
        let _left = std::fs::remove_file(&self.0);
    }
}

/// Where no process may look into another one's memory, as an ordinary user: the strategy that needs it is asked for, or another one, or none.
#[test]
fn nobody_may_look_into_another() {
    let program = ForAll::new();
    for backend in ["signal", "thread", "poll"] {
        for lmt in ["auto", "cma", "vmsplice", "double"] {
            let common = [("rounds", "2"), ("private", "yes"), ("lmt", lmt)];
            for (ranks, max) in [("2", "4194304"), ("3", "300000")] {
                let words = [&common[..], &[("seed", ranks), ("messages", "24"), ("max", max)]].concat();
                program.pass(ranks, backend, "messages", &words);
            }
            let words = [&common[..], &[("seed", "5"), ("outstanding", "6"), ("max", "200000")]].concat();
            program.pass("3", backend, "collectives", &words);
        }
    }
}

/// Children that write into their copies of buffers that are in flight.
#[test]
fn forked_in_flight() {
    for backend in BACKENDS {
        for lmt in ["auto", "cma", "vmsplice", "double"] {
            for (kind, ranks, max) in [
                (Kind::Threads, 2, "1500001"),
                (Kind::Processes, 2, "1500001"),
                (Kind::Processes, 3, "70001"),
            ] {
                case(kind, ranks, backend, "forks", &[("rounds", "4"), ("max", max), ("lmt", lmt)]);
            }
        }
    }
}

#[test]
fn huge_pages() {
    for kind in Kind::ALL {
        for backend in BACKENDS {
            for lmt in ["auto", "cma", "vmsplice", "double"] {
                let words = [
                    ("seed", "9"),
                    ("rounds", "2"),
                    ("messages", "16"),
                    ("max", "5000000"),
                    ("lmt", lmt),
                    ("buffers", "huge"),
                ];
                case(kind, 2, backend, "messages", &words);
            }
        }
    }
}
