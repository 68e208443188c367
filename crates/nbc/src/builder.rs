//! Building a [`Schedule`] on the user's thread.

use crate::board::Call;
use crate::kernels::Operator;
use crate::schedule::{Kind, Line, NONE, Pieces, ROUND_BITS, Schedule, Status, Step, StepState};
use crate::split::{Levels, Split};
use crate::table::Block;
use crate::view::Outline;
use crate::{DataType, Error, Group, Op};
use tocsin_topology::split_tree::Weights;

/// A step of the schedule that is being built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StepId(u32);

/// Memory that steps use: the user's, or a temporary of the schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mem {
    /// The user's buffer. Steps that only read it never write through the pointer.
    User(*mut u8),
    /// An offset into the schedule's temporaries.
    Temp(usize),
}

impl Mem {
    /// The user's memory, to be read.
    pub fn read_only(memory: *const u8) -> Mem {
        Mem::User(memory.cast_mut())
    }

    /// The same memory, so many bytes further on.
    pub fn at(self, bytes: usize) -> Mem {
        match self {
            Mem::User(base) => Mem::User(base.wrapping_add(bytes)),
            Mem::Temp(offset) => Mem::Temp(offset.saturating_add(bytes)),
        }
    }
}

/// The operands of a reduction step: `out = left op right`. `out` is `left`, `right`, or apart from both.
#[derive(Clone, Copy, Debug)]
pub struct Reduction {
    /// Left operand.
    pub left: Mem,
    /// Right operand.
    pub right: Mem,
    /// Result.
    pub out: Mem,
    /// Elements.
    pub count: usize,
}

#[derive(Clone, Copy, Debug)]
enum Draft {
    Send { to: u32, round: u32, from: Mem, bytes: usize, last: bool },
    Recv { from: u32, round: u32, to: Mem, bytes: usize },
    Copy { from: Mem, to: Mem, bytes: usize },
    Pack { from: Mem, pieces: Pieces, to: Mem, bytes: usize },
    Unpack { from: Mem, to: Mem, pieces: Pieces, bytes: usize },
    Reverse { from: Mem, to: Mem, block: usize, bytes: usize },
    Reduce { operands: Reduction, operator: Operator },
    Join,
}

/// Collects steps and their dependencies; [`finish`](Self::finish) checks them and lays them out.
///
/// Ranks are those of the group. Between two ranks, messages of one direction differ in their `round`, and both sides
/// give the same round to the same message.
#[derive(Debug)]
pub struct ScheduleBuilder {
    group: Group,
    drafts: Vec<Draft>,
    /// (before, after)
    edges: Vec<(u32, u32)>,
    temp: Option<usize>,
    board: Option<Call>,
    blocks: Box<[Block]>,
    split: Option<(Weights, Levels)>,
}

impl ScheduleBuilder {
    /// An empty schedule.
    pub fn new(group: &Group) -> ScheduleBuilder {
        ScheduleBuilder {
            group: group.clone(),
            drafts: Vec::new(),
            edges: Vec::new(),
            temp: Some(0),
            board: None,
            blocks: Box::default(),
            split: None,
        }
    }

    /// This process's rank in the group.
    pub fn rank(&self) -> u32 {
        self.group.rank()
    }

    /// Number of ranks in the group.
    pub fn size(&self) -> u32 {
        self.group.size()
    }

    /// Memory that lives as long as the schedule, aligned to 64 bytes.
    pub fn temp(&mut self, bytes: usize) -> Mem {
        let start = self.temp.unwrap_or(0);
        self.temp = self.temp.and_then(|end| end.checked_add(bytes)?.checked_next_multiple_of(64));
        Mem::Temp(start)
    }

    /// Sends `bytes` at `from` to rank `to`, once the steps `after` are done.
    pub fn send(&mut self, to: u32, round: u32, from: Mem, bytes: usize, after: &[StepId]) -> StepId {
        self.push(Draft::Send { to, round, from, bytes, last: false }, after)
    }

    /// The same, of what its receiver sends nothing after in this schedule, whatever became of it: no other rank depends on when that takes it, so
    /// that a receiver which computes need not be interrupted for it.
    pub fn send_last(&mut self, to: u32, round: u32, from: Mem, bytes: usize, after: &[StepId]) -> StepId {
        self.push(Draft::Send { to, round, from, bytes, last: true }, after)
    }

