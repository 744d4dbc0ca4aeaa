//! Decoders: the pre-image of a code, the signal whose image is nearest to `phi(X) w` (eq. 19).
//!
//! For every kernel here the pre-image lies in the span of the atoms used, `y = c + sum a_j (x_j - c)`
//! with the dictionary's centre `c`. So the search runs over the few coefficients `a`, on inner
//! products of atoms that are computed once per dictionary, and each signal is built only once.

mod linear;
mod polynomial;
mod rbf;

use std::fmt::Debug;

use rayon::prelude::*;

pub use linear::LinearPreimage;
pub use polynomial::PolynomialPreimage;
pub use rbf::RbfPreimage;

use super::coders::{Code, check_entry};
use super::exp::vectorised;
use super::product::BLOCK;
use super::signals::add_all_scaled;
use super::{PreparedDictionary, Result};

/// The atoms a code uses: their weights and the inner products of their centred vectors.
#[derive(Debug, Default)]
pub struct Support {
    /// The weights, not all of them zero.
    pub weights: Vec<f64>,
    /// `products[i * len + j] = <x_i - c, x_j - c>`.
    pub products: Vec<f64>,
}

impl Support {
    /// How many atoms.
    pub fn len(&self) -> usize {
        self.weights.len()
    }

    /// True for a code without weights.
    pub fn is_empty(&self) -> bool {
        self.weights.is_empty()
    }

    /// The products of atom `i` with all.
    pub fn row(&self, i: usize) -> &[f64] {
        &self.products[i * self.len()..(i + 1) * self.len()]
    }
}

/// Finds the coefficients of a pre-image.
pub trait Decoder: Debug + Send + Sync {
    /// Fills `coefficients` (as long as the support, which is not empty); `scratch` is memory that
    /// calls reuse.
    fn coefficients(&self, support: &Support, scratch: &mut Vec<f64>, coefficients: &mut Vec<f64>);
}

/// Decodes a batch: `codes[i]` lists the atoms and weights of row `i`; signals are written one
/// after the other. A code without weights decodes to the dictionary's centre, which is the median
/// of the atoms, element by element, for the RBF kernel and zero for the others.
pub fn decode(dictionary: &PreparedDictionary, codes: &[Code<'_>]) -> Result<Vec<f64>> {
    let dim = dictionary.dictionary().dim();
    let decoder = dictionary.dictionary().kernel().decoder();
    let products = dictionary.products();
    let atoms = dictionary.dictionary().len();
    let decode_row = |reused: &mut (Vec<u32>, Support, Vec<f64>, Vec<f64>), row: usize, out: &mut [f64]| {
        let (used, support, scratch, coefficients) = reused;
        used.clear();
        support.weights.clear();
        for (atom, weight) in codes[row].0.iter().zip(codes[row].1) {
            check_entry(row, *atom, *weight, atoms)?;
            // Repeated atoms add up; codes of `sparse_encode` ascend and have none.
            let repeated = used.last().is_some_and(|last| last >= atom);
            match repeated.then(|| used.iter().position(|other| other == atom)).flatten() {
                Some(position) => support.weights[position] += weight,
                None => {
                    used.push(*atom);
                    support.weights.push(*weight);
                }
            }
        }
        out.copy_from_slice(dictionary.centre());
        if support.weights.iter().all(|weight| *weight == 0.0) {
            return Ok(());
        }
        support.products.clear();
        for i in used.iter() {
            let row = &products[*i as usize * atoms..(*i as usize + 1) * atoms];
            support.products.extend(used.iter().map(|j| row[*j as usize]));
        }
        decoder.coefficients(support, scratch, coefficients);
        vectorised(
            #[inline(always)]
            || {
                let rows = used.iter().map(|atom| dictionary.rows().row(*atom as usize));
                add_all_scaled(out, coefficients.iter().copied().zip(rows));
            },
        );
        Ok(())
    };
    let mut signals = vec![0.0; codes.len() * dim];
    signals.par_chunks_mut(dim * BLOCK).enumerate().try_for_each_init(
        Default::default,
        |reused, (block, out)| {
            for (i, out) in out.chunks_exact_mut(dim).enumerate() {
                decode_row(reused, block * BLOCK + i, out)?;
            }
            Ok(())
        },
    )?;
    Ok(signals)
}
