//! An archive that is there: read, checked, added to.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use serde::Serialize;

use super::append::{Existing, append, partition_names};
use super::choose::{Target, Tried};
use super::codebook::Codebook;
use super::compare::compare;
use super::data_file::DataFile;
use super::dictionary_file::{self, Description};
use super::drift::Promise;
use super::error_sums::ErrorSums;
use super::hashes::hash_file;
use super::job::{Input, Job, JobObserver, JobReport};
use super::layout::Layout;
#[cfg(feature = "sql")]
use super::learn::{LearnSettings, given};
use super::manifest::{ErrorSummary, FileEntry, Found, HistoryEntry, Manifest, hash_of, place, shown};
use super::pool::compute;
use super::portrait::{Portrait, Values};
use super::quantiser::Bound;
use super::{ArchiveError, Result};
#[cfg(feature = "sql")]
use crate::math::Dictionary;

/// An archive that has been opened.
#[derive(Debug, Clone)]
pub struct Archive {
    store: Arc<dyn ObjectStore>,
    folder: Path,
    manifest: Manifest,
    manifest_bytes: u64,
    /// The dictionaries; the last one is for files that are added.
    generations: Vec<Generation>,
}

/// One of an archive's dictionaries.
#[derive(Debug, Clone)]
pub(super) struct Generation {
    pub codebook: Arc<Codebook>,
    pub description: Description,
    /// What signals are like that it is for, where that is known so far.
    pub portrait: Option<Arc<Portrait>>,
}

impl Generation {
    /// Whether what signals are like tells all that has changed. Codes alone make of other signals what the dictionary
    /// knows, so that what comes back from them does not.
    pub fn is_told_by_portrait(&self) -> bool {
        let is_close = |portrait: &Arc<Portrait>| {
            portrait.values == Values::Original || self.description.bound != Bound::None
        };
        // Without atoms there are no codes that could fit less well than they did.
        self.codebook.atoms() == 0 || self.portrait.as_ref().is_some_and(is_close)
    }
}

/// What checking an archive has found.
#[derive(Debug, Clone, Serialize)]
pub struct Verification {
    /// Files that are as they were written.
    pub files: u64,
    /// Their rows.
    pub rows: u64,
    /// Files that were compared with their originals and match them.
    pub matched: u64,
    /// The errors: computed anew where the originals are given, else as recorded.
    pub error: ErrorSummary,
    /// What is wrong, file by file.
    pub problems: Vec<(String, String)>,
}

impl Archive {
    /// Opens the archive in a folder.
    pub async fn open(store: Arc<dyn ObjectStore>, folder: Path) -> Result<Self> {
        let found = Manifest::read(store.as_ref(), &folder).await?;
        let found = found.ok_or_else(|| ArchiveError::NotAnArchive(shown(store.as_ref(), &folder)))?;
        Self::with_manifest(store, folder, found, Vec::new()).await
    }

    /// Reads the dictionaries that a manifest names, but for the first ones, which are known.
    async fn with_manifest(
        store: Arc<dyn ObjectStore>,
        folder: Path,
        found: Found,
        mut generations: Vec<Generation>,
    ) -> Result<Self> {
        let (manifest, manifest_bytes) = (found.manifest, found.bytes);
        for (generation, entry) in (0..).zip(manifest.dictionaries()).skip(generations.len()) {
            let name = entry.file_name(generation);
            let path = name.split('/').fold(folder.clone(), |path, part| path.join(part));
            let read = async {
                let bytes = store.get(&path).await?.bytes().await?;
                if hash_of(&bytes) != entry.hash {
                    return Err(ArchiveError::corrupt("its content does not match its hash"));
                }
                if bytes.len() as u64 != entry.bytes {
                    let (found, told) = (bytes.len(), entry.bytes);
                    return Err(ArchiveError::corrupt(format!(
                        "it has {found} bytes, and {told} are recorded"
                    )));
                }
                compute("reading a dictionary", move || dictionary_file::read(bytes)).await
            };
            let (codebook, description) = read.await.map_err(|error| error.at(name))?;
            generations.push(Generation { codebook: Arc::new(codebook), description, portrait: None });
        }
        Ok(Self { store, folder, manifest, manifest_bytes, generations })
    }

