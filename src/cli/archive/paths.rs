//! Paths, folders, patterns and URLs as files of an object store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use datafusion::object_store::local::LocalFileSystem;
use datafusion::object_store::path::Path as StorePath;
use datafusion::object_store::{self, ObjectStore, ObjectStoreExt};
use futures::TryStreamExt;

use super::super::stores::{Place, Stored};
use crate::archive::{Archive, ArchiveError, Input};

pub(super) fn local_store() -> Arc<dyn ObjectStore> {
    Arc::new(LocalFileSystem::new())
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
    let mut all: Vec<Found> = Vec::new();
    for argument in arguments {
        let found = match Place::parse(argument)? {
            Place::Local(path) => local_tables(argument, &path)?,
            Place::Stored(stored) => stored_tables(argument, &stored).await?,
        };
        if found.is_empty() {
            bail!("{argument}: no .parquet file there");
        }
        for found in found {
            let name = &found.input.name;
            if let Some(other) = all.iter().find(|other| other.input.name == *name) {
                bail!("two files would both be {name} in the archive: {} and {}", other.shown, found.shown);
            }
            if ["dictionary.parquet", MANIFEST, "job.json"].contains(&name.as_str()) {
                bail!(
                    "{}: an archive keeps its own dictionary under this name; rename the file",
                    found.shown
                );
            }
            all.push(found);
        }
    }
    Ok(all.into_iter().map(|found| found.input).collect())
}

/// What makes a folder an archive.
const MANIFEST: &str = "archive.json";

fn is_archive(argument: &str) -> String {
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
        if path.join(MANIFEST).is_file() {
            bail!(is_archive(argument));
        }
        let mut found = Vec::new();
        walk(path, path, &mut found)?;
        found
    } else if path.exists() || !has_wildcards(argument) {
        let name = path.file_name().with_context(|| format!("{argument} is no file"))?;
        vec![(name.to_string_lossy().into_owned(), path.to_path_buf())]
    } else {
        matching(argument)?
    };
    let store = local_store();
    let table = |(name, path): (String, PathBuf)| {
        if !path.is_file() {
            bail!("{}: no such file", path.display());
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
        bail!(is_archive(argument));
    }
    let options = glob::MatchOptions { require_literal_separator: true, ..glob::MatchOptions::new() };
    let mut found = Vec::new();
    for object in objects {
        let Some(below) = object.prefix_match(&folder) else { continue };
        let below: Vec<String> = below.map(|part| part.as_ref().to_string()).collect();
        let name = below.join("/");
        let wanted = match &pattern {
            Some(pattern) => pattern.matches_with(&name, options),
            None => object.extension() == Some("parquet") && !below.iter().any(|part| is_hidden(part)),
        };
        if wanted {
            let shown = format!("{} in {argument}", object);
            found.push(table(name, object, shown));
        }
    }
    Ok(found)
}

/// All Parquet files below a folder, in order; hidden ones are left out.
fn walk(root: &Path, folder: &Path, found: &mut Vec<(String, PathBuf)>) -> Result<()> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    paths.sort();
    for path in paths {
        if path.file_name().is_some_and(|name| is_hidden(&name.to_string_lossy())) {
            continue;
        }
        if path.is_dir() {
            walk(root, &path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "parquet") {
            let relative = path.strip_prefix(root).unwrap_or(&path);
            let parts: Vec<String> =
                relative.iter().map(|part| part.to_string_lossy().into_owned()).collect();
            found.push((parts.join("/"), path));
        }
    }
    Ok(())
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

/// The folder beside a target in which it is made.
pub(super) fn staging(target: &Path) -> Result<PathBuf> {
    let name =
        target.file_name().with_context(|| format!("{} is no place for a folder", target.display()))?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(".sparrow-partial");
    Ok(target.with_file_name(hidden))
}

/// Puts a finished folder in its place. What was there goes only when the new one is there.
pub(super) fn publish(staging: &Path, target: &Path) -> Result<()> {
    let context = || format!("cannot put {} in place", target.display());
    if !target.exists() {
        return std::fs::rename(staging, target).with_context(context);
    }
    let old = old(target);
    if old.exists() {
        std::fs::remove_dir_all(&old).with_context(|| format!("cannot remove {}", old.display()))?;
    }
    std::fs::rename(target, &old).with_context(context)?;
    if let Err(error) = std::fs::rename(staging, target) {
        // The old one is better than none.
        let _ = std::fs::rename(&old, target);
        return Err(error).with_context(context);
    }
    std::fs::remove_dir_all(&old).with_context(|| format!("cannot remove {}", old.display()))
}

/// Puts back what a run that was killed between the two renames had moved away.
pub(super) fn recover(target: &Path) -> Result<()> {
    let old = old(target);
    if !target.exists() && old.join("archive.json").is_file() {
        std::fs::rename(&old, target).with_context(|| format!("cannot put {} back", target.display()))?;
    }
    Ok(())
}

fn old(target: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    name.push(".sparrow-old");
    target.with_file_name(name)
}
