//! The part of an `INSERT INTO` that takes long: a temporary file is learned from, coded, and added to the archive.

use std::hash::Hasher;
use std::io::Read;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{Result, exec_err};
use datafusion::error::DataFusionError;
use datafusion::execution::SpillFile;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::object_store::ObjectStore;
use datafusion::object_store::local::LocalFileSystem;
use datafusion::object_store::path::Path;
use tokio::runtime::Handle;
use tokio::sync::OwnedMutexGuard;
use twox_hash::XxHash3_64;

use super::external;
use super::opened::Opened;
use super::place::Place;
use crate::archive::{
    ArchiveError, Input, Job, JobObserver, JobReport, coding_bytes, compress, learning_bytes,
};
use crate::math::{Observer, Progress};

/// How often rows are coded again because others have changed the archive meanwhile.
const TRIES: usize = 100;

/// Rows in a temporary file that are to be added to an archive, and all that is held until they are.
pub(super) struct Insertion {
    pub place: Arc<Place>,
    pub file: Arc<dyn SpillFile>,
    /// Values of all columns.
    pub values: usize,
    /// Blocks that are coded at the same time, if there is memory for so many.
    pub threads: usize,
    pub reservation: MemoryReservation,
    pub _turn: OwnedMutexGuard<()>,
}

impl Insertion {
    /// Adds the rows. Whoever stops waiting for it ends it.
    pub async fn run(self) -> Result<()> {
        let guard = CancelOnDrop::default();
        let (observer, runtime) = (Watch(guard.0.clone()), Handle::current());
        // Learning computes for long, which would keep other queries from the threads of the runtime. Where that has a
        // single one, it goes on meanwhile with what this one waits for.
        let task = SpawnedTask::spawn_blocking(move || runtime.block_on(self.add(&observer)));
        task.join_unwind().await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?
    }

    async fn add(self, observer: &Watch) -> Result<()> {
        let Some(path) = self.file.path() else { return exec_err!("the rows are in no file") };
        let content = content_name(path)?;
        let store: Arc<dyn ObjectStore> = Arc::new(LocalFileSystem::new());
        let path = Path::from_absolute_path(path)?;
        for _ in 0..TRIES {
            // What others have begun meanwhile must be what the table promises.
            let opened = self.place.current().await?;
            let number = opened.as_ref().map_or(0, |opened| opened.archive.files().len());
            let name = format!("insert-{number:06}-{content}.parquet");
            let input = Input { store: store.clone(), path: path.clone(), name };
            match self.add_once(&[input], opened.as_deref(), observer).await? {
                // Another process has begun the archive, replaced it, or inserted the same rows.
                Err(ArchiveError::Exists(_) | ArchiveError::Taken(_) | ArchiveError::Replaced) => continue,
                Err(error) => return Err(external(error)),
                Ok(report) => {
                    if let Some((_, error)) = report.failed.first() {
                        return exec_err!("the rows could not be compressed: {error}");
                    }
                    // The rows are there, and must not be inserted again: whatever is wrong with reading them, the next
                    // query tells, which looks again anyway.
                    let _ = self.place.current().await;
                    return Ok(());
                }
            }
        }
        exec_err!("others change the archive all the time, and nothing was inserted; try again")
    }

    async fn add_once(
        &self,
        inputs: &[Input],
        opened: Option<&Opened>,
        observer: &Watch,
    ) -> Result<crate::archive::Result<JobReport>> {
        // Where a dictionary did not pay so far, another one is tried.
        let learns = opened.is_none_or(|opened| opened.archive.kept().is_some());
        let learning = if learns { learning_bytes(self.values) } else { 0 };
        let threads = reserved_threads(&self.reservation, learning, self.values, self.threads)?;
        let job = Job { threads, ..self.place.asked.job.clone() };
        Ok(match opened {
            Some(opened) => opened.archive.append(inputs, &job, observer).await,
            None => compress(inputs, &self.place.store, &self.place.folder, &job, observer).await,
        })
    }
}

/// Reserves memory for learning and coding, which are one after the other: for as many threads as the pool has room for.
fn reserved_threads(
    reservation: &MemoryReservation,
    learning: usize,
    values: usize,
    mut threads: usize,
) -> Result<usize> {
    loop {
        match reservation.try_resize(learning.max(coding_bytes(values, threads))) {
            Ok(()) => return Ok(threads),
            Err(_) if threads > 1 => threads -= 1,
            Err(error) => return Err(error),
        }
    }
}

/// Ends a job when nobody waits for it any more.
#[derive(Default)]
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Tells a job when to end.
struct Watch(Arc<AtomicBool>);

impl Observer for Watch {
    fn on_round(&self, _progress: &Progress) -> ControlFlow<()> {
        if self.is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl JobObserver for Watch {
    fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What tells files of different content apart.
fn content_name(path: &std::path::Path) -> Result<String> {
    let mut file = std::fs::File::open(path)?;
    let mut hasher = XxHash3_64::new();
    let mut part = vec![0; 1 << 20];
    loop {
        match file.read(&mut part)? {
            0 => return Ok(format!("{:016x}", hasher.finish())),
            count => hasher.write(&part[..count]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryConsumer, MemoryPool};

    /// Fewer blocks at the same time are better than none.
    #[test]
    fn as_many_threads_as_there_is_memory_for() {
        const MANY: usize = 1 << 30;
        let within = |bytes: usize, threads: usize| {
            let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(bytes));
            let reservation = MemoryConsumer::new("test").register(&pool);
            let found = reserved_threads(&reservation, 0, MANY, threads).ok();
            found.map(|threads| (threads, reservation.size()))
        };
        let needed = |threads: usize| coding_bytes(MANY, threads);
        assert_eq!(within(needed(8), 8), Some((8, needed(8))));
        assert_eq!(within(needed(3), 8), Some((3, needed(3))));
        assert_eq!(within(needed(1) - 1, 8), None);
    }
}
