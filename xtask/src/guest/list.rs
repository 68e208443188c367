//! The list of what runs in which guest, `kernel-patches/guest/tests.txt`.

use std::time::Duration;

/// Modules that stand in for those that cannot be had, for tests alone: directories of `kernel-patches`, words of a boot.
pub const STAND_INS: [&str; 2] = ["xpmem", "knem"];

/// A machine to boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boot {
    pub name: String,
    pub cpus: u32,
    /// How many instructions a CPU runs before it is the next one's turn.
    pub quantum: u32,
    pub x2apic: bool,
    /// NUMA nodes that its kernel is told of.
    pub nodes: u32,
    /// Added to the kernel's command line.
    pub append: String,
    /// On the patched kernel, rather than on a stock one.
    pub patched: bool,
    /// The module is not loaded by init: an entry does it, or shows that it cannot be.
    pub unloaded: bool,
    /// Those of [`STAND_INS`] that are loaded by init.
    pub stand_ins: Vec<&'static str>,
}

impl Boot {
    pub fn new(name: &str) -> Boot {
        Boot {
            name: name.to_owned(),
            cpus: 2,
            quantum: 16,
            x2apic: false,
            nodes: 1,
            append: String::new(),
            patched: false,
            unloaded: false,
            stand_ins: Vec::new(),
        }
    }

    /// In MiB. The checkers of the patched kernel keep a shadow of all of it.
    pub fn memory(&self) -> u32 {
        if self.patched { 1024 } else { 512 }
    }

    /// The emulated processors have second-level caches two by two, and a kernel complains of a cache on two nodes.
    pub fn most_nodes(&self) -> u32 {
        (self.cpus / 2).max(1)
    }

    fn parse(words: &[&str]) -> Result<Boot, String> {
        let (name, settings) = words.split_first().ok_or("a boot wants a name")?;
        let mut boot = Boot::new(name);
        for word in settings {
            match word.split_once('=') {
                None if *word == "x2apic" => boot.x2apic = true,
                None if *word == "patched" => boot.patched = true,
                None if *word == "unloaded" => boot.unloaded = true,
                None if STAND_INS.contains(word) => {
                    boot.stand_ins.extend(STAND_INS.iter().filter(|name| *name == word));
                }
                Some(("cpus", n)) => boot.cpus = number(n)?,
                Some(("nodes", n)) => boot.nodes = number(n)?,
                Some(("quantum", n)) => {
                    boot.quantum = number(n)?;
                    if boot.quantum > 32 {
                        return Err(format!("a quantum is a number from 1 to 32, and {n} is more"));
                    }
                }
                Some(("append", text)) => {
                    boot.append.push_str(text);
                    boot.append.push(' ');
                }
                _ => return Err(format!("a boot has no setting {word}")),
            }
        }
        if boot.nodes > boot.most_nodes() {
            return Err("a node wants two CPUs".to_owned());
        }
        Ok(boot)
    }
}

/// Where an entry's program comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Program {
    /// An integration test of a package.
    Test { package: String, target: String },
    /// The unit tests of a package's library.
    Lib { package: String },
    /// A program of a package.
    Bin { package: String, target: String },
    /// A C program of `kernel-patches/module/tests`.
    C { file: String },
    /// The tests of that name among the patched kernel's own, `tools/testing/selftests`.
    Selftest { name: String },
    /// A shell script of `kernel-patches/guest`.
    Script { file: String },
}

impl Program {
    fn parse(kind: &str, what: &str) -> Result<Program, String> {
        let target = || {
            let (package, target) =
                what.split_once(':').ok_or_else(|| format!("{kind} wants PACKAGE:TARGET, not {what}"))?;
            Ok::<_, String>((package.to_owned(), target.to_owned()))
        };
        match kind {
            "test" => target().map(|(package, target)| Program::Test { package, target }),
            "bin" => target().map(|(package, target)| Program::Bin { package, target }),
            "lib" => Ok(Program::Lib { package: what.to_owned() }),
            "c" => Ok(Program::C { file: what.to_owned() }),
            "selftest" => Ok(Program::Selftest { name: what.to_owned() }),
            "sh" => Ok(Program::Script { file: what.to_owned() }),
            _ => Err(format!("no kind of line is called {kind}")),
        }
    }

    /// The name of its file in the guest.
    pub fn file(&self) -> String {
        match self {
            Program::Test { package, target } | Program::Bin { package, target } => {
                format!("{package}-{target}")
            }
            Program::Lib { package } => format!("{package}-unit"),
            Program::Selftest { name } => format!("selftest-{name}"),
            Program::C { file } | Program::Script { file } => file.clone(),
        }
    }
}

