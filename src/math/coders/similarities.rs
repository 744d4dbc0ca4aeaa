//! `k(y, X)` for a block of signals: exact, or fast with a bound on the error.
//!
//! A code depends on few of a signal's similarities; of the others it is enough to know that they are
//! small. So where the product is the larger part of the work it is made in short integers (`packed`), and what
//! the code depends on is computed anew in double precision. The kernel gives the bound
//! ([`crate::math::kernels::Screen`]); it is proven, not estimated, so codes are as good as without.

use std::ops::Range;

use crate::math::gram::Gram;
use crate::math::packed::PackedSignals;
use crate::math::signals::{Rows, long_dots};
use crate::math::{Kernel, MathError, PreparedDictionary, Result, Signals};

/// The similarities of one signal, by position in the gram matrix.
pub(super) trait Similarities: Copy {
    /// How many atoms should join a working set at a time, at least.
    const NEWCOMERS: usize;

    /// A value near the similarity.
    fn near(&self, position: usize) -> f64;
    /// How far `near` may be off.
    fn error(&self, position: usize) -> f64;
    /// Both of all positions.
    fn all_near(&self, near: &mut [f64], errors: &mut [f64]);
    /// The similarity.
    fn exact(&self, position: usize) -> f64;
    /// Several similarities at once.
    fn exact_each<const COUNT: usize>(&self, positions: [usize; COUNT]) -> [f64; COUNT];
}

/// The similarities of some signals.
pub(super) trait SimilarityBlock: Default + Send {
    /// The similarities of one signal.
    type Row<'a>: Similarities
    where
        Self: 'a;

    /// Computes them for a range of the signals, reusing the block's memory.
    fn fill(
        &mut self,
        dictionary: &PreparedDictionary,
        gram: &Gram,
        signals: &Signals<'_>,
        range: Range<usize>,
    ) -> Result<()>;

    /// The similarities of the block's signal `i`.
    fn row<'a>(&'a self, dictionary: &'a PreparedDictionary, gram: &'a Gram, i: usize) -> Self::Row<'a>;

    /// `k(y, y)` of the block's signal `i`.
    fn self_similarity(&self, i: usize) -> f64;
}

/// Centred signals with `k(y, y)` of each.
#[derive(Debug, Default)]
struct Centred {
    rows: Rows,
    self_similarities: Vec<f64>,
}

impl Centred {
    fn fill(
        &mut self,
        dictionary: &PreparedDictionary,
        signals: &Signals<'_>,
        range: Range<usize>,
    ) -> Result<()> {
        let kernel = dictionary.dictionary().kernel();
        self.rows.fill(&signals.rows()[range.clone()], dictionary.centre(), range.start)?;
        self.self_similarities.clear();
        self.self_similarities.extend(self.rows.squares.iter().map(|square| kernel.self_similarity(*square)));
        // Similarities to atoms are finite if these are (Cauchy-Schwarz).
        if self.self_similarities.iter().all(|own| own.is_finite()) {
            return Ok(());
        }
        Err(MathError::Overflow { kernel: kernel.name() })
    }
}

/// Similarities in double precision.
#[derive(Debug, Default)]
pub(super) struct ExactBlock {
    centred: Centred,
    values: Vec<f64>,
    atoms: usize,
}

impl ExactBlock {
    /// How many atoms there are.
    pub fn atoms(&self) -> usize {
        self.atoms
    }

    /// The similarities of all signals, one signal after the other.
    pub fn all(&self) -> &[f64] {
        &self.values
    }

    /// All similarities of the block's signal `i`.
    pub fn similarities(&self, i: usize) -> &[f64] {
        &self.values[i * self.atoms..(i + 1) * self.atoms]
    }
}

impl SimilarityBlock for ExactBlock {
    type Row<'a> = &'a [f64];

    fn fill(
        &mut self,
        dictionary: &PreparedDictionary,
        gram: &Gram,
        signals: &Signals<'_>,
        range: Range<usize>,
    ) -> Result<()> {
        self.atoms = gram.atoms;
        self.centred.fill(dictionary, signals, range)?;
        let kernel = dictionary.dictionary().kernel();
        kernel.similarities(self.centred.rows.all(), gram.rows.all(), &mut self.values);
        Ok(())
    }

    fn row<'a>(&'a self, _: &'a PreparedDictionary, _: &'a Gram, i: usize) -> &'a [f64] {
        self.similarities(i)
    }

    fn self_similarity(&self, i: usize) -> f64 {
        self.centred.self_similarities[i]
    }
}

impl Similarities for &[f64] {
    // Of fewer at a time fewer are in vain.
    const NEWCOMERS: usize = 3;

    #[inline(always)]
    fn near(&self, position: usize) -> f64 {
        self[position]
    }

    #[inline(always)]
    fn error(&self, _: usize) -> f64 {
        0.0
    }

    #[inline(always)]
    fn all_near(&self, near: &mut [f64], errors: &mut [f64]) {
        near.copy_from_slice(self);
        errors.fill(0.0);
    }

