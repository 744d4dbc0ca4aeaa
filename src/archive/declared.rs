//! Whether the rows of a file can be read with the columns of another table.

use arrow::datatypes::{DataType, Field, Schema};
use parquet::file::metadata::ParquetMetaData;

use crate::columnar::hold_the_same;

/// Whether a file whose columns are `own` can be read as if they were `wanted`: they hold the same, and what may not be
/// NULL there is not.
pub(super) fn readable_as(metadata: &ParquetMetaData, own: &Schema, wanted: &Schema) -> bool {
    let pairs = || own.fields().iter().zip(wanted.fields());
    hold_the_same(own.fields(), wanted.fields())
        && pairs().all(|(own, wanted)| allows_all(wanted, own) || has_no_nulls(metadata, own.name()))
}

/// Whether a column may be NULL wherever another one may.
fn allows_all(wanted: &Field, own: &Field) -> bool {
    use DataType::{FixedSizeList, LargeList, List};
    let within = match (wanted.data_type(), own.data_type()) {
        (List(wanted), List(own))
        | (LargeList(wanted), LargeList(own))
        | (FixedSizeList(wanted, _), FixedSizeList(own, _)) => allows_all(wanted, own),
        _ => true,
    };
    within && (wanted.is_nullable() || !own.is_nullable())
}

/// Whether the footer says that nothing in a column is NULL, at whatever depth.
fn has_no_nulls(metadata: &ParquetMetaData, column: &str) -> bool {
    let chunks = metadata.row_groups().iter().flat_map(|group| group.columns());
    let mut own =
        chunks.filter(|chunk| chunk.column_path().parts().first().is_some_and(|name| name == column));
    own.all(|chunk| chunk.statistics().is_some_and(|statistics| statistics.null_count_opt() == Some(0)))
}
