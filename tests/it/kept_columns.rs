//! Columns that are kept come back as they were, or their file is refused: nothing of them is lost without a word.

use std::collections::BTreeSet;
use std::fs::File;
use std::panic::catch_unwind;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, DictionaryArray, FixedSizeBinaryArray, Float64Array, Int8Array, Int32Array, Int64Array,
    MapBuilder, RecordBatch, StringArray, StringBuilder, StructArray, UnionArray, new_null_array,
};
use datafusion::arrow::array::{Int32Builder, IntervalDayTimeArray, IntervalYearMonthArray};
use datafusion::arrow::compute::{cast, concat_batches};
use datafusion::arrow::datatypes::{
    DataType as Arrow, Field, Fields, IntervalDayTime, IntervalUnit, Schema, TimeUnit, UnionFields, UnionMode,
};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use datafusion::parquet::basic::{LogicalType, Type as PhysicalType};
use datafusion::parquet::data_type::{
    ByteArray, ByteArrayType, DataType, DoubleType, FixedLenByteArray, FixedLenByteArrayType, Int64Type,
};
use datafusion::parquet::file::properties::WriterProperties;
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

fn numbers() -> ArrayRef {
    Arc::new((0..ROWS as i32).map(|i| (i % 7 != 3).then_some(i % 50)).collect::<Int32Array>())
}

/// The values as another type; nothing but NULLs where Arrow has no way there.
fn cast_or_null(values: &ArrayRef, data_type: &Arrow) -> ArrayRef {
    cast(values, data_type).unwrap_or_else(|_| new_null_array(data_type, ROWS))
}

/// A column of a type, with NULLs where the type has them.
fn column_of(data_type: &Arrow) -> ArrayRef {
    let texts = || cast(&numbers(), &Arrow::Utf8).expect("texts");
    match data_type {
        Arrow::Date64 => {
            let days = (0..ROWS as i64).map(|i| (i % 7 != 3).then_some(i * 86_400_000));
            cast(&(Arc::new(days.collect::<Int64Array>()) as ArrayRef), data_type).expect("days")
        }
        Arrow::Time32(_) | Arrow::Date32 | Arrow::Interval(IntervalUnit::YearMonth) => match data_type {
            Arrow::Interval(_) => Arc::new((0..ROWS as i32).map(Some).collect::<IntervalYearMonthArray>()),
            _ => cast(&numbers(), data_type).expect("a cast"),
        },
        Arrow::Interval(IntervalUnit::DayTime) => Arc::new(
            (0..ROWS as i32).map(|i| Some(IntervalDayTime::new(i, 2 * i))).collect::<IntervalDayTimeArray>(),
        ),
        Arrow::Timestamp(..) | Arrow::Time64(_) | Arrow::Duration(_) => {
            cast(&cast(&numbers(), &Arrow::Int64).expect("long"), data_type).expect("a cast")
        }
        Arrow::Binary | Arrow::LargeBinary | Arrow::BinaryView => cast(&texts(), data_type).expect("bytes"),
        Arrow::FixedSizeBinary(size) => {
            let bytes = (0..ROWS).map(|i| (i % 7 != 3).then(|| vec![i as u8; *size as usize]));
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(bytes, *size).expect("bytes"))
        }
        Arrow::Dictionary(_, values) if **values == Arrow::Utf8 => {
            cast(&texts(), data_type).expect("a dictionary")
        }
        Arrow::Struct(fields) => {
            let columns = fields.iter().map(|field| column_of(field.data_type())).collect();
            Arc::new(StructArray::new(fields.clone(), columns, None))
        }
        Arrow::Map(..) => {
            let mut map = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
            for row in 0..ROWS {
                map.keys().append_value(format!("k{row}"));
                map.values().append_value(row as i32);
                map.append(row % 7 != 3).expect("a row");
            }
            Arc::new(map.finish())
        }
        Arrow::Union(fields, _) => {
            let ids = vec![0i8; ROWS].into();
            Arc::new(UnionArray::try_new(fields.clone(), ids, None, vec![numbers()]).expect("a union"))
        }
        Arrow::Dictionary(_, values) => cast_or_null(&column_of(values), data_type),
        Arrow::List(item)
        | Arrow::LargeList(item)
        | Arrow::FixedSizeList(item, _)
        | Arrow::ListView(item)
        | Arrow::LargeListView(item) => cast_or_null(&column_of(item.data_type()), data_type),
        other => cast_or_null(&numbers(), other),
    }
}

