//! Paths, folders, patterns and URLs as files of an object store.

use std::collections::HashMap;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use datafusion::object_store::path::Path as StorePath;
use datafusion::object_store::{self, ObjectStore, ObjectStoreExt};
use futures::TryStreamExt;

use super::super::regular_files::RegularFiles;
use super::super::stores::{Place, Stored};
use super::claim::{in_the_way, is_marked, mark, unmark};
use crate::archive::{Archive, ArchiveError, Input, sync_name, sync_tree};
use crate::cli::messages::tell;

pub(super) fn local_store() -> Arc<dyn ObjectStore> {
    Arc::new(RegularFiles::default())
}

/// The path as an object store knows it, which has no `..`.
pub(super) fn store_path(path: &Path) -> Result<StorePath> {
    let context = || format!("{}", path.display());
    let absolute = std::path::absolute(path).with_context(context)?;
    let known = match (absolute.canonicalize(), absolute.parent(), absolute.file_name()) {
        (Ok(known), _, _) => known,
        // What is not there yet is in a folder that is.
        (Err(_), Some(folder), Some(name)) => folder.canonicalize().with_context(context)?.join(name),
        (Err(error), _, _) => return Err(error).with_context(context),
    };
    Ok(StorePath::from_absolute_path(&known)?)
}

/// A table that an argument stands for.
struct Found {
    input: Input,
    /// Where it is, as users know it.
    shown: String,
}

/// The Parquet files that arguments stand for, with their names in an archive.
pub(super) async fn inputs(arguments: &[String]) -> Result<Vec<Input>> {
    let mut all = Vec::new();
    let (mut shown_by_name, mut name_by_place) = (HashMap::new(), HashMap::new());
    for argument in arguments {
        let found = match Place::parse(argument)? {
            Place::Local(path) => local_tables(argument, &path)?,
            Place::Stored(stored) => stored_tables(argument, &stored).await?,
        };
        if found.is_empty() {
            bail!("{argument}: no .parquet file there");
        }
        for Found { input, shown } in found {
            let (name, place) = (input.name.clone(), (input.store.to_string(), input.path.clone()));
            if let Some(other) = shown_by_name.insert(name.clone(), shown.clone()) {
                bail!("two files would both be {name} in the archive: {other} and {shown}");
            }
            if let Some(other) = name_by_place.insert(place, name.clone()) {
                bail!("{shown} is given twice, as {other} and as {name}");
            }
            all.push(input);
        }
    }
    Ok(all)
}

/// What makes a folder an archive.
const MANIFEST: &str = "archive.json";

pub(super) fn is_archive(folder: &Path) -> bool {
    folder.join(MANIFEST).is_file()
}

fn is_no_table(argument: &str) -> String {
    format!(
        "{argument} is an archive already; give the original tables (`sparrow decompress` makes them again)"
    )
}

