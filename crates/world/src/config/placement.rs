//! Where the ranks of a world and their progress threads run.

use super::{Bind, Config, ProgressPlacement, Seat};
use crate::BackendKind;
use crate::error::Error;
use crate::tune::Ranks;
use tocsin_nbc::Hierarchy;
use tocsin_shm_transport::cma_refusal;
use tocsin_topology::{Relation, Topology};

impl Config {
    /// The machine as placement sees it: [`Config::topology`], or what the kernel says of this one.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a description that does not parse; a refusal of the kernel.
    pub fn machine(&self) -> Result<Topology, Error> {
        match &self.topology {
            Some(text) => Topology::synthetic(text).map_err(|e| refused(&e)),
            None => Topology::machine().map_err(|e| Error::System {
                operation: "describing this machine".into(),
                reason: e.to_string(),
            }),
        }
    }

    /// Where each of `ranks` ranks and its progress thread run.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when [`Config::topology`] does not parse, or when the backend is `thread` and its
    /// threads cannot be placed as [`Config::progress`] says; when so many cores cannot be kept free as [`Config::reserve`] says.
    pub fn seats(&self, ranks: u32) -> Result<Vec<Seat>, Error> {
        Ok(self.seats_on(ranks)?.0)
    }

    /// [`seats`](Self::seats), and the machine that they are on; `None`: there was no need to look at it, or it cannot be described, so that
    /// nobody is bound.
    pub(crate) fn seats_on(&self, ranks: u32) -> Result<(Vec<Seat>, Option<Topology>), Error> {
        let ranks = ranks as usize;
        let reserved = self.reserve as usize;
        let nowhere = || Ok((vec![Seat::default(); ranks], None));
        if (self.bind, self.progress, reserved) == (Bind::None, ProgressPlacement::None, 0) {
            return nowhere();
        }
        let machine = match self.machine() {
            Ok(machine) => machine,
            Err(error) if self.topology.is_some() => return Err(error),
            // Placement on a machine that cannot be described is a wish, never a reason to fail.
            Err(_) => return nowhere(),
        };
        let seats = match machine.seats_beside(reserved, self.bind, self.progress, ranks) {
            Err(error) if self.backend == Some(BackendKind::Thread) => return Err(refused(&error)),
            // Nobody has a progress thread.
            Err(_) => machine
                .seats_beside(reserved, self.bind, ProgressPlacement::None, ranks)
                .map_err(|e| refused(&e))?,
            Ok(seats) => seats,
        };
        Ok((seats, Some(machine)))
    }

    /// In which parts of the machine the ranks of a world are, of so many with this configuration: [`Comm::hierarchy`](crate::Comm::hierarchy).
    ///
    /// # Errors
    /// As [`seats`](Self::seats).
    pub fn hierarchy(&self, ranks: u32) -> Result<Option<Hierarchy>, Error> {
        let (seats, machine) = self.seats_on(ranks)?;
        let cpus: Vec<Option<usize>> = seats.iter().map(|seat| seat.cpu).collect();
        Ok(machine.and_then(|machine| Hierarchy::new(&machine.localities(&cpus))))
    }

    /// Whether `ranks` ranks of a world of this configuration take turns on cores, as far as this thread can tell: they are bound to
    /// fewer, or it may use fewer.
    ///
    /// # Errors
    /// As [`seats`](Self::seats).
    pub fn shares_cores(&self, ranks: u32) -> Result<bool, Error> {
        Ok(ranks > cores_here(cores_of(&self.seats(ranks)?)))
    }

    /// What [algorithms](crate::algorithms::choose_for) depend on of the machine and of messages between so many ranks of a kind, as far as this process can tell: whether
    /// what a core's own caches do not hold is far from it, and whether the kernel may copy from rank to rank then.
    ///
    /// # Errors
    /// As [`seats`](Self::seats).
    pub fn copies(&self, ranks: Ranks, size: u32) -> Result<(bool, bool), Error> {
        let far = tocsin_transport::copy::has_far_cache();
        let relation = self.relation(&self.seats(size)?);
        let processes = ranks == Ranks::Processes;
        Ok((far, far && processes && self.thresholds(ranks, size, relation).copy_once(cma_refusal)))
    }

    /// What lies between those two of a world's ranks that are the farthest from each other, for its table of measured thresholds;
    /// `None`: they are not all bound, or the table says nothing that depends on it.
    pub fn relation(&self, seats: &[Seat]) -> Option<Relation> {
        self.tune.as_ref().filter(|tuning| tuning.table.knows_relations())?;
        let cpus: Vec<usize> = seats.iter().map(|seat| seat.cpu).collect::<Option<_>>()?;
        self.machine().ok()?.widest(&cpus)
    }
}

/// How many cores ranks have together: so many that they are bound to, or all that this thread may use.
pub(crate) fn cores_here(bound: Option<usize>) -> u32 {
    let cores = bound.or_else(|| std::thread::available_parallelism().ok().map(Into::into)).unwrap_or(1);
    cores.try_into().unwrap_or(u32::MAX)
}

/// How many processors ranks that are bound share; `None`: some are not bound, and may run on all that this process may.
pub(crate) fn cores_of(seats: &[Seat]) -> Option<usize> {
    let mut cpus: Vec<usize> = seats.iter().map(|seat| seat.cpu).collect::<Option<_>>()?;
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus.len())
}

/// Which processor a rank's progress thread starts on, if it is bound: its own, or where it has no placement its rank's.
pub(crate) fn progress_cpu(seat: Seat, placement: ProgressPlacement) -> Option<usize> {
    match placement {
        ProgressPlacement::None | ProgressPlacement::Bind => seat.cpu,
        _ => seat.progress,
    }
}

/// How many progress threads start on the processor of this seat's, itself included; 1 where it is not bound.
pub(crate) fn sharers_of(seats: &[Seat], seat: Seat, placement: ProgressPlacement) -> u32 {
    let cpu = progress_cpu(seat, placement);
    let there = |other: &&Seat| cpu.is_some() && progress_cpu(**other, placement) == cpu;
    seats.iter().filter(there).count().max(1) as u32
}

/// On how many processors progress threads run, where they have places of their own, that no rank is bound to.
pub(crate) fn dedicated_of(seats: &[Seat]) -> u32 {
    let is_a_ranks = |cpu: &usize| seats.iter().any(|seat| seat.cpu == Some(*cpu));
    let mut cpus: Vec<usize> =
        seats.iter().filter_map(|seat| seat.progress.filter(|cpu| !is_a_ranks(cpu))).collect();
    cpus.sort_unstable();
    cpus.dedup();
    cpus.len().try_into().unwrap_or(u32::MAX)
}

fn refused(error: &tocsin_topology::Error) -> Error {
    Error::InvalidArgument { operation: "placing ranks", what: error.to_string() }
}
