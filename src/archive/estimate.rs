//! What compressing would give, from a part of the tables: bounded work, whatever their size.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::{SortColumn, concat_batches, lexsort_to_indices, take_record_batch};
use arrow::datatypes::{DataType, SchemaRef};
use futures::TryStreamExt;
use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use serde::Serialize;

use super::as_parquet::PlainBytes;
use super::choose::{Chooser, Chosen, Target};
use super::compress::group_sensors;
use super::detect::{arguments, detect, is_shuffled, time_column};
use super::example::Example;
use super::job::Input;
use super::layout::{Layout, Table, column, item_type};
use super::layout_request::{LayoutRequest, find_layout};
use super::learn::{LearnSettings, Material};
use super::listed::listed;
use super::placed::place_all;
use super::prepare::settings_for;
use super::quantiser::Bound;
use super::sampled::{Look, look_at};
use super::source::{READ_ROWS, Rows, Source};
use super::trial::{Trials, bytes_beside_stored};
use super::verdict::worthwhile;
use super::{ArchiveError, Result};
use crate::math::Observer;

/// Files whose footers are read; sizes of all are known.
const MOST_FILES: usize = 64;
/// Rows that tell the layout.
const FIRST_ROWS: usize = 1 << 16;

/// What to estimate.
#[derive(Debug, Clone, Default)]
pub struct EstimateRequest {
    /// Which columns hold the values; found out from the data unless given.
    pub layout: LayoutRequest,
    /// The targets and bounds to predict for; without any no error at all, and some bounds that suit the values.
    pub aims: Vec<Aim>,
    /// What is set about learning.
    pub learn: LearnSettings,
}

/// What an archive may be made for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Aim {
    /// A target.
    Target(Target),
    /// A bound.
    Bound(Bound),
}

/// What compressing would give.
#[derive(Debug, Clone, Serialize)]
pub struct Estimate {
    /// How the tables hold their values.
    pub layout: Layout,
    /// The arguments that say so to `sparrow compress`.
    pub layout_arguments: Vec<String>,
    /// Other columns with numbers, which are kept as they are.
    pub kept_numbers: Vec<String>,
    /// Tables, and their rows; estimated where there are many.
    pub files: u64,
    /// Their rows.
    pub rows: u64,
    /// Rows that were looked at.
    pub sampled_rows: u64,
    /// Bytes of the files as they are.
    pub source_bytes: u64,
    /// Bytes of the values as they are in memory.
    pub value_bytes: u64,
    /// Bytes as Parquet with zstd.
    pub zstd_bytes: u64,
    /// Bytes as Parquet with zstd and floats split into their bytes.
    pub byte_stream_split_bytes: u64,
    /// Whether Sparrow pays.
    pub pays: bool,
    /// Why it does not.
    pub reason: Option<String>,
    /// What every aim leads to.
    pub ladder: Vec<Prediction>,
    /// Which of them is recommended: it keeps single values within a bound.
    pub recommended: Option<usize>,
    /// What the rows would lead to in another order, where they are in none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sorted: Option<Sorted>,
    /// Another layout that was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_layout: Option<OtherLayout>,
    /// Some sensors as they were and as they would come back, for what is recommended.
    #[serde(skip)]
    pub examples: Vec<Example>,
}

/// What one aim leads to.
#[derive(Debug, Clone, Serialize)]
pub struct Prediction {
    /// The aim.
    pub aim: Aim,
    /// Whether it is met.
    pub met: bool,
    /// Whether files would be stored as they were, because codes would not be smaller.
    pub stored_as_they_were: bool,
    /// Bytes of the archive, dictionary and all included.
    pub bytes: u64,
    /// Bytes of the dictionary.
    pub dictionary_bytes: u64,
    /// Bytes as Parquet with zstd, values rounded to the bound and each column in the better of two encodings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounded_bytes: Option<u64>,
    /// Bytes of the values in memory over those of the archive.
    pub ratio: f64,
    /// Mean absolute error over mean absolute value.
    pub nmae: f64,
    /// The largest error of a value among those looked at; a promise where residuals are kept.
    pub max_error: f64,
    /// The bound that residuals keep.
    pub bound: Bound,
    /// Atoms of the dictionary.
    pub atoms: usize,
    /// Its kernel.
    pub kernel: String,
    /// Its penalty.
    pub lambda: f64,
}

