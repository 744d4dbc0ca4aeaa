//! Linear systems `(A + lambda I) x = b` for a positive semidefinite `A`, by faer's Cholesky factorisation
//! on one thread, so that results do not depend on their number.

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt::{factor, solve};
use faer::prelude::default;
use faer::{MatMut, MatRef, Par};

use super::{MathError, Result};

/// The factor of such a system.
pub(crate) struct RidgeSystem {
    factor: Vec<f64>,
    size: usize,
}

impl RidgeSystem {
    /// Factorises `A + lambda I`; `matrix` is `A`, symmetric.
    pub fn new(mut matrix: Vec<f64>, size: usize, lambda: f64) -> Result<Self> {
        for i in 0..size {
            matrix[i * size + i] += lambda;
        }
        let scratch = factor::cholesky_in_place_scratch::<f64>(size, Par::Seq, default());
        let mut buffer = MemBuffer::new(scratch);
        let done = factor::cholesky_in_place(
            MatMut::from_column_major_slice_mut(&mut matrix, size, size),
            default(),
            Par::Seq,
            MemStack::new(&mut buffer),
            default(),
        );
        // Rounding can spoil what is positive definite by definition where lambda is very small.
        done.map_err(|_| MathError::Parameter {
            name: "lambda",
            value: lambda.to_string(),
            requirement: "larger for this dictionary: its atoms depend on each other",
        })?;
        Ok(Self { factor: matrix, size })
    }

    /// Solves for right sides that follow one after the other, in place.
    pub fn solve(&self, right: &mut [f64]) {
        let count = right.len() / self.size.max(1);
        solve::solve_in_place(
            MatRef::from_column_major_slice(&self.factor, self.size, self.size),
            MatMut::from_column_major_slice_mut(right, self.size, count),
            Par::Seq,
            MemStack::new(&mut []),
        );
    }

    /// The inverse, symmetric.
    pub fn inverse(&self) -> Vec<f64> {
        let mut inverse = vec![0.0; self.size * self.size];
        for i in 0..self.size {
            inverse[i * self.size + i] = 1.0;
        }
        self.solve(&mut inverse);
        inverse
    }
}
