//! `cargo xtask disasm`: the machine code of the handler path.
//!
//! Rust's text does not tell it all: `fetch_or` may become a loop, a slice index a panic, a drop a `free`. So the
//! functions that ci/wait-free.txt names, and all that they call directly, are looked at in what is tested and in what is installed:
//! - no `lock cmpxchg` whose failure jumps back before it (a lock-free loop, not wait-free);
//! - no call to what allocates, frees, panics, formats, locks or sets up thread-local storage;
//! - out of the binary only to the few functions of libc that HANDLER.md allows.
//!
//! Calls through pointers are not followed: the file names their targets too.
//!
//! The same binary's reductions are looked at for what HANDLER.md has no word of: that the compiler has vectorised them
//! ([`packed`]).

mod packed;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::cargo::{INSTALLED, program, root, target_dir};
use crate::{Outcome, child, prerequisites};

/// What a handler may call outside of the binary.
const LIBC: &[&str] = &[
    "__errno_location",
    "clock_gettime",
    "memcmp",
    "bcmp",
    "memcpy",
    "memmove",
    "memset",
    "syscall",
    "process_vm_readv",
    "process_vm_writev",
    "timer_settime",
    // Maps and unmaps a peer's memory, and copies by keys (shm-transport/src/xpmem.rs, knem.rs).
    "ioctl",
    // Asks where the signal stack is.
    "sigaltstack",
    // The default action of somebody else's signal, in the handler's last moments.
    "getpid",
    "gettid",
    "sigaction",
];

/// Where an unwind ends up. Only what panics can lead there, and that is looked for itself; a call through a pointer has
/// such a landing whatever it calls.
const LANDINGS: &[&str] = &["_Unwind_Resume", "core::panicking::panic_cannot_unwind"];

/// Parts of names that never belong in a handler.
const FORBIDDEN: &[&str] = &[
    "__rust_alloc",
    "__rust_dealloc",
    "__rust_realloc",
    "__rdl_",
    "malloc",
    "calloc",
    "realloc",
    "core::panicking",
    "std::panicking",
    "core::slice::index::slice_",
    "core::option::unwrap_failed",
    "core::option::expect_failed",
    "core::result::unwrap_failed",
    "core::fmt",
    "alloc::fmt",
    "alloc::raw_vec",
    "pthread_mutex",
    "std::sys::sync",
    "__tls_get_addr",
];

/// Checks the binary given, else builds and checks `tocsin` as it is tested, and it and the library as they are installed.
///
/// # Errors
/// Names each offence with the way to it, and each listed function that the binary does not have.
pub fn run(binary: Option<&str>) -> Outcome {
    prerequisites::program(&["objdump"], "binutils")?;
    match binary {
        Some(path) => check_binary(path),
        None => {
            check_binary(&built("release", &["-p", "tocsin-bench", "--bin", "tocsin"], "tocsin")?)?;
            let installed = ["-p", "tocsin-ffi", "-p", "tocsin-bench", "--lib", "--bins"];
            ["tocsin", "libtocsin.so"]
                .into_iter()
                .try_for_each(|file| check_binary(&built(INSTALLED, &installed, file)?))
        }
    }
}

fn check_binary(binary: &str) -> Outcome {
    println!("{binary}");
    let list = root().join("ci/wait-free.txt");
    let list = std::fs::read_to_string(&list).map_err(|e| format!("cannot read {}: {e}", list.display()))?;
    let list = List::parse(&list)?;
    let loops = root().join("ci/packed.txt");
    let loops =
        std::fs::read_to_string(&loops).map_err(|e| format!("cannot read {}: {e}", loops.display()))?;
    let loops = packed::List::parse(&loops)?;

    let limit = Duration::from_secs(120);
    let arguments = ["--disassemble", "--no-show-raw-insn", "--demangle", binary];
    let text = child::output(child::command("objdump", &arguments, limit), "objdump")?;
    let arguments = ["--dynamic-reloc", binary];
    let relocations = child::output(child::command("objdump", &arguments, limit), "objdump")?;
    let code = Code::parse(&text, &relocations);
    let report = check(&code, &list);
    println!("{} functions named, {} looked at", list.functions.len(), report.looked_at);
    if !report.offences.is_empty() {
        return Err(format!("in the handler path:\n  {}", report.offences.join("\n  ")));
    }
    println!("no cmpxchg loop, no allocation, no panic, nothing of libc but what handlers may call");
    let (reductions, offences) = packed::check(&code, &loops);
    if !offences.is_empty() {
        return Err(format!("reductions that are not packed:\n  {}", offences.join("\n  ")));
    }
    println!("{reductions} reductions looked at: packed, but for the exceptions of ci/packed.txt");
    Ok(())
}

