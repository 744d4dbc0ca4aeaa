//! Reading an archive: the operator that decodes.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, StringArray, UInt64Array,
};
use datafusion::arrow::compute::take_record_batch;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::stats::Statistics;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::parquet::arrow::arrow_reader::RowSelection;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::{collect_columns, conjunction_opt, reassign_expr_columns};
use datafusion::physical_expr::{DynamicFilterTracking, EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{
    Boundedness, ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions, apply_expression_roots,
};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, RecordOutput, Time,
};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};

use super::external;
use super::moving::MovingFilter;
use super::opened::{ArchivedFile, Opened};
use super::selections::{both, row_at};
use crate::archive::{ArchiveError, KeptRows, caught};

/// A row group of a file.
#[derive(Debug, Clone)]
pub(super) struct Unit {
    pub file: usize,
    pub row_group: usize,
    /// The rows on pages that may satisfy the predicate; all if that is not known.
    pub rows: Option<RowSelection>,
}

/// Reads row groups of an archive and decodes the columns that are asked for.
#[derive(Debug, Clone)]
pub struct ArchiveExec {
    opened: Arc<Opened>,
    /// The whole table's columns.
    table: SchemaRef,
    columns: Vec<usize>,
    /// The row groups of each partition.
    units: Vec<Vec<Unit>>,
    row_groups: usize,
    predicate: Option<Arc<dyn PhysicalExpr>>,
    /// What becomes known while the query runs.
    moving: Option<Arc<dyn PhysicalExpr>>,
    limit: Option<usize>,
    statistics: Arc<Statistics>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl ArchiveExec {
    #[expect(clippy::too_many_arguments, reason = "a scan is all of this")]
    pub(super) fn new(
        opened: Arc<Opened>,
        table: SchemaRef,
        columns: Vec<usize>,
        units: Vec<Unit>,
        row_groups: usize,
        predicate: Option<Arc<dyn PhysicalExpr>>,
        limit: Option<usize>,
        partitions: usize,
        statistics: Statistics,
    ) -> Result<Self> {
        let schema = Arc::new(table.project(&columns)?);
        // Neighbours stay together: they are in one file.
        let each = units.len().div_ceil(partitions.max(1)).max(1);
        let mut units: Vec<Vec<Unit>> = units.chunks(each).map(<[Unit]>::to_vec).collect();
        if units.is_empty() {
            units.push(Vec::new());
        }
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(units.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let (statistics, properties) = (Arc::new(statistics), Arc::new(properties));
        let metrics = ExecutionPlanMetricsSet::new();
        Ok(Self {
            opened,
            table,
            columns,
            units,
            row_groups,
            predicate,
            moving: None,
            limit,
            statistics,
            properties,
            metrics,
        })
    }

    fn fmt_columns(&self) -> String {
        let names: Vec<&str> = self.columns.iter().map(|i| self.table.field(*i).name().as_str()).collect();
        names.join(", ")
    }
}

impl DisplayAs for ArchiveExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decoded: Vec<&str> = self
            .columns
            .iter()
            .filter(|i| self.opened.is_decoded(**i))
            .map(|i| self.table.field(*i).name().as_str())
            .collect();
        let read: usize = self.units.iter().map(Vec::len).sum();
        let separator = if matches!(format, DisplayFormatType::TreeRender) { "\n" } else { ", " };
        if !matches!(format, DisplayFormatType::TreeRender) {
            write!(f, "ArchiveExec: ")?;
        }
        write!(f, "files={}{separator}row_groups={read} of {}", self.opened.files.len(), self.row_groups)?;
        write!(
            f,
            "{separator}projection=[{}]{separator}decode=[{}]",
            self.fmt_columns(),
            shortened(&decoded)
        )?;
        if let Some(predicate) = &self.predicate {
            write!(f, "{separator}predicate={predicate}")?;
        }
        if let Some(moving) = &self.moving {
            write!(f, "{separator}moving_predicate={moving}")?;
        }
        if let Some(limit) = self.limit {
            write!(f, "{separator}limit={limit}")?;
        }
        Ok(())
    }
}

