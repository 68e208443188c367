//! What the command says, and does, where the system refuses copies between processes.
#![allow(clippy::unwrap_used)] // a test
#![cfg(target_os = "linux")]

use serde_json::Value;
use std::os::unix::process::CommandExt;
use std::process::Command;

const COPIES: [libc::c_long; 2] = [libc::SYS_process_vm_readv, libc::SYS_process_vm_writev];

/// Runs a line whose process, and those that it starts, are refused some system calls, as by the filters of some containers; its rows.
fn rows(line: &str, refused: &[libc::c_long]) -> Vec<Value> {
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
    let filter: Vec<libc::sock_filter> = std::iter::once(number).chain(refuse).chain(ends).collect();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tocsin"));
    command.args(line.split_whitespace());
    // SAFETY: between fork and exec only two system calls are made, with a program that the closure owns.
    unsafe {
        command.pre_exec(move || {
            let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
            if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
                || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) != 0
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
