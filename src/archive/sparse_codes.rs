//! Sparse codes of a block, and what they predict.
//!
//! Kernel sparse coding chooses the atoms `S`; since decoding is linear, their weights are fitted again:
//! `w = argmin |y - c - sum_S w_j (x_j - c)|^2`, rounded to multiples of `1 / WEIGHT_ONE`.

use std::collections::HashMap;

use arrow::datatypes::ToByteSlice;
use twox_hash::XxHash3_64;

use super::Result;
use super::cells::{Cells, Group, Numeric};
use super::codebook::{Codebook, Coding, WEIGHT_ONE};
use crate::math::coders::Fksc;
use crate::math::{Coder, CoderOptions, Signals, dot, vectorised};

/// Codes choose atoms, and their weights are fitted again: they need not be exact.
pub(super) const CODE_TOLERANCE: f64 = 1e-4;

/// One signal's code: atoms in ascending order, and weights in multiples of `1 / WEIGHT_ONE`.
pub(crate) type WholeCode = Vec<(u16, i16)>;

/// Signals that are coded at a time: enough for all threads, and few enough to stay in a processor's cache.
const STRIP: usize = 1024;

/// The sparse codes of all signals: atoms are chosen by kernel sparse coding, and their weights fitted
/// again by least squares, since decoding here is linear.
pub(super) fn sparse_codes(codebook: &Codebook, groups: &[Group], cells: &Cells) -> Result<Vec<WholeCode>> {
    let (dim, count) = (codebook.sensors(), cells.signals());
    let Some(coding) = codebook.coding() else { return Ok(vec![WholeCode::new(); count]) };
    let options = CoderOptions::new(codebook.lambda())?.with_tolerance(CODE_TOLERANCE)?;
    let is_scaled = codebook.scales().iter().any(|scale| *scale != 1.0);
    let first_alike = first_alike(cells, groups);
    let distinct: Vec<usize> = (0..count).filter(|signal| first_alike[*signal] == *signal).collect();
    let mut numeric = Numeric::new(std::slice::from_ref(cells), groups, dim);
    let mut scaled = Vec::with_capacity(STRIP.min(count) * dim);
    let mut fitted = vec![WholeCode::new(); count];
    let mut fit = Fit::new(codebook, coding);
    for signals in distinct.chunks(STRIP) {
        scaled.clear();
        signals.iter().for_each(|signal| numeric.extend(cells, *signal..signal + 1, &mut scaled));
        if is_scaled {
            for row in scaled.chunks_exact_mut(dim) {
                row.iter_mut().zip(codebook.scales()).for_each(|(value, scale)| *value /= scale);
            }
        }
        let unknown = coding.known_codes.look_up(&scaled, dim, |number, code| {
            fitted[signals[number]].clone_from(code);
        });
        if unknown.is_empty() {
            continue;
        }
        for (place, number) in unknown.iter().enumerate() {
            scaled.copy_within(number * dim..(number + 1) * dim, place * dim);
        }
        scaled.truncate(unknown.len() * dim);
        let batch = Signals::from_flat(&scaled, dim)?;
        let codes = match Fksc.encode(&coding.prepared, &batch, &options) {
            Ok(codes) => codes,
            // Values beyond what the kernel can compare: residuals do all of the work.
            Err(error) if error.is_incomparable() => return Ok(vec![WholeCode::new(); count]),
            Err(error) => return Err(error.into()),
        };
        for (number, ((atoms, _), values)) in unknown.iter().zip(codes.rows().zip(scaled.chunks_exact(dim))) {
            fitted[signals[*number]] = fit.code(atoms, values);
        }
        let coded = unknown.iter().map(|number| &fitted[signals[*number]]);
        coding.known_codes.add(scaled.chunks_exact(dim).zip(coded));
    }
    for (signal, first) in first_alike.iter().enumerate().filter(|(signal, first)| signal != *first) {
        fitted[signal] = fitted[*first].clone();
    }
    Ok(fitted)
}

/// For every signal the first one of the same values: its code need not be looked for again. Signals with values that
/// are missing depend on those before them, so that then each is one of its own.
fn first_alike(cells: &Cells, groups: &[Group]) -> Vec<usize> {
    let found = vectorised(
        #[inline(always)]
        || find_alike(cells, groups),
    );
    found.unwrap_or_else(|| (0..cells.signals()).collect())
}

/// The same, unless something is missing or no double.
#[inline(always)]
fn find_alike(cells: &Cells, groups: &[Group]) -> Option<Vec<usize>> {
    if cells.sensors == 0 || !Numeric::are_all_doubles(cells, groups) {
        return None;
    }
    let row = |signal: usize| &cells.raw[signal * cells.sensors..][..cells.sensors];
    let mut seen: HashMap<u64, usize> = HashMap::with_capacity(cells.signals());
    let mut all_first: Vec<usize> = Vec::with_capacity(cells.signals());
    // How many signals ago the last one was that was there before: what repeats itself mostly goes on to.
    let mut distance = usize::MAX;
    for signal in 0..cells.signals() {
        if let Some(before) = signal.checked_sub(distance)
            && row(before) == row(signal)
        {
            all_first.push(all_first[before]);
            continue;
        }
        if !Numeric::takes_part(row(signal)) {
            return None;
        }
        let mut first = *seen.entry(XxHash3_64::oneshot(row(signal).to_byte_slice())).or_insert(signal);
        if first != signal && row(first) == row(signal) {
            distance = signal - first;
        } else {
            first = signal;
        }
        all_first.push(first);
    }
    Some(all_first)
}

