//! A collective as a graph of steps.
//!
//! # Implementation details
//!
//! Everything lies in flat arrays made on the user's thread: the steps, which never change; their dependants, one
//! array with a range per step; and the state of each step (pending-dependency counter, bytes done, link of the ready
//! list), which a start resets without allocating. So that a persistent collective is a schedule that is started
//! again.

use crate::Group;
use crate::arguments::Block;
use crate::board::Call;
use crate::kernels::Operator;
use crate::split::Split;
use tocsin_progress::slots::Id;

/// No step: the end of an intrusive list.
pub(crate) const NONE: u32 = u32::MAX;

/// Bits of the tag that number the messages between two ranks within one collective; the others number the
/// collectives of the communicator. Two collectives that are outstanding together are never 2^19 apart.
pub(crate) const ROUND_BITS: u32 = 12;

/// Tag of a message of a collective.
pub(crate) fn tag(sequence: u32, round: u32) -> i32 {
    ((sequence.wrapping_shl(ROUND_BITS) | round) & 0x7fff_ffff) as i32
}

/// Pieces of one length, but the last perhaps, whose starts lie so many bytes apart. Steps may go backwards: by two's complement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Pieces {
    pub length: usize,
    pub stride: usize,
}

/// What a step does. Peers are world ranks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Send {
        peer: u32,
        round: u32,
        from: *const u8,
        bytes: usize,
        /// See [`ScheduleBuilder::send_last`](crate::builder::ScheduleBuilder::send_last).
        last: bool,
    },
    Recv {
        peer: u32,
        round: u32,
        to: *mut u8,
        bytes: usize,
    },
    Copy {
        from: *const u8,
        to: *mut u8,
        bytes: usize,
    },
    /// From pieces, the first of which is at `from`, to one run.
    Pack {
        from: *const u8,
        pieces: Pieces,
        to: *mut u8,
        bytes: usize,
    },
    /// From one run to pieces, the first of which is at `to`.
    Unpack {
        from: *const u8,
        to: *mut u8,
        pieces: Pieces,
        bytes: usize,
    },
    Reduce {
        left: *const u8,
        right: *const u8,
        out: *mut u8,
        count: usize,
        operator: Operator,
    },
    Join,
}

/// A step and where its dependants stand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub kind: Kind,
    pub dependencies: u32,
    pub first_dependant: u32,
    pub dependants: u32,
}

/// How far a step is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    /// For its dependencies or its turn.
    Waiting,
    /// Its request is with the layer below.
    Started,
    Done,
}

/// What a run changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepState {
    pub pending: u32,
    pub next: u32,
    pub status: Status,
    /// Bytes copied or elements reduced so far.
    pub done: usize,
    /// Of sends and receives, reserved when the schedule is prepared.
    pub request: Option<Id>,
    /// When it was first run, nanoseconds; 0 if nobody records that.
    pub begun: u64,
}

/// 64 bytes: a cache line, and more than any element's alignment.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Line(pub [u8; 64]);

/// A compiled collective: made by [`table::compile`](crate::table::compile) or a
/// [`ScheduleBuilder`](crate::builder::ScheduleBuilder), run by [`Nbc`](crate::Nbc).
pub struct Schedule {
    pub(crate) group: Group,
    /// Where it comes from: see [`trace`](crate::trace).
    pub(crate) algorithm: u16,
    /// The call that it was compiled for, if it can serve another one like it.
    pub(crate) origin: Option<crate::table::Origin<'static>>,
    /// What it does on the board of its group, instead of steps or beside them.
    pub(crate) board: Option<Call>,
    /// Those of that call.
    pub(crate) blocks: Box<[Block]>,
    /// Which of its levels this rank does itself.
    pub(crate) split: Option<Box<Split>>,
    pub(crate) steps: Box<[Step]>,
    pub(crate) dependants: Box<[u32]>,
    pub(crate) state: Box<[StepState]>,
    /// Steps that can start at once.
    pub(crate) initial: Box<[u32]>,
    /// Sends that begin together: those that no message precedes.
    pub(crate) at_once: u32,
    /// Steps that a run has still to finish.
    pub(crate) remaining: u32,
    /// Temporaries; steps point into them.
    pub(crate) _arena: Vec<Line>,
}

// SAFETY: - the raw pointers go to the arena, which moves with the schedule, and to the user's buffers, which whoever
//           posts promises to keep alive and untouched whichever thread of the rank runs the steps.
unsafe impl Send for Schedule {}

impl Schedule {
    /// Members of the communicator.
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// Number of steps: none, where all of it is done on a board.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether there is nothing to do, so that the collective completes when it is started.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.board.is_none()
    }

    /// Messages that this rank sends, with their bytes.
    pub fn sent(&self) -> (usize, usize) {
        self.steps.iter().fold((0, 0), |(n, sum), step| match step.kind {
            Kind::Send { bytes, .. } => (n + 1, sum + bytes),
            _ => (n, sum),
        })
    }

    /// Bytes of its temporaries.
    pub(crate) fn temporary_bytes(&self) -> usize {
        std::mem::size_of_val(self._arena.as_slice())
    }

    /// Makes the schedule as it was before its first run. Handler-safe.
    pub(crate) fn rewind(&mut self) {
        for (state, step) in self.state.iter_mut().zip(&self.steps) {
            state.pending = step.dependencies;
            state.next = NONE;
            state.status = Status::Waiting;
            state.done = 0;
            state.begun = 0;
        }
        self.remaining = self.steps.len() as u32;
    }
}

impl std::fmt::Debug for Schedule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Schedule")
            .field("group", &self.group)
            .field("steps", &self.steps)
            .field("remaining", &self.remaining)
            .finish_non_exhaustive()
    }
}
