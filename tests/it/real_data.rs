//! What the papers' data must show. Skipped where the tables are not beside the project.

use crate::support::{number, query, session, shared_data};

/// Paper 1's Table 2 on PlanetLab: slices 1-3 learn, slice 4 is coded, 490 atoms.
#[tokio::test]
async fn planetlab_table_2() {
    let Some(file) = shared_data("planetlab_rtt_490.parquet") else { return };
    let session = session();
    query(&session, &format!("CREATE TABLE t AS SELECT slice, array_scale(v, 1.0 / m) AS v FROM '{file}', (SELECT max(array_max(v)) AS m FROM '{file}') WHERE slice <= 4")).await;
    query(&session, "CREATE TABLE d AS SELECT sparse_train(v, {atoms: 490}) AS d FROM t WHERE slice <= 3")
        .await;
    for (lambda, ratio, nmae) in
        [(0.14, 49.2, 0.034), (0.22, 60.4, 0.035), (0.27, 68.2, 0.035), (0.36, 81.5, 0.036)]
    {
        let coded = format!(
            "(SELECT v, sparse_encode(v, (SELECT d FROM d), {{lambda: {lambda}}}) AS c FROM t WHERE slice = 4)"
        );
        let found = number(
            &session,
            &format!("SELECT sum(array_length(v)) / (2.0 * sum(array_length(c))) FROM {coded}"),
        )
        .await;
        assert!(found >= ratio, "lambda {lambda}: ratio {found}");
        let error = number(
            &session,
            &format!("SELECT sparse_nmae(v, sparse_decode(c, (SELECT d FROM d))) FROM {coded}"),
        )
        .await;
        assert!(error <= nmae, "lambda {lambda}: NMAE {error}");
        let gap = number(&session, &format!("SELECT max(sparse_objective(v, c, (SELECT d FROM d), {{lambda: {lambda}}})['gap']) FROM {coded}")).await;
        assert!(gap <= 1e-6, "lambda {lambda}: gap {gap}");
        println!(
            "PlanetLab, lambda {lambda}: ratio by count {found:.1}, NMAE {error:.4}, worst gap {gap:.1e}"
        );
    }
}

/// 64 atoms learned on the first 1000 rows, judged on all.
#[tokio::test]
async fn metr_la_week() {
    let Some(file) = shared_data("metr_la_week1_207.parquet") else { return };
    let session = session();
    query(
        &session,
        &format!("CREATE TABLE d AS SELECT sparse_train(v, {{atoms: 64}}) AS d FROM '{file}' WHERE t < 1000"),
    )
    .await;
    let coded = format!("(SELECT v, sparse_encode(v, (SELECT d FROM d)) AS c FROM '{file}')");
    let nonzeros = number(&session, &format!("SELECT avg(array_length(c)) FROM {coded}")).await;
    let error =
        number(&session, &format!("SELECT sparse_nmae(v, sparse_decode(c, (SELECT d FROM d))) FROM {coded}"))
            .await;
    assert!(nonzeros <= 6.0 && error <= 0.052, "{nonzeros} nonzeros a row, NMAE {error}");
    println!("METR-LA: {nonzeros:.2} nonzeros a row, NMAE {error:.4}");
}

/// Table 1: the objectives of both coders agree on real data too.
#[tokio::test]
async fn fksc_and_ksc_agree() {
    for (name, scale, rows) in
        [("metr_la_week1_207.parquet", 1.0, 200), ("planetlab_rtt_490.parquet", 0.001, 60)]
    {
        let Some(file) = shared_data(name) else { return };
        let session = session();
        query(
            &session,
            &format!("CREATE TABLE t AS SELECT array_scale(v, {scale}) AS v FROM '{file}' LIMIT 600"),
        )
        .await;
        query(&session, "CREATE TABLE d AS SELECT sparse_train(v, {atoms: 64}) AS d FROM t").await;
        let objective = |coder: &str| {
            format!(
                "SELECT sum(sparse_objective(v, sparse_encode(v, (SELECT d FROM d), {{coder: '{coder}', lambda: 0.01}}), (SELECT d FROM d), {{lambda: 0.01}})['objective']) FROM (SELECT v FROM t LIMIT {rows})"
            )
        };
        let (fast, plain) =
            (number(&session, &objective("fksc")).await, number(&session, &objective("ksc")).await);
        assert!((fast - plain).abs() <= 1e-6 * plain, "{name}: {fast} against {plain}");
        println!("{name}: objective of fksc {fast}, of ksc {plain}");
    }
}
