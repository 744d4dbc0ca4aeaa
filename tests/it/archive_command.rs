//! Archives from the command line: what users type, what they get, what happens when things go wrong.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::commands::{Folder, fails, ok, refused, run, sql};
use crate::support::sparrow;

/// Every file below a folder with its bytes.
pub fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![folder.to_path_buf()];
    while let Some(next) = waiting.pop() {
        for entry in std::fs::read_dir(next).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                waiting.push(path);
            } else {
                let relative = path.strip_prefix(folder).expect("below").to_path_buf();
                found.insert(relative, std::fs::read(&path).expect("bytes"));
            }
        }
    }
    found
}

#[test]
fn every_layout_there_and_back() {
    let folder = Folder::new();
    let columns = |layout: &str| match layout {
        "wide" => vec!["--columns", "s*"],
        "long" => vec!["--long", "time,sensor,speed"],
        _ => Vec::new(),
    };
    for layout in ["list", "wide", "long"] {
        let input = folder.traffic(&format!("{layout}.parquet"), layout, 1);
        let (archive, back) =
            (folder.path(&format!("{layout}-archive")), folder.path(&format!("{layout}-back.parquet")));
        let described = sql(&format!("SELECT count(*) AS n FROM '{input}'"));
        let mut arguments = vec!["compress", input.as_str(), "-o", &archive, "--max-error", "0.5"];
        let names: Vec<String> = column_names(&input);
        let long = format!(
            "{},{},{}",
            names[0],
            names.get(1).cloned().unwrap_or_default(),
            names.last().cloned().unwrap_or_default()
        );
        let given = columns(layout);
        match layout {
            "long" => arguments.extend(["--long", &long]),
            _ => arguments.extend(given.iter()),
        }
        let report = ok(&arguments);
        assert!(report["max_error"].as_f64().expect("a number") <= 0.5, "{report}");
        assert_eq!(report["rows"], described[0]["n"]);
        let verified = ok(&["verify", &archive, "--against", &input]);
        assert_eq!(verified["problems"], Value::Array(Vec::new()));
        assert!(verified["max_error"].as_f64().expect("a number") <= 0.5);
        ok(&["decompress", &archive, "-o", &back]);
        assert_eq!(sql(&format!("SELECT count(*) AS n FROM '{back}'")), described);
        assert_eq!(column_names(&back), names);
        // Queries on the archive agree with those on the decoded table.
        let table = format!("CREATE EXTERNAL TABLE t STORED AS SPARROW LOCATION '{archive}'");
        let last = names.last().expect("columns");
        for query in [
            "SELECT count(*) AS n FROM".to_string(),
            format!("SELECT min(\"{0}\") AS a, max(\"{0}\") AS b, count(*) AS n FROM", names[0]),
            format!("SELECT count(\"{last}\") AS n, max(\"{last}\") AS m FROM"),
        ] {
            let output = run(&["sql", "--format", "json", "-c", &format!("{table}; {query} t")]);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let on_archive: Value =
                serde_json::from_str(String::from_utf8_lossy(&output.stdout).trim()).expect("JSON");
            assert_eq!(on_archive, sql(&format!("{query} '{back}'")), "{query}");
        }
    }
}

fn column_names(file: &str) -> Vec<String> {
    let rows = sql(&format!("DESCRIBE '{file}'"));
    rows.as_array()
        .expect("rows")
        .iter()
        .map(|row| row["column_name"].as_str().expect("a name").to_string())
        .collect()
}

#[test]
fn an_archive_is_not_overwritten_unless_told() {
    let folder = Folder::new();
    let input = folder.traffic("a.parquet", "list", 1);
    let archive = folder.path("archive");
    ok(&["compress", &input, "-o", &archive]);
    let before = contents(Path::new(&archive));
    let error = fails(&["compress", &input, "-o", &archive, "--max-error", "1"]);
    assert!(error.contains("exists already") && error.contains("--overwrite"), "{error}");
    assert_eq!(contents(Path::new(&archive)), before);
    // One that fails leaves the old one.
    let error = fails(&["compress", &input, "-o", &archive, "--overwrite", "--column", "nosuch"]);
    assert!(error.contains("nosuch"), "{error}");
    assert_eq!(contents(Path::new(&archive)), before);
    ok(&["compress", &input, "-o", &archive, "--overwrite", "--max-error", "1"]);
    assert_ne!(contents(Path::new(&archive)), before);
    // A folder that is no archive stays.
    let other = folder.path("other");
    std::fs::create_dir(&other).expect("a folder");
    std::fs::write(Path::new(&other).join("precious"), "x").expect("a file");
    let error = fails(&["compress", &input, "-o", &other, "--overwrite"]);
    assert!(error.contains("not an archive"), "{error}");
    assert!(Path::new(&other).join("precious").exists());
}

