//! Arguments that several functions share: vectors and dictionaries.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, Int64Array, make_array, new_null_array,
};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::{cast, interleave};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};

use super::DICTIONARY_EXTENSION;
use super::cache::{prepared, prepared_at};
use super::errors::data_error;
use super::held::held_type;
use crate::columnar::{is_code_type, is_vector_type};
use crate::math::PreparedDictionary;

/// Refuses an argument that is no vector when the query is planned.
pub(super) fn check_vector(function: &str, field: &Field) -> Result<()> {
    let data_type = field.data_type();
    if is_vector_type(data_type) || data_type.is_null() {
        return Ok(());
    }
    plan_err!("{function}: {} must be a list of integers or floats, not {data_type}", field.name())
}

/// Refuses an argument that is no code when the query is planned.
pub(super) fn check_code(function: &str, field: &Field) -> Result<()> {
    let data_type = field.data_type();
    if is_code_type(data_type) || data_type.is_null() {
        return Ok(());
    }
    plan_err!("{function}: {} must be a code, a list of struct<atom, weight>, not {data_type}", field.name())
}

/// Refuses an argument that cannot hold dictionaries when the query is planned.
pub(super) fn check_dictionary(function: &str, field: &Field) -> Result<()> {
    let mut data_type = held_type(field.data_type()).unwrap_or(field.data_type());
    if let DataType::Dictionary(_, values) = data_type {
        data_type = values;
    }
    if data_type.is_binary() || data_type.is_null() {
        return Ok(());
    }
    plan_err!(
        "{function}: {} must be a dictionary, as sparse_train or sparse_dictionary makes it (binary), not {data_type}",
        field.name()
    )
}

/// A field of dictionaries.
pub(super) fn dictionary_field(name: &str) -> FieldRef {
    let metadata = HashMap::from([("ARROW:extension:name".to_string(), DICTIONARY_EXTENSION.to_string())]);
    Arc::new(Field::new(name, DataType::BinaryView, true).with_metadata(metadata))
}

/// Rows of a batch that share a dictionary (`None`: NULL).
pub(super) struct Group {
    pub dictionary: Option<Arc<PreparedDictionary>>,
    pub rows: Vec<usize>,
}

/// Splits the rows of a batch by dictionary. A constant, and an array that repeats one value, give
/// one group and are looked up once.
pub(super) fn by_dictionary(
    function: &str,
    column: &str,
    argument: &ColumnarValue,
    rows: usize,
) -> Result<Vec<Group>> {
    let wrong = |error| data_error(function, column, error);
    match argument {
        ColumnarValue::Scalar(value) => {
            let dictionary = match value {
                ScalarValue::Struct(held) => {
                    let cells = Cells::new(&(Arc::clone(held) as ArrayRef))?;
                    cells.cell(0).map(|cell| prepared_at(&cells.values, cell)).transpose()
                }
                _ => scalar_bytes(value)?.map(prepared).transpose(),
            };
            Ok(vec![Group { dictionary: dictionary.map_err(wrong)?, rows: (0..rows).collect() }])
        }
        ColumnarValue::Array(array) => {
            let cells = Cells::new(array)?;
            let mut group_of = HashMap::new();
            let mut groups: Vec<Group> = Vec::new();
            for row in 0..rows {
                let cell = cells.cell(row);
                let group = match group_of.entry(cell.map(|cell| cells.values.views()[cell])) {
                    Entry::Occupied(known) => *known.get(),
                    Entry::Vacant(new) => {
                        let dictionary = cell.map(|cell| prepared(cells.values.value(cell))).transpose();
                        let dictionary = dictionary.map_err(wrong)?;
                        // Equal bytes in different places are one dictionary.
                        let known = groups.iter().position(|group| same(&group.dictionary, &dictionary));
                        let group = known.unwrap_or(groups.len());
                        if known.is_none() {
                            groups.push(Group { dictionary, rows: Vec::new() });
                        }
                        *new.insert(group)
                    }
                };
                groups[group].rows.push(row);
            }
            Ok(groups)
        }
    }
}

fn same(a: &Option<Arc<PreparedDictionary>>, b: &Option<Arc<PreparedDictionary>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        (None, None) => true,
        _ => false,
    }
}

