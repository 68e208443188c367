//! Traces as Chrome trace JSON, readable by Perfetto.

use std::io::Write;
use std::path::{Path, PathBuf};

use tocsin_progress::Trace;
use tocsin_progress::trace::kind;

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

fn name(kind: u16) -> &'static str {
    match kind {
        kind::INTERRUPT => "interrupt",
        kind::INTERRUPT_END => "interrupt end",
        kind::DEFERRED => "deferred",
        kind::THROTTLE => "throttle",
        kind::PASS => "pass",
        kind::SLEEP => "sleep",
        kind::WAKE => "wake",
        _ => "event",
    }
}

/// Writes what the ring holds. A trace that cannot be written is said on standard error: it must not fail the run.
pub(crate) fn write(path: &Path, rank: u32, trace: &Trace) {
    let write = || -> std::io::Result<()> {
        let mut out = std::io::BufWriter::new(std::fs::File::create(path)?);
        writeln!(out, "[")?;
        let mut comma = "";
        for event in trace.drain() {
            // Microseconds with three decimals, from the nanoseconds of CLOCK_MONOTONIC, common to all ranks.
            writeln!(
                out,
                "{comma}{{\"name\":\"{}\",\"ph\":\"i\",\"s\":\"t\",\"ts\":{}.{:03},\"pid\":{rank},\"tid\":{rank},\
                 \"args\":{{\"kind\":{},\"a\":{},\"b\":{}}}}}",
                name(event.kind),
                event.ns / 1000,
                event.ns % 1000,
                event.kind,
                event.a,
                event.b
            )?;
            comma = ",";
        }
        writeln!(out, "]")?;
        out.flush()
    };
    if let Err(error) = write() {
        eprintln!("tocsin: rank {rank}: the trace {} was not written: {error}", path.display());
    }
}
