//! Bad input gives one clear message each: who is wrong, and what to do.
#![allow(clippy::unwrap_used)] // A test that fails says so by panicking.

use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use tocsin_tests as _; // its allocator
use tocsin_world::{Comm, Config, ConstBuf, DataType, Error, Mode, MutBuf, Op, RawRequest, threads};

/// What a call on a communicator of two ranks must say.
struct Wrong {
    call: fn(&Comm) -> Result<RawRequest, Error>,
    says: &'static [&'static str],
}

fn nothing() -> ConstBuf {
    ConstBuf::contiguous(std::ptr::null(), 0)
}

fn nowhere() -> MutBuf {
    MutBuf::contiguous(std::ptr::null_mut(), 0)
}

// SAFETY, for the whole table: every call is refused before it looks at a buffer, and the buffers have no bytes.
const CALLS: &[Wrong] = &[
    Wrong {
        // SAFETY: see above.
        call: |c| unsafe { c.isend_raw(nothing(), 2, 0, Mode::Standard) },
        says: &["rank 2", "out of range", "0 to 1"],
    },
    Wrong {
        // SAFETY: see above.
        call: |c| unsafe { c.irecv_raw(nowhere(), Some(7), Some(0)) },
        says: &["rank 7", "out of range", "0 to 1"],
    },
    Wrong {
        // SAFETY: see above.
        call: |c| unsafe { c.isend_raw(nothing(), 0, -1, Mode::Standard) },
        says: &["tag -1", "negative"],
    },
    Wrong {
        // SAFETY: see above.
        call: |c| unsafe { c.irecv_raw(nowhere(), None, Some(-5)) },
        says: &["tag -5", "negative"],
    },
    Wrong {
        // SAFETY: see above.
        call: |c| unsafe { c.ibcast_raw(std::ptr::null_mut(), 0, 2, None) },
        says: &["root 2", "out of range", "0 to 1"],
    },
    Wrong {
        // SAFETY: see above.
        call: |c| unsafe { c.ibcast_raw(std::ptr::null_mut(), 0, 0, Some("magic")) },
        says: &["magic", "binomial"],
    },
    Wrong {
        // SAFETY: see above.
        call: |c| unsafe { c.iallreduce_raw(None, std::ptr::null_mut(), 0, DataType::F64, Op::BAnd, None) },
        says: &["iallreduce", "F64"],
    },
    Wrong { call: |c| c.ibarrier_raw(Some("ring-of-fire")), says: &["ring-of-fire", "dissemination"] },
];

#[test]
fn wrong_arguments() {
    threads(2, &Config::default(), |comm| {
        for (i, wrong) in CALLS.iter().enumerate() {
            let text = match (wrong.call)(&comm) {
                Ok(_) => panic!("call {i} was accepted"),
                Err(error) => error.to_string(),
            };
            for word in wrong.says {
                assert!(
                    text.to_lowercase().contains(&word.to_lowercase()),
                    "call {i}: no `{word}` in: {text}"
                );
            }
        }
    })
    .unwrap();
}

#[test]
fn wrong_buffer_lengths_of_the_typed_face() {
    tocsin::World::threads(3, |comm| {
        let error = comm.ialltoall(vec![0_u32; 7]).map(drop).unwrap_err().to_string();
        assert!(error.contains('7') && error.contains('3'), "{error}");
    })
    .unwrap();
}

fn limit(resource: libc::__rlimit_resource_t, value: u64) -> std::io::Result<()> {
    let limit = libc::rlimit { rlim_cur: value, rlim_max: value };
    // SAFETY: the pointer is to a live rlimit.
    match unsafe { libc::setrlimit(resource, &raw const limit) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tocsin-rank"));
    command.env_remove("TOCSIN_BACKEND");
    command
}

/// It failed by itself, without a panic, and said all of `says`.
fn refused(output: &Output, says: &[&str]) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code().is_some_and(|c| c != 0 && c != 101), "{:?}: {text}", output.status);
    assert!(!text.contains("panicked"), "{text}");
    for word in says {
        assert!(text.contains(word), "no `{word}` in: {text}");
    }
}

