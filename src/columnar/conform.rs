//! Columns that hold the same but are declared differently: writers call the elements of lists `item`, `element` or
//! `array`, and say of what is never NULL that it may be.

use arrow::array::{Array, ArrayRef};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Fields};
use arrow::error::ArrowError;

/// Whether tables with these columns differ at most in what lists call their elements and in what may be NULL.
pub(crate) fn hold_the_same(one: &Fields, other: &Fields) -> bool {
    let same = |(one, other): (&std::sync::Arc<Field>, &std::sync::Arc<Field>)| {
        one.name() == other.name()
            && one.metadata() == other.metadata()
            && same_values(one.data_type(), other.data_type())
    };
    one.len() == other.len() && one.iter().zip(other).all(same)
}

fn same_values(one: &DataType, other: &DataType) -> bool {
    use DataType::{FixedSizeList, LargeList, List};
    match (one, other) {
        (List(one), List(other)) | (LargeList(one), LargeList(other)) => {
            same_values(one.data_type(), other.data_type())
        }
        (FixedSizeList(one, length), FixedSizeList(other, other_length)) => {
            length == other_length && same_values(one.data_type(), other.data_type())
        }
        _ => one == other,
    }
}

/// A column as it is declared elsewhere; its values are shared.
pub(crate) fn conform(column: ArrayRef, field: &Field) -> Result<ArrayRef, ArrowError> {
    if column.data_type() == field.data_type() {
        return Ok(column);
    }
    cast(&column, field.data_type())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{AsArray, ListArray};
    use arrow::datatypes::Float64Type;
    use std::sync::Arc;

    fn lists(element: &str, nullable: bool) -> Field {
        Field::new("v", DataType::List(Arc::new(Field::new(element, DataType::Float64, nullable))), nullable)
    }

    #[test]
    fn names_within_lists_do_not_matter_but_types_and_names_of_columns_do() {
        let fields = |field: Field| Fields::from(vec![field]);
        let (ours, theirs) = (fields(lists("item", true)), fields(lists("element", false)));
        assert!(hold_the_same(&ours, &theirs));
        assert!(!hold_the_same(&ours, &fields(lists("item", true).with_name("u"))));
        let floats = DataType::List(Arc::new(Field::new("item", DataType::Float32, true)));
        assert!(!hold_the_same(&ours, &fields(Field::new("v", floats, true))));
        assert!(!hold_the_same(&ours, &Fields::empty()));
    }

    #[test]
    fn values_are_shared_and_nulls_are_not_declared_away() {
        let rows = [Some(vec![Some(1.0), Some(2.0)]), None];
        let column: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(rows));
        let read = conform(column.clone(), &lists("element", true)).expect("the same values");
        let values = |column: &ArrayRef| column.as_list::<i32>().values().to_data().buffers()[0].as_ptr();
        assert_eq!(values(&read), values(&column));
        let holed = [Some(vec![Some(1.0), None])];
        let holed: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(holed));
        conform(holed, &lists("element", false)).expect_err("there is a NULL");
    }
}
