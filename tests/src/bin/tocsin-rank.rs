//! One rank of a test world, or its launcher:
//!
//! - `tocsin-rank [--no-descriptors] LIMIT_S SCENARIO [NAME=VALUE...]`
//! - `tocsin-rank --launch RANKS BACKEND kill|report LIMIT_S SCENARIO [NAME=VALUE...]` starts that many of the first form, prints
//!   their process ids by rank on one line, and exits with the status of the first rank that failed. `--launch-shell`: each
//!   behind a shell, whose process id is printed. `--launch-stopping-shell`: that stops itself when the rank has ended.
//! - `tocsin-rank --threads RANKS LIMIT_S SCENARIO [NAME=VALUE...]` has the ranks as threads.

use std::io::Write;
use std::path::Path;

use tocsin_tests::forbid::forbid_copies;
use tocsin_tests::run::Arguments;
use tocsin_tests::scenarios;
use tocsin_world::launcher::{Launch, OnFailure};
use tocsin_world::{Comm, Config, World};

fn main() {
    let mut words = std::env::args().skip(1).peekable();
    let shell = |form: &str| match form {
        "--launch" => Some(None),
        "--launch-shell" => Some(Some("\"$0\" \"$@\"; exit $?")),
        "--launch-stopping-shell" => Some(Some("\"$0\" \"$@\"; status=$?; kill -STOP $$; exit $status")),
        _ => None,
    };
    if let Some(form) = words.peek().and_then(|form| shell(form)) {
        words.next();
        match launch(words.collect(), form) {
            Ok(status) => std::process::exit(status),
            Err(error) => {
                eprintln!("{error}");
                std::process::exit(2);
            }
        }
    }
    if words.next_if(|w| w == "--no-descriptors").is_some() {
        // After the loader, which needs some itself.
        no_descriptors(3);
    }
    let threads = words.next_if(|w| w == "--threads").map(|_| words.next().and_then(|w| w.parse().ok()));
    let limit = words.next().and_then(|w| w.parse().ok()).unwrap_or(60);
    // SAFETY: alarm has no memory effects; SIGALRM's default action ends a rank that hangs.
    unsafe { libc::alarm(limit) };
    let Some(name) = words.next() else {
        eprintln!("usage: tocsin-rank LIMIT_S SCENARIO [NAME=VALUE...]");
        std::process::exit(2);
    };
    let arguments = Arguments::parse(words);
    if let Some(ranks) = threads {
        let scenario = |comm: Comm| scenarios::run(&name, &comm, &arguments);
        let mut config = Config::default();
        let outcome = arguments
            .configure(&mut config)
            .and_then(|()| tocsin_world::threads(ranks.unwrap_or(0), &config, scenario));
        if let Err(error) = outcome {
            eprintln!("{error}");
            std::process::exit(3);
        }
        return;
    }
    let forbid = arguments.optional("forbid");
    // `pages-...`: pages into pipes, too.
    let pages = forbid.is_some_and(|when| when.starts_with("pages-"));
    let forbid = forbid.map(|when| when.trim_start_matches("pages-"));
    if forbid == Some("start") {
        forbid_copies(pages);
    }
    if arguments.optional("private").is_some() {
        become_private();
    }
    let world = match World::from_env() {
        Ok(world) => world,
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(3);
        }
    };
    // None are left from here on: at all ranks, or at some.
    let few = arguments.optional("descriptors");
    if few == Some("none") || few == Some("some") && world.rank() % 2 == 1 {
        no_descriptors(0);
    }
    scenarios::run(&name, &world.comm(), &arguments);
    if forbid == Some("later") || forbid == Some("some") && world.rank() % 2 == 1 {
        // The ranks have found out that they can copy, and are wrong from now on.
        forbid_copies(pages);
    }
    if matches!(forbid, Some("later" | "some")) {
        scenarios::run(&name, &world.comm(), &arguments);
    }
    if let Err(error) = world.finalize() {
        eprintln!("finalize: {error}");
        std::process::exit(4);
    }
}

/// Has the system give out no descriptor of this number or a higher one.
fn no_descriptors(first: libc::rlim_t) {
    let limit = libc::rlimit { rlim_cur: first, rlim_max: first };
    // SAFETY: the pointer is to a live rlimit.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
}

/// Becomes a process into which no other one of its user, an ordinary one, may look: with the answers that Yama gives, too.
fn become_private() {
    // SAFETY: no pointers; it concerns this process.
    unsafe { assert_eq!(libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0), 0) };
    // A process that is no other one than this but for its number.
    // SAFETY: the child calls nothing but `pause`, and is ended and reaped below.
    let twin = unsafe { libc::fork() };
    if twin == 0 {
        loop {
            // SAFETY: no pointers.
            unsafe { libc::pause() };
        }
    }
    let (mut word, there) = (0u64, 0u64);
    let vector = |at: *const u64| libc::iovec { iov_base: at.cast_mut().cast(), iov_len: size_of::<u64>() };
    let (here, there) = (vector(&raw mut word), vector(&raw const there));
    // SAFETY: the vectors live through the call; the first is writable, the other one is looked at in the other process.
    let read = unsafe { libc::process_vm_readv(twin, &raw const here, 1, &raw const there, 1, 0) };
    let error = std::io::Error::last_os_error();
    // SAFETY: a child that has not been reaped.
    unsafe {
        libc::kill(twin, libc::SIGKILL);
        libc::waitpid(twin, std::ptr::null_mut(), 0);
    }
    assert!(read < 0 && error.raw_os_error() == Some(libc::EPERM), "{read}: {error}");
}

fn launch(words: Vec<String>, shell: Option<&str>) -> Result<i32, Box<dyn std::error::Error>> {
    let [ranks, backend, on_failure, rest @ ..] = words.as_slice() else {
        return Err("usage: tocsin-rank --launch RANKS BACKEND kill|report LIMIT_S SCENARIO...".into());
    };
    let mut launch = Launch::new(std::env::current_exe()?, ranks.parse()?);
    launch.config.set("TOCSIN_BACKEND", backend)?;
    launch.on_failure = if on_failure == "report" { OnFailure::Report } else { OnFailure::Kill };
    if let Some(script) = shell {
        let program = std::mem::replace(&mut launch.program, Path::new("/bin/sh").to_path_buf());
        launch.args = ["-c".into(), script.into(), program.into()].into();
    }
    Arguments::parse(rest.iter().cloned()).configure(&mut launch.config)?;
    launch.args.extend(rest.iter().map(Into::into));
    let running = launch.spawn()?;
    let pids: Vec<String> = running.pids().iter().map(ToString::to_string).collect();
    println!("pids {}", pids.join(" "));
    std::io::stdout().flush()?;
    Ok(running.wait()?.status)
}
