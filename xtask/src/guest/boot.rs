//! Runs one emulated machine until it powers off, or until it hangs.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::bochs::Bochs;
use super::judge::MARK;
use super::list::Boot;
use super::{cache, recipe};
use crate::{Outcome, child};

/// For all of it, to be sure of an end.
const WHOLE: Duration = Duration::from_secs(3600);
/// For the next line on the way to init, and between entries: real time of a busy machine.
const BETWEEN: Duration = Duration::from_secs(240);
/// For all of the way to init, whatever it prints: a kernel that complains again and again hangs, too.
const BOOT: Duration = Duration::from_secs(720);
/// Time for a panic's last lines.
const PANIC: Duration = Duration::from_secs(5);

/// What a guest printed, and why it was ended, if it did not end by itself.
pub struct Ended {
    pub log: String,
    pub stopped: Option<String>,
    pub time: Duration,
    /// What came up to init, and each entry, in order.
    pub parts: Vec<(String, Duration)>,
}

/// Boots the image and waits for power-off. Everything that the guest prints goes to `serial.log` in `dir`.
///
/// # Errors
/// When the emulator does not start.
pub fn run(bochs: &Bochs, boot: &Boot, image: &Path, dir: &Path) -> Result<Ended, String> {
    let start = Instant::now();
    let rc = configure(bochs, boot, image, dir, "file", "/proc/self/fd/1")?;
    let words = ["-q", "-f", &*rc.to_string_lossy()];
    let mut command = child::command(&bochs.program().to_string_lossy(), &words, WHOLE);
    let errors = File::create(dir.join("bochs.err"))
        .map_err(|e| format!("cannot write below {}: {e}", dir.display()))?;
    command.current_dir(dir).stdout(Stdio::piped()).stderr(errors);
    if boot.x2apic {
        command.env("BOCHS_KVM_SIGNATURE", "1");
    }
    let mut child = command.spawn().map_err(|e| format!("cannot start the emulator: {e}"))?;
    let stdout = child.stdout.take().ok_or("the emulator has no output")?;
    let mut serial =
        File::create(dir.join("serial.log")).map_err(|e| format!("cannot write serial.log: {e}"))?;
    let (send, lines) = channel();
    let reader = std::thread::spawn(move || {
        let mut reader = BufReader::new(stdout);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
            let text = String::from_utf8_lossy(&line).replace('\r', "");
            let _ = serial.write_all(text.as_bytes());
            // The other side may have given up; the log goes on.
            let _ = send.send(text);
            line.clear();
        }
    });
    let (mut log, stopped, parts) = watch(&lines);
    if stopped.is_some() {
        end(&child);
    }
    child.wait().map_err(|e| format!("cannot wait for the emulator: {e}"))?;
    let _ = reader.join();
    log.extend(lines.try_iter());
    Ok(Ended { log, stopped, time: start.elapsed(), parts })
}

/// Collects lines until the guest ends or a time limit has passed, and how long what they tell of took.
fn watch(lines: &Receiver<String>) -> (String, Option<String>, Vec<(String, Duration)>) {
    let mut log = String::new();
    let (mut parts, mut since) = (Vec::new(), Instant::now());
    let mut allowed = BETWEEN;
    let mut deadline = Instant::now() + allowed;
    let latest = Instant::now() + BOOT;
    loop {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                if line.contains("Kernel panic - ") {
                    allowed = PANIC;
                    deadline = Instant::now() + allowed;
                } else if let Some(mark) = line.strip_prefix(MARK) {
                    allowed = patience(mark);
                    deadline = Instant::now() + allowed;
                    if let Some(part) = ended(mark) {
                        parts.push((part.to_owned(), since.elapsed()));
                    }
                    since = Instant::now();
                } else if allowed == BETWEEN && parts.is_empty() {
                    // On its way to init, however slowly.
                    deadline = (Instant::now() + allowed).min(latest);
                }
                log.push_str(&line);
            }
            Err(RecvTimeoutError::Timeout) => {
                let why = if parts.is_empty() && Instant::now() >= latest {
                    format!("a hang: init was not reached in {} s", BOOT.as_secs())
                } else {
                    format!("a hang: no sign of init for {} s", allowed.as_secs())
                };
                return (log, Some(why), parts);
            }
            Err(RecvTimeoutError::Disconnected) => return (log, None, parts),
        }
    }
}

