//! A new archive in an object store: what makes it one is its manifest, which is written last.

use anyhow::{Context, Result, bail};
use datafusion::object_store::path::Path;
use datafusion::object_store::{self, ObjectStoreExt};
use futures::{StreamExt, TryStreamExt};

use super::super::stores::Stored;
use crate::archive::{ArchiveError, Input, JOB_FILE, Job, JobObserver, JobReport, compress, is_tag};

/// Fails where something is in the way.
async fn check(target: &Stored, shown: &str, overwrite: bool) -> Result<()> {
    let cannot = || format!("cannot read {shown}");
    if !target.listed {
        bail!("{shown}: archives cannot be made on a web server");
    }
    let mut listing = target.store.list(Some(&target.path).filter(|path| !path.is_root()));
    if listing.next().await.transpose().with_context(cannot)?.is_none() {
        return Ok(());
    }
    // It may be this job that was stopped, even when all was done.
    let is_unfinished = is_unfinished(target, &target.path).await.with_context(cannot)?;
    match (is_archive(target, &target.path).await.with_context(cannot)?, overwrite) {
        (true, true) => Ok(()),
        _ if is_unfinished => Ok(()),
        (_, false) => Err(ArchiveError::Exists(shown.to_string()).into()),
        (false, true) => bail!("{shown} is not an archive; it is not overwritten"),
    }
}

/// Makes an archive.
pub(super) async fn run(
    target: &Stored,
    shown: &str,
    inputs: &[Input],
    job: &Job,
    observer: &dyn JobObserver,
) -> Result<JobReport> {
    let Stored { store, path, .. } = target;
    check(target, shown, job.overwrite).await?;
    check_not_inside(target, shown).await?;
    let mut result = compress(inputs, store, path, job, observer).await;
    if let Err(ArchiveError::OtherJob(_)) = &result {
        // The place was empty when that job began, but others may have put something there since.
        if !job.overwrite {
            bail!(
                "{shown} has what an unfinished job with other inputs or settings has left; run that job \
                 again, or --overwrite to remove everything there"
            );
        }
        remove(target, path).await?;
        result = compress(inputs, store, path, job, observer).await;
    }
    let report = result.map_err(|error| match error {
        // As it was written, not as stores write it.
        ArchiveError::Exists(_) => ArchiveError::Exists(shown.to_string()),
        other => other,
    })?;
    // What is left of other jobs that were to replace the archive.
    let within = store.list_with_delimiter(Some(path).filter(|path| !path.is_root())).await?.common_prefixes;
    for folder in within.into_iter().filter(|folder| folder.filename().is_some_and(is_tag)) {
        if is_unfinished(target, &folder).await? {
            remove(target, &folder).await?;
        }
    }
    Ok(report)
}

/// Fails for a place within an archive, whose files others would take for its own.
pub(super) async fn check_not_inside(target: &Stored, shown: &str) -> Result<()> {
    let parts: Vec<String> = target.path.parts().map(|part| part.as_ref().to_string()).collect();
    for above in 0..parts.len() {
        let folder = Path::parse(parts[..above].join("/"))?;
        if is_archive(target, &folder).await.with_context(|| format!("cannot read {shown}"))? {
            bail!("{shown} is inside the archive {folder}; choose another place");
        }
    }
    Ok(())
}

async fn is_archive(target: &Stored, folder: &Path) -> object_store::Result<bool> {
    match target.store.head(&folder.clone().join("archive.json")).await {
        Ok(_) => Ok(true),
        Err(object_store::Error::NotFound { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether a job was begun in a folder and not finished.
async fn is_unfinished(target: &Stored, folder: &Path) -> object_store::Result<bool> {
    match target.store.get(&folder.clone().join(JOB_FILE)).await {
        Ok(found) => {
            let identity = found.bytes().await?;
            Ok(identity.len() == 16 && identity.iter().all(u8::is_ascii_hexdigit))
        }
        Err(object_store::Error::NotFound { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

async fn objects(target: &Stored, folder: &Path) -> object_store::Result<Vec<Path>> {
    let listing = target.store.list(Some(folder).filter(|folder| !folder.is_root()));
    listing.map_ok(|object| object.location).try_collect().await
}

async fn remove(target: &Stored, folder: &Path) -> object_store::Result<()> {
    let all = futures::stream::iter(objects(target, folder).await?).map(Ok).boxed();
    target.store.delete_stream(all).try_for_each(|_| std::future::ready(Ok(()))).await
}
