//! The guest's disk: a CD with isolinux, the kernel and an initramfs that holds all that runs.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::apt::Archive;
use super::binaries::QUANTUM;
use super::cpio::Archive as Cpio;
use super::kernel::Built;
use super::list::{Boot, Entry};
use super::tools::Tools;
use super::{cache, quietly, recipe, srat};
use crate::{Outcome, child};

/// What Bochs needs of a kernel. The time stamp counter runs at 1/1000 of `ips` in bochsrc, whatever CPUID says; Bochs
/// lacks the MSR that goes with fast short moves (feature 580); polling while idle would slow the other CPUs down.
const BOCHS: &str = "console=ttyS0,115200 tsc_early_khz=50000 clearcpuid=580 idle=halt";
/// Fewer instructions to init: 35 s become 10 s. No cipher's self-test, no certificate, no other congestion control, no
/// names for tracing and BPF.
const SHORT: &str = "cryptomgr.notests initcall_blacklist=load_system_certificate_list,cubictcp_register,\
    init_kprobe_trace,trace_eval_init,bpf_rstat_kfunc_init";
/// An oops ends the run: after it nothing can be trusted. What SENDUIPI writes no checker of the kernel's sees, so the
/// receivers' memory is poisoned when it is given back, and looked at when it is given out again.
const STRICT: &str = "panic=0 oops=panic slub_debug=FZP,uintr_receiver";

/// What every guest with the module does first and last; those with stand-ins do [the same](loads) of each within it.
pub const LOADS: &str = "module-loads";
pub const UNLOADS: &str = "module-unloads";
const LOAD: &str = "load.sh";
const UNLOAD: &str = "unload.sh";

/// The names under which a stand-in is loaded and unloaded.
pub fn loads(stand_in: &str) -> [String; 2] {
    ["loads", "unloads"].map(|what| format!("{stand_in}-{what}"))
}

/// Programs of the guest that are not ours.
pub struct BootFiles {
    dir: PathBuf,
}

impl BootFiles {
    /// Finds or fetches them.
    ///
    /// # Errors
    /// When a package cannot be had.
    pub fn find(archive: &Archive) -> Result<BootFiles, String> {
        let dir = cache::once(&cache::key("boot-files", &["1"]), |dir| {
            println!("fetching the boot loader and busybox");
            archive.suite("bookworm")?.unpack(&["busybox-static", "isolinux", "syslinux-common"], dir)
        })?;
        Ok(BootFiles { dir })
    }
}

/// What goes into one guest.
pub struct Contents<'a> {
    pub boot: &'a Boot,
    pub entries: &'a [(&'a Entry, PathBuf)],
    /// What they run besides, by its name in the guest.
    pub used: &'a [(String, PathBuf)],
    pub module: &'a Path,
    /// Where the stand-ins were built, each in a directory of its name.
    pub stand_ins: &'a Path,
    pub kernel: &'a Built,
    pub shell: bool,
}

/// Writes the image into `dir` and gives its path.
///
/// # Errors
/// When a file cannot be read or written, or xorriso fails.
pub fn pack(
    contents: &Contents<'_>,
    files: &BootFiles,
    tools: &Tools,
    dir: &Path,
) -> Result<PathBuf, String> {
    let cd = dir.join("cd");
    cache::make_dir(&cd)?;
    initramfs(contents, files, &cd.join("initrd"))?;
    cache::copy(&contents.kernel.image, &cd.join("vmlinuz"))?;
    cache::copy(&files.dir.join("usr/lib/ISOLINUX/isolinux.bin"), &cd.join("isolinux.bin"))?;
    cache::copy(&files.dir.join("usr/lib/syslinux/modules/bios/ldlinux.c32"), &cd.join("ldlinux.c32"))?;
    let append = format!("{BOCHS} {SHORT} {STRICT} {}", contents.boot.append);
    let menu = format!("DEFAULT l\nPROMPT 0\nLABEL l\n KERNEL /vmlinuz\n INITRD /initrd\n APPEND {append}\n");
    cache::write(&cd.join("isolinux.cfg"), menu)?;

    let image = dir.join("image.iso");
    let limit = Duration::from_secs(120);
    let (cd_name, image_name) = (cd.to_string_lossy(), image.to_string_lossy());
    let words = [
        "-as",
        "mkisofs",
        "-quiet",
        "-o",
        &image_name,
        "-b",
        "isolinux.bin",
        "-c",
        "boot.cat",
        "-no-emul-boot",
        "-boot-load-size",
        "4",
        "-boot-info-table",
        "-J",
        "-R",
        &cd_name,
    ];
    let mut command = child::command("xorriso", &words, limit);
    tools.add_to(&mut command);
    quietly(command, limit, &dir.join("xorriso.log"), "xorriso")?;
    cache::remove(&cd)?;
    Ok(image)
}

