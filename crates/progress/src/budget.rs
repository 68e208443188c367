//! How much one pass over the work may do, and what that work looks like to the engine.

use tocsin_sync::clock::now_ns;

/// Packets per handler entry (architecture, rule 5).
pub const HANDLER_PACKETS: u32 = 32;
/// Bytes copied per handler entry (architecture, rule 5).
pub const HANDLER_BYTES: usize = 64 * 1024;
/// Nanoseconds per handler entry (architecture, rule 5).
pub const HANDLER_NS: u64 = 20_000;
/// Packets per pass of a user's thread or a progress thread: long enough to amortise the entry, short
/// enough that a thread that wants the token waits for microseconds.
pub const USER_PACKETS: u32 = 256;
/// Bytes per pass of a user's thread or a progress thread.
pub const USER_BYTES: usize = 1024 * 1024;
/// A deadline that work has yet to set.
const UNSET: u64 = u64::MAX;
/// [`Budget::packet`] reads the clock (25 ns) once in this many packets.
const PACKETS_PER_CLOCK: u32 = 4;

/// Who runs the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Context {
    /// A thread of the user's inside a library call. May allocate outside [`Work::progress`].
    User,
    /// Code between two instructions of a user's thread. Nothing may wait, allocate, free, lock or panic.
    Handler,
    /// A thread that exists to make progress.
    ProgressThread,
}

/// What a pass over the work found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pass {
    /// Nothing to do.
    Idle,
    /// Something was done, nothing is left that could be done now.
    Worked,
    /// The budget ended with work left.
    More,
}

/// What one pass may still do: packets, bytes to copy, and time. Handlers may use it.
///
/// Time ends nothing before the first piece of work has begun. Where the way there alone takes longer (a slow or emulated
/// machine, a thread that is always preempted), entry after entry would find its time over and do nothing, for ever.
///
/// Progress class: wait-free, no atomic operation.
#[derive(Debug)]
pub struct Budget {
    context: Context,
    /// Who runs the pass does not wait for what it does.
    passing: bool,
    /// Who runs the pass waits, and makes the next ones too.
    waiting: bool,
    /// Long copies are for the next pass of who waits.
    sparing: bool,
    packets: u32,
    bytes: usize,
    /// 0: none. [`UNSET`]: when work begins.
    deadline_ns: u64,
    /// Some work was.
    begun: bool,
    /// The last packet was the first work.
    first: bool,
    /// The deadline was seen to be over.
    overdue: bool,
}

impl Budget {
    /// A handler's: 32 packets, 64 KiB, 20 us from its first work on. Reads no clock before that.
    #[inline]
    pub fn handler() -> Budget {
        Budget { deadline_ns: UNSET, ..Budget::handler_since(0) }
    }

    /// A handler's, counted from a time already read.
    #[inline]
    pub fn handler_since(now: u64) -> Budget {
        Budget {
            context: Context::Handler,
            passing: true,
            waiting: false,
            sparing: false,
            packets: HANDLER_PACKETS,
            bytes: HANDLER_BYTES,
            deadline_ns: now.wrapping_add(HANDLER_NS),
            begun: false,
            first: false,
            overdue: false,
        }
    }

    /// A user's thread: 256 packets, 1 MiB, no deadline.
    #[inline]
    pub fn user() -> Budget {
        Budget {
            context: Context::User,
            passing: false,
            waiting: false,
            sparing: false,
            packets: USER_PACKETS,
            bytes: USER_BYTES,
            deadline_ns: 0,
            begun: false,
            first: false,
            overdue: false,
        }
    }

    /// What a pass in the given context may do.
    #[inline]
    pub fn of(context: Context) -> Budget {
        match context {
            Context::Handler => Budget::handler(),
            Context::User | Context::ProgressThread => Budget { context, ..Budget::user() },
        }
    }

