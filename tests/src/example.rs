//! A program of `examples/` as a test runs it: ranks, and their launcher, are the test's own program again.

#![allow(clippy::unwrap_used, clippy::expect_used)] // A test that fails says so by panicking.

use std::process::{Command, ExitCode, Output};

use tocsin::{BackendKind, Config, Launch};

/// What a process is, if it is no test: the example, or, by a number of ranks, its launcher.
const ROLE: &str = "TOCSIN_TEST_EXAMPLE";
/// The example itself: alone, or ranks that are threads.
pub const ALONE: &str = "alone";

/// What this process is to do if it is no test.
pub fn role(main: fn() -> ExitCode) -> Option<ExitCode> {
    match std::env::var(ROLE).ok()?.as_str() {
        ALONE => Some(main()),
        ranks => Some(launcher(ranks.parse().expect("a number of ranks"))),
    }
}

/// As `tocsin run`: ranks that are the example, with this process's words.
fn launcher(ranks: u32) -> ExitCode {
    let mut launch = Launch::new(std::env::current_exe().unwrap(), ranks);
    launch.args = std::env::args_os().skip(1).collect();
    launch.config = Config::from_env().unwrap();
    launch.env = vec![(ROLE.into(), ALONE.into())];
    ExitCode::from(u8::try_from(launch.run().unwrap().status).unwrap())
}

/// Runs this program in that role, with the example's words.
pub fn output(role: &str, backend: BackendKind, words: &str) -> Output {
    Command::new("timeout")
        .args(["-k", "5", "100"])
        .arg(std::env::current_exe().unwrap())
        .args(words.split_whitespace())
        .envs([(ROLE, role), ("TOCSIN_BACKEND", backend.to_string().as_str())])
        .output()
        .unwrap()
}

/// This machine's best backend; where `TOCSIN_TEST_UINTR_REQUIRED=1`, that is user interrupts.
pub fn best_backend() -> BackendKind {
    let best = Config::default().usable_backend().unwrap();
    let required = std::env::var_os("TOCSIN_TEST_UINTR_REQUIRED").is_some_and(|value| value == "1");
    assert!(!required || best == BackendKind::Uintr, "user interrupts are required, and not usable");
    best
}

/// What a run says that may not depend on where it ran.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    /// How many it took.
    pub steps: usize,
    /// As it is printed: to the last bit.
    pub residual: String,
    /// As it is printed.
    pub checksum: String,
}

/// Runs this program in that role, and reads what it says.
pub fn said(role: &str, backend: BackendKind, words: &str) -> Said {
    let output = output(role, backend, words);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let case = format!("{role}, {backend}, {words}: {}\n{out}\n{err}", output.status);
    assert!(output.status.success() && out.lines().count() == 4, "{case}");
    assert!(out.contains(&format!("backend {backend}")), "{case}");
    let value = |name: &str| {
        let found = out.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        found.unwrap_or_else(|| panic!("no {name}: {case}")).to_owned()
    };
    let seconds: f64 = value("time_s").parse().unwrap();
    let steps = out.split_once(" steps").unwrap().0.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(seconds > 0.0 || steps == 0, "{case}");
    Said { steps, residual: value("residual"), checksum: value("checksum") }
}
