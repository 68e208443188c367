//! `cargo xtask demo`: two ranks that compute while a message travels between them; then one that computes while the other needs it for an
//! alltoall. Once with signals, once with a progress thread, once with progress inside library calls only.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cargo::{program, target_dir, text};
use crate::{Outcome, child, prerequisites};

/// In the order of the tables.
const BACKENDS: [&str; 3] = ["signal", "thread", "poll"];
/// What the first table shows: a message that nobody could have copied yet when its post returns. What is short goes into a lane at once, and needs nobody.
const SIZE: u64 = 1 << 20;
/// The same of an alltoall. What is shorter goes onto a board at once.
const ALLTOALL: u64 = 2 << 20;
/// The alltoalls of the picture, on boards and not.
const SIZES: &str = "256K..4M";
/// How long ranks compute, microseconds.
const COMPUTE_US: &str = "5000";
/// By how much computing may take longer or shorter the second time, and longer than it was to, before that is noise.
const NOISE: f64 = 0.05;
const SLOW: f64 = 1.2;
/// How many times sooner something must be over with `signal` than with `poll` before we say that it helps.
const SOONER: f64 = 2.0;

/// Runs the demonstration; its last line is the picture's path.
///
/// # Errors
/// When something does not build, does not run, or measures nothing.
pub fn run() -> Outcome {
    prerequisites::c_compiler()?;
    println!("building the tocsin command");
    let limit = Duration::from_secs(1200);
    let build = ["build", "--release", "--locked", "-p", "tocsin-bench", "--bin", "tocsin"];
    if let Some(failure) = child::run(child::command(&program(), &build, limit), limit).failure {
        return Err(format!("the build failed: {failure}"));
    }
    let start = Instant::now();
    let tocsin = target_dir().join("release/tocsin");
    let plots = target_dir().join("demo");
    let backends = BACKENDS.join(",");

    println!("measuring: both ranks compute while a message travels");
    let size = SIZE.to_string();
    let message = measure(
        &tocsin,
        &["bench", "overlap", "--case", "both", "--backend", &backends, "--sizes", &size],
        &["--compute-us", COMPUTE_US, "--rounds", "40", "--json"],
    )?;
    println!("measuring: a rank computes while the other needs it for an alltoall");
    let plot_dir = plots.to_string_lossy();
    let alltoall = measure(
        &tocsin,
        &["bench", "coll", "--op", "ialltoall", "--ranks", "2", "--backend", &backends, "--sizes", SIZES],
        &["--late-rank", "1", "--late-us", COMPUTE_US, "--rounds", "20", "--plot", &plot_dir, "--json"],
    )?;
    let message = Message::of_each_backend(&message)?;
    let alltoall = Alltoall::of_each_backend(&alltoall)?;

    println!();
    println!(
        "a message of {} KiB between two ranks that post it and compute for {COMPUTE_US} us",
        SIZE >> 10
    );
    println!(
        "{:<8} {:>12} {:>13} {:>24}",
        "backend", "computing us", "with message", "message there after us"
    );
    for m in &message {
        let noise = if m.noisy { "  (noisy)" } else { "" };
        println!("{:<8} {:>12.0} {:>13.0} {:>24.0}{noise}", m.backend, m.t_comp, m.t_ovrl, m.complete);
    }
    println!();
    println!(
        "an alltoall of {} KiB with a rank that has posted it and computes for {COMPUTE_US} us",
        ALLTOALL >> 10
    );
    println!("{:<8} {:>21} {:>25}", "backend", "other rank done us", "interrupts of computing");
    for a in &alltoall {
        println!("{:<8} {:>21.0} {:>25.1}", a.backend, a.other_done, a.interrupts);
    }
    println!();
    println!(
        "signal: no core is given away, and nobody calls the library. thread: a progress thread, which wants a core"
    );
    println!("of its own. poll: the message moves when its ranks call the library again.");
    println!();
    println!("{}", meaning(&message, &alltoall));
    println!();
    let picture = plots.join("coll-late.png");
    if !picture.is_file() {
        return Err(format!("the picture was not drawn: {}", picture.display()));
    }
    println!(
        "measured in {:.0} s; when the other rank has its alltoall, by size:",
        start.elapsed().as_secs_f64()
    );
    println!("{}", picture.display());
    Ok(())
}

/// Runs a bench and reads its rows.
fn measure(tocsin: &Path, what: &[&str], how: &[&str]) -> Result<Vec<Value>, String> {
    let limit = Duration::from_secs(80);
    let arguments: Vec<&str> = what.iter().chain(how).copied().collect();
    let name = format!("tocsin {}", arguments.join(" "));
    let printed = child::output(child::command(&tocsin.to_string_lossy(), &arguments, limit), &name)?;
    printed
        .lines()
        .map(|line| serde_json::from_str(line).map_err(|e| format!("{name}: {line} is no row: {e}")))
        .collect()
}

/// The row of a backend among those wanted.
fn row<'a>(rows: &'a [Value], backend: &str, wanted: impl Fn(&Value) -> bool) -> Result<&'a Value, String> {
    rows.iter()
        .find(|row| text(row, "backend") == backend && wanted(row))
        .ok_or_else(|| format!("nothing was measured with the backend {backend}"))
}

fn number(row: &Value, key: &str) -> Result<f64, String> {
    row[key].as_f64().ok_or_else(|| format!("the row has no {key}: {row}"))
}

/// A message between ranks that compute, with one backend.
#[derive(Clone, Debug)]
struct Message {
    backend: &'static str,
    t_comp: f64,
    t_ovrl: f64,
    complete: f64,
    noisy: bool,
}

