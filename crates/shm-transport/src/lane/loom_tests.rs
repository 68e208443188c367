//! The lane under loom: the text that ships, between a producer and a consumer that both sleep when they have
//! nothing to do. A wake-up that is lost is a deadlock, which loom reports.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p tocsin-shm-transport --release --lib loom`

use std::sync::Arc;

use loom::sync::Notify;
use tocsin_sync::atomic::{AtomicU64, Ordering, fence, real};
use tocsin_transport::Header;

use super::*;

/// A lane in this process, and the two doorbells.
struct Model {
    head: LaneHead,
    slots: Box<[Slot]>,
    data: *mut [u64],
    shape: Shape,
    to_consumer: Notify,
    to_producer: Notify,
}

// SAFETY: the data ring is touched by the lane's two sides only, as the protocol allows.
unsafe impl Send for Model {}
// SAFETY: as above.
unsafe impl Sync for Model {}

impl Model {
    fn new(slots: u32, data: u32) -> Arc<Model> {
        Arc::new(Model {
            head: LaneHead::new(),
            slots: (0..slots).map(|_| Slot(std::array::from_fn(|_| AtomicU64::new(0)))).collect(),
            data: Box::into_raw(vec![0u64; data as usize / 8].into_boxed_slice()),
            shape: Shape { slots, data, max_payload: data / 2 },
            to_consumer: Notify::new(),
            to_producer: Notify::new(),
        })
    }

    fn place(&self) -> Place {
        Place {
            head: &raw const self.head,
            slots: self.slots.as_ptr(),
            data: self.data.cast::<u8>(),
            shape: self.shape,
        }
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        // SAFETY: made by `Box::into_raw` and freed once.
        drop(unsafe { Box::from_raw(self.data) });
    }
}

/// What is left out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Variant {
    /// Nothing.
    Ships,
    /// The producer's fence.
    Unfenced,
    /// The producer's notice of a starving flag that was taken.
    Forgetful,
    /// Nothing, but slots are given back two at a time.
    Grained,
    /// That slots are given back before there are no others left.
    Greedy,
}

/// Packets of the given lengths.
fn run(slots: u32, data: u32, lengths: &'static [usize], variant: Variant) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(builder.preemption_bound.unwrap_or(3));
    let executions = std::sync::Arc::new(real::AtomicU64::new(0));
    let counter = executions.clone();
    builder.check(move || {
        counter.fetch_add(1, Ordering::Relaxed);
        let model = Model::new(slots, data);
        let producer = {
            let model = model.clone();
            loom::thread::spawn(move || {
                // SAFETY: the only producer, on a fresh lane that lives in `model`.
                let mut lane = unsafe { SendLane::new(model.place()) };
                lane.broken = variant == Variant::Unfenced;
                lane.forgets = variant == Variant::Forgetful;
                for (n, len) in lengths.iter().enumerate() {
                    let header = Header { kind: 1, a: n as u64, ..Header::default() };
                    let payload = [n as u8 + 1; 128];
                    loop {
                        // SAFETY: `payload` has `len` bytes.
                        match unsafe { lane.try_push(&header, payload.as_ptr(), *len) } {
                            Push::Sent => break,
                            // As a rank: who wakes looks before it passes.
                            Push::Full => {
                                while !lane.retry_is_due() {
                                    model.to_producer.wait();
                                }
                            }
                            Push::Corrupt => panic!("an honest lane is corrupt"),
                        }
                    }
                    fence(Ordering::SeqCst);
                    model.to_consumer.notify();
                }
            })
        };
        // SAFETY: the only consumer, on a fresh lane that lives in `model`.
        let mut lane = unsafe { RecvLane::new(model.place()) };
        lane.grain = match variant {
            Variant::Grained => 2,
            Variant::Greedy => slots + 1,
            _ => 1,
        };
        let mut next = 0;
        while let Some(len) = lengths.get(next).copied() {
            match lane.peek() {
                Peek::Empty => model.to_consumer.wait(),
                Peek::Packet(header, got, payload) => {
                    assert_eq!((header.a, got), (next as u64, len), "lost, doubled or out of order");
                    if len > 16 {
                        // SAFETY: the payload is readable until it is consumed.
                        assert_eq!(unsafe { payload.read() }, next as u8 + 1);
                    }
                    next += 1;
                    match lane.consume() {
                        Consumed::Nothing => panic!("it was peeked at"),
                        // As a rank, which flushes for what is given back.
                        Consumed::Kept => continue,
                        Consumed::GivenBack => {}
                    }
                    fence(Ordering::SeqCst);
                    if lane.wakes_producer() {
                        model.to_producer.notify();
                    }
                }
                Peek::Corrupt => panic!("an honest lane is corrupt"),
            }
        }
        producer.join().unwrap();
    });
    println!("{slots} slots, {lengths:?} bytes: {} executions", executions.load(Ordering::Relaxed));
}

#[test]
fn loom_one_slot() {
    run(1, 0, &[0; 3], Variant::Ships);
}

#[test]
fn loom_two_slots() {
    run(2, 0, &[0; 4], Variant::Ships);
}

#[test]
fn loom_data_ring() {
    run(8, 128, &[64; 4], Variant::Ships);
}

/// One packet given back is not room enough for the last.
const SHORT_AND_LONG: &[usize] = &[64, 64, 64, 128];

#[test]
fn loom_room_that_is_too_small() {
    run(8, 256, SHORT_AND_LONG, Variant::Ships);
}

/// As coarse as can be: all slots at a time.
#[test]
fn loom_slots_given_back_together() {
    run(2, 0, &[0; 5], Variant::Grained);
}

/// Some are given back with the data, in between.
#[test]
fn loom_slots_given_back_with_data() {
    run(2, 128, &[0, 64, 0, 0, 64], Variant::Grained);
}

fn is_caught(run: impl FnOnce() + std::panic::UnwindSafe) {
    let said = std::panic::catch_unwind(run).err().and_then(|e| e.downcast::<String>().ok());
    assert!(
        said.as_ref().is_some_and(|s| s.contains("deadlock")),
        "the model does not notice that a starving producer is forgotten: {said:?}"
    );
}

#[test]
fn loom_catches_a_missing_fence() {
    is_caught(|| run(1, 0, &[0; 2], Variant::Unfenced));
}

#[test]
fn loom_catches_slots_that_are_kept() {
    is_caught(|| run(2, 0, &[0; 3], Variant::Greedy));
}

#[test]
fn loom_catches_a_flag_that_is_not_set_anew() {
    is_caught(|| run(8, 256, SHORT_AND_LONG, Variant::Forgetful));
}
