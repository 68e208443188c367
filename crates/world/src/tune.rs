//! The table that `tocsin tune` writes: on this machine, from which size on a message travels how.
//!
//! # For users
//! `TOCSIN_TUNE=FILE` has a world take its thresholds from a table. What is forced by `TOCSIN_LMT`, and an eager limit that
//! `TOCSIN_EAGER_MAX` sets, go before it. Without a table the defaults hold, which need no tuning.
//!
//! # Implementation details
//! A text file of lines. The first says what it is and which version; the second on which machine it was measured; a row says,
//! for ranks of a kind and so many pairs of them that exchange messages at once: the longest message that is sent without
//! asking, the strategy for longer ones, and from which size on; below that size they go through two shared buffers.
//! The last line says how many rows there are, so that a file of which a part is missing is no table. Empty lines and those
//! that begin with `#` mean nothing.
//!
//! ```text
//! tocsin-tune 1
//! machine Intel(R) Xeon(R) Processor, 2 processors
//! process 1 16384 cma 32768
//! thread 1 16384 direct 0
//! end 2
//! ```

use std::fmt;
use std::path::{Path, PathBuf};

use crate::config::Lmt;

/// The version of the format that this library reads and writes.
pub const VERSION: u32 = 1;
/// The first word of a table.
const MAGIC: &str = "tocsin-tune";
/// Longest file in bytes that is read: far more than any table.
const LONGEST: u64 = 1 << 20;
/// The greatest eager limit: `TOCSIN_EAGER_MAX` allows no more either.
pub const EAGER_LIMIT: usize = 32 << 10;

/// What ranks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ranks {
    /// Processes.
    Processes,
    /// Threads of one process.
    Threads,
}

impl Ranks {
    fn word(self) -> &'static str {
        match self {
            Ranks::Processes => "process",
            Ranks::Threads => "thread",
        }
    }
}

/// One row: the thresholds of ranks of one kind, when so many pairs exchange messages at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// What the ranks are.
    pub ranks: Ranks,
    /// How many pairs at once, at least 1.
    pub at_once: u32,
    /// Longest message in bytes that is sent without asking the receiver first, at most [`EAGER_LIMIT`].
    pub eager_max: usize,
    /// How longer ones travel; not [`Lmt::Auto`].
    pub strategy: Lmt,
    /// From this size in bytes on; shorter ones that are not eager go through two shared buffers.
    pub from: u64,
}

/// A table of one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    machine: String,
    rows: Vec<Row>,
}

/// A table, and where it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tuning {
    /// The file.
    pub file: PathBuf,
    /// What it says.
    pub table: Table,
}

/// Why a file is no table of this machine's, in words that a person can act upon.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(String);

impl Table {
    /// A table of rows that were measured on this machine.
    ///
    /// # Errors
    /// [`Refusal`] for rows that no program would read back.
    pub fn new(rows: Vec<Row>) -> Result<Table, Refusal> {
        let table = Table { machine: machine(), rows };
        table.check().map_err(|(row, what)| Refusal(format!("row {}: {what}", row + 1)))?;
        Ok(table)
    }

    /// Reads a file. It must have been measured on a machine like this one.
    ///
    /// # Errors
    /// [`Refusal`]: it cannot be read, is no table, has another version, is of another machine, or has a wrong line.
    pub fn read(file: &Path) -> Result<Table, Refusal> {
        let refused = |error: std::io::Error| Refusal(format!("{} cannot be read: {error}", file.display()));
        // Asked first: a pipe or a terminal would be waited for.
        let about = std::fs::metadata(file).map_err(refused)?;
        if !about.is_file() || about.len() > LONGEST {
            return Err(Refusal(format!(
                "{} is no table: not a file of at most {LONGEST} bytes",
                file.display()
            )));
        }
        let text = std::fs::read(file).map_err(refused)?;
        let named = |Refusal(why)| Refusal(format!("{}: {why}", file.display()));
        let text = String::from_utf8(text).map_err(|_| named(Refusal("not a text".into())))?;
        Table::parse(&text, &machine()).map_err(named)
    }

