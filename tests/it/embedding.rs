//! The functions in a plain DataFusion program.

use datafusion::arrow::array::{Array, AsArray};
use datafusion::prelude::*;
use sparrow::sql::expr_fn::{options, sparse_decode, sparse_encode, sparse_nmae, sparse_train};

use crate::support::{cell, number, query, session};

#[tokio::test]
async fn the_dataframe_api_does_what_sql_does() {
    let session = session();
    query(&session, "CREATE TABLE t AS SELECT i, [sin(i), cos(i), CAST(i % 5 AS DOUBLE)] AS v FROM (SELECT unnest(range(0, 500)) AS i)").await;
    let table = session.table("t").await.expect("the table");
    let train = sparse_train(col("v"), Some(options([("atoms", lit(10)), ("lambda", lit(0.05))])));
    let trained = table
        .clone()
        .aggregate(vec![], vec![train.alias("d")])
        .expect("a plan")
        .collect()
        .await
        .expect("a row");
    let by_sql = cell(&session, "SELECT sparse_train(v, {atoms: 10, lambda: 0.05}) FROM t").await;
    assert_eq!(trained[0].column(0).as_ref(), by_sql.as_ref());

    let dictionary =
        Expr::Literal(datafusion::scalar::ScalarValue::try_from_array(&by_sql, 0).expect("a value"), None);
    let coded = table.with_column("code", sparse_encode(col("v"), dictionary.clone(), None)).expect("a plan");
    let decoded = coded.with_column("u", sparse_decode(col("code"), dictionary)).expect("a plan");
    let error = decoded
        .aggregate(vec![], vec![sparse_nmae(col("v"), col("u"))])
        .expect("a plan")
        .collect()
        .await
        .expect("a row");
    let error = error[0].column(0).as_primitive::<datafusion::arrow::datatypes::Float64Type>().value(0);
    query(&session, "CREATE TABLE d AS SELECT sparse_train(v, {atoms: 10, lambda: 0.05}) AS d FROM t").await;
    let expected = number(
        &session,
        "SELECT sparse_nmae(v, sparse_decode(sparse_encode(v, (SELECT d FROM d)), (SELECT d FROM d))) FROM t",
    )
    .await;
    assert_eq!(error.to_bits(), expected.to_bits());
}

#[tokio::test]
async fn dictionaries_carry_their_extension_name() {
    let session = session();
    let batches = query(&session, "SELECT sparse_train(v) AS d FROM (VALUES ([1.0])) t(v)").await;
    let schema = batches[0].schema();
    assert_eq!(
        schema.field(0).metadata().get("ARROW:extension:name").map(String::as_str),
        Some("sparrow.dictionary")
    );
}

#[tokio::test]
async fn a_dictionary_per_group_joined_to_its_rows() {
    let session = session();
    query(&session, "CREATE TABLE t AS SELECT i % 3 AS g, [sin(i) + 10 * (i % 3), cos(i)] AS v FROM (SELECT unnest(range(0, 900)) AS i)").await;
    query(&session, "CREATE TABLE d AS SELECT g, sparse_train(v, {atoms: 6}) AS d FROM t GROUP BY g").await;
    let joined = "SELECT t.g, v, d, sparse_encode(v, d) AS c FROM t JOIN d USING (g)";
    let together = query(
        &session,
        &format!("SELECT g, sparse_nmae(v, sparse_decode(c, d)) FROM ({joined}) GROUP BY g ORDER BY g"),
    )
    .await;
    let together =
        datafusion::arrow::compute::concat_batches(&together[0].schema(), &together).expect("one schema");
    for g in 0..3 {
        let d = format!("(SELECT d FROM d WHERE g = {g})");
        let alone = number(
            &session,
            &format!("SELECT sparse_nmae(v, sparse_decode(sparse_encode(v, {d}), {d})) FROM t WHERE g = {g}"),
        )
        .await;
        assert_eq!(
            together.column(1).as_primitive::<datafusion::arrow::datatypes::Float64Type>().value(g),
            alone
        );
    }
    // A row without a dictionary has no code.
    let missing = "SELECT count(*) - count(sparse_encode(v, d)) FROM t LEFT JOIN (SELECT * FROM d WHERE g < 2) e ON t.g = e.g";
    assert_eq!(number(&session, missing).await, 300.0);
}

#[tokio::test]
async fn views_and_windows_and_filters_work() {
    let session = session();
    query(
        &session,
        "CREATE TABLE t AS SELECT i, [sin(i), cos(i)] AS v FROM (SELECT unnest(range(0, 200)) AS i)",
    )
    .await;
    query(&session, "CREATE VIEW d AS SELECT sparse_train(v, {atoms: 8}) FILTER (WHERE i < 100) AS d FROM t")
        .await;
    query(&session, "CREATE VIEW c AS SELECT i, sparse_encode(v, (SELECT d FROM d)) AS c FROM t").await;
    assert_eq!(number(&session, "SELECT count(c) FROM c WHERE array_length(c) >= 1").await, 200.0);
    assert_eq!(number(&session, "SELECT sparse_dictionary_info(d)['rows_seen'] FROM d").await, 100.0);
    let windowed = cell(&session, "SELECT sparse_train(v, {atoms: 8}) OVER () FROM t LIMIT 1").await;
    let plain = cell(&session, "SELECT sparse_train(v, {atoms: 8}) FROM t").await;
    assert!(windowed.is_valid(0) && windowed.as_ref() == plain.as_ref());
}