    /// A budget of the given size without a deadline; for tests that want to see a pass end early.
    pub fn limited(context: Context, packets: u32, bytes: usize) -> Budget {
        let passing = context == Context::Handler;
        Budget {
            context,
            passing,
            waiting: false,
            sparing: false,
            packets,
            bytes,
            deadline_ns: 0,
            begun: false,
            first: false,
            overdue: false,
        }
    }

    /// Says that who runs the pass goes away after it, as handlers do: a user's thread that has posted something.
    #[must_use]
    pub fn in_passing(self) -> Budget {
        Budget { passing: true, waiting: false, sparing: false, ..self }
    }

    /// Says that who runs the pass waits in the library, and goes on with what it begins by itself. Who only tests does not: it may compute
    /// next.
    #[must_use]
    pub fn waiting(self) -> Budget {
        Budget { passing: false, waiting: true, sparing: false, ..self }
    }

    /// Says that who runs the pass is about to wait, and leaves copies that both ends can make to its next one: by then peers see that it waits.
    #[must_use]
    pub fn sparing(self) -> Budget {
        Budget { sparing: true, ..self.waiting() }
    }

    /// Whether such copies are for a later pass.
    #[inline]
    pub fn is_sparing(&self) -> bool {
        self.sparing
    }

    /// Whether who runs the pass waits.
    #[inline]
    pub fn is_waiting(&self) -> bool {
        self.waiting
    }

    /// Whether who runs the pass goes away after it: what a peer that waits would do is better left to that one.
    #[inline]
    pub fn is_in_passing(&self) -> bool {
        self.passing
    }

    /// Another pass by the same.
    #[inline]
    pub(crate) fn renew(&mut self) {
        let Budget { context, passing, waiting, sparing, .. } = *self;
        *self = Budget { passing, waiting, sparing, ..Budget::of(context) };
    }

    /// Takes one packet from the budget. False when it is spent: leave the packet where it is and answer
    /// [`Pass::More`].
    #[inline]
    pub fn packet(&mut self) -> bool {
        if self.packets == 0 || self.bytes == 0 {
            return false;
        }
        self.overdue = self.overdue || self.packets.is_multiple_of(PACKETS_PER_CLOCK) && self.late();
        if self.overdue && self.begun {
            self.packets = 0;
            return false;
        }
        self.set_deadline();
        self.first = !self.begun;
        self.begun = true;
        self.packets -= 1;
        true
    }

    /// How many packets of at most `bytes` bytes each may be handled without a look at the clock between: none where there is a
    /// deadline. To be [noted](Self::took) afterwards.
    #[inline]
    pub fn untimed(&self, bytes: usize) -> u32 {
        let all = self.packets as usize * bytes;
        if self.deadline_ns == 0 && all <= self.bytes { self.packets } else { 0 }
    }

    /// Notes that so many packets were handled, with so many bytes together.
    #[inline]
    pub fn took(&mut self, packets: u32, bytes: usize) {
        self.packets = self.packets.saturating_sub(packets);
        self.take_bytes(bytes);
    }

    /// Says that the last packet taken could not be handled, for want of room: it was no work, and no first one.
    #[inline]
    pub fn in_vain(&mut self) {
        if self.first {
            self.begun = false;
        }
    }

    /// Notes that work begins which is no packet: from here on, time counts.
    #[inline]
    pub fn begin(&mut self) {
        self.set_deadline();
        self.begun = true;
        self.first = false;
    }

    /// Reads the clock once.
    #[inline]
    fn set_deadline(&mut self) {
        if self.deadline_ns == UNSET {
            self.deadline_ns = now_ns().wrapping_add(HANDLER_NS);
        }
    }

    /// When a handler's time began: 0 if it has not, or if this is no handler's.
    #[inline]
    pub fn time_began(&self) -> u64 {
        if self.deadline_ns == UNSET { 0 } else { self.deadline_ns.saturating_sub(HANDLER_NS) }
    }