/// The place of a type in Arrow's list. A type that is added there does not compile here.
fn place(data_type: &Arrow) -> usize {
    match data_type {
        Arrow::Null => 0,
        Arrow::Boolean => 1,
        Arrow::Int8 => 2,
        Arrow::Int16 => 3,
        Arrow::Int32 => 4,
        Arrow::Int64 => 5,
        Arrow::UInt8 => 6,
        Arrow::UInt16 => 7,
        Arrow::UInt32 => 8,
        Arrow::UInt64 => 9,
        Arrow::Float16 => 10,
        Arrow::Float32 => 11,
        Arrow::Float64 => 12,
        Arrow::Timestamp(..) => 13,
        Arrow::Date32 => 14,
        Arrow::Date64 => 15,
        Arrow::Time32(_) => 16,
        Arrow::Time64(_) => 17,
        Arrow::Duration(_) => 18,
        Arrow::Interval(_) => 19,
        Arrow::Binary => 20,
        Arrow::FixedSizeBinary(_) => 21,
        Arrow::LargeBinary => 22,
        Arrow::BinaryView => 23,
        Arrow::Utf8 => 24,
        Arrow::LargeUtf8 => 25,
        Arrow::Utf8View => 26,
        Arrow::List(_) => 27,
        Arrow::ListView(_) => 28,
        Arrow::FixedSizeList(..) => 29,
        Arrow::LargeList(_) => 30,
        Arrow::LargeListView(_) => 31,
        Arrow::Struct(_) => 32,
        Arrow::Union(..) => 33,
        Arrow::Dictionary(..) => 34,
        Arrow::Decimal32(..) => 35,
        Arrow::Decimal64(..) => 36,
        Arrow::Decimal128(..) => 37,
        Arrow::Decimal256(..) => 38,
        Arrow::Map(..) => 39,
        Arrow::RunEndEncoded(..) => 40,
    }
}

fn every_type() -> Vec<Arrow> {
    use Arrow::*;
    let item = |data_type: Arrow| Arc::new(Field::new("item", data_type, true));
    let entry = Fields::from(vec![Field::new("keys", Utf8, false), Field::new("values", Int32, true)]);
    let inner = Fields::from(vec![Field::new("a", Date64, true), Field::new("b", Utf8, true)]);
    let mut types = vec![
        Null,
        Boolean,
        Int8,
        Int16,
        Int32,
        Int64,
        UInt8,
        UInt16,
        UInt32,
        UInt64,
        Float16,
        Float32,
        Float64,
        Date32,
        Date64,
        Binary,
        FixedSizeBinary(5),
        LargeBinary,
        BinaryView,
        Utf8,
        LargeUtf8,
        Utf8View,
        List(item(Date64)),
        ListView(item(Int32)),
        FixedSizeList(item(Float64), 1),
        LargeList(item(Date64)),
        LargeListView(item(Int32)),
        Struct(inner.clone()),
        Union(UnionFields::from_fields(vec![Field::new("a", Int32, true)]), UnionMode::Sparse),
        Dictionary(Box::new(Int8), Box::new(Utf8)),
        Dictionary(Box::new(Int16), Box::new(Date64)),
        Decimal32(7, 2),
        Decimal64(15, 2),
        Decimal128(30, 3),
        Decimal256(60, 3),
        Decimal128(9, 2),
        Decimal256(9, 2),
        Map(Arc::new(Field::new("entries", Struct(entry), false)), false),
        RunEndEncoded(
            Arc::new(Field::new("run_ends", Int32, false)),
            Arc::new(Field::new("values", Int32, true)),
        ),
        Interval(IntervalUnit::YearMonth),
        Interval(IntervalUnit::DayTime),
        Time32(TimeUnit::Second),
        Time32(TimeUnit::Millisecond),
        Time64(TimeUnit::Microsecond),
        Time64(TimeUnit::Nanosecond),
    ];
    for unit in [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond] {
        types.extend([Timestamp(unit, None), Timestamp(unit, Some("Europe/Vienna".into())), Duration(unit)]);
    }
    types
}