    /// Reads a text, for the machine of this name.
    fn parse(text: &str, machine: &str) -> Result<Table, Refusal> {
        let refused = |what: String| Err(Refusal(what));
        let mut lines = text
            .lines()
            .enumerate()
            .map(|(at, line)| (at + 1, line.trim()))
            .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let version = lines.next().and_then(|(_, line)| line.strip_prefix(MAGIC)).map(str::trim);
        match version.map(str::parse::<u32>) {
            Some(Ok(VERSION)) => {}
            Some(Ok(other)) => {
                return refused(format!(
                    "its format has version {other}, this program reads {VERSION}: measure anew"
                ));
            }
            _ => {
                return refused(format!(
                    "no table of `tocsin tune`: it does not begin with `{MAGIC} {VERSION}`"
                ));
            }
        }
        let Some(name) = lines.next().and_then(|(_, line)| line.strip_prefix("machine ")).map(str::trim)
        else {
            return refused("it does not say on which machine it was measured: measure anew".into());
        };
        if name != machine {
            return refused(format!(
                "it was measured on another machine ({name}; this is {machine}): measure here"
            ));
        }
        let (mut rows, mut numbers) = (Vec::new(), Vec::new());
        let mut end = None;
        for (number, line) in lines {
            if end.is_some() {
                return refused(format!("line {number} comes after the table's end: measure anew"));
            }
            if let Some(count) = line.strip_prefix("end ") {
                end = Some(count.trim());
                continue;
            }
            match row(line) {
                Ok(row) => rows.push(row),
                Err(why) => return refused(format!("line {number} {why}: `{line}`")),
            }
            numbers.push(number);
        }
        let count = rows.len();
        if end.and_then(|said| said.parse().ok()) != Some(count) {
            return refused(format!("it is not whole: it does not end with `end {count}`: measure anew"));
        }
        let table = Table { machine: name.to_owned(), rows };
        match table.check() {
            Ok(()) => Ok(table),
            Err((row, what)) => refused(match numbers.get(row) {
                Some(number) => format!("line {number}: {what}"),
                None => what.into(),
            }),
        }
    }

    /// Whether the rows make sense, each and together; else which does not, and why.
    fn check(&self) -> Result<(), (usize, &'static str)> {
        if self.rows.is_empty() {
            return Err((0, "there are no rows"));
        }
        for (at, row) in self.rows.iter().enumerate() {
            let fits = match row.strategy {
                Lmt::Auto => false,
                Lmt::Direct => row.ranks == Ranks::Threads,
                _ => true,
            };
            if !fits {
                return Err((at, "ranks of this kind do not have this strategy"));
            }
            if row.at_once == 0 || row.eager_max > EAGER_LIMIT {
                return Err((at, "at least 1 pair at once, and an eager limit of at most 32768 bytes"));
            }
            let earlier = self.rows.iter().take(at);
            if earlier.filter(|other| other.ranks == row.ranks).any(|other| other.at_once >= row.at_once) {
                return Err((at, "rows of one kind of ranks come with more and more pairs at once"));
            }
        }
        Ok(())
    }

    /// The file's text; `notes` are lines for people, which mean nothing to who reads it.
    pub fn text(&self, notes: &str) -> String {
        let mut text = format!(
            "{MAGIC} {VERSION}\nmachine {}\n# ranks, pairs at once, longest eager message in bytes, strategy of longer ones, \
             from so many bytes on\n",
            self.machine
        );
        self.rows.iter().for_each(|row| text += &format!("{row}\n"));
        notes.lines().for_each(|line| text += &format!("# {line}\n"));
        // Last: whatever is missing at the end, this is.
        text + &format!("end {}\n", self.rows.len())
    }

    /// All rows.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The row of a world: that of as many pairs at once as its ranks make, or of the next fewer; else of the fewest.
    pub fn row(&self, ranks: Ranks, size: u32) -> Option<&Row> {
        let pairs = (size / 2).max(1);
        let of_kind = || self.rows.iter().filter(|row| row.ranks == ranks);
        of_kind().rfind(|row| row.at_once <= pairs).or_else(|| of_kind().next())
    }
}

/// `process 1 16384 cma 32768`; else what is wrong with it.
fn row(line: &str) -> Result<Row, &'static str> {
    const NONE: &str = "is no row";
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [ranks, at_once, eager_max, strategy, from] = words[..] else { return Err(NONE) };
    Ok(Row {
        ranks: match ranks {
            "process" => Ranks::Processes,
            "thread" => Ranks::Threads,
            _ => return Err(NONE),
        },
        at_once: at_once.parse().map_err(|_| NONE)?,
        eager_max: eager_max.parse().map_err(|_| NONE)?,
        strategy: Lmt::named(strategy)
            .ok_or("names a strategy that this program does not have (measure anew)")?,
        from: from.parse().map_err(|_| NONE)?,
    })
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { ranks, at_once, eager_max, strategy, from } = self;
        write!(f, "{} {at_once} {eager_max} {} {from}", ranks.word(), strategy.name())
    }
}

/// The file's text, without notes.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(""))
    }
}

