//! `cargo xtask guest`: an emulated machine with user interrupts, in which the module and all that rests on it run.
//!
//! Bochs, kernels and what else is fetched are made once and kept in the user's cache; the module and the tests are those of this
//! checkout. What runs, and in which guests, says `kernel-patches/guest/tests.txt`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::child::Counts;
use crate::{Outcome, cargo};

pub mod apt;
mod binaries;
mod bochs;
mod boot;
pub mod cache;
mod cpio;
mod image;
mod judge;
mod kernel;
mod list;
mod options;
mod patched;
mod relocatable;
mod srat;
mod tools;

use apt::Archive;
use bochs::Bochs;
use image::{BootFiles, Contents};
use kernel::Built;
pub use list::Program;
use list::{Boot, Entry, List};
use options::Kernel;
pub use options::Options;
use tools::Tools;

/// Whether guests are built on this kind of machine.
pub const CAN_RUN: bool = cfg!(all(target_arch = "x86_64", target_os = "linux"));

/// How much of the serial log a failure shows.
const TAIL: usize = 40;

/// A file of `kernel-patches/guest`.
fn recipe(file: &str) -> PathBuf {
    cargo::root().join("kernel-patches/guest").join(file)
}

/// Runs the command with its output in a file, the end of which is part of the error.
fn quietly(mut command: Command, limit: Duration, log: &Path, what: &str) -> Outcome {
    let file = || File::create(log).map_err(|e| format!("cannot write {}: {e}", log.display()));
    let out = file()?;
    let errors = out.try_clone().map_err(|e| format!("cannot write {}: {e}", log.display()))?;
    let status =
        command.stdout(out).stderr(errors).status().map_err(|e| format!("cannot run {what}: {e}"))?;
    if status.success() {
        return Ok(());
    }
    let why = match status.code() {
        Some(124 | 137) => format!("not done after its limit of {} s", limit.as_secs()),
        _ => status.to_string(),
    };
    let text = fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    Err(format!("{what} failed ({why}); the end of {}:\n{}", log.display(), tail(&text, 30)))
}

fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

fn list() -> Result<List, String> {
    List::parse(&cache::read(&recipe("tests.txt"))?)
        .map_err(|e| format!("kernel-patches/guest/tests.txt, {e}"))
}

/// What a real machine with user interrupts runs: at full size, as its ordinary user.
///
/// # Errors
/// When the list cannot be read.
pub fn hardware_entries() -> Result<Vec<Entry>, String> {
    Ok(list()?.entries.into_iter().filter(|e| e.hardware).map(|e| e.sized(true)).collect())
}

/// Boots the guests and runs what the list says; the last line is `N passed, N failed`.
///
/// # Errors
/// When something cannot be built, or a test failed.
pub fn run(options: &Options) -> Outcome {
    if !CAN_RUN {
        return Err("the guest is built on Linux on x86-64 only".to_owned());
    }
    let mut list = list()?;
    list.entries = list.entries.into_iter().map(|e| e.sized(options.full)).collect();
    let machines = select(&list, options)?;
    let start = Instant::now();
    let parts = prepare(&machines, options)?;
    println!("built in {:.0} s", start.elapsed().as_secs_f64());
    if options.shell {
        return shell(&machines, &parts);
    }

    let queue = Mutex::new(machines.iter());
    let total = Mutex::new((Counts::default(), Vec::new()));
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(machines.len());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(machine) = next(&queue) {
                    let counts = guest(machine, &parts, options.keep).unwrap_or_else(|e| {
                        println!("{}: FAILED: {e}", machine.boot.name);
                        Counts { passed: 0, failed: 1 }
                    });
                    if let Ok(mut total) = total.lock() {
                        total.0 = total.0.plus(counts);
                        if counts.failed > 0 {
                            total.1.push(machine.boot.name.clone());
                        }
                    }
                }
            });
        }
    });
    let (counts, failed) = total.into_inner().map_err(|_| "a guest's thread panicked")?;
    println!("{} guests in {:.0} s", machines.len(), start.elapsed().as_secs_f64());
    println!("{} passed, {} failed", counts.passed, counts.failed);
    if counts.failed == 0 { Ok(()) } else { Err(format!("failed guests: {}", failed.join(", "))) }
}

fn next<'a>(queue: &Mutex<std::slice::Iter<'a, Machine<'a>>>) -> Option<&'a Machine<'a>> {
    queue.lock().ok()?.next()
}

