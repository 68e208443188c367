//! The face with ranks as processes, and the launcher. `harness = false`: children of this program are ranks.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use tocsin_tests::in_order;
use tocsin_tests::worlds::config; // Links the tripwire allocator, too.

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use tocsin::launcher::launch_self;
use tocsin::{Error, Launch, OnFailure, Op, Report, World};

/// What ranks do, by name.
const CHILDREN: &[tocsin::Child] = &[
    ("exchange", exchange),
    ("exit_seven", exit_seven),
    ("die", die),
    ("panic", panic_one),
    ("abort", abort_one),
    ("survive", survive),
    ("sleep", sleep),
    ("leave", |_, _| Ok(())),
    ("leave_unsaid", |world, _| {
        std::mem::forget(world);
        Ok(())
    }),
];

fn main() {
    tocsin::child_entry(CHILDREN);
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        // Programs of the tests below that are no ranks.
        Some("role=launcher") => role_launcher(args.collect()),
        Some("role=join") => role_join(),
        Some("role=tags") => role_tags(args.collect()),
        Some("role=forgets") => role_forgets(),
        _ => run_tests(),
    }
}

fn run_tests() {
    let before = shared_memory();
    let tests: &[(&str, fn())] = &[
        ("ranks_exchange_on_every_backend", ranks_exchange_on_every_backend),
        ("an_exit_status_is_the_launchers", an_exit_status_is_the_launchers),
        ("a_signal_is_128_and_its_number", a_signal_is_128_and_its_number),
        ("survivors_are_killed_within_three_seconds", survivors_are_killed_within_three_seconds),
        ("survivors_may_report", survivors_may_report),
        ("a_panic_is_101", a_panic_is_101),
        ("an_abort_ends_all", an_abort_ends_all),
        ("a_rank_that_leaves_unsaid_is_dead", a_rank_that_leaves_unsaid_is_dead),
        ("the_launchers_death_ends_every_rank", the_launchers_death_ends_every_rank),
        ("signals_are_passed_on", signals_are_passed_on),
        ("who_asks_twice_is_not_ignored", who_asks_twice_is_not_ignored),
        ("who_forgets_children_launches_none", who_forgets_children_launches_none),
        ("output_is_tagged", output_is_tagged),
        ("all_output_is_copied_and_none_is_waited_for", all_output_is_copied_and_none_is_waited_for),
        ("what_a_failed_world_has_started_ends", what_a_failed_world_has_started_ends),
        ("any_program_can_be_run", any_program_can_be_run),
        ("a_shell_between_is_no_matter", a_shell_between_is_no_matter),
        ("more_ranks_than_descriptors", more_ranks_than_descriptors),
        ("what_cannot_be_started", what_cannot_be_started),
        ("a_rank_is_one_process", a_rank_is_one_process),
        ("wrong_environments", wrong_environments),
        ("dropping_a_running_world_ends_it", dropping_a_running_world_ends_it),
        ("an_unknown_child_function_is_an_error", an_unknown_child_function_is_an_error),
    ];
    let conclusion = in_order::run(tests);
    assert_eq!(shared_memory(), before, "something is left in /dev/shm");
    conclusion.exit();
}

/// Names in /dev/shm.
fn shared_memory() -> Vec<std::ffi::OsString> {
    let mut names: Vec<_> = std::fs::read_dir("/dev/shm")
        .map(|d| d.flatten().map(|e| e.file_name()).collect())
        .unwrap_or_default();
    names.retain(|n: &std::ffi::OsString| n.to_string_lossy().contains("tocsin"));
    names.sort();
    names
}

fn exchange(world: World, args: &[String]) -> Result<(), Error> {
    let comm = world.comm();
    assert_eq!(args, [world.backend().to_string(), "two words".into()]);
    let (me, ranks) = (comm.rank(), comm.size());
    for len in [1usize, 300, 20_000, 500_000] {
        let send = comm.isend(vec![me; len], (me + 1) % ranks, 1)?;
        let got = comm.irecv(vec![0; len], (me + ranks - 1) % ranks, 1)?.wait()?;
        assert!(got.iter().all(|x| *x == (me + ranks - 1) % ranks));
        send.wait()?;
    }
    let sum = comm.iallreduce(vec![u64::from(me); 100], Op::Sum)?.wait()?;
    assert_eq!(sum, [u64::from(ranks * (ranks - 1) / 2); 100]);
    let half = comm.split(Some(me % 2), 0)?.expect("a color");
    half.barrier()?;
    world.finalize()
}

