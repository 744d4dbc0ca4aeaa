//! The gram matrix `K = k(X, X)`, laid out for coding.
//!
//! Atoms are put in an order in which similar ones are neighbours. A signal resembles few atoms, and
//! those are alike, so what its code needs of the matrix lies close together; and a group of
//! neighbours can be ruled out by one bound.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rayon::prelude::*;

use super::computed_once::ComputedOnce;
use super::kernels::Screen;
use super::packed::{PackedAtoms, has_fast_product};
use super::product::BLOCK;
use super::ridge::RidgeSystem;
use super::signals::{Rows, RowsView, dot};
use super::{Kernel, Result};

/// Neighbouring atoms that share a bound.
pub(crate) const GROUP: usize = 32;

/// `K` by rows. Rows and columns are positions in `order`.
#[derive(Debug)]
pub(crate) struct Gram {
    /// How many atoms.
    pub atoms: usize,
    /// The atom at every position.
    pub order: Vec<u32>,
    /// The position of every atom.
    pub rank: Vec<u32>,
    /// The centred atoms by position.
    pub rows: Rows,
    /// `||phi(x)||` by position: correlations scale with it.
    pub norms: Vec<f64>,
    /// The smallest of them.
    pub smallest_norm: f64,
    /// Whether similarities, of atoms or of signals, are never negative.
    pub never_negative: bool,
    /// All entries, row after row.
    pub values: Vec<f64>,
    /// The largest magnitude of every row within each group of columns.
    peaks: Vec<f64>,
    /// The atoms for a fast product, where that pays.
    pub screen: Option<Screening>,
    /// What some coders need, computed when first asked for.
    eigenvalue_bound: ComputedOnce<f64>,
    row_norms: OnceLock<Vec<f64>>,
    ridge_inverse: Mutex<Option<(f64, Arc<Vec<f64>>)>>,
}

/// The atoms by position for a fast product.
#[derive(Debug)]
pub(crate) struct Screening {
    pub kernel: Arc<dyn Screen>,
    pub atoms: PackedAtoms,
    pub squares: Vec<f32>,
    /// The largest square of an atom's norm.
    largest_square: f64,
    /// The most that rounding took from an atom.
    most_lost: f64,
}

/// Lengths and numbers of atoms from which a faster product is worth a second look at some of it.
const SCREENED_DIM: usize = 128;
const SCREENED_ATOMS: usize = 128;
/// The relative error of similarities from which too many would need that second look.
const SCREENED_ERROR: f64 = 0.03;

impl Screening {
    fn new(rows: &Rows, kernel: &dyn Kernel) -> Option<Self> {
        let kernel = kernel.screen().filter(|_| has_fast_product())?;
        if rows.dim < SCREENED_DIM || rows.len() < SCREENED_ATOMS {
            return None;
        }
        let largest_square = rows.squares.iter().fold(0.0, |m: f64, square| m.max(*square));
        let atoms = PackedAtoms::new(rows);
        let squares = rows.squares.iter().map(|square| *square as f32).collect();
        let most_lost = atoms.most_lost();
        let screening = Self { kernel, atoms, squares, largest_square, most_lost };
        (screening.relative_error(largest_square, most_lost) <= SCREENED_ERROR).then_some(screening)
    }

    /// A bound on the relative error of the similarities of a signal from which rounding took a vector of norm `lost`.
    pub fn relative_error(&self, square: f64, lost: f64) -> f64 {
        let atom = (self.largest_square.sqrt(), self.most_lost);
        let product_error = self.atoms.product_error((square.sqrt(), lost), atom);
        self.kernel.relative_error(product_error, square, self.largest_square)
    }
}

impl Gram {
    /// `None` where similarities do not fit into a double. `order` is used if given.
    pub fn new(atoms: &Rows, kernel: &dyn Kernel, order: Option<&[u32]>) -> Option<Self> {
        let count = atoms.len();
        let (order, rows, values) = match order {
            Some(order) => {
                let rows = atoms.select(order);
                let values = symmetric(count, |a, b, out| kernel.similarities(a, b, out), &rows);
                (order.to_vec(), rows, values)
            }
            None => {
                let values = symmetric(count, |a, b, out| kernel.similarities(a, b, out), atoms);
                let order = chain(&values, count);
                (order.clone(), atoms.select(&order), permute(&values, &order))
            }
        };
        let mut rank = vec![0; count];
        for (position, atom) in order.iter().enumerate() {
            rank[*atom as usize] = position as u32;
        }
        let norms: Vec<f64> = (0..count).map(|i| values[i * count + i].max(0.0).sqrt()).collect();
        let smallest_norm = norms.iter().copied().fold(f64::INFINITY, f64::min);
        let peaks = values.par_chunks_exact(count).flat_map_iter(|row| row.chunks(GROUP).map(largest));
        let peaks: Vec<f64> = peaks.collect();
        let finite = peaks.iter().all(|peak| peak.is_finite());
        let screen = Screening::new(&rows, kernel);
        finite.then_some(Self {
            atoms: count,
            order,
            rank,
            rows,
            norms,
            smallest_norm,
            never_negative: kernel.never_negative(),
            values,
            peaks,
            screen,
            eigenvalue_bound: ComputedOnce::new(),
            row_norms: OnceLock::new(),
            ridge_inverse: Mutex::new(None),
        })
    }

    /// The row at a position.
    pub fn row(&self, position: usize) -> &[f64] {
        &self.values[position * self.atoms..(position + 1) * self.atoms]
    }

    /// The similarity of a position to itself.
    pub fn diagonal(&self, position: usize) -> f64 {
        self.values[position * self.atoms + position]
    }

