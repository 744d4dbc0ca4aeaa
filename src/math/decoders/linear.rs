//! The pre-image under the linear kernel: `y = X w`.

use super::{Decoder, Support};

/// `y = X w`.
#[derive(Debug, Clone, Copy)]
pub struct LinearPreimage;

impl Decoder for LinearPreimage {
    fn coefficients(&self, support: &Support, _scratch: &mut Vec<f64>, coefficients: &mut Vec<f64>) {
        coefficients.clear();
        coefficients.extend_from_slice(&support.weights);
    }
}
