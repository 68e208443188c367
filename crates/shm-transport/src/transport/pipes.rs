//! What an endpoint does with its pipes: makes, fetches, fills them.

use tocsin_transport::{Class, Piped, Urgency};

use super::known::has;
use super::pages::{Lender, Put, To};
use super::peer::Honesty;
use super::{ShmTransport, bit};
use crate::Life;

impl ShmTransport {
    /// Takes in the ends of pipes that were sent to this rank. User threads only.
    pub(super) fn collect_pipes(&mut self) {
        // Mostly there is nothing, which every large post asks.
        let own = self.segment.block(self.rank);
        if !self.mailbox.as_ref().zip(own).is_some_and(|(mailbox, own)| mailbox.has_mail(&own.state)) {
            return;
        }
        let Some(mut mailbox) = self.mailbox.take() else { return };
        let segment = self.segment.clone();
        if let Some(block) = segment.block(self.rank) {
            mailbox.collect(&block.state, |from, reader| {
                // A peer sends one; what it has put in there would be lost with it.
                if from < segment.ranks()
                    && let Some(state) = self.make_peer(from)
                    && state.pages_from.is_none()
                {
                    state.pages_from = Some(reader);
                }
            });
        }
        self.mailbox = Some(mailbox);
    }

    /// Makes the pipe to a peer that has joined. User threads only; cheap once that is done.
    pub(super) fn make_pipe(&mut self, peer: u32) {
        let known = self.peers.get_mut(peer as usize);
        if peer == self.rank || self.mailbox.is_none() || known.is_some_and(|state| !state.pages_to.is_due())
        {
            return;
        }
        let segment = self.segment.clone();
        let (Some(block), Some(mailbox)) = (segment.block(peer), &self.mailbox) else { return };
        let made = match Lender::new(mailbox, self.rank, &block.state) {
            Ok(Some(lender)) => Ok(lender),
            Ok(None) => return,
            Err(error) => Err(error),
        };
        let Some(state) = self.make_peer(peer) else { return };
        match made {
            Ok(lender) => state.pages_to = To::Open(lender),
            Err(error) => state.pages_to.failed(&error),
        }
    }

