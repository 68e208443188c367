//! A crew: the ranks of one process whose progress threads share a core, served by whichever of these threads was woken.
//!
//! Each thread sleeps on its own rank's descriptor, so that a ring wakes exactly the one that the arrival is for. It then serves the
//! whole crew: it says of every member that somebody looks, so that what members send each other meanwhile costs neither a ring
//! nor a change of threads, and makes passes as long as there is something. The others go on sleeping.
//!
//! # No lost wake-up
//! - *While somebody serves*: "somebody looks" is said of a member, then a fence, then it is looked at. A ringer publishes, fences and
//!   reads that word. Either it sees it and the server sees what it has published, or it wakes the member's own thread.
//! - *A thread that is woken and finds somebody serving* sleeps on. It has said that it sleeps, fenced, and then asked
//!   whether somebody serves; a server says that it no longer does, fences, and then looks at every member once more. Of
//!   these two, one sees the other.
//! - *Callbacks that a server leaves to a member's thread*: the server queues them, fences, and asks whether that thread sleeps; the thread
//!   says that it sleeps, fences, and asks for callbacks.
//! - *Members that join meanwhile* are looked at too: the list is read after the server has said that it no longer serves.
//!
//! Users' callbacks run when nobody serves, each on its own rank's thread, so that one that waits stops nobody else: a server wakes the
//! threads of those for whom it has left any, or work.

use crate::budget::Pass;
use crate::testing::{Real, Variant};
use std::sync::{Arc, Mutex, PoisonError};
use tocsin_doorbell::Own;
use tocsin_sync::atomic::{AtomicBool, Ordering, fence};

/// Passes after which a server that always finds something lets callbacks run.
const PASSES: u32 = if cfg!(loom) { 2 } else { 64 };

/// What a crew serves: an engine.
pub trait Member: Send + Sync {
    /// Where the member's thread sleeps and rings reach it.
    fn own(&self) -> &Own;
    /// A look, and a pass if there is something or `more` says so; callbacks stay queued. None: somebody else is inside.
    fn visit(&self, more: bool) -> Option<Pass>;
    /// The look-once-more, after a full fence: a pass if there is something, of which it tells the rank's other threads. None: somebody else is inside, who will make a pass that begins after this call.
    fn look(&self) -> Option<Pass>;
    /// Whether callbacks are queued.
    fn has_callbacks(&self) -> bool;
    /// Runs them. By the member's own thread.
    fn run_callbacks(&self);
}

/// See the module.
#[derive(Debug)]
pub struct Crew<M> {
    members: Mutex<Vec<Arc<M>>>,
    serving: AtomicBool,
}

impl<M: Member> Default for Crew<M> {
    fn default() -> Self {
        Crew::new()
    }
}

impl<M: Member> Crew<M> {
    /// Nobody. Not for handlers.
    pub fn new() -> Crew<M> {
        Crew { members: Mutex::new(Vec::new()), serving: AtomicBool::new(false) }
    }

    /// Another member, whose thread calls [`work`](Self::work) next. Not for handlers.
    pub fn join(&self, member: Arc<M>) {
        let mut members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
        // A world's ranks in their order, as their descriptors lie: in that, or the reverse, most chains go.
        let behind = members.partition_point(|other| place(&**other) < place(&*member));
        members.insert(behind, member);
    }

    /// A member's thread ends. Not for handlers.
    pub fn leave(&self, member: &Arc<M>) {
        let mut members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
        let at = members.iter().position(|other| Arc::ptr_eq(other, member));
        let left = at.map(|at| members.remove(at));
        drop(members);
        // Outside the lock: it may be the last owner.
        drop(left);
    }

    /// Who is served.
    fn members(&self) -> Vec<Arc<M>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A member's thread: serves or sleeps until `stop`, which whoever changes it announces by [`Own::wake_own`] on the member's
    /// descriptor. `scheduled` is called each time that it was woken or found something. Not for handlers.
    pub fn work(&self, me: &M, stop: impl Fn() -> bool, scheduled: impl Fn()) {
        self.work_as::<Real>(me, stop, scheduled);
    }

