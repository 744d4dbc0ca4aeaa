//! The job that makes an archive, or adds to one: files in, data files out, one after the other.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode};
use serde::Serialize;

use super::choose::Target;
use super::dictionary_file;
use super::drift::Drift;
use super::error_sums::ErrorSums;
use super::footer::ALL_TOGETHER;
use super::layout::{Layout, Table};
use super::layout_request::{LayoutRequest, find_layout};
use super::learn::LearnSettings;
use super::manifest::{DictionaryEntry, ErrorSummary, FileEntry, HistoryEntry, Manifest, hash_of, place};
use super::opened::Generation;
use super::prepare::{self, Request};
use super::quantiser::Bound;
use super::site::{Site, cannot_create};
use super::source::Source;
use super::work::Work;
use super::{ArchiveError, FORMAT_VERSION, Result};
use crate::math::{Dictionary, Observer};

/// Sensors coded together, so that one of many can be read alone.
const GROUP_SENSORS: usize = 64;
/// Tables with fewer values are coded in one piece: the pieces' own tables would be too large a share.
const GROUPED_FROM: u64 = 1 << 23;

/// One file to compress.
#[derive(Debug, Clone)]
pub struct Input {
    /// Where it is stored.
    pub store: Arc<dyn ObjectStore>,
    /// Its path there.
    pub path: Path,
    /// Its path in the archive.
    pub name: String,
}

/// What to do.
#[derive(Debug, Clone)]
pub struct Job {
    /// Which columns hold the values.
    pub layout: LayoutRequest,
    /// The promise on their errors.
    pub bound: Bound,
    /// What to choose the parameters for, instead of a bound.
    pub target: Option<Target>,
    /// A dictionary to use; one is learned otherwise.
    pub dictionary: Option<Dictionary>,
    /// How to learn it.
    pub learn: LearnSettings,
    /// Blocks that are worked on at the same time, by as many threads as the pool of `rayon` has.
    pub threads: usize,
    /// Whether to go on where an earlier run of the same job was stopped.
    pub resume: bool,
    /// Whether to learn another dictionary where data has drifted from what was learned from.
    pub retrain_on_drift: bool,
    /// Whether to replace an archive that is there. It can be read until the new one is whole.
    pub overwrite: bool,
    /// Whether files that an archive has already are passed over when files are added; else they fail.
    pub skip_existing: bool,
}

impl Default for Job {
    /// The only column of lists, codes alone, on all cores.
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            layout: LayoutRequest::Find,
            bound: Bound::None,
            target: None,
            dictionary: None,
            learn: LearnSettings::default(),
            threads,
            resume: true,
            retrain_on_drift: false,
            overwrite: false,
            skip_existing: false,
        }
    }
}

/// How far a job has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobProgress {
    /// Rows done.
    pub rows: u64,
    /// Rows to do.
    pub total_rows: u64,
    /// Bytes of the input's values done, in memory.
    pub bytes_in: u64,
    /// Bytes written.
    pub bytes_out: u64,
}

impl JobProgress {
    fn new(sources: &[Source]) -> Self {
        let total_rows = sources.iter().map(|source| source.rows).sum();
        Self { rows: 0, total_rows, bytes_in: 0, bytes_out: 0 }
    }
}

/// Is told how a job goes on, and may end it.
pub trait JobObserver: Observer {
    /// Called after every block.
    fn on_progress(&self, _progress: &JobProgress) {}
    /// Called when a file could not be compressed; the rest goes on.
    fn on_failure(&self, _file: &str, _error: &ArchiveError) {}
    /// Called when a file is no longer like what its dictionary was learned from.
    fn on_drift(&self, _drift: &Drift) {}
    /// Whether to stop.
    fn is_cancelled(&self) -> bool {
        false
    }
}

impl JobObserver for () {}

/// What a job has done.
#[derive(Debug, Clone, Default, Serialize)]
pub struct JobReport {
    /// Files written, or found finished.
    pub files: Vec<FileEntry>,
    /// Files that were finished by an earlier run.
    pub resumed: usize,
    /// Files that the archive had already and that were passed over.
    pub skipped: usize,
    /// Files that failed, and why.
    pub failed: Vec<(String, String)>,
    /// Files that the dictionary no longer fits.
    pub drift: Vec<Drift>,
    /// Bytes of the dictionaries.
    pub dictionary_bytes: u64,
    /// Bytes that the values of these files take in memory.
    pub value_bytes: u64,
}

impl JobReport {
    /// The errors of the values of these files.
    pub fn error(&self) -> ErrorSummary {
        let mut sums = ErrorSums::default();
        self.files.iter().for_each(|file| sums.merge(&file.error));
        sums.summary()
    }
}

