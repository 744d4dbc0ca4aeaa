//! `sparrow decompress`: the table as it was, within the bound.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::parquet::basic::Type;
use datafusion::parquet::schema::types::SchemaDescriptor;
use futures::{Stream, StreamExt};
use tokio::task::JoinError;

use super::super::output::ParquetOutput;
use super::super::report::{Report, ReportFormat};
use super::super::stores::Place;
use super::claim::{Claim, is_mark, is_marked};
use super::paths::{
    check_folder_or_nothing, check_not_inside, open, publish, publish_new, recover, staging, without_links,
};
use super::{object_tables, originals};
use crate::archive::{Archive, ArchiveError, FileEntry, parquet_types};
use crate::cli::messages::tell;

#[derive(Debug, Args)]
pub(in crate::cli) struct DecompressArguments {
    /// The archive
    archive: String,
    /// A file if it ends in .parquet, else a folder with a file for each of the archive's; a path or a URL
    #[arg(short, long, value_name = "OUT")]
    output: String,
    /// Replace a file, or a folder that holds nothing but tables of the same names
    #[arg(long)]
    overwrite: bool,
    /// Replace the very tables that the archive was made from, by what is left of them within the bound
    #[arg(long, requires = "overwrite")]
    replace_originals: bool,
    /// How the report is printed
    #[arg(long, value_enum, default_value = "table")]
    format: ReportFormat,
}

impl DecompressArguments {
    pub async fn run(&self) -> Result<()> {
        let archive = open(&self.archive).await?;
        let target = Place::parse(&self.output)?;
        let one = self.output.ends_with(".parquet");
        if one && !archive.partitions().is_empty() {
            let names = archive.partitions().join(", ");
            bail!("one file cannot hold the partitions by {names}; choose a folder for the output");
        }
        let restored = match &target {
            Place::Local(path) => self.write_files(&archive, path, one).await?,
            Place::Stored(stored) => {
                if self.overwrite && !self.replace_originals {
                    originals::check(originals::in_store(&archive, stored, one)?).await?;
                }
                object_tables::write(&archive, stored, &self.output, one, self.overwrite).await?
            }
        };
        let mut report = Report::default();
        report.add("files", restored.files);
        report.add("rows", restored.rows);
        report.add("failed", restored.failed.clone());
        report.print(self.format)?;
        if !restored.failed.is_empty() {
            let (failed, all) = (restored.failed.len(), archive.files().len());
            bail!("{failed} of {all} files failed; {} has the others", self.output);
        }
        Ok(())
    }

    async fn write_files(&self, archive: &Archive, target: &Path, one: bool) -> Result<Restored> {
        let target = &without_links(target)?;
        check_not_inside(target)?;
        check_folder_or_nothing(target)?;
        if one {
            return self.write_one(archive, target).await;
        }
        // What was replaced is there for a moment.
        let is_own = |_: &Path| is_marked(target);
        let claim = match Claim::take(staging(target, "sparrow-tables")?, is_own) {
            Ok(claim) => claim,
            // Where nothing can be written there may be nothing to do either.
            Err(error) => {
                self.check_folder(archive, target)?;
                return Err(error).with_context(|| format!("cannot write {}", target.display()));
            }
        };
        recover(target)?;
        let replaces = self.check_folder(archive, target)?;
        self.check_originals(archive, target, false).await?;
        // What is left of a run that was killed.
        claim.clear()?;
        let restored = async {
            let mut restored = Restored::default();
            for entry in archive.files() {
                restored.add(entry, write_table(archive, entry, &claim.folder).await)?;
            }
            restored.check(replaces)?;
            if replaces {
                check_replaceable(target, archive)?;
                publish(&claim.folder, target)?;
            } else {
                publish_new(&claim.folder, target)?;
            }
            Ok(restored)
        };
        let restored = restored.await;
        if restored.is_err() {
            // What cannot be removed is removed by the next run.
            let _ = claim.clear();
        }
        restored
    }

