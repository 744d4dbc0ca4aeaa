//! `sparrow verify`: is an archive what was written, and what was promised?

use anyhow::{Result, bail};
use clap::Args;

use super::super::report::{Report, ReportFormat};
use super::paths::{inputs, open};
use crate::cli::messages::tell;

#[derive(Debug, Args)]
pub(in crate::cli) struct VerifyArguments {
    /// The archive
    archive: String,
    /// The original files: compares every value with them
    #[arg(long, value_name = "INPUT", num_args = 1..)]
    against: Vec<String>,
    /// How the report is printed
    #[arg(long, value_enum, default_value = "table")]
    format: ReportFormat,
}

impl VerifyArguments {
    pub async fn run(&self) -> Result<()> {
        let archive = open(&self.archive).await?;
        let originals = if self.against.is_empty() { None } else { Some(inputs(&self.against).await?) };
        let found = archive.verify(originals.as_deref()).await?;
        let strangers = archive.strangers().await?;
        let mut report = Report::default();
        report.add("files", found.files);
        report.add("rows", found.rows);
        if originals.is_some() {
            report.add("match_their_originals", found.matched);
        }
        report.add("max_error", found.error.max);
        report.add("nmae", found.error.nmae);
        report.add("nrmse", found.error.nrmse);
        let problems = found.problems.iter().map(|(file, problem)| format!("{file}: {problem}"));
        report.add("problems", problems.collect::<Vec<_>>());
        report.add("strangers", strangers.clone());
        report.print(self.format)?;
        for stranger in &strangers {
            tell(format_args!(
                "warning: {stranger} is no part of the archive; other programs may take it for a table of it"
            ));
        }
        for (file, problem) in &found.problems {
            tell(format_args!("error: {file}: {problem}"));
        }
        if !found.problems.is_empty() {
            bail!("files that do not pass: {}", found.problems.len());
        }
        Ok(())
    }
}
