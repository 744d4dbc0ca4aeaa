//! What is replaced with an archive and what is not, and what is on the disk when that is told.

use std::path::Path;

use crate::archive_command::contents;
use crate::archive_files::{copy, put};
use crate::commands::{Folder, fails, ok};
#[cfg(target_os = "linux")]
use crate::support::sparrow;

#[test]
fn what_is_no_part_of_an_archive_is_not_replaced_with_it() {
    let folder = Folder::new();
    let input = folder.traffic("a.parquet", "list", 1);
    let archive = folder.path("archive");
    let again = ["compress", &input, "-o", &archive, "--max-error", "2", "--overwrite"];
    ok(&["compress", &input, "-o", &archive, "--max-error", "1"]);
    // Places that jobs that were killed have taken, or written to.
    ok(&["append", &archive, &folder.traffic("b.parquet", "list", 2)]);
    put(&Path::new(&archive).join("c.parquet"), b"");
    put(&Path::new(&archive).join("c.parquet#1"), b"PAR1");
    put(&Path::new(&archive).join("archive.json#2"), b"{");
    put(&Path::new(&archive).join("0123abcd/dictionary.parquet"), b"PAR1");
    // As it is before the second manifest is written.
    ok(&["append", &archive, &folder.traffic("e.parquet", "list", 3)]);
    std::fs::copy(folder.path("archive/b.parquet"), folder.path("archive/f.parquet")).expect("a copy");
    put(&Path::new(&archive).join("notes/READ ME.txt"), b"precious");
    let before = contents(Path::new(&archive));
    let error = fails(&again);
    assert!(error.contains("READ ME.txt") && error.contains("move it away"), "{error}");
    assert_eq!(contents(Path::new(&archive)), before);
    std::fs::remove_dir_all(Path::new(&archive).join("notes")).expect("removed");
    ok(&again);
    assert_eq!(contents(Path::new(&archive)).len(), 3);
    // Nothing else is made inside one.
    for (command, from) in [("compress", &input), ("decompress", &archive)] {
        for below in ["archive/x", "archive/x/y.parquet"] {
            let error = fails(&[command, from, "-o", &folder.path(below)]);
            assert!(error.contains("is inside the archive"), "{error}");
        }
    }
    assert_eq!(ok(&["verify", &archive])["files"], 1);
}

/// What looks like an archive's own is so only where jobs put it.
#[test]
fn what_only_looks_like_a_part_of_an_archive_is_not_replaced_with_it() {
    let folder = Folder::new();
    let input = folder.traffic("a.parquet", "list", 1);
    let (archive, other) = (folder.path("archive"), folder.path("other"));
    let again = ["compress", &input, "-o", &archive, "--max-error", "2", "--overwrite"];
    ok(&["compress", &input, "-o", &archive, "--max-error", "1"]);
    ok(&[
        "compress",
        &folder.traffic("b.parquet", "wide", 2),
        "-o",
        &other,
        "--columns",
        "s*",
        "--max-error",
        "1",
    ]);
    let refused = |named: &str| {
        let before = contents(Path::new(&archive));
        let error = fails(&again);
        assert!(error.contains(named) && error.contains("move it away"), "{named}: {error}");
        assert_eq!(contents(Path::new(&archive)), before);
    };
    let below = |name: &str| Path::new(&archive).join(name);
    // Another archive, as a whole and one of its tables.
    std::fs::rename(&other, below("2023")).expect("moved");
    refused("archive/2023/");
    std::fs::rename(below("2023/b.parquet"), below("b.parquet")).expect("moved");
    std::fs::remove_dir_all(below("2023")).expect("removed");
    refused("archive/b.parquet");
    std::fs::remove_file(below("b.parquet")).expect("removed");
    // The same archive once more.
    copy(Path::new(&archive), Path::new(&other));
    std::fs::rename(&other, below("copy")).expect("moved");
    refused("archive/copy/");
    std::fs::remove_dir_all(below("copy")).expect("removed");
    for name in ["notes/job.json", "notes/dictionary.parquet", "report#2", "notes/archive.json", "_SUCCESS"] {
        let content = if name == "_SUCCESS" { "" } else { "precious" };
        put(&below(name), content.as_bytes());
        refused(&format!("archive/{name}"));
        std::fs::remove_file(below(name)).expect("removed");
    }
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(folder.0.path(), below("linked")).expect("a link");
        let error = fails(&again);
        assert!(error.contains("archive/linked"), "{error}");
        std::fs::remove_file(below("linked")).expect("removed");
    }
    ok(&again);
}

