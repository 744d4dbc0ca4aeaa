//! A column of lists of doubles, read without Arrow's reader: that goes through the levels of lists one by one and makes
//! bitmaps of them, which takes longer than to decode the values, and nobody asks for them where no list and no value is
//! missing.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{ArrayRef, Float64Array, ListArray};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, FieldRef};
use object_store::ObjectStoreExt;
use parquet::basic::Type;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::DoubleType;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::schema::types::ColumnDescriptor;

use super::chunks::Chunks;
use super::job::Input;
use super::list_levels::{Unlevelled, unlevelled};
use super::source::Source;
use super::windows::Windows;
use super::{ArchiveError, Result};

/// Lists that are read at a time: pages wait for them in memory.
const STRIP: usize = 128;
/// Values that are read at a time at most: a few bytes may claim any number of them, and Arrow's reader is more careful.
const MOST_VALUES: usize = 1 << 24;

/// Reads a column from the first row on.
pub(super) struct ListColumn {
    input: Input,
    metadata: Arc<ParquetMetaData>,
    /// The column's place among the file's leaves.
    leaf: usize,
    large_bytes: u64,
    item: FieldRef,
    next_group: usize,
    group: Option<Group>,
}

/// The column in a row group.
struct Group {
    pages: Box<dyn PageReader>,
    largest_definition: i16,
    /// Rows of the row group whose lists were not looked at yet.
    rows: usize,
    /// Values as if there were no lists, from pages without levels.
    values: ColumnReaderImpl<DoubleType>,
    waiting: Waiting,
    /// Where lists begin that were not read yet, counted in values of the row group.
    starts: VecDeque<usize>,
    /// Values of the pages that were looked at, and those that were read.
    seen: usize,
    read: usize,
}

/// Lists that are next, and where their values end.
struct Next {
    lists: usize,
    end: usize,
}

impl ListColumn {
    /// A column of a file, if it is one of lists of doubles and none of them is known to be missing.
    pub fn new(source: &Source, column: usize) -> Option<Self> {
        let field = source.schema.field(column);
        let DataType::List(item) = field.data_type() else { return None };
        let leaves = source.metadata.file_metadata().schema_descr();
        let is_part = |leaf: &usize| leaves.column(*leaf).path().parts().first() == Some(field.name());
        let mut parts = (0..leaves.num_columns()).filter(is_part);
        let (Some(leaf), None) = (parts.next(), parts.next()) else { return None };
        let described = leaves.column(leaf);
        let is_whole = source.metadata.row_groups().iter().all(|group| {
            let statistics = group.column(leaf).statistics();
            statistics.and_then(|statistics| statistics.null_count_opt()).unwrap_or(0) == 0
        });
        let fits = *item.data_type() == DataType::Float64
            && described.physical_type() == Type::DOUBLE
            && described.max_rep_level() == 1;
        (fits && is_whole).then(|| Self {
            input: source.input.clone(),
            metadata: source.metadata.clone(),
            leaf,
            large_bytes: source.large_bytes,
            item: item.clone(),
            next_group: 0,
            group: None,
        })
    }

    /// The same from a row group on.
    pub fn starting_at(self, next_group: usize) -> Self {
        Self { next_group, group: None, ..self }
    }

    /// The lists of the next rows; `None` if something is missing there after all.
    pub async fn read(&mut self, rows: usize) -> Result<Option<ArrayRef>> {
        let mut values = Vec::new();
        let mut offsets: Vec<i32> = Vec::with_capacity(rows + 1);
        while offsets.len() < rows {
            let Some((group, next)) = self.next_lists(rows - offsets.len()).await? else { return Ok(None) };
            let (first, count, read) = (values.len(), next.end - group.read, group.read);
            if count > MOST_VALUES || first + count > i32::MAX as usize {
                return Ok(None);
            }
            if offsets.is_empty() {
                // As many more, if lists are of one length.
                values.reserve_exact((count / next.lists).saturating_mul(rows).min(MOST_VALUES));
            }
            offsets.extend(group.starts.drain(..next.lists).map(|start| (first + start - read) as i32));
            group.values.read_records(count, None, None, &mut values)?;
            group.read = next.end;
            if values.len() != first + count {
                return Ok(None);
            }
        }
        offsets.push(values.len() as i32);
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        let values = Arc::new(Float64Array::from(values));
        Ok(Some(Arc::new(ListArray::try_new(self.item.clone(), offsets, values, None)?)))
    }

