//! Output of ranks with their number before each line.

use std::io::{ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout};

/// A line that is as long as this and goes on gets an end.
const LONGEST: usize = 64 << 10;

/// Threads that copy output. What ranks have started may hold the other ends of their pipes for as long as it likes,
/// so that the end of the ranks, not that of the output, ends the threads.
pub(super) struct Outputs {
    /// Readable once the ranks have ended.
    over: Arc<PipeReader>,
    /// Closed when the ranks have ended.
    running: PipeWriter,
    /// Each thread holds one; nobody sends.
    copying: Sender<()>,
    copied: Receiver<()>,
}

impl Outputs {
    pub(super) fn new() -> std::io::Result<Outputs> {
        let (over, running) = std::io::pipe()?;
        let (copying, copied) = channel();
        Ok(Outputs { over: Arc::new(over), running, copying, copied })
    }

    /// Copies what comes out of `from` to `to`, line by line. A last line without an end gets one, as does a line of [`LONGEST`] bytes that goes on.
    pub(super) fn tag(
        &self,
        rank: u32,
        from: impl Read + AsFd + Send + 'static,
        to: impl Write + Send + 'static,
    ) -> std::io::Result<()> {
        let (over, copying) = (self.over.clone(), self.copying.clone());
        let tagged = Tagged { prefix: format!("[{rank}] "), line: Vec::new(), to, closed: false };
        std::thread::Builder::new().name(format!("tocsin-output-{rank}")).stack_size(128 << 10).spawn(
            move || {
                copy(from, tagged, &over);
                drop(copying);
            },
        )?;
        Ok(())
    }

    /// The ranks have ended: waits until all that they wrote is copied, however slowly it is taken, unless
    /// `impatient`, which is asked each `tick`.
    pub(super) fn finish(self, tick: Duration, mut impatient: impl FnMut() -> bool) {
        let Outputs { over: _, running, copying, copied } = self;
        drop((running, copying));
        while copied.recv_timeout(tick) == Err(RecvTimeoutError::Timeout) && !impatient() {}
    }
}

fn copy(mut from: impl Read + AsFd, mut tagged: Tagged<impl Write>, over: &PipeReader) {
    let mut chunk = [0; 8 << 10];
    // How much is left to copy, once the ranks have ended.
    let mut left = None;
    while left != Some(0) {
        if left.is_none() {
            let mut both =
                [PollFd::new(from.as_fd(), PollFlags::POLLIN), PollFd::new(over.as_fd(), PollFlags::POLLIN)];
            match nix::poll::poll(&mut both, PollTimeout::NONE) {
                Err(Errno::EINTR) => continue,
                Err(_) => break,
                Ok(_) => {}
            }
            if both[1].any() != Some(false) {
                // All that the ranks wrote is in the pipe; what others add from here on is not waited for.
                left = Some(readable(&from));
                continue;
            }
        }
        let room = left.map_or(chunk.len(), |left| left.min(chunk.len()));
        let Some(into) = chunk.get_mut(..room) else { break };
        match from.read(into) {
            Ok(0) => break,
            Ok(read) => {
                tagged.take(chunk.get(..read).unwrap_or_default());
                left = left.map(|left| left.saturating_sub(read));
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    tagged.end();
}

/// Bytes that can be read without waiting.
fn readable(from: &impl AsFd) -> usize {
    let mut bytes: libc::c_int = 0;
    // SAFETY: - `bytes` is live and of the type that the request writes.
    match unsafe { libc::ioctl(from.as_fd().as_raw_fd(), libc::FIONREAD, &raw mut bytes) } {
        0 => usize::try_from(bytes).unwrap_or(0),
        _ => 0,
    }
}

/// Lines with a prefix.
struct Tagged<W> {
    prefix: String,
    /// Prefix and what there is of a line; empty between lines.
    line: Vec<u8>,
    to: W,
    /// Nobody takes it any more, which is no reason to stop the ranks.
    closed: bool,
}

impl<W: Write> Tagged<W> {
    fn take(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.line.len() >= LONGEST && piece != b"\n" {
                self.end();
            }
            if self.line.is_empty() {
                self.line.extend(self.prefix.as_bytes());
            }
            self.line.extend(piece);
            if piece.ends_with(b"\n") {
                self.put();
            }
        }
    }

    /// One write per line: lines of ranks do not mix.
    fn put(&mut self) {
        if !self.closed {
            let written = self.to.write_all(&self.line).and_then(|()| self.to.flush());
            self.closed = written.is_err();
            // Who has closed a pipe wants no more of it; what else is lost is lost against somebody's will.
            if let Err(why) = written.as_ref()
                && why.kind() != ErrorKind::BrokenPipe
            {
                let _unheard = writeln!(
                    std::io::stderr(),
                    "tocsin: {}what it prints is lost from here on: {why}",
                    self.prefix
                );
            }
        }
        self.line.clear();
    }

    fn end(&mut self) {
        if !self.line.is_empty() {
            self.line.push(b'\n');
            self.put();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_an_end_is_not_kept_for_ever() {
        let mut out = Vec::new();
        let mut tagged = Tagged { prefix: "[3] ".into(), line: Vec::new(), to: &mut out, closed: false };
        (0..96).for_each(|_| tagged.take(&[b'x'; 8 << 10]));
        assert!(tagged.line.capacity() <= 4 * LONGEST);
        tagged.take(b"\nshort\n");
        drop(tagged);
        let text = String::from_utf8_lossy(&out);
        assert!(text.lines().all(|line| line.starts_with("[3] ")) && text.ends_with("\n[3] short\n"));
        assert_eq!(text.matches('x').count(), 96 * (8 << 10));
        assert!(!text.contains("[3] \n"), "that nobody wrote");
    }
}
