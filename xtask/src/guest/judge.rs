//! What a guest's serial log says of its tests.
//!
//! Init writes lines that begin with `MARK`: `up`, `module`, `begin NAME`, `kernel NAME`, `end NAME STATUS` and `done`. Between
//! `begin` and `end` are the lines of the test's own harness: libtest's, or `ok NAME` and `FAILED NAME: why` with a closing
//! `N passed, N failed`, or those of the kernel's own tests, `ok N NAME` and `not ok N NAME` with a closing `# Totals:`.

use crate::child::Counts;

/// What init's lines begin with.
pub const MARK: &str = "@@tocsin ";

/// What a boot has to show.
pub struct Expected<'a> {
    pub cpus: u32,
    pub x2apic: bool,
    /// NUMA nodes; of a single one nothing has to be shown, since a kernel without NUMA has none.
    pub nodes: u32,
    /// Names of the entries, in order.
    pub entries: &'a [String],
}

/// One line of the result.
#[derive(Debug, PartialEq, Eq)]
pub struct Line {
    pub name: String,
    /// `None` when it passed.
    pub failure: Option<String>,
}

/// All that a boot showed.
#[derive(Default)]
pub struct Verdict {
    pub lines: Vec<Line>,
    pub counts: Counts,
}

impl Verdict {
    fn pass(&mut self, name: &str) {
        self.counts.passed += 1;
        self.lines.push(Line { name: name.to_owned(), failure: None });
    }

    fn fail(&mut self, name: &str, why: &str) {
        self.counts.failed += 1;
        self.lines.push(Line { name: name.to_owned(), failure: Some(why.to_owned()) });
    }
}

/// Judges the log of a boot; `stopped` says why we ended it, if we did.
pub fn judge(log: &str, expected: &Expected<'_>, stopped: Option<&str>) -> Verdict {
    let mut verdict = Verdict::default();
    let panicked = log.lines().find_map(|l| l.split_once("Kernel panic - ").map(|(_, why)| why.to_owned()));
    let cut = match (&panicked, stopped) {
        (Some(why), _) => format!("the guest's kernel panicked: {why}"),
        (None, Some(why)) => why.to_owned(),
        (None, None) => "the guest ended before its last line".to_owned(),
    };

    let marks: Vec<&str> = log.lines().filter_map(|l| l.strip_prefix(MARK)).collect();
    match marks.iter().find_map(|m| m.strip_prefix("up ")) {
        Some(up) => match machine(up, expected) {
            Ok(()) => verdict.pass("boot"),
            Err(why) => verdict.fail("boot", &why),
        },
        None => verdict.fail("boot", &format!("init was not reached: {cut}")),
    }
    for name in expected.entries {
        entry(log, name, &cut, &mut verdict);
    }
    if panicked.is_some() || stopped.is_some() || !marks.contains(&"done") {
        verdict.fail("power-off", &cut);
    }
    verdict
}

/// Whether the machine is the one that was asked for.
fn machine(up: &str, expected: &Expected<'_>) -> Result<(), String> {
    let value = |name: &str| up.split(' ').find_map(|w| w.strip_prefix(name)?.strip_prefix('='));
    let apic = if expected.x2apic { "x2apic" } else { "xapic" };
    let number = |name: &str| value(name).and_then(|n| n.parse::<u32>().ok());
    let nodes = expected.nodes == 1 || number("nodes") == Some(expected.nodes);
    if number("cpus") == Some(expected.cpus) && value("apic") == Some(apic) && nodes {
        return Ok(());
    }
    let (cpus, nodes) = (expected.cpus, expected.nodes);
    Err(format!("wanted {cpus} CPUs, {nodes} NUMA nodes and {apic}, but it came up with {up}"))
}