fn exit_seven(world: World, _: &[String]) -> Result<(), Error> {
    if world.rank() == 1 {
        std::process::exit(7);
    }
    world.comm().barrier()
}

fn die(world: World, args: &[String]) -> Result<(), Error> {
    let comm = world.comm();
    comm.barrier()?;
    if world.rank() != 1 {
        comm.send(&[0u8], 1, 8)?;
    } else {
        // Not before the others have left the barrier: it would fail for them too.
        for other in (0..comm.size()).filter(|rank| *rank != 1) {
            comm.recv(&mut [0u8], other, 8)?;
        }
        let signal: i32 = args[0].parse().expect("a number");
        // SAFETY: ends this process, as the test wants.
        unsafe { libc::raise(signal) };
    }
    // Deaf to errors: only the launcher can end it.
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn panic_one(world: World, _: &[String]) -> Result<(), Error> {
    assert!(world.rank() != 2, "as asked");
    world.comm().barrier()
}

fn abort_one(world: World, args: &[String]) -> Result<(), Error> {
    let with: i32 = args[0].parse().unwrap();
    if world.rank() == 1 {
        world.abort(with);
    }
    match world.comm().barrier() {
        Err(Error::Aborted { code, .. }) if code == with => Ok(()),
        other => panic!("{other:?}"),
    }
}

/// Rank 1 dies; the others expect the error that names it, and leave in good order.
fn survive(world: World, _: &[String]) -> Result<(), Error> {
    let comm = world.comm();
    comm.barrier()?;
    if world.rank() == 1 {
        // Not before the others have left the barrier: it would fail for them too.
        comm.recv(&mut [0u8], 0, 8)?;
        comm.recv(&mut [0u8], 2, 8)?;
        // SAFETY: ends this process, as the test wants.
        unsafe { libc::raise(libc::SIGKILL) };
    }
    comm.send(&[0u8], 1, 8)?;
    let begun = Instant::now();
    match comm.irecv(vec![0u8; 9], 1, 0).and_then(tocsin::Request::wait) {
        Err(Error::PeerDead { rank: 1, .. }) => {}
        other => panic!("{other:?}"),
    }
    assert!(begun.elapsed() < Duration::from_secs(1));
    match comm.barrier() {
        Err(Error::PeerDead { rank: 1, .. }) => {}
        other => panic!("{other:?}"),
    }
    // The survivors still reach each other.
    let other = if world.rank() == 0 { 2 } else { 0 };
    let status = comm.sendrecv(&[1u8; 9], other, 5, &mut [0u8; 9], other, 5)?;
    assert_eq!(status.bytes, 9);
    world.finalize()
}

fn sleep(world: World, _: &[String]) -> Result<(), Error> {
    world.comm().barrier()?;
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn run(ranks: u32, name: &str, args: &[&str], change: impl FnOnce(&mut Launch)) -> Report {
    let mut launch = launch_self(ranks, name, args).unwrap();
    change(&mut launch);
    launch.run().unwrap()
}

fn ranks_exchange_on_every_backend() {
    for backend in ["signal", "thread", "poll"] {
        for ranks in [1, 2, 5] {
            let report = run(ranks, "exchange", &[backend, "two words"], |l| {
                l.config = config(&[("TOCSIN_BACKEND", backend)])
            });
            assert_eq!((report.status, report.failed), (0, None), "{backend}, {ranks} ranks: {report:?}");
        }
    }
    let report = World::spawn(2, "exchange", &["signal", "two words"]).unwrap();
    assert_eq!(report.ranks, [0, 0]);
}

fn an_exit_status_is_the_launchers() {
    let report = run(3, "exit_seven", &[], |_| ());
    assert_eq!((report.status, report.failed), (7, Some(1)), "{report:?}");
}

fn a_signal_is_128_and_its_number() {
    for signal in [libc::SIGKILL, libc::SIGTERM, libc::SIGABRT] {
        let report = run(2, "die", &[&signal.to_string()], |_| ());
        assert_eq!((report.status, report.failed), (128 + signal, Some(1)), "{report:?}");
        assert_eq!(report.ranks[0], 128 + libc::SIGKILL);
    }
}

fn survivors_are_killed_within_three_seconds() {
    let begun = Instant::now();
    run(3, "die", &["9"], |_| ());
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    assert!(begun.elapsed() > Duration::from_millis(900), "survivors have a second");
}

fn survivors_may_report() {
    for backend in ["signal", "thread", "poll"] {
        let report = run(3, "survive", &[], |l| {
            l.on_failure = OnFailure::Report;
            l.config = config(&[("TOCSIN_BACKEND", backend)]);
        });
        assert_eq!((report.status, report.failed), (137, Some(1)), "{backend}: {report:?}");
        assert_eq!(report.ranks, [0, 137, 0], "{backend}");
    }
}

fn a_panic_is_101() {
    let report = run(3, "panic", &[], |_| ());
    assert_eq!((report.status, report.failed), (101, Some(2)), "{report:?}");
}

fn an_abort_ends_all() {
    // None of them says that all went well.
    for (code, status) in [("9", 9), ("256", 1), ("0", 1), ("-1", 255)] {
        let report = run(3, "abort", &[code], |_| ());
        assert_eq!((report.status, report.failed), (status, Some(1)), "{code}: {report:?}");
        assert_eq!(report.ranks, [0, status, 0]);
    }
}

fn a_rank_that_leaves_unsaid_is_dead() {
    // Rank 1's process ends with status 0, without having finalized: the others must not wait for it.
    let report = run(2, "leave_unsaid", &[], |_| ());
    assert_eq!(report.status, 0);
    assert_eq!(run(2, "leave", &[], |_| ()).status, 0);
}

/// A launcher in a process of its own, whose ranks sleep; it prints their process ids.
fn role_launcher(args: Vec<String>) {
    // A test run that is killed leaves nothing behind.
    // SAFETY: no pointers.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    // Whoever runs the tests may ignore some, as nohup does.
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        // SAFETY: no handler.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    let mut launch = launch_self(3, "sleep", &[]).unwrap();
    launch.forward_signals = args.first().is_some_and(|a| a != "plain");
    if args.first().is_some_and(|a| a == "deaf") {
        // What a process ignores, its children ignore. The launcher itself only takes what is pending.
        // SAFETY: no handler.
        unsafe { libc::signal(libc::SIGTERM, libc::SIG_IGN) };
    }
    let running = launch.spawn().unwrap();
    let pids: Vec<String> = running.pids().iter().map(i32::to_string).collect();
    println!("{}", pids.join(" "));
    let report = running.wait().unwrap();
    std::process::exit(report.status);
}

fn start_launcher(arg: &str) -> (std::process::Child, Vec<i32>) {
    let mut launcher = Command::new(std::env::current_exe().unwrap())
        .args(["role=launcher", arg])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(launcher.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let pids = line.split_whitespace().map(|p| p.parse().unwrap()).collect::<Vec<i32>>();
    assert_eq!(pids.len(), 3, "{line}");
    (launcher, pids)
}

/// Whether a process runs: it is neither gone nor a zombie that its new parent has not reaped yet.
fn runs(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')))
}

fn the_launchers_death_ends_every_rank() {
    let (mut launcher, pids) = start_launcher("plain");
    std::thread::sleep(Duration::from_millis(100));
    assert!(pids.iter().all(|p| runs(*p)));
    launcher.kill().unwrap();
    launcher.wait().unwrap();
    let begun = Instant::now();
    while pids.iter().any(|p| runs(*p)) {
        assert!(begun.elapsed() < Duration::from_secs(2), "a rank outlived its launcher");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn signals_are_passed_on() {
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        let (mut launcher, _) = start_launcher("forward");
        std::thread::sleep(Duration::from_millis(100));
        let begun = Instant::now();
        // SAFETY: the process is an unreaped child.
        unsafe { libc::kill(launcher.id() as i32, signal) };
        assert_eq!(launcher.wait().unwrap().code(), Some(128 + signal));
        assert!(begun.elapsed() < Duration::from_secs(3));
    }
}

/// Ranks that do not end when they are asked to are killed once they are asked again.
fn who_asks_twice_is_not_ignored() {
    let (mut launcher, pids) = start_launcher("deaf");
    let ask = || {
        // SAFETY: the process is an unreaped child.
        unsafe { libc::kill(launcher.id() as i32, libc::SIGTERM) };
    };
    // Noticed one by one: of two that are pending at once, the kernel keeps one.
    ask();
    std::thread::sleep(Duration::from_millis(300));
    assert!(pids.iter().all(|p| runs(*p)), "once is not twice");
    ask();
    assert_eq!(launcher.wait().unwrap().code(), Some(128 + libc::SIGKILL));
    assert!(!pids.iter().any(|p| runs(*p)));
}

/// A launcher's own output is what is tagged: it is looked at from outside.
fn role_tags(command: String) {
    let mut launch = Launch::new("/bin/sh", 2);
    launch.args = vec!["-c".into(), command.into()];
    launch.tag_output = true;
    assert_eq!(launch.run().unwrap().status, 0);
}

/// A launcher that ignores the ends of its children.
fn role_forgets() {
    // SAFETY: no handler.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    println!("{}", Launch::new("/bin/true", 2).run().unwrap_err());
}

fn who_forgets_children_launches_none() {
    let program = std::env::current_exe().unwrap();
    let output = Command::new(program).arg("role=forgets").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("ignores SIGCHLD") && said.contains("default"), "{output:?}");
}

/// What a launcher of two shells has printed.
fn tagged(command: &str) -> Output {
    let program = std::env::current_exe().unwrap();
    Command::new(program).args(["role=tags", command]).output().unwrap()
}

fn output_is_tagged() {
    let output = tagged("echo out; echo err >&2; printf unended");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    for rank in 0..2 {
        for line in [format!("[{rank}] out"), format!("[{rank}] unended")] {
            assert!(out.lines().any(|l| l == line), "{line}: {out}");
        }
        assert!(err.lines().any(|l| l == format!("[{rank}] err")), "{err}");
    }
}

/// Processes whose command line has `word` as an argument.
fn with_argument(word: &str) -> Vec<i32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|process| process.file_name().to_str()?.parse::<i32>().ok());
    let has = |pid: &i32| {
        std::fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| line.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes()))
    };
    pids.filter(has).collect()
}

