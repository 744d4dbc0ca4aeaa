//! What compressing would give, from a part of the tables: bounded work, whatever their size.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::DataType;
use futures::TryStreamExt;
use object_store::ObjectStoreExt;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, Type, ZstdLevel};
use parquet::file::properties::WriterProperties;
use parquet::schema::types::SchemaDescPtr;
use serde::Serialize;

use super::choose::{Chooser, Chosen, Target};
use super::compress::group_sensors;
use super::data_file_writer::Settings;
use super::detect::{arguments, detect};
use super::job::Input;
use super::layout::{Layout, Table, item_type};
use super::layout_request::{LayoutRequest, find_layout};
use super::learn::{LearnSettings, Material};
use super::placed::place_all;
use super::quantiser::Bound;
use super::sampled::{Look, look_at};
use super::source::{Rows, Source};
use super::trial::{Example, Trials, bytes_beside_stored};
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
    /// The targets and bounds to predict for.
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
    /// Some sensors as they were and as they would come back, for the aim in the middle.
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

/// Predicts what compressing these files would give.
pub async fn estimate(
    inputs: &[Input],
    request: &EstimateRequest,
    observer: &dyn Observer,
) -> Result<Estimate> {
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
            others.join(", "),
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
    let (zstd_bytes, byte_stream_split_bytes) = parquet_bytes(&sampled.blocks, sampled.total_rows)?;
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
        zstd_bytes,
        byte_stream_split_bytes,
        pays: true,
        reason: None,
        ladder: Vec::new(),
        examples: Vec::new(),
    };
    let held_out = Trials::on_held_out(&material, &sampled);
    let learned_from = Trials::on_learned(&material, &sampled);
    drop(sampled);
    let judge = Chooser::new(&material, &held_out, &request.learn, group_sensors, observer);
    estimate.reason = judge.verdict(&learned_from)?;
    drop((held_out, learned_from));
    let mut chooser = Chooser::new(&material, &trials, &request.learn, group_sensors, observer);
    for (i, aim) in request.aims.iter().enumerate() {
        let chosen = match aim {
            Aim::Target(target) => chooser.for_target(*target)?,
            Aim::Bound(bound) => chooser.for_bound(*bound)?,
        };
        if i == request.aims.len() / 2 {
            let (codebook, bound) = (chosen.codebook.clone(), chosen.bound);
            estimate.examples = trials.examples(&Settings { codebook, bound, group_sensors })?;
        }
        estimate.ladder.push(estimate.prediction(*aim, &chosen, beside_stored));
    }
    if estimate.reason.is_none() && !estimate.ladder.is_empty() {
        let smallest = estimate.ladder.iter().map(|prediction| prediction.bytes).min().unwrap_or(0);
        if smallest > worthwhile(estimate.source_bytes) {
            estimate.reason = Some(format!(
                "Parquet holds the table in {} bytes already, and no aim here would make it smaller",
                estimate.source_bytes
            ));
        }
    }
    estimate.pays = estimate.reason.is_none() || estimate.ladder.iter().any(Prediction::pays_as_a_bound);
    Ok(estimate)
}

impl Prediction {
    /// Whether this is a bound on errors that makes files smaller, whatever a dictionary is worth.
    pub fn pays_as_a_bound(&self) -> bool {
        matches!(self.aim, Aim::Bound(Bound::MaxError(_) | Bound::MaxRelativeError(_)))
            && !self.stored_as_they_were
    }
}

impl Estimate {
    fn prediction(&self, aim: Aim, chosen: &Chosen, beside_stored: u64) -> Prediction {
        // What does not pay is stored as it was, unless a bound is asked for.
        let kept = self.reason.is_some() && matches!(aim, Aim::Target(_));
        let stored = kept || chosen.outcome.bytes > worthwhile(self.source_bytes) as f64;
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
            ratio,
            nmae,
            max_error: if stored { 0.0 } else { chosen.outcome.error.max },
            bound: chosen.bound,
            atoms: chosen.codebook.atoms(),
            kernel: chosen.codebook.kernel().name().to_string(),
            lambda: chosen.codebook.lambda(),
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

/// Bytes of a table as Parquet with zstd, and with floats split into their bytes as well.
fn parquet_bytes(blocks: &[RecordBatch], total_rows: u64) -> Result<(u64, u64)> {
    let zstd = || -> Result<_> {
        Ok(WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?)))
    };
    let rows: usize = blocks.iter().map(RecordBatch::num_rows).sum();
    let scale = total_rows as f64 / rows.max(1) as f64;
    let bytes = |properties: WriterProperties| -> Result<u64> {
        let Some(first) = blocks.first() else { return Ok(0) };
        let mut bytes = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut bytes, first.schema(), Some(properties))?;
        for block in blocks {
            writer.write(block)?;
        }
        writer.close()?;
        Ok((bytes.len() as f64 * scale) as u64)
    };
    let plain = bytes(zstd()?.build())?;
    let mut split = zstd()?;
    if let Some(first) = blocks.first() {
        let schema: SchemaDescPtr =
            Arc::new(parquet::arrow::ArrowSchemaConverter::new().convert(first.schema_ref())?);
        for column in schema.columns() {
            if matches!(column.physical_type(), Type::FLOAT | Type::DOUBLE) {
                split = split
                    .set_column_dictionary_enabled(column.path().clone(), false)
                    .set_column_encoding(column.path().clone(), Encoding::BYTE_STREAM_SPLIT);
            }
        }
    }
    Ok((plain, bytes(split.build())?))
}
