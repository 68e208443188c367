//! Where ranks take turns on cores: a thread that waits for a short message, without a request, and gives its core away between its looks.
//!
//! As [`Engine::wait_until`] does, and by the same experience (`yields.rs`), but it is the caller who looks: it enters, looks at the one place where the message will
//! be, and leaves. When that no longer pays, it posts its receive and waits as others do.
//!
//! Who counts as a poller meanwhile looks once more at the end, and before it runs callbacks, as a waiter does (`wait.rs`). Who does not is rung as a rank that computes.

use super::together::others_had_it;
use super::{Engine, Entered, USER_CONTINUE_NS};
use crate::budget::{Budget, Context, Pass, Work};
use tocsin_sync::clock::now_ns;

/// A thread that takes turns with others on its core. Dropping it looks once more, or has the caller do so, if that is inside.
#[derive(Debug)]
pub struct Turns<'a, W: Work> {
    engine: &'a Engine<W>,
    /// None: not yet, because callbacks come first.
    begun: Option<u64>,
    /// The thread counts as a poller.
    announced: bool,
    /// The core was given away, and has come back.
    yielded: bool,
    /// More than once.
    several: bool,
    /// What is looked for comes from this core, as far as is known.
    beside: bool,
    /// Whether others had the core when it was given away last, where that tells.
    others: Option<bool>,
    /// [`Engine::stay_begins`].
    stay: u64,
}

impl<W: Work> Engine<W> {
    /// Whether ranks take turns on cores.
    #[inline]
    pub fn is_crowded(&self) -> bool {
        self.config.yield_ns > 0
    }

    /// This thread is about to give its core away for what it looks for by itself. `announces`: others need not ring the rank meanwhile, which is worth its price where
    /// anything else is under way. User threads only.
    /// `beside`: what it looks for comes from this core, as far as is known.
    pub fn turns(&self, announces: bool, beside: bool) -> Turns<'_, W> {
        if announces {
            self.own().begin_poll();
        }
        let begun = self.callbacks.is_empty().then(now_ns);
        Turns {
            engine: self,
            begun,
            announced: announces,
            yielded: false,
            several: false,
            beside,
            others: None,
            stay: self.stay_begins(),
        }
    }
}

impl<W: Work> Turns<'_, W> {
    /// Leaves the engine. Who counts as a poller leaves callbacks queued, which may last, for when it does not: the next
    /// [`give_way`](Self::give_way), or the end.
    pub fn leave(&self, mut inside: Entered<'_, W>) {
        if self.announced {
            inside.leave_callbacks();
        }
        drop(inside);
    }

    /// Gives the core away once, after callbacks. False: that pays no more, or not now, and the caller is to wait by [`Engine::wait_until`]. Outside the engine.
    ///
    /// Progress class: blocking: the core comes back when the others on it have had their turns.
    pub fn give_way(&mut self) -> bool {
        if self.engine.callbacks.are_left() {
            self.call_back();
        }
        let Engine { yields, .. } = self.engine;
        if self.others.take().is_some() {
            // It has brought nothing.
            self.engine.together.note(false);
        }
        let begun = *self.begun.get_or_insert_with(now_ns);
        let now = if self.yielded { now_ns() } else { begun };
        if self.yielded && !self.beside {
            yields.note_stay(false);
        }
        let lasted = now.wrapping_sub(begun);
        if self.engine.yield_ns() == 0 {
            // What was known of a shared core is so no more.
            return false;
        }
        if lasted >= yields.yields_for(self.engine.yield_ns()) {
            // The wait that the caller goes on to does not count this time, and itself if it lasts, too.
            yields.note_unmet(lasted);
            yields.bar_asleep(now);
            return false;
        }
        if yields.is_barred(now) || yields.apart.is_asked() || self.engine.would_yield_to_computing(now) {
            return false;
        }
        if !self.yielded && !self.beside {
            yields.note_look(false);
        }
        self.several = self.yielded;
        let back = yields.give_way(now);
        if self.engine.config.yield_ns == 0 {
            self.others = Some(others_had_it(now, back));
        }
        self.yielded = back.is_some();
        self.yielded
    }

    /// Runs callbacks that are queued. Nobody counts on this thread's looks meanwhile.
    #[cold]
    fn call_back(&mut self) {
        if self.announced {
            self.end_poll();
            self.engine.own().begin_poll();
            self.announced = true;
        } else {
            self.engine.run_callbacks();
        }
        self.begun = None;
    }

    /// Counts no more as a poller, looks once more, and runs callbacks.
    fn end_poll(&mut self) {
        self.announced = false;
        self.engine.own().end_poll();
        // What was published while this thread was seen polling was not announced to anybody else; `end_poll` has fenced. Who is inside makes a pass before it leaves.
        if self.engine.look(Budget::of(Context::User)) == Some(Pass::More) {
            self.engine.come_back(USER_CONTINUE_NS);
        }
    }

    /// Whether to look for long, if what is looked for was not there when the core came back: to give that away at once would take two switches. `beside`: it comes from who
    /// waits for this core, and never comes while this thread looks.
    pub fn stays(&mut self, beside: bool) -> bool {
        self.beside = beside;
        !beside && self.engine.yields.stays_until(0) > 0
    }

    /// What was looked for has come. `stayed`: it was not there when the core came back.
    pub fn note_met(&self, stayed: bool) {
        if let Some(others) = self.others {
            self.engine.together.note(others);
        }
        let yields = &self.engine.yields;
        if stayed {
            yields.note_stay(true);
        }
        yields.note_saved(self.several);
        let begun = self.begun.filter(|_| self.several);
        yields.note_lasted(begun.map_or(0, |begun| now_ns().wrapping_sub(begun)));
    }
}

impl<W: Work> Drop for Turns<'_, W> {
    fn drop(&mut self) {
        if self.announced {
            self.end_poll();
        }
        self.engine.stay_ends(self.stay);
    }
}
