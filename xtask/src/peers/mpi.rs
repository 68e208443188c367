//! The peers: where each comes from, how it is run.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::BUILD;
use super::experiments::Experiment;
use super::intel;
use crate::guest::apt::Archive;
use crate::guest::cache;
use crate::{cargo, child};

/// Where a peer comes from.
#[derive(Debug)]
pub enum Source {
    /// Debian's packages.
    Debian(&'static [&'static str]),
    /// Intel's, from the Python package index.
    Intel,
}

/// An MPI.
pub struct Mpi {
    pub name: &'static str,
    source: Source,
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
        source: Source::Debian(&["openmpi-bin", "libopenmpi-dev"]),
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
        source: Source::Debian(&["mpich", "libmpich-dev"]),
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
        source: Source::Intel,
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
    pub fn find(mpi: &'static Mpi, archive: &Archive) -> Result<Peer, String> {
        let root = match mpi.source {
            Source::Debian(packages) => {
                let key = cache::key(&format!("peer-{}", mpi.name), &[&format!("{packages:?}")]);
                cache::once(&key, |filling, _| {
                    archive.machine()?.unpack_with_dependencies(packages, filling)
                })?
            }
            Source::Intel => intel::unpacked(mpi.name)?,
        };
        let program = cargo::target_dir().join(format!("peers-{}", mpi.name));
        let source = cargo::root().join("xtask/src/peers/peers.c");
        let mut words: Vec<String> = ["-O2", "-std=gnu11", "-o"].map(str::to_owned).into();
        words.push(program.display().to_string());
        words.push(source.display().to_string());
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
        let launcher = self.root.join(self.mpi.launcher).display().to_string();
        let program = self.program.display().to_string();
        let (sizes, ranks) = (experiment.size_words(), experiment.ranks.to_string());
        let mut words = if experiment.is_crowded() { self.mpi.crowded } else { self.mpi.apart }.to_vec();
        words.extend(["-n", &ranks, program.as_str(), experiment.bench]);
        words.extend(sizes.iter().map(String::as_str));
        let mut command = experiment.on_two_cores(&launcher, &words);
        command.env("LD_LIBRARY_PATH", folders(self.mpi, &self.root).join(":"));
        command.envs(self.mpi.variables.iter().copied());
        command.envs(self.mpi.places.iter().map(|(name, place)| (name, self.root.join(place))));
        command
    }
}

fn folders(mpi: &Mpi, root: &Path) -> Vec<String> {
    mpi.libraries.iter().map(|folder| root.join(folder).display().to_string()).collect()
}
