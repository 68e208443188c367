//! What the command says, and does, where the system refuses copies between processes, or memory; as root, and as an ordinary user.
#![allow(clippy::unwrap_used)] // a test
#![cfg(target_os = "linux")]

use serde_json::Value;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const COPIES: [libc::c_long; 2] = [libc::SYS_process_vm_readv, libc::SYS_process_vm_writev];

/// What the processes of a line run under.
#[derive(Clone, Default)]
struct Under {
    /// System calls that they are refused, as by the filters of some containers.
    refused: Vec<libc::c_long>,
    /// They are an ordinary user's, whoever runs this test.
    ordinary: bool,
    /// Most bytes of addresses for each.
    memory: Option<u64>,
    /// Most bytes of a file.
    file: Option<u64>,
}

/// The program where every user may run it, gone with the value.
struct ForAll(PathBuf);

impl ForAll {
    fn new() -> ForAll {
        static COPIES: std::sync::Mutex<u32> = std::sync::Mutex::new(0);
        let mut copies = COPIES.lock().unwrap();
        *copies += 1;
        let name = format!("tocsin-for-all-{}-{copies}", std::process::id());
        let file = std::env::temp_dir().join(name);
        // By another process: what this one has open for writing, a child that another thread has just forked
        // has open too, and a file that is open for writing cannot be run.
        let mut copy = Command::new("install");
        copy.args(["-m", "755", env!("CARGO_BIN_EXE_tocsin")]).arg(&file);
        assert!(copy.status().unwrap().success(), "{copy:?}");
        ForAll(file)
    }
}

impl Drop for ForAll {
    fn drop(&mut self) {
        let _left = std::fs::remove_file(&self.0);
    }
}

/// The rows of a line whose process, and those that it starts, are refused some system calls.
fn rows(line: &str, refused: &[libc::c_long]) -> Vec<Value> {
    let under = Under { refused: refused.to_vec(), ..Under::default() };
    rows_under(Path::new(env!("CARGO_BIN_EXE_tocsin")), line, &under)
}

fn rows_under(program: &Path, line: &str, under: &Under) -> Vec<Value> {
    let out = output_under(program, line, under);
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{line}: {}: {stderr}", out.status);
    let rows = String::from_utf8(out.stdout).unwrap();
    rows.lines().map(|row| serde_json::from_str(row).unwrap()).collect()
}

fn output_under(program: &Path, line: &str, under: &Under) -> Output {
    let filter = filter(&under.refused);
    let (ordinary, filtered) = (under.ordinary, !under.refused.is_empty());
    let limits = [(libc::RLIMIT_AS, under.memory), (libc::RLIMIT_FSIZE, under.file)];
    let mut command = Command::new(program);
    command.args(line.split_whitespace()).current_dir("/");
    // SAFETY: between fork and exec only system calls are made, with what the closure owns.
    unsafe {
        command.pre_exec(move || {
            if ordinary && libc::geteuid() == 0 {
                const NOBODY: libc::uid_t = 65534;
                if libc::setgroups(0, std::ptr::null()) != 0
                    || libc::setresgid(NOBODY, NOBODY, NOBODY) != 0
                    || libc::setresuid(NOBODY, NOBODY, NOBODY) != 0
                {
                    return Err(std::io::Error::last_os_error());
                }
            }
            for (resource, most) in limits {
                let Some(bytes) = most else { continue };
                let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
                if libc::setrlimit(resource, &raw const limit) != 0 {
                    return Err(std::io::Error::last_os_error());
                }
            }
            let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
            if filtered
                && (libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
                    || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) != 0)
            {
                return Err(std::io::Error::last_os_error());
            }
            Ok(())
        });
    }
    command.output().unwrap()
}

/// A filter that refuses these calls; of none, one that says nothing.
fn filter(refused: &[libc::c_long]) -> Vec<libc::sock_filter> {
    let answer = |k| libc::sock_filter { code: 0x06, jt: 0, jf: 0, k };
    let number = libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 };
    let left = |at: usize| (refused.len() - at - 1) as u8;
    let calls = refused.iter().enumerate();
    let refuse = calls.map(|(at, call)| libc::sock_filter {
        code: 0x15,
        jt: left(at),
        jf: u8::from(left(at) == 0),
        k: *call as u32,
    });
    let ends = [answer(libc::SECCOMP_RET_ERRNO | libc::EPERM as u32), answer(libc::SECCOMP_RET_ALLOW)];
    std::iter::once(number).chain(refuse).chain(ends).collect()
}

