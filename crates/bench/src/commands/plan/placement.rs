//! `tocsin plan placement`: a row per rank.

use super::environment;
use crate::cli::Placement;
use crate::commands::default_bind;
use crate::error::Error;
use crate::row::{Row, Sink, print};
use std::collections::BTreeMap;
use tocsin_topology::{Policy, ProgressPolicy, Topology};
use tocsin_world::launcher::MAX_RANKS;

pub(crate) fn run(args: &Placement) -> Result<(), Error> {
    let mut config = environment()?;
    if let Some(text) = &args.topology {
        // The parser says more than that the value is wrong.
        Topology::synthetic(text).map_err(|e| Error::Usage(e.to_string()))?;
        config.topology = Some(text.clone());
    }
    config.reserve = args.reserve.unwrap_or(config.reserve);
    let machine = config.machine().map_err(Error::failed)?;
    let progress = args.progress.unwrap_or(config.progress);
    let cores = machine.cores.len() as u64;
    let ranks =
        args.ranks.as_ref().map_or_else(|| vec![cores.min(u64::from(MAX_RANKS))], |list| list.0.clone());
    let mut heading = (!args.json).then(|| format!("{}: {}\n\n", machine.source, machine.summary()));
    let mut sink = Sink::new(args.json);
    for ranks in ranks {
        let bind = default_bind(args.bind, &config, &machine, ranks as usize);
        let rows = rows(&machine, config.reserve as usize, bind, progress, ranks as usize)?;
        if let Some(heading) = heading.take() {
            print(&heading);
        }
        for row in rows {
            sink.row(&row);
        }
    }
    Ok(())
}

fn rows(
    machine: &Topology,
    reserved: usize,
    bind: Policy,
    progress: ProgressPolicy,
    ranks: usize,
) -> Result<Vec<Row>, Error> {
    let seats = machine.seats_beside(reserved, bind, progress, ranks);
    let seats = seats.map_err(|e| Error::Usage(e.to_string()))?;
    let core_of: BTreeMap<usize, usize> = (0..)
        .zip(&machine.cores)
        .flat_map(|(at, core)| core.cpus.iter().map(move |cpu| (*cpu, at)))
        .collect();
    let core_of = |cpu: usize| core_of.get(&cpu).copied();
    let row = |(rank, seat): (u64, &tocsin_topology::Seat)| {
        let core = seat.cpu.and_then(core_of);
        let node = core.and_then(|core| machine.nodes.get(machine.cores.get(core)?.node));
        Row::new("plan placement")
            .set("ranks", ranks)
            .set("bind", bind.name())
            .set("progress", progress.name())
            .set("reserve", (reserved > 0).then_some(reserved))
            .set("rank", rank)
            .set("core", core)
            .set("cpu", seat.cpu)
            .set("numa", node.map(|node| node.number))
            .set("progress_core", seat.progress.and_then(core_of))
            .set("progress_cpu", seat.progress)
    };
    Ok((0..).zip(&seats).map(row).collect())
}