/// The lines that an entry printed, and how it ended: `None` when it did not.
fn section<'a>(log: &'a str, name: &str) -> Option<(Vec<&'a str>, Option<&'a str>, bool)> {
    let mut lines = log.lines().skip_while(|l| {
        let begun = l.strip_prefix(MARK).and_then(|m| m.strip_prefix("begin "));
        begun.is_none_or(|b| b.split(' ').next() != Some(name))
    });
    lines.next()?;
    let (mut output, mut kernel) = (Vec::new(), false);
    for line in lines {
        let mark = line.strip_prefix(MARK).map(|m| m.split(' ').collect::<Vec<_>>());
        match mark.as_deref() {
            Some(["end", n, status, ..]) if *n == name => return Some((output, Some(status), kernel)),
            Some(["kernel", n, ..]) if *n == name => kernel = true,
            _ => output.push(line),
        }
    }
    Some((output, None, kernel))
}

/// The part of the log that tells of a line of the result: up to the end of its entry.
pub fn context<'a>(log: &'a str, line: &str) -> &'a str {
    let name = line.split("::").next().unwrap_or(line);
    let end = log.find(&format!("{MARK}end {name} ")).unwrap_or(log.len());
    &log[..end]
}

fn entry(log: &str, name: &str, cut: &str, verdict: &mut Verdict) {
    let Some((output, status, kernel)) = section(log, name) else {
        return verdict.fail(name, &format!("it never began: {cut}"));
    };
    let mut shown = Counts::default();
    let mut closing: Option<Counts> = None;
    let mut running: Option<&str> = None;
    for line in output {
        if let Some(counts) = Counts::of_line(line).or_else(|| totals(line)) {
            closing = Some(closing.unwrap_or_default().plus(counts));
            continue;
        }
        if let Some(test) = begun(line) {
            running = Some(test);
        }
        match result(line, running) {
            Some((test, None)) => {
                shown.passed += 1;
                verdict.pass(&format!("{name}::{test}"));
                running = None;
            }
            Some((test, Some(why))) => {
                shown.failed += 1;
                verdict.fail(&format!("{name}::{test}"), why);
                running = None;
            }
            None => {}
        }
    }
    let now = running.map_or_else(String::new, |test| format!(" while {test} ran"));
    let failure = match (status, closing) {
        (None, _) => Some(format!("{cut}{now}")),
        // What `timeout -s KILL` makes of its child.
        (Some("137"), _) => Some(format!("a hang: not done after its limit{now}")),
        (Some(status), None) => Some(format!("no closing line, status {status}{now}")),
        (Some(_), Some(c)) if c.passed + c.failed == 0 => Some("it ran no test".to_owned()),
        (Some(_), Some(c)) if (c.passed, c.failed) != (shown.passed, shown.failed) => Some(format!(
            "its last line says {} passed and {} failed, its other lines {} and {}",
            c.passed, c.failed, shown.passed, shown.failed
        )),
        (Some(status), Some(c)) if status != "0" && c.failed == 0 => Some(format!("status {status}")),
        _ => None,
    };
    if let Some(why) = failure {
        verdict.fail(name, &why);
    }
    if kernel {
        verdict.fail(name, "the guest's kernel complained");
    }
}

/// The closing line of the kernel's own tests. What was left out, or ended otherwise than it should, is a failure here.
fn totals(line: &str) -> Option<Counts> {
    let mut counts = Counts::default();
    for word in line.strip_prefix("# Totals: ")?.split_whitespace() {
        let (kind, number) = word.split_once(':')?;
        let number: u64 = number.parse().ok()?;
        *(if kind == "pass" { &mut counts.passed } else { &mut counts.failed }) += number;
    }
    Some(counts)
}

/// `N NAME` of a result's line, the name alone.
fn unnumbered(rest: &str) -> Option<&str> {
    let (number, name) = rest.split_once(' ')?;
    number.parse::<u32>().ok().map(|_| name)
}

/// The name of the test that a line of libtest says to begin.
fn begun(line: &str) -> Option<&str> {
    let (name, _) = line.strip_prefix("test ")?.split_once(" ...")?;
    Some(name.strip_suffix(" - should panic").unwrap_or(name))
}