    /// Leaves rows out: their values are not decoded. `false` if something is missing there.
    pub async fn skip(&mut self, mut rows: usize) -> Result<bool> {
        while rows > 0 {
            let Some((group, next)) = self.next_lists(rows).await? else { return Ok(false) };
            let count = next.end - group.read;
            group.starts.drain(..next.lists);
            if group.values.skip_records(count)? != count {
                return Ok(false);
            }
            group.read = next.end;
            rows -= next.lists;
        }
        Ok(true)
    }

    /// Finds the next lists, some of so many; `None` if something is missing.
    async fn next_lists(&mut self, most: usize) -> Result<Option<(&mut Group, Next)>> {
        let wanted = STRIP.min(most);
        loop {
            if self.group.is_none() {
                self.group = self.next_group().await?;
            }
            let Some(group) = &mut self.group else { return Ok(None) };
            let Some(end) = group.find(wanted)? else { return Ok(None) };
            if group.starts.is_empty() && end == group.read && group.rows == 0 {
                self.group = None;
                continue;
            }
            // Every row has a list, and every value is in one.
            if group.starts.front() != Some(&group.read) {
                return Ok(None);
            }
            let lists = group.starts.len().min(wanted);
            // Borrowed anew: the loop may have had to go on.
            return Ok(self.group.as_mut().map(|group| (group, Next { lists, end })));
        }
    }

    /// The next row group's part of the column.
    async fn next_group(&mut self) -> Result<Option<Group>> {
        if self.next_group >= self.metadata.num_row_groups() {
            return Ok(None);
        }
        let group = self.metadata.row_group(self.next_group);
        self.next_group += 1;
        let chunk = group.column(self.leaf);
        let (start, length) = chunk.byte_range();
        let rows = group.num_rows().max(0) as usize;
        let pages: Box<dyn PageReader> = if length > self.large_bytes {
            let number = self.next_group - 1;
            let windows =
                Windows::new(&self.input, &self.metadata, number..number + 1, |leaf| leaf == self.leaf);
            Box::new(SerializedPageReader::new(Arc::new(windows), chunk, rows, None)?)
        } else {
            let bytes =
                self.input.store.get_range(&self.input.path, start..start.saturating_add(length)).await;
            let bytes = bytes.map_err(ArchiveError::Unreadable)?;
            let chunks = Chunks::new(vec![(start, bytes)]);
            Box::new(SerializedPageReader::new(Arc::new(chunks), chunk, rows, None)?)
        };
        let described = chunk.column_descr();
        let alone = ColumnDescriptor::new(described.self_type_ptr(), 0, 0, described.path().clone());
        let waiting = Waiting::default();
        let values = ColumnReaderImpl::new(Arc::new(alone), Box::new(waiting.clone()));
        let largest_definition = described.max_def_level();
        let starts = VecDeque::new();
        Ok(Some(Group { pages, largest_definition, rows, values, waiting, starts, seen: 0, read: 0 }))
    }
}

impl Group {
    /// Looks at pages until so many lists are known, and gives where they end: after fewer, if the row group has no more.
    /// `None` if something is missing.
    fn find(&mut self, lists: usize) -> Result<Option<usize>> {
        while self.starts.len() <= lists {
            let Some(page) = self.pages.get_next_page()? else { break };
            if let Page::DictionaryPage { .. } = page {
                self.waiting.push(page);
                continue;
            }
            let Some(found) = unlevelled(page, self.largest_definition, self.rows) else { return Ok(None) };
            let Unlevelled { page, starts, values } = found;
            self.rows -= starts.len();
            self.starts.extend(starts.into_iter().map(|start| self.seen + start));
            self.seen += values;
            self.waiting.push(page);
        }
        Ok(Some(self.starts.get(lists).copied().unwrap_or(self.seen)))
    }
}

