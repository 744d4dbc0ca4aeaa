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
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::buffer::BufferExec;
use datafusion::physical_plan::execution_plan::{
    CardinalityEffect, ChildrenPropertiesMode, ReplaceChildrenOptions,
};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation,
};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

/// A [`BufferExec`] that projections do not move past: what they compute would be computed by the task that reads.
#[derive(Debug)]
pub(super) struct ReadAheadExec {
    buffer: Arc<BufferExec>,
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
            DisplayFormatType::TreeRender => write!(f, "bytes={}", self.buffer.capacity()),
            _ => write!(f, "ReadAheadExec: bytes={}", self.buffer.capacity()),
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
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let [input] = <[_; 1]>::try_from(children).map_err(|children| {
            datafusion::common::internal_datafusion_err!(
                "ReadAheadExec has one child, not {}",
                children.len()
            )
        })?;
        Ok(Arc::new(Self::new(input, self.buffer.capacity())))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.buffer.execute(partition, context)
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

    fn supports_limit_pushdown(&self) -> bool {
        self.buffer.supports_limit_pushdown()
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
}
