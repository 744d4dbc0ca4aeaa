//! Archives as tables: what queries answer from footers, what they decode, and how embedders get at them.

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::{Float64Type, Int64Type};
use datafusion::prelude::SessionContext;

use crate::commands::{Folder, ok, run, sql};

/// What `EXPLAIN ANALYZE` says of a query, on one line.
fn explained(query: &str) -> String {
    let output = run(&["sql", "--format", "csv", "-c", &format!("EXPLAIN ANALYZE {query}")]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).replace('\n', " ")
}

/// A number that it names.
fn metric(explained: &str, name: &str) -> f64 {
    let value = explained.split(&format!("{name}=")).nth(1).unwrap_or_else(|| panic!("{name}: {explained}"));
    let text: String = value.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    let thousands = value[text.len()..].trim_start().starts_with('K');
    text.parse::<f64>().unwrap_or_else(|_| panic!("{name}: {explained}"))
        * if thousands { 1000.0 } else { 1.0 }
}

/// Footers leave NaN out and the sign of zeros open: what they say is not taken for the answer.
#[test]
fn extremes_are_those_of_the_rows() {
    let folder = Folder::new();
    let (table, archive) = (folder.path("t.parquet"), folder.path("archive"));
    let rows = "SELECT i, CASE WHEN i = 7 THEN 'NaN'::DOUBLE ELSE (i % 10)::DOUBLE END AS x, i % 3 AS k, [sin(i), cos(i), sin(i / 3.0)] AS v
                FROM (SELECT value AS i FROM generate_series(0, 1999)) ORDER BY i";
    assert!(run(&["sql", "-c", &format!("COPY ({rows}) TO '{table}'")]).status.success());
    ok(&["compress", &table, "-o", &archive, "--max-error", "0.01"]);
    let one = |expression: &str| sql(&format!("SELECT {expression} AS r FROM '{archive}/'"))[0]["r"].clone();
    assert_eq!(one("isnan(max(x))"), true);
    // 1 / 0 is positive, 1 / -0 would not be.
    assert_eq!(one("1.0 / min(x) > 0"), true);
    assert_eq!(one("max(k)"), 2);
    assert_eq!(one("count(x)"), 2000);
    let plan = run(&["sql", "-c", &format!("EXPLAIN SELECT max(k), count(*) FROM '{archive}/'")]);
    assert!(!String::from_utf8_lossy(&plan.stdout).contains("ArchiveExec"), "{plan:?}");
}

/// Writers leave out the extremes of a row group with long values: those of the others are not the table's.
#[test]
fn extremes_that_are_missing_are_looked_for() {
    let folder = Folder::new();
    let archive = folder.path("archive");
    // Two row groups; the second one's `name` has no extremes, as pyarrow writes values of 4 KB and more.
    let table = format!("{}/tests/fixtures/long_value.parquet", env!("CARGO_MANIFEST_DIR"));
    let report = ok(&["compress", &table, "-o", &archive, "--lossless"]);
    assert_eq!(report["stored_as_they_were"], serde_json::json!(["long_value.parquet"]));
    let one = |expression: &str| sql(&format!("SELECT {expression} AS r FROM '{archive}/'"))[0]["r"].clone();
    assert_eq!(one("length(max(name))"), 5000);
    assert_eq!(one("min(name)"), "a");
}

#[test]
fn rows_without_columns_are_counted() {
    let folder = Folder::new();
    let (table, archive) = (folder.path("t.parquet"), folder.path("archive"));
    let rows =
        "SELECT i, [sin(i), cos(i)] AS v FROM (SELECT value AS i FROM generate_series(1, 40000)) ORDER BY i";
    assert!(run(&["sql", "-c", &format!("COPY ({rows}) TO '{table}'")]).status.success());
    ok(&["compress", &table, "-o", &archive, "--max-error", "0.01"]);
    let counted = sql(&format!("SELECT sum(one) AS r FROM (SELECT 1 AS one FROM '{archive}/')"));
    assert_eq!(counted[0]["r"], 40_000);
}

#[test]
fn a_limit_ends_decoding() {
    let folder = Folder::new();
    let (table, archive) = (folder.path("t.parquet"), folder.path("archive"));
    let made = ["generate", "traffic", "--sensors", "200", "--days", "60", "-o", &table];
    assert!(run(&made).status.success());
    ok(&["compress", &table, "-o", &archive, "--max-error", "1"]);
    let all = explained(&format!("SELECT v FROM '{archive}/'"));
    let some = explained(&format!("SELECT v FROM '{archive}/' LIMIT 5"));
    let none = explained(&format!("SELECT max(time) FROM '{archive}/' WHERE time > '2024-01-02'"));
    assert_eq!(metric(&all, "rows_decoded").round(), 17_280.0, "{all}");
    assert!(metric(&some, "rows_decoded") <= 5300.0 && some.contains("row_groups=1 of"), "{some}");
    assert_eq!(metric(&none, "rows_decoded"), 0.0, "{none}");
}