/// Builds what these words select, and says where one file of it is.
fn built(profile: &str, what: &[&str], file: &str) -> Result<String, String> {
    let limit = Duration::from_secs(1200);
    let build = [&["build", "--profile", profile, "--locked"], what].concat();
    match child::run(child::command(&program(), &build, limit), limit).failure {
        Some(failure) => Err(format!("the build failed: {failure}")),
        None => Ok(target_dir().join(profile).join(file).to_string_lossy().into_owned()),
    }
}

/// The file of functions: one name (or a part of it that is unmistakable) a line, and exceptions as
/// `allow CALLER -> CALLEE` (the callee `cmpxchg` stands for a loop on it) with the reason in the comment above.
struct List {
    functions: Vec<String>,
    allowed: Vec<(String, String)>,
}

impl List {
    fn parse(text: &str) -> Result<List, String> {
        let mut list = List { functions: Vec::new(), allowed: Vec::new() };
        for line in text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')) {
            match line.strip_prefix("allow ") {
                None => list.functions.push(line.to_owned()),
                Some(pair) => {
                    let (caller, callee) = pair
                        .split_once(" -> ")
                        .ok_or_else(|| format!("not `allow CALLER -> CALLEE`: {line}"))?;
                    list.allowed.push((caller.trim().to_owned(), callee.trim().to_owned()));
                }
            }
        }
        if list.functions.is_empty() {
            return Err("ci/wait-free.txt names no function".to_owned());
        }
        Ok(list)
    }

    fn allows(&self, caller: &str, callee: &str) -> bool {
        self.allowed.iter().any(|(from, to)| caller.contains(from.as_str()) && callee.contains(to.as_str()))
    }
}

#[derive(Debug, PartialEq)]
struct Instruction<'a> {
    address: u64,
    name: &'a str,
    rest: &'a str,
}

impl<'a> Instruction<'a> {
    fn parse(line: &'a str) -> Option<Instruction<'a>> {
        let (address, text) = line.trim_start().split_once(":\t")?;
        let address = u64::from_str_radix(address, 16).ok()?;
        let mut text = text.trim();
        // What stands before an instruction of several: the call of __tls_get_addr in a library has two of these.
        while let Some(rest) = ["notrack ", "data16 ", "rex.W "].iter().find_map(|p| text.strip_prefix(p)) {
            text = rest.trim_start();
        }
        let (name, rest) = text.split_once(' ').unwrap_or((text, ""));
        Some(Instruction { address, name, rest: rest.trim() })
    }

    fn jumps_or_calls(&self) -> bool {
        self.name.starts_with('j') || self.name.starts_with("call")
    }

    /// The address that it jumps to or calls, if it says.
    fn target(&self) -> Option<u64> {
        if !self.jumps_or_calls() {
            return None;
        }
        u64::from_str_radix(self.rest.split_whitespace().next()?, 16).ok()
    }

    /// The entry of the dynamic linker's table that it calls through, if it does.
    fn table_entry(&self) -> Option<u64> {
        if !self.jumps_or_calls() || !self.rest.starts_with('*') {
            return None;
        }
        u64::from_str_radix(self.rest.split_once("# ")?.1.split_whitespace().next()?, 16).ok()
    }
}

struct Function<'a> {
    name: &'a str,
    body: Vec<Instruction<'a>>,
}

/// The binary: all functions by their address, and what the dynamic linker puts into its table.
struct Code<'a> {
    functions: BTreeMap<u64, Function<'a>>,
    table: BTreeMap<u64, Entry<'a>>,
}

#[derive(Clone, Copy)]
enum Entry<'a> {
    /// The address of a function of the binary.
    Inside(u64),
    /// A function of a library.
    Outside(&'a str),
}

