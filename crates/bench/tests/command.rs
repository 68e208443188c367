//! The command as people and programs use it: exit statuses, JSON on standard output and nothing else there.
#![allow(clippy::unwrap_used)] // a test

mod lines;

use lines::{has, rows, tocsin};
use serde_json::Value;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Says a line whole, as the launcher does: `eprintln!` writes what it prints in parts, and others that write to the same pipe come between them.
fn say(line: &str) {
    std::io::stderr().write_all(format!("{line}\n").as_bytes()).unwrap();
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
        let is_a_strategy = device["name"] == "xpmem" || device["name"] == "knem";
        assert_eq!(device["driven"], is_a_strategy && device["presence"] == "present");
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
        ("bench overlap --lmt carrier", 2, "auto, direct, xpmem, cma, knem, vmsplice, double"),
        ("run -n 2 --progress nowhere -- true", 2, "nowhere"),
        ("run -n 2 --bind none --backend thread --progress numa -- true", 2, "scatter_numa"),
        ("bench pingpong --bind none --backend thread --progress bind,numa", 2, "scatter_numa"),
        ("run -n 2 --lmt carrier -- true", 2, "auto, direct, xpmem, cma, knem, vmsplice, double"),
        ("run -n 2 --trace /no/such/directory/trace -- true", 2, "--trace"),
        ("run -n 2 --trace /proc/trace -- true", 2, "--trace /proc/trace: no file can be made there"),
        ("run -n 2 --plot /dev/null/plots -- true", 2, "--plot /dev/null/plots: no directory"),
        ("bench overlap --plot /dev/null/plots --rounds 1", 2, "--plot /dev/null/plots: no directory"),
        (
            "bench coll --op ibarrier --plot /dev/null/plots --rounds 1",
            2,
            "--plot /dev/null/plots: no directory",
        ),
        ("bench pingpong --plot /proc --rounds 1 --sizes 8", 2, "--plot /proc: no file can be made there"),
        ("bench contention --plot /dev/null/plots", 2, "--plot /dev/null/plots: no directory"),
        ("bench ring --plot /dev/null/plots", 2, "--plot /dev/null/plots: no directory"),
        ("bench rate --plot /dev/null/plots", 2, "--plot /dev/null/plots: no directory"),
        ("bench outstanding --plot /dev/null/plots", 2, "--plot /dev/null/plots: no directory"),
        ("bench pairs --plot /dev/null/plots", 2, "--plot /dev/null/plots: no directory"),
        ("bench idle --plot /dev/null/plots", 2, "--plot /dev/null/plots: no directory"),
        ("bench compare policies --plot /dev/null/plots", 2, "--plot /dev/null/plots: no directory"),
        ("bench latency --plot /dev/null/plots --rounds 2", 2, "--plot /dev/null/plots: no directory"),
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
        ("tune --op ibcast --sizes 0,8", 2, "messages of 0 bytes decide nothing"),
        ("tune --op ibcast --ranks 1,2", 2, "1 rank has nobody"),
        ("tune --op ialltoall --ranks 64 --sizes 1M", 2, "blocks of up to 8M"),
        ("tune --ranks 2..1024", 2, "name fewer"),
        ("run -n 1 -- /nonexistent/program", 1, "`/nonexistent/program`: there is no such file"),
        ("run -n 1 -- no-such-program-anywhere", 1, "PATH has no program of that name"),
        ("run -n 1 -- /proc/version", 1, "check their permissions (chmod +x)"),
        ("run -n 1 -- /tmp", 1, "it is a directory"),
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
fn run_ends_with_the_first_failing_ranks_status() {
    for (script, status, says) in [
        ("exit 7", 7, "failed first: exit status 7"),
        ("kill -9 $$", 137, "signal 9"),
        ("true", 0, "ended without joining the world"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tocsin"));
        let out = command.args(["run", "-n", "2", "--", "sh", "-c", script]).output().unwrap();
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(status), "{script}: {stderr}");
        assert!(stderr.contains(says) && stderr.is_empty() == says.is_empty(), "{script}: {stderr}");
    }
}

#[test]
fn run_tells_a_signal_from_a_status() {
    for (script, says, signal) in [
        ("kill -SEGV $$", "ended by signal 11 (SIGSEGV)", serde_json::json!([11])),
        ("exit 139", "exit status 139", serde_json::json!([null])),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tocsin"));
        let out = command.args(["run", "-n", "1", "--json", "--", "sh", "-c", script]).output().unwrap();
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert!(stderr.contains(&format!("rank 0 failed first: {says}\n")), "{script}: {stderr}");
        let row: Value = serde_json::from_slice(&out.stdout).unwrap();
        assert_eq!(
            (out.status.code(), &row["rank_status"], &row["rank_signal"]),
            (Some(139), &serde_json::json!([139]), &signal)
        );
    }
}

/// Rank 0 of the test below leaves without finalizing; rank 1 waits for it, and fails, or finalizes.
#[test]
#[ignore = "a rank: run_tells_who_left_without_finalizing runs it"]
fn leaves_without_finalizing() {
    let world = tocsin::World::from_env().unwrap();
    let comm = world.comm();
    comm.barrier().unwrap();
    if comm.rank() == 0 {
        std::process::exit(0);
    }
    let waited = comm.recv(&mut [0u8; 8], 0, 0);
    say(&waited.unwrap_err().to_string());
    if std::env::var_os("FORGIVES").is_none() {
        std::process::exit(5);
    }
}

#[test]
fn run_tells_who_left_without_finalizing() {
    let this = std::env::current_exe().unwrap();
    let rank = |command: &mut Command| {
        command.arg(&this).args(["--exact", "leaves_without_finalizing", "--ignored", "--nocapture"]);
        let out = command.output().unwrap();
        (out.status.code(), String::from_utf8(out.stderr).unwrap(), String::from_utf8(out.stdout).unwrap())
    };
    let run = || Command::new(env!("CARGO_BIN_EXE_tocsin"));
    let left = "rank 0 ended with exit status 0 without finalizing";
    let (status, stderr, _) = rank(run().args(["run", "-n", "2", "--"]));
    assert_eq!(status, Some(5), "{stderr}");
    assert!(stderr.contains("rank 0 of the world is dead (killed, panicked, or ended without"), "{stderr}");
    let first = stderr.find(left).unwrap_or_else(|| panic!("{stderr}"));
    assert!(stderr[first..].contains("rank 1 failed first: exit status 5"), "{stderr}");
    // Nobody has failed; it is told all the same.
    let (status, stderr, stdout) = rank(run().env("FORGIVES", "1").args(["run", "-n", "2", "--json", "--"]));
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stderr.contains(left) && !stderr.contains("failed first"), "{stderr}");
    let row: Value = serde_json::from_str(stdout.trim()).unwrap();
    assert_eq!(row["unfinalized_ranks"], serde_json::json!([0]));
}

