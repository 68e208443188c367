//! Ranks and launchers that are killed.
#![allow(clippy::unwrap_used)] // A test that fails says so by panicking.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use tocsin_sync::clock::now_ns;
use tocsin_tests::random::Random;
use tocsin_tests::run::deep;
use tocsin_world::cma_refusal;

/// A launcher in a process of its own, and the process ids of its ranks.
struct World {
    launcher: Child,
    output: BufReader<ChildStdout>,
    pids: Vec<i32>,
    /// What ranks printed before the launcher's line.
    before: String,
}

impl World {
    fn launch(ranks: u32, backend: &str, on_failure: &str, scenario: &[String]) -> World {
        World::launch_as("--launch", ranks, backend, on_failure, scenario)
    }

    fn launch_as(form: &str, ranks: u32, backend: &str, on_failure: &str, scenario: &[String]) -> World {
        let mut launcher = Command::new(env!("CARGO_BIN_EXE_tocsin-rank"))
            .args([form, &ranks.to_string(), backend, on_failure, "60"])
            .args(scenario)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(launcher.stdout.take().unwrap());
        // The launcher's line and those of its ranks may come in any order.
        let (mut line, mut before) = (String::new(), String::new());
        while !line.starts_with("pids") {
            before.push_str(&line);
            line.clear();
            assert_ne!(output.read_line(&mut line).unwrap(), 0, "the launcher ended");
        }
        let pids: Vec<i32> = line.split_whitespace().skip(1).map(|p| p.parse().unwrap()).collect();
        assert_eq!(pids.len(), ranks as usize, "{line}");
        World { launcher, output, pids, before }
    }

    /// Waits until the scenario says that it runs.
    fn running(&mut self) {
        if self.before.is_empty() {
            self.output.read_line(&mut self.before).unwrap();
        }
        assert_eq!(self.before.trim(), "running");
        self.before.clear();
    }

    fn kill(&self, rank: usize) {
        // SAFETY: kill has no memory effects; the pid is a child of the launcher, which reaps at the end only.
        assert_eq!(unsafe { libc::kill(self.pids[rank], libc::SIGKILL) }, 0);
    }

    /// The only child of each rank's process, once each has one.
    fn behind(&self) -> Vec<i32> {
        let parent = |pid: &i32| -> Option<i32> {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
        };
        let limit = Instant::now() + Duration::from_secs(10);
        loop {
            let names = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.file_name());
            let all: Vec<i32> = names.filter_map(|name| name.to_str()?.parse().ok()).collect();
            let child = |shell: &i32| all.iter().copied().find(|pid| parent(pid) == Some(*shell));
            let children: Vec<i32> = self.pids.iter().filter_map(child).collect();
            if children.len() == self.pids.len() {
                return children;
            }
            assert!(Instant::now() < limit, "{children:?} behind {:?}", self.pids);
        }
    }

    /// The ranks' output, but for what says that they run, and the launcher's status.
    fn end(mut self, within: Duration) -> (String, i32) {
        let start = Instant::now();
        let mut rest = std::mem::take(&mut self.before);
        self.output.read_to_string(&mut rest).unwrap();
        let status = self.launcher.wait().unwrap();
        assert!(start.elapsed() < within, "ended only after {:?}", start.elapsed());
        for pid in self.pids {
            // SAFETY: signal 0 only asks whether the process exists.
            assert_ne!(unsafe { libc::kill(pid, 0) }, 0, "process {pid} is left");
        }
        (rest, status.code().unwrap())
    }
}

/// Names in /dev/shm and /tmp that are tocsin's.
fn names_left() -> Vec<String> {
    ["/dev/shm", "/tmp"]
        .into_iter()
        .filter_map(|folder| std::fs::read_dir(folder).ok())
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.contains("tocsin"))
        .collect()
}

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

#[test]
fn every_survivor_learns_who_died() {
    deaths("until-death", "auto", if cfg!(debug_assertions) && !deep() { 50 } else { 200 });
}

#[test]
fn every_run_of_a_persistent_collective_learns_who_died() {
    deaths("restarted-until-death", "auto", if cfg!(debug_assertions) && !deep() { 15 } else { 60 });
}

