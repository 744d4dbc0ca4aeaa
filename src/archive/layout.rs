//! How a table holds its signals, and the way from its rows to cells.
//!
//! | layout | signal | sensor |
//! |---|---|---|
//! | list | a row | a position in the list |
//! | wide | a row | a column |
//! | long | all rows of one time | a series |
//! | window | so many rows one after the other, of one series | a position in the window |

use std::ops::Range;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use serde::{Deserialize, Serialize};

use super::cells::{Cell, Cells, CellsBuilder, Group};
use super::listed::listed;
use super::number::{Number, all_values, read_values};
use super::placement::Placement;
use super::{ArchiveError, Result};
use crate::columnar::Lists;

/// How a table holds its signals.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// One column of lists, all of one length.
    List {
        /// The column.
        column: String,
    },
    /// A column per sensor.
    Wide {
        /// The columns.
        columns: Vec<String>,
    },
    /// A row per time and series.
    Long {
        /// Rows of one time are one signal.
        time: String,
        /// Which series a row belongs to.
        series: String,
        /// The values.
        value: String,
    },
    /// Series cut into windows.
    Window {
        /// The values.
        column: String,
        /// Which series a row belongs to: a window is of one series.
        series: Option<String>,
        /// Values in a window.
        length: usize,
        /// Whether a window goes on where its series goes on, after rows of others; else it ends where the series changes.
        #[serde(default, skip_serializing_if = "is_false")]
        interleaved: bool,
    },
}

fn is_false(value: &bool) -> bool {
    !value
}

const LONGEST_WINDOW: usize = 1_000_000;

/// A layout in a table.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    pub layout: Layout,
    pub schema: SchemaRef,
    /// Columns that are coded.
    pub values: Vec<usize>,
    /// Columns that are kept.
    pub kept: Vec<usize>,
    /// Series in the order of sensors, for the long layout.
    pub series: Vec<String>,
}

impl Layout {
    /// The columns that hold the values.
    pub fn value_columns(&self) -> Vec<&str> {
        match self {
            Self::List { column } | Self::Window { column, .. } => vec![column],
            Self::Wide { columns } => columns.iter().map(String::as_str).collect(),
            Self::Long { value, .. } => vec![value],
        }
    }

    /// Whether it is the same to whoever asks for one: how windows of several series are cut is the archive's affair.
    #[cfg(feature = "sql")]
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let plain = |layout: &Self| match layout.clone() {
            Self::Window { column, series, length, .. } => {
                Self::Window { column, series, length, interleaved: false }
            }
            other => other,
        };
        plain(self) == plain(other)
    }

    /// The kept columns that say where a value belongs.
    pub(crate) fn key_columns(&self) -> Vec<&str> {
        match self {
            Self::Long { time, series, .. } => vec![time, series],
            Self::Window { series: Some(series), .. } => vec![series],
            _ => Vec::new(),
        }
    }
}

impl Table {
    /// Finds the layout's columns in a table.
    pub fn new(layout: Layout, schema: SchemaRef, series: Vec<String>) -> Result<Self> {
        let mut values = Vec::new();
        for name in layout.value_columns() {
            values.push(column(&schema, name)?);
        }
        for name in layout.key_columns() {
            let key = column(&schema, name)?;
            if values.contains(&key) {
                return Err(ArchiveError::layout(format!(
                    "column {name} cannot be both a key and the value"
                )));
            }
        }
        if values.is_empty() {
            return Err(ArchiveError::layout("no columns to code"));
        }
        let kept = (0..schema.fields().len()).filter(|i| !values.contains(i)).collect();
        let table = Self { layout, schema, values, kept, series };
        for value in &table.values {
            table.check_type(table.schema.field(*value))?;
        }
        match &table.layout {
            Layout::Window { length, .. } if !(1..=LONGEST_WINDOW).contains(length) => {
                return Err(ArchiveError::layout(format!(
                    "a window of {length} values; it must have between 1 and {LONGEST_WINDOW}"
                )));
            }
            Layout::Long { time, series, .. } if time == series => {
                return Err(ArchiveError::layout(format!("column {time} cannot be both time and series")));
            }
            _ => {}
        }
        // Columns are found by their names.
        for kept in &table.kept {
            column(&table.schema, table.schema.field(*kept).name())?;
        }
        Ok(table)
    }

    fn check_type(&self, field: &Field) -> Result<()> {
        let found = match (&self.layout, item_type(field.data_type())) {
            (Layout::List { .. }, Some(item)) => Number::of(item),
            (Layout::List { .. }, None) => None,
            _ => Number::of(field.data_type()),
        };
        let wanted = if matches!(self.layout, Layout::List { .. }) { "lists of numbers" } else { "numbers" };
        found.map(|_| ()).ok_or_else(|| {
            let told = told_of_other_numbers(&Schema::new(vec![field.clone()]));
            ArchiveError::layout(told.unwrap_or_else(|| {
                format!("column {} has type {}; expected {wanted}", field.name(), field.data_type())
            }))
        })
    }