impl<'a> Code<'a> {
    /// From `objdump --disassemble` and `objdump --dynamic-reloc`.
    fn parse(text: &'a str, relocations: &'a str) -> Code<'a> {
        let mut code = BTreeMap::new();
        let mut current: Option<(u64, Function<'a>)> = None;
        for line in text.lines() {
            let header = line.strip_suffix(">:").and_then(|l| l.split_once(" <"));
            if let Some((address, name)) = header.filter(|_| !line.starts_with(' ')) {
                if let Ok(address) = u64::from_str_radix(address, 16) {
                    code.extend(current.replace((address, Function { name, body: Vec::new() })));
                }
            } else if let (Some((_, function)), Some(instruction)) = (&mut current, Instruction::parse(line))
            {
                function.body.push(instruction);
            }
        }
        code.extend(current);
        let entry = |line: &'a str| {
            let mut columns = line.split_whitespace();
            let place = u64::from_str_radix(columns.next()?, 16).ok()?;
            let value = columns.nth(1)?;
            let entry = match value.strip_prefix("*ABS*+0x") {
                Some(address) => Entry::Inside(u64::from_str_radix(address, 16).ok()?),
                None => Entry::Outside(value.split('@').next().unwrap_or(value)),
            };
            Some((place, entry))
        };
        Code { functions: code, table: relocations.lines().filter_map(entry).collect() }
    }

    /// The function that has this address.
    fn at(&self, address: u64) -> Option<(u64, &Function<'a>)> {
        let (start, function) = self.functions.range(..=address).next_back()?;
        let end = function.body.last()?.address;
        (address <= end).then_some((*start, function))
    }
}

struct Report {
    looked_at: usize,
    offences: Vec<String>,
}

fn check(code: &Code<'_>, list: &List) -> Report {
    let mut report = Report { looked_at: 0, offences: Vec::new() };
    // Address, and the way to it.
    let mut to_do: Vec<(u64, Vec<&str>)> = Vec::new();
    for wanted in &list.functions {
        let found: Vec<_> = code.functions.iter().filter(|(_, f)| f.name.contains(wanted.as_str())).collect();
        if found.is_empty() {
            report
                .offences
                .push(format!("{wanted}: the binary has no such function; was it renamed or inlined?"));
        }
        to_do.extend(found.into_iter().map(|(address, f)| (*address, vec![f.name])));
    }
    let mut seen = BTreeSet::new();
    while let Some((address, way)) = to_do.pop() {
        let Some((start, function)) = code.at(address) else { continue };
        if !seen.insert(start) {
            continue;
        }
        report.looked_at += 1;
        let here = || way.join("\n    -> ");
        if let Some(at) = retry_loop(start, function).filter(|_| !list.allows(function.name, "cmpxchg")) {
            report.offences.push(format!("{}: cmpxchg loop at {at:x}", here()));
        }
        for callee in callees(code, start, function) {
            let (name, inside) = match callee {
                Callee::Inside(address, name) => (name, Some(address)),
                Callee::Outside(name) => (name, None),
            };
            let plain = name.split('@').next().unwrap_or(name);
            if LANDINGS.contains(&plain) || list.allows(function.name, name) {
                continue;
            }
            if FORBIDDEN.iter().any(|part| name.contains(part)) || plain == "free" {
                report.offences.push(format!("{}\n    calls {name}", here()));
            } else if let Some(address) = inside.filter(|_| !name.ends_with("@plt")) {
                let mut way = way.clone();
                way.push(name);
                to_do.push((address, way));
            } else if !LIBC.contains(&plain) {
                report
                    .offences
                    .push(format!("{}\n    calls {name}, which is not in the list of allowed ones", here()));
            }
        }
    }
    report.offences.sort();
    report.offences.dedup();
    report
}

