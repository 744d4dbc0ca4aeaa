//! KFSS: kernel feature-sign search (Lee et al. 2006; Gao et al. 2013), in gram form.
//!
//! Guesses the signs of the weights: one atom joins at a time, the one that violates `|g_i| <= lambda`
//! most, and with signs `theta` fixed the weights of the active set are `K_SS^-1 (k_S - lambda theta_S)`.
//! The step towards them ends where the objective is lowest, weights that reach zero no longer move, and so
//! on until no condition is violated.
//!
//! Deviations: the step is that of `active_set`, whose line search looks between the sign changes too and
//! which copes with atoms that depend on each other; a new atom enters by one coordinate step.

use super::active_set::ActiveSet;
use super::batch::{Solution, Solver, Waiting, code_each};
use super::codes::{Codes, ExitReason, SignalReport};
use super::lasso::Lasso;
use super::similarities::ExactBlock;
use super::{Coder, CoderOptions, Form, L1_OPTIONS};
use crate::math::signals::add_scaled;
use crate::math::{PreparedDictionary, Result, Signals};

/// Kernel feature-sign search.
#[derive(Debug, Clone, Copy)]
pub struct Kfss;

impl Coder for Kfss {
    fn name(&self) -> &'static str {
        "kfss"
    }

    fn heeds(&self) -> &'static [&'static str] {
        L1_OPTIONS
    }

    fn form(&self) -> Form {
        Form::L1
    }

    fn encode(
        &self,
        dictionary: &PreparedDictionary,
        signals: &Signals<'_>,
        options: &CoderOptions,
    ) -> Result<Codes> {
        code_each(dictionary, signals, options, None, self)
    }
}

impl Solver for Kfss {
    type Block = ExactBlock;
    /// The active set, and the correlations of all atoms.
    type Memory = (ActiveSet, Vec<f64>);

    #[inline(always)]
    fn solve(
        &self,
        problem: &Lasso<'_>,
        signal: Waiting<'_, &[f64]>,
        (set, correlations): &mut (ActiveSet, Vec<f64>),
        solution: &mut Solution,
    ) -> SignalReport {
        set.clear();
        let mut exit = ExitReason::Converged;
        let gap = loop {
            correlations.clear();
            correlations.extend_from_slice(signal.similarities);
            for (position, weight) in set.positions.iter().zip(&set.weights).filter(|(_, w)| **w != 0.0) {
                add_scaled(correlations, -weight, problem.gram.row(*position as usize));
            }
            let (outside, violator) = worst(problem, set, correlations);
            let Some(position) = violator.filter(|_| exit == ExitReason::Converged) else {
                break set.gap(problem).max(outside);
            };
            set.add(problem, position, signal.similarities[position], correlations[position]);
            if !set.solve(problem) {
                exit = ExitReason::MaxRounds;
            }
        };
        set.write_solution(problem, solution);
        let objective = set.objective(problem);
        SignalReport { objective, rounds: set.rounds as u32, updates: set.updates, gap, exit }
    }
}

/// The largest violation outside the set, and the atom whose violation is farthest from being accepted.
#[inline(always)]
fn worst(problem: &Lasso<'_>, set: &ActiveSet, correlations: &[f64]) -> (f64, Option<usize>) {
    let (mut largest, mut farthest, mut violator) = (0.0f64, 0.0, None);
    for (position, correlation) in correlations.iter().enumerate() {
        let violation = correlation.abs() - problem.lambda;
        if violation <= 0.0 || set.positions.contains(&(position as u32)) {
            continue;
        }
        largest = largest.max(violation);
        // Correlations scale with the atom's norm.
        let relative = violation / problem.gram.norms[position];
        if violation > problem.accepted(position) && relative > farthest {
            (farthest, violator) = (relative, Some(position));
        }
    }
    (largest, violator)
}
