//! Local paths, folders, patterns and URLs as files of an object store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use datafusion::object_store::ObjectStore;
use datafusion::object_store::local::LocalFileSystem;
use datafusion::object_store::path::Path as StorePath;

use crate::archive::{Archive, Input};

pub(super) fn local_store() -> Arc<dyn ObjectStore> {
    Arc::new(LocalFileSystem::new())
}

/// A path on this machine, from a path or a `file://` URL.
pub(super) fn local_path(text: &str) -> Result<PathBuf> {
    match text.split_once("://") {
        Some(("file", path)) => Ok(PathBuf::from(path)),
        Some((scheme, _)) => bail!(
            "{text}: the command reads local files only; for {scheme}:// register its object store with DataFusion and use the library"
        ),
        None => Ok(PathBuf::from(text)),
    }
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

/// The Parquet files that arguments stand for, with their names in an archive.
pub(super) fn inputs(arguments: &[String]) -> Result<Vec<Input>> {
    let store = local_store();
    let mut inputs: Vec<Input> = Vec::new();
    for argument in arguments {
        let path = local_path(argument)?;
        let found = if path.is_dir() {
            let mut found = Vec::new();
            walk(&path, &path, &mut found)?;
            found
        } else if path.exists() || !argument.contains(['*', '?', '[']) {
            let name = path.file_name().with_context(|| format!("{argument} is no file"))?;
            vec![(name.to_string_lossy().into_owned(), path.clone())]
        } else {
            matching(argument)?
        };
        if found.is_empty() {
            bail!("{argument}: no .parquet file there");
        }
        for (name, path) in found {
            if let Some(other) = inputs.iter().find(|input| input.name == name) {
                bail!(
                    "two files would both be {name} in the archive: /{} and {}",
                    other.path,
                    path.display()
                );
            }
            if ["dictionary.parquet", "archive.json", "job.json"].contains(&name.as_str()) {
                bail!(
                    "{}: an archive keeps its own dictionary under this name; rename the file",
                    path.display()
                );
            }
            if !path.is_file() {
                bail!("{}: no such file", path.display());
            }
            inputs.push(Input { store: store.clone(), path: store_path(&path)?, name });
        }
    }
    Ok(inputs)
}

/// All Parquet files below a folder, in order; hidden ones are left out.
fn walk(root: &Path, folder: &Path, found: &mut Vec<(String, PathBuf)>) -> Result<()> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    paths.sort();
    for path in paths {
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(['.', '_']));
        if hidden {
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
    let fixed: PathBuf = Path::new(pattern)
        .iter()
        .take_while(|part| !part.to_string_lossy().contains(['*', '?', '[']))
        .collect();
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
    let path = local_path(argument)?;
    if !path.is_dir() {
        bail!("{argument}: no such folder");
    }
    Archive::open(local_store(), store_path(&path)?).await.with_context(|| format!("cannot open {argument}"))
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
