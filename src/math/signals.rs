//! Borrowed batches of equally long vectors, and the centred blocks that products are made of.

use std::cmp::Ordering;
use std::ops::Range;

use super::exp::vectorised;
use super::{MathError, Result};

/// A batch of signals: borrowed rows of one length.
#[derive(Debug, Clone)]
pub struct Signals<'a> {
    rows: Vec<&'a [f64]>,
    dim: usize,
}

impl<'a> Signals<'a> {
    /// Rows that all have the same length, at least one element each.
    pub fn new(rows: Vec<&'a [f64]>) -> Result<Self> {
        let dim = rows.first().map_or(0, |row| row.len());
        for (row, values) in rows.iter().enumerate() {
            if values.len() != dim {
                return Err(MathError::Length { row, expected: dim, found: values.len() });
            }
            if values.is_empty() {
                return Err(MathError::EmptyVector { row });
            }
        }
        Ok(Self { rows, dim })
    }

    /// Rows stored one after the other in `values`.
    pub fn from_flat(values: &'a [f64], dim: usize) -> Result<Self> {
        if dim == 0 || !values.len().is_multiple_of(dim) {
            return Err(MathError::Length { row: 0, expected: dim, found: values.len() });
        }
        Self::new(values.chunks_exact(dim).collect())
    }

    /// How many signals.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// True for a batch without signals.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The length of every signal (0 for an empty batch).
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Signal `i`.
    pub fn row(&self, i: usize) -> &'a [f64] {
        self.rows[i]
    }

    /// All signals in order.
    pub fn rows(&self) -> &[&'a [f64]] {
        &self.rows
    }
}

/// The sum of squares of `values`, or why this vector cannot be worked with.
pub(crate) fn checked_square(values: &[f64], row: usize) -> Result<f64> {
    finite_square(
        vectorised(
            #[inline(always)]
            || long_dot(values, values),
        ),
        values,
        row,
    )
}

fn finite_square(square: f64, values: &[f64], row: usize) -> Result<f64> {
    // A squared distance can be four times as large.
    if (4.0 * square).is_finite() {
        return Ok(square);
    }
    match values.iter().position(|v| !v.is_finite()) {
        Some(position) => Err(MathError::NotFinite { row, position, value: values[position] }),
        None => {
            let largest = values.iter().fold(0.0f64, |m, v| m.max(v.abs()));
            Err(MathError::TooLarge { row, largest })
        }
    }
}

/// Whether a vector can be worked with: finite, and small enough to be squared.
pub fn check_vector(values: &[f64], row: usize) -> Result<()> {
    checked_square(values, row).map(|_| ())
}

/// Rows copied into one buffer, minus a centre, with their squared norms.
///
/// Distances are taken as `|a|^2 + |b|^2 - 2 a.b`, which loses digits when the norms are large next
/// to the distance; a kernel that does not see translations is therefore fed centred rows.
#[derive(Debug, Clone, Default)]
pub struct Rows {
    pub(crate) values: Vec<f64>,
    pub(crate) squares: Vec<f64>,
    pub(crate) dim: usize,
}

impl Rows {
    /// Fills the block with `rows - centre`, reusing its memory; `first` is the number of the first
    /// row, for errors.
    pub(crate) fn fill(&mut self, rows: &[&[f64]], centre: &[f64], first: usize) -> Result<()> {
        self.dim = centre.len();
        self.values.clear();
        self.squares.clear();
        for (i, row) in rows.iter().enumerate() {
            if row.len() != self.dim {
                let (dimension, found) = (self.dim, row.len());
                return Err(MathError::Dimension { row: first + i, found, dimension });
            }
            let start = self.values.len();
            let square = vectorised(
                #[inline(always)]
                || {
                    self.values.extend(row.iter().zip(centre).map(|(v, c)| v - c));
                    long_dot(&self.values[start..], &self.values[start..])
                },
            );
            match finite_square(square, &self.values[start..], first + i) {
                Ok(square) => self.squares.push(square),
                // Name the value as it was given, not as it is after centring.
                Err(error) => return Err(checked_square(row, first + i).err().unwrap_or(error)),
            }
        }
        Ok(())
    }