/// A line that tells one test's result. libtest's may be apart from the name: what the test prints comes between.
fn result<'a>(line: &'a str, running: Option<&'a str>) -> Option<(&'a str, Option<&'a str>)> {
    if let Some((test, why)) = line.strip_prefix("FAILED ").and_then(|rest| rest.split_once(": ")) {
        return Some((test, Some(why)));
    }
    if let Some(test) = line.strip_prefix("not ok ").and_then(unnumbered) {
        return Some((test, Some("see its output")));
    }
    if let Some(test) = line.strip_prefix("ok ") {
        let test = unnumbered(test).unwrap_or(test);
        // It was left out: all that a guest is given has to run.
        return Some((test, test.contains(" # SKIP").then_some("skipped")));
    }
    let test = running?;
    let word = line.rsplit_once("... ").map_or(line, |(_, last)| last);
    // Harnesses of our own add the time, and why.
    if word == "ok" || word.starts_with("ok (") {
        return Some((test, None));
    }
    let why = word.strip_prefix("FAILED")?;
    Some((test, Some(why.strip_prefix(": ").unwrap_or("see its output"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UP: &str = "@@tocsin up release=6.1 cpus=2 nodes=1 apic=xapic\n";

    fn of(log: &str, entries: &[&str], stopped: Option<&str>) -> Verdict {
        let entries: Vec<String> = entries.iter().map(|&e| e.to_owned()).collect();
        judge(log, &Expected { cpus: 2, x2apic: false, nodes: 1, entries: &entries }, stopped)
    }

    fn numbers(verdict: &Verdict) -> (u64, u64) {
        (verdict.counts.passed, verdict.counts.failed)
    }

    fn failures(verdict: &Verdict) -> String {
        let told = |l: &Line| l.failure.as_ref().map(|why| format!("{}: {why}\n", l.name));
        verdict.lines.iter().filter_map(told).collect()
    }

    #[test]
    fn both_harnesses_are_read() {
        let log = format!(
            "{UP}@@tocsin begin a 1.0\nrunning 3 tests\ntest x ... ok\ntest y - should panic ... noise\nok\ntest z ... ignored\n\
             test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured\n@@tocsin end a 0 2.0\n\
             @@tocsin begin b 2.0\nok one\nok two\n2 passed, 0 failed\n@@tocsin end b 0 3.0\n@@tocsin done\n"
        );
        let verdict = of(&log, &["a", "b"], None);
        assert_eq!(numbers(&verdict), (5, 0), "{}", failures(&verdict));
        let names: Vec<&str> = verdict.lines.iter().map(|l| l.name.as_str()).collect();
        assert_eq!(names, ["boot", "a::x", "a::y", "b::one", "b::two"]);
    }

    #[test]
    fn the_kernels_own_tests_are_read() {
        let log = |lines: &str, totals: &str, status: u32| {
            format!(
                "{UP}@@tocsin begin a\nTAP version 13\n1..2\n{lines}# Totals: {totals}\n@@tocsin end a {status}\n@@tocsin done\n"
            )
        };
        let good = of(
            &log("ok 1 one\n# said\nok 2 two\n", "pass:2 fail:0 xfail:0 xpass:0 skip:0 error:0", 0),
            &["a"],
            None,
        );
        assert_eq!((numbers(&good), good.lines[1].name.as_str()), ((3, 0), "a::one"), "{}", failures(&good));
        let bad = of(
            &log("not ok 1 one\nok 2 two # SKIP\n", "pass:0 fail:1 xfail:0 xpass:0 skip:1 error:0", 1),
            &["a"],
            None,
        );
        assert_eq!(numbers(&bad), (1, 2));
        assert!(failures(&bad).contains("a::two # SKIP: skipped"));
    }

    #[test]
    fn failures_are_told() {
        let log = format!(
            "{UP}@@tocsin begin a\ntest x ... FAILED\ntest result: FAILED. 0 passed; 1 failed\n@@tocsin end a 101\n\
             @@tocsin begin b\nFAILED one: no ring\n0 passed, 1 failed\n@@tocsin end b 1\n@@tocsin done\n"
        );
        let verdict = of(&log, &["a", "b"], None);
        assert_eq!(numbers(&verdict), (1, 2));
        assert!(failures(&verdict).contains("b::one: no ring"));
    }

    #[test]
    fn a_hang_a_crash_and_silence_are_failures() {
        let log = format!(
            "{UP}@@tocsin begin a\ntest x ... \n@@tocsin end a 137\n@@tocsin begin b\nok one\n@@tocsin end b 139\n\
             @@tocsin begin c\n0 passed, 0 failed\n@@tocsin end c 0\n@@tocsin begin d\nok one\n1 passed, 0 failed\n@@tocsin end d 3\n@@tocsin done\n"
        );
        let told = failures(&of(&log, &["a", "b", "c", "d", "e"], None));
        for part in [
            "a: a hang: not done after its limit while x ran",
            "b: no closing line, status 139",
            "c: it ran no test",
            "d: status 3",
            "e: it never began",
        ] {
            assert!(told.contains(part), "{part} is not in {told}");
        }
    }

    #[test]
    fn a_line_that_was_lost_is_noticed() {
        let log =
            format!("{UP}@@tocsin begin a\nok one\n2 passed, 0 failed\n@@tocsin end a 0\n@@tocsin done\n");
        assert!(failures(&of(&log, &["a"], None)).contains("says 2 passed"));
    }

    #[test]
    fn a_panic_is_told_by_its_words() {
        let log = format!("{UP}@@tocsin begin a\n[ 1.0] Kernel panic - not syncing: Fatal exception\n");
        let verdict = of(&log, &["a", "b"], None);
        assert_eq!(numbers(&verdict), (1, 3));
        assert!(failures(&verdict).contains("a: the guest's kernel panicked: not syncing: Fatal exception"));
    }

    #[test]
    fn a_log_that_stops_is_a_failure() {
        assert_eq!(numbers(&of("", &["a"], None)), (0, 3));
        let told =
            failures(&of(&format!("{UP}@@tocsin begin a\ntest x ... "), &["a"], Some("no line for 60 s")));
        assert!(told.contains("a: no line for 60 s while x ran"), "{told}");
    }

    #[test]
    fn complaints_of_the_kernel_are_failures() {
        let log = format!(
            "{UP}@@tocsin begin a\nok one\n1 passed, 0 failed\n@@tocsin kernel a\nWARNING: here\n@@tocsin end a 0\n@@tocsin done\n"
        );
        assert!(failures(&of(&log, &["a"], None)).contains("a: the guest's kernel complained"));
    }

    #[test]
    fn another_machine_than_asked_for_is_a_failure() {
        let log = "@@tocsin up release=6.1 cpus=1 apic=xapic\n@@tocsin done\n";
        assert!(failures(&of(log, &[], None)).contains("wanted 2 CPUs"));
        assert!(
            failures(&of(&log.replace("cpus=1", "cpus=2").replace("xapic", "x2apic"), &[], None))
                .contains("xapic")
        );
    }

    #[test]
    fn a_machine_of_other_nodes_is_a_failure() {
        let boot = |log: &str, nodes| {
            let expected = Expected { cpus: 2, x2apic: false, nodes, entries: &[] };
            numbers(&judge(&format!("{log}@@tocsin done\n"), &expected, None)) == (1, 0)
        };
        let two = UP.replace("nodes=1", "nodes=2");
        assert!(boot(&two, 2) && !boot(UP, 2) && boot(UP, 1));
        assert!(boot(&UP.replace("nodes=1 ", ""), 1), "a kernel without NUMA");
    }

    #[test]
    fn names_that_begin_alike_are_not_mixed_up() {
        let log = format!(
            "{UP}@@tocsin begin ab\nok x\n1 passed, 0 failed\n@@tocsin end ab 0\n@@tocsin begin a\nok y\n1 passed, 0 failed\n\
             @@tocsin end a 0\n@@tocsin done\n"
        );
        let verdict = of(&log, &["a", "ab"], None);
        assert_eq!(numbers(&verdict), (3, 0));
        assert_eq!(verdict.lines[1].name, "a::y");
    }
}
