//! The dictionary of an archive, learned from some of its table's rows.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use rayon::prelude::*;

use super::cells::{Cells, none_takes_part, numeric};
use super::codebook::{Codebook, SHARE_OF_BOUND, coarse};
use super::layout::{Layout, Table};
use super::placed::place_all;
use super::portrait::Portrait;
use super::quantiser::Bound;
use super::sampled::{Look, Sampled};
use super::sparse_codes::CODE_TOLERANCE;
use super::trial::Effort;
use super::{ArchiveError, Result};
use crate::math::coders::Fksc;
use crate::math::{
    Coder, CoderOptions, Dictionary, LearnerOptions, MathError, Observer, Sample, kernels, learners,
};

/// What learning may be told; the rest is decided from the data.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct LearnSettings {
    /// Atoms; with none at all signals have no codes, and residuals do all of the work.
    pub atoms: Option<usize>,
    /// The kernel.
    pub kernel: Option<String>,
    /// The width of the RBF kernel.
    pub sigma: Option<f64>,
    /// The penalty.
    pub lambda: Option<f64>,
    /// The seed of the sample.
    pub seed: u64,
    /// Rows that will share the dictionary, where there will be more than there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_rows: Option<u64>,
}

impl LearnSettings {
    /// Refuses settings that mean nothing.
    pub(crate) fn check(&self) -> Result<()> {
        let mut options = LearnerOptions::default();
        if let Some(atoms) = self.atoms.filter(|atoms| *atoms > 0) {
            options = options.with_atoms(atoms)?;
        }
        if let Some(kernel) = &self.kernel {
            options = options.with_kernel(kernel)?;
        }
        if let Some(lambda) = self.lambda {
            options = options.with_lambda(lambda)?;
        }
        if let Some(sigma) = self.sigma {
            options.with_sigma(sigma)?;
            if let Some(kernel) = self.kernel.as_deref().filter(|kernel| *kernel != "rbf") {
                return Err(ArchiveError::layout(format!(
                    "sigma is the width of rbf; the kernel {kernel} has none"
                )));
            }
        }
        Ok(())
    }
}

/// The penalty that atoms are mostly learned with, as a share of the mean `k(y, y)`: codes may use another.
pub(super) const LEARNED_LAMBDA: f64 = 0.2;
/// Rounds of learning, and signals, that are enough to tell parameters apart.
const ROUGH_ROUNDS: usize = 8;
const ROUGH_SAMPLE: usize = 2048;
/// The same where a glance is enough.
const GLANCED_ROUNDS: usize = 4;
const GLANCED_SAMPLE: usize = 1024;
/// Signals of the sample that must use an atom.
const FEWEST_USES: u32 = 2;
/// Cells that are learned from at most, absent ones included.
pub(super) const MOST_CELLS: usize = 1 << 25;
/// Sensors are scaled where their deviations differ by more than this, a few outliers aside.
const ALIKE: f64 = 20.0;

/// How signals are compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Width {
    /// RBF, its width a multiple of the median distance.
    Median(f64),
    /// RBF of this width.
    Given(f64),
    /// Linearly.
    Linear,
    /// By the kernel that was asked for, which has no width.
    Asked,
}

/// A penalty.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Lambda {
    /// This one.
    Given(f64),
    /// A share of the mean `k(y, y)`.
    Share(f64),
}

/// What signals can be learned from, and what is known of their sensors.
pub(super) struct Material {
    /// The table with its series.
    pub table: Table,
    pub sensors: usize,
    /// Signals, one after the other.
    rows: Vec<f64>,
    /// Those that are held out while parameters are chosen, where they are few enough to be held.
    held_out: Vec<f64>,
    /// Whether there are values, but none that can be compared.
    pub incomparable: bool,
    /// How much of the table all of them are.
    look: Look,
    /// The sensors' medians.
    medians: Vec<f64>,
    deviations: Vec<f64>,
    typical_deviation: f64,
    /// What signals are like.
    portrait: Option<Arc<Portrait>>,
    /// What was drawn from the signals, by part, effort and scales.
    samples: Mutex<HashMap<SampleKey, Arc<Sample>>>,
}

