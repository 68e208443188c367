//! Large messages by pages: until when the sender's buffer is read, and what becomes of what nobody wants any more.

#![allow(clippy::unwrap_used)] // clippy exempts test functions only, not what they share

mod common;

use common::{Target, text};
use tocsin_p2p::{Budget, Class, Code, Config, ConstBuf, Id, Mode, Outcome, P2p, Pass, RecvArgs, SendArgs};
use tocsin_progress::Context;
use tocsin_transport::loopback::{Limits, Loopback, fabric_with_pages};
use tocsin_transport::transfer::RECORDS;
use tocsin_transport::{PeerState, Reach, Transport};

/// Three pieces of pages; the lane and the pipe hold four.
const LEN: usize = 9000;
const LIMITS: Limits = Limits { packets: [8, 8, 2, 4], max_payload: [300, 300, 16, 4096] };

struct Pair(Vec<P2p<Loopback>>);

impl Pair {
    fn new() -> Pair {
        Pair::with(Config { eager_max: 64, coll_eager_max: 64, ..Config::default() })
    }

    fn with(config: Config) -> Pair {
        let ends = fabric_with_pages(2, LIMITS, 4);
        let mut pair = Pair(ends.into_iter().map(|end| P2p::new(end, config).unwrap()).collect());
        for rank in [0, 1] {
            pair.0[rank].prepare_peer(1 - rank as u32, LEN).unwrap();
        }
        pair
    }

    fn isend(&mut self, from: usize, data: &[u8], class: Class) -> Id {
        let buf = ConstBuf::contiguous(data.as_ptr(), data.len());
        let (dest, mode) = (1 - from as u32, Mode::Standard);
        let args = SendArgs { context: 0, dest, tag: 1, buf, mode, class, cookie: 0 };
        // SAFETY: tests keep the data alive until the pair is gone or the send complete.
        unsafe { self.0[from].isend(args) }.unwrap()
    }

    fn irecv(&mut self, at: usize, target: &mut Target, class: Class) -> Id {
        let (source, tag) = (Some(1 - at as u32), Some(1));
        let args = RecvArgs { context: 0, source, tag, buf: target.buf(), class, cookie: 0 };
        // SAFETY: as in `isend`.
        unsafe { self.0[at].irecv(args) }.unwrap()
    }

    fn pass(&mut self, rank: usize) -> Pass {
        self.pass_with(rank, &mut Budget::user())
    }

    fn pass_with(&mut self, rank: usize, budget: &mut Budget) -> Pass {
        let pass = self.0[rank].progress(budget);
        self.0[rank].transport_mut().flush();
        pass
    }

    fn settle(&mut self) {
        while self.pass(0) != Pass::Idle || self.pass(1) != Pass::Idle {}
    }

    fn outcome(&self, rank: usize, id: Id) -> Option<Outcome> {
        // SAFETY: the slab lives as long as the rank.
        unsafe { self.0[rank].completion(id).unwrap().as_ref() }.outcome()
    }

    fn code(&self, rank: usize, id: Id) -> Option<Code> {
        self.outcome(rank, id).map(|outcome| outcome.code)
    }

    /// A message whose pages are all in the pipe, none of them read.
    fn begin(&mut self, data: &[u8], target: &mut Target, class: Class) -> (Id, Id) {
        let recv = self.irecv(1, target, class);
        let send = self.isend(0, data, class);
        self.pass(1);
        self.pass(0);
        assert_eq!((self.code(0, send), self.code(1, recv)), (None, None));
        assert_eq!(self.0[0].counters().bytes_copied, [0; 3], "who puts pages copies nothing");
        (send, recv)
    }

    /// Whether a message arrives as it was sent, through what others have left.
    fn is_well(&mut self) {
        for class in [Class::Eager, Class::Coll] {
            let (data, mut target) = (text(77, LEN), Target::new(LEN));
            let recv = self.irecv(1, &mut target, class);
            let send = self.isend(0, &data, class);
            self.settle();
            assert_eq!((self.code(0, send), self.code(1, recv)), (Some(Code::Ok), Some(Code::Ok)));
            assert!(target.bytes() == data);
        }
    }
}

