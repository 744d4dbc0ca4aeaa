//! The dense product behind every similarity: all signals of a block against all atoms.

use std::borrow::Cow;

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};

use super::signals::RowsView;

/// Signals handled together: large enough for the product to run at full speed, small enough for
/// a block's similarities to stay in cache.
pub(crate) const BLOCK: usize = 128;

/// Products of at most this many multiplications, and those of few rows, take other paths in faer,
/// which round differently.
const SMALL_PRODUCT: usize = 16 * 16 * 16;
const FEW_ROWS: usize = 16;
/// The same where faer has no kernels of its own and long rows are cut in another way if there are few (the `gemm` crate,
/// as read in its source: both sides have at most 64 rows).
const FEW_LONG_ROWS: usize = 65;
const LONG: usize = 512;

/// `out[i][j] = <a_i, b_j>`, one thread.
pub(crate) fn inner_products(a: RowsView<'_>, b: RowsView<'_>, out: &mut Vec<f64>) {
    multiply_rows(a.values, b.values, a.dim, out);
}

/// Every row times a symmetric matrix of as many rows as the rows are long.
pub(crate) fn rows_times_symmetric(rows: &[f64], matrix: &[f64], dim: usize, out: &mut Vec<f64>) {
    multiply_rows(rows, matrix, dim, out);
}

/// Operands that faer would treat as small are padded, so that an entry has the same bits whatever
/// block it is computed in.
fn multiply_rows(a: &[f64], b: &[f64], dim: usize, out: &mut Vec<f64>) {
    if a.is_empty() || b.is_empty() {
        return out.clear();
    }
    let (a_len, b_len) = (a.len() / dim, b.len() / dim);
    let b_rows = b_len.max(2);
    let a_rows = a_len.max(few_rows(dim)).max(SMALL_PRODUCT / (b_rows * dim) + 1);
    // Whatever is there is replaced: memory that is reused need not be cleared.
    out.resize(a_len * b_len, 0.0);
    if a_rows == a_len && b_rows == b_len {
        return multiply(a, a_rows, b, b_rows, dim, out);
    }
    let mut padded = vec![0.0; a_rows * b_rows];
    multiply(&pad(a, a_rows * dim), a_rows, &pad(b, b_rows * dim), b_rows, dim, &mut padded);
    for (row, padded) in out.chunks_exact_mut(b_len).zip(padded.chunks_exact(b_rows)) {
        row.copy_from_slice(&padded[..b_len]);
    }
}

/// Blocks of fewer rows are padded to so many.
fn few_rows(dim: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
        return FEW_ROWS;
    }
    if dim > LONG { FEW_LONG_ROWS } else { FEW_ROWS }
}

/// The values, and zeros up to `count` of them.
fn pad(values: &[f64], count: usize) -> Cow<'_, [f64]> {
    let mut values = Cow::Borrowed(values);
    if count > values.len() {
        values.to_mut().resize(count, 0.0);
    }
    values
}

fn multiply(a: &[f64], a_rows: usize, b: &[f64], b_rows: usize, dim: usize, out: &mut [f64]) {
    matmul(
        MatMut::from_row_major_slice_mut(out, a_rows, b_rows),
        Accum::Replace,
        MatRef::from_row_major_slice(a, a_rows, dim),
        MatRef::from_row_major_slice(b, b_rows, dim).transpose(),
        1.0,
        Par::Seq,
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::signals::{Rows, dot};
    use proptest::prelude::*;

    fn rows(values: &[f64], dim: usize) -> Rows {
        let rows: Vec<&[f64]> = values.chunks_exact(dim).collect();
        let mut block = Rows::default();
        block.fill(&rows, &vec![0.0; dim], 0).expect("finite rows");
        block
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn an_entry_has_the_same_bits_in_every_block(
            dim in prop_oneof![1usize..70, 500usize..1500], atoms in 1usize..80, signals in 1usize..130, cut in 1usize..130, seed in 0u64..1000,
        ) {
            let mut state = seed;
            let mut next = || {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (state >> 11) as f64 / (1u64 << 53) as f64 - 0.5
            };
            let y: Vec<f64> = (0..signals * dim).map(|_| next()).collect();
            let x: Vec<f64> = (0..atoms * dim).map(|_| next()).collect();
            let x_rows = rows(&x, dim);
            let (mut whole, mut part) = (Vec::new(), Vec::new());
            inner_products(rows(&y, dim).view(0..signals), x_rows.view(0..atoms), &mut whole);
            for (i, value) in whole.iter().enumerate() {
                let (row, atom) = (i / atoms, i % atoms);
                let exact = dot(&y[row * dim..(row + 1) * dim], &x[atom * dim..(atom + 1) * dim]);
                prop_assert!((value - exact).abs() < 1e-11);
            }
            let mut start = 0;
            while start < signals {
                let end = (start + cut).min(signals);
                inner_products(rows(&y[start * dim..end * dim], dim).view(0..end - start), x_rows.view(0..atoms), &mut part);
                for (a, b) in part.iter().zip(&whole[start * atoms..end * atoms]) {
                    prop_assert_eq!(a.to_bits(), b.to_bits());
                }
                start = end;
            }
        }
    }
}