type SampleKey = (Part, Effort, Vec<u64>);

/// Which signals are learned from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Part {
    /// All but those that are held out.
    Learned,
    /// Those, too.
    Everything,
}

/// A dictionary of scaled sensors, and the signals it was learned from.
pub(super) struct Learned {
    dictionary: Dictionary,
    sample: Arc<Sample>,
    scales: Vec<f64>,
    /// The mean `k(y, y)`.
    own_similarity: f64,
}

impl Material {
    /// Signals from what was looked at.
    pub fn new(table: &Table, sampled: &Sampled) -> Result<Self> {
        let (rows, others) = (&sampled.learned, &sampled.blocks);
        let mut table = table.clone();
        if let Layout::Long { series, .. } = &table.layout {
            let all: Vec<&RecordBatch> = rows.iter().chain(others).collect();
            table.series = series_names(series, &all)?;
        }
        let length = lists_length(&table, rows.iter().chain(others))?;
        let placed = signals_of(&table, length.unwrap_or(0), rows)?;
        let held_out = match &sampled.held_out {
            Some(rows) => signals_of(&table, length.unwrap_or(0), rows).unwrap_or_default(),
            None => Vec::new(),
        };
        let sensors = match table.layout {
            Layout::List { .. } => length.unwrap_or(1),
            Layout::Long { .. } => table.series.len().max(1),
            _ => table.fixed_sensors().unwrap_or(1),
        };
        let groups = table.groups(sensors, usize::MAX);
        let incomparable = none_takes_part(&placed, &groups);
        // What was looked at as a whole is all there, in its order; of the rest there are runs.
        let mut runs = signals_of(&table, length.unwrap_or(0), &sampled.blocks).unwrap_or_default();
        if sampled.held_out.is_none() {
            runs.extend(signals_of(&table, length.unwrap_or(0), rows).unwrap_or_default());
        }
        let portrait = Portrait::new(&runs, &groups, sensors).map(Arc::new);
        drop(runs);
        let (rows, held_out) = (numeric(&placed, &groups, sensors), numeric(&held_out, &groups, sensors));
        let medians = medians(&rows, sensors);
        let deviations = deviations(&rows, sensors);
        let typical_deviation = typical_deviation(&rows, sensors);
        let (look, samples) = (sampled.look, Mutex::default());
        Ok(Self {
            table,
            sensors,
            rows,
            held_out,
            incomparable,
            look,
            medians,
            deviations,
            typical_deviation,
            portrait,
            samples,
        })
    }

    /// What signals are like.
    pub fn portrait(&self) -> Option<Arc<Portrait>> {
        self.portrait.clone()
    }

    /// Signals there are to learn from while parameters are chosen.
    pub fn signals(&self) -> usize {
        self.rows.len() / self.sensors
    }

    /// Signals that what is kept has learned from.
    pub fn all_signals(&self) -> usize {
        (self.rows.len() + self.held_out.len()) / self.sensors
    }

    /// Whether signals that are held out can be learned from in the end.
    pub fn holds_out(&self) -> bool {
        !self.held_out.is_empty()
    }

    /// The largest deviation of a sensor. Squares of tiny ones are zeros.
    pub fn largest_deviation(&self) -> f64 {
        self.deviations.iter().copied().fold(self.typical_deviation, f64::max)
    }

    /// How far values of most sensors are from their medians, whatever a few of them are.
    pub fn typical_deviation(&self) -> f64 {
        self.typical_deviation
    }

    /// The mean absolute value.
    pub fn mean_size(&self) -> f64 {
        self.rows.iter().map(|value| value.abs()).sum::<f64>() / self.rows.len().max(1) as f64
    }

