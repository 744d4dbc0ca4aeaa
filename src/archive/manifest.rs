//! `archive.json`: which files belong to an archive.
//!
//! It is written last, so that an archive is there as a whole or not at all. Its own hash is the value of
//! `hash`, computed with that value empty.

use std::collections::HashSet;
use std::fs::File;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use object_store::path::Path;
use object_store::{GetResultPayload, ObjectStore, ObjectStoreExt, PutMode, UpdateVersion};
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

use super::error_sums::ErrorSums;
use super::lock::lock;
use super::{ArchiveError, FORMAT_VERSION, Result, dictionary_file, durable};

pub(crate) const FILE_NAME: &str = "archive.json";

/// What belongs to an unfinished job; never part of an archive.
pub(crate) const JOB_FILE: &str = "job.json";

/// The mark of a local folder that is being made, or that was replaced and is to go; never part of an archive.
#[cfg(feature = "cli")]
pub(crate) const MARK_FILE: &str = ".sparrow-job";

/// What writers of a local archive lock while they replace the manifest, and whoever replaces it all; empty.
pub(super) const LOCK_FILE: &str = "archive.lock";

/// The place of a data file, whose name must stay below the archive and must not be one of its own files.
pub(crate) fn place(folder: &Path, name: &str) -> Result<Path> {
    let own = [FILE_NAME, JOB_FILE, LOCK_FILE].contains(&name) || dictionary_file::is_file_name(name);
    if own || !is_inside(name) {
        return Err(ArchiveError::layout(format!("a data file cannot be called {name}")));
    }
    // As it is: joining would encode characters that file systems do not mind.
    Path::parse(format!("{folder}/{name}")).map_err(|error| ArchiveError::layout(format!("{name}: {error}")))
}

/// A place as users know it: paths of stores do not begin with a slash.
pub(super) fn shown(store: &dyn ObjectStore, path: &Path) -> String {
    if store.to_string() == "LocalFileSystem(file:///)" { format!("/{path}") } else { path.to_string() }
}

/// Whether a name stays below its folder.
fn is_inside(name: &str) -> bool {
    let outside = |part: &str| part.is_empty() || part == "." || part == ".." || part.contains(['\\', '\0']);
    !name.split('/').any(outside)
}

/// XXH3-64 as text.
pub(crate) fn hash_of(bytes: &[u8]) -> String {
    hash_text(XxHash3_64::oneshot(bytes))
}

/// A hash as text.
pub(crate) fn hash_text(hash: u64) -> String {
    format!("{hash:016x}")
}

/// The list of an archive's files.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub version: u32,
    pub dictionary: DictionaryEntry,
    /// Dictionaries that were learned later, for files that the ones before no longer fitted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub later_dictionaries: Vec<DictionaryEntry>,
    pub files: Vec<FileEntry>,
    pub history: Vec<HistoryEntry>,
    pub hash: String,
}

/// The dictionary's file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct DictionaryEntry {
    pub bytes: u64,
    /// XXH3-64 of the file.
    pub hash: String,
    /// Where it is, relative to the archive, if not under the usual name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

impl DictionaryEntry {
    /// The name of the file, of the dictionary of this number.
    pub fn file_name(&self, number: u32) -> String {
        self.file.clone().unwrap_or_else(|| dictionary_file::file_name(number))
    }
}

/// One data file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FileEntry {
    /// Its path in the table: where it is, relative to the archive, unless `file` says otherwise.
    pub path: String,
    /// Where it is, relative to the archive, if another file was under its path when it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Its rows.
    pub rows: u64,
    /// Its bytes.
    pub bytes: u64,
    /// XXH3-64 of the file.
    pub hash: String,
    /// Bytes of its footer: the metadata to the end of the file and, if it is coded, the index of pages before them.
    pub footer_bytes: u64,
    /// XXH3-64 of its footer.
    pub footer: String,
    /// The bytes of the file that it was made from.
    pub source_bytes: u64,
    /// A hash of what it was made from.
    pub source: String,
    /// For a table that did not become smaller and is stored as it was: the hashes of its column chunks,
    /// row group by row group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored: Option<Vec<Vec<String>>>,
    /// Which of the archive's dictionaries it was coded with: 0 is the first.
    #[serde(default, skip_serializing_if = "is_first")]
    pub generation: u32,
    /// What its codes leave of its values, as NMAE, before residuals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<f64>,
    /// What they may leave of it; more is a drift.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_limit: Option<f64>,
    /// How it is unlike what its dictionary was learned from, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<String>,
    pub(crate) error: ErrorSums,
}

