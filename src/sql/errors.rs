//! Errors of the layers below as DataFusion reports them: with the function and the column.

use datafusion::error::DataFusionError;

use crate::columnar::ColumnarError;
use crate::math::MathError;

/// An error about the data that a function was given.
pub(super) fn data_error(function: &str, column: &str, error: impl Into<ColumnarError>) -> DataFusionError {
    match error.into() {
        ColumnarError::Arrow(error) => DataFusionError::from(error).context(format!("{function}({column})")),
        error => DataFusionError::Execution(format!("{function}({column}): {error}")),
    }
}

/// An error about an option's value, which is known before any data is read.
pub(super) fn option_error(function: &str, error: MathError) -> DataFusionError {
    DataFusionError::Plan(format!("{function}: {error}"))
}

/// Turns the number of a signal in an error into the number of its row in the batch.
pub(super) fn with_batch_row(error: MathError, rows: &[usize]) -> MathError {
    let batch_row = |row: usize| rows.get(row).copied().unwrap_or(row);
    match error {
        MathError::Length { row, expected, found } => {
            MathError::Length { row: batch_row(row), expected, found }
        }
        MathError::Dimension { row, found, dimension } => {
            MathError::Dimension { row: batch_row(row), found, dimension }
        }
        MathError::NotFinite { row, position, value } => {
            MathError::NotFinite { row: batch_row(row), position, value }
        }
        MathError::TooLarge { row, largest } => MathError::TooLarge { row: batch_row(row), largest },
        MathError::AtomOutOfRange { row, atom, atoms } => {
            MathError::AtomOutOfRange { row: batch_row(row), atom, atoms }
        }
        MathError::WeightNotFinite { row, atom, weight } => {
            MathError::WeightNotFinite { row: batch_row(row), atom, weight }
        }
        MathError::EmptyVector { row } => MathError::EmptyVector { row: batch_row(row) },
        other => other,
    }
}
