//! The table that `tocsin tune` writes: on this machine, from which size on a message travels how, and which algorithm a
//! collective takes.
//!
//! # For users
//! `TOCSIN_TUNE=FILE` has a world take its thresholds and algorithms from a table. What is forced by `TOCSIN_LMT`, an eager limit
//! that `TOCSIN_EAGER_MAX` sets, and an algorithm that a call names, go before it. Without a table the defaults hold, which need
//! no tuning.
//!
//! Of the rows of messages a world takes those that say nothing of processors, or the one that was measured between two like its
//! own: where its ranks are bound, what lies between the farthest two of them counts (`cache`: one NUMA node and a cache that both
//! share; `node`: one NUMA node; `across`: two).
//!
//! A collective takes the rows of its operation and of its kind of ranks that were measured with the number of ranks nearest to its
//! communicator's: less than twice as many and more than half, of several the one of which the communicator's is the smaller
//! multiple or part, and of two that are as near the smaller. Of these it takes the rows for what lies between the farthest two ranks of the
//! communicator, where all of them are bound and there are such rows; else those that say nothing of that. Of these it takes the last that begins at
//! its size or below. A row that says `auto`, or an algorithm that cannot serve the call, leaves the choice to the library; so does a table without such rows.
//!
//! # Implementation details
//! A text file of lines. The first says what it is and which version; the second on which machine it was measured; a row says,
//! for ranks of a kind and so many pairs of them that exchange messages at once: the longest message that is sent without
//! asking, the strategy for longer ones, and from which size on; below that size they go through two shared buffers; and
//! perhaps what lay between the two processors, which files of versions 1 and 2 do not say. A row that begins with `collective` says,
//! for an operation on so many ranks of a kind, from which size on which algorithm is the quickest, and perhaps what lay between the farthest
//! two of them; files of version 1 have none, up to version 3 `chain` means what is called `pipelined-chain` now, and up to version 4 nothing
//! says where ranks were.
//! The last line says how many rows there are, so that a file of which a part is missing is no table. Empty lines and those
//! that begin with `#` mean nothing.
//!
//! ```text
//! tocsin-tune 5
//! machine Intel(R) Xeon(R) Processor, 2 processors
//! process 1 16384 cma 32768
//! process 1 16384 cma 65536 cache
//! thread 1 16384 direct 0
//! collective ibcast process 2 0 shm
//! collective ibcast process 2 4096 auto
//! collective ibcast process 2 65536 chain
//! collective ibcast process 2 0 binomial across
//! end 7
//! ```
//!
//! Ranks that took different algorithms would wait for each other for ever. So each says in the world's memory, before it joins, what its table
//! says of collectives (a digest of the rows of its kind of ranks): who says something else than the first rank does not join.

mod agreed;
mod collective;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::Lmt;
pub(crate) use agreed::Agreed;
pub use collective::Collective;
use tocsin_nbc::Choices;
pub use tocsin_topology::Relation;

/// The version of the format that this library writes. It reads those from [`OLDEST`] on.
pub const VERSION: u32 = 5;
/// The first version.
pub const OLDEST: u32 = 1;
/// The first that has rows of collectives, the first whose rows of messages may have a relation, the first that knows chains whose messages go whole, and
/// the first whose rows of collectives may have a relation.
const WITH_COLLECTIVES: u32 = 2;
const WITH_RELATIONS: u32 = 3;
const WITH_WHOLE_CHAINS: u32 = 4;
const WITH_PLACES_OF_COLLECTIVES: u32 = 5;
/// The first word of a table.
const MAGIC: &str = "tocsin-tune";
/// Longest file in bytes that is read: more than any table, notes included.
const LONGEST: u64 = 4 << 20;
/// Most rows of messages, and of collectives: more than a machine of 1024 cores has.
pub const MOST_ROWS: usize = 8192;
const TOO_MANY: &str = "more than 8192 rows of a kind";
const _: () = assert!(MOST_ROWS == 8192);
/// The greatest eager limit: `TOCSIN_EAGER_MAX` allows no more either.
pub const EAGER_LIMIT: usize = 32 << 10;

/// What ranks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

    fn named(word: &str) -> Option<Ranks> {
        [Ranks::Processes, Ranks::Threads].into_iter().find(|ranks| ranks.word() == word)
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
    /// What lay between the two processors of a pair; `None`: as much as can, or nothing that is known.
    pub relation: Option<Relation>,
}

impl Row {
    /// The rows of a table come in this order, and none twice.
    fn key(&self) -> (Ranks, u32, Option<Relation>) {
        (self.ranks, self.at_once, self.relation)
    }
}

