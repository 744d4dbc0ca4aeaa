//! What signals are like, those of an archive or those that it is made of: by this it is told whether others are so,
//! whatever the dictionary does with them. Nothing of it is stored.
//!
//! Of every sensor: where its values are, how far they spread, how far they go from one signal to the next, how they
//! go together with those of the next sensor, and with the few directions in which all sensors vary most. Of the whole:
//! how far runs of the signals themselves are from that, by their length. Signals that are farther are no longer alike.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::cells::{Cells, Group, Numeric};

/// Sensors that are looked at, evenly spread.
const MOST_WATCHED: usize = 512;
/// Their values that are looked at.
pub(super) const MOST_VALUES: usize = 1 << 20;
/// Directions in which sensors vary together, and rounds until they are found.
const MOST_DIRECTIONS: usize = 2;
const DIRECTION_ROUNDS: usize = 24;
/// Values farther from the middle count as this far: in standard deviations.
const FARTHEST: f64 = 5.0;
/// The same where the size of a change is told.
const UNBELIEVABLE: f64 = 1e6;
/// Parts of a standard deviation that are nothing.
const NOTHING: f64 = 0.02;
/// The same of pieces: what is nearly constant differs by more than it seems.
const LITTLE: f64 = 0.05;
/// The shortest runs, of long tables and of short ones, and signals that are enough to tell anything.
const RUN: usize = 8;
const SHORT_RUN: usize = 4;
const LONG_TABLE: usize = 400;
const FEWEST_SIGNALS: usize = 32;
const FEWEST_RUNS: usize = 4;
const MOST_LENGTHS: usize = 24;
/// Runs of one length that are looked at.
const MOST_RUNS: usize = 256;
/// Chances are small that signals which are alike are so many standard deviations from the mean.
const UNLIKELY: f64 = 3.1;
const LEAST_FACTOR: f64 = 1.15;
/// A little more is no change.
const ROOM: f64 = 0.045;
/// Fewer signals have shown less of what there is: by so much over the root of their number limits are wider.
const FEW_ARE_UNSURE: f64 = 3.0;
/// The same where sensors are alike, so that any order of them is as good.
const ROOM_OF_SHIFT: f64 = 0.1;
/// Pieces that are farther from what is known than its own, by so much as a logarithm, are not known.
const AS_KNOWN: f64 = 0.7;
/// Half as many signals may be farther by this share.
const SHORTER_IS_WIDER: f64 = 0.8;
/// Long runs are compared with shorter ones, too: of those there are more.
const COMPARED_LENGTH: f64 = 16.0;
const LONGER: f64 = 2.0;

/// Pieces of so many shortest runs are compared with those that are known one by one, so many of them, by so many
/// sensors.
const RUNS_OF_PIECE: usize = 2;
const MOST_PIECES: usize = 1000;
const FEWEST_PIECES: usize = 8;
const MOST_COMPARED: usize = 32;
/// Orders of sensors in which pieces are looked at: as they are, shifted by one place either way, and in no order.
const ORDERS: usize = 6;
const SHIFTS: [i64; 2] = [1, -1];
/// What is added is farther from what is known than that is from its neighbours: these do not count, by this share of
/// all signals.
const NEIGHBOURS: f64 = 0.05;

/// The distances of runs: the first have no sign.
const ONE_SIDED: usize = 10;
const DISTANCES: usize = 16;
type Distances = [f64; DISTANCES];
const LEVEL: usize = 0;
const LEVELS_APART: usize = 1;
const SPREADS_APART: usize = 2;
const STEPS_APART: usize = 3;
const TOGETHER_APART: usize = 4;
const LEVEL_OF_ONE: usize = 5;
const STEP_OF_ONE: usize = 6;
const NOVELTY: usize = 7;
const SHIFTED: usize = 8;
const ORDER: usize = 9;
const SPREAD: usize = 10;
const STEP: usize = 11;
const ROUGHNESS: usize = 12;
const TOGETHER: usize = 13;
const BESIDE: usize = 14;
const BESIDE_OF_SPREAD: usize = 15;

/// What signals were like.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Portrait {
    /// Which values these are.
    pub values: Values,
    /// Sensors of a signal.
    all_sensors: usize,
    sensors: Vec<Sensor>,
    /// Unit vectors over the sensors.
    directions: Vec<Vec<f64>>,
    lengths: Vec<Length>,
    pieces: Pieces,
    /// How far pieces are from others, as logarithms.
    novelty: Option<[f64; ORDERS]>,
}

/// Short runs of signals, by which others are told to be new.
#[derive(Debug, Clone, PartialEq, Default)]
struct Pieces {
    signals: usize,
    /// Levels, spreads and steps of some sensors each.
    features: Vec<Vec<f32>>,
}

impl Pieces {
    /// How far a piece is from the one that is most like it, of those that count: as it is, and in other orders.
    fn distances(
        &self,
        piece: &Sums,
        sensors: &[Sensor],
        counts: impl Fn(usize) -> bool,
    ) -> Option<[f64; ORDERS]> {
        let mut distances = [0.0; ORDERS];
        for (order, distance) in distances.iter_mut().enumerate() {
            let features = features(piece, order, sensors);
            let counted = self.features.iter().enumerate().filter(|(i, _)| counts(*i));
            let nearest = counted.map(|(_, other)| apart_by(&features, other)).min_by(f32::total_cmp)?;
            *distance = f64::from(nearest) / features.len().max(1) as f64;
        }
        Some(distances)
    }
}

