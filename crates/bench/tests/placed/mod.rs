//! Where ranks, their progress threads and the memory that they share really are, against what `plan placement` says: of whole worlds, by
//! the kernel's own account. On a machine of several NUMA nodes each part lies on the node of the rank that it is for, as
//! `shm-transport/src/segment/numa.rs` says.

mod pages;
mod report;

use serde_json::{Value, json};
use std::collections::BTreeSet;
use tocsin_topology::MemoryNodes;

pub use report::{process, threads};

/// How many NUMA nodes the machine is known to have: then nothing may be left out because they are not seen.
const NODES: &str = "TOCSIN_TEST_NODES";
/// Ranks at most: each looks at the memory of all others.
const MOST_RANKS: u64 = 4;

/// Names and values.
type Variables<'a> = Vec<(&'a str, &'a str)>;

/// A world to look at.
#[derive(Clone, Copy)]
struct World {
    ranks: u64,
    /// Its ranks' own backend.
    backend: &'static str,
    progress: &'static str,
    /// Ranks that are processes, started by `tocsin run`; else threads of one.
    processes: bool,
    /// Told by `TOCSIN_BIND` rather than by `--bind`, as threads always are.
    by_environment: bool,
}

impl World {
    /// The command that starts it, and what it wants in the environment.
    fn command(&self) -> Result<(String, Variables<'_>), String> {
        let World { ranks, backend, progress, .. } = self;
        let bind = ("TOCSIN_BIND", "scatter_numa");
        if !self.processes {
            let variables = vec![bind, ("TOCSIN_BACKEND", backend), ("TOCSIN_PROGRESS", progress)];
            return Ok((format!("threads-placed {ranks}"), variables));
        }
        let mut line = format!("run -n {ranks} --backend {backend}");
        if *progress != "none" {
            line += &format!(" --progress {progress}");
        }
        if !self.by_environment {
            line += " --bind scatter_numa";
        }
        let program = std::env::current_exe().map_err(|e| e.to_string())?;
        line += &format!(" -- {} rank-placed", program.display());
        Ok((line, if self.by_environment { vec![bind] } else { Vec::new() }))
    }
}

/// The test.
pub fn test(uintr: bool) -> Result<(), String> {
    let info = super::rows("info --json")?;
    let info = info.first().ok_or("info says nothing")?;
    let (cores, nodes) = (unsigned(info, "cores")?, unsigned(info, "numa_nodes")?);
    let memory = info["memory"].as_array().ok_or("info says nothing of memory")?;
    let bound =
        memory.iter().find(|row| row["name"] == "bound").ok_or("info says nothing of bound memory")?;
    let placed = bound["usable"] == true;
    if let Ok(known) = std::env::var(NODES) {
        check(known == nodes.to_string(), || format!("{known} nodes, and info says {nodes}"))?;
        check(placed, || format!("memory is not placed: {bound}"))?;
    }
    let backend = if uintr { "uintr" } else { "signal" };
    let ranks = cores.clamp(2, MOST_RANKS);
    let processes = World { ranks, backend, progress: "none", processes: true, by_environment: false };
    let threads = World { processes: false, by_environment: true, ..processes };
    as_planned(&processes, nodes, placed)?;
    as_planned(&threads, nodes, placed)?;
    // Half as many, so that progress threads find free cores.
    let half = |world| World { ranks: (ranks / 2).max(1), backend: "thread", progress: "numa", ..world };
    as_planned(&half(World { by_environment: true, ..processes }), nodes, placed)?;
    as_planned(&half(threads), nodes, placed)
}

fn as_planned(world: &World, nodes: u64, placed: bool) -> Result<(), String> {
    let World { ranks, progress, .. } = world;
    let plan = super::rows(&format!(
        "plan placement --ranks {ranks} --bind scatter_numa --progress {progress} --json"
    ))?;
    let (line, variables) = world.command()?;
    let reports = super::rows_with(&line, &variables)?;
    check(reports.len() as u64 == *ranks, || format!("{line}: {} reports", reports.len()))?;
    let at =
        |rank: &Value| plan.iter().find(|row| row["rank"] == *rank).ok_or(format!("no rank {rank} planned"));
    let mut on_nodes = BTreeSet::new();
    for report in &reports {
        let planned = at(&report["rank"])?;
        let differ = |what: &str| format!("{line}: {what} are not as planned: {report}, {planned}");
        check(report["cpus"] == json!([planned["cpu"]]), || differ("the rank's processors"))?;
        on_nodes.insert(planned["numa"].as_u64());
        if let (true, Some(thread)) = (*progress == "numa" && placed, planned["progress_cpu"].as_u64()) {
            let both = MemoryNodes::machine().of(&[thread as usize, unsigned(planned, "cpu")? as usize]);
            check(both.is_some(), || format!("a progress thread on another node: {planned}"))?;
        }
        // Each rank tells of all progress threads of its process.
        let of_process = |row: &&Value| !world.processes || row["rank"] == report["rank"];
        let mut threads: Vec<u64> =
            plan.iter().filter(of_process).filter_map(|row| row["progress_cpu"].as_u64()).collect();
        threads.sort_unstable();
        check(report["progress"] == json!(threads), || differ("the progress threads' processors"))?;
        for part in report["memory"].as_array().ok_or_else(|| differ("parts of memory"))? {
            let of = at(&part["for"])?;
            lies(part, &memory_node(of, placed)?)
                .map_err(|why| format!("{line}: {why}, says rank {}", report["rank"]))?;
        }
    }
    let wanted = nodes.min(*ranks) as usize;
    check(on_nodes.len() == wanted, || format!("{line}: on {} nodes of {nodes}", on_nodes.len()))
}

/// The node that memory of a rank is to lie on, null where it is not `placed`.
fn memory_node(planned: &Value, placed: bool) -> Result<Value, String> {
    let cpu = planned["cpu"].as_u64().ok_or_else(|| format!("not bound: {planned}"))?;
    let node = MemoryNodes::machine().of(&[cpu as usize]);
    // A processor's node may have no memory, but not where the machine is known.
    let same = planned["numa"].as_u64() == node.map(u64::from);
    check(same || std::env::var_os(NODES).is_none(), || format!("memory on node {node:?}: {planned}"))?;
    Ok(if placed { json!(node) } else { Value::Null })
}

/// Whether a part of memory lies on a node by a policy; null: there is no policy.
fn lies(part: &Value, node: &Value) -> Result<(), String> {
    if part["refused"] != Value::Null {
        // As some containers do.
        return check(std::env::var_os(NODES).is_none(), || format!("the kernel does not tell: {part}"));
    }
    // What users allocate lies near who does it by itself.
    let policy = if part["what"] == "heap" { &Value::Null } else { node };
    let holds = part["policies"] == json!([policy]) && (node.is_null() || part["nodes"] == json!([node]));
    check(holds, || format!("this is not on node {node} alone, or not by the policy {policy}: {part}"))
}

fn check(holds: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why()) }
}

fn unsigned(row: &Value, key: &str) -> Result<u64, String> {
    row[key].as_u64().ok_or_else(|| format!("no {key} in {row}"))
}
