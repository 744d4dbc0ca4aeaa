//! What an archive's own signals are like: a sample of its rows, decoded, tells. What is added is compared with them.

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};

use super::data_file::DataFile;
use super::layout::Table;
use super::opened::{Archive, Generation};
use super::placed::{MOST_CELLS, place_all};
use super::pool::compute;
use super::portrait::{Portrait, Values, most_signals, watched_rows};
use super::{ArchiveError, Result};

/// Row groups that are read at most, evenly spread over all rows, and their cells. Row groups are decoded as a whole.
const MOST_ROW_GROUPS: u64 = 48;
const MOST_DECODED: u64 = MOST_CELLS as u64;
/// Files that are opened at the same time.
const AT_ONCE: usize = 8;
/// Long row groups are looked at in so many places, each a run of neighbours.
const PLACES: usize = 4;

/// A row group of an archive.
struct Place {
    file: usize,
    row_group: usize,
    cells: u64,
}

/// What an archive's signals are like, as they come back: those of files that are coded with this dictionary and have not
/// drifted. `None` where there are too few.
pub(super) async fn portrait(
    archive: &Archive,
    generation: &Generation,
    number: u32,
) -> Result<Option<Arc<Portrait>>> {
    let entries = archive.steady_files(number);
    let rows: u64 = entries.iter().map(|entry| entry.rows).sum();
    let places = MOST_ROW_GROUPS.min(rows);
    // The rows to look for, by file and row there.
    let mut wanted: Vec<(usize, u64)> = Vec::new();
    let (mut file, mut before) = (0, 0);
    for place in 0..places {
        let row = ((2 * place + 1) as u128 * rows as u128 / (2 * places) as u128) as u64;
        while row >= before + entries[file].rows {
            before += entries[file].rows;
            file += 1;
        }
        wanted.push((file, row - before));
    }
    let mut files: Vec<usize> = wanted.iter().map(|(file, _)| *file).collect();
    files.dedup();
    let opened: Vec<(usize, DataFile)> = futures::stream::iter(files)
        .map(|file| {
            let entry = entries[file];
            async move { Ok::<_, ArchiveError>((file, archive.data_file(entry).await?)) }
        })
        .buffered(AT_ONCE)
        .try_collect()
        .await?;
    let sensors = generation.codebook.sensors();
    let places = row_groups(&opened, &wanted, sensors);
    let most = most_signals(sensors) / places.len().max(1);
    let mut runs: Vec<Vec<f64>> = Vec::new();
    let mut last = None;
    for Place { file, row_group, .. } in places {
        let Some((_, data_file)) = opened.iter().find(|(number, _)| *number == file) else { continue };
        let found = signals(data_file, row_group, sensors, most);
        let found = found.await.map_err(|error| error.at(&entries[file].path))?;
        // Row groups that follow each other are one run.
        let is_whole = found.len() == 1;
        match runs.last_mut() {
            Some(run) if is_whole && last == Some((file, row_group)) => {
                found.iter().for_each(|found| run.extend(found));
            }
            _ => runs.extend(found),
        }
        last = is_whole.then_some((file, row_group + 1));
    }
    compute("looking at an archive's rows", move || {
        Ok(Portrait::of_rows(&runs, sensors, Values::Decoded).map(Arc::new))
    })
    .await
}

/// The row groups of wanted rows: all of them, or as many as may be decoded, evenly spread.
fn row_groups(files: &[(usize, DataFile)], wanted: &[(usize, u64)], sensors: usize) -> Vec<Place> {
    let mut places: Vec<Place> = Vec::new();
    for (file, row) in wanted {
        let found = files.iter().find(|(number, _)| number == file);
        let Some(coded) = found.and_then(|(_, found)| found.coded.as_ref().map(|coded| (found, coded)))
        else {
            continue;
        };
        let (found, coded) = coded;
        let mut left = *row;
        let row_group = found.metadata.metadata().row_groups().iter().position(|group| {
            let rows = group.num_rows().max(0) as u64;
            let is_in = left < rows;
            left = left.saturating_sub(rows);
            is_in
        });
        let Some(row_group) = row_group else { continue };
        let is_known = places.last().is_some_and(|last| (last.file, last.row_group) == (*file, row_group));
        if !is_known {
            let signals = coded.footer.row_groups.get(row_group).map_or(0, |group| group.signals);
            places.push(Place { file: *file, row_group, cells: signals as u64 * sensors as u64 });
        }
    }
    let cells: u64 = places.iter().map(|place| place.cells).sum();
    if cells <= MOST_DECODED {
        return places;
    }
    let count = (places.len() as u64 * MOST_DECODED / cells).max(1) as usize;
    let all = places.len();
    let chosen = |place: usize| (place + 1) * count / all > place * count / all;
    places.into_iter().enumerate().filter(|(place, _)| chosen(*place)).map(|(_, place)| place).collect()
}

/// The watched values of a row group's signals: of all of them, or of some runs.
async fn signals(file: &DataFile, row_group: usize, sensors: usize, most: usize) -> Result<Vec<Vec<f64>>> {
    let Some(coded) = &file.coded else { return Ok(Vec::new()) };
    let mut columns = coded.table.values.clone();
    for name in coded.table.layout.key_columns() {
        columns.push(super::layout::column(&file.schema, name)?);
    }
    columns.sort_unstable();
    let rows = file.read(row_group, &columns).await?;
    let table = Table::new(coded.table.layout.clone(), rows.schema(), coded.table.series.clone())?;
    compute("looking at a row group", move || {
        let (placed, wrong) = place_all(&table, sensors, &[rows], usize::MAX);
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
        let groups = table.groups(sensors, usize::MAX);
        let signals: usize = placed.iter().map(|placed| placed.cells.signals()).sum();
        let mut runs = Vec::new();
        for placed in &placed {
            let count = placed.cells.signals();
            let share = (count as u128 * most as u128 / signals.max(1) as u128) as usize;
            let pieces = if share < count { PLACES } else { 1 };
            for piece in 0..pieces {
                let first = count * piece / pieces;
                let some = share.min(count).div_ceil(pieces).min(count - first);
                runs.extend(watched_rows(&placed.cells, &groups, sensors, first..first + some));
            }
        }
        Ok(runs)
    })
    .await
}
