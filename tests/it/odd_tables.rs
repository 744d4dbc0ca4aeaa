//! Tables that are out of the ordinary: nothing is lost without a word, and one that is broken does not stop the others.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, ListArray, RecordBatch};
use datafusion::arrow::datatypes::Float64Type;
use datafusion::parquet::arrow::ArrowWriter;
use serde_json::Value;

use crate::commands::{Folder, fails, ok, run};

impl Folder {
    /// A table of twelve smooth sensors, of which the third is `third` in row 700.
    fn smooth(&self, name: &str, third: &str) -> String {
        let path = self.path(name);
        let sensor = |i: usize| format!("20 + {i} + 5 * sin(i / 40.0 + {i}) + 0.2 * sin(i * {i}.7)");
        let sensors: Vec<String> = (0..12)
            .map(|i| match i {
                2 => format!("CASE WHEN i = 700 THEN {third} ELSE {} END", sensor(i)),
                _ => sensor(i),
            })
            .collect();
        let query = format!(
            "SELECT i, [{}] AS v FROM (SELECT value AS i FROM generate_series(0, 1499)) ORDER BY i",
            sensors.join(", ")
        );
        let output = run(&["sql", "-c", &format!("COPY ({query}) TO '{path}'")]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        path
    }
}

fn nmae(report: &Value) -> f64 {
    report["nmae"].as_f64().unwrap_or_else(|| panic!("{report}"))
}

#[test]
fn one_outlier_does_not_cost_all_other_values() {
    let folder = Folder::new();
    for outlier in ["1e12", "-9999.0", "65535.0"] {
        let table = folder.smooth("t.parquet", outlier);
        let report =
            ok(&["compress", &table, "-o", &folder.path("a"), "--overwrite", "--target-ratio", "10"]);
        assert!(nmae(&report) < 0.02, "{outlier}: {report}");
    }
}

#[test]
fn what_is_recommended_keeps_every_value() {
    let folder = Folder::new();
    let table = folder.path("noise.parquet");
    let noise = ["random()"; 20].join(", ");
    let made = format!("COPY (SELECT value AS i, [{noise}] AS v FROM generate_series(1, 1000)) TO '{table}'");
    assert!(run(&["sql", "-c", &made]).status.success());
    let estimate = ["estimate", table.as_str(), "--target-nmae", "0.05", "--max-error", "0.05"];
    assert_eq!(ok(&estimate)["pays"], true);
    let text = String::from_utf8(run(&estimate).stdout).expect("text");
    let kept = text.contains("no value is off by more than 0.05") && text.contains("--max-error 0.05\n");
    assert!(kept, "{text}");
}

/// A number as Thrift writes it, seven bits at a time.
fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// A Parquet file of a footer alone: the parts of a schema have so many children, and there are said to be so many row groups.
fn footer_alone(children: &[u64], row_groups: u64) -> Vec<u8> {
    // The version, the schema, rows, row groups.
    let mut metadata = [&[0x15, 2, 0x19, 0xFC][..], &varint(children.len() as u64)].concat();
    for children in children {
        metadata.extend([&[0x35, 0, 0x18, 1, b'g', 0x15][..], &varint(2 * children), &[0]].concat());
    }
    metadata.extend([&[0x16, 0, 0x19, 0xFC][..], &varint(row_groups), &[0]].concat());
    let length = (metadata.len() as u32).to_le_bytes();
    [&b"PAR1"[..], &metadata, &length, b"PAR1"].concat()
}

/// Readers make room for what they are told there is, and go as deep as they are led.
#[test]
fn footers_that_claim_too_much_are_errors() {
    let folder = Folder::new();
    let deep: Vec<u64> = (0..5000).map(|_| 1).chain([0]).collect();
    let cases = [
        (footer_alone(&deep, 0), "nested deeper than 100 levels"),
        (footer_alone(&[1, (1 << 31) - 1, 0], 0), "one of them claims 2147483647"),
        (footer_alone(&[0], (1 << 31) - 1), "a size of 2147483647"),
    ];
    let table = folder.path("t.parquet");
    for (bytes, told) in cases {
        std::fs::write(&table, bytes).expect("written");
        for command in
            [&["estimate", &table][..], &["compress", &table, "-o", &folder.path("a"), "--lossless"]]
        {
            let error = fails(command);
            assert!(
                error.contains("t.parquet: not a Parquet file") && error.contains(told),
                "{command:?}: {error}"
            );
        }
    }
}

/// Dictionaries of two million sensors were tried, dozens of them.
#[test]
fn a_few_long_lists_take_little_memory() {
    let folder = Folder::new();
    let table = folder.path("long.parquet");
    let mut writer = None;
    for row in 0..3 {
        let values: Vec<Option<f64>> = (0..2_000_000)
            .map(|i| Some((f64::from(i) / 1000.0).sin().mul_add(10.0, f64::from(row)).round()))
            .collect();
        let lists = ListArray::from_iter_primitive::<Float64Type, _, _>([Some(values)]);
        let rows = RecordBatch::try_from_iter([("v", Arc::new(lists) as ArrayRef)]).expect("a table");
        let writer = writer.get_or_insert_with(|| {
            let file = std::fs::File::create(&table).expect("a file");
            ArrowWriter::try_new(file, rows.schema(), None).expect("a writer")
        });
        writer.write(&rows).expect("written");
    }
    writer.expect("a writer").close().expect("whole");
    let report = ok(&["compress", &table, "-o", &folder.path("a"), "--max-error", "0.01"]);
    let peak = report["peak_memory_bytes"].as_u64().expect("bytes");
    assert!(peak < 1_000_000_000, "{peak}: {report}");
    assert_eq!(ok(&["verify", &folder.path("a"), "--against", &table])["match_their_originals"], 1);
}

#[test]
fn lists_of_other_lengths_are_told_by_estimate_too() {
    let folder = Folder::new();
    let table = folder.path("ragged.parquet");
    let query = "SELECT value AS i, CASE WHEN value = 700 THEN [1.0, 2.0] ELSE [sin(value / 40.0), 2.0, 3.0] END AS v \
                 FROM generate_series(0, 1499) ORDER BY value";
    assert!(run(&["sql", "-c", &format!("COPY ({query}) TO '{table}'")]).status.success());
    for command in [
        &["estimate", table.as_str()][..],
        &["compress", &table, "-o", &folder.path("a"), "--max-error", "0.1"],
    ] {
        let error = fails(command);
        assert!(error.contains("a list of 2 values where others have 3"), "{command:?}: {error}");
    }
}

#[test]
fn files_with_odd_lists_are_named_with_the_row_and_do_not_stop_the_others() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("tables")).expect("a folder");
    let lists = |name: &str, odd: &str| {
        let path = folder.path(&format!("tables/{name}.parquet"));
        let query = format!(
            "SELECT value AS i, CASE WHEN {odd} ELSE [sin(value / 40.0), 2.0, 3.0] END AS v \
             FROM generate_series(0, 1499) ORDER BY value"
        );
        assert!(run(&["sql", "-c", &format!("COPY ({query}) TO '{path}'")]).status.success());
        path
    };
    let compress_to =
        |input: &str, archive: &str| fails(&["compress", input, "-o", archive, "--max-error", "0.1"]);
    let compress = |input: &str| compress_to(input, &folder.path("a"));
    let nothing = "arrow_cast([], 'List(Float64)')";
    for (name, odd, told) in [
        (
            "a",
            "value = 0 THEN [1.0, 2.0]".to_string(),
            "column v, row 0: a list of 2 values where others have 3",
        ),
        ("b", format!("value = 0 THEN {nothing}"), "column v, row 0: a list of 0 values where others have 3"),
        ("c", format!("true THEN {nothing}"), "column v holds nothing but empty lists"),
    ] {
        let error = compress(&lists(name, &odd));
        assert!(error.contains(&format!("{name}.parquet: {told}")), "{error}");
        assert!(!std::path::Path::new(&folder.path("a")).exists(), "{name}");
    }
    let whole = lists("d", "false THEN [1.0]");
    // Most lists fit, but there is an odd one in every piece that is looked at.
    lists("e", "value % 10 = 0 THEN [1.0, 2.0]");
    lists("f", "true THEN [1.0, 2.0]");
    let archive = folder.path("all");
    let error = compress_to(&folder.path("tables"), &archive);
    assert!(error.contains("5 of 6 files failed"), "{error}");
    let verified = ok(&["verify", &archive, "--against", &whole]);
    assert_eq!(verified["rows"], 1500, "{verified}");
    assert!(verified["max_error"].as_f64().is_some_and(|error| error <= 0.1), "{verified}");
}

