//! A Parquet file that is read block by block.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::concat_batches;
use arrow::datatypes::{FieldRef, SchemaRef};
use arrow::error::ArrowError;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryFutureExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use parquet::arrow::arrow_reader::{ArrowReaderBuilder, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::arrow::{ParquetRecordBatchStreamBuilder, ProjectionMask};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use tokio::runtime::Handle;

use super::data_file::DataFile;
use super::declared::readable_as;
use super::footer::Footer;
use super::job::Input;
use super::list_column::ListColumn;
use super::manifest::hash_of;
use super::parquet_footer::{chunk_ranges, fetch_footer, parse_footer};
use super::parquet_types::arrow_metadata;
use super::windows::{LARGE_BYTES, Windows};
use super::{ArchiveError, Result};
use crate::columnar::conform;

/// Rows read at a time.
pub(super) const READ_ROWS: usize = 4096;
/// Bytes of a block, about: several blocks are in memory at a time, with columns that may be of any size.
const BLOCK_BYTES: usize = 64 << 20;

/// An input whose footer is known.
#[derive(Clone)]
pub(super) struct Source {
    pub input: Input,
    pub bytes: u64,
    pub footer: Bytes,
    pub metadata: Arc<ParquetMetaData>,
    pub rows: u64,
    pub row_groups: usize,
    /// The columns that rows are read with.
    pub schema: SchemaRef,
    /// When it was written, in milliseconds.
    modified: i64,
    /// Row groups of more bytes are not fetched as a whole.
    pub large_bytes: u64,
}

impl Source {
    pub async fn open(input: &Input) -> Result<Self> {
        let found = input.store.head(&input.path).await?;
        let (bytes, modified) = (found.size, found.last_modified.timestamp_millis());
        if bytes == 0 {
            return Err(ArchiveError::NotParquet("it is empty".to_string()));
        }
        let footer = fetch_footer(input.store.as_ref(), &input.path, bytes).await?;
        let metadata = Arc::new(parse_footer(&footer, bytes)?);
        if Footer::is_in(&metadata) {
            return Err(ArchiveError::layout(
                "this is a data file of an archive already; give the original table",
            ));
        }
        let (rows, row_groups) =
            (metadata.file_metadata().num_rows().max(0) as u64, metadata.num_row_groups());
        let in_groups = metadata
            .row_groups()
            .iter()
            .try_fold(0u64, |all, group| all.checked_add(group.num_rows().max(0) as u64));
        if in_groups != Some(rows) {
            let in_groups = in_groups.map_or("more than can be".to_string(), |rows| rows.to_string());
            let told = format!("its footer tells of {rows} rows, its row groups of {in_groups}");
            return Err(ArchiveError::NotParquet(told));
        }
        let file = DataFile::new(input.store.clone(), input.path.clone(), &footer, bytes, &[], None)?;
        Ok(Self {
            input: input.clone(),
            bytes,
            footer,
            metadata,
            rows,
            row_groups,
            schema: file.schema,
            modified,
            large_bytes: LARGE_BYTES,
        })
    }

    /// Reads rows with these columns from now on, if that is possible.
    pub fn read_as(&mut self, schema: &SchemaRef) {
        if readable_as(&self.metadata, &self.schema, schema) {
            self.schema = schema.clone();
        }
    }

    /// What a job that was stopped knows the file by.
    pub fn state(&self) -> (String, String, i64) {
        (self.input.name.clone(), self.identity(), self.modified)
    }

    /// What the file is known by: its footer tells where everything is, and what most of it is like.
    pub fn identity(&self) -> String {
        hash_of(&self.footer)
    }

    /// The rows of a row group.
    pub fn group_rows(&self, group: usize) -> usize {
        self.metadata.row_group(group).num_rows().max(0) as usize
    }

    /// The first row of a row group, in the file.
    pub fn first_row(&self, group: usize) -> usize {
        (0..group).map(|before| self.group_rows(before)).sum()
    }

    /// The row group that a row of the file is in, and its place there.
    pub fn group_at(&self, row: usize) -> (usize, usize) {
        let (mut group, mut offset) = (0, row);
        while group + 1 < self.row_groups && offset >= self.group_rows(group) {
            offset -= self.group_rows(group);
            group += 1;
        }
        (group, offset)
    }

    /// All rows that row groups have, whatever the file says as a whole.
    pub fn all_rows(&self) -> Rows {
        Rows { groups: 0..self.row_groups, offset: 0, count: self.first_row(self.row_groups) }
    }

    /// Reads all rows once, and keeps nothing of them: what is stored as it was must be a table all the same.
    pub async fn read_through(&self, is_cancelled: impl Fn() -> bool) -> Result<()> {
        let mut batches = self.batches(&self.all_rows(), self.rows_at_a_time(READ_ROWS)).await?;
        let mut rows = 0;
        while let Some(batch) = batches.try_next().await? {
            if is_cancelled() {
                return Err(ArchiveError::Cancelled);
            }
            rows += batch.num_rows() as u64;
        }
        self.check_rows(rows)
    }

    /// Whether as many rows could be read as there should be. Reading in a task of its own must not end unnoticed.
    pub fn check_rows(&self, read: u64) -> Result<()> {
        if read != self.rows {
            return Err(ArchiveError::NotParquet(format!("only {read} of {} rows could be read", self.rows)));
        }
        Ok(())
    }

    /// Rows in batches of at most so many.
    pub async fn batches(&self, rows: &Rows, size: usize) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        Ok(read_ahead(self.batches_of(None, rows, size).await?).boxed())
    }

    /// The same of some columns.
    async fn batches_of(
        &self,
        columns: Option<&[usize]>,
        rows: &Rows,
        size: usize,
    ) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let leaves = self.metadata.file_metadata().schema_descr();
        let (mask, schema) = match columns {
            Some(columns) => {
                let mask = ProjectionMask::roots(leaves, columns.iter().copied());
                (mask, Arc::new(self.schema.project(columns)?))
            }
            None => (ProjectionMask::all(), self.schema.clone()),
        };
        let declared = move |batch| read_with(batch, &schema);
        let bytes_of = |group: usize| -> u64 {
            let ranges = chunk_ranges(self.metadata.row_group(group)).enumerate();
            let wanted = ranges.filter(|(leaf, _)| mask.leaf_included(*leaf));
            wanted.map(|(_, range)| range.end - range.start).sum()
        };
        if rows.groups.clone().any(|group| bytes_of(group) > self.large_bytes) {
            let is_wanted = |leaf| mask.leaf_included(leaf);
            let windows = Windows::new(&self.input, &self.metadata, rows.groups.clone(), is_wanted);
            let metadata = arrow_metadata(self.metadata.clone())?;
            let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(windows, metadata);
            let batches = futures::stream::iter(self.selected(builder, rows, size, mask).build()?);
            return Ok(batches.map(move |batch| declared(batch?)).boxed());
        }
        let Input { store, path, .. } = self.input.clone();
        let reader = StoredParquet { store, path, metadata: self.metadata.clone() };
        let builder = ParquetRecordBatchStreamBuilder::new(reader).await?;
        let batches = self.selected(builder, rows, size, mask).build()?;
        Ok(batches.map(move |batch| declared(batch?)).boxed())
    }

    /// Makes a reader read these rows.
    fn selected<T>(
        &self,
        builder: ArrowReaderBuilder<T>,
        rows: &Rows,
        size: usize,
        mask: ProjectionMask,
    ) -> ArrowReaderBuilder<T> {
        let mut builder = builder.with_batch_size(size).with_projection(mask);
        builder = builder.with_row_groups(rows.groups.clone().collect());
        // A selection takes time, even of all there is.
        if rows.offset > 0 {
            builder = builder.with_offset(rows.offset);
        }
        let there: usize = rows.groups.clone().map(|group| self.group_rows(group)).sum();
        if rows.count < there.saturating_sub(rows.offset) {
            builder = builder.with_limit(rows.count);
        }
        builder
    }

    /// Rows that are read at a time, of blocks of so many: fewer of those that are large.
    pub fn rows_at_a_time(&self, block: usize) -> usize {
        let largest = self
            .metadata
            .row_groups()
            .iter()
            .map(|group| group.total_byte_size().max(0) as u64 / group.num_rows().max(1) as u64);
        let affordable = BLOCK_BYTES as u64 / largest.max().unwrap_or(0).max(1);
        block.min(READ_ROWS).min(affordable.max(1) as usize)
    }

    /// Rows in blocks of so many, of units of so many that belong together. `lists` is the column that values are in, where these are lists.
    pub async fn blocks(
        &self,
        lists: Option<usize>,
        rows: Rows,
        block: usize,
        unit: usize,
    ) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let size = self.rows_at_a_time(block);
        let found = lists.and_then(|column| Some((column, ListColumn::new(self, column)?)));
        let Some((column, lists)) = found else {
            let batches = self.batches(&rows, size).await?;
            return Ok(in_blocks(batches, self.schema.clone(), block, unit).boxed());
        };
        let others: Vec<usize> = (0..self.schema.fields().len()).filter(|other| *other != column).collect();
        let batches = self.batches_of(Some(&others), &rows, size).await?;
        let others = in_blocks(batches, Arc::new(self.schema.project(&others)?), block, unit).boxed();
        let lists = lists.starting_at(rows.groups.start);
        let (source, skipped) = (self.clone(), rows.offset);
        let state = BlocksOfLists { source, others, column, lists, skipped, left: rows };
        let blocks = futures::stream::try_unfold(state, move |mut state| async move {
            Ok::<_, ArchiveError>(state.next(block).await?.map(|blocks| (blocks, state)))
        });
        Ok(blocks.try_flatten().boxed())
    }
}