fn written(path: &str, table: &RecordBatch, coerced: bool) -> bool {
    let properties = WriterProperties::builder().set_coerce_types(coerced).build();
    // Arrow's writer panics over unions.
    let write = || {
        let mut writer =
            ArrowWriter::try_new(File::create(path).expect("a file"), table.schema(), Some(properties))?;
        writer.write(table)?;
        writer.close()
    };
    catch_unwind(std::panic::AssertUnwindSafe(write)).is_ok_and(|written| written.is_ok())
}

fn read(path: &str) -> RecordBatch {
    let reader =
        ParquetRecordBatchReaderBuilder::try_new(File::open(path).expect("a file")).expect("a table");
    let schema = reader.schema().clone();
    let batches: Vec<RecordBatch> =
        reader.build().expect("a reader").map(|batch| batch.expect("rows")).collect();
    concat_batches(&schema, &batches).expect("one schema")
}

/// What every column of a file is, as readers that do not know Arrow see it; decimals may be held as other bytes.
fn parquet_columns(path: &str) -> Vec<String> {
    let reader = SerializedFileReader::new(File::open(path).expect("a file")).expect("a table");
    let columns = reader.metadata().file_metadata().schema_descr().columns().to_vec();
    let told = columns.iter().map(|column| {
        let is_decimal = matches!(column.logical_type_ref(), Some(LogicalType::Decimal(_)));
        let physical = if is_decimal { PhysicalType::BYTE_ARRAY } else { column.physical_type() };
        format!("{:?} {physical} {:?} {}", column.path(), column.logical_type_ref(), column.converted_type())
    });
    told.collect()
}

/// Days in 64 bits became plain integers, as one type that Parquet's own do not know.
#[test]
fn every_type_of_arrow_is_kept_or_has_no_parquet() {
    let folder = Folder::new();
    let types = every_type();
    let seen: BTreeSet<usize> = types.iter().map(place).collect();
    assert_eq!(seen, (0..41).collect());
    for coerced in [false, true] {
        let (table, archive) = (folder.path("t.parquet"), folder.path("a"));
        let x: ArrayRef = Arc::new(Float64Array::from(values()));
        let (mut fields, mut columns) = (vec![Field::new("x", Arrow::Float64, false)], vec![x]);
        let mut without_parquet = Vec::new();
        for (i, data_type) in types.iter().enumerate() {
            let (name, column) = (format!("c{i}"), column_of(data_type));
            let notes = [
                ("unit".to_string(), format!("u{i}")),
                ("ARROW:extension:name".to_string(), "own.one".to_string()),
            ];
            let field = Field::new(name, data_type.clone(), true).with_metadata(notes.into());
            let schema = Arc::new(Schema::new(vec![field.clone()]));
            let alone = RecordBatch::try_new(schema, vec![column.clone()]).expect("a column");
            if written(&folder.path("alone.parquet"), &alone, coerced) {
                fields.push(field);
                columns.push(column);
            } else {
                without_parquet.push(data_type);
            }
        }
        assert!(matches!(without_parquet[..], [Arrow::Union(..)]), "{without_parquet:?}");
        let whole = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("a table");
        assert!(written(&table, &whole, coerced));
        ok(&["compress", &table, "-o", &archive, "--columns", "x", "--max-error", "0.1", "--overwrite"]);
        assert_eq!(ok(&["verify", &archive, "--against", &table])["match_their_originals"], 1);
        for out in ["one.parquet", "many"] {
            ok(&["decompress", &archive, "-o", &folder.path(out), "--overwrite"]);
        }
        for back in ["one.parquet", "many/t.parquet"] {
            let back = folder.path(back);
            let (original, back_rows) = (read(&table), read(&back));
            assert_eq!(original.schema(), back_rows.schema(), "coerced: {coerced}");
            for (column, field) in original.schema().fields().iter().enumerate().skip(1) {
                assert_eq!(original.column(column), back_rows.column(column), "{field}");
            }
            assert_eq!(parquet_columns(&table), parquet_columns(&back), "coerced: {coerced}");
        }
        let kept = parquet_columns(&format!("{archive}/t.parquet"));
        let original = parquet_columns(&table);
        assert_eq!(kept[..original.len() - 1], original[1..], "coerced: {coerced}");
    }
}

