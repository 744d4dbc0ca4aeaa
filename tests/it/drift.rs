//! Drift is told whatever the dictionary: planted changes are named, and parts of the same table are not.

use std::fmt::Write;

use serde_json::Value;

use crate::commands::{Folder, ok, run};

const SENSORS: usize = 6;
const LEARNED: usize = 1500;
const ADDED: usize = 96;

/// The value of a sensor in a row: waves of a day, levels of their own, and a little noise, the same every time.
fn value(row: usize, sensor: usize) -> f64 {
    let wave = std::f64::consts::TAU * (row as f64 / 96.0 + 0.04 * sensor as f64);
    let level = [40.0, 75.0, 20.0, 55.0, 90.0, 30.0][sensor];
    level + 8.0 * wave.sin() + 3.0 * (2.0 * wave).sin() + 0.4 * noise(row, sensor)
}

/// Evenly distributed, with a deviation of 1.
fn noise(row: usize, sensor: usize) -> f64 {
    let mut bits = (row * SENSORS + sensor) as u64;
    for _ in 0..3 {
        bits = (bits ^ (bits >> 29)).wrapping_add(0x9E37_79B9_7F4A_7C15).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    }
    ((bits >> 11) as f64 / (1_u64 << 53) as f64 - 0.5) * 12.0_f64.sqrt()
}

