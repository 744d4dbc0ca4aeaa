//! Which files a job takes, and what becomes of those that are there already.

use std::path::Path;

use datafusion::parquet::data_type::{DoubleType, Int96, Int96Type};
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::parquet::file::writer::SerializedFileWriter;
use datafusion::parquet::schema::parser::parse_message_type;

use crate::archive_command::contents;
use crate::commands::{Folder, fails, ok, run, sql};
use crate::support::sparrow;

fn stderr(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_folder_that_grows_is_added_again_and_again() {
    let folder = Folder::new();
    let [a, b, c, d] = [1, 2, 3, 4].map(|seed| folder.traffic(&format!("{seed}.parquet"), "list", seed));
    let archive = folder.path("archive");
    ok(&["compress", &a, &b, "-o", &archive, "--max-error", "1"]);
    // What is there is named, and the rest goes on.
    let output = run(&["append", &archive, &a, &c]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("1.parquet already"), "{output:?}");
    assert_eq!(ok(&["inspect", &archive])["rows"], 3 * 576);
    // Or it is passed over.
    let grown = [&a, &b, &c, &d].map(String::as_str);
    for (added, skipped) in [(1, 3), (0, 4)] {
        let report = ok(&[&["append", &archive][..], &grown, &["--skip-existing"]].concat());
        assert_eq!((&report["files"], &report["skipped"]), (&added.into(), &skipped.into()));
    }
    ok(&[&["verify", &archive, "--against"][..], &grown].concat());
    // What has the name of another table is not what is there.
    std::fs::copy(&a, &d).expect("a copy");
    let error = fails(&["append", &archive, &d, "--skip-existing"]);
    assert!(error.contains("made from another table"), "{error}");
}

#[test]
fn files_that_are_left_out_are_told() {
    let folder = Folder::new();
    let names = [
        "in/a.parquet",
        "in/B.PARQUET",
        "in/_c.parquet",
        "in/d.pq",
        "in/below/e.parquet",
        "in/.old/f/g.parquet",
    ];
    for name in names {
        folder.traffic(name, "list", name.len() as u64);
    }
    ok(&["compress", &folder.path("in/a.parquet"), "-o", &folder.path("in/arch"), "--max-error", "1"]);
    #[cfg(unix)]
    std::os::unix::fs::symlink(folder.path("in"), folder.path("in/below/loop")).expect("a link");
    let (input, archive) = (folder.path("in"), folder.path("archive"));
    let told = stderr(&["compress", &input, "-o", &archive, "--max-error", "1"]);
    for name in ["_c.parquet", "d.pq", "arch", ".old"] {
        assert!(told.contains(name), "{name}: {told}");
    }
    let report = ok(&["verify", &archive, "--against", &input]);
    assert_eq!(report["files"], 3);
    assert!(stderr(&["verify", &archive, "--against", &input]).contains("d.pq"));
    // A file is not taken twice under two names.
    let error = fails(&["compress", &input, &folder.path("in/below"), "-o", &folder.path("twice")]);
    assert!(error.contains("given twice"), "{error}");
}

#[test]
fn an_archive_is_replaced_only_by_one_that_has_all_files() {
    let folder = Folder::new();
    folder.traffic("in/a.parquet", "list", 1);
    let second = folder.traffic("in/b.parquet", "list", 2);
    let (input, archive) = (folder.path("in"), folder.path("archive"));
    ok(&["compress", &input, "-o", &archive, "--max-error", "1"]);
    let before = contents(Path::new(&archive));
    std::fs::write(&second, "no longer a table").expect("damage");
    let error = fails(&["compress", &input, "-o", &archive, "--max-error", "0.5", "--overwrite"]);
    assert!(error.contains("b.parquet") && error.contains("is kept"), "{error}");
    assert_eq!(contents(Path::new(&archive)), before);
    assert!(!folder.staging("archive").exists());
}

#[test]
fn tables_of_others_are_not_replaced_by_a_folder() {
    let folder = Folder::new();
    let input = folder.traffic("a.parquet", "list", 1);
    let (archive, back) = (folder.path("archive"), folder.path("back"));
    ok(&["compress", &input, "-o", &archive, "--max-error", "1"]);
    ok(&["decompress", &archive, "-o", &back]);
    ok(&["decompress", &archive, "-o", &back, "--overwrite"]);
    let other = folder.traffic("back/2020/other.parquet", "list", 2);
    let error = fails(&["decompress", &archive, "-o", &back, "--overwrite"]);
    assert!(error.contains("other.parquet is not in the archive"), "{error}");
    assert!(Path::new(&other).is_file());
}

#[test]
fn originals_are_not_replaced_by_approximations() {
    let folder = Folder::new();
    let a = folder.traffic("in/a.parquet", "list", 1);
    folder.traffic("in/year=2024/b.parquet", "list", 2);
    let originals = folder.path("in");
    let (lossy, lossless) = (folder.path("lossy"), folder.path("lossless"));
    ok(&["compress", &originals, "-o", &lossy, "--max-error", "1"]);
    ok(&["compress", &originals, "-o", &lossless, "--lossless"]);
    let before = contents(Path::new(&originals));
    let one = folder.path("one");
    ok(&["compress", &a, "-o", &one, "--max-error", "1"]);
    for (archive, target) in [(&lossy, &originals), (&one, &a)] {
        let error = fails(&["decompress", archive, "-o", target, "--overwrite"]);
        assert!(error.contains("--replace-originals") && error.contains("a.parquet"), "{error}");
        assert_eq!(contents(Path::new(&originals)), before);
    }
    // Tables that only have their names, and what comes back as it was.
    let back = folder.path("back");
    ok(&["decompress", &lossy, "-o", &back]);
    ok(&["decompress", &lossy, "-o", &back, "--overwrite"]);
    ok(&["decompress", &lossless, "-o", &originals, "--overwrite"]);
    ok(&["verify", &lossless, "--against", &originals]);
    before.iter().for_each(|(name, content)| put(&Path::new(&originals).join(name), content));
    ok(&["decompress", &lossy, "-o", &originals, "--overwrite", "--replace-originals"]);
    assert_eq!(contents(Path::new(&originals)), contents(Path::new(&back)));
}

#[test]
fn a_table_is_known_by_its_values() {
    use datafusion::parquet::basic::Compression;
    use datafusion::parquet::file::properties::EnabledStatistics;
    let folder = Folder::new();
    let table = folder.path("a.parquet");
    // Footers of such tables say nothing of values.
    let write = |of: &dyn Fn(f64) -> f64| -> Vec<u8> {
        let schema = parse_message_type("message m { required double x; }").expect("a schema");
        let properties = WriterProperties::builder()
            .set_statistics_enabled(EnabledStatistics::None)
            .set_compression(Compression::UNCOMPRESSED)
            .set_dictionary_enabled(false);
        let mut file = Vec::new();
        let properties = properties.build().into();
        let mut writer = SerializedFileWriter::new(&mut file, schema.into(), properties).expect("a writer");
        let mut group = writer.next_row_group().expect("a row group");
        let mut column = group.next_column().expect("columns").expect("a column");
        let values: Vec<f64> = (0..2000).map(|i| of(f64::from(i))).collect();
        column.typed::<DoubleType>().write_batch(&values, None, None).expect("written");
        column.close().expect("closed");
        group.close().expect("closed");
        writer.close().expect("closed");
        std::fs::write(&table, &file).expect("written");
        file.split_off(file.len() - 100)
    };
    let archive = folder.path("archive");
    let footer = write(&|i| (0.01 * i).sin());
    ok(&["compress", &table, "-o", &archive, "--column", "x", "--window", "20", "--max-error", "0.01"]);
    assert_eq!(ok(&["append", &archive, &table, "--skip-existing"])["skipped"], 1);
    assert_eq!(write(&|i| (0.02 * i).cos()), footer);
    let error = fails(&["append", &archive, &table, "--skip-existing"]);
    assert!(error.contains("made from another table"), "{error}");
}

#[test]
fn what_is_stored_as_it_was_is_read_once() {
    let folder = Folder::new();
    let chance = |i: usize| format!("abs(sin(value * 12.9898 + {i} * 78.233) * 43758.5453) % 1.0");
    let noise = |name: &str, first: usize| {
        let table = folder.path(name);
        let values: Vec<String> = (first..first + 20).map(chance).collect();
        let values = values.join(", ");
        let statement =
            format!("COPY (SELECT value AS i, [{values}] AS v FROM generate_series(1, 2000)) TO '{table}'");
        assert!(run(&["sql", "-c", &statement]).status.success());
        table
    };
    let (first, good, bad) = (noise("a.parquet", 0), noise("b.parquet", 20), noise("c.parquet", 40));
    let archive = folder.path("archive");
    assert!(ok(&["compress", &first, "-o", &archive])["does_not_pay"].is_string());
    // The header of the first page.
    let mut damaged = std::fs::read(&bad).expect("bytes");
    damaged[4..16].fill(0xff);
    std::fs::write(&bad, damaged).expect("damage");
    let output = run(&["append", &archive, &good, &bad]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("c.parquet"), "{told}");
    assert!(fails(&["append", &archive, &bad]).contains("c.parquet"));
    assert_eq!(ok(&["verify", &archive, "--against", &first, &good])["files"], 2);
}

#[test]
fn tables_are_restored_beside_one_that_is_damaged() {
    let folder = Folder::new();
    for seed in [1, 2, 3] {
        folder.traffic(&format!("in/{seed}.parquet"), "list", seed);
    }
    let (archive, back) = (folder.path("archive"), folder.path("back"));
    ok(&["compress", &folder.path("in"), "-o", &archive, "--max-error", "1"]);
    ok(&["decompress", &archive, "-o", &folder.path("whole")]);
    std::fs::write(Path::new(&archive).join("2.parquet"), "no longer a table").expect("damage");
    let output = run(&["decompress", &archive, "-o", &back, "--format", "json"]);
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("2.parquet") && told.contains("1 of 3 files failed"), "{told}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a report");
    assert_eq!((&report["files"], &report["rows"]), (&2.into(), &1152.into()));
    assert_eq!(report["failed"], serde_json::json!(["2.parquet"]));
    let mut whole = contents(Path::new(&folder.path("whole")));
    whole.retain(|name, _| !name.ends_with("2.parquet"));
    assert_eq!(contents(Path::new(&back)), whole);
    // Tables that are there are not given up for fewer, and one file has all rows or is not there.
    let before = contents(Path::new(&folder.path("whole")));
    let error = fails(&["decompress", &archive, "-o", &folder.path("whole"), "--overwrite"]);
    assert!(error.contains("are kept"), "{error}");
    assert_eq!(contents(Path::new(&folder.path("whole"))), before);
    let one = folder.path("one.parquet");
    assert!(fails(&["decompress", &archive, "-o", &one]).contains("2.parquet"));
    assert!(!Path::new(&one).exists());
}

