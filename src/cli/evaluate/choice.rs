//! How the dictionary of a coder is learned: its learner, kernel, width and penalty.

use std::fmt::{Display, Formatter};

use anyhow::Result;

use super::EvaluateArguments;
use crate::math::{LearnerOptions, Signals};

/// One way to learn a dictionary. Coders that have the same one share what is learned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Choice {
    pub learner: &'static str,
    pub kernel: &'static str,
    /// The width of RBF as a multiple of the median distance, where it was chosen.
    pub width: Option<f64>,
    /// The penalty of learning as a multiple of the usual one.
    pub penalty: f64,
    /// Whether it was chosen on rows that were held out.
    pub is_tuned: bool,
}

impl Choice {
    /// The one that a coder has unless another is chosen: `cd`, whose point is to work in the input space, has a linear
    /// dictionary.
    pub fn usual(coder: &str) -> Self {
        let (learner, kernel) = if coder == "cd" { ("scdl", "linear") } else { ("kscdl", "rbf") };
        Self { learner, kernel, width: None, penalty: 1.0, is_tuned: false }
    }

    /// What learning from these rows is told.
    pub fn options(
        &self,
        arguments: &EvaluateArguments,
        rows: &Signals<'_>,
        seed: u64,
    ) -> Result<LearnerOptions> {
        let mut options = LearnerOptions::default()
            .with_learner(self.learner)?
            .with_kernel(self.kernel)?
            .with_atoms(arguments.atoms)?
            .with_max_rounds(arguments.max_iter)?
            .with_sample(arguments.sample)?
            .with_seed(seed);
        if let Some(sigma) = arguments.sigma {
            options = options.with_sigma(sigma)?;
        }
        if let Some(multiple) = self.width {
            let parameters = options.kernel(rows)?.parameters();
            let median =
                parameters.iter().find(|(name, _)| *name == "sigma").map_or(1.0, |(_, sigma)| *sigma);
            options = options.with_sigma(multiple * median)?;
        }
        if let Some(lambda) = arguments.train_lambda {
            options = options.with_lambda(lambda)?;
        }
        if self.penalty != 1.0 {
            let lambda = options.lambda(options.kernel(rows)?.as_ref(), rows);
            options = options.with_lambda(self.penalty * lambda)?;
        }
        Ok(options)
    }
}

impl Display for Choice {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.kernel)?;
        if let Some(multiple) = self.width {
            write!(f, " {multiple}x")?;
        }
        if self.penalty != 1.0 {
            write!(f, " λ{}x", self.penalty)?;
        }
        Ok(())
    }
}