    /// Receives `bytes` into `to` from rank `from`, once the steps `after` are done.
    pub fn recv(&mut self, from: u32, round: u32, to: Mem, bytes: usize, after: &[StepId]) -> StepId {
        self.push(Draft::Recv { from, round, to, bytes }, after)
    }

    /// Copies within this rank; the two ranges are apart.
    pub fn copy(&mut self, from: Mem, to: Mem, bytes: usize, after: &[StepId]) -> StepId {
        self.push(Draft::Copy { from, to, bytes }, after)
    }

    /// Copies a block of the buffer at `from`, piece by piece, to one run at `to`, which is apart from it.
    pub fn pack(&mut self, from: Mem, block: &Block, to: Mem, after: &[StepId]) -> StepId {
        let (from, pieces, bytes) = (from.at(block.offset), block.pieces(), block.bytes);
        self.push(Draft::Pack { from, pieces, to, bytes }, after)
    }

    /// Copies one run at `from`, piece by piece, to a block of the buffer at `to`, which is apart from it.
    pub fn unpack(&mut self, from: Mem, to: Mem, block: &Block, after: &[StepId]) -> StepId {
        let (to, pieces, bytes) = (to.at(block.offset), block.pieces(), block.bytes);
        self.push(Draft::Unpack { from, to, pieces, bytes }, after)
    }

    /// Copies `count` blocks of `block` bytes, the first one at `from` to the last place at `to` and so on. The two ranges are apart.
    pub fn reverse(&mut self, from: Mem, to: Mem, block: usize, count: usize, after: &[StepId]) -> StepId {
        let bytes = block.saturating_mul(count);
        self.push(Draft::Reverse { from, to, block, bytes }, after)
    }

    /// Combines two vectors.
    ///
    /// # Errors
    /// [`Error::InvalidOperator`].
    pub fn reduce(
        &mut self,
        operands: Reduction,
        data_type: DataType,
        op: Op,
        after: &[StepId],
    ) -> Result<StepId, Error> {
        let operator = Operator::new(op, data_type)?;
        Ok(self.push(Draft::Reduce { operands, operator }, after))
    }

    /// Does it on the group's board, or what steps do not do. Before any temporaries. `blocks`: those of the call, if it has any.
    pub(crate) fn on_board(&mut self, call: Call, blocks: &[Block]) {
        self.board = Some(call);
        self.blocks = blocks.into();
        let packed = call.packed_bytes(self.rank() as usize);
        self.temp(packed);
    }

    /// Leaves levels of the tree that follows to the ranks, as many as the cost model says: [`split`](crate::split).
    pub(crate) fn split(&mut self, weights: Weights) {
        self.split = Some((weights, Levels::default()));
    }

    /// What a message of a level, from the root on, has to wait for: the rank's next call, if that level is the rank's. Nothing, unless
    /// [`split`](Self::split).
    pub(crate) fn gate(&mut self, level: u32) -> Option<StepId> {
        self.split.as_ref()?;
        let gate = self.join(&[]);
        let (_, levels) = self.split.as_mut()?;
        levels.gates.push((level, gate.0));
        Some(gate)
    }

    /// `steps` are what this rank does on a level towards the root, above those that it has named so. Nothing, unless
    /// [`split`](Self::split).
    pub(crate) fn end_level(&mut self, level: u32, steps: &[StepId]) {
        let Some((_, levels)) = &self.split else { return };
        let before = levels.ends.last().map(|(_, step)| StepId(*step));
        let after: Vec<StepId> = steps.iter().copied().chain(before).collect();
        let end = self.join(&after);
        if let Some((_, levels)) = &mut self.split {
            levels.ends.push((level, end.0));
        }
    }

    pub(crate) fn group(&self) -> &Group {
        &self.group
    }

    /// A step that does nothing: one name for many dependencies.
    pub fn join(&mut self, after: &[StepId]) -> StepId {
        self.push(Draft::Join, after)
    }

    /// A step after all others so far.
    pub fn all(&mut self) -> StepId {
        let so_far: Vec<StepId> = (0..self.drafts.len() as u32).map(StepId).collect();
        self.join(&so_far)
    }

    /// Adds a dependency between steps that both exist.
    pub fn order(&mut self, before: StepId, after: StepId) {
        self.edges.push((before.0, after.0));
    }

