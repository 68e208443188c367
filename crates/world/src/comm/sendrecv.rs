//! A send and a receive in one call, which waits for both.

use super::Comm;
use super::messages::Then;
use super::null::PROC_NULL;
use crate::error::Error;
use crate::request::{RawRequest, Status};
use crate::{ConstBuf, Mode, MutBuf};

impl Comm {
    /// Sends and receives at once, and waits for both; nothing touches the buffers any more then. Where the send fails, a receive that has matched nothing is given up; where the
    /// receive fails, the send is waited for all the same, until it is received or never will be.
    ///
    /// # Errors
    /// Those of either; of both, the send's.
    ///
    /// # Safety
    /// As [`isend_raw`](Self::isend_raw) and [`irecv_raw`](Self::irecv_raw), for the time of the call.
    pub unsafe fn sendrecv_raw(
        &self,
        send: ConstBuf,
        dest: u32,
        send_tag: i32,
        recv: MutBuf,
        source: Option<u32>,
        recv_tag: Option<i32>,
    ) -> Result<Status, Error> {
        self.check_both("sendrecv", [Some(dest), source], [Some(send_tag), recv_tag])?;
        // SAFETY: - the buffer: promised by the caller for the time of the call.
        if unsafe { self.send_at_once(&send, dest, send_tag) } {
            // SAFETY: - as above.
            return unsafe { self.recv_raw(recv, source, recv_tag) };
        }
        // What is announced goes quicker to who has said before what it waits for; what is not is in its lane before that could be said.
        let announced = send.layout.bytes() > self.shared().eager_max;
        // SAFETY: - the buffers: as above, and the requests are complete before any return below.
        let begin_receive = || unsafe { self.irecv_then(recv, source, recv_tag, Then::Waits) };
        let mut receive = if announced { Some(begin_receive()?) } else { None };
        // SAFETY: - as above.
        let mut sending = match unsafe { self.isend_then(send, dest, send_tag, Mode::Standard, Then::Waits) }
        {
            Ok(request) => request,
            Err(error) => {
                receive.iter_mut().for_each(|receive| self.give_up(receive));
                return Err(error);
            }
        };
        let mut receive = match receive {
            Some(receive) => receive,
            // SAFETY: - the buffer: as above.
            None if sending.has_succeeded() => return unsafe { self.recv_raw(recv, source, recv_tag) },
            None => match begin_receive() {
                Ok(receive) => receive,
                Err(error) => return sending.wait().and(Err(error)),
            },
        };
        let Some(status) = receive.wait_unless_failed(&sending) else {
            self.give_up(&mut receive);
            return sending.wait();
        };
        sending.wait().and(status)
    }

    /// All arguments are looked at before anything starts.
    fn check_both(
        &self,
        operation: &'static str,
        ranks: [Option<u32>; 2],
        tags: [Option<i32>; 2],
    ) -> Result<(), Error> {
        let real = ranks.map(|rank| rank.filter(|rank| *rank != PROC_NULL));
        real.iter().zip(tags).try_for_each(|(rank, tag)| self.selection(operation, *rank, tag).map(drop))
    }

    /// Ends a receive that nobody wants any more.
    fn give_up(&self, receive: &mut RawRequest) {
        if !receive.cancel() {
            // It has matched: it ends by itself, or with its sender.
            let _outcome = receive.wait();
        }
    }