#[test]
fn wrong_environment() {
    let table: &[(&str, &str, &[&str])] = &[
        ("TOCSIN_BACKEND", "telepathy", &["TOCSIN_BACKEND", "telepathy", "signal", "thread", "poll"]),
        ("TOCSIN_BACKEND", "uintr", &["uintr", "not usable", "signal"]),
        ("TOCSIN_SIGNAL", "KILL", &["TOCSIN_SIGNAL", "URG"]),
        ("TOCSIN_EAGER_MAX", "a lot", &["TOCSIN_EAGER_MAX", "16K"]),
        ("TOCSIN_UNEXPECTED_MAX", "1", &["TOCSIN_UNEXPECTED_MAX", "64K"]),
        ("TOCSIN_LMT", "teleport", &["TOCSIN_LMT", "double"]),
        ("TOCSIN_BIND", "sideways", &["TOCSIN_BIND", "scatter"]),
        ("TOCSIN_TYPO", "1", &["TOCSIN_TYPO", "TOCSIN_BACKEND"]),
        ("TOCSIN_BOOTSTRAP_FD", "999", &["tocsin run"]),
        ("TOCSIN_BOOTSTRAP_FD", "0", &["tocsin run"]),
        ("TOCSIN_BOOTSTRAP_FD", "x", &["TOCSIN_BOOTSTRAP_FD"]),
    ];
    for (name, value, says) in table {
        let output = program().args(["20", "spin", "seconds=0"]).env(name, value).output().unwrap();
        refused(&output, says);
    }
}

#[test]
fn alone_without_a_launcher_is_a_world_of_one() {
    let arguments = ["20", "collectives", "seed=1", "rounds=3", "outstanding=2", "max=1000"];
    let output = program().args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn more_ranks_than_descriptors() {
    let mut command = program();
    command.args(["--launch", "200", "signal", "kill", "20", "spin", "seconds=0"]);
    // SAFETY: setrlimit is async-signal-safe.
    unsafe { command.pre_exec(|| limit(libc::RLIMIT_NOFILE, 64)) };
    refused(&command.output().unwrap(), &["200 ranks", "descriptors", "64", "ulimit -n"]);
}

#[test]
fn no_descriptor_left_for_the_segment() {
    let output = program().args(["--no-descriptors", "20", "spin", "seconds=0"]).output().unwrap();
    refused(&output, &["open files"]);
}

#[test]
fn no_memory_for_the_segment() {
    let mut command = program();
    command.args(["--launch", "400", "signal", "kill", "20", "spin", "seconds=0"]);
    // SAFETY: setrlimit is async-signal-safe.
    unsafe { command.pre_exec(|| limit(libc::RLIMIT_AS, 300 << 20)) };
    refused(&command.output().unwrap(), &["memory"]);
}

#[test]
fn a_program_that_is_not_there() {
    let error = tocsin_world::launcher::Launch::new("/nowhere/at-all", 2).run().unwrap_err().to_string();
    assert!(error.contains("/nowhere/at-all") && error.contains("check the path"), "{error}");
}

#[test]
fn threads_that_the_system_refuses() {
    // Stacks of 256 MiB, of which less than 2 GiB hold seven; a rank that had begun would wait for the others for ever.
    let mut command = Command::new(env!("CARGO_BIN_EXE_tocsin-rank"));
    command.args(["--threads", "64", "20", "make-communicators", "seed=1", "rounds=1"]);
    command.env("RUST_MIN_STACK", (256 << 20).to_string());
    // SAFETY: between fork and exec only setrlimit is called, which is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            let limit = libc::rlimit { rlim_cur: 2 << 30, rlim_max: 2 << 30 };
            if libc::setrlimit(libc::RLIMIT_AS, &raw const limit) == 0 {
                Ok(())
            } else {
                Err(std::io::Error::last_os_error())
            }
        })
    };
    let Output { status, stderr, .. } = command.output().unwrap();
    let text = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(3), "{status}: {text}");
    assert_eq!(text.lines().count(), 1, "one clear message: {text}");
    for part in ["starting the thread of rank", "of 64", "start fewer ranks", "ulimit"] {
        assert!(text.contains(part), "{text}");
    }
}