    /// [`work`](Self::work) with variation points.
    #[doc(hidden)]
    pub fn work_as<V: Variant>(&self, me: &M, stop: impl Fn() -> bool, scheduled: impl Fn()) {
        let mut found = true;
        while !stop() {
            // Woken for these: whoever has queued them has served the crew. What came for this rank besides, it finds before it sleeps.
            let called = me.has_callbacks();
            me.run_callbacks();
            if (found || !called) && self.serve::<V>(me) {
                scheduled();
                found = true;
                continue;
            }
            found = false;
            me.own().attend(None, || {
                // SYNC POINT: Relaxed, after the sleeper's fence: see the module.
                if stop() || me.has_callbacks() {
                    return true;
                }
                found = !self.serving.load(Ordering::Relaxed)
                    && matches!(me.look(), Some(Pass::Worked | Pass::More));
                found
            });
            scheduled();
        }
    }

    /// Serves until there is nothing to do. Whether something came at the very end; false also when somebody else serves.
    fn serve<V: Variant>(&self, me: &M) -> bool {
        // SYNC POINT: AcqRel: one server hands over to the next; who serves and who sleeps are ordered by the fences below.
        if self.serving.compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return false;
        }
        let mut server = Server { crew: self.members(), looks: true, serving: &self.serving };
        let crew = &server.crew;
        crew.iter().for_each(|member| member.own().begin_poll());
        // SYNC POINT: between "somebody looks" and the first look; pairs with a ringer's between its data and its reading.
        fence(Ordering::SeqCst);
        let (mut idle, mut passes) = (0, 0);
        let mut left = vec![false; crew.len()];
        // One look at a member after the other, to and fro: beside one for which there was something comes the next in a chain.
        let mut order: Vec<usize> = (0..crew.len()).collect();
        while idle < crew.len() && passes < PASSES {
            for at in &order {
                let (Some(member), Some(left)) = (crew.get(*at), left.get_mut(*at)) else { continue };
                match member.visit(*left) {
                    Some(found @ (Pass::Worked | Pass::More)) => {
                        *left = found == Pass::More;
                        idle = 0;
                        passes += 1;
                    }
                    _ => {
                        *left = false;
                        idle += 1;
                    }
                }
            }
            order.reverse();
        }
        server.end_poll();
        let mut again = false;
        if !V::LOOK_WHEN_NOT_SERVING {
            again |= look_at(&server.crew, me);
        }
        drop(server);
        // SYNC POINT: between "nobody serves" and the last look; pairs with the fence of a member's thread between "I sleep" and its
        // question whether somebody serves.
        fence(Ordering::SeqCst);
        let crew = self.members();
        if V::LOOK_WHEN_NOT_SERVING {
            again |= look_at(&crew, me);
        }
        again
    }
}

/// Where a member's descriptor lies.
fn place<M: Member>(member: &M) -> usize {
    core::ptr::from_ref(member.own().descriptor()).addr()
}

/// Serving, ended at the latest when this is dropped: a pass may panic.
struct Server<'a, M: Member> {
    crew: Vec<Arc<M>>,
    /// "Somebody looks" is said of the members.
    looks: bool,
    serving: &'a AtomicBool,
}

impl<M: Member> Server<'_, M> {
    fn end_poll(&mut self) {
        if core::mem::take(&mut self.looks) {
            self.crew.iter().for_each(|member| member.own().end_poll());
        }
    }
}

impl<M: Member> Drop for Server<'_, M> {
    fn drop(&mut self) {
        self.end_poll();
        // SYNC POINT: see `serve`.
        self.serving.store(false, Ordering::Release);
    }
}

/// Whether there was something at one of them; all of them are looked at. The threads of those for whom something is left are woken, for
/// this one may have to go.
fn look_at<M: Member>(crew: &[Arc<M>], me: &M) -> bool {
    let mut found = false;
    for member in crew {
        let pass = member.look();
        found |= matches!(pass, Some(Pass::Worked | Pass::More));
        if !core::ptr::eq(&raw const **member, me) && (pass == Some(Pass::More) || member.has_callbacks()) {
            member.own().wake_own();
        }
    }
    found
}
