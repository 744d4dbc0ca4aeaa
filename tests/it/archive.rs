//! Archives keep their promises: any table comes back within its bound, and damage is noticed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, FixedSizeListArray, Int64Array, LargeListArray, ListArray,
    RecordBatch, StringArray,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::{cast, concat_batches};
use datafusion::arrow::datatypes::{
    DataType, Field, Float32Type, Float64Type, Int64Type, Schema, UInt64Type,
};
use datafusion::object_store::local::LocalFileSystem;
use datafusion::object_store::memory::InMemory;
use datafusion::object_store::path::Path;
use datafusion::object_store::{ObjectStore, ObjectStoreExt};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::prelude::{SessionConfig, SessionContext};
use proptest::prelude::*;
use sparrow::archive::{Archive, Bound, Input, Job, Layout, LayoutRequest, LearnSettings, compress};
use sparrow::sql::ArchiveTable;

use crate::support::project;

/// Numbers from a seed, the same everywhere.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// How the values of a table look.
#[derive(Debug, Clone, Copy)]
enum Flavour {
    Smooth,
    Decimals,
    Noise,
    Constant,
    Huge,
    Tiny,
    Wild,
}

/// One value: NULL, special or ordinary. Integers take what is left of it after a cast.
fn value(numbers: &mut Numbers, flavour: Flavour, row: usize, sensor: usize) -> Option<f64> {
    let smooth = 50.0 + 20.0 * (row as f64 / 7.0 + sensor as f64).sin() + numbers.unit();
    match flavour {
        Flavour::Smooth => Some(smooth),
        Flavour::Decimals => Some((smooth * 100.0).round() / 100.0),
        Flavour::Noise => Some(1e6 * (numbers.unit() - 0.5)),
        Flavour::Constant => Some(7.25),
        Flavour::Huge => Some((numbers.unit() - 0.5) * f64::MAX),
        Flavour::Tiny => Some(f64::from_bits(numbers.next() % 4096)),
        Flavour::Wild => match numbers.below(12) {
            0 | 1 => None,
            2 => Some(f64::NAN),
            3 => Some(f64::INFINITY),
            4 => Some(f64::NEG_INFINITY),
            5 => Some(-0.0),
            6 => Some(0.0),
            7 => Some(f64::from_bits(numbers.next())),
            8 => Some(f64::MIN_POSITIVE / 3.0),
            _ => Some(smooth),
        },
    }
}

fn column(values: &[Option<f64>], data_type: &DataType, numbers: &mut Numbers) -> ArrayRef {
    let doubles: datafusion::arrow::array::Float64Array = values.iter().copied().collect();
    match data_type {
        DataType::Float64 => Arc::new(doubles),
        DataType::Float32 => cast(&doubles, data_type).expect("floats become floats"),
        _ => {
            // Extremes of the type now and then; the rest is what fits.
            let whole: Int64Array = values
                .iter()
                .map(|value| {
                    value.map(
                        |value| if numbers.below(40) == 0 { numbers.next() as i64 } else { value as i64 },
                    )
                })
                .collect();
            cast(&whole, data_type).expect("what does not fit becomes NULL")
        }
    }
}

#[derive(Debug, Clone)]
struct Case {
    seed: u64,
    layout: u8,
    rows: usize,
    sensors: usize,
    data_type: DataType,
    flavour: Flavour,
    bound: Bound,
}

fn cases() -> impl Strategy<Value = Case> {
    let types = prop_oneof![
        4 => Just(DataType::Float64),
        2 => Just(DataType::Float32),
        1 => Just(DataType::Int8),
        1 => Just(DataType::Int32),
        1 => Just(DataType::Int64),
        1 => Just(DataType::UInt16),
        1 => Just(DataType::UInt64),
    ];
    let flavours = prop::sample::select(vec![
        Flavour::Smooth,
        Flavour::Decimals,
        Flavour::Noise,
        Flavour::Constant,
        Flavour::Huge,
        Flavour::Tiny,
        Flavour::Wild,
    ]);
    let bounds = prop_oneof![
        Just(Bound::None),
        (-6i32..4).prop_map(|power| Bound::MaxError(10f64.powi(power))),
        (1i32..9).prop_map(|power| Bound::MaxRelativeError(10f64.powi(-power))),
        Just(Bound::Lossless),
    ];
    let rows = prop_oneof![1 => 0usize..70, 3 => 200usize..600];
    // Few sensors, and enough for all lanes of the coder.
    let sensors = prop_oneof![3 => 1usize..6, 1 => 32usize..70];
    (any::<u64>(), 0u8..6, rows, sensors, types, flavours, bounds).prop_map(
        |(seed, layout, rows, sensors, data_type, flavour, bound)| Case {
            seed,
            layout,
            rows,
            sensors,
            data_type,
            flavour,
            bound,
        },
    )
}

