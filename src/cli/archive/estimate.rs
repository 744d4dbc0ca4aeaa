//! `sparrow estimate`: will it pay, and with which command?

use std::fmt::Write;
use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde_json::json;

use super::super::output::{check_text_output, write_text};
use super::super::parse::{parse_count, parse_positive, parse_ratio, parse_share};
use super::super::threads::limit_threads;
use super::arguments::{LayoutArguments, LearnArguments};
use super::compress::USELESS;
use super::estimate_page;
use super::paths::inputs;
use super::progress::JobBar;
use crate::archive::{Aim, Bound, Estimate, EstimateRequest, Prediction, Target, estimate, listed};
use crate::cli::messages::on_one_line;

#[derive(Debug, Args)]
pub(in crate::cli) struct EstimateArguments {
    /// Parquet files, folders of them, or patterns such as 'data/*.parquet'
    #[arg(required = true, value_name = "INPUT")]
    pub(super) inputs: Vec<String>,
    #[command(flatten)]
    layout: LayoutArguments,
    /// Mean errors to predict for, as shares of the mean absolute value
    #[arg(long, value_name = "E", value_delimiter = ',', allow_negative_numbers = true, value_parser = parse_share)]
    target_nmae: Vec<f64>,
    /// Ratios to predict for: bytes of the values in memory over bytes of the archive
    #[arg(long, value_name = "R", value_delimiter = ',', allow_negative_numbers = true, value_parser = parse_ratio)]
    target_ratio: Vec<f64>,
    /// Bounds on every value to predict for [default: some that suit the values]
    #[arg(long, value_name = "E", value_delimiter = ',', allow_negative_numbers = true, value_parser = parse_positive)]
    max_error: Vec<f64>,
    #[command(flatten)]
    learn: LearnArguments,
    /// How the result is printed
    #[arg(long, value_enum, default_value = "table")]
    format: EstimateFormat,
    /// Writes the result to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Threads to use [default: all cores]
    #[arg(long, value_parser = parse_count::<1024>)]
    threads: Option<usize>,
}

/// How the result is printed.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum EstimateFormat {
    /// A line for every aim
    Table,
    /// One JSON object
    Json,
    /// One page with charts that needs no network
    Html,
}

/// The names of the columns of [`lines`].
pub(super) const COLUMNS: [&str; 8] =
    ["", "bytes", "of files", "ratio", "NMAE", "max error", "dictionary", "parameters"];

impl EstimateArguments {
    pub async fn run(&self) -> Result<()> {
        check_text_output(self.output.as_deref(), &self.inputs)?;
        let request = EstimateRequest {
            layout: self.layout.request()?,
            aims: self.aims()?,
            learn: self.learn.settings()?,
        };
        limit_threads(self.threads)?;
        let inputs = inputs(&self.inputs).await?;
        let bar = JobBar::new(false);
        let found = estimate(&inputs, &request, bar.as_ref()).await;
        bar.clear();
        let found = found?;
        let text = match self.format {
            EstimateFormat::Table => self.table(&found)?,
            EstimateFormat::Json => self.json(&found)?,
            EstimateFormat::Html => estimate_page::render(self, &found)?,
        };
        write_text(self.output.as_deref(), &text)
    }

    /// What is asked for.
    fn aims(&self) -> Result<Vec<Aim>> {
        let mut aims = Vec::new();
        for nmae in &self.target_nmae {
            aims.extend(Target::from_options(Some(*nmae), None)?.map(Aim::Target));
        }
        for ratio in &self.target_ratio {
            aims.extend(Target::from_options(None, Some(*ratio))?.map(Aim::Target));
        }
        aims.extend(self.max_error.iter().map(|bound| Aim::Bound(Bound::MaxError(*bound))));
        Ok(aims)
    }

    /// The command that an aim stands for.
    pub(super) fn command(&self, estimate: &Estimate, aim: Aim) -> String {
        let mut words = vec!["sparrow".to_string(), "compress".to_string()];
        words.extend(self.inputs.iter().map(|input| quoted(input)));
        words.extend(["-o".to_string(), "ARCHIVE".to_string()]);
        words.extend(estimate.layout_arguments.iter().map(|word| quoted(word)));
        let settings = self.learn.asked();
        let number = |name: &str, value: Option<f64>| value.map(|value| format!("--{name} {value}"));
        words.extend(number("atoms", settings.atoms.map(|atoms| atoms as f64)));
        words.extend(settings.kernel.map(|kernel| format!("--kernel {kernel}")));
        words.extend(number("sigma", settings.sigma));
        words.extend(number("lambda", settings.lambda));
        words.extend((settings.seed != 0).then(|| format!("--seed {}", settings.seed)));
        words.extend(settings.expect_rows.map(|rows| format!("--expect-rows {rows}")));
        words.push(flag(aim));
        words.join(" ")
    }