    async fn write_one(&self, archive: &Archive, target: &Path) -> Result<Restored> {
        if target.is_dir() {
            bail!("{} is a folder; it is not overwritten by a file", self.output);
        }
        self.check_absent(target.exists())?;
        self.check_originals(archive, target, true).await?;
        if let Some(folder) = target.parent() {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        }
        let schema = archive.schema().await?;
        let types = common_types(archive, &schema).await?;
        let mut output = ParquetOutput::create_with(target, schema.clone(), types, ParquetOutput::FAST)?;
        let mut restored = Restored::default();
        for entry in archive.files() {
            restored.rows += write(archive, entry, &schema, &mut output).await?;
            restored.files += 1;
        }
        output.finish_as(self.overwrite)?;
        Ok(restored)
    }

    /// Whether a folder with tables is to be replaced.
    fn check_folder(&self, archive: &Archive, target: &Path) -> Result<bool> {
        let is_empty = target.read_dir().is_ok_and(|mut entries| entries.next().is_none());
        let occupied = target.exists() && !is_empty;
        self.check_absent(occupied)?;
        check_replaceable(target, archive)?;
        Ok(occupied)
    }

    async fn check_originals(&self, archive: &Archive, target: &Path, one: bool) -> Result<()> {
        if self.replace_originals {
            return Ok(());
        }
        originals::check(originals::in_folder(archive, target, one)?).await
    }

    fn check_absent(&self, is_there: bool) -> Result<()> {
        if is_there && !self.overwrite {
            bail!("{} exists already; choose another place or pass --overwrite", self.output);
        }
        Ok(())
    }
}

/// The Parquet types of all files' rows in one file: those of the first, unless values of others would not fit.
pub(super) async fn common_types(archive: &Archive, schema: &SchemaRef) -> Result<SchemaDescriptor> {
    let Some((first, others)) = archive.files().split_first() else {
        return Ok(parquet_types(schema, None)?);
    };
    let types = archive.data_file(first).await?.parquet_types()?;
    let physical = |types: &SchemaDescriptor| -> Vec<Type> {
        types.columns().iter().map(|column| column.physical_type()).collect()
    };
    let plain = parquet_types(schema, None)?;
    if physical(&plain) == physical(&types) {
        return Ok(types);
    }
    // Some are narrower than what Arrow reads them as.
    for other in others {
        if physical(&archive.data_file(other).await?.parquet_types()?) != physical(&types) {
            return Ok(plain);
        }
    }
    Ok(types)
}

/// What was restored of an archive.
#[derive(Debug, Default)]
pub(super) struct Restored {
    pub files: usize,
    pub rows: u64,
    /// Files that could not be read.
    pub failed: Vec<String>,
}

