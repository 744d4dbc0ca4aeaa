//! The job that makes an archive, or adds to one: files in, data files out, one after the other.

use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use futures::StreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use serde::Serialize;

use super::codebook::Codebook;
use super::data_file_writer::Settings;
use super::dictionary_file::{self, Description};
use super::layout::{Layout, Table};
use super::layout_request::{LayoutRequest, find_layout};
use super::learn::{LearnSettings, given, learn};
use super::manifest::{DictionaryEntry, FileEntry, HistoryEntry, JOB_FILE, Manifest, hash_of};
use super::quantiser::Bound;
use super::source::Source;
use super::work::{BLOCK_VALUES, Work};
use super::{ArchiveError, FORMAT_VERSION, Result};
use crate::math::{Dictionary, Observer};

/// Sensors coded together, so that one of many can be read alone.
const GROUP_SENSORS: usize = 64;
/// Tables with fewer values are coded in one piece: the pieces' own tables would be too large a share.
const GROUPED_FROM: u64 = 1 << 23;
/// What is looked at to learn a dictionary.
const SAMPLED_PARTS: usize = 32;
const SAMPLED_ROWS: usize = 1 << 16;
const SAMPLED_VALUES: usize = 1 << 24;

/// One file to compress.
#[derive(Debug, Clone)]
pub struct Input {
    /// Where it is stored.
    pub store: Arc<dyn ObjectStore>,
    /// Its path there.
    pub path: Path,
    /// Its path in the archive.
    pub name: String,
}

/// What to do.
#[derive(Debug, Clone)]
pub struct Job {
    /// Which columns hold the values.
    pub layout: LayoutRequest,
    /// The promise on their errors.
    pub bound: Bound,
    /// A dictionary to use; one is learned otherwise.
    pub dictionary: Option<Dictionary>,
    /// How to learn it.
    pub learn: LearnSettings,
    /// Blocks coded at the same time.
    pub threads: usize,
    /// Whether to go on where an earlier run of the same job was stopped.
    pub resume: bool,
}

impl Default for Job {
    /// The only column of lists, codes alone, on all cores.
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            layout: LayoutRequest::Find,
            bound: Bound::None,
            dictionary: None,
            learn: LearnSettings::default(),
            threads,
            resume: true,
        }
    }
}

/// How far a job has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobProgress {
    /// Rows done.
    pub rows: u64,
    /// Rows to do.
    pub total_rows: u64,
    /// Bytes of the input's values done, in memory.
    pub bytes_in: u64,
    /// Bytes written.
    pub bytes_out: u64,
}

impl JobProgress {
    fn new(sources: &[Source]) -> Self {
        let total_rows = sources.iter().map(|source| source.rows).sum();
        Self { rows: 0, total_rows, bytes_in: 0, bytes_out: 0 }
    }
}

/// Is told how a job goes on, and may end it.
pub trait JobObserver: Observer {
    /// Called after every block.
    fn on_progress(&self, _progress: &JobProgress) {}
    /// Called when a file could not be compressed; the rest goes on.
    fn on_failure(&self, _file: &str, _error: &ArchiveError) {}
    /// Whether to stop.
    fn is_cancelled(&self) -> bool {
        false
    }
}

impl JobObserver for () {}

/// What a job has done.
#[derive(Debug, Clone, Serialize)]
pub struct JobReport {
    /// Files written, or found finished.
    pub files: Vec<FileEntry>,
    /// Files that were finished by an earlier run.
    pub resumed: usize,
    /// Files that failed, and why.
    pub failed: Vec<(String, String)>,
    /// Bytes of the dictionary.
    pub dictionary_bytes: u64,
}