/// Least squares on the atoms chosen, rounded; memory is used again from signal to signal.
struct Fit<'a> {
    codebook: &'a Codebook,
    coding: &'a Coding,
    centred: Vec<f64>,
    system: Vec<f64>,
}

impl<'a> Fit<'a> {
    fn new(codebook: &'a Codebook, coding: &'a Coding) -> Self {
        Self { codebook, coding, centred: vec![0.0; codebook.sensors()], system: Vec::new() }
    }

    fn code(&mut self, atoms: &[u32], signal: &[f64]) -> WholeCode {
        let Self { codebook, coding, centred, system } = self;
        let (count, width) = (atoms.len(), atoms.len() + 1);
        system.clear();
        system.resize(count * width, 0.0);
        vectorised(
            #[inline(always)]
            || {
                for ((target, value), centre) in centred.iter_mut().zip(signal).zip(&coding.scaled_centre) {
                    *target = value - centre;
                }
                for (row, atom) in system.chunks_exact_mut(width).zip(atoms) {
                    row[count] = dot(coding.relative(*atom as usize), centred);
                }
            },
        );
        let (products, all) = (coding.products(), codebook.atoms());
        for (i, a) in atoms.iter().enumerate() {
            for (j, b) in atoms.iter().enumerate() {
                system[i * width + j] = products[*a as usize * all + *b as usize];
            }
            // Keeps atoms that are alike from taking turns with huge weights.
            system[i * width + i] = system[i * width + i] * (1.0 + 1e-4) + f64::MIN_POSITIVE;
        }
        solve(system, count);
        let step = codebook.weight_step();
        let units = f64::from(WEIGHT_ONE) / f64::from(step);
        let limit = f64::from(i16::MAX / step);
        let weight =
            |i: usize| (system[i * width + count] * units).round().clamp(-limit, limit) as i16 * step;
        let whole = atoms.iter().enumerate().map(|(i, atom)| (*atom as u16, weight(i)));
        whole.filter(|(_, weight)| *weight != 0).collect()
    }
}

/// Solves equations, row by row with their right side at the end, which the solution replaces.
fn solve(system: &mut [f64], count: usize) {
    let width = count + 1;
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
}

#[cfg(test)]
mod tests {
    use super::super::cells::Cell;
    use super::super::learn::given;
    use super::super::quantiser::Bound;
    use super::*;
    use crate::math::{Dictionary, kernels};
    use arrow::datatypes::DataType;

    const DIM: usize = 6;

    fn value(place: usize) -> f64 {
        (place.wrapping_mul(0x9E37_79B9) % 1009) as f64 / 100.0
    }

    /// Signals from one supply of them, some of which other blocks have, too.
    fn block(signals: impl Iterator<Item = usize>) -> Cells {
        let raw: Vec<u64> = signals
            .flat_map(|signal| (0..DIM).map(move |i| value(1000 + signal * DIM + i).to_bits()))
            .collect();
        Cells { sensors: DIM, state: vec![Cell::Value; raw.len()], raw: raw.into() }
    }

    fn codebook() -> Codebook {
        let kernel = kernels::build("rbf", &|name| (name == "sigma").then_some(4.0)).expect("a kernel");
        let atoms = (0..20 * DIM).map(value).collect();
        given(&Dictionary::new(atoms, DIM, kernel, 0.05, None).expect("atoms"), Bound::MaxError(0.1))
            .expect("a codebook")
    }

    #[test]
    fn values_that_the_kernel_cannot_compare_have_no_codes() {
        let groups = [Group { sensors: (0..DIM).collect(), data_type: DataType::Float64 }];
        let kernel = kernels::build("polynomial", &|_| None).expect("a kernel");
        let dictionary = Dictionary::new((0..4 * DIM).map(value).collect(), DIM, kernel, 0.05, None);
        let codebook =
            given(&dictionary.expect("atoms"), Bound::MaxError(0.1)).expect("a codebook of usual values");
        let raw = vec![1e100f64.to_bits(); 2 * DIM];
        let huge = Cells { sensors: DIM, state: vec![Cell::Value; raw.len()], raw: raw.into() };
        assert_eq!(sparse_codes(&codebook, &groups, &huge).expect("no codes"), vec![WholeCode::new(); 2]);
    }

    /// Threads code blocks in any order, and which codes are known then is a matter of chance.
    #[test]
    fn codes_do_not_depend_on_what_was_coded_before() {
        let groups = [Group { sensors: (0..DIM).collect(), data_type: DataType::Float64 }];
        let blocks = [block(0..700), block((0..1500).rev()), block((0..40).map(|i| i * 37))];
        let codes =
            |codebook: &Codebook, cells: &Cells| sparse_codes(codebook, &groups, cells).expect("codes");
        let alone: Vec<Vec<WholeCode>> = blocks.iter().map(|cells| codes(&codebook(), cells)).collect();
        assert!(alone.iter().flatten().any(|code| code.len() > 1));
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
            let shared = codebook();
            for i in order {
                assert!(codes(&shared, &blocks[i]) == alone[i], "block {i} of {order:?}");
            }
            let signal: Vec<f64> = (0..DIM).map(|i| value(1000 + i)).collect();
            let known = &shared.coding().expect("atoms").known_codes;
            assert!(known.look_up(&signal, DIM, |_, _| {}).is_empty());
        }
    }
}