    /// The archive as it is now, if it was changed since it was opened. Dictionaries that are known are not read again.
    #[cfg(feature = "sql")]
    pub(crate) async fn changed(&self) -> Result<Option<Self>> {
        let found = Manifest::read(self.store.as_ref(), &self.folder).await?;
        let found =
            found.ok_or_else(|| ArchiveError::NotAnArchive(shown(self.store.as_ref(), &self.folder)))?;
        if found.manifest.hash == self.manifest.hash {
            return Ok(None);
        }
        let continues = found.manifest.continues(&self.manifest);
        let known = if continues { self.generations.clone() } else { Vec::new() };
        Self::with_manifest(self.store.clone(), self.folder.clone(), found, known).await.map(Some)
    }

    /// Whether it has all that an earlier one has, and perhaps more.
    #[cfg(feature = "sql")]
    pub(crate) fn continues(&self, earlier: &Self) -> bool {
        self.manifest.continues(&earlier.manifest)
    }

    /// What learning was told when the latest dictionary was made.
    #[cfg(feature = "sql")]
    pub(crate) fn learn_settings(&self) -> &LearnSettings {
        &self.latest().description.learn
    }

    /// Whether one of its dictionaries is this one, as archives round it.
    #[cfg(feature = "sql")]
    pub(crate) fn is_made_with(&self, dictionary: &Dictionary) -> Result<bool> {
        for Generation { codebook, description, .. } in &self.generations {
            let (kernel, own) = (dictionary.kernel(), codebook.kernel());
            let same = kernel.name() == own.name()
                && kernel.parameters() == own.parameters()
                && dictionary.lambda() == codebook.lambda()
                && dictionary.dim() == codebook.sensors();
            if same && given(dictionary, description.bound)?.hash() == codebook.hash() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The dictionary that files are added with.
    fn latest(&self) -> &Generation {
        // Cannot be empty: a manifest has at least one dictionary.
        &self.generations[self.generations.len() - 1]
    }

    pub(super) fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The data files.
    pub fn files(&self) -> &[FileEntry] {
        &self.manifest.files
    }

    /// What was done to the archive.
    pub fn history(&self) -> &[HistoryEntry] {
        &self.manifest.history
    }

    /// The latest dictionary: files that are added are coded with it.
    pub fn codebook(&self) -> &Arc<Codebook> {
        &self.latest().codebook
    }

    /// How many dictionaries there are: one, and one for each time that data had drifted.
    pub fn generations(&self) -> usize {
        self.generations.len()
    }

    /// How the table holds its values.
    pub fn layout(&self) -> &Layout {
        &self.latest().description.layout
    }

    /// Signals that the latest dictionary was learned from; 0 if it was given.
    pub fn learned_from(&self) -> u64 {
        self.latest().description.learned_from
    }

    /// What the archive was made for, if parameters were chosen for a target.
    pub fn target(&self) -> Option<Target> {
        self.latest().description.target
    }

    /// What learning has promised for a generation.
    pub fn promise(&self, generation: u32) -> Option<Promise> {
        self.generations.get(generation as usize)?.description.promise
    }

    /// Why tables are stored as they were, where a dictionary does not pay.
    pub fn kept(&self) -> Option<&str> {
        self.latest().description.kept.as_deref()
    }

    /// What was compared to choose the latest dictionary's parameters.
    pub fn search(&self) -> &[Tried] {
        &self.latest().description.search
    }

    /// Bytes of the dictionaries' files.
    pub fn dictionary_bytes(&self) -> u64 {
        self.manifest.dictionaries().map(|entry| entry.bytes).sum()
    }

    /// Bytes of all files.
    pub fn total_bytes(&self) -> u64 {
        self.manifest_bytes
            + self.dictionary_bytes()
            + self.files().iter().map(|file| file.bytes).sum::<u64>()
    }

    /// Rows of the table.
    pub fn rows(&self) -> u64 {
        self.files().iter().map(|file| file.rows).sum()
    }

    /// The errors of all values.
    pub fn error(&self) -> ErrorSummary {
        self.error_sums().summary()
    }

    fn error_sums(&self) -> ErrorSums {
        let mut sums = ErrorSums::default();
        self.files().iter().for_each(|file| sums.merge(&file.error));
        sums
    }

    #[cfg(feature = "sql")]
    pub(crate) fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.store
    }

    #[cfg(feature = "sql")]
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The files of a dictionary that are coded with it and have not drifted.
    pub(super) fn steady_files(&self, generation: u32) -> Vec<&FileEntry> {
        let is_steady = |entry: &&FileEntry| {
            entry.generation == generation
                && entry.stored.is_none()
                && entry.drift.is_none()
                && entry.rows > 0
        };
        self.files().iter().filter(is_steady).collect()
    }

    fn path_of(&self, entry: &FileEntry) -> Result<Path> {
        place(&self.folder, entry.place())
    }

    /// Opens one of the data files; its footer is checked.
    pub(crate) async fn data_file(&self, entry: &FileEntry) -> Result<DataFile> {
        let path = self.path_of(entry)?;
        let open = async {
            let start = entry
                .bytes
                .checked_sub(entry.footer_bytes)
                .ok_or_else(|| ArchiveError::corrupt("its footer is larger than itself"))?;
            let footer = match self.store.get_range(&path, start..entry.bytes).await {
                Ok(footer) => footer,
                // A file that has become shorter is told by each store in its own words.
                Err(error) => match self.store.head(&path).await {
                    Ok(found) if found.size != entry.bytes => {
                        let (found, written) = (found.size, entry.bytes);
                        let told = format!("it has {found} bytes, and {written} were written");
                        return Err(ArchiveError::corrupt(told));
                    }
                    _ => return Err(error.into()),
                },
            };
            if hash_of(&footer) != entry.footer {
                return Err(ArchiveError::corrupt("its footer does not match its hash"));
            }
            let generation = self.generations.get(entry.generation as usize);
            let generation = generation.ok_or_else(|| {
                ArchiveError::corrupt(format!("there is no dictionary {}", entry.generation))
            })?;
            let codebook = entry.stored.is_none().then_some(&generation.codebook);
            let series = &generation.description.series;
            let mut file =
                DataFile::new(self.store.clone(), path.clone(), &footer, entry.bytes, series, codebook)?;
            file.stored_hashes = entry.stored.clone().map(Arc::new);
            if file.rows() != entry.rows {
                return Err(ArchiveError::corrupt("it has another number of rows"));
            }
            Ok(file)
        };
        open.await.map_err(|error: ArchiveError| error.at(&entry.path))
    }

    /// How many row groups a data file has.
    pub async fn row_groups(&self, file: &FileEntry) -> Result<usize> {
        Ok(self.data_file(file).await?.row_groups())
    }

    /// Some columns of one row group of a data file, by their numbers in [`Archive::schema`], decoded.
    pub async fn read(&self, file: &FileEntry, row_group: usize, columns: &[usize]) -> Result<RecordBatch> {
        let opened = self.data_file(file).await?;
        if row_group >= opened.row_groups() {
            return Err(ArchiveError::layout(format!("{} has no row group {row_group}", file.path)));
        }
        opened.read(row_group, columns).await.map_err(|error| error.at(&file.path))
    }

    /// The table's columns. Files that are stored as they were may declare theirs in another way.
    pub async fn schema(&self) -> Result<SchemaRef> {
        let coded = self.files().iter().find(|entry| entry.stored.is_none());
        match coded.or(self.files().first()) {
            Some(entry) => Ok(self.data_file(entry).await?.schema),
            None => Ok(Arc::new(arrow::datatypes::Schema::empty())),
        }
    }

    /// The promise on the error of all values: the loosest of its dictionaries'.
    pub fn bound(&self) -> Bound {
        let bounds = self.generations.iter().map(|generation| generation.description.bound);
        bounds.reduce(Bound::looser).unwrap_or(Bound::None)
    }

    /// The names of the hive partitions that all files are in.
    pub fn partitions(&self) -> Vec<String> {
        let mut names = self.files().iter().map(|file| partition_names(&file.path));
        let first = names.next().unwrap_or_default();
        if names.all(|other| other == first) { first } else { Vec::new() }
    }

    /// Checks every file against its hash, and that it can be read in full. Where the originals are given,
    /// compares with them: other columns must be equal, values within the bound, and none may be missing.
    pub async fn verify(&self, originals: Option<&[Input]>) -> Result<Verification> {
        let mut found =
            Verification { files: 0, rows: 0, matched: 0, error: self.error(), problems: Vec::new() };
        let mut sums = ErrorSums::default();
        for entry in self.files() {
            let checked = async {
                self.verify_file(entry).await?;
                let Some(originals) = originals else { return Ok(()) };
                let original = originals.iter().find(|input| input.name == entry.path);
                let original =
                    original.ok_or_else(|| ArchiveError::layout("there is no original of this name"))?;
                sums.merge(&compare(&self.data_file(entry).await?, original).await?);
                found.matched += 1;
                Ok(())
            };
            match checked.await {
                Ok(()) => {
                    found.files += 1;
                    found.rows += entry.rows;
                }
                Err::<(), ArchiveError>(error) => {
                    found.problems.push((entry.path.clone(), error.to_string()))
                }
            }
        }
        if let Some(originals) = originals {
            found.error = sums.summary();
            // Whoever removes what was verified must not lose them.
            let is_missing = |input: &&Input| self.files().iter().all(|entry| entry.path != input.name);
            let missing = originals.iter().filter(is_missing);
            found
                .problems
                .extend(missing.map(|input| (input.name.clone(), "it is not in the archive".to_string())));
        }
        Ok(found)
    }

    /// The files in its folder that it does not know, if that is a local one.
    #[cfg(feature = "cli")]
    pub(crate) async fn strangers(&self) -> Result<Vec<String>> {
        super::strangers::strangers(&self.store, &self.folder).await
    }

    async fn verify_file(&self, entry: &FileEntry) -> Result<()> {
        let found = hash_file(&self.store, &self.path_of(entry)?, None).await?;
        if found.length != entry.bytes || found.whole != entry.hash {
            return Err(ArchiveError::corrupt("its content does not match its hash"));
        }
        let file = self.data_file(entry).await?;
        let columns: Vec<usize> = (0..file.schema.fields().len()).collect();
        let mut rows = 0;
        for row_group in 0..file.row_groups() {
            let mut batches = file.rows_of(row_group, columns.clone());
            while let Some(batch) = batches.try_next().await? {
                rows += batch.num_rows() as u64;
            }
        }
        if rows != entry.rows {
            return Err(ArchiveError::corrupt(format!(
                "it has {rows} rows, and {} are recorded",
                entry.rows
            )));
        }
        let max = entry.error().max;
        let bound = match file.bound() {
            Some(Bound::MaxError(bound)) => bound,
            Some(Bound::Lossless) => 0.0,
            _ => f64::INFINITY,
        };
        if max > bound {
            return Err(ArchiveError::corrupt(format!(
                "an error of {max} is recorded, and {bound} promised"
            )));
        }
        Ok(())
    }

    /// Adds files, with the archive's latest dictionary and bound.
    pub async fn append(&self, inputs: &[Input], job: &Job, observer: &dyn JobObserver) -> Result<JobReport> {
        let manifest = Manifest::read(self.store.as_ref(), &self.folder).await?;
        let manifest = manifest
            .ok_or_else(|| ArchiveError::NotAnArchive(shown(self.store.as_ref(), &self.folder)))?
            .manifest;
        if !manifest.continues(&self.manifest) {
            return Err(ArchiveError::Replaced);
        }
        let schema = if self.files().is_empty() { None } else { Some(self.schema().await?) };
        // The rows of all files that there are by now tell what signals are like.
        let archive = Self { manifest, ..self.clone() };
        let (generation, number) = (self.latest().clone(), self.generations.len() as u32 - 1);
        let existing = Existing { generation, number, archive: &archive, schema };
        append(inputs, &self.store, &self.folder, existing, job, observer).await
    }
}
