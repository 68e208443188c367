//! Devices that can copy large messages, and how this process finds them: `tocsin info` tells what is there. Of them
//! tocsin uses XPMEM and KNEM, which are strategies, too.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// How a device is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// There, and this process may open it.
    Present,
    /// Not there.
    Absent,
    /// There, and this process may not open it.
    Forbidden,
}

impl Presence {
    /// The word for it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Presence::Present => "present",
            Presence::Absent => "absent",
            Presence::Forbidden => "no permission",
        }
    }
}

/// A device, and what was found.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) name: &'static str,
    pub(super) presence: Presence,
    /// Where it was looked for, what is there, and what would change that.
    pub(super) why: String,
}

/// All devices, as this machine has them.
pub(super) fn all() -> Vec<Device> {
    under(Path::new("/"))
}

/// The same below another root.
fn under(root: &Path) -> Vec<Device> {
    vec![module(root, "knem"), module(root, "xpmem"), dsa(root)]
}

/// A kernel module with one device of its name.
fn module(root: &Path, name: &'static str) -> Device {
    let path = root.join("dev").join(name);
    let shown = path.display();
    let (presence, why) = match reading_and_writing(&path) {
        Ok(()) => (Presence::Present, format!("{shown} may be opened")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            (Presence::Absent, format!("no {shown}: the kernel module {name} is not loaded"))
        }
        Err(error) => {
            (Presence::Forbidden, format!("{shown}: {error}; its owner may allow it by chmod or a group"))
        }
    };
    Device { name, presence, why }
}

/// Intel's Data Streaming Accelerator: the kernel's driver lists devices and work queues on its bus; a work queue that was
/// enabled for user space has a file in /dev/dsa.
fn dsa(root: &Path) -> Device {
    let bus = root.join("sys/bus/dsa/devices");
    let found = |presence, why| Device { name: "dsa", presence, why };
    let Some(listed) = names(&bus) else {
        let why = format!("no {}: no such device, or the kernel's driver idxd is not loaded", bus.display());
        return found(Presence::Absent, why);
    };
    let engines: Vec<&String> = listed.iter().filter(|name| is_engine(name)).collect();
    if engines.is_empty() {
        return found(
            Presence::Absent,
            format!("the driver idxd is loaded and has no device ({})", bus.display()),
        );
    }
    let directory = root.join("dev/dsa");
    let queues: Vec<PathBuf> =
        names(&directory).unwrap_or_default().iter().map(|name| directory.join(name)).collect();
    let engines = engines.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
    if queues.is_empty() {
        let why = format!("{engines}; no work queue is enabled for user space: accel-config makes one");
        return found(Presence::Present, why);
    }
    let mut refused = String::new();
    for queue in &queues {
        match reading_and_writing(queue) {
            Ok(()) => {
                return found(Presence::Present, format!("{engines}; {} may be opened", queue.display()));
            }
            Err(error) => refused = format!("{engines}; {}: {error}", queue.display()),
        }
    }
    found(Presence::Forbidden, refused)
}

/// `dsa0`, not `wq0.0`, `engine0.0` or `group0.0`, and not the compressing `iax1`.
fn is_engine(name: &str) -> bool {
    name.strip_prefix("dsa")
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// The names in a directory, sorted; `None` when it cannot be read.
fn names(directory: &Path) -> Option<Vec<String>> {
    let entries = std::fs::read_dir(directory).ok()?;
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Some(names)
}

/// Whether a file may be opened for both, without opening it: that would be the first use of a device.
fn reading_and_writing(path: &Path) -> std::io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path ends with a zero byte and lives through the call.
    match unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::R_OK | libc::W_OK, libc::AT_EACCESS) }
    {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An empty root directory of this test's own, and its end.
    struct Root(PathBuf);

    impl Root {
        fn new(name: &str) -> Root {
            let path = std::env::temp_dir().join(format!("tocsin-devices-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Root(path)
        }

        fn directory(&self, path: &str) {
            std::fs::create_dir_all(self.0.join(path)).unwrap();
        }

        fn file(&self, path: &str) {
            std::fs::write(self.0.join(path), b"").unwrap();
        }

        fn found(&self, name: &str) -> (Presence, String) {
            let device = under(&self.0).into_iter().find(|device| device.name == name).unwrap();
            (device.presence, device.why)
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            let _left_behind = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_is_not_there_is_absent() {
        let root = Root::new("absent");
        for name in ["knem", "xpmem", "dsa"] {
            let (presence, why) = root.found(name);
            assert_eq!(presence, Presence::Absent, "{name}: {why}");
            assert!(why.contains("not loaded"), "{why}");
        }
        root.directory("sys/bus/dsa/devices");
        root.directory("sys/bus/dsa/devices/iax1");
        let (presence, why) = root.found("dsa");
        assert_eq!(presence, Presence::Absent);
        assert!(why.contains("has no device"), "{why}");
    }

    #[test]
    fn what_is_there_is_present() {
        let root = Root::new("present");
        root.directory("dev/dsa");
        root.file("dev/knem");
        assert_eq!(root.found("knem").0, Presence::Present);
        for device in ["dsa0", "dsa2", "wq0.0", "iax1"] {
            root.directory(&format!("sys/bus/dsa/devices/{device}"));
        }
        let (presence, why) = root.found("dsa");
        assert_eq!(presence, Presence::Present);
        assert!(
            why.contains("dsa0, dsa2;") && why.contains("no work queue") && !why.contains("iax"),
            "{why}"
        );
        root.file("dev/dsa/wq0.0");
        let (presence, why) = root.found("dsa");
        assert_eq!(presence, Presence::Present);
        assert!(why.contains("wq0.0 may be opened"), "{why}");
    }

    /// A link to itself is there for everybody and cannot be opened by anybody, root included.
    #[test]
    fn what_cannot_be_opened_is_told_with_its_reason() {
        let root = Root::new("forbidden");
        root.directory("dev/dsa");
        root.directory("sys/bus/dsa/devices/dsa0");
        for path in ["dev/xpmem", "dev/dsa/wq0.0"] {
            let path = root.0.join(path);
            std::os::unix::fs::symlink(&path, &path).unwrap();
        }
        for name in ["xpmem", "dsa"] {
            let (presence, why) = root.found(name);
            assert_eq!(presence, Presence::Forbidden, "{name}: {why}");
            assert!(why.contains("links"), "{name}: {why}");
        }
    }
}