fn shortened(names: &[&str]) -> String {
    const SHOWN: usize = 8;
    match names.len() {
        0..=SHOWN => names.join(", "),
        count => format!("{}, ... {count} in all", names[..SHOWN].join(", ")),
    }
}

impl ExecutionPlan for ArchiveExec {
    fn name(&self) -> &'static str {
        "ArchiveExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.predicate.iter().chain(&self.moving), f)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !children.is_empty() {
            return internal_err!("ArchiveExec has no children");
        }
        Ok(self)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn handle_child_pushdown_result(
        &self,
        phase: FilterPushdownPhase,
        result: ChildPushdownResult,
        config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        // Rows that are left out are a favour: whoever filters goes on doing so.
        let told = result.parent_filters.iter().map(|_| PushedDown::No).collect();
        let told = FilterPushdownPropagation::with_parent_pushdown_result(told);
        // Those of aggregates are of some of them alone in DataFusion 55, and leave out what others need; nothing tells
        // them from those of joins and sorts.
        let are_sound = !config.optimizer.enable_aggregate_dynamic_filter_pushdown;
        if phase != FilterPushdownPhase::Post || !are_sound {
            return Ok(told);
        }
        let filters = result.parent_filters.into_iter().map(|found| found.filter);
        // Values are not decoded to know whether they are wanted.
        let is_kept = |column: &Column| {
            self.columns.get(column.index()).is_some_and(|column| !self.opened.is_decoded(*column))
        };
        let usable = filters.filter(|filter| {
            DynamicFilterTracking::classify(filter).contains_dynamic_filter()
                && collect_columns(filter).iter().all(is_kept)
        });
        let usable = usable.map(|filter| reassign_expr_columns(filter, &self.table));
        let Some(moving) = conjunction_opt(usable.collect::<Result<Vec<_>>>()?) else { return Ok(told) };
        Ok(told.with_updated_node(Arc::new(Self { moving: Some(moving), ..self.clone() })))
    }

    /// Filters that became known in one run say nothing of the next.
    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let metrics = ExecutionPlanMetricsSet::new();
        Ok(Arc::new(Self { moving: None, metrics, ..self.as_ref().clone() }))
    }

    fn statistics_from_inputs(
        &self,
        _inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(match args.partition() {
            None => self.statistics.clone(),
            Some(_) => Arc::new(Statistics::new_unknown(&self.schema())),
        })
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(units) = self.units.get(partition) else {
            return internal_err!("ArchiveExec has no partition {partition}");
        };
        let consumer = MemoryConsumer::new(format!("ArchiveExec[{partition}]"));
        let reading = Reading {
            plan: Arc::new(self.clone()),
            moving: self.moving.clone().map(|filter| MovingFilter::new(filter, self.table.clone())),
            batch_size: context.session_config().batch_size().max(1),
            reservation: consumer.register(context.memory_pool()),
            baseline: BaselineMetrics::new(&self.metrics, partition),
            decode_time: MetricBuilder::new(&self.metrics).subset_time("decode_time", partition),
            rows_decoded: MetricBuilder::new(&self.metrics).counter("rows_decoded", partition),
            bytes_read: MetricBuilder::new(&self.metrics).counter("bytes_read", partition),
            skipped: MetricBuilder::new(&self.metrics).counter("row_groups_filtered", partition),
            rows_pruned: MetricBuilder::new(&self.metrics).counter("rows_pruned_by_pages", partition),
        };
        let state = (reading, units.clone().into_iter(), None::<Found>);
        let stream = futures::stream::try_unfold(state, |(mut reading, mut units, mut current)| async move {
            loop {
                if let Some(found) = &mut current
                    && let Some(batch) = reading.next_batch(found)?
                {
                    let batch = batch.record_output(&reading.baseline);
                    return Ok::<_, DataFusionError>(Some((batch, (reading, units, current))));
                }
                let Some(unit) = units.next() else {
                    reading.reservation.free();
                    return Ok(None);
                };
                current = reading.read(unit).await?;
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream)))
    }
}