/// What a table says of the machine that it was measured on: processor and number of them.
pub fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = info.lines().find(|line| line.starts_with("model name") || line.starts_with("Model"));
    let model =
        line.and_then(|line| line.split_once(':')).map_or(std::env::consts::ARCH, |(_, name)| name.trim());
    // SAFETY: no pointers.
    let processors = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    format!("{model}, {processors} processors")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &str = "a processor, 2 processors";

    fn text(rows: &str) -> String {
        let end = rows.lines().count();
        format!("tocsin-tune 1\nmachine {HERE}\n# a comment\n\n{}\nend {end}\n", rows.trim_end())
    }

    #[test]
    fn a_table_comes_back() {
        let row = |ranks, at_once, strategy| Row { ranks, at_once, eager_max: 8192, strategy, from: 32768 };
        let rows = vec![
            row(Ranks::Processes, 1, Lmt::Cma),
            row(Ranks::Threads, 1, Lmt::Direct),
            row(Ranks::Processes, 4, Lmt::Double),
        ];
        let table = Table::new(rows.clone()).unwrap();
        assert_eq!(table.rows(), rows);
        assert_eq!(Table::parse(&table.to_string(), &machine()), Ok(table.clone()));
        assert_eq!(Table::parse(&table.text("a note\nend 1"), &machine()), Ok(table));
    }

    /// Wherever a file is cut, also within a number or between two lines, what is left is no table.
    #[test]
    fn a_part_of_a_table_is_none() {
        let row = |at_once| Row {
            ranks: Ranks::Processes,
            at_once,
            eager_max: 8192,
            strategy: Lmt::Cma,
            from: 32768,
        };
        let table = Table { machine: HERE.into(), rows: (1..=12).map(row).collect() };
        let whole = table.text("a note");
        assert_eq!(Table::parse(whole.trim_end(), HERE), Ok(table));
        for length in 0..whole.trim_end().len() {
            let part = &whole[..length];
            let why = Table::parse(part, HERE).unwrap_err().to_string();
            assert!(
                part.lines().count() < 3 || why.contains("measure anew") || why.contains("no row"),
                "{why}"
            );
        }
    }

    #[test]
    fn a_world_takes_the_row_of_its_size() {
        let table =
            Table::parse(&text("process 2 0 cma 1\nprocess 8 1 double 0\nthread 1 2 direct 3\n"), HERE)
                .unwrap();
        let eager = |ranks, size| table.row(ranks, size).map(|row| row.eager_max);
        for (size, right) in [(1, 0), (2, 0), (5, 0), (15, 0), (16, 1), (1000, 1)] {
            assert_eq!(eager(Ranks::Processes, size), Some(right), "{size}");
            assert_eq!(eager(Ranks::Threads, size), Some(2));
        }
        let processes = Table::parse(&text("process 1 0 cma 1"), HERE).unwrap();
        assert_eq!(processes.row(Ranks::Threads, 4), None);
    }

    #[test]
    fn what_is_broken_old_or_foreign_says_so() {
        let version = text("process 1 0 cma 0").replace("tocsin-tune 1", "tocsin-tune 7");
        let cases = [
            ("".to_owned(), "does not begin with `tocsin-tune 1`"),
            ("\u{7f}ELF".to_owned(), "no table of `tocsin tune`"),
            ("tocsin-tune one".to_owned(), "no table of `tocsin tune`"),
            (version, "version 7, this program reads 1: measure anew"),
            ("tocsin-tune 1\nprocess 1 0 cma 0".to_owned(), "which machine"),
            (
                "tocsin-tune 1\nmachine another\nprocess 1 0 cma 0".to_owned(),
                "another machine (another; this is",
            ),
            (text(""), "no rows"),
            (text("process 1 0 cma 0\nprocess 2 0 cma"), "line 6 is no row"),
            (text("process 1 0 cma 0 0"), "no row"),
            (text("fiber 1 0 cma 0"), "no row"),
            (
                text("process 1 0 warp 0"),
                "line 5 names a strategy that this program does not have (measure anew)",
            ),
            (text("process 1 0 vmsplice 0"), "does not have (measure anew)"),
            (text("process 1 0 cma 0").replace("end 1", "end 2"), "does not end with `end 1`: measure anew"),
            (text("process 1 0 cma 0").replace("end 1", "end one"), "does not end with `end 1`"),
            (text("process 1 0 cma 0").replace("end 1", ""), "does not end with `end 1`"),
            (text("process 1 0 cma 0") + "process 2 0 cma 0", "line 7 comes after the table's end"),
            (text("process 1 -1 cma 0"), "no row"),
            (text("process 1 0 auto 0"), "line 5: ranks of this kind"),
            (text("process 1 0 direct 0"), "ranks of this kind"),
            (text("process 0 0 cma 0"), "at least 1 pair"),
            (text("process 1 32769 cma 0"), "at most 32768"),
            (text("process 2 0 cma 0\nthread 1 0 direct 0\nprocess 2 0 cma 0"), "line 7: rows of one kind"),
        ];
        for (text, says) in cases {
            let why = Table::parse(&text, HERE).unwrap_err().to_string();
            assert!(why.contains(says), "{text:?}: {why}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_is_refused() {
        for (file, says) in
            [("/no/such/file", "cannot be read"), ("/", "is no table"), ("/dev/null", "is no table")]
        {
            let why = Table::read(Path::new(file)).unwrap_err().to_string();
            assert!(why.contains(says) && why.contains(file), "{why}");
        }
    }
}
