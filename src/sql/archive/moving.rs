//! Filters that become known while a query runs: what the other side of a join holds, or the last of the best rows that
//! were found so far.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::parquet::arrow::arrow_reader::RowSelection;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr_common::physical_expr::{snapshot_generation, snapshot_physical_expr};

use super::opened::ArchivedFile;
use super::pruning::{Left, Pruning};

/// A filter that moves, over a table's columns.
pub(super) struct MovingFilter {
    filter: Arc<dyn PhysicalExpr>,
    schema: SchemaRef,
    known: Option<Known>,
}

/// What it was when it was looked at last.
struct Known {
    generation: u64,
    filter: Arc<dyn PhysicalExpr>,
    pruning: Pruning,
    /// What it leaves of a file.
    file: Option<(usize, Left)>,
}

impl MovingFilter {
    pub fn new(filter: Arc<dyn PhysicalExpr>, schema: SchemaRef) -> Self {
        Self { filter, schema, known: None }
    }

    /// What it is at this moment; it can only become narrower.
    fn now(&mut self) -> Result<&mut Known> {
        let generation = snapshot_generation(&self.filter);
        let known = match self.known.take().filter(|known| known.generation == generation) {
            Some(known) => known,
            None => {
                let filter = snapshot_physical_expr(self.filter.clone())?;
                let pruning = Pruning::new(&filter, &self.schema);
                Known { generation, filter, pruning, file: None }
            }
        };
        Ok(self.known.insert(known))
    }

    /// The filter of rows at this moment.
    pub fn of_rows(&mut self) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(self.now()?.filter.clone())
    }

    /// The rows on pages of a row group that may satisfy it, all if that is not known; `None` if there are none.
    pub fn left_of(
        &mut self,
        file: usize,
        archived: &ArchivedFile,
        row_group: usize,
    ) -> Result<Option<Option<RowSelection>>> {
        let known = self.now()?;
        let (_, left) = match known.file.take().filter(|(number, _)| *number == file) {
            Some(found) => known.file.insert(found),
            None => known.file.insert((file, known.pruning.chosen(archived))),
        };
        let place = left.binary_search_by_key(&row_group, |(row_group, _)| *row_group);
        Ok(place.ok().map(|place| left[place].1.clone()))
    }
}
