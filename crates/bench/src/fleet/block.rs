//! What a bench and the ranks of one of its worlds share: the task, the results, a barrier, a flag.

use crate::error::Error;
use crate::shared::{Barrier, Region, sleep_while, wake_sleepers};
use crate::values::{Case, Event, Kernel, Operation, Receives, Waits, Word};
use std::time::Duration;
use tocsin_sync::atomic::{AtomicU64, Ordering};

/// Offsets in words; each thing has cache lines of its own.
const SEQUENCE: usize = 0;
const TASK: usize = 16;
const DONE: usize = 48;
const BARRIER: usize = 64;
const FLAG: usize = 96;
const ENDED: usize = 112;
const RESULTS: usize = 128;
/// Words of result per rank.
pub(crate) const RESULT_WORDS: usize = 64;
/// Words in which one rank leaves what another copies, to price a copy, or times for all to read.
pub(crate) const COPY_WORDS: usize = 1 << 17;

/// What ranks are asked to do, once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Task {
    /// Leave the world.
    Quit,
    /// `trips` round trips of `bytes` between ranks 0 and 1; the others wait in the library.
    Pingpong { bytes: u64, trips: u64, count: Option<Event> },
    /// As `Pingpong`, each even rank with the next odd one, all at once.
    Together { bytes: u64, trips: u64 },
    /// A message goes round all ranks `laps` times.
    Ring { bytes: u64, laps: u64 },
    /// `windows` times, from every even rank to the next: `window` messages, and an answer. `work`: what a receiver computes
    /// that computes.
    Rate { bytes: u64, window: u64, windows: u64, receives: Receives, work: u64 },
    /// `batches` times: rank 1 has `count` receives, which rank 0's messages meet in shuffled order of tags.
    Outstanding { bytes: u64, count: u64, batches: u64, callbacks: bool },
    /// Every rank sends to the next and receives from the one before, `trips` times.
    BothWays { bytes: u64, trips: u64, waits: Waits },
    /// Every rank sends to the `reach` ranks after it; 0: nobody does. What memory there is after it.
    Exchange { bytes: u64, reach: u64 },
    /// One round of overlap: communication alone, computing alone (twice), both. `work` 0: communication alone only.
    Overlap { bytes: u64, case: Case, work: u64 },
    /// The same with a collective.
    Coll { op: Operation, bytes: u64, root: u64, work: u64 },
    /// `count` collectives, each alone, by the algorithm of this number in the library's table, counted from 1; 0: by the
    /// world's.
    Alone { op: Operation, bytes: u64, root: u64, count: u64, algorithm: u64 },
    /// `count` collectives, one after the other, with nothing between.
    InARow { op: Operation, bytes: u64, root: u64, count: u64 },
    /// `count` collectives, while all ranks sleep outside the library; rank 0 posts last.
    Asleep { op: Operation, bytes: u64, root: u64, count: u64 },
    /// A collective with a late rank.
    Late { op: Operation, bytes: u64, root: u64, rank: u64, work: u64 },
    /// Computing alone.
    Compute { work: u64 },
    /// What copying `bytes` freshly written by another core costs.
    CopyCost { bytes: u64 },
    /// A phase of contention: `trips` messages, `passes` over arrays.
    Contend { bytes: u64, trips: u64, load: Load, passes: u64, phase: Phase },
}

/// What is computed on arrays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Load {
    pub kernel: Kernel,
    pub repeat: u64,
    /// Of each array.
    pub bytes: u64,
}

/// What is measured of two sides that may disturb each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Phase {
    /// Computing; nobody communicates.
    ComputingAlone,
    /// Communication; nobody computes.
    CommunicationAlone,
    /// Computing, while messages go to and fro until it ends.
    ComputingBeside,
    /// Communication, while others compute until it ends. With two ranks: both, of the same rank.
    CommunicationBeside,
}

const PHASES: [Phase; 4] =
    [Phase::ComputingAlone, Phase::CommunicationAlone, Phase::ComputingBeside, Phase::CommunicationBeside];

const CASES: [Case; 3] = [Case::Recv, Case::Send, Case::Both];
const OPERATIONS: &[Operation] = Operation::ALL;

