//! In-place forms: one buffer, in which what this rank sends stands where the result will. The ranks need not agree about
//! the form: one may be in place where others have two buffers.

mod owned;
mod persistent;
mod scoped;
mod scoped_persistent;

use tocsin_world::{Arguments, Block, Operation, RawRequest};

use super::{Blocks, Form, Part, blocks, wrong_length};
use crate::Error;
use crate::comm::Comm;
use crate::element::Element;
use crate::op::Op;

/// As those of two buffers: each begins an operation on memory that must stay while it is active and that nobody else uses
/// meanwhile. Lengths and places are checked here.
impl Comm {
    /// At the root all blocks; elsewhere this rank's.
    ///
    /// # Safety
    /// As above.
    pub(crate) unsafe fn begin_scatter_in_place<T: Element>(
        &self,
        form: Form,
        buf: Part<T>,
        root: u32,
    ) -> Result<RawRequest, Error> {
        let (mut send, mut recv, mut block) = (std::ptr::null(), Some(buf.to()), buf.bytes());
        if self.is_root(root) {
            block = self.divided(form.name(Operation::Iscatter), buf.len)? * size_of::<T>();
            (send, recv) = (buf.from(), None);
        }
        // SAFETY: - `buf` has a block for each rank where it is read; promised otherwise.
        unsafe { self.begin(form, &Arguments::Iscatter { send, recv, block, root }) }
    }

    /// At the root all blocks; elsewhere this rank's.
    ///
    /// # Safety
    /// As above.
    pub(crate) unsafe fn begin_scatterv_in_place<T: Element>(
        &self,
        form: Form,
        buf: Part<T>,
        blocks: Blocks<'_>,
        root: u32,
    ) -> Result<RawRequest, Error> {
        let (mut send, mut recv, mut bytes) = (std::ptr::null(), Some(buf.to()), buf.bytes());
        let mut at = Vec::new();
        if self.is_root(root) {
            at = blocks.in_bytes::<T>(form.name(Operation::Iscatterv), "send", buf.len, self.size())?;
            (send, recv, bytes) = (buf.from(), None, self.own_bytes(&at));
        }
        // SAFETY: - the blocks lie within `buf` where it is read; promised otherwise.
        unsafe { self.begin(form, &Arguments::Iscatterv { send, blocks: &at, recv, bytes, root }) }
    }

    /// At the root all blocks; elsewhere this rank's, which is only read.
    ///
    /// # Safety
    /// As above.
    pub(crate) unsafe fn begin_gather_in_place<T: Element>(
        &self,
        form: Form,
        buf: Part<T>,
        root: u32,
    ) -> Result<RawRequest, Error> {
        let (mut send, mut recv, mut block) = (Some(buf.from()), std::ptr::null_mut(), buf.bytes());
        if self.is_root(root) {
            block = self.divided(form.name(Operation::Igather), buf.len)? * size_of::<T>();
            (send, recv) = (None, buf.to());
        }
        // SAFETY: - `buf` has a block for each rank where it is written; promised otherwise.
        unsafe { self.begin(form, &Arguments::Igather { send, recv, block, root }) }
    }

    /// At the root all blocks; elsewhere this rank's, which is only read.
    ///
    /// # Safety
    /// As above.
    pub(crate) unsafe fn begin_gatherv_in_place<T: Element>(
        &self,
        form: Form,
        buf: Part<T>,
        blocks: Blocks<'_>,
        root: u32,
    ) -> Result<RawRequest, Error> {
        let (mut send, mut recv, mut bytes) = (Some(buf.from()), std::ptr::null_mut(), buf.bytes());
        let mut at = Vec::new();
        if self.is_root(root) {
            at = blocks.in_bytes::<T>(form.name(Operation::Igatherv), "receive", buf.len, self.size())?;
            (send, recv, bytes) = (None, buf.to(), self.own_bytes(&at));
        }
        // SAFETY: - the blocks lie within `buf` where it is written; promised otherwise.
        unsafe { self.begin(form, &Arguments::Igatherv { send, bytes, recv, blocks: &at, root }) }
    }

    /// # Safety
    /// As above.
    pub(crate) unsafe fn begin_allgather_in_place<T: Element>(
        &self,
        form: Form,
        buf: Part<T>,
    ) -> Result<RawRequest, Error> {
        let block = self.divided(form.name(Operation::Iallgather), buf.len)? * size_of::<T>();
        // SAFETY: - `buf` has a block for each rank; promised otherwise.
        unsafe { self.begin(form, &Arguments::Iallgather { send: None, recv: buf.to(), block }) }
    }