/// What `info` says of a strategy or of memory: whether it is usable, and why not.
fn said<'a>(info: &'a Value, what: &str, name: &str) -> (bool, &'a str) {
    let mut entries = info[what].as_array().unwrap().iter();
    let entry = entries.find(|entry| entry["name"] == name).unwrap();
    (entry["usable"].as_bool().unwrap(), entry["why_not"].as_str().unwrap_or(""))
}

fn with_pages() -> Vec<libc::c_long> {
    [&COPIES[..], &[libc::SYS_vmsplice]].concat()
}

#[test]
fn info_says_which_strategy_is_out_and_why() {
    for (refused, out) in [
        (vec![libc::SYS_swapoff], vec![]),
        (COPIES.to_vec(), vec!["cma"]),
        (vec![libc::SYS_vmsplice], vec!["vmsplice"]),
        (with_pages(), vec!["cma", "vmsplice"]),
    ] {
        let info = rows("info --json", &refused);
        for strategy in info[0]["lmt"].as_array().unwrap() {
            let name = strategy["name"].as_str().unwrap();
            if out.contains(&name) {
                assert_eq!(strategy["usable"], false, "{strategy}");
                assert!(strategy["why_not"].as_str().unwrap().contains("a filter"), "{strategy}");
            } else if name == "xpmem" || name == "knem" {
                let mut devices = info[0]["devices"].as_array().unwrap().iter();
                let device = devices.find(|device| device["name"] == name).unwrap();
                assert_eq!(strategy["usable"], device["presence"] == "present", "{strategy}, {device}");
            } else if name != "cma" {
                // Of copies there is more that may stand in the way, here as well.
                assert_eq!(strategy["usable"], true, "{strategy}");
            }
        }
    }
}

/// Whether large messages went this way, of pages half at least, and no other; the empty one: two copies.
fn goes_by(row: &Value, way: &str) -> bool {
    let Some(once) = row["bytes_once_by"].as_object() else { panic!("{row}") };
    let part = |bytes: &Value| bytes.as_f64().unwrap() / row["size_bytes"].as_f64().unwrap();
    let least = if way == "pages" { 0.5 } else { 1.0 };
    once.keys().all(|one| one == way) && (way.is_empty() || once.values().any(|bytes| part(bytes) >= least))
}

#[test]
fn rows_name_what_runs_and_tune_measures_what_there_is() {
    let line = "bench pingpong --json --rounds 1 --warmup 0 --sizes 100K --lmt vmsplice";
    let row = &rows(line, &COPIES)[0];
    assert!(row["lmt"] == "vmsplice" && goes_by(row, "pages"), "{row}");
    let row = &rows(line, &with_pages())[0];
    assert!(row["lmt"] == "double" && goes_by(row, ""), "{row}");
    let file = std::env::temp_dir().join(format!("tocsin-tune-of-the-forbidden-{}", std::process::id()));
    let line = "tune --what p2p --kind process --sizes 4K,256K --rounds 1 --at-once 1 --json --output";
    for (refused, pages) in [(COPIES.to_vec(), true), (with_pages(), false)] {
        let measured = rows(&format!("{line} {}", file.display()), &refused);
        let of = |lmt: &str| measured.iter().filter(|row| row["lmt"] == lmt).count();
        assert_eq!((of("vmsplice") > 0, of("cma"), of("double") > 0), (pages, 0, true), "{measured:?}");
    }
    std::fs::remove_file(file).unwrap();
}

/// An ordinary user, whom nobody's privileges help, is told what is out and why, and its messages arrive by what is left.
#[test]
fn an_ordinary_users_messages_arrive_by_what_is_left() {
    let program = ForAll::new();
    let line = "bench pingpong --json --rounds 1 --warmup 0 --sizes 100K,1M";
    for (refused, lmt) in [(vec![], "cma"), (COPIES.to_vec(), "double"), (with_pages(), "double")] {
        let under = Under { refused, ordinary: true, ..Under::default() };
        let info = rows_under(&program.0, "info --json", &under);
        let (usable, why) = said(&info[0], "lmt", "cma");
        // The system as it is may refuse that to ordinary users, too, and then says so.
        assert!(if usable { under.refused.is_empty() } else { !why.is_empty() }, "{why}");
        assert!(under.refused.is_empty() || why.contains("a filter"), "{why}");
        assert_eq!(said(&info[0], "lmt", "vmsplice").0, under.refused.len() < 3);
        assert!(said(&info[0], "lmt", "double").0);
        for row in rows_under(&program.0, line, &under) {
            assert_eq!(row["lmt"], if usable { lmt } else { "double" }, "{row}");
            assert_eq!(row["verified"], true, "{row}");
        }
        for (lmt, way, there) in [("vmsplice", "pages", under.refused.len() < 3), ("cma", "kernel", usable)] {
            for row in rows_under(&program.0, &format!("{line} --lmt {lmt}"), &under) {
                let right = if there { (lmt, way) } else { ("double", "") };
                assert!(row["lmt"] == right.0 && goes_by(&row, right.1) && row["verified"] == true, "{row}");
            }
        }
    }
}

