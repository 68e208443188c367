//! Which packets interrupt a rank that computes: all of that policy that point-to-point decides.
//!
//! A packet says how much it matters; the receiver's attention word says what the receiver wants to be interrupted for
//! ([`Urgency`], [`is_left_alone`](tocsin_doorbell::is_left_alone)). A rank that waits, sleeps or looks by itself is told of everything. What is
//! decided elsewhere is only what concerns room: a lane that is full, or is given back, rings for whoever waits for that (the transport's).

use tocsin_transport::{Class, Urgency};

/// What a packet is to the rank that gets it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tells {
    /// A whole message, or several.
    Message,
    /// The same, whose sender waits to hear that it is received.
    Synchronous,
    /// A message to come. `there`: its receive has published where to, and the sender copies it there.
    Announced { there: bool },
    /// A message of a collective, or that one comes. `ends`: the schedule there ends with it, and nobody else waits for what its rank does then. `whole`: it is
    /// all here, and in nobody's way.
    Step { ends: bool, whole: bool },
    /// A message that was announced may be copied. `by_all`: by whoever waits, or else by who says this.
    Granted { by_all: bool },
    /// A message whose sender asked to hear of it is received.
    Received,
    /// A message is copied, by who says this.
    Copied { class: Class, ends: bool },
    /// A piece of a message that goes piece by piece.
    Piece,
    /// A message, a receive or a communicator is given up, or a piece was for none.
    GivenUp,
    /// A transfer is for the other side to look at.
    Look,
    /// What was to be said earlier, and found no room.
    Overdue,
}

impl Tells {
    /// How much it matters to a rank that computes. Handler-safe.
    #[inline]
    pub(crate) const fn urgency(self) -> Urgency {
        match self {
            // It is here. Who receives it looks for it: an interrupt would copy it no earlier than it is wanted. (Completion callbacks, and threads
            // that others have to wake, do want it: their ranks ask for plain messages, too.)
            Tells::Message => Urgency::Plain,
            // Its sender waits until this rank has looked. So does one that waits for leave to send, or for the rest of a
            // message: both ranks would stand still until the user's code comes by.
            Tells::Synchronous | Tells::Piece | Tells::Received => Urgency::Urgent,
            // It goes on only with its receive. One that has published its buffer is served without this rank; one that has not, and is posted, has the attention
            // word want offers; and who has yet to post looks then.
            Tells::Announced { there: true } => Urgency::Plain,
            Tells::Announced { there: false } => Urgency::Offer,
            // Other ranks wait for what this one sends on, and the lane for what is taken out of its way.
            Tells::Step { ends: true, whole: true } => Urgency::Plain,
            Tells::Step { .. } => Urgency::Urgent,
            // The receiver copies if nobody else does: a sender that computes need not help. But only the sender can put pieces into a lane.
            Tells::Granted { by_all: true } => Urgency::Plain,
            Tells::Granted { by_all: false } => Urgency::Urgent,
            // All that is left is to say so to the user, who looks; or to take the next step of a collective, for which others wait.
            Tells::Copied { class: Class::Coll, ends: false } => Urgency::Urgent,
            Tells::Copied { .. } => Urgency::Plain,
            // What depends on it is to end now, and what it holds is to be free.
            Tells::GivenUp | Tells::Look | Tells::Overdue => Urgency::Urgent,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// What a rank that computes is interrupted for, and what not.
    #[test]
    fn an_interrupt_is_for_what_somebody_waits_for() {
        let plain = [
            Tells::Message,
            Tells::Announced { there: true },
            Tells::Step { ends: true, whole: true },
            Tells::Granted { by_all: true },
            Tells::Copied { class: Class::Eager, ends: false },
            Tells::Copied { class: Class::Eager, ends: true },
            Tells::Copied { class: Class::Coll, ends: true },
        ];
        let urgent = [
            Tells::Synchronous,
            Tells::Received,
            Tells::Piece,
            Tells::Step { ends: false, whole: true },
            Tells::Step { ends: true, whole: false },
            Tells::Granted { by_all: false },
            Tells::Copied { class: Class::Coll, ends: false },
            Tells::GivenUp,
            Tells::Look,
            Tells::Overdue,
        ];
        for tells in plain {
            assert_eq!(tells.urgency(), Urgency::Plain, "{tells:?}");
        }
        for tells in urgent {
            assert_eq!(tells.urgency(), Urgency::Urgent, "{tells:?}");
        }
        assert_eq!(Tells::Announced { there: false }.urgency(), Urgency::Offer);
    }
}
