//! LPM: the linearised proximal method for the l0 form (Bao et al. 2014, Quan et al. 2016, as paper 1,
//! A.5.2, describes it).
//!
//! The fit is linearised at `w` and given a curvature `L`, at least the largest eigenvalue of `K`, so a round
//! is a gradient step `u = w + (k - K w) / L` of which the `max_nonzeros` largest entries survive.
//!
//! Deviation: a fixed point of the round is least squares on its own support, and the way there is slow
//! where atoms are alike. So once the support has settled its weights are computed directly, and the rounds go
//! on from them until they no longer change it. The variant with
//! a penalty `lambda ||w||_0` instead of a limit is left out: from `w = 0` no atom ever passes its threshold
//! where atoms are alike.

use super::batch::{Solution, Solver, Waiting, choose_largest, code_each};
use super::cholesky::Cholesky;
use super::codes::{Codes, ExitReason, SignalReport};
use super::lasso::Lasso;
use super::similarities::ExactBlock;
use super::{Coder, CoderOptions, Form};
use crate::math::signals::add_scaled;
use crate::math::{MathError, PreparedDictionary, Result, Signals};

/// Rounds without a change after which the support counts as settled.
const STEADY_ROUNDS: usize = 20;
/// Rounds after which it is taken as it is: where atoms are alike it may wander for long.
const MOST_ROUNDS: usize = 1000;

/// The linearised proximal method.
#[derive(Debug, Clone, Copy)]
pub struct Lpm;

impl Coder for Lpm {
    fn name(&self) -> &'static str {
        "lpm"
    }

    fn heeds(&self) -> &'static [&'static str] {
        &["max_nonzeros"]
    }

    fn requires(&self) -> &'static [&'static str] {
        &["max_nonzeros"]
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
        let curvature = dictionary.gram()?.eigenvalue_bound();
        let Some(most) = options.max_nonzeros else {
            let (name, value) = ("max_nonzeros", "missing".to_string());
            return Err(MathError::Parameter { name, value, requirement: "given for the coder lpm" });
        };
        let solver = Proximal { curvature, most };
        code_each(dictionary, signals, options, None, &solver)
    }
}

struct Proximal {
    curvature: f64,
    most: usize,
}

/// What is reused from signal to signal.
#[derive(Debug, Default)]
struct Memory {
    /// The support, in ascending order, with its weights.
    positions: Vec<u32>,
    weights: Vec<f64>,
    /// All weights after the gradient step.
    moved: Vec<f64>,
    chosen: Vec<usize>,
    factor: Cholesky,
}

impl Solver for Proximal {
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
        memory.positions.clear();
        memory.weights.clear();
        let (mut rounds, mut steady) = (0, 0);
        // The weights of a settled support are computed directly, and stand if a round from them keeps it.
        let mut settled = false;
        while !settled && rounds < MOST_ROUNDS {
            rounds += 1;
            let changed = self.round(problem, signal.similarities, memory);
            steady = if changed { 0 } else { steady + 1 };
            if steady >= STEADY_ROUNDS {
                memory.fit(problem, signal.similarities);
                settled = !self.round(problem, signal.similarities, memory);
                steady = 0;
            }
        }
        memory.fit(problem, signal.similarities);
        let Memory { positions, weights, .. } = memory;
        let (objective, gap) = problem.judge(signal.similarities, positions, weights);
        solution.write(problem, positions.iter().copied().zip(weights.iter().copied()));
        let full = positions.len() == self.most;
        let exit = match (settled, full) {
            (false, _) => ExitReason::MaxRounds,
            (true, true) => ExitReason::Truncated,
            (true, false) => ExitReason::Converged,
        };
        let updates = rounds as u64 * signal.similarities.len() as u64;
        SignalReport { objective, rounds: rounds as u32, updates, gap, exit }
    }
}

impl Proximal {
    /// One round; gives whether the support changed.
    #[inline(always)]
    fn round(&self, problem: &Lasso<'_>, similarities: &[f64], memory: &mut Memory) -> bool {
        let Memory { positions, weights, moved, chosen, .. } = memory;
        moved.clear();
        moved.extend(similarities.iter().map(|similarity| similarity / self.curvature));
        for (position, weight) in positions.iter().zip(weights.iter()) {
            add_scaled(moved, -weight / self.curvature, problem.gram.row(*position as usize));
        }
        for (position, weight) in positions.iter().zip(weights.iter()) {
            moved[*position as usize] += weight;
        }
        choose_largest(chosen, moved.len(), self.most, |i| moved[i].abs());
        chosen.retain(|i| moved[*i] != 0.0);
        let same = chosen.iter().map(|i| *i as u32).eq(positions.iter().copied());
        positions.clear();
        positions.extend(chosen.iter().map(|i| *i as u32));
        weights.clear();
        weights.extend(chosen.iter().map(|i| moved[*i]));
        !same
    }
}

impl Memory {
    /// Least squares on the support, without atoms that depend on others.
    #[inline(always)]
    fn fit(&mut self, problem: &Lasso<'_>, similarities: &[f64]) {
        let Self { positions, weights, factor, .. } = self;
        factor.truncate(0);
        weights.clear();
        let mut kept = 0;
        for i in 0..positions.len() {
            let row = problem.gram.row(positions[i] as usize);
            let before = positions[..kept].iter().map(|other| row[*other as usize]);
            if factor.push(before, row[positions[i] as usize]).is_ok() {
                positions[kept] = positions[i];
                weights.push(similarities[positions[i] as usize]);
                kept += 1;
            }
        }
        positions.truncate(kept);
        factor.solve(weights);
        let mut nonzero = weights.iter().map(|weight| *weight != 0.0);
        positions.retain(|_| nonzero.next() == Some(true));
        weights.retain(|weight| *weight != 0.0);
    }
}
