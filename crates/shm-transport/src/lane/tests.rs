use proptest::prelude::*;
use tocsin_sync::atomic::Ordering;
use tocsin_transport::short::Run;
use tocsin_transport::{Header, wire};

use super::*;

/// Bytes of a pool that lies where the data ring does, of which only what is refused is asked for.
const POOL: u32 = 512;

/// A lane in private memory.
struct Private {
    memory: *mut [Slot],
    shape: Shape,
}

impl Private {
    fn new(slots: u32, data: u32) -> Private {
        let lines = size_of::<LaneHead>() / 64 + 1 + slots as usize + data as usize / 64;
        let memory: Box<[Slot]> =
            (0..lines).map(|_| Slot(std::array::from_fn(|_| AtomicU64::new(0)))).collect();
        Private { memory: Box::into_raw(memory), shape: Shape::new(slots, data, data.max(32) / 2) }
    }

    fn place(&self) -> Place {
        let base = self.memory.cast::<u8>();
        // A head is aligned to 128 bytes, a slot to 64.
        let head = base.wrapping_add(base.align_offset(128)).cast::<LaneHead>();
        let slots = head.wrapping_add(1).cast::<Slot>();
        let data = slots.wrapping_add(self.shape.slots as usize).cast::<u8>();
        let (pool, cells) = (data.cast_const(), std::ptr::null());
        Place { head, slots, data, pool, pool_bytes: POOL, cells, cell_bytes: 0, shape: self.shape }
    }

    fn ends(&self) -> (SendLane, RecvLane) {
        // SAFETY: fresh ends of a fresh lane, which outlives them in each test.
        unsafe { (SendLane::new(self.place()), RecvLane::new(self.place())) }
    }

    fn slot(&self, i: u32) -> &Slot {
        // SAFETY: the lane lives as long as `self`; only atomics.
        unsafe { self.place().slot(i) }
    }

    fn set_consumed(&self, slots: u32, data: u32) {
        // SAFETY: as above.
        let head = unsafe { self.place().head() };
        head.consumer.0.given_back.store(u64::from(slots) | u64::from(data) << 32, Ordering::Relaxed);
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        // SAFETY: made by `Box::into_raw` and freed once.
        drop(unsafe { Box::from_raw(self.memory) });
    }
}

fn push(lane: &mut SendLane, n: u64, len: usize) -> Push {
    let payload = vec![n as u8; len];
    // SAFETY: the payload is live.
    unsafe { lane.try_push(&Header { kind: 1, a: n, ..Header::default() }, payload.as_ptr(), len) }
}

/// Peeks, reads every byte, consumes.
fn pull(lane: &mut RecvLane) -> Option<Result<(u64, usize), ()>> {
    match lane.peek() {
        Peek::Empty => None,
        Peek::Corrupt => Some(Err(())),
        Peek::Packet(header, len, payload) => {
            for i in 0..len {
                // SAFETY: the lane promises `len` readable bytes.
                std::hint::black_box(unsafe { payload.add(i).read_volatile() });
            }
            lane.consume();
            Some(Ok((header.a, len)))
        }
    }
}

/// Slots of the lanes here, of which the consumer gives back two at a time.
const SLOTS: u32 = 8;
const DATA: u32 = 256;

/// Ends as if so many packets and bytes had gone through, with the last lap's stamps in all slots.
fn ends_at(lane: &Private, position: u32, data: u32) -> (SendLane, RecvLane) {
    let (mut send, mut recv) = lane.ends();
    send.start_at(position, data);
    recv.start_at(position, data);
    lane.set_consumed(position, data);
    for old in 0..SLOTS {
        let position = position.wrapping_sub(SLOTS).wrapping_add(old);
        lane.slot(position).0[0].store(u64::from(position.wrapping_add(1)), Ordering::Relaxed);
    }
    (send, recv)
}

#[test]
fn positions_wrap_at_32_bits() {
    let lane = Private::new(SLOTS, DATA);
    let (mut send, mut recv) = ends_at(&lane, u32::MAX - 1, u32::MAX - 127);
    let (mut sent, mut received) = (0, 0);
    for _ in 0..10 {
        assert!(pull(&mut recv).is_none());
        while push(&mut send, sent, 30 + sent as usize % 40) == Push::Sent {
            sent += 1;
        }
        while let Some(got) = pull(&mut recv) {
            assert_eq!(got, Ok((received, 30 + received as usize % 40)));
            received += 1;
        }
        assert_eq!(sent, received);
    }
    assert!(sent >= 20);
}

