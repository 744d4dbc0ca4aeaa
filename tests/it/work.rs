//! Work that must be done once, and memory that must be bounded.

use std::sync::Arc;

use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use sparrow::sql::dictionaries_parsed;

use crate::support::{bytes, number, project, query, run_alone, session, session_with, try_query};

#[test]
fn a_dictionary_is_parsed_once_per_query() {
    run_alone("work::parse_counts");
}

#[tokio::test]
#[ignore = "run by a_dictionary_is_parsed_once_per_query in a process of its own"]
async fn parse_counts() {
    let session = session_with(2, 8192);
    query(&session, "CREATE TABLE t AS SELECT i, [CAST(i % 100 AS DOUBLE), CAST(i % 7 AS DOUBLE)] AS v FROM (SELECT unnest(range(0, 1000000)) AS i)").await;
    query(&session, "CREATE TABLE d AS SELECT sparse_train(v, {atoms: 4}) AS d FROM t").await;
    let count = "SELECT count(c) FROM";
    // A scalar subquery.
    assert_eq!(
        number(&session, &format!("{count} (SELECT sparse_encode(v, (SELECT d FROM d)) AS c FROM t)")).await,
        1e6
    );
    assert_eq!(dictionaries_parsed(), 1);
    // The same dictionary broadcast by a join, as BinaryView and dictionary-encoded.
    assert_eq!(
        number(&session, &format!("{count} (SELECT sparse_encode(v, d) AS c FROM t CROSS JOIN d)")).await,
        1e6
    );
    let encoded = "arrow_cast(d, 'Dictionary(Int32, BinaryView)')";
    assert_eq!(
        number(&session, &format!("{count} (SELECT sparse_encode(v, {encoded}) AS c FROM t CROSS JOIN d)"))
            .await,
        1e6
    );
    assert_eq!(
        number(
            &session,
            &format!("{count} (SELECT sparse_decode(sparse_encode(v, d), d) AS c FROM t CROSS JOIN d)")
        )
        .await,
        1e6
    );
    assert_eq!(dictionaries_parsed(), 1);
    // Another dictionary is another parse.
    query(&session, "CREATE TABLE e AS SELECT sparse_train(v, {atoms: 5}) AS d FROM t").await;
    assert_eq!(
        number(&session, &format!("{count} (SELECT sparse_encode(v, (SELECT d FROM e)) AS c FROM t)")).await,
        1e6
    );
    assert_eq!(dictionaries_parsed(), 2);
}

/// A session whose functions may hold so many bytes.
fn limited(bytes: usize, partitions: usize) -> SessionContext {
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(GreedyMemoryPool::new(bytes)));
    let runtime = Arc::new(runtime.build().expect("a runtime"));
    let mut session =
        SessionContext::new_with_config_rt(SessionConfig::new().with_target_partitions(partitions), runtime);
    sparrow::sql::register_all(&mut session).expect("functions register");
    session
}

#[tokio::test]
async fn the_sample_is_bounded_and_charged_to_the_memory_pool() {
    let table = "(SELECT [sin(i), cos(i), CAST(i AS DOUBLE), 1.0, 2.0, 3.0, 4.0, 5.0] AS v FROM (SELECT unnest(range(0, 200000)) AS i))";
    // 200,000 rows of 8 doubles are 12.8 MB; a sample of 1000 fits into far less.
    let session = limited(4 << 20, 1);
    let rows = number(&session, &format!("SELECT sparse_dictionary_info(sparse_train(v, {{sample: 1000, atoms: 8, max_iter: 2}}))['rows_sampled'] FROM {table}")).await;
    assert_eq!(rows, 1000.0);
    let error =
        try_query(&session, &format!("SELECT sparse_train(v, {{sample: 100000, atoms: 8}}) FROM {table}"))
            .await;
    let error = error.expect_err("does not fit").strip_backtrace();
    assert!(error.contains("Resources exhausted"), "{error}");
}

