//! The part of a table that is looked at before it is compressed: rows to learn from, and blocks to measure
//! with, in which rows are held out from learning. Bounded, whatever the table's size.

use std::ops::Range;

use arrow::array::{Array, AsArray, BooleanArray, RecordBatch};
use arrow::compute::{cast, concat_batches, filter_record_batch};
use arrow::datatypes::{DataType, Int64Type};
use arrow::error::ArrowError;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use tokio::runtime::Handle;

use super::layout::{Layout, Table};
use super::placed::{BLOCK_VALUES, block_rows};
use super::source::{READ_ROWS, Rows, Source, in_blocks, undecodable};
use super::{ArchiveError, Result};

/// Tables with at most so many values are looked at as a whole.
const WHOLE_VALUES: u64 = 5 * BLOCK_VALUES as u64;
const WHOLE_FILES: usize = 64;
/// Bytes of all their columns, uncompressed.
const WHOLE_BYTES: u64 = 256 << 20;
/// Of larger ones: runs of rows to learn from, and what they hold at most.
const LEARNED_RUNS: usize = 32;
const GLANCED_RUNS: usize = 16;
const LEARNED_ROWS: usize = 1 << 16;
const LEARNED_VALUES: usize = 1 << 22;
/// Rows where a glance is enough: a little more than are learned from in the end, since some may be alike.
const GLANCED_ROWS: usize = 5 << 10;
/// Blocks to measure with, held out from learning. Even at a glance they are whole: shorter ones hide long periods.
const MEASURED_BLOCKS: usize = 4;
const GLANCED_BLOCKS: usize = 2;
/// Row groups are fetched as a whole, so that few are looked at where they are large.
const FETCHED_BYTES: u64 = 192 << 20;
const FEWEST_RUNS: u64 = 4;
/// Row groups that are read at the same time, and what they have in bytes.
const MOST_AT_ONCE: u64 = 4;
const AT_ONCE_BYTES: u64 = 32 << 20;

/// How much of a large table is looked at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Look {
    /// As much as predictions need that are to come out.
    Thorough,
    /// As much as tells parameters apart. Enough under a bound, which is kept whatever they are.
    Glance,
}

/// What is known of a table before it is compressed.
pub(super) struct Sampled {
    /// How much was looked at; `Thorough` for all of it.
    pub look: Look,
    /// Rows to learn from.
    pub learned: Vec<RecordBatch>,
    /// Whole blocks as the archive will have them, with the number of files they are from.
    pub blocks: Vec<RecordBatch>,
    /// The rows that were not learned from, where these are not all of the blocks.
    pub held_out: Option<Vec<RecordBatch>>,
    /// Rows of the table.
    pub total_rows: u64,
    /// Files of the table, and their bytes.
    pub files: u64,
    pub source_bytes: u64,
}