/// The sum of all differences.
fn apart_by(one: &[f32], other: &[f32]) -> f32 {
    const LANES: usize = 8;
    let mut sums = [0.0; LANES];
    for (one, other) in one.chunks(LANES).zip(other.chunks(LANES)) {
        sums.iter_mut()
            .zip(one.iter().zip(other))
            .for_each(|(sum, (one, other))| *sum += (one - other).abs());
    }
    sums.iter().sum()
}

/// What tells pieces apart, with their sensors in one of several orders: each in the units of the one whose place it takes.
fn features(sums: &Sums, order: usize, sensors: &[Sensor]) -> Vec<f32> {
    let (signals, steps) = (sums.signals.max(1.0), sums.steps.max(1.0));
    let count = sums.of.len().min(sensors.len());
    let mut features = Vec::with_capacity(3 * count.min(MOST_COMPARED));
    let spread_of = |mean: f64, squares: f64| (squares / signals - mean * mean).max(0.0).sqrt();
    for sensor in (0..count).step_by(count.div_ceil(MOST_COMPARED).max(1)) {
        let other = in_order(sensor, order, count);
        let of = &sums.of[other];
        let (level, spread, step) = if other == sensor {
            let level = of.value / signals;
            (level, spread_of(level, of.square), of.step / steps)
        } else {
            let (from, to) = (&sensors[other], &sensors[sensor]);
            let (level, scale) = (of.whole_value / signals, from.scale / to.scale);
            let moved = (from.level - to.level) / to.scale + level * scale;
            let spread = spread_of(level, of.whole_square) * scale;
            (moved, spread, of.whole_step / steps * scale)
        };
        let logarithm = |size: f64| (size.min(FARTHEST) + LITTLE).ln() as f32;
        features.extend([level.clamp(-FARTHEST, FARTHEST) as f32, logarithm(spread), logarithm(step)]);
    }
    features
}

/// The sensor that takes the place of another one.
fn in_order(sensor: usize, order: usize, count: usize) -> usize {
    match order.checked_sub(1) {
        None => sensor,
        Some(shift) if shift < SHIFTS.len() => {
            (sensor as i64 + SHIFTS[shift]).rem_euclid(count as i64) as usize
        }
        // Any that leaves hardly a sensor where it is.
        Some(other) => {
            let other = other - SHIFTS.len();
            let stride = (count * [38, 62, 45][other % 3] / 100).max(1);
            let place = sensor * stride + other + 1 + sensor * stride / count;
            if count > 3 { (place + sensor % 3) % count } else { (sensor + 1 + other) % count }
        }
    }
}

/// Which values are looked at: rounding changes what they are like, so that others must be the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Values {
    /// Those of the original table.
    Original,
    /// Those that come back from the archive.
    Decoded,
}

/// What one sensor was like.
#[derive(Debug, Clone, PartialEq)]
struct Sensor {
    level: f64,
    scale: f64,
    /// The mean step from one signal to the next.
    step: f64,
    /// The correlation with the next sensor.
    next: f64,
    /// The standard deviation beside the directions.
    beside: f64,
}

impl Sensor {
    fn is_constant(&self) -> bool {
        self.step <= NOTHING && self.beside < 2.0 * NOTHING
    }
}

/// How far runs of so many signals are from the whole.
#[derive(Debug, Clone, PartialEq)]
struct Length {
    signals: usize,
    low: Distances,
    high: Distances,
}

/// Sums over a run of signals.
#[derive(Debug, Clone, Default)]
pub(super) struct Sums {
    signals: f64,
    steps: f64,
    /// How far pieces are from those that are known, in several orders, and how many pieces.
    novelty: [f64; ORDERS],
    pieces: f64,
    /// By sensor.
    of: Vec<SensorSums>,
}

#[derive(Debug, Clone, Copy, Default)]
struct SensorSums {
    value: f64,
    square: f64,
    step: f64,
    with_next: f64,
    beside: f64,
    /// Not cut off.
    whole_value: f64,
    whole_square: f64,
    whole_step: f64,
}

impl Sums {
    pub fn signals(&self) -> usize {
        self.signals as usize
    }

    pub fn sensors(&self) -> usize {
        self.of.len()
    }

    pub fn merge(&mut self, other: &Self) {
        if self.of.is_empty() {
            self.of.resize(other.of.len(), SensorSums::default());
        }
        self.add(other, 1.0);
    }

    fn add(&mut self, other: &Self, sign: f64) {
        self.signals += sign * other.signals;
        self.steps += sign * other.steps;
        self.novelty.iter_mut().zip(&other.novelty).for_each(|(sum, other)| *sum += sign * other);
        self.pieces += sign * other.pieces;
        for (sums, others) in self.of.iter_mut().zip(&other.of) {
            sums.value += sign * others.value;
            sums.square += sign * others.square;
            sums.step += sign * others.step;
            sums.with_next += sign * others.with_next;
            sums.beside += sign * others.beside;
            sums.whole_value += sign * others.whole_value;
            sums.whole_square += sign * others.whole_square;
            sums.whole_step += sign * others.whole_step;
        }
    }

    fn without(&self, other: &Self) -> Self {
        let mut rest = self.clone();
        rest.add(other, -1.0);
        rest
    }
}

/// What the signals of a run were like, in the units of a portrait.
struct Traits {
    level: Vec<f64>,
    spread: Vec<f64>,
    step: Vec<f64>,
    next: Vec<f64>,
    beside: Vec<f64>,
    /// As a logarithm, where there are pieces.
    novelty: Option<[f64; ORDERS]>,
}

/// How much farther from what is known pieces are as they are than if they are shifted; the shift, too.
fn shifted(novelty: &[f64; ORDERS]) -> (f64, i64) {
    let back = novelty[0] - novelty[1];
    let forth = novelty[0] - novelty[2];
    if back >= forth { (back, SHIFTS[0]) } else { (forth, SHIFTS[1]) }
}

