//! A revocation that a rank cannot send to each member, for want of memory, is heard by the members alone.
#![allow(missing_docs, clippy::unwrap_used)] // a test

use std::sync::Barrier;
use tocsin_world::{BackendKind, Config};

/// From here on this thread is refused memory for lanes.
fn refuse_memory() {
    let answer = |k| libc::sock_filter { code: 0x06, jt: 0, jf: 0, k };
    let filter = [
        // The number of the call; unless it is fallocate, it is allowed.
        libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 },
        libc::sock_filter { code: 0x15, jt: 0, jf: 1, k: libc::SYS_fallocate as u32 },
        answer(libc::SECCOMP_RET_ERRNO | libc::ENOSPC as u32),
        answer(libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: - the program, a local, is copied by the second call
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program), 0);
    }
}

/// Both parts of a split have the same context.
#[test]
fn another_part_of_a_split_is_not_revoked() {
    for backend in [BackendKind::Poll, BackendKind::Signal] {
        let mut config = Config::default();
        config.backend = Some(backend);
        let barrier = Barrier::new(4);
        let revoked = tocsin_world::threads(4, &config, |comm| {
            let half = comm.split(Some(comm.rank() / 2), 0).unwrap().unwrap();
            barrier.wait();
            if comm.rank() == 0 {
                refuse_memory();
                half.revoke();
            }
            barrier.wait();
            half.progress();
            let revoked = half.is_revoked();
            barrier.wait();
            revoked
        });
        assert_eq!(revoked.unwrap(), [true, true, false, false], "{backend:?}");
    }
}
