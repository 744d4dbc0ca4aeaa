//! An archive as a table.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::{Arc, RwLock};

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::{ColumnStatistics, Precision, Statistics};
use datafusion::common::{Result, SchemaExt, exec_datafusion_err, exec_err, not_impl_err, plan_err};
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::datasource::sink::DataSinkExec;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::object_store::ObjectStore;
use datafusion::object_store::path::Path;
use datafusion::parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use datafusion::parquet::file::statistics::Statistics as ParquetStatistics;
use datafusion::physical_plan::ExecutionPlan;
use futures::{FutureExt, StreamExt, TryStreamExt};
use percent_encoding::percent_decode_str;

use super::exec::{ArchiveExec, Unit};
use super::external;
use super::insert::ArchiveSink;
use super::pruning::{may_hide_nan, page_filter, pages_to_read, row_groups_to_read};
use crate::archive::{Archive, ArchiveError, Bound, DataFile, FileEntry, Job, Layout, LayoutRequest};

/// An archive as a table: values are decoded where a query needs them.
#[derive(Debug)]
pub struct ArchiveTable {
    place: Arc<Place>,
    job: Job,
    schema: SchemaRef,
}

/// Where an archive is, and what is known of it.
#[derive(Debug)]
pub(super) struct Place {
    pub store: Arc<dyn ObjectStore>,
    pub folder: Path,
    /// `None` before the first row is inserted.
    opened: RwLock<Option<Arc<Opened>>>,
    /// Held while rows are inserted.
    pub inserting: tokio::sync::Mutex<()>,
}

/// An archive whose footers are known.
#[derive(Debug)]
pub(super) struct Opened {
    pub archive: Archive,
    pub files: Vec<ArchivedFile>,
    /// Columns that are decoded in at least one file, and not kept.
    decoded: HashSet<usize>,
}

/// Footers that are fetched at the same time.
const FOOTERS_AT_ONCE: usize = 16;

/// A data file and the partition it is in.
#[derive(Debug)]
pub(super) struct ArchivedFile {
    pub file: DataFile,
    /// The values of the partition columns.
    pub partition: Vec<Option<String>>,
}

impl ArchiveTable {
    /// Opens an archive, or prepares for one with these columns where there is none.
    pub(super) async fn open(
        store: Arc<dyn ObjectStore>,
        folder: Path,
        schema: SchemaRef,
        job: Job,
    ) -> Result<Self> {
        let opened = match Archive::open(store.clone(), folder.clone()).await {
            Ok(archive) => Some(Arc::new(Opened::new(archive).await?)),
            Err(ArchiveError::NotAnArchive(_)) if !schema.fields().is_empty() => {
                job.layout.check(&schema).map_err(external)?;
                None
            }
            Err(error) => return Err(external(error)),
        };
        let found = opened.as_ref().map(|opened| opened.schema());
        if let Some(found) = &found
            && !schema.fields().is_empty()
            && schema.fields() != found.fields()
        {
            return plan_err!("the archive has other columns than the table: {found}");
        }
        if let Some(opened) = &opened {
            let (asked, bound) = (job.bound, opened.archive.bound());
            if asked != Bound::None && asked != bound {
                return plan_err!("the archive promises {bound}, which the options cannot change to {asked}");
            }
            if let LayoutRequest::Given(layout) = &job.layout
                && !layout.is_like(opened.archive.layout())
            {
                return plan_err!(
                    "the archive has the layout {}, which the options cannot change to {}",
                    layout_text(opened.archive.layout())?,
                    layout_text(layout)?
                );
            }
        }
        let place = Arc::new(Place {
            store,
            folder,
            opened: RwLock::new(opened),
            inserting: tokio::sync::Mutex::default(),
        });
        Ok(Self { place, job, schema: found.unwrap_or(schema) })
    }

    /// An archive that has been opened, as a table of any session. Rows that are inserted are coded as
    /// its others are.
    pub async fn new(archive: Archive) -> Result<Self> {
        let (store, folder) = (archive.store().clone(), archive.folder().clone());
        let opened = Opened::new(archive).await?;
        let schema = opened.schema();
        let place = Arc::new(Place {
            store,
            folder,
            opened: RwLock::new(Some(Arc::new(opened))),
            inserting: tokio::sync::Mutex::default(),
        });
        Ok(Self { place, job: Job { resume: false, ..Job::default() }, schema })
    }
}

/// A layout as reports show it.
fn layout_text(layout: &Layout) -> Result<String> {
    serde_json::to_string(layout).map_err(|error| exec_datafusion_err!("{error}"))
}

impl Place {
    pub fn opened(&self) -> Result<Option<Arc<Opened>>> {
        Ok(self
            .opened
            .read()
            .map_err(|_| exec_datafusion_err!("a query on this table has panicked"))?
            .clone())
    }

