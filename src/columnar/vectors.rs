//! Vector columns: lists of numbers, borrowed where they are doubles already.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, ListArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Float64Type};

use super::lists::{Lists, child_field};
use super::{ColumnarError, Result};

/// Whether a column of this type holds vectors: any list of integers or floats.
pub fn is_vector_type(data_type: &DataType) -> bool {
    child_field(data_type).is_some_and(|child| {
        let child = child.data_type();
        // A list of NULLs alone, as in `[NULL, NULL]`, has no other type.
        child.is_integer() || child.is_floating() || child.is_null()
    })
}

/// The type of decoded vectors: `List<Float64>`.
pub fn vector_type() -> DataType {
    DataType::List(Arc::new(Field::new_list_field(DataType::Float64, true)))
}

/// A list column whose rows can be borrowed as slices of doubles.
#[derive(Debug, Clone)]
pub struct VectorColumn {
    values: Float64Array,
    ranges: Vec<Range<usize>>,
    nulls: Option<NullBuffer>,
}

/// One row of a vector column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Row<'a> {
    /// The vector itself is NULL.
    Null,
    /// A vector without NULL elements.
    Values(&'a [f64]),
    /// A vector of this length with a NULL element, the first one at this position.
    NullElement {
        /// Where.
        position: usize,
        /// The vector's length.
        len: usize,
    },
}

impl VectorColumn {
    /// Takes any list layout of any integer or float type; doubles are not copied.
    pub fn new(array: &dyn Array) -> Result<Self> {
        let not_vectors = || ColumnarError::NotVectors(array.data_type().to_string());
        if array.data_type().is_null() {
            let nulls = Some(NullBuffer::new_null(array.len()));
            let ranges = vec![0..0; array.len()];
            return Ok(Self { values: Float64Array::from(Vec::<f64>::new()), ranges, nulls });
        }
        if !is_vector_type(array.data_type()) {
            return Err(not_vectors());
        }
        let Lists { child, ranges } = Lists::new(array).ok_or_else(not_vectors)?;
        let values = cast(&child, &DataType::Float64)?.as_primitive::<Float64Type>().clone();
        Ok(Self { values, ranges, nulls: array.nulls().cloned() })
    }

    /// How many rows.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// True without rows.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Row `i`.
    pub fn row(&self, i: usize) -> Row<'_> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(i)) {
            return Row::Null;
        }
        let range = self.ranges[i].clone();
        let nulls = self.values.nulls().filter(|nulls| nulls.null_count() > 0);
        match nulls.and_then(|nulls| range.clone().position(|j| nulls.is_null(j))) {
            Some(position) => Row::NullElement { position, len: range.len() },
            None => Row::Values(&self.values.values()[range]),
        }
    }

    /// The elements of row `i`, NULLs as `None`; `None` for a NULL row.
    pub fn elements(&self, i: usize) -> Option<impl ExactSizeIterator<Item = Option<f64>> + '_> {
        let null = self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(i));
        let element = |j: usize| self.values.is_valid(j).then(|| self.values.value(j));
        (!null).then(|| self.ranges[i].clone().map(element))
    }
}

/// Vectors of one length, one after the other, as a list column; `present[i]` says whether row `i`
/// is the next of them or NULL.
pub fn to_vector_array(values: Vec<f64>, dim: usize, present: &[bool]) -> Result<ArrayRef> {
    let lengths = present.iter().map(|present| if *present { dim } else { 0 });
    let field = Arc::new(Field::new_list_field(DataType::Float64, true));
    let offsets = checked_offsets(lengths, values.len())?;
    let nulls = null_buffer(present);
    Ok(Arc::new(ListArray::try_new(field, offsets, Arc::new(Float64Array::from(values)), nulls)?))
}

/// Offsets of a list array, refused where they do not fit into 32 bits.
pub(super) fn checked_offsets(
    lengths: impl Iterator<Item = usize>,
    total: usize,
) -> Result<OffsetBuffer<i32>> {
    if i32::try_from(total).is_err() {
        return Err(ColumnarError::TooMany(total));
    }
    Ok(OffsetBuffer::from_lengths(lengths))
}

/// No buffer where every row is present.
pub(super) fn null_buffer(present: &[bool]) -> Option<NullBuffer> {
    (!present.iter().all(|present| *present)).then(|| NullBuffer::from(present))
}