    /// # Safety
    /// As above.
    pub(crate) unsafe fn begin_allgatherv_in_place<T: Element>(
        &self,
        form: Form,
        buf: Part<T>,
        blocks: Blocks<'_>,
    ) -> Result<RawRequest, Error> {
        let at = blocks.in_bytes::<T>(form.name(Operation::Iallgatherv), "receive", buf.len, self.size())?;
        // SAFETY: - the blocks lie within `buf`; promised otherwise.
        unsafe { self.begin(form, &Arguments::Iallgatherv { send: None, recv: buf.to(), blocks: &at }) }
    }

    /// # Safety
    /// As above.
    pub(crate) unsafe fn begin_alltoall_in_place<T: Element>(
        &self,
        form: Form,
        buf: Part<T>,
    ) -> Result<RawRequest, Error> {
        let block = self.divided(form.name(Operation::Ialltoall), buf.len)? * size_of::<T>();
        // SAFETY: - `buf` has a block for each rank; promised otherwise.
        unsafe { self.begin(form, &Arguments::Ialltoall { send: None, recv: buf.to(), block }) }
    }

    /// # Safety
    /// As above.
    pub(crate) unsafe fn begin_alltoallv_in_place<T: Element>(
        &self,
        form: Form,
        buf: Part<T>,
        blocks: Blocks<'_>,
    ) -> Result<RawRequest, Error> {
        let at = blocks.in_bytes::<T>(form.name(Operation::Ialltoallv), "receive", buf.len, self.size())?;
        // SAFETY: - the blocks lie within `buf`; promised otherwise.
        unsafe { self.begin(form, &Arguments::Ialltoallv { send: None, recv: buf.to(), blocks: &at }) }
    }

    /// # Safety
    /// As above.
    pub(crate) unsafe fn begin_alltoallw_in_place<T: Element>(
        &self,
        form: Form,
        buf: Part<T>,
        at: &[Block],
    ) -> Result<RawRequest, Error> {
        blocks::check(form.name(Operation::Ialltoallw), "receive", at, buf.bytes(), self.size())?;
        // SAFETY: - the blocks lie within `buf`, whose elements any bytes make; promised otherwise.
        unsafe { self.begin(form, &Arguments::Ialltoallw { send: None, recv: buf.to(), blocks: at }) }
    }

    /// # Safety
    /// As above.
    pub(crate) unsafe fn begin_reduce_scatter_in_place<T: Element>(
        &self,
        form: Form,
        buf: Part<T>,
        counts: &[usize],
        op: Op<T>,
    ) -> Result<RawRequest, Error> {
        let whole = counts.iter().try_fold(0usize, |sum, count| sum.checked_add(*count));
        if whole != Some(buf.len) || counts.len() != self.size() as usize {
            let what = format!(
                "the buffer has {} elements: give one count for each of the {} ranks, {} of them in all",
                buf.len,
                self.size(),
                buf.len
            );
            return Err(wrong_length(form.name(Operation::IreduceScatter), what));
        }
        let (recv, data_type, op) = (buf.to(), T::DATA_TYPE, op.raw());
        // SAFETY: - `buf` is as long as the counts say; promised otherwise.
        unsafe { self.begin(form, &Arguments::IreduceScatter { send: None, recv, counts, data_type, op }) }
    }

    /// # Safety
    /// As above.
    pub(crate) unsafe fn begin_reduce_scatter_block_in_place<T: Element>(
        &self,
        form: Form,
        buf: Part<T>,
        op: Op<T>,
    ) -> Result<RawRequest, Error> {
        let count = self.divided(form.name(Operation::IreduceScatterBlock), buf.len)?;
        let (recv, data_type, op) = (buf.to(), T::DATA_TYPE, op.raw());
        // SAFETY: - `buf` has a part for each rank; promised otherwise.
        unsafe {
            self.begin(form, &Arguments::IreduceScatterBlock { send: None, recv, count, data_type, op })
        }
    }

    /// Bytes of this rank's block.
    fn own_bytes(&self, blocks: &[Block]) -> usize {
        blocks.get(self.rank() as usize).map_or(0, |block| block.bytes)
    }
}