    /// The type of the numbers of a value column.
    fn number_type(&self, value: usize) -> &DataType {
        let data_type = self.schema.field(value).data_type();
        item_type(data_type).unwrap_or(data_type)
    }

    /// Bytes of the values of a row as they are in memory, where lists have so many.
    pub fn value_bytes(&self, sensors: usize) -> usize {
        let width = |value: &usize| self.number_type(*value).primitive_width().unwrap_or(8);
        let widths: usize = self.values.iter().map(width).sum();
        if matches!(self.layout, Layout::List { .. }) { sensors * widths } else { widths }
    }

    /// Rows that a signal is cut from, counted from the beginning of a file; 1 where any row may begin one.
    pub fn rows_of_signal(&self) -> usize {
        if let Layout::Window { length, .. } = &self.layout { (*length).max(1) } else { 1 }
    }

    /// Whether the rows of a signal may be anywhere in a block.
    pub fn are_signals_scattered(&self) -> bool {
        matches!(self.layout, Layout::Long { .. } | Layout::Window { interleaved: true, .. })
    }

    /// Values of a row, where lists have so many.
    pub fn values_in_row(&self, sensors: usize) -> usize {
        match self.layout {
            Layout::List { .. } => sensors,
            _ => self.values.len(),
        }
    }

    /// Sensors by type, at most `most` together. More sensors than were known when the dictionary was
    /// learned belong to the last group.
    pub fn groups(&self, sensors: usize, most: usize) -> Vec<Group> {
        if !matches!(self.layout, Layout::Wide { .. }) {
            let data_type = self.number_type(self.values[0]).clone();
            return vec![Group { sensors: (0..sensors).collect(), data_type }];
        }
        let mut groups: Vec<Group> = Vec::new();
        for (sensor, value) in self.values.iter().enumerate() {
            let data_type = self.number_type(*value);
            let open = groups.iter_mut().rev().find(|group| group.data_type == *data_type);
            match open.filter(|group| group.sensors.len() < most.max(1)) {
                Some(group) => group.sensors.push(sensor),
                None => groups.push(Group { sensors: vec![sensor], data_type: data_type.clone() }),
            }
        }
        groups
    }

    /// How many sensors a table has whatever its rows, where the layout says so.
    pub fn fixed_sensors(&self) -> Option<usize> {
        match &self.layout {
            Layout::Wide { columns } => Some(columns.len()),
            Layout::Window { length, .. } => Some(*length),
            Layout::List { .. } | Layout::Long { .. } => None,
        }
    }

    /// What a sensor is called.
    pub fn sensor_name(&self, sensor: usize) -> String {
        match &self.layout {
            Layout::Wide { columns } => columns.get(sensor).cloned(),
            Layout::Long { .. } => self.series.get(sensor).cloned(),
            // SQL counts from 1.
            Layout::List { column } => Some(format!("{column}[{}]", sensor + 1)),
            Layout::Window { column, .. } => Some(format!("{column}, place {} of the window", sensor + 1)),
        }
        .unwrap_or_else(|| format!("sensor {}", sensor + 1))
    }

    /// The key columns of a batch of the whole table.
    pub fn keys(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let names = self.layout.key_columns();
        names.into_iter().map(|name| Ok(batch.column(column(batch.schema_ref(), name)?).clone())).collect()
    }

    /// Where the signals of a block are. `length` is that of lists, where it is known.
    pub fn place_rows(&self, batch: &RecordBatch, length: Option<usize>) -> Result<Placement> {
        let first = batch.column(self.values[0]);
        let rows = batch.num_rows();
        let Layout::List { column } = &self.layout else {
            return self.place(rows, &self.keys(batch)?, None, 0);
        };
        let lists = self.lists(batch)?;
        let valid = |row: &usize| first.is_valid(*row);
        let length = length.or_else(|| (0..rows).find(valid).map(|row| lists.ranges[row].len())).unwrap_or(0);
        if let Some(row) = (0..rows).filter(valid).find(|row| lists.ranges[*row].len() != length) {
            let (column, found) = (column.clone(), lists.ranges[row].len());
            return Err(ArchiveError::Ragged { column, row: row as u64, expected: length, found });
        }
        self.place(rows, &[], first.nulls(), length)
    }

    /// The column that values are in, where these are lists.
    pub fn list_column(&self) -> Option<usize> {
        matches!(self.layout, Layout::List { .. }).then_some(self.values[0])
    }