fn is_first(generation: &u32) -> bool {
    *generation == 0
}

/// The errors of decoded values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ErrorSummary {
    /// The largest error of a single value.
    pub max: f64,
    /// Mean absolute error over mean absolute value.
    pub nmae: f64,
    /// Root mean square error over root mean square value.
    pub nrmse: f64,
}

impl ErrorSums {
    pub(crate) fn summary(&self) -> ErrorSummary {
        ErrorSummary { max: self.max, nmae: self.nmae(), nrmse: self.nrmse() }
    }
}

impl FileEntry {
    /// Where it is, relative to the archive.
    pub fn place(&self) -> &str {
        self.file.as_deref().unwrap_or(&self.path)
    }

    /// The errors of this file's values.
    pub fn error(&self) -> ErrorSummary {
        self.error.summary()
    }
}

/// What was done to an archive.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HistoryEntry {
    /// `compress` or `append`.
    pub command: String,
    /// Files that were added.
    pub files: u64,
    /// Rows that were added.
    pub rows: u64,
    /// The program's version.
    pub program: String,
}

impl HistoryEntry {
    pub(crate) fn new(command: &str, added: &[FileEntry]) -> Self {
        let rows = added.iter().map(|file| file.rows).sum();
        let program = env!("CARGO_PKG_VERSION").to_string();
        Self { command: command.to_string(), files: added.len() as u64, rows, program }
    }
}

/// A manifest that was read, and what it was read from.
pub(crate) struct Found {
    pub manifest: Manifest,
    pub bytes: u64,
    /// What tells that nobody has changed it since.
    version: UpdateVersion,
    /// Its path, if it is a local file.
    local: Option<PathBuf>,
}

impl Found {
    /// The archive's folder, if it is a local one.
    pub fn local_folder(&self) -> Option<&std::path::Path> {
        self.local.as_deref().and_then(std::path::Path::parent)
    }
}

fn changed_meanwhile() -> ArchiveError {
    ArchiveError::layout(
        "the archive was changed while another was made in its place; it is kept, run it again",
    )
}

/// How long to wait before the next attempt: longer each time, and not the same for all.
fn pause(attempt: u32) -> Duration {
    let spread = u64::from(std::process::id().wrapping_mul(2_654_435_761).wrapping_add(attempt) % 17);
    Duration::from_millis(5 + spread + 10 * u64::from(attempt.min(20)))
}

impl Manifest {
    /// The dictionaries, the first one first.
    pub fn dictionaries(&self) -> impl Iterator<Item = &DictionaryEntry> {
        std::iter::once(&self.dictionary).chain(&self.later_dictionaries)
    }

    fn content_hash(&self) -> Result<String> {
        let unsigned = Self { hash: String::new(), ..self.clone() };
        Ok(hash_of(serde_json::to_string(&unsigned)?.as_bytes()))
    }

    /// Whether it names all of these files, as they are: then whoever wrote them has written it, or was read by who did.
    pub fn names_all(&self, files: &[FileEntry]) -> bool {
        let names = |file: &FileEntry| {
            let same = |own: &FileEntry| {
                own.path == file.path && own.place() == file.place() && own.hash == file.hash
            };
            self.files.iter().any(same)
        };
        files.iter().all(names)
    }

    /// Whether it has all that an earlier one has, and perhaps more: others add at the end.
    pub fn continues(&self, earlier: &Self) -> bool {
        let files = self.files.get(..earlier.files.len()).is_some_and(|files| {
            files.iter().zip(&earlier.files).all(|(now, before)| now.hash == before.hash)
        });
        let mut own = self.dictionaries();
        files && earlier.dictionaries().all(|before| own.next().is_some_and(|now| now.hash == before.hash))
    }

    /// Every file that belongs to it, besides itself.
    pub fn places(&self) -> impl Iterator<Item = String> {
        let dictionaries = (0..).zip(self.dictionaries()).map(|(number, entry)| entry.file_name(number));
        dictionaries.chain(self.files.iter().map(|file| file.place().to_string()))
    }

    /// Writes it when the files that it names are on the disk; [`PutMode::Create`] fails where there is an archive already.
    pub async fn write(self, store: &dyn ObjectStore, folder: &Path, mode: PutMode) -> Result<Self> {
        let places: Vec<String> = self.places().collect();
        let local = match places.first() {
            Some(first) => durable::local_folder(store, folder, first).await?,
            None => None,
        };
        if let Some(local) = &local {
            durable::sync_files(local.clone(), places).await?;
        }
        self.put(store, folder, local.as_deref(), mode).await
    }

