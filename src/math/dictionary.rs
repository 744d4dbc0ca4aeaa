//! A dictionary: atoms, the kernel they live under, and how they were learned.

use std::sync::{Arc, OnceLock};

use rayon::prelude::*;

use super::product::{BLOCK, inner_products};
use super::signals::{Rows, Signals, add_scaled, dot};
use super::{Kernel, MathError, Positive, Result};

/// One round of learning.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Round {
    /// The objective summed over the sampled signals, after coding and before the step.
    pub objective: f64,
    /// Nonzero weights over the sampled signals.
    pub nonzeros: u64,
    /// Atoms that no signal needed, replaced by badly represented signals.
    pub reseeded: u32,
}

/// How a dictionary was learned.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Training {
    /// The learner's name.
    pub learner: String,
    /// The seed of the sample.
    pub seed: u64,
    /// Atoms asked for; fewer are made where there are fewer distinct rows.
    pub atoms_requested: u64,
    /// Vectors offered, NULLs not counted.
    pub rows_seen: u64,
    /// Vectors left out for missing or non-finite elements.
    pub rows_skipped: u64,
    /// Distinct vectors learned from.
    pub rows_sampled: u64,
    /// What happened in each round.
    pub history: Vec<Round>,
    /// Whether learning settled before its last round.
    pub converged: bool,
}

impl Training {
    /// The objective of the atoms that were kept: the lowest of all rounds.
    pub fn objective(&self) -> f64 {
        self.history.iter().map(|round| round.objective).fold(f64::INFINITY, f64::min)
    }
}

/// Atoms with their kernel, a default penalty, and the record of their training.
#[derive(Debug, Clone)]
pub struct Dictionary {
    atoms: Vec<f64>,
    dim: usize,
    kernel: Arc<dyn Kernel>,
    lambda: Positive,
    training: Option<Training>,
}

impl Dictionary {
    /// The most atoms there can be: a gram matrix of half a gigabyte.
    pub const MOST_ATOMS: usize = 8192;

    /// Atoms one after the other in `atoms`, each of length `dim`.
    pub fn new(
        atoms: Vec<f64>,
        dim: usize,
        kernel: Arc<dyn Kernel>,
        lambda: f64,
        training: Option<Training>,
    ) -> Result<Self> {
        if atoms.is_empty() {
            return Err(MathError::Empty);
        }
        let count = Signals::from_flat(&atoms, dim)?.len();
        if count > Self::MOST_ATOMS {
            let value = count.to_string();
            return Err(MathError::Parameter { name: "atoms", value, requirement: "at most 8192" });
        }
        Ok(Self { atoms, dim, kernel, lambda: Positive::new("lambda", lambda)?, training })
    }

    /// How many atoms.
    pub fn len(&self) -> usize {
        self.atoms.len() / self.dim
    }

    /// Never true: a dictionary has at least one atom.
    pub fn is_empty(&self) -> bool {
        self.atoms.is_empty()
    }

    /// The length of every atom.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Atom `i`.
    pub fn atom(&self, i: usize) -> &[f64] {
        &self.atoms[i * self.dim..(i + 1) * self.dim]
    }

    /// All atoms, one after the other.
    pub fn atoms(&self) -> &[f64] {
        &self.atoms
    }

    /// All atoms, one after the other, taken out.
    pub(crate) fn into_atoms(self) -> Vec<f64> {
        self.atoms
    }

    /// The kernel.
    pub fn kernel(&self) -> &Arc<dyn Kernel> {
        &self.kernel
    }

    /// The penalty used when none is given.
    pub fn lambda(&self) -> f64 {
        self.lambda.get()
    }

    /// How it was learned; `None` for atoms that were given.
    pub fn training(&self) -> Option<&Training> {
        self.training.as_ref()
    }
}

/// What to subtract from vectors before taking products: their mean if the kernel does not see it.
pub(crate) fn centre(kernel: &dyn Kernel, vectors: &Signals<'_>) -> Vec<f64> {
    let mut centre = vec![0.0; vectors.dim()];
    if kernel.ignores_translation() {
        let share = 1.0 / vectors.len() as f64;
        for row in vectors.rows() {
            add_scaled(&mut centre, share, row);
        }
    }
    centre
}