/// A boot with what runs in it.
struct Machine<'a> {
    boot: Boot,
    entries: Vec<&'a Entry>,
}

/// The boots and entries that were asked for. A name finds entries of full runs, too.
fn select<'a>(list: &'a List, options: &Options) -> Result<Vec<Machine<'a>>, String> {
    let patched = options.kernel == Kernel::Patched;
    let of_kernel = || list.boots.iter().filter(|b| b.patched == patched);
    let of_boot = |boot: &Boot| -> Vec<&Entry> {
        let named = |e: &&Entry| match &options.filter {
            Some(name) if boot.name != *name => e.name().contains(name.as_str()),
            _ => options.full || !e.full,
        };
        list.entries.iter().filter(|e| e.boots.contains(&boot.name)).filter(named).collect()
    };
    let ordinary = || of_kernel().filter(|b| !b.unloaded);
    let mut machines: Vec<Machine<'_>> = match ordinary().next().filter(|_| options.own_machine()) {
        Some(first) => {
            // What is not named for it runs as in the first machine; a name finds what only others run.
            let of = ordinary().find(|b| options.filter.is_none() || !of_boot(b).is_empty()).unwrap_or(first);
            let mut boot = Boot::new("own");
            boot.cpus = options.cpus.unwrap_or(boot.cpus);
            boot.quantum = options.quantum.unwrap_or(boot.quantum);
            (boot.x2apic, boot.patched, boot.append) = (options.x2apic, patched, of.append.clone());
            boot.stand_ins = of.stand_ins.clone();
            boot.nodes = of.nodes.min(boot.most_nodes());
            vec![Machine { boot, entries: of_boot(of) }]
        }
        None => of_kernel().map(|boot| Machine { boot: boot.clone(), entries: of_boot(boot) }).collect(),
    };
    machines.retain(|m| !m.entries.is_empty());
    if machines.is_empty() {
        let boots: Vec<&str> = list.boots.iter().map(|b| b.name.as_str()).collect();
        let entries: Vec<String> = list.entries.iter().map(Entry::name).collect();
        return Err(format!(
            "nothing is named so; there are the guests {} with {}",
            boots.join(", "),
            entries.join(", ")
        ));
    }
    Ok(machines)
}

/// All that the guests are made of.
struct Parts {
    tools: Tools,
    bochs: Bochs,
    boot_files: BootFiles,
    kernel: Built,
    /// Where the module and its C programs were built.
    module: PathBuf,
    programs: BTreeMap<Program, PathBuf>,
}

