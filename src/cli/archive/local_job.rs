//! A new archive in a local folder: made in a hidden one beside it, and moved there when it is whole.

use std::path::Path;

use anyhow::{Context, Result, bail};

use super::claim::{Claim, is_marked, unmark};
use super::paths::{
    check_folder_or_nothing, check_not_inside, is_archive, local_store, publish, publish_new, recover,
    remove_old, staging, store_path,
};
use crate::archive::{
    ArchiveError, Input, JOB_FILE, Job, JobObserver, JobReport, MARK_FILE, OldArchive, compress_aside,
    first_stranger, is_dictionary_name,
};
use crate::cli::messages::tell;

/// Makes an archive.
pub(super) async fn run(
    target: &Path,
    inputs: &[Input],
    job: &Job,
    observer: &dyn JobObserver,
) -> Result<JobReport> {
    check_not_inside(target)?;
    check_folder_or_nothing(target)?;
    let staging = staging(target, "sparrow-partial")?;
    // What was replaced is there for a moment, and what earlier versions have left has no mark.
    let is_own = |staging: &Path| is_marked(target) || is_of_a_job(target) || is_of_a_job(staging);
    let claim = match Claim::take(staging, is_own) {
        Ok(claim) => claim,
        // Where nothing can be written there may be nothing to do either.
        Err(error) => {
            check_free(target, job.overwrite)?;
            return Err(error).with_context(|| format!("cannot write {}", target.display()));
        }
    };
    recover(target)?;
    // Without a job nothing in it is of use to this one.
    if !is_of_a_job(&claim.folder) {
        claim.clear().with_context(|| format!("cannot clear {}", claim.folder.display()))?;
    }
    // What is replaced is elsewhere.
    let (overwrite, job) = (job.overwrite, &Job { overwrite: false, ..job.clone() });
    if is_archive(target) && target.join(JOB_FILE).is_file() {
        // A run that was killed when its archive was in place already.
        match compress_aside(inputs, &local_store(), &store_path(target)?, job, observer).await {
            Err(ArchiveError::Exists(_)) => {}
            report => {
                let report = report?;
                // What it has replaced.
                claim.clear().with_context(|| format!("cannot remove {}", claim.folder.display()))?;
                remove_old(target)?;
                unmark(target).with_context(|| format!("cannot write into {}", target.display()))?;
                remove_job_file(target)?;
                return Ok(report);
            }
        }
    }
    let is_free = check_free(target, overwrite)?;
    let old = if is_free { None } else { Some(check_replaceable(target).await?) };
    let folder = store_path(&claim.folder)?;
    let mut result = compress_aside(inputs, &local_store(), &folder, job, observer).await;
    if let Err(ArchiveError::OtherJob(_) | ArchiveError::Exists(_)) = &result {
        // What another job has left is of no use. Without a job it is what was replaced.
        if claim.folder.join(JOB_FILE).is_file() {
            tell(format_args!(
                "note: {} has what an unfinished job with other inputs or settings has left; it is discarded, and all is \
                 done from the beginning",
                claim.folder.display()
            ));
        }
        claim.clear().with_context(|| format!("cannot clear {}", claim.folder.display()))?;
        result = compress_aside(inputs, &local_store(), &folder, job, observer).await;
    }
    let report = match result {
        Ok(report) => report,
        Err(error) => {
            discard_if_useless(&claim, &error);
            return Err(error.into());
        }
    };
    if old.is_some()
        && let Some((name, error)) = report.failed.first()
    {
        let _ = claim.clear();
        bail!(
            "{} of {} files failed, so that the archive that was there is kept; the first is {name}: {error}",
            report.failed.len(),
            report.failed.len() + report.files.len()
        );
    }
    remove_strays(&claim.folder, &report)?;
    match old {
        None => publish_new(&claim.folder, target)?,
        Some(old) => {
            let held = old.hold().await.with_context(|| format!("{} is not replaced", target.display()))?;
            check_replaceable(target).await?;
            // Elsewhere folders with open files cannot be moved.
            let _held = cfg!(unix).then_some(held);
            publish(&claim.folder, target)?;
        }
    }
    remove_job_file(target)?;
    Ok(report)
}

/// Until here a run that is killed is known by it.
fn remove_job_file(target: &Path) -> Result<()> {
    let file = target.join(JOB_FILE);
    std::fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))
}

/// Whether nothing is in the way; what is no archive is never replaced.
fn check_free(target: &Path, overwrite: bool) -> Result<bool> {
    let occupied = target.is_file() || target.read_dir().is_ok_and(|mut entries| entries.next().is_some());
    if occupied && !overwrite {
        return Err(ArchiveError::Exists(target.display().to_string()).into());
    }
    if occupied && !is_archive(target) {
        bail!("{} is not an archive; it is not overwritten", target.display());
    }
    Ok(!occupied)
}

/// A folder is replaced as a whole, so that it may hold nothing but its archive. Gives what it has at this moment.
async fn check_replaceable(target: &Path) -> Result<OldArchive> {
    let (store, folder) = (local_store(), store_path(target)?);
    let unknown =
        || format!("what belongs to {} is not known; remove it, or choose another place", target.display());
    let old = OldArchive::find(&store, &folder).await.with_context(unknown)?;
    let stranger = first_stranger(&store, &folder).await;
    if let Some(stranger) = stranger.with_context(unknown)? {
        bail!(
            "{} is no part of the archive: {} is not overwritten; move it away",
            target.join(stranger).display(),
            target.display()
        );
    }
    Ok(old)
}

/// Whether a folder says what job it is made by.
fn is_of_a_job(folder: &Path) -> bool {
    let file = folder.join(JOB_FILE);
    let identity = if file.is_file() { std::fs::read(file).unwrap_or_default() } else { Vec::new() };
    identity.len() == 16 && identity.iter().all(u8::is_ascii_hexdigit)
}

/// Nothing is left of a job that has finished no file, unless it was stopped on purpose.
fn discard_if_useless(claim: &Claim, error: &ArchiveError) {
    let finished = claim.folder.read_dir().is_ok_and(|entries| {
        entries.flatten().any(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            name != JOB_FILE && name != MARK_FILE && !is_dictionary_name(&name) && !name.contains('#')
        })
    });
    if !finished && !matches!(error, ArchiveError::Cancelled) {
        let _ = claim.clear();
    }
}

/// Removes what earlier runs that were killed have left half written.
fn remove_strays(staging: &Path, report: &JobReport) -> Result<()> {
    fn visit(root: &Path, folder: &Path, report: &JobReport) -> Result<()> {
        let cannot = || format!("cannot read {}", folder.display());
        for entry in std::fs::read_dir(folder).with_context(cannot)? {
            let path = entry.with_context(cannot)?.path();
            if path.is_dir() && !path.is_symlink() {
                visit(root, &path, report)?;
                continue;
            }
            let relative = path.strip_prefix(root).unwrap_or(&path);
            let name: Vec<String> = relative.iter().map(|part| part.to_string_lossy().into_owned()).collect();
            let name = name.join("/");
            // The object store writes `name#1` and renames it when it is whole.
            let half_written = name.rsplit_once('#').is_some_and(|(_, number)| number.parse::<u64>().is_ok());
            if half_written && !report.files.iter().any(|file| file.path == name) {
                std::fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
            }
        }
        Ok(())
    }
    visit(staging, staging, report)
}