/// Pages that wait for their values to be read.
#[derive(Clone, Default)]
struct Waiting(Arc<Mutex<VecDeque<Page>>>);

impl Waiting {
    fn push(&self, page: Page) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(page);
    }

    fn pop(&self) -> Option<Page> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

impl Iterator for Waiting {
    type Item = std::result::Result<Page, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.pop().map(Ok)
    }
}

impl PageReader for Waiting {
    fn get_next_page(&mut self) -> std::result::Result<Option<Page>, ParquetError> {
        Ok(self.pop())
    }

    fn peek_next_page(&mut self) -> std::result::Result<Option<PageMetadata>, ParquetError> {
        let pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let described = |page: &Page| PageMetadata {
            num_rows: None,
            num_levels: Some(page.num_values() as usize),
            is_dict: matches!(page, Page::DictionaryPage { .. }),
        };
        Ok(pages.front().map(described))
    }

    fn skip_next_page(&mut self) -> std::result::Result<(), ParquetError> {
        self.pop();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::source::{Rows, read_ahead};
    use super::*;
    use arrow::array::{Array, Int64Array, RecordBatch};
    use arrow::compute::concat_batches;
    use arrow::datatypes::{Field, Float64Type, Schema};
    use futures::TryStreamExt;
    use object_store::memory::InMemory;
    use object_store::path::Path;
    use object_store::{ObjectStore, PutPayload};
    use parquet::arrow::ArrowWriter;
    use parquet::basic::Compression;
    use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};

    type Row = Option<Vec<Option<f64>>>;

    /// A table of lists in row groups of 100 rows and small pages, of one kind or the other.
    async fn stored(rows: &[Row], alone: bool, version: WriterVersion) -> (RecordBatch, Source) {
        let lists = ListArray::from_iter_primitive::<Float64Type, _, _>(rows.iter().cloned());
        let (_, offsets, values, nulls) = lists.into_parts();
        // Declared as if nothing could be missing, or not.
        let item = Arc::new(Field::new_list_field(DataType::Float64, !alone));
        let lists: ArrayRef = Arc::new(ListArray::try_new(item, offsets, values, nulls).expect("lists"));
        let mut fields = vec![Field::new("v", lists.data_type().clone(), !alone)];
        let mut columns = vec![lists];
        if !alone {
            fields.insert(0, Field::new("t", DataType::Int64, false));
            columns.insert(0, Arc::new(Int64Array::from_iter_values(0..rows.len() as i64)));
        }
        let table = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("a table");
        let properties = WriterProperties::builder()
            .set_max_row_group_row_count(Some(100))
            .set_data_page_row_count_limit(7)
            .set_write_batch_size(5)
            .set_writer_version(version)
            .set_dictionary_enabled(alone)
            .set_compression(Compression::SNAPPY)
            // So that only levels tell what is missing.
            .set_statistics_enabled(EnabledStatistics::None)
            .build();
        let mut bytes = Vec::new();
        let mut writer =
            ArrowWriter::try_new(&mut bytes, table.schema(), Some(properties)).expect("a writer");
        writer.write(&table).and_then(|()| writer.close()).expect("a file");
        let (store, path) = (Arc::new(InMemory::new()), Path::from("t.parquet"));
        store.put(&path, PutPayload::from(bytes)).await.expect("room");
        let input = Input { name: "t.parquet".to_string(), store: store as Arc<dyn ObjectStore>, path };
        (table, Source::open(&input).await.expect("a table"))
    }

