//! What is told to be done is still done when the power fails: files are on the disk before they get their names, and names
//! before anybody is told. Object stores see to that themselves.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Error, ErrorKind, Result, Write};
use std::path::{Path, PathBuf};

use object_store::path::Path as StorePath;
use object_store::{GetOptions, GetResultPayload, ObjectStore};

use super::lock::{is_still_at, take_new};

/// Some file systems cannot be asked to write, and do it when they like.
fn if_possible(synced: Result<()>) -> Result<()> {
    match synced {
        Err(error) if !matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => Err(error),
        _ => Ok(()),
    }
}

/// Waits until the content of an open file is on the disk.
pub(crate) fn sync_open(file: &File) -> Result<()> {
    if_possible(file.sync_all())
}

/// Waits until a file's content is on the disk.
fn sync_file(path: &Path) -> Result<()> {
    // Elsewhere only what may be written can be synced.
    sync_open(&File::options().read(true).write(!cfg!(unix)).open(path)?)
}

/// Waits until the names in a folder are on the disk.
fn sync_folder(path: &Path) -> Result<()> {
    // Elsewhere folders cannot be opened.
    if !cfg!(unix) {
        return Ok(());
    }
    match File::open(path) {
        Ok(folder) => sync_open(&folder),
        // One that may be written and not read.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(()),
        Err(error) => Err(error),
    }
}

/// Waits until the name of a file or folder is on the disk.
pub(crate) fn sync_name(path: &Path) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    sync_folder(folder.unwrap_or(Path::new(".")))
}

/// Waits until a folder with all that is in it is on the disk.
#[cfg(feature = "cli")]
pub(crate) fn sync_tree(root: &Path) -> Result<()> {
    for entry in std::fs::read_dir(root)? {
        let (path, kind) = entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)))?;
        if kind.is_dir() {
            sync_tree(&path)?;
        } else if kind.is_file() {
            sync_file(&path)?;
        }
    }
    sync_folder(root)
}

/// Waits until files of an archive in a local folder are on the disk, with their names.
pub(super) async fn sync_files(root: PathBuf, names: Vec<String>) -> Result<()> {
    let synced = tokio::task::spawn_blocking(move || {
        let mut folders = BTreeSet::from([root.clone()]);
        for name in names {
            let path = root.join(name);
            sync_file(&path)?;
            let above = path.ancestors().skip(1).take_while(|folder| *folder != root);
            folders.extend(above.map(Path::to_path_buf));
        }
        folders.iter().try_for_each(|folder| sync_folder(folder))?;
        // It may be new itself.
        sync_name(&root)
    });
    synced.await.map_err(Error::other)?
}

/// Where an archive's folder is on the disk, by one of its files; `None` in an object store.
pub(super) async fn local_folder(
    store: &dyn ObjectStore,
    folder: &StorePath,
    name: &str,
) -> object_store::Result<Option<PathBuf>> {
    let path = StorePath::parse(format!("{folder}/{name}"))?;
    let found = store.get_opts(&path, GetOptions { head: true, ..GetOptions::default() }).await?;
    Ok(match found.payload {
        GetResultPayload::File(_, path) => {
            path.ancestors().nth(name.split('/').count()).map(Path::to_path_buf)
        }
        GetResultPayload::Stream(_) => None,
    })
}