/// Compresses files into a new archive at `folder`. Where an earlier run of the same job was stopped it
/// goes on; where there is an archive already it fails.
pub async fn compress(
    inputs: &[Input],
    store: &Arc<dyn ObjectStore>,
    folder: &Path,
    job: &Job,
    observer: &dyn JobObserver,
) -> Result<JobReport> {
    let bound = job.bound.check()?;
    if Manifest::read(store.as_ref(), folder).await?.is_some() {
        return Err(ArchiveError::Exists(folder.to_string()));
    }
    let (sources, failed) = open_all(inputs, observer).await;
    let Some(first) = sources.first() else {
        return Err(match failed.into_iter().next() {
            Some((name, error)) => error.at(name),
            None => ArchiveError::layout("there is nothing to compress"),
        });
    };
    // The first table that fits says what the others must look like.
    let fitting = |source: &Source| -> Result<Table> {
        let layout = find_layout(&job.layout, &source.schema)?;
        Table::new(layout, source.schema.clone(), Vec::new())
    };
    let table = match sources.iter().find_map(|source| fitting(source).ok()) {
        Some(table) => table,
        None => fitting(first).map_err(|error| error.at(&first.input.name))?,
    };
    let layout = table.layout.clone();
    let id = job_identity(&sources, job, &layout)?;
    let resumed = if job.resume { unfinished(store, folder, &id).await? } else { None };
    let (codebook, description, bytes) = match resumed {
        Some(found) => found,
        None => {
            store.put(&folder.clone().join(JOB_FILE), id.into_bytes().into()).await?;
            let (codebook, series, learned_from) = match &job.dictionary {
                Some(_) if matches!(layout, Layout::Long { .. }) => {
                    return Err(ArchiveError::layout(
                        "a dictionary does not know which series its sensors are; leave --dictionary out with --long",
                    ));
                }
                Some(dictionary) => (given(dictionary, bound)?, Vec::new(), 0),
                None => learn_from(&table, &sources, job, observer).await?,
            };
            let description = Description::new(&codebook, layout.clone(), series, bound, learned_from);
            let bytes = dictionary_file::write(&codebook, &description)?;
            store.put(&folder.clone().join(dictionary_file::FILE_NAME), bytes.clone().into()).await?;
            (codebook, description, bytes.into())
        }
    };
    let settings =
        Settings { codebook: Arc::new(codebook), bound, group_sensors: group_sensors(&sources, &table) };
    let mut work = Work {
        store,
        folder,
        settings: &settings,
        layout: &layout,
        series: &description.series,
        schema: &table.schema,
        threads: job.threads.max(1),
        observer,
        progress: JobProgress::new(&sources),
        resume: job.resume,
    };
    let mut report = work.run(&sources, failed).await?;
    report.dictionary_bytes = bytes.len() as u64;
    if let (true, Some((name, error))) = (report.files.is_empty(), report.failed.first()) {
        return Err(ArchiveError::layout(format!("none of the tables could be compressed: {name}: {error}")));
    }
    let manifest = Manifest {
        version: FORMAT_VERSION,
        dictionary: DictionaryEntry { bytes: bytes.len() as u64, hash: hash_of(&bytes) },
        history: vec![HistoryEntry::new("compress", &report.files)],
        files: report.files.clone(),
        hash: String::new(),
    };
    manifest.write(store.as_ref(), folder).await?;
    store.delete(&folder.clone().join(JOB_FILE)).await?;
    Ok(report)
}

/// What files are added to.
pub(super) struct Existing {
    pub codebook: Arc<Codebook>,
    pub description: Description,
    /// The columns of the archive's tables, unless it has none.
    pub schema: Option<SchemaRef>,
    /// The parts of the path that say which partition a file is in.
    pub partitions: Vec<String>,
}

