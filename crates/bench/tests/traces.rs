//! Traces and pictures of them, read back.
#![allow(clippy::unwrap_used, clippy::expect_used)] // a test

mod paje;

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use tocsin_doorbell::BackendKind;
use tocsin_sync::atomic::{AtomicBool, Ordering};
use tocsin_world::{Config, ConstBuf, Mode, MutBuf};

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let dir = std::env::temp_dir().join(format!("tocsin-traces-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Scratch(dir)
    }

    fn files(&self) -> Vec<String> {
        let name =
            |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        let mut all: Vec<String> = std::fs::read_dir(&self.0).unwrap().map(name).collect();
        all.sort();
        all
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

fn tocsin(line: &str, variables: &[(&str, &Path)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tocsin"));
    command.args(line.split_whitespace()).envs(variables.iter().copied()).output().unwrap()
}

fn succeeds(line: &str, variables: &[(&str, &Path)]) -> String {
    let out = tocsin(line, variables);
    let stderr = String::from_utf8(out.stderr).unwrap();
    assert!(out.status.success(), "{line}: {}: {stderr}", out.status);
    stderr
}

/// A broadcast down a tree, 0 to 2 to 3 and 0 to 1, whose second rank computes: it is interrupted to pass it on.
const LATE: &str = "bench coll --json --op ibcast --algorithm binomial --ranks 4 --sizes 1K --late-rank 2 --late-us 20000 \
                    --rounds 3 --warmup 0 --backend signal";
const COLLECTIVES: usize = 3;

#[test]
fn chrome_trace_json_reads_back() {
    for kind in ["process", "thread"] {
        let scratch = Scratch::new(kind);
        let path = scratch.0.join("trace.json");
        let stderr = succeeds(&format!("{LATE} --kind {kind}"), &[("TOCSIN_TRACE", &path)]);
        assert!(!stderr.contains("lacks"), "{stderr}");
        assert_eq!(scratch.files(), ["trace.json"]);
        check_chrome(&std::fs::read_to_string(&path).unwrap());
    }
}

fn check_chrome(text: &str) {
    let events: Vec<Value> = serde_json::from_str(text).unwrap();
    let mut rows: BTreeMap<(u64, u64), Vec<(f64, f64)>> = BTreeMap::new();
    let mut flows: BTreeMap<u64, [Option<(u64, f64)>; 2]> = BTreeMap::new();
    for event in &events {
        assert!(event["name"].is_string() && event["pid"].as_u64().unwrap() < 4, "{event}");
        let place = || (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
        let at = || event["ts"].as_f64().unwrap();
        match event["ph"].as_str().unwrap() {
            "X" => rows.entry(place()).or_default().push((at(), event["dur"].as_f64().unwrap())),
            "i" => assert!(at() >= 0.0),
            "M" => assert!(event["args"].is_object()),
            phase @ ("s" | "f") => {
                let end =
                    &mut flows.entry(event["id"].as_u64().unwrap()).or_default()[usize::from(phase == "f")];
                assert_eq!(end.replace((place().0, at())), None, "{event}");
            }
            other => panic!("{other}: {event}"),
        }
    }
    for ((rank, row), mut slices) in rows {
        slices.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
        let mut open: Vec<f64> = Vec::new();
        for (begun, took) in slices {
            assert!(begun >= 0.0 && took >= 0.0);
            // Times are multiples of a nanosecond, which binary numbers are not.
            while open.pop_if(|end| *end <= begun + 1e-4).is_some() {}
            let inside = open.last().is_none_or(|end| begun + took <= end + 1e-4);
            assert!(inside, "a slice of rank {rank}, row {row}, at {begun} ends after what it began in");
            open.push(begun + took);
        }
    }
    assert!(!flows.is_empty());
    for (id, ends) in flows {
        let [Some((from, sent)), Some((to, taken))] = ends else {
            panic!("message {id} has one end: {ends:?}")
        };
        assert!(from != to && sent <= taken, "{id}: {ends:?}");
    }
    let count =
        |name: &str, rank: u64| events.iter().filter(|e| e["name"] == name && e["pid"] == rank).count();
    for rank in 0..4 {
        assert!(count("computing", rank) > 0 && count("library", rank) > 0);
        assert_eq!(count("ibcast", rank), COLLECTIVES);
        // Rank 0 sends to 2 and 1, rank 2 to 3.
        let (sends, receives) = [(2, 0), (0, 1), (1, 1), (0, 1)][rank as usize];
        assert_eq!(count("ibcast send", rank), sends * COLLECTIVES);
        assert_eq!(count("ibcast recv", rank), receives * COLLECTIVES);
        let recording = events.iter().find(|e| e["name"] == "recording" && e["pid"] == rank).unwrap();
        assert_eq!(recording["args"]["lost"], 0);
    }
    assert!(count("pass", 3) > 0);
    for event in events.iter().filter(|e| e["name"] == "ibcast recv") {
        let args = &event["args"];
        assert_eq!((&args["operation"], &args["algorithm"]), (&"ibcast".into(), &"binomial".into()));
        assert!(args["bytes"] == 1024 && args["sequence"].is_u64() && args["context"].is_u64(), "{event}");
    }
    // A message says which of the collectives it is of, by its tag and in words, at both ends.
    for (rank, name, each) in [(0, "send", 2), (2, "send", 1), (2, "arrive", 1), (3, "arrive", 1)] {
        let of_bcast = |e: &&Value| e["args"]["operation"] == "ibcast" && e["args"]["bytes"] == 1024;
        let ends = events.iter().filter(|e| e["name"] == name && e["pid"] == rank).filter(of_bcast);
        let mut sequences: Vec<i64> = ends
            .map(|e| {
                assert!(e["args"]["collective"] == true && e["args"]["algorithm"] == "binomial", "{e}");
                e["args"]["tag"].as_i64().unwrap() >> 12
            })
            .collect();
        assert_eq!(sequences.len(), each * COLLECTIVES, "rank {rank}, {name}");
        sequences.dedup();
        let starts = events.iter().filter(|e| e["name"] == "ibcast" && e["pid"] == rank);
        let started: Vec<i64> = starts.map(|e| e["args"]["sequence"].as_i64().unwrap()).collect();
        assert_eq!(sequences, started, "rank {rank}, {name}");
    }
}

#[test]
fn paje_reads_back() {
    let scratch = Scratch::new("paje");
    for (name, format) in [("trace.paje", "auto"), ("trace", "paje")] {
        let path = scratch.0.join(name);
        succeeds(LATE, &[("TOCSIN_TRACE", &path), ("TOCSIN_TRACE_FORMAT", Path::new(format))]);
        let trace = paje::read(&std::fs::read_to_string(&path).unwrap());
        let ranks: Vec<String> = (0..4).map(|rank| format!("rank {rank}")).collect();
        assert!(ranks.iter().all(|rank| trace.containers.values().any(|(name, _)| name == rank)));
        let is_set = |container: &str, kind: &str, value: &str| {
            let set =
                |(c, k, v, _): &(String, String, String, f64)| c == container && k == kind && v == value;
            trace.states.iter().filter(|state| set(state)).count()
        };
        for rank in 0..4 {
            let row = format!("rank {rank} State 0");
            assert!(is_set(&row, "State", "computing") > 0 && is_set(&row, "State", "library") > 0);
            let rows = (0..4).map(|n| is_set(&format!("rank {rank} Collective {n}"), "Collective", "ibcast"));
            assert_eq!(rows.sum::<usize>(), COLLECTIVES);
        }
        assert!(trace.moments.iter().any(|name| name == "pass"));
        // The broadcasts' messages are there, in their direction.
        for (from, to) in [(0, 2), (2, 3), (0, 1)] {
            let link = [ranks[from].clone(), ranks[to].clone()];
            let found = trace.links.iter().filter(|(ends, _)| *ends == link).count();
            assert!(found >= COLLECTIVES, "{link:?}: {found}");
        }
        // Of each sender, tags that go up with the broadcasts, each in both of rank 0's messages.
        for (rank, each) in [(0, 2), (2, 1)] {
            let of = trace.messages.iter().filter(|(from, fields)| {
                *from == ranks[rank] && fields["Operation"] == "ibcast" && fields["Bytes"] == "1024"
            });
            let tags: Vec<i64> = of.map(|(_, fields)| fields["Tag"].parse::<i64>().unwrap() >> 12).collect();
            assert_eq!(tags.len(), each * COLLECTIVES, "{tags:?}");
            assert!(tags.chunks(each).is_sorted_by(|a, b| a[0] == a[each - 1] && a[0] < b[0]), "{tags:?}");
        }
    }
}

/// Rank 1 has received nothing yet and computes until it was interrupted; rank 0 sends when it does.
fn interrupted(trace: &Path) {
    const BYTES: usize = 100;
    let mut config = Config::default();
    (config.backend, config.trace) = (Some(BackendKind::Signal), Some(trace.to_owned()));
    let computes = AtomicBool::new(false);
    let within = Instant::now() + Duration::from_secs(60);
    tocsin_world::threads(2, &config, |comm| {
        let mut bytes = vec![comm.rank() as u8; BYTES];
        // SAFETY: the bytes live until the collective is waited for, and are not touched before that.
        let mut post = || unsafe { comm.ibcast_raw(bytes.as_mut_ptr(), BYTES, 0, None) };
        let mut request = if comm.rank() == 0 {
            while !computes.load(Ordering::Acquire) {
                assert!(Instant::now() < within, "rank 1 does not compute");
                std::thread::yield_now();
            }
            post()
        } else {
            let (request, before) = (post(), comm.stats().interrupts);
            computes.store(true, Ordering::Release);
            while comm.stats().interrupts == before {
                assert!(Instant::now() < within, "nobody interrupts");
                std::hint::spin_loop();
            }
            request
        }
        .unwrap();
        request.wait().unwrap();
        assert_eq!(bytes, [0; BYTES]);
    })
    .unwrap();
}

/// Tags and bytes of messages from rank 0 to rank 1, of which the second of each goes by another communicator: some are in one
/// packet, and some are announced.
const MESSAGES: [(i32, usize); 4] = [(7, 8), (i32::MAX, 100), (0, 1 << 20), (12_345, 300_000)];

#[test]
fn messages_name_tag_and_communicator() {
    let scratch = Scratch::new("tags");
    let path = scratch.0.join("trace.json");
    let mut config = Config::default();
    (config.backend, config.trace) = (Some(BackendKind::Signal), Some(path.clone()));
    let contexts = tocsin_world::threads(2, &config, |comm| {
        let other = comm.dup().unwrap();
        for (at, (tag, bytes)) in MESSAGES.into_iter().enumerate() {
            let comm = if at % 2 == 0 { &comm } else { &other };
            let mut memory = vec![1u8; bytes];
            // SAFETY: the memory lives until the call returns.
            unsafe {
                match comm.rank() {
                    0 => comm.send_raw(ConstBuf::contiguous(memory.as_ptr(), bytes), 1, tag, Mode::Standard),
                    _ => comm.recv_raw(MutBuf::contiguous(memory.as_mut_ptr(), bytes), Some(0), Some(tag)),
                }
            }
            .unwrap();
        }
        [comm.context(), other.context()]
    })
    .unwrap();
    let events: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    for (at, (tag, bytes)) in MESSAGES.into_iter().enumerate() {
        for (name, rank) in [("send", 0), ("arrive", 1)] {
            let is = |e: &&Value| e["name"] == name && e["pid"] == rank && e["args"]["collective"] == false;
            let of_tag: Vec<&Value> = events.iter().filter(is).filter(|e| e["args"]["tag"] == tag).collect();
            assert_eq!(of_tag.len(), 1, "{name} of {tag}: {of_tag:?}");
            let args = &of_tag[0]["args"];
            assert_eq!((&args["bytes"], &args["peer"]), (&bytes.into(), &(1 - rank).into()), "{args}");
            assert_eq!(args["context"], contexts[rank][at % 2], "{args}");
            assert!(args["announced"] == (bytes > 100_000) && args.get("operation").is_none(), "{args}");
        }
    }
}

#[test]
fn handlers_are_shown() {
    let scratch = Scratch::new("handlers");
    let path = scratch.0.join("trace.json");
    interrupted(&path);
    let events: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let handlers = events.iter().filter(|e| e["name"] == "handler" && e["pid"] == 1);
    assert!(handlers.filter(|e| e["tid"] == 0 && e["args"]["cause"].is_string()).count() > 0);
    let path = scratch.0.join("trace.paje");
    interrupted(&path);
    let trace = paje::read(&std::fs::read_to_string(&path).unwrap());
    let is_handler = |c: &str, value: &str| c == "rank 1 State 0" && value == "handler";
    assert!(trace.states.iter().any(|(container, _, value, _)| is_handler(container, value)));
}

#[test]
fn run_writes_the_format_asked_for() {
    let scratch = Scratch::new("run");
    for (name, options, paje) in [
        ("a.json", "", false),
        ("a.paje", "", true),
        ("b", "--trace-format paje", true),
        ("c.paje", "--trace-format chrome", false),
    ] {
        let path = scratch.0.join(name);
        let stderr = succeeds(&format!("run -n 2 --trace {} {options} -- true", path.display()), &[]);
        // No program of the library's.
        assert!(stderr.contains("lacks rank 0, rank 1: left no trace (they did not join"), "{stderr}");
        let text = std::fs::read_to_string(&path).unwrap();
        if paje {
            assert!(paje::read(&text).links.is_empty());
        } else {
            assert_eq!(serde_json::from_str::<Vec<Value>>(&text).unwrap().len(), 0);
        }
    }
    // It says what it could not draw.
    let plots = scratch.0.join("plots");
    let out = tocsin(&format!("run -n 1 --plot {} -- true", plots.display()), &[]);
    let stderr = String::from_utf8(out.stderr).unwrap();
    assert!(out.status.code() == Some(1) && stderr.contains("nothing to plot"), "{stderr}");
}

#[test]
fn the_steps_of_a_collective_are_drawn() {
    let scratch = Scratch::new("plot");
    let dir = scratch.0.display();
    let line =
        "bench coll --json --ranks 3 --rounds 1 --warmup 0 --sizes 100K --kind thread --backend signal,poll";
    succeeds(&format!("{line} --op iallreduce --plot {dir}"), &[]);
    succeeds(&format!("{LATE} --plot {dir}"), &[]);
    let mut right =
        vec!["coll-late.png".to_owned(), "coll-late.svg".into(), "coll.png".into(), "coll.svg".into()];
    for name in ["iallreduce-poll-thread-3", "iallreduce-signal-thread-3", "ibcast-signal-process-4"] {
        right.extend(["json", "png", "svg"].map(|end| format!("steps-{name}.{end}")));
    }
    assert_eq!(scratch.files(), right);
    let svg = std::fs::read_to_string(scratch.0.join("steps-ibcast-signal-process-4.svg")).unwrap();
    for text in ["ibcast (binomial), 4 ranks, 1 KiB, backend signal", "rank 3", "handler"] {
        assert!(svg.contains(text), "{text}");
    }
}
