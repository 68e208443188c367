//! Random steps of two parties; after each round everything sent must be seen with no further ring.

use crate::rank::{Rank, Shared, until};
use std::time::Duration;
use tocsin_doorbell::{BackendKind, Masked, RingOutcome, Urgency};
use tocsin_sync::atomic::real::{Ordering, fence};

/// xorshift64*: small, seeded, good enough to mix steps.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % bound
    }
}

pub fn from_environment(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |value| value.parse().unwrap())
}

const ROUND: u64 = 64;

pub fn steps(shared: &'static Shared, kind: BackendKind) {
    let total =
        from_environment("TOCSIN_TEST_STEPS", if cfg!(debug_assertions) { 100_000 } else { 1_000_000 });
    let seed = from_environment("TOCSIN_TEST_SEED", 0x70C5_1234);
    println!("{total} steps, seed {seed}");
    let rounds = total.div_ceil(2 * ROUND);
    let rank = Rank::start(shared, kind);
    // `flag` counts half rounds: odd = both act, even = the sender has finished its half.
    let sender = std::thread::spawn(move || {
        let mut random = Random(seed | 1);
        for round in 0..rounds {
            until("the rank did not begin the round", || {
                shared.flag.load(Ordering::Acquire) == 2 * round + 1
            });
            for _ in 0..ROUND {
                let lane = random.below(2) as usize;
                let urgency = match random.below(3) {
                    0 => Urgency::Plain,
                    1 => Urgency::Offer,
                    _ => Urgency::Urgent,
                };
                let outcome = shared.send(lane, urgency);
                assert!(!matches!(outcome, RingOutcome::Gone | RingOutcome::Retry), "{outcome:?}");
                for _ in 0..random.below(40) {
                    core::hint::spin_loop();
                }
            }
            // The last message is urgent or an offer: who computes must be interrupted for either.
            let urgency = if random.below(2) == 0 { Urgency::Offer } else { Urgency::Urgent };
            let _any = shared.send(0, urgency);
            shared.flag.store(2 * round + 2, Ordering::Release);
        }
    });
    let mut random = Random(!seed | 1);
    let own = shared.own();
    let mut masks = Vec::new();
    for round in 0..rounds {
        shared.flag.store(2 * round + 1, Ordering::Release);
        for _ in 0..ROUND {
            match random.below(12) {
                0..=2 if masks.len() < 4 => masks.push(Masked::new()),
                0..=4 => drop(masks.pop()),
                5 => {
                    own.begin_poll();
                    shared.look();
                    own.end_poll();
                    shared.look();
                }
                6 => {
                    if own.set_wants(random.below(2) == 0, random.below(2) == 0) {
                        fence(Ordering::SeqCst);
                        shared.look();
                    }
                }
                7 => {
                    own.suppress(true);
                    for _ in 0..random.below(100) {
                        core::hint::spin_loop();
                    }
                    own.suppress(false);
                    fence(Ordering::SeqCst);
                    shared.look();
                }
                8 if random.below(8) == 0 => {
                    own.sleep(Some(Duration::from_micros(50)), || !shared.all_seen());
                    shared.look();
                }
                9 => {
                    let _any = shared.send(2, Urgency::Urgent);
                }
                _ => {
                    for _ in 0..random.below(60) {
                        core::hint::spin_loop();
                    }
                }
            }
        }
        masks.clear();
        // The last message may be an offer.
        if own.set_wants(random.below(4) == 0, true) {
            fence(Ordering::SeqCst);
            shared.look();
        }
        until("the sender did not finish the round", || shared.flag.load(Ordering::Acquire) == 2 * round + 2);
        // Only computing from here on: what is not seen now was lost. (Unwanted plain messages before the
        // last one are seen with it.)
        rank.compute_until_all_seen();
    }
    sender.join().unwrap();
    println!("{} runs, {} of them by unmasking", shared.runs(), shared.unmask_runs.load(Ordering::Relaxed));
}

/// A proof that cannot fail proves nothing: an owner that clears its marks after the look loses wake-ups, and
/// these very steps find it.
pub fn a_broken_owner_is_caught(shared: &'static Shared, kind: BackendKind) {
    shared.broken.store(true, Ordering::Relaxed);
    let child = crate::rank::fork(|| {
        // Nobody should take the panic that is wanted for a failure.
        std::panic::set_hook(Box::new(|_| {}));
        steps(shared, kind);
    });
    assert_ne!(child.wait(), crate::rank::Ended::Exit(0), "a lost wake-up went unnoticed");
}
