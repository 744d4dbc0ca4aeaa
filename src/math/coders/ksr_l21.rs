//! KSR-L2,1: kernel sparse representation with the l2,1 norm (Qian et al. 2023, as paper 1, A.5.2, describes
//! it). It couples the signals it is given: an atom is used by many of them or by none.
//!
//! Minimises `1/2 ||phi(Y) - phi(X) W||_F^2 + lambda sum_i ||W_i||` over the rows of `W`, one per atom, by
//! reweighting: with `S = diag(||W_i||)` of the round before, `W = (K + lambda S^-1)^-1 k(X, Y)`. Rows that
//! shrink to nothing make `S^-1` grow without bound, so it is computed as
//! `S^1/2 (S^1/2 K S^1/2 + lambda I)^-1 S^1/2 k(X, Y)`, and such rows are dropped.
//!
//! As in the paper, of every signal's weights the largest `max_nonzeros` are kept as they are. Deviation: it
//! stops by the duality gap instead of after a number of rounds.

use rayon::prelude::*;

use super::batch::{BlockCodes, choose_largest, concatenate, map_blocks};
use super::codes::{Codes, ExitReason, SignalReport};
use super::lasso::Lasso;
use super::similarities::{ExactBlock, SimilarityBlock};
use super::{Coder, CoderOptions, Form};
use crate::math::gram::Gram;
use crate::math::product::{BLOCK, rows_times_symmetric};
use crate::math::ridge::RidgeSystem;
use crate::math::signals::by_content;
use crate::math::{PreparedDictionary, Result, Signals};

/// An atom that contributes this much less than the largest counts as unused.
const NEGLIGIBLE: f64 = 1e-9;
/// Rounds after which it gives up.
const MOST_ROUNDS: usize = 500;

/// Kernel sparse representation with the l2,1 norm.
#[derive(Debug, Clone, Copy)]
pub struct KsrL21;

impl Coder for KsrL21 {
    fn name(&self) -> &'static str {
        "ksr_l21"
    }

    fn heeds(&self) -> &'static [&'static str] {
        &["lambda", "max_nonzeros", "tolerance"]
    }

    fn form(&self) -> Form {
        Form::Coupled
    }

    fn encode(
        &self,
        dictionary: &PreparedDictionary,
        signals: &Signals<'_>,
        options: &CoderOptions,
    ) -> Result<Codes> {
        // Sums over signals round, so signals are put into an order of their own, whatever order they came in.
        let mut order: Vec<usize> = (0..signals.len()).collect();
        order.sort_by(|a, b| by_content(signals.row(*a), signals.row(*b)));
        let sorted = Signals::new(order.iter().map(|i| signals.row(*i)).collect())?;
        let codes = encode_sorted(dictionary, &sorted, options)?;
        let mut places = vec![0; signals.len()];
        for (place, i) in order.iter().enumerate() {
            // Equal signals get equal codes, to the last bit.
            let repeats = place > 0 && by_content(sorted.row(place - 1), sorted.row(place)).is_eq();
            places[*i] = if repeats { places[order[place - 1]] } else { place };
        }
        let rows = places.into_iter().map(|place| (codes.row(place), codes.reports[place]));
        Ok(Codes::from_rows(dictionary.dictionary().len(), rows))
    }
}

fn encode_sorted(
    dictionary: &PreparedDictionary,
    signals: &Signals<'_>,
    options: &CoderOptions,
) -> Result<Codes> {
    let gram = dictionary.gram()?;
    let mut group = Group::new(dictionary, gram, signals, options.lambda())?;
    let accepted = options.tolerance.get() * group.own.iter().sum::<f64>();
    let (mut rounds, mut state) = (0, group.judge());
    while state.duality_gap > accepted && rounds < options.max_rounds.min(MOST_ROUNDS) {
        group.reweight()?;
        rounds += 1;
        state = group.judge();
    }
    let converged = state.duality_gap <= accepted;
    group.codes(options, rounds, state.violation, converged)
}

