//! The dictionary of an archive, learned from a sample of its table.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::DataType;

use super::cells::numeric;
use super::codebook::Codebook;
use super::layout::{Layout, Table};
use super::quantiser::Bound;
use super::{ArchiveError, Result};
use crate::math::coders::Fksc;
use crate::math::{
    Coder, CoderOptions, Dictionary, LearnerOptions, MathError, Observer, Sample, kernels, learners,
};

/// What learning may be told; the rest is decided from the data.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct LearnSettings {
    /// Atoms; by default in proportion to the signals.
    pub atoms: Option<usize>,
    /// The kernel.
    pub kernel: Option<String>,
    /// The width of the RBF kernel.
    pub sigma: Option<f64>,
    /// The penalty; coarse codes are best, since residuals do the rest.
    pub lambda: Option<f64>,
    /// The seed of the sample.
    pub seed: u64,
}

const DEFAULT_LAMBDA: f64 = 0.2;
const MOST_ATOMS: usize = 64;
const FEWEST_ATOMS: usize = 4;
/// Signals that an atom should serve to be worth its bytes.
const SIGNALS_PER_ATOM: u64 = 8;
/// Signals of the sample that must use an atom.
const FEWEST_USES: u32 = 2;
/// Sensors are scaled where their deviations differ by more than this, a few outliers aside.
const ALIKE: f64 = 20.0;

/// A codebook and the series it is for.
#[derive(Debug)]
pub(crate) struct Learned {
    pub codebook: Codebook,
    pub series: Vec<String>,
    pub signals: u64,
}

/// Learns from some of a table's rows, in which all sensors should occur; `signals` is about how many
/// the whole table has.
pub(crate) fn learn(
    table: &Table,
    batches: &[RecordBatch],
    bound: Bound,
    settings: &LearnSettings,
    signals: u64,
    observer: &dyn Observer,
) -> Result<Learned> {
    let mut table = table.clone();
    if let Layout::Long { series, .. } = &table.layout {
        table.series = series_names(series, batches)?;
    }
    let length = lists_length(&table, batches)?;
    let mut parts = Vec::new();
    for batch in batches {
        // A file that does not fit fails when its turn comes, and is named then.
        if let Ok(placement) = table.place_rows(batch, length) {
            parts.push(table.cells(batch, &placement)?);
        }
    }
    let sensors = match table.layout {
        Layout::List { .. } => length.unwrap_or(1),
        Layout::Long { .. } => table.series.len().max(1),
        _ => table.fixed_sensors().unwrap_or(1),
    };
    let groups = table.groups(sensors, usize::MAX);
    let rows = numeric(&parts, &groups, sensors);
    let deviations = deviations(&rows, sensors);
    let scales = scales(&deviations, bound);
    let mut sample = Sample::new(LearnerOptions::DEFAULT_SAMPLE, settings.seed);
    let mut scaled = vec![0.0; sensors];
    for (row, values) in rows.chunks_exact(sensors).enumerate() {
        for ((target, value), scale) in scaled.iter_mut().zip(values).zip(&scales) {
            *target = value / scale;
        }
        sample.offer(row, &scaled)?;
    }
    let atoms = settings.atoms.unwrap_or_else(|| {
        let worthwhile = usize::try_from(signals / SIGNALS_PER_ATOM).unwrap_or(MOST_ATOMS);
        worthwhile.clamp(FEWEST_ATOMS, MOST_ATOMS)
    });
    let mut options = LearnerOptions::default()
        .with_atoms(atoms)?
        .with_lambda(settings.lambda.unwrap_or(DEFAULT_LAMBDA))?
        .with_seed(settings.seed);
    if let Some(kernel) = &settings.kernel {
        options = options.with_kernel(kernel)?;
    }
    if let Some(sigma) = settings.sigma {
        options = options.with_sigma(sigma)?;
    }
    let learned = match learners::learn(&sample, &options, observer) {
        Ok(Some(dictionary)) => useful(&dictionary, &sample, &scales, &deviations, bound).ok(),
        Err(MathError::Cancelled) => return Err(MathError::Cancelled.into()),
        // Nothing to learn from, or values that no kernel can compare.
        Ok(None) | Err(_) => None,
    };
    let codebook = match learned {
        Some(codebook) => codebook,
        None => {
            let kernel = kernels::build(kernels::names()[0], &|name| (name == "sigma").then_some(1.0))?;
            let zeros = Dictionary::new(vec![0.0; sensors], sensors, kernel, DEFAULT_LAMBDA, None)?;
            Codebook::new(&zeros, vec![1.0; sensors], &vec![1.0; sensors], bound)?
        }
    };
    Ok(Learned { codebook, series: table.series, signals: sample.seen() })
}

