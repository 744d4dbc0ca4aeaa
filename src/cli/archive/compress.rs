//! `sparrow compress` and `sparrow append`.

use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::Args;

use super::super::parse::{parse_count, parse_positive, parse_ratio, parse_share};
use super::super::report::{Report, ReportFormat};
use super::super::threads::limit_threads;
use super::arguments::{LayoutArguments, LearnArguments};
use super::paths::{inputs, local_path, local_store, open, publish, recover, staging, store_path};
use super::progress::JobBar;
use crate::archive::{ArchiveError, Bound, Job, JobReport, Target, compress, read_dictionary};
use crate::math::Dictionary;

#[derive(Debug, Args)]
pub(in crate::cli) struct CompressArguments {
    /// Parquet files, folders of them, or patterns such as 'data/*.parquet'
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<String>,
    /// The archive to make: a folder
    #[arg(short, long, value_name = "ARCHIVE")]
    output: String,
    #[command(flatten)]
    layout: LayoutArguments,
    /// Choose everything so that the mean error is at most this share of the mean absolute value
    #[arg(long, value_name = "E", allow_negative_numbers = true, value_parser = parse_share, conflicts_with_all = ["target_ratio", "max_error", "max_relative_error", "lossless", "dictionary"])]
    target_nmae: Option<f64>,
    /// Choose everything so that the archive takes so many times fewer bytes than the values in memory
    #[arg(long, value_name = "R", allow_negative_numbers = true, value_parser = parse_ratio, conflicts_with_all = ["max_error", "max_relative_error", "lossless", "dictionary"])]
    target_ratio: Option<f64>,
    /// Promise that no value is off by more than this
    #[arg(long, value_name = "E", allow_negative_numbers = true, value_parser = parse_positive, conflicts_with_all = ["max_relative_error", "lossless"])]
    max_error: Option<f64>,
    /// Promise that no value is off by more than this share of itself
    #[arg(long, value_name = "E", allow_negative_numbers = true, value_parser = parse_share, conflicts_with = "lossless")]
    max_relative_error: Option<f64>,
    /// Give every value back as it was
    #[arg(long)]
    lossless: bool,
    /// A dictionary made by sparse_train, in the column `dictionary` of a Parquet file [default: learned]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["atoms", "kernel", "sigma"])]
    dictionary: Option<String>,
    #[command(flatten)]
    learn: LearnArguments,
    /// Replace an archive that is there, once the new one is whole
    #[arg(long)]
    overwrite: bool,
    #[command(flatten)]
    running: Running,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct AppendArguments {
    /// The archive to add to
    archive: String,
    /// Parquet files, folders of them, or patterns
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<String>,
    #[command(flatten)]
    running: Running,
}

#[derive(Debug, Args)]
struct Running {
    /// Learn another dictionary where data is no longer like what was learned from
    #[arg(long)]
    retrain_on_drift: bool,
    /// Threads to use [default: all cores]
    #[arg(long, value_parser = parse_count::<1024>)]
    threads: Option<usize>,
    /// How the report is printed
    #[arg(long, value_enum, default_value = "table")]
    format: ReportFormat,
}

impl CompressArguments {
    fn bound(&self) -> Result<Bound> {
        Ok(Bound::from_options(self.max_error, self.max_relative_error, self.lossless)?)
    }

    pub async fn run(&self) -> Result<()> {
        let target = local_path(&self.output)?;
        let occupied =
            target.is_file() || target.read_dir().is_ok_and(|mut entries| entries.next().is_some());
        if occupied && !self.overwrite {
            return Err(ArchiveError::Exists(self.output.clone()).into());
        }
        if occupied && !target.join("archive.json").is_file() {
            bail!("{} is not an archive; it is not overwritten", self.output);
        }
        let inputs = inputs(&self.inputs)?;
        let job = Job {
            layout: self.layout.request()?,
            bound: self.bound()?,
            target: Target::from_options(self.target_nmae, self.target_ratio)?,
            dictionary: self
                .dictionary
                .as_deref()
                .map(|path| given_dictionary(path, self.learn.lambda))
                .transpose()?,
            learn: self.learn.settings(),
            threads: limit_threads(self.running.threads)?,
            resume: true,
            retrain_on_drift: self.running.retrain_on_drift,
        };
        let staging = staging(&target)?;
        recover(&target)?;
        if is_foreign(&staging) {
            bail!("{} is in the way: archives are made there; rename it", staging.display());
        }
        std::fs::create_dir_all(&staging).with_context(|| format!("cannot write {}", target.display()))?;
        let folder = store_path(&staging)?;
        let bar = JobBar::new(self.running.retrain_on_drift);
        let mut result = compress(&inputs, &local_store(), &folder, &job, bar.as_ref()).await;
        if let Err(ArchiveError::OtherJob(_) | ArchiveError::Exists(_)) = &result {
            // What another job has left is of no use.
            std::fs::remove_dir_all(&staging)?;
            std::fs::create_dir_all(&staging)?;
            result = compress(&inputs, &local_store(), &folder, &job, bar.as_ref()).await;
        }
        bar.clear();
        let report = match result {
            Ok(report) => report,
            Err(error) => {
                discard_if_useless(&staging, &error);
                return Err(error.into());
            }
        };
        remove_strays(&staging, &report)?;
        if target.is_dir() && !occupied {
            std::fs::remove_dir(&target)?;
        }
        publish(&staging, &target)?;
        let archive = open(&self.output).await?;
        warn_of_ratio(&report, &archive);
        print(&report, &archive, archive.total_bytes(), self.running.format)?;
        failures(&report)
    }
}

impl AppendArguments {
    pub async fn run(&self) -> Result<()> {
        let retrain_on_drift = self.running.retrain_on_drift;
        let job = Job { threads: limit_threads(self.running.threads)?, retrain_on_drift, ..Job::default() };
        let archive = open(&self.archive).await?;
        let bar = JobBar::new(self.running.retrain_on_drift);
        let result = archive.append(&inputs(&self.inputs)?, &job, bar.as_ref()).await;
        bar.clear();
        let report = result?;
        let added = report.files.iter().map(|file| file.bytes).sum();
        print(&report, &open(&self.archive).await?, added, self.running.format)?;
        failures(&report)
    }
}

/// Files that failed were named as they failed; the exit code must say so too.
fn failures(report: &JobReport) -> Result<()> {
    if report.failed.is_empty() {
        return Ok(());
    }
    bail!(
        "{} of {} files failed; the archive has the others, and `sparrow append` adds what is mended",
        report.failed.len(),
        report.failed.len() + report.files.len()
    )
}

/// A folder where archives are made that holds something else.
fn is_foreign(staging: &Path) -> bool {
    let occupied = staging.read_dir().is_ok_and(|mut entries| entries.next().is_some());
    let ours = ["job.json", "archive.json"].iter().any(|name| staging.join(name).is_file());
    staging.is_file() || (occupied && !ours)
}

/// Nothing is left of a job that has finished no file, unless it was stopped on purpose.
fn discard_if_useless(staging: &Path, error: &ArchiveError) {
    let finished = staging.read_dir().is_ok_and(|entries| {
        entries.flatten().any(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            !["dictionary.parquet", "job.json"].contains(&name.as_str()) && !name.contains('#')
        })
    });
    if !finished && !matches!(error, ArchiveError::Cancelled) {
        let _ = std::fs::remove_dir_all(staging);
    }
}

