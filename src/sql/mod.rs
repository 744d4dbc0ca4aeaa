//! DataFusion functions: train, encode, decode and measure in SQL or in the DataFrame API.
//!
//! ```
//! use datafusion::prelude::SessionContext;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> datafusion::error::Result<()> {
//! let mut ctx = SessionContext::new();
//! sparrow::sql::register_all(&mut ctx)?;
//! let rows = ctx
//!     .sql("SELECT sparse_dictionary_info(sparse_train(v))['atoms'] FROM (VALUES ([1.0, 2.0]), ([3.0, 5.0])) t(v)")
//!     .await?
//!     .collect()
//!     .await?;
//! assert_eq!(rows[0].num_rows(), 1);
//! # Ok(())
//! # }
//! ```

mod aggregate;
mod archive;
mod arguments;
mod batches;
mod cache;
mod coding;
mod corrections;
mod documentation;
mod errors;
pub mod expr_fn;
mod held;
mod memory;
mod options;
mod pushdown;
mod scalar;
mod window;

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF, WindowUDF};

pub use archive::{ArchiveExec, ArchiveTable, ArchiveTableFactory, FILE_TYPE, register_archives};
pub use batches::SizedBatches;
pub use cache::dictionaries_parsed;
pub use corrections::corrected;
pub use memory::{FunctionMemory, Registry};

use crate::math::Observer;

/// The field metadata that marks a column as dictionaries.
pub const DICTIONARY_EXTENSION: &str = "sparrow.dictionary";

/// Registers all functions with a `SessionContext`, a `SessionState` or a worker's registry. What they hold beyond a batch
/// is charged to the session's memory pool.
pub fn register_all(registry: &mut dyn Registry) -> Result<()> {
    register_all_with(registry, Arc::new(()))
}

/// The same, with an observer that is told of every round of training and may cancel it.
pub fn register_all_with(registry: &mut dyn Registry, observer: Arc<dyn Observer>) -> Result<()> {
    let memory = registry.function_memory();
    for function in scalar_functions() {
        registry.register_udf(function)?;
    }
    for function in aggregate_functions(observer, &memory) {
        registry.register_udaf(function)?;
    }
    for function in window_functions(&memory) {
        registry.register_udwf(function)?;
    }
    Ok(())
}

/// Every scalar function.
pub fn scalar_functions() -> Vec<Arc<ScalarUDF>> {
    vec![
        Arc::new(scalar::Encode::new().into()),
        Arc::new(scalar::Decode::new().into()),
        Arc::new(scalar::Atoms::new().into()),
        Arc::new(scalar::DictionaryInfo::new().into()),
        Arc::new(scalar::Objective::new().into()),
        Arc::new(scalar::Residual::new().into()),
    ]
}

/// Every aggregate function.
pub fn aggregate_functions(observer: Arc<dyn Observer>, memory: &FunctionMemory) -> Vec<Arc<AggregateUDF>> {
    vec![
        Arc::new(aggregate::Train::new(Arc::clone(&observer), memory.clone()).into()),
        Arc::new(aggregate::Update::new(observer, memory.clone()).into()),
        Arc::new(aggregate::GivenDictionary::new().into()),
        Arc::new(aggregate::ErrorMetric::nrmse().into()),
        Arc::new(aggregate::ErrorMetric::nmae().into()),
        Arc::new(aggregate::ErrorMetric::necr().into()),
    ]
}

/// Every window function.
pub fn window_functions(memory: &FunctionMemory) -> Vec<Arc<WindowUDF>> {
    vec![Arc::new(window::EncodeJointly::new(memory.clone()).into())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_prefixed_and_documented() {
        let scalar =
            scalar_functions().into_iter().map(|f| (f.name().to_string(), f.documentation().is_some()));
        let aggregate = aggregate_functions(Arc::new(()), &FunctionMemory::default())
            .into_iter()
            .map(|f| (f.name().to_string(), f.documentation().is_some()));
        let window = window_functions(&FunctionMemory::default())
            .into_iter()
            .map(|f| (f.name().to_string(), f.documentation().is_some()));
        let all: Vec<_> = scalar.chain(aggregate).chain(window).collect();
        for (name, documented) in &all {
            assert!(name.starts_with("sparse_") && *documented, "{name}");
            assert_eq!(all.iter().filter(|(other, _)| other == name).count(), 1, "{name}");
        }
    }
}
