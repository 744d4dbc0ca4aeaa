//! Row groups that are too large to be held: their columns are fetched piece by piece, as pages are read.

use std::io::Read;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use bytes::{Buf, Bytes};
use object_store::ObjectStoreExt;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::{ChunkReader, Length};
use tokio::runtime::Handle;

use super::job::Input;
use super::parquet_footer::chunk_ranges;

/// Row groups of more bytes are not fetched as a whole.
pub(super) const LARGE_BYTES: u64 = 64 << 20;
/// Bytes of all columns that are held at a time, about, and of a single one.
const HELD_BYTES: u64 = 32 << 20;
const WINDOW_BYTES: Range<u64> = 64 << 10..4 << 20;

/// Some columns of a file, each of which is read from its beginning to its end. Reading waits for what is fetched, so
/// that it must be done on a thread for blocking calls.
#[derive(Clone)]
pub(super) struct Windows(Arc<Shared>);

struct Shared {
    input: Input,
    runtime: Handle,
    length: u64,
    /// Where column chunks are, in order, and which leaf each belongs to.
    chunks: Vec<(Range<u64>, usize)>,
    /// Of each leaf: where its window begins, and what is in it.
    windows: Vec<Mutex<(u64, Bytes)>>,
    /// How much is fetched at a time.
    window: u64,
}

impl Windows {
    /// Windows on some leaves of row groups.
    pub fn new(
        input: &Input,
        metadata: &ParquetMetaData,
        groups: Range<usize>,
        is_wanted: impl Fn(usize) -> bool,
    ) -> Self {
        let mut chunks = Vec::new();
        for group in &metadata.row_groups()[groups] {
            chunks.extend(chunk_ranges(group).zip(0..).filter(|(_, leaf)| is_wanted(*leaf)));
        }
        chunks.sort_by_key(|(range, leaf)| (range.start, *leaf));
        let leaves = metadata.file_metadata().schema_descr().num_columns();
        let wanted = (0..leaves).filter(|leaf| is_wanted(*leaf)).count() as u64;
        Self(Arc::new(Shared {
            input: input.clone(),
            runtime: Handle::current(),
            length: chunks.iter().map(|(range, _)| range.end).max().unwrap_or(0),
            chunks,
            windows: (0..leaves).map(|_| Mutex::default()).collect(),
            window: (HELD_BYTES / wanted.max(1)).clamp(WINDOW_BYTES.start, WINDOW_BYTES.end),
        }))
    }

    /// What is there from some place on: so many bytes at least, unless its column chunk has fewer.
    fn from(&self, start: u64, least: usize) -> Result<Bytes> {
        let Shared { chunks, windows, window, .. } = self.0.as_ref();
        let after = chunks.partition_point(|(range, _)| range.start <= start);
        let chunk = after.checked_sub(1).and_then(|chunk| chunks.get(chunk));
        let Some((range, leaf)) = chunk.filter(|(range, _)| range.contains(&start)) else {
            return Err(ParquetError::EOF(format!("nothing is to be read at {start}")));
        };
        let least = (least as u64).min(range.end - start);
        let mut held = windows[*leaf].lock().unwrap_or_else(PoisonError::into_inner);
        let (first, bytes) = &*held;
        let known = start.checked_sub(*first).filter(|skipped| skipped + least <= bytes.len() as u64);
        if let Some(skipped) = known.filter(|skipped| (*skipped as usize) < bytes.len()) {
            return Ok(bytes.slice(skipped as usize..));
        }
        let fetched = self.fetch(start..range.end.min(start + least.max(*window)))?;
        *held = (start, fetched.clone());
        Ok(fetched)
    }

    fn fetch(&self, range: Range<u64>) -> Result<Bytes> {
        let Input { store, path, .. } = self.0.input.clone();
        let (sender, receiver) = mpsc::channel();
        self.0.runtime.spawn(async move {
            // Nobody waits for it where reading has ended.
            let _ = sender.send(store.get_range(&path, range).await);
        });
        let fetched = receiver.recv().map_err(|_| ParquetError::General("reading was ended".to_string()))?;
        fetched.map_err(|error| ParquetError::External(Box::new(error)))
    }
}

impl Length for Windows {
    fn len(&self) -> u64 {
        self.0.length
    }
}

impl ChunkReader for Windows {
    type T = Reading;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(Reading { windows: self.clone(), place: start, held: Bytes::new() })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        if length == 0 {
            return Ok(Bytes::new());
        }
        let bytes = self.from(start, length)?;
        if bytes.len() < length {
            return Err(ParquetError::EOF(format!("{length} bytes at {start} are not there")));
        }
        Ok(bytes.slice(..length))
    }
}

