//! What the reductions share: the vector that a rank has so far, and which steps must precede its use.

use crate::builder::{Mem, Reduction, ScheduleBuilder, StepId};
use crate::table::{Arguments, misplaced};
use crate::{DataType, Error, Op};

/// The arguments of an iallreduce.
#[derive(Clone, Copy)]
pub(super) struct Call {
    pub input: Mem,
    pub output: Mem,
    pub in_place: bool,
    pub count: usize,
    pub data_type: DataType,
    pub op: Op,
}

impl Call {
    pub(super) fn iallreduce(arguments: &Arguments) -> Result<Call, Error> {
        match *arguments {
            Arguments::Iallreduce { send, recv, count, data_type, op } => Ok(Call {
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

    pub(super) fn bytes(&self) -> usize {
        self.count * self.data_type.size()
    }

    /// Byte offset of an element.
    pub(super) fn offset(&self, element: usize) -> usize {
        element * self.data_type.size()
    }

    /// Handles what needs no messages: no elements, or one rank. True if that was all.
    pub(super) fn is_local(&self, b: &mut ScheduleBuilder) -> bool {
        if self.count == 0 {
            return true;
        }
        if b.size() == 1 {
            if !self.in_place {
                b.copy(self.input, self.output, self.bytes(), &[]);
            }
            return true;
        }
        false
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
