//! Filters that are pushed down to the columns they are of.
//!
//! DataFusion 55 looks a filter's columns up by name in the input of each operator that the filter passes, and takes the
//! first one. Where two columns have one name, as after `a JOIN b ON a.id = b.id`, a filter of the second one becomes one
//! of the first, and leaves out rows that belong to the result. It is mended in apache/datafusion#25259, which no release
//! of version 55 contains. Until then a filter stops above an operator below which its columns have other names or places.

use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{JoinSide, JoinType, Result, internal_err};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::filter_pushdown::{
    ChildFilterPushdownResult, ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation,
    PushedDown, PushedDownPredicate,
};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::joins::utils::build_join_schema;
use datafusion::physical_plan::projection::ProjectionExec;

/// DataFusion's filter pushdown, which stops where a filter would come to be of other columns.
#[derive(Debug)]
pub(super) struct PlacedFilters {
    pub phase: FilterPushdownPhase,
}

impl PhysicalOptimizerRule for PlacedFilters {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let pushed = push_down(&plan, Vec::new(), config, self.phase)?;
        Ok(pushed.updated_node.unwrap_or(plan))
    }

    fn name(&self) -> &str {
        match self.phase {
            FilterPushdownPhase::Pre => "sparrow_placed_filters",
            FilterPushdownPhase::Post => "sparrow_placed_filters_post",
        }
    }

    fn schema_check(&self) -> bool {
        true
    }
}

type Filter = Arc<dyn PhysicalExpr>;

/// Offers filters to an operator, and what it lets through, with its own, to those below; tells which are taken care of.
fn push_down(
    node: &Arc<dyn ExecutionPlan>,
    filters: Vec<Filter>,
    config: &ConfigOptions,
    phase: FilterPushdownPhase,
) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
    // Numbers that are drawn anew for each row are drawn where the query says.
    let movable: Vec<usize> = (0..filters.len()).filter(|filter| !is_volatile(&filters[*filter])).collect();
    let offered = movable.iter().map(|filter| filters[*filter].clone()).collect();
    let described = node.gather_filters_for_pushdown(phase, offered, config)?;
    let (from_above, own) = (described.parent_filters(), described.self_filters());
    let children = node.children();
    if from_above.len() != children.len() || own.len() != children.len() {
        return internal_err!("{} tells of filters for another number of inputs", node.name());
    }
    let mut taken = vec![vec![PushedDown::No; children.len()]; filters.len()];
    let (mut own_taken, mut new_children) = (Vec::new(), Vec::new());
    for (number, ((child, from_above), own)) in children.into_iter().zip(from_above).zip(own).enumerate() {
        if from_above.len() != movable.len() {
            return internal_err!("{} loses filters on their way down", node.name());
        }
        let own_passed: Vec<usize> = (0..own.len())
            .filter(|i| !is_volatile(&own[*i]) && is_placed_in(child, &own[*i], phase))
            .collect();
        let passes = |i: &usize| {
            let PushedDownPredicate { discriminant, predicate } = &from_above[*i];
            matches!(discriminant, PushedDown::Yes)
                && is_of_the_same(node, number, &filters[movable[*i]])
                && is_placed_in(child, predicate, phase)
        };
        let passed: Vec<usize> = (0..movable.len()).filter(passes).collect();
        let all = own_passed.iter().map(|i| own[*i].clone());
        let all: Vec<Filter> = all.chain(passed.iter().map(|i| from_above[*i].predicate.clone())).collect();
        let count = all.len();
        let result = push_down(child, all, config, phase)?;
        if result.filters.len() != count {
            return internal_err!("{} tells of another number of filters than it was given", child.name());
        }
        new_children.push(result.updated_node.unwrap_or_else(|| child.clone()));
        let (of_own, of_above) = result.filters.split_at(own_passed.len());
        let mut own: Vec<PushedDownPredicate> =
            own.into_iter().map(PushedDownPredicate::unsupported).collect();
        for (i, told) in own_passed.iter().zip(of_own) {
            own[*i].discriminant = *told;
        }
        own_taken.push(own);
        for (i, told) in passed.iter().zip(of_above) {
            taken[movable[*i]][number] = *told;
        }
    }
    let updated = replace_children_if_necessary(node.clone(), new_children)?;
    let parent_filters = filters.into_iter().zip(taken);
    let parent_filters = parent_filters
        .map(|(filter, child_results)| ChildFilterPushdownResult { filter, child_results })
        .collect();
    let result = ChildPushdownResult { parent_filters, self_filters: own_taken };
    let mut told = updated.handle_child_pushdown_result(phase, result, config)?;
    if told.updated_node.is_none() && !Arc::ptr_eq(&updated, node) {
        told.updated_node = Some(updated);
    }
    Ok(told)
}

