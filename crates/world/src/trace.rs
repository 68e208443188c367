//! Traces: what the ranks did when, on one clock, as Paje or as Chrome trace JSON.
//!
//! Each rank writes what its ring holds when it leaves the world; whoever started the ranks joins that to one file.
//!
//! | module | one idea |
//! |---|---|
//! | `part` | what a rank leaves for who joins |
//! | `timeline` | what the events mean: states, steps, messages |
//! | `chrome`, `paje` | the two formats |

mod chrome;
mod paje;
mod part;
mod timeline;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tocsin_progress::Trace;
use tocsin_sync::clock::now_ns;

use crate::config::{Config, TraceFormat};
use crate::error::Error;
use crate::replaced::place_of;
use crate::say::say;
use part::Part;
use timeline::Timeline;

/// Events kept per rank: 2 MiB.
pub(crate) const EVENTS: usize = 64 << 10;

/// A rank's trace, from its joining to its leaving.
#[derive(Debug)]
pub(crate) struct Recording {
    path: PathBuf,
    format: TraceFormat,
    trace: Arc<Trace>,
    /// When it joined, and [which thread](tocsin_sync::thread::pointer) that was.
    since: u64,
    thread: u64,
}

impl Recording {
    /// For the calling thread's rank, one of so many, from now on. Alone, and not to be joined to others, it has the file to itself.
    pub(crate) fn begin(path: &Path, format: TraceFormat, rank: u32, ranks: u32) -> Recording {
        let alone = ranks == 1 && format != TraceFormat::Part;
        Recording {
            path: if alone { path.to_owned() } else { file(path, rank) },
            format,
            trace: Arc::new(Trace::new(EVENTS)),
            since: now_ns(),
            thread: tocsin_sync::thread::pointer() as u64,
        }
    }

    pub(crate) fn trace(&self) -> Arc<Trace> {
        self.trace.clone()
    }

    /// Writes what the ring holds. A trace that cannot be written is said on standard error: it must not fail the run.
    pub(crate) fn write(&self, rank: u32) {
        let part = Part {
            rank,
            recorded: self.trace.recorded(),
            thread: self.thread,
            since: self.since,
            until: now_ns(),
            events: self.trace.drain(),
        };
        let written = create(&self.path, |out| match self.format {
            TraceFormat::Part => part.write(out),
            // Nobody joins this: times count from the clock's own beginning, which all ranks have in common.
            format => format_all(out, format, &self.path, 0, &[Timeline::of(&part)]),
        });
        if let Err(error) = written {
            say(format_args!(
                "tocsin: rank {rank}: the trace {} was not written: {error}",
                self.path.display()
            ));
        } else if self.format != TraceFormat::Part {
            tell_lost(&self.path, &[Timeline::of(&part)]);
        }
    }
}

/// The file of one rank: its number before the extension.
fn file(path: &Path, rank: u32) -> PathBuf {
    let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    let name = match path.extension() {
        Some(extension) => format!("{stem}.{rank}.{}", extension.to_string_lossy()),
        None => format!("{stem}.{rank}"),
    };
    path.with_file_name(name)
}

/// An error if the trace would take the place of what is no file: before anything runs for its sake.
pub(crate) fn check(config: &Config) -> Result<(), Error> {
    let Some(path) = &config.trace else { return Ok(()) };
    let refused = |why: &str| Error::System {
        operation: format!("writing the trace {}", path.display()),
        reason: why.into(),
    };
    place_of(path).map(drop).map_err(refused)
}

/// The name under which ranks write what this process joins to `path`: beside what it replaces. Nobody else has files of this name.
pub(crate) fn part(path: &Path) -> PathBuf {
    let path = place_of(path).unwrap_or_else(|_| path.to_owned());
    let name = path.file_name().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    let part = path.with_file_name(format!(".{name}.{}", std::process::id()));
    // A rank may change its directory.
    std::path::absolute(&part).unwrap_or(part)
}

fn create(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = io::BufWriter::new(std::fs::File::create(path)?);
    write(&mut out)?;
    out.flush()
}

fn format_all(
    out: &mut dyn Write,
    format: TraceFormat,
    path: &Path,
    origin: u64,
    ranks: &[Timeline],
) -> io::Result<()> {
    if format.is_paje(path) { paje::write(out, origin, ranks) } else { chrome::write(out, origin, ranks) }
}

/// Joins what ranks wrote under the name [`part`] to `path`. Ranks that left nothing (killed, or no program of this
/// library) are left out, and named on standard error, as is the number of events that a ring had no place for. If
/// `path` cannot be written, what the ranks wrote stays, and standard error says where.
pub(crate) fn join(path: &Path, format: TraceFormat, ranks: u32) {
    let part = part(path);
    let (mut timelines, mut missing) = (Vec::new(), Vec::new());
    // Under the name that no rank's part has until it is whole.
    let written = create(&part, |out| {
        for rank in 0..ranks {
            match std::fs::read_to_string(file(&part, rank)).ok().and_then(|text| Part::read(&text)) {
                Some(part) => timelines.push(Timeline::of(&part)),
                None => missing.push(rank),
            }
        }
        let origin = timelines.iter().map(|t| t.since).min().unwrap_or(0);
        format_all(out, format, path, origin, &timelines)
    });
    // Not what has become something else meanwhile.
    let place = || place_of(path).map_err(io::Error::other);
    if let Err(error) = written.and_then(|()| std::fs::rename(&part, place()?)) {
        say(format_args!("tocsin: the trace {} was not written: {error}", path.display()));
        let _gone = std::fs::remove_file(&part);
        let mut left = (0..ranks).map(|rank| file(&part, rank)).filter(|of_rank| of_rank.exists()).peekable();
        if left.peek().is_some() {
            let left = listed(left.map(|of_rank| of_rank.display().to_string()));
            say(format_args!("tocsin: what its ranks recorded is left in {left}"));
        }
        return;
    }
    for rank in 0..ranks {
        // What is not there is not there.
        let _gone = std::fs::remove_file(file(&part, rank));
    }
    tell_lost(path, &timelines);
    if !missing.is_empty() {
        let left_none = match missing.len() {
            1 => "left no trace (it did not join the world, or did not leave it in good order)",
            _ => "left no trace (they did not join the world, or did not leave it in good order)",
        };
        let missing = listed(missing.iter().map(|rank| format!("rank {rank}")));
        say(format_args!("tocsin: the trace {} lacks {missing}: {left_none}", path.display()));
    }
}

fn tell_lost(path: &Path, timelines: &[Timeline]) {
    let mut lost = timelines.iter().filter(|t| t.lost > 0).peekable();
    if lost.peek().is_some() {
        say(format_args!(
            "tocsin: the trace {} lacks the first events of ranks that recorded more than {EVENTS}: {}",
            path.display(),
            listed(lost.map(|t| format!("{} of rank {}", t.lost, t.rank)))
        ));
    }
}

/// Some of them, and how many more there are.
fn listed(all: impl Iterator<Item = String>) -> String {
    const NAMED: usize = 8;
    let all: Vec<String> = all.collect();
    match all.len() {
        n if n > NAMED => format!("{} and {} more", all[..NAMED].join(", "), n - NAMED),
        _ => all.join(", "),
    }
}

#[cfg(test)]
mod tests;
