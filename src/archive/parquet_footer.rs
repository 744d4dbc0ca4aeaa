//! The end of a Parquet file: its metadata, their length in four bytes, and `PAR1`. Indexes of pages are before them.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::file::metadata::{
    ColumnChunkMetaData, PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData,
};
use parquet::file::page_index::column_index::ColumnIndexMetaData;

use super::parquet_types::arrow_metadata;
use super::thrift::{check_column_index, check_metadata, check_offset_index};
use super::{ArchiveError, Result};

/// What follows the metadata.
const TAIL: usize = 8;
/// Bytes at the end of a file that are fetched before the footer's length is known.
const FOOTER_GUESS: u64 = 64 << 10;

/// How long the footer at the end of some bytes is.
pub(super) fn footer_length(end: &[u8]) -> Result<u64> {
    let (_, tail) = end
        .split_last_chunk::<TAIL>()
        .ok_or_else(|| ArchiveError::NotParquet("it is too short".to_string()))?;
    let [a, b, c, d, magic @ ..] = *tail;
    if magic != *b"PAR1" {
        return Err(ArchiveError::NotParquet("it does not end in PAR1; it may have been cut".to_string()));
    }
    Ok(u64::from(u32::from_le_bytes([a, b, c, d])) + TAIL as u64)
}

/// Fetches the footer of a Parquet file of this size.
pub(super) async fn fetch_footer(store: &dyn ObjectStore, path: &Path, size: u64) -> Result<Bytes> {
    let guess = store.get_range(path, size.saturating_sub(FOOTER_GUESS)..size).await?;
    let length = footer_length(&guess)?;
    fetch_end(store, path, size, guess, length).await
}

/// The footer of a data file of this size with the index of its pages, if it has one.
pub(super) async fn with_index(
    store: &dyn ObjectStore,
    path: &Path,
    size: u64,
    footer: Bytes,
) -> Result<Bytes> {
    let length = indexed_length(&footer, size)?;
    fetch_end(store, path, size, footer, length).await
}

/// How long the footer at the end of a file of this size is, with the index of its pages.
pub(super) fn indexed_length(end: &[u8], size: u64) -> Result<u64> {
    let index = index_start(&parse_footer(end, size)?).map_or(0, |start| size.saturating_sub(start));
    Ok(index.max(footer_length(end)?))
}

/// So many bytes at the end of a file, of which some may be known.
async fn fetch_end(
    store: &dyn ObjectStore,
    path: &Path,
    size: u64,
    known: Bytes,
    length: u64,
) -> Result<Bytes> {
    if let Some(start) = (known.len() as u64).checked_sub(length) {
        // A slice would keep all that was fetched.
        return Ok(Bytes::copy_from_slice(&known[start as usize..]));
    }
    let start = size.checked_sub(length);
    let start = start.ok_or_else(|| ArchiveError::NotParquet("it is shorter than its footer".to_string()))?;
    Ok(store.get_range(path, start..size).await?)
}

/// Where the index of pages begins.
fn index_start(metadata: &ParquetMetaData) -> Option<u64> {
    let chunks = metadata.row_groups().iter().flat_map(|group| group.columns());
    let starts = chunks.flat_map(|chunk| [chunk.column_index_offset(), chunk.offset_index_offset()]);
    starts.flatten().filter_map(|start| u64::try_from(start).ok()).min()
}

/// Parses the footer of a file of this size; what is before it does not matter.
pub(super) fn parse_footer(end: &[u8], size: u64) -> Result<ParquetMetaData> {
    let start = (end.len() as u64).checked_sub(footer_length(end)?);
    let start = start.ok_or_else(|| ArchiveError::corrupt("no footer"))? as usize;
    let metadata = &end[start..end.len() - TAIL];
    check_metadata(metadata)?;
    let metadata = ParquetMetaDataReader::decode_metadata(metadata)?;
    // Asking a column chunk for its range panics if that begins or ends before the file does, and stores make room for
    // what they are asked for before they look.
    let mut chunks = metadata.row_groups().iter().flat_map(|group| group.columns());
    let is_outside = |chunk: &ColumnChunkMetaData| {
        let start = chunk.dictionary_page_offset().unwrap_or_else(|| chunk.data_page_offset());
        let range = u64::try_from(start).ok().zip(u64::try_from(chunk.compressed_size()).ok());
        range.and_then(|(start, length)| start.checked_add(length)).is_none_or(|end| end > size)
    };
    if chunks.any(is_outside) {
        return Err(ArchiveError::NotParquet("its footer names bytes that it does not have".to_string()));
    }
    Ok(metadata)
}

