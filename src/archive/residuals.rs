//! What codes leave of a group of sensors, as bytes and back.

use twox_hash::XxHash3_64;

use super::bytes::{Reader, write_part, write_varint};
use super::cells::{Cell, all};
use super::entropy::Integers;
use super::quantiser::Quantiser;
use super::{ArchiveError, Result, entropy};

const HAS_NULLS: u8 = 1;
const HAS_EXCEPTIONS: u8 = 2;

/// All that is needed beside predictions to have the values back.
#[derive(Debug)]
pub(super) struct Residuals {
    pub quantiser: Quantiser,
    pub state: Vec<Cell>,
    /// Places of values that integers cannot hold, in ascending order, and their 64 bits.
    pub exceptions: Vec<(usize, u64)>,
    /// One for each cell, 0 where there is none; none at all where predictions are the values.
    pub integers: Integers,
}

impl PartialEq for Residuals {
    /// States are compared several at once: they are as many as values, and one by one takes long.
    fn eq(&self, other: &Self) -> bool {
        let states = self.state.iter().zip(&other.state);
        self.quantiser == other.quantiser
            && self.exceptions == other.exceptions
            && self.state.len() == other.state.len()
            && states.fold(true, |same, (one, other)| same & (one == other))
            && self.integers == other.integers
    }
}

impl Residuals {
    pub fn write(&self, sensors: usize) -> Vec<u8> {
        let has_nulls = !all(&self.state, |state| *state != Cell::Null);
        let mut bytes = Vec::new();
        self.quantiser.write(&mut bytes);
        let nulls_flag = if has_nulls { HAS_NULLS } else { 0 };
        bytes.push(nulls_flag | if self.exceptions.is_empty() { 0 } else { HAS_EXCEPTIONS });
        if has_nulls {
            let is_null = |state: &Cell| i64::from(*state == Cell::Null);
            let nulls: Integers = self.state.iter().map(is_null).collect();
            let mut coded_nulls = Vec::new();
            entropy::encode(&nulls, sensors, present_cells(&self.state).as_deref(), &mut coded_nulls);
            write_part(&mut bytes, &coded_nulls);
        }
        if !self.exceptions.is_empty() {
            write_varint(&mut bytes, self.exceptions.len() as u64);
            let mut next = 0;
            for (place, raw) in &self.exceptions {
                write_varint(&mut bytes, (place - next) as u64);
                bytes.extend_from_slice(&raw.to_le_bytes());
                next = place + 1;
            }
        }
        if self.quantiser != Quantiser::Prediction {
            let coded = coded_cells(&self.state);
            entropy::encode(&self.integers, sensors, coded.as_deref(), &mut bytes);
        }
        let hash = XxHash3_64::oneshot(&bytes);
        bytes.extend_from_slice(&hash.to_le_bytes());
        bytes
    }

    /// Reads what `write` gave. `present` says which cells there are.
    pub fn read(bytes: &[u8], sensors: usize, present: &[Cell]) -> Result<Self> {
        let (content, hash) =
            bytes.split_last_chunk::<8>().ok_or_else(|| ArchiveError::corrupt("a block is cut short"))?;
        if XxHash3_64::oneshot(content) != u64::from_le_bytes(*hash) {
            return Err(ArchiveError::corrupt("a block does not match its hash"));
        }
        let signals = present.len().checked_div(sensors).unwrap_or(0);
        let mut reader = Reader(content);
        let quantiser = Quantiser::read(&mut reader)?;
        let flags = reader.byte()?;
        let is_there = |cell: &Cell| if *cell == Cell::Absent { Cell::Absent } else { Cell::Value };
        let mut state: Vec<Cell> = present.iter().map(is_there).collect();
        if flags & HAS_NULLS != 0 {
            let mut part = Reader(reader.part()?);
            let nulls = entropy::decode(&mut part, signals, sensors, present_cells(&state).as_deref())?;
            for (place, state) in state.iter_mut().enumerate() {
                if *state == Cell::Value && nulls.get(place) == 1 {
                    *state = Cell::Null;
                }
            }
        }
        let mut exceptions = Vec::new();
        if flags & HAS_EXCEPTIONS != 0 {
            let count = reader.size(state.len())?;
            let mut next = 0;
            for _ in 0..count {
                let place = next + reader.size(state.len().saturating_sub(next + 1))?;
                exceptions.push((place, u64::from_le_bytes(reader.array()?)));
                next = place + 1;
            }
        }
        let integers = match quantiser {
            Quantiser::Prediction => Integers::zeros(0),
            _ => entropy::decode(&mut reader, signals, sensors, coded_cells(&state).as_deref())?,
        };
        Ok(Self { quantiser, state, exceptions, integers })
    }
}

/// Which cells have integers, unless all have.
fn coded_cells(state: &[Cell]) -> Option<Vec<bool>> {
    let whole = all(state, |state| *state == Cell::Value);
    (!whole).then(|| state.iter().map(|state| *state == Cell::Value).collect())
}

/// Which cells there are, unless all are.
fn present_cells(state: &[Cell]) -> Option<Vec<bool>> {
    let whole = all(state, |state| *state != Cell::Absent);
    (!whole).then(|| state.iter().map(|state| *state != Cell::Absent).collect())
}
