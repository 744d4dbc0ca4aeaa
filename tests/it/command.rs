//! The command line as users see it: output, errors, exit codes, files.

use std::io::Write;
use std::process::{Output, Stdio};

use crate::support::sparrow;

fn run(arguments: &[&str]) -> Output {
    sparrow().args(arguments).output().expect("it runs")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn every_format() {
    let with = |format: &str| {
        stdout(&run(&["sql", "--format", format, "-c", "SELECT 1 AS a, [1.5, 2.5] AS v, 'x,y' AS s"]))
    };
    assert_eq!(
        with("table"),
        "+---+------------+-----+\n| a | v          | s   |\n+---+------------+-----+\n| 1 | [1.5, 2.5] | x,y |\n+---+------------+-----+\n"
    );
    assert_eq!(with("csv"), "a,v,s\n1,\"[1.5, 2.5]\",\"x,y\"\n");
    assert_eq!(with("tsv"), "a\tv\ts\n1\t[1.5, 2.5]\tx,y\n");
    assert_eq!(with("json"), "[{\"a\":1,\"v\":[1.5,2.5],\"s\":\"x,y\"}]\n");
    assert_eq!(with("nd-json"), "{\"a\":1,\"v\":[1.5,2.5],\"s\":\"x,y\"}\n");
}

#[test]
fn no_rows_still_print_their_columns() {
    let with = |format: &str| stdout(&run(&["sql", "--format", format, "-c", "SELECT 1 AS a WHERE false"]));
    assert_eq!(with("csv"), "a\n");
    assert_eq!(with("json"), "[]\n");
    assert_eq!(with("nd-json"), "");
    assert!(with("table").contains("| a |"));
}

#[test]
fn tables_shorten_vectors_and_dictionaries() {
    let output = run(&[
        "sql",
        "-c",
        "SELECT sparse_train(v) AS d, range(0, 500) AS r FROM (VALUES ([1.0]), ([2.0])) t(v)",
    ]);
    let text = stdout(&output);
    assert!(text.contains(" bytes>") && text.contains('…'), "{text}");
    assert!(text.lines().all(|line| line.chars().count() < 200), "{text}");
}

#[test]
fn a_script_stops_at_the_first_failing_statement() {
    let output = run(&["sql", "--format", "csv", "-c", "SELECT 1 AS a; SELECT nonsense; SELECT 3 AS c"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout(&output), "a\n1\n");
    assert!(
        stderr(&output).contains("statement 2") && stderr(&output).contains("nonsense"),
        "{}",
        stderr(&output)
    );
    let output = run(&["sql", "--format", "csv", "-c", "SELECT 1 AS a; SELEC 2"]);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(1), "a\n1\n"));
}

#[test]
fn commands_and_files_run_in_the_order_given() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("two.sql");
    std::fs::write(&file, "-- a comment\nSELECT x + 1 AS two FROM t;\n").expect("a file");
    let file = file.display().to_string();
    let output = run(&[
        "sql",
        "--format",
        "csv",
        "-c",
        "CREATE TABLE t AS SELECT 1 AS x",
        "-f",
        &file,
        "-c",
        "SELECT x + 2 AS three FROM t",
    ]);
    assert_eq!(stdout(&output), "two\n2\nthree\n3\n", "{}", stderr(&output));
}

