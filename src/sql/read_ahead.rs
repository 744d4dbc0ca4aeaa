//! Reading while vectors are coded.
//!
//! DataFusion computes expressions within the scan, so that reading waits while vectors are coded, and all cores but one
//! wait while the last partition is read. Here a task of its own reads the next batches.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Statistics;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::buffer::BufferExec;
use datafusion::physical_plan::execution_plan::{
    CardinalityEffect, ChildrenPropertiesMode, ReplaceChildrenOptions,
};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation,
};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::sort_pushdown::SortOrderPushdownResult;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::TryStreamExt;

/// A [`BufferExec`] that projections do not move past, since what they compute would be computed by the task that reads,
/// and that begins when it is first asked for rows: until then a join may learn which of them it needs.
#[derive(Debug)]
pub(super) struct ReadAheadExec {
    buffer: Arc<dyn ExecutionPlan>,
}

impl ReadAheadExec {
    /// Reads so many bytes ahead, in every partition.
    pub fn new(input: Arc<dyn ExecutionPlan>, bytes: usize) -> Self {
        Self { buffer: Arc::new(BufferExec::new(input, bytes)) }
    }
}

impl DisplayAs for ReadAheadExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match format {
            DisplayFormatType::TreeRender => Ok(()),
            _ => write!(f, "ReadAheadExec"),
        }
    }
}

impl ExecutionPlan for ReadAheadExec {
    fn name(&self) -> &'static str {
        "ReadAheadExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.buffer.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.buffer.maintains_input_order()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        self.buffer.benefits_from_input_partitioning()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.buffer.children()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.buffer.apply_expressions(f)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self { buffer: Arc::clone(&self.buffer).replace_children(children, options)? }))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let buffer = Arc::clone(&self.buffer);
        let rows = futures::stream::once(async move { buffer.execute(partition, context) }).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.buffer.metrics()
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        self.buffer.child_stats_requests(partition)
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        self.buffer.statistics_from_inputs(inputs, args)
    }

    /// Rows are neither added nor left out, so that a limit holds below as well.
    fn supports_limit_pushdown(&self) -> bool {
        true
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        self.buffer.cardinality_effect()
    }

    fn gather_filters_for_pushdown(
        &self,
        phase: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        self.buffer.gather_filters_for_pushdown(phase, parent_filters, config)
    }

    fn handle_child_pushdown_result(
        &self,
        phase: FilterPushdownPhase,
        child_pushdown_result: ChildPushdownResult,
        config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        self.buffer.handle_child_pushdown_result(phase, child_pushdown_result, config)
    }

    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
    ) -> Result<SortOrderPushdownResult<Arc<dyn ExecutionPlan>>> {
        let sorted = self.buffer.try_pushdown_sort(order)?;
        sorted.try_map(|buffer| Ok(Arc::new(Self { buffer }) as Arc<dyn ExecutionPlan>))
    }
}