    /// All rows.
    pub(crate) fn all(&self) -> RowsView<'_> {
        self.view(0..self.len())
    }

    /// Some of the rows.
    pub(crate) fn view(&self, range: Range<usize>) -> RowsView<'_> {
        let values = &self.values[range.start * self.dim..range.end * self.dim];
        RowsView { values, squares: &self.squares[range], dim: self.dim }
    }

    /// The rows in another order.
    pub(crate) fn select(&self, order: &[u32]) -> Self {
        let mut selected = Self { dim: self.dim, ..Self::default() };
        for i in order {
            selected.values.extend_from_slice(self.row(*i as usize));
            selected.squares.push(self.squares[*i as usize]);
        }
        selected
    }

    /// How many rows.
    pub fn len(&self) -> usize {
        self.squares.len()
    }

    /// Row `i`.
    pub fn row(&self, i: usize) -> &[f64] {
        &self.values[i * self.dim..(i + 1) * self.dim]
    }
}

/// Consecutive rows of a block, borrowed.
#[derive(Debug, Clone, Copy)]
pub struct RowsView<'a> {
    pub(crate) values: &'a [f64],
    pub(crate) squares: &'a [f64],
    pub(crate) dim: usize,
}

impl RowsView<'_> {
    /// How many rows.
    pub fn len(&self) -> usize {
        self.squares.len()
    }

    /// True without rows.
    pub fn is_empty(&self) -> bool {
        self.squares.is_empty()
    }
}

/// An order of vectors of one length by what is in them.
pub(crate) fn by_content(a: &[f64], b: &[f64]) -> Ordering {
    let pairs = a.iter().zip(b);
    pairs.map(|(a, b)| a.total_cmp(b)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// Inner product with a fixed order of additions that vectorises.
#[inline(always)]
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    dot_in_lanes::<8>(a, b)
}

/// The same for a few elements.
#[inline(always)]
pub(crate) fn short_dot(a: &[f64], b: &[f64]) -> f64 {
    dot_in_lanes::<4>(a, b)
}

/// The same for long vectors, with more sums at a time: one alone would wait for its additions.
#[inline(always)]
pub(crate) fn long_dot(a: &[f64], b: &[f64]) -> f64 {
    dot_in_lanes::<32>(a, b)
}

#[inline(always)]
fn dot_in_lanes<const LANES: usize>(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; LANES];
    let (a_chunks, b_chunks) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let tail: f64 = a_chunks.remainder().iter().zip(b_chunks.remainder()).map(|(x, y)| x * y).sum();
    for (x, y) in a_chunks.zip(b_chunks) {
        for lane in 0..LANES {
            sums[lane] += x[lane] * y[lane];
        }
    }
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    sums[0] + tail
}

/// `target += factor * source`.
#[inline(always)]
pub(crate) fn add_scaled(target: &mut [f64], factor: f64, source: &[f64]) {
    for (t, s) in target.iter_mut().zip(source) {
        *t += factor * s;
    }
}

/// `target += sum of factor * source` over all sources, four at a time: the target is read and written less
/// often.
#[inline(always)]
pub(crate) fn add_all_scaled<'a>(target: &mut [f64], sources: impl Iterator<Item = (f64, &'a [f64])>) {
    let mut waiting: [(f64, &[f64]); 4] = [(0.0, &[]); 4];
    let mut count = 0;
    for source in sources {
        waiting[count] = source;
        count += 1;
        if count == 4 {
            count = 0;
            let [(f0, s0), (f1, s1), (f2, s2), (f3, s3)] = waiting;
            let pairs = s0.iter().zip(s1).zip(s2.iter().zip(s3));
            for (t, ((a, b), (c, d))) in target.iter_mut().zip(pairs) {
                *t += (f0 * a + f1 * b) + (f2 * c + f3 * d);
            }
        }
    }
    for (factor, source) in &waiting[..count] {
        add_scaled(target, *factor, source);
    }
}
