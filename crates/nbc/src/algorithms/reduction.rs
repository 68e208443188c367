//! What the reductions share: the vector that a rank has so far, and which steps must precede its use.

use crate::builder::{Mem, Reduction, ScheduleBuilder, StepId};
use crate::table::{Arguments, misplaced};
use crate::{DataType, Error, Op};
use std::ops::Range;

/// The vectors of a reduction.
#[derive(Clone, Copy)]
pub(super) struct Call {
    pub input: Mem,
    /// Where reductions leave what they combine.
    pub output: Mem,
    /// Whether the input stands in the output.
    pub in_place: bool,
    pub count: usize,
    pub data_type: DataType,
    pub op: Op,
}

impl Call {
    /// Of an operation in which every rank has an input and a result of the same length.
    pub(super) fn new(arguments: &Arguments) -> Result<Call, Error> {
        match *arguments {
            Arguments::Iallreduce { send, recv, count, data_type, op }
            | Arguments::Iscan { send, recv, count, data_type, op }
            | Arguments::Iexscan { send, recv, count, data_type, op } => Ok(Call {
                input: send.map_or(Mem::User(recv), Mem::read_only),
                output: Mem::User(recv),
                in_place: send.is_none_or(|send| std::ptr::eq(send, recv)),
                count,
                data_type,
                op,
            }),
            _ => Err(misplaced()),
        }
    }

    /// Of a reduction to a root. Only there is the output the user's; elsewhere it is a temporary on ranks that combine
    /// (`combines`), and nothing on the others.
    pub(super) fn to_root(
        arguments: &Arguments,
        b: &mut ScheduleBuilder,
        combines: bool,
    ) -> Result<(Call, u32), Error> {
        let Arguments::Ireduce { send, recv, count, data_type, op, root } = *arguments else {
            return Err(misplaced());
        };
        let user = Arguments::Iallreduce { send, recv, count, data_type, op };
        let mut call = Call::new(&user)?;
        if b.rank() != root {
            call.in_place = false;
            call.output = if combines { b.temp(call.bytes()) } else { call.input };
        }
        Ok((call, root))
    }

    pub(super) fn bytes(&self) -> usize {
        self.count * self.data_type.size()
    }

    /// Byte offset of an element.
    pub(super) fn offset(&self, element: usize) -> usize {
        element * self.data_type.size()
    }

    /// Bytes of some elements.
    pub(super) fn length(&self, elements: &Range<usize>) -> usize {
        self.offset(elements.len())
    }

    /// Handles what needs no messages: no elements, or one rank. True if that was all.
    pub(super) fn is_local(&self, b: &mut ScheduleBuilder) -> bool {
        if self.count == 0 {
            return true;
        }
        if b.size() == 1 {
            self.keep_input(b);
            return true;
        }
        false
    }

    /// The input as it is becomes the result.
    pub(super) fn keep_input(&self, b: &mut ScheduleBuilder) {
        if !self.in_place {
            b.copy(self.input, self.output, self.bytes(), &[]);
        }
    }

    /// A rank's partial result before its first reduction: its input, which needs no step.
    pub(super) fn start(&self) -> Partial {
        Partial { at: self.input, in_output: self.in_place, written: None }
    }

    /// Combines elements `first..first + count` of `partial` with a vector that `arrival` leaves at `other` (its first
    /// element is element `first`). The result stands in the output. `readers` still read those elements of the output.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn combine(
        &self,
        b: &mut ScheduleBuilder,
        partial: &mut Partial,
        (first, count): (usize, usize),
        other: Mem,
        other_is_left: bool,
        arrival: StepId,
        readers: &[StepId],
    ) -> Result<StepId, Error> {
        let offset = self.offset(first);
        let mine = partial.at.at(offset);
        let (left, right) = if other_is_left { (other, mine) } else { (mine, other) };
        let operands = Reduction { left, right, out: self.output.at(offset), count };
        let mut after: Vec<StepId> = partial.written.into_iter().chain([arrival]).collect();
        if partial.in_output {
            after.extend_from_slice(readers);
        }
        let step = b.reduce(operands, self.data_type, self.op, &after)?;
        *partial = Partial { at: self.output, in_output: true, written: Some(step) };
        Ok(step)
    }
}

/// Elements of block `j` of `p`: sizes differ by at most one.
pub(super) fn block(count: usize, p: usize, j: usize) -> Range<usize> {
    let (least, longer) = (count / p, count % p);
    let start = j * least + j.min(longer);
    start..start + least + usize::from(j < longer)
}