fn prepare(machines: &[Machine<'_>], options: &Options) -> Result<Parts, String> {
    let wanted: BTreeSet<Program> = machines
        .iter()
        .flat_map(|m| &m.entries)
        .flat_map(|e| e.uses.iter().chain([&e.program]))
        .cloned()
        .collect();
    let c = |p: &Program| if let Program::C { file } = p { Some(file.clone()) } else { None };
    let c_programs: BTreeSet<String> = wanted.iter().filter_map(c).collect();
    let panicked = |_| "a thread panicked".to_owned();
    let (rust, parts) = std::thread::scope(|scope| {
        let rust = scope.spawn(|| binaries::rust(&wanted));
        let stand_ins = machines.iter().flat_map(|m| &m.boot.stand_ins).copied().collect();
        let parts = machinery(options.kernel, &c_programs, &stand_ins);
        (rust.join().map_err(panicked), parts)
    });
    let mut parts = parts?;
    parts.programs = rust??;
    for wish in &wanted {
        let file = match wish {
            Program::C { file } => parts.module.join(file),
            Program::Selftest { name } => {
                binaries::selftest(&parts.kernel, name, &parts.tools, &parts.module)?
            }
            Program::Script { file } => recipe(file),
            _ => continue,
        };
        parts.programs.insert(wish.clone(), file);
    }
    Ok(parts)
}

/// Everything but the Rust programs.
fn machinery(
    kernel: Kernel,
    c_programs: &BTreeSet<String>,
    stand_ins: &BTreeSet<&str>,
) -> Result<Parts, String> {
    let archive = Archive::default();
    let tools = Tools::find(&archive, kernel == Kernel::Patched)?;
    let (built, emulator, boot_files) = std::thread::scope(|scope| {
        let built = scope.spawn(|| match kernel {
            Kernel::Stock61 => kernel::stock("bookworm", &archive, &tools),
            Kernel::Stock612 => kernel::stock("trixie", &archive, &tools),
            Kernel::Patched => patched::find(&archive, &tools),
        });
        let emulator = Bochs::find(&tools, &archive);
        let boot_files = BootFiles::find(&archive);
        (built.join().map_err(|_| "a thread panicked".to_owned()), emulator, boot_files)
    });
    let built = built??;
    let module = binaries::module(&built, kernel.name(), &tools, c_programs, stand_ins)?;
    Ok(Parts {
        bochs: emulator?,
        boot_files: boot_files?,
        kernel: built,
        module,
        tools,
        programs: BTreeMap::new(),
    })
}

/// Packs a guest's image and gives its path and that of its directory.
fn pack(machine: &Machine<'_>, parts: &Parts, shell: bool) -> Result<(PathBuf, PathBuf), String> {
    let dir = binaries::work_dir().join("run").join(&machine.boot.name);
    cache::remove(&dir)?;
    cache::make_dir(&dir)?;
    let (mut entries, mut used) = (Vec::new(), Vec::new());
    for &entry in &machine.entries {
        let built = |program| {
            let file = parts.programs.get(program);
            file.cloned().ok_or_else(|| format!("{} was not built", program.file()))
        };
        entries.push((entry, built(&entry.program)?));
        if let Some(program) = &entry.uses {
            used.push((program.file(), built(program)?));
        }
    }
    let contents = Contents {
        boot: &machine.boot,
        entries: &entries,
        used: &used,
        module: &parts.module.join("module/uintr.ko"),
        stand_ins: &parts.module,
        kernel: &parts.kernel,
        shell,
    };
    Ok((image::pack(&contents, &parts.boot_files, &parts.tools, &dir)?, dir))
}

fn shell(machines: &[Machine<'_>], parts: &Parts) -> Outcome {
    let machine = machines.first().ok_or("there is no guest")?;
    let (image, dir) = pack(machine, parts, true)?;
    println!("the tests are in /t; poweroff -f ends it");
    boot::interactive(&parts.bochs, &machine.boot, &image, &dir)
}

/// Boots one guest and prints what it showed.
fn guest(machine: &Machine<'_>, parts: &Parts, keep: bool) -> Result<Counts, String> {
    let (image, dir) = pack(machine, parts, false)?;
    let boot = &machine.boot;
    let ended = boot::run(&parts.bochs, boot, &image, &dir)?;
    let mut names: Vec<String> = machine.entries.iter().map(|e| e.name()).collect();
    let module = [image::LOADS, image::UNLOADS].map(str::to_owned);
    for [loads, unloads] in
        boot.stand_ins.iter().rev().map(|name| image::loads(name)).chain((!boot.unloaded).then_some(module))
    {
        names.insert(0, loads);
        names.push(unloads);
    }
    let expected =
        judge::Expected { cpus: boot.cpus, x2apic: boot.x2apic, nodes: boot.nodes, entries: &names };
    let verdict = judge::judge(&ended.log, &expected, ended.stopped.as_deref());

    // All of a guest's lines together: others print, too.
    let mut out = String::new();
    for line in &verdict.lines {
        match &line.failure {
            None => out.push_str(&format!("{}: {} ... ok\n", boot.name, line.name)),
            Some(why) => {
                out.push_str(&format!("{}: {} ... FAILED: {why}\n", boot.name, line.name));
                for shown in tail(judge::context(&ended.log, &line.name), TAIL).lines() {
                    out.push_str(&format!("    | {shown}\n"));
                }
            }
        }
    }
    let Counts { passed, failed } = verdict.counts;
    let nodes = if boot.nodes > 1 { format!(" on {} nodes", boot.nodes) } else { String::new() };
    let what = format!("{} CPUs{nodes}, quantum {}", boot.cpus, boot.quantum);
    let time = ended.time.as_secs_f64();
    out.push_str(&format!("--- guest {} ({what}): {passed} ok, {failed} bad, {time:.1} s", boot.name));
    if failed > 0 {
        out.push_str(&format!(", {}", dir.join("serial.log").display()));
    }
    let parts: Vec<String> =
        ended.parts.iter().map(|(name, time)| format!("{name} {:.1}", time.as_secs_f64())).collect();
    out.push_str(&format!("\n    seconds: {}", parts.join(", ")));
    println!("{out}");
    if failed == 0 && !keep {
        fs::remove_file(&image)
            .or_else(|e: io::Error| if e.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(e) })
            .map_err(|e| format!("cannot remove {}: {e}", image.display()))?;
    }
    Ok(verdict.counts)
}
