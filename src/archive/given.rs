//! A dictionary made by `sparse_train`, from the Parquet file it was copied to.

use arrow::array::{Array, AsArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use bytes::Bytes;

use super::parquet_footer::rows_of;
use super::{ArchiveError, Result};
use crate::columnar::dictionary_from_bytes;
use crate::math::Dictionary;

/// Reads the only dictionary of a Parquet file, in its column `dictionary`; `lambda` replaces its penalty.
pub fn read_dictionary(parquet: Bytes, lambda: Option<f64>) -> Result<Dictionary> {
    let mut reader = rows_of(parquet)?;
    let one = || ArchiveError::layout("expected one row with a column dictionary, as sparse_train makes it");
    let batch = reader.next().ok_or_else(one)??;
    let column = cast(batch.column_by_name("dictionary").ok_or_else(one)?, &DataType::Binary)?;
    let values = column.as_binary_opt::<i32>().ok_or_else(one)?;
    if values.len() != 1 || values.is_null(0) {
        return Err(one());
    }
    let found = dictionary_from_bytes(values.value(0))?;
    let Some(lambda) = lambda else { return Ok(found) };
    let (atoms, training) = (found.atoms().to_vec(), found.training().cloned());
    Ok(Dictionary::new(atoms, found.dim(), found.kernel().clone(), lambda, training)?)
}
