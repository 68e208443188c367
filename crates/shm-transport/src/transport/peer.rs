use tocsin_doorbell::Connection;
use tocsin_transport::{Arrival, Class, Urgency, pages};

use crate::Segment;
use crate::lane::{self, Lent, Piece, Push, RecvLane, SendLane, Shuttle};
use crate::segment::layout::{PairHead, RankBlock};
use crate::transport::copy::Kernel;
use crate::transport::pages::{Put, Reader, To};

/// Whether a peer keeps to the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Honesty {
    Honest,
    /// It has written nonsense; the layer above does not know yet.
    Caught,
    /// It has written nonsense, and the layer above has been told.
    Told,
}

/// How this process rings a peer.
#[derive(Debug)]
pub(super) enum Bell {
    /// The peer has not joined yet, as far as is known.
    Unknown,
    /// As its descriptor says: nothing has to be held for it.
    Plain,
    /// Through a connection, for as long as this lives.
    Connected(#[allow(dead_code)] Connection), // held for its drop
}

/// What lies for a peer in the sender's pool: counted in two halves, the older of which is forgotten when all of it is taken.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Borrowed {
    /// Bytes lent up to the mark, and since.
    older: u32,
    newer: u32,
    /// Where the lanes were then.
    mark: [u32; 4],
}

impl Borrowed {
    /// So many bytes are lent to it.
    pub(super) fn add(&mut self, bytes: usize) {
        self.newer = self.newer.saturating_add(bytes as u32);
    }
}

/// What an endpoint keeps about one other rank (or itself).
#[derive(Debug)]
pub(super) struct Peer {
    pub block: *const RankBlock,
    /// The pair that this rank sends in, and the one it receives in. Touched only once connected.
    pub to: *const PairHead,
    pub from: *const PairHead,
    send: [SendLane; 4],
    recv: [RecvLane; 4],
    /// The cells of the pair, where they lie, and for how many memory was asked.
    pub shuttle: Shuttle,
    cells: *mut u8,
    pub cells_asked: u32,
    /// Bulk to this peer is allocated.
    pub bulk: bool,
    /// Listed for `flush`.
    pub dirty: bool,
    /// Something was sent since the last `flush`, and how urgent the most urgent of it is.
    pub sent: bool,
    /// Its ring is held back; something was sent since.
    pub held: bool,
    pub renewed: bool,
    /// Some of that is not in its lanes: [`announce`](tocsin_transport::Transport::announce).
    pub announced: bool,
    /// Its last ring was marked in its block, and not in the pair's pages, which did not exist.
    pub marks_block: bool,
    /// Classes of what was sent and may not have been taken out.
    pub untaken: u8,
    /// A short message was taken from it since the last was put into its lane: the next one answers that.
    pub answers: bool,
    pub urgency: Urgency,
    /// Classes from which something was consumed and whose sender has not been looked after.
    pub consumed: u8,
    /// Classes that had no room since the last `begin_pass`.
    pub starved: u8,
    pub honesty: Honesty,
    pub kernel: Kernel,
    /// Pipes of pages, and what is read from.
    pub pages_to: To,
    pub pages_refused: bool,
    pub pages_from: Option<Reader>,
    pub bell: Bell,
    /// It was rung by user interrupt, and may be where that does not reach it.
    pub unanswered: bool,
    /// Long messages sent to it, and those of its own that this rank has done with.
    pub long_sent: u32,
    pub long_done: u32,
    /// What lies for it in this rank's pool.
    pub borrowed: Borrowed,
}

/// What belongs to a class of one for each.
#[inline(always)]
fn of<L>([eager, coll, control, bulk]: [L; 4], class: Class) -> L {
    match class {
        Class::Eager => eager,
        Class::Coll => coll,
        Class::Control => control,
        Class::Bulk => bulk,
    }
}

