//! `tocsin run`: a thin layer over the library's launcher.

use crate::cli::Run;
use crate::commands::default_bind;
use crate::error::Error;
use crate::fleet::kind;
use crate::plot;
use crate::row::{Row, Sink};
use crate::steps::{Pick, Steps};
use crate::values;
use nix::sys::signal::Signal;
use std::path::Path;
use tocsin_topology::Policy;
use tocsin_world::launcher::{Launch, OnFailure};
use tocsin_world::replaced::place_of;
use tocsin_world::say;
use tocsin_world::{BackendKind, Config, TraceFormat};

/// Runs the program; its exit status.
pub(crate) fn run(args: &Run) -> Result<u8, Error> {
    let Some((program, rest)) = args.program.split_first() else {
        return Err(Error::Usage("which program? Write it after `--`".into()));
    };
    let mut launch = Launch::new(program, args.ranks);
    launch.args = rest.to_vec();
    launch.config = config(args)?;
    let drawn = args.plot.as_deref().zip(launch.config.trace.clone());
    launch.tag_output = args.tag_output;
    launch.forward_signals = true;
    launch.on_failure = match args.on_failure {
        values::OnFailure::Kill => OnFailure::Kill,
        values::OnFailure::Report => OnFailure::Report,
    };
    let stdout = args.json.then(OwnStdout::take).transpose()?;
    let report = launch.run().map_err(Error::failed)?;
    for rank in &report.unfinalized {
        say(format_args!(
            "tocsin: rank {rank} ended with exit status 0 without finalizing the world, so that the others took it for dead: have it drop \
             its World, or call World::finalize or tocsin_finalize, before it exits"
        ));
    }
    if let [first, others @ ..] = report.unjoined.as_slice() {
        let who = match others.len() {
            0 => format!("rank {first}"),
            1 => format!("ranks {first} and {}", others[0]),
            n => format!("{} ranks, {first} the first of them,", n + 1),
        };
        say(format_args!(
            "tocsin: {who} ended without joining the world: one that could not join has said why; a program that uses the library and was started without \
             the TOCSIN_BOOTSTRAP variables, or the descriptor that they name, was a world of one (env -i, sudo and containers take them away)"
        ));
    }
    if let Some(rank) = report.failed {
        let signal = report.signals.get(rank as usize).copied().flatten();
        say(format_args!("tocsin: rank {rank} failed first: {}", describe(report.status, signal)));
    }
    if let Some(stdout) = stdout {
        stdout.give_back()?;
        let ranks = u64::from(args.ranks);
        let row = Row::new("run")
            .set("ranks", ranks)
            .set("status", report.status)
            .set("failed_rank", report.failed)
            .set("unfinalized_ranks", report.unfinalized)
            .set("unjoined_ranks", report.unjoined);
        Sink::new(true).row(&row.set("rank_status", report.ranks).set("rank_signal", report.signals));
    }
    // What a failed run leaves is no whole trace.
    if let Some((dir, trace)) = drawn.filter(|_| report.status == 0) {
        let steps = Steps::read(&trace, Pick::Typical)?;
        plot::announce(&plot::steps::draw(dir, "steps", "", &steps)?);
    }
    Ok(u8::try_from(report.status).unwrap_or(1))
}

/// A rank's status in words. `signal`: what ended it, if one did.
fn describe(status: i32, signal: Option<i32>) -> String {
    match signal {
        // An abort's code is what counts.
        Some(signal) if status == 128 + signal => {
            let name = Signal::try_from(signal).map_or(String::new(), |signal| format!(" ({signal})"));
            format!("ended by signal {signal}{name}")
        }
        _ => format!("exit status {status}"),
    }
}

