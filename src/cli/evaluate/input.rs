//! The rows to learn from and the rows to judge by, read through SQL.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use clap::Args;
use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::compute::concat;
use datafusion::execution::config::SessionConfig;
use datafusion::prelude::{DataFrame, SessionContext, ident};

use super::EvaluateArguments;
use crate::cli::columns::find_column;
use crate::cli::parse::parse_count;
use crate::columnar::{Row, VectorColumn, is_vector_type};
use crate::math::{Signals, check_vector};

/// Which rows are learned from, and which are judged by.
#[derive(Debug, Args)]
pub(super) struct Split {
    /// Learns from the first so many rows and judges by the rest [default: three quarters]
    #[arg(long, value_parser = parse_count::<1_000_000_000>, conflicts_with_all = ["train_where", "test_where"])]
    train_rows: Option<usize>,
    /// Learns from the rows that fulfil this SQL condition
    #[arg(long, value_name = "SQL", requires = "test_where")]
    train_where: Option<String>,
    /// Judges by the rows that fulfil this SQL condition
    #[arg(long, value_name = "SQL", requires = "train_where")]
    test_where: Option<String>,
}

/// Whole vectors of one length, one after the other.
#[derive(Debug)]
pub(super) struct Vectors {
    values: Vec<f64>,
    dim: usize,
    /// Rows left out for missing or non-finite elements.
    pub skipped: usize,
}

impl Vectors {
    pub fn len(&self) -> usize {
        self.values.len() / self.dim.max(1)
    }

    fn check_usable(&self) -> Result<()> {
        ensure!(
            self.len() > 0,
            "no usable rows: there are {} with missing, non-finite or too large values and no others",
            self.skipped
        );
        Ok(())
    }

    pub fn dim(&self) -> usize {
        self.dim
    }

    pub fn values(&self) -> &[f64] {
        &self.values
    }

    pub fn signals(&self) -> Result<Signals<'_>> {
        Ok(Signals::from_flat(&self.values, self.dim)?)
    }
}

/// Both parts of a table.
#[derive(Debug)]
pub(super) struct Tables {
    pub train: Vectors,
    pub test: Vectors,
}

impl Tables {
    pub async fn read(arguments: &EvaluateArguments) -> Result<Self> {
        // One partition keeps the rows in the order of the file.
        let config = SessionConfig::from_env()?.with_target_partitions(1);
        let mut session = SessionContext::new_with_config(config).enable_url_table();
        crate::sql::register_all(&mut session)?;
        let table = open(&session, &arguments.table).await?;
        let column = vector_column(&table, arguments.column.as_deref())?;
        let split = &arguments.split;
        let (mut train, mut test) = match (&split.train_where, &split.test_where) {
            (Some(train), Some(test)) => {
                (read_where(&table, &column, train).await?, read_where(&table, &column, test).await?)
            }
            _ => {
                let all = vectors(&column, &rows(table, &column).await?)?;
                all.check_usable()?;
                let count = split.train_rows.unwrap_or((all.len() * 3 / 4).max(1));
                ensure!(
                    count < all.len(),
                    "{count} rows to learn from leave none of {} to judge by",
                    all.len()
                );
                let (train, test) = all.values.split_at(count * all.dim);
                let part =
                    |values: &[f64], skipped| Vectors { values: values.to_vec(), dim: all.dim, skipped };
                (part(train, all.skipped), part(test, 0))
            }
        };
        train.check_usable().context("no rows to learn from")?;
        test.check_usable().context("no rows to judge by")?;
        ensure!(
            train.dim == test.dim,
            "vectors to learn from have length {}, those to judge by {}",
            train.dim,
            test.dim
        );
        if arguments.scale {
            let largest = train.values.iter().fold(0.0f64, |most, value| most.max(value.abs()));
            ensure!(largest > 0.0, "cannot scale: all training values are zero");
            for part in [&mut train, &mut test] {
                part.values.iter_mut().for_each(|value| *value /= largest);
            }
        }
        Ok(Self { train, test })
    }

    /// The training rows as a table of their own: the first three quarters to learn from, the rest to judge by.
    pub fn within_training(&self) -> Result<Self> {
        let (all, dim) = (&self.train, self.train.dim);
        ensure!(all.len() > 1, "a single row to learn from leaves none to tune on");
        let (train, test) = all.values.split_at((all.len() * 3 / 4).max(1) * dim);
        let part = |values: &[f64]| Vectors { values: values.to_vec(), dim, skipped: 0 };
        Ok(Self { train: part(train), test: part(test) })
    }
}

/// The table of a query, of a registered name or of a file.
async fn open(session: &SessionContext, table: &str) -> Result<DataFrame> {
    let first_word = table.split_whitespace().next().unwrap_or_default();
    let is_query = ["select", "with"].iter().any(|word| first_word.eq_ignore_ascii_case(word));
    if is_query && !std::path::Path::new(table).exists() {
        return Ok(session.sql(table).await?);
    }
    ensure!(
        table.contains("://") || std::path::Path::new(table).exists(),
        "there is no file '{table}'; a query starts with SELECT or WITH"
    );
    let quoted = table.replace('\'', "''");
    session.sql(&format!("SELECT * FROM '{quoted}'")).await.with_context(|| format!("cannot read {table}"))
}

fn vector_column(table: &DataFrame, name: Option<&str>) -> Result<String> {
    let fields = table.schema().fields();
    let found = find_column(fields, name, "vectors", is_vector_type);
    let remedy = "a query can make a column of vectors: SELECT make_array(a, b, c) AS v FROM ...";
    Ok(fields[found.context(remedy)?].name().clone())
}

async fn read_where(table: &DataFrame, column: &str, condition: &str) -> Result<Vectors> {
    let context = || format!("in the condition {condition}");
    let parsed = table.parse_sql_expr(condition).with_context(context)?;
    let some = table.clone().filter(parsed).with_context(context)?;
    vectors(column, &rows(some, column).await.with_context(context)?)
}

/// One column of a table.
async fn rows(table: DataFrame, column: &str) -> Result<Vec<ArrayRef>> {
    let batches = table.select(vec![ident(column)])?.collect().await?;
    Ok(batches.iter().map(|batch| Arc::clone(batch.column(0))).collect())
}

/// The usable vectors of a column.
fn vectors(column: &str, arrays: &[ArrayRef]) -> Result<Vectors> {
    let mut vectors = Vectors { values: Vec::new(), dim: 0, skipped: 0 };
    if arrays.is_empty() {
        return Ok(vectors);
    }
    let arrays: Vec<&dyn Array> = arrays.iter().map(|array| array.as_ref()).collect();
    let rows = VectorColumn::new(&concat(&arrays)?)?;
    for row in 0..rows.len() {
        match rows.row(row) {
            Row::Values(values) if check_vector(values, row).is_ok() => {
                if vectors.values.is_empty() {
                    vectors.dim = values.len();
                }
                ensure!(
                    values.len() == vectors.dim && !values.is_empty(),
                    "column {column}, row {row}: a vector of length {}, expected {}",
                    values.len(),
                    vectors.dim
                );
                vectors.values.extend_from_slice(values);
            }
            _ => vectors.skipped += 1,
        }
    }
    Ok(vectors)
}