#[test]
fn a_file_that_cannot_be_read_does_not_stop_the_others() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("tables")).expect("a folder");
    folder.smooth("tables/a.parquet", "20.0");
    let broken = folder.smooth("tables/b.parquet", "21.0");
    let mut bytes = std::fs::read(&broken).expect("a table");
    // The header of the first page.
    bytes[4..40].fill(0xFF);
    std::fs::write(&broken, bytes).expect("written");
    let archive = folder.path("archive");
    let error = fails(&["compress", &folder.path("tables"), "-o", &archive, "--max-error", "0.5"]);
    assert!(error.contains("b.parquet") && error.contains("1 of 2 files failed"), "{error}");
    let inspected = ok(&["inspect", &archive]);
    assert_eq!(inspected["rows"], 1500, "{inspected}");
}

#[test]
fn a_file_that_lost_its_middle_does_not_stop_the_others() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("tables")).expect("a folder");
    folder.smooth("tables/a.parquet", "20.0");
    let broken = folder.smooth("tables/b.parquet", "21.0");
    let mut bytes = std::fs::read(&broken).expect("a table");
    let footer = bytes.len() - 8;
    let footer =
        footer - u32::from_le_bytes(bytes[footer..footer + 4].try_into().expect("four bytes")) as usize;
    bytes.drain(100..footer);
    std::fs::write(&broken, bytes).expect("written");
    let archive = folder.path("archive");
    let error = fails(&["compress", &folder.path("tables"), "-o", &archive, "--max-error", "0.5"]);
    assert!(error.contains("b.parquet: not a Parquet file: its footer names bytes"), "{error}");
    assert!(error.contains("1 of 2 files failed"), "{error}");
    assert_eq!(ok(&["inspect", &archive])["rows"], 1500);
}

