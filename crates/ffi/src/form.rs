//! How a collective begins: at once, waited for or not, or prepared to be started later.

use std::ffi::c_char;

use tocsin_world::Arguments;

use crate::border::Failure;
use crate::comm::Comm;
use crate::pointer::{algorithm_name, given};
use crate::request::{Request, cleared, start};

/// What becomes of a collective whose arguments fit.
#[derive(Clone, Copy)]
enum Form {
    /// It is started.
    Now,
    /// It is started and waited for. There is no request to give.
    Blocking,
    /// It is prepared, to be started as often as one likes.
    Persistent,
}

/// What every collective is given.
pub(crate) struct Call<'a> {
    form: Form,
    comm: Option<&'a Comm>,
    algorithm: *const c_char,
    request: Option<&'a mut *mut Request>,
}

impl<'a> Call<'a> {
    pub(crate) fn now(
        comm: Option<&'a Comm>,
        algorithm: *const c_char,
        request: Option<&'a mut *mut Request>,
    ) -> Call<'a> {
        Call { form: Form::Now, comm, algorithm, request: cleared(request) }
    }

    pub(crate) fn blocking(comm: Option<&'a Comm>, algorithm: *const c_char) -> Call<'a> {
        Call { form: Form::Blocking, comm, algorithm, request: None }
    }

    pub(crate) fn persistent(
        comm: Option<&'a Comm>,
        algorithm: *const c_char,
        request: Option<&'a mut *mut Request>,
    ) -> Call<'a> {
        Call { form: Form::Persistent, comm, algorithm, request: cleared(request) }
    }

    /// The communicator.
    pub(crate) fn comm(&self) -> Result<&'a Comm, Failure> {
        given(self.comm, "comm")
    }

    /// Begins the operation and gives its request, or waits for it.
    ///
    /// # Safety
    /// The algorithm is NULL or a string. The buffers are as long as the arguments say, apart, and ours alone while the
    /// request is active.
    pub(crate) unsafe fn begin(self, arguments: &Arguments) -> Result<(), Failure> {
        let comm = self.comm()?;
        // SAFETY: - promised by the caller.
        let name = unsafe { algorithm_name(self.algorithm)? };
        if matches!(self.form, Form::Blocking) {
            // SAFETY: - promised by the caller.
            unsafe { comm.raw.start_raw(arguments, name) }?.wait()?;
            return Ok(());
        }
        start(self.request, || {
            Ok(match self.form {
                // SAFETY: - promised by the caller.
                Form::Now | Form::Blocking => unsafe { comm.raw.start_raw(arguments, name) }?,
                Form::Persistent => comm.raw.prepare_raw(arguments, name)?,
            })
        })
    }
}
