//! Numbers that are valid by type once they exist.

use super::{MathError, Result};

/// A finite number greater than zero.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Positive(f64);

impl Positive {
    /// Checks `value`; `name` appears in the error.
    pub fn new(name: &'static str, value: f64) -> Result<Self> {
        if value > 0.0 && value.is_finite() {
            Ok(Self(value))
        } else {
            Err(MathError::Parameter {
                name,
                value: value.to_string(),
                requirement: "a finite number greater than zero",
            })
        }
    }

    /// The number itself.
    pub fn get(self) -> f64 {
        self.0
    }
}
