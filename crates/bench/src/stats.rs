//! Statistics of a fixed size: memory does not grow with the number of rounds.

use hdrhistogram::Histogram;

/// Significant digits of times: a thousandth is far below what any machine repeats.
const DIGITS: u8 = 3;
/// Significant digits of ratios: near 1, a hundredth decides.
const RATIO_DIGITS: u8 = 4;

/// Times in nanoseconds.
#[derive(Clone, Debug)]
pub struct Times {
    histogram: Histogram<u64>,
    sum: f64,
    sum_of_squares: f64,
    min: u64,
    max: u64,
}

impl Default for Times {
    fn default() -> Times {
        Times { histogram: histogram(DIGITS), sum: 0.0, sum_of_squares: 0.0, min: u64::MAX, max: 0 }
    }
}

fn histogram(digits: u8) -> Histogram<u64> {
    #[allow(clippy::expect_used)] // a constant argument: it cannot depend on input
    Histogram::new(digits).expect("the digits are within the 0 to 5 that hdrhistogram takes")
}

/// Adds a value; the histogram grows with the range of its values, never with their number.
fn record(histogram: &mut Histogram<u64>, value: u64) {
    #[allow(clippy::expect_used)] // cannot depend on input: a u64 always fits
    histogram.record(value).expect("the histogram resizes itself");
}

impl Times {
    /// Adds one.
    pub fn add(&mut self, ns: u64) {
        record(&mut self.histogram, ns);
        self.sum += ns as f64;
        self.sum_of_squares += (ns as f64).powi(2);
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
    }

    /// How many were added.
    pub fn len(&self) -> u64 {
        self.histogram.len()
    }

    /// Whether none was added.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The smallest; not-a-number when there is none, as for every statistic here.
    pub fn min(&self) -> f64 {
        if self.is_empty() { f64::NAN } else { self.min as f64 }
    }

    /// The greatest.
    pub fn max(&self) -> f64 {
        if self.is_empty() { f64::NAN } else { self.max as f64 }
    }

    /// The mean.
    pub fn mean(&self) -> f64 {
        self.sum / self.len() as f64
    }

    /// The sample's standard deviation.
    pub fn std(&self) -> f64 {
        let n = self.len() as f64;
        ((self.sum_of_squares - self.sum * self.sum / n) / (n - 1.0)).max(0.0).sqrt()
    }

    /// A percentile, 0 to 100.
    pub fn percentile(&self, percent: f64) -> f64 {
        if self.is_empty() {
            return f64::NAN;
        }
        // The histogram gives the end of a class, which may be above all that was added.
        self.histogram.value_at_percentile(percent).min(self.max) as f64
    }

    /// The median.
    pub fn median(&self) -> f64 {
        self.percentile(50.0)
    }

    /// Shares of the whole in classes whose bounds are given (the last class is open): for plots.
    pub fn shares(&self, bounds: &[f64]) -> Vec<f64> {
        let mut shares = vec![0.0; bounds.len()];
        for value in self.histogram.iter_recorded() {
            let at = value.value_iterated_to() as f64;
            let class = bounds.partition_point(|bound| *bound <= at).saturating_sub(1);
            shares[class] += value.count_since_last_iteration() as f64 / self.len() as f64;
        }
        shares
    }
}

/// Ratios and other numbers that may be negative, in a fixed resolution of a millionth near zero and a
/// ten-thousandth of the value far from it.
#[derive(Clone, Debug)]
pub struct Ratios {
    positive: Histogram<u64>,
    negative: Histogram<u64>,
    least: f64,
    greatest: f64,
}

/// Ratios are recorded in units of this.
const MILLIONTH: f64 = 1e-6;

impl Default for Ratios {
    fn default() -> Ratios {
        Ratios {
            positive: histogram(RATIO_DIGITS),
            negative: histogram(RATIO_DIGITS),
            least: f64::INFINITY,
            greatest: f64::NEG_INFINITY,
        }
    }
}

impl Ratios {
    /// Adds one; what is not a finite number is left out.
    pub fn add(&mut self, ratio: f64) {
        if !ratio.is_finite() {
            return;
        }
        (self.least, self.greatest) = (self.least.min(ratio), self.greatest.max(ratio));
        let units = (ratio.abs() / MILLIONTH).round() as u64;
        let side = if ratio < 0.0 { &mut self.negative } else { &mut self.positive };
        record(side, units);
    }

    /// How many were added.
    pub fn len(&self) -> u64 {
        self.positive.len() + self.negative.len()
    }

