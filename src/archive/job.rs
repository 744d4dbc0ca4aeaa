//! What a job is asked to do, how it tells of itself, and what it has done.

use std::sync::Arc;

use object_store::ObjectStore;
use object_store::path::Path;
use serde::Serialize;

use super::ArchiveError;
use super::choose::Target;
use super::drift::Drift;
use super::error_sums::ErrorSums;
use super::layout_request::LayoutRequest;
use super::learn::LearnSettings;
use super::manifest::{ErrorSummary, FileEntry};
use super::quantiser::Bound;
use super::source::Source;
use crate::math::{Dictionary, Observer};

/// One file to compress.
#[derive(Debug, Clone)]
pub struct Input {
    /// Where it is stored.
    pub store: Arc<dyn ObjectStore>,
    /// Its path there.
    pub path: Path,
    /// Its path in the archive.
    pub name: String,
}

/// What to do.
#[derive(Debug, Clone)]
pub struct Job {
    /// Which columns hold the values.
    pub layout: LayoutRequest,
    /// The promise on their errors.
    pub bound: Bound,
    /// What to choose the parameters for, instead of a bound.
    pub target: Option<Target>,
    /// A dictionary to use; one is learned otherwise.
    pub dictionary: Option<Dictionary>,
    /// How to learn it.
    pub learn: LearnSettings,
    /// Blocks that are worked on at the same time, by as many threads as the pool of `rayon` has.
    pub threads: usize,
    /// Whether to go on where an earlier run of the same job was stopped.
    pub resume: bool,
    /// Whether to learn another dictionary where data has drifted from what was learned from.
    pub retrain_on_drift: bool,
    /// Whether to replace an archive that is there. It can be read until the new one is whole.
    pub overwrite: bool,
    /// Whether files that an archive has already are passed over when files are added; else they fail.
    pub skip_existing: bool,
}

impl Default for Job {
    /// The only column of lists, codes alone, on all cores.
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            layout: LayoutRequest::Find,
            bound: Bound::None,
            target: None,
            dictionary: None,
            learn: LearnSettings::default(),
            threads,
            resume: true,
            retrain_on_drift: false,
            overwrite: false,
            skip_existing: false,
        }
    }
}

/// How far a job has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobProgress {
    /// Rows done.
    pub rows: u64,
    /// Rows to do.
    pub total_rows: u64,
    /// Bytes of the input's values done, in memory.
    pub bytes_in: u64,
    /// Bytes written.
    pub bytes_out: u64,
}

impl JobProgress {
    pub(super) fn new(sources: &[Source]) -> Self {
        let total_rows = sources.iter().map(|source| source.rows).sum();
        Self { rows: 0, total_rows, bytes_in: 0, bytes_out: 0 }
    }
}

/// Is told how a job goes on, and may end it.
pub trait JobObserver: Observer {
    /// Called after every block.
    fn on_progress(&self, _progress: &JobProgress) {}
    /// Called when a file could not be compressed; the rest goes on.
    fn on_failure(&self, _file: &str, _error: &ArchiveError) {}
    /// Called when a file is no longer like what its dictionary was learned from.
    fn on_drift(&self, _drift: &Drift) {}
    /// Whether to stop.
    fn is_cancelled(&self) -> bool {
        false
    }
}

impl JobObserver for () {}

/// What a job has done.
#[derive(Debug, Clone, Default, Serialize)]
pub struct JobReport {
    /// Files written, or found finished.
    pub files: Vec<FileEntry>,
    /// Files that were finished by an earlier run.
    pub resumed: usize,
    /// Files that the archive had already and that were passed over.
    pub skipped: usize,
    /// Files that failed, and why.
    pub failed: Vec<(String, String)>,
    /// Files that the dictionary no longer fits.
    pub drift: Vec<Drift>,
    /// Bytes of the dictionaries.
    pub dictionary_bytes: u64,
    /// Bytes that the values of these files take in memory.
    pub value_bytes: u64,
}

impl JobReport {
    /// The errors of the values of these files.
    pub fn error(&self) -> ErrorSummary {
        let mut sums = ErrorSums::default();
        self.files.iter().for_each(|file| sums.merge(&file.error));
        sums.summary()
    }
}