enum Callee<'a> {
    Inside(u64, &'a str),
    Outside(&'a str),
}

fn callees<'a>(code: &Code<'a>, start: u64, function: &Function<'a>) -> Vec<Callee<'a>> {
    let mut callees = Vec::new();
    for instruction in &function.body {
        if let Some(place) = instruction.table_entry() {
            match code.table.get(&place) {
                Some(Entry::Outside(name)) => callees.push(Callee::Outside(name)),
                Some(Entry::Inside(address)) => {
                    if let Some((address, callee)) = code.at(*address) {
                        callees.push(Callee::Inside(address, callee.name));
                    }
                }
                // A pointer in some static: not followed.
                None => {}
            }
        } else if let Some((address, callee)) = instruction.target().and_then(|target| code.at(target))
            && address != start
        {
            callees.push(Callee::Inside(address, callee.name));
        }
    }
    callees
}

/// Where a compare-and-exchange is tried again until it succeeds.
fn retry_loop(start: u64, function: &Function<'_>) -> Option<u64> {
    let is_exchange = |i: &Instruction<'_>| i.name == "lock" && i.rest.starts_with("cmpxchg");
    for (at, exchange) in function.body.iter().enumerate().filter(|(_, i)| is_exchange(i)) {
        let soon = function.body.iter().skip(at + 1).take(4);
        let mut back = soon.filter(|i| i.name.starts_with('j')).filter_map(Instruction::target);
        if back.any(|target| (start..=exchange.address).contains(&target)) {
            return Some(exchange.address);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "
DYNAMIC RELOCATION RECORDS
OFFSET           TYPE              VALUE
0000000000009000 R_X86_64_GLOB_DAT  memcpy@GLIBC_2.14
0000000000009008 R_X86_64_GLOB_DAT  free@GLIBC_2.2.5
0000000000009010 R_X86_64_RELATIVE  *ABS*+0x3000
";
    const CODE: &str = "
0000000000001000 <good::entry>:
    1000:\tlock or %rax,(%rdi)
    1004:\tcall   2000 <good::inner>
    1009:\tcall   *0x2f(%rip)        # 9000 <_DYNAMIC+0x10>
    100f:\tret

0000000000002000 <good::inner>:
    2000:\tlock cmpxchg %rcx,(%rdi)
    2005:\tsete   %al
    2008:\tjne    200c <good::inner+0xc>
    200c:\tret

0000000000003000 <bad::retry>:
    3000:\tmov    %rax,%rcx
    3003:\tlock cmpxchg %rcx,(%rdi)
    3008:\tjne    3000 <bad::retry>
    300a:\tret

0000000000004000 <bad::deep>:
    4000:\tjmp    4100 <bad::helper>

0000000000004100 <bad::helper>:
    4100:\tcall   5000 <core::panicking::panic_bounds_check>
    4105:\tcall   6000 <free@plt>
    410a:\tcall   *0x2f(%rip)        # 9010 <_DYNAMIC+0x20>

0000000000005000 <core::panicking::panic_bounds_check>:
    5000:\tud2

0000000000006000 <free@plt>:
    6000:\tjmp    *0x2f(%rip)        # 9008 <free@GLIBC_2.2.5>

0000000000007000 <bad::local>:
    7000:\tdata16 lea 0x8ff8(%rip),%rdi        # 10000
    7008:\tdata16 rex.W call 7100 <__tls_get_addr@plt>

0000000000007100 <__tls_get_addr@plt>:
    7100:\tret
";

    fn offences(list: &str) -> Vec<String> {
        check(&Code::parse(CODE, TABLE), &List::parse(list).expect("a list")).offences
    }

    #[test]
    fn what_is_allowed_passes() {
        assert_eq!(offences("# a comment\ngood::entry\n"), Vec::<String>::new());
        let report = check(&Code::parse(CODE, TABLE), &List::parse("good::entry").expect("a list"));
        assert_eq!(report.looked_at, 2);
    }

    #[test]
    fn what_is_not_is_named_with_the_way_to_it() {
        assert!(offences("bad::retry")[0].contains("cmpxchg loop at 3003"));
        assert!(offences("bad::retry\nallow bad::retry -> cmpxchg").is_empty());
        let deep = offences("bad::deep");
        assert_eq!(deep.len(), 3, "{deep:?}");
        assert!(deep.iter().all(|o| o.contains("bad::deep\n    -> bad::helper")));
        assert!(
            deep.iter().any(|o| o.contains("panic_bounds_check")) && deep.iter().any(|o| o.contains("free"))
        );
        let allowed = "bad::deep\nallow bad::helper -> panic_bounds_check\nallow bad::helper -> free\nallow bad::helper -> retry";
        assert!(offences(allowed).is_empty());
    }

    #[test]
    fn a_call_behind_prefixes_is_one() {
        let local = offences("bad::local");
        assert!(local.len() == 1 && local[0].contains("__tls_get_addr"), "{local:?}");
    }

    #[test]
    fn a_function_that_is_gone_is_an_offence() {
        assert!(offences("renamed::away")[0].contains("no such function"));
        assert!(List::parse("# nothing").is_err());
        assert!(List::parse("allow x").is_err());
    }
}
