//! Large messages that both sides post and then wait for. `harness = false`: children of this program are ranks.
#![allow(clippy::unwrap_used)]

use tocsin_tests::in_order; // Links the tripwire allocator, too.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tocsin::launcher::launch_self;
use tocsin::{BackendKind, Comm, Error, Op, Snapshot, World};

const CHILDREN: &[tocsin::Child] = &[
    ("exchanges", exchanges),
    ("computes", computes),
    ("takes_turns", takes_turns),
    ("waits_for_another", waits_for_another),
];

/// Longer than what comes in one packet; than what is brought in another; than that.
const LENGTHS: [usize; 4] = [20_000, 64 << 10, 256 << 10, 1 << 20];
/// The longest that are copied twice wherever both wait.
const COMPARED: usize = 512 << 10;
const TIMES: u64 = 20;
/// After so many that a rank has waited for at once, it is expected to again.
const LEARNT: u64 = 8;

fn main() {
    tocsin::child_entry(CHILDREN);
    let tests: [(&str, fn()); 4] = [
        ("what_is_waited_for_at_once_goes_through_the_lanes", || on_backends("exchanges")),
        ("who_is_expected_to_wait_and_computes_holds_nobody_up", || on_backends("computes")),
        ("who_computes_in_turns_is_not_expected_to_wait", || on_backends("takes_turns")),
        ("who_waits_for_another_is_sent_announcements", || on_backends("waits_for_another")),
    ];
    in_order::run(&tests).exit();
}

