//! Hashes of files that are stored already: of the whole, and of every column chunk.

use std::hash::Hasher as _;
use std::sync::Arc;

use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use twox_hash::xxhash3_64::Hasher;

use super::Result;
use super::manifest::{hash_of, hash_text};
use super::parquet_footer::{chunk_ranges, parse_footer};

/// The hashes of all column chunks of a file.
pub(super) async fn chunk_hashes(
    store: &Arc<dyn ObjectStore>,
    path: &Path,
    footer: &[u8],
) -> Result<Vec<Vec<String>>> {
    let metadata = parse_footer(footer)?;
    let mut groups = Vec::with_capacity(metadata.num_row_groups());
    for group in metadata.row_groups() {
        let mut hashes = Vec::with_capacity(group.num_columns());
        for range in chunk_ranges(group) {
            hashes.push(hash_of(&store.get_range(path, range).await?));
        }
        groups.push(hashes);
    }
    Ok(groups)
}

/// The length and the XXH3-64 of a file, read piece by piece.
pub(super) async fn hash_file(store: &Arc<dyn ObjectStore>, path: &Path) -> Result<(u64, String)> {
    let mut bytes = store.get(path).await?.into_stream();
    let mut hasher = Hasher::new();
    let mut length = 0;
    while let Some(part) = bytes.try_next().await? {
        hasher.write(&part);
        length += part.len() as u64;
    }
    Ok((length, hash_text(hasher.finish())))
}
