//! The values of a block: a matrix of signals by sensors, whatever layout and types they come from.

use std::borrow::Cow;
use std::ops::Range;

use arrow::buffer::ScalarBuffer;
use arrow::datatypes::DataType;

use super::number::Number;
use super::{ArchiveError, Result};

/// Values over signals and sensors, in the order of signals.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cells {
    pub sensors: usize,
    /// Shared with the table's own memory where that holds the same.
    pub raw: ScalarBuffer<u64>,
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
    pub fn signals(&self) -> usize {
        self.raw.len().checked_div(self.sensors).unwrap_or(0)
    }
}

/// Cells that are filled one by one, absent at first.
pub(crate) struct CellsBuilder {
    sensors: usize,
    raw: Vec<u64>,
    state: Vec<Cell>,
}

impl CellsBuilder {
    pub fn new(signals: usize, sensors: usize) -> Self {
        Self { sensors, raw: vec![0; signals * sensors], state: vec![Cell::Absent; signals * sensors] }
    }

    pub fn finish(self) -> Cells {
        Cells { sensors: self.sensors, raw: self.raw.into(), state: self.state }
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
    let mut part = CellsBuilder::new(cells.signals(), group.sensors.len());
    for signal in 0..cells.signals() {
        for (i, sensor) in group.sensors.iter().enumerate() {
            let (to, from) = (signal * group.sensors.len() + i, signal * cells.sensors + sensor);
            part.raw[to] = cells.raw[from];
            part.state[to] = cells.state[from];
        }
    }
    Cow::Owned(part.finish())
}

/// Whether something holds for all items: without looking at one after the other, so that several are looked at at once.
#[inline(always)]
pub(super) fn all<T>(items: &[T], holds: impl Fn(&T) -> bool) -> bool {
    const AT_ONCE: usize = 512;
    items.chunks(AT_ONCE).all(|items| items.iter().fold(true, |all, item| all & holds(item)))
}

/// Values beyond this do not take part: their squares would overflow.
const LARGEST: f64 = 1e120;

/// Signals as doubles, one after the other; what is missing is as it was last, or as it will be first.
pub(crate) fn numeric(parts: &[Cells], groups: &[Group], sensors: usize) -> Vec<f64> {
    let mut numbers = Numeric::new(parts, groups, sensors);
    let mut rows = Vec::with_capacity(parts.iter().map(|cells| cells.signals() * sensors).sum());
    for cells in parts {
        numbers.extend(cells, 0..cells.signals(), &mut rows);
    }
    rows
}

/// Whether there are values, and none of them takes part.
pub(super) fn none_takes_part(parts: &[Cells], groups: &[Group]) -> bool {
    let widest = parts.iter().map(|cells| cells.sensors).max().unwrap_or(0);
    let numbers = Numeric::new(&[], groups, widest);
    let mut values = parts.iter().flat_map(|cells| (0..cells.raw.len()).map(move |index| (cells, index)));
    let mut any = false;
    let takes_part = values.any(|(cells, index)| {
        any |= cells.state[index] == Cell::Value;
        numbers.value(cells, index / cells.sensors, index % cells.sensors).is_some()
    });
    any && !takes_part
}

/// Turns cells into doubles, signal after signal.
pub(super) struct Numeric {
    numbers: Vec<Number>,
    are_doubles: bool,
    /// What sensors were last.
    last: Vec<f64>,
}

impl Numeric {
    pub fn new(parts: &[Cells], groups: &[Group], sensors: usize) -> Self {
        let mut numbers = vec![Number::F64; sensors];
        for group in groups {
            for sensor in group.sensors.iter().filter(|sensor| **sensor < sensors) {
                numbers[*sensor] = Number::of(&group.data_type).unwrap_or(Number::F64);
            }
        }
        let are_doubles = numbers.iter().all(|number| *number == Number::F64);
        let mut numeric = Self { numbers, are_doubles, last: Vec::new() };
        let first = |sensor: usize| {
            let all = parts.iter().flat_map(|cells| (0..cells.signals()).map(move |signal| (cells, signal)));
            all.into_iter().find_map(|(cells, signal)| numeric.value(cells, signal, sensor)).unwrap_or(0.0)
        };
        numeric.last = (0..sensors).map(first).collect();
        numeric
    }

    /// Whether all cells are doubles that are there.
    #[inline(always)]
    pub fn are_all_doubles(cells: &Cells, groups: &[Group]) -> bool {
        groups.iter().all(|group| group.data_type == DataType::Float64)
            && all(&cells.state, |state| *state == Cell::Value)
    }

    /// Whether doubles take part.
    #[inline(always)]
    pub fn takes_part(doubles: &[u64]) -> bool {
        all(doubles, |raw| f64::from_bits(*raw).abs() < LARGEST)
    }

    fn value(&self, cells: &Cells, signal: usize, sensor: usize) -> Option<f64> {
        let index = signal * cells.sensors + sensor;
        let value = self.numbers[sensor].to_f64(cells.raw[index]);
        (cells.state[index] == Cell::Value && value.abs() < LARGEST).then_some(value)
    }

    /// Adds some signals.
    pub fn extend(&mut self, cells: &Cells, signals: Range<usize>, rows: &mut Vec<f64>) {
        let sensors = self.last.len();
        for signal in signals {
            let start = rows.len();
            if self.are_doubles {
                let range = signal * cells.sensors..signal * cells.sensors + sensors;
                let state = &cells.state[range.clone()];
                rows.extend(cells.raw[range].iter().map(|raw| f64::from_bits(*raw)));
                let takes_part = |value: &f64| value.abs() < LARGEST;
                if all(&rows[start..], takes_part) && all(state, |state| *state == Cell::Value) {
                    continue;
                }
                rows.truncate(start);
            }
            for sensor in 0..sensors {
                let last = if start > 0 { rows[start - sensors + sensor] } else { self.last[sensor] };
                rows.push(self.value(cells, signal, sensor).unwrap_or(last));
            }
        }
        if let Some(last) = rows.len().checked_sub(sensors) {
            self.last.copy_from_slice(&rows[last..]);
        }
    }
}