/// Compresses files into a new archive at `folder`. Where an earlier run of the same job was stopped it
/// goes on; where there is an archive already it fails, unless that is to be replaced.
pub async fn compress(
    inputs: &[Input],
    store: &Arc<dyn ObjectStore>,
    folder: &Path,
    job: &Job,
    observer: &dyn JobObserver,
) -> Result<JobReport> {
    let (report, site) = make(inputs, store, folder, job, observer).await?;
    if job.resume {
        store.delete(&site.job_file()).await?;
    }
    Ok(report)
}

/// The same in a folder that is yet to be put in its place: `job.json` stays in it, by which a run that is stopped before
/// that is known to be done.
#[cfg(feature = "cli")]
pub(crate) async fn compress_aside(
    inputs: &[Input],
    store: &Arc<dyn ObjectStore>,
    folder: &Path,
    job: &Job,
    observer: &dyn JobObserver,
) -> Result<JobReport> {
    make(inputs, store, folder, job, observer).await.map(|(report, _)| report)
}

/// Makes an archive, all but the end of its job.
async fn make(
    inputs: &[Input],
    store: &Arc<dyn ObjectStore>,
    folder: &Path,
    job: &Job,
    observer: &dyn JobObserver,
) -> Result<(JobReport, Site)> {
    let bound = job.bound.check()?;
    job.learn.check()?;
    if job.target.is_some() && bound != Bound::None {
        return Err(ArchiveError::layout("a target and a bound cannot both be given"));
    }
    let old = Manifest::read(store.as_ref(), folder).await?;
    if old.is_some() && !job.overwrite && !job.resume {
        return Err(ArchiveError::Exists(folder.to_string()));
    }
    let (mut sources, mut failed) = open_all(inputs, observer).await;
    let Some(first) = sources.first() else {
        return Err(match failed.into_iter().next() {
            Some((name, error)) => error.at(name),
            None => ArchiveError::layout("there is nothing to compress"),
        });
    };
    let fitting = |source: &Source| -> Result<Table> {
        let layout = find_layout(&job.layout, &source.schema)?;
        Table::new(layout, source.schema.clone(), Vec::new())
    };
    // What most tables are like says what the others must look like.
    let mut kinds: Vec<(&Source, usize)> = Vec::new();
    for source in &sources {
        match kinds.iter_mut().find(|(kind, _)| kind.schema.fields() == source.schema.fields()) {
            Some((_, count)) => *count += 1,
            None => kinds.push((source, 1)),
        }
    }
    kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let table = match kinds.iter().find_map(|(source, _)| fitting(source).ok()) {
        Some(table) => table,
        None => fitting(first).map_err(|error| error.at(&first.input.name))?,
    };
    sources.iter_mut().for_each(|source| source.read_as(&table.schema));
    let layout = table.layout.clone();
    let id = job_identity(&sources, job, &layout)?;
    let group_sensors = group_sensors(rows_of(&sources), &table);
    if let Some(found) = old.as_ref().filter(|_| !job.overwrite) {
        let site = Site::own(store, folder);
        // The same job has been stopped when all was done.
        return match unfinished(&site, &id).await {
            Ok(Some((generation, _))) => {
                let files = found.manifest.files.clone();
                let value_bytes = value_bytes(&table, &generation, &files);
                let dictionary_bytes = found.manifest.dictionaries().map(|entry| entry.bytes).sum();
                let resumed = files.len();
                let failed = failed.into_iter().map(|(name, error)| (name, error.to_string())).collect();
                let report = JobReport {
                    files,
                    resumed,
                    failed,
                    dictionary_bytes,
                    value_bytes,
                    ..JobReport::default()
                };
                Ok((report, site))
            }
            _ => Err(ArchiveError::Exists(folder.to_string())),
        };
    }
    let site = match &old {
        Some(old) => Site::within(store, folder, &format!("{id} {}", old.manifest.hash)),
        None if job.resume => Site::own(store, folder),
        None => Site::shared(store, folder),
    };
    let resumed = if job.resume { unfinished(&site, &id).await? } else { None };
    let (generation, dictionary) = match resumed {
        Some(found) => found,
        None => {
            if job.resume {
                store.put(&site.job_file(), id.into_bytes().into()).await?;
            }
            let request = Request { bound, target: job.target, learn: job.learn.clone() };
            let generation = loop {
                let same = |source: &&Source| source.schema.fields() == table.schema.fields();
                let fitting: Vec<&Source> = sources.iter().filter(same).collect();
                let made = match &job.dictionary {
                    Some(dictionary) => {
                        prepare::take_over(&table, &fitting, dictionary, &request, group_sensors).await
                    }
                    None => prepare::learn(&table, &fitting, &request, group_sensors, observer).await,
                };
                match made {
                    // A file that cannot be read is one of several; the rest goes on without it.
                    Err(ArchiveError::File { path, error }) if fitting.len() > 1 && !error.ends_a_job() => {
                        observer.on_failure(&path, &error);
                        sources.retain(|source| source.input.name != path);
                        failed.push((path, *error));
                    }
                    other => break other?,
                }
            };
            let stored = prepare::store_dictionary(&site, 0, &generation).await?;
            (generation, stored)
        }
    };
    let mut work = Work {
        site: &site,
        generation,
        number: 0,
        later: Vec::new(),
        written: Vec::new(),
        schema: &table.schema,
        group_sensors,
        observer,
        progress: JobProgress::new(&sources),
        job,
    };
    let mut report = work.run(&sources, failed).await?;
    if let (true, Some((name, error))) = (report.files.is_empty(), report.failed.first()) {
        return Err(ArchiveError::layout(format!("none of the tables could be compressed: {name}: {error}")));
    }
    let manifest = Manifest {
        version: FORMAT_VERSION,
        dictionary,
        later_dictionaries: work.later.clone(),
        history: vec![HistoryEntry::new("compress", &report.files)],
        files: report.files.clone(),
        hash: String::new(),
    };
    report.dictionary_bytes = manifest.dictionaries().map(|entry| entry.bytes).sum();
    report.value_bytes = value_bytes(&table, &work.generation, &report.files);
    match old {
        Some(_) if !report.failed.is_empty() => {
            let (name, error) = report.failed.swap_remove(0);
            return Err(ArchiveError::layout(format!(
                "{} of {} files failed, so that the archive that was there is kept; the first is {name}: {error}",
                report.failed.len() + 1,
                report.failed.len() + 1 + report.files.len()
            )));
        }
        Some(old) => {
            let new: HashSet<String> = manifest.places().collect();
            manifest.replace(&old, store.as_ref(), folder).await?;
            remove(store, folder, old.manifest.places().filter(|file| !new.contains(file))).await;
        }
        None if job.resume => {
            manifest.write(store.as_ref(), folder, PutMode::Overwrite).await?;
        }
        None => begin(&work, manifest, store, folder).await?,
    }
    drop(work);
    Ok((report, site))
}

