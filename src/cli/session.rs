//! The session that commands run in.

use std::sync::Arc;

use anyhow::Context;
use datafusion::execution::config::SessionConfig;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::SessionContext;

use super::file_bytes::FileBytes;
use super::file_tables::with_file_tables;
use super::progress::TrainingProgress;
use super::stores::Stores;
use crate::sql::{SizedBatches, corrected, register_all_with, register_archives};

/// Rows of a batch, unless the environment says otherwise. Vectors are long: DataFusion's 8192 of them fall out of the
/// caches between reading and coding, and take much memory.
const BATCH_ROWS: usize = 2048;

/// Rows of a row group that is written, unless the environment says otherwise. A writer holds a whole one, and DataFusion's
/// million vectors are more than a machine may have memory for.
const ROW_GROUP_ROWS: usize = 65_536;

/// A session with all functions, files as tables, and `SHOW FUNCTIONS`.
pub(super) fn session(
    threads: Option<usize>,
    progress: Arc<TrainingProgress>,
) -> anyhow::Result<SessionContext> {
    let mut config = SessionConfig::from_env()?.with_information_schema(true);
    let is_set = |name: &str| std::env::var_os(name).is_some();
    if !is_set("DATAFUSION_EXECUTION_BATCH_SIZE") {
        config = config.with_batch_size(BATCH_ROWS);
    }
    if !is_set("DATAFUSION_EXECUTION_PARQUET_MAX_ROW_GROUP_SIZE") {
        config.options_mut().execution.parquet.max_row_group_size = ROW_GROUP_ROWS;
    }
    if let Some(threads) = threads {
        config = config.with_target_partitions(threads);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build_global();
        pool.context("cannot set the number of threads")?;
    }
    let runtime =
        RuntimeEnvBuilder::new().with_object_store_registry(Arc::new(Stores::default())).build_arc()?;
    let state =
        SessionStateBuilder::new().with_config(config).with_runtime_env(runtime).with_default_features();
    let mut state = corrected(state);
    if !is_set("DATAFUSION_EXECUTION_BATCH_SIZE") {
        state = state.with_physical_optimizer_rule(Arc::new(SizedBatches));
    }
    let mut session = with_file_tables(SessionContext::new_with_state(state.build()));
    register_all_with(&mut session, progress)?;
    register_archives(&session);
    session.register_udf(FileBytes::new().into());
    Ok(session)
}
