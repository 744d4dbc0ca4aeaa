//! Code columns: `List<Struct<atom: UInt32, weight: Float64>>`, or compact ones of `UInt16` and `Float32`.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Float32Array, Float64Array, ListArray, StructArray, UInt32Array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Fields, Float64Type, UInt16Type, UInt32Type};

use super::lists::{Lists, child_field};
use super::vectors::{checked_offsets, null_buffer};
use super::{ColumnarError, Result};
use crate::math::{Code, Codes};

const ATOM: &str = "atom";
const WEIGHT: &str = "weight";

/// Atoms that 16 bits tell apart.
const MOST_COMPACT_ATOMS: usize = 1 << 16;

/// The fields of one entry of a code.
fn entry_fields(atom: DataType, weight: DataType) -> Fields {
    Fields::from(vec![Field::new(ATOM, atom, false), Field::new(WEIGHT, weight, false)])
}

fn plain_fields() -> Fields {
    entry_fields(DataType::UInt32, DataType::Float64)
}

fn compact_fields() -> Fields {
    entry_fields(DataType::UInt16, DataType::Float32)
}

/// The child of the list type.
fn entry_field(fields: Fields) -> Arc<Field> {
    Arc::new(Field::new_list_field(DataType::Struct(fields), true))
}

/// The type of codes.
pub fn code_type() -> DataType {
    DataType::List(entry_field(plain_fields()))
}

/// The type of codes with atoms of 16 bits and weights of 32.
pub fn compact_code_type() -> DataType {
    DataType::List(entry_field(compact_fields()))
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
    let entries = StructArray::try_new(plain_fields(), columns, None)?;
    let field = entry_field(plain_fields());
    Ok(Arc::new(ListArray::try_new(field, offsets, Arc::new(entries), null_buffer(present))?))
}

/// The same with atoms of 16 bits and weights of 32; an error where the dictionary has more atoms than that, or a weight
/// is too large.
pub fn to_compact_code_array(codes: Codes, present: &[bool]) -> Result<ArrayRef> {
    let atoms = codes.weights.cols();
    if atoms > MOST_COMPACT_ATOMS {
        return Err(ColumnarError::TooManyAtoms { atoms, most: MOST_COMPACT_ATOMS });
    }
    let array = to_code_array(codes, present)?;
    let (_, offsets, entries, nulls) = array.as_list::<i32>().clone().into_parts();
    let (_, columns, _) = entries.as_struct().clone().into_parts();
    // Cannot be cut off: there are not so many atoms.
    let atoms = columns[0].as_primitive::<UInt32Type>().unary::<_, UInt16Type>(|atom| atom as u16);
    let narrow = |weight: f64| {
        let narrow = weight as f32;
        if narrow.is_finite() { Ok(narrow) } else { Err(ColumnarError::WeightTooLarge(weight)) }
    };
    let weights = columns[1].as_primitive::<Float64Type>().values().iter().map(|weight| narrow(*weight));
    let columns: Vec<ArrayRef> =
        vec![Arc::new(atoms), Arc::new(Float32Array::from(weights.collect::<Result<Vec<f32>>>()?))];
    let entries = StructArray::try_new(compact_fields(), columns, None)?;
    Ok(Arc::new(ListArray::try_new(entry_field(compact_fields()), offsets, Arc::new(entries), nulls)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::{ExitReason, SignalReport};

    fn codes(atoms: usize, entries: &[(u32, f64)]) -> Codes {
        let (chosen, weights): (Vec<u32>, Vec<f64>) = entries.iter().copied().unzip();
        let report =
            SignalReport { objective: 0.0, rounds: 0, updates: 0, gap: 0.0, exit: ExitReason::Converged };
        Codes::from_rows(atoms, [((&chosen[..], &weights[..]), report)])
    }

    #[test]
    fn compact_codes_are_read_as_they_were() {
        let array = to_compact_code_array(codes(1 << 16, &[(3, -0.5), (65_535, 2.0)]), &[false, true]);
        let array = array.expect("they fit");
        assert_eq!(array.data_type(), &compact_code_type());
        let column = CodeColumn::new(&array).expect("codes");
        assert_eq!(column.row(0), None);
        assert_eq!(column.row(1), Some((&[3, 65_535][..], &[-0.5, 2.0][..])));
    }

    #[test]
    fn what_does_not_fit_into_compact_codes_is_named() {
        let refused = |codes| to_compact_code_array(codes, &[true]).expect_err("too much").to_string();
        let message = refused(codes((1 << 16) + 1, &[(3, 1.0)]));
        assert!(message.contains("65537 atoms") && message.contains("at most 65536"), "{message}");
        let message = refused(codes(8, &[(3, 1e39)]));
        assert!(message.contains("1e39"), "{message}");
    }
}
