//! Reading while vectors are coded: where plans have it, and that it changes no result.

use crate::commands::{Folder, run, sql};

fn plan(query: &str) -> String {
    let output = run(&["sql", "--threads", "2", "--format", "json", "-c", &format!("EXPLAIN {query}")]);
    assert!(output.status.success(), "{query}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A table, a dictionary of it, and the expression that encodes.
fn table_and_code(folder: &Folder) -> (String, String) {
    let table = folder.traffic("t.parquet", "list", 1);
    let dictionary = folder.path("d.parquet");
    let train = format!(
        "COPY (SELECT sparse_train(v, {{atoms: 8}}) AS d FROM '{table}') TO '{dictionary}'; SELECT 1 AS n"
    );
    assert_eq!(sql(&train)[0]["n"], 1);
    (table, format!("sparse_encode(v, (SELECT d FROM '{dictionary}'))"))
}

#[test]
fn only_what_is_coded_is_read_ahead() {
    let folder = Folder::new();
    let (table, code) = table_and_code(&folder);
    for query in [
        format!("SELECT {code} AS c FROM '{table}'"),
        format!("SELECT time, {code} AS c FROM '{table}' WHERE time > '2024-01-01T12:00:00'"),
        format!("SELECT time, {code} AS c FROM '{table}' ORDER BY time"),
        format!(
            "SELECT a.time, b.c FROM '{table}' a JOIN (SELECT time, {code} AS c FROM '{table}') b USING (time)"
        ),
    ] {
        assert!(plan(&query).contains("ReadAheadExec"), "{query}: {}", plan(&query));
    }
    for query in [format!("SELECT time, v FROM '{table}'"), format!("SELECT count(v) FROM '{table}'")] {
        assert!(!plan(&query).contains("ReadAheadExec"), "{query}: {}", plan(&query));
    }
    // A limit reaches the scan.
    let limited = plan(&format!("SELECT {code} AS c FROM '{table}' LIMIT 3"));
    let scan = limited.split("ReadAheadExec").nth(1).unwrap_or_default();
    assert!(scan.contains("limit=3"), "{limited}");
}

#[test]
fn results_are_those_of_any_batch_size() {
    let folder = Folder::new();
    let (table, code) = table_and_code(&folder);
    let query = format!(
        "SELECT count(*) AS n, sum(array_length(c)) AS nonzeros, sum(c[1]['weight']) AS weight FROM (SELECT {code} AS c FROM '{table}')"
    );
    let whole = sql(&query);
    assert_eq!(whole[0]["n"], 576);
    let in_small = sql(&format!("SET datafusion.execution.batch_size = 7; {query}"));
    assert_eq!(whole[0]["nonzeros"], in_small[0]["nonzeros"]);
    let part = sql(&format!("SELECT count(c) AS n FROM (SELECT {code} AS c FROM '{table}' LIMIT 100)"));
    assert_eq!(part[0]["n"], 100);
}