/// A pass that copies no more than so many bytes.
fn few(bytes: usize) -> Budget {
    Budget::limited(Context::Handler, 32, bytes)
}

#[test]
fn a_send_is_complete_when_its_pages_are_read() {
    for class in [Class::Eager, Class::Coll] {
        let mut pair = Pair::new();
        let (data, mut target) = (text(1, LEN), Target::new(LEN));
        let (send, recv) = pair.begin(&data, &mut target, class);
        let mut passes = 0;
        while pair.code(1, recv).is_none() {
            pair.pass(0);
            assert_eq!(pair.code(0, send), None, "its pages are not all read");
            pair.pass_with(1, &mut few(1000));
            passes += 1;
        }
        assert!(passes >= 8, "a handler reads within its budget: {passes}");
        assert!(target.bytes() == data);
        assert_eq!(pair.0[0].outstanding_sends(), 1);
        pair.pass(0);
        assert_eq!((pair.code(0, send), pair.code(1, recv)), (Some(Code::Ok), Some(Code::Ok)));
        assert_eq!(pair.0[0].outstanding_sends(), 0);
        assert_eq!(pair.0[1].counters().bytes_copied, [0, LEN as u64, 0]);
        pair.is_well();
    }
}

/// What the pipe refers to is the buffer, and that is somebody else's by now.
#[test]
fn what_is_given_up_is_not_received() {
    for read in [0, 4000] {
        for class in [Class::Eager, Class::Coll] {
            for tells in [true, false] {
                let mut pair = Pair::new();
                let (mut data, mut target) = (text(1, LEN), Target::new(LEN));
                let (send, recv) = pair.begin(&data, &mut target, class);
                if read > 0 {
                    pair.pass_with(1, &mut few(read));
                }
                if !tells {
                    // There is no room to say so: only the record does.
                    fill_control(&mut pair, 0);
                }
                match class {
                    Class::Coll => assert!(pair.0[0].abandon_collective(send)),
                    _ => pair.0[0].abandon(send),
                }
                data.fill(0xaa);
                pair.settle();
                assert_eq!(pair.code(1, recv), Some(Code::Cancelled));
                assert_eq!(pair.0[0].outstanding_sends(), 0);
                pair.0[1].release(recv);
                pair.is_well();
            }
        }
    }
}

/// Who leaves gives up what is in its pipe; that it leaves is heard a little later.
#[test]
fn who_loses_its_sender_hears_why() {
    for (state, code) in [(PeerState::Finalized, Code::PeerFinalized), (PeerState::Dead, Code::PeerDead)] {
        let mut pair = Pair::new();
        let (data, mut target) = (text(1, LEN), Target::new(LEN));
        let (_, recv) = pair.begin(&data, &mut target, Class::Eager);
        pair.0[0].close_transfers();
        pair.0[0].transport_mut().flush();
        while pair.pass(1) != Pass::Idle {}
        assert_eq!(pair.code(1, recv), None);
        pair.0[1].transport().set_state(0, state);
        while pair.pass(1) != Pass::Idle {}
        let end = pair.outcome(1, recv).unwrap();
        assert_eq!((end.code, end.source), (code, 0));
    }
}

/// Fills the Control lane from a rank with packets that say nothing.
fn fill_control(pair: &mut Pair, from: usize) {
    use tocsin_transport::{Header, SendOutcome, Urgency, kind};
    let header = Header { kind: kind::FIN, flags: 1, ..Header::default() };
    let end = pair.0[from].transport_mut();
    // SAFETY: there is no payload.
    while unsafe {
        end.try_send(1 - from as u32, Class::Control, Urgency::Plain, &header, std::ptr::null(), 0)
    } == SendOutcome::Sent
    {}
}

