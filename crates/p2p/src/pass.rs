//! One bounded pass: drain the lanes, retry what waits for room, sweep.

use tocsin_progress::{Budget, Context, Pass};
use tocsin_transport::short::Run;
use tocsin_transport::{Class, Transport};

use crate::P2p;
use crate::coming::bit;
use crate::packets::Step;
use crate::send::Attempt;
use crate::unsaid::Word;

/// Packets of one lane before the next peer's turn, so that a flood from one leaves room for the others.
const QUANTUM: u32 = 8;

/// How a part of a pass ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    pub(crate) worked: bool,
    pub(crate) spent: bool,
}

impl Part {
    pub(crate) const IDLE: Part = Part { worked: false, spent: false };

    pub(crate) fn add(&mut self, other: Part) {
        self.worked |= other.worked;
        self.spent |= other.spent;
    }
}

impl<T: Transport> P2p<T> {
    /// One pass, bounded by the budget: takes in what has arrived, sends what waits for room, ends what cannot be met
    /// any more. Handler-safe. The caller flushes the transport afterwards.
    pub fn progress(&mut self, budget: &mut Budget) -> Pass {
        self.context = budget.context();
        self.set_waits(self.context == Context::User && budget.is_waiting());
        self.waits_soon &= self.context == Context::User && !self.waits;
        self.again = false;
        self.met_in_hand = 0;
        self.posted_since = 0;
        // Who is gone must be known before the pass looks at what they sent and whether they had connected.
        self.refresh_epoch();
        self.transport.begin_pass();
        self.look_for_nobodys();
        self.turn = self.turn.wrapping_add(1);
        let arrived = self.note_arrivals(!budget.is_in_passing());

        // Answers first: they are cheap and set others going. Then what arrives and what waits take turns at the head
        // of the budget, so that neither starves the other.
        let mut all = Part::IDLE;
        if arrived & bit(Class::Control) != 0 {
            all = self.drain(Class::Control, budget);
        }
        if self.turn & 1 == 0 {
            all.add(self.sweep_part(budget));
        }
        let [first, second] =
            if self.turn & 2 == 0 { [Class::Bulk, Class::Eager] } else { [Class::Eager, Class::Bulk] };
        if self.turn & 1 == 0 {
            all.add(self.retry(budget));
        }
        for class in [Class::Coll, first, second] {
            if arrived & bit(class) != 0 {
                all.add(self.drain(class, budget));
            }
        }
        if self.turn & 1 == 1 {
            all.add(self.retry(budget));
        }

        all.add(self.copy_part(budget));
        self.finish_draining();
        all.add(self.sweep_part(budget));
        if all.spent {
            // What is left may lie where no look finds it: sends for which there is room.
            self.again = true;
            Pass::More
        } else if all.worked {
            Pass::Worked
        } else {
            Pass::Idle
        }
    }

    fn sweep_part(&mut self, budget: &mut Budget) -> Part {
        if !self.faults.is_sweeping() {
            return Part::IDLE;
        }
        self.sweep(budget);
        Part { worked: true, spent: self.faults.is_sweeping() }
    }

    /// Notes which lanes to look into, so that empty ones cost a load each; with `coming`, those in which something comes, too.
    /// Those of all peers together.
    fn note_arrivals(&mut self, coming: bool) -> u8 {
        let mut all = 0;
        for peer in self.transport.connected() {
            let comes = if coming { self.coming(*peer) } else { 0 };
            let Some(state) = self.peers.get_mut(*peer as usize) else { continue };
            state.arrived = self.transport.arrivals(*peer) | comes;
            // A lane that was blocked and is closed now has to be counted out.
            let [eager, coll] = state.blocked;
            state.arrived |= (u8::from(eager) * bit(Class::Eager)) | (u8::from(coll) * bit(Class::Coll));
            all |= state.arrived;
        }
        let count = self.transport.connected().len();
        self.first = (self.turn as usize).checked_rem(count).unwrap_or(0);
        all
    }

    /// Takes in what all peers sent in one class.
    fn drain(&mut self, class: Class, budget: &mut Budget) -> Part {
        let mut part = Part::IDLE;
        loop {
            let mut left = false;
            let count = self.transport.connected().len();
            for number in (self.first..count).chain(0..self.first) {
                let Some(peer) = self.transport.connected().get(number).copied() else { continue };
                if self.peers.get(peer as usize).is_none_or(|state| state.arrived & bit(class) == 0) {
                    continue;
                }
                let run =
                    if class == Class::Eager { self.meet_run(peer, QUANTUM, budget) } else { Run::default() };
                let mut taken = run.taken;
                let step = loop {
                    if run.emptied {
                        // Another look at the same place would be in the way of who writes there next.
                        break Step::Empty;
                    }
                    if taken == QUANTUM {
                        left = true;
                        break Step::Taken;
                    }
                    match self.step(peer, class, budget) {
                        Step::Taken => taken = taken.wrapping_add(1),
                        other => break other,
                    }
                };
                part.worked |= taken > 0;
                // A lane that becomes blocked is news to threads that sleep: one of them may have to make room.
                part.worked |= self.set_blocked(peer, class, step);
                if step == Step::Spent {
                    part.spent = true;
                    return part;
                }
            }
            if !left {
                return part;
            }
        }
    }