#[test]
fn partitions_that_are_no_columns_are_told() {
    let folder = Folder::new();
    folder.traffic("in/a.parquet", "list", 1);
    folder.traffic("in/year=2024/b.parquet", "list", 2);
    let (input, archive) = (folder.path("in"), folder.path("archive"));
    let told = stderr(&["compress", &input, "-o", &archive, "--max-error", "1"]);
    assert!(told.contains("year=2024/b.parquet"), "{told}");
    std::fs::remove_file(folder.path("in/a.parquet")).expect("removed");
    let told = stderr(&["compress", &input, "-o", &archive, "--max-error", "1", "--overwrite"]);
    assert!(!told.contains("partitions"), "{told}");
}

#[test]
fn values_of_partitions_are_decoded() {
    let folder = Folder::new();
    folder.traffic("in/at=10%3A00/a.parquet", "list", 1);
    folder.traffic("in/at=11%3A00/a.parquet", "list", 2);
    let archive = folder.path("archive");
    ok(&["compress", &folder.path("in"), "-o", &archive, "--max-error", "1"]);
    let found = sql(&format!("SELECT count(*) AS n FROM '{archive}/' WHERE at = '10:00'"));
    assert_eq!(found[0]["n"], 576);
    let back = folder.path("back");
    ok(&["decompress", &archive, "-o", &back]);
    assert!(Path::new(&back).join("at=10%3A00/a.parquet").is_file());
}

