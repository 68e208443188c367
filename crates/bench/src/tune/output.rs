//! Where the table goes.

use crate::error::{Error, doing};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use tocsin_world::replaced::place_of;
use tocsin_world::tune::Table;

/// A file that takes another's place when it is whole. There is nothing of it before: who measures is interrupted at any time.
#[derive(Debug)]
pub(super) struct Output {
    file: PathBuf,
    part: PathBuf,
}

/// The table that is there already, whose rows stay but for those that are measured anew.
pub(super) fn before(file: &Path) -> Result<Option<Table>, Error> {
    if !file.exists() {
        return Ok(None);
    }
    let refused = |why| {
        let (name, advice) = (file.display(), "name another file, or remove this one");
        Error::Usage(format!(
            "--output {name}: there is something that rows cannot be added to ({why}): {advice}"
        ))
    };
    Table::read(file).map(Some).map_err(refused)
}

impl Output {
    /// Sees that the file can be made: beside what it replaces, under a name of this process alone, and never one that is there already.
    pub(super) fn create(file: &Path) -> Result<Output, Error> {
        let refused = |why: String| Error::Usage(format!("--output {}: {why}", file.display()));
        let file = place_of(file).map_err(|why| refused(why.into()))?;
        let mut part = file.as_os_str().to_owned();
        part.push(format!(".{}.part", std::process::id()));
        let output = Output { file, part: PathBuf::from(part) };
        match output.make() {
            Ok(_) => {
                output.discard();
                Ok(output)
            }
            Err(why) if why.kind() == ErrorKind::AlreadyExists => {
                Err(refused(format!("{} is in the way: remove it", output.part.display())))
            }
            Err(why) => Err(refused(format!("no file can be made there: {why}"))),
        }
    }

    fn make(&self) -> std::io::Result<File> {
        OpenOptions::new().write(true).create_new(true).open(&self.part)
    }

    fn discard(&self) {
        let _gone = std::fs::remove_file(&self.part);
    }

    /// Writes all, and only when the disk has it takes the file's place.
    pub(super) fn finish(self, text: &str) -> Result<(), Error> {
        let failed = || doing(format!("writing {}", self.file.display()));
        let mut writer = self.make().map_err(failed())?;
        let written = writer.write_all(text.as_bytes()).and_then(|()| writer.sync_all());
        let renamed = written.and_then(|()| std::fs::rename(&self.part, &self.file));
        renamed.inspect_err(|_| self.discard()).map_err(failed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory that is removed with all in it.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Place {
            let place = std::env::temp_dir().join(format!("tocsin-tune-{name}-{}", std::process::id()));
            std::fs::create_dir(&place).unwrap();
            Place(place)
        }

        /// The names of what is there.
        fn names(&self) -> Vec<String> {
            let entries = std::fs::read_dir(&self.0).unwrap();
            let mut names: Vec<String> =
                entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _gone = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_was_there_stays_until_all_is_written() {
        let place = Place::new("replaced");
        let file = place.0.join("table");
        std::fs::write(&file, "old").unwrap();
        // Who is killed before the end leaves nothing.
        let output = Output::create(&file).unwrap();
        assert_eq!(
            (place.names(), std::fs::read_to_string(&file).unwrap()),
            (vec!["table".into()], "old".into())
        );
        output.finish("new").unwrap();
        assert_eq!(
            (place.names(), std::fs::read_to_string(&file).unwrap()),
            (vec!["table".into()], "new".into())
        );
        // A link stays one.
        let link = place.0.join("link");
        std::os::unix::fs::symlink("table", &link).unwrap();
        Output::create(&link).unwrap().finish("newer").unwrap();
        assert!(link.is_symlink() && place.names() == ["link", "table"]);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "newer");
    }

    #[test]
    fn what_is_no_table_is_not_lost() {
        let place = Place::new("no-table");
        let file = place.0.join("table");
        assert_eq!(before(&file).unwrap(), None);
        std::fs::write(&file, "a letter").unwrap();
        let why = before(&file).unwrap_err();
        assert!(why.to_string().contains("no table of `tocsin tune`") && why.status() == 2, "{why}");
        assert!(why.to_string().ends_with("name another file, or remove this one"), "{why}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "a letter");
        let table = format!(
            "tocsin-tune 1\nmachine {}\nprocess 1 0 double 0\nend 1\n",
            tocsin_world::tune::machine()
        );
        std::fs::write(&file, table).unwrap();
        assert_eq!(before(&file).unwrap().unwrap().rows().len(), 1);
    }

    /// What somebody put under the part's name, such as a link to another's file, is neither written to nor removed.
    #[test]
    fn what_is_in_the_way_stays() {
        let place = Place::new("in-the-way");
        let (file, other) = (place.0.join("table"), place.0.join("other"));
        std::fs::write(&other, "another's").unwrap();
        let part = place.0.join(format!("table.{}.part", std::process::id()));
        std::os::unix::fs::symlink(&other, &part).unwrap();
        let why = Output::create(&file).unwrap_err();
        assert!(why.to_string().ends_with("is in the way: remove it") && why.status() == 2, "{why}");
        assert!(part.is_symlink() && !file.exists());
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "another's");
    }

    #[test]
    fn what_is_no_file_is_refused() {
        let place = Place::new("no-file");
        for (file, says) in [
            (place.0.as_path(), "is a directory: name a file"),
            (Path::new("/dev/null"), "is no file that could be replaced"),
            (Path::new("/no/such/directory/table"), "no file can be made there"),
        ] {
            let why = Output::create(file).unwrap_err();
            assert!(why.to_string().contains(says) && why.status() == 2, "{why}");
        }
        assert!(place.names().is_empty());
    }
}
