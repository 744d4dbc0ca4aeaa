//! `sparrow decompress`: the table as it was, within the bound.

use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::Args;
use futures::StreamExt;

use super::super::output::ParquetOutput;
use super::super::report::{Report, ReportFormat};
use super::paths::{local_path, open, publish};
use crate::archive::{Archive, FileEntry};

#[derive(Debug, Args)]
pub(in crate::cli) struct DecompressArguments {
    /// The archive
    archive: String,
    /// A file if it ends in .parquet, else a folder with a file for each of the archive's
    #[arg(short, long, value_name = "OUT")]
    output: String,
    /// Replace what is there
    #[arg(long)]
    overwrite: bool,
    /// How the report is printed
    #[arg(long, value_enum, default_value = "table")]
    format: ReportFormat,
}

impl DecompressArguments {
    pub async fn run(&self) -> Result<()> {
        let archive = open(&self.archive).await?;
        let target = local_path(&self.output)?;
        if target.exists() && !self.overwrite {
            bail!("{} exists already; choose another place or pass --overwrite", self.output);
        }
        let one = target.extension().is_some_and(|extension| extension == "parquet");
        let mut rows = 0;
        if one {
            if !archive.partitions().is_empty() {
                let names = archive.partitions().join(", ");
                bail!("one file cannot hold the partitions by {names}; choose a folder for the output");
            }
            let schema = archive.schema().await?;
            let mut output = ParquetOutput::create_with(&target, schema, ParquetOutput::FAST)?;
            for entry in archive.files() {
                rows += write(&archive, entry, &mut output).await?;
            }
            output.finish()?;
        } else {
            check_replaceable(&target)?;
            let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty());
            let parent = parent.unwrap_or(Path::new("."));
            std::fs::create_dir_all(parent).with_context(|| format!("cannot write {}", parent.display()))?;
            // Goes away by itself unless it is put in place.
            let staging = tempfile::Builder::new().prefix(".sparrow-").tempdir_in(parent);
            let staging = staging.with_context(|| format!("cannot write into {}", parent.display()))?;
            let folder = staging.path().join("tables");
            std::fs::create_dir(&folder)?;
            rows = write_all(&archive, &folder).await?;
            publish(&folder, &target)?;
        }
        let mut report = Report::default();
        report.add("files", archive.files().len());
        report.add("rows", rows);
        report.print(self.format)
    }
}

/// Only folders of tables are replaced: nothing else, and no archive.
fn check_replaceable(target: &Path) -> Result<()> {
    fn is_tables(folder: &Path) -> Result<bool> {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            let table = path.extension().is_some_and(|extension| extension == "parquet");
            if (path.is_dir() && !is_tables(&path)?) || (path.is_file() && !table) {
                return Ok(false);
            }
        }
        Ok(true)
    }
    if target.is_file() || (target.is_dir() && !is_tables(target)?) {
        bail!("{} holds more than Parquet tables; it is not overwritten", target.display());
    }
    Ok(())
}

async fn write_all(archive: &Archive, folder: &Path) -> Result<u64> {
    let mut rows = 0;
    for entry in archive.files() {
        let path = folder.join(&entry.path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        let schema = archive.data_file(entry).await?.schema;
        let mut output = ParquetOutput::create_with(&path, schema, ParquetOutput::FAST)?;
        rows += write(archive, entry, &mut output).await?;
        output.finish()?;
    }
    Ok(rows)
}

/// Writes the rows of one data file; row groups are decoded in parallel and written in order.
async fn write(archive: &Archive, entry: &FileEntry, output: &mut ParquetOutput<'_>) -> Result<u64> {
    let file = archive.data_file(entry).await?;
    let columns: Vec<usize> = (0..file.schema.fields().len()).collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let decoded = futures::stream::iter(0..file.row_groups()).map(|row_group| {
        let (file, columns) = (file.clone(), columns.clone());
        async move { tokio::spawn(async move { file.read(row_group, &columns).await }).await }
    });
    let mut decoded = std::pin::pin!(decoded.buffered(threads));
    let mut rows = 0;
    while let Some(batch) = decoded.next().await {
        let batch = batch?.with_context(|| format!("cannot read {}", entry.path))?;
        rows += batch.num_rows() as u64;
        output.write(&batch)?;
    }
    Ok(rows)
}
