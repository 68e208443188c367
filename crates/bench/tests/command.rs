//! The command as people and programs use it: exit statuses, JSON on standard output and nothing else there.
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

#[test]
fn info() {
    let rows = rows("info --json");
    has(&rows[0], "uintr_cpu uintr_kernel backends lmt cores numa_nodes");
    assert!(String::from_utf8(tocsin("info").stdout).unwrap().contains("signal    usable"));
}

#[test]
fn usage_is_2_and_failure_is_1() {
    for (line, status, says) in [
        ("", 2, "Usage"),
        ("bench coll --op ibcast --algorithm rumour", 2, "binomial"),
        ("bench coll --op iscan", 2, "ibarrier, ibcast, iallreduce, ialltoall"),
        ("bench coll --ranks 2 --late-rank 2 --late-us 5", 2, "below the number of ranks"),
        ("bench overlap --ranks 3", 2, "between 2 ranks"),
        ("bench overlap --backend telegraph", 2, "auto, uintr, signal, thread, poll"),
        ("bench overlap --lmt cma", 1, "auto, double"),
        ("run -n 2 --progress nowhere -- true", 2, "nowhere"),
        ("run -n 1 -- /nonexistent/program", 1, "/nonexistent/program"),
    ] {
        let out = tocsin(line);
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(status), "{line}: {stderr}");
        assert!(stderr.contains(says), "{line}: {stderr}");
        assert!(out.stdout.is_empty(), "{line}");
    }
}

#[test]
fn run_reports() {
    let out = tocsin("run -n 2 --json -- echo hello");
    let stdout = String::from_utf8(out.stdout).unwrap();
    let row: Value = serde_json::from_str(stdout.trim()).unwrap();
    assert_eq!(row["ranks"], 2);
    assert_eq!(String::from_utf8_lossy(&out.stderr).matches("hello").count(), 2);
}

#[test]
fn latency() {
    let rows = rows("bench latency --json --rounds 300");
    if rows.is_empty() {
        return;
    }
    let mechanisms = ["signal", "futex", "eventfd", "cacheline"];
    for kind in ["process", "thread"] {
        for mechanism in mechanisms {
            let row = rows.iter().find(|r| r["kind"] == kind && r["mechanism"] == mechanism).unwrap();
            has(row, "bench ranks rounds placement mean_ns std_ns min_ns p10_ns p50_ns p95_ns p99_ns max_ns");
            assert!(row["min_ns"].as_f64().unwrap() > 0.0);
        }
    }
}

#[test]
fn pingpong() {
    for row in rows(
        "bench pingpong --json --rounds 2 --warmup 0 --sizes 0,8,100K --kind process,thread --backend signal,poll",
    ) {
        has(&row, "bench backend kind ranks lmt size_bytes rounds half_rtt_us_min half_rtt_us_p50");
    }
}

#[test]
fn overlap() {
    let dir = std::env::temp_dir().join(format!("tocsin-overlap-{}", std::process::id()));
    let line = "bench overlap --json --rounds 3 --warmup 1 --sizes 1K,200K --case recv,send,both --compute-us 100,2x";
    let rows = rows(&format!("{line} --backend signal,thread,poll --plot {}", dir.display()));
    assert_eq!(rows.len(), 3 * 2 * 3 * 2);
    for row in &rows {
        has(
            row,
            "bench backend kind ranks lmt size_bytes rounds case compute_us t_comm_us t_comp_us t_ovrl_us ratio",
        );
        has(row, "null_ratio rate_percent bound_us efficiency peer_blocked_us interrupts bytes_copied_by");
    }
    assert!(dir.join("overlap.png").exists() && dir.join("overlap.svg").exists());
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn collectives() {
    let rows =
        rows("bench coll --json --ranks 1..3 --rounds 2 --warmup 0 --sizes 7,40K --kind process,thread");
    assert_eq!(rows.len(), 3 * 2 * (1 + 3 * 2));
    for row in &rows {
        has(row, "op algorithm mode t_comm_us t_comp_us t_ovrl_us ratio rate_percent verified");
    }
}

#[test]
fn late_rank() {
    let line = "bench coll --json --op ibcast --algorithm binomial --ranks 4 --sizes 1K --late-rank 2";
    for row in rows(&format!("{line} --late-us 3000 --rounds 2 --backend signal,poll")) {
        has(&row, "op algorithm mode others_done_us verified");
        assert_eq!(row["mode"], "late");
    }
}

#[test]
fn idle() {
    let rows = rows("bench idle --json --rounds 3 --slice-us 200 --ranks 2");
    has(&rows[0], "bench backend kind ranks speed_ratio");
}
