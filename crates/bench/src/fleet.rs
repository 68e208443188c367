//! Worlds side by side: one per backend, measured in turn in one run, idle ones asleep outside the library.
//!
//! Each world is a set of processes (this program again, started by the library's own launcher) or of threads of this
//! one. The bench is no rank; it gives tasks and gathers results through memory of its own, so that what is measured
//! is never used to measure.

pub(crate) mod block;

use crate::cli::Common;
use crate::compute::Speed;
use crate::error::{Error, doing};
use crate::rank::{self, Member};
use crate::started::{ends_with_this_thread, wait_for_all};
use crate::values::{Backend, Buffers, Kind, Lmt};
use block::{Block, Measured, Task};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::thread::JoinHandle;
use tocsin_topology::{Policy, ProgressPolicy};
use tocsin_world::launcher::Launch;
use tocsin_world::say;
use tocsin_world::{BackendKind, Config, Schedule, TraceFormat};

/// What a world is made of.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// `None`: without the library, the same processes or threads only.
    pub backend: Option<BackendKind>,
    pub kind: Kind,
    pub ranks: u32,
    pub bind: Policy,
    pub lmt: Lmt,
    /// Longest eager message in bytes, if it is not as the environment says; then a table that it names does not count.
    pub eager_max: Option<usize>,
    pub algorithm: Option<String>,
    /// Collectives are prepared once and restarted.
    pub persistent: bool,
    /// What buffers are made of.
    pub buffers: Buffers,
    /// Where progress threads run, if the command line says it.
    pub progress: Option<ProgressPolicy>,
    /// How many cores get no rank, if the command line says it.
    pub reserve: Option<u32>,
    /// How progress threads share a core, if the command line says it.
    pub schedule: Option<Schedule>,
    /// Where the ranks' trace goes (Chrome's), if not where the environment says.
    pub trace: Option<PathBuf>,
}

impl Plan {
    /// The plans a command line means: every backend of every kind, for one number of ranks.
    pub(crate) fn all(common: &Common, ranks: u32, default_backends: &[Backend]) -> Result<Vec<Plan>, Error> {
        let environment = Config::from_env().map_err(|e| Error::Usage(e.to_string()))?;
        let machine = environment.machine().map_err(Error::failed)?;
        let fits = ranks as usize <= machine.cores.len();
        let reserves = common.reserve.unwrap_or(environment.reserve) > 0;
        let bind = common.bind.unwrap_or(if fits || reserves { Policy::Scatter } else { Policy::None });
        if common.schedule.len() > 1 {
            return Err(Error::Usage(
                "--schedule: one at a time here, since threads that look for ever would disturb the others; compare \
                 several by `tocsin bench compare policies`"
                    .into(),
            ));
        }
        let kinds = if common.kind.is_empty() { &[Kind::Process][..] } else { &common.kind };
        let kinds_of_buffers =
            if common.buffers.is_empty() { &[Buffers::Private][..] } else { &common.buffers };
        let backends = if common.backend.is_empty() { default_backends } else { &common.backend };
        let mut plans: Vec<Plan> = Vec::new();
        for &kind in kinds {
            for &backend in backends {
                let plan = Plan {
                    backend: Some(usable(backend)?),
                    kind,
                    ranks,
                    bind,
                    lmt: common.lmt,
                    eager_max: None,
                    algorithm: None,
                    persistent: false,
                    buffers: Buffers::Private,
                    progress: None,
                    reserve: common.reserve,
                    schedule: None,
                    trace: None,
                };
                for placed in plan.placed(&common.progress, &common.schedule)? {
                    for &buffers in kinds_of_buffers {
                        let plan = Plan { buffers, ..placed.clone() };
                        let key = |p: &Plan| (p.backend, p.kind, p.progress, p.schedule, p.buffers);
                        let same = |p: &Plan| key(p) == key(&plan);
                        if !plans.iter().any(same) {
                            plans.push(plan);
                        }
                    }
                }
            }
        }
        if !common.progress.is_empty() && plans.iter().all(|plan| plan.progress.is_none()) {
            say(format_args!("tocsin bench: --progress applies to the backend thread only and is ignored"));
        }
        if !common.schedule.is_empty() && plans.iter().all(|plan| plan.schedule.is_none()) {
            say(format_args!("tocsin bench: --schedule applies to the backend thread only and is ignored"));
        }
        Ok(plans)
    }