/// Adds files to an archive, with its dictionary and bound.
pub(super) async fn append(
    inputs: &[Input],
    store: &Arc<dyn ObjectStore>,
    folder: &Path,
    existing: Existing,
    job: &Job,
    observer: &dyn JobObserver,
) -> Result<JobReport> {
    let Existing { codebook, description, schema, partitions } = existing;
    let (manifest, _) = current(store, folder).await?;
    check_new(&manifest, inputs.iter().map(|input| input.name.as_str()))?;
    for input in inputs {
        if partition_names(&input.name) != partitions {
            return Err(ArchiveError::layout(format!(
                "{}: the archive's files are in partitions by {partitions:?}, this one is not",
                input.name
            )));
        }
    }
    let (sources, failed) = open_all(inputs, observer).await;
    let Some(first) = sources.first() else {
        return Err(match failed.into_iter().next() {
            Some((name, error)) => error.at(name),
            None => ArchiveError::layout("there is nothing to add"),
        });
    };
    let schema = schema.unwrap_or_else(|| first.schema.clone());
    let table = Table::new(description.layout.clone(), schema.clone(), Vec::new())?;
    let group_sensors = group_sensors(&sources, &table);
    let settings = Settings { codebook, bound: description.bound, group_sensors };
    let mut work = Work {
        store,
        folder,
        settings: &settings,
        layout: &description.layout,
        series: &description.series,
        schema: &schema,
        threads: job.threads.max(1),
        observer,
        progress: JobProgress::new(&sources),
        resume: job.resume,
    };
    let mut report = work.run(&sources, failed).await?;
    if report.files.is_empty() {
        return Ok(report);
    }
    // Others may have added files meanwhile.
    let (mut manifest, _) = current(store, folder).await?;
    check_new(&manifest, report.files.iter().map(|file| file.path.as_str()))?;
    report.dictionary_bytes = manifest.dictionary.bytes;
    manifest.history.push(HistoryEntry::new("append", &report.files));
    manifest.files.extend(report.files.iter().cloned());
    manifest.write(store.as_ref(), folder).await?;
    Ok(report)
}

async fn current(store: &Arc<dyn ObjectStore>, folder: &Path) -> Result<(Manifest, u64)> {
    let found = Manifest::read(store.as_ref(), folder).await?;
    found.ok_or_else(|| ArchiveError::NotAnArchive(folder.to_string()))
}

fn check_new<'a>(manifest: &Manifest, mut names: impl Iterator<Item = &'a str>) -> Result<()> {
    match names.find(|name| manifest.files.iter().any(|file| file.path == *name)) {
        Some(name) => Err(ArchiveError::layout(format!("the archive has a file {name} already"))),
        None => Ok(()),
    }
}

/// The names of the hive partitions that a file is in.
pub(crate) fn partition_names(path: &str) -> Vec<String> {
    let folders = path.rsplit_once('/').map_or("", |(folders, _)| folders);
    let parts = folders.split('/').filter_map(|part| part.split_once('='));
    parts.map(|(name, _)| name.to_string()).collect()
}

async fn open_all(
    inputs: &[Input],
    observer: &dyn JobObserver,
) -> (Vec<Source>, Vec<(String, ArchiveError)>) {
    let mut sources = Vec::new();
    let mut failed = Vec::new();
    for input in inputs {
        match Source::open(input).await {
            Ok(source) => sources.push(source),
            Err(error) => {
                observer.on_failure(&input.name, &error);
                failed.push((input.name.clone(), error));
            }
        }
    }
    (sources, failed)
}

/// What a job is known by: going on with another one's files would mix them up.
fn job_identity(sources: &[Source], job: &Job, layout: &Layout) -> Result<String> {
    let files: Vec<_> = sources.iter().map(Source::state).collect();
    let given = job.dictionary.as_ref().map(|dictionary| {
        let bytes: Vec<u8> = dictionary.atoms().iter().flat_map(|value| value.to_le_bytes()).collect();
        (hash_of(&bytes), dictionary.kernel().name(), dictionary.lambda().to_bits())
    });
    let text = serde_json::to_string(&(FORMAT_VERSION, files, layout, job.bound, &job.learn, given))?;
    Ok(hash_of(text.as_bytes()))
}

/// The dictionary of an earlier run of the same job.
async fn unfinished(
    store: &Arc<dyn ObjectStore>,
    folder: &Path,
    id: &str,
) -> Result<Option<(Codebook, Description, Bytes)>> {
    let fetch = |name: &str| {
        let path = folder.clone().join(name);
        async move {
            match store.get(&path).await {
                Ok(found) => Ok(Some(found.bytes().await?)),
                Err(object_store::Error::NotFound { .. }) => Ok(None),
                Err(error) => Err(ArchiveError::from(error)),
            }
        }
    };
    match fetch(JOB_FILE).await? {
        None => return Ok(None),
        Some(found) if found != id.as_bytes() => return Err(ArchiveError::OtherJob(folder.to_string())),
        Some(_) => {}
    }
    let Some(bytes) = fetch(dictionary_file::FILE_NAME).await? else { return Ok(None) };
    let (codebook, description) = dictionary_file::read(bytes.clone())?;
    Ok(Some((codebook, description, bytes)))
}

