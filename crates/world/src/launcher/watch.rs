//! The launcher's thread: starts the ranks, watches them, ends them.

use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::{Duration, Instant};

use tocsin_shm_transport::deaths::Watcher;
use tocsin_shm_transport::{Life, Segment};

use super::child::{self, Shared};
use super::descendants::Mark;
use super::output::Outputs;
use super::{Launch, OnFailure, Order, Report, signals};
use crate::bootstrap::segment_error;
use crate::config::{Seat, cores_of, dedicated_of, sharers_of};
use crate::error::Error;
use crate::memory::segment_for;
use crate::places;
use crate::rank::exit_status;
use crate::trace;

/// How soon an order or a signal is noticed. A rank's end is noticed at once.
const TICK: Duration = Duration::from_millis(20);
/// From SIGKILL to the end of a process: the kernel has memory to free.
const KILLED: Duration = Duration::from_secs(5);

/// A rank's status as the launcher reports it.
fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

struct World<'a> {
    launch: &'a Launch,
    segment: Arc<Segment>,
    watcher: Watcher,
    /// Not waited for by std: the watcher reaps.
    children: Vec<Child>,
    /// What all processes of this world bear.
    mark: Mark,
    /// The launcher's ends of the ranks' sockets: the end of one is the end of its rank, whoever started it.
    lifelines: Vec<UnixStream>,
    outputs: Option<Outputs>,
    /// Nothing of this world is to be left.
    killed: bool,
    report: Report,
    ended: Vec<bool>,
    /// The rank whose death the first failure followed from.
    culprit: Option<u32>,
    /// The deadline was set: it is set once.
    limited: bool,
    /// By whoever sends this process signals.
    asked: signals::Asked,
    /// When survivors are killed.
    deadline: Option<Instant>,
}

pub(super) fn run(
    launch: &Launch,
    started: &Sender<Result<Vec<i32>, Error>>,
    orders: &Receiver<Order>,
) -> Result<Report, Error> {
    let mut world = match World::start(launch) {
        Ok(world) => world,
        Err(error) => {
            // Somebody waits for it: `Launch::spawn`.
            let _heard = started.send(Err(error.clone()));
            return Err(error);
        }
    };
    let pids = world.children.iter().map(|c| c.id() as i32).collect();
    if started.send(Ok(pids)).is_err() {
        world.kill_all();
    }
    let ended = world.watch(orders);
    world.finish();
    ended.map(|()| world.report.clone())
}

impl<'a> World<'a> {
    fn start(launch: &'a Launch) -> Result<World<'a>, Error> {
        let (seats, machine) = launch.config.seats_on(launch.ranks)?;
        let segment =
            segment_for(launch.ranks, launch.config.arena(launch.ranks), &seats).map_err(segment_error)?;
        places::note(&segment, &seats, machine.as_ref());
        let segment = Arc::new(segment);
        let outputs = launch.tag_output.then(Outputs::new);
        let mut world = World {
            launch,
            watcher: Watcher::new(segment.clone()),
            segment,
            children: Vec::new(),
            mark: Mark::new(),
            lifelines: Vec::new(),
            outputs: outputs.transpose().map_err(|e| Error::os("a pipe for the ranks' output", e))?,
            killed: false,
            report: Report {
                status: 0,
                failed: None,
                ranks: vec![0; launch.ranks as usize],
                signals: vec![None; launch.ranks as usize],
                unfinalized: Vec::new(),
                unjoined: Vec::new(),
            },
            ended: vec![false; launch.ranks as usize],
            culprit: None,
            limited: false,
            asked: signals::Asked::default(),
            deadline: None,
        };
        let (cores, relation) = (cores_of(&seats), launch.config.relation(&seats));
        let dedicated = dedicated_of(&seats);
        for rank in 0..launch.ranks {
            let seat = seats.get(rank as usize).copied().unwrap_or_default();
            let sharers = sharers_of(&seats, seat, launch.config.progress);
            if let Err(error) = world.start_rank(rank, seat, Shared { cores, sharers, dedicated, relation }) {
                world.kill_all();
                world.finish();
                return Err(error);
            }
        }
        Ok(world)
    }

    fn start_rank(&mut self, rank: u32, seat: Seat, shared: Shared) -> Result<(), Error> {
        let (mut child, lifeline, socket) =
            child::start(self.launch, &self.segment, &self.mark, rank, seat, shared)?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let watched = self.watcher.watch(rank, child.id()).map_err(segment_error);
        if watched.is_err() {
            // Nobody watches it, so nobody else would end it.
            let _gone = child.kill();
            let _reaped = child.wait();
            return watched;
        }
        self.watcher.hear_from(rank, socket);
        self.children.push(child);
        self.lifelines.push(lifeline);
        let failed = |e| Error::os("starting a thread for the ranks' output", e);
        if let Some((outputs, out)) = self.outputs.as_ref().zip(out) {
            outputs.tag(rank, out, std::io::stdout()).map_err(failed)?;
        }
        if let Some((outputs, err)) = self.outputs.as_ref().zip(err) {
            outputs.tag(rank, err, std::io::stderr()).map_err(failed)?;
        }
        Ok(())
    }

    fn watch(&mut self, orders: &Receiver<Order>) -> Result<(), Error> {
        while self.watcher.running() > 0 {
            let mut patience = TICK;
            if let Some(deadline) = self.deadline {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    self.kill_all();
                    self.deadline = None;
                }
                patience = patience.min(left.max(Duration::from_millis(1)));
            }
            let mut deaths = match self.watcher.poll(Some(patience)) {
                Ok(deaths) => deaths,
                Err(error) => {
                    self.kill_all();
                    return Err(segment_error(error));
                }
            };
            // Of those that ended together, who died comes before those who saw it and left in good order.
            deaths.sort_by_key(|death| death.finalized);
            for death in deaths {
                let status = code(death.status);
                if let Some(ended) = self.ended.get_mut(death.rank as usize) {
                    *ended = true;
                }
                if let Some(place) = self.report.ranks.get_mut(death.rank as usize) {
                    *place = status;
                }
                if let Some(place) = self.report.signals.get_mut(death.rank as usize) {
                    *place = death.status.signal();
                }
                // After an abort nobody finalizes.
                if death.inside && status == 0 && self.segment.aborted().is_none() {
                    self.report.unfinalized.push(death.rank);
                }
                if death.outside && status == 0 && self.segment.aborted().is_none() {
                    self.report.unjoined.push(death.rank);
                }
                self.judge(death.rank, status);
            }
            self.obey(orders);
        }
        Ok(())
    }