fn all_output_is_copied_and_none_is_waited_for() {
    let sleep = format!("30.{}", std::process::id());
    let begun = Instant::now();
    // What runs on holds the pipes, and writes into them.
    let output = tagged(&format!("sleep {sleep} & seq 20000; yes 2>&1 & printf end"));
    let took = begun.elapsed();
    let left = with_argument(&sleep);
    for pid in &left {
        // SAFETY: the process is one that this test started, and runs for longer than the test.
        unsafe { libc::kill(*pid, libc::SIGKILL) };
    }
    assert_eq!(left.len(), 2, "what a rank that succeeded has started is its own affair");
    assert!(took < Duration::from_secs(20), "{took:?}");
    let out = String::from_utf8_lossy(&output.stdout);
    for rank in 0..2 {
        let prefix = format!("[{rank}] ");
        let numbers = out.lines().filter_map(|line| line.strip_prefix(&prefix)?.parse::<u32>().ok());
        assert!(numbers.eq(1..=20_000), "rank {rank}: some of the output is missing");
    }
}

fn what_a_failed_world_has_started_ends() {
    let sleep = format!("31.{}", std::process::id());
    let first = std::env::temp_dir().join(format!("first-rank-{}", std::process::id()));
    // One that its parent waits for while the other rank fails, and those whose parent has failed.
    for command in [
        format!("mkdir {} 2>/dev/null && exit 5; sleep {sleep}; true", first.display()),
        format!("sleep {sleep} & exit 5"),
        format!("setsid sleep {sleep} & exit 5"),
    ] {
        let begun = Instant::now();
        let mut launch = Launch::new("/bin/sh", 2);
        launch.args = vec!["-c".into(), command.clone().into()];
        launch.tag_output = true;
        assert_eq!(launch.run().unwrap().status, 5, "{command}");
        assert!(begun.elapsed() < Duration::from_secs(5), "{command}: {:?}", begun.elapsed());
        assert_eq!(with_argument(&sleep), [0; 0], "{command}");
    }
    std::fs::remove_dir(first).unwrap();
}

