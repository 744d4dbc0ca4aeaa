//! Tables that are stored as they were: copied, and hashed on the way.

use futures::TryStreamExt;
use object_store::ObjectStoreExt;

use super::hashes::{ChunkHasher, Hashes};
use super::output::Output;
use super::source::Source;
use super::{ArchiveError, Result};

/// Copies a file. What is read now must be what its footer was read from.
pub(super) async fn copy(source: &Source, output: &mut Output) -> Result<Hashes> {
    let Source { input, bytes: size, footer, metadata, .. } = source;
    let found = input.store.get(&input.path).await.map_err(ArchiveError::Unreadable)?;
    let mut bytes = found.into_stream().map_err(ArchiveError::Unreadable);
    let changed = || ArchiveError::NotParquet("it was changed while it was read".to_string());
    let before_footer = size.saturating_sub(footer.len() as u64);
    let (mut hasher, mut end) = (ChunkHasher::new(Some(metadata)), Vec::new());
    while let Some(part) = bytes.try_next().await? {
        let passed = before_footer.saturating_sub(output.length).min(part.len() as u64);
        end.extend_from_slice(&part[passed as usize..]);
        if end.len() > footer.len() {
            return Err(changed());
        }
        hasher.write(&part);
        output.write(part.to_vec()).await?;
    }
    let hashes = hasher.finish();
    if hashes.length == *size && end == *footer { Ok(hashes) } else { Err(changed()) }
}

/// What is wrong with an input, not with the archive.
pub(super) fn unreadable(error: ArchiveError) -> ArchiveError {
    match error {
        ArchiveError::Store(error) => ArchiveError::Unreadable(error),
        other => other,
    }
}
