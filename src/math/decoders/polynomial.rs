//! The pre-image under the polynomial kernel `(a.b + c)^d`.
//!
//! It minimises `1/2 (y.y + c)^d - sum w_j (y.x_j + c)^d`. Setting the gradient to zero gives the
//! fixed point `y <- sum w_j ((y.x_j + c) / (y.y + c))^(d-1) x_j`; the step towards it is a descent
//! direction wherever `y.y + c > 0`, so it is halved until the objective falls. The search starts
//! from the best multiple `t sum w_j x_j` among a few, or the best single atom.

use super::{Decoder, Support};
use crate::math::kernels::Polynomial;
use crate::math::signals::dot;

const MAX_STEPS: usize = 200;
const MAX_HALVINGS: usize = 40;
/// Relative fall of the objective below which the search ends.
const SETTLED: f64 = 1e-15;

/// The fixed point with a line search.
#[derive(Debug, Clone, Copy)]
pub struct PolynomialPreimage {
    kernel: Polynomial,
}

/// A point `y = sum a_j x_j` with what the next step needs.
#[derive(Clone)]
struct Point {
    coefficients: Vec<f64>,
    /// `y.x_j + c`.
    shifted: Vec<f64>,
    /// `y.y + c`.
    own: f64,
    value: f64,
}

impl PolynomialPreimage {
    /// The solver for this kernel.
    pub fn new(kernel: Polynomial) -> Self {
        Self { kernel }
    }

    fn at(&self, support: &Support, coefficients: Vec<f64>) -> Point {
        let (constant, degree) = (self.kernel.constant(), self.kernel.degree());
        let products: Vec<f64> = (0..support.len()).map(|i| dot(support.row(i), &coefficients)).collect();
        let own = dot(&products, &coefficients).max(0.0) + constant;
        let shifted: Vec<f64> = products.iter().map(|product| product + constant).collect();
        let pull: f64 = shifted.iter().zip(&support.weights).map(|(s, w)| w * s.powi(degree)).sum();
        let value = 0.5 * own.powi(degree) - pull;
        // A value that overflowed loses against every other.
        let value = if value.is_nan() { f64::INFINITY } else { value };
        Point { coefficients, shifted, own, value }
    }
}

impl Decoder for PolynomialPreimage {
    fn coefficients(&self, support: &Support, _scratch: &mut Vec<f64>, coefficients: &mut Vec<f64>) {
        let count = support.len();
        let scaled = |factor: f64| support.weights.iter().map(|w| factor * w).collect::<Vec<_>>();
        let single = |atom: usize| {
            let mut only = vec![0.0; count];
            only[atom] = 1.0;
            only
        };
        let starts = [1.0, 0.5, 0.1].into_iter().map(scaled).chain((0..count).map(single));
        let mut best = self.at(support, vec![0.0; count]);
        for start in starts {
            let start = self.at(support, start);
            if start.value < best.value {
                best = start;
            }
        }
        let power = self.kernel.degree() - 1;
        for _ in 0..MAX_STEPS {
            if best.own <= 0.0 {
                break;
            }
            let targets: Vec<f64> = best
                .shifted
                .iter()
                .zip(&support.weights)
                .map(|(s, w)| w * (s / best.own).powi(power))
                .collect();
            let better = (0..MAX_HALVINGS).find_map(|halvings| {
                let step = 0.5f64.powi(halvings as i32);
                let moved = best.coefficients.iter().zip(&targets).map(|(a, t)| a + step * (t - a)).collect();
                let there = self.at(support, moved);
                (there.value < best.value).then_some(there)
            });
            let Some(better) = better else { break };
            let fall = best.value - better.value;
            best = better;
            if fall <= SETTLED * best.value.abs() {
                break;
            }
        }
        coefficients.clear();
        coefficients.extend_from_slice(&best.coefficients);
    }
}
