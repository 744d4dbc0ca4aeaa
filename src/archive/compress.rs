//! The job that makes an archive: files in, data files out, one after the other.

use std::collections::HashSet;
use std::sync::Arc;

use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode};

use super::footer::ALL_TOGETHER;
use super::job::{Input, Job, JobObserver, JobProgress, JobReport};
use super::layout::{Layout, Table};
use super::layout_request::find_layout;
use super::manifest::{
    DictionaryEntry, FileEntry, Found, HistoryEntry, JOB_FILE, Manifest, hash_of, place, shown,
};
use super::opened::Generation;
use super::prepare::{self, Request};
use super::quantiser::Bound;
use super::site::{Site, cannot_create};
use super::source::Source;
use super::work::Work;
use super::{ArchiveError, FORMAT_VERSION, Result, dictionary_file};
use crate::columnar::dictionary_to_bytes;

/// Sensors coded together, so that one of many can be read alone.
const GROUP_SENSORS: usize = 64;
/// Tables with fewer values are coded in one piece: the pieces' own tables would be too large a share.
const GROUPED_FROM: u64 = 1 << 23;

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

/// The same in a folder that is yet to be put in its place: `job.json` stays in it, by which a run that is stopped
/// meanwhile is known to be done.
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
        return Err(ArchiveError::Exists(shown(store.as_ref(), folder)));
    }
    let (mut sources, failed) = open_all(inputs, observer).await;
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
    let site = match &old {
        Some(old) if job.overwrite => Site::within(store, folder, &format!("{id} {}", old.manifest.hash)),
        _ if job.resume => Site::own(store, folder),
        _ => Site::shared(store, folder).await?,
    };
    if let Some(found) = old.as_ref().filter(|_| !job.overwrite) {
        // Unless the same job was stopped when all was done, and nothing was added since.
        let is_same =
            matches!(unfinished(&site, &id).await, Ok(Some(_))) && found.manifest.history.len() == 1;
        if !is_same {
            return Err(ArchiveError::Exists(shown(store.as_ref(), folder)));
        }
    }
    let plan = Plan { site: &site, id: &id, folder, old, bound, table, sources, failed };
    match carry_out(plan, job, observer).await {
        Ok(report) => Ok((report, site)),
        Err(error) => {
            if job.resume && !matches!(error, ArchiveError::Cancelled | ArchiveError::OtherJob(_)) {
                discard_if_useless(&site, &id).await;
            }
            Err(error)
        }
    }
}

/// What is to be done, and where.
struct Plan<'a> {
    site: &'a Site,
    id: &'a str,
    folder: &'a Path,
    /// The archive that is there.
    old: Option<Found>,
    bound: Bound,
    table: Table,
    sources: Vec<Source>,
    failed: Vec<(String, ArchiveError)>,
}

