//! The problem every coder solves for one signal, and how good a given code is.
//!
//! In gram form (paper 1, eq. 7): `1/2 (k_yy - 2 k.w + w'Kw) + lambda ||w||_1`. With the
//! correlations `g = k - K w`, `w` is optimal where `g_i = lambda sign(w_i)` on the nonzeros and
//! `|g_i| <= lambda` elsewhere; the largest violation is the optimality gap.

use rayon::prelude::*;

use super::codes::Code;
use crate::math::dictionary::Gram;
use crate::math::signals::Rows;
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
    /// Accepted optimality gap, absolute.
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
    let kernel = dictionary.dictionary().kernel();
    let gram = dictionary.gram();
    let atoms = dictionary.dictionary().len();
    let evaluate_row = |block: &mut Rows, similarities: &mut Vec<f64>, row: usize| {
        block.fill(&signals.rows()[row..=row], dictionary.centre(), row)?;
        kernel.similarities(block, dictionary.rows(), similarities);
        let (indices, weights) = codes[row];
        // Repeated atoms add up, as they do in decoding.
        let mut dense = vec![0.0; atoms];
        for (atom, weight) in indices.iter().zip(weights) {
            check_entry(row, *atom, *weight, atoms)?;
            dense[*atom as usize] += weight;
        }
        let mut correlations = similarities.clone();
        for (atom, weight) in dense.iter().enumerate().filter(|(_, weight)| **weight != 0.0) {
            crate::math::signals::add_scaled(&mut correlations, -weight, gram.row(atom));
        }
        let problem = Lasso {
            gram,
            similarities,
            self_similarity: kernel.self_similarity(block.squares[0]),
            lambda,
            tolerance: 0.0,
            max_rounds: 0,
        };
        let nonzeros = dense.iter().enumerate().filter(|(_, weight)| **weight != 0.0);
        let objective = problem.objective(nonzeros.map(|(i, w)| (i, *w, correlations[i])));
        let penalty = lambda * dense.iter().map(|w| w.abs()).sum::<f64>();
        let gap = dense.iter().zip(&correlations).map(|(w, g)| problem.violation(*w, *g)).fold(0.0, f64::max);
        Ok(Evaluation { fit: (objective - penalty).max(0.0), penalty, gap })
    };
    (0..signals.len())
        .into_par_iter()
        .map_init(Default::default, |(block, similarities), row| evaluate_row(block, similarities, row))
        .collect()
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
