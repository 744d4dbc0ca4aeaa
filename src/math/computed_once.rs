//! What is computed when it is first asked for, by work that may be shared between threads of a pool.

use std::sync::{Mutex, OnceLock, PoisonError};

/// A value that is computed once, or nearly so.
///
/// A thread of a pool that waits for others takes up other work meanwhile, and that may ask for the same value: inside
/// `OnceLock::get_or_init` it would wait for itself. So a pool's threads never wait for one another here: each computes
/// the value for itself, and the first one stays. Other threads wait for their turn and find it.
#[derive(Debug)]
pub(crate) struct ComputedOnce<T> {
    value: OnceLock<T>,
    turn: Mutex<()>,
}

impl<T> ComputedOnce<T> {
    pub const fn new() -> Self {
        Self { value: OnceLock::new(), turn: Mutex::new(()) }
    }

    /// The value; `compute` must always give the same.
    pub fn get_or_compute(&self, compute: impl FnOnce() -> T) -> &T {
        if let Some(known) = self.value.get() {
            return known;
        }
        let in_pool = rayon::current_thread_index().is_some();
        let _turn = (!in_pool).then(|| self.turn.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(known) = self.value.get() {
            return known;
        }
        let computed = compute();
        self.value.get_or_init(|| computed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn threads_that_may_wait_compute_it_once() {
        let (value, computed) = (ComputedOnce::new(), AtomicUsize::new(0));
        let ask = || {
            *value.get_or_compute(|| {
                std::thread::sleep(std::time::Duration::from_millis(20));
                computed.fetch_add(1, Ordering::Relaxed);
                7
            })
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
            assert!(threads.into_iter().all(|thread| thread.join().is_ok_and(|found| found == 7)));
        });
        assert_eq!(computed.into_inner(), 1);
    }
}
