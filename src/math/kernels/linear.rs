//! The linear kernel `a.b`: ordinary sparse coding.

use std::sync::Arc;

use super::Kernel;
use crate::math::Result;
use crate::math::decoders::{Decoder, LinearPreimage};

/// The linear kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Linear;

impl Linear {
    /// The name users write.
    pub const NAME: &'static str = "linear";

    pub(super) fn build(_parameter: &dyn Fn(&str) -> Option<f64>) -> Result<Arc<dyn Kernel>> {
        Ok(Arc::new(Self))
    }
}

impl Kernel for Linear {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn parameters(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }

    fn ignores_translation(&self) -> bool {
        false
    }

    fn apply(&self, _products: &mut [f64], _a_square: f64, _squares: &[f64]) {}

    fn gradient_factors(&self, _similarity: f64, _product: &dyn Fn() -> f64) -> (f64, f64) {
        (1.0, 0.0)
    }

    fn decoder(&self) -> Arc<dyn Decoder> {
        Arc::new(LinearPreimage)
    }

    fn atom_norm_limit(&self, typical_square: f64) -> Option<f64> {
        Some(typical_square.sqrt())
    }
}
