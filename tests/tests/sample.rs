//! A sample of what the other tests do at length, on the backend that is this machine's best: user interrupts where it has
//! them, as in the emulated machine, where `TOCSIN_TEST_UINTR_REQUIRED=1` makes anything else a failure.
//! `TOCSIN_TEST_LMT=xpmem` or `knem` has large messages travel so, and is a failure where they cannot. `TOCSIN_TEST_FORBIDS=1` forbids copies by `process_vm_readv`, and
//! is a failure where KNEM is not what is chosen then.
//!
//! Ranks that are processes run this program again.

use std::panic::catch_unwind;
use std::path::Path;
use std::time::Instant;

use tocsin_tests::forbid::forbid_copies;
use tocsin_tests::random::Random;
use tocsin_tests::run::{Arguments, Case, Kind};
use tocsin_tests::scenarios;
use tocsin_tests::ways;
use tocsin_world::launcher::OnFailure;
use tocsin_world::{BackendKind, Config, World};

/// Name, ranks, scenario, its arguments.
type Sample = (&'static str, u32, &'static str, &'static [(&'static str, &'static str)]);

const SAMPLES: &[Sample] = &[
    ("messages_2", 2, "messages", &[("seed", "1"), ("rounds", "2"), ("messages", "10"), ("max", "200000")]),
    ("messages_4", 4, "messages", &[("seed", "2"), ("rounds", "1"), ("messages", "12"), ("max", "30000")]),
    (
        "collectives_2",
        2,
        "collectives",
        &[("seed", "3"), ("rounds", "3"), ("outstanding", "4"), ("max", "70000")],
    ),
    (
        "collectives_3",
        3,
        "collectives",
        &[("seed", "4"), ("rounds", "2"), ("outstanding", "4"), ("max", "10000")],
    ),
    (
        "collectives_7",
        7,
        "collectives",
        &[("seed", "5"), ("rounds", "1"), ("outstanding", "3"), ("max", "4000")],
    ),
    (
        "product_2",
        2,
        "collectives-product",
        &[("seed", "9"), ("every", "200"), ("long", "4000"), ("most", "5000000")],
    ),
    ("restarted", 3, "restarted", &[("seed", "12"), ("rounds", "3"), ("max", "20000")]),
    ("interleaved", 3, "interleaved", &[("seed", "13"), ("rounds", "2"), ("max", "10000")]),
    ("mixed", 3, "mixed", &[("seed", "6"), ("operations", "400"), ("max", "10000")]),
    ("flow_control", 2, "flow-control", &[("count", "3000")]),
    ("rings", 3, "rings", &[("rounds", "20")]),
    ("threads", 2, "threads", &[("seed", "7"), ("rounds", "8"), ("threads", "3"), ("max", "20000")]),
    ("callbacks", 2, "callbacks", &[("rounds", "3")]),
    ("computing_sender", 2, "computing", &[("rounds", "4"), ("bytes", "200000"), ("who", "send")]),
    ("computing_both", 2, "computing", &[("rounds", "4"), ("bytes", "200000"), ("who", "both")]),
    ("communicators", 3, "make-communicators", &[("seed", "8"), ("rounds", "6")]),
];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [limit, scenario, rest @ ..] = words.as_slice()
        && let Ok(limit) = limit.parse()
    {
        return rank(limit, scenario, Arguments::parse(rest.iter().cloned()));
    }
    let backend = match Config::default().usable_backend() {
        Ok(backend) => backend,
        Err(error) => panic!("{error}"),
    };
    println!("backend {backend}");
    let required = std::env::var_os("TOCSIN_TEST_UINTR_REQUIRED").is_some_and(|v| v == "1");
    assert!(!required || backend == BackendKind::Uintr, "user interrupts are required, and not usable");
    let lmt = std::env::var("TOCSIN_TEST_LMT").unwrap_or_else(|_| "auto".into());
    let forbids = std::env::var_os("TOCSIN_TEST_FORBIDS").is_some_and(|v| v == "1");
    if forbids {
        forbid_copies(false);
        assert!(tocsin_world::cma_refusal().is_some() && tocsin_world::xpmem_refusal().is_some());
    }
    let refusal = match lmt.as_str() {
        "xpmem" => tocsin_world::xpmem_refusal(),
        _ if lmt == "knem" || forbids => tocsin_world::knem_refusal(),
        _ => None,
    };
    assert_eq!(refusal, None, "the device is required, and not usable");
    let pinned = pinned();
    let filter: Vec<&String> = words.iter().filter(|w| !w.starts_with('-')).collect();
    let (mut passed, mut failed) = (0, 0);
    for kind in Kind::ALL {
        for (name, ranks, scenario, words) in SAMPLES {
            let name = format!("{backend}::{kind:?}::{name}").to_lowercase();
            if !filter.is_empty() && !filter.iter().any(|f| name.contains(f.as_str())) {
                continue;
            }
            let start = Instant::now();
            let ended = catch_unwind(|| run(kind, *ranks, backend, scenario, words, &lmt));
            let verdict = if ended.is_ok() { "ok" } else { "FAILED" };
            println!("test {name} ... {verdict} ({} ms)", start.elapsed().as_millis());
            if ended.is_ok() { passed += 1 } else { failed += 1 }
        }
    }
    // Copies by a device survive whom they are from or to, whoever makes them.
    let by_device = lmt == "xpmem" || lmt == "knem" || forbids;
    for backend in [backend, BackendKind::Thread].into_iter().filter(|_| by_device) {
        let name = format!("{backend}::deaths");
        if !filter.is_empty() && !filter.iter().any(|f| name.contains(f.as_str())) {
            continue;
        }
        let ended = catch_unwind(|| deaths(backend, &lmt));
        println!("test {name} ... {}", if ended.is_ok() { "ok" } else { "FAILED" });
        if ended.is_ok() { passed += 1 } else { failed += 1 }
    }
    if filter.is_empty() && (lmt == "knem" || forbids) {
        // Those of one message of 200 000 bytes, some times over.
        let is_used = self::pinned().zip(pinned).is_some_and(|(now, before)| now >= before + 500);
        println!("test {backend}::the_device_is_used ... {}", if is_used { "ok" } else { "FAILED" });
        if is_used { passed += 1 } else { failed += 1 }
    }
    println!("test result: {}. {passed} passed; {failed} failed", if failed == 0 { "ok" } else { "FAILED" });
    if failed > 0 {
        std::process::exit(101);
    }
}