/// A dictionary with what coding and decoding need, computed once: centred atoms at once, the
/// gram matrix and the inner products of the atoms when first asked for.
#[derive(Debug)]
pub struct PreparedDictionary {
    dictionary: Dictionary,
    centre: Vec<f64>,
    rows: Rows,
    /// `None` inside if it overflowed.
    gram: OnceLock<Option<Gram>>,
    products: OnceLock<Vec<f64>>,
}

/// `K = k(X, X)` by rows, with what bounds on correlations need.
#[derive(Debug)]
pub(crate) struct Gram {
    pub values: Vec<f64>,
    pub atoms: usize,
    /// Euclidean norm of every row (eq. 14).
    pub row_norms: Vec<f64>,
    /// `||phi(x)||` of every atom: correlations scale with it.
    pub norms: Vec<f64>,
    /// Largest magnitude in the matrix.
    pub largest: f64,
}

impl Gram {
    pub fn row(&self, i: usize) -> &[f64] {
        &self.values[i * self.atoms..(i + 1) * self.atoms]
    }

    pub fn diagonal(&self, i: usize) -> f64 {
        self.values[i * self.atoms + i]
    }
}

impl PreparedDictionary {
    /// Checks the atoms' values and centres them.
    pub fn new(dictionary: Dictionary) -> Result<Self> {
        let atoms = Signals::from_flat(dictionary.atoms(), dictionary.dim())?;
        let centre = centre(dictionary.kernel().as_ref(), &atoms);
        Self::with_centre(dictionary, centre)
    }

    /// The same with a given centre, which must be zero unless the kernel ignores translation.
    pub(crate) fn with_centre(dictionary: Dictionary, centre: Vec<f64>) -> Result<Self> {
        let atoms = Signals::from_flat(dictionary.atoms(), dictionary.dim())?;
        let mut rows = Rows::default();
        rows.fill(atoms.rows(), &centre, 0)?;
        Ok(Self { dictionary, centre, rows, gram: OnceLock::new(), products: OnceLock::new() })
    }

    /// The dictionary itself.
    pub fn dictionary(&self) -> &Dictionary {
        &self.dictionary
    }

    /// What is subtracted from signals and atoms before products are taken.
    pub(crate) fn centre(&self) -> &[f64] {
        &self.centre
    }

    /// The atoms minus the centre.
    pub(crate) fn rows(&self) -> &Rows {
        &self.rows
    }

    /// `k(X, X)`; an error where similarities of atoms do not fit into a double.
    pub(crate) fn gram(&self) -> Result<&Gram> {
        let kernel = self.dictionary.kernel();
        let gram = self.gram.get_or_init(|| {
            let values = self.square_matrix(|a, b, out| kernel.similarities(a, b, out));
            let atoms = self.rows.len();
            let row_norms = values.chunks_exact(atoms).map(|row| dot(row, row).sqrt()).collect();
            let norms = (0..atoms).map(|i| values[i * atoms + i].max(0.0).sqrt()).collect();
            let largest = values.iter().fold(0.0f64, |m, v| m.max(v.abs()));
            values.iter().all(|v| v.is_finite()).then_some(Gram { values, atoms, row_norms, norms, largest })
        });
        gram.as_ref().ok_or(MathError::Overflow { kernel: kernel.name() })
    }

    /// The inner products of the centred atoms.
    pub(crate) fn products(&self) -> &[f64] {
        self.products.get_or_init(|| self.square_matrix(inner_products))
    }

    /// A matrix over pairs of atoms, block of rows by block of rows.
    fn square_matrix(&self, fill: impl Fn(&Rows, &Rows, &mut Vec<f64>) + Sync) -> Vec<f64> {
        let (atoms, dim) = (self.rows.len(), self.rows.dim);
        let mut values = vec![0.0; atoms * atoms];
        values.par_chunks_mut(atoms * BLOCK).enumerate().for_each(|(block, out)| {
            let range = block * BLOCK..(block * BLOCK + BLOCK).min(atoms);
            let some = Rows {
                values: self.rows.values[range.start * dim..range.end * dim].to_vec(),
                squares: self.rows.squares[range].to_vec(),
                dim,
            };
            let mut similarities = Vec::new();
            fill(&some, &self.rows, &mut similarities);
            out.copy_from_slice(&similarities);
        });
        values
    }
}
