//! `sparrow compress` and `sparrow append`.

use anyhow::{Context, Result, bail};
use clap::Args;
use datafusion::object_store::ObjectStoreExt;

use super::super::parse::{parse_count, parse_positive, parse_ratio, parse_share};
use super::super::report::{Report, ReportFormat};
use super::super::stores::{Place, Stored};
use super::super::threads::limit_threads;
use super::arguments::{LayoutArguments, LearnArguments};
use super::paths::{inputs, open, without_links};
use super::progress::JobBar;
use super::{local_job, object_job};
use crate::archive::{Bound, FileEntry, Job, JobReport, Target, read_dictionary};
use crate::cli::messages::{percent, tell};
use crate::math::Dictionary;

#[derive(Debug, Args)]
pub(in crate::cli) struct CompressArguments {
    /// Parquet files, folders of them, or patterns such as 'data/*.parquet'; paths or URLs such as s3://bucket/data
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<String>,
    /// The archive to make: a folder, or a URL such as s3://bucket/archive
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
    /// Pass over files that the archive has already, so that a folder that grows can be added again and again
    #[arg(long)]
    skip_existing: bool,
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
        // Before anything is looked at: what is wrong with the arguments is wrong whatever the files.
        let mut job = Job {
            layout: self.layout.request()?,
            bound: self.bound()?,
            target: Target::from_options(self.target_nmae, self.target_ratio)?,
            dictionary: None,
            learn: self.learn.settings()?,
            threads: limit_threads(self.running.threads)?,
            resume: true,
            retrain_on_drift: self.running.retrain_on_drift,
            overwrite: self.overwrite,
            skip_existing: false,
        };
        let target = Place::parse(&self.output)?;
        let inputs = inputs(&self.inputs).await?;
        if let Some(file) = &self.dictionary {
            job.dictionary = Some(given_dictionary(file, self.learn.lambda).await?);
        }
        let bar = JobBar::new(self.running.retrain_on_drift);
        let report = match &target {
            Place::Local(path) => local_job::run(&without_links(path)?, &inputs, &job, bar.as_ref()).await,
            Place::Stored(stored) => object_job::run(stored, &self.output, &inputs, &job, bar.as_ref()).await,
        };
        bar.clear();
        let report = report?;
        let archive = open(&self.output).await?;
        warn_of_target(&report, &archive);
        warn_of_partitions(&archive);
        let is_lossy = report.error().max > 0.0;
        if job.bound == Bound::None && job.target.is_none() && is_lossy {
            let (most, mean) = (report.error().max, percent(report.error().nmae));
            tell(format_args!(
                "note: without a bound codes alone are kept: values are off by {mean} on average, and by up to {most}. \
                 --max-error E promises that none is off by more than E"
            ));
        }
        if job.bound != Bound::None && report.error().nmae > USELESS {
            let error = percent(report.error().nmae);
            tell(format_args!(
                "warning: the bound is as large as the values: their mean error is {error} of them. A smaller one keeps more"
            ));
        }
        print(&report, &archive, archive.total_bytes(), self.running.format)?;
        failures(&report)
    }
}

impl AppendArguments {
    pub async fn run(&self) -> Result<()> {
        let retrain_on_drift = self.running.retrain_on_drift;
        let (threads, skip_existing) = (limit_threads(self.running.threads)?, self.skip_existing);
        let job = Job { threads, retrain_on_drift, skip_existing, ..Job::default() };
        let archive = open(&self.archive).await?;
        let bar = JobBar::new(self.running.retrain_on_drift);
        let result = archive.append(&inputs(&self.inputs).await?, &job, bar.as_ref()).await;
        bar.clear();
        let report = result?;
        let archive = open(&self.archive).await?;
        warn_of_target(&report, &archive);
        let added = report.files.iter().map(|file| file.bytes).sum();
        print(&report, &archive, added, self.running.format)?;
        failures(&report)
    }
}

