//! CD: coordinate descent that skips weights which must stay zero (Fujiwara et al. 2016, as paper 1,
//! eqs. 12-16, describes it). With the linear kernel it is the plain lasso that paper 1 compares with.
//!
//! Every round starts from the correlations at the weights `w'` of the moment, which cost only as many
//! rows of `K` as there are nonzeros. Within the round `|g_i| <= |g'_i| + ||K_i||_2 ||w - w'||_2`
//! (eq. 14), and `||w - w'||` is kept up to date in O(1) (eq. 15): a zero weight whose bound stays within
//! `lambda` is not touched.
//!
//! Deviation: it stops by the optimality gap, which the correlations at the start of a round give exactly.

use super::batch::{Solution, Solver, Waiting, code_each};
use super::codes::{Codes, ExitReason, SignalReport};
use super::lasso::{Lasso, soft_threshold};
use super::similarities::ExactBlock;
use super::{Coder, CoderOptions, Form, L1_OPTIONS};
use crate::math::signals::{add_scaled, dot};
use crate::math::{PreparedDictionary, Result, Signals};

/// Coordinate descent with selective bounds.
#[derive(Debug, Clone, Copy)]
pub struct Cd;

impl Coder for Cd {
    fn name(&self) -> &'static str {
        "cd"
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
        let gram = dictionary.gram()?;
        code_each(dictionary, signals, options, None, &Selective { row_norms: gram.row_norms() })
    }
}

struct Selective<'a> {
    row_norms: &'a [f64],
}

/// What is reused from signal to signal.
#[derive(Debug, Default)]
struct Memory {
    weights: Vec<f64>,
    /// At the start of the round.
    correlations: Vec<f64>,
}

impl Solver for Selective<'_> {
    type Block = ExactBlock;
    type Memory = Memory;

    #[inline(always)]
    fn solve(
        &self,
        problem: &Lasso<'_>,
        signal: Waiting<'_, &[f64]>,
        memory: &mut Memory,
        solution: &mut Solution,
    ) -> SignalReport {
        let similarities = signal.similarities;
        memory.weights.clear();
        memory.weights.resize(similarities.len(), 0.0);
        let (mut rounds, mut updates) = (0, 0);
        let (gap, exit) = loop {
            let (gap, optimal) = memory.start_round(problem, similarities);
            if optimal {
                break (gap, ExitReason::Converged);
            }
            if rounds >= problem.max_rounds {
                break (gap, ExitReason::MaxRounds);
            }
            rounds += 1;
            updates += memory.sweep(problem, similarities, self.row_norms);
        };
        let Memory { weights, correlations, .. } = memory;
        let nonzeros = || weights.iter().enumerate().filter(|(_, weight)| **weight != 0.0);
        solution.write(problem, nonzeros().map(|(position, weight)| (position as u32, *weight)));
        let objective = problem.objective(nonzeros().map(|(i, w)| (similarities[i], *w, correlations[i])));
        SignalReport { objective, rounds: rounds as u32, updates, gap, exit }
    }
}

impl Memory {
    /// Computes all correlations; gives the largest violation, and whether all are accepted.
    #[inline(always)]
    fn start_round(&mut self, problem: &Lasso<'_>, similarities: &[f64]) -> (f64, bool) {
        self.correlations.clear();
        self.correlations.extend_from_slice(similarities);
        for (position, weight) in self.weights.iter().enumerate().filter(|(_, weight)| **weight != 0.0) {
            add_scaled(&mut self.correlations, -weight, problem.gram.row(position));
        }
        problem.gap(&self.weights, &self.correlations)
    }

    /// One round over the weights that may change; gives how many were computed.
    #[inline(always)]
    fn sweep(&mut self, problem: &Lasso<'_>, similarities: &[f64], row_norms: &[f64]) -> u64 {
        let (mut moved_square, mut computed) = (0.0f64, 0);
        for i in 0..self.weights.len() {
            let old = self.weights[i];
            let diagonal = problem.gram.diagonal(i);
            let bound = self.correlations[i].abs() + row_norms[i] * moved_square.sqrt();
            if diagonal <= 0.0 || (old == 0.0 && bound <= problem.lambda) {
                continue;
            }
            computed += 1;
            let z = similarities[i] - dot(problem.gram.row(i), &self.weights) + diagonal * old;
            let new = soft_threshold(z, problem.lambda) / diagonal;
            moved_square += (new - old) * (new - old);
            self.weights[i] = new;
        }
        computed
    }
}