    /// Looks at the archive again, after rows were inserted into a table with these columns.
    pub async fn refresh(&self, schema: &Schema) -> Result<()> {
        let archive = Archive::open(self.store.clone(), self.folder.clone()).await.map_err(external)?;
        let opened = Arc::new(Opened::new(archive).await?);
        let found = opened.schema();
        // Another process may have begun the archive, with other columns.
        let same = |(ours, theirs): (&FieldRef, &FieldRef)| {
            ours.name() == theirs.name() && ours.data_type().equals_datatype(theirs.data_type())
        };
        let fits = schema.fields().len() == found.fields().len()
            && schema.fields().iter().zip(found.fields()).all(same);
        if !opened.files.is_empty() && !fits {
            return exec_err!("the archive has other columns than the table: {found}");
        }
        *self.opened.write().map_err(|_| exec_datafusion_err!("a query on this table has panicked"))? =
            Some(opened);
        Ok(())
    }
}

impl Opened {
    async fn new(archive: Archive) -> Result<Self> {
        let schema = archive.schema().await.map_err(external)?;
        let open = |number: usize| {
            let (archive, schema) = (&archive, &schema);
            let opening = async move {
                let mut file = archive.data_file(&archive.files()[number]).await.map_err(external)?;
                file.read_as(schema);
                Ok::<_, DataFusionError>(file)
            };
            opening.boxed()
        };
        let opening: Vec<_> = (0..archive.files().len()).map(open).collect();
        let found: Vec<DataFile> =
            futures::stream::iter(opening).buffered(FOOTERS_AT_ONCE).try_collect().await?;
        let names = partition_columns(&archive, found.first().map(|file| file.schema.as_ref()));
        let in_partition = |(file, entry): (DataFile, &FileEntry)| {
            let partition = names.iter().map(|name| partition_value(&entry.path, name)).collect();
            ArchivedFile { file, partition }
        };
        let files: Vec<ArchivedFile> = found.into_iter().zip(archive.files()).map(in_partition).collect();
        let coded = files.iter().filter_map(|file| file.file.coded.as_ref());
        let decoded = coded.flat_map(|coded| coded.table.values.iter().copied()).collect();
        let opened = Self { archive, files, decoded };
        if let Some((first, rest)) = opened.files.split_first()
            && let Some(other) =
                rest.iter().find(|other| other.file.schema.fields() != first.file.schema.fields())
        {
            return plan_err!("{} has other columns than {}", other.file.path, first.file.path);
        }
        Ok(opened)
    }

    /// The table's columns: those of the files, and those of the folders they are in.
    fn schema(&self) -> SchemaRef {
        let Some(first) = self.files.first() else { return Arc::new(Schema::empty()) };
        let mut fields: Vec<FieldRef> = first.file.schema.fields().to_vec();
        for name in partition_columns(&self.archive, Some(&first.file.schema)) {
            fields.push(Arc::new(Field::new(name, DataType::Utf8, true)));
        }
        Arc::new(Schema::new_with_metadata(fields, first.file.schema.metadata().clone()))
    }

    /// Which columns are decoded, and not kept.
    pub fn is_decoded(&self, column: usize) -> bool {
        self.decoded.contains(&column)
    }

    fn statistics(&self, schema: &Schema) -> Result<Statistics> {
        let mut all = Vec::new();
        for file in &self.files {
            let metadata = file.file.metadata.metadata();
            let kept = Arc::new(Schema::new(
                schema
                    .fields()
                    .iter()
                    .enumerate()
                    .filter(|(i, _)| *i < file.file.schema.fields().len() && !self.is_decoded(*i))
                    .map(|(_, field)| field.clone())
                    .collect::<Vec<_>>(),
            ));
            let known = DFParquetMetadata::statistics_from_parquet_metadata(metadata, &kept)?;
            let column = |field: &FieldRef| match kept.index_of(field.name()) {
                Ok(i) => as_exact_as_told(metadata, field, known.column_statistics[i].clone()),
                Err(_) => ColumnStatistics::new_unknown(),
            };
            let column_statistics = schema.fields().iter().map(column).collect();
            let (num_rows, total_byte_size) = (known.num_rows, Precision::Absent);
            all.push(Statistics { num_rows, total_byte_size, column_statistics });
        }
        Statistics::try_merge_iter(&all, schema)
    }
}

