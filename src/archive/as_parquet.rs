//! What a table takes as plain Parquet: as it is, and with its values rounded to a bound.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, FixedSizeListArray, GenericListArray, RecordBatch};
use arrow::datatypes::{ArrowPrimitiveType, DataType, Float32Type, Float64Type};
use parquet::arrow::{ArrowSchemaConverter, ArrowWriter};
use parquet::basic::{Compression, Encoding, Type, ZstdLevel};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::properties::WriterProperties;

use super::Result;
use super::layout::Table;
use super::quantiser::Bound;

/// Bytes of a table as Parquet with zstd, for some of its rows carried over to all of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlainBytes {
    /// With dictionaries, as writers do it.
    pub usual: u64,
    /// With floats split into their bytes.
    pub split: u64,
    /// With what is better for each column.
    pub best: u64,
}

impl PlainBytes {
    /// Of rows, where there are so many in all.
    pub fn of(blocks: &[RecordBatch], total_rows: u64) -> Result<Self> {
        let (Some(usual), Some(split)) = (written(blocks, false)?, written(blocks, true)?) else {
            return Ok(Self { usual: 0, split: 0, best: 0 });
        };
        let rows: usize = blocks.iter().map(RecordBatch::num_rows).sum();
        let scale = total_rows as f64 / rows.max(1) as f64;
        let scaled = |bytes: u64| (bytes as f64 * scale) as u64;
        let saved: u64 = usual.columns.iter().zip(&split.columns).map(|(a, b)| a.saturating_sub(*b)).sum();
        Ok(Self {
            usual: scaled(usual.bytes),
            split: scaled(split.bytes),
            best: scaled(usual.bytes.saturating_sub(saved)),
        })
    }

    /// The same with values rounded to multiples of twice a bound, where it is an absolute one.
    pub fn rounded(
        table: &Table,
        blocks: &[RecordBatch],
        bound: Bound,
        total_rows: u64,
    ) -> Result<Option<Self>> {
        let Bound::MaxError(bound) = bound else { return Ok(None) };
        let rounded = |block: &RecordBatch| -> Result<RecordBatch> {
            let mut columns = block.columns().to_vec();
            for value in &table.values {
                columns[*value] = rounded(&columns[*value], bound)?;
            }
            Ok(RecordBatch::try_new(block.schema(), columns)?)
        };
        let blocks = blocks.iter().map(rounded).collect::<Result<Vec<_>>>()?;
        Self::of(&blocks, total_rows).map(Some)
    }
}

/// A file: its bytes, and those of each column.
struct Written {
    bytes: u64,
    columns: Vec<u64>,
}

fn written(blocks: &[RecordBatch], split_floats: bool) -> Result<Option<Written>> {
    let Some(first) = blocks.first() else { return Ok(None) };
    let mut properties =
        WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?));
    if split_floats {
        let schema = ArrowSchemaConverter::new().convert(first.schema_ref())?;
        let is_float = |physical: Type| matches!(physical, Type::FLOAT | Type::DOUBLE);
        for column in schema.columns().iter().filter(|column| is_float(column.physical_type())) {
            properties = properties
                .set_column_dictionary_enabled(column.path().clone(), false)
                .set_column_encoding(column.path().clone(), Encoding::BYTE_STREAM_SPLIT);
        }
    }
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, first.schema(), Some(properties.build()))?;
    for block in blocks {
        writer.write(block)?;
    }
    let metadata: ParquetMetaData = writer.close()?;
    let mut columns = vec![0; metadata.file_metadata().schema_descr().num_columns()];
    for group in metadata.row_groups() {
        for (bytes, chunk) in columns.iter_mut().zip(group.columns()) {
            *bytes += chunk.compressed_size().max(0) as u64;
        }
    }
    Ok(Some(Written { bytes: bytes.len() as u64, columns }))
}

/// Floats rounded to multiples of twice a bound; what is no float stays.
fn rounded(values: &ArrayRef, bound: f64) -> Result<ArrayRef> {
    Ok(match values.data_type() {
        DataType::Float64 => floats::<Float64Type>(values, |value| nearest(value, bound)),
        DataType::Float32 => floats::<Float32Type>(values, |value| nearest(f64::from(value), bound) as f32),
        DataType::List(item) => lists::<i32>(values, item, bound)?,
        DataType::LargeList(item) => lists::<i64>(values, item, bound)?,
        DataType::FixedSizeList(item, size) => {
            let list = values.as_fixed_size_list();
            let items = rounded(list.values(), bound)?;
            Arc::new(FixedSizeListArray::try_new(item.clone(), *size, items, list.nulls().cloned())?)
        }
        _ => values.clone(),
    })
}

fn floats<T: ArrowPrimitiveType>(values: &ArrayRef, round: impl Fn(T::Native) -> T::Native) -> ArrayRef {
    Arc::new(values.as_primitive::<T>().unary::<_, T>(round))
}

fn lists<O: arrow::array::OffsetSizeTrait>(
    values: &ArrayRef,
    item: &Arc<arrow::datatypes::Field>,
    bound: f64,
) -> Result<ArrayRef> {
    let list = values.as_list::<O>();
    let items = rounded(list.values(), bound)?;
    let list = GenericListArray::try_new(item.clone(), list.offsets().clone(), items, list.nulls().cloned())?;
    Ok(Arc::new(list))
}

/// The nearest multiple of twice a bound; what has none stays.
fn nearest(value: f64, bound: f64) -> f64 {
    let rounded = (value / (2.0 * bound)).round() * (2.0 * bound);
    if rounded.is_finite() { rounded } else { value }
}
