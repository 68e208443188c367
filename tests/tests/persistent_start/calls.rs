//! Which system calls a thread makes between two points: a seccomp filter tells a second thread of each call, which notes it and lets it go on.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Mutex};

use tocsin_sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// There is no listener yet, and there will be none.
const NONE: i32 = -1;
const FAILED: i32 = -2;

/// The calls of the thread that made this.
pub struct Calls {
    shared: Arc<Shared>,
}

struct Shared {
    /// The filter's descriptor, once there is one.
    listener: AtomicI32,
    noting: AtomicBool,
    noted: Mutex<Vec<libc::c_long>>,
}

impl Calls {
    /// From here on the thread, and those that it starts, make each call by leave of another thread.
    pub fn of_this_thread() -> Calls {
        let shared = Arc::new(Shared {
            listener: AtomicI32::new(NONE),
            noting: AtomicBool::new(false),
            noted: Mutex::default(),
        });
        // SAFETY: no pointers.
        let tid = unsafe { libc::gettid() };
        // Started before the filter: it is to need nobody's leave.
        std::thread::spawn({
            let shared = shared.clone();
            move || {
                let listener = loop {
                    match shared.listener.load(Ordering::Acquire) {
                        NONE => std::thread::yield_now(),
                        // There is no filter.
                        FAILED => return,
                        // SAFETY: it is open, and nobody else's.
                        fd => break unsafe { OwnedFd::from_raw_fd(fd) },
                    }
                };
                answer_all(&listener, tid, &shared);
            }
        });
        let installed = install();
        shared.listener.store(*installed.as_ref().unwrap_or(&FAILED), Ordering::Release);
        if let Err(why) = installed {
            panic!("no filter that tells of system calls: {why}");
        }
        let calls = Calls { shared };
        // SAFETY: no pointers.
        let told = calls.during(|| _ = unsafe { libc::syscall(libc::SYS_getppid) });
        assert_eq!(told, [libc::SYS_getppid], "calls are not told of");
        calls
    }

    /// Numbers of the calls that the thread makes in `f`, in their order.
    pub fn during(&self, f: impl FnOnce()) -> Vec<libc::c_long> {
        self.shared.noting.store(true, Ordering::SeqCst);
        f();
        self.shared.noting.store(false, Ordering::SeqCst);
        std::mem::take(&mut self.shared.noted.lock().unwrap())
    }
}

/// Filters this thread's calls, but for those by which handlers and threads end, and by which threads sleep: whoever is asked for leave does not. The
/// descriptor by which they are told of.
fn install() -> std::io::Result<i32> {
    let load = |offset| libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: offset };
    let answer = |k| libc::sock_filter { code: 0x06, jt: 0, jf: 0, k };
    let equal = |call: libc::c_long, jt, jf| libc::sock_filter { code: 0x15, jt, jf, k: call as u32 };
    let filter = [
        load(0), // the number of the call
        equal(libc::SYS_rt_sigreturn, 5, 0),
        equal(libc::SYS_exit, 4, 0),
        equal(libc::SYS_exit_group, 3, 0),
        equal(libc::SYS_futex, 0, 3),
        load(24), // what is asked of the futex, in the lower half of the second argument
        equal(libc::FUTEX_WAIT.into(), 0, 1),
        answer(libc::SECCOMP_RET_ALLOW),
        answer(libc::SECCOMP_RET_USER_NOTIF),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: the program is live during the call; both calls concern this thread.
    let listener = unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program)
    };
    match i32::try_from(listener) {
        Ok(listener @ 0..) => Ok(listener),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Lets all go on, until there is none that the filter concerns.
fn answer_all(listener: &OwnedFd, tid: i32, shared: &Shared) {
    let fd = listener.as_raw_fd();
    loop {
        let mut asked = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor of ours.
        let polled = unsafe { libc::poll(&raw mut asked, 1, -1) };
        if polled < 0 || asked.revents & libc::POLLIN == 0 {
            if asked.revents & libc::POLLHUP != 0 {
                return;
            }
            continue;
        }
        // SAFETY: plain data, which the kernel wants zeroed.
        let mut call: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: the argument is what this request fills.
        if unsafe { libc::ioctl(fd, libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut call) } != 0 {
            // A signal came first, after which it is made anew.
            continue;
        }
        // It waits for the answer, so that what it is in the middle of stays so.
        if call.pid == tid as u32 && shared.noting.load(Ordering::SeqCst) {
            shared.noted.lock().unwrap().push(call.data.nr.into());
        }
        let mut answer = libc::seccomp_notif_resp {
            id: call.id,
            val: 0,
            error: 0,
            flags: libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
        };
        // SAFETY: the argument is what this request reads. One that is gone by now has no answer.
        unsafe { libc::ioctl(fd, libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut answer) };
    }
}
