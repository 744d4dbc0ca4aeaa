//! Writing a data file: Parquet with every other column as it was, and the values as codes and residuals.
//!
//! | column | what |
//! |---|---|
//! | kept columns | as they were |
//! | `_code` | `list<struct<atom: uint16, weight: int16>>`, in the row where the signal begins |
//! | `_residual_0`, ... | binary, in the first row of the row group: what the codes leave of a group of sensors |

use std::collections::HashSet;
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, Int16Array, ListArray, RecordBatch, StructArray, UInt16Array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use arrow::row::{RowConverter, SortField};
use parquet::arrow::arrow_writer::{ArrowWriter, ArrowWriterOptions};
use parquet::arrow::parquet_to_arrow_schema;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::{ColumnPath, SchemaDescriptor};

use super::block::CodedBlock;
use super::codebook::Codebook;
use super::drift::Drift;
use super::error_sums::{ErrorSums, rounded};
use super::footer::{Footer, KEY, RowGroup, RowGroupError, ValueColumns};
use super::layout::{Layout, Table};
use super::left::{Left, SHARE_DIGITS};
use super::manifest::hash_of;
use super::parquet_footer::chunk_ranges;
use super::parquet_types::{first_other, parquet_types};
use super::placement::Placement;
use super::quantiser::Bound;
use super::sparse_codes::WholeCode;
use super::{ArchiveError, FORMAT_VERSION, Result};

const CODE: &str = "_code";
const RESIDUAL: &str = "_residual_";
/// Rows of a page of a kept column.
const PAGE_ROWS: usize = 8192;
/// The settings that all data files of an archive share.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub codebook: Arc<Codebook>,
    /// What is promised of every value.
    pub bound: Bound,
    /// What values are rounded to: the bound, or a tighter one.
    pub rounding: Bound,
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
    left: Left,
}

impl DataFileWriter {
    /// Encodings are chosen by what the first rows look like; `original` has the Parquet types of the table's columns.
    pub fn new(
        table: &Table,
        settings: &Settings,
        source: String,
        first: Option<&RecordBatch>,
        original: Option<&SchemaDescriptor>,
    ) -> Result<Self> {
        let groups = table.groups(settings.codebook.sensors(), settings.group_sensors);
        // The code of a list says whether the list is NULL, too.
        let has_codes = settings.codebook.atoms() > 0 || matches!(table.layout, Layout::List { .. });
        let schema = physical_schema(table, has_codes, groups.len());
        let footer = Footer {
            version: FORMAT_VERSION,
            dictionary: settings.codebook.hash(),
            coder: "fksc".to_string(),
            lambda: settings.codebook.lambda(),
            bound: settings.bound,
            layout: table.layout.clone(),
            values: ValueColumns::of(table)?,
            group_sensors: settings.group_sensors,
            code_column: table.kept.len(),
            has_codes,
            source,
            error: ErrorSums::default(),
            left: None,
            drift: None,
            row_groups: Vec::new(),
        };
        let types = parquet_types(&schema, original)?;
        let mut kept = table.kept.iter().map(|column| table.schema.field(*column).name().as_str());
        if let Some(name) = original.and_then(|original| first_other(&mut kept, &types, original)) {
            return Err(ArchiveError::layout(format!(
                "column {name}: its Parquet type would be lost; write the table anew with another type or leave the column out"
            )));
        }
        let residuals = footer.residual_column(0);
        let options = ArrowWriterOptions::new()
            .with_properties(properties(&schema, table, residuals, first)?)
            .with_skip_arrow_metadata(speaks_for_itself(&schema, &types)?)
            .with_parquet_schema(types);
        let writer = ArrowWriter::try_new_with_options(Buffer::default(), schema.clone(), options)?;
        Ok(Self { table: table.clone(), writer, footer, schema, taken: 0, left: Left::default() })
    }

