//! A new archive in a local folder: made in a hidden one beside it, and moved there when it is whole.

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::paths::{local_store, publish, staging, store_path};
use crate::archive::{
    ArchiveError, Input, JOB_FILE, Job, JobObserver, JobReport, compress_aside, is_dictionary_name,
};

/// Makes an archive; `free` says that none is to be replaced.
pub(super) async fn run(
    target: &Path,
    free: bool,
    inputs: &[Input],
    job: &Job,
    observer: &dyn JobObserver,
) -> Result<JobReport> {
    let staging = staging(target)?;
    if is_foreign(&staging) {
        bail!("{} is in the way: archives are made there; rename it", staging.display());
    }
    let _lock = lock(&staging).with_context(|| format!("cannot write {}", target.display()))?;
    let folder = store_path(&staging)?;
    // What is replaced is elsewhere.
    let job = &Job { overwrite: false, ..job.clone() };
    let mut result = compress_aside(inputs, &local_store(), &folder, job, observer).await;
    if let Err(ArchiveError::OtherJob(_) | ArchiveError::Exists(_)) = &result {
        // What another job has left is of no use.
        clear(&staging)?;
        result = compress_aside(inputs, &local_store(), &folder, job, observer).await;
    }
    let report = match result {
        Ok(report) => report,
        Err(error) => {
            discard_if_useless(&staging, &error);
            return Err(error.into());
        }
    };
    if !free && let Some((name, error)) = report.failed.first() {
        let _ = std::fs::remove_dir_all(&staging);
        bail!(
            "{} of {} files failed, so that the archive that was there is kept; the first is {name}: {error}",
            report.failed.len(),
            report.failed.len() + report.files.len()
        );
    }
    remove_strays(&staging, &report)?;
    if target.is_dir() && free {
        std::fs::remove_dir(target)?;
    }
    // Until here a run that is killed is known by it.
    std::fs::remove_file(staging.join(JOB_FILE))?;
    publish(&staging, target)?;
    Ok(report)
}

/// Makes the folder where an archive is made, for one job at a time: the lock ends with the process, however that ends.
fn lock(staging: &Path) -> Result<Option<File>> {
    std::fs::create_dir_all(staging)?;
    // Elsewhere folders cannot be opened.
    if !cfg!(unix) {
        return Ok(None);
    }
    let folder = File::open(staging)?;
    match folder.try_lock() {
        Err(TryLockError::WouldBlock) => bail!("another job is making this archive at this moment"),
        // Where a file system has no locks there is one job at a time.
        Err(TryLockError::Error(error)) if error.kind() != ErrorKind::Unsupported => Err(error.into()),
        // That job may have ended in between, and have put the folder in its place.
        _ if !is_still_at(&folder, staging) => bail!("another job has made this archive at this moment"),
        _ => Ok(Some(folder)),
    }
}

#[cfg(unix)]
fn is_still_at(folder: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let known = |found: std::fs::Metadata| (found.dev(), found.ino());
    folder.metadata().ok().map(known) == path.metadata().ok().map(known)
}

#[cfg(not(unix))]
fn is_still_at(_folder: &File, _path: &Path) -> bool {
    true
}

/// Removes what is in a folder, which itself is locked.
fn clear(folder: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { std::fs::remove_dir_all(path)? } else { std::fs::remove_file(path)? }
    }
    Ok(())
}

/// A folder where archives are made that holds something else.
fn is_foreign(staging: &Path) -> bool {
    let names: Vec<String> = match staging.read_dir() {
        Ok(entries) => {
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
        }
        Err(_) => Vec::new(),
    };
    let occupied = !names.is_empty();
    // A job that was killed early has left `job.json#1`, which was to become the file.
    let ours = names.iter().any(|name| name == "archive.json" || name.starts_with(JOB_FILE));
    staging.is_file() || (occupied && !ours)
}

/// Nothing is left of a job that has finished no file, unless it was stopped on purpose.
fn discard_if_useless(staging: &Path, error: &ArchiveError) {
    let finished = staging.read_dir().is_ok_and(|entries| {
        entries.flatten().any(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            name != JOB_FILE && !is_dictionary_name(&name) && !name.contains('#')
        })
    });
    if !finished && !matches!(error, ArchiveError::Cancelled) {
        let _ = std::fs::remove_dir_all(staging);
    }
}

/// Removes what earlier runs that were killed have left half written.
fn remove_strays(staging: &Path, report: &JobReport) -> Result<()> {
    fn visit(root: &Path, folder: &Path, report: &JobReport) -> Result<()> {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                visit(root, &path, report)?;
                continue;
            }
            let relative = path.strip_prefix(root).unwrap_or(&path);
            let name: Vec<String> = relative.iter().map(|part| part.to_string_lossy().into_owned()).collect();
            let name = name.join("/");
            // The object store writes `name#1` and renames it when it is whole.
            let half_written = name.rsplit_once('#').is_some_and(|(_, number)| number.parse::<u64>().is_ok());
            if half_written && !report.files.iter().any(|file| file.path == name) {
                std::fs::remove_file(&path)?;
            }
        }
        Ok(())
    }
    visit(staging, staging, report)
}
