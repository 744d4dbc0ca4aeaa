//! The dictionary of an archive: atoms as integers, at the precision that the data needs.
//!
//! Sensor `s` of atom `j` is `step_s (centre_s + atom_js)`. A code's weights are multiples of
//! `1 / WEIGHT_ONE`, and a signal is predicted as
//! `step_s / WEIGHT_ONE (WEIGHT_ONE centre_s + sum_j weight_j atom_js)`: a sum of integers and one
//! multiplication, the same on every machine.

use std::sync::{Arc, OnceLock};

use super::bytes::{Reader, write_varint};
use super::entropy::Integers;
use super::known_codes::KnownCodes;
use super::manifest::hash_of;
use super::quantiser::Bound;
use super::{ArchiveError, Result, entropy};
use crate::math::{Dictionary, Kernel, PreparedDictionary, dot, vectorised};

/// Weights are multiples of `1 / WEIGHT_ONE`.
pub(crate) const WEIGHT_ONE: i32 = 64;
/// An atom's sensors are told apart to this share of the bound.
pub(super) const SHARE_OF_BOUND: f64 = 0.7;
/// Without a bound: to this share of the sensor's standard deviation.
const SHARE_OF_DEVIATION: f64 = 1.0 / 16.0;
/// Atoms deviate from their centre by about this many steps at most.
const MOST_STEPS: f64 = 16_000.0;
const VERSION: u8 = 1;
/// Sensors and atoms there can be.
const MOST_SENSORS: usize = 1 << 24;

/// The same within an eighth: such numbers take fewer bytes where every sensor has its own.
pub(super) fn coarse(number: f64) -> f64 {
    const KEPT: u32 = f64::MANTISSA_DIGITS - 1 - 2;
    let rounded = f64::from_bits(number.to_bits().saturating_add(1 << (KEPT - 1)) >> KEPT << KEPT);
    if rounded.is_finite() { rounded } else { number }
}

/// Atoms as integers, and what coding with them needs.
#[derive(Debug)]
pub struct Codebook {
    steps: Vec<f64>,
    centre: Vec<i64>,
    /// Atom after atom.
    atoms: Vec<i32>,
    /// What sensors are divided by before they are compared.
    scales: Vec<f64>,
    lambda: f64,
    /// Weights are multiples of so many of their units.
    weight_step: i16,
    kernel: Arc<dyn Kernel>,
    /// What coding needs; `None` without atoms.
    coding: Option<Coding>,
    hash: String,
    bytes: Vec<u8>,
}

/// The atoms as signals are coded with them.
#[derive(Debug)]
pub(super) struct Coding {
    /// The atoms in scaled sensors, for the coder.
    pub prepared: PreparedDictionary,
    /// `x_j - c` and `c` in scaled sensors, and `<x_i - c, x_j - c>`.
    relative: Vec<f64>,
    pub scaled_centre: Vec<f64>,
    products: OnceLock<Vec<f64>>,
    /// What signals that were coded before have led to.
    pub known_codes: KnownCodes,
}

impl Coding {
    fn new(
        steps: &[f64],
        centre: &[i64],
        atoms: &[i32],
        scales: &[f64],
        lambda: f64,
        kernel: &Arc<dyn Kernel>,
    ) -> Result<Self> {
        let dim = steps.len();
        let values = |whole: &dyn Fn(usize, f64) -> f64| -> Vec<f64> {
            let value = |(i, off): (usize, &i32)| whole(i % dim, f64::from(*off)) / scales[i % dim];
            atoms.iter().enumerate().map(value).collect()
        };
        let scaled = values(&|sensor, off| steps[sensor] * (centre[sensor] as f64 + off));
        let relative = values(&|sensor, off| steps[sensor] * off);
        let scaled_centre = (0..dim).map(|i| steps[i] * centre[i] as f64 / scales[i]).collect();
        let dictionary = Dictionary::new(scaled, dim, kernel.clone(), lambda, None)?;
        Ok(Self {
            prepared: PreparedDictionary::new(dictionary)?,
            relative,
            scaled_centre,
            products: OnceLock::new(),
            known_codes: KnownCodes::default(),
        })
    }

    /// `<x_i - c, x_j - c>` in scaled sensors, row by row.
    pub fn products(&self) -> &[f64] {
        let all = || {
            vectorised(
                #[inline(always)]
                || all_products(&self.relative, self.scaled_centre.len()),
            )
        };
        self.products.get_or_init(all)
    }

    /// An atom's deviation from the centre in scaled sensors.
    pub fn relative(&self, atom: usize) -> &[f64] {
        let sensors = self.scaled_centre.len();
        &self.relative[atom * sensors..(atom + 1) * sensors]
    }
}

