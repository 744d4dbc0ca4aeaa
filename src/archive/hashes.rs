//! Hashes of files that are stored already: of the whole, and of every column chunk, in one go.

use std::fs::File;
use std::hash::Hasher as _;
use std::io::Read;
use std::ops::Range;
use std::sync::Arc;

use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use parquet::file::metadata::ParquetMetaData;
use twox_hash::xxhash3_64::Hasher;

use super::Result;
use super::manifest::hash_text;
use super::parquet_footer::chunk_ranges;

/// Takes the bytes of a file, the first ones first.
pub(super) struct ChunkHasher {
    length: u64,
    whole: Hasher,
    /// Where column chunks are, by where they begin, with their places in the file's footer.
    chunks: Vec<(Range<u64>, (usize, usize), Hasher)>,
    /// Chunks that have ended, before any that has not.
    ended: usize,
}

/// What the hashes of a file are.
#[derive(Debug, PartialEq)]
pub(super) struct Hashes {
    pub length: u64,
    pub whole: String,
    /// Of the column chunks, row group by row group.
    pub chunks: Vec<Vec<String>>,
}

impl ChunkHasher {
    /// For a file with this footer; `None` if column chunks do not matter.
    pub fn new(metadata: Option<&ParquetMetaData>) -> Self {
        let groups = metadata.into_iter().flat_map(|metadata| metadata.row_groups()).enumerate();
        let mut chunks: Vec<_> = groups
            .flat_map(|(group, row_group)| {
                let ranges = chunk_ranges(row_group).enumerate();
                ranges.map(move |(leaf, range)| (range, (group, leaf), Hasher::new()))
            })
            .collect();
        chunks.sort_by_key(|(range, place, _)| (range.start, *place));
        Self { length: 0, whole: Hasher::new(), chunks, ended: 0 }
    }

    pub fn write(&mut self, bytes: &[u8]) {
        let now = self.length..self.length + bytes.len() as u64;
        self.whole.write(bytes);
        self.length = now.end;
        while self.chunks.get(self.ended).is_some_and(|(range, ..)| range.end <= now.start) {
            self.ended += 1;
        }
        let begun = self.chunks[self.ended..].iter_mut().take_while(|(range, ..)| range.start < now.end);
        for (range, _, hasher) in begun {
            let shared = range.start.max(now.start)..range.end.min(now.end);
            if shared.start < shared.end {
                hasher.write(&bytes[(shared.start - now.start) as usize..(shared.end - now.start) as usize]);
            }
        }
    }

    pub fn finish(mut self) -> Hashes {
        self.chunks.sort_by_key(|(_, place, _)| *place);
        let mut chunks: Vec<Vec<String>> = Vec::new();
        for (_, (group, _), hasher) in &self.chunks {
            chunks.resize_with(group + 1, Vec::new);
            chunks[*group].push(hash_text(hasher.finish()));
        }
        Hashes { length: self.length, whole: hash_text(self.whole.finish()), chunks }
    }
}

/// The hashes of a file, read piece by piece.
pub(super) async fn hash_file(
    store: &Arc<dyn ObjectStore>,
    path: &Path,
    metadata: Option<&ParquetMetaData>,
) -> Result<Hashes> {
    let mut bytes = store.get(path).await?.into_stream();
    let mut hasher = ChunkHasher::new(metadata);
    while let Some(part) = bytes.try_next().await? {
        hasher.write(&part);
    }
    Ok(hasher.finish())
}

/// The hash of an open local file.
pub(super) fn hash_open(mut file: File) -> std::io::Result<String> {
    let (mut hasher, mut part) = (Hasher::new(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut part)? {
            0 => return Ok(hash_text(hasher.finish())),
            count => hasher.write(&part[..count]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::manifest::hash_of;
    use super::super::parquet_footer::{footer_length, parse_footer};
    use super::*;
    use arrow::array::{Int64Array, RecordBatch};
    use parquet::arrow::ArrowWriter;
    use parquet::file::properties::WriterProperties;

    #[test]
    fn chunks_are_hashed_whatever_pieces_they_come_in() {
        let column = || Arc::new(Int64Array::from_iter_values(0..1000)) as _;
        let table = RecordBatch::try_from_iter([("a", column()), ("b", column())]).expect("a table");
        let properties = WriterProperties::builder().set_max_row_group_row_count(Some(300)).build();
        let mut bytes = Vec::new();
        let mut writer =
            ArrowWriter::try_new(&mut bytes, table.schema(), Some(properties)).expect("a writer");
        writer.write(&table).and_then(|()| writer.close()).expect("a file");
        let end = &bytes[bytes.len() - footer_length(&bytes).expect("a footer") as usize..];
        let metadata = parse_footer(end, bytes.len() as u64).expect("metadata");
        let of_group = |group| -> Vec<String> {
            chunk_ranges(group)
                .map(|range| hash_of(&bytes[range.start as usize..range.end as usize]))
                .collect()
        };
        let chunks: Vec<Vec<String>> = metadata.row_groups().iter().map(of_group).collect();
        let expected = Hashes { length: bytes.len() as u64, whole: hash_of(&bytes), chunks };
        assert_eq!(expected.chunks.len(), 4);
        for piece in [1, 7, 64, 1000, bytes.len()] {
            let mut hasher = ChunkHasher::new(Some(&metadata));
            bytes.chunks(piece).for_each(|piece| hasher.write(piece));
            assert_eq!(hasher.finish(), expected);
        }
    }
}
