//! Work on the threads that compute.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{ArchiveError, Result};

/// Does work, which `what` names, on one of the pool's threads. Those are few and stay, so that what one block has left in memory serves the
/// next; threads for blocking calls are many, and each would have its own.
pub(super) async fn compute<T: Send + 'static>(
    what: &'static str,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    rayon::spawn(move || {
        // Nobody waits for it where a job has ended.
        if !sender.is_closed() {
            // A panic here would end the process.
            let _ = sender.send(catch_unwind(AssertUnwindSafe(work)));
        }
    });
    let panic: Box<dyn Any + Send> = match receiver.await {
        Ok(Ok(done)) => return done,
        Ok(Err(panic)) => panic,
        Err(closed) => Box::new(closed.to_string()),
    };
    Err(panicked(what, panic.as_ref()))
}

/// Does work, which `what` names, where it is: a panic is an error.
#[cfg(feature = "sql")]
pub(crate) fn caught<T>(what: &'static str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(panicked(what, panic.as_ref())))
}

/// The error that a panic becomes.
fn panicked(what: &str, panic: &(dyn Any + Send)) -> ArchiveError {
    ArchiveError::Io(std::io::Error::other(format!("{what} has panicked: {}", panic_text(panic))))
}

/// What a panic says.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| text.to_string());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_becomes_an_error_that_tells_it() {
        let failed = compute("dividing", || -> Result<()> { panic!("by {}", 0) }).await;
        assert!(failed.is_err_and(|error| error.to_string().contains("dividing has panicked: by 0")));
        assert!(compute("adding", || Ok(1 + 1)).await.is_ok_and(|sum| sum == 2));
    }
}