/// Looks at a table. `share` says how many tables there are for each of `sources`.
pub(super) async fn look_at(table: &Table, sources: &[&Source], share: f64, look: Look) -> Result<Sampled> {
    let rows: u64 = sources.iter().map(|source| source.rows).sum();
    let (values, bytes) = content(table, sources);
    // About: lists may be NULL.
    let row_values = values.max(1).div_ceil(rows.max(1)) as usize;
    let block = block_rows(table, row_values);
    let scale = |count: u64| (count as f64 * share).round() as u64;
    let mut sampled = Sampled {
        look: Look::Thorough,
        learned: Vec::new(),
        blocks: Vec::new(),
        held_out: None,
        total_rows: scale(rows),
        files: scale(sources.len() as u64),
        source_bytes: scale(sources.iter().map(|source| source.bytes).sum()),
    };
    if values <= WHOLE_VALUES && bytes <= WHOLE_BYTES && sources.len() <= WHOLE_FILES {
        for source in sources {
            let batches = source.batches(&source.all_rows(), source.rows_at_a_time(block)).await?;
            let mut blocks =
                std::pin::pin!(in_blocks(batches, source.schema.clone(), block, table.rows_of_signal()));
            while let Some(batch) = blocks.next().await {
                sampled.blocks.push(batch.map_err(|error| error.at(&source.input.name))?);
            }
        }
        let (learned, held_out) = hold_out_a_quarter(table, &sampled.blocks)?;
        sampled.learned = learned;
        // Together, since what is coded in short pieces takes more bytes.
        sampled.held_out = Some(together(held_out)?);
        return Ok(sampled);
    }
    let groups: Vec<(usize, usize)> = (0..sources.len())
        .flat_map(|source| (0..sources[source].row_groups).map(move |group| (source, group)))
        .collect();
    if groups.is_empty() {
        return Ok(sampled);
    }
    sampled.look = look;
    let (most_runs, most_rows, most_blocks) = match look {
        Look::Thorough => (LEARNED_RUNS, LEARNED_ROWS, MEASURED_BLOCKS),
        Look::Glance => (GLANCED_RUNS, GLANCED_ROWS, GLANCED_BLOCKS),
    };
    let measured = measured_blocks(table, sources, block, most_blocks);
    let bytes: u64 = sources.iter().map(|source| source.bytes).sum();
    let group_bytes = (bytes / groups.len().max(1) as u64).max(1);
    let at_once = (AT_ONCE_BYTES / group_bytes).clamp(1, MOST_AT_ONCE) as usize;
    let blocks = measured.iter().map(|extent| {
        let source = sources[extent.source];
        read_parts(
            source,
            table.list_column(),
            source.group_at(extent.rows.start).0,
            vec![extent.rows.clone()],
        )
    });
    sampled.blocks = read_all(blocks.collect(), at_once).await?;
    let affordable = FETCHED_BYTES / group_bytes;
    let fetched = affordable.clamp(FEWEST_RUNS, most_runs as u64) as usize;
    let stride = groups.len().div_ceil(fetched).max(1);
    let fetched = groups.len().div_ceil(stride).max(1);
    // Where row groups are few they are large, and not alike from beginning to end.
    let in_group = (most_runs / fetched).max(1);
    let runs = fetched * in_group;
    let most = match &table.layout {
        // A row is one value there, and a signal takes many.
        Layout::Long { .. } | Layout::Window { .. } => BLOCK_VALUES,
        _ => most_rows / runs,
    };
    let unit = table.rows_of_signal();
    let run = (LEARNED_VALUES / runs / row_values).clamp(1, most).next_multiple_of(unit);
    let runs = groups.into_iter().step_by(stride).enumerate().map(|(turn, (index, group))| {
        let source = sources[index];
        let first = source.first_row(group);
        let rows = source.group_rows(group);
        let part = |i: usize| {
            let start = first + i * rows / in_group;
            let start = (start + spread(turn * in_group + i, rows / in_group, run)).next_multiple_of(unit);
            let end = if in_group == 1 { source.rows as usize } else { first + rows };
            let free = measured.iter().filter(|extent| extent.source == index).fold(
                start..(start + run).min(end),
                |free, taken| {
                    if taken.rows.contains(&free.start) {
                        taken.rows.end.next_multiple_of(unit)..free.end
                    } else if free.contains(&taken.rows.start) {
                        free.start..taken.rows.start
                    } else {
                        free
                    }
                },
            );
            (free.start < free.end).then_some(free)
        };
        read_parts(source, table.list_column(), group, (0..in_group).filter_map(part).collect())
    });
    sampled.learned = read_all(runs.collect(), at_once).await?;
    if matches!(table.layout, Layout::List { .. })
        && sampled.learned.iter().all(|batch| batch.column(table.values[0]).null_count() == batch.num_rows())
    {
        sampled.learned = first_lists(table, sources).await?;
    }
    Ok(sampled)
}

/// Where a run begins in so many rows: row groups may be as long as a day or a week, and what is learned from should
/// not be the same hours of each.
fn spread(turn: usize, rows: usize, run: usize) -> usize {
    /// The golden section, of `2^32`: its multiples are spread evenly, however many there are.
    const GOLDEN: u32 = 0x9E37_79B9;
    let free = rows.saturating_sub(run) as u64;
    ((free * u64::from((turn as u32).wrapping_mul(GOLDEN))) >> 32) as usize
}

/// Rows of one of the files.
struct Extent {
    source: usize,
    rows: Range<usize>,
}

/// Blocks to measure with, from the middles of as many parts of the table; half of it is left to learn from.
fn measured_blocks(table: &Table, sources: &[&Source], block: usize, most: usize) -> Vec<Extent> {
    let total: usize = sources.iter().map(|source| source.rows as usize).sum();
    let count = (total / (2 * block)).clamp(1, most);
    let mut found: Vec<Extent> = Vec::new();
    for i in 0..count {
        let mut row = (2 * i + 1) * total / (2 * count);
        let mut source = 0;
        while source + 1 < sources.len() && row >= sources[source].rows as usize {
            row -= sources[source].rows as usize;
            source += 1;
        }
        let rows = sources[source].rows as usize;
        let start = row.min(rows.saturating_sub(block)) / table.rows_of_signal() * table.rows_of_signal();
        let extent = Extent { source, rows: start..(start + block).min(rows) };
        // A short file may be the middle of several parts.
        if found.last().is_none_or(|last| last.source != source || last.rows.end <= start) {
            found.push(extent);
        }
    }
    found
}

