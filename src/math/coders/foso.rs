//! FOSO: first-order smooth optimisation (Kim 2014, as paper 1, A.1, describes it).
//!
//! `|w|` is replaced by a function that is smooth within `mu` of zero (its derivative is `w / mu` there and
//! the sign outside), and Nesterov's accelerated gradient method minimises the result; `mu` shrinks as it
//! goes. Weights within `mu` of zero count as zero. It stops by the duality gap of that code: with
//! `r = phi(y) - phi(X) w` scaled by `s = min(1, lambda / max |g|)` to be feasible, no code has an objective
//! below `s <phi(y), r> - s^2/2 ||r||^2`.
//!
//! It is as accurate as a first-order method can be in reasonable time: it aims at a duality gap of at best
//! 1e-6 of `k(y, y)`, and gives up after 5000 rounds, mostly much closer to the minimum than it can prove.
//!
//! A step is as long as a parabola above the objective allows: `L + lambda / max(mu, |w_i|)` with `L` at
//! least the largest eigenvalue of `K`, so that a small `mu` does not slow down weights that are far from zero.
//!
//! Deviations: `mu` is not fixed in advance by the accuracy wanted, which would make the first rounds as
//! slow as the last; momentum restarts where it points uphill; all signals of a block share the product
//! with `K`.

use super::batch::{Solution, Solver, Waiting, code_each};
use super::codes::{Codes, ExitReason, SignalReport};
use super::lasso::Lasso;
use super::similarities::{ExactBlock, SimilarityBlock};
use super::{Coder, CoderOptions, Form, L1_OPTIONS};
use crate::math::gram::Gram;
use crate::math::product::rows_times_symmetric;
use crate::math::signals::add_scaled;
use crate::math::{PreparedDictionary, Result, Signals};

/// Rounds between two looks at the duality gap.
const ROUNDS_PER_LOOK: usize = 20;
/// What `mu` is multiplied with once the smooth problem is solved well enough: its slope is this much
/// smaller than the code's violation, which is then due to `mu`.
const SHRINKAGE: f64 = 0.25;
const SOLVED: f64 = 0.3;
const SMALLEST_MU: f64 = 1e-200;
/// The finest accuracy it aims at: beyond that it crawls where atoms are alike.
const FINEST: f64 = 1e-6;
/// Rounds after which it gives up.
const MOST_ROUNDS: usize = 5000;

/// First-order smooth optimisation.
#[derive(Debug, Clone, Copy)]
pub struct Foso;

impl Coder for Foso {
    fn name(&self) -> &'static str {
        "foso"
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
        let solver = Smooth {
            gram,
            curvature: gram.eigenvalue_bound(),
            lambda: options.lambda(),
            accuracy: options.tolerance.get().max(FINEST),
            most_rounds: options.max_rounds.min(MOST_ROUNDS),
        };
        code_each(dictionary, signals, options, None, &solver)
    }
}

struct Smooth<'a> {
    gram: &'a Gram,
    curvature: f64,
    lambda: f64,
    /// Accepted duality gap as a share of `k(y, y)`.
    accuracy: f64,
    most_rounds: usize,
}

/// What is reused from block to block. Rows run over the signals that are still being worked on.
#[derive(Debug, Default)]
struct Memory {
    running: Vec<Run>,
    weights: Vec<f64>,
    /// Where gradients are taken.
    points: Vec<f64>,
    /// `K` times each point.
    products: Vec<f64>,
    correlations: Vec<f64>,
    /// The codes of the block's signals.
    finished: Vec<Finished>,
}

/// A signal that is being worked on.
#[derive(Debug, Clone, Copy)]
struct Run {
    index: usize,
    momentum: f64,
    mu: f64,
    /// The largest derivative of the smooth objective at the last point.
    slope: f64,
}

/// A code, in ascending order of positions.
#[derive(Debug, Clone, Default)]
struct Finished {
    positions: Vec<u32>,
    weights: Vec<f64>,
    objective: f64,
    rounds: usize,
    violation: f64,
    converged: bool,
}

impl Solver for Smooth<'_> {
    type Block = ExactBlock;
    type Memory = Memory;

    #[inline(always)]
    fn begin(&self, block: &ExactBlock, memory: &mut Memory) {
        let atoms = self.gram.atoms;
        let count = block.all().len() / atoms;
        let scale = |i: usize| block.similarities(i).iter().fold(0.0f64, |most, k| most.max(k.abs()));
        memory.running.clear();
        memory.running.extend((0..count).map(|index| Run {
            index,
            momentum: 1.0,
            mu: scale(index) / self.curvature,
            slope: 0.0,
        }));
        for rows in [&mut memory.weights, &mut memory.points] {
            rows.clear();
            rows.resize(count * atoms, 0.0);
        }
        memory.finished.clear();
        memory.finished.resize(count, Finished::default());
        for rounds in 0.. {
            if rounds % ROUNDS_PER_LOOK == 0 {
                self.look(block, memory, rounds);
                if memory.running.is_empty() {
                    break;
                }
            }
            rows_times_symmetric(&memory.points, &self.gram.values, atoms, &mut memory.products);
            self.step(block, memory);
        }
    }

    #[inline(always)]
    fn solve(
        &self,
        problem: &Lasso<'_>,
        signal: Waiting<'_, &[f64]>,
        memory: &mut Memory,
        solution: &mut Solution,
    ) -> SignalReport {
        let code = &memory.finished[signal.index];
        solution.write(problem, code.positions.iter().copied().zip(code.weights.iter().copied()));
        SignalReport {
            objective: code.objective,
            rounds: code.rounds as u32,
            updates: code.rounds as u64 * problem.gram.atoms as u64,
            gap: code.violation,
            exit: if code.converged { ExitReason::Converged } else { ExitReason::MaxRounds },
        }
    }
}

