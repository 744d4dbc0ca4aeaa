//! Tables and archives as users name them: what can be an input, and what a name in SQL stands for.

use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchReader};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::commands::{Folder, fails, ok, sql};
use crate::support::sparrow;

#[test]
fn what_cannot_be_a_table_is_told_by_name() {
    let folder = Folder::new();
    let table = folder.traffic("t.parquet", "list", 1);
    let (archive, other) = (folder.path("archive"), folder.path("other"));
    ok(&["compress", &table, "-o", &archive, "--max-error", "1"]);
    let empty = folder.path("empty.parquet");
    std::fs::write(&empty, b"").expect("written");
    let data_file = format!("{archive}/t.parquet");
    for (input, expected) in [
        (archive.as_str(), "is an archive already"),
        (data_file.as_str(), "a data file of an archive already"),
        (empty.as_str(), "empty.parquet: not a Parquet file: it is empty"),
    ] {
        for command in [&["compress", input, "-o", &other][..], &["estimate", input]] {
            let error = fails(command);
            assert!(error.contains(expected) && error.matches("error:").count() == 1, "{command:?}: {error}");
        }
    }
    // Beside a table that can be read it is one of several that fail.
    let error = fails(&["compress", &table, &empty, "-o", &other, "--max-error", "1"]);
    assert!(error.contains("empty.parquet: not a Parquet file") && error.contains("1 of 2 files failed"));
    assert!(ok(&["verify", &other])["problems"].as_array().is_some_and(Vec::is_empty));
}

#[test]
fn lists_may_call_their_elements_as_they_like() {
    let folder = Folder::new();
    let table = folder.traffic("t.parquet", "list", 1);
    let renamed = folder.path("renamed.parquet");
    let input = std::fs::File::open(&table).expect("the table");
    let reader = ParquetRecordBatchReaderBuilder::try_new(input).expect("Parquet").build().expect("rows");
    let element = Arc::new(Field::new("element", DataType::Float64, false));
    let fields = vec![reader.schema().field(0).clone(), Field::new("v", DataType::List(element), false)];
    let schema = Arc::new(Schema::new(fields));
    let output = std::fs::File::create(&renamed).expect("a file");
    let mut writer = ArrowWriter::try_new(output, schema.clone(), None).expect("a writer");
    for batch in reader {
        let batch = batch.expect("rows");
        let lists = cast(batch.column(1), schema.field(1).data_type()).expect("the same values");
        let batch = RecordBatch::try_new(schema.clone(), vec![batch.column(0).clone(), lists]);
        writer.write(&batch.expect("the same rows")).expect("written");
    }
    writer.close().expect("written");
    // Coded, and stored as it was: rows of both are read as one table.
    for aim in [&["--max-error", "0.5"][..], &["--target-nmae", "0.000001"]] {
        let archive = folder.path("archive");
        ok(&[&["compress", &table, "-o", &archive, "--overwrite"], aim].concat());
        let report = ok(&["append", &archive, &renamed]);
        assert_eq!(report["failed"].as_array().map(Vec::len), Some(0), "{report}");
        let verified = ok(&["verify", &archive, "--against", &table, &renamed]);
        assert_eq!(verified["problems"].as_array().map(Vec::len), Some(0), "{verified}");
        let rows = sql(&format!("SELECT count(*) AS n, count(v[12]) AS m FROM '{archive}/'"));
        assert_eq!((&rows[0]["n"], &rows[0]["m"]), (&1152.into(), &1152.into()), "{rows}");
        let whole = folder.path("whole.parquet");
        ok(&["decompress", &archive, "-o", &whole, "--overwrite"]);
        assert_eq!(sql(&format!("SELECT count(*) AS n FROM '{whole}'"))[0]["n"], 1152);
    }
}

#[test]
fn a_path_is_an_archive_and_a_bare_word_is_none() {
    let folder = Folder::new();
    let table = folder.traffic("t.parquet", "list", 1);
    let archive = folder.path("traffic");
    ok(&["compress", &table, "-o", &archive, "--max-error", "0.5"]);
    let within = |statements: &str| {
        let output = sparrow()
            .current_dir(folder.0.path())
            .args(["sql", "--format", "json", "-c", statements])
            .output()
            .expect("it runs");
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    for name in ["traffic/", "./traffic", archive.as_str()] {
        assert_eq!(
            within(&format!("SELECT count(v) AS n FROM '{name}'")),
            (true, "[{\"n\":576}]\n".to_string())
        );
    }
    // Its files are tables, too, with codes as any reader sees them.
    assert!(within("SELECT count(*) AS n FROM 'traffic/*.parquet'").0);
    let (made, rows) = within("CREATE TABLE traffic AS SELECT 1 AS n; SELECT n FROM traffic");
    assert!(made && rows.contains("[{\"n\":1}]"), "{rows}");
    assert!(!within("SELECT * FROM 'traffic'").0);
}
