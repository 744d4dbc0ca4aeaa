//! The problem every coder solves for one signal, and how good a given code is.
//!
//! In gram form (paper 1, eq. 7): `1/2 (k_yy - 2 k.w + w'Kw) + lambda ||w||_1`. With the
//! correlations `g = k - K w`, `w` is optimal where `g_i = lambda sign(w_i)` on the nonzeros and
//! `|g_i| <= lambda` elsewhere; the largest violation is the optimality gap.

use super::batch::map_blocks;
use super::codes::Code;
use crate::math::dictionary::Gram;
use crate::math::signals::add_scaled;
use crate::math::{MathError, Positive, PreparedDictionary, Result, Signals};

/// One signal's problem.
#[derive(Clone, Copy)]
pub(super) struct Lasso<'a> {
    pub gram: &'a Gram,
    /// `k(y, X)`.
    pub similarities: &'a [f64],
    /// `k(y, y)`.
    pub self_similarity: f64,
    pub lambda: f64,
    /// Accepted violation of an atom of norm 1 in the feature space.
    pub tolerance: f64,
    pub max_rounds: usize,
}

impl Lasso<'_> {
    /// The objective from the nonzeros and the correlations at them:
    /// `1/2 (k_yy - sum w_i (k_i + g_i)) + lambda ||w||_1`.
    pub fn objective(&self, nonzeros: impl Iterator<Item = (usize, f64, f64)>) -> f64 {
        let (mut explained, mut norm) = (0.0, 0.0);
        for (atom, weight, correlation) in nonzeros {
            explained += weight * (self.similarities[atom] + correlation);
            norm += weight.abs();
        }
        0.5 * (self.self_similarity - explained) + self.lambda * norm
    }

    /// The violation that is accepted of one atom: correlations scale with its norm.
    #[inline]
    pub fn accepted(&self, atom: usize) -> f64 {
        self.tolerance * self.gram.norms[atom]
    }

    /// How far one coordinate is from its optimality condition.
    #[inline]
    pub fn violation(&self, weight: f64, correlation: f64) -> f64 {
        if weight == 0.0 {
            (correlation.abs() - self.lambda).max(0.0)
        } else {
            (correlation - self.lambda.copysign(weight)).abs()
        }
    }
}

/// `soft_lambda(z)` of eq. 9.
#[inline]
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
    let gram = dictionary.gram()?;
    let blocks = map_blocks(dictionary, signals, |scratch: &mut (Vec<f64>, Vec<f64>), block| {
        let rows = block.similarities.chunks_exact(gram.atoms).zip(block.self_similarities).enumerate();
        rows.map(|(i, (similarities, own))| {
            let (tolerance, max_rounds) = (0.0, 0);
            let problem = Lasso { gram, similarities, self_similarity: *own, lambda, tolerance, max_rounds };
            evaluate_code(&problem, block.first + i, codes[block.first + i], scratch)
        })
        .collect::<Result<Vec<_>>>()
    })?;
    Ok(blocks.concat())
}

fn evaluate_code(
    problem: &Lasso<'_>,
    row: usize,
    (atoms, weights): Code<'_>,
    (dense, correlations): &mut (Vec<f64>, Vec<f64>),
) -> Result<Evaluation> {
    let gram = problem.gram;
    dense.clear();
    dense.resize(gram.atoms, 0.0);
    correlations.clear();
    correlations.extend_from_slice(problem.similarities);
    for (atom, weight) in atoms.iter().zip(weights) {
        check_entry(row, *atom, *weight, gram.atoms)?;
        // Repeated atoms add up, as they do in decoding.
        dense[*atom as usize] += weight;
        add_scaled(correlations, -weight, gram.row(*atom as usize));
    }
    let nonzeros = dense.iter().enumerate().filter(|(_, weight)| **weight != 0.0);
    let objective = problem.objective(nonzeros.map(|(i, w)| (i, *w, correlations[i])));
    let penalty = problem.lambda * dense.iter().map(|w| w.abs()).sum::<f64>();
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
