//! Reading a data file: the columns that are asked for, as they were in the original table.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, RecordBatchReader};
use arrow::compute::concat_batches;
use arrow::datatypes::{Int16Type, SchemaRef, UInt16Type};
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use object_store::ObjectStore;
use object_store::path::Path;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder, RowSelection,
};
#[cfg(feature = "cli")]
use parquet::schema::types::SchemaDescriptor;

use super::block;
use super::cells::Group;
use super::chunks::Chunks;
use super::codebook::Codebook;
use super::footer::{Footer, KEY};
use super::kept_rows::{KeptRows, column_named, other_count, together};
use super::layout::{Table, column};
use super::manifest::hash_of;
use super::parquet_footer::{chunk_ranges, parse_footer, parse_indexed_footer};
use super::parquet_types::arrow_metadata;
use super::placed::{BLOCK_VALUES, MOST_CELLS};
use super::placement::Placement;
use super::pool::compute;
use super::quantiser::Bound;
use super::source::{READ_ROWS, read_ahead};
use super::sparse_codes::WholeCode;
use super::{ArchiveError, Result};

/// Row groups of more cells are not written, with some room for how writers may change.
const MOST_CELLS_READ: usize = 16 * MOST_CELLS;
/// Parquet's reader makes room for as many rows as it is told, whatever there are.
const MOST_ROWS_AT_ONCE: usize = BLOCK_VALUES;

/// A data file that has been opened: its footer is known and checked.
#[derive(Debug, Clone)]
pub(crate) struct DataFile {
    pub store: Arc<dyn ObjectStore>,
    pub path: Path,
    pub metadata: ArrowReaderMetadata,
    /// `None` for a table that is stored as it was.
    pub coded: Option<Arc<CodedTable>>,
    /// The hashes of the column chunks of a table that is stored as it was.
    pub stored_hashes: Option<Arc<Vec<Vec<String>>>>,
    /// The original table's columns.
    pub schema: SchemaRef,
}

/// The bytes of some columns of a row group.
pub(crate) struct Fetched {
    row_group: usize,
    rows: usize,
    /// Whether there is no column at all.
    is_empty: bool,
    mask: ProjectionMask,
    chunks: Chunks,
}

/// What a coded file holds.
#[derive(Debug)]
pub(crate) struct CodedTable {
    pub codebook: Arc<Codebook>,
    pub table: Table,
    pub footer: Footer,
    pub groups: Vec<Group>,
}

impl DataFile {
    /// Takes over the footer of a file of so many bytes, which has been fetched and checked.
    pub fn new(
        store: Arc<dyn ObjectStore>,
        path: Path,
        footer: &Bytes,
        size: u64,
        series: &[String],
        codebook: Option<&Arc<Codebook>>,
    ) -> Result<Self> {
        // Only data files of archives have an index of pages that is known to be theirs.
        let metadata = match codebook {
            Some(_) => parse_indexed_footer(footer, size)?,
            None => parse_footer(footer, size)?,
        };
        let metadata = Arc::new(metadata);
        // A table that looks like one of ours but is stored as it was has no description.
        let pairs = metadata.file_metadata().key_value_metadata();
        let text = pairs
            .and_then(|pairs| pairs.iter().find(|pair| pair.key == KEY))
            .and_then(|pair| pair.value.clone());
        let metadata = arrow_metadata(metadata)?;
        let (Some(text), Some(codebook)) = (text, codebook) else {
            return Ok(Self {
                store,
                path,
                schema: metadata.schema().clone(),
                metadata,
                coded: None,
                stored_hashes: None,
            });
        };
        let footer = Footer::parse(&text)?;
        if footer.dictionary != codebook.hash() {
            return Err(ArchiveError::corrupt("it was written with another dictionary"));
        }
        let schema = footer.original_schema(metadata.schema())?;
        let table = Table::new(footer.layout.clone(), schema.clone(), series.to_vec())?;
        let groups = table.groups(codebook.sensors(), footer.group_sensors);
        let row_groups = metadata.metadata().num_row_groups();
        let columns = footer.residual_column(groups.len());
        if footer.row_groups.len() != row_groups || metadata.schema().fields().len() != columns {
            return Err(ArchiveError::corrupt("its description does not fit its columns"));
        }
        Ok(Self {
            store,
            path,
            metadata,
            schema,
            coded: Some(Arc::new(CodedTable { codebook: codebook.clone(), table, footer, groups })),
            stored_hashes: None,
        })
    }

