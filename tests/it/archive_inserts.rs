//! Tables of archives that others write to, and `INSERT INTO` them: what is promised, seen, refused and used.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use datafusion::dataframe::DataFrameWriteOptions;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::object_store::memory::InMemory;
use datafusion::object_store::path::Path;
use datafusion::object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::stream::BoxStream;

use sparrow::sql::{ArchiveTableFactory, FILE_TYPE};

use crate::commands::{Folder, ok, run};
use crate::support::{failure, number, query};

/// A session as another program has it.
fn session() -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(2);
    let mut session = SessionContext::new_with_config(config);
    sparrow::sql::register_all(&mut session).expect("functions");
    sparrow::sql::register_archives(&session);
    session
}

/// A query of rows, numbered from one number to another.
fn rows(from: usize, to: usize) -> String {
    format!("SELECT value AS i, [sin(value / 9.0), cos(value / 7.0)] AS v FROM generate_series({from}, {to})")
}

/// A table of such rows.
fn table(folder: &Folder, name: &str, rows: &str) -> String {
    let path = folder.path(name);
    let output = run(&["sql", "-c", &format!("COPY ({rows}) TO '{path}'")]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    path
}

fn create(name: &str, columns: &str, place: &str, options: &str) -> String {
    format!("CREATE EXTERNAL TABLE {name} {columns} STORED AS SPARROW LOCATION '{place}' OPTIONS ({options})")
}

const COLUMNS: &str = "(i BIGINT, v DOUBLE[])";

/// Whoever has promised a bound must not add rows to an archive that others have begun with a looser one.
#[tokio::test]
async fn nothing_is_inserted_under_another_promise() {
    let (folder, session) = (Folder::new(), session());
    let (place, other) = (folder.path("archive"), folder.path("other"));
    query(&session, &create("a", COLUMNS, &place, "'max_error' '0.01'")).await;
    query(&session, &create("b", "(i BIGINT, v FLOAT[])", &other, "'max_error' '0.5'")).await;
    let begun = table(&folder, "t.parquet", &rows(1, 500));
    for archive in [&place, &other] {
        ok(&["compress", &begun, "-o", archive, "--max-error", "0.5"]);
    }
    for (name, expected) in [("a", "promises max_error 0.5"), ("b", "other columns than the table")] {
        let insert = format!("INSERT INTO {name} {}", rows(501, 600));
        let error = failure(&session, &insert).await;
        assert!(error.contains(expected), "{error}");
        let error = failure(&session, &format!("SELECT count(v) FROM {name}")).await;
        assert!(error.contains(expected), "{error}");
    }
    assert_eq!(ok(&["inspect", &place])["rows"], 500);
    assert_eq!(ok(&["inspect", &other])["rows"], 500);
}

/// A store whose `archive.json` cannot be read once it was written, or is there for writers alone.
#[derive(Debug, Default)]
struct Unreliable {
    inner: InMemory,
    lost_once_written: AtomicBool,
    lost: AtomicBool,
    always_exists: AtomicBool,
}

impl fmt::Display for Unreliable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a store")
    }
}

