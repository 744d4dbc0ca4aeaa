//! The product of a block of signals with atoms that are laid out for it once, in integers of 16 bits.
//!
//! Every row is rounded to multiples of a unit of its own, so that one instruction multiplies and adds twice as many
//! numbers as in single precision. Integers add up exactly: an entry has the same bits whatever block it is in, and
//! the only error that counts is what rounding took from the rows, which is measured.
//!
//! A general product lays out both operands on every call; for a block of signals that costs a quarter of the
//! product. Atoms change once per dictionary, so their panels are kept. A tile of `STRIP` signals by `PANEL` atoms
//! stays in registers (12 of AVX2's 16), and a chunk of a panel in the fastest cache.

#[cfg(target_arch = "x86_64")]
use pulp::x86::V3;
use rayon::prelude::*;

use super::exp::vectorised;
use super::signals::{Rows, dot};

/// Whether this CPU has the instruction that this product is made for. Without it one in double precision is faster.
pub(crate) fn has_fast_product() -> bool {
    #[cfg(target_arch = "x86_64")]
    return V3::try_new().is_some();
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// Signals of a tile.
const STRIP: usize = 6;
/// Atoms of a tile.
const PANEL: usize = 16;
/// Two neighbouring elements of a row, in its units: what the instruction multiplies and adds at a time.
type Pair = [i16; 2];
/// Pairs whose products are added up before they are turned into floating point.
const CHUNK: usize = 64;
/// The norm that a chunk of a row may have before it is rounded: rounding adds half of `sqrt(2 CHUNK)` at most, so by
/// Cauchy-Schwarz no sum of products leaves 32 bits.
const CHUNK_NORM: f64 = 46_334.0;
/// The largest magnitude of an element.
const LARGEST: f64 = i16::MAX as f64;

/// Rows in integers, `LANES` of them side by side: pair by pair, one of each.
#[derive(Debug, Default)]
pub(crate) struct Packed<const LANES: usize> {
    values: Vec<[Pair; LANES]>,
    /// Pairs of a row.
    pairs: usize,
    scales: Vec<Scale>,
}

/// How a row was rounded.
#[derive(Debug, Clone, Copy, Default)]
struct Scale {
    /// What an integer of the row is worth.
    unit: f64,
    /// The norm of what rounding took from the row.
    lost: f64,
}

/// Signals laid out for the product.
pub(crate) type PackedSignals = Packed<STRIP>;
/// Atoms laid out for the product.
pub(crate) type PackedAtoms = Packed<PANEL>;

impl<const LANES: usize> Packed<LANES> {
    /// Takes the place of what was there, reusing its memory.
    pub fn fill(&mut self, rows: &Rows) {
        self.make_room(rows);
        let places = self.values.chunks_exact_mut(self.pairs.max(1)).zip(self.scales.chunks_mut(LANES));
        places.zip(rows.values.chunks(LANES * rows.dim.max(1))).for_each(|((packed, scales), rows)| {
            lay_out(packed, scales, rows);
        });
    }

    /// Lays out many rows, in parallel.
    pub fn new(rows: &Rows) -> Self {
        let mut packed = Self::default();
        packed.make_room(rows);
        let places = packed.values.par_chunks_exact_mut(packed.pairs.max(1));
        let places = places.zip(packed.scales.par_chunks_mut(LANES));
        places.zip(rows.values.par_chunks(LANES * rows.dim.max(1))).for_each(|((packed, scales), rows)| {
            lay_out(packed, scales, rows);
        });
        packed
    }

    fn make_room(&mut self, rows: &Rows) {
        self.pairs = rows.dim.div_ceil(2);
        // Whatever is there is replaced: memory that is reused need not be cleared.
        self.scales.resize(rows.len(), Scale::default());
        self.values.resize(self.groups() * self.pairs, [[0; 2]; LANES]);
    }

    /// The norm of what rounding took from row `i`.
    pub fn lost(&self, i: usize) -> f64 {
        self.scales[i].lost
    }

    /// Some pairs of the rows of a group.
    fn group(&self, group: usize, first: usize) -> &[[Pair; LANES]] {
        let start = group * self.pairs;
        &self.values[start + first..start + (first + CHUNK).min(self.pairs)]
    }

    fn groups(&self) -> usize {
        self.scales.len().div_ceil(LANES)
    }
}

/// Rounds a group of rows and puts them side by side. Lanes without a row are zero.
fn lay_out<const LANES: usize>(packed: &mut [[Pair; LANES]], scales: &mut [Scale], rows: &[f64]) {
    if scales.len() < LANES {
        packed.fill([[0; 2]; LANES]);
    }
    let dim = rows.len() / scales.len();
    vectorised(
        #[inline(always)]
        || {
            for (lane, (row, scale)) in rows.chunks_exact(dim).zip(scales).enumerate() {
                *scale = round(row, packed, lane);
            }
        },
    );
}

/// Elements that are rounded side by side.
const WIDTH: usize = 8;

/// Rounds a row to multiples of a unit, into a lane.
#[inline(always)]
fn round<const LANES: usize>(row: &[f64], packed: &mut [[Pair; LANES]], lane: usize) -> Scale {
    let square = row.chunks(2 * CHUNK).map(|chunk| dot(chunk, chunk)).fold(0.0, f64::max);
    let largest = row.iter().fold(0.0f64, |most, value| if value.abs() > most { value.abs() } else { most });
    // A smaller unit would lose digits in single precision; what is too small for this one counts as lost.
    let unit = (square.sqrt() / CHUNK_NORM).max(largest / LARGEST).max(f64::from(f32::MIN_POSITIVE));
    let scale = 1.0 / unit;
    let mut lost = [0.0; WIDTH];
    let (chunks, last) = row.as_chunks::<WIDTH>();
    let mut filled_up = [0.0; WIDTH];
    filled_up[..last.len()].copy_from_slice(last);
    for (values, places) in chunks.iter().chain([&filled_up]).zip(packed.chunks_mut(WIDTH / 2)) {
        for (place, pair) in places.iter_mut().zip(rounded(values, scale, &mut lost)) {
            place[lane] = pair;
        }
    }
    Scale { unit, lost: lost.iter().sum::<f64>().sqrt() * unit }
}

/// The nearest integers; adds the squares of what is left to `lost`.
#[inline(always)]
fn rounded(values: &[f64; WIDTH], scale: f64, lost: &mut [f64; WIDTH]) -> [Pair; WIDTH / 2] {
    /// Adding it leaves the nearest integer in the low bits of the sum.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    let mut shifted = [0.0; WIDTH];
    for i in 0..WIDTH {
        shifted[i] = values[i].mul_add(scale, ROUND);
        let left = values[i].mul_add(scale, ROUND - shifted[i]);
        lost[i] += left * left;
    }
    std::array::from_fn(|i| [shifted[2 * i].to_bits() as i16, shifted[2 * i + 1].to_bits() as i16])
}

impl PackedAtoms {
    /// The distance of two signals' rows in a product.
    pub fn stride(&self) -> usize {
        self.groups() * PANEL
    }

    /// The largest norm of what rounding took from an atom.
    pub fn most_lost(&self) -> f64 {
        self.scales.iter().fold(0.0, |most, scale| scale.lost.max(most))
    }

    /// A bound on the error of the products of vectors of these norms of which rounding took so much: what was taken,
    /// and the roundings of every chunk's sum, of its worth, of their product and of their sum. The last term is what
    /// flushing the worth to zero can lose.
    pub fn product_error(&self, (norm, lost): (f64, f64), (other_norm, other_lost): (f64, f64)) -> f64 {
        const ROUNDOFF: f64 = 1.0 / (1 << 24) as f64;
        let chunks = self.pairs.div_ceil(CHUNK) as f64;
        let (rounded, other_rounded) = (norm + lost, other_norm + other_lost);
        let taken = lost * other_norm + rounded * other_lost;
        taken + (chunks + 4.0) * ROUNDOFF * rounded * other_rounded + 1e-28 * (chunks + 1.0)
    }

    /// `out[i * stride + j] = <signal i, atom j>`; what is beyond the atoms of a row means nothing.
    pub fn multiply(&self, signals: &PackedSignals, out: &mut Vec<f32>) {
        // Whatever is there is replaced: memory that is reused need not be cleared.
        out.resize(signals.groups() * STRIP * self.stride(), 0.0);
        #[cfg(target_arch = "x86_64")]
        if let Some(simd) = V3::try_new() {
            return simd.vectorize(
                #[inline(always)]
                || self.multiply_by(signals, out, |signals, atoms| tile_of_avx2(simd, signals, atoms)),
            );
        }
        self.multiply_by(signals, out, tile);
    }

    #[inline(always)]
    fn multiply_by(
        &self,
        signals: &PackedSignals,
        out: &mut [f32],
        tile: impl Fn(&[[Pair; STRIP]], &[[Pair; PANEL]]) -> [[i32; PANEL]; STRIP],
    ) {
        let stride = self.stride();
        for first in (0..self.pairs).step_by(CHUNK) {
            for panel in 0..self.groups() {
                let atoms = self.group(panel, first);
                let units = lanes::<PANEL>(&self.scales, panel).map(|scale| scale.unit as f32);
                for (strip, rows) in out.chunks_exact_mut(STRIP * stride).enumerate() {
                    let sums = tile(signals.group(strip, first), atoms);
                    let scales = lanes::<STRIP>(&signals.scales, strip);
                    for ((row, sums), scale) in rows.chunks_exact_mut(stride).zip(sums).zip(scales) {
                        let entries = row[panel * PANEL..(panel + 1) * PANEL].iter_mut();
                        let unit = scale.unit as f32;
                        for ((entry, sum), other) in entries.zip(sums).zip(units) {
                            let before = if first == 0 { 0.0 } else { *entry };
                            *entry = (sum as f32).mul_add(unit * other, before);
                        }
                    }
                }
            }
        }
    }
}

/// The scales of a group of rows.
#[inline(always)]
fn lanes<const LANES: usize>(scales: &[Scale], group: usize) -> [Scale; LANES] {
    std::array::from_fn(|lane| scales.get(group * LANES + lane).copied().unwrap_or_default())
}

/// Where there are no better instructions.
fn tile(signals: &[[Pair; STRIP]], atoms: &[[Pair; PANEL]]) -> [[i32; PANEL]; STRIP] {
    let mut sums = [[0; PANEL]; STRIP];
    for (signals, atoms) in signals.iter().zip(atoms) {
        for (sums, signal) in sums.iter_mut().zip(signals) {
            for (sum, atom) in sums.iter_mut().zip(atoms) {
                let [first, second] = [0, 1].map(|i| i32::from(signal[i]) * i32::from(atom[i]));
                *sum += first + second;
            }
        }
    }
    sums
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn tile_of_avx2(simd: V3, signals: &[[Pair; STRIP]], atoms: &[[Pair; PANEL]]) -> [[i32; PANEL]; STRIP] {
    use std::arch::x86_64::__m256i;
    const VECTORS: usize = PANEL / 8;
    let mut sums: [[__m256i; VECTORS]; STRIP] = [[simd.avx._mm256_setzero_si256(); VECTORS]; STRIP];
    for (signals, atoms) in signals.iter().zip(atoms) {
        let atoms: [__m256i; VECTORS] = pulp::cast(*atoms);
        for (sums, signal) in sums.iter_mut().zip(signals) {
            let signal = simd.avx._mm256_set1_epi32(pulp::cast(*signal));
            for (sum, atoms) in sums.iter_mut().zip(atoms) {
                *sum = simd.avx2._mm256_add_epi32(*sum, simd.avx2._mm256_madd_epi16(signal, atoms));
            }
        }
    }
    pulp::cast(sums)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::signals::dot;
    use proptest::prelude::*;

    fn rows(count: usize, dim: usize, seed: u64, scale: f64) -> Rows {
        let mut state = seed.wrapping_add(1);
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            scale * ((state >> 11) as f64 / (1u64 << 53) as f64 - 0.5)
        };
        let values: Vec<f64> = (0..count * dim).map(|_| next()).collect();
        let slices: Vec<&[f64]> = values.chunks_exact(dim).collect();
        let mut rows = Rows::default();
        rows.fill(&slices, &vec![0.0; dim], 0).expect("finite rows");
        rows
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn entries_are_inner_products_to_the_bound_with_the_same_bits_in_every_block(
            dim in prop_oneof![1usize..70, 500usize..600], atoms in 1usize..60, signals in 1usize..20, seed in 0u64..1000,
            scale in -160i32..30,
        ) {
            let (x, y) = (rows(atoms, dim, seed, 1.0), rows(signals, dim, seed + 1000, 2f64.powi(scale)));
            let (packed_x, mut packed_y) = (PackedAtoms::new(&x), PackedSignals::default());
            packed_y.fill(&y);
            let (mut whole, mut one) = (vec![f32::NAN; 7], Vec::new());
            packed_x.multiply(&packed_y, &mut whole);
            for i in 0..signals {
                let mut alone = Rows::default();
                alone.fill(&[y.row(i)], &vec![0.0; dim], 0).expect("finite rows");
                packed_y.fill(&alone);
                packed_x.multiply(&packed_y, &mut one);
                let signal = (y.squares[i].sqrt(), packed_y.lost(0));
                for j in 0..atoms {
                    let entry = whole[i * packed_x.stride() + j];
                    let bound = packed_x.product_error(signal, (x.squares[j].sqrt(), packed_x.lost(j)));
                    prop_assert!((f64::from(entry) - dot(y.row(i), x.row(j))).abs() <= bound);
                    prop_assert!(bound < 1e-3 * signal.0 * x.squares[j].sqrt() + 1e-27);
                    prop_assert_eq!(entry.to_bits(), one[j].to_bits());
                }
            }
        }
    }

    /// Sums of the largest rows do not leave their integers, and all instructions give the same.
    #[test]
    fn extremes() {
        for dim in [1, 2, 127, 128, 129, 1000] {
            let values: Vec<f64> =
                (0..20 * dim).map(|i| if i % dim == 0 { 1e12 } else { (i / dim) as f64 }).collect();
            let mut all = vec![0.0; dim];
            all.extend(vec![-7.0; dim]);
            all.extend(values);
            let slices: Vec<&[f64]> = all.chunks_exact(dim).collect();
            let mut rows = Rows::default();
            rows.fill(&slices, &vec![0.0; dim], 0).expect("finite rows");
            let (atoms, mut signals) = (PackedAtoms::new(&rows), PackedSignals::default());
            signals.fill(&rows);
            let (mut fast, mut plain) = (Vec::new(), vec![0.0; signals.groups() * STRIP * atoms.stride()]);
            atoms.multiply(&signals, &mut fast);
            atoms.multiply_by(&signals, &mut plain, tile);
            for i in 0..rows.len() {
                for j in 0..rows.len() {
                    let entry = i * atoms.stride() + j;
                    let norms = [i, j].map(|row| (rows.squares[row].sqrt(), signals.lost(row)));
                    let error = (f64::from(fast[entry]) - dot(rows.row(i), rows.row(j))).abs();
                    assert!(error <= atoms.product_error(norms[0], norms[1]), "{i} {j} {error}");
                    assert!((fast[entry] - plain[entry]).abs() <= f32::EPSILON * plain[entry].abs());
                }
            }
        }
    }
}
