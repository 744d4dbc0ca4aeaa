//! Dictionaries of subqueries, handed from batch to batch without a copy.
//!
//! DataFusion evaluates `(SELECT d FROM ...)` once, but then copies the bytes for every batch: as many megabytes as a
//! batch of vectors has. Structs are shared instead. So the functions ask for a struct around the dictionary, which is
//! also recognised by where it is in memory, without being hashed.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::functions::core::expr_fn::named_struct;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::simplify::ExprSimplifyResult;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, ScalarUDF, ScalarUDFImpl, Subquery, lit};
use datafusion::prelude::Column;

use super::DICTIONARY_EXTENSION;

/// The type of the dictionaries in held ones; `None` if the type is no such struct.
pub(super) fn held_type(data_type: &DataType) -> Option<&DataType> {
    match data_type {
        DataType::Struct(fields) => match &fields[..] {
            [field] if field.name() == DICTIONARY_EXTENSION => Some(field.data_type()),
            _ => None,
        },
        _ => None,
    }
}

/// For `ScalarUDFImpl::simplify`: lets the subquery at `position` give its dictionary in a struct. Others are left
/// alone: correlated ones are joins, which share bytes already.
pub(super) fn hold_dictionary<F: ScalarUDFImpl + 'static>(
    function: fn() -> F,
    mut args: Vec<Expr>,
    position: usize,
) -> Result<ExprSimplifyResult> {
    let Some(Expr::ScalarSubquery(Subquery { subquery, outer_ref_columns, spans })) = args.get(position)
    else {
        return Ok(ExprSimplifyResult::Original(args));
    };
    if !outer_ref_columns.is_empty() || subquery.schema().fields().len() != 1 {
        return Ok(ExprSimplifyResult::Original(args));
    }
    let (qualifier, field) = subquery.schema().qualified_field(0);
    if !field.data_type().is_binary() {
        return Ok(ExprSimplifyResult::Original(args));
    }
    let column = Expr::Column(Column::new(qualifier.cloned(), field.name()));
    let held = named_struct(vec![lit(DICTIONARY_EXTENSION), column]).alias(field.name());
    let plan = LogicalPlanBuilder::from(subquery.as_ref().clone()).project([held])?.build()?;
    let subquery = Subquery { subquery: Arc::new(plan), outer_ref_columns: Vec::new(), spans: spans.clone() };
    args[position] = Expr::ScalarSubquery(subquery);
    let call = ScalarFunction::new_udf(Arc::new(ScalarUDF::new_from_impl(function())), args);
    Ok(ExprSimplifyResult::Simplified(Expr::ScalarFunction(call)))
}