/// Rows of a file.
#[derive(Debug, Clone)]
pub(super) struct Rows {
    /// The row groups they are in, and how many rows of these come before them.
    pub groups: Range<usize>,
    pub offset: usize,
    pub count: usize,
}

/// Blocks whose lists are read apart from the other columns.
struct BlocksOfLists {
    source: Source,
    others: BoxStream<'static, Result<RecordBatch>>,
    column: usize,
    lists: ListColumn,
    /// Rows whose lists are to be left out first.
    skipped: usize,
    /// Rows that were not read yet.
    left: Rows,
}

impl BlocksOfLists {
    /// The next block; or, where lists turn out to be out of the ordinary, Arrow's reader does the rest.
    async fn next(&mut self, block: usize) -> Result<Option<BoxStream<'static, Result<RecordBatch>>>> {
        let Some(others) = self.others.try_next().await? else { return Ok(None) };
        if let Some(values) = self.next_lists(others.num_rows()).await? {
            let schema = &self.source.schema;
            let mut columns = others.columns().to_vec();
            columns.insert(self.column, conform(values, schema.field(self.column))?);
            let block = RecordBatch::try_new(schema.clone(), columns)?;
            return Ok(Some(futures::stream::once(std::future::ready(Ok(block))).boxed()));
        }
        self.others = futures::stream::empty().boxed();
        let rest = self.source.batches(&self.left, self.source.rows_at_a_time(block)).await?;
        Ok(Some(in_blocks(rest, self.source.schema.clone(), block, 1).boxed()))
    }

    async fn next_lists(&mut self, count: usize) -> Result<Option<ArrayRef>> {
        if !self.lists.skip(std::mem::take(&mut self.skipped)).await? {
            return Ok(None);
        }
        let found = self.lists.read(count).await?;
        if found.is_some() {
            self.left.offset += count;
            self.left.count = self.left.count.saturating_sub(count);
        }
        Ok(found)
    }
}