/// A lane whose slots were all filled when the consumer was told, near the wrap of slots and data.
struct Told {
    lane: Private,
    send: SendLane,
    recv: RecvLane,
    sent: u64,
}

/// With data in the packets of these numbers.
const WITH_DATA: [u64; 3] = [0, 7, 16];

impl Told {
    fn before_wrap(slots: u32, data: u32) -> Told {
        let lane = Private::new(SLOTS, DATA);
        let (send, recv) = ends_at(&lane, 0u32.wrapping_sub(slots), 0u32.wrapping_sub(data));
        let mut told = Told { lane, send, recv, sent: 0 };
        assert_eq!(told.fill(), (8, true));
        told
    }

    /// Packets that fit, and whether the consumer is to be told that no more do.
    fn fill(&mut self) -> (u32, bool) {
        let mut filled = 0;
        while push(&mut self.send, self.sent, if WITH_DATA.contains(&self.sent) { 60 } else { 4 })
            == Push::Sent
        {
            filled += 1;
            self.sent += 1;
        }
        (filled, self.send.has_asked())
    }

    fn pull(&mut self, packets: u32) {
        for _ in 0..packets {
            assert!(matches!(pull(&mut self.recv), Some(Ok(_))));
        }
    }

    fn flag(&self) -> u32 {
        // SAFETY: the lane lives as long as `self`; only atomics.
        unsafe { self.lane.place().head() }.starving.0.load(Ordering::Relaxed)
    }
}

/// Over and over the wrap of slots and of data, with the flag that stands from the first time on.
#[test]
fn a_full_lane_asks_once_for_what_it_holds() {
    for (slots, data) in (1..=2 * SLOTS).flat_map(|slots| [0, 64, 128, 192].map(|data| (slots, data))) {
        let mut told = Told::before_wrap(slots, data);
        assert_eq!(told.fill(), (0, false), "told already");
        // The first packet has data and is given back at once.
        told.pull(1);
        assert_eq!(told.fill(), (1, false), "six and more are to come back");
        told.pull(1);
        assert_eq!(told.fill(), (0, false), "less than a grain is kept");
        told.pull(3);
        assert_eq!(told.fill(), (4, false), "three are to come back, with data");
        told.pull(3);
        assert_eq!(told.fill(), (3, true), "the consumer may have looked at a lane that was full");
        assert_eq!(told.flag(), 1, "nobody took it");
        // Of sixteen, eight are taken, and given back: what it was told of last lies there still.
        told.pull(4);
        assert_eq!(told.fill(), (4, false));
        // As at the end of a pass that found nothing more.
        told.pull(2);
        assert!(told.recv.wakes_producer() && told.flag() == 0, "a quarter is free");
        assert_eq!(told.fill(), (2, true), "the flag is new");
    }
}

/// A packet with data gives back less than a quarter, for which a consumer that looks rings nobody.
#[test]
fn data_alone_do_not_bring_the_consumer_back() {
    for (slots, data) in (1..=2 * SLOTS).flat_map(|slots| [0, 64, 128, 192].map(|data| (slots, data))) {
        let mut told = Told::before_wrap(slots, data);
        // All but the eighth, which has data: seven are given back.
        told.pull(7);
        assert_eq!(told.fill(), (7, true), "the eighth gives back one slot, no more");
        told.pull(1);
        assert!(!told.recv.wakes_producer() && told.flag() == 1, "mostly full");
        // Told anew, it takes out all there is.
        told.pull(7);
        assert!(told.recv.wakes_producer() && told.flag() == 0);
    }
}

fn put(lane: &mut SendLane, tag: i32, payload: &[u8]) -> bool {
    // SAFETY: the payload is live.
    unsafe { lane.try_push_short(9, tag, payload.as_ptr(), payload.len()) }
}

fn take(lane: &mut RecvLane, tag: i32, to: &mut [u8]) -> Short {
    // SAFETY: the buffer is live.
    unsafe {
        lane.take_short(tocsin_transport::short::Wanted::new(9, Some(tag)), to.as_mut_ptr(), to.len(), 3)
    }
}

