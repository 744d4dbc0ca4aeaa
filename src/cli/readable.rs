//! Results as people read them: columns are called as they were asked for, and `SHOW TABLES` shows what is there to query.

use std::ops::ControlFlow;

use datafusion::common::Result;
use datafusion::sql::parser::{DFParser, Statement};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, Select, SelectItem, SetExpr, ShowStatementOptions, Statement as SqlStatement,
    visit_expressions,
};

/// What `SHOW TABLES` means: DataFusion's own also lists the tables that describe tables.
const TABLES: &str = "SELECT table_catalog, table_schema, table_name, table_type FROM information_schema.tables
                      WHERE table_schema <> 'information_schema' ORDER BY table_catalog, table_schema, table_name";

/// The statement with columns that have readable names, or the query that it stands for.
pub(super) fn readable(mut statement: Statement) -> Result<Statement> {
    let Statement::Statement(inner) = &mut statement else { return Ok(statement) };
    match inner.as_mut() {
        SqlStatement::Query(query) => name_columns(query),
        SqlStatement::ShowTables {
            terse: false,
            history: false,
            extended: false,
            full: false,
            external: false,
            show_options:
                ShowStatementOptions {
                    show_in: None,
                    starts_with: None,
                    limit: None,
                    limit_from: None,
                    filter_position: None,
                },
        } => return Ok(DFParser::parse_sql(TABLES)?.pop_front().unwrap_or(statement)),
        _ => {}
    }
    Ok(statement)
}

/// Gives expressions without a name the one that they were written as: `avg(v[1])`, and not `avg(t.v[Int64(1)])`.
fn name_columns(query: &mut Query) {
    let is_ordered = query.order_by.is_some();
    let Some(select) = first_select(&mut query.body, is_ordered) else { return };
    // These are ordered by what they select, word for word.
    if is_ordered && select.distinct.is_some() {
        return;
    }
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) = item
            && !matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
            && !makes_columns(expr)
        {
            let alias = Ident::with_quote('"', expr.to_string());
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
    }
}

/// The select whose columns give a query's their names.
fn first_select(mut body: &mut SetExpr, is_ordered: bool) -> Option<&mut Select> {
    loop {
        match body {
            SetExpr::Select(select) => return Some(select),
            SetExpr::SetOperation { left, .. } if !is_ordered => body = left,
            _ => return None,
        }
    }
}

/// Whether an expression may be several columns.
fn makes_columns(expr: &Expr) -> bool {
    let found = visit_expressions(expr, |expr| match expr {
        Expr::Function(function) if function.name.to_string().eq_ignore_ascii_case("unnest") => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readable_text(sql: &str) -> String {
        let statement = DFParser::parse_sql(sql).expect("SQL").pop_front().expect("a statement");
        readable(statement).expect("a statement").to_string()
    }

    #[test]
    fn expressions_are_named_as_they_are_written() {
        assert_eq!(
            readable_text("SELECT avg(v[1]), a, b AS c FROM t"),
            "SELECT avg(v[1]) AS \"avg(v[1])\", a, b AS c FROM t"
        );
        assert_eq!(readable_text("SELECT 1 UNION SELECT 2"), "SELECT 1 AS \"1\" UNION SELECT 2");
    }

    #[test]
    fn what_may_be_several_columns_or_is_ordered_by_keeps_its_name() {
        for kept in [
            "SELECT * FROM t",
            "SELECT unnest(v) + 1 FROM t",
            "SELECT DISTINCT abs(a) FROM t ORDER BY abs(a)",
            "SELECT 1 UNION SELECT 2 ORDER BY 1",
            "EXPLAIN SELECT 1",
        ] {
            assert_eq!(readable_text(kept), kept);
        }
    }

    #[test]
    fn tables_that_describe_tables_are_left_out_unless_asked_for() {
        assert!(readable_text("SHOW TABLES").contains("<> 'information_schema'"));
        assert_eq!(readable_text("SHOW FULL TABLES"), "SHOW FULL TABLES");
    }
}
