//! Worlds of threads, and what they are told.

use std::ops::RangeInclusive;

use tocsin::{Comm, Config, Error, World};

use crate::run::BACKENDS;

/// These variables, as if the environment had them and no others.
///
/// # Panics
/// When the library knows no such variable, or not such a value.
#[allow(clippy::panic)] // A test that asks for what is not there fails.
pub fn config(pairs: &[(&str, &str)]) -> Config {
    let mut config = Config::default();
    for (name, value) in pairs {
        config.set(name, value).unwrap_or_else(|error| panic!("{error}"));
    }
    config
}

/// Runs `f` on so many threads over each backend, one number after the other.
///
/// # Panics
/// On any error.
#[allow(clippy::panic)] // It is the test's result.
pub fn everywhere(numbers: RangeInclusive<u32>, f: impl Fn(Comm) -> Result<(), Error> + Sync) {
    for backend in BACKENDS {
        let config = config(&[("TOCSIN_BACKEND", &backend.to_string())]);
        for ranks in numbers.clone() {
            let ends = World::threads_with(ranks, &config, &f).and_then(|ends| ends.into_iter().collect());
            ends.unwrap_or_else(|error: Error| panic!("{backend}, {ranks} ranks: {error}"))
        }
    }
}
