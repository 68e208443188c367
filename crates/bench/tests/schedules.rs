//! Schedules of progress threads and their comparisons, by the command.
#![allow(clippy::unwrap_used)] // a test

use serde_json::Value;
use std::process::{Command, Output};

fn tocsin(line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tocsin")).args(line.split_whitespace()).output().unwrap()
}

/// Runs a line that must succeed; its rows.
fn rows(line: &str) -> Vec<Value> {
    let out = tocsin(line);
    let (stdout, stderr) = (String::from_utf8(out.stdout).unwrap(), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{line}: {}: {stderr}", out.status);
    stdout.lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{line}: {l}: {e}"))).collect()
}

fn has(row: &Value, keys: &str) {
    for key in keys.split_whitespace() {
        assert!(row.get(key).is_some(), "no key {key} in {row}");
    }
}

/// Every schedule works for both kinds of ranks, where several progress threads share a core, and rows say which it was.
#[test]
fn progress_threads_are_scheduled() {
    for schedule in ["event", "round-robin", "suspend", "semaphore", "priority:0", "priority:20"] {
        let line = "bench coll --json --mode alone --rounds 1 --warmup 0 --op iscan,iallreduce --sizes 8,100K --ranks 4";
        let line = format!("{line} --kind process,thread --backend thread --bind scatter --progress bind");
        let rows = rows(&format!("{line} --schedule {schedule}"));
        assert_eq!(rows.len(), 2 * 2 * 2, "{schedule}");
        for row in &rows {
            assert_eq!((&row["schedule"], &row["verified"]), (&schedule.into(), &true.into()), "{row}");
        }
    }
    let out = tocsin("bench ring --json --rounds 1 --warmup 0 --sizes 8 --backend poll --schedule suspend");
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert!(
        out.status.success() && stderr.contains("--schedule applies to the backend thread only"),
        "{stderr}"
    );
}

/// A row per side, the first of which is what the others are compared with.
#[test]
fn compare() {
    let cores = std::thread::available_parallelism().unwrap().get();
    if cores < 2 {
        return;
    }
    let keys = "bench backend kind ranks lmt progress reserve comparison side against size_bytes rounds op algorithm \
                mode t_comm_us ratio ratio_p25 ratio_p75 of_fastest verified";
    let sides = |line: &str, more: &str| {
        let rows = rows(&format!("bench compare {line} --json --rounds 1 --warmup 0"));
        for row in &rows {
            has(row, keys);
            has(row, more);
            assert_eq!(row["backend"], "thread");
            assert!(
                row["ratio"].as_f64().unwrap() > 0.0 && row["of_fastest"].as_f64().unwrap() >= 1.0,
                "{row}"
            );
        }
        assert!(rows.iter().any(|row| row["of_fastest"] == 1.0), "{rows:?}");
        let first = rows[0]["side"].clone();
        assert!(rows.iter().all(|row| row["against"] == first), "{rows:?}");
        // (Ratios are kept in classes of a ten-thousandth.)
        assert!((rows[0]["ratio"].as_f64().unwrap() - 1.0).abs() < 1e-3, "{}", rows[0]);
        rows.iter().map(|row| row["side"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let policies = ["event", "round-robin", "suspend", "semaphore", "priority:20"];
    assert_eq!(sides("policies --ranks 3", "schedule turns t_comm_us_min"), policies);
    assert_eq!(
        sides("policies --ranks 3 --kind process --schedule semaphore,event --op ibcast", "schedule turns"),
        ["semaphore", "event"]
    );
    assert_eq!(sides("odd-even --ranks 4 --schedule round-robin", "turns schedule"), ["numa", "odd_even"]);
    assert_eq!(sides("numa-bind --sizes 1K", "t_comp_us t_ovrl_us rate_percent"), ["bind", "numa"]);
    assert_eq!(
        sides("split-tree --sizes 1K --op ibcast,igather", "t_comp_us t_ovrl_us rate_percent"),
        ["whole-tree", "split-tree", "whole-tree", "split-tree"]
    );
    let given: Vec<String> = (0..=2.min(cores - 1)).map(|n| format!("{n} given away")).collect();
    assert_eq!(sides("equivalent --sizes 1K", "t_comp_us t_ovrl_us rate_percent"), given);
}
