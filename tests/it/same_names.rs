//! Tables whose columns have the same names: what filters leave out is what the query says, whatever is pushed down.

use std::sync::Arc;

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::common::JoinType;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::{LogicalPlanBuilder, col};
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::prelude::{Column, SessionConfig, SessionContext};

use crate::commands::{Folder, run, sql};
use crate::support::query;

/// Tables that share the names of their columns, each row in a row group of its own, so that what is pushed down to the
/// wrong one leaves rows out.
const TABLES: [(&str, &str); 9] = [
    ("x", "SELECT * FROM (VALUES (1, 10, 'a'), (2, 20, 'b')) t(id, k, v)"),
    ("y", "SELECT * FROM (VALUES (1, 11, 'c'), (9, 91, 'd')) t(id, k, v)"),
    ("z", "SELECT * FROM (VALUES (9, 10, 'e'), (1, 12, 'f'), (2, 91, 'g')) t(id, k, v)"),
    ("w", "SELECT * FROM (VALUES (50, 1), (-60, 2), (70, 3)) t(id, k)"),
    ("ta", "SELECT 'a1' AS id, 'x1' AS ty"),
    ("tb", "SELECT 'x1' AS id"),
    ("orders", "SELECT * FROM (VALUES (1, 100), (2, 200), (3, 300), (4, 400)) t(id, amount)"),
    ("payments", "SELECT * FROM (VALUES (1, 30), (2, 20), (3, 10)) t(id, amount)"),
    ("customers", "SELECT * FROM (VALUES (1), (2), (3)) t(id)"),
];

async fn with_tables(folder: &Folder, session: SessionContext) -> SessionContext {
    for (name, rows) in TABLES {
        let path = folder.path(&format!("{name}.parquet"));
        if !std::path::Path::new(&path).exists() {
            let copy = format!("COPY ({rows}) TO '{path}' OPTIONS ('format.max_row_group_size' '1')");
            query(&session, &copy).await;
        }
        query(&session, &format!("CREATE EXTERNAL TABLE {name} STORED AS PARQUET LOCATION '{path}'")).await;
    }
    session
}

/// A session that pushes down all that it can, and filters rows with it.
async fn eager(folder: &Folder, is_reordered: bool) -> SessionContext {
    let state = sparrow::sql::corrected(uncorrected(is_reordered)).build();
    with_tables(folder, SessionContext::new_with_state(state)).await
}

/// The same as DataFusion has it.
fn uncorrected(is_reordered: bool) -> SessionStateBuilder {
    let mut config = SessionConfig::new().with_target_partitions(2);
    let options = config.options_mut();
    options.execution.parquet.pushdown_filters = true;
    options.optimizer.enable_dynamic_filter_pushdown = true;
    options.optimizer.enable_join_dynamic_filter_pushdown = true;
    options.optimizer.enable_topk_dynamic_filter_pushdown = true;
    options.optimizer.join_reordering = is_reordered;
    SessionStateBuilder::new().with_config(config).with_default_features()
}

/// A session that pushes nothing down.
async fn patient(folder: &Folder) -> SessionContext {
    let mut rules = PhysicalOptimizer::new().rules;
    rules.retain(|rule| !rule.name().starts_with("FilterPushdown"));
    let mut config = SessionConfig::new().with_target_partitions(1);
    config.options_mut().optimizer.join_reordering = false;
    config.options_mut().optimizer.enable_dynamic_filter_pushdown = false;
    let state = SessionStateBuilder::new().with_config(config).with_default_features();
    let state = state.with_physical_optimizer_rules(rules).build();
    with_tables(folder, SessionContext::new_with_state(state)).await
}

/// The rows of a query in an order of their own.
async fn rows(session: &SessionContext, sql: &str) -> Vec<String> {
    let text = pretty_format_batches(&query(session, sql).await).expect("a table").to_string();
    let lines = text.lines().filter(|line| line.starts_with('|')).skip(1);
    let mut lines: Vec<String> =
        lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    lines.sort();
    lines
}