/// A table, its layout, and the columns that hold values.
fn table(case: &Case) -> (RecordBatch, Layout) {
    let numbers = &mut Numbers(case.seed);
    let Case { rows, sensors, flavour, .. } = *case;
    let mut others: Vec<(String, ArrayRef)> = vec![
        ("id".into(), Arc::new(Int64Array::from_iter_values((0..rows).map(|row| row as i64 * 3)))),
        (
            "note".into(),
            Arc::new(
                (0..rows)
                    .map(|_| (numbers.below(4) > 0).then(|| format!("n{}", numbers.below(5))))
                    .collect::<StringArray>(),
            ),
        ),
        ("flag".into(), Arc::new((0..rows).map(|_| Some(numbers.below(2) == 1)).collect::<BooleanArray>())),
    ];
    let layout = match case.layout {
        // Lists of all kinds, some of them NULL.
        kind @ 0..=2 => {
            let valid: Vec<bool> = (0..rows).map(|_| kind == 1 || numbers.below(6) > 0).collect();
            let present = if kind == 2 { rows } else { valid.iter().filter(|valid| **valid).count() };
            let values: Vec<Option<f64>> =
                (0..present * sensors).map(|i| value(numbers, flavour, i / sensors, i % sensors)).collect();
            let child = column(&values, &case.data_type, numbers);
            let item = Arc::new(Field::new("element", case.data_type.clone(), true));
            let nulls = valid.contains(&false).then(|| NullBuffer::from(valid.clone()));
            let lengths = valid.iter().map(|valid| if *valid { sensors } else { 0 });
            let lists: ArrayRef = match kind {
                0 => Arc::new(ListArray::new(item, OffsetBuffer::from_lengths(lengths), child, nulls)),
                1 => Arc::new(LargeListArray::new(item, OffsetBuffer::from_lengths(lengths), child, nulls)),
                _ => Arc::new(FixedSizeListArray::new(item, sensors as i32, child, nulls)),
            };
            others.insert(1, ("v".into(), lists));
            Layout::List { column: "v".into() }
        }
        3 => {
            for sensor in 0..sensors {
                let values: Vec<Option<f64>> =
                    (0..rows).map(|row| value(numbers, flavour, row, sensor)).collect();
                // Types may differ from sensor to sensor.
                let data_type = if sensor % 3 == 2 { DataType::Float32 } else { case.data_type.clone() };
                others.insert(1 + sensor / 2, (format!("s{sensor}"), column(&values, &data_type, numbers)));
            }
            let names = others.iter().map(|(name, _)| name.clone()).filter(|name| name.starts_with('s'));
            Layout::Wide { columns: names.collect() }
        }
        4 => {
            let places: Vec<(i64, Option<String>)> = (0..rows)
                .map(|row| {
                    (
                        (row / sensors) as i64,
                        (numbers.below(20) > 0).then(|| format!("k{}", (row + numbers.below(3)) % sensors)),
                    )
                })
                .collect();
            let values: Vec<Option<f64>> =
                (0..rows).map(|row| value(numbers, flavour, row / sensors, row % sensors)).collect();
            others.push((
                "time".into(),
                Arc::new(Int64Array::from_iter_values(places.iter().map(|(time, _)| *time))),
            ));
            others.push((
                "series".into(),
                Arc::new(places.iter().map(|(_, series)| series.clone()).collect::<StringArray>()),
            ));
            others.insert(0, ("x".into(), column(&values, &case.data_type, numbers)));
            Layout::Long { time: "time".into(), series: "series".into(), value: "x".into() }
        }
        _ => {
            let values: Vec<Option<f64>> = (0..rows).map(|row| value(numbers, flavour, row, 0)).collect();
            others.push(("x".into(), column(&values, &case.data_type, numbers)));
            let series = case.seed.is_multiple_of(2).then(|| "note".to_string());
            let interleaved = series.is_some() && case.seed.is_multiple_of(4);
            Layout::Window { column: "x".into(), series, length: sensors, interleaved }
        }
    };
    let fields: Vec<Field> =
        others.iter().map(|(name, array)| Field::new(name, array.data_type().clone(), true)).collect();
    let arrays = others.into_iter().map(|(_, array)| array).collect();
    (RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).expect("equal lengths"), layout)
}

