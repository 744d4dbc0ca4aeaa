//! Data files: Parquet with every other column as it was, and the values as codes and residuals.
//!
//! | column | what |
//! |---|---|
//! | kept columns | as they were |
//! | `_code` | `list<struct<atom: uint16, weight: int16>>`, in the row where the signal begins |
//! | `_residual_0`, ... | binary, in the first row of the row group: what the codes leave of a group of sensors |

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, Int16Array, ListArray, RecordBatch, StructArray, UInt16Array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Fields, Int16Type, Schema, SchemaRef, UInt16Type};
use arrow::row::{RowConverter, SortField};
use bytes::{Buf, Bytes};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::arrow::arrow_writer::{ArrowWriter, ArrowWriterOptions};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::{ChunkReader, Length};
use parquet::schema::types::ColumnPath;
use twox_hash::{XxHash3_64, XxHash3_128};

use super::block::{self, CodedBlock, ErrorSums, Group, WholeCode};
use super::codebook::Codebook;
use super::footer::{Footer, KEY, RowGroup, ValueColumns};
use super::layout::{Placement, Table, column};
use super::quantiser::Bound;
use super::{ArchiveError, FORMAT_VERSION, Result};

const CODE: &str = "_code";
const RESIDUAL: &str = "_residual_";
/// Bytes at the end of a file that are fetched before the footer's length is known.
const FOOTER_GUESS: u64 = 64 << 10;

/// The settings that all data files of an archive share.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub codebook: Arc<Codebook>,
    pub bound: Bound,
    pub group_sensors: usize,
}

/// Memory that a Parquet writer writes into, and that is taken from it row group by row group.
#[derive(Debug, Default)]
struct Buffer(Vec<u8>);

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Writes a data file block by block.
pub(crate) struct DataFileWriter {
    table: Table,
    writer: ArrowWriter<Buffer>,
    footer: Footer,
    schema: SchemaRef,
    /// Bytes taken from the writer so far.
    taken: u64,
}

impl DataFileWriter {
    /// Encodings are chosen by what the first rows look like.
    pub fn new(
        table: &Table,
        settings: &Settings,
        source: String,
        first: Option<&RecordBatch>,
    ) -> Result<Self> {
        let groups = table.groups(settings.codebook.sensors(), settings.group_sensors);
        let schema = physical_schema(table, groups.len());
        let code_column = table.kept.len();
        let footer = Footer {
            version: FORMAT_VERSION,
            dictionary: settings.codebook.hash(),
            coder: "fksc".to_string(),
            lambda: settings.codebook.lambda(),
            bound: settings.bound,
            layout: table.layout.clone(),
            values: ValueColumns::of(table)?,
            group_sensors: settings.group_sensors,
            code_column,
            source,
            error: ErrorSums::default(),
            row_groups: Vec::new(),
        };
        let options = ArrowWriterOptions::new().with_properties(properties(&schema, table, first)?);
        let writer = ArrowWriter::try_new_with_options(Buffer::default(), schema.clone(), options)?;
        Ok(Self { table: table.clone(), writer, footer, schema, taken: 0 })
    }

    /// Adds a row group, and gives the file's next bytes.
    pub fn write(
        &mut self,
        rows: &RecordBatch,
        placement: &Placement,
        coded: &CodedBlock,
    ) -> Result<Vec<u8>> {
        let mut columns: Vec<ArrayRef> = self.table.kept.iter().map(|i| rows.column(*i).clone()).collect();
        columns.push(code_array(
            &self.schema,
            self.footer.code_column,
            rows.num_rows(),
            placement,
            &coded.codes,
        )?);
        for group in &coded.groups {
            let blob = std::iter::once(Some(&group[..]));
            let all: BinaryArray = blob.chain(std::iter::repeat(None)).take(rows.num_rows()).collect();
            columns.push(Arc::new(all));
        }
        self.writer.write(&RecordBatch::try_new(self.schema.clone(), columns)?)?;
        self.writer.flush()?;
        let bytes = self.take()?;
        let start = self.taken - bytes.len() as u64;
        // Cannot be absent: a row group has just been flushed.
        let metadata =
            self.writer.flushed_row_groups().last().ok_or_else(|| ArchiveError::corrupt("no row group"))?;
        let hash = |range: Range<u64>| {
            let range = (range.start - start) as usize..(range.end - start) as usize;
            bytes
                .get(range)
                .map(hash_text)
                .ok_or_else(|| ArchiveError::corrupt("a column chunk is elsewhere"))
        };
        self.footer.row_groups.push(RowGroup {
            signals: placement.signals(),
            max_error: coded.error.max,
            nmae: coded.error.nmae(),
            nrmse: coded.error.nrmse(),
            hashes: chunk_ranges(metadata).map(hash).collect::<Result<_>>()?,
        });
        self.footer.error.merge(&coded.error);
        Ok(bytes)
    }

