//! A folder that one job at a time works in.

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};

use crate::archive::{MARK_FILE, is_still_at};

/// Whether a folder is one that a job has made. What is in a folder without the mark is somebody's.
pub(super) fn is_marked(folder: &Path) -> bool {
    !folder.is_symlink() && folder.join(MARK_FILE).symlink_metadata().is_ok_and(|mark| mark.is_file())
}

/// Marks a folder as one that may be removed with all that is in it.
pub(super) fn mark(folder: &Path) -> std::io::Result<()> {
    File::create(folder.join(MARK_FILE)).map(|_| ())
}

/// Removes the mark of a folder that is to be kept.
pub(super) fn unmark(folder: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(folder.join(MARK_FILE)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Whether this is the name of the mark.
pub(super) fn is_mark(name: &std::ffi::OsStr) -> bool {
    name == MARK_FILE
}

/// A folder beside a target, in which that is made by this job alone. The lock ends with the process, however that ends.
#[derive(Debug)]
pub(super) struct Claim {
    pub folder: PathBuf,
    lock: Option<File>,
}

impl Claim {
    /// Makes the folder where it is not there, in which something may be left of a job that was killed. Where that has no
    /// mark, `is_own` must know it.
    pub fn take(folder: PathBuf, is_own: impl Fn(&Path) -> bool) -> Result<Self> {
        let claim = Self::lock(folder)?;
        let folder = &claim.folder;
        let is_empty = folder.read_dir().is_ok_and(|mut entries| entries.next().is_none());
        if !is_empty && !is_marked(folder) && !is_own(folder) {
            return Err(in_the_way(folder));
        }
        mark(folder).with_context(|| format!("cannot write into {}", folder.display()))?;
        Ok(claim)
    }

    fn lock(folder: PathBuf) -> Result<Self> {
        if folder.is_symlink() || (folder.exists() && !folder.is_dir()) {
            return Err(in_the_way(&folder));
        }
        let above = folder.parent().filter(|above| !above.as_os_str().is_empty());
        let cannot = || format!("cannot write into {}", above.unwrap_or(Path::new(".")).display());
        std::fs::create_dir_all(&folder).with_context(cannot)?;
        // Elsewhere folders cannot be opened.
        if !cfg!(unix) {
            return Ok(Self { folder, lock: None });
        }
        let lock = File::open(&folder).with_context(cannot)?;
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => bail!("another job is writing there at this moment"),
            // Where a file system has no locks there is one job at a time.
            Err(TryLockError::Error(error)) if error.kind() != ErrorKind::Unsupported => {
                Err(error).with_context(cannot)
            }
            // That job may have ended in between, and have put the folder in its place.
            _ if !is_still_at(&lock, &folder) => bail!("another job has written there at this moment"),
            _ => Ok(Self { folder, lock: Some(lock) }),
        }
    }

    /// Removes what is in the folder, but for its mark.
    pub fn clear(&self) -> std::io::Result<()> {
        for entry in std::fs::read_dir(&self.folder)? {
            let entry = entry?;
            if is_mark(&entry.file_name()) {
                continue;
            }
            let path = entry.path();
            let is_folder = path.is_dir() && !path.is_symlink();
            if is_folder { std::fs::remove_dir_all(path)? } else { std::fs::remove_file(path)? }
        }
        Ok(())
    }
}

impl Drop for Claim {
    /// An empty folder is of no use to anybody; one that was put in its place is elsewhere.
    fn drop(&mut self) {
        let is_there = self.lock.as_ref().is_none_or(|lock| is_still_at(lock, &self.folder));
        let has_mark_alone = || {
            let mut entries = std::fs::read_dir(&self.folder).into_iter().flatten();
            entries.all(|entry| entry.is_ok_and(|entry| is_mark(&entry.file_name())))
        };
        if is_there && has_mark_alone() {
            let _ = unmark(&self.folder).and_then(|()| std::fs::remove_dir(&self.folder));
        }
    }
}

/// What is said of something in the place of a folder that a job makes.
pub(super) fn in_the_way(place: &Path) -> anyhow::Error {
    anyhow!(
        "{} is in the way: that place is used while something is made beside it, and what is there was not made by a job; \
         rename it",
        place.display()
    )
}
