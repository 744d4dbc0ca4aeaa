//! Scans of long vectors: batches of fewer rows, and reading while they are coded.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, stats::Precision};
use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::projection::ProjectionExec;

use super::read_ahead::ReadAheadExec;
use super::scalar_functions;

/// Bytes of a batch, at most about. Reading a list column, Parquet's reader moves what it has of a batch with every page,
/// usually a megabyte: 16 times for the 16 MB of 2048 vectors of 1000. Smaller batches also stay in the caches between
/// reading and coding.
const BATCH_BYTES: usize = 2 << 20;
/// Rows below which work on a batch is not worth its overhead.
const FEWEST_ROWS: usize = 256;
/// Batches that are read ahead, in every partition.
const BATCHES_AHEAD: usize = 2;

/// Lets Parquet files be read in batches of a size that suits their rows, and while earlier ones are coded. See
/// [`physical_optimizer_rules`] for its place among DataFusion's rules.
#[derive(Debug, Default)]
pub struct VectorScans;

/// DataFusion's rules with [`VectorScans`] among them, for `SessionStateBuilder`'s `with_physical_optimizer_rules`: before
/// the one that moves what a projection computes into the scan.
pub fn physical_optimizer_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = PhysicalOptimizer::new().rules;
    let place = rules.iter().position(|rule| rule.name() == "ProjectionPushdown").unwrap_or(rules.len());
    rules.insert(place, Arc::new(VectorScans));
    rules
}

impl PhysicalOptimizerRule for VectorScans {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let functions = scalar_functions();
        let ours = |expression: &Arc<dyn PhysicalExpr>| {
            let function = expression.downcast_ref::<ScalarFunctionExpr>();
            function.is_some_and(|called| functions.iter().any(|function| function.name() == called.name()))
        };
        plan.transform_up(|node| {
            if let Some(sized) = sized(&node, config) {
                return Ok(Transformed::yes(sized));
            }
            let Some(projection) = node.downcast_ref::<ProjectionExec>() else {
                return Ok(Transformed::no(node));
            };
            let input = projection.input();
            if parquet_scan(input).is_none() || !computes(projection, &ours)? {
                return Ok(Transformed::no(node));
            }
            let ahead = ReadAheadExec::new(input.clone(), BATCHES_AHEAD * BATCH_BYTES);
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            Ok(Transformed::yes(node.replace_children(vec![Arc::new(ahead)], options)?))
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

/// Whether something that a projection computes is of a kind.
fn computes(projection: &ProjectionExec, kind: &dyn Fn(&Arc<dyn PhysicalExpr>) -> bool) -> Result<bool> {
    let mut found = false;
    for expression in projection.expr() {
        expression.expr.apply(|part| {
            found |= kind(part);
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
    }
    Ok(found)
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