/// The rows in another order.
#[derive(Debug, Clone, Serialize)]
pub struct Sorted {
    /// The columns that they would be ordered by.
    pub by: Vec<String>,
    /// What they would lead to, unless there are too many to sort.
    pub prediction: Option<Prediction>,
}

/// Another layout that was measured, and leads to more bytes.
#[derive(Debug, Clone, Serialize)]
pub struct OtherLayout {
    /// The arguments that say so to `sparrow compress`.
    pub layout_arguments: Vec<String>,
    /// Bytes of the archive for what is recommended.
    pub bytes: u64,
}

/// Predicts what compressing these files would give.
pub async fn estimate(
    inputs: &[Input],
    request: &EstimateRequest,
    observer: &dyn Observer,
) -> Result<Estimate> {
    let found = predict(inputs, request, observer).await?;
    let mut found = with_all_values(inputs, request, found, observer).await?;
    found.sorted = sorted(inputs, request, &found, observer).await?;
    Ok(found)
}

/// Of several readings of each device at each time a long layout codes one. A column for each of them may be smaller.
async fn with_all_values(
    inputs: &[Input],
    request: &EstimateRequest,
    mut found: Estimate,
    observer: &dyn Observer,
) -> Result<Estimate> {
    let (LayoutRequest::Find, Layout::Long { time, series, value }) = (&request.layout, &found.layout) else {
        return Ok(found);
    };
    let is_key = |name: &&String| *name == time || *name == series;
    let others: Vec<String> = found.kept_numbers.iter().filter(|name| !is_key(name)).cloned().collect();
    if others.is_empty() {
        return Ok(found);
    }
    let columns = std::iter::once(value.clone()).chain(others).collect();
    let asked = EstimateRequest {
        layout: LayoutRequest::Given(Layout::Wide { columns }),
        aims: found.ladder.iter().map(|line| line.aim).collect(),
        learn: request.learn.clone(),
    };
    let bytes = |estimate: &Estimate| {
        let line = estimate.recommended.and_then(|line| estimate.ladder.get(line));
        line.map_or(estimate.source_bytes, |line| line.bytes)
    };
    let other = |estimate: &Estimate| OtherLayout {
        layout_arguments: estimate.layout_arguments.clone(),
        bytes: bytes(estimate),
    };
    let mut wide = match predict(inputs, &asked, observer).await {
        Ok(wide) => wide,
        Err(error) if error.ends_a_job() => return Err(error),
        // It was worth a look.
        Err(_) => return Ok(found),
    };
    if bytes(&wide) < bytes(&found) {
        wide.other_layout = Some(other(&found));
        return Ok(wide);
    }
    found.other_layout = Some(other(&wide));
    Ok(found)
}

/// Rows that are sorted at most.
const MOST_SORTED: u64 = 1 << 21;
/// What is not worth a word: a twentieth less.
const SMALLER: f64 = 0.95;

