//! Random programs that do everything at once ([`scenarios::programs`](tocsin_tests::scenarios::programs)), on every backend, with ranks of
//! both kinds, where memory is plentiful and where it is tight: a few seeds, more of them under `TOCSIN_TEST_DEEP=1`, from the one that
//! `TOCSIN_TEST_SEED` names. `tocsin-rank --threads 3 60 programs seed=7 ...` runs one alone.

use tocsin_tests::random::Random;
use tocsin_tests::run::{Arguments, BACKENDS, Case, Kind, deep};
use tocsin_tests::scenarios::programs::death::LEARNED;
use tocsin_world::Config;
use tocsin_world::launcher::OnFailure;

const PROGRAM: &str = env!("CARGO_BIN_EXE_tocsin-rank");

/// Settings that make messages take other ways, or wait for room.
const SETTINGS: [&[(&str, &str)]; 6] = [
    &[],
    &[("buffers", "mixed")],
    &[("TOCSIN_UNEXPECTED_MAX", "64K"), ("TOCSIN_HEAP", "0")],
    &[("TOCSIN_EAGER_MAX", "0"), ("lmt", "cma")],
    &[("TOCSIN_EAGER_MAX", "32K"), ("TOCSIN_UNEXPECTED_MAX", "64K"), ("lmt", "vmsplice")],
    &[("TOCSIN_EAGER_MAX", "100"), ("lmt", "double"), ("buffers", "mixed")],
];

fn first() -> u64 {
    std::env::var("TOCSIN_TEST_SEED").map_or(1, |seed| seed.parse().unwrap_or_else(|e| panic!("{seed}: {e}")))
}

fn with_settings(arguments: Arguments, random: &mut Random, kind: Kind) -> Arguments {
    let settings = SETTINGS[random.below(SETTINGS.len() as u64) as usize].iter();
    // Where buffers lie holds for all worlds of a process: some need the heap.
    let settings = settings.filter(|(name, _)| kind == Kind::Processes || *name != "TOCSIN_HEAP");
    settings.fold(arguments, |all, (name, value)| all.with(name, value))
}

fn programs(kind: Kind) {
    let seeds = if deep() { 300 } else { 4 };
    for seed in first()..first() + seeds {
        for (which, backend) in (0..).zip(BACKENDS) {
            let mut random = Random::new(seed * 3 + which);
            let ranks = [2, 3, 4, 2, 5, 3, 8][random.below(7) as usize];
            let arguments = Arguments::new()
                .with("seed", seed)
                .with("rounds", 4)
                .with("operations", 60)
                .with("max", if ranks < 5 { 2 << 20 } else { 100_000 })
                .with("threads", 1 + random.below(4) / 3);
            let arguments = with_settings(arguments, &mut random, kind);
            Case {
                program: PROGRAM.as_ref(),
                kind,
                ranks,
                backend,
                scenario: "programs",
                arguments,
                limit_s: 120,
            }
            .pass();
        }
    }
}

#[test]
fn programs_of_threads() {
    programs(Kind::Threads);
}

#[test]
fn programs_of_processes() {
    programs(Kind::Processes);
}

/// Whoever survives a death learns of it, whatever is under way, and nobody crashes.
#[test]
fn a_rank_dies() {
    for seed in first()..first() + if deep() { 500 } else { 12 } {
        let mut random = Random::new(seed);
        let ranks = [2, 3, 4, 6][random.below(4) as usize];
        let backend = BACKENDS[random.below(3) as usize];
        let arguments = Arguments::new()
            .with("seed", seed)
            .with("rounds", 1000)
            .with("operations", 60)
            .with("max", 500_000)
            .with("threads", 1 + seed % 2)
            .with("victim", random.below(u64::from(ranks)))
            .with("after_us", random.below(200_000));
        let arguments = with_settings(arguments, &mut random, Kind::Processes);
        let mut config = Config::default();
        config.backend = Some(backend);
        arguments.configure(&mut config).unwrap_or_else(|e| panic!("{e}"));
        let case = Case {
            program: PROGRAM.as_ref(),
            kind: Kind::Processes,
            ranks,
            backend,
            scenario: "programs",
            arguments,
            limit_s: 60,
        };
        let report = case.launch(config, OnFailure::Report).run().unwrap_or_else(|e| panic!("{case:?}: {e}"));
        let right = |status: &i32| *status == LEARNED || *status == 128 + libc::SIGKILL;
        assert!(report.ranks.iter().all(right), "{case:?}: {report:?}");
    }
}
