//! What an archive would be like with a codebook: blocks are coded as they will be, and their bytes and
//! errors carried over to the whole table.

use arrow::array::RecordBatch;
use rayon::prelude::*;

use super::Result;
use super::block::{self, CodedBlock, Purpose};
use super::data_file_writer::{DataFileWriter, Settings};
use super::error_sums::ErrorSums;
use super::example::{Example, examples};
use super::layout::{Layout, Table};
use super::learn::Material;
use super::left::Left;
use super::placed::{Placed, place_all};
use super::quantiser::Bound;
use super::sampled::{Look, Sampled};
use crate::math::search::Measured;

/// `archive.json`, about: of itself and of each file, without and with the numbers of its errors.
const MANIFEST_BYTES: f64 = 178.0;
const ENTRY_BYTES_BESIDE_ERRORS: f64 = 220.0;
const ENTRY_BYTES: f64 = 360.0;
/// The dictionary of an archive of files that are stored as they were, about: it says why.
const KEPT_DICTIONARY_BYTES: f64 = 640.0;
/// The hash of a column chunk of such a file.
const CHUNK_HASH_BYTES: f64 = 19.0;
/// Errors on rows that were held out may be so much above those promised for the table as a whole.
const HELD_OUT_ALLOWANCE: f64 = 1.03;

/// Values that are enough to tell parameters apart.
const ROUGH_VALUES: usize = 1 << 20;

/// Parts that rows held out are cut into.
const HELD_OUT_RUNS: usize = 8;

/// Parts that errors are compared between, and how much their deviation counts.
const PARTS: usize = 8;
const UNEVENNESS: f64 = 0.15;

/// Cells that are held at most, absent ones included.
const MOST_CELLS: usize = 1 << 24;

/// How much is coded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Effort {
    /// Enough to tell parameters apart.
    Rough,
    /// All that was looked at.
    Full,
}

/// What an archive of files that are stored as they were has beside these, which have so many column chunks.
pub(super) fn bytes_beside_stored(files: f64, chunks: f64) -> f64 {
    MANIFEST_BYTES + KEPT_DICTIONARY_BYTES + files * ENTRY_BYTES + chunks * CHUNK_HASH_BYTES
}

/// The blocks that archives are tried on.
pub(super) struct Trials {
    table: Table,
    blocks: Vec<Placed>,
    held_out: Option<Vec<Placed>>,
    rows: u64,
    /// How much of the table they are.
    pub look: Look,
    pub total_rows: u64,
    pub files: u64,
    pub source_bytes: u64,
    /// Bytes that all values take as they are in memory.
    pub value_bytes: f64,
    /// Signals of the whole table, about.
    pub signals: u64,
}

/// What a codebook would lead to.
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    /// Bytes of the archive.
    pub bytes: f64,
    /// Bytes of its dictionary, and of codes and residuals.
    pub dictionary_bytes: f64,
    pub coded_bytes: f64,
    /// The latter for a value.
    pub bytes_per_value: f64,
    /// The errors of all rows that were looked at, and of those held out.
    pub error: ErrorSums,
    pub held_out: ErrorSums,
    /// The errors of the latter once they have been learned from, too.
    held_out_once_learned: Option<ErrorSums>,
    /// The share of the table that was looked at.
    covered: f64,
    /// What codes leave of rows that were looked at, chunk by chunk, and of those held out.
    pub left: Vec<Left>,
    held_out_left: Left,
    /// How much the errors of parts of the table differ, where there are no residuals.
    unevenness: f64,
}

impl Outcome {
    /// The error of the whole table: of what was looked at, and for the rest of what was held out.
    pub fn nmae(&self) -> f64 {
        self.covered * self.error.nmae() + (1.0 - self.covered) * self.held_out_nmae()
    }

    /// The error of rows that were held out; of all where those are nothing but zeros.
    pub fn held_out_nmae(&self) -> f64 {
        if self.held_out.value_absolute > 0.0 { self.held_out.nmae() } else { self.error.nmae() }
    }

    /// What codes leave of most runs of signals, as NMAE: at least half of the runs are as bad or worse.
    pub fn usually_left(&self) -> f64 {
        let mut shares: Vec<f64> =
            self.left.iter().filter(|left| left.value > 0.0).map(Left::share).collect();
        shares.sort_by(f64::total_cmp);
        shares.get(shares.len().saturating_sub(1) / 2).copied().unwrap_or(0.0)
    }

