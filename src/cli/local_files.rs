//! Local files, read into memory that is used again.
//!
//! Parquet is read by whole chunks of columns, tens of megabytes at a time. Memory of that size goes back to the system
//! when it is freed, and is cleared when it is asked for again, which takes longer than reading the file.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::object_store::local::LocalFileSystem;
use datafusion::object_store::path::Path;
use datafusion::object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};
use futures::stream::BoxStream;

/// Bytes from which on memory is kept for the next read.
const LARGE: usize = 1 << 20;
/// Pieces of memory that wait for a read, at most.
const MOST_SPARE: usize = 8;

/// The file system as an object store.
#[derive(Debug, Default)]
pub(super) struct LocalFiles {
    files: LocalFileSystem,
    spare: Arc<Spare>,
}

impl fmt::Display for LocalFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.files.fmt(f)
    }
}

/// Memory that nobody uses.
#[derive(Debug, Default)]
struct Spare(Mutex<Vec<Vec<u8>>>);

impl Spare {
    /// The smallest piece that has so many bytes, or a new one instead of one that is too small.
    fn take(&self, len: usize) -> Vec<u8> {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fitting = (0..spare.len()).filter(|i| spare[*i].len() >= len).min_by_key(|i| spare[*i].len());
        if let Some(fitting) = fitting {
            return spare.swap_remove(fitting);
        }
        let discarded = spare.pop();
        drop(spare);
        drop(discarded);
        vec![0; len]
    }

    fn give(&self, memory: Vec<u8>) {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < MOST_SPARE {
            spare.push(memory);
        }
    }
}

/// What was read; gives its memory back when the last of its users is done.
struct Lent {
    memory: Vec<u8>,
    len: usize,
    spare: Arc<Spare>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.memory[..self.len]
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.spare.give(std::mem::take(&mut self.memory));
    }
}

fn read(path: &std::path::Path, ranges: &[Range<u64>], spare: &Arc<Spare>) -> io::Result<Vec<Bytes>> {
    let mut file = File::open(path)?;
    let mut read_range = |range: &Range<u64>| {
        let len = usize::try_from(range.end.saturating_sub(range.start)).map_err(io::Error::other)?;
        file.seek(SeekFrom::Start(range.start))?;
        if len < LARGE {
            let mut bytes = vec![0; len];
            file.read_exact(&mut bytes)?;
            return Ok(Bytes::from(bytes));
        }
        let mut lent = Lent { memory: spare.take(len), len, spare: Arc::clone(spare) };
        file.read_exact(&mut lent.memory[..len])?;
        Ok(Bytes::from_owner(lent))
    };
    ranges.iter().map(&mut read_range).collect()
}

#[async_trait]
impl ObjectStore for LocalFiles {
    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        if ranges.iter().all(|range| range.end.saturating_sub(range.start) < LARGE as u64) {
            return self.files.get_ranges(location, ranges).await;
        }
        let path = self.files.path_to_filesystem(location)?;
        let (wanted, spare) = (ranges.to_vec(), Arc::clone(&self.spare));
        match tokio::task::spawn_blocking(move || read(&path, &wanted, &spare)).await {
            Ok(Ok(read)) => Ok(read),
            // What is wrong it says better.
            _ => self.files.get_ranges(location, ranges).await,
        }
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.files.get_opts(location, options).await
    }

    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.files.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.files.put_multipart_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.files.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.files.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.files.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.files.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.files.rename_opts(from, to, options).await
    }
}
