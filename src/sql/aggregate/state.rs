//! Aggregate states as Arrow values, built from whole buffers.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array, LargeListArray};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{Result, ScalarValue, exec_err, not_impl_err};
use datafusion::logical_expr::ColumnarValue;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;

use crate::sql::options::{Known, Options};

/// A state field called `name` of the given type.
pub(super) fn state_field(args: &StateFieldsArgs, name: &str, data_type: DataType) -> FieldRef {
    Arc::new(Field::new(format_state_name(args.name, name), data_type, true))
}

/// The type of a state that is one long list.
pub(super) fn list_type(item: DataType) -> DataType {
    DataType::LargeList(Arc::new(Field::new_list_field(item, true)))
}

/// One list with all of `values`.
pub(super) fn list_state(values: ArrayRef) -> Result<ScalarValue> {
    let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    let offsets = OffsetBuffer::from_lengths([values.len()]);
    Ok(ScalarValue::LargeList(Arc::new(LargeListArray::try_new(field, offsets, values, None)?)))
}

/// One list of doubles.
pub(super) fn doubles_state(values: Vec<f64>) -> Result<ScalarValue> {
    list_state(Arc::new(Float64Array::from(values)))
}

/// The list in row `row` of a state column.
pub(super) fn list_at(states: &ArrayRef, row: usize) -> Result<ArrayRef> {
    match states.as_list_opt::<i64>() {
        Some(lists) => Ok(lists.value(row)),
        None => exec_err!("a state arrived as {}, not as a list", states.data_type()),
    }
}

/// The doubles in row `row` of a state column.
pub(super) fn doubles_at(states: &ArrayRef, row: usize) -> Result<Vec<f64>> {
    let list = list_at(states, row)?;
    match list.as_primitive_opt::<Float64Type>() {
        Some(values) => Ok(values.values().to_vec()),
        None => exec_err!("a state arrived with {}, not with doubles", list.data_type()),
    }
}

/// The value of an argument that must not depend on the row; `None` where it is not given.
pub(super) fn constant(
    function: &str,
    args: &AccumulatorArgs,
    position: usize,
) -> Result<Option<ScalarValue>> {
    let Some(expression) = args.exprs.get(position) else { return Ok(None) };
    let nothing = RecordBatch::new_empty(Arc::new(args.schema.clone()));
    match expression.evaluate(&nothing)? {
        ColumnarValue::Scalar(value) => Ok(Some(value)),
        ColumnarValue::Array(_) => {
            exec_err!("{function}: argument {} must be a constant, not {expression}", position + 1)
        }
    }
}

/// The options of an aggregate over vectors, at a position among its arguments; it is not defined for
/// DISTINCT.
pub(super) fn options(
    function: &'static str,
    known: Known,
    args: &AccumulatorArgs,
    position: usize,
) -> Result<Options> {
    if args.is_distinct {
        return not_impl_err!("{function}(DISTINCT ...): use a subquery with SELECT DISTINCT");
    }
    let value = constant(function, args, position)?.unwrap_or(ScalarValue::Null);
    Options::from_scalar(function, known, &value)
}
