//! `cargo xtask test`: every step runs, each under its own limit, whatever failed before it; the end tells all.

use std::time::{Duration, Instant};

use crate::cargo::{INSTALLED, items, metadata, program, root, target_dir, text};
use crate::child::{self, Counts, Ended};
use crate::guest::{self, Program};
use crate::{Outcome, prerequisites};

/// What to run.
#[derive(Default)]
pub struct Selection {
    deep: bool,
    on_hardware: bool,
    name: Option<String>,
}

impl Selection {
    /// Reads the command line.
    ///
    /// # Errors
    /// On an unknown option or a second name.
    pub fn parse(words: &[&str]) -> Result<Selection, String> {
        let mut selection = Selection::default();
        for word in words {
            match *word {
                "--deep" => selection.deep = true,
                "--on-hardware" => selection.on_hardware = true,
                option if option.starts_with('-') => {
                    return Err(format!(
                        "unknown option {option}; cargo xtask test [--deep] [--on-hardware] [NAME]"
                    ));
                }
                name if selection.name.is_none() => selection.name = Some(name.to_owned()),
                name => return Err(format!("one name at most, and {name} is a second")),
            }
        }
        Ok(selection)
    }
}

struct Step {
    name: String,
    program: String,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    limit: Duration,
    /// A step that must have run at least one test. Compiling alone need not.
    counts: bool,
}

impl Step {
    fn new(name: &str, minutes: u64, program: &str, arguments: &str) -> Step {
        Step {
            name: name.to_owned(),
            program: program.to_owned(),
            arguments: arguments.split_whitespace().map(str::to_owned).collect(),
            environment: Vec::new(),
            limit: Duration::from_secs(60 * minutes),
            counts: true,
        }
    }

    fn cargo(name: &str, minutes: u64, arguments: &str) -> Step {
        Step::new(name, minutes, &program(), arguments)
    }

    fn uncounted(self) -> Step {
        Step { counts: false, ..self }
    }

