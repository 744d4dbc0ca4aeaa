//! Arguments that several commands take.

use anyhow::Result;
use clap::Args;
use clap::builder::PossibleValuesParser;

use super::super::WrongUsage;
use super::super::parse::{parse_atoms, parse_count, parse_positive};
use crate::archive::{LayoutRequest, LearnSettings};
use crate::math::kernels;

/// Where the values are.
#[derive(Debug, Args)]
pub(super) struct LayoutArguments {
    /// The column of vectors, or of numbers with --window [default: the only column of lists]
    #[arg(long, conflicts_with_all = ["columns", "long"])]
    column: Option<String>,
    /// A column per sensor: names or patterns such as 's*', separated by commas
    #[arg(long, conflicts_with_all = ["long", "window"])]
    columns: Option<String>,
    /// A row per time and series: the columns time,series,value
    #[arg(long)]
    long: Option<String>,
    /// Cut series into windows of this many values; with --long, of each series
    #[arg(long, value_parser = parse_count::<1_000_000>)]
    window: Option<usize>,
}

impl LayoutArguments {
    pub fn request(&self) -> Result<LayoutRequest> {
        let (column, columns) = (self.column.as_deref(), self.columns.as_deref());
        let request = LayoutRequest::from_options(column, columns, self.long.as_deref(), self.window);
        request.map_err(|error| WrongUsage(error.to_string()).into())
    }
}

/// What is set about the dictionary; the rest is chosen.
#[derive(Debug, Clone, Args)]
pub(super) struct LearnArguments {
    /// Atoms to learn; with 0 there are no codes, and residuals do all of the work [default: chosen]
    #[arg(long, value_parser = parse_atoms)]
    atoms: Option<usize>,
    /// Kernel that signals are compared with [default: chosen]
    #[arg(long, value_parser = PossibleValuesParser::new(kernels::names()))]
    kernel: Option<String>,
    /// Width of the RBF kernel [default: chosen]
    #[arg(long, allow_negative_numbers = true, value_parser = parse_positive)]
    sigma: Option<f64>,
    /// Penalty on weights [default: chosen]
    #[arg(long, allow_negative_numbers = true, value_parser = parse_positive)]
    pub lambda: Option<f64>,
    /// Seed of the sample that is learned from
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Rows that the archive will have in the end: a dictionary that serves more rows may be larger [default: the rows that
    /// are there]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    expect_rows: Option<u64>,
}

impl LearnArguments {
    pub fn asked(&self) -> LearnSettings {
        let Self { atoms, kernel, sigma, lambda, seed, expect_rows } = self.clone();
        LearnSettings { atoms, kernel, sigma, lambda, seed, expect_rows }
    }

    /// The same, if it makes sense.
    pub fn settings(&self) -> Result<LearnSettings> {
        let settings = self.asked();
        settings.check().map_err(|error| WrongUsage(error.to_string()))?;
        Ok(settings)
    }
}
