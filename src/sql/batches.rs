//! Batches of long vectors have fewer rows.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, stats::Precision};
use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

/// Bytes of a batch, at most about. Reading a list column, Parquet's reader moves what it has of a batch with every page,
/// usually a megabyte: 16 times for the 16 MB of 2048 vectors of 1000. Smaller batches also stay in the caches between
/// reading and coding.
const BATCH_BYTES: usize = 2 << 20;
/// Rows below which work on a batch is not worth its overhead.
const FEWEST_ROWS: usize = 256;

/// Lets Parquet files be read in batches of a size that suits their rows. For `SessionStateBuilder`'s
/// `with_physical_optimizer_rule`; never makes batches larger.
#[derive(Debug, Default)]
pub struct SizedBatches;

impl PhysicalOptimizerRule for SizedBatches {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let resize = |node: Arc<dyn ExecutionPlan>| {
            let source = node.downcast_ref::<DataSourceExec>();
            let Some((scan, _)) = source.and_then(|source| source.downcast_to_file_source::<ParquetSource>())
            else {
                return Ok(Transformed::no(node));
            };
            let most = scan.batch_size.unwrap_or(config.execution.batch_size.get());
            let rows = batch_rows(scan);
            if rows >= most {
                return Ok(Transformed::no(node));
            }
            let sized = FileScanConfigBuilder::from(scan.clone()).with_batch_size(Some(rows)).build();
            Ok(Transformed::yes(DataSourceExec::from_data_source(sized) as Arc<dyn ExecutionPlan>))
        };
        plan.transform_up(resize).data()
    }

    fn name(&self) -> &str {
        "sparrow_sized_batches"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// As many rows as fit into a batch by the size of the files, a power of two; any number where nothing is known.
fn batch_rows(scan: &FileScanConfig) -> usize {
    let (Precision::Exact(rows) | Precision::Inexact(rows)) = scan.statistics().num_rows else {
        return usize::MAX;
    };
    // A file that is read in parts is listed with every part.
    let files = scan.file_groups.iter().flat_map(|group| group.iter());
    let bytes: u64 = files
        .map(|file| {
            file.range
                .as_ref()
                .map_or(file.object_meta.size, |range| range.end.saturating_sub(range.start) as u64)
        })
        .sum();
    let fitting = (BATCH_BYTES as u64).saturating_mul(rows as u64) / bytes.max(1);
    let fitting = usize::try_from(fitting).unwrap_or(usize::MAX).max(FEWEST_ROWS);
    1 << fitting.ilog2()
}
