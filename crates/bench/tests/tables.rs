//! What `tocsin tune` writes, and who reads it.
#![allow(clippy::unwrap_used)] // a test

mod lines;

use lines::{has, rows};
use serde_json::Value;
use std::process::Command;

/// What is written is read by a world, and says of each kind of ranks what it measured; another machine's is refused.
#[test]
fn a_table_is_measured_and_used() {
    let file = std::env::temp_dir().join(format!("tocsin-tune-of-the-command-{}", std::process::id()));
    let name = file.to_str().unwrap();
    let measured =
        rows(&format!("tune --output {name} --what p2p --sizes 4K,48K --rounds 1 --at-once 1 --json"));
    for kind in ["process", "thread"] {
        let of = |row: &&Value| row["kind"] == kind && row["at_once"] == 1;
        let times: Vec<&Value> = measured.iter().filter(of).filter(|row| row.get("lmt").is_some()).collect();
        assert!(times.iter().any(|row| row["lmt"] == "eager" && row["size_bytes"] == 4096), "{measured:?}");
        assert!(!times.iter().any(|row| row["lmt"] == "eager" && row["size_bytes"] == 49152), "{measured:?}");
        for bytes in [4096, 49152] {
            assert!(
                times.iter().any(|row| row["lmt"] == "double" && row["size_bytes"] == bytes),
                "{measured:?}"
            );
        }
        times.iter().for_each(|row| has(row, "bench backend ranks rounds half_rtt_us_p50"));
        let decided: Vec<&Value> =
            measured.iter().filter(of).filter(|row| row.get("strategy").is_some()).collect();
        assert_eq!(decided.len(), 1, "{measured:?}");
        has(decided[0], "eager_max_bytes from_bytes");
    }
    let run = |table: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tocsin"));
        let line = "bench pingpong --rounds 1 --warmup 0 --sizes 4K,48K --json";
        command.args(line.split_whitespace()).env("TOCSIN_TUNE", table).output().unwrap()
    };
    let used = run(name);
    assert!(used.status.success(), "{}", String::from_utf8_lossy(&used.stderr));
    let text = std::fs::read_to_string(&file).unwrap();
    // Rows say what runs: that of the table.
    for (says, right) in [("process 1 4096 double 0", "double"), ("process 1 4096 cma 1", "tuned")] {
        if right == "tuned" && tocsin_world::cma_refusal().is_some() {
            continue;
        }
        let is_row =
            |l: &&str| l.starts_with("process ") || l.starts_with("thread ") || l.starts_with("end ");
        let kept: Vec<&str> = text.lines().filter(|l| !is_row(l)).chain([says, "end 1"]).collect();
        std::fs::write(&file, kept.join("\n")).unwrap();
        let out = run(name);
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        for line in String::from_utf8(out.stdout).unwrap().lines() {
            let row: Value = serde_json::from_str(line).unwrap();
            assert_eq!(row["lmt"], right, "{row}");
        }
    }
    let foreign: String = text
        .lines()
        .map(|l| if l.starts_with("machine") { "machine another\n".into() } else { format!("{l}\n") })
        .collect();
    std::fs::write(&file, foreign).unwrap();
    let refused = run(name);
    std::fs::remove_file(&file).unwrap();
    let why = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{why}");
    assert!(why.contains("measured on another machine") && why.contains("tocsin tune --output"), "{why}");
}

/// What a machine's table of these rows is, in a file of its own.
fn table(name: &str, rows: &[&str]) -> std::path::PathBuf {
    let file = std::env::temp_dir().join(format!("tocsin-tune-{name}-{}", std::process::id()));
    let (machine, end) = (tocsin_world::tune::machine(), rows.len());
    let text = format!("tocsin-tune 2\nmachine {machine}\n{}\nend {end}\n", rows.join("\n"));
    std::fs::write(&file, text).unwrap();
    file
}

/// The algorithms that `bench coll` reports with a table, by size.
fn reported(table: &std::path::Path, line: &str) -> Vec<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tocsin"));
    let line = format!("bench coll --mode alone --rounds 1 --warmup 0 --json {line}");
    let out = command.args(line.split_whitespace()).env("TOCSIN_TUNE", table).output().unwrap();
    assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout).unwrap();
    let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.map(|row| row["algorithm"].as_str().unwrap().to_owned()).collect()
}

/// The library takes what a table says, where it says something and that is possible; what the command line says goes first.
#[test]
fn a_table_says_which_algorithm_is_taken() {
    let file = table(
        "of-algorithms",
        &[
            "collective iallreduce process 2 0 reduce-bcast",
            "collective iallreduce process 2 1024 auto",
            "collective iallreduce process 2 65536 ring",
            "collective ibcast thread 2 0 shm",
        ],
    );
    let of = |line: &str| reported(&file, line);
    let reduction = "--op iallreduce --sizes 8,1K,64K";
    assert_eq!(of(&format!("{reduction} --ranks 2")), ["reduce-bcast", "shm", "ring"]);
    assert_eq!(of(&format!("{reduction} --ranks 2 --persistent")), ["reduce-bcast", "shm", "ring"]);
    assert_eq!(of(&format!("{reduction} --ranks 2 --algorithm rabenseifner")), ["rabenseifner"; 3]);
    // Nearest to two; too far away; another kind.
    assert_eq!(of(&format!("{reduction} --ranks 3")), ["reduce-bcast", "shm", "ring"]);
    let cores = std::thread::available_parallelism().unwrap().get();
    let own = if cores < 4 { "shm" } else { "rabenseifner" };
    assert_eq!(of(&format!("{reduction} --ranks 4")), ["shm", "shm", own]);
    let threads = "--op iallreduce --sizes 8,1K,256K --ranks 2 --kind thread";
    assert_eq!(of(threads), ["shm", "shm", "linear"]);
    // More rounds on a board than a rank may post.
    let [on_board, longer] = of("--op ibcast --sizes 64K,8M --ranks 2 --kind thread").try_into().unwrap();
    assert!(on_board == "shm" && longer != "shm", "{longer}");
    let told =
        Command::new(env!("CARGO_BIN_EXE_tocsin")).arg("info").env("TOCSIN_TUNE", &file).output().unwrap();
    std::fs::remove_file(&file).unwrap();
    let told = String::from_utf8(told.stdout).unwrap();
    let right = "2 processes, iallreduce: reduce-bcast, auto from 1024 B on, ring from 65536 B on";
    assert!(told.contains(right) && told.contains(file.to_str().unwrap()), "{told}");
}

