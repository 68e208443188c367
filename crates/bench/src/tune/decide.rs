//! From times to thresholds.

use crate::stats::Times;
use crate::values::Lmt;

/// Times of one way to send, by size.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    /// How large messages travel; `None`: all are sent without asking.
    pub(super) strategy: Option<Lmt>,
    /// Sizes in bytes, ascending, and their times.
    pub(super) points: Vec<(u64, f64)>,
    /// How far the times of one size lie apart.
    pub(super) spreads: Vec<Spread>,
}

/// How far the times of one size lie apart from round to round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spread {
    bytes: u64,
    rounds: u64,
    /// Of the middle half of them, as a part of the median.
    part: f64,
}

impl Spread {
    pub(super) fn of(bytes: u64, times: &Times) -> Spread {
        let part = (times.percentile(75.0) - times.percentile(25.0)) / times.median();
        Spread { bytes, rounds: times.len(), part }
    }
}

/// Fewer rounds do not tell how far apart times lie.
pub(super) const LEAST_ROUNDS: u64 = 3;
/// What divides the strategies is a tenth to a third of their time: where the middle half of the rounds lies farther apart than that, who
/// is the quicker is chance.
const MOST_SPREAD: f64 = 0.3;

/// Why times tell nothing, if they do not.
pub(super) fn noise(curves: &[Curve]) -> Option<String> {
    let all = || curves.iter().flat_map(|curve| curve.spreads.iter().map(move |spread| (curve, spread)));
    if let Some((curve, Spread { bytes, rounds, .. })) = all().find(|(_, of)| of.rounds < LEAST_ROUNDS) {
        let name = curve.name();
        return Some(format!(
            "{bytes} bytes by {name} had time for {rounds} of at least {LEAST_ROUNDS} rounds"
        ));
    }
    let (curve, worst) = all().max_by(|(_, a), (_, b)| a.part.total_cmp(&b.part))?;
    let (name, percent) = (curve.name(), worst.part * 100.0);
    let differs =
        || format!("half of the rounds of {} bytes by {name} lie {percent:.0} % apart", worst.bytes);
    // What is not a number has no time.
    (worst.part.is_nan() || worst.part > MOST_SPREAD).then(differs)
}

impl Curve {
    pub(super) fn new(strategy: Option<Lmt>) -> Curve {
        Curve { strategy, points: Vec::new(), spreads: Vec::new() }
    }

    /// Its name in rows.
    pub(super) fn name(&self) -> String {
        self.strategy.map_or_else(|| "eager".into(), |lmt| lmt.to_string())
    }

    fn at(&self, bytes: u64) -> Option<f64> {
        self.points.iter().find(|(size, _)| *size == bytes).map(|(_, time)| *time)
    }
}

/// What follows from the times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Thresholds {
    /// Longest eager message in bytes; `None`: no size was measured that tells.
    pub(super) eager_max: Option<usize>,
    /// How longer messages travel.
    pub(super) strategy: tocsin_world::Lmt,
    /// From this size in bytes on.
    pub(super) from: u64,
}

/// The strategy that copies once and is quickest at the largest size, from the size on from which it is never slower than
/// two copies; two copies if there is no such size. Eager messages as far as they are, from the smallest size on, never
/// slower than what would take their place.
pub(super) fn thresholds(curves: &[Curve]) -> Thresholds {
    let of = |strategy| curves.iter().find(|curve| curve.strategy == strategy);
    let double = of(Some(Lmt::Double));
    let largest = curves.iter().flat_map(|curve| &curve.points).map(|(size, _)| *size).max().unwrap_or(0);
    let once = curves
        .iter()
        .filter(|curve| !matches!(curve.strategy, None | Some(Lmt::Double)))
        .filter_map(|curve| Some((curve, curve.at(largest)?)))
        .min_by(|(_, a), (_, b)| a.total_cmp(b))
        .map(|(curve, _)| curve);
    let from = once.and_then(|once| first_not_slower(once, double));
    let (strategy, from) = match (once.and_then(|once| once.strategy), from) {
        (Some(lmt), Some(from)) => (lmt.of_library(), from),
        _ => (tocsin_world::Lmt::Double, 0),
    };
    // What would carry a message of this size if it were not eager.
    let otherwise = |bytes| {
        let single = once.filter(|_| strategy != tocsin_world::Lmt::Double && bytes >= from);
        single.or(double).and_then(|curve| curve.at(bytes))
    };
    let mut eager_max = None;
    for (bytes, time) in of(None).map_or(&[][..], |eager| &eager.points) {
        match otherwise(*bytes) {
            Some(other) if *time > other => {
                // Sizes below the first that was measured are not told to be slower.
                eager_max = eager_max.or(Some((bytes - 1) as usize));
                break;
            }
            _ => eager_max = Some(*bytes as usize),
        }
    }
    Thresholds { eager_max, strategy, from }
}

