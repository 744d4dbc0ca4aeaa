//! Coders: a batch of signals to sparse codes over a dictionary.
//!
//! All work in gram form, with `K = k(X, X)` computed once per dictionary and `k = k(y, X)` by one
//! product per block. They differ in what they ask of a code `w` besides a small `||phi(y) - phi(X) w||`:
//!
//! | penalty or limit | coders |
//! |---|---|
//! | `lambda ||w||_1` | `fksc`, `ksc`, `cd`, `kfss`, `foso`: one optimum, found in different ways |
//! | number of nonzeros | `komp`, `lpm` |
//! | `lambda/2 ||w||^2`, largest weights kept | `kfmc` |
//! | `lambda sum_i ||W_i||` over all signals together, largest weights kept | `ksr_l21` |
//!
//! To add a coder: a file beside this one that implements [`Coder`], and a line in `all`.

mod active_set;
mod batch;
mod cd;
mod cholesky;
mod codes;
mod fksc;
mod foso;
mod kfmc;
mod kfss;
mod komp;
mod ksc;
mod ksr_l21;
mod lasso;
mod lpm;
mod marks;
mod similarities;
mod sketch;
#[cfg(feature = "cli")]
mod stages;

use std::fmt::Debug;
use std::sync::Arc;

pub(crate) use batch::Earlier;
pub use cd::Cd;
pub use codes::{Code, Codes, ExitReason, SignalReport};
pub use fksc::Fksc;
pub use foso::Foso;
pub use kfmc::Kfmc;
pub use kfss::Kfss;
pub use komp::Komp;
pub use ksc::Ksc;
pub use ksr_l21::KsrL21;
pub(crate) use lasso::check_entry;
pub use lasso::{Evaluation, evaluate};
pub use lpm::Lpm;
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
    residual: Positive,
    max_rounds: usize,
}

impl CoderOptions {
    /// Accepted optimality gap, relative to the norms of signal and atom in the feature space (1 for
    /// RBF).
    pub const DEFAULT_TOLERANCE: f64 = 1e-7;
    /// Rounds over the working set after which a coder gives up.
    pub const DEFAULT_MAX_ROUNDS: usize = 100_000;
    /// What `komp` may leave of a signal, as a share of its norm in the feature space.
    pub const DEFAULT_RESIDUAL: f64 = 1e-3;

    /// Options with the given penalty and defaults for the rest.
    pub fn new(lambda: f64) -> Result<Self> {
        Ok(Self {
            lambda: Positive::new("lambda", lambda)?,
            tolerance: Positive::new("tolerance", Self::DEFAULT_TOLERANCE)?,
            max_nonzeros: None,
            residual: Positive::new("residual", Self::DEFAULT_RESIDUAL)?,
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

    /// Allows at most this many weights. Coders of the l1 form keep the largest and fit them again.
    pub fn with_max_nonzeros(mut self, max_nonzeros: usize) -> Result<Self> {
        self.max_nonzeros = Some(at_least_one("max_nonzeros", max_nonzeros)?);
        Ok(self)
    }

    /// Sets which share of a signal's norm in the feature space `komp` may leave.
    pub fn with_residual(mut self, residual: f64) -> Result<Self> {
        self.residual = Positive::new("residual", residual)?;
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

/// What makes a code sparse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The penalty `lambda ||w||_1`.
    L1,
    /// A limit on the number of nonzeros of every signal.
    Nonzeros,
    /// The same, with a penalty that couples all signals given at once: a code depends on the others.
    Coupled,
}

/// The options of the coders of [`Form::L1`].
const L1_OPTIONS: &[&str] = &["lambda", "max_nonzeros", "tolerance"];

/// Turns signals into codes.
pub trait Coder: Debug + Send + Sync {
    /// The name users write.
    fn name(&self) -> &'static str;

    /// The options that make a difference to it, as users write them.
    fn heeds(&self) -> &'static [&'static str];

    /// The options it cannot do without.
    fn requires(&self) -> &'static [&'static str] {
        &[]
    }

    /// What its codes minimise or are limited by.
    fn form(&self) -> Form;

    /// Codes all signals, in parallel; signal `i` becomes row `i`.
    fn encode(
        &self,
        dictionary: &PreparedDictionary,
        signals: &Signals<'_>,
        options: &CoderOptions,
    ) -> Result<Codes>;
}

/// Every coder. The first is the default.
fn all() -> [Arc<dyn Coder>; 9] {
    [
        Arc::new(Fksc),
        Arc::new(Ksc),
        Arc::new(Cd),
        Arc::new(Kfss),
        Arc::new(Foso),
        Arc::new(Komp),
        Arc::new(Lpm),
        Arc::new(Kfmc),
        Arc::new(KsrL21),
    ]
}

/// The names of all coders, the default first.
pub fn names() -> Vec<&'static str> {
    all().iter().map(|coder| coder.name()).collect()
}

/// The coder called `name`.
pub fn by_name(name: &str) -> Result<Arc<dyn Coder>> {
    all().into_iter().find(|coder| coder.name() == name).ok_or_else(|| unknown("coder", name, &names()))
}