/// What the rows would lead to in the order of their times, where they are in none and it would be less.
async fn sorted(
    inputs: &[Input],
    request: &EstimateRequest,
    found: &Estimate,
    observer: &dyn Observer,
) -> Result<Option<Sorted>> {
    let Some(input) = inputs.first() else { return Ok(None) };
    let first = Source::open(input).await.map_err(|error| error.at(&input.name))?;
    let by: Vec<String> = match &found.layout {
        Layout::Long { time, series, .. } => vec![time.clone(), series.clone()],
        Layout::Window { series, column, .. } => {
            let time = time_column(&first.schema).map(|time| first.schema.field(time).name().clone());
            time.filter(|time| time != column).into_iter().chain(series.clone()).collect()
        }
        _ => Vec::new(),
    };
    let Some(time) = by.first() else { return Ok(None) };
    let rows = Rows { count: FIRST_ROWS, ..first.all_rows() };
    let rows: Vec<RecordBatch> = first.batches(&rows, FIRST_ROWS).await?.try_collect().await?;
    let rows = concat_batches(&first.schema, &rows)?;
    if !is_shuffled(rows.column(column(&first.schema, time)?))? {
        return Ok(None);
    }
    if found.rows > MOST_SORTED {
        return Ok(Some(Sorted { by, prediction: None }));
    }
    let asked = EstimateRequest {
        layout: request.layout.clone(),
        aims: found.ladder.iter().map(|line| line.aim).collect(),
        learn: request.learn.clone(),
    };
    let table = in_order(inputs, &first.schema, &by).await?;
    let mut estimate = match predict(&[table], &asked, observer).await {
        Ok(estimate) => estimate,
        Err(error) if error.ends_a_job() => return Err(error),
        Err(_) => return Ok(None),
    };
    let now = found.ladder.iter().filter(|line| line.met).map(|line| line.bytes).min();
    let recommended = estimate.recommended.map(|line| estimate.ladder.swap_remove(line));
    let is_less = |line: &Prediction| {
        (line.bytes as f64) < SMALLER * now.unwrap_or(u64::MAX).min(found.source_bytes) as f64
    };
    Ok(recommended.filter(is_less).map(|line| Sorted { by, prediction: Some(line) }))
}

/// All rows in another order, as a file in memory.
async fn in_order(inputs: &[Input], schema: &SchemaRef, by: &[String]) -> Result<Input> {
    let mut batches = Vec::new();
    for input in inputs {
        let mut source = Source::open(input).await.map_err(|error| error.at(&input.name))?;
        source.read_as(schema);
        let rows: Vec<RecordBatch> =
            source.batches(&source.all_rows(), READ_ROWS).await?.try_collect().await?;
        batches.extend(rows);
    }
    let rows = concat_batches(schema, &batches)?;
    drop(batches);
    let key = |name: &String| -> Result<SortColumn> {
        Ok(SortColumn { values: rows.column(column(schema, name)?).clone(), options: None })
    };
    let keys = by.iter().map(key).collect::<Result<Vec<_>>>()?;
    let rows = take_record_batch(&rows, &lexsort_to_indices(&keys, None)?)?;
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?));
    let mut writer = ArrowWriter::try_new(Vec::new(), schema.clone(), Some(properties.build()))?;
    writer.write(&rows)?;
    let (store, path) = (Arc::new(InMemory::new()), Path::from("sorted.parquet"));
    store.put(&path, writer.into_inner()?.into()).await?;
    Ok(Input { store, path, name: "the sorted rows".to_string() })
}