    fn take(&mut self) -> Result<Vec<u8>> {
        self.writer.sync()?;
        let bytes = std::mem::take(&mut self.writer.inner_mut().0);
        self.taken += bytes.len() as u64;
        Ok(bytes)
    }

    /// The file's last bytes, with the footer, and its summary.
    pub fn finish(mut self) -> Result<(Vec<u8>, ErrorSums)> {
        let text = serde_json::to_string(&self.footer)?;
        self.writer.append_key_value_metadata(KeyValue::new(KEY.to_string(), text));
        self.writer.finish()?;
        Ok((std::mem::take(&mut self.writer.inner_mut().0), self.footer.error))
    }
}

pub(crate) fn hash_text(bytes: &[u8]) -> String {
    format!("{:016x}", XxHash3_64::oneshot(bytes))
}

fn chunk_ranges(row_group: &RowGroupMetaData) -> impl Iterator<Item = Range<u64>> + '_ {
    row_group.columns().iter().map(|chunk| {
        let (start, length) = chunk.byte_range();
        start..start + length
    })
}

/// The columns of a data file.
fn physical_schema(table: &Table, groups: usize) -> SchemaRef {
    let mut fields: Vec<Arc<Field>> = table.kept.iter().map(|i| table.schema.fields()[*i].clone()).collect();
    // Names of ours must not be the table's.
    let mut prefix = String::new();
    while table.schema.fields().iter().any(|field| {
        field.name().starts_with(&format!("{prefix}{CODE}"))
            || field.name().starts_with(&format!("{prefix}{RESIDUAL}"))
    }) {
        prefix.push('_');
    }
    let entry = Fields::from(vec![
        Field::new("atom", DataType::UInt16, false),
        Field::new("weight", DataType::Int16, false),
    ]);
    let entry = Arc::new(Field::new_list_field(DataType::Struct(entry), false));
    fields.push(Arc::new(Field::new(format!("{prefix}{CODE}"), DataType::List(entry), true)));
    for group in 0..groups {
        fields.push(Arc::new(Field::new(format!("{prefix}{RESIDUAL}{group}"), DataType::Binary, true)));
    }
    Arc::new(Schema::new_with_metadata(fields, table.schema.metadata().clone()))
}

fn properties(schema: &Schema, table: &Table, first: Option<&RecordBatch>) -> Result<WriterProperties> {
    let code_column = table.kept.len();
    let mut properties = WriterProperties::builder()
        .set_created_by("sparrow".to_string())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(9)?))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        // Readers without page offsets read whole column chunks, whose hashes are known.
        .set_offset_index_disabled(true)
        .set_max_row_group_row_count(None);
    for kept in &table.kept {
        if let Some(encoding) = first.and_then(|first| encoding_for(first.column(*kept))) {
            let path = ColumnPath::new(vec![table.schema.field(*kept).name().clone()]);
            properties = properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, encoding);
        }
    }
    let code = schema.field(code_column).name();
    for leaf in ["atom", "weight"] {
        let path: Vec<String> = [code, "list", "item", leaf].iter().map(ToString::to_string).collect();
        let path = ColumnPath::new(path);
        properties = properties
            // Atoms come in runs that a dictionary's packed bits would hide.
            .set_column_dictionary_enabled(path.clone(), leaf == "weight")
            .set_column_statistics_enabled(path, EnabledStatistics::None);
    }
    for field in &schema.fields()[code_column + 1..] {
        let path = ColumnPath::new(vec![field.name().clone()]);
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path.clone(), Encoding::PLAIN)
            // Residuals are as short as they get.
            .set_column_compression(path.clone(), Compression::UNCOMPRESSED)
            .set_column_statistics_enabled(path, EnabledStatistics::None);
    }
    Ok(properties.build())
}

/// Numbers that hardly repeat: differences for integers and times, bytes apart for floats. A dictionary for
/// the rest.
fn encoding_for(column: &ArrayRef) -> Option<Encoding> {
    const LOOKED_AT: usize = 4096;
    let encoding = match column.data_type() {
        DataType::Float32 | DataType::Float64 => Encoding::BYTE_STREAM_SPLIT,
        DataType::Timestamp(..)
        | DataType::Date32
        | DataType::Date64
        | DataType::Time32(_)
        | DataType::Time64(_) => Encoding::DELTA_BINARY_PACKED,
        other if other.is_integer() => Encoding::DELTA_BINARY_PACKED,
        _ => return None,
    };
    let some = column.slice(0, column.len().min(LOOKED_AT));
    let converter = RowConverter::new(vec![SortField::new(some.data_type().clone())]).ok()?;
    let rows = converter.convert_columns(std::slice::from_ref(&some)).ok()?;
    let distinct: HashSet<&[u8]> = rows.iter().map(|row| row.data()).collect();
    (2 * distinct.len() > some.len()).then_some(encoding)
}

