//! `sparrow bench encode`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::Args;
use datafusion::arrow::record_batch::RecordBatch;

use super::super::report::Report;
use super::Common;
use super::input::{Table, dictionary};
use super::sql;
use crate::cli::output::ParquetOutput;
use crate::columnar::to_code_array;
use crate::math::coders::{self, Stage, run_stage};
use crate::math::{CoderOptions, Codes, Kernel, PreparedDictionary, Signals};

#[derive(Debug, Args)]
pub(in crate::cli) struct EncodeArguments {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    coding: Coding,
    /// Writes the codes to this Parquet file, column `code`
    #[arg(long, value_name = "FILE")]
    codes: Option<PathBuf>,
    /// Times sparse_encode in SQL too, from the signals' file to this Parquet file
    #[arg(long, value_name = "FILE")]
    sql: Option<PathBuf>,
}

/// How to code, for benchmarks that do.
#[derive(Debug, Args)]
pub(super) struct Coding {
    /// Parquet file with a dictionary, or with atoms as a column of vectors
    #[arg(long, value_name = "FILE")]
    dictionary: PathBuf,
    /// The coder
    #[arg(long, default_value = "fksc")]
    pub coder: String,
    /// Accepted optimality gap
    #[arg(long, default_value_t = CoderOptions::DEFAULT_TOLERANCE)]
    pub tolerance: f64,
}

/// What was coded, with what, and what it cost.
pub(super) struct Coded<'a> {
    pub signals: Signals<'a>,
    pub dictionary: PreparedDictionary,
    pub codes: Codes,
    pub encode_s: f64,
}

pub(super) fn run(arguments: &EncodeArguments) -> Result<()> {
    let EncodeArguments { common, coding, codes, sql } = arguments;
    check_outputs([&common.signals, &coding.dictionary], [codes.as_deref(), sql.as_deref()])?;
    let table = Table::read(&common.signals, common.column.as_deref())?;
    let mut report = Report::default();
    let coded = common.on_threads(|| {
        let coded = encode(common, coding, &table, &mut report)?;
        let (dictionary, signals) = (&coded.dictionary, &coded.signals);
        let (gemm_s, _) = common.best(|| Ok(run_stage(dictionary, signals, Stage::Product)?))?;
        let (kernel_s, _) = common.best(|| Ok(run_stage(dictionary, signals, Stage::Kernel)?))?;
        report.add("gemm_s", gemm_s);
        report.add("kernel_s", kernel_s);
        report.add("solve_s", (coded.encode_s - kernel_s).max(0.0));
        report.add("encode_s", coded.encode_s);
        report.add("objective", coded.codes.objective());
        report.add("nonzeros", coded.codes.nonzeros());
        report.add("worst_gap", coded.codes.worst_gap());
        report.add("rounds", coded.codes.reports.iter().map(|r| u64::from(r.rounds)).sum::<u64>());
        report.add("updates", coded.codes.reports.iter().map(|r| r.updates).sum::<u64>());
        Ok(coded)
    })?;
    if let Some(path) = codes {
        write_codes(coded.codes, path)?;
    }
    if let Some(path) = sql {
        let sql_s = sql::encode(common, coding, &coded.dictionary, path)?;
        report.add("sql_s", sql_s);
        report.add("sql_over_engine", sql_s / coded.encode_s);
    }
    report.print(common.format)
}

/// A kernel's name and parameters.
pub(super) fn describe(kernel: &dyn Kernel) -> String {
    let parameters = kernel.parameters().into_iter().map(|(name, value)| format!(" {name} {value}"));
    format!("{}{}", kernel.name(), parameters.collect::<String>())
}

/// Outputs must not be what is read, nor each other.
fn check_outputs(inputs: [&Path; 2], outputs: [Option<&Path>; 2]) -> Result<()> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let outputs: Vec<_> = outputs.into_iter().flatten().map(real).collect();
    for (i, output) in outputs.iter().enumerate() {
        if inputs.iter().any(|input| real(input) == *output) || outputs[..i].contains(output) {
            bail!("{} is read or written already; choose another output", output.display());
        }
    }
    Ok(())
}

/// Codes the table, timed, and reports its size.
pub(super) fn encode<'a>(
    common: &Common,
    coding: &Coding,
    table: &'a Table,
    report: &mut Report,
) -> Result<Coded<'a>> {
    let signals = table.signals()?;
    let dictionary = dictionary(&coding.dictionary, common.sigma, common.lambda)?;
    let lambda = common.lambda.unwrap_or(dictionary.lambda());
    let dictionary = PreparedDictionary::new(dictionary)?;
    let coder = coders::by_name(&coding.coder)?;
    let options = CoderOptions::new(lambda)?.with_tolerance(coding.tolerance)?;
    report.add("signals", signals.len());
    report.add("dim", signals.dim());
    report.add("atoms", dictionary.dictionary().len());
    report.add("kernel", describe(dictionary.dictionary().kernel().as_ref()));
    report.add("lambda", lambda);
    report.add("coder", coding.coder.as_str());
    report.add("threads", common.threads());
    report.add("repeats", common.repeats);
    // The gram matrix is made once per dictionary, however many signals there are.
    let start = std::time::Instant::now();
    coder.encode(&dictionary, &Signals::new(vec![signals.row(0)])?, &options)?;
    report.add("prepare_s", start.elapsed().as_secs_f64());
    let (encode_s, codes) = common.best(|| Ok(coder.encode(&dictionary, &signals, &options)?))?;
    Ok(Coded { signals, dictionary, codes, encode_s })
}

fn write_codes(codes: Codes, path: &Path) -> Result<()> {
    let present = vec![true; codes.reports.len()];
    let array = to_code_array(codes, &present)?;
    let batch = RecordBatch::try_from_iter([("code", array)])?;
    let mut file = ParquetOutput::create(path, Arc::clone(batch.schema_ref()))?;
    file.write(&batch)?;
    file.finish().context("codes")
}
