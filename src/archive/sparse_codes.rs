//! Sparse codes of a block, and what they predict.
//!
//! Kernel sparse coding chooses the atoms `S`; since decoding is linear, their weights are fitted again:
//! `w = argmin |y - c - sum_S w_j (x_j - c)|^2`, rounded to multiples of `1 / WEIGHT_ONE`.

use super::Result;
use super::cells::{Cells, Group, numeric};
use super::codebook::{Codebook, WEIGHT_ONE};
use crate::math::coders::Fksc;
use crate::math::{Coder, CoderOptions, Signals, dot};

/// Codes choose atoms, and their weights are fitted again: they need not be exact.
pub(super) const CODE_TOLERANCE: f64 = 1e-4;

/// One signal's code: atoms in ascending order, and weights in multiples of `1 / WEIGHT_ONE`.
pub(crate) type WholeCode = Vec<(u16, i16)>;

/// The sparse codes of all signals: atoms are chosen by kernel sparse coding, and their weights fitted
/// again by least squares, since decoding here is linear.
pub(super) fn sparse_codes(codebook: &Codebook, groups: &[Group], cells: &Cells) -> Result<Vec<WholeCode>> {
    let dim = codebook.sensors();
    let scales = codebook.scales();
    let mut scaled = numeric(std::slice::from_ref(cells), groups, dim);
    for row in scaled.chunks_exact_mut(dim) {
        row.iter_mut().zip(scales).for_each(|(value, scale)| *value /= scale);
    }
    let options = CoderOptions::new(codebook.lambda())?.with_tolerance(CODE_TOLERANCE)?;
    let batch = Signals::from_flat(&scaled, dim)?;
    let codes = match Fksc.encode(codebook.prepared(), &batch, &options) {
        Ok(codes) => codes,
        // Values beyond what the kernel can compare: residuals do all of the work.
        Err(_) => return Ok(vec![WholeCode::new(); batch.len()]),
    };
    let mut centred = vec![0.0; dim];
    let fitted = codes.rows().zip(scaled.chunks_exact(dim)).map(|((atoms, _), signal)| {
        for ((target, value), centre) in centred.iter_mut().zip(signal).zip(codebook.scaled_centre()) {
            *target = value - centre;
        }
        fit(codebook, atoms, &centred)
    });
    Ok(fitted.collect())
}

/// Least squares on the atoms chosen, rounded.
fn fit(codebook: &Codebook, atoms: &[u32], signal: &[f64]) -> WholeCode {
    let count = atoms.len();
    let width = count + 1;
    let mut system = vec![0.0; count * width];
    for (i, a) in atoms.iter().enumerate() {
        for (j, b) in atoms.iter().enumerate() {
            system[i * width + j] = codebook.product(*a as usize, *b as usize);
        }
        // Keeps atoms that are alike from taking turns with huge weights.
        system[i * width + i] = system[i * width + i] * (1.0 + 1e-4) + f64::MIN_POSITIVE;
        system[i * width + count] = dot(codebook.relative(*a as usize), signal);
    }
    for i in 0..count {
        let pivot = system[i * width + i];
        for j in i..width {
            system[i * width + j] /= pivot;
        }
        for row in 0..count {
            let factor = system[row * width + i];
            if row != i && factor != 0.0 {
                for j in i..width {
                    system[row * width + j] -= factor * system[i * width + j];
                }
            }
        }
    }
    let step = codebook.weight_step();
    let units = f64::from(WEIGHT_ONE) / f64::from(step);
    let weights = (0..count).map(|i| (system[i * width + count] * units).round());
    let limit = f64::from(i16::MAX / step);
    let whole = atoms
        .iter()
        .zip(weights)
        .map(|(atom, weight)| (*atom as u16, weight.clamp(-limit, limit) as i16 * step));
    whole.filter(|(_, weight)| *weight != 0).collect()
}

/// What the codes predict of a group's sensors, signal after signal.
pub(super) fn predict(codebook: &Codebook, codes: &[WholeCode], group: &Group) -> Vec<f64> {
    let width = group.sensors.len();
    let known = |sensor: &&usize| **sensor < codebook.sensors();
    let columns: Vec<usize> = group.sensors.iter().take_while(known).copied().collect();
    // The group's part of every atom, so that a signal's sums run over neighbours in memory.
    let part =
        |atom: usize| -> Vec<i32> { columns.iter().map(|sensor| codebook.atom(atom)[*sensor]).collect() };
    let atoms: Vec<Vec<i32>> = (0..codebook.atoms()).map(part).collect();
    let mut predictions = Vec::with_capacity(codes.len() * width);
    let mut sums = vec![0i64; columns.len()];
    for code in codes {
        sums.fill(0);
        for (atom, weight) in code {
            for (sum, steps) in sums.iter_mut().zip(&atoms[usize::from(*atom)]) {
                *sum = sum.wrapping_add(i64::from(*weight) * i64::from(*steps));
            }
        }
        predictions.extend(columns.iter().zip(&sums).map(|(sensor, sum)| codebook.predict(*sensor, *sum)));
        predictions.resize(predictions.len() + width - columns.len(), 0.0);
    }
    predictions
}