    /// The original table's columns as Parquet has them.
    #[cfg(feature = "cli")]
    pub fn parquet_types(&self) -> Result<SchemaDescriptor> {
        super::parquet_types::parquet_types(&self.schema, Some(self.metadata.parquet_schema()))
    }

    /// Where the codes of a coded file are, and where its residuals begin: at the same place if there are no codes.
    #[cfg(feature = "cli")]
    pub fn coded_columns(&self) -> Option<(usize, usize)> {
        self.coded.as_ref().map(|coded| (coded.footer.code_column, coded.footer.residual_column(0)))
    }

    /// The bytes of every column of the file's own, row group by row group.
    #[cfg(feature = "cli")]
    pub fn bytes_by_column(&self) -> Vec<(usize, u64)> {
        let schema = self.metadata.parquet_schema();
        let groups = self.metadata.metadata().row_groups().iter();
        groups
            .flat_map(|group| chunk_ranges(group).enumerate())
            .map(|(leaf, range)| (schema.get_column_root_idx(leaf), range.end - range.start))
            .collect()
    }

    /// How many values must be decoded for some columns of the original table; `None` if all of these are as they were.
    #[cfg(feature = "sql")]
    pub fn decoded_values(&self, row_group: usize, columns: &[usize]) -> Result<Option<usize>> {
        let Some(coded) = &self.coded else { return Ok(None) };
        let rows = self.metadata.metadata().row_group(row_group).num_rows().max(0) as usize;
        let plan = coded.plan(columns)?;
        let sensors = |group: &usize| coded.groups[*group].sensors.len();
        let signals = coded.footer.row_groups.get(row_group).map_or(rows, |group| group.signals);
        let values = plan.groups.iter().map(sensors).sum::<usize>() * signals;
        Ok((!plan.groups.is_empty()).then_some(values))
    }

    /// The bytes that reading some columns of the original table takes.
    #[cfg(feature = "sql")]
    pub fn bytes_to_read(&self, row_group: usize, columns: &[usize]) -> Result<u64> {
        let physical = match &self.coded {
            Some(coded) => coded.plan(columns)?.physical,
            None => columns.to_vec(),
        };
        let mask = ProjectionMask::roots(self.metadata.parquet_schema(), physical);
        let group = self.metadata.metadata().row_group(row_group);
        let ranges = chunk_ranges(group).enumerate().filter(|(leaf, _)| mask.leaf_included(*leaf));
        Ok(ranges.map(|(_, range)| range.end - range.start).sum())
    }

    /// Gives its rows these columns from now on, if it was stored as it was and that is possible.
    #[cfg(feature = "sql")]
    pub fn read_as(&mut self, schema: &SchemaRef) {
        if self.coded.is_none()
            && super::declared::readable_as(self.metadata.metadata(), &self.schema, schema)
        {
            self.schema = schema.clone();
        }
    }

    /// What was promised of its values, if these are coded.
    pub fn bound(&self) -> Option<Bound> {
        self.coded.as_ref().map(|coded| coded.footer.bound)
    }

    pub fn rows(&self) -> u64 {
        self.metadata.metadata().file_metadata().num_rows().max(0) as u64
    }

    pub fn row_groups(&self) -> usize {
        self.metadata.metadata().num_row_groups()
    }

    /// The hashes of a row group's column chunks.
    fn hashes(&self, row_group: usize) -> Option<&Vec<String>> {
        let stored = || self.stored_hashes.as_ref().and_then(|hashes| hashes.get(row_group));
        let coded = self.coded.as_ref().and_then(|coded| coded.footer.row_groups.get(row_group));
        coded.map(|group| &group.hashes).or_else(stored)
    }

    /// Fetches some columns of the file's own, of one row group, and checks their hashes.
    async fn fetch_physical(&self, row_group: usize, columns: &[usize]) -> Result<Fetched> {
        let metadata = self.metadata.metadata();
        let mask = ProjectionMask::roots(self.metadata.parquet_schema(), columns.iter().copied());
        let group =
            metadata.row_groups().get(row_group).ok_or_else(|| ArchiveError::corrupt("no such row group"))?;
        let ranges: Vec<Range<u64>> = chunk_ranges(group).collect();
        let wanted: Vec<usize> = (0..ranges.len()).filter(|leaf| mask.leaf_included(*leaf)).collect();
        let wanted_ranges: Vec<Range<u64>> = wanted.iter().map(|leaf| ranges[*leaf].clone()).collect();
        let chunks = self.store.get_ranges(&self.path, &wanted_ranges).await?;
        if let Some(hashes) = self.hashes(row_group) {
            for (leaf, chunk) in wanted.iter().zip(&chunks) {
                if hashes.get(*leaf) != Some(&hash_of(chunk)) {
                    let name = group.column(*leaf).column_path().string();
                    return Err(ArchiveError::corrupt(format!(
                        "column {name} of row group {row_group} does not match its hash"
                    )));
                }
            }
        }
        let parts = wanted_ranges.iter().map(|range| range.start).zip(chunks).collect();
        let rows = group.num_rows().max(0) as usize;
        let is_empty = columns.is_empty();
        Ok(Fetched { row_group, rows, is_empty, mask, chunks: Chunks::new(parts) })
    }

