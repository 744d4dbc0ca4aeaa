//! The job that adds files to an archive.

use std::sync::{Arc, Mutex, PoisonError};

use arrow::datatypes::SchemaRef;
use object_store::ObjectStore;
use object_store::path::Path;

use super::compress::{group_sensors, open_all, rows_of, value_bytes};
use super::copied::unreadable;
use super::job::{Input, Job, JobObserver, JobProgress, JobReport};
use super::layout::{Layout, Table};
use super::manifest::{DictionaryEntry, FileEntry, HistoryEntry, Manifest};
use super::opened::{Archive, Generation};
use super::site::Site;
use super::source::Source;
use super::work::Work;
use super::{ArchiveError, Result, dictionary_file};
use crate::math::MathError;

/// What files are added to.
pub(super) struct Existing<'a> {
    /// The latest dictionary, and its number.
    pub generation: Generation,
    pub number: u32,
    /// The archive as it is at this moment.
    pub archive: &'a Archive,
    /// The columns of the archive's tables, unless it has none.
    pub schema: Option<SchemaRef>,
}

/// Adds files to an archive, with its dictionary and bound.
pub(super) async fn append(
    inputs: &[Input],
    store: &Arc<dyn ObjectStore>,
    folder: &Path,
    existing: Existing<'_>,
    job: &Job,
    observer: &dyn JobObserver,
) -> Result<JobReport> {
    let Existing { generation, number, archive, schema } = existing;
    let current = archive.manifest();
    let (mut sources, mut failed) = open_all(inputs, observer).await;
    let skipped = leave_out_known(&mut sources, &mut failed, current, job.skip_existing, observer).await;
    leave_out_of_other_partitions(&mut sources, &mut failed, current, observer);
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
    let site = Site::shared(store, folder).await?;
    let work = Work {
        site: &site,
        generation,
        number,
        archive: Some(archive),
        later: Vec::new(),
        written: Vec::new(),
        schema: &schema,
        group_sensors: group_sensors(rows_of(&sources), &table),
        observer,
        progress: JobProgress::new(&sources),
        job,
    };
    let added = add(work, &sources, failed, &table, folder, current).await;
    if let Err(ArchiveError::Cancelled | ArchiveError::Math(MathError::Cancelled)) = &added
        && job.resume
    {
        site.keep();
    }
    Ok(JobReport { skipped, ..added? })
}

/// Codes files, and adds them to what the archive has by then.
async fn add(
    mut work: Work<'_>,
    sources: &[Source],
    failed: Vec<(String, ArchiveError)>,
    table: &Table,
    folder: &Path,
    current: &Manifest,
) -> Result<JobReport> {
    let (site, number) = (work.site, work.number);
    // Where a dictionary did not pay, more data may change that.
    if has_outgrown(&work.generation, rows_of(sources))
        && let Err(error) = work.learn_next(sources).await
        && error.ends_a_job()
    {
        return Err(error);
    }
    let mut report = work.run(sources, failed).await?;
    if report.files.is_empty() {
        return Ok(report);
    }
    report.value_bytes = value_bytes(table, &work.generation, &report.files);
    let history = HistoryEntry::new("append", &report.files);
    let dictionaries = (number + 1..).zip(&work.later).map(|(number, entry)| entry.file_name(number));
    site.sync(dictionaries.chain(report.files.iter().map(|file| file.path.clone()))).await?;
    // What they are called and numbered where they were added.
    let added = Mutex::new(None);
    // Others may have added files meanwhile, and dictionaries.
    let updated = Manifest::update(site.store.as_ref(), folder, |manifest| {
        if !manifest.continues(current) {
            return Err(ArchiveError::Replaced);
        }
        check_new(manifest, report.files.iter().map(|file| file.path.as_str()))?;
        let numbers = add_dictionaries(&work.later, number, manifest, site)?;
        let mut files = report.files.clone();
        for file in &mut files {
            file.generation = numbers(file.generation);
            site.publish(file)?;
        }
        manifest.history.push(history.clone());
        manifest.files.extend(files.iter().cloned());
        *added.lock().unwrap_or_else(PoisonError::into_inner) = Some(files);
        Ok(())
    });
    let updated = updated.await;
    let named = added.into_inner().unwrap_or_else(PoisonError::into_inner);
    let manifest = match (updated, named) {
        (Ok(manifest), _) => manifest,
        (Err(error), Some(files)) => work.unless_written(&site.store, folder, &files, error).await?,
        // Without a name a file is in no manifest.
        (Err(error), None) if site.is_staged() => {
            site.withdraw(&[]).await;
            return Err(error);
        }
        (Err(error), None) => work.unless_written(&site.store, folder, &report.files, error).await?,
    };
    report.dictionary_bytes = manifest.dictionaries().map(|entry| entry.bytes).sum();
    // As they are numbered there.
    let as_added = |file: &FileEntry| manifest.files.iter().find(|added| added.path == file.path).cloned();
    report.files = report.files.iter().filter_map(as_added).collect();
    for drift in report.drift.iter_mut().filter(|drift| drift.generation.is_some()) {
        let file = report.files.iter().find(|file| file.path == drift.file);
        drift.generation = file.map(|file| file.generation);
    }
    Ok(report)
}

