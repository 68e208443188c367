//! Large messages that both sides post and then wait for. `harness = false`: children of this program are ranks.
#![allow(clippy::unwrap_used)]

use tocsin_tests as _; // Links the tripwire allocator.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tocsin::launcher::launch_self;
use tocsin::{Comm, Error, Op, Snapshot, World};

const CHILDREN: &[tocsin::Child] =
    &[("exchanges", exchanges), ("computes", computes), ("takes_turns", takes_turns)];

/// Longer than what comes in one packet; than what is brought in another; than that.
const LENGTHS: [usize; 4] = [20_000, 64 << 10, 256 << 10, 1 << 20];
/// The longest that are copied twice wherever both wait.
const COMPARED: usize = 512 << 10;
const TIMES: u64 = 20;
/// After so many that a rank has waited for at once, it is expected to again.
const LEARNT: u64 = 8;

fn main() {
    tocsin::child_entry(CHILDREN);
    let tests: [(&str, fn()); 3] = [
        ("what_is_waited_for_at_once_goes_through_the_lanes", || on_backends("exchanges")),
        ("who_is_expected_to_wait_and_computes_holds_nobody_up", || on_backends("computes")),
        ("who_computes_in_turns_is_not_expected_to_wait", || on_backends("takes_turns")),
    ];
    let filter = std::env::args().nth(1).filter(|f| !f.starts_with('-'));
    for (name, test) in tests.iter().filter(|t| filter.as_ref().is_none_or(|f| t.0.contains(f.as_str()))) {
        test();
        println!("test {name} ... ok");
    }
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

/// Both post and wait, in one of three ways.
fn exchange(comm: &Comm, how: usize, out: &[u8], into: &mut [u8]) -> Result<(), Error> {
    let peer = 1 - comm.rank();
    match how {
        0 => comm.sendrecv(out, peer, 3, into, peer, 3).map(drop),
        1 => comm.scope(|scope| {
            let receive = scope.irecv(into, peer, 3)?;
            let send = scope.isend(out, peer, 3)?;
            receive.wait()?;
            send.wait().map(drop)
        }),
        _ => comm.scope(|scope| {
            let send = scope.isend(out, peer, 3)?;
            scope.irecv(into, peer, 3)?.wait()?;
            send.wait().map(drop)
        }),
    }
}

fn in_lanes(before: &Snapshot, world: &World) -> u64 {
    world.stats().since(before).bytes_sent
}

/// Some exchanges go through the lanes both ways, as soon as it is known that both wait; a rank that loses its core now and then is not always seen to. Each arrives whole.
fn exchanges(world: World, _: &[String]) -> Result<(), Error> {
    let comm = world.comm();
    let (rank, peer) = (comm.rank(), 1 - comm.rank());
    for how in 0..3 {
        for len in LENGTHS {
            let mut into = vec![0; len];
            let before = world.stats();
            for tries in 1.. {
                for round in 0..TIMES {
                    let out = filled(len, rank, round);
                    comm.barrier()?;
                    exchange(&comm, how, &out, &mut into)?;
                    assert!(into == filled(len, peer, round), "{how}, {len}, {round}");
                }
                let mut fewest = [in_lanes(&before, &world)];
                comm.allreduce(&mut fewest, Op::Min)?;
                let [fewest] = fewest;
                // Of longer ones the kernel may have been found to be quicker.
                if fewest >= len as u64 || len > COMPARED {
                    break;
                }
                assert!(
                    tries < 200,
                    "{how}, {len}: {fewest} bytes of {tries} x {TIMES} went through the lanes"
                );
            }
        }
    }
    Ok(())
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
                exchange(&comm, 1, &out, &mut into)?;
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

/// Two that compute after every other post are never expected to wait: their large messages are copied once.
fn takes_turns(world: World, _: &[String]) -> Result<(), Error> {
    const LEN: usize = 256 << 10;
    let comm = world.comm();
    let (rank, peer) = (comm.rank(), 1 - comm.rank());
    let (out, mut into) = (filled(LEN, rank, 0), vec![0; LEN]);
    let before = world.stats();
    for round in 0..TIMES {
        comm.barrier()?;
        comm.scope(|scope| {
            let receive = scope.irecv(&mut into, peer, 4)?;
            let send = scope.isend(&out, peer, 4)?;
            if round % 2 == 0 {
                let begun = Instant::now();
                while begun.elapsed() < Duration::from_micros(300) {}
            }
            receive.wait()?;
            send.wait().map(drop)
        })?;
        assert!(into == filled(LEN, peer, 0), "{round}");
        into.fill(0);
    }
    let (sent, all) = (in_lanes(&before, &world), LEN as u64 * TIMES);
    assert!(sent < all / 3, "{sent} of {all} bytes went through the lanes");
    Ok(())
}
