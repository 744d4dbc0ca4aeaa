//! The `sparrow` command: arguments, sessions, printing, generated data.
//!
//! Results go to stdout, everything else to stderr. Exit codes: 0, 1 for a failure, 2 for wrong usage.

mod archive;
mod bench;
mod columns;
mod copy;
mod evaluate;
mod file_bytes;
mod file_tables;
mod generate;
mod in_order;
mod json;
mod messages;
mod output;
mod page;
mod parse;
mod print;
mod progress;
mod readable;
mod refusals;
mod regular_files;
mod report;
mod report_text;
mod session;
mod shell;
mod sql;
mod sql_depth;
mod stores;
mod threads;

use std::process::ExitCode;

use anyhow::Context;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use messages::{tell, tell_lines};

/// Kernel sparse coding over Parquet, in SQL.
#[derive(Debug, Parser)]
#[command(name = "sparrow", version, about, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run SQL with all sparse_ functions; files are tables: FROM 'x.parquet'
    Sql(sql::SqlArguments),
    /// Predict what compressing Parquet tables would give, and whether it pays
    Estimate(archive::EstimateArguments),
    /// Compress Parquet tables into an archive, with a promise on the error of every value
    Compress(archive::CompressArguments),
    /// Turn an archive back into Parquet tables
    Decompress(archive::DecompressArguments),
    /// Check that an archive is what was written, and what was promised
    Verify(archive::VerifyArguments),
    /// Show what is in an archive, and where its bytes are
    Inspect(archive::InspectArguments),
    /// Add tables to an archive
    Append(archive::AppendArguments),
    /// Compare coders on a table: ratios, errors and times on rows that were not learned from
    Evaluate(evaluate::EvaluateArguments),
    /// Make data from a seed
    #[command(subcommand)]
    Generate(generate::GenerateArguments),
    /// Measure what coding, decoding and learning cost
    #[command(subcommand)]
    Bench(bench::BenchArguments),
}

/// Runs the command with the process's arguments.
pub fn main() -> ExitCode {
    // clap prints help and usage errors itself, the latter with exit code 2.
    let matches = Arguments::command().get_matches();
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    // The parser of SQL points at a place in several lines.
    let has_lines = matches!(arguments.command, Command::Sql(_));
    let result = match arguments.command {
        Command::Sql(mut arguments) => {
            // Cannot be absent: this is the subcommand that was parsed.
            let matches = matches.subcommand().map(|(_, matches)| matches);
            arguments.remember_order(matches);
            runtime().and_then(|runtime| runtime.block_on(sql::run(arguments)))
        }
        Command::Estimate(arguments) => on_runtime(arguments.run()),
        Command::Compress(arguments) => on_runtime(arguments.run()),
        Command::Decompress(arguments) => on_runtime(arguments.run()),
        Command::Verify(arguments) => on_runtime(arguments.run()),
        Command::Inspect(arguments) => on_runtime(arguments.run()),
        Command::Append(arguments) => on_runtime(arguments.run()),
        Command::Evaluate(arguments) => on_runtime(arguments.run()),
        Command::Generate(arguments) => generate::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            if has_lines {
                tell_lines(format_args!("error: {error:#}"));
            } else {
                tell(format_args!("error: {error:#}"));
            }
            if error.is::<WrongUsage>() { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

/// Arguments that make no sense together, or not for this command.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct WrongUsage(String);

fn on_runtime(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    runtime()?.block_on(work)
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    // Planning recurses deeply.
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.enable_all().thread_stack_size(8 << 20).build().context("cannot start the async runtime")
}

/// Whoever reads our output may stop reading, as `head` does.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>());
    io.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
