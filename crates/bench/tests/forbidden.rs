//! What the command says, and does, where the system refuses copies between processes, or memory; as root, and as an ordinary user.
#![allow(clippy::unwrap_used)] // a test
#![cfg(target_os = "linux")]

use serde_json::Value;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

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
    let filter = filter(&under.refused);
    let (ordinary, memory, filtered) = (under.ordinary, under.memory, !under.refused.is_empty());
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
            if let Some(bytes) = memory {
                let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
                if libc::setrlimit(libc::RLIMIT_AS, &raw const limit) != 0 {
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
    let out = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{line}: {}: {stderr}", out.status);
    let rows = String::from_utf8(out.stdout).unwrap();
    rows.lines().map(|row| serde_json::from_str(row).unwrap()).collect()
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

#[test]
fn rows_name_what_runs_and_tune_measures_what_there_is() {
    let line = "bench pingpong --json --rounds 1 --warmup 0 --sizes 100K --lmt vmsplice";
    assert_eq!(rows(line, &COPIES)[0]["lmt"], "vmsplice");
    assert_eq!(rows(line, &with_pages())[0]["lmt"], "double");
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
        let under = Under { refused, ordinary: true, memory: None };
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
        let by_pages = rows_under(&program.0, &format!("{line} --lmt vmsplice"), &under);
        let right = if under.refused.len() < 3 { "vmsplice" } else { "double" };
        assert!(by_pages.iter().all(|row| row["lmt"] == right && row["verified"] == true), "{by_pages:?}");
    }
}

/// Where the job may have little memory there is no heap, which is said; messages arrive all the same, by each strategy.
#[test]
fn messages_arrive_with_little_memory() {
    let program = ForAll::new();
    for ordinary in [false, true] {
        // For the program and some messages; the heap takes addresses for all of the machine's memory.
        let under = Under { ordinary, memory: Some(1 << 30), ..Under::default() };
        let info = rows_under(&program.0, "info --json", &under);
        let (usable, why) = said(&info[0], "memory", "heap");
        assert!(!usable && why.contains("ulimit"), "{why}");
        for lmt in ["auto", "cma", "vmsplice", "double"] {
            let line = format!("bench pingpong --json --rounds 1 --warmup 0 --sizes 100K,4M --lmt {lmt}");
            let rows = rows_under(&program.0, &line, &under);
            assert!(rows.len() == 2 && rows.iter().all(|row| row["verified"] == true), "{rows:?}");
        }
    }
}
