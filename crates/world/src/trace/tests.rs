//! Files of ranks, joined and gone.

use super::*;
use std::os::unix::fs::FileTypeExt;
use tocsin_nbc::trace as nbc;
use tocsin_p2p::trace as p2p;
use tocsin_progress::trace::kind;

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let dir = std::env::temp_dir().join(format!("tocsin-trace-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Scratch(dir)
    }

    fn files(&self) -> usize {
        std::fs::read_dir(&self.0).unwrap().count()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

/// A recording of a message that rank 0 sends to rank 1 in a broadcast, as either has it.
fn recording(path: &Path, format: TraceFormat, rank: u32) -> Recording {
    let recording = Recording { since: 1_000, thread: 77, ..Recording::begin(path, format, rank, 2) };
    let trace = recording.trace();
    let record = |ns: u64, kind: u16, [a, b]: [u64; 2]| trace.record_at(ns, kind, a, b);
    let algorithm =
        (1..).find(|n| nbc::algorithm(*n).is_some_and(|a| a.operation.name() == "ibcast")).unwrap();
    let started =
        nbc::Started { instance: 9, algorithm, ranks: 2, first_rank: 0, context: 1 << 31 | 5, sequence: 3 };
    record(1_100, nbc::STARTED, started.words());
    let peer = 1 - rank as u16;
    let passed = p2p::Passed {
        peer,
        number: 1,
        collective: true,
        announced: false,
        context: Some(1 << 31 | 5),
        tag: 3 << 12 | 1,
        bytes: 40,
    };
    let kind = if rank == 0 { p2p::SENT } else { p2p::TAKEN };
    record(1_200 + u64::from(rank), kind, passed.words());
    let step = nbc::Stepped { instance: 9, algorithm, peer: Some(peer), bytes: 40, took: 100 };
    record(1_300, nbc::STEPPED + rank as u16, step.words());
    record(1_310, nbc::ENDED, nbc::Ended { instance: 9, algorithm, failed: false, took: 210 }.words());
    record(1_350, kind::LIBRARY, [300, 77]);
    record(1_400, kind::LIBRARY, [10, 78]);
    record(2_000, kind::INTERRUPT, [2, 0]);
    record(3_500, kind::INTERRUPT_END, [1_500, 2 << 1 | 1]);
    // Two without their beginnings, one of a cause that is none.
    record(3_600, kind::INTERRUPT_END, [50, 1 << 1]);
    record(3_700, kind::INTERRUPT_END, [1, 77 << 1]);
    recording
}

#[test]
fn files_of_ranks_are_joined_and_gone() {
    let scratch = Scratch::new("joined");
    let path = scratch.0.join("trace.json");
    join(&path, TraceFormat::Auto, 2);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "[]\n");
    for rank in [0, 1] {
        recording(&part(&path), TraceFormat::Part, rank).write(rank);
    }
    // Something that is none.
    std::fs::write(file(&part(&path), 2), "[\n").unwrap();
    assert_eq!(scratch.files(), 4);
    join(&path, TraceFormat::Auto, 4);
    assert_eq!(scratch.files(), 1);
    let text = std::fs::read_to_string(&path).unwrap();
    for line in [
        // Times count from when the first joined.
        r#"{"name":"library","ph":"X","pid":1,"tid":0,"ts":0.050,"dur":0.300}"#,
        r#"{"name":"computing","ph":"X","pid":1,"tid":0,"ts":0.350,"dur":0.650}"#,
        r#"{"name":"handler","ph":"X","pid":0,"tid":0,"ts":1.000,"dur":1.500,"args":{"cause":"unmask","work_left":true}}"#,
        r#"{"name":"handler","ph":"X","pid":0,"tid":0,"ts":2.550,"dur":0.050,"args":{"cause":"timer","work_left":false}}"#,
        r#"{"name":"handler","ph":"X","pid":0,"tid":0,"ts":2.699,"dur":0.001,"args":{"work_left":false}}"#,
        r#""tid":1,"args":{"name":"thread 1"}"#,
        r#"{"name":"ibcast send","ph":"X","pid":0,"tid":3,"ts":0.200,"dur":0.100,"args":{"operation":"ibcast","algorithm":"#,
        r#""context":2147483653,"sequence":3,"step":"recv","peer":0,"bytes":40}}"#,
        r#""ranks":2,"first_rank":0,"context":2147483653,"sequence":3,"failed":false}}"#,
        r#""recorded":10,"lost":0,"origin_ns":1000"#,
        r#"{"name":"send","ph":"X","pid":0,"tid":4,"ts":0.200,"dur":0.001,"args":{"peer":1,"bytes":40,"tag":12289,"context":2147483653,"operation":"ibcast","algorithm":"#,
        r#"{"name":"arrive","ph":"X","pid":1,"tid":4,"ts":0.201,"dur":0.001,"args":{"peer":0,"bytes":40,"tag":12289,"context":2147483653,"operation":"ibcast","algorithm":"#,
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let flow = |phase: &str| {
        let line =
            text.lines().find(|l| l.contains(&format!("\"name\":\"message\",\"ph\":\"{phase}\""))).unwrap();
        line.split("\"id\":").nth(1).unwrap().split(|c: char| !c.is_ascii_digit()).next().unwrap().to_owned()
    };
    assert_eq!(flow("s"), flow("f"));
}

#[test]
fn what_cannot_be_joined_stays() {
    let scratch = Scratch::new("stays");
    let path = scratch.0.join("trace.json");
    for rank in [0, 1] {
        recording(&part(&path), TraceFormat::Part, rank).write(rank);
    }
    // No file takes its place.
    std::fs::create_dir(&path).unwrap();
    join(&path, TraceFormat::Auto, 2);
    assert!(scratch.files() == 3 && [0, 1].iter().all(|rank| file(&part(&path), *rank).exists()));
    std::fs::remove_dir(&path).unwrap();
    // Nor can a file be made under the name that it has until it is whole.
    std::fs::create_dir(part(&path)).unwrap();
    std::fs::write(&path, "before").unwrap();
    join(&path, TraceFormat::Auto, 2);
    assert_eq!((scratch.files(), std::fs::read_to_string(&path).unwrap().as_str()), (4, "before"));
    std::fs::remove_dir(part(&path)).unwrap();
    join(&path, TraceFormat::Auto, 2);
    assert!(scratch.files() == 1 && std::fs::read_to_string(&path).unwrap().contains("\"pid\":1"));
}

/// Nor is a link to a file, whose target is replaced; nothing runs for a trace that would be.
#[test]
fn what_is_no_file_is_not_replaced() {
    let scratch = Scratch::new("no-file");
    let [fifo, link, target] = ["fifo", "link", "target"].map(|name| scratch.0.join(name));
    let name = std::ffi::CString::new(fifo.to_str().unwrap()).unwrap();
    // SAFETY: a C string that lives across the call.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    std::os::unix::fs::symlink("target", &link).unwrap();
    join(&fifo, TraceFormat::Auto, 1);
    assert!(std::fs::symlink_metadata(&fifo).unwrap().file_type().is_fifo());
    let config = Config { trace: Some(fifo), ..Config::default() };
    let refused = crate::threads(1, &config, |_| ()).unwrap_err().to_string();
    assert!(refused.contains("fifo: is no file that could be replaced: name another"), "{refused}");
    for before in [None, Some("before")] {
        before.into_iter().for_each(|text| std::fs::write(&target, text).unwrap());
        join(&link, TraceFormat::Auto, 1);
        assert!(link.is_symlink() && std::fs::read_to_string(&target).unwrap() == "[]\n");
    }
    assert_eq!(scratch.files(), 3);
}

#[test]
fn the_name_or_the_configuration_says_which_format() {
    let scratch = Scratch::new("format");
    for (name, format, paje) in [
        ("trace.paje", TraceFormat::Auto, true),
        ("trace.paje", TraceFormat::Chrome, false),
        ("trace.json", TraceFormat::Paje, true),
    ] {
        let path = scratch.0.join(name);
        for rank in [0, 1] {
            recording(&part(&path), TraceFormat::Part, rank).write(rank);
        }
        join(&path, format, 2);
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.starts_with("%EventDef"), paje, "{name} {format:?}");
        assert!(text.contains("\"ibcast send\""), "{name} {format:?}");
        let (as_json, as_paje) = ("\"tag\":12289,", " 40 12289 2147483653 ibcast\n");
        assert!(text.contains(if paje { as_paje } else { as_json }), "{name} {format:?}: {text}");
    }
}

#[test]
fn a_rank_that_nobody_joins_writes_its_own_and_what_was_overwritten_is_counted() {
    let scratch = Scratch::new("alone");
    let path = scratch.0.join("trace.json");
    let alone = recording(&path, TraceFormat::Auto, 0);
    for _ in 0..EVENTS {
        alone.trace.record_at(4_000, kind::SLEEP, 0, 0);
    }
    alone.write(0);
    let text = std::fs::read_to_string(scratch.0.join("trace.0.json")).unwrap();
    assert!(
        text.contains(&format!("\"recorded\":{},\"lost\":10,\"origin_ns\":0", EVENTS + 10)),
        "{text:.500}"
    );
    // Nothing is said of the time before the first that is left.
    assert!(text.contains(r#"{"name":"computing","ph":"X","pid":0,"tid":0,"ts":4.000"#), "{text:.500}");
}

#[test]
fn one_rank_alone_has_the_file_to_itself() {
    let path = Path::new("/somewhere/trace.json");
    let written = |format, ranks| Recording::begin(path, format, 0, ranks).path;
    assert_eq!(written(TraceFormat::Auto, 1), path);
    assert_eq!(written(TraceFormat::Auto, 2), Path::new("/somewhere/trace.0.json"));
    // Whoever joins it to its file looks for this.
    assert_eq!(written(TraceFormat::Part, 1), Path::new("/somewhere/trace.0.json"));
}

#[test]
fn long_lists_are_cut() {
    let all = |n: u32| listed((0..n).map(|i| i.to_string()));
    assert_eq!([all(1), all(8)], ["0", "0, 1, 2, 3, 4, 5, 6, 7"]);
    assert_eq!(all(10), "0, 1, 2, 3, 4, 5, 6, 7 and 2 more");
}
