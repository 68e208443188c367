//! What a system may forbid.

/// Has the system refuse copies between processes to this thread and those that it starts, as the filters of some containers do; and pages into pipes.
pub fn forbid_copies(pages: bool) {
    let load = |offset| libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: offset };
    let answer = |k| libc::sock_filter { code: 0x06, jt: 0, jf: 0, k };
    let equal = |call: libc::c_long, jt, jf| libc::sock_filter { code: 0x15, jt, jf, k: call as u32 };
    let splice = if pages { libc::SYS_vmsplice } else { libc::SYS_process_vm_writev };
    let filter = [
        load(0), // the number of the call
        equal(libc::SYS_process_vm_readv, 2, 0),
        equal(splice, 1, 0),
        equal(libc::SYS_process_vm_writev, 0, 1),
        answer(libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        answer(libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: the program is live during the call; both calls concern this thread and those it starts.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program), 0);
    }
}
