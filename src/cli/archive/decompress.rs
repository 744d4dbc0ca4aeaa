//! `sparrow decompress`: the table as it was, within the bound.

use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::Args;
use futures::StreamExt;

use super::super::output::ParquetOutput;
use super::super::report::{Report, ReportFormat};
use super::paths::{local_path, open, publish, staging};
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
            let schema = archive.schema().await?;
            let mut output = ParquetOutput::create_with(&target, schema, ParquetOutput::FAST)?;
            for entry in archive.files() {
                rows += write(&archive, entry, &mut output).await?;
            }
            output.finish()?;
        } else {
            let staging = staging(&target)?;
            if staging.exists() {
                std::fs::remove_dir_all(&staging)?;
            }
            std::fs::create_dir_all(&staging).with_context(|| format!("cannot write {}", staging.display()))?;
            let written = write_all(&archive, &staging).await;
            if written.is_err() {
                let _ = std::fs::remove_dir_all(&staging);
            }
            rows = written?;
            publish(&staging, &target)?;
        }
        let mut report = Report::default();
        report.add("files", archive.files().len());
        report.add("rows", rows);
        report.print(self.format)
    }
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
        let (file, columns, codebook) = (file.clone(), columns.clone(), archive.codebook().clone());
        async move { tokio::spawn(async move { file.read(&codebook, row_group, &columns).await }).await }
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
