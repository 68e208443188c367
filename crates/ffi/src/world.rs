//! The world: init, rank, size, finalize; versions and statistics.

use std::ffi::{CStr, c_char, c_int};
use std::mem::size_of;
use std::thread::ThreadId;

use tocsin_world::Snapshot;

use crate::border::{Failure, guarded};
use crate::comm::Comm;
use crate::pointer::{give, given, place, take};
use crate::status::TOCSIN_ERROR_THREAD;

/// This process's membership of a world.
pub struct World {
    raw: tocsin_world::World,
    thread: ThreadId,
}

impl World {
    /// The world, if the calling thread may use it.
    fn here(&self) -> Result<&tocsin_world::World, Failure> {
        if self.thread == std::thread::current().id() {
            Ok(&self.raw)
        } else {
            Err(Failure::new(
                TOCSIN_ERROR_THREAD,
                "the world belongs to the thread that called tocsin_init: make this call on that one",
            ))
        }
    }
}

/// What the engine of one rank has done so far.
#[repr(C)]
pub struct Statistics {
    /// Times that the rank's computation was interrupted.
    pub interrupts: u64,
    /// Time taken from the computation by interrupts, in nanoseconds.
    pub stolen_ns: u64,
    /// Passes of the engine, by whomever.
    pub passes: u64,
    /// Interrupts that found the engine busy and left the work to its user.
    pub deferrals: u64,
    /// Times that interrupts were held back so that the rank could compute.
    pub throttles: u64,
    /// Packets sent.
    pub packets_sent: u64,
    /// Packets received.
    pub packets_received: u64,
    /// Bytes of payload sent.
    pub bytes_sent: u64,
    /// Bytes of payload received.
    pub bytes_received: u64,
    /// Bytes copied inside library calls.
    pub bytes_copied_user: u64,
    /// Bytes copied inside interrupts.
    pub bytes_copied_handler: u64,
    /// Bytes copied by the progress thread.
    pub bytes_copied_progress: u64,
}

impl From<Snapshot> for Statistics {
    fn from(s: Snapshot) -> Statistics {
        Statistics {
            interrupts: s.interrupts,
            stolen_ns: s.stolen_ns,
            passes: s.passes,
            deferrals: s.deferrals,
            throttles: s.throttles,
            packets_sent: s.packets_sent,
            packets_received: s.packets_received,
            bytes_sent: s.bytes_sent,
            bytes_received: s.bytes_received,
            bytes_copied_user: s.bytes_copied_user,
            bytes_copied_handler: s.bytes_copied_handler,
            bytes_copied_progress: s.bytes_copied_progress,
        }
    }
}

/// The library's version, as in "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn tocsin_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => c"",
        };
    VERSION.as_ptr()
}

/// Joins the world that `tocsin run` made; started alone, makes a world of one rank. From here to tocsin_finalize the
/// calling thread is the one that messages interrupt. Reads the environment variables TOCSIN_*.
/// Errors: ENVIRONMENT, BOOTSTRAP.
#[unsafe(no_mangle)]
pub extern "C" fn tocsin_init(world: Option<&mut *mut World>) -> c_int {
    guarded("tocsin_init", || {
        let world = place(world, "world")?;
        *world = std::ptr::null_mut();
        let raw = tocsin_world::World::from_env()?;
        *world = give(World { raw, thread: std::thread::current().id() });
        Ok(())
    })
}

/// The rank of this process in the world.
/// Errors: THREAD.
#[unsafe(no_mangle)]
pub extern "C" fn tocsin_world_rank(world: Option<&World>, rank: Option<&mut c_int>) -> c_int {
    guarded("tocsin_world_rank", || {
        *place(rank, "rank")? = given(world, "world")?.here()?.rank().cast_signed();
        Ok(())
    })
}

/// The number of ranks of the world.
/// Errors: THREAD.
#[unsafe(no_mangle)]
pub extern "C" fn tocsin_world_size(world: Option<&World>, size: Option<&mut c_int>) -> c_int {
    guarded("tocsin_world_size", || {
        *place(size, "size")? = given(world, "world")?.here()?.size().cast_signed();
        Ok(())
    })
}

/// The communicator of all ranks of the world; to be freed by tocsin_comm_free.
/// Errors: THREAD.
#[unsafe(no_mangle)]
pub extern "C" fn tocsin_world_comm(world: Option<&World>, comm: Option<&mut *mut Comm>) -> c_int {
    guarded("tocsin_world_comm", || {
        let world = given(world, "world")?.here()?;
        *place(comm, "comm")? = give(Comm { raw: world.comm() });
        Ok(())
    })
}

/// Sends what is pending, leaves the world and sets the handle to NULL. Communicators may be freed later. A process that ends
/// without it is dead to the others, whatever its exit status. TOCSIN_ERROR_PEER_FINALIZED when something is left that is sent to ranks that
/// have finalized, or do so, too, and have no receive for it, this one included: this rank has left then. A request that says so already, whoever has it, is not said again.
/// Errors: THREAD, PEER_FINALIZED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_finalize(world: Option<&mut *mut World>) -> c_int {
    guarded("tocsin_finalize", || {
        let handle = place(world, "world")?;
        // SAFETY: - NULL or a live handle: the header's contract.
        if let Some(world) = unsafe { handle.as_ref() } {
            // On another thread the handle stays as it is.
            world.here()?;
        }
        // SAFETY: - NULL or a handle of tocsin_init: the header's contract.
        match unsafe { take(handle) } {
            Some(world) => Ok(world.raw.finalize()?),
            None => Ok(()),
        }
    })
}

/// Writes the statistics of this rank. `bytes` is sizeof(tocsin_statistics) as the program was compiled: a later
/// library may know more of them, and writes no more than that.
/// Errors: none of its own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_comm_statistics(
    comm: Option<&Comm>,
    statistics: *mut Statistics,
    bytes: usize,
) -> c_int {
    guarded("tocsin_comm_statistics", || {
        let comm = given(comm, "comm")?;
        if statistics.is_null() {
            return Err(Failure::null("statistics"));
        }
        let known = Statistics::from(comm.raw.stats());
        let bytes = bytes.min(size_of::<Statistics>());
        // SAFETY: - writable for `bytes`: the header's contract; readable: no more than the size of `known`;
        //         - apart: `known` is ours.
        unsafe {
            std::ptr::copy_nonoverlapping((&raw const known).cast::<u8>(), statistics.cast::<u8>(), bytes)
        };
        Ok(())
    })
}