/// Whoever runs it, `info` says that there is no heap and what that takes away, and messages arrive all the same, by each strategy.
fn messages_arrive_without_a_heap(limits: &Under) {
    let program = ForAll::new();
    for ordinary in [false, true] {
        let under = Under { ordinary, ..limits.clone() };
        let info = &rows_under(&program.0, "info --json", &under)[0];
        let (usable, heap) = said(info, "memory", "heap");
        assert!(!usable && heap.contains("ulimit"), "{heap}");
        let (usable, why) = said(info, "lmt", "direct");
        assert!(!usable && why.contains(heap) && why.contains("between ranks of one process"), "{why}");
        assert!(said(info, "lmt", "vmsplice").0 && said(info, "lmt", "double").0, "{info}");
        let table = String::from_utf8(output_under(&program.0, "info", &under).stdout).unwrap();
        assert!(table.contains(&format!("  direct    not usable  {why}\n")), "{table}");
        let line = "bench pingpong --json --rounds 1 --warmup 0 --sizes 100K,4M";
        for lmt in ["auto", "direct", "cma", "vmsplice", "double"] {
            let rows = rows_under(&program.0, &format!("{line} --lmt {lmt}"), &under);
            assert!(rows.len() == 2 && rows.iter().all(|row| row["verified"] == true), "{rows:?}");
            assert!(rows.iter().all(|row| row["lmt"] != "direct"), "{rows:?}");
        }
        let rows = rows_under(&program.0, &format!("{line} --kind thread --lmt direct"), &under);
        assert!(rows.len() == 2, "{rows:?}");
        assert!(rows.iter().all(|row| row["lmt"] == "direct" && row["verified"] == true), "{rows:?}");
        refused(&program.0, &format!("{line} --buffers shared"), &under);
    }
}

/// A line that fails, by its own decision, and says which limit to look at.
fn refused(program: &Path, line: &str, under: &Under) {
    let out = output_under(program, line, under);
    let stderr = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(1), "{line}: {}: {stderr}", out.status);
    assert!(stderr.contains("ulimit"), "{line}: {stderr}");
}

#[test]
fn messages_arrive_with_little_memory() {
    // For the program and some messages; the heap takes addresses for all of the machine's memory.
    messages_arrive_without_a_heap(&Under { memory: Some(1 << 30), ..Under::default() });
}

#[test]
fn messages_arrive_where_files_may_not_be_long() {
    // For a world of two ranks, 0.7 GiB; the heap goes on behind it with the machine's memory for each.
    messages_arrive_without_a_heap(&Under { file: Some(1 << 30), ..Under::default() });
}

/// Where the world cannot be made no strategy and no backend is usable, which is said; nobody dies of the signal that comes with the limit.
#[test]
fn where_files_are_too_short_for_a_world_that_is_said() {
    let program = ForAll::new();
    // Of the world's memory, and of the bench's own, too.
    for file in [1 << 29, 1 << 10, 0] {
        let under = Under { file: Some(file), ..Under::default() };
        let info = &rows_under(&program.0, "info --json", &under)[0];
        for one in ["lmt", "backends"].into_iter().flat_map(|what| info[what].as_array().unwrap()) {
            assert_eq!(one["usable"], false, "{one}");
        }
        for (what, name) in [("lmt", "direct"), ("lmt", "double"), ("backends", "poll"), ("memory", "heap")] {
            let why = said(info, what, name).1;
            assert!(why.contains("shared memory for the world") && why.contains("ulimit"), "{why}");
            assert!(!why.contains("works all the same"), "{why}");
        }
        for kind in ["process", "thread"] {
            let line = format!("bench pingpong --json --rounds 1 --warmup 0 --sizes 100K --kind {kind}");
            refused(&program.0, &line, &under);
        }
        refused(&program.0, "run -n 2 -- true", &under);
    }
}