/// Rows that belong together in one batch, if there are any; as they are where their values are too many for one dictionary.
fn together(mut rows: Vec<RecordBatch>) -> Result<Vec<RecordBatch>> {
    rows.retain(|rows| rows.num_rows() > 0);
    let Some(schema) = rows.first().map(RecordBatch::schema) else { return Ok(Vec::new()) };
    match concat_batches(&schema, &rows) {
        Err(ArrowError::DictionaryKeyOverflowError) => Ok(rows),
        whole => Ok(vec![whole?]),
    }
}

/// What is read, in order, some of it at the same time.
async fn read_all(
    reads: Vec<impl Future<Output = Result<Vec<RecordBatch>>>>,
    at_once: usize,
) -> Result<Vec<RecordBatch>> {
    let found: Vec<Vec<RecordBatch>> = futures::stream::iter(reads).buffered(at_once).try_collect().await?;
    Ok(found.into_iter().flatten().collect())
}

/// Parts of a file, in ascending order from some row group on, in one go. On a thread of its own: Parquet takes long to
/// decode, and another core may be free.
async fn read_parts(
    source: &Source,
    lists: Option<usize>,
    group: usize,
    parts: Vec<Range<usize>>,
) -> Result<Vec<RecordBatch>> {
    let (Some(start), Some(end)) = (parts.first().map(|part| part.start), parts.last().map(|part| part.end))
    else {
        return Ok(Vec::new());
    };
    let mut batches = rows_from(source, lists, group, start - source.first_row(group), end - start).await?;
    let runtime = Handle::current();
    let (wanted, _waiting) = tokio::sync::oneshot::channel::<()>();
    let read = async move {
        let mut found = vec![Vec::new(); parts.len()];
        let mut row = start;
        while let Some(batch) = batches.try_next().await? {
            if wanted.is_closed() {
                return Err(ArchiveError::Cancelled);
            }
            let rows = row..row + batch.num_rows();
            for (part, found) in parts.iter().zip(&mut found) {
                let shared = part.start.max(rows.start)..part.end.min(rows.end);
                if shared.start < shared.end {
                    found.push(batch.slice(shared.start - rows.start, shared.len()));
                }
            }
            row = rows.end;
        }
        let found: Vec<_> = found.into_iter().map(together).collect::<Result<_>>()?;
        Ok(found.into_iter().flatten().collect())
    };
    let read = tokio::task::spawn_blocking(move || runtime.block_on(read)).await;
    read.map_err(|error| undecodable(error).at(&source.input.name))?
}

/// So many rows from one on, of a row group and those after it.
async fn rows_from(
    source: &Source,
    lists: Option<usize>,
    group: usize,
    offset: usize,
    count: usize,
) -> Result<BoxStream<'static, Result<RecordBatch>>> {
    let mut groups = group..group + 1;
    let mut found = source.group_rows(group);
    while found < offset + count && groups.end < source.row_groups {
        found += source.group_rows(groups.end);
        groups.end += 1;
    }
    let rows = Rows { groups, offset, count };
    let batches = source.blocks(lists, rows, count.clamp(1, READ_ROWS), 1).await?;
    let name = source.input.name.clone();
    Ok(batches.map_err(move |error| error.at(&name)).boxed())
}

/// Runs that are held out, one of each part of the rows, and which fourth of that part it is. Another one every time:
/// where a part is as long as a day, the same hours of all days would be held out otherwise, and taken for new. The
/// last run ends before the rows do, since runs of times end where another time begins.
const HELD_OUT_FOURTHS: [usize; 4] = [2, 0, 3, 1];