fn values_per_row(table: &Table, sensors: usize) -> usize {
    match table.layout {
        Layout::List { .. } | Layout::Wide { .. } => sensors.max(1),
        _ => 1,
    }
}

fn group_sensors(sources: &[Source], table: &Table) -> usize {
    let rows: u64 = sources.iter().map(|source| source.rows).sum();
    let values = rows.saturating_mul(values_per_row(table, table.values.len()) as u64);
    if values < GROUPED_FROM { usize::MAX >> 1 } else { GROUP_SENSORS }
}

/// Learns a dictionary from rows spread over all files.
async fn learn_from(
    table: &Table,
    sources: &[Source],
    job: &Job,
    observer: &dyn JobObserver,
) -> Result<(Codebook, Vec<String>, u64)> {
    let fitting: Vec<&Source> =
        sources.iter().filter(|source| source.schema.fields() == table.schema.fields()).collect();
    let parts: Vec<(&Source, usize)> =
        fitting.iter().flat_map(|source| (0..source.row_groups).map(move |group| (*source, group))).collect();
    let stride = parts.len().div_ceil(SAMPLED_PARTS).max(1);
    let sampled = parts.len().div_ceil(stride).max(1);
    let values = SAMPLED_VALUES / sampled / values_in_row(table, &fitting);
    let most = match &table.layout {
        // A row is one value there, and a signal takes many.
        Layout::Long { .. } | Layout::Window { .. } => BLOCK_VALUES,
        _ => SAMPLED_ROWS / sampled,
    };
    let rows = values.clamp(1, most);
    let mut batches = Vec::new();
    for (source, group) in parts.iter().step_by(stride) {
        let mut stream = source.batches(Some(vec![*group]), Some(rows), rows).await?;
        while let Some(batch) = stream.next().await {
            batches.push(batch.map_err(|error| error.at(&source.input.name))?);
        }
    }
    if matches!(table.layout, Layout::List { .. }) && batches.iter().all(|batch| all_null(table, batch)) {
        batches = first_lists(table, &fitting).await?;
    }
    let rows: u64 = fitting.iter().map(|source| source.rows).sum();
    let signals = match &table.layout {
        Layout::Window { length, .. } => rows / *length as u64,
        Layout::Long { .. } => rows / 8,
        _ => rows,
    };
    let learned = learn(table, &batches, job.bound, &job.learn, signals, observer)?;
    Ok((learned.codebook, learned.series, learned.signals))
}

fn all_null(table: &Table, batch: &RecordBatch) -> bool {
    batch.column(table.values[0]).null_count() == batch.num_rows()
}

/// The first rows that are not NULL alone.
async fn first_lists(table: &Table, sources: &[&Source]) -> Result<Vec<RecordBatch>> {
    for source in sources {
        let mut stream = source.batches(None, None, super::source::READ_ROWS).await?;
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            if !all_null(table, &batch) {
                return Ok(vec![batch]);
            }
        }
    }
    Ok(Vec::new())
}

/// About how many values a row has, from what the footers tell.
fn values_in_row(table: &Table, sources: &[&Source]) -> usize {
    let Some(group) = sources.iter().find_map(|source| source.metadata.row_groups().first()) else {
        return 1;
    };
    let names: Vec<&str> =
        table.values.iter().map(|value| table.schema.field(*value).name().as_str()).collect();
    let is_value = |path: &[String]| path.first().is_some_and(|name| names.contains(&name.as_str()));
    let values = group.columns().iter().filter(|chunk| is_value(chunk.column_path().parts()));
    let values: i64 = values.map(|chunk| chunk.num_values().max(0)).sum();
    (values.max(1) as usize).div_ceil(group.num_rows().max(1) as usize)
}
