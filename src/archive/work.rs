//! From tables to data files, one after the other.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, WriteMultipart};
use twox_hash::xxhash3_128::Hasher as Hasher128;

use super::block::{self, CodedBlock};
use super::compress::{JobObserver, JobProgress, JobReport};
use super::data_file::DataFile;
use super::data_file_writer::{DataFileWriter, Settings};
use super::error_sums::ErrorSums;
use super::footer::{Footer, KEY};
use super::layout::{Layout, Placement, Table};
use super::manifest::{FileEntry, chunk_hash, hash_of, place};
use super::parquet_footer::{fetch_footer, footer_length, parse_footer};
use super::source::{READ_ROWS, Source, in_blocks, read_ahead};
use super::{ArchiveError, Result};

/// Values in a block: enough for residuals to know their neighbours, few enough to read a part of a table.
pub(super) const BLOCK_VALUES: usize = 1 << 20;
const FEWEST_BLOCK_ROWS: usize = 64;
/// Rows of a block where a row is a signal.
const MOST_BLOCK_ROWS: usize = 1 << 16;
/// Cells of a block, absent ones included: where there are more it is divided.
const MOST_CELLS: usize = 1 << 22;

/// The part of a job that turns files into data files.
pub(super) struct Work<'a> {
    pub store: &'a Arc<dyn ObjectStore>,
    pub folder: &'a Path,
    pub settings: &'a Settings,
    pub layout: &'a Layout,
    pub series: &'a [String],
    /// The columns that all tables of an archive have.
    pub schema: &'a SchemaRef,
    pub threads: usize,
    pub observer: &'a dyn JobObserver,
    pub progress: JobProgress,
    /// Whether to take over what an earlier run has finished.
    pub resume: bool,
}

