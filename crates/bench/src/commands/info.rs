//! `tocsin info`: what this machine can do, and why it cannot do the rest.

mod devices;
mod tuning;

use crate::cli::Info;
use crate::error::Error;
use crate::plot::{cpu_model, kernel};
use crate::row::{Row, Sink, print};
use serde_json::{Value, json};
use tocsin_topology::Topology;
use tocsin_world::{Bind, Config, heap_refusal, placement_refusal, world_refusal};

/// Something that may be usable, and why it is not if not.
struct Usable {
    name: &'static str,
    what: &'static str,
    why_not: Option<String>,
}

pub(crate) fn run(args: &Info) -> Result<(), Error> {
    let probe = tocsin_uintr_sys::probe();
    let topology = Topology::machine().map_err(Error::failed)?;
    let config = Config::from_env().unwrap_or_default();
    let heap = heap_refusal(&config);
    let world = world_refusal(&config);
    let lmt = strategies(world.clone(), heap.clone());
    let (backends, memory, devices) = (backends(world), memory(heap), devices::all());
    let tuning = tuning::read();
    if args.json {
        let row = Row::new("info")
            .set("uintr_cpu", probe.cpuid)
            .set("uintr_kernel", probe.kernel_enabled)
            .set("backends", list(&backends))
            .set("lmt", list(&lmt))
            .set("memory", list(&memory))
            .set("devices", devices.iter().map(device_entry).collect::<Value>())
            .set("tune", tuning::value(tuning.as_ref()))
            .set("cores", topology.cores.len())
            .set("pus", topology.pus())
            .set("numa_nodes", topology.nodes.len())
            .set("topology", describe(&topology))
            .set("cpu", cpu_model())
            .set("kernel", kernel())
            .set("version", tocsin_world::VERSION);
        Sink::new(true).row(&row);
        return Ok(());
    }
    let yes = |b: bool| if b { "yes" } else { "no" };
    let mut text = format!(
        "tocsin {}, Linux {}, {}\n\nUser interrupts\n  CPU has them            {}\n  kernel enabled them     {}\n  \
         kernel interface        {}\n",
        tocsin_world::VERSION,
        kernel(),
        cpu_model(),
        yes(probe.cpuid),
        yes(probe.kernel_enabled),
        interface()
    );
    text += "\nBackends (how a rank is notified)\n";
    text += &table(&backends);
    text += "\nStrategies for large messages (LMT)\n";
    text += &table(&lmt);
    text += "\nMemory that ranks share\n";
    text += &table(&memory);
    text += "\nDevices for large messages (of these tocsin uses xpmem and knem)\n";
    for device in &devices {
        text += &format!("  {:<9} {:<13} {}\n", device.name, device.presence.word(), device.why);
    }
    text += "\nMeasured thresholds and algorithms\n";
    text += &tuning::text(tuning.as_ref());
    text += &format!("\nTopology (from {})\n  {}\n", topology.source, topology.summary());
    for (at, core) in topology.cores.iter().enumerate() {
        let cpus: Vec<String> = core.cpus.iter().map(ToString::to_string).collect();
        let node = topology.nodes.get(core.node).map_or(0, |node| node.number);
        text += &format!("  core {at}: cpu {}, NUMA node {node}, package {}\n", cpus.join(","), core.package);
    }
    print(&text);
    Ok(())
}

/// The kernel's interface to user interrupts.
fn interface() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    {
        tocsin_uintr_sys::kernel().map_or("none", |kernel| kernel.name())
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        "none"
    }
}

/// `world`: why there is none.
fn backends(world: Option<String>) -> Vec<Usable> {
    let all = vec![
        Usable {
            name: "uintr",
            what: "a user interrupt, without the kernel",
            why_not: tocsin_uintr_sys::why_not().or_else(tocsin_doorbell::signal_refusal),
        },
        Usable { name: "signal", what: "a signal", why_not: tocsin_doorbell::signal_refusal() },
        Usable { name: "thread", what: "a progress thread beside each rank", why_not: None },
        Usable { name: "poll", what: "not at all: progress inside calls only", why_not: None },
    ];
    in_a_world(all, world.as_ref())
}