/// How much farther from what is known pieces are as they are than in any order.
fn disorder(novelty: &[f64; ORDERS]) -> f64 {
    novelty[0] - mean(novelty[1 + SHIFTS.len()..].iter().copied())
}

impl Traits {
    fn of(sums: &Sums) -> Self {
        let (signals, steps) = (sums.signals.max(1.0), sums.steps.max(1.0));
        let spread_of = |mean: f64, square: f64| (square - mean * mean).max(0.0) + NOTHING * NOTHING;
        let level: Vec<f64> = sums.of.iter().map(|sums| sums.value / signals).collect();
        let spread: Vec<f64> = sums
            .of
            .iter()
            .zip(&level)
            .map(|(sums, level)| spread_of(*level, sums.square / signals).sqrt())
            .collect();
        let step = sums.of.iter().map(|sums| sums.step / steps + NOTHING).collect();
        let count = level.len();
        let next = (0..count).map(|i| {
            let other = (i + 1) % count;
            let together = sums.of[i].with_next / signals - level[i] * level[other];
            (together / (spread[i] * spread[other])).clamp(-1.0, 1.0)
        });
        let next = next.collect();
        let beside = sums.of.iter().map(|sums| (sums.beside.max(0.0) / signals).sqrt() + NOTHING).collect();
        let logarithm = |novelty: f64| (novelty.max(0.0) / sums.pieces + NOTHING).ln();
        let novelty = (sums.pieces > 0.5).then(|| sums.novelty.map(logarithm));
        Self { level, spread, step, next, beside, novelty }
    }

    /// How far these are from others.
    fn distances(&self, from: &Self) -> Distances {
        let by_sensor = |of: &dyn Fn(usize) -> f64| -> Vec<f64> { (0..self.level.len()).map(of).collect() };
        let level = by_sensor(&|i| (self.level[i] - from.level[i]) / from.spread[i].max(0.5));
        let spread = by_sensor(&|i| (self.spread[i] / from.spread[i]).ln());
        let step = by_sensor(&|i| (self.step[i] / from.step[i]).ln());
        let next = by_sensor(&|i| self.next[i] - from.next[i]);
        let beside = by_sensor(&|i| (self.beside[i] / from.beside[i]).ln());
        let mut distances = [0.0; DISTANCES];
        distances[LEVEL] = mean(level.iter().map(|level| level.abs()));
        distances[LEVELS_APART] = apart(&level);
        distances[SPREADS_APART] = apart(&spread);
        distances[STEPS_APART] = apart(&step);
        distances[TOGETHER_APART] = apart(&next);
        distances[LEVEL_OF_ONE] = level.iter().map(|level| level.abs()).fold(0.0, f64::max);
        distances[STEP_OF_ONE] = step.iter().map(|step| step.abs()).fold(0.0, f64::max);
        if let Some((novelty, from)) = self.novelty.zip(from.novelty) {
            distances[NOVELTY] = (novelty[0] - from[0]).max(0.0);
            distances[SHIFTED] = shifted(&novelty).0.max(0.0);
            // What was looked at itself is nearer than all else, and in order.
            distances[ORDER] = (disorder(&novelty) - disorder(&from)).max(0.0);
        }
        distances[SPREAD] = mean(spread.iter().copied());
        distances[STEP] = mean(step.iter().copied());
        distances[ROUGHNESS] = distances[STEP] - distances[SPREAD];
        distances[TOGETHER] = mean(next.iter().copied());
        distances[BESIDE] = mean(beside.iter().copied());
        distances[BESIDE_OF_SPREAD] = distances[BESIDE] - distances[SPREAD];
        distances
    }
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len().max(1) as f64;
    values.sum::<f64>() / count
}

fn median(values: &mut [f64]) -> f64 {
    let middle = values.len() / 2;
    if values.is_empty() { 0.0 } else { *values.select_nth_unstable_by(middle, f64::total_cmp).1 }
}

/// How much sensors differ in what has changed.
fn apart(changes: &[f64]) -> f64 {
    let middle = median(&mut changes.to_vec());
    mean(changes.iter().map(|change| (change - middle).abs()))
}

/// What kind of a change it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Values are so many times what they were.
    Scaled,
    /// Values are higher or lower.
    Moved,
    /// Values vary more, or less.
    Varied,
    /// Values go farther from one signal to the next than those that were learned from, as noise does, or less far.
    Noisier,
    /// Sensors have other places.
    Reordered,
    /// Sensors no longer go together as they did.
    Apart,
    /// Codes leave more of the values than was promised.
    Left,
    /// Values take more bytes than was promised.
    Bytes,
}

/// A change, in words.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    pub change: Change,
    /// Sensors that are changed most, the most first; none where all are changed alike.
    pub sensors: Vec<usize>,
    /// By how much: a factor, or standard deviations.
    pub size: f64,
}

impl Portrait {
    /// What these runs of original signals are like; `None` where they are too few to tell.
    pub fn new(runs: &[Cells], groups: &[Group], all_sensors: usize) -> Option<Self> {
        let signals: usize = runs.iter().map(Cells::signals).sum();
        let share = most_signals(all_sensors) as f64 / signals.max(1) as f64;
        let rows: Vec<Vec<f64>> = runs
            .iter()
            .filter_map(|run| {
                let count = (run.signals() as f64 * share).ceil() as usize;
                watched_rows(run, groups, all_sensors, 0..count.min(run.signals()))
            })
            .collect();
        Self::of_rows(&rows, all_sensors, Values::Original)
    }

