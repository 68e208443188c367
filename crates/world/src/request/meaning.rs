//! What an outcome means to who started the operation.

use tocsin_progress::{Code, Outcome};

use super::Status;
use crate::comm::Comm;
use crate::error::Error;

/// What was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Send { tag: i32, bytes: usize },
    Receive { room: usize },
    Collective,
}

/// How to read an outcome: what a request and its callbacks share.
#[derive(Clone, Debug)]
pub(super) struct Meaning {
    pub(super) comm: Comm,
    pub(super) operation: &'static str,
    pub(super) kind: Kind,
}

impl Meaning {
    /// What ends a request whose rank has left the world.
    pub(super) fn over(&self) -> Error {
        let operation = self.operation;
        if tocsin_doorbell::fork::disowned() {
            return crate::rank::of_a_fork(operation);
        }
        match self.comm.shared().segment.aborted() {
            Some(code) => Error::Aborted { operation, code },
            None => Error::Finalized { operation },
        }
    }

    pub(super) fn read(&self, outcome: Outcome) -> Result<Status, Error> {
        if self.kind.leaves_others(&self.comm, outcome) {
            self.comm.revoke();
        }
        self.kind.read(&self.comm, self.operation, outcome)
    }
}

impl Kind {
    /// Whether other ranks may wait for the rest of a collective that has ended like this here: those of a communicator that has no board, by
    /// which they would have heard. It is to be revoked.
    #[inline]
    pub(super) fn leaves_others(self, comm: &Comm, outcome: Outcome) -> bool {
        matches!(outcome.code, Code::Protocol | Code::UserOperatorPanicked)
            && matches!(self, Kind::Collective)
            && !comm.has_board()
    }

    /// What an outcome means to who started the operation.
    #[inline]
    pub(crate) fn read(
        self,
        comm: &Comm,
        operation: &'static str,
        outcome: Outcome,
    ) -> Result<Status, Error> {
        if outcome.code != Code::Ok {
            self.check(comm, operation, outcome)?;
        }
        Ok(self.status(comm, outcome))
    }

    /// What an outcome says that is none of an error.
    #[inline(always)]
    pub(crate) fn status(self, comm: &Comm, outcome: Outcome) -> Status {
        match self {
            Kind::Send { tag, bytes } => Status { source: comm.rank(), tag, bytes },
            Kind::Receive { .. } => Status {
                source: comm.rank_of(outcome.source),
                tag: outcome.tag,
                bytes: outcome.bytes as usize,
            },
            Kind::Collective => Status { source: comm.rank(), tag: 0, bytes: 0 },
        }
    }

    /// The error that an outcome means, if any.
    #[cold]
    fn check(self, comm: &Comm, operation: &'static str, outcome: Outcome) -> Result<(), Error> {
        let room = match self {
            Kind::Receive { room } => room,
            _ => 0,
        };
        crate::outcome::check(operation, outcome, room, |world| comm.rank_of(world))
            .map_err(|error| comm.shared().or_abort(operation, error))
    }
}