/// Writes the manifest of a new archive where others may do the same at this moment: one of them wins.
async fn begin(
    work: &Work<'_>,
    manifest: Manifest,
    store: &Arc<dyn ObjectStore>,
    folder: &Path,
) -> Result<()> {
    match manifest.clone().write(store.as_ref(), folder, PutMode::Create).await {
        Ok(_) => Ok(()),
        // Stores and file systems that cannot tell have one writer at a time.
        Err(ArchiveError::Store(error)) if cannot_create(&error) => {
            manifest.write(store.as_ref(), folder, PutMode::Overwrite).await.map(|_| ())
        }
        Err(error) => {
            let exists = matches!(&error, ArchiveError::Store(object_store::Error::AlreadyExists { .. }));
            let error = if exists { ArchiveError::Exists(folder.to_string()) } else { error };
            work.unless_written(store, folder, &manifest.files, error).await.map(|_| ())
        }
    }
}

/// Removes files that are no part of an archive any more. What cannot be removed only takes space.
async fn remove(store: &Arc<dyn ObjectStore>, folder: &Path, files: impl Iterator<Item = String>) {
    for file in files {
        if let Ok(path) = Path::parse(format!("{folder}/{file}")) {
            let _ = store.delete(&path).await;
        }
    }
}

/// What files are added to.
pub(super) struct Existing {
    /// The latest dictionary, and its number.
    pub generation: Generation,
    pub number: u32,
    /// The hash of its file.
    pub dictionary: String,
    /// The columns of the archive's tables, unless it has none.
    pub schema: Option<SchemaRef>,
    /// The parts of the path that say which partition a file is in.
    pub partitions: Vec<String>,
}