/// Each batch is charged for its own rows alone: a sort in little memory would fail otherwise, or write to disk.
#[test]
fn batches_are_not_charged_for_their_row_group() {
    let folder = Folder::new();
    let (table, archive) = (folder.path("t.parquet"), folder.path("archive"));
    let made = ["generate", "traffic", "--sensors", "20", "--days", "60", "--layout", "long", "-o", &table];
    assert!(run(&made).status.success());
    ok(&["compress", &table, "-o", &archive, "--long", "time,sensor,value", "--max-error", "1"]);
    let sorted = format!(
        "SET datafusion.runtime.memory_limit = '256M'; EXPLAIN ANALYZE SELECT time, value FROM '{archive}/' ORDER BY value"
    );
    let output = run(&["sql", "-c", &sorted]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("spill_count=0"), "{text}");
}

/// Views of strings let go of the bytes of other rows.
#[test]
fn long_strings_are_not_charged_for_their_row_group() {
    let folder = Folder::new();
    let (table, archive) = (folder.path("t.parquet"), folder.path("archive"));
    let rows = "SELECT i, arrow_cast(concat('a name that is too long to be kept in a view, number ', i), 'Utf8View') AS name, [sin(i), cos(i)] AS v
                FROM (SELECT value AS i FROM generate_series(1, 400000)) ORDER BY i";
    assert!(run(&["sql", "-c", &format!("COPY ({rows}) TO '{table}'")]).status.success());
    ok(&["compress", &table, "-o", &archive, "--max-error", "0.01"]);
    let sorted = format!(
        "SET datafusion.runtime.memory_limit = '256M'; EXPLAIN ANALYZE SELECT name FROM '{archive}/' ORDER BY name DESC"
    );
    let output = run(&["sql", "-c", &sorted]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("spill_count=0"), "{text}");
    let same = format!(
        "SELECT count(*) AS n FROM (SELECT i, name FROM '{archive}/' EXCEPT SELECT i, name FROM '{table}')"
    );
    assert_eq!(sql(&same)[0]["n"], 0);
}

#[tokio::test]
async fn a_session_of_another_program_reads_and_writes_archives() {
    let folder = Folder::new();
    let place = folder.path("archive");
    let mut session = SessionContext::new();
    sparrow::sql::register_all(&mut session).expect("functions");
    sparrow::sql::register_archives(&session);
    let run = async |statement: String| {
        session.sql(&statement).await.expect("a plan").collect().await.expect("rows")
    };
    let columns = "(i BIGINT, v DOUBLE[])";
    run(format!(
        "CREATE EXTERNAL TABLE a {columns} STORED AS SPARROW LOCATION '{place}' OPTIONS ('max_error' '0.01')"
    ))
    .await;
    run("INSERT INTO a SELECT value, [sin(value / 9.0), cos(value / 7.0)] FROM generate_series(1, 3000)"
        .into())
    .await;
    run(format!("CREATE EXTERNAL TABLE b STORED AS SPARROW LOCATION '{place}'")).await;
    let found = run("SELECT count(*), max(abs(v[1] - sin(i / 9.0))) FROM b".into()).await;
    assert_eq!(found[0].column(0).as_primitive::<Int64Type>().value(0), 3000);
    assert!(found[0].column(1).as_primitive::<Float64Type>().value(0) <= 0.01);
}

/// Rows of many series in the order of time: windows are those of each series all the same.
#[test]
fn windows_of_series_whose_rows_are_mixed() {
    let folder = Folder::new();
    let table = |name: &str, order: &str| {
        let path = folder.path(name);
        let rows = format!(
            "SELECT t, s, round(20 + s + 5 * sin(t / 30.0 + s) + 0.1 * sin(t * s), 2) AS x
             FROM (SELECT value AS t FROM generate_series(0, 1999)) CROSS JOIN (SELECT value AS s FROM generate_series(1, 8))
             ORDER BY {order}"
        );
        assert!(run(&["sql", "-c", &format!("COPY ({rows}) TO '{path}'")]).status.success());
        path
    };
    let signals = |name: &str, table: &str| {
        let archive = folder.path(name);
        ok(&["compress", table, "-o", &archive, "--long", "t,s,x", "--window", "50", "--max-error", "0.05"]);
        ok(&["verify", &archive, "--against", table]);
        let worst = sql(&format!(
            "SELECT max(abs(a.x - b.x)) <= 0.05 AND count(*) = 16000 AS holds FROM '{archive}/' a JOIN '{table}' b ON a.t = b.t AND a.s = b.s"
        ));
        assert_eq!(worst[0]["holds"], true, "{name}");
        // A code is where its signal begins.
        let codes = sql(&format!("SELECT count(_code) AS n FROM '{archive}/{name}.parquet'"));
        codes[0]["n"].clone()
    };
    let by_series = table("one.parquet", "s, t");
    let by_time = table("two.parquet", "t, s");
    assert_eq!(signals("one", &by_series), 8 * 40);
    assert_eq!(signals("two", &by_time), 8 * 40);
}