async fn put(store: &Arc<dyn ObjectStore>, name: &str, batch: &RecordBatch) -> Input {
    // Plain values, so that coding them pays and is what is tested.
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_max_row_group_row_count(Some(40))
        .build();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).expect("a writer");
    writer.write(batch).expect("written");
    writer.close().expect("closed");
    let path = Path::from(format!("in/{name}"));
    store.put(&path, bytes.into()).await.expect("stored");
    Input { store: store.clone(), path, name: name.to_string() }
}

pub fn folder() -> Path {
    Path::from("archive")
}

pub async fn read(store: &Arc<dyn ObjectStore>) -> sparrow::archive::Result<Result<RecordBatch, String>> {
    read_from(store, folder()).await
}

async fn read_from(
    store: &Arc<dyn ObjectStore>,
    folder: Path,
) -> sparrow::archive::Result<Result<RecordBatch, String>> {
    let archive = Archive::open(store.clone(), folder).await?;
    let read = async {
        let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
        let table = ArchiveTable::new(archive).await?;
        context.register_table("t", Arc::new(table))?;
        let frame = context.sql("SELECT * FROM t").await?;
        let schema = Arc::new(frame.schema().as_arrow().clone());
        let batches = frame.collect().await?;
        Ok::<_, datafusion::error::DataFusionError>(concat_batches(&schema, &batches)?)
    };
    Ok(read.await.map_err(|error| error.to_string()))
}

/// The numbers of a column one after the other, lists flattened.
fn flat(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            lists.values().slice(
                lists.value_offsets()[0] as usize,
                (lists.value_offsets()[lists.len()] - lists.value_offsets()[0]) as usize,
            )
        }
        DataType::LargeList(_) => array.as_list::<i64>().values().clone(),
        // Values of NULL rows are nobody's.
        DataType::FixedSizeList(..) => {
            let lists = array.as_fixed_size_list();
            let parts: Vec<ArrayRef> =
                (0..lists.len()).filter(|row| lists.is_valid(*row)).map(|row| lists.value(row)).collect();
            let parts: Vec<&dyn Array> = parts.iter().map(|part| part.as_ref()).collect();
            if parts.is_empty() {
                lists.values().slice(0, 0)
            } else {
                datafusion::arrow::compute::concat(&parts).expect("one type")
            }
        }
        _ => array.clone(),
    }
}

