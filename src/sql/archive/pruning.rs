//! Which row groups and pages a filter leaves to read.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, StringArray, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, ScalarValue};
use datafusion::datasource::physical_plan::parquet::{
    PagePruningAccessPlanFilter, ParquetAccessPlan, ParquetFileMetrics, RowGroupAccess,
};
use datafusion::parquet::arrow::arrow_reader::RowSelection;
use datafusion::parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::{collect_columns, conjunction_opt, split_conjunction};
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;

use super::opened::ArchivedFile;

/// Row groups of a file, and which of their rows are left; all if that is not known.
pub(super) type Left = Vec<(usize, Option<RowSelection>)>;

/// What a predicate leaves to read, made once for all files of a scan.
pub(super) struct Pruning {
    schema: SchemaRef,
    /// Absent where the predicate says nothing about minima and maxima.
    predicate: Option<PruningPredicate>,
    pages: Option<PagePruningAccessPlanFilter>,
}

impl Pruning {
    pub fn new(predicate: &Arc<dyn PhysicalExpr>, schema: &SchemaRef) -> Self {
        let builder = PruningPredicateBuilder::new().with_file_schema(schema.clone());
        let pages = page_filter(predicate, schema);
        Self { schema: schema.clone(), predicate: builder.try_build(predicate.clone()).ok(), pages }
    }

    /// The row groups of a file, and which of their rows, that may satisfy the predicate.
    pub fn chosen(&self, file: &ArchivedFile) -> Left {
        let row_groups = self.row_groups(file);
        match &self.pages {
            Some(pages) => pages_to_read(file, pages, row_groups),
            None => row_groups.into_iter().map(|row_group| (row_group, None)).collect(),
        }
    }

    fn row_groups(&self, file: &ArchivedFile) -> Vec<usize> {
        let all = 0..file.file.row_groups();
        let statistics = RowGroups { file, schema: &self.schema };
        // A predicate that cannot be evaluated on minima and maxima may be true of rows: it prunes nothing.
        let kept = self.predicate.as_ref().and_then(|predicate| predicate.prune(&statistics).ok());
        match kept {
            Some(kept) => all.zip(kept).filter(|(_, kept)| *kept).map(|(row_group, _)| row_group).collect(),
            None => all.collect(),
        }
    }
}

/// Of some row groups of a file those whose pages may hold rows that satisfy the predicate, and which rows these are,
/// where that can be told.
fn pages_to_read(file: &ArchivedFile, filter: &PagePruningAccessPlanFilter, row_groups: Vec<usize>) -> Left {
    let metadata = &file.file.metadata;
    if metadata.metadata().column_index().is_none() || metadata.metadata().offset_index().is_none() {
        return row_groups.into_iter().map(|row_group| (row_group, None)).collect();
    }
    let mut plan = ParquetAccessPlan::new_none(file.file.row_groups());
    row_groups.iter().for_each(|row_group| plan.scan(*row_group));
    // What was pruned shows in the plan itself.
    let unused = ParquetFileMetrics::new(0, file.file.path.as_ref(), &ExecutionPlanMetricsSet::new());
    let (schema, parquet_schema) = (metadata.schema(), metadata.parquet_schema());
    let plan = filter.prune_plan_with_page_index(plan, schema, parquet_schema, metadata.metadata(), &unused);
    let chosen = plan.into_inner().into_iter().enumerate();
    let chosen = chosen.filter_map(|(row_group, access)| match access {
        RowGroupAccess::Skip => None,
        RowGroupAccess::Scan => Some((row_group, None)),
        RowGroupAccess::Selection(rows) => Some((row_group, Some(rows))),
    });
    chosen.collect()
}

/// What of a predicate can be told from the minima and maxima of pages.
fn page_filter(predicate: &Arc<dyn PhysicalExpr>, schema: &SchemaRef) -> Option<PagePruningAccessPlanFilter> {
    let told = split_conjunction(predicate).into_iter().filter(|part| {
        collect_columns(part).iter().all(|column| !column_may_hide_nan(schema, column.name()))
    });
    let told = conjunction_opt(told.cloned())?;
    Some(PagePruningAccessPlanFilter::new(&told, schema.clone()))
}

/// Minima and maxima in Parquet leave NaN out, which is above all other numbers here.
pub(super) fn may_hide_nan(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => may_hide_nan(values),
        DataType::RunEndEncoded(_, values) => may_hide_nan(values.data_type()),
        other => other.is_floating(),
    }
}

fn column_may_hide_nan(schema: &Schema, column: &str) -> bool {
    schema.field_with_name(column).is_ok_and(|field| may_hide_nan(field.data_type()))
}

/// Minima, maxima and counts of a file's row groups.
struct RowGroups<'a> {
    file: &'a ArchivedFile,
    schema: &'a Schema,
}

impl RowGroups<'_> {
    fn partition_value(&self, column: &Column) -> Option<ArrayRef> {
        let index =
            self.schema.index_of(&column.name).ok()?.checked_sub(self.file.file.schema.fields().len())?;
        let value = self.file.partition.get(index)?.as_deref();
        Some(Arc::new(StringArray::from(vec![value; self.num_containers()])))
    }

    /// Rows of each row group.
    fn row_numbers(&self) -> UInt64Array {
        let groups = self.file.file.metadata.metadata().row_groups();
        groups.iter().map(|group| Some(group.num_rows().max(0) as u64)).collect()
    }

    fn convert<T>(&self, column: &Column, read: impl Fn(&StatisticsConverter<'_>) -> Option<T>) -> Option<T> {
        let metadata = &self.file.file.metadata;
        let converter =
            StatisticsConverter::try_new(&column.name, metadata.schema(), metadata.parquet_schema()).ok()?;
        // A count that is not there is not 0.
        read(&converter.with_missing_null_counts_as_zero(false))
    }
}

impl PruningStatistics for RowGroups<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        if column_may_hide_nan(self.schema, &column.name) {
            return None;
        }
        let groups = self.file.file.metadata.metadata().row_groups();
        self.partition_value(column)
            .or_else(|| self.convert(column, |converter| converter.row_group_mins(groups.iter()).ok()))
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        if column_may_hide_nan(self.schema, &column.name) {
            return None;
        }
        let groups = self.file.file.metadata.metadata().row_groups();
        self.partition_value(column)
            .or_else(|| self.convert(column, |converter| converter.row_group_maxes(groups.iter()).ok()))
    }

    fn num_containers(&self) -> usize {
        self.file.file.row_groups()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        if let Some(values) = self.partition_value(column) {
            // All rows of a file are in its partition.
            let nulls = |(row, count): (usize, Option<u64>)| {
                count.map(|count| if values.is_null(row) { count } else { 0 })
            };
            let counts = self.row_numbers();
            return Some(Arc::new(counts.iter().enumerate().map(nulls).collect::<UInt64Array>()));
        }
        let groups = self.file.file.metadata.metadata().row_groups();
        self.convert(column, |converter| converter.row_group_null_counts(groups.iter()).ok())
            .map(|counts| Arc::new(counts) as ArrayRef)
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        Some(Arc::new(self.row_numbers()))
    }

    fn contained(
        &self,
        _column: &Column,
        _values: &std::collections::HashSet<ScalarValue>,
    ) -> Option<BooleanArray> {
        None
    }
}