/// What the rest of a query has found while it runs leaves row groups out before they are decoded.
#[test]
fn filters_that_become_known_leave_row_groups_out() {
    let folder = Folder::new();
    let archive = folder.path("archive");
    std::fs::create_dir(folder.path("in")).expect("a folder");
    for file in 0..8 {
        let rows = format!(
            "SELECT i, i % 7 AS k, [sin(i / 9.0), cos(i / 7.0), sin(i / 3.0)] AS v
             FROM (SELECT value AS i FROM generate_series({}, {})) ORDER BY i",
            file * 500,
            file * 500 + 499
        );
        let table = folder.path(&format!("in/{file}.parquet"));
        assert!(run(&["sql", "-c", &format!("COPY ({rows}) TO '{table}'")]).status.success());
    }
    ok(&["compress", &folder.path("in"), "-o", &archive, "--max-error", "0.01"]);
    let original = folder.path("in");
    // What is known of one aggregate says nothing of another.
    for aggregates in ["min(i) AS a, round(max(v[1])) AS b", "min(i) AS a, max(i * 2) AS b"] {
        for table in [&archive, &original] {
            let found = sql(&format!(
                "SET datafusion.execution.target_partitions = 2; SELECT {aggregates} FROM '{table}/'"
            ));
            let expected = if aggregates.contains("v[1]") { 1 } else { 7998 };
            assert_eq!(
                (&found[0]["a"], found[0]["b"].as_f64()),
                (&0.into(), Some(f64::from(expected))),
                "{table}"
            );
        }
    }
    let recursive = format!(
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT r.n + 1 FROM r CROSS JOIN (SELECT min(i) AS m FROM '{archive}/') q
         WHERE r.n < 4 AND m IS NOT NULL) SELECT count(*) AS n FROM r"
    );
    assert_eq!(sql(&recursive)[0]["n"], 4);
    for (query, most_decoded) in [
        ("SELECT i, round(v[1]) AS x FROM {t} ORDER BY i LIMIT 3", 2 * 500),
        // DataFusion's filter gathers rows to whole batches, so that these are too few to know anything early.
        ("SELECT i, k, round(v[1]) AS x FROM {t} WHERE k = 3 ORDER BY i LIMIT 3", 8 * 500),
        ("SELECT i, round(v[2]) AS x FROM {t} JOIN (VALUES (700), (710)) w(j) ON i = j ORDER BY i", 500),
        // Values are decoded to know them.
        ("SELECT i FROM {t} ORDER BY round(v[1]), i LIMIT 3", 8 * 500),
    ] {
        let found = sql(&query.replace("{t}", &format!("'{archive}/'")));
        assert_eq!(found, sql(&query.replace("{t}", &format!("'{original}/'"))), "{query}");
        // One after the other: what is known early is known to the next.
        let query = query.replace("{t}", &format!("'{archive}/'"));
        let query = format!("SET datafusion.execution.target_partitions = 1; EXPLAIN ANALYZE {query}");
        let plan = String::from_utf8_lossy(&run(&["sql", "--format", "csv", "-c", &query]).stdout)
            .replace('\n', " ");
        assert!(metric(&plan, "rows_decoded") <= f64::from(most_decoded), "{query}: {plan}");
    }
}

/// An archive is not begun anywhere else than it was asked for, nor with columns that nothing can be made of.
#[test]
fn tables_that_cannot_be_are_refused_when_they_are_created() {
    let folder = Folder::new();
    for (columns, location, expected) in [
        ("time TIMESTAMP, v DOUBLE[]", "archive[1]", "pattern"),
        ("time TIMESTAMP, name VARCHAR", "archive", "column"),
    ] {
        let location = folder.path(location);
        let statement =
            format!("CREATE EXTERNAL TABLE t ({columns}) STORED AS SPARROW LOCATION '{location}'");
        let output = run(&["sql", "-c", &statement]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains(expected), "{told}");
    }
    let input = folder.traffic("a.parquet", "list", 1);
    let archive = folder.path("archive[1]");
    ok(&["compress", &input, "-o", &archive, "--max-error", "1"]);
    let url = format!("file://{}", archive.replace('[', "%5B").replace(']', "%5D"));
    let counted = format!(
        "CREATE EXTERNAL TABLE t STORED AS SPARROW LOCATION '{url}'; SELECT count(v) AS n FROM t WHERE time IS NOT NULL"
    );
    assert_eq!(sql(&counted)[0]["n"], 576);
    let other =
        format!("CREATE EXTERNAL TABLE t STORED AS SPARROW LOCATION '{url}' OPTIONS ('max_error' '2')");
    let output = run(&["sql", "-c", &other]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("promises max_error 1") && told.contains("to max_error 2"), "{told}");
}