#[test]
fn every_blocked_survivor_learns_who_died() {
    deaths("blocked-until-death", "auto", if cfg!(debug_assertions) && !deep() { 30 } else { 200 });
}

/// Pages of the dead in pipes, and pipes from which nobody reads any more.
#[test]
fn every_survivor_of_a_death_among_pages_learns_who_died() {
    for scenario in ["until-death", "blocked-until-death"] {
        deaths(scenario, "vmsplice", if cfg!(debug_assertions) && !deep() { 15 } else { 100 });
    }
}

/// Records of single copies that the dead hold, and pieces of theirs that are half there.
#[test]
fn every_survivor_of_a_death_among_large_messages_learns_who_died() {
    for scenario in ["until-death", "blocked-until-death"] {
        for lmt in ["cma", "double"] {
            deaths(scenario, lmt, if cfg!(debug_assertions) && !deep() { 15 } else { 60 });
        }
    }
}

/// Kills one of four ranks at some moment of a scenario, so many times; large messages travel in a given way.
fn deaths(scenario: &str, lmt: &str, rounds: usize) {
    let before = names_left();
    let mut random = Random::new(11);
    let mut latest = 0;
    for round in 0..rounds {
        let backend = ["signal", "thread", "poll"][round % 3];
        let victim = random.below(4) as usize;
        let (seed, who) = (format!("seed={round}"), format!("victim={victim}"));
        let scenario = words(&[scenario, &seed, &who, &format!("lmt={lmt}")]);
        let mut world = World::launch(4, backend, "report", &scenario);
        world.running();
        std::thread::sleep(Duration::from_micros(random.below(20_000)));
        let killed = now_ns();
        world.kill(victim);
        let (output, status) = world.end(Duration::from_secs(10));
        assert_eq!(status, 128 + libc::SIGKILL, "{output}");
        let seen: Vec<u64> = output
            .lines()
            .filter_map(|line| line.strip_prefix("saw ")?.split_once(' ')?.1.parse().ok())
            .collect();
        assert_eq!(seen.len(), 3, "round {round}, {backend}, victim {victim}: {output}");
        latest = seen.into_iter().map(|at| at.saturating_sub(killed)).chain([latest]).max().unwrap();
        assert!(latest < 1_000_000_000, "round {round}, {backend}: an error came after {latest} ns");
    }
    println!("{rounds} deaths, the latest error {:.1} ms after the kill", latest as f64 / 1e6);
    assert_eq!(names_left(), before);
}

#[test]
fn who_exits_without_finalizing_is_dead_to_the_others() {
    for backend in ["signal", "thread", "poll"] {
        for way in ["receive", "any", "send", "probe", "iprobe", "collective", "board", "new"] {
            let scenario = words(&["left-by-exit", &format!("way={way}")]);
            let (output, status) = World::launch(3, backend, "kill", &scenario).end(Duration::from_secs(10));
            let mut saw: Vec<&str> = output.lines().collect();
            saw.sort_unstable();
            assert_eq!((saw, status), (vec!["saw 1", "saw 2"], 0), "{backend}, {way}");
        }
    }
}

/// Others may have copied out a part of what the dead one was copying in.
#[test]
fn who_dies_while_it_copies_in_is_dead_to_the_others() {
    for backend in ["signal", "thread", "poll"] {
        for (op, bytes) in
            [("ibcast", 1 << 20), ("ibcast", 128 << 10), ("iallgather", 128 << 10), ("ialltoall", 64 << 10)]
        {
            for (at, computes) in [(64 << 10, false), (4096, true), (bytes - 4096, false), (bytes / 2, true)]
            {
                let mut scenario = vec!["dies-copying".to_owned(), format!("op={op}")];
                scenario.extend([format!("bytes={bytes}"), format!("at={at}")]);
                // With poll nobody hears of anything outside of calls.
                scenario.extend((computes && backend != "poll").then(|| "compute=1".to_owned()));
                let (output, status) =
                    World::launch(3, backend, "report", &scenario).end(Duration::from_secs(20));
                let mut saw: Vec<&str> = output.lines().collect();
                saw.sort_unstable();
                let right = (vec!["saw 1", "saw 2"], 128 + libc::SIGSEGV);
                assert_eq!((saw, status), right, "{backend}, {scenario:?}");
            }
        }
    }
}