#[test]
fn standard_input_is_a_script() {
    let mut child = sparrow()
        .args(["sql", "--format", "csv"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    child.stdin.take().expect("a pipe").write_all(b"SELECT 1 AS a;\nSELECT 2 AS b").expect("written");
    assert_eq!(stdout(&child.wait_with_output().expect("it ends")), "a\n1\nb\n2\n");
}

#[test]
fn wrong_usage_exits_with_2() {
    for arguments in [
        &["sql", "--format", "yaml", "-c", "SELECT 1"][..],
        &["nonsense"],
        &["sql", "--threads", "0"],
        &["generate", "syn"],
        &["generate", "traffic", "--days", "0", "-o", "x"],
        &["generate", "traffic", "--sensors", "100000000000000", "-o", "x"],
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        assert!(stdout(&output).is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_missing_file_is_named_before_anything_runs() {
    let output = run(&["sql", "-c", "SELECT 1", "-f", "no-such.sql"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).is_empty());
    assert!(stderr(&output).contains("no-such.sql"), "{}", stderr(&output));
}

#[test]
fn a_failing_copy_leaves_no_file_and_keeps_the_old_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = folder.path().join("x.parquet");
    let copy = |value: &str| {
        let sql = format!(
            "COPY (SELECT sparse_encode(CASE WHEN i = 49999 THEN [1.0, {value}] ELSE [1.0, 2.0] END,
                   (SELECT sparse_dictionary(v) FROM (VALUES ([1.0, 2.0])) t(v))) AS code
                   FROM (SELECT unnest(range(0, 50000)) AS i)) TO '{}'",
            target.display()
        );
        run(&["sql", "-c", &sql])
    };
    let files = || std::fs::read_dir(folder.path()).expect("the folder").count();
    let output = copy("'NaN'::double");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("position 1: NaN is not a finite number"), "{}", stderr(&output));
    assert_eq!(files(), 0);
    assert!(copy("2.0").status.success());
    let whole = std::fs::read(&target).expect("the file");
    assert_eq!(copy("'NaN'::double").status.code(), Some(1));
    assert_eq!(files(), 1);
    assert!(std::fs::read(&target).expect("the file") == whole);
}

#[test]
fn generated_data_depends_on_the_seed_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let make = |arguments: &[&str], name: &str| {
        let path = folder.path().join(name);
        let output =
            sparrow().arg("generate").args(arguments).arg("-o").arg(&path).output().expect("it runs");
        assert!(output.status.success(), "{}", stderr(&output));
        std::fs::read(path).expect("the file")
    };
    let syn = ["syn", "--dim", "20", "--signals", "50", "--groups", "3", "--seed"];
    assert!(make(&[&syn[..], &["5"]].concat(), "a") == make(&[&syn[..], &["5"]].concat(), "b"));
    assert!(make(&[&syn[..], &["5"]].concat(), "a") != make(&[&syn[..], &["6"]].concat(), "b"));
    for layout in ["list", "wide", "long"] {
        let traffic = ["traffic", "--sensors", "30", "--days", "1", "--layout", layout, "--seed", "1"];
        assert!(make(&traffic, "a") == make(&traffic, "b"));
    }
}

