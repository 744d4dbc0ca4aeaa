//! Scans of vectors that are coded: batches of fewer rows where vectors are long, and reading while they are coded.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, stats::Precision};
use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;

use super::read_ahead::ReadAheadExec;
use super::scalar::{Decode, Encode, Objective, Residual};

/// Bytes of a batch, at most about. Reading a list column, Parquet's reader moves what it has of a batch with every page,
/// usually a megabyte: 16 times for the 16 MB of 2048 vectors of 1000. Smaller batches also stay in the caches between
/// reading and coding.
const BATCH_BYTES: usize = 2 << 20;
/// Rows below which work on a batch is not worth its overhead.
const FEWEST_ROWS: usize = 256;
/// Bytes that are read ahead, in every partition: one batch waits while another is read.
const BYTES_AHEAD: usize = 2 * BATCH_BYTES;

/// A list of physical optimizer rules.
type Rules = Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>;

/// Adds a rule to those of a session (`PhysicalOptimizer::new().rules`, for `with_physical_optimizer_rules`) that lets
/// Parquet files be read while vectors are coded, and, if they are to be `sized`, in smaller batches where these are long.
pub fn with_vector_scans(mut rules: Rules, sized: bool) -> Rules {
    // Before what a projection computes is moved into the scan.
    let place = rules.iter().position(|rule| rule.name() == "ProjectionPushdown").unwrap_or(0);
    rules.insert(place, Arc::new(VectorScans { sized }));
    rules
}

#[derive(Debug)]
struct VectorScans {
    sized: bool,
}

impl PhysicalOptimizerRule for VectorScans {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            if let Some(smaller) = sized(&node, config).filter(|_| self.sized) {
                return Ok(Transformed::yes(smaller));
            }
            let Some(projection) = node.downcast_ref::<ProjectionExec>() else {
                return Ok(Transformed::no(node));
            };
            let input = projection.input();
            let filtered = input.downcast_ref::<FilterExec>().map_or(input, FilterExec::input);
            if parquet_scan(filtered).is_none() || !codes(projection)? {
                return Ok(Transformed::no(node));
            }
            let ahead = Arc::new(ReadAheadExec::new(input.clone(), BYTES_AHEAD));
            Ok(Transformed::yes(replace_children_if_necessary(node, vec![ahead])?))
        })
        .data()
    }

    fn name(&self) -> &str {
        "sparrow_vector_scans"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn parquet_scan(node: &Arc<dyn ExecutionPlan>) -> Option<&FileScanConfig> {
    let source = node.downcast_ref::<DataSourceExec>()?;
    source.downcast_to_file_source::<ParquetSource>().map(|(scan, _)| scan)
}

/// Whether a projection codes or decodes vectors, which takes longer than reading them.
fn codes(projection: &ProjectionExec) -> Result<bool> {
    let is_coding = |part: &Arc<dyn PhysicalExpr>| {
        let part = part.as_ref();
        Ok(ScalarFunctionExpr::try_downcast_func::<Encode>(part).is_some()
            || ScalarFunctionExpr::try_downcast_func::<Decode>(part).is_some()
            || ScalarFunctionExpr::try_downcast_func::<Residual>(part).is_some()
            || ScalarFunctionExpr::try_downcast_func::<Objective>(part).is_some())
    };
    for computed in projection.expr() {
        if computed.expr.exists(is_coding)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The same scan with smaller batches, where they would be too large.
fn sized(node: &Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Option<Arc<dyn ExecutionPlan>> {
    let scan = parquet_scan(node)?;
    let most = scan.batch_size.unwrap_or(config.execution.batch_size.get());
    let rows = batch_rows(scan);
    (rows < most).then(|| {
        let sized = FileScanConfigBuilder::from(scan.clone()).with_batch_size(Some(rows)).build();
        DataSourceExec::from_data_source(sized) as Arc<dyn ExecutionPlan>
    })
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
