//! `sparrow inspect`: what is in an archive, and where its bytes are.

use std::collections::BTreeMap;

use anyhow::Result;
use clap::Args;
use serde_json::json;

use super::super::report::{Report, ReportFormat};
use super::paths::open;
use crate::archive::Archive;

#[derive(Debug, Args)]
pub(in crate::cli) struct InspectArguments {
    /// The archive
    archive: String,
    /// How the report is printed
    #[arg(long, value_enum, default_value = "table")]
    format: ReportFormat,
}

impl InspectArguments {
    pub async fn run(&self) -> Result<()> {
        let archive = open(&self.archive).await?;
        let mut report = Report::default();
        report.add("format_version", crate::archive::FORMAT_VERSION);
        report.add("layout", serde_json::to_value(archive.layout())?);
        report.add("target", serde_json::to_value(archive.target())?);
        report.add("bound", serde_json::to_value(archive.bound())?);
        if let Some(kept) = archive.kept() {
            report.add("does_not_pay", kept);
        }
        report.add("rows", archive.rows());
        report.add("files", archive.files().len());
        let codebook = archive.codebook();
        let parameters: BTreeMap<&str, f64> = codebook.kernel().parameters().into_iter().collect();
        report.add(
            "dictionary",
            json!({
                "hash": codebook.hash(), "atoms": codebook.atoms(), "sensors": codebook.sensors(),
                "kernel": codebook.kernel().name(), "parameters": parameters, "lambda": codebook.lambda(),
                "weight_step": codebook.weight_step(), "learned_from_signals": archive.learned_from(),
            }),
        );
        let promises: Vec<_> = (0..archive.generations() as u32).map(|i| archive.promise(i)).collect();
        report.add("promises", serde_json::to_value(promises)?);
        report.add("search", serde_json::to_value(archive.search())?);
        let parts = bytes_by_part(&archive).await?;
        report.add("archive_bytes", archive.total_bytes());
        report.add("bytes_by_part", parts);
        let error = archive.error();
        report.add("max_error", error.max);
        report.add("nmae", error.nmae);
        report.add("nrmse", error.nrmse);
        report.add("history", serde_json::to_value(archive.history())?);
        let files = archive.files().iter().map(|file| {
            let error = file.error();
            json!({
                "path": file.path, "rows": file.rows, "bytes": file.bytes, "source_bytes": file.source_bytes,
                "stored_as_it_was": file.stored.is_some(),
                "max_error": error.max, "nmae": error.nmae, "nrmse": error.nrmse,
                "generation": file.generation, "left_by_codes": file.left, "left_limit": file.left_limit,
                "drifted": file.left.zip(file.left_limit).map(|(left, limit)| file.drift.is_some() || left > limit),
                "drift": file.drift,
            })
        });
        report.add("data_files", files.collect::<Vec<_>>());
        report.print(self.format)
    }
}

/// Bytes of other columns, codes, residuals, and the rest.
async fn bytes_by_part(archive: &Archive) -> Result<serde_json::Value> {
    let (mut kept, mut codes, mut residuals, mut stored, mut footers) = (0, 0, 0, 0, 0);
    for entry in archive.files() {
        let file = archive.data_file(entry).await?;
        let Some((code_column, residual_column)) = file.coded_columns() else {
            stored += entry.bytes;
            continue;
        };
        let mut chunks = 0;
        for (column, bytes) in file.bytes_by_column() {
            chunks += bytes;
            let part = match column {
                _ if column < code_column => &mut kept,
                _ if column < residual_column => &mut codes,
                _ => &mut residuals,
            };
            *part += bytes;
        }
        footers += entry.bytes - chunks;
    }
    let dictionary = archive.dictionary_bytes();
    let parts = kept + codes + residuals + stored + footers + dictionary;
    Ok(json!({
        "other_columns": kept, "codes": codes, "residuals": residuals, "stored_as_they_were": stored,
        "footers": footers, "dictionary": dictionary, "manifest": archive.total_bytes().saturating_sub(parts),
    }))
}
