//! Trees that modules are built against, wherever the cache is: also when it has been moved, or made elsewhere and brought here.
//!
//! What Debian's headers name by absolute paths, and the libraries of their programs, are found from where the naming file itself is.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::cache;
use crate::Outcome;

/// Where a Makefile itself is.
const HERE: &str = "$(dir $(lastword $(MAKEFILE_LIST)))";
/// What a program is called that has a script in its place.
const PROGRAM: &str = ".elf";

/// Makes a tree of that kind: below `dir`, the libraries in `libraries`, the rest in `tree`, the Makefile of `headers` in `tree/usr/src`. Does nothing
/// where it is one already.
///
/// # Errors
/// When files cannot be read or written, or the Makefile is another one than we know.
pub fn make(dir: &Path, headers: &str) -> Outcome {
    let makefile = dir.join("tree/usr/src").join(headers).join("Makefile");
    let text = cache::read(&makefile)?;
    let lines: Vec<String> = text.lines().map(from_here).collect();
    if !lines.iter().any(|line| line.contains(HERE)) {
        return Err(format!("{} includes no common headers", makefile.display()));
    }
    let found = lines.join("\n") + "\n";
    if found == text {
        return Ok(());
    }
    // The Makefile last: it tells that the rest is done.
    wrap_programs(&dir.join("tree/usr/lib"), dir)?;
    replace(&makefile, &found, 0o644).map_err(|e| format!("cannot write {}: {e}", makefile.display()))
}

/// A Makefile's line that names the common headers, which lie beside its own, as one that works anywhere.
fn from_here(line: &str) -> String {
    let common = line.strip_prefix("include ").and_then(|path| path.strip_suffix("/Makefile"));
    let name =
        common.and_then(|path| path.rsplit('/').next()).filter(|name| name.starts_with("linux-headers-"));
    name.map_or(line.to_owned(), |name| format!("include {HERE}../{name}/Makefile"))
}

/// Has each program below `dir` started with the libraries it was built for, those of `root`: those of this machine may be older.
fn wrap_programs(dir: &Path, root: &Path) -> Outcome {
    let entries = fs::read_dir(dir).map_err(|e| format!("cannot read {}: {e}", dir.display()))?;
    for file in entries.filter_map(|e| e.ok().map(|e| e.path())) {
        if file.is_symlink() || file.to_string_lossy().ends_with(PROGRAM) {
            continue;
        }
        if file.is_dir() {
            wrap_programs(&file, root)?;
        } else if is_program(&file) || beside(&file).is_file() {
            wrap(&file, root).map_err(|e| format!("cannot wrap {}: {e}", file.display()))?;
        }
    }
    Ok(())
}

fn is_program(file: &Path) -> bool {
    let runs = fs::metadata(file).is_ok_and(|m| m.permissions().mode() & 0o111 != 0);
    let mut magic = [0; 4];
    runs && fs::File::open(file).and_then(|mut f| f.read_exact(&mut magic)).is_ok() && magic == *b"\x7fELF"
}

/// Where the program of a script is.
fn beside(script: &Path) -> std::path::PathBuf {
    let mut name = script.as_os_str().to_owned();
    name.push(PROGRAM);
    name.into()
}

/// Puts a script in the place of a program, or of such a script.
fn wrap(file: &Path, root: &Path) -> std::io::Result<()> {
    if is_program(file) {
        fs::rename(file, beside(file))?;
    }
    let inside = file.parent().and_then(|dir| dir.strip_prefix(root).ok());
    let up = "../".repeat(inside.map_or(0, |dir| dir.components().count()));
    // Started through links to directories: the system goes up from where those lead. Some find their siblings by the name they were
    // started with.
    let script = format!(
        "#!/bin/sh\nat=\"${{0%/*}}/{up}libraries\"\nfor l in \"$at/usr/lib/x86_64-linux-gnu\" \"$at/lib/x86_64-linux-gnu\"; do\n    \
         p=\"$p:$l\"\n    [ -x \"$l/ld-linux-x86-64.so.2\" ] && ld=\"$l/ld-linux-x86-64.so.2\"\ndone\n\
         exec \"$ld\" --argv0 \"$0\" --library-path \"${{p#:}}\" \"$0{PROGRAM}\" \"$@\"\n"
    );
    replace(file, &script, 0o755)
}