/// A rank of the test below: of a world of one, where nothing tells it of another.
#[test]
#[ignore = "a rank: run_tells_who_never_joined runs it"]
fn meets_the_others() {
    let world = tocsin::World::from_env().unwrap();
    world.comm().barrier().unwrap();
    say(&format!("of {}", world.comm().size()));
    world.finalize().unwrap();
}

#[test]
fn run_tells_who_never_joined() {
    let this = std::env::current_exe().unwrap();
    let run = |ranks: &str, before: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tocsin"));
        command.args(["run", "-n", ranks, "--json", "--"]).args(before).arg(&this);
        let out = command.args(["--exact", "meets_the_others", "--ignored", "--nocapture"]).output().unwrap();
        let row: Value = serde_json::from_slice(&out.stdout).unwrap();
        assert_eq!((out.status.code(), &row["unfinalized_ranks"]), (Some(0), &serde_json::json!([])));
        (String::from_utf8(out.stderr).unwrap(), row["unjoined_ranks"].as_array().unwrap().len())
    };
    let said = "ended without joining the world";
    for (ranks, before, unjoined, says) in [
        ("2", &[][..], 0, None),
        ("1", &["env", "-i"], 1, Some("tocsin: rank 0 ended")),
        ("2", &["env", "-i"], 2, Some("tocsin: ranks ")),
        ("3", &["env", "-u", "TOCSIN_BOOTSTRAP_FD"], 3, Some("tocsin: 3 ranks, ")),
    ] {
        let (stderr, outside) = run(ranks, before);
        assert_eq!(
            (outside, stderr.matches(said).count()),
            (unjoined, usize::from(says.is_some())),
            "{stderr}"
        );
        assert!(says.is_none_or(|says| stderr.contains(says)) && stderr.contains("of "), "{stderr}");
        let size = if unjoined == 0 { ranks } else { "1" };
        assert!(stderr.contains(&format!("of {size}\n")), "{stderr}");
    }
}

/// A rank of the test below.
#[test]
#[ignore = "a rank: a_process_joins_its_launchers_world_once runs it"]
fn joins_again() {
    let world = tocsin::World::from_env().unwrap();
    let lives = tocsin::World::from_env().unwrap_err();
    world.comm().barrier().unwrap();
    world.finalize().unwrap();
    let left = tocsin::World::from_env().unwrap_err();
    say(&format!("{lives}\n{left}"));
}

#[test]
fn a_process_joins_its_launchers_world_once() {
    let this = std::env::current_exe().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tocsin"));
    command.args(["run", "-n", "2", "--"]).arg(this);
    let out = command.args(["--exact", "joins_again", "--ignored", "--nocapture"]).output().unwrap();
    let stderr = String::from_utf8(out.stderr).unwrap();
    assert!(out.status.success(), "{stderr}");
    assert_eq!(stderr.matches("this process has joined its launcher's world before").count(), 4, "{stderr}");
    assert!(!stderr.contains("start the program with"), "{stderr}");
}