    /// How many steps there are so far.
    pub(crate) fn len(&self) -> usize {
        self.drafts.len()
    }

    /// Has all steps from number `first` on wait for `before`.
    pub(crate) fn order_all(&mut self, before: StepId, first: usize) {
        let later = first as u32..self.drafts.len() as u32;
        self.edges.extend(later.map(|after| (before.0, after)));
    }

    fn push(&mut self, draft: Draft, after: &[StepId]) -> StepId {
        // A schedule of 2^32 steps is refused by `finish`, so that the number may wrap here.
        let id = self.drafts.len() as u32;
        self.drafts.push(draft);
        self.edges.extend(after.iter().map(|before| (before.0, id)));
        StepId(id)
    }

    /// Checks the graph and lays it out.
    ///
    /// # Errors
    /// [`Error::BadSchedule`] when the steps are no valid graph, [`Error::OutOfMemory`].
    pub fn finish(mut self) -> Result<Box<Schedule>, Error> {
        // The cookie of a request has 24 bits for the step.
        if self.drafts.len() >= 1 << 24 {
            return Err(Error::BadSchedule("it has 2^24 steps or more"));
        }
        let bytes = self.temp.unwrap_or(usize::MAX);
        let mut arena: Vec<Line> = Vec::new();
        let lines = bytes / 64;
        arena.try_reserve_exact(lines).map_err(|_| Error::OutOfMemory { bytes })?;
        arena.resize(lines, Line([0; 64]));
        let base: *mut u8 = arena.as_mut_ptr().cast();

        let (steps, dependants) = self.lay_out(base, lines * 64, 1 << ROUND_BITS)?;
        let split = self.split.take().and_then(|(weights, levels)| Split::new(&self.group, weights, levels));
        // What is behind a gate begins when that is opened.
        let held = |step: u32| split.as_ref().is_some_and(|split| split.is_gate(step));
        let idle =
            StepState { pending: 0, next: NONE, status: Status::Waiting, done: 0, request: None, begun: 0 };
        let initial: Box<[u32]> = (0u32..)
            .zip(&steps)
            .filter(|(i, step)| step.dependencies == 0 && !held(*i))
            .map(|(i, _)| i)
            .collect();
        let at_once = sends_at_once(&steps, &dependants, &initial);
        let mut schedule = Box::new(Schedule {
            state: vec![idle; steps.len()].into_boxed_slice(),
            algorithm: 0,
            origin: None,
            group: self.group,
            board: self.board,
            blocks: self.blocks,
            split: split.map(Box::new),
            steps: steps.into_boxed_slice(),
            dependants: dependants.into_boxed_slice(),
            initial,
            at_once,
            remaining: 0,
            _arena: arena,
        });
        if let Some(call) = &mut schedule.board {
            call.look_at(&schedule.blocks);
            if call.packed_bytes(schedule.group.rank() as usize) > 0 {
                // The first of the temporaries.
                call.pack_into(base);
            }
        }
        schedule.rewind();
        Ok(schedule)
    }

