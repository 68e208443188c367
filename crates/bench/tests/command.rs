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
    has(&rows[0], "uintr_cpu uintr_kernel backends lmt memory devices cores numa_nodes");
    let memory = &rows[0]["memory"][0];
    has(memory, "name usable");
    let nodes = rows[0]["numa_nodes"].as_u64().unwrap();
    // The process may use one node of a machine that has more.
    assert!(nodes > 1 || memory["usable"] == true || memory["why_not"].is_string(), "{memory}");
    let mut unbound = Command::new(env!("CARGO_BIN_EXE_tocsin"));
    let told = unbound.args(["info", "--json"]).env("TOCSIN_BIND", "none").output().unwrap();
    assert!(String::from_utf8(told.stdout).unwrap().contains("TOCSIN_BIND is none"));
    let devices = rows[0]["devices"].as_array().unwrap();
    let names: Vec<&str> = devices.iter().map(|device| device["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["knem", "xpmem", "dsa"]);
    for device in devices {
        has(device, "presence why driven");
    }
    assert!(String::from_utf8(tocsin("info").stdout).unwrap().contains("signal    usable"));
}

#[test]
fn usage_is_2_and_failure_is_1() {
    for (line, status, says) in [
        ("", 2, "Usage"),
        ("bench coll --op ibcast --algorithm rumour", 2, "binomial"),
        ("bench coll --op igossip", 2, "ireduce_scatter_block, iscan, iexscan"),
        ("bench coll --ranks 2 --late-rank 2 --late-us 5", 2, "below the number of ranks"),
        ("bench overlap --ranks 3", 2, "between 2 ranks"),
        ("bench overlap --backend telegraph", 2, "auto, uintr, signal, thread, poll"),
        ("bench overlap --lmt knem", 2, "auto, direct, cma, vmsplice, double"),
        ("run -n 2 --progress nowhere -- true", 2, "nowhere"),
        ("run -n 2 --bind none --backend thread --progress numa -- true", 2, "scatter_numa"),
        ("bench pingpong --bind none --backend thread --progress bind,numa", 2, "scatter_numa"),
        ("run -n 2 --lmt knem -- true", 2, "auto, direct, cma, vmsplice, double"),
        ("run -n 2 --trace /no/such/directory/trace -- true", 2, "--trace"),
        ("run -n 2 --trace-format svg -- true", 2, "chrome, paje"),
        ("run -n 2 --plot plots --trace trace.paje -- true", 2, "--plot reads"),
        ("run -n 2 --bind none --backend thread --reserve 1 -- true", 2, "bind them by scatter"),
        ("run -n 2 --backend thread --reserve 4096 -- true", 2, "ranks need one"),
        ("bench ring --backend thread --schedule fifo", 2, "round-robin, suspend"),
        ("bench ring --backend thread --schedule event,suspend", 2, "bench compare policies"),
        ("bench compare odd-even --schedule event,suspend", 2, "one applies here"),
        ("bench compare policies --ranks 1", 2, "2 ranks or more"),
        ("bench compare policies --algorithm rumour", 2, "chain"),
        ("bench compare policies --bind none", 2, "bind them by scatter"),
        ("bench contention --ranks 3", 2, "leave --ranks out"),
        ("bench contention --kernel sort", 2, "copy, triad"),
        ("run -n 0 -- true", 2, "1..=1024"),
        ("run -n 1025 -- true", 2, "1..=1024"),
        ("bench coll --ranks 1 --late-rank 0 --late-us 5", 2, "2 or more"),
        ("bench coll --late-rank 0 --late-us 5 --mode equivalent", 2, "--mode"),
        ("bench latency --ranks 3", 2, "between 2 ranks"),
        ("bench pingpong --ranks 1", 2, "2 ranks or more"),
        ("bench pingpong --count sheep", 2, "cache-misses, cache-references, page-faults, context-switches"),
        ("bench ring --ranks 4,1", 2, "2 ranks or more"),
        ("bench pairs --ranks 1", 2, "2 ranks or more"),
        ("bench rate --ranks 3", 2, "an odd number"),
        ("bench rate --window 1K --sizes 1M", 2, "more than 512 MiB"),
        ("bench outstanding --ranks 4", 2, "between 2 ranks"),
        ("bench outstanding --count 0", 2, "at least 1"),
        ("bench outstanding --completion smoke", 2, "wait, callback"),
        ("bench outstanding --count 10000 --sizes 1M", 2, "more than 1 GiB"),
        ("tune --output /no/such/directory/table", 2, "--output"),
        ("tune --output /", 2, "is a directory: name a file"),
        ("tune --sizes 0", 2, "messages of 0 bytes decide nothing"),
        ("tune --sizes 0,4K,48K", 2, "messages of 0 bytes decide nothing"),
        ("tune --sizes 4K..32K", 2, "one above it"),
        ("tune --sizes 64K..1M", 2, "at least one of up to 32K"),
        ("tune --at-once 0", 2, "at least 1"),
        ("tune --kind fiber", 2, "process, thread"),
        ("tune --what music", 2, "p2p, collectives"),
        ("tune --op igossip", 2, "ireduce_scatter_block, iscan, iexscan"),
        ("tune --op ibcast,igatherv", 2, "igatherv has one algorithm"),
        ("tune --op ibcast --sizes 0,8", 2, "messages of 0 bytes decide nothing"),
        ("tune --op ibcast --ranks 1,2", 2, "1 rank has nobody"),
        ("tune --op ialltoall --ranks 64 --sizes 1M", 2, "blocks of up to 8M"),
        ("tune --ranks 2..1024", 2, "name fewer"),
        ("run -n 1 -- /nonexistent/program", 1, "/nonexistent/program"),
    ] {
        let out = tocsin(line);
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(status), "{line}: {stderr}");
        assert!(stderr.contains(says), "{line}: {stderr}");
        assert!(out.stdout.is_empty(), "{line}");
    }
}

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
    let shares_cores = std::thread::available_parallelism().unwrap().get() < 4;
    let own = if shares_cores { "reduce-bcast" } else { "rabenseifner" };
    assert_eq!(of(&format!("{reduction} --ranks 4")), ["shm", "shm", own]);
    assert_eq!(of(&format!("{reduction} --ranks 2 --kind thread")), ["shm", "shm", "recursive-doubling"]);
    // More than a board takes.
    assert_eq!(of("--op ibcast --sizes 8,64K --ranks 2 --kind thread"), ["shm", "binomial"]);
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
        // Every algorithm that can serve it, the library's own with ratio 1; of a broadcast, of 8 bytes and of 16 K.
        for (op, timed) in [("ibarrier", 4), ("ibcast", 6 + 5), ("ialltoallv", 2 + 2)] {
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

#[test]
fn run_reports() {
    let out = tocsin("run -n 2 --json -- echo hello");
    let stdout = String::from_utf8(out.stdout).unwrap();
    let row: Value = serde_json::from_str(stdout.trim()).unwrap();
    assert_eq!(row["ranks"], 2);
    assert_eq!(String::from_utf8_lossy(&out.stderr).matches("hello").count(), 2);
}

#[test]
fn run_ends_with_the_first_failing_ranks_status() {
    for (script, status, says) in
        [("exit 7", 7, "failed first: exit status 7"), ("kill -9 $$", 137, "signal 9"), ("true", 0, "")]
    {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tocsin"));
        let out = command.args(["run", "-n", "2", "--", "sh", "-c", script]).output().unwrap();
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(status), "{script}: {stderr}");
        assert!(stderr.contains(says) && stderr.is_empty() == says.is_empty(), "{script}: {stderr}");
    }
}