fn code_array(
    schema: &Schema,
    column: usize,
    rows: usize,
    placement: &Placement,
    codes: &[WholeCode],
) -> Result<ArrayRef> {
    let DataType::List(entry) = schema.field(column).data_type() else {
        return Err(ArchiveError::corrupt("codes are not lists"));
    };
    let DataType::Struct(fields) = entry.data_type() else {
        return Err(ArchiveError::corrupt("codes are not structs"));
    };
    let mut lengths = vec![0; rows];
    let mut valid = vec![false; rows];
    for (row, code) in placement.first_rows.iter().zip(codes) {
        lengths[*row] = code.len();
        valid[*row] = true;
    }
    let atoms: UInt16Array = codes.iter().flatten().map(|(atom, _)| *atom).collect();
    let weights: Int16Array = codes.iter().flatten().map(|(_, weight)| *weight).collect();
    let entries = StructArray::try_new(fields.clone(), vec![Arc::new(atoms), Arc::new(weights)], None)?;
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(Arc::new(ListArray::try_new(
        entry.clone(),
        offsets,
        Arc::new(entries),
        Some(NullBuffer::from(valid)),
    )?))
}

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

/// What a coded file holds.
#[derive(Debug)]
pub(crate) struct CodedTable {
    pub table: Table,
    pub footer: Footer,
    pub groups: Vec<Group>,
}

/// The footer's bytes, from the metadata to the end, as text of their hash.
pub(crate) fn footer_hash(footer: &[u8]) -> String {
    format!("{:032x}", XxHash3_128::oneshot(footer))
}

/// Fetches the footer of a Parquet file of this size.
pub(crate) async fn fetch_footer(store: &dyn ObjectStore, path: &Path, size: u64) -> Result<Bytes> {
    let cut = || ArchiveError::NotParquet("it is too short".to_string());
    let guess = store.get_range(path, size.saturating_sub(FOOTER_GUESS)..size).await?;
    let end = guess.len().checked_sub(8).ok_or_else(cut)?;
    if &guess[end + 4..] != b"PAR1" {
        return Err(ArchiveError::NotParquet("it does not end in PAR1; it may have been cut".to_string()));
    }
    // Cannot fail: the slice has four bytes.
    let length = u32::from_le_bytes(guess[end..end + 4].try_into().unwrap());
    let total = u64::from(length) + 8;
    match (guess.len() as u64).checked_sub(total) {
        Some(start) => Ok(guess.slice(start as usize..)),
        None => {
            let start = size.checked_sub(total).ok_or_else(cut)?;
            Ok(store.get_range(path, start..size).await?)
        }
    }
}

/// Parses a footer.
pub(crate) fn parse_footer(footer: &[u8]) -> Result<ParquetMetaData> {
    let end = footer.len().checked_sub(8).ok_or_else(|| ArchiveError::corrupt("no footer"))?;
    Ok(ParquetMetaDataReader::decode_metadata(&footer[..end])?)
}

impl DataFile {
    /// Takes over a footer that has been fetched and checked.
    pub fn new(
        store: Arc<dyn ObjectStore>,
        path: Path,
        footer: &[u8],
        series: &[String],
        codebook: Option<&Codebook>,
    ) -> Result<Self> {
        let metadata = Arc::new(parse_footer(footer)?);
        // A table that looks like one of ours but is stored as it was has no description.
        let pairs = metadata.file_metadata().key_value_metadata();
        let text = pairs
            .and_then(|pairs| pairs.iter().find(|pair| pair.key == KEY))
            .and_then(|pair| pair.value.clone());
        let metadata = ArrowReaderMetadata::try_new(metadata, ArrowReaderOptions::new())?;
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
        let columns = footer.code_column + 1 + groups.len();
        if footer.row_groups.len() != row_groups || metadata.schema().fields().len() != columns {
            return Err(ArchiveError::corrupt("its description does not fit its columns"));
        }
        Ok(Self {
            store,
            path,
            metadata,
            schema,
            coded: Some(Arc::new(CodedTable { table, footer, groups })),
            stored_hashes: None,
        })
    }