    /// The same of rows of watched sensors.
    pub fn of_rows(runs: &[Vec<f64>], all_sensors: usize, values: Values) -> Option<Self> {
        let width = watched(all_sensors).len();
        let signals = runs.iter().map(|run| run.len() / width.max(1)).sum::<usize>();
        if width == 0 || signals < FEWEST_SIGNALS {
            return None;
        }
        let scales: Vec<(f64, f64)> = (0..width)
            .map(|sensor| {
                let values = runs.iter().flat_map(|run| run.iter().skip(sensor).step_by(width));
                level_and_scale(&mut values.copied().collect::<Vec<f64>>())
            })
            .collect();
        let scaled: Vec<Vec<f64>> = runs
            .iter()
            .map(|run| {
                let of = |(i, value): (usize, &f64)| scaled(*value, scales[i % width], FARTHEST);
                run.iter().enumerate().map(of).collect()
            })
            .collect();
        let directions = directions(&scaled, width, signals);
        drop(scaled);
        let of_sensor = |(level, scale): &(f64, f64)| Sensor {
            level: *level,
            scale: *scale,
            step: 1.0,
            next: 0.0,
            beside: 1.0,
        };
        let sensors = scales.iter().map(of_sensor).collect();
        let mut portrait = Self {
            values,
            all_sensors,
            sensors,
            directions,
            lengths: Vec::new(),
            pieces: Pieces::default(),
            novelty: None,
        };
        let run = if signals >= LONG_TABLE { RUN } else { SHORT_RUN };
        let mut chunks: Vec<Vec<Sums>> = runs
            .iter()
            .map(|rows| rows.chunks_exact(run * width).map(|rows| portrait.sums(rows)).collect())
            .collect();
        portrait.pieces = portrait.pieces(runs, &mut chunks, run);
        let mut all = Sums::default();
        chunks.iter().flatten().for_each(|chunk| all.merge(chunk));
        let traits = Traits::of(&all);
        for (i, sensor) in portrait.sensors.iter_mut().enumerate() {
            (sensor.step, sensor.next, sensor.beside) = (traits.step[i], traits.next[i], traits.beside[i]);
        }
        portrait.novelty = traits.novelty;
        portrait.lengths = lengths(&chunks, &all, run);
        Some(portrait)
    }

    /// Pieces of runs, from anywhere in them; and how far others are from those that are not their neighbours.
    fn pieces(&self, runs: &[Vec<f64>], chunks: &mut [Vec<Sums>], run: usize) -> Pieces {
        let (width, signals) = (self.sensors.len(), RUNS_OF_PIECE * run);
        let mut pieces = Pieces { signals, features: Vec::new() };
        // Where they begin: the run, the signal in it, and the signals before that.
        let (mut starts, mut before) = (Vec::new(), 0);
        for (number, run) in runs.iter().enumerate() {
            let count = run.len() / width;
            let all = 0..(count + 1).saturating_sub(signals);
            starts.extend(all.map(|start| (number, start, before + start)));
            before += count;
        }
        let (all, most) = (starts.len(), starts.len().min(MOST_PIECES));
        if all < FEWEST_PIECES * signals {
            return pieces;
        }
        // Those of a regular stride would have few places in periods.
        let starts: Vec<_> = (0..most).map(|i| starts[i * all / most]).collect();
        for (number, start, _) in &starts {
            let rows = &runs[*number][start * width..(start + signals) * width];
            pieces.features.push(features(&self.sums(rows), 0, &self.sensors));
        }
        let neighbours = ((before as f64 * NEIGHBOURS) as usize).max(2 * signals);
        let (stride, mut place) = ((before / signals).div_ceil(MOST_PIECES).max(1), 0);
        for (rows, chunks) in runs.iter().zip(chunks) {
            for (piece, rows) in rows.chunks_exact(signals * width).enumerate().step_by(stride) {
                let place = place + piece * signals;
                let is_far = |other: usize| starts[other].2.abs_diff(place) >= neighbours;
                let found = pieces.distances(&self.sums(rows), &self.sensors, is_far);
                if let (Some(distances), Some(sums)) = (found, chunks.get_mut(piece * RUNS_OF_PIECE)) {
                    (sums.novelty, sums.pieces) = (distances, 1.0);
                }
            }
            place += rows.len() / width;
        }
        pieces
    }

    /// Sums over some signals of a block; `None` where it has other sensors.
    pub fn look(&self, cells: &Cells, groups: &[Group], signals: Range<usize>) -> Option<Sums> {
        let rows = watched_rows(cells, groups, self.all_sensors, signals)?;
        (!rows.is_empty()).then(|| self.with_novelty(&rows))
    }

    /// Sums over signals, and how new their pieces are.
    fn with_novelty(&self, rows: &[f64]) -> Sums {
        let mut sums = self.sums(rows);
        if self.pieces.features.is_empty() {
            return sums;
        }
        let width = self.sensors.len();
        for piece in rows.chunks(self.pieces.signals * width) {
            // Shorter ones differ from all others.
            if piece.len() == self.pieces.signals * width
                && let Some(distances) = self.pieces.distances(&self.sums(piece), &self.sensors, |_| true)
            {
                sums.novelty.iter_mut().zip(distances).for_each(|(sum, distance)| *sum += distance);
                sums.pieces += 1.0;
            }
        }
        sums
    }

