//! From times to thresholds.

use crate::values::Lmt;

/// Times of one way to send, by size.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    /// How large messages travel; `None`: all are sent without asking.
    pub(super) strategy: Option<Lmt>,
    /// Sizes in bytes, ascending, and their times.
    pub(super) points: Vec<(u64, f64)>,
}

impl Curve {
    pub(super) fn new(strategy: Option<Lmt>) -> Curve {
        Curve { strategy, points: Vec::new() }
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
        Curve { strategy, points: SIZES.into_iter().zip(times.iter().copied()).collect() }
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
}
