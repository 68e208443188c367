//! What ranks see of one that leaves while they wait for it.

use std::time::Duration;

use tocsin_world::{Comm, ConstBuf, Error, Mode, MutBuf, RawRequest};

use crate::run::Arguments;

fn send(comm: &Comm, data: &'static [u8], to: u32, tag: i32, mode: Mode) -> RawRequest {
    // SAFETY: nobody frees or writes the bytes.
    let posted = unsafe { comm.isend_raw(ConstBuf::contiguous(data.as_ptr(), data.len()), to, tag, mode) };
    posted.unwrap_or_else(|error| panic!("tag {tag}: {error}"))
}

fn receive(comm: &Comm, bytes: usize, from: Option<u32>, tag: Option<i32>) -> (RawRequest, &'static [u8]) {
    let memory: *mut [u8] = Box::leak(vec![0_u8; bytes].into_boxed_slice());
    // SAFETY: nobody frees the bytes, or looks at them before the request is over.
    let posted = unsafe { comm.irecv_raw(MutBuf::contiguous(memory.cast(), bytes), from, tag) };
    // SAFETY: as above.
    (posted.unwrap_or_else(|error| panic!("{from:?} {tag:?}: {error}")), unsafe { &*memory })
}

/// Of two ranks, 0 leaves, with a message on its way that 1 receives only when it has heard of what it sends itself. `bytes`: of a message. `order`: 0 knows what
/// 1 has sent when it leaves (`sent-before`), or not (`sent-after`). `posted`: whether 0 has a receive for the first message of 1 (`exact`, `any`), or one that
/// nothing meets (`other`), or none (`none`): then 1 sends nothing else.
pub fn one_leaves(comm: &Comm, arguments: &Arguments) {
    let bytes = arguments.number("bytes") as usize;
    let before = arguments.text("order") == "sent-before";
    let posted = arguments.text("posted");
    let data: &'static [u8] = Box::leak((0..bytes).map(|n| n as u8).collect());
    if comm.rank() == 0 {
        drop(send(comm, data, 1, 1, Mode::Standard));
        if before {
            receive(comm, 0, Some(1), Some(9)).0.wait().unwrap_or_else(|error| panic!("{error}"));
        }
        // Nobody waits for it but who sends to it.
        drop(match posted {
            "exact" => Some(receive(comm, bytes, Some(1), Some(5))),
            "any" => Some(receive(comm, bytes, None, None)),
            "other" => Some(receive(comm, bytes, Some(1), Some(77))),
            _ => None,
        });
        return;
    }
    if !before {
        // It has left by then, but for its message.
        std::thread::sleep(Duration::from_millis(30));
    }
    let mut first = send(comm, data, 0, 5, Mode::Standard);
    let mut others = None;
    if posted != "none" {
        let second = send(comm, data, 0, 6, Mode::Standard);
        others = Some((second, send(comm, &data[..8], 0, 7, Mode::Synchronous)));
    }
    if before {
        send(comm, &[], 0, 9, Mode::Standard).wait().unwrap_or_else(|error| panic!("{error}"));
    }
    let never = |request: &mut RawRequest, sent: (i32, u64)| match request.wait() {
        Err(Error::NeverReceived { rank: 0, tag, bytes, others: 0, .. }) => assert_eq!((tag, bytes), sent),
        other => panic!("{sent:?}: {other:?}"),
    };
    match posted {
        "other" | "none" => never(&mut first, (5, bytes as u64)),
        _ => drop(first.wait().unwrap_or_else(|error| panic!("{error}"))),
    }
    if let Some((mut second, mut third)) = others {
        never(&mut second, (6, bytes as u64));
        never(&mut third, (7, 8));
        let memory = Box::leak(vec![1_u8; bytes].into_boxed_slice()).as_mut_ptr();
        // SAFETY: nobody frees or uses the bytes.
        let tree = unsafe { comm.ibcast_raw(memory, bytes, 1, Some("binomial")) };
        let end = tree.and_then(|mut request| request.wait());
        assert!(matches!(end, Err(Error::PeerFinalized { rank: 0, .. })), "{end:?}");
    }
    let (mut request, got) = receive(comm, bytes, Some(0), Some(1));
    request.wait().unwrap_or_else(|error| panic!("{error}"));
    assert!(got == data, "what the rank that leaves has sent");
}