    fn sums(&self, rows: &[f64]) -> Sums {
        let width = self.sensors.len();
        let mut sums = Sums { of: vec![SensorSums::default(); width], ..Sums::default() };
        let (mut last, mut now, mut beside) = (vec![0.0; width], vec![0.0; width], vec![0.0; width]);
        let mut last_whole = vec![0.0; width];
        for row in rows.chunks_exact(width) {
            for (i, (value, sensor)) in row.iter().zip(&self.sensors).enumerate() {
                let whole = scaled(*value, (sensor.level, sensor.scale), UNBELIEVABLE);
                now[i] = whole.clamp(-FARTHEST, FARTHEST);
                sums.of[i].whole_value += whole;
                sums.of[i].whole_square += whole * whole;
                if sums.signals > 0.0 {
                    sums.of[i].whole_step += (whole - last_whole[i]).abs();
                }
                last_whole[i] = whole;
            }
            beside.copy_from_slice(&now);
            for direction in &self.directions {
                let along: f64 = direction.iter().zip(&now).map(|(part, value)| part * value).sum();
                beside.iter_mut().zip(direction).for_each(|(beside, part)| *beside -= along * part);
            }
            let is_first = sums.signals == 0.0;
            for i in 0..width {
                let of = &mut sums.of[i];
                of.value += now[i];
                of.square += now[i] * now[i];
                of.with_next += now[i] * now[(i + 1) % width];
                of.beside += beside[i] * beside[i];
                if !is_first {
                    of.step += (now[i] - last[i]).abs();
                }
            }
            sums.signals += 1.0;
            sums.steps += f64::from(!is_first);
            std::mem::swap(&mut last, &mut now);
        }
        sums
    }

    fn traits(&self) -> Traits {
        let of = |value: &dyn Fn(&Sensor) -> f64| self.sensors.iter().map(value).collect();
        Traits {
            level: vec![0.0; self.sensors.len()],
            // Constants stay what they are.
            spread: of(&|sensor| if sensor.is_constant() { NOTHING } else { 1.0 }),
            step: of(&|sensor| sensor.step),
            next: of(&|sensor| sensor.next),
            beside: of(&|sensor| sensor.beside),
            novelty: self.novelty,
        }
    }

    /// How far signals may be from these.
    fn limits(&self, signals: f64) -> Option<(Distances, Distances)> {
        let (mut low, mut high) = self.limits_of(signals)?;
        if signals > COMPARED_LENGTH {
            let (others_low, others_high) = self.limits_of((signals / LONGER).max(COMPARED_LENGTH))?;
            for i in 0..DISTANCES {
                (low[i], high[i]) = (low[i].min(others_low[i]), high[i].max(others_high[i]));
            }
        }
        Some((low, high))
    }

    /// The same by the two lengths that are nearest.
    fn limits_of(&self, signals: f64) -> Option<(Distances, Distances)> {
        let first = self.lengths.first()?;
        let (mut low, mut high) = (first.low, first.high);
        if signals < first.signals as f64 {
            let wider = SHORTER_IS_WIDER * (first.signals as f64 / signals.max(1.0)).log2();
            for i in 0..DISTANCES {
                let room = if i < ONE_SIDED { high[i] } else { (high[i] - low[i]) / 2.0 };
                high[i] += wider * room;
                low[i] -= if i < ONE_SIDED { 0.0 } else { wider * room };
            }
            return Some((low, high));
        }
        for pair in self.lengths.windows(2) {
            if signals < pair[0].signals as f64 {
                break;
            }
            let share = (signals / pair[0].signals as f64).log2().min(1.0);
            for i in 0..DISTANCES {
                low[i] = pair[0].low[i] * (1.0 - share) + pair[1].low[i] * share;
                high[i] = pair[0].high[i] * (1.0 - share) + pair[1].high[i] * share;
            }
        }
        Some((low, high))
    }

    /// How far signals are from these: more than 1 is too far.
    pub(super) fn distance(&self, sums: &Sums) -> f64 {
        let distances = Traits::of(sums).distances(&self.traits());
        let Some((low, high)) = self.limits(sums.signals) else {
            return 0.0;
        };
        self.excesses(&distances, &low, &high).into_iter().fold(0.0, f64::max)
    }

    fn excesses(&self, distances: &Distances, low: &Distances, high: &Distances) -> Distances {
        std::array::from_fn(|i| {
            let (middle, half) = match i < ONE_SIDED {
                true => (0.0, high[i]),
                false => ((low[i] + high[i]) / 2.0, (high[i] - low[i]) / 2.0),
            };
            (distances[i] - middle).abs() / half.max(1e-6)
        })
    }

    /// What has changed, where signals are no longer like these.
    pub(super) fn found(&self, sums: &Sums) -> Option<Found> {
        let now = Traits::of(sums);
        let before = self.traits();
        let (low, high) = self.limits(sums.signals)?;
        let excesses = self.excesses(&now.distances(&before), &low, &high);
        if excesses.iter().all(|excess| *excess <= 1.0) {
            return None;
        }
        Some(self.in_words(sums, &now, &before, &excesses))
    }

