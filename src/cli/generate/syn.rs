//! `sparrow generate syn`.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use datafusion::arrow::array::Int64Array;
use datafusion::arrow::record_batch::RecordBatch;

use crate::cli::output::ParquetOutput;
use crate::cli::parse::parse_count;
use crate::columnar::to_vector_array;
use crate::math::synthetic::syn;

#[derive(Debug, Args)]
pub(in crate::cli) struct SynArguments {
    /// Length of the vectors
    #[arg(long, default_value = "360", value_parser = parse_count::<1_000_000>)]
    dim: usize,
    /// Number of vectors
    #[arg(long, default_value = "1500", value_parser = parse_count::<1_000_000>)]
    signals: usize,
    /// Groups, each with a random map of its own
    #[arg(long, default_value = "15", value_parser = parse_count::<1_000_000>)]
    groups: usize,
    /// The same seed gives the same data
    #[arg(long, default_value = "0")]
    seed: u64,
    /// The file to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

pub(super) fn run(arguments: &SynArguments) -> Result<()> {
    let SynArguments { dim, signals, groups, seed, output } = arguments;
    dim.checked_mul(*signals)
        .filter(|total| i32::try_from(*total).is_ok())
        .context("dim x signals must fit into 31 bits")?;
    let values = to_vector_array(syn(*dim, *signals, *groups, *seed), *dim, &vec![true; *signals])?;
    let numbers = Int64Array::from_iter_values(0..*signals as i64);
    let batch = RecordBatch::try_from_iter([("i", Arc::new(numbers) as _), ("v", values)])?;
    let mut file = ParquetOutput::create(output, batch.schema())?;
    file.write(&batch)?;
    file.finish()
}
