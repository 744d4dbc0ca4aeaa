//! `sparrow bench` as users see it.

use std::path::Path;

use serde_json::Value;

use crate::support::sparrow;

fn report(arguments: &[&str], folder: &Path) -> Value {
    let output = sparrow().current_dir(folder).args(arguments).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn make(folder: &Path, name: &str, signals: &str, seed: &str) {
    let arguments =
        ["generate", "syn", "--dim", "40", "--signals", signals, "--seed", seed, "--groups", "3", "-o", name];
    let status = sparrow().current_dir(folder).args(arguments).status().expect("it runs");
    assert!(status.success());
}

#[test]
fn every_benchmark_reports_what_it_did() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    make(path, "s.parquet", "300", "1");
    make(path, "a.parquet", "30", "1");
    let common = ["--signals", "s.parquet", "--sigma", "6", "--lambda", "0.05"];
    let tail = ["--threads", "1", "--repeats", "2", "--format", "json"];
    let with = |command: &str, more: &[&str]| {
        report(&[&["bench", command], &common[..], more, &tail[..]].concat(), path)
    };
    let files = ["--dictionary", "a.parquet"];
    let outputs = ["--codes", "c.parquet", "--sql", "q.parquet"];
    let encode = with("encode", &[&files[..], &outputs[..]].concat());
    for field in ["gemm_s", "kernel_s", "encode_s", "objective", "nonzeros", "sql_s"] {
        assert!(encode[field].as_f64().is_some_and(|value| value > 0.0), "{field} in {encode}");
    }
    assert!(encode["solve_s"].as_f64().is_some());
    assert!(encode["worst_gap"].as_f64().is_some_and(|gap| gap <= 1.1e-7));
    assert_eq!((&encode["signals"], &encode["dim"], &encode["atoms"]), (&300.into(), &40.into(), &30.into()));
    assert_eq!(encode["coder"], "fksc");
    // What was written is what was counted, by the engine and through SQL.
    let sql = "SELECT sum(array_length(c.code)) AS n FROM 'c.parquet' c";
    let count =
        |file: &str| report(&["sql", "--format", "json", "-c", &sql.replace("c.parquet", file)], path);
    assert_eq!(count("c.parquet")[0]["n"], encode["nonzeros"]);
    assert_eq!(count("q.parquet")[0]["n"], encode["nonzeros"]);
    let plain = with("encode", &["--dictionary", "a.parquet", "--coder", "ksc"]);
    let objective = |report: &Value| report["objective"].as_f64().expect("a number");
    assert!((objective(&plain) - objective(&encode)).abs() < 1e-6 * objective(&plain));

    let decode = with("decode", &files);
    assert!(decode["decode_s"].as_f64().is_some_and(|value| value > 0.0));
    assert!(decode["nmae"].as_f64().is_some_and(|value| value < 1.0), "{decode}");

    let train = with("train", &["--atoms", "12", "--rounds", "4"]);
    assert_eq!((&train["rounds"], &train["atoms"]), (&4.into(), &12.into()));
    assert!(train["train_s"].as_f64() > train["encode_s"].as_f64());
}

#[test]
fn wrong_input_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    make(folder.path(), "s.parquet", "20", "1");
    let fails = |arguments: &[&str]| {
        let output = sparrow().current_dir(folder.path()).args(arguments).output().expect("it runs");
        let code = output.status.code();
        (code, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, error) = fails(&["bench", "encode", "--signals", "s.parquet", "--dictionary", "s.parquet"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("s.parquet") && error.contains("--sigma"), "{error}");
    let (code, error) =
        fails(&["bench", "encode", "--signals", "nothing.parquet", "--dictionary", "s.parquet"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("nothing.parquet"), "{error}");
    let before = std::fs::read(folder.path().join("s.parquet")).expect("the signals");
    let (code, error) = fails(&[
        "bench",
        "encode",
        "--signals",
        "s.parquet",
        "--dictionary",
        "s.parquet",
        "--sigma",
        "6",
        "--lambda",
        "0.05",
        "--repeats",
        "1",
        "--sql",
        "no/such/folder/q.parquet",
    ]);
    assert_eq!(code, Some(1));
    assert!(error.contains("no/such/folder"), "{error}");
    assert_eq!(std::fs::read(folder.path().join("s.parquet")).expect("the signals"), before);
    let (code, _) = fails(&["bench", "encode", "--signals", "s.parquet"]);
    assert_eq!(code, Some(2));
    let (code, error) = fails(&["bench", "train", "--signals", "s.parquet", "--column", "w"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("'w'"), "{error}");
}
