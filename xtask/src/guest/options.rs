//! The command line of `cargo xtask guest`.

/// Which kernel the guest boots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// Debian 12's 6.1 for clouds, unmodified, and the module.
    Stock61,
    /// Debian 13's 6.12 for clouds, unmodified, and the module.
    Stock612,
    /// Debian 12's source with our series and every checker of the kernel's own.
    Patched,
}

impl Kernel {
    /// As on the command line, and in the names of cached files.
    pub fn name(self) -> &'static str {
        match self {
            Kernel::Stock61 => "stock",
            Kernel::Stock612 => "stock-6.12",
            Kernel::Patched => "patched",
        }
    }

    fn parse(name: &str) -> Option<Kernel> {
        [Kernel::Stock61, Kernel::Stock612, Kernel::Patched].into_iter().find(|k| k.name() == name)
    }
}

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
pub struct Options {
    pub kernel: Kernel,
    /// These three replace the boots of the list by a single one.
    pub cpus: Option<u32>,
    pub quantum: Option<u32>,
    pub x2apic: bool,
    pub shell: bool,
    /// Stresses at their full sizes.
    pub full: bool,
    /// Keep image and logs of the boots that passed, too.
    pub keep: bool,
    /// Only entries, or boots, whose name contains it.
    pub filter: Option<String>,
}

pub const USAGE: &str = "\
cargo xtask guest [--kernel stock|stock-6.12|patched] [--cpus N] [--quantum N] [--x2apic] [--shell] [--full] [--keep] [NAME]";

impl Options {
    /// Reads the command line.
    ///
    /// # Errors
    /// On an unknown option, a missing or bad value, or a second name.
    pub fn parse(words: &[&str]) -> Result<Options, String> {
        let mut options = Options {
            kernel: Kernel::Stock61,
            cpus: None,
            quantum: None,
            x2apic: false,
            shell: false,
            full: false,
            keep: false,
            filter: None,
        };
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            match *word {
                "--kernel" => {
                    let name = rest.next().ok_or("--kernel wants a name")?;
                    options.kernel =
                        Kernel::parse(name).ok_or_else(|| format!("no kernel {name}; {USAGE}"))?;
                }
                "--cpus" => options.cpus = Some(number("--cpus", rest.next(), 1..=16)?),
                // Bochs takes no other.
                "--quantum" => options.quantum = Some(number("--quantum", rest.next(), 1..=32)?),
                "--x2apic" => options.x2apic = true,
                "--shell" => options.shell = true,
                "--full" => options.full = true,
                "--keep" => options.keep = true,
                option if option.starts_with('-') => return Err(format!("unknown option {option}; {USAGE}")),
                name if options.filter.is_none() => options.filter = Some(name.to_owned()),
                name => return Err(format!("one name at most, and {name} is a second")),
            }
        }
        Ok(options)
    }

    /// Whether a machine of one's own was described, rather than those of the list.
    pub fn own_machine(&self) -> bool {
        self.cpus.is_some() || self.quantum.is_some() || self.x2apic || self.shell
    }
}

fn number(option: &str, word: Option<&&str>, range: std::ops::RangeInclusive<u32>) -> Result<u32, String> {
    let wants = || format!("{option} wants a number from {} to {}", range.start(), range.end());
    let number = word.and_then(|w| w.parse().ok()).ok_or_else(wants)?;
    if range.contains(&number) { Ok(number) } else { Err(wants()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read() {
        let all = [
            "--kernel",
            "stock-6.12",
            "--cpus",
            "4",
            "--quantum",
            "1",
            "--x2apic",
            "--keep",
            "--full",
            "rings",
        ];
        let options = Options::parse(&all).expect("valid");
        assert_eq!(
            (options.kernel, options.cpus, options.quantum, options.x2apic, options.keep),
            (Kernel::Stock612, Some(4), Some(1), true, true)
        );
        assert!(options.full);
        assert_eq!(options.filter.as_deref(), Some("rings"));
        assert!(options.own_machine() && !Options::parse(&["rings"]).expect("valid").own_machine());
    }

    #[test]
    fn bad_words_are_refused() {
        let bad: [&[&str]; 8] = [
            &["--kernel"],
            &["--kernel", "7.0"],
            &["--cpus"],
            &["--cpus", "0"],
            &["--cpus", "many"],
            &["--quantum", "33"],
            &["--fast"],
            &["a", "b"],
        ];
        for words in bad {
            assert!(Options::parse(words).is_err(), "{words:?}");
        }
    }
}
