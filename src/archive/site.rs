//! Where a job puts its files, so that nobody else's are overwritten.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode};

use super::manifest::{FileEntry, JOB_FILE, Manifest, hash_of, place};
use super::staging::Staging;
use super::{ArchiveError, Result, dictionary_file, durable};

/// The folder of an archive that is written to.
#[derive(Debug, Clone)]
pub(super) struct Site {
    pub store: Arc<dyn ObjectStore>,
    folder: Path,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    /// Nobody else writes here.
    Own,
    /// Others may write to this object store at the same moment: names are taken before they are used.
    Shared,
    /// Others may write to this local folder at the same moment: names are given when all is whole.
    Staged(Arc<Staging>),
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

    pub async fn shared(store: &Arc<dyn ObjectStore>, folder: &Path) -> Result<Self> {
        let kind = match durable::local_place(store.as_ref(), folder).await? {
            Some(local) => Kind::Staged(staging(store, folder, local).await?),
            None => Kind::Shared,
        };
        Ok(Self { kind, ..Self::own(store, folder) })
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
            Kind::Staged(staging) => vec![self.part(staging, name)?],
        })
    }

    /// A place for a data file made from this source, that nobody else will write to.
    pub async fn take(&self, name: &str, source: &str) -> Result<Spot> {
        let spots = self.expected(name, source)?;
        if !self.takes_names() {
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

    /// Whether files have no names before all of them are whole.
    pub fn is_staged(&self) -> bool {
        matches!(self.kind, Kind::Staged(_))
    }

    fn takes_names(&self) -> bool {
        matches!(self.kind, Kind::Shared)
    }

    /// Where a file is made until it has a name.
    fn part(&self, staging: &Staging, name: &str) -> Result<Spot> {
        let path = Path::parse(format!("{}/{}", self.folder, staging.part(name)));
        let path = path.map_err(|error| ArchiveError::layout(format!("{name}: {error}")))?;
        Ok(Spot { path, file: None })
    }

    fn elsewhere(&self, name: &str, source: &str, attempt: u32) -> Result<Spot> {
        let tag = tag(&format!("{source} {attempt}"));
        self.named(name, Some(format!("{tag}/{name}")))
    }

    /// Takes a place unless another has it: while it is written to, an object beside it says so, and then it does itself.
    /// Where a store cannot tell, nobody else is there.
    async fn is_taken_now(&self, spot: &Spot) -> Result<bool> {
        let taken = taken(&spot.path)?;
        match self.store.put_opts(&taken, Bytes::new().into(), PutMode::Create.into()).await {
            Err(object_store::Error::AlreadyExists { .. }) => return Ok(false),
            Err(error) if !cannot_create(&error) => return Err(error.into()),
            _ => {}
        }
        let found = self.store.head(&spot.path).await;
        if let Err(object_store::Error::NotFound { .. }) = found {
            return Ok(true);
        }
        self.release(spot).await;
        found.map(|_| false).map_err(ArchiveError::from)
    }

    /// Says that a place is not written to any more.
    pub async fn release(&self, spot: &Spot) {
        if let (true, Ok(taken)) = (self.takes_names(), taken(&spot.path)) {
            // What is left otherwise is empty, and keeps a name that is not the only one.
            let _ = self.store.delete(&taken).await;
        }
    }

    /// Where a dictionary is that a run of the same job has written.
    pub fn dictionary(&self, name: &str) -> Result<Spot> {
        Ok(match &self.kind {
            Kind::Within(tag) => self.dictionary_at(Some(format!("{tag}/{name}")), name),
            Kind::Staged(staging) => self.part(staging, name)?,
            _ => self.dictionary_at(None, name),
        })
    }

    fn dictionary_at(&self, file: Option<String>, name: &str) -> Spot {
        let parts = file.as_deref().unwrap_or(name).split('/');
        Spot { path: parts.fold(self.folder.clone(), |path, part| path.join(part)), file }
    }

    /// Writes a dictionary under its name, or where that is taken, under one made from its content.
    pub async fn put_dictionary(&self, name: &str, bytes: Bytes) -> Result<Spot> {
        let spot = self.dictionary(name)?;
        if self.takes_names() {
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

    /// Waits until what was made for these names is on the disk, so that it can be published.
    pub async fn sync(&self, names: impl Iterator<Item = String>) -> Result<()> {
        let Kind::Staged(staging) = &self.kind else { return Ok(()) };
        staging.sync(names).await.map_err(gone)
    }

    /// Gives a data file its name, if it has none yet.
    pub fn publish(&self, file: &mut FileEntry) -> Result<()> {
        if let Kind::Staged(staging) = &self.kind {
            file.file = staging.publish(&file.path, &file.path, &file.hash).map_err(gone)?;
        }
        Ok(())
    }

    /// Gives a dictionary that was written as `written` the usual name, if it has none yet: what it is called, unless so.
    pub fn publish_dictionary(&self, written: String, usual: &str, hash: &str) -> Result<Option<String>> {
        match &self.kind {
            Kind::Staged(staging) => staging.publish(&written, usual, hash).map_err(gone),
            _ => Ok(Some(written).filter(|written| written != usual)),
        }
    }

    /// Gives all files of a new archive their names.
    pub fn publish_all(&self, manifest: &mut Manifest) -> Result<()> {
        let later = manifest.later_dictionaries.iter_mut();
        for (number, entry) in (0..).zip(std::iter::once(&mut manifest.dictionary).chain(later)) {
            let (written, usual) = (entry.file_name(number), dictionary_file::file_name(number));
            entry.file = self.publish_dictionary(written, &usual, &entry.hash)?;
        }
        manifest.files.iter_mut().try_for_each(|file| self.publish(file))
    }

    /// Removes files of a job that no archive has.
    pub async fn withdraw(&self, files: &[Path]) {
        match &self.kind {
            Kind::Staged(staging) => staging.unpublish(),
            _ => {
                for path in files {
                    let _ = self.store.delete(path).await;
                }
            }
        }
    }

    /// Leaves what is whole to a job that goes on with it.
    pub fn keep(&self) {
        if let Kind::Staged(staging) = &self.kind {
            staging.keep();
        }
    }
}

/// A folder for the files of a writer, with what is whole of those of writers that were killed.
async fn staging(store: &Arc<dyn ObjectStore>, folder: &Path, local: PathBuf) -> Result<Arc<Staging>> {
    let shown = local.display().to_string();
    let cannot = |error: std::io::Error| ArchiveError::from(error).at(shown.clone());
    let begun = tokio::task::spawn_blocking(move || Staging::begin(&local)).await;
    let (staging, left) = begun.map_err(std::io::Error::other)?.map_err(cannot)?;
    let staging = Arc::new(staging);
    if !left.is_empty() {
        // They are dead: what they have told the archive of is in it.
        let found = Manifest::read(store.as_ref(), folder).await?;
        let named = found.iter().flat_map(|found| found.manifest.places()).collect();
        let own = staging.clone();
        let taken = tokio::task::spawn_blocking(move || own.take_over(left, &named)).await;
        taken.map_err(std::io::Error::other)?;
    }
    Ok(staging)
}

/// Files of a writer go with the archive that they were made for.
fn gone(error: std::io::Error) -> ArchiveError {
    match error.kind() {
        std::io::ErrorKind::NotFound => ArchiveError::Replaced,
        _ => error.into(),
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

/// What says that a place is written to; no reader takes it for a table.
fn taken(path: &Path) -> Result<Path> {
    Path::parse(format!("{path}.taken")).map_err(|error| ArchiveError::layout(format!("{path}: {error}")))
}

/// The name of a folder for files whose usual names are taken.
pub(super) fn tag(what: &str) -> String {
    hash_of(what.as_bytes())[..8].to_string()
}

/// Whether a folder is called as those are.
#[cfg(feature = "cli")]
pub(crate) fn is_tag(folder: &str) -> bool {
    folder.len() == 8 && folder.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::TryStreamExt;
    use object_store::memory::InMemory;

    #[tokio::test]
    async fn a_name_in_an_object_store_is_taken_without_being_used() {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let site = Site::shared(&store, &Path::from("archive")).await.expect("a site");
        let objects = async || -> Vec<String> {
            let found: Vec<_> = store.list(None).try_collect().await.expect("a list");
            found.into_iter().map(|object| object.location.to_string()).collect()
        };
        let first = site.take("a.parquet", "one").await.expect("a place");
        assert_eq!(first.path.as_ref(), "archive/a.parquet");
        assert!(!objects().await.iter().any(|name| name.ends_with(".parquet")));
        // Others have it as long as it is written to, and once it is there.
        let second = site.take("a.parquet", "two").await.expect("a place");
        assert!(second.path.as_ref().ends_with("/a.parquet") && second.file.is_some(), "{second:?}");
        site.release(&second).await;
        store.put(&first.path, Bytes::from_static(b"PAR1").into()).await.expect("written");
        site.release(&first).await;
        let third = site.take("a.parquet", "two").await.expect("a place");
        assert_eq!(third.path, second.path);
        site.release(&third).await;
        assert_eq!(objects().await, ["archive/a.parquet"]);
    }
}
