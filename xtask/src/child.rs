//! Children that cannot hang: each runs in its own process group under a time limit, and dies when we do.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, PipeReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::cargo;

/// For how long the output of a child that has ended may go on.
const LEFT: Duration = Duration::from_secs(5);

/// How a child ended.
pub struct Ended {
    /// `None` when it succeeded.
    pub failure: Option<String>,
    /// From start to end.
    pub time: Duration,
    /// Tests that passed and failed, by the summary lines among the output.
    pub counts: Counts,
    /// What the output told of failures.
    pub told: Told,
}

/// Sums over the summary lines of test runners.
#[derive(Clone, Copy, Default)]
pub struct Counts {
    /// Tests that passed.
    pub passed: u64,
    /// Tests that failed.
    pub failed: u64,
}

impl Counts {
    /// Reads `test result: ok. 3 passed; 0 failed; …` (libtest), and `3 passed, 0 failed` and `test result: 3 of 3 … passed`
    /// (programs of their own).
    pub fn of_line(line: &str) -> Option<Counts> {
        let line = line.trim();
        if let Some(sum) = line.strip_prefix("test result: ").and_then(|l| l.strip_suffix(" passed")) {
            let (passed, rest) = sum.split_once(" of ")?;
            let (passed, all): (u64, u64) = (passed.parse().ok()?, rest.split(' ').next()?.parse().ok()?);
            return Some(Counts { passed, failed: all.checked_sub(passed)? });
        }
        let numbers = match line.strip_prefix("test result: ") {
            Some(rest) => rest.split_once(". ")?.1,
            None => line,
        };
        let mut parts = numbers.split([';', ',']).map(str::trim);
        let passed = parts.next()?.strip_suffix(" passed")?.parse().ok()?;
        let failed = parts.next()?.strip_suffix(" failed")?.parse().ok()?;
        Some(Counts { passed, failed })
    }

    /// The sum of both.
    pub fn plus(self, other: Counts) -> Counts {
        Counts { passed: self.passed + other.passed, failed: self.failed + other.failed }
    }
}

/// The lines of an output that tell what failed, and its last ones, whatever else it is long with.
#[derive(Default)]
pub struct Told {
    failures: Vec<String>,
    /// Lines that still belong to the failure before them.
    follow: usize,
    last: VecDeque<String>,
}

impl Told {
    /// Lines kept of each kind at most.
    const MOST: usize = 200;
    const LAST: usize = 15;

    fn line(&mut self, line: &str) {
        let line = line.trim_end();
        self.last.push_back(line.to_owned());
        if self.last.len() > Told::LAST {
            self.last.pop_front();
        }
        // libtest lists what its failed tests have said between these two; others name the reason in the line.
        self.follow = match line {
            "failures:" => Told::MOST,
            _ if Counts::of_line(line).is_some() => 0,
            _ if line.contains("FAILED") || line.starts_with("error") => self.follow.max(8),
            _ if line.contains("panicked at") => self.follow.max(3),
            _ => self.follow,
        };
        if self.follow > 0 && self.failures.len() < Told::MOST {
            self.follow -= 1;
            self.failures.push(line.to_owned());
        }
    }

    /// What is known of a failure: the lines that told of it, and then the last ones.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        let gap = if self.failures.is_empty() { None } else { Some("[...]") };
        self.failures.iter().map(String::as_str).chain(gap).chain(self.last.iter().map(String::as_str))
    }
}

/// A command with a limit. `timeout` (coreutils) kills the whole group; `setpriv` (util-linux) has the kernel end it
/// when this process dies, so that an interrupted run leaves nothing behind. Both are in every Debian.
pub fn command(program: &str, arguments: &[&str], limit: Duration) -> Command {
    let seconds = limit.as_secs().max(1).to_string();
    let mut command = if Path::new("/usr/bin/setpriv").exists() {
        let mut command = Command::new("/usr/bin/setpriv");
        command.args(["--pdeathsig", "TERM", "timeout"]);
        command
    } else {
        Command::new("timeout")
    };
    command.args(["--kill-after=10", &seconds, program]).args(arguments);
    command.current_dir(cargo::root()).stdin(Stdio::null());
    command
}

/// Runs the command, passes its output on line by line, counts tests, keeps what tells of failures.
pub fn run(mut command: Command, limit: Duration) -> Ended {
    let start = Instant::now();
    let (mut counts, mut told) = (Counts::default(), Told::default());
    let ended = started(&mut command).map(|(child, output)| {
        // It holds the pipe's writing end, which must close for the output to end.
        drop(command);
        follow(child, output, |line| {
            print!("{line}");
            told.line(line);
            counts = Counts::of_line(line).map_or(counts, |found| counts.plus(found));
        })
    });
    let failure = match ended {
        Ok(Ok(status)) if status.success() => None,
        // What `timeout` says when it had to end its child.
        Ok(Ok(status)) if matches!(status.code(), Some(124 | 137)) => {
            Some(format!("not done after its limit of {} s", limit.as_secs()))
        }
        Ok(Ok(status)) => Some(status.to_string()),
        Ok(Err(e)) => Some(format!("cannot wait for it: {e}")),
        Err(e) => Some(format!("cannot start: {e}")),
    };
    Ended { failure, time: start.elapsed(), counts, told }
}

