//! The memory that functions take beyond a batch, charged to the pool of the session that runs them.

use std::fmt::{Debug, Formatter};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::execution::registry::MemoryFunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::prelude::SessionContext;

/// Where functions can be registered: a session, its state, or a registry of functions alone.
pub trait Registry: FunctionRegistry {
    /// The memory that functions registered here take.
    fn function_memory(&self) -> FunctionMemory {
        FunctionMemory::default()
    }
}

impl Registry for SessionContext {
    fn function_memory(&self) -> FunctionMemory {
        // Statements may give a session another pool.
        let state = self.state_weak_ref();
        FunctionMemory::from_pool(move || {
            let state = state.upgrade()?;
            let pool = Arc::clone(&state.read().runtime_env().memory_pool);
            Some(pool)
        })
    }
}

impl Registry for SessionState {
    fn function_memory(&self) -> FunctionMemory {
        let pool = Arc::clone(&self.runtime_env().memory_pool);
        FunctionMemory::from_pool(move || Some(Arc::clone(&pool)))
    }
}

impl Registry for MemoryFunctionRegistry {}

type FindPool = dyn Fn() -> Option<Arc<dyn MemoryPool>> + Send + Sync;

/// Finds the memory pool that functions are charged to, if one is known. It does not change a result, so all are equal.
#[derive(Clone, Default)]
pub struct FunctionMemory(Option<Arc<FindPool>>);

impl FunctionMemory {
    /// Asks for the pool every time it is needed.
    pub fn from_pool(find: impl Fn() -> Option<Arc<dyn MemoryPool>> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(find)))
    }

    fn pool(&self) -> Option<Arc<dyn MemoryPool>> {
        self.0.as_ref().and_then(|find| find())
    }

    /// Whether there is a pool to charge.
    pub(super) fn is_known(&self) -> bool {
        self.pool().is_some()
    }

    /// Charges a function for so many bytes until the reservation is dropped; an error where they are too many.
    pub(super) fn reserve(&self, function: &str, bytes: usize) -> Result<Option<MemoryReservation>> {
        let Some(pool) = self.pool() else { return Ok(None) };
        let reservation = MemoryConsumer::new(function).register(&pool);
        reservation.try_grow(bytes)?;
        Ok(Some(reservation))
    }
}

impl Debug for FunctionMemory {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("FunctionMemory")
    }
}

impl PartialEq for FunctionMemory {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for FunctionMemory {}

impl Hash for FunctionMemory {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}