    /// Writes it, in a local folder so that it is on the disk then.
    async fn put(
        mut self,
        store: &dyn ObjectStore,
        folder: &Path,
        local: Option<&std::path::Path>,
        mode: PutMode,
    ) -> Result<Self> {
        self.hash = self.content_hash()?;
        let text = serde_json::to_vec(&self)?;
        let path = folder.clone().join(FILE_NAME);
        let Some(local) = local else {
            store.put_opts(&path, text.into(), mode.into()).await?;
            return Ok(self);
        };
        let only_new = matches!(mode, PutMode::Create);
        match durable::put(local.join(FILE_NAME), text, only_new).await {
            Ok(()) => Ok(self),
            // As the store would tell it.
            Err(error) if only_new && error.kind() == ErrorKind::AlreadyExists => {
                let (path, source) = (path.to_string(), error.into());
                Err(object_store::Error::AlreadyExists { path, source }.into())
            }
            Err(error) => {
                Err(object_store::Error::Generic { store: "LocalFileSystem", source: error.into() }.into())
            }
        }
    }

    /// Keeps others from changing an archive in a local folder as long as the file lives, if it is still the one of this
    /// hash.
    pub async fn hold(
        store: &dyn ObjectStore,
        folder: &Path,
        local: &std::path::Path,
        hash: &str,
    ) -> Result<File> {
        let lock = lock(local).await?.ok_or_else(changed_meanwhile)?;
        match Self::read(store, folder).await? {
            Some(found) if found.manifest.hash == hash => Ok(lock),
            _ => Err(changed_meanwhile()),
        }
    }

    /// Writes it over another one, unless that was changed since it was read.
    pub async fn replace(self, old: &Found, store: &dyn ObjectStore, folder: &Path) -> Result<Self> {
        if let Some(local) = old.local_folder() {
            // A job that was stopped when all was done has nothing left to write.
            if self.content_hash()? == old.manifest.hash {
                return Ok(old.manifest.clone());
            }
            let _lock = Self::hold(store, folder, local, &old.manifest.hash).await?;
            return self.write(store, folder, PutMode::Overwrite).await;
        }
        let mode = PutMode::Update(old.version.clone());
        match self.clone().put(store, folder, None, mode).await {
            // Stores that cannot compare.
            Err(ArchiveError::Store(object_store::Error::NotImplemented { .. })) => {
                self.put(store, folder, None, PutMode::Overwrite).await
            }
            Err(ArchiveError::Store(object_store::Error::Precondition { .. })) => Err(changed_meanwhile()),
            written => written,
        }
    }

    /// Changes it, whoever else changes it at the same moment: what others have written meanwhile is read again,
    /// and changed again.
    pub async fn update(
        store: &dyn ObjectStore,
        folder: &Path,
        change: impl Fn(&mut Self) -> Result<()>,
    ) -> Result<Self> {
        const TRIES: u32 = 200;
        let absent = || ArchiveError::NotAnArchive(shown(store, folder));
        for attempt in 0..TRIES {
            let found = Self::read(store, folder).await?.ok_or_else(absent)?;
            // Object stores compare versions; of local files one process at a time has the lock.
            if let Some(local) = found.local_folder() {
                if let Some(_lock) = lock(local).await? {
                    let mut manifest = Self::read(store, folder).await?.ok_or_else(absent)?.manifest;
                    let before: HashSet<String> = manifest.places().collect();
                    change(&mut manifest)?;
                    let added = manifest.places().filter(|place| !before.contains(place)).collect();
                    durable::sync_files(local.to_path_buf(), added).await?;
                    return manifest.put(store, folder, Some(local), PutMode::Overwrite).await;
                }
                tokio::time::sleep(pause(attempt)).await;
                continue;
            }
            let mut manifest = found.manifest;
            change(&mut manifest)?;
            match manifest.clone().put(store, folder, None, PutMode::Update(found.version)).await {
                Err(ArchiveError::Store(object_store::Error::Precondition { .. })) => {
                    tokio::time::sleep(pause(attempt)).await;
                }
                Err(ArchiveError::Store(object_store::Error::NotImplemented { .. })) => {
                    return manifest.put(store, folder, None, PutMode::Overwrite).await;
                }
                written => return written,
            }
        }
        Err(ArchiveError::layout("others change the archive all the time; try again"))
    }

