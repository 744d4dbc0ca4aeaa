//! What codes alone leave of the values: this is what tells that a dictionary ages.

use super::error_sums::{LANES, rounded, sum};

/// Digits of what codes leave, where it is recorded and compared.
pub(super) const SHARE_DIGITS: usize = 5;

/// The largest share that is told: of zeros it would be infinite.
pub(super) const MOST_LEFT: f64 = 1e6;

/// What the codes of some signals leave of their values: sums of absolute errors and values.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Left {
    pub error: f64,
    pub value: f64,
}

impl Left {
    pub fn merge(&mut self, other: &Self) {
        self.error = (self.error + other.error).min(f64::MAX);
        self.value = (self.value + other.value).min(f64::MAX);
    }

    pub fn sum(parts: &[Self]) -> Self {
        let mut sum = Self::default();
        parts.iter().for_each(|part| sum.merge(part));
        sum
    }

    /// The standard deviation of parts, as NMAE. Parts count by their values: where these are zeros a share of
    /// them says nothing.
    pub fn deviation(parts: &[Self]) -> f64 {
        let all = Self::sum(parts);
        let (count, share) = (parts.len().max(1) as f64, all.share());
        let squares: f64 = parts.iter().map(|part| (part.error - share * part.value).powi(2)).sum();
        let deviation = (squares / count).sqrt() / (all.value / count);
        if deviation.is_finite() { rounded(deviation, SHARE_DIGITS) } else { 0.0 }
    }

    /// As NMAE; where values are zeros, as large as it gets.
    pub fn share(&self) -> f64 {
        if self.error == 0.0 { 0.0 } else { rounded((self.error / self.value).min(MOST_LEFT), SHARE_DIGITS) }
    }
}

/// The same while values are added, some at a time and always in the same order.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LeftLanes {
    error: [f64; LANES],
    value: [f64; LANES],
}

impl LeftLanes {
    /// Adds finite values.
    #[inline(always)]
    pub fn add_all(&mut self, values: &[f64], predictions: &[f64]) {
        let (values, rest) = values.as_chunks::<LANES>();
        let (predictions, rest_predictions) = predictions.as_chunks::<LANES>();
        for (values, predictions) in values.iter().zip(predictions) {
            for lane in 0..LANES {
                self.error[lane] += (values[lane] - predictions[lane]).abs();
                self.value[lane] += values[lane].abs();
            }
        }
        for (value, prediction) in rest.iter().zip(rest_predictions) {
            self.add(*value, *prediction);
        }
    }

    /// Adds one finite value.
    #[inline(always)]
    pub fn add(&mut self, value: f64, prediction: f64) {
        self.error[0] += (value - prediction).abs();
        self.value[0] += value.abs();
    }

    pub fn sum(&self) -> Left {
        Left { error: sum(&self.error), value: sum(&self.value) }
    }
}