    /// This plan with each placement and schedule of progress threads, if it has any.
    fn placed(self, progress: &[ProgressPolicy], schedules: &[Schedule]) -> Result<Vec<Plan>, Error> {
        let threads = self.backend == Some(BackendKind::Thread);
        let progress: Vec<_> = progress.iter().copied().map(Some).filter(|_| threads).collect();
        let schedules: Vec<_> = schedules.iter().copied().map(Some).filter(|_| threads).collect();
        let or_none = |known: usize| if known == 0 { 1 } else { known };
        let mut plans = Vec::new();
        for at in 0..or_none(progress.len()) * or_none(schedules.len()) {
            let (policy, schedule) = (at / or_none(schedules.len()), at % or_none(schedules.len()));
            let (progress, schedule) = (progress.get(policy).copied(), schedules.get(schedule).copied());
            let plan = Plan { progress: progress.flatten(), schedule: schedule.flatten(), ..self.clone() };
            plan.is_placeable()?;
            plans.push(plan);
        }
        Ok(plans)
    }

    /// An error unless its ranks and progress threads can be placed as asked for.
    pub(crate) fn is_placeable(&self) -> Result<(), Error> {
        self.config()?.seats(self.ranks).map(drop).map_err(|e| Error::Usage(e.to_string()))
    }

    /// The name in rows; `none` for a world without the library.
    pub(crate) fn backend_name(&self) -> String {
        self.backend.map_or_else(|| "none".into(), |backend| backend.to_string())
    }

    /// What tells it from other plans of its kind in a plot.
    pub(crate) fn label(&self) -> String {
        let mut label = self.backend_name();
        if let Some(policy) = self.progress {
            label += &format!(", {policy}");
        }
        if let Some(schedule) = self.schedule {
            label += &format!(", {schedule}");
        }
        if self.buffers == Buffers::Shared {
            label += ", shared buffers";
        }
        label
    }

    /// The library's configuration: that of the environment, with what the command line says on top.
    pub(crate) fn config(&self) -> Result<Config, Error> {
        // Who measures anew may have in the environment what is to be replaced.
        let read = |(name, _): &(OsString, OsString)| self.eager_max.is_none() || name != "TOCSIN_TUNE";
        let mut config = Config::from_variables(std::env::vars_os().filter(read))
            .map_err(|e| Error::Usage(e.to_string()))?;
        config.backend = self.backend;
        config.bind = self.bind;
        if let Some(progress) = self.progress {
            config.progress = progress;
        }
        config.reserve = self.reserve.unwrap_or(config.reserve);
        config.schedule = self.schedule.unwrap_or(config.schedule);
        if let Some(trace) = &self.trace {
            (config.trace, config.trace_format) = (Some(trace.clone()), TraceFormat::Chrome);
        }
        config.lmt = self.lmt.of_library();
        config.eager_max = self.eager_max.or(config.eager_max);
        Ok(config)
    }
}

/// The backend that a word on the command line means on this machine.
pub(crate) fn usable(backend: Backend) -> Result<BackendKind, Error> {
    let mut config = Config::default();
    config.backend = kind(backend);
    config.usable_backend().map_err(Error::failed)
}

/// The library's word for a backend; `None` is auto.
pub(crate) fn kind(backend: Backend) -> Option<BackendKind> {
    match backend {
        Backend::Auto => None,
        Backend::Uintr => Some(BackendKind::Uintr),
        Backend::Signal => Some(BackendKind::Signal),
        Backend::Thread => Some(BackendKind::Thread),
        Backend::Poll => Some(BackendKind::Poll),
    }
}

/// A world that waits for tasks.
pub(crate) struct World {
    pub plan: Plan,
    block: Arc<Block>,
    runner: Option<JoinHandle<Result<(), Error>>>,
}

impl World {
    pub(crate) fn start(plan: &Plan) -> Result<World, Error> {
        let block = Arc::new(Block::create(u64::from(plan.ranks))?);
        let (of_runner, shared) = (plan.clone(), Arc::clone(&block));
        let run = move || match (of_runner.backend, of_runner.kind) {
            (Some(_), Kind::Process) => processes(&of_runner, &shared),
            (Some(_), Kind::Thread) => threads(&of_runner, &shared),
            (None, Kind::Process) => plain_processes(&of_runner, &shared),
            (None, Kind::Thread) => plain_threads(&of_runner, &shared),
        };
        let runner = std::thread::Builder::new().name("world".into()).spawn(run);
        let runner =
            Some(runner.map_err(|source| Error::System { what: "starting a world".into(), source })?);
        Ok(World { plan: plan.clone(), block, runner })
    }

    /// Has every rank do the task; what each measured, by rank.
    pub(crate) fn run(&mut self, task: Task) -> Result<Vec<Measured>, Error> {
        self.block.start(task);
        let runner = &self.runner;
        match self.block.finish(|| runner.as_ref().is_some_and(|r| !r.is_finished())) {
            Some(measured) => Ok(measured),
            None => Err(self.why_it_ended()),
        }
    }

    fn why_it_ended(&mut self) -> Error {
        let ended = self.runner.take().map(JoinHandle::join);
        let backend = self.plan.backend_name();
        match ended {
            Some(Ok(Err(error))) => Error::Failed(format!("the world of backend {backend} failed: {error}")),
            _ => Error::Failed(format!("the world of backend {backend} ended in the middle of the run")),
        }
    }