/// Put and taken at once or in general, in any mixture, for some laps and over the wrap of positions.
#[test]
fn short_ones_are_packets_as_others_are() {
    for start in [0, 0u32.wrapping_sub(SLOTS)] {
        let lane = Private::new(SLOTS, DATA);
        let (mut send, mut recv) = if start == 0 { lane.ends() } else { ends_at(&lane, start, 0) };
        for n in 0..5 * SLOTS {
            let payload: Vec<u8> = (0..n % 17).map(|i| (n + i) as u8).collect();
            let header = tocsin_transport::short::plain(9, n as i32, payload.len());
            if n % 3 == 0 {
                // SAFETY: the payload is live.
                let push = unsafe { send.try_push(&header, payload.as_ptr(), payload.len()) };
                assert_eq!(push, Push::Sent);
            } else {
                assert!(put(&mut send, n as i32, &payload));
            }
            if n % 4 == 0 {
                let Peek::Packet(found, len, at) = recv.peek() else { panic!("{n} has not come") };
                assert_eq!((found, len), (header, payload.len()));
                // SAFETY: as the lane says.
                assert_eq!(unsafe { std::slice::from_raw_parts(at, len) }, payload);
                recv.consume();
            } else {
                let mut to = [0xee; 20];
                let Short::Taken { tag, len, .. } = take(&mut recv, n as i32, &mut to) else {
                    panic!("{n} was not taken")
                };
                assert_eq!((tag, &to[..len]), (n as i32, &payload[..]));
                assert!(to[len..].iter().all(|byte| *byte == 0xee));
            }
            assert_eq!(take(&mut recv, 0, &mut []), Short::Nothing);
        }
    }
}

fn put_plain(lane: &mut SendLane, tag: i32, payload: &[u8]) -> bool {
    // SAFETY: the payload is live, and longer than 16 bytes.
    unsafe { lane.try_push_plain(9, tag, payload.as_ptr(), payload.len()) }
}

/// The same of payloads in the data ring, over its wrap, too.
#[test]
fn plain_ones_with_data_are_packets_as_others_are() {
    for start in [0, 0u32.wrapping_sub(128)] {
        let lane = Private::new(SLOTS, DATA);
        let (mut send, mut recv) = ends_at(&lane, 0u32.wrapping_sub(SLOTS), start);
        for n in 0..200u32 {
            let payload: Vec<u8> = (0..17 + n * 7 % 112).map(|i| (n + i) as u8).collect();
            let header = tocsin_transport::short::plain(9, n as i32, payload.len());
            if n % 3 == 0 {
                // SAFETY: the payload is live.
                let push = unsafe { send.try_push(&header, payload.as_ptr(), payload.len()) };
                assert_eq!(push, Push::Sent);
            } else {
                assert!(put_plain(&mut send, n as i32, &payload), "{n}");
            }
            if n % 4 == 0 {
                let Peek::Packet(found, len, at) = recv.peek() else { panic!("{n} has not come") };
                assert_eq!((found, len), (header, payload.len()));
                // SAFETY: as the lane says.
                assert_eq!(unsafe { std::slice::from_raw_parts(at, len) }, payload);
                recv.consume();
            } else {
                let mut to = [0xee; 130];
                let Short::Taken { tag, len, consumed } = take(&mut recv, n as i32, &mut to) else {
                    panic!("{n} was not taken")
                };
                assert_eq!((tag, &to[..len], consumed), (n as i32, &payload[..], Consumed::GivenBack));
                assert!(to[len..].iter().all(|byte| *byte == 0xee));
            }
        }
        // As long as there is room, and again when there is.
        let room = (0..).take_while(|n| put_plain(&mut send, *n, &[7; 64])).count();
        assert_eq!(room, DATA as usize / 64);
        assert!(!put_plain(&mut send, 9, &[7; 17]) && put(&mut send, 9, &[7; 16]));
        assert!(matches!(take(&mut recv, 0, &mut [0; 64]), Short::Taken { .. }));
        assert!(put_plain(&mut send, 10, &[7; 17]) && !put_plain(&mut send, 11, &[7; 129]));
    }
}