impl Task {
    fn encode(self) -> [u64; 6] {
        let case = |case| CASES.iter().position(|c| *c == case).unwrap_or(0) as u64;
        let event = |event| Event::ALL.iter().position(|(_, e)| *e == event).map_or(0, |at| at as u64 + 1);
        let number = |op| OPERATIONS.iter().position(|o| *o == op).unwrap_or(0) as u64;
        match self {
            Task::Quit => [0; 6],
            Task::Pingpong { bytes, trips, count } => [1, bytes, trips, count.map_or(0, event), 0, 0],
            Task::Overlap { bytes, case: c, work } => [2, bytes, case(c), work, 0, 0],
            Task::Coll { op, bytes, root, work } => [3, bytes, number(op), root, work, 0],
            Task::Late { op, bytes, root, rank, work } => [4, bytes, number(op), root, work, rank],
            Task::Compute { work } => [5, work, 0, 0, 0, 0],
            Task::CopyCost { bytes } => [6, bytes, 0, 0, 0, 0],
            Task::Ring { bytes, laps } => [7, bytes, laps, 0, 0, 0],
            Task::Outstanding { bytes, count, batches, callbacks } => {
                [8, bytes, count, batches, u64::from(callbacks), 0]
            }
            Task::Exchange { bytes, reach } => [9, bytes, reach, 0, 0, 0],
            Task::BothWays { bytes, trips, waits } => {
                [15, bytes, trips, u64::from(waits == Waits::Posts), 0, 0]
            }
            Task::Alone { op, bytes, root, count, algorithm } => {
                [10, bytes, number(op), root, count, algorithm]
            }
            Task::InARow { op, bytes, root, count } => [16, bytes, number(op), root, count, 0],
            Task::Contend { bytes, trips, load, passes, phase } => {
                let phase = PHASES.iter().position(|p| *p == phase).unwrap_or(0) as u64;
                let kernel = u64::from(load.kernel == Kernel::Copy);
                [11, bytes, trips, load.repeat << 8 | kernel << 2 | phase, load.bytes, passes]
            }
            Task::Together { bytes, trips } => [12, bytes, trips, 0, 0, 0],
            Task::Rate { bytes, window, windows, receives, work } => {
                let receives = match receives {
                    Receives::Early => 0,
                    Receives::Late => 1,
                    Receives::Computing => 2,
                    Receives::Blocking => 3,
                };
                [14, bytes, window, windows, receives, work]
            }
            Task::Asleep { op, bytes, root, count } => [13, bytes, number(op), root, count, 0],
        }
    }

    fn decode(words: [u64; 6]) -> Task {
        let [what, bytes, a, b, c, d] = words;
        let case = CASES[a as usize % CASES.len()];
        let op = OPERATIONS[a as usize % OPERATIONS.len()];
        match what {
            1 => {
                let count = (b as usize).checked_sub(1).and_then(|at| Event::ALL.get(at));
                Task::Pingpong { bytes, trips: a, count: count.map(|(_, event)| *event) }
            }
            2 => Task::Overlap { bytes, case, work: b },
            3 => Task::Coll { op, bytes, root: b, work: c },
            4 => Task::Late { op, bytes, root: b, rank: d, work: c },
            5 => Task::Compute { work: bytes },
            6 => Task::CopyCost { bytes },
            7 => Task::Ring { bytes, laps: a },
            8 => Task::Outstanding { bytes, count: a, batches: b, callbacks: c != 0 },
            9 => Task::Exchange { bytes, reach: a },
            10 => Task::Alone { op, bytes, root: b, count: c, algorithm: d },
            11 => {
                let kernel = if b >> 2 & 1 == 1 { Kernel::Copy } else { Kernel::Triad };
                let load = Load { kernel, repeat: b >> 8, bytes: c };
                Task::Contend { bytes, trips: a, load, passes: d, phase: PHASES[b as usize & 3] }
            }
            12 => Task::Together { bytes, trips: a },
            13 => Task::Asleep { op, bytes, root: b, count: c },
            15 => {
                let waits = if b == 0 { Waits::Sendrecv } else { Waits::Posts };
                Task::BothWays { bytes, trips: a, waits }
            }
            16 => Task::InARow { op, bytes, root: b, count: c },
            14 => {
                let receives = match c {
                    0 => Receives::Early,
                    1 => Receives::Late,
                    2 => Receives::Computing,
                    _ => Receives::Blocking,
                };
                Task::Rate { bytes, window: a, windows: b, receives, work: d }
            }
            _ => Task::Quit,
        }
    }
}

/// What one rank measured in one task; times in nanoseconds. What a task does not measure is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Measured {
    pub t_comm: u64,
    pub t_comp: u64,
    pub t_comp_again: u64,
    pub t_ovrl: u64,
    /// Time inside the library while both ran: of a message its post and its wait, of a collective its wait.
    pub waited: u64,
    /// From the start to the completion's callback, while both ran, and how long that run took.
    pub complete: u64,
    pub t_called: u64,
    /// The clock before and after the operation.
    pub posted_at: u64,
    pub done_at: u64,
    pub interrupts: u64,
    /// Turns of the progress thread.
    pub turns: u64,
    pub copied_user: u64,
    pub copied_handler: u64,
    pub copied_progress: u64,
    /// Bytes of large messages that this rank copied once, in memory that both have, by the kernel or by KNEM, or read out of a pipe.
    pub once_in_place: u64,
    pub once_by_kernel: u64,
    pub once_by_knem: u64,
    pub once_by_pages: u64,
    /// Memory, in bytes: the world's segment; this process's own that is resident, and what of it is on its heap.
    pub segment: u64,
    pub resident: u64,
    pub heap: u64,
    /// Events that were counted, or the number of the error with which that was refused.
    pub counted: u64,
    pub not_counted: u64,
    /// Whether all data was right.
    pub verified: u64,
}

