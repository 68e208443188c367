//! A model of the ring: first in, first out, with capacity 2 and two threads; broken variants are caught.
#![cfg(loom)]
#![allow(clippy::unwrap_used)]

use loom::sync::Arc;
use tocsin_progress::ring::{CONTENT, Consumer, Producer, Slot};
use tocsin_progress::testing::{Real, Variant};
use tocsin_sync::atomic::{AtomicU32, Ordering};

struct Memory {
    slots: [Slot; 2],
    head: AtomicU32,
}

fn item(n: u64) -> [u64; CONTENT] {
    core::array::from_fn(|i| n * 10 + i as u64)
}

/// `items` through a ring of two slots whose positions start just before they wrap.
fn fifo<V: Variant>(items: u64) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let memory = Arc::new(Memory { slots: [Slot::new(), Slot::new()], head: AtomicU32::new(0) });
        // SAFETY: both threads keep the memory; one end each.
        let (mut producer, mut consumer) = unsafe {
            (
                Producer::new(memory.slots.as_ptr(), 2, &memory.head, 0).unwrap(),
                Consumer::new(memory.slots.as_ptr(), 2, &memory.head, 0).unwrap(),
            )
        };
        let kept = memory.clone();
        let thread = loom::thread::spawn(move || {
            for n in 0..items {
                while !producer.try_push_as::<V>(n as u32, &item(n)) {
                    loom::thread::yield_now();
                }
            }
            drop(kept);
        });
        for n in 0..items {
            let got = loop {
                match consumer.peek() {
                    Some(got) => break got,
                    None => loom::thread::yield_now(),
                }
            };
            assert_eq!(got, (n as u32, item(n)), "not what was pushed");
            consumer.advance();
        }
        thread.join().unwrap();
        assert!(consumer.is_empty());
    });
}

#[test]
fn first_in_first_out() {
    fifo::<Real>(3);
}

struct StampFirst;
impl Variant for StampFirst {
    const STAMP_LAST: bool = false;
}

#[test]
#[should_panic(expected = "not what was pushed")]
fn a_stamp_before_the_content_is_caught() {
    fifo::<StampFirst>(2);
}

struct StampRelaxed;
impl Variant for StampRelaxed {
    const PUSH: Ordering = Ordering::Relaxed;
}

#[test]
#[should_panic(expected = "not what was pushed")]
fn a_stamp_that_publishes_nothing_is_caught() {
    fifo::<StampRelaxed>(2);
}
