//! What the footers of data files say of their columns.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::common::Result;
use datafusion::common::stats::{ColumnStatistics, Precision, Statistics};
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::parquet::file::metadata::ColumnChunkMetaData;
use datafusion::parquet::file::statistics::Statistics as ParquetStatistics;

use super::pruning::may_hide_nan;
use crate::archive::DataFile;

/// Of the columns of a table, as far as they are kept in a file of it.
pub(super) fn of_file(file: &DataFile, schema: &Schema) -> Result<Statistics> {
    let metadata = file.metadata.metadata();
    let is_kept = |column: usize| {
        let coded = file.coded.as_ref().is_some_and(|coded| coded.table.values.contains(&column));
        column < file.schema.fields().len() && !coded
    };
    let columns: Vec<usize> = (0..schema.fields().len()).filter(|column| is_kept(*column)).collect();
    let kept = Arc::new(schema.project(&columns)?);
    let known = DFParquetMetadata::statistics_from_parquet_metadata(metadata, &kept)?;
    let mut chunks: HashMap<&str, Vec<&ColumnChunkMetaData>> = HashMap::new();
    for chunk in metadata.row_groups().iter().flat_map(|group| group.columns()) {
        if let Some(root) = chunk.column_path().parts().first() {
            chunks.entry(root).or_default().push(chunk);
        }
    }
    let mut column_statistics = vec![ColumnStatistics::new_unknown(); schema.fields().len()];
    for (column, told) in columns.into_iter().zip(known.column_statistics) {
        let field = schema.field(column);
        let own = chunks.get(field.name().as_str()).map_or(&[][..], Vec::as_slice);
        column_statistics[column] = as_exact_as_told(own, field, told);
    }
    Ok(Statistics { num_rows: known.num_rows, total_byte_size: Precision::Absent, column_statistics })
}

/// What a footer says of a column with these chunks, no more exact than it is: extremes of floats leave NaN out and the
/// sign of zeros open, counts of NULLs may be missing, and extremes of a row group with long values, too.
fn as_exact_as_told(own: &[&ColumnChunkMetaData], field: &Field, told: ColumnStatistics) -> ColumnStatistics {
    let nulls = |told: Option<&ParquetStatistics>| told.and_then(|told| told.null_count_opt());
    let counted = own.iter().all(|chunk| nulls(chunk.statistics()).is_some());
    let null_count = if counted { told.null_count } else { Precision::Absent };
    let told = ColumnStatistics { null_count, ..told };
    let is_limited = |chunk: &&ColumnChunkMetaData| {
        let both =
            |told: &ParquetStatistics| told.min_bytes_opt().is_some() && told.max_bytes_opt().is_some();
        let only_nulls = nulls(chunk.statistics()).is_some_and(|nulls| nulls as i64 == chunk.num_values());
        only_nulls || chunk.statistics().is_some_and(both)
    };
    if !own.iter().all(is_limited) {
        return ColumnStatistics { min_value: Precision::Absent, max_value: Precision::Absent, ..told };
    }
    if !may_hide_nan(field.data_type()) {
        return told;
    }
    let (min_value, max_value) = (told.min_value.to_inexact(), told.max_value.to_inexact());
    ColumnStatistics { min_value, max_value, ..told }
}
