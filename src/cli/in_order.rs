//! `INSERT INTO ... SELECT` of one table, whose rows keep their order.
//!
//! DataFusion reads a table in several places at the same time, and rows come as they are read. Rows of an archive stay as
//! they are inserted, and their neighbours matter. So these are read one after the other; what an archive makes of them is
//! still done by many threads.

use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::dml::{DmlStatement, WriteOp};
use datafusion::physical_plan::{SendableRecordBatchStream, execute_stream};
use datafusion::prelude::SessionContext;

/// Whether a plan inserts the rows of a table, or of some of them, as they come.
pub(super) fn inserts_a_table(plan: &LogicalPlan) -> Result<bool> {
    let LogicalPlan::Dml(DmlStatement { op: WriteOp::Insert(_), input, .. }) = plan else { return Ok(false) };
    let mut keeps_order = true;
    input.apply(|node| {
        keeps_order &= matches!(
            node,
            LogicalPlan::Projection(_)
                | LogicalPlan::Filter(_)
                | LogicalPlan::SubqueryAlias(_)
                | LogicalPlan::TableScan(_)
                | LogicalPlan::Limit(_)
                | LogicalPlan::Unnest(_)
        );
        Ok(if keeps_order { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(keeps_order)
}

/// Runs a plan whose tables are read from their beginning to their end.
pub(super) async fn run(session: &SessionContext, plan: &LogicalPlan) -> Result<SendableRecordBatchStream> {
    let mut state = session.state();
    let config = state.config().clone().with_target_partitions(1);
    *state.config_mut() = config;
    let physical = state.create_physical_plan(plan).await?;
    // With the session's own settings, which say how many threads code.
    execute_stream(physical, session.task_ctx())
}
