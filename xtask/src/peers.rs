//! `cargo xtask peers`: tocsin beside Open MPI and MPICH on this machine, interleaved: half round trips and overlap.
//!
//! Debian's packages are unpacked in the user's cache, not installed; `peers/peers.c` is the program, compiled against each.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::guest::apt::Archive;
use crate::guest::cache;
use crate::{Outcome, cargo, child};

/// Where Debian has libraries.
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";
/// One run of one program.
const RUN: Duration = Duration::from_secs(300);
const BUILD: Duration = Duration::from_secs(600);
const PINGPONG: [u64; 8] = [8, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];
const OVERLAP: [u64; 4] = [64 << 10, 256 << 10, 1 << 20, 4 << 20];
/// Interleaved rounds: the least that `design/measuring.md` allows.
const ROUNDS: usize = 5;

/// What to measure.
pub struct Options {
    json: bool,
    rounds: usize,
}

impl Options {
    /// # Errors
    /// An unknown word.
    pub fn parse(words: &[&str]) -> Result<Options, String> {
        let mut options = Options { json: false, rounds: ROUNDS };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--json" => options.json = true,
                "--rounds" => {
                    let rounds = words.next().and_then(|n| n.parse().ok()).filter(|n| *n > 0);
                    options.rounds = rounds.ok_or("--rounds wants a number of at least 1")?;
                }
                other => return Err(format!("peers does not know {other}; it knows --rounds N and --json")),
            }
        }
        Ok(options)
    }
}

/// An MPI that was unpacked.
struct Mpi {
    name: &'static str,
    packages: &'static [&'static str],
    include: &'static str,
    /// Folders under [`LIBRARIES`] besides that itself.
    libraries: &'static [&'static str],
    library: &'static str,
    launcher: &'static str,
    words: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
}

const PEERS: [Mpi; 2] = [
    Mpi {
        name: "openmpi",
        packages: &["openmpi-bin", "libopenmpi-dev"],
        include: "usr/lib/x86_64-linux-gnu/openmpi/include",
        libraries: &["openmpi/lib"],
        library: "mpi",
        launcher: "usr/bin/orterun",
        words: &["--bind-to", "core", "--mca", "mca_base_component_show_load_errors", "0", "-n", "2"],
        // It finds its parts by these; then: it says nothing of a compression it lacks; it runs as root, too.
        environment: &[
            ("OPAL_PREFIX", "usr"),
            ("OPAL_LIBDIR", "usr/lib/x86_64-linux-gnu/openmpi/lib"),
            ("OPAL_DATADIR", "usr/share"),
            ("OPAL_PKGDATADIR", "usr/share/openmpi"),
            ("OPAL_SYSCONFDIR", "etc/openmpi"),
            ("PMIX_MCA_pcompress_base_silence_warning", ""),
            ("OMPI_ALLOW_RUN_AS_ROOT", ""),
            ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", ""),
        ],
    },
    Mpi {
        name: "mpich",
        packages: &["mpich", "libmpich-dev"],
        include: "usr/include/x86_64-linux-gnu/mpich",
        libraries: &[],
        library: "mpich",
        launcher: "usr/bin/mpiexec.hydra",
        words: &["-bind-to", "core", "-n", "2"],
        environment: &[],
    },
];

/// An MPI and its program, ready to run.
struct Peer {
    mpi: &'static Mpi,
    root: PathBuf,
    program: PathBuf,
}

impl Peer {
    /// Unpacks and compiles; both are kept.
    fn find(mpi: &'static Mpi, archive: &Archive) -> Result<Peer, String> {
        let key = cache::key(&format!("peer-{}", mpi.name), &[&format!("{:?}", mpi.packages)]);
        let root = cache::once(&key, |filling, _| {
            archive.machine()?.unpack_with_dependencies(mpi.packages, filling)
        })?;
        let program = cargo::target_dir().join(format!("peers-{}", mpi.name));
        let source = cargo::root().join("xtask/src/peers/peers.c");
        let mut words: Vec<String> = ["-O2", "-std=gnu11", "-o"].map(str::to_owned).into();
        words.push(program.display().to_string());
        words.push(source.display().to_string());
        words.push(format!("-I{}", root.join(mpi.include).display()));
        for folder in folders(mpi, &root) {
            words.push(format!("-L{}", folder.display()));
            words.push(format!("-Wl,-rpath-link,{}", folder.display()));
        }
        words.push(format!("-l{}", mpi.library));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        child::output(child::command("cc", &words, BUILD), "cc")?;
        Ok(Peer { mpi, root, program })
    }

    fn command(&self, bench: &str, sizes: &[u64]) -> Command {
        let launcher = self.root.join(self.mpi.launcher).display().to_string();
        let program = self.program.display().to_string();
        let sizes: Vec<String> = sizes.iter().map(u64::to_string).collect();
        let mut words = self.mpi.words.to_vec();
        words.extend([program.as_str(), bench]);
        words.extend(sizes.iter().map(String::as_str));
        let mut command = child::command(&launcher, &words, RUN);
        let path: Vec<String> =
            folders(self.mpi, &self.root).iter().map(|f| f.display().to_string()).collect();
        command.env("LD_LIBRARY_PATH", path.join(":"));
        for (name, place) in self.mpi.environment {
            let value =
                if place.is_empty() { "1".to_owned() } else { self.root.join(place).display().to_string() };
            command.env(name, value);
        }
        command
    }
}

