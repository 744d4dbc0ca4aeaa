//! The command on object stores: the same promises as on local files.

use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::commands::Folder;
use crate::s3_server::Server;

fn run(server: &Server, arguments: &[&str]) -> Output {
    server.sparrow().args(arguments).output().expect("it runs")
}

fn ok(server: &Server, arguments: &[&str]) -> Value {
    let output = run(server, &[arguments, &["--format", "json"]].concat());
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // Of several statements the last one's result.
    let last = || serde_json::from_str(text.lines().last().unwrap_or(""));
    serde_json::from_str(&text).or_else(|_| last()).unwrap_or_else(|_| panic!("JSON: {text}"))
}

fn fails(server: &Server, arguments: &[&str]) -> String {
    let output = run(server, arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn sql(server: &Server, statements: &str) -> Value {
    ok(server, &["sql", "-c", statements])
}

/// Puts a table of traffic into the store.
fn traffic(server: &Server, folder: &Folder, key: &str, seed: u64) -> String {
    let file = folder.traffic(key, "list", seed);
    server.put(key, std::fs::read(&file).expect("a table"));
    file
}

#[test]
fn a_table_goes_from_store_to_store_and_back() {
    let (server, folder) = (Server::start(), Folder::new());
    traffic(&server, &folder, "in/year=2024/a.parquet", 1);
    traffic(&server, &folder, "in/year=2025/a.parquet", 2);
    let hidden = traffic(&server, &folder, "in/_temporary/b.parquet", 3);
    server.put("in/.c.parquet", std::fs::read(hidden).expect("a table"));
    let report =
        ok(&server, &["compress", "s3://bucket/in", "-o", "s3://bucket/out/a", "--max-error", "0.5"]);
    assert_eq!(report["files"], 2);
    assert_eq!(
        server.objects("out/").into_keys().collect::<Vec<_>>(),
        ["a/archive.json", "a/dictionary.parquet", "a/year=2024/a.parquet", "a/year=2025/a.parquet"]
    );
    // The same bytes as in a local folder, but for when the tables were written.
    let local = folder.path("local");
    ok(&server, &["compress", &folder.path("in"), "-o", &local, "--max-error", "0.5"]);
    let bytes = std::fs::read(Path::new(&local).join("year=2025/a.parquet")).expect("a file");
    assert_eq!(server.objects("out/a/")["year=2025/a.parquet"], bytes);
    let verified = ok(&server, &["verify", "s3://bucket/out/a", "--against", "s3://bucket/in/"]);
    assert_eq!(verified["files"], 2);
    assert!(verified["max_error"].as_f64().expect("a number") <= 0.5);
    assert_eq!(ok(&server, &["inspect", "s3://bucket/out/a"])["rows"], 2 * 576);
    // Patterns, and the archive beside the tables in SQL.
    assert_eq!(
        ok(&server, &["compress", "s3://bucket/in/year=*/a.parquet", "-o", "s3://bucket/out/b"])["files"],
        2
    );
    let found = sql(
        &server,
        "CREATE EXTERNAL TABLE t STORED AS SPARROW LOCATION 's3://bucket/out/a';
         SELECT count(*) AS n, max(abs(t.v[1] - o.v[1])) <= 0.5 AS near FROM t
         JOIN 's3://bucket/in/year=2024/a.parquet' o ON t.time = o.time WHERE t.year = '2024'",
    );
    assert_eq!(found[0]["n"], 576);
    assert_eq!(found[0]["near"], true);
    // Back, to the store and to local files.
    ok(&server, &["decompress", "s3://bucket/out/a", "-o", "s3://bucket/back"]);
    ok(&server, &["decompress", "s3://bucket/out/a", "-o", &folder.path("back")]);
    for year in ["year=2024/a.parquet", "year=2025/a.parquet"] {
        let local = std::fs::read(Path::new(&folder.path("back")).join(year)).expect("a table");
        assert_eq!(server.objects("back/")[year], local);
    }
    assert_eq!(server.unfinished_uploads(), 0);
    let error = fails(&server, &["decompress", "s3://bucket/out/a", "-o", "s3://bucket/back"]);
    assert!(error.contains("s3://bucket/back exists already"), "{error}");
    let error = fails(&server, &["decompress", "s3://bucket/out/a", "-o", "s3://bucket/out", "--overwrite"]);
    assert!(error.contains("is not in the archive"), "{error}");
    // What can be read is restored, but never in place of more.
    server.put("out/a/year=2025/a.parquet", b"no longer a table".to_vec());
    let before = server.objects("back/");
    let error = fails(&server, &["decompress", "s3://bucket/out/a", "-o", "s3://bucket/back", "--overwrite"]);
    assert!(error.contains("year=2025/a.parquet") && error.contains("are kept"), "{error}");
    assert!(server.objects("back/") == before);
    let error = fails(&server, &["decompress", "s3://bucket/out/a", "-o", "s3://bucket/some"]);
    assert!(error.contains("1 of 2 files failed"), "{error}");
    assert_eq!(server.objects("some/").into_keys().collect::<Vec<_>>(), ["year=2024/a.parquet"]);
    assert_eq!(server.unfinished_uploads(), 0);
    let estimate = ok(&server, &["estimate", "s3://bucket/in", "--max-error", "1"]);
    assert_eq!(estimate["rows"], 2 * 576);
}

#[test]
fn tables_are_in_the_store_before_the_first_one_appears() {
    let (server, folder) = (Server::start(), Folder::new());
    for name in ["in/a.parquet", "in/b.parquet", "in/c.parquet", "in/d.parquet"] {
        folder.traffic(name, "list", 1);
    }
    let archive = folder.path("archive");
    ok(&server, &["compress", &folder.path("in"), "-o", &archive, "--max-error", "1"]);
    ok(&server, &["decompress", &archive, "-o", "s3://bucket/back"]);
    // Nothing waits in memory for the others.
    assert_eq!(server.most_empty_uploads(), 0);
    ok(&server, &["decompress", &archive, "-o", &folder.path("back")]);
    for (name, content) in server.objects("back/") {
        assert_eq!(std::fs::read(Path::new(&folder.path("back")).join(name)).expect("a table"), content);
    }
    // Where one does not appear, no other is left half done.
    server.refuse("again/b.parquet");
    let error = fails(&server, &["decompress", &archive, "-o", "s3://bucket/again"]);
    assert!(error.contains("again/b.parquet") && error.contains("1 of 4 tables"), "{error}");
    assert_eq!(server.objects("again/").into_keys().collect::<Vec<_>>(), ["a.parquet"]);
    assert_eq!(server.unfinished_uploads(), 0);
}

/// A part is five MiB.
#[test]
fn a_large_table_goes_to_a_store_in_parts() {
    let (server, folder) = (Server::start(), Folder::new());
    let (input, archive) = (folder.path("a.parquet"), folder.path("archive"));
    let rows = "SELECT i AS time, make_array(sin(i * i), cos(i * i), sin(i * i + 1), cos(i * i + 2)) AS v
                FROM (SELECT value AS i FROM generate_series(1, 500000))";
    let copied = run(&server, &["sql", "-c", &format!("COPY ({rows}) TO '{input}'")]);
    assert!(copied.status.success(), "{copied:?}");
    ok(&server, &["compress", &input, "-o", &archive, "--lossless", "--atoms", "4"]);
    for out in ["s3://bucket/back/a.parquet", &folder.path("back.parquet")] {
        ok(&server, &["decompress", &archive, "-o", out]);
    }
    let there = server.objects("back/").remove("a.parquet").expect("a table");
    assert!(there.len() > 2 * (5 << 20), "{}", there.len());
    assert!(there == std::fs::read(folder.path("back.parquet")).expect("a table"));
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let (server, folder) = (Server::start(), Folder::new());
    traffic(&server, &folder, "in/b.parquet", 1);
    // As no local folder can hold it.
    let table = server.objects("in/").remove("b.parquet").expect("a table");
    server.put("in/b.parquet/c.parquet", table);
    ok(&server, &["compress", "s3://bucket/in", "-o", "s3://bucket/archive", "--max-error", "1"]);
    let error = fails(&server, &["decompress", "s3://bucket/archive", "-o", &folder.path("back")]);
    assert!(error.contains("cannot make") && error.contains("b.parquet"), "{error}");
}

#[test]
fn rows_are_added_in_a_store() {
    let (server, folder) = (Server::start(), Folder::new());
    let first = traffic(&server, &folder, "a.parquet", 1);
    traffic(&server, &folder, "b.parquet", 2);
    ok(&server, &["compress", &first, "-o", "s3://bucket/archive", "--max-error", "0.5"]);
    ok(&server, &["append", "s3://bucket/archive", "s3://bucket/b.parquet"]);
    let error = fails(&server, &["append", "s3://bucket/archive", "s3://bucket/b.parquet"]);
    assert!(error.contains("b.parquet already"), "{error}");
    let found = sql(
        &server,
        "CREATE EXTERNAL TABLE t STORED AS SPARROW LOCATION 's3://bucket/archive';
         INSERT INTO t SELECT time, v FROM 's3://bucket/a.parquet' LIMIT 100;
         CREATE EXTERNAL TABLE n (time TIMESTAMP, v DOUBLE[]) STORED AS SPARROW LOCATION 's3://bucket/new';
         INSERT INTO n SELECT time, v FROM t;
         CREATE EXTERNAL TABLE p STORED AS PARQUET LOCATION 's3://bucket/b.parquet';
         SELECT (SELECT count(*) FROM t) AS t, (SELECT count(*) FROM n) AS n, (SELECT count(*) FROM p) AS p",
    );
    assert_eq!(found[0], serde_json::json!({"t": 2 * 576 + 100, "n": 2 * 576 + 100, "p": 576}));
    assert_eq!(ok(&server, &["verify", "s3://bucket/archive"])["files"], 3);
    assert_eq!(ok(&server, &["verify", "s3://bucket/new"])["files"], 1);
}

#[test]
fn a_file_of_a_web_server_is_an_input() {
    let (server, folder) = (Server::start(), Folder::new());
    traffic(&server, &folder, "a b.parquet", 1);
    let (web, archive) = (server.web("a%20b.parquet"), folder.path("archive"));
    ok(&server, &["compress", &web, "-o", &archive, "--max-error", "0.5"]);
    assert_eq!(ok(&server, &["verify", &archive, "--against", &web])["files"], 1);
    assert_eq!(sql(&server, &format!("SELECT count(*) AS n FROM '{web}'"))[0]["n"], 576);
    let missing = server.web("nosuch.parquet");
    let error = fails(&server, &["compress", &missing, "-o", &folder.path("other")]);
    assert!(error.contains(&missing), "{error}");
    let error = fails(&server, &["compress", &web, "-o", &server.web("archive")]);
    assert!(error.contains("web server"), "{error}");
}

#[test]
fn an_archive_in_a_store_is_replaced_only_when_the_new_one_is_whole() {
    let (server, folder) = (Server::start(), Folder::new());
    traffic(&server, &folder, "in/a.parquet", 1);
    traffic(&server, &folder, "in/b.parquet", 2);
    let target = "s3://bucket/archive";
    ok(&server, &["compress", "s3://bucket/in", "-o", target, "--max-error", "1"]);
    let before = server.objects("archive/");
    let error = fails(&server, &["compress", "s3://bucket/in", "-o", target]);
    assert!(error.contains("s3://bucket/archive exists already"), "{error}");
    let error = fails(&server, &["compress", "s3://bucket/in", "-o", target, "--overwrite", "--column", "x"]);
    assert!(error.contains('x'), "{error}");
    assert_eq!(server.objects("archive/"), before);
    // Until the new one is whole the old one is there, whenever it is looked at.
    let arguments = ["compress", "s3://bucket/in", "-o", target, "--overwrite", "--max-error", "0.25"];
    let child = server.sparrow().args(arguments).stdout(Stdio::null()).spawn();
    let mut child = child.expect("it runs");
    let mut looks = 0;
    while child.try_wait().expect("a child").is_none() {
        let now = server.objects("archive/");
        if now["archive.json"] == before["archive.json"] {
            assert!(before.iter().all(|(key, content)| now.get(key) == Some(content)));
            looks += 1;
        }
    }
    assert!(looks > 0);
    assert_eq!(ok(&server, &["inspect", target])["bound"]["max_error"], 0.25);
    assert_eq!(ok(&server, &["verify", target, "--against", "s3://bucket/in"])["files"], 2);
    // Nothing of the old one is left, and so again.
    assert_eq!(server.objects("archive/").len(), before.len());
    ok(&server, &["compress", "s3://bucket/in/a.parquet", "-o", target, "--overwrite", "--max-error", "1"]);
    assert_eq!(ok(&server, &["verify", target])["files"], 1);
    assert_eq!(server.objects("archive/").len(), 3);
    // What is no archive stays.
    server.put("precious/thing", b"x".to_vec());
    let error = fails(&server, &["compress", "s3://bucket/in", "-o", "s3://bucket/precious", "--overwrite"]);
    assert!(error.contains("not an archive"), "{error}");
    assert_eq!(server.objects("precious/").len(), 1);
}

#[test]
fn a_killed_job_goes_on_in_a_store() {
    let (server, folder) = (Server::start(), Folder::new());
    for file in 0..4 {
        traffic(&server, &folder, &format!("in/f{file}.parquet"), file);
    }
    let compress = |target: &str| {
        let target = format!("s3://bucket/{target}");
        let arguments = ["compress", "s3://bucket/in", "-o", &target, "--max-error", "0.2"];
        arguments.map(String::from)
    };
    let started = Instant::now();
    let undisturbed = compress("undisturbed");
    let undisturbed: Vec<&str> = undisturbed.iter().map(String::as_str).collect();
    ok(&server, &undisturbed);
    let whole = started.elapsed();
    let expected = server.objects("undisturbed/");
    for attempt in 0..12u32 {
        let target = format!("archive{attempt}");
        let arguments = compress(&target);
        let child = server.sparrow().args(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut child = child.expect("it runs");
        std::thread::sleep(Duration::from_secs_f64(whole.as_secs_f64() * f64::from(attempt * 7 % 12) / 12.0));
        child.kill().expect("kill -9");
        child.wait().expect("ended");
        let prefix = format!("{target}/");
        let left = server.objects(&prefix);
        if !left.contains_key("archive.json") {
            assert!(fails(&server, &["inspect", &format!("s3://bucket/{target}")]).contains("no archive"));
        }
        if !left.contains_key("archive.json") || left.contains_key("job.json") {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            ok(&server, &arguments);
        }
        assert_eq!(server.objects(&prefix), expected, "killed at moment {attempt}");
    }
    // What is finished is not done again.
    let finished = (0..20).any(|attempt| {
        let target = format!("finished{attempt}");
        let arguments = compress(&target);
        let child = server.sparrow().args(&arguments).stdout(Stdio::null()).spawn();
        let mut child = child.expect("it runs");
        while !server.objects(&format!("{target}/")).contains_key("f0.parquet") {
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().expect("kill -9");
        child.wait().expect("ended");
        if server.objects(&format!("{target}/")).contains_key("archive.json") {
            return false;
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        assert!(ok(&server, &arguments)["resumed"].as_u64().expect("a number") > 0);
        true
    });
    assert!(finished, "it was never stopped in the middle");
    // Another job is not mixed up with what is left of one.
    let mut child = server.sparrow().args(compress("other")).stderr(Stdio::null()).spawn().expect("it runs");
    while server.objects("other/").is_empty() {
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().expect("kill -9");
    child.wait().expect("ended");
    // Nor taken for one's own where another fails.
    let left = server.objects("other/");
    fails(&server, &["compress", "s3://bucket/in", "-o", "s3://bucket/other", "--column", "nosuch"]);
    assert_eq!(server.objects("other/"), left);
    // Killed between its last two steps.
    let done = server.objects("archive0/");
    done.into_iter().chain(left).for_each(|(name, content)| server.put(&format!("done/{name}"), content));
    let done: Vec<String> = compress("done").to_vec();
    let done: Vec<&str> = done.iter().map(String::as_str).collect();
    assert_eq!(ok(&server, &done)["resumed"], 4);
    assert_eq!(server.objects("done/"), expected);
    assert!(fails(&server, &done).contains("s3://bucket/done exists already"));
    // Archives below a folder are no tables, and nothing is written into one.
    let all = ["compress", "s3://bucket", "-o", &folder.path("all"), "--max-error", "1"];
    let output = run(&server, &all);
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("archive0, archive1"), "{output:?}");
    assert_eq!(ok(&server, &["inspect", &folder.path("all")])["files"], 4);
    let inside = ["decompress", "s3://bucket/done", "-o", "s3://bucket/done/tables"];
    assert!(fails(&server, &inside).contains("inside the archive"));
    server.put("other/precious", b"of someone else".to_vec());
    let other = ["compress", "s3://bucket/in/f1.parquet", "-o", "s3://bucket/other", "--max-error", "0.3"];
    let message = fails(&server, &other);
    assert!(message.contains("unfinished job") && message.contains("--overwrite"), "{message}");
    assert!(server.objects("other/").contains_key("precious"));
    ok(&server, &[other.as_slice(), &["--overwrite"]].concat());
    assert_eq!(server.objects("other/").len(), 3);
    assert_eq!(ok(&server, &["verify", "s3://bucket/other"])["files"], 1);
}

#[test]
fn what_is_missing_is_named() {
    let (server, folder) = (Server::start(), Folder::new());
    let archive = folder.path("archive");
    for (arguments, expected) in [
        (vec!["compress", "s3://bucket/no.parquet", "-o", &archive], "s3://bucket/no.parquet"),
        (vec!["compress", "s3://bucket/no*.parquet", "-o", &archive], "s3://bucket/no*.parquet"),
        (vec!["compress", "s3://nosuch/a.parquet", "-o", &archive], "s3://nosuch/a.parquet"),
        (vec!["inspect", "s3://bucket/no"], "s3://bucket/no"),
        (vec!["verify", "s3://nosuch/no"], "s3://nosuch/no"),
        (vec!["sql", "-c", "SELECT * FROM 's3://bucket/no.parquet'"], "bucket/no.parquet"),
        (vec!["sql", "-c", "CREATE EXTERNAL TABLE t STORED AS SPARROW LOCATION 's3://bucket/no'"], "no"),
        (vec!["compress", "nosuch://bucket/a.parquet", "-o", &archive], "nosuch://bucket"),
    ] {
        let error = fails(&server, &arguments);
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
    assert!(!Path::new(&archive).exists());
}
