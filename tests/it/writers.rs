//! Several processes write to one archive at the same moment, and nothing is lost.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::archive_command::contents;
use crate::commands::{Folder, fails, ok, run, sql};
use crate::support::sparrow;

/// Runs commands at the same moment; all must succeed.
fn all_succeed(commands: impl Iterator<Item = Command>) {
    let start =
        |mut command: Command| command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it runs");
    for child in commands.map(start).collect::<Vec<Child>>() {
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

fn appending(mut command: Command, archive: &str, inputs: &[String]) -> Command {
    command.args(["append", archive]).args(inputs);
    command
}

fn inserting(mut command: Command, archive: &str, input: &str) -> Command {
    let table = format!(
        "CREATE EXTERNAL TABLE t (time TIMESTAMP, v DOUBLE[]) STORED AS SPARROW LOCATION '{archive}'"
    );
    let statements =
        format!("{table} OPTIONS ('max_error' '0.5'); INSERT INTO t SELECT time, v FROM '{input}'");
    command.args(["sql", "-c", &statements]);
    command
}

const WRITERS: usize = 6;

#[test]
fn files_that_are_added_at_the_same_moment_are_all_there() {
    let folder = Folder::new();
    let first = folder.traffic("first.parquet", "list", 0);
    let archive = folder.path("archive");
    ok(&["compress", &first, "-o", &archive, "--max-error", "0.5"]);
    let tables: Vec<String> =
        (0..2 * WRITERS).map(|i| folder.traffic(&format!("t{i}.parquet"), "list", 1 + i as u64)).collect();
    all_succeed(tables.chunks(2).map(|inputs| appending(sparrow(), &archive, inputs)));
    let mut against = vec!["verify", &archive, "--against", &first];
    against.extend(tables.iter().map(String::as_str));
    let verified = ok(&against);
    assert_eq!(verified["files"], 1 + 2 * WRITERS, "{verified}");
    assert_eq!(ok(&["inspect", &archive])["history"].as_array().map(Vec::len), Some(1 + WRITERS));
}

#[test]
fn the_same_name_from_two_writers_is_one_file() {
    let folder = Folder::new();
    let first = folder.traffic("first.parquet", "list", 0);
    let archive = folder.path("archive");
    ok(&["compress", &first, "-o", &archive, "--max-error", "0.5"]);
    let tables: Vec<String> =
        (0..WRITERS).map(|i| folder.traffic(&format!("{i}/same.parquet"), "list", 1 + i as u64)).collect();
    let start = |table: &String| {
        let mut command = appending(sparrow(), &archive, std::slice::from_ref(table));
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it runs")
    };
    let children: Vec<Child> = tables.iter().map(start).collect();
    let mut winners = Vec::new();
    for (child, table) in children.into_iter().zip(&tables) {
        let output = child.wait_with_output().expect("it ends");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        match output.status.success() {
            true => winners.push(table),
            false => assert!(error.contains("same.parquet already"), "{error}"),
        }
    }
    let [winner] = winners[..] else { panic!("{winners:?} were all added") };
    let verified = ok(&["verify", &archive, "--against", &first, winner]);
    assert_eq!(verified["files"], 2, "{verified}");
}

#[test]
fn rows_that_are_inserted_at_the_same_moment_are_all_there() {
    let folder = Folder::new();
    let input = folder.traffic("a.parquet", "list", 1);
    let archive = folder.path("archive");
    // The same rows each time, and the first ones begin the archive.
    for round in 1..=2 {
        all_succeed((0..WRITERS).map(|_| inserting(sparrow(), &archive, &input)));
        let verified = ok(&["verify", &archive]);
        assert_eq!(verified["files"], round * WRITERS, "{verified}");
        let rows = sql(&format!(
            "CREATE EXTERNAL TABLE t STORED AS SPARROW LOCATION '{archive}'; SELECT count(v) AS n FROM t"
        ));
        assert_eq!(rows[0]["n"], round * WRITERS * 576);
    }
}

#[test]
fn dictionaries_that_are_learned_at_the_same_moment_do_not_collide() {
    let folder = Folder::new();
    let table = folder.path("t.parquet");
    let days = |name: &str, from: usize, to: usize| {
        let part = folder.path(name);
        let statement = format!(
            "COPY (SELECT * FROM '{table}' WHERE time >= TIMESTAMP '2024-01-01' + INTERVAL '{from} days'
               AND time < TIMESTAMP '2024-01-01' + INTERVAL '{to} days' ORDER BY time) TO '{part}'"
        );
        assert!(run(&["sql", "-c", &statement]).status.success());
        part
    };
    let generate = ["--sensors", "48", "--days", "12", "--seed", "5", "--drift-day", "6", "-o", &table];
    assert!(run(&[&["generate", "traffic"][..], &generate].concat()).status.success());
    let (first, b, c) = (days("a.parquet", 0, 6), days("b.parquet", 6, 9), days("c.parquet", 9, 12));
    let archive = folder.path("archive");
    ok(&["compress", &first, "-o", &archive, "--target-nmae", "0.03"]);
    all_succeed([&b, &c].into_iter().map(|input| {
        let mut command = appending(sparrow(), &archive, std::slice::from_ref(input));
        command.arg("--retrain-on-drift");
        command
    }));
    let inspected = ok(&["inspect", &archive]);
    let files = inspected["data_files"].as_array().expect("files");
    let mut generations: Vec<u64> = files.iter().filter_map(|file| file["generation"].as_u64()).collect();
    generations.sort_unstable();
    assert_eq!(generations, [0, 1, 2], "{inspected}");
    assert_eq!(inspected["promises"].as_array().map(Vec::len), Some(3));
    assert_eq!(ok(&["verify", &archive, "--against", &first, &b, &c])["files"], 3);
    assert!(fails(&["append", &archive, &c]).contains("c.parquet already"));
}

/// Waits until something is so.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(60), "{what}: never");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn copy_to(from: &Path, to: &Path) {
    for (name, content) in contents(from) {
        let path = to.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, content).expect("written");
    }
}

