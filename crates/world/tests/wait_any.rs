//! Waiting for any of several requests, whoever's they are.
#![allow(missing_docs, clippy::unwrap_used)] // a test

use std::sync::{Mutex, mpsc};
use std::time::Duration;
use tocsin_world::{BackendKind, Config, ConstBuf, Mode, MutBuf, wait_any};

/// A rank of this process has given its request to another one's thread, and does nothing for it.
#[test]
fn a_request_of_another_rank_ends_the_wait() {
    let mut config = Config::default();
    config.backend = Some(BackendKind::Signal);
    let (given, gets) = mpsc::channel();
    let (over, hears) = mpsc::channel();
    let (given, gets) = (Mutex::new(given), Mutex::new(gets));
    let (over, hears) = (Mutex::new(over), Mutex::new(hears));
    let waited = tocsin_world::threads(2, &config, |comm| {
        let (mut room, out) = ([0u8; 16], [1u8; 16]);
        let buffer = MutBuf::contiguous(room.as_mut_ptr(), room.len());
        if comm.rank() == 1 {
            // SAFETY: - the buffer outlives the request: the other rank says when it is over
            let request = unsafe { comm.irecv_raw(buffer, Some(0), Some(7)) }.unwrap();
            given.lock().unwrap().send(request).unwrap();
            let heard = hears.lock().unwrap().recv_timeout(Duration::from_secs(20)).is_ok();
            // SAFETY: - the buffer outlives the call
            unsafe { comm.send_raw(ConstBuf::contiguous(out.as_ptr(), 16), 0, 5, Mode::Standard) }.unwrap();
            return heard;
        }
        let mut foreign = gets.lock().unwrap().recv().unwrap();
        // SAFETY: - the buffer outlives the request
        let mut own = unsafe { comm.irecv_raw(buffer, Some(1), Some(5)) }.unwrap();
        let other = comm.clone();
        let sends = std::thread::spawn(move || {
            // SAFETY: - the buffer outlives the call
            unsafe { other.send_raw(ConstBuf::contiguous(out.as_ptr(), 16), 1, 7, Mode::Standard) }.map(drop)
        });
        assert_eq!(wait_any(&mut [&mut own, &mut foreign]), Some(1));
        over.lock().unwrap().send(()).unwrap();
        sends.join().unwrap().unwrap();
        own.wait().unwrap();
        foreign.wait().is_ok()
    });
    assert_eq!(waited.unwrap(), [true, true]);
}