    /// Keeps count of the lanes that wait for room among the unexpected messages. Whether this one is newly blocked.
    pub(crate) fn set_blocked(&mut self, peer: u32, class: Class, step: Step) -> bool {
        let Some(state) = self.peers.get_mut(peer as usize) else { return false };
        let Some(blocked) = state.blocked.get_mut(class.index()) else { return false };
        let now = step == Step::Blocked || step == Step::Spent && *blocked;
        if *blocked == now {
            return false;
        }
        *blocked = now;
        self.hindrances = self.hindrances.wrapping_add(u64::from(now));
        self.blocked = if now { self.blocked.wrapping_add(1) } else { self.blocked.saturating_sub(1) };
        now
    }

    /// Sends what waits for room in a lane. Who comes first changes from pass to pass: peers in turn, queued sends and
    /// pieces of large messages in turn.
    fn retry(&mut self, budget: &mut Budget) -> Part {
        if self.outgoing.is_empty() {
            return Part::IDLE;
        }
        let pieces_first = self.turn & 4 != 0;
        let mut part = if pieces_first { self.retry_pieces(budget) } else { self.retry_queues(budget) };
        if !part.spent {
            part.add(if pieces_first { self.retry_queues(budget) } else { self.retry_pieces(budget) });
        }
        part
    }

    fn retry_queues(&mut self, budget: &mut Budget) -> Part {
        let mut part = Part::IDLE;
        let from = self.retry_from;
        for (start, end) in [(from, self.size), (0, from)] {
            let mut next = self.outgoing.next(start);
            while let Some(peer) = next.filter(|peer| *peer < end) {
                part.add(self.retry_peer(peer, budget));
                if part.spent {
                    self.retry_from = peer.wrapping_add(1);
                    return part;
                }
                if self.peers.get(peer as usize).is_none_or(|p| !p.has_outgoing()) {
                    self.outgoing.remove(peer);
                    // Who has seen the room by itself need not be told of it, and may be about to leave the library.
                    self.transport.asks_no_more(peer, Class::Eager);
                    self.transport.asks_no_more(peer, Class::Coll);
                }
                next = self.outgoing.next(peer.wrapping_add(1));
            }
        }
        part
    }

    /// Pieces of large messages: one for each peer in turn, until nobody takes more.
    fn retry_pieces(&mut self, budget: &mut Budget) -> Part {
        let mut part = Part::IDLE;
        loop {
            let mut sent = false;
            let mut next = self.outgoing.next(0);
            while let Some(peer) = next {
                next = self.outgoing.next(peer.wrapping_add(1));
                match self.next_piece(peer, budget) {
                    Some(Attempt::Done) => sent = true,
                    Some(Attempt::Spent) => {
                        part.worked |= sent;
                        part.spent = true;
                        return part;
                    }
                    Some(Attempt::Full) | None => {}
                }
            }
            part.worked |= sent;
            if !sent {
                return part;
            }
        }
    }

    /// Answers, then queued sends, to one peer.
    fn retry_peer(&mut self, peer: u32, budget: &mut Budget) -> Part {
        let mut part = Part::IDLE;
        let before = self.counters.packets_sent;
        let room = self.retry_unsaid(peer, &Word::BEFORE);
        let room = room && self.retry_revokes(peer) && self.retry_unsaid(peer, &Word::AFTER);
        part.worked |= self.counters.packets_sent != before;
        if room && self.peers.get(peer as usize).is_some_and(|p| p.owes_look) {
            self.tell_to_look(peer);
        }
        while let Some(id) = self.peers.get(peer as usize).and_then(|p| p.control.first(&self.requests)) {
            if !room {
                break;
            }
            if !budget.packet() {
                part.spent = true;
                return part;
            }
            if !self.try_answer(id) {
                budget.in_vain();
                break;
            }
            part.worked = true;
        }
        for class in [Class::Coll, Class::Eager] {
            let before = self.counters.packets_sent;
            let attempt = self.retry_queue(peer, class, budget);
            part.worked |= self.counters.packets_sent != before;
            if attempt == Attempt::Spent {
                part.spent = true;
                return part;
            }
        }
        part
    }
}
