//! Columns that are kept come back as they were, or their file is refused: nothing of them is lost without a word.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, DictionaryArray, Float64Array, Int8Array, RecordBatch, StringArray,
};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::basic::LogicalType;
use datafusion::parquet::data_type::{
    ByteArray, ByteArrayType, DataType, DoubleType, FixedLenByteArray, FixedLenByteArrayType, Int64Type,
};
use datafusion::parquet::file::reader::{FileReader, SerializedFileReader};
use datafusion::parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use datafusion::parquet::schema::parser::parse_message_type;

use crate::commands::{Folder, fails, ok};

const ROWS: usize = 600;

fn values() -> Vec<f64> {
    (0..ROWS).map(|i| (i as f64 / 20.0).sin() * 10.0).collect()
}

fn add<T: DataType>(group: &mut SerializedRowGroupWriter<'_, File>, values: &[T::T]) {
    let mut column = group.next_column().expect("room").expect("a column");
    column.typed::<T>().write_batch(values, None, None).expect("written");
    column.close().expect("whole");
}

/// A table with an interval in each row, of so many months and milliseconds.
fn with_intervals(path: &str, months: u32, milliseconds: u32) {
    let schema = "message schema { required fixed_len_byte_array(12) gap (INTERVAL); required double x; }";
    let schema = Arc::new(parse_message_type(schema).expect("a schema"));
    let file = File::create(path).expect("a file");
    let mut writer = SerializedFileWriter::new(file, schema, Arc::default()).expect("a writer");
    let mut group = writer.next_row_group().expect("a row group");
    let gap = [months.to_le_bytes(), 0u32.to_le_bytes(), milliseconds.to_le_bytes()].concat();
    let gaps = vec![FixedLenByteArray::from(ByteArray::from(gap)); ROWS];
    add::<FixedLenByteArrayType>(&mut group, &gaps);
    add::<DoubleType>(&mut group, &values());
    group.close().expect("whole");
    writer.close().expect("whole");
}

#[test]
fn intervals_that_would_lose_their_months_are_refused() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("in")).expect("a folder");
    with_intervals(&folder.path("in/days.parquet"), 0, 5000);
    with_intervals(&folder.path("in/months.parquet"), 7, 5000);
    let archive = folder.path("archive");
    let bounded = ["compress", &folder.path("in"), "-o", &archive, "--columns", "x", "--max-error", "0.1"];
    let error = fails(&bounded);
    assert!(
        error.contains("months.parquet: column \"gap\"") && error.contains("1 of 2 files failed"),
        "{error}"
    );
    let verified = ok(&["verify", &archive, "--against", &folder.path("in/days.parquet")]);
    assert_eq!(verified["match_their_originals"], 1);
}

/// The logical types of a file's columns.
fn logical_types(path: &Path) -> Vec<Option<LogicalType>> {
    let reader = SerializedFileReader::new(File::open(path).expect("a file")).expect("a table");
    let columns = reader.metadata().file_metadata().schema_descr().columns().to_vec();
    columns.iter().map(|column| column.logical_type_ref().cloned()).collect()
}

#[test]
fn types_that_arrow_does_not_know_are_kept() {
    let folder = Folder::new();
    let (table, archive, back) =
        (folder.path("t.parquet"), folder.path("archive"), folder.path("back.parquet"));
    let schema = "message schema { required fixed_len_byte_array(16) id (UUID); required binary text (JSON);
                  required int64 at (TIME(MICROS, true)); required double x; }";
    let schema = Arc::new(parse_message_type(schema).expect("a schema"));
    let file = File::create(&table).expect("a file");
    let mut writer = SerializedFileWriter::new(file, schema, Arc::default()).expect("a writer");
    let mut group = writer.next_row_group().expect("a row group");
    let ids: Vec<FixedLenByteArray> =
        (0..ROWS).map(|i| ByteArray::from((i as u128).to_be_bytes().to_vec()).into()).collect();
    let texts: Vec<ByteArray> =
        (0..ROWS).map(|i| ByteArray::from(format!("{{\"i\":{i}}}").into_bytes())).collect();
    let times: Vec<i64> = (0..ROWS as i64).collect();
    add::<FixedLenByteArrayType>(&mut group, &ids);
    add::<ByteArrayType>(&mut group, &texts);
    add::<Int64Type>(&mut group, &times);
    add::<DoubleType>(&mut group, &values());
    group.close().expect("whole");
    writer.close().expect("whole");
    let expected = logical_types(Path::new(&table));
    assert!(expected[..3].iter().all(Option::is_some), "{expected:?}");
    ok(&["compress", &table, "-o", &archive, "--columns", "x", "--max-error", "0.1"]);
    assert_eq!(ok(&["verify", &archive, "--against", &table])["match_their_originals"], 1);
    assert_eq!(logical_types(&Path::new(&archive).join("t.parquet"))[..3], expected[..3]);
    ok(&["decompress", &archive, "-o", &back]);
    assert_eq!(logical_types(Path::new(&back)), expected);
}

/// As pandas writes categories: the numbers of a file's own values fit into a byte, those of all files do not.
#[test]
fn dictionaries_may_differ_from_file_to_file() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("in")).expect("a folder");
    for file in 0..3 {
        let names: StringArray = (0..100).map(|i| Some(format!("name {file} {i}"))).collect();
        let keys: Int8Array = (0..ROWS).map(|i| Some((i % 100) as i8)).collect();
        let names: ArrayRef = Arc::new(DictionaryArray::new(keys, Arc::new(names)));
        let x: ArrayRef = Arc::new(Float64Array::from(values()));
        let table = RecordBatch::try_from_iter([("name", names), ("x", x)]).expect("a table");
        let path = folder.path(&format!("in/{file}.parquet"));
        let mut writer = ArrowWriter::try_new(File::create(path).expect("a file"), table.schema(), None)
            .expect("a writer");
        writer.write(&table).expect("written");
        writer.close().expect("whole");
    }
    let (input, archive) = (folder.path("in"), folder.path("archive"));
    ok(&["compress", &input, "-o", &archive, "--columns", "x", "--max-error", "0.1"]);
    assert_eq!(ok(&["verify", &archive, "--against", &input])["match_their_originals"], 3);
}

/// Arrow panics over types of other programs in its own description of the columns.
#[test]
fn tables_with_unknown_types_are_named_and_do_not_stop_the_others() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("in")).expect("a folder");
    let fixture = format!("{}/tests/fixtures/int128.parquet", env!("CARGO_MANIFEST_DIR"));
    std::fs::copy(fixture, folder.path("in/other.parquet")).expect("copied");
    folder.traffic("in/a.parquet", "list", 1);
    let error = fails(&["compress", &folder.path("in"), "-o", &folder.path("archive"), "--max-error", "1"]);
    assert!(error.contains("other.parquet: not a Parquet file: it describes its columns"), "{error}");
    assert_eq!(ok(&["inspect", &folder.path("archive")])["rows"], 576);
}
