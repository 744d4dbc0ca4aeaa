//! Every file of queries/ runs from the top of the project, so none goes stale.

use std::path::Path;

use crate::support::{project, query, session, sparrow};

/// A folder with the sample data, where queries may write.
fn scratch() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let to = folder.path().join("sample-data");
    std::fs::create_dir(&to).expect("a folder");
    for entry in std::fs::read_dir(project("sample-data")).expect("sample data") {
        let path = entry.expect("an entry").path();
        std::fs::copy(&path, to.join(path.file_name().expect("a name"))).expect("a copy");
    }
    folder
}

fn run(folder: &Path, query: &Path) -> String {
    let output = sparrow()
        .current_dir(folder)
        .args(["sql", "--format", "nd-json", "-f"])
        .arg(query)
        .output()
        .expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", query.display());
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn all_run_in_order_and_say_what_they_should() {
    let folder = scratch();
    let mut files: Vec<_> = std::fs::read_dir(project("queries"))
        .expect("queries")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    assert_eq!(files.len(), 10);
    for file in files {
        let printed = run(folder.path(), &file);
        let rows: Vec<serde_json::Value> =
            printed.lines().map(|line| serde_json::from_str(line).expect("a JSON object per line")).collect();
        let errors: Vec<f64> = rows.iter().filter_map(|row| row["nmae"].as_f64()).collect();
        assert!(errors.iter().all(|nmae| *nmae > 0.0 && *nmae < 0.05), "{}: {errors:?}", file.display());
        if file.ends_with("demo.sql") {
            assert_eq!(errors.len(), 1);
            let ratio = |what: &str| {
                let row = rows
                    .iter()
                    .find(|row| row["what"] == what)
                    .unwrap_or_else(|| panic!("{what}: {printed}"));
                row["ratio"].as_f64().expect("a number")
            };
            assert!(ratio("Sparrow: codes + dictionary") > 4.0 * ratio("Parquet + zstd"), "{printed}");
        }
    }
}

/// What the command finds of planted incidents: a place within the queue, at a time when it stood.
fn precision_and_recall(found: &[serde_json::Value], planted: &[serde_json::Value]) -> (f64, f64) {
    let minutes = |value: &serde_json::Value| {
        let text = value.as_str().expect("a time");
        let part = |range: std::ops::Range<usize>| text[range].parse::<i64>().expect("a number");
        ((part(5..7) * 31 + part(8..10)) * 24 + part(11..13)) * 60 + part(14..16)
    };
    let matches = |found: &serde_json::Value, planted: &serde_json::Value| {
        let number = |row: &serde_json::Value, name: &str| row[name].as_i64().expect("a number");
        let upstream = number(planted, "position") - number(found, "sensor");
        let reach = number(planted, "reach");
        // The queue needs so long to reach its end, and to clear there.
        let late = 5 * (reach + 1);
        (0..=reach).contains(&upstream)
            && minutes(&found["first"]) <= minutes(&planted["end"]) + late
            && minutes(&found["last"]) >= minutes(&planted["start"])
    };
    let right = found.iter().filter(|found| planted.iter().any(|planted| matches(found, planted))).count();
    let seen = planted.iter().filter(|planted| found.iter().any(|found| matches(found, planted))).count();
    (right as f64 / found.len() as f64, seen as f64 / planted.len() as f64)
}

#[test]
fn planted_incidents_are_found_at_the_default_threshold() {
    let lines = |text: &str| -> Vec<serde_json::Value> {
        text.lines().map(|line| serde_json::from_str(line).expect("a JSON object")).collect()
    };
    for seed in ["1", "2", "7", "11", "12", "13"] {
        let folder = scratch();
        let made = sparrow()
            .current_dir(folder.path())
            .args([
                "generate",
                "traffic",
                "--days",
                "14",
                "--seed",
                seed,
                "-o",
                "sample-data/traffic.parquet",
            ])
            .args(["--incidents", "sample-data/incidents.parquet"])
            .status();
        assert!(made.expect("it runs").success());
        let found = lines(&run(folder.path(), &project("queries/09_incidents.sql")));
        let all = folder.path().join("all.sql");
        std::fs::write(&all, "SELECT * FROM 'sample-data/incidents.parquet'").expect("a file");
        let planted = lines(&run(folder.path(), &all));
        let (precision, recall) = precision_and_recall(&found, &planted);
        println!(
            "seed {seed}: {} planted, {} found, precision {precision:.3}, recall {recall:.3}",
            planted.len(),
            found.len()
        );
        assert!(precision >= 0.9 && recall >= 0.9, "seed {seed}: precision {precision}, recall {recall}");
    }
}

#[tokio::test]
async fn sample_data_is_what_its_readme_says() {
    let readme = std::fs::read_to_string(project("sample-data/README.md")).expect("its README");
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("sample-data")).expect("a folder");
    let mut made = 0;
    for line in readme.lines().filter_map(|line| line.trim().strip_prefix("sparrow ")) {
        let output =
            sparrow().current_dir(folder.path()).args(line.split_whitespace()).output().expect("it runs");
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        made += 1;
    }
    assert!(made >= 3);
    for entry in std::fs::read_dir(folder.path().join("sample-data")).expect("made data") {
        let path = entry.expect("an entry").path();
        let shipped = project("sample-data").join(path.file_name().expect("a name"));
        let session = session();
        let (made, shipped) =
            (format!("SELECT * FROM '{}'", path.display()), format!("SELECT * FROM '{}'", shipped.display()));
        assert!(query(&session, &made).await == query(&session, &shipped).await, "{}", path.display());
    }
}