#[test]
fn a_file_that_fails_is_named_and_the_rest_goes_on() {
    let folder = Folder::new();
    folder.traffic("in/a.parquet", "list", 1);
    folder.traffic("in/c.parquet", "list", 2);
    std::fs::write(folder.path("in/b.parquet"), "this is no Parquet file").expect("a file");
    let archive = folder.path("archive");
    let error = fails(&["compress", &folder.path("in"), "-o", &archive, "--max-error", "1"]);
    assert!(error.contains("b.parquet"), "{error}");
    assert_eq!(ok(&["inspect", &archive])["files"], 2);
    assert_eq!(ok(&["verify", &archive])["files"], 2);
}

#[test]
fn hive_partitions_are_kept() {
    let folder = Folder::new();
    folder.traffic("in/year=2024/a.parquet", "list", 1);
    folder.traffic("in/year=2025/a.parquet", "list", 2);
    let (archive, back) = (folder.path("archive"), folder.path("back"));
    ok(&["compress", &folder.path("in"), "-o", &archive, "--max-error", "1"]);
    ok(&["decompress", &archive, "-o", &back]);
    assert!(Path::new(&back).join("year=2025/a.parquet").is_file());
    let table = format!("CREATE EXTERNAL TABLE t STORED AS SPARROW LOCATION '{archive}'");
    let output = run(&[
        "sql",
        "--format",
        "json",
        "-c",
        &format!("{table}; SELECT year, count(*) AS n FROM t WHERE year = '2025' GROUP BY year"),
    ]);
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "[{\"year\":\"2025\",\"n\":576}]");
}