/// Standard output is a file that is as long as files may be.
#[test]
fn output_that_cannot_be_written_is_told() {
    const LONGEST: u64 = 1 << 40;
    let path = std::env::temp_dir().join(format!("tocsin-full-{}", std::process::id()));
    let mut full = std::fs::File::create(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    full.seek(SeekFrom::Start(LONGEST)).unwrap();
    for (line, status) in [("info --json", 1), ("run -n 2 --tag-output -- echo hello", 0)] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tocsin"));
        command.args(line.split_whitespace()).stdout(full.try_clone().unwrap());
        // SAFETY: both calls are async-signal-safe; the limit is a live local.
        unsafe {
            command.pre_exec(|| {
                let limit = libc::rlimit { rlim_cur: LONGEST, rlim_max: LONGEST };
                libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
                match libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                }
            })
        };
        let out = command.output().unwrap();
        let stderr = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(status), "{line}: {stderr}");
        assert!(stderr.contains("File too large"), "{line}: {stderr}");
    }
}

/// Standard error is full, or nobody reads it: what is said is lost, and nothing else.
#[test]
fn what_cannot_be_said_fails_nothing() {
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap().into();
    let closed = || {
        let (read, write) = std::io::pipe().unwrap();
        drop(read);
        write.into()
    };
    let targets: [&dyn Fn() -> std::process::Stdio; 2] = [&full, &closed];
    for target in targets {
        for (line, status, row) in [
            ("run -n 2 --json -- false", 1, r#""status":1,"failed_rank":"#),
            ("run -n 1 --json --backend poll --progress bind -- true", 0, r#""status":0"#),
            ("run -n 1 -- /no/such/program", 1, ""),
        ] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_tocsin"));
            let out = command.args(line.split_whitespace()).stderr(target()).output().unwrap();
            let stdout = String::from_utf8(out.stdout).unwrap();
            assert_eq!(out.status.code(), Some(status), "{line}: {stdout}");
            assert!(stdout.contains(row), "{line}: {stdout}");
        }
    }
}

/// Runs a line as a process that may have so many signals pending: each rank's timer takes one.
fn with_signals(line: &str, most: u64) -> std::process::Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tocsin"));
    command.args(line.split_whitespace());
    // SAFETY: the call is async-signal-safe; the limit is a live local.
    unsafe {
        command.pre_exec(move || {
            let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
            match libc::setrlimit(libc::RLIMIT_SIGPENDING, &raw const limit) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        })
    };
    command.output().unwrap()
}

/// Those that have joined wait for it in the bench's barrier, which hears of nothing.
#[test]
fn a_thread_that_cannot_join_ends_the_bench() {
    let line = "bench coll --sizes 8 --op ibcast --ranks 8 --kind thread --backend signal --rounds 3";
    // What others of this user have pending changes meanwhile, and then all may join.
    for _ in 0..20 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let pending = status.lines().find_map(|line| line.strip_prefix("SigQ:")).unwrap();
        let pending: u64 = pending.split('/').next().unwrap().trim().parse().unwrap();
        let out = with_signals(line, pending + 2);
        let stderr = String::from_utf8_lossy(&out.stderr);
        if !out.status.success() {
            assert_eq!(out.status.code(), Some(1), "{stderr}");
            assert!(
                stderr.contains("tocsin bench: rank ") && stderr.contains("raise `ulimit -i`"),
                "{stderr}"
            );
            return;
        }
    }
    panic!("all joined, each time");
}

#[test]
fn a_backend_that_the_system_refuses_is_told() {
    let out = with_signals("info --json", 0);
    let info: Value = serde_json::from_slice(&out.stdout).unwrap();
    let signal = info["backends"].as_array().unwrap().iter().find(|b| b["name"] == "signal").unwrap();
    let why = signal["why_not"].as_str().unwrap_or_default();
    assert!(signal["usable"] == false && why.contains("raise `ulimit -i`"), "{info}");
    let out = with_signals("bench pingpong --rounds 1 --sizes 8", 0);
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(1) && stderr.contains("TOCSIN_BACKEND=thread or poll"), "{stderr}");
    assert!(!stderr.contains("TOCSIN_BACKEND=auto"), "{stderr}");
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
fn traces_replace_files_only() {
    for (path, says) in [
        ("/dev/null", "/dev/null: is no file that could be replaced: name another"),
        ("/tmp", "/tmp: is a directory: name a file in it"),
        ("/no/such/trace", "/no/such/trace: no file in a directory that exists"),
    ] {
        let out = tocsin(&format!("run -n 1 --trace {path} -- true"));
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{path}: {stderr}");
        assert!(stderr.contains(says), "{path}: {stderr}");
    }
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
