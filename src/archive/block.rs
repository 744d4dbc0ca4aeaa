//! A block of signals: coded and decoded as a whole, since residuals know their neighbours.

use twox_hash::XxHash3_64;

use super::bytes::{Reader, write_part, write_varint};
use super::cells::{Cell, Cells, Group, gather};
use super::codebook::Codebook;
use super::error_sums::{ErrorSums, rounded};
use super::number::{Number, fits};
use super::quantiser::{Bound, Quantiser};
use super::sparse_codes::{WholeCode, predict, sparse_codes};
use super::{ArchiveError, Result, entropy};
use crate::math::vectorised;

/// Calls a function with a number's type as a constant, so that its loops are made for that type.
macro_rules! by_number {
    ($number:expr, $function:ident($($argument:expr),*)) => {
        match $number {
            Number::F64 => $function(Number::F64, $($argument),*),
            Number::F32 => $function(Number::F32, $($argument),*),
            Number::Signed => $function(Number::Signed, $($argument),*),
            Number::Unsigned => $function(Number::Unsigned, $($argument),*),
        }
    };
}

/// A coded block: a code for every signal, and the rest of every group.
#[derive(Debug)]
pub(crate) struct CodedBlock {
    pub codes: Vec<WholeCode>,
    pub groups: Vec<Vec<u8>>,
    pub error: ErrorSums,
    /// What the codes alone leave, for every [`CHUNK`] signals: this is what tells that a dictionary ages.
    pub left: Vec<Left>,
}

/// Signals whose errors are added up.
pub(crate) const CHUNK: usize = 64;

/// Digits of what codes leave, where it is recorded and compared.
pub(super) const SHARE_DIGITS: usize = 5;

/// What the codes of some signals leave of their values: sums of absolute errors and values.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Left {
    pub error: f64,
    pub value: f64,
}

impl Left {
    pub fn merge(&mut self, other: &Self) {
        self.error = (self.error + other.error).min(f64::MAX);
        self.value = (self.value + other.value).min(f64::MAX);
    }

    pub fn sum(parts: &[Self]) -> Self {
        let mut sum = Self::default();
        parts.iter().for_each(|part| sum.merge(part));
        sum
    }

    /// The standard deviation of parts, as NMAE. Parts count by their values: where these are zeros a share of
    /// them says nothing.
    pub fn deviation(parts: &[Self]) -> f64 {
        let all = Self::sum(parts);
        let (count, share) = (parts.len().max(1) as f64, all.share());
        let squares: f64 = parts.iter().map(|part| (part.error - share * part.value).powi(2)).sum();
        let deviation = (squares / count).sqrt() / (all.value / count);
        if deviation.is_finite() { rounded(deviation, SHARE_DIGITS) } else { 0.0 }
    }

    /// As NMAE.
    pub fn share(&self) -> f64 {
        if self.error == 0.0 { 0.0 } else { rounded(self.error / self.value, SHARE_DIGITS) }
    }
}

const HAS_NULLS: u8 = 1;
const HAS_EXCEPTIONS: u8 = 2;

/// Codes a block and checks what comes back.
pub(crate) fn encode(
    codebook: &Codebook,
    groups: &[Group],
    bound: Bound,
    cells: &Cells,
) -> Result<CodedBlock> {
    let codes = sparse_codes(codebook, groups, cells)?;
    let mut coded = CodedBlock {
        left: vec![Left::default(); codes.len().div_ceil(CHUNK)],
        codes,
        groups: Vec::with_capacity(groups.len()),
        error: ErrorSums::default(),
    };
    for group in groups {
        let part = gather(cells, group);
        let predictions = predict(codebook, &coded.codes, group);
        by_number!(group.number()?, add_left(&part, &predictions, &mut coded.left));
        let bytes = encode_group(group, bound, &part, &predictions)?;
        let decoded = decode_group(group, &bytes, &predictions, &part.state)?;
        check(group, bound, &part, &decoded, &mut coded.error)?;
        coded.groups.push(bytes);
    }
    Ok(coded)
}

/// Decodes one group of a block. `present` says which of its cells there are.
pub(crate) fn decode(
    codebook: &Codebook,
    group: &Group,
    codes: &[WholeCode],
    bytes: &[u8],
    present: &[Cell],
) -> Result<Cells> {
    if codes.iter().flatten().any(|(atom, _)| usize::from(*atom) >= codebook.atoms()) {
        return Err(ArchiveError::corrupt("a code names an atom that the dictionary does not have"));
    }
    decode_group(group, bytes, &predict(codebook, codes, group), present)
}

