//! Work that must be done once, and memory that must be bounded.

use std::sync::Arc;

use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use sparrow::sql::dictionaries_parsed;

use crate::support::{number, query, run_alone, session_with, try_query};

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

#[tokio::test]
async fn the_sample_is_bounded_and_charged_to_the_memory_pool() {
    let limited = |bytes: usize| {
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(GreedyMemoryPool::new(bytes)));
        let runtime = Arc::new(runtime.build().expect("a runtime"));
        let mut session =
            SessionContext::new_with_config_rt(SessionConfig::new().with_target_partitions(1), runtime);
        sparrow::sql::register_all(&mut session).expect("functions register");
        session
    };
    let table = "(SELECT [sin(i), cos(i), CAST(i AS DOUBLE), 1.0, 2.0, 3.0, 4.0, 5.0] AS v FROM (SELECT unnest(range(0, 200000)) AS i))";
    // 200,000 rows of 8 doubles are 12.8 MB; a sample of 1000 fits into far less.
    let session = limited(4 << 20);
    let rows = number(&session, &format!("SELECT sparse_dictionary_info(sparse_train(v, {{sample: 1000, atoms: 8, max_iter: 2}}))['rows_sampled'] FROM {table}")).await;
    assert_eq!(rows, 1000.0);
    let error =
        try_query(&session, &format!("SELECT sparse_train(v, {{sample: 100000, atoms: 8}}) FROM {table}"))
            .await;
    let error = error.expect_err("does not fit").strip_backtrace();
    assert!(error.contains("Resources exhausted"), "{error}");
}
