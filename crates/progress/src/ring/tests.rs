#![allow(clippy::unwrap_used)]

use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::Arc;

struct Memory {
    slots: Vec<Slot>,
    head: AtomicU32,
}

fn ring(capacity: u32, start: u32) -> (Arc<Memory>, Producer, Consumer) {
    let memory =
        Arc::new(Memory { slots: (0..capacity).map(|_| Slot::new()).collect(), head: AtomicU32::new(start) });
    // SAFETY: the memory is returned beside the ends, and callers keep it alive. Shared (Arc), since a Box
    // that moves would claim to be the only way to it.
    unsafe {
        let producer = Producer::new(memory.slots.as_ptr(), capacity, &raw const memory.head, start).unwrap();
        let consumer = Consumer::new(memory.slots.as_ptr(), capacity, &raw const memory.head, start).unwrap();
        (memory, producer, consumer)
    }
}

fn item(n: u64) -> [u64; CONTENT] {
    core::array::from_fn(|i| n.wrapping_mul(31).wrapping_add(i as u64))
}

#[test]
fn bad_shapes_are_refused() {
    let memory = Slot::new();
    let head = AtomicU32::new(0);
    for capacity in [0, 3, 6, u32::MAX] {
        // SAFETY: refused before use.
        assert!(unsafe { Producer::new(&memory, capacity, &head, 0) }.is_none());
        // SAFETY: refused before use.
        assert!(unsafe { Consumer::new(&memory, capacity, &head, 0) }.is_none());
    }
    // SAFETY: refused before use.
    assert!(unsafe { Producer::new(core::ptr::null(), 2, &head, 0) }.is_none());
}

#[test]
fn full_and_empty_are_answers() {
    let (_memory, mut producer, mut consumer) = ring(2, 0);
    assert!(consumer.peek().is_none());
    assert!(producer.try_push(1, &item(1)));
    assert!(producer.try_push(2, &item(2)));
    assert!(!producer.try_push(3, &item(3)));
    assert_eq!(consumer.peek(), Some((1, item(1))));
    assert_eq!(consumer.peek(), Some((1, item(1))));
    consumer.advance();
    assert!(producer.try_push(3, &item(3)));
    assert_eq!(consumer.peek(), Some((2, item(2))));
    assert_eq!(producer.free(), 0);
}

#[test]
fn hostile_stamps_look_empty_and_hostile_heads_look_full() {
    let (memory, mut producer, consumer) = ring(4, 0);
    for stamp in [0, 2, 5, u64::MAX, 1 << 32] {
        memory.slots[0].stamp.store(stamp, Ordering::Relaxed);
        assert!(consumer.is_empty());
        assert_eq!(consumer.peek(), None);
    }
    // The first four pushes go by the cached head; then the lie is looked at.
    for n in 0..4 {
        assert!(producer.try_push(0, &item(n)));
    }
    for head in [5, 1000, u32::MAX, u32::MAX - 3] {
        memory.head.store(head, Ordering::Relaxed);
        assert_eq!(producer.free(), 0, "{head}");
        assert!(!producer.try_push(0, &item(9)));
    }
}

proptest! {
    /// Any sequence of pushes and pops equals a bounded queue, also across the wrap of the positions.
    #[test]
    fn equals_a_bounded_queue(
        log in 0u32..5,
        start in prop_oneof![Just(0u32), Just(u32::MAX), (u32::MAX - 40)..=u32::MAX, any::<u32>()],
        operations in prop::collection::vec(any::<bool>(), 0..300),
    ) {
        let capacity = 1 << log;
        let (_memory, mut producer, mut consumer) = ring(capacity, start);
        // A fresh ring's zero stamps must not look like items when the start is not 0; see `new`.
        for slot in &_memory.slots {
            slot.stamp.store(u64::from(start), Ordering::Relaxed);
        }
        let mut model = VecDeque::new();
        for (n, push) in operations.into_iter().enumerate() {
            let n = n as u64;
            if push {
                let fits = model.len() < capacity as usize;
                prop_assert_eq!(producer.try_push(n as u32, &item(n)), fits);
                if fits {
                    model.push_back(n);
                }
            } else {
                let expected = model.pop_front().map(|n| (n as u32, item(n)));
                prop_assert_eq!(consumer.peek(), expected);
                prop_assert_eq!(consumer.is_empty(), expected.is_none());
                if expected.is_some() {
                    consumer.advance();
                }
            }
            prop_assert_eq!(producer.free() as usize, capacity as usize - model.len());
        }
    }
}

#[test]
fn two_threads_keep_order() {
    let (memory, mut producer, mut consumer) = ring(8, u32::MAX - 1000);
    for slot in &memory.slots {
        slot.stamp.store(u64::from(u32::MAX - 1000), Ordering::Relaxed);
    }
    const N: u64 = if cfg!(miri) { 1_500 } else { 200_000 };
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for n in 0..N {
                while !producer.try_push(n as u32, &item(n)) {
                    std::thread::yield_now();
                }
            }
        });
        scope.spawn(move || {
            for n in 0..N {
                let got = loop {
                    if let Some(got) = consumer.peek() {
                        break got;
                    }
                    std::thread::yield_now();
                };
                assert_eq!(got, (n as u32, item(n)));
                consumer.advance();
            }
        });
    });
}