/// The rows of a file in memory, whose footer is checked as that of any other.
pub(super) fn rows_of(file: Bytes) -> Result<ParquetRecordBatchReader> {
    let metadata = Arc::new(parse_footer(&file, file.len() as u64)?);
    let metadata = arrow_metadata(metadata)?;
    Ok(ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata).build()?)
}

/// Parses the footer of a file of this size, and the index of its pages where that is known too.
pub(super) fn parse_indexed_footer(end: &Bytes, size: u64) -> Result<ParquetMetaData> {
    let metadata = parse_footer(end, size)?;
    let known = size.saturating_sub(end.len() as u64);
    if index_start(&metadata).is_none_or(|start| start < known) {
        return Ok(metadata);
    }
    check_indexes(&metadata, end, known)?;
    let mut reader =
        ParquetMetaDataReader::new_with_metadata(metadata).with_page_index_policy(PageIndexPolicy::Optional);
    reader.read_page_indexes_sized(end, size)?;
    let metadata = reader.finish()?;
    if !index_fits(&metadata) {
        return Err(ArchiveError::corrupt("the index of its pages does not fit its column chunks"));
    }
    Ok(metadata)
}

/// Looks over the index of pages in the end of a file, which begins at `known`.
fn check_indexes(metadata: &ParquetMetaData, end: &[u8], known: u64) -> Result<()> {
    type Check = fn(&[u8]) -> Result<()>;
    for chunk in metadata.row_groups().iter().flat_map(|group| group.columns()) {
        let indexes: [(Option<i64>, Option<i32>, Check); 2] = [
            (chunk.column_index_offset(), chunk.column_index_length(), check_column_index),
            (chunk.offset_index_offset(), chunk.offset_index_length(), check_offset_index),
        ];
        for (offset, length, check) in indexes {
            let (Some(offset), Some(length)) = (offset, length) else { continue };
            let start = u64::try_from(offset).ok().and_then(|offset| offset.checked_sub(known));
            let range = start.zip(u64::try_from(length).ok()).and_then(|(start, length)| {
                Some(usize::try_from(start).ok()?..usize::try_from(start.checked_add(length)?).ok()?)
            });
            let outside = || ArchiveError::corrupt("the index of its pages is outside of it");
            check(range.and_then(|range| end.get(range)).ok_or_else(outside)?)?;
        }
    }
    Ok(())
}

/// Whether pages follow each other from the first row on, within their column chunks. Readers take that for granted.
fn index_fits(metadata: &ParquetMetaData) -> bool {
    let Some(offsets) = metadata.offset_index() else { return true };
    let chunk_fits = |group: usize, leaf: usize, chunk: Range<u64>, rows: i64| {
        let Some(pages) =
            offsets.get(group).and_then(|group| group.get(leaf)).map(|index| &index.page_locations)
        else {
            return false;
        };
        let ends = pages.iter().skip(1).map(|page| page.first_row_index).chain([rows]);
        let in_order = pages.iter().zip(ends).all(|(page, end)| page.first_row_index < end);
        let inside = pages.iter().all(|page| {
            let (start, length) = (u64::try_from(page.offset), u64::try_from(page.compressed_page_size));
            start.is_ok_and(|start| {
                length.is_ok_and(|length| {
                    start >= chunk.start && start.checked_add(length).is_some_and(|end| end <= chunk.end)
                })
            })
        });
        let statistics = metadata.column_index().and_then(|index| index.get(group)?.get(leaf));
        let as_many = statistics.is_none_or(|index| {
            matches!(index, ColumnIndexMetaData::NONE) || index.num_pages() == pages.len() as u64
        });
        pages.first().is_some_and(|first| first.first_row_index == 0) && in_order && inside && as_many
    };
    metadata.row_groups().iter().enumerate().all(|(group, row_group)| {
        chunk_ranges(row_group)
            .enumerate()
            .all(|(leaf, chunk)| chunk_fits(group, leaf, chunk, row_group.num_rows()))
    })
}

/// Where the leaf column chunks of a row group are.
pub(super) fn chunk_ranges(row_group: &RowGroupMetaData) -> impl Iterator<Item = Range<u64>> + '_ {
    row_group.columns().iter().map(|chunk| {
        let (start, length) = chunk.byte_range();
        start..start.saturating_add(length)
    })
}
