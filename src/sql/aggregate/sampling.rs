//! A bounded sample of a column of vectors as the state of an aggregate.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, UInt64Array};
use datafusion::arrow::datatypes::{DataType, FieldRef, Float64Type, UInt64Type};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::function::StateFieldsArgs;

use super::state::{doubles_state, list_at, list_state, list_type, state_field};
use crate::columnar::{ColumnarError, Row, VectorColumn};
use crate::math::{LearnerOptions, MathError, Sample};
use crate::sql::FunctionMemory;
use crate::sql::errors::data_error;

/// The sample of one group, and whose it is, for errors.
#[derive(Debug)]
pub(super) struct VectorSample {
    function: &'static str,
    column: String,
    pub sample: Sample,
}

impl VectorSample {
    pub fn new(function: &'static str, column: &str, options: &LearnerOptions) -> Self {
        let sample = Sample::new(options.sample(), options.seed());
        Self { function, column: column.to_string(), sample }
    }

    pub fn error(&self, error: impl Into<ColumnarError>) -> DataFusionError {
        data_error(self.function, &self.column, error)
    }

    /// Offers the vectors of a batch.
    pub fn offer(&mut self, vectors: &ArrayRef) -> Result<()> {
        let vectors = VectorColumn::new(vectors).map_err(|error| self.error(error))?;
        for row in 0..vectors.len() {
            match vectors.row(row) {
                Row::Null => {}
                Row::Values(values) => self.sample.offer(row, values).map_err(|error| self.error(error))?,
                Row::NullElement { .. } => self.sample.offer_unusable(),
            }
        }
        Ok(())
    }

    /// The fields of [`VectorSample::state`].
    pub fn state_fields(args: &StateFieldsArgs) -> Vec<FieldRef> {
        vec![
            state_field(args, "seen", DataType::UInt64),
            state_field(args, "skipped", DataType::UInt64),
            state_field(args, "counts", list_type(DataType::UInt64)),
            state_field(args, "values", list_type(DataType::Float64)),
        ]
    }

    pub fn state(&self) -> Result<Vec<ScalarValue>> {
        let vectors = if self.sample.is_empty() {
            Vec::new()
        } else {
            self.sample.signals().map_err(|error| self.error(error))?.rows().concat()
        };
        Ok(vec![
            ScalarValue::UInt64(Some(self.sample.seen())),
            ScalarValue::UInt64(Some(self.sample.skipped())),
            list_state(Arc::new(UInt64Array::from(self.sample.counts())))?,
            doubles_state(vectors)?,
        ])
    }

    /// Takes in the states of other partitions.
    pub fn merge(&mut self, states: &[ArrayRef]) -> Result<()> {
        let (seen, skipped) =
            (states[0].as_primitive::<UInt64Type>(), states[1].as_primitive::<UInt64Type>());
        for row in 0..seen.len() {
            let counts = list_at(&states[2], row)?;
            let values = list_at(&states[3], row)?;
            let values = values.as_primitive::<Float64Type>().values();
            let counts = counts.as_primitive::<UInt64Type>().values();
            let absorbed = self.sample.absorb(values, counts, seen.value(row), skipped.value(row));
            absorbed.map_err(|error| match error {
                // Rows of another partition have no number here.
                MathError::Length { expected, found, .. } => DataFusionError::Execution(format!(
                    "{}({}): vectors of different lengths, {expected} in some rows and {found} in others",
                    self.function, self.column
                )),
                other => self.error(other),
            })?;
        }
        Ok(())
    }

    /// Bytes held. Every partition has a sample, but one learns: what learning needs is charged when it does, unless no
    /// pool is known to charge it to.
    pub fn size(&self, options: &LearnerOptions, memory: &FunctionMemory) -> usize {
        self.sample.size() + if memory.is_known() { 0 } else { self.workspace(options) }
    }

    /// Bytes that learning needs.
    pub fn workspace(&self, options: &LearnerOptions) -> usize {
        options.workspace(self.sample.dim().unwrap_or(0), self.sample.len())
    }
}
