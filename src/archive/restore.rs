//! The way from decoded cells back to columns.

use std::sync::Arc;

use arrow::array::{ArrayRef, FixedSizeListArray, GenericListArray, OffsetSizeTrait};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, FieldRef};

use super::cells::{Cell, Cells, Group};
use super::layout::{Layout, Table, item_type};
use super::number::to_array;
use super::placement::Placement;
use super::{ArchiveError, Result};

impl Table {
    /// One value column from the decoded cells of the group that holds it.
    pub fn restore(
        &self,
        value: usize,
        placement: &Placement,
        rows: usize,
        group: &Group,
        cells: &Cells,
    ) -> Result<ArrayRef> {
        let field = self.schema.field(value);
        if let Layout::List { .. } = self.layout {
            return restore_list(field, placement, rows, cells);
        }
        let places: Vec<usize> = match &placement.cell_of_row {
            Some(of_row) => of_row.clone(),
            None => {
                // Cannot be absent: groups are made of the table's sensors.
                let sensor = self.values.iter().position(|v| *v == value);
                let column = group.sensors.iter().position(|s| Some(*s) == sensor);
                let column = column.ok_or_else(|| ArchiveError::corrupt("a sensor has no group"))?;
                (0..rows).map(|row| row * cells.sensors + column).collect()
            }
        };
        number_array(field.data_type(), cells, places.into_iter())
    }
}

/// NULL lists of a fixed size take room for so many values at most.
const MOST_NULL_CELLS: usize = 1 << 28;

fn restore_list(field: &Field, placement: &Placement, rows: usize, cells: &Cells) -> Result<ArrayRef> {
    let length = cells.sensors;
    let nulls = (placement.signals() < rows).then(|| {
        let mut valid = vec![false; rows];
        placement.first_rows.iter().for_each(|row| valid[*row] = true);
        NullBuffer::from(valid)
    });
    fn offsets<O: OffsetSizeTrait>(
        item: &FieldRef,
        lengths: &[usize],
        values: ArrayRef,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef> {
        let offsets = OffsetBuffer::<O>::from_lengths(lengths.iter().copied());
        Ok(Arc::new(GenericListArray::<O>::try_new(item.clone(), offsets, values, nulls)?))
    }
    let lengths: Vec<usize> = (0..rows)
        .map(|row| if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) { length } else { 0 })
        .collect();
    let all =
        || number_array(item_type(field.data_type()).unwrap_or(&DataType::Null), cells, 0..cells.raw.len());
    match field.data_type() {
        DataType::List(item) => offsets::<i32>(item, &lengths, all()?, nulls),
        DataType::LargeList(item) => offsets::<i64>(item, &lengths, all()?, nulls),
        DataType::FixedSizeList(item, size) => {
            // NULL rows have values too, which nobody sees.
            if rows.saturating_mul(length) > MOST_NULL_CELLS {
                return Err(ArchiveError::corrupt(format!("{rows} lists of {length} values in a row group")));
            }
            let mut signal = 0;
            let (mut raw, mut state) = (Vec::new(), Vec::new());
            for row_length in &lengths {
                if *row_length == 0 {
                    raw.resize(raw.len() + length, 0);
                    state.resize(
                        state.len() + length,
                        if item.is_nullable() { Cell::Null } else { Cell::Value },
                    );
                } else {
                    let range = signal * length..(signal + 1) * length;
                    raw.extend_from_slice(&cells.raw[range.clone()]);
                    state.extend_from_slice(&cells.state[range]);
                    signal += 1;
                }
            }
            if length != *size as usize {
                // Nothing was learned of the length of lists that are all NULL.
                let cells = usize::try_from(*size).ok().and_then(|size| size.checked_mul(rows));
                let cells = cells.filter(|cells| signal == 0 && *cells <= MOST_NULL_CELLS);
                let cells = cells
                    .ok_or_else(|| ArchiveError::corrupt(format!("lists of {size} values, not {length}")))?;
                raw.resize(cells, 0);
                state.resize(cells, if item.is_nullable() { Cell::Null } else { Cell::Value });
            }
            let padded = Cells { sensors: length, raw: raw.into(), state };
            let values = number_array(item.data_type(), &padded, 0..padded.raw.len())?;
            Ok(Arc::new(FixedSizeListArray::try_new(item.clone(), *size, values, nulls)?))
        }
        other => Err(ArchiveError::corrupt(format!("a list of type {other}"))),
    }
}

fn number_array(
    data_type: &DataType,
    cells: &Cells,
    places: impl ExactSizeIterator<Item = usize> + Clone,
) -> Result<ArrayRef> {
    let some_null = places.clone().any(|place| cells.state[place] != Cell::Value);
    let valid = some_null
        .then(|| places.clone().map(|place| cells.state[place] == Cell::Value).collect::<Vec<bool>>())
        .map(NullBuffer::from);
    to_array(data_type, places.map(|place| cells.raw[place]), valid)
}
