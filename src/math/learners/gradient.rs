//! The step on the atoms with codes held fixed (paper 1, eqs. 10-11), for any kernel.
//!
//! With `d k(a, x) / d x = alpha a - beta x`, counts `c_i` and `M = W' diag(c) W`,
//! `G_j = sum_l M_jl (alpha_lj x_l - beta_lj x_j) - sum_i c_i w_ij (alpha_ij y_i - beta_ij x_j)`,
//! which for RBF is `(X Q2 - X Gamma2 - Y Q1 + X Gamma1) / sigma^2`. Both sums run over the few
//! nonzeros of `W` and `M`. The step divides `G_j` by the curvature `M_jj alpha_jj`.

use rayon::prelude::*;
use sprs::CsMatI;

use super::Task;
use crate::math::coders::Codes;
use crate::math::exp::vectorised;
use crate::math::gram::Gram;
use crate::math::prepared::centre;
use crate::math::signals::{Rows, add_all_scaled, add_scaled, long_dot};
use crate::math::{Dictionary, PreparedDictionary, Result};

const MAX_HALVINGS: i32 = 12;

type Sparse = CsMatI<f64, u32, usize>;

/// Takes steps on the atoms of one learning task.
pub(super) struct Step<'a> {
    task: &'a Task<'a>,
    centre: Vec<f64>,
    /// The signals minus the centre.
    signals: Rows,
    norm_limit: Option<f64>,
}

/// Codes as a step needs them.
struct Weights {
    /// One row per atom: the signals that use it, with `w_ij`.
    by_atom: Sparse,
    /// `W' diag(c) W`.
    overlaps: Sparse,
}

impl<'a> Step<'a> {
    pub fn new(task: &'a Task<'a>) -> Result<Self> {
        let centre = centre(task.kernel.as_ref(), &task.signals);
        let mut signals = Rows::default();
        signals.fill(task.signals.rows(), &centre, 0)?;
        let mean_square = signals.squares.iter().sum::<f64>() / signals.len() as f64;
        let norm_limit = task.kernel.atom_norm_limit(mean_square);
        Ok(Self { task, centre, signals, norm_limit })
    }

    /// Readies atoms for coding the task's signals.
    ///
    /// `order` keeps similar atoms together; it is found anew where none is given.
    pub fn prepare(&self, mut atoms: Vec<f64>, order: Option<&[u32]>) -> Result<PreparedDictionary> {
        self.limit_norms(&mut atoms);
        let Task { kernel, lambda, .. } = self.task;
        let dictionary = Dictionary::new(atoms, self.signals.dim, kernel.clone(), *lambda, None)?;
        PreparedDictionary::with_centre(dictionary, self.centre.clone(), order.map(<[u32]>::to_vec))
    }

    /// Moves the atoms downhill, then puts signals in place of atoms that are not needed.
    pub fn take(
        &self,
        current: &PreparedDictionary,
        codes: &Codes,
        reseeds: &[(usize, usize)],
    ) -> Result<PreparedDictionary> {
        let moved = self.descend(current, codes)?;
        if reseeds.is_empty() {
            return Ok(moved);
        }
        let (dim, mut atoms) = (self.signals.dim, moved.dictionary().atoms().to_vec());
        for (atom, signal) in reseeds {
            atoms[atom * dim..(atom + 1) * dim].copy_from_slice(self.task.signals.row(*signal));
        }
        self.prepare(atoms, None)
    }

    /// Halves the step until the loss falls; gives the atoms as they were if it never does.
    fn descend(&self, current: &PreparedDictionary, codes: &Codes) -> Result<PreparedDictionary> {
        let weights = self.weights(codes);
        let gradient = self.scaled_gradient(current, &weights)?;
        let before = self.coded_loss(codes);
        // A step moves atoms little, so those that were similar still are.
        let order = &current.gram()?.order;
        let moved = |step: f64| {
            let mut atoms = current.dictionary().atoms().to_vec();
            add_scaled(&mut atoms, -step, &gradient);
            self.prepare(atoms, Some(order))
        };
        for halvings in 0..MAX_HALVINGS {
            let there = moved(0.5f64.powi(halvings))?;
            if self.loss(&there, &weights)? < before {
                return Ok(there);
            }
        }
        moved(0.0)
    }

    fn weights(&self, codes: &Codes) -> Weights {
        let by_atom: Sparse = codes.weights.transpose_view().to_csr();
        let mut counted = codes.weights.clone();
        for (mut row, count) in counted.outer_iterator_mut().zip(&self.task.counts) {
            row.iter_mut().for_each(|(_, weight)| *weight *= count);
        }
        let overlaps = &by_atom * &counted;
        Weights { by_atom, overlaps }
    }

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

    /// Shrinks atoms that are longer than the kernel allows.
    fn limit_norms(&self, atoms: &mut [f64]) {
        let Some(limit) = self.norm_limit else { return };
        for atom in atoms.chunks_exact_mut(self.signals.dim) {
            let norm = long_dot(atom, atom).sqrt();
            if norm > limit {
                atom.iter_mut().for_each(|value| *value *= limit / norm);
            }
        }
    }
}

/// The entries of one row.
#[inline(always)]
fn entries(matrix: &Sparse, row: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
    let range = matrix.indptr().outer_inds_sz(row);
    let (indices, data) = (&matrix.indices()[range.clone()], &matrix.data()[range]);
    indices.iter().zip(data).map(|(i, value)| (*i as usize, *value))
}