/// Every placement of progress threads works, or is refused before anything starts.
#[test]
fn progress_threads_are_placed() {
    let all = "none,bind,numa,smt,odd_even";
    // A second hardware thread per core, which this machine may not have: then nobody is bound to it.
    let line = format!("bench pingpong --json --rounds 1 --warmup 0 --sizes 100K --progress {all}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tocsin"));
    command.args(line.split_whitespace()).args(["--kind", "process,thread", "--backend", "signal,thread"]);
    let out = command.env("TOCSIN_TOPOLOGY", "core:2 pu:2").output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout).unwrap();
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for kind in ["process", "thread"] {
        let of = |row: &&Value| row["kind"] == kind;
        for policy in all.split(',') {
            let mine = |row: &Value| row["backend"] == "thread" && row["progress"] == policy;
            assert_eq!(rows.iter().filter(of).filter(|row| mine(row)).count(), 1, "{kind}, {policy}: {text}");
        }
        // The others have no progress threads to place.
        assert_eq!(rows.iter().filter(of).filter(|row| row.get("progress").is_none()).count(), 1);
    }
    for line in
        ["run -n 2 --backend thread --progress smt -- true", "bench ring --backend thread --progress smt"]
    {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tocsin"));
        let out = command.args(line.split_whitespace()).env("TOCSIN_TOPOLOGY", "core:4").output().unwrap();
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{line}: {stderr}");
        assert!(stderr.contains("only hardware thread"), "{line}: {stderr}");
    }
}