/// Files that failed were named as they failed; the exit code must say so too.
fn failures(report: &JobReport) -> Result<()> {
    if report.failed.is_empty() {
        return Ok(());
    }
    if report.files.is_empty() {
        bail!("{} files failed; nothing was added", report.failed.len());
    }
    bail!(
        "{} of {} files failed; the archive has the others. Once a file is mended, `sparrow append ARCHIVE FILE` adds it",
        report.failed.len(),
        report.failed.len() + report.files.len()
    )
}

/// Mean errors from here on leave nothing of the values.
pub(super) const USELESS: f64 = 0.5;
/// What is reached may be off the target by so much: it is printed in as many digits.
const NEARLY: f64 = 1.002;

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
    printed.add("skipped", report.skipped);
    printed.add("failed", report.failed.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>());
    printed.add("rows", report.files.iter().map(|file| file.rows).sum::<u64>());
    printed.add("input_bytes", input);
    printed.add("data_bytes", output);
    printed.add("dictionary_bytes", report.dictionary_bytes);
    printed.add("archive_bytes", archive.total_bytes());
    printed.add("ratio_to_input_files", input as f64 / bytes.max(1) as f64);
    printed.add("ratio_to_values", report.value_bytes as f64 / bytes.max(1) as f64);
    printed.add("stored_as_they_were", stored);
    if let Some(kept) = archive.kept() {
        let rows: u64 = report.files.iter().map(|file| file.rows).sum();
        if rows == 0 && !report.files.is_empty() {
            tell("note: these tables have no rows; a dictionary is learned when rows are added");
        } else if !report.files.is_empty() {
            let advice = match archive.bound() {
                Bound::None => ". A bound, such as --max-error, is kept whatever the data",
                _ => "",
            };
            tell(format_args!("warning: stored as it was: {kept}{advice}"));
        }
        printed.add("does_not_pay", kept);
    }
    let error = report.error();
    printed.add("max_error", error.max);
    printed.add("nmae", error.nmae);
    printed.add("nrmse", error.nrmse);
    printed.add("drift", serde_json::to_value(&report.drift)?);
    printed.print(format)
}

/// Errors are those of the files of this job, so that what is added does not hide behind what was there; bytes are those
/// of the archive as a whole, which they are asked of.
fn warn_of_target(report: &JobReport, archive: &crate::archive::Archive) {
    let rows: u64 = report.files.iter().map(|file| file.rows).sum();
    match archive.target() {
        Some(Target::Nmae(limit)) if report.error().nmae > NEARLY * limit => {
            let (reached, limit) = (percent(report.error().nmae), percent(limit));
            tell(format_args!("warning: the mean error is {reached} of the values, the target was {limit}"));
        }
        Some(Target::Ratio(limit)) if rows > 0 => {
            let values = report.value_bytes as f64 * archive.rows() as f64 / rows as f64;
            let reached = values / archive.total_bytes().max(1) as f64;
            if reached * NEARLY < limit {
                tell(format_args!(
                    "warning: the ratio of values to archive is {reached:.1}, the target was {limit}"
                ));
            }
            let error = report.error().nmae;
            if error > USELESS {
                let error = percent(error);
                tell(format_args!("warning: in so few bytes the mean error is {error} of the values"));
            }
        }
        _ => {}
    }
}

/// Folders such as `year=2024` are columns where all files are in such folders. Else queries know nothing of them.
fn warn_of_partitions(archive: &crate::archive::Archive) {
    let in_partition = |file: &&FileEntry| file.path.split('/').rev().skip(1).any(|part| part.contains('='));
    let some = archive.files().iter().find(in_partition);
    if let (Some(file), true) = (some, archive.partitions().is_empty()) {
        tell(format_args!(
            "warning: not all files are in the same partitions as {}, so that queries have no columns for them; paths are kept",
            file.path
        ));
    }
}

/// The dictionary in a Parquet file.
async fn given_dictionary(file: &str, lambda: Option<f64>) -> Result<Dictionary> {
    let context = || format!("cannot read the dictionary {file}");
    let bytes = match Place::parse(file)? {
        Place::Local(path) => std::fs::read(path).with_context(context)?.into(),
        Place::Stored(Stored { store, path, .. }) => {
            store.get(&path).await.with_context(context)?.bytes().await.with_context(context)?
        }
    };
    read_dictionary(bytes, lambda).with_context(context)
}