/// What is measured of collectives is what was asked for, and what is written is read.
#[test]
fn algorithms_are_measured_and_used() {
    let file = std::env::temp_dir().join(format!("tocsin-tune-of-collectives-{}", std::process::id()));
    let name = file.to_str().unwrap();
    let line = format!(
        "tune --output {name} --op ibarrier,ibcast,ialltoallv --ranks 2,3 --kind thread --sizes 8,16K \
         --rounds 1 --json"
    );
    let measured = rows(&line);
    let all = |op: &str, ranks: u64, key: &str| {
        let of = |row: &&Value| row["op"] == op && row["ranks"] == ranks && row.get(key).is_some();
        measured.iter().filter(of).cloned().collect::<Vec<Value>>()
    };
    for ranks in [2, 3] {
        // Every algorithm that can serve it, the library's own with ratio 1; of what moves bytes, of 8 and of 16 K.
        for (op, timed) in [("ibarrier", 4), ("ibcast", 9 + 9), ("ialltoallv", 3 + 3)] {
            let times = all(op, ranks, "t_comm_us");
            assert_eq!(times.len(), timed, "{op}: {times:?}");
            times
                .iter()
                .for_each(|row| has(row, "bench backend kind size_bytes algorithm rounds operations ratio"));
            let own = |row: &&Value| row.get("own").is_some() && row["ratio"] == 1.0;
            assert_eq!(times.iter().filter(own).count(), if op == "ibarrier" { 1 } else { 2 }, "{times:?}");
            let decided = all(op, ranks, "from_bytes");
            assert!(!decided.is_empty() && decided[0]["from_bytes"] == 0, "{decided:?}");
            assert!(op == "ibcast" || decided.len() == 1, "{decided:?}");
        }
    }
    assert!(measured.iter().all(|row| row["kind"] == "thread" && row.get("lmt").is_none()), "{measured:?}");
    let chosen = all("ibcast", 2, "from_bytes");
    let used = reported(&file, "--op ibcast --sizes 8 --ranks 2 --kind thread");
    std::fs::remove_file(&file).unwrap();
    let own = "shm";
    let right = chosen[0]["algorithm"].as_str().unwrap();
    assert_eq!(used, [if right == "auto" { own } else { right }]);
}

/// Rows that were there stay, but for those of what is measured again; what tells nothing is not written.
#[test]
fn a_table_is_added_to() {
    let kept = [
        "thread 7 1024 double 0",
        "collective ibarrier process 2 0 tree",
        "collective ibcast thread 2 0 shm",
    ];
    let there =
        [&kept[..], &["collective ibarrier thread 2 0 linear", "collective ibarrier thread 3 0 linear"]]
            .concat();
    let file = table("that-is-added-to", &there);
    let lines = || -> Vec<String> {
        let text = std::fs::read_to_string(&file).unwrap();
        let is_row = |line: &&str| line.starts_with("thread") || line.starts_with("collective");
        text.lines().filter(is_row).map(str::to_owned).collect()
    };
    let command = format!("--output {} --op ibarrier --ranks 2,4 --kind thread", file.display());
    let measured = rows(&format!("tune {command} --rounds 1 --json"));
    let chosen = |ranks: u64| {
        let of = |row: &&Value| row["ranks"] == ranks && row.get("from_bytes").is_some();
        let row = measured.iter().find(of).unwrap();
        format!("collective ibarrier thread {ranks} 0 {}", row["algorithm"].as_str().unwrap())
    };
    let stays = "collective ibarrier thread 3 0 linear".to_owned();
    let right: Vec<String> =
        kept.iter().map(|line| (*line).to_owned()).chain([stays, chosen(2), chosen(4)]).collect();
    assert_eq!(lines(), right);
    // One round does not tell how far apart they are.
    let before = std::fs::read(&file).unwrap();
    let mut tune = Command::new(env!("CARGO_BIN_EXE_tocsin"));
    let out = tune.args(format!("tune {command} --rounds 1 --quick").split_whitespace()).output().unwrap();
    let after = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let why = String::from_utf8_lossy(&out.stderr);
    assert_eq!((out.status.code(), before == after), (Some(1), true), "{why}");
    for says in [
        "ibarrier on 2 ranks, thread: no row",
        "ibarrier on 4 ranks, thread: no row",
        "nothing is clear enough",
    ] {
        assert!(why.contains(says), "{says}: {why}");
    }
}