#[test]
fn a_full_lane_takes_no_short_one_until_slots_come_back() {
    let lane = Private::new(SLOTS, 0);
    let (mut send, mut recv) = lane.ends();
    assert_eq!((0..).take_while(|n| put(&mut send, *n, &[])).count(), SLOTS as usize);
    let told = (0..SLOTS as i32).find(|n| {
        let Short::Taken { consumed, .. } = take(&mut recv, *n, &mut []) else { panic!("{n} was not taken") };
        consumed == Consumed::GivenBack
    });
    assert!(told.is_some() && put(&mut send, 0, &[]));
}

#[test]
fn who_asks_whether_a_lane_is_full_says_nothing() {
    let lane = Private::new(SLOTS, DATA);
    let (mut send, mut recv) = lane.ends();
    assert_eq!(send.filled(), None);
    while put(&mut send, 0, b"x") {}
    assert_eq!(send.filled(), Some(0));
    // Taken out, and not given back.
    assert!(pull(&mut recv).is_some());
    assert_eq!(send.filled(), Some(1));
    assert!(pull(&mut recv).is_some());
    assert_eq!(send.filled(), None);
    assert!(put(&mut send, 0, b"x") && put(&mut send, 0, b"x"));
    assert_eq!(send.filled(), Some(2));
    assert!(!send.has_asked() && !recv.wakes_producer());
    lane.set_consumed(100, 0);
    assert_eq!(send.filled(), None, "a lying consumer closes the lane");
}

#[test]
fn what_is_not_short_or_wanted_is_left_alone() {
    let lane = Private::new(SLOTS, DATA);
    let (mut send, mut recv) = lane.ends();
    let plain = tocsin_transport::short::plain(9, 1, 8);
    let others = [
        (Header { flags: 1, ..plain }, 8),
        (Header { kind: plain.kind + 1, ..plain }, 8),
        (Header { context: 8, ..plain }, 8),
        (Header { tag: 2, ..plain }, 8),
        (Header { a: 9, ..plain }, 8),
        (Header { a: 9, ..plain }, 9),
        (Header { a: 17, ..plain }, 17),
        (Header { a: 7, ..plain }, 17),
        (Header { flags: 1, a: 17, ..plain }, 17),
    ];
    let mut to = [0xee; 8];
    for (header, len) in others {
        // SAFETY: the payload is live.
        assert_eq!(unsafe { send.try_push(&header, [1; 32].as_ptr(), len) }, Push::Sent);
        assert_eq!(take(&mut recv, 1, &mut to), Short::Other, "{header:?} of {len} bytes");
        assert!(matches!(recv.peek(), Peek::Packet(found, ..) if found == header));
        recv.consume();
    }
    // Nonsense is found out by who knows what to do.
    assert!(put(&mut send, 1, &[1; 8]));
    lane.slot(others.len() as u32).0[2].store(7, Ordering::Relaxed);
    assert_eq!(take(&mut recv, 1, &mut to), Short::Other);
    assert!(matches!(recv.peek(), Peek::Corrupt));
    assert_eq!((take(&mut recv, 1, &mut to), to), (Short::Other, [0xee; 8]), "closed");
    send.close();
    assert!(!put(&mut send, 1, &[]));
}

