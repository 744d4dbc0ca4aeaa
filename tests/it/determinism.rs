//! Same rows and seed, same bytes.

use crate::support::{bytes, query, session_with};

/// A table of many small batches in several files would be, with repeated rows.
const TABLE: &str =
    "CREATE TABLE t AS SELECT i, [sin(i % 700), cos(i * 0.37), CAST(i % 11 AS DOUBLE), ln(1 + i % 97)] AS v
                     FROM (SELECT unnest(range(0, 3000)) AS i)";

#[tokio::test]
async fn training_does_not_depend_on_partitions_batches_or_row_order() {
    let mut all = Vec::new();
    for (partitions, batch_size) in [(1, 8192), (2, 1000), (8, 64), (8, 1)] {
        let session = session_with(partitions, batch_size);
        query(&session, TABLE).await;
        for (n, order) in ["i", "-i", "(i * 7919) % 3001"].iter().enumerate() {
            // A table of its own: an aggregate that ignores order makes the planner drop a sort below it.
            query(&session, &format!("CREATE TABLE t{n} AS SELECT v FROM t ORDER BY {order}")).await;
            let sql = format!("SELECT sparse_train(v, {{atoms: 12, sample: 500, seed: 3}}) FROM t{n}");
            all.push(bytes(&session, &sql).await);
        }
        let parts: Vec<String> =
            (0..partitions).map(|part| format!("SELECT v FROM t WHERE i % {partitions} = {part}")).collect();
        let sql = format!(
            "SELECT sparse_train(v, {{atoms: 12, sample: 500, seed: 3}}) FROM ({})",
            parts.join(" UNION ALL ")
        );
        all.push(bytes(&session, &sql).await);
    }
    assert!(all.iter().all(|bytes| bytes == &all[0]));
    let session = session_with(2, 1000);
    query(&session, TABLE).await;
    let other_seed =
        bytes(&session, "SELECT sparse_train(v, {atoms: 12, sample: 500, seed: 4}) FROM t").await;
    assert_ne!(other_seed, all[0]);
}

#[test]
fn training_and_coding_do_not_depend_on_threads() {
    use sparrow::math::{
        Coder, CoderOptions, LearnerOptions, PreparedDictionary, Sample, Signals, coders::Fksc, learners,
    };
    let values = sparrow::math::synthetic::syn(33, 700, 5, 8);
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
        pool.install(|| {
            let mut sample = Sample::new(600, 0);
            values.chunks_exact(33).for_each(|v| sample.offer(0, v).expect("equal lengths"));
            let options = LearnerOptions::default().with_atoms(40).expect("options");
            let learned = learners::learn(&sample, &options, &()).expect("learned").expect("not empty");
            let bytes = sparrow::columnar::dictionary_to_bytes(&learned).expect("bytes");
            let prepared = PreparedDictionary::new(learned).expect("finite");
            let signals = Signals::from_flat(&values, 33).expect("signals");
            let codes =
                Fksc.encode(&prepared, &signals, &CoderOptions::new(0.05).expect("options")).expect("codes");
            (bytes, codes.weights)
        })
    };
    let one = run(1);
    for threads in [2, 3, 8] {
        assert_eq!(run(threads), one, "{threads} threads");
    }
}

#[tokio::test]
async fn coding_decoding_and_measuring_do_not_depend_on_batches() {
    let mut all = Vec::new();
    for (partitions, batch_size) in [(1, 8192), (2, 100), (8, 3)] {
        let session = session_with(partitions, batch_size);
        query(&session, TABLE).await;
        query(&session, "CREATE TABLE d AS SELECT sparse_train(v, {atoms: 12}) AS d FROM t").await;
        let coded = "SELECT i, v, sparse_encode(v, (SELECT d FROM d)) AS c FROM t";
        let sql = format!("SELECT i, c, sparse_decode(c, (SELECT d FROM d)) AS u FROM ({coded}) ORDER BY i");
        let rows = query(&session, &sql).await;
        let rows = datafusion::arrow::compute::concat_batches(&rows[0].schema(), &rows).expect("one schema");
        let sql = format!(
            "SELECT sparse_nmae(v, u), sparse_nrmse(v, u), sparse_necr(v, u) FROM (SELECT v, sparse_decode(c, (SELECT d FROM d)) AS u FROM ({coded}))"
        );
        let measured = query(&session, &sql).await;
        all.push((rows, measured));
    }
    assert!(all.iter().all(|result| result == &all[0]));
}
