//! Targets instead of parameters: what is promised is delivered, on rows that the search never saw, too; what does
//! not pay is left alone; data that drifts is noticed.

use std::path::Path;

use serde_json::Value;

use crate::commands::{Folder, ok, refused, run, sql};
use crate::support::{project, shared_data};

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

impl Folder {
    /// Some days of generated traffic; `to` is the first day that is not in it.
    fn days(&self, table: &str, name: &str, from: u32, to: u32) -> String {
        let path = self.path(name);
        let day = |day: u32| format!("TIMESTAMP '2024-01-01' + INTERVAL '{day}' DAY");
        let (from, to) = (day(from), day(to));
        let statement = format!(
            "COPY (SELECT * FROM '{table}' WHERE time >= {from} AND time < {to} ORDER BY time) TO '{path}'"
        );
        let output = run(&["sql", "-c", &statement]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        path
    }

    fn generated(&self, name: &str, more: &[&str]) -> String {
        let path = self.path(name);
        let output = run(&[&["generate", "traffic", "-o", &path], more].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        path
    }
}

/// Compresses for a target, which must pay, be met and find no drift.
fn pays(inputs: &[&str], archive: &str, target: f64, layout: &[&str]) -> Value {
    let text = target.to_string();
    let output = ["-o", archive, "--overwrite", "--target-nmae", &text];
    let report = ok(&[&["compress"], inputs, &output[..], layout].concat());
    assert_eq!(report["stored_as_they_were"].as_array().expect("names").len(), 0, "{report}");
    assert!(number(&report["nmae"]) <= target && number(&report["nmae"]) > 0.0, "{report}");
    assert_eq!(report["drift"].as_array().expect("files").len(), 0, "{report}");
    report
}

#[test]
fn the_same_values_pay_in_every_layout() {
    let folder = Folder::new();
    let archive = folder.path("archive");
    let of = ["--sensors", "24", "--days", "7", "--seed", "5"];
    let list = folder.generated("list.parquet", &of);
    let smallest = number(&pays(&[&list], &archive, 0.03, &[])["archive_bytes"]);
    let wide = folder.generated("wide.parquet", &[&of[..], &["--layout", "wide"]].concat());
    let long = folder.generated("long.parquet", &[&of[..], &["--layout", "long"]].concat());
    let parts = [(0, 2), (2, 5), (5, 7)]
        .map(|(from, to)| folder.days(&long, &format!("long{from}.parquet"), from, to));
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    // Times and names of sensors are kept in every row of a long table.
    for (inputs, layout, times) in [
        (vec![wide.as_str()], ["--columns", "s*"], 3.0),
        (vec![long.as_str()], ["--long", "time,sensor,value"], 6.0),
        (parts, ["--long", "time,sensor,value"], 6.0),
    ] {
        let report = pays(&inputs, &archive, 0.03, &layout);
        assert!(
            number(&report["archive_bytes"]) < times * smallest,
            "{layout:?}: {report}, the list takes {smallest}"
        );
    }
}

#[test]
fn windows_are_learned_in_their_phase() {
    let folder = Folder::new();
    let (table, archive) = (folder.path("load.parquet"), folder.path("archive"));
    // Not a multiple of four windows, so that no quarter of the rows begins with one.
    let statement = format!(
        "COPY (SELECT value AS t, 100.0 + 10.0 * sin(2.0 * pi() * value / 48.0) + 3.0 * sin(2.0 * pi() * value / 336.0) AS load \
         FROM generate_series(0, 19239)) TO '{table}'"
    );
    assert!(run(&["sql", "-c", &statement]).status.success());
    pays(&[&table], &archive, 0.01, &["--column", "load", "--window", "48"]);
}

#[test]
fn other_columns_and_changes_for_a_while_do_not_hide_that_it_pays() {
    let folder = Folder::new();
    let archive = folder.path("archive");
    let list = folder.generated("list.parquet", &["--sensors", "24", "--days", "7", "--seed", "5"]);
    let kept = folder.path("kept.parquet");
    let statement = format!("COPY (SELECT *, uuid() AS id, random() AS other FROM '{list}') TO '{kept}'");
    assert!(run(&["sql", "-c", &statement]).status.success());
    pays(&[&kept], &archive, 0.03, &[]);
    let changed = folder.path("changed.parquet");
    let sensors: Vec<String> = (1..=20)
        .map(|sensor| {
            let louder = "CASE WHEN value BETWEEN 2000 AND 2999 THEN 12.5 ELSE 10.0 END";
            format!("50.0 + {louder} * sin(value / 50.0 + {sensor})")
        })
        .collect();
    let statement = format!(
        "COPY (SELECT value AS t, [{}] AS v FROM generate_series(0, 3999)) TO '{changed}'",
        sensors.join(", ")
    );
    assert!(run(&["sql", "-c", &statement]).status.success());
    pays(&[&changed], &archive, 0.01, &[]);
}

#[test]
fn targets_are_met_on_rows_that_the_search_never_saw() {
    let folder = Folder::new();
    let table = folder.generated("t.parquet", &["--sensors", "48", "--days", "12", "--seed", "7"]);
    let (seen, unseen) =
        (folder.days(&table, "seen.parquet", 0, 8), folder.days(&table, "unseen.parquet", 8, 12));
    let archive = folder.path("archive");
    for target in [0.02, 0.05] {
        let text = target.to_string();
        ok(&["compress", &seen, "-o", &archive, "--overwrite", "--target-nmae", &text]);
        ok(&["append", &archive, &unseen]);
        let inspected = ok(&["inspect", &archive]);
        for file in inspected["data_files"].as_array().expect("files") {
            let nmae = number(&file["nmae"]);
            assert!(nmae <= 1.05 * target && nmae > 0.0, "{target}: {file}");
        }
        assert_eq!(number(&inspected["target"]["nmae"]), target);
    }
    let ratio = 60.0;
    let report = ok(&["compress", &table, "-o", &archive, "--overwrite", "--target-ratio", "60"]);
    let values = 12.0 * 288.0 * 48.0 * 8.0;
    let reached = values / number(&report["archive_bytes"]);
    assert!(reached >= ratio / 1.05, "{report}");
    assert!(reached <= 1.2 * ratio, "bytes that may be used are used: {report}");
}

#[test]
fn the_same_target_gives_the_same_bytes_whatever_the_threads() {
    let folder = Folder::new();
    let table = folder.generated("t.parquet", &["--sensors", "48", "--days", "10", "--seed", "2"]);
    let bytes = |threads: &str| {
        let archive = folder.path(&format!("archive-{threads}"));
        ok(&["compress", &table, "-o", &archive, "--target-nmae", "0.03", "--threads", threads]);
        let read = |name: &str| std::fs::read(Path::new(&archive).join(name)).expect("bytes");
        (read("archive.json"), read("dictionary.parquet"), read("t.parquet"))
    };
    assert!(bytes("1") == bytes("3"));
}

#[test]
fn parameters_that_are_set_are_respected() {
    let folder = Folder::new();
    let table = folder.generated("t.parquet", &["--sensors", "48", "--days", "10", "--seed", "2"]);
    let archive = folder.path("archive");
    let set = ["--atoms", "10", "--sigma", "33", "--lambda", "0.3"];
    for aim in [["--target-nmae", "0.04"], ["--max-error", "2"]] {
        ok(&[&["compress", &table, "-o", &archive, "--overwrite"][..], &aim, &set].concat());
        let inspected = ok(&["inspect", &archive]);
        let dictionary = &inspected["dictionary"];
        assert!(number(&dictionary["atoms"]) <= 10.0, "{dictionary}");
        assert_eq!(number(&dictionary["lambda"]), 0.3, "{dictionary}");
        // Sensors may be scaled or not, but the width is as it was given.
        assert_eq!(number(&dictionary["parameters"]["sigma"]), 33.0, "{dictionary}");
        for tried in inspected["search"].as_array().expect("a record") {
            assert_eq!((number(&tried["atoms"]), number(&tried["lambda"])), (10.0, 0.3), "{tried}");
        }
    }
    ok(&["compress", &table, "-o", &archive, "--overwrite", "--target-nmae", "0.04", "--kernel", "linear"]);
    assert_eq!(ok(&["inspect", &archive])["dictionary"]["kernel"], "linear");
}

#[test]
fn wrong_targets_are_refused() {
    let folder = Folder::new();
    let table = folder.traffic("t.parquet", "list", 1);
    let archive = folder.path("archive");
    for (aim, named) in [
        (["--target-nmae", "0"], "--target-nmae"),
        (["--target-nmae", "1.5"], "--target-nmae"),
        (["--target-ratio", "1"], "--target-ratio"),
        (["--target-ratio", "-3"], "--target-ratio"),
    ] {
        let error = refused(&[&["compress", &table, "-o", &archive][..], &aim].concat());
        assert!(error.contains(named), "{aim:?}: {error}");
    }
    let both = run(&["compress", &table, "-o", &archive, "--target-nmae", "0.1", "--max-error", "1"]);
    assert_eq!(both.status.code(), Some(2));
    assert!(!Path::new(&archive).exists());
}

#[test]
fn codes_that_do_not_pay_are_left_alone() {
    let folder = Folder::new();
    let vectors = |element: &str, count: usize| vec![element; count].join(", ");
    // As good as random, and the same every time: what chance may do is no reason to fail.
    let chance = |i: usize| format!("abs(sin(value * 12.9898 + {i} * 78.233) * 43758.5453) % 1.0");
    let noise = (0..20).map(chance).collect::<Vec<_>>().join(", ");
    // Every sensor of a walk adds up its own steps.
    let steps: Vec<String> = (0..20).map(|i| format!("{} - 0.5 AS r{i}", chance(i))).collect();
    let sums: Vec<String> = (0..20).map(|i| format!("sum(r{i}) OVER (ORDER BY i)")).collect();
    let walk = format!(
        "SELECT i, [{}] AS v FROM (SELECT value AS i, {} FROM generate_series(1, 3000))",
        sums.join(", "),
        steps.join(", ")
    );
    let traffic = project("sample-data/traffic.parquet").display().to_string();
    for (name, query, why) in [
        ("noise", format!("SELECT value AS i, [{noise}] AS v FROM generate_series(1, 2000)"), "in common"),
        ("walk", walk, "carry over"),
        (
            "constant",
            format!("SELECT value AS i, [{}] AS v FROM generate_series(1, 2000)", vectors("3.25", 20)),
            "alike",
        ),
        ("few", format!("SELECT * FROM '{traffic}' ORDER BY time LIMIT 50"), "too few"),
    ] {
        let table = folder.path(&format!("{name}.parquet"));
        let output = run(&["sql", "-c", &format!("COPY ({query}) TO '{table}'")]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let archive = folder.path("archive");
        let report = ok(&["compress", &table, "-o", &archive, "--overwrite"]);
        assert_eq!(report["stored_as_they_were"].as_array().map(Vec::len), Some(1), "{name}: {report}");
        assert!(report["does_not_pay"].as_str().is_some_and(|told| told.contains(why)), "{name}: {report}");
        let stored = Path::new(&archive).join(format!("{name}.parquet"));
        assert!(std::fs::read(stored).expect("stored") == std::fs::read(&table).expect("the table"));
        // Codes do not pay; rounding does, all the more where an error may be larger.
        let mut last = f64::MAX;
        for target in ["0.01", "0.05"] {
            let report = ok(&["compress", &table, "-o", &archive, "--overwrite", "--target-nmae", target]);
            assert!(
                number(&report["nmae"])
                    <= number(&serde_json::json!(target.parse::<f64>().expect("a number")))
            );
            assert!(number(&report["archive_bytes"]) <= 1.002 * last, "{name} {target}: {report}");
            last = number(&report["archive_bytes"]);
        }
    }
}

#[test]
fn short_tables_pay_whichever_hours_are_held_out() {
    let folder = Folder::new();
    for seed in ["1", "2", "3", "4", "5", "6"] {
        // Parts of four days are as long as a day.
        let table = folder.generated("t.parquet", &["--sensors", "30", "--days", "4", "--seed", seed]);
        let report = pays(&[&table], &folder.path("archive"), 0.05, &[]);
        assert!(number(&report["archive_bytes"]) < 5000.0, "seed {seed}: {report}");
    }
}

#[test]
fn looser_targets_take_no_more_bytes() {
    let folder = Folder::new();
    let table = folder.generated("t.parquet", &["--sensors", "30", "--days", "8", "--seed", "4"]);
    let archive = folder.path("archive");
    let mut reports: Vec<Value> = Vec::new();
    for target in [0.02, 0.03, 0.05, 0.08] {
        let report = pays(&[&table], &archive, target, &[]);
        if let Some(tighter) = reports.last() {
            let (bytes, before) = (number(&report["archive_bytes"]), number(&tighter["archive_bytes"]));
            assert!(bytes <= 1.02 * before, "{target}: {report} after {tighter}");
        }
        reports.push(report);
    }
    // What fits into so many bytes is found from there, too.
    for report in &reports[..2] {
        let ratio = (0.9 * number(&report["ratio_to_values"])).to_string();
        let found = ok(&["compress", &table, "-o", &archive, "--overwrite", "--target-ratio", &ratio]);
        assert!(number(&found["nmae"]) <= 1.15 * number(&report["nmae"]), "{ratio}: {found} beside {report}");
    }
}

#[test]
fn zeros_and_huge_values_are_told_in_words() {
    let folder = Folder::new();
    let table = folder.generated("t.parquet", &["--sensors", "12", "--days", "6", "--seed", "3"]);
    let zeros = folder.path("zeros.parquet");
    let all = |value: &str| [value; 12].join(", ");
    let made = format!("COPY (SELECT time, [{}] AS v FROM '{table}') TO '{zeros}'", all("0.0"));
    assert!(run(&["sql", "-c", &made]).status.success());
    let archive = folder.path("archive");
    ok(&["compress", &table, "-o", &archive, "--target-nmae", "0.05"]);
    let output = run(&["append", &archive, &zeros]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains("drifted") && !told.contains("inf"), "{told}");
    let huge = folder.path("huge.parquet");
    let value = "1e300 * random()";
    let made =
        format!("COPY (SELECT value AS i, [{}] AS v FROM generate_series(1, 500)) TO '{huge}'", all(value));
    assert!(run(&["sql", "-c", &made]).status.success());
    // No kernel can compare such values; rounding alone still meets the target.
    let line = &ok(&["estimate", &huge, "--target-nmae", "0.05"])["ladder"][0];
    assert!((number(&line["atoms"]), &line["met"]) == (0.0, &true.into()), "{line}");
    let report = ok(&["compress", &huge, "-o", &archive, "--overwrite", "--target-nmae", "0.05"]);
    assert!(number(&report["nmae"]) <= 0.05, "{report}");
    let report = ok(&["compress", &huge, "-o", &archive, "--overwrite"]);
    assert!(
        report["does_not_pay"].as_str().is_some_and(|told| told.contains("kernels can compare")),
        "{report}"
    );
}

#[test]
fn rows_added_to_what_did_not_pay_may_pay() {
    let folder = Folder::new();
    let table = folder.generated("t.parquet", &["--sensors", "48", "--days", "10", "--seed", "3"]);
    let few = folder.path("few.parquet");
    assert!(
        run(&["sql", "-c", &format!("COPY (SELECT * FROM '{table}' ORDER BY time LIMIT 40) TO '{few}'")])
            .status
            .success()
    );
    let archive = folder.path("archive");
    let report = ok(&["compress", &few, "-o", &archive]);
    assert!(report["does_not_pay"].is_string(), "{report}");
    let report = ok(&["append", &archive, &table]);
    assert_eq!(report["stored_as_they_were"].as_array().map(Vec::len), Some(0), "{report}");
    assert!(number(&report["archive_bytes"]) < 0.25 * number(&report["input_bytes"]), "{report}");
    assert!(ok(&["verify", &archive])["problems"].as_array().is_some_and(Vec::is_empty));
    let rows = sql(&format!(
        "CREATE EXTERNAL TABLE t STORED AS SPARROW LOCATION '{archive}'; SELECT count(v) AS n FROM t"
    ));
    assert_eq!(number(&rows[0]["n"]), 40.0 + 10.0 * 288.0);
}

#[test]
fn drift_is_reported_where_it_starts_and_mended_by_learning_again() {
    let folder = Folder::new();
    // The file of days 8 and 9 has the change in its middle.
    let table = folder
        .generated("t.parquet", &["--sensors", "48", "--days", "13", "--seed", "5", "--drift-day", "9"]);
    let first = folder.days(&table, "a.parquet", 0, 6);
    let later = [("b.parquet", 6, 8), ("c.parquet", 8, 10), ("d.parquet", 10, 13)]
        .map(|(name, from, to)| folder.days(&table, name, from, to));
    for aim in [["--max-error", "1"], ["--target-nmae", "0.04"]] {
        let archive = folder.path("archive");
        let compress = || ok(&[&["compress", &first, "-o", &archive, "--overwrite"][..], &aim].concat());
        assert_eq!(compress()["drift"].as_array().map(Vec::len), Some(0));
        let append = |more: &[&str]| {
            let files: Vec<&str> = later.iter().map(String::as_str).collect();
            ok(&[&["append", &archive][..], &files, more].concat())
        };
        let report = append(&[]);
        let drift = report["drift"].as_array().expect("a list");
        let files: Vec<&str> = drift.iter().filter_map(|drift| drift["file"].as_str()).collect();
        assert_eq!(files, ["c.parquet", "d.parquet"], "{report}");
        // The change is at row 288, to within half a day.
        let since = number(&drift[0]["since_row"]);
        assert!((since - 288.0).abs() <= 128.0, "{report}");
        assert!(drift[0]["since"].as_str().is_some_and(|time| time.starts_with("2024-01-")), "{report}");
        assert!(number(&drift[1]["left"]) > 1.3 * number(&drift[1]["promised"]), "{report}");

        compress();
        let report = append(&["--retrain-on-drift"]);
        let drift = report["drift"].as_array().expect("a list");
        assert_eq!(drift.len(), 1, "{report}");
        assert_eq!(
            (&drift[0]["file"], &drift[0]["generation"]),
            (&"c.parquet".into(), &1.into()),
            "{report}"
        );
        let inspected = ok(&["inspect", &archive]);
        let file = |name: &str| {
            let files = inspected["data_files"].as_array().expect("files");
            files.iter().find(|file| file["path"] == name).expect("the file").clone()
        };
        assert_eq!(
            [file("b.parquet")["generation"].clone(), file("d.parquet")["generation"].clone()],
            [0, 1]
        );
        let (left, limit) =
            (number(&file("d.parquet")["left_by_codes"]), number(&file("d.parquet")["left_limit"]));
        assert!(left <= limit, "{left} is not within {limit}");
        // Readers need not know: all files are one table.
        let originals: Vec<&str> = std::iter::once(&first).chain(&later).map(String::as_str).collect();
        let verified = ok(&[&["verify", &archive, "--against"][..], &originals].concat());
        assert!(verified["problems"].as_array().is_some_and(Vec::is_empty), "{verified}");
        let rows = sql(&format!(
            "CREATE EXTERNAL TABLE t STORED AS SPARROW LOCATION '{archive}';
             SELECT count(v) AS n FROM t"
        ));
        assert_eq!(number(&rows[0]["n"]), 13.0 * 288.0);
        // What is added now is coded with the new dictionary.
        let more = folder.days(&table, "e.parquet", 11, 13);
        assert_eq!(ok(&["append", &archive, &more])["drift"].as_array().map(Vec::len), Some(0));
    }
}

#[test]
fn estimates_find_the_layout_and_predict_what_compress_delivers() {
    let folder = Folder::new();
    for (layout, arguments) in [
        ("list", vec!["--column", "v"]),
        ("wide", vec!["--columns", "s*"]),
        ("long", vec!["--long", "time,sensor,value"]),
    ] {
        let name = format!("{layout}.parquet");
        let table =
            folder.generated(&name, &["--sensors", "48", "--days", "10", "--seed", "4", "--layout", layout]);
        let estimate = ok(&["estimate", &table, "--target-nmae", "0.02,0.05", "--target-ratio", "30"]);
        assert_eq!(estimate["layout_arguments"], serde_json::json!(arguments), "{estimate}");
        assert_eq!(number(&estimate["value_bytes"]), 10.0 * 288.0 * 48.0 * 8.0, "{layout}");
        for line in estimate["ladder"].as_array().expect("a ladder") {
            let command = line["command"].as_str().expect("a command");
            let archive = folder.path("archive");
            // What is proposed is what can be typed.
            let words = command.replace('\'', "").replace("ARCHIVE", &archive);
            let words: Vec<&str> = words.split(' ').skip(1).collect();
            let report = ok(&[&words[..], &["--overwrite"]].concat());
            let near = |predicted: &Value, found: &Value| {
                let (predicted, found) = (number(predicted), number(found));
                (predicted - found).abs() <= 0.15 * found
            };
            assert!(near(&line["bytes"], &report["archive_bytes"]), "{command}: {line} {report}");
            assert!(near(&line["nmae"], &report["nmae"]), "{command}: {line} {report}");
        }
    }
    // One series: windows of its period.
    let series = folder.path("series.parquet");
    let statement = format!(
        "COPY (SELECT value AS t, sin(value * 6.283185307 / 48) + 0.01 * random() AS x FROM generate_series(1, 20000)) TO '{series}'"
    );
    assert!(run(&["sql", "-c", &statement]).status.success());
    let estimate = ok(&["estimate", &series, "--target-nmae", "0.05"]);
    assert_eq!(
        estimate["layout_arguments"],
        serde_json::json!(["--column", "x", "--window", "48"]),
        "{estimate}"
    );
}

#[test]
fn layouts_of_devices_and_of_short_series_are_found() {
    let folder = Folder::new();
    let found = |name: &str, select: &str| {
        let table = folder.path(name);
        assert!(run(&["sql", "-c", &format!("COPY ({select}) TO '{table}'")]).status.success(), "{select}");
        ok(&["estimate", &table, "--target-nmae", "0.05"])["layout_arguments"].clone()
    };
    let devices = "SELECT value / 8 AS ts, 'd' || (value % 8) AS device, 20 + sin(value / 8 * 0.02) + value % 8 AS reading, \
                   value % 13 * 0.5 AS battery FROM generate_series(0, 15999)";
    assert_eq!(found("devices.parquet", devices), serde_json::json!(["--long", "ts,device,reading"]));
    let machines = "SELECT value / 2 AS ts, 'm' || (value % 2) AS machine, sin(value * 0.01) AS s0, cos(value * 0.01) AS s1, \
                    sin(value * 0.02) AS s2 FROM generate_series(0, 7999)";
    assert_eq!(found("machines.parquet", machines), serde_json::json!(["--columns", "s*"]));
    // Five days of five minutes, with noise that moves the peak.
    let days = "SELECT value AS t, sin(value * 6.283185307 / 288) + 0.2 * sin(value * value * 1.7) AS x \
                FROM generate_series(1, 1500)";
    assert_eq!(found("days.parquet", days), serde_json::json!(["--column", "x", "--window", "288"]));
    // Seventy days are too few signals; half days are enough.
    let half = "SELECT value AS t, sin(value * 6.283185307 / 288) + 0.01 * sin(value * value * 1.7) AS x \
                FROM generate_series(1, 20160)";
    assert_eq!(found("half.parquet", half), serde_json::json!(["--column", "x", "--window", "144"]));
    // A period that is near a usual one, and is not it.
    let odd = "SELECT value AS t, sin(value * 6.283185307 / 59) AS x FROM generate_series(1, 6000)";
    assert_eq!(found("odd.parquet", odd), serde_json::json!(["--column", "x", "--window", "59"]));
}

#[test]
fn the_page_of_an_estimate_needs_nothing_else() {
    let folder = Folder::new();
    let table = folder.generated("t.parquet", &["--sensors", "48", "--days", "10"]);
    let page = folder.path("page.html");
    let output = run(&["estimate", &table, "--target-nmae", "0.02,0.05", "--format", "html", "-o", &page]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let html = std::fs::read_to_string(&page).expect("the page");
    assert!(html.matches("<figure").count() >= 5, "the trade-off and four sensors");
    assert!(!html.contains("<script") && !html.contains("http"), "nothing from elsewhere");
    assert!(html.contains("--target-nmae 0.05") && html.contains("It pays"), "{}", &html[..3000]);
}

#[test]
fn predictions_on_real_tables() {
    let folder = Folder::new();
    let files = ["metr_la_week1_207.parquet", "guangzhou_speed_500.parquet", "electricity_321x840h.parquet"];
    for table in files.into_iter().filter_map(shared_data) {
        let estimate = ok(&["estimate", &table, "--target-nmae", "0.05"]);
        let line = &estimate["ladder"][0];
        let archive = folder.path("archive");
        let report = ok(&["compress", &table, "-o", &archive, "--overwrite", "--target-nmae", "0.05"]);
        let (predicted, found) = (number(&line["bytes"]), number(&report["archive_bytes"]));
        assert!((predicted - found).abs() <= 0.15 * found, "{table}: {predicted} and {found}");
        let (predicted, found) = (number(&line["nmae"]), number(&report["nmae"]));
        assert!(
            (predicted - found).abs() <= 0.15 * found && found <= 0.0525,
            "{table}: {predicted} and {found}"
        );
    }
}
