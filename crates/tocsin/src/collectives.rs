//! Collectives of typed buffers: what is checked before they start, shared by the owned, the scoped and the persistent
//! forms.

mod blocks;
mod in_place;
mod owned;
mod persistent;
mod scoped;
mod scoped_persistent;

pub use blocks::{Blocks, Strided};

use tocsin_world::{Arguments, Block, Operation, RawRequest};

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

    /// So many elements.
    pub(crate) fn at(base: *mut T, len: usize) -> Part<T> {
        Part { base, len }
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

/// What becomes of a collective whose buffers fit.
#[derive(Clone, Copy)]
pub(crate) enum Form {
    /// It is started.
    Now,
    /// It is prepared, to be started as often as one likes.
    Persistent,
}

impl Form {
    /// What errors call the operation.
    fn name(self, operation: Operation) -> &'static str {
        match self {
            Form::Now => operation.name(),
            Form::Persistent => operation.plain_name(),
        }
    }
}

/// All that follow begin an operation on memory that must stay while it is active, as the raw call of the operation's
/// name asks; what is received is used by nobody else meanwhile. Lengths and places are checked here.
impl Comm {
    /// # Safety
    /// As above. The buffers are as long as the arguments say.
    pub(crate) unsafe fn begin(&self, form: Form, arguments: &Arguments) -> Result<RawRequest, Error> {
        match form {
            // SAFETY: - promised by the caller.
            Form::Now => unsafe { self.raw().start_raw(arguments, self.algorithm()) },
            Form::Persistent => self.raw().prepare_raw(arguments, self.algorithm()),
        }
    }

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
    pub(crate) unsafe fn begin_scatter<T: Element>(
        &self,
        form: Form,
        send: Part<T>,
        recv: Part<T>,
        root: u32,
    ) -> Result<RawRequest, Error> {
        if self.is_root(root) {
            self.one_for_each(form.name(Operation::Iscatter), ("send", send.len), ("receive", recv.len))?;
        }
        // SAFETY: - `send` has a block of the length of `recv` for each rank where it is read; promised otherwise.
        unsafe {
            self.begin(
                form,
                &Arguments::Iscatter { send: send.from(), recv: Some(recv.to()), block: recv.bytes(), root },
            )
        }
    }

    /// # Safety
    /// As above.
    pub(crate) unsafe fn begin_scatterv<T: Element>(
        &self,
        form: Form,
        send: Part<T>,
        blocks: Blocks<'_>,
        recv: Part<T>,
        root: u32,
    ) -> Result<RawRequest, Error> {
        let mut at = Vec::new();
        if self.is_root(root) {
            at = blocks.in_bytes::<T>(form.name(Operation::Iscatterv), "send", send.len, self.size())?;
        }
        let (send, bytes, recv) = (send.from(), recv.bytes(), Some(recv.to()));
        // SAFETY: - the blocks lie within `send` where it is read; promised otherwise.
        unsafe { self.begin(form, &Arguments::Iscatterv { send, blocks: &at, recv, bytes, root }) }
    }

    /// # Safety
    /// As above.
    pub(crate) unsafe fn begin_gather<T: Element>(
        &self,
        form: Form,
        send: Part<T>,
        recv: Part<T>,
        root: u32,
    ) -> Result<RawRequest, Error> {
        if self.is_root(root) {
            self.one_for_each(form.name(Operation::Igather), ("receive", recv.len), ("send", send.len))?;
        }
        // SAFETY: - `recv` has a block of the length of `send` for each rank where it is written; promised otherwise.
        unsafe {
            self.begin(
                form,
                &Arguments::Igather { send: Some(send.from()), recv: recv.to(), block: send.bytes(), root },
            )
        }
    }

    /// # Safety
    /// As above.
    pub(crate) unsafe fn begin_gatherv<T: Element>(
        &self,
        form: Form,
        send: Part<T>,
        recv: Part<T>,
        blocks: Blocks<'_>,
        root: u32,
    ) -> Result<RawRequest, Error> {
        let mut at = Vec::new();
        if self.is_root(root) {
            at = blocks.in_bytes::<T>(form.name(Operation::Igatherv), "receive", recv.len, self.size())?;
        }
        let (bytes, send, recv) = (send.bytes(), Some(send.from()), recv.to());
        // SAFETY: - the blocks lie within `recv` where it is written; promised otherwise.
        unsafe { self.begin(form, &Arguments::Igatherv { send, bytes, recv, blocks: &at, root }) }
    }