/// Whether a filter on what an operator gives is, looked up by name, of the same columns of an input.
fn is_of_the_same(node: &Arc<dyn ExecutionPlan>, child: usize, filter: &Filter) -> bool {
    let columns = collect_columns(filter);
    if node.downcast_ref::<ProjectionExec>().is_some() {
        // It knows its expressions by place, and finds them by the name that it gives them.
        let schema = node.schema();
        return columns.iter().all(|column| is_alone(&schema, column));
    }
    let children = node.children();
    let Some(below) = children.get(child).map(|child| child.schema()) else { return false };
    columns.iter().all(|column| {
        let found = below.index_of(column.name()).ok();
        found.is_some() && found == place_below(node, child, column)
    })
}

/// Whether an operator finds the columns of a filter, which it may look up by name itself.
fn is_placed_in(node: &Arc<dyn ExecutionPlan>, filter: &Filter, phase: FilterPushdownPhase) -> bool {
    let columns = collect_columns(filter);
    if node.children().is_empty() {
        let schema = node.schema();
        return columns.iter().all(|column| is_alone(&schema, column));
    }
    match node.downcast_ref::<FilterExec>() {
        // What nothing below takes becomes part of its own filter.
        Some(own) if own.projection().is_some() && phase == FilterPushdownPhase::Pre => {
            is_of_the_same(node, 0, filter)
        }
        _ => true,
    }
}

/// Whether no other column has this one's name.
fn is_alone(schema: &Schema, column: &Column) -> bool {
    let mut named = schema.fields().iter().enumerate().filter(|(_, field)| field.name() == column.name());
    named.next().is_some_and(|(place, _)| place == column.index()) && named.next().is_none()
}

/// Where an input has a column of what an operator gives, if it is a column there.
fn place_below(node: &Arc<dyn ExecutionPlan>, child: usize, column: &Column) -> Option<usize> {
    if let Some(filter) = node.downcast_ref::<FilterExec>() {
        return match filter.projection() {
            Some(projection) => projection.get(column.index()).copied(),
            None => Some(column.index()),
        };
    }
    if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        let (grouped, _) = aggregate.group_expr().expr().get(column.index())?;
        return grouped.downcast_ref::<Column>().map(Column::index);
    }
    if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        return place_in_join(join, child, column);
    }
    // All others that let filters through give the columns of their inputs.
    Some(column.index())
}

/// Where an input of a join has one of its columns. Of a semi join the other input has equal keys.
fn place_in_join(join: &HashJoinExec, child: usize, column: &Column) -> Option<usize> {
    let (left, right) = (join.left().schema(), join.right().schema());
    let (_, origins) = build_join_schema(&left, &right, join.join_type());
    let place = match &join.projection {
        Some(projection) => *projection.get(column.index())?,
        None => column.index(),
    };
    let origin = origins.get(place)?;
    let side = if child == 0 { JoinSide::Left } else { JoinSide::Right };
    if origin.side == side {
        return Some(origin.index);
    }
    let place_of = |key: &Filter| key.downcast_ref::<Column>().map(Column::index);
    let mut keys = join.on().iter().map(|(left, right)| (place_of(left), place_of(right)));
    match join.join_type() {
        JoinType::LeftSemi => keys.find(|(left, _)| *left == Some(origin.index))?.1,
        JoinType::RightSemi => keys.find(|(_, right)| *right == Some(origin.index))?.0,
        _ => None,
    }
}
