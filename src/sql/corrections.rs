//! What is wrong in DataFusion 55, and is corrected in the sessions that run queries.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter_pushdown::FilterPushdownPhase;
use datafusion::prelude::SessionConfig;

use super::pushdown::PlacedFilters;

/// Corrects what gives wrong rows in DataFusion 55, in the command as in sessions of other programs: filters that joins,
/// `WHERE` and `ORDER BY ... LIMIT` push down to another column of the same name, filters of one aggregate that leave out
/// the rows of another, and `count(DISTINCT ...)` of constants. All other queries are planned as before.
///
/// ```
/// use datafusion::execution::session_state::SessionStateBuilder;
/// use datafusion::prelude::SessionContext;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> datafusion::error::Result<()> {
/// let state = sparrow::sql::corrected(SessionStateBuilder::new().with_default_features()).build();
/// let session = SessionContext::new_with_state(state);
/// session.sql("CREATE TABLE x AS VALUES (1), (2)").await?.collect().await?;
/// session.sql("CREATE TABLE y AS VALUES (1), (9)").await?.collect().await?;
/// let query = "SELECT x.column1 FROM x RIGHT JOIN y ON x.column1 = y.column1 WHERE coalesce(x.column1, -1) > 0";
/// assert_eq!(session.sql(query).await?.count().await?, 1);
/// # Ok(())
/// # }
/// ```
pub fn corrected(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let config = builder.config().get_or_insert_with(SessionConfig::new);
    // What one aggregate has found leaves out rows that another needs: max(2 * x) beside min(x) is wrong.
    config.options_mut().optimizer.enable_aggregate_dynamic_filter_pushdown = false;
    let mut rules = builder.physical_optimizers().take().unwrap_or_default().rules;
    for rule in &mut rules {
        match rule.name() {
            "FilterPushdown" => *rule = Arc::new(PlacedFilters { phase: FilterPushdownPhase::Pre }),
            "FilterPushdown(Post)" => *rule = Arc::new(PlacedFilters { phase: FilterPushdownPhase::Post }),
            "aggregate_statistics" => *rule = Arc::new(SoundStatistics(rule.clone())),
            _ => {}
        }
    }
    builder.with_physical_optimizer_rules(rules)
}

/// DataFusion's answers from statistics, except where distinct values are counted: it takes a constant for one value, also
/// where that is NULL, or where there are no rows.
#[derive(Debug)]
struct SoundStatistics(Arc<dyn PhysicalOptimizerRule + Send + Sync>);

impl PhysicalOptimizerRule for SoundStatistics {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut counts_distinct = false;
        plan.apply(|node| {
            let aggregate = node.downcast_ref::<AggregateExec>();
            counts_distinct |=
                aggregate.is_some_and(|node| node.aggr_expr().iter().any(|each| each.is_distinct()));
            Ok(if counts_distinct { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        if counts_distinct { Ok(plan) } else { self.0.optimize(plan, config) }
    }

    fn name(&self) -> &str {
        "sparrow_sound_statistics"
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}
