//! The Gaussian kernel `exp(-|a - b|^2 / (2 sigma^2))` (paper 1, eq. 2).

use std::sync::Arc;

use super::Kernel;
use crate::math::decoders::{Decoder, RbfPreimage};
use crate::math::exp::{exp, vectorised};
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