#[test]
fn a_folder_may_be_called_like_a_file() {
    let folder = Folder::new();
    let (input, archive) = (folder.traffic("a.parquet", "list", 1), folder.path("traffic.v1"));
    ok(&["compress", &input, "-o", &archive, "--max-error", "1"]);
    assert_eq!(sql(&format!("SELECT count(*) AS n FROM '{archive}'"))[0]["n"], 576);
}

/// Runs `compress` until it has said in `job.json` what it does, and kills it.
fn killed_early(folder: &Folder, arguments: &[&str], name: &str) -> String {
    let job = folder.staging(name).join("job.json");
    for _ in 0..20 {
        let mut child = sparrow().args(arguments).spawn().expect("it runs");
        while !job.exists() && child.try_wait().expect("a state").is_none() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        child.kill().expect("kill -9");
        child.wait().expect("an end");
        if let Ok(text) = std::fs::read_to_string(&job) {
            return text;
        }
        let _ = std::fs::remove_dir_all(folder.path(name));
    }
    panic!("the job was always faster");
}

#[test]
fn a_job_that_was_killed_when_all_was_done_is_not_done_again() {
    let folder = Folder::new();
    let input = folder.traffic("a.parquet", "list", 1);
    let (done, archive) = (folder.path("done"), folder.path("archive"));
    let job = killed_early(&folder, &["compress", &input, "-o", &archive, "--max-error", "1"], "archive");
    ok(&["compress", &input, "-o", &done, "--max-error", "1"]);
    let expected = contents(Path::new(&done));
    // As it is when a job is killed before its last rename.
    let staging = folder.staging("archive");
    std::fs::remove_dir_all(&staging).expect("removed");
    std::fs::rename(&done, &staging).expect("moved");
    std::fs::write(staging.join("job.json"), &job).expect("written");
    let report = ok(&["compress", &input, "-o", &archive, "--max-error", "1"]);
    assert_eq!((&report["files"], &report["resumed"]), (&1.into(), &1.into()));
    assert_eq!(contents(Path::new(&archive)), expected);
    // When it is in place, and its job not yet known to have ended.
    std::fs::write(Path::new(&archive).join("job.json"), &job).expect("written");
    let report = ok(&["compress", &input, "-o", &archive, "--max-error", "1"]);
    assert_eq!((&report["files"], &report["resumed"]), (&1.into(), &1.into()));
    assert_eq!(contents(Path::new(&archive)), expected);
    std::fs::write(Path::new(&archive).join("job.json"), &job).expect("written");
    let error = fails(&["compress", &input, "-o", &archive, "--max-error", "2"]);
    assert!(error.contains("exists already"), "{error}");
    // One that replaces another: with all done beside it, between its two renames, and after them.
    let old = folder.path(".archive.sparrow-old");
    let other = ["compress", &input, "-o", &archive, "--max-error", "2", "--overwrite"];
    let replace = ["compress", &input, "-o", &archive, "--max-error", "1", "--overwrite"];
    for moment in 0..4 {
        ok(&other);
        copy(Path::new(&archive), Path::new(&folder.path("other")));
        let (whole, aside) = match moment {
            0 => (staging.clone(), archive.clone()),
            1 => (staging.clone(), old.clone()),
            // Where the two can change places at once.
            2 => (archive.clone().into(), staging.display().to_string()),
            _ => (archive.clone().into(), old.clone()),
        };
        std::fs::remove_dir_all(&archive).expect("removed");
        expected.iter().for_each(|(name, content)| put(&whole.join(name), content));
        put(&whole.join("job.json"), job.as_bytes());
        std::fs::rename(folder.path("other"), &aside).expect("moved");
        if aside == old {
            put(&Path::new(&old).join(".sparrow-job"), b"");
        }
        let report = ok(&replace);
        assert_eq!((&report["files"], &report["resumed"]), (&1.into(), &1.into()), "moment {moment}");
        assert_eq!(contents(Path::new(&archive)), expected);
        assert!(!Path::new(&old).exists() && !staging.exists(), "moment {moment}");
    }
}

