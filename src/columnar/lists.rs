//! The five list layouts of Arrow seen as one: ranges into a child array.

use std::ops::Range;

use arrow::array::{Array, ArrayRef, AsArray, GenericListArray, GenericListViewArray, OffsetSizeTrait};
use arrow::datatypes::{DataType, FieldRef};

/// A list column as ranges into the part of its child that it uses.
pub(crate) struct Lists {
    pub child: ArrayRef,
    pub ranges: Vec<Range<usize>>,
}

/// The child field of any list type.
pub(super) fn child_field(list: &DataType) -> Option<&FieldRef> {
    match list {
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::ListView(field)
        | DataType::LargeListView(field) => Some(field),
        _ => None,
    }
}

impl Lists {
    /// `None` if the array is no list. NULL rows have empty ranges.
    pub fn new(array: &dyn Array) -> Option<Self> {
        let (child, mut ranges) = match array.data_type() {
            DataType::List(_) => offsets(array.as_list::<i32>()),
            DataType::LargeList(_) => offsets(array.as_list::<i64>()),
            DataType::ListView(_) => views(array.as_list_view::<i32>()),
            DataType::LargeListView(_) => views(array.as_list_view::<i64>()),
            DataType::FixedSizeList(_, size) => {
                let (list, size) = (array.as_fixed_size_list(), *size as usize);
                (list.values().clone(), (0..list.len()).map(|i| i * size..(i + 1) * size).collect())
            }
            _ => return None,
        };
        if let Some(nulls) = array.nulls() {
            for (row, range) in ranges.iter_mut().enumerate() {
                if nulls.is_null(row) {
                    *range = range.start..range.start;
                }
            }
        }
        Some(Self { child, ranges }.trimmed())
    }

    /// Leaves out what precedes and follows the rows, so that a slice of a large column does not
    /// cost what the column costs.
    fn trimmed(mut self) -> Self {
        let used = || self.ranges.iter().filter(|range| range.start < range.end);
        let start = used().map(|range| range.start).min().unwrap_or(0);
        let end = used().map(|range| range.end).max().unwrap_or(0);
        self.child = self.child.slice(start, end - start);
        for range in &mut self.ranges {
            *range = if range.start < range.end { range.start - start..range.end - start } else { 0..0 };
        }
        self
    }
}

fn offsets<O: OffsetSizeTrait>(list: &GenericListArray<O>) -> (ArrayRef, Vec<Range<usize>>) {
    let ranges = list.offsets().windows(2).map(|pair| pair[0].as_usize()..pair[1].as_usize());
    (list.values().clone(), ranges.collect())
}

fn views<O: OffsetSizeTrait>(list: &GenericListViewArray<O>) -> (ArrayRef, Vec<Range<usize>>) {
    let views = list.offsets().iter().zip(list.sizes());
    let ranges = views.map(|(offset, size)| offset.as_usize()..offset.as_usize() + size.as_usize());
    (list.values().clone(), ranges.collect())
}
