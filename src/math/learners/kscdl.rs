//! KSCDL: kernel sparse coding dictionary learning (paper 1, Algorithm 1 and A.2), for any kernel.
//!
//! Deviations, measured to converge in tens of rounds where the paper's needs hundreds: atoms start from
//! training signals, not from N(0, 1), and restart where they are not needed ([`super::alternation`]); atom
//! j's gradient is scaled by its own curvature, and the step is halved until the objective falls
//! ([`super::gradient`]).

use super::alternation::alternate;
use super::gradient::descend;
use super::{Learner, Observer, Task};
use crate::math::{Dictionary, Result};

/// Kernel sparse coding dictionary learning.
#[derive(Debug, Clone, Copy)]
pub struct Kscdl;

impl Learner for Kscdl {
    fn name(&self) -> &'static str {
        "kscdl"
    }

    fn learn(&self, task: &Task<'_>, observer: &dyn Observer) -> Result<Dictionary> {
        alternate(self.name(), task, observer, descend)
    }
}