/// A table of one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    machine: String,
    rows: Vec<Row>,
    /// Shared by the ranks of a process.
    collectives: Arc<[Collective]>,
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
    pub fn new(rows: Vec<Row>, collectives: Vec<Collective>) -> Result<Table, Refusal> {
        let table = Table { machine: machine(), rows, collectives: collectives.into() };
        table.check().map_err(|(row, what)| Refusal(format!("row {}: {what}", row.number() + 1)))?;
        Ok(table)
    }

    /// This table with rows that were measured anew. Of messages each takes the place of that of the same kind of ranks, pairs at
    /// once and relation, of collectives all of one operation on the same ranks take the place of those. The others stay.
    ///
    /// # Errors
    /// [`Refusal`] for rows that no program would read back, such as too many together.
    pub fn renewed(&self, rows: Vec<Row>, collectives: Vec<Collective>) -> Result<Table, Refusal> {
        let is_renewed = |old: &Row| rows.iter().any(|row| row.key() == old.key());
        let kept = self.rows.iter().filter(|old| !is_renewed(old)).copied();
        let mut all: Vec<Row> = kept.chain(rows.iter().copied()).collect();
        all.sort_by_key(Row::key);
        let is_renewed = |old: &Collective| collectives.iter().any(|row| row.is_beside(old));
        let kept = self.collectives.iter().filter(|old| !is_renewed(old)).copied();
        let collectives = kept.chain(collectives.iter().copied()).collect();
        Table::new(all, collectives)
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
        let version = match version.map(str::parse::<u32>) {
            Some(Ok(version @ OLDEST..=VERSION)) => version,
            Some(Ok(other)) => {
                return refused(format!(
                    "its format has version {other}, this program reads {OLDEST} to {VERSION}: measure anew, by `tocsin tune`"
                ));
            }
            _ => {
                return refused(format!(
                    "no table of `tocsin tune`: it does not begin with `{MAGIC} {VERSION}`"
                ));
            }
        };
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
        let (mut collectives, mut their_numbers) = (Vec::new(), Vec::new());
        let mut end = None;
        for (number, line) in lines {
            if end.is_some() {
                return refused(format!("line {number} comes after the table's end: measure anew"));
            }
            if let Some(count) = line.strip_prefix("end ") {
                end = Some(count.trim());
                continue;
            }
            match row(line, version) {
                Ok(AnyRow::Messages(row)) => {
                    rows.push(row);
                    numbers.push(number);
                }
                Ok(AnyRow::Collective(row)) => {
                    collectives.push(row);
                    their_numbers.push(number);
                }
                Err(why) => return refused(format!("line {number} {why}: `{}`", shown(line))),
            }
        }
        let count = rows.len() + collectives.len();
        if end.and_then(|said| said.parse().ok()) != Some(count) {
            return refused(format!("it is not whole: it does not end with `end {count}`: measure anew"));
        }
        let table = Table { machine: name.to_owned(), rows, collectives: collectives.into() };
        let Err((at, what)) = table.check() else { return Ok(table) };
        let number = match at {
            At::Row(at) => numbers.get(at),
            At::Collective(at) => their_numbers.get(at),
        };
        refused(number.map_or_else(|| what.into(), |number| format!("line {number}: {what}")))
    }

    /// Whether the rows make sense, each and together; else which does not, and why.
    fn check(&self) -> Result<(), (At, &'static str)> {
        if self.rows.is_empty() && self.collectives.is_empty() {
            return Err((At::Row(0), "there are no rows"));
        }
        self.check_rows().map_err(|(at, what)| (At::Row(at), what))?;
        collective::check(&self.collectives).map_err(|(at, what)| (At::Collective(at), what))
    }

    fn check_rows(&self) -> Result<(), (usize, &'static str)> {
        for (at, row) in self.rows.iter().enumerate() {
            if at >= MOST_ROWS {
                return Err((at, TOO_MANY));
            }
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
            if earlier.filter(|other| other.ranks == row.ranks).any(|other| other.key() >= row.key()) {
                return Err((
                    at,
                    "rows of one kind of ranks come with more and more pairs at once, and of as many from near to far",
                ));
            }
        }
        Ok(())
    }

    /// The file's text; `notes` are lines for people, which mean nothing to who reads it.
    pub fn text(&self, notes: &str) -> String {
        let mut text = format!(
            "{MAGIC} {VERSION}\nmachine {}\n# ranks, pairs at once, longest eager message in bytes, strategy of longer ones, \
             from so many bytes on, between processors that share a cache, share a node, or are on two (else as far apart as \
             they can be)\n",
            self.machine
        );
        self.rows.iter().for_each(|row| text += &format!("{row}\n"));
        if !self.collectives.is_empty() {
            text += "# collective, operation, ranks, how many, from so many bytes on, algorithm, where the farthest two share a cache, \
                     share a node, or are on two (else as far apart as they can be)\n";
        }
        self.collectives.iter().for_each(|row| text += &format!("{row}\n"));
        notes.lines().for_each(|line| text += &format!("# {line}\n"));
        // Last: whatever is missing at the end, this is.
        text + &format!("end {}\n", self.rows.len() + self.collectives.len())
    }

    /// All rows of messages.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// All rows of collectives.
    pub fn collectives(&self) -> &[Collective] {
        &self.collectives
    }

    /// What a communicator of `size` ranks takes, of which the farthest two have that between them; `None`: nothing was measured on as many, or on a
    /// number that is [near](self).
    pub fn choices(&self, ranks: Ranks, size: u32, relation: Option<Relation>) -> Option<Choices> {
        collective::choices(&self.collectives, ranks, size, relation)
    }

    /// A number that differs for tables by which ranks of a kind would choose differently.
    pub(crate) fn digest(&self, ranks: Ranks) -> u64 {
        collective::digest(&self.collectives, ranks)
    }

    /// The row of a world: that of as many pairs at once as its ranks make, or of the next fewer; else of the fewest. Of those the
    /// one for what [lies between](crate::Config::relation) its ranks, else the one that says nothing of that.
    pub fn row(&self, ranks: Ranks, size: u32, relation: Option<Relation>) -> Option<&Row> {
        let pairs = (size / 2).max(1);
        let fits = |row: &&Row| row.ranks == ranks && (row.relation.is_none() || row.relation == relation);
        let usable = || self.rows.iter().filter(fits);
        let fewest = usable().next()?.at_once;
        // The one for the relation comes after the one that says nothing.
        usable().rfind(|row| row.at_once <= pairs.max(fewest))
    }

    /// Whether there are rows for what lies between processors.
    pub(crate) fn knows_relations(&self) -> bool {
        let of_collectives = self.collectives.iter().any(|row| row.relation.is_some());
        of_collectives || self.rows.iter().any(|row| row.relation.is_some())
    }
}

