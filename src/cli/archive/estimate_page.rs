//! An estimate as one page: bytes against errors, and sensors as they were and as they would come back.

use anyhow::Result;

use super::super::page::{LineChart, Page, Series};
use super::estimate::{COLUMNS, EstimateArguments, lines, summary};
use crate::archive::Estimate;

pub(super) fn render(arguments: &EstimateArguments, estimate: &Estimate) -> Result<String> {
    let mut page = Page::new(&format!("Estimate for {}", arguments.inputs.join(" ")));
    page.paragraph(&summary(estimate));
    page.paragraph(&arguments.verdict(estimate));
    page.heading("What it would take");
    page.table(&COLUMNS, &lines(estimate));
    page.heading("Bytes against errors");
    let mut points: Vec<(f64, f64)> = estimate
        .ladder
        .iter()
        .filter(|line| !line.stored_as_they_were)
        .map(|line| (100.0 * line.nmae, line.bytes as f64))
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (from, to) = (0.0, points.last().map_or(1.0, |point| point.0));
    let level = |name: &str, bytes: u64| Series {
        name: name.to_string(),
        points: vec![(from, bytes as f64), (to, bytes as f64)],
    };
    page.line_chart(&LineChart {
        title: "Trade-off".to_string(),
        x_label: "mean error, % of the mean absolute value".to_string(),
        y_label: "bytes (logarithmic)".to_string(),
        series: vec![
            Series { name: "sparrow".to_string(), points },
            level("the files as they are", estimate.source_bytes),
            level("Parquet + zstd", estimate.zstd_bytes),
            level("Parquet + byte-stream-split + zstd", estimate.byte_stream_split_bytes),
        ],
        log_y: true,
        markers: true,
        ..LineChart::default()
    });
    let shown = estimate.recommended.and_then(|line| estimate.ladder.get(line));
    if let Some(line) = shown.filter(|_| !estimate.examples.is_empty()) {
        page.heading(&format!(
            "Originals and what would come back at a mean error of {:.2} %",
            100.0 * line.nmae
        ));
    }
    for example in &estimate.examples {
        let series = |name: &str, values: &[f64]| Series {
            name: name.to_string(),
            points: values.iter().enumerate().map(|(row, value)| (row as f64, *value)).collect(),
        };
        page.line_chart(&LineChart {
            title: format!("Sensor {}", example.sensor),
            x_label: "signal".to_string(),
            y_label: "value".to_string(),
            series: vec![series("decoded", &example.decoded), series("original", &example.original)],
            ..LineChart::default()
        });
    }
    page.heading("Commands");
    for line in &estimate.ladder {
        page.paragraph(&arguments.command(estimate, line.aim));
    }
    Ok(page.render())
}