    /// The rows of what was fetched, all of them or some, so many at a time.
    fn physical(
        &self,
        fetched: Fetched,
        rows: Option<&RowSelection>,
        size: usize,
    ) -> Result<ParquetRecordBatchReader> {
        let mut reader =
            ParquetRecordBatchReaderBuilder::new_with_metadata(fetched.chunks, self.metadata.clone())
                .with_row_groups(vec![fetched.row_group])
                .with_projection(fetched.mask)
                .with_batch_size(size.clamp(1, MOST_ROWS_AT_ONCE));
        if let Some(rows) = rows {
            reader = reader.with_row_selection(rows.clone());
        }
        Ok(reader.build()?)
    }

    /// Fetches what some columns of the original table take, of one row group.
    pub async fn fetch(&self, row_group: usize, columns: &[usize]) -> Result<Fetched> {
        match &self.coded {
            Some(coded) => self.fetch_physical(row_group, &coded.plan(columns)?.physical).await,
            None => self.fetch_physical(row_group, columns).await,
        }
    }

    /// Columns that are as they were, of which the bytes are there: all rows, or some of them, so many at a time.
    pub fn decode_kept(
        &self,
        fetched: Fetched,
        columns: &[usize],
        rows: Option<&RowSelection>,
        size: usize,
    ) -> Result<KeptRows> {
        let schema = Arc::new(self.schema.project(columns)?);
        let left = rows.map_or(fetched.rows, RowSelection::row_count);
        let reader = if fetched.is_empty { None } else { Some(self.physical(fetched, rows, size)?) };
        Ok(KeptRows::new(reader, schema, left, size))
    }

    /// Reads some columns of the original table, of one row group, in the order asked for, in a task of its own. What is
    /// coded comes at once; row groups of tables that are stored as they were may be of any size.
    pub fn rows_of(&self, row_group: usize, columns: Vec<usize>) -> BoxStream<'static, Result<RecordBatch>> {
        let file = self.clone();
        let batches = async move {
            let fetched = file.fetch(row_group, &columns).await?;
            Ok::<_, ArchiveError>(match file.coded {
                Some(_) => {
                    let decoded = compute("decoding", move || file.decode(fetched, &columns)).await;
                    futures::stream::once(std::future::ready(decoded)).boxed()
                }
                None => futures::stream::iter(file.decode_kept(fetched, &columns, None, READ_ROWS)?).boxed(),
            })
        };
        read_ahead(futures::stream::once(batches).try_flatten()).boxed()
    }

    /// The same as one batch.
    pub async fn read(&self, row_group: usize, columns: &[usize]) -> Result<RecordBatch> {
        let schema = Arc::new(self.schema.project(columns)?);
        together(schema, self.rows_of(row_group, columns.to_vec()).try_collect().await?)
    }

    /// Some columns of a coded table, of which the bytes are there, in the order asked for.
    pub fn decode(&self, fetched: Fetched, columns: &[usize]) -> Result<RecordBatch> {
        let schema = Arc::new(self.schema.project(columns)?);
        let rows = fetched.rows;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let coded = self.coded.as_ref().ok_or_else(|| ArchiveError::corrupt("it is not coded"))?;
        let (table, codebook) = (&coded.table, coded.codebook.as_ref());
        let plan = coded.plan(columns)?;
        let is_empty = fetched.is_empty;
        let reader = self.physical(fetched, None, rows)?;
        let found = reader.schema();
        let batch = concat_batches(&found, &reader.collect::<std::result::Result<Vec<_>, _>>()?)?;
        if batch.num_rows() != rows && !is_empty {
            return Err(other_count(batch.num_rows(), rows));
        }
        let mut restored: HashMap<usize, ArrayRef> = HashMap::new();
        if !plan.groups.is_empty() {
            let physical_column = |i: usize| column_named(&batch, self.metadata.schema().field(i).name());
            let code = match coded.footer.has_codes {
                true => Some(physical_column(coded.footer.code_column)?),
                false => None,
            };
            let keys = table.layout.key_columns();
            let keys = keys.into_iter().map(|name| column_named(&batch, name)).collect::<Result<Vec<_>>>()?;
            let nulls = code.as_ref().and_then(|code| code.nulls());
            let placement = table.place(rows, &keys, nulls, codebook.sensors())?;
            if rows > 1 && placement.signals().saturating_mul(placement.sensors) > MOST_CELLS_READ {
                return Err(ArchiveError::corrupt("a row group has far more cells than any that is written"));
            }
            let codes = match &code {
                Some(code) => read_codes(code, &placement)?,
                None => vec![WholeCode::new(); placement.signals()],
            };
            for index in &plan.groups {
                let mut group = coded.groups[*index].clone();
                if placement.sensors > codebook.sensors() {
                    group.sensors = (0..placement.sensors).collect();
                }
                let blobs = physical_column(coded.footer.residual_column(*index))?;
                let blobs = blobs
                    .as_binary_opt::<i32>()
                    .ok_or_else(|| ArchiveError::corrupt("residuals are not binary"))?;
                if blobs.is_empty() {
                    return Err(ArchiveError::corrupt("a row group without rows"));
                }
                let cells =
                    block::decode(codebook, &group, &codes, blobs.value(0), &placement.present(&group))?;
                for value in columns.iter().filter(|i| plan.group_of.get(i) == Some(index)) {
                    restored.insert(*value, table.restore(*value, &placement, rows, &group, &cells)?);
                }
            }
        }
        let found = columns.iter().map(|i| match restored.get(i) {
            Some(array) => Ok(array.clone()),
            None => column_named(&batch, self.schema.field(*i).name()),
        });
        Ok(RecordBatch::try_new_with_options(schema, found.collect::<Result<_>>()?, &options)?)
    }
}