#[async_trait::async_trait]
impl ObjectStore for Unreliable {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        if path.filename() == Some("archive.json") {
            if self.always_exists.load(Ordering::Relaxed) {
                return Err(Error::AlreadyExists { path: path.to_string(), source: "by others".into() });
            }
            self.lost.store(self.lost_once_written.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.inner.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        if path.filename() == Some("archive.json") && self.lost.load(Ordering::Relaxed) {
            return Err(Error::Generic { store: "a store", source: "the network is down".into() });
        }
        self.inner.get_opts(path, options).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

fn with_store(session: &SessionContext) -> Arc<Unreliable> {
    let store = Arc::new(Unreliable::default());
    let runtime: Arc<RuntimeEnv> = session.runtime_env();
    runtime.register_object_store(&"mem://store".parse().expect("a URL"), store.clone());
    store
}

/// Whoever is told that rows were not inserted inserts them again.
#[tokio::test]
async fn an_insert_that_is_done_does_not_fail() {
    let session = session();
    let store = with_store(&session);
    query(&session, &create("a", COLUMNS, "mem://store/archive", "'max_error' '0.01'")).await;
    store.lost_once_written.store(true, Ordering::Relaxed);
    assert_eq!(number(&session, &format!("INSERT INTO a {}", rows(1, 300))).await, 300.0);
    let error = failure(&session, "SELECT count(*) FROM a").await;
    assert!(error.contains("the network is down"), "{error}");
    store.lost_once_written.store(false, Ordering::Relaxed);
    store.lost.store(false, Ordering::Relaxed);
    assert_eq!(number(&session, "SELECT count(*) FROM a").await, 300.0);
}

/// A store that says of an archive that it is there and that it is not would keep an insert busy for ever.
#[tokio::test]
async fn an_insert_gives_up_in_the_end() {
    let session = session();
    let store = with_store(&session);
    query(&session, &create("a", COLUMNS, "mem://store/archive", "'max_error' '0.01'")).await;
    store.always_exists.store(true, Ordering::Relaxed);
    let error = failure(&session, "INSERT INTO a VALUES (1, [1.0, 2.0])").await;
    assert!(error.contains("try again"), "{error}");
}

/// Options say how a new archive is made; of one that is there they must say what is so.
#[tokio::test]
async fn options_that_cannot_be_heeded_are_refused() {
    let (folder, session) = (Folder::new(), session());
    let place = folder.path("archive");
    let made = "'max_error' '0.01', 'atoms' '8', 'kernel' 'linear', 'seed' '3'";
    query(&session, &create("a", COLUMNS, &place, made)).await;
    query(&session, &format!("INSERT INTO a {}", rows(1, 500))).await;
    let dictionary = table(
        &folder,
        "d.parquet",
        &format!("SELECT sparse_train(v, {{atoms: 4}}) AS dictionary FROM ({})", rows(1, 100)),
    );
    let same = ["", made, "'column' 'v'", "'threads' '1'", "'kernel' 'linear'"];
    for (number, options) in same.iter().enumerate() {
        query(&session, &create(&format!("same{number}"), "", &place, options).replace(" OPTIONS ()", ""))
            .await;
    }
    let given = format!("'dictionary' '{dictionary}'");
    for (options, expected) in [
        ("'atoms' '9'", "atoms 8"),
        ("'kernel' 'rbf'", "kernel linear"),
        ("'sigma' '2'", "sigma"),
        ("'lambda' '123'", "lambda"),
        ("'seed' '4'", "seed 3"),
        ("'target_nmae' '0.05'", "without a target"),
        ("'target_ratio' '5'", "without a target"),
        ("'columns' 'i*'", "the layout"),
        (&given, "another dictionary"),
    ] {
        let error = failure(&session, &create("other", "", &place, options)).await;
        assert!(error.contains(expected) && error.starts_with("Error during planning"), "{options}: {error}");
    }
    // What was given is what it was made with, whatever it is rounded to.
    let place = folder.path("with-dictionary");
    let options = format!("'max_error' '0.01', {given}");
    query(&session, &create("b", COLUMNS, &place, &options)).await;
    query(&session, &format!("INSERT INTO b {}", rows(1, 500))).await;
    query(&session, &create("c", "", &place, &options)).await;
    let error = failure(&session, &create("d", "", &place, &format!("{options}, 'atoms' '5'"))).await;
    assert!(error.contains("leave atoms out"), "{error}");
}

/// A table is the archive as it is, and not as it was when the table was made.
#[tokio::test]
async fn what_others_write_is_seen() {
    let (folder, session) = (Folder::new(), session());
    let place = folder.path("archive");
    let count = "SELECT count(v) FROM a WHERE i > 0";
    query(&session, &create("a", COLUMNS, &place, "'max_error' '0.01'")).await;
    assert_eq!(number(&session, count).await, 0.0);
    let first = table(&folder, "a.parquet", &rows(1, 500));
    ok(&["compress", &first, "-o", &place, "--max-error", "0.01"]);
    assert_eq!(number(&session, count).await, 500.0);
    // Lists and integers are declared in another way there, and are the same.
    let worst = "SELECT max(abs(v[1] - sin(i / 9.0))) FROM a";
    assert!(number(&session, worst).await <= 0.01);
    let next = table(&folder, "b.parquet", &rows(501, 700));
    ok(&["append", &place, &next]);
    assert_eq!(number(&session, count).await, 700.0);
    assert_eq!(number(&session, "SELECT max(i) FROM a").await, 700.0);
    ok(&["compress", &next, "-o", &place, "--max-error", "0.01", "--overwrite"]);
    assert_eq!(number(&session, count).await, 200.0);
    assert!(number(&session, worst).await <= 0.01);
    let other = table(&folder, "c.parquet", &rows(1, 100).replace("AS i", "AS k"));
    ok(&["compress", &other, "-o", &place, "--max-error", "0.01", "--overwrite"]);
    let error = failure(&session, count).await;
    assert!(error.contains("other columns than the table") && error.contains("k Int64"), "{error}");
}

/// Whoever plans joins knows about how many rows there are, whatever is filtered.
#[tokio::test]
async fn rows_are_estimated_with_filters_and_limits() {
    let (folder, session) = (Folder::new(), session());
    query(&session, &create("a", COLUMNS, &folder.path("archive"), "'max_error' '0.01'")).await;
    query(&session, &format!("INSERT INTO a {}", rows(1, 500))).await;
    query(&session, &format!("INSERT INTO a {}", rows(501, 800))).await;
    let estimated = async |query: &str| {
        let plan = session.sql(query).await.expect("a plan").create_physical_plan().await.expect("a plan");
        let mut scan = plan;
        while let Some(child) = scan.children().first() {
            scan = Arc::clone(child);
        }
        assert_eq!(scan.name(), "ArchiveExec");
        let args = datafusion::physical_plan::statistics::StatisticsArgs::new();
        scan.statistics_from_inputs(&[], &args).expect("statistics").num_rows
    };
    use datafusion::common::stats::Precision::{Exact, Inexact};
    assert_eq!(estimated("SELECT i, v FROM a").await, Exact(800));
    assert_eq!(estimated("SELECT i, v FROM a WHERE i > 600").await, Inexact(300));
    assert_eq!(estimated("SELECT i, v FROM a LIMIT 20").await, Inexact(20));
}

/// Learning takes long: other work of a runtime goes on meanwhile, even on a single thread, and who stops waiting ends it.
#[tokio::test]
async fn inserting_leaves_the_runtime_alone_and_can_be_cancelled() {
    let (folder, session) = (Folder::new(), session());
    let rows = folder.path("t.parquet");
    assert!(run(&["generate", "traffic", "--sensors", "100", "--days", "14", "-o", &rows]).status.success());
    query(&session, &format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{rows}'")).await;
    let columns = "(time TIMESTAMP, v DOUBLE[])";
    query(&session, &create("a", columns, &folder.path("archive"), "'target_nmae' '0.03'")).await;
    let insert = "INSERT INTO a SELECT time, v FROM t";
    let stopped = tokio::time::timeout(Duration::from_millis(300), query(&session, insert)).await;
    assert!(stopped.is_err(), "it has not waited for learning to end");
    // The one that was cancelled has ended, or this one would wait for it for ever; and it has added nothing.
    let longest = async {
        let mut longest = Duration::ZERO;
        loop {
            let began = Instant::now();
            tokio::time::sleep(Duration::from_millis(1)).await;
            longest = longest.max(began.elapsed());
            LONGEST.store(longest.as_micros() as u64, Ordering::Relaxed);
        }
    };
    static LONGEST: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let began = Instant::now();
    let inserted = tokio::select! {
        inserted = number(&session, insert) => inserted,
        () = longest => unreachable!("it goes on for ever"),
    };
    let (took, blocked) = (began.elapsed(), Duration::from_micros(LONGEST.load(Ordering::Relaxed)));
    assert!(blocked < took / 3, "blocked for {blocked:?} of {took:?}");
    assert_eq!(number(&session, "SELECT count(v) FROM a").await, inserted);
}

/// What learning and coding take counts towards a session's memory, and temporary files towards its disk.
#[tokio::test]
async fn inserting_keeps_within_the_resources_of_a_session() {
    let folder = Folder::new();
    let rows = folder.path("t.parquet");
    assert!(run(&["generate", "traffic", "--sensors", "100", "--days", "10", "-o", &rows]).status.success());
    let insert = async |name: &str, runtime: RuntimeEnvBuilder| {
        let config = SessionConfig::new().with_target_partitions(8);
        let runtime = runtime.build_arc().expect("a runtime");
        let session = SessionContext::new_with_config_rt(config, runtime);
        sparrow::sql::register_archives(&session);
        query(&session, &format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{rows}'")).await;
        query(&session, &create("a", "(v DOUBLE[])", &folder.path(name), "'max_error' '5'")).await;
        let inserted = crate::support::try_query(&session, "INSERT INTO a SELECT v FROM t").await;
        inserted.map(|_| ()).map_err(|error| error.strip_backtrace())
    };
    let memory = |bytes| RuntimeEnvBuilder::new().with_memory_limit(bytes, 1.0);
    let error = insert("little", memory(12 << 20)).await.expect_err("too little memory");
    assert!(error.contains("Resources exhausted") && error.contains("ArchiveSink"), "{error}");
    assert!(!std::path::Path::new(&folder.path("little")).join("archive.json").exists());
    insert("enough", memory(64 << 20)).await.expect("enough memory");
    let error = insert("disk", RuntimeEnvBuilder::new().with_max_temp_directory_size(100 << 10)).await;
    assert!(error.expect_err("too little disk").contains("max_temp_directory_size"));
}

/// In SQL columns that are left out have their defaults; what an archive cannot promise is not promised.
#[tokio::test]
async fn defaults_are_heeded_and_other_promises_refused() {
    let (folder, session) = (Folder::new(), session());
    let place = folder.path("archive");
    query(&session, &create("a", "(i BIGINT DEFAULT 7, v DOUBLE[])", &place, "'lossless' 'true'")).await;
    query(&session, "INSERT INTO a (v) VALUES ([1.0, 2.0])").await;
    assert_eq!(number(&session, "SELECT i FROM a").await, 7.0);
    let place = folder.path("other");
    for (statement, expected) in [
        (create("b", "(i BIGINT, v DOUBLE[], PRIMARY KEY (i))", &place, "'max_error' '1'"), "a constraint"),
        (
            create("b", COLUMNS, &place, "'max_error' '1'").replacen(
                "CREATE EXTERNAL",
                "CREATE UNBOUNDED EXTERNAL",
                1,
            ),
            "UNBOUNDED",
        ),
        (
            create("b", COLUMNS, &place, "'max_error' '1'")
                .replace("LOCATION", "WITH ORDER (i ASC) LOCATION"),
            "WITH ORDER",
        ),
    ] {
        let error = failure(&session, &statement).await;
        assert!(error.contains(expected) && error.contains("promise"), "{statement}: {error}");
    }
}

/// Rows that do not come from SQL have their own types.
#[tokio::test]
async fn rows_of_the_dataframe_api_are_cast() {
    let (folder, session) = (Folder::new(), session());
    query(&session, &create("a", COLUMNS, &folder.path("archive"), "'lossless' 'true'")).await;
    let write = async |rows: &str| {
        let rows = session.sql(rows).await.expect("a plan");
        rows.write_table("a", DataFrameWriteOptions::new()).await
    };
    write("SELECT 3::INT AS i, arrow_cast([1, 2], 'List(Int32)') AS v").await.expect("castable rows");
    assert_eq!(number(&session, "SELECT v[2] + i FROM a").await, 5.0);
    let error = write("SELECT 'three' AS i, [1.0, 2.0] AS v").await.expect_err("no number");
    assert!(error.to_string().contains("column i"), "{error}");
    assert_eq!(number(&session, "SELECT count(*) FROM a").await, 1.0);
}

/// Folders of partitions are columns, and filters on them leave files out; NULL is one of their values.
#[tokio::test]
async fn filters_on_partitions_leave_files_out() {
    let (folder, session) = (Folder::new(), session());
    for year in ["2024", "2025", "__HIVE_DEFAULT_PARTITION__"] {
        std::fs::create_dir_all(folder.path(&format!("in/year={year}"))).expect("a folder");
        table(&folder, &format!("in/year={year}/t.parquet"), &rows(1, 500));
    }
    let place = folder.path("archive");
    ok(&["compress", &folder.path("in"), "-o", &place, "--max-error", "0.01"]);
    query(&session, &create("a", "", &place, "'max_error' '0.01'")).await;
    for (filter, files) in
        [("year = '2024'", 1), ("year IS NULL", 1), ("year IS NOT NULL", 2), ("year <> '2024'", 1)]
    {
        let counted = number(&session, &format!("SELECT count(v) FROM a WHERE {filter}")).await;
        assert_eq!(counted, 500.0 * f64::from(files), "{filter}");
        let plan = session.sql(&format!("SELECT v FROM a WHERE {filter}")).await.expect("a plan");
        let plan = plan.create_physical_plan().await.expect("a plan");
        let plan = datafusion::physical_plan::displayable(plan.as_ref()).indent(false).to_string();
        assert!(plan.contains(&format!("row_groups={files} of 3")), "{filter}: {plan}");
    }
}

#[tokio::test]
async fn a_session_can_be_built_with_archives() {
    let folder = Folder::new();
    let state = SessionStateBuilder::new()
        .with_default_features()
        .with_table_factory(FILE_TYPE.to_string(), Arc::new(ArchiveTableFactory))
        .build();
    let session = SessionContext::new_with_state(state);
    query(&session, &create("a", COLUMNS, &folder.path("archive"), "'lossless' 'true'")).await;
    query(&session, &format!("INSERT INTO a {}", rows(1, 10))).await;
    assert_eq!(number(&session, "SELECT count(v) FROM a").await, 10.0);
}

/// Rows that are inserted from a table, or a folder of them, stay in their order, and so do those of an archive.
#[test]
fn rows_are_inserted_in_the_order_of_their_table() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("in")).expect("a folder");
    for file in 0..3 {
        let rows = rows(file * 40_000, file * 40_000 + 39_999);
        let copy = format!("COPY ({rows} ORDER BY i) TO '{}'", folder.path(&format!("in/{file}.parquet")));
        assert!(run(&["sql", "-c", &copy]).status.success());
    }
    let mut source = folder.path("in");
    for name in ["a", "b"] {
        let place = folder.path(name);
        let statements = format!(
            "SET datafusion.execution.target_partitions = 8; SET datafusion.optimizer.repartition_file_min_size = 1;
             {}; INSERT INTO t SELECT i, v FROM '{source}/' WHERE i % 3 < 2",
            create("t", COLUMNS, &place, "'max_error' '0.01', 'atoms' '4', 'lambda' '0.1', 'kernel' 'linear'")
        );
        let output = run(&["sql", "-c", &statements]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let inserted = "SET datafusion.execution.target_partitions = 1; SELECT i FROM";
        let output = run(&["sql", "--format", "csv", "-c", &format!("{inserted} '{place}/'")]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let found: Vec<usize> = text.lines().filter_map(|line| line.parse().ok()).collect();
        let expected: Vec<usize> = (0..120_000).filter(|i| i % 3 < 2).collect();
        assert!(found == expected, "{name}: {} rows", found.len());
        source = place;
    }
}
