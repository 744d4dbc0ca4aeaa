//! KFMC: ridge weights in closed form, of which the largest are kept (Fan & Udell 2019, as paper 1, A.5.2,
//! describes it).
//!
//! `1/2 ||phi(y) - phi(X) w||^2 + lambda/2 ||w||^2` has the minimum `w = (K + lambda I)^-1 k`: one
//! factorisation per dictionary and lambda, and a product per block. Next to no weight is zero; what
//! `max_nonzeros` does not leave room for is dropped and, as in the paper, the others stay as they are.

use std::sync::Arc;

use super::batch::{Solution, Solver, Waiting, choose_largest, code_each};
use super::codes::{Codes, ExitReason, SignalReport};
use super::lasso::Lasso;
use super::similarities::ExactBlock;
use super::{Coder, CoderOptions, Form};
use crate::math::product::rows_times_symmetric;
use crate::math::{PreparedDictionary, Result, Signals};

/// Ridge weights, cut down to the largest.
#[derive(Debug, Clone, Copy)]
pub struct Kfmc;

impl Coder for Kfmc {
    fn name(&self) -> &'static str {
        "kfmc"
    }

    fn heeds(&self) -> &'static [&'static str] {
        &["lambda", "max_nonzeros"]
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
        let gram = dictionary.gram()?;
        let inverse = gram.ridge_inverse(options.lambda())?;
        let most = options.max_nonzeros.map_or(gram.atoms, |most| most.min(gram.atoms));
        code_each(dictionary, signals, options, None, &Ridge { inverse, most })
    }
}

struct Ridge {
    /// `(K + lambda I)^-1`.
    inverse: Arc<Vec<f64>>,
    most: usize,
}

/// What is reused from signal to signal.
#[derive(Debug, Default)]
struct Memory {
    /// The weights of all signals of the block.
    all: Vec<f64>,
    chosen: Vec<usize>,
    positions: Vec<u32>,
    weights: Vec<f64>,
}

impl Solver for Ridge {
    type Block = ExactBlock;
    type Memory = Memory;

    #[inline(always)]
    fn begin(&self, block: &ExactBlock, memory: &mut Memory) {
        rows_times_symmetric(block.all(), &self.inverse, block.atoms(), &mut memory.all);
    }

    #[inline(always)]
    fn solve(
        &self,
        problem: &Lasso<'_>,
        signal: Waiting<'_, &[f64]>,
        memory: &mut Memory,
        solution: &mut Solution,
    ) -> SignalReport {
        let Memory { all, chosen, positions, weights } = memory;
        let atoms = problem.gram.atoms;
        let dense = &all[signal.index * atoms..(signal.index + 1) * atoms];
        choose_largest(chosen, atoms, self.most, |i| dense[i].abs() * problem.gram.norms[i]);
        chosen.retain(|i| dense[*i] != 0.0);
        positions.clear();
        positions.extend(chosen.iter().map(|i| *i as u32));
        weights.clear();
        weights.extend(chosen.iter().map(|i| dense[*i]));
        solution.write(problem, positions.iter().copied().zip(weights.iter().copied()));
        let (objective, _) = problem.judge(signal.similarities, positions, weights);
        let exit = if self.most < atoms { ExitReason::Truncated } else { ExitReason::Converged };
        // The weights before the cut are exact.
        SignalReport { objective, rounds: 1, updates: atoms as u64, gap: 0.0, exit }
    }
}
