//! Whether data is still what a dictionary was learned from.
//!
//! A portrait is drawn of the signals that were learned from, or of those that an archive has: a file whose signals are
//! unlike it has drifted, whatever the dictionary. Learning also promises what codes leave of rows that were held out, as
//! NMAE, and the bytes of a value: a file that needs far more has drifted, too. Where there are too few signals to be
//! portrayed it goes by what codes leave alone.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::block::CHUNK;
use super::error_sums::rounded;
use super::layout::Table;
use super::left::{Left, SHARE_DIGITS};
use super::portrait::{Change, Found, Portrait, Sums};
use super::quantiser::Bound;
use super::trial::Outcome;

/// A file may leave so many standard deviations more than promised,
const DEVIATIONS: f64 = 3.0;
/// at least by this factor, and at most by that one.
const NARROWEST: f64 = 1.25;
const WIDEST: f64 = 3.0;

/// Digits of bytes.
const BYTES_DIGITS: usize = 3;

/// Runs of a file that are followed at most: neighbours are put together beyond that.
const MOST_RUNS: usize = 1 << 13;
const FEWEST_RUNS: usize = 16;
/// The same by the sensors that are summed up for each.
const MOST_SUMS: usize = 1 << 17;
/// Files of so many signals are looked at by halves, too.
const HALVED_FROM: usize = 128;
/// How far runs are from a portrait that are like it, as a share of the limit, and what is far enough.
const USUAL_DISTANCE: f64 = 0.6;
const MOST_DISTANT: f64 = 10.0;
/// Where signals are alike, values may take so many times the bytes that were promised, and so many more.
const MOST_BYTES: f64 = 3.0;
const MORE_BYTES: f64 = 0.5;

/// What learning promises.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Promise {
    /// What codes leave of values, as NMAE.
    pub left: f64,
    /// The standard deviation of that between runs of 64 signals.
    pub deviation: f64,
    /// The mean error of the archive.
    pub nmae: f64,
    /// The mean error of rows that were held out.
    pub held_out_nmae: f64,
    /// The bytes of codes and residuals for a value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_value: Option<f64>,
}

/// A file that a dictionary no longer fits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Drift {
    /// The file.
    pub file: String,
    /// What has changed.
    pub change: Change,
    /// The same in words.
    pub told: String,
    /// The sensors that it is about, the most changed first; none where it is about all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sensors: Vec<String>,
    /// By how much: a factor, standard deviations, or places.
    pub size: f64,
    /// What its codes leave, as NMAE.
    pub left: f64,
    /// What was promised, and what would have been within the band.
    pub promised: f64,
    /// The end of the band.
    pub limit: f64,
    /// The bytes that its codes and residuals take for a value, and what was promised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_value: Option<f64>,
    /// What was promised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promised_bytes_per_value: Option<f64>,
    /// The row of the file from which on it is so.
    pub since_row: u64,
    /// The time of that row, where the table has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The dictionary that was learned for it instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
    /// The promise on its values, where that dictionary was chosen with another one than files before it have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<Bound>,
}

impl Promise {
    pub(super) fn new(outcome: &Outcome) -> Option<Self> {
        let all = Left::sum(&outcome.left);
        // Nothing that was held out, or nothing but zeros, promises nothing.
        if all.value <= 0.0 {
            return None;
        }
        let left = all.share();
        let deviation = Left::deviation(&outcome.left);
        let [left, deviation, nmae, held_out_nmae] =
            [left, deviation, outcome.nmae(), outcome.held_out_nmae()]
                .map(|share| rounded(share, SHARE_DIGITS));
        let bytes_per_value =
            Some(rounded(outcome.bytes_per_value, BYTES_DIGITS)).filter(|bytes| *bytes > 0.0);
        Some(Self { left, deviation, nmae, held_out_nmae, bytes_per_value })
    }

    /// What codes may leave of a file with so many signals: long files are nearer to the mean.
    pub fn limit(&self, signals: u64) -> f64 {
        let chunks = (signals as f64 / CHUNK as f64).max(1.0);
        let limit = self.left + DEVIATIONS * self.deviation / chunks.sqrt();
        rounded(limit.max(NARROWEST * self.left).min(WIDEST * self.left), SHARE_DIGITS)
    }

