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
    shown: Mutex<Option<Shown>>,
}

/// What is on the terminal: rounds of one dictionary, or how many were learned where it is not the only one.
struct Shown {
    bar: ProgressBar,
    round: usize,
    dictionaries: usize,
}

impl Shown {
    fn new() -> Self {
        let style = ProgressStyle::with_template("training {bar:30} round {pos}/{len} {msg} {elapsed}");
        let bar = ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { bar, round: 0, dictionaries: 1 }
    }

    fn show(&mut self, progress: &Progress) {
        // Rounds that begin again are those of another dictionary.
        if progress.round <= self.round {
            self.dictionaries += 1;
            let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}");
            self.bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        }
        self.round = progress.round;
        if self.dictionaries > 1 {
            self.bar.set_message(format!("choosing a dictionary: {} learned so far", self.dictionaries));
            self.bar.tick();
        } else {
            self.bar.set_length(progress.max_rounds as u64);
            self.bar.set_position(progress.round as u64);
            self.bar.set_message(format!("objective {:.6}", progress.objective));
        }
    }
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
        if let Some(shown) = self.shown.lock().ok().and_then(|mut shown| shown.take()) {
            shown.bar.finish_and_clear();
        }
    }
}

impl Observer for TrainingProgress {
    fn on_round(&self, progress: &Progress) -> ControlFlow<()> {
        if self.is_cancelled() {
            return ControlFlow::Break(());
        }
        if let Ok(mut shown) = self.shown.lock() {
            shown.get_or_insert_with(Shown::new).show(progress);
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_is_one_bar() {
        let training = TrainingProgress::default();
        let round = |round| {
            let progress = Progress { round, max_rounds: 3, objective: 1.0, nonzeros: 0 };
            assert!(training.on_round(&progress).is_continue());
        };
        let place =
            || training.shown.lock().ok().and_then(|shown| shown.as_ref().map(|shown| shown.bar.position()));
        (1..=3).for_each(round);
        assert_eq!(place(), Some(3));
        (1..=3).for_each(round);
        assert_eq!(place(), Some(3), "it does not go back");
        let told =
            training.shown.lock().ok().and_then(|shown| shown.as_ref().map(|shown| shown.bar.message()));
        assert_eq!(told.as_deref(), Some("choosing a dictionary: 2 learned so far"));
        training.clear();
        assert_eq!(place(), None);
    }
}