impl Work<'_> {
    pub async fn run(
        &mut self,
        sources: &[Source],
        failed: Vec<(String, ArchiveError)>,
    ) -> Result<JobReport> {
        let failed = failed.into_iter().map(|(name, error)| (name, error.to_string())).collect();
        let mut report = JobReport { files: Vec::new(), resumed: 0, failed, dictionary_bytes: 0 };
        for source in sources {
            if self.resume
                && let Some(entry) = self.finished(source).await?
            {
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

    fn target(&self, source: &Source) -> Result<Path> {
        place(self.folder, &source.input.name)
    }

    /// The entry of a data file that an earlier run has finished.
    async fn finished(&self, source: &Source) -> Result<Option<FileEntry>> {
        let path = self.target(source)?;
        let (length, hash) = match hash_file(self.store, &path).await {
            Ok(found) => found,
            Err(ArchiveError::Store(object_store::Error::NotFound { .. })) => return Ok(None),
            Err(error) => return Err(error),
        };
        // Whatever cannot be read is not finished.
        let Ok(footer) = fetch_footer(self.store.as_ref(), &path, length).await else { return Ok(None) };
        let codebook = Some(self.settings.codebook.as_ref());
        let Ok(file) = DataFile::new(self.store.clone(), path.clone(), &footer, self.series, codebook) else {
            return Ok(None);
        };
        match &file.coded {
            Some(coded) if coded.footer.source == source.identity() => {
                Ok(Some(self.entry(source, length, hash, &footer, coded.footer.error, None)))
            }
            None if footer == source.footer && length == source.bytes => {
                let hashes = chunk_hashes(self.store, &path, &footer).await?;
                Ok(Some(self.entry(source, length, hash, &footer, ErrorSums::default(), Some(hashes))))
            }
            _ => Ok(None),
        }
    }

    fn entry(
        &self,
        source: &Source,
        bytes: u64,
        hash: String,
        footer: &[u8],
        error: ErrorSums,
        stored: Option<Vec<Vec<String>>>,
    ) -> FileEntry {
        FileEntry {
            path: source.input.name.clone(),
            rows: source.rows,
            bytes,
            hash,
            footer_bytes: footer.len() as u64,
            footer: hash_of(footer),
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
            return Err(ArchiveError::layout(
                "this is a data file of an archive already; give the original table",
            ));
        }
        if source.schema.fields() != self.schema.fields() {
            return Err(ArchiveError::layout(other_columns(&source.schema, self.schema)));
        }
        let path = self.target(source)?;
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
    async fn blocks(
        &mut self,
        source: &Source,
        table: &Table,
        output: &mut Output,
    ) -> Result<(Bytes, ErrorSums)> {
        let sensors = self.settings.codebook.sensors();
        if let Some(fixed) = table.fixed_sensors().filter(|fixed| *fixed != sensors) {
            return Err(ArchiveError::layout(format!("{fixed} sensors, but the dictionary has {sensors}")));
        }
        let rows = block_rows(table, sensors);
        let mut writer: Option<DataFileWriter> = None;
        let new_writer =
            |first: Option<&RecordBatch>| DataFileWriter::new(table, self.settings, source.identity(), first);
        let batches = source.batches(None, None, rows.min(READ_ROWS)).await?;
        let blocks = read_ahead(in_blocks(batches, source.schema.clone(), rows), self.threads);
        let coded = blocks.map(|block| {
            let (table, settings) = (table.clone(), self.settings.clone());
            async move {
                let block = block?;
                let work = move || code_rows(&table, &settings, block);
                tokio::task::spawn_blocking(work)
                    .await
                    .map_err(|error| ArchiveError::Io(std::io::Error::other(error)))?
            }
        });
        // One more than there are threads: while a block is written the others are coded.
        let mut coded = std::pin::pin!(coded.buffered(self.threads + 1));
        let mut done = 0;
        while let Some(block) = coded.next().await {
            if self.observer.is_cancelled() {
                return Err(ArchiveError::Cancelled);
            }
            for (rows, placement, block) in block.map_err(|error| in_file(error, done))? {
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
            }
            self.observer.on_progress(&self.progress);
        }
        // Reading in a task of its own must not end unnoticed.
        if done != source.rows {
            return Err(ArchiveError::NotParquet(format!(
                "only {done} of {} rows could be read",
                source.rows
            )));
        }
        let writer = match writer {
            Some(writer) => writer,
            None => new_writer(None)?,
        };
        let (end, error) = writer.finish()?;
        output.write(end.clone()).await?;
        let start = end.len().checked_sub(footer_length(&end)? as usize);
        let start = start.ok_or_else(|| ArchiveError::corrupt("no footer was written"))?;
        Ok((Bytes::copy_from_slice(&end[start..]), error))
    }

    async fn store_as_it_was(&self, source: &Source, path: &Path) -> Result<FileEntry> {
        let (from, original) = (&source.input.store, &source.input.path);
        let hashes = chunk_hashes(from, original, &source.footer).await?;
        let mut output = Output::new(WriteMultipart::new(self.store.put_multipart(path).await?));
        let mut bytes = from.get(original).await?.into_stream();
        while let Some(part) = bytes.try_next().await? {
            output.write(part.to_vec()).await?;
        }
        let (length, hash) = (output.length, output.hash());
        output.upload.finish().await?;
        Ok(self.entry(source, length, hash, &source.footer, ErrorSums::default(), Some(hashes)))
    }
}

/// A row group: its rows, where their signals are, and their codes.
type CodedRows = (RecordBatch, Placement, CodedBlock);

/// Codes rows, in two halves where they have too many cells for one block.
fn code_rows(table: &Table, settings: &Settings, rows: RecordBatch) -> Result<Vec<CodedRows>> {
    let sensors = settings.codebook.sensors();
    let length = matches!(table.layout, Layout::List { .. }).then_some(sensors);
    let placement = table.place_rows(&rows, length)?;
    let count = rows.num_rows();
    if placement.signals().saturating_mul(placement.sensors) > MOST_CELLS && count > 1 {
        drop(placement);
        let mut coded = code_rows(table, settings, rows.slice(0, count / 2))?;
        coded.extend(code_rows(table, settings, rows.slice(count / 2, count - count / 2))?);
        return Ok(coded);
    }
    let cells = table.cells(&rows, &placement)?;
    let groups = table.groups(placement.sensors.max(sensors), settings.group_sensors);
    let coded = block::encode(&settings.codebook, &groups, settings.bound, &cells)?;
    Ok(vec![(rows, placement, coded)])
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

/// How a table's columns differ from those of the archive.
fn other_columns(found: &SchemaRef, expected: &SchemaRef) -> String {
    let differs = found.fields().iter().find(|field| !expected.fields().iter().any(|other| other == *field));
    let missing = expected.fields().iter().find(|field| !found.fields().iter().any(|other| other == *field));
    let what = match (differs, missing) {
        (Some(field), _) => format!("column {} ({}) is not one of them", field.name(), field.data_type()),
        (None, Some(field)) => format!("column {} ({}) is missing", field.name(), field.data_type()),
        (None, None) => "their order is another".to_string(),
    };
    format!("its columns are not those of the archive's other tables: {what}")
}

/// Codes must save a twentieth: a table that is stored as it was is simpler to read.
fn worthwhile(bytes: u64) -> u64 {
    bytes - bytes / 20
}

/// Numbers rows from the beginning of the file.
fn in_file(error: ArchiveError, first: u64) -> ArchiveError {
    match error {
        ArchiveError::Ragged { column, row, expected, found } => {
            ArchiveError::Ragged { column, row: first + row, expected, found }
        }
        other => other,
    }
}

fn has_description(footer: &[u8]) -> Result<bool> {
    let metadata = parse_footer(footer)?;
    let pairs = metadata.file_metadata().key_value_metadata();
    let ours = |text: &String| Footer::parse(text).is_ok();
    Ok(pairs.is_some_and(|pairs| {
        pairs.iter().any(|pair| pair.key == KEY && pair.value.as_ref().is_some_and(ours))
    }))
}

/// The hashes of all column chunks of a file.
async fn chunk_hashes(store: &Arc<dyn ObjectStore>, path: &Path, footer: &[u8]) -> Result<Vec<Vec<String>>> {
    let metadata = parse_footer(footer)?;
    let mut groups = Vec::with_capacity(metadata.num_row_groups());
    for group in metadata.row_groups() {
        let mut hashes = Vec::with_capacity(group.num_columns());
        for chunk in group.columns() {
            let (start, length) = chunk.byte_range();
            hashes.push(chunk_hash(&store.get_range(path, start..start + length).await?));
        }
        groups.push(hashes);
    }
    Ok(groups)
}

/// The length and the XXH3-128 of a file, read piece by piece.
pub(super) async fn hash_file(store: &Arc<dyn ObjectStore>, path: &Path) -> Result<(u64, String)> {
    let mut bytes = store.get(path).await?.into_stream();
    let mut hasher = Hasher128::new();
    let mut length = 0;
    while let Some(part) = bytes.try_next().await? {
        hasher.write(&part);
        length += part.len() as u64;
    }
    Ok((length, format!("{:032x}", hasher.finish_128())))
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
