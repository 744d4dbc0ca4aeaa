//! The job that makes an archive, or adds to one: files in, data files out, one after the other.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryFutureExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, WriteMultipart};
use parquet::arrow::ParquetRecordBatchStreamBuilder;
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use serde::{Deserialize, Serialize};
use twox_hash::xxhash3_128::Hasher as Hasher128;
use twox_hash::XxHash3_128;

use super::block::{self, ErrorSums};
use super::codebook::Codebook;
use super::data_file::{CodedTable, DataFile, DataFileWriter, Settings, fetch_footer, footer_hash, hash_text, parse_footer};
use super::dictionary_file::{self, Description};
use super::footer::{Footer, KEY};
use super::layout::{Layout, Table, item_type};
use super::learn::{LearnSettings, given, learn};
use super::manifest::{DictionaryEntry, FileEntry, HistoryEntry, Manifest};
use super::number::Number;
use super::quantiser::Bound;
use super::{ArchiveError, FORMAT_VERSION, Result};
use crate::math::{Dictionary, Observer};

/// Values in a block: enough for residuals to know their neighbours, few enough to read a part of a table.
const BLOCK_VALUES: usize = 1 << 20;
const FEWEST_BLOCK_ROWS: usize = 512;
/// Rows of a block where a row is a signal.
const MOST_BLOCK_ROWS: usize = 1 << 16;
/// Sensors coded together, so that one of many can be read alone.
const GROUP_SENSORS: usize = 64;
/// Tables with fewer values are coded in one piece: the pieces' own tables would be too large a share.
const GROUPED_FROM: u64 = 1 << 23;
/// What is looked at to learn a dictionary.
const SAMPLED_PARTS: usize = 32;
const SAMPLED_ROWS: usize = 2048;
const READ_ROWS: usize = 4096;

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

/// Which columns hold the values.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub enum LayoutRequest {
    /// The only column of lists of numbers.
    #[default]
    Find,
    /// This layout.
    Given(Layout),
    /// All columns that match one of the patterns, in which `*` stands for anything.
    Columns(Vec<String>),
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
}

impl Default for Job {
    /// The only column of lists, codes alone, on all cores.
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self { layout: LayoutRequest::Find, bound: Bound::None, dictionary: None, learn: LearnSettings::default(), threads }
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

/// An input whose footer is known.
struct Source {
    input: Input,
    bytes: u64,
    footer: Bytes,
    metadata: Arc<ParquetMetaData>,
    rows: u64,
    row_groups: usize,
    schema: SchemaRef,
}

impl Source {
    async fn open(input: &Input) -> Result<Self> {
        let bytes = input.store.head(&input.path).await?.size;
        let footer = fetch_footer(input.store.as_ref(), &input.path, bytes).await?;
        let metadata = Arc::new(parse_footer(&footer)?);
        let (rows, row_groups) = (metadata.file_metadata().num_rows().max(0) as u64, metadata.num_row_groups());
        let file = DataFile::new(input.store.clone(), input.path.clone(), &footer, &[], None)?;
        Ok(Self { input: input.clone(), bytes, footer, metadata, rows, row_groups, schema: file.schema })
    }

    /// What the file is known by: its size and its footer.
    fn identity(&self) -> String {
        format!("{}-{}", self.bytes, footer_hash(&self.footer))
    }

    async fn batches(&self, row_groups: Option<Vec<usize>>, limit: Option<usize>, size: usize) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let Input { store, path, .. } = self.input.clone();
        let reader = StoredParquet { store, path, metadata: self.metadata.clone() };
        let mut builder = ParquetRecordBatchStreamBuilder::new(reader).await?.with_batch_size(size);
        if let Some(row_groups) = row_groups {
            builder = builder.with_row_groups(row_groups);
        }
        if let Some(limit) = limit {
            builder = builder.with_limit(limit);
        }
        Ok(builder.build()?.map_err(ArchiveError::from).boxed())
    }
}

/// A Parquet file in an object store whose footer is known.
struct StoredParquet {
    store: Arc<dyn ObjectStore>,
    path: Path,
    metadata: Arc<ParquetMetaData>,
}

