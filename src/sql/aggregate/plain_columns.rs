//! What codes and vectors take as plain columns of Parquet, written as `COPY` writes them.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::basic::{Compression, ZstdLevel};
use datafusion::parquet::errors::ParquetError;
use datafusion::parquet::file::properties::WriterProperties;

use crate::columnar::{ColumnarError, to_code_array, to_vector_array};
use crate::math::learners::Storage;
use crate::math::{Codes, MathError, Result, Signals};

/// The level of zstd that `COPY` has unless it is told another.
const COPY_LEVEL: i32 = 3;

/// Plain columns of Parquet.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlainColumns;

impl Storage for PlainColumns {
    fn codes(&self, codes: Codes) -> Result<f64> {
        let present = vec![true; codes.reports.len()];
        file_bytes(to_code_array(codes, &present))
    }

    fn vectors(&self, signals: &Signals<'_>) -> Result<f64> {
        let present = vec![true; signals.len()];
        file_bytes(to_vector_array(signals.rows().concat(), signals.dim(), &present))
    }
}

fn file_bytes(column: crate::columnar::Result<ArrayRef>) -> Result<f64> {
    let unstored = |error: &dyn std::fmt::Display| MathError::Unstored(error.to_string());
    let column = column.map_err(|error: ColumnarError| unstored(&error))?;
    let write = || -> std::result::Result<usize, ParquetError> {
        let batch = RecordBatch::try_from_iter([("column", column)])?;
        let compression = Compression::ZSTD(ZstdLevel::try_new(COPY_LEVEL)?);
        let properties = WriterProperties::builder().set_compression(compression).build();
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties))?;
        writer.write(&batch)?;
        Ok(writer.into_inner()?.len())
    };
    Ok(write().map_err(|error| unstored(&error))? as f64)
}