fn any_program_can_be_run() {
    assert_eq!(Launch::new("true", 4).run().unwrap().status, 0);
    let report = Launch::new("false", 2).run().unwrap();
    assert_eq!((report.status, report.ranks), (1, vec![1, 1]));
}

fn a_shell_between_is_no_matter() {
    let inner = launch_self(2, "exchange", &[]).unwrap();
    let mut launch = Launch::new("/bin/sh", 2);
    let command = format!("'{}' signal 'two words'; exit $?", inner.program.display());
    launch.args = vec!["-c".into(), command.into()];
    launch.env = inner.env;
    assert_eq!(launch.run().unwrap().status, 0);
}

fn more_ranks_than_descriptors() {
    let error = Launch::new("true", 3_000_000_000).run().unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, Error::DescriptorLimit { .. }), "{text}");
    assert!(text.contains("RLIMIT_NOFILE") && text.contains("3000000000 ranks"), "{text}");
}

fn what_cannot_be_started() {
    let error = Launch::new("/no/such/program", 2).run().unwrap_err();
    assert!(matches!(error, Error::Start { .. }), "{error}");
    assert!(error.to_string().contains("/no/such/program"));
    assert!(matches!(Launch::new("true", 0).run(), Err(Error::InvalidArgument { .. })));
    let mut launch = Launch::new("true", 1);
    launch.config = config(&[("TOCSIN_BACKEND", "uintr")]);
    assert!(matches!(launch.run(), Err(Error::BackendUnusable { .. })));
}

