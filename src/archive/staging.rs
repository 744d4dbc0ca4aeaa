//! Where a writer that adds to an archive in a local folder makes its files. They get names there when all of them are
//! whole, so that nobody takes a part of one for a table; what a writer has left that was killed is known by its folder.

use std::collections::HashSet;
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::durable;
use super::lock::{is_still_at, take_new};
use super::manifest::{FILE_NAME, hash_of};
use super::site::tag;

/// What the folders of writers are called, before a number.
const PREFIX: &str = ".sparrow-writing-";
/// The mark of such a folder; its writer keeps it locked.
const LOCK: &str = "writer.lock";
/// No reader takes files of this extension for tables.
const PART: &str = "part";

/// The folder of a writer, within the archive that it adds to. It goes when the writer ends.
#[derive(Debug)]
pub(super) struct Staging {
    archive: PathBuf,
    /// The folder's name in the archive's.
    name: String,
    /// Whether the archive's folder was not there.
    is_first: bool,
    /// What has been given a name.
    published: Mutex<Vec<PathBuf>>,
    is_kept: AtomicBool,
    _lock: File,
}

/// What writers have left that were killed.
pub(super) struct Left {
    /// Their folders, with the locks that say that nobody else clears them.
    folders: Vec<(PathBuf, File)>,
}

impl Left {
    pub fn is_empty(&self) -> bool {
        self.folders.is_empty()
    }
}

impl Staging {
    /// Makes the folder of another writer, and finds those that nobody writes to any more.
    pub fn begin(archive: &Path) -> Result<(Self, Left)> {
        let is_first = !archive.exists();
        std::fs::create_dir_all(archive)?;
        let mut number = 0u32;
        loop {
            number += 1;
            let name = format!("{PREFIX}{}-{number}", std::process::id());
            let folder = archive.join(&name);
            let made = std::fs::create_dir(&folder).and_then(|()| take_new(&folder.join(LOCK)));
            let lock = match made {
                Ok(Some(lock)) => lock,
                // Another process with this number, or one that has taken the folder for a dead writer's.
                Ok(None) => continue,
                Err(error) if [ErrorKind::AlreadyExists, ErrorKind::NotFound].contains(&error.kind()) => {
                    if archive.exists() {
                        continue;
                    } else {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            };
            let staging = Self {
                archive: archive.to_path_buf(),
                name,
                is_first,
                published: Mutex::default(),
                is_kept: AtomicBool::new(false),
                _lock: lock,
            };
            let left = Left { folders: staging.abandoned()? };
            durable::remove_abandoned(&archive.join(FILE_NAME));
            return Ok((staging, left));
        }
    }

    fn folder(&self) -> PathBuf {
        self.archive.join(&self.name)
    }

    fn abandoned(&self) -> Result<Vec<(PathBuf, File)>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&self.archive)? {
            let entry = entry?;
            let name = entry.file_name();
            if !name.to_string_lossy().starts_with(PREFIX)
                || *name == *self.name
                || !entry.file_type()?.is_dir()
            {
                continue;
            }
            let (folder, mark) = (entry.path(), entry.path().join(LOCK));
            match File::options().write(true).open(&mark) {
                // It goes only if it is empty. A writer that has just made it makes another.
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    let _ = std::fs::remove_dir(&folder);
                }
                // Where a file system has no locks nobody knows who is alive.
                Ok(lock) if lock.try_lock().is_ok() && is_still_at(&lock, &mark) => {
                    found.push((folder, lock))
                }
                _ => {}
            }
        }
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(found)
    }

    /// Takes over what is whole of what was left, for a job that goes on with it, and removes the rest. `named` are the
    /// files that belong to the archive. What cannot be removed only takes space.
    pub fn take_over(&self, left: Left, named: &HashSet<String>) {
        for (folder, lock) in left.folders {
            let parts: Vec<PathBuf> = std::fs::read_dir(&folder)
                .into_iter()
                .flatten()
                .flatten()
                .map(|entry| entry.path())
                .filter(|path| path.extension().is_some_and(|extension| extension == PART))
                .collect();
            remove_unnamed(&self.archive, &parts, named);
            for part in parts {
                let to = part.file_name().map(|name| self.folder().join(name));
                if let Some(to) = to.filter(|to| !to.exists()) {
                    let _ = std::fs::rename(&part, to);
                }
            }
            let _ = std::fs::remove_dir_all(&folder);
            drop(lock);
        }
    }

    /// Where a file is made that is to have a name in the archive, relative to it.
    pub fn part(&self, name: &str) -> String {
        format!("{}/{}.{PART}", self.name, hash_of(name.as_bytes()))
    }

    /// Waits until these files are on the disk.
    pub async fn sync(&self, names: impl Iterator<Item = String>) -> Result<()> {
        let parts = names.map(|name| self.part(&name)).collect();
        durable::sync_files(self.archive.clone(), parts).await
    }

    /// Gives what was made for `name` the name `usual`, or where that is taken, that name in a folder whose own is made
    /// from `what`: which one it is, unless the usual.
    pub fn publish(&self, name: &str, usual: &str, what: &str) -> Result<Option<String>> {
        let part = self.archive.join(self.part(name));
        let mut attempt = None::<u32>;
        loop {
            let file = attempt.map(|attempt| format!("{}/{usual}", tag(&format!("{what} {attempt}"))));
            let path = self.archive.join(file.as_deref().unwrap_or(usual));
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            match give_name(&part, &path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    attempt = Some(attempt.map_or(0, |attempt| attempt + 1));
                }
                Err(error) => return Err(error),
                Ok(()) => {
                    self.published.lock().unwrap_or_else(PoisonError::into_inner).push(path);
                    return Ok(file);
                }
            }
        }
    }

    /// Takes back the names that were given: no archive has these files.
    pub fn unpublish(&self) {
        for path in self.published.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            remove_with_folders(&path, &self.archive);
        }
    }

    /// Leaves the files to the next writer: the same job goes on with them.
    pub fn keep(&self) {
        self.is_kept.store(true, Ordering::Relaxed);
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if self.is_kept.load(Ordering::Relaxed) {
            return;
        }
        // What cannot be removed is removed by the next writer.
        let _ = std::fs::remove_dir_all(self.folder());
        if self.is_first {
            // It has nothing in it where nothing has become of the archive.
            let _ = std::fs::remove_dir(&self.archive);
        }
    }
}