/// The same for the files as they are, and one layout.
async fn predict(inputs: &[Input], request: &EstimateRequest, observer: &dyn Observer) -> Result<Estimate> {
    request.learn.check()?;
    let mut sizes = Vec::with_capacity(inputs.len());
    for input in inputs {
        sizes.push(input.store.head(&input.path).await?.size);
    }
    let stride = inputs.len().div_ceil(MOST_FILES).max(1);
    let mut sources = Vec::new();
    for input in inputs.iter().step_by(stride) {
        sources.push(Source::open(input).await.map_err(|error| error.at(&input.name))?);
    }
    let first = sources.iter().find(|source| source.rows > 0).or(sources.first());
    let first = first.ok_or_else(|| ArchiveError::layout("there is nothing to estimate"))?;
    let layout = match &request.layout {
        LayoutRequest::Find => {
            let rows = Rows { count: FIRST_ROWS, ..first.all_rows() };
            let batches = first.batches(&rows, FIRST_ROWS).await?;
            let batches: Vec<RecordBatch> = batches.try_collect().await?;
            let rows: u64 = sources.iter().map(|source| source.rows).sum();
            detect(&concat_batches(&first.schema, &batches)?, rows * stride as u64)
        }
        asked => find_layout(asked, &first.schema),
    }
    .map_err(|error| error.at(&first.input.name))?;
    let table = Table::new(layout.clone(), first.schema.clone(), Vec::new())?;
    let first_name = first.input.name.clone();
    sources.iter_mut().for_each(|source| source.read_as(&table.schema));
    let same = |source: &&Source| source.schema.fields() == table.schema.fields();
    let others = sources.iter().filter(|source| !same(source)).map(|source| source.input.name.as_str());
    let others: Vec<&str> = others.collect();
    if !others.is_empty() {
        return Err(ArchiveError::layout(format!(
            "the columns of {} are not those of {}, and one archive cannot hold both: estimate them on their own",
            listed(&others),
            first_name
        )));
    }
    let fitting: Vec<&Source> = sources.iter().collect();
    let opened: u64 = fitting.iter().map(|source| source.bytes).sum();
    let share = sizes.iter().sum::<u64>() as f64 / opened.max(1) as f64;
    let sampled = look_at(&table, &fitting, share, Look::Thorough).await?;
    let chunks =
        fitting.iter().flat_map(|source| source.metadata.row_groups()).map(|group| group.num_columns());
    let chunks = chunks.sum::<usize>() as f64 * share;
    let beside_stored = bytes_beside_stored(inputs.len() as f64, chunks) as u64;
    let material = Material::new(&table, &sampled)?;
    if let (_, Some(error)) = place_all(&material.table, material.sensors, &sampled.blocks, usize::MAX) {
        return Err(error);
    }
    let names: Vec<&str> = table.schema.fields().iter().map(|field| field.name().as_str()).collect();
    let plain = PlainBytes::of(&sampled.blocks, sampled.total_rows)?;
    let group_sensors = group_sensors(sampled.total_rows, &table);
    let trials = Trials::new(&material, &sampled);
    let mut estimate = Estimate {
        layout_arguments: arguments(&layout, &names),
        kept_numbers: kept_numbers(&table),
        layout,
        files: inputs.len() as u64,
        rows: sampled.total_rows,
        sampled_rows: sampled.blocks.iter().map(|block| block.num_rows() as u64).sum(),
        source_bytes: sizes.iter().sum(),
        value_bytes: trials.value_bytes as u64,
        zstd_bytes: plain.usual,
        byte_stream_split_bytes: plain.split,
        pays: false,
        reason: None,
        ladder: Vec::new(),
        recommended: None,
        sorted: None,
        other_layout: None,
        examples: Vec::new(),
    };
    let aims = aims(&request.aims, &material);
    let rounded = |aim: &Aim| match aim {
        Aim::Bound(bound) => {
            PlainBytes::rounded(&material.table, &sampled.blocks, *bound, sampled.total_rows)
        }
        Aim::Target(_) => Ok(None),
    };
    let rounded = aims.iter().map(rounded).collect::<Result<Vec<_>>>()?;
    drop(sampled);
    let learn = settings_for(&request.learn, material.sensors);
    let mut chooser = Chooser::new(&material, &trials, &learn, group_sensors, observer);
    let mut settings = Vec::with_capacity(aims.len());
    for (aim, rounded) in aims.into_iter().zip(rounded) {
        let chosen = match aim {
            Aim::Target(target) => chooser.for_target(target)?,
            Aim::Bound(bound) => chooser.for_bound(bound)?,
        };
        let mut line = estimate.prediction(aim, &chosen, beside_stored);
        line.rounded_bytes = rounded.map(|bytes| bytes.best);
        estimate.ladder.push(line);
        settings.push(chosen.settings);
    }
    estimate.pays = estimate.ladder.iter().any(|line| line.met && !line.stored_as_they_were);
    if !estimate.pays && !estimate.ladder.is_empty() {
        estimate.reason = Some(match estimate.ladder.iter().any(|line| line.met) {
            true => format!(
                "the files take {} bytes already, and no aim here would make them smaller by a twentieth",
                estimate.source_bytes
            ),
            false => "none of these aims can be met".to_string(),
        });
    }
    estimate.recommended = recommended(&estimate.ladder);
    if let Some(line) = estimate.recommended {
        estimate.examples = trials.examples(&settings[line])?;
    }
    Ok(estimate)
}

/// Bounds that suit most values, as shares of three deviations of a typical sensor.
const USUAL_BOUNDS: [f64; 3] = [0.01, 0.03, 0.1];
/// The one that is recommended, and added where no bound is asked for: a recommendation keeps single values.
const RECOMMENDED: usize = 1;
/// A deviation over the median of absolute deviations, as those of a bell curve are.
const DEVIATION: f64 = 1.48;