/// Adds files to an archive, with its dictionary and bound.
pub(super) async fn append(
    inputs: &[Input],
    store: &Arc<dyn ObjectStore>,
    folder: &Path,
    existing: Existing,
    job: &Job,
    observer: &dyn JobObserver,
) -> Result<JobReport> {
    let Existing { generation, number, dictionary, schema, partitions } = existing;
    let current = Manifest::read(store.as_ref(), folder).await?;
    let current = current.ok_or_else(|| ArchiveError::NotAnArchive(folder.to_string()))?.manifest;
    for input in inputs {
        if partition_names(&input.name) != partitions {
            return Err(ArchiveError::layout(format!(
                "{}: the archive's files are in partitions by {partitions:?}, this one is not",
                input.name
            )));
        }
    }
    let (mut sources, mut failed) = open_all(inputs, observer).await;
    let skipped = leave_out_known(&mut sources, &mut failed, &current, job.skip_existing, observer);
    let Some(first) = sources.first() else {
        return match failed.into_iter().next() {
            // Says itself which file it is about.
            Some((_, taken @ (ArchiveError::Taken(_) | ArchiveError::TakenByOther(_)))) => Err(taken),
            Some((name, error)) => Err(error.at(name)),
            None if skipped > 0 => Ok(JobReport { skipped, ..JobReport::default() }),
            None => Err(ArchiveError::layout("there is nothing to add")),
        };
    };
    let schema = schema.unwrap_or_else(|| first.schema.clone());
    sources.iter_mut().for_each(|source| source.read_as(&schema));
    let table = Table::new(generation.description.layout.clone(), schema.clone(), Vec::new())?;
    let site = Site::shared(store, folder);
    let mut work = Work {
        site: &site,
        generation,
        number,
        later: Vec::new(),
        written: Vec::new(),
        schema: &schema,
        group_sensors: group_sensors(rows_of(&sources), &table),
        observer,
        progress: JobProgress::new(&sources),
        job,
    };
    // Where a dictionary did not pay, more data may change that.
    if work.generation.description.kept.is_some()
        && let Err(error) = work.learn_next(&sources).await
        && error.ends_a_job()
    {
        return Err(error);
    }
    let mut report = work.run(&sources, failed).await?;
    report.skipped = skipped;
    if report.files.is_empty() {
        return Ok(report);
    }
    report.value_bytes = value_bytes(&table, &work.generation, &report.files);
    let history = HistoryEntry::new("append", &report.files);
    // Others may have added files meanwhile, and dictionaries.
    let updated = Manifest::update(store.as_ref(), folder, |manifest| {
        // What others add comes after what was there; a dictionary is what its files were coded with.
        let still_there = manifest.files.get(..current.files.len()).is_some_and(|files| {
            files.iter().zip(&current.files).all(|(now, before)| now.hash == before.hash)
        });
        let hash = |manifest: &Manifest| {
            manifest.dictionaries().nth(number as usize).map(|entry| entry.hash.clone())
        };
        if !still_there || hash(manifest) != Some(dictionary.clone()) {
            return Err(ArchiveError::layout(
                "the archive was replaced while files were added to it; nothing was added, run it again",
            ));
        }
        check_new(manifest, report.files.iter().map(|file| file.path.as_str()))?;
        let numbers = numbers_of(&work.later, number, manifest);
        manifest.history.push(history.clone());
        manifest.files.extend(report.files.iter().cloned().map(|mut file| {
            file.generation = numbers(file.generation);
            file
        }));
        Ok(())
    });
    match updated.await {
        Ok(manifest) => {
            report.dictionary_bytes = manifest.dictionaries().map(|entry| entry.bytes).sum();
            let added = manifest.files.len() - report.files.len();
            report.files = manifest.files[added..].to_vec();
            for drift in report.drift.iter_mut().filter(|drift| drift.generation.is_some()) {
                let file = report.files.iter().find(|file| file.path == drift.file);
                drift.generation = file.map(|file| file.generation);
            }
            Ok(report)
        }
        Err(error) => {
            let manifest = work.unless_written(store, folder, &report.files, error).await?;
            report.dictionary_bytes = manifest.dictionaries().map(|entry| entry.bytes).sum();
            Ok(report)
        }
    }
}

/// Adds dictionaries to an archive, and says which numbers they have there: `number` was the last one when they
/// were learned.
fn numbers_of(
    later: &[DictionaryEntry],
    number: u32,
    manifest: &mut Manifest,
) -> impl Fn(u32) -> u32 + use<> {
    let mut numbers = Vec::new();
    for entry in later {
        let known = manifest.dictionaries().position(|other| other.hash == entry.hash);
        numbers.push(known.unwrap_or_else(|| manifest.dictionaries().count()) as u32);
        if known.is_none() {
            // The usual name is that of another number now.
            let file = Some(entry.file_name(number + numbers.len() as u32));
            let usual = Some(dictionary_file::file_name(manifest.dictionaries().count() as u32));
            let file = file.filter(|file| Some(file) != usual.as_ref());
            manifest.later_dictionaries.push(DictionaryEntry { file, ..entry.clone() });
        }
    }
    move |of: u32| of.checked_sub(number + 1).and_then(|i| numbers.get(i as usize).copied()).unwrap_or(of)
}