impl Message {
    fn of_each_backend(rows: &[Value]) -> Result<Vec<Message>, String> {
        let of = |backend: &'static str| {
            let row = row(rows, backend, |row| row["size_bytes"].as_u64() == Some(SIZE))?;
            let t_comp = number(row, "t_comp_us")?;
            let again = number(row, "null_ratio")? * number(row, "t_comm_us")?;
            Ok(Message {
                backend,
                t_comp,
                t_ovrl: number(row, "t_ovrl_us")?,
                complete: number(row, "complete_us")?,
                noisy: again.abs() > NOISE * t_comp || t_comp > SLOW * COMPUTE_US.parse().unwrap_or(t_comp),
            })
        };
        BACKENDS.into_iter().map(of).collect()
    }
}

/// An alltoall that needs a rank that computes, with one backend.
#[derive(Clone, Debug)]
struct Alltoall {
    backend: &'static str,
    other_done: f64,
    interrupts: f64,
}

impl Alltoall {
    fn of_each_backend(rows: &[Value]) -> Result<Vec<Alltoall>, String> {
        let of = |backend: &'static str| {
            let wanted =
                |row: &Value| text(row, "op") == "ialltoall" && row["size_bytes"].as_u64() == Some(ALLTOALL);
            let row = row(rows, backend, wanted)?;
            let (other_done, interrupts) = (number(row, "others_done_us")?, number(row, "interrupts")?);
            Ok(Alltoall { backend, other_done, interrupts })
        };
        BACKENDS.into_iter().map(of).collect()
    }
}

/// One sentence, said of the numbers and of nothing else.
fn meaning(message: &[Message], alltoall: &[Alltoall]) -> String {
    let there = |backend| message.iter().find(|m| m.backend == backend).map_or(0.0, |m| m.complete);
    let done = |backend| alltoall.iter().find(|a| a.backend == backend).map_or(0.0, |a| a.other_done);
    let numbers = format!(
        "with signals the message was there after {:.0} us and the other rank had its alltoall after {:.0} us, with polling \
         after {:.0} us and {:.0} us",
        there("signal"),
        done("signal"),
        there("poll"),
        done("poll")
    );
    let sooner = |of: &dyn Fn(&'static str) -> f64| of("signal") * SOONER < of("poll");
    let verdict = match (sooner(&there), sooner(&done)) {
        (true, true) => "interrupting the computation pays for both",
        (true, false) => "interrupting the computation pays for the message but not clearly for the alltoall",
        (false, true) => "interrupting the computation pays for the alltoall but not clearly for the message",
        (false, false) => "interrupting the computation did not clearly pay in this run",
    };
    let noisy = message.iter().any(|m| m.noisy);
    let doubt = if noisy { " (but the machine was noisy: computing twice took different times)" } else { "" };
    format!("On this machine, {numbers}: {verdict}{doubt}.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// `doubt`: by how much of its time computing takes longer the second time.
    fn message(signal: f64, poll: f64, doubt: f64) -> Vec<Message> {
        let row = |backend: &str, complete: f64| {
            json!({"backend": backend, "size_bytes": SIZE, "t_comm_us": 100.0, "t_comp_us": 5000.0,
                   "t_ovrl_us": 5100.0, "complete_us": complete, "null_ratio": doubt * 50.0})
        };
        let rows = [row("poll", poll), row("signal", signal), row("thread", 50.0)];
        Message::of_each_backend(&rows).expect("all are there")
    }

    fn alltoall(signal: f64, poll: f64) -> Vec<Alltoall> {
        let row = |backend: &str, bytes: u64, done: f64| json!({"backend": backend, "op": "ialltoall", "size_bytes": bytes, "others_done_us": done, "interrupts": 1});
        let rows = [
            row("signal", 1, 0.0),
            row("poll", ALLTOALL, poll),
            row("signal", ALLTOALL, signal),
            row("thread", ALLTOALL, 50.0),
        ];
        Alltoall::of_each_backend(&rows).expect("all are there")
    }

    #[test]
    fn the_sentence_follows_the_numbers() {
        let good = meaning(&message(90.0, 5000.0, 0.0), &alltoall(80.0, 5000.0));
        assert!(good.contains("after 90 us") && good.contains("pays for both"), "{good}");
        let bad = meaning(&message(90.0, 95.0, 0.0), &alltoall(80.0, 90.0));
        assert!(bad.contains("did not clearly pay"), "{bad}");
        let half = meaning(&message(90.0, 5000.0, 0.0), &alltoall(80.0, 90.0));
        assert!(half.contains("not clearly for the alltoall"), "{half}");
        let other = meaning(&message(90.0, 95.0, 0.0), &alltoall(80.0, 5000.0));
        assert!(other.contains("not clearly for the message"), "{other}");
        assert!(
            !other.contains("noisy")
                && !meaning(&message(1.0, 9.0, -0.02), &alltoall(1.0, 9.0)).contains("noisy")
        );
        assert!(meaning(&message(50.0, 1.0, -0.5), &alltoall(1.0, 9.0)).contains("noisy"));
    }

    #[test]
    fn rows_are_found_by_backend_in_the_order_of_the_table() {
        let names: Vec<&str> = message(1.0, 1.0, 0.0).iter().map(|r| r.backend).collect();
        assert_eq!(names, BACKENDS);
        assert!(Message::of_each_backend(&[]).expect_err("nothing").contains("signal"));
        let incomplete = [json!({"backend": "signal", "op": "ialltoall", "size_bytes": ALLTOALL})];
        assert!(Alltoall::of_each_backend(&incomplete).expect_err("no numbers").contains("others_done_us"));
    }
}
