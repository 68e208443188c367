//! `tocsin plan` as people and programs use it: rows, exit statuses, messages.
#![allow(clippy::unwrap_used)] // a test

use serde_json::{Value, json};
use std::process::{Command, Output};

/// The topology's argument has spaces in it.
fn tocsin(line: &str, topology: Option<&str>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tocsin"));
    command.arg("plan").args(line.split_whitespace());
    if let Some(topology) = topology {
        command.args(["--topology", topology]);
    }
    command.output().unwrap()
}

fn parse(out: &Output) -> Vec<Value> {
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8_lossy(&out.stdout);
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn rows(line: &str, topology: Option<&str>) -> Vec<Value> {
    parse(&tocsin(&format!("{line} --json"), topology))
}

fn column(rows: &[Value], key: &str) -> Vec<Value> {
    rows.iter().map(|row| row[key].clone()).collect()
}

/// Thesis 000, section 5.1: the best number of ranks with s = 0, and where s changes.
#[test]
fn split_tree_is_the_thesis() {
    let rows = rows("split-tree --cores 64 --ranks 2..63", None);
    assert_eq!(rows.len(), 62);
    assert!(rows.iter().all(|row| row["bench"] == "plan split-tree" && row["cores"] == 64));
    let of = |ranks: u64| rows.iter().find(|row| row["ranks"] == ranks).unwrap();
    let t = |row: &Value, s: u64| row["t_by_s"][s as usize].as_f64().unwrap();
    let best = rows.iter().min_by(|a, b| t(a, 0).total_cmp(&t(b, 0))).unwrap();
    assert_eq!(best["ranks"], 51);
    let changes: Vec<(u64, u64)> = (3..=63)
        .filter(|ranks| of(*ranks)["s"] != of(ranks - 1)["s"])
        .map(|ranks| (ranks, of(ranks)["s"].as_u64().unwrap()))
        .collect();
    assert_eq!(changes, [(52, 1), (58, 2), (62, 3)]);
    for row in &rows {
        let s = row["s"].as_u64().unwrap();
        assert_eq!(row["t_model"], row["t_by_s"][s as usize]);
        assert_eq!(row["t_by_s"].as_array().unwrap().len() as u32, levels(row) + 1);
    }
}

fn levels(row: &Value) -> u32 {
    row["ranks"].as_u64().unwrap().next_power_of_two().trailing_zeros()
}

#[test]
fn split_tree_for_people() {
    let out = tocsin("split-tree --cores 64 --ranks 2..63", None);
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(text.contains("Least time with s = 0: 51 ranks."), "{text}");
    for (ranks, from, to) in [(52, 0, 1), (58, 1, 2), (62, 2, 3)] {
        assert!(text.contains(&format!("At {ranks} ranks s goes from {from} to {to}.")), "{text}");
    }
}

#[test]
fn split_tree_without_dedicated_cores_and_with_doubling_weights() {
    let row = &rows("split-tree --cores 4 --ranks 4", None)[0];
    assert_eq!((&row["s"], &row["t_by_s"]), (&json!(2), &json!([null, null, 4.0])));
    let row = &rows("split-tree --cores 5 --ranks 4 --shape doubling", None)[0];
    // C = 5/4 * 7 = 8.75, which hides whatever is folded.
    assert_eq!((&row["s"], &row["t_by_s"]), (&json!(0), &json!([8.75, 9.75, 11.75])));
}

#[test]
fn placement() {
    let rows = rows("placement --ranks 7 --bind scatter_numa --progress numa", Some("numa:2 core:4 pu:1"));
    assert_eq!(column(&rows, "rank"), (0..7).map(Value::from).collect::<Vec<_>>());
    assert_eq!(json!(column(&rows, "core")), json!([0, 1, 2, 3, 4, 5, 6]));
    assert_eq!(json!(column(&rows, "numa")), json!([0, 0, 0, 0, 1, 1, 1]));
    assert_eq!(json!(column(&rows, "progress_core")), json!([0, 1, 2, 3, 7, 7, 7]));
    assert!(rows.iter().all(|row| row["bench"] == "plan placement" && row["ranks"] == 7));
}

#[test]
fn placement_by_default() {
    // Scatter while there are cores enough, then nobody is bound; progress threads are not.
    let rows = rows("placement --ranks 2,3", Some("core:2"));
    assert_eq!(rows.len(), 5);
    assert_eq!(json!(column(&rows[..2], "core")), json!([0, 1]));
    assert!(rows.iter().all(|row| row.get("progress_core").is_none()));
    assert!(rows[2..].iter().all(|row| row.get("core").is_none() && row.get("numa").is_none()));
    let rows = self::rows("placement", None);
    assert!(!rows.is_empty() && rows.iter().all(|row| row["core"].is_u64()));
}

#[test]
fn hardware_threads() {
    let rows = rows("placement --ranks 2 --bind scatter --progress smt", Some("core:2 pu:2"));
    assert_eq!(json!(column(&rows, "cpu")), json!([0, 2]));
    assert_eq!(json!(column(&rows, "progress_cpu")), json!([1, 3]));
    assert_eq!(json!(column(&rows, "progress_core")), json!([0, 1]));
}

/// The environment may say what the command line does not.
#[test]
fn environment() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tocsin"));
    command.args(["plan", "placement", "--ranks", "4", "--json"]);
    command.env("TOCSIN_TOPOLOGY", "numa:2 core:4").env("TOCSIN_BIND", "scatter_numa");
    let rows = parse(&command.env("TOCSIN_PROGRESS", "odd_even").output().unwrap());
    assert_eq!(json!(column(&rows, "core")), json!([0, 2, 4, 6]));
    assert_eq!(json!(column(&rows, "progress_core")), json!([5, 7, 5, 7]));
}

