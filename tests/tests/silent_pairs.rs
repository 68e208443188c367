//! A pair of ranks that have never talked takes no memory. Counted in pages that the kernel has given, not in what is
//! reserved.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tocsin_p2p::{Budget, Config, P2p};
use tocsin_shm_transport::{Life, Segment, ShmTransport};
use tocsin_tests as _; // Links the tripwire allocator.

/// What is counted is the whole process's.
static ALONE: Mutex<()> = Mutex::new(());

/// One test at a time, and none takes what another has given back without its being counted.
fn alone() -> MutexGuard<'static, ()> {
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: no precondition.
    unsafe { libc::malloc_trim(0) };
    alone
}

/// Bytes of this process's own memory that are there: its shared mappings and its programs' text are not.
fn anonymous() -> u64 {
    let all = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let line = all.lines().find_map(|line| line.strip_prefix("Anonymous:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
}

/// Message pools as a world's.
fn config() -> Config {
    Config { eager_max: 16 << 10, coll_eager_max: 64 << 10, ..Config::default() }
}

const ENDS: u32 = 4;

/// The first ranks of a world of so many, and what they take, in bytes, after a pass each.
fn first_ranks(ranks: u32) -> (Vec<P2p<ShmTransport>>, u64) {
    let segment = Arc::new(Segment::create(ranks).unwrap());
    (0..ranks).for_each(|rank| segment.set_life(rank, Life::Alive));
    let before = anonymous();
    let ends = (0..ENDS).map(|rank| {
        let transport = ShmTransport::new(segment.clone(), rank).unwrap();
        let mut end = P2p::new(transport, config()).unwrap();
        end.progress(&mut Budget::user());
        end
    });
    let ends = ends.collect();
    let taken = anonymous().saturating_sub(before);
    (ends, taken)
}

#[test]
fn a_rank_takes_nothing_for_those_it_has_nothing_to_do_with() {
    let _alone = alone();
    // All of them stay, so that none is made of what another has given back.
    let mut kept = vec![first_ranks(ENDS)];
    // Worlds that reserve alike for each pair: up to 32 ranks, and above 64.
    for (few, many) in [(4, 32), (72, 1024)] {
        let [less, more] = [few, many].map(|ranks| {
            kept.push(first_ranks(ranks));
            kept.last().unwrap().1
        });
        let peers = u64::from(ENDS * (many - few));
        println!("{few} ranks: {less} bytes, {many} ranks: {more}, {peers} peers more");
        // A bit in a set or two, and pages that are not full.
        let grown = more.saturating_sub(less);
        assert!(grown <= 16 * 4096, "{grown} bytes for {peers} silent peers");
    }
}

#[test]
fn the_end_of_a_silent_peer_takes_nothing() {
    let _alone = alone();
    let (mut ends, _) = first_ranks(1024);
    let before = anonymous();
    for rank in ENDS..1024 {
        let segment = ends[0].transport().segment().clone();
        segment.set_life(rank, if rank % 2 == 0 { Life::Finalized } else { Life::Dead });
    }
    for end in &mut ends {
        for _ in 0..10 {
            end.progress(&mut Budget::user());
        }
        assert_eq!(end.failed_peer(&[ENDS + 1]).map(|(rank, _)| rank), Some(ENDS + 1));
        assert_eq!(end.failed_epoch(), u64::from(1024 - ENDS));
    }
    let grown = anonymous().saturating_sub(before);
    assert!(grown <= 16 * 4096, "{grown} bytes for peers that ended");
}
