//! Borrowed batches of equally long vectors, and the centred blocks that products are made of.

use std::cmp::Ordering;
use std::ops::Range;

use rayon::prelude::*;

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
        check_lengths(rows, self.dim, first)?;
        // Whatever is there is replaced: memory that is reused need not be cleared.
        self.values.resize(rows.len() * self.dim, 0.0);
        self.squares.resize(rows.len(), 0.0);
        let places = self.values.chunks_exact_mut(self.dim.max(1)).zip(&mut self.squares);
        for ((values, square), row) in places.zip(rows) {
            *square = subtract(row, centre, values);
        }
        self.check(rows, first)
    }

    /// The same for many rows at once, in parallel.
    pub(crate) fn centred(rows: &[&[f64]], centre: &[f64]) -> Result<Self> {
        let dim = centre.len();
        check_lengths(rows, dim, 0)?;
        let mut centred = Self { values: vec![0.0; rows.len() * dim], squares: vec![0.0; rows.len()], dim };
        let places = centred.values.par_chunks_exact_mut(dim.max(1)).zip(&mut centred.squares);
        places.zip(rows).for_each(|((values, square), row)| *square = subtract(row, centre, values));
        centred.check(rows, 0)?;
        Ok(centred)
    }

    /// Names the first row that cannot be worked with.
    fn check(&self, rows: &[&[f64]], first: usize) -> Result<()> {
        for (i, (square, row)) in self.squares.iter().zip(rows).enumerate() {
            if let Err(error) = finite_square(*square, self.row(i), first + i) {
                // Name the value as it was given, not as it is after centring.
                return Err(checked_square(row, first + i).err().unwrap_or(error));
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
        let mut values = vec![0.0; order.len() * self.dim];
        let places = values.par_chunks_exact_mut(self.dim.max(1)).zip(order);
        places.for_each(|(out, i)| out.copy_from_slice(self.row(*i as usize)));
        let squares = order.iter().map(|i| self.squares[*i as usize]).collect();
        Self { values, squares, dim: self.dim }
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

fn check_lengths(rows: &[&[f64]], dimension: usize, first: usize) -> Result<()> {
    match rows.iter().position(|row| row.len() != dimension) {
        Some(i) => Err(MathError::Dimension { row: first + i, found: rows[i].len(), dimension }),
        None => Ok(()),
    }
}

/// Writes `row - centre`; gives the square of its norm.
fn subtract(row: &[f64], centre: &[f64], out: &mut [f64]) -> f64 {
    vectorised(
        #[inline(always)]
        || {
            for ((out, value), centre) in out.iter_mut().zip(row).zip(centre) {
                *out = value - centre;
            }
            long_dot(out, out)
        },
    )
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
    dot_in_vectors::<DOT_VECTORS>(a, b)
}

/// The same for a few elements.
#[inline(always)]
pub(crate) fn short_dot(a: &[f64], b: &[f64]) -> f64 {
    dot_in_vectors::<1>(a, b)
}

/// [`dot`] of a long vector with others, bit for bit, in registers of the CPU's width, which compilers do not
/// come to by themselves. Several vectors that are far away in memory are waited for at once.
#[inline(always)]
pub(crate) fn long_dots<const COUNT: usize>(a: &[f64], others: [&[f64]; COUNT]) -> [f64; COUNT] {
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = pulp::x86::V3::try_new() {
        return simd.vectorize(Dots { simd, a, others });
    }
    others.map(|other| dot(a, other))
}

/// [`long_dots`] in AVX registers: not a closure, which compilers may leave out of the function that may use them.
#[cfg(target_arch = "x86_64")]
struct Dots<'a, const COUNT: usize> {
    simd: pulp::x86::V3,
    a: &'a [f64],
    others: [&'a [f64]; COUNT],
}

#[cfg(target_arch = "x86_64")]
impl<const COUNT: usize> pulp::NullaryFnOnce for Dots<'_, COUNT> {
    type Output = [f64; COUNT];

    #[inline(always)]
    fn call(self) -> Self::Output {
        let Self { simd, a, others } = self;
        let mut sums = [[pulp::f64x4(0.0, 0.0, 0.0, 0.0); DOT_VECTORS]; COUNT];
        let (chunks, rest) = in_vectors::<DOT_VECTORS>(a);
        let others = others.map(|other| in_vectors::<DOT_VECTORS>(&other[..a.len()]));
        for (i, chunk) in chunks.iter().enumerate() {
            for (vector, part) in chunk.iter().enumerate() {
                let part = pulp::cast(*part);
                for (sums, (other, _)) in sums.iter_mut().zip(&others) {
                    let product = simd.mul_f64x4(part, pulp::cast(other[i][vector]));
                    sums[vector] = simd.add_f64x4(sums[vector], product);
                }
            }
        }
        std::array::from_fn(|i| total::<DOT_VECTORS>(pulp::cast(sums[i]), rest, others[i].1))
    }
}

/// [`dot`] of two long vectors.
#[inline(always)]
pub(crate) fn long_dot(a: &[f64], b: &[f64]) -> f64 {
    long_dots(a, [b])[0]
}

/// Sums side by side: arrays of this length become one register where one lane after the other would not.
const LANES: usize = 4;
/// Registers of sums: one alone would wait for its additions.
const DOT_VECTORS: usize = 2;

#[inline(always)]
fn dot_in_vectors<const VECTORS: usize>(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [[0.0; LANES]; VECTORS];
    let ((a_chunks, a_rest), (b_chunks, b_rest)) = (in_vectors::<VECTORS>(a), in_vectors::<VECTORS>(b));
    for (x, y) in a_chunks.iter().zip(b_chunks) {
        for vector in 0..VECTORS {
            for lane in 0..LANES {
                sums[vector][lane] += x[vector][lane] * y[vector][lane];
            }
        }
    }
    total(sums, a_rest, b_rest)
}

/// A vector by registers, and what is left.
#[inline(always)]
fn in_vectors<const VECTORS: usize>(values: &[f64]) -> (&[[[f64; LANES]; VECTORS]], &[f64]) {
    let chunks = values.as_chunks::<LANES>().0.as_chunks::<VECTORS>().0;
    (chunks, &values[chunks.len() * VECTORS * LANES..])
}

/// An inner product from its sums and what is left of both vectors.
#[inline(always)]
fn total<const VECTORS: usize>(mut sums: [[f64; LANES]; VECTORS], a_rest: &[f64], b_rest: &[f64]) -> f64 {
    let tail: f64 = a_rest.iter().zip(b_rest).map(|(x, y)| x * y).sum();
    let mut width = VECTORS / 2;
    while width > 0 {
        let (sums, others) = sums.split_at_mut(width);
        for (sum, other) in sums.as_flattened_mut().iter_mut().zip(others.as_flattened()) {
            *sum += other;
        }
        width /= 2;
    }
    let [first, second, third, fourth] = sums[0];
    (first + third) + (second + fourth) + tail
}

/// `target += factor * source`.
#[inline(always)]
pub(crate) fn add_scaled(target: &mut [f64], factor: f64, source: &[f64]) {
    for (t, s) in target.iter_mut().zip(source) {
        *t += factor * s;
    }
}

/// Elements that are gone through so quickly that several sources at a time do not pay.
const FEW: usize = 128;

/// `target += sum of factor * source` over all sources, four at a time: the target is read and written less
/// often.
#[inline(always)]
pub(crate) fn add_all_scaled<'a>(target: &mut [f64], sources: impl Iterator<Item = (f64, &'a [f64])>) {
    if target.len() < FEW {
        // Not `for_each`, which compilers may leave out of the function that may use the CPU's vectors.
        for (factor, source) in sources {
            add_scaled(target, factor, source);
        }
        return;
    }
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