    fn in_words(&self, sums: &Sums, now: &Traits, before: &Traits, excesses: &Distances) -> Found {
        let count = self.sensors.len();
        let whole: Vec<(f64, f64)> = sums
            .of
            .iter()
            .map(|of| {
                let mean = of.whole_value / sums.signals;
                (mean, (of.whole_square / sums.signals - mean * mean).max(0.0).sqrt())
            })
            .collect();
        let moved: Vec<f64> = (0..count).map(|i| whole[i].0).collect();
        let spread: Vec<f64> = (0..count).map(|i| whole[i].1.max(NOTHING).ln()).collect();
        // What values are multiplied by: where they are far from zero the level tells, else the spread.
        let factor = |i: usize| {
            let Sensor { level, scale, .. } = &self.sensors[i];
            let (by_level, by_spread) = (1.0 + moved[i] * scale / level, whole[i].1);
            let tells = level.abs() > 2.0 * scale;
            if tells { by_level } else { by_spread.max(NOTHING) }
        };
        let factors: Vec<f64> = (0..count).map(factor).collect();
        let change_of =
            |i: usize| moved[i].abs().max(spread[i].abs()).max((now.step[i] / before.step[i]).ln().abs());
        let mut changes: Vec<f64> = (0..count).map(change_of).collect();
        let usual = median(&mut changes.clone());
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by(|a, b| changes[*b].total_cmp(&changes[*a]).then(a.cmp(b)));
        let few = order
            .iter()
            .take_while(|i| changes[**i] > 2.0 * usual + 0.3)
            .take(MOST_NAMED)
            .copied()
            .collect::<Vec<_>>();
        let stand_out = !few.is_empty()
            && changes.iter().filter(|change| **change > 2.0 * usual + 0.3).count() * 4 <= count
            && changes[few[0]] > 0.5;
        changes.clear();
        let chosen: Vec<usize> = if stand_out { few.clone() } else { (0..count).collect() };
        let named = || -> Vec<usize> {
            let all: Vec<usize> = watched(self.all_sensors).collect();
            if stand_out { few.iter().map(|i| all[*i]).collect() } else { Vec::new() }
        };
        let found = |change: Change, size: f64| Found { change, sensors: named(), size };
        let of_chosen = |values: &[f64]| median(&mut chosen.iter().map(|i| values[*i]).collect::<Vec<_>>());
        // The same factor everywhere, for levels and for spreads.
        let middle = of_chosen(&factors);
        let alike = chosen.iter().filter(|i| (factors[**i] / middle - 1.0).abs() < 0.25).count();
        let spread_factor = of_chosen(&spread).exp();
        let far = middle > 0.0 && middle.ln().abs() > 0.25;
        let steps: Vec<f64> = (0..count).map(|i| (now.step[i] / before.step[i]).ln()).collect();
        // An offset changes levels, too, but not how far values go from one signal to the next.
        let whole_steps: Vec<f64> = (0..count)
            .map(|i| {
                let step = sums.of[i].whole_step / sums.steps.max(1.0) + NOTHING;
                (step / before.step[i]).ln()
            })
            .collect();
        let step_factor = of_chosen(&whole_steps);
        let levels_tell = || {
            let tells = |sensor: &Sensor| sensor.level.abs() > 2.0 * sensor.scale;
            chosen.iter().filter(|i| tells(&self.sensors[**i])).count() * 2 > chosen.len()
        };
        let steps_agree = (step_factor - middle.ln()).abs() < step_factor.abs();
        if far && alike * 3 >= chosen.len() * 2 && steps_agree && levels_tell() {
            return found(Change::Scaled, middle);
        }
        if let Some(reordered) = self.reordered(&moved) {
            return found(Change::Reordered, reordered);
        }
        if let Some((novelty, known)) = now.novelty.zip(self.novelty).filter(|_| excesses[SHIFTED] > 1.0) {
            let (gained, shift) = shifted(&novelty);
            // What is known by then, and not only less unlike that.
            if novelty[0] - gained - known[0] < AS_KNOWN {
                return found(Change::Reordered, shift as f64);
            }
        }
        let rough = excesses[ROUGHNESS].max(excesses[STEP]);
        let level = excesses[LEVEL].max(excesses[LEVEL_OF_ONE]).max(excesses[LEVELS_APART]);
        let together =
            [TOGETHER, TOGETHER_APART, BESIDE, BESIDE_OF_SPREAD, NOVELTY, ORDER].map(|i| excesses[i]);
        let together = together.into_iter().fold(0.0, f64::max);
        let varied = excesses[SPREAD].max(excesses[SPREADS_APART]);
        let roughness = of_chosen(&steps) - of_chosen(&spread);
        if rough > 1.0 && roughness.abs() > 0.2 && level <= 1.5 {
            return found(Change::Noisier, of_chosen(&steps).exp());
        }
        if level > 1.0 && level >= varied.min(together) {
            return found(Change::Moved, of_chosen(&moved));
        }
        if varied > 1.0 || (excesses[STEP].max(excesses[STEP_OF_ONE]).max(excesses[STEPS_APART]) > together) {
            return found(Change::Varied, spread_factor);
        }
        found(Change::Apart, together)
    }

    /// Whether sensors' levels are those of others: by how many places they are shifted, or 0 where it is any order.
    fn reordered(&self, moved: &[f64]) -> Option<f64> {
        let count = self.sensors.len();
        let level = |i: usize| self.sensors[i].level + moved[i] * self.sensors[i].scale;
        let cost = |to: &dyn Fn(usize) -> usize| {
            mean((0..count).map(|i| {
                let other = &self.sensors[to(i)];
                ((level(i) - other.level).abs() / other.scale).min(FARTHEST)
            }))
        };
        let as_it_is = cost(&|i| i);
        if as_it_is < 0.3 || count < 2 {
            return None;
        }
        let mut best: Option<(f64, f64)> = None;
        for shift in (1..=MOST_SHIFT.min(count - 1)).flat_map(|shift| [shift as i64, -(shift as i64)]) {
            let found = cost(&|i| (i as i64 - shift).rem_euclid(count as i64) as usize);
            if best.is_none_or(|(least, _)| found < least) {
                best = Some((found, shift as f64));
            }
        }
        if let Some((_, shift)) = best.filter(|(found, _)| *found < 0.5 * as_it_is) {
            return Some(shift);
        }
        let sorted = |of: &dyn Fn(usize) -> f64| {
            let mut order: Vec<usize> = (0..count).collect();
            order.sort_by(|a, b| of(*a).total_cmp(&of(*b)).then(a.cmp(b)));
            order
        };
        let (now, before) = (sorted(&level), sorted(&|i| self.sensors[i].level));
        let mut place = vec![0; count];
        now.iter().zip(&before).for_each(|(now, before)| place[*now] = *before);
        (cost(&|i| place[i]) < 0.4 * as_it_is).then_some(0.0)
    }
}

