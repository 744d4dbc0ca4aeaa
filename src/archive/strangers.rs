//! What is in an archive's folder and is no part of it.

use std::collections::HashSet;
use std::sync::Arc;

use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use super::footer::{Footer, KEY};
use super::manifest::{FILE_NAME, JOB_FILE, LOCK_FILE, MARK_FILE, Manifest};
use super::parquet_footer::{fetch_footer, parse_footer};
use super::site::is_tag;
use super::staging::walk;
use super::{Result, dictionary_file};

/// The first file in a local archive's folder that no job of this archive has put there, by its path below it. What is
/// left of jobs that were stopped is theirs.
pub(crate) async fn first_stranger(store: &Arc<dyn ObjectStore>, folder: &Path) -> Result<Option<String>> {
    let Some(found) = Manifest::read(store.as_ref(), folder).await? else { return Ok(None) };
    // In an object store nothing is replaced but what belongs to the archive.
    let Some(local) = found.local_folder() else { return Ok(None) };
    let own: HashSet<String> = found.manifest.places().collect();
    let is_named = |name: &str| own.contains(name) || is_name_of_a_job(name);
    let mut others = Vec::new();
    walk(local, "", &mut |name| {
        if !is_named(name) && !without_number(name).is_some_and(is_named) {
            others.push(name.to_string());
        }
    })?;
    if others.is_empty() {
        return Ok(None);
    }
    let left = Left {
        local,
        store: store.as_ref(),
        folder,
        dictionaries: dictionaries(store, folder, &found.manifest).await,
    };
    for name in others {
        // What is half written is known by the place that was taken for it.
        let is_left = match without_number(&name) {
            Some(whole) => left.is_empty(&name, whole) || left.is_one(whole).await,
            None => left.is_one(&name).await,
        };
        if !is_left {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// All files in a local archive's folder that the archive does not know, whoever has put them there: readers of the folder
/// may take them for tables. What a writer is making is not among them.
pub(super) async fn strangers(store: &Arc<dyn ObjectStore>, folder: &Path) -> Result<Vec<String>> {
    let Some(found) = Manifest::read(store.as_ref(), folder).await? else { return Ok(Vec::new()) };
    let Some(local) = found.local_folder() else { return Ok(Vec::new()) };
    let mut known: HashSet<String> = found.manifest.places().collect();
    known.extend([FILE_NAME, JOB_FILE, LOCK_FILE, MARK_FILE].map(str::to_string));
    let mut strangers = Vec::new();
    walk(local, "", &mut |name| {
        if !known.contains(name) {
            strangers.push(name.to_string());
        }
    })?;
    Ok(strangers)
}

/// Names that jobs use beside those of tables: in the archive's own folder, and in those where names go that are taken.
fn is_name_of_a_job(path: &str) -> bool {
    match path.split_once('/') {
        None => {
            [FILE_NAME, JOB_FILE, LOCK_FILE, MARK_FILE].contains(&path) || dictionary_file::is_file_name(path)
        }
        Some((tag, name)) => is_tag(tag) && (name == JOB_FILE || dictionary_file::is_file_name(name)),
    }
}

fn is_parquet(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, extension)| extension.eq_ignore_ascii_case("parquet"))
}

/// The file that `name#1` was to become.
fn without_number(name: &str) -> Option<&str> {
    let (whole, number) = name.rsplit_once('#')?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(whole)
}

/// The hashes of an archive's dictionaries, as far as they can be read.
async fn dictionaries(store: &Arc<dyn ObjectStore>, folder: &Path, manifest: &Manifest) -> HashSet<String> {
    let mut hashes = HashSet::new();
    for (number, entry) in (0..).zip(manifest.dictionaries()) {
        let name = entry.file_name(number);
        let path = name.split('/').fold(folder.clone(), |path, part| path.join(part));
        let bytes = async { store.get(&path).await?.bytes().await };
        if let Ok(Ok((codebook, _))) = bytes.await.map(dictionary_file::read) {
            hashes.insert(codebook.hash());
        }
    }
    hashes
}

/// What jobs that were stopped have left of tables.
struct Left<'a> {
    local: &'a std::path::Path,
    store: &'a dyn ObjectStore,
    folder: &'a Path,
    dictionaries: HashSet<String>,
}

impl Left<'_> {
    /// Whether a job was killed when it had taken a name for a table, and before it had written anything.
    fn is_empty(&self, name: &str, whole: &str) -> bool {
        is_parquet(whole) && self.local.join(name).symlink_metadata().is_ok_and(|found| found.len() == 0)
    }

    /// Whether it is a data file coded with one of this archive's dictionaries, or a place that was taken for one.
    async fn is_one(&self, name: &str) -> bool {
        let Ok(path) = Path::parse(format!("{}/{name}", self.folder)) else { return false };
        let Ok(found) = self.store.head(&path).await else { return false };
        if found.size == 0 {
            return is_parquet(name);
        }
        let footer = fetch_footer(self.store, &path, found.size).await;
        let Ok(metadata) = footer.and_then(|footer| parse_footer(&footer, found.size)) else { return false };
        let pairs = metadata.file_metadata().key_value_metadata();
        let text =
            pairs.into_iter().flatten().find(|pair| pair.key == KEY).and_then(|pair| pair.value.as_ref());
        let footer = text.and_then(|text| Footer::parse(text).ok());
        footer.is_some_and(|footer| self.dictionaries.contains(&footer.dictionary))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_jobs_only_where_jobs_use_them() {
        let own = ["archive.json", "job.json", "archive.lock", "dictionary.parquet", "dictionary-1.parquet"];
        assert!(own.iter().all(|name| is_name_of_a_job(name)));
        assert!(is_name_of_a_job("0123abcd/job.json") && is_name_of_a_job("0123abcd/dictionary-2.parquet"));
        let others =
            ["notes/job.json", "2023/archive.json", "0123abcd/archive.json", "0123abcd/x/job.json", "a.txt"];
        assert!(!others.iter().any(|name| is_name_of_a_job(name)));
        assert_eq!(without_number("year=2024/a.parquet#12"), Some("year=2024/a.parquet"));
        assert!(["a.parquet", "a#", "a#b", "report#2/a"].iter().all(|name| without_number(name).is_none()));
    }
}
