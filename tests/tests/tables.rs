//! Tables of measured algorithms: the collectives of a world take what theirs says, and ranks that have different ones hear of it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;

use tocsin::{Comm, Config, Op, World};
use tocsin_shm_transport::Segment;
use tocsin_tests as _; // Links the tripwire allocator.
use tocsin_world::bootstrap::InProcess;
use tocsin_world::launcher::{Launch, OnFailure};

/// A directory that is removed with all in it.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let place = std::env::temp_dir().join(format!("tocsin-tables-{name}-{}", std::process::id()));
        std::fs::create_dir(&place).unwrap();
        Place(place)
    }

    /// A table of these rows.
    fn table(&self, name: &str, rows: &[&str]) -> PathBuf {
        let file = self.0.join(name);
        let (machine, end) = (tocsin_world::tune::machine(), rows.len());
        let text = format!("tocsin-tune 2\nmachine {machine}\n{}\nend {end}\n", rows.join("\n"));
        std::fs::write(&file, text).unwrap();
        file
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

fn config(table: &Path) -> Config {
    let mut config = Config::default();
    config.set("TOCSIN_TUNE", table.to_str().unwrap()).unwrap();
    config
}

/// One collective of each kind that the table knows, twice, so that the second may be one that was kept; and a persistent one.
fn work(comm: &Comm) {
    let (me, size) = (u64::from(comm.rank()), u64::from(comm.size()));
    let all = size * (size - 1) / 2;
    for _ in 0..2 {
        assert_eq!(comm.ibcast(vec![me + 5; 4], 1).unwrap().wait().unwrap(), [6; 4]);
        for count in [4, 40, 4000] {
            let sum = comm.iallreduce(vec![me; count], Op::Sum).unwrap().wait().unwrap();
            assert_eq!(sum, vec![all; count]);
        }
    }
    let mut prepared = comm.allreduce_init(vec![0u64; 4], Op::Sum).unwrap();
    for round in 0..3 {
        prepared.buffer_mut().unwrap().fill(me + round);
        prepared.start().unwrap();
        prepared.wait().unwrap();
        assert_eq!(prepared.buffer().unwrap(), [all + round * size; 4]);
    }
    comm.ibarrier().unwrap().wait().unwrap();
}

/// How often a trace names an algorithm of an operation at the end of a collective, which each rank records.
fn times(trace: &str, operation: &str, algorithm: &str) -> usize {
    let (name, by) = (format!("\"name\":\"{operation}\""), format!("\"algorithm\":\"{algorithm}\""));
    trace.lines().filter(|line| line.contains(&name) && line.contains(&by)).count()
}

#[test]
fn a_world_takes_what_its_table_says() {
    let place = Place::new("taken");
    let table = place.table(
        "table",
        &[
            "collective ibcast thread 2 0 chain",
            "collective ibcast thread 4 0 linear",
            "collective iallreduce thread 4 0 reduce-bcast",
            "collective iallreduce thread 4 64 auto",
            "collective iallreduce thread 4 32000 ring",
            // Takes no other number of ranks than a power of two, nor the world's: the library's own.
            "collective iallgather thread 4 0 recursive-doubling",
            // Of another kind of ranks.
            "collective ibarrier process 4 0 linear",
        ],
    );
    let trace = place.0.join("trace.json");
    let mut config = config(&table);
    config.set("TOCSIN_TRACE", trace.to_str().unwrap()).unwrap();
    let ends = World::threads_with(5, &config, |comm| {
        work(&comm);
        let all: Vec<u32> = (0..5).collect();
        assert_eq!(comm.iallgather(vec![comm.rank()], vec![0; 5]).unwrap().wait().unwrap(), all);
        // Of two ranks, and of three: nearest to four.
        let part = comm.split(Some(u32::from(comm.rank() < 2)), 0).unwrap().unwrap();
        work(&part);
    });
    assert_eq!(ends.unwrap().len(), 5);
    let text = std::fs::read_to_string(&trace).unwrap();
    let of = |operation, algorithm| times(&text, operation, algorithm);
    // Five ranks, and three of their part; two of the other, whose chain is pipelined in a table of that version.
    assert_eq!((of("ibcast", "linear"), of("ibcast", "pipelined-chain"), of("ibcast", "shm")), (16, 4, 0));
    // Two of 4 elements and three restarts on each rank; of allreduce nothing near 2 was measured. A split is one, too.
    assert_eq!(of("iallreduce", "reduce-bcast"), 5 * (2 + 3) + 3 * (2 + 3));
    assert_eq!(of("iallreduce", "ring"), 5 * 2 + 3 * 2);
    assert!(of("iallreduce", "shm") >= 8 * 2, "{}", of("iallreduce", "shm"));
    assert_eq!((of("iallgather", "recursive-doubling"), of("iallgather", "shm")), (0, 5));
    assert_eq!((of("ibarrier", "linear"), of("ibarrier", "shm")), (0, 10));
}

/// Communicators of as many ranks take different algorithms where different things lie between their ranks. Whether the machine has these cores or not.
#[test]
fn a_communicator_takes_what_was_measured_where_its_ranks_are() {
    let place = Place::new("where");
    let rows = [
        "collective ibcast thread 2 0 linear",
        "collective ibcast thread 2 0 chain cache",
        "collective ibcast thread 2 0 binomial across",
        "collective ibcast thread 4 0 4-ary",
    ];
    let table = place.table("table", &rows);
    let text = std::fs::read_to_string(&table).unwrap();
    std::fs::write(&table, text.replace("tocsin-tune 2", "tocsin-tune 5")).unwrap();
    // Of each communicator of two of four ranks: within a cache, across nodes, within a node, and where nobody is bound.
    let bound = Some("numa:2 l3:1 core:2");
    for (topology, bind, colour, right) in [
        (bound, "scatter_numa", [0, 0, 1, 1], "chain"),
        (bound, "scatter_numa", [0, 1, 0, 1], "binomial"),
        (Some("l3:2 core:2"), "scatter", [0, 1, 0, 1], "linear"),
        (bound, "none", [0, 1, 0, 1], "linear"),
    ] {
        let trace = place.0.join("trace.json");
        let mut config = config(&table);
        let topology = topology.map_or_else(Vec::new, |text| vec![("TOCSIN_TOPOLOGY", text)]);
        let variables = [("TOCSIN_TRACE", trace.to_str().unwrap()), ("TOCSIN_BIND", bind)];
        for (name, value) in topology.into_iter().chain(variables) {
            config.set(name, value).unwrap();
        }
        let ends = World::threads_with(4, &config, |comm| {
            let pair = comm.split(Some(colour[comm.rank() as usize]), 0).unwrap().unwrap();
            assert_eq!(pair.ibcast(vec![pair.rank() + 5; 4], 1).unwrap().wait().unwrap(), [6; 4]);
            assert_eq!(comm.ibcast(vec![comm.rank() + 5; 4], 1).unwrap().wait().unwrap(), [6; 4]);
        });
        assert_eq!(ends.unwrap().len(), 4);
        let text = std::fs::read_to_string(&trace).unwrap();
        for (algorithm, all) in [("linear", 0), ("chain", 0), ("binomial", 0), ("4-ary", 4)] {
            let all = if algorithm == right { 4 } else { all };
            assert_eq!(times(&text, "ibcast", algorithm), all, "{bind} {colour:?}: {algorithm}");
        }
    }
}

/// Whose table is another one does not join, says why, and is dead to the others, who need not wait for it.
#[test]
fn ranks_with_different_tables_end_with_an_error() {
    let place = Place::new("different");
    let chain = place.table("chain", &["process 1 0 double 0", "collective ibcast thread 2 0 chain"]);
    // What concerns messages alone may differ, and so may other kinds of ranks.
    let alike = place.table(
        "alike",
        &["collective ibcast process 2 0 linear", "# a note", "collective ibcast thread 2 0 chain"],
    );
    std::fs::write(&alike, std::fs::read_to_string(&alike).unwrap().replace("end 3", "end 2")).unwrap();
    let linear = place.table("linear", &["collective ibcast thread 2 0 linear"]);
    let without = place.table("without", &["thread 1 0 double 0"]);
    for (first, second, agree) in [
        (Some(&chain), Some(&alike), true),
        (Some(&chain), Some(&linear), false),
        (Some(&chain), None, false),
        (None, Some(&linear), false),
        (None, Some(&without), true),
    ] {
        let segment = Arc::new(Segment::create(2).unwrap());
        let configs = [first, second].map(|table| table.map_or_else(Config::default, |table| config(table)));
        let (joined, has_joined) = mpsc::channel();
        let run = |rank: u32, before: Box<dyn FnOnce() + Send>, after: Box<dyn FnOnce() + Send>| {
            let (place, config) =
                (InProcess { segment: segment.clone(), rank }, configs[rank as usize].clone());
            std::thread::spawn(move || {
                before();
                let world = tocsin_world::World::join(place, &config).map_err(|e| e.to_string());
                after();
                // SAFETY: - a barrier has no buffers.
                let ended = world?.comm().ibarrier_raw(None).and_then(|mut barrier| barrier.wait());
                ended.map(drop).map_err(|e| e.to_string())
            })
        };
        let zero = run(0, Box::new(|| ()), Box::new(move || joined.send(()).unwrap()));
        let one = run(1, Box::new(move || has_joined.recv().unwrap()), Box::new(|| ()));
        let (zero, one) = (zero.join().unwrap(), one.join().unwrap());
        if agree {
            assert_eq!((zero, one), (Ok(()), Ok(())), "{first:?} {second:?}");
            continue;
        }
        assert!(zero.as_ref().is_err_and(|why| why.contains("rank 1 of the world is dead")), "{zero:?}");
        let why = one.unwrap_err();
        let named = second.map_or("none", |table| table.to_str().unwrap());
        for part in ["rank 1 cannot join", "TOCSIN_TUNE", named, "give all ranks the same table"] {
            assert!(why.contains(part), "{why}");
        }
    }
}

/// The same where ranks are processes that their launcher has given different environments.
#[test]
fn processes_with_different_tables_end_with_an_error() {
    let place = Place::new("processes");
    let one = place.table("one", &["collective iallreduce process 3 0 ring"]);
    let other = place.table("other", &["collective iallreduce process 3 0 shm"]);
    let launch = |two: &Path| {
        let mut launch = Launch::new("/bin/sh", 3);
        let said = place.0.join(two.file_name().unwrap()).with_extension("said");
        // Whoever makes the directory is the only one with the first table.
        let script = "if mkdir \"$1.only\" 2>/dev/null; then t=$2; else t=$3; fi\n\
                      TOCSIN_TUNE=$t exec \"$0\" 60 make-communicators seed=1 rounds=2 2>>\"$1\"";
        let program: PathBuf = env!("CARGO_BIN_EXE_tocsin-rank").into();
        launch.args = vec!["-c".into(), script.into(), program.into()];
        launch.args.extend([said.clone(), one.clone(), two.to_path_buf()].map(Into::into));
        launch.on_failure = OnFailure::Report;
        (launch.run().unwrap(), std::fs::read_to_string(&said).unwrap())
    };
    let (report, said) = launch(&one);
    assert_eq!(report.ranks, [0; 3], "{said}");
    let (report, said) = launch(&other);
    // 3: did not join; no rank hangs until SIGALRM ends it.
    assert!(report.ranks.contains(&3) && !report.ranks.contains(&(128 + libc::SIGALRM)), "{report:?} {said}");
    assert!(report.ranks.iter().all(|status| *status != 0), "{report:?} {said}");
    assert!(said.contains("says other algorithms of collectives"), "{said}");
}
