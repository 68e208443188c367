//! The word that says who is inside the engine, and that somebody asked for another pass.
//!
//! # Protocol
//! Two bits. `BUSY`: somebody is inside. `AGAIN`: somebody asked for a pass since the last one began.
//!
//! - *Request*: `lock or AGAIN`. *Try*: `lock bts BUSY`. Who wants a pass does both, in this order, and goes
//!   away when the second fails. Who makes the pass itself may try once before: what it wants is done if that succeeds.
//! - The holder, *before* each pass, clears `AGAIN`; *to leave*, it does one compare-and-swap
//!   `BUSY -> 0`, which fails exactly when `AGAIN` is set; then it makes another pass.
//!
//! # Why no request is ever lost
//! All accesses are read-modify-writes of one word, so they have one order. Let R be a request whose try
//! failed: at the try, some holder H had `BUSY`. R's `or` comes before R's try. Either H's last clearing of
//! `AGAIN` comes after R's `or`: then a pass of H's follows, and that pass sees all that was published before
//! R (the clearing acquires what the `or` released, also through later requests: they continue its release
//! sequence). Or it comes before: then `AGAIN` stays set until H's compare-and-swap, which fails, and H
//! clears and passes. If H became holder only between R's `or` and R's try, the same holds: `AGAIN` was
//! set when H entered, nobody but a holder clears it, and whoever does makes a pass after it.
//!
//! The one exception is on purpose: a holder that has done its bound of passes leaves with `AGAIN` standing
//! ([`Token::leave_pending`]). Whoever does that must see to it that somebody enters again (the engine arms
//! its timer, and wakes the rank's sleepers). The bit stands meanwhile, so that the next holder, whoever it
//! is, makes the pass before it can leave.
//!
//! Who may stand between whom: a handler interrupts a holder on its own thread, finds `BUSY` and returns, so
//! the holder goes on; it never waits for it. A handler interrupts a user's thread between its request and
//! its try: the handler enters, passes and leaves in full, and the try succeeds afterwards. A progress
//! thread's and a user thread's tries are as each other's.

use tocsin_sync::atomic::{AtomicU32, Ordering};

const BUSY: u32 = 1;
const AGAIN: u32 = 2;

/// The engine's token. Handlers may call every method; each is wait-free with the bound it names.
#[derive(Debug)]
pub struct Token {
    word: AtomicU32,
}

impl Default for Token {
    fn default() -> Self {
        Self::new()
    }
}

impl Token {
    /// A free token without requests.
    pub fn new() -> Token {
        Token { word: AtomicU32::new(0) }
    }

    /// Asks for a pass by whoever holds the token next. One `lock or`.
    #[inline]
    pub fn request(&self) {
        // The result is unused, so this is `lock or`, not a compare-and-swap loop.
        // SYNC POINT: Release: the pass that this causes sees what the caller saw or published.
        self.word.fetch_or(AGAIN, Ordering::Release);
    }

    /// Takes the token if it is free, without leaving a request. One `lock bts`.
    #[inline]
    pub fn try_lock(&self) -> bool {
        // Only the bit that is set is tested, so this is `lock bts`, not a compare-and-swap loop.
        // SYNC POINT: Acquire pairs with the Release of the last holder's leaving: its writes to the work
        // are visible.
        self.word.fetch_or(BUSY, Ordering::Acquire) & BUSY == 0
    }

