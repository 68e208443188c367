//! Which way a large message goes between two who wait: in two copies, in a pipeline, or in one that the kernel makes.
//!
//! Two copies by two cores at once were half of the time on one machine, and half as long again on another, where the kernel's copies cost less, or messages leave the caches
//! earlier; and where each rank sends to the other at the same time, each core makes two copies instead of one. Nothing says reliably what it is here. So a rank times the copies that
//! it makes while it waits, each kind by the length of the message: by the kernel, into shared memory, and out of it. The receiver, who decides, compares what the cores would be busy for:
//!
//! | | copied once | copied twice |
//! |---|---|---|
//! | plain message | half by each of the two | in, by one, while the other copies out |
//! | of a collective | by its receiver, which takes all that is left | the same |
//! | another is under way in the other direction | as many copies by each as above, and another | each copies one in, and one out |
//! | ranks share cores | by whichever | in and out: while one waits, another rank has its core |
//!
//! What is not known is found out by the first messages, and what has been the slower way is gone now and then: the rarer, the longer it has stayed the slower.
//! Times of single copies say more than those of whole messages: who waits for whom, and what else a rank does meanwhile, is not in them.

use tocsin_progress::{Context, Id};
use tocsin_sync::clock::now_ns;
use tocsin_transport::{Class, Transport};

use crate::P2p;

/// Longest plain message in bytes of which nothing is to be found out: by cells, or brought, in two copies, it stays in the caches.
const PLAIN_FROM: u64 = 512 << 10;
/// Lengths up to 128 KiB, up to twice as long, and so on; longer than all others is the last.
const SHORTEST: u64 = 128 << 10;
const LENGTHS: usize = 7;
/// Peers whose numbers differ by a multiple of this are taken for one: what is near is so in most machines.
const PEERS: usize = 8;
/// Messages between the first tries of the slower way; four times as many each time that it stays the slower, up to so many.
const SOON: u16 = 8;
const RARELY: u16 = 1024;
/// So many messages go the slower way in a row. The first one finds the caches as the other way has left them, takes half as long again, and is not counted.
const IN_A_ROW: u8 = 3;

/// No copy of 64 KiB takes so many ns by itself.
const ABSURD: u32 = 300_000;

/// A message in parts of how many copies are counted.
const WHOLE: u64 = 1 << 16;

/// A kind of copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Copied {
    ByKernel,
    In,
    Out,
}

/// How a message was received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Taken {
    Once,
    Twice,
}

/// What copies of a kind take, in ns for 64 KiB; 0: unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cost(u32);

impl Cost {
    /// The kernel did not do it.
    const REFUSED: Cost = Cost(u32::MAX);

    /// A mean of the last ones, each for as much as it is of its message of `total` bytes: that one message takes longer changes it by half of the difference at most. A copy may contain an interrupt, or the first
    /// touch of the memory: what takes longer than those before counts less than what takes less.
    fn note(&mut self, ns: u64, bytes: usize, total: u64) {
        let of_64k = ns.saturating_mul(64 << 10).checked_div(bytes as u64).unwrap_or(0);
        let of_64k = u32::try_from(of_64k).unwrap_or(u32::MAX).max(1);
        let part = (bytes as u64).saturating_mul(WHOLE).checked_div(total).unwrap_or(WHOLE).clamp(1, WHOLE);
        self.0 = match self.0 {
            // Another rank may have had the core meanwhile: nothing is known yet.
            0 if of_64k > ABSURD => 0,
            0 => of_64k,
            // Nothing is known but that the kernel refused: it is believed again after some copies, however short they are.
            known if known > ABSURD && of_64k < known => known.wrapping_sub(known.wrapping_sub(of_64k) / 4),
            known if of_64k < known => {
                let less =
                    u64::from(known.wrapping_sub(of_64k)).saturating_mul(part.saturating_mul(2).min(WHOLE));
                known.wrapping_sub(less.div_ceil(WHOLE) as u32)
            }
            known => {
                let more =
                    u64::from(of_64k.min(known.saturating_mul(4)).wrapping_sub(known)).saturating_mul(part);
                known.saturating_add(more.div_ceil(2 * WHOLE) as u32)
            }
        };
    }