/// Whether a folder is one in which a writer makes its files, or has made them.
pub(super) fn is_of_a_writer(folder: &Path) -> bool {
    let name = folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
    name && folder.join(LOCK).is_file() && !folder.is_symlink()
}

/// Gives a file another name where there is none. Not every file system can do so; then nobody else writes there, and the
/// file changes its name.
fn give_name(part: &Path, path: &Path) -> Result<()> {
    match std::fs::hard_link(part, path) {
        Err(error) if [ErrorKind::AlreadyExists, ErrorKind::NotFound].contains(&error.kind()) => Err(error),
        Err(_) if path.symlink_metadata().is_ok() => Err(ErrorKind::AlreadyExists.into()),
        Err(_) => std::fs::rename(part, path),
        Ok(()) => Ok(()),
    }
}

/// Removes names that a writer has given its files, and has not told anybody of.
#[cfg(unix)]
fn remove_unnamed(archive: &Path, parts: &[PathBuf], named: &HashSet<String>) {
    use std::os::unix::fs::MetadataExt;
    let several = |part: &PathBuf| {
        let found = part.symlink_metadata().ok().filter(|found| found.nlink() > 1)?;
        Some((found.dev(), found.ino()))
    };
    let own: HashSet<(u64, u64)> = parts.iter().filter_map(several).collect();
    if own.is_empty() {
        return;
    }
    let mut unnamed = Vec::new();
    let found = walk(archive, "", &mut |name| {
        let path = archive.join(name);
        let is_own = path.symlink_metadata().is_ok_and(|found| own.contains(&(found.dev(), found.ino())));
        if is_own && !named.contains(name) {
            unnamed.push(path);
        }
    });
    if found.is_ok() {
        unnamed.iter().for_each(|path| remove_with_folders(path, archive));
    }
}