    /// Adds a row group, and gives the file's next bytes.
    pub fn write(
        &mut self,
        rows: &RecordBatch,
        placement: &Placement,
        coded: &CodedBlock,
    ) -> Result<Vec<u8>> {
        let mut columns: Vec<ArrayRef> = self.table.kept.iter().map(|i| rows.column(*i).clone()).collect();
        if self.footer.has_codes {
            let column = self.schema.field(self.footer.code_column);
            columns.push(code_array(column, rows.num_rows(), placement, &coded.codes)?);
        }
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
            bytes.get(range).map(hash_of).ok_or_else(|| ArchiveError::corrupt("a column chunk is elsewhere"))
        };
        self.footer.row_groups.push(RowGroup {
            signals: placement.signals(),
            error: Some(RowGroupError {
                max_error: coded.error.max,
                nmae: rounded(coded.error.nmae(), SHARE_DIGITS),
                nrmse: rounded(coded.error.nrmse(), SHARE_DIGITS),
            }),
            hashes: chunk_ranges(metadata).map(hash).collect::<Result<_>>()?,
        });
        self.footer.error.merge(&coded.error);
        coded.left.iter().for_each(|left| self.left.merge(left));
        Ok(bytes)
    }

    /// How many values were coded so far.
    pub fn values(&self) -> u64 {
        self.footer.error.values
    }

    /// Tells in the footer how the signals differ from those before.
    pub fn tell(&mut self, drift: &Drift) {
        self.footer.drift = Some(drift.clone());
    }

    /// Bytes of codes and residuals so far.
    pub fn coded_bytes(&self) -> u64 {
        let chunks = self.writer.flushed_row_groups().iter().flat_map(|group| group.columns());
        let ours = |name: &str| {
            self.schema.fields()[self.footer.code_column..].iter().any(|field| field.name() == name)
        };
        let coded = chunks.filter(|chunk| chunk.column_path().parts().first().is_some_and(|name| ours(name)));
        coded.map(|chunk| chunk.compressed_size().max(0) as u64).sum()
    }

    fn take(&mut self) -> Result<Vec<u8>> {
        self.writer.sync()?;
        let bytes = std::mem::take(&mut self.writer.inner_mut().0);
        self.taken += bytes.len() as u64;
        Ok(bytes)
    }

    /// The file's last bytes, with the footer, and its errors.
    pub fn finish(mut self) -> Result<(Vec<u8>, ErrorSums)> {
        self.footer.left = Some(self.left.share());
        self.footer.error = self.footer.error.recorded();
        if let [only] = self.footer.row_groups.as_mut_slice() {
            only.error = None;
        }
        let text = serde_json::to_string(&self.footer)?;
        self.writer.append_key_value_metadata(KeyValue::new(KEY.to_string(), text));
        self.writer.finish()?;
        Ok((std::mem::take(&mut self.writer.inner_mut().0), self.footer.error))
    }
}

/// The columns of a data file.
fn physical_schema(table: &Table, has_codes: bool, groups: usize) -> SchemaRef {
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
    if has_codes {
        fields.push(Arc::new(Field::new(format!("{prefix}{CODE}"), DataType::List(entry), true)));
    }
    for group in 0..groups {
        fields.push(Arc::new(Field::new(format!("{prefix}{RESIDUAL}{group}"), DataType::Binary, true)));
    }
    Arc::new(Schema::new_with_metadata(fields, table.schema.metadata().clone()))
}

/// Whether readers find the same columns without the Arrow schema, which takes half a kilobyte of every file.
fn speaks_for_itself(schema: &Schema, types: &SchemaDescriptor) -> Result<bool> {
    let found = parquet_to_arrow_schema(types, None)?;
    Ok(schema.metadata().is_empty() && found.fields() == schema.fields())
}

fn properties(
    schema: &Schema,
    table: &Table,
    residuals: usize,
    first: Option<&RecordBatch>,
) -> Result<WriterProperties> {
    // An index of pages tells a filter more than the row group does only where there are several of them.
    let paged = first.is_some_and(|first| first.num_rows() > PAGE_ROWS);
    let statistics = if paged { EnabledStatistics::Page } else { EnabledStatistics::Chunk };
    let mut properties = WriterProperties::builder()
        .set_created_by("sparrow".to_string())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(9)?))
        .set_statistics_enabled(statistics)
        .set_offset_index_disabled(!paged)
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_max_row_group_row_count(None);
    for kept in &table.kept {
        if let Some(encoding) = first.and_then(|first| encoding_for(first.column(*kept))) {
            let path = ColumnPath::new(vec![table.schema.field(*kept).name().clone()]);
            properties = properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, encoding);
        }
    }
    for code in &schema.fields()[table.kept.len()..residuals] {
        for leaf in ["atom", "weight"] {
            let path: Vec<String> = [code.name(), "list", "item", leaf].map(ToString::to_string).to_vec();
            let path = ColumnPath::new(path);
            properties = properties
                // Atoms come in runs that a dictionary's packed bits would hide.
                .set_column_dictionary_enabled(path.clone(), leaf == "weight")
                .set_column_statistics_enabled(path, EnabledStatistics::None);
        }
    }
    for field in &schema.fields()[residuals..] {
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

fn code_array(column: &Field, rows: usize, placement: &Placement, codes: &[WholeCode]) -> Result<ArrayRef> {
    let DataType::List(entry) = column.data_type() else {
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