    /// The error of predicting every sensor by its mean, about: as NMAE.
    pub fn spread(&self) -> f64 {
        let signals = self.signals().max(1) as f64;
        let mut means = vec![0.0; self.sensors];
        for row in self.rows.chunks_exact(self.sensors) {
            means.iter_mut().zip(row).for_each(|(mean, value)| *mean += value / signals);
        }
        let rows = self.rows.chunks_exact(self.sensors);
        let off = rows.flat_map(|row| row.iter().zip(&means)).map(|(value, mean)| (value - mean).abs());
        let size = self.mean_size() * self.rows.len() as f64;
        if size > 0.0 { off.sum::<f64>() / size } else { 0.0 }
    }

    /// Bits that a signal takes if its values are rounded to within a bound and nothing else is known of them: the
    /// entropy of every sensor by itself.
    pub fn rounded_bits(&self, bound: f64) -> f64 {
        let signals = self.signals() as f64;
        // In order, so that sums come out the same every time.
        let mut counts: BTreeMap<i64, u64> = BTreeMap::new();
        let bits = (0..self.sensors).map(|sensor| {
            counts.clear();
            for value in self.rows.iter().skip(sensor).step_by(self.sensors) {
                *counts.entry((value / (2.0 * bound)).round() as i64).or_insert(0) += 1;
            }
            let bits = counts.values().map(|count| {
                let share = *count as f64 / signals;
                -share * share.log2()
            });
            bits.sum::<f64>()
        });
        bits.sum()
    }

    /// What to divide sensors by before they are compared: their deviations where these differ by orders of
    /// magnitude, else 1; or the other of the two.
    pub fn scales(&self, bound: Bound, otherwise: bool) -> Vec<f64> {
        // What is below a bound is free anyway, and counts for no more than that.
        // In powers of two, so that bounds that are alike share what is learned.
        let least = if let Bound::MaxError(bound) = bound { bound.log2().floor().exp2() } else { 0.0 };
        let size = |deviation: &f64| deviation.max(least);
        let usable = |size: &f64| size.is_normal() && size.recip().is_normal();
        let mut sizes: Vec<f64> = self.deviations.iter().map(size).filter(usable).collect();
        sizes.sort_by(f64::total_cmp);
        let few = sizes.len() / 20;
        let (smallest, largest) = (sizes.get(few), sizes.iter().rev().nth(few));
        let alike = smallest.zip(largest).is_none_or(|(smallest, largest)| *largest <= ALIKE * smallest);
        if alike != otherwise {
            return vec![1.0; self.sensors];
        }
        self.deviations.iter().map(size).map(|size| if usable(&size) { coarse(size) } else { 1.0 }).collect()
    }

    /// Signals to learn from, divided by scales; drawn once.
    fn sample(&self, part: Part, effort: Effort, scales: &[f64], seed: u64) -> Result<Arc<Sample>> {
        let bits = scales.iter().map(|scale| scale.to_bits()).collect();
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = match samples.entry((part, effort, bits)) {
            Entry::Occupied(known) => return Ok(known.get().clone()),
            Entry::Vacant(slot) => slot,
        };
        let capacity = match (effort, self.look) {
            (Effort::Rough, Look::Thorough) => ROUGH_SAMPLE,
            (Effort::Rough, Look::Glance) => GLANCED_SAMPLE,
            (Effort::Full, _) => LearnerOptions::DEFAULT_SAMPLE,
        };
        let mut sample = Sample::new(capacity, seed);
        let mut scaled = vec![0.0; self.sensors];
        let held_out = if part == Part::Everything { self.held_out.as_slice() } else { &[] };
        let rows = self.rows.chunks_exact(self.sensors).chain(held_out.chunks_exact(self.sensors));
        for (row, values) in rows.enumerate() {
            for ((target, value), scale) in scaled.iter_mut().zip(values).zip(scales) {
                *target = value / scale;
            }
            sample.offer(row, &scaled)?;
        }
        Ok(slot.insert(Arc::new(sample)).clone())
    }