impl Measured {
    fn words(&mut self) -> [&mut u64; 24] {
        [
            &mut self.t_comm,
            &mut self.t_comp,
            &mut self.t_comp_again,
            &mut self.t_ovrl,
            &mut self.waited,
            &mut self.complete,
            &mut self.t_called,
            &mut self.posted_at,
            &mut self.done_at,
            &mut self.interrupts,
            &mut self.turns,
            &mut self.copied_user,
            &mut self.copied_handler,
            &mut self.copied_progress,
            &mut self.once_in_place,
            &mut self.once_by_kernel,
            &mut self.once_by_knem,
            &mut self.once_by_pages,
            &mut self.segment,
            &mut self.resident,
            &mut self.heap,
            &mut self.counted,
            &mut self.not_counted,
            &mut self.verified,
        ]
    }
}

/// The shared memory of one world.
pub(crate) struct Block {
    region: Region,
    ranks: u64,
    looks: u32,
}

impl Block {
    pub(crate) fn create(ranks: u64) -> Result<Block, Error> {
        let words = RESULTS + ranks as usize * RESULT_WORDS + COPY_WORDS;
        Ok(Block { region: Region::create(words)?, ranks, looks: Barrier::looks(ranks) })
    }

    pub(crate) fn open(path: &str, ranks: u64) -> Result<Block, Error> {
        let region = Region::open(path)?;
        if region.words().len() != RESULTS + ranks as usize * RESULT_WORDS + COPY_WORDS {
            return Err(Error::Usage("`tocsin rank` is started by `tocsin bench` only".into()));
        }
        Ok(Block { region, ranks, looks: Barrier::looks(ranks) })
    }

    pub(crate) fn path(&self) -> String {
        self.region.path()
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        &self.region.words()[at]
    }

