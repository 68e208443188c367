//! `cargo xtask demo`: two ranks; one computes while a message, then an allreduce, arrives. Once with signals, once with
//! a progress thread, once with progress inside library calls only.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cargo::{program, target_dir, text};
use crate::{Outcome, child, prerequisites};

/// In the order of the tables.
const BACKENDS: [&str; 3] = ["signal", "thread", "poll"];
/// The cell of the heat map that the table shows, and the allreduce: what is shorter goes into a lane at once and needs nobody.
const SIZE: u64 = 1 << 20;
const COMPUTE: &str = "2x";
/// How long one rank of the allreduce computes.
const LATE_US: &str = "5000";
/// A ratio whose null is farther from 0 than this is noise.
const NOISE: f64 = 0.2;
/// Hidden percent that `signal` must have more than `poll` before we say that it helps.
const CLEARLY: f64 = 10.0;
/// And how many times sooner the other rank must be done.
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

    println!("measuring: a rank computes while a message arrives");
    let plot_dir = plots.to_string_lossy();
    let message = measure(
        &tocsin,
        &["bench", "overlap", "--case", "recv", "--backend", &backends, "--sizes", "64K,256K,1M"],
        &["--compute-us", "1x,2x,4x", "--rounds", "20", "--plot", &plot_dir, "--json"],
    )?;
    println!("measuring: a rank computes while an allreduce arrives");
    let size = SIZE.to_string();
    let allreduce = measure(
        &tocsin,
        &["bench", "coll", "--op", "iallreduce", "--ranks", "2", "--backend", &backends, "--sizes", &size],
        &["--late-rank", "1", "--late-us", LATE_US, "--rounds", "40", "--json"],
    )?;
    let message = Message::of_each_backend(&message)?;
    let allreduce = Allreduce::of_each_backend(&allreduce)?;

    println!();
    println!("a message of {} KiB arrives at a rank that computes", SIZE >> 10);
    println!(
        "{:<8} {:>10} {:>10} {:>10} {:>7} {:>8} {:>15}",
        "backend", "t_comm us", "t_comp us", "t_ovrl us", "ratio", "hidden", "sender waits us"
    );
    for m in &message {
        let noise = if m.noisy { "  (noisy)" } else { "" };
        println!(
            "{:<8} {:>10.1} {:>10.1} {:>10.1} {:>7.2} {:>6.0} % {:>15.1}{noise}",
            m.backend, m.t_comm, m.t_comp, m.t_ovrl, m.ratio, m.hidden, m.sender_waits
        );
    }
    println!();
    println!(
        "an allreduce of {} KiB with a rank that has posted it and computes for {LATE_US} us",
        SIZE >> 10
    );
    println!("{:<8} {:>22} {:>25}", "backend", "other rank done us", "interrupts of computing");
    for a in &allreduce {
        println!("{:<8} {:>22.1} {:>25.1}", a.backend, a.other_done, a.interrupts);
    }
    println!();
    println!(
        "t_comm: the communication alone; t_comp: the computing alone; t_ovrl: both together. ratio: 0 is"
    );
    println!("perfect overlap, 1 is none. hidden: how much of the shorter of the two the longer one hid.");
    println!();
    println!("{}", meaning(&message, &allreduce));
    println!();
    let picture = plots.join("overlap.png");
    if !picture.is_file() {
        return Err(format!("the heat map was not written: {}", picture.display()));
    }
    println!(
        "measured in {:.0} s; the heat map of all sizes and computing times:",
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

/// A message that arrives at a rank that computes, with one backend.
#[derive(Clone, Debug)]
struct Message {
    backend: &'static str,
    t_comm: f64,
    t_comp: f64,
    t_ovrl: f64,
    ratio: f64,
    hidden: f64,
    sender_waits: f64,
    noisy: bool,
}

impl Message {
    fn of_each_backend(rows: &[Value]) -> Result<Vec<Message>, String> {
        let of = |backend: &'static str| {
            let row = row(rows, backend, |row| {
                row["size_bytes"].as_u64() == Some(SIZE) && text(row, "compute") == COMPUTE
            })?;
            Ok(Message {
                backend,
                t_comm: number(row, "t_comm_us")?,
                t_comp: number(row, "t_comp_us")?,
                t_ovrl: number(row, "t_ovrl_us")?,
                ratio: number(row, "ratio")?,
                hidden: number(row, "rate_percent")?,
                sender_waits: number(row, "peer_blocked_us")?,
                noisy: number(row, "null_ratio").is_ok_and(|null| null.abs() > NOISE),
            })
        };
        BACKENDS.into_iter().map(of).collect()
    }
}

