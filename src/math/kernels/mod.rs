//! Kernels: similarities of two vectors that are inner products in a feature space.
//!
//! Every kernel here is a function of the inner product and the two squared norms, so the
//! similarities of a whole batch are one matrix product and a pass over its entries.
//!
//! To add a kernel: a file beside this one that implements [`Kernel`], and a line in [`ALL`].

mod linear;
mod polynomial;
mod rbf;

use std::fmt::Debug;
use std::sync::Arc;

pub use linear::Linear;
pub use polynomial::Polynomial;
pub use rbf::Rbf;

use super::decoders::Decoder;
use super::product::inner_products;
use super::signals::RowsView;
use super::{MathError, Result};

/// A positive definite kernel `k(a, b) = <phi(a), phi(b)>`.
pub trait Kernel: Debug + Send + Sync {
    /// The name users write.
    fn name(&self) -> &'static str;

    /// The parameters by name, enough to [build] the same kernel again.
    fn parameters(&self) -> Vec<(&'static str, f64)>;

    /// Whether `k(a + c, b + c) = k(a, b)`, in which case rows are centred first.
    fn ignores_translation(&self) -> bool;

    /// Whether `k(a, b) >= 0` whatever `a` and `b`.
    fn never_negative(&self) -> bool {
        false
    }

    /// Turns the inner products of `a` with the rows of a block, in place, into similarities;
    /// `a_square` and `squares` are the squared norms.
    fn apply(&self, products: &mut [f64], a_square: f64, squares: &[f64]);

    /// The factors `(alpha, beta)` of the gradient `d k(a, x) / d x = alpha a - beta x`, from
    /// `k(a, x)` and, where that is not enough, the inner product.
    fn gradient_factors(&self, similarity: f64, product: &dyn Fn() -> f64) -> (f64, f64);

    /// The pre-image solver that belongs to this kernel.
    fn decoder(&self) -> Arc<dyn Decoder>;

    /// The largest norm an atom may have while learning, given the typical squared norm of the
    /// signals; `None` where the norm of `phi(x)` does not grow with `x`.
    ///
    /// Without a limit, atoms of an unbounded kernel grow to make the penalty on weights vanish.
    fn atom_norm_limit(&self, typical_square: f64) -> Option<f64>;

    /// The same similarities in single precision, where their error is known.
    fn screen(&self) -> Option<Arc<dyn Screen>> {
        None
    }

    /// The similarity of one pair.
    fn pair(&self, product: f64, a_square: f64, b_square: f64) -> f64 {
        let mut value = [product];
        self.apply(&mut value, a_square, &[b_square]);
        value[0]
    }

    /// `k(a, a)` from the squared norm of `a`.
    fn self_similarity(&self, square: f64) -> f64 {
        self.pair(square, square, square)
    }

    /// `out[i][j] = k(a_i, b_j)` for two blocks of rows.
    fn similarities(&self, a: RowsView<'_>, b: RowsView<'_>, out: &mut Vec<f64>) {
        inner_products(a, b, out);
        if !b.is_empty() {
            for (row, a_square) in out.chunks_exact_mut(b.len()).zip(a.squares) {
                self.apply(row, *a_square, b.squares);
            }
        }
    }
}

/// Similarities in single precision, to tell which are worth computing exactly.
pub trait Screen: Debug + Send + Sync {
    /// [`Kernel::apply`] in single precision.
    fn apply(&self, products: &mut [f32], a_square: f32, squares: &[f32]);

    /// A bound on the relative error of `k(a, b)`, besides underflow, when it is computed in single precision from an
    /// inner product that is off by at most `product_error`.
    fn relative_error(&self, product_error: f64, a_square: f64, b_square: f64) -> f64;
}

/// Builds a kernel from what users give; `parameter` looks up a value by name.
type Build = fn(parameter: &dyn Fn(&str) -> Option<f64>) -> Result<Arc<dyn Kernel>>;

/// Every kernel by name. The first is the default.
const ALL: &[(&str, Build)] =
    &[(Rbf::NAME, Rbf::build), (Linear::NAME, Linear::build), (Polynomial::NAME, Polynomial::build)];

/// The names of all kernels, the default first.
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|(name, _)| *name).collect()
}

/// The kernel called `name`, with its parameters looked up by `parameter`.
pub fn build(name: &str, parameter: &dyn Fn(&str) -> Option<f64>) -> Result<Arc<dyn Kernel>> {
    match ALL.iter().find(|(known, _)| *known == name) {
        Some((_, build)) => build(parameter),
        None => Err(unknown("kernel", name, &names())),
    }
}

/// The error for a name that is in no registry.
pub(crate) fn unknown(what: &'static str, name: &str, known: &[&str]) -> MathError {
    MathError::UnknownName { what, name: name.to_string(), known: known.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::signals::dot;

    fn all() -> Vec<Arc<dyn Kernel>> {
        names().iter().map(|name| build(name, &|_| Some(2.0)).expect("2 suits every parameter")).collect()
    }

    #[test]
    fn names_are_unique_and_match() {
        for kernel in all() {
            assert_eq!(names().iter().filter(|n| **n == kernel.name()).count(), 1);
            let parameters = kernel.parameters();
            let again = build(kernel.name(), &|name| {
                parameters.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
            });
            assert_eq!(format!("{:?}", again.expect("its own parameters")), format!("{kernel:?}"));
        }
        let error = build("rbg", &|_| None).expect_err("no such kernel").to_string();
        assert_eq!(error, "unknown kernel 'rbg'; known: rbf, linear, polynomial");
    }

    #[test]
    fn gradient_agrees_with_finite_differences() {
        let a = [0.3, -1.2, 0.7];
        let x = [0.5, 0.1, -0.4];
        for kernel in all() {
            let value = |x: &[f64]| kernel.pair(dot(&a, x), dot(&a, &a), dot(x, x));
            let (alpha, beta) = kernel.gradient_factors(value(&x), &|| dot(&a, &x));
            for i in 0..3 {
                let (mut up, mut down) = (x, x);
                up[i] += 1e-6;
                down[i] -= 1e-6;
                let numeric = (value(&up) - value(&down)) / 2e-6;
                let exact = alpha * a[i] - beta * x[i];
                assert!((numeric - exact).abs() < 1e-8, "{kernel:?}: {numeric} against {exact}");
            }
        }
    }
}