/// The environment's configuration with the command line's on top.
fn config(args: &Run) -> Result<Config, Error> {
    let usage = |error: tocsin_world::Error| Error::Usage(error.to_string());
    let mut config = Config::from_env().map_err(usage)?;
    if let Some(backend) = args.backend {
        config.backend = kind(backend);
    }
    config.reserve = args.reserve.unwrap_or(config.reserve);
    // A machine that cannot be described binds nobody.
    config.bind = config
        .machine()
        .map_or(Policy::None, |machine| default_bind(args.bind, &config, &machine, args.ranks as usize));
    if let Some(lmt) = args.lmt {
        config.set("TOCSIN_LMT", &lmt.to_string()).map_err(usage)?;
    }
    if let Some(progress) = args.progress {
        config.progress = progress;
        if config.backend != Some(BackendKind::Thread) {
            say(format_args!("tocsin run: --progress applies to the backend thread only and is ignored"));
        }
    }
    if let Some(schedule) = args.schedule {
        config.schedule = schedule;
        if config.backend != Some(BackendKind::Thread) {
            say(format_args!("tocsin run: --schedule applies to the backend thread only and is ignored"));
        }
    }
    if let Some(trace) = &args.trace {
        let wrong = |_| {
            let why = match place_of(trace) {
                Err(why) => why,
                Ok(_) => "no file in a directory that exists",
            };
            Error::Usage(format!("--trace {}: {why}", trace.display()))
        };
        let name = trace.to_str().ok_or_else(|| {
            Error::Usage(format!("--trace {}: its name is no UTF-8: give it another", trace.display()))
        })?;
        config.set("TOCSIN_TRACE", name).map_err(wrong)?;
    }
    trace_and_plot(args, &mut config)?;
    config.usable_backend().map_err(Error::failed)?;
    config.seats(args.ranks).map_err(usage)?;
    Ok(config)
}

/// Which format the trace has, and that there is one if it is to be drawn.
fn trace_and_plot(args: &Run, config: &mut Config) -> Result<(), Error> {
    config.trace_format = match args.trace_format {
        Some(values::TraceFormat::Chrome) => TraceFormat::Chrome,
        Some(values::TraceFormat::Paje) => TraceFormat::Paje,
        None => config.trace_format,
    };
    plot::prepare(args.plot.as_deref())?;
    if let Some(dir) = &args.plot
        && config.trace.is_none()
    {
        config.trace = Some(dir.join("trace.json"));
    }
    if let Some(trace) = &config.trace {
        let refused =
            |why| Error::Usage(format!("--trace {}: {why} (or set TOCSIN_TRACE so)", trace.display()));
        let place = place_of(trace).map_err(refused)?;
        let dir = place.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        plot::try_to_make_a_file(dir).map_err(|why| {
            let trace = trace.display();
            Error::Usage(format!(
                "--trace {trace}: no file can be made there ({why}): name one where you may write (or set TOCSIN_TRACE so)"
            ))
        })?;
    }
    match &config.trace {
        Some(path) if args.plot.is_some() && config.trace_format.is_paje(path) => Err(Error::Usage(
            "--plot reads the trace as Chrome trace JSON: leave --trace-format out, and choose a name for --trace \
             that does not end in .paje or .trace"
                .into(),
        )),
        None if args.trace_format.is_some() => {
            say(format_args!("tocsin run: --trace-format applies with --trace only and is ignored"));
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Standard output kept for ourselves: what the ranks print goes to standard error meanwhile.
struct OwnStdout(libc::c_int);

impl OwnStdout {
    fn take() -> Result<OwnStdout, Error> {
        // SAFETY: descriptors only; the results are checked.
        let kept = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_DUPFD_CLOEXEC, 3) };
        // SAFETY: as above.
        if kept < 0 || unsafe { libc::dup2(libc::STDERR_FILENO, libc::STDOUT_FILENO) } < 0 {
            return Err(Error::last_os("sending the ranks' output to standard error"));
        }
        Ok(OwnStdout(kept))
    }

    fn give_back(self) -> Result<(), Error> {
        // SAFETY: `kept` is ours; it is used no more after this.
        let done = unsafe { libc::dup2(self.0, libc::STDOUT_FILENO) >= 0 && libc::close(self.0) == 0 };
        if done { Ok(()) } else { Err(Error::last_os("taking standard output back")) }
    }
}
