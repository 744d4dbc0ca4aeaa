//! The values of a block: a matrix of signals by sensors, whatever layout and types they come from.

use std::borrow::Cow;

use arrow::datatypes::DataType;

use super::number::Number;
use super::{ArchiveError, Result};

/// Values over signals and sensors, in the order of signals.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cells {
    pub sensors: usize,
    pub raw: Vec<u64>,
    pub state: Vec<Cell>,
}

/// What is in a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Cell {
    /// The table has no such value.
    #[default]
    Absent,
    Null,
    Value,
}

impl Cells {
    pub fn new(signals: usize, sensors: usize) -> Self {
        Self { sensors, raw: vec![0; signals * sensors], state: vec![Cell::Absent; signals * sensors] }
    }

    pub fn signals(&self) -> usize {
        self.raw.len().checked_div(self.sensors).unwrap_or(0)
    }

    #[inline(always)]
    pub fn set(&mut self, index: usize, value: Option<u64>) {
        match value {
            Some(raw) => {
                self.raw[index] = raw;
                self.state[index] = Cell::Value;
            }
            None => self.state[index] = Cell::Null,
        }
    }
}

/// Sensors that are coded together: of one type, and read together.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Group {
    pub sensors: Vec<usize>,
    pub data_type: DataType,
}

impl Group {
    pub fn number(&self) -> Result<Number> {
        Number::of(&self.data_type).ok_or_else(|| {
            ArchiveError::layout(format!("expected integers or floats, found {}", self.data_type))
        })
    }
}

/// A group's part of a block; the block itself if the group has all of it.
pub(super) fn gather<'a>(cells: &'a Cells, group: &Group) -> Cow<'a, Cells> {
    if group.sensors.len() == cells.sensors {
        return Cow::Borrowed(cells);
    }
    let mut part = Cells::new(cells.signals(), group.sensors.len());
    for signal in 0..cells.signals() {
        for (i, sensor) in group.sensors.iter().enumerate() {
            let (to, from) = (signal * group.sensors.len() + i, signal * cells.sensors + sensor);
            part.raw[to] = cells.raw[from];
            part.state[to] = cells.state[from];
        }
    }
    Cow::Owned(part)
}

/// Values beyond this do not take part: their squares would overflow.
const LARGEST: f64 = 1e120;

/// Signals as doubles, one after the other; what is missing is as it was last, or as it will be first.
pub(crate) fn numeric(parts: &[Cells], groups: &[Group], sensors: usize) -> Vec<f64> {
    let mut numbers = vec![Number::F64; sensors];
    for group in groups {
        for sensor in group.sensors.iter().filter(|sensor| **sensor < sensors) {
            numbers[*sensor] = Number::of(&group.data_type).unwrap_or(Number::F64);
        }
    }
    let value = |cells: &Cells, signal: usize, sensor: usize| {
        let index = signal * cells.sensors + sensor;
        let value = numbers[sensor].to_f64(cells.raw[index]);
        (cells.state[index] == Cell::Value && value.abs() < LARGEST).then_some(value)
    };
    let mut last: Vec<f64> = (0..sensors)
        .map(|sensor| {
            let all = parts.iter().flat_map(|cells| (0..cells.signals()).map(move |signal| (cells, signal)));
            all.into_iter().find_map(|(cells, signal)| value(cells, signal, sensor)).unwrap_or(0.0)
        })
        .collect();
    let mut rows = Vec::with_capacity(parts.iter().map(|cells| cells.signals() * sensors).sum());
    for cells in parts {
        for signal in 0..cells.signals() {
            let range = signal * cells.sensors..signal * cells.sensors + sensors;
            let whole = cells.state[range.clone()].iter().all(|state| *state == Cell::Value);
            if whole && numbers.iter().all(|number| *number == Number::F64) {
                let row = cells.raw[range].iter().map(|raw| f64::from_bits(*raw));
                if row.clone().all(|value| value.abs() < LARGEST) {
                    last.iter_mut().zip(row.clone()).for_each(|(last, value)| *last = value);
                    rows.extend(row);
                    continue;
                }
            }
            for (sensor, last) in last.iter_mut().enumerate() {
                *last = value(cells, signal, sensor).unwrap_or(*last);
                rows.push(*last);
            }
        }
    }
    rows
}