/// Some rows of a row group. Small parts are copied: whoever keeps one would keep all of the row group, and is charged
/// for all of it each time.
fn part(batch: &RecordBatch, rows: Range<usize>) -> Result<RecordBatch> {
    // Without columns there is nothing but the number of rows.
    if 2 * rows.len() >= batch.num_rows() || batch.num_columns() == 0 {
        return Ok(batch.slice(rows.start, rows.len()));
    }
    let rows = UInt64Array::from_iter_values(rows.start as u64..rows.end as u64);
    let taken = take_record_batch(batch, &rows)?;
    let columns = taken.columns().iter().map(without_the_rest).collect();
    Ok(RecordBatch::try_new(taken.schema(), columns)?)
}

/// Views hold on to the bytes of all rows that they were taken from.
fn without_the_rest(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Utf8View => Arc::new(column.as_string_view().gc()),
        DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
        _ => column.clone(),
    }
}

/// What is still to come of a row group.
enum Found {
    /// All of it is decoded; these rows are wanted.
    Decoded(RecordBatch, Range<usize>),
    /// Nothing is to be decoded, and a table that is stored as it was may have row groups of any size.
    Kept { file: usize, rows: KeptRows },
}

/// One partition at work.
struct Reading {
    plan: Arc<ArchiveExec>,
    moving: Option<MovingFilter>,
    batch_size: usize,
    reservation: MemoryReservation,
    baseline: BaselineMetrics,
    decode_time: Time,
    rows_decoded: Count,
    bytes_read: Count,
    skipped: Count,
    rows_pruned: Count,
}

impl Reading {
    /// The next rows of what was found.
    fn next_batch(&self, found: &mut Found) -> Result<Option<RecordBatch>> {
        let _busy = self.baseline.elapsed_compute().timer();
        match found {
            Found::Decoded(_, rows) if rows.start >= rows.end => Ok(None),
            Found::Decoded(batch, rows) => {
                let count = rows.len().min(self.batch_size);
                let some = part(batch, rows.start..rows.start + count)?;
                rows.start += count;
                Ok(Some(some))
            }
            Found::Kept { file, rows } => {
                let archived = &self.plan.opened.files[*file];
                let batch = {
                    let _decoding = self.decode_time.timer();
                    decoding(archived, || rows.next().transpose())?
                };
                let Some(batch) = batch else { return Ok(None) };
                let columns = batch.columns().iter().map(without_the_rest).collect();
                let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
                let batch = RecordBatch::try_new_with_options(batch.schema(), columns, &options)?;
                self.with_partition(archived, &self.plan.columns, batch).map(Some)
            }
        }
    }

    /// Reads a row group; gives the rows among which those are that satisfy the predicate.
    async fn read(&mut self, mut unit: Unit) -> Result<Option<Found>> {
        let plan = self.plan.clone();
        let archived = &plan.opened.files[unit.file];
        let mut filters: Vec<Arc<dyn PhysicalExpr>> = plan.predicate.iter().cloned().collect();
        if let Some(moving) = &mut self.moving {
            let left = moving.left_of(unit.file, archived, unit.row_group)?;
            let Some(rows) = left.and_then(|rows| both(unit.rows, rows)) else {
                self.skipped.add(1);
                return Ok(None);
            };
            unit.rows = rows;
            // Nothing is known at first.
            filters.extend(Some(moving.of_rows()?).filter(|filter| !collect_columns(filter).is_empty()));
        }
        let rows = archived.file.metadata.metadata().row_group(unit.row_group).num_rows().max(0) as usize;
        let pages = unit.rows.as_ref();
        self.rows_pruned.add(pages.map_or(0, RowSelection::skipped_row_count));
        let mut range = 0..rows;
        let own = archived.file.schema.fields().len();
        let in_file: Vec<usize> = self.plan.columns.iter().copied().filter(|column| *column < own).collect();
        let decoded = archived.file.decoded_values(unit.row_group, &in_file).map_err(external)?;
        let Some(values) = decoded else {
            let file = &archived.file;
            let bytes = file.bytes_to_read(unit.row_group, &in_file).map_err(external)? as usize;
            self.reservation.try_resize(bytes)?;
            self.bytes_read.add(bytes);
            let fetched = file.fetch(unit.row_group, &in_file).await;
            let fetched = fetched.map_err(|error| in_this_file(archived, error))?;
            let rows = decoding(archived, || file.decode_kept(fetched, &in_file, pages, self.batch_size))?;
            return Ok(Some(Found::Kept { file: unit.file, rows }));
        };
        if let Some(predicate) = conjunction_opt(filters) {
            // The filter's columns first: what it leaves out is not decoded.
            let mut needed: Vec<usize> =
                collect_columns(&predicate).iter().map(|column| column.index()).collect();
            needed.sort_unstable();
            let some = self.columns(archived, unit.row_group, &needed, pages).await?;
            range = matching(&predicate, &some)?;
            if range.is_empty() {
                self.skipped.add(1);
                return Ok(None);
            }
            if let Some(pages) = pages {
                range = row_at(pages, range.start)..row_at(pages, range.end - 1) + 1;
            }
        }
        // Values as numbers, as 64 bits, as integers and as predictions.
        const COPIES: usize = 4;
        self.reservation.try_resize(values * 8 * COPIES)?;
        let batch = self.columns(archived, unit.row_group, &self.plan.columns, None).await?;
        self.reservation.try_resize(batch.get_array_memory_size())?;
        self.rows_decoded.add(rows);
        Ok(Some(Found::Decoded(batch, range)))
    }