    /// The same of what nobody runs: no memory is taken for it, and there may be more rounds than a tag can number.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub(crate) fn outline(mut self) -> Result<Outline, Error> {
        let bytes = self.temp.unwrap_or(usize::MAX);
        if bytes > isize::MAX as usize {
            return Err(Error::OutOfMemory { bytes });
        }
        // Where no buffer is: no program has addresses of the upper half.
        let base = std::ptr::without_provenance_mut(1 << (usize::BITS - 1));
        let (steps, dependants) = self.lay_out(base, bytes, u32::MAX)?;
        Ok(Outline::new(steps, dependants))
    }

    /// The steps, of fewer than `rounds` rounds and with temporaries at `base`, and their dependants.
    fn lay_out(&mut self, base: *mut u8, arena: usize, rounds: u32) -> Result<(Vec<Step>, Vec<u32>), Error> {
        let (dependencies, ranges, dependants) = self.sort_edges()?;
        let mut steps = Vec::with_capacity(self.drafts.len());
        for (i, draft) in self.drafts.iter().enumerate() {
            let (first_dependant, count) = ranges[i];
            let kind = self.resolve(draft, base, arena, rounds)?;
            steps.push(Step { kind, dependencies: dependencies[i], first_dependant, dependants: count });
        }
        check_rounds(&steps)?;
        Ok((steps, dependants))
    }

    /// Dependencies per step, (first, count) of its dependants, and the dependants; refuses cycles.
    #[allow(clippy::type_complexity)]
    fn sort_edges(&mut self) -> Result<(Vec<u32>, Vec<(u32, u32)>, Vec<u32>), Error> {
        let n = self.drafts.len();
        self.edges.sort_unstable();
        self.edges.dedup();
        if u32::try_from(self.edges.len()).is_err() {
            return Err(Error::BadSchedule("it has 2^32 dependencies or more"));
        }
        let mut dependencies = vec![0u32; n];
        let mut ranges = vec![(0u32, 0u32); n];
        for (i, &(before, after)) in self.edges.iter().enumerate() {
            if before as usize >= n || after as usize >= n {
                return Err(Error::BadSchedule("a dependency names a step that does not exist"));
            }
            if before == after {
                return Err(Error::BadSchedule("a step depends on itself"));
            }
            dependencies[after as usize] += 1;
            let range = &mut ranges[before as usize];
            if range.1 == 0 {
                range.0 = i as u32;
            }
            range.1 += 1;
        }
        let dependants: Vec<u32> = self.edges.iter().map(|e| e.1).collect();
        // Kahn 1962: what cannot be numbered in topological order lies on a cycle.
        let mut left = dependencies.clone();
        let mut ready: Vec<u32> = (0..n as u32).filter(|i| left[*i as usize] == 0).collect();
        let mut reached = 0;
        while let Some(step) = ready.pop() {
            reached += 1;
            let (first, count) = ranges[step as usize];
            for &next in &dependants[first as usize..(first + count) as usize] {
                left[next as usize] -= 1;
                if left[next as usize] == 0 {
                    ready.push(next);
                }
            }
        }
        if reached != n {
            return Err(Error::BadSchedule("its dependencies form a cycle"));
        }
        Ok((dependencies, ranges, dependants))
    }

    fn resolve(&self, draft: &Draft, base: *mut u8, arena: usize, rounds: u32) -> Result<Kind, Error> {
        let memory = |mem: Mem, bytes: usize| match mem {
            Mem::User(pointer) => Ok(pointer),
            Mem::Temp(start) if start.checked_add(bytes).is_some_and(|end| end <= arena) => {
                Ok(base.wrapping_add(start))
            }
            Mem::Temp(_) => Err(Error::BadSchedule("a step leaves the temporaries")),
        };
        let peer = |rank: u32, round: u32| {
            if rank == self.group.rank() {
                return Err(Error::BadSchedule("a rank sends to itself instead of copying"));
            }
            if round >= rounds {
                return Err(Error::BadSchedule("it has more rounds than a tag can number"));
            }
            self.group
                .world_rank(rank)
                .ok_or(Error::BadSchedule("a message goes to a rank outside the group"))
        };
        Ok(match *draft {
            Draft::Send { to, round, from, bytes, last } => {
                Kind::Send { peer: peer(to, round)?, round, from: memory(from, bytes)?, bytes, last }
            }
            Draft::Recv { from, round, to, bytes } => {
                Kind::Recv { peer: peer(from, round)?, round, to: memory(to, bytes)?, bytes }
            }
            Draft::Copy { from, to, bytes } => {
                let (from, to) = (memory(from, bytes)?, memory(to, bytes)?);
                if overlap(from, to, bytes) {
                    return Err(Error::BadSchedule("a copy step's ranges overlap"));
                }
                Kind::Copy { from, to, bytes }
            }
            Draft::Pack { from, pieces, to, bytes } => {
                let span = span(pieces, bytes)?;
                let (from, to) = (memory(from, span)?, memory(to, bytes)?);
                if meet((from, span), (to, bytes)) && meets_a_piece(pieces, bytes, from, to) {
                    return Err(Error::BadSchedule("a packing step's ranges overlap"));
                }
                Kind::Pack { from, pieces, to, bytes }
            }
            Draft::Unpack { from, to, pieces, bytes } => {
                let span = span(pieces, bytes)?;
                let (from, to) = (memory(from, bytes)?, memory(to, span)?);
                if meet((from, bytes), (to, span)) && meets_a_piece(pieces, bytes, to, from) {
                    return Err(Error::BadSchedule("an unpacking step's ranges overlap"));
                }
                Kind::Unpack { from, to, pieces, bytes }
            }
            Draft::Reverse { from, to, block, bytes } => {
                let (from, to) = (memory(from, bytes)?, memory(to, bytes)?);
                if block == 0 || bytes < block {
                    return Err(Error::BadSchedule("it reverses nothing"));
                }
                if overlap(from, to, bytes) {
                    return Err(Error::BadSchedule("a reversing step's ranges overlap"));
                }
                let pieces = Pieces { length: block, stride: block.wrapping_neg() };
                Kind::Unpack { from, to: to.wrapping_add(bytes - block), pieces, bytes }
            }
            Draft::Reduce { operands: Reduction { left, right, out, count }, operator } => {
                let size = operator.size();
                let bytes = count.checked_mul(size).ok_or(Error::TooLarge { count, size })?;
                let (left, right, out) = (memory(left, bytes)?, memory(right, bytes)?, memory(out, bytes)?);
                let apart = |from: *mut u8| from == out || !overlap(from, out, bytes);
                if !apart(left) || !apart(right) {
                    return Err(Error::BadSchedule("a reduction's result overlaps an operand"));
                }
                Kind::Reduce { left, right, out, count, operator }
            }
            Draft::Join => Kind::Join,
        })
    }
}