async fn carry_out(plan: Plan<'_>, job: &Job, observer: &dyn JobObserver) -> Result<JobReport> {
    let Plan { site, id, folder, old, bound, table, mut sources, mut failed } = plan;
    let store = &site.store;
    let group_sensors = group_sensors(rows_of(&sources), &table);
    let resumed = if job.resume { unfinished(site, id).await? } else { None };
    let (generation, dictionary) = match resumed {
        Some(found) => found,
        None => {
            if job.resume {
                store.put(&site.job_file(), id.as_bytes().to_vec().into()).await?;
            }
            // What a dictionary has been learned from is what it knows.
            let is_compared = job.retrain_on_drift || job.dictionary.is_some();
            let request = Request { bound, target: job.target, learn: job.learn.clone(), is_compared };
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
            let stored = prepare::store_dictionary(site, 0, &generation).await?;
            (generation, stored)
        }
    };
    let mut work = Work {
        site,
        generation,
        number: 0,
        archive: None,
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
        Some(_) if job.overwrite && !report.failed.is_empty() => {
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
        None => report.files = begin(&work, manifest, store, folder).await?,
    }
    Ok(report)
}

/// Nothing is left of a job that has finished no file. What is not this job's stays.
async fn discard_if_useless(site: &Site, id: &str) {
    let found = site.store.get(&site.job_file()).await;
    let Ok(found) = async { found?.bytes().await }.await else { return };
    let folder = site.job_folder();
    let listing = site.store.list(Some(&folder).filter(|folder| !folder.is_root()));
    let listing: object_store::Result<Vec<Path>> =
        listing.map_ok(|object| object.location).try_collect().await;
    let Ok(all) = listing else { return };
    let is_own = |object: &Path| {
        let mut below = object.prefix_match(&folder).into_iter().flatten();
        let name = below.next();
        let is_own = |name: &str| name == JOB_FILE || dictionary_file::is_file_name(name);
        name.is_some_and(|name| is_own(name.as_ref())) && below.next().is_none()
    };
    if found == id.as_bytes() && all.iter().all(is_own) {
        for object in all {
            // What cannot be removed only takes space.
            let _ = site.store.delete(&object).await;
        }
    }
}

/// Writes the manifest of a new archive where others may do the same at this moment: one of them wins.
async fn begin(
    work: &Work<'_>,
    mut manifest: Manifest,
    store: &Arc<dyn ObjectStore>,
    folder: &Path,
) -> Result<Vec<FileEntry>> {
    work.site.sync(written_names(&manifest)).await?;
    let written = match work.site.publish_all(&mut manifest) {
        Ok(()) => manifest.clone().write(store.as_ref(), folder, PutMode::Create).await,
        Err(error) => Err(error),
    };
    match written {
        Ok(_) => {}
        // Stores and file systems that cannot tell have one writer at a time.
        Err(ArchiveError::Store(error)) if cannot_create(&error) => {
            manifest.clone().write(store.as_ref(), folder, PutMode::Overwrite).await?;
        }
        Err(error) => {
            let exists = matches!(&error, ArchiveError::Store(object_store::Error::AlreadyExists { .. }));
            let error = if exists { ArchiveError::Exists(shown(store.as_ref(), folder)) } else { error };
            work.unless_written(store, folder, &manifest.files, error).await?;
        }
    }
    Ok(manifest.files)
}

/// What the files of a new archive were written as.
fn written_names(manifest: &Manifest) -> impl Iterator<Item = String> {
    let dictionaries = (0..).zip(manifest.dictionaries()).map(|(number, entry)| entry.file_name(number));
    dictionaries.chain(manifest.files.iter().map(|file| file.path.clone()))
}

/// Removes files that are no part of an archive any more. What cannot be removed only takes space.
async fn remove(store: &Arc<dyn ObjectStore>, folder: &Path, files: impl Iterator<Item = String>) {
    for file in files {
        if let Ok(path) = Path::parse(format!("{folder}/{file}")) {
            let _ = store.delete(&path).await;
        }
    }
}

pub(super) fn value_bytes(table: &Table, generation: &Generation, files: &[FileEntry]) -> u64 {
    let in_row = table.value_bytes(generation.codebook.sensors());
    files.iter().map(|file| file.rows).sum::<u64>() * in_row as u64
}

pub(super) async fn open_all(
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
    // As a whole: another parameter of its kernel makes it another dictionary.
    let given = job.dictionary.as_ref().map(dictionary_to_bytes).transpose()?;
    let given = given.map(|dictionary| hash_of(&dictionary));
    // Files of a job that does not learn again are not those of one that does.
    let settings = (job.bound, job.target, &job.learn, job.retrain_on_drift);
    let text = serde_json::to_string(&(FORMAT_VERSION, files, layout, settings, given))?;
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
        return Err(ArchiveError::OtherJob(shown(site.store.as_ref(), &file)));
    }
    prepare::stored_dictionary(site, 0).await
}

/// Sensors that are coded together, in tables with so many rows.
pub(super) fn group_sensors(rows: u64, table: &Table) -> usize {
    let values = rows.saturating_mul(table.values.len() as u64);
    if values < GROUPED_FROM { ALL_TOGETHER } else { GROUP_SENSORS }
}

pub(super) fn rows_of(sources: &[Source]) -> u64 {
    sources.iter().map(|source| source.rows).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::{Dictionary, kernels};

    #[test]
    fn a_job_is_known_by_all_of_its_dictionary() {
        let identity = |sigma: f64, lambda: f64| {
            let kernel = kernels::build("rbf", &|name| (name == "sigma").then_some(sigma)).expect("a kernel");
            let dictionary = Dictionary::new(vec![1.0, 2.0], 2, kernel, lambda, None).expect("a dictionary");
            let job = Job { dictionary: Some(dictionary), ..Job::default() };
            job_identity(&[], &job, &Layout::List { column: "v".to_string() }).expect("an identity")
        };
        assert_eq!(identity(1.0, 0.1), identity(1.0, 0.1));
        assert_ne!(identity(1.0, 0.1), identity(2.0, 0.1));
        assert_ne!(identity(1.0, 0.1), identity(1.0, 0.2));
    }
}
