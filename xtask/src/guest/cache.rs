//! What takes long to make and stays the same is kept outside of the checkout, so that every checkout has it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Outcome;

/// Where: `$XDG_CACHE_HOME/tocsin/guest`, else `~/.cache/tocsin/guest`.
///
/// # Errors
/// When neither is known or it cannot be made.
pub fn root() -> Result<PathBuf, String> {
    let base = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|dir| dir.is_absolute())
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))
        .ok_or("neither XDG_CACHE_HOME nor HOME says where to keep the emulator and kernels")?;
    let dir = base.join("tocsin/guest");
    make_dir(&dir)?;
    Ok(dir)
}

/// The name of something made from `parts`: other parts, another name. FNV-1a: stable, and nobody attacks it.
pub fn key(name: &str, parts: &[&str]) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for part in parts {
        for byte in part.bytes().chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    format!("{name}-{hash:016x}")
}

/// The directory of that name in the cache, made by `make` when it is missing. It is whole or not there: `make` fills another
/// one, which is then renamed; and the cache may be moved. So no file in it is to name the place where it is.
///
/// # Errors
/// Those of `make`.
pub fn once(name: &str, make: impl FnOnce(&Path) -> Outcome) -> Result<PathBuf, String> {
    let place = root()?.join(name);
    if place.is_dir() {
        return Ok(place);
    }
    remove_abandoned(&root()?, name)?;
    let filling = root()?.join(format!("{name}.{}", std::process::id()));
    make_dir(&filling)?;
    if let Err(e) = make(&filling) {
        remove(&filling)?;
        return Err(e);
    }
    if let Err(e) = fs::rename(&filling, &place) {
        // Another run was first.
        if !place.is_dir() {
            return Err(format!("cannot rename {} to {}: {e}", filling.display(), place.display()));
        }
        remove(&filling)?;
    }
    Ok(place)
}

/// Removes what runs that are no more had begun, and what an earlier failure of ours left of `name`: both are called
/// `NAME.PROCESS`.
fn remove_abandoned(root: &Path, name: &str) -> Outcome {
    let entries = fs::read_dir(root).map_err(|e| format!("cannot read {}: {e}", root.display()))?;
    for entry in entries.filter_map(Result::ok) {
        let file = entry.file_name().to_string_lossy().into_owned();
        let Some((begun, process)) = file.rsplit_once('.') else { continue };
        let Ok(process) = process.parse::<u32>() else { continue };
        let ours = process == std::process::id();
        if (ours && begun == name) || (!ours && !Path::new(&format!("/proc/{process}")).exists()) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

/// Makes the directory and those above it.
///
/// # Errors
/// When that is not possible.
pub fn make_dir(dir: &Path) -> Outcome {
    fs::create_dir_all(dir).map_err(|e| format!("cannot make {}: {e}", dir.display()))
}

/// Removes the directory with all that is in it, if it is there.
///
/// # Errors
/// When that is not possible.
pub fn remove(dir: &Path) -> Outcome {
    match fs::remove_dir_all(dir) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("cannot remove {}: {e}", dir.display()))
        }
        _ => Ok(()),
    }
}

/// # Errors
/// When the file cannot be written.
pub fn write(file: &Path, text: impl AsRef<[u8]>) -> Outcome {
    fs::write(file, text).map_err(|e| format!("cannot write {}: {e}", file.display()))
}

/// # Errors
/// When the file cannot be read, or is no text.
pub fn read(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|e| format!("cannot read {}: {e}", file.display()))
}

/// # Errors
/// When the file cannot be copied.
pub fn copy(from: &Path, to: &Path) -> Outcome {
    fs::copy(from, to)
        .map(drop)
        .map_err(|e| format!("cannot copy {} to {}: {e}", from.display(), to.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_abandoned_is_removed() {
        let root = std::env::temp_dir().join(format!("tocsin-cache-{}", std::process::id()));
        // The largest process number that Linux gives is 2^22.
        for name in ["a", "a.1", "a.4194305", "a.log", "b.4194305", &format!("b.{}", std::process::id())] {
            make_dir(&root.join(name)).expect("a directory");
        }
        remove_abandoned(&root, "a").expect("removed");
        let there = |name: &str| root.join(name).is_dir();
        assert!(there("a") && there("a.1") && there("a.log") && there(&format!("b.{}", std::process::id())));
        assert!(!there("a.4194305") && !there("b.4194305"));
        remove(&root).expect("removed");
    }

    #[test]
    fn keys_tell_parts_apart() {
        assert_eq!(key("a", &["b", "c"]), key("a", &["b", "c"]));
        assert_ne!(key("a", &["b", "c"]), key("a", &["bc"]));
        assert_ne!(key("a", &["b", "c"]), key("a", &["c", "b"]));
    }
}