/// Whatever the system has, without a world there are no ranks that could use it.
fn in_a_world(mut all: Vec<Usable>, world: Option<&String>) -> Vec<Usable> {
    for one in &mut all {
        one.why_not = one.why_not.take().or_else(|| world.cloned());
    }
    all
}

/// `world`, `heap`: why there is none.
fn strategies(world: Option<String>, heap: Option<String>) -> Vec<Usable> {
    let by_heap = heap.map(|why| format!("{why}; between ranks of one process it works all the same"));
    let all = vec![
        Usable {
            name: "direct",
            what: "one plain copy, between ranks of one process and from and to the shared heap",
            why_not: world.clone().or(by_heap),
        },
        Usable {
            name: "xpmem",
            what: "one plain copy, of memory that the device maps between processes",
            why_not: tocsin_world::xpmem_refusal(),
        },
        Usable {
            name: "cma",
            what: "process_vm_readv and process_vm_writev",
            why_not: tocsin_world::cma_refusal(),
        },
        Usable {
            name: "knem",
            what: "copies by the device, if asked for or where the kernel refuses those between two ranks",
            why_not: tocsin_world::knem_refusal(),
        },
        Usable {
            name: "vmsplice",
            what: "pages that the sender puts into a pipe, if asked for or found to be quicker by `tocsin tune`",
            why_not: tocsin_world::vmsplice_refusal(),
        },
        Usable { name: "double", what: "double buffering through shared memory", why_not: None },
    ];
    in_a_world(all, world.as_ref())
}

/// `heap`: why there is none.
fn memory(heap: Option<String>) -> Vec<Usable> {
    vec![
        Usable {
            name: "heap",
            what: "buffers from Comm::alloc and tocsin_alloc, copied directly by either rank",
            why_not: heap,
        },
        Usable {
            name: "bound",
            what: "on the NUMA node of the rank that it is for, of ranks that are bound (TOCSIN_BIND)",
            why_not: unbound().or_else(placement_refusal),
        },
    ]
}

/// Why no rank is bound, if somebody has said so: the ranks of `tocsin run` are, unless told otherwise.
fn unbound() -> Option<String> {
    let said = std::env::var_os("TOCSIN_BIND").is_some();
    let config = Config::from_env().ok().filter(|_| said)?;
    (config.bind == Bind::None).then(|| "TOCSIN_BIND is none: ranks that are not bound have no node".into())
}

fn device_entry(device: &devices::Device) -> Value {
    let driven = match device.name {
        "xpmem" => tocsin_world::xpmem_refusal().is_none(),
        "knem" => tocsin_world::knem_refusal().is_none(),
        _ => false,
    };
    json!({"name": device.name, "presence": device.presence.word(), "why": device.why, "driven": driven})
}

fn list(all: &[Usable]) -> Value {
    let one = |u: &Usable| {
        let mut entry = json!({"name": u.name, "usable": u.why_not.is_none()});
        if let (Some(why), Some(entry)) = (&u.why_not, entry.as_object_mut()) {
            entry.insert("why_not".into(), why.clone().into());
        }
        entry
    };
    all.iter().map(one).collect()
}

fn table(all: &[Usable]) -> String {
    let line = |u: &Usable| match &u.why_not {
        None => format!("  {:<9} usable      {}\n", u.name, u.what),
        Some(why) => format!("  {:<9} not usable  {why}\n", u.name),
    };
    all.iter().map(line).collect()
}

fn describe(topology: &Topology) -> Value {
    let cores = topology.cores.iter().map(|core| {
        let node = topology.nodes.get(core.node).map_or(0, |node| node.number);
        json!({"cpus": core.cpus, "numa": node, "package": core.package})
    });
    let caches = topology.caches.iter().map(|c| json!({"level": c.level, "bytes": c.bytes, "cpus": c.cpus}));
    json!({"source": topology.source, "cores": cores.collect::<Value>(), "caches": caches.collect::<Value>()})
}
