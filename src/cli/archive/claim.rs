//! A folder that one job at a time works in.

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::archive::is_still_at;

/// A folder beside a target, in which that is made by this job alone. The lock ends with the process, however that ends.
#[derive(Debug)]
pub(super) struct Claim {
    pub folder: PathBuf,
    lock: Option<File>,
}

impl Claim {
    /// Makes the folder where it is not there, in which something may be left of a job that was killed.
    pub fn take(folder: PathBuf) -> Result<Self> {
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

    /// Removes what is in the folder.
    pub fn clear(&self) -> std::io::Result<()> {
        for entry in std::fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let is_folder = path.is_dir() && !path.is_symlink();
            if is_folder { std::fs::remove_dir_all(path)? } else { std::fs::remove_file(path)? }
        }
        Ok(())
    }
}

impl Drop for Claim {
    /// An empty folder is of no use to anybody; one that was put in its place is elsewhere.
    fn drop(&mut self) {
        if self.lock.as_ref().is_none_or(|lock| is_still_at(lock, &self.folder)) {
            let _ = std::fs::remove_dir(&self.folder);
        }
    }
}