/// Two bytes columns that mean something together.
#[test]
fn variants_stay_variants() {
    let folder = Folder::new();
    let (table, archive, back) =
        (folder.path("t.parquet"), folder.path("archive"), folder.path("back.parquet"));
    let variant = "message schema { required group v { required binary metadata; required binary value; } required double x; }";
    let plain = parse_message_type(variant).expect("a schema");
    let mut fields = plain.get_fields().to_vec();
    let group = datafusion::parquet::schema::types::Type::group_type_builder("v")
        .with_repetition(datafusion::parquet::basic::Repetition::REQUIRED)
        .with_logical_type(Some(LogicalType::variant(None)))
        .with_fields(fields[0].get_fields().to_vec());
    fields[0] = Arc::new(group.build().expect("a group"));
    let schema = datafusion::parquet::schema::types::Type::group_type_builder("schema").with_fields(fields);
    let schema = Arc::new(schema.build().expect("a schema"));
    let mut writer = SerializedFileWriter::new(File::create(&table).expect("a file"), schema, Arc::default())
        .expect("a writer");
    let mut group = writer.next_row_group().expect("a row group");
    for _ in 0..2 {
        let bytes: Vec<ByteArray> = (0..ROWS).map(|i| ByteArray::from(vec![1, 0, i as u8])).collect();
        add::<ByteArrayType>(&mut group, &bytes);
    }
    add::<DoubleType>(&mut group, &values());
    group.close().expect("whole");
    writer.close().expect("whole");
    ok(&["compress", &table, "-o", &archive, "--columns", "x", "--max-error", "0.1"]);
    assert_eq!(ok(&["verify", &archive, "--against", &table])["match_their_originals"], 1);
    ok(&["decompress", &archive, "-o", &back]);
    for path in [format!("{archive}/t.parquet"), back] {
        let reader = SerializedFileReader::new(File::open(&path).expect("a file")).expect("a table");
        let root = reader.metadata().file_metadata().schema_descr().root_schema().clone();
        let group = root.get_fields().iter().find(|field| field.name() == "v").expect("the column").clone();
        let found = group.get_basic_info().logical_type_ref();
        assert!(matches!(found, Some(LogicalType::Variant(_))), "{path}: {found:?}");
    }
}

/// Days of the one do not hold the milliseconds of the other.
#[test]
fn files_whose_days_are_held_differently_fit_into_one() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("in")).expect("a folder");
    for (name, coerced, off) in [("a", true, 0), ("b", false, 1234)] {
        let day = (0..ROWS as i64).map(|i| Some(i * 86_400_000 + off)).collect::<Int64Array>();
        let day = cast(&(Arc::new(day) as ArrayRef), &Arrow::Date64).expect("days");
        let x: ArrayRef = Arc::new(Float64Array::from(values()));
        let table = RecordBatch::try_from_iter([("day", day), ("x", x)]).expect("a table");
        assert!(written(&folder.path(&format!("in/{name}.parquet")), &table, coerced));
    }
    let (archive, back) = (folder.path("archive"), folder.path("back.parquet"));
    ok(&["compress", &folder.path("in"), "-o", &archive, "--columns", "x", "--max-error", "0.1"]);
    ok(&["decompress", &archive, "-o", &back]);
    let back = read(&back);
    let days = cast(back.column(0), &Arrow::Int64).expect("numbers");
    let last = days.as_any().downcast_ref::<Int64Array>().expect("numbers").values().last().copied();
    assert_eq!(last, Some((ROWS as i64 - 1) * 86_400_000 + 1234));
}