    #[inline(always)]
    fn exact(&self, position: usize) -> f64 {
        self[position]
    }

    #[inline(always)]
    fn exact_each<const COUNT: usize>(&self, positions: [usize; COUNT]) -> [f64; COUNT] {
        positions.map(|position| self[position])
    }
}

/// Similarities from a product that is not exact, with what it takes to compute any of them exactly.
#[derive(Debug, Default)]
pub(super) struct ScreenedBlock {
    centred: Centred,
    narrow: PackedSignals,
    /// The signals' similarities to all atoms, `stride` apart.
    near: Vec<f32>,
    stride: usize,
    bounds: Vec<Bound>,
    atoms: usize,
}

/// The error of a signal's similarities is at most `relative` of them plus `absolute`.
#[derive(Debug, Clone, Copy)]
struct Bound {
    relative: f64,
    absolute: f64,
}

impl Bound {
    /// More than any similarity, and finite, so that sums with it can be compared and marked.
    const UNKNOWN: Self = Self { relative: 0.0, absolute: 1e300 };

    #[inline(always)]
    fn of(&self, similarity: f64) -> f64 {
        similarity.abs() * self.relative + self.absolute
    }
}

/// Where single precision loses more than this nothing is known, and everything is computed exactly.
const LARGEST_ERROR: f64 = 0.05;
/// What flushing the smallest numbers to zero can lose.
const UNDERFLOW: f64 = 1e-37;

impl SimilarityBlock for ScreenedBlock {
    type Row<'a> = Screened<'a>;

    fn fill(
        &mut self,
        dictionary: &PreparedDictionary,
        gram: &Gram,
        signals: &Signals<'_>,
        range: Range<usize>,
    ) -> Result<()> {
        self.atoms = gram.atoms;
        self.centred.fill(dictionary, signals, range)?;
        let rows = &self.centred.rows;
        self.bounds.clear();
        let Some(screen) = &gram.screen else {
            self.near.clear();
            self.near.resize(rows.len() * gram.atoms, 0.0);
            self.stride = gram.atoms;
            self.bounds.resize(rows.len(), Bound::UNKNOWN);
            return Ok(());
        };
        self.narrow.fill(rows);
        screen.atoms.multiply(&self.narrow, &mut self.near);
        self.stride = screen.atoms.stride();
        for (i, (near, square)) in self.near.chunks_exact_mut(self.stride).zip(&rows.squares).enumerate() {
            let relative = screen.relative_error(*square, self.narrow.lost(i));
            if relative <= LARGEST_ERROR {
                screen.kernel.apply(&mut near[..gram.atoms], *square as f32, &screen.squares);
                self.bounds.push(Bound { relative, absolute: UNDERFLOW });
            } else {
                near.fill(0.0);
                self.bounds.push(Bound::UNKNOWN);
            }
        }
        Ok(())
    }

    fn row<'a>(&'a self, dictionary: &'a PreparedDictionary, gram: &'a Gram, i: usize) -> Screened<'a> {
        Screened {
            near: &self.near[i * self.stride..i * self.stride + self.atoms],
            bound: self.bounds[i],
            signal: self.centred.rows.row(i),
            square: self.centred.rows.squares[i],
            atoms: &gram.rows,
            kernel: dictionary.dictionary().kernel().as_ref(),
        }
    }

    fn self_similarity(&self, i: usize) -> f64 {
        self.centred.self_similarities[i]
    }
}

/// The similarities of one signal in single precision.
#[derive(Debug, Clone, Copy)]
pub(super) struct Screened<'a> {
    near: &'a [f32],
    bound: Bound,
    signal: &'a [f64],
    square: f64,
    atoms: &'a Rows,
    kernel: &'a dyn Kernel,
}

impl Similarities for Screened<'_> {
    // Exact similarities are quicker by fours.
    const NEWCOMERS: usize = 4;

    #[inline(always)]
    fn near(&self, position: usize) -> f64 {
        f64::from(self.near[position])
    }

    #[inline(always)]
    fn error(&self, position: usize) -> f64 {
        self.bound.of(self.near(position))
    }

    #[inline(always)]
    fn all_near(&self, near: &mut [f64], errors: &mut [f64]) {
        for ((near, error), known) in near.iter_mut().zip(errors).zip(self.near) {
            *near = f64::from(*known);
            *error = self.bound.of(*near);
        }
    }

    #[inline(always)]
    fn exact(&self, position: usize) -> f64 {
        self.exact_each([position])[0]
    }

    #[inline(always)]
    fn exact_each<const COUNT: usize>(&self, positions: [usize; COUNT]) -> [f64; COUNT] {
        let mut values = long_dots(self.signal, positions.map(|position| self.atoms.row(position)));
        let squares = positions.map(|position| self.atoms.squares[position]);
        self.kernel.apply(&mut values, self.square, &squares);
        values
    }
}