/// What lies in the pipe for it is read all the same, and its sender told: else it would wait, and the next message begin with it.
#[test]
fn what_is_not_wanted_is_read_and_its_sender_told() {
    for read in [0, 1000, 4000] {
        for full in [false, true] {
            let mut pair = Pair::new();
            let (data, mut target) = (text(1, LEN), Target::new(LEN));
            let (send, recv) = pair.begin(&data, &mut target, Class::Eager);
            if read > 0 {
                pair.pass_with(1, &mut few(read));
            }
            pair.0[1].abandon(recv);
            if full {
                fill_control(&mut pair, 1);
                while pair.pass_with(1, &mut few(700)) != Pass::Idle {}
                assert_eq!(
                    (pair.code(0, send), pair.0[1].outstanding_sends()),
                    (None, 1),
                    "it keeps what it has to tell"
                );
                assert!(!pair.0[1].work_left(), "and looks for nothing before there is room");
            }
            pair.settle();
            assert_eq!(pair.code(0, send), Some(Code::Ok), "read {read}");
            assert!(target.bytes()[4500..].iter().all(|byte| *byte == 0xee), "nothing more was written");
            pair.is_well();
        }
    }
}

/// The last piece is read and its sender cannot be told yet: the receive ends, nobody comes back for it before there is room, and the sender
/// hears of it then.
#[test]
fn who_cannot_tell_of_the_end_tells_when_there_is_room() {
    for class in [Class::Eager, Class::Coll] {
        let mut pair = Pair::new();
        // As many as there are records, and more than there is room for.
        let all: Vec<_> = (0..u64::from(RECORDS)).map(|n| (text(n, LEN), Target::new(LEN))).collect();
        let mut kept = Vec::new();
        fill_control(&mut pair, 1);
        for (data, mut target) in all {
            let recv = pair.irecv(1, &mut target, class);
            let send = pair.isend(0, &data, class);
            kept.push((data, target, send, recv));
        }
        // There is room for as many of the receiver's answers as the lane holds.
        let mut passes = 0;
        while kept.iter().any(|(_, _, _, recv)| pair.code(1, *recv).is_none()) {
            pair.pass(0);
            fill_control(&mut pair, 1);
            pair.pass(1);
            passes += 1;
            assert!(passes < 10_000, "a message does not arrive");
            if pair.pass(1) == Pass::Idle {
                assert!(!pair.0[1].work_left(), "it looks for what does not come by that");
                // The sender takes out what fills the lane.
                pair.pass(0);
                pair.pass(1);
            }
        }
        pair.settle();
        for (data, target, send, recv) in &kept {
            assert_eq!((pair.code(0, *send), pair.code(1, *recv)), (Some(Code::Ok), Some(Code::Ok)));
            assert!(target.bytes() == data);
        }
        assert_eq!(pair.0[1].outstanding_sends(), 0);
        pair.is_well();
    }
    for class in [Class::Eager, Class::Coll] {
        let mut pair = Pair::new();
        let (data, mut target) = (text(1, LEN), Target::new(LEN));
        let (send, recv) = pair.begin(&data, &mut target, class);
        fill_control(&mut pair, 1);
        while pair.pass(1) != Pass::Idle {}
        assert!(target.bytes() == data);
        assert_eq!((pair.code(0, send), pair.code(1, recv)), (None, Some(Code::Ok)));
        assert_eq!(pair.0[1].outstanding_sends(), 1, "who leaves says it before");
        assert!(!pair.0[1].work_left(), "a look finds nothing before there is room");
        pair.settle();
        assert_eq!((pair.code(0, send), pair.0[1].outstanding_sends()), (Some(Code::Ok), 0));
        pair.is_well();
    }
}

/// Nobody waits for room in a lane to one that is gone.
#[test]
fn what_the_dead_have_not_been_told_is_forgotten() {
    let mut pair = Pair::new();
    let (data, mut target) = (text(1, LEN), Target::new(LEN));
    let (_, recv) = pair.begin(&data, &mut target, Class::Eager);
    fill_control(&mut pair, 1);
    while pair.pass(1) != Pass::Idle {}
    assert_eq!((pair.code(1, recv), pair.0[1].outstanding_sends()), (Some(Code::Ok), 1));
    pair.0[1].transport().set_state(0, PeerState::Dead);
    while pair.pass(1) != Pass::Idle {}
    assert_eq!(pair.0[1].outstanding_sends(), 0);
}