/// The problem of all signals, and its solution so far. Matrices have a row per signal and a column per
/// position in the gram matrix.
struct Group<'a> {
    gram: &'a Gram,
    lambda: f64,
    /// `k(y, y)` of every signal.
    own: Vec<f64>,
    similarities: Vec<f64>,
    weights: Vec<f64>,
    /// `||W_i||` of every atom.
    norms: Vec<f64>,
}

/// How good the solution is.
struct Judgement {
    duality_gap: f64,
    /// The largest violation of the optimality conditions.
    violation: f64,
}

impl<'a> Group<'a> {
    /// Starts from equal norms, which make the first round ridge regression.
    fn new(
        dictionary: &PreparedDictionary,
        gram: &'a Gram,
        signals: &Signals<'_>,
        lambda: f64,
    ) -> Result<Self> {
        let blocks = map_blocks(signals.len(), |block: &mut ExactBlock, range| {
            block.fill(dictionary, gram, signals, range.clone())?;
            let own: Vec<f64> = (0..range.len()).map(|i| block.self_similarity(i)).collect();
            Ok((own, block.all().to_vec()))
        })?;
        let (own, similarities): (Vec<_>, Vec<_>) = blocks.into_iter().unzip();
        let (own, similarities) = (own.concat(), similarities.concat());
        let weights = vec![0.0; similarities.len()];
        Ok(Self { gram, lambda, own, similarities, weights, norms: vec![0.0; gram.atoms] })
    }

    /// One round: the weights for the present norms, then the norms for those weights.
    fn reweight(&mut self) -> Result<()> {
        // Before the first round all norms count as 1.
        let equal = self.norms.iter().all(|norm| *norm == 0.0);
        let negligible = self.negligible();
        let active: Vec<usize> =
            (0..self.gram.atoms).filter(|i| equal || self.contribution(*i) > negligible).collect();
        let roots: Vec<f64> =
            active.iter().map(|i| if equal { 1.0 } else { self.norms[*i].sqrt() }).collect();
        let scaled = |(i, root): (&usize, &f64)| {
            let row = self.gram.row(*i);
            active.iter().zip(&roots).map(|(j, other)| root * row[*j] * other).collect::<Vec<f64>>()
        };
        let matrix: Vec<f64> = active.iter().zip(&roots).flat_map(scaled).collect();
        let system = RidgeSystem::new(matrix, active.len(), self.lambda)?;
        let block = BLOCK * self.gram.atoms;
        let blocks = self.weights.par_chunks_mut(block).zip(self.similarities.par_chunks(block));
        blocks.for_each(|(weights, similarities)| {
            let rows = similarities.chunks_exact(self.gram.atoms);
            let scaled = rows.flat_map(|row| active.iter().zip(&roots).map(|(i, root)| root * row[*i]));
            let mut solved: Vec<f64> = scaled.collect();
            system.solve(&mut solved);
            weights.fill(0.0);
            let rows = weights.chunks_exact_mut(self.gram.atoms).zip(solved.chunks_exact(active.len()));
            for (weights, solved) in rows {
                for ((i, root), value) in active.iter().zip(&roots).zip(solved) {
                    weights[*i] = root * value;
                }
            }
        });
        self.norms = column_norms(&self.weights, self.gram.atoms);
        Ok(())
    }

    /// What an atom contributes to all signals.
    fn contribution(&self, position: usize) -> f64 {
        self.norms[position] * self.gram.norms[position]
    }

    /// The contribution that counts as none.
    fn negligible(&self) -> f64 {
        NEGLIGIBLE * (0..self.gram.atoms).map(|i| self.contribution(i)).fold(0.0, f64::max)
    }