    fn with(mut self, name: &str, value: &str) -> Step {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    fn run(&self) -> Ended {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        let mut command = child::command(&self.program, &arguments, self.limit);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        let mut ended = child::run(command, self.limit);
        if self.counts && ended.failure.is_none() && ended.counts.passed + ended.counts.failed == 0 {
            ended.failure = Some("it ran no test".to_owned());
        }
        if ended.failure.is_none() && ended.counts.failed > 0 {
            ended.failure = Some(format!("{} tests failed", ended.counts.failed));
        }
        if ended.failure.is_some() && ended.counts.failed == 0 {
            ended.counts.failed = 1;
        }
        ended
    }
}

/// The cross-crate tests but for the steppers, which have a profile of their own.
fn cross_crate_tests() -> Result<Vec<String>, String> {
    let metadata = metadata(&["--no-deps", "--offline"])?;
    let mut names: Vec<String> = items(&metadata, "packages")
        .iter()
        .filter(|p| text(p, "name") == "tocsin-tests")
        .flat_map(|p| items(p, "targets"))
        .filter(|t| items(t, "kind").iter().any(|k| k == "test"))
        .map(|t| text(t, "name").to_owned())
        .filter(|name| !name.starts_with("step_"))
        .collect();
    names.sort();
    if names.is_empty() {
        return Err("tests/tests has no test at all".to_owned());
    }
    Ok(names)
}

/// What the guests' list has for real machines, on this one: nothing may be missing or emulated.
fn steps_on_hardware() -> Result<Vec<Step>, String> {
    let programs = target_dir().join("hardware");
    let programs = programs.to_string_lossy();
    let mut steps = vec![
        Step::new("build C tests", 5, "make", &format!("-C kernel-patches/module/tests OUT={programs}"))
            .uncounted(),
    ];
    std::fs::create_dir_all(&*programs).map_err(|e| format!("cannot make {programs}: {e}"))?;
    for entry in guest::hardware_entries()? {
        let name = entry.name();
        let mut step = match &entry.program {
            Program::Test { package, target } => {
                Step::cargo(&name, 20, &format!("test -p {package} --release --locked --test {target} --"))
            }
            Program::Lib { package } => {
                Step::cargo(&name, 20, &format!("test -p {package} --release --locked --lib --"))
            }
            Program::C { file } => Step::new(&name, 10, &format!("{programs}/{file}"), ""),
            Program::Bin { .. } | Program::Script { .. } | Program::Selftest { .. } => continue,
        };
        step.arguments.extend(entry.arguments);
        step.environment = entry.environment;
        steps.push(step.with("TOCSIN_TEST_UINTR_REQUIRED", "1"));
    }
    Ok(steps)
}

/// Tests on hardware want what they test.
fn check_hardware() -> Outcome {
    let limit = Duration::from_secs(900);
    let build_and_ask =
        ["run", "--release", "--locked", "--quiet", "--bin", "tocsin", "--", "info", "--json"];
    let told = child::output(child::command(&program(), &build_and_ask, limit), "tocsin info")?;
    let info = serde_json::from_str(&told).map_err(|e| format!("tocsin info printed no JSON: {e}"))?;
    match why_no_uintr(&info) {
        None => Ok(()),
        Some(why) => Err(format!(
            "these tests are for a machine with user interrupts, and here is none: {why}. How to load the module: \
             kernel-patches/README.md. Without such a machine: cargo xtask guest"
        )),
    }
}

/// What `tocsin info --json` says against user interrupts.
fn why_no_uintr(info: &serde_json::Value) -> Option<&str> {
    match items(info, "backends").iter().find(|b| text(b, "name") == "uintr") {
        Some(backend) if backend["usable"] == true => None,
        Some(backend) => Some(text(backend, "why_not")),
        None => Some("tocsin info does not list them"),
    }
}

fn steps(deep: bool) -> Result<Vec<Step>, String> {
    // Debug assertions and overflow checks on: a handler that would panic does so here.
    let mut steps = vec![
        Step::cargo("build crates", 15, "test --workspace --exclude tocsin-tests --locked --no-run")
            .uncounted(),
        Step::cargo("crates", 10, "test --workspace --exclude tocsin-tests --locked --no-fail-fast"),
    ];
    // What crosses crates measures times and passes much data, so it runs optimised.
    steps.push(
        Step::cargo("build cross-crate", 15, "test -p tocsin-tests --release --locked --no-run").uncounted(),
    );
    let installed =
        format!("build --profile {INSTALLED} --locked -p tocsin-ffi -p tocsin-bench --lib --bins");
    steps.push(Step::cargo("build what is installed", 15, &installed).uncounted());
    for name in cross_crate_tests()? {
        let minutes = match name.as_str() {
            // What it installs may have to be built first.
            "ffi_programs" => 15,
            // Six times what others run once; in depth an hour or two.
            "strategies" | "product_types" => 15,
            _ => 5,
        };
        steps.push(Step::cargo(
            &name,
            minutes,
            &format!("test -p tocsin-tests --release --locked --test {name}"),
        ));
    }
    steps.push(Step::new("loom", 15, "bash", "ci/loom.sh"));
    steps.push(Step::new("step", 15, "bash", "ci/step.sh"));
    let xtask = std::env::current_exe().map_err(|e| format!("cannot tell where xtask is: {e}"))?;
    let xtask = xtask.to_string_lossy();
    if deep {
        for step in &mut steps {
            step.limit *= 12;
            step.environment.push(("TOCSIN_TEST_DEEP".to_owned(), "1".to_owned()));
        }
        steps.push(Step::new("shuttle", 120, "bash", "ci/shuttle.sh"));
        steps.push(Step::new("miri", 240, "bash", "ci/miri.sh").with("TOCSIN_TEST_DEEP", "1"));
    }
    if guest::CAN_RUN {
        steps.extend(guests(deep, &xtask));
    }
    Ok(steps)
}

/// The emulated machines with user interrupts. Where nothing is cached the emulator is built first, which takes minutes.
fn guests(deep: bool, xtask: &str) -> Vec<Step> {
    if !deep {
        return vec![Step::new("guest", 25, xtask, "guest")];
    }
    vec![
        Step::new("guest", 60, xtask, "guest --full"),
        Step::new("guest, Linux 6.12", 60, xtask, "guest --full --kernel stock-6.12"),
        Step::new("guest, checked kernel", 120, xtask, "guest --full --kernel patched"),
    ]
}

fn check_prerequisites(deep: bool) -> Outcome {
    prerequisites::c_compiler()?;
    if deep {
        for component in ["miri", "rust-src"] {
            prerequisites::component("nightly", component)?;
        }
    }
    Ok(())
}

/// Runs the steps and prints what they gave. The last line is `N passed, N failed`.
///
/// # Errors
/// When a step failed, or something it needs is missing.
pub fn run(selection: &Selection) -> Outcome {
    let start = Instant::now();
    check_prerequisites(selection.deep)?;
    if selection.on_hardware {
        check_hardware()?;
    }
    let mut steps = if selection.on_hardware { steps_on_hardware()? } else { steps(selection.deep)? };
    if let Some(name) = &selection.name {
        let known: Vec<String> = steps.iter().map(|s| s.name.clone()).collect();
        steps.retain(|s| s.name.contains(name.as_str()));
        if steps.is_empty() {
            return Err(format!("no step is named like {name}; the steps are: {}", known.join(", ")));
        }
    }
    println!("{} steps in {}", steps.len(), root().display());

    let mut lines = Vec::new();
    let mut counts = Counts::default();
    let mut failures = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        println!("\n=== [{}/{}] {}", index + 1, steps.len(), step.name);
        let ended = step.run();
        counts = counts.plus(ended.counts);
        let verdict = ended.failure.as_deref().unwrap_or("ok");
        let Counts { passed, failed } = ended.counts;
        let time = ended.time.as_secs_f64();
        lines.push(format!("{:<28} {time:>7.1} s {passed:>6} {failed:>6}  {verdict}", step.name));
        if ended.failure.is_some() {
            println!("--- {} FAILED: {verdict}", step.name);
            failures.push((step.name.clone(), ended.told));
        }
    }

