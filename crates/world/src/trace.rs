//! Traces as Chrome trace JSON, readable by Perfetto.
//!
//! Each rank writes a file when it leaves the world; whoever started the ranks joins them to one.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tocsin_progress::Trace;
use tocsin_progress::trace::{Event, kind};

/// Events kept per rank: 2 MiB.
pub(crate) const EVENTS: usize = 64 << 10;

/// The file of one rank: its number before the extension.
pub(crate) fn file(path: &Path, rank: u32) -> PathBuf {
    let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    let name = match path.extension() {
        Some(extension) => format!("{stem}.{rank}.{}", extension.to_string_lossy()),
        None => format!("{stem}.{rank}"),
    };
    path.with_file_name(name)
}

/// The name under which ranks write what this process joins to `path`. Nobody else has files of this name.
pub(crate) fn part(path: &Path) -> PathBuf {
    let name = path.file_name().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    let part = path.with_file_name(format!(".{name}.{}", std::process::id()));
    // A rank may change its directory.
    std::path::absolute(&part).unwrap_or(part)
}

/// [`tocsin_doorbell::Cause`] in order.
const CAUSES: [&str; 4] = ["ring", "timer", "unmask", "user interrupt"];
/// [`tocsin_progress::Context`] in order.
const CONTEXTS: [&str; 3] = ["user", "handler", "progress thread"];

fn of(names: &[&'static str], at: u64) -> &'static str {
    names.get(at as usize).copied().unwrap_or("other")
}

/// One event as a line of JSON. An interrupt is a slice; everything else is an instant.
fn line(rank: u32, event: &Event, cause: u64) -> Option<String> {
    let (name, arguments) = match event.kind {
        kind::INTERRUPT => return None, // shown by its end
        kind::INTERRUPT_END => {
            ("interrupt", format!("\"cause\":\"{}\",\"work_left\":{}", of(&CAUSES, cause), event.b))
        }
        kind::DEFERRED => ("deferred", String::new()),
        kind::THROTTLE => ("throttle", format!("\"for_ns\":{}", event.a)),
        kind::PASS => ("pass", format!("\"by\":\"{}\",\"work_left\":{}", of(&CONTEXTS, event.a), event.b)),
        kind::SLEEP => ("sleep", String::new()),
        kind::WAKE => ("wake", format!("\"woken\":{}", event.a)),
        other => ("event", format!("\"kind\":{other},\"a\":{},\"b\":{}", event.a, event.b)),
    };
    let took = if event.kind == kind::INTERRUPT_END { event.a } else { 0 };
    let begun = event.ns.saturating_sub(took);
    let shape = match event.kind {
        kind::INTERRUPT_END => format!("\"ph\":\"X\",\"dur\":{}.{:03}", took / 1000, took % 1000),
        _ => "\"ph\":\"i\",\"s\":\"t\"".into(),
    };
    // Microseconds with three decimals, from the nanoseconds of CLOCK_MONOTONIC, common to all ranks.
    Some(format!(
        "{{\"name\":\"{name}\",{shape},\"ts\":{}.{:03},\"pid\":{rank},\"tid\":{rank},\"args\":{{{arguments}}}}}",
        begun / 1000,
        begun % 1000,
    ))
}

/// Writes what the ring holds. A trace that cannot be written is said on standard error: it must not fail the run.
pub(crate) fn write(path: &Path, rank: u32, trace: &Trace) {
    let write = || -> io::Result<()> {
        let mut out = io::BufWriter::new(std::fs::File::create(path)?);
        writeln!(out, "[")?;
        write!(
            out,
            "{{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":{rank},\"args\":{{\"name\":\"rank {rank}\"}}}}"
        )?;
        let mut cause = 0;
        for event in trace.drain() {
            if event.kind == kind::INTERRUPT {
                cause = event.a;
            }
            if let Some(line) = line(rank, &event, cause) {
                write!(out, ",\n{line}")?;
            }
        }
        writeln!(out, "\n]")?;
        out.flush()
    };
    if let Err(error) = write() {
        eprintln!("tocsin: rank {rank}: the trace {} was not written: {error}", path.display());
    }
}

/// Joins the files that ranks wrote under the name [`part`] to `path`. Ranks that left none (killed, or no program of
/// this library) are left out.
pub(crate) fn join(path: &Path, ranks: u32) {
    let part = part(path);
    let join = || -> io::Result<()> {
        let mut out = io::BufWriter::new(std::fs::File::create(path)?);
        let mut before = "[\n";
        for rank in 0..ranks {
            let of_rank = file(&part, rank);
            let Ok(text) = std::fs::read_to_string(&of_rank) else { continue };
            std::fs::remove_file(of_rank)?;
            let events = text.strip_prefix("[\n").and_then(|t| t.strip_suffix("\n]\n"));
            if let Some(events) = events {
                write!(out, "{before}{events}")?;
                before = ",\n";
            }
        }
        writeln!(out, "{}", if before.starts_with('[') { "[]" } else { "\n]" })?;
        out.flush()
    };
    if let Err(error) = join() {
        eprintln!("tocsin: the trace {} was not written: {error}", path.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_is_a_slice_from_its_beginning() {
        let end = Event { ns: 5_000, kind: kind::INTERRUPT_END, a: 1_500, b: 1 };
        assert_eq!(
            line(3, &end, 2).unwrap(),
            r#"{"name":"interrupt","ph":"X","dur":1.500,"ts":3.500,"pid":3,"tid":3,"args":{"cause":"unmask","work_left":1}}"#
        );
        assert_eq!(line(3, &Event { ns: 1, kind: kind::INTERRUPT, a: 0, b: 0 }, 0), None);
    }

    #[test]
    fn files_of_ranks_are_joined_and_gone() {
        let dir = std::env::temp_dir().join(format!("tocsin-trace-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("trace.json");
        join(&path, 2);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "[]\n");
        let trace = Trace::new(4);
        trace.record_at(7, kind::SLEEP, 0, 0);
        write(&file(&part(&path), 0), 0, &trace);
        write(&file(&part(&path), 2), 2, &trace);
        join(&path, 3);
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 2 + 4, "{text}");
        assert!(text.contains("},\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":2"), "{text}");
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
