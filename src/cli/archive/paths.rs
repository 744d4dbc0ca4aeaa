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
use crate::cli::messages::tell;

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

impl Found {
    fn is_same_file(&self, other: &Self) -> bool {
        self.input.path == other.input.path && self.input.store.to_string() == other.input.store.to_string()
    }
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
            if let Some(other) = all.iter().find(|other| other.is_same_file(&found)) {
                bail!("{} is given twice, as {} and as {name}", found.shown, other.input.name);
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
    let (mut found, mut left_out) = (Vec::new(), Vec::new());
    for object in objects {
        let Some(below) = object.prefix_match(&folder) else { continue };
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
            if path.join(MANIFEST).is_file() && !is_hidden {
                left_out.push(name);
            } else if !is_hidden && !leads_upwards(&path) {
                walk(root, &path, found, left_out)?;
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