/// Reads from some place on.
pub(super) struct Reading {
    windows: Windows,
    place: u64,
    held: Bytes,
}

impl Read for Reading {
    fn read(&mut self, target: &mut [u8]) -> std::io::Result<usize> {
        if !self.held.has_remaining() && !target.is_empty() {
            self.held = self.windows.from(self.place, 1).map_err(std::io::Error::other)?;
        }
        let count = target.len().min(self.held.len());
        self.held.copy_to_slice(&mut target[..count]);
        self.place += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
    use arrow::compute::concat_batches;
    use object_store::memory::InMemory;
    use object_store::path::Path;
    use object_store::{ObjectStore, PutPayload};
    use parquet::arrow::ArrowWriter;
    use parquet::arrow::arrow_reader::{
        ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
    };
    use parquet::file::properties::WriterProperties;

    /// Two columns in three row groups, with small pages.
    async fn stored() -> (RecordBatch, Input, ArrowReaderMetadata) {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values((0..3000).map(|i| i * i)));
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..3000).map(|i| format!("text {i}"))));
        let table = RecordBatch::try_from_iter([("n", numbers), ("s", texts)]).expect("a table");
        let properties = WriterProperties::builder()
            .set_max_row_group_row_count(Some(1000))
            .set_data_page_size_limit(500)
            .set_write_batch_size(20)
            .set_dictionary_enabled(false)
            .build();
        let mut bytes = Vec::new();
        let mut writer =
            ArrowWriter::try_new(&mut bytes, table.schema(), Some(properties)).expect("a writer");
        writer.write(&table).and_then(|()| writer.close()).expect("a file");
        let bytes = Bytes::from(bytes);
        let metadata = ArrowReaderMetadata::load(&bytes, ArrowReaderOptions::new()).expect("metadata");
        let (store, path) = (Arc::new(InMemory::new()), Path::from("t.parquet"));
        store.put(&path, PutPayload::from(bytes)).await.expect("room");
        (table, Input { name: "t.parquet".to_string(), store: store as Arc<dyn ObjectStore>, path }, metadata)
    }

    #[tokio::test]
    async fn rows_come_back_and_little_is_held() {
        let (table, input, metadata) = stored().await;
        for window in [1, 100, 1 << 20] {
            let mut windows = Windows::new(&input, metadata.metadata(), 0..3, |_| true);
            Arc::get_mut(&mut windows.0).expect("nobody else has it").window = window;
            let (metadata, held) = (metadata.clone(), windows.clone());
            let read = move || {
                let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(windows, metadata);
                let reader = reader.with_batch_size(300).build().expect("a reader");
                reader
                    .map(|batch| {
                        let held = held.0.windows.iter().map(|held| held.lock().expect("no panic").1.len());
                        (held.sum::<usize>(), batch.expect("rows"))
                    })
                    .unzip::<_, _, Vec<usize>, Vec<RecordBatch>>()
            };
            let (held, rows) = tokio::task::spawn_blocking(read).await.expect("no panic");
            assert_eq!(concat_batches(&table.schema(), &rows).expect("one table"), table);
            // A page of each column, if windows are small; else its chunk.
            let most = if window < 1000 { 2 * 1000 } else { 2 * 16_000 };
            assert!(held.iter().all(|held| *held <= most), "{held:?} bytes");
        }
    }

    #[tokio::test]
    async fn what_is_not_there_is_an_error() {
        let (_, input, metadata) = stored().await;
        let windows = Windows::new(&input, metadata.metadata(), 1..2, |leaf| leaf == 0);
        let (start, length) = metadata.metadata().row_group(1).column(0).byte_range();
        let read = move || {
            assert!(windows.get_bytes(start, length as usize).is_ok());
            assert!(windows.get_bytes(start + 10, length as usize).is_err());
            assert!(windows.get_bytes(0, 1).is_err() && windows.get_bytes(start + length, 1).is_err());
            input.store
        };
        let store = tokio::task::spawn_blocking(read).await.expect("no panic");
        store.delete(&Path::from("t.parquet")).await.expect("deleted");
        let input = Input { name: String::new(), store, path: Path::from("t.parquet") };
        let windows = Windows::new(&input, metadata.metadata(), 1..2, |_| true);
        let read = move || windows.get_bytes(start, 1).is_err();
        assert!(tokio::task::spawn_blocking(read).await.expect("no panic"));
    }
}