    fn known(self) -> Option<u64> {
        (self.0 > 0).then_some(u64::from(self.0))
    }
}

/// What is known of one length.
#[derive(Clone, Copy, Debug)]
struct Known {
    kernel: Cost,
    copied_in: Cost,
    copied_out: Cost,
    /// Such messages go both ways at the same time.
    both: bool,
    /// How the peer has received this rank's last one.
    taken: Option<Taken>,
    /// It was the slower way to copy twice, at the last look; messages since then, and how many there are until the slower way is tried.
    once: bool,
    since: u16,
    every: u16,
    /// So many more are to go the slower way.
    trying: u8,
    /// Whether this rank's last one was received in two copies, and whether the one before it was not: then what it takes is no measure.
    last: bool,
    turned: bool,
}

impl Known {
    const UNKNOWN: Known = Known {
        kernel: Cost(0),
        copied_in: Cost(0),
        copied_out: Cost(0),
        both: false,
        taken: None,
        once: false,
        since: 0,
        every: SOON,
        trying: 0,
        last: false,
        turned: false,
    };

    /// Whether the next message is copied twice. `shared`: its sender makes half of the kernel's copies. `crowded`: ranks share cores. `follows`: of two in both directions the peer decides, because both
    /// ways at once are slower than either: as it has taken the last one, so is this.
    fn choose(&mut self, shared: bool, follows: bool, crowded: bool) -> bool {
        let twice = self.decide(shared, follows, crowded);
        self.turned = twice != self.last;
        self.last = twice;
        twice
    }

    /// So many bytes were copied in so many ns.
    fn note(&mut self, kind: Copied, ns: u64, bytes: usize, total: u64) {
        let cost = match kind {
            Copied::ByKernel => &mut self.kernel,
            Copied::In => &mut self.copied_in,
            Copied::Out => &mut self.copied_out,
        };
        let before = *cost;
        cost.note(ns, bytes, total);
        // What is quicker all the same says something.
        if self.turned && kind != Copied::In && before.known().is_some() && before.0 < cost.0 {
            *cost = before;
        }
    }

    fn decide(&mut self, shared: bool, follows: bool, crowded: bool) -> bool {
        let both = self.both;
        if let Some(taken) = self.taken.filter(|_| both && follows) {
            return taken == Taken::Twice;
        }
        let (Some(kernel), Some(out)) = (self.kernel.known(), self.copied_out.known()) else {
            // Twice at first: there is more to be found out.
            return self.copied_out.known().is_none();
        };
        let into = self.copied_in.known().unwrap_or(out);
        // For half of the message, both ways.
        let once = if shared && !both && !crowded { kernel } else { kernel.saturating_mul(2) };
        // One way the sender copies in meanwhile, which takes about as long; what that was for other messages says little. Of two that take turns at both, either
        // waits for pieces of the other's (256 KiB each way took 1.4 of what the copies did, 1 MiB 1.3), where no third rank has the core meanwhile.
        let copies = if both || crowded { into.saturating_add(out) } else { out }.saturating_mul(2);
        let waits = match (crowded, both) {
            (false, true) => copies / 4,
            _ => 0,
        };
        let twice = copies.saturating_add(waits);
        let once = once < twice;
        self.since = self.since.wrapping_add(1);
        if once != self.once {
            (self.once, self.since, self.every, self.trying) = (once, 0, SOON, 0);
        } else if self.trying > 0 {
            self.trying = self.trying.wrapping_sub(1);
            return once;
        } else if self.since >= self.every {
            (self.since, self.every) = (0, self.every.saturating_mul(4).min(RARELY));
            self.trying = IN_A_ROW.wrapping_sub(1);
            return once;
        }
        !once
    }
}