/// A program that runs in some of the guests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub program: Program,
    /// What tells it from other runs of the same program.
    pub label: String,
    /// Names of boots.
    pub boots: Vec<String>,
    /// Of the guest's clock.
    pub limit: Duration,
    pub environment: Vec<(String, String)>,
    pub arguments: Vec<String>,
    /// For a real machine with user interrupts, too, and for its ordinary users.
    pub hardware: bool,
    /// For full runs alone.
    pub full: bool,
    /// Modules of the stock kernel's own that it wants to find in /k.
    pub modules: Vec<String>,
    /// An integration test that a script runs, too, as it likes.
    pub uses: Option<Program>,
}

/// `SIZE/FACTOR` as the size that a run takes; anything else as it is.
fn size(text: &str, full: bool) -> String {
    match text.split_once('/').map(|(size, factor)| (size.parse::<u64>(), factor.parse::<u64>())) {
        Some((Ok(size), Ok(factor @ 1..))) => (if full { size } else { size / factor }).to_string(),
        _ => text.to_owned(),
    }
}

impl Entry {
    /// Its name in what is printed.
    pub fn name(&self) -> String {
        let file = self.program.file();
        if self.label.is_empty() { file } else { format!("{file}[{}]", self.label) }
    }

    /// With the sizes of a full run, or of an ordinary one.
    #[must_use]
    pub fn sized(mut self, full: bool) -> Entry {
        for (_, value) in &mut self.environment {
            *value = size(value, full);
        }
        for argument in &mut self.arguments {
            if let Some((name, value)) = argument.split_once('=') {
                *argument = format!("{name}={}", size(value, full));
            }
        }
        self
    }

    fn parse(kind: &str, words: &[&str]) -> Result<Entry, String> {
        let (what, settings) = words.split_first().ok_or_else(|| format!("{kind} of what?"))?;
        let mut entry = Entry {
            program: Program::parse(kind, what)?,
            label: String::new(),
            boots: Vec::new(),
            limit: Duration::ZERO,
            environment: Vec::new(),
            arguments: Vec::new(),
            hardware: false,
            full: false,
            modules: Vec::new(),
            uses: None,
        };
        let mut settings = settings.iter();
        for word in settings.by_ref() {
            match word.split_once('=') {
                None if *word == "--" => break,
                None if *word == "hardware" => entry.hardware = true,
                None if *word == "full" => entry.full = true,
                Some(("in", boots)) => entry.boots = boots.split(',').map(str::to_owned).collect(),
                Some(("seconds", n)) => entry.limit = Duration::from_secs(number(n)?.into()),
                Some(("label", label)) => entry.label = label.to_owned(),
                Some(("uses", test)) => entry.uses = Some(Program::parse("test", test)?),
                Some(("modules", names)) => entry.modules = names.split(',').map(str::to_owned).collect(),
                Some((name, value)) if name.starts_with(|c: char| c.is_ascii_uppercase()) => {
                    entry.environment.push((name.to_owned(), value.to_owned()));
                }
                _ => return Err(format!("an entry has no setting {word}")),
            }
        }
        entry.arguments = settings.map(|&word| word.to_owned()).collect();
        if entry.boots.is_empty() || entry.limit.is_zero() {
            return Err(format!("{} says not in= which boots or how many seconds=", entry.name()));
        }
        Ok(entry)
    }
}

fn number(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(n) if n > 0 => Ok(n),
        _ => Err(format!("{text} is no number above 0")),
    }
}

/// The whole list.
#[derive(Debug, Default)]
pub struct List {
    pub boots: Vec<Boot>,
    pub entries: Vec<Entry>,
}

impl List {
    /// Reads the list's text.
    ///
    /// # Errors
    /// On a line that cannot be read, a boot or entry that comes twice, an entry in a boot that there is not, and a
    /// boot without an entry: with the line's number.
    pub fn parse(text: &str) -> Result<List, String> {
        let mut list = List::default();
        for (index, line) in text.lines().enumerate() {
            let line = line.split_once('#').map_or(line, |(line, _)| line);
            let words: Vec<&str> = line.split_whitespace().collect();
            list.line(&words).map_err(|e| format!("line {}: {e}", index + 1))?;
        }
        let idle = |b: &&Boot| !list.entries.iter().any(|e| e.boots.contains(&b.name));
        match list.boots.iter().find(idle) {
            Some(boot) => Err(format!("nothing runs in boot {}", boot.name)),
            None => Ok(list),
        }
    }

