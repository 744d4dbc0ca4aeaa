//! What codes predict of a group's sensors.

use super::cells::Group;
use super::codebook::{Codebook, WEIGHT_ONE};
use super::sparse_codes::WholeCode;

/// A group's part of a codebook, so that a signal's sums run over neighbours in memory.
pub(super) struct Predictor {
    /// Sensors of the group; those that the codebook does not know come last.
    width: usize,
    known: usize,
    /// The known sensors of each atom.
    atoms: Vec<i32>,
    /// `WEIGHT_ONE centre`, and `step / WEIGHT_ONE`.
    centre: Vec<i64>,
    units: Vec<f64>,
    /// Magnitudes that sums are made of.
    largest_centre: u64,
    largest: Vec<u64>,
}

/// Sums that are used again from signal to signal.
pub(super) struct Memory {
    centre: Vec<i32>,
    small: Vec<i32>,
    wide: Vec<i64>,
}

impl Predictor {
    pub fn new(codebook: &Codebook, group: &Group) -> Self {
        let is_known = |sensor: &&usize| **sensor < codebook.sensors();
        let columns: Vec<usize> = group.sensors.iter().take_while(is_known).copied().collect();
        let (mut atoms, mut largest) = (Vec::with_capacity(codebook.atoms() * columns.len()), Vec::new());
        for atom in (0..codebook.atoms()).map(|atom| codebook.atom(atom)) {
            if columns.len() == codebook.sensors() {
                atoms.extend_from_slice(atom);
            } else {
                atoms.extend(columns.iter().map(|sensor| atom[*sensor]));
            }
            let added = &atoms[atoms.len() - columns.len()..];
            largest.push(added.iter().fold(0, |most: u64, steps| most.max(steps.unsigned_abs().into())));
        }
        let centre: Vec<i64> = columns
            .iter()
            .map(|sensor| i64::from(WEIGHT_ONE).wrapping_mul(codebook.centre(*sensor)))
            .collect();
        Self {
            width: group.sensors.len(),
            known: columns.len(),
            units: columns.iter().map(|sensor| codebook.step(*sensor) / f64::from(WEIGHT_ONE)).collect(),
            largest_centre: centre.iter().map(|value| value.unsigned_abs()).max().unwrap_or(0),
            largest,
            atoms,
            centre,
        }
    }

    /// Sensors of the group.
    pub fn width(&self) -> usize {
        self.width
    }

    pub fn memory(&self) -> Memory {
        let centre = self.centre.iter().map(|value| *value as i32).collect();
        Memory { centre, small: vec![0; self.known], wide: vec![0; self.known] }
    }

    /// Predicts one signal: a sum of integers and one multiplication. Sensors that the codebook does not know are
    /// predicted as 0.
    #[inline(always)]
    pub fn predict(&self, code: &WholeCode, memory: &mut Memory, predictions: &mut [f64]) {
        let (known, unknown) = predictions.split_at_mut(self.known);
        unknown.fill(0.0);
        let sizes = code.iter().map(|(atom, weight)| {
            self.largest[usize::from(*atom)].saturating_mul(u64::from(weight.unsigned_abs()))
        });
        // Sums of 32 bits are the same as long as they fit.
        if sizes.fold(self.largest_centre, u64::saturating_add) <= i32::MAX as u64 {
            let sums = &mut memory.small[..];
            sums.copy_from_slice(&memory.centre);
            for (atom, weight) in code {
                add_small(sums, i32::from(*weight), self.atom(*atom));
            }
            let units = known.iter_mut().zip(&self.units);
            units.zip(sums).for_each(|((target, unit), sum)| *target = unit * f64::from(*sum));
        } else {
            let sums = &mut memory.wide[..];
            sums.copy_from_slice(&self.centre);
            for (atom, weight) in code {
                let weight = i64::from(*weight);
                for (sum, steps) in sums.iter_mut().zip(self.atom(*atom)) {
                    *sum = sum.wrapping_add(weight * i64::from(*steps));
                }
            }
            let units = known.iter_mut().zip(&self.units);
            units.zip(sums).for_each(|((target, unit), sum)| *target = unit * *sum as f64);
        }
    }

    #[inline(always)]
    fn atom(&self, atom: u16) -> &[i32] {
        &self.atoms[usize::from(atom) * self.known..][..self.known]
    }
}

#[inline(always)]
fn add_small(sums: &mut [i32], weight: i32, atom: &[i32]) {
    for (sum, steps) in sums.iter_mut().zip(atom) {
        *sum += weight * steps;
    }
}
