//! Columns of a data file that are as they were, batch by batch.

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;

use super::{ArchiveError, Result};
use crate::columnar::conform;

/// Columns that are as they were, batch by batch.
pub(crate) struct KeptRows {
    /// `None` without columns, where there is nothing but the number of rows.
    reader: Option<ParquetRecordBatchReader>,
    schema: SchemaRef,
    /// Rows that are still to come.
    left: usize,
    size: usize,
}

impl KeptRows {
    pub fn new(
        reader: Option<ParquetRecordBatchReader>,
        schema: SchemaRef,
        rows: usize,
        size: usize,
    ) -> Self {
        Self { reader, schema, left: rows, size: size.max(1) }
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let Some(reader) = &mut self.reader else {
            let count = self.left.min(self.size);
            self.left -= count;
            let options = RecordBatchOptions::new().with_row_count(Some(count));
            let rows = || RecordBatch::try_new_with_options(self.schema.clone(), Vec::new(), &options);
            return Ok((count > 0).then(rows).transpose()?);
        };
        let Some(batch) = reader.next().transpose()? else {
            let missing = std::mem::take(&mut self.left);
            return if missing == 0 { Ok(None) } else { Err(other_count(0, missing)) };
        };
        self.left = self
            .left
            .checked_sub(batch.num_rows())
            .ok_or_else(|| other_count(batch.num_rows(), self.left))?;
        let found =
            self.schema.fields().iter().map(|field| Ok(conform(column_named(&batch, field.name())?, field)?));
        Ok(Some(RecordBatch::try_new(self.schema.clone(), found.collect::<Result<_>>()?)?))
    }

    /// What is still to come, as one batch.
    #[cfg(feature = "sql")]
    pub fn all(self) -> Result<RecordBatch> {
        together(self.schema.clone(), self.collect::<Result<_>>()?)
    }
}

/// Batches as one; without columns there is nothing but the number of rows.
pub(super) fn together(schema: SchemaRef, mut batches: Vec<RecordBatch>) -> Result<RecordBatch> {
    if batches.len() == 1
        && let Some(batch) = batches.pop()
    {
        return Ok(batch);
    }
    let count = batches.iter().map(RecordBatch::num_rows).sum();
    let options = RecordBatchOptions::new().with_row_count(Some(count));
    let columns = concat_batches(&schema, &batches)?.columns().to_vec();
    Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
}

impl Iterator for KeptRows {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch().transpose()
    }
}

pub(super) fn other_count(found: usize, expected: usize) -> ArchiveError {
    ArchiveError::corrupt(format!("there are {found} rows where its footer tells of {expected}"))
}

pub(super) fn column_named(batch: &RecordBatch, name: &str) -> Result<ArrayRef> {
    batch
        .column_by_name(name)
        .cloned()
        .ok_or_else(|| ArchiveError::corrupt(format!("column {name} is missing")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use arrow::array::Int64Array;
    use arrow::datatypes::Schema;
    use bytes::Bytes;
    use parquet::arrow::ArrowWriter;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    fn file(rows: i64) -> (Bytes, RecordBatch) {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
        let table = RecordBatch::try_from_iter([("a", column)]).expect("a table");
        let mut bytes = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut bytes, table.schema(), None).expect("a writer");
        writer.write(&table).and_then(|()| writer.close()).expect("a file");
        (bytes.into(), table)
    }

    /// Else whoever has changed the number of rows in a footer would end the program that reads them.
    #[test]
    fn rows_are_as_many_as_the_footer_tells() {
        let (bytes, table) = file(50);
        let rows = |told: usize| {
            let reader = ParquetRecordBatchReaderBuilder::try_new(bytes.clone()).expect("a file");
            let reader = reader.with_batch_size(20).build().expect("a reader");
            let batches: Result<Vec<RecordBatch>> =
                KeptRows::new(Some(reader), table.schema(), told, 20).collect();
            batches.and_then(|batches| together(table.schema(), batches))
        };
        assert_eq!(rows(50).expect("all of them"), table);
        for told in [0, 49, 51, 1 << 40] {
            assert!(
                rows(told).is_err_and(|error| error.to_string().contains("its footer tells of")),
                "{told}"
            );
        }
    }

    #[test]
    fn without_columns_there_are_rows() {
        let schema = Arc::new(Schema::empty());
        let batches: Result<Vec<RecordBatch>> = KeptRows::new(None, schema.clone(), 50, 20).collect();
        let batches = batches.expect("rows");
        assert_eq!(batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [20, 20, 10]);
        assert_eq!(together(schema, batches).expect("one").num_rows(), 50);
    }
}
