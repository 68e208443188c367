//! Collectives of typed buffers: what is checked before they start, shared by the owned and the scoped forms.

mod blocks;
mod owned;
mod scoped;

pub use blocks::Blocks;

use tocsin_world::{Block, RawRequest};

use crate::Error;
use crate::buffer::{ElementBuffer, Held};
use crate::comm::Comm;
use crate::element::Element;
use crate::op::Op;

/// The memory of a buffer of elements.
#[derive(Clone, Copy)]
pub(crate) struct Part<T> {
    base: *mut T,
    len: usize,
}

impl<T: Element> Part<T> {
    /// A buffer that is read.
    pub(crate) fn read(buf: &[T]) -> Part<T> {
        Part { base: buf.as_ptr().cast_mut(), len: buf.len() }
    }

    /// A buffer that is written.
    pub(crate) fn write(buf: &mut [T]) -> Part<T> {
        Part { base: buf.as_mut_ptr(), len: buf.len() }
    }

    pub(crate) fn held<B: ElementBuffer<Item = T>>(held: &Held<B>) -> Part<T> {
        Part { base: held.memory().0.cast(), len: held.elements() }
    }

    fn from(&self) -> *const u8 {
        self.base.cast_const().cast()
    }

    fn to(&self) -> *mut u8 {
        self.base.cast()
    }

    fn bytes(&self) -> usize {
        self.len * size_of::<T>()
    }
}

fn wrong_length(operation: &'static str, what: String) -> Error {
    Error::BufferLength { operation, what }
}

/// All that follow start an operation on memory that must stay until it is complete, as the raw call of the same name
/// asks; what is received is used by nobody else meanwhile. Lengths and places are checked here.
impl Comm {
    fn is_root(&self, root: u32) -> bool {
        self.rank() == root
    }

    /// `whole` is a block like `one` for each rank.
    fn one_for_each(
        &self,
        operation: &'static str,
        (whole_is, whole): (&str, usize),
        (one_is, one): (&str, usize),
    ) -> Result<(), Error> {
        let ranks = self.size() as usize;
        if one.checked_mul(ranks) == Some(whole) {
            return Ok(());
        }
        let what = format!(
            "the {whole_is} buffer has {whole} elements, the {one_is} buffer {one}: make it {ranks} times as long, \
             for {ranks} ranks"
        );
        Err(wrong_length(operation, what))
    }

    /// # Safety
    /// As above.
    pub(crate) unsafe fn start_iscatter<T: Element>(
        &self,
        send: Part<T>,
        recv: Part<T>,
        root: u32,
    ) -> Result<RawRequest, Error> {
        if self.is_root(root) {
            self.one_for_each("iscatter", ("send", send.len), ("receive", recv.len))?;
        }
        // SAFETY: - `send` has a block of the length of `recv` for each rank where it is read; promised otherwise.
        unsafe { self.raw().iscatter_raw(send.from(), Some(recv.to()), recv.bytes(), root, self.algorithm()) }
    }

    /// # Safety
    /// As above.
    pub(crate) unsafe fn start_iscatterv<T: Element>(
        &self,
        send: Part<T>,
        blocks: Blocks<'_>,
        recv: Part<T>,
        root: u32,
    ) -> Result<RawRequest, Error> {
        let mut at = Vec::new();
        if self.is_root(root) {
            at = blocks.in_bytes::<T>("iscatterv", "send", send.len, self.size())?;
        }
        let name = self.algorithm();
        // SAFETY: - the blocks lie within `send` where it is read; promised otherwise.
        unsafe { self.raw().iscatterv_raw(send.from(), &at, Some(recv.to()), recv.bytes(), root, name) }
    }

    /// # Safety
    /// As above.
    pub(crate) unsafe fn start_igather<T: Element>(
        &self,
        send: Part<T>,
        recv: Part<T>,
        root: u32,
    ) -> Result<RawRequest, Error> {
        if self.is_root(root) {
            self.one_for_each("igather", ("receive", recv.len), ("send", send.len))?;
        }
        // SAFETY: - `recv` has a block of the length of `send` for each rank where it is written; promised otherwise.
        unsafe { self.raw().igather_raw(Some(send.from()), recv.to(), send.bytes(), root, self.algorithm()) }
    }

    /// # Safety
    /// As above.
    pub(crate) unsafe fn start_igatherv<T: Element>(
        &self,
        send: Part<T>,
        recv: Part<T>,
        blocks: Blocks<'_>,
        root: u32,
    ) -> Result<RawRequest, Error> {
        let mut at = Vec::new();
        if self.is_root(root) {
            at = blocks.in_bytes::<T>("igatherv", "receive", recv.len, self.size())?;
        }
        let name = self.algorithm();
        // SAFETY: - the blocks lie within `recv` where it is written; promised otherwise.
        unsafe { self.raw().igatherv_raw(Some(send.from()), send.bytes(), recv.to(), &at, root, name) }
    }

    /// # Safety
    /// As above.
    pub(crate) unsafe fn start_iallgather<T: Element>(
        &self,
        send: Part<T>,
        recv: Part<T>,
    ) -> Result<RawRequest, Error> {
        self.one_for_each("iallgather", ("receive", recv.len), ("send", send.len))?;
        // SAFETY: - `recv` has a block of the length of `send` for each rank; promised otherwise.
        unsafe { self.raw().iallgather_raw(Some(send.from()), recv.to(), send.bytes(), self.algorithm()) }
    }

