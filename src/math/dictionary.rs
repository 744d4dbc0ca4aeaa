//! A dictionary: atoms, the kernel they live under, and how they were learned.

use std::sync::Arc;

use super::{Kernel, MathError, Positive, Result, Signals};

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
    /// How parameters were chosen, where that was asked for.
    pub selection: Option<Selection>,
}

/// How parameters were chosen for a target, and what vectors that were held out say about the choice.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Selection {
    /// The target, as text.
    pub target: String,
    /// Whether it was reached.
    pub met: bool,
    /// Vectors that were held out.
    pub rows_held_out: u64,
    /// Bytes of the vectors as doubles over those of codes and dictionary.
    pub ratio: f64,
    /// Mean absolute error over mean absolute value.
    pub nmae: f64,
    /// The largest error.
    pub max_error: f64,
    /// About what codes and dictionary take where they are stored; not known of dictionaries made before it was counted.
    pub codes_bytes: Option<u64>,
    /// About what the vectors themselves take there.
    pub values_bytes: Option<u64>,
    /// What was tried, in order.
    pub tried: Vec<Choice>,
}

/// One choice of parameters and what it leads to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Choice {
    /// Atoms asked for.
    pub atoms: u64,
    /// The kernel.
    pub kernel: String,
    /// Its width, where it has one.
    pub sigma: Option<f64>,
    /// The penalty.
    pub lambda: f64,
    /// Bytes of all codes and the dictionary.
    pub bytes: u64,
    /// Mean absolute error over mean absolute value.
    pub nmae: f64,
    /// The largest error.
    pub max_error: f64,
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
