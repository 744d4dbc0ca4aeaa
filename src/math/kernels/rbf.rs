//! The Gaussian kernel `exp(-|a - b|^2 / (2 sigma^2))` (paper 1, eq. 2).

use std::sync::Arc;

use super::Kernel;
use crate::math::decoders::{Decoder, RbfPreimage};
use crate::math::exp::{exp, vectorised};
use crate::math::{Positive, Result};

/// The Gaussian kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rbf {
    sigma: Positive,
}

impl Rbf {
    /// The name users write.
    pub const NAME: &'static str = "rbf";

    /// `sigma` must be finite and positive.
    pub fn new(sigma: f64) -> Result<Self> {
        Ok(Self { sigma: Positive::new("sigma", sigma)? })
    }

    /// The width.
    pub fn sigma(&self) -> f64 {
        self.sigma.get()
    }

    pub(super) fn build(parameter: &dyn Fn(&str) -> Option<f64>) -> Result<Arc<dyn Kernel>> {
        Ok(Arc::new(Self::new(parameter("sigma").unwrap_or(1.0))?))
    }

    /// `-1 / (2 sigma^2)`, kept finite for widths whose square underflows.
    fn exponent_factor(&self) -> f64 {
        (-0.5 / (self.sigma() * self.sigma())).max(-f64::MAX)
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

    fn apply(&self, products: &mut [f64], a_square: f64, squares: &[f64]) {
        let factor = self.exponent_factor();
        vectorised(|| {
            for (value, square) in products.iter_mut().zip(squares) {
                let distance = a_square + square - 2.0 * *value;
                let distance = if distance < 0.0 { 0.0 } else { distance };
                *value = exp(distance * factor);
            }
        });
    }

    fn gradient_factors(&self, similarity: f64, _product: &dyn Fn() -> f64) -> (f64, f64) {
        let factor = similarity / (self.sigma() * self.sigma());
        (factor, factor)
    }

    fn decoder(&self) -> Arc<dyn Decoder> {
        Arc::new(RbfPreimage::new(*self))
    }

    fn atom_norm_limit(&self, _typical_square: f64) -> Option<f64> {
        None
    }
}