    /// The lengths of the lists that are not NULL.
    pub fn list_lengths<'a>(&self, batch: &'a RecordBatch) -> Result<impl Iterator<Item = usize> + use<'a>> {
        let (column, lists) = (batch.column(self.values[0]), self.lists(batch)?);
        let ranges = lists.ranges.into_iter().enumerate();
        Ok(ranges.filter(|(row, _)| column.is_valid(*row)).map(|(_, range)| range.len()))
    }

    /// The rows whose lists are NULL or of this length.
    pub fn rows_of_length(&self, batch: &RecordBatch, length: usize) -> Result<RecordBatch> {
        let (column, lists) = (batch.column(self.values[0]), self.lists(batch)?);
        let fits = |(row, range): (usize, &Range<usize>)| column.is_null(row) || range.len() == length;
        let fitting: BooleanArray = lists.ranges.iter().enumerate().map(|row| Some(fits(row))).collect();
        Ok(filter_record_batch(batch, &fitting)?)
    }

    fn lists(&self, batch: &RecordBatch) -> Result<Lists> {
        let column = batch.column(self.values[0]);
        Lists::new(column.as_ref())
            .ok_or_else(|| ArchiveError::layout(format!("expected lists, found {}", column.data_type())))
    }

    /// The cells of a block whose signals have been found.
    pub fn cells(&self, batch: &RecordBatch, placement: &Placement) -> Result<Cells> {
        if let Layout::List { .. } = self.layout {
            return self.list_cells(batch, placement);
        }
        let mut cells = CellsBuilder::new(placement.signals(), placement.sensors);
        match &placement.cell_of_row {
            Some(of_row) => {
                let values = batch.column(self.values[0]);
                read_values(values.as_ref(), |row, value| cells.set(of_row[row], value))?;
            }
            None => {
                let width = self.values.len();
                for (sensor, value) in self.values.iter().enumerate() {
                    let values = batch.column(*value);
                    read_values(values, |row, value| cells.set(row * width + sensor, value))?;
                }
            }
        }
        Ok(cells.finish())
    }

    fn list_cells(&self, batch: &RecordBatch, placement: &Placement) -> Result<Cells> {
        let (lists, length) = (self.lists(batch)?, placement.sensors);
        let starts = placement.first_rows.iter().map(|row| lists.ranges[*row].start);
        // Lists without NULL rows lie one after the other, as the cells do.
        let in_order = starts.clone().enumerate().all(|(signal, start)| start == signal * length);
        if in_order && lists.child.len() == placement.signals() * length && lists.child.null_count() == 0 {
            let raw = all_values(&lists.child)?;
            let state = vec![Cell::Value; raw.len()];
            return Ok(Cells { sensors: length, raw, state });
        }
        let mut cells = CellsBuilder::new(placement.signals(), length);
        for (signal, start) in starts.enumerate() {
            let values = lists.child.slice(start, length);
            read_values(&values, |i, value| cells.set(signal * length + i, value))?;
        }
        Ok(cells.finish())
    }
}

/// The type of a list's items.
pub(super) fn item_type(data_type: &DataType) -> Option<&DataType> {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            Some(item.data_type())
        }
        _ => None,
    }
}

/// What to do where a table has no numbers that are coded, but others.
pub(super) fn told_of_other_numbers(schema: &Schema) -> Option<String> {
    use DataType::{Decimal32, Decimal64, Decimal128, Decimal256, Float16};
    let mut found = schema.fields().iter().filter_map(|field| {
        let list = item_type(field.data_type());
        let wanted = match list.unwrap_or(field.data_type()) {
            Float16 => "Float32",
            Decimal32(..) | Decimal64(..) | Decimal128(..) | Decimal256(..) => "Float64",
            _ => return None,
        };
        let wanted = if list.is_some() { format!("List({wanted})") } else { wanted.to_string() };
        let (name, data_type) = (field.name(), field.data_type());
        let quoted = name.replace('"', "\"\"");
        Some(format!(
            "column {name} is of {data_type}, which is not coded; write the table anew with arrow_cast(\"{quoted}\", '{wanted}')"
        ))
    });
    found.next()
}

/// The place of the only column of a name.
pub(super) fn column(schema: &Schema, name: &str) -> Result<usize> {
    let names = || listed(&schema.fields().iter().map(|field| field.name()).collect::<Vec<_>>());
    let mut found = schema.fields().iter().enumerate().filter(|(_, field)| field.name() == name);
    match (found.next(), found.next()) {
        (Some((index, _)), None) => Ok(index),
        (Some(_), Some(_)) => Err(ArchiveError::layout(format!("there are several columns called {name}"))),
        (None, _) => {
            Err(ArchiveError::layout(format!("there is no column {name}; the columns are {}", names())))
        }
    }
}