/// Where the file of an archive's folder is on the disk that makes it one, whether it is there or not; `None` in an object
/// store.
pub(super) async fn local_place(
    store: &dyn ObjectStore,
    folder: &StorePath,
) -> object_store::Result<Option<PathBuf>> {
    let path = folder.clone().join(super::manifest::FILE_NAME);
    let found = store.get_opts(&path, GetOptions { head: true, ..GetOptions::default() }).await;
    let file = match found.map(|found| found.payload) {
        Ok(GetResultPayload::File(_, path)) => path,
        Ok(GetResultPayload::Stream(_)) => return Ok(None),
        // Of what is not there local stores tell what the file system has said, and of which path.
        Err(object_store::Error::NotFound { path, source }) if source.is::<Error>() => path.into(),
        Err(object_store::Error::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(file.parent().filter(|folder| folder.is_absolute()).map(Path::to_path_buf))
}

/// Writes a local file whole or not at all, in place of another or only where none is. It is written beside its place, under
/// such a name as the object store uses: what a process that is killed leaves is known by it.
pub(super) async fn put(path: PathBuf, content: Vec<u8>, only_new: bool) -> Result<()> {
    let written = tokio::task::spawn_blocking(move || {
        let (aside, file) = create_beside(&path)?;
        let put = write(file, &content).and_then(|_locked| match only_new {
            true => std::fs::hard_link(&aside, &path),
            false => std::fs::rename(&aside, &path),
        });
        if only_new || put.is_err() {
            // What cannot be removed only takes space.
            let _ = std::fs::remove_file(&aside);
        }
        put?;
        sync_name(&path)
    });
    written.await.map_err(Error::other)?
}

fn create_beside(path: &Path) -> Result<(PathBuf, File)> {
    let mut number = 1u32;
    loop {
        let mut name = path.as_os_str().to_owned();
        name.push(format!("#{number}"));
        match take_new(Path::new(&name)) {
            Ok(None) => {}
            Ok(Some(file)) => return Ok((name.into(), file)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error),
        }
    }
}

/// Gives the file, whose lock says that its writer lives. Elsewhere open ones cannot be renamed.
fn write(mut file: File, content: &[u8]) -> Result<Option<File>> {
    file.write_all(content)?;
    sync_open(&file)?;
    Ok(cfg!(unix).then_some(file))
}

/// Removes what writers of a file that were killed have left beside it. What cannot be removed only takes space.
pub(super) fn remove_abandoned(path: &Path) {
    // Elsewhere a file that is whole has no lock any more.
    if !cfg!(unix) {
        return;
    }
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return };
    let name = format!("{}#", name.to_string_lossy());
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let own = entry
            .file_name()
            .to_string_lossy()
            .strip_prefix(&name)
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()));
        if !own || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        let path = entry.path();
        let lock = File::options().write(true).open(&path);
        if lock.is_ok_and(|lock| lock.try_lock().is_ok() && is_still_at(&lock, &path)) {
            let _ = std::fs::remove_file(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_is_replaced_or_new_and_nothing_is_left_beside_it() {
        let root = tempfile::tempdir().expect("a folder");
        let path = root.path().join("archive.json");
        let left = root.path().join("archive.json#1");
        std::fs::write(&left, "of a process that was killed").expect("written");
        put(path.clone(), b"first".to_vec(), true).await.expect("new");
        let error = put(path.clone(), b"second".to_vec(), true).await.expect_err("there");
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        put(path.clone(), b"third".to_vec(), false).await.expect("replaced");
        assert_eq!(std::fs::read(&path).expect("read"), b"third");
        assert_eq!(root.path().read_dir().expect("a folder").count(), 2);
        sync_files(root.path().to_path_buf(), vec!["archive.json".to_string()]).await.expect("synced");
        assert!(sync_files(root.path().to_path_buf(), vec!["absent".to_string()]).await.is_err());
    }

    #[cfg(unix)]
    #[test]
    fn what_dead_writers_have_left_beside_a_file_is_removed() {
        let root = tempfile::tempdir().expect("a folder");
        let path = root.path().join("archive.json");
        for name in ["archive.json", "archive.json#1", "archive.json#x", "other.json#1"] {
            std::fs::write(root.path().join(name), "left").expect("written");
        }
        let (living, _lock) = create_beside(&path).expect("made");
        remove_abandoned(&path);
        assert!(living.ends_with("archive.json#2") && living.exists());
        assert_eq!(root.path().read_dir().expect("a folder").count(), 4);
    }

    #[test]
    fn what_cannot_be_synced_is_no_failure() {
        assert!(if_possible(Err(ErrorKind::InvalidInput.into())).is_ok());
        assert!(if_possible(Err(ErrorKind::Unsupported.into())).is_ok());
        assert!(if_possible(Err(ErrorKind::StorageFull.into())).is_err());
    }
}