/// Evaluates `work` for every group and puts the results back into the order of the rows; rows whose
/// dictionary is NULL become NULL.
pub(super) fn for_each_group(
    groups: &[Group],
    result: &DataType,
    mut work: impl FnMut(&PreparedDictionary, &[usize]) -> Result<ArrayRef>,
) -> Result<ColumnarValue> {
    let results = groups.iter().map(|group| match &group.dictionary {
        Some(dictionary) => work(dictionary, &group.rows),
        None => Ok(new_null_array(result, group.rows.len())),
    });
    let mut results = results.collect::<Result<Vec<_>>>()?;
    if results.len() == 1 {
        return Ok(ColumnarValue::Array(results.remove(0)));
    }
    let mut places = vec![(0, 0); groups.iter().map(|group| group.rows.len()).sum()];
    for (g, group) in groups.iter().enumerate() {
        for (position, row) in group.rows.iter().enumerate() {
            places[*row] = (g, position);
        }
    }
    if places.is_empty() {
        return Ok(ColumnarValue::Array(new_null_array(result, 0)));
    }
    let arrays: Vec<&dyn Array> = results.iter().map(|array| array.as_ref()).collect();
    Ok(ColumnarValue::Array(interleave(&arrays, &places)?))
}

/// Evaluates `describe` for the dictionary of every row, once where the dictionary is a constant.
pub(super) fn describe_dictionaries(
    function: &str,
    args: &ScalarFunctionArgs,
    describe: impl Fn(&PreparedDictionary, usize) -> Result<ArrayRef>,
) -> Result<ColumnarValue> {
    let constant = matches!(args.args[0], ColumnarValue::Scalar(_));
    let rows = if constant { 1 } else { args.number_rows };
    let groups = by_dictionary(function, args.arg_fields[0].name(), &args.args[0], rows)?;
    let described = for_each_group(&groups, args.return_field.data_type(), |dictionary, rows| {
        describe(dictionary, rows.len())
    })?;
    match described {
        ColumnarValue::Array(array) if constant => {
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?))
        }
        other => Ok(other),
    }
}

/// Cells of a column of dictionaries, told apart by their views without looking at their bytes.
struct Cells {
    values: BinaryViewArray,
    /// Where each row's value stands, for a dictionary-encoded column.
    keys: Option<Int64Array>,
    /// Rows without a struct, for held dictionaries.
    missing: Option<NullBuffer>,
}

impl Cells {
    fn new(array: &ArrayRef) -> Result<Self> {
        let views = |values: &ArrayRef| -> Result<BinaryViewArray> {
            Ok(cast(values, &DataType::BinaryView)?.as_binary_view().clone())
        };
        let (array, missing) = match array.as_struct_opt() {
            Some(held) => (held.column(0), held.nulls().cloned()),
            None => (array, None),
        };
        let Some(encoded) = array.as_any_dictionary_opt() else {
            return Ok(Self { values: views(array)?, keys: None, missing });
        };
        let keys = cast(&make_array(encoded.keys().to_data()), &DataType::Int64)?;
        let keys = Some(keys.as_primitive::<Int64Type>().clone());
        Ok(Self { values: views(encoded.values())?, keys, missing })
    }

    /// The position of row `row` in `values`; `None` for NULL.
    fn cell(&self, row: usize) -> Option<usize> {
        if self.missing.as_ref().is_some_and(|missing| missing.is_null(row)) {
            return None;
        }
        let cell = match &self.keys {
            Some(keys) => keys.is_valid(row).then(|| keys.value(row) as usize),
            None => Some(row),
        };
        cell.filter(|cell| self.values.is_valid(*cell))
    }
}

/// The bytes of a constant dictionary; `None` for NULL.
fn scalar_bytes(value: &ScalarValue) -> Result<Option<&[u8]>> {
    match value {
        ScalarValue::Null => Ok(None),
        ScalarValue::Binary(bytes)
        | ScalarValue::LargeBinary(bytes)
        | ScalarValue::BinaryView(bytes)
        | ScalarValue::FixedSizeBinary(_, bytes) => Ok(bytes.as_deref()),
        ScalarValue::Dictionary(_, value) => scalar_bytes(value),
        other => exec_err!("expected a dictionary, found {}", other.data_type()),
    }
}