fn overlap(a: *const u8, b: *const u8, bytes: usize) -> bool {
    (a as usize).abs_diff(b as usize) < bytes
}

/// Bytes from the first of the pieces to the last, whose length must not be zero.
fn span(pieces: Pieces, bytes: usize) -> Result<usize, Error> {
    if pieces.length == 0 || pieces.stride < pieces.length {
        return Err(Error::BadSchedule("a block has no pieces, or pieces that overlap"));
    }
    let gaps = (bytes.div_ceil(pieces.length).max(1) - 1).checked_mul(pieces.stride - pieces.length);
    gaps.and_then(|gaps| gaps.checked_add(bytes))
        .filter(|span| isize::try_from(*span).is_ok())
        .ok_or(Error::TooLarge { count: bytes.div_ceil(pieces.length), size: pieces.stride })
}

/// Whether two ranges of bytes have one in common.
fn meet((a, a_bytes): (*const u8, usize), (b, b_bytes): (*const u8, usize)) -> bool {
    let (a, b) = (a as usize, b as usize);
    a < b.saturating_add(b_bytes) && b < a.saturating_add(a_bytes) && a_bytes > 0 && b_bytes > 0
}

/// Whether one of the pieces of so many bytes from `base` on has a byte in common with as many in one run, where they [reach](meet) each other.
fn meets_a_piece(pieces: Pieces, bytes: usize, base: *const u8, run: *const u8) -> bool {
    // From the start of the one that begins first: neither is longer than `isize::MAX`, and so nothing overflows.
    let start = base.addr().min(run.addr());
    let block = Block::of_pieces(base.addr() - start, bytes, pieces);
    block.overlaps(&Block::new(run.addr() - start, bytes))
}

/// How many sends begin together: those that depend on no message, and on nothing but `initial` steps and what follows from these without one.
fn sends_at_once(steps: &[Step], dependants: &[u32], initial: &[u32]) -> u32 {
    let mut left: Vec<u32> = steps.iter().map(|step| step.dependencies).collect();
    let (mut ready, mut sends) = (initial.to_vec(), 0);
    while let Some(at) = ready.pop() {
        let Step { kind, first_dependant, dependants: count, .. } = &steps[at as usize];
        match kind {
            Kind::Send { .. } => sends += 1,
            Kind::Recv { .. } => {}
            _ => {
                for &next in &dependants[*first_dependant as usize..][..*count as usize] {
                    left[next as usize] -= 1;
                    if left[next as usize] == 0 {
                        ready.push(next);
                    }
                }
            }
        }
    }
    sends
}

/// Two messages of one direction between two ranks in one round could be taken for each other.
fn check_rounds(steps: &[Step]) -> Result<(), Error> {
    let mut messages: Vec<(bool, u32, u32)> = steps
        .iter()
        .filter_map(|step| match step.kind {
            Kind::Send { peer, round, .. } => Some((true, peer, round)),
            Kind::Recv { peer, round, .. } => Some((false, peer, round)),
            _ => None,
        })
        .collect();
    messages.sort_unstable();
    if messages.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(Error::BadSchedule("two messages between the same ranks have the same round"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
