//! Where the signals of some rows are.

use std::collections::HashMap;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, SortField};

use super::cells::{Cell, Group};
use super::layout::{Layout, Table};
use super::{ArchiveError, Result};

/// Where the signals of some rows are.
#[derive(Debug)]
pub(crate) struct Placement {
    /// The row that each signal's code is kept in.
    pub first_rows: Vec<usize>,
    pub sensors: usize,
    /// The cell of every row, where a row is a cell and not a signal.
    pub cell_of_row: Option<Vec<usize>>,
}

impl Table {
    /// Finds the signals of a block. `keys` has the key columns; `null_rows` is what is known of NULL
    /// lists; `sensors` is the length of lists.
    pub fn place(
        &self,
        rows: usize,
        keys: &[ArrayRef],
        null_rows: Option<&NullBuffer>,
        sensors: usize,
    ) -> Result<Placement> {
        match &self.layout {
            Layout::List { .. } => {
                let present = |row: &usize| null_rows.is_none_or(|nulls| nulls.is_valid(*row));
                let first_rows = (0..rows).filter(present).collect();
                Ok(Placement { first_rows, sensors, cell_of_row: None })
            }
            Layout::Wide { columns } => {
                Ok(Placement { first_rows: (0..rows).collect(), sensors: columns.len(), cell_of_row: None })
            }
            Layout::Window { length, interleaved, .. } => {
                let runs = match keys.first() {
                    Some(series) => number_runs(series, *interleaved)?,
                    None => vec![0; rows],
                };
                let mut first_rows = Vec::new();
                let mut cells = Vec::with_capacity(rows);
                // The signal that each run has come to, and where in it.
                let mut at: Vec<(usize, usize)> = Vec::new();
                for (row, run) in runs.into_iter().enumerate() {
                    if run == at.len() {
                        at.push((0, *length));
                    }
                    let (signal, position) = &mut at[run];
                    if position == length {
                        (*signal, *position) = (first_rows.len(), 0);
                        first_rows.push(row);
                    }
                    cells.push(*signal * length + *position);
                    *position += 1;
                }
                Ok(Placement { first_rows, sensors: *length, cell_of_row: Some(cells) })
            }
            Layout::Long { .. } => self.place_long(rows, keys),
        }
    }

    fn place_long(&self, rows: usize, keys: &[ArrayRef]) -> Result<Placement> {
        let [time, series] = keys else {
            return Err(ArchiveError::corrupt("the time or the series is missing"));
        };
        let names = cast(series, &DataType::Utf8)?;
        let names = names.as_string::<i32>();
        let mut sensor_of: HashMap<Option<&str>, usize> =
            self.series.iter().enumerate().map(|(sensor, name)| (Some(name.as_str()), sensor)).collect();
        let converter = RowConverter::new(vec![SortField::new(time.data_type().clone())])?;
        let times = converter.convert_columns(std::slice::from_ref(time))?;
        // A series that occurs again at the same time begins another signal.
        let mut signal_of: HashMap<(&[u8], usize), usize> = HashMap::new();
        let mut occurrences: HashMap<(&[u8], usize), usize> = HashMap::new();
        let mut first_rows = Vec::new();
        let mut places = Vec::with_capacity(rows);
        for row in 0..rows {
            let next = sensor_of.len();
            let sensor = *sensor_of.entry(names.is_valid(row).then(|| names.value(row))).or_insert(next);
            let time = times.row(row).data();
            let occurrence = occurrences.entry((time, sensor)).or_insert(0);
            let signal = *signal_of.entry((time, *occurrence)).or_insert_with(|| {
                first_rows.push(row);
                first_rows.len() - 1
            });
            *occurrence += 1;
            places.push((signal, sensor));
        }
        let sensors = sensor_of.len();
        let cells = places.into_iter().map(|(signal, sensor)| signal * sensors + sensor).collect();
        Ok(Placement { first_rows, sensors, cell_of_row: Some(cells) })
    }
}

impl Placement {
    pub fn signals(&self) -> usize {
        self.first_rows.len()
    }

    /// Which cells of a group there are.
    pub fn present(&self, group: &Group) -> Vec<Cell> {
        match &self.cell_of_row {
            None => vec![Cell::Value; self.signals() * group.sensors.len()],
            Some(of_row) => {
                // Here a row is a cell, and there is one group with all sensors.
                let mut present = vec![Cell::Absent; self.signals() * self.sensors];
                of_row.iter().for_each(|cell| present[*cell] = Cell::Value);
                present
            }
        }
    }
}

/// Numbers of the runs that rows belong to, in the order of their first rows: those of one value, or those of neighbours
/// with one value.
fn number_runs(column: &ArrayRef, interleaved: bool) -> Result<Vec<usize>> {
    let converter = RowConverter::new(vec![SortField::new(column.data_type().clone())])?;
    let rows = converter.convert_columns(std::slice::from_ref(column))?;
    let mut numbers = Vec::with_capacity(rows.num_rows());
    let mut known: HashMap<&[u8], usize> = HashMap::new();
    let mut runs = 0;
    for row in 0..rows.num_rows() {
        let number = match numbers.last() {
            Some(last) if rows.row(row) == rows.row(row - 1) => *last,
            _ if interleaved => *known.entry(rows.row(row).data()).or_insert(runs),
            _ => runs,
        };
        runs = runs.max(number + 1);
        numbers.push(number);
    }
    Ok(numbers)
}