    /// # Safety
    /// As above.
    pub(crate) unsafe fn begin_allgather<T: Element>(
        &self,
        form: Form,
        send: Part<T>,
        recv: Part<T>,
    ) -> Result<RawRequest, Error> {
        self.one_for_each(form.name(Operation::Iallgather), ("receive", recv.len), ("send", send.len))?;
        // SAFETY: - `recv` has a block of the length of `send` for each rank; promised otherwise.
        unsafe {
            self.begin(
                form,
                &Arguments::Iallgather { send: Some(send.from()), recv: recv.to(), block: send.bytes() },
            )
        }
    }

    /// # Safety
    /// As above.
    pub(crate) unsafe fn begin_allgatherv<T: Element>(
        &self,
        form: Form,
        send: Part<T>,
        recv: Part<T>,
        blocks: Blocks<'_>,
    ) -> Result<RawRequest, Error> {
        let at = blocks.in_bytes::<T>(form.name(Operation::Iallgatherv), "receive", recv.len, self.size())?;
        let own = at.get(self.rank() as usize).map_or(0, |b| b.bytes);
        if own != send.bytes() {
            let what = format!(
                "the send buffer has {} elements, this rank's block {}: make them equal",
                send.len,
                own / size_of::<T>()
            );
            return Err(wrong_length(form.name(Operation::Iallgatherv), what));
        }
        // SAFETY: - the blocks lie within `recv`, and `send` is as long as this rank's; promised otherwise.
        unsafe {
            self.begin(
                form,
                &Arguments::Iallgatherv { send: Some(send.from()), recv: recv.to(), blocks: &at },
            )
        }
    }

