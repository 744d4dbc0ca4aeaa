//! Every file of tests/slt, in a session of its own. `UPDATE_SLT=1` rewrites the expectations.

use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::error::DataFusionError;
use datafusion::prelude::SessionContext;
use sqllogictest::{
    AsyncDB, ColumnType, DBOutput, Runner, default_normalizer, default_validator, strict_column_validator,
};

use crate::support::{project, session};

/// What a column holds, as the letters after `query` tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Letter {
    Boolean,
    Float,
    Integer,
    Text,
    Time,
    /// Lists, structs, bytes and what else has no letter.
    Other,
}

const LETTERS: [(char, Letter); 6] = [
    ('B', Letter::Boolean),
    ('R', Letter::Float),
    ('I', Letter::Integer),
    ('T', Letter::Text),
    ('P', Letter::Time),
    ('?', Letter::Other),
];

impl ColumnType for Letter {
    fn from_char(letter: char) -> Option<Self> {
        LETTERS.iter().find(|(known, _)| *known == letter).map(|(_, kind)| *kind)
    }

    fn to_char(&self) -> char {
        LETTERS.iter().find(|(_, kind)| kind == self).map_or('?', |(letter, _)| *letter)
    }
}

impl From<&DataType> for Letter {
    fn from(data_type: &DataType) -> Self {
        match data_type {
            DataType::Boolean => Self::Boolean,
            data_type if data_type.is_floating() => Self::Float,
            data_type if data_type.is_integer() => Self::Integer,
            data_type if data_type.is_string() => Self::Text,
            DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => Self::Time,
            DataType::Dictionary(_, values) => values.as_ref().into(),
            _ => Self::Other,
        }
    }
}

struct Database(SessionContext);

#[async_trait::async_trait]
impl AsyncDB for Database {
    type Error = DataFusionError;
    type ColumnType = Letter;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<Letter>, DataFusionError> {
        let frame = self.0.sql(sql).await?;
        let types: Vec<Letter> =
            frame.schema().fields().iter().map(|field| field.data_type().into()).collect();
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
        if types.is_empty() {
            return Ok(DBOutput::StatementComplete(rows.len() as u64));
        }
        Ok(DBOutput::Rows { types, rows })
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
        runner.with_column_validator(strict_column_validator);
        if std::env::var_os("UPDATE_SLT").is_some() {
            let update = runner.update_test_file(
                &path,
                " ",
                default_validator,
                default_normalizer,
                strict_column_validator,
            );
            update.await.expect("expectations are rewritten");
        } else if let Err(error) = runner.run_file_async(&path).await {
            panic!("{}: {error}", path.display());
        }
    }
}