/// Runs of short ones, of all lengths of runs and over the wrap of positions, with other packets between, which they leave.
#[test]
fn runs_of_short_ones_end_where_they_should() {
    for start in [0, 0u32.wrapping_sub(SLOTS)] {
        let lane = Private::new(SLOTS, DATA);
        let (mut send, mut recv) = if start == 0 { lane.ends() } else { ends_at(&lane, start, 0) };
        let (mut given_back, mut all) = (0, 0);
        for n in 0..6 * SLOTS as i32 {
            let count = n % SLOTS as i32;
            (0..count).for_each(|i| assert!(put(&mut send, n, &[i as u8; 5])));
            let synchronous = Header { flags: 1, ..tocsin_transport::short::plain(9, 1, 20) };
            // SAFETY: the payload is live.
            let other = count < SLOTS as i32 - 1
                && unsafe { send.try_push(&synchronous, [9; 20].as_ptr(), 20) } == Push::Sent;
            let (most, refused) = (count / 2, count / 4);
            let mut run = |most: i32, takes: i32| {
                let mut seen = 0;
                let (run, consumed) = recv.take_run(most as u32, |envelope, len, at| {
                    assert_eq!((tocsin_transport::short::context_and_tag(envelope), len), ((9, n), 5));
                    // SAFETY: as the lane says.
                    assert_eq!(unsafe { std::slice::from_raw_parts(at, len) }, [all as u8; 5]);
                    let takes = seen < takes;
                    seen += 1;
                    all += i32::from(takes);
                    takes
                });
                given_back += u32::from(consumed == Consumed::GivenBack);
                assert_eq!(run.taken == 0, consumed == Consumed::Nothing);
                assert!(!run.emptied || run.taken > 0 && most == 1000 && !other);
                run.taken as i32
            };
            assert_eq!(run(most, refused), refused.min(most));
            assert_eq!(run(most, most), most, "of those that were refused, too");
            assert_eq!(run(1000, 1000), count - most - refused.min(most));
            assert_eq!(run(1000, 1000), 0);
            all = 0;
            if other {
                assert!(matches!(recv.peek(), Peek::Packet(_, 20, _)));
                recv.consume();
            }
        }
        assert!(given_back > 0);
    }
    // Nonsense is left, too.
    let lane = Private::new(SLOTS, DATA);
    let (mut send, mut recv) = lane.ends();
    assert!(put(&mut send, 1, &[1; 8]) && put(&mut send, 1, &[1; 8]));
    lane.slot(1).0[2].store(7, Ordering::Relaxed);
    assert_eq!(recv.take_run(9, |_, _, _| true).0, Run { taken: 1, emptied: false });
    assert!(matches!(recv.peek(), Peek::Corrupt));
    assert_eq!(recv.take_run(9, |_, _, _| true), (Run::default(), Consumed::Nothing), "closed");
}

/// Runs of payloads in slots and in the data ring, over the wrap of both.
#[test]
fn runs_take_data_with_them() {
    let lane = Private::new(SLOTS, DATA);
    let (mut send, mut recv) = ends_at(&lane, 0u32.wrapping_sub(SLOTS), 0u32.wrapping_sub(128));
    let payload = |n: u32| -> Vec<u8> { (0..n * 7 % 90).map(|i| (n + i) as u8).collect() };
    let (mut sent, mut received) = (0u32, 0u32);
    for round in 0..200u32 {
        loop {
            let payload = payload(sent);
            let header = tocsin_transport::short::plain(9, sent as i32, payload.len());
            // SAFETY: the payload is live.
            if unsafe { send.try_push(&header, payload.as_ptr(), payload.len()) } != Push::Sent {
                break;
            }
            sent += 1;
        }
        let most = 1 + round % 5;
        let (run, consumed) = recv.take_run(most, |envelope, len, at| {
            let expected = payload(received);
            assert_eq!(tocsin_transport::short::context_and_tag(envelope), (9, received as i32));
            // SAFETY: as the lane says.
            assert_eq!(unsafe { std::slice::from_raw_parts(at, len) }, expected);
            received += 1;
            true
        });
        assert!(run.taken > 0 && consumed != Consumed::Nothing);
    }
    assert!(sent - received <= SLOTS && received > 300);
    // A place that is not the one where it can be, and lengths that are none.
    for length in [20 | 64 << 32, 0, 16, 129, u64::MAX] {
        let lane = Private::new(SLOTS, DATA);
        let (mut send, mut recv) = lane.ends();
        assert!(put(&mut send, 1, &[1; 8]) && put_plain(&mut send, 1, &[1; 20]));
        lane.slot(1).0[2].store(length, Ordering::Relaxed);
        lane.slot(1).0[3].store(length & u64::from(u32::MAX), Ordering::Relaxed);
        assert_eq!(recv.take_run(9, |_, _, _| true).0, Run { taken: 1, emptied: false });
        assert!(matches!(recv.peek(), Peek::Corrupt));
    }
}

/// Cells that a packet names lie among those that there are, and are the consumer's once it has taken the packet, whatever was peeked at before.
#[test]
fn a_lying_producer_names_cells() {
    for (all, last) in [(FEW_CELLS, 1 << 15), (MOST_CELLS, 1 << 63)] {
        names_cells(cell_bytes(all), last);
    }
}