fn encode_group(group: &Group, bound: Bound, part: &Cells, predictions: &[f64]) -> Result<Vec<u8>> {
    let number = group.number()?;
    let values =
        || part.raw.iter().zip(&part.state).filter(|(_, state)| **state == Cell::Value).map(|(raw, _)| *raw);
    let quantiser = Quantiser::choose(bound, number, values());
    let mut integers = vec![0i64; part.raw.len()];
    let mut exceptions: Vec<(usize, u64)> = Vec::new();
    let narrow = |raw: u64| fits(&group.data_type, raw);
    vectorised(
        #[inline(always)]
        || {
            by_number!(
                number,
                quantise(part, quantiser, bound, predictions, &narrow, &mut integers, &mut exceptions)
            )
        },
    );
    let has_nulls = part.state.contains(&Cell::Null);
    let mut bytes = Vec::new();
    quantiser.write(&mut bytes);
    let flags =
        if has_nulls { HAS_NULLS } else { 0 } | if exceptions.is_empty() { 0 } else { HAS_EXCEPTIONS };
    bytes.push(flags);
    let width = group.sensors.len();
    let coded = coded_cells(&part.state);
    if has_nulls {
        let mut nulls: Vec<i64> = part.state.iter().map(|state| i64::from(*state == Cell::Null)).collect();
        let mut coded_nulls = Vec::new();
        let present = present_cells(&part.state);
        entropy::encode(&mut nulls, width, present.as_deref(), &mut coded_nulls);
        write_part(&mut bytes, &coded_nulls);
    }
    if !exceptions.is_empty() {
        write_varint(&mut bytes, exceptions.len() as u64);
        let mut next = 0;
        for (place, raw) in &exceptions {
            write_varint(&mut bytes, (place - next) as u64);
            bytes.extend_from_slice(&raw.to_le_bytes());
            next = place + 1;
        }
    }
    if quantiser != Quantiser::Prediction {
        entropy::encode(&mut integers, width, coded.as_deref(), &mut bytes);
    }
    let hash = XxHash3_64::oneshot(&bytes);
    bytes.extend_from_slice(&hash.to_le_bytes());
    Ok(bytes)
}

/// Adds what predictions leave of the values.
#[inline(always)]
fn add_left(number: Number, part: &Cells, predictions: &[f64], left: &mut [Left]) {
    let cells = part.sensors.max(1) * CHUNK;
    let chunks = part.raw.chunks(cells).zip(part.state.chunks(cells)).zip(predictions.chunks(cells));
    for (((raw, state), predictions), left) in chunks.zip(left) {
        let mut sums = Left::default();
        for ((raw, state), prediction) in raw.iter().zip(state).zip(predictions) {
            let value = number.to_f64(*raw);
            if *state == Cell::Value && value.is_finite() {
                sums.error += (value - prediction).abs();
                sums.value += value.abs();
            }
        }
        left.merge(&sums);
    }
}

/// Fills in the integers, and lists the values that they cannot hold.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "one loop over all of them")]
fn quantise(
    number: Number,
    part: &Cells,
    quantiser: Quantiser,
    bound: Bound,
    predictions: &[f64],
    narrow: &dyn Fn(u64) -> bool,
    integers: &mut [i64],
    exceptions: &mut Vec<(usize, u64)>,
) {
    let runs = part.raw.chunks(RUN).zip(part.state.chunks(RUN)).zip(predictions.chunks(RUN));
    for (run, (((raw, state), predictions), integers)) in runs.zip(integers.chunks_mut(RUN)).enumerate() {
        if state.iter().all(|state| *state == Cell::Value)
            && quantiser.integers(number, bound, raw, predictions, integers)
        {
            continue;
        }
        let cells = raw.iter().zip(state).zip(predictions).zip(integers);
        for (i, (((raw, state), prediction), slot)) in cells.enumerate() {
            *slot = 0;
            if *state != Cell::Value {
                continue;
            }
            let integer = quantiser.integer(number, *raw, *prediction);
            let decoded = quantiser.value(number, integer, *prediction);
            if bound.holds(number, *raw, decoded) && (number.is_float() || narrow(decoded)) {
                *slot = integer;
            } else {
                exceptions.push((run * RUN + i, *raw));
            }
        }
    }
}

/// Cells that are rounded at a time where none of them is out of the ordinary.
const RUN: usize = 64;

/// Which cells have integers, unless all have.
fn coded_cells(state: &[Cell]) -> Option<Vec<bool>> {
    let some = state.iter().any(|state| *state != Cell::Value);
    some.then(|| state.iter().map(|state| *state == Cell::Value).collect())
}

