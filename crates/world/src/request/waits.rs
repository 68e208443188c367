//! Testing and waiting for one request.

use std::time::Duration;

use tocsin_p2p::Grown;
use tocsin_progress::{Code, Context, Id};

use super::{Kind, RawRequest, Status};
use crate::asks;
use crate::error::Error;
use crate::operator::InsideOperator;

/// Who waits for less than this again and again asks.
const BRIEF: Duration = Duration::from_micros(5);

impl RawRequest {
    /// Makes some progress, then gives the outcome if there is one. The outcome stays: later calls repeat it. Does not wait; but where ranks share cores, who does nothing else than to test in vain
    /// gives its core away.
    ///
    /// # Errors
    /// Inside `Some`: that of the operation.
    pub fn test(&mut self) -> Option<Result<Status, Error>> {
        let asked = self.asks();
        self.advance();
        if self.asked(asked) {
            self.advance();
        }
        self.look()
    }

    /// [`test`](Self::test) for who does something else until it is woken, or next, and keeps no core from others by asking.
    ///
    /// # Errors
    /// As there.
    pub fn test_once(&mut self) -> Option<Result<Status, Error>> {
        self.advance();
        self.look()
    }

    /// A question for it begins: [`Engine::asks`](tocsin_progress::Engine::asks), of what is not complete yet.
    #[inline]
    pub(super) fn asks(&self) -> Option<bool> {
        let slot = self.slot.as_ref()?;
        if self.is_over() {
            if self.is_large() {
                slot.rank().engine.asks_for_what_is_over();
            }
            return None;
        }
        Some(slot.rank().engine.asks(self.number(slot.id)))
    }

    fn number(&self, id: Id) -> u64 {
        asks::for_request(id, self.kind == Kind::Collective)
    }

    /// Whether it is of a kind of which [it counts](tocsin_progress::Engine::begins_post) what follows its post.
    pub(super) fn is_large(&self) -> bool {
        let eager_max = self.slot.as_ref().map_or(usize::MAX, |slot| slot.rank().eager_max);
        match self.kind {
            Kind::Receive { room: bytes } | Kind::Send { bytes, .. } => bytes > eager_max,
            Kind::Collective => true,
        }
    }

    /// The same question ends: whether the core was given away, so that it may be complete now though it was not.
    #[inline]
    pub(super) fn asked(&self, asked: Option<bool>) -> bool {
        let (Some(again), Some(slot)) = (asked, &self.slot) else { return false };
        if self.is_over() {
            slot.rank().engine.asked_well(self.number(slot.id), self.is_large());
            return false;
        }
        slot.rank().engine.asked_in_vain(again && !InsideOperator::is_here())
    }

    pub(super) fn advance(&self) {
        self.open_gates();
        if let (false, Some(slot)) = (self.is_over(), &self.slot) {
            let shared = slot.rank();
            shared.engine.poke(Context::User);
            // Who only tests waits, too.
            if let (false, Some(need)) = (self.is_complete(), self.need())
                && shared.make_room(&[need]) == Grown::Room
            {
                shared.engine.poke(Context::User);
            }
            shared.end_if_aborted();
        }
    }

    /// Waits for the outcome.
    ///
    /// # Errors
    /// That of the operation.
    #[inline]
    pub fn wait(&mut self) -> Result<Status, Error> {
        // As where it was over at once.
        if let Some(Ok(status)) = self.seen {
            self.open_gates();
            return Ok(status);
        }
        self.wait_for_end()
    }

    fn wait_for_end(&mut self) -> Result<Status, Error> {
        let posted_now = self.begins_wait();
        // Its slot is somebody else's by now.
        if let Some(result) = self.result() {
            return result;
        }
        if self.keeps_slot
            && let Some(slot) = &self.slot
            && let Some(outcome) = slot.completion().outcome()
            && outcome.code == Code::Ok
        {
            let status = self.kind.status(&slot.comm, outcome);
            self.seen = Some(Ok(status));
            return Ok(status);
        }
        if let Some(status) = self.meet_short() {
            return Ok(status);
        }
        // It is hardly over by now, and peers see a thread that waits no sooner than it says so.
        if !posted_now {
            self.meet_end();
        }
        self.wait_posted()
    }