    /// # Safety
    /// As above.
    pub(crate) unsafe fn start_iallgatherv<T: Element>(
        &self,
        send: Part<T>,
        recv: Part<T>,
        blocks: Blocks<'_>,
    ) -> Result<RawRequest, Error> {
        let at = blocks.in_bytes::<T>("iallgatherv", "receive", recv.len, self.size())?;
        let own = at.get(self.rank() as usize).map_or(0, |b| b.bytes);
        if own != send.bytes() {
            let what = format!(
                "the send buffer has {} elements, this rank's block {}: make them equal",
                send.len,
                own / size_of::<T>()
            );
            return Err(wrong_length("iallgatherv", what));
        }
        // SAFETY: - the blocks lie within `recv`, and `send` is as long as this rank's; promised otherwise.
        unsafe { self.raw().iallgatherv_raw(Some(send.from()), recv.to(), &at, self.algorithm()) }
    }

    /// # Safety
    /// As above.
    pub(crate) unsafe fn start_ialltoallv<T: Element>(
        &self,
        send: (Part<T>, Blocks<'_>),
        recv: (Part<T>, Blocks<'_>),
    ) -> Result<RawRequest, Error> {
        let from = send.1.in_bytes::<T>("ialltoallv", "send", send.0.len, self.size())?;
        let to = recv.1.in_bytes::<T>("ialltoallv", "receive", recv.0.len, self.size())?;
        let send = Some((send.0.from(), &from[..]));
        // SAFETY: - the blocks lie within both buffers; promised otherwise.
        unsafe { self.raw().ialltoallv_raw(send, recv.0.to(), &to, self.algorithm()) }
    }

    /// # Safety
    /// As above.
    pub(crate) unsafe fn start_ialltoallw<S: Element, R: Element>(
        &self,
        (send, from): (Part<S>, &[Block]),
        (recv, to): (Part<R>, &[Block]),
    ) -> Result<RawRequest, Error> {
        blocks::check("ialltoallw", "send", from, send.bytes(), self.size())?;
        blocks::check("ialltoallw", "receive", to, recv.bytes(), self.size())?;
        // SAFETY: - the blocks lie within both buffers, whose elements any bytes make; promised otherwise.
        unsafe { self.raw().ialltoallw_raw(Some((send.from(), from)), recv.to(), to, self.algorithm()) }
    }

    /// In place at the root; elsewhere `buf` is only read.
    ///
    /// # Safety
    /// As above.
    pub(crate) unsafe fn start_ireduce<T: Element>(
        &self,
        buf: Part<T>,
        op: Op<T>,
        root: u32,
    ) -> Result<RawRequest, Error> {
        let (send, recv) = match self.is_root(root) {
            true => (None, buf.to()),
            false => (Some(buf.from()), std::ptr::null_mut()),
        };
        let name = self.algorithm();
        // SAFETY: - promised by the caller; a receive buffer is used at the root only.
        unsafe { self.raw().ireduce_raw(send, recv, buf.len, T::DATA_TYPE, op.raw(), root, name) }
    }

    /// # Safety
    /// As above.
    pub(crate) unsafe fn start_ireduce_scatter<T: Element>(
        &self,
        send: Part<T>,
        recv: Part<T>,
        counts: &[usize],
        op: Op<T>,
    ) -> Result<RawRequest, Error> {
        let whole = counts.iter().try_fold(0usize, |sum, count| sum.checked_add(*count));
        let own = counts.get(self.rank() as usize).copied();
        if whole != Some(send.len) || own != Some(recv.len) || counts.len() != self.size() as usize {
            let what = format!(
                "the send buffer has {} elements and the receive buffer {}: give one count for each of the {} ranks, \
                 {} of them in all, {} for this rank",
                send.len,
                recv.len,
                self.size(),
                send.len,
                recv.len
            );
            return Err(wrong_length("ireduce_scatter", what));
        }
        let (send, recv, name) = (Some(send.from()), recv.to(), self.algorithm());
        // SAFETY: - both buffers are as long as the counts say; promised otherwise.
        unsafe { self.raw().ireduce_scatter_raw(send, recv, counts, T::DATA_TYPE, op.raw(), name) }
    }

    /// # Safety
    /// As above.
    pub(crate) unsafe fn start_ireduce_scatter_block<T: Element>(
        &self,
        send: Part<T>,
        recv: Part<T>,
        op: Op<T>,
    ) -> Result<RawRequest, Error> {
        self.one_for_each("ireduce_scatter_block", ("send", send.len), ("receive", recv.len))?;
        let (send, to, name) = (Some(send.from()), recv.to(), self.algorithm());
        // SAFETY: - `send` has a part of the length of `recv` for each rank; promised otherwise.
        unsafe { self.raw().ireduce_scatter_block_raw(send, to, recv.len, T::DATA_TYPE, op.raw(), name) }
    }

    /// In place.
    ///
    /// # Safety
    /// As above.
    pub(crate) unsafe fn start_iscan<T: Element>(
        &self,
        buf: Part<T>,
        op: Op<T>,
    ) -> Result<RawRequest, Error> {
        // SAFETY: - promised by the caller.
        unsafe { self.raw().iscan_raw(None, buf.to(), buf.len, T::DATA_TYPE, op.raw(), self.algorithm()) }
    }

    /// In place.
    ///
    /// # Safety
    /// As above.
    pub(crate) unsafe fn start_iexscan<T: Element>(
        &self,
        buf: Part<T>,
        op: Op<T>,
    ) -> Result<RawRequest, Error> {
        // SAFETY: - promised by the caller.
        unsafe { self.raw().iexscan_raw(None, buf.to(), buf.len, T::DATA_TYPE, op.raw(), self.algorithm()) }
    }
}
