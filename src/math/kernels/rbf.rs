//! The Gaussian kernel `exp(-|a - b|^2 / (2 sigma^2))` (paper 1, eq. 2).

use std::sync::Arc;

use super::{Kernel, Screen};
use crate::math::decoders::{Decoder, RbfPreimage};
use crate::math::exp::{exp, exp_f32, vectorised};
use crate::math::{MathError, Positive, Result};

/// The Gaussian kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rbf {
    sigma: Positive,
}

impl Rbf {
    /// The name users write.
    pub const NAME: &'static str = "rbf";

    /// `sigma` must be positive, and so must its square as a double.
    pub fn new(sigma: f64) -> Result<Self> {
        let width = Positive::new("sigma", sigma)?;
        if !(sigma * sigma).is_normal() {
            let value = sigma.to_string();
            return Err(MathError::Parameter {
                name: "sigma",
                value,
                requirement: "between 1e-150 and 1e150",
            });
        }
        Ok(Self { sigma: width })
    }

    /// The width.
    pub fn sigma(&self) -> f64 {
        self.sigma.get()
    }

    pub(super) fn build(parameter: &dyn Fn(&str) -> Option<f64>) -> Result<Arc<dyn Kernel>> {
        Ok(Arc::new(Self::new(parameter("sigma").unwrap_or(1.0))?))
    }

    /// `-1 / (2 sigma^2)`.
    pub(crate) fn exponent_factor(&self) -> f64 {
        -0.5 / (self.sigma() * self.sigma())
    }
}

impl Kernel for Rbf {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn parameters(&self) -> Vec<(&'static str, f64)> {
        vec![("sigma", self.sigma())]
    }

    fn ignores_translation(&self) -> bool {
        true
    }

    fn never_negative(&self) -> bool {
        true
    }

    fn apply(&self, products: &mut [f64], a_square: f64, squares: &[f64]) {
        let factor = self.exponent_factor();
        vectorised(
            #[inline(always)]
            || {
                for (value, square) in products.iter_mut().zip(squares) {
                    let distance = a_square + square - 2.0 * *value;
                    let distance = if distance < 0.0 { 0.0 } else { distance };
                    *value = exp(distance * factor);
                }
            },
        );
    }

    fn gradient_factors(&self, similarity: f64, _product: &dyn Fn() -> f64) -> (f64, f64) {
        let factor = similarity / (self.sigma() * self.sigma());
        (factor, factor)
    }

    fn self_similarity(&self, _square: f64) -> f64 {
        1.0
    }

    fn decoder(&self) -> Arc<dyn Decoder> {
        Arc::new(RbfPreimage::new(*self))
    }

    fn screen(&self) -> Option<Arc<dyn Screen>> {
        Some(Arc::new(*self))
    }

    fn atom_norm_limit(&self, _typical_square: f64) -> Option<f64> {
        None
    }
}

impl Screen for Rbf {
    fn apply(&self, products: &mut [f32], a_square: f32, squares: &[f32]) {
        let factor = self.exponent_factor() as f32;
        vectorised(
            #[inline(always)]
            || {
                for (value, square) in products.iter_mut().zip(squares) {
                    let distance = a_square + square - 2.0 * *value;
                    let distance = if distance < 0.0 { 0.0 } else { distance };
                    *value = exp_f32(distance * factor);
                }
            },
        );
    }

    /// With `u = 2^-24`: rounding the squares, the two sums and the factor moves the squared distance by at most
    /// `6 u (|a| + |b|)^2 <= 12 u (|a|^2 + |b|^2)`; squares that are flushed to zero (below `1.2e-38`) by at most
    /// `1e-37`. An exponent that is off by `e < 1` makes a relative error below `e + e^2`; the last term is
    /// `exp_f32`'s own, and a factor that is flushed.
    fn relative_error(&self, product_error: f64, a_square: f64, b_square: f64) -> f64 {
        const ROUNDOFF: f64 = 1.0 / (1 << 24) as f64;
        /// Squares beyond this might overflow.
        const LARGEST: f64 = 1e30;
        if !(a_square < LARGEST && b_square < LARGEST) {
            return f64::INFINITY;
        }
        let rounded = 12.0 * ROUNDOFF * (a_square + b_square);
        let exponent = -self.exponent_factor() * (2.0 * product_error + rounded + 1e-37);
        if exponent < 0.5 { exponent + exponent * exponent + 2e-6 } else { f64::INFINITY }
    }
}
