//! What the command measures, on this machine's best backend: user interrupts against signals and polling where the
//! machine has them, as in the emulated one, where `TOCSIN_TEST_UINTR_REQUIRED=1` makes their absence a failure. Elsewhere that the
//! measurements run and verify what they moved; ratios of times on a machine that is shared are no test.
//!
//! The program is the command itself when it is called like one: ranks and receivers are this program again.
#![allow(clippy::unwrap_used)] // a test; clippy knows one by its harness, and this one has its own

mod placed;

use clap::Parser;
use serde_json::Value;
use std::process::{Command, ExitCode};
use std::time::Instant;
use tocsin_bench::Cli;

/// Instructions of the loop that `--ticks` measures must be ticks, this far: then ticks are instructions.
const NEAR: f64 = 0.05;
/// Of what a signal or polling takes, a user interrupt may take so much.
const OF_SIGNAL: f64 = 0.1;
const OF_POLL: f64 = 0.2;

type Test = (&'static str, fn(bool) -> Result<(), String>);

const TESTS: &[Test] = &[
    ("a_late_rank_holds_nobody_up", late_rank),
    ("notifications_in_ticks", ticks),
    ("latency_of_every_mechanism", latency),
    ("latency_without_the_doorbell", bare),
    ("ranks_and_memory_are_where_they_are_planned", placed::test),
];

fn main() -> ExitCode {
    let first = std::env::args().nth(1).unwrap_or_default();
    match first.as_str() {
        "bench" | "rank" | "peer" | "info" | "plan" | "run" => return tocsin_bench::run(&Cli::parse()),
        "rank-placed" => {
            placed::process();
            return ExitCode::SUCCESS;
        }
        "threads-placed" => {
            placed::threads();
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    let uintr = tocsin_uintr_sys::why_not().is_none();
    let required = std::env::var_os("TOCSIN_TEST_UINTR_REQUIRED").is_some_and(|v| v == "1");
    let (mut passed, mut failed) = (0, 0);
    for (name, test) in TESTS.iter().filter(|(name, _)| name.contains(&first) || first.starts_with('-')) {
        let start = Instant::now();
        let outcome =
            if required && !uintr { Err("user interrupts are required".into()) } else { test(uintr) };
        let ms = start.elapsed().as_millis();
        match outcome {
            Ok(()) => {
                println!("test {name} ... ok ({ms} ms)");
                passed += 1;
            }
            Err(why) => {
                println!("test {name} ... FAILED: {why}");
                failed += 1;
            }
        }
    }
    println!("test result: {}. {passed} passed; {failed} failed", if failed == 0 { "ok" } else { "FAILED" });
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(101) }
}

/// The rows of a command line that must succeed.
fn rows(line: &str) -> Result<Vec<Value>, String> {
    rows_with(line, &[])
}

/// The same with variables in the environment.
fn rows_with(line: &str, variables: &[(&str, &str)]) -> Result<Vec<Value>, String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut command = Command::new(program);
    command.args(line.split_whitespace()).envs(variables.iter().copied());
    let out = command.output().map_err(|e| e.to_string())?;
    let text = String::from_utf8_lossy(&out.stdout);
    if !out.status.success() {
        return Err(format!("{line}: {}: {text}{}", out.status, String::from_utf8_lossy(&out.stderr)));
    }
    print!("{text}");
    text.lines().map(|l| serde_json::from_str(l).map_err(|e| format!("{l}: {e}"))).collect()
}

fn number(row: &Value, key: &str) -> Result<f64, String> {
    row[key].as_f64().ok_or_else(|| format!("no {key} in {row}"))
}

fn find<'a>(rows: &'a [Value], pairs: &[(&str, &str)]) -> Result<&'a Value, String> {
    let fits = |row: &&Value| pairs.iter().all(|(key, value)| row[*key] == *value);
    rows.iter().find(fits).ok_or_else(|| format!("no row of {pairs:?}"))
}

fn at_most(what: &str, a: f64, part: f64, b: f64) -> Result<(), String> {
    println!("{what}: {a} against {b}: {:.3}", a / b);
    if a <= part * b { Ok(()) } else { Err(format!("{what}: {a} is more than {part} of {b}")) }
}

