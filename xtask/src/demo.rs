//! `cargo xtask demo`: two ranks; one computes while a message, then an allreduce, arrives. Once with signals, once with
//! a progress thread, once with progress inside library calls only.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cargo::{program, target_dir, text};
use crate::{Outcome, child, prerequisites};

/// In the order of the table.
const BACKENDS: [&str; 3] = ["signal", "thread", "poll"];
/// The cell of the heat map that the table shows.
const SIZE: u64 = 256 << 10;
const COMPUTE: &str = "2x";
/// A ratio whose null is farther from 0 than this is noise.
const NOISE: f64 = 0.2;
/// Hidden percent that `signal` must have more than `poll` before we say that it helps.
const CLEARLY: f64 = 10.0;

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
    println!("measuring: two ranks compute while their allreduce runs");
    let allreduce = measure(
        &tocsin,
        &["bench", "coll", "--op", "iallreduce", "--ranks", "2", "--backend", &backends, "--sizes", "64K"],
        &["--rounds", "40", "--json"],
    )?;
    let message: Vec<Measured> = of_each_backend(&message, |row| {
        row["size_bytes"].as_u64() == Some(SIZE) && text(row, "compute") == COMPUTE
    })?;
    let allreduce = of_each_backend(&allreduce, |row| text(row, "op") == "iallreduce")?;

    table(&format!("a message of {} KiB arrives at a rank that computes", SIZE >> 10), &message);
    table("an allreduce of 64 KiB between two ranks that compute", &allreduce);
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

/// What one backend measured.
#[derive(Clone, Debug)]
struct Measured {
    backend: &'static str,
    t_comm: f64,
    t_comp: f64,
    t_ovrl: f64,
    ratio: f64,
    hidden: f64,
    interrupts: f64,
    noisy: bool,
}

fn of_each_backend(rows: &[Value], wanted: impl Fn(&Value) -> bool) -> Result<Vec<Measured>, String> {
    let of = |backend: &'static str| {
        let row = rows
            .iter()
            .find(|row| text(row, "backend") == backend && wanted(row))
            .ok_or_else(|| format!("nothing was measured with the backend {backend}"))?;
        let number = |key: &str| {
            row[key].as_f64().ok_or_else(|| format!("the row of the backend {backend} has no {key}: {row}"))
        };
        Ok(Measured {
            backend,
            t_comm: number("t_comm_us")?,
            t_comp: number("t_comp_us")?,
            t_ovrl: number("t_ovrl_us")?,
            ratio: number("ratio")?,
            hidden: number("rate_percent")?,
            interrupts: number("interrupts")?,
            noisy: number("null_ratio").is_ok_and(|null| null.abs() > NOISE),
        })
    };
    BACKENDS.into_iter().map(of).collect()
}

fn table(title: &str, rows: &[Measured]) {
    println!();
    println!("{title}");
    println!(
        "{:<8} {:>10} {:>10} {:>10} {:>7} {:>8} {:>11}",
        "backend", "t_comm us", "t_comp us", "t_ovrl us", "ratio", "hidden", "interrupts"
    );
    for r in rows {
        let noise = if r.noisy { "  (noisy)" } else { "" };
        println!(
            "{:<8} {:>10.1} {:>10.1} {:>10.1} {:>7.2} {:>6.0} % {:>11.1}{noise}",
            r.backend, r.t_comm, r.t_comp, r.t_ovrl, r.ratio, r.hidden, r.interrupts
        );
    }
}

/// One sentence, said of the numbers and of nothing else.
fn meaning(message: &[Measured], allreduce: &[Measured]) -> String {
    let hidden =
        |rows: &[Measured], backend| rows.iter().find(|r| r.backend == backend).map_or(0.0, |r| r.hidden);
    let (m_signal, m_poll) = (hidden(message, "signal"), hidden(message, "poll"));
    let (a_signal, a_poll) = (hidden(allreduce, "signal"), hidden(allreduce, "poll"));
    let numbers = format!(
        "with signals {m_signal:.0} % of the message and {a_signal:.0} % of the allreduce hid behind computing, with \
         polling {m_poll:.0} % and {a_poll:.0} %"
    );
    let verdict = match (m_signal - m_poll > CLEARLY, a_signal - a_poll > CLEARLY) {
        (true, true) => "interrupting the computation pays for both",
        (true, false) => {
            "interrupting the computation pays for the message but not clearly for the allreduce"
        }
        (false, true) => {
            "interrupting the computation pays for the allreduce but not clearly for the message"
        }
        (false, false) => "interrupting the computation did not clearly pay in this run",
    };
    let noisy = message.iter().chain(allreduce).any(|r| r.noisy);
    let doubt = if noisy { " (but the machine was noisy: computing twice took different times)" } else { "" };
    format!("On this machine, {numbers}: {verdict}{doubt}.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rows(signal: f64, poll: f64, doubt: f64) -> Vec<Measured> {
        let row = |backend: &str, rate: f64| {
            json!({"backend": backend, "size_bytes": 1, "t_comm_us": 10.0, "t_comp_us": 20.0, "t_ovrl_us": 21.0,
                   "ratio": 0.1, "rate_percent": rate, "interrupts": 2, "null_ratio": doubt})
        };
        let rows = [row("poll", poll), row("signal", signal), row("thread", 50.0)];
        of_each_backend(&rows, |_| true).expect("all are there")
    }

    #[test]
    fn the_sentence_follows_the_numbers() {
        let good = meaning(&rows(90.0, 1.0, 0.0), &rows(80.0, 2.0, 0.0));
        assert!(good.contains("90 % of the message") && good.contains("pays for both"), "{good}");
        assert!(meaning(&rows(5.0, 1.0, 0.0), &rows(8.0, 2.0, 0.0)).contains("did not clearly pay"));
        assert!(
            meaning(&rows(50.0, 1.0, 0.0), &rows(8.0, 2.0, 0.0)).contains("not clearly for the allreduce")
        );
        assert!(meaning(&rows(50.0, 1.0, 0.5), &rows(8.0, 2.0, 0.0)).contains("noisy"));
    }

    #[test]
    fn rows_are_found_by_backend_in_the_order_of_the_table() {
        let names: Vec<&str> = rows(1.0, 1.0, 0.0).iter().map(|r| r.backend).collect();
        assert_eq!(names, BACKENDS);
        assert!(of_each_backend(&[], |_| true).expect_err("nothing").contains("signal"));
        let incomplete = [json!({"backend": "signal"})];
        assert!(of_each_backend(&incomplete, |_| true).expect_err("no numbers").contains("t_comm_us"));
    }
}