    /// What the end of `rank` means for the world.
    fn judge(&mut self, rank: u32, status: i32) {
        let first = self.report.failed.is_none();
        if let Some(code) = self.segment.aborted() {
            // An abort ends every rank, whatever the policy for failures.
            self.limit_survivors();
            // Who exits with its code called it; others may have seen it and ended before.
            let said = exit_status(code);
            if status != 0 && (first || status == said && self.culprit.is_none()) {
                self.culprit = (status == said).then_some(rank);
                self.failed(rank, said);
            }
        } else if status != 0 && (first || self.culprit == Some(rank)) {
            if first {
                self.culprit = self.dying();
            }
            self.failed(rank, status);
            if self.launch.on_failure == OnFailure::Kill {
                self.limit_survivors();
            }
        }
    }

    /// From the first call on, survivors have their grace.
    fn limit_survivors(&mut self) {
        if !self.limited {
            self.limited = true;
            self.deadline = Some(Instant::now() + self.launch.grace);
        }
    }

    /// A rank that has said that it dies (it panics) and has not ended yet: others may end first for its sake.
    fn dying(&self) -> Option<u32> {
        let ended = |rank: &u32| self.ended.get(*rank as usize).copied().unwrap_or(true);
        (0..self.launch.ranks).find(|rank| self.segment.life(*rank) == Life::Dead && !ended(rank))
    }

    fn failed(&mut self, rank: u32, status: i32) {
        self.report.failed = Some(rank);
        self.report.status = status;
    }

    fn obey(&mut self, orders: &Receiver<Order>) {
        loop {
            match orders.try_recv() {
                Ok(Order::Signal(rank, signal)) => drop(self.watcher.kill(rank, signal)),
                Ok(Order::KillAll) => self.kill_all(),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            }
        }
        if self.launch.forward_signals {
            while let Some(sent) = signals::take() {
                for rank in 0..self.launch.ranks {
                    if !sent.to_all {
                        drop(self.watcher.kill(rank, sent.signal));
                    }
                }
                // Ranks may take their time to end, or never do.
                if self.asked.again(sent.signal) {
                    self.limit_survivors();
                }
            }
        }
    }

    fn kill_all(&mut self) {
        self.killed = true;
        for rank in 0..self.launch.ranks {
            // A rank that has just ended is none that could not be killed.
            drop(self.watcher.kill(rank, libc::SIGKILL));
        }
        self.cut_lifelines();
        self.mark.kill();
    }

    fn cut_lifelines(&mut self) {
        for lifeline in self.lifelines.drain(..) {
            // Shut down and not only closed: a fork of this process may have it open, too.
            let _ended = lifeline.shutdown(Shutdown::Both);
        }
    }

    fn finish(&mut self) {
        drop(self.watcher.reap(KILLED));
        // What runs on behind a shell that has ended belongs to a rank that is dead to the others.
        self.cut_lifelines();
        // A deadline was set: the survivors' time was limited, and whatever was left of them has had none.
        if self.killed || self.limited {
            self.mark.end(KILLED);
        }
        if let Some(path) = &self.launch.config.trace {
            trace::join(path, self.launch.config.trace_format, self.launch.ranks);
        }
        if let Some(outputs) = self.outputs.take() {
            outputs.finish(TICK, || {
                self.launch.forward_signals && signals::take().is_some_and(|sent| signals::ends(sent.signal))
            });
        }
    }
}
