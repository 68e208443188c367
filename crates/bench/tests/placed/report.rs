//! A rank that says where it runs, and where what it shares with its peers lies.

use super::pages;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tocsin::{BackendKind, Comm, World};
use tocsin_shm_transport::Geometry;
use tocsin_topology::allowed_cpus;

/// Bytes of messages: through lanes, through the sender's pool, in pieces or by single copies.
const SIZES: [usize; 3] = [8, 4 << 10, 256 << 10];
/// A progress thread that is not there and bound by then will not be.
const PATIENCE: Duration = Duration::from_secs(20);

/// A rank that was started by `tocsin run`.
pub fn process() {
    let world = World::from_env().unwrap();
    println!("{}", rank(&world.comm(), 1));
    world.finalize().unwrap();
}

/// A world of threads, as many as the command line says.
pub fn threads() {
    let ranks = std::env::args().nth(2).unwrap().parse().unwrap();
    for report in World::threads(ranks, |comm| rank(&comm, ranks)).unwrap() {
        println!("{report}");
    }
}

/// `here`: how many ranks its process has.
fn rank(comm: &Comm, here: u32) -> Value {
    talk(comm);
    let geometry = Geometry::for_ranks(comm.size());
    let segment = pages::segment();
    // SAFETY: the segment is mapped, all of it, as long as the world.
    let part = |what, of, (offset, bytes): (u64, u64)| unsafe { told(what, of, segment + offset, bytes) };
    let mut memory = vec![heap(comm)];
    for peer in (0..comm.size()).filter(|peer| *peer != comm.rank()) {
        let pool = geometry.pool(peer);
        memory.push(part("block", peer, geometry.rank_pages(peer, peer + 1)));
        memory.push(part("pool", peer, (pool.0, pool.1.into())));
        // What this rank sends by lies with who receives.
        memory.push(part("lanes", peer, geometry.small_part(comm.rank(), peer)));
        memory.push(part("bulk", peer, geometry.bulk_part(comm.rank(), peer)));
    }
    let threads = if comm.backend() == BackendKind::Thread { here as usize } else { 0 };
    let report = json!({
        "rank": comm.rank(), "cpus": allowed_cpus().unwrap(), "progress": progress_threads(threads), "memory": memory
    });
    // Nobody leaves, and nobody's thread ends, before all have looked.
    comm.barrier().unwrap();
    report
}

/// Messages of all kinds between all.
fn talk(comm: &Comm) {
    let (rank, size) = (comm.rank(), comm.size());
    for bytes in SIZES {
        for step in 1..size {
            let (to, from) = ((rank + step) % size, (rank + size - step) % size);
            let mut got = vec![0u8; bytes];
            comm.sendrecv(&vec![rank as u8; bytes], to, 0, &mut got, from, 0).unwrap();
            assert!(got.iter().all(|byte| *byte == from as u8));
        }
    }
    comm.barrier().unwrap();
}

/// What a rank allocates from the heap.
fn heap(comm: &Comm) -> Value {
    let buffer = comm.alloc::<f64>(1 << 12).unwrap();
    // SAFETY: the buffer is there.
    unsafe { told("heap", comm.rank(), buffer.as_ptr().expose_provenance() as u64, 8 << 12) }
}

/// # Safety
/// The range is readable memory.
unsafe fn told(what: &str, of: u32, start: u64, bytes: u64) -> Value {
    let pages = pages::pages(start, bytes);
    // SAFETY: the caller's promise.
    let nodes = unsafe { pages::nodes(&pages) };
    match pages::policies(&pages).and_then(|policies| Ok((policies, nodes?))) {
        Ok((policies, nodes)) => json!({ "what": what, "for": of, "policies": policies, "nodes": nodes }),
        Err(error) => json!({ "what": what, "for": of, "refused": error.to_string() }),
    }
}

/// The processors of this process's progress threads, which are `wanted`. Each takes its name and binds itself first, but after it was
/// started.
fn progress_threads(wanted: usize) -> Vec<usize> {
    let end = Instant::now() + PATIENCE;
    loop {
        let lists = lists_of_progress_threads();
        let cpus: Vec<usize> = lists.iter().filter_map(|list| list.parse().ok()).collect();
        if cpus.len() == lists.len() && cpus.len() >= wanted || Instant::now() > end {
            return cpus;
        }
        std::thread::yield_now();
    }
}

/// As the kernel prints them, in numbers' order.
fn lists_of_progress_threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let statuses = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok());
    let ours = statuses.filter(|text| text.starts_with("Name:\ttocsin-progress"));
    let list = |text: String| {
        let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        Some(list.trim().to_owned())
    };
    let mut all: Vec<String> = ours.filter_map(list).collect();
    all.sort_by_key(|list| list.parse::<usize>().ok());
    all
}