/// What the system refuses is copied, from the first piece on or from a later one.
#[test]
fn refused_pages_are_copied() {
    for pieces in 0..4 {
        let mut pair = Pair::new();
        let (data, mut target) = (text(1, LEN), Target::new(LEN));
        let recv = pair.irecv(1, &mut target, Class::Eager);
        let send = pair.isend(0, &data, Class::Eager);
        pair.pass(1);
        // A packet is a piece, beside the CTS.
        pair.pass_with(0, &mut Budget::limited(Context::Handler, 1 + pieces, 64 << 10));
        pair.0[0].transport_mut().set_refuses_pages(true);
        pair.settle();
        assert_eq!((pair.code(0, send), pair.code(1, recv)), (Some(Code::Ok), Some(Code::Ok)), "{pieces}");
        assert!(target.bytes() == data);
        let copied: u64 = pair.0[0].counters().bytes_copied.iter().sum();
        assert_eq!(copied, (LEN as u64).saturating_sub(u64::from(pieces) * 3072), "{pieces}");
        pair.is_well();
    }
}

/// A sender that reaches its peer copies the first of its pieces, which go from the back, ahead; but the peer does not reach it, and asks for pages,
/// which go from the front, as does what of them is copied.
#[test]
fn what_is_copied_ahead_is_no_piece_of_pages() {
    for refuses in [false, true] {
        let mut pair = Pair::with(Config { eager_max: 64, pipelines: true, ..Config::default() });
        let (data, mut target) = (text(1, LEN), Target::new(LEN));
        let recv = pair.irecv(1, &mut target, Class::Eager);
        let sender = &mut pair.0[0];
        sender.transport_mut().set_reach(Reach::Kernel);
        sender.transport_mut().set_waiting(1, true);
        sender.transport_mut().set_refuses_pages(refuses);
        sender.set_waits(true);
        let send = pair.isend(0, &data, Class::Eager);
        assert_eq!(pair.0[0].transport().copied_ahead(), 4096);
        while pair.pass_with(0, &mut Budget::user().waiting()) != Pass::Idle || pair.pass(1) != Pass::Idle {}
        assert_eq!((pair.code(0, send), pair.code(1, recv)), (Some(Code::Ok), Some(Code::Ok)));
        assert!(target.bytes() == data, "refused: {refuses}");
        let copied: u64 = pair.0[0].counters().bytes_copied.iter().sum();
        assert_eq!((copied, pair.0[0].transport().sent_ahead()), (if refuses { LEN as u64 } else { 0 }, 0));
    }
}

#[test]
fn the_dead_and_what_they_had_put() {
    for (dead, sent) in [(0, Code::PeerDead), (1, Code::PeerDead)] {
        let mut pair = Pair::new();
        let (data, mut target) = (text(1, LEN), Target::new(LEN));
        let (send, recv) = pair.begin(&data, &mut target, Class::Eager);
        pair.0[0].transport().set_state(dead, PeerState::Dead);
        let alive = 1 - dead as usize;
        while pair.pass(alive) != Pass::Idle {}
        if alive == 0 {
            assert_eq!(pair.code(0, send), Some(sent));
        } else {
            assert_eq!(pair.code(1, recv), Some(Code::Ok), "all of it was there");
            assert!(target.bytes() == data);
        }
    }
}

/// Messages to one peer take turns, and each gets its own bytes.
#[test]
fn pieces_of_many_messages_share_the_pipe() {
    let mut pair = Pair::new();
    let all: Vec<Vec<u8>> = (0..40).map(|n| text(n, LEN + n as usize)).collect();
    let mut targets: Vec<Target> = all.iter().map(|data| Target::new(data.len())).collect();
    let receives: Vec<Id> = targets.iter_mut().map(|target| pair.irecv(1, target, Class::Eager)).collect();
    // More than there are records: some are copied.
    let sends: Vec<Id> = all.iter().map(|data| pair.isend(0, data, Class::Eager)).collect();
    pair.settle();
    for (send, recv) in sends.iter().zip(&receives) {
        assert_eq!((pair.code(0, *send), pair.code(1, *recv)), (Some(Code::Ok), Some(Code::Ok)));
    }
    assert!(targets.iter().zip(&all).all(|(target, data)| target.bytes() == data));
}
