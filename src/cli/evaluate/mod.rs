//! `sparrow evaluate`: what coders make of a table at equal compression ratios, on rows that the
//! dictionary was not learned from.

mod choice;
mod input;
mod page;
mod report;
mod search;
mod trial;
mod tune;
mod watch;

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};

use super::output::check_text_output;
use super::parse::{parse_count, parse_positive};
use crate::math::coders;
use crate::math::metrics::DEFAULT_NECR_TOLERANCE;
use choice::Choice;
use input::{Split, Tables};
use trial::{Setting, Trial};
use watch::Watch;

#[derive(Debug, Args)]
pub(super) struct EvaluateArguments {
    /// A Parquet file or folder, or a query that gives a column of vectors
    table: String,
    /// The column of vectors [default: the only one]
    #[arg(long)]
    column: Option<String>,
    #[command(flatten)]
    split: Split,
    /// The coders to compare, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "fksc,komp,lpm,kfmc,ksr_l21,cd", value_parser = known_coder)]
    coders: Vec<String>,
    /// Atoms of the dictionaries
    #[arg(long, default_value = "64", value_parser = parse_count::<8192>)]
    atoms: usize,
    /// Width of the RBF kernel [default: the median distance between training rows]
    #[arg(long, value_parser = parse_positive)]
    sigma: Option<f64>,
    /// Chooses the kernel, its width and the penalty while learning for every coder, on training rows that are held out
    #[arg(long, conflicts_with_all = ["sigma", "lambda"])]
    tune: bool,
    /// Penalty while learning [default: 0.1 of the mean self-similarity]
    #[arg(long, value_parser = parse_positive)]
    train_lambda: Option<f64>,
    /// Most rounds of learning
    #[arg(long, default_value = "30", value_parser = parse_count::<1_000_000>)]
    max_iter: usize,
    /// Distinct rows learned from, at most
    #[arg(long, default_value = "4096", value_parser = parse_count::<1_000_000>)]
    sample: usize,
    /// Compression ratios to compare at, two numbers counted for every nonzero: each coder gets as many nonzeros
    /// over all rows as that allows [default: 20,40,60,80]
    #[arg(long, value_delimiter = ',', value_parser = parse_positive, conflicts_with = "lambda")]
    cr: Vec<f64>,
    /// Penalties to compare at; coders without one get as many nonzeros as fksc needs there
    #[arg(long, value_delimiter = ',', value_parser = parse_positive)]
    lambda: Vec<f64>,
    /// Accepted optimality gap of the coders; coordinate descent takes long to go lower
    #[arg(long, default_value = "1e-4", value_parser = parse_positive)]
    tolerance: f64,
    /// Seeds to repeat everything with
    #[arg(long, default_value = "1", value_parser = parse_count::<1000>)]
    seeds: usize,
    /// Divides all values by the largest magnitude among the training rows
    #[arg(long)]
    scale: bool,
    /// A value counts as correct (NECR) if it is off by less
    #[arg(long, default_value_t = DEFAULT_NECR_TOLERANCE, value_parser = parse_positive)]
    necr_tolerance: f64,
    /// How the result is printed
    #[arg(long, value_enum, default_value = "table")]
    format: EvaluateFormat,
    /// Writes the result to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Threads to use [default: all cores]
    #[arg(long, value_parser = parse_count::<1024>)]
    threads: Option<usize>,
}

/// How the result is printed.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum EvaluateFormat {
    /// A line per coder and setting, with mean and spread over the seeds
    Table,
    /// A list of rows, one per coder, setting and seed
    Json,
    /// One page with charts that needs no network
    Html,
}

/// Ratios compared at where neither ratios nor penalties are given.
const DEFAULT_RATIOS: [f64; 4] = [20.0, 40.0, 60.0, 80.0];

fn known_coder(name: &str) -> std::result::Result<String, String> {
    coders::by_name(name.trim()).map(|coder| coder.name().to_string()).map_err(|error| error.to_string())
}

impl EvaluateArguments {
    pub async fn run(&self) -> Result<()> {
        check_text_output(self.output.as_deref(), std::slice::from_ref(&self.table))?;
        let settings = self.settings();
        let tables = Tables::read(self).await?;
        let all = self.seeds * self.coders.len() * settings.len();
        let watch = Watch::new(all);
        let mut trials = Vec::new();
        let done = self.measure(&tables, &settings, &watch, &mut trials);
        watch.clear();
        // Whoever interrupts it gets what there is.
        let found = trials.iter().map(|trial| trial.figures.len()).sum::<usize>();
        match &done {
            Err(_) if !watch.is_cancelled() => return done,
            Err(_) if found == 0 => bail!("cancelled before anything was measured"),
            _ => {}
        }
        let text = match self.format {
            EvaluateFormat::Table => report::table(self, &tables, &trials)?,
            EvaluateFormat::Json => report::json(&trials)?,
            EvaluateFormat::Html => page::render(self, &tables, &trials)?,
        };
        super::output::write_text(self.output.as_deref(), &text)?;
        if done.is_err() {
            bail!("cancelled: the result is partial, {found} of {all} measurements");
        }
        Ok(())
    }

    /// A trial for every seed; where an error ends them, those before and what the last one has.
    fn measure(
        &self,
        tables: &Tables,
        settings: &[Setting],
        watch: &Watch,
        trials: &mut Vec<Trial>,
    ) -> Result<()> {
        let plan = if self.tune {
            tune::tune(self, tables, settings, watch)?
        } else {
            self.coders.iter().map(|coder| (coder.clone(), Choice::usual(coder))).collect()
        };
        for seed in 0..self.seeds as u64 {
            watch.say(format_args!("seed {seed}: learning from {} rows", tables.train.len()));
            watch.begin(format_args!("seed {seed}: learning"));
            let mut trial = Trial::default();
            let done = trial.run(self, tables, settings, &plan, seed, watch);
            if !trial.figures.is_empty() {
                trials.push(trial);
            }
            done?;
        }
        Ok(())
    }

    fn settings(&self) -> Vec<Setting> {
        if !self.lambda.is_empty() {
            return self.lambda.iter().map(|lambda| Setting::Lambda(*lambda)).collect();
        }
        let ratios = if self.cr.is_empty() { &DEFAULT_RATIOS[..] } else { &self.cr };
        ratios.iter().map(|ratio| Setting::Ratio(*ratio)).collect()
    }
}