    pub fn measured(&self) -> Measured {
        // Where some parts are expressed badly, others that were not looked at may be, too.
        let unseen = match self.held_out_once_learned.map(|errors| errors.nmae()) {
            // The same rows tell how much worse it is not to have learned from them.
            Some(learned) if learned > 0.0 => self.nmae() * self.held_out_nmae() / learned,
            _ => self.held_out_nmae(),
        };
        let nmae = self.nmae().max(unseen / HELD_OUT_ALLOWANCE) + UNEVENNESS * self.unevenness;
        Measured { bytes: self.bytes, nmae, max_error: self.error.max }
    }

    /// The same with the errors of rows that were held out, and what codes leave of them.
    pub fn with_unseen(self, (held_out, held_out_left): (ErrorSums, Left)) -> Self {
        Self { held_out, held_out_left, ..self }
    }

    /// The same with what a codebook that has not learned from the rows held out leads to on these: other rows that
    /// were not learned from will be as much worse.
    pub fn judged_by(mut self, (held_out, held_out_left): (ErrorSums, Left)) -> Self {
        let worse = (held_out_left.error / self.held_out_left.error).max(1.0);
        if worse.is_finite() {
            self.left.iter_mut().for_each(|left| left.error *= worse);
        }
        Self { held_out_once_learned: Some(self.held_out), held_out, held_out_left, ..self }
    }
}

impl Trials {
    /// Trials on a table that was looked at.
    pub fn new(material: &Material, sampled: &Sampled) -> Self {
        let blocks = placed(material, &sampled.blocks);
        let held_out = sampled.held_out.as_ref().map(|rows| placed(material, &in_runs(material, rows)));
        Self::of(material, sampled, blocks, held_out)
    }

    /// The same on rows that were held out alone: what learning is worth for rows it has not seen.
    pub fn on_held_out(material: &Material, sampled: &Sampled) -> Self {
        let blocks = placed(material, sampled.held_out.as_deref().unwrap_or(&sampled.blocks));
        Self::of(material, sampled, blocks, None)
    }

    /// The same on the rows that were learned from.
    pub fn on_learned(material: &Material, sampled: &Sampled) -> Self {
        Self::of(material, sampled, placed(material, &sampled.learned), None)
    }

    fn of(
        material: &Material,
        sampled: &Sampled,
        blocks: Vec<Placed>,
        held_out: Option<Vec<Placed>>,
    ) -> Self {
        let table = material.table.clone();
        let rows: usize = blocks.iter().map(|block| block.rows.num_rows()).sum();
        let signals: usize = blocks.iter().map(|block| block.placement.signals()).sum();
        let scale = sampled.total_rows as f64 / rows.max(1) as f64;
        let counted = if matches!(table.layout, Layout::List { .. }) { signals } else { rows };
        let value_bytes = counted * table.value_bytes(material.sensors);
        Self {
            blocks,
            held_out,
            rows: rows as u64,
            look: sampled.look,
            total_rows: sampled.total_rows,
            files: sampled.files,
            source_bytes: sampled.source_bytes,
            value_bytes: value_bytes as f64 * scale,
            signals: (signals as f64 * scale) as u64,
            table,
        }
    }

    /// Values that are coded in full, absent ones included.
    pub fn values(&self) -> usize {
        self.blocks.iter().map(|placed| placed.cells.state.len()).sum()
    }

    /// Whether there are so few values that some more choices can be tried in full.
    pub fn are_few(&self) -> bool {
        self.values() <= ROUGH_VALUES
    }