impl Folder {
    /// A table of these rows by the command itself.
    fn of_values(
        &self,
        name: &str,
        layout: &str,
        rows: usize,
        value: impl Fn(usize, usize) -> f64,
    ) -> String {
        let mut text = match layout {
            "list" => "time,v".to_string(),
            "wide" => (0..SENSORS).fold("time".to_string(), |text, sensor| text + &format!(",s{sensor}")),
            _ => "time,series,value".to_string(),
        };
        text.push('\n');
        for row in 0..rows {
            let cells: Vec<String> = (0..SENSORS).map(|sensor| format!("{:?}", value(row, sensor))).collect();
            let written = match layout {
                "list" => writeln!(text, "{row},{}", cells.join(";")),
                "wide" => writeln!(text, "{row},{}", cells.join(",")),
                _ => cells.iter().enumerate().try_for_each(|(i, cell)| writeln!(text, "{row},s{i},{cell}")),
            };
            written.expect("text");
        }
        let (csv, path) = (self.path(&format!("{name}.csv")), self.path(&format!("{name}.parquet")));
        std::fs::write(&csv, text).expect("written");
        let columns = match layout {
            "list" => "time, arrow_cast(string_to_array(v, ';'), 'List(Float64)') AS v",
            _ => "*",
        };
        let statement = format!(
            "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{csv}' OPTIONS ('format.has_header' 'true');
             COPY (SELECT {columns} FROM t ORDER BY time) TO '{path}'"
        );
        let output = run(&["sql", "-c", &statement]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        path
    }
}

/// What `append` tells of parts: some that are as they were, and some that are changed.
fn told(layout: &str, aim: &[&str]) -> Vec<(String, Value)> {
    let folder = Folder::new();
    let learned = folder.of_values("learned", layout, LEARNED, value);
    let archive = folder.path("archive");
    let all: Vec<String> = (0..SENSORS).map(|sensor| format!("s{sensor}")).collect();
    let all = all.join(",");
    let columns = match layout {
        "list" => vec![],
        "wide" => vec!["--columns", all.as_str()],
        _ => vec!["--long", "time,series,value"],
    };
    let report = ok(&[&["compress", &learned, "-o", &archive][..], &columns, aim].concat());
    assert_eq!(report["drift"].as_array().map(Vec::len), Some(0), "{report}");
    let at = |row: usize| LEARNED + row;
    let parts = [
        folder.of_values("same1", layout, ADDED, |row, sensor| value(at(row), sensor)),
        folder.of_values("same2", layout, ADDED / 2, |row, sensor| value(at(row + 40), sensor)),
        folder.of_values("noise", layout, ADDED, |row, sensor| {
            [40.0, 75.0, 20.0, 55.0, 90.0, 30.0][sensor] + 6.0 * noise(at(row), sensor)
        }),
        folder.of_values("double", layout, ADDED, |row, sensor| 2.0 * value(at(row), sensor)),
        folder.of_values("shift", layout, ADDED, |row, sensor| value(at(row), (sensor + 5) % SENSORS)),
        folder.of_values("permute", layout, ADDED, |row, sensor| value(at(row), [3, 0, 4, 5, 1, 2][sensor])),
        folder.of_values("offset", layout, ADDED, |row, sensor| value(at(row), sensor) + 25.0),
        folder.of_values("one", layout, ADDED, |row, sensor| {
            value(at(row), sensor) * if sensor == 3 { 2.0 } else { 1.0 }
        }),
    ];
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let report = ok(&[&["append", &archive][..], &parts].concat());
    let drift = report["drift"].as_array().expect("a list");
    drift.iter().map(|drift| (drift["file"].as_str().unwrap_or("").to_string(), drift.clone())).collect()
}

/// Every change is named, and by its name; what is as it was is not.
fn all_are_named(layout: &str, aim: &[&str]) {
    let told = told(layout, aim);
    let mut changes: Vec<(&str, &str)> =
        told.iter().map(|(file, drift)| (file.as_str(), drift["change"].as_str().unwrap_or(""))).collect();
    changes.sort_unstable();
    // Codes alone share a doubled sensor among those that go with it.
    let of_one = if aim[0] == "--target-nmae" { "moved" } else { "scaled" };
    let named = [
        ("double.parquet", "scaled"),
        ("noise.parquet", "noisier"),
        ("offset.parquet", "moved"),
        ("one.parquet", of_one),
        ("permute.parquet", "reordered"),
        ("shift.parquet", "reordered"),
    ];
    assert_eq!(changes, named, "{layout} {aim:?}: {told:?}");
    let one =
        told.iter().find(|(file, _)| file == "one.parquet").map(|(_, drift)| drift).expect("it is told");
    let name = if layout == "list" { "v[4]" } else { "s3" };
    assert_eq!(one["sensors"], Value::from(vec![name]), "{one}");
    let words = one["told"].as_str().unwrap_or("");
    if of_one == "moved" {
        return;
    }
    assert!(words.contains(name) && words.contains("2.00 times"), "{words}");
    assert!(one["size"].as_f64().is_some_and(|size| (size - 2.0).abs() < 0.1), "{one}");
}

#[test]
fn drift_is_told_without_atoms() {
    all_are_named("list", &["--max-error", "0.5", "--atoms", "0"]);
    all_are_named("wide", &["--lossless", "--atoms", "0"]);
    all_are_named("long", &["--max-relative-error", "0.01", "--atoms", "0"]);
}

#[test]
fn drift_is_told_with_few_atoms_and_with_many() {
    all_are_named("list", &["--max-error", "0.5", "--atoms", "2"]);
    all_are_named("wide", &["--target-nmae", "0.03"]);
    all_are_named("long", &["--max-error", "1", "--atoms", "48"]);
}

#[test]
fn nothing_is_compared_with_a_damaged_file() {
    let folder = Folder::new();
    let learned = folder.of_values("learned", "list", LEARNED, value);
    let more = folder.of_values("more", "list", ADDED, |row, sensor| value(LEARNED + row, sensor));
    let archive = folder.path("archive");
    ok(&["compress", &learned, "-o", &archive, "--max-error", "0.5"]);
    let file = format!("{archive}/learned.parquet");
    let mut bytes = std::fs::read(&file).expect("it was written");
    // In the codes and residuals of the first row group.
    for byte in &mut bytes[100..1000] {
        *byte ^= 0x55;
    }
    std::fs::write(&file, bytes).expect("written");
    let output = run(&["append", &archive, &more]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && told.contains("learned.parquet"), "{told}");
}