pub fn put(path: &Path, content: &[u8]) {
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    std::fs::write(path, content).expect("written");
}

pub fn copy(from: &Path, to: &Path) {
    contents(from).iter().for_each(|(name, content)| put(&to.join(name), content));
}

/// A file that has failed has not been forgotten when the job goes on.
#[test]
fn a_job_that_was_killed_when_all_was_done_still_tells_of_failures() {
    let folder = Folder::new();
    for name in ["in/a.parquet", "in/b.parquet"] {
        folder.traffic(name, "list", 1);
    }
    folder.traffic("in/other.parquet", "wide", 1);
    let (input, archive) = (folder.path("in"), folder.path("archive"));
    let arguments = ["compress", &input, "-o", &archive, "--max-error", "1", "--format", "json"];
    let job = killed_early(&folder, &arguments, "archive");
    assert!(fails(&arguments).contains("1 of 3 files failed"));
    let expected = contents(Path::new(&archive));
    let staging = folder.staging("archive");
    std::fs::rename(&archive, &staging).expect("moved");
    std::fs::write(staging.join("job.json"), job).expect("written");
    copy(&staging, Path::new(&folder.path("kept")));
    let output = run(&arguments);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&report["files"], &report["resumed"]), (&2.into(), &2.into()));
    assert_eq!(report["failed"], serde_json::json!(["other.parquet"]));
    assert_eq!(contents(Path::new(&archive)), expected);
    // Nor does it replace an archive that has all of its files.
    std::fs::rename(folder.path("kept"), &staging).expect("moved");
    let error = fails(&[arguments.as_slice(), &["--overwrite"]].concat());
    assert!(error.contains("is kept") && error.contains("other.parquet"), "{error}");
    assert_eq!(contents(Path::new(&archive)), expected);
}