    async fn come_back(rows: &[Row], alone: bool) {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            let (table, mut source) = stored(rows, alone, version).await;
            // In one piece, and piece by piece.
            for large_bytes in [source.large_bytes, 0] {
                source.large_bytes = large_bytes;
                comes_back(&table, &source).await;
            }
        }
    }

    async fn comes_back(table: &RecordBatch, source: &Source) {
        let rows = table.num_rows();
        for block in [1, 64, 130, 1000] {
            let column = table.num_columns() - 1;
            let blocks = source.blocks(Some(column), source.all_rows(), block, 1).await.expect("blocks");
            let blocks: Vec<RecordBatch> = read_ahead(blocks).try_collect().await.expect("all of them");
            let sizes: Vec<usize> = blocks.iter().map(RecordBatch::num_rows).collect();
            let expected: Vec<usize> =
                (0..rows).step_by(block).map(|first| block.min(rows - first)).collect();
            assert_eq!(sizes, expected);
            assert_eq!(concat_batches(&table.schema(), &blocks).expect("one table"), *table);
        }
        // Row groups have 100 rows.
        for (groups, offset, count) in
            [(0..1, 3, 90), (1..3, 0, 150), (1..2, 99, 1), (2..4, 71, 62), (0..4, 130, 203)]
        {
            let first = groups.start * 100 + offset;
            let part = Rows { groups, offset, count };
            let blocks = source.blocks(Some(table.num_columns() - 1), part, 64, 1).await.expect("blocks");
            let blocks: Vec<RecordBatch> = read_ahead(blocks).try_collect().await.expect("all of them");
            assert_eq!(
                concat_batches(&table.schema(), &blocks).expect("one table"),
                table.slice(first, count)
            );
        }
    }

    fn list(row: usize, length: usize) -> Row {
        Some((0..length).map(|i| Some((row * 31 + i) as f64 / 8.0)).collect())
    }

    #[tokio::test]
    async fn lists_come_back_whatever_their_lengths() {
        let even: Vec<Row> = (0..333).map(|row| list(row, 9)).collect();
        let ragged: Vec<Row> = (0..333).map(|row| list(row, 1 + row % 4)).collect();
        for alone in [false, true] {
            come_back(&even, alone).await;
            come_back(&ragged, alone).await;
        }
    }

    #[tokio::test]
    async fn what_is_missing_is_left_to_arrow() {
        for missing in [None, Some(vec![]), Some(vec![Some(1.0), None])] {
            for place in [0, 99, 170, 332] {
                let mut rows: Vec<Row> = (0..333).map(|row| list(row, 3)).collect();
                rows[place] = missing.clone();
                come_back(&rows, false).await;
            }
        }
    }

    #[tokio::test]
    async fn other_columns_are_left_to_arrow() {
        let (_, source) = stored(&[list(0, 3)], false, WriterVersion::PARQUET_1_0).await;
        assert!(ListColumn::new(&source, 0).is_none());
        assert!(ListColumn::new(&source, 1).is_some());
    }

    /// Else tables would be read by Arrow's reader, and tests pass all the same.
    #[tokio::test]
    async fn lists_are_read_without_arrow() {
        let rows: Vec<Row> = (0..333).map(|row| list(row, 1 + row % 4)).collect();
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            for alone in [false, true] {
                let (table, source) = stored(&rows, alone, version).await;
                let place = table.num_columns() - 1;
                let mut column = ListColumn::new(&source, place).expect("a column of lists");
                for part in [0..250, 250..333] {
                    let read = column.read(part.len()).await.expect("lists").expect("nothing is missing");
                    let expected = table.column(place).slice(part.start, part.len());
                    assert_eq!(read.as_ref(), expected.as_ref());
                }
                let mut column = ListColumn::new(&source, place).expect("a column of lists").starting_at(1);
                for (skipped, first) in [(0, 100), (1, 111), (7, 128), (130, 268)] {
                    assert!(column.skip(skipped).await.expect("lists"));
                    let read = column.read(10).await.expect("lists").expect("nothing is missing");
                    assert_eq!(read.as_ref(), table.column(place).slice(first, 10).as_ref());
                }
            }
        }
    }
}