fn role_join() {
    match World::from_env() {
        Ok(world) => println!("joined as {} of {}", world.rank(), world.size()),
        Err(error) => println!("refused: {error}"),
    }
}

/// At once, rather than when no more is heard from the launcher.
fn a_rank_is_one_process() {
    let program = std::env::current_exe().unwrap();
    let output = tagged(&format!("{0} role=join; {0} role=join", program.display()));
    let said = String::from_utf8_lossy(&output.stdout);
    for rank in 0..2 {
        assert!(said.contains(&format!("[{rank}] joined as {rank} of 2\n")), "{output:?}");
        assert!(said.contains(&format!("[{rank}] refused: ")), "{output:?}");
    }
    assert_eq!(said.matches("another process of this rank has joined already").count(), 2, "{said}");
}

fn wrong_environments() {
    let rows = [
        (&[][..], "joined as 0 of 1"),
        (&[("TOCSIN_BOOTSTRAP_FD", "abc")], "abc is no descriptor number"),
        (&[("TOCSIN_BOOTSTRAP_FD", "")], "is no descriptor number"),
        (&[("TOCSIN_BOOTSTRAP_FD", "0")], "is no descriptor number"),
        (&[("TOCSIN_BOOTSTRAP_FD", "-5")], "is no descriptor number"),
        (&[("TOCSIN_BOOTSTRAP_FD", "777")], "the descriptor is not open"),
        (&[("TOCSIN_BACKEND", "smoke")], "use auto, uintr, signal, thread, poll"),
        (&[("TOCSIN_BACKEND", "uintr")], "backend uintr is not usable here"),
        (&[("TOCSIN_EAGER_MAX", "1T")], "a size from 0 to 32K"),
        (&[("TOCSIN_SMOKE", "1")], "TOCSIN_SMOKE is not a variable of tocsin"),
    ];
    for (environment, expected) in rows {
        let output = Command::new(std::env::current_exe().unwrap())
            .arg("role=join")
            .envs(environment.iter().copied())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains(expected), "{environment:?}: {text}");
        assert_eq!(text.lines().count(), 1, "one clear message: {text}");
    }
}

fn dropping_a_running_world_ends_it() {
    let running = launch_self(2, "sleep", &[]).unwrap().spawn().unwrap();
    let pids = running.pids().to_vec();
    std::thread::sleep(Duration::from_millis(50));
    assert!(matches!(running.signal(2, libc::SIGTERM), Err(Error::RankOutOfRange { .. })));
    drop(running);
    assert!(!pids.iter().any(|p| runs(*p)));
}

fn an_unknown_child_function_is_an_error() {
    assert_eq!(run(1, "nobody", &[], |_| ()).status, 1);
}
