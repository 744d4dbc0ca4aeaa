//! Work on a given number of threads.

use std::num::NonZeroUsize;

use anyhow::{Context, Result};

/// The threads asked for, or all cores.
pub(super) fn thread_count(asked: Option<usize>) -> usize {
    asked.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, NonZeroUsize::get))
}

/// Runs `work` on so many threads.
pub(super) fn on_threads<T: Send>(count: usize, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(count).build();
    pool.context("cannot start the threads")?.install(work)
}

/// Makes all work of this process use so many threads; gives their number.
pub(super) fn limit_threads(asked: Option<usize>) -> Result<usize> {
    if let Some(threads) = asked {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build_global();
        pool.context("cannot set the number of threads")?;
    }
    Ok(thread_count(asked))
}
