//! Code columns: `List<Struct<atom: UInt32, weight: Float64>>`.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, ListArray, StructArray, UInt32Array};
use arrow::buffer::NullBuffer;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Fields, Float64Type, UInt32Type};

use super::lists::{Lists, child_field};
use super::vectors::{checked_offsets, null_buffer};
use super::{ColumnarError, Result};
use crate::math::{Code, Codes};

const ATOM: &str = "atom";
const WEIGHT: &str = "weight";

/// The fields of one entry of a code.
fn entry_fields() -> Fields {
    Fields::from(vec![
        Field::new(ATOM, DataType::UInt32, false),
        Field::new(WEIGHT, DataType::Float64, false),
    ])
}

/// The child of the list type.
fn entry_field() -> Arc<Field> {
    Arc::new(Field::new_list_field(DataType::Struct(entry_fields()), true))
}

/// The type of codes.
pub fn code_type() -> DataType {
    DataType::List(entry_field())
}

/// A field of the type of codes.
pub fn code_field(name: &str) -> Field {
    Field::new(name, code_type(), true)
}

/// Whether a column of this type can be read as codes: a list of structs with a numeric `atom` and
/// a numeric `weight`, as `sparse_encode` gives them or narrowed by the user.
pub fn is_code_type(data_type: &DataType) -> bool {
    let Some(DataType::Struct(fields)) = child_field(data_type).map(|field| field.data_type()) else {
        return false;
    };
    let of = |name: &str| fields.iter().find(|field| field.name() == name).map(|field| field.data_type());
    of(ATOM).is_some_and(DataType::is_integer) && of(WEIGHT).is_some_and(DataType::is_numeric)
}

/// A column of codes whose rows can be borrowed.
#[derive(Debug, Clone)]
pub struct CodeColumn {
    atoms: UInt32Array,
    weights: Float64Array,
    ranges: Vec<Range<usize>>,
    nulls: Option<NullBuffer>,
}

impl CodeColumn {
    /// Takes any list layout; numbers of other types are converted, and refused where they do not
    /// fit.
    pub fn new(array: &dyn Array) -> Result<Self> {
        let not_codes = || ColumnarError::NotCodes(array.data_type().to_string());
        if array.data_type().is_null() {
            let (atoms, weights) = (Vec::<u32>::new().into(), Vec::<f64>::new().into());
            let nulls = Some(NullBuffer::new_null(array.len()));
            return Ok(Self { atoms, weights, ranges: vec![0..0; array.len()], nulls });
        }
        if !is_code_type(array.data_type()) {
            return Err(not_codes());
        }
        let Lists { child, ranges } = Lists::new(array).ok_or_else(not_codes)?;
        let entries = child.as_struct();
        let column = |name: &str, to: &DataType| {
            let values = entries.column_by_name(name).ok_or_else(not_codes)?;
            let strict = CastOptions { safe: false, ..CastOptions::default() };
            Ok::<_, ColumnarError>(cast_with_options(values, to, &strict)?)
        };
        let atoms = column(ATOM, &DataType::UInt32)?;
        let weights = column(WEIGHT, &DataType::Float64)?;
        for nulls in [entries.nulls(), atoms.nulls(), weights.nulls()].into_iter().flatten() {
            for (row, range) in ranges.iter().enumerate() {
                if let Some(position) = range.clone().position(|entry| nulls.is_null(entry)) {
                    return Err(ColumnarError::NullCodeEntry { row, position });
                }
            }
        }
        let atoms = atoms.as_primitive::<UInt32Type>().clone();
        let weights = weights.as_primitive::<Float64Type>().clone();
        Ok(Self { atoms, weights, ranges, nulls: array.nulls().cloned() })
    }

    /// How many rows.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// True without rows.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The atoms and weights of row `i`; `None` for NULL.
    pub fn row(&self, i: usize) -> Option<Code<'_>> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(i)) {
            return None;
        }
        let range = self.ranges[i].clone();
        Some((&self.atoms.values()[range.clone()], &self.weights.values()[range]))
    }
}

/// Codes as a list column; `present[i]` says whether row `i` is the next code or NULL.
pub fn to_code_array(codes: Codes, present: &[bool]) -> Result<ArrayRef> {
    let (starts, atoms, weights) = codes.weights.into_raw_storage();
    let mut lengths = starts.windows(2).map(|pair| pair[1] - pair[0]);
    let lengths = present.iter().map(|present| if *present { lengths.next().unwrap_or(0) } else { 0 });
    let offsets = checked_offsets(lengths, atoms.len())?;
    let columns: Vec<ArrayRef> =
        vec![Arc::new(UInt32Array::from(atoms)), Arc::new(Float64Array::from(weights))];
    let entries = StructArray::try_new(entry_fields(), columns, None)?;
    Ok(Arc::new(ListArray::try_new(entry_field(), offsets, Arc::new(entries), null_buffer(present))?))
}
