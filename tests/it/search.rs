//! What is not set is chosen for the fewest bytes: none, few and many atoms are compared, and what is looser is no larger.

use serde_json::Value;

use crate::commands::{Folder, ok, run, sql};

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Some tables: sensors that share a daily shape, noise, and steps.
fn tables(folder: &Folder) -> Vec<String> {
    let chance = |i: usize| format!("abs(sin(value * 12.9898 + {i} * 78.233) * 43758.5453) % 1.0");
    let list = |element: &dyn Fn(usize) -> String| (0..12).map(element).collect::<Vec<_>>().join(", ");
    let noise = list(&|i| format!("50 + 5 * sin(value * 0.0654 + {i}) + {}", chance(i)));
    let steps = list(&|i| format!("10.0 * ((value / 150 + {i}) % 4)"));
    let made = [("noise", noise), ("steps", steps)].map(|(name, values)| {
        let table = folder.path(&format!("{name}.parquet"));
        let statement = format!(
            "COPY (SELECT value AS i, [{values}] AS v FROM generate_series(1, 2500) ORDER BY value) TO '{table}'"
        );
        assert!(run(&["sql", "-c", &statement]).status.success(), "{statement}");
        table
    });
    let traffic = folder.path("traffic.parquet");
    let generated = ["generate", "traffic", "-o", &traffic, "--sensors", "60", "--days", "8", "--seed", "2"];
    assert!(run(&generated).status.success());
    made.into_iter().chain([traffic]).collect()
}

fn bytes(folder: &Folder, table: &str, arguments: &[&str]) -> f64 {
    let archive = folder.path("archive");
    let report = ok(&[&["compress", table, "-o", &archive, "--overwrite"], arguments].concat());
    number(&report["archive_bytes"])
}

#[test]
fn what_is_chosen_is_no_larger_than_what_could_be_set() {
    let folder = Folder::new();
    for table in tables(&folder) {
        for bound in ["0.5", "2"] {
            let chosen = bytes(&folder, &table, &["--max-error", bound]);
            for atoms in ["0", "1", "2", "8", "32"] {
                let set = bytes(&folder, &table, &["--max-error", bound, "--atoms", atoms]);
                assert!(
                    chosen <= 1.02 * set,
                    "{table}: {chosen} under {bound}, and {set} with {atoms} atoms"
                );
            }
        }
    }
}

#[test]
fn looser_bounds_take_no_more_bytes() {
    let folder = Folder::new();
    for table in tables(&folder) {
        let ladder = ["0.25", "0.5", "0.6", "1", "2.5", "6"];
        let found = ladder.map(|bound| bytes(&folder, &table, &["--max-error", bound]));
        // What is recorded of errors and bounds differs by some dozen digits.
        assert!(
            found.is_sorted_by(|tighter, looser| *looser <= 1.002 * tighter + 64.0),
            "{table}: {found:?} for {ladder:?}"
        );
    }
}

#[test]
fn a_dictionary_may_be_larger_where_it_will_serve_more_rows() {
    let folder = Folder::new();
    let table = tables(&folder).pop().expect("a table");
    let archive = folder.path("archive");
    let dictionary = |more: &[&str]| {
        let bounded = ["compress", &table, "-o", &archive, "--overwrite", "--max-error", "0.5"];
        number(&ok(&[&bounded[..], more].concat())["dictionary_bytes"])
    };
    let (few, many) = (dictionary(&[]), dictionary(&["--expect-rows", "1000000000"]));
    assert!(many > few, "{many} bytes for many rows, {few} for those that are there");
    let refused = run(&["compress", &table, "-o", &archive, "--max-error", "0.5", "--expect-rows", "0"]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn without_atoms_there_are_no_codes_to_read() {
    let folder = Folder::new();
    let (archive, back) = (folder.path("archive"), folder.path("back.parquet"));
    for layout in ["list", "wide", "long"] {
        let table = folder.path(&format!("{layout}.parquet"));
        let generated =
            ["generate", "traffic", "-o", &table, "--sensors", "5", "--days", "2", "--layout", layout];
        assert!(run(&generated).status.success());
        let arguments = match layout {
            "list" => ["--column", "v"],
            "wide" => ["--columns", "s*"],
            _ => ["--long", "time,sensor,value"],
        };
        let compress =
            ["compress", &table, "-o", &archive, "--overwrite", "--max-error", "0.5", "--atoms", "0"];
        ok(&[&compress[..], &arguments].concat());
        let report = ok(&["inspect", &archive]);
        assert_eq!(number(&report["dictionary"]["atoms"]), 0.0, "{report}");
        if layout != "list" {
            assert_eq!(number(&report["bytes_by_part"]["codes"]), 0.0, "{layout}: {report}");
        }
        let verified = ok(&["verify", &archive, "--against", &table]);
        assert!(verified["problems"].as_array().is_some_and(Vec::is_empty), "{layout}: {verified}");
        let again = folder.path("again.parquet");
        std::fs::copy(&table, &again).expect("a copy");
        ok(&["append", &archive, &again]);
        assert!(run(&["decompress", &archive, "-o", &back, "--overwrite"]).status.success());
        let count = |from: &str| sql(&format!("SELECT count(*) AS n FROM '{from}'"))[0]["n"].clone();
        assert_eq!(number(&count(&back)), 2.0 * number(&count(&table)), "{layout}");
        assert_eq!(count(&format!("{archive}/")), count(&back), "{layout}");
    }
}

#[test]
fn lists_that_are_null_stay_so_without_atoms() {
    let folder = Folder::new();
    let (table, archive) = (folder.path("t.parquet"), folder.path("archive"));
    let statement = format!(
        "COPY (SELECT value AS i, CASE WHEN value % 7 > 0 THEN [value * 0.1, NULL, 3.0] END AS v \
         FROM generate_series(1, 300) ORDER BY value) TO '{table}'"
    );
    assert!(run(&["sql", "-c", &statement]).status.success());
    ok(&["compress", &table, "-o", &archive, "--max-error", "0.01", "--atoms", "0"]);
    let verified = ok(&["verify", &archive, "--against", &table]);
    assert!(verified["problems"].as_array().is_some_and(Vec::is_empty), "{verified}");
    let nulls = |from: &str| {
        sql(&format!("SELECT count(*) AS n, count(v) AS lists, count(v[2]) AS seconds FROM '{from}'"))[0]
            .clone()
    };
    assert_eq!(nulls(&format!("{archive}/")), nulls(&table));
}