    pub(crate) fn barrier(&self) -> Barrier<'_> {
        Barrier::new(&self.region.words()[BARRIER..BARRIER + 16], self.ranks, self.looks)
    }

    pub(crate) fn copy_area(&self) -> &[AtomicU64] {
        &self.region.words()[RESULTS + self.ranks as usize * RESULT_WORDS..]
    }

    // --- the bench's side ---

    /// Gives every rank a task.
    pub(crate) fn start(&self, task: Task) {
        for (at, word) in task.encode().into_iter().enumerate() {
            self.word(TASK + at).store(word, Ordering::Relaxed);
        }
        self.word(FLAG).store(0, Ordering::Relaxed);
        self.word(ENDED).store(0, Ordering::Relaxed);
        self.word(DONE).store(0, Ordering::Relaxed);
        // SYNC POINT: Release: who sees the sequence sees the task.
        self.word(SEQUENCE).fetch_add(1, Ordering::Release);
        wake_sleepers(self.word(SEQUENCE));
    }

    /// Waits until every rank has done its task; `alive` is asked now and then.
    pub(crate) fn finish(&self, mut alive: impl FnMut() -> bool) -> Option<Vec<Measured>> {
        loop {
            // SYNC POINT: Acquire pairs with the ranks' Release: their results are visible.
            let done = self.word(DONE).load(Ordering::Acquire);
            if done == self.ranks {
                return Some((0..self.ranks as usize).map(|rank| self.result(rank)).collect());
            }
            sleep_while(self.word(DONE), done, Duration::from_millis(50));
            if self.word(DONE).load(Ordering::Acquire) != self.ranks && !alive() {
                return None;
            }
        }
    }

    fn result(&self, rank: usize) -> Measured {
        let mut measured = Measured::default();
        for (at, word) in measured.words().into_iter().enumerate() {
            *word = self.word(RESULTS + rank * RESULT_WORDS + at).load(Ordering::Relaxed);
        }
        measured
    }

    // --- a rank's side ---

    /// Waits for the task after number `seen`, asleep: an idle world disturbs nobody.
    pub(crate) fn next(&self, seen: &mut u64) -> Task {
        let sequence = self.word(SEQUENCE);
        // SYNC POINT: Acquire pairs with `start`.
        while sequence.load(Ordering::Acquire) == *seen {
            sleep_while(sequence, *seen, Duration::from_secs(10));
        }
        *seen = sequence.load(Ordering::Acquire);
        let word = |at| self.word(TASK + at).load(Ordering::Relaxed);
        Task::decode([word(0), word(1), word(2), word(3), word(4), word(5)])
    }

    /// Hands in what was measured.
    pub(crate) fn hand_in(&self, rank: usize, mut measured: Measured) {
        for (at, word) in measured.words().into_iter().enumerate() {
            self.word(RESULTS + rank * RESULT_WORDS + at).store(*word, Ordering::Relaxed);
        }
        // SYNC POINT: Release: who sees the count sees the results.
        if self.word(DONE).fetch_add(1, Ordering::AcqRel) + 1 == self.ranks {
            wake_sleepers(self.word(DONE));
        }
    }

    /// Says that this rank has done what is measured.
    pub(crate) fn end(&self) {
        // SYNC POINT: Relaxed: nothing but the number is read.
        self.word(ENDED).fetch_add(1, Ordering::Relaxed);
    }

    /// How many have.
    pub(crate) fn ended(&self) -> u64 {
        self.word(ENDED).load(Ordering::Relaxed)
    }

    /// Raises the flag, now.
    pub(crate) fn raise(&self, now: u64) {
        self.word(FLAG).store(now, Ordering::Release);
        wake_sleepers(self.word(FLAG));
    }

    /// Waits, asleep, for the flag; when it was raised.
    pub(crate) fn flag(&self) -> u64 {
        loop {
            match self.word(FLAG).load(Ordering::Acquire) {
                0 => sleep_while(self.word(FLAG), 0, Duration::from_millis(100)),
                raised => return raised,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_survive_the_passage() {
        for task in [
            Task::Quit,
            Task::Pingpong { bytes: 3, trips: 4, count: None },
            Task::Pingpong { bytes: 3, trips: 4, count: Some(Event::PageFaults) },
            Task::Overlap { bytes: 1, case: Case::Both, work: 9 },
            Task::Coll { op: Operation::Ialltoall, bytes: 2, root: 1, work: 8 },
            Task::Late { op: Operation::Ibcast, bytes: 5, root: 0, rank: 2, work: 7 },
            Task::Compute { work: 6 },
            Task::CopyCost { bytes: 1 << 20 },
            Task::Ring { bytes: 4, laps: 5 },
            Task::Rate { bytes: 8, window: 64, windows: 3, receives: Receives::Early, work: 0 },
            Task::Rate { bytes: 8, window: 64, windows: 3, receives: Receives::Late, work: 0 },
            Task::Rate { bytes: 8, window: 64, windows: 3, receives: Receives::Computing, work: 7 },
            Task::Rate { bytes: 8, window: 64, windows: 3, receives: Receives::Blocking, work: 0 },
            Task::Outstanding { bytes: 8, count: 10, batches: 3, callbacks: true },
            Task::Exchange { bytes: 8, reach: 2 },
            Task::BothWays { bytes: 8, trips: 3, waits: Waits::Sendrecv },
            Task::BothWays { bytes: 9, trips: 4, waits: Waits::Posts },
            Task::Alone { op: Operation::Iallgather, bytes: 8, root: 1, count: 51, algorithm: 3 },
            Task::InARow { op: Operation::Ibarrier, bytes: 0, root: 2, count: 51 },
            Task::Contend {
                bytes: 4,
                trips: 5,
                load: Load { kernel: Kernel::Copy, repeat: 300, bytes: 1 << 20 },
                passes: 7,
                phase: Phase::CommunicationBeside,
            },
            Task::Contend {
                bytes: 0,
                trips: 1,
                load: Load { kernel: Kernel::Triad, repeat: 1, bytes: 64 },
                passes: 1,
                phase: Phase::ComputingAlone,
            },
        ] {
            assert_eq!(Task::decode(task.encode()), task);
        }
    }

    #[test]
    fn a_task_and_its_results() {
        let block = Block::create(2).unwrap();
        std::thread::scope(|s| {
            for rank in 0..2usize {
                let block = &block;
                s.spawn(move || {
                    let mut seen = 0;
                    while let Task::Compute { work } = block.next(&mut seen) {
                        block.barrier().wait();
                        block.hand_in(rank, Measured { t_comp: work + rank as u64, ..Measured::default() });
                    }
                });
            }
            for work in [10, 20] {
                block.start(Task::Compute { work });
                let got = block.finish(|| true).unwrap();
                assert_eq!([got[0].t_comp, got[1].t_comp], [work, work + 1]);
            }
            block.start(Task::Quit);
        });
        block.start(Task::Compute { work: 1 });
        assert_eq!(block.finish(|| false), None);
    }
}