fn late_rank(uintr: bool) -> Result<(), String> {
    let best = if uintr { "uintr" } else { "signal" };
    for (op, algorithm) in [("ibcast", "binomial"), ("iallreduce", "recursive-doubling")] {
        let rows = rows(&format!(
            "bench coll --op {op} --algorithm {algorithm} --ranks 4 --sizes 1K --late-rank 2 --late-us 10000 \
             --backend {best},poll --rounds 6 --json"
        ))?;
        if rows.iter().any(|row| row["verified"] != true) {
            return Err(format!("{op}: not verified"));
        }
        let done = |backend| number(find(&rows, &[("backend", backend)])?, "others_done_us");
        let (ours, polled) = (done(best)?, done("poll")?);
        if uintr {
            at_most(&format!("{op}, the others done"), ours, OF_POLL, polled)?;
        }
    }
    Ok(())
}

fn ticks(uintr: bool) -> Result<(), String> {
    if cfg!(not(target_arch = "x86_64")) {
        return Ok(());
    }
    let rows = rows("bench latency --ticks --rounds 200 --json")?;
    let signal = |target| find(&rows, &[("mechanism", "signal"), ("target", target)]);
    number(signal("cross")?, "handler_ticks_p50")?;
    if !uintr {
        return Ok(());
    }
    let ours = |target| find(&rows, &[("mechanism", "uintr"), ("target", target)]);
    for target in ["self", "cross"] {
        number(ours(target)?, "in_handler_ticks_p50")?;
    }
    let mut compared = true;
    for row in [signal("self")?, signal("cross")?, ours("self")?, ours("cross")?] {
        let known = number(row, "loop_ticks")? / number(row, "loop_instructions")?;
        if (known - 1.0).abs() > NEAR {
            println!("an instruction of a known loop takes {known:.2} ticks: {row}");
            compared = false;
        }
    }
    if !compared {
        // The emulated machine's list says that they are.
        return match std::env::var_os("TOCSIN_TEST_TICKS_ARE_INSTRUCTIONS") {
            Some(_) => Err("ticks are no instructions here, though they should be".into()),
            None => Ok(()),
        };
    }
    for (target, key) in
        [("self", "handler_ticks_p50"), ("cross", "handler_ticks_p50"), ("self", "resumed_ticks_p50")]
    {
        let (ours, theirs) = (number(ours(target)?, key)?, number(signal(target)?, key)?);
        at_most(&format!("{target} {key}"), ours, OF_SIGNAL, theirs)?;
    }
    Ok(())
}

fn latency(uintr: bool) -> Result<(), String> {
    let rows = rows("bench latency --rounds 50 --json")?;
    let mut wanted = vec!["signal", "futex", "eventfd", "cacheline"];
    wanted.extend(uintr.then_some("uintr"));
    for mechanism in wanted {
        for kind in ["process", "thread"] {
            let row = find(&rows, &[("mechanism", mechanism), ("kind", kind)])?;
            for key in "mean_ns std_ns min_ns p10_ns p50_ns p95_ns p99_ns max_ns".split(' ') {
                number(row, key)?;
            }
        }
    }
    Ok(())
}

/// The mechanisms alone: stacks, bursts, masks.
fn bare(uintr: bool) -> Result<(), String> {
    let line = "bench latency --stack own,alternate,trampoline --burst 1,8 --mask --rounds 20 --json";
    for to in ["", " --self"] {
        let rows = rows(&format!("{line}{to}"))?;
        let mut wanted = vec![("signal", "own"), ("signal", "alternate")];
        if uintr {
            wanted.extend(["own", "alternate", "trampoline"].map(|stack| ("uintr", stack)));
        }
        for (mechanism, stack) in wanted {
            for burst in [1.0, 8.0] {
                let fits = |row: &&Value| {
                    row["mechanism"] == mechanism
                        && row["stack"] == stack
                        && row["burst"].as_f64() == Some(burst)
                };
                let row = rows
                    .iter()
                    .find(fits)
                    .ok_or_else(|| format!("no row of {mechanism}, {stack}, {burst}"))?;
                number(row, "p50_ns")?;
                match (mechanism, stack) {
                    ("uintr", "alternate") => assert!(row.get("mask_ns_p50").is_none(), "{row}"),
                    _ => drop(number(row, "mask_ns_p50")?),
                }
                let handlers = number(row, "handlers")?;
                if !(1.0..=burst).contains(&handlers) {
                    return Err(format!("{handlers} handlers of {burst} posts: {row}"));
                }
            }
        }
    }
    Ok(())
}
