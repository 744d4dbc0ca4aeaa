//! Progress of training on a terminal, and Ctrl-C.

use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::{ProgressBar, ProgressStyle};

use crate::math::{Observer, Progress};

/// Shows rounds of training on stderr if that is a terminal, and cancels training when told to.
#[derive(Default)]
pub(super) struct TrainingProgress {
    cancelled: AtomicBool,
    bar: Mutex<Option<ProgressBar>>,
}

impl TrainingProgress {
    /// Makes training stop after its present round.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether it was told to stop.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Forgets a cancellation, so that the next statement runs.
    pub fn reset(&self) {
        self.cancelled.store(false, Ordering::Relaxed);
        self.clear();
    }

    /// Takes the bar off the terminal.
    pub fn clear(&self) {
        if let Some(bar) = self.bar.lock().ok().and_then(|mut bar| bar.take()) {
            bar.finish_and_clear();
        }
    }
}

impl Observer for TrainingProgress {
    fn on_round(&self, progress: &Progress) -> ControlFlow<()> {
        if self.is_cancelled() {
            return ControlFlow::Break(());
        }
        if let Ok(mut bar) = self.bar.lock() {
            let bar = bar.get_or_insert_with(|| {
                let style =
                    ProgressStyle::with_template("training {bar:30} round {pos}/{len} {msg} {elapsed}");
                ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
            });
            bar.set_length(progress.max_rounds as u64);
            bar.set_position(progress.round as u64);
            bar.set_message(format!("objective {:.6}", progress.objective));
        }
        ControlFlow::Continue(())
    }
}
