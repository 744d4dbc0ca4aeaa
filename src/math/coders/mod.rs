//! Coders: a batch of signals to sparse codes over a dictionary.
//!
//! Every coder minimises `1/2 ||phi(y) - phi(X) w||^2 + lambda ||w||_1` in gram form, with
//! `K = k(X, X)` computed once per dictionary and `k = k(y, X)` by one product per block.
//!
//! To add a coder: a file beside this one that implements [`Coder`], and a line in `all`.

mod active_set;
mod batch;
mod codes;
mod fksc;
mod ksc;
mod lasso;
mod similarities;
#[cfg(feature = "cli")]
mod stages;

use std::fmt::Debug;
use std::sync::Arc;

pub use codes::{Code, Codes, ExitReason, SignalReport};
pub use fksc::Fksc;
pub use ksc::Ksc;
pub(crate) use lasso::check_entry;
pub use lasso::{Evaluation, evaluate};
#[cfg(feature = "cli")]
pub(crate) use stages::{Stage, run_stage};

use super::kernels::unknown;
use super::{MathError, Positive, PreparedDictionary, Result, Signals};

/// What a coder needs to know besides the dictionary and the signals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CoderOptions {
    lambda: Positive,
    tolerance: Positive,
    max_nonzeros: Option<usize>,
    max_rounds: usize,
}

impl CoderOptions {
    /// Accepted optimality gap, relative to the norms of signal and atom in the feature space (1 for
    /// RBF).
    pub const DEFAULT_TOLERANCE: f64 = 1e-7;
    /// Rounds over the working set after which a coder gives up.
    pub const DEFAULT_MAX_ROUNDS: usize = 100_000;

    /// Options with the given penalty and defaults for the rest.
    pub fn new(lambda: f64) -> Result<Self> {
        Ok(Self {
            lambda: Positive::new("lambda", lambda)?,
            tolerance: Positive::new("tolerance", Self::DEFAULT_TOLERANCE)?,
            max_nonzeros: None,
            max_rounds: Self::DEFAULT_MAX_ROUNDS,
        })
    }

    /// Sets the accepted optimality gap; rounding hides anything below 1e-14.
    pub fn with_tolerance(mut self, tolerance: f64) -> Result<Self> {
        self.tolerance = Positive::new("tolerance", tolerance)?;
        if tolerance < 1e-14 {
            let value = tolerance.to_string();
            return Err(MathError::Parameter { name: "tolerance", value, requirement: "at least 1e-14" });
        }
        Ok(self)
    }

    /// Keeps at most this many weights, the largest ones, fitted again on their own.
    pub fn with_max_nonzeros(mut self, max_nonzeros: usize) -> Result<Self> {
        self.max_nonzeros = Some(at_least_one("max_nonzeros", max_nonzeros)?);
        Ok(self)
    }

    /// Sets after how many rounds a coder gives up.
    pub fn with_max_rounds(mut self, max_rounds: usize) -> Result<Self> {
        self.max_rounds = at_least_one("max_iter", max_rounds)?;
        Ok(self)
    }

    /// The penalty.
    pub fn lambda(&self) -> f64 {
        self.lambda.get()
    }
}

/// `value`, refused when zero.
pub(crate) fn at_least_one(name: &'static str, value: usize) -> Result<usize> {
    if value > 0 {
        return Ok(value);
    }
    Err(MathError::Parameter { name, value: value.to_string(), requirement: "at least 1" })
}

/// Turns signals into codes.
pub trait Coder: Debug + Send + Sync {
    /// The name users write.
    fn name(&self) -> &'static str;

    /// Codes all signals, in parallel; signal `i` becomes row `i`.
    fn encode(
        &self,
        dictionary: &PreparedDictionary,
        signals: &Signals<'_>,
        options: &CoderOptions,
    ) -> Result<Codes>;
}

/// Every coder. The first is the default.
fn all() -> [Arc<dyn Coder>; 2] {
    [Arc::new(Fksc), Arc::new(Ksc)]
}

/// The names of all coders, the default first.
pub fn names() -> Vec<&'static str> {
    all().iter().map(|coder| coder.name()).collect()
}

/// The coder called `name`.
pub fn by_name(name: &str) -> Result<Arc<dyn Coder>> {
    all().into_iter().find(|coder| coder.name() == name).ok_or_else(|| unknown("coder", name, &names()))
}