/// Of cells that are so many bytes together, and of which the last one's bit is this.
fn names_cells(all: u32, last: u64) {
    let lane = Private::new(SLOTS, DATA);
    let mut cells = vec![0u8; all as usize];
    let place = Place { cells: cells.as_mut_ptr(), cell_bytes: all, ..lane.place() };
    let len = 100u32;
    let say = |n: u32, at: u32, coming: bool| {
        let (meta, mut content) =
            wire::pack_pooled(&Header { kind: 1, ..Header::default() }, len, POOL.wrapping_add(at), coming);
        content[5] = if coming { 0 } else { u64::from(len) };
        let [stamp, words @ ..] = &lane.slot(n).0;
        for (word, value) in words.iter().zip(content) {
            word.store(value, Ordering::Relaxed);
        }
        stamp.store(u64::from(n + 1) | u64::from(meta) << 32, Ordering::Release);
    };
    // SAFETY: the only consumer of a lane at its beginning; lane and cells outlive it.
    let mut recv = unsafe { RecvLane::new(place) };
    say(0, 64, false);
    assert!(matches!(recv.peek(), Peek::Packet(_, 100, at) if at == cells[64..].as_ptr()));
    assert_eq!(recv.take_cells(), 0, "it is not taken yet");
    recv.consume();
    assert_eq!((recv.take_cells(), recv.take_cells()), (1, 0));
    // It says so of one whose payload comes, and says something else before that has come.
    say(1, 0, true);
    assert!(matches!(recv.peek(), Peek::Empty));
    say(1, all - len, false);
    assert!(matches!(recv.peek(), Peek::Packet(..)));
    recv.consume();
    assert_eq!(recv.take_cells(), last);
    for at in [all - len + 1, all, u32::MAX - POOL - 50, u32::MAX - POOL] {
        // SAFETY: as above: the one before is gone.
        let mut recv = unsafe { RecvLane::new(place) };
        say(0, at, false);
        assert!(matches!(recv.peek(), Peek::Corrupt), "{at}");
        assert_eq!((recv.consume(), recv.take_cells()), (Consumed::Nothing, 0));
    }
}

#[test]
fn a_lying_producer_is_found_out() {
    let content = |meta: u32, len: u32, position: u32| {
        // Of a payload that comes, all is there.
        (meta, [0, u64::from(len) | u64::from(position) << 32, u64::from(len), 0, 0, u64::MAX, 0])
    };
    let header = Header { kind: 1, ..Header::default() };
    let outside = wire::pack_data(&header, 0, 0).0;
    let inline = wire::pack_inline(&header, [0; 2], 3).0;
    let coming = wire::pack_coming(&header, 0, 0).0;
    let [pooled, pooled_coming] = [false, true].map(|comes| wire::pack_pooled(&header, 0, 0, comes).0);
    let table: [(&str, u32, (u32, wire::Content)); 20] = [
        ("pooled, behind the pool", 1, content(pooled, 100, POOL - 64)),
        ("pooled, position that wraps", 1, content(pooled, 100, u32::MAX - 50)),
        ("pooled, longer than any payload", 1, content(pooled, DATA / 2 + 1, 0)),
        ("pooled, short", 1, content(pooled, 16, 0)),
        ("coming into the pool, behind it", 1, content(pooled_coming, 100, POOL)),
        ("coming into the pool, longer than any payload", 1, content(pooled_coming, POOL, 0)),
        ("coming, stamp of the next lap", SLOTS + 1, content(coming, 100, 0)),
        ("coming, longer than any payload", 1, content(coming, 129, 0)),
        ("coming, position inside, but wrong", 1, content(coming, 100, 64)),
        ("coming, short", 1, content(coming, 16, 0)),
        ("stamp of the next lap", SLOTS + 1, content(inline, 3, 0)),
        ("stamp far ahead", 0x8000_0000, content(inline, 3, 0)),
        ("inline length that differs", 1, content(inline, 4, 0)),
        ("no kind", 1, content(inline & !0xff, 3, 0)),
        ("longer than any payload", 1, content(outside, 129, 0)),
        ("absurd length", 1, content(outside, u32::MAX, 0)),
        ("length that wraps when rounded", 1, content(outside, u32::MAX - 5, 0)),
        ("position outside", 1, content(outside, 100, 256)),
        ("position inside, but wrong", 1, content(outside, 100, 64)),
        ("short payload outside the slot", 1, content(outside, 16, 0)),
    ];
    for (what, stamp, (meta, content)) in table {
        let lane = Private::new(SLOTS, DATA);
        let (_, mut recv) = lane.ends();
        for (word, value) in lane.slot(0).0[1..].iter().zip(content) {
            word.store(value, Ordering::Relaxed);
        }
        lane.slot(0).0[0].store(u64::from(stamp) | u64::from(meta) << 32, Ordering::Relaxed);
        assert!(recv.has_packet(), "{what}: work for a pass");
        let (mut to, wanted) = ([0u8; 4096], tocsin_transport::short::Wanted::new(0, Some(0)));
        // SAFETY: the buffer is live.
        let took = unsafe { recv.take_short(wanted, to.as_mut_ptr(), to.len(), 1) };
        assert_eq!(took, Short::Other, "{what}: nothing is taken");
        assert!(matches!(recv.peek(), Peek::Corrupt), "{what}");
        assert!(matches!(recv.peek(), Peek::Empty) && !recv.has_packet(), "{what}: closed");
        assert_eq!(recv.consume(), Consumed::Nothing);
    }
}

