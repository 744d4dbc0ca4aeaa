//! What estimates propose, and how it is told.

use std::fs::File;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::parquet::arrow::ArrowWriter;

use crate::commands::{Folder, fails, ok, run};

impl Folder {
    /// A table that a query makes.
    fn made(&self, name: &str, query: &str) -> String {
        let path = self.path(name);
        let output = run(&["sql", "-c", &format!("COPY ({query}) TO '{path}'")]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        path
    }
}

fn text(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Readings of 12 devices at 900 times, in the order of a hash.
const SHUFFLED: &str = "SELECT to_timestamp_seconds(1700000000 + 600 * t) AS ts, concat('d', d) AS device, \
     round(20 + d + 8 * sin(t / 23.0 + d / 5.0) + 0.3 * sin(t * d * 1.7), 3) AS temp \
     FROM (SELECT a.value AS t FROM generate_series(0, 899) a) CROSS JOIN (SELECT b.value AS d FROM generate_series(1, 12) b) \
     ORDER BY (t * 7919 + d * 104729) % 10007";

#[test]
fn rows_in_no_order_are_told_what_sorting_gives() {
    let folder = Folder::new();
    let table = folder.made("shuffled.parquet", SHUFFLED);
    let arguments = ["estimate", &table, "--long", "ts,device,temp", "--max-error", "0.5"];
    let estimate = ok(&arguments);
    let sorted = &estimate["sorted"];
    assert_eq!(sorted["by"], serde_json::json!(["ts", "device"]), "{estimate}");
    let bytes = |line: &serde_json::Value| line["bytes"].as_f64().unwrap_or_else(|| panic!("{estimate}"));
    let would = bytes(&sorted["prediction"]);
    assert!(would < 0.8 * bytes(&estimate["ladder"][0]), "{estimate}");
    let told = text(&arguments);
    let (_, command) = told.split_once("sparrow sql -c \"").unwrap_or_else(|| panic!("{told}"));
    let query =
        command.split('"').next().expect("a query").replace("sorted.parquet", &folder.path("sorted.parquet"));
    assert!(
        told.contains("The rows are in no order of ts: sorted they take")
            && query.contains("ORDER BY ts, device"),
        "{told}"
    );
    // The command gives what was promised.
    assert!(run(&["sql", "-c", &query]).status.success(), "{query}");
    let archive = folder.path("archive");
    let report = ok(&[
        "compress",
        &folder.path("sorted.parquet"),
        "-o",
        &archive,
        "--long",
        "ts,device,temp",
        "--max-error",
        "0.5",
    ]);
    let found = report["archive_bytes"].as_f64().expect("bytes");
    assert!((found / would - 1.0).abs() < 0.1, "{found} instead of {would}");
    // Sorted there is nothing to tell.
    let sorted =
        ok(&["estimate", &folder.path("sorted.parquet"), "--long", "ts,device,temp", "--max-error", "0.5"]);
    assert!(sorted.get("sorted").is_none(), "{sorted}");
}

#[test]
fn of_several_readings_the_smaller_layout_is_proposed() {
    let folder = Folder::new();
    let query = "SELECT to_timestamp_seconds(1700000000 + 600 * t) AS ts, concat('d', d) AS device, \
        20 + d + 8 * sin(t / 23.0 + d / 5.0) + 0.3 * sin(t * d * 1.7) AS temp, \
        50 + d + 9 * sin(t / 31.0 + d / 3.0) + 0.3 * sin(t * d * 1.3) AS hum, \
        1000 + d + 7 * sin(t / 41.0 + d / 7.0) + 0.3 * sin(t * d * 1.1) AS press \
        FROM (SELECT a.value AS t FROM generate_series(0, 899) a) CROSS JOIN (SELECT b.value AS d FROM generate_series(1, 12) b) \
        ORDER BY t, d";
    let table = folder.made("readings.parquet", query);
    let estimate = ok(&["estimate", &table, "--max-error", "0.5"]);
    assert_eq!(
        estimate["layout_arguments"],
        serde_json::json!(["--columns", "temp,hum,press"]),
        "{estimate}"
    );
    assert_eq!(
        estimate["other_layout"]["layout_arguments"],
        serde_json::json!(["--long", "ts,device,temp"]),
        "{estimate}"
    );
    let recommended = estimate["recommended"].as_u64().expect("a line") as usize;
    let bytes = estimate["ladder"][recommended]["bytes"].as_u64();
    assert!(bytes < estimate["other_layout"]["bytes"].as_u64(), "{estimate}");
    assert!(
        text(&["estimate", &table, "--max-error", "0.5"]).contains("--long ts,device,temp was measured too")
    );
    // What is asked for is what is measured.
    let asked = ok(&["estimate", &table, "--max-error", "0.5", "--long", "ts,device,temp"]);
    assert_eq!(asked["layout_arguments"], serde_json::json!(["--long", "ts,device,temp"]));
    assert!(asked.get("other_layout").is_none());
}

#[test]
fn the_page_draws_errors_over_time_and_names_sensors_as_sql_does() {
    let folder = Folder::new();
    let lists = folder.made(
        "lists.parquet",
        "SELECT to_timestamp_seconds(1700000000 + 600 * value) AS ts, [sin(value / 20.0), cos(value / 20.0), sin(value / 9.0), \
         sin(value / 31.0), value / 900.0] AS v FROM generate_series(0, 899) ORDER BY value",
    );
    let page = text(&["estimate", &lists, "--max-error", "0.05", "--format", "html"]);
    assert!(page.contains("v[1]: errors") && page.contains("v[5]") && !page.contains("v[0]"), "{page}");
    assert!(page.contains("days since 2023-11-14T22:13:20") && !page.contains(">signal<"), "{page}");
    let command = format!("<code>sparrow compress {lists} -o ARCHIVE --column v --max-error 0.05</code>");
    assert!(page.contains(&command), "{page}");
    let wide = folder.made(
        "wide.parquet",
        "SELECT value AS i, sin(value / 20.0) AS north, cos(value / 20.0) AS south FROM generate_series(0, 899) ORDER BY value",
    );
    let page =
        text(&["estimate", &wide, "--columns", "north,south", "--max-error", "0.05", "--format", "html"]);
    assert!(page.contains(">north<") && page.contains(">south: errors<"), "{page}");
}

#[test]
fn half_floats_and_decimals_are_named_with_what_to_do() {
    let folder = Folder::new();
    for (data_type, wanted) in
        [("List(Float16)", "List(Float32)"), ("List(Decimal128(9, 2))", "List(Float64)")]
    {
        let query = format!(
            "SELECT arrow_cast([value / 10.0, 2.0], '{data_type}') AS v FROM generate_series(1, 300) ORDER BY value"
        );
        let table = folder.made("other.parquet", &query);
        let remedy = format!("arrow_cast(\"v\", '{wanted}')");
        let archive = folder.path("archive");
        for command in [
            &["estimate", table.as_str()][..],
            &["compress", &table, "-o", &archive, "--lossless"],
            &["compress", &table, "-o", &archive, "--lossless", "--column", "v"],
        ] {
            let error = fails(command);
            assert!(error.contains("column v is of") && error.contains(&remedy), "{command:?}: {error}");
        }
        let again = folder.made("again.parquet", &format!("SELECT {remedy} AS v FROM '{table}'"));
        assert_eq!(ok(&["estimate", &again])["rows"], 300);
    }
}

#[test]
fn wide_tables_are_told_in_few_words() {
    let folder = Folder::new();
    let path = folder.path("wide.parquet");
    let fields: Vec<Field> = (0..5000)
        .map(|i| Field::new(format!("{}{i}", ["a", "b"][i % 2]), DataType::Float64, false))
        .collect();
    let columns: Vec<ArrayRef> = (0..5000)
        .map(|i| Arc::new((0..20).map(|row| Some(f64::from(i * row))).collect::<Float64Array>()) as ArrayRef)
        .collect();
    let table = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("a table");
    let mut writer =
        ArrowWriter::try_new(File::create(&path).expect("a file"), table.schema(), None).expect("a writer");
    writer.write(&table).expect("written");
    writer.close().expect("whole");
    let archive = folder.path("archive");
    for (columns, is_there) in [("x*", false), ("a*,b*", true)] {
        let output =
            run(&["compress", &path, "-o", &archive, "--columns", columns, "--lossless", "--atoms", "0"]);
        assert_eq!(output.status.success(), is_there);
        for line in String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).lines() {
            assert!(line.len() < 400, "{line}");
        }
    }
    assert!(
        fails(&["compress", &path, "-o", &folder.path("b"), "--columns", "x*"])
            .contains("a0, b1, a2, b3, a4, b5, a6, b7 and 4,992 more")
    );
    assert!(text(&["inspect", &archive]).lines().all(|line| line.len() < 400));
}

#[test]
fn a_bound_that_leaves_nothing_is_told() {
    let folder = Folder::new();
    let table = folder.traffic("t.parquet", "list", 1);
    let made = |bound: &str| {
        let output = run(&["compress", &table, "-o", &folder.path("a"), "--overwrite", "--max-error", bound]);
        assert!(output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(made("100000").contains("warning: the bound is as large as the values"));
    assert!(!made("1").contains("warning"));
    assert!(
        text(&["estimate", &table, "--max-error", "100000"])
            .contains("next to nothing is left of the values")
    );
}

/// A terminal does what escapes in names tell it, and what follows a line break looks like a message of its own.
#[test]
fn names_do_nothing_to_a_terminal() {
    let folder = Folder::new();
    let name = "v\u{1b}[2J\nerror: no\u{9b}m\u{202e}";
    let table = folder.path("a.parquet");
    let field = Field::new(name, DataType::Float64, false);
    let values = Arc::new((0..500).map(|i| Some((f64::from(i) / 20.0).sin())).collect::<Float64Array>());
    let rows =
        RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![values as ArrayRef]).expect("a table");
    let mut writer =
        ArrowWriter::try_new(File::create(&table).expect("a file"), rows.schema(), None).expect("a writer");
    writer.write(&rows).expect("written");
    writer.close().expect("whole");
    let odd = folder.path("a\u{1b}[31m\nerror: no.parquet");
    std::fs::copy(&table, &odd).expect("copied");
    let archive = folder.path("archive");
    let window = ["--column", name, "--window", "50"];
    let compress =
        [&["compress", &table, "-o", &archive, "--max-error", "0.1", "--atoms", "2"][..], &window].concat();
    let none = folder.path("none");
    for arguments in [
        &compress[..],
        &[&compress[..], &["--overwrite", "--format", "json"]].concat(),
        &["inspect", &archive],
        &["verify", &archive, "--against", &table],
        &["estimate", &table],
        &["estimate", &table, "--format", "json"],
        &["estimate", &odd],
        &["estimate", &table, "--format", "html"],
        &["compress", &table, "-o", &none, "--column", "other", "--window", "5"],
        &["sql", "-c", &format!("SELECT * FROM '{archive}' LIMIT 3")],
        &["decompress", &archive, "-o", &folder.path("out")],
        &["sql", "-c", &format!("SELECT other FROM '{archive}'")],
    ] {
        let output = run(arguments);
        for (text, is_error) in [(output.stdout, false), (output.stderr, true)] {
            let text = String::from_utf8(text).expect("text");
            let acts = |c: char| (c.is_control() && c != '\n' && c != '\t') || c == '\u{202e}';
            assert!(!text.contains(acts), "{arguments:?}: {text:?}");
            let is_sql = arguments[0] == "sql";
            assert!(
                !is_error || is_sql || text.lines().all(|line| !line.starts_with("error: no")),
                "{text:?}"
            );
        }
    }
}
