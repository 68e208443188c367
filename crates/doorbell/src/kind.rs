//! Small words of the protocol.

/// How a thread is notified.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[repr(u32)]
pub enum BackendKind {
    /// User interrupts: `senduipi`.
    Uintr = 1,
    /// A signal sent by `tgkill`.
    Signal = 2,
    /// A futex wakes a progress thread.
    Thread = 3,
    /// Nothing: progress inside library calls only.
    Poll = 4,
}

impl BackendKind {
    /// Every backend, most capable first.
    pub const ALL: [BackendKind; 4] =
        [BackendKind::Uintr, BackendKind::Signal, BackendKind::Thread, BackendKind::Poll];

    /// The name used on command lines and in the environment.
    pub const fn name(self) -> &'static str {
        match self {
            BackendKind::Uintr => "uintr",
            BackendKind::Signal => "signal",
            BackendKind::Thread => "thread",
            BackendKind::Poll => "poll",
        }
    }

    pub(crate) const fn from_number(number: u32) -> Option<BackendKind> {
        match number {
            1 => Some(BackendKind::Uintr),
            2 => Some(BackendKind::Signal),
            3 => Some(BackendKind::Thread),
            4 => Some(BackendKind::Poll),
            _ => None,
        }
    }

    /// Whether rings interrupt a computing thread.
    pub const fn interrupts(self) -> bool {
        matches!(self, BackendKind::Uintr | BackendKind::Signal)
    }
}

impl core::fmt::Display for BackendKind {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.pad(self.name())
    }
}

/// A backend name that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown doorbell backend `{0}`: use one of uintr, signal, thread, poll")]
pub struct UnknownBackend(pub String);

impl core::str::FromStr for BackendKind {
    type Err = UnknownBackend;
    fn from_str(name: &str) -> Result<Self, UnknownBackend> {
        BackendKind::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| UnknownBackend(name.to_owned()))
    }
}

/// Whether a message must interrupt a computing rank. Of two, the greater holds for both.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Urgency {
    /// It can wait until the rank looks by itself, unless the rank wants plain messages announced, too.
    Plain,
    /// It offers something that only a rank which has asked for such a thing can take: the others find it when they
    /// ask.
    Offer,
    /// Somebody waits for what the rank will do about it.
    Urgent,
}

/// What became of a ring. In every case but [`Gone`](RingOutcome::Gone) the vector is posted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "`Gone` and `Retry` mean that nobody was notified"]
pub enum RingOutcome {
    /// The owner looks by itself, or does not want to be interrupted for this.
    NotNeeded,
    /// This ringer has rung already and the owner has not looked since.
    Suppressed,
    /// Sleepers were woken.
    Woke,
    /// The thread is being interrupted: by a user interrupt, if it has those.
    Rang,
    /// The thread has user interrupts, but is being interrupted by the signal: this process is not connected to it, or it has
    /// not answered an earlier ring.
    RangBySignal,
    /// The kernel could not take the signal now (only real-time signals know this). The mark is clear: ring
    /// again at the next occasion.
    Retry,
    /// The thread no longer exists, or this process must not ring (a child of fork, see [`crate::fork`]).
    Gone,
}

impl RingOutcome {
    /// Whether the thread is being interrupted, by whatever means.
    #[inline]
    pub const fn rang(self) -> bool {
        matches!(self, RingOutcome::Rang | RingOutcome::RangBySignal)
    }
}
