//! What needs the device. The emulated machine has it; tests here name it as the one who runs them.

use super::*;

const LEN: usize = 100_000;

/// Where it must work, the environment says so; where there is no device, there is a reason.
#[test]
fn says_why_it_is_not_used() {
    let refusal = knem_refusal();
    if std::env::var_os("TOCSIN_TEST_KNEM").is_some() {
        return assert_eq!(refusal, None);
    }
    if !std::path::Path::new("/dev/knem").exists() {
        assert!(refusal.unwrap().contains("module knem is not loaded"));
    }
}

/// As the kernel's macros make them of the structures.
#[test]
fn calls_have_their_numbers() {
    let calls = [INFO, CREATE, DESTROY, COPY].map(|call| call as u32);
    assert_eq!(calls, [0x4010_4b10, 0xc020_4b21, 0x8008_4b22, 0x8030_4b33]);
}

/// The device says of a buffer that ends before a copy does that all is copied.
#[test]
fn what_is_not_there_is_not_taken_for_copied() {
    for last in [0, 5, ABSENT, !ABSENT] {
        let mut there = [5u8; 100];
        there[99] = last;
        let calls = std::cell::Cell::new(0);
        let copy = |offset: u64, to: *mut u8, len: usize| {
            calls.set(calls.get() + 1);
            let from = there.get(offset as usize..).unwrap_or_default();
            let now = from.len().min(len);
            // SAFETY: as `read_all` promises.
            unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), to, now) };
            true
        };
        for (offset, len) in [(0, 100), (99, 1), (0, 101), (0, 1000), (90, 11), (100, 1), (500, 8), (40, 0)] {
            for was in [0, last, ABSENT] {
                let mut to = vec![was; len];
                calls.set(0);
                // SAFETY: `to` is as long as that.
                let all = unsafe { read_all(offset, to.as_mut_ptr(), len, copy) };
                let is_there = offset as usize + len <= 100;
                assert_eq!(all, is_there, "{offset} {len} {last} {was}");
                assert!(!all || to == there[offset as usize..][..len], "{offset} {len} {last} {was}");
                assert!(calls.get() <= 1 || last == ABSENT || !is_there, "one call is enough");
            }
        }
        // SAFETY: nobody writes there.
        assert!(!unsafe { read_all(0, [0u8; 8].as_mut_ptr(), 8, |_, _, _| false) });
    }
}

fn tell(device: &Device, buffer: &[u8]) -> Result<u64, i32> {
    // SAFETY: buffers of these tests outlive their devices, and are not written.
    unsafe { device.tell(buffer.as_ptr(), buffer.len()) }
}

fn read(device: &Device, key: u64, offset: u64, len: usize) -> Option<Vec<u8>> {
    let mut to = vec![0; len];
    // SAFETY: `to` is as long as that.
    unsafe { device.read(key, offset, to.as_mut_ptr(), len) }.then_some(to)
}

#[test]
#[ignore = "needs the device: cargo xtask guest runs it"]
fn copies_what_it_was_told_of() {
    let from: Vec<u8> = (0..LEN).map(|at| (at * 7 % 251) as u8).collect();
    let (owner, other) = (Device::open().unwrap(), Device::open().unwrap());
    let key = tell(&owner, &from).unwrap();
    for (offset, len) in [(0, LEN), (1, 1), (4095, 2), (4096, 8192), (LEN - 1, 1), (99, 70_001)] {
        let copied = read(&other, key, offset as u64, len).unwrap();
        assert!(copied == from[offset..offset + len], "{offset} {len}");
    }
    for (offset, len) in [(LEN - 1, 2), (0, LEN + 1), (LEN, 1), (LEN - 5000, 9000)] {
        assert!(read(&other, key, offset as u64, len).is_none(), "{offset} {len}");
    }
}

#[test]
#[ignore = "needs the device: cargo xtask guest runs it"]
fn what_it_may_not_is_refused() {
    let (mine, device) = (vec![5u8; LEN], Device::open().unwrap());
    let key = tell(&device, &mine).unwrap();
    for lie in [0, u64::MAX, key ^ 1 << 40] {
        assert!(read(&device, lie, 0, 1).is_none());
    }
    // SAFETY: nothing is there, and the kernel says so.
    assert_eq!(unsafe { device.tell(core::ptr::without_provenance(8), 100) }, Err(libc::EFAULT));
    // SAFETY: as above; it is the kernel's to find out.
    assert!(unsafe { device.copy(key, 0, core::ptr::without_provenance_mut(8), 100) }.is_err());
}

#[test]
#[ignore = "needs the device: cargo xtask guest runs it"]
fn what_is_forgotten_is_not_copied() {
    let (mine, other) = (vec![5u8; LEN], Device::open().unwrap());
    let owner = Device::open().unwrap();
    let (first, second) = (tell(&owner, &mine).unwrap(), tell(&owner, &mine).unwrap());
    other.forget(first);
    assert!(read(&other, first, 0, 1).is_some(), "it is another's");
    owner.forget(first);
    owner.forget(first);
    assert!(read(&other, first, 0, 1).is_none());
    assert!(read(&other, second, 0, 1).is_some());
    drop(owner);
    assert!(read(&other, second, 0, 1).is_none());
}