/// What is asked for, with a bound among it.
fn aims(asked: &[Aim], material: &Material) -> Vec<Aim> {
    let usual = |share: f64| -> Option<Aim> {
        let typical = DEVIATION * material.typical_deviation();
        let size = if typical > 0.0 { 3.0 * typical } else { material.mean_size() };
        round_number(share * size).map(|bound| Aim::Bound(Bound::MaxError(bound)))
    };
    if asked.is_empty() {
        let bounds = USUAL_BOUNDS.into_iter().filter_map(usual);
        return std::iter::once(Aim::Bound(Bound::Lossless)).chain(bounds).collect();
    }
    let is_bound = |aim: &Aim| matches!(aim, Aim::Bound(_));
    let added = if asked.iter().any(is_bound) { None } else { usual(USUAL_BOUNDS[RECOMMENDED]) };
    asked.iter().copied().chain(added).collect()
}

/// 1, 2 or 5 of some power of ten: the largest up to a number.
fn round_number(most: f64) -> Option<f64> {
    let exponent = most.log10().floor();
    if !(-300.0..=300.0).contains(&exponent) {
        return None;
    }
    // Read as text, so that a bound is the number that it is written as.
    let power = |digit: u8| format!("{digit}e{exponent}").parse::<f64>().ok();
    [5, 2, 1].into_iter().filter_map(power).find(|number| *number <= most).or(power(1))
}

/// Of bounds that make the files smaller the one in the middle, or else no error at all.
fn recommended(ladder: &[Prediction]) -> Option<usize> {
    let pays = |line: &&usize| ladder[**line].met && !ladder[**line].stored_as_they_were;
    let lines: Vec<usize> = (0..ladder.len()).collect();
    let of = |wanted: &dyn Fn(Bound) -> bool| -> Vec<usize> {
        let wanted = |line: &&usize| matches!(ladder[**line].aim, Aim::Bound(bound) if wanted(bound));
        lines.iter().filter(wanted).filter(pays).copied().collect()
    };
    let bounds = of(&|bound| matches!(bound, Bound::MaxError(_) | Bound::MaxRelativeError(_)));
    let lossless = of(&|bound| bound == Bound::Lossless);
    bounds.get(bounds.len() / 2).or(lossless.first()).copied()
}

impl Estimate {
    fn prediction(&self, aim: Aim, chosen: &Chosen, beside_stored: u64) -> Prediction {
        let stored = chosen.outcome.bytes > worthwhile(self.source_bytes) as f64;
        let bytes = if stored { self.source_bytes + beside_stored } else { chosen.outcome.bytes as u64 };
        let ratio = self.value_bytes as f64 / bytes.max(1) as f64;
        let nmae = if stored { 0.0 } else { chosen.outcome.nmae() };
        // As far as a prediction can tell.
        const NEARLY: f64 = 1.02;
        let met = match aim {
            Aim::Target(Target::Nmae(limit)) => nmae <= NEARLY * limit,
            Aim::Target(Target::Ratio(limit)) => NEARLY * ratio >= limit,
            Aim::Bound(_) => true,
        };
        Prediction {
            aim,
            met,
            stored_as_they_were: stored,
            bytes,
            dictionary_bytes: if stored { 0 } else { chosen.outcome.dictionary_bytes as u64 },
            rounded_bytes: None,
            ratio,
            nmae,
            max_error: if stored { 0.0 } else { chosen.outcome.error.max },
            bound: chosen.settings.bound,
            atoms: chosen.settings.codebook.atoms(),
            kernel: chosen.settings.codebook.kernel().name().to_string(),
            lambda: chosen.settings.codebook.lambda(),
        }
    }
}

/// Columns that could have been coded, and are kept exactly.
fn kept_numbers(table: &Table) -> Vec<String> {
    let fields = table.kept.iter().map(|column| table.schema.field(*column));
    let is_number = |data_type: &DataType| {
        data_type.is_floating() || item_type(data_type).is_some_and(|item| item.is_floating())
    };
    fields.filter(|field| is_number(field.data_type())).map(|field| field.name().clone()).collect()
}