/// Signals that are added to so many times fewer that codes were not worth a dictionary for.
const OUTGROWN: u64 = 4;

/// Whether a dictionary should be learned that was not worth its bytes for the rows that were there.
fn has_outgrown(Generation { codebook, description, .. }: &Generation, rows: u64) -> bool {
    let added = match description.layout {
        Layout::Long { .. } | Layout::Window { .. } => rows / codebook.sensors() as u64,
        _ => rows,
    };
    let none_wanted = description.learn.atoms == Some(0);
    let has_grown = added >= OUTGROWN * description.learned_from.max(1);
    description.kept.is_some() || (codebook.atoms() == 0 && !none_wanted && has_grown)
}

/// Adds dictionaries to an archive, and says which numbers they have there: `number` was the last one when they
/// were learned.
fn add_dictionaries(
    later: &[DictionaryEntry],
    number: u32,
    manifest: &mut Manifest,
    site: &Site,
) -> Result<impl Fn(u32) -> u32 + use<>> {
    let mut numbers = Vec::new();
    for entry in later {
        let known = manifest.dictionaries().position(|other| other.hash == entry.hash);
        numbers.push(known.unwrap_or_else(|| manifest.dictionaries().count()) as u32);
        if known.is_none() {
            // The usual name is that of another number now.
            let written = entry.file_name(number + numbers.len() as u32);
            let usual = dictionary_file::file_name(manifest.dictionaries().count() as u32);
            let file = site.publish_dictionary(written, &usual, &entry.hash)?;
            manifest.later_dictionaries.push(DictionaryEntry { file, ..entry.clone() });
        }
    }
    Ok(move |of: u32| of.checked_sub(number + 1).and_then(|i| numbers.get(i as usize).copied()).unwrap_or(of))
}

/// Leaves out the tables that an archive has files of already. They fail, unless they are to be passed over and are what
/// the archive's files were made from: how many of these there are.
async fn leave_out_known(
    sources: &mut Vec<Source>,
    failed: &mut Vec<(String, ArchiveError)>,
    manifest: &Manifest,
    skip: bool,
    observer: &dyn JobObserver,
) -> usize {
    let mut skipped = 0;
    let (mut new, mut taken) = (Vec::new(), Vec::new());
    for source in sources.drain(..) {
        let Input { store, path, name } = &source.input;
        let error = match manifest.files.iter().find(|file| file.path == *name) {
            None => {
                new.push(source);
                continue;
            }
            Some(_) if !skip => ArchiveError::Taken(name.clone()),
            Some(known) => match known.is_made_from(store, path).await {
                Ok(true) => {
                    skipped += 1;
                    continue;
                }
                Ok(false) => ArchiveError::TakenByOther(name.clone()),
                Err(error) => unreadable(error),
            },
        };
        taken.push((name.clone(), error));
    }
    *sources = new;
    // Where nothing is left to do the job fails, and tells why.
    if !sources.is_empty() {
        taken.iter().for_each(|(name, error)| observer.on_failure(name, error));
    }
    failed.extend(taken);
    skipped
}

/// Leaves out tables of other partitions than the archive's: its queries would have no columns for them. Where its files
/// differ in that already, nothing is lost.
fn leave_out_of_other_partitions(
    sources: &mut Vec<Source>,
    failed: &mut Vec<(String, ArchiveError)>,
    manifest: &Manifest,
    observer: &dyn JobObserver,
) {
    let mut known: Vec<Vec<String>> = manifest.files.iter().map(|file| partition_names(&file.path)).collect();
    known.sort();
    known.dedup();
    let [partitions] = &known[..] else { return };
    let mut others = Vec::new();
    sources.retain(|source| {
        let fits = partition_names(&source.input.name) == *partitions;
        if !fits {
            let wanted = match partitions.is_empty() {
                true => "in no partitions".to_string(),
                false => format!("in partitions by {}", partitions.join(", ")),
            };
            let error = format!(
                "the archive's files are {wanted}, this one is not; name the folder that they are in"
            );
            others.push((source.input.name.clone(), ArchiveError::layout(error)));
        }
        fits
    });
    if !sources.is_empty() {
        others.iter().for_each(|(name, error)| observer.on_failure(name, error));
    }
    failed.extend(others);
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