#[test]
fn an_unfinished_job_is_not_discarded_without_a_word() {
    let folder = Folder::new();
    let (input, archive) = (folder.traffic("a.parquet", "list", 1), folder.path("archive"));
    killed_early(&folder, &["compress", &input, "-o", &archive, "--max-error", "1"], "archive");
    let told = stderr(&["compress", &input, "-o", &archive, "--max-error", "2"]);
    assert!(
        told.contains("unfinished job with other inputs or settings") && told.contains("discarded"),
        "{told}"
    );
    killed_early(&folder, &["compress", &input, "-o", &folder.path("other"), "--max-error", "1"], "other");
    let told = stderr(&["compress", &input, "-o", &folder.path("other"), "--max-error", "1"]);
    assert!(!told.contains("discarded"), "{told}");
}

#[cfg(unix)]
#[test]
fn links_are_followed_and_kept() {
    let folder = Folder::new();
    let input = folder.traffic("a.parquet", "list", 1);
    let (archive, tables) = (folder.path("archive"), folder.path("tables"));
    for name in ["disk/archive", "disk/tables"] {
        std::fs::create_dir_all(folder.path(name)).expect("a folder");
    }
    std::os::unix::fs::symlink(folder.path("disk/archive"), &archive).expect("a link");
    std::os::unix::fs::symlink(folder.path("disk/tables"), &tables).expect("a link");
    std::os::unix::fs::symlink(folder.path("nowhere"), folder.path("broken")).expect("a link");
    for more in [&[][..], &["--overwrite"]] {
        ok(&[&["compress", &input, "-o", &archive, "--max-error", "1"], more].concat());
        ok(&[&["decompress", &archive, "-o", &tables], more].concat());
        assert!(Path::new(&archive).is_symlink() && Path::new(&tables).is_symlink());
        assert_eq!(contents(Path::new(&folder.path("disk/archive"))).len(), 3);
        assert_eq!(contents(Path::new(&folder.path("disk/tables"))).len(), 1);
    }
    assert!(fails(&["decompress", &archive, "-o", &folder.path("broken")]).contains("link"));
}