/// What must be read for some columns.
pub(crate) struct ReadPlan {
    pub physical: Vec<usize>,
    pub groups: Vec<usize>,
    group_of: HashMap<usize, usize>,
}

impl CodedTable {
    pub fn plan(&self, columns: &[usize]) -> Result<ReadPlan> {
        let table = &self.table;
        let mut group_of = HashMap::new();
        for column in columns {
            if let Some(sensor) = table.values.iter().position(|value| value == column) {
                let wide = matches!(table.layout, super::Layout::Wide { .. });
                let holds = |group: &Group| !wide || group.sensors.contains(&sensor);
                let group = self.groups.iter().position(holds);
                group_of
                    .insert(*column, group.ok_or_else(|| ArchiveError::corrupt("a sensor has no group"))?);
            }
        }
        let mut groups: Vec<usize> = group_of.values().copied().collect();
        groups.sort_unstable();
        groups.dedup();
        let mut physical: Vec<usize> =
            columns.iter().filter_map(|column| table.kept.iter().position(|kept| kept == column)).collect();
        if !groups.is_empty() {
            for name in table.layout.key_columns() {
                let key = column(&table.schema, name)?;
                physical.extend(table.kept.iter().position(|kept| *kept == key));
            }
            physical.extend(self.footer.has_codes.then_some(self.footer.code_column));
            physical.extend(groups.iter().map(|group| self.footer.residual_column(*group)));
        }
        physical.sort_unstable();
        physical.dedup();
        Ok(ReadPlan { physical, groups, group_of })
    }
}

fn read_codes(column: &ArrayRef, placement: &Placement) -> Result<Vec<WholeCode>> {
    let wrong = || ArchiveError::corrupt("codes have another type");
    let lists = column.as_list_opt::<i32>().ok_or_else(wrong)?;
    let entries = lists.values().as_struct_opt().ok_or_else(wrong)?;
    let [atoms, weights] = entries.columns() else { return Err(wrong()) };
    let atoms = atoms.as_primitive_opt::<UInt16Type>().ok_or_else(wrong)?;
    let weights = weights.as_primitive_opt::<Int16Type>().ok_or_else(wrong)?;
    let offsets = lists.value_offsets();
    let code = |row: &usize| {
        if lists.is_null(*row) {
            return Err(ArchiveError::corrupt("a signal has no code"));
        }
        let range = offsets[*row] as usize..offsets[*row + 1] as usize;
        Ok(range.map(|i| (atoms.value(i), weights.value(i))).collect())
    };
    placement.first_rows.iter().map(code).collect()
}