impl Peer {
    /// # Safety
    /// `rank`'s ends of the lanes are unused and the caller's alone; the segment outlives the result.
    pub(super) unsafe fn new(segment: &Segment, rank: u32, peer: u32) -> Option<Peer> {
        let [out, into] = [(rank, peer), (peer, rank)].map(|(a, b)| {
            Some([
                segment.lane(a, b, Class::Eager)?,
                segment.lane(a, b, Class::Coll)?,
                segment.lane(a, b, Class::Control)?,
                segment.lane(a, b, Class::Bulk)?,
            ])
        });
        Some(Peer {
            block: segment.block(peer)?,
            to: segment.pair(rank, peer)?,
            from: segment.pair(peer, rank)?,
            // SAFETY: by the caller's promise these ends are unused and used by nobody else; the endpoint
            // uses a lane only once the pair is connected, hence allocated.
            send: out?.map(|place| unsafe { SendLane::new(place) }),
            // SAFETY: as above.
            recv: into?.map(|place| unsafe { RecvLane::new(place) }),
            shuttle: Shuttle::new(rank < peer),
            cells: segment.cells(rank, peer),
            cells_asked: 0,
            bulk: false,
            dirty: false,
            sent: false,
            held: false,
            renewed: false,
            announced: false,
            marks_block: false,
            untaken: 0,
            answers: false,
            urgency: Urgency::Plain,
            consumed: 0,
            starved: 0,
            honesty: Honesty::Honest,
            kernel: Kernel::new(),
            pages_to: To::Unknown,
            pages_refused: false,
            pages_from: None,
            bell: Bell::Unknown,
            unanswered: false,
            long_sent: 0,
            long_done: 0,
            borrowed: Borrowed::default(),
        })
    }

    #[inline]
    pub(super) fn send_lane(&mut self, class: Class) -> &mut SendLane {
        of(self.send.each_mut(), class)
    }

    /// The end that sends in a class.
    #[inline]
    pub(super) fn outgoing(&self, class: Class) -> &SendLane {
        of(self.send.each_ref(), class)
    }

    /// Whether so long a payload is to come to it. One that is not very long, if a packet has come from it since the last of those: it mostly waits for the answer
    /// then, if for anything, and finds no other before it.
    #[inline]
    pub(super) fn comes(&mut self, class: Class, len: usize) -> bool {
        let position = self.incoming(class).position();
        let lane = self.send_lane(class);
        len >= lane::LONG || len >= lane::ALONE && lane.hears(position)
    }

    /// Room for a payload of a message of `of` bytes in the pair's cells, as far as this rank has them. `pool`: bytes of its pool.
    pub(super) fn room_in_cells(
        &mut self,
        payload: *const u8,
        len: usize,
        of: u64,
        pool: u32,
    ) -> Option<Piece> {
        if !self.shuttle.takes(of) {
            return None;
        }
        let came = self.recv.iter_mut().fold(0, |cells, lane| cells | lane.take_cells());
        self.shuttle.take(came);
        self.shuttle.room(self.cells, Piece::skew(payload, len), len, pool)
    }

    #[inline]
    pub(super) fn recv_lane(&mut self, class: Class) -> &mut RecvLane {
        of(self.recv.each_mut(), class)
    }

    /// Puts pages into the pipe, if the Bulk lane has room for the packet that tells of them; at most three system calls.
    ///
    /// # Safety
    /// Bulk is connected; `from` is readable for `len` bytes.
    pub(super) unsafe fn lend(&mut self, from: *const u8, len: usize) -> Put {
        let ([.., lane], To::Open(lender)) = (&mut self.send, &self.pages_to) else { return Put::Never };
        if self.pages_refused {
            return Put::Never;
        }
        match lane.refusal(pages::PAYLOAD as u32) {
            None => {}
            Some(Push::Corrupt) => return Put::Corrupt,
            Some(_) => return Put::Full,
        }
        // SAFETY: the caller's promise.
        let try_once = || unsafe { lender.put(from, len) };
        let mut put = try_once();
        if put == Put::Full {
            // SYNC POINT: the flag is set, fence, then the pipe is looked at again; the receiver reads, gives the packet back, fences, and looks at
            // the flag. Putting and reading are one after the other under the pipe's lock: either this finds room, or the receiver the flag.
            lane.starve();
            put = try_once();
        }
        if put == Put::Full && lane.has_taken(lane.position()) {
            // All that was told of has been read, so that there is room now. If not, the receiver takes packets and reads nothing.
            put = match try_once() {
                Put::Full => Put::Never,
                other => other,
            };
        }
        // The pipe is not closed here: a handler closes nothing, and the peer may still read.
        self.pages_refused = put == Put::Never;
        put
    }

    /// Whether there is a pipe, and the system takes pages.
    pub(super) fn lends(&self) -> bool {
        matches!(self.pages_to, To::Open(_)) && !self.pages_refused
    }

    /// Closes all lanes from and to a peer that writes nonsense.
    pub(super) fn close(&mut self, honesty: Honesty) {
        self.honesty = honesty;
        self.send.iter_mut().for_each(SendLane::close);
        self.recv.iter_mut().for_each(RecvLane::close);
    }