/// A batch with its columns as they are declared in a schema.
fn read_with(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let declared = |(column, field): (&ArrayRef, &FieldRef)| -> Result<ArrayRef> {
        conform(column.clone(), field)
            .map_err(|error| ArchiveError::layout(format!("column {}: {error}", field.name())))
    };
    let columns = batch.columns().iter().zip(schema.fields()).map(declared).collect::<Result<_>>()?;
    Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?)
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

    fn get_byte_ranges(
        &mut self,
        ranges: Vec<Range<u64>>,
    ) -> BoxFuture<'_, std::result::Result<Vec<Bytes>, ParquetError>> {
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

/// Reads on a thread of its own, so that coding need not wait for it, and that damage which makes a decoder panic is an
/// error. One block waits for coding, no more: memory that is touched for the first time takes long to get.
pub(super) fn read_ahead(
    blocks: impl futures::Stream<Item = Result<RecordBatch>> + Send + 'static,
) -> impl futures::Stream<Item = Result<RecordBatch>> {
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    let read = async move {
        let mut blocks = std::pin::pin!(blocks);
        while let Some(block) = blocks.next().await {
            // Nobody waits for more after an error or a cancellation.
            if sender.send(block).await.is_err() {
                return;
            }
        }
    };
    // Decoding takes long, and large row groups are waited for while they are decoded.
    let runtime = Handle::current();
    let task = tokio::task::spawn_blocking(move || runtime.block_on(read));
    let blocks = futures::stream::unfold((receiver, Some(task)), |(mut receiver, mut task)| async move {
        if let Some(block) = receiver.recv().await {
            return Some((block, (receiver, task)));
        }
        let error = task.take()?.await.err()?;
        Some((Err(undecodable(error)), (receiver, task)))
    });
    // Whoever puts blocks together asks once more after the last one.
    blocks.fuse()
}