impl Codebook {
    /// Rounds the atoms of a dictionary of scaled sensors. `deviations` are the sensors' own, unscaled.
    pub(super) fn new(
        dictionary: &Dictionary,
        scales: Vec<f64>,
        deviations: &[f64],
        bound: Bound,
        weight_step: i16,
    ) -> Result<Self> {
        let (dim, count) = (dictionary.dim(), dictionary.len());
        let value = |atom: usize, sensor: usize| dictionary.atom(atom)[sensor] * scales[sensor];
        let (mut steps, mut centre) = (Vec::with_capacity(dim), Vec::with_capacity(dim));
        for (sensor, deviation) in deviations.iter().enumerate() {
            let mean = (0..count).map(|atom| value(atom, sensor)).sum::<f64>() / count as f64;
            let spread = (0..count).map(|atom| (value(atom, sensor) - mean).abs()).fold(0.0, f64::max);
            let step = step(bound, mean, *deviation, spread);
            steps.push(step);
            centre.push((mean / step).round() as i64);
        }
        let mut atoms = Vec::with_capacity(count * dim);
        for atom in 0..count {
            for sensor in 0..dim {
                let steps = (value(atom, sensor) / steps[sensor]).round() - centre[sensor] as f64;
                atoms.push(steps as i32);
            }
        }
        let (lambda, kernel) = (dictionary.lambda(), dictionary.kernel().clone());
        Self::assemble(steps, centre, atoms, scales, lambda, weight_step, kernel)
    }

    /// A codebook without atoms: every signal is predicted by these values, and has no code.
    pub(super) fn without_atoms(
        centre: &[f64],
        deviations: &[f64],
        bound: Bound,
        kernel: Arc<dyn Kernel>,
        lambda: f64,
    ) -> Result<Self> {
        let sensors = centre.iter().zip(deviations);
        let steps: Vec<f64> =
            sensors.map(|(centre, deviation)| step(bound, *centre, *deviation, 0.0)).collect();
        let whole = centre.iter().zip(&steps).map(|(centre, step)| (centre / step).round() as i64).collect();
        let scales = vec![1.0; centre.len()];
        Self::assemble(steps, whole, Vec::new(), scales, lambda, 1, kernel)
    }

    fn assemble(
        steps: Vec<f64>,
        centre: Vec<i64>,
        atoms: Vec<i32>,
        scales: Vec<f64>,
        lambda: f64,
        weight_step: i16,
        kernel: Arc<dyn Kernel>,
    ) -> Result<Self> {
        let coding = match atoms.is_empty() {
            true => None,
            false => Some(Coding::new(&steps, &centre, &atoms, &scales, lambda, &kernel)?),
        };
        let weight_step = weight_step.max(1);
        let (hash, bytes) = (String::new(), Vec::new());
        let mut codebook =
            Self { steps, centre, atoms, scales, lambda, weight_step, kernel, coding, hash, bytes };
        codebook.bytes = codebook.write();
        codebook.hash = hash_of(&codebook.bytes);
        Ok(codebook)
    }

    /// Computes what coding needs once. Threads of a pool should find it: each of them would compute it for itself.
    pub(super) fn prepare_for_parallel_use(&self) -> Result<()> {
        if let Some(coding) = &self.coding {
            coding.products();
            coding.prepared.gram()?;
        }
        Ok(())
    }

    /// How many sensors.
    pub fn sensors(&self) -> usize {
        self.steps.len()
    }

    /// How many atoms.
    pub fn atoms(&self) -> usize {
        self.atoms.len() / self.sensors()
    }

    /// The penalty that signals are coded with.
    pub fn lambda(&self) -> f64 {
        self.lambda
    }

    /// Weights are multiples of so many 64ths.
    pub fn weight_step(&self) -> i16 {
        self.weight_step
    }

    /// The kernel that signals are compared with.
    pub fn kernel(&self) -> &Arc<dyn Kernel> {
        &self.kernel
    }

    /// A hash of the content, as text.
    pub fn hash(&self) -> String {
        self.hash.clone()
    }

    /// The content as bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What coding needs; `None` without atoms.
    pub(super) fn coding(&self) -> Option<&Coding> {
        self.coding.as_ref()
    }

    pub(super) fn scales(&self) -> &[f64] {
        &self.scales
    }

    /// An atom's deviation from the centre in steps.
    pub(super) fn atom(&self, atom: usize) -> &[i32] {
        &self.atoms[atom * self.sensors()..(atom + 1) * self.sensors()]
    }