/// An allreduce that needs a rank that computes, with one backend.
#[derive(Clone, Debug)]
struct Allreduce {
    backend: &'static str,
    other_done: f64,
    interrupts: f64,
}

impl Allreduce {
    fn of_each_backend(rows: &[Value]) -> Result<Vec<Allreduce>, String> {
        let of = |backend: &'static str| {
            let row = row(rows, backend, |row| text(row, "op") == "iallreduce")?;
            let (other_done, interrupts) = (number(row, "others_done_us")?, number(row, "interrupts")?);
            Ok(Allreduce { backend, other_done, interrupts })
        };
        BACKENDS.into_iter().map(of).collect()
    }
}

/// One sentence, said of the numbers and of nothing else.
fn meaning(message: &[Message], allreduce: &[Allreduce]) -> String {
    let hidden = |backend| message.iter().find(|m| m.backend == backend).map_or(0.0, |m| m.hidden);
    let done = |backend| allreduce.iter().find(|a| a.backend == backend).map_or(0.0, |a| a.other_done);
    let numbers = format!(
        "with signals {:.0} % of the message's time hid behind computing and the other rank had its allreduce after \
         {:.0} us, with polling {:.0} % and {:.0} us",
        hidden("signal"),
        done("signal"),
        hidden("poll"),
        done("poll")
    );
    let verdict = match (hidden("signal") - hidden("poll") > CLEARLY, done("signal") * SOONER < done("poll"))
    {
        (true, true) => "interrupting the computation pays for both",
        (true, false) => {
            "interrupting the computation pays for the message but not clearly for the allreduce"
        }
        (false, true) => {
            "interrupting the computation pays for the allreduce but not clearly for the message"
        }
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

    fn message(signal: f64, poll: f64, doubt: f64) -> Vec<Message> {
        let row = |backend: &str, rate: f64| {
            json!({"backend": backend, "size_bytes": SIZE, "compute": COMPUTE, "t_comm_us": 10.0, "t_comp_us": 20.0,
                   "t_ovrl_us": 21.0, "ratio": 0.1, "rate_percent": rate, "peer_blocked_us": 2, "null_ratio": doubt})
        };
        let rows = [row("poll", poll), row("signal", signal), row("thread", 50.0)];
        Message::of_each_backend(&rows).expect("all are there")
    }

    fn allreduce(signal: f64, poll: f64) -> Vec<Allreduce> {
        let row = |backend: &str, done: f64| json!({"backend": backend, "op": "iallreduce", "others_done_us": done, "interrupts": 1});
        let rows = [row("poll", poll), row("signal", signal), row("thread", 50.0)];
        Allreduce::of_each_backend(&rows).expect("all are there")
    }

    #[test]
    fn the_sentence_follows_the_numbers() {
        let good = meaning(&message(90.0, 1.0, 0.0), &allreduce(80.0, 5000.0));
        assert!(good.contains("90 % of the message") && good.contains("pays for both"), "{good}");
        let bad = meaning(&message(5.0, 1.0, 0.0), &allreduce(80.0, 90.0));
        assert!(bad.contains("did not clearly pay"), "{bad}");
        let half = meaning(&message(50.0, 1.0, 0.0), &allreduce(80.0, 90.0));
        assert!(half.contains("not clearly for the allreduce"), "{half}");
        assert!(meaning(&message(50.0, 1.0, 0.5), &allreduce(1.0, 9.0)).contains("noisy"));
    }

    #[test]
    fn rows_are_found_by_backend_in_the_order_of_the_table() {
        let names: Vec<&str> = message(1.0, 1.0, 0.0).iter().map(|r| r.backend).collect();
        assert_eq!(names, BACKENDS);
        assert!(Message::of_each_backend(&[]).expect_err("nothing").contains("signal"));
        let incomplete = [json!({"backend": "signal", "op": "iallreduce"})];
        assert!(Allreduce::of_each_backend(&incomplete).expect_err("no numbers").contains("others_done_us"));
    }
}