fn folders(mpi: &Mpi, root: &Path) -> Vec<PathBuf> {
    let all = root.join(LIBRARIES);
    let mut folders: Vec<PathBuf> = mpi.libraries.iter().map(|folder| all.join(folder)).collect();
    folders.push(all);
    folders
}

/// The same of tocsin.
fn tocsin(bench: &str, sizes: &[u64]) -> Command {
    let program = cargo::target_dir().join("release/tocsin").display().to_string();
    let sizes: Vec<String> = sizes.iter().map(u64::to_string).collect();
    let sizes = sizes.join(",");
    let mut words = vec!["bench", bench, "--backend", "signal", "--json", "--sizes", &sizes];
    if bench == "overlap" {
        words.extend(["--case", "recv,send,both", "--compute-us", "4x", "--rounds", "200"]);
    }
    child::command(&program, &words, RUN)
}

/// What is compared: bench, case, size; and then by program the values of the rounds.
type Figures = BTreeMap<(String, String, u64, &'static str), BTreeMap<&'static str, Vec<f64>>>;

fn note(figures: &mut Figures, who: &'static str, output: &str) -> Outcome {
    for line in output.lines().filter(|line| line.starts_with('{')) {
        let row: Value =
            serde_json::from_str(line).map_err(|e| format!("{who} printed no JSON: {e}: {line}"))?;
        let size = row.get("size_bytes").and_then(Value::as_u64).unwrap_or(0);
        for key in ["half_rtt_us_p50", "ratio", "null_ratio", "peer_blocked_us", "t_comm_us"] {
            if let Some(value) = row.get(key).and_then(Value::as_f64) {
                let place =
                    (cargo::text(&row, "bench").to_owned(), cargo::text(&row, "case").to_owned(), size, key);
                figures.entry(place).or_default().entry(who).or_default().push(value);
            }
        }
    }
    Ok(())
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// # Errors
/// When tocsin cannot be built or no peer can be had, or a program fails.
pub fn run(options: &Options) -> Outcome {
    let build = ["build", "--release", "--bin", "tocsin"];
    child::output(child::command(&cargo::program(), &build, BUILD), "cargo build")?;
    let archive = Archive::default();
    let mut peers = Vec::new();
    for mpi in &PEERS {
        match Peer::find(mpi, &archive) {
            Ok(peer) => peers.push(peer),
            Err(e) => eprintln!("without {}: {e}", mpi.name),
        }
    }
    if peers.is_empty() {
        return Err("there is no peer to compare with".into());
    }
    let mut figures = Figures::new();
    for round in 1..=options.rounds {
        for (bench, sizes) in [("pingpong", &PINGPONG[..]), ("overlap", &OVERLAP[..])] {
            eprintln!("round {round} of {}: {bench}", options.rounds);
            note(&mut figures, "tocsin", &child::output(tocsin(bench, sizes), "tocsin")?)?;
            for peer in &peers {
                let name = peer.mpi.name;
                note(&mut figures, name, &child::output(peer.command(bench, sizes), name)?)?;
            }
        }
    }
    print(&figures, options.json);
    Ok(())
}

/// A line per figure: medians over the rounds, and tocsin's against the best peer's.
fn print(figures: &Figures, as_json: bool) {
    if !as_json {
        println!(
            "{:9} {:5} {:>8} {:16} {:>10} {:>10} {:>10} {:>8}",
            "bench", "case", "bytes", "figure", "tocsin", PEERS[0].name, PEERS[1].name, "to best"
        );
    }
    for ((bench, case, size, key), by) in figures {
        let of = |who: &str| by.get(who).map_or(f64::NAN, |values| median(values));
        let best = PEERS.iter().map(|mpi| of(mpi.name)).fold(f64::NAN, f64::min);
        let ours = of("tocsin");
        if as_json {
            let mut row = json!({"bench": bench, "size_bytes": size, "figure": key, "tocsin": ours, "ratio_to_best": ours / best});
            if let Some(row) = row.as_object_mut() {
                if !case.is_empty() {
                    row.insert("case".into(), json!(case));
                }
                for mpi in &PEERS {
                    row.insert(mpi.name.into(), json!(of(mpi.name)));
                }
            }
            println!("{row}");
        } else {
            let [first, second] = [of(PEERS[0].name), of(PEERS[1].name)];
            // A ratio's ratio says nothing.
            let to_best = if key.ends_with("ratio") { String::new() } else { format!("{:.2}", ours / best) };
            println!(
                "{bench:9} {case:5} {size:>8} {key:16} {ours:>10.3} {first:>10.3} {second:>10.3} {to_best:>8}"
            );
        }
    }
}