/// Which row.
enum At {
    Row(usize),
    Collective(usize),
}

impl At {
    fn number(&self) -> usize {
        let (At::Row(at) | At::Collective(at)) = *self;
        at
    }
}

enum AnyRow {
    Messages(Row),
    Collective(Collective),
}

/// As much of a line as fits into a message.
fn shown(line: &str) -> String {
    let mut rest = line.chars();
    let mut text: String = rest.by_ref().take(100).map(|c| if c.is_control() { '?' } else { c }).collect();
    if rest.next().is_some() {
        text += "...";
    }
    text
}

/// `process 1 16384 cma 32768`, or a row of a collective; else what is wrong with it.
fn row(line: &str, version: u32) -> Result<AnyRow, &'static str> {
    const NONE: &str = "is no row";
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    if let [collective::WORD, rest @ ..] = &words[..]
        && version >= WITH_COLLECTIVES
    {
        return match rest {
            [_, _, _, _, _, _] if version < WITH_PLACES_OF_COLLECTIVES => Err(NONE),
            [before @ .., "chain"] if version < WITH_WHOLE_CHAINS => {
                Collective::parse(&[before, &["pipelined-chain"]].concat())
            }
            _ => Collective::parse(rest),
        }
        .map(AnyRow::Collective);
    }
    let (words, relation) = match words.split_last() {
        Some((relation, words)) if words.len() == 5 && version >= WITH_RELATIONS => {
            (words, Some(Relation::named(relation).ok_or(NONE)?))
        }
        _ => (&words[..], None),
    };
    let &[ranks, at_once, eager_max, strategy, from] = words else { return Err(NONE) };
    Ok(AnyRow::Messages(Row {
        ranks: Ranks::named(ranks).ok_or(NONE)?,
        at_once: at_once.parse().map_err(|_| NONE)?,
        eager_max: eager_max.parse().map_err(|_| NONE)?,
        strategy: Lmt::named(strategy)
            .ok_or("names a strategy that this program does not have (measure anew)")?,
        from: from.parse().map_err(|_| NONE)?,
        relation,
    }))
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { ranks, at_once, eager_max, strategy, from, relation } = self;
        write!(f, "{} {at_once} {eager_max} {} {from}", ranks.word(), strategy.name())?;
        relation.map_or(Ok(()), |relation| write!(f, " {relation}"))
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
mod tests;