/// Queries and their rows. Among them are those of DataFusion's issues #25262, #25263, #25264 and #25296.
const CASES: [(&str, &[&str]); 9] = [
    ("SELECT x.id FROM x RIGHT JOIN y ON x.id = y.id WHERE coalesce(x.id, -1) > 0", &["| 1 |"]),
    (
        "SELECT a.id, b.id FROM x a RIGHT JOIN (SELECT * FROM y UNION ALL SELECT * FROM z) b ON a.id = b.id
         WHERE coalesce(a.id, -1) < 2 AND b.id > 0",
        &["| 1 | 1 |", "| 1 | 1 |", "| | 9 |", "| | 9 |"],
    ),
    (
        "SELECT s.id AS sid, a.id AS aid, b.id AS bid FROM tb s
         JOIN (SELECT a.id, b.id FROM ta a LEFT JOIN tb b ON a.ty = b.id WHERE coalesce(a.ty, '') <> '') ON s.id = b.id",
        &["| x1 | a1 | x1 |"],
    ),
    (
        "SELECT s.id, a.id, b.id, tag FROM ta s
         JOIN (SELECT a.id, b.id, a.ty || '!' AS tag FROM ta a JOIN tb b ON a.ty = b.id) ON s.id = a.id",
        &["| a1 | a1 | x1 | x1! |"],
    ),
    (
        "SELECT s.id, a.id, b.id FROM tb s
         JOIN (SELECT a.id, b.id FROM ta a LEFT JOIN tb b ON a.ty = b.id GROUP BY a.id, b.id) ON s.id = b.id",
        &["| x1 | a1 | x1 |"],
    ),
    (
        "SELECT o.amount, p.amount FROM orders o JOIN payments p ON o.id = p.id JOIN customers c ON p.id = c.id
         ORDER BY p.amount LIMIT 1",
        &["| 300 | 10 |"],
    ),
    // The same table twice.
    (
        "SELECT a.amount, b.amount FROM payments a JOIN payments b ON a.id = b.id + 1 JOIN customers c ON b.id = c.id
         ORDER BY b.amount DESC LIMIT 1",
        &["| 20 | 30 |"],
    ),
    // Of a semi join both sides have the name, and it is the key of one of them.
    (
        "SELECT x.id, x.k FROM x WHERE EXISTS (SELECT 1 FROM w WHERE w.k = x.id AND w.id <> x.k) ORDER BY x.id DESC LIMIT 1",
        &["| 2 | 20 |"],
    ),
    (
        "SELECT id, k FROM (SELECT id, k FROM x UNION ALL SELECT k AS id, id AS k FROM y) ORDER BY id DESC LIMIT 2",
        &["| 11 | 1 |", "| 91 | 9 |"],
    ),
];

#[tokio::test]
async fn filters_are_of_the_columns_that_a_query_names() {
    let folder = Folder::new();
    let patient = patient(&folder).await;
    for (sql, expected) in CASES {
        assert_eq!(rows(&patient, sql).await, expected, "nothing pushed down: {sql}");
    }
    for is_reordered in [true, false] {
        let eager = eager(&folder, is_reordered).await;
        for (sql, expected) in CASES {
            assert_eq!(rows(&eager, sql).await, expected, "reordered {is_reordered}: {sql}");
        }
    }
}

/// Should a later DataFusion need no corrections, they are to be removed.
#[tokio::test]
async fn datafusion_alone_gives_wrong_rows() {
    let folder = Folder::new();
    let mut wrong = Vec::new();
    for is_reordered in [true, false] {
        let session = SessionContext::new_with_state(uncorrected(is_reordered).build());
        let session = with_tables(&folder, session).await;
        for (number, (sql, expected)) in CASES.iter().enumerate() {
            if rows(&session, sql).await != *expected {
                wrong.push((is_reordered, number));
            }
        }
    }
    println!("wrong: {wrong:?}");
    assert!(!wrong.is_empty());
}

/// SQL cannot name the second of two columns of one name; the DataFrame API can (DataFusion #25244).
#[tokio::test]
async fn keys_of_joins_are_those_that_a_plan_names() {
    let folder = Folder::new();
    for is_reordered in [true, false] {
        let session = eager(&folder, is_reordered).await;
        let scan = async |name: &str| session.table(name).await.expect("a table").into_unoptimized_plan();
        let of = |relation: &str, name: &str| Column::new(Some(relation), name);
        let inner = LogicalPlanBuilder::from(scan("ta").await)
            .join(scan("tb").await, JoinType::Inner, (vec![of("ta", "ty")], vec![of("tb", "id")]), None)
            .and_then(|plan| plan.project([col("ta.id"), col("tb.id")]))
            .and_then(LogicalPlanBuilder::build)
            .expect("a plan");
        let outer = LogicalPlanBuilder::from(scan("tb").await)
            .alias("s")
            .and_then(|plan| {
                plan.join(inner, JoinType::Inner, (vec![of("s", "id")], vec![of("tb", "id")]), None)
            })
            .and_then(LogicalPlanBuilder::build)
            .expect("a plan");
        let found = session.execute_logical_plan(outer).await.expect("a plan").count().await;
        assert_eq!(found.expect("rows"), 1, "reordered {is_reordered}");
    }
}

