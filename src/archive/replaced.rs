//! An archive in a local folder that is to be replaced as a whole.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use object_store::ObjectStore;
use object_store::path::Path;

use super::manifest::{Manifest, shown};
use super::{ArchiveError, Result};

/// What was there when the job began that replaces it.
pub(crate) struct OldArchive {
    store: Arc<dyn ObjectStore>,
    folder: Path,
    local: PathBuf,
    hash: String,
}

impl OldArchive {
    /// The archive in a local folder.
    pub async fn find(store: &Arc<dyn ObjectStore>, folder: &Path) -> Result<Self> {
        let not_there = || ArchiveError::NotAnArchive(shown(store.as_ref(), folder));
        let found = Manifest::read(store.as_ref(), folder).await?.ok_or_else(not_there)?;
        let local = found.local_folder().ok_or_else(not_there)?.to_path_buf();
        Ok(Self { store: store.clone(), folder: folder.clone(), local, hash: found.manifest.hash })
    }

    /// Keeps others from changing it as long as the file lives. Fails if they have done so.
    pub async fn hold(&self) -> Result<File> {
        Manifest::hold(self.store.as_ref(), &self.folder, &self.local, &self.hash).await
    }
}