    /// Whether the peer waits for room that it now has. A fence was executed since the last `consume`.
    pub(super) fn takes_waiting_sender(&mut self) -> bool {
        let mut waits = false;
        for (i, lane) in self.recv.iter_mut().enumerate() {
            if self.consumed & (1 << i) != 0 {
                waits |= lane.wakes_producer();
            }
        }
        // A sender that is left alone for now is looked at again after the next `consume`.
        self.consumed = 0;
        waits
    }

    /// Whether the peer has taken out the packet of a piece that is lent to it.
    pub(super) fn has_taken(&self, lent: &Lent) -> bool {
        self.send.get(usize::from(lent.class)).is_none_or(|lane| lane.has_taken(lent.position))
    }

    /// Whether so many bytes more may lie for it in the pool, where it is to have at most `most`. Handler-safe; looks at its lanes after each
    /// half of that, and when it would say no.
    #[inline]
    pub(super) fn may_borrow(&mut self, len: usize, most: u32) -> bool {
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        let Borrowed { older, newer, mark } = self.borrowed;
        let fits = |older: u32, newer: u32| older.saturating_add(newer).saturating_add(len) <= most;
        // The older half may be the larger one, so that there is no room before the newer one is full.
        let looks = newer.saturating_add(len) > most / 2 || !fits(older, newer);
        if looks && self.has_taken_all_before(mark) {
            let mark = self.send.each_ref().map(SendLane::position);
            self.borrowed = Borrowed { older: newer, newer: 0, mark };
        }
        let Borrowed { older, newer, .. } = self.borrowed;
        fits(older, newer)
    }

    /// Whether the peer has taken out what was sent with payloads up to these positions of its lanes.
    fn has_taken_all_before(&self, mark: [u32; 4]) -> bool {
        // Control carries none. Bulk may not be there.
        let looks = [true, true, false, self.bulk];
        let mut lanes = self.send.iter().zip(mark).zip(looks);
        lanes.all(|((lane, mark), looks)| !looks || lane.has_taken(mark))
    }

    /// Whether the peer has taken out all that was sent.
    pub(super) fn is_emptied(&mut self) -> bool {
        for (i, lane) in self.send.iter().enumerate() {
            if self.untaken & (1 << i) != 0 {
                if !lane.is_emptied() {
                    return false;
                }
                self.untaken &= !(1 << i);
            }
        }
        true
    }

    /// See [`Transport::arrivals`](tocsin_transport::Transport::arrivals).
    #[inline]
    pub(super) fn arrivals(&self, bulk: bool) -> u8 {
        if self.honesty == Honesty::Caught {
            return u8::MAX;
        }
        let [eager, coll, control, large] = &self.recv;
        [eager.has_packet(), coll.has_packet(), control.has_packet(), bulk && large.has_packet()]
            .into_iter()
            .enumerate()
            .fold(0, |bits, (class, is_there)| bits | u8::from(is_there) << class)
    }

    /// See [`Transport::coming`](tocsin_transport::Transport::coming).
    #[inline]
    pub(super) fn coming(&self, bulk: bool) -> u8 {
        let [eager, coll, _, large] = &self.recv;
        let comes = |lane: &RecvLane, class| u8::from(lane.arrival() == lane::Arrival::Comes) << class;
        let large = if bulk { comes(large, Class::Bulk as u8) } else { 0 };
        comes(eager, Class::Eager as u8) | comes(coll, Class::Coll as u8) | large
    }

    /// The end that receives in a class.
    #[inline]
    pub(super) fn incoming(&self, class: Class) -> &RecvLane {
        of(self.recv.each_ref(), class)
    }

    /// See [`Transport::has_arrived`](tocsin_transport::Transport::has_arrived).
    #[inline]
    pub(super) fn has_arrived(&self, class: Class) -> bool {
        self.incoming(class).has_packet() || self.honesty == Honesty::Caught
    }

    /// See [`Transport::arrival`](tocsin_transport::Transport::arrival).
    #[inline]
    pub(super) fn arrival(&self, class: Class) -> Arrival {
        match self.incoming(class).arrival() {
            lane::Arrival::Comes => Arrival::Comes,
            lane::Arrival::Nothing if self.honesty != Honesty::Caught => Arrival::Nothing,
            _ => Arrival::Here,
        }
    }

    /// Whether a pass would find something from this connected peer.
    #[inline]
    pub(super) fn work_left(&self, bulk: bool, spared: u8) -> bool {
        if self.arrivals(bulk) & !spared != 0 {
            return true;
        }
        let mut lanes = self.send.iter().enumerate();
        self.starved != 0 && lanes.any(|(i, lane)| self.starved & (1 << i) != 0 && lane.retry_is_due())
    }
}