fn value_bytes(table: &Table, generation: &Generation, files: &[FileEntry]) -> u64 {
    let in_row = table.value_bytes(generation.codebook.sensors());
    files.iter().map(|file| file.rows).sum::<u64>() * in_row as u64
}

/// Leaves out the tables that an archive has files of already. They fail, unless they are to be passed over and are what
/// the archive's files were made from: how many of these there are.
fn leave_out_known(
    sources: &mut Vec<Source>,
    failed: &mut Vec<(String, ArchiveError)>,
    manifest: &Manifest,
    skip: bool,
    observer: &dyn JobObserver,
) -> usize {
    let mut skipped = 0;
    let mut taken = Vec::new();
    sources.retain(|source| {
        let name = &source.input.name;
        let Some(known) = manifest.files.iter().find(|file| file.path == *name) else { return true };
        let is_same = known.source == source.identity() && known.source_bytes == source.bytes;
        match (skip, is_same) {
            (true, true) => skipped += 1,
            (true, false) => taken.push((name.clone(), ArchiveError::TakenByOther(name.clone()))),
            (false, _) => taken.push((name.clone(), ArchiveError::Taken(name.clone()))),
        }
        false
    });
    // Where nothing is left to do the job fails, and tells why.
    if !sources.is_empty() {
        taken.iter().for_each(|(name, error)| observer.on_failure(name, error));
    }
    failed.extend(taken);
    skipped
}

fn check_new<'a>(manifest: &Manifest, mut names: impl Iterator<Item = &'a str>) -> Result<()> {
    match names.find(|name| manifest.files.iter().any(|file| file.path == *name)) {
        Some(name) => Err(ArchiveError::Taken(name.to_string())),
        None => Ok(()),
    }
}

/// The names of the hive partitions that a file is in.
pub(crate) fn partition_names(path: &str) -> Vec<String> {
    let folders = path.rsplit_once('/').map_or("", |(folders, _)| folders);
    let parts = folders.split('/').filter_map(|part| part.split_once('='));
    parts.map(|(name, _)| name.to_string()).collect()
}

async fn open_all(
    inputs: &[Input],
    observer: &dyn JobObserver,
) -> (Vec<Source>, Vec<(String, ArchiveError)>) {
    let mut sources = Vec::new();
    let mut failed = Vec::new();
    for input in inputs {
        let named = place(&Path::default(), &input.name);
        let opened = match named {
            Ok(_) => Source::open(input).await,
            Err(error) => Err(error),
        };
        match opened {
            Ok(source) => sources.push(source),
            Err(error) => failed.push((input.name.clone(), error)),
        }
    }
    // Where nothing is left to do the job fails, and tells why.
    if !sources.is_empty() {
        failed.iter().for_each(|(name, error)| observer.on_failure(name, error));
    }
    (sources, failed)
}

/// What a job is known by: going on with another one's files would mix them up.
fn job_identity(sources: &[Source], job: &Job, layout: &Layout) -> Result<String> {
    let files: Vec<_> = sources.iter().map(Source::state).collect();
    let given = job.dictionary.as_ref().map(|dictionary| {
        let bytes: Vec<u8> = dictionary.atoms().iter().flat_map(|value| value.to_le_bytes()).collect();
        (hash_of(&bytes), dictionary.kernel().name(), dictionary.lambda().to_bits())
    });
    let text =
        serde_json::to_string(&(FORMAT_VERSION, files, layout, job.bound, job.target, &job.learn, given))?;
    Ok(hash_of(text.as_bytes()))
}

/// The first dictionary of an earlier run of the same job.
async fn unfinished(site: &Site, id: &str) -> Result<Option<(Generation, DictionaryEntry)>> {
    let file = site.job_file();
    let found = match site.store.get(&file).await {
        Ok(found) => found.bytes().await?,
        Err(object_store::Error::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if found != id.as_bytes() {
        return Err(ArchiveError::OtherJob(file.to_string()));
    }
    prepare::stored_dictionary(site, 0).await
}

/// Sensors that are coded together, in tables with so many rows.
pub(super) fn group_sensors(rows: u64, table: &Table) -> usize {
    let values = rows.saturating_mul(table.values.len() as u64);
    if values < GROUPED_FROM { ALL_TOGETHER } else { GROUP_SENSORS }
}

fn rows_of(sources: &[Source]) -> u64 {
    sources.iter().map(|source| source.rows).sum()
}
