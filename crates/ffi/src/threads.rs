//! Ranks as threads of the calling process.

use std::ffi::{c_int, c_void};

use crate::border::{Failure, guarded};
use crate::comm::Comm;
use crate::status::TOCSIN_ERROR_USER;
use tocsin_world::launcher::MAX_RANKS;

/// What one rank runs. The communicator is valid during the call and must not be freed. 0 is success.
pub type Body = Option<unsafe extern "C" fn(comm: *mut Comm, argument: *mut c_void) -> c_int>;

/// The argument goes to every rank's thread.
struct Argument(*mut c_void);

// SAFETY: - the pointer is only handed through; that every rank may use it is the header's contract.
unsafe impl Sync for Argument {}

impl Argument {
    fn get(&self) -> *mut c_void {
        self.0
    }
}

/// Runs `body` on `ranks` threads, each a rank of one world, and waits for them. Returns TOCSIN_ERROR_USER, naming the
/// rank, if a body returned other than 0.
/// Errors: ENVIRONMENT, USER; ARGUMENT also when ranks cannot be placed as the environment variables TOCSIN_* say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_threads_run(ranks: c_int, body: Body, argument: *mut c_void) -> c_int {
    guarded("tocsin_threads_run", || {
        let body = body.ok_or_else(|| Failure::null("body"))?;
        let ranks =
            u32::try_from(ranks).ok().filter(|ranks| (1..=MAX_RANKS).contains(ranks)).ok_or_else(|| {
                Failure::argument(format!("a world of {ranks} ranks cannot be: start 1 to {MAX_RANKS}"))
            })?;
        let config = tocsin_world::Config::from_env()?;
        let argument = Argument(argument);
        let returned = tocsin_world::threads(ranks, &config, |comm| {
            let mut comm = Comm { raw: comm };
            // SAFETY: - usable by every rank's thread with this argument: the header's contract.
            unsafe { body(&raw mut comm, argument.get()) }
        })?;
        match returned.iter().enumerate().find(|(_, status)| **status != 0) {
            Some((rank, status)) => {
                Err(Failure::new(TOCSIN_ERROR_USER, format!("the body of rank {rank} returned {status}")))
            }
            None => Ok(()),
        }
    })
}