    /// Codes the blocks, or some of them, and rows held out where their errors matter. `dictionary_bytes` are those of
    /// the dictionary's file.
    pub fn run(
        &self,
        settings: &Settings,
        dictionary_bytes: usize,
        effort: Effort,
        are_unseen_judged: bool,
    ) -> Result<Outcome> {
        let values = self.rows as usize * self.table.values_in_row(settings.codebook.sensors());
        let stride = match effort {
            Effort::Rough => values.div_ceil(ROUGH_VALUES).max(1),
            Effort::Full => 1,
        };
        // From the middle of every stride: the first block of a small table has no row that was held out.
        let first = (stride / 2).min(self.blocks.len().saturating_sub(1));
        let blocks: Vec<&Placed> = self.blocks.iter().skip(first).step_by(stride).collect();
        let held_out: Vec<&Placed> = match are_unseen_judged {
            true => self.held_out.iter().flatten().step_by(stride).collect(),
            false => Vec::new(),
        };
        settings.codebook.prepare_for_parallel_use()?;
        let coded: Result<Vec<CodedBlock>> = blocks
            .par_iter()
            .chain(held_out.par_iter())
            .map(|placed| placed.encode(&self.table, settings, Purpose::Trial))
            .collect();
        let coded = coded?;
        let (of_blocks, of_held_out) = coded.split_at(blocks.len());
        // Without blocks the file is what every file has; with them it tells what rows take.
        let source = "0".repeat(16);
        let first = blocks.first().map(|placed| &placed.rows);
        let empty = DataFileWriter::new(&self.table, settings, source.clone(), first, None)?;
        let fixed = empty.finish()?.0.len() as f64;
        let mut writer = DataFileWriter::new(&self.table, settings, source, first, None)?;
        let mut bytes = 0;
        for (placed, coded) in blocks.iter().zip(of_blocks) {
            bytes += writer.write(&placed.rows, &placed.placement, coded)?.len();
        }
        let coded_bytes = writer.coded_bytes() as f64;
        bytes += writer.finish()?.0.len();
        let rows: usize = blocks.iter().map(|placed| placed.rows.num_rows()).sum();
        let scale = self.total_rows as f64 / rows.max(1) as f64;
        let unseen = if self.held_out.is_some() && are_unseen_judged { of_held_out } else { of_blocks };
        let files = self.files.max(1) as f64;
        let error = errors(of_blocks);
        // Values that come back exactly have short ones.
        let entry = ENTRY_BYTES_BESIDE_ERRORS + serde_json::to_string(&error.recorded())?.len() as f64;
        Ok(Outcome {
            bytes: MANIFEST_BYTES
                + dictionary_bytes as f64
                + files * (entry + fixed)
                + (bytes as f64 - fixed) * scale,
            dictionary_bytes: dictionary_bytes as f64,
            coded_bytes: coded_bytes * scale,
            bytes_per_value: coded_bytes / errors(of_blocks).values.max(1) as f64,
            error,
            held_out: errors(unseen),
            held_out_once_learned: None,
            covered: if self.held_out.is_some() { 1.0 } else { 0.0 },
            left: all_left(of_blocks),
            held_out_left: Left::sum(&all_left(unseen)),
            unevenness: if settings.bound == Bound::None { deviation_of_parts(of_blocks) } else { 0.0 },
        })
    }
}

impl Trials {
    /// Whether rows are held out from learning.
    pub fn holds_out(&self) -> bool {
        self.held_out.is_some()
    }

    /// The errors of rows that were held out, and what codes leave of them.
    pub fn run_held_out(&self, settings: &Settings) -> Result<(ErrorSums, Left)> {
        let held_out = self.held_out.as_deref().unwrap_or_default();
        settings.codebook.prepare_for_parallel_use()?;
        let coded: Result<Vec<CodedBlock>> =
            held_out.par_iter().map(|placed| placed.encode(&self.table, settings, Purpose::Trial)).collect();
        let coded = coded?;
        Ok((errors(&coded), Left::sum(&all_left(&coded))))
    }

    /// Some sensors of the first block, evenly spread.
    pub fn examples(&self, settings: &Settings) -> Result<Vec<Example>> {
        match self.blocks.first() {
            Some(placed) => examples(&self.table, placed, settings),
            None => Ok(Vec::new()),
        }
    }
}

fn errors(coded: &[CodedBlock]) -> ErrorSums {
    let mut sums = ErrorSums::default();
    coded.iter().for_each(|block| sums.merge(&block.error));
    sums
}

fn all_left(coded: &[CodedBlock]) -> Vec<Left> {
    coded.iter().flat_map(|block| block.left.iter().copied()).collect()
}

/// The standard deviation of what codes leave of parts of the table, as NMAE.
fn deviation_of_parts(coded: &[CodedBlock]) -> f64 {
    let left = all_left(coded);
    let parts: Vec<Left> = left.chunks(left.len().div_ceil(PARTS).max(1)).map(Left::sum).collect();
    Left::deviation(&parts)
}

/// Rows whose signals have been found, as many as memory may hold.
fn placed(material: &Material, batches: &[RecordBatch]) -> Vec<Placed> {
    // A file that does not fit fails when its turn comes, and is named then.
    place_all(&material.table, material.sensors, batches, MOST_CELLS).0
}

/// Short runs, so that some of them are enough at times.
fn in_runs(material: &Material, batches: &[RecordBatch]) -> Vec<RecordBatch> {
    if material.table.are_signals_scattered() {
        return batches.to_vec();
    }
    let runs = |rows: &RecordBatch| -> Vec<RecordBatch> {
        let unit = material.table.rows_of_signal();
        let count = rows.num_rows();
        let run = count.div_ceil(HELD_OUT_RUNS).max(block::CHUNK).next_multiple_of(unit);
        (0..count).step_by(run).map(|first| rows.slice(first, run.min(count - first))).collect()
    };
    batches.iter().flat_map(runs).collect()
}
