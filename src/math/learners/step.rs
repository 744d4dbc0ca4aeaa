//! What every step on the atoms needs of a learning task: its signals, centred, and codes by atom.

use rayon::prelude::*;
use sprs::CsMatI;

use super::Task;
use crate::math::coders::Codes;
use crate::math::prepared::centre;
use crate::math::signals::{Rows, long_dot};
use crate::math::{Dictionary, PreparedDictionary, Result};

pub(super) type Sparse = CsMatI<f64, u32, usize>;

/// Makes dictionaries for one learning task.
pub(super) struct Step<'a> {
    pub task: &'a Task<'a>,
    centre: Vec<f64>,
    /// The signals minus the centre.
    pub signals: Rows,
    norm_limit: Option<f64>,
}

/// Where a step has led.
pub(super) struct Moved {
    pub dictionary: PreparedDictionary,
    /// The similarities of the atoms to the signals that use them, by atom, where the step has computed them.
    pub similarities: Option<Sparse>,
}

/// Codes as a step needs them.
pub(super) struct Weights {
    /// One row per atom: the signals that use it, with `w_ij`.
    pub by_atom: Sparse,
    /// `W' diag(c) W`.
    pub overlaps: Sparse,
}

impl<'a> Step<'a> {
    pub fn new(task: &'a Task<'a>) -> Result<Self> {
        let centre = centre(task.kernel.as_ref(), &task.signals);
        let signals = Rows::centred(task.signals.rows(), &centre)?;
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

    /// Puts signals in place of atoms that are not needed.
    pub fn reseed(&self, moved: Moved, reseeds: &[(usize, usize)]) -> Result<Moved> {
        if reseeds.is_empty() {
            return Ok(moved);
        }
        let (dim, mut atoms) = (self.signals.dim, moved.dictionary.dictionary().atoms().to_vec());
        for (atom, signal) in reseeds {
            atoms[atom * dim..(atom + 1) * dim].copy_from_slice(self.task.signals.row(*signal));
        }
        Ok(Moved { dictionary: self.prepare(atoms, None)?, similarities: None })
    }

    /// Codes by atom.
    pub fn weights(&self, codes: &Codes) -> Weights {
        let by_atom: Sparse = codes.weights.transpose_view().to_csr();
        let overlaps = self.overlaps(codes, &by_atom);
        Weights { by_atom, overlaps }
    }

    /// `W' diag(c) W`, a row of it per atom, in parallel.
    fn overlaps(&self, codes: &Codes, by_atom: &Sparse) -> Sparse {
        let atoms = by_atom.rows();
        let overlaps_of = |sums: &mut Vec<f64>, atom: usize| {
            sums.resize(atoms, 0.0);
            let mut others: Vec<u32> = Vec::new();
            for (signal, weight) in entries(by_atom, atom) {
                let share = self.task.counts[signal] * weight;
                for (other, weight) in entries(&codes.weights, signal) {
                    others.push(other as u32);
                    sums[other] += share * weight;
                }
            }
            others.sort_unstable();
            others.dedup();
            let row: Vec<f64> =
                others.iter().map(|other| std::mem::take(&mut sums[*other as usize])).collect();
            (others, row)
        };
        let rows: Vec<_> = (0..atoms).into_par_iter().map_init(Vec::new, overlaps_of).collect();
        let mut starts = vec![0];
        let (mut indices, mut data) = (Vec::new(), Vec::new());
        for (others, row) in rows {
            indices.extend(others);
            data.extend(row);
            starts.push(indices.len());
        }
        Sparse::new((atoms, atoms), starts, indices, data)
    }

    /// Shrinks atoms that are longer than the kernel allows.
    pub fn limit_norms(&self, atoms: &mut [f64]) {
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
pub(super) fn entries(matrix: &Sparse, row: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
    let range = matrix.indptr().outer_inds_sz(row);
    let (indices, data) = (&matrix.indices()[range.clone()], &matrix.data()[range]);
    indices.iter().zip(data).map(|(i, value)| (*i as usize, *value))
}
