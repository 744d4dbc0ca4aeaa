//! The step on the atoms with codes held fixed (paper 1, eqs. 10-11), for any kernel.
//!
//! With `d k(a, x) / d x = alpha a - beta x`, counts `c_i` and `M = W' diag(c) W`,
//! `G_j = sum_l M_jl (alpha_lj x_l - beta_lj x_j) - sum_i c_i w_ij (alpha_ij y_i - beta_ij x_j)`,
//! which for RBF is `(X Q2 - X Gamma2 - Y Q1 + X Gamma1) / sigma^2`. Both sums run over the few
//! nonzeros of `W` and `M`. The step divides `G_j` by the curvature `M_jj alpha_jj`.
//!
//! Whether the loss has fallen takes the moved atoms' similarities to the signals that use them. The next round's
//! coding starts from the same pairs, and most of them are in its gradient: they are handed on.

use rayon::prelude::*;

use super::step::{Moved, Sparse, Step, Weights, entries};
use crate::math::coders::Codes;
use crate::math::exp::vectorised;
use crate::math::gram::Gram;
use crate::math::product::BLOCK;
use crate::math::signals::{Rows, add_all_scaled, add_scaled, long_dot, long_dots};
use crate::math::{PreparedDictionary, Result};

const MAX_HALVINGS: i32 = 12;

/// Similarities that are computed together.
const TOGETHER: usize = 4;

/// Halves the step until the loss falls; gives the atoms as they were if it never does. `known` are some similarities
/// of the atoms, by atom.
pub(super) fn descend(
    step: &Step<'_>,
    current: &PreparedDictionary,
    codes: &Codes,
    known: Option<&Sparse>,
) -> Result<Moved> {
    let weights = step.weights(codes);
    let similarities = step.similarities(current.rows(), &weights.by_atom, known);
    let gradient = step.scaled_gradient(current, &weights, &similarities)?;
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
        let Ok(gram) = there.gram() else { continue };
        let similarities = step.similarities(there.rows(), &weights.by_atom, None);
        if step.loss(gram, &weights, &similarities) < before {
            return Ok(Moved { dictionary: there, similarities: Some(similarities) });
        }
    }
    Ok(Moved { dictionary: moved(0.0)?, similarities: None })
}

impl Step<'_> {
    /// The atoms' similarities to the signals that use them. Those that are `known` are taken from there.
    fn similarities(&self, atoms: &Rows, by_atom: &Sparse, known: Option<&Sparse>) -> Sparse {
        let of_atom = |atom: usize| {
            let (mut values, mut unknown) = (Vec::new(), Vec::new());
            let mut known = known.into_iter().flat_map(|known| entries(known, atom)).peekable();
            for (place, (signal, _)) in entries(by_atom, atom).enumerate() {
                while known.next_if(|(other, _)| *other < signal).is_some() {}
                let found = known.next_if(|(other, _)| *other == signal);
                values.push(found.map_or(0.0, |(_, similarity)| similarity));
                if found.is_none() {
                    unknown.push((place, signal));
                }
            }
            for some in unknown.chunks(TOGETHER) {
                // Where fewer are left the last is repeated.
                let signals: [usize; TOGETHER] = std::array::from_fn(|i| some[i.min(some.len() - 1)].1);
                let mut computed = long_dots(atoms.row(atom), signals.map(|i| self.signals.row(i)));
                let squares = signals.map(|i| self.signals.squares[i]);
                self.task.kernel.apply(&mut computed, atoms.squares[atom], &squares);
                for ((place, _), value) in some.iter().zip(computed) {
                    values[*place] = value;
                }
            }
            values
        };
        let values: Vec<Vec<f64>> = (0..atoms.len()).into_par_iter().map(of_atom).collect();
        let mut similarities = by_atom.clone();
        similarities.data_mut().copy_from_slice(&values.concat());
        similarities
    }

    /// What depends on the atoms in `sum_i c_i/2 ||phi(y_i) - phi(X) w_i||^2`:
    /// `1/2 sum_jl M_jl K_jl - sum_ij c_i w_ij k(y_i, x_j)`.
    fn loss(&self, gram: &Gram, weights: &Weights, similarities: &Sparse) -> f64 {
        let of_atom = |atom: usize| {
            let (mut own, mut explained) = (0.0, 0.0);
            for (other, overlap) in entries(&weights.overlaps, atom) {
                own += overlap * gram.between(atom, other);
            }
            for (signal, weight, similarity) in users(weights, similarities, atom) {
                explained += self.task.counts[signal] * weight * similarity;
            }
            0.5 * own - explained
        };
        let parts: Vec<f64> = (0..gram.atoms).into_par_iter().map(of_atom).collect();
        parts.iter().sum()
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
    fn scaled_gradient(
        &self,
        dictionary: &PreparedDictionary,
        weights: &Weights,
        similarities: &Sparse,
    ) -> Result<Vec<f64>> {
        let (dim, gram) = (self.signals.dim, dictionary.gram()?);
        let mut gradient = vec![0.0; dictionary.dictionary().atoms().len()];
        gradient.par_chunks_mut(dim).enumerate().for_each(|(atom, out)| {
            vectorised(
                #[inline(always)]
                || {
                    let atoms = dictionary.rows();
                    let curvature = self.atom_gradient(atoms, gram, weights, similarities, atom, out);
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
        similarities: &Sparse,
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
        let signals = users(weights, similarities, atom).map(|(signal, weight, similarity)| {
            let product = || long_dot(self.signals.row(signal), atoms.row(atom));
            let (alpha, beta) = kernel.gradient_factors(similarity, &product);
            let share = self.task.counts[signal] * weight;
            own += share * beta;
            (-share * alpha, self.signals.row(signal))
        });
        add_all_scaled(out, signals);
        add_scaled(out, own, atoms.row(atom));
        curvature
    }
}

/// The signals that use an atom, with their weights and their similarities to it.
#[inline(always)]
fn users(weights: &Weights, similarities: &Sparse, atom: usize) -> impl Iterator<Item = (usize, f64, f64)> {
    let pairs = entries(&weights.by_atom, atom).zip(entries(similarities, atom));
    pairs.map(|((signal, weight), (_, similarity))| (signal, weight, similarity))
}
