//! The step on the atoms with codes held fixed (paper 1, eqs. 10-11), for any kernel.
//!
//! With `d k(a, x) / d x = alpha a - beta x`, counts `c_i` and `M = W' diag(c) W`,
//! `G_j = sum_l M_jl (alpha_lj x_l - beta_lj x_j) - sum_i c_i w_ij (alpha_ij y_i - beta_ij x_j)`,
//! which for RBF is `(X Q2 - X Gamma2 - Y Q1 + X Gamma1) / sigma^2`. Both sums run over the few
//! nonzeros of `W` and `M`. The step divides `G_j` by the curvature `M_jj alpha_jj`.

use rayon::prelude::*;

use super::step::{Step, Weights, entries};
use crate::math::coders::Codes;
use crate::math::exp::vectorised;
use crate::math::gram::Gram;
use crate::math::product::BLOCK;
use crate::math::signals::{Rows, add_all_scaled, add_scaled, long_dot};
use crate::math::{PreparedDictionary, Result};

const MAX_HALVINGS: i32 = 12;

/// Halves the step until the loss falls; gives the atoms as they were if it never does.
pub(super) fn descend(
    step: &Step<'_>,
    current: &PreparedDictionary,
    codes: &Codes,
) -> Result<PreparedDictionary> {
    let weights = step.weights(codes);
    let gradient = step.scaled_gradient(current, &weights)?;
    let before = step.coded_loss(codes);
    // A step moves atoms little, so those that were similar still are.
    let order = &current.gram()?.order;
    let moved = |length: f64| {
        let pairs = current.dictionary().atoms().par_iter().zip(&gradient).with_min_len(BLOCK * BLOCK);
        step.prepare(pairs.map(|(value, slope)| value - length * slope).collect(), Some(order))
    };
    for halvings in 0..MAX_HALVINGS {
        // Atoms moved so far that their similarities overflow are too far.
        let Ok(there) = moved(0.5f64.powi(halvings)) else { continue };
        if step.loss(&there, &weights).is_ok_and(|loss| loss < before) {
            return Ok(there);
        }
    }
    moved(0.0)
}

impl Step<'_> {
    /// `k(y_i, x_j)` for a pair of centred rows.
    #[inline(always)]
    fn similarity(&self, signal: usize, atoms: &Rows, atom: usize) -> f64 {
        let product = long_dot(self.signals.row(signal), atoms.row(atom));
        self.task.kernel.pair(product, self.signals.squares[signal], atoms.squares[atom])
    }

    /// What depends on the atoms in `sum_i c_i/2 ||phi(y_i) - phi(X) w_i||^2`:
    /// `1/2 sum_jl M_jl K_jl - sum_ij c_i w_ij k(y_i, x_j)`.
    fn loss(&self, dictionary: &PreparedDictionary, weights: &Weights) -> Result<f64> {
        let (atoms, gram) = (dictionary.rows(), dictionary.gram()?);
        let parts = (0..atoms.len()).into_par_iter().map(|atom| {
            vectorised(
                #[inline(always)]
                || self.atom_loss(atoms, gram, weights, atom),
            )
        });
        let parts: Vec<f64> = parts.collect();
        Ok(parts.iter().sum())
    }

    #[inline(always)]
    fn atom_loss(&self, atoms: &Rows, gram: &Gram, weights: &Weights, atom: usize) -> f64 {
        let (mut own, mut explained) = (0.0, 0.0);
        for (other, overlap) in entries(&weights.overlaps, atom) {
            own += overlap * gram.between(atom, other);
        }
        for (signal, weight) in entries(&weights.by_atom, atom) {
            explained += self.task.counts[signal] * weight * self.similarity(signal, atoms, atom);
        }
        0.5 * own - explained
    }

    /// The same for the atoms that the codes were made with, whose objectives are known.
    fn coded_loss(&self, codes: &Codes) -> f64 {
        let kernel = &self.task.kernel;
        let signals = codes.rows().zip(&codes.reports).zip(&self.signals.squares).zip(&self.task.counts);
        let losses = signals.map(|((((_, weights), report), square), count)| {
            let penalty = self.task.lambda * weights.iter().map(|weight| weight.abs()).sum::<f64>();
            count * (report.objective - penalty - 0.5 * kernel.self_similarity(*square))
        });
        losses.sum()
    }

    /// Every atom's gradient over its curvature, atom after atom; zero for unused atoms.
    fn scaled_gradient(&self, dictionary: &PreparedDictionary, weights: &Weights) -> Result<Vec<f64>> {
        let (dim, gram) = (self.signals.dim, dictionary.gram()?);
        let mut gradient = vec![0.0; dictionary.dictionary().atoms().len()];
        gradient.par_chunks_mut(dim).enumerate().for_each(|(atom, out)| {
            vectorised(
                #[inline(always)]
                || {
                    let curvature = self.atom_gradient(dictionary.rows(), gram, weights, atom, out);
                    let scale = if curvature > 0.0 { 1.0 / curvature } else { 0.0 };
                    out.iter_mut().for_each(|value| *value *= scale);
                },
            );
        });
        Ok(gradient)
    }

    /// Writes `G_j` for one atom and gives its curvature `M_jj alpha_jj`.
    #[inline(always)]
    fn atom_gradient(
        &self,
        atoms: &Rows,
        gram: &Gram,
        weights: &Weights,
        atom: usize,
        out: &mut [f64],
    ) -> f64 {
        let kernel = self.task.kernel.as_ref();
        let (mut own, mut curvature) = (0.0, 0.0);
        let others = entries(&weights.overlaps, atom).map(|(other, overlap)| {
            let product = || long_dot(atoms.row(other), atoms.row(atom));
            let (alpha, beta) = kernel.gradient_factors(gram.between(atom, other), &product);
            own -= overlap * beta;
            if other == atom {
                curvature = overlap * alpha;
            }
            (overlap * alpha, atoms.row(other))
        });
        add_all_scaled(out, others);
        let signals = entries(&weights.by_atom, atom).map(|(signal, weight)| {
            let product = || long_dot(self.signals.row(signal), atoms.row(atom));
            let (alpha, beta) = kernel.gradient_factors(self.similarity(signal, atoms, atom), &product);
            let share = self.task.counts[signal] * weight;
            own += share * beta;
            (-share * alpha, self.signals.row(signal))
        });
        add_all_scaled(out, signals);
        add_scaled(out, own, atoms.row(atom));
        curvature
    }
}