#[cfg(not(unix))]
fn remove_unnamed(_archive: &Path, _parts: &[PathBuf], _named: &HashSet<String>) {}

/// Removes a file, and the folders up to the archive's that are empty then.
fn remove_with_folders(path: &Path, archive: &Path) {
    let _ = std::fs::remove_file(path);
    for folder in path.ancestors().skip(1).take_while(|folder| *folder != archive) {
        if std::fs::remove_dir(folder).is_err() {
            break;
        }
    }
}

/// The files in an archive's folder, in order, but those that writers are making. Object stores do not list `name#1`, which
/// they write and rename when it is whole: the folder is read as it is. Links are not followed, and so no folders of an
/// archive.
pub(super) fn walk(root: &Path, below: &str, visit: &mut impl FnMut(&str)) -> Result<()> {
    let at = |error: Error| Error::new(error.kind(), format!("{below}: {error}"));
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(root.join(below)).map_err(at)? {
        let entry = entry.map_err(at)?;
        entries.push((entry.file_name(), entry.file_type().map_err(at)?.is_dir()));
    }
    entries.sort();
    for (name, is_folder) in entries {
        let name = name.to_string_lossy();
        let path = if below.is_empty() { name.into_owned() } else { format!("{below}/{name}") };
        if !is_folder {
            visit(&path);
        } else if !below.is_empty() || !is_of_a_writer(&root.join(&path)) {
            walk(root, &path, visit)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(archive: &Path) -> Vec<String> {
        let mut found = Vec::new();
        walk(archive, "", &mut |name| found.push(name.to_string())).expect("a folder");
        found
    }

    /// A process that ends so drops nothing but its locks.
    fn killed(staging: Staging) {
        staging.keep();
    }

    fn begin(archive: &Path) -> (Staging, Left) {
        Staging::begin(archive).expect("begun")
    }

    fn write(staging: &Staging, name: &str) {
        std::fs::write(staging.archive.join(staging.part(name)), name).expect("written");
    }

    #[test]
    fn a_name_is_given_where_there_is_none() {
        let root = tempfile::tempdir().expect("a folder");
        let archive = root.path().join("archive");
        let (staging, left) = begin(&archive);
        assert!(left.is_empty());
        write(&staging, "x/a.parquet");
        assert_eq!(names(&archive), Vec::<String>::new());
        assert_eq!(staging.publish("x/a.parquet", "x/a.parquet", "a").expect("named"), None);
        let other = staging.publish("x/a.parquet", "x/a.parquet", "a").expect("named").expect("another name");
        assert!(other.ends_with("/x/a.parquet") && archive.join(&other).is_file(), "{other}");
        staging.unpublish();
        assert_eq!(names(&archive), Vec::<String>::new());
        drop(staging);
        assert!(!archive.exists());
    }

    #[test]
    fn what_a_dead_writer_has_left_is_taken_over_or_removed_and_a_living_one_is_left_alone() {
        let root = tempfile::tempdir().expect("a folder");
        let (living, _) = begin(root.path());
        let (dead, _) = begin(root.path());
        for name in ["a.parquet", "b.parquet", "c.parquet"] {
            write(&dead, name);
        }
        std::fs::write(dead.folder().join("half.part#1"), "half").expect("written");
        // It was killed when two of its files had names, of which the archive has one.
        for name in ["a.parquet", "b.parquet"] {
            dead.publish(name, name, name).expect("named");
        }
        let of_dead = dead.folder();
        killed(dead);
        let (next, left) = begin(root.path());
        assert_eq!(left.folders.len(), if cfg!(unix) { 1 } else { left.folders.len() });
        next.take_over(left, &HashSet::from(["a.parquet".to_string()]));
        assert!(!of_dead.exists() && living.folder().exists());
        let known = if cfg!(unix) { vec!["a.parquet"] } else { vec!["a.parquet", "b.parquet"] };
        assert_eq!(names(root.path()), known);
        assert!(root.path().join(next.part("c.parquet")).is_file());
        drop((living, next));
        assert_eq!(root.path().read_dir().expect("a folder").count(), known.len());
    }
}