fn has_wildcards(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// Hidden files and folders are left out.
fn is_hidden(name: &str) -> bool {
    name.starts_with(['.', '_'])
}

fn local_tables(argument: &str, path: &Path) -> Result<Vec<Found>> {
    let found = if path.is_dir() {
        if is_archive(path) {
            bail!(is_no_table(argument));
        }
        let (mut found, mut left_out) = (Vec::new(), Vec::new());
        walk(path, path, &mut found, &mut left_out)?;
        tell_left_out(argument, &left_out);
        found
    } else if path.exists() || !has_wildcards(argument) {
        let name = path.file_name().with_context(|| format!("{argument} is no file"))?;
        vec![(name.to_string_lossy().into_owned(), path.to_path_buf())]
    } else {
        matching(argument)?
    };
    let store = local_store();
    let one = !path.is_dir() && found.len() == 1;
    let table = |(name, path): (String, PathBuf)| {
        // Of several files one that cannot be opened is named, and the rest goes on.
        if one && !path.is_file() {
            let what = if path.exists() { "a pipe or a device, and no file" } else { "no such file" };
            bail!("{}: {what}", path.display());
        }
        let input = Input { store: store.clone(), path: store_path(&path)?, name };
        Ok(Found { input, shown: path.display().to_string() })
    };
    found.into_iter().map(table).collect()
}

/// The tables of an object store: one file, those below a prefix, or those that match a pattern.
async fn stored_tables(argument: &str, stored: &Stored) -> Result<Vec<Found>> {
    let Stored { store, path, listed } = stored;
    let table = |name: String, path: StorePath, shown: String| Found {
        input: Input { store: store.clone(), path, name },
        shown,
    };
    if let Some(name) = path.filename().filter(|_| !argument.ends_with('/')) {
        match store.head(path).await {
            Ok(_) => return Ok(vec![table(name.to_string(), path.clone(), argument.to_string())]),
            Err(object_store::Error::NotFound { .. }) if *listed => {}
            Err(object_store::Error::NotFound { .. }) => bail!("{argument}: no such file"),
            Err(error) => return Err(error).with_context(|| format!("cannot read {argument}")),
        }
    }
    if !listed {
        bail!("{argument}: a web server's folders cannot be listed; name its files");
    }
    let parts: Vec<String> = path.parts().map(|part| part.as_ref().to_string()).collect();
    let fixed = parts.iter().take_while(|part| !has_wildcards(part)).count();
    let folder = StorePath::parse(parts[..fixed].join("/"))?;
    let pattern = parts[fixed..].join("/");
    let pattern = (!pattern.is_empty()).then(|| glob::Pattern::new(&pattern)).transpose();
    let pattern = pattern.with_context(|| format!("{argument} is no pattern"))?;
    let listing = store.list(Some(&folder).filter(|folder| !folder.is_root()));
    let mut objects: Vec<StorePath> = listing
        .map_ok(|object| object.location)
        .try_collect()
        .await
        .with_context(|| format!("cannot list {argument}"))?;
    objects.sort();
    if pattern.is_none() && objects.contains(&folder.clone().join(MANIFEST)) {
        bail!(is_no_table(argument));
    }
    let is_manifest = |object: &&StorePath| object.filename() == Some(MANIFEST);
    let archives: Vec<String> = objects.iter().filter(is_manifest).map(folder_of).collect();
    let options = glob::MatchOptions { require_literal_separator: true, ..glob::MatchOptions::new() };
    let (mut found, mut left_out) = (Vec::new(), Vec::new());
    for object in objects {
        let Some(below) = object.prefix_match(&folder) else { continue };
        let mut inside = archives.iter().filter(|_| pattern.is_none());
        if let Some(archive) = inside.find(|archive| object.as_ref().starts_with(archive.as_str())) {
            let name = archive.trim_end_matches('/').to_string();
            if left_out.last() != Some(&name) {
                left_out.push(name);
            }
            continue;
        }
        let below: Vec<String> = below.map(|part| part.as_ref().to_string()).collect();
        let name = below.join("/");
        let wanted = match &pattern {
            Some(pattern) => pattern.matches_with(&name, options),
            None => object.extension().is_some_and(is_parquet) && !below.iter().any(|part| is_hidden(part)),
        };
        if wanted {
            let shown = format!("{} in {argument}", object);
            found.push(table(name, object, shown));
        } else if pattern.is_none() && object.extension().is_some_and(may_be_parquet) {
            left_out.push(name);
        }
    }
    tell_left_out(argument, &left_out);
    Ok(found)
}

/// The folder of an object, with a slash at its end.
fn folder_of(object: &StorePath) -> String {
    let path = object.as_ref();
    path[..path.rfind('/').map_or(0, |slash| slash + 1)].to_string()
}

fn is_parquet(extension: &str) -> bool {
    extension.eq_ignore_ascii_case("parquet")
}

/// Whether somebody may take it for a table.
fn may_be_parquet(extension: &str) -> bool {
    ["parquet", "parq", "pq"].iter().any(|known| extension.eq_ignore_ascii_case(known))
}

/// Whoever removes originals must know what is not in the archive.
fn tell_left_out(argument: &str, left_out: &[String]) {
    const SHOWN: usize = 5;
    if let Some(more) = left_out.len().checked_sub(1) {
        let names = left_out[..left_out.len().min(SHOWN)].join(", ");
        let more = if more >= SHOWN { format!(" and {} more", more + 1 - SHOWN) } else { String::new() };
        tell(format_args!(
            "warning: left out of {argument}: {names}{more}; names that begin with . or _, that do not end in .parquet, and \
             archives are no tables here. A pattern such as 'folder/*.pq' takes files whatever they are called"
        ));
    }
}

/// All Parquet files below a folder, in order, and what may be tables and is left out: hidden ones, those with other
/// extensions, archives.
fn walk(
    root: &Path,
    folder: &Path,
    found: &mut Vec<(String, PathBuf)>,
    left_out: &mut Vec<String>,
) -> Result<()> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    paths.sort();
    for path in paths {
        let relative = path.strip_prefix(root).unwrap_or(&path);
        let parts: Vec<String> = relative.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        let name = parts.join("/");
        let is_hidden = parts.last().is_some_and(|part| is_hidden(part));
        let extension = path.extension().map(|extension| extension.to_string_lossy().into_owned());
        let extension = extension.as_deref().unwrap_or("");
        if path.is_dir() {
            // What jobs that were killed have left is no table of anybody.
            let is_of_a_job = parts.last().is_some_and(|part| is_hidden && part.contains(".sparrow-"));
            if is_of_a_job || leads_upwards(&path) {
                continue;
            }
            if is_archive(&path) {
                left_out.push(name);
            } else if !is_hidden {
                walk(root, &path, found, left_out)?;
            } else {
                let (mut found, mut others) = (Vec::new(), Vec::new());
                let cannot_tell = walk(root, &path, &mut found, &mut others).is_err();
                if cannot_tell || !found.is_empty() || !others.is_empty() {
                    left_out.push(name);
                }
            }
        } else if is_parquet(extension) && !is_hidden {
            found.push((name, path));
        } else if may_be_parquet(extension) {
            left_out.push(name);
        }
    }
    Ok(())
}

