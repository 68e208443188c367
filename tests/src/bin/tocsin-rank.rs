//! One rank of a test world, or its launcher:
//!
//! - `tocsin-rank [--no-descriptors] LIMIT_S SCENARIO [NAME=VALUE...]`
//! - `tocsin-rank --launch RANKS BACKEND kill|report LIMIT_S SCENARIO [NAME=VALUE...]` starts that many of the first form, prints
//!   their process ids by rank on one line, and exits with the status of the first rank that failed.

use std::io::Write;

use tocsin_tests::run::Arguments;
use tocsin_tests::scenarios;
use tocsin_world::World;
use tocsin_world::launcher::{Launch, OnFailure};

fn main() {
    let mut words = std::env::args().skip(1).peekable();
    if words.next_if(|w| w == "--launch").is_some() {
        match launch(words.collect()) {
            Ok(status) => std::process::exit(status),
            Err(error) => {
                eprintln!("{error}");
                std::process::exit(2);
            }
        }
    }
    if words.next_if(|w| w == "--no-descriptors").is_some() {
        // After the loader, which needs some itself.
        let limit = libc::rlimit { rlim_cur: 3, rlim_max: 3 };
        // SAFETY: the pointer is to a live rlimit.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    }
    let limit = words.next().and_then(|w| w.parse().ok()).unwrap_or(60);
    // SAFETY: alarm has no memory effects; SIGALRM's default action ends a rank that hangs.
    unsafe { libc::alarm(limit) };
    let Some(name) = words.next() else {
        eprintln!("usage: tocsin-rank LIMIT_S SCENARIO [NAME=VALUE...]");
        std::process::exit(2);
    };
    let arguments = Arguments::parse(words);
    let world = match World::from_env() {
        Ok(world) => world,
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(3);
        }
    };
    scenarios::find(&name)(&world.comm(), &arguments);
    if let Err(error) = world.finalize() {
        eprintln!("finalize: {error}");
        std::process::exit(4);
    }
}

fn launch(words: Vec<String>) -> Result<i32, Box<dyn std::error::Error>> {
    let [ranks, backend, on_failure, rest @ ..] = words.as_slice() else {
        return Err("usage: tocsin-rank --launch RANKS BACKEND kill|report LIMIT_S SCENARIO...".into());
    };
    let mut launch = Launch::new(std::env::current_exe()?, ranks.parse()?);
    launch.config.set("TOCSIN_BACKEND", backend)?;
    launch.on_failure = if on_failure == "report" { OnFailure::Report } else { OnFailure::Kill };
    launch.args = rest.iter().map(Into::into).collect();
    let running = launch.spawn()?;
    let pids: Vec<String> = running.pids().iter().map(ToString::to_string).collect();
    println!("pids {}", pids.join(" "));
    std::io::stdout().flush()?;
    Ok(running.wait()?.status)
}