#[test]
fn another_original_is_not_taken_for_damage() {
    let folder = Folder::new();
    let (right, wrong) = (folder.traffic("a.parquet", "list", 1), folder.path("b/a.parquet"));
    let archive = folder.path("archive");
    ok(&["compress", &right, "-o", &archive, "--max-error", "1"]);
    std::fs::create_dir(folder.path("b")).expect("a folder");
    let later = format!("SELECT time + INTERVAL '1 hour' AS time, v FROM '{right}'");
    for (rows, expected) in
        [(later.clone(), "column time differs"), (format!("{later} LIMIT 9"), "the original 9")]
    {
        let output = run(&["sql", "-c", &format!("COPY ({rows}) TO '{wrong}'")]);
        assert!(output.status.success(), "{output:?}");
        let output = run(&["verify", &archive, "--against", &wrong]);
        let told =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains(expected) && !told.contains("corrupt"), "{told}");
    }
}

#[cfg(unix)]
#[test]
fn two_jobs_do_not_make_the_same_archive() {
    let folder = Folder::new();
    let input = folder.traffic("a.parquet", "list", 1);
    let staging = folder.staging("archive");
    std::fs::create_dir(&staging).expect("a folder");
    let other = std::fs::File::open(&staging).expect("opened");
    other.lock().expect("locked");
    let archive = folder.path("archive");
    let error = fails(&["compress", &input, "-o", &archive, "--max-error", "1"]);
    assert!(error.contains("another job"), "{error}");
    drop(other);
    ok(&["compress", &input, "-o", &archive, "--max-error", "1"]);
}

#[test]
fn without_a_bound_errors_are_told() {
    let folder = Folder::new();
    let input = folder.path("t.parquet");
    let made = ["generate", "traffic", "--sensors", "40", "--days", "7", "-o", &input];
    assert!(run(&made).status.success());
    let told = stderr(&["compress", &input, "-o", &folder.path("a")]);
    assert!(told.contains("--max-error E promises"), "{told}");
    let told = stderr(&["compress", &input, "-o", &folder.path("b"), "--max-error", "1"]);
    assert!(!told.contains("--max-error E promises"), "{told}");
}

/// A table with INT96 timestamps on these days.
fn with_int96(path: &str, days: &[u32]) {
    let schema = parse_message_type("message m { required int96 t; required double x; }").expect("a schema");
    let file = std::fs::File::create(path).expect("a file");
    let properties = WriterProperties::builder().build().into();
    let mut writer = SerializedFileWriter::new(file, schema.into(), properties).expect("a writer");
    let mut group = writer.next_row_group().expect("a row group");
    let times: Vec<Int96> = days.iter().map(|day| Int96::from(vec![0, 0, *day])).collect();
    let mut column = group.next_column().expect("columns").expect("a column");
    column.typed::<Int96Type>().write_batch(&times, None, None).expect("written");
    column.close().expect("closed");
    let values: Vec<f64> = (0..days.len()).map(|i| i as f64).collect();
    let mut column = group.next_column().expect("columns").expect("a column");
    column.typed::<DoubleType>().write_batch(&values, None, None).expect("written");
    column.close().expect("closed");
    group.close().expect("closed");
    writer.close().expect("closed");
}

#[test]
fn timestamps_beyond_nanoseconds_are_refused_and_not_changed() {
    let folder = Folder::new();
    let (good, bad) = (folder.path("good.parquet"), folder.path("bad.parquet"));
    with_int96(&good, &[2_440_588; 300]);
    // 9999-12-31.
    with_int96(&bad, &[2_440_588, 5_373_484]);
    let compress = |table: &str| ["compress", table, "-o"].map(str::to_string);
    let more = ["--column", "x", "--window", "10", "--max-error", "0.1"];
    let archive = folder.path("good");
    let arguments = compress(&good);
    let arguments: Vec<&str> =
        arguments.iter().map(String::as_str).chain([archive.as_str()]).chain(more).collect();
    ok(&arguments);
    ok(&["verify", &archive, "--against", &good]);
    let archive = folder.path("bad");
    let arguments = compress(&bad);
    let arguments: Vec<&str> =
        arguments.iter().map(String::as_str).chain([archive.as_str()]).chain(more).collect();
    let error = fails(&arguments);
    assert!(error.contains("column \"t\"") && error.contains("5373484"), "{error}");
    assert!(!Path::new(&archive).exists());
}