/// The child, and what it writes to either output, in its order.
fn started(command: &mut Command) -> io::Result<(Child, PipeReader)> {
    let (reader, writer) = io::pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer);
    Ok((command.spawn()?, reader))
}

/// What is heard of a child.
enum Heard {
    Line(String),
    Ended(io::Result<ExitStatus>),
}

/// Hands each line of the output on until both have ended: the child, and the output, for which it waits no longer than [`LEFT`] then.
/// Somebody whom the child has left behind, out of reach of its limit, may keep the pipe open for ever.
fn follow(mut child: Child, output: PipeReader, mut line: impl FnMut(&str)) -> io::Result<ExitStatus> {
    // Few at once, so that nothing much is left when the child has ended.
    let (heard, hears) = mpsc::sync_channel(64);
    let lines = heard.clone();
    thread::spawn(move || {
        let mut reader = BufReader::new(output);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
            if lines.send(Heard::Line(String::from_utf8_lossy(&line).into_owned())).is_err() {
                return;
            }
            line.clear();
        }
    });
    thread::spawn(move || heard.send(Heard::Ended(child.wait())));
    let mut status = Err(io::Error::other("nobody has waited for it"));
    let mut until = None;
    loop {
        let next = match until {
            None => hears.recv().ok(),
            Some(until) => hears.recv_timeout(until - Instant::now().min(until)).ok(),
        };
        match next {
            Some(Heard::Line(text)) => line(&text),
            Some(Heard::Ended(ended)) => (status, until) = (ended, Some(Instant::now() + LEFT)),
            None => return status,
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            return status;
        }
    }
}

/// Runs the command and returns its standard output.
///
/// # Errors
/// When it cannot start or does not succeed.
pub fn output(mut command: Command, what: &str) -> Result<String, String> {
    output_of(&mut command, what)
}

/// The same of a command that may be run again.
///
/// # Errors
/// When it cannot start or does not succeed.
pub fn output_of(command: &mut Command, what: &str) -> Result<String, String> {
    let output = command.stderr(Stdio::inherit()).output().map_err(|e| format!("cannot run {what}: {e}"))?;
    if !output.status.success() {
        return Err(format!("{what} failed ({})", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(line: &str) -> Option<(u64, u64)> {
        Counts::of_line(line).map(|c| (c.passed, c.failed))
    }

    #[test]
    fn summary_lines_are_read() {
        let libtest =
            "test result: ok. 12 passed; 1 failed; 0 ignored; 0 measured; 3 filtered out; finished in 0.1s";
        assert_eq!(numbers(libtest), Some((12, 1)));
        assert_eq!(numbers("test result: FAILED. 0 passed; 7 failed; 0 ignored"), Some((0, 7)));
        assert_eq!(numbers("3 passed, 2 failed\n"), Some((3, 2)));
        assert_eq!(numbers("3 passed, 2 failed, 1 skipped"), Some((3, 2)));
        assert_eq!(numbers("test result: 3 of 5 cases passed"), Some((3, 2)));
        assert_eq!(numbers("test result: 6 of 5 cases passed"), None);
        assert_eq!(numbers("all passed"), None);
        assert_eq!(numbers("test foo ... ok"), None);
    }

    #[test]
    fn a_child_that_hangs_is_ended() {
        let limit = Duration::from_secs(1);
        let ended = run(command("sleep", &["100"], limit), limit);
        assert!(ended.time < Duration::from_secs(15));
        assert!(ended.failure.expect("it was killed").contains("limit of 1 s"));
    }

    #[test]
    fn a_failure_is_told() {
        let limit = Duration::from_secs(10);
        assert!(run(command("false", &[], limit), limit).failure.is_some());
        assert!(run(command("true", &[], limit), limit).failure.is_none());
        assert!(run(command("/nonexistent", &[], limit), limit).failure.is_some());
    }

    /// Somebody whom it has left behind, in a group of his own, writes there when all is over.
    #[test]
    fn who_keeps_the_pipe_is_not_waited_for() {
        let limit = Duration::from_secs(60);
        let script = "echo 'test result: ok. 1 passed; 0 failed'; setsid sleep 300 & exit 3";
        let ended = run(command("sh", &["-c", script], limit), limit);
        assert!(ended.failure.is_some() && ended.time < limit, "{:?} after {:?}", ended.failure, ended.time);
        assert_eq!(ended.counts.passed, 1);
    }

    #[test]
    fn what_tells_of_a_failure_is_kept() {
        let script = "echo 'test a ... ok'; echo 'thread main panicked at x.rs:1:' >&2; echo 'it was 3'; seq 100; \
                      echo 'failures:'; echo 'a: why'; echo 'test result: FAILED. 1 passed; 1 failed'; seq 100; exit 1";
        let limit = Duration::from_secs(60);
        let ended = run(command("sh", &["-c", script], limit), limit);
        assert!(ended.failure.is_some());
        assert_eq!((ended.counts.passed, ended.counts.failed), (1, 1));
        let lines: Vec<&str> = ended.told.lines().collect();
        for kept in ["thread main panicked at x.rs:1:", "it was 3", "a: why", "100"] {
            assert!(lines.contains(&kept), "{kept} in {lines:?}");
        }
        assert!(!lines.contains(&"test a ... ok") && lines.len() < 40, "{lines:?}");
    }
}
