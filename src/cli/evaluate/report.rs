//! The figures as JSON and as a table.

use std::fmt::Write;

use anyhow::Result;
use datafusion::arrow::record_batch::RecordBatch;

use super::EvaluateArguments;
use super::input::Tables;
use super::trial::{Figures, Trial};
use crate::cli::output::parquet_bytes;
use crate::columnar::to_vector_array;

/// All rows of all seeds.
pub(super) fn json(trials: &[Trial]) -> Result<String> {
    let rows: Vec<&Figures> = trials.iter().flat_map(|trial| &trial.figures).collect();
    Ok(serde_json::to_string_pretty(&rows)? + "\n")
}

/// The names of the columns of [`lines`].
pub(super) const COLUMNS: [&str; 11] = [
    "setting",
    "coder",
    "kernel",
    "CR",
    "bytes",
    "NMAE",
    "NRMSE",
    "NECR",
    "objective",
    "nonzeros/row",
    "seconds",
];

/// The figures of one coder at one setting, for every seed that has them.
pub(super) fn of_seeds<'a>(
    trials: &'a [Trial],
    head: &'a Figures,
) -> impl Iterator<Item = &'a Figures> + Clone {
    let same = |other: &&Figures| other.coder == head.coder && other.setting == head.setting;
    trials.iter().filter_map(move |trial| trial.figures.iter().find(same))
}

/// One line per setting and coder, with the mean over the seeds and half the range where it matters.
pub(super) fn lines(trials: &[Trial]) -> Vec<Vec<String>> {
    let Some(first) = trials.first() else { return Vec::new() };
    let line = |head: &Figures| {
        let of = |figure: fn(&Figures) -> f64| of_seeds(trials, head).map(figure);
        vec![
            head.setting.clone(),
            head.coder.to_string(),
            head.choice.to_string(),
            rounded(mean(of(|f| f.cr.unwrap_or(f64::NAN))), 1).replace("NaN", "–"),
            rounded(mean(of(|f| f.bytes as f64)), 0),
            spread(of(|f| f.nmae), 4),
            spread(of(|f| f.nrmse), 4),
            rounded(mean(of(|f| f.necr as f64)), 0),
            rounded(mean(of(|f| f.objective)), 4),
            rounded(mean(of(|f| f.nonzeros as f64 / f.rows as f64)), 2),
            rounded(mean(of(|f| f.seconds)), 3),
        ]
    };
    first.figures.iter().map(line).collect()
}

pub(super) fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
    sum / f64::from(count.max(1))
}

fn rounded(value: f64, digits: usize) -> String {
    format!("{value:.digits$}")
}

/// The mean and, where there are several, half the range.
fn spread(values: impl Iterator<Item = f64> + Clone, digits: usize) -> String {
    let (low, high) = values
        .clone()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    let middle = rounded(mean(values), digits);
    if high > low { format!("{middle} ± {:.digits$}", (high - low) / 2.0) } else { middle }
}

/// What was compared, and what the figures mean.
pub(super) fn summary(arguments: &EvaluateArguments, tables: &Tables, trials: &[Trial]) -> Result<String> {
    let skipped = tables.train.skipped + tables.test.skipped;
    let left_out = if skipped > 0 {
        format!(" {skipped} rows with missing or unusable values were left out.")
    } else {
        String::new()
    };
    let first = trials.first().and_then(|trial| trial.figures.first());
    let baseline =
        to_vector_array(tables.test.values().to_vec(), tables.test.dim(), &vec![true; tables.test.len()])?;
    let baseline = parquet_bytes(&RecordBatch::try_from_iter([("v", baseline)])?)?;
    let sigma = trials.iter().flat_map(|trial| &trial.figures).find_map(|figures| figures.sigma);
    let sigma = sigma.filter(|_| !arguments.tune);
    let dictionaries = match arguments.tune {
        true => tuned(tables, trials),
        false => "cd has a linear dictionary of its own, so its objective does not compare.".to_string(),
    };
    Ok(format!(
        "{} rows of length {} judged ({} bytes as doubles, {baseline} as Parquet with zstd), {} learned from, {} atoms, \
         {} seed{}{}. Bytes are codes and dictionary as Parquet with zstd. CR counts two numbers per nonzero and no \
         dictionary. The objective is the sum over all rows of 1/2 ||phi(y) - phi(X) w||^2 + lambda ||w||_1 under the \
         dictionary's kernel, with the lambda that alone would give this ratio. {dictionaries}{left_out}",
        tables.test.len(),
        tables.test.dim(),
        8 * tables.test.values().len(),
        tables.train.len(),
        first.map_or(arguments.atoms, |figures| figures.atoms),
        trials.len(),
        if trials.len() == 1 { "" } else { "s (mean ± half the range)" },
        sigma.map_or(String::new(), |sigma| format!(", sigma {sigma:.4}")),
    ))
}

/// What was chosen for every coder, and how.
fn tuned(tables: &Tables, trials: &[Trial]) -> String {
    let mut chosen: Vec<String> = Vec::new();
    for figures in trials.iter().flat_map(|trial| &trial.figures) {
        let choice = format!("{} {}", figures.coder, figures.choice);
        if !chosen.contains(&choice) {
            chosen.push(choice);
        }
    }
    format!(
        "Kernel, width and penalty of learning were chosen for every coder on the last quarter of the {} rows to learn \
         from (2x: a sigma of twice the median distance; λ3x: three times the usual penalty): {}. Objectives of \
         different dictionaries do not compare.",
        tables.train.len(),
        chosen.join(", ")
    )
}

/// The lines in columns of equal width.
pub(super) fn table(arguments: &EvaluateArguments, tables: &Tables, trials: &[Trial]) -> Result<String> {
    let lines = lines(trials);
    let width = |column: usize| {
        let cells = lines.iter().map(|line| line[column].chars().count());
        cells.chain([COLUMNS[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..COLUMNS.len()).map(width).collect();
    let mut text = String::new();
    let mut write = |cells: &mut dyn Iterator<Item = &str>| -> Result<()> {
        for (column, (cell, width)) in cells.zip(&widths).enumerate() {
            let gap = if column == 0 { "" } else { "  " };
            // Names to the left, numbers to the right.
            match column {
                0..=2 => write!(text, "{gap}{cell:<width$}")?,
                _ => write!(text, "{gap}{cell:>width$}")?,
            }
        }
        Ok(writeln!(text)?)
    };
    write(&mut COLUMNS.into_iter())?;
    for line in &lines {
        write(&mut line.iter().map(String::as_str))?;
    }
    writeln!(text, "\n{}", summary(arguments, tables, trials)?)?;
    Ok(text)
}