    /// Packets that may still be handled.
    #[inline]
    pub fn packets_left(&self) -> u32 {
        self.packets
    }

    /// Bytes that may still be copied. A packet whose payload is larger may be taken all the same when the
    /// budget is otherwise untouched; [`Budget::take_bytes`] saturates.
    #[inline]
    pub fn bytes_left(&self) -> usize {
        self.bytes
    }

    /// Notes that `n` bytes were copied or combined.
    #[inline]
    pub fn take_bytes(&mut self, n: usize) {
        self.begin();
        self.bytes = self.bytes.saturating_sub(n);
        // A copy of some KiB is worth a look at the clock; a small one is not.
        if n >= 4096 && self.late() {
            self.packets = 0;
        }
    }

    /// Whether nothing more may begin. Reads the clock when there is a deadline.
    #[inline]
    pub fn exhausted(&mut self) -> bool {
        if self.packets == 0 || self.bytes == 0 {
            return true;
        }
        if self.begun && self.late() {
            self.packets = 0;
            return true;
        }
        false
    }

    /// Whether any of the three limits is reached, work begun or not: then no other pass begins.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.packets == 0 || self.bytes == 0 || self.late()
    }

    /// Who runs this pass.
    #[inline]
    pub fn context(&self) -> Context {
        self.context
    }

    #[inline]
    fn late(&self) -> bool {
        self.deadline_ns != 0 && self.deadline_ns != UNSET && now_ns() >= self.deadline_ns
    }
}

/// The work an engine runs: all the communication state of one rank.
///
/// # Safety
/// The methods here run in handlers. The implementer promises that they, and all they call, never allocate,
/// free, lock, wait, panic, format or touch lazily initialised thread-local storage; that they are bounded
/// by the budget (and [`leave`](Work::leave), [`wants_plain`](Work::wants_plain) and
/// [`work_left`](Work::work_left) by the number of ranks); and that the value may be used by whichever
/// thread holds the engine's token, one at a time.
///
/// `progress` never allocates, whoever runs it: the engine does not know what the next caller will be.
#[allow(unsafe_code)] // declaring the trait
pub unsafe trait Work: Send {
    /// Drains what it finds, within the budget. [`Pass::More`] when the budget ended first.
    fn progress(&mut self, budget: &mut Budget) -> Pass;

    /// Called before the token is released, after all passes: ring whoever must be rung.
    fn leave(&mut self);

    /// [`leave`](Work::leave), but nobody is interrupted by signal: whether somebody would have to be. Called again as long as its caller has
    /// the patience, and `leave` then. Not called in handlers.
    fn leave_quietly(&mut self) -> bool {
        self.leave();
        false
    }

    /// Whether something waits for this rank that nobody will remind it of: a thread that has posted it and leaves for long
    /// must come back. Called after [`leave`](Work::leave); bounded as that.
    fn is_unfinished(&self) -> bool {
        false
    }

    /// Whether the rank has an operation under way: one that a pass, now or later, moves on. False of a rank that has nothing to
    /// wait for, even if its peers have sent it something. Handler-safe.
    fn has_operations(&self) -> bool {
        true
    }

    /// Whether plain (not urgent) messages should interrupt this rank too, because something it waits for
    /// may come that way. Published in the attention word.
    fn wants_plain(&self) -> bool;

    /// Whether offers should interrupt this rank, because it has asked for what they may offer
    /// ([`Urgency::Offer`](tocsin_doorbell::Urgency::Offer)). Published as [`wants_plain`](Self::wants_plain).
    fn wants_offers(&self) -> bool;

    /// Whether this rank has published, since this was asked last, something else by which its peers see that they should interrupt it: then the engine
    /// fences and looks, as it does when more is wanted by the attention word. Handler-safe.
    fn takes_published(&mut self) -> bool {
        false
    }

    /// Whether [`leave`](Self::leave) should be called again within a millisecond, because somebody who was rung may
    /// not have heard it. Handler-safe.
    fn awaits_answer(&self) -> bool {
        false
    }

