//! `tocsin plan schedule`: a row per algorithm, number of ranks and size.

use crate::cli::Schedule;
use crate::error::Error;
use crate::row::{Row, Sink};
use crate::simulate::Collective;
use std::collections::BTreeSet;
use tocsin_nbc::table::{self, Operation};
use tocsin_world::say;

pub(crate) fn run(args: &Schedule) -> Result<(), Error> {
    let algorithms = algorithms(args)?;
    // A barrier has no size.
    let sizes = if args.op == Operation::Ibarrier { &[0][..] } else { &args.sizes.0 };
    let mut sink = Sink::new(args.json);
    let (mut rows, mut skipped) = (0, Skipped::default());
    for &ranks in &args.ranks.0 {
        for &bytes in sizes {
            for &algorithm in &algorithms {
                let (ranks, bytes) = (ranks as u32, bytes as usize);
                let collective = Collective { operation: args.op, algorithm, ranks, bytes, root: args.root };
                match row(&collective, args) {
                    Ok(row) => {
                        sink.row(&row);
                        rows += 1;
                    }
                    // Of all, those that can.
                    Err(Error::Usage(why)) if args.is_all() => skipped.note(algorithm, ranks, why),
                    Err(error) => return Err(error),
                }
            }
        }
    }
    if rows == 0 {
        let none = format!("no algorithm of {} can be simulated so: the notes above say why", args.op);
        return Err(Error::Usage(none));
    }
    Ok(())
}

/// What has been said of algorithms without a row: each reason once, though there are many numbers of ranks and sizes.
#[derive(Default)]
struct Skipped(BTreeSet<(Option<&'static str>, String)>);

impl Skipped {
    fn note(&mut self, algorithm: Option<&'static str>, ranks: u32, why: String) {
        if self.0.insert((algorithm, why.clone())) {
            let name = algorithm.unwrap_or_default();
            say(format_args!("tocsin: no row for {name} with {ranks} ranks: {why}"));
        }
    }
}

impl Schedule {
    fn is_all(&self) -> bool {
        self.algorithm.as_deref() == Some("all")
    }
}

/// Those to simulate; `None` is what the library chooses.
fn algorithms(args: &Schedule) -> Result<Vec<Option<&'static str>>, Error> {
    match args.algorithm.as_deref() {
        None => Ok(vec![None]),
        Some(_) if args.is_all() => Ok(table::of(args.op).map(|algorithm| Some(algorithm.name)).collect()),
        Some(name) => {
            let found = table::find(args.op, name).map_err(|e| Error::Usage(e.to_string()))?;
            Ok(vec![Some(found.name)])
        }
    }
}

fn row(collective: &Collective, args: &Schedule) -> Result<Row, Error> {
    let totals = collective.simulate(&args.model)?;
    let row = Row::new("plan schedule")
        .set("op", args.op.name())
        .set("algorithm", collective.algorithm()?.name)
        .set("ranks", collective.ranks)
        .set("size_bytes", collective.bytes)
        .set("steps", totals.steps)
        .set("messages", totals.messages)
        .set("bytes", totals.bytes)
        .set("critical_messages", totals.chain)
        .number("critical_path_us", totals.time_ps as f64 / 1e6);
    Ok(if args.json { row.set("model", args.model.to_string()) } else { row })
}