    fn line(&mut self, words: &[&str]) -> Result<(), String> {
        match words {
            [] => {}
            ["boot", rest @ ..] => {
                let boot = Boot::parse(rest)?;
                if self.boots.iter().any(|b| b.name == boot.name) {
                    return Err(format!("boot {} is there twice", boot.name));
                }
                self.boots.push(boot);
            }
            [kind, rest @ ..] => {
                let entry = Entry::parse(kind, rest)?;
                if let Some(b) =
                    entry.boots.iter().find(|&b| !self.boots.iter().any(|known| known.name == *b))
                {
                    return Err(format!("no boot is called {b}"));
                }
                let twice =
                    |e: &&Entry| e.name() == entry.name() && e.boots.iter().any(|b| entry.boots.contains(b));
                if self.entries.iter().any(|e| twice(&e)) {
                    return Err(format!("{} runs twice in a boot: give each a label", entry.name()));
                }
                self.entries.push(entry);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read() {
        let text = "# comment\nboot two cpus=2 # and more\nboot fine cpus=4 quantum=1 x2apic xpmem append=a=b append=c\n\
                    test p:t in=two,fine seconds=30 hardware A_B=c=d -- --skip x\nlib p in=two seconds=1\n\
                    c storm label=10 in=two seconds=9 full modules=a,b -- 10\nsh s.sh in=two seconds=9 uses=p:u";
        let list = List::parse(text).expect("valid");
        let fine = &list.boots[1];
        assert_eq!((fine.cpus, fine.quantum, fine.x2apic, fine.append.as_str()), (4, 1, true, "a=b c "));
        assert_eq!((fine.stand_ins.as_slice(), list.boots[0].stand_ins.len()), (&["xpmem"][..], 0));
        let first = &list.entries[0];
        assert_eq!((first.name().as_str(), first.limit.as_secs()), ("p-t", 30));
        assert_eq!(first.environment, [("A_B".to_owned(), "c=d".to_owned())]);
        assert_eq!(first.arguments, ["--skip", "x"]);
        assert!(first.hardware && !list.entries[1].hardware);
        assert!(!first.full && list.entries[2].full);
        assert_eq!(list.entries[2].modules, ["a", "b"]);
        assert_eq!(list.entries[2].name(), "storm[10]");
        assert_eq!(list.entries[3].uses, Some(Program::Test { package: "p".into(), target: "u".into() }));
        assert_eq!(list.entries[2].uses, None);
    }

    #[test]
    fn sizes_are_scaled() {
        let text = "boot two\nc rings in=two seconds=9 N=1000/10 PATH=/a/b -- ROUNDS=20/5 MODULE=/u.ko 6/2";
        let entry = |full| List::parse(text).expect("valid").entries.remove(0).sized(full);
        let (part, full) = (entry(false), entry(true));
        let values = |e: &Entry| e.environment.iter().map(|(_, v)| v.clone()).collect::<Vec<_>>();
        assert_eq!(
            (values(&part), values(&full)),
            (vec!["100".into(), "/a/b".into()], vec!["1000".into(), "/a/b".into()])
        );
        assert_eq!(part.arguments, ["ROUNDS=4", "MODULE=/u.ko", "6/2"]);
        assert_eq!(full.arguments, ["ROUNDS=20", "MODULE=/u.ko", "6/2"]);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for bad in [
            "boot",
            "boot two cpus=0",
            "boot two quantum=33",
            "boot two colour=red",
            "boot two cpus=2 nodes=2",
            "boot two\nboot two",
            "boot two\ntest p in=two seconds=1",
            "boot two\nlib p in=two",
            "boot two\nlib p seconds=1",
            "boot two\nlib p in=three seconds=1",
            "boot two\nfoo p in=two seconds=1",
            "boot two\nsh s.sh in=two seconds=1 uses=p",
            "boot two\nlib p in=two seconds=1\nlib p in=two seconds=2",
        ] {
            assert!(List::parse(bad).expect_err(bad).starts_with("line "), "{bad}");
        }
        assert!(List::parse("boot two").expect_err("idle").contains("nothing runs"));
    }

    #[test]
    fn the_list_of_the_project_is_valid() {
        let list = List::parse(include_str!("../../../kernel-patches/guest/tests.txt")).expect("valid");
        assert!(list.boots.iter().any(|b| b.x2apic) && list.boots.iter().any(|b| b.cpus == 4));
        assert!(list.boots.iter().any(|b| b.nodes == 2));
    }
}
