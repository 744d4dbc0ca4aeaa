//! A block of signals: coded and decoded as a whole, since residuals know their neighbours.

use std::borrow::Cow;

use arrow::datatypes::DataType;
use twox_hash::XxHash3_64;

use super::bytes::{Reader, write_part, write_varint};
use super::codebook::{Codebook, WEIGHT_ONE};
use super::number::{Number, fits};
use super::quantiser::{Bound, Quantiser};
use super::{ArchiveError, Result, entropy};
use crate::math::coders::Fksc;
use crate::math::{Coder, CoderOptions, Signals};

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
    fn number(&self) -> Result<Number> {
        Number::of(&self.data_type).ok_or_else(|| {
            ArchiveError::layout(format!("expected integers or floats, found {}", self.data_type))
        })
    }
}

/// One signal's code: atoms in ascending order, and weights in multiples of `1 / WEIGHT_ONE`.
pub(crate) type WholeCode = Vec<(u16, i16)>;

/// A coded block: a code for every signal, and the rest of every group.
#[derive(Debug)]
pub(crate) struct CodedBlock {
    pub codes: Vec<WholeCode>,
    pub groups: Vec<Vec<u8>>,
    pub error: ErrorSums,
}

/// Sums that errors are computed from.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct ErrorSums {
    pub values: u64,
    pub max: f64,
    pub absolute: f64,
    pub square: f64,
    pub value_absolute: f64,
    pub value_square: f64,
}

impl ErrorSums {
    fn add(&mut self, value: f64, decoded: f64) {
        if value.is_finite() && decoded.is_finite() {
            let difference = (value - decoded).abs();
            self.values += 1;
            self.max = self.max.max(difference);
            self.absolute += difference;
            self.square += difference * difference;
            self.value_absolute += value.abs();
            self.value_square += value * value;
        }
    }

    /// Sums that have overflowed end at the largest number: JSON has no infinities.
    fn limited(self) -> Self {
        let Self { values, .. } = self;
        let [max, absolute, square, value_absolute, value_square] =
            [self.max, self.absolute, self.square, self.value_absolute, self.value_square]
                .map(|sum| sum.min(f64::MAX));
        Self { values, max, absolute, square, value_absolute, value_square }
    }

    pub fn merge(&mut self, other: &Self) {
        self.values += other.values;
        self.max = self.max.max(other.max);
        self.absolute += other.absolute;
        self.square += other.square;
        self.value_absolute += other.value_absolute;
        self.value_square += other.value_square;
        *self = self.limited();
    }

    pub fn nmae(&self) -> f64 {
        if self.absolute == 0.0 { 0.0 } else { (self.absolute / self.value_absolute).min(f64::MAX) }
    }

