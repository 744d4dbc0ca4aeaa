//! `COPY ... TO` whose output appears whole or not at all.
//!
//! DataFusion writes to the place named, and when a query fails half-way it leaves a file that looks
//! complete. So local targets are written into a hidden folder beside them and moved when done.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::sql::parser::CopyToStatement;
use tempfile::TempDir;

/// A COPY that goes to a hidden folder; dropping it removes what was written.
pub(super) struct StagedCopy {
    folder: TempDir,
    target: PathBuf,
    single_file: bool,
}

impl StagedCopy {
    /// Redirects the statement; `None` where the target is not a local path.
    pub fn redirect(statement: &mut CopyToStatement) -> Result<Option<Self>> {
        let place = ListingTableUrl::parse(&statement.target)?;
        let Some(target) = (place.scheme() == "file").then(|| place.get_url().to_file_path().ok()).flatten()
        else {
            return Ok(None);
        };
        if target.metadata().is_ok_and(|found| !found.is_dir() && !found.is_file()) || is_stream(&target) {
            bail!(
                "cannot write {}: COPY makes files and folders; `sparrow sql --format csv` prints rows",
                target.display()
            );
        }
        // DataFusion's own rule: a path without an extension is a folder.
        let file = !statement.target.ends_with('/') && target.extension().is_some();
        let single_file = file && statement.partitioned_by.is_empty();
        let parent =
            target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
        let folder = tempfile::Builder::new().prefix(".sparrow-").tempdir_in(parent);
        let folder = folder.with_context(|| format!("cannot write into {}", parent.display()))?;
        let staged = match target.file_name().filter(|_| single_file) {
            Some(name) => folder.path().join(name).display().to_string(),
            None => format!("{}/", folder.path().display()),
        };
        statement.target = staged;
        Ok(Some(Self { folder, target, single_file }))
    }

    /// Moves what was written to where it belongs.
    pub fn publish(self) -> Result<()> {
        let cannot = || format!("cannot write {}", self.target.display());
        if !self.single_file {
            return move_files(self.folder.path(), &self.target).with_context(cannot);
        }
        let name = self.target.file_name().unwrap_or_default();
        std::fs::rename(self.folder.path().join(name), &self.target).with_context(cannot)
    }
}

/// Whether a path stands for what the process was given to write to, even if that is a file.
fn is_stream(path: &Path) -> bool {
    let is_one = |name: &&str| path == Path::new(name);
    ["/dev/stdout", "/dev/stderr"].iter().any(is_one)
        || path.starts_with("/dev/fd")
        || path.starts_with("/proc/self/fd")
}

/// Moves every file below `from` to the same place below `to`.
fn move_files(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let destination = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            move_files(&entry.path(), &destination)?;
        } else {
            std::fs::rename(entry.path(), destination)?;
        }
    }
    Ok(())
}