/// The smallest measured size from which on `once` is never slower than `double`; 0 where that is the smallest of all.
fn first_not_slower(once: &Curve, double: Option<&Curve>) -> Option<u64> {
    let Some(double) = double else { return Some(0) };
    let mut from = None;
    for (bytes, time) in once.points.iter().rev() {
        match double.at(*bytes) {
            Some(other) if *time > other => return from,
            _ => from = Some(*bytes),
        }
    }
    from.map(|_| 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tocsin_world::Lmt as Of;

    const SIZES: [u64; 4] = [4096, 16384, 65536, 1 << 20];

    fn curve(strategy: Option<Lmt>, times: &[f64]) -> Curve {
        let points = SIZES.into_iter().zip(times.iter().copied()).collect();
        Curve { points, ..Curve::new(strategy) }
    }

    fn decided(eager: &[f64], once: &[f64], double: &[f64]) -> (Option<usize>, Of, u64) {
        let curves = [curve(None, eager), curve(Some(Lmt::Cma), once), curve(Some(Lmt::Double), double)];
        let Thresholds { eager_max, strategy, from } = thresholds(&curves);
        (eager_max, strategy, from)
    }

    #[test]
    fn thresholds_are_where_the_curves_cross() {
        let double = [2.0, 5.0, 20.0, 300.0];
        assert_eq!(decided(&[1.0, 4.0], &[3.0, 6.0, 15.0, 100.0], &double), (Some(16384), Of::Cma, 65536));
        assert_eq!(decided(&[1.0, 9.0], &[3.0, 6.0, 15.0, 100.0], &double), (Some(4096), Of::Cma, 65536));
        // The single copy takes the place of eager messages where it begins.
        assert_eq!(decided(&[1.0, 4.5], &[3.0, 4.0, 15.0, 100.0], &double), (Some(4096), Of::Cma, 16384));
        assert_eq!(decided(&[1.0, 4.0], &[2.0, 5.0, 15.0, 100.0], &double), (Some(16384), Of::Cma, 0));
        assert_eq!(decided(&[3.0, 4.0], &[2.0, 5.0, 15.0, 100.0], &double), (Some(4095), Of::Cma, 0));
    }

    /// A single copy that is quicker in the middle only is no strategy for large messages.
    #[test]
    fn two_copies_where_one_is_slower_in_the_end() {
        let (eager, double) = ([1.0, 4.0], [2.0, 5.0, 20.0, 300.0]);
        assert_eq!(decided(&eager, &[1.0, 1.0, 1.0, 301.0], &double), (Some(16384), Of::Double, 0));
        let only = [curve(None, &eager), curve(Some(Lmt::Double), &double)];
        let wanted = Thresholds { eager_max: Some(16384), strategy: Of::Double, from: 0 };
        assert_eq!(thresholds(&only), wanted);
    }

    #[test]
    fn the_quickest_of_several_single_copies() {
        let curves = [
            curve(Some(Lmt::Cma), &[9.0, 9.0, 9.0, 90.0]),
            curve(Some(Lmt::Direct), &[1.0, 1.0, 1.0, 100.0]),
            curve(Some(Lmt::Double), &[5.0, 10.0, 50.0, 300.0]),
        ];
        let found = thresholds(&curves);
        assert_eq!((found.eager_max, found.from), (None, 16384));
        assert_eq!(found.strategy, Of::Cma);
    }

    #[test]
    fn nothing_measured_is_two_copies() {
        assert_eq!(thresholds(&[]), Thresholds { eager_max: None, strategy: Of::Double, from: 0 });
    }

    #[test]
    fn what_differs_from_round_to_round_is_noise() {
        let with = |rounds: &[u64]| {
            let mut times = Times::default();
            rounds.iter().for_each(|time| times.add(*time));
            let quiet = Spread { bytes: 4096, rounds: 5, part: 0.1 };
            let double = Curve { spreads: vec![quiet], ..Curve::new(Some(Lmt::Double)) };
            let eager = Curve { spreads: vec![quiet, Spread::of(65536, &times)], ..Curve::new(None) };
            noise(&[double, eager])
        };
        assert_eq!(with(&[1000, 1020, 1040, 1060, 1080]), None);
        // One that was disturbed is none too many.
        assert_eq!(with(&[1000, 1020, 1040, 1060, 9000]), None);
        let why = with(&[1000, 1020, 1040, 2000, 9000]).unwrap();
        assert!(why.starts_with("half of the rounds of 65536 bytes by eager lie 94 % apart"), "{why}");
        let why = with(&[1000, 1000]).unwrap();
        assert_eq!(why, "65536 bytes by eager had time for 2 of at least 3 rounds");
        assert_eq!(noise(&[]), None);
    }
}