    /// The same where signals can be told to be alike by themselves: only far more is a drift then.
    pub(super) fn allowed(&self, signals: u64, is_told_by_portrait: bool) -> f64 {
        if is_told_by_portrait { rounded(WIDEST * self.left, SHARE_DIGITS) } else { self.limit(signals) }
    }
}

/// What a file is compared with.
pub(super) struct Known<'a> {
    pub table: &'a Table,
    pub promise: &'a Promise,
    /// Where there were too few signals there is none.
    pub portrait: Option<&'a Portrait>,
    /// Whether that tells all that has changed.
    pub is_told_by_portrait: bool,
}

/// What is known of a file's bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Taken {
    /// The bytes of codes and residuals, and the values.
    pub bytes: u64,
    pub values: u64,
}

/// A run of signals: what codes leave of them, what they are like, where they begin, and when.
#[derive(Debug)]
struct Run {
    left: Left,
    sums: Option<Sums>,
    row: u64,
    time: Option<String>,
}

/// Follows what the signals of a file are like, and what codes leave of them.
#[derive(Debug, Default)]
pub(super) struct Watch {
    all: Left,
    runs: Vec<Run>,
}

impl Watch {
    /// Adds some signals.
    pub fn add(&mut self, left: &Left, sums: Option<Sums>, row: u64, time: Option<String>) {
        self.all.merge(left);
        let sensors = sums.as_ref().map_or(1, Sums::sensors);
        self.runs.push(Run { left: *left, sums, row, time });
        if self.runs.len() >= MOST_RUNS.min(MOST_SUMS / sensors.max(1)).max(FEWEST_RUNS) {
            let mut merged: Vec<Run> = Vec::with_capacity(self.runs.len() / 2 + 1);
            for (i, run) in self.runs.drain(..).enumerate() {
                match merged.last_mut() {
                    Some(first) if i % 2 == 1 => first.merge(run),
                    _ => merged.push(run),
                }
            }
            self.runs = merged;
        }
    }

    /// What codes leave of the file.
    pub fn left(&self) -> Left {
        self.all
    }

    /// Whether the file is no longer what the dictionary was learned from.
    pub fn drift(&self, file: &str, signals: u64, taken: Taken, known: &Known<'_>) -> Option<Drift> {
        let Known { table, promise, portrait, is_told_by_portrait } = known;
        let (left, limit) = (self.all.share(), promise.allowed(signals, *is_told_by_portrait));
        let expected = promise.bytes_per_value;
        let bytes_per_value =
            (taken.values > 0).then(|| rounded(taken.bytes as f64 / taken.values as f64, SHARE_DIGITS));
        let (found, since) = match portrait.and_then(|portrait| self.unlike(portrait)) {
            Some((found, since)) => (found, since),
            None if left > limit => {
                let found = Found { change: Change::Left, sensors: Vec::new(), size: left / promise.left };
                (found, self.since(promise.left, limit))
            }
            None => {
                let factor = bytes_per_value.zip(expected).map(|(bytes, expected)| bytes / expected)?;
                let more = bytes_per_value.unwrap_or(0.0) - expected.unwrap_or(0.0);
                let is_told = portrait.is_some() && factor > MOST_BYTES && more > MORE_BYTES;
                if !is_told || signals < CHUNK as u64 {
                    return None;
                }
                (Found { change: Change::Bytes, sensors: Vec::new(), size: factor }, 0)
            }
        };
        let run = self.runs.get(since).or(self.runs.first());
        let (since_row, since) = run.map_or((0, None), |run| (run.row, run.time.clone()));
        let sensors: Vec<String> = found.sensors.iter().map(|sensor| table.sensor_name(*sensor)).collect();
        let mut told = in_words(&found, &sensors);
        if found.change == Change::Left {
            let [left, promised, limit] = [left, promise.left, limit].map(|share| 100.0 * share);
            let _ = write!(
                told,
                "codes leave {left:.3} % of the values, learning promised {promised:.3} % and at most {limit:.3} %"
            );
        }
        if let Some((now, expected)) = bytes_per_value.zip(expected) {
            let _ = write!(told, "; values take {now:.3} bytes each, those learned from took {expected:.3}");
        }
        Some(Drift {
            file: file.to_string(),
            change: found.change,
            told,
            sensors,
            size: rounded(found.size, SHARE_DIGITS),
            left,
            promised: promise.left,
            limit,
            bytes_per_value,
            promised_bytes_per_value: expected,
            since_row,
            since,
            generation: None,
            bound: None,
        })
    }