    /// Takes the token if it is free and nobody has asked for a pass. One `lock cmpxchg`.
    #[inline(always)]
    pub fn try_lock_unasked(&self) -> bool {
        // SYNC POINT: Acquire, as in `try_lock`.
        self.word.compare_exchange(0, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Asks for a pass and takes the token if it is free. False: the holder will make the pass. One
    /// `lock or` and one `lock bts`.
    #[inline]
    pub fn request_or_lock(&self) -> bool {
        self.request();
        self.try_lock()
    }

    /// Takes the token if it is free; asks for a pass and tries again if it is not. False: the holder will make the pass.
    /// For who makes one itself once inside. One `lock bts`, or two and a `lock or`.
    #[inline]
    pub fn lock_or_request(&self) -> bool {
        self.try_lock() || self.request_or_lock()
    }

    /// Whether somebody is inside: a hint for those who spin. One load.
    #[inline]
    pub fn is_busy(&self) -> bool {
        self.word.load(Ordering::Relaxed) & BUSY != 0
    }

    /// Whether a pass was asked for that has not begun: a hint. One load.
    #[inline]
    pub fn is_requested(&self) -> bool {
        self.word.load(Ordering::Relaxed) & AGAIN != 0
    }

    /// Holder only: takes the requests so far; a pass must follow. One `lock and`.
    #[inline]
    pub fn take_requests(&self) {
        // SYNC POINT: Acquire pairs with the Release of `request`; the pass that follows sees what the
        // requesters saw.
        self.word.fetch_and(!AGAIN, Ordering::Acquire);
    }

    /// Holder only: leaves unless a pass was asked for. False: still inside, make a pass. One `lock cmpxchg`.
    ///
    /// On machines with load-linked/store-conditional the strong compare-and-swap retries when another's
    /// request hits the same line; a request that changed the word ends the retries, so it is at most one
    /// per concurrent requester.
    #[inline]
    pub fn try_leave(&self) -> bool {
        // SYNC POINT: Release: the next holder sees the work as this one leaves it.
        self.word.compare_exchange(BUSY, 0, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// Holder only: leaves whatever was asked for; a request stays standing for the next holder. The caller
    /// must see to it that there will be one. One `lock and`.
    #[inline]
    pub fn leave_pending(&self) {
        // SYNC POINT: Release, as `try_leave`.
        self.word.fetch_and(!BUSY, Ordering::Release);
    }

    /// Holder only: leaves, making a pass for every time that requests came in, at most `limit` passes.
    /// True: left with nothing asked for. False: left with a request standing, see
    /// [`leave_pending`](Token::leave_pending).
    ///
    /// `pass` does all that must happen before the token is released and answers whether it may go on (false
    /// when its budget is spent). `before_leave` runs before each attempt to leave and answers whether a pass
    /// is due whether or not one was asked for.
    ///
    /// Wait-free: at most `2 * limit + 2` atomic operations plus those of the closures.
    #[inline]
    pub fn drain<W: ?Sized>(
        &self,
        work: &mut W,
        limit: u32,
        mut before_leave: impl FnMut(&mut W) -> bool,
        mut pass: impl FnMut(&mut W) -> bool,
    ) -> bool {
        let mut left = limit;
        let mut may_go_on = true;
        loop {
            let due = before_leave(work);
            if !due && self.try_leave() {
                return true;
            }
            if left == 0 || !may_go_on {
                if due {
                    self.request();
                }
                self.leave_pending();
                return false;
            }
            left = left.wrapping_sub(1);
            self.take_requests();
            may_go_on = pass(work);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn second_entry_defers_and_is_served() {
        let token = Token::new();
        assert!(token.try_lock());
        assert!(!token.request_or_lock());
        assert!(!token.try_leave());
        let mut passes = 0;
        assert!(token.drain(
            &mut passes,
            3,
            |_| false,
            |n| {
                *n += 1;
                true
            }
        ));
        assert_eq!(passes, 1);
        assert!(!token.is_busy() && !token.is_requested());
    }

    #[test]
    fn who_enters_unasked_finds_no_request() {
        let token = Token::new();
        assert!(token.try_lock_unasked());
        assert!(!token.try_lock_unasked() && token.try_leave());
        token.request();
        assert!(!token.try_lock_unasked() && !token.is_busy(), "a pass is due");
        assert!(token.try_lock());
    }

    #[test]
    fn bound_leaves_the_request_standing() {
        let token = Token::new();
        assert!(token.request_or_lock());
        let mut passes = 0;
        let clean = token.drain(
            &mut passes,
            3,
            |_| false,
            |n| {
                *n += 1;
                token.request();
                true
            },
        );
        assert!(!clean);
        assert_eq!(passes, 3);
        assert!(!token.is_busy() && token.is_requested());
        assert!(token.try_lock());
        assert!(!token.try_leave());
    }

    #[test]
    fn a_due_pass_beyond_the_bound_becomes_a_request() {
        let token = Token::new();
        assert!(token.try_lock());
        assert!(!token.drain(&mut (), 0, |()| true, |()| true));
        assert!(token.is_requested());
    }
}
