//! Progress of a job on a terminal, and Ctrl-C.

use std::ops::ControlFlow;
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressStyle};

use super::super::progress::TrainingProgress;
use crate::archive::{ArchiveError, Bound, Drift, JobObserver, JobProgress};
use crate::cli::messages::tell;
use crate::math::{Observer, Progress};

/// Shows rows, MB/s, the ratio so far and the time left on stderr if that is a terminal.
pub(super) struct JobBar {
    training: TrainingProgress,
    bar: ProgressBar,
    /// Whether another dictionary is learned where data has drifted.
    retrains: bool,
}

impl JobBar {
    pub fn new(retrains: bool) -> Arc<Self> {
        let style = ProgressStyle::with_template("{bar:30} {human_pos}/{human_len} rows {msg} {eta} left");
        let bar = ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let shown = Arc::new(Self { training: TrainingProgress::default(), bar, retrains });
        let watched = shown.clone();
        tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                watched.training.cancel();
            }
        });
        shown
    }

    pub fn clear(&self) {
        self.training.clear();
        self.bar.finish_and_clear();
    }
}

impl Observer for JobBar {
    fn on_round(&self, progress: &Progress) -> ControlFlow<()> {
        self.training.on_round(progress)
    }
}

impl JobObserver for JobBar {
    fn on_progress(&self, progress: &JobProgress) {
        self.training.clear();
        self.bar.set_length(progress.total_rows);
        self.bar.set_position(progress.rows);
        let seconds = self.bar.elapsed().as_secs_f64().max(1e-3);
        let megabytes = progress.bytes_in as f64 / 1e6;
        let ratio = progress.bytes_in as f64 / progress.bytes_out.max(1) as f64;
        self.bar.set_message(format!("{:.0} MB/s, ratio {ratio:.1}", megabytes / seconds));
    }

    fn on_failure(&self, file: &str, error: &ArchiveError) {
        self.bar.suspend(|| tell(format_args!("error: {file}: {error}")));
    }

    fn on_drift(&self, drift: &Drift) {
        let since = match &drift.since {
            Some(time) => format!("row {} ({time})", drift.since_row),
            None => format!("row {}", drift.since_row),
        };
        let done = match drift.generation {
            Some(number) => format!(
                "it was compressed with dictionary {number}, learned from here on{}",
                drift.bound.map(promise).unwrap_or_default()
            ),
            None if self.retrains => "no dictionary that was learned from here on is better".to_string(),
            None => "--retrain-on-drift learns another dictionary".to_string(),
        };
        self.bar.suspend(|| {
            tell(format_args!(
                "warning: {}: data has drifted since {since}: {}; {done}",
                drift.file, drift.told
            ));
        });
    }

    fn is_cancelled(&self) -> bool {
        self.training.is_cancelled()
    }
}

/// What is promised from here on.
fn promise(bound: Bound) -> String {
    match bound {
        Bound::None => ", by codes alone: single values have no bound any more".to_string(),
        Bound::MaxError(bound) => format!(", and no value is off by more than {bound}"),
        Bound::MaxRelativeError(bound) => format!(", and no value is off by more than {bound} of itself"),
        Bound::Lossless => ", and values come back as they were".to_string(),
    }
}