fn initramfs(contents: &Contents<'_>, files: &BootFiles, to: &Path) -> Outcome {
    let failed = |e: std::io::Error| format!("cannot write {}: {e}", to.display());
    let data = |file: &Path| fs::read(file).map_err(|e| format!("cannot read {}: {e}", file.display()));
    let mut archive = Cpio::new(BufWriter::new(File::create(to).map_err(failed)?));
    for name in ["bin", "dev", "etc", "k", "proc", "root", "sys", "t", "tmp"] {
        archive.directory(name).map_err(failed)?;
    }
    archive.device("dev/console", 5, 1).map_err(failed)?;
    let boot = contents.boot;
    if boot.nodes > 1 {
        for name in srat::DIRECTORIES {
            archive.directory(name).map_err(failed)?;
        }
        let table = srat::table(boot.nodes, boot.cpus, boot.memory());
        archive.file(srat::FILE, &table).map_err(failed)?;
    }
    archive.file("bin/busybox", &data(&files.dir.join("bin/busybox"))?).map_err(failed)?;
    archive.file("bin/quantum", &data(&contents.module.with_file_name(QUANTUM))?).map_err(failed)?;
    archive.file("init", &data(&recipe("init"))?).map_err(failed)?;
    archive.file("plan", plan(contents).as_bytes()).map_err(failed)?;
    archive.file("uintr.ko", &data(contents.module)?).map_err(failed)?;
    for name in &boot.stand_ins {
        let built = contents.stand_ins.join(name).join(format!("{name}.ko"));
        archive.file(&format!("{name}.ko"), &data(&built)?).map_err(failed)?;
    }
    for file in [LOAD, UNLOAD] {
        archive.file(&format!("t/{file}"), &data(&recipe(file))?).map_err(failed)?;
    }
    let mut done = Vec::new();
    let own = contents.entries.iter().map(|(entry, file)| (entry.program.file(), file));
    for (name, file) in own.chain(contents.used.iter().map(|(name, file)| (name.clone(), file))) {
        if !done.contains(&name) {
            archive.file(&format!("t/{name}"), &data(file)?).map_err(failed)?;
            done.push(name);
        }
    }
    let modules: BTreeSet<&str> =
        contents.entries.iter().flat_map(|(e, _)| &e.modules).map(String::as_str).collect();
    for name in modules {
        let kept = contents.kernel.modules.as_ref().ok_or("this kernel's own modules are not kept")?;
        archive.file(&format!("k/{name}.ko"), &data(&kept.join(format!("{name}.ko")))?).map_err(failed)?;
    }
    archive.finish().map(drop).map_err(failed)
}

/// What init is to do, in its own words.
fn plan(contents: &Contents<'_>) -> String {
    // After the boot, which would take several times as long.
    let mut plan = format!("quantum {} || poweroff -f\n", contents.boot.quantum);
    let own = |name: &str, file: &str, module: &str| format!("entry {name} 60 /t/{file} {module}\n");
    let with_module = !contents.boot.unloaded && !contents.shell;
    let stand_ins = || contents.boot.stand_ins.iter().filter(|_| !contents.shell);
    if with_module {
        plan.push_str(&own(LOADS, LOAD, "uintr"));
    }
    for name in stand_ins() {
        let [loaded, _] = loads(name);
        plan.push_str(&own(&loaded, LOAD, name));
    }
    for (entry, _) in contents.entries {
        let mut words = vec![quoted(&entry.name()), entry.limit.as_secs().to_string(), "env".to_owned()];
        words.extend(entry.environment.iter().map(|(name, value)| quoted(&format!("{name}={value}"))));
        words.push(quoted(&format!("/t/{}", entry.program.file())));
        words.extend(entry.arguments.iter().map(|a| quoted(a)));
        let verb = if contents.shell { "there" } else { "entry" };
        plan.push_str(&format!("{verb} {}\n", words.join(" ")));
    }
    for name in stand_ins().rev() {
        let [_, unloaded] = loads(name);
        plan.push_str(&own(&unloaded, UNLOAD, name));
    }
    if with_module {
        plan.push_str(&own(UNLOADS, UNLOAD, "uintr"));
    }
    if contents.shell {
        plan.push_str("shell\n");
    }
    plan
}

/// As one word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest::list::List;

    #[test]
    fn the_plan_is_what_the_list_says() {
        let text = "boot two\nboot three unloaded knem\ntest p:t in=two,three seconds=7 A=it's -- --skip x";
        let list = List::parse(text).expect("valid");
        let entries = [(&list.entries[0], PathBuf::new())];
        let (image, headers, settings) = (PathBuf::new(), PathBuf::new(), Vec::new());
        let kernel = Built { image, headers, settings, modules: None };
        let module = Path::new("");
        let of = |boot| {
            plan(&Contents {
                boot,
                entries: &entries,
                used: &[],
                module,
                stand_ins: module,
                kernel: &kernel,
                shell: false,
            })
        };
        let quantum = "quantum 16 || poweroff -f\n";
        let entry = "entry 'p-t' 7 env 'A=it'\\''s' '/t/p-t' '--skip' 'x'\n";
        let within = |name: &str, module: &str| {
            format!(
                "{quantum}entry {name}-loads 60 /t/load.sh {module}\n{entry}entry {name}-unloads 60 /t/unload.sh {module}\n"
            )
        };
        assert_eq!(of(&list.boots[0]), within("module", "uintr"));
        assert_eq!(of(&list.boots[1]), within("knem", "knem"));
    }
}