/// Whether a folder is a link to one that it is in.
fn leads_upwards(path: &Path) -> bool {
    let above = path.parent().and_then(|parent| parent.canonicalize().ok());
    let there = path.canonicalize().ok();
    path.is_symlink() && above.zip(there).is_some_and(|(above, there)| above.starts_with(there))
}

/// The files that a pattern matches, named from the first folder with a wildcard on.
fn matching(pattern: &str) -> Result<Vec<(String, PathBuf)>> {
    let fixed: PathBuf =
        Path::new(pattern).iter().take_while(|part| !has_wildcards(&part.to_string_lossy())).collect();
    let mut found = Vec::new();
    for path in glob::glob(pattern).with_context(|| format!("{pattern} is no pattern"))? {
        let path = path?;
        if path.is_file() {
            let relative = path.strip_prefix(&fixed).unwrap_or(&path);
            let parts: Vec<String> =
                relative.iter().map(|part| part.to_string_lossy().into_owned()).collect();
            found.push((parts.join("/"), path));
        }
    }
    Ok(found)
}

/// Opens an archive.
pub(super) async fn open(argument: &str) -> Result<Archive> {
    let (store, folder) = match Place::parse(argument)? {
        Place::Local(path) if path.is_file() => bail!("{argument} is a file; an archive is a folder"),
        Place::Local(path) if !path.is_dir() => bail!("{argument}: no such folder"),
        Place::Local(path) => (local_store(), store_path(&path)?),
        Place::Stored(stored) => (stored.store, stored.path),
    };
    let opened = Archive::open(store, folder).await.map_err(|error| match error {
        // As it was written, not as stores write it.
        ArchiveError::NotAnArchive(_) => ArchiveError::NotAnArchive(argument.to_string()),
        other => other,
    });
    opened.with_context(|| format!("cannot open {argument}"))
}

/// The folder beside a target in which it is made; `what` is to be there.
pub(super) fn staging(target: &Path, what: &str) -> Result<PathBuf> {
    if target.file_name().is_none() {
        bail!("{} is no place for a folder", target.display());
    }
    Ok(beside(target, what))
}

/// Where a target is that may be a link to it.
pub(super) fn without_links(target: &Path) -> Result<PathBuf> {
    if !target.is_symlink() {
        return Ok(target.to_path_buf());
    }
    target.canonicalize().with_context(|| format!("{} is a link to what is not there", target.display()))
}

/// Fails for a place within an archive, whose files others would take for its own.
pub(super) fn check_not_inside(target: &Path) -> Result<()> {
    let absolute = std::path::absolute(target)?;
    // Others may have a file of this name for something else.
    let holds_one = |folder: &&Path| is_archive(folder) && begins_as_manifest(&folder.join(MANIFEST));
    match absolute.ancestors().skip(1).find(holds_one) {
        Some(archive) => {
            bail!("{} is inside the archive {}; choose another place", target.display(), archive.display())
        }
        None => Ok(()),
    }
}

/// Whether a file may be what makes a folder an archive.
fn begins_as_manifest(file: &Path) -> bool {
    const BEGINNING: &[u8] = b"{\"version\":";
    let mut found = [0; BEGINNING.len()];
    std::fs::File::open(file).and_then(|mut file| file.read_exact(&mut found)).is_ok() && found == BEGINNING
}

/// Fails for a place where something is that no folder can take the place of, such as a device.
pub(super) fn check_folder_or_nothing(target: &Path) -> Result<()> {
    match target.metadata() {
        Ok(found) if !found.is_dir() && !found.is_file() => {
            bail!("{} is neither a file nor a folder; choose another place", target.display())
        }
        _ => Ok(()),
    }
}