    /// `None` where there is no archive.
    pub async fn read(store: &dyn ObjectStore, folder: &Path) -> Result<Option<Found>> {
        let found = match store.get(&folder.clone().join(FILE_NAME)).await {
            Ok(found) => found,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let version = UpdateVersion { e_tag: found.meta.e_tag.clone(), version: found.meta.version.clone() };
        let local = match &found.payload {
            GetResultPayload::File(_, path) => Some(path.clone()),
            GetResultPayload::Stream(_) => None,
        };
        let bytes = found.bytes().await?;
        let manifest = Self::parse(&bytes).map_err(|error| error.at(FILE_NAME))?;
        Ok(Some(Found { manifest, bytes: bytes.len() as u64, version, local }))
    }

    fn parse(bytes: &[u8]) -> Result<Self> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        if let Ok(Version { version }) = serde_json::from_slice(bytes)
            && version > FORMAT_VERSION
        {
            return Err(ArchiveError::NewerVersion { found: version, known: FORMAT_VERSION });
        }
        let manifest: Self = serde_json::from_slice(bytes)?;
        // The text itself is compared too: what is not part of the content must not have changed either.
        if manifest.content_hash()? != manifest.hash || serde_json::to_vec(&manifest)? != bytes {
            return Err(ArchiveError::corrupt("its content does not match its hash"));
        }
        for file in &manifest.files {
            place(&Path::from("archive"), &file.path)?;
            place(&Path::from("archive"), file.place())?;
        }
        let (mut paths, mut places) = (HashSet::new(), HashSet::new());
        if let Some(file) = manifest.files.iter().find(|file| !paths.insert(&file.path)) {
            return Err(ArchiveError::layout(format!("it names {} twice", file.path)));
        }
        if let Some(place) = manifest.places().find(|place| !places.insert(place.clone())) {
            return Err(ArchiveError::layout(format!("two of its entries are in {place}")));
        }
        if let Some(file) =
            manifest.dictionaries().filter_map(|entry| entry.file.as_ref()).find(|file| !is_inside(file))
        {
            return Err(ArchiveError::layout(format!("a dictionary cannot be called {file}")));
        }
        Ok(manifest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What somebody makes who knows how to sign it.
    fn signed(change: impl Fn(&mut Manifest)) -> Result<Manifest> {
        let golden = include_bytes!("../../tests/golden/archive_v1/archive.json");
        let mut manifest = Manifest::parse(golden).expect("the golden one");
        change(&mut manifest);
        manifest.hash = manifest.content_hash().expect("a hash");
        Manifest::parse(&serde_json::to_vec(&manifest).expect("a text"))
    }

    #[test]
    fn no_file_is_named_twice() {
        signed(|_| {}).expect("as it was");
        let twice = |change: &dyn Fn(&mut FileEntry)| {
            let made = signed(|manifest| {
                let mut again = manifest.files[0].clone();
                change(&mut again);
                manifest.files.push(again);
            });
            made.expect_err("refused").to_string()
        };
        assert_eq!(twice(&|_| {}), "it names a.parquet twice");
        assert_eq!(
            twice(&|again| again.file = Some("0123abcd/a.parquet".to_string())),
            "it names a.parquet twice"
        );
        let other = twice(&|again| {
            again.path = "b.parquet".to_string();
            again.file = Some("a.parquet".to_string());
        });
        assert_eq!(other, "two of its entries are in a.parquet");
        let dictionary = signed(|manifest| {
            let entry =
                DictionaryEntry { file: Some("a.parquet".to_string()), ..manifest.dictionary.clone() };
            manifest.later_dictionaries.push(entry);
        });
        assert_eq!(dictionary.expect_err("refused").to_string(), "two of its entries are in a.parquet");
    }

    #[tokio::test]
    async fn a_dictionary_has_as_many_bytes_as_are_recorded() {
        let store: std::sync::Arc<dyn ObjectStore> =
            std::sync::Arc::new(object_store::memory::InMemory::new());
        let folder = Path::from("archive");
        let bytes = include_bytes!("../../tests/golden/archive_v1/dictionary.parquet").to_vec();
        store.put(&Path::from("archive/dictionary.parquet"), bytes.into()).await.expect("stored");
        for (more, is_right) in [(0, true), (1, false)] {
            let manifest = signed(|manifest| manifest.dictionary.bytes += more).expect("signed");
            let text = serde_json::to_vec(&manifest).expect("a text");
            store.put(&Path::from("archive/archive.json"), text.into()).await.expect("stored");
            let opened = super::super::Archive::open(store.clone(), folder.clone()).await;
            assert_eq!(opened.as_ref().err().map(ToString::to_string).is_none(), is_right, "{opened:?}");
            if let Err(error) = opened {
                assert!(
                    error.to_string().contains("dictionary.parquet")
                        && error.to_string().contains("recorded")
                );
            }
        }
    }
}