    /// Whether something waits for what only a thread outside handlers may do and nobody is there to do it: then the
    /// callback thread is asked ([`Callbacks::set_chore`](crate::Callbacks::set_chore)). Handler-safe.
    fn wants_chore(&self) -> bool {
        false
    }

    /// Whether another rank has computed for long on a core, by its number ([`core_number`](tocsin_doorbell::core_number)), at a time of
    /// [`now_ns`]: a hint, for who would yield there. Bounded by a constant. Not called in handlers.
    fn computes_beside(&mut self, _core: u32, _now: u64) -> bool {
        false
    }

    /// Another core, by its number, on which fewer ranks wait than on this rank's own, if the difference is two or more and this rank is who should go there: a hint.
    /// Bounded by a constant. Not called in handlers.
    fn roomier_core(&mut self, _core: u32, _now: u64) -> Option<u32> {
        None
    }

    /// Whether a pass would find something: a cheap look that consumes nothing. The engine calls it for the
    /// look-once-more of its sleep protocol, *after* a full fence.
    ///
    /// The default answers true, which costs a pass and loses nothing; false when there is work would lose
    /// a wake-up.
    fn work_left(&self) -> bool {
        true
    }

    /// As [`work_left`](Self::work_left), of what only the pass of a thread that waits takes up.
    fn has_coming(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_run_out() {
        let mut budget = Budget::limited(Context::User, 3, 100);
        assert_eq!((0..10).filter(|_| budget.packet()).count(), 3);
        assert!(budget.exhausted());
    }

    #[test]
    fn bytes_run_out_and_saturate() {
        let mut budget = Budget::handler();
        assert_eq!(budget.bytes_left(), HANDLER_BYTES);
        budget.take_bytes(usize::MAX);
        assert_eq!(budget.bytes_left(), 0);
        assert!(budget.exhausted());
        assert!(!budget.packet());
    }

    #[test]
    fn time_runs_out_for_handlers_only() {
        let mut budget = Budget::handler_since(now_ns() - HANDLER_NS);
        budget.begin();
        assert!(budget.exhausted());
        assert!(!budget.packet());
        let mut budget = Budget::user();
        assert!(!budget.exhausted());
        assert_eq!(Budget::of(Context::ProgressThread).context(), Context::ProgressThread);
    }

    /// However late it comes: one piece of work, of any kind, and no second.
    #[test]
    fn a_late_handler_does_one_thing() {
        let late = || Budget::handler_since(now_ns() - HANDLER_NS);
        let mut packets = late();
        assert!(!packets.exhausted() && packets.is_over());
        assert!(packets.packet());
        assert!(packets.exhausted() && !packets.packet());
        let mut stuck = late();
        for _ in 0..HANDLER_PACKETS / 2 {
            assert!(stuck.packet());
            stuck.in_vain();
        }
        assert!(stuck.packet() && !stuck.packet());
        stuck.in_vain();
        assert!(!stuck.packet(), "spent is spent");
        let mut bytes = late();
        bytes.take_bytes(1);
        assert!(bytes.exhausted() && !bytes.packet());
        let mut other = late();
        other.begin();
        assert!(!other.packet());
    }

    #[test]
    fn time_begins_with_work() {
        let mut budget = Budget::handler();
        assert!(!budget.exhausted() && !budget.is_over() && budget.time_began() == 0);
        let before = now_ns();
        assert!(budget.packet());
        assert!((before..=now_ns()).contains(&budget.time_began()));
        while now_ns() < before + 2 * HANDLER_NS {}
        assert!(budget.is_over() && budget.exhausted() && !budget.packet());
        assert_eq!(Budget::user().time_began(), 0);
    }

    #[test]
    fn handler_budget_is_rule_5() {
        let budget = Budget::handler();
        assert_eq!((budget.packets_left(), budget.bytes_left()), (32, 65536));
    }
}