#[test]
fn schedule() {
    let line =
        "schedule --op ibcast --algorithm all --ranks 1,16 --sizes 0,1K --model latency=1,overhead=0,gap=1";
    let all = rows(line, None);
    let algorithms = all.len() / 4;
    assert!(algorithms >= 3 && all.len().is_multiple_of(4));
    for row in &all {
        for key in "bench op algorithm ranks size_bytes steps messages bytes critical_messages".split(' ') {
            assert!(row.get(key).is_some(), "{key}: {row}");
        }
        assert_eq!(row["bench"], "plan schedule");
        if row["algorithm"] == "binomial" {
            let messages = if row["size_bytes"] == 0 { 0 } else { row["ranks"].as_u64().unwrap() - 1 };
            assert_eq!((&row["messages"], &row["bytes"]), (&json!(messages), &json!(messages * 1024)));
        }
    }
    let row = &rows("schedule --op ibarrier --ranks 1000 --model latency=1,overhead=0,gap=0", None)[0];
    // ceil(log2 1000) rounds of a nanosecond.
    assert_eq!((&row["algorithm"], &row["critical_messages"]), (&json!("dissemination"), &json!(10)));
    assert_eq!((&row["messages"], &row["critical_path_us"]), (&json!(10_000), &json!(0.01)));
    let row = &rows("schedule --op ibcast --algorithm binomial --ranks 100000", None)[0];
    assert_eq!((&row["messages"], &row["critical_messages"]), (&json!(99_999), &json!(16)));
    let out = tocsin("schedule --op ibcast", None);
    assert!(String::from_utf8_lossy(&out.stdout).contains("binomial"));
}