#[test]
fn nonsense_that_comes_is_there_at_once() {
    for (stamp, len) in [(SLOTS + 1, 100), (1, DATA / 2 + 1), (1, u32::MAX)] {
        let lane = Private::new(SLOTS, DATA);
        let (_, mut recv) = lane.ends();
        let (meta, content) = wire::pack_coming(&Header { kind: 1, ..Header::default() }, len, 0);
        for (word, value) in lane.slot(0).0[1..].iter().zip(content) {
            word.store(value, Ordering::Relaxed);
        }
        lane.slot(0).0[0].store(u64::from(stamp) | u64::from(meta) << 32, Ordering::Relaxed);
        assert_eq!(recv.arrival(), Arrival::Here, "{stamp} {len}");
        assert!(matches!(recv.peek(), Peek::Corrupt), "{stamp} {len}");
    }
}

#[test]
fn a_lying_consumer_is_found_out() {
    for (slots, data) in [(9, 0), (u32::MAX, 0), (0, 192), (0x8000_0000, 0), (1, u32::MAX)] {
        let lane = Private::new(SLOTS, DATA);
        let (mut send, _) = lane.ends();
        for n in 0..8 {
            assert_eq!(push(&mut send, n, if n < 2 { 60 } else { 4 }), Push::Sent);
        }
        assert_eq!(push(&mut send, 8, 4), Push::Full);
        lane.set_consumed(slots, data);
        assert_eq!(push(&mut send, 9, 4), Push::Corrupt, "{slots} slots, {data} bytes given back");
        lane.set_consumed(1, 64);
        assert_eq!(push(&mut send, 10, 4), Push::Corrupt, "a closed lane stays closed");
        assert!(!send.retry_is_due());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// Whatever bytes a peer writes into a lane, both ends go on without touching anything outside it.
    #[test]
    fn flipped_bytes_never_crash(
        lens in prop::collection::vec(0usize..128, 1..24),
        flips in prop::collection::vec((0usize..256 + 8 * 64 + 256, 1u8..), 1..12),
    ) {
        let lane = Private::new(SLOTS, DATA);
        let (mut send, mut recv) = lane.ends();
        let mut flips = flips.iter();
        for (n, len) in lens.into_iter().enumerate() {
            let _any = push(&mut send, n as u64, len);
            if n % 2 == 0 && let Some((at, bits)) = flips.next() {
                let byte = lane.place().head.cast::<u8>().cast_mut().wrapping_add(*at);
                // SAFETY: inside the lane's memory, which one thread uses.
                unsafe { *byte ^= bits };
            }
            if n % 3 != 0 {
                let _any = pull(&mut recv);
                let _any = recv.wakes_producer();
            }
        }
        // An end comes: at most a lap of packets, then empty or corrupt.
        let left = std::iter::from_fn(|| pull(&mut recv)).take(100).count();
        prop_assert!(left <= 9, "{left} packets in a lane of 8");
    }

    /// Against a queue as the model, with sizes around every border.
    #[test]
    fn fifo_of_any_sizes(steps in prop::collection::vec((any::<bool>(), 0usize..=128), 1..400)) {
        let lane = Private::new(SLOTS, DATA);
        let (mut send, mut recv) = lane.ends();
        let mut model = std::collections::VecDeque::new();
        for (n, (pushes, len)) in steps.into_iter().enumerate() {
            if pushes {
                match push(&mut send, n as u64, len) {
                    Push::Sent => model.push_back((n as u64, len)),
                    Push::Full => prop_assert!(!model.is_empty(), "an empty lane takes anything"),
                    Push::Corrupt => prop_assert!(false, "corrupt"),
                }
            } else {
                prop_assert_eq!(pull(&mut recv), model.pop_front().map(Ok));
            }
            prop_assert_eq!(recv.has_packet(), !model.is_empty());
        }
    }
}

/// As [`pull`], of a packet as it comes: how many looks it took, if it was the one with this number.
fn pull_coming(lane: &mut RecvLane, n: u64) -> Option<(usize, usize)> {
    let Peek::Packet(header, len, payload) = lane.peek_coming() else {
        // A short one does not come.
        return pull(lane).map(|pulled| (pulled.map_or(usize::MAX, |(_, len)| len), 0));
    };
    assert_eq!(header.a, n);
    let (mut done, mut looks) = (0, 0);
    while done < len {
        let come = lane.come().min(len as u64) as usize;
        assert!(come >= done);
        for i in done..come {
            // SAFETY: the lane promises `len` readable bytes.
            let byte = unsafe { payload.add(i).read_volatile() };
            assert_eq!(byte, n as u8, "byte {i} of {len}, of {come} that are there");
        }
        looks += usize::from(come > done);
        done = come;
        tocsin_sync::atomic::spin_loop();
    }
    assert_ne!(lane.consume(), Consumed::Nothing);
    Some((len, looks))
}

#[test]
fn long_packets_come() {
    const RING: u32 = 128 << 10;
    let lane = Private::new(SLOTS, RING);
    let (mut send, mut recv) = lane.ends();
    for len in [LONG - 1, LONG, LONG + 1, STRIDE * 3, STRIDE * 3 + 17, 64 << 10] {
        assert_eq!(push(&mut send, 5, len), Push::Sent);
        assert_eq!(recv.arrival(), Arrival::Here);
        assert_eq!(pull_coming(&mut recv, 5), Some((len, usize::from(len >= LONG))));
        assert_eq!(recv.arrival(), Arrival::Nothing);
        assert_eq!(push(&mut send, 6, len), Push::Sent);
        assert_eq!(pull(&mut recv), Some(Ok((6, len))));
    }
}

/// The producer has stopped in the middle of a payload: there is a packet for who looks at what comes, and for nobody else.
#[test]
fn what_has_not_come_is_not_there() {
    let lane = Private::new(SLOTS, 128 << 10);
    let (mut send, mut recv) = lane.ends();
    assert_eq!(push(&mut send, 1, 3 * STRIDE), Push::Sent);
    let [.., come, _] = &lane.slot(0).0;
    for there in [0, STRIDE, 3 * STRIDE - 1] {
        come.store(there as u64, Ordering::Release);
        assert!(matches!(recv.peek_coming(), Peek::Packet(_, len, _) if len == 3 * STRIDE));
        assert_eq!((recv.come(), recv.arrival()), (there as u64, Arrival::Comes));
        assert!(pull(&mut recv).is_none());
        assert_eq!(recv.consume(), Consumed::Nothing, "it is not there");
    }
    // More than there can be.
    come.store(u64::MAX, Ordering::Release);
    assert_eq!(recv.arrival(), Arrival::Here);
    assert_eq!(pull(&mut recv), Some(Ok((1, 3 * STRIDE))));
}

/// The producer's end on its way to its thread.
struct Sends(SendLane);

// SAFETY: the lane lives as long as the test, which joins the thread; one thread at a time has the end.
unsafe impl Send for Sends {}

/// Both copy at once, lap after lap of slots that hold the last lap's counts.
#[test]
fn both_copy_at_once() {
    const PACKETS: u64 = if cfg!(miri) { 20 } else { 2000 };
    let lane = Private::new(SLOTS, 128 << 10);
    let (send, mut recv) = lane.ends();
    let sends = Sends(send);
    let len = |n: u64| [4 * STRIDE, 40, LONG + 100, 64 << 10][n as usize % 4];
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let Sends(mut send) = { sends };
            for n in 0..PACKETS {
                while push(&mut send, n, len(n)) == Push::Full {
                    tocsin_sync::atomic::spin_loop();
                }
            }
        });
        for n in 0..PACKETS {
            let (got, _) = loop {
                if let Some(pulled) = pull_coming(&mut recv, n) {
                    break pulled;
                }
                tocsin_sync::atomic::spin_loop();
            };
            assert_eq!(got, len(n));
        }
    });
}
