//! The lane under loom: the text that ships, between a producer and a consumer that both sleep when they have
//! nothing to do. A wake-up that is lost is a deadlock, which loom reports.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p tocsin-shm-transport --release --lib loom`

use std::sync::Arc;

use loom::sync::Notify;
use tocsin_sync::atomic::{AtomicU32, AtomicU64, Ordering, fence, real};
use tocsin_transport::{Header, short};

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
    fn new(shape: Shape) -> Arc<Model> {
        let Shape { slots, data, .. } = shape;
        Arc::new(Model {
            head: LaneHead::new(),
            slots: (0..slots).map(|_| Slot(std::array::from_fn(|_| AtomicU64::new(0)))).collect(),
            data: Box::into_raw(vec![0u64; data as usize / 8].into_boxed_slice()),
            shape,
            to_consumer: Notify::new(),
            to_producer: Notify::new(),
        })
    }

    fn place(&self) -> Place {
        Place {
            head: &raw const self.head,
            slots: self.slots.as_ptr(),
            data: self.data.cast::<u8>(),
            pool: std::ptr::null(),
            pool_bytes: 0,
            cells: std::ptr::null(),
            cell_bytes: 0,
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
    /// The producer's notice that slots may be taken and not given back.
    Trusting,
    /// The producer's notice that the lane may be mostly full still when data are given back.
    CountingData,
    /// The producer's new count in a slot that had another lap's.
    Counted,
    /// The producer's second look at the pipe that its packets stand for.
    Hasty,
    /// That a slot is filled before it is published.
    Hurried,
    /// Nothing; and who has found room takes its flag back.
    Withdraws,
}

/// A lane as it ships.
fn ships(slots: u32, data: u32) -> Shape {
    Shape::new(slots, data, data / 2)
}

/// A lane whose slots are given back two at a time, though fewer are a quarter.
fn coarse(slots: u32, data: u32) -> Shape {
    ships(slots, data).with_grain(2)
}

/// The shipped text between two threads, under every interleaving with at most so many preemptions.
fn check(preemptions: usize, what: &str, run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound =
        Some(builder.preemption_bound.map_or(preemptions, |bound| bound.min(preemptions)));
    let executions = std::sync::Arc::new(real::AtomicU64::new(0));
    let counter = executions.clone();
    builder.check(move || {
        counter.fetch_add(1, Ordering::Relaxed);
        run();
    });
    println!("{what}: {} executions", executions.load(Ordering::Relaxed));
}

/// The producer's end, as it leaves out what the variant does.
fn producer(model: &Model, variant: Variant) -> SendLane {
    // SAFETY: the only producer, on a fresh lane that lives in `model`.
    let mut lane = unsafe { SendLane::new(model.place()) };
    lane.broken = variant == Variant::Unfenced;
    lane.forgets = variant == Variant::Forgetful;
    lane.trusts = variant == Variant::Trusting;
    lane.counts_data = variant == Variant::CountingData;
    lane.leaves_count = variant == Variant::Counted;
    lane.hurries = variant == Variant::Hurried;
    lane
}

fn push(lane: &mut SendLane, n: usize, len: usize) -> Push {
    let header = Header { kind: 1, a: n as u64, ..Header::default() };
    let payload = [n as u8 + 1; 128];
    // SAFETY: `payload` has `len` bytes.
    unsafe { lane.try_push(&header, payload.as_ptr(), len) }
}

/// Takes the packet `n` out, if it is there.
fn take(lane: &mut RecvLane, n: usize, len: usize) -> Option<Consumed> {
    match lane.peek() {
        Peek::Empty => None,
        Peek::Packet(header, got, payload) => {
            assert_eq!((header.a, got), (n as u64, len), "lost, doubled or out of order");
            if len > 16 {
                // SAFETY: the payload is readable until it is consumed.
                assert_eq!(unsafe { payload.read() }, n as u8 + 1, "overwritten");
            }
            let consumed = lane.consume();
            assert_ne!(consumed, Consumed::Nothing, "it was peeked at");
            Some(consumed)
        }
        Peek::Corrupt => panic!("an honest lane is corrupt"),
    }
}

/// Packets of the given lengths, each of which the consumer is told of.
fn run(shape: Shape, lengths: &'static [usize], variant: Variant) {
    check(3, &format!("{shape:?}, {lengths:?} bytes"), move || {
        let model = Model::new(shape);
        let sender = {
            let model = model.clone();
            loom::thread::spawn(move || {
                let mut lane = producer(&model, variant);
                for (n, len) in lengths.iter().enumerate() {
                    loop {
                        match push(&mut lane, n, *len) {
                            Push::Sent if variant == Variant::Withdraws => break lane.ask_no_more(),
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
        let mut next = 0;
        while let Some(len) = lengths.get(next).copied() {
            match take(&mut lane, next, len) {
                None => model.to_consumer.wait(),
                Some(consumed) => {
                    next += 1;
                    // As a rank, which flushes for what is given back.
                    if consumed == Consumed::GivenBack {
                        fence(Ordering::SeqCst);
                        if lane.wakes_producer() {
                            model.to_producer.notify();
                        }
                    }
                }
            }
        }
        sender.join().unwrap();
    });
}

/// Short messages, put there and taken out in one step as far as there is room; `runs`: several at a time. Empty ones: a payload is read as the bytes of its words, which
/// a model's are not. It is published with the words that are looked at here.
fn run_short(variant: Variant, runs: bool) {
    const CONTEXT: u32 = 9;
    const PACKETS: usize = 3;
    check(3, if runs { "short messages in runs" } else { "short messages in one step" }, move || {
        let model = Model::new(ships(2, 0));
        let sender = {
            let model = model.clone();
            loom::thread::spawn(move || {
                let mut lane = producer(&model, variant);
                for n in 0..PACKETS {
                    // SAFETY: no byte is read.
                    while !unsafe { lane.try_push_short(CONTEXT, n as i32, std::ptr::null(), 0) } {
                        let header = short::plain(CONTEXT, n as i32, 0);
                        // SAFETY: the same.
                        match unsafe { lane.try_push(&header, std::ptr::null(), 0) } {
                            Push::Sent => break,
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
        let mut next = 0;
        while next < PACKETS {
            if runs {
                let (run, consumed) = lane.take_run(PACKETS as u32, |envelope, len, _| {
                    assert_eq!((short::context_and_tag(envelope), len), ((CONTEXT, next as i32), 0));
                    next += 1;
                    true
                });
                match consumed {
                    Consumed::Nothing => model.to_consumer.wait(),
                    Consumed::Kept => assert!(run.taken > 0),
                    // As a rank that leaves its engine.
                    Consumed::GivenBack => {
                        fence(Ordering::SeqCst);
                        if lane.wakes_producer() {
                            model.to_producer.notify();
                        }
                    }
                }
                continue;
            }
            let wanted = short::Wanted::new(CONTEXT, Some(next as i32));
            // SAFETY: no byte is written.
            match unsafe { lane.take_short(wanted, std::ptr::null_mut(), 0, 1) } {
                Short::Nothing => model.to_consumer.wait(),
                Short::Other => panic!("{next}: lost, doubled or out of order"),
                Short::Taken { tag, len, consumed } => {
                    assert_eq!((tag, len), (next as i32, 0));
                    next += 1;
                    // As a rank, which flushes if it must.
                    if consumed == Consumed::GivenBack && lane.is_starving() {
                        fence(Ordering::SeqCst);
                        if lane.wakes_producer() {
                            model.to_producer.notify();
                        }
                    }
                }
            }
        }
        sender.join().unwrap();
    });
}

/// Packets whose payloads come, each of which the consumer is told of. `looks`: it takes what comes; else it waits for what is
/// there.
fn run_coming(variant: Variant, looks: bool) {
    const LEN: usize = 128;
    const PACKETS: usize = 2;
    let shape = ships(1, 2 * LEN as u32);
    check(3, &format!("payloads that come, looked at: {looks}"), move || {
        let model = Model::new(shape);
        let sender = {
            let model = model.clone();
            loom::thread::spawn(move || {
                let mut lane = producer(&model, variant);
                for n in 0..PACKETS {
                    while push(&mut lane, n, LEN) != Push::Sent {
                        while !lane.retry_is_due() {
                            model.to_producer.wait();
                        }
                    }
                    fence(Ordering::SeqCst);
                    model.to_consumer.notify();
                }
            })
        };
        // SAFETY: the only consumer, on a fresh lane that lives in `model`.
        let mut lane = unsafe { RecvLane::new(model.place()) };
        for n in 0..PACKETS {
            loop {
                let peek = if looks { lane.peek_coming() } else { lane.peek() };
                if let Peek::Packet(header, LEN, payload) = peek {
                    assert_eq!(header.a, n as u64);
                    let come = lane.come() as usize;
                    for at in [0, STRIDE, LEN - 1].into_iter().filter(|at| *at < come) {
                        // SAFETY: the payload is readable until it is consumed.
                        assert_eq!(unsafe { payload.add(at).read() }, n as u8 + 1, "not there");
                    }
                    if come == LEN {
                        break;
                    }
                }
                // As a rank, which sleeps when there is nothing whole.
                if !lane.has_packet() {
                    model.to_consumer.wait();
                }
            }
            assert_eq!(lane.consume(), Consumed::GivenBack);
            fence(Ordering::SeqCst);
            if lane.wakes_producer() {
                model.to_producer.notify();
            }
        }
        sender.join().unwrap();
    });
}

/// Payloads in a pool that has room for two, the second of which comes. `waits`: a piece is free when its packet is taken; else it is
/// taken for free at once.
fn run_pooled(waits: bool) {
    const LEN: usize = 96;
    const POOL: u32 = 256;
    const PACKETS: usize = 3;
    check(2, &format!("a pool, pieces given back: {waits}"), move || {
        let model = Model::new(ships(4, POOL));
        // The data ring serves as the pool.
        let place = |model: &Model| {
            let place = model.place();
            Place { pool: place.data.cast_const(), pool_bytes: POOL, ..place }
        };
        let sender = {
            let model = model.clone();
            loom::thread::spawn(move || {
                let at = place(&model);
                // SAFETY: the only producer, on a fresh lane and a fresh pool that live in `model`.
                let (mut lane, mut pool) =
                    unsafe { (SendLane::new(at), SendPool::new(at.data, POOL).unwrap()) };
                for n in 0..PACKETS {
                    let piece = loop {
                        if let Some(piece) = pool
                            .room(std::ptr::null(), LEN, 0, 0, |lent| !waits || lane.has_taken(lent.position))
                        {
                            break piece;
                        }
                        loom::thread::yield_now();
                    };
                    let (header, payload) =
                        (Header { kind: 1, a: n as u64, ..Header::default() }, [n as u8 + 1; LEN]);
                    // SAFETY: the payload is live, and the piece was just given.
                    let pushed =
                        unsafe { lane.try_push_pooled(&header, payload.as_ptr(), LEN, &piece, LEN >= LONG) };
                    assert_eq!(pushed, Push::Sent);
                    pool.lend(&piece, 0, 0, lane.position());
                    fence(Ordering::SeqCst);
                    model.to_consumer.notify();
                }
            })
        };
        // SAFETY: the only consumer, on a fresh lane that lives in `model`.
        let mut lane = unsafe { RecvLane::new(place(&model)) };
        let mut next = 0;
        while next < PACKETS {
            match take(&mut lane, next, LEN) {
                None => model.to_consumer.wait(),
                Some(_) => next += 1,
            }
        }
        sender.join().unwrap();
    });
}

/// Messages and answers in one cell that two ranks have in common. `gives`: a rank gives the cell away with its packet; else it takes it for its own
/// still.
fn run_cells(gives: bool) {
    const LEN: usize = 96;
    const MESSAGES: usize = 2;
    check(2, &format!("a cell, given away: {gives}"), move || {
        let [there, back] = [(), ()].map(|()| Model::new(ships(4, 256)));
        // The first one's data ring serves as the cell.
        let place = |model: &Model, cells: &Model| Place {
            cells: cells.data.cast::<u8>(),
            cell_bytes: cell_bytes(FEW_CELLS),
            ..model.place()
        };
        let sender = {
            let (there, back) = (there.clone(), back.clone());
            loom::thread::spawn(move || {
                let cell = there.data.cast::<u8>();
                let mut shuttle = Shuttle::with(1, FEW_CELLS);
                // SAFETY: the only producer and the only consumer, on fresh lanes that live in the models.
                let (mut lane, mut answers) =
                    unsafe { (SendLane::new(place(&there, &there)), RecvLane::new(place(&back, &there))) };
                let mut answered = 0;
                for n in 0..MESSAGES {
                    let piece = loop {
                        shuttle.take(answers.take_cells());
                        if let Some(piece) = shuttle.room(cell, 0, LEN, 0) {
                            break piece;
                        }
                        match take(&mut answers, answered, LEN) {
                            None => back.to_consumer.wait(),
                            Some(_) => answered += 1,
                        }
                    };
                    push_piece(&mut lane, n, &piece);
                    if gives {
                        shuttle.give(piece.cells);
                    }
                    there.to_consumer.notify();
                }
            })
        };
        let mut shuttle = Shuttle::with(0, FEW_CELLS);
        // SAFETY: as above.
        let (mut lane, mut answers) =
            unsafe { (RecvLane::new(place(&there, &there)), SendLane::new(place(&back, &there))) };
        let mut next = 0;
        while next < MESSAGES {
            if take(&mut lane, next, LEN).is_none() {
                there.to_consumer.wait();
                continue;
            }
            shuttle.take(lane.take_cells());
            let piece = shuttle.room(there.data.cast(), 0, LEN, 0).unwrap();
            push_piece(&mut answers, next, &piece);
            shuttle.give(piece.cells);
            back.to_consumer.notify();
            next += 1;
        }
        sender.join().unwrap();
    });
}

/// Pushes the packet `n`, which lies in a piece.
fn push_piece(lane: &mut SendLane, n: usize, piece: &Piece) {
    let (header, payload) = (Header { kind: 1, a: n as u64, ..Header::default() }, [n as u8 + 1; 96]);
    // SAFETY: the payload is live, and the piece was just given.
    let pushed = unsafe {
        lane.try_push_pooled(&header, payload.as_ptr(), payload.len(), piece, payload.len() >= LONG)
    };
    assert_eq!(pushed, Push::Sent);
    fence(Ordering::SeqCst);
}

/// The producer's end on its way to its thread.
struct Sends(SendLane);

// SAFETY: the lane lives as long as the model, which the thread holds; one thread at a time has the end.
unsafe impl Send for Sends {}

/// Packets that the consumer is not told of, as plain ones, but when it is asked for room, and at the end. A lane of the
/// shape that ships was full, with data of the first packet and perhaps of another one, and the consumer asked. It has
/// taken some out, and is in the middle of its pass.
fn run_untold(variant: Variant, taken: usize, with_data: usize) {
    const SLOTS: usize = 8;
    const PACKETS: usize = 2 * SLOTS;
    let shape = ships(SLOTS as u32, 128);
    assert_eq!(shape.grain, 2);
    let len = move |n| if n == 0 || n == with_data { 64 } else { 0 };
    check(2, &format!("untold, {taken} taken, data of {with_data}"), move || {
        let model = Model::new(shape);
        let mut lane = producer(&model, variant);
        for n in 0..SLOTS {
            assert_eq!(push(&mut lane, n, len(n)), Push::Sent);
        }
        assert!(push(&mut lane, SLOTS, 0) == Push::Full && lane.has_asked());
        let sends = Sends(lane);
        // SAFETY: the only consumer, on a fresh lane that lives in `model`.
        let mut lane = unsafe { RecvLane::new(model.place()) };
        let mut next = 0;
        while next < taken && take(&mut lane, next, len(next)).is_some() {
            next += 1;
        }
        assert_eq!(next, taken);
        let sender = {
            let model = model.clone();
            loom::thread::spawn(move || {
                let Sends(mut lane) = { sends };
                for n in SLOTS..PACKETS {
                    while push(&mut lane, n, 0) != Push::Sent {
                        if lane.has_asked() {
                            model.to_consumer.notify();
                        }
                        while !lane.retry_is_due() {
                            model.to_producer.wait();
                        }
                    }
                }
                fence(Ordering::SeqCst);
                model.to_consumer.notify();
            })
        };
        loop {
            while next < PACKETS && take(&mut lane, next, len(next)).is_some() {
                next += 1;
            }
            // As a rank at the end of a pass.
            fence(Ordering::SeqCst);
            if lane.wakes_producer() {
                model.to_producer.notify();
            }
            if next == PACKETS {
                break;
            }
            model.to_consumer.wait();
        }
        sender.join().unwrap();
    });
}

#[test]
fn loom_one_slot() {
    run(ships(1, 0), &[0; 3], Variant::Ships);
}

#[test]
fn loom_two_slots() {
    run(ships(2, 0), &[0; 4], Variant::Ships);
}

#[test]
fn loom_data_ring() {
    run(ships(8, 128), &[64; 4], Variant::Ships);
}

#[test]
fn loom_short_messages_in_one_step() {
    run_short(Variant::Ships, false);
}

#[test]
fn loom_short_messages_in_runs() {
    run_short(Variant::Ships, true);
}

#[test]
fn loom_catches_a_slot_that_is_published_before_it_is_filled() {
    let said = std::panic::catch_unwind(|| run_short(Variant::Hurried, false)).err();
    let said = said.and_then(|e| e.downcast::<String>().ok());
    assert!(said.as_ref().is_some_and(|s| s.contains("out of order")), "{said:?}");
}

/// One packet given back is not room enough for the last.
const SHORT_AND_LONG: &[usize] = &[64, 64, 64, 128];

#[test]
fn loom_room_that_is_too_small() {
    run(ships(8, 256), SHORT_AND_LONG, Variant::Ships);
}

/// Who asks anew after that is told all the same.
#[test]
fn loom_a_flag_that_is_taken_back() {
    run(ships(1, 0), &[0, 0, 0], Variant::Withdraws);
    run(coarse(2, 0), &[0, 0, 0, 0], Variant::Withdraws);
}

/// As coarse as can be: all slots at a time.
#[test]
fn loom_slots_given_back_together() {
    run(coarse(2, 0), &[0; 5], Variant::Ships);
}

/// Some are given back with the data, in between.
#[test]
fn loom_slots_given_back_with_data() {
    run(coarse(2, 128), &[0, 64, 0, 0, 64], Variant::Ships);
}

/// All eight are taken, the last slot of which is not given back, and the consumer has yet to look after the producer.
#[test]
fn loom_packets_that_tell_nobody() {
    run_untold(Variant::Ships, 8, 0);
}

/// The eighth, which has data, is taken while the producer fills what the seven others left.
#[test]
fn loom_data_given_back_while_the_lane_is_filled() {
    run_untold(Variant::Ships, 7, 7);
}

#[test]
fn loom_pieces_of_a_pool() {
    run_pooled(true);
}

#[test]
fn loom_a_cell_to_and_fro() {
    run_cells(true);
}

#[test]
fn loom_catches_a_cell_that_is_kept() {
    let said = std::panic::catch_unwind(|| run_cells(false)).err();
    let said = said.and_then(|e| e.downcast::<String>().ok());
    assert!(said.as_ref().is_some_and(|s| s.contains("overwritten")), "{said:?}");
}

#[test]
fn loom_catches_a_piece_that_is_not_taken_yet() {
    let said = std::panic::catch_unwind(|| run_pooled(false)).err();
    let said = said.and_then(|e| e.downcast::<String>().ok());
    // What `take` says of the bytes.
    assert!(said.as_ref().is_some_and(|s| s.contains("overwritten")), "{said:?}");
}

#[test]
fn loom_payloads_that_come() {
    run_coming(Variant::Ships, true);
    run_coming(Variant::Ships, false);
}

#[test]
fn loom_catches_a_count_of_another_lap() {
    let said = std::panic::catch_unwind(|| run_coming(Variant::Counted, false)).err();
    let said = said.and_then(|e| e.downcast::<String>().ok());
    assert!(said.as_ref().is_some_and(|s| s.contains("not there")), "{said:?}");
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
    is_caught(|| run(ships(1, 0), &[0; 2], Variant::Unfenced));
}

#[test]
fn loom_catches_slots_that_are_kept() {
    let all_and_more = ships(2, 0).with_grain(3);
    is_caught(move || run(all_and_more, &[0; 3], Variant::Ships));
}

#[test]
fn loom_catches_a_producer_that_counts_only_what_is_given_back() {
    is_caught(|| run_untold(Variant::Trusting, 8, 0));
}

#[test]
fn loom_catches_a_producer_that_counts_on_data_in_a_lane_that_is_mostly_full() {
    is_caught(|| run_untold(Variant::CountingData, 7, 7));
}

#[test]
fn loom_catches_a_flag_that_is_not_set_anew() {
    is_caught(|| run(ships(8, 256), SHORT_AND_LONG, Variant::Forgetful));
}

/// Packets that stand for what lies in a pipe of one place: who finds that full, though the lane has room, is woken when it is read.
fn run_pipe(variant: Variant) {
    const PACKETS: usize = 3;
    const LEN: usize = 24;
    check(3, "packets for what lies in a pipe", move || {
        let model = Model::new(ships(4, 256));
        // 1: full. Both ends have the pipe's lock while they are at it, so that each act is a read-modify-write, one that fails too.
        let pipe = Arc::new(AtomicU32::new(0));
        let sender = {
            let (model, pipe) = (model.clone(), pipe.clone());
            loom::thread::spawn(move || {
                let mut lane = producer(&model, variant);
                let put = || pipe.fetch_or(1, Ordering::AcqRel) == 0;
                for n in 0..PACKETS {
                    while lane.refusal(LEN as u32).is_none() && !put() {
                        lane.starve();
                        if variant != Variant::Hasty && put() {
                            break;
                        }
                        while !lane.retry_is_due() {
                            model.to_producer.wait();
                        }
                    }
                    assert_eq!(push(&mut lane, n, LEN), Push::Sent, "there was room");
                    fence(Ordering::SeqCst);
                    model.to_consumer.notify();
                }
            })
        };
        // SAFETY: the only consumer, on a fresh lane that lives in `model`.
        let mut lane = unsafe { RecvLane::new(model.place()) };
        let mut next = 0;
        while next < PACKETS {
            if !lane.has_packet() {
                model.to_consumer.wait();
                continue;
            }
            assert_eq!(pipe.swap(0, Ordering::AcqRel), 1, "told of before it is there");
            assert_eq!(take(&mut lane, next, LEN), Some(Consumed::GivenBack));
            next += 1;
            fence(Ordering::SeqCst);
            if lane.wakes_producer() {
                model.to_producer.notify();
            }
        }
        sender.join().unwrap();
    });
}

#[test]
fn loom_a_pipe_that_is_full() {
    run_pipe(Variant::Ships);
}

#[test]
fn loom_catches_a_pipe_that_is_not_looked_at_again() {
    is_caught(|| run_pipe(Variant::Hasty));
}
