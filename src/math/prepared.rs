//! A dictionary with what coding and decoding need of it.

use super::computed_once::ComputedOnce;
use super::gram::{Gram, symmetric};
use super::product::inner_products;
use super::signals::Rows;
use super::{Dictionary, Kernel, MathError, Result, Signals};

/// Vectors that the centre is taken from, at most.
const CENTRE_VECTORS: usize = 256;

/// What to subtract from vectors before taking products, if the kernel does not see it: their median,
/// element by element. A mean would follow a single vector far away and cost all others their digits.
pub(crate) fn centre(kernel: &dyn Kernel, vectors: &Signals<'_>) -> Vec<f64> {
    let some = &vectors.rows()[..vectors.len().min(CENTRE_VECTORS)];
    if !kernel.ignores_translation() || some.is_empty() {
        return vec![0.0; vectors.dim()];
    }
    let mut column = Vec::with_capacity(some.len());
    let mut median = |position: usize| {
        column.clear();
        column.extend(some.iter().map(|row| row[position]));
        let (lower, middle, _) = column.select_nth_unstable_by(some.len() / 2, f64::total_cmp);
        if some.len() % 2 == 1 {
            return *middle;
        }
        let below = lower.iter().copied().max_by(f64::total_cmp).unwrap_or(*middle);
        0.5 * below + 0.5 * *middle
    };
    (0..vectors.dim()).map(&mut median).collect()
}

/// A dictionary with what coding and decoding need, computed once: centred atoms at once, the
/// gram matrix and the inner products of the atoms when first asked for.
#[derive(Debug)]
pub struct PreparedDictionary {
    dictionary: Dictionary,
    centre: Vec<f64>,
    rows: Rows,
    /// The order of atoms in the gram matrix, where it is known beforehand.
    order: Option<Vec<u32>>,
    /// `None` inside if it overflowed.
    gram: ComputedOnce<Option<Gram>>,
    products: ComputedOnce<Vec<f64>>,
}

impl PreparedDictionary {
    /// Checks the atoms' values and centres them.
    pub fn new(dictionary: Dictionary) -> Result<Self> {
        let atoms = Signals::from_flat(dictionary.atoms(), dictionary.dim())?;
        let centre = centre(dictionary.kernel().as_ref(), &atoms);
        Self::with_centre(dictionary, centre, None)
    }

    /// The same with a given centre, which must be zero unless the kernel ignores translation, and
    /// possibly an order of the atoms that keeps similar ones together.
    pub(crate) fn with_centre(
        dictionary: Dictionary,
        centre: Vec<f64>,
        order: Option<Vec<u32>>,
    ) -> Result<Self> {
        let atoms = Signals::from_flat(dictionary.atoms(), dictionary.dim())?;
        let rows = Rows::centred(atoms.rows(), &centre)?;
        let (gram, products) = (ComputedOnce::new(), ComputedOnce::new());
        Ok(Self { dictionary, centre, rows, order, gram, products })
    }

    /// The dictionary itself.
    pub fn dictionary(&self) -> &Dictionary {
        &self.dictionary
    }

    /// The dictionary alone.
    pub(crate) fn into_dictionary(self) -> Dictionary {
        self.dictionary
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
        let compute = || Gram::new(&self.rows, kernel.as_ref(), self.order.as_deref());
        let gram = self.gram.get_or_compute(compute);
        gram.as_ref().ok_or(MathError::Overflow { kernel: kernel.name() })
    }

    /// The inner products of the centred atoms.
    pub(crate) fn products(&self) -> &[f64] {
        self.products.get_or_compute(|| symmetric(self.rows.len(), inner_products, &self.rows))
    }
}
