//! A new archive in an object store: what makes it one is its manifest, which is written last.

use anyhow::{Context, Result, bail};
use datafusion::object_store::path::Path;
use datafusion::object_store::{self, ObjectStoreExt};
use futures::{StreamExt, TryStreamExt};

use super::super::stores::Stored;
use crate::archive::{
    ArchiveError, Input, JOB_FILE, Job, JobObserver, JobReport, compress, is_dictionary_name,
};

/// Whether nothing is in the way.
pub(super) async fn check(target: &Stored, shown: &str, overwrite: bool) -> Result<bool> {
    let cannot = || format!("cannot read {shown}");
    if !target.listed {
        bail!("{shown}: archives cannot be made on a web server");
    }
    let mut listing = target.store.list(Some(&target.path).filter(|path| !path.is_root()));
    if listing.next().await.transpose().with_context(cannot)?.is_none() {
        return Ok(true);
    }
    let archive = match target.store.head(&target.path.clone().join("archive.json")).await {
        Ok(_) => true,
        Err(object_store::Error::NotFound { .. }) => false,
        Err(error) => return Err(error).with_context(cannot),
    };
    match (archive, overwrite) {
        (true, true) => Ok(false),
        (false, _) if is_unfinished(target, &target.path).await.with_context(cannot)? => Ok(true),
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
    let mut within =
        store.list_with_delimiter(Some(path).filter(|path| !path.is_root())).await?.common_prefixes;
    within.retain(|folder| folder.filename().is_some_and(is_tag));
    match &result {
        // What is left of other jobs that were to replace the archive.
        Ok(_) => {
            for folder in within {
                if is_unfinished(target, &folder).await? {
                    remove(target, &folder).await?;
                }
            }
        }
        Err(ArchiveError::Cancelled) => {}
        // Nothing is left of a job that has finished no file.
        Err(_) => {
            for folder in std::iter::once(path.clone()).chain(within) {
                if is_unfinished(target, &folder).await? && has_no_table(target, &folder).await? {
                    remove(target, &folder).await?;
                }
            }
        }
    }
    Ok(result?)
}

/// Whether a folder is named as those of jobs that replace an archive are.
fn is_tag(name: &str) -> bool {
    name.len() == 8 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
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

async fn has_no_table(target: &Stored, folder: &Path) -> object_store::Result<bool> {
    let is_own = |object: &Path| {
        let mut below = object.prefix_match(folder).into_iter().flatten();
        let name = below.next();
        let is_own = |name: &str| name == JOB_FILE || is_dictionary_name(name);
        name.is_some_and(|name| is_own(name.as_ref())) && below.next().is_none()
    };
    Ok(objects(target, folder).await?.iter().all(is_own))
}

async fn remove(target: &Stored, folder: &Path) -> object_store::Result<()> {
    let all = futures::stream::iter(objects(target, folder).await?).map(Ok).boxed();
    target.store.delete_stream(all).try_for_each(|_| std::future::ready(Ok(()))).await
}
