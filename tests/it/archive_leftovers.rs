//! What writers leave that are killed, and what is in the places where things are made.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::archive_command::contents;
use crate::archive_files::put;
use crate::commands::{Folder, fails, ok, run};
use crate::support::sparrow;

/// The output of a command that must end: whoever opens a pipe waits for ever.
fn ends(arguments: &[&str]) -> (Option<i32>, String) {
    let mut child =
        sparrow().args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let started = Instant::now();
    while child.try_wait().expect("a state").is_none() {
        if started.elapsed() > Duration::from_secs(60) {
            child.kill().expect("killed");
            panic!("{arguments:?} waits for ever");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().expect("it ended");
    let told =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output.status.code(), told)
}

/// The folders in which writers make their files.
fn of_writers(archive: &Path) -> Vec<PathBuf> {
    let entries = archive.read_dir().expect("a folder").map(|entry| entry.expect("an entry").path());
    entries.filter(|path| path.display().to_string().contains("/.sparrow-writing-")).collect()
}

fn is_whole(folder: &Path) -> bool {
    let mut entries = folder.read_dir().into_iter().flatten().flatten();
    entries.any(|entry| entry.path().extension().is_some_and(|extension| extension == "part"))
}

/// A writer that has made its file, and waits for the lock to add it.
fn waiting(archive: &Path, input: &str) -> (Child, PathBuf) {
    let before = of_writers(archive);
    let mut command = sparrow();
    command.args(["append", &archive.display().to_string(), input]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs");
    for _ in 0..30_000 {
        let new = of_writers(archive).into_iter().find(|folder| !before.contains(folder));
        if let Some(folder) = new.filter(|folder| is_whole(folder)) {
            return (child, folder);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().expect("killed");
    child.wait().expect("ended");
    panic!("it never makes its file")
}

/// Names that readers of a folder take for tables.
fn tables(archive: &Path) -> Vec<String> {
    let names = contents(archive).into_keys().map(|name| name.display().to_string());
    names.filter(|name| name.ends_with(".parquet")).collect()
}

#[cfg(unix)]
#[test]
fn nothing_has_the_name_of_a_table_before_it_is_one() {
    let folder = Folder::new();
    let [a, b, c] = [1, 2, 3].map(|seed| folder.traffic(&format!("{seed}.parquet"), "list", seed));
    let shown = folder.path("archive");
    let archive = Path::new(&shown);
    ok(&["compress", &a, "-o", &shown, "--max-error", "1"]);
    let whole = tables(archive);
    let lock = File::create(archive.join("archive.lock")).expect("a lock");
    lock.lock().expect("locked");
    let (mut dead, of_dead) = waiting(archive, &b);
    assert_eq!(tables(archive), whole);
    dead.kill().expect("kill -9");
    dead.wait().expect("ended");
    // One that lives is left alone by the next one, which takes over what the dead one has made.
    let (mut living, of_living) = waiting(archive, &c);
    assert!(!of_dead.exists() && is_whole(&of_living));
    let mut again = sparrow();
    again.args(["append", &shown, &b, "--format", "json"]);
    let again = again.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let started = Instant::now();
    while of_writers(archive).len() < 2 && started.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(2));
    }
    std::thread::sleep(Duration::from_millis(200));
    assert!(is_whole(&of_living));
    drop(lock);
    assert!(living.wait().expect("it ends").success());
    let output = again.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(of_writers(archive).is_empty());
    let verified = ok(&["verify", &shown, "--against", &a, &b, &c]);
    assert_eq!(
        (&verified["files"], &verified["strangers"]),
        (&3.into(), &serde_json::json!([])),
        "{verified}"
    );
    assert_eq!(contents(archive).len(), 6, "{:?}", tables(archive));
}

#[cfg(unix)]
#[test]
fn an_append_that_was_killed_goes_on_and_hinders_nobody() {
    let folder = Folder::new();
    let [a, b] = [1, 2].map(|seed| folder.traffic(&format!("{seed}.parquet"), "list", seed));
    let shown = folder.path("archive");
    let archive = Path::new(&shown);
    let killed = || {
        let lock = File::create(archive.join("archive.lock")).expect("a lock");
        lock.lock().expect("locked");
        let (mut dead, _) = waiting(archive, &b);
        dead.kill().expect("kill -9");
        dead.wait().expect("ended");
    };
    ok(&["compress", &a, "-o", &shown, "--max-error", "1"]);
    killed();
    assert_eq!(ok(&["append", &shown, &b])["resumed"], 1);
    assert!(of_writers(archive).is_empty());
    assert_eq!(ok(&["verify", &shown, "--against", &a, &b])["files"], 2);
    ok(&["compress", &a, "-o", &shown, "--max-error", "1", "--overwrite"]);
    killed();
    ok(&["compress", &a, "-o", &shown, "--max-error", "2", "--overwrite"]);
    assert_eq!(contents(archive).len(), 3);
}

/// At any moment, also between a file's name and the manifest that knows it.
#[cfg(unix)]
#[test]
fn writers_that_are_killed_at_any_moment_leave_nothing_for_long() {
    let folder = Folder::new();
    let shown = folder.path("archive");
    let archive = Path::new(&shown);
    ok(&["compress", &folder.traffic("a.parquet", "list", 1), "-o", &shown, "--max-error", "1"]);
    let input = folder.traffic("timed.parquet", "list", 2);
    let started = Instant::now();
    ok(&["append", &shown, &input]);
    let takes = started.elapsed().as_secs_f64();
    for attempt in 0..24u32 {
        let input = folder.path(&format!("k{attempt}.parquet"));
        std::fs::copy(folder.path("a.parquet"), &input).expect("a copy");
        let mut command = sparrow();
        command.args(["append", &shown, &input]).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("it runs");
        std::thread::sleep(Duration::from_secs_f64(takes * f64::from(attempt * 7 % 24) / 20.0));
        child.kill().expect("kill -9");
        child.wait().expect("ended");
        for (name, content) in contents(archive) {
            let is_table = name.extension().is_some_and(|extension| extension == "parquet");
            assert!(!is_table || content.ends_with(b"PAR1"), "{name:?} is there before it is whole");
        }
    }
    let last = folder.traffic("last.parquet", "list", 3);
    ok(&["append", &shown, &last]);
    let verified = ok(&["verify", &shown]);
    assert_eq!(verified["strangers"], serde_json::json!([]), "{verified}");
    assert!(of_writers(archive).is_empty());
    let files = verified["files"].as_u64().expect("a number") as usize;
    assert_eq!(tables(archive).len(), files + 1);
}

#[test]
fn what_an_archive_does_not_know_is_named() {
    let folder = Folder::new();
    let input = folder.traffic("a.parquet", "list", 1);
    let archive = folder.path("archive");
    ok(&["compress", &input, "-o", &archive, "--max-error", "1"]);
    assert_eq!(ok(&["verify", &archive])["strangers"], serde_json::json!([]));
    put(&Path::new(&archive).join("k.parquet"), b"");
    put(&Path::new(&archive).join("below/k.parquet#1"), b"PAR1");
    let output = run(&["verify", &archive]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains("k.parquet is no part of the archive"), "{output:?}");
    assert_eq!(ok(&["verify", &archive])["strangers"], serde_json::json!(["below/k.parquet#1", "k.parquet"]));
    // Names that earlier versions took before they wrote anything.
    std::fs::remove_dir_all(folder.path("archive/below")).expect("removed");
    put(&Path::new(&archive).join("0123abcd/k.parquet#1"), b"");
    ok(&["compress", &input, "-o", &archive, "--max-error", "2", "--overwrite"]);
    assert_eq!(contents(Path::new(&archive)).len(), 3);
}

/// Whatever is in the places where something is made is somebody's, unless a job has made it.
#[test]
fn what_others_have_where_something_is_made_is_kept() {
    let folder = Folder::new();
    let input = folder.traffic("a.parquet", "list", 1);
    let (archive, out) = (folder.path("archive"), folder.path("out"));
    ok(&["compress", &input, "-o", &archive, "--max-error", "1"]);
    ok(&["decompress", &archive, "-o", &out]);
    let compress = ["compress", &input, "-o", &archive, "--max-error", "2", "--overwrite"];
    let decompress = ["decompress", &archive, "-o", &out, "--overwrite"];
    let theirs = folder.path("theirs");
    for (arguments, name) in [
        (&decompress[..], ".out.sparrow-tables"),
        (&decompress, ".out.sparrow-old"),
        (&compress, ".archive.sparrow-partial"),
        (&compress, ".archive.sparrow-old"),
    ] {
        let place = folder.path(name);
        let refused = |precious: &str| {
            let before = (contents(Path::new(&archive)), contents(Path::new(&out)));
            let error = fails(arguments);
            assert!(error.contains(name) && error.contains("in the way"), "{error}");
            assert_eq!(std::fs::read(precious).expect("still there"), b"precious");
            assert_eq!((contents(Path::new(&archive)), contents(Path::new(&out))), before);
        };
        put(&Path::new(&place).join("notes.txt"), b"precious");
        refused(&format!("{place}/notes.txt"));
        #[cfg(unix)]
        {
            std::fs::rename(&place, &theirs).expect("moved");
            std::os::unix::fs::symlink(&theirs, &place).expect("a link");
            refused(&format!("{theirs}/notes.txt"));
            assert!(Path::new(&place).is_symlink() && !Path::new(&out).is_symlink());
            std::fs::remove_file(&place).expect("removed");
            std::fs::rename(&theirs, &place).expect("moved");
        }
        std::fs::remove_dir_all(&place).expect("removed");
        // What a job has left is its own.
        put(&Path::new(&place).join(".sparrow-job"), b"");
        put(&Path::new(&place).join("left.parquet"), b"PAR1");
        ok(arguments);
        assert!(!Path::new(&place).exists(), "{name}");
    }
    assert_eq!(contents(Path::new(&out)).len(), 1);
    assert_eq!(contents(Path::new(&archive)).len(), 3);
}

#[cfg(unix)]
#[test]
fn pipes_are_not_waited_for() {
    let folder = Folder::new();
    let pipe = |name: &str| {
        let path = folder.path(name);
        std::fs::create_dir_all(Path::new(&path).parent().expect("a folder")).expect("made");
        let made = std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo runs");
        assert!(made.success());
        path
    };
    let input = folder.traffic("in/a.parquet", "list", 1);
    let alone = pipe("in/x.parquet");
    let archive = folder.path("archive");
    let (code, told) = ends(&["compress", &alone, "-o", &folder.path("none")]);
    assert!(code == Some(1) && told.contains("a pipe or a device"), "{told}");
    // Of several files it is one that fails.
    let (code, told) = ends(&["compress", &folder.path("in"), "-o", &archive, "--max-error", "1"]);
    assert!(code == Some(1) && told.contains("x.parquet") && told.contains("1 of 2 files failed"), "{told}");
    assert_eq!(ok(&["verify", &archive, "--against", &input])["files"], 1);
    let manifest = pipe("other/archive.json");
    let other = folder.path("other");
    for arguments in [
        &["inspect", &other][..],
        &["verify", &other],
        &["append", &other, &input],
        &["compress", &input, "-o", &other, "--max-error", "1"],
        &["sql", "-c", &format!("SELECT * FROM '{other}/'")],
        &["sql", "-c", &format!("SELECT * FROM '{alone}'")],
    ] {
        let (code, told) = ends(arguments);
        assert_eq!(code, Some(1), "{arguments:?}: {told}");
    }
    // In a folder above an output it is not what makes an archive.
    let (code, told) = ends(&["compress", &input, "-o", &format!("{other}/b/c"), "--max-error", "1"]);
    assert_eq!(code, Some(0), "{told}");
    let (code, told) = ends(&["decompress", &archive, "-o", &format!("{other}/d")]);
    assert_eq!(code, Some(0), "{told}");
    assert!(Path::new(&manifest).exists());
}

#[cfg(unix)]
#[test]
fn devices_are_no_places_for_tables() {
    let folder = Folder::new();
    let input = folder.traffic("a.parquet", "list", 1);
    let archive = folder.path("archive");
    ok(&["compress", &input, "-o", &archive, "--max-error", "1"]);
    for arguments in [["compress", &input, "-o", "/dev/null"], ["decompress", &archive, "-o", "/dev/null"]] {
        let error = fails(&arguments);
        assert!(error.contains("/dev/null is neither a file nor a folder"), "{error}");
    }
    for device in ["/dev/stdout", "/dev/null"] {
        let error = fails(&["sql", "-c", &format!("COPY (SELECT 1 AS x) TO '{device}' STORED AS CSV")]);
        assert!(error.contains(device) && error.contains("--format csv"), "{error}");
    }
}

#[test]
fn a_table_without_rows_is_not_told_to_be_stored() {
    let folder = Folder::new();
    let (input, empty) = (folder.traffic("a.parquet", "list", 1), folder.path("empty.parquet"));
    let statement = format!("COPY (SELECT * FROM '{input}' LIMIT 0) TO '{empty}'");
    assert!(run(&["sql", "-c", &statement]).status.success());
    let archive = folder.path("archive");
    let output = run(&["compress", &empty, "-o", &archive, "--max-error", "1"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success() && told.contains("no rows") && !told.contains("stored as it was"),
        "{told}"
    );
    ok(&["append", &archive, &input]);
    assert_eq!(ok(&["verify", &archive, "--against", &empty, &input])["rows"], 576);
}

#[test]
fn places_are_told_as_they_are() {
    let folder = Folder::new();
    let nowhere = folder.path("nowhere");
    let error =
        fails(&["sql", "-c", &format!("CREATE EXTERNAL TABLE t STORED AS SPARROW LOCATION '{nowhere}'")]);
    assert!(error.contains(&format!("no archive at {nowhere}")), "{error}");
    // Folders that are not there are made, for one table as for many.
    let (input, archive) = (folder.traffic("a.parquet", "list", 1), folder.path("deep/er/archive"));
    ok(&["compress", &input, "-o", &archive, "--max-error", "1"]);
    for out in ["new/x.parquet", "newer/still/tables"] {
        ok(&["decompress", &archive, "-o", &folder.path(out)]);
    }
    assert!(Path::new(&folder.path("new/x.parquet")).is_file());
    assert!(Path::new(&folder.path("newer/still/tables/a.parquet")).is_file());
}
