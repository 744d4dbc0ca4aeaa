//! How close decoded signals are, as paper 1, A.5.3 measures it.

use super::ExactSum;

/// A reconstructed value closer than this counts as correct (the paper's tolerance).
pub const DEFAULT_NECR_TOLERANCE: f64 = 1e-3;

/// Running totals over pairs of original and decoded values; totals of parts can be merged.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ErrorTotals {
    /// Sum of squared errors.
    pub squared_error: ExactSum,
    /// Sum of squared originals.
    pub squared_value: ExactSum,
    /// Sum of absolute errors.
    pub absolute_error: ExactSum,
    /// Sum of absolute originals.
    pub absolute_value: ExactSum,
    /// Values whose error is below the tolerance.
    pub correct: u64,
    /// Values compared.
    pub count: u64,
}

impl ErrorTotals {
    /// Adds one signal and its reconstruction, element by element.
    pub fn add(&mut self, pairs: impl Iterator<Item = (f64, f64)>, tolerance: f64) {
        // One rounded sum per signal, in a fixed order: only these enter the exact sums.
        let (mut squared_error, mut squared_value) = (0.0, 0.0);
        let (mut absolute_error, mut absolute_value) = (0.0, 0.0);
        for (original, decoded) in pairs {
            let error = (original - decoded).abs();
            squared_error += error * error;
            squared_value += original * original;
            absolute_error += error;
            absolute_value += original.abs();
            self.correct += u64::from(error < tolerance);
            self.count += 1;
        }
        self.squared_error.add(squared_error);
        self.squared_value.add(squared_value);
        self.absolute_error.add(absolute_error);
        self.absolute_value.add(absolute_value);
    }

    /// Adds the totals of another part.
    pub fn merge(&mut self, other: &Self) {
        self.squared_error.merge(other.squared_error);
        self.squared_value.merge(other.squared_value);
        self.absolute_error.merge(other.absolute_error);
        self.absolute_value.merge(other.absolute_value);
        self.correct += other.correct;
        self.count += other.count;
    }

    /// False where a sum has overflowed.
    pub fn is_finite(&self) -> bool {
        let sums = [self.squared_error, self.squared_value, self.absolute_error, self.absolute_value];
        sums.iter().all(|sum| sum.total().is_finite())
    }

    /// `||Y - Z||_F / ||Y||_F`; `None` where there is nothing to divide by.
    pub fn nrmse(&self) -> Option<f64> {
        ratio(self.squared_error.total(), self.squared_value.total()).map(f64::sqrt)
    }

    /// `sum |y - z| / sum |y|`; `None` where there is nothing to divide by.
    pub fn nmae(&self) -> Option<f64> {
        ratio(self.absolute_error.total(), self.absolute_value.total())
    }

    /// The number of values reconstructed to within the tolerance.
    pub fn necr(&self) -> u64 {
        self.correct
    }
}

/// Errors relative to an all-zero original: 0 if there are none, undefined otherwise.
fn ratio(error: f64, value: f64) -> Option<f64> {
    if value > 0.0 { Some(error / value) } else { (error == 0.0 && value == 0.0).then_some(0.0) }
}

/// The paper's compression ratio: values of the originals over two numbers per nonzero. It leaves
/// the dictionary out; real bytes are what files weigh.
pub fn compression_ratio(values: u64, nonzeros: u64) -> f64 {
    values as f64 / (2 * nonzeros.max(1)) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        let mut totals = ErrorTotals::default();
        totals.add([(3.0, 3.0), (-4.0, -3.0)].into_iter(), 1e-3);
        assert_eq!(totals.nrmse(), Some(0.2));
        assert_eq!(totals.nmae(), Some(1.0 / 7.0));
        assert_eq!(totals.necr(), 1);
        assert_eq!(compression_ratio(100, 5), 10.0);
    }

    #[test]
    fn zero_originals() {
        let mut totals = ErrorTotals::default();
        assert_eq!(totals.nmae(), Some(0.0));
        totals.add([(0.0, 1.0)].into_iter(), 1e-3);
        assert_eq!(totals.nmae(), None);
        assert_eq!(totals.nrmse(), None);
    }
}