    /// Ends the world.
    pub(crate) fn stop(mut self) -> Result<(), Error> {
        self.run(Task::Quit)?;
        match self.runner.take().map(JoinHandle::join) {
            Some(Ok(ended)) => ended,
            _ => Err(Error::Failed("a world's thread panicked".into())),
        }
    }
}

/// The arguments of a rank process.
fn arguments(plan: &Plan, block: &Block) -> Vec<String> {
    let mut args =
        vec!["rank".into(), "--block".into(), block.path(), "--ranks".into(), plan.ranks.to_string()];
    if let Some(algorithm) = &plan.algorithm {
        args.extend(["--algorithm".into(), algorithm.clone()]);
    }
    if plan.persistent {
        args.push("--persistent".into());
    }
    if plan.buffers == Buffers::Shared {
        args.push("--shared".into());
    }
    args
}

fn program() -> Result<PathBuf, Error> {
    std::env::current_exe().map_err(|source| Error::System { what: "finding this program".into(), source })
}

fn processes(plan: &Plan, block: &Block) -> Result<(), Error> {
    let mut launch = Launch::new(program()?, plan.ranks);
    launch.args = arguments(plan, block).into_iter().map(Into::into).collect();
    launch.config = plan.config()?;
    let report = launch.run().map_err(Error::failed)?;
    match (report.status, report.failed) {
        (0, _) => Ok(()),
        (status, Some(rank)) => Err(Error::Failed(format!("rank {rank} ended with status {status}"))),
        (status, None) => Err(Error::Failed(format!("a rank ended with status {status}"))),
    }
}

fn threads(plan: &Plan, block: &Block) -> Result<(), Error> {
    let serve = |comm: tocsin_world::Comm| {
        let rank = comm.rank() as usize;
        let mut member = Member::new(block, Some(comm), rank, plan.buffers);
        (member.algorithm, member.persistent) = (plan.algorithm.clone(), plan.persistent);
        member.serve();
    };
    // The others wait for it in the bench's own barrier, for ever.
    let failed = |rank, error: &tocsin_world::Error| rank::fail(rank, error);
    let ended = tocsin_world::threads_telling(plan.ranks, &plan.config()?, serve, failed);
    ended.map(drop).map_err(Error::failed)
}

fn plain_processes(plan: &Plan, block: &Block) -> Result<(), Error> {
    let cpus = tocsin_topology::placement(plan.bind, plan.ranks as usize);
    let mut children = Vec::new();
    for (rank, cpu) in cpus.into_iter().enumerate() {
        let mut command = Command::new(program()?);
        command.args(arguments(plan, block)).args(["--plain", &rank.to_string()]);
        if let Some(cpu) = cpu {
            command.args(["--cpu", &cpu.to_string()]);
        }
        let child = ends_with_this_thread(&mut command).spawn();
        children.push(child.map_err(doing(format!("starting rank {rank}")))?);
    }
    wait_for_all(children)
}

fn plain_threads(plan: &Plan, block: &Block) -> Result<(), Error> {
    let cpus = tocsin_topology::placement(plan.bind, plan.ranks as usize);
    std::thread::scope(|scope| {
        for (rank, cpu) in cpus.into_iter().enumerate() {
            let serve = move || {
                // A thread that cannot be bound measures all the same, elsewhere.
                let _elsewhere = cpu.map(tocsin_topology::bind_thread);
                Member::new(block, None, rank, Buffers::Private).serve();
            };
            if let Err(why) = std::thread::Builder::new().spawn_scoped(scope, serve) {
                // As above: those that have started wait for it.
                rank::fail(rank as u32, &format_args!("starting its thread: {why}"));
            }
        }
    });
    Ok(())
}

/// Several worlds, and the speed of computing here.
pub(crate) struct Fleet {
    pub worlds: Vec<World>,
    pub speed: Speed,
}

impl Fleet {
    /// Starts the worlds.
    pub(crate) fn start(plans: &[Plan]) -> Result<Fleet, Error> {
        let speed = Speed::calibrate();
        let worlds = plans.iter().map(World::start).collect::<Result<_, _>>()?;
        Ok(Fleet { worlds, speed })
    }

    /// Rounds in turn over the worlds, each round beginning with another one. `each` gets the world's index, whether
    /// the round counts (it is no warm-up), and the world.
    pub(crate) fn rounds(
        &mut self,
        warmup: u64,
        rounds: u64,
        mut each: impl FnMut(usize, bool, &mut World) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let n = self.worlds.len();
        for round in 0..warmup + rounds {
            for turn in 0..n {
                let at = (turn + round as usize) % n;
                each(at, round >= warmup, &mut self.worlds[at])?;
            }
        }
        Ok(())
    }

    /// Ends all worlds.
    pub(crate) fn stop(self) -> Result<(), Error> {
        self.worlds.into_iter().try_for_each(World::stop)
    }
}