#[cfg(unix)]
#[test]
fn an_archive_that_is_changed_while_another_is_made_is_kept() {
    let folder = Folder::new();
    let (first, second) = (folder.traffic("a.parquet", "list", 1), folder.traffic("b.parquet", "list", 2));
    let (archive, grown) = (folder.path("archive"), folder.path("grown"));
    let (archive, grown) = (Path::new(&archive), Path::new(&grown));
    ok(&["compress", &first, "-o", &folder.path("archive"), "--max-error", "1"]);
    copy_to(archive, grown);
    ok(&["append", &folder.path("grown"), &second]);
    let grown = contents(grown);
    // Another one adds rows when the job has begun, and is not done before the job is.
    let lock = File::create(archive.join("archive.lock")).expect("a lock");
    lock.lock().expect("locked");
    let mut replacing = sparrow();
    replacing.args(["compress", &first, "-o", &folder.path("archive"), "--max-error", "2", "--overwrite"]);
    let replacing = replacing.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it runs");
    let staging = folder.staging("archive");
    wait_until("the job is done", || staging.join("archive.json").exists());
    grown.iter().filter(|(name, _)| !name.ends_with("archive.lock")).for_each(|(name, content)| {
        std::fs::write(archive.join(name), content).expect("written");
    });
    drop(lock);
    let output = replacing.wait_with_output().expect("it ends");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("was changed while another was made in its place; it is kept"), "{told}");
    assert_eq!(contents(archive), grown);
    // What it has done is not done again.
    let again = ["compress", &first, "-o", &folder.path("archive"), "--max-error", "2", "--overwrite"];
    assert_eq!(ok(&again)["resumed"], 1);
    assert_eq!(ok(&["verify", &folder.path("archive"), "--against", &first])["files"], 1);
}

#[cfg(unix)]
#[test]
fn the_lock_of_an_archive_that_is_gone_is_worth_nothing() {
    let folder = Folder::new();
    let (first, second) = (folder.traffic("a.parquet", "list", 1), folder.traffic("b.parquet", "list", 2));
    let (archive, other) = (folder.path("archive"), folder.path("other"));
    ok(&["compress", &first, "-o", &archive, "--max-error", "1"]);
    copy_to(Path::new(&archive), Path::new(&other));
    let lock_of = |folder: &str| {
        let lock = File::create(Path::new(folder).join("archive.lock")).expect("a lock");
        lock.lock().expect("locked");
        lock
    };
    let (old, new) = (lock_of(&archive), lock_of(&other));
    let mut command = appending(sparrow(), &archive, std::slice::from_ref(&second));
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it runs");
    let is_made =
        || contents(Path::new(&archive)).keys().any(|name| name.extension() == Some("part".as_ref()));
    wait_until("the file is written", is_made);
    std::thread::sleep(Duration::from_millis(300));
    // The same archive in another folder, in which somebody else is writing.
    std::fs::rename(&archive, folder.path("gone")).expect("moved");
    std::fs::rename(&other, &archive).expect("moved");
    let before = std::fs::read(Path::new(&archive).join("archive.json")).expect("read");
    drop(old);
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(std::fs::read(Path::new(&archive).join("archive.json")).expect("read"), before);
    drop(new);
    // What it has made went with the old one.
    let output = child.wait_with_output().expect("it ends");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && told.contains("was replaced since it was opened"), "{told}");
    assert_eq!(std::fs::read(Path::new(&archive).join("archive.json")).expect("read"), before);
    ok(&["append", &archive, &second]);
    assert_eq!(ok(&["verify", &archive, "--against", &first, &second])["files"], 2);
}

#[cfg(feature = "cloud")]
#[test]
fn writers_to_an_object_store_are_kept_apart() {
    let (server, folder) = (crate::s3_server::Server::start(), Folder::new());
    let input = folder.traffic("a.parquet", "list", 1);
    let files_and_rows = |archive: &str| {
        let output =
            server.sparrow().args(["verify", archive, "--format", "json"]).output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let verified: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        (verified["files"].as_u64(), verified["rows"].as_u64())
    };
    let count = WRITERS as u64;
    let inserted = "s3://bucket/inserted";
    all_succeed((0..WRITERS).map(|_| inserting(server.sparrow(), inserted, &input)));
    assert_eq!(files_and_rows(inserted), (Some(count), Some(576 * count)));
    let appended = "s3://bucket/appended";
    let mut begin = server.sparrow();
    begin.args(["compress", &input, "-o", appended, "--max-error", "0.5"]);
    all_succeed([begin].into_iter());
    let tables: Vec<String> =
        (0..WRITERS).map(|i| folder.traffic(&format!("t{i}.parquet"), "list", 1 + i as u64)).collect();
    all_succeed(
        tables.iter().map(|table| appending(server.sparrow(), appended, std::slice::from_ref(table))),
    );
    assert_eq!(files_and_rows(appended), (Some(count + 1), Some(576 * (count + 1))));
}
