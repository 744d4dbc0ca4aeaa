//! SCDL: linear sparse coding dictionary learning (paper 1, problem 1).
//!
//! With the codes fixed, `1/2 ||Y - X W||^2` is a quadratic in every atom, so atom after atom moves to its
//! minimum, `x_j + (Y w_j - X M_j) / M_jj` with `M = W' diag(c) W`, and is shortened to the length allowed:
//! block coordinate descent (Mairal et al. 2010), without a step length to choose.

use super::alternation::alternate;
use super::step::{Moved, Sparse, Step, entries};
use super::{Learner, Observer, Task, check_kernel};
use crate::math::coders::Codes;
use crate::math::kernels::Linear;
use crate::math::signals::add_scaled;
use crate::math::{Dictionary, PreparedDictionary, Result};

/// Linear dictionary learning.
#[derive(Debug, Clone, Copy)]
pub struct Scdl;

impl Learner for Scdl {
    fn name(&self) -> &'static str {
        "scdl"
    }

    fn only_kernel(&self) -> Option<&'static str> {
        Some(Linear::NAME)
    }

    fn learn(&self, task: &Task<'_>, observer: &dyn Observer) -> Result<Dictionary> {
        check_kernel(self, task.kernel.name())?;
        alternate(self.name(), task, observer, descend)
    }
}

fn descend(
    step: &Step<'_>,
    current: &PreparedDictionary,
    codes: &Codes,
    _known: Option<&Sparse>,
) -> Result<Moved> {
    let dim = step.signals.dim;
    let weights = step.weights(codes);
    let mut atoms = current.dictionary().atoms().to_vec();
    let mut change = vec![0.0; dim];
    for atom in 0..atoms.len() / dim {
        change.fill(0.0);
        let mut curvature = 0.0;
        for (other, overlap) in entries(&weights.overlaps, atom) {
            add_scaled(&mut change, -overlap, &atoms[other * dim..(other + 1) * dim]);
            if other == atom {
                curvature = overlap;
            }
        }
        if curvature <= 0.0 {
            continue;
        }
        for (signal, weight) in entries(&weights.by_atom, atom) {
            add_scaled(&mut change, step.task.counts[signal] * weight, step.signals.row(signal));
        }
        let moved = &mut atoms[atom * dim..(atom + 1) * dim];
        add_scaled(moved, 1.0 / curvature, &change);
        step.limit_norms(moved);
    }
    let dictionary = step.prepare(atoms, Some(&current.gram()?.order))?;
    Ok(Moved { dictionary, similarities: None })
}