    /// # Safety
    /// As above.
    pub(crate) unsafe fn begin_alltoallv<T: Element>(
        &self,
        form: Form,
        send: (Part<T>, Blocks<'_>),
        recv: (Part<T>, Blocks<'_>),
    ) -> Result<RawRequest, Error> {
        let from = send.1.in_bytes::<T>(form.name(Operation::Ialltoallv), "send", send.0.len, self.size())?;
        let to =
            recv.1.in_bytes::<T>(form.name(Operation::Ialltoallv), "receive", recv.0.len, self.size())?;
        let send = Some((send.0.from(), &from[..]));
        // SAFETY: - the blocks lie within both buffers; promised otherwise.
        unsafe { self.begin(form, &Arguments::Ialltoallv { send, recv: recv.0.to(), blocks: &to }) }
    }

    /// # Safety
    /// As above.
    pub(crate) unsafe fn begin_alltoallw<S: Element, R: Element>(
        &self,
        form: Form,
        (send, from): (Part<S>, &[Block]),
        (recv, to): (Part<R>, &[Block]),
    ) -> Result<RawRequest, Error> {
        blocks::check(form.name(Operation::Ialltoallw), "send", from, send.bytes(), self.size())?;
        blocks::check(form.name(Operation::Ialltoallw), "receive", to, recv.bytes(), self.size())?;
        // SAFETY: - the blocks lie within both buffers, whose elements any bytes make; promised otherwise.
        unsafe {
            self.begin(
                form,
                &Arguments::Ialltoallw { send: Some((send.from(), from)), recv: recv.to(), blocks: to },
            )
        }
    }

    /// In place at the root; elsewhere `buf` is only read.
    ///
    /// # Safety
    /// As above.
    pub(crate) unsafe fn begin_reduce<T: Element>(
        &self,
        form: Form,
        buf: Part<T>,
        op: Op<T>,
        root: u32,
    ) -> Result<RawRequest, Error> {
        let (send, recv) = match self.is_root(root) {
            true => (None, buf.to()),
            false => (Some(buf.from()), std::ptr::null_mut()),
        };
        let (count, data_type, op) = (buf.len, T::DATA_TYPE, op.raw());
        // SAFETY: - promised by the caller; a receive buffer is used at the root only.
        unsafe { self.begin(form, &Arguments::Ireduce { send, recv, count, data_type, op, root }) }
    }

    /// # Safety
    /// As above.
    pub(crate) unsafe fn begin_reduce_scatter<T: Element>(
        &self,
        form: Form,
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
            return Err(wrong_length(form.name(Operation::IreduceScatter), what));
        }
        let (send, recv, data_type, op) = (Some(send.from()), recv.to(), T::DATA_TYPE, op.raw());
        // SAFETY: - both buffers are as long as the counts say; promised otherwise.
        unsafe { self.begin(form, &Arguments::IreduceScatter { send, recv, counts, data_type, op }) }
    }

    /// # Safety
    /// As above.
    pub(crate) unsafe fn begin_reduce_scatter_block<T: Element>(
        &self,
        form: Form,
        send: Part<T>,
        recv: Part<T>,
        op: Op<T>,
    ) -> Result<RawRequest, Error> {
        self.one_for_each(
            form.name(Operation::IreduceScatterBlock),
            ("send", send.len),
            ("receive", recv.len),
        )?;
        let (send, count, recv) = (Some(send.from()), recv.len, recv.to());
        let (data_type, op) = (T::DATA_TYPE, op.raw());
        // SAFETY: - `send` has a part of the length of `recv` for each rank; promised otherwise.
        unsafe { self.begin(form, &Arguments::IreduceScatterBlock { send, recv, count, data_type, op }) }
    }

    /// In place.
    ///
    /// # Safety
    /// As above.
    pub(crate) unsafe fn begin_scan<T: Element>(
        &self,
        form: Form,
        buf: Part<T>,
        op: Op<T>,
    ) -> Result<RawRequest, Error> {
        let (recv, count, data_type, op) = (buf.to(), buf.len, T::DATA_TYPE, op.raw());
        // SAFETY: - promised by the caller.
        unsafe { self.begin(form, &Arguments::Iscan { send: None, recv, count, data_type, op }) }
    }

    /// In place.
    ///
    /// # Safety
    /// As above.
    pub(crate) unsafe fn begin_exscan<T: Element>(
        &self,
        form: Form,
        buf: Part<T>,
        op: Op<T>,
    ) -> Result<RawRequest, Error> {
        let (recv, count, data_type, op) = (buf.to(), buf.len, T::DATA_TYPE, op.raw());
        // SAFETY: - promised by the caller.
        unsafe { self.begin(form, &Arguments::Iexscan { send: None, recv, count, data_type, op }) }
    }

    /// # Safety
    /// As above.
    pub(crate) unsafe fn begin_bcast<T: Element>(
        &self,
        form: Form,
        buf: Part<T>,
        root: u32,
    ) -> Result<RawRequest, Error> {
        // SAFETY: - promised by the caller.
        unsafe { self.begin(form, &Arguments::Ibcast { buffer: buf.to(), bytes: buf.bytes(), root }) }
    }

    /// In place.
    ///
    /// # Safety
    /// As above.
    pub(crate) unsafe fn begin_allreduce<T: Element>(
        &self,
        form: Form,
        buf: Part<T>,
        op: Op<T>,
    ) -> Result<RawRequest, Error> {
        let (recv, count, data_type, op) = (buf.to(), buf.len, T::DATA_TYPE, op.raw());
        // SAFETY: - promised by the caller.
        unsafe { self.begin(form, &Arguments::Iallreduce { send: None, recv, count, data_type, op }) }
    }

    /// # Safety
    /// As above.
    pub(crate) unsafe fn begin_alltoall<T: Element>(
        &self,
        form: Form,
        send: Part<T>,
        recv: Part<T>,
    ) -> Result<RawRequest, Error> {
        let block = self.alltoall_block::<T>(form.name(Operation::Ialltoall), send.len, recv.len)?;
        // SAFETY: - both buffers have a block for each rank; promised otherwise.
        unsafe { self.begin(form, &Arguments::Ialltoall { send: Some(send.from()), recv: recv.to(), block }) }
    }

    /// Bytes per peer of an alltoall, once its lengths are checked.
    fn alltoall_block<T: Element>(
        &self,
        operation: &'static str,
        send: usize,
        recv: usize,
    ) -> Result<usize, Error> {
        if send != recv {
            let what =
                format!("the send buffer has {send} elements, the receive buffer {recv}: make them equal");
            return Err(wrong_length(operation, what));
        }
        Ok(self.divided(operation, send)? * size_of::<T>())
    }

    /// Elements of a block, of a buffer of `len` elements that has one for each rank.
    fn divided(&self, operation: &'static str, len: usize) -> Result<usize, Error> {
        let ranks = self.size() as usize;
        if ranks == 0 || !len.is_multiple_of(ranks) {
            let what =
                format!("{len} elements cannot be divided among {ranks} ranks: use a multiple of {ranks}");
            return Err(wrong_length(operation, what));
        }
        Ok(len / ranks)
    }
}
