//! Query results on stdout, in the format asked for.

use std::io::Write;
use std::sync::Arc;

use anyhow::Result;
use clap::ValueEnum;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringArray};
use datafusion::arrow::csv::WriterBuilder;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::json::writer::{JsonArray, LineDelimited};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::physical_plan::SendableRecordBatchStream;
use futures::StreamExt;

use super::json;
use super::messages::printable;

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// A table for people; long vectors and dictionaries are shortened
    Table,
    /// Comma-separated values with a header
    Csv,
    /// Tab-separated values with a header
    Tsv,
    /// One JSON array per statement
    Json,
    /// One JSON object per line
    NdJson,
}

/// In a table, a list or struct longer than this is shortened.
const LONGEST_CELL: usize = 100;
/// In a table, bytes longer than this are only counted.
const LONGEST_BYTES: usize = 32;

/// Prints a stream as it comes, except that a table needs all rows to know its widths.
pub(super) async fn print(mut stream: SendableRecordBatchStream, format: Format) -> Result<()> {
    let schema = stream.schema();
    if schema.fields().is_empty() {
        // Statements without a result still have to run.
        while let Some(batch) = stream.next().await {
            batch?;
        }
        return Ok(());
    }
    match format {
        Format::Table => {
            let mut batches = Vec::new();
            while let Some(batch) = stream.next().await {
                batches.push(shortened(&batch?)?);
            }
            if batches.is_empty() {
                batches.push(shortened(&RecordBatch::new_empty(schema))?);
            }
            let mut out = std::io::stdout().lock();
            writeln!(out, "{}", printable(&pretty_format_batches(&batches)?.to_string()))?;
        }
        Format::Csv | Format::Tsv => {
            let delimiter = if format == Format::Csv { b',' } else { b'\t' };
            let mut header = true;
            // The header is printed even where there are no rows.
            let empty = RecordBatch::new_empty(Arc::clone(&schema));
            let mut next = Some(empty);
            while let Some(batch) = next {
                let mut text = Vec::new();
                let writer = WriterBuilder::new().with_header(header).with_delimiter(delimiter);
                writer.build(&mut text).write(&flat(&batch)?)?;
                std::io::stdout().lock().write_all(&text)?;
                header = false;
                next = stream.next().await.transpose()?;
            }
        }
        Format::Json => {
            // Bytes arrive whole: JSON of a failed statement would not parse.
            let mut writer = json::writer().build::<_, JsonArray>(Vec::new());
            while let Some(batch) = stream.next().await {
                writer.write(&batch?)?;
            }
            writer.finish()?;
            let mut out = std::io::stdout().lock();
            out.write_all(&writer.into_inner())?;
            out.write_all(b"\n")?;
        }
        Format::NdJson => {
            while let Some(batch) = stream.next().await {
                let mut writer = json::writer().build::<_, LineDelimited>(Vec::new());
                writer.write(&batch?)?;
                writer.finish()?;
                std::io::stdout().lock().write_all(&writer.into_inner())?;
            }
        }
    }
    std::io::stdout().flush()?;
    Ok(())
}

/// The batch with nested columns as texts, which CSV cannot hold otherwise.
fn flat(batch: &RecordBatch) -> Result<RecordBatch> {
    as_text(batch, |data_type| data_type.is_nested(), |_, text| text)
}

/// The batch with long cells cut for reading.
fn shortened(batch: &RecordBatch) -> Result<RecordBatch> {
    let long = |data_type: &DataType| data_type.is_nested() || data_type.is_binary();
    as_text(batch, long, |array_and_row, text| match array_and_row {
        (array, row) if array.data_type().is_binary() => match byte_length(array, row) {
            Some(length) if length > LONGEST_BYTES => format!("<{length} bytes>"),
            _ => text,
        },
        _ if text.chars().count() > LONGEST_CELL => {
            let start: String = text.chars().take(LONGEST_CELL - 2).collect();
            format!("{start} …")
        }
        _ => text,
    })
}

fn byte_length(array: &dyn Array, row: usize) -> Option<usize> {
    match array.data_type() {
        DataType::Binary => Some(array.as_binary::<i32>().value(row).len()),
        DataType::LargeBinary => Some(array.as_binary::<i64>().value(row).len()),
        DataType::BinaryView => Some(array.as_binary_view().value(row).len()),
        _ => None,
    }
}

/// Turns the columns that `select` picks into texts, each passed through `edit`.
fn as_text(
    batch: &RecordBatch,
    select: impl Fn(&DataType) -> bool,
    edit: impl Fn((&dyn Array, usize), String) -> String,
) -> Result<RecordBatch> {
    let options = FormatOptions::default().with_null("");
    let (mut fields, mut columns) = (Vec::new(), Vec::new());
    for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        if !select(field.data_type()) {
            fields.push(Arc::clone(field));
            columns.push(Arc::clone(column));
            continue;
        }
        let formatter = ArrayFormatter::try_new(column, &options)?;
        let text = |row: usize| {
            column.is_valid(row).then(|| edit((column.as_ref(), row), formatter.value(row).to_string()))
        };
        let texts: StringArray = (0..column.len()).map(text).collect();
        fields.push(Arc::new(Field::new(field.name(), DataType::Utf8, true)));
        columns.push(Arc::new(texts) as ArrayRef);
    }
    let schema: SchemaRef = Arc::new(Schema::new(fields));
    let rows =
        datafusion::arrow::record_batch::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(schema, columns, &rows)?)
}
