//! Communicators.

use std::ffi::{c_char, c_int};

use crate::border::{Failure, guarded};
use crate::pointer::{give, given, place, take};
use tocsin_world::BackendKind;

/// A group of ranks whose messages match only each other's.
pub struct Comm {
    pub(crate) raw: tocsin_world::Comm,
}

/// As the color of tocsin_comm_split: this rank gets no communicator.
pub const TOCSIN_UNDEFINED: c_int = -1;

/// The rank of the caller in the communicator.
/// Errors: none of its own.
#[unsafe(no_mangle)]
pub extern "C" fn tocsin_comm_rank(comm: Option<&Comm>, rank: Option<&mut c_int>) -> c_int {
    guarded("tocsin_comm_rank", || {
        *place(rank, "rank")? = given(comm, "comm")?.raw.rank().cast_signed();
        Ok(())
    })
}

/// The number of ranks of the communicator.
/// Errors: none of its own.
#[unsafe(no_mangle)]
pub extern "C" fn tocsin_comm_size(comm: Option<&Comm>, size: Option<&mut c_int>) -> c_int {
    guarded("tocsin_comm_size", || {
        *place(size, "size")? = given(comm, "comm")?.raw.size().cast_signed();
        Ok(())
    })
}

/// How this rank is notified: "uintr", "signal", "thread" or "poll"; "" for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn tocsin_comm_backend(comm: Option<&Comm>) -> *const c_char {
    let name = match comm.map(|comm| comm.raw.backend()) {
        Some(BackendKind::Uintr) => c"uintr",
        Some(BackendKind::Signal) => c"signal",
        Some(BackendKind::Thread) => c"thread",
        Some(BackendKind::Poll) => c"poll",
        None => c"",
    };
    name.as_ptr()
}

/// A communicator of the same ranks with messages of its own. All ranks call it; it waits for them.
/// Errors: those that a collective ends with (tocsin_wait); ARGUMENT also when all communicators that there can be were made.
#[unsafe(no_mangle)]
pub extern "C" fn tocsin_comm_dup(comm: Option<&Comm>, duplicate: Option<&mut *mut Comm>) -> c_int {
    guarded("tocsin_comm_dup", || {
        let comm = given(comm, "comm")?;
        let duplicate = place(duplicate, "duplicate")?;
        *duplicate = std::ptr::null_mut();
        *duplicate = give(Comm { raw: comm.raw.dup()? });
        Ok(())
    })
}

/// A communicator of the ranks that pass the same color, ordered by key, then by rank. With the color TOCSIN_UNDEFINED
/// `part` becomes NULL. All ranks call it; it waits for them.
/// Errors: as tocsin_comm_dup.
#[unsafe(no_mangle)]
pub extern "C" fn tocsin_comm_split(
    comm: Option<&Comm>,
    color: c_int,
    key: c_int,
    part: Option<&mut *mut Comm>,
) -> c_int {
    guarded("tocsin_comm_split", || {
        let comm = given(comm, "comm")?;
        let part = place(part, "part")?;
        *part = std::ptr::null_mut();
        let color = match color {
            TOCSIN_UNDEFINED => None,
            _ => Some(u32::try_from(color).map_err(|_| {
                Failure::argument(format!(
                    "color {color} is negative: use one from 0 on, or TOCSIN_UNDEFINED to get no communicator"
                ))
            })?),
        };
        if let Some(raw) = comm.raw.split(color, key)? {
            *part = give(Comm { raw });
        }
        Ok(())
    })
}

/// Makes every pending and later operation of the communicator fail, on all its ranks.
/// Errors: none of its own.
#[unsafe(no_mangle)]
pub extern "C" fn tocsin_comm_revoke(comm: Option<&Comm>) -> c_int {
    guarded("tocsin_comm_revoke", || {
        given(comm, "comm")?.raw.revoke();
        Ok(())
    })
}

/// Makes progress once. Never needed where messages interrupt; programs for the backend "poll" may want it. Who calls it in vain again and again, on a core that ranks share, gives that away, as in
/// tocsin_test.
/// Errors: none of its own.
#[unsafe(no_mangle)]
pub extern "C" fn tocsin_progress(comm: Option<&Comm>) -> c_int {
    guarded("tocsin_progress", || {
        given(comm, "comm")?.raw.progress();
        Ok(())
    })
}

/// Ends every rank of the world; `tocsin run` returns the low eight bits of `code`, or 1 where they are 0. In a child of fork() it ends that child
/// alone. Returns only if comm is NULL.
/// Errors: none of its own.
#[unsafe(no_mangle)]
pub extern "C" fn tocsin_abort(comm: Option<&Comm>, code: c_int) -> c_int {
    guarded("tocsin_abort", || given(comm, "comm")?.raw.abort(code))
}

/// Frees the handle and sets it to NULL. Requests that it started go on.
/// Errors: none of its own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_comm_free(comm: Option<&mut *mut Comm>) -> c_int {
    guarded("tocsin_comm_free", || {
        // SAFETY: - NULL or a live handle: the header's contract.
        drop(unsafe { take(place(comm, "comm")?) });
        Ok(())
    })
}
