//! The figures as one page: rate against distortion, originals against reconstructions, atoms in use,
//! convergence, and the table.

use anyhow::Result;

use super::EvaluateArguments;
use super::input::Tables;
use super::report::{COLUMNS, lines, mean, of_seeds, summary};
use super::trial::{Figures, Trial};
use crate::cli::page::{BarChart, LineChart, Page, Series};

/// Sensors shown.
const SENSORS: usize = 4;
/// Rows shown of each.
const ROWS: usize = 600;
/// Coders whose reconstructions are shown: more lines would hide each other.
const CODERS: usize = 2;

pub(super) fn render(arguments: &EvaluateArguments, tables: &Tables, trials: &[Trial]) -> Result<String> {
    let mut page = Page::new(&format!("Evaluation of {}", arguments.table));
    page.paragraph(&summary(arguments, tables, trials)?);
    rates(&mut page, arguments, trials);
    if let Some(first) = trials.first() {
        reconstructions(&mut page, tables, first);
        atoms(&mut page, first);
    }
    convergence(&mut page, trials);
    page.heading("All figures");
    page.table(&COLUMNS, &lines(trials));
    Ok(page.render())
}

fn rates(page: &mut Page, arguments: &EvaluateArguments, trials: &[Trial]) {
    page.heading("Rate against distortion");
    let series = |x: fn(&Figures) -> f64, y: fn(&Figures) -> f64| {
        let of = |coder: &String| {
            let heads = trials.first().map_or(&[][..], |trial| &trial.figures).iter();
            let points = heads
                .filter(|head| head.coder == coder.as_str())
                .map(|head| (mean(of_seeds(trials, head).map(x)), mean(of_seeds(trials, head).map(y))));
            let mut points: Vec<(f64, f64)> = points.collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            Series { name: coder.clone(), points }
        };
        arguments.coders.iter().map(of).collect()
    };
    let chart = |title: &str, x_label: &str, y_label: &str, series: Vec<Series>| LineChart {
        title: title.to_string(),
        x_label: x_label.to_string(),
        y_label: y_label.to_string(),
        series,
        markers: true,
        ..LineChart::default()
    };
    let cr = "compression ratio (two numbers per nonzero)";
    page.line_chart(&chart("Mean absolute error", cr, "NMAE", series(ratio, |f| f.nmae)));
    page.line_chart(&chart("Root mean square error", cr, "NRMSE", series(ratio, |f| f.nrmse)));
    let bytes = series(|f| f.bytes as f64, |f| f.nmae);
    page.line_chart(&chart("Real bytes", "bytes with dictionary", "NMAE", bytes));
    let seconds = series(ratio, |f| f.seconds);
    page.line_chart(&LineChart {
        log_y: true,
        ..chart("Time of coding", cr, "seconds (logarithmic)", seconds)
    });
}

fn ratio(figures: &Figures) -> f64 {
    figures.cr.unwrap_or(f64::NAN)
}

fn reconstructions(page: &mut Page, tables: &Tables, trial: &Trial) {
    let Some(setting) = trial.figures.first().map(|figures| &figures.setting) else { return };
    page.heading(&format!("Originals and reconstructions at {setting}"));
    let (dim, rows) = (tables.test.dim(), tables.test.len().min(ROWS));
    let shown = SENSORS.min(dim);
    for sensor in (0..shown).map(|i| i * dim / shown) {
        let series = |name: &str, values: &[f64]| Series {
            name: name.to_string(),
            points: (0..rows).map(|row| (row as f64, values[row * dim + sensor])).collect(),
        };
        let original = series("original", tables.test.values());
        let shown = trial.pictures.iter().take(CODERS);
        let decoded = shown.map(|picture| series(picture.coder, &picture.decoded));
        page.line_chart(&LineChart {
            title: format!("Sensor {sensor}"),
            x_label: "row".to_string(),
            y_label: "value".to_string(),
            // Coders have the colours they have above.
            series: decoded.chain([original]).collect(),
            ..LineChart::default()
        });
    }
}

fn atoms(page: &mut Page, trial: &Trial) {
    page.heading("Atoms in use");
    for picture in &trial.pictures {
        let mut bars: Vec<f64> = picture.uses.iter().map(|uses| *uses as f64).collect();
        bars.sort_by(|a, b| b.total_cmp(a));
        page.bar_chart(&BarChart {
            title: picture.coder.to_string(),
            x_label: "atom, most used first".to_string(),
            y_label: "rows that use it".to_string(),
            bars,
        });
    }
}

fn convergence(page: &mut Page, trials: &[Trial]) {
    page.heading("Convergence of learning");
    let learners = trials.first().map_or(&[][..], |trial| &trial.learned);
    for (i, learner) in learners.iter().enumerate() {
        let learned =
            trials.iter().enumerate().filter_map(|(seed, trial)| Some((seed, trial.learned.get(i)?)));
        let series = learned.map(|(seed, learned)| Series {
            name: format!("seed {seed}"),
            points: (1u32..)
                .zip(learned.history())
                .map(|(round, progress)| (f64::from(round), progress.objective))
                .collect(),
        });
        page.line_chart(&LineChart {
            title: match learner.choice.is_tuned {
                true => learner.choice.to_string(),
                false => learner.learner().to_string(),
            },
            x_label: "round".to_string(),
            y_label: "objective".to_string(),
            series: series.collect(),
            markers: true,
            ..LineChart::default()
        });
    }
}