/// Runs of rows are held out, in whole signals: rows nearby are alike, and a code for one that was learned from says
/// little about others. There are several, since a table is not the same from beginning to end.
fn hold_out_a_quarter(table: &Table, blocks: &[RecordBatch]) -> Result<(Vec<RecordBatch>, Vec<RecordBatch>)> {
    if let Layout::Long { time, .. } = &table.layout
        && let Some(parts) = quarter_of_times(table, time, blocks)?
    {
        return Ok(parts);
    }
    let rows: usize = blocks.iter().map(RecordBatch::num_rows).sum();
    let runs = held_out_runs(rows);
    let (mut learned, mut held_out) = (Vec::new(), Vec::new());
    let mut first = 0;
    for block in blocks {
        let count = block.num_rows();
        // Signals begin anew with every block.
        let unit = table.rows_of_signal();
        let within =
            |row: usize| ((row.clamp(first, first + count) - first).div_ceil(unit) * unit).min(count);
        let mut row = 0;
        for run in &runs {
            let (from, to) = (within(run.start), within(run.end));
            learned.extend((row < from).then(|| block.slice(row, from - row)));
            // What is left of a signal at the end of a file would shift those of the next.
            let whole = (to - from) / unit * unit;
            held_out.extend((whole > 0).then(|| block.slice(from, whole)));
            row = to;
        }
        learned.extend((row < count).then(|| block.slice(row, count - row)));
        first += count;
    }
    Ok((learned, held_out))
}

/// A fourth of every part of so many.
fn held_out_runs(count: usize) -> Vec<Range<usize>> {
    let parts = HELD_OUT_FOURTHS.len();
    let boundary = |fourth: usize| fourth * count / (4 * parts);
    let run = |(part, fourth): (usize, &usize)| boundary(4 * part + fourth)..boundary(4 * part + fourth + 1);
    HELD_OUT_FOURTHS.iter().enumerate().map(run).collect()
}

/// The same by their times, where times are numbers: files may be in the order of series.
fn quarter_of_times(
    table: &Table,
    time: &str,
    blocks: &[RecordBatch],
) -> Result<Option<(Vec<RecordBatch>, Vec<RecordBatch>)>> {
    let column = super::layout::column(&table.schema, time)?;
    let mut columns = Vec::with_capacity(blocks.len());
    for block in blocks {
        match cast(block.column(column), &DataType::Int64) {
            Ok(times) => columns.push(times),
            Err(_) => return Ok(None),
        }
    }
    let mut sorted: Vec<i64> =
        columns.iter().flat_map(|times| times.as_primitive::<Int64Type>().iter().flatten()).collect();
    sorted.sort_unstable();
    let runs: Option<Vec<Range<i64>>> = held_out_runs(sorted.len())
        .into_iter()
        .map(|run| Some(*sorted.get(run.start)?..*sorted.get(run.end)?))
        .collect();
    let Some(runs) = runs else { return Ok(None) };
    let (mut learned, mut held_out) = (Vec::new(), Vec::new());
    for (block, times) in blocks.iter().zip(&columns) {
        let is_held =
            |time: Option<i64>| Some(time.is_some_and(|time| runs.iter().any(|run| run.contains(&time))));
        let held: BooleanArray = times.as_primitive::<Int64Type>().iter().map(is_held).collect();
        for (part, chosen) in [(&mut held_out, &held), (&mut learned, &arrow::compute::not(&held)?)] {
            let rows = filter_record_batch(block, chosen)?;
            if rows.num_rows() > 0 {
                part.push(rows);
            }
        }
    }
    // Times may all be the same once they are whole numbers.
    Ok((!learned.is_empty() && !held_out.is_empty()).then_some((learned, held_out)))
}

/// The first rows that are not NULL alone.
async fn first_lists(table: &Table, sources: &[&Source]) -> Result<Vec<RecordBatch>> {
    for source in sources {
        let mut stream = source.batches(&source.all_rows(), source.rows_at_a_time(READ_ROWS)).await?;
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            if batch.column(table.values[0]).null_count() < batch.num_rows() {
                return Ok(vec![batch]);
            }
        }
    }
    Ok(Vec::new())
}

/// How many values there are, NULL lists not counted, and uncompressed bytes of all columns, from what the footers tell.
fn content(table: &Table, sources: &[&Source]) -> (u64, u64) {
    let names: Vec<&str> =
        table.values.iter().map(|value| table.schema.field(*value).name().as_str()).collect();
    let is_value = |path: &[String]| path.first().is_some_and(|name| names.contains(&name.as_str()));
    let groups = sources.iter().flat_map(|source| source.metadata.row_groups());
    groups.fold((0, 0), |(values, bytes), group| {
        let chunks = group.columns().iter().filter(|chunk| is_value(chunk.column_path().parts()));
        let found: i64 = chunks.map(|chunk| chunk.num_values().max(0)).sum();
        (values + found as u64, bytes + group.total_byte_size().max(0) as u64)
    })
}
