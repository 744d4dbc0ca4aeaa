//! An archive as a table.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::{Precision, Statistics};
use datafusion::common::{DFSchema, Result, SchemaExt, not_impl_err};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::object_store::ObjectStore;
use datafusion::object_store::path::Path;
use datafusion::parquet::arrow::arrow_reader::RowSelection;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;

use super::exec::{ArchiveExec, Unit};
use super::insert::ArchiveSink;
use super::opened::Opened;
use super::options::Asked;
use super::place::Place;
use super::pruning::Pruning;
use crate::archive::Archive;

/// An archive as a table: values are decoded where a query needs them. Each query sees the archive as it is when it is
/// planned, with all that was added to it; the columns stay those that the table began with.
#[derive(Debug)]
pub struct ArchiveTable {
    place: Arc<Place>,
    /// What columns are where an `INSERT` leaves them out.
    defaults: HashMap<String, Expr>,
}

impl ArchiveTable {
    /// Opens an archive, or prepares for one with these columns where there is none.
    pub(super) async fn open(
        store: Arc<dyn ObjectStore>,
        folder: Path,
        schema: SchemaRef,
        asked: Asked,
        defaults: HashMap<String, Expr>,
    ) -> Result<Self> {
        Ok(Self { place: Arc::new(Place::open(store, folder, schema, asked).await?), defaults })
    }

    /// An archive that has been opened, as a table of any session. Rows that are inserted are coded as
    /// its others are.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use datafusion::object_store::{ObjectStore, local::LocalFileSystem, path::Path};
    /// use datafusion::prelude::SessionContext;
    /// use sparrow::archive::Archive;
    /// use sparrow::sql::{ArchiveTable, register_archives};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let folder = std::env::temp_dir().join(format!("sparrow-table-{}", std::process::id()));
    /// # let begin = SessionContext::new();
    /// # register_archives(&begin);
    /// # let create = format!("CREATE EXTERNAL TABLE t (v DOUBLE[]) STORED AS SPARROW LOCATION '{}'", folder.display());
    /// # begin.sql(&create).await?;
    /// # begin.sql("INSERT INTO t VALUES ([1.0, 2.0]), ([2.0, 3.0])").await?.collect().await?;
    /// let store: Arc<dyn ObjectStore> = Arc::new(LocalFileSystem::new());
    /// let archive = Archive::open(store, Path::from_absolute_path(&folder)?).await?;
    /// let session = SessionContext::new();
    /// session.register_table("traffic", Arc::new(ArchiveTable::new(archive).await?))?;
    /// assert_eq!(session.sql("SELECT v FROM traffic").await?.count().await?, 2);
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn new(archive: Archive) -> Result<Self> {
        Ok(Self { place: Arc::new(Place::of(archive).await?), defaults: HashMap::new() })
    }
}

/// The rows of some row groups, as far as they are read.
fn rows_of(opened: &Opened, unit: &Unit) -> usize {
    let metadata = opened.files[unit.file].file.metadata.metadata();
    let all = metadata.row_group(unit.row_group).num_rows().max(0) as usize;
    unit.rows.as_ref().map_or(all, RowSelection::row_count)
}

#[async_trait]
impl TableProvider for ArchiveTable {
    fn schema(&self) -> SchemaRef {
        self.place.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.defaults.get(column)
    }

    fn statistics(&self) -> Option<Statistics> {
        self.place.known().ok()??.statistics().ok().cloned()
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let opened = self.place.known()?;
        let support = |filter: &&Expr| match opened.as_ref().is_some_and(|opened| opened.keeps(filter)) {
            true => TableProviderFilterPushDown::Inexact,
            false => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(support).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let table = &self.place.schema;
        let columns: Vec<usize> = match projection {
            Some(projection) => projection.clone(),
            None => (0..table.fields().len()).collect(),
        };
        let schema = Arc::new(table.project(&columns)?);
        // Plan and statistics are of one moment.
        let Some(opened) = self.place.current().await? else { return Ok(Arc::new(EmptyExec::new(schema))) };
        // What was kept when they were pushed down may be coded now.
        let on_kept = filters.iter().filter(|filter| opened.keeps(filter)).cloned();
        let predicate = conjunction(on_kept)
            .map(|filter| {
                let schema = DFSchema::try_from(table.as_ref().clone())?;
                state.create_physical_expr(filter, &schema)
            })
            .transpose()?;
        let pruning = predicate.as_ref().map(|predicate| Pruning::new(predicate, table));
        let mut units = Vec::new();
        let mut total = 0;
        for (file, archived) in opened.files.iter().enumerate() {
            let row_groups = archived.file.row_groups();
            total += row_groups;
            let chosen = match &pruning {
                Some(pruning) => pruning.chosen(archived),
                None => (0..row_groups).map(|row_group| (row_group, None)).collect(),
            };
            units.extend(chosen.into_iter().map(|(row_group, rows)| Unit { file, row_group, rows }));
        }
        if let (Some(limit), true) = (limit, filters.is_empty()) {
            // So many rows are in the first row groups.
            let mut rows = 0;
            let needed = units.iter().take_while(|unit| {
                let enough = rows >= limit;
                rows += rows_of(&opened, unit);
                !enough
            });
            let needed = needed.count();
            units.truncate(needed);
        }
        let all = opened.statistics()?.clone().project(Some(&columns));
        let statistics = if filters.is_empty() && limit.is_none() {
            all
        } else {
            // At most what is read, and perhaps less.
            let rows: usize = units.iter().map(|unit| rows_of(&opened, unit)).sum();
            let num_rows = Precision::Inexact(limit.map_or(rows, |limit| rows.min(limit)));
            Statistics { num_rows, ..all.to_inexact() }
        };
        let partitions = state.config().target_partitions();
        let plan = ArchiveExec::new(
            opened,
            table.clone(),
            columns,
            units,
            total,
            predicate,
            limit,
            partitions,
            statistics,
        )?;
        Ok(Arc::new(plan))
    }

    async fn insert_into(
        &self,
        _state: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        operation: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if operation != InsertOp::Append {
            return not_impl_err!("an archive can be added to, but its rows cannot be replaced: {operation}");
        }
        if self.place.current().await?.is_some_and(|opened| !opened.archive.partitions().is_empty()) {
            return not_impl_err!(
                "rows cannot be inserted into an archive with partitions; use sparrow append"
            );
        }
        self.place.schema.logically_equivalent_names_and_types(&input.schema())?;
        let sink = ArchiveSink::new(self.place.clone());
        Ok(Arc::new(DataSinkExec::new(input, Arc::new(sink), None)))
    }
}
