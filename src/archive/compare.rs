//! A data file beside the table it was made from.

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use futures::{StreamExt, TryStreamExt};

use super::cells::{Cell, Cells, Group, gather};
use super::data_file::{CodedTable, DataFile};
use super::error_sums::{ErrorLanes, ErrorSums};
use super::job::Input;
use super::layout::Layout;
use super::number::{Number, by_number, fits};
use super::parquet_types::first_other;
use super::quantiser::Bound;
use super::source::{READ_ROWS, Source};
use super::{ArchiveError, Result};

/// Compares a data file with what it was made from: other columns must be equal, and values within the
/// bound. Gives the errors.
pub(super) async fn compare(file: &DataFile, input: &Input) -> Result<ErrorSums> {
    let mut source = Source::open(input).await?;
    source.read_as(&file.schema);
    if source.rows != file.rows() {
        return Err(differs(format!("it has {} rows, the original {}", file.rows(), source.rows)));
    }
    if source.schema.fields() != file.schema.fields() {
        return Err(differs("its columns are not those of the original"));
    }
    if let Some(coded) = &file.coded {
        let kept = coded.table.kept.iter().map(|column| file.schema.field(*column).name().as_str());
        let original = source.metadata.file_metadata().schema_descr();
        if let Some(name) = first_other(kept, file.metadata.parquet_schema(), original) {
            return Err(differs(format!("the Parquet type of column {name} is not that of the original")));
        }
    }
    let columns: Vec<usize> = (0..file.schema.fields().len()).collect();
    let mut errors = ErrorSums::default();
    let mut rows = source.batches(&source.all_rows(), source.rows_at_a_time(READ_ROWS)).await?;
    let mut waiting: Option<RecordBatch> = None;
    let decoded = futures::stream::iter(0..file.row_groups());
    let mut decoded = decoded.flat_map(|row_group| file.rows_of(row_group, columns.clone()));
    while let Some(decoded) = decoded.try_next().await? {
        let mut parts = Vec::new();
        let mut missing = decoded.num_rows();
        while missing > 0 {
            let batch = match waiting.take() {
                Some(batch) => batch,
                None => rows.try_next().await?.ok_or_else(|| differs("the original ends too early"))?,
            };
            let taken = batch.num_rows().min(missing);
            parts.push(batch.slice(0, taken));
            missing -= taken;
            if taken < batch.num_rows() {
                waiting = Some(batch.slice(taken, batch.num_rows() - taken));
            }
        }
        let original = concat_batches(&source.schema, &parts)?;
        match &file.coded {
            Some(coded) => compare_block(coded, &original, &decoded, &mut errors)?,
            None if original.columns() == decoded.columns() => {}
            None => return Err(differs("it differs from the original")),
        }
    }
    Ok(errors)
}

/// The archive's files match their hashes when they are compared, so that it is the original that is another.
fn differs(how: impl std::fmt::Display) -> ArchiveError {
    ArchiveError::layout(format!("{how}; is that the file that was compressed?"))
}

fn compare_block(
    coded: &CodedTable,
    original: &RecordBatch,
    decoded: &RecordBatch,
    errors: &mut ErrorSums,
) -> Result<()> {
    let (table, codebook) = (&coded.table, &coded.codebook);
    for kept in &table.kept {
        if original.column(*kept) != decoded.column(*kept) {
            let name = table.schema.field(*kept).name();
            return Err(differs(format!("column {name} differs from the original")));
        }
    }
    let length = matches!(table.layout, Layout::List { .. }).then(|| codebook.sensors());
    let placement = table.place_rows(original, length)?;
    let read = table.place_rows(decoded, length)?;
    if placement.first_rows != read.first_rows {
        return Err(differs("other rows are NULL than in the original"));
    }
    let (cells, read) = (table.cells(original, &placement)?, table.cells(decoded, &read)?);
    let groups = table.groups(placement.sensors.max(codebook.sensors()), usize::MAX);
    for group in &groups {
        check(group, coded.footer.bound, &gather(&cells, group), &gather(&read, group), errors)?;
    }
    Ok(())
}

/// Whether all values keep the promise, and their errors.
fn check(group: &Group, bound: Bound, part: &Cells, decoded: &Cells, error: &mut ErrorSums) -> Result<()> {
    let number = group.number()?;
    let narrow = |raw: u64| fits(&group.data_type, raw);
    let broken = by_number!(number, first_broken(part, decoded, bound, &narrow, error));
    let Some(index) = broken else { return Ok(()) };
    let sensor = group.sensors.get(index % part.sensors).copied().unwrap_or(0);
    let value = |cells: &Cells| cells.raw.get(index).map_or("nothing".to_string(), |raw| number.show(*raw));
    Err(ArchiveError::Broken {
        signal: index / part.sensors,
        sensor,
        value: value(part),
        decoded: value(decoded),
    })
}

#[inline(always)]
fn first_broken(
    number: Number,
    part: &Cells,
    decoded: &Cells,
    bound: Bound,
    narrow: &dyn Fn(u64) -> bool,
    error: &mut ErrorSums,
) -> Option<usize> {
    if part.raw.len() != decoded.raw.len() {
        return Some(part.raw.len().min(decoded.raw.len()));
    }
    let cells = part.raw.iter().zip(decoded.raw.iter()).zip(part.state.iter().zip(&decoded.state));
    let mut sums = ErrorLanes::default();
    for (i, ((value, read), (state, read_state))) in cells.enumerate() {
        if state != read_state {
            return Some(i);
        }
        if *state == Cell::Value {
            if !bound.holds(number, *value, *read) || !(number.is_float() || narrow(*read)) {
                return Some(i);
            }
            sums.add(number.to_f64(*value), number.difference(*value, *read));
        }
    }
    error.merge(&sums.sums());
    None
}