/// The calls that make files durable, and those that give them their names, in their order; `None` where they cannot be
/// seen.
#[cfg(target_os = "linux")]
fn calls(folder: &Folder, arguments: &[&str]) -> Option<Vec<String>> {
    let log = folder.path("calls");
    let traced =
        ["-f", "-y", "-o", &log, "-e", "trace=fsync,fdatasync,rename,renameat,renameat2,link,linkat"];
    let program = sparrow().get_program().to_os_string();
    let output = std::process::Command::new("strace").args(traced).arg(program).args(arguments).output();
    if !output.as_ref().is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: strace is not here, or may not be used: {output:?}");
        return None;
    }
    let text = std::fs::read_to_string(&log).expect("a log");
    Some(text.lines().filter(|line| !line.contains(" resumed>")).map(str::to_string).collect())
}

#[cfg(target_os = "linux")]
#[test]
fn what_is_told_to_be_done_is_on_the_disk() {
    let folder = Folder::new();
    let (input, second) = (folder.traffic("a.parquet", "list", 1), folder.traffic("b.parquet", "list", 2));
    let (archive, back) = (folder.path("archive"), folder.path("back"));
    let root = folder.0.path().canonicalize().expect("a path").display().to_string();
    /// In this order: each is a call, and what is in its line.
    fn in_order(calls: &[String], expected: &[(&str, &str)]) {
        let mut rest = calls.iter();
        for (call, named) in expected {
            let found = rest.any(|line| line.contains(call) && line.contains(named));
            assert!(found, "{call} of {named} is missing, or too late: {calls:#?}");
        }
    }
    let of_folder = format!("<{root}>");
    let compress = ["compress", &input, "-o", &archive, "--max-error", "1"];
    let Some(found) = calls(&folder, &compress) else { return };
    let partial = ".archive.sparrow-partial\",";
    in_order(
        &found,
        &[
            ("sync(", "a.parquet>"),
            ("sync(", "archive.json#1>"),
            ("rename", "archive.json#1"),
            ("sync(", ".archive.sparrow-partial>"),
            ("rename", partial),
            ("sync(", &of_folder),
        ],
    );
    let replace = ["compress", &input, "-o", &archive, "--max-error", "2", "--overwrite"];
    let Some(found) = calls(&folder, &replace) else { return };
    in_order(
        &found,
        &[("sync(", "a.parquet>"), ("sync(", "archive.json"), ("rename", partial), ("sync(", &of_folder)],
    );
    let Some(found) = calls(&folder, &["append", &archive, &second]) else { return };
    in_order(
        &found,
        &[
            ("sync(", "b.parquet>"),
            ("sync(", "archive.json#1>"),
            ("rename", "archive.json#1"),
            ("sync(", "/archive>"),
        ],
    );
    let new = folder.path("new");
    let table =
        format!("CREATE EXTERNAL TABLE t (time TIMESTAMP, v DOUBLE[]) STORED AS SPARROW LOCATION '{new}'");
    let insert = format!("{table} OPTIONS ('max_error' '1'); INSERT INTO t SELECT time, v FROM '{input}'");
    let Some(found) = calls(&folder, &["sql", "-c", &insert]) else { return };
    in_order(
        &found,
        &[
            ("sync(", "new/insert-000000"),
            ("sync(", "archive.json#1>"),
            ("link", "archive.json#1"),
            ("sync(", "/new>"),
        ],
    );
    let Some(found) = calls(&folder, &["decompress", &archive, "-o", &back]) else { return };
    for table in ["a.parquet>", "b.parquet>"] {
        let published = ("rename", ".back.sparrow-tables\",");
        in_order(&found, &[("sync(", table), published, ("sync(", &of_folder)]);
    }
    let one = folder.path("one.parquet");
    let Some(found) = calls(&folder, &["decompress", &archive, "-o", &one]) else { return };
    in_order(&found, &[("sync(", "/.sparrow-"), ("", "one.parquet"), ("sync(", &of_folder)]);
}
