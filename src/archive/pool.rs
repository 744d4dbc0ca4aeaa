//! Work on the threads that compute.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{ArchiveError, Result};

/// Does work on one of the pool's threads. Those are few and stay, so that what one block has left in memory serves the
/// next; threads for blocking calls are many, and each would have its own.
pub(super) async fn compute<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    rayon::spawn(move || {
        // A panic here would end the process.
        let done = catch_unwind(AssertUnwindSafe(work));
        // Nobody waits for it where a job has ended.
        let _ = sender.send(done);
    });
    match receiver.await {
        Ok(Ok(done)) => done,
        Ok(Err(_)) | Err(_) => Err(ArchiveError::Io(std::io::Error::other("coding a block has panicked"))),
    }
}