/// Removes what earlier runs that were killed have left half written.
fn remove_strays(staging: &Path, report: &JobReport) -> Result<()> {
    fn visit(root: &Path, folder: &Path, report: &JobReport) -> Result<()> {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                visit(root, &path, report)?;
                continue;
            }
            let relative = path.strip_prefix(root).unwrap_or(&path);
            let name: Vec<String> = relative.iter().map(|part| part.to_string_lossy().into_owned()).collect();
            let name = name.join("/");
            // The object store writes `name#1` and renames it when it is whole.
            let half_written = name.rsplit_once('#').is_some_and(|(_, number)| number.parse::<u64>().is_ok());
            if half_written && !report.files.iter().any(|file| file.path == name) {
                std::fs::remove_file(&path)?;
            }
        }
        Ok(())
    }
    visit(staging, staging, report)
}

/// What is reached may be off the target by so much.
const NEARLY: f64 = 1.05;

/// `bytes` are those that the job has made: of the whole archive, or of what was added to one.
fn print(
    report: &JobReport,
    archive: &crate::archive::Archive,
    bytes: u64,
    format: ReportFormat,
) -> Result<()> {
    let input: u64 = report.files.iter().map(|file| file.source_bytes).sum();
    let output: u64 = report.files.iter().map(|file| file.bytes).sum();
    let stored: Vec<&str> =
        report.files.iter().filter(|file| file.stored.is_some()).map(|file| file.path.as_str()).collect();
    let mut printed = Report::default();
    printed.add("layout", serde_json::to_value(archive.layout())?);
    printed.add("target", serde_json::to_value(archive.target())?);
    printed.add("bound", serde_json::to_value(archive.bound())?);
    printed.add("files", report.files.len());
    printed.add("resumed", report.resumed);
    printed.add("failed", report.failed.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>());
    printed.add("rows", report.files.iter().map(|file| file.rows).sum::<u64>());
    printed.add("input_bytes", input);
    printed.add("data_bytes", output);
    printed.add("dictionary_bytes", report.dictionary_bytes);
    printed.add("archive_bytes", archive.total_bytes());
    printed.add("ratio_to_input_files", input as f64 / bytes.max(1) as f64);
    printed
        .add("ratio_to_values", report.value_bytes as f64 / (output + report.dictionary_bytes).max(1) as f64);
    printed.add("stored_as_they_were", stored);
    if let Some(kept) = archive.kept() {
        printed.add("does_not_pay", kept);
    }
    let error = archive.error();
    printed.add("max_error", error.max);
    printed.add("nmae", error.nmae);
    printed.add("nrmse", error.nrmse);
    printed.add("drift", serde_json::to_value(&report.drift)?);
    if let Some(Target::Nmae(limit)) = archive.target()
        && error.nmae > NEARLY * limit
        && !report.files.is_empty()
    {
        let (reached, limit) = (100.0 * error.nmae, 100.0 * limit);
        eprintln!("warning: the mean error is {reached:.2} %, the target was {limit:.2} %");
    }
    printed.print(format)
}

fn warn_of_ratio(report: &JobReport, archive: &crate::archive::Archive) {
    let Some(Target::Ratio(limit)) = archive.target() else { return };
    let reached = report.value_bytes as f64 / archive.total_bytes().max(1) as f64;
    if reached * NEARLY < limit {
        eprintln!(
            "warning: the archive is {reached:.1} times smaller than its values, the target was {limit}"
        );
    }
}

/// The dictionary in a Parquet file.
fn given_dictionary(path: &str, lambda: Option<f64>) -> Result<Dictionary> {
    let context = || format!("cannot read the dictionary {path}");
    let bytes = std::fs::read(local_path(path)?).with_context(context)?;
    read_dictionary(bytes.into(), lambda).with_context(context)
}