    /// [`wait`](Self::wait) for what was posted only now.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn wait_posted(&mut self) -> Result<Status, Error> {
        loop {
            self.try_to_be_over(None);
            if let Some(status) = self.succeeded() {
                return Ok(status);
            }
            if let Some(result) = self.look() {
                return result;
            }
        }
    }

    /// Waits for the outcome, or until another request of its rank has failed: `None` then.
    pub(crate) fn wait_unless_failed(&mut self, other: &RawRequest) -> Option<Result<Status, Error>> {
        if let Some(Ok(status)) = self.seen {
            self.open_gates();
            return Some(Ok(status));
        }
        self.note_wait();
        self.meet_end();
        loop {
            if let (false, Some(slot), Some(need)) = (self.is_over(), &self.slot, self.need()) {
                slot.rank().wait_until(&[need], || self.is_complete() || other.has_failed(), None);
            }
            let result = self.look();
            if result.is_some() || other.has_failed() {
                return result;
            }
        }
    }

    /// Waits at most `timeout`; `None` when time was up. Where ranks share cores, who does that again and again, for less time than others need, gives its core away as in [`test`](Self::test).
    ///
    /// # Errors
    /// Inside `Some`: that of the operation. That time was up is none.
    pub fn wait_timeout(&mut self, timeout: Duration) -> Option<Result<Status, Error>> {
        self.wait_for(Some(timeout))
    }

    fn wait_for(&mut self, timeout: Option<Duration>) -> Option<Result<Status, Error>> {
        self.note_wait();
        self.meet_end();
        // Longer ones wait.
        let asked = if timeout.is_some_and(|timeout| timeout < BRIEF) { self.asks() } else { None };
        self.try_to_be_over(timeout);
        if self.asked(asked) {
            self.try_to_be_over(Some(Duration::ZERO));
        }
        self.look()
    }

    /// Its thread waits, though it may be over: does what the rank left to such a call, as [`open_gates`](Self::open_gates), and counts the wait. Not for handlers.
    #[inline]
    pub fn note_wait(&self) {
        self.begins_wait();
    }

    /// [`note_wait`](Self::note_wait). Whether this is a long message that was posted right before.
    #[inline]
    fn begins_wait(&self) -> bool {
        let posted_now = self.slot.as_ref().is_some_and(|slot| {
            let rank = slot.rank();
            let (soon, is_last) = (rank.engine.note_wait(), rank.posted_last.take(self.place()));
            // What has just been posted has no news, and its peer may be about to write there.
            if is_last && !soon {
                rank.posted_last.fetch_news();
            }
            soon && is_last
        });
        self.open_gates();
        posted_now
    }

    /// Its thread waits or looks, though it may be over: does what the rank left to such a call, as [`wait`](Self::wait) and [`test`](Self::test) do. The post of what is
    /// over at once does it, whose rank is not known any more. It waits for no message, but until no other thread is inside the engine; it may run callbacks and user operators, and drop buffers that were kept, and is
    /// not for handlers.
    #[inline]
    pub fn open_gates(&self) {
        if let Some(comm) = self.comm() {
            comm.shared().open_gates();
        }
    }

    /// Waits for the outcome, which is left where it is.
    pub(super) fn wait_until_over(&mut self) {
        while !self.is_over() {
            self.try_to_be_over(None);
        }
    }

    pub(super) fn try_to_be_over(&mut self, timeout: Option<Duration>) {
        if self.kind == Kind::Collective && !self.is_complete() {
            self.look_on_board(timeout.is_none());
        }
        self.pass_time(timeout);
    }

    /// Waits until it is over, or time is up.
    pub(super) fn pass_time(&self, timeout: Option<Duration>) {
        if let (false, Some(slot), Some(need)) = (self.is_over(), &self.slot, self.need()) {
            slot.rank().wait_until(&[need], || self.is_complete(), timeout);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use crate::{Config, ConstBuf, Error, Mode, MutBuf, threads_each};

    /// What was seen of a failed receive stays, and nobody looks for more where it was: another receive is there.
    #[test]
    fn an_error_that_was_seen_is_repeated_without_a_look() {
        let ends = threads_each(1, &Config::default(), |comm| {
            let (long, mut short, mut next) = ([1u8; 64], [0u8; 4], [0u8; 64]);
            let into = |bytes: &mut [u8]| MutBuf::contiguous(bytes.as_mut_ptr(), bytes.len());
            // SAFETY: the buffers outlive the requests.
            let (mut failed, mut other) = unsafe {
                let mut failed = comm.irecv_raw(into(&mut short), Some(0), Some(1)).unwrap();
                let send = ConstBuf::contiguous(long.as_ptr(), long.len());
                comm.send_raw(send, 0, 1, Mode::Standard).unwrap();
                while failed.test().is_none() {}
                (failed, comm.irecv_raw(into(&mut next), Some(0), Some(2)).unwrap())
            };
            let places = [&failed, &other].map(|r| r.slot.as_ref().unwrap().completion);
            assert_eq!(places[0], places[1], "the place is the next one's");
            let (tell, told) = channel();
            let inside = comm.shared().enter();
            let again = std::thread::scope(|scope| {
                scope.spawn(|| tell.send(failed.wait()).unwrap());
                let again = told.recv_timeout(Duration::from_secs(20));
                drop(inside);
                again
            });
            assert!(matches!(again, Ok(Err(Error::Truncated { message: 64, .. }))), "{again:?}");
            assert!(other.cancel());
        });
        assert!(ends.unwrap()[0].is_ok());
    }
}