/// How long the next of init's lines may take. Init ends a test that hangs by the guest's clock; that may be several times
/// slower than ours, and with the guest's kernel hung it stands still.
fn patience(mark: &str) -> Duration {
    let words: Vec<&str> = mark.split_whitespace().collect();
    match words.as_slice() {
        ["begin", _, seconds, ..] => {
            BETWEEN + seconds.parse().map_or(Duration::ZERO, Duration::from_secs) * 3
        }
        _ => BETWEEN,
    }
}

/// What of a guest's run one of init's lines ends.
fn ended(mark: &str) -> Option<&str> {
    match mark.split_whitespace().collect::<Vec<_>>().as_slice() {
        ["up", ..] => Some("boot"),
        ["end", name, ..] => Some(name),
        _ => None,
    }
}

/// Ends `timeout`, and by it the emulator.
fn end(child: &Child) {
    let script = format!("kill -TERM {}", child.id());
    let _ = child::output(child::command("sh", &["-c", &script], Duration::from_secs(5)), "kill");
}

/// Boots the image with its serial line on this terminal.
///
/// # Errors
/// When the emulator does not start.
pub fn interactive(bochs: &Bochs, boot: &Boot, image: &Path, dir: &Path) -> Outcome {
    let rc = configure(bochs, boot, image, dir, "term", "/dev/tty")?;
    let errors = File::create(dir.join("bochs.err"))
        .map_err(|e| format!("cannot write below {}: {e}", dir.display()))?;
    let mut command = std::process::Command::new(bochs.program());
    command.args(["-q", "-f"]).arg(rc).current_dir(dir);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
    if boot.x2apic {
        command.env("BOCHS_KVM_SIGNATURE", "1");
    }
    command.status().map_err(|e| format!("cannot start the emulator: {e}"))?;
    // It leaves the terminal raw when it powers off.
    let _ = std::process::Command::new("stty").arg("sane").status();
    Ok(())
}

fn configure(
    bochs: &Bochs,
    boot: &Boot,
    image: &Path,
    dir: &Path,
    mode: &str,
    device: &str,
) -> Result<std::path::PathBuf, String> {
    let text = [
        ("@BIOS@", bochs.bios().display().to_string()),
        ("@VGABIOS@", bochs.vga_bios().display().to_string()),
        ("@MEMORY@", boot.memory().to_string()),
        ("@CPUS@", boot.cpus.to_string()),
        ("@IMAGE@", image.display().to_string()),
        ("@MODE@", mode.to_owned()),
        ("@DEVICE@", device.to_owned()),
        ("@LOG@", dir.join("bochs.log").display().to_string()),
    ]
    .into_iter()
    .fold(cache::read(&recipe("bochsrc.in"))?, |text, (name, value)| text.replace(name, &value));
    let rc = dir.join("bochsrc");
    cache::write(&rc, text)?;
    Ok(rc)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_given_its_time() {
        assert_eq!(patience("begin a 60 1.5"), BETWEEN + Duration::from_secs(180));
        assert_eq!(patience("end a 0"), BETWEEN);
        assert_eq!(patience("begin a"), BETWEEN);
    }

    #[test]
    fn lines_are_collected_to_the_end() {
        let (send, lines) = channel();
        let all = ["one\n", "@@tocsin up cpus=2\n", "@@tocsin begin a 60\n", "@@tocsin end a 0\n", "two\n"];
        for line in all {
            send.send(line.to_owned()).expect("the receiver is there");
        }
        drop(send);
        let (log, stopped, parts) = watch(&lines);
        assert_eq!((log, stopped), (all.concat(), None));
        assert_eq!(parts.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["boot", "a"]);
    }

    #[test]
    fn a_panic_is_not_waited_for_long() {
        let (send, lines) = channel();
        send.send("[ 1.0] Kernel panic - not syncing: test\n".to_owned()).expect("the receiver is there");
        let start = Instant::now();
        let (_, stopped, _) = watch(&lines);
        assert!(stopped.is_some() && start.elapsed() < BETWEEN / 2);
        drop(send);
    }
}
