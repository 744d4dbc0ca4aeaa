//! The pre-image under the RBF kernel (paper 1, eq. 19).
//!
//! `||phi(y) - phi(X) w||^2` is smallest where `s(y) = sum w_j k(y, x_j)` is largest. Setting its
//! gradient to zero gives the fixed point `y <- sum w_j k_j x_j / sum w_j k_j`, whose coefficients
//! add up to 1, so that distances follow from those between atoms alone:
//! `|y - x_i|^2 = sum_j a_j d_ij - 1/2 sum_jl a_j a_l d_jl`.
//!
//! Weights of both signs can make the fixed point overshoot or its denominator vanish. Where
//! `s(y) > 0` the step towards the fixed point is an ascent direction, so it is halved until `s`
//! grows; and the search starts from `X w / sum w` or from the best single atom, whichever is better.

use super::{Decoder, Support};
use crate::math::exp::{exp, vectorised};
use crate::math::kernels::Rbf;
use crate::math::signals::{add_scaled, short_dot};

const MAX_STEPS: usize = 200;
const SMALLEST_STEP: f64 = 1e-12;
/// Change of the coefficients below which the search ends.
const SETTLED: f64 = 1e-12;
/// Relative loss of `s` that counts as rounding: near its maximum `s` is flat, and the fixed point
/// goes on improving the coefficients when `s` no longer shows it.
const ROUNDING: f64 = 1e-14;

/// Share of the weights' magnitudes below which their sum counts as cancelled.
const CANCELLED: f64 = 1e-6;

/// The fixed point with a line search.
#[derive(Debug, Clone, Copy)]
pub struct RbfPreimage {
    factor: f64,
}

impl RbfPreimage {
    /// The solver for this kernel.
    pub fn new(kernel: Rbf) -> Self {
        Self { factor: kernel.exponent_factor() }
    }

    /// Fills `pulls` with `w_j k(y, x_j)` for `y = sum a_j x_j`; gives their sum `s(y)`.
    #[inline(always)]
    fn pulls(&self, distances: &[f64], weights: &[f64], point: &[f64], pulls: &mut [f64]) -> f64 {
        pulls.fill(0.0);
        for (coefficient, row) in point.iter().zip(distances.chunks_exact(weights.len())) {
            add_scaled(pulls, *coefficient, row);
        }
        let spread = 0.5 * short_dot(pulls, point);
        for (pull, weight) in pulls.iter_mut().zip(weights) {
            *pull = weight * exp((*pull - spread).max(0.0) * self.factor);
        }
        pulls.iter().sum()
    }

    #[inline(always)]
    fn search(&self, support: &Support, scratch: &mut Vec<f64>, point: &mut Vec<f64>) {
        let count = support.len();
        let weights = &support.weights;
        scratch.clear();
        scratch.resize(count * (count + 3), 0.0);
        let (distances, rest) = scratch.split_at_mut(count * count);
        let (pulls, rest) = rest.split_at_mut(count);
        let (trial, trial_pulls) = rest.split_at_mut(count);
        squared_distances(support, distances);

        point.clear();
        let (total, size) = weights.iter().fold((0.0, 0.0), |(t, s), w| (t + w, s + w.abs()));
        point.extend(weights.iter().map(|weight| weight / total));
        // Where weights cancel their mean is noise: only single atoms are starts then.
        let mut value = f64::NEG_INFINITY;
        if total.abs() > CANCELLED * size {
            value = self.pulls(distances, weights, point, pulls);
        }
        for (atom, row) in distances.chunks_exact(count).enumerate() {
            for ((pull, distance), weight) in trial_pulls.iter_mut().zip(row).zip(weights) {
                *pull = weight * exp(distance * self.factor);
            }
            let here = trial_pulls.iter().sum();
            if here > value {
                value = here;
                point.fill(0.0);
                point[atom] = 1.0;
                pulls.copy_from_slice(trial_pulls);
            }
        }
        for _ in 0..MAX_STEPS {
            // Without a positive pull there is no fixed point to move to: the best atom stands.
            if value <= 0.0 {
                return;
            }
            let mut step = 1.0;
            let better = loop {
                for ((t, a), pull) in trial.iter_mut().zip(point.iter()).zip(pulls.iter()) {
                    *t = a + step * (pull / value - a);
                }
                let there = self.pulls(distances, weights, trial, trial_pulls);
                if there >= value * (1.0 - ROUNDING) {
                    break there;
                }
                step *= 0.5;
                if step < SMALLEST_STEP {
                    return;
                }
            };
            let change = point.iter().zip(trial.iter()).fold(0.0f64, |m, (a, t)| m.max((a - t).abs()));
            value = better;
            point.copy_from_slice(trial);
            pulls.copy_from_slice(trial_pulls);
            if change <= SETTLED {
                return;
            }
        }
    }
}

impl Decoder for RbfPreimage {
    fn coefficients(&self, support: &Support, scratch: &mut Vec<f64>, point: &mut Vec<f64>) {
        vectorised(
            #[inline(always)]
            || self.search(support, scratch, point),
        );
    }
}

#[inline(always)]
fn squared_distances(support: &Support, distances: &mut [f64]) {
    let count = support.len();
    let square = |i: usize| support.products[i * count + i];
    for i in 0..count {
        for j in 0..i {
            let distance = (square(i) + square(j) - 2.0 * support.products[i * count + j]).max(0.0);
            distances[i * count + j] = distance;
            distances[j * count + i] = distance;
        }
    }
}
