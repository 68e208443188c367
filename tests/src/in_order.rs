//! For test programs whose processes are the program again: their ranks' entry comes before any test, and no test runs beside another.

use libtest_mimic::{Arguments, ColorSetting, Conclusion, Trial};

/// Runs those of the tests that the command line chooses, one after the other, on this thread. Without colours, unless they are asked for: who judges a guest's
/// console reads what is written there.
pub fn run(tests: &[(&str, fn())]) -> Conclusion {
    let asked = Arguments::from_args();
    let color = asked.color.or(Some(ColorSetting::Never));
    let arguments = Arguments { test_threads: Some(1), color, ..asked };
    let trial = |(name, test): &(&str, fn())| {
        let test = *test;
        Trial::test(*name, move || {
            test();
            Ok(())
        })
    };
    libtest_mimic::run(&arguments, tests.iter().map(trial).collect())
}