    fn json(&self, estimate: &Estimate) -> Result<String> {
        let mut value = serde_json::to_value(estimate)?;
        if let Some(ladder) = value.get_mut("ladder").and_then(|ladder| ladder.as_array_mut()) {
            for (line, prediction) in ladder.iter_mut().zip(&estimate.ladder) {
                line["command"] = json!(self.command(estimate, prediction.aim));
            }
        }
        Ok(serde_json::to_string_pretty(&value)? + "\n")
    }

    fn table(&self, estimate: &Estimate) -> Result<String> {
        let lines = lines(estimate);
        let width = |column: usize| {
            let cells = lines.iter().map(|line| line[column].chars().count());
            cells.chain([COLUMNS[column].len()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..COLUMNS.len()).map(width).collect();
        let mut text = format!("{}\n\n", summary(estimate));
        let header: Vec<String> = COLUMNS.map(String::from).to_vec();
        for line in std::iter::once(&header).chain(&lines) {
            let cells = line.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match column {
                0 => format!("{cell:<width$}"),
                7 => cell.clone(),
                _ => format!("{cell:>width$}"),
            });
            writeln!(text, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        for said in self.verdict(estimate) {
            match said {
                Said::Sentence(sentence) => writeln!(text, "\n{}", on_one_line(&sentence))?,
                Said::Command(command) => writeln!(text, "\n    {command}")?,
            }
        }
        Ok(text)
    }

    /// Whether it pays, and what to do next.
    pub(super) fn verdict(&self, estimate: &Estimate) -> Vec<Said> {
        let times = |line: &Prediction| estimate.source_bytes as f64 / line.bytes.max(1) as f64;
        let recommended = estimate.recommended.and_then(|line| estimate.ladder.get(line));
        let mut said = Vec::new();
        match (&estimate.reason, recommended) {
            (Some(reason), _) => {
                let so = if estimate.sorted.is_some() { " as it is" } else { "" };
                said.push(Said::Sentence(format!("It does not pay{so}: {reason}.")));
            }
            (None, Some(line)) => {
                let kept = match line.aim {
                    Aim::Bound(Bound::MaxError(bound)) => format!("no value is off by more than {bound}"),
                    Aim::Bound(Bound::MaxRelativeError(bound)) => {
                        format!("no value is off by more than {} % of itself", 100.0 * bound)
                    }
                    _ => "every value comes back as it was".to_string(),
                };
                let so = format!("It pays: {:.1} times smaller than the files, and {kept}.", times(line));
                said.extend([Said::Sentence(so), Said::Command(self.command(estimate, line.aim))]);
            }
            // Only targets are met.
            (None, None) => said.push(Said::Sentence(
                "It pays for what is asked for, but no bound on single values does.".to_string(),
            )),
        }
        if let Some(other) = &estimate.other_layout {
            said.push(Said::Sentence(format!(
                "{} was measured too, and takes {} bytes.",
                abbreviated(&other.layout_arguments),
                other.bytes
            )));
        }
        if let Some(sorted) = &estimate.sorted {
            let time = sorted.by.first().map_or("", String::as_str);
            let would = match &sorted.prediction {
                Some(line) => format!(
                    "sorted they take {} bytes with {}, {:.1} times less than the files",
                    line.bytes,
                    flag(line.aim),
                    times(line)
                ),
                None => "sorted they may take far fewer bytes".to_string(),
            };
            said.push(Said::Sentence(format!("The rows are in no order of {time}: {would}.")));
            said.push(Said::Command(self.sorting_command(&sorted.by)));
        }
        said
    }

    /// The command that puts the rows into another order.
    fn sorting_command(&self, by: &[String]) -> String {
        let table = match &self.inputs[..] {
            [input] => input.replace('\'', "''"),
            _ => "TABLE".to_string(),
        };
        let columns: Vec<String> = by.iter().map(|name| identifier(name)).collect();
        let query =
            format!("COPY (SELECT * FROM '{table}' ORDER BY {}) TO 'sorted.parquet'", columns.join(", "));
        let is_plain = !query.contains(|c: char| "$`\\\"!".contains(c) || c.is_control());
        format!("sparrow sql -c {}", if is_plain { format!("\"{query}\"") } else { quoted(&query) })
    }
}

/// A part of what is said at the end.
pub(super) enum Said {
    Sentence(String),
    Command(String),
}

/// A column as SQL takes it.
fn identifier(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_lowercase() || c == '_';
    if name.starts_with(is_plain) && name.chars().all(|c| is_plain(c) || c.is_ascii_digit()) {
        name.to_string()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}

/// Words of a command, of long ones the beginning: all of them are in the command.
fn abbreviated(words: &[String]) -> String {
    const LETTERS: usize = 100;
    let word = |word: &String| match word.char_indices().nth(LETTERS) {
        Some((end, _)) => {
            let names: Vec<&str> = word.split(',').collect();
            if names.len() > 1 { listed(&names) } else { format!("{}…", &word[..end]) }
        }
        None => word.clone(),
    };
    on_one_line(&words.iter().map(word).collect::<Vec<_>>().join(" ")).into_owned()
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./,:=+%@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_string()
    } else if on_one_line(word) == word {
        format!("'{}'", word.replace('\'', r"'\''"))
    } else {
        // As bash and zsh read escapes.
        let word = word.replace('\\', r"\\").replace('\'', r"\'");
        format!("$'{}'", on_one_line(&word))
    }
}

fn flag(aim: Aim) -> String {
    match aim {
        Aim::Target(Target::Nmae(nmae)) => format!("--target-nmae {nmae}"),
        Aim::Target(Target::Ratio(ratio)) => format!("--target-ratio {ratio}"),
        Aim::Bound(Bound::MaxError(bound)) => format!("--max-error {bound}"),
        Aim::Bound(Bound::MaxRelativeError(bound)) => format!("--max-relative-error {bound}"),
        Aim::Bound(Bound::Lossless) => "--lossless".to_string(),
        Aim::Bound(Bound::None) => String::new(),
    }
}

/// What was looked at.
pub(super) fn summary(estimate: &Estimate) -> String {
    let kept = match listed(&estimate.kept_numbers) {
        none if none.is_empty() => none,
        names => format!(" ({}: kept as they are)", on_one_line(&names)),
    };
    format!(
        "{} rows in {} file{}, {} bytes ({} bytes of values in memory); layout {}{}; {} rows were looked at.",
        estimate.rows,
        estimate.files,
        if estimate.files == 1 { "" } else { "s" },
        estimate.source_bytes,
        estimate.value_bytes,
        abbreviated(&estimate.layout_arguments),
        kept,
        estimate.sampled_rows
    )
}

/// One line for each way to keep the tables.
pub(super) fn lines(estimate: &Estimate) -> Vec<Vec<String>> {
    let share = |bytes: u64| format!("{:.1} %", 100.0 * bytes as f64 / estimate.source_bytes.max(1) as f64);
    let ratio = |bytes: u64| format!("{:.1}", estimate.value_bytes as f64 / bytes.max(1) as f64);
    let plain = |name: &str, bytes: u64| {
        let cells = [name, &bytes.to_string(), &share(bytes), &ratio(bytes), "0", "0", "", ""];
        cells.map(String::from).to_vec()
    };
    let coded = |line: &Prediction| {
        let parameters = if line.stored_as_they_were {
            "stored as they were".to_string()
        } else {
            let rest = match line.bound {
                Bound::None => "codes alone",
                _ => "codes and residuals",
            };
            let unmet = match line.met {
                true if line.nmae > USELESS => ", next to nothing is left of the values",
                true => "",
                false => ", not met",
            };
            format!("{} atoms, {}, lambda {:.3}, {rest}{unmet}", line.atoms, line.kernel, line.lambda)
        };
        vec![
            format!("sparrow {}", flag(line.aim)),
            line.bytes.to_string(),
            share(line.bytes),
            ratio(line.bytes),
            format!("{:.4}", line.nmae),
            format!("{:.4}", line.max_error),
            line.dictionary_bytes.to_string(),
            parameters,
        ]
    };
    let mut lines = vec![
        plain("the files as they are", estimate.source_bytes),
        plain("Parquet + zstd", estimate.zstd_bytes),
        plain("Parquet + byte-stream-split + zstd", estimate.byte_stream_split_bytes),
    ];
    for line in &estimate.ladder {
        // Rounded evenly, values are off by half of the bound in the mean: that is not measured.
        if let (Some(bytes), Aim::Bound(Bound::MaxError(bound))) = (line.rounded_bytes, line.aim) {
            let name = format!("rounded to {bound} + Parquet");
            let cells =
                [&name, &bytes.to_string(), &share(bytes), &ratio(bytes), "", &format!("{bound:.4}"), "", ""];
            lines.push(cells.map(String::from).to_vec());
        }
        lines.push(coded(line));
    }
    lines
}
