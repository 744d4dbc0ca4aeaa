//! Where a job puts its files, so that nobody else's are overwritten.

use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode};

use super::manifest::{JOB_FILE, hash_of, place};
use super::{ArchiveError, Result};

/// The folder of an archive that is written to.
#[derive(Debug, Clone)]
pub(super) struct Site {
    pub store: Arc<dyn ObjectStore>,
    folder: Path,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    /// Nobody else writes here.
    Own,
    /// Others may write at the same moment: names are taken before they are used.
    Shared,
    /// Another archive is read here meanwhile: everything goes to a folder within it.
    Within(String),
}

/// A place for a file.
#[derive(Debug, Clone)]
pub(super) struct Spot {
    pub path: Path,
    /// Its name relative to the archive, if it is not the one that was asked for.
    pub file: Option<String>,
}

impl Site {
    pub fn own(store: &Arc<dyn ObjectStore>, folder: &Path) -> Self {
        Self { store: store.clone(), folder: folder.clone(), kind: Kind::Own }
    }

    pub fn shared(store: &Arc<dyn ObjectStore>, folder: &Path) -> Self {
        Self { kind: Kind::Shared, ..Self::own(store, folder) }
    }

    /// Beside an archive that is to be replaced; `what` tells this job from all others.
    pub fn within(store: &Arc<dyn ObjectStore>, folder: &Path, what: &str) -> Self {
        Self { kind: Kind::Within(tag(what)), ..Self::own(store, folder) }
    }

    fn named(&self, name: &str, file: Option<String>) -> Result<Spot> {
        Ok(Spot { path: place(&self.folder, file.as_deref().unwrap_or(name))?, file })
    }

    /// The place of what is known of an unfinished job.
    pub fn job_file(&self) -> Path {
        self.job_folder().join(JOB_FILE)
    }

    /// The folder that all of a job's files are in.
    pub fn job_folder(&self) -> Path {
        let folder = self.folder.clone();
        match &self.kind {
            Kind::Within(tag) => folder.join(tag.as_str()),
            _ => folder,
        }
    }

    /// Where a run of the same job would have put a data file, the likeliest place first.
    pub fn expected(&self, name: &str, source: &str) -> Result<Vec<Spot>> {
        Ok(match &self.kind {
            Kind::Own => vec![self.named(name, None)?],
            Kind::Within(tag) => vec![self.named(name, Some(format!("{tag}/{name}")))?],
            Kind::Shared => vec![self.named(name, None)?, self.elsewhere(name, source, 0)?],
        })
    }

    /// A place for a data file made from this source, that nobody else will write to.
    pub async fn take(&self, name: &str, source: &str) -> Result<Spot> {
        let spots = self.expected(name, source)?;
        if self.kind != Kind::Shared {
            return spots.into_iter().next().ok_or_else(|| ArchiveError::layout("no place for a file"));
        }
        for spot in spots {
            if self.is_taken_now(&spot).await? {
                return Ok(spot);
            }
        }
        for attempt in 1.. {
            let spot = self.elsewhere(name, source, attempt)?;
            if self.is_taken_now(&spot).await? {
                return Ok(spot);
            }
        }
        Err(ArchiveError::layout("no place for a file"))
    }

    fn elsewhere(&self, name: &str, source: &str, attempt: u32) -> Result<Spot> {
        let tag = tag(&format!("{source} {attempt}"));
        self.named(name, Some(format!("{tag}/{name}")))
    }

    /// Takes a place unless another has it. Where a store cannot tell, nobody else is there.
    async fn is_taken_now(&self, spot: &Spot) -> Result<bool> {
        match self.store.put_opts(&spot.path, Bytes::new().into(), PutMode::Create.into()).await {
            Err(object_store::Error::AlreadyExists { .. }) => Ok(false),
            Err(error) if !cannot_create(&error) => Err(error.into()),
            _ => Ok(true),
        }
    }

    /// Gives up a place that nothing was written to.
    pub async fn give_back(&self, spot: &Spot) {
        if self.kind == Kind::Shared {
            // What is left otherwise is empty, and no part of an archive.
            let _ = self.store.delete(&spot.path).await;
        }
    }

    /// Where a dictionary is that a run of the same job has written.
    pub fn dictionary(&self, name: &str) -> Spot {
        match &self.kind {
            Kind::Within(tag) => self.dictionary_at(Some(format!("{tag}/{name}")), name),
            _ => self.dictionary_at(None, name),
        }
    }

    fn dictionary_at(&self, file: Option<String>, name: &str) -> Spot {
        let parts = file.as_deref().unwrap_or(name).split('/');
        Spot { path: parts.fold(self.folder.clone(), |path, part| path.join(part)), file }
    }

    /// Writes a dictionary under its name, or where that is taken, under one made from its content.
    pub async fn put_dictionary(&self, name: &str, bytes: Bytes) -> Result<Spot> {
        let spot = self.dictionary(name);
        if self.kind == Kind::Shared {
            let put = self.store.put_opts(&spot.path, bytes.clone().into(), PutMode::Create.into()).await;
            match put {
                Ok(_) => return Ok(spot),
                Err(object_store::Error::AlreadyExists { .. }) => {
                    let tag = tag(&hash_of(&bytes));
                    let spot = self.dictionary_at(Some(format!("{tag}/{name}")), name);
                    self.store.put(&spot.path, bytes.into()).await?;
                    return Ok(spot);
                }
                // Stores that cannot create, and no more than that, can still write.
                Err(error) if cannot_create(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.store.put(&spot.path, bytes.into()).await?;
        Ok(spot)
    }
}

/// Whether a store, or a local file system without hard links, has no way to create a file only where there is none. Any
/// other failure says nothing about who else is there.
pub(super) fn cannot_create(error: &object_store::Error) -> bool {
    /// What linking a file gives on Unix where a file system has no links.
    const NOT_PERMITTED: i32 = 1;
    if let object_store::Error::NotImplemented { .. } | object_store::Error::NotSupported { .. } = error {
        return true;
    }
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(found) = cause {
        if let Some(found) = found.downcast_ref::<std::io::Error>() {
            return found.kind() == std::io::ErrorKind::Unsupported
                || found.raw_os_error() == Some(NOT_PERMITTED);
        }
        cause = found.source();
    }
    false
}

/// The name of a folder for files whose usual names are taken.
fn tag(what: &str) -> String {
    hash_of(what.as_bytes())[..8].to_string()
}

/// Whether a folder is called as those are.
#[cfg(feature = "cli")]
pub(crate) fn is_tag(folder: &str) -> bool {
    folder.len() == 8 && folder.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
