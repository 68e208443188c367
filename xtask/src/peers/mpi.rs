//! The peers: where each comes from, how it is run.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::BUILD;
use super::experiments::{Experiment, is_crowded, on_two_cores};
use super::intel;
use super::report::Missing;
use crate::guest::apt::Archive;
use crate::guest::cache;
use crate::{cargo, child};

/// Where a peer comes from.
#[derive(Debug)]
pub enum Origin {
    /// Debian's packages.
    Debian(&'static [&'static str]),
    /// Intel's, from the Python package index.
    Intel,
}

/// An MPI.
pub struct Mpi {
    pub name: &'static str,
    origin: Origin,
    include: &'static str,
    /// Folders of libraries, the MPI's own first.
    libraries: &'static [&'static str],
    /// For the linker.
    library: &'static str,
    launcher: &'static str,
    /// Words for two ranks, each on its core.
    apart: &'static [&'static str],
    /// Words for more ranks than cores, bound to none.
    crowded: &'static [&'static str],
    /// Variables whose value is a place under its root.
    places: &'static [(&'static str, &'static str)],
    variables: &'static [(&'static str, &'static str)],
    /// How a rank waits when there are more ranks than cores.
    pub waits: &'static str,
}

/// Debian's folder of libraries.
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";

pub const PEERS: [Mpi; 3] = [
    Mpi {
        name: "openmpi",
        origin: Origin::Debian(&["openmpi-bin", "libopenmpi-dev"]),
        include: "usr/lib/x86_64-linux-gnu/openmpi/include",
        libraries: &["usr/lib/x86_64-linux-gnu/openmpi/lib", LIBRARIES],
        library: "-lmpi",
        launcher: "usr/bin/orterun",
        apart: &["--bind-to", "core", "--mca", "mca_base_component_show_load_errors", "0"],
        crowded: &[
            "--oversubscribe",
            "--bind-to",
            "none",
            "--mca",
            "mca_base_component_show_load_errors",
            "0",
        ],
        // It finds its parts by these.
        places: &[
            ("OPAL_PREFIX", "usr"),
            ("OPAL_LIBDIR", "usr/lib/x86_64-linux-gnu/openmpi/lib"),
            ("OPAL_DATADIR", "usr/share"),
            ("OPAL_PKGDATADIR", "usr/share/openmpi"),
            ("OPAL_SYSCONFDIR", "etc/openmpi"),
        ],
        // It says nothing of a compression it lacks; it runs as root, too.
        variables: &[
            ("PMIX_MCA_pcompress_base_silence_warning", "1"),
            ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
            ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
        ],
        waits: "yields its core between looks: with --oversubscribe it sets mpi_yield_when_idle by itself",
    },
    Mpi {
        name: "mpich",
        origin: Origin::Debian(&["mpich", "libmpich-dev"]),
        include: "usr/include/x86_64-linux-gnu/mpich",
        libraries: &[LIBRARIES],
        library: "-lmpich",
        launcher: "usr/bin/mpiexec.hydra",
        apart: &["-bind-to", "core"],
        crowded: &["-bind-to", "none"],
        places: &[],
        variables: &[],
        waits: "keeps its core busy (ch4) until the kernel takes it away: a time slice per message that waits",
    },
    Mpi {
        name: "intelmpi",
        origin: Origin::Intel,
        include: intel::INCLUDE,
        libraries: &[intel::LIBRARIES],
        library: "-l:libmpi.so.12",
        launcher: intel::LAUNCHER,
        apart: &[],
        crowded: &["-genv", "I_MPI_PIN", "0"],
        places: &[("I_MPI_ROOT", intel::ROOT)],
        // Shared memory needs no libfabric.
        variables: &[("I_MPI_FABRICS", "shm")],
        waits: "spins, then yields its core between looks",
    },
];

/// A program that is compiled against each peer: `peers/NAME.c`.
#[derive(Debug, PartialEq)]
pub struct Source {
    pub name: &'static str,
    pub flags: &'static [&'static str],
}

/// An MPI and its program, ready to run.
pub struct Peer {
    pub mpi: &'static Mpi,
    root: PathBuf,
    program: PathBuf,
}

impl Peer {
    /// Unpacks and compiles; both are kept.
    ///
    /// # Errors
    /// When it cannot be had, or the program does not compile.
    pub fn find(mpi: &'static Mpi, archive: &Archive, source: &Source) -> Result<Peer, String> {
        let root = match mpi.origin {
            Origin::Debian(packages) => {
                let key = cache::key(&format!("peer-{}", mpi.name), &[&format!("{packages:?}")]);
                cache::once(&key, |filling| archive.machine()?.unpack_with_dependencies(packages, filling))?
            }
            Origin::Intel => intel::unpacked(mpi.name)?,
        };
        let program = cargo::target_dir().join(format!("{}-{}", source.name, mpi.name));
        let file = cargo::root().join(format!("xtask/src/peers/{}.c", source.name));
        let mut words: Vec<String> = source.flags.iter().map(|flag| (*flag).to_owned()).collect();
        // MPICH declares that statuses are written wherever MPI_STATUSES_IGNORE points.
        words.extend(["-std=gnu11", "-Wno-stringop-overflow", "-o"].map(str::to_owned));
        words.push(program.display().to_string());
        words.push(file.display().to_string());
        words.push(format!("-I{}", root.join(mpi.include).display()));
        for folder in folders(mpi, &root) {
            words.push(format!("-L{folder}"));
            words.push(format!("-Wl,-rpath-link,{folder}"));
        }
        words.push(mpi.library.to_owned());
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        child::output(child::command("cc", &words, BUILD), "cc")?;
        Ok(Peer { mpi, root, program })
    }

    /// Its side of an experiment.
    pub fn command(&self, experiment: &Experiment) -> Command {
        let sizes = experiment.size_words();
        let words: Vec<&str> =
            std::iter::once(experiment.of_peers()).chain(sizes.iter().map(String::as_str)).collect();
        self.run(experiment.ranks, &words)
    }

    /// The program with these words, on so many ranks.
    pub fn run(&self, ranks: u32, words: &[&str]) -> Command {
        let launcher = self.root.join(self.mpi.launcher).display().to_string();
        let program = self.program.display().to_string();
        let number = ranks.to_string();
        let mut all = if is_crowded(ranks) { self.mpi.crowded } else { self.mpi.apart }.to_vec();
        all.extend(["-n", &number, program.as_str()]);
        all.extend(words);
        let mut command = on_two_cores(ranks, &launcher, &all);
        command.env("LD_LIBRARY_PATH", folders(self.mpi, &self.root).join(":"));
        command.envs(self.mpi.variables.iter().copied());
        command.envs(self.mpi.places.iter().map(|(name, place)| (name, self.root.join(place))));
        command
    }
}

/// All peers that can be had, with the program; and those that cannot.
pub fn find_all(source: &Source) -> (Vec<Peer>, Vec<Missing>) {
    let archive = Archive::default();
    let (mut peers, mut missing) = (Vec::new(), Vec::new());
    for mpi in &PEERS {
        match Peer::find(mpi, &archive, source) {
            Ok(peer) => peers.push(peer),
            Err(why) => {
                eprintln!("without {}: {why}", mpi.name);
                missing.push(Missing { name: mpi.name, why });
            }
        }
    }
    (peers, missing)
}

fn folders(mpi: &Mpi, root: &Path) -> Vec<String> {
    mpi.libraries.iter().map(|folder| root.join(folder).display().to_string()).collect()
}
