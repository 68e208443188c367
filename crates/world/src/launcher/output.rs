//! Output of ranks with their number before each line.

use std::io::{BufRead, BufReader, Read, Write};
use std::thread::JoinHandle;

/// Copies what comes out of `from` to `to`, line by line. A last line without an end gets one.
pub(super) fn tag(
    rank: u32,
    from: impl Read + Send + 'static,
    to: impl Write + Send + 'static,
) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(format!("tocsin-output-{rank}")).stack_size(128 << 10).spawn(move || {
        let mut to = to;
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        let prefix = format!("[{rank}] ");
        loop {
            line.clear();
            line.extend(prefix.as_bytes());
            match from.read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            if line.last() != Some(&b'\n') {
                line.push(b'\n');
            }
            // One write per line: lines of ranks do not mix. Nobody reading is no reason to stop the ranks.
            if to.write_all(&line).and_then(|()| to.flush()).is_err() {
                let _rest = std::io::copy(&mut from, &mut std::io::sink());
                return;
            }
        }
    })
}