#[test]
fn traces_are_one_file_for_all_ranks() {
    let dir = std::env::temp_dir().join(format!("tocsin-run-trace-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let trace = dir.join("trace.json");
    // Ranks of a bench leave the world in good order.
    let line = "bench pingpong --json --rounds 1 --sizes 8 --backend signal";
    let mut command = Command::new(env!("CARGO_BIN_EXE_tocsin"));
    let out = command.args(line.split_whitespace()).env("TOCSIN_TRACE", &trace).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let events: Value = serde_json::from_str(&std::fs::read_to_string(&trace).unwrap()).unwrap();
    for rank in 0..2 {
        assert!(events.as_array().unwrap().iter().any(|e| e["pid"] == rank && e["name"] == "pass"));
    }
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1);
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn options_that_mean_nothing_are_said_to() {
    let out = tocsin("bench latency --json --rounds 5 --mechanism cacheline --sizes 8 --backend poll");
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert!(stderr.contains("--sizes does not apply") && stderr.contains("--backend"), "{stderr}");
    for line in [
        "run -n 1 --backend poll --progress bind -- true",
        "bench pingpong --json --rounds 1 --warmup 0 --sizes 100K --backend poll --progress bind",
    ] {
        let out = tocsin(line);
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert!(
            out.status.success() && stderr.contains("--progress applies to the backend thread only"),
            "{stderr}"
        );
    }
}

/// Both ways to compute, with what each row has.
#[test]
fn contention() {
    let line = "bench contention --json --rounds 2 --warmup 0 --array 4K --kind process,thread --backend signal,poll";
    let rows = rows(&format!("{line} --computing 0,1 --kernel copy,triad --repeat 1,8 --sizes 0,4,100K"));
    // Kinds, backends, computing, a copy and two triads, sizes.
    assert_eq!(rows.len(), 2 * 2 * 2 * 3 * 3);
    for row in &rows {
        has(
            row,
            "bench backend kind ranks lmt size_bytes rounds kernel repeat flop_per_byte array_bytes computing",
        );
        has(
            row,
            "messages passes t_comp_us t_comp_beside_us compute_speed_ratio null_speed_ratio compute_gbps",
        );
        has(row, "t_comm_us t_comm_beside_us comm_speed_ratio verified");
        let computing = row["computing"].as_u64().unwrap();
        assert_eq!(row["ranks"], computing + 2);
        assert_eq!(row.get("interrupts").is_some(), computing == 0, "{row}");
        assert_eq!(row.get("bandwidth_gbps").is_some(), row["size_bytes"] != 0, "{row}");
        assert!(
            row["compute_speed_ratio"].as_f64().unwrap() > 0.0
                && row["comm_speed_ratio"].as_f64().unwrap() > 0.0
        );
        let intensity = if row["kernel"] == "copy" { 0.0 } else { row["repeat"].as_f64().unwrap() / 12.0 };
        assert!((row["flop_per_byte"].as_f64().unwrap() - intensity).abs() < 1e-5, "{row}");
    }
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

/// A row has the number, or why there is none.
#[test]
fn pingpong_counts_events_or_says_why_not() {
    for event in ["page-faults", "context-switches", "cache-misses", "cache-references"] {
        let line = "bench pingpong --json --rounds 2 --warmup 0 --sizes 64K --kind process,thread";
        let rows = rows(&format!("{line} --lmt cma --count {event}"));
        assert_eq!(rows.len(), 2);
        for row in rows {
            assert_eq!(row["event"], event);
            let counted = row.get("events_per_message").and_then(Value::as_f64);
            let why = row.get("not_counted").and_then(Value::as_str);
            match (counted, why) {
                (Some(counted), None) => assert!(counted >= 0.0, "{row}"),
                (None, Some(why)) => assert!(why.contains(event) || why.contains("perf_event_open"), "{row}"),
                _ => panic!("one of the two: {row}"),
            }
        }
    }
    let rows = rows("bench pingpong --json --rounds 2 --warmup 0 --sizes 8");
    assert!(rows.iter().all(|row| row.get("event").is_none() && row.get("not_counted").is_none()));
}

/// Two play, the others wait inside the library.
#[test]
fn pingpong_of_more_than_two() {
    let rows =
        rows("bench pingpong --json --rounds 2 --warmup 0 --sizes 8,100K --ranks 2,4 --backend signal,poll");
    assert_eq!(rows.len(), 2 * 2 * 2);
    assert_eq!(rows.iter().filter(|row| row["ranks"] == 4).count(), 4);
    rows.iter().for_each(|row| has(row, "half_rtt_us_min half_rtt_us_p50 verified"));
}

#[test]
fn ring() {
    let line = "bench ring --json --rounds 2 --warmup 0 --sizes 0,8,100K --ranks 2,3 --kind process,thread";
    let rows = rows(&format!("{line} --backend signal,thread,poll"));
    assert_eq!(rows.len(), 3 * 2 * 2 * 3);
    for row in &rows {
        has(row, "bench backend kind ranks lmt size_bytes rounds laps hop_us_min hop_us_p50 verified");
        assert!(row["hop_us_min"].as_f64().unwrap() > 0.0);
    }
}

/// Windows that the lane holds and ones that it does not, messages of every kind.
#[test]
fn rate() {
    let line = "bench rate --json --rounds 2 --warmup 0 --sizes 0,8,1K --kind process,thread --window 3,700";
    let mut all = rows(&format!("{line} --backend signal,thread,poll"));
    // Sizes, kinds, backends, windows, times of receives.
    let of_two = 3 * 2 * 3 * 2 * 2;
    assert_eq!(all.len(), of_two);
    all.extend(rows("bench rate --json --rounds 1 --warmup 0 --ranks 4 --sizes 100K --window 5"));
    assert_eq!(all.len(), of_two + 2);
    for row in &all {
        has(row, "bench backend kind ranks lmt size_bytes rounds receives window windows");
        has(row, "message_ns_min message_ns_p50 messages_per_s interrupts verified");
        let (each, rate) = (row["message_ns_p50"].as_f64().unwrap(), row["messages_per_s"].as_f64().unwrap());
        let pairs = row["ranks"].as_f64().unwrap() / 2.0;
        assert!((each * rate / 1e9 / pairs - 1.0).abs() < 0.01, "{row}");
    }
}

/// Every way to learn of a completion, with eager messages and with large ones.
#[test]
fn outstanding() {
    let line =
        "bench outstanding --json --rounds 2 --warmup 0 --count 3,100,2000 --sizes 8 --kind process,thread";
    let mut all = rows(&format!("{line} --backend signal,thread,poll"));
    // Kinds, backends, numbers, ways.
    let of_eager = 2 * 3 * 3 * 2;
    assert_eq!(all.len(), of_eager);
    all.extend(rows(
        "bench outstanding --json --rounds 1 --warmup 0 --count 20 --sizes 0,100K --backend signal,poll",
    ));
    assert_eq!(all.len(), of_eager + 2 * 2 * 2);
    for row in &all {
        has(row, "bench backend kind ranks lmt size_bytes rounds outstanding completion batches");
        has(row, "request_ns_min request_ns_p50 post_ns_p50 to_first interrupts verified");
        // The first is compared with itself.
        let first = [3, 20].contains(&row["outstanding"].as_i64().unwrap());
        assert!(!first || (row["to_first"].as_f64().unwrap() - 1.0).abs() < 0.001, "{row}");
        assert!(row["completion"] == "wait" || row["completion"] == "callback");
    }
}

/// What is allocated of the segment is exact: a pair that talks takes its lanes, one that is silent nothing.
#[test]
fn pairs() {
    let line = "bench pairs --json --rounds 1 --warmup 0 --backend signal,poll";
    for row in rows(&format!("{line} --ranks 12 --kind process,thread")) {
        has(
            &row,
            "bench backend kind ranks lmt size_bytes rounds setup_ms rank_bytes_shared rank_bytes_private",
        );
        has(&row, "silent_pair_bytes_shared silent_pair_bytes_private silent_pair_bytes_heap");
        has(&row, "neighbour_pair_bytes_shared pair_bytes_shared pair_bytes_private");
        has(&row, "first_exchange_ms exchange_ms_p50 verified");
        let number = |key: &str| row[key].as_f64().unwrap();
        // Worlds of 6, 9 and 12 ranks end within a page each.
        assert!(number("silent_pair_bytes_shared").abs() <= 2.0 * 4.0 * 4096.0 / 18.0, "{row}");
        assert!(number("pair_bytes_shared") >= 4096.0, "{row}");
        assert!(
            (number("neighbour_pair_bytes_shared") / number("pair_bytes_shared") - 1.0).abs() < 0.01,
            "{row}"
        );
    }
    // Two ranks are one pair, and have no smaller worlds to compare with.
    let row = &rows(&format!("{line} --ranks 2"))[0];
    assert!(
        row.get("silent_pair_bytes_shared").is_none() && row["pair_bytes_shared"].as_f64().unwrap() > 0.0
    );
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
        let both = row["case"] == "both";
        assert!(["complete_us", "complete_us_max"].iter().all(|key| row.get(key).is_some() == both), "{row}");
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

/// Each verifies what it receives.
#[test]
fn every_collective() {
    let all = "ibarrier,ibcast,iscatter,iscatterv,igather,igatherv,iallgather,iallgatherv,ialltoall,ialltoallv,ialltoallw,\
               ireduce,iallreduce,ireduce_scatter,ireduce_scatter_block,iscan,iexscan";
    let line = format!("bench coll --json --op {all} --rounds 1 --warmup 0 --kind thread --backend signal");
    let rows = rows(&format!("{line} --ranks 1,3,4 --root 0 --sizes 0,7,8000"));
    assert_eq!(rows.len(), 3 * (1 + 16 * 3));
    assert!(rows.iter().all(|row| row["verified"] == true));
}

/// Collectives alone and restarted ones, in every mode: each verifies what it receives, whose content changes each time.
#[test]
fn collectives_alone_and_prepared_ones() {
    let all = "ibarrier,ibcast,iallgatherv,ialltoall,iallreduce,ireduce_scatter,iscan";
    for (mode, keys) in [
        ("--mode alone", "operations t_comm_us t_comm_us_min interrupts"),
        ("--mode alone --persistent", "operations t_comm_us persistent"),
        ("--persistent", "t_comm_us t_ovrl_us ratio persistent"),
        ("--late-rank 1 --late-us 500 --persistent", "others_done_us persistent"),
    ] {
        let line =
            format!("bench coll --json --op {all} --rounds 2 --warmup 0 --ranks 3 --sizes 8,40K {mode}");
        let rows = rows(&format!("{line} --kind process,thread"));
        assert_eq!(rows.len(), 2 * (1 + 6 * 2), "{mode}");
        for row in &rows {
            has(row, keys);
            assert_eq!(row["verified"], true);
            assert_eq!(row.get("persistent").is_some(), mode.contains("--persistent"), "{row}");
        }
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
    let rows = rows("bench idle --json --rounds 3 --slice-us 200 --ranks 2 --backend signal,poll");
    assert_eq!(rows.len(), 2);
    for row in &rows {
        has(row, "bench backend kind ranks speed_ratio");
    }
}