/// What a rank knows of the copies of its large messages.
#[derive(Debug)]
pub(crate) struct Ways {
    known: Box<[Known]>,
    /// Large messages of this rank's own that are under way.
    sends: u32,
    /// The last receive that was decided while there was none, until one is announced.
    alone: Option<(Id, usize)>,
    /// Ranks share cores.
    crowded: bool,
}

impl Ways {
    /// For a world of so many ranks; nothing is to be found out where there is no choice.
    pub(crate) fn new(size: u32, choice: bool) -> Ways {
        let peers = if choice { PEERS.min(size as usize) } else { 0 };
        Ways {
            known: vec![Known::UNKNOWN; peers.saturating_mul(LENGTHS)].into_boxed_slice(),
            sends: 0,
            alone: None,
            crowded: false,
        }
    }

    /// Ranks share cores: while one waits for another's copy, its core is not idle.
    pub(crate) fn set_crowded(&mut self) {
        self.crowded = true;
    }

    /// See [`set_crowded`](Self::set_crowded).
    pub(crate) fn is_crowded(&self) -> bool {
        self.crowded
    }

    fn index(peer: u32, total: u64) -> usize {
        let times = total.saturating_sub(1) / SHORTEST;
        let length = (u64::BITS.wrapping_sub(times.leading_zeros()) as usize).min(LENGTHS - 1);
        (peer as usize % PEERS).wrapping_mul(LENGTHS).wrapping_add(length)
    }

    /// The kernel has not copied what it was asked to, which may be because of where the buffer lies: it is asked again as rarely as for what takes longest.
    pub(crate) fn refused(&mut self, peer: u32, total: u64) {
        if let Some(known) = self.known.get_mut(Ways::index(peer, total)) {
            (known.kernel, known.trying) = (Cost::REFUSED, 0);
        }
    }

    /// A large message of this rank's own is announced.
    pub(crate) fn announced(&mut self) {
        self.sends = self.sends.wrapping_add(1);
        if let Some((_, index)) = self.alone.take()
            && let Some(known) = self.known.get_mut(index)
        {
            known.both = true;
        }
    }

    /// And over.
    pub(crate) fn over(&mut self) {
        self.sends = self.sends.wrapping_sub(1);
    }

    /// A receive is over.
    #[inline]
    pub(crate) fn received(&mut self, id: Id) {
        if let Some((_, index)) = self.alone.take_if(|(alone, _)| *alone == id)
            && let Some(known) = self.known.get_mut(index)
        {
            known.both = false;
        }
    }

    /// The peer has received a message of this rank's own.
    pub(crate) fn saw(&mut self, peer: u32, total: u64, taken: Taken) {
        if let Some(known) = self.known.get_mut(Ways::index(peer, total)) {
            known.taken = Some(taken);
        }
    }

    /// Whether a message of so many bytes is to be copied twice. Asked once for each.
    pub(crate) fn goes_twice(&mut self, id: Id, [me, peer]: [u32; 2], class: Class, total: u64) -> bool {
        let shared = class == Class::Eager;
        if shared && total <= PLAIN_FROM {
            return true;
        }
        let index = Ways::index(peer, total);
        let Some(known) = self.known.get_mut(index) else { return true };
        self.alone = (self.sends == 0).then_some((id, index));
        known.both |= self.sends > 0;
        known.choose(shared, me > peer, self.crowded)
    }
}

impl<T: Transport> P2p<T> {
    /// The time, if what is about to be copied is to be [timed](Self::time_copy): by a thread of the user, and where there is a choice.
    #[inline]
    pub(crate) fn copy_begins(&self) -> u64 {
        if self.context == Context::User && !self.ways.known.is_empty() { now_ns() } else { 0 }
    }

