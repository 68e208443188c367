//! Files that take another's place when they are whole.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// How many links a name may lead through: as the kernel has it.
const LINKS: usize = 40;

/// Where a file is put that takes the place of what `path` names: at the end of its links, so that they stay.
///
/// # Errors
/// What to do, of a directory and of what is no regular file: to put a file in the place of a device or a FIFO is to remove it.
pub fn place_of(path: &Path) -> Result<PathBuf, &'static str> {
    match std::fs::metadata(path) {
        Ok(about) if about.is_dir() => Err("is a directory: name a file in it"),
        Ok(about) if !about.is_file() => Err("is no file that could be replaced: name another"),
        Ok(_) => Ok(std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())),
        // A link may name what is not there yet.
        Err(why) if why.kind() == ErrorKind::NotFound => {
            let mut place = path.to_owned();
            for _ in 0..LINKS {
                match std::fs::read_link(&place) {
                    Ok(target) => place = place.parent().map_or(target.clone(), |dir| dir.join(&target)),
                    Err(_) => break,
                }
            }
            Ok(place)
        }
        // Whoever makes the file says it.
        Err(_) => Ok(path.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn files_and_what_links_name() {
        let dir = std::env::temp_dir().join(format!("tocsin-replaced-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("in")).unwrap();
        let dir = dir.canonicalize().unwrap();
        let [file, link, dangling, further] =
            ["in/file", "link", "dangling", "further"].map(|name| dir.join(name));
        std::fs::write(&file, "").unwrap();
        symlink("in/file", &link).unwrap();
        symlink("in/none", &dangling).unwrap();
        symlink("dangling", &further).unwrap();
        assert_eq!([&file, &link].map(|path| place_of(path).unwrap()), [file.clone(), file.clone()]);
        assert_eq!(
            [&dangling, &further].map(|path| place_of(path).unwrap()),
            [(); 2].map(|()| dir.join("in/none"))
        );
        assert_eq!(place_of(&dir.join("new")).unwrap(), dir.join("new"));
        symlink("/dev/null", dir.join("null")).unwrap();
        for device in [Path::new("/dev/null"), &dir.join("null")] {
            assert!(place_of(device).unwrap_err().contains("no file that could be replaced"));
        }
        assert!(place_of(&dir).unwrap_err().contains("is a directory"));
        std::fs::remove_dir_all(dir).unwrap();
    }
}
