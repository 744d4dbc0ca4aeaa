//! The single-precision product of a block of signals with atoms that are laid out for it once.
//!
//! A general product lays out both operands on every call; for a block of signals that costs a quarter of the
//! product. Atoms change once per dictionary, so their panels are kept. A tile of `STRIP` signals by `PANEL` atoms
//! stays in registers (12 of AVX2's 16), and `DEPTH` elements of a panel in the fastest cache. Every entry is a
//! chain of fused multiply-adds over `DEPTH` elements, and these chains are added in order: the same bits
//! whatever block it is in.

use rayon::prelude::*;

use super::exp::vectorised;
use super::signals::Rows;

/// Whether this CPU has fused multiply-adds. One that has not would compute each of them by hundreds of instructions.
pub(crate) fn has_fast_product() -> bool {
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    return std::arch::is_x86_feature_detected!("fma");
    #[cfg(not(any(target_arch = "x86", target_arch = "x86_64")))]
    return cfg!(target_arch = "aarch64");
}

/// Signals of a tile.
const STRIP: usize = 6;
/// Atoms of a tile.
const PANEL: usize = 16;
/// Elements worked on before going to the next tile.
const DEPTH: usize = 256;

/// Rows in single precision, `LANES` of them side by side: element by element, a number of each.
#[derive(Debug, Default)]
pub(crate) struct Packed<const LANES: usize> {
    values: Vec<[f32; LANES]>,
    dim: usize,
    len: usize,
}

/// Signals laid out for the product.
pub(crate) type PackedSignals = Packed<STRIP>;
/// Atoms laid out for the product.
pub(crate) type PackedAtoms = Packed<PANEL>;

impl<const LANES: usize> Packed<LANES> {
    /// Takes the place of what was there, reusing its memory.
    pub fn fill(&mut self, rows: &Rows) {
        (self.dim, self.len) = (rows.dim, rows.len());
        self.values.resize(self.groups() * self.dim, [0.0; LANES]);
        let groups = rows.values.chunks(LANES * self.dim.max(1));
        self.values.chunks_exact_mut(self.dim.max(1)).zip(groups).for_each(lay_out);
    }

    /// Lays out many rows, in parallel.
    pub fn new(rows: &Rows) -> Self {
        let (dim, len) = (rows.dim, rows.len());
        let mut values = vec![[0.0; LANES]; len.div_ceil(LANES) * dim];
        let groups = rows.values.par_chunks(LANES * dim.max(1));
        values.par_chunks_exact_mut(dim.max(1)).zip(groups).for_each(lay_out);
        Self { values, dim, len }
    }

    /// Some elements of the rows of a group.
    fn group(&self, group: usize, depth: usize) -> &[[f32; LANES]] {
        let start = group * self.dim;
        &self.values[start + depth..start + (depth + DEPTH).min(self.dim)]
    }

    fn groups(&self) -> usize {
        self.len.div_ceil(LANES)
    }
}

/// Puts a group of rows side by side. Lanes without a row are zero.
fn lay_out<const LANES: usize>((packed, rows): (&mut [[f32; LANES]], &[f64])) {
    let dim = packed.len();
    for (i, element) in packed.iter_mut().enumerate() {
        *element = std::array::from_fn(|lane| rows.get(lane * dim + i).map_or(0.0, |value| *value as f32));
    }
}

impl PackedAtoms {
    /// The distance of two signals' rows in a product.
    pub fn stride(&self) -> usize {
        self.groups() * PANEL
    }

    /// `out[i * stride + j] = <signal i, atom j>`; what is beyond the atoms of a row means nothing.
    pub fn multiply(&self, signals: &PackedSignals, out: &mut Vec<f32>) {
        let stride = self.stride();
        // Whatever is there is replaced: memory that is reused need not be cleared.
        out.resize(signals.groups() * STRIP * stride, 0.0);
        vectorised(
            #[inline(always)]
            || {
                for depth in (0..self.dim).step_by(DEPTH) {
                    for panel in 0..self.groups() {
                        let atoms = self.group(panel, depth);
                        for (strip, rows) in out.chunks_exact_mut(STRIP * stride).enumerate() {
                            let sums = tile(signals.group(strip, depth), atoms);
                            for (row, sums) in rows.chunks_exact_mut(stride).zip(sums) {
                                let entries = row[panel * PANEL..(panel + 1) * PANEL].iter_mut().zip(sums);
                                if depth == 0 {
                                    entries.for_each(|(entry, sum)| *entry = sum);
                                } else {
                                    entries.for_each(|(entry, sum)| *entry += sum);
                                }
                            }
                        }
                    }
                }
            },
        );
    }
}

#[inline(always)]
fn tile(signals: &[[f32; STRIP]], atoms: &[[f32; PANEL]]) -> [[f32; PANEL]; STRIP] {
    let mut sums = [[0.0f32; PANEL]; STRIP];
    for (signals, atoms) in signals.iter().zip(atoms) {
        for i in 0..STRIP {
            for j in 0..PANEL {
                sums[i][j] = signals[i].mul_add(atoms[j], sums[i][j]);
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::signals::dot;
    use proptest::prelude::*;

    fn rows(count: usize, dim: usize, seed: u64) -> Rows {
        let mut state = seed.wrapping_add(1);
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 11) as f64 / (1u64 << 53) as f64 - 0.5
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
        fn entries_are_inner_products_with_the_same_bits_in_every_block(
            dim in prop_oneof![1usize..70, 500usize..600], atoms in 1usize..60, signals in 1usize..20, seed in 0u64..1000,
        ) {
            let (x, y) = (rows(atoms, dim, seed), rows(signals, dim, seed + 1000));
            let (packed_x, mut packed_y) = (PackedAtoms::new(&x), PackedSignals::default());
            packed_y.fill(&y);
            let (mut whole, mut one) = (vec![f32::NAN; 7], Vec::new());
            packed_x.multiply(&packed_y, &mut whole);
            for i in 0..signals {
                let mut alone = Rows::default();
                alone.fill(&[y.row(i)], &vec![0.0; dim], 0).expect("finite rows");
                packed_y.fill(&alone);
                packed_x.multiply(&packed_y, &mut one);
                for j in 0..atoms {
                    let entry = whole[i * packed_x.stride() + j];
                    prop_assert!((f64::from(entry) - dot(y.row(i), x.row(j))).abs() < 1e-4);
                    prop_assert_eq!(entry.to_bits(), one[j].to_bits());
                }
            }
        }
    }
}