/// Into a receive that was published, with a claim open.
#[test]
fn who_dies_while_it_copies_into_a_posted_receive_is_dead_to_its_rank() {
    for backend in ["signal", "thread", "poll"] {
        for bytes in [1 << 20, 4 << 20] {
            for (at, computes) in [(4096, true), (bytes / 2, true), (bytes / 2, false), (bytes - 4096, false)]
            {
                let mut scenario = vec!["dies-sending".to_owned(), format!("bytes={bytes}")];
                scenario.push(format!("at={at}"));
                // With poll nobody hears of anything outside of calls.
                let computes = computes && backend != "poll";
                scenario.extend(computes.then(|| "compute=1".to_owned()));
                let (output, status) =
                    World::launch(2, backend, "report", &scenario).end(Duration::from_secs(20));
                assert_eq!(status, 128 + libc::SIGSEGV, "{backend}, {scenario:?}: {output}");
                // Who computes copies nothing: what has come was copied by the one that died, from the back.
                let saw = if computes && at > bytes / 2 { "saw 1, of a part" } else { "saw 1" };
                assert!(output.trim_end().starts_with(saw), "{backend}, {scenario:?}: {output}");
            }
        }
    }
}

/// By each strategy: with a claim on the receive that was published, and perhaps one of who is dead, or with a part of the message in the lane. (The kernel copies no page that cannot be read: then it goes by the lane.)
#[test]
fn who_dies_while_another_copies_to_it_holds_nobody_up() {
    let mut into = 0;
    for (backend, lmt) in ["signal", "thread", "poll"]
        .into_iter()
        .flat_map(|backend| ["auto", "direct", "cma", "vmsplice", "double"].map(|lmt| (backend, lmt)))
    {
        for bytes in [1 << 20, 4 << 20] {
            for (at, computes) in
                [(bytes - 1, true), (bytes / 2, true), (bytes / 2, false), (bytes - 70_000, false)]
            {
                // With poll nobody hears of anything outside of calls.
                if computes && backend == "poll" {
                    continue;
                }
                let mut scenario = words(&["dies-receiving", &format!("lmt={lmt}")]);
                scenario.extend([format!("bytes={bytes}"), format!("at={at}")]);
                scenario.extend(computes.then(|| "compute=1".to_owned()));
                let (output, status) =
                    World::launch(2, backend, "report", &scenario).end(Duration::from_secs(20));
                let mut saw = output.lines().filter(|line| *line != "running");
                let right = match saw.next() {
                    Some("saw 0") => true,
                    Some("saw 0, into the receive") => lmt == "auto",
                    _ => false,
                };
                let alone = right && saw.next().is_none();
                assert!(alone && status == 128 + libc::SIGKILL, "{backend}, {scenario:?}: {output} {status}");
                into += usize::from(output.contains("into the receive"));
            }
        }
    }
    println!("{into} into receives");
    assert!(into > 0 || cma_refusal().is_some(), "nobody has copied into a receive");
}

#[test]
fn a_death_ends_the_job_under_kill() {
    for backend in ["signal", "thread", "poll"] {
        let mut world = World::launch(4, backend, "kill", &words(&["spin", "seconds=50"]));
        world.running();
        world.kill(2);
        let (_, status) = world.end(Duration::from_secs(3));
        assert_eq!(status, 128 + libc::SIGKILL);
    }
}

#[test]
fn a_rank_killed_at_any_time_of_its_start_ends_the_job() {
    let mut random = Random::new(5);
    for round in 0..30 {
        let world = World::launch(3, "signal", "kill", &words(&["spin", "seconds=50"]));
        std::thread::sleep(Duration::from_micros(random.below(5_000)));
        world.kill(round % 3);
        assert_eq!(world.end(Duration::from_secs(3)).1, 128 + libc::SIGKILL);
    }
}