/// Sensors that are named at most, and places that sensors are tried to be shifted by.
const MOST_NAMED: usize = 3;
const MOST_SHIFT: usize = 3;

/// Sensors that are looked at, evenly spread over all.
fn watched(all: usize) -> impl ExactSizeIterator<Item = usize> {
    let count = all.min(MOST_WATCHED);
    (0..count).map(move |i| (i as u128 * all as u128 / count as u128) as usize)
}

/// Signals that are looked at.
pub(super) fn most_signals(all_sensors: usize) -> usize {
    MOST_VALUES / watched(all_sensors).len().max(1)
}

/// The values of watched sensors in some signals; `None` where these have other sensors.
pub(super) fn watched_rows(
    cells: &Cells,
    groups: &[Group],
    all: usize,
    signals: Range<usize>,
) -> Option<Vec<f64>> {
    if cells.sensors < all {
        return None;
    }
    let watched: Vec<usize> = watched(all).collect();
    let mut numeric = Numeric::new(std::slice::from_ref(cells), groups, all);
    let (mut rows, mut row) = (Vec::with_capacity(signals.len() * watched.len()), Vec::new());
    for signal in signals {
        row.clear();
        numeric.extend(cells, signal..signal + 1, &mut row);
        rows.extend(watched.iter().map(|sensor| row[*sensor]));
    }
    Some(rows)
}

/// Where most values are, and how far they spread, whatever a few of them are.
fn level_and_scale(values: &mut [f64]) -> (f64, f64) {
    let count = values.len();
    let mut at = |share: f64| {
        let place = ((count as f64 * share) as usize).min(count - 1);
        *values.select_nth_unstable_by(place, f64::total_cmp).1
    };
    let (low, middle, high) = (at(0.05), at(0.5), at(0.95));
    let mut scale = (high - low) / 3.29;
    if scale <= 0.0 {
        scale = mean(values.iter().map(|value| (value - middle).abs()));
    }
    let least = (middle.abs() * 1e-3).max(LEAST_SCALE);
    if scale <= least * 1e-3 {
        return (middle, least);
    }
    // Until what is cut off is told by the deviation of the rest.
    let (mut level, signals) = (middle, count as f64);
    for _ in 0..MOST_SCALINGS {
        let (mut sum, mut squares) = (0.0, 0.0);
        for value in values.iter() {
            let value = scaled(*value, (level, scale), FARTHEST);
            sum += value;
            squares += value * value;
        }
        let mean = sum / signals;
        let spread = (squares / signals - mean * mean).max(0.0).sqrt();
        level += mean * scale;
        scale = (spread * scale).max(least * 1e-3);
        if (spread - 1.0).abs() < NOTHING / 4.0 && mean.abs() < NOTHING / 4.0 {
            break;
        }
    }
    (level, scale)
}

/// Rounds until a scale is found.
const MOST_SCALINGS: usize = 24;
/// Scales below this are none.
const LEAST_SCALE: f64 = 1e-12;

fn scaled(value: f64, (level, scale): (f64, f64), most: f64) -> f64 {
    ((value - level) / scale).clamp(-most, most)
}

/// The directions in which signals vary most, by repeated multiplication.
fn directions(runs: &[Vec<f64>], width: usize, signals: usize) -> Vec<Vec<f64>> {
    const ENOUGH: usize = 4096;
    let stride = signals.div_ceil(ENOUGH).max(1);
    let rows: Vec<&[f64]> = runs.iter().flat_map(|run| run.chunks_exact(width)).step_by(stride).collect();
    let mut found: Vec<Vec<f64>> = Vec::new();
    for number in 0..MOST_DIRECTIONS.min(width / 2) {
        // Any that is not orthogonal to what is sought will do.
        let mut direction: Vec<f64> =
            (0..width).map(|i| 1.0 + ((i * (7 + 4 * number) + 3 * number) % 11) as f64 / 11.0).collect();
        normalise(&mut direction);
        for _ in 0..DIRECTION_ROUNDS {
            let mut next = vec![0.0; width];
            for row in &rows {
                let along: f64 = row.iter().zip(&direction).map(|(value, part)| value * part).sum();
                next.iter_mut().zip(*row).for_each(|(next, value)| *next += along * value);
            }
            for other in &found {
                let along: f64 = next.iter().zip(other).map(|(next, part)| next * part).sum();
                next.iter_mut().zip(other).for_each(|(next, part)| *next -= along * part);
            }
            normalise(&mut next);
            direction = next;
        }
        found.push(direction);
    }
    found
}

fn normalise(direction: &mut [f64]) {
    let length = direction.iter().map(|part| part * part).sum::<f64>().sqrt();
    if length > 0.0 {
        direction.iter_mut().for_each(|part| *part /= length);
    }
}

