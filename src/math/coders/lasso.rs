//! The problem every coder solves for one signal, and how good a given code is.
//!
//! In gram form (paper 1, eq. 7): `1/2 (k_yy - 2 k.w + w'Kw) + lambda ||w||_1`. With the
//! correlations `g = k - K w`, `w` is optimal where `g_i = lambda sign(w_i)` on the nonzeros and
//! `|g_i| <= lambda` elsewhere; the largest violation is the optimality gap.

use std::ops::Range;

use super::batch::map_blocks;
use super::codes::Code;
use super::similarities::{ExactBlock, SimilarityBlock};
use crate::math::gram::Gram;
use crate::math::signals::add_scaled;
use crate::math::{MathError, Positive, PreparedDictionary, Result, Signals};

/// One signal's problem.
#[derive(Clone, Copy)]
pub(super) struct Lasso<'a> {
    pub gram: &'a Gram,
    /// `k(y, y)`.
    pub self_similarity: f64,
    pub lambda: f64,
    /// Accepted violation of an atom of norm 1 in the feature space.
    pub tolerance: f64,
    pub max_rounds: usize,
}

impl Lasso<'_> {
    /// The objective from the nonzeros' `(k_i, w_i, g_i)`:
    /// `1/2 (k_yy - sum w_i (k_i + g_i)) + lambda ||w||_1`.
    #[inline(always)]
    pub fn objective(&self, nonzeros: impl Iterator<Item = (f64, f64, f64)>) -> f64 {
        let (mut explained, mut norm) = (0.0, 0.0);
        for (similarity, weight, correlation) in nonzeros {
            explained += weight * (similarity + correlation);
            norm += weight.abs();
        }
        0.5 * (self.self_similarity - explained) + self.lambda * norm
    }

    /// The objective of a code given by positions and weights, and the largest correlation among its atoms.
    #[inline(always)]
    pub fn judge(&self, similarities: &[f64], positions: &[u32], weights: &[f64]) -> (f64, f64) {
        let mut largest = 0.0f64;
        let entries = positions.iter().zip(weights).map(|(position, weight)| {
            let (similarity, row) = (similarities[*position as usize], self.gram.row(*position as usize));
            let fitted: f64 = positions.iter().zip(weights).map(|(other, w)| w * row[*other as usize]).sum();
            largest = largest.max((similarity - fitted).abs());
            (similarity, *weight, similarity - fitted)
        });
        (self.objective(entries), largest)
    }

    /// The violation that is accepted of the atom at a position: correlations scale with its norm.
    #[inline(always)]
    pub fn accepted(&self, position: usize) -> f64 {
        self.tolerance * self.gram.norms[position]
    }

    /// How far one coordinate is from its optimality condition.
    #[inline(always)]
    pub fn violation(&self, weight: f64, correlation: f64) -> f64 {
        if weight == 0.0 {
            (correlation.abs() - self.lambda).max(0.0)
        } else {
            (correlation - self.lambda.copysign(weight)).abs()
        }
    }

    /// The largest violation, and whether all are accepted, from weights and correlations of all atoms.
    #[inline(always)]
    pub fn gap(&self, weights: &[f64], correlations: &[f64]) -> (f64, bool) {
        let (mut largest, mut optimal) = (0.0f64, true);
        for (position, (weight, correlation)) in weights.iter().zip(correlations).enumerate() {
            let violation = self.violation(*weight, *correlation);
            largest = largest.max(violation);
            optimal &= violation <= self.accepted(position);
        }
        (largest, optimal)
    }
}

/// `soft_lambda(z)` of eq. 9.
#[inline(always)]
pub(super) fn soft_threshold(z: f64, lambda: f64) -> f64 {
    if z > lambda {
        z - lambda
    } else if z < -lambda {
        z + lambda
    } else {
        0.0
    }
}

/// How well a code represents a signal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evaluation {
    /// `1/2 ||phi(y) - phi(X) w||^2`.
    pub fit: f64,
    /// `lambda ||w||_1`.
    pub penalty: f64,
    /// The largest violation of the optimality conditions.
    pub gap: f64,
}

/// Evaluates given codes; `codes[i]` lists the atoms and weights of signal `i`.
pub fn evaluate(
    dictionary: &PreparedDictionary,
    signals: &Signals<'_>,
    codes: &[Code<'_>],
    lambda: f64,
) -> Result<Vec<Evaluation>> {
    let lambda = Positive::new("lambda", lambda)?.get();
    if codes.len() != signals.len() {
        return Err(MathError::Length { row: 0, expected: signals.len(), found: codes.len() });
    }
    let gram = dictionary.gram()?;
    let evaluate_block = |scratch: &mut (ExactBlock, Vec<f64>, Vec<f64>), range: Range<usize>| {
        let (block, dense, correlations) = scratch;
        block.fill(dictionary, gram, signals, range.clone())?;
        let evaluate_row = |(i, row): (usize, usize)| {
            let self_similarity = block.self_similarity(i);
            let problem = Lasso { gram, self_similarity, lambda, tolerance: 0.0, max_rounds: 0 };
            evaluate_code(&problem, block.similarities(i), row, codes[row], dense, correlations)
        };
        range.enumerate().map(evaluate_row).collect::<Result<Vec<_>>>()
    };
    Ok(map_blocks(signals.len(), evaluate_block)?.concat())
}

fn evaluate_code(
    problem: &Lasso<'_>,
    similarities: &[f64],
    row: usize,
    (atoms, weights): Code<'_>,
    dense: &mut Vec<f64>,
    correlations: &mut Vec<f64>,
) -> Result<Evaluation> {
    let gram = problem.gram;
    dense.clear();
    dense.resize(gram.atoms, 0.0);
    correlations.clear();
    correlations.extend_from_slice(similarities);
    for (atom, weight) in atoms.iter().zip(weights) {
        check_entry(row, *atom, *weight, gram.atoms)?;
        let position = gram.rank[*atom as usize] as usize;
        // Repeated atoms add up, as they do in decoding.
        dense[position] += weight;
        add_scaled(correlations, -weight, gram.row(position));
    }
    let nonzeros = dense.iter().enumerate().filter(|(_, weight)| **weight != 0.0);
    let objective = problem.objective(nonzeros.map(|(i, w)| (similarities[i], *w, correlations[i])));
    let penalty = problem.lambda * dense.iter().map(|w| w.abs()).sum::<f64>();
    // Maxima would lose a NaN, and a code that cannot be judged is not a perfect one.
    if !objective.is_finite() || correlations.iter().any(|g| !g.is_finite()) {
        return Err(MathError::CodeOverflow { row });
    }
    let violations = dense.iter().zip(correlations.iter()).map(|(w, g)| problem.violation(*w, *g));
    Ok(Evaluation { fit: (objective - penalty).max(0.0), penalty, gap: violations.fold(0.0, f64::max) })
}

/// Refuses a code entry that names no atom or weighs it with NaN or an infinity.
pub(crate) fn check_entry(row: usize, atom: u32, weight: f64, atoms: usize) -> Result<()> {
    if atom as usize >= atoms {
        return Err(MathError::AtomOutOfRange { row, atom: u64::from(atom), atoms });
    }
    if !weight.is_finite() {
        return Err(MathError::WeightNotFinite { row, atom: u64::from(atom), weight });
    }
    Ok(())
}
