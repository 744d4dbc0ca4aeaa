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
    assert_eq!(files.len(), 9);
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