    /// Whether none was added.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A percentile, 0 to 100; not-a-number when there is none.
    pub fn percentile(&self, percent: f64) -> f64 {
        if self.is_empty() {
            return f64::NAN;
        }
        let rank = ((percent / 100.0 * self.len() as f64).ceil() as u64).clamp(1, self.len());
        let negatives = self.negative.len();
        if rank <= negatives {
            // The smallest number is the negative of greatest magnitude.
            let from_top = negatives - rank + 1;
            let units = self.negative.value_at_quantile(from_top as f64 / negatives as f64);
            // As in `Times::percentile`.
            return (-(units as f64) * MILLIONTH).max(self.least);
        }
        let units = self.positive.value_at_quantile((rank - negatives) as f64 / self.positive.len() as f64);
        // As in `Times::percentile`.
        (units as f64 * MILLIONTH).min(self.greatest)
    }

    /// The median.
    pub fn median(&self) -> f64 {
        self.percentile(50.0)
    }
}

/// Overlap of one round, from its three times.
#[derive(Clone, Copy, Debug)]
pub struct Overlap {
    /// Communication alone, the maximum over ranks.
    pub t_comm: f64,
    /// Computing alone.
    pub t_comp: f64,
    /// Both together.
    pub t_ovrl: f64,
}

impl Overlap {
    /// Denis and Trahay: 0 perfect, 1 none, above 1 worse than not trying.
    pub fn ratio(&self) -> f64 {
        (self.t_ovrl - self.t_comm.max(self.t_comp)) / self.t_comm.min(self.t_comp)
    }

    /// IMB-NBC: 100 perfect, 0 none or worse.
    pub fn rate_percent(&self) -> f64 {
        100.0 * ((self.t_comm + self.t_comp - self.t_ovrl) / self.t_comm.min(self.t_comp)).clamp(0.0, 1.0)
    }

    /// The ratio's numerator when the "both" run only computed once more: what the machine's noise alone gives.
    pub fn null_ratio(&self, t_comp_again: f64) -> f64 {
        (t_comp_again - self.t_comp) / self.t_comm.min(self.t_comp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let mut times = Times::default();
        assert!(times.mean().is_nan() && times.median().is_nan() && times.min().is_nan());
        (1..=100).for_each(|ns| times.add(ns));
        assert_eq!((times.min(), times.max(), times.mean(), times.len()), (1.0, 100.0, 50.5, 100));
        assert_eq!((times.median(), times.percentile(95.0)), (50.0, 95.0));
        assert!((times.std() - 29.01).abs() < 0.01);
        let mut long = Times::default();
        [1_234_567, 9_876_543].into_iter().for_each(|ns| long.add(ns));
        assert_eq!(long.percentile(95.0), long.max());
        let shares = times.shares(&[0.0, 10.5, 90.5]);
        for (share, wanted) in shares.iter().zip([0.10, 0.80, 0.10]) {
            assert!((share - wanted).abs() < 1e-9, "{shares:?}");
        }
    }

    #[test]
    fn ratios_of_both_signs() {
        let mut ratios = Ratios::default();
        assert!(ratios.median().is_nan());
        for ratio in [-0.5, -0.1, 0.0, 0.1, 3.0, f64::NAN, f64::INFINITY] {
            ratios.add(ratio);
        }
        assert_eq!(ratios.len(), 5);
        let near = |a: f64, b: f64| (a - b).abs() <= 0.001 * b.abs();
        assert!(near(ratios.percentile(0.0), -0.5));
        assert!(near(ratios.percentile(40.0), -0.1));
        assert!(near(ratios.median(), 0.0));
        assert!(near(ratios.percentile(80.0), 0.1));
        assert!(near(ratios.percentile(100.0), 3.0));
        // None is greater than the greatest, or less than the least.
        for rate in [100.0, -100.0] {
            let mut rates = Ratios::default();
            (0..5).for_each(|_| rates.add(rate));
            assert_eq!([0.0, 50.0, 100.0].map(|percent| rates.percentile(percent)), [rate; 3]);
        }
    }

    #[test]
    fn overlap_measures() {
        let none = Overlap { t_comm: 10.0, t_comp: 20.0, t_ovrl: 30.0 };
        assert_eq!((none.ratio(), none.rate_percent()), (1.0, 0.0));
        let perfect = Overlap { t_ovrl: 20.0, ..none };
        assert_eq!((perfect.ratio(), perfect.rate_percent()), (0.0, 100.0));
        let worse = Overlap { t_ovrl: 40.0, ..none };
        assert_eq!((worse.ratio(), worse.rate_percent()), (2.0, 0.0));
        assert_eq!(none.null_ratio(21.0), 0.1);
    }
}
