//! Parts of a Parquet file that were fetched, as a file to read from.

use std::sync::Arc;

use bytes::{Buf, Bytes};
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

/// Parts of a file in memory.
#[derive(Clone)]
pub(super) struct Chunks {
    /// Where they start, and their bytes.
    parts: Arc<Vec<(u64, Bytes)>>,
}

impl Chunks {
    pub fn new(parts: Vec<(u64, Bytes)>) -> Self {
        Self { parts: Arc::new(parts) }
    }
}

impl Length for Chunks {
    fn len(&self) -> u64 {
        self.parts.iter().map(|(start, bytes)| start + bytes.len() as u64).max().unwrap_or(0)
    }
}

impl ChunkReader for Chunks {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        let part =
            self.parts.iter().find(|(first, bytes)| (*first..first + bytes.len() as u64).contains(&start));
        let (first, bytes) = part.ok_or_else(|| ParquetError::EOF(format!("nothing was read at {start}")))?;
        Ok(bytes.slice((start - first) as usize..).reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let bytes = self.get_read(start)?.into_inner();
        if bytes.len() < length {
            return Err(ParquetError::EOF(format!("{length} bytes at {start} were not read")));
        }
        Ok(bytes.slice(..length))
    }
}