impl Smooth<'_> {
    /// One accelerated gradient step of every running signal.
    #[inline(always)]
    fn step(&self, block: &ExactBlock, memory: &mut Memory) {
        let atoms = self.gram.atoms;
        let Memory { running, weights, points, products, .. } = memory;
        let rows = weights.chunks_exact_mut(atoms).zip(points.chunks_exact_mut(atoms));
        for ((run, (weights, points)), products) in
            running.iter_mut().zip(rows).zip(products.chunks_exact(atoms))
        {
            let similarities = block.similarities(run.index);
            let (mut uphill, mut largest) = (0.0, 0.0f64);
            // The new weights take the place of the products' points for a moment.
            for j in 0..atoms {
                let slope =
                    products[j] - similarities[j] + self.lambda * (points[j] / run.mu).clamp(-1.0, 1.0);
                points[j] -= slope / (self.curvature + self.lambda / points[j].abs().max(run.mu));
                uphill += slope * (points[j] - weights[j]);
                largest = largest.max(slope.abs());
            }
            run.slope = largest;
            if uphill > 0.0 {
                run.momentum = 1.0;
            }
            let next = 0.5 * (1.0 + (1.0 + 4.0 * run.momentum * run.momentum).sqrt());
            let push = (run.momentum - 1.0) / next;
            run.momentum = next;
            for (weight, point) in weights.iter_mut().zip(points.iter_mut()) {
                let new = *point;
                *point = new + push * (new - *weight);
                *weight = new;
            }
        }
    }

    /// Judges every running signal's code; lets those that are good enough go and makes the rest sharper.
    #[inline(always)]
    fn look(&self, block: &ExactBlock, memory: &mut Memory, rounds: usize) {
        let atoms = self.gram.atoms;
        let Memory { running, weights, points, correlations, finished, .. } = memory;
        let mut kept = 0;
        for row in 0..running.len() {
            let mut run = running[row];
            let range = row * atoms..(row + 1) * atoms;
            let code = &mut finished[run.index];
            let own = block.self_similarity(run.index);
            let gap = self.judge(
                code,
                &weights[range.clone()],
                run.mu,
                block.similarities(run.index),
                own,
                correlations,
            );
            code.rounds = rounds;
            code.converged = gap <= self.accuracy * own;
            if code.converged || rounds >= self.most_rounds {
                continue;
            }
            if run.slope <= SOLVED * code.violation {
                run.mu = (run.mu * SHRINKAGE).max(SMALLEST_MU);
            }
            running[kept] = run;
            weights.copy_within(range.clone(), kept * atoms);
            points.copy_within(range, kept * atoms);
            kept += 1;
        }
        running.truncate(kept);
        weights.truncate(kept * atoms);
        points.truncate(kept * atoms);
    }

    /// Makes a code of the weights that are not within `mu` of zero; gives its duality gap.
    #[inline(always)]
    fn judge(
        &self,
        code: &mut Finished,
        weights: &[f64],
        mu: f64,
        similarities: &[f64],
        own: f64,
        correlations: &mut Vec<f64>,
    ) -> f64 {
        code.positions.clear();
        code.weights.clear();
        correlations.clear();
        correlations.extend_from_slice(similarities);
        for (position, weight) in weights.iter().enumerate().filter(|(_, weight)| weight.abs() > mu) {
            code.positions.push(position as u32);
            code.weights.push(*weight);
            add_scaled(correlations, -weight, self.gram.row(position));
        }
        let largest = correlations.iter().fold(0.0f64, |most, g| most.max(g.abs()));
        code.violation = (largest - self.lambda).max(0.0);
        let (mut explained, mut fitted, mut norm) = (0.0, 0.0, 0.0);
        for (position, weight) in code.positions.iter().zip(&code.weights) {
            let (similarity, correlation) =
                (similarities[*position as usize], correlations[*position as usize]);
            explained += weight * similarity;
            fitted += weight * correlation;
            norm += weight.abs();
            code.violation = code.violation.max((correlation - self.lambda.copysign(*weight)).abs());
        }
        let residual_square = own - explained - fitted;
        code.objective = 0.5 * residual_square + self.lambda * norm;
        let feasible = if largest > self.lambda { self.lambda / largest } else { 1.0 };
        code.objective - feasible * (own - explained) + 0.5 * feasible * feasible * residual_square
    }
}