    pub fn nrmse(&self) -> f64 {
        if self.square == 0.0 { 0.0 } else { (self.square / self.value_square).sqrt().min(f64::MAX) }
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
    let mut coded =
        CodedBlock { codes, groups: Vec::with_capacity(groups.len()), error: ErrorSums::default() };
    for group in groups {
        let part = gather(cells, group);
        let predictions = predict(codebook, &coded.codes, group);
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

/// The sparse codes of all signals: atoms are chosen by kernel sparse coding, and their weights fitted
/// again by least squares, since decoding here is linear.
fn sparse_codes(codebook: &Codebook, groups: &[Group], cells: &Cells) -> Result<Vec<WholeCode>> {
    let dim = codebook.sensors();
    let scales = codebook.scales();
    let mut scaled = numeric(std::slice::from_ref(cells), groups, dim);
    for row in scaled.chunks_exact_mut(dim) {
        row.iter_mut().zip(scales).for_each(|(value, scale)| *value /= scale);
    }
    let options = CoderOptions::new(codebook.lambda())?.with_tolerance(1e-4)?;
    let batch = Signals::from_flat(&scaled, dim)?;
    let codes = match Fksc.encode(codebook.prepared(), &batch, &options) {
        Ok(codes) => codes,
        // Values beyond what the kernel can compare: residuals do all of the work.
        Err(_) => return Ok(vec![WholeCode::new(); batch.len()]),
    };
    let relative: Vec<Vec<f64>> = (0..codebook.atoms())
        .map(|atom| {
            let steps = codebook.atom(atom).iter().enumerate();
            steps.map(|(sensor, steps)| codebook.step(sensor) * f64::from(*steps) / scales[sensor]).collect()
        })
        .collect();
    let centre: Vec<f64> = (0..dim).map(|sensor| codebook.centre(sensor) / scales[sensor]).collect();
    let mut centred = vec![0.0; dim];
    let fitted = codes.rows().zip(scaled.chunks_exact(dim)).map(|((atoms, _), signal)| {
        for ((target, value), centre) in centred.iter_mut().zip(signal).zip(&centre) {
            *target = value - centre;
        }
        fit(codebook, atoms, &relative, &centred)
    });
    Ok(fitted.collect())
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

/// Least squares on the atoms chosen, rounded.
fn fit(codebook: &Codebook, atoms: &[u32], relative: &[Vec<f64>], signal: &[f64]) -> WholeCode {
    let count = atoms.len();
    let width = count + 1;
    let mut system = vec![0.0; count * width];
    for (i, a) in atoms.iter().enumerate() {
        for (j, b) in atoms.iter().enumerate() {
            system[i * width + j] = codebook.product(*a as usize, *b as usize);
        }
        // Keeps atoms that are alike from taking turns with huge weights.
        system[i * width + i] = system[i * width + i] * (1.0 + 1e-4) + f64::MIN_POSITIVE;
        system[i * width + count] = crate::math::dot(&relative[*a as usize], signal);
    }
    for i in 0..count {
        let pivot = system[i * width + i];
        for j in i..width {
            system[i * width + j] /= pivot;
        }
        for row in 0..count {
            let factor = system[row * width + i];
            if row != i && factor != 0.0 {
                for j in i..width {
                    system[row * width + j] -= factor * system[i * width + j];
                }
            }
        }
    }
    let weights = (0..count).map(|i| (system[i * width + count] * f64::from(WEIGHT_ONE)).round());
    let limit = f64::from(i16::MAX);
    let whole =
        atoms.iter().zip(weights).map(|(atom, weight)| (*atom as u16, weight.clamp(-limit, limit) as i16));
    whole.filter(|(_, weight)| *weight != 0).collect()
}

/// What the codes predict of a group's sensors, signal after signal.
fn predict(codebook: &Codebook, codes: &[WholeCode], group: &Group) -> Vec<f64> {
    let width = group.sensors.len();
    let known = |sensor: &&usize| **sensor < codebook.sensors();
    let columns: Vec<usize> = group.sensors.iter().take_while(known).copied().collect();
    // The group's part of every atom, so that a signal's sums run over neighbours in memory.
    let part =
        |atom: usize| -> Vec<i32> { columns.iter().map(|sensor| codebook.atom(atom)[*sensor]).collect() };
    let atoms: Vec<Vec<i32>> = (0..codebook.atoms()).map(part).collect();
    let mut predictions = Vec::with_capacity(codes.len() * width);
    let mut sums = vec![0i64; columns.len()];
    for code in codes {
        sums.fill(0);
        for (atom, weight) in code {
            for (sum, steps) in sums.iter_mut().zip(&atoms[usize::from(*atom)]) {
                *sum = sum.wrapping_add(i64::from(*weight) * i64::from(*steps));
            }
        }
        predictions.extend(columns.iter().zip(&sums).map(|(sensor, sum)| codebook.predict(*sensor, *sum)));
        predictions.resize(predictions.len() + width - columns.len(), 0.0);
    }
    predictions
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

fn encode_group(group: &Group, bound: Bound, part: &Cells, predictions: &[f64]) -> Result<Vec<u8>> {
    let number = group.number()?;
    let values =
        || part.raw.iter().zip(&part.state).filter(|(_, state)| **state == Cell::Value).map(|(raw, _)| *raw);
    let quantiser = Quantiser::choose(bound, number, values());
    let mut integers = vec![0i64; part.raw.len()];
    let mut exceptions: Vec<(usize, u64)> = Vec::new();
    let narrow = |raw: u64| fits(&group.data_type, raw);
    by_number!(
        number,
        quantise(part, quantiser, bound, predictions, &narrow, &mut integers, &mut exceptions)
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
    let cells = part.raw.iter().zip(&part.state).zip(predictions).zip(integers.iter_mut());
    for (i, (((raw, state), prediction), slot)) in cells.enumerate() {
        if *state != Cell::Value {
            continue;
        }
        let integer = quantiser.integer(number, *raw, *prediction);
        let decoded = quantiser.value(number, integer, *prediction);
        if bound.holds(number, *raw, decoded) && (number.is_float() || narrow(decoded)) {
            *slot = integer;
        } else {
            exceptions.push((i, *raw));
        }
    }
}

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
        by_number!(number, reconstruct(quantiser, &integers, predictions, &mut raw));
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