    /// The duality gap as in `foso`, with rows in place of single weights.
    fn judge(&self) -> Judgement {
        let atoms = self.gram.atoms;
        let block = BLOCK * atoms;
        let blocks = self.weights.par_chunks(block).zip(self.similarities.par_chunks(block));
        let correlations = blocks.map(|(weights, similarities)| {
            let mut products = Vec::new();
            rows_times_symmetric(weights, &self.gram.values, atoms, &mut products);
            products.iter().zip(similarities).map(|(product, similarity)| similarity - product).collect()
        });
        let correlations = correlations.collect::<Vec<Vec<f64>>>().concat();
        let explained: f64 = self.weights.iter().zip(&self.similarities).map(|(w, k)| w * k).sum();
        let fitted: f64 = self.weights.iter().zip(&correlations).map(|(w, g)| w * g).sum();
        let own: f64 = self.own.iter().sum();
        let residual_square = own - explained - fitted;
        let objective = 0.5 * residual_square + self.lambda * self.norms.iter().sum::<f64>();
        let sizes = column_norms(&correlations, atoms);
        let largest = sizes.iter().fold(0.0f64, |most, size| most.max(*size));
        let feasible = if largest > self.lambda { self.lambda / largest } else { 1.0 };
        let dual = feasible * (own - explained) - 0.5 * feasible * feasible * residual_square;
        let pulls = self.pulls(&correlations);
        let violations = (0..atoms).map(|i| match self.norms[i] {
            0.0 => (sizes[i] - self.lambda).max(0.0),
            // ||G_i - lambda W_i / ||W_i|| ||, whose cross term is what row i of W explains.
            norm => (sizes[i] * sizes[i] - 2.0 * self.lambda * pulls[i] / norm + self.lambda * self.lambda)
                .max(0.0)
                .sqrt(),
        });
        Judgement { duality_gap: objective - dual, violation: violations.fold(0.0, f64::max) }
    }

    /// `<G_i, W_i>` of every atom.
    fn pulls(&self, correlations: &[f64]) -> Vec<f64> {
        let mut pulls = vec![0.0; self.gram.atoms];
        let rows = self.weights.chunks_exact(pulls.len()).zip(correlations.chunks_exact(pulls.len()));
        for (weights, correlations) in rows {
            for (pull, (weight, correlation)) in pulls.iter_mut().zip(weights.iter().zip(correlations)) {
                *pull += weight * correlation;
            }
        }
        pulls
    }

    /// Every signal's largest weights.
    fn codes(&self, options: &CoderOptions, rounds: usize, gap: f64, converged: bool) -> Result<Codes> {
        let atoms = self.gram.atoms;
        let most = options.max_nonzeros.map_or(atoms, |most| most.min(atoms));
        let negligible = self.negligible();
        type Reused = (super::batch::Solution, Vec<usize>, Vec<u32>, Vec<f64>);
        let blocks = map_blocks(self.own.len(), |reused: &mut Reused, range| {
            let (solution, chosen, positions, weights) = reused;
            let mut codes = BlockCodes::with_capacity(range.len(), range.len() * most);
            for signal in range {
                let problem = Lasso {
                    gram: self.gram,
                    self_similarity: self.own[signal],
                    lambda: self.lambda,
                    tolerance: 0.0,
                    max_rounds: 0,
                };
                let row = &self.weights[signal * atoms..(signal + 1) * atoms];
                let size = |i: usize| row[i].abs() * self.gram.norms[i];
                choose_largest(chosen, atoms, most, size);
                chosen.retain(|i| row[*i] != 0.0 && self.contribution(*i) > negligible);
                positions.clear();
                positions.extend(chosen.iter().map(|i| *i as u32));
                weights.clear();
                weights.extend(chosen.iter().map(|i| row[*i]));
                solution.write(&problem, positions.iter().copied().zip(weights.iter().copied()));
                let similarities = &self.similarities[signal * atoms..(signal + 1) * atoms];
                let (objective, _) = problem.judge(similarities, positions, weights);
                let exit = match converged {
                    false => ExitReason::MaxRounds,
                    true if options.max_nonzeros == Some(chosen.len()) => ExitReason::Truncated,
                    true => ExitReason::Converged,
                };
                let updates = rounds as u64 * atoms as u64;
                codes.push(solution, SignalReport { objective, rounds: rounds as u32, updates, gap, exit });
            }
            Ok(codes)
        })?;
        Ok(concatenate(blocks, self.own.len(), atoms))
    }
}

/// The norm of every column of a matrix by rows.
fn column_norms(matrix: &[f64], columns: usize) -> Vec<f64> {
    let mut squares = vec![0.0; columns];
    for row in matrix.chunks_exact(columns) {
        for (square, value) in squares.iter_mut().zip(row) {
            *square += value * value;
        }
    }
    squares.into_iter().map(f64::sqrt).collect()
}
