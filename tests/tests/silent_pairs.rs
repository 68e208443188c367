//! A pair of ranks that have never talked takes no memory. Counted in pages that the kernel has given, not in what is
//! reserved, and in bytes of the heap.
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

/// Bytes that the program holds of its heap, by the C library's count: what a thread keeps of small blocks counts, so that one more of these may not show.
fn heap() -> u64 {
    // SAFETY: takes no pointer; locks by itself.
    let all = unsafe { libc::mallinfo2() };
    (all.uordblks + all.hblkhd) as u64
}

/// Both, now.
fn taken() -> [i64; 2] {
    [anonymous() as i64, heap() as i64]
}

/// Both, since then.
fn since(before: [i64; 2]) -> [i64; 2] {
    let now = taken();
    [0, 1].map(|of| now[of] - before[of])
}

/// Message pools as a world's.
fn config() -> Config {
    Config { eager_max: 16 << 10, coll_eager_max: 64 << 10, ..Config::default() }
}

const ENDS: u32 = 4;

/// The first ranks of a world of so many, and what they take, in bytes of pages and of the heap, after a pass each.
fn first_ranks(ranks: u32) -> (Vec<P2p<ShmTransport>>, [i64; 2]) {
    let segment = Arc::new(Segment::create(ranks).unwrap());
    (0..ranks).for_each(|rank| segment.set_life(rank, Life::Alive));
    let before = taken();
    let ends = (0..ENDS).map(|rank| {
        let transport = ShmTransport::new(segment.clone(), rank).unwrap();
        let mut end = P2p::new(transport, config()).unwrap();
        end.progress(&mut Budget::user());
        end
    });
    let ends = ends.collect();
    (ends, since(before))
}

/// The middle ones of five: what the test's own threads take or give back meanwhile is in one or two of them.
fn median(mut of: impl FnMut() -> [i64; 2]) -> [i64; 2] {
    let all: Vec<[i64; 2]> = (0..5).map(|_| of()).collect();
    [0, 1].map(|which| {
        let mut one: Vec<i64> = all.iter().map(|two| two[which]).collect();
        one.sort_unstable();
        one[2]
    })
}

/// A bit in a set or two of each, in whole words, and pages that are not full: of thousands of peers less than a byte each.
fn assert_little([pages, held]: [i64; 2], peers: u32) {
    println!("{pages} bytes of pages, {held} of the heap for {peers} peers");
    assert!(pages <= 16 * 4096, "{pages} bytes for {peers} silent peers");
    assert!(held <= i64::from(peers / 2 + 256), "{held} bytes of the heap for {peers} silent peers");
}

#[test]
fn a_rank_takes_nothing_for_those_it_has_nothing_to_do_with() {
    let _alone = alone();
    // All of them stay, so that none is made of what another has given back.
    let mut kept = vec![first_ranks(ENDS)];
    // Worlds that reserve alike for each pair: up to 32 ranks, and above 64.
    for (few, many) in [(4, 32), (72, 1024)] {
        let grown = median(|| {
            let [less, more] = [few, many].map(|ranks| {
                kept.push(first_ranks(ranks));
                kept.last().unwrap().1
            });
            [0, 1].map(|of| more[of] - less[of])
        });
        assert_little(grown, ENDS * (many - few));
    }
}

#[test]
fn the_end_of_a_silent_peer_takes_nothing() {
    const RANKS: u32 = 1024;
    let _alone = alone();
    let mut kept = Vec::new();
    let grown = median(|| {
        let (mut ends, _) = first_ranks(RANKS);
        let before = taken();
        for rank in ENDS..RANKS {
            let segment = ends[0].transport().segment().clone();
            segment.set_life(rank, if rank % 2 == 0 { Life::Finalized } else { Life::Dead });
        }
        for end in &mut ends {
            for _ in 0..10 {
                end.progress(&mut Budget::user());
            }
            assert_eq!(end.failed_peer(&[ENDS + 1]).map(|(rank, _)| rank), Some(ENDS + 1));
            assert_eq!(end.failed_epoch(), u64::from(RANKS - ENDS));
        }
        let grown = since(before);
        kept.push(ends);
        grown
    });
    assert_little(grown, ENDS * (RANKS - ENDS));
}
