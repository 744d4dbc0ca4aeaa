//! Progress of an evaluation on a terminal, and Ctrl-C.

use std::fmt::Display;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};

use crate::cli::messages::tell;
use crate::math::{MathError, Observer, Progress};

/// Shows how much is measured on stderr if that is a terminal, and ends the work when told to.
pub(super) struct Watch {
    cancelled: AtomicBool,
    bar: ProgressBar,
}

impl Watch {
    /// So many measurements are to be made. From here on Ctrl-C keeps what there is; a second one does not wait.
    pub fn new(measurements: usize) -> Arc<Self> {
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} measured, {msg} {elapsed}");
        let bar = ProgressBar::new(measurements as u64)
            .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let watch = Arc::new(Self { cancelled: AtomicBool::new(false), bar });
        let watched = watch.clone();
        tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_err() {
                return;
            }
            watched.cancelled.store(true, Ordering::Relaxed);
            watched.say("stopping after what is being coded; again to stop at once");
            if tokio::signal::ctrl_c().await.is_ok() {
                std::process::exit(1);
            }
        });
        watch
    }

    /// What is being done.
    pub fn begin(&self, what: impl Display) {
        self.bar.set_message(what.to_string());
    }

    /// One more measurement is made.
    pub fn measured(&self) {
        self.bar.inc(1);
    }

    /// So many more measurements are to be made than was known.
    pub fn expect(&self, more: usize) {
        self.bar.inc_length(more as u64);
    }

    /// A line on stderr.
    pub fn say(&self, line: impl Display) {
        self.bar.suspend(|| tell(line));
    }

    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// An error where the work is to end.
    pub fn go_on(&self) -> Result<()> {
        if self.is_cancelled() { Err(MathError::Cancelled.into()) } else { Ok(()) }
    }

    /// Takes the bar off the terminal.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

impl Observer for Watch {
    fn on_round(&self, _progress: &Progress) -> ControlFlow<()> {
        self.bar.tick();
        if self.is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