/// Every partition has a sample, and one of them learns.
#[tokio::test]
async fn learning_is_charged_once_however_many_partitions_there_are() {
    let part = |k: usize| {
        format!(
            "SELECT [sin(i), cos(i), CAST(i AS DOUBLE)] AS v FROM (SELECT unnest(range({k}000, {k}999)) AS i)"
        )
    };
    let table = (0..4).map(part).collect::<Vec<_>>().join(" UNION ALL ");
    let sql = format!("SELECT sparse_train(v, {{sample: 1000, atoms: 600, max_iter: 1}}) FROM ({table})");
    // Three matrices of 600 x 600 doubles are 8.6 MB.
    let session = limited(12 << 20, 4);
    bytes(&session, &sql).await;
    assert_eq!(session.runtime_env().memory_pool.reserved(), 0);
    let error = try_query(&limited(6 << 20, 4), &sql).await.expect_err("does not fit").strip_backtrace();
    assert!(error.contains("Resources exhausted") && error.contains("sparse_train"), "{error}");
}

#[tokio::test]
async fn rows_that_are_coded_together_are_charged_to_the_memory_pool() {
    let rows = "SELECT [sin(i), cos(i)] AS v FROM (SELECT unnest(range(0, 2000)) AS i)";
    let sql = format!(
        "SELECT count(c) FROM (SELECT sparse_encode_jointly(v, d, {{tolerance: 0.1}}) OVER () AS c FROM ({rows}) \
         CROSS JOIN (SELECT sparse_dictionary(v, {{sigma: 1.0}}) AS d FROM ({rows} LIMIT 50)))"
    );
    // Four numbers for 2000 rows and 50 atoms are 3.2 MB.
    let session = limited(8 << 20, 1);
    assert_eq!(number(&session, &sql).await, 2000.0);
    assert_eq!(session.runtime_env().memory_pool.reserved(), 0);
    let error = try_query(&limited(2 << 20, 1), &sql).await.expect_err("does not fit").strip_backtrace();
    assert!(error.contains("Resources exhausted") && error.contains("sparse_encode_jointly"), "{error}");
}

/// What a target is met in is what plain columns take.
#[tokio::test]
async fn bytes_of_a_target_are_those_that_copy_writes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let session = session();
    let source = project("sample-data/traffic.parquet").display().to_string();
    query(
        &session,
        &format!("CREATE TABLE d AS SELECT sparse_train(v, {{target_nmae: 0.03}}) AS d FROM '{source}'"),
    )
    .await;
    for (name, sql) in [
        ("d", "SELECT d FROM d".to_string()),
        ("codes", format!("SELECT sparse_encode(v, (SELECT d FROM d)) AS code FROM '{source}'")),
        (
            "compact",
            format!("SELECT sparse_encode(v, (SELECT d FROM d), {{compact: true}}) AS code FROM '{source}'"),
        ),
        ("values", format!("SELECT v FROM '{source}'")),
    ] {
        query(&session, &format!("COPY ({sql}) TO '{}' STORED AS PARQUET", path(&format!("{name}.parquet"))))
            .await;
    }
    let size = |name: &str| std::fs::metadata(path(&format!("{name}.parquet"))).expect("a file").len() as f64;
    let info = |field: &str| format!("SELECT sparse_dictionary_info(d)['{field}'] FROM d");
    let codes = number(&session, &info("codes_bytes")).await;
    let values = number(&session, &info("values_bytes")).await;
    let (real_codes, real_values) = (size("codes") + size("d"), size("values"));
    assert!((codes / real_codes - 1.0).abs() < 0.15, "{codes} foretold, {real_codes} written");
    assert!((values / real_values - 1.0).abs() < 0.3, "{values} foretold, {real_values} written");
    assert!(size("compact") < 0.75 * size("codes"), "{} against {}", size("compact"), size("codes"));
}