/// Joins of every kind, filtered above and within, ordered and cut off.
#[tokio::test]
async fn joins_of_every_kind_give_what_they_give_without_pushdown() {
    let folder = Folder::new();
    let patient = patient(&folder).await;
    let eager = [eager(&folder, true).await, eager(&folder, false).await];
    let mut compared = 0;
    for join in ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"] {
        for second in ["JOIN", "LEFT JOIN", "RIGHT JOIN"] {
            for condition in [
                "coalesce(a.id, -1) > 0",
                "coalesce(b.id, 5) < 9",
                "coalesce(a.id, 0) + coalesce(b.id, 0) > 2",
                "coalesce(b.k, 0) <> coalesce(c.k, 1)",
            ] {
                for order in ["", "ORDER BY b.v, a.v, c.v LIMIT 1", "ORDER BY c.k DESC, b.id, a.id LIMIT 2"] {
                    let sql = format!(
                        "SELECT a.id, b.id, c.id, a.v, b.v, c.v FROM x a {join} y b ON a.id = b.id {second} z c ON b.id = c.id
                         WHERE {condition} {order}"
                    );
                    let expected = rows(&patient, &sql).await;
                    for session in &eager {
                        assert_eq!(rows(session, &sql).await, expected, "{sql}");
                    }
                    compared += usize::from(!expected.is_empty());
                }
            }
        }
    }
    assert!(compared > 100, "{compared} of the queries have rows");
}

/// Where names are not in doubt, scans leave out what they can, in the middle of a query, too.
#[tokio::test]
async fn filters_that_are_not_in_doubt_reach_the_scans() {
    let folder = Folder::new();
    let session = eager(&folder, true).await;
    for (sql, expected) in [
        ("SELECT id, k FROM z WHERE id > 1 AND k < 50", "predicate=id@0 > 1 AND k@1 < 50"),
        ("SELECT id, k FROM z ORDER BY k LIMIT 1", "predicate=DynamicFilter"),
        // `id` is in both tables, and each filter is of one of them.
        ("SELECT x.k, y.k FROM x JOIN y ON x.id = y.id ORDER BY y.k LIMIT 1", "predicate=DynamicFilter"),
        ("SELECT k, n FROM (SELECT k, count(*) AS n FROM z GROUP BY k) WHERE k > 11", "predicate=k@1 > 11"),
    ] {
        let batches = query(&session, &format!("EXPLAIN {sql}")).await;
        let plan = pretty_format_batches(&batches).expect("a table").to_string();
        assert!(plan.contains(expected), "{sql}: {plan}");
    }
}

#[test]
fn the_command_gives_no_wrong_rows() {
    let folder = Folder::new();
    let paths = ["x", "y"].map(|name| {
        let path = folder.path(&format!("{name}.parquet"));
        let (_, rows) = TABLES.iter().find(|(known, _)| *known == name).expect("one of them");
        assert!(run(&["sql", "-c", &format!("COPY ({rows}) TO '{path}'")]).status.success());
        path
    });
    let [x, y] = paths;
    let found = sql(&format!(
        "SELECT a.id FROM '{x}' a RIGHT JOIN '{y}' b ON a.id = b.id WHERE coalesce(a.id, -1) > 0"
    ));
    assert_eq!(found, serde_json::json!([{"id": 1}]));
}

/// Whoever corrects a session twice, or has rules of their own, keeps them.
#[test]
fn a_session_is_corrected_once_and_keeps_its_rules() {
    let builder = SessionStateBuilder::new().with_default_features();
    let builder = builder.with_physical_optimizer_rule(Arc::new(sparrow::sql::SizedBatches));
    let state = sparrow::sql::corrected(sparrow::sql::corrected(builder)).build();
    let names: Vec<&str> = state.physical_optimizers().iter().map(|rule| rule.name()).collect();
    assert_eq!(names.len(), PhysicalOptimizer::new().rules.len() + 1, "{names:?}");
    assert!(!names.iter().any(|name| name.starts_with("FilterPushdown")), "{names:?}");
    assert_eq!(names.last(), Some(&"sparrow_sized_batches"));
}