#[test]
fn layouts_hold_the_same_speeds() {
    let folder = tempfile::tempdir().expect("a folder");
    for layout in ["list", "wide", "long"] {
        let output = sparrow()
            .current_dir(folder.path())
            .args(["generate", "traffic", "--sensors", "3", "--days", "1", "--layout", layout, "-o"])
            .args([format!("{layout}.parquet").as_str(), "--incidents", "incidents.parquet"])
            .output()
            .expect("it runs");
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let sql = "SELECT count(*) AS n FROM 'list.parquet' l
               JOIN (SELECT time, [s000, s001, s002] AS w FROM 'wide.parquet') w ON l.time = w.time AND l.v = w.w
               JOIN (SELECT time, array_agg(value ORDER BY sensor) AS x FROM 'long.parquet' GROUP BY time) x ON l.time = x.time AND l.v = x.x;
               SELECT count(sensor) >= 0 AS listed FROM 'incidents.parquet'";
    let output = sparrow()
        .current_dir(folder.path())
        .args(["sql", "--format", "csv", "-c", sql])
        .output()
        .expect("it runs");
    assert_eq!(stdout(&output), "n\n288\nlisted\ntrue\n", "{}", stderr(&output));
}

#[test]
fn generate_into_a_missing_folder_names_it() {
    let output = run(&["generate", "syn", "-o", "no-such-folder/y.parquet"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("no-such-folder"), "{}", stderr(&output));
}

#[test]
fn functions_are_documented() {
    let output = run(&["sql", "--format", "csv", "-c", "SHOW FUNCTIONS LIKE 'sparse_%'"]);
    let text = stdout(&output);
    for name in [
        "train",
        "dictionary",
        "encode",
        "decode",
        "atoms",
        "dictionary_info",
        "objective",
        "nrmse",
        "nmae",
        "necr",
    ] {
        assert!(text.contains(&format!("\nsparse_{name},")), "sparse_{name} in {text}");
    }
    assert!(text.contains("Learns a dictionary"), "{text}");
}

#[test]
fn running_out_of_memory_says_what_to_do() {
    let sql = "SET datafusion.runtime.memory_limit = '2M';
               SELECT sparse_train([sin(i), cos(i), i], {sample: 100000}) FROM (SELECT unnest(range(0, 100000)) AS i)";
    let output = run(&["sql", "-c", sql]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("raise datafusion.runtime.memory_limit"), "{}", stderr(&output));
}

#[test]
fn the_number_of_threads_does_not_change_the_result() {
    let sql = "SELECT sparse_train([sin(i), cos(i), i % 7], {atoms: 8}) AS d FROM (SELECT unnest(range(0, 2000)) AS i)";
    let with = |threads: &str| stdout(&run(&["sql", "--format", "csv", "--threads", threads, "-c", sql]));
    assert_eq!(with("1"), with("4"));
}

#[test]
fn copies_into_folders_and_partitions_arrive() {
    let folder = tempfile::tempdir().expect("a folder");
    let sql = "COPY (SELECT * FROM (VALUES (1, 'a'), (2, 'b')) t(x, p)) TO 'deep/one.parquet';
               COPY (SELECT * FROM (VALUES (1, 'a'), (2, 'b')) t(x, p)) TO 'parts/' STORED AS PARQUET PARTITIONED BY (p);
               SELECT count(*) AS one FROM 'deep/one.parquet';
               CREATE EXTERNAL TABLE parts STORED AS PARQUET PARTITIONED BY (p) LOCATION 'parts/';
               SELECT sum(x) AS x FROM parts WHERE p = 'b'";
    let output = sparrow()
        .current_dir(folder.path())
        .args(["sql", "--format", "csv", "-c", sql])
        .output()
        .expect("it runs");
    assert!(stdout(&output).ends_with("one\n2\nx\n2\n"), "{} {}", stdout(&output), stderr(&output));
    let hidden = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.expect("an entry").file_name().to_string_lossy().starts_with('.')
    };
    assert!(!std::fs::read_dir(folder.path()).expect("the folder").any(hidden));
}

#[test]
fn a_missing_table_says_how_files_are_named() {
    let output = run(&["sql", "-c", "SELECT 1", "-c", "SELECT * FROM 'no-such.parquet'"]);
    assert_eq!(output.status.code(), Some(1));
    let errors = stderr(&output);
    assert!(
        errors.contains("-c 2: statement 1") && errors.contains("a file is a table in single quotes"),
        "{errors}"
    );
}

/// NULL is told from NaN, and both from what is not there.
#[test]
fn json_holds_every_value() {
    let rows = "SELECT * FROM (VALUES (1, 1.5, [1.5, 'NaN'::DOUBLE], {a: NULL, b: 'x'}), (NULL, '-Infinity'::DOUBLE, NULL, NULL),
                (3, 'Infinity'::DOUBLE, [NULL], {a: 2, b: NULL})) t(i, x, v, s)";
    let expected = "[{\"i\":1,\"x\":1.5,\"v\":[1.5,\"NaN\"],\"s\":{\"a\":null,\"b\":\"x\"}},\
                    {\"i\":null,\"x\":\"-Infinity\",\"v\":null,\"s\":null},\
                    {\"i\":3,\"x\":\"Infinity\",\"v\":[null],\"s\":{\"a\":2,\"b\":null}}]\n";
    assert_eq!(stdout(&run(&["sql", "--format", "json", "-c", rows])), expected);
    let lines = stdout(&run(&["sql", "--format", "nd-json", "-c", rows]));
    assert_eq!(format!("[{}]\n", lines.trim_end().replace('\n', ",")), expected);
    let special = "SELECT NULL AS n, arrow_cast('NaN'::DOUBLE, 'Float32') AS f, 0.1::FLOAT AS g";
    assert_eq!(
        stdout(&run(&["sql", "--format", "json", "-c", special])),
        "[{\"n\":null,\"f\":\"NaN\",\"g\":0.1}]\n"
    );
}

#[test]
fn columns_are_called_as_they_were_asked_for() {
    let query = "CREATE TABLE t AS SELECT * FROM (VALUES ([1.0, 2.0], 1), ([3.0, 4.0], 2)) t(v, k);
                 SELECT avg(v[1]), count(*), max(t.k) FROM t;
                 SELECT k % 2, t.k, sum(v[2]) FROM t GROUP BY k % 2, t.k HAVING sum(v[2]) > 0 ORDER BY sum(v[2]) DESC;
                 SELECT DISTINCT k FROM t ORDER BY k;
                 SELECT 1 UNION ALL SELECT 1 LIMIT 1";
    let output = run(&["sql", "--format", "csv", "-c", query]);
    let text = stdout(&output);
    assert!(output.status.success(), "{}", stderr(&output));
    for header in ["avg(v[1]),count(*),max(t.k)\n2.0,2,2\n", "k % 2,k,sum(v[2])\n0,2,4.0\n1,1,2.0\n"] {
        assert!(text.contains(header), "{text}");
    }
    assert!(text.contains("\n1\n2\n") && text.contains("\n1\n1\n"), "{text}");
}

#[test]
fn tables_that_are_shown_are_those_of_the_session() {
    let output = run(&["sql", "--format", "csv", "-c", "CREATE TABLE t AS SELECT 1 AS a; SHOW TABLES"]);
    assert_eq!(
        stdout(&output),
        "table_catalog,table_schema,table_name,table_type\ndatafusion,public,t,BASE TABLE\n"
    );
}

