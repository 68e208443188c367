//! Intel MPI, as Intel publishes it on the Python package index: two archives, taken by pip and unpacked, not installed. Its
//! licence permits its use and lies beside it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::guest::cache;
use crate::{Outcome, child};

const PACKAGES: [&str; 2] = ["impi-rt==2021.19.0", "impi-devel==2021.19.0"];
/// What it lives in once it is unpacked: the names of the archives' parts.
pub const ROOT: &str = "impi_rt-2021.19.0.data/data";
pub const LIBRARIES: &str = "impi_rt-2021.19.0.data/data/lib";
pub const INCLUDE: &str = "impi_devel-2021.19.0.data/data/include";
pub const LAUNCHER: &str = "impi_rt-2021.19.0.data/data/bin/mpiexec.hydra";
/// What the launcher starts, in its own folder.
const STARTED: [&str; 2] = ["hydra_bstrap_proxy", "hydra_pmi_proxy"];
/// 130 MB.
const FETCH: Duration = Duration::from_secs(600);

/// Where it is.
///
/// # Errors
/// When there is no pip, or the index does not have it, or it does not look as it should.
pub fn unpacked(name: &str) -> Result<PathBuf, String> {
    cache::once(&cache::key(&format!("peer-{name}"), &PACKAGES), fill)
}

fn fill(root: &Path) -> Outcome {
    let wheels = root.join("wheels");
    let at = wheels.display().to_string();
    let mut words = vec!["-m", "pip", "download", "--quiet", "--disable-pip-version-check"];
    words.extend(["--no-deps", "--only-binary=:all:", "--dest", &at]);
    words.extend(PACKAGES);
    python(&words, "pip download")?;
    let entries = fs::read_dir(&wheels).map_err(|e| format!("cannot read {at}: {e}"))?;
    for wheel in entries.filter_map(Result::ok) {
        let (wheel, root) = (wheel.path().display().to_string(), root.display().to_string());
        python(&["-m", "zipfile", "--extract", &wheel, &root], "python3 -m zipfile")?;
    }
    cache::remove(&wheels)?;
    let launcher = root.join(LAUNCHER);
    for program in STARTED.iter().map(|name| launcher.with_file_name(name)).chain([launcher.clone()]) {
        // Archives of this kind do not say what is a program.
        fs::set_permissions(&program, Permissions::from_mode(0o755))
            .map_err(|e| format!("{} is not as it should be: {e}", program.display()))?;
    }
    Ok(())
}

/// The last line that it complains with is the error: the others are advice.
fn python(words: &[&str], what: &str) -> Outcome {
    let ran = child::command("python3", words, FETCH).output();
    let ran = ran.map_err(|e| format!("cannot run {what}: {e}"))?;
    if ran.status.success() {
        return Ok(());
    }
    let complaint = String::from_utf8_lossy(&ran.stderr);
    let last = complaint.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it says nothing");
    Err(format!("{what} failed ({}): {}", ran.status, last.trim()))
}