#[test]
fn rows_are_added() {
    let folder = Folder::new();
    let (first, second) = (folder.traffic("a.parquet", "list", 1), folder.traffic("b.parquet", "list", 2));
    let archive = folder.path("archive");
    ok(&["compress", &first, "-o", &archive, "--max-error", "1"]);
    ok(&["append", &archive, &second]);
    let inspected = ok(&["inspect", &archive]);
    assert_eq!(inspected["rows"], 2 * 576);
    assert_eq!(inspected["history"].as_array().expect("steps").len(), 2);
    let verified = ok(&["verify", &archive, "--against", &first, &second]);
    assert_eq!((&verified["files"], &verified["match_their_originals"]), (&2.into(), &2.into()));
    let other = folder.traffic("other.parquet", "list", 3);
    assert!(fails(&["verify", &archive, "--against", &other]).contains("no original of this name"));
    let error = fails(&["verify", &archive, "--against", &first, &second, &other]);
    assert!(error.contains("other.parquet: it is not in the archive"), "{error}");
    let error = fails(&["append", &archive, &second]);
    assert!(error.contains("b.parquet already"), "{error}");
    // And in SQL, into a new archive too.
    let inserted = folder.path("inserted");
    let statements = format!(
        "CREATE EXTERNAL TABLE t (time TIMESTAMP, v DOUBLE[]) STORED AS SPARROW LOCATION '{inserted}' OPTIONS ('max_error' '0.5');
         INSERT INTO t SELECT time, v FROM '{first}';
         INSERT INTO t SELECT time, v FROM '{second}';
         SELECT count(*) AS n FROM t"
    );
    let output = run(&["sql", "--format", "json", "-c", &statements]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("{\"n\":1152}"),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    assert!(ok(&["verify", &inserted])["max_error"].as_f64().expect("a number") <= 0.5);
}

#[test]
fn a_killed_job_goes_on_where_it_was() {
    let folder = Folder::new();
    for file in 0..6 {
        folder.traffic(&format!("in/f{file}.parquet"), "list", file);
    }
    let (input, undisturbed) = (folder.path("in"), folder.path("undisturbed"));
    let started = Instant::now();
    ok(&["compress", &input, "-o", &undisturbed, "--max-error", "0.2"]);
    let whole = started.elapsed();
    let expected = contents(Path::new(&undisturbed));
    for attempt in 0..50u32 {
        let archive = folder.path(&format!("archive{attempt}"));
        let mut child = sparrow()
            .args(["compress", &input, "-o", &archive, "--max-error", "0.2"])
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("it runs");
        // Moments spread over the whole run.
        std::thread::sleep(Duration::from_secs_f64(
            whole.as_secs_f64() * f64::from(attempt * 37 % 50) / 50.0,
        ));
        child.kill().expect("kill -9");
        child.wait().expect("ended");
        if !Path::new(&archive).exists() {
            ok(&["compress", &input, "-o", &archive, "--max-error", "0.2"]);
        }
        assert_eq!(contents(Path::new(&archive)), expected, "killed at moment {attempt}");
        assert!(!folder.staging(&format!("archive{attempt}")).exists());
        std::fs::remove_dir_all(&archive).expect("removed");
    }
}

/// As after a machine went down: the end of a file is there, and something before it is not.
#[test]
fn what_was_lost_of_a_finished_file_is_done_again() {
    let folder = Folder::new();
    for file in 0..6 {
        folder.traffic(&format!("in/f{file}.parquet"), "list", file);
    }
    let (input, undisturbed) = (folder.path("in"), folder.path("undisturbed"));
    ok(&["compress", &input, "-o", &undisturbed, "--max-error", "0.2"]);
    let first = folder.staging("archive").join("f0.parquet");
    let archive = folder.path("archive");
    let arguments = ["compress", &input, "-o", &archive, "--max-error", "0.2"];
    let stopped = (0..20).any(|_| {
        let mut child =
            sparrow().args(arguments).stderr(std::process::Stdio::null()).spawn().expect("it runs");
        while !first.exists() && child.try_wait().expect("a state").is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().expect("kill -9");
        child.wait().expect("ended");
        let stopped = first.exists();
        if !stopped {
            let _ = std::fs::remove_dir_all(&archive);
        }
        stopped
    });
    assert!(stopped, "it was never stopped in the middle");
    let mut bytes = std::fs::read(&first).expect("a finished file");
    bytes[100..120].fill(0);
    std::fs::write(&first, bytes).expect("written");
    ok(&arguments);
    assert_eq!(contents(Path::new(&archive)), contents(Path::new(&undisturbed)));
}

#[cfg(unix)]
#[test]
fn a_full_disk_and_a_read_only_place_leave_nothing() {
    let folder = Folder::new();
    let input = folder.traffic("a.parquet", "list", 1);
    let archive = folder.path("archive");
    // Files cannot grow beyond a few kilobytes: to the program this is a full disk.
    let script = format!(
        "trap '' XFSZ; ulimit -f 4; exec '{}' compress '{input}' -o '{archive}' --max-error 0.1",
        env!("CARGO_BIN_EXE_sparrow")
    );
    let output = std::process::Command::new("sh").args(["-c", &script]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(!output.stderr.is_empty());
    assert!(!Path::new(&archive).exists());
    assert!(!folder.staging("archive").exists());
    let error = fails(&["compress", &input, "-o", "/proc/archive"]);
    assert!(error.contains("/proc/archive"), "{error}");
}

#[test]
fn what_does_not_compress_is_stored_as_it_was() {
    let folder = Folder::new();
    let noise = folder.path("noise.parquet");
    let value = "random() * pow(10.0, 300.0 * random() - 150.0)";
    let statement = format!(
        "COPY (SELECT value AS i, [{value}, {value}, {value}] AS v FROM generate_series(1, 1000)) TO '{noise}' \
         OPTIONS ('format.dictionary_enabled' 'false')"
    );
    assert!(run(&["sql", "-c", &statement]).status.success());
    let archive = folder.path("archive");
    let report = ok(&["compress", &noise, "-o", &archive, "--lossless"]);
    assert_eq!(report["stored_as_they_were"][0], "noise.parquet", "{report}");
    assert_eq!(
        std::fs::read(Path::new(&archive).join("noise.parquet")).expect("stored"),
        std::fs::read(&noise).expect("noise")
    );
    assert_eq!(ok(&["verify", &archive, "--against", &noise])["max_error"], 0.0);
}

#[test]
fn bad_requests_are_explained() {
    let folder = Folder::new();
    let wide = folder.traffic("wide.parquet", "wide", 1);
    let archive = folder.path("archive");
    for (arguments, expected) in [
        (vec!["compress", &wide, "-o", &archive], "--columns"),
        (vec!["compress", &wide, "-o", &archive, "--column", "time"], "time"),
        (vec!["compress", &wide, "-o", &archive, "--columns", "x*"], "x*"),
        (vec!["compress", "nowhere.parquet", "-o", &archive], "nowhere.parquet"),
        (vec!["compress", "nosuch://bucket/x.parquet", "-o", &archive], "nosuch://bucket/x.parquet"),
        (vec!["verify", &folder.path("nothing")], "no such folder"),
        (vec!["inspect", folder.0.path().to_str().expect("text")], "archive.json"),
        (vec!["decompress", &folder.path("nothing"), "-o", "x"], "no such folder"),
    ] {
        let error = fails(&arguments);
        assert!(error.contains(expected), "{arguments:?}: {error}");
        assert!(!Path::new(&archive).exists());
    }
    for bound in ["-1", "0", "nan", "inf"] {
        let error = refused(&["compress", &wide, "-o", &archive, "--columns", "s*", "--max-error", bound]);
        assert!(error.contains("--max-error"), "{error}");
    }
    for (more, expected) in [
        (&["--max-error", "1", "--lossless"][..], "--lossless"),
        (&["--long", "a,b"], "time,series,value"),
        (&["--columns", "s*", "--kernel", "linear", "--sigma", "2"], "sigma"),
    ] {
        let error = refused(&[&["compress", &wide, "-o", &archive], more].concat());
        assert!(error.contains(expected), "{more:?}: {error}");
        assert!(!Path::new(&archive).exists());
    }
    let after = ["generate", "traffic", "--days", "3", "--drift-day", "3", "-o", &folder.path("t.parquet")];
    assert!(refused(&after).contains("--drift-day 3"));
}

#[test]
fn only_what_a_query_needs_is_read() {
    let folder = Folder::new();
    let input = folder.traffic("wide.parquet", "wide", 1);
    let archive = folder.path("archive");
    ok(&["compress", &input, "-o", &archive, "--columns", "s*", "--max-error", "0.5"]);
    let table = format!("CREATE EXTERNAL TABLE t STORED AS SPARROW LOCATION '{archive}'");
    let plan = |query: &str| {
        let output = run(&["sql", "--format", "json", "-c", &format!("{table}; EXPLAIN ANALYZE {query}")]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    // Counting reads nothing at all, and other columns are not decoded.
    assert!(!plan("SELECT count(*) FROM t").contains("ArchiveExec"));
    assert!(plan("SELECT sum(extract(minute FROM time)) FROM t").contains("decode=[]"));
    let names = column_names(&input);
    let one = plan(&format!("SELECT avg(\"{}\") FROM t", names[1]));
    assert!(
        one.contains(&format!("decode=[{}]", names[1]))
            && one.contains("decode_time")
            && one.contains("rows_decoded=576"),
        "{one}"
    );
    let none = plan(&format!("SELECT avg(\"{}\") FROM t WHERE time > '2030-01-01'", names[1]));
    assert!(none.contains("row_groups=0 of 1"), "{none}");
}

#[test]
fn pages_are_passed_over() {
    let folder = Folder::new();
    let (input, archive, back) =
        (folder.path("long.parquet"), folder.path("archive"), folder.path("back.parquet"));
    let generated =
        run(&["generate", "traffic", "--sensors", "12", "--days", "10", "--layout", "long", "-o", &input]);
    assert!(generated.status.success(), "{}", String::from_utf8_lossy(&generated.stderr));
    let long = column_names(&input).join(",");
    ok(&["compress", &input, "-o", &archive, "--long", &long, "--max-error", "0.5"]);
    ok(&["verify", &archive, "--against", &input]);
    ok(&["decompress", &archive, "-o", &back]);
    let tables = format!(
        "CREATE EXTERNAL TABLE t STORED AS SPARROW LOCATION '{archive}'; \
         CREATE EXTERNAL TABLE plain STORED AS PARQUET LOCATION '{back}'"
    );
    let sql = |query: &str| {
        let output = run(&["sql", "--format", "json", "-c", &format!("{tables}; {query}")]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let names = column_names(&input);
    let [time, series, value] = names.as_slice() else { panic!("{names:?}") };
    let middle = format!("(SELECT min({time}) + INTERVAL '5 days' FROM plain)");
    let first = sql(&format!("SELECT {middle} AS m"));
    let moment = first.split('"').nth(3).expect("a time").to_string();
    let within = format!("{time} BETWEEN TIMESTAMP '{moment}' AND TIMESTAMP '{moment}' + INTERVAL '1 hour'");
    let apart = format!("({within}) OR {time} = (TIMESTAMP '{moment}' + INTERVAL '4 days')");
    for filter in [&within, &apart, &format!("({apart}) AND {value} > 60")] {
        for columns in [format!("{time}, {series}, {value}"), format!("{series}, {time}")] {
            let query = |table: &str| {
                let found = sql(&format!("SELECT {columns} FROM {table} WHERE {filter} ORDER BY 1, 2"));
                found.lines().last().map(str::to_string)
            };
            let found = query("t");
            assert!(found.as_ref().is_some_and(|found| found.len() > 100), "{filter}: {found:?}");
            assert_eq!(found, query("plain"), "{columns} {filter}");
        }
    }
    for columns in [value, series] {
        let plan = sql(&format!("EXPLAIN ANALYZE SELECT {columns} FROM t WHERE {within}"));
        let pruned = plan.split("rows_pruned_by_pages=").nth(1).expect("a metric");
        assert!(!pruned.starts_with('0'), "{plan}");
    }
}

#[test]
fn names_are_kept_whatever_they_are() {
    let folder = Folder::new();
    let names = ["ü.parquet", "a[1]~#?.parquet", "t=10%3A00/x y.parquet", "city=São Paulo/{q}.parquet"];
    for name in names {
        folder.traffic(&format!("in/{name}"), "list", 3);
    }
    let (archive, back) = (folder.path("archive"), folder.path("back"));
    ok(&["compress", &folder.path("in"), "-o", &archive, "--max-error", "1"]);
    ok(&["verify", &archive, "--against", &folder.path("in")]);
    ok(&["decompress", &archive, "-o", &back]);
    for name in names {
        assert!(Path::new(&archive).join(name).is_file() && Path::new(&back).join(name).is_file(), "{name}");
    }
}

#[test]
fn decompress_replaces_nothing_but_tables() {
    let folder = Folder::new();
    let input = folder.traffic("a.parquet", "list", 1);
    let (archive, mine) = (folder.path("archive"), folder.path("mine"));
    ok(&["compress", &input, "-o", &archive, "--max-error", "1"]);
    std::fs::create_dir(&mine).expect("a folder");
    std::fs::write(Path::new(&mine).join("precious.txt"), "x").expect("a file");
    for target in [&mine, &archive] {
        let error = fails(&["decompress", &archive, "-o", target, "--overwrite"]);
        assert!(error.contains("not overwritten"), "{error}");
    }
    assert!(Path::new(&mine).join("precious.txt").exists());
    let back = folder.path("back");
    ok(&["decompress", &archive, "-o", &back]);
    assert!(fails(&["decompress", &archive, "-o", &back]).contains("exists already"));
    ok(&["decompress", &archive, "-o", &back, "--overwrite"]);
}

#[test]
fn paths_may_go_up() {
    let folder = Folder::new();
    folder.traffic("a/t.parquet", "list", 1);
    let (input, archive) = (folder.path("a/../a/t.parquet"), folder.path("a/../archive"));
    assert_eq!(ok(&["compress", &input, "-o", &archive, "--max-error", "1"])["files"], 1);
    ok(&["verify", &archive, "--against", &input]);
    assert!(Path::new(&folder.path("archive/archive.json")).is_file());
}

#[test]
fn tables_of_an_archive_have_the_same_columns() {
    let folder = Folder::new();
    let first = folder.traffic("in/a.parquet", "list", 1);
    let other = folder.path("in/b.parquet");
    let statement = format!("COPY (SELECT time, 1 AS extra, v FROM '{first}') TO '{other}'");
    assert!(run(&["sql", "-c", &statement]).status.success());
    let archive = folder.path("archive");
    let error = fails(&["compress", &folder.path("in"), "-o", &archive, "--max-error", "1"]);
    assert!(error.contains("b.parquet") && error.contains("extra"), "{error}");
    let error = fails(&["append", &archive, &other]);
    assert!(error.contains("b.parquet") && error.contains("extra"), "{error}");
    assert_eq!(ok(&["inspect", &archive])["files"], 1);
    // Nor can a table of another length be added, and the row is named.
    let short = folder.path("c.parquet");
    let statement = format!("COPY (SELECT time, array_slice(v, 1, 3) AS v FROM '{first}') TO '{short}'");
    assert!(run(&["sql", "-c", &statement]).status.success());
    let error = fails(&["append", &archive, &short]);
    assert!(error.contains("c.parquet"), "{error}");
}

#[test]
fn inserted_rows_keep_the_promise_of_the_archive() {
    let folder = Folder::new();
    let input = folder.traffic("a.parquet", "list", 1);
    let archive = folder.path("archive");
    // The first insert is so small that it is stored as it was; the bound must not be forgotten.
    let table = format!(
        "CREATE EXTERNAL TABLE t (time TIMESTAMP, v DOUBLE[]) STORED AS SPARROW LOCATION '{archive}' OPTIONS ('max_error' '0.25')"
    );
    let statements = format!(
        "{table}; INSERT INTO t SELECT time, v FROM '{input}' LIMIT 2; INSERT INTO t SELECT time, v FROM '{input}'"
    );
    let output = run(&["sql", "-c", &statements]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let inspected = ok(&["inspect", &archive]);
    assert_eq!(inspected["bound"]["max_error"], 0.25);
    assert!(inspected["max_error"].as_f64().expect("a number") <= 0.25, "{inspected}");
    // Another bound is refused, not ignored.
    let output = run(&["sql", "-c", &table.replace("0.25", "0.001")]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("promises"), "{output:?}");
    // Rows that cannot be coded leave no archive behind.
    let ragged = folder.path("ragged");
    let statement = format!(
        "CREATE EXTERNAL TABLE r (v DOUBLE[]) STORED AS SPARROW LOCATION '{ragged}' OPTIONS ('atoms' '2');
         INSERT INTO r VALUES ([1.0, 2.0]), ([3.0])"
    );
    assert_eq!(run(&["sql", "-c", &statement]).status.code(), Some(1));
    assert!(!Path::new(&ragged).join("archive.json").exists());
    let statement = statement.replace("([3.0])", "([3.0, 4.0])");
    assert!(run(&["sql", "-c", &statement]).status.success());
}

#[test]
fn a_given_dictionary_is_used() {
    let folder = Folder::new();
    let input = folder.traffic("a.parquet", "list", 1);
    let (dictionary, archive, inserted) =
        (folder.path("d.parquet"), folder.path("archive"), folder.path("inserted"));
    let train =
        format!("COPY (SELECT sparse_train(v, {{atoms: 7}}) AS dictionary FROM '{input}') TO '{dictionary}'");
    assert!(run(&["sql", "-c", &train]).status.success());
    ok(&["compress", &input, "-o", &archive, "--max-error", "0.5", "--dictionary", &dictionary]);
    let insert = format!(
        "CREATE EXTERNAL TABLE t (time TIMESTAMP, v DOUBLE[]) STORED AS SPARROW LOCATION '{inserted}'
           OPTIONS ('max_error' '0.5', 'dictionary' '{dictionary}');
         INSERT INTO t SELECT time, v FROM '{input}'"
    );
    let output = run(&["sql", "-c", &insert]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let used = |archive: &str| ok(&["inspect", archive])["dictionary"].clone();
    assert_eq!(used(&archive)["atoms"], 7);
    assert_eq!(used(&archive)["hash"], used(&inserted)["hash"]);
    let error = fails(&["compress", &input, "-o", &folder.path("x"), "--dictionary", &input]);
    assert!(error.contains("sparse_train"), "{error}");
}
