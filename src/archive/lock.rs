//! One process at a time changes what is in a local folder.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

use super::Result;
use super::manifest::LOCK_FILE;

/// Waits until no other process has the lock of an archive in a local folder. It ends with the process, however that ends.
/// `None` where the archive was replaced meanwhile: the lock is one of what is gone.
pub(super) async fn lock(folder: &Path) -> Result<Option<File>> {
    let path = folder.join(LOCK_FILE);
    let locked = tokio::task::spawn_blocking(move || {
        let file = match File::options().create(true).truncate(false).write(true).open(&path) {
            // Between the two renames that replace it.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        match file.lock() {
            // Where a file system has no locks there is one writer at a time.
            Err(error) if error.kind() != ErrorKind::Unsupported => Err(error),
            _ => Ok(is_still_at(&file, &path).then_some(file)),
        }
    });
    Ok(locked.await.map_err(std::io::Error::other)??)
}

/// Makes a file where none is and locks it; `None` where another has taken it for one that was left, and has removed it.
pub(super) fn take_new(path: &Path) -> std::io::Result<Option<File>> {
    let file = File::options().create_new(true).write(true).open(path)?;
    match file.lock() {
        Err(error) if error.kind() != ErrorKind::Unsupported => Err(error),
        _ => Ok(is_still_at(&file, path).then_some(file)),
    }
}

/// Whether an open file or folder is the one at a path, and no other was put there since.
#[cfg(unix)]
pub(crate) fn is_still_at(opened: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let known = |found: std::fs::Metadata| (found.dev(), found.ino());
    opened.metadata().ok().map(known) == path.metadata().ok().map(known)
}

#[cfg(not(unix))]
pub(crate) fn is_still_at(_opened: &File, _path: &Path) -> bool {
    true
}