    for (name, told) in &failures {
        println!("\n=== {name} FAILED, having said:");
        for line in told.lines() {
            println!("{line}");
        }
    }
    println!("\n{:<28} {:>9} {:>6} {:>6}", "step", "time", "passed", "failed");
    for line in &lines {
        println!("{line}");
    }
    println!("{:<28} {:>7.1} s", "in all", start.elapsed().as_secs_f64());
    println!("{} passed, {} failed", counts.passed, counts.failed);
    if failures.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = failures.iter().map(|(name, _)| name.as_str()).collect();
    Err(format!("failed steps: {}", names.join(", ")))
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn words_are_read() {
        assert!(Selection::parse(&["--deep"]).expect("valid").deep);
        assert!(Selection::parse(&["--on-hardware"]).expect("valid").on_hardware);
        assert_eq!(Selection::parse(&["loom"]).expect("valid").name.as_deref(), Some("loom"));
        assert!(Selection::parse(&["--fast"]).is_err());
        assert!(Selection::parse(&["a", "b"]).is_err());
    }

    #[test]
    fn hardware_is_given_what_the_guests_run() {
        let steps = steps_on_hardware().expect("the list is valid");
        let of = |part: &str| steps.iter().filter(|s| s.name.contains(part)).collect::<Vec<_>>();
        for step in of("tocsin-").into_iter().chain(of("calls")) {
            assert!(
                step.environment.contains(&("TOCSIN_TEST_UINTR_REQUIRED".to_owned(), "1".to_owned())),
                "{}",
                step.name
            );
        }
        assert!(!of("uintr-sys").is_empty() && !of("conformance").is_empty() && !of("calls").is_empty());
    }

    #[test]
    fn hardware_that_is_not_there_is_told_of() {
        let none = serde_json::json!({"backends": [{"name": "signal", "usable": true},
            {"name": "uintr", "usable": false, "why_not": "this CPU has none"}]});
        assert_eq!(why_no_uintr(&none), Some("this CPU has none"));
        let some = serde_json::json!({"backends": [{"name": "uintr", "usable": true}]});
        assert_eq!(why_no_uintr(&some), None);
        assert!(why_no_uintr(&serde_json::json!({})).is_some());
    }

    #[test]
    fn a_step_that_runs_no_test_fails() {
        let silent = Step::new("silent", 1, "true", "");
        assert!(silent.run().failure.expect("no test").contains("no test"));
        assert!(silent.uncounted().run().failure.is_none());
    }

    #[test]
    fn a_failing_step_never_counts_as_no_failure() {
        assert_eq!(Step::new("broken", 1, "false", "").run().counts.failed, 1);
    }
}