    /// Some columns of the table, those of the partition included: all rows, or, where nothing is to be decoded, some.
    async fn columns(
        &self,
        archived: &ArchivedFile,
        row_group: usize,
        columns: &[usize],
        rows: Option<&RowSelection>,
    ) -> Result<RecordBatch> {
        let file = &archived.file;
        let own = file.schema.fields().len();
        let in_file: Vec<usize> = columns.iter().copied().filter(|column| *column < own).collect();
        self.bytes_read.add(file.bytes_to_read(row_group, &in_file).map_err(external)? as usize);
        let fetched = file.fetch(row_group, &in_file).await.map_err(|error| in_this_file(archived, error))?;
        let batch = {
            let _decoding = self.decode_time.timer();
            let _busy = self.baseline.elapsed_compute().timer();
            decoding(archived, || match rows {
                Some(rows) => {
                    file.decode_kept(fetched, &in_file, Some(rows), usize::MAX).and_then(KeptRows::all)
                }
                None => file.decode(fetched, &in_file),
            })?
        };
        self.with_partition(archived, columns, batch)
    }

    /// Columns of a file with those of its partition, in the order asked for.
    fn with_partition(
        &self,
        archived: &ArchivedFile,
        columns: &[usize],
        batch: RecordBatch,
    ) -> Result<RecordBatch> {
        let own = archived.file.schema.fields().len();
        let rows = batch.num_rows();
        let mut found = batch.columns().iter();
        let arrays: Option<Vec<ArrayRef>> = columns
            .iter()
            .map(|column| match column.checked_sub(own) {
                None => found.next().cloned(),
                Some(i) => archived
                    .partition
                    .get(i)
                    .map(|value| Arc::new(StringArray::from(vec![value.as_deref(); rows])) as ArrayRef),
            })
            .collect();
        let Some(arrays) = arrays else { return internal_err!("a column is missing") };
        let schema = Arc::new(self.plan.table.project(columns)?);
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(schema, arrays, &options)?)
    }
}

/// Decodes a part of a file. Its errors and panics name the file.
fn decoding<T>(archived: &ArchivedFile, decode: impl FnOnce() -> crate::archive::Result<T>) -> Result<T> {
    caught("decoding", decode).map_err(|error| in_this_file(archived, error))
}

fn in_this_file(archived: &ArchivedFile, error: ArchiveError) -> DataFusionError {
    external(error.at(archived.file.path.to_string()))
}

/// From the first to the last row that satisfies the predicate.
fn matching(predicate: &Arc<dyn PhysicalExpr>, some: &RecordBatch) -> Result<Range<usize>> {
    let rows = some.num_rows();
    let predicate = reassign_expr_columns(predicate.clone(), some.schema_ref())?;
    let kept = predicate.evaluate(some)?.into_array(rows)?;
    let kept = kept.as_boolean();
    let keeps = |row: &usize| kept.is_valid(*row) && kept.value(*row);
    let first = (0..rows).find(keeps);
    let last = (0..rows).rev().find(keeps);
    Ok(match (first, last) {
        (Some(first), Some(last)) => first..last + 1,
        _ => 0..0,
    })
}