    /// Where the codes of a coded file are; residuals are after them.
    #[cfg(feature = "cli")]
    pub fn code_column(&self) -> Option<usize> {
        self.coded.as_ref().map(|coded| coded.footer.code_column)
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

    /// How many values must be decoded for some columns of the original table.
    #[cfg(feature = "sql")]
    pub fn decoded_values(&self, row_group: usize, columns: &[usize]) -> usize {
        let Some(coded) = &self.coded else { return 0 };
        let rows = self.metadata.metadata().row_group(row_group).num_rows().max(0) as usize;
        let Ok(plan) = coded
            .plan(&columns.iter().copied().filter(|i| *i < self.schema.fields().len()).collect::<Vec<_>>())
        else {
            return 0;
        };
        let sensors = |group: &usize| coded.groups[*group].sensors.len();
        let signals = coded.footer.row_groups.get(row_group).map_or(rows, |group| group.signals);
        plan.groups.iter().map(sensors).sum::<usize>() * signals
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

    /// Reads some columns of the file's own, of one row group.
    pub async fn read_physical(&self, row_group: usize, columns: &[usize]) -> Result<RecordBatch> {
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
                if hashes.get(*leaf) != Some(&hash_text(chunk)) {
                    let name = group.column(*leaf).column_path().string();
                    return Err(ArchiveError::corrupt(format!(
                        "column {name} of row group {row_group} does not match its hash"
                    )));
                }
            }
        }
        let parts = wanted_ranges.iter().map(|range| range.start).zip(chunks).collect();
        let reader = Chunks { parts: Arc::new(parts) };
        let rows = group.num_rows().max(0) as usize;
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(reader, self.metadata.clone())
            .with_row_groups(vec![row_group])
            .with_projection(mask)
            .with_batch_size(rows.max(1))
            .build()?;
        let schema = arrow::array::RecordBatchReader::schema(&reader);
        let batches: Vec<RecordBatch> = reader.collect::<std::result::Result<_, _>>()?;
        Ok(concat_batches(&schema, &batches)?)
    }

    /// Reads some columns of the original table, of one row group, in the order asked for.
    pub async fn read(
        &self,
        codebook: &Codebook,
        row_group: usize,
        columns: &[usize],
    ) -> Result<RecordBatch> {
        let schema = Arc::new(self.schema.project(columns)?);
        let rows = self.metadata.metadata().row_group(row_group).num_rows().max(0) as usize;
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(rows));
        let Some(coded) = &self.coded else {
            let batch = self.read_physical(row_group, columns).await?;
            let found = columns.iter().map(|i| column_named(&batch, self.schema.field(*i).name()));
            return Ok(RecordBatch::try_new_with_options(schema, found.collect::<Result<_>>()?, &options)?);
        };
        let table = &coded.table;
        let plan = coded.plan(columns)?;
        let batch = self.read_physical(row_group, &plan.physical).await?;
        let mut restored: HashMap<usize, ArrayRef> = HashMap::new();
        if !plan.groups.is_empty() {
            let code = column_named(&batch, self.metadata.schema().field(coded.footer.code_column).name())?;
            let keys = table.layout.key_columns();
            let keys = keys.into_iter().map(|name| column_named(&batch, name)).collect::<Result<Vec<_>>>()?;
            let placement = table.place(rows, &keys, code.nulls(), codebook.sensors())?;
            let codes = read_codes(&code, &placement)?;
            for index in &plan.groups {
                let mut group = coded.groups[*index].clone();
                if placement.sensors > codebook.sensors() {
                    group.sensors = (0..placement.sensors).collect();
                }
                let name = self.metadata.schema().field(coded.footer.code_column + 1 + index).name();
                let blobs = column_named(&batch, name)?;
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
            physical.push(self.footer.code_column);
            physical.extend(groups.iter().map(|group| self.footer.code_column + 1 + group));
        }
        physical.sort_unstable();
        physical.dedup();
        Ok(ReadPlan { physical, groups, group_of })
    }
}

fn column_named(batch: &RecordBatch, name: &str) -> Result<ArrayRef> {
    batch
        .column_by_name(name)
        .cloned()
        .ok_or_else(|| ArchiveError::corrupt(format!("column {name} is missing")))
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

/// Parts of a file in memory.
#[derive(Clone)]
struct Chunks {
    parts: Arc<Vec<(u64, Bytes)>>,
}

impl Length for Chunks {
    fn len(&self) -> u64 {
        self.parts.iter().map(|(start, bytes)| start + bytes.len() as u64).max().unwrap_or(0)
    }
}

impl ChunkReader for Chunks {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> std::result::Result<Self::T, ParquetError> {
        let part =
            self.parts.iter().find(|(first, bytes)| (*first..first + bytes.len() as u64).contains(&start));
        let (first, bytes) = part.ok_or_else(|| ParquetError::EOF(format!("nothing was read at {start}")))?;
        Ok(bytes.slice((start - first) as usize..).reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> std::result::Result<Bytes, ParquetError> {
        let bytes = self.get_read(start)?.into_inner();
        if bytes.len() < length {
            return Err(ParquetError::EOF(format!("{length} bytes at {start} were not read")));
        }
        Ok(bytes.slice(..length))
    }
}
