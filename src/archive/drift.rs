//! Whether data is still what a dictionary was learned from.
//!
//! Learning promises what codes leave of rows that were held out, as NMAE, and how far that may vary. A file
//! whose codes leave more has drifted, whatever its residuals then mend: it needs more bytes, or is less exact.

use serde::{Deserialize, Serialize};

use super::block::CHUNK;
use super::error_sums::rounded;
use super::left::{Left, SHARE_DIGITS};
use super::quantiser::Bound;
use super::trial::Outcome;

/// A file may leave so many standard deviations more than promised,
const DEVIATIONS: f64 = 3.0;
/// at least by this factor, and at most by that one.
const NARROWEST: f64 = 1.25;
const WIDEST: f64 = 3.0;

/// Runs of a file that are followed at most: neighbours are put together beyond that.
const MOST_RUNS: usize = 1 << 13;

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
}

/// A file that a dictionary no longer fits.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Drift {
    /// The file.
    pub file: String,
    /// What its codes leave, as NMAE.
    pub left: f64,
    /// What was promised, and what would have been within the band.
    pub promised: f64,
    /// The end of the band.
    pub limit: f64,
    /// The row of the file from which on it is so.
    pub since_row: u64,
    /// The time of that row, where the table has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The dictionary that was learned for it instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
    /// The promise on its values, where that dictionary was chosen with another one than files before it have.
    #[serde(skip_serializing_if = "Option::is_none")]
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
        Some(Self { left, deviation, nmae, held_out_nmae })
    }

    /// What codes may leave of a file with so many signals: long files are nearer to the mean.
    pub fn limit(&self, signals: u64) -> f64 {
        let chunks = (signals as f64 / CHUNK as f64).max(1.0);
        let limit = self.left + DEVIATIONS * self.deviation / chunks.sqrt();
        rounded(limit.max(NARROWEST * self.left).min(WIDEST * self.left), SHARE_DIGITS)
    }
}

/// Follows what codes leave of a file.
#[derive(Debug, Default)]
pub(super) struct Watch {
    all: Left,
    /// Runs of signals: what is left of them, where they begin, and when.
    runs: Vec<(Left, u64, Option<String>)>,
}

impl Watch {
    /// Adds some signals.
    pub fn add(&mut self, left: &Left, row: u64, time: Option<String>) {
        self.all.merge(left);
        self.runs.push((*left, row, time));
        if self.runs.len() == MOST_RUNS {
            let pairs = self.runs.chunks(2).map(|pair| {
                let (first, row, time) = &pair[0];
                let mut left = *first;
                pair[1..].iter().for_each(|(other, ..)| left.merge(other));
                (left, *row, time.clone())
            });
            self.runs = pairs.collect();
        }
    }

    /// What codes leave of the file.
    pub fn left(&self) -> Left {
        self.all
    }

    /// Whether the file has left the band.
    pub fn drift(&self, file: &str, signals: u64, promise: &Promise) -> Option<Drift> {
        let (left, limit) = (self.all.share(), promise.limit(signals));
        if left <= limit {
            return None;
        }
        let (since_row, since) = self.since(promise.left, limit);
        let file = file.to_string();
        let promised = promise.left;
        Some(Drift { file, left, promised, limit, since_row, since, generation: None, bound: None })
    }

    /// Where the change is: half of what the changed part leaves beyond what was promised is the threshold, and
    /// after the run up to which the sum of what is above it is lowest, it prevails.
    fn since(&self, promised: f64, limit: f64) -> (u64, Option<String>) {
        let mut changed = Left::default();
        self.runs.iter().filter(|(left, ..)| left.share() > limit).for_each(|(left, ..)| changed.merge(left));
        // What is left of zeros cannot be told as a share.
        let of_changed = if changed.value > 0.0 { changed.share() } else { limit };
        let threshold = (promised + of_changed) / 2.0;
        let (mut sum, mut lowest, mut first) = (0.0, 0.0, 0);
        for (i, (left, ..)) in self.runs.iter().enumerate() {
            sum += left.error - threshold * left.value;
            if sum < lowest {
                (lowest, first) = (sum, i + 1);
            }
        }
        let run = self.runs.get(first).or(self.runs.first());
        run.map_or((0, None), |(_, row, time)| (*row, time.clone()))
    }
}
