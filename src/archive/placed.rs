//! Blocks: how many rows are coded together, and rows whose signals have been found, ready to be coded.

use std::ops::ControlFlow;

use arrow::array::RecordBatch;

use super::block::{self, CodedBlock, Purpose};
use super::cells::{Cell, Cells, gather};
use super::data_file_writer::Settings;
use super::layout::{Layout, Table};
use super::placement::Placement;
use super::{ArchiveError, Result};

/// Values in a block: enough for residuals to know their neighbours, few enough to read a part of a table.
pub(super) const BLOCK_VALUES: usize = 1 << 20;
const FEWEST_BLOCK_ROWS: usize = 64;
/// Rows of a block where a row is a signal.
const MOST_BLOCK_ROWS: usize = 1 << 16;
/// Cells of a block, absent ones included: where there are more it is divided.
pub(super) const MOST_CELLS: usize = 1 << 22;

/// Rows whose signals have been found.
pub(super) struct Placed {
    pub rows: RecordBatch,
    pub placement: Placement,
    pub cells: Cells,
}

impl Placed {
    pub fn encode(&self, table: &Table, settings: &Settings, purpose: Purpose) -> Result<CodedBlock> {
        let sensors = self.placement.sensors.max(settings.codebook.sensors());
        let groups = table.groups(sensors, settings.group_sensors);
        block::encode(settings, &groups, &self.cells, purpose)
    }

    /// The signals as they come back from a block that was made of them.
    pub fn decode(&self, table: &Table, settings: &Settings, coded: &CodedBlock) -> Result<Cells> {
        let width = self.cells.sensors;
        let groups =
            table.groups(self.placement.sensors.max(settings.codebook.sensors()), settings.group_sensors);
        let (mut raw, mut state) =
            (vec![0; self.cells.raw.len()], vec![Cell::Absent; self.cells.state.len()]);
        for (group, bytes) in groups.iter().zip(&coded.groups) {
            let part = gather(&self.cells, group);
            let back = block::decode(&settings.codebook, group, &coded.codes, bytes, &part.state)?;
            if group.sensors.len() == width {
                return Ok(back);
            }
            let columns = group.sensors.len();
            for i in 0..back.raw.len() {
                let place = i / columns * width + group.sensors[i % columns];
                (raw[place], state[place]) = (back.raw[i], back.state[i]);
            }
        }
        Ok(Cells { sensors: width, raw: raw.into(), state })
    }

    /// The first signals as they were and as they come back, as doubles: NaN where there is no value.
    pub fn round_trip(
        &self,
        table: &Table,
        settings: &Settings,
        most: usize,
    ) -> Result<(Vec<f64>, Vec<f64>)> {
        let width = self.placement.sensors;
        let count = most.min(self.placement.signals()) * width;
        let cells = Cells {
            sensors: width,
            raw: self.cells.raw.slice(0, count),
            state: self.cells.state[..count].to_vec(),
        };
        let groups = table.groups(width.max(settings.codebook.sensors()), settings.group_sensors);
        let coded = block::encode(settings, &groups, &cells, Purpose::Trial)?;
        let (mut original, mut decoded) = (vec![f64::NAN; count], vec![f64::NAN; count]);
        for (group, bytes) in groups.iter().zip(&coded.groups) {
            let part = gather(&cells, group);
            let back = block::decode(&settings.codebook, group, &coded.codes, bytes, &part.state)?;
            let number = group.number()?;
            for (i, _) in part.state.iter().enumerate().filter(|(_, state)| **state == Cell::Value) {
                let (signal, column) = (i / part.sensors, i % part.sensors);
                let place = signal * width + group.sensors[column];
                original[place] = number.to_f64(part.raw[i]);
                decoded[place] = number.to_f64(back.raw[i]);
            }
        }
        Ok((original, decoded))
    }
}

/// Finds the signals of rows, in two halves where they have too many cells for one block, one after the other.
pub(super) fn place_rows(
    table: &Table,
    sensors: usize,
    rows: RecordBatch,
    each: &mut dyn FnMut(Placed) -> Result<ControlFlow<()>>,
) -> Result<ControlFlow<()>> {
    let length = matches!(table.layout, Layout::List { .. }).then_some(sensors);
    let placement = table.place_rows(&rows, length)?;
    let count = rows.num_rows();
    if placement.signals().saturating_mul(placement.sensors) > MOST_CELLS && count > 1 {
        drop(placement);
        if place_rows(table, sensors, rows.slice(0, count / 2), each)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        return place_rows(table, sensors, rows.slice(count / 2, count - count / 2), each);
    }
    let cells = table.cells(&rows, &placement)?;
    each(Placed { rows, placement, cells })
}

/// The signals of rows, up to so many cells, and what was wrong with the first rows that have none.
pub(super) fn place_all(
    table: &Table,
    sensors: usize,
    batches: &[RecordBatch],
    most_cells: usize,
) -> (Vec<Placed>, Option<ArchiveError>) {
    let (mut all, mut wrong, mut cells) = (Vec::new(), None, 0);
    for rows in batches.iter().filter(|rows| rows.num_rows() > 0) {
        let mut each = |placed: Placed| {
            cells += placed.cells.raw.len();
            all.push(placed);
            Ok(if cells < most_cells { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        };
        let mut found = place_rows(table, sensors, rows.clone(), &mut each);
        if let Err(error @ ArchiveError::Ragged { .. }) = found {
            // Nothing was placed yet: lists are looked at before.
            wrong = wrong.or(Some(error));
            found = match table.rows_of_length(rows, sensors) {
                Ok(fitting) if fitting.num_rows() > 0 => place_rows(table, sensors, fitting, &mut each),
                other => other.map(|_| ControlFlow::Continue(())),
            };
        }
        wrong = wrong.or(found.err());
        if cells >= most_cells {
            break;
        }
    }
    (all, wrong)
}

pub(super) fn block_rows(table: &Table, sensors: usize) -> usize {
    match &table.layout {
        Layout::List { .. } | Layout::Wide { .. } => {
            // Blocks of more cells would be divided.
            let fewest = FEWEST_BLOCK_ROWS.min(MOST_CELLS / sensors.max(1)).max(1);
            (BLOCK_VALUES / sensors.max(1)).clamp(fewest, MOST_BLOCK_ROWS)
        }
        Layout::Long { .. } => BLOCK_VALUES,
        Layout::Window { length, .. } => (BLOCK_VALUES / length).max(1) * length,
    }
}