/// How many pages the kernel has pinned since the machine is up, for whomever.
fn pinned() -> Option<u64> {
    let counts = std::fs::read_to_string("/proc/vmstat").ok()?;
    counts.lines().find_map(|line| line.strip_prefix("nr_foll_pin_acquired "))?.parse().ok()
}

fn run(kind: Kind, ranks: u32, backend: BackendKind, scenario: &str, words: &[(&str, &str)], lmt: &str) {
    let Ok(program) = std::env::current_exe() else { panic!("this program is not to be found") };
    let program: &Path = &program;
    let arguments = Arguments::of(words);
    // Nobody may fall back to signals where the backend is user interrupts.
    let arguments = arguments.with("uintr", u32::from(backend == BackendKind::Uintr));
    let arguments = arguments.with("lmt", lmt);
    // By the device, if that is asked for; half of it, because a handler may leave some to two copies.
    let device = scenario == "computing" && (lmt == "xpmem" || lmt == "knem");
    let arguments = match ways::of(kind, lmt).filter(|_| device) {
        Some(way) => arguments.with("by", way).with("least", 4 * 200_000 / 2),
        None => arguments,
    };
    Case { program, kind, ranks, backend, scenario, arguments, limit_s: 120 }.pass();
}

/// Ranks that end among large messages: the others say who it was, and live.
fn deaths(backend: BackendKind, lmt: &str) {
    const RANKS: u32 = 3;
    let Ok(program) = std::env::current_exe() else { panic!("this program is not to be found") };
    let mut random = Random::new(31);
    for seed in 0..8 {
        let (victim, after) = (random.below(u64::from(RANKS)), random.below(200_000));
        let arguments = Arguments::new().with("seed", seed).with("victim", victim).with("lmt", lmt);
        let arguments = arguments.with("bytes", 4 << 20).with("killed_after_us", after);
        let (kind, scenario, ranks) = (Kind::Processes, "until-death", RANKS);
        let case = Case { program: &program, kind, ranks, backend, scenario, arguments, limit_s: 120 };
        let mut config = Config::default();
        config.backend = Some(backend);
        case.arguments.configure(&mut config).unwrap_or_else(|error| panic!("{case:?}: {error}"));
        let report = case.launch(config, OnFailure::Report).run();
        let report = report.unwrap_or_else(|error| panic!("{case:?}: {error}"));
        let right =
            |(rank, status): (u64, &i32)| *status == if rank == victim { 128 + libc::SIGKILL } else { 0 };
        assert!((0..).zip(&report.ranks).all(right), "{case:?}: {report:?}");
    }
}

/// One rank of a launched world.
fn rank(limit: u32, scenario: &str, arguments: Arguments) {
    // SAFETY: alarm has no memory effects; SIGALRM's default action ends a rank that hangs.
    unsafe { libc::alarm(limit) };
    let world = match World::from_env() {
        Ok(world) => world,
        Err(error) => panic!("{error}"),
    };
    scenarios::run(scenario, &world.comm(), &arguments);
    if let Err(error) = world.finalize() {
        panic!("finalize: {error}");
    }
}