/// How far runs of several lengths are from the signals that are not in them.
fn lengths(chunks: &[Vec<Sums>], all: &Sums, run: usize) -> Vec<Length> {
    let total: usize = chunks.iter().map(Vec::len).sum();
    let mut lengths: Vec<Length> = Vec::new();
    let mut count = 1;
    while count * 4 <= total && lengths.len() < MOST_LENGTHS {
        let stride = (count / 2).max(total / MOST_RUNS).max(1);
        let mut distances: Vec<Distances> = Vec::new();
        for chunks in chunks {
            for first in (0..(chunks.len() + 1).saturating_sub(count)).step_by(stride) {
                let mut part = Sums::default();
                chunks[first..first + count].iter().for_each(|chunk| part.merge(chunk));
                let rest = Traits::of(&all.without(&part));
                distances.push(Traits::of(&part).distances(&rest));
            }
        }
        if distances.len() < FEWEST_RUNS {
            break;
        }
        // Runs that overlap are not as many.
        let different = (total / count).min(distances.len());
        let factor = (UNLIKELY / largest_of(different as f64)).max(LEAST_FACTOR);
        let factor = factor * (1.0 + FEW_ARE_UNSURE / ((total * run) as f64).sqrt());
        let mut length =
            Length { signals: count * run, low: [f64::MIN; DISTANCES], high: [f64::MAX; DISTANCES] };
        for i in 0..DISTANCES {
            let mut all: Vec<f64> = distances.iter().map(|distances| distances[i]).collect();
            let middle = median(&mut all);
            let (low, high) = all
                .iter()
                .fold((middle, middle), |(low, high), distance| (low.min(*distance), high.max(*distance)));
            let room = if i == SHIFTED { ROOM_OF_SHIFT } else { ROOM };
            // The whole is no change, even where each part is.
            length.high[i] = (middle + factor * (high - middle)).max(0.0) + room;
            if i >= ONE_SIDED {
                length.low[i] = (middle - factor * (middle - low)).min(0.0) - room;
            }
        }
        lengths.push(length);
        count *= 2;
    }
    lengths
}

/// How many standard deviations the largest of so many is from the mean, about.
fn largest_of(count: f64) -> f64 {
    let count = count.max(2.0);
    let root = (2.0 * count.ln()).sqrt();
    (root - (count.ln().ln() + (4.0 * std::f64::consts::PI).ln() - 2.0 * 0.577) / (2.0 * root)).max(0.6)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTH: usize = 5;

    fn rows(from: usize, count: usize, value: impl Fn(usize, usize) -> f64) -> Vec<f64> {
        (from..from + count)
            .flat_map(|row| (0..WIDTH).map(move |sensor| (row, sensor)))
            .map(|(r, s)| value(r, s))
            .collect()
    }

    fn wave(row: usize, sensor: usize) -> f64 {
        let wave = std::f64::consts::TAU * (row as f64 / 96.0 + 0.05 * sensor as f64);
        let jitter = ((row * 7919 + sensor * 104_729) % 1009) as f64 / 1009.0;
        [10.0, 50.0, 30.0, 90.0, 70.0][sensor] + 8.0 * wave.sin() + jitter
    }

    fn portrait() -> Portrait {
        Portrait::of_rows(&[rows(0, 1200, wave)], WIDTH, Values::Original).expect("there are enough rows")
    }

    #[test]
    fn signals_that_go_on_are_alike() {
        let portrait = portrait();
        for (from, count) in [(1200, 12), (1210, 40), (1300, 96), (1250, 300)] {
            assert_eq!(
                portrait.found(&portrait.with_novelty(&rows(from, count, wave))),
                None,
                "{from}, {count}"
            );
        }
    }

    #[test]
    fn changes_are_named_with_their_size() {
        let portrait = portrait();
        let change = |value: &dyn Fn(usize, usize) -> f64| {
            portrait.found(&portrait.with_novelty(&rows(1200, 96, value))).expect("a change")
        };
        let doubled = change(&|row, sensor| 2.0 * wave(row, sensor));
        assert_eq!((doubled.change, doubled.sensors.len()), (Change::Scaled, 0));
        assert!((doubled.size - 2.0).abs() < 0.05, "{doubled:?}");
        let one = change(&|row, sensor| wave(row, sensor) * if sensor == 3 { 2.0 } else { 1.0 });
        assert_eq!((one.change, one.sensors.as_slice()), (Change::Scaled, &[3][..]), "{one:?}");
        let shifted = change(&|row, sensor| wave(row, (sensor + WIDTH - 1) % WIDTH));
        assert_eq!((shifted.change, shifted.size), (Change::Reordered, 1.0));
        let permuted = change(&|row, sensor| wave(row, [2, 4, 1, 0, 3][sensor]));
        assert_eq!((permuted.change, permuted.size), (Change::Reordered, 0.0));
        let moved = change(&|row, sensor| wave(row, sensor) + 20.0);
        assert_eq!(moved.change, Change::Moved);
        assert!(moved.size > 2.0, "{moved:?}");
        let mixed = change(&|row, sensor| wave(1200 + row * 37 % 96, sensor));
        assert_eq!(mixed.change, Change::Noisier);
    }

    #[test]
    fn what_was_looked_at_itself_is_no_change() {
        // A walk: all of it spreads farther than any of its parts.
        let mut place = [0.0; WIDTH];
        let walk = rows(0, 2000, |row, sensor| ((row * 7919 + sensor * 104_729) % 1009) as f64 - 504.0);
        let walk: Vec<f64> = walk
            .iter()
            .enumerate()
            .map(|(i, step)| {
                place[i % WIDTH] += step;
                place[i % WIDTH]
            })
            .collect();
        for looked_at in [rows(0, 1200, wave), walk] {
            let portrait = Portrait::of_rows(std::slice::from_ref(&looked_at), WIDTH, Values::Original);
            let portrait = portrait.expect("there are enough rows");
            assert_eq!(portrait.found(&portrait.with_novelty(&looked_at)), None);
        }
    }

    #[test]
    fn constant_and_huge_values_are_no_panic() {
        for value in [0.0, 5.0, -1e119, 1e-300] {
            let portrait = Portrait::of_rows(&[rows(0, 200, |_, _| value)], WIDTH, Values::Original);
            let portrait = portrait.expect("there are enough rows");
            assert_eq!(portrait.found(&portrait.with_novelty(&rows(0, 64, |_, _| value))), None, "{value}");
            assert!(portrait.found(&portrait.with_novelty(&rows(0, 64, |_, _| 1e100))).is_some(), "{value}");
        }
    }
}
