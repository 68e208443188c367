//! Models of a transfer: both ranks claim and copy; one closes meanwhile; a late rank meets the next transfer; a buffer is read that its owner gives
//! back. Broken variants are caught.
#![cfg(loom)]
#![allow(clippy::unwrap_used)]

use tocsin_sync::atomic::{AtomicU32, Ordering};
use tocsin_sync::cell::UnsafeCell;
use tocsin_sync::model::{self, sync::Arc, thread};
use tocsin_transport::transfer::{Claim, Real, Record, Variant, chunk_bytes, chunks, next_chunk};

const CHUNKS: u32 = 2;
/// Two chunks, one of them short.
const TOTAL: u64 = 16 * 1024 + 1;

/// A buffer of two chunks that both ranks write, never the same one at once.
struct Scene {
    record: Record,
    chunks: [UnsafeCell<u32>; CHUNKS as usize],
    last: AtomicU32,
}

// SAFETY: the record says who may touch a chunk; loom checks that it does.
unsafe impl Sync for Scene {}
// SAFETY: as above.
unsafe impl Send for Scene {}

impl Scene {
    fn new() -> Arc<Scene> {
        let scene = Scene {
            record: Record::new(),
            chunks: [UnsafeCell::new(0), UnsafeCell::new(0)],
            last: AtomicU32::new(0),
        };
        scene.record.open(1);
        assert_eq!(chunks(TOTAL), Some(CHUNKS));
        Arc::new(scene)
    }

    /// Copies what there is to copy, from its own end; whether this rank counted the last chunk.
    fn copy<V: Variant>(&self, from_back: bool) -> bool {
        let (mut last, mut done) = (false, 0);
        for _ in 0..=CHUNKS {
            let Claim::Chunk(_) = self.record.claim_as::<V>(1, CHUNKS) else { break };
            let (at, len) = next_chunk(TOTAL, done, from_back).unwrap();
            done += len as u64;
            let n = at / chunk_bytes(TOTAL);
            // SAFETY: loom checks that nobody else does.
            self.chunks[n as usize].with_mut(|chunk| unsafe { *chunk += 1 });
            last = self.record.finish_as::<V>(CHUNKS);
        }
        last
    }
}

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = model::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// Both copy; whoever counts the last chunk sees all of them, each copied once.
fn together<V: Variant>() {
    check(|| {
        let scene = Scene::new();
        let other = scene.clone();
        let work = move |scene: Arc<Scene>, from_back: bool| {
            if scene.copy::<V>(from_back) {
                scene.last.fetch_add(1, Ordering::Relaxed);
                for chunk in &scene.chunks {
                    // SAFETY: loom checks that all copies came before.
                    assert_eq!(chunk.with(|c| unsafe { *c }), 1, "not copied once");
                }
            }
        };
        let thread = thread::spawn(move || work(other, true));
        work(scene.clone(), false);
        thread.join().unwrap();
        assert_eq!(scene.last.load(Ordering::Relaxed), 1, "told by one");
    });
}

#[test]
fn two_ranks_copy_each_chunk_once() {
    together::<Real>();
}

struct Unpublished;
impl Variant for Unpublished {
    const FINISH: Ordering = Ordering::Relaxed;
}

#[test]
#[should_panic]
fn a_count_that_publishes_nothing_is_caught() {
    together::<Unpublished>();
}

/// One rank gives its buffer back while the other copies: after it is quiet nobody writes there.
fn closing<V: Variant>() {
    check(|| {
        let scene = Scene::new();
        let other = scene.clone();
        let thread = thread::spawn(move || {
            other.copy::<V>(true);
        });
        scene.record.close(1, false).unwrap();
        while !scene.record.is_quiet_as::<V>(1) {
            thread::yield_now();
        }
        for chunk in &scene.chunks {
            // The buffer is the user's again. SAFETY: loom checks that the other rank is out.
            chunk.with_mut(|c| unsafe { *c = 99 });
        }
        thread.join().unwrap();
    });
}

#[test]
fn a_closed_transfer_is_left_alone() {
    closing::<Real>();
}

struct Hasty;
impl Variant for Hasty {
    const QUIET: Ordering = Ordering::Relaxed;
}

#[test]
#[should_panic]
fn a_hasty_look_is_caught() {
    closing::<Hasty>();
}

struct TwoSteps;
impl Variant for TwoSteps {
    const ONE_STEP: bool = false;
}

#[test]
#[should_panic]
fn a_claim_in_two_steps_is_caught() {
    closing::<TwoSteps>();
}

/// The sender finishes and uses the record anew while the receiver tries to claim.
fn late<V: Variant>() {
    check(|| {
        let scene = Scene::new();
        let other = scene.clone();
        let thread = thread::spawn(move || {
            matches!(other.record.claim_as::<V>(1, CHUNKS), Claim::Chunk(_)) && {
                other.record.finish_as::<V>(CHUNKS);
                true
            }
        });
        let mut mine = 0;
        while let Claim::Chunk(_) = scene.record.claim_as::<Real>(1, CHUNKS) {
            scene.record.finish(CHUNKS);
            mine += 1;
        }
        while !scene.record.is_complete(CHUNKS) {
            thread::yield_now();
        }
        scene.record.open(2);
        assert_eq!(scene.record.claim(2, CHUNKS), Claim::Chunk(0), "stolen from the next transfer");
        let theirs = u32::from(thread.join().unwrap());
        assert_eq!(mine + theirs, CHUNKS, "stolen from the next transfer");
    });
}

#[test]
fn a_late_rank_takes_nothing_from_the_next_transfer() {
    late::<Real>();
}

#[test]
#[should_panic]
fn a_late_claim_in_two_steps_is_caught() {
    late::<TwoSteps>();
}

/// The sender gives its buffer back while the receiver reads it, unclaimed: who reads what came after that learns it.
fn given_up<V: Variant>() {
    check(|| {
        let scene = Arc::new((Record::new(), AtomicU32::new(1)));
        scene.0.open(1);
        let other = scene.clone();
        let thread = thread::spawn(move || {
            let (record, buffer) = &*other;
            let read = buffer.load(Ordering::Relaxed);
            assert!(record.was_given_up(1, CHUNKS) || read == 1, "taken for the message");
        });
        let (record, buffer) = &*scene;
        record.give_up_as::<V>(1, false);
        assert!(record.is_quiet(1));
        buffer.store(2, Ordering::Relaxed);
        // And the record may serve the next message by now.
        record.open(2);
        thread.join().unwrap();
    });
}

#[test]
fn what_is_read_after_it_was_given_up_is_no_message() {
    given_up::<Real>();
}

struct SaidLate;
impl Variant for SaidLate {
    const SAID_FIRST: bool = false;
}

#[test]
#[should_panic]
fn a_buffer_that_is_written_before_it_is_said_to_be_given_up_is_caught() {
    given_up::<SaidLate>();
}
