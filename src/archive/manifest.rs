//! `archive.json`: which files belong to an archive.
//!
//! It is written last, so that an archive is there as a whole or not at all. Its own hash is the value of
//! `hash`, computed with that value empty.

use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use serde::{Deserialize, Serialize};
use twox_hash::{XxHash3_64, XxHash3_128};

use super::error_sums::ErrorSums;
use super::{ArchiveError, FORMAT_VERSION, Result, dictionary_file};

pub(crate) const FILE_NAME: &str = "archive.json";

/// What belongs to an unfinished job; never part of an archive.
pub(crate) const JOB_FILE: &str = "job.json";

/// The place of a data file, whose name must stay below the archive and must not be one of its own files.
pub(crate) fn place(folder: &Path, name: &str) -> Result<Path> {
    let own = [FILE_NAME, JOB_FILE].contains(&name) || dictionary_file::is_file_name(name);
    let outside = |part: &str| part.is_empty() || part == "." || part == ".." || part.contains(['\\', '\0']);
    if own || name.split('/').any(outside) {
        return Err(ArchiveError::layout(format!("a data file cannot be called {name}")));
    }
    // As it is: joining would encode characters that file systems do not mind.
    Path::parse(format!("{folder}/{name}")).map_err(|error| ArchiveError::layout(format!("{name}: {error}")))
}

/// XXH3-128 as text.
pub(crate) fn hash_of(bytes: &[u8]) -> String {
    format!("{:032x}", XxHash3_128::oneshot(bytes))
}

/// XXH3-64 as text, of a column chunk.
pub(crate) fn chunk_hash(bytes: &[u8]) -> String {
    format!("{:016x}", XxHash3_64::oneshot(bytes))
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
    /// XXH3-128 of the file.
    pub hash: String,
}

/// One data file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FileEntry {
    /// Where it is, relative to the archive.
    pub path: String,
    /// Its rows.
    pub rows: u64,
    /// Its bytes.
    pub bytes: u64,
    /// XXH3-128 of the file.
    pub hash: String,
    /// Bytes of its footer.
    pub footer_bytes: u64,
    /// XXH3-128 of its footer, from the metadata to the end of the file.
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

impl Manifest {
    /// The dictionaries, the first one first.
    pub fn dictionaries(&self) -> impl Iterator<Item = &DictionaryEntry> {
        std::iter::once(&self.dictionary).chain(&self.later_dictionaries)
    }

    fn content_hash(&self) -> Result<String> {
        let unsigned = Self { hash: String::new(), ..self.clone() };
        Ok(hash_of(serde_json::to_string(&unsigned)?.as_bytes()))
    }

    pub async fn write(mut self, store: &dyn ObjectStore, folder: &Path) -> Result<Self> {
        self.hash = self.content_hash()?;
        let text = serde_json::to_string(&self)?;
        store.put(&folder.clone().join(FILE_NAME), text.into_bytes().into()).await?;
        Ok(self)
    }

    /// `None` where there is no archive.
    pub async fn read(store: &dyn ObjectStore, folder: &Path) -> Result<Option<(Self, u64)>> {
        let bytes = match store.get(&folder.clone().join(FILE_NAME)).await {
            Ok(found) => found.bytes().await?,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        Self::parse(&bytes)
            .map(|manifest| Some((manifest, bytes.len() as u64)))
            .map_err(|error| error.at(FILE_NAME))
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
        }
        Ok(manifest)
    }
}