#[test]
fn the_launchers_death_ends_every_rank() {
    let before = names_left();
    let mut world = World::launch(3, "signal", "kill", &words(&["spin", "seconds=50"]));
    world.running();
    world.launcher.kill().unwrap();
    world.launcher.wait().unwrap();
    let limit = Instant::now() + Duration::from_secs(3);
    for pid in &world.pids {
        while runs(*pid) {
            assert!(Instant::now() < limit, "rank process {pid} outlived its launcher");
            std::thread::yield_now();
        }
    }
    assert_eq!(names_left(), before);
}

#[test]
fn a_shell_between_keeps_nobody_alive() {
    for launcher_dies in [true, false] {
        let mut world =
            World::launch_as("--launch-shell", 3, "signal", "kill", &words(&["spin", "seconds=50"]));
        world.running();
        let behind = world.behind();
        let status = if launcher_dies {
            world.launcher.kill().unwrap();
            world.launcher.wait().unwrap();
            None
        } else {
            // Its rank is now an orphan, which nobody's signals follow.
            world.kill(1);
            Some(world.end(Duration::from_secs(3)).1)
        };
        let limit = Instant::now() + Duration::from_secs(3);
        for pid in behind {
            while runs(pid) {
                assert!(Instant::now() < limit, "rank process {pid} outlived its world ({status:?})");
                std::thread::yield_now();
            }
        }
        assert!(launcher_dies || status == Some(128 + libc::SIGKILL), "{status:?}");
    }
}

/// A rank's process ends, and the shell that started it goes on.
#[test]
fn who_dies_behind_a_shell_is_dead_to_the_others() {
    for backend in ["signal", "thread", "poll"] {
        for scenario in ["until-death", "blocked-until-death"] {
            let words = words(&[scenario, "seed=1", "victim=1"]);
            let mut world = World::launch_as("--launch-stopping-shell", 3, backend, "report", &words);
            world.running();
            let behind = world.behind();
            // SAFETY: kill has no memory effects; the process is the child of a shell that has yet to wait for it.
            assert_eq!(unsafe { libc::kill(behind[1], libc::SIGKILL) }, 0);
            let mut saw = String::new();
            while saw.lines().count() < 2 {
                assert_ne!(world.output.read_line(&mut saw).unwrap(), 0, "{backend}, {scenario}: {saw}");
            }
            assert!(saw.lines().all(|line| line.starts_with("saw ")), "{backend}, {scenario}: {saw}");
            while world.launcher.try_wait().unwrap().is_none() {
                for shell in &world.pids {
                    // SAFETY: as above; the launcher reaps the shells at its end, which is about now.
                    unsafe { libc::kill(*shell, libc::SIGCONT) };
                }
                std::thread::yield_now();
            }
            assert_eq!(world.end(Duration::from_secs(3)).1, 128 + libc::SIGKILL, "{backend}, {scenario}");
        }
    }
}

/// The shell that has started a rank ends, and the rank's process, which the system does not run just now, may be in the middle of a copy: it is dead to the others
/// when it is gone.
#[test]
fn who_loses_its_shell_is_gone_before_it_is_dead() {
    for backend in ["signal", "poll"] {
        let words = words(&["until-death", "seed=1", "victim=1"]);
        let mut world = World::launch_as("--launch-shell", 3, backend, "report", &words);
        world.running();
        let behind = world.behind();
        // SAFETY: kill has no memory effects; the process is the child of a shell that has yet to wait for it.
        assert_eq!(unsafe { libc::kill(behind[1], libc::SIGSTOP) }, 0);
        world.kill(1);
        let mut saw = String::new();
        assert_ne!(world.output.read_line(&mut saw).unwrap(), 0, "{backend}");
        assert!(!runs(behind[1]), "{backend}: {saw}");
        assert_eq!(world.end(Duration::from_secs(3)).1, 128 + libc::SIGKILL, "{backend}: {saw}");
    }
}

fn runs(pid: i32) -> bool {
    // SAFETY: signal 0 only asks whether the process exists.
    unsafe { libc::kill(pid, 0) == 0 && !zombie(pid) }
}

/// An orphan that has ended stays a zombie where nobody reaps orphans, as in many containers.
fn zombie(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z')))
}
