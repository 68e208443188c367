//! The lists of a call: what its arguments borrow from the caller.

use super::Block;
use std::borrow::Cow;

/// Where blocks stand, and how long parts are; empty, where a call has no such list.
#[derive(Clone, Default, Debug)]
pub(crate) struct Lists<'a> {
    /// Those of what is received, or the only ones.
    pub(super) recv: Cow<'a, [Block]>,
    /// Those of what is sent.
    pub(super) send: Cow<'a, [Block]>,
    pub(super) counts: Cow<'a, [usize]>,
}

impl PartialEq for Lists<'_> {
    fn eq(&self, other: &Lists) -> bool {
        // Of two empty lists nothing is read: to compare no bytes where none are takes some processors a hundred nanoseconds (a masked load of an unmapped page).
        let counts = self.counts.len() == other.counts.len()
            && (self.counts.is_empty() || self.counts == other.counts);
        counts && self.recv == other.recv && self.send == other.send
    }
}

impl<'a> Lists<'a> {
    /// Takes those of an exchange, and leaves of what is sent the address.
    pub(super) fn exchanged(
        &mut self,
        send: Option<(*const u8, &'a [Block])>,
        recv: &'a [Block],
    ) -> Option<(*const u8, &'static [Block])> {
        self.recv = Cow::Borrowed(recv);
        send.map(|(at, blocks)| {
            self.send = Cow::Borrowed(blocks);
            (at, &[][..])
        })
    }

    /// Copies of them; `None`: there is no memory.
    pub(crate) fn kept(&self) -> Option<Lists<'static>> {
        Some(Lists { recv: kept(&self.recv)?, send: kept(&self.send)?, counts: kept(&self.counts)? })
    }
}

fn kept<T: Copy>(list: &[T]) -> Option<Cow<'static, [T]>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(list.len()).ok()?;
    copy.extend_from_slice(list);
    Some(Cow::Owned(copy))
}