/// The codebook of those atoms that codes use once they are rounded.
fn useful(
    dictionary: &Dictionary,
    sample: &Sample,
    scales: &[f64],
    deviations: &[f64],
    bound: Bound,
) -> Result<Codebook> {
    let codebook = Codebook::new(dictionary, scales.to_vec(), deviations, bound)?;
    match useful_atoms(&codebook, sample)? {
        Some(atoms) => {
            let dictionary = subset(dictionary, &atoms, sample)?;
            Codebook::new(&dictionary, scales.to_vec(), deviations, bound)
        }
        None => Ok(codebook),
    }
}

/// The atoms that codes use, rounded as they are, unless all are used.
fn useful_atoms(codebook: &Codebook, sample: &Sample) -> Result<Option<Vec<usize>>> {
    if sample.is_empty() {
        return Ok(None);
    }
    let options = CoderOptions::new(codebook.lambda())?;
    let codes = Fksc.encode(codebook.prepared(), &sample.signals()?, &options)?;
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
    Codebook::new(dictionary, vec![1.0; dim], &deviations(&rows, dim), bound)
}

/// The length of lists, from the first that is not NULL.
fn lists_length(table: &Table, batches: &[RecordBatch]) -> Result<Option<usize>> {
    if !matches!(table.layout, Layout::List { .. }) {
        return Ok(None);
    }
    if let DataType::FixedSizeList(_, size) = table.schema.field(table.values[0]).data_type() {
        return Ok(usize::try_from(*size).ok().filter(|size| *size > 0));
    }
    for batch in batches {
        let column = batch.column(table.values[0]);
        if let Some(row) = (0..column.len()).find(|row| column.is_valid(*row)) {
            let sensors = table.place_rows(&batch.slice(row, 1), None)?.sensors;
            if sensors == 0 {
                let name = table.schema.field(table.values[0]).name();
                return Err(ArchiveError::layout(format!("column {name} holds empty lists")));
            }
            return Ok(Some(sensors));
        }
    }
    Ok(None)
}

/// Series in the order in which they occur.
fn series_names(column: &str, batches: &[RecordBatch]) -> Result<Vec<String>> {
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

/// What to divide sensors by before they are compared: their deviations where these differ by orders of
/// magnitude, else 1. What is below a bound is free anyway, and counts for no more than that.
fn scales(deviations: &[f64], bound: Bound) -> Vec<f64> {
    let least = if let Bound::MaxError(bound) = bound { bound } else { 0.0 };
    let size = |deviation: &f64| deviation.max(least);
    let usable = |size: &f64| size.is_normal() && size.recip().is_normal();
    let mut sizes: Vec<f64> = deviations.iter().map(size).filter(usable).collect();
    sizes.sort_by(f64::total_cmp);
    let few = sizes.len() / 20;
    let (smallest, largest) = (sizes.get(few), sizes.iter().rev().nth(few));
    if smallest.zip(largest).is_none_or(|(smallest, largest)| *largest <= ALIKE * smallest) {
        return vec![1.0; deviations.len()];
    }
    deviations.iter().map(size).map(|size| if usable(&size) { size } else { 1.0 }).collect()
}