/// Writes a file of which others find either nothing new or all of it.
fn replace(file: &Path, text: &str, mode: u32) -> std::io::Result<()> {
    let mut name = file.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    fs::write(&name, text)?;
    fs::set_permissions(&name, fs::Permissions::from_mode(mode))?;
    fs::rename(&name, file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    const HEADERS: &str = "linux-headers-6.12.1-cloud-amd64";
    const COMMON: &str = "linux-headers-6.12.1-common";
    const PLACE: &str = "usr/lib/linux-kbuild-6.12.1/scripts/mod";

    /// A tree as it is unpacked, with a program of this machine's.
    fn unpacked(dir: &Path) {
        let (tree, libraries) = (dir.join("tree"), dir.join("libraries/lib/x86_64-linux-gnu"));
        let source = tree.join("usr/src");
        for dir in [&source.join(HEADERS), &source.join(COMMON), &tree.join(PLACE), &libraries] {
            fs::create_dir_all(dir).unwrap();
        }
        fs::write(source.join(HEADERS).join("Makefile"), format!("include /usr/src/{COMMON}/Makefile\n"))
            .unwrap();
        fs::write(source.join(COMMON).join("Makefile"), "").unwrap();
        symlink("../../lib/linux-kbuild-6.12.1/scripts", source.join(HEADERS).join("scripts")).unwrap();
        for name in ["ld-linux-x86-64.so.2", "libc.so.6"] {
            let found = ["/lib64", "/lib/x86_64-linux-gnu"].map(|dir| Path::new(dir).join(name));
            let found = found.iter().find(|file| file.exists()).expect("the machine's own libraries");
            fs::copy(found, libraries.join(name)).unwrap();
        }
        fs::copy("/bin/echo", tree.join(PLACE).join("modpost")).unwrap();
    }

    /// Whether the Makefile includes what is there, and the program runs, with the libraries of this place.
    fn works(dir: &Path) -> bool {
        let headers = dir.join("tree/usr/src").join(HEADERS);
        let text = fs::read_to_string(headers.join("Makefile")).unwrap();
        let common = text.trim().strip_prefix("include ").unwrap().replace(HERE, "./");
        let program =
            std::process::Command::new("scripts/mod/modpost").arg("says").current_dir(&headers).output();
        headers.join(common).is_file() && program.is_ok_and(|ran| ran.stdout == b"says\n")
    }

    fn scratch(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("tocsin-relocatable-{name}-{}", std::process::id()))
    }

    #[test]
    fn a_tree_works_where_it_was_made_and_where_it_was_moved_to() {
        let (first, second) = (scratch("first"), scratch("second"));
        unpacked(&first);
        make(&first, HEADERS).unwrap();
        assert!(works(&first));
        fs::rename(&first, &second).unwrap();
        assert!(works(&second));
        // With those of its place, and no others.
        fs::rename(second.join("libraries"), second.join("elsewhere")).unwrap();
        assert!(!works(&second));
        fs::remove_dir_all(second).unwrap();
    }

    #[test]
    fn a_tree_that_names_another_place_is_mended_and_one_that_does_not_is_left_alone() {
        let dir = scratch("moved");
        unpacked(&dir);
        make(&dir, HEADERS).unwrap();
        let makefile = dir.join("tree/usr/src").join(HEADERS).join("Makefile");
        let script = dir.join("tree").join(PLACE).join("modpost");
        let made = fs::metadata(&script).unwrap().modified().unwrap();
        make(&dir, HEADERS).unwrap();
        assert_eq!(fs::metadata(&script).unwrap().modified().unwrap(), made);
        fs::write(&makefile, format!("include /nowhere/tree/usr/src/{COMMON}/Makefile\n")).unwrap();
        fs::write(&script, "#!/bin/sh\nexec /nowhere/libraries/ld-linux-x86-64.so.2 \"$0.elf\" \"$@\"\n")
            .unwrap();
        assert!(!works(&dir));
        make(&dir, HEADERS).unwrap();
        assert!(works(&dir));
        fs::write(&makefile, "all:\n").unwrap();
        assert!(make(&dir, HEADERS).unwrap_err().contains("no common headers"));
        fs::remove_dir_all(dir).unwrap();
    }
}