/// Runs two ranks, with a folder of their own in which they find each other's notes.
fn on_backends(child: &str) {
    for backend in ["signal", "thread"] {
        let folder =
            std::env::temp_dir().join(format!("tocsin-posts-{child}-{backend}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut launch = launch_self(2, child, &[folder.to_str().unwrap()]).unwrap();
        launch.config.set("TOCSIN_BACKEND", backend).unwrap();
        let report = launch.run().unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(report.status == 0, "{child}, {backend}: {report:?}");
    }
}

/// A note, and a wait for it that enters no library.
struct Note(PathBuf);

impl Note {
    fn of(args: &[String], name: &str) -> Note {
        Note(Path::new(&args[0]).join(name))
    }

    fn write(&self) {
        std::fs::write(&self.0, []).unwrap();
    }

    /// Computes until it is there.
    fn compute_until(&self, what: &str) {
        let begun = Instant::now();
        while !self.0.exists() {
            assert!(
                begun.elapsed() < Duration::from_secs(20),
                "{what} stands still while this rank computes"
            );
        }
    }
}

fn filled(len: usize, rank: u32, round: u64) -> Vec<u8> {
    (0..len as u64).map(|i| (i.wrapping_mul(7) ^ i >> 8 ^ round ^ u64::from(rank)) as u8).collect()
}

/// Both post and wait, in one of these ways.
#[derive(Clone, Copy, Debug)]
enum By {
    Sendrecv,
    Posts,
    /// Likewise, and the receive last.
    Late,
    /// Several messages at once.
    Many,
}

const MANY: usize = 4;

fn exchange(comm: &Comm, by: By, out: &[u8], into: &mut [u8]) -> Result<(), Error> {
    let peer = 1 - comm.rank();
    match by {
        By::Sendrecv => comm.sendrecv(out, peer, 3, into, peer, 3).map(drop),
        By::Posts => comm.scope(|scope| {
            let receive = scope.irecv(into, peer, 3)?;
            let send = scope.isend(out, peer, 3)?;
            receive.wait()?;
            send.wait().map(drop)
        }),
        By::Late => comm.scope(|scope| {
            let send = scope.isend(out, peer, 3)?;
            scope.irecv(into, peer, 3)?.wait()?;
            send.wait().map(drop)
        }),
        By::Many => comm.scope(|scope| {
            let part = into.len() / MANY;
            let receives: Vec<_> =
                into.chunks_mut(part).map(|part| scope.irecv(part, peer, 3)).collect::<Result<_, _>>()?;
            let sends: Vec<_> =
                out.chunks(part).map(|part| scope.isend(part, peer, 3)).collect::<Result<_, _>>()?;
            receives.into_iter().try_for_each(|receive| receive.wait().map(drop))?;
            sends.into_iter().try_for_each(|send| send.wait().map(drop))
        }),
    }
}

fn in_lanes(before: &Snapshot, world: &World) -> u64 {
    world.stats().since(before).bytes_sent
}

/// Nearly all goes through the lanes both ways, as soon as it is known that both wait, but for a rank that loses its core now and then, of which that is not seen. Each message arrives whole.
fn exchanges(world: World, _: &[String]) -> Result<(), Error> {
    let comm = world.comm();
    let (rank, peer) = (comm.rank(), 1 - comm.rank());
    // A progress thread sees to some of what comes, as to all else.
    let least = |all: u64| if world.backend() == BackendKind::Thread { all / 3 } else { all / 10 * 9 };
    for by in [By::Sendrecv, By::Posts, By::Late, By::Many] {
        for len in LENGTHS {
            let len = if matches!(by, By::Many) { len * MANY } else { len };
            let mut into = vec![0; len];
            for tries in 1.. {
                let before = world.stats();
                for round in 0..TIMES {
                    let out = filled(len, rank, round);
                    comm.barrier()?;
                    exchange(&comm, by, &out, &mut into)?;
                    assert!(into == filled(len, peer, round), "{by:?}, {len}, {round}");
                }
                let mut fewest = [in_lanes(&before, &world)];
                comm.allreduce(&mut fewest, Op::Min)?;
                let ([fewest], all) = (fewest, len as u64 * TIMES);
                // Of longer ones the kernel may have been found to be quicker, and what is sent before its receive is posted does not know that it is waited for.
                if fewest >= least(all) || len > COMPARED || matches!(by, By::Late) {
                    break;
                }
                assert!(tries < 500, "{by:?}, {len}: {fewest} of {all} bytes went through the lanes");
            }
        }
    }
    Ok(())
}

/// Who waits for one message is sent many others first, by one who is expected to wait for them: they are announced, and nothing is kept of them but that.
fn waits_for_another(world: World, _: &[String]) -> Result<(), Error> {
    const LEN: usize = 64 << 10;
    const OTHERS: usize = 1500;
    let comm = world.comm();
    let (out, mut into) = (filled(LEN, comm.rank(), 0), vec![0; LEN]);
    for _ in 0..LEARNT {
        comm.barrier()?;
        exchange(&comm, By::Posts, &out, &mut into)?;
    }
    if comm.rank() == 0 {
        comm.barrier()?;
        let before = world.stats();
        comm.scope(|scope| {
            let others = (0..OTHERS).map(|_| scope.isend(&out, 1, 6)).collect::<Result<Vec<_>, _>>()?;
            scope.isend(&out, 1, 5)?.wait()?;
            let sent = in_lanes(&before, &world);
            assert!(sent < 64 * LEN as u64, "{sent} bytes before any of them was received");
            others.into_iter().try_for_each(|send| send.wait().map(drop))
        })
    } else {
        let awaited = comm.irecv(vec![0u8; LEN], 0, 5)?;
        comm.barrier()?;
        awaited.wait()?;
        for number in 0..OTHERS {
            comm.recv(&mut into, 0, 6)?;
            assert!(into == filled(LEN, 0, 0), "{number}");
        }
        Ok(())
    }
}

/// One of two that have always waited computes after its posts, until the other says that its own have ended: what it posted is not waited for by anybody
/// but goes on.
fn computes(world: World, args: &[String]) -> Result<(), Error> {
    let comm = world.comm();
    let (rank, peer) = (comm.rank(), 1 - comm.rank());
    for len in LENGTHS {
        for computing in 0..2 {
            let (out, mut into) = (filled(len, rank, 0), vec![0; len]);
            for _ in 0..LEARNT {
                comm.barrier()?;
                exchange(&comm, By::Posts, &out, &mut into)?;
            }
            comm.barrier()?;
            into.fill(0);
            let note = Note::of(args, &format!("{len}-{computing}"));
            comm.scope(|scope| {
                let receive = scope.irecv(&mut into, peer, 4)?;
                let send = scope.isend(&out, peer, 4)?;
                if rank == computing {
                    note.compute_until("the other's exchange");
                    receive.wait()?;
                    return send.wait().map(drop);
                }
                receive.wait()?;
                send.wait()?;
                note.write();
                Ok(())
            })?;
            assert!(into == filled(len, peer, 0), "{len}, {computing}");
        }
    }
    Ok(())
}

/// Two that compute after every other post are never expected to wait: their large messages are copied once. But who calls sendrecv waits.
fn takes_turns(world: World, _: &[String]) -> Result<(), Error> {
    const LEN: usize = 256 << 10;
    let comm = world.comm();
    let (rank, peer) = (comm.rank(), 1 - comm.rank());
    let (out, mut into) = (filled(LEN, rank, 0), vec![0; LEN]);
    let (mut posted, mut called) = (0, 0);
    for round in 0..TIMES {
        for computes in [true, false] {
            comm.barrier()?;
            let before = world.stats();
            comm.scope(|scope| {
                let receive = scope.irecv(&mut into, peer, 4)?;
                let send = scope.isend(&out, peer, 4)?;
                let begun = Instant::now();
                while computes && begun.elapsed() < Duration::from_micros(300) {}
                receive.wait()?;
                send.wait().map(drop)
            })?;
            posted += in_lanes(&before, &world);
            assert!(into == filled(LEN, peer, 0), "{round}");
            into.fill(0);
        }
        comm.barrier()?;
        let before = world.stats();
        exchange(&comm, By::Sendrecv, &out, &mut into)?;
        called += in_lanes(&before, &world);
        assert!(into == filled(LEN, peer, 0), "{round}");
    }
    let all = LEN as u64 * TIMES;
    assert!(posted < 2 * all / 3, "{posted} of {} bytes went through the lanes", 2 * all);
    assert!(called > all / 2, "{called} of {all} bytes went through the lanes");
    Ok(())
}