    /// So many bytes of a message of `total` were copied since that.
    #[inline]
    pub(crate) fn time_copy(&mut self, begun: u64, peer: u32, total: u64, kind: Copied, bytes: usize) {
        if begun != 0
            && let Some(known) = self.ways.known.get_mut(Ways::index(peer, total))
        {
            known.note(kind, now_ns().wrapping_sub(begun), bytes, total);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn known(kernel: u32, copied_in: u32, copied_out: u32) -> Known {
        let cost = |ns: u32| Cost(ns);
        Known {
            kernel: cost(kernel),
            copied_in: cost(copied_in),
            copied_out: cost(copied_out),
            ..Known::UNKNOWN
        }
    }

    /// How many of so many messages are copied twice.
    fn twice(known: &mut Known, messages: u32, shared: bool, follows: bool) -> u32 {
        (0..messages).filter(|_| known.choose(shared, follows, false)).count() as u32
    }

    #[test]
    fn what_keeps_the_cores_less_busy_is_taken() {
        // One half of the kernel's copies, against a pipeline.
        assert_eq!(twice(&mut known(7000, 0, 4000), 1, true, false), 0);
        assert_eq!(twice(&mut known(10_000, 0, 4000), 1, true, false), 1);
        // All of them.
        assert_eq!(twice(&mut known(7000, 0, 4000), 1, false, false), 1);
        // Both directions: each copies in and out.
        for shared in [true, false] {
            let both = Known { both: true, ..known(7000, 4000, 4000) };
            assert_eq!(twice(&mut both.clone(), 1, shared, false), 0);
            assert_eq!(twice(&mut Known { kernel: Cost(11_000), ..both }, 1, shared, false), 1);
        }
    }

    /// What one waits for the other's copy, a third has the core.
    #[test]
    fn where_ranks_share_cores_all_copies_count() {
        for (kernel, both, crowded) in [(7000, false, 0), (9000, false, 1), (7000, true, 0), (9000, true, 1)]
        {
            let known = || Known { both, ..known(kernel, 4000, 4000) };
            for shared in [true, false] {
                assert_eq!(u32::from(known().choose(shared, false, true)), crowded, "{kernel}, {both}");
            }
            // Each copies for itself, and half of the kernel's copies.
            let alone = u32::from(known().choose(true, false, false));
            assert_eq!(alone, u32::from(!both && kernel >= 9000), "{kernel}, {both}");
        }
    }

    #[test]
    fn what_is_unknown_is_found_out() {
        let mut new = Known::UNKNOWN;
        assert!(new.choose(true, false, false), "twice at first");
        new.copied_out.note(1000, 16 << 10, 1 << 20);
        assert_eq!(new.copied_out, Cost(4000));
        assert!(!new.choose(true, false, false), "then once");
        new.kernel.note(20_000, 64 << 10, 1 << 20);
        assert!(new.choose(true, false, false));
    }

    #[test]
    fn the_slower_way_is_tried_ever_rarer_and_taken_when_it_is_not() {
        let mut slow = known(20_000, 0, 4000);
        let tries = 10_000 - twice(&mut slow, 10_000, true, false);
        assert!((30..60).contains(&tries), "{tries}");
        // A try shows that it has become the faster.
        for _ in 0..40 {
            slow.kernel.note(3000, 64 << 10, 1 << 20);
        }
        assert!(twice(&mut slow, 1000, true, false) < 20);
    }

    /// The first message the other way pays for what the caches have of this one: it takes some to see that they are the faster. (Times of messages of 2 MiB on an EPYC.)
    #[test]
    fn one_message_is_no_try() {
        let (mut known, mut before, mut right) = (known(6000, 2000, 3600), false, 0);
        for message in 0..200 {
            let twice = known.choose(true, false, false);
            let out = if before { 3600 } else { 6400 };
            (0..16).filter(|_| twice).for_each(|_| known.note(Copied::Out, out, 128 << 10, 2 << 20));
            (0..8).filter(|_| !twice).for_each(|_| known.note(Copied::ByKernel, 12_000, 128 << 10, 2 << 20));
            before = twice;
            right += u32::from(twice && message >= 100);
        }
        assert!(right >= 90, "{right} of the last 100");
    }

    #[test]
    fn a_kernel_that_refuses_is_asked_rarely() {
        let mut ways = Ways::new(2, true);
        let at = Ways::index(1, 1 << 20);
        ways.known[at].copied_out = Cost(4000);
        ways.refused(1, 1 << 20);
        let asked = 1000 - twice(&mut ways.known[at], 1000, true, false);
        assert!((1..=15).contains(&asked), "{asked}");
    }

    #[test]
    fn times_are_means_that_do_not_believe_much_more_at_once() {
        const LEN: u64 = 512 << 10;
        let mut cost = Cost::default();
        cost.note(4000, 64 << 10, LEN);
        cost.note(4_000_000, 64 << 10, LEN);
        assert!(cost.0 < 5000, "{cost:?}");
        for _ in 0..100 {
            cost.note(8000, 64 << 10, LEN);
        }
        assert!((7900..8100).contains(&cost.0), "{cost:?}");
        cost.note(u64::MAX, 1, LEN);
        cost.note(5, 0, 0);
    }

    /// In whatever parts it is copied: a longer message, of more of them, says no more.
    #[test]
    fn one_slow_message_changes_a_time_by_half_at_most() {
        for parts in [1, 2, 8, 64, 256, 2048] {
            let (mut up, mut down, mut known) = (Cost(4000), Cost(4000), Cost(2000));
            for message in 0..50 {
                for _ in 0..parts {
                    if message == 0 {
                        up.note(8000, 64 << 10, parts << 16);
                        down.note(2000, 64 << 10, parts << 16);
                    }
                    known.note(2500, 64 << 10, parts << 16);
                }
            }
            // What is rounded up is a little more.
            assert!((5500..=6100).contains(&up.0), "{parts}: {up:?}");
            assert!((2000..=2300).contains(&down.0), "{parts}: {down:?}");
            // However little of it each is.
            assert!((2450..=2500).contains(&known.0), "{parts}: {known:?}");
        }
    }

    /// Of two that exchange messages one decides, and the other does the same.
    #[test]
    fn of_two_in_both_directions_one_follows() {
        const LEN: u64 = 1 << 20;
        let id = |index| Id { index, generation: 1 };
        let decide = |ways: &mut Ways, number, ranks| ways.goes_twice(id(number), ranks, Class::Coll, LEN);
        let mut ways = Ways::new(2, true);
        let at = Ways::index(0, LEN);
        // Its own message is announced while the other is received, so that the next one is known to have company.
        assert!(decide(&mut ways, 1, [1, 0]));
        ways.announced();
        ways.received(id(1));
        ways.over();
        assert!(ways.known[at].both);
        ways.saw(0, LEN, Taken::Once);
        assert!(!decide(&mut ways, 2, [1, 0]), "as the peer did");
        ways.announced();
        ways.saw(0, LEN, Taken::Twice);
        assert!(decide(&mut ways, 3, [1, 0]), "as it does now");
        ways.over();
        // One that has none follows nobody.
        decide(&mut ways, 4, [1, 0]);
        ways.received(id(4));
        assert!(!ways.known[at].both);
    }

    #[test]
    fn without_a_choice_nothing_is_kept() {
        let mut ways = Ways::new(1000, false);
        assert!(ways.known.is_empty());
        assert!(ways.goes_twice(Id { index: 0, generation: 0 }, [0, 1], Class::Coll, u64::MAX));
        assert!(Ways::new(1000, true).known.len() <= 64);
    }

    #[test]
    fn lengths_double() {
        let lengths = [1, 128 << 10, (128 << 10) + 1, 1 << 20, (1 << 20) + 1, 8 << 20, u64::MAX];
        assert_eq!(lengths.map(|len| Ways::index(8, len)), [0, 0, 1, 3, 4, 6, 6]);
        assert_eq!(Ways::index(9, 1), LENGTHS);
    }
}