    /// Learns so many atoms; `None` where there is nothing to learn from, or values that no kernel can compare.
    pub fn learn(
        &self,
        atoms: usize,
        width: Width,
        scales: Vec<f64>,
        ((part, effort), lambda): ((Part, Effort), f64),
        settings: &LearnSettings,
        observer: &dyn Observer,
    ) -> Result<Option<Learned>> {
        let sample = self.sample(part, effort, &scales, settings.seed)?;
        if sample.is_empty() {
            return Ok(None);
        }
        let rounds = match (effort, self.look) {
            (Effort::Rough, Look::Thorough) => ROUGH_ROUNDS,
            (Effort::Rough, Look::Glance) => GLANCED_ROUNDS,
            (Effort::Full, _) => LearnerOptions::DEFAULT_MAX_ROUNDS,
        };
        let options =
            LearnerOptions::default().with_atoms(atoms)?.with_seed(settings.seed).with_max_rounds(rounds)?;
        let mut options = match width {
            Width::Linear => options.with_kernel("linear")?,
            Width::Given(sigma) => options.with_kernel("rbf")?.with_sigma(sigma)?,
            Width::Median(_) => options.with_kernel("rbf")?,
            Width::Asked => options.with_kernel(settings.kernel.as_deref().unwrap_or("rbf"))?,
        };
        let signals = sample.signals()?;
        let mut kernel = options.kernel(&signals)?;
        if let Width::Median(multiple) = width {
            let median =
                kernel.parameters().iter().find(|(name, _)| *name == "sigma").map(|(_, sigma)| *sigma);
            options = options.with_sigma(multiple * median.unwrap_or(1.0))?;
            kernel = options.kernel(&signals)?;
        }
        let own_similarity = options.lambda(kernel.as_ref(), &signals) / LearnerOptions::DEFAULT_LAMBDA;
        let lambda = settings.lambda.unwrap_or(lambda * own_similarity);
        match learners::learn(&sample, &options.with_lambda(lambda)?, observer) {
            Ok(Some(dictionary)) => Ok(Some(Learned { dictionary, sample, scales, own_similarity })),
            Ok(None) | Err(MathError::Empty) => Ok(None),
            Err(error) if error.is_incomparable() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The codebook of those atoms that codes use once they are rounded; `None` where their values cannot be compared.
    pub fn codebook(
        &self,
        learned: &Learned,
        lambda: Lambda,
        weight_step: i16,
        bound: Bound,
    ) -> Result<Option<Codebook>> {
        let Learned { dictionary, sample, scales, own_similarity } = learned;
        let lambda = match lambda {
            Lambda::Given(lambda) => lambda,
            Lambda::Share(share) => share * own_similarity,
        };
        let (dim, kernel) = (dictionary.dim(), dictionary.kernel().clone());
        let dictionary = Dictionary::new(dictionary.atoms().to_vec(), dim, kernel, lambda, None)?;
        match useful(&dictionary, sample, scales, &self.deviations, bound, weight_step) {
            Ok(codebook) => Ok(Some(codebook)),
            Err(ArchiveError::Math(error)) if error.is_incomparable() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A codebook that predicts every sensor by its median, or by what is near it and suits the bound: residuals do all of
    /// the work.
    pub fn without_atoms(&self, bound: Bound, is_aligned: bool) -> Result<Codebook> {
        let kernel = kernels::build("linear", &|_| None)?;
        let centre = match bound {
            Bound::MaxError(bound) if is_aligned => self.aligned(bound),
            _ => self.medians.clone(),
        };
        Codebook::without_atoms(&centre, &self.deviations, bound, kernel, LEARNED_LAMBDA)
    }

    /// The medians, moved by parts of what values are rounded to: where its edges lie decides how often a sensor goes from
    /// one integer to another.
    fn aligned(&self, bound: f64) -> Vec<f64> {
        const ENOUGH: usize = 8192;
        const MOST_ALIGNED: f64 = (1u64 << 40) as f64;
        let signals = self.signals();
        let stride = signals.div_ceil(ENOUGH).max(1);
        let changes = |sensor: usize, centre: f64| -> f64 {
            let whole = |signal: usize| {
                ((self.rows[signal * self.sensors + sensor] - centre) / (2.0 * bound)).round()
            };
            let change = |signal: usize| (whole(signal) - whole(signal - 1)).abs().ln_1p();
            (1..signals).step_by(stride).map(change).sum()
        };
        let best = |(sensor, median): (usize, &f64)| {
            let step = SHARE_OF_BOUND * bound;
            // Where values are so many steps from zero, doubles do not tell their edges apart.
            if median.abs() > MOST_ALIGNED * step {
                return *median;
            }
            let moved = [0.0, 1.0, -1.0, 2.0].map(|steps| ((median / step).round() + steps) * step);
            let costs = moved.map(|centre| changes(sensor, centre));
            let best = (0..moved.len()).min_by(|a, b| costs[*a].total_cmp(&costs[*b]));
            best.map_or(*median, |best| moved[best])
        };
        self.medians.par_iter().enumerate().map(best).collect()
    }
}

/// The signals of rows, as many as memory may hold.
fn signals_of(table: &Table, length: usize, rows: &[RecordBatch]) -> Result<Vec<Cells>> {
    // A file that does not fit fails when its turn comes: its name and the row's place in it are known then.
    match place_all(table, length, rows, MOST_CELLS) {
        (placed, Some(error)) if placed.is_empty() => Err(error),
        (placed, _) => Ok(placed.into_iter().map(|placed| placed.cells).collect()),
    }
}

/// The codebook of those atoms that codes use once they are rounded.
fn useful(
    dictionary: &Dictionary,
    sample: &Sample,
    scales: &[f64],
    deviations: &[f64],
    bound: Bound,
    weight_step: i16,
) -> Result<Codebook> {
    let codebook = Codebook::new(dictionary, scales.to_vec(), deviations, bound, weight_step)?;
    match useful_atoms(&codebook, sample)? {
        Some(atoms) => {
            let dictionary = subset(dictionary, &atoms, sample)?;
            Codebook::new(&dictionary, scales.to_vec(), deviations, bound, weight_step)
        }
        None => Ok(codebook),
    }
}

/// The atoms that codes use, rounded as they are, unless all are used.
fn useful_atoms(codebook: &Codebook, sample: &Sample) -> Result<Option<Vec<usize>>> {
    let Some(coding) = codebook.coding().filter(|_| !sample.is_empty()) else { return Ok(None) };
    let options = CoderOptions::new(codebook.lambda())?.with_tolerance(CODE_TOLERANCE)?;
    let codes = Fksc.encode(&coding.prepared, &sample.signals()?, &options)?;
    let mut uses = vec![0; codebook.atoms()];
    for (atoms, _) in codes.rows() {
        atoms.iter().for_each(|atom| uses[*atom as usize] += 1);
    }
    let used: Vec<usize> = (0..uses.len()).filter(|atom| uses[*atom] >= FEWEST_USES).collect();
    Ok((used.len() < uses.len()).then_some(used))
}

/// Some of the atoms; where there is none, the mean of the signals.
fn subset(dictionary: &Dictionary, atoms: &[usize], sample: &Sample) -> Result<Dictionary> {
    let mut values: Vec<f64> = atoms.iter().flat_map(|atom| dictionary.atom(*atom)).copied().collect();
    if values.is_empty() {
        values.resize(dictionary.dim(), 0.0);
        let signals = sample.signals()?;
        for signal in signals.rows() {
            values.iter_mut().zip(*signal).for_each(|(mean, value)| *mean += value / signals.len() as f64);
        }
    }
    let (dim, kernel, lambda) = (dictionary.dim(), dictionary.kernel().clone(), dictionary.lambda());
    Ok(Dictionary::new(values, dim, kernel, lambda, None)?)
}

/// A codebook from a dictionary that was given.
pub(crate) fn given(dictionary: &Dictionary, bound: Bound) -> Result<Codebook> {
    let dim = dictionary.dim();
    let rows: Vec<f64> = dictionary.atoms().to_vec();
    Codebook::new(dictionary, vec![1.0; dim], &deviations(&rows, dim), bound, 1)
}

/// The length that most lists have, NULL and empty ones aside: rows of another length are told when their file's turn
/// comes.
fn lists_length<'a>(table: &Table, batches: impl Iterator<Item = &'a RecordBatch>) -> Result<Option<usize>> {
    if !matches!(table.layout, Layout::List { .. }) {
        return Ok(None);
    }
    let field = table.schema.field(table.values[0]);
    if let DataType::FixedSizeList(_, size) = field.data_type() {
        return Ok(usize::try_from(*size).ok().filter(|size| *size > 0));
    }
    // In order, so that of two that are as frequent it is always the same.
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    for batch in batches {
        table.list_lengths(batch)?.for_each(|length| *counts.entry(length).or_insert(0) += 1);
    }
    let empty = counts.remove(&0);
    match counts.into_iter().max_by_key(|(_, count)| *count) {
        Some((length, _)) => Ok(Some(length)),
        None if empty.is_some() => {
            let name = field.name();
            Err(ArchiveError::layout(format!("column {name} holds nothing but empty lists; leave it out")))
        }
        None => Ok(None),
    }
}

/// Series in the order in which they occur.
fn series_names(column: &str, batches: &[&RecordBatch]) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for batch in batches {
        let index = super::layout::column(batch.schema_ref(), column)?;
        let texts = cast(batch.column(index), &DataType::Utf8)?;
        for name in texts.as_string::<i32>().iter().flatten() {
            if !seen.contains(name) {
                seen.insert(name.to_string());
                names.push(name.to_string());
            }
        }
    }
    Ok(names)
}

/// The median of the sensors' median absolute deviations from their medians, those of constant sensors aside.
fn typical_deviation(rows: &[f64], sensors: usize) -> f64 {
    const ENOUGH: usize = 512;
    let stride = (rows.len() / sensors).div_ceil(ENOUGH).max(1) * sensors;
    let of_sensor = |sensor: usize| {
        let mut values: Vec<f64> = rows.iter().skip(sensor).step_by(stride).copied().collect();
        let middle = median(&mut values);
        values.iter_mut().for_each(|value| *value = (*value - middle).abs());
        median(&mut values)
    };
    let mut all: Vec<f64> = (0..sensors).map(of_sensor).filter(|deviation| *deviation > 0.0).collect();
    median(&mut all)
}

/// The medians of sensors, about where there are many rows.
fn medians(rows: &[f64], sensors: usize) -> Vec<f64> {
    const ENOUGH: usize = 4096;
    let stride = (rows.len() / sensors).div_ceil(ENOUGH).max(1) * sensors;
    let of_sensor = |sensor: usize| {
        let mut values: Vec<f64> = rows.iter().skip(sensor).step_by(stride).copied().collect();
        median(&mut values)
    };
    (0..sensors).map(of_sensor).collect()
}

fn median(values: &mut [f64]) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    *values.select_nth_unstable_by(values.len() / 2, f64::total_cmp).1
}

fn deviations(rows: &[f64], sensors: usize) -> Vec<f64> {
    let count = (rows.len() / sensors).max(1) as f64;
    let mut means = vec![0.0; sensors];
    for row in rows.chunks_exact(sensors) {
        means.iter_mut().zip(row).for_each(|(mean, value)| *mean += value / count);
    }
    let mut squares = vec![0.0; sensors];
    for row in rows.chunks_exact(sensors) {
        for ((square, value), mean) in squares.iter_mut().zip(row).zip(&means) {
            *square += (value - mean) * (value - mean) / count;
        }
    }
    squares.into_iter().map(f64::sqrt).collect()
}