/// What has ended a task that reads.
pub(super) fn undecodable(error: tokio::task::JoinError) -> ArchiveError {
    ArchiveError::NotParquet(format!("its pages cannot be decoded: {error}"))
}

/// Batches put together, or cut, to blocks of so many rows; fewer where rows are large, but whole units of so many.
pub(super) fn in_blocks(
    batches: BoxStream<'static, Result<RecordBatch>>,
    schema: SchemaRef,
    rows: usize,
    unit: usize,
) -> impl futures::Stream<Item = Result<RecordBatch>> {
    let state = (batches, Vec::<RecordBatch>::new(), 0usize, schema);
    futures::stream::try_unfold(state, move |(mut batches, mut waiting, mut count, schema)| async move {
        let (mut bytes, mut is_end) = (0, false);
        while count < rows && (bytes < BLOCK_BYTES || count < unit) {
            match batches.try_next().await? {
                Some(batch) => {
                    count += batch.num_rows();
                    bytes += batch.get_array_memory_size();
                    waiting.push(batch);
                }
                None => {
                    is_end = true;
                    break;
                }
            }
        }
        if count == 0 {
            return Ok(None);
        }
        let mut block = Vec::new();
        let mut missing = if is_end || count >= rows { rows.min(count) } else { count / unit * unit };
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
        let whole = match concat_batches(&schema, &block) {
            // Different values of row groups or files are too many for one dictionary.
            Err(ArrowError::DictionaryKeyOverflowError) if block.len() > 1 => {
                let mut first = block.remove(0);
                if first.num_rows() > unit && first.num_rows() % unit > 0 {
                    let whole = first.num_rows() / unit * unit;
                    block.insert(0, first.slice(whole, first.num_rows() - whole));
                    first = first.slice(0, whole);
                }
                count += block.iter().map(RecordBatch::num_rows).sum::<usize>();
                waiting.splice(..0, block);
                first
            }
            whole => whole?,
        };
        Ok(Some((whole, (batches, waiting, count, schema))))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::StringArray;

    /// Else all windows after the first block would begin at another hour.
    #[tokio::test]
    async fn blocks_of_large_rows_are_whole_units() {
        let large = "x".repeat(BLOCK_BYTES / 2 + 1);
        let batch = || {
            let texts = (0..100).map(|row| Some(if row == 0 { large.as_str() } else { "" }));
            RecordBatch::try_from_iter([("text", Arc::new(StringArray::from_iter(texts)) as ArrayRef)])
        };
        let batches: Vec<RecordBatch> = (0..3).map(|_| batch().expect("a batch")).collect();
        let schema = batches[0].schema();
        for (unit, expected) in [(1, vec![200, 100]), (30, vec![180, 120]), (250, vec![250, 50])] {
            let batches = futures::stream::iter(batches.clone()).map(Ok).boxed();
            let blocks: Vec<RecordBatch> =
                in_blocks(batches, schema.clone(), 1000, unit).try_collect().await.expect("blocks");
            assert_eq!(blocks.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), expected, "unit {unit}");
        }
    }

    /// What its footer says is believed only where its pages say so too.
    #[tokio::test]
    async fn rows_that_are_claimed_must_be_there() {
        use object_store::memory::InMemory;
        use parquet::arrow::ArrowWriter;
        use parquet::file::metadata::{ParquetMetaDataWriter, RowGroupMetaData};

        let numbers = Arc::new(arrow::array::Int64Array::from_iter_values(0..1000)) as ArrayRef;
        let batch = RecordBatch::try_from_iter([("i", numbers)]).expect("a batch");
        let mut file = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), None).expect("a writer");
        writer.write(&batch).expect("written");
        let metadata = writer.close().expect("closed");
        let end = file.len() as u64 - crate::archive::parquet_footer::footer_length(&file).expect("a footer");
        // As many bytes as are needed, seven bits each, after a shift for the sign.
        let number = |rows: u64| -> Vec<u8> {
            let (mut left, mut bytes) = (rows << 1, Vec::new());
            while left >= 0x80 {
                bytes.push(left as u8 | 0x80);
                left >>= 7;
            }
            bytes.push(left as u8);
            bytes
        };
        // The field of rows comes before that of row groups.
        let field = |rows: u64| [&[0x16][..], &number(rows), &[0x19]].concat();
        let forged = |rows: u64, in_group: Option<u64>| -> Bytes {
            let groups: Vec<RowGroupMetaData> = in_group
                .map(|rows| {
                    let builder = metadata.row_group(0).clone().into_builder().set_num_rows(rows as i64);
                    builder.build().expect("a row group")
                })
                .into_iter()
                .collect();
            let metadata = ParquetMetaData::new(metadata.file_metadata().clone(), groups);
            let mut footer = Vec::new();
            ParquetMetaDataWriter::new(&mut footer, &metadata).finish().expect("a footer");
            footer.truncate(footer.len() - 8);
            let (own, wanted) = (field(in_group.unwrap_or(0)), field(rows));
            let place = footer.windows(own.len()).position(|bytes| bytes == own).expect("rows");
            footer.splice(place..place + own.len(), wanted);
            let length = (footer.len() as u32).to_le_bytes();
            [&file[..end as usize], &footer, &length, b"PAR1"].concat().into()
        };
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let path = Path::from("a.parquet");
        let input = Input { store: store.clone(), path: path.clone(), name: "a.parquet".to_string() };
        let read = async |file: Bytes, cancelled: bool| -> Result<()> {
            store.put(&path, file.into()).await.expect("stored");
            Source::open(&input).await?.read_through(|| cancelled).await
        };
        read(forged(1000, Some(1000)), false).await.expect("as many as there are");
        let cancelled = read(forged(1000, Some(1000)), true).await;
        assert!(matches!(cancelled, Err(ArchiveError::Cancelled)), "{cancelled:?}");
        for (rows, in_group, expected) in [
            (1 << 62, None, "row groups of 0"),
            (2000, Some(1000), "row groups of 1000"),
            (2000, Some(2000), "only 1000 of 2000 rows"),
        ] {
            let error = read(forged(rows, in_group), false).await.expect_err("forged").to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