#[test]
fn statements_that_say_two_things_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("a").display().to_string();
    let table = |options: &str| {
        format!(
            "CREATE EXTERNAL TABLE a (v DOUBLE[]) STORED AS SPARROW LOCATION '{place}' OPTIONS ({options})"
        )
    };
    for (sql, expected) in [
        (table("'max_error' '1', 'max_error' '2'"), "option max_error is given twice"),
        (table("'max_error' '1', 'format.MAX_ERROR' '2'"), "option max_error is given twice"),
        (
            format!(
                "COPY (SELECT 1 AS a) TO '{place}.parquet' OPTIONS ('compression' 'zstd(3)', 'compression' 'snappy')"
            ),
            "option compression is given twice",
        ),
        (format!("COPY (SELECT [1.0] AS v) TO '{place}' STORED AS SPARROW"), "INSERT INTO a SELECT"),
    ] {
        let output = run(&["sql", "-c", &sql]);
        assert_eq!(output.status.code(), Some(1), "{sql}");
        assert!(stderr(&output).contains(expected), "{sql}: {}", stderr(&output));
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 0);
}

/// A file that is there is not said to be missing.
#[test]
fn what_is_wrong_with_a_file_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("cut.parquet"), b"PAR1").expect("a file");
    std::fs::write(path("empty.parquet"), b"").expect("a file");
    std::fs::write(path("notes.docx"), b"text").expect("a file");
    std::fs::create_dir(path("nothing.d")).expect("a folder");
    let panics = crate::support::project("tests/fixtures/int128.parquet").display().to_string();
    for (name, expected) in [
        (path("cut.parquet"), "cut.parquet' cannot be read as a table"),
        (path("empty.parquet"), "empty.parquet' cannot be read as a table"),
        (path("notes.docx"), "notes.docx' cannot be read as a table"),
        (path("nothing.d/"), "nothing.d/' cannot be read as a table"),
        (panics, "int128.parquet' cannot be read as a table"),
        (path("missing.parquet"), "not found\nhint: a file is a table in single quotes"),
    ] {
        let output = run(&["sql", "-c", &format!("SELECT * FROM '{name}'")]);
        assert_eq!(output.status.code(), Some(1), "{name}");
        assert!(stderr(&output).contains(expected), "{name}: {}", stderr(&output));
    }
}

/// However long a chain is, there is an answer or an error, and never the end of the process.
#[test]
fn chains_of_any_length_are_answered_or_refused() {
    let answer = |sql: String| {
        let folder = tempfile::tempdir().expect("a folder");
        let script = folder.path().join("s.sql");
        std::fs::write(&script, sql).expect("a script");
        let script = script.display().to_string();
        let output = run(&["sql", "--format", "csv", "-f", &script]);
        let last = stdout(&output).lines().last().unwrap_or_default().to_string();
        match output.status.code() {
            Some(0) => last,
            Some(1) => stderr(&output),
            other => panic!("{other:?}: {}", stderr(&output)),
        }
    };
    let table = "CREATE TABLE t AS SELECT value AS a FROM generate_series(0, 3000);";
    let terms = |term: &dyn Fn(usize) -> String, between: &str, count: usize| {
        (0..count).map(term).collect::<Vec<_>>().join(between)
    };
    let one = |_: usize| "1".to_string();
    let is = |i: usize| format!("a = {i}");
    let select = |i: usize| format!("SELECT {i} AS a");
    assert_eq!(answer(format!("SELECT {} AS n", terms(&one, " + ", 1500))), "1500");
    let counted = |wanted: String| answer(format!("{table} SELECT count(*) AS n FROM t WHERE {wanted}"));
    assert_eq!(counted(terms(&is, " OR ", 900)), "900");
    assert_eq!(counted(format!("a IN ({})", terms(&|i| i.to_string(), ", ", 20_000))), "3001");
    let union = terms(&select, " UNION ALL ", 300);
    assert_eq!(answer(format!("SELECT sum(a) AS n FROM ({union})")), (299 * 300 / 2).to_string());
    for (sql, told) in [
        (format!("SELECT {}", terms(&one, "+", 20_000)), "statement 1: 19999 operators are chained"),
        (format!("SELECT 1; SELECT 1 WHERE {}", terms(&one, " = 1 OR ", 20_000)), "statement 2: "),
        (terms(&select, " UNION ALL ", 20_000), "operators are chained"),
        (format!("SELECT {}1{}", "(".repeat(20_000), ")".repeat(20_000)), "nested in each other"),
        (format!("SELECT {}1{}", "(".repeat(1000), ")".repeat(1000)), "RecursionLimitExceeded"),
        (format!("SELECT {}1", "- ".repeat(1000)), "RecursionLimitExceeded"),
    ] {
        let error = answer(sql);
        assert!(error.contains(told), "{}", error.chars().take(500).collect::<String>());
    }
}
