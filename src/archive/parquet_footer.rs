//! The end of a Parquet file: its metadata, their length in four bytes, and `PAR1`.

use std::ops::Range;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};

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
    if let Some(start) = (guess.len() as u64).checked_sub(length) {
        return Ok(guess.slice(start as usize..));
    }
    let start = size.checked_sub(length);
    let start = start.ok_or_else(|| ArchiveError::NotParquet("it is shorter than its footer".to_string()))?;
    Ok(store.get_range(path, start..size).await?)
}

/// Parses a footer.
pub(super) fn parse_footer(footer: &[u8]) -> Result<ParquetMetaData> {
    let end = footer.len().checked_sub(TAIL).ok_or_else(|| ArchiveError::corrupt("no footer"))?;
    Ok(ParquetMetaDataReader::decode_metadata(&footer[..end])?)
}

/// Where the leaf column chunks of a row group are.
pub(super) fn chunk_ranges(row_group: &RowGroupMetaData) -> impl Iterator<Item = Range<u64>> + '_ {
    row_group.columns().iter().map(|chunk| {
        let (start, length) = chunk.byte_range();
        start..start + length
    })
}
