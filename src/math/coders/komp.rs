//! KOMP: kernel orthogonal matching pursuit (paper 4, Algorithm 2).
//!
//! Takes the atom with the largest correlation `g = k - K w`, fits all atoms taken so far by least
//! squares, `w_S = K_SS^-1 k_S`, and goes on until `||phi(y) - phi(X) w||^2 = k_yy - k_S . w_S` is small
//! enough or the atoms allowed are used up.
//!
//! Deviations: an atom is chosen by `|g_i| / ||phi(x_i)||`, since correlations have both signs and atoms
//! need not have norm 1; the Cholesky factor of `K_SS` grows by a row instead of being inverted anew; an
//! atom that depends on those taken is passed over.

use super::batch::{Solution, Solver, Waiting, code_each};
use super::cholesky::Cholesky;
use super::codes::{Codes, ExitReason, SignalReport};
use super::lasso::Lasso;
use super::similarities::ExactBlock;
use super::{Coder, CoderOptions, Form};
use crate::math::signals::add_scaled;
use crate::math::{PreparedDictionary, Result, Signals};

/// Nothing is gained by atoms whose cosine with what is left of the signal is a rounding error.
const ROUNDING: f64 = 1e-13;

/// Kernel orthogonal matching pursuit.
#[derive(Debug, Clone, Copy)]
pub struct Komp;

impl Coder for Komp {
    fn name(&self) -> &'static str {
        "komp"
    }

    fn heeds(&self) -> &'static [&'static str] {
        &["max_nonzeros", "residual"]
    }

    fn form(&self) -> Form {
        Form::Nonzeros
    }

    fn encode(
        &self,
        dictionary: &PreparedDictionary,
        signals: &Signals<'_>,
        options: &CoderOptions,
    ) -> Result<Codes> {
        let most = options.max_nonzeros.unwrap_or(usize::MAX);
        code_each(dictionary, signals, options, None, &Pursuit { most, residual: options.residual.get() })
    }
}

struct Pursuit {
    most: usize,
    /// What may be left, as a share of the signal's norm.
    residual: f64,
}

/// What is reused from signal to signal.
#[derive(Debug, Default)]
struct Memory {
    positions: Vec<u32>,
    weights: Vec<f64>,
    /// `k - K w`.
    correlations: Vec<f64>,
    /// Taken, or found to depend on those taken.
    done: Vec<bool>,
    factor: Cholesky,
}

impl Solver for Pursuit {
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
        memory.clear(similarities);
        let enough = self.residual * self.residual * problem.self_similarity;
        let smallest = ROUNDING * problem.self_similarity.abs().sqrt();
        let (mut left, mut updates) = (problem.self_similarity, 0);
        let exit = loop {
            if left <= enough {
                break ExitReason::Converged;
            }
            let Some(best) = memory
                .best(problem)
                .filter(|best| memory.correlations[*best].abs() > smallest * problem.gram.norms[*best])
            else {
                break ExitReason::Converged;
            };
            if memory.positions.len() == self.most {
                break ExitReason::Truncated;
            }
            if memory.take(problem, best) {
                updates += memory.positions.len() as u64;
                memory.fit(problem, similarities);
                let explained = memory.positions.iter().zip(&memory.weights);
                left = problem.self_similarity
                    - explained
                        .map(|(position, weight)| weight * similarities[*position as usize])
                        .sum::<f64>();
            }
        };
        let rounds = memory.positions.len() as u32;
        let (objective, gap) = problem.judge(similarities, &memory.positions, &memory.weights);
        solution.write(problem, memory.positions.iter().copied().zip(memory.weights.iter().copied()));
        SignalReport { objective, rounds, updates, gap, exit }
    }
}

impl Memory {
    #[inline(always)]
    fn clear(&mut self, similarities: &[f64]) {
        self.positions.clear();
        self.weights.clear();
        self.factor.truncate(0);
        self.correlations.clear();
        self.correlations.extend_from_slice(similarities);
        self.done.clear();
        self.done.resize(similarities.len(), false);
    }

    /// The position that explains most of what is left.
    #[inline(always)]
    fn best(&self, problem: &Lasso<'_>) -> Option<usize> {
        let (mut best, mut largest) = (None, 0.0);
        for (position, correlation) in self.correlations.iter().enumerate() {
            let size = correlation.abs() / problem.gram.norms[position];
            if size > largest && !self.done[position] {
                (best, largest) = (Some(position), size);
            }
        }
        best
    }

    /// False for an atom that depends on those taken before.
    #[inline(always)]
    fn take(&mut self, problem: &Lasso<'_>, position: usize) -> bool {
        let row = problem.gram.row(position);
        let similarities = self.positions.iter().map(|other| row[*other as usize]);
        self.done[position] = true;
        let independent = self.factor.push(similarities, row[position]).is_ok();
        if independent {
            self.positions.push(position as u32);
        }
        independent
    }

    /// Least squares on the atoms taken, and what it leaves of every correlation.
    #[inline(always)]
    fn fit(&mut self, problem: &Lasso<'_>, similarities: &[f64]) {
        self.weights.clear();
        self.weights.extend(self.positions.iter().map(|position| similarities[*position as usize]));
        self.factor.solve(&mut self.weights);
        self.correlations.copy_from_slice(similarities);
        for (position, weight) in self.positions.iter().zip(&self.weights) {
            add_scaled(&mut self.correlations, -weight, problem.gram.row(*position as usize));
        }
    }
}
