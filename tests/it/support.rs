//! What several tests need.

use std::path::PathBuf;
use std::process::Command;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::Float64Type;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use sparrow::math::coders::{self, Form};

/// A session with the functions, cut into partitions and batches as told.
pub fn session_with(partitions: usize, batch_size: usize) -> SessionContext {
    let config = SessionConfig::new()
        .with_target_partitions(partitions)
        .with_batch_size(batch_size)
        .with_information_schema(true)
        // Without it small files stay in one partition.
        .with_repartition_file_min_size(1);
    let state = SessionStateBuilder::new().with_config(config).with_default_features();
    let state = sparrow::sql::corrected(state).build();
    let mut session = SessionContext::new_with_state(state).enable_url_table();
    sparrow::sql::register_all(&mut session).expect("functions register");
    session
}

pub fn session() -> SessionContext {
    session_with(2, 8192)
}

pub async fn try_query(session: &SessionContext, sql: &str) -> Result<Vec<RecordBatch>> {
    session.sql(sql).await?.collect().await
}

pub async fn query(session: &SessionContext, sql: &str) -> Vec<RecordBatch> {
    try_query(session, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// The error of a query that must fail.
pub async fn failure(session: &SessionContext, sql: &str) -> String {
    match try_query(session, sql).await {
        Ok(_) => panic!("{sql} should have failed"),
        Err(error) => error.strip_backtrace(),
    }
}

/// The first column of a result that has one row.
pub async fn cell(session: &SessionContext, sql: &str) -> ArrayRef {
    let batches = query(session, sql).await;
    let batch = batches.iter().find(|batch| batch.num_rows() > 0).unwrap_or_else(|| panic!("{sql}: no row"));
    batch.column(0).clone()
}

/// A number from a query of one row.
pub async fn number(session: &SessionContext, sql: &str) -> f64 {
    let value = cell(session, sql).await;
    let value = datafusion::arrow::compute::cast(&value, &datafusion::arrow::datatypes::DataType::Float64);
    value.expect("a number").as_primitive::<Float64Type>().value(0)
}

/// Bytes from a query of one row.
pub async fn bytes(session: &SessionContext, sql: &str) -> Vec<u8> {
    let value = cell(session, sql).await;
    assert!(value.is_valid(0), "{sql}: NULL");
    value.as_binary_view().value(0).to_vec()
}

/// A file of the project, wherever the clone lies now: a target folder shared by two clones keeps the tests
/// that the other one compiled.
pub fn project(path: &str) -> PathBuf {
    let root = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    PathBuf::from(root).join(path)
}

/// The names of the coders of one form.
pub fn coders_of(form: Form) -> Vec<&'static str> {
    let of_form = |name: &&str| coders::by_name(name).expect("its own name").form() == form;
    coders::names().into_iter().filter(of_form).collect()
}

/// The coders that reach the optimum of the l1 form to the last digits; `foso` stops by its objective.
pub fn exact_coders() -> impl Iterator<Item = &'static str> {
    coders_of(Form::L1).into_iter().filter(|name| *name != "foso")
}

/// The command.
pub fn sparrow() -> Command {
    Command::new(env!("CARGO_BIN_EXE_sparrow"))
}

/// Real tables that may lie beside the project; tests that need them say that they are skipped.
pub fn shared_data(file: &str) -> Option<String> {
    let path = project("../shared/data").join(file);
    if path.exists() {
        return Some(path.display().to_string());
    }
    eprintln!("skipped: {file} is not here");
    None
}

/// Runs an ignored test of this binary in a process of its own: it counts what the whole process does.
pub fn run_alone(test: &str) {
    let runner = std::env::current_exe().expect("this binary");
    let arguments = ["--exact", test, "--ignored", "--nocapture"];
    let output = std::process::Command::new(runner).args(arguments).output().expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    assert!(text(&output.stdout).contains("1 passed"));
}
