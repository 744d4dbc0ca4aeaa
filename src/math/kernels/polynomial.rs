//! The polynomial kernel `(a.b + c)^d`.

use std::sync::Arc;

use super::Kernel;
use crate::math::decoders::{Decoder, PolynomialPreimage};
use crate::math::{MathError, Result};

/// The polynomial kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Polynomial {
    degree: i32,
    constant: f64,
}

impl Polynomial {
    /// The name users write.
    pub const NAME: &'static str = "polynomial";
    const DEFAULT_DEGREE: f64 = 2.0;
    const DEFAULT_CONSTANT: f64 = 1.0;
    const LARGEST_DEGREE: f64 = 16.0;

    /// `degree` is a whole number from 1 to 16, `constant` is not negative: otherwise the kernel
    /// would not be positive definite.
    pub fn new(degree: f64, constant: f64) -> Result<Self> {
        if !(1.0..=Self::LARGEST_DEGREE).contains(&degree) || degree.fract() != 0.0 {
            return Err(MathError::Parameter {
                name: "degree",
                value: degree.to_string(),
                requirement: "a whole number from 1 to 16",
            });
        }
        if !(constant >= 0.0 && constant.is_finite()) {
            return Err(MathError::Parameter {
                name: "constant",
                value: constant.to_string(),
                requirement: "a finite number that is not negative",
            });
        }
        Ok(Self { degree: degree as i32, constant })
    }

    pub(super) fn build(parameter: &dyn Fn(&str) -> Option<f64>) -> Result<Arc<dyn Kernel>> {
        Ok(Arc::new(Self::new(
            parameter("degree").unwrap_or(Self::DEFAULT_DEGREE),
            parameter("constant").unwrap_or(Self::DEFAULT_CONSTANT),
        )?))
    }

    /// The exponent `d`.
    pub fn degree(&self) -> i32 {
        self.degree
    }

    /// The constant `c`.
    pub fn constant(&self) -> f64 {
        self.constant
    }
}

impl Kernel for Polynomial {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn parameters(&self) -> Vec<(&'static str, f64)> {
        vec![("degree", f64::from(self.degree)), ("constant", self.constant)]
    }

    fn ignores_translation(&self) -> bool {
        false
    }

    fn apply(&self, products: &mut [f64], _a_square: f64, _squares: &[f64]) {
        for value in products {
            *value = (*value + self.constant).powi(self.degree);
        }
    }

    fn gradient_factors(&self, _similarity: f64, product: &dyn Fn() -> f64) -> (f64, f64) {
        let slope = f64::from(self.degree) * (product() + self.constant).powi(self.degree - 1);
        (slope, 0.0)
    }

    fn decoder(&self) -> Arc<dyn Decoder> {
        Arc::new(PolynomialPreimage::new(*self))
    }

    fn atom_norm_limit(&self, typical_square: f64) -> Option<f64> {
        Some(typical_square.sqrt())
    }
}