/// Puts a finished folder in its place, where nothing was when it was begun.
pub(super) fn publish_new(staging: &Path, target: &Path) -> Result<()> {
    // Not everywhere can an empty folder be replaced.
    if target.is_dir() {
        let _ = std::fs::remove_dir(target);
    }
    if target.exists() {
        bail!("{} was made by another meanwhile; it is kept, choose another place", target.display());
    }
    let context = || format!("cannot put {} in place", target.display());
    sync_tree(staging).with_context(context)?;
    std::fs::rename(staging, target).with_context(context)?;
    unmark(target).with_context(context)?;
    sync_name(target).with_context(context)
}

/// Puts a finished folder in the place of another. That goes only when the new one is there, and on the disk.
pub(super) fn publish(staging: &Path, target: &Path) -> Result<()> {
    let context = || format!("cannot put {} in place", target.display());
    remove_old(target)?;
    sync_tree(staging).with_context(context)?;
    let old = old(target);
    // What is replaced is in the place of the claimed folder for a moment, and must not be claimed there.
    let replaced = std::fs::File::open(target).inspect(|folder| drop(folder.try_lock()));
    if exchange(staging, target) {
        sync_name(target).with_context(context)?;
        mark(staging).with_context(context)?;
        std::fs::rename(staging, &old).with_context(context)?;
    } else {
        mark(target).with_context(context)?;
        std::fs::rename(target, &old).with_context(context)?;
        if let Err(error) = std::fs::rename(staging, target) {
            // The old one is better than none.
            let _ = std::fs::rename(&old, target).and_then(|()| unmark(target));
            return Err(error).with_context(context);
        }
        sync_name(target).with_context(context)?;
    }
    drop(replaced);
    remove_old(target)?;
    // Until here a run that is killed is known by it.
    unmark(target).with_context(context)
}

/// Lets two folders change places at once, so that there is one at any moment. Not every system and file system can.
#[cfg(target_os = "linux")]
fn exchange(one: &Path, other: &Path) -> bool {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn exchange(_one: &Path, _other: &Path) -> bool {
    false
}

/// Removes what was replaced.
pub(super) fn remove_old(target: &Path) -> Result<()> {
    let old = old(target);
    if old.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        return Ok(());
    }
    if !is_marked(&old) {
        return Err(in_the_way(&old));
    }
    std::fs::remove_dir_all(&old).with_context(|| format!("cannot remove {}", old.display()))
}

/// Puts back what a run that was killed between the two renames had moved away. Fails where something else is in the place
/// for that.
pub(super) fn recover(target: &Path) -> Result<()> {
    let old = old(target);
    if old.symlink_metadata().is_ok() && !is_marked(&old) {
        return Err(in_the_way(&old));
    }
    if !target.exists() && is_marked(&old) {
        let back = std::fs::rename(&old, target).and_then(|()| unmark(target));
        back.with_context(|| format!("cannot put {} back", target.display()))?;
    }
    Ok(())
}

fn old(target: &Path) -> PathBuf {
    beside(target, "sparrow-old")
}

/// A hidden folder beside a target.
fn beside(target: &Path, what: &str) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    name.push(".");
    name.push(what);
    target.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_appeared_meanwhile_is_kept() {
        let root = tempfile::tempdir().expect("a folder");
        let (staging, target) = (root.path().join("staging"), root.path().join("target"));
        std::fs::create_dir(&staging).expect("a folder");
        std::fs::write(staging.join("new"), "new").expect("written");
        std::fs::create_dir(&target).expect("a folder");
        std::fs::write(target.join("old"), "old").expect("written");
        let error = publish_new(&staging, &target).expect_err("occupied");
        assert!(error.to_string().contains("target was made by another"), "{error}");
        assert!(target.join("old").is_file() && staging.join("new").is_file());
        std::fs::remove_file(target.join("old")).expect("removed");
        publish_new(&staging, &target).expect("published");
        assert!(target.join("new").is_file() && !staging.exists());
    }

    #[test]
    fn what_is_replaced_is_there_until_the_other_is() {
        let root = tempfile::tempdir().expect("a folder");
        let (staging, target) = (root.path().join("staging"), root.path().join("target"));
        let make = |folder: &Path, name: &str| {
            std::fs::create_dir(folder).expect("a folder");
            std::fs::write(folder.join(name), name).expect("written");
        };
        make(&target, "old");
        make(&staging, "new");
        std::thread::scope(|scope| {
            let publishing = scope.spawn(|| {
                for round in 0..200 {
                    publish(&staging, &target).expect("published");
                    make(&staging, &round.to_string());
                }
            });
            while !publishing.is_finished() {
                assert!(target.is_dir() || !cfg!(target_os = "linux"), "it was absent for a moment");
            }
        });
        assert!(target.join("198").is_file() && target.read_dir().expect("a folder").count() == 1);
        assert!(!old(&target).exists());
    }
}
