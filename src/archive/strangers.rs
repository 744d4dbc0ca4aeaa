//! What is in an archive's folder and is no part of it.

use std::collections::HashSet;
use std::sync::Arc;

use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};

use super::footer::Footer;
use super::manifest::{FILE_NAME, JOB_FILE, LOCK_FILE, Manifest};
use super::parquet_footer::{fetch_footer, parse_footer};
use super::{Result, dictionary_file};

/// The first file in an archive's folder that no job has put there, by its path below it. What is left of jobs that were
/// stopped is theirs.
pub(crate) async fn first_stranger(store: &Arc<dyn ObjectStore>, folder: &Path) -> Result<Option<String>> {
    let Some(found) = Manifest::read(store.as_ref(), folder).await? else { return Ok(None) };
    let own: HashSet<String> = found.manifest.places().collect();
    let mut listing = store.list(Some(folder));
    while let Some(object) = listing.try_next().await? {
        let below = object.location.prefix_match(folder).into_iter().flatten();
        let name: Vec<String> = below.map(|part| part.as_ref().to_string()).collect();
        let file = name.last().map_or("", String::as_str);
        let is_known =
            [FILE_NAME, JOB_FILE, LOCK_FILE].contains(&file) || dictionary_file::is_file_name(file);
        let name = name.join("/");
        if !is_known && !own.contains(&name) && !is_left_of_a_job(store, &object).await {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// Whether it is a data file, or a place that was taken for one.
async fn is_left_of_a_job(store: &Arc<dyn ObjectStore>, object: &ObjectMeta) -> bool {
    if object.size == 0 {
        return true;
    }
    let footer = fetch_footer(store.as_ref(), &object.location, object.size).await;
    footer
        .and_then(|footer| parse_footer(&footer, object.size))
        .is_ok_and(|metadata| Footer::is_in(&metadata))
}
