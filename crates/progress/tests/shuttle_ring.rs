//! Rings with longer histories than loom can try: a relay over two rings, in random orders, and a broken variant that
//! shuttle must catch. `ci/shuttle.sh` runs them.
#![cfg(shuttle)]
#![allow(clippy::unwrap_used)]

use shuttle::sync::Arc;
use shuttle::thread;
use tocsin_progress::ring::{CONTENT, Consumer, Producer, Slot};
use tocsin_progress::testing::{Real, Variant};
use tocsin_sync::atomic::AtomicU32;

/// Random orders per model.
const ORDERS: usize = 5_000;
const CAPACITY: u32 = 4;
const ITEMS: u64 = 24;
/// Positions wrap on the way.
const START: u32 = u32::MAX - 9;

struct Memory {
    slots: [Slot; CAPACITY as usize],
    head: AtomicU32,
}

impl Memory {
    fn new() -> Arc<Memory> {
        Arc::new(Memory { slots: core::array::from_fn(|_| Slot::new()), head: AtomicU32::new(START) })
    }

    fn ends(self: &Arc<Memory>) -> (Producer, Consumer) {
        // SAFETY: every thread of a model keeps the memory until all are joined; one end each.
        unsafe {
            (
                Producer::new(self.slots.as_ptr(), CAPACITY, &self.head, START).unwrap(),
                Consumer::new(self.slots.as_ptr(), CAPACITY, &self.head, START).unwrap(),
            )
        }
    }
}

fn item(n: u64) -> [u64; CONTENT] {
    core::array::from_fn(|i| n * 10 + i as u64)
}

fn push<V: Variant>(producer: &mut Producer, n: u64) {
    while !producer.try_push_as::<V>(n as u32, &item(n)) {
        thread::yield_now();
    }
}

fn pop(consumer: &mut Consumer, n: u64) {
    let got = loop {
        match consumer.peek() {
            Some(got) => break got,
            None => thread::yield_now(),
        }
    };
    assert_eq!(got, (n as u32, item(n)), "not what was pushed");
    consumer.advance();
}

fn relay<V: Variant>() {
    let (first, second) = (Memory::new(), Memory::new());
    let (mut into_first, mut from_first) = first.ends();
    let (mut into_second, mut from_second) = second.ends();
    let sender = thread::spawn(move || (0..ITEMS).for_each(|n| push::<V>(&mut into_first, n)));
    let between = thread::spawn(move || {
        for n in 0..ITEMS {
            pop(&mut from_first, n);
            push::<V>(&mut into_second, n);
        }
    });
    (0..ITEMS).for_each(|n| pop(&mut from_second, n));
    sender.join().unwrap();
    between.join().unwrap();
}

#[test]
fn a_relay_keeps_the_order() {
    shuttle::check_random(relay::<Real>, ORDERS);
    shuttle::check_pct(relay::<Real>, ORDERS, 3);
}

struct StampFirst;
impl Variant for StampFirst {
    const STAMP_LAST: bool = false;
}

#[test]
#[should_panic(expected = "not what was pushed")]
fn a_stamp_before_the_content_is_caught() {
    shuttle::check_random(relay::<StampFirst>, ORDERS);
}
