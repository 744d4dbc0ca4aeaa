//! Every file of tests/slt, in a session of its own. `UPDATE_SLT=1` rewrites the expectations.

use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::error::DataFusionError;
use datafusion::prelude::SessionContext;
use sqllogictest::{
    AsyncDB, DBOutput, DefaultColumnType, Runner, default_column_validator, default_normalizer,
    default_validator,
};

use crate::support::{project, session};

struct Database(SessionContext);

#[async_trait::async_trait]
impl AsyncDB for Database {
    type Error = DataFusionError;
    type ColumnType = DefaultColumnType;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, DataFusionError> {
        let frame = self.0.sql(sql).await?;
        let columns = frame.schema().fields().len();
        let batches = frame.collect().await?;
        let options = FormatOptions::default().with_null("NULL");
        let mut rows = Vec::new();
        for batch in &batches {
            let formatters = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options));
            let formatters = formatters.collect::<Result<Vec<_>, _>>()?;
            // Plans have many lines, and a row of an expectation is one.
            let one_line = |text: String| text.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
            let cells = |row: usize| formatters.iter().map(|f| one_line(f.value(row).to_string())).collect();
            rows.extend((0..batch.num_rows()).map(cells));
        }
        if columns == 0 {
            return Ok(DBOutput::StatementComplete(rows.len() as u64));
        }
        Ok(DBOutput::Rows { types: vec![DefaultColumnType::Any; columns], rows })
    }

    async fn shutdown(&mut self) {}
}

#[tokio::test]
async fn files() {
    let folder = std::fs::read_dir(project("tests/slt")).expect("the folder of slt files");
    let mut paths: Vec<_> = folder.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    assert!(paths.len() >= 10, "a file per function");
    for path in paths {
        let mut runner = Runner::new(|| async {
            let session = session();
            sparrow::sql::register_archives(&session);
            Ok(Database(session))
        });
        if std::env::var_os("UPDATE_SLT").is_some() {
            let update = runner.update_test_file(
                &path,
                " ",
                default_validator,
                default_normalizer,
                default_column_validator,
            );
            update.await.expect("expectations are rewritten");
        } else if let Err(error) = runner.run_file_async(&path).await {
            panic!("{}: {error}", path.display());
        }
    }
}