    /// What has changed, and the run from which on it has: in the file, or in one of its halves.
    fn unlike(&self, portrait: &Portrait) -> Option<(Found, usize)> {
        let whole = self.sums(0, self.runs.len());
        let found = portrait.found(&whole);
        let found = found.or_else(|| {
            let half = self.runs.len() / 2;
            if whole.signals() < HALVED_FROM {
                return None;
            }
            let halves = [self.sums(half, self.runs.len()), self.sums(0, half)];
            halves.iter().find_map(|half| portrait.found(half))
        })?;
        let distances: Vec<f64> = self
            .runs
            .iter()
            .map(|run| run.sums.as_ref().map_or(0.0, |sums| portrait.distance(sums).min(MOST_DISTANT)))
            .collect();
        let (changed, count) = distances
            .iter()
            .filter(|distance| **distance > 1.0)
            .fold((0.0, 0), |(sum, count), distance| (sum + distance, count + 1));
        let changed = if count > 0 { changed / f64::from(count) } else { 1.0 };
        let threshold = (USUAL_DISTANCE + changed) / 2.0;
        let (mut sum, mut lowest, mut first) = (0.0, 0.0, 0);
        for (i, distance) in distances.iter().enumerate() {
            sum += distance - threshold;
            if sum < lowest {
                (lowest, first) = (sum, i + 1);
            }
        }
        Some((found, if first < self.runs.len() { first } else { 0 }))
    }

    fn sums(&self, from: usize, to: usize) -> Sums {
        let mut all = Sums::default();
        self.runs[from..to].iter().filter_map(|run| run.sums.as_ref()).for_each(|sums| all.merge(sums));
        all
    }

    /// Where the change is: half of what the changed part leaves beyond what was promised is the threshold, and
    /// after the run up to which the sum of what is above it is lowest, it prevails.
    fn since(&self, promised: f64, limit: f64) -> usize {
        let mut changed = Left::default();
        let shares = self.runs.iter().map(|run| &run.left);
        shares.filter(|left| left.share() > limit).for_each(|left| changed.merge(left));
        // What is left of zeros cannot be told as a share.
        let of_changed = if changed.value > 0.0 { changed.share() } else { limit };
        let threshold = (promised + of_changed) / 2.0;
        let (mut sum, mut lowest, mut first) = (0.0, 0.0, 0);
        for (i, Run { left, .. }) in self.runs.iter().enumerate() {
            sum += left.error - threshold * left.value;
            if sum < lowest {
                (lowest, first) = (sum, i + 1);
            }
        }
        first
    }
}

impl Run {
    fn merge(&mut self, other: Self) {
        self.left.merge(&other.left);
        match (&mut self.sums, other.sums) {
            (Some(sums), Some(others)) => sums.merge(&others),
            (none, others) => *none = none.take().or(others),
        }
    }
}

/// A change, as it is told.
fn in_words(found: &Found, sensors: &[String]) -> String {
    let whose = match sensors {
        [] => "the sensors' values".to_string(),
        [one] => format!("the values of {one}"),
        several => format!("the values of {}", several.join(", ")),
    };
    let size = found.size;
    match found.change {
        Change::Scaled => format!("{whose} are {size:.2} times what they were"),
        Change::Moved if size.abs() < 0.1 => {
            format!("{whose} are where they were not, some higher, some lower")
        }
        Change::Moved => {
            let direction = if size > 0.0 { "higher" } else { "lower" };
            format!("{whose} are {direction} by {:.1} standard deviations", size.abs())
        }
        Change::Varied if size < 1.0 => {
            format!("{whose} vary less: {size:.2} times as much as those learned from")
        }
        Change::Varied => format!("{whose} vary {size:.2} times as much as those learned from"),
        Change::Noisier if size > 1.0 => {
            format!(
                "{whose} are noisier: from row to row they go {size:.2} times as far as those learned from"
            )
        }
        Change::Noisier => {
            format!("{whose} change less from row to row: {size:.2} times as far as those learned from")
        }
        Change::Reordered if size != 0.0 => {
            format!("sensors look shifted by {size:+.0}: each has the values of another")
        }
        Change::Reordered => "sensors look permuted: they have the values of others".to_string(),
        Change::Apart => {
            "sensors no longer go together as they did: they may be in another order".to_string()
        }
        Change::Left => String::new(),
        Change::Bytes => format!("values take {size:.1} times the bytes of those learned from"),
    }
}