    /// The largest magnitudes of a row, group by group.
    pub fn peaks(&self, position: usize) -> &[f64] {
        let groups = self.atoms.div_ceil(GROUP);
        &self.peaks[position * groups..(position + 1) * groups]
    }

    /// The similarity of two atoms.
    pub fn between(&self, atom: usize, other: usize) -> f64 {
        self.values[self.rank[atom] as usize * self.atoms + self.rank[other] as usize]
    }

    /// A bound on the largest eigenvalue: that of the magnitudes, by the power method from above (for
    /// `v > 0` no eigenvalue of a matrix `A >= 0` exceeds the largest `(A v)_i / v_i`). Tight for RBF.
    pub fn eigenvalue_bound(&self) -> f64 {
        *self.eigenvalue_bound.get_or_compute(|| {
            const ROUNDS: usize = 100;
            let mut direction = vec![1.0; self.atoms];
            let mut bound = f64::INFINITY;
            for _ in 0..ROUNDS {
                let image = |position: usize| {
                    let row = self.row(position).iter().zip(&direction);
                    row.map(|(value, entry)| value.abs() * entry).sum::<f64>()
                };
                let image: Vec<f64> = (0..self.atoms).into_par_iter().map(image).collect();
                let ratios = image.iter().zip(&direction).map(|(image, entry)| image / entry);
                bound = ratios.fold(f64::MIN_POSITIVE, f64::max).min(bound);
                let largest = image.iter().fold(f64::MIN_POSITIVE, |most, entry| most.max(*entry));
                // Atoms that are like no other must not vanish, or the bound would.
                direction = image.into_iter().map(|entry| (entry / largest).max(1e-100)).collect();
            }
            bound
        })
    }

    /// `||K_i||_2` of every row.
    pub fn row_norms(&self) -> &[f64] {
        self.row_norms.get_or_init(|| {
            (0..self.atoms).map(|position| dot(self.row(position), self.row(position)).sqrt()).collect()
        })
    }

    /// `(K + lambda I)^-1`, kept for the last lambda asked for.
    pub fn ridge_inverse(&self, lambda: f64) -> Result<Arc<Vec<f64>>> {
        let mut kept = self.ridge_inverse.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, inverse)) = &*kept
            && *known == lambda
        {
            return Ok(Arc::clone(inverse));
        }
        let inverse = RidgeSystem::new(self.values.clone(), self.atoms, lambda)?.inverse();
        let inverse = Arc::new(inverse);
        *kept = Some((lambda, Arc::clone(&inverse)));
        Ok(inverse)
    }

    /// `||phi(x)||` of an atom.
    pub fn norm(&self, atom: usize) -> f64 {
        self.norms[self.rank[atom] as usize]
    }
}

/// The largest magnitude; NaN and infinities are not lost.
fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |most, value| if value.abs() <= most { most } else { value.abs() })
}

/// A symmetric matrix over pairs of rows, of which `fill` computes the upper half, block by block.
pub(crate) fn symmetric(
    count: usize,
    fill: impl Fn(RowsView<'_>, RowsView<'_>, &mut Vec<f64>) + Sync,
    rows: &Rows,
) -> Vec<f64> {
    let starts: Vec<usize> = (0..count).step_by(BLOCK).collect();
    let upper = |start: &usize| {
        let mut values = Vec::new();
        fill(rows.view(*start..(start + BLOCK).min(count)), rows.view(*start..count), &mut values);
        values
    };
    let upper: Vec<Vec<f64>> = starts.par_iter().map(upper).collect();
    let mut values = vec![0.0; count * count];
    values.par_chunks_mut(count * BLOCK).enumerate().for_each(|(block, out)| {
        let start = block * BLOCK;
        for (i, row) in out.chunks_exact_mut(count).enumerate() {
            for (earlier, part) in upper[..block].iter().enumerate() {
                let width = count - earlier * BLOCK;
                let column = start + i - earlier * BLOCK;
                for (j, value) in row[earlier * BLOCK..(earlier + 1) * BLOCK].iter_mut().enumerate() {
                    *value = part[j * width + column];
                }
            }
            let width = count - start;
            row[start..].copy_from_slice(&upper[block][i * width..(i + 1) * width]);
        }
    });
    values
}

/// An order that goes from each atom to the most similar one that is left.
fn chain(values: &[f64], count: usize) -> Vec<u32> {
    let norm = |i: usize| values[i * count + i].max(f64::MIN_POSITIVE).sqrt();
    let scales: Vec<f64> = (0..count).map(|i| 1.0 / norm(i)).collect();
    let mut left: Vec<u32> = (1..count as u32).collect();
    let mut order = Vec::with_capacity(count);
    order.push(0);
    let mut last = 0usize;
    while !left.is_empty() {
        let row = &values[last * count..(last + 1) * count];
        let (mut best, mut nearest) = (0, f64::NEG_INFINITY);
        for (i, atom) in left.iter().enumerate() {
            let similarity = row[*atom as usize] * scales[*atom as usize];
            if similarity > nearest {
                (best, nearest) = (i, similarity);
            }
        }
        last = left.swap_remove(best) as usize;
        order.push(last as u32);
    }
    order
}

/// The matrix with rows and columns in another order.
fn permute(values: &[f64], order: &[u32]) -> Vec<f64> {
    let count = order.len();
    let mut permuted = vec![0.0; values.len()];
    permuted.par_chunks_exact_mut(count).zip(order).for_each(|(out, atom)| {
        let row = &values[*atom as usize * count..(*atom as usize + 1) * count];
        for (value, other) in out.iter_mut().zip(order) {
            *value = row[*other as usize];
        }
    });
    permuted
}