/// What a footer says of a column, no more exact than it is: extremes of floats leave NaN out and the sign of zeros open,
/// counts of NULLs may be missing, and extremes of a row group with long values, too.
fn as_exact_as_told(metadata: &ParquetMetaData, field: &Field, told: ColumnStatistics) -> ColumnStatistics {
    let chunks = metadata.row_groups().iter().flat_map(|group| group.columns());
    let is_own = |chunk: &&ColumnChunkMetaData| {
        chunk.column_path().parts().first().is_some_and(|name| name == field.name())
    };
    let own: Vec<_> = chunks.filter(is_own).map(|chunk| (chunk.num_values(), chunk.statistics())).collect();
    let nulls = |told: &Option<&ParquetStatistics>| told.and_then(|told| told.null_count_opt());
    let counted = own.iter().all(|(_, told)| nulls(told).is_some());
    let null_count = if counted { told.null_count } else { Precision::Absent };
    let told = ColumnStatistics { null_count, ..told };
    let is_limited = |(values, told): &(i64, Option<&ParquetStatistics>)| {
        let both =
            |told: &&ParquetStatistics| told.min_bytes_opt().is_some() && told.max_bytes_opt().is_some();
        nulls(told).is_some_and(|nulls| nulls as i64 == *values) || told.as_ref().is_some_and(both)
    };
    if !own.iter().all(is_limited) {
        return ColumnStatistics { min_value: Precision::Absent, max_value: Precision::Absent, ..told };
    }
    if !may_hide_nan(field.data_type()) {
        return told;
    }
    let (min_value, max_value) = (told.min_value.to_inexact(), told.max_value.to_inexact());
    ColumnStatistics { min_value, max_value, ..told }
}

/// What stands for NULL in the name of a partition's folder.
const NULL_PARTITION: &str = "__HIVE_DEFAULT_PARTITION__";

/// The value that a file's path gives a partition column. Characters that folders cannot have are written as `%3A`.
fn partition_value(path: &str, name: &str) -> Option<String> {
    let parts = path.split('/').filter_map(|part| part.split_once('='));
    let (_, value) = parts.into_iter().find(|(of, _)| *of == name)?;
    let decoded = percent_decode_str(value).decode_utf8().unwrap_or(Cow::Borrowed(value));
    (value != NULL_PARTITION).then(|| decoded.into_owned())
}

/// The hive partitions that are no columns of the files.
fn partition_columns(archive: &Archive, file: Option<&Schema>) -> Vec<String> {
    let is_column = |name: &String| file.is_some_and(|schema| schema.index_of(name).is_ok());
    archive.partitions().into_iter().filter(|name| !is_column(name)).collect()
}

#[async_trait]
impl TableProvider for ArchiveTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn statistics(&self) -> Option<Statistics> {
        self.place.opened().ok()??.statistics(&self.schema).ok()
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let opened = self.place.opened()?;
        let on_kept = |filter: &&Expr| {
            filter.column_refs().iter().all(|column| {
                let index = self.schema.index_of(&column.name);
                index.is_ok_and(|index| opened.as_ref().is_some_and(|opened| !opened.is_decoded(index)))
            })
        };
        let support = |filter: &&Expr| match on_kept(filter) {
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
        let columns: Vec<usize> = match projection {
            Some(projection) => projection.clone(),
            None => (0..self.schema.fields().len()).collect(),
        };
        let schema = Arc::new(self.schema.project(&columns)?);
        let Some(opened) = self.place.opened()? else {
            return Ok(Arc::new(datafusion::physical_plan::empty::EmptyExec::new(schema)));
        };
        let predicate = conjunction(filters.to_vec())
            .map(|filter| {
                let schema = datafusion::common::DFSchema::try_from(self.schema.as_ref().clone())?;
                state.create_physical_expr(filter, &schema)
            })
            .transpose()?;
        let page_filter = predicate.as_ref().and_then(|predicate| page_filter(predicate, &self.schema));
        let mut units = Vec::new();
        let mut total = 0;
        for (file, archived) in opened.files.iter().enumerate() {
            total += archived.file.row_groups();
            let row_groups = row_groups_to_read(archived, &self.schema, predicate.as_ref())?;
            let chosen = match &page_filter {
                Some(filter) => pages_to_read(archived, filter, row_groups),
                None => row_groups.into_iter().map(|row_group| (row_group, None)).collect(),
            };
            units.extend(chosen.into_iter().map(|(row_group, rows)| Unit { file, row_group, rows }));
        }
        if let (Some(limit), None) = (limit, &predicate) {
            // So many rows are in the first row groups.
            let mut rows = 0;
            let needed = units.iter().take_while(|unit| {
                let enough = rows >= limit;
                let metadata = opened.files[unit.file].file.metadata.metadata();
                rows += metadata.row_group(unit.row_group).num_rows().max(0) as usize;
                !enough
            });
            let needed = needed.count();
            units.truncate(needed);
        }
        let statistics = if predicate.is_none() && limit.is_none() {
            opened.statistics(&self.schema)?.project(Some(&columns))
        } else {
            Statistics::new_unknown(&schema)
        };
        let partitions = state.config().target_partitions();
        let plan = ArchiveExec::new(
            opened,
            self.schema.clone(),
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
        if self.place.opened()?.is_some_and(|opened| !opened.archive.partitions().is_empty()) {
            return not_impl_err!(
                "rows cannot be inserted into an archive with partitions; use sparrow append"
            );
        }
        self.schema.logically_equivalent_names_and_types(&input.schema())?;
        let sink = ArchiveSink::new(self.place.clone(), self.job.clone(), self.schema.clone());
        Ok(Arc::new(DataSinkExec::new(input, Arc::new(sink), None)))
    }
}