/// Where a rank's partial result stands.
#[derive(Clone, Copy)]
pub(super) struct Partial {
    pub at: Mem,
    /// Whether `at` is the output, so that a reduction overwrites what sends may still read.
    pub in_output: bool,
    /// The last step that wrote it.
    pub written: Option<StepId>,
}

impl Partial {
    /// What must precede reading it.
    pub(super) fn ready(&self) -> &[StepId] {
        self.written.as_slice()
    }
}

/// Temporaries for vectors that arrive one after the other: one for each while they are short, so that all receives are
/// posted at the start and arrivals are never unexpected; above that two take turns.
pub(super) struct Landings {
    temps: Vec<Mem>,
    taken: usize,
    /// The step that ends the use of each vector that has arrived, in order.
    used: Vec<StepId>,
}

/// Together they take no more than this, or twice one vector.
const MOST: usize = 256 << 10;

impl Landings {
    pub(super) fn new(b: &mut ScheduleBuilder, bytes: usize, arrivals: usize) -> Landings {
        let kept = (MOST / bytes.max(1)).max(2).min(arrivals.max(1));
        Landings { temps: (0..kept).map(|_| b.temp(bytes)).collect(), taken: 0, used: Vec::new() }
    }

    /// Where the next vector goes, and what must precede its receive.
    pub(super) fn next(&mut self) -> (Mem, Option<StepId>) {
        let (i, kept) = (self.taken, self.temps.len());
        self.taken += 1;
        (self.temps[i % kept], i.checked_sub(kept).and_then(|before| self.used.get(before).copied()))
    }

    /// The step after which the oldest vector still in use is no longer needed.
    pub(super) fn used_until(&mut self, step: StepId) {
        self.used.push(step);
    }
}

/// A reduction of which every rank gets a part.
pub(super) struct Parts {
    /// Of the whole vector: its output is a temporary on ranks that combine, never the user's memory.
    pub call: Call,
    /// Where this rank's part goes.
    pub recv: Mem,
    /// Whether that is the start of the input.
    pub in_place: bool,
    /// First element of each rank's part, and the end.
    starts: Vec<usize>,
}

impl Parts {
    pub(super) fn new(
        arguments: &Arguments,
        b: &mut ScheduleBuilder,
        combines: bool,
    ) -> Result<Parts, Error> {
        let mut starts = vec![0];
        let (send, recv, data_type, op) = match *arguments {
            Arguments::IreduceScatter { send, recv, counts, data_type, op } => {
                starts.extend(counts.iter().scan(0, |sum, count| {
                    *sum += count;
                    Some(*sum)
                }));
                (send, recv, data_type, op)
            }
            Arguments::IreduceScatterBlock { send, recv, count, data_type, op } => {
                starts.extend((1..=b.size() as usize).map(|rank| rank * count));
                (send, recv, data_type, op)
            }
            _ => return Err(misplaced()),
        };
        let count = starts.last().copied().unwrap_or(0);
        let mut call = Call::new(&Arguments::Iallreduce { send, recv, count, data_type, op })?;
        let in_place = std::mem::replace(&mut call.in_place, false);
        call.output = if combines { b.temp(call.bytes()) } else { call.input };
        Ok(Parts { call, recv: Mem::User(recv), in_place, starts })
    }

    /// Elements of the parts of some ranks.
    pub(super) fn elements(&self, ranks: Range<u32>) -> Range<usize> {
        let start = |rank: u32| self.starts.get(rank as usize).copied().unwrap_or(0);
        start(ranks.start)..start(ranks.end)
    }

    /// Bytes of a rank's part.
    pub(super) fn bytes(&self, rank: u32) -> usize {
        self.call.length(&self.elements(rank..rank + 1))
    }

    /// Handles what needs no messages: no elements, or one rank. True if that was all.
    pub(super) fn is_local(&self, b: &mut ScheduleBuilder) -> bool {
        let is_alone = b.size() == 1;
        if is_alone && self.call.count > 0 && !self.in_place {
            b.copy(self.call.input, self.recv, self.call.bytes(), &[]);
        }
        is_alone || self.call.count == 0
    }

    /// Puts this rank's part where it belongs, once it stands at `from`.
    pub(super) fn deliver(&self, b: &mut ScheduleBuilder, from: Mem, written: Option<StepId>) {
        // In place, it overwrites input that earlier steps read.
        let read = self.in_place.then(|| b.all());
        let bytes = self.bytes(b.rank());
        if bytes > 0 && from != self.recv {
            let after: Vec<StepId> = written.into_iter().chain(read).collect();
            b.copy(from, self.recv, bytes, &after);
        }
    }
}
