//! The initramfs: an archive in the format that Linux calls newc. Written here and not by cpio(1), which few machines
//! have, and which wants root for the console's node.

use std::io::{self, Write};

/// An archive that grows at its end.
pub struct Archive<W: Write> {
    out: W,
    inode: u32,
}

const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_755;
const CHARACTER_DEVICE: u32 = 0o020_600;

impl<W: Write> Archive<W> {
    pub fn new(out: W) -> Archive<W> {
        Archive { out, inode: 0 }
    }

    pub fn directory(&mut self, name: &str) -> io::Result<()> {
        self.member(name, DIRECTORY, (0, 0), &[])
    }

    /// A file that all may run.
    pub fn file(&mut self, name: &str, data: &[u8]) -> io::Result<()> {
        self.member(name, FILE, (0, 0), data)
    }

    pub fn device(&mut self, name: &str, major: u32, minor: u32) -> io::Result<()> {
        self.member(name, CHARACTER_DEVICE, (major, minor), &[])
    }

    fn member(&mut self, name: &str, mode: u32, device: (u32, u32), data: &[u8]) -> io::Result<()> {
        self.inode += 1;
        let size = u32::try_from(data.len()).map_err(|_| io::Error::other(format!("{name} is too long")))?;
        let name_size = u32::try_from(name.len() + 1).map_err(io::Error::other)?;
        // inode, mode, uid, gid, links, time, size, device of the file (2), device of the node (2), name, checksum
        let fields = [self.inode, mode, 0, 0, 1, 0, size, 0, 0, device.0, device.1, name_size, 0];
        let mut header = String::from("070701");
        for field in fields {
            header.push_str(&format!("{field:08x}"));
        }
        header.push_str(name);
        header.push('\0');
        self.padded(header.as_bytes())?;
        self.padded(data)
    }

    /// Every part begins at a multiple of 4.
    fn padded(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.out.write_all(&[0; 3][..bytes.len().next_multiple_of(4) - bytes.len()])
    }

    pub fn finish(mut self) -> io::Result<W> {
        self.member("TRAILER!!!", 0, (0, 0), &[])?;
        self.out.flush()?;
        Ok(self.out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_laid_out_as_the_kernel_reads_them() {
        let mut archive = Archive::new(Vec::new());
        archive.directory("dev").expect("to memory");
        archive.device("dev/console", 5, 1).expect("to memory");
        archive.file("init", b"hello").expect("to memory");
        let bytes = archive.finish().expect("to memory");

        // As lib/initramfs of the kernel does it: header of 110 bytes, name, data, both padded.
        let number = |at: usize| {
            let text = std::str::from_utf8(&bytes[at..at + 8]).expect("hexadecimal");
            usize::from_str_radix(text, 16).expect("hexadecimal")
        };
        let (mut at, mut found) = (0, Vec::new());
        while at < bytes.len() {
            assert_eq!(&bytes[at..at + 6], b"070701");
            let (mode, size, name_size) = (number(at + 14), number(at + 54), number(at + 94));
            let name = std::str::from_utf8(&bytes[at + 110..at + 110 + name_size - 1]).expect("a name");
            let data = (at + 110 + name_size).next_multiple_of(4);
            found.push((
                name.to_owned(),
                mode,
                (number(at + 78), number(at + 86)),
                bytes[data..data + size].to_vec(),
            ));
            at = (data + size).next_multiple_of(4);
        }
        assert_eq!(found[0], ("dev".to_owned(), 0o040_755, (0, 0), vec![]));
        assert_eq!(found[1], ("dev/console".to_owned(), 0o020_600, (5, 1), vec![]));
        assert_eq!(found[2], ("init".to_owned(), 0o100_755, (0, 0), b"hello".to_vec()));
        assert_eq!(found[3].0, "TRAILER!!!");
        assert_eq!(found.len(), 4);
    }
}