    /// See [`Transport::put_pages`](tocsin_transport::Transport::put_pages).
    ///
    /// # Safety
    /// As there.
    pub(super) unsafe fn lend(&mut self, peer: u32, from: *const u8, len: usize) -> Piped {
        let gone = matches!(self.segment.life(peer), Life::Finalized | Life::Dead);
        let known = has(&self.known, peer);
        let Some(state) = self.peers.get_mut(peer as usize) else { return Piped::Gone };
        if gone || !known || !state.bulk || state.honesty != Honesty::Honest {
            return Piped::Gone;
        }
        // SAFETY: the pair's Bulk is connected, so that its lane is allocated; the caller vouches for the buffer.
        match unsafe { state.lend(from, len) } {
            Put::Bytes(bytes) => Piped::Bytes(bytes),
            Put::Refused | Put::Never => Piped::Refused,
            Put::Full => {
                state.starved |= bit(Class::Bulk);
                self.starved = true;
                if state.send_lane(Class::Bulk).has_asked() {
                    // As in `try_send`.
                    state.sent = true;
                    state.renewed = true;
                    state.urgency = Urgency::Urgent;
                    self.mark_dirty(peer);
                }
                Piped::Full
            }
            Put::Corrupt => {
                state.close(Honesty::Caught);
                Piped::Gone
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Strategies;
    use crate::transport::tests::world;
    use tocsin_sync::atomic::{Ordering, fence};
    use tocsin_transport::{Header, Recv, SendOutcome, Transport, kind, pages};

    const PIECE: usize = 64 << 10;

    /// Two endpoints, the first of which has a pipe to the second.
    fn pair() -> Vec<ShmTransport> {
        let mut ends = world(2);
        let strategies = Strategies { direct: false, xpmem: false, cma: false, knem: false, pages: true };
        ends[0].set_strategies(strategies);
        ends[0].connect_bulk(1).unwrap();
        ends[0].prepare_pages(1);
        assert!(!ends[0].has_pipe_to(1), "the other has no mailbox yet");
        ends[1].set_strategies(strategies);
        ends[0].prepare_pages(1);
        assert!(ends[0].has_pipe_to(1) && !ends[1].has_pipe_to(0));
        ends[1].begin_pass();
        assert!(!ends[1].has_pipe_from(0), "no handler fetches it");
        ends[1].prepare_shared();
        assert!(ends[1].has_pipe_from(0));
        ends
    }

    /// Puts pages in and tells of them.
    fn put(end: &mut ShmTransport, from: &[u8]) -> Piped {
        // SAFETY: tests keep the bytes until they are read.
        let piped = unsafe { end.put_pages(1, from.as_ptr(), from.len()) };
        if let Piped::Bytes(bytes) = piped {
            let header = Header { kind: kind::DATA, ..Header::default() };
            let payload = pages::pack(bytes as u64);
            // SAFETY: the payload is as long as that.
            let sent = unsafe {
                end.try_send(1, Class::Bulk, Urgency::Urgent, &header, payload.as_ptr(), payload.len())
            };
            assert_eq!(sent, SendOutcome::Sent, "there was room");
        }
        piped
    }

    /// The bytes that the packet at the head of the lane tells of.
    fn told(end: &mut ShmTransport) -> usize {
        let Recv::Packet(packet) = end.peek(0, Class::Bulk) else { panic!("nothing is there") };
        // SAFETY: the packet's payload is readable.
        unsafe { pages::unpack(packet.payload, packet.len) }.unwrap() as usize
    }

    #[test]
    fn who_finds_the_pipe_full_is_rung_when_some_of_it_is_read() {
        let mut ends = pair();
        let message: Vec<u8> = (0..2 << 20).map(|i: u32| (i / 7) as u8).collect();
        let (mut sent, mut read, mut fulls) = (0, 0, 0);
        let mut target = vec![0u8; message.len()];
        while read < message.len() {
            while sent < message.len() {
                let end = message.len().min(sent + PIECE);
                match put(&mut ends[0], &message[sent..end]) {
                    Piped::Bytes(bytes) => sent += bytes,
                    Piped::Full => {
                        fulls += 1;
                        assert!(!ends[0].work_left(), "nothing has been read");
                        break;
                    }
                    other => panic!("{other:?}"),
                }
            }
            let bytes = told(&mut ends[1]);
            // SAFETY: inside the target.
            assert!(unsafe { ends[1].read_pages(0, target[read..].as_mut_ptr(), bytes) });
            read += bytes;
            ends[1].consume(0, Class::Bulk);
            fence(Ordering::SeqCst);
            let rings = ends[1].peers.get_mut(0).unwrap().takes_waiting_sender();
            assert_eq!(rings, sent < message.len(), "after {read} of {sent}");
            if rings {
                assert!(ends[0].work_left());
                ends[0].begin_pass();
            }
        }
        assert!(fulls > 2 && target == message);
    }

    /// Its sender would wait for room for ever.
    #[test]
    fn a_peer_that_takes_packets_and_reads_nothing_gets_no_more() {
        let mut ends = pair();
        let message = vec![1u8; PIECE];
        while matches!(put(&mut ends[0], &message), Piped::Bytes(_)) {}
        while matches!(ends[1].peek(0, Class::Bulk), Recv::Packet(_)) {
            ends[1].consume(0, Class::Bulk);
        }
        assert_eq!(put(&mut ends[0], &message), Piped::Refused);
        assert!(!ends[0].has_pipe_to(1));
        assert_eq!(put(&mut ends[0], &message), Piped::Refused);
    }

    #[test]
    fn nothing_is_put_for_the_gone_nor_where_nothing_was_made() {
        let mut ends = pair();
        // SAFETY: the array is readable and writable.
        let back = unsafe { ends[1].put_pages(0, [1u8; 9].as_ptr(), 9) };
        assert!(matches!(back, Piped::Gone | Piped::Refused), "{back:?}");
        // SAFETY: as above.
        assert!(!unsafe { ends[0].read_pages(1, [0u8; 9].as_mut_ptr(), 9) });
        ends[1].segment().clone().set_life(1, Life::Dead);
        assert_eq!(put(&mut ends[0], &[1; 9]), Piped::Gone);
    }

    /// Runs on a thread that is refused a system call, with this error.
    fn refused<T: Send>(call: libc::c_long, errno: i32, act: impl FnOnce() -> T + Send) -> T {
        let answer = |k| libc::sock_filter { code: 0x06, jt: 0, jf: 0, k };
        let filter = [
            libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 },
            libc::sock_filter { code: 0x15, jt: 0, jf: 1, k: call as u32 },
            answer(libc::SECCOMP_RET_ERRNO | errno as u32),
            answer(libc::SECCOMP_RET_ALLOW),
        ];
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let program =
                    libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
                // SAFETY: the program is live during the call; both calls concern this thread.
                unsafe {
                    assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
                    let mode = libc::SECCOMP_MODE_FILTER;
                    assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program), 0);
                }
                act()
            });
            thread.join().unwrap()
        })
    }

    /// What is refused once is put the next time, unless the system says that it never does it.
    #[test]
    fn one_odd_error_is_no_reason_to_give_up() {
        for (errno, passes) in [
            (libc::ENOMEM, true),
            (libc::EFAULT, true),
            (libc::EINTR, true),
            (libc::EPERM, false),
            (libc::ENOSYS, false),
        ] {
            let mut ends = pair();
            let first = refused(libc::SYS_vmsplice, errno, || put(&mut ends[0], &[1; 100]));
            assert_eq!((first, ends[0].has_pipe_to(1)), (Piped::Refused, passes), "{errno}");
            let again = if passes { Piped::Bytes(100) } else { Piped::Refused };
            assert_eq!(put(&mut ends[0], &[2; 100]), again, "{errno}");
        }
    }

    /// The kernel finds no pages there, which says nothing of other buffers.
    #[test]
    fn a_buffer_that_cannot_be_lent_keeps_no_other_from_it() {
        let mut ends = pair();
        // SAFETY: a new mapping, of which nobody has a reference.
        let page = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_NONE, flags, -1, 0)
        };
        assert_ne!(page, libc::MAP_FAILED);
        // SAFETY: the kernel alone looks there, and finds that it may not.
        assert_eq!(unsafe { ends[0].put_pages(1, page.cast(), 100) }, Piped::Refused);
        assert_eq!(put(&mut ends[0], &[7; 100]), Piped::Bytes(100));
        let mut got = [0u8; 100];
        // SAFETY: the array is writable.
        assert!(unsafe { ends[1].read_pages(0, got.as_mut_ptr(), 100) } && got == [7; 100]);
        // SAFETY: mapped above, and used by nobody.
        unsafe { libc::munmap(page, 4096) };
    }

    /// Who had no descriptors left when it first asked for a pipe gets one later, without an attempt at each message.
    #[test]
    fn a_pipe_that_could_not_be_made_is_made_later() {
        let mut ends = world(2);
        let strategies = Strategies { direct: false, xpmem: false, cma: false, knem: false, pages: true };
        ends.iter_mut().for_each(|end| end.set_strategies(strategies));
        ends[0].connect_bulk(1).unwrap();
        refused(libc::SYS_pipe2, libc::EMFILE, || {
            for _ in 0..40 {
                ends[0].prepare_pages(1);
                assert!(!ends[0].has_pipe_to(1));
            }
        });
        let asked = (0..200).position(|_| {
            ends[0].prepare_pages(1);
            ends[0].has_pipe_to(1)
        });
        assert!(asked.is_some_and(|asked| (1..64).contains(&asked)), "{asked:?}");
        // And never, where it is forbidden.
        let mut ends = world(2);
        ends.iter_mut().for_each(|end| end.set_strategies(strategies));
        ends[0].connect_bulk(1).unwrap();
        refused(libc::SYS_pipe2, libc::EPERM, || ends[0].prepare_pages(1));
        (0..3000).for_each(|_| ends[0].prepare_pages(1));
        assert!(!ends[0].has_pipe_to(1));
    }

    #[test]
    fn without_the_strategy_there_are_no_pipes() {
        let mut ends = world(2);
        ends[0].connect_bulk(1).unwrap();
        ends[0].prepare_pages(1);
        ends[1].prepare_shared();
        assert!(!ends[0].has_pipe_to(1) && !ends[1].has_pipe_from(0));
    }
}
