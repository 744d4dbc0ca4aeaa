//! KSC: plain cyclic coordinate descent (paper 1, eqs. 8-9). The yardstick.
//!
//! Every round visits every atom and computes `z_i = k_i - sum_{j != i} K_ij w_j` anew, O(p) each.
//! Deviations: `K_ii` need not be 1 (`w_i = soft_lambda(z_i) / K_ii`), and it stops by the
//! optimality gap instead of by the change of `w`, which can be small far from the optimum.

use super::batch::{Solution, Solver, Waiting, code_each};
use super::codes::{Codes, ExitReason, SignalReport};
use super::lasso::{Lasso, soft_threshold};
use super::similarities::ExactBlock;
use super::{Coder, CoderOptions, Form, L1_OPTIONS};
use crate::math::signals::dot;
use crate::math::{PreparedDictionary, Result, Signals};

/// Plain cyclic coordinate descent.
#[derive(Debug, Clone, Copy)]
pub struct Ksc;

impl Coder for Ksc {
    fn name(&self) -> &'static str {
        "ksc"
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

impl Solver for Ksc {
    type Block = ExactBlock;
    /// Correlations and weights of all atoms.
    type Memory = (Vec<f64>, Vec<f64>);

    #[inline(always)]
    fn solve(
        &self,
        problem: &Lasso<'_>,
        signal: Waiting<'_, &[f64]>,
        (correlations, weights): &mut (Vec<f64>, Vec<f64>),
        solution: &mut Solution,
    ) -> SignalReport {
        let similarities = signal.similarities;
        let atoms = problem.gram.atoms;
        weights.clear();
        weights.resize(atoms, 0.0);
        let (mut rounds, mut updates) = (0, 0);
        let (gap, exit) = loop {
            let mut largest_change = 0.0f64;
            for i in 0..atoms {
                let diagonal = problem.gram.diagonal(i);
                if diagonal <= 0.0 {
                    continue;
                }
                let z = similarities[i] - dot(problem.gram.row(i), weights) + diagonal * weights[i];
                let new = soft_threshold(z, problem.lambda) / diagonal;
                largest_change = largest_change.max(diagonal.sqrt() * (new - weights[i]).abs());
                weights[i] = new;
            }
            rounds += 1;
            updates += atoms as u64;
            let last = rounds >= problem.max_rounds;
            // A coordinate's change is its violation when visited, so the gap, which costs a round of
            // its own, is worth computing only once changes are that small.
            if last || largest_change <= problem.tolerance {
                let (gap, optimal) = gap(problem, similarities, weights, correlations);
                if optimal {
                    break (gap, ExitReason::Converged);
                }
                if last {
                    break (gap, ExitReason::MaxRounds);
                }
            }
        };
        let nonzeros = || weights.iter().enumerate().filter(|(_, weight)| **weight != 0.0);
        solution.write(problem, nonzeros().map(|(position, weight)| (position as u32, *weight)));
        let objective = problem.objective(nonzeros().map(|(i, w)| (similarities[i], *w, correlations[i])));
        SignalReport { objective, rounds: rounds as u32, updates, gap, exit }
    }
}

/// Fills `correlations` with `k - K w`; gives the largest violation, and whether all are accepted.
#[inline(always)]
fn gap(
    problem: &Lasso<'_>,
    similarities: &[f64],
    weights: &[f64],
    correlations: &mut Vec<f64>,
) -> (f64, bool) {
    correlations.clear();
    let correlation = |i: usize| similarities[i] - dot(problem.gram.row(i), weights);
    correlations.extend((0..weights.len()).map(correlation));
    problem.gap(weights, correlations)
}
