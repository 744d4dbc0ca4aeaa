//! The tables that an archive was made from: nothing that comes back from it is worth as much.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use datafusion::object_store::ObjectStore;
use datafusion::object_store::path::Path as StorePath;

use super::super::stores::Stored;
use super::object_tables::table_path;
use super::paths::{local_store, store_path};
use crate::archive::{Archive, FileEntry};

/// A file that is to be replaced, and the entry of an archive that may have been made from it.
pub(super) struct Replaced<'a> {
    entry: &'a FileEntry,
    store: Arc<dyn ObjectStore>,
    path: StorePath,
    shown: String,
}

/// The files that one table, or a folder of them, takes the place of.
pub(super) fn in_folder<'a>(archive: &'a Archive, target: &Path, one: bool) -> Result<Vec<Replaced<'a>>> {
    let store = local_store();
    let mut found = Vec::new();
    for entry in archive.files() {
        let file = if one { target.to_path_buf() } else { target.join(&entry.path) };
        if file.is_file() {
            let (path, shown) = (store_path(&file)?, file.display().to_string());
            found.push(Replaced { entry, store: store.clone(), path, shown });
        }
    }
    Ok(found)
}

/// The same in an object store.
pub(super) fn in_store<'a>(archive: &'a Archive, target: &Stored, one: bool) -> Result<Vec<Replaced<'a>>> {
    let replaced = |entry: &'a FileEntry| {
        let path = if one { target.path.clone() } else { table_path(target, entry)? };
        let shown = path.to_string();
        Ok(Replaced { entry, store: target.store.clone(), path, shown })
    };
    archive.files().iter().map(replaced).collect()
}

/// Fails where an original would be replaced by what is left of it.
pub(super) async fn check(replaced: Vec<Replaced<'_>>) -> Result<()> {
    for Replaced { entry, store, path, shown } in replaced {
        let is_original = entry.is_approximate() && {
            let found = entry.is_made_from(&store, &path).await;
            found.with_context(|| format!("cannot read {shown}"))?
        };
        if is_original {
            bail!(
                "{shown} is a table that the archive was made from, and what the archive has of it is off by up to {}; choose \
                 another place, or pass --replace-originals to lose the original",
                entry.error().max
            );
        }
    }
    Ok(())
}