impl Restored {
    /// A file that cannot be read is named and the rest goes on; whatever else fails ends it all.
    pub fn add(&mut self, entry: &FileEntry, rows: Result<u64>) -> Result<()> {
        match rows {
            Ok(rows) => {
                self.files += 1;
                self.rows += rows;
            }
            Err(error) if error.downcast_ref::<ArchiveError>().is_some() => {
                tell(format_args!("error: {error:#}"));
                self.failed.push(entry.path.clone());
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Whether this is worth publishing, in place of other tables or not.
    pub fn check(&self, replaces: bool) -> Result<()> {
        match (self.failed.len(), self.files) {
            (0, _) => Ok(()),
            (_, 0) => bail!("none of the archive's files could be read; nothing was written"),
            (failed, _) if replaces => {
                bail!("{failed} files failed, so that the tables that were there are kept")
            }
            _ => Ok(()),
        }
    }
}

/// A folder is replaced as a whole, so that it may hold nothing but tables that are written again.
fn check_replaceable(target: &Path, archive: &Archive) -> Result<()> {
    fn first_other(root: &Path, folder: &Path, names: &HashSet<PathBuf>) -> Result<Option<PathBuf>> {
        let cannot = || format!("cannot read {}", folder.display());
        for entry in std::fs::read_dir(folder).with_context(cannot)? {
            let entry = entry.with_context(cannot)?;
            let path = entry.path();
            if folder == root && is_mark(&entry.file_name()) {
                continue;
            }
            let other = match path.is_dir() {
                true => first_other(root, &path, names)?,
                false => {
                    let name = path.strip_prefix(root).unwrap_or(&path).to_path_buf();
                    (!names.contains(&name)).then_some(path)
                }
            };
            if other.is_some() {
                return Ok(other);
            }
        }
        Ok(None)
    }
    if target.is_file() {
        bail!("{} is a file; it is not overwritten by a folder", target.display());
    }
    let names = archive.files().iter().map(|file| PathBuf::from(&file.path)).collect();
    if target.is_dir()
        && let Some(other) = first_other(target, target, &names)?
    {
        bail!("{} is not in the archive: {} is not overwritten", other.display(), target.display());
    }
    Ok(())
}

async fn write_table(archive: &Archive, entry: &FileEntry, folder: &Path) -> Result<u64> {
    let file = archive.data_file(entry).await.with_context(|| format!("cannot read {}", entry.path))?;
    let path = folder.join(&entry.path);
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    }
    let types = file.parquet_types()?;
    let mut output = ParquetOutput::create_with(&path, file.schema.clone(), types, ParquetOutput::FAST)?;
    let rows = write(archive, entry, &file.schema, &mut output).await?;
    output.finish_aside()?;
    Ok(rows)
}

async fn write(
    archive: &Archive,
    entry: &FileEntry,
    schema: &SchemaRef,
    output: &mut ParquetOutput<'_>,
) -> Result<u64> {
    let mut decoded = std::pin::pin!(decoded(archive, entry, schema).await?);
    let mut rows = 0;
    while let Some(batch) = decoded.next().await {
        let batch = batch?;
        rows += batch.num_rows() as u64;
        output.write(&batch)?;
    }
    Ok(rows)
}

/// The rows of one data file, with columns as they are declared in `schema`; row groups are decoded in parallel and come
/// in order.
pub(super) async fn decoded(
    archive: &Archive,
    entry: &FileEntry,
    schema: &SchemaRef,
) -> Result<impl Stream<Item = Result<RecordBatch>> + use<>> {
    let mut file = archive.data_file(entry).await?;
    file.read_as(schema);
    let columns: Vec<usize> = (0..file.schema.fields().len()).collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let path = entry.path.clone();
    let decoded = futures::stream::iter(0..file.row_groups()).map(move |row_group| {
        let (file, columns) = (file.clone(), columns.clone());
        async move { tokio::spawn(async move { file.read(row_group, &columns).await }).await }
    });
    Ok(decoded
        .buffered(threads)
        .map(move |joined| of_task(joined).with_context(|| format!("cannot read {path}"))))
}

/// What a task has read. One that has panicked is an error of its file as others are, so that the rest goes on.
fn of_task<T>(joined: std::result::Result<Result<T, ArchiveError>, JoinError>) -> Result<T, ArchiveError> {
    joined.unwrap_or_else(|error| {
        let told = format!("decoding has not come to its end: {error}");
        Err(ArchiveError::Io(std::io::Error::other(told)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_error_of_its_file() {
        let joined = tokio::spawn(async { panic!("by mistake") }).await;
        let entry = serde_json::from_value(serde_json::json!({
            "path": "a.parquet", "rows": 1, "bytes": 1, "hash": "", "footer_bytes": 1, "footer": "", "source_bytes": 1,
            "source": "", "error": {
                "values": 0, "max": 0.0, "absolute": 0.0, "square": 0.0, "value_absolute": 0.0, "value_square": 0.0
            }
        }));
        let rows = of_task::<u64>(joined).context("cannot read a.parquet");
        let mut restored = Restored::default();
        restored.add(&entry.expect("an entry"), rows).expect("the rest goes on");
        assert_eq!(restored.failed, ["a.parquet"]);
    }
}