/// Which cells there are, unless all are.
fn present_cells(state: &[Cell]) -> Option<Vec<bool>> {
    let some = state.contains(&Cell::Absent);
    some.then(|| state.iter().map(|state| *state != Cell::Absent).collect())
}

fn decode_group(group: &Group, bytes: &[u8], predictions: &[f64], present: &[Cell]) -> Result<Cells> {
    let number = group.number()?;
    let width = group.sensors.len();
    let (content, hash) =
        bytes.split_last_chunk::<8>().ok_or_else(|| ArchiveError::corrupt("a block is cut short"))?;
    if XxHash3_64::oneshot(content) != u64::from_le_bytes(*hash) {
        return Err(ArchiveError::corrupt("a block does not match its hash"));
    }
    if predictions.len() != present.len() || width == 0 {
        return Err(ArchiveError::corrupt("a block has another number of codes than of signals"));
    }
    let signals = present.len() / width;
    let mut reader = Reader(content);
    let quantiser = Quantiser::read(&mut reader)?;
    let flags = reader.byte()?;
    let mut state: Vec<Cell> = present
        .iter()
        .map(|cell| match cell {
            Cell::Absent => Cell::Absent,
            _ => Cell::Value,
        })
        .collect();
    if flags & HAS_NULLS != 0 {
        let mut part = Reader(reader.part()?);
        let nulls = entropy::decode(&mut part, signals, width, present_cells(&state).as_deref())?;
        for (state, null) in state.iter_mut().zip(nulls) {
            if null == 1 && *state == Cell::Value {
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
    let raw = if quantiser == Quantiser::Prediction {
        predictions.iter().map(|prediction| quantiser.value(number, 0, *prediction)).collect()
    } else {
        let integers = entropy::decode(&mut reader, signals, width, coded_cells(&state).as_deref())?;
        let mut raw = Vec::with_capacity(integers.len());
        vectorised(
            #[inline(always)]
            || by_number!(number, reconstruct(quantiser, &integers, predictions, &mut raw)),
        );
        raw
    };
    let mut cells = Cells { sensors: width, raw, state };
    for (place, raw) in exceptions {
        let slot =
            cells.raw.get_mut(place).ok_or_else(|| ArchiveError::corrupt("an exception is out of range"))?;
        *slot = raw;
    }
    Ok(cells)
}

#[inline(always)]
fn reconstruct(
    number: Number,
    quantiser: Quantiser,
    integers: &[i64],
    predictions: &[f64],
    raw: &mut Vec<u64>,
) {
    let pairs = integers.iter().zip(predictions);
    raw.extend(pairs.map(|(integer, prediction)| quantiser.value(number, *integer, *prediction)));
}

/// The last word before a block is written: every value as it will be read keeps the promise.
pub(super) fn check(
    group: &Group,
    bound: Bound,
    part: &Cells,
    decoded: &Cells,
    error: &mut ErrorSums,
) -> Result<()> {
    let number = group.number()?;
    let narrow = |raw: u64| fits(&group.data_type, raw);
    let broken = by_number!(number, first_broken(part, decoded, bound, &narrow, error));
    let Some(index) = broken else { return Ok(()) };
    let sensor = group.sensors.get(index % part.sensors).copied().unwrap_or(0);
    let value = |cells: &Cells| cells.raw.get(index).map_or("nothing".to_string(), |raw| number.show(*raw));
    Err(ArchiveError::Broken {
        signal: index / part.sensors,
        sensor,
        value: value(part),
        decoded: value(decoded),
    })
}

#[inline(always)]
fn first_broken(
    number: Number,
    part: &Cells,
    decoded: &Cells,
    bound: Bound,
    narrow: &dyn Fn(u64) -> bool,
    error: &mut ErrorSums,
) -> Option<usize> {
    if part.raw.len() != decoded.raw.len() {
        return Some(part.raw.len().min(decoded.raw.len()));
    }
    let cells = part.raw.iter().zip(&decoded.raw).zip(part.state.iter().zip(&decoded.state));
    let mut sums = ErrorSums::default();
    for (i, ((value, read), (state, read_state))) in cells.enumerate() {
        if state != read_state {
            return Some(i);
        }
        if *state == Cell::Value {
            if !bound.holds(number, *value, *read) || !(number.is_float() || narrow(*read)) {
                return Some(i);
            }
            sums.add(number.to_f64(*value), number.to_f64(*read));
        }
    }
    error.merge(&sums);
    None
}
