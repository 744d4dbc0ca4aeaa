//! Sums that do not depend on the order of their terms (to far beyond double precision).

/// A running sum in two doubles: the rounded total and what rounding has left out.
///
/// Partial sums of partitions may be added in any order: the error stays near `2^-100` relative to
/// the sum of magnitudes, so that totals practically always round to the same double.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ExactSum {
    /// The rounded total.
    pub high: f64,
    /// What the rounded total misses.
    pub low: f64,
}

impl ExactSum {
    /// Adds one term.
    pub fn add(&mut self, value: f64) {
        self.merge(Self { high: value, low: 0.0 });
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: Self) {
        let (sum, error) = two_sum(self.high, other.high);
        let (low, low_error) = two_sum(self.low, other.low);
        let (high, rest) = two_sum(sum, error + low);
        self.high = high;
        self.low = rest + low_error;
    }

    /// The total as a double.
    pub fn total(&self) -> f64 {
        self.high + self.low
    }
}

/// `a + b` and the exact rounding error of that addition (Knuth).
pub(crate) fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let b_seen = sum - a;
    (sum, (a - (sum - b_seen)) + (b - b_seen))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn order_and_grouping_do_not_matter(mut values in prop::collection::vec(0.0f64..1e9, 1..200), cut in 0usize..200) {
            let sum = |values: &[f64]| {
                let mut total = ExactSum::default();
                values.iter().for_each(|v| total.add(*v));
                total
            };
            let forward = sum(&values).total();
            let (left, right) = values.split_at(cut.min(values.len()));
            let mut grouped = sum(right);
            grouped.merge(sum(left));
            prop_assert_eq!(grouped.total().to_bits(), forward.to_bits());
            values.reverse();
            prop_assert_eq!(sum(&values).total().to_bits(), forward.to_bits());
        }
    }
}