fn check_values(bound: Bound, original: &ArrayRef, decoded: &ArrayRef) -> Result<(), TestCaseError> {
    prop_assert_eq!(original.data_type(), decoded.data_type());
    prop_assert_eq!(original.len(), decoded.len());
    prop_assert!((0..original.len()).all(|row| original.is_null(row) == decoded.is_null(row)));
    let (original, decoded) = (flat(original), flat(decoded));
    prop_assert_eq!(original.len(), decoded.len());
    for i in 0..original.len() {
        prop_assert_eq!(original.is_null(i), decoded.is_null(i), "NULL at {}", i);
        if original.is_null(i) {
            continue;
        }
        let (a, b) = (original.slice(i, 1), decoded.slice(i, 1));
        if a.data_type().is_floating() {
            // Equal bits, or within the bound and not special.
            let same = match a.data_type() {
                DataType::Float32 => {
                    a.as_primitive::<Float32Type>().value(0).to_bits()
                        == b.as_primitive::<Float32Type>().value(0).to_bits()
                }
                _ => {
                    a.as_primitive::<Float64Type>().value(0).to_bits()
                        == b.as_primitive::<Float64Type>().value(0).to_bits()
                }
            };
            let double = |array: &ArrayRef| {
                cast(array, &DataType::Float64).expect("floats").as_primitive::<Float64Type>().value(0)
            };
            let (a, b) = (double(&a), double(&b));
            let special = !a.is_finite() || (a == 0.0 && a.is_sign_negative());
            let holds = match bound {
                Bound::None => !special,
                Bound::MaxError(bound) => !special && (a - b).abs() <= bound,
                Bound::MaxRelativeError(bound) => !special && (a - b).abs() <= bound * a.abs(),
                Bound::Lossless => false,
            };
            prop_assert!(same || holds, "{} came back as {}", a, b);
        } else {
            let whole = |array: &ArrayRef| match array.data_type() {
                DataType::UInt64 => i128::from(array.as_primitive::<UInt64Type>().value(0)),
                _ => i128::from(
                    cast(array, &DataType::Int64).expect("integers").as_primitive::<Int64Type>().value(0),
                ),
            };
            let (a, b) = (whole(&a), whole(&b));
            let off = a.abs_diff(b) as f64;
            let holds = match bound {
                Bound::None => true,
                Bound::MaxError(bound) => off <= bound,
                Bound::MaxRelativeError(bound) => off <= bound * (a as f64).abs(),
                Bound::Lossless => a == b,
            };
            prop_assert!(holds, "{} came back as {}", a, b);
        }
    }
    Ok(())
}

pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

/// One table there and back: whether it was coded.
async fn there_and_back(case: &Case) -> Result<bool, TestCaseError> {
    let (batch, layout) = table(case);
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let input = put(&store, "a.parquet", &batch).await;
    // So few rows would be stored as they are unless codes are asked for.
    let atoms = (case.bound == Bound::None).then_some(4);
    let learn = LearnSettings { atoms, ..LearnSettings::default() };
    let job =
        Job { layout: LayoutRequest::Given(layout.clone()), bound: case.bound, learn, ..Job::default() };
    let report = compress(std::slice::from_ref(&input), &store, &folder(), &job, &()).await;
    let report = report.map_err(|error| TestCaseError::fail(error.to_string()))?;
    prop_assert!(report.failed.is_empty(), "{:?}", report.failed);
    let archive = Archive::open(store.clone(), folder()).await.expect("opened");
    let verified = archive.verify(Some(&[input])).await.expect("verified");
    prop_assert!(verified.problems.is_empty(), "{:?}", verified.problems);
    let decoded = read(&store).await.expect("opened").map_err(TestCaseError::fail)?;
    prop_assert_eq!(decoded.num_rows(), batch.num_rows());
    prop_assert_eq!(decoded.schema_ref().fields(), batch.schema_ref().fields());
    for (i, field) in batch.schema().fields().iter().enumerate() {
        if layout.value_columns().contains(&field.name().as_str()) {
            check_values(case.bound, batch.column(i), decoded.column(i))?;
        } else {
            prop_assert_eq!(batch.column(i), decoded.column(i));
        }
    }
    Ok(report.files[0].stored.is_none())
}

#[test]
fn any_table_comes_back_within_its_bound() {
    let (coded, all) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let runtime = runtime();
    proptest!(ProptestConfig { cases: 150, ..ProptestConfig::default() }, |(case in cases())| {
        let is_coded = runtime.block_on(there_and_back(&case))?;
        if case.bound != Bound::None && case.rows > 0 {
            all.fetch_add(1, Ordering::Relaxed);
            coded.fetch_add(usize::from(is_coded), Ordering::Relaxed);
        }
    });
    // What is stored as it was says nothing about the bound.
    let (coded, all) = (coded.into_inner(), all.into_inner());
    assert!(2 * coded > all, "only {coded} of {all} tables were coded");
}

pub const FILES: [&str; 3] = ["archive.json", "dictionary.parquet", "a.parquet"];