#[test]
fn bounds_that_are_finer_than_the_values_cost_no_more_than_none() {
    let folder = Folder::new();
    let table = folder.path("tenths.parquet");
    let sensors: Vec<String> = (0..8).map(|i| format!("round(30 * sin(value / 50.0 + {i}), 1)")).collect();
    let query = format!("SELECT [{}] AS v FROM generate_series(0, 2999)", sensors.join(", "));
    assert!(run(&["sql", "-c", &format!("COPY ({query}) TO '{table}'")]).status.success());
    let bytes = |bound: &[&str]| {
        let archive = folder.path("a");
        let report = ok(&[&["compress", &table, "-o", &archive, "--overwrite"], bound].concat());
        (report["archive_bytes"].as_f64().expect("bytes"), report["max_error"].as_f64().expect("an error"))
    };
    let ((lossless, _), (fine, error)) = (bytes(&["--lossless"]), bytes(&["--max-error", "0.002"]));
    assert!(fine < 1.1 * lossless && error == 0.0, "{fine} and {lossless} bytes, {error}");
    // Where values may be off by more than they are apart, that is made use of.
    let (coarse, error) = bytes(&["--max-error", "0.5"]);
    assert!(coarse < 0.8 * fine && (0.1..=0.5).contains(&error), "{coarse} and {fine} bytes, {error}");
}

#[test]
fn what_most_files_are_like_is_what_the_others_must_be_like() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("tables")).expect("a folder");
    for (name, more) in [("a", ", 1 AS more"), ("b", ""), ("c", "")] {
        let path = folder.path(&format!("tables/{name}.parquet"));
        let query =
            format!("SELECT value AS i, [sin(value / 40.0), 2.0] AS v{more} FROM generate_series(0, 999)");
        assert!(run(&["sql", "-c", &format!("COPY ({query}) TO '{path}'")]).status.success());
    }
    let archive = folder.path("a");
    let error = fails(&["compress", &folder.path("tables"), "-o", &archive, "--max-error", "0.1"]);
    assert!(error.contains("a.parquet") && error.contains("1 of 3 files failed"), "{error}");
    assert_eq!(ok(&["inspect", &archive])["rows"], 2000);
}

#[test]
fn errors_of_huge_integers_are_exact() {
    let folder = Folder::new();
    let table = folder.path("counters.parquet");
    let columns: Vec<String> =
        (0..8).map(|i| format!("4611686018427387000 + value * {} + value % 7 AS c{i}", i + 3)).collect();
    let query = format!("SELECT {} FROM generate_series(0, 1999)", columns.join(", "));
    assert!(run(&["sql", "-c", &format!("COPY ({query}) TO '{table}'")]).status.success());
    let archive = folder.path("a");
    let report = ok(&["compress", &table, "-o", &archive, "--columns", "c*", "--max-error", "3"]);
    for report in [report, ok(&["verify", &archive, "--against", &table])] {
        let max_error = report["max_error"].as_f64().expect("a number");
        assert!((1.0..=3.0).contains(&max_error), "{report}");
    }
}

#[test]
fn another_original_is_taken_for_what_it_is() {
    let folder = Folder::new();
    let table = folder.smooth("t.parquet", "21.0");
    let archive = folder.path("a");
    ok(&["compress", &table, "-o", &archive, "--max-error", "0.5"]);
    folder.smooth("t.parquet", "60.0");
    let error = fails(&["verify", &archive, "--against", &table]);
    assert!(error.contains("the original has 60") && error.contains("is it the file"), "{error}");
}
