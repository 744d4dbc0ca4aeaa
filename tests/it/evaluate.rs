//! `sparrow evaluate` as users see it: figures, errors, and a page that a browser shows.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::support::sparrow;

fn run(arguments: &[&str]) -> Output {
    sparrow().arg("evaluate").args(arguments).output().expect("it runs")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// 300 vectors of length 12 in four groups.
fn table(folder: &Path) -> String {
    let path = folder.join("syn.parquet").display().to_string();
    let made = sparrow()
        .args(["generate", "syn", "--dim", "12", "--signals", "300", "--groups", "4", "-o", &path])
        .status();
    assert!(made.expect("it runs").success());
    path
}

fn rows(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", stderr(output));
    serde_json::from_slice(&output.stdout).expect("a JSON list")
}

const ALL: &str = "fksc,ksc,cd,kfss,foso,komp,lpm,kfmc,ksr_l21";

#[test]
fn every_coder_is_measured_at_every_ratio_and_seed() {
    let folder = tempfile::tempdir().expect("a folder");
    let table = table(folder.path());
    let arguments = [
        &table,
        "--train-rows",
        "200",
        "--coders",
        ALL,
        "--atoms",
        "24",
        "--cr",
        "1.5,3,8",
        "--seeds",
        "2",
        "--format",
        "json",
    ];
    let found = rows(&run(&arguments));
    assert_eq!(found.len(), 9 * 3 * 2);
    for row in &found {
        let number = |name: &str| row[name].as_f64().unwrap_or_else(|| panic!("{name} in {row}"));
        for name in ["bytes", "nrmse", "nmae", "necr", "objective", "seconds", "seed"] {
            assert!(number(name) >= 0.0, "{name} in {row}");
        }
        let asked: f64 = row["setting"].as_str().expect("a text")[3..].parse().expect("a ratio");
        // All but coordinate descent, which leaves tiny weights, keep to the nonzeros allowed.
        if row["limited"] == true || row["coder"] == "fksc" {
            assert!(number("cr") >= asked * (1.0 - 1e-9), "{row}");
        }
        assert_eq!(number("bytes"), number("code_bytes") + number("dictionary_bytes"));
        assert_eq!(number("cr"), 1200.0 / (2.0 * number("nonzeros")));
        let learner = if row["coder"] == "cd" { "scdl" } else { "kscdl" };
        assert_eq!(row["learner"], learner);
    }
    let of = |coder: &str, field: &str| -> Vec<f64> {
        let rows = found.iter().filter(|row| row["coder"] == coder);
        rows.map(|row| row[field].as_f64().expect("a number")).collect()
    };
    // The coders of the l1 form agree, and more nonzeros mean a smaller error.
    for (fksc, other) in of("fksc", "objective").iter().zip(of("kfss", "objective")) {
        assert!((fksc - other).abs() <= 1e-6 * fksc, "{fksc} against {other}");
    }
    for errors in of("fksc", "nmae").chunks(3) {
        assert!(errors[0] < errors[2], "{errors:?}");
    }
    // Everything but the times is the same again, on any number of threads.
    let again =
        rows(&sparrow().arg("evaluate").args(arguments).args(["--threads", "1"]).output().expect("it runs"));
    for (mut a, mut b) in found.into_iter().zip(again) {
        (a["seconds"], b["seconds"]) = (Value::Null, Value::Null);
        assert_eq!(a, b);
    }
}

#[test]
fn penalties_and_conditions_and_queries() {
    let folder = tempfile::tempdir().expect("a folder");
    let table = table(folder.path());
    let query = format!("SELECT i % 3 AS part, v AS signal, [1.0] AS other FROM '{table}'");
    let found = rows(&run(&[
        &query,
        "--column",
        "signal",
        "--train-where",
        "part < 2",
        "--test-where",
        "part = 2",
        "--coders",
        "fksc,komp",
        "--atoms",
        "16",
        "--lambda",
        "0.05,0.2",
        "--scale",
        "--format",
        "json",
    ]));
    assert_eq!(found.len(), 4);
    assert!(found.iter().all(|row| row["rows"] == 100));
    for pair in found.chunks(2) {
        assert_eq!(pair[0]["lambda"], pair[1]["lambda"]);
        assert!(pair[1]["nonzeros"].as_u64() <= pair[0]["nonzeros"].as_u64(), "{pair:?}");
    }
    let table = run(&[
        &table,
        "--train-rows",
        "200",
        "--coders",
        "komp",
        "--cr",
        "3",
        "--atoms",
        "8",
        "--seeds",
        "3",
    ]);
    let text = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(text.lines().nth(1).is_some_and(|line| line.contains("komp") && line.contains('±')), "{text}");
    assert!(text.contains("100 rows of length 12 judged (9600 bytes as doubles, "), "{text}");
    assert!(text.contains(" as Parquet with zstd), 200 learned from, 8 atoms, 3 seeds"), "{text}");
}

#[test]
fn ratios_that_cannot_be_reached_are_no_mistake() {
    let folder = tempfile::tempdir().expect("a folder");
    let table = table(folder.path());
    // More nonzeros than atoms, less than one for every row, and none at all.
    for cr in ["0.5", "1.5", "40", "5000"] {
        let found = rows(&run(&[&table, "--atoms", "3", "--coders", ALL, "--cr", cr, "--format", "json"]));
        assert_eq!(found.len(), 9, "{cr}");
        for row in found {
            let (nonzeros, ratio) = (row["nonzeros"].as_u64().expect("a count"), row["cr"].as_f64());
            assert!(ratio.is_none() == (nonzeros == 0) && nonzeros <= 3 * 75, "{row}");
        }
    }
    let empty =
        rows(&run(&[&table, "--atoms", "3", "--coders", "fksc", "--lambda", "10", "--format", "json"]));
    assert_eq!((&empty[0]["nonzeros"], &empty[0]["cr"]), (&0.into(), &Value::Null));
}

#[test]
fn mistakes_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let table = table(folder.path());
    let cases: &[(&[&str], i32, &str)] = &[
        (&[&table, "--coders", "fksc,kompp"], 2, "unknown coder 'kompp'; known: fksc, ksc, cd"),
        (&[&table, "--cr", "0"], 2, "not a number greater than zero"),
        (&[&table, "--sigma=-1"], 2, "not a number greater than zero"),
        (&[&table, "--cr", "3", "--lambda", "0.1"], 2, "cannot be used with"),
        (&[&table, "--train-where", "i < 5"], 2, "--test-where"),
        (&[&table, "--tune", "--sigma", "3"], 2, "cannot be used with"),
        (&[&table, "--tune", "--lambda", "0.1"], 2, "cannot be used with"),
        (&[&table, "--train-rows", "300"], 1, "300 rows to learn from leave none of 300 to judge by"),
        (&[&table, "--train-where", "i < 0", "--test-where", "i > 5"], 1, "no rows to learn from"),
        (&[&table, "--train-where", "x < 5", "--test-where", "i > 5"], 1, "in the condition x < 5"),
        (&[&table, "--column", "w"], 1, "no column 'w'; there are: i, v"),
        (&[&table, "--column", "i"], 1, "column 'i' is not one of vectors but of Int64"),
        (&["SELECT 1 AS a"], 1, "no column of vectors"),
        (&["nowhere.parquet"], 1, "there is no file 'nowhere.parquet'; a query starts with SELECT or WITH"),
        (&["SELECT v FROM (VALUES ([1e200]), ([NULL])) t(v)"], 1, "no usable rows: there are 2 with missing"),
        (
            &["SELECT v FROM (VALUES ([1.0]), ([1.0, 2.0]), ([3.0])) t(v)"],
            1,
            "column v, row 1: a vector of length 2, expected 1",
        ),
        (&[&table, "--output", "/nowhere/x.html"], 1, "/nowhere is not a folder"),
        (&[&table, "--output", &table], 1, "is the table itself; name another output"),
    ];
    for (arguments, code, expected) in cases {
        let output = run(&[arguments, &["--atoms", "4"][..]].concat());
        assert_eq!(output.status.code(), Some(*code), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{arguments:?}: {}", stderr(&output));
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

/// Sums of two vectors, of any size: two atoms are enough where sums are, and where they are not there are never enough.
const SUMS: &str = "SELECT i, [a + b, 2 * a - b, a - 3 * b, 4 * b, a / 2, b - a, a + 2 * b, 3 * a] AS v FROM \
    (SELECT value AS i, exp(3 * sin(0.7 * value)) AS a, 5 * cos(1.3 * value) AS b FROM generate_series(1, 240))";

#[test]
fn kernels_are_tuned_on_training_rows_alone() {
    let run_on = |more: &[&str]| {
        let common =
            ["--coders", "fksc,komp", "--atoms", "8", "--cr", "2,4", "--format", "json", "--max-iter", "10"];
        rows(&run(&[&[SUMS][..], &common, more].concat()))
    };
    let usual = run_on(&["--train-rows", "160"]);
    let tuned = run_on(&["--train-rows", "160", "--tune"]);
    let nmae = |row: &Value| row["nmae"].as_f64().expect("a number");
    for (usual, tuned) in usual.iter().zip(&tuned) {
        assert_eq!((&usual["tuned"], &usual["kernel"]), (&false.into(), &"rbf".into()));
        assert_eq!((&tuned["tuned"], &tuned["coder"]), (&true.into(), &usual["coder"]));
        assert!(nmae(tuned) < 0.8 * nmae(usual), "{tuned} against {usual}");
    }
    // Other rows to judge by, the same choices; and the same again on one thread.
    let chosen = |rows: &[Value]| -> Vec<[Value; 5]> {
        let of = |row: &Value| {
            ["coder", "kernel", "width", "train_lambda", "learner"].map(|name| row[name].clone())
        };
        rows.iter().map(of).collect()
    };
    let others = ["--train-where", "i <= 160", "--test-where", "i > 230", "--tune", "--threads", "1"];
    assert_eq!(chosen(&run_on(&others)), chosen(&tuned));
    let table = run(&[SUMS, "--coders", "komp,cd", "--atoms", "8", "--cr", "3", "--max-iter", "5", "--tune"]);
    let text = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(text.contains("were chosen for every coder on the last quarter of the 180 rows"), "{text}");
    for coder in ["komp", "cd"] {
        let line =
            text.lines().find(|line| line.contains(coder)).unwrap_or_else(|| panic!("{coder} in {text}"));
        let choice =
            line.split(coder).nth(1).unwrap_or_default().split("  ").find(|cell| !cell.trim().is_empty());
        let choice = choice.unwrap_or_default().trim();
        assert!(text.contains(&format!("{coder} {choice}")), "{coder} {choice} in {text}");
    }
}

/// Whoever has waited for hours keeps what there is.
#[cfg(unix)]
#[test]
fn an_interrupted_evaluation_prints_what_it_has() {
    use std::io::{BufRead, BufReader, Read};
    let folder = tempfile::tempdir().expect("a folder");
    let table = table(folder.path());
    let mut child = sparrow()
        .args([
            "evaluate",
            &table,
            "--coders",
            "komp,fksc",
            "--atoms",
            "16",
            "--cr",
            "2,3",
            "--seeds",
            "1000",
        ])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut told = BufReader::new(child.stderr.take().expect("its standard error"));
    let mut line = String::new();
    while !line.contains("NMAE") {
        line.clear();
        assert!(told.read_line(&mut line).expect("a line") > 0, "it ended before anything was measured");
    }
    let interrupt = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(interrupt.expect("a signal is sent").success());
    let mut rest = String::new();
    told.read_to_string(&mut rest).expect("the rest");
    let output = child.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{rest}");
    assert!(text.starts_with("setting") && text.contains("komp"), "{text}");
    let last = rest.lines().last().unwrap_or_default();
    assert!(
        last.starts_with("error: cancelled: the result is partial, ") && last.contains(" of 4000 "),
        "{rest}"
    );
}

/// A browser, where there is one.
fn browser() -> Option<PathBuf> {
    let places = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = std::env::split_paths(&places).flat_map(|place| names.map(|name| place.join(name)));
    let found = found.into_iter().find(|path| path.is_file());
    if found.is_none() {
        eprintln!("skipped: no browser");
    }
    found
}

/// What a browser makes of a page at a width: the document after it was laid out and `probe` has run.
fn shown(browser: &Path, page: &str, width: u32, folder: &Path) -> String {
    // The page itself runs no script; this one only measures it.
    let probe = "<script>addEventListener('load', () => { const of = s => [...document.querySelectorAll(s)];\
        const seen = e => { const b = e.getBoundingClientRect(); return b.width > 20 && b.height > 20; };\
        document.title = JSON.stringify({ charts: of('figure').length, seen: of('figure svg').filter(seen).length,\
        rows: of('tbody tr').length, headings: of('h2').map(h => h.textContent),\
        overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,\
        loaded: performance.getEntriesByType('resource').length,\
        outside: of('svg[role=img]').reduce((n, s) => { const b = s.getBoundingClientRect(); return n + [...s.querySelectorAll('text')]\
          .filter(t => { const r = t.getBoundingClientRect(); return r.left < b.left - 1 || r.right > b.right + 1; }).length; }, 0) }); });</script>";
    let path = folder.join(format!("probed{width}.html"));
    std::fs::write(&path, page.replace("</body>", &format!("{probe}</body>"))).expect("a file");
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .arg(format!("--user-data-dir={}", folder.join(format!("profile{width}")).display()))
        .arg(format!("--window-size={width},1000"))
        .args(["--virtual-time-budget=5000", "--dump-dom"])
        .arg(format!("file://{}", path.display()))
        .output()
        .expect("the browser runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_page_stands_alone_and_a_browser_shows_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let table = table(folder.path());
    let path = folder.path().join("page.html");
    let output = run(&[
        &table,
        "--train-rows",
        "200",
        "--coders",
        "fksc,komp,cd",
        "--atoms",
        "16",
        "--cr",
        "2,4",
        "--seeds",
        "2",
        "--format",
        "html",
        "--output",
        &path.display().to_string(),
    ]);
    assert!(output.status.success() && output.stdout.is_empty(), "{}", stderr(&output));
    let page = std::fs::read_to_string(&path).expect("a page");
    for reference in ["http:", "https:", "src=", "href=", "@import", "url(", "<script"] {
        assert!(!page.contains(reference), "the page refers to {reference}");
    }
    let Some(browser) = browser() else { return };
    for width in [1200, 500] {
        let document = shown(&browser, &page, width, folder.path());
        let title = document.split("<title>").nth(1).and_then(|rest| rest.split("</title>").next());
        let title = title.unwrap_or_else(|| panic!("no title: {document:.300}")).replace("&amp;", "&");
        let seen: Value = serde_json::from_str(&title).unwrap_or_else(|error| panic!("{error}: {title}"));
        // 4 of rates, 4 sensors, 3 of atoms, 2 of convergence.
        assert_eq!((&seen["charts"], &seen["seen"]), (&Value::from(13), &Value::from(13)), "{seen}");
        assert_eq!(seen["rows"], 6, "{seen}");
        assert_eq!(seen["headings"].as_array().map(Vec::len), Some(5), "{seen}");
        assert_eq!(
            (&seen["overflow"], &seen["loaded"], &seen["outside"]),
            (&0.into(), &0.into(), &0.into()),
            "{seen}"
        );
    }
}
