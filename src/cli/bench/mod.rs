//! `sparrow bench`: what coding, decoding and learning cost, with nothing skipped.
//!
//! Times are the best of the repeats, on the threads asked for. Ratios of times within one run mean
//! something; times of different runs on a shared machine do not.

mod decode;
mod encode;
mod input;
mod sql;
mod train;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use clap::{Args, Subcommand};

use super::parse::parse_count;
use super::report::ReportFormat;
use super::threads::{on_threads, thread_count};

#[derive(Debug, Subcommand)]
pub(super) enum BenchArguments {
    /// Times the product, the kernel and the solve of encoding a table
    Encode(encode::EncodeArguments),
    /// Times decoding the codes of a table
    Decode(decode::DecodeArguments),
    /// Times learning a dictionary from a table
    Train(train::TrainArguments),
}

/// What every benchmark needs.
#[derive(Debug, Args)]
struct Common {
    /// Parquet file of vectors
    #[arg(long, value_name = "FILE")]
    signals: PathBuf,
    /// The column of vectors [default: the only one]
    #[arg(long)]
    column: Option<String>,
    /// Width of the RBF kernel, for atoms given as vectors
    #[arg(long)]
    sigma: Option<f64>,
    /// Penalty on weights [default: the dictionary's]
    #[arg(long)]
    lambda: Option<f64>,
    /// Threads to use [default: all cores]
    #[arg(long, value_parser = parse_count::<1024>)]
    threads: Option<usize>,
    /// How often to repeat; the best time counts
    #[arg(long, default_value = "5", value_parser = parse_count::<1_000_000>)]
    repeats: usize,
    /// How the result is printed
    #[arg(long, value_enum, default_value = "table")]
    format: ReportFormat,
}

impl Common {
    fn threads(&self) -> usize {
        thread_count(self.threads)
    }

    /// The name of the column of vectors.
    fn vector_column(&self) -> Result<String> {
        input::vector_column(&self.signals, self.column.as_deref())
    }

    /// Runs `work` on as many threads as were asked for.
    fn on_threads<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        on_threads(self.threads(), work)
    }

    /// The shortest time of all repeats, and what the last one gave.
    fn best<T>(&self, mut work: impl FnMut() -> Result<T>) -> Result<(f64, T)> {
        let mut timed = || {
            let start = Instant::now();
            let result = work()?;
            Ok::<_, anyhow::Error>((start.elapsed().as_secs_f64(), result))
        };
        let (mut best, mut result) = timed()?;
        for _ in 1..self.repeats {
            let (seconds, next) = timed()?;
            best = best.min(seconds);
            result = next;
        }
        Ok((best, result))
    }
}

pub(super) fn run(arguments: &BenchArguments) -> Result<()> {
    match arguments {
        BenchArguments::Encode(arguments) => encode::run(arguments),
        BenchArguments::Decode(arguments) => decode::run(arguments),
        BenchArguments::Train(arguments) => train::run(arguments),
    }
}