/// Of all algorithms those that can be simulated have a row; of the others is said why they have none.
#[test]
fn schedule_of_all_that_can() {
    let line = "schedule --op iallreduce --algorithm all --ranks 20000";
    let out = tocsin(&format!("{line} --json"), None);
    let rows = parse(&out);
    let names = column(&rows, "algorithm");
    for name in ["recursive-doubling", "reduce-bcast", "rabenseifner", "topology-aware", "split-tree"] {
        assert!(names.contains(&name.into()), "{name}: {names:?}");
    }
    let stderr = String::from_utf8_lossy(&out.stderr);
    let notes: Vec<&str> = stderr.lines().collect();
    let all = rows.len() + notes.len();
    assert_eq!(all, self::rows("algorithms --op iallreduce", None).len(), "{stderr}");
    for name in ["ring", "linear", "shm"] {
        let note = format!("no row for {name} with 20000 ranks: ");
        assert_eq!(notes.iter().filter(|line| line.contains(&note)).count(), 1, "{stderr}");
    }
    // A reason that is the same for several sizes is said once.
    let out = tocsin("schedule --op ibcast --algorithm all --ranks 4 --sizes 1,2,4", None);
    assert!(out.status.success());
    assert_eq!(String::from_utf8_lossy(&out.stderr).lines().count(), 1);
    // Nothing to show is a failure.
    let out = tocsin("schedule --op ibcast --algorithm all --ranks 4 --root 4", None);
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert_eq!((out.status.code(), out.stdout.is_empty()), (Some(2), true), "{stderr}");
    assert!(stderr.contains("root 4") && stderr.contains("no algorithm of ibcast"), "{stderr}");
}

#[test]
fn algorithms() {
    let all = rows("algorithms", None);
    for row in &all {
        for key in ["op", "algorithm", "restrictions", "cost", "source"] {
            assert!(row[key].as_str().is_some_and(|text| !text.is_empty()), "{key}: {row}");
        }
        assert_eq!(row["bench"], "plan algorithms");
    }
    let some = rows("algorithms --op ibarrier,iallreduce", None);
    assert!(some.iter().all(|row| row["op"] == "ibarrier" || row["op"] == "iallreduce"));
    assert_eq!(some, all.iter().filter(|row| some.contains(row)).cloned().collect::<Vec<_>>());
    let ring = some.iter().find(|row| row["algorithm"] == "ring").unwrap();
    assert!(ring["restrictions"].as_str().unwrap().starts_with("commutative operators"), "{ring}");
    assert_eq!(ring["source"], "Patarasuk, Yuan 2009");
    let first = &some[0];
    assert_eq!((&first["algorithm"], &first["restrictions"]), (&json!("dissemination"), &json!("none")));
    assert_eq!(first["cost"], "ceil(log2 p) a");
    let out = tocsin("algorithms --op ibcast", None);
    let text = String::from_utf8_lossy(&out.stdout);
    let of_ibcast = all.iter().filter(|row| row["op"] == "ibcast").count();
    assert_eq!(text.lines().count(), 1 + of_ibcast, "{text}");
}

#[test]
fn usage_is_2() {
    for (line, topology, says) in [
        ("placement", Some("numa:2 die:4"), "package, numa, l3, l2, core, pu"),
        ("placement", Some("core:0"), "numa:2 core:4 pu:1"),
        ("placement --bind sideways", None, "none, scatter or scatter_numa"),
        ("placement --progress sideways", None, "none, bind, numa, smt or odd_even"),
        ("placement --bind scatter --progress smt", Some("core:2 pu:1"), "only hardware thread"),
        ("placement --ranks 3 --progress numa", Some("core:2"), "scatter_numa"),
        ("split-tree --cores 8 --ranks 2..9", None, "9 ranks on 8 cores"),
        ("split-tree --shape oak", None, "constant, doubling"),
        ("schedule", None, "--op"),
        ("algorithms --op igossip", None, "ibcast"),
        ("schedule --op ibcast --algorithm rumour", None, "binomial"),
        ("schedule --op ibcast --ranks 4 --root 4", None, "root 4"),
        ("schedule --op iallreduce --algorithm ring --ranks 50000", None, "GiB of memory"),
        ("schedule --op ibcast --model cores=0", None, "no number of ranks"),
        ("schedule --op ialltoall --ranks 4096 --sizes 1M", None, "1 GiB"),
        ("schedule --op ialltoall --algorithm linear --ranks 100000", None, "fewer ranks"),
    ] {
        let out = tocsin(line, topology);
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{line}: {stderr}");
        assert!(stderr.contains(says), "{line}: {stderr}");
        assert!(out.stdout.is_empty(), "{line}");
    }
}