    /// [`sendrecv_raw`](Self::sendrecv_raw) from and into one buffer: what is received takes the place of what is sent, of which a copy is made first, on the heap.
    ///
    /// # Errors
    /// As there, and [`Error::System`] without memory for the copy: nothing was sent then.
    ///
    /// # Safety
    /// What `buf` describes is readable and writable, and used by nobody else, during the call.
    pub unsafe fn sendrecv_replace_raw(
        &self,
        buf: MutBuf,
        dest: u32,
        send_tag: i32,
        source: Option<u32>,
        recv_tag: Option<i32>,
    ) -> Result<Status, Error> {
        self.check_both("sendrecv_replace", [Some(dest), source], [Some(send_tag), recv_tag])?;
        // Who may not call gets no memory for it either.
        self.shared().open("sendrecv_replace")?;
        let bytes = if dest == PROC_NULL { 0 } else { buf.layout.bytes() };
        let mut copy: Vec<u8> = Vec::new();
        copy.try_reserve_exact(bytes).map_err(|e| Error::System {
            operation: "sendrecv_replace".into(),
            reason: format!(
                "a copy of the {bytes} bytes that are sent: {e}; send from a buffer of its own, by sendrecv"
            ),
        })?;
        let sent = ConstBuf { base: buf.base.cast_const(), layout: buf.layout };
        // SAFETY: - readable as its layout says: promised by the caller; the copy has room for all of it
        //         - every byte of it is written then.
        unsafe {
            sent.pack(0, bytes, copy.as_mut_ptr());
            copy.set_len(bytes);
        }
        // SAFETY: - the copy lives until the call returns, when nothing touches it any more; the buffer: promised by the caller.
        unsafe {
            let send = ConstBuf::contiguous(copy.as_ptr(), bytes);
            self.sendrecv_raw(send, dest, send_tag, buf, source, recv_tag)
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::{Config, ConstBuf, Error, Layout, Mode, MutBuf, threads_each};

    /// Of what waits for the word of one whose send has failed, the receive is given up.
    #[test]
    fn where_a_send_fails_the_receive_is_given_up() {
        for backend in ["poll", "signal"] {
            let mut config = Config::default();
            config.set("TOCSIN_BACKEND", backend).unwrap();
            let ends = threads_each(3, &config, |comm| {
                let (out, mut into) = (vec![1u8; 1 << 20], [0u8; 8]);
                let word = MutBuf::contiguous(into.as_mut_ptr(), 8);
                // SAFETY: the buffers live until the calls return.
                unsafe {
                    match comm.rank() {
                        0 => {
                            let send = ConstBuf::contiguous(out.as_ptr(), out.len());
                            let end = comm.sendrecv_raw(send, 2, 1, word, Some(1), Some(1)).unwrap_err();
                            comm.send_raw(ConstBuf::contiguous(out.as_ptr(), 8), 1, 2, Mode::Standard)
                                .unwrap();
                            Some(end)
                        }
                        1 => {
                            comm.recv_raw(word, Some(0), Some(2)).unwrap();
                            None
                        }
                        _ => std::panic::resume_unwind(Box::new("dies")),
                    }
                }
            });
            let ends = ends.unwrap();
            assert!(matches!(ends[0], Ok(Some(Error::PeerDead { rank: 2, .. }))), "{:?}", ends[0]);
            assert!(ends[1].is_ok(), "{:?}", ends[1]);
        }
    }

    /// Nothing is copied for who may not send.
    #[test]
    fn who_has_left_has_no_copy_made() {
        let ends = threads_each(1, &Config::default(), |comm| comm.clone());
        let comm = ends.unwrap().remove(0).unwrap();
        let huge = MutBuf::contiguous(std::ptr::dangling_mut(), isize::MAX as usize);
        // SAFETY: the rank has left: nothing looks at the buffer.
        let end = unsafe { comm.sendrecv_replace_raw(huge, 0, 0, None, None) };
        assert!(matches!(end, Err(Error::Finalized { .. })), "{end:?}");
    }

    /// Round a ring; of strided buffers, what lies between blocks stays.
    #[test]
    fn what_is_received_takes_the_place_of_what_is_sent() {
        for len in [0usize, 8, 1000, 20_000, 300_000] {
            let ends = threads_each(3, &Config::default(), |comm| {
                let (me, size) = (comm.rank(), comm.size());
                let (next, before) = ((me + 1) % size, (me + size - 1) % size);
                let mut whole = vec![me as u8; len];
                let mut strided = vec![me as u8; 2 * len];
                let blocks = Layout::Strided { count: len, block: 1, stride: 2 };
                let all = MutBuf::contiguous(whole.as_mut_ptr(), len);
                let odd = MutBuf { base: strided.as_mut_ptr(), layout: blocks };
                // SAFETY: the buffers are this rank's alone, and live until the calls return.
                let ends = unsafe {
                    [all, odd]
                        .map(|buf| comm.sendrecv_replace_raw(buf, next, 4, Some(before), Some(4)).unwrap())
                };
                assert!(ends.iter().all(|end| (end.source, end.tag, end.bytes) == (before, 4, len)));
                assert!(whole.iter().all(|byte| *byte == before as u8));
                assert!(strided.chunks_exact(2).all(|pair| pair == [before as u8, me as u8]));
                // SAFETY: as above.
                let refused = unsafe { comm.sendrecv_replace_raw(all, size, 4, Some(before), Some(4)) };
                assert!(matches!(refused, Err(Error::RankOutOfRange { operation: "sendrecv_replace", .. })));
            });
            assert!(ends.unwrap().iter().all(Result::is_ok));
        }
    }
}