/// A small archive, in memory.
pub async fn small_archive() -> (Arc<dyn ObjectStore>, RecordBatch) {
    let case = Case {
        seed: 5,
        layout: 0,
        rows: 60,
        // Enough for all lanes of the coder.
        sensors: 34,
        data_type: DataType::Float64,
        flavour: Flavour::Smooth,
        bound: Bound::MaxError(0.01),
    };
    let (batch, layout) = table(&case);
    // Long enough that coding pays.
    let batch = concat_batches(&batch.schema(), &vec![batch.clone(); 4]).expect("one schema");
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let input = put(&store, "a.parquet", &batch).await;
    let job = Job { layout: LayoutRequest::Given(layout), bound: case.bound, ..Job::default() };
    let report = compress(&[input], &store, &folder(), &job, &()).await.expect("compressed");
    assert!(report.files[0].stored.is_none(), "this test is about coded files");
    (store, batch)
}

pub async fn bytes_of(store: &Arc<dyn ObjectStore>, name: &str) -> (Path, Vec<u8>) {
    let path = folder().join(name);
    let bytes = store.get(&path).await.expect("there").bytes().await.expect("read");
    (path, bytes.to_vec())
}

#[test]
fn sizes_of_threads_and_batches_do_not_change_a_byte() {
    runtime().block_on(async {
        let mut archives = Vec::new();
        for threads in [1, 3] {
            let (batch, layout) = table(&Case {
                seed: 9,
                layout: 3,
                rows: 3000,
                sensors: 5,
                data_type: DataType::Float64,
                flavour: Flavour::Smooth,
                bound: Bound::MaxError(0.1),
            });
            let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
            let input = put(&store, "a.parquet", &batch).await;
            let job = Job {
                layout: LayoutRequest::Given(layout),
                bound: Bound::MaxError(0.1),
                threads,
                ..Job::default()
            };
            compress(&[input], &store, &folder(), &job, &()).await.expect("compressed");
            let mut all = Vec::new();
            for name in FILES {
                all.push(bytes_of(&store, name).await.1);
            }
            archives.push(all);
        }
        assert!(archives[0] == archives[1]);
    });
}

/// Archives of version 1 stay readable, to the bit. `UPDATE_GOLDEN=1` writes them, for a new version only.
#[test]
fn golden_archive_of_version_1() {
    let place = project("tests/golden/archive_v1");
    let expected = project("tests/golden/archive_v1.parquet");
    runtime().block_on(async {
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            let (store, _) = small_archive().await;
            std::fs::create_dir_all(&place).expect("a folder");
            for name in FILES {
                std::fs::write(place.join(name), bytes_of(&store, name).await.1).expect("written");
            }
            let decoded = read(&store).await.expect("opened").expect("read");
            let file = std::fs::File::create(&expected).expect("a file");
            let mut writer = ArrowWriter::try_new(file, decoded.schema(), None).expect("a writer");
            writer.write(&decoded).expect("written");
            writer.close().expect("closed");
        }
        let store: Arc<dyn ObjectStore> = Arc::new(LocalFileSystem::new());
        let folder = Path::from_absolute_path(&place).expect("a path");
        let decoded = read_from(&store, folder).await.expect("opened").expect("read");
        let file = std::fs::File::open(&expected).expect("a file");
        let reader =
            ParquetRecordBatchReaderBuilder::try_new(file).expect("Parquet").build().expect("a reader");
        let batches: Vec<RecordBatch> = reader.map(|batch| batch.expect("rows")).collect();
        assert!(concat_batches(&decoded.schema(), &batches).expect("one schema") == decoded);
    });
}

/// A reader that shares no code with this one, written from docs/format.md.
#[test]
fn an_independent_reader_agrees() {
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_string());
    let has_pyarrow = std::process::Command::new(&python).args(["-c", "import pyarrow"]).output();
    if !has_pyarrow.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no Python with pyarrow here; PYTHON names one");
        return;
    }
    let output = std::process::Command::new(&python)
        .arg(project("tests/fixtures/decode_archive.py"))
        .args([project("tests/golden/archive_v1"), project("tests/golden/archive_v1.parquet")])
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "240 rows are equal\n");
}
