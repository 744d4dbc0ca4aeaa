//! What archives know of the files that they were made from.
//!
//! `source` is the hash of an original's footer, which tells where everything is, and what most of it is like; or, after
//! `content:`, that of all of its bytes. Those of local files are read once more for it, those of object stores are not.

use std::fmt;
use std::sync::Arc;

use object_store::path::Path;
use object_store::{GetOptions, GetResultPayload, ObjectStore, ObjectStoreExt};

use super::Result;
use super::hashes::{hash_file, hash_open};
use super::job::Input;
use super::manifest::{FileEntry, hash_of};
use super::parquet_footer::fetch_footer;

/// The hash of a whole file, as it is written.
pub(super) struct OfContent(pub String);

const OF_CONTENT: &str = "content:";

impl fmt::Display for OfContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{OF_CONTENT}{}", self.0)
    }
}

/// The hash of all bytes of an input, if it is a local file.
pub(super) async fn local_hash(input: &Input) -> Result<Option<String>> {
    let head = GetOptions { head: true, ..GetOptions::default() };
    match input.store.get_opts(&input.path, head).await?.payload {
        GetResultPayload::File(file, _) => {
            let hash = tokio::task::spawn_blocking(move || hash_open(file)).await;
            Ok(Some(hash.map_err(std::io::Error::other)??))
        }
        GetResultPayload::Stream(_) => Ok(None),
    }
}

impl FileEntry {
    /// Whether a file is what this one was made from, as far as that is known.
    pub(crate) async fn is_made_from(&self, store: &Arc<dyn ObjectStore>, path: &Path) -> Result<bool> {
        let bytes = match store.head(path).await {
            Ok(found) => found.size,
            Err(object_store::Error::NotFound { .. }) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        if bytes != self.source_bytes {
            return Ok(false);
        }
        Ok(match self.source.strip_prefix(OF_CONTENT) {
            Some(content) => hash_file(store, path, None).await?.whole == content,
            // What has no footer is no table.
            None => fetch_footer(store.as_ref(), path, bytes)
                .await
                .is_ok_and(|footer| hash_of(&footer) == self.source),
        })
    }

    /// Whether the original is more than what comes back.
    #[cfg(feature = "cli")]
    pub(crate) fn is_approximate(&self) -> bool {
        self.stored.is_none() && self.error().max != 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::memory::InMemory;

    #[tokio::test]
    async fn originals_are_known_by_content_or_by_footer() {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let path = Path::from("a.parquet");
        let table = include_bytes!("../../tests/golden/archive_v1.parquet").to_vec();
        let footer = fetch_end(&table);
        let entry = |source: String| -> FileEntry {
            let golden = include_bytes!("../../tests/golden/archive_v1/archive.json");
            let mut manifest: serde_json::Value = serde_json::from_slice(golden).expect("JSON");
            let mut entry: FileEntry = serde_json::from_value(manifest["files"][0].take()).expect("an entry");
            (entry.source_bytes, entry.source) = (table.len() as u64, source);
            entry
        };
        let (by_footer, by_content) =
            (entry(hash_of(&footer)), entry(OfContent(hash_of(&table)).to_string()));
        assert!(!by_content.is_made_from(&store, &path).await.expect("nothing is there"));
        let mut other = table.clone();
        other[100] ^= 1;
        for (content, same_content) in [(table.clone(), true), (other, false)] {
            store.put(&path, content.into()).await.expect("stored");
            assert!(by_footer.is_made_from(&store, &path).await.expect("read"));
            assert_eq!(by_content.is_made_from(&store, &path).await.expect("read"), same_content);
        }
        store.put(&path, vec![0; table.len()].into()).await.expect("stored");
        assert!(!by_footer.is_made_from(&store, &path).await.expect("read"));
    }

    fn fetch_end(table: &[u8]) -> Vec<u8> {
        let length = super::super::parquet_footer::footer_length(table).expect("a footer") as usize;
        table[table.len() - length..].to_vec()
    }
}