impl AsyncFileReader for StoredParquet {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, std::result::Result<Bytes, ParquetError>> {
        let fetched = async move { self.store.get_range(&self.path, range).await };
        fetched.map_err(|error| ParquetError::External(Box::new(error))).boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, std::result::Result<Vec<Bytes>, ParquetError>> {
        let fetched = async move { self.store.get_ranges(&self.path, &ranges).await };
        fetched.map_err(|error| ParquetError::External(Box::new(error))).boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, std::result::Result<Arc<ParquetMetaData>, ParquetError>> {
        futures::future::ready(Ok(self.metadata.clone())).boxed()
    }
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
    let layout = find_layout(&job.layout, &first.schema)?;
    let table = Table::new(layout.clone(), first.schema.clone(), Vec::new())?;
    let job_id = job_identity(&sources, job, &layout)?;
    let (codebook, description, bytes) = match unfinished(store, folder, &job_id).await? {
        Some(found) => found,
        None => {
            let (codebook, series, learned_from) = match &job.dictionary {
                Some(dictionary) => (given(dictionary, bound)?, Vec::new(), 0),
                None => learn_from(&table, &sources, job, observer).await?,
            };
            let description = Description::new(&codebook, layout.clone(), series, job_id.clone(), learned_from);
            let bytes = dictionary_file::write(&codebook, &description)?;
            store.put(&folder.clone().join(dictionary_file::FILE_NAME), bytes.clone().into()).await?;
            (codebook, description, bytes.into())
        }
    };
    let settings = Settings { codebook: Arc::new(codebook), bound, group_sensors: group_sensors(&sources, &table) };
    let mut work = Work::new(store, folder, &settings, &layout, &description.series, job.threads, observer, &sources);
    let mut report = work.run(&sources, failed, true).await?;
    report.dictionary_bytes = bytes.len() as u64;
    let manifest = Manifest {
        version: FORMAT_VERSION,
        dictionary: DictionaryEntry { bytes: bytes.len() as u64, hash: format!("{:032x}", XxHash3_128::oneshot(&bytes)) },
        history: vec![HistoryEntry::new("compress", &report.files)],
        files: report.files.clone(),
        hash: String::new(),
    };
    manifest.write(store.as_ref(), folder).await?;
    Ok(report)
}

/// Compares a data file with what it was made from: other columns must be equal, and values within the
/// bound. Gives the errors.
pub(super) async fn compare(file: &DataFile, codebook: &Codebook, input: &Input) -> Result<ErrorSums> {
    let source = Source::open(input).await?;
    if source.rows != file.rows() {
        return Err(ArchiveError::corrupt(format!("{} rows, the original has {}", file.rows(), source.rows)));
    }
    if source.schema.fields() != file.schema.fields() {
        return Err(ArchiveError::corrupt("its columns are not those of the original"));
    }
    let columns: Vec<usize> = (0..file.schema.fields().len()).collect();
    let mut errors = ErrorSums::default();
    let mut rows = source.batches(None, None, READ_ROWS).await?;
    let mut waiting: Option<RecordBatch> = None;
    for row_group in 0..file.row_groups() {
        let decoded = file.read(codebook, row_group, &columns).await?;
        let mut parts = Vec::new();
        let mut missing = decoded.num_rows();
        while missing > 0 {
            let batch = match waiting.take() {
                Some(batch) => batch,
                None => rows.try_next().await?.ok_or_else(|| ArchiveError::corrupt("the original ends too early"))?,
            };
            let taken = batch.num_rows().min(missing);
            parts.push(batch.slice(0, taken));
            missing -= taken;
            if taken < batch.num_rows() {
                waiting = Some(batch.slice(taken, batch.num_rows() - taken));
            }
        }
        let original = concat_batches(&source.schema, &parts)?;
        match &file.coded {
            Some(coded) => compare_block(coded, codebook, &original, &decoded, &mut errors)?,
            None if original.columns() == decoded.columns() => {}
            None => return Err(ArchiveError::corrupt("it differs from the original")),
        }
    }
    Ok(errors)
}

fn compare_block(coded: &CodedTable, codebook: &Codebook, original: &RecordBatch, decoded: &RecordBatch, errors: &mut ErrorSums) -> Result<()> {
    let table = &coded.table;
    for kept in &table.kept {
        if original.column(*kept) != decoded.column(*kept) {
            return Err(ArchiveError::corrupt(format!("column {} differs from the original", table.schema.field(*kept).name())));
        }
    }
    let length = matches!(table.layout, Layout::List { .. }).then(|| codebook.sensors());
    let (cells, placement) = table.cells(original, length)?;
    let (read, _) = table.cells(decoded, length)?;
    let groups = table.groups(placement.sensors.max(codebook.sensors()), usize::MAX);
    for group in &groups {
        block::check(group, coded.footer.bound, &block::gather(&cells, group), &block::gather(&read, group), errors)?;
    }
    Ok(())
}

/// Adds files to an archive, with its dictionary and bound.
pub(super) async fn append(
    inputs: &[Input],
    store: &Arc<dyn ObjectStore>,
    folder: &Path,
    existing: (Manifest, Arc<Codebook>, Description, Bound),
    threads: usize,
    observer: &dyn JobObserver,
) -> Result<JobReport> {
    let (mut manifest, codebook, description, bound) = existing;
    if let Some(input) = inputs.iter().find(|input| manifest.files.iter().any(|file| file.path == input.name)) {
        return Err(ArchiveError::layout(format!("the archive has a file {} already", input.name)));
    }
    let (sources, failed) = open_all(inputs, observer).await;
    let layout = description.layout.clone();
    let group_sensors = match sources.first() {
        Some(first) => group_sensors(&sources, &Table::new(layout.clone(), first.schema.clone(), Vec::new())?),
        None => usize::MAX,
    };
    let settings = Settings { codebook, bound, group_sensors };
    let mut work = Work::new(store, folder, &settings, &layout, &description.series, threads, observer, &sources);
    let mut report = work.run(&sources, failed, true).await?;
    report.dictionary_bytes = manifest.dictionary.bytes;
    manifest.history.push(HistoryEntry::new("append", &report.files));
    manifest.files.extend(report.files.iter().cloned());
    manifest.write(store.as_ref(), folder).await?;
    Ok(report)
}

async fn open_all(inputs: &[Input], observer: &dyn JobObserver) -> (Vec<Source>, Vec<(String, ArchiveError)>) {
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
    let files: Vec<(String, String)> = sources.iter().map(|s| (s.input.name.clone(), s.identity())).collect();
    let atoms = job.dictionary.as_ref().map(|dictionary| {
        let bytes: Vec<u8> = dictionary.atoms().iter().flat_map(|value| value.to_le_bytes()).collect();
        hash_text(&bytes)
    });
    let text = serde_json::to_string(&(FORMAT_VERSION, files, layout, job.bound, &job.learn, atoms))?;
    Ok(format!("{:032x}", XxHash3_128::oneshot(text.as_bytes())))
}

/// The dictionary of an earlier run of the same job.
async fn unfinished(store: &Arc<dyn ObjectStore>, folder: &Path, job: &str) -> Result<Option<(Codebook, Description, Bytes)>> {
    let bytes = match store.get(&folder.clone().join(dictionary_file::FILE_NAME)).await {
        Ok(found) => found.bytes().await?,
        Err(object_store::Error::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    match dictionary_file::read(bytes.clone()) {
        Ok((codebook, description)) if description.job == job => Ok(Some((codebook, description, bytes))),
        _ => Err(ArchiveError::OtherJob(folder.to_string())),
    }
}

fn find_layout(request: &LayoutRequest, schema: &SchemaRef) -> Result<Layout> {
    match request {
        LayoutRequest::Given(layout) => Ok(layout.clone()),
        LayoutRequest::Columns(patterns) => {
            let matches = |name: &str| patterns.iter().any(|pattern| matches_pattern(pattern, name));
            let fields = schema.fields().iter().filter(|field| matches(field.name()));
            let columns: Vec<String> = fields.map(|field| field.name().clone()).collect();
            if columns.is_empty() {
                return Err(ArchiveError::layout(format!("no column matches {}", patterns.join(", "))));
            }
            Ok(Layout::Wide { columns })
        }
        LayoutRequest::Find => {
            let is_vector = |field: &&Arc<arrow::datatypes::Field>| {
                item_type(field.data_type()).is_some_and(|item| Number::of(item).is_some())
            };
            let candidates: Vec<&str> =
                schema.fields().iter().filter(is_vector).map(|field| field.name().as_str()).collect();
            match candidates[..] {
                [column] => Ok(Layout::List { column: column.to_string() }),
                [] => Err(ArchiveError::layout(
                    "no column of lists of numbers; say where the values are: --columns 's*' (a column per sensor), \
                     --long time,series,value (a row per sensor and time) or --column x --window n (one series)",
                )),
                _ => Err(ArchiveError::layout(format!(
                    "several columns of lists of numbers: {}; choose one with --column",
                    candidates.join(", ")
                ))),
            }
        }
    }
}

/// `*` stands for anything.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or("");
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut last = None;
    for part in parts {
        last = Some(part);
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    match last {
        None => rest.is_empty(),
        Some(part) => name.len() >= first.len() + part.len() && name.ends_with(part),
    }
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

fn block_rows(table: &Table, sensors: usize) -> usize {
    match &table.layout {
        Layout::List { .. } | Layout::Wide { .. } => {
            (BLOCK_VALUES / sensors.max(1)).clamp(FEWEST_BLOCK_ROWS, MOST_BLOCK_ROWS)
        }
        Layout::Long { .. } => BLOCK_VALUES,
        Layout::Window { length, .. } => (BLOCK_VALUES / length).max(1) * length,
    }
}

/// Learns a dictionary from rows spread over all files.
async fn learn_from(table: &Table, sources: &[Source], job: &Job, observer: &dyn JobObserver) -> Result<(Codebook, Vec<String>, u64)> {
    let parts: Vec<(usize, usize)> =
        sources.iter().enumerate().flat_map(|(i, s)| (0..s.row_groups).map(move |group| (i, group))).collect();
    let stride = parts.len().div_ceil(SAMPLED_PARTS).max(1);
    // A row of the long layout is one value, and a window takes many rows.
    let rows = match &table.layout {
        Layout::Long { .. } | Layout::Window { .. } => BLOCK_VALUES,
        _ => SAMPLED_ROWS * SAMPLED_PARTS / parts.len().clamp(1, SAMPLED_PARTS),
    };
    let mut batches = Vec::new();
    for (source, group) in parts.iter().step_by(stride) {
        let source = &sources[*source];
        let same = source.schema.fields() == table.schema.fields();
        let mut stream = source.batches(Some(vec![*group]), Some(rows), rows).await?;
        while let Some(batch) = stream.next().await {
            if same {
                batches.push(batch.map_err(|error| error.at(&source.input.name))?);
            }
        }
    }
    let rows: u64 = sources.iter().map(|source| source.rows).sum();
    let signals = match &table.layout {
        Layout::Window { length, .. } => rows / *length as u64,
        Layout::Long { .. } => rows / 8,
        _ => rows,
    };
    let learned = learn(table, &batches, job.bound, &job.learn, signals, observer)?;
    Ok((learned.codebook, learned.series, learned.signals))
}

/// The part of a job that turns files into data files.
struct Work<'a> {
    store: &'a Arc<dyn ObjectStore>,
    folder: &'a Path,
    settings: &'a Settings,
    layout: &'a Layout,
    series: &'a [String],
    threads: usize,
    observer: &'a dyn JobObserver,
    progress: JobProgress,
}

impl<'a> Work<'a> {
    #[expect(clippy::too_many_arguments, reason = "all of them are what a job consists of")]
    fn new(
        store: &'a Arc<dyn ObjectStore>,
        folder: &'a Path,
        settings: &'a Settings,
        layout: &'a Layout,
        series: &'a [String],
        threads: usize,
        observer: &'a dyn JobObserver,
        sources: &[Source],
    ) -> Self {
        let total_rows = sources.iter().map(|source| source.rows).sum();
        let progress = JobProgress { rows: 0, total_rows, bytes_in: 0, bytes_out: 0 };
        Self { store, folder, settings, layout, series, threads: threads.max(1), observer, progress }
    }

    async fn run(&mut self, sources: &[Source], failed: Vec<(String, ArchiveError)>, resume: bool) -> Result<JobReport> {
        let failed = failed.into_iter().map(|(name, error)| (name, error.to_string())).collect();
        let mut report = JobReport { files: Vec::new(), resumed: 0, failed, dictionary_bytes: 0 };
        for source in sources {
            if resume && let Some(entry) = self.finished(source).await? {
                self.progress.rows += source.rows;
                report.resumed += 1;
                report.files.push(entry);
                continue;
            }
            match self.file(source).await {
                Ok(entry) => report.files.push(entry),
                Err(error @ (ArchiveError::Cancelled | ArchiveError::Store(_))) => return Err(error),
                Err(error) => {
                    self.observer.on_failure(&source.input.name, &error);
                    report.failed.push((source.input.name.clone(), error.to_string()));
                }
            }
        }
        Ok(report)
    }

    fn target(&self, source: &Source) -> Path {
        source.input.name.split('/').fold(self.folder.clone(), |path, part| path.join(part))
    }

    /// The entry of a data file that an earlier run has finished.
    async fn finished(&self, source: &Source) -> Result<Option<FileEntry>> {
        let path = self.target(source);
        let bytes = match self.store.get(&path).await {
            Ok(found) => found.bytes().await?,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // Whatever cannot be read is not finished.
        let Ok(footer) = fetch_footer(self.store.as_ref(), &path, bytes.len() as u64).await else { return Ok(None) };
        let codebook = Some(self.settings.codebook.as_ref());
        let Ok(file) = DataFile::new(self.store.clone(), path, &footer, self.series, codebook) else { return Ok(None) };
        let hash = format!("{:032x}", XxHash3_128::oneshot(&bytes));
        match &file.coded {
            Some(coded) if coded.footer.source == source.identity() => {
                Ok(Some(self.entry(source, bytes.len() as u64, hash, &footer, coded.footer.error, None)))
            }
            None if footer == source.footer && bytes.len() as u64 == source.bytes => {
                let hashes = chunk_hashes(&bytes, &footer)?;
                Ok(Some(self.entry(source, bytes.len() as u64, hash, &footer, ErrorSums::default(), Some(hashes))))
            }
            _ => Ok(None),
        }
    }

    fn entry(&self, source: &Source, bytes: u64, hash: String, footer: &[u8], error: ErrorSums, stored: Option<Vec<Vec<String>>>) -> FileEntry {
        FileEntry {
            path: source.input.name.clone(),
            rows: source.rows,
            bytes,
            hash,
            footer_bytes: footer.len() as u64,
            footer: footer_hash(footer),
            source_bytes: source.bytes,
            source: source.identity(),
            stored,
            error,
        }
    }

    /// Compresses one file; it is stored as it was if that is not larger.
    async fn file(&mut self, source: &Source) -> Result<FileEntry> {
        let table = Table::new(self.layout.clone(), source.schema.clone(), self.series.to_vec())?;
        if has_description(&source.footer)? {
            return Err(ArchiveError::layout("this is a data file of an archive already; give the original table"));
        }
        let path = self.target(source);
        let upload = self.store.put_multipart(&path).await?;
        let mut output = Output::new(WriteMultipart::new(upload));
        match self.blocks(source, &table, &mut output).await {
            Ok((footer, error)) if output.length <= worthwhile(source.bytes) || source.rows == 0 => {
                let (length, hash) = (output.length, output.hash());
                output.upload.finish().await?;
                Ok(self.entry(source, length, hash, &footer, error, None))
            }
            Ok(_) => {
                output.upload.abort().await?;
                self.store_as_it_was(source, &path).await
            }
            Err(error) => {
                output.upload.abort().await?;
                Err(error)
            }
        }
    }

    /// Codes a file block by block, some of them at a time. Gives the footer's bytes.
    async fn blocks(&mut self, source: &Source, table: &Table, output: &mut Output) -> Result<(Bytes, ErrorSums)> {
        let sensors = self.settings.codebook.sensors();
        if let Some(fixed) = table.fixed_sensors().filter(|fixed| *fixed != sensors) {
            return Err(ArchiveError::layout(format!("{fixed} sensors, but the dictionary has {sensors}")));
        }
        let rows = block_rows(table, sensors);
        let mut writer: Option<DataFileWriter> = None;
        let new_writer = |first: Option<&RecordBatch>| DataFileWriter::new(table, self.settings, source.identity(), first);
        let batches = source.batches(None, None, rows.min(READ_ROWS)).await?;
        let blocks = read_ahead(in_blocks(batches, source.schema.clone(), rows), self.threads);
        let coded = blocks.map(|block| {
            let (table, settings) = (table.clone(), self.settings.clone());
            async move {
                let block = block?;
                let work = move || -> Result<_> {
                    let length = matches!(table.layout, Layout::List { .. }).then(|| settings.codebook.sensors());
                    let (cells, placement) = table.cells(&block, length)?;
                    let groups = table.groups(placement.sensors.max(settings.codebook.sensors()), settings.group_sensors);
                    let coded = block::encode(&settings.codebook, &groups, settings.bound, &cells)?;
                    Ok((block, placement, coded))
                };
                tokio::task::spawn_blocking(work).await.map_err(|error| ArchiveError::Io(std::io::Error::other(error)))?
            }
        });
        // One more than there are threads: while a block is written the others are coded.
        let mut coded = std::pin::pin!(coded.buffered(self.threads + 1));
        let mut done = 0;
        while let Some(block) = coded.next().await {
            if self.observer.is_cancelled() {
                return Err(ArchiveError::Cancelled);
            }
            let (rows, placement, block) = block.map_err(|error| in_file_from(error, done))?;
            let writer = match &mut writer {
                Some(writer) => writer,
                none => none.insert(new_writer(Some(&rows))?),
            };
            output.write(writer.write(&rows, &placement, &block)?).await?;
            done += rows.num_rows() as u64;
            self.progress.rows += rows.num_rows() as u64;
            self.progress.bytes_in += 8 * block.error.values;
            self.progress.bytes_out += output.length - output.reported;
            output.reported = output.length;
            self.observer.on_progress(&self.progress);
        }
        let writer = match writer {
            Some(writer) => writer,
            None => new_writer(None)?,
        };
        let (end, error) = writer.finish()?;
        output.write(end.clone()).await?;
        let footer = last_footer(&end)?;
        Ok((footer, error))
    }

    async fn store_as_it_was(&self, source: &Source, path: &Path) -> Result<FileEntry> {
        let bytes = source.input.store.get(&source.input.path).await?.bytes().await?;
        let hashes = chunk_hashes(&bytes, &source.footer)?;
        let hash = format!("{:032x}", XxHash3_128::oneshot(&bytes));
        self.store.put(path, bytes.into()).await?;
        Ok(self.entry(source, source.bytes, hash, &source.footer, ErrorSums::default(), Some(hashes)))
    }
}

/// Codes must save a twentieth: a table that is stored as it was is simpler to read.
fn worthwhile(bytes: u64) -> u64 {
    bytes - bytes / 20
}

/// Says from which row of the file on a block failed.
fn in_file_from(error: ArchiveError, row: u64) -> ArchiveError {
    match error {
        ArchiveError::Layout(what) if row > 0 => ArchiveError::Layout(format!("{what} (the block begins at row {row})")),
        other => other,
    }
}

fn has_description(footer: &[u8]) -> Result<bool> {
    let metadata = parse_footer(footer)?;
    let pairs = metadata.file_metadata().key_value_metadata();
    let ours = |text: &String| Footer::parse(text).is_ok();
    Ok(pairs.is_some_and(|pairs| pairs.iter().any(|pair| pair.key == KEY && pair.value.as_ref().is_some_and(ours))))
}

/// The footer at the end of a file's last bytes.
fn last_footer(end: &[u8]) -> Result<Bytes> {
    let cut = || ArchiveError::corrupt("no footer was written");
    let length = end.len().checked_sub(8).ok_or_else(cut)?;
    // Cannot fail: the slice has four bytes.
    let metadata = u32::from_le_bytes(end[length..length + 4].try_into().unwrap()) as usize;
    let start = length.checked_sub(metadata).ok_or_else(cut)?;
    Ok(Bytes::copy_from_slice(&end[start..]))
}

/// The hashes of all column chunks of a file.
fn chunk_hashes(bytes: &[u8], footer: &[u8]) -> Result<Vec<Vec<String>>> {
    let metadata = parse_footer(footer)?;
    let groups = metadata.row_groups().iter().map(|group| {
        let chunk = |chunk: &parquet::file::metadata::ColumnChunkMetaData| {
            let (start, length) = chunk.byte_range();
            let range = start as usize..(start + length) as usize;
            bytes.get(range).map(hash_text).ok_or_else(|| ArchiveError::corrupt("a column chunk is missing"))
        };
        group.columns().iter().map(chunk).collect()
    });
    groups.collect()
}

/// Bytes on their way out, and what is known of them.
struct Output {
    upload: WriteMultipart,
    length: u64,
    /// What the observer knows of.
    reported: u64,
    hasher: Hasher128,
}

impl Output {
    fn new(upload: WriteMultipart) -> Self {
        Self { upload, length: 0, reported: 0, hasher: Hasher128::new() }
    }

    async fn write(&mut self, bytes: Vec<u8>) -> Result<()> {
        const PARTS_IN_FLIGHT: usize = 2;
        self.upload.wait_for_capacity(PARTS_IN_FLIGHT).await?;
        self.length += bytes.len() as u64;
        self.hasher.write(&bytes);
        self.upload.put(bytes.into());
        Ok(())
    }

    fn hash(&self) -> String {
        format!("{:032x}", self.hasher.finish_128())
    }
}

/// Reads in a task of its own, so that coding need not wait for it.
fn read_ahead(
    blocks: impl futures::Stream<Item = Result<RecordBatch>> + Send + 'static,
    waiting: usize,
) -> impl futures::Stream<Item = Result<RecordBatch>> {
    let (sender, receiver) = tokio::sync::mpsc::channel(waiting.max(1));
    let task = tokio::spawn(async move {
        let mut blocks = std::pin::pin!(blocks);
        while let Some(block) = blocks.next().await {
            // Nobody waits for more after an error or a cancellation.
            if sender.send(block).await.is_err() {
                return;
            }
        }
    });
    futures::stream::unfold((receiver, task), |(mut receiver, task)| async move {
        let block = receiver.recv().await?;
        Some((block, (receiver, task)))
    })
}

/// Batches put together, or cut, to blocks of so many rows.
fn in_blocks(
    batches: BoxStream<'static, Result<RecordBatch>>,
    schema: SchemaRef,
    rows: usize,
) -> impl futures::Stream<Item = Result<RecordBatch>> {
    let state = (batches, Vec::<RecordBatch>::new(), 0usize, schema);
    futures::stream::try_unfold(state, move |(mut batches, mut waiting, mut count, schema)| async move {
        while count < rows {
            match batches.try_next().await? {
                Some(batch) => {
                    count += batch.num_rows();
                    waiting.push(batch);
                }
                None => break,
            }
        }
        if count == 0 {
            return Ok(None);
        }
        let mut block = Vec::new();
        let mut missing = rows.min(count);
        while missing > 0 {
            let batch = waiting.remove(0);
            let taken = batch.num_rows().min(missing);
            block.push(batch.slice(0, taken));
            if taken < batch.num_rows() {
                waiting.insert(0, batch.slice(taken, batch.num_rows() - taken));
            }
            missing -= taken;
            count -= taken;
        }
        let block = concat_batches(&schema, &block)?;
        Ok(Some((block, (batches, waiting, count, schema))))
    })
}