    /// A sensor's centre, in steps.
    pub(super) fn centre(&self, sensor: usize) -> i64 {
        self.centre[sensor]
    }

    /// What a sensor's integers are multiples of.
    pub(super) fn step(&self, sensor: usize) -> f64 {
        self.steps[sensor]
    }

    fn write(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        write_varint(&mut bytes, self.sensors() as u64);
        write_varint(&mut bytes, self.atoms() as u64);
        write_floats(&mut bytes, &self.steps);
        write_floats(&mut bytes, &self.scales);
        let atoms = self.atoms.iter().map(|steps| i64::from(*steps));
        let integers: Integers = self.centre.iter().copied().chain(atoms).collect();
        entropy::encode(&integers, self.sensors(), None, &mut bytes);
        bytes
    }

    /// Reads what `bytes` gave; kernel, penalty and the step of weights are kept elsewhere.
    pub(super) fn read(bytes: &[u8], lambda: f64, weight_step: i16, kernel: Arc<dyn Kernel>) -> Result<Self> {
        let mut reader = Reader(bytes);
        let version = reader.byte()?;
        if version != VERSION {
            return Err(ArchiveError::NewerVersion { found: version.into(), known: VERSION.into() });
        }
        let sensors = reader.size(MOST_SENSORS)?;
        let atoms = reader.size(Dictionary::MOST_ATOMS)?;
        // Twice as many as are learned from at most.
        const MOST_VALUES: usize = 1 << 26;
        if sensors == 0 || sensors.saturating_mul(atoms + 1) > MOST_VALUES {
            return Err(ArchiveError::corrupt(format!("{atoms} atoms of {sensors} sensors")));
        }
        let steps = read_floats(&mut reader, sensors)?;
        let scales = read_floats(&mut reader, sensors)?;
        let integers = entropy::decode(&mut reader, atoms + 1, sensors, None)?;
        let centre = (0..sensors).map(|i| integers.get(i)).collect();
        let deviations: std::result::Result<Vec<i32>, _> =
            (sensors..integers.len()).map(|i| i32::try_from(integers.get(i))).collect();
        let deviations = deviations.map_err(|_| ArchiveError::corrupt("an atom is out of range"))?;
        Self::assemble(steps, centre, deviations, scales, lambda, weight_step, kernel)
    }
}

/// What a sensor's integers are multiples of, for values around `mean` of which atoms are this far.
fn step(bound: Bound, mean: f64, deviation: f64, spread: f64) -> f64 {
    let wanted = match bound {
        Bound::MaxError(bound) => SHARE_OF_BOUND * bound,
        Bound::MaxRelativeError(bound) => SHARE_OF_BOUND * bound * (mean.abs() + deviation),
        Bound::Lossless => 0.0,
        Bound::None => SHARE_OF_DEVIATION * deviation,
    };
    let mut step = wanted.max(spread / MOST_STEPS).max(mean.abs() / (1u64 << 40) as f64);
    if step != wanted || !matches!(bound, Bound::MaxError(_)) {
        step = coarse(step);
    }
    if step.is_normal() && step.recip().is_normal() { step } else { 1.0 }
}

/// The inner products of all rows.
#[inline(always)]
fn all_products(rows: &[f64], dim: usize) -> Vec<f64> {
    let rows: Vec<&[f64]> = rows.chunks_exact(dim).collect();
    let count = rows.len();
    let mut products = vec![0.0; count * count];
    for (i, a) in rows.iter().enumerate() {
        for (j, b) in rows[..=i].iter().enumerate() {
            let product = dot(a, b);
            (products[i * count + j], products[j * count + i]) = (product, product);
        }
    }
    products
}

/// Positive floats; one alone where all are equal.
fn write_floats(bytes: &mut Vec<u8>, values: &[f64]) {
    let equal = values.iter().all(|value| *value == values[0]);
    bytes.push(u8::from(equal));
    for value in &values[..if equal { values.len().min(1) } else { values.len() }] {
        bytes.extend_from_slice(&value.to_le_bytes());
    }
}

fn read_floats(reader: &mut Reader<'_>, count: usize) -> Result<Vec<f64>> {
    let equal = reader.byte()? == 1;
    let stored = if equal { count.min(1) } else { count };
    let mut values = Vec::with_capacity(count.min(reader.0.len()));
    for _ in 0..stored {
        let value = f64::from_le_bytes(reader.array()?);
        if !value.is_normal() || value < 0.0 {
            return Err(ArchiveError::corrupt(format!("a scale of {value}")));
        }
        values.push(value);
    }
    if let (true, Some(value)) = (equal, values.first().copied()) {
        values.resize(count, value);
    }
    Ok(values)
}
